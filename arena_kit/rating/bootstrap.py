"""Refitting Bradley–Terry to many resamples of the evidence.

The peak for a resample lies near the peak for all battles, so its curvature serves for every
resample (chord steps); where that does not settle, Newton's method does. Plain Bradley–Terry on
many pairs runs compiled from `COMPILED_FROM` on, by the same steps in the same order.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from arena_kit.rating.base import RatingError, reached
from arena_kit.rating.evidence import Votes
from arena_kit.rating.likelihood import Cells, Fit, Pairs, fitted, gradient, moved
from arena_kit.rating.tie_models import Floats

#: Pairs times resamples from which compiled code pays for its start.
COMPILED_FROM = 1_000_000
_MOST_STEPS = 60
_TOLERANCE = 1e-12

Refit = Callable[[Floats], Floats]


def replicates(
    fit: Fit, votes: Votes, prior: Cells, n: int, *, compiled: bool | None = None
) -> Floats:
    """All parameters for each of `n` resamples, a row each; NaN where a resample has no peak."""
    if votes.cells.x.shape[1]:
        refit = _general(fit, votes.cells, prior)
    else:
        refit = _pooled(fit, votes.cells, prior, n, compiled)
    if not len(prior.a):
        refit = _where_it_exists(refit, fit, votes.cells)
    out = np.empty((n, len(fit.theta)))
    threads = min(os.cpu_count() or 1, n)

    def share(part: int) -> None:
        for row in range(part, n, threads):
            out[row] = refit(votes.redraw(row))

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(share, range(threads)))
    return out


def _where_it_exists(refit: Refit, fit: Fit, votes: Cells) -> Refit:
    """Without a prior, a resample in which a model never won or never lost has no peak."""
    pairs, ties = Pairs.of(votes, fit.n_models), fit.ties.start is None

    def checked(times: Floats) -> Floats:
        took = pairs.taken(votes.with_weights(times), ties=ties)
        if not reached(fit.n_models, *took).all():
            return np.full(len(fit.theta), np.nan)
        return refit(times)

    return checked


def _general(fit: Fit, votes: Cells, prior: Cells) -> Refit:
    """Refit the votes themselves, together with the prior."""
    inverse = fit.inverse()
    return lambda times: _chord(fit, votes.with_weights(times).and_also(prior), inverse)


def _pooled(fit: Fit, votes: Cells, prior: Cells, n: int, compiled: bool | None) -> Refit:
    """Refit sums over pairs: there are fewer of them than votes."""
    pairs = Pairs.of(votes, fit.n_models)
    inverse = fit.inverse()
    if compiled is None:
        enough = n * len(pairs.low) >= COMPILED_FROM
        compiled = enough and importlib.util.find_spec("numba") is not None

    def pooled(times: Floats) -> Cells:
        drawn = pairs.pooled(votes.with_weights(times))
        return drawn if not len(prior.a) else drawn.plus(prior)

    if compiled and fit.ties.start is None:
        return _compiled(fit, votes, pairs, pooled)
    return lambda times: _chord(fit, pooled(times), inverse)


def _chord(fit: Fit, cells: Cells, inverse: Floats) -> Floats:
    theta = fit.theta.copy()
    for _ in range(_MOST_STEPS):
        step = inverse @ gradient(theta, cells, fit.n_models, fit.ties)
        if not np.all(np.isfinite(step)) or np.abs(step).max() > 20:
            break
        theta = moved(theta, step, fit.n_models, fit.ties)
        if np.abs(step).max() < _TOLERANCE:
            return theta
    return _newton(fit, cells)


def _compiled(fit: Fit, votes: Cells, pairs: Pairs, pooled: Callable[[Floats], Cells]) -> Refit:
    """The same steps in one kernel, from multiplicities to strengths."""
    from arena_kit.rating import kernels

    prior = pooled(np.zeros(len(votes.a)))
    games = votes.won + votes.tied + votes.lost
    won = np.where(pairs.turned, votes.lost, votes.won) + votes.tied / 2
    inverse = fit.inverse()

    def refit(times: Floats) -> Floats:
        theta = fit.theta.copy()
        settled = kernels.chord(
            pairs.of_cell, won, games, times, prior.won, prior.lost, pairs.low, pairs.high,
            inverse, _TOLERANCE, _MOST_STEPS, theta,
        )  # fmt: skip
        return theta if settled else _newton(fit, pooled(times))

    return refit


def _newton(fit: Fit, cells: Cells) -> Floats:
    try:
        return fitted(cells, fit.n_models, fit.ties, start=fit.theta).theta
    except RatingError:
        return np.full(len(fit.theta), np.nan)
