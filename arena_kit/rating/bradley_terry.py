"""Bradley–Terry: one strength per model that best explains all battles at once."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from math import log as ln
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from arena_kit.battle_log import BattleLog
from arena_kit.rating.base import (
    MIN_QUESTIONS,
    Rating,
    RatingError,
    Ratings,
    check_kept,
    kinds,
    known,
    questions_seen,
    scores,
)

Floats = NDArray[np.float64]

_NORMAL_95 = 1.959963984540054
_MOST_STEPS = 100
_TOLERANCE = 1e-11
_CHUNK = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class BradleyTerry:
    """Maximum-likelihood strengths: a beats b with odds 10^((rating_a - rating_b) / scale).

    The order of battles plays no part. A tie is half a win for each side. The interval is
    the robust (sandwich) one, clustered by question: battles on one question share that
    question, and counting them as independent claims more certainty than there is.

    Parameters
    ----------
    scale
        The rating gap at which the odds are 10:1.
    center, baseline
        The mean rating of all models; or, where a `baseline` model is named, its rating.
    prior
        Wins added to each side of every pair that met. Half a win keeps a model that never
        lost finite; 0 is plain maximum likelihood, which then has no answer.
    both_bad
        A both-bad vote counts as a `tie`, or is left out (`exclude`).
    inconsistent
        A judgment whose two orders disagree counts as a `tie`, or is left out (`drop`).
    """

    scale: float = 400.0
    center: float = 1000.0
    baseline: str = ""
    prior: float = 0.5
    both_bad: Literal["tie", "exclude"] = "tie"
    inconsistent: Literal["tie", "drop"] = "drop"

    def __post_init__(self) -> None:
        for name, holds, allowed in (
            ("scale", 0 < self.scale < float("inf"), "a finite number above 0"),
            ("center", abs(self.center) < float("inf"), "a finite number"),
            ("prior", 0 <= self.prior < float("inf"), "a finite number, 0 or more"),
            ("both_bad", self.both_bad in ("tie", "exclude"), "'tie' or 'exclude'"),
            ("inconsistent", self.inconsistent in ("tie", "drop"), "'tie' or 'drop'"),
        ):
            if not holds:
                raise ValueError(f"{name} must be {allowed}, not {getattr(self, name)!r}")

    def __call__(self, battles: BattleLog) -> Ratings:
        """Rate a log; raises `RatingError` where no rating exists."""
        log, dropped = self._kept(battles)
        check_kept(battles, log, dropped)
        if self.baseline and self.baseline not in log.models:
            raise RatingError(
                f"baseline {self.baseline!r} has no battle; models: {', '.join(log.models)}"
            )
        wins = _wins(log)
        if not self.prior:
            _check_separation(log.models, wins)
        wins = wins + self.prior * ((wins + wins.T) > 0)
        strength = _fitted(wins)
        covariance = _covariance(log, strength, wins)
        return Ratings(
            method="bradley-terry",
            settings=asdict(self),
            ratings=self._ranked(log, strength, covariance),
            n_battles=round(log.weights().sum()),
            dropped=dropped,
            models=log.models,
            traces=np.empty((0, len(log.models))),
            replicates=np.empty((0, len(log.models))),
        )

    def _kept(self, battles: BattleLog) -> tuple[BattleLog, dict[str, int]]:
        masks = kinds(battles)
        out = {
            "both_bad": masks["both_bad"] & (self.both_bad == "exclude"),
            "inconsistent": masks["inconsistent"] & (self.inconsistent == "drop"),
        }
        dropped = {"tie": 0, **{kind: int(mask.sum()) for kind, mask in out.items()}}
        return battles.select(~(out["both_bad"] | out["inconsistent"])), dropped

    def _ranked(
        self, log: BattleLog, strength: Floats, covariance: Floats | None
    ) -> tuple[Rating, ...]:
        """Ratings with intervals of what is shown: the distance to the mean or the baseline."""
        n = len(log.models)
        contrast = np.eye(n) - 1 / n
        if self.baseline:
            contrast = np.eye(n)
            contrast[:, log.models.index(self.baseline)] -= 1
        unit = self.scale / ln(10)
        rating = self.center + unit * contrast @ strength
        se = np.full(n, np.nan)
        if covariance is not None:
            se = unit * np.sqrt(
                np.maximum(0, np.einsum("ij,jk,ik->i", contrast, covariance, contrast))
            )
            se[_evidence(log) < MIN_QUESTIONS] = np.nan
        half = _NORMAL_95 * se
        low, high = rating - half, rating + half
        counts = np.bincount(np.concatenate([log.a, log.b]), np.tile(log.weights(), 2), n)
        rows = [
            Rating(
                model=model,
                rating=float(rating[i]),
                ci_low=known(low[i]),
                ci_high=known(high[i]),
                n_battles=round(counts[i]),
                extra={"se": known(se[i])},
            )
            for i, model in enumerate(log.models)
        ]
        return tuple(sorted(rows, key=lambda row: (-row.rating, row.model)))


def _wins(log: BattleLog) -> Floats:
    """Weighted wins of each model (row) over each other (column), a tie half for both."""
    n = len(log.models)
    score, weight = scores(log), log.weights()
    cell = log.a.astype(np.int64) * n + log.b
    forward = np.bincount(cell, weight * score, n * n).reshape(n, n)
    backward = np.bincount(cell, weight * (1 - score), n * n).reshape(n, n)
    wins: Floats = (forward + backward.T).astype(float)
    return wins


def _fitted(wins: Floats) -> Floats:
    """Strengths in natural units, mean 0: Newton's method on the pair counts."""
    n = len(wins)
    games = wins + wins.T
    won = wins.sum(axis=1)
    strength = np.zeros(n)
    for _ in range(_MOST_STEPS):
        p = _chances(strength)
        gradient = won - (games * p).sum(axis=1)
        step = np.linalg.solve(_information(games, p) + 1 / n, gradient)
        strength += step * min(1.0, 4.0 / max(np.abs(step).max(), 1e-300))
        if np.abs(step).max() < _TOLERANCE:
            centred: Floats = strength - strength.mean()
            return centred
    raise RatingError("the strengths did not settle; set a prior above 0")


