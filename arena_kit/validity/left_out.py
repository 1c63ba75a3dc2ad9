"""Ratings without a voter: what the others say about the battles that a voter decided."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import check_connected
from arena_kit.rating.bradley_terry.bootstrap import refitted
from arena_kit.rating.bradley_terry.likelihood import Cells, Pairs, fitted
from arena_kit.rating.bradley_terry.method import BradleyTerry, one_thread
from arena_kit.rating.bradley_terry.tie_models import TIE_MODELS, Floats

Bools = NDArray[np.bool_]
Rows = NDArray[np.intp]

_HALF = TIE_MODELS["half"]


class LeftOut:
    """Bradley–Terry on decisive votes from which some are taken out, each time refitted from where
    it was with them.

    Without a voter's votes, some model may have won or lost all that is left: pairs that no longer
    beat each other then share a win, as in `BradleyTerry`.
    """

    def __init__(self, log: BattleLog, method: BradleyTerry) -> None:
        check_connected(log.models, log.a, log.b)
        self._method, self._n = method, len(log.models)
        self._votes = Cells.of(log, np.zeros((len(log), 0)))
        self._pair = Pairs.of(self._votes, self._n)
        self._pooled = self._pair.pooled(self._votes)
        self._pairs = Pairs.of(self._pooled, self._n)

    def gaps(self, voter: NDArray[np.int64], out: Bools) -> Floats:
        """How far each vote's first model is ahead of the second, in log odds, by the votes that
        are neither `out` nor by the same voter; votes of voter -1 are by nobody.
        """
        with one_thread():
            others = self._less(self._pooled, np.flatnonzero(out))
            fit = fitted(self._with_prior(others), self._n, _HALF)
            inverse, gaps = fit.inverse(), self._gap(fit.theta, np.arange(len(out)))
            for rows in _rows_of(np.where(out, -1, voter)):
                left = self._with_prior(self._less(others, rows))
                gaps[rows] = self._gap(refitted(fit, left, inverse), rows)
        return gaps

    def _less(self, pooled: Cells, rows: Rows) -> Cells:
        """The pairs' cells without some votes."""
        pair, turned, n = self._pair.of_cell[rows], self._pair.turned[rows], len(pooled.a)
        won, lost = self._votes.won[rows], self._votes.lost[rows]
        low, high = np.where(turned, lost, won), np.where(turned, won, lost)
        return replace(
            pooled,
            won=np.maximum(0, pooled.won - np.bincount(pair, low, n)),
            lost=np.maximum(0, pooled.lost - np.bincount(pair, high, n)),
        )

    def _with_prior(self, pooled: Cells) -> Cells:
        """The pairs' cells, with a prior where no finite rating exists without."""
        return pooled.and_also(self._method.priors(pooled, self._pairs).always)

    def _gap(self, theta: Floats, rows: Rows) -> Floats:
        gap: Floats = theta[self._votes.a[rows]] - theta[self._votes.b[rows]]
        return gap


def _rows_of(voter: NDArray[np.int64]) -> list[Rows]:
    """The rows of each voter."""
    order = np.argsort(voter, kind="stable")
    order = order[voter[order] >= 0]
    starts = np.flatnonzero(np.diff(voter[order], prepend=-1))
    return np.split(order, starts[1:]) if len(order) else []
