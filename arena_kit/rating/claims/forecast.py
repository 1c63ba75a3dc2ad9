"""What further evidence would decide: the chance after a given amount, and the amount for a chance.

Gaps that were estimated from little are too large. They are shrunk as empirical Bayes does (Efron
and Morris 1975): true ratings are normal, and their standard deviation is estimated with a
lognormal prior, as judged sets and arenas have it (design/forecasts.md), since few models tell
little about it. Neighbours need not stay neighbours, and models further apart need a larger gap;
how many will stand between follows from the same spread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Times of the present evidence beyond which an order is not within reach.
MOST = 40.0
_GROWTH = np.geomspace(1.01, MOST, 128)
#: The median of the standard deviation of ratings, in natural units (130 points of the usual
#: scale), and the standard deviation of its logarithm.
_TYPICAL, _LOG_SD = 0.75, 0.7
_DEVIATES = np.linspace(-4, 4, 64)


class Spread(NamedTuple):
    """How `n` models are spread in truth: normal about their mean, with this standard deviation."""

    deviation: float
    mean: float
    n: int

    @classmethod
    def of(cls, rating: Floats, errors: Floats, unit: float) -> Spread:
        """The spread by ratings and the standard errors of their gaps, in units of so many points:
        the posterior mean of the standard deviation.
        """
        if (n := len(rating)) < 2:
            return cls(_TYPICAL * unit, 0.0, n)
        deviation = _TYPICAL * unit * np.exp(_LOG_SD * _DEVIATES)
        contrasts = np.linalg.svd(np.eye(n) - 1 / n)[0][:, : n - 1]
        noise, axes = np.linalg.eigh(-contrasts.T @ errors**2 @ contrasts / 2)
        noise, seen = np.maximum(0, noise), (rating @ contrasts @ axes) ** 2
        total = noise + deviation[:, None] ** 2
        log_weight = -(_DEVIATES**2 + (np.log(total) + seen / total).sum(axis=1)) / 2
        weight = np.exp(log_weight - log_weight.max())
        return cls(float(np.average(deviation, weights=weight)), float(rating.mean()), n)

    def kept(self, variance: float) -> float:
        """The part of a gap of this variance that is true."""
        return 2 * self.deviation**2 / (2 * self.deviation**2 + variance)

    def beyond(self, gap: float, now: float, then: float, same: float, bar: float) -> float:
        """How probable it is that a gap of variance `now` is beyond the bar, either way, after
        a run that gives it the variance `then` and in which it weighs `same`.
        """
        kept = self.kept(now)
        moves = sqrt(max(0.0, (1 - same) ** 2 * kept * now + then - same**2 * now))
        return chance_beyond(gap * (same + (1 - same) * kept), bar, moves)

    def bar(
        self, middle: float, now: float, error: float, new: float, bars: Sequence[float]
    ) -> float:
        """What decides two models about `middle` once their gap has this standard error, of `bars`
        by places apart: others may then stand between them, as far as evidence is `new`.
        """
        above, bar = self.kept(now) * (middle - self.mean), bars[1]
        others = NormalDist(0, self.deviation)
        for _ in range(2):
            half = bar * error / 2
            inside = new * (self.n - 2) * (others.cdf(above + half) - others.cdf(above - half))
            bar = float(np.interp(1 + inside, range(len(bars)), bars))
        return bar


def chance_beyond(gap: float, bar: float, moves: float) -> float:
    """How probable it is that a gap clears the bar, on either side, once it has moved by a normal
    deviate of so many points.
    """
    if not moves:
        return float(abs(gap) > bar)
    after = NormalDist(gap, moves)
    return 1 - after.cdf(bar) + after.cdf(-bar)


def growth(chance: Callable[[float], float], power: float) -> float | None:
    """The times of the present evidence from which this chance is reached; None where they are more
    than `MOST`.
    """
    step = bisect_left(_GROWTH, power, key=chance)
    return float(_GROWTH[step]) if step < len(_GROWTH) else None
