"""Battles that are rated where they are: files of any size, counted by DuckDB and read in chunks.

Only count cells (who met whom, and how it ended) are held, and a chunk of rows at a time; what
has to be sorted is sorted by DuckDB, which puts on disk what does not fit.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from arena_kit.battles import tabular
from arena_kit.battles.battle import A_WEIGHT, MAX_WEIGHT
from arena_kit.battles.log import IDENTITY, BattleLog, CellTable, Hashes, Rows, Way
from arena_kit.battles.read import REQUIRED, LeftOutWarning, checked_log, warn_of_reading
from arena_kit.battles.readers.format import Columns, Format, RowError, Table
from arena_kit.battles.readers.formats import format_of
from arena_kit.battles.tabular import Connection
from arena_kit.files import DataError

#: Rows of one or many files from which they are streamed where nobody says; below, a log in memory
#: is quicker and takes less than a gigabyte.
STREAM_FROM = 5_000_000
#: Bytes of text files from which they are streamed; their rows are not known beforehand.
STREAM_FROM_BYTES = 1_000_000_000
#: Rows that are read at once.
CHUNK = 1_000_000
#: Battle ids that are compared; of more, every n-th by its hash is.
COMPARED_IDS = 5_000_000
_ROW, _FILE = "arena_kit_row", "arena_kit_file"
#: GROUP BY columns of a count cell.
_CELL = (*REQUIRED, "inconsistent", "dimension", "source")
_READ = (
    *_CELL, "judge_model", "question_id", "voter", "weight", "timestamp", "battle_id", "share_a",
)  # fmt: skip
_WEIGHT = "try_cast(weight AS DOUBLE)"
_MEMORY = "1GB"  # what DuckDB may hold before it goes to disk
_CLUSTERS: dict[Way, str] = {"question": "question_id", "voter": "voter"}


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
    suffixes = sum((tabular.SUFFIXES[kind] for kind in tabular.STREAMED), ())
    other = path.name.startswith((".", "_")) or path.suffix.lower() == ".txt"  # as notes may be
    return path.name.lower().endswith(suffixes) and not other


def _one_kind(path: Path, files: Sequence[Path]) -> tuple[Path, ...]:
    if not files:
        raise DataError(f"{path}: no battle file there")
    kinds = sorted({tabular.kind_of(each) for each in files})
    if len(kinds) > 1:
        raise DataError(f"{path}: holds {' and '.join(kinds)} files; allowed: one kind")
    return tuple(files)


def better_streamed(path: Path, name: str | None = None, columns: Columns | None = None) -> bool:
    """Whether files are large, and can be streamed by their format and columns."""
    files = battle_files(path)
    try:
        if tabular.kind_of(files[0]) == "parquet":
            listed = ", ".join(tabular.quoted(str(each)) for each in files)
            query = f"SELECT sum(num_rows) FROM parquet_file_metadata([{listed}])"
            with tabular.connection() as con:
                large = con.execute(query).fetchall()[0][0] >= STREAM_FROM
        else:
            large = sum(each.stat().st_size for each in files) >= STREAM_FROM_BYTES
        soft = _one_format(files, name, columns).battles.get("share_a")
    except (DataError, duckdb.Error):  # which reading says better
        return False
    if soft != tabular.column_name("share_a"):
        return large and soft is None
    return large and not any("share_a" in tabular.columns_of(each) for each in files)


def _one_format(files: tuple[Path, ...], name: str | None, columns: Columns | None) -> Format:
    """The format of all files, if its rows can be read one by one."""
    formats = {format_of(each, name, columns).name: each for each in files}
    if len(formats) > 1:
        (one, first), (other, second) = [*formats.items()][:2]
        raise DataError(f"{first} is in format {one}, {second} in {other}; allowed: one format")
    fmt = format_of(files[0], name, columns)
    if (kind := tabular.kind_of(files[0])) not in tabular.STREAMED:
        raise DataError(f"{files[0]}: a file of kind {kind} cannot be streamed; import it")
    if fmt.rows != "file":
        raise DataError(f"{files[0]}: a file in format {fmt.name} cannot be streamed; import it")
    return fmt


@contextmanager
def _connected() -> Iterator[Connection]:
    """A connection that holds little and sorts on disk."""
    with tempfile.TemporaryDirectory(prefix="arena-kit-") as folder, tabular.database() as con:
        con.execute(f"SET memory_limit = '{_MEMORY}'; SET temp_directory = '{folder}'")
        yield con


@dataclass(slots=True)
class Meter:
    """How far a pass through the rows is."""

    doing: str = "counting battles"
    done: int = 0
    total: int = 0
    began: float = field(default_factory=time.monotonic)

    def start(self, doing: str, total: int) -> None:
        """A new pass begins."""
        self.doing, self.done, self.total, self.began = doing, 0, total, time.monotonic()

    def words(self) -> str:
        """What is being done, how many rows are, and the time left."""
        if not self.total:
            return self.doing
        progress = f"{self.doing}: {self.done:,} of {self.total:,} rows"
        if not self.done:
            return progress
        seconds = (time.monotonic() - self.began) * (self.total - self.done) / self.done
        minutes, seconds = divmod(int(seconds), 60)
        return f"{progress}, {minutes}:{seconds:02} left"


@dataclass(frozen=True, slots=True)
class _Query:
    """Files in a format as a query: a row per battle, our columns as text, and where it stands."""

    con: Connection
    files: tuple[Path, ...]
    format: Format

    def file(self) -> str:
        """The columns that the format speaks of, as text, and numbers of rows."""
        names = self.format.used(self.expressions)
        table = tabular.table_of(self.files, names, names=_FILE)
        parquet = tabular.kind_of(self.files[0]) == "parquet"
        number = "file_row_number" if parquet else "row_number() OVER () - 1"
        table = f"(SELECT *, {number} AS {_ROW} FROM {table})"
        return Table(table, tabular.types_of(self.con, table)).as_text(names, _ROW, _FILE)

    def battles(self) -> str:
        """The battles of all rows; those that are none are left out."""
        columns = ", ".join([*self.format.values(self.expressions), _ROW, _FILE])
        return f"SELECT {columns} FROM ({self.file()}) AS file WHERE {self.format.kept()}"

    @property
    def expressions(self) -> dict[str, str]:
        """Our columns that are read, by the format."""
        return {name: self.format.battles[name] for name in _READ if name in self.format.battles}

    def holding(self) -> frozenset[str]:
        """The columns that hold anything."""
        battles, execute = self.battles(), self.con.execute
        some = "SELECT 1 FROM ({}) WHERE {} IS NOT NULL LIMIT 1"
        return frozenset(n for n in self.expressions if execute(some.format(battles, n)).fetchone())

    def rows(self, condition: str, column: str, most: int) -> Iterator[tuple[str, str]]:
        """The first rows of each file that a condition holds for: where each stands, and its value
        of a column.
        """
        for path in self.files:
            own = replace(self, files=(path,)).battles()
            query = f"SELECT {_ROW}, {column} FROM ({own}) WHERE {condition} ORDER BY 1"
            for row, value in self.con.execute(f"{query} LIMIT {most}").fetchall():
                yield f"{path}{tabular.place_of(path, row)}", str(value)[:60]

    def refuse(self, condition: str, sentence: str, column: str = "''") -> None:
        """Raise for the first row that a condition holds for; the sentence may have a place `{}`
        for the value of a column.
        """
        for place, value in self.rows(condition, column, 1):
            raise DataError(f"{place}: {sentence.replace('{}', repr(value))}")


def _cell_hash(holds: frozenset[str]) -> str:
    """The hash of a count cell; of a hundred thousand cells two share one with a probability of 3
    in ten billion.
    """
    return f"hash({', '.join(name for name in _CELL if name in holds)})"


def _count_cells(query: _Query, holds: frozenset[str]) -> tuple[CellTable, Hashes]:
    """Every count cell, checked, and its hash."""
    if missing := [name for name in REQUIRED if name not in holds]:
        query.refuse("true", f"{missing[0]} is missing; fill or remove it")
        raise DataError(f"{query.files[0]}: no battles")
    if "share_a" in holds:
        raise DataError(f"{query.files[0]}: soft outcomes (share_a) cannot be streamed")
    log = _grouped_log(query, holds)
    columns = query.con.execute("SELECT h, n, total FROM raw").fetchnumpy()
    hashes, count, weight = map(np.asarray, columns.values())
    if "weight" in holds:
        _refuse_weights(query, holds)
    cells = replace(log, source=None, weight=weight.astype(float))
    return CellTable(log=cells, count=count.astype(np.int64)), hashes.astype(np.uint64)


def _grouped_log(query: _Query, holds: frozenset[str]) -> BattleLog:
    """One battle per count cell, from the table `raw`, which keeps them sorted by their hashes.
    Where one is wrong, they are counted again by their first rows, to say where that is.
    """
    for order in ("h", f"min(({_FILE}, {_ROW}))"):
        _group(query, holds, order)
        try:
            return checked_log(query.con)
        except RowError as error:
            wrong = error
    [(cell,)] = query.con.execute(f"SELECT h FROM raw WHERE rowid = {wrong.rows[0]}").fetchall()
    query.refuse(f"{_cell_hash(holds)} = {cell}", str(wrong))
    raise wrong


def _group(query: _Query, holds: frozenset[str], order: str) -> None:
    """Make the table `raw` of count cells in an order."""
    total = f"sum(coalesce({_WEIGHT}, 1.0))" if "weight" in holds else "count(*)::DOUBLE"
    values = ", ".join(f"any_value({name}) AS {name}" for name in _CELL if name in holds)
    cells = (
        f"SELECT {_cell_hash(holds)} AS h, count(*) AS n, {total} AS total, {values} "
        f"FROM ({query.battles()}) GROUP BY h ORDER BY {order}"
    )
    query.con.execute(f"CREATE OR REPLACE TEMP TABLE raw AS {cells}")


def _refuse_weights(query: _Query, holds: frozenset[str]) -> None:
    """Refuse a weight that is none, and one without question and voter among battles that have
    one: it stands for several votes, and theirs does not.
    """
    wrong = f"({_WEIGHT} IS NULL OR NOT ({_WEIGHT} > 0 AND {_WEIGHT} <= {MAX_WEIGHT}))"
    sentence = f"weight {{}} is not {A_WEIGHT}"
    query.refuse(f"weight IS NOT NULL AND {wrong}", sentence, "weight")
    if named := [name for name in _CLUSTERS.values() if name in holds]:
        alone = " AND ".join(f"coalesce({name}, '') = ''" for name in named)
        sentence = "weight {} without a question or voter cannot be streamed among others"
        query.refuse(f"{_WEIGHT} <> 1 AND {alone}", sentence, "weight")


def _refuse_repeats(query: _Query, holds: frozenset[str], n: int) -> None:
    """Refuse a battle id that comes twice from one source and judge in one dimension."""
    if "battle_id" not in holds:
        return
    parts = ["battle_id", *(name for name in IDENTITY if name in holds)]
    key, every = f"hash({', '.join(parts)})", max(1, -(-n // COMPARED_IDS))
    some = f"battle_id <> '' AND hash(battle_id) % {every} = 0"
    twice = f"SELECT {key} FROM ({query.battles()}) WHERE {some} GROUP BY 1 HAVING count(*) > 1"
    if (row := query.con.execute(f"{twice} LIMIT 1").fetchone()) is None:
        return
    (first, _), (second, name), *_ = query.rows(f"{key} = {row[0]}", "battle_id", 2)
    raise DataError(f"{second}: battle_id {name!r} again; remove it or that at {first}")


def _repeated(query: _Query, holds: frozenset[str], n: int) -> int:
    """How many rows without an id are the same as an earlier one, as in a file that is held; of
    more than are compared, those of every n-th question (or time) by its hash are.
    """
    named = sorted({"question_id", "timestamp"} & holds)
    if "battle_id" in holds or not named:
        return 0
    every = max(1, -(-n // COMPARED_IDS))
    names = dict.fromkeys(name for file in query.files for name in tabular.columns_of(file))
    some = f"({query.battles()}) WHERE hash({named[0]}) % {every} = 0"

    def repeats(table: str, every: int) -> int:
        hashes = f"SELECT hash(whole) AS h FROM {table} AS whole"
        rows = f"SELECT count(*) - count(DISTINCT h) FROM ({hashes}) WHERE h % {every} = 0"
        return every * int(query.con.execute(rows).fetchall()[0][0])

    whole = tabular.table_of(query.files, tuple(names))
    return repeats(f"(SELECT {', '.join(sorted(holds))} FROM {some})", 1) and repeats(whole, every)


def _warn_left_out(query: _Query, path: str | Path) -> None:
    """Warn of rows that the format leaves out, with their number."""
    for reason, condition in query.format.left_out.items():
        rows = f"SELECT count(*) FROM ({query.file()}) AS file WHERE {condition}"
        if n := query.con.execute(rows).fetchall()[0][0]:
            warnings.warn(f"{path}: left out {n:,} {reason}", LeftOutWarning, stacklevel=3)


@dataclass(frozen=True, slots=True, eq=False)
class BattleFiles:
    """A log that is read in chunks: its count cells are known, its rows stay on disk."""

    files: tuple[Path, ...]
    format: Format
    holds: frozenset[str]
    cells: CellTable
    hashes: Hashes
    meter: Meter

    @classmethod
    def of(
        cls,
        path: str | Path,
        *,
        format: str | None = None,  # noqa: A002 (what --format takes)
        columns: Columns | None = None,
        meter: Meter | None = None,
    ) -> BattleFiles:
        """Count the battles of a file, a folder or a pattern; values nobody knows are refused,
        with file and row, and so is a battle id that comes twice. Of more than five million ids
        only a part is compared: enough to find a file that is there twice.
        """
        files = battle_files(Path(path))
        fmt = _one_format(files, format, columns)
        with _connected() as con:
            query = _Query(con, files, fmt)
            try:
                holds = query.holding()
                cells, hashes = _count_cells(query, holds)
                _refuse_repeats(query, holds, int(cells.count.sum()))
                repeated = _repeated(query, holds, int(cells.count.sum()))
            except duckdb.Error as error:
                for each in files:
                    tabular.check_text(each)
                raise DataError(f"{path}: {str(error).splitlines()[0]}") from None
            _warn_left_out(query, path)
            warn_of_reading(con, cells.log, str(path), repeated)
        return cls(files, fmt, holds, cells, hashes, meter or Meter())

    def __len__(self) -> int:
        return int(self.cells.count.sum())

    def __repr__(self) -> str:
        return f"BattleFiles({len(self)} battles, {len(self.cells.log.models)} models, on disk)"

    @property
    def ways(self) -> tuple[Way, ...]:
        """What the battles name: questions, voters."""
        return tuple(way for way, column in _CLUSTERS.items() if column in self.holds)

    def grouped(self, way: Way | None) -> Iterator[Rows]:
        """All battles by the hash of their question (or voter); None leaves them in order."""
        with _connected() as con:
            battles = _Query(con, self.files, self.format).battles()
            columns = self._row_columns(way)
            query = f"SELECT {columns} FROM ({battles}) {'ORDER BY cluster' if way else ''}"
            yield from self._read(con.execute(query))

    def _row_columns(self, way: Way | None) -> str:
        itself = f"hash({_FILE}, {_ROW})"
        own = {
            way: f"CASE WHEN {column} <> '' THEN hash({column}) ELSE {itself} END"
            for way, column in _CLUSTERS.items()
        }
        both = f"hash({', '.join(own.values())})"
        cluster = itself if way is None else own.get(way, both)
        weight = f", coalesce({_WEIGHT}, 1.0) AS weight" if "weight" in self.holds else ""
        return f"{_cell_hash(self.holds)} AS cell, {cluster} AS cluster{weight}"

    def _read(self, result: Connection) -> Iterator[Rows]:
        """The rows of a query as they come."""
        while True:
            columns: Any = result.fetch_df_chunk(CHUNK // 2048)
            given = {name: np.asarray(columns[name]) for name in columns}
            if not (n := len(given["cell"])):
                return
            cell, cluster = (given[name].astype(np.uint64) for name in ("cell", "cluster"))
            place = np.searchsorted(self.hashes, cell).clip(max=len(self.hashes) - 1)
            if np.any(self.hashes[place] != cell):
                raise DataError(f"{self.files[0]}: the battles changed while they were read")
            self.meter.done += n
            yield Rows(place.astype(np.int32), cluster, given.get("weight", np.ones(n)))
