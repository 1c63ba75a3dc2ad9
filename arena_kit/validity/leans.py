"""Evidence that a group of votes leans further than honest taste does, as an e-value.

A *lean* is something added to the log odds of every vote of a group. Its likelihood is kept on a
grid, so that the same sums tell how far honest groups spread, and how much better a lean of any
size explains one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

#: Leans in log odds; at the ends nearly every vote goes one way.
GRID: Floats = np.linspace(-6, 6, 49)
#: The widest spread that is looked for: where it is found, groups say nothing about it.
WIDEST = 3.0
_SPREADS = np.geomspace(0.15, WIDEST, 25)
_CENTERS = np.linspace(-1, 1, 21)
_ODD = 0.01  # share of groups that need not be honest while the spread is estimated
_LIKELY = 1.92  # loss of log-likelihood up to which a spread is possible (95 %)
_ROWS = 1 << 15  # worked on at a time
_MOST_GROUPS = 10_000  # that the spread is estimated from


def _uniform(some: NDArray[np.bool_]) -> Floats:
    return np.asarray(some / some.sum())


#: Any lean to one side, half of the weight on one that leaves hardly a vote to the other.
UPWARDS: Floats = 0.5 * _uniform(GRID > 0) + 0.5 * _uniform(GRID[-1] <= GRID)
DOWNWARDS: Floats = UPWARDS[::-1]
EITHER_WAY: Floats = 0.5 * UPWARDS + 0.5 * DOWNWARDS


@dataclass(frozen=True, slots=True)
class Honest:
    """Leans of honest groups: normal, with this center and spread."""

    center: float
    spread: float

    @property
    def weights(self) -> Floats:
        """How likely each lean of the grid is."""
        density = np.exp(-0.5 * ((GRID - self.center) / self.spread) ** 2)
        return np.asarray(density / density.sum())


@dataclass(frozen=True, eq=False)
class Leans:
    """The log-likelihood of every lean of the grid for each group: a row per group of `keys`."""

    keys: Codes
    table: Floats

    @classmethod
    def of(
        cls, keys: Codes, won: NDArray[np.bool_], gap: Floats, pull: Floats, weight: Floats
    ) -> Leans:
        """Votes with log odds `gap` of being won, to which a lean adds `pull` times itself."""
        groups, place = np.unique(keys, return_inverse=True)
        order = np.argsort(place, kind="stable")
        table = np.zeros((len(groups), len(GRID)))
        for start in range(0, len(order), _ROWS):
            rows = order[start : start + _ROWS]
            sign = np.where(won[rows], 1.0, -1.0)[:, None]
            odds = sign * (gap[rows, None] + pull[rows, None] * GRID)
            logs = -weight[rows, None] * np.logaddexp(0, -odds)
            first = np.flatnonzero(np.diff(place[rows], prepend=-1))
            table[place[rows[first]]] += np.add.reduceat(logs, first, axis=0)
        return cls(groups, table)

    def marginal(self, weights: Floats) -> Floats:
        """The log-likelihood of each group where leans have these weights."""
        marginal: Floats = self._peak[:, 0] + np.log(self._relative @ weights)
        return marginal

    def log_evidence(self, lean: Floats, honest: Honest) -> Floats:
        """How many times better a lean explains each group than honest taste, as a logarithm."""
        return self.marginal(lean) - self.marginal(honest.weights)

    def mean(self, honest: Honest) -> Floats:
        """The posterior mean of each group's lean."""
        weighed = self._relative * honest.weights
        mean: Floats = weighed @ GRID / weighed.sum(axis=1)
        return mean

    def select(self, rows: NDArray[np.bool_]) -> Leans:
        """Some of the groups."""
        return Leans(self.keys[rows], self.table[rows])

    @cached_property
    def _peak(self) -> Floats:
        return np.asarray(self.table.max(axis=1, keepdims=True))

    @cached_property
    def _relative(self) -> Floats:
        return np.asarray(np.exp(self.table - self._peak))


def honest_leans(groups: Leans, lean: Floats, *, centered: bool) -> Honest:
    """How far honest groups lean, by maximum likelihood, the widest spread that is possible.

    A group may be explained by the other `lean` instead, at a price, so that a few that are not
    honest hardly widen the spread.
    """
    if not len(groups.keys):
        return Honest(0.0, WIDEST)
    every = -(-len(groups.keys) // _MOST_GROUPS)
    groups = groups.select(np.arange(len(groups.keys)) % every == 0)
    odd = np.log(_ODD) + groups.marginal(lean)
    likelihood = {
        (float(center), float(spread)): float(
            np.logaddexp(
                np.log(1 - _ODD) + groups.marginal(Honest(center, spread).weights), odd
            ).sum()
        )
        for center in ([0.0] if centered else _CENTERS)
        for spread in _SPREADS
    }
    best = max(likelihood, key=likelihood.__getitem__)
    wide = [
        spread
        for (center, spread), value in likelihood.items()
        if center == best[0] and value > likelihood[best] - _LIKELY
    ]
    return Honest(best[0], max(wide))
