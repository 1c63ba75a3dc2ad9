"""A running arena: matchups handed out, votes counted, and both ratings kept vote by vote.

What must not come again soon: a pair on a prompt (6.2), and what a session saw (11).
"""

from bisect import bisect
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, product, repeat
from math import ceil
from secrets import token_hex
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_kit.battles.battle import BOTH_BAD, OUTCOMES, Outcome, read_outcome
from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError
from arena_kit.matchmaking import lanes
from arena_kit.matchmaking.lanes import Cast, Lane, MatchmakingError, Matchup, OpenNeighbours
from arena_kit.policy.constants import Policy, Repeats
from arena_kit.policy.coverage import Coverage, Pair, Tally, grown
from arena_kit.policy.exposure import Bools, Counts, Floats, Numbers, Roster, joined
from arena_kit.policy.ratings import glicko2_of, update_elo, votes_in_order
from arena_kit.policy.rules import ranked
from arena_kit.rating.bradley_terry.method import one_thread
from arena_kit.rating.glicko2 import GlickoState, replay_order


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
        for some in (met, met[len(met) + 1 - self._rule.meetings :]):
            often = {prompt for prompt, n in Counter(some).items() if prompt >= 0 and n >= allowed}
            if len(often) < n_prompts:
                break
        return often


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
    prompt, session = battles.codes("question_id"), battles.codes("session")
    low, high = np.minimum(battles.a, battles.b), np.maximum(battles.a, battles.b)
    columns = (each[rows].tolist() for each in (low, high, prompt, session))
    for i, j, asked, voter in zip(*columns, strict=True):
        yield (i, j), asked, voter


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


