"""Which gaps the likelihood excludes: the signed root of its profile, with the design effect of
clusters.

Twice the fall of the log-likelihood from its peak to its peak under a given gap is, but for
clusters, the square of a normal deviate. Unlike a gap in standard errors it grows with every
further win, also of a model that never lost (Hauck and Donner 1977). Clusters enter by a design
effect: the variance of the cluster jackknife over that of independent battles, and at least the
share of battles without a tie. design/profile-root.md has the formulas and what they were held
against.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.rating.base import NORMAL_95, gap_variances, transitive_closure
from arena_kit.rating.bradley_terry.clusters import Evidence
from arena_kit.rating.bradley_terry.likelihood import Cells, Fit, Floats, Pairs, constrained, fitted
from arena_kit.rating.critical_values import normal_score, t_score

_HARDLY = 1e-3  # wins that either side of a divided pair gets, so that a peak exists
_NEAR_BAR = (0.6, 1.4)  # parts of a bar between which standard errors do not decide
_FEW = 5e4  # cells of all pairs' roots up to which none is spared
_MOST_WORK = 1e8  # cells of all roots of a board; those of pairs far apart come last
_PRECISE = 1e-4  # natural units to which the end of an interval is found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """The likelihood of a board in natural units, and what is known of its clusters.

    `fit` is its peak with hardly a prior, `strength` the published one; `bread` and `spread` are
    the covariance that independent battles and clusters give, `floor` is the least design effect
    of each model, `freedom` has the degrees of freedom of every gap, `reach` says who beat whom,
    directly or through others.
    """

    fit: Fit
    cells: Cells
    strength: Floats
    inverse: Floats
    spread: Floats
    floor: Floats
    freedom: Floats
    reach: NDArray[np.bool_]
    memo: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        fit: Fit,
        counted: Cells,
        prior: Cells,
        evidence: Evidence,
        spread: Floats,
        *,
        needed: bool,
    ) -> Profile:
        """The profile of a fit to the cells that counted and a prior, which gives way to a smaller
        one where it is only `needed` for a peak to exist.
        """
        n, cells, peak = fit.n_models, counted.and_also(prior), fit
        reach = np.ones((n, n), bool)
        if len(prior.a) and needed:
            little = np.full(len(prior.a), _HARDLY / prior.outcomes.max())
            cells = counted.and_also(prior.with_weights(little))
            peak = fitted(cells, n, fit.ties, start=fit.theta)
            pairs = Pairs.of(counted, n)
            won = pairs.taken(pairs.pooled(counted), half=fit.ties.start is None)
            reach = transitive_closure(n, *won) > 0
        return cls(
            fit=peak,
            cells=cells,
            strength=fit.strength,
            inverse=fit.inverse(),
            spread=spread[:n, :n],
            floor=_floor(evidence, n) if fit.ties.start is None else np.ones(n),
            freedom=evidence.freedom,
            reach=reach,
        )

    def errors(self) -> Floats:
        """The standard error of every gap."""
        return np.sqrt(self.design() * self._independent())

    def unbounded(self) -> NDArray[np.bool_]:
        """Pairs of which one never beat the other, not even through others."""
        return np.asarray(~(self.reach & self.reach.T))

    def scores(self, bar: Floats, known: NDArray[np.bool_]) -> Floats:
        """Every gap that is known as a normal deviate: by the root of the profile near the bar and
        of unbounded pairs, elsewhere by its standard error.
        """
        gap, error = self.strength[:, None] - self.strength[None, :], self.errors()
        t = np.divide(gap, error, out=np.zeros_like(gap), where=error > 0)
        size = np.divide(normal_score(np.abs(t), self.freedom), bar, where=bar > 0, out=0 * t)
        near = (_NEAR_BAR[0] < size) & (size < _NEAR_BAR[1]) | self.unbounded()
        near |= len(gap) ** 2 * len(self.cells.a) < _FEW
        above, below = np.nonzero(near & known & (gap > 0))
        most = int(_MOST_WORK / len(self.cells.a))
        closest = np.argsort(bar[above, below], kind="stable")[:most]
        peak, design = self.fit.log_likelihood(self.cells), self.design()
        for i, j in zip(above[closest].tolist(), below[closest].tolist(), strict=True):
            contrast = np.zeros(len(self.fit.theta))
            contrast[[i, j]] = 1, -1
            fall = self._fall(contrast, 0.0, peak) if contrast @ self.fit.theta > 0 else 0.0
            t[i, j] = np.sqrt(fall / design[i, j])  # 0 where only the prior puts it above
            t[j, i] = -t[i, j]
        return normal_score(t, self.freedom)

    def groups(self) -> tuple[list[int], NDArray[np.intp]]:
        """The largest group of models that beat each other, directly or through others (all where
        none has two), and the models outside it.
        """
        mutual = self.reach & self.reach.T
        largest = int(np.argmax(mutual.sum(axis=1)))
        if (main := np.flatnonzero(mutual[largest])).size > 1:
            return main.tolist(), np.flatnonzero(~mutual[largest])
        every = np.arange(len(mutual))
        return every.tolist(), every

    def why_open(self, model: int, others: list[int]) -> str:
        """Why the interval of a model lacks an end."""
        below, above = self.reach[model, others].all(), self.reach[others, model].all()
        if not (below or above):
            return "never both won and lost against the others, so nothing bounds its rating"
        rivals = np.arange(len(self.reach)) != model
        alone = not (self.reach.T if below else self.reach)[model, rivals].any()
        verb = ("won" if below else "lost") if alone else ("never lost" if below else "never won")
        what = "every battle" if alone else "against the models it is rated with"
        return f"{verb} {what}, so its interval has no {'upper' if below else 'lower'} end"

    def ends(self, model: int, others: list[int]) -> tuple[float, float]:
        """The 95 % interval of how far a model is above the mean of others: what the root of the
        profile does not exclude, infinite where nothing would.
        """
        contrast = np.zeros(len(self.fit.theta))
        contrast[others] -= 1 / len(others)
        contrast[model] += 1
        short = contrast[: len(self.spread)]
        ratio = short @ self.spread @ short / (contrast @ self.inverse @ contrast)
        design = max(self.floor[model], float(ratio))
        limit = design * float(t_score(NORMAL_95, self.freedom[model, model])) ** 2
        bounded = self.reach[model, others].all(), self.reach[others, model].all()
        low, high = (
            self._end(contrast, sign, limit) if there else sign * np.inf
            for sign, there in zip((-1, 1), bounded, strict=True)
        )
        return low, high

    def _end(self, contrast: Floats, sign: int, limit: float) -> float:
        """Where the squared root passes its limit: by doubling steps, then by bisection."""
        peak = self.fit.log_likelihood(self.cells)
        inside, step, passed = float(contrast @ self.fit.theta), 1.0, False
        while step > _PRECISE:
            if self._fall(contrast, inside + sign * step, peak) > limit:
                step, passed = step / 2, True
            else:
                inside, step = inside + sign * step, step / 2 if passed else 2 * step
        return inside

    def _fall(self, contrast: Floats, value: float, peak: float) -> float:
        """Twice the fall of the log-likelihood where the contrast has this value."""
        there = constrained(self.fit, self.cells, self.inverse, contrast, value)
        return max(0.0, 2 * (peak - there))

    def design(self) -> Floats:
        """The design effect of every gap."""
        plain = self._independent()
        ratio = np.divide(gap_variances(self.spread), plain, where=plain > 0, out=0 * plain)
        return np.maximum(np.maximum(self.floor[:, None], self.floor[None, :]), ratio)

    def _independent(self) -> Floats:
        """The variance of every gap by independent battles."""
        n = len(self.spread)
        return gap_variances(self.inverse[:n, :n])


def _floor(evidence: Evidence, n: int) -> Floats:
    """Of each model's battles the share without a tie (soft outcomes count by their square), as if
    one more were decided; times what a vote weighs.
    """
    rows = evidence.rows
    won, _, lost = rows.outcomes
    games = rows.games
    weight, sides = games / evidence.counts, np.append(rows.a, rows.b)
    clear = weight * np.divide((won - lost) ** 2, games, where=games > 0, out=0 * games)
    total, squared, decided = (
        np.bincount(sides, np.tile(each, 2), n) for each in (games, weight * games, clear)
    )
    votes = total**2 / squared
    return np.asarray(squared / total * (decided / squared * votes + 1) / (votes + 1))
