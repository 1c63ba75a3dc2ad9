"""How sure Bradley–Terry strengths are: the sandwich covariance, and the bootstrap.

The sandwich needs one fit. The bootstrap refits every resample: its peak lies near the peak for all
battles, so that curvature serves for every resample, updated on the way (Broyden's method, as in
Kelley 1995); where that does not converge, Newton's method does. Plain Bradley–Terry on many pairs
runs compiled from `COMPILED_FROM` on, where each model's curvature is also made up for how often it
was drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from arena_kit.fanout import fan_out, shares
from arena_kit.rating.base import (
    RatingError,
    numba_pays,
    strong_groups,
    strongly_connected,
    together,
)
from arena_kit.rating.evidence import Evidence, Partition, Votes
from arena_kit.rating.likelihood import (
    Cells,
    Codes,
    Fit,
    Pairs,
    bordered,
    fitted,
    gradient,
    laplacian,
    moved,
    to_models,
)
from arena_kit.rating.tie_models import Floats

#: Pairs times resamples from which compiled code pays for its start.
COMPILED_FROM = 1_000_000
_MOST_STEPS = 60
_TOLERANCE = 1e-11
_MOST_DENSE = 400  # models, above which conjugate gradients beat the inverse
_TOGETHER = 4  # models that a kernel takes at once
_CHUNK = 4096  # clusters summed at once
_FEW = 8  # a cluster with fewer rows than this part of the models is summed by products
_NEGLIGIBLE = 1e-10  # an eigenvalue, as a share of the largest, that is rounding

Refit = Callable[[Floats], Floats]


def covariance(fit: Fit, evidence: Evidence, same: NDArray[np.bool_]) -> Floats:
    """The sandwich covariance of all parameters; NaN where there is only one piece of evidence.

    Clustered two ways, it is what question and voter give less what both together give (Cameron,
    Gelbach and Miller 2011), without its negative eigenvalues. Of models whose battles all ended
    the `same` way the residuals say nothing; their variance is at least the one that the model of
    the outcomes gives them.
    """
    if evidence.pieces < 2:
        return np.full(fit.information.shape, np.nan)
    parts = list(evidence.partitions())
    meat = [part.sign * _meat(fit, evidence, part) for part in parts]
    return sandwiched(fit, meat, same)


def sandwiched(fit: Fit, meat: Sequence[Floats], same: NDArray[np.bool_]) -> Floats:
    """The sandwich of what each way to cut the battles adds to the spread of the slope."""
    bread = fit.inverse()
    sandwich: Floats = bread @ sum(meat) @ bread
    if len(meat) > 1:
        sandwich = _without_negative(sandwich)
    if same.any():
        n = fit.n_models
        missing = np.maximum(0, np.diag(bread)[:n] - np.diag(sandwich)[:n])
        sandwich[np.arange(n), np.arange(n)] += np.where(same, missing, 0)
    return sandwich


def stretched(draws: Floats, centre: Floats, narrow: Floats, wide: Floats) -> Floats:
    """Draws with the covariance `narrow`, moved about their centre so that it is `wide`, each as
    little as possible (optimal transport between normal distributions).

    A bootstrap that draws questions and voters at once counts what neither explains three times;
    this keeps the shape that drawing one of them gives, and the size of the two-way sandwich.
    """
    root = _power(narrow, 0.5)
    inverse = _power(narrow, -0.5)
    moved = draws - centre
    missing = np.isnan(moved)
    moved = np.where(missing, 0.0, moved) @ (inverse @ _power(root @ wide @ root, 0.5) @ inverse)
    return np.where(missing, np.nan, centre + moved)


def _power(matrix: Floats, exponent: float) -> Floats:
    """A power of a positive semi-definite matrix, on the space that it spans."""
    value, vector = np.linalg.eigh((matrix + matrix.T) / 2)
    spanned = value > _NEGLIGIBLE * value.max()
    return np.asarray((vector[:, spanned] * value[spanned] ** exponent) @ vector[:, spanned].T)


def _meat(fit: Fit, evidence: Evidence, part: Partition) -> Floats:
    """The spread of the likelihood's slope between the pieces of one way to cut the battles."""
    cells = evidence.rows
    scores = scores_of(fit, cells) / np.sqrt(evidence.counts)  # n votes alike, not one of weight n
    small_sample = part.pieces / (part.pieces - 1)
    if part.clusters is None:
        return small_sample * _meat_of_rows(cells, scores, fit.n_models)
    return small_sample * meat_of_clusters(cells, scores, part.clusters, fit.n_models)


def _without_negative(matrix: Floats) -> Floats:
    """The nearest positive semi-definite matrix: negative eigenvalues become 0."""
    value, vector = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vector * np.maximum(value, 0)) @ vector.T)


@dataclass(frozen=True, slots=True, kw_only=True)
class Priors:
    """Pseudo-battles: those that are `always` there, and `spare` ones of all pairs, of which a
    resample without a peak takes those it needs. Either may be empty.
    """

    always: Cells
    spare: Cells


