"""The matchup: two models to be compared on a prompt, and why these."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from arena_kit.battles.battle import Battle, Outcome
from arena_kit.files import ArenaError
from arena_kit.policy.constants import DECIDES


class MatchmakingError(ArenaError, ValueError):
    """A matchup that cannot be served, or does not wait for a vote; the message says why."""


class Lane(StrEnum):
    """What a matchup is for (6); before the lanes are turned on, all are `BASELINE` (2, 12).

    `DECIDE` is none of the policy as written: docs/arena.md.
    """

    COVERAGE = "coverage"
    CONTENDER = "contender"
    UNCERTAINTY = "uncertainty"
    EXPLORATION = "exploration"
    DECIDE = DECIDES
    BASELINE = "baseline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matchup:
    """Two models to be compared on a prompt, on the sides given, and why.

    `matchup_id` is random, so a voter may see it. `lane` served the matchup; `fallen_through`
    are the lanes tried before it, which had nothing to serve, the drawn one first.
    """

    matchup_id: str
    model_a: str
    model_b: str
    prompt: str
    lane: Lane
    reason: str
    fallen_through: tuple[Lane, ...] = ()
    session: str | None = None

    @property
    def drawn(self) -> Lane:
        """The lane that was drawn by weight."""
        return self.fallen_through[0] if self.fallen_through else self.lane

    def battle(self, outcome: Outcome, **more: Any) -> Battle:
        """The battle that this matchup becomes with its vote."""
        return Battle(
            model_a=self.model_a,
            model_b=self.model_b,
            winner=outcome,
            question_id=self.prompt,
            lane=str(self.lane),
            session=self.session,
            **more,
        )
