"""From a file in some format to the table `raw`: a row per battle, our columns, all text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import duckdb

from arena_kit.battles.readers.format import Expressions, Format
from arena_kit.battles.tabular import column_name, table_of, types_of
from arena_kit.files import DataError


def table_in(con: duckdb.DuckDBPyConnection, path: Path, fmt: Format, chosen: Expressions) -> str:
    """What DuckDB reads a file as: a table function, or the columns that the format loads."""
    if fmt.load is None:
        return table_of(path, used(fmt, chosen))
    con.register("loaded", dict(fmt.load(path)))
    return "loaded"


def used(fmt: Format, chosen: Expressions) -> list[str]:
    """The columns of a file that expressions speak of; a conversation is long, so it is left
    unread where nobody asks.
    """
    words = " ".join([*chosen.values(), *fmt.left_out.values(), fmt.rows])
    named = [name for name in fmt.columns if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", words)]
    quoted = [name for name in chosen if chosen[name] == column_name(name)]
    return list(dict.fromkeys([*named, *quoted]))


def lay_out(
    con: duckdb.DuckDBPyConnection, table: str, fmt: Format, chosen: Expressions
) -> dict[str, int]:
    """Make the table `raw` of the chosen columns; the rows that are left out are counted.

    Where rows of `raw` are not those of the file, its column `file_row` says which they are.
    """
    kinds = types_of(con, table)
    if missing := [name for name in fmt.needs if name not in kinds and name in used(fmt, chosen)]:
        raise DataError(f"missing column {', '.join(missing)}; found: {', '.join(kinds)}")
    file = f"SELECT {_texts(used(fmt, chosen), kinds)} FROM {table}"
    values = ", ".join(f"CAST({x} AS VARCHAR) AS {column_name(n)}" for n, x in chosen.items())
    if fmt.rows == "file" and not fmt.left_out:
        con.execute(f"CREATE TEMP TABLE raw AS SELECT {values} FROM ({file}) AS file")
        return {}
    con.execute(f"CREATE TEMP TABLE file AS {file}")
    conditions = [f"coalesce({condition}, false)" for condition in fmt.left_out.values()]
    kept = f"WHERE NOT ({' OR '.join(conditions)})" if conditions else ""
    con.execute(
        f"CREATE TEMP TABLE raw AS SELECT {values}, {fmt.row} AS file_row FROM {fmt.rows} {kept}"
    )
    counts = ", ".join(f"count(*) FILTER ({condition})" for condition in conditions)
    numbers = con.execute(f"SELECT {counts or '0'} FROM {fmt.rows}").fetchone() or ()
    return {told: n for told, n in zip(fmt.left_out, numbers, strict=False) if n}


def file_rows(con: duckdb.DuckDBPyConnection, rows: Iterable[int]) -> list[int]:
    """The rows of the file that rows of `raw` come from."""
    if "file_row" not in types_of(con, "raw"):
        return list(rows)
    query = "SELECT file_row FROM raw WHERE rowid = ?"
    return [con.execute(query, [row]).fetchall()[0][0] for row in rows]


def _texts(names: Iterable[str], kinds: dict[str, str]) -> str:
    return ", ".join(f"{_text(name, kinds.get(name))} AS {column_name(name)}" for name in names)


def _text(name: str, kind: str | None) -> str:
    """A column as text: JSON where it is nested, NULL where it is not there."""
    if kind is None:
        return "NULL::VARCHAR"
    nested = kind.endswith("]") or kind.startswith(("STRUCT", "MAP"))
    return f"CAST({f'to_json({column_name(name)})' if nested else column_name(name)} AS VARCHAR)"
