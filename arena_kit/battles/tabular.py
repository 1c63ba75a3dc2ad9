"""Tables on disk through DuckDB: JSONL and CSV (either may be gzipped) and Parquet."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
from numpy.typing import NDArray

from arena_kit.files import FORMULA, NUMBER, DataError, whole_file

_APOSTROPHE = "''''"  # as SQL spells it
FORMATS = (".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".parquet")


def connection() -> duckdb.DuckDBPyConnection:
    """A database in memory that never reaches for the network."""
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'; SET autoinstall_known_extensions = false")
    return con


def is_jsonl(path: Path) -> bool:
    """Whether a file is JSONL by its name."""
    return path.name.lower().endswith((".jsonl", ".jsonl.gz"))


def table_of(path: Path, columns: Sequence[str]) -> str:
    """The DuckDB table function that reads a file as text; JSONL needs to know the columns.

    DuckDB takes a path for a pattern, and folders like `weight=7` for columns; neither is
    meant here.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    literal = re.sub(r"[\[*?]", lambda special: f"[{special[0]}]", str(path))
    file = f"{_quoted(literal)}, hive_partitioning = false"
    if is_jsonl(path):
        kinds = ", ".join(f"{_quoted(column)}: 'VARCHAR'" for column in columns)
        form = f"columns = {{{kinds}}}, maximum_object_size = 67108864"
        return f"read_json({file}, format = 'newline_delimited', {form})"
    if _ends(path, ".csv", ".csv.gz"):
        form = "delim = ',', quote = '\"', escape = '\"', comment = '', skip = 0"
        return _unguarded(f"read_csv({file}, header = true, all_varchar = true, {form})")
    if _ends(path, ".parquet"):
        return f"read_parquet({file})"
    raise _unknown(path)


def write_columns(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns as a whole file, in the format its name asks for.

    In CSV, text that a spreadsheet would take for a formula gets an apostrophe before it, which
    `table_of` takes away again.
    """
    if is_jsonl(path):
        kind = "FORMAT json"
    elif _ends(path, ".csv", ".csv.gz"):
        kind = "FORMAT csv, HEADER"
    elif _ends(path, ".parquet"):
        kind = "FORMAT parquet"
    else:
        raise _unknown(path)
    if _ends(path, ".gz"):
        kind += ", COMPRESSION gzip"
    with connection() as con, whole_file(path) as part:
        con.register("outgoing", dict(columns))
        source = _guarded(con) if _ends(path, ".csv", ".csv.gz") else "FROM outgoing"
        con.execute(f"COPY ({source}) TO {_quoted(str(part))} ({kind})")


def _guarded(con: duckdb.DuckDBPyConnection) -> str:
    """The outgoing columns with an apostrophe before every formula."""
    columns = []
    for name, kind, *_ in con.execute("DESCRIBE FROM outgoing").fetchall():
        cell = column_name(name)
        formula = f"regexp_matches({cell}, {_quoted(FORMULA)})"
        number = f"regexp_full_match({cell}, {_quoted(NUMBER)})"
        text = f"CASE WHEN {formula} AND NOT {number} THEN {_APOSTROPHE} || {cell} ELSE {cell} END"
        columns.append(f"{text} AS {cell}" if kind == "VARCHAR" else cell)
    return f"SELECT {', '.join(columns)} FROM outgoing"


def _unguarded(table: str) -> str:
    """A table of texts less the apostrophe before every formula."""
    cell = "COLUMNS(*)"
    guarded = f"starts_with({cell}, {_APOSTROPHE}) AND regexp_matches({cell}, {_quoted(FORMULA)})"
    return f"(SELECT CASE WHEN {guarded} THEN substr({cell}, 2) ELSE {cell} END FROM {table})"


def csv_line(path: Path, row: int) -> int:
    """The line on which a data row of a CSV file ends; rows may hold line breaks."""
    opened = gzip.open if path.suffix == ".gz" else open
    longest = csv.field_size_limit(2**31 - 1)
    try:
        with opened(path, "rt", encoding="utf-8", newline="") as lines:
            reader = csv.reader(lines)
            filled = (reader.line_num for cells in reader if cells)
            return next(line for n, line in enumerate(filled) if n == row + 1)
    finally:
        csv.field_size_limit(longest)


def column_name(name: str) -> str:
    """A column's name as it may stand in a query, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def _ends(path: Path, *suffixes: str) -> bool:
    return path.name.lower().endswith(suffixes)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _unknown(path: Path) -> DataError:
    return DataError(f"{path}: unknown kind of battle file; allowed: {', '.join(FORMATS)}")
