"""The leaderboard: battles and the policy in, ordered rows with every published metric out.

Numbers in docstrings are sections of the policy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple

import numpy as np

from arena_kit.battles.battle import A_WINS, TIE
from arena_kit.battles.display import html_table
from arena_kit.battles.log import BattleLog
from arena_kit.policy.constants import Phase, Policy
from arena_kit.policy.coverage import Coverage, ExposureFairness
from arena_kit.policy.order import (
    OrderStatus,
    PairOrder,
    neighbour_orders,
    order_status,
    votes_per_week,
)
from arena_kit.policy.ratings import epoch_of, exposure_due, final_states, legacy_elo, rated
from arena_kit.policy.rules import (
    Badge,
    ContenderBand,
    PublicationStatus,
    QualityFloor,
    Standing,
    confidence,
    contender_band,
    provisional_state,
    publication_status,
    quality_checks,
    quality_floor,
    ranked,
    ranked_neighbours,
    stability_badge,
)
from arena_kit.rating.base import Rating, RatingError, Ratings
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.claims import claims
from arena_kit.rating.claims.power import Fragile, fragility
from arena_kit.rating.glicko2.method import GlickoHistory, GlickoState
from arena_kit.validity.prompt_scores import ScoreSummary, adjusted_scores, raw_scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What is kept of an earlier board: its official ranks, and the method they rest on."""

    epoch: str
    ranks: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderboard:
    """The rows in the published order, and what they rest on.

    `status` is by the rules that are kept, `order_decided` by what the votes decide about the same
    top. `movement` is why ranks are not compared with an earlier board, empty where they are.
    `adjacent` is what the votes say of every two neighbours by conservative score, provisional
    ones included. `battles`, `coverage`, `history` and `strengths` are what the rows were
    computed from.
    """

    rows: tuple[BoardRow, ...]
    status: PublicationStatus
    order_decided: OrderStatus
    band: ContenderBand
    checks: tuple[QualityFloor, ...]
    fairness: tuple[ExposureFairness, ...]
    movement: str
    adjacent: tuple[PairOrder, ...] = field(repr=False)
    battles: BattleLog = field(repr=False)
    coverage: Coverage = field(repr=False)
    history: GlickoHistory = field(repr=False)
    strengths: Ratings = field(repr=False)

    def _repr_html_(self) -> str:
        """The rows as a small table; `board_tables.board` is the published form."""
        legacy = self.policy.phase.orders_by == "legacy_elo"
        rows = [
            {
                "#": row.rank,
                "model": row.model,
                "badge": str(row.badge),
                "rating": f"{row.legacy_elo:.0f}"
                if legacy
                else f"{row.conservative:.0f} (raw {row.rating:.0f})",
                "confidence": f"{row.confidence}%",
                "coverage": f"{100 * row.prompt_coverage:.0f}%",
                "votes": row.votes,
            }
            for row in self.rows
        ]
        return html_table(rows, title=f"Leaderboard ordered by {self.epoch}")

    def __getitem__(self, model: str) -> BoardRow:
        for row in self.rows:
            if row.model == model:
                return row
        raise KeyError(f"{model!r} is not on the board; on it: {', '.join(self.order)}")

    @property
    def policy(self) -> Policy:
        """The policy that the board follows."""
        return self.coverage.policy

    @property
    def epoch(self) -> str:
        """The method of the published order; ranks are compared only within one."""
        return epoch_of(self.policy)

    @property
    def order(self) -> tuple[str, ...]:
        """The models in the published order."""
        return tuple(row.model for row in self.rows)

    @property
    def conservative_order(self) -> tuple[str, ...]:
        """The models by conservative score, whatever is published (5.2)."""
        return tuple(r.model for r in sorted(self.rows, key=lambda row: row.conservative_rank))

    def fragility(self) -> Fragile | None:
        """How few votes would change the first place of Bradley–Terry's order, on which claims
        rest; None where that cannot be asked.
        """
        try:
            return fragility(self.battles, BradleyTerry(**self.strengths.settings)).first
        except RatingError:
            return None

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
    states = _states(coverage, final_states(history))
    standings = ranked(policy, coverage.standings(states))
    order = [standing.model for standing in standings]
    fairness = coverage.fairness(exposure_due(history, policy, order, battles))
    pace = votes_per_week(battles)
    facts = _facts(
        battles,
        coverage,
        strengths,
        states=states,
        fairness=fairness,
        order=order,
        neighbours=ranked_neighbours(policy, standings, strengths, pace),
    )
    movement = _movement(epoch_of(policy), earlier)
    before = earlier.ranks if earlier and not movement else {}
    status = publication_status(policy, standings, coverage.pair)
    top = status.top or order[: policy.publication.top]
    return Leaderboard(
        rows=_published(standings, facts, before),
        status=status,
        order_decided=order_status(policy, top, strengths, pace),
        band=contender_band(policy, standings),
        checks=quality_checks(policy, standings),
        fairness=fairness,
        movement=movement,
        adjacent=neighbour_orders(policy, order, strengths, pace),
        battles=battles,
        coverage=coverage,
        history=history,
        strengths=strengths,
    )


