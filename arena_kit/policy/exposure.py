"""What each model is due of the rolling window (7.1): a share of each matchup since it joined."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.policy.constants import DECIDES, Policy
from arena_kit.policy.feasibility import due_shares

Bools = NDArray[np.bool_]
Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Numbers = NDArray[np.intp]


def aimed_votes(battles: BattleLog) -> Bools:
    """Which votes were to decide two open neighbours, as far as the log names lanes."""
    if battles.lane is None:
        return np.zeros(len(battles), bool)
    return np.asarray(battles.lane.values() == DECIDES)


def joined(first_vote: Counts) -> Counts:
    """How many votes there were before each model joined, as far as its first vote tells.

    A model that is there is soon shown: those whose first vote is among the first two per model
    were there from the start.
    """
    return np.where(first_vote <= 2 * len(first_vote), 0, first_vote)


class Due(NamedTuple):
    """Exposures that a model is due: as near to equal as the lanes allow, and equally."""

    target: float
    equal: float


class Roster:
    """The models that could be met at a time, and the matchups of the window drawn from them.

    `in_band` counts for how many of these matchups each model was a contender. Of `aimed`
    matchups, which decide open neighbours, nobody else is due a share.
    """

    def __init__(self, policy: Policy, present: Bools) -> None:
        self.present = present.copy()
        self.shares = due_shares(policy, int(present.sum()))
        self.matchups = self.aimed = 0
        self.in_band: Counts = np.zeros(len(present), np.int64)

    def add(self, band: Numbers, change: int = 1, *, aimed: bool = False) -> None:
        """Count a matchup and its contenders, or take it back (-1)."""
        self.matchups += change
        if aimed:
            self.aimed += change
        else:
            self.in_band[band] += change

    def target(self, band: Numbers, more: int) -> Floats:
        """Exposures due in these matchups but the aimed ones, and in `more` to come with such
        contenders.
        """
        in_band = self.in_band.astype(float)
        in_band[band] += more
        extra = self.shares.band - self.shares.others
        due = (self.matchups - self.aimed + more) * self.shares.others + in_band * extra
        return np.where(self.present, due, 0.0)

    def equal(self, more: int) -> Floats:
        """Equal shares of these matchups and of `more` to come."""
        return np.where(self.present, (self.matchups + more) * self.shares.equal, 0.0)


class DueWindow:
    """Who could be met and who was a contender in each of the last matchups of the window."""

    def __init__(self, policy: Policy) -> None:
        self._last: deque[tuple[Roster, Numbers, bool]] = deque()
        self._length = policy.exposure.window
        self._rosters: list[Roster] = []

    def __len__(self) -> int:
        return len(self._last)

    @property
    def aimed(self) -> int:
        """How many of these matchups are aimed."""
        return sum(roster.aimed for roster in self._rosters)

    def note(self, roster: Roster, band: Numbers, *, aimed: bool = False) -> None:
        """Count a matchup; the oldest leaves a full window."""
        if len(self._last) == self._length:
            oldest, contenders, was_aimed = self._last.popleft()
            oldest.add(contenders, -1, aimed=was_aimed)
            if not oldest.matchups:
                self._rosters.remove(oldest)
        if not roster.matchups:
            self._rosters.append(roster)
        self._last.append((roster, band, aimed))
        roster.add(band, aimed=aimed)

    def due(
        self, roster: Roster, band: Numbers, more: int = 0, aimed: int = 0
    ) -> tuple[Floats, Floats]:
        """Exposures due to each model in the window and in `more` matchups of today's models and
        contenders, so many of them aimed: lane-adjusted, and equally. What aimed matchups show
        is due besides, to whom they show.
        """
        target, equal = np.zeros((2, len(roster.present)))
        nobody = band[:0]
        for each in self._rosters if roster.matchups else [*self._rosters, roster]:
            now, known = each is roster, slice(len(each.present))
            target[known] += each.target(band if now else nobody, more - aimed if now else 0)
            equal[known] += each.equal(more if now else 0)
        return target, equal
