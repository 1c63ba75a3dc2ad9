"""What a planned run is expected to decide: from the battles of an earlier one, or from none.

How sure a gap will be follows from who meets whom how often (the information of Bradley–Terry),
scaled so that it agrees with the standard errors of the earlier battles, or by a design effect that
is assumed. Where the gap will then lie follows from the earlier battles, from how many of these the
planned run repeats, and from how far apart models are in truth: gaps that were estimated from
little are too large, and are shrunk as empirical Bayes does (Efron and Morris 1975).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import isnan, sqrt
from math import log as ln
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from arena_kit.rating.base import MIN_QUESTIONS, Ratings
from arena_kit.rating.claims import claims
from arena_kit.rating.critical_values import t_score

Floats = NDArray[np.float64]

#: Variances where battles share questions, relative to battles that share nothing: assumed where
#: no earlier battles tell. docs/claims.md has what judged sets gave.
DESIGN_EFFECT = 2.5
_LIKELY = NormalDist().inv_cdf(0.8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """Two neighbours of an earlier ranking, the standard error that their gap is expected to have
    after the planned run, and the `chance` that this run decides their order.
    """

    above: str
    below: str
    gap: float
    error: float
    chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Meetings:
    """How often every two models meet, in the order of their names: in the `earlier` battles, in
    the `planned` run, and in both with the same verdicts (`repeated`); and on how many `questions`.
    """

    earlier: Floats
    planned: Floats
    repeated: Floats
    questions: int


def chance_decided(gap: float, variance: float, shrinks: float) -> float:
    """How probable it is that a gap is decided once its variance has shrunk: until then it moves by
    the variance that goes. 1 where nothing is known yet.
    """
    if isnan(variance):
        return 1.0
    bar = claims.neighbour_score() * sqrt(shrinks * variance)
    return chance_beyond(gap, bar, sqrt((1 - shrinks) * variance))


def chance_beyond(gap: float, bar: float, moves: float) -> float:
    """How probable it is that a gap clears the bar, on either side, once it has moved by a normal
    deviate of so many points.
    """
    if not moves:
        return float(abs(gap) > bar)
    after = NormalDist(gap, moves)
    return 1 - after.cdf(bar) + after.cdf(-bar)


def prospects(ratings: Ratings, meetings: Meetings) -> tuple[Prospect, ...]:
    """What a planned run is expected to decide of the neighbours of earlier ratings (a
    Bradley–Terry fit), best first; nothing on fewer questions than an interval needs, or where it
    leaves models apart.
    """
    if meetings.questions < MIN_QUESTIONS or not connected(meetings.planned):
        return ()
    worth = _worth(ratings)
    before, after = (
        covariance(information(worth * met)) for met in (meetings.earlier, meetings.planned)
    )
    both = before @ information(worth * meetings.repeated) @ after
    errors, bar = claims.gap_errors(ratings), _bar(meetings.questions)
    truth = 2 * true_variance(ratings)
    found = []
    for above, below in pairwise(ratings.order):
        i, j = ratings.models.index(above), ratings.models.index(below)
        now = float(errors[i, j]) ** 2
        if np.isnan(now):
            continue
        scale = now / gap_variance(before, i, j)
        then, shared = (scale * gap_variance(each, i, j) for each in (after, both))
        gap = ratings[above].rating - ratings[below].rating
        kept, same = truth / (truth + now), shared / now
        mean = gap * (same + (1 - same) * kept)
        moves = sqrt(max(0.0, (1 - same) ** 2 * kept * now + then - same**2 * now))
        error = sqrt(then)
        chance = chance_beyond(mean, bar * error, moves)
        found.append(Prospect(above=above, below=below, gap=gap, error=error, chance=chance))
    return tuple(found)


def smallest_gaps(planned: Floats, questions: int, scale: float) -> tuple[float, float] | None:
    """The gaps, on a scale of so many points, that a run decides with a chance of 50 and of 80 %
    between models that are otherwise alike; None on too few questions or where models stay apart.
    """
    if questions < MIN_QUESTIONS or not connected(planned):
        return None
    spread = covariance(information(planned / 4))
    n = len(planned)
    typical = 2 * float(np.trace(spread)) / (n - 1)  # the mean variance of a gap over all pairs
    error = scale / ln(10) * sqrt(DESIGN_EFFECT * typical)
    return _bar(questions) * error, (_bar(questions) + _LIKELY) * error


def information(weights: Floats) -> Floats:
    """The information matrix of strengths, from a symmetric matrix of what each pair adds."""
    return np.asarray(np.diag(weights.sum(axis=1)) - weights)


def covariance(matrix: Floats) -> Floats:
    """The covariance of strengths whose mean is fixed, from their information."""
    n = len(matrix)
    return np.asarray(np.linalg.inv(matrix + 1 / n) - 1 / n, float)


def gap_variance(matrix: Floats, i: int, j: int) -> float:
    """The variance of the gap between two models."""
    return float(matrix[i, i] + matrix[j, j] - matrix[i, j] - matrix[j, i])


def true_variance(ratings: Ratings) -> float:
    """How far apart models are in truth, as a variance: that of the ratings, less their errors'."""
    center = np.array([row.rating for row in ratings.ratings])
    given = [row.extra["se"] for row in ratings.ratings]
    squared = np.array([each for each in given if each is not None]) ** 2
    return max(0.0, float(center.var(ddof=1) - squared.mean())) if len(squared) else 0.0


def connected(met: Floats) -> bool:
    """Whether a chain of meetings joins all models."""
    reach = np.linalg.matrix_power((met > 0) + np.eye(len(met)), len(met))
    return bool((reach > 0).all())


def _worth(ratings: Ratings) -> Floats:
    """The information that one battle of each pair adds: p (1 - p)."""
    rating = ratings.values()
    gap = (rating[:, None] - rating[None, :]) * ln(10) / ratings.settings["scale"]
    return np.asarray(1 / (2 + 2 * np.cosh(gap)))


def _bar(questions: int) -> float:
    """What decides two neighbours, in standard errors that rest on so many questions."""
    return float(t_score(claims.neighbour_score(), np.array(questions - 1.0)))
