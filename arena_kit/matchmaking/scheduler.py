"""The scheduler: draws a lane, takes its best pair that a prompt can serve, and keeps count."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from secrets import token_hex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_kit.battles.battle import OUTCOMES, Outcome, read_outcome
from arena_kit.battles.log import BattleLog
from arena_kit.matchmaking.lanes import (
    PROPOSE,
    Proposal,
    Table,
    best_prompt,
    explored_prompt,
    lane_weights,
)
from arena_kit.matchmaking.matchup import Lane, MatchmakingError, Matchup
from arena_kit.matchmaking.state import State, ordered
from arena_kit.policy.constants import Policy
from arena_kit.policy.coverage import Coverage
from arena_kit.policy.exposure import Due, Floats
from arena_kit.policy.rules import Rated


class Scheduler:
    """Hands out matchups under the policy, and keeps count of what is asked and answered.

    The same policy, models, prompts, battles and generator give the same matchups under ids of
    their own.

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
        self._state = State(policy, models, prompts, available=available, battles=battles)
        self._fresh: Rated = policy.glicko
        weights = lane_weights(policy)
        self._lanes, self._limits = tuple(weights), list(accumulate(weights.values()))[:-1]

    @property
    def enabled(self) -> tuple[str, ...]:
        """The models that may be matched."""
        tally = self._state.tally
        return tuple(m for m, i in tally.models.items() if tally.enabled[i])

    @property
    def active(self) -> tuple[str, ...]:
        """The prompts that may be asked."""
        tally = self._state.tally
        return tuple(p for p, i in tally.prompts.items() if tally.active[i])

    @property
    def pending(self) -> tuple[Matchup, ...]:
        """The matchups that wait for their vote, oldest first."""
        return tuple(waiting.matchup for waiting in self._state.pending.values())

    def coverage(self) -> Coverage:
        """The coverage of the votes cast; what waits for its vote does not count here."""
        return self._state.coverage()

    def note_contenders(self, ratings: Mapping[str, Rated]) -> None:
        """Say where models stood when a vote of the past was cast, for each in its order.

        Only the last ones matter, as many as the rolling window holds.
        """
        self._state.note_past(self._ranked(*self._states(ratings)))

    def exposure_due(self, ratings: Mapping[str, Rated]) -> dict[str, Due]:
        """What each model is due of the rolling window, from the moment it joined (7.1).

        Votes of the past without `note_contenders` count as if today's models and contenders
        had been there then.
        """
        state = self._state
        band = self._ranked(*self._states(ratings))[: self.policy.contenders.band]
        columns = (each.tolist() for each in state.tally.due(state.roster, band))
        dues = map(Due, *columns)
        return dict(zip(state.tally.models, dues, strict=True))

    def enable(self, model: str, *, prompts: Collection[str] | None = None) -> None:
        """Let a model be matched, known or new; `prompts` are those it has responses to."""
        self._state.add(models=[model])
        if prompts is not None:
            self._state.set_responses(model, prompts)
        self._state.tally.enabled[self._state.tally.models[model]] = True
        self._state.survey()

    def disable(self, model: str) -> None:
        """Match a model no more; its votes stay, and what waits for a vote goes on waiting."""
        tally = self._state.tally
        tally.enabled[_known(tally.models, model, "model")] = False
        self._state.survey()

    def activate(self, prompt: str, *, models: Collection[str] | None = None) -> None:
        """Let a prompt be asked, known or new; `models` are those with a response to it."""
        self._state.add(prompts=[prompt])
        if models is not None:
            self._state.set_responders(prompt, models)
        self._state.tally.active[self._state.tally.prompts[prompt]] = True
        self._state.survey()

    def deactivate(self, prompt: str) -> None:
        """Ask a prompt no more, and leave it out of prompt coverage."""
        tally = self._state.tally
        tally.active[_known(tally.prompts, prompt, "prompt")] = False
        self._state.survey()

    def next_matchup(self, ratings: Mapping[str, Rated], *, session: str | None = None) -> Matchup:
        """The next matchup, which waits for its vote from now on.

        A model that has no rating yet is taken as new. The lane is drawn by weight; when it
        has no pair to serve, the next one is tried, and after the last the first. Before the
        lanes are turned on (12), all matchups are drawn as in the scheme before (2).
        """
        if self._state.cause:
            raise MatchmakingError(f"no matchup can be served: {self._state.cause}")
        table = self._table(ratings)
        drawn = bisect(self._limits, self.rng.random())
        lanes = self._lanes[drawn:] + self._lanes[:drawn]
        for tried, lane in enumerate(lanes):
            for proposal in PROPOSE[lane](table):
                prompt = self._prompt_for(lane, table, proposal, session)
                if prompt is not None:
                    matchup = self._matchup(lane, proposal, prompt, lanes[:tried], session)
                    pair = ordered(proposal.first, proposal.second)
                    self._state.wait(matchup, pair, prompt, table.band)
                    return matchup
        rule = self.policy.repeats
        raise MatchmakingError(
            f"no matchup can be served: every prompt of every pair was seen by session {session!r} "
            f"in its last {rule.session_gap} matchups, or met on {rule.same_prompt} times in the "
            f"pair's last {rule.meetings} meetings"
        )

    def record(self, matchup_id: str, outcome: Outcome) -> Matchup:
        """Count the vote on a matchup."""
        return self._state.vote(matchup_id, OUTCOMES.index(read_outcome(outcome)))

    def cancel(self, matchup_id: str) -> Matchup:
        """Give up waiting for a vote, as if the matchup had not been; its session saw it."""
        return self._state.cancel(matchup_id)

    def restore(self, matchup: Matchup, ratings: Mapping[str, Rated]) -> None:
        """Let a matchup wait for its vote again, as one does that was handed out before a restart;
        its models and prompt must be known.
        """
        state = self._state
        i, j = (_known(state.tally.models, m, "model") for m in (matchup.model_a, matchup.model_b))
        prompt = _known(state.tally.prompts, matchup.prompt, "prompt")
        band = self._ranked(*self._states(ratings))[: self.policy.contenders.band]
        state.wait(matchup, ordered(i, j), prompt, band)

    def remember(self, shown: Iterable[tuple[str, str, str, str]]) -> None:
        """Say what sessions were shown (session, two models, prompt), oldest first, instead of what
        their votes tell: skipped and lost matchups count, too.
        """
        self._state.remember(shown)

    def note_shown(self, session: str, first: str, second: str, prompt: str) -> None:
        """Say that a session was shown two models on a prompt elsewhere."""
        self._state.note_shown([(session, first, second, prompt)])

    def was_shown(self, session: str, first: str, second: str, prompt: str) -> bool:
        """Whether a session was shown two models on a prompt within its gap (11)."""
        return self._state.was_shown(session, first, second, prompt)

    def _table(self, ratings: Mapping[str, Rated]) -> Table:
        state, tally = self._state, self._state.tally
        rating, rd = self._states(ratings)
        order = self._ranked(rating, rd)
        band = order[: self.policy.contenders.band]
        due = state.due(band)
        state.gaps.look(band)
        due *= (float(tally.exposure[tally.enabled].sum()) + 2) / float(due[tally.enabled].sum())
        return Table(
            policy=self.policy,
            rng=self.rng,
            names=state.model_names,
            rating=rating,
            rd=rd,
            order=order,
            band=band,
            mates=state.mates,
            can=state.can,
            asked=state.asked,
            shared=state.shared,
            exposure=tally.exposure,
            due=due,
            want=(1 - tally.exposure / np.maximum(due, 1e-9)) / self.policy.exposure.tolerance,
            shown=tally.shown,
            by_prompt=tally.by_prompt,
            by_pair=tally.by_pair,
            pair_prompts=tally.pair_prompts,
            met=tally.met,
            enabled=tally.enabled,
            outlook=state.outlook,
            gaps=state.gaps,
        )

    def _states(self, ratings: Mapping[str, Rated]) -> tuple[Floats, Floats]:
        """Rating and RD of every model; one without is new."""
        states = [ratings.get(name, self._fresh) for name in self._state.model_names]
        return np.array([s.rating for s in states]), np.array([s.rd for s in states])

    def _ranked(self, rating: Floats, rd: Floats) -> NDArray[np.intp]:
        """Enabled models by conservative score, best first, equals by name."""
        state = self._state
        score = np.where(state.tally.enabled, rating - self.policy.deviations * rd, -np.inf)
        return np.lexsort((state.by_name, -score))[: state.n_enabled]

    def _prompt_for(
        self, lane: Lane, table: Table, proposal: Proposal, session: str | None
    ) -> int | None:
        """The prompt for a pair, None where there is none that may be asked now."""
        if proposal.prompt is not None:
            return proposal.prompt
        i, j = proposal.first, proposal.second
        pair = ordered(i, j)
        allowed = table.can[i] & table.can[j]
        for prompt in self._state.meetings.used_up(pair, int(table.shared[i, j])):
            allowed[prompt] = False
        for prompt in self._state.sessions.seen(session, pair):
            allowed[prompt] = False
        options = allowed.nonzero()[0]
        if not len(options):
            return None
        if lane is Lane.EXPLORATION:
            return explored_prompt(table, proposal, options)
        return best_prompt(table, proposal, options, self._state.tally.on_prompts(pair))

    def _matchup(
        self,
        lane: Lane,
        proposal: Proposal,
        prompt: int,
        through: tuple[Lane, ...],
        session: str | None,
    ) -> Matchup:
        """The pair on sides drawn evenly (11).

        Its id is a random token that no generator repeats: whoever votes can tell nothing from
        it, and a vote from before a restart is not taken for one on another matchup.
        """
        sides = proposal.first, proposal.second
        a, b = sides if self.rng.random() < 0.5 else sides[::-1]
        names = self._state.model_names
        return Matchup(
            matchup_id=token_hex(16),
            model_a=names[a],
            model_b=names[b],
            prompt=self._state.prompt_names[prompt],
            lane=lane,
            reason=proposal.reason,
            fallen_through=through,
            session=session,
        )


def _known(numbers: Mapping[str, int], name: str, what: str) -> int:
    if name not in numbers:
        raise MatchmakingError(f"unknown {what} {name!r}; known: {', '.join(numbers)}")
    return numbers[name]
