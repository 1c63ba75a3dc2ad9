"""Battles that are rated where they are: files of any size, counted by DuckDB and read in chunks.

Only kinds of battle (who met whom, and how it ended) are held, and a chunk of rows at a time; what
has to be sorted is sorted by DuckDB, which puts on disk what does not fit.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import OUTCOMES, TIE, check_model_name, read_outcome, read_source
from arena_kit.battles.cells import CellTable, Hashes, HashIndex, Rows, Share, Way
from arena_kit.battles.files import MOMENT, LeftOutWarning
from arena_kit.battles.log import IDENTITY, Labels
from arena_kit.battles.lookalikes import LookAlikeWarning, look_alikes
from arena_kit.battles.readers.format import Columns, Format
from arena_kit.battles.readers.formats import format_of
from arena_kit.battles.readers.rows import text_columns, used
from arena_kit.battles.tabular import (
    SUFFIXES,
    check_json,
    columns_of,
    connection,
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
_CHUNK = 1_000_000
_SHARES = 16
_MEMORY = "1GB"  # what DuckDB may hold before it goes to disk
_ROW, _FILE = "arena_kit_row", "arena_kit_file"
_KEY = ("model_a", "model_b", "winner", "inconsistent", "dimension", "source")
_STREAMED = (
    *_KEY, "judge_model", "question_id", "voter", "weight", "timestamp", "battle_id", "share_a",
)  # fmt: skip
#: Battle ids that are compared; of more, every n-th by its hash is.
_COMPARED = 5_000_000


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
        _streamable(files, name, columns)
    except DataError:
        return False
    return not any("share_a" in columns_of(each) for each in files)


def large(files: Sequence[Path]) -> bool:
    """Whether files are better streamed than held."""
    if kind_of(files[0]) != "parquet":
        return sum(each.stat().st_size for each in files) >= STREAM_FROM_BYTES
    with _connected() as con:
        return sum(rows for _, rows in _row_groups(con, files)) >= STREAM_FROM


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

    def add(self, rows: int) -> None:
        """So many rows more."""
        self.done += rows

    def words(self) -> str:
        """What is being done, how many rows are, and the time left."""
        if not self.total:
            return self.doing
        told = f"{self.doing}: {self.done:,} of {self.total:,} rows"
        if not self.done:
            return told
        seconds = (time.monotonic() - self.began) * (self.total - self.done) / self.done
        minutes, seconds = divmod(int(seconds), 60)
        return f"{told}, {minutes}:{seconds:02} left"


@dataclass(frozen=True, slots=True, eq=False)
class BattleFiles:
    """A log that is read in chunks: its kinds of battle are known, its rows stay on disk."""

    files: tuple[Path, ...]
    format: Format
    holds: frozenset[str]
    cells: CellTable
    index: HashIndex
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
        """Count the kinds of battle in a file, a folder or a pattern; values nobody knows are
        refused, with file and row, and so is a battle id that comes twice. Of more than five
        million ids only a part is compared: enough to find a file that is there twice.
        """
        files = battle_files(Path(path))
        fmt = _streamable(files, format, columns)
        with _connected() as con:
            source = _Source(con, files, fmt)
            try:
                holds = source.holding()
                cells, hashes = _counted(source, holds)
                _refuse_repeats(source, holds, int(cells.count.sum()))
            except duckdb.Error as error:
                for each in files:
                    check_json(each)
                raise DataError(f"{path}: {str(error).splitlines()[0]}") from None
            _warn_left_out(source, path)
        if sentence := look_alikes(cells.models):
            warnings.warn(f"{path}: {sentence}", LookAlikeWarning, stacklevel=2)
        return cls(files, fmt, holds, cells, HashIndex.of(hashes), meter or Meter())

    def __len__(self) -> int:
        return int(self.cells.count.sum())

    def __repr__(self) -> str:
        return f"BattleFiles({len(self)} battles, {len(self.cells.models)} models, on disk)"

    @property
    def ways(self) -> tuple[Way, ...]:
        """What the battles name: questions, voters."""
        named: dict[Way, str] = {"question": "question_id", "voter": "voter"}
        return tuple(way for way, column in named.items() if column in self.holds)

    def voters(self, enough: int) -> int:
        """How many voters there are, counted no further than `enough`."""
        with _connected() as con:
            some = f"SELECT DISTINCT voter FROM ({_Source(con, self.files, self.format).battles()})"
            query = (
                f"SELECT count(*) FROM (SELECT * FROM ({some}) WHERE voter <> '' LIMIT {enough})"
            )
            return int(con.execute(query).fetchall()[0][0])

    def shares(self) -> list[Share]:
        """The log cut into at most 16 parts, always at the same rows."""
        with _connected() as con:
            pieces = _pieces(con, self.files)
        sizes = np.array([max(stop - start, 1) for _, start, stop in pieces])
        part = (np.cumsum(sizes) - 1) * min(_SHARES, len(pieces)) // sizes.sum()
        return [
            Share(tuple(each for each, p in zip(pieces, part, strict=True) if p == own))
            for own in np.unique(part)
        ]

    def rows(self, share: Share, way: Way | None) -> Iterator[Rows]:
        """The battles of a part, in the order of the files."""
        with _connected() as con:
            for number, start, stop in share.pieces:
                own = _Source(con, (self.files[number],), self.format)
                source = own.battles(start, stop)
                columns = self._row_columns(way, f"hash({number}, {_ROW})")
                result = con.execute(f"SELECT {columns} FROM ({source})")
                yield from self._read(result, whole=stop > 0)

    def passed(self, share: Share) -> None:
        """A part was read by somebody else."""
        self.meter.add(sum(stop - start for _, start, stop in share.pieces))

    def grouped(self, way: Way | None) -> Iterator[Rows]:
        """All battles by the hash of their question (or voter); None leaves them in order."""
        if way is None:
            for share in self.shares():
                yield from self.rows(share, None)
            return
        with _connected() as con:
            source = _Source(con, self.files, self.format).battles()
            columns = self._row_columns(way, f"hash({_FILE}, {_ROW})")
            query = f"SELECT {columns} FROM ({source}) ORDER BY cluster"
            yield from self._read(con.execute(query), whole=False)

    def in_order(self) -> Iterator[Rows]:
        """All battles by time, then by id, then as they stand."""
        way: Way | None = "question" if "question" in self.ways else None
        by = [f"{MOMENT} NULLS LAST"] if "timestamp" in self.holds else []
        by += ["battle_id NULLS LAST"] if "battle_id" in self.holds else []
        if not by:
            for share in self.shares():
                yield from self.rows(share, way)
            return
        with _connected() as con:
            source = _Source(con, self.files, self.format).battles()
            columns = self._row_columns(way, f"hash({_FILE}, {_ROW})")
            order = ", ".join([*by, _FILE, _ROW])
            query = f"SELECT {columns} FROM ({source}) ORDER BY {order}"
            yield from self._read(con.execute(query), whole=False)

    def _row_columns(self, way: Way | None, itself: str) -> str:
        named = {"question": "question_id", "voter": "voter"}
        own = [f"CASE WHEN {n} <> '' THEN hash({n}) ELSE {itself} END" for n in named.values()]
        ways = dict(zip(named, own, strict=True))
        cluster = f"hash({', '.join(own)})" if way == "both" else ways.get(way or "", itself)
        weight = ", coalesce(try_cast(weight AS DOUBLE), 1.0) AS weight"
        columns = f"{_key(self.holds)} AS cell, {cluster} AS cluster"
        return columns + (weight if "weight" in self.holds else "")

    def _read(self, result: duckdb.DuckDBPyConnection, *, whole: bool) -> Iterator[Rows]:
        """The rows of a query, as a whole or, where they are many, as they come."""
        vectors = _CHUNK // 2048
        while True:
            columns: Any = result.fetchnumpy() if whole else result.fetch_df_chunk(vectors)
            if len(columns["cell"]):
                yield self._rows({name: np.asarray(columns[name]) for name in columns})
            if whole or not len(columns["cell"]):
                return

    def _rows(self, columns: dict[str, NDArray[Any]]) -> Rows:
        cell = self.index.places(columns["cell"].astype(np.uint64, copy=False))
        if np.any(cell < 0):
            raise DataError(f"{self.files[0]}: the battles changed while they were read")
        self.meter.add(len(cell))
        cluster = columns["cluster"].astype(np.uint64, copy=False)
        return Rows(cell, cluster, columns.get("weight"))


@contextmanager
def _connected() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that holds little and sorts on disk."""
    with tempfile.TemporaryDirectory(prefix="arena-kit-") as folder, connection() as con:
        con.execute(f"SET memory_limit = '{_MEMORY}'; SET temp_directory = '{folder}'")
        yield con


