"""How large a gap must be, in standard errors: Student's t for few clusters, the studentized range
for many models.
"""

from bisect import bisect_left
from functools import cache
from math import erfc, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_kit.rating.base import NORMAL_95

Floats = NDArray[np.float64]

_STEP = 0.02
_STEPS = 6
_SETTLED = 1e-14


_erfc = np.frompyfunc(erfc, 1, 1)


def normal_cdf(z: ArrayLike) -> Floats:
    """The distribution function of the standard normal deviate, of every value."""
    return np.asarray(_erfc(np.asarray(z, float) / -sqrt(2)), float) / 2


def normal_score(t: ArrayLike, df: ArrayLike) -> Floats:
    """The normal deviate as improbable as a `t` with `df` degrees of freedom (Hill 1970, Algorithm
    395): exact to 1e-6 for t up to 5 and 9 degrees or more; infinitely many leave t as it is.
    """
    t, df = np.broadcast_arrays(np.asarray(t, float), np.asarray(df, float))
    finite = np.isfinite(df)
    nu = np.where(finite, df, 1e12)
    y = np.sqrt((nu - 0.5) * np.log1p(t**2 / nu))
    return np.where(finite, np.sign(t) * _expanded(y, nu), t)


def _expanded(y: Floats, nu: Floats) -> Floats:
    b = 48 * (nu - 0.5) ** 2
    tail = (4 * y**7 + 33 * y**5 + 240 * y**3 + 855 * y) / (10 * b * (b + 0.8 * y**4 + 100))
    return y + (y**3 + 3 * y) / b - tail


def t_score(z: float, df: ArrayLike) -> Floats:
    """The t with `df` degrees of freedom that is as improbable as a normal deviate above 0, by
    Newton's method with the slope of the leading term.
    """
    given = np.asarray(df, float)
    few, at = np.unique(given, return_inverse=True) if given.ndim else (given, ...)
    nu = np.where(np.isfinite(few), few, 1e12)
    t = np.full(few.shape, z)
    for _ in range(_STEPS):
        y = np.sqrt((nu - 0.5) * np.log1p(t**2 / nu))
        slope = (nu - 0.5) * t / (y * (nu + t**2))
        change = (z - _expanded(y, nu)) / slope
        t = t + change
        if np.all(np.abs(change) < _SETTLED):
            break
    return np.where(np.isfinite(few), t, z)[at].reshape(given.shape)


def widening(df: ArrayLike) -> Floats:
    """How much wider than the spread of resamples a 95 % interval is that rests on `df` + 1
    clusters: they show too little of it, and it is itself uncertain.
    """
    return t_score(NORMAL_95, df) / NORMAL_95 * np.sqrt(1 + 1 / np.asarray(df, float))


@cache
def span_scores(n: int, level: float) -> tuple[float, ...]:
    """For spans of 1 to `n` models, the standard errors that the gap between the best and the worst
    of so many equal models stays below with probability `level`: the studentized range over the
    root of 2. A span of 1 has no gap.
    """
    return (0.0, *(_range_quantile(p, level) / sqrt(2) for p in range(2, n + 1)))


def _range_quantile(p: int, level: float) -> float:
    """The studentized range of `p` models with infinitely many degrees of freedom, to 1e-4."""
    high = bisect_left(range(round(12 / _STEP)), level, key=lambda n: _range_chance(p, n))
    low = high - 1
    below, above = _range_chance(p, low), _range_chance(p, high)
    return _STEP * (low + (level - below) / (above - below))


def _range_chance(p: int, steps: int) -> float:
    """The probability that `p` standard normal values lie within so many steps of each other."""
    density, cdf = _normal_table()
    lower = np.concatenate([np.zeros(steps), cdf])[: len(cdf)]
    return float(p * (density * (cdf - lower) ** (p - 1)).sum())


@cache
def _normal_table() -> tuple[Floats, Floats]:
    """The probability of each step of a grid from -8 to 8, and that of lying below it."""
    x = _STEP * np.arange(round(-8 / _STEP), round(8 / _STEP) + 1)
    return _STEP * np.exp(-(x**2) / 2) / sqrt(2 * np.pi), normal_cdf(x)