def replicates(
    fit: Fit, votes: Votes, priors: Priors, n: int, *, compiled: bool | None = None
) -> Floats:
    """All parameters for each of `n` resamples, a row each; NaN where a resample has no peak."""
    pairs = Pairs.of(votes.cells, fit.n_models)
    if compiled is None:
        compiled = numba_pays(n * len(pairs.low), COMPILED_FROM)
    plain = not votes.cells.x.shape[1] and fit.ties.start is None
    refit = (_compiled if compiled and plain else _general)(fit, votes.cells, pairs, priors)

    def share(some: slice) -> Floats:
        rows = range(some.start, some.stop)
        return np.stack([refit(votes.redraw(row, compiled=compiled)) for row in rows])

    return np.concatenate([*fan_out(share, shares(n))])


def _general(fit: Fit, votes: Cells, pairs: Pairs, priors: Priors) -> Refit:
    """Refit the votes, or their sums over pairs where there are no covariates."""
    inverse = fit.inverse()

    def refit(times: Floats) -> Floats:
        drawn = votes.with_weights(times)
        cells = drawn if votes.x.shape[1] else pairs.pooled(drawn)
        whole = cells.and_also(priors.always)
        met = Pairs.of(whole, fit.n_models)
        took = met.taken(met.pooled(whole), half=fit.ties.start is None)
        if not strongly_connected(fit.n_models, *took):
            return _with_prior(fit, whole, priors.spare)
        return refitted(fit, whole, inverse)

    return refit


def _compiled(fit: Fit, votes: Cells, pairs: Pairs, priors: Priors) -> Refit:
    """The same in kernels, from multiplicities to strengths."""
    games = votes.won + votes.tied + votes.lost
    won = np.where(pairs.turned, votes.lost, votes.won) + votes.tied / 2
    by = _by_pairs if fit.n_models > _MOST_DENSE else _by_tables
    return by(fit, won, games, pairs, priors)


def _by_pairs(fit: Fit, won: Floats, games: Floats, pairs: Pairs, priors: Priors) -> Refit:
    """Refit what the lower side of each cell's pair won, of so many games, pair by pair."""
    n, prior = fit.n_models, priors.always
    slot, at = pairs.low * n + pairs.high, prior.a * n + prior.b
    wins, total = (
        np.bincount(at, each, n * n)[slot] for each in (prior.won, prior.won + prior.lost)
    )

    def refit(times: Floats) -> Floats:
        more_wins, more = (np.bincount(pairs.of_cell, times * each) for each in (won, games))
        return _ascended(fit, pairs, wins + more_wins, total + more, priors.spare)

    return refit


