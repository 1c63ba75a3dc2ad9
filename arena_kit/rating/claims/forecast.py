"""What further evidence would decide: the chance after a given amount, and the amount for a chance.

Gaps that were estimated from little are too large. They are shrunk as empirical Bayes does (Efron
and Morris 1975): true ratings are normal, and their standard deviation is integrated over its
posterior, since few models tell little about it. Its prior is lognormal, as in judged sets and
arenas (design/forecasts.md). Neighbours need not stay neighbours, and models further apart need a
larger gap; how many will stand between follows from the same spread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.rating.critical_values import normal_cdf

Floats = NDArray[np.float64]

#: Times of the present evidence beyond which an order is not within reach.
MOST = 40.0
_GROWTH = np.geomspace(1.01, MOST, 128)
#: The median of the standard deviation of ratings, in natural units: 130 points of the usual scale.
_TYPICAL = 0.75
_DEVIATES = np.linspace(-4, 4, 32)  # of its logarithm
_LOG_SD = 0.7
_LEAST = 1e-12  # a deviation that counts as none


class Spread(NamedTuple):
    """How `n` models are spread in truth: normal about their mean, the standard deviation by its
    posterior.
    """

    deviation: Floats
    weight: Floats
    mean: float
    n: int

    @classmethod
    def of(cls, rating: Floats, errors: Floats, unit: float) -> Spread:
        """The spread by ratings and the standard errors of their gaps; so many points a `unit`."""
        if (n := len(rating)) < 2:
            return cls(np.ones(1), np.ones(1), 0.0, n)
        contrasts = np.linalg.svd(np.eye(n) - 1 / n)[0][:, : n - 1]
        noise, axes = np.linalg.eigh(-contrasts.T @ errors**2 @ contrasts / 2)
        noise, seen = np.maximum(0, noise), (rating @ contrasts @ axes) ** 2
        deviation = _TYPICAL * unit * np.exp(_LOG_SD * _DEVIATES)
        total = noise + deviation[:, None] ** 2
        log_weight = -(_DEVIATES**2 + (np.log(total) + seen / total).sum(axis=1)) / 2
        weight = np.exp(log_weight - log_weight.max())
        return cls(deviation, weight / weight.sum(), float(rating.mean()), n)

    def kept(self, variance: float) -> Floats:
        """The part of a gap of this variance that is true."""
        return np.asarray(2 * self.deviation**2 / (2 * self.deviation**2 + variance))

    def beyond(self, gap: float, now: float, then: float, same: float, bar: float) -> float:
        """How probable it is that a gap of variance `now` is beyond the bar, either way, after
        a run that gives it the variance `then` and in which it weighs `same`.
        """
        kept = self.kept(now)
        moves = np.sqrt(np.maximum(0, (1 - same) ** 2 * kept * now + then - same**2 * now))
        return float(self.weight @ chance_beyond(gap * (same + (1 - same) * kept), bar, moves))

    def bar(
        self, middle: float, now: float, error: float, new: float, bars: Sequence[float]
    ) -> float:
        """What decides two models about `middle` once their gap has this standard error, of `bars`
        by places apart: others may then stand between them, as far as evidence is `new`.
        """
        above, bar = self.kept(now) * (middle - self.mean), bars[1]
        for _ in range(2):
            ends = [(above + side * bar * error / 2) / self.deviation for side in (1, -1)]
            inside = new * (self.n - 2) * self.weight @ np.subtract(*map(normal_cdf, ends))
            bar = float(np.interp(1 + inside, range(len(bars)), bars))
        return bar


def chance_beyond(gap: Floats | float, bar: float, moves: Floats | float) -> Floats:
    """How probable it is that a gap clears the bar, on either side, once it has moved by a normal
    deviate of so many points.
    """
    moves = np.maximum(moves, _LEAST)
    return np.asarray(normal_cdf((gap - bar) / moves) + normal_cdf((-gap - bar) / moves))


def growth(chance: Callable[[float], float], power: float) -> float | None:
    """The times of the present evidence from which this chance is reached; None where they are more
    than `MOST`.
    """
    step = bisect_left(_GROWTH, power, key=chance)
    return float(_GROWTH[step]) if step < len(_GROWTH) else None
