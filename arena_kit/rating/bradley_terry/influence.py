"""The influence function: how far each question moves Bradley–Terry ratings.

Two ratings that rest on the same questions move together; their covariance is the sum over
questions of what each moves both.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log as ln
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import RatingError, Ratings, scores

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Influence:
    """How far each question moves each rating: `pulls` (questions × models) times `bread`."""

    models: tuple[str, ...]
    questions: dict[str, int]
    pulls: csr_array
    bread: Floats

    @classmethod
    def of(cls, log: BattleLog, ratings: Ratings) -> Influence:
        """The influence of a log's questions on its ratings with ties as half a win."""
        from scipy.sparse import csr_array

        size, unit = len(log.models), ratings.settings["scale"] / ln(10)
        strength = ratings.values(log.models) / unit
        chance = 1 / (1 + np.exp(strength[log.b] - strength[log.a]))
        weight = log.weights()
        pull = weight * (scores(log) - chance)
        rows = np.tile(log.clusters(), 2)
        sides = np.concatenate([log.a, log.b])
        shape = (int(rows.max()) + 1, size)
        curve = np.bincount(log.a * size + log.b, weight * chance * (1 - chance), size * size)
        curve = curve.reshape(size, size)
        curve = curve + curve.T
        laplacian = np.diag(curve.sum(axis=1)) - curve
        return cls(
            models=log.models,
            questions=_questions(log),
            pulls=csr_array((np.concatenate([pull, -pull]), (rows, sides)), shape=shape),
            bread=unit * np.linalg.pinv(laplacian, hermitian=True),
        )

    def shared(self, other: Influence) -> Floats:
        """The covariance of these ratings (rows) with others (columns)."""
        names = sorted(self.questions.keys() & other.questions.keys())
        mine = self.pulls[[self.questions[name] for name in names]]
        theirs = other.pulls[[other.questions[name] for name in names]]
        return np.asarray(self.bread @ (mine.T @ theirs).toarray() @ other.bread)


def _questions(log: BattleLog) -> dict[str, int]:
    """The row of each named question."""
    if log.question_id is None:
        return {}
    rows = dict(zip(log.question_id.codes.tolist(), log.clusters().tolist(), strict=True))
    return {str(log.question_id.names[code]): row for code, row in rows.items() if code >= 0}


def sandwich(ratings: Ratings) -> Floats:
    """The covariance of ratings; raises where their evidence shows none."""
    if ratings.covariance is None or not np.isfinite(ratings.covariance).all():
        raise RatingError("the covariance of ratings needs battles on two questions at least")
    return ratings.covariance
