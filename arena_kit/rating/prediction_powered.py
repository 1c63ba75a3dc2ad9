"""Prediction-powered ratings: people's, without the chance that verdicts on the same battles show.

A judge decided the battles that people voted on, and others. How far its ratings by the former are
from its ratings by the latter is chance, whatever the judge is like; people's ratings share part of
that chance, and it is taken out of them. The scale of the correction is the one that leaves the
least variance (PPI++: Angelopoulos, Duchi and Zrnic 2023), so a useless judge corrects nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import Rating, Ratings, rated_or_none
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.influence import Influence, sandwich

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Powered:
    """People's corrected ratings (`ratings.fit["power"]` is the correction's scale), and how far
    each question moves the judge's ratings by the `same` battles and by the `others`.
    """

    ratings: Ratings
    same: Influence
    others: Influence

    def shared(self, votes: Influence, verdicts: Influence) -> Floats:
        """The covariance of the corrected ratings with the judge's ratings by all verdicts."""
        moved = self.same.shared(verdicts) - self.others.shared(verdicts)
        return votes.shared(verdicts) - self.ratings.fit["power"] * moved


def powered(
    method: BradleyTerry, people: Ratings, votes: BattleLog, verdicts: BattleLog
) -> Powered | None:
    """People's ratings, corrected; None where the verdicts on the same battles, or those on
    others, do not rate all of people's models.
    """
    parts = _parts(votes, verdicts)
    there, elsewhere = (_rated(method, people, part) for part in parts)
    if there is None or elsewhere is None:
        return None
    same, others = Influence.of(parts[0], there), Influence.of(parts[1], elsewhere)
    ours = Influence.of(votes, people)
    joint = ours.shared(same) - ours.shared(others)
    between = same.shared(others)
    noise = sandwich(there) + sandwich(elsewhere) - between - between.T
    power = float(np.clip(np.trace(joint) / np.trace(noise), 0.0, 1.0))
    covariance = sandwich(people) - power * (joint + joint.T) + power**2 * noise
    by = {m: power * (there[m].rating - elsewhere[m].rating) for m in people.models}
    return Powered(_corrected(people, by, covariance, power), same, others)


def _parts(votes: BattleLog, verdicts: BattleLog) -> tuple[BattleLog, BattleLog]:
    """The verdicts on battles that people decided too (the same question and models), and those on
    other battles of the same models.
    """
    voted = {key for key in votes.compared() if key[0] is not None}
    same = np.array([key in voted for key in verdicts.compared()], bool)
    rated = np.isin(np.array(verdicts.models, object), votes.models)
    rows = rated[verdicts.a] & rated[verdicts.b]
    return verdicts.select(same), verdicts.select(rows & ~same)


def _rated(method: BradleyTerry, people: Ratings, part: BattleLog) -> Ratings | None:
    """The ratings by some verdicts; None unless each of people's models has an interval."""
    ratings = rated_or_none(method, part) if part.models == people.models else None
    whole = ratings is not None and all(row.ci_low is not None for row in ratings.ratings)
    return ratings if whole else None


def _corrected(people: Ratings, by: dict[str, float], covariance: Floats, power: float) -> Ratings:
    """People's ratings, each less its correction, with the covariance that is left."""
    se = dict(zip(people.models, np.sqrt(np.maximum(0.0, np.diag(covariance))), strict=True))
    rows = [moved(row, row.rating - by[row.model], float(se[row.model])) for row in people.ratings]
    return replace(
        people,
        method="prediction-powered",
        ratings=tuple(sorted(rows, key=lambda row: (-row.rating, row.model))),
        covariance=covariance,
        fit={"power": power},
    )


def moved(row: Rating, rating: float, se: float) -> Rating:
    """The row at another rating, its interval as much narrower as the standard error is smaller."""
    before = row.extra["se"]
    if row.ci_low is None or row.ci_high is None or not before:
        return replace(row, rating=rating)
    low, high = (rating + (end - row.rating) * se / before for end in (row.ci_low, row.ci_high))
    return replace(row, rating=rating, ci_low=low, ci_high=high, extra=row.extra | {"se": se})
