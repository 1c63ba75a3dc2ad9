"""The bootstrap of Bradley–Terry: strengths refitted to every resample.

A resample's peak lies near the peak for all battles, so that curvature serves for every resample,
updated on the way (Broyden's method, as in Kelley 1995); where that does not converge, Newton's
method does. There are two refits: `CountRefit` for plain battles, whose counts by pair say it all,
many resamples side by side; and `refitted` for tie models and covariates, one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.fanout import fan_out
from arena_kit.rating.base import RatingError, strong_groups
from arena_kit.rating.bradley_terry.clusters import Votes
from arena_kit.rating.bradley_terry.likelihood import Cells, Fit, Floats, Pairs, fitted, gradient
from arena_kit.rating.compiled import Kernel, numba_pays
from arena_kit.rating.resampling import LANES

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: Pairs times resamples from which compiled code pays for its start.
COMPILED_FROM = 2_000_000
_MOST_STEPS = 60
_TOLERANCE = 1e-11
_CLOSE = 1e-9  # a step from which the next of many resamples side by side would be rounding
_VOTE = 0.05  # less than a vote or pseudo-vote weighs
_FAR = 20.0  # a step that is longer leads nowhere
_WIDTH = 32  # resamples side by side
_MOST_HELD = 4_000_000  # numbers of a table of these


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
    """All parameters for each of `n` resamples, a row each; NaN where a resample has no peak.

    Resamples are always cut at the same numbers, so that nothing depends on who computes them.
    """
    refit: Callable[[Floats], Floats]
    if votes.cells.x.shape[1] or fit.ties.start is not None:
        refit = partial(_refit, fit, votes.cells, priors, fit.inverse())
    else:
        pairs = Pairs.of(votes.cells, fit.n_models)
        if compiled is None:
            compiled = numba_pays(n * len(pairs.low), COMPILED_FROM)
        votes = votes.added_up(_sides(votes.cells, pairs))
        refit = CountRefit(fit, pairs, priors, compiled=compiled)
    width = min(_WIDTH, max(LANES, _MOST_HELD // votes.held // LANES * LANES))
    blocks = [slice(first, min(n, first + width)) for first in range(0, n, width)]
    return np.concatenate([*fan_out(lambda some: refit(votes.drawn(some)), blocks)])


def _sides(cells: Cells, pairs: Pairs) -> csr_array:
    """What each cell (column) adds to the wins of its pair's lower side, then of its higher side,
    ties as half.
    """
    from scipy.sparse import csr_array

    met, cell = len(pairs.low), np.arange(len(cells.a))
    by_low, by_high = np.where(pairs.turned, cells.wins[::-1], cells.wins)
    side = np.append(pairs.of_cell, pairs.of_cell + met)
    sides = csr_array((np.append(by_low, by_high), (side, np.append(cell, cell))))
    sides.eliminate_zeros()
    return sides


def _refit(fit: Fit, votes: Cells, priors: Priors, inverse: Floats, drawn: Floats) -> Floats:
    """Refit cells, or their sums over pairs where there are no covariates, drawn so many times."""
    found = np.full((drawn.shape[1], len(fit.theta)), np.nan)
    for theta, times in zip(found, drawn.T, strict=True):
        cells = votes.with_weights(times)
        if not cells.x.shape[1]:
            cells = Pairs.of(cells, fit.n_models).pooled(cells)
        cells = cells.and_also(priors.always)
        pairs = Pairs.of(cells, fit.n_models)
        divided = pairs.divided(pairs.pooled(cells), half=fit.ties.start is None)
        if not divided.any():
            theta[:] = refitted(fit, cells, inverse)
        elif len(priors.spare.a):
            theta[:] = _newton(fit, cells.and_also(priors.spare.at(divided)))
    return found


class CountRefit:
    """Refit what the lower and then what the higher side of each pair won, a column per resample.

    `always` and `spare` are such wins of the prior. `winner` adds them up to models, `ends` pairs.
    """

    def __init__(self, fit: Fit, pairs: Pairs, priors: Priors, *, compiled: bool) -> None:
        from scipy.sparse import csr_array

        self.fit, self.pairs, self.inverse, self.compiled = fit, pairs, fit.inverse(), compiled
        self.always, self.spare = (_prior_wins(p, pairs) for p in (priors.always, priors.spare))
        met, models = len(pairs.low), np.append(pairs.low, pairs.high)
        self.winner = csr_array((np.ones(2 * met), (models, np.arange(2 * met))))
        self.ends = self.winner[:, :met] + self.winner[:, met:]

    def __call__(self, drawn: Floats) -> Floats:
        wins = drawn + self.always[:, None]
        gained, games = self.winner @ wins, self.ends @ np.add(*np.split(wins, 2))
        for resample in np.flatnonzero(((gained <= 0) | (gained >= games)).any(axis=0)):
            wins[:, resample] = self._with_prior(wins[:, resample])
        theta, settled, certain = self._climb(wins)
        for resample in np.flatnonzero(~certain):
            exists = self._with_prior(wins[:, resample])
            if not settled[resample] or not np.array_equal(exists, wins[:, resample]):
                theta[:, resample] = self._newton(exists)
        return theta.T

    def _with_prior(self, wins: Floats) -> Floats:
        """The wins of a resample, with prior ones on the pairs without which it has no peak; NaN
        where the prior is 0.
        """
        low, high = np.split(wins, 2)
        group = strong_groups(self.fit.n_models, *self.pairs.winners(low, high))
        divided = group[self.pairs.low] != group[self.pairs.high]
        if divided.any() and not self.spare.any():
            return np.full_like(wins, np.nan)
        return wins + np.tile(divided, 2) * self.spare

    def _newton(self, wins: Floats) -> Floats:
        if np.isnan(wins).any():
            return np.full(self.fit.n_models, np.nan)
        won, lost = np.split(wins, 2)
        outcomes = np.stack([won, np.zeros(len(won)), lost])
        return _newton(self.fit, Cells.plain(self.pairs.low, self.pairs.high, outcomes))

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")  # on a way that leads nowhere
    def _climb(self, wins: Floats) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
        """The peaks, a column each, by Broyden's method; where it settled; and where the slope that
        is left proves that a peak exists.

        Of a model that was drawn more or less often the curvature is scaled. A resample that
        settled stays where it is, so that none depends on those beside it.
        """
        total, gained = np.add(*np.split(wins, 2)), self.winner @ wins
        gap = self.fit.theta[self.pairs.low] - self.fit.theta[self.pairs.high]
        bent = self.ends @ (total / (2 + 2 * np.cosh(gap))[:, None])  # a battle's curvature
        scale = np.sqrt(np.diag(self.fit.information)[:, None] / bent)
        theta = np.repeat(self.fit.theta[:, None], wins.shape[1], axis=1)
        on, settled = np.full((2, wins.shape[1]), [[True], [False]])
        left, taken = np.full(wins.shape[1], np.inf), list[tuple[Floats, Floats]]()
        for _ in range(_MOST_STEPS):
            slope = gained - self._expected(total, np.exp(theta))
            left = np.where(on, np.abs(slope).max(axis=0), left)
            step = scale * (self.inverse @ (scale * slope))
            step -= step.mean(axis=0)  # rounding, which no battle tells
            for (_, along), (after, _) in pairwise(taken):
                step += after * np.einsum("ij,ij->j", along, step)
            if taken:
                step /= 1 - np.einsum("ij,ij->j", taken[-1][1], step)
            step = np.where(on, step, 0.0)
            theta += step
            largest = np.abs(step).max(axis=0)
            settled |= on & (largest < _CLOSE)
            on &= (largest >= _CLOSE) & (largest <= _FAR)
            if not on.any():
                break
            square = np.einsum("ij,ij->j", step, step)
            taken.append((step, step / np.where(square > 0, square, 1.0)))
        # what one vote is expected to take from a group which never lost to others: without a peak,
        # the slopes of its models add up to as much
        upset = _VOTE / (1 + np.exp(np.ptp(theta, axis=0)))
        return theta, settled, settled & (left * len(theta) < upset)

    def _expected(self, total: Floats, strength: Floats) -> Floats:
        """How often each model is expected to win: its strength times a sum over its pairs of
        battles by both strengths, in which both sides of a pair share a division.
        """
        if self.compiled:
            shares = np.zeros_like(strength)
            add_shares(self.pairs.low, self.pairs.high, total, strength, shares)
        else:
            shares = self.ends @ (total / (strength[self.pairs.low] + strength[self.pairs.high]))
        return np.asarray(strength * shares)


def _prior_wins(prior: Cells, pairs: Pairs) -> Floats:
    """The pseudo-wins of either side of every pair."""
    n, wins = pairs.n_models, np.zeros((2, len(pairs.low)))
    at = np.searchsorted(pairs.low * n + pairs.high, prior.a * n + prior.b)
    wins[:, at] = prior.wins
    return wins.ravel()


def _add_shares(low: Any, high: Any, total: Any, strength: Any, shares: Any) -> None:
    """Add each pair's battles by both strengths to either model, in every resample."""
    for pair in range(len(low)):
        i, j = low[pair], high[pair]
        for resample in range(total.shape[1]):
            share = total[pair, resample] / (strength[i, resample] + strength[j, resample])
            shares[i, resample] += share
            shares[j, resample] += share


add_shares = Kernel(_add_shares, "contract", "reassoc")


def refitted(fit: Fit, cells: Cells, inverse: Floats) -> Floats:
    """The fit to a resample by Broyden's method, from the fit to all battles."""
    theta = fit.theta.copy()
    taken: list[Floats] = []
    for _ in range(_MOST_STEPS):
        step = inverse @ gradient(theta, cells, fit.n_models, fit.ties)
        for before, after in pairwise(taken):
            step = step + after * ((before @ step) / (before @ before))
        shrink = 1 - float(taken[-1] @ step) / float(taken[-1] @ taken[-1]) if taken else 1.0
        largest = float(np.abs(step).max())
        if not largest <= _FAR * abs(shrink) or not shrink:
            break
        step = step / shrink
        theta = theta + step
        if largest < _TOLERANCE * abs(shrink):
            return theta
        taken.append(step)
    return _newton(fit, cells)


def _newton(fit: Fit, cells: Cells) -> Floats:
    try:
        return fitted(cells, fit.n_models, fit.ties, start=fit.theta).theta
    except RatingError:
        return np.full(len(fit.theta), np.nan)
