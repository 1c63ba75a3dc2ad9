"""The scheduler: draws a lane, takes its best pair that a prompt can serve, and keeps count."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate, repeat
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_kit.battles.battle import OUTCOMES, Outcome, read_outcome
from arena_kit.battles.log import BattleLog, Labels
from arena_kit.matchmaking.lanes import (
    PROPOSE,
    Floats,
    Proposal,
    Table,
    best_prompt,
    explored_prompt,
    lane_weights,
)
from arena_kit.matchmaking.matchup import Lane, MatchmakingError, Matchup
from arena_kit.matchmaking.state import Memory, Pair, Roster
from arena_kit.policy.constants import Policy
from arena_kit.policy.coverage import Coverage, check_single_votes
from arena_kit.policy.feasibility import due_shares
from arena_kit.policy.rules import Rated
from arena_kit.rating.glicko2 import replay_order


class Scheduler:
    """Hands out matchups under the policy, and keeps count of what is asked and answered.

    The same policy, models, prompts, battles and generator give the same matchups.

    Parameters
    ----------
    models, prompts
        The enabled models and the active prompts; more can be added later.
    rng
        Where every draw comes from.
    available
        A row per model and a column per prompt: whether there is a response to show. By
        default there is one everywhere.
    battles
        Votes cast before, in order. Models and prompts that only they name are kept as
        disabled and inactive.
    ratings
        Where models stood before each of those votes, which tells who was a contender then;
        without it today's contenders are taken for all of them. Each is asked for right
        before its vote is counted, so it may be one mapping that changes.
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
        ratings: Iterable[Mapping[str, Rated]] | None = None,
    ) -> None:
        self.policy = policy
        self.rng = rng
        self._memory, self._roster = Memory(policy), Roster()
        self._fresh: Rated = policy.glicko
        weights = lane_weights(policy)
        self._lanes, self._limits = tuple(weights), list(accumulate(weights.values()))[:-1]
        for model in models:
            self._roster.set_enabled(self._model(model))
        for prompt in prompts:
            self._roster.set_active(self._prompt(prompt))
        if available is not None:
            self._roster.set_available(available)
        self._survey()
        if battles is not None:
            self._replay(battles, ratings)

    @property
    def enabled(self) -> tuple[str, ...]:
        """The models that may be matched."""
        return tuple(m for m, i in self._roster.models.items() if self._roster.enabled[i])

    @property
    def active(self) -> tuple[str, ...]:
        """The prompts that may be asked."""
        return tuple(p for p, i in self._roster.prompts.items() if self._roster.active[i])

    @property
    def pending(self) -> tuple[Matchup, ...]:
        """The matchups that wait for their vote, oldest first."""
        return tuple(waiting.matchup for waiting in self._memory.pending.values())

    def coverage(self) -> Coverage:
        """The coverage of the votes cast; what waits for its vote does not count here."""
        return self._memory.tally.coverage(self.enabled, self.active)

    def time_in_band(self, ratings: Mapping[str, Rated]) -> dict[str, float]:
        """For which part of the rolling window each model was a contender.

        Votes replayed without ratings count as if today's contenders had been it then.
        """
        part = self._times_in_band(self._ranked(*self._states(ratings)), more=0)
        share = part / max(1, self._memory.tally.matchups)
        return dict(zip(self._roster.model_names, share.tolist(), strict=True))

    def enable(self, model: str, *, prompts: Collection[str] | None = None) -> None:
        """Let a model be matched, known or new; `prompts` are those it has responses to."""
        self._roster.set_enabled(self._model(model))
        if prompts is not None:
            self._roster.set_responses(model, prompts)
        self._survey()

    def disable(self, model: str) -> None:
        """Match a model no more; its votes stay, and what waits for a vote goes on waiting."""
        self._roster.set_enabled(_known(self._roster.models, model, "model"), enabled=False)
        self._survey()

    def activate(self, prompt: str, *, models: Collection[str] | None = None) -> None:
        """Let a prompt be asked, known or new; `models` are those with a response to it."""
        self._roster.set_active(self._prompt(prompt))
        if models is not None:
            self._roster.set_responders(prompt, models)
        self._survey()

    def deactivate(self, prompt: str) -> None:
        """Ask a prompt no more, and leave it out of prompt coverage."""
        self._roster.set_active(_known(self._roster.prompts, prompt, "prompt"), active=False)
        self._survey()

    def next_matchup(self, ratings: Mapping[str, Rated], *, session: str | None = None) -> Matchup:
        """The next matchup, which waits for its vote from now on.

        A model that has no rating yet is taken as new. The lane is drawn by weight; when it
        has no pair to serve, the next one is tried, and after the last the first. Before the
        lanes are turned on (12), all matchups are drawn as in the scheme before (2).
        """
        if self._cause:
            raise MatchmakingError(f"no matchup can be served: {self._cause}")
        table = self._table(ratings)
        drawn = bisect(self._limits, self.rng.random())
        lanes = self._lanes[drawn:] + self._lanes[:drawn]
        for tried, lane in enumerate(lanes):
            for proposal in PROPOSE[lane](table):
                prompt = self._prompt_for(lane, table, proposal, session)
                if prompt is not None:
                    matchup = self._matchup(lane, proposal, prompt, lanes[:tried], session)
                    pair = _pair(proposal.first, proposal.second)
                    self._memory.wait(matchup, pair, prompt, table.band)
                    return matchup
        rule = self.policy.repeats
        raise MatchmakingError(
            f"no matchup can be served: every prompt of every pair was seen by session {session!r} "
            f"in its last {rule.session_gap} matchups, or met on {rule.same_prompt} times in the "
            f"pair's last {rule.meetings} meetings"
        )

    def record(self, matchup_id: str, outcome: Outcome) -> Matchup:
        """Count the vote on a matchup."""
        return self._memory.vote(matchup_id, OUTCOMES.index(read_outcome(outcome)))

    def cancel(self, matchup_id: str) -> Matchup:
        """Give up waiting for a vote, as if the matchup had not been; its session saw it."""
        return self._memory.cancel(matchup_id)

    def _table(self, ratings: Mapping[str, Rated]) -> Table:
        roster, memory, shares = self._roster, self._memory, self._shares
        tally, planned = memory.tally, memory.planned
        rating, rd = self._states(ratings)
        order = self._ranked(rating, rd)
        more = len(memory.pending) + 1
        exposure = tally.exposure + planned.waiting
        part = self._times_in_band(order, more=more)
        places = float(exposure[roster.enabled].sum()) + 2
        due = places / 2 * shares.due(part / (tally.matchups + more))
        return Table(
            policy=self.policy,
            rng=self.rng,
            names=roster.model_names,
            rating=rating,
            rd=rd,
            order=order,
            band=order[: self.policy.contenders.band],
            mates=roster.mates,
            can=roster.can,
            active=roster.active,
            asked=roster.asked,
            shared=roster.shared,
            exposure=exposure,
            due=due,
            want=(1 - exposure / np.maximum(due, 1e-9)) / self.policy.exposure.tolerance,
            shown=tally.votes + planned.waiting,
            by_prompt=planned.by_prompt,
            by_pair=planned.by_pair,
            pair_prompts=planned.pair_prompts,
            met=planned.met,
        )

    def _states(self, ratings: Mapping[str, Rated]) -> tuple[Floats, Floats]:
        """Rating and RD of every model; one without is new."""
        states = [ratings.get(name, self._fresh) for name in self._roster.model_names]
        return np.array([s.rating for s in states]), np.array([s.rd for s in states])

    def _ranked(self, rating: Floats, rd: Floats) -> NDArray[np.intp]:
        """Enabled models by conservative score, best first, equals by name."""
        roster = self._roster
        score = np.where(roster.enabled, rating - self.policy.deviations * rd, -np.inf)
        return np.lexsort((roster.by_name, -score))[: roster.n_enabled]

    def _times_in_band(self, order: NDArray[np.intp], more: int) -> Floats:
        """Matchups of the window, and `more` to come, in which each model is a contender."""
        known = self._memory.band_time
        part = known.matchups.astype(float)
        unknown = self._memory.tally.matchups - len(known)
        part[order[: self.policy.contenders.band]] += unknown + more
        return part

    def _prompt_for(
        self, lane: Lane, table: Table, proposal: Proposal, session: str | None
    ) -> int | None:
        """The prompt for a pair, None where there is none that may be asked now."""
        if proposal.prompt is not None:
            return proposal.prompt
        i, j = proposal.first, proposal.second
        pair = _pair(i, j)
        allowed = table.can[i] & table.can[j]
        for prompt in self._memory.meetings.used_up(pair, int(table.shared[i, j])):
            allowed[prompt] = False
        for prompt in self._memory.sessions.seen(session, pair):
            allowed[prompt] = False
        options = allowed.nonzero()[0]
        if not len(options):
            return None
        if lane is Lane.EXPLORATION:
            return explored_prompt(table, proposal, options)
        return best_prompt(table, proposal, options, self._memory.planned.row(pair))

    def _matchup(
        self,
        lane: Lane,
        proposal: Proposal,
        prompt: int,
        through: tuple[Lane, ...],
        session: str | None,
    ) -> Matchup:
        """The pair on sides drawn evenly (11).

        Its id holds what is shown to whom, so that a vote from before a restart is not taken
        for one on another matchup with the same number.
        """
        sides = proposal.first, proposal.second
        a, b = sides if self.rng.random() < 0.5 else sides[::-1]
        names, asked = self._roster.model_names, self._roster.prompt_names[prompt]
        shown = "\0".join((names[a], names[b], asked, session or ""))
        return Matchup(
            matchup_id=f"{self._memory.next_id}-{crc32(shown.encode()):08x}",
            model_a=names[a],
            model_b=names[b],
            prompt=asked,
            lane=lane,
            reason=proposal.reason,
            fallen_through=through,
            session=session,
        )

    def _replay(self, battles: BattleLog, ratings: Iterable[Mapping[str, Rated]] | None) -> None:
        """Count votes as if they had been handed out here."""
        check_single_votes(battles)
        battles = battles.select(replay_order(battles))
        models = [self._model(name) for name in battles.models]
        prompts = _numbers(battles.question_id, self._prompt, len(battles))
        sessions = [None] * len(battles) if battles.session is None else battles.session.values()
        columns = battles.a.tolist(), battles.b.tolist(), battles.outcome.tolist()
        self._survey()
        late = len(battles) - self.policy.exposure.window
        stood: Iterable[Mapping[str, Rated] | None] = repeat(None) if ratings is None else ratings
        votes = zip(*columns, prompts, sessions, stood, strict=False)
        for n, (a, b, outcome, prompt, session, before) in enumerate(votes):
            band = None if before is None or n < late else self._band(before)
            self._memory.replay(_pair(models[a], models[b]), prompt, session, outcome, band)

    def _band(self, ratings: Mapping[str, Rated]) -> NDArray[np.intp]:
        return self._ranked(*self._states(ratings))[: self.policy.contenders.band]

    def _model(self, name: str) -> int:
        if name not in self._roster.models:
            self._memory.add_model(name)
        return self._roster.add_model(name)

    def _prompt(self, name: str) -> int:
        if name not in self._roster.prompts:
            self._memory.add_prompt(name)
        return self._roster.add_prompt(name)

    def _survey(self) -> None:
        self._roster.survey()
        self._cause = self._roster.cause()
        self._shares = due_shares(self.policy, self._roster.n_enabled)


def _pair(i: int, j: int) -> Pair:
    return (i, j) if i < j else (j, i)


def _known(numbers: Mapping[str, int], name: str, what: str) -> int:
    if name not in numbers:
        raise MatchmakingError(f"unknown {what} {name!r}; known: {', '.join(numbers)}")
    return numbers[name]


def _numbers(labels: Labels | None, number: Callable[[str], int], n: int) -> list[int]:
    if labels is None:
        return [-1] * n
    known = [number(str(name)) for name in labels.names]
    return [-1 if code < 0 else known[code] for code in labels.codes.tolist()]