def _by_tables(fit: Fit, won: Floats, games: Floats, pairs: Pairs, priors: Priors) -> Refit:
    """The same in square tables of all pairs, from the inverse curvature of all battles on."""
    n, prior, size = fit.n_models, priors.always, -(-fit.n_models // _TOGETHER) * _TOGETHER
    slot, at = pairs.low * size + pairs.high, prior.a * size + prior.b
    place, curvature = slot[pairs.of_cell].astype(np.uint64), np.diag(fit.information).copy()
    share = 1 / (1 + np.exp(np.subtract.outer(fit.theta, fit.theta)))
    curve, inverse = (_widened(each, size) for each in (share * (1 - share), fit.inverse()))
    inverse, start = inverse.astype(np.float32), np.append(fit.theta, np.zeros(size - n))

    def refit(times: Floats) -> Floats:
        from arena_kit.rating import kernels

        theta, (wins, total) = start.copy(), np.zeros((2, size * size))
        wins[at], total[at] = prior.won, prior.won + prior.lost
        settled = kernels.climb(
            place, won, games, times, wins, total, curve, curvature, inverse, _TOLERANCE,
            np.empty(_MOST_STEPS * size), np.empty((5, size)), np.empty(size, np.float32),
            np.empty(n, np.uint64), theta,
        )  # fmt: skip
        if settled > 0:
            return theta[:n]
        return _ascended(fit, pairs, wins[slot], total[slot], priors.spare)

    return refit


def _widened(table: Floats, size: int) -> Floats:
    """A square table with zeros to the right and below, laid out flat."""
    more = size - len(table)
    return np.pad(table, ((0, more), (0, more))).ravel()


def _ascended(fit: Fit, pairs: Pairs, wins: Floats, total: Floats, spare: Cells) -> Floats:
    """The fit to a resample by its pairs, with prior wins on those that need them; NaN where the
    prior is 0.
    """
    from arena_kit.rating import kernels

    took, n = pairs.winners(wins, total - wins), fit.n_models
    if not strongly_connected(n, *took):
        if not len(spare.a):
            return np.full(len(fit.theta), np.nan)
        group = strong_groups(n, *took)
        divided = group[pairs.low] != group[pairs.high]
        wins, total = wins + divided * spare.won, total + divided * (spare.won + spare.lost)
    theta, weight, work = fit.theta.copy(), np.empty(len(wins)), np.empty((6, n))
    settled = kernels.ascend(
        pairs.low, pairs.high, wins, total, _TOLERANCE, _MOST_STEPS, weight, work, theta
    )
    return theta if settled else np.full(n, np.nan)


def _with_prior(fit: Fit, cells: Cells, spare: Cells) -> Floats:
    """The fit to a resample that has no peak of its own: with prior wins on the pairs that lack
    one, or NaN where the prior is 0.
    """
    if not len(spare.a):
        return np.full(len(fit.theta), np.nan)
    pairs = Pairs.of(cells, fit.n_models)
    divided = pairs.divided(pairs.pooled(cells), half=fit.ties.start is None)
    return _newton(fit, cells.and_also(spare.at(divided)))


def refitted(fit: Fit, cells: Cells, inverse: Floats) -> Floats:
    """The fit to a resample by Broyden's method, from the fit to all battles."""
    theta = fit.theta.copy()
    taken: list[Floats] = []
    lengths: list[float] = []
    for k in range(_MOST_STEPS):
        step = inverse @ gradient(theta, cells, fit.n_models, fit.ties)
        for before, after, length in zip(taken, taken[1:], lengths, strict=False):
            step = step + after * ((before @ step) / length)
        shrink = 1 - float(taken[-1] @ step) / lengths[-1] if k else 1.0
        largest = float(np.abs(step).max())
        if not largest <= 20 * abs(shrink) or not shrink:
            break
        step, largest = step / shrink, largest / abs(shrink)
        theta = moved(theta, step, fit.n_models, fit.ties)
        if largest < _TOLERANCE:
            return theta
        taken.append(step)
        lengths.append(float(step @ step))
    return _newton(fit, cells)


def _newton(fit: Fit, cells: Cells) -> Floats:
    try:
        return fitted(cells, fit.n_models, fit.ties, start=fit.theta).theta
    except RatingError:
        return np.full(len(fit.theta), np.nan)


def scores_of(fit: Fit, cells: Cells) -> Floats:
    """The slope of each row's log-likelihood: in the gap first, then in tie and covariates."""
    terms = fit.terms(cells)
    tie = [terms.t] if fit.ties.start is not None else []
    return np.stack([terms.eta, *tie, *(terms.eta * x for x in cells.x.T)])


def _meat_of_rows(cells: Cells, scores: Floats, n: int) -> Floats:
    """The sum over rows of the outer product of their scores."""
    gap, rest = scores[0], scores[1:]
    return bordered(laplacian(cells, gap**2, n), _border(cells, gap, rest, n), rest @ rest.T)


def meat_of_clusters(cells: Cells, scores: Floats, clusters: NDArray[np.int32], n: int) -> Floats:
    """The sum over clusters of the outer product of their summed scores.

    A cluster with few rows adds the products of any two of those; one with many, of whole sums.
    """
    gap, pieces = scores[0], int(clusters.max()) + 1
    rest = np.array([np.bincount(clusters, each, pieces) for each in scores[1:]])
    rest = rest.reshape(len(scores) - 1, pieces)
    inner = np.zeros((n, n))
    many = (np.bincount(clusters) > n // _FEW)[clusters]
    for rows, summed in ((~many, _of_few), (many, _of_many)):
        if rows.any():
            inner += summed(clusters[rows], cells.a[rows], cells.b[rows], gap[rows], n)
    return bordered(inner, _border(cells, gap, rest[:, clusters], n), rest @ rest.T)


def _border(cells: Cells, gap: Floats, others: Floats, n: int) -> Floats:
    """The products of gaps with other scores, a row for each of these and a column per model."""
    return np.array([to_models(cells, gap * each, n) for each in others]).reshape(len(others), n)


def _of_few(clusters: NDArray[np.int32], a: Codes, b: Codes, gap: Floats, n: int) -> Floats:
    """The sum over clusters of the products of any two of their gaps, at the models' places."""
    order = together(clusters)
    clusters, a, b, gap = clusters[order], a[order], b[order], gap[order]
    half, apart = np.zeros(n * n), 0
    while len(first := np.flatnonzero(clusters[apart:] == clusters[: len(clusters) - apart])):
        second = first + apart
        products = np.tile(gap[first] * gap[second] / (1 if apart else 2), 2)
        row_a, row_b, a_too, b_too = a[first] * n, b[first] * n, a[second], b[second]
        half += np.bincount(np.append(row_a + a_too, row_b + b_too), products, n * n)
        half -= np.bincount(np.append(row_a + b_too, row_b + a_too), products, n * n)
        apart += 1
    return half.reshape(n, n) + half.reshape(n, n).T


def _of_many(clusters: NDArray[np.int32], a: Codes, b: Codes, gap: Floats, n: int) -> Floats:
    """The same by a row of sums per cluster."""
    numbers, row = np.unique(clusters, return_inverse=True)
    order = together(row)
    edges = np.searchsorted(row[order], np.arange(0, len(numbers) + _CHUNK, _CHUNK))
    rows = min(_CHUNK, len(numbers))
    meat = np.zeros((n, n))
    for start, end in pairwise(edges):
        some = order[start:end]
        place, value = row[some] % _CHUNK * n, gap[some]
        summed = np.bincount(place + a[some], value, rows * n)
        summed -= np.bincount(place + b[some], value, rows * n)
        summed = summed.reshape(rows, n)
        meat += summed.T @ summed
    return meat
