"""What the scheduler remembers: votes cast and awaited, when pairs met, what sessions saw.

Models and prompts go by the numbers of the tally.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles import TIE
from arena_kit.matchmaking.coverage import Counts
from arena_kit.matchmaking.matchup import MatchmakingError, Matchup
from arena_kit.matchmaking.policy import Policy, Repeats
from arena_kit.matchmaking.tally import CoverageTally

Pair = tuple[int, int]


class Planned:
    """Decisive votes, with every matchup that waits for its vote counted as one to come."""

    def __init__(self) -> None:
        self.waiting = np.zeros(0, np.int64)
        self.by_prompt = np.zeros((0, 0), np.int64)
        self.by_pair = np.zeros((0, 0), np.int64)
        self.pair_prompts = np.zeros((0, 0), np.int64)
        self.met = np.zeros((0, 0), np.int64)
        self._rows: dict[Pair, Counts] = {}

    def add_model(self) -> None:
        """Make room for one more model."""
        self.waiting = np.append(self.waiting, 0)
        self.by_prompt = np.pad(self.by_prompt, ((0, 1), (0, 0)))
        self.by_pair = np.pad(self.by_pair, (0, 1))
        self.pair_prompts = np.pad(self.pair_prompts, (0, 1))
        self.met = np.pad(self.met, (0, 1))

    def add_prompt(self) -> None:
        """Make room for one more prompt."""
        self.by_prompt = np.pad(self.by_prompt, ((0, 0), (0, 1)))
        self._rows = {pair: np.append(row, 0) for pair, row in self._rows.items()}

    def row(self, pair: Pair) -> Counts:
        """Votes of a pair on each prompt."""
        if pair not in self._rows:
            self._rows[pair] = np.zeros(self.by_prompt.shape[1], np.int64)
        return self._rows[pair]

    def wait(self, pair: Pair, change: int) -> None:
        """Begin (1) or end (-1) waiting for a vote."""
        for model in pair:
            self.waiting[model] += change

    def meet(self, pair: Pair, change: int) -> None:
        """Add (1) or take back (-1) a meeting, however it ends."""
        low, high = pair
        self.met[low, high] += change
        self.met[high, low] += change

    def count(self, pair: Pair, prompt: int, change: int) -> None:
        """Add (1) or take back (-1) a vote on a prompt; -1 is no prompt."""
        low, high = pair
        self.by_pair[low, high] += change
        self.by_pair[high, low] += change
        if prompt < 0:
            return
        row = self.row(pair)
        row[prompt] += change
        self.by_prompt[low, prompt] += change
        self.by_prompt[high, prompt] += change
        if row[prompt] == (change > 0):
            self.pair_prompts[low, high] += change
            self.pair_prompts[high, low] += change


class Meetings:
    """The prompts on which each pair met lately, for the rule against repeats (6.2)."""

    def __init__(self, rule: Repeats) -> None:
        self._rule = rule
        self._done: dict[Pair, deque[int]] = {}
        self._open: dict[Pair, list[int]] = {}

    def begin(self, pair: Pair, prompt: int) -> None:
        """Remember a meeting whose vote is to come."""
        self._open.setdefault(pair, []).append(prompt)

    def end(self, pair: Pair, prompt: int, *, voted: bool = True) -> None:
        """Its vote has come, or never will."""
        self._open[pair].remove(prompt)
        if voted:
            done = self._done.setdefault(pair, deque(maxlen=self._rule.meetings - 1))
            done.append(prompt)

    def used_up(self, pair: Pair, n_prompts: int) -> set[int]:
        """Prompts that the pair may not meet on now.

        Together with the meetings before, the next one may be at most the `same_prompt`th
        on its prompt, whichever of the open ones are cancelled. A pair with so few prompts
        that this would end its meetings repeats each as seldom as it can.
        """
        met = [*self._done.get(pair, ()), *self._open.get(pair, ())]
        allowed = max(self._rule.same_prompt, ceil(self._rule.meetings / max(1, n_prompts)))
        found = self._often(met, allowed)
        if len(found) < n_prompts:
            return found
        return self._often(met[len(met) + 1 - self._rule.meetings :], allowed)

    @staticmethod
    def _often(met: list[int], allowed: int) -> set[int]:
        return {prompt for prompt, n in Counter(met).items() if prompt >= 0 and n >= allowed}


class Sessions:
    """Which pairs and prompts each session saw lately (11)."""

    def __init__(self, rule: Repeats) -> None:
        self._rule = rule
        self._seen: OrderedDict[str, deque[tuple[Pair, int]]] = OrderedDict()

    def add(self, session: str | None, pair: Pair, prompt: int) -> None:
        """Remember what a session is shown; the longest silent session is forgotten."""
        if session is None or prompt < 0 or not self._rule.session_gap:
            return
        seen = self._seen.setdefault(session, deque(maxlen=self._rule.session_gap))
        seen.append((pair, prompt))
        self._seen.move_to_end(session)
        if len(self._seen) > self._rule.sessions:
            self._seen.popitem(last=False)

    def seen(self, session: str | None, pair: Pair) -> list[int]:
        """Prompts on which a session saw a pair lately."""
        if session is None:
            return []
        return [prompt for other, prompt in self._seen.get(session, ()) if other == pair]


class BandTime:
    """For how many matchups of the rolling window each model was a contender.

    Votes replayed without ratings leave no trace here, as nobody knows the band of their time.
    """

    def __init__(self, window: int) -> None:
        self.matchups = np.zeros(0, np.int64)
        self._bands: deque[NDArray[np.intp]] = deque()
        self._window = window

    def __len__(self) -> int:
        return len(self._bands)

    def add_model(self) -> None:
        """Make room for one more model."""
        self.matchups = np.append(self.matchups, 0)

    def add(self, band: NDArray[np.intp]) -> None:
        """Count a matchup that was drawn when these were the contenders."""
        if len(self._bands) == self._window:
            self.matchups[self._bands.popleft()] -= 1
        self._bands.append(band)
        self.matchups[band] += 1


class _Waiting(NamedTuple):
    matchup: Matchup
    pair: Pair
    prompt: int
    band: NDArray[np.intp]


class Memory:
    """Everything that has happened, so far as the next matchup depends on it."""

    def __init__(self, policy: Policy) -> None:
        self.tally = CoverageTally(policy=policy)
        self.planned = Planned()
        self.meetings, self.sessions = Meetings(policy.repeats), Sessions(policy.repeats)
        self.band_time = BandTime(policy.exposure.window)
        self.pending: dict[str, _Waiting] = {}
        self.next_id = 1

    def add_model(self, name: str) -> None:
        """Make room for one more model."""
        self.tally.model(name)
        self.planned.add_model()
        self.band_time.add_model()

    def add_prompt(self, name: str) -> None:
        """Make room for one more prompt."""
        self.tally.prompt(name)
        self.planned.add_prompt()

    def wait(self, matchup: Matchup, pair: Pair, prompt: int, band: NDArray[np.intp]) -> None:
        """Count a matchup as handed out, its vote to come."""
        self.pending[matchup.matchup_id] = _Waiting(matchup, pair, prompt, band)
        self.planned.wait(pair, 1)
        self._hand_out(pair, prompt, matchup.session)

    def vote(self, matchup_id: str, outcome: int) -> Matchup:
        """Count the vote on a matchup."""
        waiting = self._settled(matchup_id)
        self.meetings.end(waiting.pair, waiting.prompt)
        self._count(waiting.pair, waiting.prompt, outcome)
        self.band_time.add(waiting.band)
        return waiting.matchup

    def cancel(self, matchup_id: str) -> Matchup:
        """Count a matchup as not handed out after all."""
        waiting = self._settled(matchup_id)
        self.planned.count(waiting.pair, waiting.prompt, -1)
        self.planned.meet(waiting.pair, -1)
        self.meetings.end(waiting.pair, waiting.prompt, voted=False)
        return waiting.matchup

    def replay(
        self,
        pair: Pair,
        prompt: int,
        session: str | None,
        outcome: int,
        band: NDArray[np.intp] | None,
    ) -> None:
        """Count a vote of the past as if it had been handed out here."""
        self._hand_out(pair, prompt, session)
        self.meetings.end(pair, prompt)
        self._count(pair, prompt, outcome)
        if band is not None:
            self.band_time.add(band)

    def _hand_out(self, pair: Pair, prompt: int, session: str | None) -> None:
        self.planned.count(pair, prompt, 1)
        self.planned.meet(pair, 1)
        self.meetings.begin(pair, prompt)
        self.sessions.add(session, pair, prompt)
        self.next_id += 1

    def _count(self, pair: Pair, prompt: int, outcome: int) -> None:
        self.tally.count(*pair, prompt, outcome)
        if outcome >= TIE:
            self.planned.count(pair, prompt, -1)

    def _settled(self, matchup_id: str) -> _Waiting:
        if matchup_id not in self.pending:
            raise MatchmakingError(f"matchup {matchup_id!r} does not wait for a vote")
        waiting = self.pending.pop(matchup_id)
        self.planned.wait(waiting.pair, -1)
        return waiting
