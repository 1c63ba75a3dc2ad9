"""A record to work with: its artifacts as frames, its figures and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_kit.battles.display import html_facts
from arena_kit.battles.log import BattleLog
from arena_kit.battles.read import BattleTexts
from arena_kit.files import DataError, read_lines
from arena_kit.judging.judges.replay import ReplayJudge
from arena_kit.judging.verdicts.records import Judgment
from arena_kit.reporting.board import FILE as BOARD
from arena_kit.reporting.board import Board
from arena_kit.runs.record.compare import Comparison, compare_records
from arena_kit.runs.record.inputs import battles_of, record_texts
from arena_kit.runs.record.record import find_root, in_short, open_record
from arena_kit.site.build import build_site
from arena_kit.site.overview import overview, reading
from arena_kit.site.pages import RunPage, reader_page
from arena_kit.site.reading import Reading, reading_of

if TYPE_CHECKING:
    import pandas as pd
    from IPython.display import Image

_PIXELS_PER_WIDTH = 1.6  # figures are saved with 160 dots per 100 shown


def open_run(path: str | Path) -> OpenedRun:
    """A run record as an object, for notebooks: `open_run("runs/pilot_…").board`.

    A relative path is looked for here and then in the workspace.
    """
    folder = Path(path)
    if not folder.exists() and not folder.is_absolute():
        folder = find_root() / folder
    return OpenedRun(folder, open_record(folder))


@dataclass(frozen=True, repr=False)
class OpenedRun:
    """A run record; what it holds is read when it is first asked for, and nothing is changed.

    What a record does not have is a `DataError` that names what it has.
    """

    path: Path
    manifest: dict[str, Any]

    def __repr__(self) -> str:
        mode, status = (self.manifest.get(name) for name in ("mode", "status"))
        return f"OpenedRun({self.path.name}: {mode}, {status})"

    def _repr_html_(self) -> str:
        facts = in_short(self.manifest) | {
            "artifacts": ", ".join(self.artifacts),
            "figures": ", ".join(self.figures) or None,
        }
        return html_facts(facts, title=f"Record {self.path.name}")

    @property
    def artifacts(self) -> list[str]:
        """The files of the record, its figures and inputs apart."""
        apart = ("figures", "inputs")
        files = (p.relative_to(self.path) for p in self.path.rglob("*") if p.is_file())
        return sorted(str(f) for f in files if f.parts[0] not in apart and f.parts[0][0] != ".")

    @cached_property
    def log(self) -> BattleLog:
        """The battles as every rating method takes them."""
        self._file("battles.jsonl")
        return battles_of(self.path)

    @cached_property
    def battles(self) -> pd.DataFrame:
        """The battles, a row each."""
        return self.log.to_frame()

    @cached_property
    def board(self) -> Board:
        """The board: ratings, intervals and claims of every dimension."""
        return Board.read(self._file(BOARD))

    @property
    def bradley_terry(self) -> pd.DataFrame:
        """Bradley–Terry's ratings with intervals and rank ranges: what claims rest on."""
        return self._method("bradley_terry")

    @property
    def elo(self) -> pd.DataFrame:
        """Elo beside them: mean, Monte-Carlo error of the shuffled orders, evidence interval."""
        return self._method("elo")

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """Every verdict, a row per presentation, raw texts included."""
        files = sorted((self.path / "verdicts").glob("*.jsonl"))
        if not files:
            raise self._lacks("verdicts")
        return _frame([row for file in files for _, row in read_lines(file)])

    @cached_property
    def judgments(self) -> list[Judgment]:
        """Both orders of every pair, settled."""
        if not (self.path / "verdicts").is_dir():
            raise self._lacks("verdicts")
        return ReplayJudge.from_record(self.path).judgments()

    @property
    def gate(self) -> pd.DataFrame:
        """What was found of the judge, worst first; level and sentence are in `attrs`."""
        gate = self.board.gate
        if gate is None:
            raise self._lacks("judge")
        frame = _frame(gate.findings)
        frame.attrs = {"judge": gate.judge, "level": gate.level, "sentence": gate.sentence}
        return frame

    @property
    def figures(self) -> list[str]:
        """The names of the record's figures."""
        return sorted(file.stem for file in (self.path / "figures").glob("*.png"))

    def texts(self) -> tuple[BattleLog, BattleTexts]:
        """The battles, and what was said in each, row by row."""
        return record_texts(self.path)

    def browse(
        self,
        *,
        entrant: str = "",
        dimension: str = "",
        outcome: str = "",
        text: str = "",
        most: int = 500,
    ) -> BattleReader:
        """The site's reader in a cell: `most` battles of an entrant, on a dimension, of an outcome
        (`model_a`, `model_b`, `decided`, `tie`, `both_bad`, `inconsistent`, `incomplete`), and with
        these words in them. It has the same filters to click.
        """
        wanted = {"entrant": entrant, "dimension": dimension, "outcome": outcome, "text": text}
        found = reading_of(self.path).only(**wanted)
        left_out = max(0, len(found.battles) - most)
        return BattleReader(self.path, found.of(found.battles[:most]), left_out)

    def battle(self, battle_id: str) -> BattleReader:
        """One battle: the prompt, both responses side by side, and what the judge said of them."""
        found = reading_of(self.path)
        return BattleReader(self.path, found.of([found.battle(battle_id)]))

    def compare(self, other: OpenedRun | str | Path) -> Comparison:
        """What changed from this record to another one."""
        after = other if isinstance(other, OpenedRun) else open_run(other)
        with reading(after.path), reading(self.path):
            return compare_records(self.path, after.path)

    def write_site(self, out: str | Path, *others: str | Path) -> Path:
        """Make the static site of this record, and of others beside it; gives its first page."""
        return build_site([self.path, *(open_run(each).path for each in others)], Path(out)).index

    def figure(self, name: str) -> Image:
        """A figure of the record, which a notebook shows."""
        from IPython.display import Image

        if name not in self.figures:
            known = ", ".join(self.figures) or "none"
            raise DataError(f"{self.path}: no figure {name!r}; there: {known}")
        file = self.path / "figures" / f"{name}.png"
        with file.open("rb") as png:
            width = int.from_bytes(png.read(20)[16:], "big")  # of the IHDR chunk
        shown = round(width / _PIXELS_PER_WIDTH)
        alt = name.replace("_", " ")
        return Image(filename=file, width=shown, alt=alt)  # type: ignore[no-untyped-call]

    @property
    def report(self) -> Path:
        """The report, to be opened in a browser."""
        return self._file("report.html")

    def _file(self, name: str) -> Path:
        if not (self.path / name).is_file():
            raise self._lacks(name)
        return self.path / name

    def _method(self, name: str) -> pd.DataFrame:
        frame = self.board.to_frame(name)
        if frame.empty:
            raise self._lacks(f"ratings by {name}")
        return frame

    def _lacks(self, name: str) -> DataError:
        mode, there = self.manifest.get("mode"), ", ".join(self.artifacts) or "nothing"
        return DataError(f"{self.path}: this record of {mode} has no {name}; it has: {there}")


@dataclass(frozen=True, repr=False)
class BattleReader:
    """Battles of a record to read, with their texts and what the judge said: a notebook shows the
    site's reader of them in a frame that reaches nothing outside of it.
    """

    path: Path
    reading: Reading
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.reading.battles)

    def __repr__(self) -> str:
        more = f", {self.left_out:,} more left out (most)" if self.left_out else ""
        n = "1 battle" if len(self) == 1 else f"{len(self):,} battles"
        return f"BattleReader({n} of {self.path.name}{more})"

    def _repr_html_(self) -> str:
        page = reader_page(RunPage(run=overview(self.path), reading=self.reading))
        height = 560 if len(self) == 1 else 760
        about = escape(repr(self))
        return (
            f'<div><iframe sandbox="allow-scripts" title="{about}" srcdoc="{escape(page)}" '
            f'style="width: 100%; height: {height}px; border: 1px solid #d8dee4"></iframe>'
            f"<div><small>{about}</small></div></div>"
        )


def _frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(list(rows))