def _chances(strength: Floats) -> Floats:
    """How likely each model (row) is to beat each other (column)."""
    gap = strength[:, None] - strength[None, :]
    chance: Floats = 1 / (1 + np.exp(-gap))
    return chance


def _information(games: Floats, p: Floats) -> Floats:
    """The curvature of the log-likelihood: a Laplacian of the pairs' weights."""
    weight = games * p * (1 - p)
    found: Floats = np.diag(weight.sum(axis=1)) - weight
    return found


def _covariance(log: BattleLog, strength: Floats, wins: Floats) -> Floats | None:
    """The sandwich covariance of the strengths, clustered by question; None where there is
    only one question.
    """
    n_clusters = _total(log)
    if n_clusters < 2:
        return None
    n = len(strength)
    p = _chances(strength)
    bread = np.linalg.inv(_information(wins + wins.T, p) + 1 / n)
    residual = scores(log) - p[log.a, log.b]
    meat = _meat_of_questions(log, residual) if log.question_id else _meat_of_votes(log, residual)
    covariance: Floats = bread @ meat @ bread * (n_clusters / (n_clusters - 1))
    return covariance


def _total(log: BattleLog) -> float:
    """How many independent pieces of evidence there are: questions, or votes without one."""
    if log.question_id is None:
        return float(log.weights().sum())
    return float(log.clusters().max()) + 1


def _meat_of_votes(log: BattleLog, residual: Floats) -> Floats:
    """Votes without a question stand for themselves; a weight says how many there were."""
    n = len(log.models)
    cell = log.a.astype(np.int64) * n + log.b
    square = np.bincount(cell, log.weights() * residual**2, n * n).reshape(n, n)
    square = square + square.T
    meat: Floats = np.diag(square.sum(axis=1)) - square
    return meat


def _meat_of_questions(log: BattleLog, residual: Floats) -> Floats:
    """The sum over questions of the outer product of their scores."""
    n, clusters, weighted = len(log.models), log.clusters(), log.weights() * residual
    order = np.argsort(clusters, kind="stable")
    edges = np.searchsorted(clusters[order], np.arange(0, clusters.max() + 1 + _CHUNK, _CHUNK))
    meat = np.zeros((n, n))
    for start, end in pairwise(edges):
        some = order[start:end]
        row = (clusters[some] % _CHUNK).astype(np.int64) * n
        cells = np.concatenate([row + log.a[some], row + log.b[some]])
        values = np.concatenate([weighted[some], -weighted[some]])
        scores = np.bincount(cells, values, _CHUNK * n).reshape(_CHUNK, n)
        meat += scores.T @ scores
    return meat


def _check_separation(models: tuple[str, ...], wins: Floats) -> None:
    """Refuse models of which one group never lost to the others: no finite rating exists."""
    reach = (wins > 0) | np.eye(len(models), dtype=bool)
    while True:
        further = (reach.astype(np.float64) @ reach.astype(np.float64)) > 0
        if np.array_equal(further, reach):
            break
        reach = further
    above = ~reach.T  # above[i, j]: j never beat i, not even through others
    if above.any():
        top = int(np.argmax(above.sum(axis=1)))
        group = [m for m, lost in zip(models, reach[:, top], strict=True) if lost]
        raise RatingError(
            f"{', '.join(sorted(group)[:5])} never lost to the other models, directly or through "
            "others, so no finite rating exists; set a prior above 0"
        )


def _evidence(log: BattleLog) -> Floats:
    """On how many questions each model was seen, or in how many votes where there are none."""
    n = len(log.models)
    if log.question_id is not None:
        return questions_seen(log.a, log.b, log.clusters(), n).astype(float)
    votes = np.bincount(np.concatenate([log.a, log.b]), np.tile(log.weights(), 2), n)
    return votes.astype(float)
