"""What the scheduler remembers: votes cast and awaited, when pairs met, what sessions saw.

Models and prompts go by the numbers of the tally.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Collection
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_kit.battles.battle import BOTH_BAD, OUTCOMES, TIE, Outcome
from arena_kit.matchmaking.matchup import MatchmakingError, Matchup
from arena_kit.policy.constants import Policy, Repeats
from arena_kit.policy.coverage import Bools, Counts, Coverage

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


class Roster:
    """Models and prompts under their numbers; new ones are disabled, and inactive, at first.

    `available` says which model has a response to which prompt. `survey` derives from it
    what holds until the next change: `can` (a response to an active prompt, of an enabled
    model), `shared` (prompts on which two models both can), `mates` (who may meet whom),
    `asked` (prompts on which somebody may) and `by_name` (the place of each name by alphabet).
    """

    def __init__(self) -> None:
        self.models: dict[str, int] = {}
        self.prompts: dict[str, int] = {}
        self.model_names: list[str] = []
        self.prompt_names: list[str] = []
        self.enabled, self.active = np.zeros(0, bool), np.zeros(0, bool)
        self.available = np.zeros((0, 0), bool)
        self.survey()

    def add_model(self, name: str) -> int:
        """The number of a model, known or new; a new one has a response to every prompt."""
        if name not in self.models:
            self.models[name] = len(self.models)
            self.model_names.append(name)
            self.enabled = np.append(self.enabled, False)
            self.available = np.pad(self.available, ((0, 1), (0, 0)), constant_values=True)
        return self.models[name]

    def add_prompt(self, name: str) -> int:
        """The number of a prompt, known or new; every model has a response to a new one."""
        if name not in self.prompts:
            self.prompts[name] = len(self.prompts)
            self.prompt_names.append(name)
            self.active = np.append(self.active, False)
            self.available = np.pad(self.available, ((0, 0), (0, 1)), constant_values=True)
        return self.prompts[name]

    def set_enabled(self, model: int, *, enabled: bool = True) -> None:
        """Let a model be matched, or not."""
        self.enabled[model] = enabled

    def set_active(self, prompt: int, *, active: bool = True) -> None:
        """Let a prompt be asked, or not."""
        self.active[prompt] = active

    def set_available(self, table: ArrayLike) -> None:
        """Say for every model and prompt at once whether there is a response."""
        found: Bools = np.array(table, bool)
        if found.shape != self.available.shape:
            rows, columns = self.available.shape
            raise ValueError(
                f"available must have {rows} rows (models) and {columns} columns (prompts), "
                f"not the shape {found.shape}"
            )
        self.available = found

    def set_responses(self, model: str, prompts: Collection[str]) -> None:
        """Say which prompts a model has responses to."""
        _check_known(prompts, self.prompts, "prompt")
        self.available[self.models[model]] = [name in prompts for name in self.prompt_names]

    def set_responders(self, prompt: str, models: Collection[str]) -> None:
        """Say which models have a response to a prompt."""
        _check_known(models, self.models, "model")
        self.available[:, self.prompts[prompt]] = [name in models for name in self.model_names]

    def survey(self) -> None:
        """Derive who may meet whom."""
        self.can: Bools = self.available & self.enabled[:, None] & self.active[None, :]
        self.shared = self.can.astype(np.int64) @ self.can.T.astype(np.int64)
        self.mates: Bools = self.shared > 0
        np.fill_diagonal(self.mates, False)  # noqa: FBT003
        self.asked = np.flatnonzero(self.can.sum(axis=0) >= 2)
        self.by_name = np.argsort(np.argsort(np.array(self.model_names, object)))
        self.n_enabled = int(self.enabled.sum())

    def cause(self) -> str | None:
        """Why no two models can meet, None where some can."""
        if self.n_enabled < 2:
            return f"{self.n_enabled} of {len(self.models)} models enabled, 2 needed"
        if not self.active.any():
            return f"none of {len(self.prompts)} prompts is active"
        if not self.mates.any():
            return "no two enabled models both have a response to the same active prompt"
        return None


def _check_known(given: Collection[str], known: Collection[str], what: str) -> None:
    if isinstance(given, str):
        raise MatchmakingError(f"a list of {what}s is needed, not the text {given!r}")
    if unknown := sorted(set(given) - set(known)):
        raise MatchmakingError(f"unknown {what}s {', '.join(unknown)}; known: {', '.join(known)}")


class CoverageTally:
    """Votes counted as they come; `coverage()` is then what `Coverage.of` finds in their log.

    Models and prompts are numbered in the order in which they are first seen.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()
        self.models: dict[str, int] = {}
        self.prompts: dict[str, int] = {}
        self.votes, self.ties, self.both_bad, self.exposure = (_zeros(0) for _ in range(4))
        self.by_prompt, self.by_pair = _zeros(0, 0), _zeros(0, 0)
        self._cells: dict[tuple[int, int, int], int] = {}
        self._window: deque[tuple[int, int]] = deque()

    def model(self, name: str) -> int:
        """The number of a model, which is counted from now on."""
        if name not in self.models:
            self.models[name] = len(self.models)
            for per_model in ("votes", "ties", "both_bad", "exposure"):
                setattr(self, per_model, np.append(getattr(self, per_model), 0))
            self.by_prompt = np.pad(self.by_prompt, ((0, 1), (0, 0)))
            self.by_pair = np.pad(self.by_pair, (0, 1))
        return self.models[name]

    def prompt(self, name: str) -> int:
        """The number of a prompt, which is counted from now on."""
        if name not in self.prompts:
            self.prompts[name] = len(self.prompts)
            self.by_prompt = np.pad(self.by_prompt, ((0, 0), (0, 1)))
        return self.prompts[name]

    @property
    def matchups(self) -> int:
        """The matchups in the rolling window."""
        return len(self._window)

    def add(self, model_a: str, model_b: str, prompt: str | None, outcome: Outcome) -> None:
        """Count one vote."""
        if model_a == model_b:
            raise ValueError(f"a vote needs two different models, but both are {model_a!r}")
        number = -1 if prompt is None else self.prompt(prompt)
        self.count(self.model(model_a), self.model(model_b), number, OUTCOMES.index(outcome))

    def count(self, a: int, b: int, prompt: int, outcome: int) -> None:
        """Count one vote given in numbers; -1 is no prompt."""
        for side in (a, b):
            self.votes[side] += 1
            if outcome == TIE:
                self.ties[side] += 1
            elif outcome == BOTH_BAD:
                self.both_bad[side] += 1
        self._show(a, b)
        if outcome < TIE:
            self._decide(min(a, b), max(a, b), prompt)

    def _show(self, a: int, b: int) -> None:
        if len(self._window) == self.policy.exposure.window:
            for side in self._window.popleft():
                self.exposure[side] -= 1
        self._window.append((a, b))
        self.exposure[a] += 1
        self.exposure[b] += 1

    def _decide(self, low: int, high: int, prompt: int) -> None:
        self.by_pair[low, high] += 1
        self.by_pair[high, low] += 1
        if prompt >= 0:
            self.by_prompt[low, prompt] += 1
            self.by_prompt[high, prompt] += 1
            cell = low, high, prompt
            self._cells[cell] = self._cells.get(cell, 0) + 1

    def coverage(
        self, models: Collection[str] | None = None, prompts: Collection[str] | None = None
    ) -> Coverage:
        """The coverage so far; `models` are enabled and `prompts` active, by default all."""
        for model in models or ():
            self.model(model)
        for prompt in prompts or ():
            self.prompt(prompt)
        rows, columns = sorted(self.models), sorted(self.prompts)
        row, column = [self.models[m] for m in rows], [self.prompts[p] for p in columns]
        cells, cell_votes = self._sorted_cells(np.argsort(row), np.argsort(column))
        pair_prompts = _zeros(len(rows), len(rows))
        np.add.at(pair_prompts, (cells[:, 0], cells[:, 1]), 1)
        by_pair = self.by_pair[np.ix_(row, row)]
        return Coverage(
            policy=self.policy,
            models=tuple(rows),
            prompts=tuple(columns),
            enabled=np.array([models is None or m in models for m in rows], bool),
            active=np.array([prompts is None or p in prompts for p in columns], bool),
            votes=self.votes[row],
            decisive=by_pair.sum(axis=1),
            ties=self.ties[row],
            both_bad=self.both_bad[row],
            exposure=self.exposure[row],
            matchups=self.matchups,
            by_prompt=self.by_prompt[np.ix_(row, column)],
            by_pair=by_pair,
            pair_prompts=pair_prompts + pair_prompts.T,
            cells=cells,
            cell_votes=cell_votes,
        )

    def _sorted_cells(self, row_of: Counts, column_of: Counts) -> tuple[Counts, Counts]:
        """The cells under the numbers of sorted names, in order."""
        found = np.array(list(self._cells), np.int64).reshape(-1, 3)
        pairs = np.sort(row_of[found[:, :2]], axis=1)
        cells = np.column_stack([pairs, column_of[found[:, 2]]]).astype(np.int64)
        order = np.lexsort(cells.T[::-1])
        return cells[order], np.array(list(self._cells.values()), np.int64)[order]


def _zeros(*shape: int) -> Counts:
    return np.zeros(shape, np.int64)
