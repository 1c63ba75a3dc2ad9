"""What the votes so far decide: the neighbours at the top that are open, and what it would take.

The votes are counted by pair and outcome, and Bradley–Terry is fitted to them anew every so many
votes, always at the same ones: an arena opened again on its votes sees what one that went on sees.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import log as ln
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import B_WINS, BOTH_BAD, OUTCOMES, TIE
from arena_kit.battles.log import BattleLog, Labels
from arena_kit.policy.constants import LOOKS, Policy
from arena_kit.policy.exposure import Bools, Counts, Floats, Numbers
from arena_kit.rating.base import Ratings, rated_or_none
from arena_kit.rating.bradley_terry.clusters import CLAIMS_ABOUT
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.claims import claims
from arena_kit.rating.claims.power import chance_decided

_MANY = 100_000  # votes of one pair beyond any arena


class Cast(NamedTuple):
    """A vote as it was cast, in numbers: both models, the prompt (-1: none) and the outcome. What
    tells nothing of the two, both-bad or contradictory, has the outcome both-bad.
    """

    first: int
    second: int
    prompt: int
    outcome: int


class OpenPair(NamedTuple):
    """Two neighbours whose order is open, by number.

    `gap` ± `half` is the interval at the level that decides neighbours; `more` is how many votes
    between the two would decide them if the gap stays as it is.
    """

    above: int
    below: int
    gap: float
    half: float
    more: float

    @property
    def reason(self) -> str:
        """Why the two should meet."""
        known = self.more < _MANY
        votes = f"about {float(f'{self.more:.2g}'):,.0f}" if known else f"over {_MANY:,}"
        gap = f"gap {self.gap:.0f} ± {self.half:.0f}"
        return f"unresolved adjacent pair, {gap}; {votes} more votes decide it"


class _Fit(NamedTuple):
    """What the last fit says: models with an interval, best first, and what holds of each two."""

    order: Numbers
    gap: Floats
    error: Floats
    settled: Bools
    worth: Floats


class OpenNeighbours:
    """The votes so far, and which neighbours at the top they leave open."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._cluster = CLAIMS_ABOUT[policy.claims_about][-1]
        self._counts: Counter[Cast] = Counter()
        self._votes = 0
        self._fit: _Fit | None = None

    def add(self, votes: Sequence[Cast] | Counts) -> None:
        """Count votes in their order, a row each, and look at them when it is time; if a lane is to
        use it.
        """
        if not self._policy.decide_share:
            return
        rows = np.asarray(votes, np.int64).reshape(-1, len(Cast._fields))
        every = self._policy.decide.refresh
        cut = max(0, (self._votes + len(rows)) // every * every - self._votes)
        if cut:
            self._count(rows[:cut])
            self._fit = self._refit()
        if cut < len(rows):
            self._count(rows[cut:])

    def open_pairs(self, enabled: Bools) -> list[OpenPair]:
        """The open neighbours among the best of these models, closest to being decided first."""
        if self._fit is None:
            return []
        top = self._fit.order[enabled[self._fit.order]][: self._policy.contenders.band]
        found = [self._open(self._fit, *two) for two in pairwise(top.tolist())]
        return sorted((pair for pair in found if pair), key=lambda pair: pair.more)

    def _open(self, fit: _Fit, above: int, below: int) -> OpenPair | None:
        """Two neighbours, None where they are decided or equivalent, or hopeless; or where votes
        that all say the same tell nothing of their spread.
        """
        rule, at, level = self._policy.decide, (above, below), claims.neighbour_score(LOOKS)
        gap, variance, worth = float(fit.gap[at]), float(fit.error[at]) ** 2, fit.worth[at]
        if fit.settled[at] or not variance > 0:
            return None
        shrinks = 1 / (1 + rule.reach * worth * variance)
        if chance_decided(gap, variance, shrinks, LOOKS) < rule.hopeless_below:
            return None
        needed = (level / gap) ** 2 if gap > 0 else np.inf
        more = max(1.0, (needed - 1 / variance) / worth)
        return OpenPair(above, below, gap, level * sqrt(variance), more)

    def _count(self, votes: Counts) -> None:
        self._votes += len(votes)
        first, second, prompt, outcome = votes.T
        low, high = np.minimum(first, second), np.maximum(first, second)
        winner = np.where((first > second) & (outcome <= B_WINS), 1 - outcome, outcome)
        asked = 1 + (prompt if self._cluster == "question" else np.full(len(votes), -1))
        shape = (1 + int(high.max()),) * 2 + (1 + int(asked.max()), len(OUTCOMES))
        codes, times = np.unique(
            np.ravel_multi_index((low, high, asked, winner), shape), return_counts=True
        )
        columns = (each.tolist() for each in (*np.unravel_index(codes, shape), times))
        for i, j, cluster, won, n in zip(*columns, strict=True):
            self._counts[Cast(i, j, cluster - 1, won)] += n

    def _refit(self) -> _Fit | None:
        """What the votes say now, None where they give no ratings."""
        counted = sorted((each, n) for each, n in self._counts.items() if each.outcome != BOTH_BAD)
        if not counted:
            return None
        log = _log(np.array([(*each, n) for each, n in counted], np.int64))
        ratings = rated_or_none(BradleyTerry(cluster=self._cluster, looks=LOOKS), log)
        if ratings is None:
            return None
        ties = float(log.weights()[log.outcome == TIE].sum()) / ratings.n_battles
        return _fit_of(ratings, self._policy, ties, ratings.n_battles / self._votes)


def _log(cells: Counts) -> BattleLog:
    """Votes as rows of models, prompt, outcome and number, under names that are their numbers."""
    first, second, prompt, outcome, times = cells.T
    names = [None if each < 0 else f"{each:06d}" for each in prompt.tolist()]
    return BattleLog(
        models=tuple(f"{i:06d}" for i in range(1 + int(second.max()))),
        a=first.astype(np.int32), b=second.astype(np.int32), outcome=outcome.astype(np.int8),
        weight=times.astype(float), question_id=Labels.of(names) if any(names) else None,
    )  # fmt: skip


def _fit_of(ratings: Ratings, policy: Policy, ties: float, counted: float) -> _Fit:
    """What ratings say of every two models; `ties` of the votes that count are ties, and so many
    of all votes are `counted`.
    """
    numbers = np.array([int(model) for model in ratings.models])
    n = 1 + int(numbers.max())
    known = [int(row.model) for row in ratings.ratings if row.placed]
    rating = ratings.values()
    gap = rating[:, None] - rating[None, :]
    unit = ln(10) / ratings.settings["scale"]
    spread = 1 / (4 * np.cosh(unit * gap / 2) ** 2)
    worth = counted * unit**2 * spread**2 / np.maximum(spread - ties / 4, 1e-3)
    clear = claims.decided(ratings)
    settled = clear | clear.T | claims.equivalent(ratings, policy.publication.margin)
    tables = (gap, claims.gap_errors(ratings), settled, worth)
    return _Fit(np.array(known, np.intp), *(_spread(each, numbers, n) for each in tables))


def _spread(table: NDArray[Any], numbers: Numbers, n: int) -> NDArray[Any]:
    """A table of some models as one of all."""
    larger = np.zeros((n, n), table.dtype)
    larger[np.ix_(numbers, numbers)] = table
    return larger
