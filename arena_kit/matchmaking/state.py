"""What the scheduler knows: votes counted, who may meet whom, what must not come again."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_kit.battles.battle import BOTH_BAD
from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError
from arena_kit.matchmaking.matchup import Lane, MatchmakingError, Matchup
from arena_kit.matchmaking.outlook import Cast, Outlook
from arena_kit.matchmaking.prompt_gaps import PromptGaps
from arena_kit.policy.constants import Policy, Repeats
from arena_kit.policy.coverage import Coverage, Pair, Tally, grown
from arena_kit.policy.exposure import Bools, Counts, Floats, Numbers, Roster, joined
from arena_kit.rating.bradley_terry.method import one_thread
from arena_kit.rating.glicko2.method import replay_order


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
        done = self._done.get(pair)
        if done is None:
            done = self._done[pair] = deque(maxlen=self._rule.meetings - 1)
        done.append(prompt)

    def add_all(self, low: Counts, high: Counts, prompt: Counts) -> None:
        """Remember meetings of the past, in their order, where none was remembered before."""
        most = self._rule.meetings - 1
        order = np.lexsort((high, low))
        changes = (np.diff(low[order]) != 0) | (np.diff(high[order]) != 0)
        for rows in np.split(order, np.flatnonzero(changes) + 1):
            pair = int(low[rows[0]]), int(high[rows[0]])
            self._done[pair] = deque(prompt[rows[-most:]].tolist(), maxlen=most)

    def used_up(self, pair: Pair, n_prompts: int) -> set[int]:
        """Prompts that the pair may not meet on now.

        Together with the meetings before, the next one may be at most the `same_prompt`th
        on its prompt, whichever of the open ones are cancelled. A pair with so few prompts
        that this would end its meetings repeats each as seldom as it can.
        """
        met = [*self._done.get(pair, ()), *self._open.get(pair, ())]
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
        seen = self._seen.get(session)
        if seen is None:
            seen = self._seen[session] = deque(maxlen=self._rule.session_gap)
        seen.append((pair, prompt))
        self._seen.move_to_end(session)
        if len(self._seen) > self._rule.sessions:
            self._seen.popitem(last=False)

    def seen(self, session: str | None, pair: Pair) -> list[int]:
        """Prompts on which a session saw a pair lately."""
        if session is None:
            return []
        return [prompt for other, prompt in self._seen.get(session, ()) if other == pair]


class _Waiting(NamedTuple):
    matchup: Matchup
    pair: Pair
    prompt: int
    roster: Roster
    band: NDArray[np.intp]

    @property
    def aimed(self) -> bool:
        """Whether it is to decide the order of the two."""
        return self.matchup.lane is Lane.DECIDE


class State:
    """Everything that the next matchup depends on, under the tally's numbers.

    `available` says which model has a response to which prompt. `survey` derives from it
    what holds until the next change: `can` (a response to an active prompt, of an enabled
    model), `shared` (prompts on which two models both can), `mates` (who may meet whom),
    `asked` (prompts on which somebody may), `gaps` (what is lacking on prompts), `by_name` (the
    place of each name by alphabet), `roster` (who may be met from now on) and `cause` (why no two
    models can meet, None where some can).
    """

    def __init__(
        self,
        policy: Policy,
        models: Sequence[str],
        prompts: Sequence[str],
        *,
        available: ArrayLike | None = None,
        battles: BattleLog | None = None,
    ) -> None:
        self.available = _available(available, len(set(models)), len(set(prompts)))
        if battles is not None:
            battles = _in_order(battles)
            self.tally = Tally.of(battles, policy, models, prompts)
        else:
            self.tally = Tally(policy, models, prompts)
        self.meetings, self.sessions = Meetings(policy.repeats), Sessions(policy.repeats)
        self.outlook = Outlook(policy)
        self.pending: dict[str, _Waiting] = {}
        self._aims: Counter[Pair] = Counter()
        self._joined: Counts = np.zeros(len(self.tally.models), np.int64)
        if battles is not None:
            self._replay(battles)
        self.roster = self._past = Roster(policy, self.tally.enabled)
        self.add()

    def add(self, models: Collection[str] = (), prompts: Collection[str] = ()) -> None:
        """Number new names; a new one has a response everywhere, and may not meet anybody yet."""
        self.tally.add(models, prompts)
        self.available = grown(self.available, *self.tally.by_prompt.shape, rest=True)
        self.model_names, self.prompt_names = list(self.tally.models), list(self.tally.prompts)
        self.survey()

    def set_responses(self, model: str, prompts: Collection[str]) -> None:
        """Say which prompts a model has responses to."""
        _check_known(prompts, self.prompt_names, "prompt")
        self.available[self.tally.models[model]] = [name in prompts for name in self.prompt_names]

    def set_responders(self, prompt: str, models: Collection[str]) -> None:
        """Say which models have a response to a prompt."""
        _check_known(models, self.model_names, "model")
        column = self.tally.prompts[prompt]
        self.available[:, column] = [name in models for name in self.model_names]

    def survey(self) -> None:
        """Derive who may meet whom."""
        enabled, active = self.tally.enabled, self.tally.active
        self.can: Bools = self.available & enabled[:, None] & active[None, :]
        cells = self.can.astype(np.float32)  # BLAS is quick, and exact below 2**24 prompts
        with one_thread():
            self.shared = (cells @ cells.T).astype(np.int64)
        self.mates: Bools = self.shared > 0
        np.fill_diagonal(self.mates, False)  # noqa: FBT003
        self.asked = np.flatnonzero(self.can.sum(axis=0) >= 2)
        self.gaps = PromptGaps(self.tally.policy.prompts, self.can, active, self.tally.by_prompt)
        self.by_name = np.argsort(np.argsort(np.array(self.model_names, object)))
        self.n_enabled = int(enabled.sum())
        if not np.array_equal(self.roster.present, enabled):
            self.roster = Roster(self.tally.policy, enabled)
        self.cause = self._cause()

    def coverage(self) -> Coverage:
        """The coverage of the votes cast."""
        awaited = [(each.pair, each.prompt) for each in self.pending.values()]
        return Coverage.counted(self.tally, awaited)

    def due(self, band: Numbers) -> Floats:
        """Exposures due to each model in the window, in what waits for its vote and in one more."""
        aimed = self._aims.total()
        due, _ = self.tally.due(self.roster, band, len(self.pending) - aimed + 1)
        for pair, n in self._aims.items():
            due[list(pair)] += n
        return due

    def wait(self, matchup: Matchup, pair: Pair, prompt: int, band: NDArray[np.intp]) -> None:
        """Count a matchup as handed out, its vote to come."""
        waiting = _Waiting(matchup, pair, prompt, self.roster, band)
        self.pending[matchup.matchup_id] = waiting
        if waiting.aimed:
            self._aims[pair] += 1
        self.tally.show(pair, prompt)
        self.gaps.forget(pair)
        self.meetings.begin(pair, prompt)
        self.sessions.add(matchup.session, pair, prompt)

    def vote(self, matchup_id: str, outcome: int) -> Matchup:
        """Count the vote on a matchup."""
        waiting = self._settled(matchup_id)
        self.tally.vote(waiting.pair, waiting.prompt, outcome, aimed=waiting.aimed)
        self.gaps.forget(waiting.pair)
        self.tally.dues.note(waiting.roster, waiting.band, aimed=waiting.aimed)
        self.meetings.end(waiting.pair, waiting.prompt)
        first, second = waiting.pair
        if waiting.matchup.model_a != self.model_names[first]:
            first, second = second, first
        self.outlook.add([Cast(first, second, waiting.prompt, outcome)])
        return waiting.matchup

    def cancel(self, matchup_id: str) -> Matchup:
        """Count a matchup as not handed out after all."""
        waiting = self._settled(matchup_id)
        self.tally.show(waiting.pair, waiting.prompt, -1)
        self.gaps.forget(waiting.pair)
        self.meetings.end(waiting.pair, waiting.prompt, voted=False)
        return waiting.matchup

    def note_past(self, order: NDArray[np.intp]) -> None:
        """Say who stood where when the next vote of the past was cast, best first."""
        left = self.tally.matchups - len(self.tally.dues)
        present = self.tally.enabled & (self._joined <= -left)
        if not np.array_equal(present, self._past.present):
            same = np.array_equal(present, self.roster.present)
            self._past = self.roster if same else Roster(self.tally.policy, present)
        there = order[present[order]]
        band, aimed = there[: self.tally.policy.contenders.band], self.tally.was_aimed(left)
        self.tally.dues.note(self._past, band, aimed=aimed)

    def remember(self, shown: Iterable[tuple[str, str, str, str]]) -> None:
        """Forget what sessions saw but for this, oldest first."""
        self.sessions = Sessions(self.tally.policy.repeats)
        self.note_shown(shown)

    def note_shown(self, shown: Iterable[tuple[str, str, str, str]]) -> None:
        """Remember what sessions saw, oldest first; what is not known cannot come again."""
        models, prompts, add = self.tally.models.get, self.tally.prompts.get, self.sessions.add
        for session, first, second, prompt in shown:
            i, j, asked = models(first), models(second), prompts(prompt)
            if i is not None and j is not None and asked is not None:
                add(session, ordered(i, j), asked)

    def was_shown(self, session: str, first: str, second: str, prompt: str) -> bool:
        """Whether a session saw two models on a prompt lately."""
        i, j = self.tally.models.get(first), self.tally.models.get(second)
        if i is None or j is None:
            return False
        return self.tally.prompts.get(prompt) in self.sessions.seen(session, ordered(i, j))

    def _cause(self) -> str | None:
        if self.n_enabled < 2:
            return f"{self.n_enabled} of {len(self.model_names)} models enabled, 2 needed"
        if not self.tally.active.any():
            return f"none of {len(self.prompt_names)} prompts is active"
        if not self.mates.any():
            return "no two enabled models both have a response to the same active prompt"
        return None

    def _settled(self, matchup_id: str) -> _Waiting:
        if matchup_id not in self.pending:
            raise MatchmakingError(f"matchup {matchup_id!r} does not wait for a vote")
        waiting = self.pending.pop(matchup_id)
        if waiting.aimed:
            self._aims[waiting.pair] -= 1
        return waiting

    def _replay(self, battles: BattleLog) -> None:
        """Remember votes of the past, in their order, as if they had been handed out here."""
        self._joined = joined(_first_votes(battles, self.tally)) - len(battles)
        models = [self.tally.models[name] for name in battles.models]
        prompts = [*(self.tally.prompts[name] for name in battles.prompts), -1]
        cast = _cast(battles, np.array(models), np.array(prompts))
        self.outlook.add(cast)
        first, second, asked, _ = cast.T
        low, high = np.minimum(first, second), np.maximum(first, second)
        if len(cast):
            self.meetings.add_all(low, high, asked)
        if battles.session is not None:
            columns = (each.tolist() for each in (battles.session.values(), low, high, asked))
            for session, i, j, prompt in zip(*columns, strict=True):
                self.sessions.add(session, (i, j), prompt)


def _in_order(battles: BattleLog) -> BattleLog:
    """The votes by time; one that is there twice is refused."""
    if (twice := battles.repeat()) is not None:
        first, second = twice
        name = battles.battle_id[first] if battles.battle_id is not None else None
        raise DataError(f"the vote {name!r} is there twice, in rows {first} and {second}")
    return battles.select(replay_order(battles))


def _cast(battles: BattleLog, models: Counts, prompts: Counts) -> Counts:
    """The votes of a log in its order, a row like `Cast` each, by the numbers of its models and
    prompts, the last of which is that of none.
    """
    none = np.full(len(battles), -1)
    asked = none if battles.question_id is None else battles.question_id.codes
    outcome = np.where(battles.flags(), BOTH_BAD, battles.outcome)
    return np.stack([models[battles.a], models[battles.b], prompts[asked], outcome], axis=1)


def _first_votes(battles: BattleLog, tally: Tally) -> Counts:
    """How many votes there are before the first of each model; all of them where it has none."""
    first = np.full(len(tally.models), len(battles))
    numbers = np.array([tally.models[name] for name in battles.models], np.int64)
    for side in (battles.a, battles.b):
        np.minimum.at(first, numbers[side], np.arange(len(battles)))
    return first


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


def _available(table: ArrayLike | None, rows: int, columns: int) -> Bools:
    """Which model has a response to which prompt; without a table all have one to all."""
    if table is None:
        return np.ones((rows, columns), bool)
    available: Bools = np.array(table, bool)
    if available.shape != (rows, columns):
        raise ValueError(
            f"available must have {rows} rows (models) and {columns} columns (prompts), "
            f"not the shape {available.shape}"
        )
    return available


def _check_known(given: Collection[str], known: Collection[str], what: str) -> None:
    if isinstance(given, str):
        raise MatchmakingError(f"a list of {what}s is needed, not the text {given!r}")
    if unknown := sorted(set(given) - set(known)):
        raise MatchmakingError(f"unknown {what}s {', '.join(unknown)}; known: {', '.join(known)}")
