"""Battle files as a query of DuckDB: a row per battle, our columns as text, and where it stands."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from arena_kit.battles.readers.format import Columns, Format
from arena_kit.battles.readers.formats import format_of
from arena_kit.battles.readers.rows import text_columns, text_value, used
from arena_kit.battles.tabular import (
    SUFFIXES,
    columns_of,
    connection,
    database,
    kind_of,
    place_of,
    table_of,
    types_of,
)
from arena_kit.files import DataError

#: Rows of one or many files from which they are streamed where nobody says; below, a log in memory
#: is quicker and takes less than a gigabyte.
STREAM_FROM = 5_000_000
#: Bytes of text files from which they are streamed; their rows are not known beforehand.
STREAM_FROM_BYTES = 1_000_000_000
#: Rows that are read at once.
CHUNK = 1_000_000
ROW, FILE = "arena_kit_row", "arena_kit_file"
#: What makes a kind of battle.
KEY = ("model_a", "model_b", "winner", "inconsistent", "dimension", "source")
_MEMORY = "1GB"  # what DuckDB may hold before it goes to disk
_STREAMED = (
    *KEY, "judge_model", "question_id", "voter", "weight", "timestamp", "battle_id", "share_a",
)  # fmt: skip


def battle_files(path: Path) -> tuple[Path, ...]:
    """The files that a path names: a file, all battle files of a folder, or those of a pattern such
    as `votes/*.parquet`, in the order of their names.
    """
    if path.is_file():
        return (path,)
    if path.is_dir():
        found = [each for each in path.rglob("*") if each.is_file() and _is_battles(each)]
        return _one_kind(path, sorted(found))
    if not set(str(path)) & set("*?["):
        raise DataError(f"{path}: no such file or folder")
    anchor = Path(path.anchor)
    pattern = str(path.relative_to(anchor)) if path.anchor else str(path)
    return _one_kind(path, sorted(each for each in anchor.glob(pattern) if each.is_file()))


def _is_battles(path: Path) -> bool:
    suffixes = [s for kind, each in SUFFIXES.items() if kind != "sqlite" for s in each]
    return path.name.lower().endswith(tuple(suffixes)) and not path.name.startswith((".", "_"))


def _one_kind(path: Path, files: Sequence[Path]) -> tuple[Path, ...]:
    if not files:
        raise DataError(f"{path}: no battle file there")
    kinds = sorted({kind_of(each) for each in files})
    if len(kinds) > 1:
        raise DataError(f"{path}: holds {' and '.join(kinds)} files; allowed: one kind")
    return tuple(files)


def streamable(
    files: tuple[Path, ...], name: str | None = None, columns: Columns | None = None
) -> bool:
    """Whether files can be streamed, by their format and columns."""
    try:
        format_of_all(files, name, columns)
    except DataError:
        return False
    return not any("share_a" in columns_of(each) for each in files)


def large(files: Sequence[Path]) -> bool:
    """Whether files are better streamed than held."""
    if kind_of(files[0]) != "parquet":
        return sum(each.stat().st_size for each in files) >= STREAM_FROM_BYTES
    with connection() as con:
        return sum(rows for _, rows in row_groups(con, files)) >= STREAM_FROM


@contextmanager
def connected() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that holds little and sorts on disk."""
    with tempfile.TemporaryDirectory(prefix="arena-kit-") as folder, database() as con:
        con.execute(f"SET memory_limit = '{_MEMORY}'; SET temp_directory = '{folder}'")
        yield con


def format_of_all(files: tuple[Path, ...], name: str | None, columns: Columns | None) -> Format:
    """The format of all files, if its rows can be read one by one."""
    formats = {format_of(each, name, columns).name: each for each in files}
    if len(formats) > 1:
        (one, first), (other, second) = [*formats.items()][:2]
        raise DataError(f"{first} is in format {one}, {second} in {other}; allowed: one format")
    fmt = format_of(files[0], name, columns)
    if fmt.rows != "file" or fmt.load is not None:
        raise DataError(f"{files[0]}: a file in format {fmt.name} cannot be streamed; import it")
    return fmt


