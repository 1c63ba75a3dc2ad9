"""How firm an order is: what would reverse it (fragility), and what more battles would decide
(power).

**Fragility** is the fewest votes that, taken out or added, would turn an order round. Which votes
hold a gap apart is told by their influence, the derivative of the gap in each vote's weight; how
many of them it takes is found by refits (Broderick, Giordano and Meager 2020 call the first step
AMIP). So every number is one that reverses the order, and one vote less, chosen in the same
way, does not; a cleverer choice might take fewer. Added are votes of one cell that was cast before:
the same pair, the same outcome.

**Power**: how sure a gap will be after a planned run follows from who meets whom how often (the
information of Bradley–Terry), scaled so that it agrees with the standard errors of the earlier
battles, or by a design effect that is assumed. Where the gap will then lie follows from the earlier
battles, from how many of these the planned run repeats, and from how far apart models are in truth
(`forecast`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from math import isnan, sqrt
from math import log as ln
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import MIN_QUESTIONS, RatingError, Ratings, check_kept, components
from arena_kit.rating.bradley_terry.bootstrap import refitted
from arena_kit.rating.bradley_terry.likelihood import TIE_MODELS, Cells, Floats, Pairs, fitted
from arena_kit.rating.bradley_terry.method import BradleyTerry, one_thread
from arena_kit.rating.claims import claims
from arena_kit.rating.claims.claims import Spread, chance_beyond
from arena_kit.rating.critical_values import normal_cdf, span_scores, t_score

_MOST_REFITS = 60
_TIED = 1e-9  # a gap that is rounding
#: Challengers of the first place that are looked at beside the second.
_CHALLENGERS = 3
#: Variances where battles share questions, relative to battles that share nothing: assumed where
#: no earlier battles tell. docs/claims.md has what judged sets gave.
DESIGN_EFFECT = 2.5
_LIKELY = NormalDist().inv_cdf(0.8)
#: Prompts of a study that is planned: on fewer, power is not what formulas say.
_LEAST_PROMPTS, MOST_PROMPTS = 30, 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragile:
    """Two models, and the fewest votes `removed` or `added` that would put `below` first.

    None where no number of them does; `between` is how many votes the two have between them, `of`
    how many there are.
    """

    above: str
    below: str
    removed: int | None
    added: int | None
    between: int
    of: int

    @property
    def sentence(self) -> str:
        """The same in words."""
        ways = [(n, verb) for n, verb in ((self.removed, "removed"), (self.added, "added")) if n]
        if not ways:
            return f"No removal or addition of battles reverses {self.above} over {self.below}."
        first, *more = [f"{n:,} {verb}" for n, verb in ways]
        number, _, verb = first.partition(" ")
        battles = "battle" if number == "1" else "battles"
        changes = " or ".join([f"{number} {battles} {verb}", *more])
        met = f"{self.between:,} between them" if self.between else "they never met"
        return f"Reversing {self.above} over {self.below} needs {changes} ({met})."


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragility:
    """What would change the `first` place, and the order of all `neighbours`, best first."""

    first: Fragile
    neighbours: tuple[Fragile, ...]


def fragility(battles: BattleLog, method: BradleyTerry | None = None) -> Fragility:
    """How many votes the order of a log rests on, under a method with ties as half wins and no
    covariates; raises `RatingError` where no rating exists.
    """
    method = method or BradleyTerry()
    if method.ties != "half" or method.covariates or battles.share_a is not None:
        raise RatingError("fragility needs ties='half', no covariates and no soft outcomes")
    log, dropped = method.kept(battles)
    check_kept(battles, log, dropped)
    if len(log.models) < 2:
        raise RatingError(f"fragility needs two models or more, not {len(log.models)}")
    with one_thread():
        board = _Board(log, method)
        order = np.argsort(-board.fit.strength, kind="stable").tolist()
        pairs = [board.turned(above, below) for above, below in pairwise(order)]
        rivals = [board.turned(order[0], below) for below in board.rivals(order)]
        return Fragility(first=min([pairs[0], *rivals], key=_fewest_votes), neighbours=tuple(pairs))


def _fewest_votes(pair: Fragile) -> float:
    """How many votes an order rests on, one way or the other."""
    return min((n for n in (pair.removed, pair.added) if n is not None), default=float("inf"))


class _Board:
    """A fit, the single votes behind it (a row for each pair and outcome), and their number."""

    def __init__(self, log: BattleLog, method: BradleyTerry) -> None:
        self.models = log.models
        self.votes, self.counts = Cells.summed(log).single_votes()
        self.pairs = Pairs.of(self.votes, len(log.models))
        self.pooled = self.pairs.pooled(self.votes.with_weights(self.counts))
        self.prior = method.priors(self.pooled, self.pairs).always
        cells = self.pooled.and_also(self.prior)
        self.fit = fitted(cells, len(log.models), TIE_MODELS["half"])
        self.inverse, self.slope = self.fit.inverse(), self.fit.terms(self.votes).eta

    def influence(self, above: int, below: int) -> Floats:
        """How much one vote of each row adds to the gap."""
        pull = self.inverse[above] - self.inverse[below]
        return np.asarray((pull[self.votes.a] - pull[self.votes.b]) * self.slope)

    def gap(self, above: int, below: int) -> float:
        return float(self.fit.strength[above] - self.fit.strength[below])

    def guess(self, above: int, below: int) -> float:
        """To first order, how many of the most influential votes make up the gap."""
        most = float(self.influence(above, below).max())
        return self.gap(above, below) / most if most else float("inf")  # ties alone move nothing

    def rivals(self, order: list[int]) -> list[int]:
        """Models below the second that might become first with fewer votes than it."""
        guesses = {below: self.guess(order[0], below) for below in order[1:]}
        near = [below for below in order[2:] if guesses[below] < 2 * guesses[order[1]]]
        return sorted(near, key=guesses.__getitem__)[:_CHALLENGERS]

    def turned(self, above: int, below: int) -> Fragile:
        """The fewest votes that turn one order round."""
        influence, met = self.influence(above, below), self._met(above, below)
        removed = self._removed(above, below, influence)
        if removed is None:  # the most influential may be all that keeps others finite
            removed = self._removed(above, below, np.where(met, influence, 0.0))
        return Fragile(
            above=self.models[above],
            below=self.models[below],
            removed=removed,
            added=self._added(above, below, influence),
            between=round(self.counts[met].sum()),
            of=round(self.counts.sum()),
        )

    def _removed(self, above: int, below: int, influence: Floats) -> int | None:
        """How few of the votes that hold the order, the most influential first, turn it round."""
        rows = np.argsort(-influence, kind="stable")
        rows = rows[influence[rows] > 0]
        if not len(rows):
            return None
        most = np.cumsum(self.counts[rows])
        worth = np.cumsum(self.counts[rows] * influence[rows])

        def left(k: int) -> float:
            taken = np.zeros(len(self.counts))
            taken[rows] = np.clip(k - (most - self.counts[rows]), 0, self.counts[rows])
            return self._gap_after(above, below, -taken)

        gap, limit = self.gap(above, below), int(most[-1]) - 1
        first = int(np.interp(gap, worth, most)) + 1
        return _fewest(left, gap, min(first, limit), limit)

    def _added(self, above: int, below: int, influence: Floats) -> int | None:
        """How few votes of the kind that speaks most against the order turn it round."""
        worst = int(np.argmin(influence))
        if influence[worst] >= 0:
            return None

        def left(k: int) -> float:
            more = np.zeros(len(self.counts))
            more[worst] = k
            return self._gap_after(above, below, more)

        gap = self.gap(above, below)
        first = int(gap / -influence[worst]) + 1
        return _fewest(left, gap, first, 100 * first + 100)

    def _gap_after(self, above: int, below: int, votes: Floats) -> float:
        """The gap with some votes more or fewer, by a refit; NaN where no rating is finite."""
        cells = self._changed(votes)
        if np.any(votes <= -self.counts) and not self._rateable(cells):  # a kind of vote is gone
            return np.nan
        theta = refitted(self.fit, cells, self.inverse)
        return float(theta[above] - theta[below])

    def _rateable(self, cells: Cells) -> bool:
        """Whether everybody took something from everybody, directly or through others (Ford 1957),
        which is told sooner than by a fit that runs away.
        """
        pairs = Pairs.of(cells, len(self.models))
        return not pairs.divided(pairs.pooled(cells), half=True).any()

    def _met(self, one: int, other: int) -> NDArray[np.bool_]:
        """The rows in which two models met."""
        a, b = self.votes.a, self.votes.b
        return np.asarray(((a == one) & (b == other)) | ((a == other) & (b == one)))

    def _changed(self, votes: Floats) -> Cells:
        """The pairs' cells with some votes more or fewer."""
        change = self.pairs.pooled(self.votes.with_weights(votes))
        outcomes = self.pooled.outcomes + change.outcomes
        return replace(self.pooled, outcomes=outcomes).and_also(self.prior)


