"""Battles that stay on disk, as rating methods see them: count cells, and rows in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog, Ints

Hashes = NDArray[np.uint64]
#: By what rows are clustered: what they are about, who voted, or both.
Way = Literal["question", "voter", "both"]
#: Part of a log: pieces of files, each its number and its first and last row (exclusive).
Share = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellTable:
    """The count cells of a log: one for all battles of a dimension with the same sides, source and
    outcome.

    Parameters
    ----------
    log
        One battle per cell, whose weight is the sum of weights: the count itself where battles
        have none.
    count
        How many battles there are in each cell.
    """

    log: BattleLog
    count: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.count)


class Rows(NamedTuple):
    """Some battles in a row: the cell of each in the `CellTable`, the hash of the question or voter
    that it is clustered by (of itself, where it names none), and its weight (None: 1 each).
    """

    cell: Ints
    cluster: Hashes
    weight: NDArray[np.float64] | None


class Stream(Protocol):
    """A log that is read in chunks and never held: what `rating.on_disk` takes."""

    @property
    def cells(self) -> CellTable:
        """Its count cells."""

    @property
    def ways(self) -> tuple[Way, ...]:
        """What its battles name: questions, voters."""

    def shares(self) -> list[Share]:
        """The log cut into parts, always at the same rows."""

    def rows(self, share: Share, way: Way | None) -> Iterator[Rows]:
        """The battles of a part in the order of the files."""

    def voters(self, enough: int) -> int:
        """How many voters there are, counted no further than `enough`."""

    def passed(self, share: Share) -> None:
        """A part was read by somebody else."""

    def grouped(self, way: Way | None) -> Iterator[Rows]:
        """All battles by the hash of their question (or voter); None leaves them in order."""


def whole_clusters(chunks: Iterator[Rows]) -> Iterator[Rows]:
    """Chunks of sorted rows, cut between clusters."""
    left: Rows | None = None
    for chunk in chunks:
        rows = chunk if left is None else _joined(left, chunk)
        cut = int(np.searchsorted(rows.cluster, rows.cluster[-1]))
        if cut:
            yield _part(rows, slice(None, cut))
        left = _part(rows, slice(cut, None))
    if left is not None:
        yield left


def _joined(one: Rows, other: Rows) -> Rows:
    columns = zip(one, other, strict=True)
    return Rows(*(None if a is None else np.concatenate([a, b]) for a, b in columns))  # type: ignore[arg-type]


def _part(rows: Rows, some: slice) -> Rows:
    return Rows(*(None if each is None else each[some] for each in rows))  # type: ignore[arg-type]
