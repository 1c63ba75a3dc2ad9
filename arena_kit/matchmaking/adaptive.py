"""Which calls of a tournament to make next, so that its order is decided with few of them.

A call is one pair of models on one prompt. Each round looks at the neighbours of the ranking so
far: those that are decided, equivalent or hopeless get no more calls; for the open ones, the calls
are chosen that most reduce the variance of their gap, be it through other models.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from math import ceil
from math import log as ln
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as settings

from arena_kit.policy.constants import STRICT, NonNegative
from arena_kit.rating.base import MIN_QUESTIONS, Ratings, known
from arena_kit.rating.claims import claims
from arena_kit.rating.claims.power import chance_decided, covariance, gap_variance, information

Floats = NDArray[np.float64]
Calls = NDArray[np.bool_]
Standing = Literal["decided", "equivalent", "hopeless", "open"]

#: Steps in which a round is filled: after each, the information is counted anew.
_STEPS = 40


class Neighbours(NamedTuple):
    """Two models next to each other in a ranking, and what can be said of their order.

    `low` and `high` are the interval of their gap at the level that decides neighbours, None where
    there is too little evidence. `chance` is how probable it is, by what was seen so far, that
    making every call that is left would decide them.
    """

    above: str
    below: str
    gap: float
    low: float | None
    high: float | None
    standing: Standing
    chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What was known after a round: ratings (None where none exist yet), what can be said of
    neighbours, and how many calls had been made in all.
    """

    number: int
    calls: int
    ratings: Ratings | None = field(repr=False)
    neighbours: tuple[Neighbours, ...]

    def standing(self, above: str, below: str) -> Standing:
        """What could be said then of two models, neighbours or not: those in between count."""
        order = [pair.above for pair in self.neighbours]
        order += [self.neighbours[-1].below] if order else []
        if not order or order.index(above) > order.index(below):
            return "open"
        between = self.neighbours[order.index(above) : order.index(below)]
        if len(between) == 1:
            return between[0].standing
        return "decided" if any(pair.standing == "decided" for pair in between) else "open"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        known = self.ratings and [row.as_dict() for row in self.ratings.ratings]
        pairs = [pair._asdict() for pair in self.neighbours]
        return {"round": self.number, "calls": self.calls, "ratings": known, "neighbours": pairs}


