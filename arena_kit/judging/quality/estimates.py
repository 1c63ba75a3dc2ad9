"""Numbers measured of a judge with their 95 % intervals: `Estimate`, and `Measure`, a row of the
table in which all of them stand.

Intervals leave out one cluster at a time (the jackknife): verdicts on one question share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from math import nan, sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Clusters = NDArray[np.integer[Any]]

_Z = 1.959964  # of a 95 % interval
#: Pseudo-precision of every coefficient: next to nothing beside a few dozen verdicts, it keeps
#: finite what a judge that always does the same would make infinite.
_RIDGE = 0.01
_STEPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A share or coefficient with its 95 % interval, and how many verdicts it rests on; None where
    there is nothing to tell it from.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0

    def __str__(self) -> str:
        return self._shown(".1%")

    @property
    def coefficient(self) -> str:
        """The same as a number, not as a percentage."""
        return self._shown(".2f")

    def _shown(self, form: str) -> str:
        if self.value is None:
            return "–"
        ends = "" if self.low is None else f" ({self.low:{form}} to {self.high:{form}})"
        return f"{self.value:{form}}{ends}"

    @property
    def count(self) -> int:
        """How many of `n` a share is."""
        return round((self.value or 0.0) * self.n)

    @property
    def counted(self) -> str:
        """The same in words."""
        return f"{self.count} of {self.n}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def complement(self) -> Self:
        """The share of the others."""
        return self._shifted(-1.0, 1.0)

    def above_half(self) -> Self:
        """How far a share is above one half; below it is negative."""
        return self._shifted(1.0, -0.5)

    def from_half(self) -> Self:
        """How far a share is from one half, in either direction."""
        above = self.above_half()
        if above.value is None or above.low is None or above.high is None:
            return replace(above, value=None if above.value is None else abs(above.value))
        near, far = sorted((abs(above.low), abs(above.high)))
        crosses = above.low <= 0 <= above.high
        return replace(above, value=abs(above.value), low=0.0 if crosses else near, high=far)

    def named(self, measure: str, **more: str) -> Measure:
        """A row of the table of measures: what it is and, in `more`, of what."""
        return Measure(
            measure=measure, value=self.value, low=self.low, high=self.high, n=self.n, **more
        )

    def _shifted(self, sign: float, by: float) -> Self:
        ends = (self.low, self.high) if sign > 0 else (self.high, self.low)
        given = (self.value, *ends)
        value, low, high = (None if each is None else by + sign * each for each in given)
        return replace(self, value=value, low=low, high=high)


#: What could not be measured.
NOTHING = Estimate(value=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure(Estimate):
    """A row of the table of measures.

    `dimension` is empty where it is about all of them; `stratum` is a part of the verdicts (a
    stratum of questions, a status, a kind of attack) or the dimension that `dimension` is compared
    with. `rule` names the rule of the gate that it is held against, if any, and `about` says what
    exactly was measured where the rule's text does not.
    """

    measure: str
    dimension: str = ""
    stratum: str = ""
    rule: str = ""
    about: str = ""


def find(
    measures: Iterable[Measure], measure: str, dimension: str = "", stratum: str = ""
) -> Estimate:
    """A row of the table; `NOTHING` where it was not measured."""
    name = (measure, dimension, stratum)
    rows = (row for row in measures if (row.measure, row.dimension, row.stratum) == name)
    return next(rows, NOTHING)


def wilson(flags: Iterable[bool]) -> Estimate:
    """The share of independent flags that are true, with Wilson's score interval."""
    listed = list(flags)
    n, z2 = len(listed), _Z * _Z
    if not n:
        return NOTHING
    p = sum(listed) / n
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z * sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return Estimate(value=p, low=max(0.0, centre - half), high=min(1.0, centre + half), n=n)


