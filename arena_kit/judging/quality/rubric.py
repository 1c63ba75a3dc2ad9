"""Use of the rubric: a judge's verdicts on one dimension against those on another."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import nan, sqrt

import numpy as np

from arena_kit.judging.quality.agreement import Share, jackknifed, share_of, sums
from arena_kit.judging.quality.calls import Calls, Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricUse:
    """Two dimensions on the same pairs of responses.

    `different` is the share of pairs, settled on both dimensions by two orders that agree, that
    are not answered alike: a judge that reads no rubric has next to none. `correlation` is that
    of signed verdicts, both orders averaged; `corrected` is the same without the noise that the
    two orders of one dimension show (Spearman's correction for attenuation), None where there is
    nothing to correct by.
    """

    one: str
    other: str
    different: Share
    correlation: Share
    corrected: float | None


def likenesses(calls: Calls) -> tuple[RubricUse, ...]:
    """Whether verdicts depend on the rubric: every two dimensions that share pairs, most alike
    first.
    """
    dimensions = {name: own.both_orders() for name, own in calls.by_dimension().items()}
    uses = [
        _use(one, other, dimensions[one], dimensions[other])
        for one, other in combinations(dimensions, 2)
    ]
    shared = [use for use in uses if use.correlation.n]
    return tuple(sorted(shared, key=lambda use: use.different.value or 0.0))


Orders = tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Floats, Floats, Ints]


def _use(one: str, other: str, first: Orders, second: Orders) -> RubricUse:
    _, at, there = np.intersect1d(first[0], second[0], return_indices=True)
    x1, x2, questions = first[1][at], first[2][at], first[3][at]
    y1, y2 = second[1][there], second[2][there]
    settled = (x1 == x2) & (y1 == y2)
    correlation = _correlation(x1 + x2, y1 + y2, questions)
    return RubricUse(
        one=one,
        other=other,
        different=share_of(x1[settled] != y1[settled], questions[settled]),
        correlation=correlation,
        corrected=_corrected(correlation.value, (x1, x2), (y1, y2)),
    )


def _correlation(x: Floats, y: Floats, questions: Ints) -> Share:
    parts = np.stack([np.ones(len(x)), x, y, x * x, y * y, x * y], axis=1)
    return jackknifed(sums(parts, questions), _pearson, n=len(x))


def _pearson(moments: Floats) -> Floats:
    n, x, y, xx, yy, xy = moments.T
    coefficients: Floats = (n * xy - x * y) / np.sqrt((n * xx - x * x) * (n * yy - y * y))
    return coefficients


def _corrected(
    value: float | None, x: tuple[Floats, Floats], y: tuple[Floats, Floats]
) -> float | None:
    reliability = [_reliability(*orders) for orders in (x, y)]
    if value is None or not all(r > 0 for r in reliability):
        return None
    return min(1.0, value / sqrt(reliability[0] * reliability[1]))


def _reliability(front: Floats, behind: Floats) -> float:
    """How well the mean of two orders is reproduced (Spearman and Brown); NaN without variance."""
    if len(front) < 3 or not front.std() or not behind.std():
        return nan
    r = float(np.corrcoef(front, behind)[0, 1])
    return 2 * r / (1 + r) if r > -1 else nan
