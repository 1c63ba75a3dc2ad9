"""The leaderboard: battles and the policy in, ordered rows with every published metric out.

Numbers in docstrings are sections of the policy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from arena_kit.battle_log import BattleLog
from arena_kit.board.policy_ratings import epoch_of, final_states, rated, time_in_band
from arena_kit.board.rows import BoardRow, beside, published
from arena_kit.matchmaking.coverage import Coverage, ExposureFairness
from arena_kit.matchmaking.policy import Policy
from arena_kit.matchmaking.rules import (
    ContenderBand,
    PublicationStatus,
    QualityFloor,
    contender_band,
    publication_status,
    quality_checks,
    ranked,
)
from arena_kit.rating.base import Ratings
from arena_kit.rating.glicko2 import GlickoHistory, GlickoState


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What is kept of an earlier board: its official ranks, and the method they rest on."""

    epoch: str
    ranks: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderboard:
    """The rows in the published order, and what they rest on.

    `epoch` names the method of the order; ranks are compared only within one. `battles`,
    `coverage`, `history` and `strengths` are what the rows were computed from.
    """

    policy: Policy
    epoch: str
    rows: tuple[BoardRow, ...]
    status: PublicationStatus
    band: ContenderBand
    checks: tuple[QualityFloor, ...]
    fairness: tuple[ExposureFairness, ...]
    movement: str
    battles: BattleLog = field(repr=False)
    coverage: Coverage = field(repr=False)
    history: GlickoHistory = field(repr=False)
    strengths: Ratings = field(repr=False)

    def __getitem__(self, model: str) -> BoardRow:
        for row in self.rows:
            if row.model == model:
                return row
        raise KeyError(f"{model!r} is not on the board; on it: {', '.join(self.order)}")

    @property
    def order(self) -> tuple[str, ...]:
        """The models in the published order."""
        return tuple(row.model for row in self.rows)

    @property
    def conservative_order(self) -> tuple[str, ...]:
        """The models by conservative score, whatever is published (5.2)."""
        return tuple(r.model for r in sorted(self.rows, key=lambda row: row.conservative_rank))

    def earlier(self) -> Earlier:
        """What a later board needs of this one."""
        ranks = {r.model: r.official_rank for r in self.rows if r.official_rank is not None}
        return Earlier(epoch=self.epoch, ranks=ranks)


def leaderboard(
    battles: BattleLog,
    policy: Policy | None = None,
    *,
    earlier: Earlier | None = None,
    models: Collection[str] | None = None,
    prompts: Collection[str] | None = None,
) -> Leaderboard:
    """The board of a log; raises `RatingError` where no rating exists.

    Ranks are compared with those of `earlier`, if they rest on the same method. `models` are
    the enabled models and `prompts` the active prompts, each by default all of the log; a
    model without a vote that counts stands where new models begin.
    """
    policy = policy or Policy()
    coverage = Coverage.of(battles, policy, models=models, prompts=prompts)
    history, strengths = rated(battles, policy)
    states = _states(policy, coverage, final_states(history))
    standings = ranked(policy, coverage.standings(states))
    order = [standing.model for standing in standings]
    fairness = coverage.fairness(time_in_band(history, policy, order))
    known = beside(battles, coverage, strengths, states=states, fairness=fairness, order=order)
    movement = _movement(policy, earlier)
    before = earlier.ranks if earlier and not movement else {}
    return Leaderboard(
        policy=policy,
        epoch=epoch_of(policy),
        rows=published(policy, standings, known, before),
        status=publication_status(policy, standings, coverage.pair),
        band=contender_band(policy, standings),
        checks=quality_checks(policy, standings),
        fairness=fairness,
        movement=movement,
        battles=battles,
        coverage=coverage,
        history=history,
        strengths=strengths,
    )


def _states(
    policy: Policy, coverage: Coverage, known: Mapping[str, GlickoState]
) -> dict[str, GlickoState]:
    """Where every enabled model stands."""
    start = policy.glicko
    fresh = GlickoState(start.rating, start.rd, start.volatility)
    enabled = zip(coverage.models, coverage.enabled, strict=True)
    return {model: known.get(model, fresh) for model, is_enabled in enabled if is_enabled}


def _movement(policy: Policy, earlier: Earlier | None) -> str:
    """Why ranks are not compared; empty where they are."""
    if earlier is None:
        return "no earlier board to compare ranks with"
    if earlier.epoch != epoch_of(policy):
        return (
            f"ranks before rest on another method ({earlier.epoch}), now on {epoch_of(policy)}: "
            "a change of method is not shown as movement"
        )
    return ""