def _streamable(files: tuple[Path, ...], name: str | None, columns: Columns | None) -> Format:
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
class _Source:
    """Files in a format as a query: a row per battle, our columns as text, and where it stands."""

    con: duckdb.DuckDBPyConnection
    files: tuple[Path, ...]
    format: Format

    def table(self, columns: Sequence[str]) -> str:
        """The files with a column of row numbers."""
        table = table_of(self.files, columns, names=_FILE)
        if kind_of(self.files[0]) == "parquet":
            return f"(SELECT *, file_row_number AS {_ROW} FROM {table})"
        return f"(SELECT *, row_number() OVER () - 1 AS {_ROW} FROM {table})"

    def file(self) -> str:
        """The columns that the format speaks of, as text."""
        chosen = {name: self.format.battles[name] for name in self._known()}
        names = used(self.format, chosen)
        table = self.table(names)
        texts = text_columns(names, types_of(self.con, table))
        return f"SELECT {texts}, {_ROW}, {_FILE} FROM {table}"

    def battles(self, start: int = 0, stop: int = 0) -> str:
        """The battles of all rows, or of some; those that are none are left out."""
        wanted = [f"CAST({self.format.battles[n]} AS VARCHAR) AS {n}" for n in self._known()]
        out = [f"NOT coalesce({condition}, false)" for condition in self.format.left_out.values()]
        some = [f"{_ROW} >= {start}", f"{_ROW} < {stop}"] if stop > 0 else []
        where = " AND ".join(["true", *out, *some])
        columns = ", ".join([*wanted, _ROW, _FILE])
        return f"SELECT {columns} FROM ({self.file()}) AS file WHERE {where}"

    def _known(self) -> list[str]:
        return [name for name in _STREAMED if name in self.format.battles]

    def holding(self) -> frozenset[str]:
        """The optional columns that hold anything."""
        present = set(types_of(self.con, self.table(used(self.format, self.format.battles))))
        named = {
            name
            for name in self._known()
            if any(
                column in present for column in used(self.format, {name: self.format.battles[name]})
            )
        }
        some = f"SELECT 1 FROM ({self.battles()}) WHERE"
        held = (n for n in named if self.con.execute(f"{some} {n} IS NOT NULL LIMIT 1").fetchone())
        return frozenset(held)

    def refuse(self, condition: str, column: str, sentence: str) -> None:
        """Raise for the first row of the first file that a condition holds for."""
        for path in self.files:
            own = _Source(self.con, (path,), self.format).battles()
            query = f"SELECT {_ROW}, {column} FROM ({own}) WHERE {condition} ORDER BY 1 LIMIT 1"
            if (row := self.con.execute(query).fetchone()) is not None:
                told = sentence.format(str(row[1])[:60])
                raise DataError(f"{path}{place_of(path, row[0])}: {told}")


