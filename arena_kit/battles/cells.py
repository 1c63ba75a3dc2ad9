"""Battles that stay on disk, as rating methods see them: count cells, and rows in chunks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog, Ints

Hashes = NDArray[np.uint64]
#: By what rows are clustered: what they are about, who voted, or both.
Way = Literal["question", "voter", "both"]


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
    that it is clustered by (of itself, where it names none), and its weight.
    """

    cell: Ints
    cluster: Hashes
    weight: NDArray[np.float64]


class Stream(Protocol):
    """A log that is read in chunks and never held: what `rating.on_disk` takes."""

    @property
    def cells(self) -> CellTable:
        """Its count cells."""

    @property
    def ways(self) -> tuple[Way, ...]:
        """What its battles name: questions, voters."""

    def grouped(self, way: Way | None) -> Iterator[Rows]:
        """All battles by the hash of their question (or voter); None leaves them in order."""


def whole_clusters(chunks: Iterator[Rows]) -> Iterator[Rows]:
    """Chunks of sorted rows, cut between clusters."""
    left: list[Any] = []
    for chunk in chunks:
        parts: Any = zip(left, chunk, strict=True) if left else zip(chunk, strict=True)
        rows: list[Any] = [np.concatenate(each) for each in parts]
        cut = int(np.searchsorted(rows[1], rows[1][-1]))
        if cut:
            yield Rows(*(each[:cut] for each in rows))
        left = [each[cut:] for each in rows]
    if left:
        yield Rows(*left)