def _fewest(gap_after: Callable[[int], float], gap: float, guess: int, most: int) -> int | None:
    """The least k, up to `most`, from which the gap is below 0: by secants, as long as no number is
    known that is enough, then by interpolation between it and one that is too small.
    """
    low, low_gap, high, high_gap, rate = 0, gap, 0, np.nan, 0.0
    k = guess
    for _ in range(_MOST_REFITS):
        if not low < k <= most:
            return None
        after = gap_after(k)
        if np.isnan(after):  # so many votes leave no finite rating
            most, k = k - 1, (low + k) // 2
            continue
        if after < -_TIED:
            high, high_gap = k, after
        else:
            rate = (low_gap - after) / (k - low)
            low, low_gap = k, after
        if high and high - low == 1:
            return high
        if high:
            part = low_gap / (low_gap - high_gap)
            k = min(max(low + round(part * (high - low)), low + 1), high - 1)
        else:
            k = low + 1 + (int(1.02 * low_gap / rate) if rate > 0 else low)
            k = most if low < most < k else k
    return None


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


def chance_decided(gap: float, variance: float, shrinks: float, looks: int = 1) -> float:
    """How probable it is that a gap is decided once its variance has shrunk: until then it moves by
    the variance that goes. 1 where nothing is known yet.
    """
    if isnan(variance):
        return 1.0
    bar = claims.neighbour_score(looks) * sqrt(shrinks * variance)
    return chance_beyond(gap, bar, sqrt((1 - shrinks) * variance))


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
    errors, bars = claims.gap_errors(ratings), span_scores(len(ratings.models), claims.level(1))
    likely, found = claims.spread(ratings), []
    for above, below in pairwise(ratings.order):
        i, j = ratings.models.index(above), ratings.models.index(below)
        now = float(errors[i, j]) ** 2
        if np.isnan(now):
            continue
        scale = now / gap_variance(before, i, j)
        then, shared = (scale * gap_variance(each, i, j) for each in (after, both))
        high, low = ratings[above].rating, ratings[below].rating
        error = sqrt(then)
        moved = likely.bar((high + low) / 2, now, error, 1 - shared / now, bars)
        bar = _t(moved, meetings.questions)
        gap, chance = high - low, likely.beyond(high - low, now, then, shared / now, bar * error)
        found.append(Prospect(above=above, below=below, gap=gap, error=error, chance=chance))
    return tuple(found)