@dataclass(frozen=True, slots=True)
class Source:
    """Files in a format as a query: a row per battle, our columns as text, and where it stands."""

    con: duckdb.DuckDBPyConnection
    files: tuple[Path, ...]
    format: Format

    def table(self, columns: Sequence[str]) -> str:
        """The files with a column of row numbers."""
        table = table_of(self.files, columns, names=FILE)
        if kind_of(self.files[0]) == "parquet":
            return f"(SELECT *, file_row_number AS {ROW} FROM {table})"
        return f"(SELECT *, row_number() OVER () - 1 AS {ROW} FROM {table})"

    def file(self) -> str:
        """The columns that the format speaks of, as text."""
        chosen = {name: self.format.battles[name] for name in self._known()}
        names = used(self.format, chosen)
        table = self.table(names)
        texts = text_columns(names, types_of(self.con, table))
        return f"SELECT {texts}, {ROW}, {FILE} FROM {table}"

    def battles(self, start: int = 0, stop: int = 0) -> str:
        """The battles of all rows, or of some; those that are none are left out."""
        wanted = [text_value(name, self.format.battles[name]) for name in self._known()]
        out = [f"NOT coalesce({condition}, false)" for condition in self.format.left_out.values()]
        some = [f"{ROW} >= {start}", f"{ROW} < {stop}"] if stop > 0 else []
        where = " AND ".join(["true", *out, *some])
        columns = ", ".join([*wanted, ROW, FILE])
        return f"SELECT {columns} FROM ({self.file()}) AS file WHERE {where}"

    def _known(self) -> list[str]:
        return [name for name in _STREAMED if name in self.format.battles]

    def holding(self) -> frozenset[str]:
        """The optional columns that hold anything."""
        battles = self.battles()
        first = self.con.execute(f"FROM ({battles}) LIMIT 1").fetchone() or ()
        held = {n for n, value in zip(self._known(), first, strict=False) if value is not None}
        for name in self._present() - held:
            some = f"SELECT 1 FROM ({battles}) WHERE {name} IS NOT NULL LIMIT 1"
            if self.con.execute(some).fetchone():
                held.add(name)
        return frozenset(held)

    def _present(self) -> set[str]:
        """What the files have columns for."""
        there = set(types_of(self.con, self.table(used(self.format, self.format.battles))))
        battles = self.format.battles
        return {n for n in self._known() if there & set(used(self.format, {n: battles[n]}))}

    def refuse(self, condition: str, column: str, sentence: str) -> None:
        """Raise for the first row of the first file that a condition holds for."""
        for path in self.files:
            own = Source(self.con, (path,), self.format).battles()
            query = f"SELECT {ROW}, {column} FROM ({own}) WHERE {condition} ORDER BY 1 LIMIT 1"
            if (row := self.con.execute(query).fetchone()) is not None:
                told = sentence.format(str(row[1])[:60])
                raise DataError(f"{path}{place_of(path, row[0])}: {told}")


def kind_hash(holds: frozenset[str]) -> str:
    """The hash of what makes a kind of battle; of a hundred thousand kinds two share one with a
    probability of 3 in ten billion.
    """
    return f"hash({', '.join(name for name in KEY if name in holds)})"


def row_groups(con: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> Iterator[tuple[int, int]]:
    """The rows of every row group of Parquet files: the file's number, and how many."""
    for number, path in enumerate(files):
        literal = "'" + str(path).replace("'", "''") + "'"
        groups = (
            f"SELECT DISTINCT row_group_id, row_group_num_rows FROM parquet_metadata({literal})"
        )
        for _, rows in con.execute(f"{groups} ORDER BY 1").fetchall():
            yield number, rows


def pieces_of(con: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> list[tuple[int, int, int]]:
    """Pieces of Parquet files of about a million rows, whole row groups each; a text file is one
    piece, whose end is not known (0).
    """
    if kind_of(files[0]) != "parquet":
        return [(number, 0, 0) for number in range(len(files))]
    pieces: list[tuple[int, int, int]] = []
    for number, rows in row_groups(con, files):
        last = pieces[-1] if pieces else (-1, 0, 0)
        if last[0] == number and last[2] - last[1] + rows <= CHUNK:
            pieces[-1] = (number, last[1], last[2] + rows)
        else:
            start = last[2] if last[0] == number else 0
            pieces.append((number, start, start + rows))
    return pieces
