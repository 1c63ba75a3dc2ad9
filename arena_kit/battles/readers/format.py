"""What a format is: how a file of it is recognised, and how its rows become battles; our own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from arena_kit.battles import tabular
from arena_kit.battles.battle import plain_name, read_outcome
from arena_kit.battles.log import TEXT_COLUMNS
from arena_kit.battles.tabular import Connection, column_name, listed, place_of, quoted
from arena_kit.files import DataError

Expressions = Mapping[str, str]
#: Columns that a battle may lack, and what was said in it.
OPTIONAL = (*TEXT_COLUMNS, "battle_id", "timestamp", "weight", "inconsistent", "share_a")
TEXTS = ("prompt", "response_a", "response_b", "language", "turns")


class RowError(DataError):
    """A complaint about one row, counted from 0; it may end in another row that it names."""

    def __init__(self, row: int, message: str, other: int | None = None) -> None:
        super().__init__(message)
        self.rows = [row] if other is None else [row, other]

    def sentence(self, path: Path | None, rows: Sequence[int]) -> str:
        """The sentence, with the place of each row in a file or, without one, in a frame."""
        where = [f"{path}{place_of(path, r)}" if path else f"the frame row {r}" for r in rows]
        return " ".join([f"{where[0]}: {self}", *where[1:]])


def refuse(con: Connection, column: str, wrong: str, sentence: str, table: str = "raw") -> None:
    """Raise for the first row of a table that is wrong, if there is one; the sentence may have a
    place for its value of a column.
    """
    query = f"SELECT rowid, {column} FROM {table} WHERE {wrong} ORDER BY rowid LIMIT 1"
    if (row := con.execute(query).fetchone()) is not None:
        raise RowError(row[0], sentence.format(str(row[1])[:60]))


class Table(NamedTuple):
    """What stands after FROM, and the type of each column there."""

    query: str
    kinds: Mapping[str, str]

    def as_text(self, columns: Iterable[str], *as_they_are: str) -> str:
        """A query of some columns as text, and of others as they are."""
        texts = [_text(column_name(name), self.kinds.get(name)) for name in columns]
        return f"SELECT {', '.join([*texts, *as_they_are])} FROM {self.query}"


def _text(column: str, kind: str | None) -> str:
    """A column as text: JSON where it is nested, NULL where it is not there."""
    if kind is None:
        return f"NULL::VARCHAR AS {column}"
    if kind == "VARCHAR":
        return column
    nested = kind.endswith("]") or kind.startswith(("STRUCT", "MAP"))
    return f"CAST({f'to_json({column})' if nested else column} AS VARCHAR) AS {column}"


@dataclass(frozen=True, slots=True)
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
    _: KW_ONLY
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
    def row_by_row(self) -> bool:
        """Whether each row of the file is one battle, so that it need not be kept."""
        return self.rows == "file" and not self.refused and not self.left_out

    def used(self, chosen: Expressions) -> list[str]:
        """The columns of a file that expressions speak of; a conversation is long, so it is left
        unread where nobody asks.
        """
        conditions = (*self.refused.values(), *self.left_out.values())
        named = self._named_in(" ".join([*chosen.values(), *conditions, self.rows]))
        given = [name.removeprefix("by ") for name in chosen]
        plain = [name for name in given if column_name(name) in chosen.values()]
        return list(dict.fromkeys([*named, *plain]))

    def _named_in(self, words: str) -> list[str]:
        def named(column: str) -> bool:
            plain = rf"(?<!\w){re.escape(column)}(?!\w)"
            return column_name(column) in words or re.search(plain, words) is not None

        return [column for column in (*self.needs, *self.also) if named(column)]

    def values(self, chosen: Expressions) -> list[str]:
        """Our columns as text, each an expression of SQL; those of the file are."""
        return [
            name if value == name else f"CAST({value} AS VARCHAR) AS {name}"
            for name, value in ((column_name(each), chosen[each]) for each in chosen)
        ]

    def kept(self) -> str:
        """The condition on a row that is a battle."""
        out = [f"NOT coalesce({condition}, false)" for condition in self.left_out.values()]
        return " AND ".join(["true", *out])

    def table(self, con: Connection, path: Path, chosen: Expressions, longest: int) -> Table:
        """What DuckDB reads a file as: a table function, or the columns that the format loads.
        Rows of JSON may be of up to `longest` bytes.
        """
        if self.load is not None:
            con.register("loaded", dict(self.load(path)))
            return Table("loaded", tabular.types_of(con, "loaded"))
        columns = self.used(chosen)
        query = tabular.loaded(con, path) or tabular.table_of(path, columns, longest=longest)
        if tabular.kind_of(path) in ("jsonl", "json"):
            return Table(query, dict.fromkeys(columns, "VARCHAR"))
        return Table(query, tabular.types_of(con, query))

    def lay_out(self, con: Connection, table: Table, chosen: Expressions) -> dict[str, int]:
        """Make the table `raw` of the chosen columns that the file has, a row per battle; the rows
        that are left out are counted.

        Where rows of `raw` are not those of the file, its column `file_row` says which they are.
        """
        absent = [name for name in self.used(chosen) if name not in table.kinds]
        if missing := [name for name in self.needs if name in absent]:
            raise DataError(f"missing column {', '.join(missing)}; found: {listed(table.kinds)}")
        hidden = {column_name(name) for name in absent}
        there = {name: value for name, value in chosen.items() if value not in hidden}
        file, values = table.as_text(self.used(there)), ", ".join(self.values(there))
        if self.row_by_row:
            con.execute(f"CREATE TEMP TABLE raw AS SELECT {values} FROM ({file}) AS file")
            return {}
        con.execute(f"CREATE TEMP TABLE file AS {file}")
        for sentence, condition in self.refused.items():
            refuse(con, "''", condition, sentence, "file")
        kept = f"SELECT {values}, {self.row} AS file_row FROM {self.rows} WHERE {self.kept()}"
        con.execute(f"CREATE TEMP TABLE raw AS {kept}")
        counts = [f"count(*) FILTER ({condition})" for condition in self.left_out.values()]
        query = f"SELECT {', '.join(['count(*)', *counts])} FROM {self.rows}"
        _, *numbers = con.execute(query).fetchall()[0]
        return {reason: n for reason, n in zip(self.left_out, numbers, strict=True) if n}

    def broken_row(self, con: Connection, table: Table, chosen: Expressions) -> RowError | None:
        """The first row on which an expression fails, such as a conversation that is not JSON."""
        rows, row = self.rows, self.row
        if self.row_by_row:
            file, row = table.as_text(self.used(chosen)), "file_row"
            rows = f"(SELECT *, row_number() OVER () - 1 AS file_row FROM ({file}))"
        for name, value in chosen.items():
            works = f"TRY(coalesce(CAST({value} AS VARCHAR), ''))"
            query = f"SELECT {row} AS n FROM {rows} WHERE {works} IS NULL ORDER BY n LIMIT 1"
            if (first := con.execute(query).fetchone()) is not None:
                sources = ", ".join(self._named_in(value))
                return RowError(first[0], f"{name} cannot be read from {sources}")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which columns of a file are the battle's, and what its labels of outcomes mean, where a
    file is in no known format. A label that means `name` is the name of the winner. One that means
    the empty text is no outcome: its rows are left out and counted.
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
                read_outcome("tie" if outcome in ("", "name") else outcome)
            except DataError as error:
                raise DataError(f"value {label!r}: {error}") from None

    def __bool__(self) -> bool:
        """Whether anything is mapped."""
        return self != Columns()

    def outcome(self) -> str:
        """The expression of the outcome."""
        cell, a, b = map(column_name, (self.winner, self.model_a, self.model_b))
        name = f"CASE {cell} WHEN {a} THEN 'model_a' WHEN {b} THEN 'model_b' END"
        means = {x: name if y == "name" else quoted(y) for x, y in self.values.items() if y}
        cases = [f"WHEN {quoted(x)} THEN {y}" for x, y in means.items()]
        return f"CASE {cell} {' '.join(cases)} ELSE {cell} END" if cases else cell

    def no_outcome(self) -> Expressions:
        """The rows whose label is no outcome, as `Format.left_out`."""
        cell, labels = column_name(self.winner), [x for x, y in self.values.items() if not y]
        return {f"rows with {self.winner} {x!r}": f"{cell} = {quoted(x)}" for x in labels}


def mapped(columns: Columns, present: Sequence[str] = ()) -> Format:
    """Our format with some columns under other names: those that are named, and those of a file's
    own that differ from ours in case, or have something else for `_`.
    """
    spelled = {plain_name(each): each for each in reversed(present)}
    spelled = {"question_id": spelled.get("question", "question_id")} | spelled

    def there(name: str) -> str:
        return name if name in present else spelled.get(plain_name(name), name)

    named = {"question_id": columns.question, "voter": columns.voter}
    sides = [there(each) for each in (columns.model_a, columns.model_b, columns.winner)]
    optional = {name: there(named.get(name, name)) for name in OPTIONAL}
    texts = {name: there(name) for name in TEXTS}
    own = Columns(model_a=sides[0], model_b=sides[1], winner=sides[2], values=columns.values)
    return Format(
        "arena-kit",
        "columns as they were named" if columns else "battles under our own names",
        needs=(*sides, *(there(name) for name in named.values() if name not in OPTIONAL)),
        also=(*optional.values(), *texts.values()),
        battles={
            "model_a": column_name(own.model_a),
            "model_b": column_name(own.model_b),
            "winner": own.outcome(),
            **{name: column_name(column) for name, column in optional.items()},
        },
        texts={name: column_name(column) for name, column in texts.items()},
        left_out=own.no_outcome(),
    )


OWN = mapped(Columns())


def same(*names: str) -> dict[str, str]:
    """Columns that a file has under our names."""
    return {name: name for name in names}


def outcome_of(column: str, otherwise: str = "'tie'", **words: str) -> str:
    """The expression of the outcome for a column with one word for each."""
    cases = " ".join(f"WHEN '{word}' THEN '{outcome}'" for outcome, word in words.items())
    return f"CASE {column} {cases} ELSE {otherwise} END"
