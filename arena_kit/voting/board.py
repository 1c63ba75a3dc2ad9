"""The live board: where models stand after the last vote, and who was shown how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from arena_kit.battles.log import BattleLog
from arena_kit.policy.constants import Policy
from arena_kit.policy.coverage import Coverage, ExposureFairness
from arena_kit.policy.rules import PublicationStatus, Standing, publication_status, ranked
from arena_kit.rating.base import RatingError
from arena_kit.rating.glicko2.method import GlickoState
from arena_kit.validity.leaderboard import Leaderboard, leaderboard
from arena_kit.voting.audit import ExposureAudit, audited
from arena_kit.voting.export import battle_log
from arena_kit.voting.records import StoredVote
from arena_kit.voting.texts import ArenaTexts


@dataclass(frozen=True, kw_only=True, eq=False)
class LiveBoard:
    """An arena after its last vote; a replay of its export gives the same, to the last digit.

    `ratings` and `elo` are of the models that may be matched, `order` is as published. `votes` are
    those that count; `skips` and `removed` count the others, `waiting` the matchups handed out.
    What is a property is computed when it is asked for.
    """

    policy: Policy
    texts: ArenaTexts = field(repr=False)
    ratings: Mapping[str, GlickoState]
    elo: Mapping[str, float]
    order: tuple[str, ...]
    coverage: Coverage
    votes: tuple[StoredVote, ...] = field(repr=False)
    skips: int
    removed: int
    waiting: int

    @cached_property
    def battles(self) -> BattleLog:
        """The votes that count, as battles."""
        return battle_log(self.votes)

    @cached_property
    def standings(self) -> tuple[Standing, ...]:
        """What the rules ask of every model, best conservative score first."""
        return tuple(ranked(self.policy, self.coverage.standings(self.ratings)))

    @cached_property
    def status(self) -> PublicationStatus:
        """What the board may be called."""
        return publication_status(self.policy, self.standings, self.coverage.pair)

    @cached_property
    def leaderboard(self) -> Leaderboard:
        """The whole leaderboard of the same votes; raises `RatingError` where none is possible."""
        models, prompts = self.texts.models, tuple(self.texts.prompts)
        return leaderboard(self.battles, self.policy, models=models, prompts=prompts)

    @cached_property
    def exposure(self) -> ExposureAudit:
        """How often the models of each provider were shown, with private and withdrawn ones."""
        return audited(self.battles, self.texts, self._fairness())

    def _fairness(self) -> tuple[ExposureFairness, ...]:
        """Every matched model's exposure beside what it is due since it joined (7.1)."""
        try:
            return self.leaderboard.fairness
        except RatingError:  # nobody voted yet
            return self.coverage.fairness(())