def share_of(flags: ArrayLike, clusters: ArrayLike | None = None) -> Estimate:
    """The share of rows that are true, by the jackknife, its interval within 0 and 1.

    A share of 0 or 1 does not vary when a cluster is left out: its other end is then what as many
    independent clusters leave possible (with 0 of 30, 3 of 30: Clopper and Pearson's one-sided
    bound). By default each row is a cluster of its own.
    """
    hits = np.asarray(flags, bool)
    groups = np.arange(len(hits)) if clusters is None else np.asarray(clusters)
    parts = sums(np.stack([hits, np.ones(len(hits))], axis=1), groups)
    share = jackknifed(parts, lambda total: total[:, 0] / total[:, 1], n=len(hits))
    if share.low is None:
        return share
    if share.value not in (0.0, 1.0):
        return replace(share, low=max(0.0, share.low))
    possible = 1 - 0.05 ** (1 / len(parts))
    low, high = (0.0, possible) if share.value == 0 else (1 - possible, 1.0)
    return replace(share, low=low, high=high)


def jackknifed(parts: Floats, statistic: Callable[[Floats], Floats], *, n: int) -> Estimate:
    """A statistic of all parts together, a part per cluster, with an interval from leaving out one
    at a time. `statistic` takes a stack of sums of parts; `n` is how many verdicts they hold.
    """
    total, clusters = parts.sum(axis=0), len(parts)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(statistic(total[None])[0]) if n else nan
        without = statistic(total[None] - parts) if clusters > 1 else np.empty(0)
    if not np.isfinite(value):
        return Estimate(value=None, n=n)
    without = without[np.isfinite(without)]
    if len(without) < 2:
        return Estimate(value=value, n=n)
    se = sqrt((clusters - 1) / clusters * float(((without - without.mean()) ** 2).sum()))
    half = t_quantile(clusters - 1) * se
    return Estimate(value=value, low=max(-1.0, value - half), high=min(1.0, value + half), n=n)


def correlation(x: Floats, y: Floats) -> Estimate:
    """Pearson's correlation, which needs variance on both sides."""
    known = np.ptp(x) > 0 and np.ptp(y) > 0
    return Estimate(value=float(np.corrcoef(x, y)[0, 1]) if known else None, n=len(x))


def sums(parts: Floats, clusters: Clusters) -> Floats:
    """Parts added up per cluster."""
    names, place = np.unique(clusters, return_inverse=True)
    total = np.zeros((len(names), *parts.shape[1:]))
    np.add.at(total, place, parts)
    return total


def logistic_shift(x: Floats, y: Floats, clusters: Clusters, column: int, *, n: int) -> Estimate:
    """The win share of a response that is ahead by one unit of a column and equal in all others,
    by logistic regression.

    `y` is 1, 0 or, for a tie, a half. The interval is that of the coefficient, from the sandwich
    covariance clustered by `clusters` with as many degrees of freedom as there are more clusters
    than coefficients; `n` is how many verdicts tell anything about it.
    """
    from scipy.special import expit  # scipy.stats takes four times longer to import

    coefficients = fit_logistic(x, y)
    value, groups = float(coefficients[column]), len(np.unique(clusters))
    freedom = groups - int(np.linalg.matrix_rank(x))
    if freedom < 1:
        return Estimate(value=float(expit(value)), n=n)
    p = expit(x @ coefficients)
    scores = sums(x * (y - p)[:, None], clusters)
    bread = np.linalg.inv(_information(x, p))
    covariance = groups / freedom * bread @ (scores.T @ scores) @ bread
    half = t_quantile(freedom) * sqrt(covariance[column, column])
    middle, low, high = map(float, expit([value, value - half, value + half]))
    return Estimate(value=middle, low=low, high=high, n=n)


def fit_logistic(x: Floats, y: Floats) -> Floats:
    """Coefficients by Newton's method; the penalised likelihood is strictly concave."""
    from scipy.special import expit

    beta = np.zeros(x.shape[1])
    for _ in range(_STEPS):
        p = expit(x @ beta)
        step = np.linalg.solve(_information(x, p), x.T @ (y - p) - _RIDGE * beta)
        step *= min(1.0, 2.0 / max(1e-12, float(np.abs(step).max())))
        beta += step
        if np.abs(step).max() < 1e-9:
            break
    return beta


def t_quantile(freedom: int) -> float:
    """What a 95 % interval takes of standard errors."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))


def _information(x: Floats, p: Floats) -> Floats:
    return np.asarray((x * (p * (1 - p))[:, None]).T @ x + _RIDGE * np.eye(x.shape[1]))
