"""The leaderboard, the weekly report and model pages as plain values, for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.files import DataError
from arena_kit.policy.order import OrderStatus, Verdict
from arena_kit.validity.churn import Churn
from arena_kit.validity.integrity import Integrity, LaneShare
from arena_kit.validity.leaderboard import BoardRow, Earlier, Leaderboard
from arena_kit.validity.model_page import Breakdown, Deficits, ModelDetail
from arena_kit.validity.prompt_scores import ScoreSummary
from arena_kit.validity.sentences import objectives, sentences
from arena_kit.validity.weekly import Validity

_LISTED = 200  # prompts named at most


def flat(row: BoardRow) -> dict[str, Any]:
    """One row as plain values under plain names."""
    values = {name: value for name, value in asdict(row).items() if name not in ("raw", "adjusted")}
    return values | _scores("raw", row.raw) | _scores("adjusted", row.adjusted)


def _scores(how: str, scores: ScoreSummary) -> dict[str, Any]:
    return {
        f"avg_score_{how}": scores.average,
        f"spread_{how}": scores.spread,
        f"consistency_{how}": scores.consistency,
        f"prompts_{how}": scores.prompts,
    }


def to_dict(board: Leaderboard) -> dict[str, Any]:
    """The board as plain values, for JSON."""
    phase = board.policy.phase
    return {
        "phase": int(phase),
        "ordered_by": phase.orders_by,
        "epoch": board.epoch,
        "rank_changes": board.movement or "within the epoch",
        "n_votes": len(board.battles),
        "status": {
            "published": phase.publishes_status,
            "status": board.status.status,
            "reasons": board.status.reasons,
        },
        "order_decided": order_values(board.order_decided),
        "fragility": _fragility(board),
        "tiers": _tiers(board),
        "contender_band": board.band.models,
        "rows": [flat(row) for row in board.rows],
    }


def _fragility(board: Leaderboard) -> dict[str, Any] | None:
    fragile = board.fragility()
    return None if fragile is None else asdict(fragile) | {"sentence": fragile.sentence}


def order_values(order: OrderStatus) -> dict[str, Any]:
    """What is decided about the order of the top, as plain values."""
    return {
        "about": order.about,
        "top": order.top,
        "margin": order.margin,
        "whole": order.whole,
        "counts": {verdict.value: len(order.of(verdict)) for verdict in Verdict},
        "pairs": [asdict(pair) for pair in order.pairs],
        "by_votes": [asdict(pair) for pair in order.by_votes],
        "sentence": order.sentence,
    }


def _tiers(board: Leaderboard) -> list[list[str]]:
    """The models of each tier, as Bradley–Terry orders them."""
    by_strength = sorted(
        (row for row in board.rows if row.tier is not None),
        key=lambda row: (row.tier, -(row.bt_rating or 0.0), row.model),
    )
    return [[row.model for row in group] for _, group in groupby(by_strength, lambda r: r.tier)]


def earlier_of(board: Mapping[str, Any], source: str) -> Earlier:
    """What an earlier board's JSON says of its ranks."""
    try:
        ranked = [row for row in board["rows"] if row["official_rank"] is not None]
        ranks = {str(row["model"]): int(row["official_rank"]) for row in ranked}
        return Earlier(epoch=str(board["epoch"]), ranks=ranks)
    except (KeyError, TypeError, ValueError):
        raise DataError(f"{source}: not a leaderboard of this kind (epoch, rows)") from None


def validity_values(
    report: Validity, lanes: Sequence[LaneShare], controls: Integrity
) -> dict[str, Any]:
    """Everything in the report, under plain names."""
    board = report.now
    return {
        "phase": int(board.policy.phase),
        "published": report.published,
        "week": report.week.label if report.week else None,
        "week_complete": report.complete if report.week else None,
        "compare_week": report.compared.label if report.compared else None,
        "comparison": report.note or "compared",
        "n_votes": len(board.battles),
        "n_votes_in_the_week": int(report.in_week.sum()),
        "n_votes_after_the_week": report.later,
        "status": {
            "published": board.policy.phase.publishes_status,
            "status": board.status.status,
            "reasons": board.status.reasons,
            "before": report.before.status.status if report.before else None,
        },
        "order_decided": order_values(board.order_decided),
        "objectives": [asdict(each) for each in objectives(report)],
        "sentences": sentences(report),
        "feasibility": report.feasibility.reasons,
        "coverage_fairness": [
            asdict(row)
            | {"deviation": row.deviation, "within": row.within, "within_equal": row.within_equal}
            for row in board.fairness
        ],
        "prompt_fairness": [asdict(row) for row in report.prompts],
        "pair_completeness": [asdict(row) for row in report.pairs],
        "confidence_stability": {
            "settled_rd": report.feasibility.settled_rd,
            "models": [asdict(row) for row in report.confidence],
        },
        "top_rank_churn": _churn(report.churn),
        "quality_checks": [asdict(each) for each in board.checks],
        "lanes": [asdict(lane) for lane in lanes],
        "integrity": asdict(controls),
    }


def _churn(churn: Churn | None) -> dict[str, Any] | None:
    if churn is None:
        return None
    return {
        "top": churn.top,
        "pairs_swapped": churn.swaps,
        "pairs_swapped_inside_bands": churn.swaps_inside,
        "moves": [asdict(move) | {"inside_bands": move.inside} for move in churn.moves],
    }


def detail_values(detail: ModelDetail, least: int = 1) -> dict[str, Any]:
    """One model's page; rating and RD as they stood after each of its votes.

    Prompts with fewer than `least` votes of the model are left out, as they count nowhere.
    """
    path = detail.path
    return {
        "model": detail.model,
        "recent_votes": len(detail.summary.form),
        "summary": asdict(detail.summary),
        "neighbours": [asdict(each) for each in detail.neighbours],
        "both_bad_trend": [
            asdict(each) | {"quality_floor": each.quality_floor} for each in detail.trend
        ],
        "deficits": _deficits(detail.deficits),
        "prompts": [_breakdown(each) for each in detail.prompts if each.votes >= least],
        "opponents": [_breakdown(each) for each in detail.opponents],
        "confidence_history": {
            "time": None if path.moments is None else _times(path.moments),
            "rating": np.round(path.rating, 3).tolist(),
            "rd": np.round(path.rd, 3).tolist(),
        },
    }


def _breakdown(votes: Breakdown) -> dict[str, Any]:
    times = {"first_seen": _time(votes.first_seen), "last_seen": _time(votes.last_seen)}
    return asdict(votes) | times


def _deficits(deficits: Deficits) -> dict[str, Any]:
    """What is missing, in parts of 1; a cell of the heatmap is the sum of its two."""
    parts = zip(deficits.prompts, deficits.on_prompt.tolist(), strict=True)
    lacking = sorted(((-part, name) for name, part in parts if part > 0))[:_LISTED]
    against = zip(deficits.opponents, deficits.against.round(3).tolist(), strict=True)
    return {
        "prompts_lacking": int(np.count_nonzero(deficits.on_prompt)),
        "by_prompt": {name: round(-part, 3) for part, name in lacking},
        "by_opponent": dict(against),
    }


def _times(moments: NDArray[np.datetime64]) -> list[str]:
    return [f"{each}Z" for each in moments.astype("datetime64[s]").astype(str).tolist()]


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else f"{moment.isoformat()}Z"