def _states(coverage: Coverage, known: Mapping[str, GlickoState]) -> dict[str, GlickoState]:
    """Where every enabled model stands."""
    start = coverage.policy.glicko
    fresh = GlickoState(start.rating, start.rd, start.volatility)
    enabled = zip(coverage.models, coverage.enabled, strict=True)
    return {model: known.get(model, fresh) for model, is_enabled in enabled if is_enabled}


def _movement(epoch: str, earlier: Earlier | None) -> str:
    """Why ranks are not compared; empty where they are."""
    if earlier is None:
        return "no earlier board to compare ranks with"
    if earlier.epoch != epoch:
        return (
            f"ranks before rest on another method ({earlier.epoch}), now on {epoch}: "
            "a change of method is not shown as movement"
        )
    return ""


_NOTHING = ScoreSummary(average=None, spread=None, consistency=None, prompts=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRow:
    """One model with every metric of the policy (9.1, 9.2).

    `rank` is the place in the published order and `conservative_rank` that by conservative
    score; `official_rank` counts only models that official claims may name (5.3). `raw` and
    `adjusted` are scores per prompt. `bt_*` are Bradley–Terry's: what the evidence says,
    where RD does not. `tier` counts groups of models, each decidedly above all later ones; None
    where the evidence does not reach.
    """

    rank: int
    model: str
    official_rank: int | None
    rank_change: int | None
    conservative_rank: int
    conservative: float
    rating: float
    rd: float
    volatility: float
    confidence: int
    badge: Badge
    badge_reasons: tuple[str, ...]
    provisional: bool
    provisional_reasons: tuple[str, ...]
    prompt_coverage: float
    pair_coverage: float | None
    raw: ScoreSummary
    adjusted: ScoreSummary
    wins: int
    losses: int
    ties: int
    votes: int
    decisive: int
    both_bad: int
    quality_floor: float | None
    quality_check: bool
    exposure: int
    exposure_target: float
    exposure_equal_target: float
    exposure_within: bool
    bt_rating: float | None
    bt_se: float | None
    bt_low: float | None
    bt_high: float | None
    tier: int | None
    legacy_elo: float
    legacy_rank: int


class _Facts(NamedTuple):
    """What is known of every model beside its standing, by name, under the policy."""

    policy: Policy
    state: Mapping[str, GlickoState]
    fairness: Mapping[str, ExposureFairness]
    pairs: Mapping[str, float]
    record: Mapping[str, tuple[int, int, int]]
    raw: Mapping[str, ScoreSummary]
    adjusted: Mapping[str, ScoreSummary]
    strength: Mapping[str, Rating]
    tier: Mapping[str, int]
    neighbours: Mapping[str, tuple[PairOrder, ...]]
    legacy: Mapping[str, float]


def _facts(
    battles: BattleLog,
    coverage: Coverage,
    strengths: Ratings,
    *,
    states: Mapping[str, GlickoState],
    fairness: Iterable[ExposureFairness],
    order: Sequence[str],
    neighbours: Mapping[str, tuple[PairOrder, ...]],
) -> _Facts:
    """Collect what the rows need; `order` is that of the conservative score."""
    policy = coverage.policy
    start = dict.fromkeys(states, policy.legacy_elo.initial)
    return _Facts(
        policy=policy,
        state=states,
        fairness={each.model: each for each in fairness},
        pairs=coverage.pair_scores(order),
        record=records(battles),
        raw=raw_scores(battles, policy.prompt_scores),
        adjusted=adjusted_scores(battles, strengths, policy.prompt_scores),
        strength={row.model: row for row in strengths.ratings},
        tier=_tiers(strengths, order),
        neighbours=neighbours,
        legacy=start | legacy_elo(battles, policy.legacy_elo),
    )


def _tiers(strengths: Ratings, enabled: Collection[str]) -> dict[str, int]:
    """The number of each model's tier; tiers of which no model is enabled do not count."""
    shown = [[m for m in group if m in enabled] for group in claims.tiers(strengths)]
    return {model: n for n, group in enumerate(filter(None, shown), 1) for model in group}


def records(battles: BattleLog) -> dict[str, tuple[int, int, int]]:
    """Wins, losses and draws of every model; a draw is a tie, whatever its share (8.2)."""
    n, tied = len(battles.models), (battles.outcome == TIE) & ~battles.flags()
    first_won, decided = battles.outcome == A_WINS, battles.decisive()
    winner = np.where(first_won, battles.a, battles.b)[decided]
    loser = np.where(first_won, battles.b, battles.a)[decided]
    drawn = np.concatenate([side[tied] for side in (battles.a, battles.b)])
    counts = [np.bincount(each, minlength=n).tolist() for each in (winner, loser, drawn)]
    return {model: (w, x, d) for model, w, x, d in zip(battles.models, *counts, strict=True)}


def _published(
    standings: Sequence[Standing], facts: _Facts, before: Mapping[str, int]
) -> tuple[BoardRow, ...]:
    """A row per standing, in the published order (5.2, 12); `standings` are best first.

    Before the migration every model is officially ranked, by legacy Elo; after it only models
    that are not provisional. `before` has the official ranks that may be compared: a model that
    had none then, or has none now, did not move.
    """
    phase, names = facts.policy.phase, [standing.model for standing in standings]
    by_elo = sorted(names, key=lambda model: (-facts.legacy[model], model))
    rows = [
        _row(standing, facts, conservative_rank=n, legacy_rank=by_elo.index(standing.model) + 1)
        for n, standing in enumerate(standings, 1)
    ]
    if phase.orders_by == "legacy_elo":
        rows.sort(key=lambda row: row.legacy_rank)
    official, everybody, placed = count(1), phase < Phase.MIGRATION, []
    for rank, row in enumerate(rows, 1):
        named = next(official) if everybody or not row.provisional else None
        moved = None if named is None or row.model not in before else before[row.model] - named
        placed.append(replace(row, rank=rank, official_rank=named, rank_change=moved))
    return tuple(placed)


def _row(
    standing: Standing, facts: _Facts, *, conservative_rank: int, legacy_rank: int
) -> BoardRow:
    """One model, its ranks in the published order still open."""
    policy = facts.policy
    model = standing.model
    badge = stability_badge(policy, standing, facts.neighbours.get(model, ()))
    provisional = provisional_state(policy, standing)
    floor, fair = quality_floor(policy, standing), facts.fairness[model]
    wins, losses, ties = facts.record.get(model, (0, 0, 0))
    strength = facts.strength.get(model)
    return BoardRow(
        rank=0,
        model=model,
        official_rank=None,
        rank_change=None,
        conservative_rank=conservative_rank,
        conservative=standing.conservative(policy),
        rating=standing.rating,
        rd=standing.rd,
        volatility=facts.state[model].volatility,
        confidence=confidence(policy, standing.rd).percent,
        badge=badge.badge,
        badge_reasons=badge.reasons,
        provisional=provisional.provisional,
        provisional_reasons=provisional.reasons,
        prompt_coverage=standing.prompt_coverage,
        pair_coverage=facts.pairs.get(model),
        raw=facts.raw.get(model, _NOTHING),
        adjusted=facts.adjusted.get(model, _NOTHING),
        wins=wins,
        losses=losses,
        ties=ties,
        votes=standing.votes,
        decisive=standing.decisive,
        both_bad=standing.both_bad,
        quality_floor=floor.score,
        quality_check=floor.check,
        exposure=fair.exposure,
        exposure_target=fair.target,
        exposure_equal_target=fair.equal_target,
        exposure_within=fair.within,
        bt_rating=None if strength is None else strength.rating,
        bt_se=None if strength is None else strength.extra["se"],
        bt_low=None if strength is None else strength.ci_low,
        bt_high=None if strength is None else strength.ci_high,
        tier=facts.tier.get(model),
        legacy_elo=facts.legacy[model],
        legacy_rank=legacy_rank,
    )
