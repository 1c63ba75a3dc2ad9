"""Boards per stratum with partial pooling: a model's deviation in a stratum shrinks towards its
overall rating.

In stratum s the strengths are θ_s = μ + d_s, where the deviations d are independent with one
variance τ² for all models and strata, and μ has a flat prior. The likelihood of each stratum is
taken as normal at the pooled strengths, its information divided by one design effect for clusters
by question, and τ is integrated over its posterior under a prior of density τ^(−1/2). Nothing is
fitted stratum by stratum, so a stratum of two prompts, or a model that won everything there, needs
no rule of its own. design/strata.md has the formulas and what they were held against.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import log as ln
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtr

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import MIN_QUESTIONS, NORMAL_95, RatingError, scores, transitive_closure
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.claims.claims import level
from arena_kit.rating.critical_values import span_scores
from arena_kit.rating.with_judge.fay_herriot import mixture_quantile

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_ROUNDS = 4  # of the normal approximation
_NEWTON = 20  # steps to the fit of all strata together
_GRID = 40  # values of τ², from 1e-4 to 1e3 of the noise
_NEGLIGIBLE = 1e-8  # posterior weight below which a value is left out
_LEVEL = 0.05  # probability of any false claim
_ENDS = (0.0, -NORMAL_95, NORMAL_95)
_HALF_WIN = 0.5  # what a model gets against the mean of others, so that no strength is infinite


class Deviation(NamedTuple):
    """A model whose rating in a stratum differs from that in the other strata beyond noise, by so
    many points (95 % interval), without pooling.
    """

    model: str
    stratum: str
    points: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Strata:
    """The boards of one axis: a row per stratum, a column per model.

    `rating`, `low` and `high` are partially pooled, with 95 % intervals; `alone` is without
    pooling. `decided` says where the row's model is above the column's in a stratum, for all
    boards at once. `deviations` stand out from noise, for all cells at once; both need ten
    questions in the stratum. `p_equal` is the probability of strata that differ so much where all
    ratings are the same in each; `spread` is the standard deviation of a model's rating between
    strata in points, with its 95 % interval. In each stratum the mean of all models is the center.
    """

    axis: str
    center: float
    names: tuple[str, ...]
    models: tuple[str, ...]
    rating: Floats = field(repr=False)
    low: Floats = field(repr=False)
    high: Floats = field(repr=False)
    alone: Floats = field(repr=False)
    n_battles: Floats = field(repr=False)
    n_questions: tuple[int, ...]
    decided: Bools = field(repr=False)
    deviations: tuple[Deviation, ...]
    p_equal: float
    spread: tuple[float, float, float]

    def sentences(self) -> tuple[str, ...]:
        """What may be said about the strata, the answer first."""
        middle, low, high = self.spread
        if self.p_equal >= _LEVEL and not self.deviations:
            first = f"By {self.axis}, ratings do not differ beyond noise (p = {self.p_equal:.2f})."
        else:
            ends = f"95 % interval {low:.0f}–{high:.0f}"
            first = f"By {self.axis}, ratings differ: SD {middle:.0f} points ({ends})."
        return (first, *map(_deviation_text, self.deviations))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        boards = {
            name: {
                "n_questions": self.n_questions[s],
                "ratings": [self._cell(s, m) for m in np.argsort(-self.rating[s]).tolist()],
                "decided": [
                    [self.models[i], self.models[j]] for i, j in np.argwhere(self.decided[s])
                ],
            }
            for s, name in enumerate(self.names)
        }
        return {
            "axis": self.axis,
            "center": self.center,
            "boards": boards,
            "deviations": [each._asdict() for each in self.deviations],
            "p_equal": self.p_equal,
            "spread": list(self.spread),
            "sentences": list(self.sentences()),
        }

    def _cell(self, s: int, m: int) -> dict[str, Any]:
        columns = {"rating": self.rating, "ci_low": self.low, "ci_high": self.high}
        values = {name: round(float(column[s, m]), 6) for name, column in columns.items()}
        alone = float(self.alone[s, m])
        return {
            "model": self.models[m],
            **values,
            "alone": round(alone, 6) if np.isfinite(alone) else None,
            "n_battles": round(float(self.n_battles[s, m])),
        }


def by_stratum(battles: BattleLog, axis: str, method: BradleyTerry | None = None) -> Strata:
    """The boards of all strata of one axis of `battles.strata`; battles without a stratum are left
    out.
    """
    method = method or BradleyTerry()
    unit = method.scale / ln(10)
    log, codes, names = _labelled(battles, axis, method)
    counts = _Counts.of(log, codes, len(names), method)
    pooled = counts.pooled()
    enough = np.array(counts.n_questions) >= MIN_QUESTIONS
    low, high = (pooled.quantile(share) for share in (0.025, 0.975))
    return Strata(
        axis=axis,
        center=method.center,
        names=names,
        models=log.models,
        rating=method.center + unit * pooled.mean,
        low=method.center + unit * low,
        high=method.center + unit * high,
        alone=np.where(counts.games > 0, method.center + unit * pooled.alone, np.nan),
        n_battles=counts.games,
        n_questions=counts.n_questions,
        decided=pooled.decided(level(method.looks)) & enough[:, None, None],
        deviations=_deviations(
            pooled, (counts.games > 0) & enough[:, None], names, log.models, unit
        ),
        p_equal=pooled.p_equal(),
        spread=pooled.spread(unit),
    )


def _labelled(
    battles: BattleLog, axis: str, method: BradleyTerry
) -> tuple[BattleLog, NDArray[np.int32], tuple[str, ...]]:
    """The battles that count and have a stratum, its number, and the names of all strata."""
    if method.covariates:
        raise RatingError("boards per stratum take no covariates")
    log, _ = method.kept(battles)
    codes = (log.strata or {})[axis].codes
    log = log.select(codes >= 0)
    labels = (log.strata or {})[axis]
    if (n := len(labels.names)) < 2:
        raise RatingError(f"{axis} has {n} strata with battles; boards per stratum need 2")
    return log, labels.codes, tuple(map(str, labels.names))


@dataclass(frozen=True, slots=True)
class _Counts:
    """Wins of the row's model over the column's in each stratum (a tie is half of one), and what
    the scores of questions need.
    """

    wins: Floats
    rows: tuple[NDArray[Any], ...]  # stratum, first side, second side, score, weight of each battle
    question: NDArray[Any]
    n_questions: tuple[int, ...]
    least: float
    voters: float

    @classmethod
    def of(cls, log: BattleLog, codes: NDArray[Any], n: int, method: BradleyTerry) -> _Counts:
        size, score, weight = len(log.models), scores(log), log.weights()
        wins = np.zeros((n, size, size))
        np.add.at(wins, (codes, log.a, log.b), weight * score)
        np.add.at(wins, (codes, log.b, log.a), weight * (1 - score))
        by_question = method.cluster in ("both", "question")
        asked = log.clusters() if by_question else np.arange(len(log))
        cell = codes.astype(np.int64) * (int(asked.max()) + 1) + asked
        _, question = np.unique(cell, return_inverse=True)
        stratum_of = np.zeros(question.max() + 1, np.int64)
        stratum_of[question] = codes
        decided = float(np.average(4 * (score - 0.5) ** 2, weights=weight))
        clear = (decided * len(log) + 1) / (len(log) + 1)  # as if one more were no tie
        rows = (codes, log.a, log.b, score, weight)
        each = tuple(np.bincount(stratum_of, minlength=n).tolist())
        return cls(wins, rows, question, each, clear, _voters_effect(log, method))

    @property
    def games(self) -> Floats:
        """The battles of each model in each stratum."""
        return np.asarray(self.wins.sum(axis=2) + self.wins.sum(axis=1))

    def slopes(self, strength: Floats) -> tuple[Floats, Floats]:
        """Score and information of every stratum at strengths."""
        expected = 1 / (1 + np.exp(strength[:, None, :] - strength[:, :, None]))
        met = self.wins + self.wins.swapaxes(1, 2)
        curve = met * expected * (1 - expected)
        size = np.arange(curve.shape[1])
        information = -curve
        information[:, size, size] += curve.sum(axis=2)
        return (self.wins - met * expected).sum(axis=2), information

    def design(self, strength: Floats, inverse: Floats) -> float:
        """The design effect of questions, one for all strata: the variance of their scores about
        the stratum's mean over that of independent battles.
        """
        stratum, a, b, score, weight = self.rows
        off = weight * (score - 1 / (1 + np.exp(strength[stratum, b] - strength[stratum, a])))
        size = strength.shape[1]
        sums = np.zeros((int(self.question.max()) + 1, size))
        np.add.at(sums, (self.question, a), off)
        np.add.at(sums, (self.question, b), -off)
        of = np.zeros(len(sums), np.intp)
        of[self.question] = stratum
        n = np.array(self.n_questions, float)
        mean = np.zeros_like(strength)
        np.add.at(mean, of, sums)
        sums -= (mean / n[:, None])[of]
        spread = np.bincount(of, np.einsum("qi,qij,qj->q", sums, inverse[of], sums), len(n))
        rank = np.linalg.matrix_rank(inverse, hermitian=True)
        several = n > 1
        if not several.any():
            return self.voters
        found = (spread * n / np.maximum(n - 1, 1))[several].sum() / rank[several].sum()
        return self.voters * max(self.least, float(found))

    def pooled(self) -> _Pooled:
        """Strengths of all strata, the normal approximation taken at them in turn."""
        n, size, _ = self.wins.shape
        basis = np.linalg.qr(np.column_stack([np.ones(size), np.eye(size)[:, 1:]]))[0][:, 1:]
        strength = np.tile(self._together(basis), (n, 1))
        for _ in range(_ROUNDS):
            score, information = self.slopes(strength)
            inside = basis.T @ information @ basis
            inverse = np.linalg.pinv(inside, hermitian=True)
            design = self.design(strength, basis @ inverse @ basis.T)
            step = np.einsum("sij,sj->si", inverse, score @ basis)
            found = _Pooled.of(basis, inside / design, strength @ basis + step)
            strength = found.mean
        return found

    def _together(self, basis: Floats) -> Floats:
        """The strengths of all strata together, a half win against all others added."""
        wins = self.wins.sum(axis=0)
        size = len(wins)
        whole = replace(self, wins=(wins + (1 - np.eye(size)) * _HALF_WIN / size)[None])
        strength = np.zeros((1, size))
        for _ in range(_NEWTON):
            score, information = whole.slopes(strength)
            inside = basis.T @ information[0] @ basis
            strength = strength + np.clip(
                basis @ np.linalg.solve(inside, basis.T @ score[0]), -1, 1
            )
        return strength


@dataclass(frozen=True, slots=True)
class _Pooled:
    """Contrasts of each stratum (`at`, precision `known`), and the posterior given each value of
    τ² in `grid`: its weight, means and covariances of the strengths.
    """

    basis: Floats
    known: Floats
    at: Floats
    grid: Floats
    weight: Floats
    means: Floats
    covariances: Floats

    @classmethod
    def of(cls, basis: Floats, known: Floats, at: Floats) -> _Pooled:
        rank = np.linalg.matrix_rank(known, hermitian=True).sum()
        noise = float(np.linalg.pinv(known, hermitian=True).trace(axis1=1, axis2=2).sum() / rank)
        grid = noise * np.geomspace(1e-4, 1e3, _GRID)
        log_weight = np.array([_given(known, at, t)[0] for t in grid])
        weight = np.exp(log_weight - log_weight.max())
        counts = weight > _NEGLIGIBLE
        grid, weight = grid[counts], weight[counts] / weight[counts].sum()
        parts = [_given(known, at, t) for t in grid]
        means, covariances = (np.array([part[k] for part in parts]) for k in (1, 2))
        return cls(basis, known, at, grid, weight, means @ basis.T, covariances)

    @property
    def mean(self) -> Floats:
        return np.asarray(np.tensordot(self.weight, self.means, 1))

    @property
    def alone(self) -> Floats:
        """Strengths without pooling."""
        return np.asarray(self.at @ self.basis.T)

    def quantile(self, share: float) -> Floats:
        """A quantile of every strength."""
        variance = np.einsum("mi,gsij,mj->gsm", self.basis, self.covariances, self.basis)
        n = len(self.grid)
        flat = mixture_quantile(
            self.means.reshape(n, -1), variance.reshape(n, -1), self.weight, share
        )
        return flat.reshape(self.mean.shape)

    def spread(self, unit: float) -> tuple[float, float, float]:
        """Median and 95 % interval of τ in points."""
        below = np.cumsum(self.weight) - self.weight / 2
        middle, low, high = np.interp((0.5, 0.025, 0.975), below, np.sqrt(self.grid))
        return unit * middle, unit * low, unit * high

    def decided(self, level: float) -> Bools:
        """Where the row's model is above the column's, for all boards at once."""
        above = np.zeros((*self.mean.shape, self.mean.shape[1]))
        for weight, means, inside in zip(self.weight, self.means, self.covariances, strict=True):
            spread = self.basis @ inside @ self.basis.T
            own = np.diagonal(spread, axis1=1, axis2=2)
            variance = own[:, :, None] + own[:, None, :] - 2 * spread
            gap = means[:, :, None] - means[:, None, :]
            error = np.sqrt(np.maximum(variance, np.finfo(float).tiny))
            above += weight * ndtr(gap / error)
        n, size = self.mean.shape
        rank = np.argsort(np.argsort(-self.mean, axis=1), axis=1)
        span = np.abs(rank[:, :, None] - rank[:, None, :])
        bar = ndtr(np.array(span_scores(size, 1 - (1 - level) / n)))[span]
        clear = (above > bar) & (span > 0)
        reach = [transitive_closure(size, *np.nonzero(each)) for each in clear]
        return np.asarray((np.array(reach) > 0) & (span > 0))

    def p_equal(self) -> float:
        """The probability of strata that differ as much, where ratings are the same in all."""
        together = np.linalg.solve(
            self.known.sum(axis=0), np.einsum("sij,sj->i", self.known, self.at)
        )
        off = self.at - together
        square = float(np.einsum("si,sij,sj->", off, self.known, off))
        free = int(np.linalg.matrix_rank(self.known, hermitian=True).sum()) - len(together)
        return float(chdtrc(max(free, 1), square))

    def against_others(self) -> tuple[Floats, Floats]:
        """How far each strength of a stratum is from that of all others, without pooling, and the
        standard error.
        """
        total, weighted = self.known.sum(axis=0), np.einsum("sij,sj->si", self.known, self.at)
        rest = np.linalg.pinv(total - self.known, hermitian=True)
        off = self.at - np.einsum("sij,sj->si", rest, weighted.sum(axis=0) - weighted)
        variance = np.linalg.pinv(self.known, hermitian=True) + rest
        return off @ self.basis.T, np.sqrt(
            np.einsum("mi,sij,mj->sm", self.basis, variance, self.basis)
        )


def _given(known: Floats, at: Floats, t: float) -> tuple[float, Floats, Floats]:
    """For one value of τ²: the logarithm of its posterior weight, and the means and covariances of
    the contrasts.
    """
    eye = np.eye(known.shape[1])
    shrunk = np.linalg.inv(eye + t * known)
    weight = known @ shrunk  # (1/known + τ²)⁻¹, which exists for strata that some models miss
    total = np.linalg.inv(weight.sum(axis=0))
    center = total @ np.einsum("sij,sj->i", weight, at)
    off = at - center
    pull = np.einsum("sij,sj->si", weight, off)
    fit = np.linalg.slogdet(shrunk)[1].sum() + np.linalg.slogdet(total)[1] - (off * pull).sum()
    keep = eye - t * weight
    covariance = t * keep + keep @ total @ keep.swapaxes(1, 2)
    return 0.5 * float(fit) + 0.25 * ln(t), center + t * pull, covariance


def _deviations(
    pooled: _Pooled, seen: Bools, names: Sequence[str], models: Sequence[str], unit: float
) -> tuple[Deviation, ...]:
    """The cells that stand out, by Holm's procedure over all of them, the largest first."""
    off, error = pooled.against_others()
    p = np.where(seen, 2 * ndtr(-np.abs(off) / error), 1.0)
    order = np.argsort(p, axis=None)
    bars = _LEVEL / np.arange(int(seen.sum()), 0, -1)
    holds = np.cumprod(p.ravel()[order][: len(bars)] <= bars).astype(bool)
    found = [np.unravel_index(at, p.shape) for at in order[: len(bars)][holds]]
    out = [
        Deviation(models[m], names[s], *(unit * float(off[s, m] + k * error[s, m]) for k in _ENDS))
        for s, m in found
    ]
    return tuple(sorted(out, key=lambda each: -abs(each.points)))


def _deviation_text(each: Deviation) -> str:
    side = "higher" if each.points > 0 else "lower"
    return (
        f"{each.model} is rated {side} on {each.stratum} than on the other strata: "
        f"{each.points:+.0f} points (95 % interval {each.low:+.0f} to {each.high:+.0f})."
    )


def _voters_effect(log: BattleLog, method: BradleyTerry) -> float:
    """By how much voters widen the intervals of all strata together."""
    if log.voter is None or method.cluster != "both":
        return 1.0
    plain = replace(method, interval="sandwich")
    both, questions = (
        np.trace(np.asarray(each(log).covariance))
        for each in (plain, replace(plain, cluster="question"))
    )
    return max(1.0, float(both / questions))