class Scheduler:
    """Hands out matchups under the policy, and keeps count of what is asked and answered.

    The same policy, models, prompts, battles and generator give the same matchups under ids of
    their own.

    Parameters
    ----------
    models, prompts
        The enabled models, to which more can be added later, and the active prompts.
    rng
        Where every draw comes from.
    available
        A row per model and a column per prompt: whether there is a response to show. By
        default there is one everywhere.
    battles
        Votes cast before, in order. Models and prompts that only they name are kept as
        disabled and inactive. Who was a contender then, `note_contenders` can tell; without
        it today's contenders are taken for all of them.
    """

    def __init__(
        self,
        policy: Policy,
        models: Sequence[str],
        prompts: Sequence[str],
        *,
        rng: np.random.Generator,
        available: ArrayLike | None = None,
        battles: BattleLog | None = None,
    ) -> None:
        self.policy = policy
        self.rng = rng
        weights = lanes.lane_weights(policy)
        self._lanes, self._limits = tuple(weights), list(accumulate(weights.values()))[:-1]
        self._available = _available(available, len(set(models)), len(set(prompts)))
        self._meetings, self._sessions = Meetings(policy.repeats), Sessions(policy.repeats)
        self._open_neighbours = OpenNeighbours(policy)
        self._pending: dict[str, _Waiting] = {}
        self._aims: Counter[Pair] = Counter()
        if battles is None:
            self._tally = Tally(policy, models, prompts)
            self._joined: Counts = np.zeros(len(self._tally.models), np.int64)
        else:
            self._replay(_in_order(battles), models, prompts)
        self._roster = self._past = Roster(policy, self._tally.enabled)
        self._add()

    @property
    def enabled(self) -> tuple[str, ...]:
        """The models that may be matched."""
        return tuple(m for m, i in self._tally.models.items() if self._tally.enabled[i])

    @property
    def pending(self) -> tuple[Matchup, ...]:
        """The matchups that wait for their vote, oldest first."""
        return tuple(waiting.matchup for waiting in self._pending.values())

    def coverage(self) -> Coverage:
        """The coverage of the votes cast; what waits for its vote does not count here."""
        awaited = [(each.pair, each.prompt) for each in self._pending.values()]
        return Coverage.counted(self._tally, awaited)

    def note_contenders(self, ratings: Mapping[str, GlickoState]) -> None:
        """Say where models stood when a vote of the past was cast, for each in its order.

        Only the last ones matter, as many as the rolling window holds.
        """
        order = self._ranked(*self._states(ratings))
        left = self._tally.unnoted
        present = self._tally.enabled & (self._joined <= -left)
        if not np.array_equal(present, self._past.present):
            same = np.array_equal(present, self._roster.present)
            self._past = self._roster if same else Roster(self.policy, present)
        band = order[present[order]][: self.policy.contenders.band]
        self._tally.note(self._past, band, left)

    def exposure_due(self, ratings: Mapping[str, GlickoState]) -> dict[str, float]:
        """What each model is due of the rolling window, from the moment it joined (7.1).

        Votes of the past without `note_contenders` count as if today's models and contenders
        had been there then.
        """
        due = self._tally.due(self._roster, self._band(ratings))
        return dict(zip(self._tally.models, due.tolist(), strict=True))

    def enable(self, model: str, *, prompts: Collection[str] | None = None) -> None:
        """Let a model be matched, known or new; `prompts` are those it has responses to."""
        self._add(model)
        row = self._tally.models[model]
        if prompts is not None:
            self._available[row] = False
            self._available[row, [_known(self._tally.prompts, p, "prompt") for p in prompts]] = True
        self._tally.enabled[row] = True
        self._survey()

    def disable(self, model: str) -> None:
        """Match a model no more; its votes stay, and what waits for a vote goes on waiting."""
        self._tally.enabled[_known(self._tally.models, model, "model")] = False
        self._survey()

    def next_matchup(
        self,
        ratings: Mapping[str, GlickoState],
        *,
        session: str | None = None,
        prompts: Sequence[Collection[str]] | None = None,
    ) -> Matchup:
        """The next matchup, which waits for its vote from now on; where groups of `prompts` are
        given, on one of the first group that has a pair to serve.

        A model that has no rating yet is taken as new. The lane is drawn by weight; when it
        has no pair to serve, the next one is tried, and after the last the first. Before the
        lanes are turned on (12), all matchups are drawn as in the scheme before (2).
        """
        if self._cause:
            raise MatchmakingError(f"no matchup can be served: {self._cause}")
        table, groups = self._updated(ratings), self._groups(prompts)
        table.among = np.logical_or.reduce(groups)
        drawn = bisect(self._limits, self.rng.random())
        turns = self._lanes[drawn:] + self._lanes[:drawn]
        for table.only, (tried, lane) in product(groups, enumerate(turns)):
            for proposal in lanes.PROPOSE[lane](table):
                prompt = self._prompt_for(lane, table, proposal, session)
                if prompt is not None:
                    through = {"lane": lane, "fallen_through": turns[:tried]}
                    matchup = self._matchup(proposal, prompt, session=session, **through)
                    pair = ordered(proposal.first, proposal.second)
                    self._wait(matchup, pair, prompt, table.band)
                    return matchup
        rule = self.policy.repeats
        raise MatchmakingError(
            f"no matchup can be served: every prompt of every pair was seen by session {session!r} "
            f"in its last {rule.session_gap} matchups, or met on {rule.same_prompt} times in the "
            f"pair's last {rule.meetings} meetings"
        )

    def record(self, matchup_id: str, outcome: Outcome) -> Matchup:
        """Count the vote on a matchup."""
        cast = OUTCOMES.index(read_outcome(outcome))
        waiting = self._settled(matchup_id)
        self._tally.vote(waiting.pair, waiting.prompt, cast, aimed=waiting.aimed)
        self._table.gaps.forget(waiting.pair)
        self._tally.note(waiting.roster, waiting.band)
        self._meetings.end(waiting.pair, waiting.prompt)
        matchup, number = waiting.matchup, self._tally.models
        sides = number[matchup.model_a], number[matchup.model_b]
        self._open_neighbours.add([Cast(*sides, waiting.prompt, cast)])
        return matchup

    def cancel(self, matchup_id: str) -> Matchup:
        """Give up waiting for a vote, as if the matchup had not been; its session saw it."""
        waiting = self._settled(matchup_id)
        self._tally.show(waiting.pair, waiting.prompt, -1)
        self._table.gaps.forget(waiting.pair)
        self._meetings.end(waiting.pair, waiting.prompt, voted=False)
        return waiting.matchup

    def restore(self, matchup: Matchup, ratings: Mapping[str, GlickoState]) -> None:
        """Let a matchup wait for its vote again, as one does that was handed out before a restart;
        its models and prompt must be known.
        """
        i, j = (_known(self._tally.models, m, "model") for m in (matchup.model_a, matchup.model_b))
        prompt = _known(self._tally.prompts, matchup.prompt, "prompt")
        self._wait(matchup, ordered(i, j), prompt, self._band(ratings))

    def remember(self, shown: Iterable[tuple[str, str, str, str]]) -> None:
        """Say what sessions were shown (session, two models, prompt), oldest first, instead of what
        their votes tell: skipped and lost matchups count, too.
        """
        self._sessions = Sessions(self.policy.repeats)
        for each in shown:
            self.note_shown(*each)

    def note_shown(self, session: str, first: str, second: str, prompt: str) -> None:
        """Say that a session was shown two models on a prompt elsewhere; what is not known cannot
        come again.
        """
        models, asked = self._tally.models, self._tally.prompts.get(prompt)
        if first in models and second in models and asked is not None:
            self._sessions.add(session, ordered(models[first], models[second]), asked)

    def was_shown(self, session: str, first: str, second: str, prompt: str) -> bool:
        """Whether a session was shown two models on a prompt within its gap (11)."""
        models = self._tally.models
        if first not in models or second not in models:
            return False
        seen = self._sessions.seen(session, ordered(models[first], models[second]))
        return self._tally.prompts.get(prompt) in seen

    def _add(self, *models: str) -> None:
        """Number new models; one has a response everywhere, and may not meet anybody yet."""
        self._tally.add(models)
        self._available = grown(self._available, *self._tally.by_prompt.shape, rest=True)
        self._names, self._prompt_names = list(self._tally.models), list(self._tally.prompts)
        self._survey()

    def _survey(self) -> None:
        """Derive what holds until models change: the table (who may meet whom, on which prompts),
        `_by_name` (the place of each name by alphabet), `_roster` (who may be met from now on) and
        `_cause` (why no two models can meet).
        """
        enabled, active = self._tally.enabled, self._tally.active
        can: Bools = self._available & enabled[:, None] & active[None, :]
        cells = can.astype(np.float32)  # BLAS is quick, and exact below 2**24 prompts
        with one_thread():
            shared = (cells @ cells.T).astype(np.int64)
        mates: Bools = shared > 0
        np.fill_diagonal(mates, False)  # noqa: FBT003
        self._table = lanes.Table(
            policy=self.policy,
            tally=self._tally,
            names=self._names,
            mates=mates,
            can=can,
            asked=np.flatnonzero(can.sum(axis=0) >= 2),
            shared=shared,
            open_neighbours=self._open_neighbours,
            gaps=lanes.PromptGaps(self.policy.prompts, can, active, self._tally.by_prompt),
        )
        self._by_name = np.argsort(np.argsort(np.array(self._names, object)))
        self._n_enabled = int(enabled.sum())
        if not np.array_equal(self._roster.present, enabled):
            self._roster = Roster(self.policy, enabled)
        self._cause = self._why_none()

    def _why_none(self) -> str | None:
        if self._n_enabled < 2:
            return f"{self._n_enabled} of {len(self._names)} models enabled, 2 needed"
        if not self._tally.active.any():
            return f"none of {len(self._prompt_names)} prompts is active"
        if not self._table.mates.any():
            return "no two enabled models both have a response to the same active prompt"
        return None

    def _wait(self, matchup: Matchup, pair: Pair, prompt: int, band: Numbers) -> None:
        """Count a matchup as handed out, its vote to come."""
        waiting = _Waiting(matchup, pair, prompt, self._roster, band)
        self._pending[matchup.matchup_id] = waiting
        if waiting.aimed:
            self._aims[pair] += 1
        self._tally.show(pair, prompt)
        self._table.gaps.forget(pair)
        self._meetings.begin(pair, prompt)
        self._sessions.add(matchup.session, pair, prompt)

    def _settled(self, matchup_id: str) -> _Waiting:
        if matchup_id not in self._pending:
            raise MatchmakingError(f"matchup {matchup_id!r} is not waiting for a vote")
        waiting = self._pending.pop(matchup_id)
        if waiting.aimed:
            self._aims[waiting.pair] -= 1
        return waiting

    def _replay(self, battles: BattleLog, models: Sequence[str], prompts: Sequence[str]) -> None:
        """Remember votes of the past, in their order, as if they had been handed out here."""
        self._tally = Tally.of(battles, self.policy, models, prompts)
        numbers = [self._tally.models[name] for name in battles.models]
        prompt_numbers = [*(self._tally.prompts[name] for name in battles.prompts), -1]
        cast, n = _cast(battles, np.array(numbers), np.array(prompt_numbers)), len(battles)
        self._joined = joined(cast[:, :2], len(self._tally.models), without=n) - n
        self._open_neighbours.add(cast)
        sessions = repeat(None) if battles.session is None else battles.session.values().tolist()
        for session, (i, j, prompt, _) in zip(sessions, cast.tolist(), strict=False):
            pair = ordered(i, j)
            self._meetings.add(pair, prompt)
            self._sessions.add(session, pair, prompt)

    def _updated(self, ratings: Mapping[str, GlickoState]) -> lanes.Table:
        """The table as the next matchup finds it: exposures are due in the window, in what waits
        for its vote and in one more.
        """
        table, tally = self._table, self._tally
        table.rng, (table.rating, table.rd) = self.rng, self._states(ratings)
        table.order = self._ranked(table.rating, table.rd)
        table.band = table.order[: self.policy.contenders.band]
        table.gaps.update(table.band)
        more = len(self._pending) - self._aims.total() + 1
        due = tally.due(self._roster, table.band, more)
        for pair, n in self._aims.items():
            due[list(pair)] += n
        due *= (float(tally.exposure[tally.enabled].sum()) + 2) / float(due[tally.enabled].sum())
        want = 1 - tally.exposure / np.maximum(due, 1e-9)
        table.due, table.want = due, want / self.policy.exposure.tolerance
        return table

    def _groups(self, prompts: Sequence[Collection[str]] | None) -> list[Bools]:
        """Which prompts each group has; without groups all prompts are one."""
        everyone, numbers = np.arange(len(self._prompt_names)), self._tally.prompts
        if prompts is None:
            return [everyone >= 0]
        return [np.isin(everyone, [_known(numbers, n, "prompt") for n in g]) for g in prompts]

    def _states(self, ratings: Mapping[str, GlickoState]) -> tuple[Floats, Floats]:
        """Rating and RD of every model; one without is new."""
        states = [ratings.get(name, self.policy.glicko) for name in self._names]
        return np.array([s.rating for s in states]), np.array([s.rd for s in states])

    def _ranked(self, rating: Floats, rd: Floats) -> NDArray[np.intp]:
        """Enabled models by conservative score, best first, equals by name."""
        score = np.where(self._tally.enabled, rating - self.policy.deviations * rd, -np.inf)
        return np.lexsort((self._by_name, -score))[: self._n_enabled]

    def _band(self, ratings: Mapping[str, GlickoState]) -> NDArray[np.intp]:
        return self._ranked(*self._states(ratings))[: self.policy.contenders.band]

    def _prompt_for(
        self, lane: Lane, table: lanes.Table, proposal: lanes.Proposal, session: str | None
    ) -> int | None:
        """The prompt for a pair, None where there is none that may be asked now."""
        if proposal.prompt is not None:
            return proposal.prompt
        i, j = proposal.first, proposal.second
        pair = ordered(i, j)
        both = table.can[i] & table.can[j] & table.among
        allowed = both & table.only
        used_up = self._meetings.used_up(pair, int(both.sum()), table.among)
        allowed[[*used_up, *self._sessions.seen(session, pair)]] = False
        options = allowed.nonzero()[0]
        if not len(options):
            return None
        if lane is Lane.EXPLORATION:
            return lanes.explored_prompt(table, proposal, options)
        return lanes.best_prompt(table, proposal, options, self._tally.on_prompts(pair))

    def _matchup(self, proposal: lanes.Proposal, prompt: int, **more: Any) -> Matchup:
        """The pair on sides drawn evenly (11).

        Its id is a random token that no generator repeats: whoever votes can tell nothing from
        it, and a vote from before a restart is not taken for one on another matchup.
        """
        sides = proposal.first, proposal.second
        a, b = sides if self.rng.random() < 0.5 else sides[::-1]
        return Matchup(
            matchup_id=token_hex(16), model_a=self._names[a], model_b=self._names[b],
            prompt=self._prompt_names[prompt], reason=proposal.reason, **more,
        )  # fmt: skip


