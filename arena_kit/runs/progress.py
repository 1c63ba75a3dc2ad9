"""Progress of judging: a bar for people, a file for whoever watches a headless run."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from arena_kit.files import DataError, read_json, visible, write_json
from arena_kit.runs.record import Record, utc_now

FILE = "progress.json"


@dataclass(slots=True)
class Progress:
    """Shows how many verdicts there are, and what is being waited for."""

    record: Record
    bar: Any = None
    done: int = 0
    total: int = 0
    note: str = ""
    written: float = field(default_factory=time.monotonic)

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
        if self.bar is not None:
            self.bar.set_postfix_str(self.note)
        self._write()

    def _write(self) -> None:
        self.written = time.monotonic()
        now = {"verdicts": self.done, "of": self.total, "note": self.note, "at": utc_now()}
        write_json(self.record.path / FILE, now)


@contextmanager
def judging_progress(
    record: Record, *, unit: str = "verdict", shown: bool = True
) -> Iterator[Progress]:
    """A bar for interactive use; a headless record would keep it frozen at 0 %, so there the
    words go into a file, which the runner shows.
    """
    if record.attached or not shown:
        yield Progress(record)
    else:
        plain = importlib.util.find_spec("ipywidgets") is None  # tqdm.auto would warn about it
        bars = importlib.import_module("tqdm.std" if plain else "tqdm.auto")
        with bars.tqdm(desc=f"{unit}s", unit=unit) as bar:
            yield Progress(record, bar)
    (record.path / FILE).unlink(missing_ok=True)


@contextmanager
def watching(record: Record, *, shown: bool) -> Iterator[None]:
    """Show in the terminal what a kernel writes into its record's progress file."""
    if not shown:
        yield
        return
    from tqdm import tqdm

    stop = threading.Event()
    with tqdm(bar_format="{desc}", position=1, leave=False) as line:
        watcher = threading.Thread(target=_follow, args=(record, line, stop), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()


def _follow(record: Record, line: Any, stop: threading.Event) -> None:
    while not stop.wait(1.0):
        with suppress(DataError):  # the file comes and goes
            now = read_json(record.path / FILE)
            line.set_description_str(f"{now['verdicts']} of {now['of']} verdicts; {now['note']}")
