"""Clusters of battles: those of a question or of a voter are one piece of evidence. How sure they
make Bradley–Terry strengths without resampling says the sandwich covariance, of one fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log as ln
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating import base
from arena_kit.rating.bradley_terry import likelihood
from arena_kit.rating.bradley_terry.likelihood import Cells, Codes, Fit, Floats
from arena_kit.rating.resampling import PoissonWeights

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Cluster = Literal["both", "question", "voter", "battle"]
Ints = NDArray[np.int32]

#: Effective voters, (ΣN)² / ΣN² of their battles, from which a board's voters stand for others.
MIN_VOTERS = 8.0
#: Those that a model needs for an interval where voters are clusters.
MIN_VOTERS_OF_MODEL = 5.0
_RIDGE = 1e-10  # what a cluster that holds all evidence of a model leaves of it
_HELD = 4_000_000  # numbers of the systems that are solved at once
_NEGLIGIBLE = 1e-10  # an eigenvalue, as a share of the largest, that is rounding
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
    too little evidence for an interval. `notes` says where voters are too few to stand for
    others. `questions` counts those that are clusters.
    """

    rows: Cells
    clusters: Ints | None
    voters: Ints | None = None
    counts: Floats
    freedom: Floats
    scarce: NDArray[np.bool_]
    pieces: float
    notes: tuple[str, ...] = ()
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
            seen = {k: base.questions_seen(log.a, log.b, way, n) + more for k, way in ways.items()}
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
            notes=few_voters(these),
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
    few = np.asarray(seen < base.MIN_QUESTIONS)
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


def covariance(fit: Fit, evidence: Evidence) -> Floats:
    """The cluster jackknife (CR3) of all parameters; NaN where there is only one piece of evidence.

    Clustered two ways, it is what question and voter give less what both together give (Cameron,
    Gelbach and Miller 2011), without its negative eigenvalues.
    """
    if evidence.pieces < 2:
        return np.full(fit.information.shape, np.nan)
    return sandwiched(fit, [_meat(fit, evidence, part) for part in evidence.partitions()])


def sandwiched(fit: Fit, meat: Sequence[Floats]) -> Floats:
    """The sandwich of what each way to cut the battles adds to the spread of the slope."""
    bread = fit.inverse()
    sandwich: Floats = bread @ sum(meat) @ bread
    return _power(sandwich, 1.0) if len(meat) > 1 else sandwich  # negative eigenvalues become 0


def stretched(draws: Floats, centre: Floats, narrow: Floats, wide: Floats) -> Floats:
    """Draws with the covariance `narrow`, moved about their centre so that it is `wide`, each as
    little as possible (optimal transport between normal distributions).

    A bootstrap that draws questions and voters at once counts what neither explains three times;
    this keeps the shape that drawing one of them gives, and the size of the two-way sandwich.
    """
    n = len(centre)  # of further parameters there are no draws
    narrow, wide = narrow[:n, :n], wide[:n, :n]
    root, inverse, moved = _power(narrow, 0.5), _power(narrow, -0.5), draws - centre
    missing = np.isnan(moved)
    moved = np.where(missing, 0.0, moved) @ (inverse @ _power(root @ wide @ root, 0.5) @ inverse)
    return np.where(missing, np.nan, centre + moved)


def _power(matrix: Floats, exponent: float) -> Floats:
    """A power of a positive semi-definite matrix, on the space that it spans."""
    value, vector = np.linalg.eigh((matrix + matrix.T) / 2)
    spanned = value > _NEGLIGIBLE * value.max()
    return np.asarray((vector[:, spanned] * value[spanned] ** exponent) @ vector[:, spanned].T)


def _meat(fit: Fit, evidence: Evidence, part: Partition) -> Floats:
    """The spread of the likelihood's slope between the pieces of one way to cut the battles; of
    what is taken off, without the jackknife.
    """
    rows, votes = evidence.rows, np.sqrt(evidence.counts)  # n votes alike, not one of weight n
    inverse = fit.inverse() if part.sign > 0 else None
    meat = meat_of(fit, rows, votes, part.clusters, inverse)
    return part.sign * small_sample(part.pieces, jackknife=part.sign > 0) * meat


def small_sample(pieces: float, *, jackknife: bool) -> float:
    """What a sum over pieces is multiplied by."""
    return (pieces - 1) / pieces if jackknife else pieces / max(1, pieces - 1)


def meat_of(
    fit: Fit,
    cells: Cells,
    votes: Floats,
    clusters: Ints | None,
    inverse: Floats | None = None,
) -> Floats:
    """The sum over clusters of the outer product of their scores, as rows over `votes`.

    With the fit's `inverse`, the scores are those whose one step leads to the fit without the
    cluster: (H - H_c)⁻¹ U_c is H⁻¹ times them. The tie parameter's leverage is left out.
    """
    terms, n = fit.terms(cells), fit.n_models
    gap, curve = terms.eta / votes, terms.eta_eta / votes**2
    if inverse is not None:
        gap = _without_own(fit, cells, gap, curve, clusters, inverse)
    tie = [terms.t / votes] if fit.ties.start is not None else []
    rest = np.array([*tie, *(gap * x for x in cells.x.T)]).reshape(-1, len(gap))
    inner = of_clusters(cells.a, cells.b, gap, clusters, n)
    if not len(rest):
        return inner
    sums = rest
    if clusters is not None:
        sums = np.array([np.bincount(clusters, each) for each in rest])
        rest = sums[:, clusters]
    border = np.array([likelihood.to_models(cells, gap * each, n) for each in rest])
    return likelihood.bordered(inner, border, sums @ sums.T)


