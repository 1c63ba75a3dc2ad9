"""Tables on disk: JSONL, JSON arrays and CSV (each may be gzipped), Parquet, SQLite, Arrow, DuckDB
and the first sheet of a workbook.

DuckDB reads the first four by a table function; where it does not tell the keys of JSON or the line
of a row, Python looks at the file itself. Tables of the other kinds are loaded as a whole.
"""

from __future__ import annotations

import atexit
import codecs
import csv
import gzip
import json
import os
import re
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import date, time
from functools import cache
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import IO, Any, NamedTuple

import duckdb
import numpy as np
from numpy.typing import NDArray

from arena_kit import files
from arena_kit.files import FORMULA, LONGEST_LINE, DataError, bounded_lines, limit, read_lines

Connection = duckdb.DuckDBPyConnection
#: The most rows of a Parquet file that are held in memory, some 80 bytes each.
MOST_ROWS = 20_000_000
#: The most characters of JSON that are parsed in one piece.
MOST_JSON = 4 * LONGEST_LINE
#: An apostrophe, as SQL spells it.
APOSTROPHE = "''''"
#: What a damaged text file raises.
_BROKEN = (OSError, EOFError, zlib.error, ValueError, RecursionError)
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
_BRIEF = 0.5  # seconds
_BOUND = "maximum_object_size"  # bytes of a row of JSON
#: The start of a JSON object whose first value is one, too, or a list.
_NESTED = re.compile(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*[\[{]')
_USUAL = 20_971_520  # in smaller parts, DuckDB copies the rows of a table once more
#: What files of each kind are called.
SUFFIXES = {
    "jsonl": (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz"),
    "json": (".json", ".json.gz"),
    "csv": (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt"),
    "parquet": (".parquet",),
    "sqlite": (".sqlite", ".sqlite3", ".db"),
    "arrow": (".arrow", ".feather"),
    "duckdb": (".duckdb",),
    "workbook": (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"),
}


def database() -> Connection:
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
def connection() -> Iterator[Connection]:
    """A connection to the shared database; tables, views and settings in it are its own.

    The next connection is to a new database after an error, which may have made this one unusable,
    and after long work, since a database keeps much of the memory that it once needed.
    """
    began, keep = monotonic(), False
    try:
        with _shared().cursor() as con:
            yield con
        keep = monotonic() - began < _BRIEF
    finally:
        if not keep:
            _shared.cache_clear()


def kind_of(path: Path) -> str:
    """What a file is: its kind by its name, but a file called .json may hold an array (`json`),
    lines (`jsonl`) or the columns of a table (`columns`).
    """
    kind = named_kind(path)
    return _json_layout(path) if kind == "json" and path.is_file() else kind


def named_kind(path: Path) -> str:
    """What a file is by its name, one of SUFFIXES."""
    for kind, suffixes in SUFFIXES.items():
        if path.name.lower().endswith(suffixes):
            return kind
    raise DataError(
        f"{path}: unknown kind of battle file; save it as one of "
        f"{', '.join(sum(SUFFIXES.values(), ()))}"
    )


def table_of(
    path: Path | Sequence[Path], columns: Sequence[str], *, names: str = "", longest: int = 0
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
            raise DataError(f"{each}: no such file; check the path")
    kind = kind_of(paths[0])
    file = f"[{', '.join(map(_literal, paths))}], hive_partitioning = false"
    file += ", union_by_name = true" if len(paths) > 1 else ""
    file += f", filename = {quoted(names)}" if names else ""
    if kind == "parquet":
        return f"read_parquet({file}{', file_row_number = true' if names else ''})"
    if kind == "csv":
        form = f"delim = {quoted(_delimiter(paths[0]))}, "
        form += "quote = '\"', escape = '\"', comment = '', skip = 0"
        form += ", encoding = 'utf-16'" if _encoding(paths[0]) == "utf-16" else ""
        return _unguarded(f"read_csv({file}, header = true, all_varchar = true, {form})")
    if kind not in STREAMED:
        raise DataError(f"{paths[0]}: a database is not one table")
    layout = "newline_delimited" if kind == "jsonl" else "array"
    kinds = ", ".join(f"{quoted(column)}: 'VARCHAR'" for column in columns)
    form = f"columns = {{{kinds}}}, {_BOUND} = {longest or limit(LONGEST_LINE)}"
    return f"read_json({file}, format = '{layout}', {form})"


def check_rows(con: Connection, path: Path) -> None:
    """Refuse a Parquet file of more rows than memory may hold: a small file may have millions."""
    if kind_of(path) != "parquet" or not path.is_file():
        return
    query = f"SELECT sum(num_rows) FROM parquet_file_metadata({_literal(path)})"
    rows, most = con.execute(query).fetchall()[0][0], limit(MOST_ROWS)
    if rows > most:
        raise DataError(
            f"{path}: has {rows:,} rows, and at most {most:,} are held in memory; "
            "`arena-kit rate --stream` reads it in parts, `arena-kit rate --no-limits` as a whole"
        )


def usual_row(path: Path) -> int:
    """A bound in bytes for rows of JSON with which a file is read on all cores: DuckDB reads it in
    parts of twice the bound, and this gives every core two of them.
    """
    size = path.stat().st_size if path.is_file() else 0
    return min(max(size // (4 * (os.cpu_count() or 1)), _USUAL), LONGEST_LINE)


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
        raise DataError(f"{path}: no such file; check the path")
    if (kind := kind_of(path)) in ("jsonl", "json"):
        return _first_keys(path, array=kind == "json")
    if not path.stat().st_size:
        raise DataError(f"{path}: an empty file (0 bytes); export it again")
    if kind == "csv":
        return _first_cells(path, _delimiter(path))  # DuckDB would look at thousands of rows
    if kind == "sqlite":
        return tuple(query_columns(path, f"{_TABLES} ORDER BY name")["name"])
    with connection() as con:
        try:
            return tuple(types_of(con, loaded(con, path) or table_of(path, ())))
        except duckdb.Error as error:
            told = str(error).splitlines()[0]
            raise DataError(f"{path}: {told}; export it again") from None


def types_of(con: Connection, table: str) -> dict[str, str]:
    """The columns of a table and their types."""
    return {name: kind for name, kind, *_ in con.execute(f"DESCRIBE FROM {table}").fetchall()}


def place_of(path: Path, row: int) -> str:
    """Where a row stands: `:line` in a text file, the row of a sheet, its number from 0
    elsewhere.
    """
    if (kind := kind_of(path)) == "workbook":
        return f", row {read_sheet(path).numbers[row]}"
    if kind not in ("jsonl", "json", "csv"):
        return f" row {row}"
    with _opened(path) as text:
        rows = {"jsonl": read_lines(path), "json": _elements(text), "csv": _csv_rows(path)}[kind]
        return f":{next(line for line, _ in islice(rows, row + (kind == 'csv'), None))}"


def check_text(path: Path) -> None:
    """Refuse a JSON file at the line that is not a JSON object, or that holds a bare NaN, and a CSV
    file at the row that is not as wide as its header; files of other kinds pass.
    """
    if (kind := kind_of(path)) == "csv":
        _check_csv(path)
    if kind == "jsonl":
        for _ in read_lines(path):
            pass
    if kind != "json":
        return
    try:
        json.loads(_whole_json(path), parse_constant=files.refuse_constant)
        with _opened(path) as text:
            strangers = ((n, row) for n, row in _elements(text) if not isinstance(row, dict))
            line, row = next(strangers, (0, {}))
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno}: not valid JSON ({error.msg})") from None
    except DataError:
        raise
    except _BROKEN as error:
        raise DataError(f"{path}: not valid JSON ({error})") from None
    if line:
        raise DataError(f"{path}:{line}: expected a JSON object, got {type(row).__name__}")


def _unguarded(table: str) -> str:
    """A table of texts less the apostrophe before every formula."""
    cell = "COLUMNS(*)"
    guarded = f"starts_with({cell}, {APOSTROPHE}) AND regexp_matches({cell}, {quoted(FORMULA)})"
    return f"(SELECT CASE WHEN {guarded} THEN substr({cell}, 2) ELSE {cell} END FROM {table})"


def _delimiter(path: Path) -> str:
    """What stands between the cells of a CSV file: a comma, tab or semicolon, whichever first
    gives the header three cells.
    """
    usual = "\t,;" if ".tsv" in path.name.lower() else ",\t;"
    return next((each for each in usual if len(_first_cells(path, each)) > 2), usual[0])


def _first_cells(path: Path, delimiter: str) -> tuple[str, ...]:
    with _opened(path) as text:
        try:
            rows = csv.reader(bounded_lines(text), delimiter=delimiter)
            return tuple(next(filter(None, rows), ()))
        except DataError:
            raise
        except (csv.Error, *_BROKEN):
            return ()


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file that hold anything, each with the line that it begins on; cells may
    hold line breaks.
    """
    longest = csv.field_size_limit(2**31 - 1)
    try:
        with _opened(path) as text:
            rows, line = csv.reader(bounded_lines(text), delimiter=_delimiter(path), strict=True), 1
            for cells in rows:
                if cells:
                    yield line, cells
                line = rows.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}:{line}: {error}; close or double its quotation mark") from None
    finally:
        csv.field_size_limit(longest)


def _check_csv(path: Path) -> None:
    width = 0
    for line, cells in _csv_rows(path):
        width = width or len(cells)
        if len(cells) != width:
            told = f"{len(cells)} cells under a header of {width}"
            raise DataError(
                f"{path}:{line}: {told}; put quotation marks around text with a delimiter"
            )
        if any("\ufffd" in cell for cell in cells):
            raise DataError(f"{path}:{line}: not UTF-8; save the file as CSV UTF-8")


def _json_layout(path: Path) -> str:
    """Whether a file holds one array, one object of columns, or else lines."""
    try:
        with _opened(path) as text:
            start = text.read(4096)
        if not start.lstrip().startswith("{"):
            return "json"
        return "columns" if _NESTED.match(start) and _json_columns(path) else "jsonl"
    except _BROKEN:
        return "jsonl"


def _json_columns(path: Path) -> dict[str, list[Any]]:
    """The columns of a table as pandas writes them: `{column: {row: value}}`, `{column: [value]}`
    or `{"columns": [...], "data": [[...]]}`; none where a file is something else.
    """
    whole = json.loads(_whole_json(path), parse_constant=files.refuse_constant)
    if {"columns", "data"} <= whole.keys() <= {"columns", "index", "data"}:
        names, rows = whole["columns"], whole["data"]
        return {name: [row[n] for row in rows] for n, name in enumerate(names)}
    cells = {name: [*c.values()] if isinstance(c, dict) else c for name, c in whole.items()}
    lists = all(isinstance(each, list) for each in cells.values())
    return cells if lists and len({len(each) for each in cells.values()}) == 1 else {}


def loaded(con: Connection, path: Path) -> str | None:
    """Make the table `loaded` of a file that no table function reads, and give its name; None for
    other files.
    """
    if (load := _LOADERS.get(kind_of(path))) is None:
        return None
    load(con, path)
    return "loaded"


def _load_columns(con: Connection, path: Path) -> None:
    def text(value: Any) -> str | None:
        return value if value is None or isinstance(value, str) else json.dumps(value)

    columns = _json_columns(path)
    con.register("loaded", {n: np.array([*map(text, c)], object) for n, c in columns.items()})


def _load_arrow(con: Connection, path: Path) -> None:
    """Load an Arrow IPC file or stream."""
    try:
        from arro3.io import read_ipc, read_ipc_stream
    except ImportError:
        raise DataError(f'{path}: Arrow needs an extra: pip install "arena-kit[arrow]"') from None
    with path.open("rb") as file:
        is_file = file.read(6) == b"ARROW1"
    try:
        con.register("arrow", (read_ipc if is_file else read_ipc_stream)(path))
    except Exception as error:
        raise DataError(f"{path}: not an Arrow IPC file or stream ({error})") from None
    con.execute("CREATE OR REPLACE TEMP TABLE loaded AS FROM arrow")
    con.unregister("arrow")


def _load_duckdb(con: Connection, path: Path) -> None:
    """Load the only table of a DuckDB database, or else the one called `battles`."""
    name = f"database_{id(con)}"
    con.execute(f"ATTACH {quoted(str(path))} AS {name} (READ_ONLY)")
    try:
        query = "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ?"
        tables = con.execute(f"{query} ORDER BY ALL", [name]).fetchall()
        chosen = tables if len(tables) == 1 else [each for each in tables if each[1] == "battles"]
        if len(chosen) != 1:
            found = listed(table for _, table in tables) or "none"
            raise DataError(f"{path}: needs one table, or one called battles; found: {found}")
        table = ".".join([name, *map(column_name, chosen[0])])
        con.execute(f"CREATE OR REPLACE TEMP TABLE loaded AS FROM {table}")
    finally:
        con.execute(f"DETACH {name}")


class Sheet(NamedTuple):
    """A sheet: its first row that holds anything names the columns, and a letter those without a
    name; `numbers` are those of the rows in the workbook, and empty rows are left out.
    """

    name: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    numbers: list[int]

    def cell(self, row: int, column: int) -> str:
        """Where a cell stands, as a workbook names it."""
        return f"{self.name}!{_letters(column)}{self.numbers[row]}"


def is_workbook(path: Path) -> bool:
    """Whether a file is a workbook, by its name."""
    return path.name.lower().endswith(SUFFIXES["workbook"])


def read_sheet(path: Path, name: str = "") -> Sheet:
    """The named sheet of a workbook, or its first; a merged range has its value in every cell."""
    from python_calamine import CalamineError, CalamineWorkbook

    if not path.is_file():
        raise DataError(f"{path}: no such file; check the path")
    try:
        workbook = CalamineWorkbook.from_path(str(path))
        names = workbook.sheet_names
        if name and name not in names:
            raise DataError(f"{path}: no sheet {name!r}; it has: {', '.join(names)}")
        sheet = workbook.get_sheet_by_name(name or names[0])
        cells = [list(map(_text, row)) for row in sheet.to_python(skip_empty_area=False)]
    except (CalamineError, OSError, IndexError) as error:
        raise DataError(f"{path}: not a whole workbook ({error}); save it again") from None
    for (top, left), (bottom, right) in sheet.merged_cell_ranges or []:
        for row in cells[top : bottom + 1]:
            row[left : right + 1] = [cells[top][left]] * (right + 1 - left)
    filled = [(n, tuple(row)) for n, row in enumerate(cells, 1) if any(row)]
    if len(filled) < 2:
        raise DataError(f"{path}: sheet {sheet.name!r} has no rows below a row of column names")
    numbers, rows = zip(*filled, strict=True)
    columns = tuple(name or _letters(n) for n, name in enumerate(rows[0]))
    return Sheet(sheet.name, columns, [row[: len(columns)] for row in rows[1:]], [*numbers[1:]])


def _text(value: Any) -> str:
    """A cell as text; a whole number without its decimals."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.isoformat() if isinstance(value, date | time) else str(value).strip()


def _letters(column: int) -> str:
    """The letters of a column, counted from 0: A to Z, then AA."""
    head, last = divmod(column, 26)
    return (_letters(head - 1) if head else "") + chr(65 + last)


def _load_workbook(con: Connection, path: Path) -> None:
    sheet = read_sheet(path)
    cells = np.array([[cell or None for cell in row] for row in sheet.rows], object)
    con.register("loaded", dict(zip(sheet.columns, cells.T, strict=True)))


#: How tables are loaded that no table function of DuckDB reads, by kind.
_LOADERS: Mapping[str, Callable[[Connection, Path], None]] = {
    "columns": _load_columns,
    "arrow": _load_arrow,
    "duckdb": _load_duckdb,
    "workbook": _load_workbook,
}
#: Kinds that a table function reads, in parts as well as whole.
STREAMED = ("jsonl", "json", "csv", "parquet")


def _first_keys(path: Path, *, array: bool) -> tuple[str, ...]:
    """All keys of the first 100 rows that can be read, in the order of their first appearance."""
    keys: dict[str, None] = {}
    try:
        with _opened(path) as text:
            rows = (row for _, row in _elements(text)) if array else _whole_lines(text)
            for row in islice(rows, 100):
                keys |= dict.fromkeys(row if isinstance(row, dict) else ())
    except DataError:
        raise
    except _BROKEN:
        pass
    return tuple(keys)


def _elements(text: IO[str]) -> Iterator[tuple[int, Any]]:
    """The elements of a JSON array, each with the line it begins on; read piece by piece."""
    decoder, line, rest, between = json.JSONDecoder(), 1, "", "[, \t\r\n"
    while piece := text.read(max(1 << 20, len(rest))):  # twice as much for a long element
        rest += piece
        while (skipped := len(rest) - len(rest.lstrip(between))) < len(rest):
            try:
                element, end = decoder.raw_decode(rest, skipped)
            except ValueError:
                if len(rest) > limit(LONGEST_LINE):
                    raise
                break
            if end == len(rest):
                break
            line += rest.count("\n", 0, skipped)
            yield line, element
            line += rest.count("\n", skipped, end)
            rest, between = rest[end:], ", \t\r\n"


def _opened(path: Path) -> IO[str]:
    """A text file, gzipped or not; bytes that are no text are passed over."""
    reader: Any = gzip.open if path.suffix == ".gz" else open
    text: IO[str] = reader(path, "rt", encoding=_encoding(path), errors="replace", newline="")
    return text


def _whole_json(path: Path) -> str:
    """The text of a file that is parsed in one piece."""
    most = limit(MOST_JSON)
    with _opened(path) as text:
        whole = text.read(most + 1)
    if len(whole) > most:
        why = f"over {most:,} characters in one piece; `arena-kit rate --no-limits` parses them"
        raise DataError(f"{path}: {why}, and JSONL has no such limit")
    return whole


def _encoding(path: Path) -> str:
    """UTF-16 where a file begins with its byte order mark, as Excel's do; else UTF-8."""
    reader: Any = gzip.open if path.suffix == ".gz" else open
    with reader(path, "rb") as file:
        start = file.read(2)
    if start == codecs.BOM_UTF16_BE:
        raise DataError(f"{path}: big-endian UTF-16; save the file as CSV UTF-8")
    return "utf-16" if start == codecs.BOM_UTF16_LE else "utf-8-sig"


def _whole_lines(text: IO[str]) -> Iterator[Any]:
    for line in bounded_lines(text):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            continue


def query_columns(path: Path, query: str) -> Mapping[str, NDArray[Any]]:
    """What a query of an SQLite database gives, by column, all text; None is NULL."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            cursor = database.execute(query)
            names = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
    except sqlite3.Error as error:
        raise DataError(f"{path}: not a whole SQLite database ({error})") from None
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return {
        name: np.array([None if cell is None else str(cell) for cell in column], object)
        for name, column in zip(names, columns, strict=True)
    }


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
