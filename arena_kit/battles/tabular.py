"""Tables on disk through DuckDB: JSONL, JSON arrays and CSV (each may be gzipped) and Parquet."""

from __future__ import annotations

import atexit
import csv
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
from numpy.typing import NDArray

from arena_kit.battles.json_rows import BROKEN, LONGEST, first_keys, is_array, line_of, opened
from arena_kit.battles.json_rows import check_json as check_rows
from arena_kit.battles.sqlite_tables import table_names
from arena_kit.files import FORMULA, NUMBER, DataError, whole_file

_APOSTROPHE = "''''"  # as SQL spells it
_BRIEF = 0.5  # seconds
_BOUND = "maximum_object_size"  # bytes of a row of JSON
_USUAL = 20_971_520  # in smaller parts, DuckDB copies the rows of a table once more
#: What files of each kind are called.
SUFFIXES = {
    "jsonl": (".jsonl", ".jsonl.gz"),
    "json": (".json", ".json.gz"),
    "csv": (".csv", ".csv.gz"),
    "parquet": (".parquet",),
    "sqlite": (".sqlite", ".sqlite3", ".db"),
}


def database() -> duckdb.DuckDBPyConnection:
    """A database in memory that never reaches for the network."""
    con = duckdb.connect()
    con.execute("SET GLOBAL TimeZone = 'UTC'; SET GLOBAL autoinstall_known_extensions = false")
    return con


#: The database that all reads of a process share, since making one takes longer than to read a
#: thousand battles. Its threads would not survive a fork, nor it the end of Python, so it is given
#: up before either.
_shared = cache(database)
atexit.register(_shared.cache_clear)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_shared.cache_clear)


@contextmanager
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to the shared database; tables, views and settings in it are its own.

    The next connection is to a new database after an error, which may have made this one unusable,
    and after long work, since a database keeps much of the memory that it once needed.
    """
    began, keep = time.monotonic(), False
    try:
        with _shared().cursor() as con:
            yield con
        keep = time.monotonic() - began < _BRIEF
    finally:
        if not keep:
            _shared.cache_clear()


def kind_of(path: Path) -> str:
    """What a file is by its name: `jsonl`, `json` (an array), `csv`, `parquet` or `sqlite`; a
    file called .json may hold lines as well.
    """
    for kind, suffixes in SUFFIXES.items():
        if path.name.lower().endswith(suffixes):
            return "jsonl" if kind == "json" and path.is_file() and not is_array(path) else kind
    raise DataError(
        f"{path}: unknown kind of battle file; allowed: {', '.join(sum(SUFFIXES.values(), ()))}"
    )


def table_of(
    path: Path | Sequence[Path], columns: Sequence[str], *, names: str = "", longest: int = LONGEST
) -> str:
    """The DuckDB table function that reads a file as text; JSON needs to know the columns and how
    many bytes its longest row may have. Several files are one table, whatever columns each has, and
    `names` is a column for their names (and, of Parquet, `file_row_number` one for their rows).

    DuckDB takes a path for a pattern, and folders like `weight=7` for columns; neither is
    meant here.
    """
    paths = [path] if isinstance(path, Path) else list(path)
    for each in paths:
        if not each.is_file():
            raise DataError(f"{each}: no such file")
    kind = kind_of(paths[0])
    file = f"[{', '.join(map(_literal, paths))}], hive_partitioning = false"
    file += ", union_by_name = true" if len(paths) > 1 else ""
    file += f", filename = {quoted(names)}" if names else ""
    if kind == "parquet":
        return f"read_parquet({file}{', file_row_number = true' if names else ''})"
    if kind == "csv":
        form = "delim = ',', quote = '\"', escape = '\"', comment = '', skip = 0"
        return _unguarded(f"read_csv({file}, header = true, all_varchar = true, {form})")
    if kind == "sqlite":
        raise DataError(f"{paths[0]}: a database is not one table")
    layout = "newline_delimited" if kind == "jsonl" else "array"
    kinds = ", ".join(f"{quoted(column)}: 'VARCHAR'" for column in columns)
    form = f"columns = {{{kinds}}}, {_BOUND} = {longest}"
    return f"read_json({file}, format = '{layout}', {form})"


def usual_row(path: Path) -> int:
    """A bound in bytes for rows of JSON with which a file is read on all cores: DuckDB reads it in
    parts of twice the bound, and this gives every core two of them.
    """
    size = path.stat().st_size if path.is_file() else 0
    return min(max(size // (4 * (os.cpu_count() or 1)), _USUAL), LONGEST)


def is_too_long(error: duckdb.Error) -> bool:
    """Whether a row is longer than its bound."""
    return _BOUND in str(error)


def _literal(path: Path) -> str:
    """A path in a query, its special characters for themselves."""
    return quoted(re.sub(r"[\[*?]", lambda special: f"[{special[0]}]", str(path)))


def columns_of(path: Path) -> tuple[str, ...]:
    """The names of a file's columns, by a look at its beginning; none in an empty JSON file, and
    those of the tables in a database.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    if (kind := kind_of(path)) in ("jsonl", "json"):
        return first_keys(path, array=kind == "json")
    if kind == "csv":
        return _csv_header(path)
    if kind == "sqlite":
        return table_names(path)
    with connection() as con:
        try:
            return tuple(types_of(con, table_of(path, ())))
        except duckdb.Error as error:
            raise DataError(f"{path}: {str(error).splitlines()[0]}") from None