@dataclass(frozen=True, slots=True)
class Table:
    """All calls of a tournament: a row per pair of `models` (in name order), a column per prompt.

    `possible` marks those that can be made, `made` those that were.
    """

    models: tuple[str, ...]
    possible: Calls
    made: Calls

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The two models of each row, as places in `models`."""
        return list(combinations(range(len(self.models)), 2))

    @property
    def left(self) -> Calls:
        """The calls that can still be made."""
        return self.possible & ~self.made


@settings(frozen=True, slots=True, kw_only=True, config=STRICT)
class AdaptiveRounds:
    """How a tournament is judged in rounds.

    Parameters
    ----------
    margin
        Neighbours whose gap surely lies within so many points are equivalent; 0: none are.
    first_share, round_share
        How many of all calls the first round makes, and each later one.
    hopeless_below
        The chance of being decided by all calls below which neighbours get no more of them.
    seed
        Which prompts are taken first.
    """

    margin: NonNegative = 0.0
    first_share: Annotated[float, Field(gt=0, le=1)] = 0.05
    round_share: Annotated[float, Field(gt=0, le=1)] = 0.03
    hopeless_below: Annotated[float, Field(ge=0, lt=1)] = 0.2
    seed: Annotated[int, Field(ge=0)] = 0

    def first(self, table: Table) -> Calls:
        """The first round: every pair equally often, on prompts that are spread, and each model
        on as many as an interval needs.
        """
        n = len(table.models)
        least = ceil(MIN_QUESTIONS / (n - 1)) + 1
        each = max(least, round(self.first_share * table.possible.shape[1]))
        made = np.zeros_like(table.made)
        for row in range(len(made)):
            self._take(made, row, each, table)
        return made

    def neighbours(self, table: Table, ratings: Ratings) -> list[Neighbours]:
        """The neighbours of a ranking (a Bradley–Terry fit to what was made), best first; `claims`
        says which of them are decided, whatever the round.
        """
        worth = _worth(table, ratings)
        before = covariance(_information(table, worth * table.made.sum(axis=1)))
        full = covariance(_information(table, worth * table.possible.sum(axis=1)))
        states = {(p.above, p.below): p.state for p in claims.neighbours(ratings, self.margin)}
        errors, (low, high) = claims.gap_errors(ratings), claims.neighbour_gaps(ratings)
        found = []
        for above, below in pairwise(ratings.order):
            i, j = ratings.models.index(above), ratings.models.index(below)
            gap = ratings[above].rating - ratings[below].rating
            shrinks = min(1.0, gap_variance(full, i, j) / gap_variance(before, i, j))
            chance = chance_decided(gap, float(errors[i, j]) ** 2, shrinks, claims.looks(ratings))
            state = states.get((above, below), "open")
            hopeless = state == "open" and (chance < self.hopeless_below or shrinks == 1)
            chance = 1.0 if state == "decided" else chance
            standing: Standing = "hopeless" if hopeless else state
            ends = known(low[i, j]), known(high[i, j])
            found.append(Neighbours(above, below, gap, *ends, standing, chance))
        return found

    def next(self, table: Table, ratings: Ratings) -> Calls:
        """The calls of the next round; none when no neighbours are open."""
        n, made = len(table.models), np.zeros_like(table.made)
        place = {model: i for i, model in enumerate(table.models)}
        targets = []
        for pair in self.neighbours(table, ratings):
            if pair.standing == "open":
                contrast = np.zeros(n)
                contrast[place[pair.above]], contrast[place[pair.below]] = 1, -1
                targets.append(contrast)
        if targets:
            size = max(len(table.pairs), round(self.round_share * table.possible.sum()))
            for row, count in enumerate(self._allotted(table, ratings, targets, size)):
                self._take(made, row, count, table)
        return made

    def _allotted(
        self, table: Table, ratings: Ratings, targets: Sequence[Floats], size: int
    ) -> NDArray[np.int64]:
        """How many calls each pair gets: in turn, each target takes the pair whose calls reduce
        the variance of its gap most.
        """
        worth, left = _worth(table, ratings), table.left.sum(axis=1)
        low, high = np.array(table.pairs).T
        rows = np.arange(len(low))
        known_so_far = _information(table, worth * table.made.sum(axis=1))
        allotted = np.zeros_like(left)
        turn, step = 0, max(1, size // _STEPS)
        while allotted.sum() < min(size, left.sum()):
            spread = covariance(known_so_far)
            moved = spread[:, low] - spread[:, high]
            own = moved[low, rows] - moved[high, rows]
            gain = (targets[turn % len(targets)] @ moved) ** 2 * worth / (1 + worth * own)
            best = int(np.argmax(np.where(allotted < left, gain, -1)))
            count = min(step, left[best] - allotted[best], size - allotted.sum())
            allotted[best] += count
            known_so_far += _information(table, np.where(rows == best, worth * count, 0.0))
            turn += 1
        return np.asarray(allotted, np.int64)

    def _take(self, made: Calls, row: int, count: int, table: Table) -> None:
        """Mark `count` calls of a pair, on the prompts that were used least."""
        left = np.flatnonzero(table.left[row])
        rng = np.random.default_rng([self.seed, row, int(table.made.sum())])
        used = (table.made.sum(axis=0) + made.sum(axis=0))[left]
        made[row, left[np.lexsort((rng.random(len(left)), used))[:count]]] = True


def _worth(table: Table, ratings: Ratings) -> Floats:
    """The information that a call of each pair adds: p (1 - p), less what calls gave no battle."""
    if ratings.models != table.models:
        raise ValueError(f"ratings of {ratings.models}, calls of {table.models}")
    rating = ratings.values(table.models)
    low, high = np.array(table.pairs).T
    p = 1 / (1 + np.exp((rating[high] - rating[low]) * ln(10) / ratings.settings["scale"]))
    counted = min(1.0, ratings.n_battles / table.made.sum())
    return np.asarray(counted * p * (1 - p), float)


def _information(table: Table, weights: Floats) -> Floats:
    """The information matrix of strengths, from the information of each pair."""
    low, high = np.array(table.pairs).T
    matrix = np.zeros((len(table.models),) * 2)
    matrix[low, high] = matrix[high, low] = weights
    return information(matrix)
