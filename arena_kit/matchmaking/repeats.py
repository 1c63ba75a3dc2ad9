"""What must not come again soon: a pair on a prompt (6.2), and what a session saw (11)."""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from math import ceil

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.policy.constants import Repeats
from arena_kit.policy.coverage import Pair
from arena_kit.rating.glicko2 import replay_order


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
            self.add(pair, prompt)

    def add(self, pair: Pair, prompt: int) -> None:
        """Remember a meeting whose vote has come."""
        self._done.setdefault(pair, deque(maxlen=self._rule.meetings - 1)).append(prompt)

    def used_up(
        self, pair: Pair, n_prompts: int, among: NDArray[np.bool_] | None = None
    ) -> set[int]:
        """Prompts that the pair may not meet on now, where it has so many in all; meetings on
        prompts that are not `among` these do not count.

        Together with the meetings before, the next one may be at most the `same_prompt`th
        on its prompt, whichever of the open ones are cancelled. A pair with so few prompts
        that this would end its meetings repeats each as seldom as it can.
        """
        met = [*self._done.get(pair, ()), *self._open.get(pair, ())]
        met = [prompt for prompt in met if among is None or prompt < 0 or among[prompt]]
        allowed = max(self._rule.same_prompt, ceil(self._rule.meetings / max(1, n_prompts)))
        often = self._often(met, allowed)
        if len(often) < n_prompts:
            return often
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


def ordered(i: int, j: int) -> Pair:
    """Two models as a pair, the lower number first."""
    return (i, j) if i < j else (j, i)


def meetings_in_order(battles: BattleLog) -> Iterator[tuple[Pair, int, int]]:
    """Pair, prompt and session of every vote by time, in codes of the log; -1 is none."""
    rows = replay_order(battles)
    none = np.full(len(battles), -1)
    prompt = none if battles.question_id is None else battles.question_id.codes
    session = none if battles.session is None else battles.session.codes
    low, high = np.minimum(battles.a, battles.b), np.maximum(battles.a, battles.b)
    columns = (each[rows].tolist() for each in (low, high, prompt, session))
    for i, j, asked, voter in zip(*columns, strict=True):
        yield (i, j), asked, voter
