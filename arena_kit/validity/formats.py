"""The leaderboard for people and programs: JSON, CSV, Markdown and LaTeX.

JSON and CSV hold every metric under its plain name. Markdown and LaTeX show the board in
its locked form (9.3); names may come from anywhere and are escaped.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import Any

import numpy as np

from arena_kit.files import DataError
from arena_kit.validity.integrity import Integrity, LaneShare
from arena_kit.validity.leaderboard import BoardRow, Earlier, Leaderboard
from arena_kit.validity.model_page import ModelDetail
from arena_kit.validity.prompt_scores import ScoreSummary
from arena_kit.validity.sentences import objectives, sentences
from arena_kit.validity.weekly import Validity

DASH = "–"
_LEFT = ("Model", "Record")
_MARKDOWN = {
    **{c: f"\\{c}" for c in "\\`*_[]|~$"},
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
}
_LATEX = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "–": "--",
}


def flat(row: BoardRow) -> dict[str, Any]:
    """One row as plain values under plain names."""
    values = {name: value for name, value in asdict(row).items() if name not in ("raw", "adjusted")}
    values |= {name: list(values[name]) for name in ("badge_reasons", "provisional_reasons")}
    values["badge"] = str(row.badge)
    return values | _scores("raw", row.raw) | _scores("adjusted", row.adjusted)


def _scores(how: str, found: ScoreSummary) -> dict[str, Any]:
    return {
        f"avg_score_{how}": found.average,
        f"spread_{how}": found.spread,
        f"consistency_{how}": found.consistency,
        f"prompts_{how}": found.prompts,
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
            "status": str(board.status.status),
            "reasons": list(board.status.reasons),
        },
        "contender_band": list(board.band.models),
        "rows": [flat(row) for row in board.rows],
    }


def earlier_of(found: Mapping[str, Any], source: str) -> Earlier:
    """What an earlier board's JSON says of its ranks."""
    try:
        named = [row for row in found["rows"] if row["official_rank"] is not None]
        ranks = {str(row["model"]): int(row["official_rank"]) for row in named}
        return Earlier(epoch=str(found["epoch"]), ranks=ranks)
    except (KeyError, TypeError, ValueError):
        raise DataError(f"{source}: not a leaderboard of this kind (epoch, rows)") from None


def csv_rows(board: Leaderboard) -> list[dict[str, Any]]:
    """The rows with reasons joined, for CSV."""
    return [
        {k: "; ".join(v) if isinstance(v, list) else v for k, v in flat(row).items()}
        for row in board.rows
    ]


def to_csv(board: Leaderboard) -> str:
    """Every metric of every model as CSV."""
    rows, out = csv_rows(board), io.StringIO()
    table = csv.DictWriter(out, list(rows[0]) if rows else ["rank"], lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return out.getvalue()


def to_markdown(board: Leaderboard) -> str:
    """The locked form as a Markdown table."""
    rows = [{name: _escaped(cell, _MARKDOWN) for name, cell in r.items()} for r in shown(board)]
    names = list(rows[0]) if rows else ["Rank", "Model"]
    rule = ["---" if name in _LEFT else "---:" for name in names]
    lines = [names, rule, *(list(row.values()) for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def to_latex(board: Leaderboard) -> str:
    """The locked form as a LaTeX table with booktabs rules."""
    rows = [{name: _escaped(cell, _LATEX) for name, cell in r.items()} for r in shown(board)]
    names = list(rows[0]) if rows else ["Rank", "Model"]
    align = "".join("l" if name in _LEFT else "r" for name in names)
    body = "".join(f"{' & '.join(row.values())} \\\\\n" for row in rows)
    return (
        f"\\begin{{tabular}}{{{align}}}\n\\toprule\n{' & '.join(names)} \\\\\n\\midrule\n"
        f"{body}\\bottomrule\n\\end{{tabular}}\n"
    )


def shown(board: Leaderboard) -> list[dict[str, str]]:
    """The board as readers see it in its phase (9.1, 9.3, 12), one text per column."""
    diagnostics = board.policy.phase.shows_diagnostics
    return [
        {
            "Rank": rank_text(row),
            "Model": f"{row.model} ({row.badge})" if diagnostics else row.model,
            "Rating": " ".join(rating_cell(board, row)).strip(),
        }
        | (validity_texts(row) if diagnostics else {})
        | score_texts(row)
        for row in board.rows
    ]


def rating_cell(board: Leaderboard, row: BoardRow) -> tuple[str, str]:
    """The value of the Rating column, and the small text under it (9.3).

    Legacy Elo is the value before the migration, and beside the raw rating during it (12).
    """
    phase = board.policy.phase
    if phase.orders_by == "legacy_elo":
        return f"{row.legacy_elo:.0f}", ""
    legacy = f", Elo {row.legacy_elo:.0f}" if phase.shows_legacy_elo else ""
    return f"{row.conservative:.0f}", f"(raw {row.rating:.0f}{legacy})"


def rank_text(row: BoardRow) -> str:
    """The official rank, or a dash for a model outside official claims (5.3)."""
    return DASH if row.official_rank is None else str(row.official_rank)


def validity_texts(row: BoardRow) -> dict[str, str]:
    """The two columns that the policy adds (9.3)."""
    return {"Confidence": f"{row.confidence}%", "Coverage": f"{100 * row.prompt_coverage:.0f}%"}


def score_texts(row: BoardRow) -> dict[str, str]:
    """The columns that were there before (9.1); scores are raw."""
    return {
        "Consistency": _known(row.raw.consistency, lambda v: f"{v}%"),
        "Spread": _known(row.raw.spread, lambda v: f"{v:.2f}"),
        "Avg score": _known(row.raw.average, lambda v: f"{v:.2f}"),
        "Record": f"{row.wins}/{row.losses}/{row.ties}",
        "Votes": str(row.votes),
        "Both bad": str(row.both_bad),
    }


def _known(value: float | None, text: Callable[[float], str]) -> str:
    return DASH if value is None else text(value)


def _escaped(text: str, table: Mapping[str, str]) -> str:
    return "".join(table.get(c, c) for c in _printable(text))


def _printable(text: str) -> Iterable[str]:
    """Its characters, those that end a line as spaces."""
    return (c if c.isprintable() else " " for c in text)


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
