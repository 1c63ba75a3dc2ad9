"""Boards per stratum with partial pooling: a model's deviation in a stratum shrinks towards its
overall rating.

In stratum s the strengths are θ_s = μ + d_s, where the deviations d are independent with one
variance τ² for all models and strata, and μ has a flat prior. The likelihood of each stratum is
taken as normal at the pooled strengths, its information divided by one design effect for clusters
by question. Strengths shrink as if τ² were its posterior mean, and at least 0.7 of the noise's
variance; intervals are those of the error of these shrunk strengths, with τ integrated over its
posterior under a prior of density τ^(−1/2). Nothing is fitted stratum by stratum, so a stratum of
two prompts, or a model that won everything there, needs no rule of its own. design/strata.md has
the formulas and what they were held against.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf, sqrt
from math import log as ln
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtr, ndtri

from arena_kit.battles.log import BattleLog
from arena_kit.rating import base
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.claims.claims import Spread, growth, level, two_digits
from arena_kit.rating.critical_values import span_scores
from arena_kit.rating.with_judge.fay_herriot import mixture_quantile

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_ROUNDS = 4  # of the normal approximation
_NEWTON = 20  # steps to the fit of all strata together
_GRID = 40  # values of τ², from 1e-4 to 1e3 of the noise
_LEAST = 0.7  # of the noise: τ² by which strengths shrink, so that a wrong τ costs no coverage
_LEVEL = 0.05  # probability of any false claim
_NAMED = 0.04  # the level at which cells are named: 0.05 named others in up to 7 % of studies
_HALF_WIN = 0.5  # what a model gets against the mean of others, so that no strength is infinite


class Deviation(NamedTuple):
    """A model whose rating in a stratum differs from that in the other strata beyond noise, by so
    many points, without pooling; the 95 % interval holds for all cells at once.
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
    strata in points, with its 95 % interval. `more` has the further prompts of each stratum that
    decide its first place with a power of 50 %: 0 where it is decided, infinite where that is not
    within reach. In each stratum the mean of all models is the center.
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
    more: tuple[float, ...]

    def sentences(self) -> tuple[str, ...]:
        """What may be said about the strata, the answer first."""
        middle, low, high = self.spread
        if self.p_equal >= _LEVEL and not self.deviations:
            first = f"By {self.axis}, ratings do not differ beyond noise (p = {self.p_equal:.2f})."
        else:
            ends = f"95 % interval {low:.0f}–{high:.0f}"
            first = f"By {self.axis}, ratings differ: SD {middle:.0f} points ({ends})."
        return (first, *map(_deviation_text, self.deviations), self._forecast())

    def _forecast(self) -> str:
        """On how many strata first place is decided, and what the nearest other one needs."""
        text = f"First place is decided on {self.more.count(0)} of {len(self.names)} strata"
        needed, nearest = min(((n, s) for s, n in enumerate(self.more) if n), default=(inf, 0))
        if needed < inf:
            n, name = two_digits(ceil(needed)), self.names[nearest]
            text += f"; the next, {name}, needs about {n:,} further prompts for 50 % power"
        elif any(self.more):
            text += "; the others are not within reach"
        return f"{text}."

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        boards = {
            name: {
                "n_questions": self.n_questions[s],
                "more_prompts": ceil(self.more[s]) if self.more[s] < inf else None,
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
    enough = np.array(counts.n_questions) >= base.MIN_QUESTIONS
    low, high = (pooled.quantile(share) for share in (0.025, 0.975))
    sure = 1 - (1 - level(method.looks)) / len(names)
    decided = pooled.decided(sure) & enough[:, None, None]
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
        decided=decided,
        deviations=_deviations(
            pooled, (counts.games > 0) & enough[:, None], names, log.models, unit
        ),
        p_equal=pooled.p_equal(),
        spread=pooled.spread(unit),
        more=tuple(
            n * (pooled.times(s, decided[s], sure, base.MIN_QUESTIONS / n) - 1)
            for s, n in enumerate(counts.n_questions)
        ),
    )


def shrunk(values: Sequence[float], errors: Sequence[float]) -> tuple[Floats, Floats, Floats]:
    """Estimates of one quantity in several strata, each with its standard error, partially pooled:
    values, and the ends of their 95 % intervals.
    """
    known = (1 / np.array(errors) ** 2)[:, None, None]
    pooled = _Pooled.of(np.ones((1, 1)), known, np.array(values)[:, None])
    return pooled.mean[:, 0], pooled.quantile(0.025)[:, 0], pooled.quantile(0.975)[:, 0]


def _labelled(
    battles: BattleLog, axis: str, method: BradleyTerry
) -> tuple[BattleLog, NDArray[np.int32], tuple[str, ...]]:
    """The battles that count and have a stratum, its number, and the names of all strata."""
    if method.covariates:
        raise base.RatingError("boards per stratum take no covariates")
    log, _ = method.kept(battles)
    codes = (log.strata or {})[axis].codes
    log = log.select(codes >= 0)
    labels = (log.strata or {})[axis]
    if (n := len(labels.names)) < 2:
        raise base.RatingError(f"{axis} has {n} strata with battles; boards per stratum need 2")
    return log, labels.codes, tuple(map(str, labels.names))


@dataclass(frozen=True, slots=True)
class _Counts:
    """Wins of the row's model over the column's in each stratum (a tie is half of one), and what
    the scores of questions need.
    """

    wins: Floats
    rows: tuple[NDArray[Any], ...]  # stratum, first side, second side, score, weight of each battle
    question: NDArray[Any]  # of each battle
    stratum_of: NDArray[np.intp]  # of each question
    n_questions: tuple[int, ...]
    least: float
    voters: float

    @classmethod
    def of(cls, log: BattleLog, codes: NDArray[Any], n: int, method: BradleyTerry) -> _Counts:
        size, score, weight = len(log.models), base.scores(log), log.weights()
        wins = np.zeros((n, size, size))
        np.add.at(wins, (codes, log.a, log.b), weight * score)
        np.add.at(wins, (codes, log.b, log.a), weight * (1 - score))
        by_question = method.cluster in ("both", "question")
        asked = log.clusters() if by_question else np.arange(len(log))
        cell = codes.astype(np.int64) * (int(asked.max()) + 1) + asked
        _, question = np.unique(cell, return_inverse=True)
        stratum_of = np.zeros(question.max() + 1, np.intp)
        stratum_of[question] = codes
        decided = float(np.average(4 * (score - 0.5) ** 2, weights=weight))
        clear = (decided * len(log) + 1) / (len(log) + 1)  # as if one more were no tie
        rows = (codes, log.a, log.b, score, weight)
        each = tuple(np.bincount(stratum_of, minlength=n).tolist())
        return cls(wins, rows, question, stratum_of, each, clear, _voters_effect(log, method))

    @property
    def games(self) -> Floats:
        """The battles of each model in each stratum."""
        return np.asarray(self.wins.sum(axis=2) + self.wins.sum(axis=1))

    def slopes(self, strength: Floats) -> tuple[Floats, Floats]:
        """Score and information of every stratum at strengths."""
        expected = 1 / (1 + np.exp(strength[:, None, :] - strength[:, :, None]))
        met = self.wins + self.wins.swapaxes(1, 2)
        curve = met * expected * (1 - expected)
        information = curve.sum(axis=2)[:, :, None] * np.eye(curve.shape[1]) - curve
        return (self.wins - met * expected).sum(axis=2), information

    def design(self, strength: Floats, inverse: Floats) -> float:
        """The design effect of questions, one for all strata: the variance of their scores about
        the stratum's mean over that of independent battles.
        """
        (stratum, a, b, score, weight), of = self.rows, self.stratum_of
        off = weight * (score - 1 / (1 + np.exp(strength[stratum, b] - strength[stratum, a])))
        sums = np.zeros((len(of), strength.shape[1]))
        np.add.at(sums, (self.question, a), off)
        np.add.at(sums, (self.question, b), -off)
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
    """Contrasts of each stratum (`at`, precision `known`), their strengths (`mean`) that shrink as
    if τ² were `shrinks`, whose error has the covariance `noise` + τ²·`bias`, and the posterior
    `weight` of each τ² in `grid`.
    """

    basis: Floats
    known: Floats
    at: Floats
    grid: Floats
    weight: Floats
    shrinks: float
    mean: Floats
    noise: Floats
    bias: Floats

    @classmethod
    def of(cls, basis: Floats, known: Floats, at: Floats) -> _Pooled:
        rank = np.linalg.matrix_rank(known, hermitian=True).sum()
        noise = float(np.linalg.pinv(known, hermitian=True).trace(axis1=1, axis2=2).sum() / rank)
        grid = noise * np.geomspace(1e-4, 1e3, _GRID)
        log_weight = np.array([_evidence(known, at, t) for t in grid])
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        shrinks = max(float(weight @ grid), _LEAST * noise)
        mean, *error = _shrunk(known, at, shrinks)
        own, bias = (basis @ part @ basis.T for part in error)
        return cls(basis, known, at, grid, weight, shrinks, mean @ basis.T, own, bias)

    @property
    def alone(self) -> Floats:
        """Strengths without pooling."""
        return np.asarray(self.at @ self.basis.T)

    def quantile(self, share: float) -> Floats:
        """A quantile of every strength."""
        own, bias = (np.diagonal(e, axis1=1, axis2=2).ravel() for e in (self.noise, self.bias))
        variance = own + self.grid[:, None] * bias
        means = np.broadcast_to(self.mean.ravel(), variance.shape)
        return mixture_quantile(means, variance, self.weight, share).reshape(self.mean.shape)

    def spread(self, unit: float) -> tuple[float, float, float]:
        """Median and 95 % interval of τ in points."""
        below = np.cumsum(self.weight) - self.weight / 2
        middle, low, high = np.interp((0.5, 0.025, 0.975), below, np.sqrt(self.grid))
        return unit * middle, unit * low, unit * high

    def decided(self, level: float) -> Bools:
        """Where the row's model is above the column's, on each board at this level."""
        gap = self.mean[:, :, None] - self.mean[:, None, :]
        noise, bias = (base.gap_variances(each) for each in (self.noise, self.bias))
        error = (np.sqrt(np.maximum(noise + t * bias, np.finfo(float).tiny)) for t in self.grid)
        above = sum(w * ndtr(gap / each) for w, each in zip(self.weight, error, strict=True))
        size = self.mean.shape[1]
        rank = np.argsort(np.argsort(-self.mean, axis=1), axis=1)
        span = np.abs(rank[:, :, None] - rank[:, None, :])
        bar = ndtr(np.array(span_scores(size, level)))[span]
        clear = (above > bar) & (span > 0)
        reach = [base.transitive_closure(size, *np.nonzero(each)) for each in clear]
        return np.asarray((np.array(reach) > 0) & (span > 0))

    def times(self, s: int, decided: Bools, level: float, least: float) -> float:
        """How many times the prompts of a stratum, at least so many, decide its first place with a
        power of 50 %.
        """
        first, second = np.argsort(-self.mean[s])[:2].tolist()
        if decided[first, second]:
            return 1.0
        errors = np.sqrt(self._gap_variance(s, 1))
        likely, now = Spread.of(self.mean[s], errors, 1), float(errors[first, second]) ** 2
        middle, gap = self.mean[s, [first, second]].mean(), np.ptp(self.mean[s, [first, second]])
        bars = span_scores(self.mean.shape[1], level)

        def chance(times: float) -> float:
            then = float(self._gap_variance(s, times)[first, second])
            bar = likely.bar(float(middle), now, sqrt(then), 1 - then / now, bars)
            beyond = likely.beyond(float(gap), now, then, then / now, bar * sqrt(then))
            return beyond if times >= least else 0.0

        return growth(chance, 0.5) or inf

    def _gap_variance(self, s: int, times: float) -> Floats:
        """The variance of each gap in a stratum once it has so many times its prompts."""
        known, spread = self.known.copy(), float(self.weight @ self.grid)
        known[s] *= times
        _, noise, bias = _shrunk(known, self.at, self.shrinks)
        own = self.basis @ (noise[s] + spread * bias[s]) @ self.basis.T
        return base.gap_variances(own)

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


def _evidence(known: Floats, at: Floats, t: float) -> float:
    """The logarithm of the posterior weight of one value of τ²."""
    shrunk = np.linalg.inv(np.eye(known.shape[1]) + t * known)
    weight = known @ shrunk  # (1/known + τ²)⁻¹, which exists for strata that some models miss
    total = np.linalg.inv(weight.sum(axis=0))
    off = at - total @ np.einsum("sij,sj->i", weight, at)
    square = np.einsum("si,sij,sj->", off, weight, off)
    fit = np.linalg.slogdet(shrunk)[1].sum() + np.linalg.slogdet(total)[1] - square
    return 0.5 * float(fit) + 0.25 * ln(t)


def _shrunk(known: Floats, at: Floats, t: float) -> tuple[Floats, Floats, Floats]:
    """Contrasts that shrink as if the spread were t, and the covariance of their error: a part by
    noise, and one that is to be multiplied by the true τ².
    """
    eye = np.eye(known.shape[1])
    weight = known @ np.linalg.inv(eye + t * known)
    center = np.linalg.inv(weight.sum(axis=0))
    middle = center @ np.einsum("sij,sj->i", weight, at)
    keep = eye - t * weight
    common = keep @ center
    by_noise = weight @ np.linalg.pinv(known, hermitian=True) @ weight
    parts = []
    for own, cross, each in (
        (t * t * by_noise, t * by_noise, by_noise),
        (keep @ keep, -keep @ weight, weight @ weight),
    ):
        both = cross @ common.swapaxes(1, 2)
        shared = common @ each.sum(axis=0) @ common.swapaxes(1, 2)
        parts.append(own + shared + both + both.swapaxes(1, 2))
    return middle + t * np.einsum("sij,sj->si", weight, at - middle), parts[0], parts[1]


def _deviations(
    pooled: _Pooled, seen: Bools, names: Sequence[str], models: Sequence[str], unit: float
) -> tuple[Deviation, ...]:
    """The cells that stand out, by Holm's procedure over all of them, the largest first."""
    off, error = pooled.against_others()
    p = np.where(seen, 2 * ndtr(-np.abs(off) / error), 1.0)
    order = np.argsort(p, axis=None)
    bars = _NAMED / np.arange(int(seen.sum()), 0, -1)
    holds = np.cumprod(p.ravel()[order][: len(bars)] <= bars).astype(bool)
    out = []
    for at, bar in zip(order[: len(bars)][holds], bars, strict=False):
        s, m = np.unravel_index(at, p.shape)
        ends = off[s, m] + error[s, m] * float(ndtri(bar / 2)) * np.array([0, 1, -1])
        out.append(Deviation(models[m], names[s], *(unit * ends).tolist()))
    return tuple(sorted(out, key=lambda each: -abs(each.points)))


def _deviation_text(each: Deviation) -> str:
    side = "higher" if each.points > 0 else "lower"
    return (
        f"{each.model} is rated {side} on {each.stratum} than on the other strata: "
        f"{each.points:+.0f} points (simultaneous 95 % interval {each.low:+.0f} to "
        f"{each.high:+.0f})."
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