def _key(holds: frozenset[str]) -> str:
    """The hash of what makes a kind of battle; of a hundred thousand kinds two share one with a
    probability of 3 in ten billion.
    """
    return f"hash({', '.join(name for name in _KEY if name in holds)})"


def _counted(source: _Source, holds: frozenset[str]) -> tuple[CellTable, Hashes]:
    """Every kind of battle, checked, and its hash."""
    key = [name for name in _KEY if name in holds]
    if missing := [name for name in _KEY[:3] if name not in holds]:
        source.refuse("true", "''", f"{missing[0]} is missing")
        raise DataError(f"{source.files[0]}: no battles")
    if "share_a" in holds:
        raise DataError(f"{source.files[0]}: soft outcomes (share_a) cannot be streamed")
    number = "try_cast(weight AS DOUBLE)"
    weight = f"sum(coalesce({number}, 1.0))" if "weight" in holds else "count(*)::DOUBLE"
    kinds = ", ".join(f"any_value({name}) AS {name}" for name in key)
    query = f"SELECT {_key(holds)} AS h, count(*) AS n, {weight} AS weight, {kinds}"
    rows = source.con.execute(f"{query} FROM ({source.battles()}) GROUP BY h ORDER BY h")
    columns = {name: _plain(column) for name, column in rows.fetchnumpy().items()}
    if "weight" in holds:
        wrong = (
            f"weight IS NOT NULL AND ({number} IS NULL OR NOT isfinite({number}) OR {number} <= 0)"
        )
        source.refuse(wrong, "weight", "weight {!r} is not a positive finite number")
        _refuse_unnamed(source, holds)
    cells = _table(source, columns)
    return cells, columns["h"].astype(np.uint64)


