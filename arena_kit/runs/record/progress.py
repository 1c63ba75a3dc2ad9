"""Progress: a bar for a notebook, a file for whoever watches a headless run, a line in the
terminal.
"""

import importlib.util
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from arena_kit.files import DataError, read_json, visible, write_json
from arena_kit.runs.record.record import Record, find_root, utc_now

FILE = "progress.json"
#: Seconds after which a command that rates says that it is at work.
PATIENCE = 2.0
#: Seconds between two lines of a run whose output is not a terminal.
LINE_EVERY = 10.0
_CLEARED = "\r\x1b[K"  # back to the line's first column, and erase it whole


@dataclass(slots=True)
class Progress:
    """Shows how many verdicts there are, what they have cost, and what is being waited for."""

    record: Record
    bar: Any = None
    done: int = 0
    total: int = 0
    note: str = ""
    written: float = 0.0
    unit: str = "verdict"

    def show(self, done: int, total: int) -> None:
        """So many verdicts of so many are there."""
        self.done, self.total = done, total
        if self.bar is not None:
            self.bar.total = total
            self.bar.update(done - self.bar.n)
        if time.monotonic() - self.written > 1.0:
            self._write()

    def say(self, text: str) -> None:
        """What is being waited for, in words."""
        self.note = visible(text)
        self._write()

    def _write(self) -> None:
        self.written = time.monotonic()
        now = {
            "verdicts": self.done,
            "of": self.total,
            "unit": self.unit,
            "usd": _spent(self.record),
            "note": self.note,
            "at": utc_now(),
        }
        if self.bar is not None:
            self.bar.set_postfix_str(_beside(now))
        write_json(self.record.path / FILE, now)


def _spent(record: Record) -> float:
    """US dollars that a run has paid so far."""
    from arena_kit.judging.ledger.ledger import Ledger

    tournament = record.read().get("tournament")
    if tournament is None:
        return 0.0
    return Ledger(find_root() / tournament["verdicts"]).spent(record.token)


def _beside(now: dict[str, Any]) -> str:
    """What is said beside the count of verdicts: what was paid, and what is waited for."""
    from arena_kit.judging.asking.cost import dollars

    paid = f"{dollars(now['usd'])} spent" if now["usd"] else ""
    return "; ".join(filter(None, [paid, now["note"]]))


@contextmanager
def judging_progress(
    record: Record, *, unit: str = "verdict", shown: bool = True
) -> Iterator[Progress]:
    """A bar for interactive use; a headless record would keep it frozen at 0 %, so there the
    words go into a file, which the runner shows.
    """
    if record.attached or not shown:
        yield Progress(record, unit=unit)
    else:
        plain = importlib.util.find_spec("ipywidgets") is None  # tqdm.auto would warn about it
        bars = importlib.import_module("tqdm.std" if plain else "tqdm.auto")
        with bars.tqdm(desc=f"{unit}s", unit=f" {unit}s", dynamic_ncols=True) as bar:
            yield Progress(record, bar, unit=unit)
    (record.path / FILE).unlink(missing_ok=True)


def kernel_state(record: Record) -> str:
    """How far the kernel of a record is, in words; while it judges, its file says so."""
    try:
        now = read_json(record.path / FILE)
    except DataError:
        return "running the notebook"
    counted = f"{now['verdicts']:,} of {now['of']:,} {now['unit']}s" if now["of"] else ""
    return "; ".join(filter(None, [counted, _beside(now)])) or "judging"


@contextmanager
def status_line(
    words: Callable[[], str], *, after: float = 0.0, shown: bool | None = None, lines: bool = False
) -> Iterator[None]:
    """One line on stderr that says how long something has been going on, and what; it comes after
    some seconds and is gone in the end. By default it is shown where stderr is a terminal;
    elsewhere plain `lines` may be written, for a log.
    """
    terminal = sys.stderr.isatty() if shown is None else shown
    if not (terminal or lines):
        yield
        return
    stop, write = threading.Event(), _keep_line if terminal else _write_lines
    line = threading.Thread(target=write, args=(words, after, stop), daemon=True)
    line.start()
    try:
        yield
    finally:
        stop.set()
        line.join()


def _write_lines(words: Callable[[], str], _after: float, stop: threading.Event) -> None:
    """A line every now and then, where there is something new to say."""
    said = ""
    while not stop.wait(LINE_EVERY):
        if (text := visible(words()).replace("\n", " ")) != said:
            said = text
            print(text, file=sys.stderr, flush=True)  # noqa: T201


def _keep_line(words: Callable[[], str], after: float, stop: threading.Event) -> None:
    from tqdm.utils import disp_trim

    began = time.monotonic()
    if stop.wait(after):
        return
    while True:
        minutes, seconds = divmod(int(time.monotonic() - began), 60)
        columns = shutil.get_terminal_size().columns - 1  # a full line would wrap
        text = visible(f"{minutes}:{seconds:02} {words()}").replace("\n", " ")
        print(_CLEARED + disp_trim(text, columns), end="", file=sys.stderr, flush=True)  # noqa: T201
        if stop.wait(0.5):
            break
    print(_CLEARED, end="", file=sys.stderr, flush=True)  # noqa: T201