def types_of(con: duckdb.DuckDBPyConnection, table: str) -> dict[str, str]:
    """The columns of a table and their types."""
    return {name: kind for name, kind, *_ in con.execute(f"DESCRIBE FROM {table}").fetchall()}


def place_of(path: Path, row: int) -> str:
    """Where a row stands: `:line` in a text file, its number from 0 elsewhere."""
    kind = kind_of(path)
    if kind in ("jsonl", "json"):
        return f":{line_of(path, row, array=kind == 'json')}"
    return f":{_csv_line(path, row)}" if kind == "csv" else f" row {row}"


def check_json(path: Path) -> None:
    """Refuse a JSON file at the line that is not JSON; other files pass."""
    if (kind := kind_of(path)) in ("jsonl", "json"):
        check_rows(path, array=kind == "json")


def write_columns(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns as a whole file, in the format its name asks for.

    In CSV, text that a spreadsheet would take for a formula gets an apostrophe before it, which
    `table_of` takes away again.
    """
    kind = kind_of(path)
    if kind == "sqlite":
        raise DataError(f"{path}: SQLite is read, not written; allowed: another suffix")
    form = {"csv": "csv, HEADER", "parquet": "parquet", "json": "json, ARRAY"}.get(kind, "json")
    if path.name.lower().endswith(".gz"):
        form += ", COMPRESSION gzip"
    with connection() as con, whole_file(path) as part:
        con.register("outgoing", dict(columns))
        source = _guarded(con) if kind == "csv" else "FROM outgoing"
        con.execute(f"COPY ({source}) TO {quoted(str(part))} (FORMAT {form})")


def _guarded(con: duckdb.DuckDBPyConnection) -> str:
    """The outgoing columns with an apostrophe before every formula."""
    columns = []
    for name, kind, *_ in con.execute("DESCRIBE FROM outgoing").fetchall():
        cell = column_name(name)
        formula = f"regexp_matches({cell}, {quoted(FORMULA)})"
        number = f"regexp_full_match({cell}, {quoted(NUMBER)})"
        text = f"CASE WHEN {formula} AND NOT {number} THEN {_APOSTROPHE} || {cell} ELSE {cell} END"
        columns.append(f"{text} AS {cell}" if kind == "VARCHAR" else cell)
    return f"SELECT {', '.join(columns)} FROM outgoing"


def _unguarded(table: str) -> str:
    """A table of texts less the apostrophe before every formula."""
    cell = "COLUMNS(*)"
    guarded = f"starts_with({cell}, {_APOSTROPHE}) AND regexp_matches({cell}, {quoted(FORMULA)})"
    return f"(SELECT CASE WHEN {guarded} THEN substr({cell}, 2) ELSE {cell} END FROM {table})"


def _csv_header(path: Path) -> tuple[str, ...]:
    """The first row of a CSV file that holds anything; DuckDB would look at thousands."""
    with opened(path) as text:
        try:
            return tuple(next((cells for cells in csv.reader(text) if cells), []))
        except (csv.Error, *BROKEN):
            return ()


def _csv_line(path: Path, row: int) -> int:
    """The line on which a data row of a CSV file ends; rows may hold line breaks."""
    longest = csv.field_size_limit(2**31 - 1)
    try:
        with opened(path) as text:
            reader = csv.reader(text)
            filled = (reader.line_num for cells in reader if cells)
            return next(line for n, line in enumerate(filled) if n == row + 1)
    finally:
        csv.field_size_limit(longest)


def listed(names: Iterable[str]) -> str:
    """Names of columns as an error lists them; a wide table is cut."""
    every = list(names)
    return ", ".join(every[:12]) + (", …" if len(every) > 12 else "")


def column_name(name: str) -> str:
    """A column's name as it may stand in a query, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def quoted(text: str) -> str:
    """A text as it may stand in a query."""
    return "'" + text.replace("'", "''") + "'"
