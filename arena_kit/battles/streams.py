"""Battles that are rated where they are: files of any size, counted by DuckDB and read in chunks.

Only kinds of battle (who met whom, and how it ended) are held, and a chunk of rows at a time; what
has to be sorted is sorted by DuckDB, which puts on disk what does not fit.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.cells import CellTable, HashIndex, Rows, Share, Way
from arena_kit.battles.files import MOMENT
from arena_kit.battles.lookalikes import LookAlikeWarning, look_alikes
from arena_kit.battles.readers.format import Columns, Format
from arena_kit.battles.stream_cells import counted, refuse_repeats, warn_left_out
from arena_kit.battles.stream_source import (
    CHUNK,
    FILE,
    ROW,
    Source,
    battle_files,
    connected,
    format_of_all,
    kind_hash,
    pieces_of,
)
from arena_kit.battles.tabular import check_json
from arena_kit.files import DataError

_SHARES = 16
_NAMES: dict[Way, str] = {"question": "question_id", "voter": "voter"}


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
        fmt = format_of_all(files, format, columns)
        with connected() as con:
            source = Source(con, files, fmt)
            try:
                holds = source.holding()
                cells, hashes = counted(source, holds)
                refuse_repeats(source, holds, int(cells.count.sum()))
            except duckdb.Error as error:
                for each in files:
                    check_json(each)
                raise DataError(f"{path}: {str(error).splitlines()[0]}") from None
            warn_left_out(source, path)
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
        return tuple(way for way, column in _NAMES.items() if column in self.holds)

    def voters(self, enough: int) -> int:
        """How many voters there are, counted no further than `enough`."""
        with connected() as con:
            some = f"SELECT DISTINCT voter FROM ({Source(con, self.files, self.format).battles()})"
            query = (
                f"SELECT count(*) FROM (SELECT * FROM ({some}) WHERE voter <> '' LIMIT {enough})"
            )
            return int(con.execute(query).fetchall()[0][0])

    def shares(self) -> list[Share]:
        """The log cut into at most 16 parts, always at the same rows."""
        with connected() as con:
            pieces = pieces_of(con, self.files)
        sizes = np.array([max(stop - start, 1) for _, start, stop in pieces])
        part = (np.cumsum(sizes) - 1) * min(_SHARES, len(pieces)) // sizes.sum()
        return [
            Share(tuple(each for each, p in zip(pieces, part, strict=True) if p == own))
            for own in np.unique(part)
        ]

    def rows(self, share: Share, way: Way | None) -> Iterator[Rows]:
        """The battles of a part, in the order of the files."""
        with connected() as con:
            for number, start, stop in share.pieces:
                own = Source(con, (self.files[number],), self.format)
                source = own.battles(start, stop)
                columns = self._row_columns(way, f"hash({number}, {ROW})")
                result = con.execute(f"SELECT {columns} FROM ({source})")
                yield from self._read(result, whole=stop > 0)

    def passed(self, share: Share) -> None:
        """A part was read by somebody else."""
        self.meter.add(sum(stop - start for _, start, stop in share.pieces))

    def grouped(self, way: Way | None, *, named: bool = False) -> Iterator[Rows]:
        """All battles by the hash of their question (or voter); None leaves them in order. With
        `named`, only those that name one.
        """
        if way is None:
            for share in self.shares():
                yield from self.rows(share, None)
            return
        with connected() as con:
            source = Source(con, self.files, self.format).battles()
            columns = self._row_columns(way, f"hash({FILE}, {ROW})")
            some = f"WHERE {_NAMES[way]} <> ''" if named and way in _NAMES else ""
            query = f"SELECT {columns} FROM ({source}) {some} ORDER BY cluster"
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
        with connected() as con:
            source = Source(con, self.files, self.format).battles()
            columns = self._row_columns(way, f"hash({FILE}, {ROW})")
            order = ", ".join([*by, FILE, ROW])
            query = f"SELECT {columns} FROM ({source}) ORDER BY {order}"
            yield from self._read(con.execute(query), whole=False)

    def _row_columns(self, way: Way | None, itself: str) -> str:
        own = [f"CASE WHEN {n} <> '' THEN hash({n}) ELSE {itself} END" for n in _NAMES.values()]
        ways: dict[str, str] = dict(zip(_NAMES, own, strict=True))
        cluster = f"hash({', '.join(own)})" if way == "both" else ways.get(way or "", itself)
        weight = ", coalesce(try_cast(weight AS DOUBLE), 1.0) AS weight"
        columns = f"{kind_hash(self.holds)} AS cell, {cluster} AS cluster"
        return columns + (weight if "weight" in self.holds else "")

    def _read(self, result: duckdb.DuckDBPyConnection, *, whole: bool) -> Iterator[Rows]:
        """The rows of a query, as a whole or, where they are many, as they come."""
        vectors = CHUNK // 2048
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