def _known(numbers: Mapping[str, int], name: str, what: str) -> int:
    if name not in numbers:
        raise MatchmakingError(f"unknown {what} {name!r}; known: {', '.join(numbers)}")
    return numbers[name]


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
    asked = prompts[battles.codes("question_id")]
    outcome = np.where(battles.flags(), BOTH_BAD, battles.outcome)
    return np.stack([models[battles.a], models[battles.b], asked, outcome], axis=1)


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


_SCORES = {Outcome.MODEL_A: 1.0, Outcome.MODEL_B: 0.0, Outcome.TIE: 0.5, Outcome.BOTH_BAD: None}


class Arena:
    """The scheduler and the ratings of an arena; its policy's phase says what is in force.

    `ratings` are Glicko-2's (5.1), which no both-bad vote moves (8.3); `elo` is the rating
    before (2). The parameters are those of `Scheduler`.
    """

    def __init__(
        self,
        policy: Policy,
        models: Sequence[str],
        prompts: Sequence[str],
        *,
        rng: np.random.Generator,
        available: ArrayLike | None = None,
        battles: BattleLog | None = None,
    ) -> None:
        self.policy = policy
        legacy = policy.legacy_elo
        self._glicko2 = glicko2_of(policy).running()
        self.elo: dict[str, float] = defaultdict(lambda: legacy.initial)
        self.scheduler = Scheduler(
            policy, models, prompts, rng=rng, available=available, battles=battles
        )
        if battles is not None:
            self._replay(battles)

    @property
    def ratings(self) -> dict[str, GlickoState]:
        """Where every model stands; one without a vote that counts where new ones begin."""
        return self._glicko2.states

    def next_matchup(
        self, session: str | None = None, prompts: Sequence[Collection[str]] | None = None
    ) -> Matchup:
        """The next matchup, which waits for its vote from now on; see `Scheduler.next_matchup`."""
        return self.scheduler.next_matchup(self.ratings, session=session, prompts=prompts)

    def vote(self, matchup_id: str, outcome: Outcome) -> Matchup:
        """Count the vote on a matchup, and rate its models."""
        outcome = read_outcome(outcome)
        matchup = self.scheduler.record(matchup_id, outcome)
        self._rate([(matchup.model_a, matchup.model_b, _SCORES[outcome])])
        return matchup

    def order(self) -> list[str]:
        """The enabled models as they are published, best first."""
        if self.policy.phase.orders_by == "legacy_elo":
            return sorted(self.scheduler.enabled, key=lambda model: (-self.elo[model], model))
        standings = self.scheduler.coverage().standings(self.ratings)
        return [standing.model for standing in ranked(self.policy, standings)]

    def _replay(self, battles: BattleLog) -> None:
        """Rate the votes of the past, and note who was a contender before each of the last."""
        votes = list(votes_in_order(battles))
        before = max(0, len(votes) - self.policy.exposure.window)
        self._rate(votes[:before])
        for vote in votes[before:]:
            self.scheduler.note_contenders(self.ratings)
            self._rate([vote])

    def _rate(self, votes: Sequence[tuple[str, str, float | None]]) -> None:
        """Take in what the first models got; None is both-bad, NaN moves nothing."""
        for a, b, score in votes:
            update_elo(self.elo, a, b, score, self.policy.legacy_elo)
        self._glicko2.play((a, b, score) for a, b, score in votes if score is not None)