def _without_own(
    fit: Fit,
    cells: Cells,
    gap: Floats,
    curve: Floats,
    clusters: Ints | None,
    inverse: Floats,
) -> Floats:
    """Scores as they would be at the fit without their own cluster: u + h z'D_c, where D_c is
    (H - H_c)⁻¹ U_c. Clusters of one size are solved together, those of many rows by models.
    """
    if clusters is None:
        z = _designs(cells, inverse, np.arange(len(gap))[:, None])[:, 0, 0]
        return np.asarray(gap / (1 + _RIDGE - curve * z))
    order = base.together(clusters)
    sizes = np.bincount(clusters)
    first, adjusted = np.cumsum(sizes) - sizes, gap.copy()
    for size in np.unique(sizes[(sizes > 0) & (sizes <= len(inverse))]):
        every = first[sizes == size][:, None] + np.arange(size)
        for start in range(0, len(every), step := max(1, _HELD // size**2)):
            rows = order[every[start : start + step]]
            root = np.sqrt(curve[rows])
            design = _designs(cells, inverse, rows)
            left = (1 + _RIDGE) * np.eye(size) - root[:, :, None] * design * root[:, None, :]
            moved = root * np.einsum("kij,kj->ki", design, gap[rows])
            adjusted[rows] += root * np.linalg.solve(left, moved[..., None])[..., 0]
    for cluster in np.flatnonzero(sizes > len(inverse)):
        rows = order[first[cluster] : first[cluster] + sizes[cluster]]
        adjusted[rows] += curve[rows] * _moved(fit, cells.at(rows), gap[rows], curve[rows])
    return adjusted


def _designs(cells: Cells, inverse: Floats, rows: NDArray[np.intp]) -> Floats:
    """z'H⁻¹z between any two battles of each cluster (a row of `rows`)."""
    a, b, x = cells.a[rows], cells.b[rows], cells.x[rows]
    first, second = (each[:, :, None] for each in (a, b))
    other_a, other_b = (each[:, None, :] for each in (a, b))
    found = inverse[first, other_a] - inverse[first, other_b]
    found += inverse[second, other_b] - inverse[second, other_a]
    if x.shape[-1]:
        border = inverse[:, len(inverse) - x.shape[-1] :]
        cross = np.einsum("kip,kjp->kij", border[a] - border[b], x)
        corner = border[len(inverse) - x.shape[-1] :]
        found += cross + cross.swapaxes(1, 2) + np.einsum("kip,pq,kjq->kij", x, corner, x)
    return np.asarray(found)


def _moved(fit: Fit, cells: Cells, gap: Floats, curve: Floats) -> Floats:
    """How far each battle's gap is from the one of the fit without their cluster."""
    n, held = fit.n_models, len(fit.information) - cells.x.shape[1]
    own, rise = np.zeros_like(fit.information), np.zeros(len(fit.information))
    moves = np.append(np.arange(n), np.arange(held, len(own)))  # all but the tie parameter
    own[np.ix_(moves, moves)] = likelihood.gram(cells, curve, n)
    rise[moves] = np.append(likelihood.to_models(cells, gap, n), cells.x.T @ gap)
    left = likelihood.anchored(fit.information, n) * (1 + _RIDGE * np.eye(len(own))) - own
    step = np.linalg.solve(left, rise)
    return np.asarray(step[cells.a] - step[cells.b] + cells.x @ step[held:])


class Influence:
    """How far each question moves each rating with ties as half a win: `pulls` (questions × models)
    times `bread`; `weight` is that of all battles.
    """

    def __init__(self, log: BattleLog, ratings: base.Ratings) -> None:
        from scipy.sparse import csr_array

        self.models, self.questions = log.models, _questions(log)
        self.weight = float(log.weights().sum())
        size, unit = len(log.models), ratings.settings["scale"] / ln(10)
        strength = ratings.values(log.models) / unit
        chance = 1 / (1 + np.exp(strength[log.b] - strength[log.a]))
        pull = log.weights() * (base.scores(log) - chance)
        rows, sides = np.tile(log.clusters(), 2), np.append(log.a, log.b)
        shape = (int(rows.max()) + 1, size)
        self.pulls = csr_array((np.append(pull, -pull), (rows, sides)), shape=shape)
        information = likelihood.laplacian(log, log.weights() * chance * (1 - chance), size)
        self.bread: Floats = unit * np.linalg.pinv(information, hermitian=True)

    def shared(self, other: Influence) -> Floats:
        """The covariance of these ratings (rows) with others (columns)."""
        names = sorted(self.questions.keys() & other.questions.keys())
        mine = self.pulls[[self.questions[name] for name in names]]
        theirs = other.pulls[[other.questions[name] for name in names]]
        return np.asarray(self.bread @ (mine.T @ theirs).toarray() @ other.bread)


def _questions(log: BattleLog) -> dict[str, int]:
    """The row of each named question."""
    if log.question_id is None:
        return {}
    rows = dict(zip(log.question_id.codes.tolist(), log.clusters().tolist(), strict=True))
    return {str(log.question_id.names[code]): row for code, row in rows.items() if code >= 0}


def covariance_of(ratings: base.Ratings) -> Floats:
    """The covariance of ratings; raises where their evidence shows none."""
    if ratings.covariance is None or not np.isfinite(ratings.covariance).all():
        raise base.RatingError("the covariance of ratings needs battles on two questions at least")
    return ratings.covariance
