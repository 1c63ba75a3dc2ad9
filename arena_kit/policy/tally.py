"""Votes counted under one numbering of models and prompts: what coverage and the scheduler read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import OUTCOMES, TIE
from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError
from arena_kit.policy.constants import Policy
from arena_kit.policy.exposure import Counts, DueWindow, Floats, Numbers, Roster, aimed_votes
from arena_kit.rating.glicko2.method import replay_order

#: Why weighted battles are refused.
NOT_SINGLE = "coverage counts single votes and cannot use weights or pair counts"
#: The numbers of two models, the lower one first.
Pair = tuple[int, int]


class Tally:
    """Votes counted under one numbering of models and prompts: a whole log, or one by one.

    A matchup counts as soon as it is shown, with the vote awaited on it as a decisive one;
    a vote without a winner, or a matchup given up, takes that back.

    Attributes
    ----------
    models, prompts
        The number of each name, in the order in which names were added.
    enabled, active
        Which models may be matched and which prompts count.
    outcomes
        Votes of each kind: a row per outcome and a column per model.
    shown, exposure, met
        How often each model was shown, ever and in the rolling window, and how often each pair
        has met, with the matchups that wait for their vote.
    aimed
        How often each model was shown in the window by votes that were to decide its order.
    dues
        Who could be met, and who was a contender, in matchups of the rolling window.
    by_prompt, by_pair, pair_prompts
        Decisive votes, with those awaited, of a model on a prompt and between two models, and
        on how many prompts the latter were cast.
    """

    def __init__(
        self, policy: Policy, models: Iterable[str] = (), prompts: Iterable[str] = ()
    ) -> None:
        self.policy = policy
        self.models: dict[str, int] = {}
        self.prompts: dict[str, int] = {}
        self.enabled, self.active = np.zeros(0, bool), np.zeros(0, bool)
        self.outcomes = np.zeros((len(OUTCOMES), 0), np.int64)
        self.shown, self.exposure, self.aimed = (np.zeros(0, np.int64) for _ in range(3))
        self.met, self.by_pair, self.pair_prompts, self.by_prompt = (
            np.zeros((0, 0), np.int64) for _ in range(4)
        )
        self._on_prompts: dict[Pair, dict[int, int]] = {}
        self._cells = np.zeros((4, 0), np.int64)
        self._window: deque[tuple[Pair, bool]] = deque()
        self.dues = DueWindow(policy)
        self.add(models, prompts)
        self.enabled[:], self.active[:] = True, True

    @classmethod
    def of(
        cls,
        battles: BattleLog,
        policy: Policy,
        models: Iterable[str] | None = None,
        prompts: Iterable[str] | None = None,
    ) -> Self:
        """Count a whole log; `models` are enabled and `prompts` active, by default all of it."""
        check_single_votes(battles)
        tally = cls(
            policy,
            battles.models if models is None else models,
            battles.prompts if prompts is None else prompts,
        )
        tally.add(battles.models, battles.prompts)
        tally._count(battles)
        return tally

    def add(self, models: Iterable[str] = (), prompts: Iterable[str] = ()) -> None:
        """Number names that are new, disabled and inactive at first, and make room for them."""
        for numbers, names in ((self.models, models), (self.prompts, prompts)):
            for name in names:
                numbers.setdefault(name, len(numbers))
        n, width = len(self.models), len(self.prompts)
        if self.by_prompt.shape == (n, width):
            return
        self.enabled, self.active = grown(self.enabled, n), grown(self.active, width)
        self.outcomes = grown(self.outcomes, len(OUTCOMES), n)
        self.shown, self.exposure, self.aimed = (
            grown(each, n) for each in (self.shown, self.exposure, self.aimed)
        )
        self.met, self.by_pair, self.pair_prompts = (
            grown(each, n, n) for each in (self.met, self.by_pair, self.pair_prompts)
        )
        self.by_prompt = grown(self.by_prompt, n, width)

    @property
    def matchups(self) -> int:
        """The matchups in the rolling window."""
        return len(self._window)

    def show(self, pair: Pair, prompt: int, change: int = 1) -> None:
        """Count a matchup whose vote is awaited, or take it back (-1); prompt -1 is none."""
        low, high = pair
        for side in pair:
            self.shown[side] += change
            self.exposure[side] += change
        self.met[low, high] += change
        self.met[high, low] += change
        self._decide(pair, prompt, change)

    def vote(self, pair: Pair, prompt: int, outcome: int, *, aimed: bool = False) -> None:
        """Count the vote on a matchup that was shown, perhaps to decide the order of the two."""
        if len(self._window) == self.policy.exposure.window:
            oldest, was_aimed = self._window.popleft()
            for side in oldest:
                self.exposure[side] -= 1
                self.aimed[side] -= was_aimed
        self._window.append((pair, aimed))
        for side in pair:
            self.outcomes[outcome, side] += 1
            self.aimed[side] += aimed
        if outcome >= TIE:
            self._decide(pair, prompt, -1)

    def due(self, roster: Roster, band: Numbers, more: int = 0) -> tuple[Floats, Floats]:
        """Exposures due to each model in the window and `more` matchups to come, lane-adjusted
        and equally.

        Votes whose models and contenders are not known count as if they had been these.
        """
        unknown = len(self._window) - len(self.dues)
        aimed = int(self.aimed.sum()) // 2 - self.dues.aimed
        target, equal = self.dues.due(roster, band, unknown + more, aimed)
        return target + self.aimed, equal

    def was_aimed(self, ago: int) -> bool:
        """Whether a vote of the window, so many votes ago, was to decide the order of its two."""
        return self._window[-ago][1]

    def on_prompts(self, pair: Pair) -> dict[int, int]:
        """Decisive votes of a pair on each prompt that has or had any, with those awaited."""
        if pair not in self._on_prompts:
            self._on_prompts[pair] = _of_pair(self._cells, pair)
        return self._on_prompts[pair]

    def _decide(self, pair: Pair, prompt: int, change: int) -> None:
        low, high = pair
        self.by_pair[low, high] += change
        self.by_pair[high, low] += change
        if prompt < 0:
            return
        votes = self.on_prompts(pair)
        votes[prompt] = votes.get(prompt, 0) + change
        self.by_prompt[low, prompt] += change
        self.by_prompt[high, prompt] += change
        if votes[prompt] == (change > 0):  # the first vote there has come, or the last has gone
            self.pair_prompts[low, high] += change
            self.pair_prompts[high, low] += change

    def _count(self, battles: BattleLog) -> None:
        """Count every vote of a log at once, where none was counted before."""
        shape, n = self.by_prompt.shape, len(self.models)
        numbers = np.array([self.models[name] for name in battles.models], np.int64)
        a, b = numbers[battles.a], numbers[battles.b]
        low, high = np.minimum(a, b), np.maximum(a, b)
        recent = replay_order(battles)[-self.policy.exposure.window :]
        aimed = aimed_votes(battles)[recent]
        pairs = zip(low[recent].tolist(), high[recent].tolist(), strict=True)
        self._window.extend(zip(pairs, aimed.tolist(), strict=True))
        self.exposure, self.aimed = (
            np.bincount(np.append(low[rows], high[rows]), minlength=n)
            for rows in (recent, recent[aimed])
        )
        outcome = np.tile(battles.outcome.astype(np.int64), 2)
        self.outcomes = _table(outcome, np.append(low, high), self.outcomes.shape)
        self.shown, self.met = self.outcomes.sum(axis=0), _symmetric(low, high, n)
        decided = np.flatnonzero(battles.decisive())
        low, high = low[decided], high[decided]
        self.by_pair = _symmetric(low, high, n)
        if battles.question_id is None:
            return
        numbers = np.array([self.prompts[name] for name in battles.prompts] + [-1], np.int64)
        prompt = numbers[battles.question_id.codes[decided]]
        low, high, prompt = (each[prompt >= 0] for each in (low, high, prompt))
        self.by_prompt = _table(np.append(low, high), np.tile(prompt, 2), shape)
        self._cells = _cells(low, high, prompt, shape)
        self.pair_prompts = _symmetric(self._cells[0], self._cells[1], n)


def check_single_votes(battles: BattleLog) -> None:
    """Refuse a log whose rows stand for more or less than one vote each."""
    if np.any(battles.weights() != 1.0):
        raise DataError(NOT_SINGLE)


def grown(array: NDArray[Any], *shape: int, rest: bool = False) -> NDArray[Any]:
    """An array as the first corner of a larger one; the rest is zeros, or ones."""
    larger = (np.ones if rest else np.zeros)(shape, array.dtype)
    larger[tuple(map(slice, array.shape))] = array
    return larger


def _cells(low: Counts, high: Counts, prompt: Counts, shape: tuple[int, int]) -> Counts:
    """Votes by pair and prompt where there are any, sorted: low, high, prompt and number."""
    codes, votes = np.unique((low * shape[0] + high) * shape[1] + prompt, return_counts=True)
    pairs, prompts = np.divmod(codes, max(1, shape[1]))
    return np.stack([*np.divmod(pairs, max(1, shape[0])), prompts, votes])


def _of_pair(cells: Counts, pair: Pair) -> dict[int, int]:
    """The votes of one pair in such cells, by prompt."""
    for side, number in enumerate(pair):
        cells = cells[:, slice(*np.searchsorted(cells[side], (number, number + 1)))]
    return dict(zip(cells[2].tolist(), cells[3].tolist(), strict=True))


def _table(rows: Counts, columns: Counts, shape: tuple[int, int]) -> Counts:
    flat = np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1])
    return flat.reshape(shape)


def _symmetric(low: Counts, high: Counts, size: int) -> Counts:
    table = _table(low, high, (size, size))
    return table + table.T
