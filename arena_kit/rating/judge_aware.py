"""Judge-aware Bradley–Terry: a strength per model, and how sharply each judge tells them apart."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import log as ln
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import (
    MIN_QUESTIONS,
    NORMAL_95,
    Rating,
    RatingError,
    Ratings,
    check_kept,
    ranked,
    scores,
)
from arena_kit.rating.bradley_terry.clusters import Evidence
from arena_kit.rating.bradley_terry.likelihood import Pairs
from arena_kit.rating.bradley_terry.method import BothBad, BradleyTerry, Inconsistent, one_thread
from arena_kit.rating.claims.critical_values import t_score

Floats = NDArray[np.float64]
Codes = NDArray[Any]

_MOST_STEPS = 500
_TOLERANCE = 1e-10
_LARGEST_STEP = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAware:
    """Strengths and judges in one fit: by judge j, a beats b with odds exp(d_j (s_a - s_b)).

    The discrimination d_j is 1 for the average judge (weighted by battles), 0 for one who guesses,
    negative for one who prefers the worse; verdicts of a judge who tells models apart count for
    more, without anybody's labels. The interval is the robust one, clustered by question: what
    several judges say of one battle is one piece of evidence. `fit` holds each judge's
    discrimination and its standard error.

    Parameters
    ----------
    scale, center
        As for `BradleyTerry`, for the average judge.
    prior
        Wins added to each side of pairs where one never beat the other, not even through others.
    spread
        How far discriminations are expected to lie from 1 (the standard deviation of their normal
        prior): it matters only for a judge with few battles.
    both_bad, inconsistent
        As for `BradleyTerry`; a tie is half a win for each side.
    """

    scale: float = 400.0
    center: float = 1000.0
    prior: float = 0.5
    spread: float = 1.0
    both_bad: BothBad = "tie"
    inconsistent: Inconsistent = "drop"

    def __post_init__(self) -> None:
        if not 0 < self.spread < float("inf"):
            raise ValueError(f"spread must be a finite number above 0, not {self.spread!r}")
        self._plain()

    def _plain(self) -> BradleyTerry:
        """The method that knows no judges, with the same settings."""
        shared = {k: v for k, v in asdict(self).items() if k != "spread"}
        return BradleyTerry(**shared, cluster="question")

    def __call__(self, battles: BattleLog) -> Ratings:
        """Rate a log whose battles name their judges; raises `RatingError` where none exists."""
        plain = self._plain()
        log, dropped = plain.kept(battles)
        check_kept(battles, log, dropped)
        if log.judge_model is None or (log.judge_model.codes < 0).any():
            raise RatingError("judge-aware ratings need a judge_model in every battle")
        with one_thread():
            return self._rated(log, dropped, plain)

    def _rated(self, log: BattleLog, dropped: dict[str, int], plain: BradleyTerry) -> Ratings:
        evidence = Evidence.of(log, np.zeros((len(log), 0)), "question")
        model = _Model.of(log, evidence, plain, self.spread)
        theta = model.peak(plain.strengths(log))
        spread = model.covariance(theta, log.clusters())
        n, unit = len(log.models), self.scale / ln(10)
        rating = self.center + unit * theta[:n]
        covariance: Floats = unit**2 * spread[:n, :n]
        return Ratings(
            method="judge-aware",
            settings=asdict(self) | {"cluster": "question"},
            ratings=_ranked(log, evidence, rating, covariance),
            n_battles=round(log.weights().sum()),
            dropped=dropped,
            models=log.models,
            traces=np.empty((0, n)),
            replicates=np.empty((0, n)),
            covariance=covariance,
            fit=_discriminations(model.judges, theta[n:], np.diag(spread)[n:]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """Battles and pseudo-battles of a fit; `judge` is -1 for the latter, which the average judge
    decides. Parameters are the strengths (mean 0), then the discriminations (mean 1).
    """

    a: Codes
    b: Codes
    judge: Codes
    share: Floats
    weight: Floats
    n_models: int
    judges: tuple[str, ...]
    spread: float

    @classmethod
    def of(cls, log: BattleLog, evidence: Evidence, plain: BradleyTerry, spread: float) -> _Model:
        if log.judge_model is None:
            raise TypeError("no judges")
        names, judge = np.unique(log.judge_model.values().astype(str), return_inverse=True)
        pairs = Pairs.of(evidence.rows, len(log.models))
        prior = plain.priors(pairs.pooled(evidence.rows), pairs).always
        wins = prior.won + prior.tied / 2
        games = prior.won + prior.tied + prior.lost
        return cls(
            a=np.concatenate([log.a, prior.a]),
            b=np.concatenate([log.b, prior.b]),
            judge=np.concatenate([judge, np.full(len(games), -1)]),
            share=np.concatenate([scores(log), np.divide(wins, games)]),
            weight=np.concatenate([log.weights(), games]),
            n_models=len(log.models),
            judges=tuple(names.tolist()),
            spread=spread,
        )

    @property
    def _constraints(self) -> Floats:
        """What is held in place: the mean strength, and the mean discrimination by battles."""
        n, m = self.n_models, len(self.judges)
        real = self.judge >= 0
        by_judge = np.bincount(self.judge[real], self.weight[real], m)
        rows = np.zeros((2, n + m))
        rows[0, :n] = 1 / n
        rows[1, n:] = by_judge / by_judge.sum()
        return rows

    def peak(self, start: Floats) -> Floats:
        """The parameters that explain the battles best, by Fisher scoring."""
        theta = np.concatenate([start, np.ones(len(self.judges))])
        for _ in range(_MOST_STEPS):
            slope, information = self._slope(theta), self._information(theta)
            step = self._inverse(information) @ slope
            largest = float(np.abs(step).max())
            theta = theta + step * min(1.0, _LARGEST_STEP / max(largest, 1e-300))
            if largest < _TOLERANCE:
                return theta
        raise RatingError("no judge-aware fit was found: some judge decides every battle alike")

    def covariance(self, theta: Floats, clusters: Codes) -> Floats:
        """The sandwich covariance of all parameters, clustered."""
        inverse = self._inverse(self._information(theta))
        real = self.judge >= 0
        n_clusters = int(clusters.max()) + 1
        by_cluster = np.zeros((n_clusters, len(theta)))
        for place, value in self._scores(theta):
            np.add.at(by_cluster, (clusters, place[real]), value[real])
        small_sample = n_clusters / max(1, n_clusters - 1)
        covariance: Floats = small_sample * inverse @ (by_cluster.T @ by_cluster) @ inverse
        return covariance

    def _gaps(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Each battle's gap of strengths, its judge's discrimination, and the expected share."""
        gap = theta[self.a] - theta[self.b]
        sharpness = np.append(theta[self.n_models :], 1.0)[self.judge]
        return gap, sharpness, 1 / (1 + np.exp(-sharpness * gap))

    def _scores(self, theta: Floats) -> list[tuple[Codes, Floats]]:
        """The slope of each battle's log-likelihood, with the parameter that it belongs to."""
        gap, sharpness, expected = self._gaps(theta)
        error = self.weight * (self.share - expected)
        own = np.maximum(self.judge, 0) + self.n_models
        return [
            (self.a, error * sharpness),
            (self.b, -error * sharpness),
            (own, np.where(self.judge >= 0, error * gap, 0.0)),
        ]

    def _slope(self, theta: Floats) -> Floats:
        slope = np.zeros(len(theta))
        for place, value in self._scores(theta):
            slope += np.bincount(place, value, len(theta))
        slope[self.n_models :] -= (theta[self.n_models :] - 1) / self.spread**2
        return slope

    def _information(self, theta: Floats) -> Floats:
        """The expected information, with the prior of the discriminations."""
        n, size = self.n_models, len(theta)
        gap, sharpness, expected = self._gaps(theta)
        weight = self.weight * expected * (1 - expected)
        own = np.maximum(self.judge, 0) + n
        real = (self.judge >= 0).astype(float)
        columns = [(self.a, sharpness), (self.b, -sharpness), (own, gap * real)]
        total = np.zeros(size * size)
        for i, x in columns:
            for j, y in columns:
                total += np.bincount(i * size + j, weight * x * y, size * size)
        information = total.reshape(size, size)
        information[range(n, size), range(n, size)] += 1 / self.spread**2
        return information

    def _inverse(self, information: Floats) -> Floats:
        """The inverse on the parameters that keep the constraints."""
        rows = self._constraints
        bordered = np.block([[information, rows.T], [rows, np.zeros((2, 2))]])
        try:
            whole = np.asarray(np.linalg.inv(bordered), float)
        except np.linalg.LinAlgError:
            raise RatingError("no judge-aware fit exists; set a prior above 0") from None
        return whole[: len(information), : len(information)]


def _ranked(
    log: BattleLog, evidence: Evidence, rating: Floats, covariance: Floats
) -> tuple[Rating, ...]:
    """Ratings with their intervals, best first."""
    df = np.maximum(1.0, evidence.seen - 1)
    se = np.sqrt(np.maximum(0, np.diag(covariance)))
    half = t_score(NORMAL_95, df) * se
    hidden = (evidence.seen < MIN_QUESTIONS) | (evidence.pieces < 2)
    counts = np.bincount(np.concatenate([log.a, log.b]), np.tile(log.weights(), 2))
    se, df, half = np.where(hidden, np.nan, (se, df, half))
    return ranked(log.models, rating, (rating - half, rating + half), counts, {"se": se, "df": df})


def _discriminations(judges: tuple[str, ...], value: Floats, variance: Floats) -> dict[str, float]:
    """Each judge's discrimination, and its standard error."""
    error = np.sqrt(np.maximum(0, variance))
    found: dict[str, float] = {}
    for name, sharp, se in zip(judges, value.tolist(), error.tolist(), strict=True):
        found |= {f"discrimination of {name}": sharp, f"discrimination of {name}_se": se}
    return found
