"""The bootstrap of Bradley–Terry: strengths refitted to every resample.

A resample's peak lies near the peak for all battles, so that curvature serves for every resample,
updated on the way (Broyden's method, as in Kelley 1995); where that does not converge, Newton's
method does. Resamples of plain battles are refitted side by side in arrays or, on many pairs, one
by one in compiled code, from `COMPILED_FROM` on; there each model's curvature is also made up for
how often it was drawn. Tie models and covariates take the general way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np

from arena_kit.fanout import fan_out, shares
from arena_kit.rating.base import RatingError, numba_pays, strong_groups, strongly_connected
from arena_kit.rating.bradley_terry.clusters import Votes
from arena_kit.rating.bradley_terry.likelihood import Cells, Fit, Pairs, fitted, gradient, moved
from arena_kit.rating.bradley_terry.tie_models import Floats

#: Pairs times resamples from which compiled code pays for its start.
COMPILED_FROM = 1_000_000
_MOST_STEPS = 60
_TOLERANCE = 1e-11
_MOST_DENSE = 400  # models, above which conjugate gradients beat the inverse
_TOGETHER = 4  # models that a kernel takes at once
_FAR = 20.0  # a step that is longer leads nowhere
_CELLS = 1_000_000  # of all pairs of resamples that are refitted side by side

Refit = Callable[[Floats], Floats]
Refits = Callable[[Iterator[Floats]], Floats]


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
    engine = (_compiled if compiled else _side_by_side) if plain else _general
    refits = engine(fit, votes.cells, pairs, priors)

    def share(some: slice) -> Floats:
        return refits(votes.redraw.each(range(some.start, some.stop), compiled=compiled))

    return np.concatenate([*fan_out(share, shares(n))])


def _one_by_one(refit: Refit) -> Refits:
    return lambda several: np.stack([refit(times) for times in several])


def _general(fit: Fit, votes: Cells, pairs: Pairs, priors: Priors) -> Refits:
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

    return _one_by_one(refit)


def _side_by_side(fit: Fit, votes: Cells, pairs: Pairs, priors: Priors) -> Refits:
    """Refit plain battles, many resamples at once: of one alone, most of the time is Python's."""
    n, prior, half = fit.n_models, priors.always, votes.tied / 2
    places = np.append(votes.a * n + votes.b, votes.b * n + votes.a)
    amounts = np.append(votes.won + half, votes.lost + half)
    at = np.append(prior.a * n + prior.b, prior.b * n + prior.a)
    always = np.bincount(at, np.append(prior.won, prior.lost), n * n)

    def tables(several: Iterable[Floats]) -> Floats:
        drawn = (np.bincount(places, np.tile(times, 2) * amounts, n * n) for times in several)
        return np.array([always + each for each in drawn]).reshape(-1, n, n)

    def refits(several: Iterator[Floats]) -> Floats:
        found = []
        while len(wins := tables(islice(several, max(1, _CELLS // (n * n))))):
            theta = _climbed(fit, wins)
            for row in np.flatnonzero(np.isnan(theta[:, 0])):
                theta[row] = _with_prior(fit, _cells(pairs, wins[row]), priors.spare)
            found.append(theta)
        return np.concatenate(found)

    return refits


def _cells(pairs: Pairs, wins: Floats) -> Cells:
    """A table of who won how often against whom as a cell per pair."""
    none = np.zeros(len(pairs.low))
    won, lost = wins[pairs.low, pairs.high], wins[pairs.high, pairs.low]
    return Cells(
        a=pairs.low, b=pairs.high, won=won, tied=none, lost=lost, x=np.empty((len(none), 0))
    )


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # on a way that leads nowhere
def _climbed(fit: Fit, wins: Floats) -> Floats:
    """The peaks for tables of who won how often against whom, by Broyden's method; NaN where none
    was found. Sums go along the last axis alone, so that no resample depends on those beside it.
    """
    total, gained, inverse = wins + wins.transpose(0, 2, 1), wins.sum(axis=2), fit.inverse()
    found = np.full(gained.shape, np.nan)
    row = np.flatnonzero(_have_peaks(wins))
    theta = np.tile(fit.theta, (len(row), 1))
    taken: list[Floats] = []
    for _ in range(_MOST_STEPS):
        q = np.exp(theta)
        expected = q * (total[row] / (q[:, :, None] + q[:, None, :])).sum(axis=2)
        step = ((gained[row] - expected)[:, None, :] * inverse).sum(axis=2)
        step = step - step.mean(axis=1, keepdims=True)  # rounding, which no battle tells
        for before, after in pairwise(taken):
            step = step + after * _along(before, step)
        step = step / (1 - _along(taken[-1], step)) if taken else step
        theta = theta + step
        largest = np.abs(step).max(axis=1)
        settled, on = largest < _TOLERANCE, (largest >= _TOLERANCE) & (largest <= _FAR)
        found[row[settled]] = theta[settled]
        row, theta, taken = row[on], theta[on], [each[on] for each in (*taken, step)]
        if not len(row):
            break
    return found


def _along(step: Floats, other: Floats) -> Floats:
    """How far a step goes along another, as a share of its length, per row."""
    return np.asarray((step * other).sum(axis=1) / (step * step).sum(axis=1))[:, None]


def _have_peaks(wins: Floats) -> Floats:
    """Whether searches from one model reach all, from winners to losers and the other way, in each
    table of who won how often against whom.
    """
    beat = (wins > 0).astype(float)
    found = np.ones(len(wins), bool)
    for way in (beat, beat.transpose(0, 2, 1)):
        reached, before = np.zeros((len(wins), 1, wins.shape[1])), None
        reached[:, :, 0] = 1
        while before is None or (reached != before).any():
            before, reached = reached, np.minimum(1, reached + reached @ way)
        found &= reached.all(axis=(1, 2))
    return found


def _compiled(fit: Fit, votes: Cells, pairs: Pairs, priors: Priors) -> Refits:
    """The same in kernels, from multiplicities to strengths."""
    games = votes.won + votes.tied + votes.lost
    won = np.where(pairs.turned, votes.lost, votes.won) + votes.tied / 2
    by = _by_pairs if fit.n_models > _MOST_DENSE else _by_tables
    return _one_by_one(by(fit, won, games, pairs, priors))


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
            np.empty(_MOST_STEPS * size), *np.zeros((5, size)), np.empty(size, np.float32),
            np.arange(n, dtype=np.uint64), theta,
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
    pairs = Pairs.of(cells, fit.n_models)
    divided = pairs.divided(pairs.pooled(cells), half=fit.ties.start is None)
    if divided.any() and not len(spare.a):
        return np.full(len(fit.theta), np.nan)
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
        if not largest <= _FAR * abs(shrink) or not shrink:
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
