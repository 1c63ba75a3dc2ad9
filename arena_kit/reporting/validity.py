"""Tables and texts of the weekly validity report."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from textwrap import fill
from typing import TYPE_CHECKING, Any

from arena_kit.board.churn import Move
from arena_kit.board.integrity import Integrity, LaneShare
from arena_kit.board.weekly import Validity
from arena_kit.reporting.tables import DASH, Shown, facts, table

if TYPE_CHECKING:
    from great_tables import GT


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
            "deviation": _percent(row.deviation, "+.1f"),
            "within": _mark(row.within),
            "due (equal)": f"{row.equal_target:.0f}",
            "within equal": _mark(row.within_equal),
            "prompt coverage": _change(
                _percent(prompts[row.model].coverage), _percent(prompts[row.model].coverage_before)
            ),
            "prompts at top target": _percent(prompts[row.model].target),
        }
        for row in sorted(report.now.fairness, key=_order(report))
    ]

    def look(gt: GT) -> GT:
        gt = gt.cols_align("right").cols_align("left", columns=["model", "band"])
        for reason in report.feasibility.reasons:
            gt = gt.tab_source_note(reason)
        return gt

    return table(pd.DataFrame(rows), name="fairness", style=look)


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
        return _said("The contender band has no two models.")

    def look(gt: GT) -> GT:
        gt = gt.cols_align("right").cols_align("left", columns=["neighbours"])
        return gt.tab_source_note("In brackets: the comparison week.") if report.before else gt

    return table(pd.DataFrame(rows), name="pairs", style=look)


def churn(report: Validity) -> Shown:
    """Who changed rank at the top, whom it passed, and whether the bands lie apart (12)."""
    import pandas as pd

    found = report.churn
    if found is None or not found.moves:
        return _said(report.churn_sentence)
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
    own, agreed = board[move.model], 0
    for other in (board[name] for name in move.crossed):
        ahead = own.conservative_rank < other.conservative_rank
        agreed += ((own.bt_rating or 0.0) > (other.bt_rating or 0.0)) == ahead
    return f"{agreed} of {len(move.crossed)}"


def quality(report: Validity) -> Shown:
    """The models whose both-bad votes call for a check (8.3)."""
    import pandas as pd

    rule = report.now.policy.quality
    allowed = f"above {100 * rule.both_bad_rate:g} % both-bad votes, from {rule.min_both_bad} on"
    if not report.now.checks:
        return _said(f"No quality check is due ({allowed}).")
    rows = [
        {
            "check due": each.model,
            "quality floor": f"{each.score:.3f}" if each.score is not None else DASH,
            "why": "; ".join(each.reasons),
        }
        for each in report.now.checks
    ]
    return table(pd.DataFrame(rows), name="quality", title=f"Quality checks due {allowed}")


def lanes(found: Sequence[LaneShare]) -> Shown:
    """How much of the queue each lane served, beside its weight (6)."""
    import pandas as pd

    if not found:
        return _said("The file does not name the lanes that served its matchups.")
    rows = [
        {
            "lane": lane.lane,
            "votes": lane.votes,
            "share": f"{100 * lane.share:.1f}%",
            "weight": f"{100 * lane.weight:.0f}%",
        }
        for lane in found
    ]

    def look(gt: GT) -> GT:
        return gt.cols_align("right", columns=["votes", "share", "weight"]).tab_source_note(
            "A lane without a pair to serve passes its turn on, so shares may differ from weights."
        )

    return table(pd.DataFrame(rows), name="lanes", style=look)


def controls(found: Integrity) -> Shown:
    """What the file tells about sides and repeats (6.2, 11)."""
    return facts(
        {
            "Sides": f"{found.left_of} is furthest from half: it stood left in "
            f"{100 * found.left:.1f}% of its votes, {found.left_errors:.1f} standard errors off",
            "Left side won": f"{_percent(found.left_wins, '.1f')} of decisive votes",
            "Pair met too often on a prompt (6.2)": _counted(found.prompt_repeats, "meetings"),
            "Session saw pair and prompt again (11)": _counted(found.session_repeats, "votes"),
            "Battle ids used twice": _counted(found.same_ids, "votes"),
            "Hidden names, bots": "no battles file can tell",
        },
        name="controls",
    )


def objectives(report: Validity) -> Shown:
    """The four objectives (3), each beside what was found."""
    board = report.now
    provisional = [row.model for row in board.rows if row.provisional]
    named = f": {', '.join(provisional)}" if 0 < len(provisional) <= 6 else ""
    return facts(
        {
            "Top ranks are robust to sampling noise": report.churn_sentence,
            "Nearby top models are compared enough": report.pairs_sentence,
            "No model has prompt luck": report.prompts_sentence,
            "Uncertainty is visible": f"{report.confidence_sentence} {len(provisional)} of "
            f"{len(board.rows)} models are labelled provisional{named}.",
        },
        name="objectives",
    )


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
    checks = ", ".join(each.model for each in board.checks) or "none"
    told = {"Status": f"{board.status.sentence}."} | report.sentences
    told["Quality checks due"] = f"{checks}."
    lines = [f"{head}{aside}"] + [f"{name}: {sentence}" for name, sentence in told.items()]
    return "\n".join(fill(line, 96, subsequent_indent="  ") for line in lines)


def _order(report: Validity) -> Any:
    places = {model: n for n, model in enumerate(report.now.conservative_order)}
    return lambda row: places[row.model]


def _said(sentence: str) -> Shown:
    return Shown(f"<p>{escape(sentence)}</p>", sentence)


def _mark(met: bool) -> str:
    return "✓" if met else "✗"


def _percent(value: float | None, how: str = ".0f") -> str:
    return DASH if value is None else f"{100 * value:{how}}%"


def _change(now: object, before: object) -> str:
    return str(now) if before is None or before == DASH else f"{now} ({before})"


def _counted(n: int | None, what: str) -> str:
    return "cannot be told from this file" if n is None else f"{n} {what}"
