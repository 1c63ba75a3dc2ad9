"""Tables about the votes of an arena: their kinds and quality, the queue, and integrity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from arena_kit.battles import BOTH_BAD, TIE
from arena_kit.board.integrity import Integrity, LaneShare
from arena_kit.board.weekly import Validity
from arena_kit.reporting.tables import Shown, facts, percent, said, table

if TYPE_CHECKING:
    from great_tables import GT

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
