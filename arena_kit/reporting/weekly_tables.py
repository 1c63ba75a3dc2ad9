"""Tables and texts of the weekly validity report."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np

from arena_kit.battles.battle import BOTH_BAD, TIE
from arena_kit.policy.constants import DECIDES
from arena_kit.reporting.tables import DASH, Shown, Table, facts, percent
from arena_kit.validity import sentences as report_sentences
from arena_kit.validity.churn import Move
from arena_kit.validity.integrity import Integrity, LaneShare
from arena_kit.validity.sentences import order_note, sentences
from arena_kit.validity.weekly import Validity

_CELLS = 60  # named at most


def fairness(report: Validity) -> Table:
    """Exposure in the rolling window against both targets (7.1), and prompts (7.2)."""
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

    notes = filter(None, [*report.feasibility.reasons, _unasked(report)])
    return Table(
        rows=rows, name="fairness", left=["model", "band"], nowrap=["model"], notes=list(notes)
    )


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


def pairs(report: Validity) -> Table:
    """Adjacent contenders against the floor (7.3)."""
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
    before = "In brackets: the same pair at the end of the comparison week."
    return Table(
        rows=rows,
        name="pairs",
        left=["neighbours"],
        notes=[before] if report.before else [],
        empty="The contender band has no two models.",
    )


def churn(report: Validity) -> Table:
    """Who changed rank at the top, whom it passed, and whether the bands lie apart (12)."""
    rows = [
        {
            "model": move.model,
            "rank": f"{move.before or 'new'} → {move.now or 'gone'}",
            "changed order with": ", ".join(move.crossed) or "nobody: others came or went",
            "bands": f"apart from {', '.join(move.apart)}" if move.apart else "overlap",
            "BT agrees": _agreed(report, move),
        }
        for move in (report.churn.moves if report.churn else ())
    ]
    agrees = (
        "BT agrees: with how many of them Bradley–Terry, which weighs all votes alike, has the "
        "model in the order of now."
    )
    return Table(
        rows=rows,
        name="churn",
        nowrap=["model", "rank", "bands", "BT agrees"],
        notes=[*filter(None, [order_note(report.now)]), agrees],
        empty=report_sentences.churn(report),
    )


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


def objectives(report: Validity) -> Table:
    """The four objectives (3), each with a verdict and what it rests on."""
    verdicts = report_sentences.objectives(report)
    rows = [
        {
            "objective": each.objective,
            "met": {True: "yes", False: "not yet", None: "cannot be told"}[each.met],
            "why": each.why,
            "it is met when": each.rule,
        }
        for each in verdicts
    ]
    return Table(
        rows=rows,
        name="objectives",
        title=report_sentences.verdict(verdicts),
        bold=["objective"],
        nowrap=["met"],
        notes=list(filter(None, [order_note(report.now)])),
    )


def answer(report: Validity) -> list[str]:
    """How many objectives are met and which are not, what the board may be called, and what is
    decided about its order, in sentences.
    """
    judged, board = report_sentences.objectives(report), report.now
    phase = board.policy.phase
    aside = "" if phase.publishes_status else f" (computed, not published in phase {int(phase)})"
    waiting = [each.objective for each in judged if each.met is False]
    missing = f" Not yet: {'; '.join(waiting)}." if waiting else ""
    return [
        f"Objectives: {report_sentences.verdict(judged)}{missing}",
        f"Rules kept{aside}: {board.status.status}.",
        f"Order decided{aside}: {board.order_decided.counts}.",
    ]


_IN_STATUS = ("Rules kept", "Order decided")


def weekly(report: Validity) -> Shown:
    """The report in a sentence for each of its checks (12), but for those that the publication
    status shows.
    """
    note = order_note(report.now)
    checks = {name: each for name, each in sentences(report).items() if name not in _IN_STATUS}
    table = facts(({"Ranks": note} if note else {}) | checks, name="weekly")
    return Shown(table.html, text(report))


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
    checks = [f"{name}: {sentence}" for name, sentence in sentences(report).items()]
    lines = [f"{head}{aside}", f"Objectives: {met}", *checks]
    return "\n".join(fill(line, 96, subsequent_indent="  ") for line in lines)


def _order(report: Validity) -> Any:
    places = {model: n for n, model in enumerate(report.now.order)}
    return lambda row: places[row.model]


def _mark(met: bool) -> str:
    return "✓" if met else "✗"


def _change(now: object, before: object) -> str:
    return str(now) if before is None or before == DASH else f"{now} ({before})"


_MODELS = 25  # shown at most


def votes(report: Validity) -> Table:
    """What each kind of vote does (8.1, 8.2, 8.3)."""
    battles = report.now.battles
    flags = battles.flags()
    tied = (battles.outcome == TIE) & ~flags
    bad = battles.outcome == BOTH_BAD
    kinds = [
        ("A or B", battles.decisive(), "moves both ratings (8.1)"),
        ("tie", tied, "half a win for each (8.2)"),
        ("both bad", bad, "moves no rating; lowers the quality floor (8.3)"),
        ("judged inconsistently", flags, "moves no rating"),
    ]
    rows = [
        {"vote": vote, "votes": int(which.sum()), "what it does": effect}
        for vote, which, effect in kinds
        if which.any()
    ]
    return Table(rows=rows, name="votes")


def quality(report: Validity) -> Table:
    """The both-bad votes of every model, worst first, and whether they call for a check (8.3)."""
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

    due = (
        f"A check is due where more than {100 * rule.both_bad_rate:g} % of votes are both bad, "
        f"and {rule.min_both_bad} or more."
    )
    some = f"The {_MODELS} with the lowest floor of {len(worst)} models."
    notes = [some, due] if len(worst) > _MODELS else [due]
    return Table(rows=rows, name="quality", left=["model", "check"], notes=notes)


def lanes(shares: Sequence[LaneShare], report: Validity) -> Table:
    """How much of the queue each lane served, beside its weight (6)."""
    rows = [
        {
            "lane": lane.lane,
            "votes": lane.votes,
            "share": percent(lane.share, ".1f"),
            **({"in the week": percent(lane.lately, ".1f")} if report.week else {}),
            "weight": percent(lane.weight),
        }
        for lane in shares
    ]
    foreign = (
        f"Some votes came from lanes that phase {int(report.now.policy.phase)} does not use: they "
        "were cast in another phase."
    )
    passed_on = (
        "A lane without a pair to serve passes its turn on, so shares may differ from weights."
    )
    idle = (
        f"No vote came from {DECIDES}: the lane was not on when they were cast, or had no pair to "
        "serve."
    )
    unused = any(lane.votes and not lane.weight for lane in shares)
    silent = any(lane.lane == DECIDES and not lane.votes for lane in shares)
    return Table(
        rows=rows,
        name="lanes",
        left=["lane"],
        notes=[foreign if unused else passed_on, *([idle] if silent else [])],
        empty="The file does not name the lanes that served its matchups.",
    )


def controls(counts: Integrity) -> Table:
    """What the file tells about sides and repeats (6.2, 11)."""
    chance = "within chance" if counts.left_chance else "more than chance would do"
    return facts(
        {
            "Sides": f"{counts.left_of} is furthest from half: left in {100 * counts.left:.1f}% of "
            f"its votes, {counts.left_errors:.1f} standard errors off, {chance}",
            "Left side won": f"{percent(counts.left_wins, '.1f')} of decisive votes",
            "Pair met too often on a prompt (6.2)": _counted(counts.prompt_repeats, "meetings"),
            "Session saw pair and prompt again (11)": _counted(counts.session_repeats, "votes"),
            "Battle ids used twice": _counted(counts.same_ids, "votes"),
            "Names hidden before the vote, bots kept out": "not to be seen in a battles file",
        },
        name="controls",
    )


def _counted(n: int | None, what: str) -> str:
    return "cannot be told from this file" if n is None else f"{n} {what}"