def _refuse_unnamed(source: _Source, holds: frozenset[str]) -> None:
    """Refuse a weight without question and voter among battles that have one: it stands for several
    votes, and theirs does not.
    """
    if named := [name for name in ("question_id", "voter") if name in holds]:
        alone = " AND ".join(f"coalesce({name}, '') = ''" for name in named)
        sentence = "weight {!r} without a question or voter cannot be streamed among others"
        source.refuse(f"try_cast(weight AS DOUBLE) <> 1 AND {alone}", "weight", sentence)


def _refuse_repeats(source: _Source, holds: frozenset[str], n: int) -> None:
    """Refuse a battle id that comes twice from one source and judge in one dimension."""
    if "battle_id" not in holds:
        return
    parts = ["battle_id", *(name for name in IDENTITY if name in holds)]
    key, every = f"hash({', '.join(parts)})", max(1, -(-n // _COMPARED))
    some = f"battle_id <> '' AND hash(battle_id) % {every} = 0"
    twice = f"SELECT {key} FROM ({source.battles()}) WHERE {some} GROUP BY 1 HAVING count(*) > 1"
    if (row := source.con.execute(f"{twice} LIMIT 1").fetchone()) is None:
        return
    places, name = [], ""
    for path in source.files:
        own = _Source(source.con, (path,), source.format).battles()
        query = f"SELECT {_ROW}, battle_id FROM ({own}) WHERE {key} = {row[0]} ORDER BY 1 LIMIT 2"
        for number, name in source.con.execute(query).fetchall():  # noqa: B007 (kept)
            places.append(f"{path}{place_of(path, number)}")
    raise DataError(f"{places[1]}: battle_id {name[:60]!r} was there before, at {places[0]}")


def _plain(column: Any) -> NDArray[Any]:
    """A column without a mask: None stands where it has no value."""
    if not isinstance(column, np.ma.MaskedArray):
        return np.asarray(column)
    plain = column.data.astype(object)
    plain[np.ma.getmaskarray(column)] = None
    return plain


def _table(source: _Source, columns: dict[str, NDArray[Any]]) -> CellTable:
    checked = {
        "model_a": cache(check_model_name), "model_b": cache(check_model_name),
        "winner": cache(read_outcome), "source": cache(_known_source), "inconsistent": cache(_flag),
    }  # fmt: skip
    values: dict[str, list[Any]] = {}
    for name, check in checked.items():
        if name not in columns:
            continue
        values[name] = []
        for value in columns[name].tolist():
            try:
                values[name].append(check(value))
            except DataError as error:
                _refuse_value(source, name, value, str(error))
    sides = Labels.of([*values["model_a"], *values["model_b"]])
    a, b = np.split(sides.codes, 2)
    if np.any(a == b):
        twice = sides.names[a[np.argmax(a == b)]]
        source.refuse("model_a = model_b", "model_a", f"both models are {twice!r}")
    outcome = np.array([OUTCOMES.index(each) for each in values["winner"]], np.int8)
    flags = np.array(values.get("inconsistent", [False] * len(a)), bool)
    if np.any(flags & (outcome != TIE)):
        wrong = "lower(inconsistent) = 'true' AND winner <> 'tie'"
        source.refuse(wrong, "winner", "an inconsistent battle must have winner 'tie'")
    dimension = columns.get("dimension")
    return CellTable(
        models=tuple(sides.names),
        a=a,
        b=b,
        outcome=outcome,
        inconsistent=flags,
        dimension=None if dimension is None else Labels.of([x or None for x in dimension.tolist()]),
        count=columns["n"].astype(np.int64),
        weight=columns["weight"].astype(float),
    )


def _known_source(value: object) -> object:
    return None if value in (None, "") else read_source(value)


def _flag(value: str | None) -> bool:
    if (text := (value or "false").lower()) not in ("true", "false"):
        raise DataError(f"inconsistent {value[:60]!r} is not true or false" if value else "")
    return text == "true"


def _refuse_value(source: _Source, column: str, value: str | None, sentence: str) -> None:
    """Raise for the first row that has this value."""
    if value is None:
        source.refuse(f"{column} IS NULL", "''", f"{column} is missing")
    literal = "'" + str(value).replace("'", "''") + "'"
    told = sentence.replace("{", "{{").replace("}", "}}")
    source.refuse(f"{column} = {literal}", "''", told)
    raise DataError(f"{source.files[0]}: {sentence}")


def _warn_left_out(source: _Source, path: str | Path) -> None:
    for told, condition in source.format.left_out.items():
        query = f"SELECT count(*) FROM ({source.file()}) AS file WHERE {condition}"
        if n := source.con.execute(query).fetchall()[0][0]:
            warnings.warn(f"{path}: left out {n:,} {told}", LeftOutWarning, stacklevel=3)


def _row_groups(con: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> Iterator[tuple[int, int]]:
    """The rows of every row group of Parquet files: the file's number, and how many."""
    for number, path in enumerate(files):
        literal = "'" + str(path).replace("'", "''") + "'"
        groups = (
            f"SELECT DISTINCT row_group_id, row_group_num_rows FROM parquet_metadata({literal})"
        )
        for _, rows in con.execute(f"{groups} ORDER BY 1").fetchall():
            yield number, rows


def _pieces(con: duckdb.DuckDBPyConnection, files: Sequence[Path]) -> list[tuple[int, int, int]]:
    """Pieces of Parquet files of about a million rows, whole row groups each; a text file is one
    piece, whose end is not known (0).
    """
    if kind_of(files[0]) != "parquet":
        return [(number, 0, 0) for number in range(len(files))]
    pieces: list[tuple[int, int, int]] = []
    for number, rows in _row_groups(con, files):
        last = pieces[-1] if pieces else (-1, 0, 0)
        if last[0] == number and last[2] - last[1] + rows <= _CHUNK:
            pieces[-1] = (number, last[1], last[2] + rows)
        else:
            start = last[2] if last[0] == number else 0
            pieces.append((number, start, start + rows))
    return pieces
