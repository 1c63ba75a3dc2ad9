"""How sure Bradley–Terry strengths are: the sandwich covariance, and the bootstrap.

The sandwich needs one fit. The bootstrap refits every resample: its peak lies near the peak for all
battles, so that curvature serves for every resample, updated on the way (Broyden's method, as in
Kelley 1995); where that does not converge, Newton's method does. Plain Bradley–Terry on many pairs
runs compiled from `COMPILED_FROM` on, by the same steps in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from arena_kit.fanout import fan_out, shares
from arena_kit.rating.base import RatingError, numba_pays, strong_groups, strongly_connected
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
)
from arena_kit.rating.tie_models import Floats

#: Pairs times resamples from which compiled code pays for its start.
COMPILED_FROM = 1_000_000
_MOST_STEPS = 60
_TOLERANCE = 1e-11
_MOST_DENSE = 400  # models, above which conjugate gradients beat the inverse
_CHUNK = 4096  # clusters summed at once
_FEW = 8  # a cluster with fewer scores than this part of the parameters is summed by products
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
    """The same steps in kernels, from multiplicities to strengths."""
    n = fit.n_models
    games = votes.won + votes.tied + votes.lost
    won = np.where(pairs.turned, votes.lost, votes.won) + votes.tied / 2
    slot = pairs.low * n + pairs.high
    at = priors.always.a * n + priors.always.b
    prior_wins, prior_total = (
        np.bincount(at, each, n * n).astype(float)
        for each in (priors.always.won, priors.always.won + priors.always.lost)
    )
    if n > _MOST_DENSE:
        wins, total = prior_wins[slot], prior_total[slot]

        def refit_pairs(times: Floats) -> Floats:
            more_wins, more = (np.bincount(pairs.of_cell, times * each) for each in (won, games))
            return _ascended(fit, pairs, wins + more_wins, total + more, priors.spare)

        return refit_pairs
    inverse = fit.inverse().ravel()
    places = [each.astype(np.uint64) for each in (pairs.low, pairs.high, slot, slot[pairs.of_cell])]

    def refit(times: Floats) -> Floats:
        from arena_kit.rating import kernels

        theta, wins, total = fit.theta.copy(), prior_wins.copy(), prior_total.copy()
        settled = kernels.climb(
            *places, won, games, times, wins, total, inverse, _TOLERANCE,
            np.empty(_MOST_STEPS * n), np.empty(_MOST_STEPS), *np.empty((4, n)), theta,
        )  # fmt: skip
        return (
            theta if settled > 0 else _ascended(fit, pairs, wins[slot], total[slot], priors.spare)
        )

    return refit


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
    border = np.array(
        [np.bincount(cells.a, gap * each, n) - np.bincount(cells.b, gap * each, n) for each in rest]
    ).reshape(len(rest), n)
    return bordered(laplacian(cells, gap**2, n), border, rest @ rest.T)


def meat_of_clusters(cells: Cells, scores: Floats, clusters: NDArray[np.int32], n: int) -> Floats:
    """The sum over clusters of the outer product of their summed scores.

    A cluster with few scores adds the products of those alone; one with many, whole rows.
    """
    size, extra = n + len(scores) - 1, len(scores) - 1
    owner = np.tile(clusters.astype(np.intp), 2 + extra)
    others = np.repeat(np.arange(n, size), len(clusters))
    column = np.concatenate([cells.a, cells.b, others])
    value = np.concatenate([scores[0], -scores[0], *scores[1:]])
    many = (np.bincount(owner) > size // _FEW)[owner]
    if not many.any():
        return _of_few(owner, column, value, size)
    few = ~many
    return _of_few(owner[few], column[few], value[few], size) + _of_many(
        owner[many], column[many], value[many], size
    )


def _of_few(owner: Codes, column: Codes, value: Floats, size: int) -> Floats:
    """The sum over owners of the products of any two of their values, at their columns."""
    order = np.sort(owner * len(owner) + np.arange(len(owner))) % max(1, len(owner))
    owner, column, value = owner[order], column[order], value[order]
    half = np.diag(np.bincount(column, value**2, size) / 2)
    apart = 1
    while len(first := np.flatnonzero(owner[apart:] == owner[:-apart])):
        products = value[first] * value[first + apart]
        places = column[first] * size + column[first + apart]
        half += np.bincount(places, products, size * size).reshape(size, size)
        apart += 1
    return half + half.T


def _of_many(owner: Codes, column: Codes, value: Floats, size: int) -> Floats:
    """The same by a row of sums per owner."""
    owners, row = np.unique(owner, return_inverse=True)
    order = np.argsort(row, kind="stable")
    edges = np.searchsorted(row[order], np.arange(0, len(owners) + _CHUNK, _CHUNK))
    meat = np.zeros((size, size))
    for start, end in pairwise(edges):
        some = order[start:end]
        places = row[some] % _CHUNK * size + column[some]
        summed = np.bincount(places, value[some], _CHUNK * size).reshape(_CHUNK, size)
        meat += summed.T @ summed
    return meat
