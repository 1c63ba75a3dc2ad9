"""The files of a placement's record, made from the placed model."""

from __future__ import annotations

from dataclasses import asdict
from math import isnan
from typing import Any

from arena_kit.battles.battle import Source
from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import Rating, Ratings
from arena_kit.rating.claims import claims
from arena_kit.rating.with_judge.placement import Placed
from arena_kit.reporting import placement
from arena_kit.reporting.board import Board, board_of
from arena_kit.runs.placement.plan import PlacementPlan
from arena_kit.runs.record.artifacts import rows_with_ranks

_INTERVAL = (
    "ci_low, ci_high, ranks and above of the placed model hold the evidence alone: where this "
    "judge puts it; with_judge_error also holds how far this judge is from people, null where "
    "unknown, and is what the board shows"
)


def placement_summary(placed: Placed) -> dict[str, Any]:
    """placement.json: both ways of placing with rank ranges and probabilities, by the evidence
    alone, and the board as it is shown, which holds what is known of the judge's error. `ranks`
    hold for all models at once, `ranks_alone` for the placed model, named beforehand.
    """
    ways = {"joint": placed.joint, "anchored": placed.anchored, "board": placed.shown}
    return {
        "model": placed.model,
        "joint": rows_with_ranks(placed.joint),
        "anchored": rows_with_ranks(placed.anchored),
        "ranks_alone": {way: claims.single_rank_ranges(r)[placed.model] for way, r in ways.items()},
        "above": {
            "joint": _above(placed.joint, placed.model),
            "anchored": _above(placed.anchored, placed.model),
        },
        "hidden_human_rating": placed.hidden and placed.hidden.as_dict(),
        "calibration": placed.calibration and asdict(placed.calibration),
        "calibration_error": placed.calibration_error,
        "judge_error": placed.judge_error and asdict(placed.judge_error),
        "with_judge_error": placed.cautious and placed.cautious.as_dict(),
        "interval": _INTERVAL,
        "board": {
            "heading": placement.heading(placed),
            "caution": placement.caution(placed),
            "ratings": rows_with_ranks(placed.shown),
            "above": _above(placed.shown, placed.model),
        },
        "left_out": placed.left_out,
        "unused": placed.unused,
        "n_judged": placed.n_judged,
        "n_human": placed.human.n_battles,
        "dropped": placed.joint.dropped,
    }


def placement_board(placed: Placed, title: str, in_votes: str) -> Board:
    """The board as it is shown, the placed model marked; beside it both ways of placing by the
    evidence alone.
    """
    shown, ways = placed.shown, {"joint": placed.joint, "anchored": placed.anchored}
    board = board_of({"": shown}, beside={way: {"": each} for way, each in ways.items()})
    said = [sentence for sentence in (placement.caution(placed), in_votes) if sentence]
    rows = [
        row.model_copy(update={"marked": True}) if row.model == placed.model else row
        for row in board.ratings
    ]
    dimension = board[""].model_copy(update={"sentences": said, "orders": []})
    heading = f"{placed.model} in {title}: {placement.heading(placed)}"
    return board.model_copy(update={"title": heading, "ratings": rows, "dimensions": [dimension]})


def elo_ratings(placed: Placed, plan: PlacementPlan) -> dict[str, Any]:
    """elo_ratings.json: every model's rating, and how it was made."""
    names = ("model", "rating", "ci_low", "ci_high", "n_battles")
    return {
        "arena": plan.arena,
        "model": placed.model,
        "judge_model": plan.judge_model,
        "n_bootstraps": plan.settings.n_bootstraps,
        "seed": plan.params.seed,
        "interval": _INTERVAL,
        "with_judge_error": _interval(placed.cautious),
        "ratings": [
            {name: getattr(row, name) for name in names}
            | {"source": "evaluated" if row.model == placed.model else "human"}
            for row in placed.joint.ratings
        ],
    }


def bootstrap_rows(ratings: Ratings) -> list[dict[str, object]]:
    """bootstrap_ratings.csv: every model's rating in each resample."""
    return [dict(zip(ratings.models, row, strict=True)) for row in ratings.replicates.tolist()]


def judged_battles(battles: BattleLog) -> BattleLog:
    """The battles that the judge decided, of those of the joint fit."""
    if battles.source is None:
        raise TypeError("battles without a source")
    return battles.select(battles.source.values() == str(Source.LLM_JUDGE))


def _above(ratings: Ratings, model: str) -> dict[str, float]:
    """How probable it is that the model is above each other one."""
    row = claims.above(ratings)[ratings.models.index(model)]
    pairs = zip(ratings.models, row, strict=True)
    return {m: float(p) for m, p in pairs if m != model and not isnan(p)}


def _interval(row: Rating | None) -> dict[str, float | None] | None:
    return None if row is None else {"ci_low": row.ci_low, "ci_high": row.ci_high}
