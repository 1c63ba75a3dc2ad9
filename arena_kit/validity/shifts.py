"""E-values for a shift in the log odds of a group of votes.

Every group keeps its log-likelihood on a grid of shifts: the same table estimates how far groups
of honest voters are spread, and gives the likelihood ratio of a shift of any size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Shifts in log odds; at the ends nearly every vote goes one way.
GRID: Floats = np.linspace(-6, 6, 49)
#: The largest spread that is tried: where it is the estimate, the votes do not bound the spread.
MAX_SPREAD = 3.0
_SPREADS = np.geomspace(0.15, MAX_SPREAD, 25)
_CENTERS = np.linspace(-1, 1, 21)
_OUTLIERS = 0.01  # share of groups that need not be honest while the spread is estimated
_LIKELIHOOD_DROP = 1.92  # half the 95 % quantile of chi-squared with one degree of freedom
_CHUNK = 1 << 15  # rows worked on at a time
_MAX_GROUPS = 10_000  # that the spread is estimated from


def uniform(some: Bools) -> Floats:
    """Equal weights on some shifts of the grid."""
    return np.asarray(some / some.sum())


#: Alternatives: any shift to one side, half of the weight on one that leaves hardly a vote to the
#: other.
UPWARDS: Floats = 0.5 * uniform(GRID > 0) + 0.5 * uniform(GRID[-1] <= GRID)
EITHER_WAY: Floats = 0.5 * UPWARDS + 0.5 * UPWARDS[::-1]


@dataclass(frozen=True, slots=True)
class NullShifts:
    """The null hypothesis: shifts of honest groups are normal, with this center and spread."""

    center: float
    spread: float

    @property
    def weights(self) -> Floats:
        """How likely each shift of the grid is."""
        density = np.exp(-0.5 * ((GRID - self.center) / self.spread) ** 2)
        return np.asarray(density / density.sum())


@dataclass(frozen=True, eq=False)
class ShiftLikelihoods:
    """The log-likelihood of every shift of the grid for each group: a row per group of `keys`."""

    keys: Codes
    table: Floats

    @classmethod
    def of(
        cls, keys: Codes, won: Bools, gap: Floats, slope: Floats, weight: Floats
    ) -> ShiftLikelihoods:
        """Votes with log odds `gap` of being won, to which a shift adds `slope` times itself."""
        groups, place = np.unique(keys, return_inverse=True)
        order = np.argsort(place, kind="stable")
        table = np.zeros((len(groups), len(GRID)))
        for start in range(0, len(order), _CHUNK):
            rows = order[start : start + _CHUNK]
            sign = np.where(won[rows], 1.0, -1.0)[:, None]
            odds = sign * (gap[rows, None] + slope[rows, None] * GRID)
            logs = -weight[rows, None] * np.logaddexp(0, -odds)
            first = np.flatnonzero(np.diff(place[rows], prepend=-1))
            table[place[rows[first]]] += np.add.reduceat(logs, first, axis=0)
        return cls(groups, table)

    def marginal(self, weights: Floats) -> Floats:
        """The log-likelihood of each group where shifts have these weights."""
        return np.asarray(self._peak[:, 0] + np.log(self._relative @ weights))

    def log_e_value(self, alternative: Floats, null: NullShifts) -> Floats:
        """The log likelihood ratio of each group: an e-value, whose mean under the null is 1."""
        return self.marginal(alternative) - self.marginal(null.weights)

    def posterior_mean(self, null: NullShifts) -> Floats:
        """The posterior mean of each group's shift."""
        weighted = self._relative * null.weights
        return np.asarray(weighted @ GRID / weighted.sum(axis=1))

    def select(self, rows: Bools) -> ShiftLikelihoods:
        """Some of the groups."""
        return ShiftLikelihoods(self.keys[rows], self.table[rows])

    @cached_property
    def _peak(self) -> Floats:
        return np.asarray(self.table.max(axis=1, keepdims=True))

    @cached_property
    def _relative(self) -> Floats:
        return np.asarray(np.exp(self.table - self._peak))


def estimate_null(groups: ShiftLikelihoods, alternative: Floats, *, centered: bool) -> NullShifts:
    """Center and spread of honest groups by maximum likelihood; of the spread the upper end of its
    95 % profile-likelihood interval.

    Each group may be an outlier that the `alternative` explains, at a price, so that a few that are
    not honest hardly widen the spread.
    """
    if not len(groups.keys):
        return NullShifts(0.0, MAX_SPREAD)
    every = -(-len(groups.keys) // _MAX_GROUPS)
    groups = groups.select(np.arange(len(groups.keys)) % every == 0)
    outlier = np.log(_OUTLIERS) + groups.marginal(alternative)
    candidates = [
        NullShifts(float(center), float(spread))
        for center in ([0.0] if centered else _CENTERS)
        for spread in _SPREADS
    ]
    likelihood = {
        null: float(
            np.logaddexp(np.log(1 - _OUTLIERS) + groups.marginal(null.weights), outlier).sum()
        )
        for null in candidates
    }
    best = max(candidates, key=likelihood.__getitem__)
    profile = [null for null in candidates if null.center == best.center]
    possible = [n for n in profile if likelihood[n] > likelihood[best] - _LIKELIHOOD_DROP]
    return max(possible, key=lambda null: null.spread)
