"""The validity report and the model pages as plain values, for JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import Any

import numpy as np

from arena_kit.board.detail import ModelDetail
from arena_kit.board.integrity import Integrity, LaneShare
from arena_kit.board.objectives import objectives
from arena_kit.board.weekly import Validity
from arena_kit.board.weekly_sentences import sentences

_LISTED = 200  # prompts named at most


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
            "status": str(board.status.status),
            "reasons": list(board.status.reasons),
            "before": str(report.before.status.status) if report.before else None,
        },
        "objectives": [asdict(each) for each in objectives(report)],
        "sentences": sentences(report),
        "feasibility": [*report.feasibility.reasons, *filter(None, [report.feasibility.badge])],
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
        "top_rank_churn": _churn(report),
        "quality_checks": [asdict(each) | {"reasons": list(each.reasons)} for each in board.checks],
        "lanes": [asdict(lane) for lane in lanes],
        "integrity": asdict(controls),
    }


def _churn(report: Validity) -> dict[str, Any] | None:
    found = report.churn
    if found is None:
        return None
    return {
        "top": found.top,
        "pairs_swapped": found.swaps,
        "pairs_swapped_inside_bands": found.swaps_inside,
        "moves": [_plain(asdict(move) | {"inside_bands": move.inside}) for move in found.moves],
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
        "deficits": _deficits(detail),
        "prompts": [_plain(asdict(each)) for each in detail.prompts if each.votes >= least],
        "opponents": [_plain(asdict(each)) for each in detail.opponents],
        "confidence_history": {
            "time": None if path.moments is None else _times(path.moments),
            "rating": np.round(path.rating, 3).tolist(),
            "rd": np.round(path.rd, 3).tolist(),
        },
    }


def _deficits(detail: ModelDetail) -> dict[str, Any]:
    """What is missing, in parts of 1; a cell of the heatmap is the sum of its two."""
    found = detail.deficits
    parts = zip(found.prompts, found.on_prompt.tolist(), strict=True)
    lacking = sorted(((-part, name) for name, part in parts if part > 0))[:_LISTED]
    return {
        "prompts_lacking": int(np.count_nonzero(found.on_prompt)),
        "by_prompt": {name: round(-part, 3) for part, name in lacking},
        "by_opponent": dict(zip(found.opponents, found.against.round(3).tolist(), strict=True)),
    }


def _times(moments: Any) -> list[str]:
    return [f"{each}Z" for each in moments.astype("datetime64[s]").astype(str).tolist()]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        return f"{value.isoformat()}Z"
    if is_dataclass(value):
        raise TypeError(f"{type(value).__name__} is not a plain value")
    return value
