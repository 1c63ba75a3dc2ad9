"""From a file in some format to the table `raw`: a row per battle, our columns, all text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from arena_kit.battles.readers.format import Expressions, Format
from arena_kit.battles.tabular import (
    Connection,
    column_name,
    kind_of,
    listed,
    place_of,
    table_of,
    types_of,
)
from arena_kit.files import DataError


class RowError(DataError):
    """A complaint about one row, counted from 0; it may end in another row that it names."""

    def __init__(self, row: int, message: str, other: int | None = None) -> None:
        super().__init__(message)
        self.rows = [row] if other is None else [row, other]

    def sentence(self, path: Path | None, rows: Sequence[int]) -> str:
        """The sentence, with the place of each row in a file or, without one, in a frame."""
        where = [f"{path}{place_of(path, r)}" if path else f"the frame row {r}" for r in rows]
        return " ".join([f"{where[0]}: {self}", *where[1:]])


class Table(NamedTuple):
    """What stands after FROM, and the type of each column there."""

    query: str
    kinds: Mapping[str, str]


def table_in(con: Connection, path: Path, fmt: Format, chosen: Expressions, longest: int) -> Table:
    """What DuckDB reads a file as: a table function, or the columns that the format loads. Rows of
    JSON may be of up to `longest` bytes.
    """
    if fmt.load is not None:
        con.register("loaded", dict(fmt.load(path)))
        return Table("loaded", types_of(con, "loaded"))
    columns = used(fmt, chosen)
    query = table_of(path, columns, longest=longest)
    if kind_of(path) in ("jsonl", "json"):
        return Table(query, dict.fromkeys(columns, "VARCHAR"))
    return Table(query, types_of(con, query))


def used(fmt: Format, chosen: Expressions) -> list[str]:
    """The columns of a file that expressions speak of; a conversation is long, so it is left
    unread where nobody asks.
    """
    conditions = (*fmt.refused.values(), *fmt.left_out.values())
    words = " ".join([*chosen.values(), *conditions, fmt.rows])
    named = [name for name in fmt.columns if _names(words, name)]
    covariates = [name for name in chosen if chosen[name] == column_name(name)]
    return list(dict.fromkeys([*named, *covariates]))


def _names(words: str, column: str) -> bool:
    plain = rf"(?<!\w){re.escape(column)}(?!\w)"
    return column_name(column) in words or re.search(plain, words) is not None


def lay_out(con: Connection, table: Table, fmt: Format, chosen: Expressions) -> dict[str, int]:
    """Make the table `raw` of the chosen columns that the file has; the rows that are left out
    are counted.

    Where rows of `raw` are not those of the file, its column `file_row` says which they are.
    """
    absent = [name for name in used(fmt, chosen) if name not in table.kinds]
    if missing := [name for name in fmt.needs if name in absent]:
        raise DataError(f"missing column {', '.join(missing)}; found: {listed(table.kinds)}")
    hidden = {column_name(name) for name in absent}
    there = {name: value for name, value in chosen.items() if value not in hidden}
    file = _file(table, fmt, there)
    values = ", ".join(text_value(name, value) for name, value in there.items())
    if fmt.row_by_row:
        con.execute(f"CREATE TEMP TABLE raw AS SELECT {values} FROM ({file}) AS file")
        return {}
    con.execute(f"CREATE TEMP TABLE file AS {file}")
    _refuse(con, fmt.refused)
    out = [f"coalesce({condition}, false)" for condition in fmt.left_out.values()]
    either = " OR ".join(["false", *out])
    kept = f"SELECT {values}, {fmt.row} AS file_row FROM {fmt.rows} WHERE NOT ({either})"
    con.execute(f"CREATE TEMP TABLE raw AS {kept}")
    counts = ", ".join(["count(*)", *(f"count(*) FILTER ({condition})" for condition in out)])
    _, *numbers = con.execute(f"SELECT {counts} FROM {fmt.rows}").fetchall()[0]
    return {reason: n for reason, n in zip(fmt.left_out, numbers, strict=True) if n}


def broken_row(con: Connection, table: Table, fmt: Format, chosen: Expressions) -> RowError | None:
    """The first row on which an expression fails, such as a conversation that is not JSON."""
    rows, row = fmt.rows, fmt.row
    if fmt.row_by_row:
        file = _file(table, fmt, chosen)
        rows, row = f"(SELECT *, row_number() OVER () - 1 AS file_row FROM ({file}))", "file_row"
    for name, value in chosen.items():
        works = f"TRY(coalesce(CAST({value} AS VARCHAR), ''))"
        query = f"SELECT {row} AS n FROM {rows} WHERE {works} IS NULL ORDER BY n LIMIT 1"
        if (first := con.execute(query).fetchone()) is not None:
            return RowError(first[0], f"{name} cannot be read from {', '.join(_of(fmt, value))}")
    return None


def _of(fmt: Format, value: str) -> list[str]:
    return [name for name in fmt.columns if _names(value, name)]


def _file(table: Table, fmt: Format, chosen: Expressions) -> str:
    return f"SELECT {text_columns(used(fmt, chosen), table.kinds)} FROM {table.query}"


def text_value(name: str, expression: str) -> str:
    """A column of ours as text; those of the file are."""
    column = column_name(name)
    return column if expression == column else f"CAST({expression} AS VARCHAR) AS {column}"


def _refuse(con: Connection, refused: Expressions) -> None:
    """Raise for the first row of `file` that is wrong, if there is one."""
    for sentence, condition in refused.items():
        query = f"SELECT rowid FROM file WHERE {condition} ORDER BY rowid LIMIT 1"
        if (row := con.execute(query).fetchone()) is not None:
            raise RowError(row[0], sentence)


def file_rows(con: Connection, rows: Iterable[int]) -> list[int]:
    """The rows of the file that rows of `raw` come from."""
    if "file_row" not in types_of(con, "raw"):
        return list(rows)
    query = "SELECT file_row FROM raw WHERE rowid = ?"
    return [con.execute(query, [row]).fetchall()[0][0] for row in rows]


def text_columns(names: Iterable[str], kinds: Mapping[str, str]) -> str:
    """Columns of a file as text, in a query."""
    return ", ".join(_text(column_name(name), kinds.get(name)) for name in names)


def _text(column: str, kind: str | None) -> str:
    """A column as text: JSON where it is nested, NULL where it is not there."""
    if kind is None:
        return f"NULL::VARCHAR AS {column}"
    if kind == "VARCHAR":
        return column
    nested = kind.endswith("]") or kind.startswith(("STRUCT", "MAP"))
    return f"CAST({f'to_json({column})' if nested else column} AS VARCHAR) AS {column}"
