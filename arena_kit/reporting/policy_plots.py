"""The picture of the weekly validity report."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from arena_kit.policy.rules import Verdict
from arena_kit.reporting import figures as fig
from arena_kit.validity.leaderboard import LeaderboardRow
from arena_kit.validity.weekly import WeeklyReport


@fig.plot(
    "leaderboard",
    "Confidence bands of the models in the published order, now and in the comparison week, with "
    "ranks and badges; open orders marked",
)
def leaderboard(report: WeeklyReport) -> Figure:
    """Confidence bands in the published order, now and in the comparison week, with ranks and
    badges (5, 12); a bar joins neighbours whose order is not decided.
    """
    board, title = report.now, "Which orders of the leaderboard are decided?"
    figure, (ax,), shown = fig.on_first_screen(len(board.rows), 1, title, board.order)
    was = {row.model: row for row in report.before.rows} if report.before else {}
    rows = list(reversed(board.rows[:shown]))
    earlier = [(y - 0.2, was[row.model]) for y, row in enumerate(rows) if row.model in was]
    if earlier:
        places, before = zip(*earlier, strict=True)
        _bands(ax, before, places, board.policy.deviations, "#8a97a3", "comparison week")
    _bands(ax, rows, np.arange(len(rows)) + 0.1, board.policy.deviations, fig.ACCENT, "now")
    fig.name_rows(ax, [row.model for row in rows], ylim=(-0.5, len(rows) - 0.5))
    badges = ax.secondary_yaxis("right")
    badges.set_yticks(range(len(rows)), [_standing(report, row, was) for row in rows])
    badges.spines[:].set_visible(False)
    place = {row.model: y for y, row in enumerate(rows)}
    undecided = [p for p in board.adjacent if p.verdict is not Verdict.DECIDED]
    drawn = [(place[p.above], place[p.below]) for p in undecided if {p.above, p.below} <= {*place}]
    for n, ends in enumerate(drawn):
        ax.plot([1, 1], [max(ends) - 0.2, min(ends) + 0.2], color=fig.WARM, linewidth=4,
                transform=ax.get_yaxis_transform(), clip_on=False,
                label="" if n else "order not decided")  # fmt: skip
    ax.set_xlabel(f"raw rating (bar: ± {board.policy.deviations:g} RD)")
    fig.legend_below(figure, columns=3, phone=2)
    return figure


def _standing(report: WeeklyReport, row: LeaderboardRow, was: dict[str, LeaderboardRow]) -> str:
    """The rank, where there is room with that of the comparison week, and the badge."""
    before = was[row.model].conservative_rank if row.model in was else row.conservative_rank
    moved = f"#{before} → " if before != row.conservative_rank and not fig.is_narrow() else ""
    badge = f" {row.badge}" if report.now.policy.phase.shows_diagnostics else ""
    return f"{moved}#{row.conservative_rank}{badge}"


def _bands(
    ax: Any, rows: Sequence[LeaderboardRow], y: Any, deviations: float, color: str, label: str
) -> None:
    rating, rd = np.array([(row.rating, row.rd) for row in rows]).T
    ax.errorbar(rating, y, xerr=deviations * rd, fmt="o", color=color, elinewidth=2.2,
                markersize=4, label=label)  # fmt: skip
