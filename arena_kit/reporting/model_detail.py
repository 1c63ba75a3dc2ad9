"""The page of a model (9.1, 9.2): its tables, several models together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from arena_kit.board.detail import RECENT, Breakdown, ModelDetail
from arena_kit.board.leaderboard import Leaderboard
from arena_kit.reporting.strengths import share_text
from arena_kit.reporting.tables import DASH, Shown, percent, said, table

if TYPE_CHECKING:
    from great_tables import GT

Details = Sequence[ModelDetail]
_ROWS = 8  # shown at most of each model
_ENOUGH = 5  # votes from which a prompt or opponent is compared with others


def summary(details: Details, board: Leaderboard) -> Shown:
    """Win rate, recent form and recent delta, with rating, RD and what the evidence says."""
    import pandas as pd
    from great_tables import loc, style

    rows = [
        {
            "model": each.model,
            "conservative": f"{row.conservative:.0f}",
            "raw ± RD": f"{row.rating:.0f} ± {row.rd:.0f}",
            "BT ± SE": _plus_minus(row.bt_rating, row.bt_se),
            "pair coverage": _known(row.pair_coverage, ".2f"),
            "record W/L/D": f"{row.wins}/{row.losses}/{row.ties}",
            "win rate": percent(each.summary.win_rate, ".1f"),
            "recent form": each.summary.form,
            "recent delta": _known(each.summary.delta, "+.0f"),
            "adjusted score": _known(row.adjusted.average, "+.2f"),
        }
        for each in details
        for row in [board[each.model]]
    ]

    def look(gt: GT) -> GT:
        gt = gt.cols_align("right").cols_align("left", columns=["model", "recent form"])
        gt = gt.tab_style(style.css("white-space: nowrap"), loc.body())
        return gt.tab_source_note(
            f"Win rate is of decisive votes; form and delta are of the last {RECENT} votes (W win, "
            "L loss, D draw, B both bad), the latest last. The adjusted score is the average score "
            "less what an average model would score against the same opponents."
        )

    return table(pd.DataFrame(rows), name="summary", style=look)


def neighbours(details: Details, board: Leaderboard) -> Shown:
    """The neighbour challenge record: each model against the ranks right above and below."""
    import pandas as pd

    rule = board.policy.pairs
    rows = [
        {
            "model": f"{each.model}, #{board[each.model].conservative_rank} by conservative score",
            "neighbour": f"{'above' if near.rank < rank else 'below'}: {near.model}",
            "W/L/D": f"{near.wins}/{near.losses}/{near.ties}",
            f"decisive votes ({rule.votes})": near.votes,
            f"prompts ({rule.prompts})": near.prompts,
            "floor": "✓" if near.meets_floor else "✗",
            "P(above it), BT": share_text(np.nan if near.above is None else near.above),
        }
        for each in details
        for rank in [board[each.model].conservative_rank]
        for near in each.neighbours
    ]

    def look(gt: GT) -> GT:
        return gt.cols_align("right").cols_align("left", columns=["neighbour"])

    return table(pd.DataFrame(rows), name="neighbours", group="model", style=look)


def prompts(details: Details) -> Shown:
    """The prompts on which each model is furthest above and below its rating."""
    return _breakdowns(details, "prompt", lambda each: each.prompts)


def opponents(details: Details) -> Shown:
    """The opponents against which each model is furthest above and below its rating."""
    return _breakdowns(details, "opponent", lambda each: each.opponents)


def _breakdowns(details: Details, what: str, rows_of: Any) -> Shown:
    import pandas as pd

    rows = [
        {
            "model": _title(each.model, len(extremes), rows_of(each), what),
            what: row.name,
            "votes": row.votes,
            "decisive": row.decisive,
            "both bad": row.both_bad,
            "raw score": _known(row.score, ".2f"),
            "above expectation": _known(row.surprise, "+.2f"),
        }
        for each in details
        for extremes in [_extremes(rows_of(each))]
        for row in extremes
    ]
    if not rows:
        there = any(rows_of(each) for each in details)
        why = f"No {what} has {_ENOUGH} votes." if there else f"The file names no {what}s."
        return said(why)

    def look(gt: GT) -> GT:
        return gt.cols_align("right").cols_align("left", columns=[what])

    return table(pd.DataFrame(rows), name=f"{what}s", group="model", style=look)


def _extremes(rows: Sequence[Breakdown]) -> list[Breakdown]:
    """The furthest above expectation and the furthest below, best first.

    Where there are many, those with very few votes are left out: they would all be extreme.
    """
    few = 0 if len(rows) <= _ROWS else _ENOUGH
    known = sorted(
        (row for row in rows if row.surprise is not None and row.votes >= few),
        key=lambda row: (-(row.surprise or 0.0), row.name),
    )
    if len(known) <= _ROWS:
        return known
    half = _ROWS // 2
    return known[:half] + known[-half:]


def _title(model: str, shown: int, rows: Sequence[Breakdown], what: str) -> str:
    if shown == len(rows):
        return model
    enough = sum(row.votes >= _ENOUGH for row in rows)
    some = f"all {shown}" if shown == enough else f"the {shown // 2} best and worst of {enough}"
    few = f" with {_ENOUGH} votes or more, of {len(rows)}" if enough < len(rows) else ""
    return f"{model}: {some} {what}s{few}"


def responses(details: Details) -> Shown:
    """Which prompts each model's responses were shown on, the latest seen first."""
    import pandas as pd

    rows = []
    for each in details:
        latest = sorted(each.prompts, key=lambda p: (_seconds(p.last_seen), p.votes), reverse=True)
        shown = latest[:_ROWS]
        which = "latest" if shown and shown[0].last_seen else "most shown"
        more = f": the {which} {len(shown)} of {len(latest)}" if len(shown) < len(latest) else ""
        rows += [
            {
                "model": each.model + more,
                "response to": row.name,
                "shown": row.votes,
                "first seen (UTC)": _minute(row.first_seen),
                "last seen (UTC)": _minute(row.last_seen),
            }
            for row in shown
        ]
    if not rows:
        return said("The file names no prompts.")
    return table(pd.DataFrame(rows), name="responses", group="model")


def text(details: Details, board: Leaderboard) -> str:
    """The summaries as text, the same on every machine: for quoting and for checks."""
    return "\n".join(
        f"{each.model}: {board[each.model].rating:.1f} ± {board[each.model].rd:.1f} RD, "
        f"wins {percent(each.summary.win_rate, '.1f')} of decisive votes, form {each.summary.form}"
        for each in details
    )


def _known(value: float | None, how: str) -> str:
    return DASH if value is None else f"{value:{how}}"


def _plus_minus(value: float | None, error: float | None) -> str:
    return f"{_known(value, '.0f')} ± {_known(error, '.0f')}"


def _minute(moment: datetime | None) -> str:
    return DASH if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def _seconds(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat()