class Effect(NamedTuple):
    """What a study expects of one gap: its size in points and the variance that one prompt gives
    it; where a pilot says so, the variance of this size `now` and how models are spread.
    """

    gap: float
    per_prompt: float
    now: float = 0.0
    likely: Spread | None = None

    @classmethod
    def of(cls, ratings: Ratings, above: str, below: str, gap: float | None = None) -> Effect:
        """By a pilot's ratings, which shrink its gap; or a gap assumed, in the pilot's noise."""
        at = ratings.models.index(above), ratings.models.index(below)
        now = claims.variance_now(ratings, at)
        if gap is not None:
            return cls(gap, now * ratings.n_questions)
        seen = ratings[above].rating - ratings[below].rating
        return cls(seen, now * ratings.n_questions, now, claims.spread(ratings))

    @classmethod
    def assumed(cls, gap: float, models: int, scale: float) -> Effect:
        """A gap between models that are otherwise alike and all meet on every prompt."""
        return cls(gap, _typical_variance(1 - np.eye(models), scale))

    def votes(self, scale: float) -> Effect:
        """The same gap by people's votes on this pair, each on a prompt of its own."""
        unit = scale / ln(10)
        return self._replace(per_prompt=unit**2 * (2 + 2 * np.cosh(self.gap / unit)))

    def power(self, prompts: int, share: float) -> float:
        """How probable it is that so many new prompts make the claim with this probability."""
        then = self.per_prompt / prompts
        bar = _t(NormalDist().inv_cdf(share), prompts) * sqrt(then)
        kept = self.likely.kept(self.now) if self.likely else 1.0
        return float(normal_cdf((kept * self.gap - bar) / sqrt(kept * self.now + then)))

    def prompts(self, power: float, share: float) -> int | None:
        """The fewest new prompts with this power, at least thirty; None where none within reach
        has it.
        """
        counts = range(_LEAST_PROMPTS, MOST_PROMPTS)
        step = bisect_left(counts, power, key=lambda n: self.power(n, share))
        return counts[step] if step < len(counts) else None


def smallest_gaps(planned: Floats, questions: int, scale: float) -> tuple[float, float] | None:
    """The gaps, on a scale of so many points, that a run decides with a chance of 50 and of 80 %
    between models that are otherwise alike; None on too few questions or where models stay apart.
    """
    if questions < MIN_QUESTIONS or not connected(planned):
        return None
    error, bar = sqrt(_typical_variance(planned, scale)), _t(claims.neighbour_score(), questions)
    return bar * error, (bar + _LIKELY) * error


def _typical_variance(met: Floats, scale: float) -> float:
    """The mean variance of a gap over all pairs of models that are alike and meet so often."""
    typical = 2 * float(np.trace(covariance(information(met / 4)))) / (len(met) - 1)
    return (scale / ln(10)) ** 2 * DESIGN_EFFECT * typical


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
    return len(np.unique(components(len(met), *np.nonzero(met)))) == 1


def _worth(ratings: Ratings) -> Floats:
    """The information that one battle of each pair adds: p (1 - p)."""
    rating = ratings.values()
    gap = (rating[:, None] - rating[None, :]) * ln(10) / ratings.settings["scale"]
    return np.asarray(1 / (2 + 2 * np.cosh(gap)))


@cache
def _t(bar: float, questions: int) -> float:
    """A normal deviate in standard errors that rest on so many questions."""
    return float(t_score(bar, np.array(questions - 1.0)))
