"""A running arena: matchups handed out, votes counted, and both ratings kept vote by vote."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import isnan

import numpy as np
from numpy.typing import ArrayLike

from arena_kit.battles.battle import Outcome, read_outcome
from arena_kit.battles.log import BattleLog
from arena_kit.matchmaking.matchup import Matchup
from arena_kit.matchmaking.scheduler import Scheduler
from arena_kit.policy.constants import Policy
from arena_kit.policy.ratings import glicko2_of, update_elo, votes_in_order
from arena_kit.policy.rules import ranked
from arena_kit.rating.glicko2 import GlickoState

_SCORES = {
    Outcome.MODEL_A: 1.0,
    Outcome.MODEL_B: 0.0,
    Outcome.TIE: 0.5,
    Outcome.BOTH_BAD: None,
}


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
        start, legacy = policy.glicko, policy.legacy_elo
        fresh = GlickoState(start.rating, start.rd, start.volatility)
        self._method = glicko2_of(policy)
        self.ratings: dict[str, GlickoState] = defaultdict(lambda: fresh)
        self.elo: dict[str, float] = defaultdict(lambda: legacy.initial)
        self.scheduler = Scheduler(
            policy, models, prompts, rng=rng, available=available, battles=battles
        )
        if battles is not None:
            self._replay(battles)

    def next_matchup(self, session: str | None = None) -> Matchup:
        """The next matchup, which waits for its vote from now on."""
        return self.scheduler.next_matchup(self.ratings, session=session)

    def vote(self, matchup_id: str, outcome: Outcome) -> Matchup:
        """Count the vote on a matchup, and rate its models."""
        outcome = read_outcome(outcome)
        matchup = self.scheduler.record(matchup_id, outcome)
        self._rate(matchup.model_a, matchup.model_b, _SCORES[outcome])
        return matchup

    def order(self) -> list[str]:
        """The enabled models as they are published, best first."""
        if self.policy.phase.orders_by == "legacy_elo":
            return sorted(self.scheduler.enabled, key=lambda model: (-self.elo[model], model))
        standings = self.scheduler.coverage().standings(self.ratings)
        return [standing.model for standing in ranked(self.policy, standings)]

    def _replay(self, battles: BattleLog) -> None:
        """Rate the votes of the past, and note who was a contender before each of the last."""
        in_window = len(battles) - self.policy.exposure.window
        for n, vote in enumerate(votes_in_order(battles)):
            if n >= in_window:
                self.scheduler.note_contenders(self.ratings)
            self._rate(*vote)

    def _rate(self, a: str, b: str, score: float | None) -> None:
        """Take in what the first model got; None is both-bad, NaN moves nothing."""
        update_elo(self.elo, a, b, score, self.policy.legacy_elo)
        if score is not None and not isnan(score):
            states = self.ratings
            states[a], states[b] = self._method.updated(states[a], states[b], score)
