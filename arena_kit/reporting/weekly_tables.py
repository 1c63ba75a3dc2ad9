"""Tables and texts of the weekly validity report."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from arena_kit.battles.battle import BOTH_BAD, TIE
from arena_kit.reporting.show import DASH, Shown, facts, percent, said, table
from arena_kit.validity import sentences as report_sentences
from arena_kit.validity.churn import Move
from arena_kit.validity.integrity import Integrity, LaneShare
from arena_kit.validity.sentences import order_note, sentences
from arena_kit.validity.weekly import Validity

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
        return said(report_sentences.churn(report))
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

    found = report_sentences.objectives(report)
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

    title = report_sentences.verdict(found)
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
    met = report_sentences.verdict(report_sentences.objectives(report))
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


_MODELS = 25  # shown at most


def votes(report: Validity) -> Shown:
    """What each kind of vote does (8.1, 8.2, 8.3)."""
    import pandas as pd

    battles = report.now.battles
    flags = battles.flags()
    tied = (battles.outcome == TIE) & ~flags
    bad = battles.outcome == BOTH_BAD
    rows = [
        ("A or B", battles.decisive(), "moves both ratings (8.1)"),
        ("tie", tied, "half a win for each (8.2)"),
        ("both bad", bad, "moves no rating; lowers the quality floor (8.3)"),
        ("judged inconsistently", flags, "moves no rating"),
    ]
    frame = pd.DataFrame(
        [
            {"vote": vote, "votes": int(which.sum()), "what it does": does}
            for vote, which, does in rows
            if which.any()
        ]
    )
    return table(frame, name="votes")


def quality(report: Validity) -> Shown:
    """The both-bad votes of every model, worst first, and whether they call for a check (8.3)."""
    import pandas as pd

    board, rule = report.now, report.now.policy.quality
    voted = [row for row in board.rows if row.quality_floor is not None]
    worst = sorted(voted, key=lambda row: (row.quality_floor, row.model))
    rows = [
        {
            "model": row.model,
            "both bad": row.both_bad,
            "votes": row.votes,
            "both-bad rate": percent(row.both_bad / row.votes, ".1f"),
            "quality floor": f"{row.quality_floor:.3f}",
            "check": "due" if row.quality_check else "",
        }
        for row in worst[:_MODELS]
    ]  # fmt: skip

    def look(gt: GT) -> GT:
        gt = gt.cols_align("right").cols_align("left", columns=["model", "check"])
        if len(worst) > _MODELS:
            gt = gt.tab_source_note(f"The {_MODELS} with the lowest floor of {len(worst)} models.")
        return gt.tab_source_note(
            f"A check is due where more than {100 * rule.both_bad_rate:g} % of votes are both bad, "
            f"and {rule.min_both_bad} or more."
        )

    return table(pd.DataFrame(rows), name="quality", style=look)


def lanes(found: Sequence[LaneShare], report: Validity) -> Shown:
    """How much of the queue each lane served, beside its weight (6)."""
    import pandas as pd

    if not found:
        return said("The file does not name the lanes that served its matchups.")
    rows = [
        {
            "lane": lane.lane,
            "votes": lane.votes,
            "share": percent(lane.share, ".1f"),
            "in the week": percent(lane.lately, ".1f"),
            "weight": percent(lane.weight),
        }
        for lane in found
    ]
    frame = pd.DataFrame(rows)
    if report.week is None:
        frame = frame.drop(columns="in the week")
    phase = report.now.policy.phase
    foreign = [lane.lane for lane in found if lane.votes and not lane.weight]

    def look(gt: GT) -> GT:
        gt = gt.cols_align("right").cols_align("left", columns=["lane"])
        if foreign:
            return gt.tab_source_note(
                f"Some votes came from lanes that phase {int(phase)} does not use: they were cast "
                "in another phase."
            )
        return gt.tab_source_note(
            "A lane without a pair to serve passes its turn on, so shares may differ from weights."
        )

    return table(frame, name="lanes", style=look)


def controls(found: Integrity) -> Shown:
    """What the file tells about sides and repeats (6.2, 11)."""
    chance = "within chance" if found.left_chance else "more than chance would do"
    return facts(
        {
            "Sides": f"{found.left_of} is furthest from half: left in {100 * found.left:.1f}% of "
            f"its votes, {found.left_errors:.1f} standard errors off, {chance}",
            "Left side won": f"{percent(found.left_wins, '.1f')} of decisive votes",
            "Pair met too often on a prompt (6.2)": _counted(found.prompt_repeats, "meetings"),
            "Session saw pair and prompt again (11)": _counted(found.session_repeats, "votes"),
            "Battle ids used twice": _counted(found.same_ids, "votes"),
            "Names hidden before the vote, bots kept out": "not to be seen in a battles file",
        },
        name="controls",
    )


def _counted(n: int | None, what: str) -> str:
    return "cannot be told from this file" if n is None else f"{n} {what}"
