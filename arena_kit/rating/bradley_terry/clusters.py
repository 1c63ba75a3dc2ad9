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
from arena_kit.rating.bradley_terry.likelihood import Cells, Codes, Floats
from arena_kit.rating.resampling import PoissonWeights

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Cluster = Literal["both", "question", "voter", "battle"]
Ints = NDArray[np.int32]

#: Effective voters, (ΣN)² / ΣN² of their battles, from which a board's voters stand for others.
MIN_VOTERS = 8.0
#: Those that a model needs for an interval where voters are clusters.
MIN_VOTERS_OF_MODEL = 5.0
_SMALL = 1_000_000  # numbers of a table of clusters and models that is always a full one
_DENSE = 8  # a table of clusters and models that is full to one part in so many is no sparse one
#: What claims are about, and the clusters that make them so, the usual ones first: for prompts like
#: these the questions are a sample of all that might be asked, for these prompts only votes are.
CLAIMS_ABOUT: dict[str, tuple[Cluster, ...]] = {
    "similar_prompts": ("both", "question"),
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
    counts, else 1. `pieces` is how many there are by the way that has fewer. `freedom` has the
    degrees of freedom of every gap, and of every rating on its diagonal; `scarce` are models with
    too little evidence for an interval. `these_voters` is the effective number of voters who are
    too few to stand for others, 0 where they are not. `questions` counts those that are clusters.
    """

    rows: Cells
    clusters: Ints | None
    voters: Ints | None = None
    counts: Floats
    freedom: Floats
    scarce: NDArray[np.bool_]
    pieces: float
    these_voters: float = 0.0
    questions: int = 0

    @classmethod
    def of(cls, log: BattleLog, x: Floats, cluster: Cluster) -> Evidence:
        """The evidence of a log; votes without a question stand for themselves, and those that
        are alike share a row.
        """
        ways, these = _ways(log, cluster)
        plain = not x.shape[1] and log.share_a is None
        asked = int(ways["question"].max()) + 1 if "question" in ways else 0
        named = np.zeros(len(log), bool)
        for labels in (log.question_id, log.voter):
            named |= np.zeros(len(log), bool) if labels is None else labels.codes >= 0
        counts = np.where(named, 1.0, log.weights())
        cuts = {name: way for name, way in ways.items() if way.max() + 1 < len(log)}
        n, alone = len(log.models), {"battle": log.per_model(counts)}
        if not cuts and plain and np.array_equal(counts, log.weights()):
            votes, counts = Cells.summed(log).single_votes()
            rows, seen = votes.with_weights(counts), alone
        else:
            rows, more = Cells.of(log, x), log.per_model(counts - 1)
            seen = {k: questions_seen(log.a, log.b, way, n) + more for k, way in ways.items()}
            seen = seen or alone
        squares = [squared_shares(rows, counts, cuts.get(name), n) for name in seen]
        scarce = [
            too_few(name, each, q) for (name, each), q in zip(seen.items(), squares, strict=True)
        ]
        return cls(
            rows=rows,
            clusters=next(iter(cuts.values()), None),
            voters=cuts.get("voter") if len(cuts) > 1 else None,
            counts=counts,
            freedom=freedom(squares),
            scarce=np.any(scarce, axis=0),
            pieces=min(_pieces(way, counts) for way in cuts.values() or [None]),
            these_voters=these,
            questions=asked,
        )

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

        cells, of_row = self.rows.with_weights(1 / self.counts).alike(len(self.scarce))
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


def _ways(log: BattleLog, cluster: Cluster) -> tuple[dict[str, Ints], float]:
    """How battles hang together; `both` leaves out what the log does not name, and voters who are
    too few to stand for others, whose effective number comes with it (else 0).
    """
    ways: dict[str, Ints] = {}
    if log.question_id is not None and cluster in ("both", "question"):
        ways["question"] = log.clusters()
    if log.voter is not None and cluster in ("both", "voter"):
        voters = log.clusters("voter")
        cast = np.bincount(voters, log.weights())
        effective = float(cast.sum() ** 2 / (cast**2).sum())
        if cluster == "both" and effective < MIN_VOTERS:
            return ways, effective
        ways["voter"] = voters
    return ways, 0.0


def few_voters(effective: float) -> tuple[str, ...]:
    """What is said where voters are too few to stand for others."""
    if not effective:
        return ()
    why = f"{effective:.1f} effective voters are too few to stand for others"
    return (f"Claims are about these voters: {why} ({MIN_VOTERS:g} needed).",)


def too_few(way: str, seen: Floats, squares: Floats) -> NDArray[np.bool_]:
    """Models with too little evidence for an interval: on too few questions, or from too few
    effective voters.
    """
    few = np.asarray(seen < MIN_QUESTIONS)
    return few if way != "voter" else np.asarray(1 / np.diag(squares) < MIN_VOTERS_OF_MODEL)


def squared_shares(cells: Cells, counts: Floats, clusters: Ints | None, n: int) -> Floats:
    """One over the effective number of clusters of every two models."""
    games = cells.games
    total = np.bincount(np.append(cells.a, cells.b), np.tile(games, 2), n).astype(float)
    products = of_clusters(cells.a, cells.b, games / np.sqrt(counts), clusters, n, sign=1)
    return inverse_effective(products, total)


def inverse_effective(products: Floats, total: Floats) -> Floats:
    """One over the effective number of clusters of every two models, (n_i + n_j)² / Σ(N_i + N_j)²,
    from the sums of products of their battles over clusters.
    """
    own = np.diag(products)
    joint = own[:, None] + own[None, :] + 2 * products
    return np.asarray(joint / (total[:, None] + total[None, :]) ** 2)


def freedom(squares: list[Floats]) -> Floats:
    """The degrees of freedom of every gap: effective clusters less one, by the way with fewest."""
    return np.asarray(np.maximum(1.0, 1 / np.max(squares, axis=0) - 1), float)


def of_clusters(
    a: Codes, b: Codes, values: Floats, clusters: Ints | None, n: int, sign: int = -1
) -> Floats:
    """The sum over clusters of the outer product of their summed values, added to the first model
    and with this sign to the second.
    """
    own = np.arange(len(a)) if clusters is None else clusters.astype(np.int64)
    row, column, value = np.append(own, own), np.append(a, b), np.append(values, sign * values)
    shape = (int(row.max()) + 1, n)
    if shape[0] * n < max(_SMALL, _DENSE * len(row)):
        whole = np.bincount(row * n + column, value, shape[0] * n).reshape(shape)
        return np.asarray(whole.T @ whole)
    from scipy.sparse import csr_array

    sums = csr_array((value, (row, column)), shape=shape)
    return np.asarray((sums.T @ sums).toarray())
