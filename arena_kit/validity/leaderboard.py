"""The leaderboard: battles and the policy in, ordered rows with every published metric out.

Numbers in docstrings are sections of the policy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count, groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import A_WINS, BOTH_BAD, TIE
from arena_kit.battles.display import html_table
from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError
from arena_kit.matchmaking.arena import Arena
from arena_kit.policy import rules
from arena_kit.policy.constants import Phase, Policy, PromptScores
from arena_kit.policy.coverage import Coverage, ExposureFairness
from arena_kit.policy.ratings import epoch_of, rated
from arena_kit.rating.base import RatingError, Ratings, expected_share, scores
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.claims import claims
from arena_kit.rating.claims.power import Fragile, fragility
from arena_kit.rating.glicko2 import GlickoHistory

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
#: A model's scores over prompts; None where there are too few prompts to say.
Scores = dict[str, float | int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What is kept of an earlier board: its official ranks, and the method they rest on."""

    epoch: str
    ranks: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderboard:
    """The rows in the published order, and their data.

    `status` is by the rules that are kept, `order_decided` by what the votes decide about the same
    top. `movement` is why ranks are not compared with an earlier board, empty where they are.
    `adjacent` is what the votes say of every two neighbours by conservative score, provisional
    ones included. `battles`, `coverage`, `history` and `strengths` are what the rows were
    computed from.
    """

    rows: tuple[LeaderboardRow, ...]
    status: rules.PublicationStatus
    order_decided: rules.OrderStatus
    band: tuple[str, ...]
    checks: tuple[rules.QualityFloor, ...]
    fairness: tuple[ExposureFairness, ...]
    movement: str
    adjacent: tuple[rules.PairOrder, ...] = field(repr=False)
    battles: BattleLog = field(repr=False)
    coverage: Coverage = field(repr=False)
    history: GlickoHistory = field(repr=False)
    strengths: Ratings = field(repr=False)

    def _repr_html_(self) -> str:
        """The rows as a small table; `policy_tables.board` is the published form."""
        legacy = self.policy.phase.orders_by == "legacy_elo"
        rows = [
            {
                "#": row.rank,
                "model": row.model,
                "badge": str(row.badge),
                "rating": f"{row.legacy_elo if legacy else row.conservative:.0f}",
                "votes": row.votes,
            }
            for row in self.rows
        ]
        return html_table(rows, title=f"Leaderboard ordered by {self.epoch}")

    def __getitem__(self, model: str) -> LeaderboardRow:
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

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        phase, fragile = self.policy.phase, self.fragility()
        status = {"status": self.status.status, "reasons": self.status.reasons}
        return {
            "phase": int(phase),
            "ordered_by": phase.orders_by,
            "epoch": self.epoch,
            "rank_changes": self.movement or "within the epoch",
            "n_votes": len(self.battles),
            "status": {"published": phase.publishes_status, **status},
            "order_decided": self.order_decided.as_dict(),
            "fragility": fragile and asdict(fragile) | {"sentence": fragile.sentence},
            "tiers": self.tiers,
            "contender_band": self.band,
            "rows": [asdict(row) for row in self.rows],
        }

    @property
    def tiers(self) -> list[list[str]]:
        """The models of each tier, as Bradley–Terry orders them."""
        rated = (row for row in self.rows if row.tier is not None)
        by_strength = sorted(rated, key=lambda r: (r.tier, -(r.bt_rating or 0.0), r.model))
        return [[row.model for row in group] for _, group in groupby(by_strength, lambda r: r.tier)]


def earlier_of(board: Mapping[str, Any], source: str) -> Earlier:
    """What an earlier board's JSON says of its ranks."""
    try:
        official = [row for row in board["rows"] if row["official_rank"] is not None]
        ranks = {str(row["model"]): int(row["official_rank"]) for row in official}
        return Earlier(epoch=str(board["epoch"]), ranks=ranks)
    except (KeyError, TypeError, ValueError):
        raise DataError(f"{source}: not a leaderboard of this kind (epoch, rows)") from None


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
    history, strengths = rated(battles, policy)
    arena = Arena(
        policy,
        sorted(battles.models if models is None else models),
        sorted(battles.prompts if prompts is None else prompts),
        rng=np.random.default_rng(),  # nothing is drawn from it
        battles=battles,
    )
    coverage = arena.scheduler.coverage()
    states = {model: arena.ratings[model] for model in arena.scheduler.enabled}
    standings = rules.ranked(policy, coverage.standings(states))
    order = [standing.model for standing in standings]
    fairness = coverage.fairness(arena.scheduler.exposure_due(states))
    pace = rules.votes_per_week(battles)
    neighbours = rules.ranked_neighbours(policy, standings, strengths, pace)
    columns: tuple[Mapping[str, Mapping[str, Any]], ...] = (
        {model: {"volatility": state.volatility} for model, state in states.items()},
        {model: {"pair_coverage": score} for model, score in coverage.pair_scores(order).items()},
        records(battles),
        _exposures(fairness),
        _strengths(strengths, order),
        _legacy(arena.elo, order),
        _named("raw", prompt_scores(battles, policy.prompt_scores)),
        _named("adjusted", prompt_scores(battles, policy.prompt_scores, strengths)),
    )
    metrics = [
        _rules(policy, standing, neighbours.get(standing.model, ()))
        | {name: value for each in columns for name, value in each.get(standing.model, {}).items()}
        for standing in standings
    ]
    movement = _movement(epoch_of(policy), earlier)
    status = rules.publication_status(policy, standings, coverage.pair)
    top = status.top or order[: policy.publication.top]
    return Leaderboard(
        rows=_published(policy, metrics, earlier.ranks if earlier and not movement else {}),
        status=status,
        order_decided=rules.order_status(policy, top, strengths, pace),
        band=rules.contender_band(policy, standings),
        checks=rules.quality_checks(policy, standings),
        fairness=fairness,
        movement=movement,
        adjacent=rules.neighbour_orders(policy, order, strengths, pace),
        battles=battles,
        coverage=coverage,
        history=history,
        strengths=strengths,
    )


