"""Which calls of a tournament to make next, so that its order is decided with few of them.

A call is one pair of models on one prompt in one order. Each round looks at the neighbours of the
ranking so far: those that are decided, equivalent or hopeless get no more calls; for the open ones,
the calls are chosen that most reduce the variance of their gap, be it through other models: new
prompts in one order, or the second order of a pair, whichever tells more. Every two models are
shown in either order equally often, so that position bias cancels.
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
Ints = NDArray[np.int64]
Calls = NDArray[np.bool_]
Standing = Literal["decided", "equivalent", "hopeless", "unresolved"]

#: Steps in which a round is filled: after each, the information is counted anew.
_STEPS = 40
#: The correlation between the orders of a pair that is assumed, and the residual sum of squares, of
#: some ten pairs, that it is worth.
_TYPICAL, _ASSUMED = 0.4, 2.0


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
            return "unresolved"
        between = self.neighbours[order.index(above) : order.index(below)]
        if len(between) == 1:
            return between[0].standing
        return "decided" if any(pair.standing == "decided" for pair in between) else "unresolved"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        known = self.ratings and [row.as_dict() for row in self.ratings.ratings]
        pairs = [pair._asdict() for pair in self.neighbours]
        return {"round": self.number, "calls": self.calls, "ratings": known, "neighbours": pairs}


@dataclass(frozen=True, slots=True)
class Table:
    """All calls of a tournament, by pair of `models` (in name order), prompt and order: in the
    first one, the model that comes first by name is shown first.

    `possible` marks the calls that can be made, `made` those that were; `shares` has what each
    gave the model that comes first by name (1, 0 or a part of a win), NaN for no verdict; `strata`
    has a number for the stratum of each prompt.
    """

    models: tuple[str, ...]
    possible: Calls
    made: Calls
    shares: Floats
    strata: Ints | None = None

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The two models of each row, as places in `models`."""
        return list(combinations(range(len(self.models)), 2))

    @property
    def left(self) -> Calls:
        """Pairs and prompts that can still be asked about: in a first order, and in a second."""
        free, begun = (self.possible & ~self.made).any(axis=2), self.made.any(axis=2)
        return np.stack([free & ~begun, free & begun])

    def by_model(self, calls: Calls) -> Ints:
        """In how many of some calls each model is shown, by prompt."""
        own = np.zeros((len(self.models), len(self.pairs)), np.int64)
        own[np.array(self.pairs).T, np.arange(len(self.pairs))] = 1
        return np.asarray(own @ calls.sum(axis=2))

    def expected(self, ratings: Ratings) -> Floats:
        """The win share of the first model of each pair."""
        if ratings.models != self.models:
            raise ValueError(f"ratings of {ratings.models}, calls of {self.models}")
        rating, (low, high) = ratings.values(self.models), np.array(self.pairs).T
        odds = np.exp((rating[high] - rating[low]) * ln(10) / ratings.settings["scale"])
        return np.asarray(1 / (1 + odds))

    def second_worth(self, ratings: Ratings) -> float:
        """What a second order tells, as a part of what a new prompt does: (1 - r) / (1 + r), r the
        correlation between the orders of a pair, of what the ratings do not explain.
        """
        row, prompt = np.nonzero(~np.isnan(self.shares).any(axis=2))
        one, other = (self.shares[row, prompt] - self.expected(ratings)[row, None]).T
        r = (one @ other + _TYPICAL * _ASSUMED) / ((one @ one + other @ other) / 2 + _ASSUMED)
        return float((1 - r) / (1 + r))


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
    hopeless_below: Annotated[float, Field(ge=0, lt=1)] = 0.12
    seed: Annotated[int, Field(ge=0)] = 0

    def first(self, table: Table) -> Calls:
        """The first round: every pair of models equally often, but for one prompt, in both orders
        and on prompts that are spread; each model on as many as an interval needs.
        """
        prompts = table.possible.any(axis=2).sum(axis=1)
        least = 0.75 * MIN_QUESTIONS * len(table.models)  # half as many again, two models a pair
        each, more = divmod(ceil(max(least, self.first_share * prompts.sum())), len(prompts))
        rng = np.random.default_rng([self.seed, int(table.made.sum())])
        counts = each + (rng.permutation(len(prompts)) < more)
        chosen = self._calls(table, np.stack([counts, 0 * counts]))
        return table.possible & ~table.made & chosen.any(axis=2, keepdims=True)

    def neighbours(self, table: Table, ratings: Ratings) -> list[Neighbours]:
        """The neighbours of a ranking (a Bradley–Terry fit to what was made), best first; `claims`
        says which of them are decided, whatever the round.
        """
        worth = _worth(table, ratings)
        before, full = (
            covariance(_information(table, _evidence(worth, calls)))
            for calls in (table.made, table.possible)
        )
        states = {(p.above, p.below): p.state for p in claims.neighbours(ratings, self.margin)}
        errors, (low, high) = claims.gap_errors(ratings), claims.neighbour_gaps(ratings)
        prompts = (table.by_model(table.possible) > 0).sum(axis=1)
        found = []
        for above, below in pairwise(ratings.order):
            i, j = ratings.models.index(above), ratings.models.index(below)
            gap = ratings[above].rating - ratings[below].rating
            shrinks = min(1.0, gap_variance(full, i, j) / gap_variance(before, i, j))
            chance = chance_decided(gap, float(errors[i, j]) ** 2, shrinks, claims.looks(ratings))
            state = states.get((above, below), "unresolved")
            never = shrinks == 1 or min(prompts[[i, j]]) < MIN_QUESTIONS
            hopeless = state == "unresolved" and (chance < self.hopeless_below or never)
            chance = 1.0 if state == "decided" else chance
            standing: Standing = "hopeless" if hopeless else state
            ends = known(low[i, j]), known(high[i, j])
            found.append(Neighbours(above, below, gap, *ends, standing, chance))
        return found

    def next(self, table: Table, ratings: Ratings) -> Calls:
        """The calls of the next round; none when no neighbours are open."""
        n = len(table.models)
        place = {model: i for i, model in enumerate(table.models)}
        unit, pairs = np.eye(n), self.neighbours(table, ratings)
        unresolved = [pair for pair in pairs if pair.standing == "unresolved"]
        targets = [unit[place[pair.above]] - unit[place[pair.below]] for pair in unresolved]
        if not targets:
            return np.zeros_like(table.made)
        size = max(n, round(self.round_share * table.possible.sum()))
        return self._calls(table, self._allotted(table, ratings, targets, size))

    def _allotted(
        self, table: Table, ratings: Ratings, targets: Sequence[Floats], size: int
    ) -> Ints:
        """How many calls each pair of models gets on new prompts, and how many in a second order:
        in turn, each target takes the calls that reduce the variance of its gap most.
        """
        worth, left = _worth(table, ratings), table.left.sum(axis=2)
        low, high = np.array(table.pairs).T
        rows = np.arange(len(low))
        known_so_far = _information(table, _evidence(worth, table.made))
        allotted = np.zeros_like(left)
        turn, step = 0, max(1, size // _STEPS)
        while allotted.sum() < min(size, left.sum()):
            spread = covariance(known_so_far)
            moved = spread[:, low] - spread[:, high]
            own = moved[low, rows] - moved[high, rows]
            gain = (targets[turn % len(targets)] @ moved) ** 2 * worth / (1 + worth * own)
            best = np.unravel_index(np.argmax(np.where(allotted < left, gain, -1)), gain.shape)
            count = min(step, left[best] - allotted[best], size - allotted.sum())
            allotted[best] += count
            known_so_far += _information(table, np.where(rows == best[1], worth[best] * count, 0.0))
            turn += 1
        return np.asarray(allotted, np.int64)

    def _calls(self, table: Table, counts: Ints) -> Calls:
        """So many calls of each pair of models, on new prompts and in a second order: on the
        prompts on which the two were shown least, spread over strata. Each prompt is asked in the
        order that is free, or in both in turn, the second one first where the first leads.
        """
        chosen, left, shown = np.zeros_like(table.made), table.left, table.by_model(table.made)
        rng, pairs = np.random.default_rng([self.seed, int(table.made.sum())]), table.pairs
        for kind, row in np.argwhere(counts):
            prompts = np.flatnonzero(left[kind, row])
            often = shown[np.ix_(pairs[row], prompts)].sum(axis=0)
            prompts = prompts[np.lexsort((_evenly(rng, table.strata, prompts), often))]
            single = table.made[row][table.made[row].sum(axis=1) == 1].sum(axis=0)
            lead = single[0] - single[1] or rng.choice([-1, 1])
            free = table.possible[row, prompts] & ~table.made[row, prompts]
            both = (np.arange(len(free)) + (lead > 0)) % 2
            order = np.where(free.all(axis=1), both, free.argmax(axis=1))
            turn = np.where(order, np.cumsum(order), np.cumsum(1 - order))
            taken = np.argsort(turn, kind="stable")[: counts[kind, row]]
            chosen[row, prompts[taken], order[taken]] = True
            shown[np.ix_(pairs[row], prompts[taken])] += 1
        return chosen


def _evenly(rng: np.random.Generator, strata: Ints | None, prompts: Ints) -> Floats:
    """Random numbers whose order takes prompts of each stratum in proportion."""
    drawn = rng.random(len(prompts))
    if strata is None:
        return drawn
    order = np.lexsort((drawn, strata[prompts]))
    _, first, which, sizes = np.unique(
        strata[prompts][order], return_index=True, return_inverse=True, return_counts=True
    )
    place = np.arange(len(prompts)) - first[which]
    out = np.empty(len(prompts))
    out[order] = (place + drawn[order]) / sizes[which]
    return out


def _worth(table: Table, ratings: Ratings) -> Floats:
    """The information that calls of each pair add, on a new prompt and in a second order: p (1 - p)
    and a part of it, less what calls gave no battle.
    """
    p = table.expected(ratings)
    counted = min(1.0, ratings.n_battles / table.made.any(axis=2).sum())
    return np.outer([1.0, table.second_worth(ratings)], counted * p * (1 - p))


def _evidence(worth: Floats, calls: Calls) -> Floats:
    """The information of some calls of each pair."""
    orders = np.stack([calls.any(axis=2).sum(axis=1), calls.all(axis=2).sum(axis=1)])
    return np.asarray((worth * orders).sum(axis=0))


def _information(table: Table, weights: Floats) -> Floats:
    """The information matrix of strengths, from the information of each pair."""
    low, high = np.array(table.pairs).T
    matrix = np.zeros((len(table.models),) * 2)
    matrix[low, high] = matrix[high, low] = weights
    return information(matrix)
