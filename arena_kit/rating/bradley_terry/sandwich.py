"""How sure Bradley–Terry strengths are without resampling: the sandwich covariance, of one fit."""

from __future__ import annotations

from collections.abc import Sequence
from math import log as ln

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import RatingError, Ratings, scores, together
from arena_kit.rating.bradley_terry.clusters import Evidence, Partition, of_clusters
from arena_kit.rating.bradley_terry.likelihood import (
    Cells,
    Fit,
    Floats,
    anchored,
    bordered,
    gram,
    laplacian,
    to_models,
)

_RIDGE = 1e-10  # what a cluster that holds all evidence of a model leaves of it
_HELD = 4_000_000  # numbers of the systems that are solved at once
_NEGLIGIBLE = 1e-10  # an eigenvalue, as a share of the largest, that is rounding


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
    clusters: NDArray[np.int32] | None,
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
    border = np.array([to_models(cells, gap * each, n) for each in rest])
    return bordered(inner, border, sums @ sums.T)


def _without_own(
    fit: Fit,
    cells: Cells,
    gap: Floats,
    curve: Floats,
    clusters: NDArray[np.int32] | None,
    inverse: Floats,
) -> Floats:
    """Scores as they would be at the fit without their own cluster: u + h z'D_c, where D_c is
    (H - H_c)⁻¹ U_c. Clusters of one size are solved together, those of many rows by models.
    """
    if clusters is None:
        z = _designs(cells, inverse, np.arange(len(gap))[:, None])[:, 0, 0]
        return np.asarray(gap / (1 + _RIDGE - curve * z))
    order = together(clusters)
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
    own[np.ix_(moves, moves)] = gram(cells, curve, n)
    rise[moves] = np.append(to_models(cells, gap, n), cells.x.T @ gap)
    left = anchored(fit.information, n) * (1 + _RIDGE * np.eye(len(own))) - own
    step = np.linalg.solve(left, rise)
    return np.asarray(step[cells.a] - step[cells.b] + cells.x @ step[held:])


class Influence:
    """How far each question moves each rating with ties as half a win: `pulls` (questions × models)
    times `bread`.
    """

    def __init__(self, log: BattleLog, ratings: Ratings) -> None:
        from scipy.sparse import csr_array

        self.models, self.questions = log.models, _questions(log)
        size, unit = len(log.models), ratings.settings["scale"] / ln(10)
        strength = ratings.values(log.models) / unit
        chance = 1 / (1 + np.exp(strength[log.b] - strength[log.a]))
        pull = log.weights() * (scores(log) - chance)
        rows, sides = np.tile(log.clusters(), 2), np.append(log.a, log.b)
        shape = (int(rows.max()) + 1, size)
        self.pulls = csr_array((np.append(pull, -pull), (rows, sides)), shape=shape)
        information = laplacian(log, log.weights() * chance * (1 - chance), size)
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


def covariance_of(ratings: Ratings) -> Floats:
    """The covariance of ratings; raises where their evidence shows none."""
    if ratings.covariance is None or not np.isfinite(ratings.covariance).all():
        raise RatingError("the covariance of ratings needs battles on two questions at least")
    return ratings.covariance
