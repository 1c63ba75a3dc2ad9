"""Clusters of battles: those of a question or of a voter are one piece of evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import MIN_QUESTIONS, questions_seen
from arena_kit.rating.bradley_terry.likelihood import Cells
from arena_kit.rating.bradley_terry.tie_models import Floats
from arena_kit.rating.resampling import PoissonWeights

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Cluster = Literal["both", "question", "voter", "battle"]
Ints = NDArray[np.int32]

#: What claims are about, and the clusters that make them so, the usual ones first: for prompts like
#: these the questions are a sample of all that might be asked, for these prompts only votes are.
CLAIMS_ABOUT: dict[str, tuple[Cluster, ...]] = {
    "prompts_like_these": ("both", "question"),
    "these_prompts": ("voter", "battle"),
}


@dataclass(frozen=True, slots=True)
class Votes:
    """What resamples are made of: `battles` counts those of each cell (row) in each cluster, which
    `times` draws for some resamples; without it, those of each cell in each resample.
    """

    cells: Cells
    battles: csr_array | Floats
    times: Callable[[slice], Floats] | None = None

    @property
    def held(self) -> int:
        """Numbers that are held for each resample."""
        return len(self.cells.a) if self.times is None else int(sum(self.battles.shape))

    def drawn(self, some: slice) -> Floats:
        """How often each cell stands in some resamples, a column each."""
        if self.times is None:
            return np.ascontiguousarray(self.battles[:, some])
        return np.asarray(self.battles @ self.times(some), float)

    def added_up(self, sums: csr_array) -> Votes:
        """The same for sums (rows) of the cells (columns)."""
        return replace(self, battles=sums @ self.battles)


class Partition(NamedTuple):
    """One way to cut the battles into pieces, and whether its spread is added or taken off.

    `clusters` None makes each row's votes pieces of their own.
    """

    sign: int
    clusters: Ints | None
    pieces: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A log's battles, a cell each, and which of them belong together.

    With `clusters`, battles of one cluster are one piece of evidence; without, each battle is.
    `voters` are a second way to cut them, where both count. `counts` says how many votes alike a
    row stands for: its weight where it has neither question nor voter, as in a table of pair
    counts, else 1. `pieces` is how many there are, and `seen` how many each model takes part in,
    by the way that has fewer.
    """

    rows: Cells
    clusters: Ints | None
    voters: Ints | None = None
    counts: Floats
    seen: Floats
    pieces: float

    @classmethod
    def of(cls, log: BattleLog, x: Floats, cluster: Cluster) -> Evidence:
        """The evidence of a log; votes without a question stand for themselves, and those that
        are alike share a row.
        """
        ways = _ways(log, cluster)
        if log.question_id is None and log.voter is None and not x.shape[1] and log.share_a is None:
            return cls._counted(log)
        named = np.zeros(len(log), bool)
        for labels in (log.question_id, log.voter):
            named |= np.zeros(len(log), bool) if labels is None else labels.codes >= 0
        counts = np.where(named, 1.0, log.weights())
        extra = log.per_model(counts - 1)
        seen = np.array(
            [questions_seen(log.a, log.b, way, len(log.models)) + extra for way in ways]
            or [log.per_model(counts)]
        ).min(axis=0)
        cuts: list[Ints | None] = [way for way in ways if way.max() + 1 < len(log)]
        first, second = (*cuts, None, None)[:2]
        alike = first is None and not x.shape[1] and log.share_a is None
        if alike and np.array_equal(counts, log.weights()):
            return replace(cls._counted(log), seen=seen)
        return cls(
            rows=Cells.of(log, x),
            clusters=first,
            voters=second,
            counts=counts,
            seen=seen,
            pieces=min(_pieces(way, counts) for way in cuts or [None]),
        )

    @classmethod
    def _counted(cls, log: BattleLog) -> Evidence:
        """The evidence of votes that stand for themselves, a row for those alike."""
        single, counts = Cells.summed(log).single_votes()
        n = len(log.models)
        seen = np.bincount(np.append(single.a, single.b), np.tile(counts, 2), n).astype(float)
        rows, pieces = single.with_weights(counts), float(counts.sum())
        return cls(rows=rows, clusters=None, counts=counts, seen=seen, pieces=pieces)

    def partitions(self) -> list[Partition]:
        """The ways to cut the battles: by two of them, pieces that share both count twice and are
        taken off once (Cameron, Gelbach and Miller 2011).
        """
        ways = [(1, self.clusters)]
        if self.clusters is not None and self.voters is not None:
            cells = self.clusters.astype(np.int64) * (int(self.voters.max()) + 1) + self.voters
            both = np.unique(cells, return_inverse=True)[1].astype(np.int32)
            ways += [(1, self.voters), (-1, both if both.max() + 1 < len(both) else None)]
        return [Partition(sign, way, _pieces(way, self.counts)) for sign, way in ways]

    def votes(self, seed: int, n: int) -> Votes:
        """What `n` resamples draw from. Of a cluster that counts several votes alike, each is drawn
        by itself; other clusters are drawn whole.
        """
        from scipy.sparse import csr_array

        cells, of_row = self.rows.with_weights(1 / self.counts).alike(len(self.seen))
        clusters = np.arange(len(of_row)) if self.clusters is None else self.clusters
        counts = np.ones(int(clusters.max()) + 1)
        counts[clusters] = self.counts
        times = partial(
            PoissonWeights.of(seed, n).times,
            np.arange(len(counts), dtype=np.uint64),
            counts=None if np.all(counts == 1) else counts,
        )
        return Votes(cells, csr_array((np.ones(len(of_row)), (of_row, clusters))), times)


def _pieces(clusters: Ints | None, counts: Floats) -> float:
    whole = 0.0 if clusters is None else float(clusters.max()) + 1 - len(counts)
    return whole + float(counts.sum())


def _ways(log: BattleLog, cluster: Cluster) -> list[Ints]:
    """How battles hang together; `both` leaves out what the log does not name, and voters who are
    too few to stand for others.
    """
    ways = []
    if log.question_id is not None and cluster in ("both", "question"):
        ways.append(log.clusters())
    if log.voter is not None and cluster in ("both", "voter"):
        voters = log.clusters("voter")
        if cluster == "voter" or voters.max() + 1 >= MIN_QUESTIONS:
            ways.append(voters)
    return ways