def _movement(epoch: str, earlier: Earlier | None) -> str:
    """Why ranks are not compared; empty where they are."""
    if earlier is None:
        return "there is no earlier board"
    if earlier.epoch != epoch:
        return f"the method changed from {earlier.epoch} to {epoch}"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderboardRow:
    """One model with every metric of the policy (9.1, 9.2).

    `rank` is the place in the published order and `conservative_rank` that by conservative
    score; `official_rank` counts only models that official claims may name (5.3). `bt_*` are
    Bradley–Terry's: what the evidence says, where RD does not. Scores per prompt are *raw*, or
    *adjusted* for opponents. `tier` counts groups of models, each decidedly above all later ones;
    None where there is too little evidence.
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
    badge: rules.Badge
    badge_reasons: tuple[str, ...]
    provisional: bool
    provisional_reasons: tuple[str, ...]
    prompt_coverage: float
    pair_coverage: float | None = None
    wins: int = 0
    losses: int = 0
    ties: int = 0
    votes: int = 0
    decisive: int = 0
    both_bad: int = 0
    quality_floor: float | None = None
    quality_check: bool = False
    exposure: int = 0
    exposure_target: float = 0.0
    exposure_equal_target: float = 0.0
    exposure_within: bool = True
    bt_rating: float | None = None
    bt_se: float | None = None
    bt_low: float | None = None
    bt_high: float | None = None
    tier: int | None = None
    legacy_elo: float = 0.0
    legacy_rank: int = 0
    avg_score_raw: float | None = None
    spread_raw: float | None = None
    consistency_raw: int | None = None
    prompts_raw: int = 0
    avg_score_adjusted: float | None = None
    spread_adjusted: float | None = None
    consistency_adjusted: int | None = None
    prompts_adjusted: int = 0


def _published(
    policy: Policy, metrics: list[dict[str, Any]], before: Mapping[str, int]
) -> tuple[LeaderboardRow, ...]:
    """A row per model in the published order (5.2, 12); `metrics` are by conservative score.

    Before the migration every model is officially ranked, by legacy Elo; after it only models
    that are not provisional. `before` has the official ranks that may be compared: a model that
    had none then, or has none now, did not move.
    """
    metrics = [{"conservative_rank": n} | each for n, each in enumerate(metrics, 1)]
    if policy.phase.orders_by == "legacy_elo":
        metrics = sorted(metrics, key=lambda each: each["legacy_rank"])
    official, everybody, rows = count(1), policy.phase < Phase.MIGRATION, []
    for rank, each in enumerate(metrics, 1):
        named = next(official) if everybody or not each["provisional"] else None
        was = before.get(each["model"])
        moved = None if named is None or was is None else was - named
        rows.append(LeaderboardRow(rank=rank, official_rank=named, rank_change=moved, **each))
    return tuple(rows)


def _rules(
    policy: Policy, standing: rules.Standing, neighbours: Sequence[rules.PairOrder]
) -> dict[str, Any]:
    """What the rules say of a model."""
    badge, badge_reasons = rules.stability_badge(policy, standing, neighbours)
    official, reasons = rules.established(policy, standing)
    floor = rules.quality_floor(policy, standing)
    return asdict(standing) | {
        "conservative": standing.conservative(policy),
        "confidence": rules.confidence(policy, standing.rd),
        "badge": badge,
        "badge_reasons": badge_reasons,
        "provisional": not official,
        "provisional_reasons": reasons,
        "quality_floor": floor.score,
        "quality_check": floor.check,
    }


def _exposures(fairness: Iterable[ExposureFairness]) -> dict[str, dict[str, Any]]:
    return {
        each.model: {"exposure": each.exposure}
        | {f"exposure_{n}": getattr(each, n) for n in ("target", "equal_target", "within")}
        for each in fairness
    }


def _strengths(strengths: Ratings, enabled: Collection[str]) -> dict[str, dict[str, Any]]:
    """Bradley–Terry of every model; tiers of which no model is enabled do not count."""
    shown = [[m for m in group if m in enabled] for group in claims.tiers(strengths)]
    tier = {model: n for n, group in enumerate(filter(None, shown), 1) for model in group}
    return {
        row.model: {
            "bt_rating": row.rating,
            "bt_se": row.extra["se"],
            "bt_low": row.ci_low,
            "bt_high": row.ci_high,
            "tier": tier.get(row.model),
        }
        for row in strengths.ratings
    }


def _legacy(elo: Mapping[str, float], names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Legacy Elo of these models, and their rank by it."""
    by_elo = sorted(names, key=lambda model: (-elo[model], model))
    return {m: {"legacy_elo": elo[m], "legacy_rank": n} for n, m in enumerate(by_elo, 1)}


