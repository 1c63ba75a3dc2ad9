"""What a format is: how a file of it is recognised, and how its columns become ours; our own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from arena_kit.battles.battle import read_outcome
from arena_kit.battles.log import TEXT_COLUMNS
from arena_kit.battles.tabular import column_name, quoted
from arena_kit.files import DataError

Expressions = Mapping[str, str]
#: Columns that a battle may lack, and what was said in it.
OPTIONAL = (*TEXT_COLUMNS, "battle_id", "timestamp", "weight", "inconsistent", "share_a")
TEXTS = ("prompt", "response_a", "response_b", "language", "turns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """Another tool's file, and what its columns are in ours.

    Expressions are SQL over the file's columns, which all arrive as text (lists and structs as
    JSON text), NULL where a file leaves one out.

    Parameters
    ----------
    name, title
        What `--format` takes, and what people call it; docs/formats.md has the version read.
    needs, also
        The columns it is recognised by, and further ones that its expressions use. Of several
        formats that a file could be, the one that needs most is meant.
    battles, texts
        Our columns, each an expression: those of a battle, and what was said in it (prompt,
        response_a, response_b, language, turns), which is computed only when it is asked for.
    rows, row
        Where one row of the file is not one battle: the rows to read, as SQL over the table
        `file`, and an expression for the `rowid` in `file` that errors are told by.
    refused
        Rows of `file` that are wrong: what is said of the first of them, and the condition.
    left_out
        Rows that are no battle: the words that follow their number, and the condition.
    load
        Reads a file that is no table, such as a database: the columns of `file` by name.
    note
        What a reader of ratings has to know about all files of the format.
    """

    name: str
    title: str
    needs: tuple[str, ...]
    also: tuple[str, ...] = ()
    battles: Expressions
    texts: Expressions = field(default_factory=dict)
    rows: str = "file"
    row: str = "rowid"
    refused: Expressions = field(default_factory=dict)
    left_out: Expressions = field(default_factory=dict)
    load: Callable[[Path], Mapping[str, NDArray[Any]]] | None = None
    note: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that may be read."""
        return (*self.needs, *self.also)

    @property
    def row_by_row(self) -> bool:
        """Whether each row of the file is one battle, so that it need not be kept."""
        return self.rows == "file" and not self.refused and not self.left_out


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which columns of a file are the battle's, and what its labels of outcomes mean, where a
    file is in no known format. A label that means the empty text is no outcome: its rows are
    left out and counted.
    """

    model_a: str = "model_a"
    model_b: str = "model_b"
    winner: str = "winner"
    question: str = "question_id"
    voter: str = "voter"
    values: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for label, outcome in self.values.items():
            try:
                read_outcome(outcome or "tie")
            except DataError as error:
                raise DataError(f"value {label!r}: {error}") from None

    def __bool__(self) -> bool:
        """Whether anything is mapped."""
        return self != Columns()

    def outcome(self) -> str:
        """The expression of the outcome."""
        cell = column_name(self.winner)
        cases = [f"WHEN {quoted(x)} THEN {quoted(y)}" for x, y in self.values.items() if y]
        return f"CASE {cell} {' '.join(cases)} ELSE {cell} END" if cases else cell

    def no_outcome(self) -> Expressions:
        """The rows whose label is no outcome, as `Format.left_out`."""
        cell, labels = column_name(self.winner), [x for x, y in self.values.items() if not y]
        return {f"rows with {self.winner} {x!r}": f"{cell} = {quoted(x)}" for x in labels}


def mapped(columns: Columns) -> Format:
    """Our format with some columns under other names."""
    named = {"question_id": columns.question, "voter": columns.voter}
    optional = {name: named.get(name, name) for name in OPTIONAL}
    asked = [name for name in named.values() if name not in OPTIONAL]
    return Format(
        name="arena-kit",
        title="columns as they were named" if columns else "battles under our own names",
        needs=(columns.model_a, columns.model_b, columns.winner, *asked),
        also=(*optional.values(), *TEXTS),
        battles={
            "model_a": column_name(columns.model_a),
            "model_b": column_name(columns.model_b),
            "winner": columns.outcome(),
            **{name: column_name(column) for name, column in optional.items()},
        },
        texts={name: column_name(name) for name in TEXTS},
        left_out=columns.no_outcome(),
    )


OWN = mapped(Columns())


def same(*names: str) -> dict[str, str]:
    """Columns that a file has under our names."""
    return {name: name for name in names}
