"""What further evidence would decide: the chance after a given amount, and the amount for a chance.

Gaps that were estimated from little are too large. They are shrunk as empirical Bayes does (Efron
and Morris 1975): true ratings are normal, and their standard deviation has a flat prior and is
integrated over its posterior, since few models tell little about it.
"""

from __future__ import annotations

from bisect import bisect_left
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.rating.critical_values import normal_cdf, t_score

Floats = NDArray[np.float64]

#: Times of the present evidence beyond which an order is not within reach.
MOST = 40.0
_GROWTH = np.geomspace(1.01, MOST, 128)
_POINTS = 24  # of the posterior
_LEAST = 1e-12  # a deviation that counts as none


class Spread(NamedTuple):
    """The variance of the gap between two models drawn at random: its posterior."""

    variance: Floats
    weight: Floats

    @classmethod
    def of(cls, rating: Floats, errors: Floats) -> Spread:
        """The posterior by ratings and the standard errors of their gaps."""
        n = len(rating)
        contrasts = np.linalg.svd(np.eye(n) - 1 / n)[0][:, : n - 1]
        noise, axes = np.linalg.eigh(-contrasts.T @ errors**2 @ contrasts / 2)
        noise, seen = np.maximum(0, noise), (rating @ contrasts @ axes) ** 2
        least, most = 0.05 * sqrt(noise.mean()), 3 * sqrt(noise.mean() + seen.mean())
        root = np.geomspace(least + _LEAST, most + _LEAST, _POINTS)
        total = noise + root[:, None] ** 2
        log_weight = np.log(root) - (np.log(total) + seen / total).sum(axis=1) / 2
        weight = np.exp(log_weight - log_weight.max())
        return cls(2 * root**2, weight / weight.sum())

    def beyond(self, gap: float, now: float, then: float, same: float, bar: float) -> float:
        """How probable it is that a gap of variance `now` is beyond the bar, either way, after
        a run that gives it the variance `then` and in which it weighs `same`.
        """
        kept = self.variance / (self.variance + now)
        moves = np.sqrt(np.maximum(0, (1 - same) ** 2 * kept * now + then - same**2 * now))
        return float(self.weight @ chance_beyond(gap * (same + (1 - same) * kept), bar, moves))


def chance_beyond(gap: Floats | float, bar: float, moves: Floats | float) -> Floats:
    """How probable it is that a gap clears the bar, on either side, once it has moved by a normal
    deviate of so many points.
    """
    moves = np.maximum(moves, _LEAST)
    return np.asarray(normal_cdf((gap - bar) / moves) + normal_cdf((-gap - bar) / moves))


class Gap(NamedTuple):
    """A gap with its standard error and degrees of freedom, and the normal deviate that decides."""

    size: float
    error: float
    freedom: float
    bar: float

    def growth(self, spread: Spread, power: float, margin: float = 0.0) -> float | None:
        """How many times the present evidence decides the order with this chance (with a `margin`:
        shows that the gap lies within it); None where more than `MOST`.
        """

        def chance(times: float) -> float:
            then = self.error**2 / times
            bar = float(t_score(self.bar, times * (self.freedom + 1) - 1)) * sqrt(then)
            limit = margin - bar if margin else bar
            beyond = spread.beyond(self.size, self.error**2, then, 1 / times, abs(limit))
            return (1 - beyond if limit > 0 else 0.0) if margin else beyond

        step = bisect_left(_GROWTH, power, key=chance)
        return float(_GROWTH[step]) if step < len(_GROWTH) else None