def records(battles: BattleLog) -> dict[str, dict[str, int]]:
    """Wins, losses and draws of every model; a draw is a tie, whatever its share (8.2)."""
    n, tied = len(battles.models), (battles.outcome == TIE) & ~battles.flags()
    first_won, decided = battles.outcome == A_WINS, battles.decisive()
    winner = np.where(first_won, battles.a, battles.b)[decided]
    loser = np.where(first_won, battles.b, battles.a)[decided]
    drawn = np.concatenate([side[tied] for side in (battles.a, battles.b)])
    counts = [np.bincount(each, minlength=n).tolist() for each in (winner, loser, drawn)]
    rows = zip(battles.models, *counts, strict=True)
    return {model: {"wins": w, "losses": x, "ties": d} for model, w, x, d in rows}


def vote_sides(battles: BattleLog) -> pd.DataFrame:
    """Every vote twice, as each of its models saw it; models and prompts in codes of the log.

    `score` is 1, 0.5 or 0, and NaN where the vote compares nothing: both-bad, or a judgment
    whose orders disagree. `battle` is the vote's row in the log; -1 is no prompt.
    """
    import pandas as pd

    nothing = (battles.outcome == BOTH_BAD) | battles.flags()
    first = np.where(nothing, np.nan, scores(battles))
    return pd.DataFrame(
        {
            "battle": np.tile(np.arange(len(battles)), 2),
            "model": np.append(battles.a, battles.b).astype(np.int64),
            "other": np.append(battles.b, battles.a).astype(np.int64),
            "prompt": np.tile(battles.codes("question_id"), 2),
            "score": np.append(first, 1 - first),
        }
    )


def prompt_scores(
    battles: BattleLog, rule: PromptScores, strengths: Ratings | None = None
) -> dict[str, Scores]:
    """Every model's scores per prompt: average, spread and consistency (9.1).

    A raw score depends on whom a model was matched with. With `strengths` the scores are adjusted:
    less what a model of average rating would be expected to score against the same opponents.
    """
    _, model, other, prompt, score = vote_sides(battles).to_numpy().T
    if strengths is not None:
        rating = rating_of(battles, strengths)
        score = score - expected_share(np.nanmean(rating) - rating[other.astype(np.intp)])
    use, width = (prompt >= 0) & ~np.isnan(score), max(1, len(battles.prompts))
    size = len(battles.models) * width
    cell = (model * width + prompt)[use].astype(np.intp)
    votes = np.bincount(cell, minlength=size).reshape(-1, width)
    total = np.bincount(cell, score[use], minlength=size).reshape(-1, width)
    counted = votes >= rule.min_votes
    return {
        model: score_summary(total[i, counted[i]] / votes[i, counted[i]], rule)
        for i, model in enumerate(battles.models)
    }


def score_summary(per_prompt: Floats, rule: PromptScores) -> Scores:
    """Mean and population standard deviation of scores, one of each prompt that counts, and
    consistency: 100 where there is no spread and 0 from the cap on.
    """
    n, cap = len(per_prompt), rule.spread_cap
    spread = float(np.std(per_prompt)) if n >= rule.min_prompts else None
    return {
        "avg_score": float(np.mean(per_prompt)) if n else None,
        "spread": spread,
        "consistency": None if spread is None else round(100 * (1 - min(cap, spread) / cap)),
        "prompts": n,
    }


def _named(how: str, scores: Mapping[str, Scores]) -> dict[str, Scores]:
    return {m: {f"{name}_{how}": value for name, value in own.items()} for m, own in scores.items()}


def rating_of(battles: BattleLog, strengths: Ratings) -> Floats:
    """The ratings of a log's models, NaN where there is none."""
    known = {row.model: row.rating for row in strengths.ratings}
    return np.array([known.get(model, np.nan) for model in battles.models])
