"""Tables and texts of the weekly validity report."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from arena_kit.board import objectives as board_objectives
from arena_kit.board import weekly_sentences
from arena_kit.board.churn import Move
from arena_kit.board.weekly import Validity
from arena_kit.board.weekly_sentences import order_note, sentences
from arena_kit.reporting.tables import DASH, Shown, facts, percent, said, table

if TYPE_CHECKING:
    from great_tables import GT

_CELLS = 60  # named at most


def fairness(report: Validity) -> Shown:
    """Exposure in the rolling window against both targets (7.1), and prompts (7.2)."""
    import pandas as pd

    prompts = {row.model: row for row in report.prompts}
    rows = [
        {
            "model": row.model,
            "band": "contender" if prompts[row.model].contender else "",
            "shown": row.exposure,
            "due (lanes)": f"{row.target:.0f}",
            "deviation": percent(row.deviation, "+.1f"),
            "within": _mark(row.within),
            "due (equal)": f"{row.equal_target:.0f}",
            "within equal": _mark(row.within_equal),
            "prompt coverage": _change(
                percent(prompts[row.model].coverage), percent(prompts[row.model].coverage_before)
            ),
            "prompts at top target": percent(prompts[row.model].target),
        }
        for row in sorted(report.now.fairness, key=_order(report))
    ]

    def look(gt: GT) -> GT:
        gt = gt.cols_align("right").cols_align("left", columns=["model", "band"])
        for note in (*report.feasibility.reasons, _unasked(report)):
            gt = gt.tab_source_note(note) if note else gt
        return gt

    return table(pd.DataFrame(rows), name="fairness", style=look)


def _unasked(report: Validity) -> str:
    """Where models have no decisive vote on a prompt: perhaps there is no response to show."""
    coverage = report.now.coverage
    active = np.flatnonzero(coverage.active)
    missing = {
        model: [coverage.prompts[j] for j in active if not coverage.by_prompt[i, j]]
        for i, model in enumerate(coverage.models)
        if coverage.enabled[i]
    }
    cells = [f"{model} on {', '.join(names)}" for model, names in missing.items() if names]
    if not cells or sum(map(len, missing.values())) > _CELLS:
        return ""
    return f"No decisive vote at all, perhaps for want of a response: {'; '.join(cells)}."


def pairs(report: Validity) -> Shown:
    """Adjacent contenders against the floor (7.3)."""
    import pandas as pd

    rule = report.now.policy.pairs
    rows = [
        {
            "neighbours": f"{pair.above} over {pair.below}",
            f"decisive votes ({rule.votes} needed)": _change(pair.votes, pair.votes_before),
            f"prompts ({rule.prompts} needed)": _change(pair.prompts, pair.prompts_before),
            "floor": _mark(pair.meets_floor),
        }
        for pair in report.pairs
    ]
    if not rows:
        return said("The contender band has no two models.")

    def look(gt: GT) -> GT:
        gt = gt.cols_align("right").cols_align("left", columns=["neighbours"])
        before = "In brackets: the same pair at the end of the comparison week."
        return gt.tab_source_note(before) if report.before else gt

    return table(pd.DataFrame(rows), name="pairs", style=look)


def churn(report: Validity) -> Shown:
    """Who changed rank at the top, whom it passed, and whether the bands lie apart (12)."""
    import pandas as pd

    found = report.churn
    if found is None or not found.moves:
        return said(weekly_sentences.churn(report))
    rows = [
        {
            "model": move.model,
            "rank": f"{move.before or 'new'} → {move.now or 'gone'}",
            "changed order with": ", ".join(move.crossed) or "nobody: others came or went",
            "bands": f"apart from {', '.join(move.apart)}" if move.apart else "overlap",
            "BT agrees": _agreed(report, move),
        }
        for move in found.moves
    ]

    def look(gt: GT) -> GT:
        from great_tables import loc, style

        narrow = ["model", "rank", "bands", "BT agrees"]
        gt = gt.tab_style(style.css("white-space: nowrap"), loc.body(columns=narrow))
        gt = gt.tab_source_note(note) if (note := order_note(report)) else gt
        return gt.tab_source_note(
            "BT agrees: with how many of them Bradley–Terry, which weighs all votes alike, has the "
            "model in the order of now."
        )

    return table(pd.DataFrame(rows), name="churn", style=look)


def _agreed(report: Validity, move: Move) -> str:
    """Of the models that one changed order with, those that all votes put where they are now."""
    board = report.now
    if not move.crossed or move.now is None:
        return DASH
    own = board[move.model]
    agreed = [
        (own.bt_rating > other.bt_rating) == (own.conservative_rank < other.conservative_rank)
        for other in (board[name] for name in move.crossed)
        if own.bt_rating is not None and other.bt_rating is not None
    ]
    return f"{sum(agreed)} of {len(agreed)}" if agreed else DASH


def objectives(report: Validity) -> Shown:
    """The four objectives (3), each with a verdict and what it rests on."""
    import pandas as pd

    found = board_objectives.objectives(report)
    rows = [
        {
            "objective": each.objective,
            "met": {True: "yes", False: "not yet", None: "cannot be told"}[each.met],
            "why": each.why,
            "it is met when": each.rule,
        }
        for each in found
    ]

    def look(gt: GT) -> GT:
        from great_tables import loc, style

        gt = gt.tab_style(style.text(weight="600"), loc.body(columns="objective"))
        gt = gt.tab_source_note(note) if (note := order_note(report)) else gt
        return gt.tab_style(style.css("white-space: nowrap"), loc.body(columns="met"))

    title = board_objectives.verdict(found)
    return table(pd.DataFrame(rows), name="objectives", title=title, style=look)


def weekly(report: Validity) -> Shown:
    """The report in a sentence for each of its checks (12)."""
    note = order_note(report)
    made = facts(({"Ranks": note} if note else {}) | sentences(report), name="weekly")
    return Shown(made.html, text(report))


def text(report: Validity) -> str:
    """The report in sentences, the same on every machine: for quoting and for checks."""
    board = report.now
    head = (
        f"{report.week.label} against {report.compared.label}"
        if report.week and report.compared
        else report.note
    )
    aside = (
        "" if report.published else f" (computed, not published in phase {int(board.policy.phase)})"
    )
    met = board_objectives.verdict(board_objectives.objectives(report))
    told = [f"{name}: {sentence}" for name, sentence in sentences(report).items()]
    lines = [f"{head}{aside}", f"Objectives: {met}", *told]
    return "\n".join(fill(line, 96, subsequent_indent="  ") for line in lines)


def _order(report: Validity) -> Any:
    places = {model: n for n, model in enumerate(report.now.conservative_order)}
    return lambda row: places[row.model]


def _mark(met: bool) -> str:
    return "✓" if met else "✗"


def _change(now: object, before: object) -> str:
    return str(now) if before is None or before == DASH else f"{now} ({before})"
