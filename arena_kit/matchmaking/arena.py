"""A running arena: matchups handed out, votes counted, and both ratings kept vote by vote."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from arena_kit.battles.battle import Outcome, read_outcome
from arena_kit.battles.log import BattleLog
from arena_kit.matchmaking.matchup import Matchup
from arena_kit.matchmaking.scheduler import Scheduler
from arena_kit.policy.constants import Policy
from arena_kit.policy.ratings import glicko2_of, update_elo, votes_in_order
from arena_kit.policy.rules import ranked
from arena_kit.rating.glicko2.method import GlickoState

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

    def next_matchup(self, session: str | None = None) -> Matchup:
        """The next matchup, which waits for its vote from now on."""
        return self.scheduler.next_matchup(self.ratings, session=session)

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
