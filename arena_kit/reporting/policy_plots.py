"""Pictures of the weekly validity report. Titles ask the question that the picture answers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from arena_kit.reporting import figures as fig
from arena_kit.validity.leaderboard import LeaderboardRow
from arena_kit.validity.weekly import WeeklyReport


@fig.plot(
    "bands", "Confidence bands of the top models, now and in the comparison week, with their ranks"
)
def bands(report: WeeklyReport) -> Figure:
    """Confidence bands of the top, now and in the comparison week, with the ranks (12)."""
    board, top = report.now, report.now.policy.publication.top
    was = {row.model: row for row in report.before.rows} if report.before else {}
    ranks = {m: [board[m].conservative_rank, *([was[m].conservative_rank] if m in was else [])]
             for m in board.order}  # fmt: skip
    names = [m for m in reversed(board.order) if min(ranks[m]) <= top]
    change = "Did the top change by more than its confidence bands?"
    title = change if report.before else "Do confidence bands tell the top apart?"
    figure, (ax,) = fig.panels_of(9, 1.5 + 0.36 * len(names), 1, title)
    rows = [board[m] for m in names]
    _bands(ax, rows, np.arange(len(names)) + 0.12, board.policy.deviations, fig.ACCENT, "now")
    before = [(y - 0.18, was[m]) for y, m in enumerate(names) if m in was]
    if before:
        places, earlier = zip(*before, strict=True)
        _bands(ax, earlier, places, board.policy.deviations, "#8a97a3", "comparison week")
    moved = [" → ".join(f"#{rank}" for rank in dict.fromkeys(reversed(ranks[m]))) for m in names]
    labels = [f"{fig.shown_name(m)}   {r}" for m, r in zip(names, moved, strict=True)]
    ax.set_yticks(range(len(names)), labels)
    n = f"{board.policy.deviations:g}"
    ax.set_xlabel(f"raw rating (bar: ± {n} RD; #: rank by its lower end, the conservative score)")
    fig.legend_below(figure, columns=2)
    return figure


def _bands(
    ax: Any, rows: Sequence[LeaderboardRow], y: Any, deviations: float, color: str, label: str
) -> None:
    rating, rd = np.array([(row.rating, row.rd) for row in rows]).T
    ax.errorbar(rating, y, xerr=deviations * rd, fmt="o", color=color, elinewidth=2.6,
                markersize=5, label=label)  # fmt: skip
