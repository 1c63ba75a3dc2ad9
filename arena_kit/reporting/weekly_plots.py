"""Pictures of the weekly validity report. Titles ask the question that the picture answers."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from arena_kit.reporting.figures import (
    ACCENT,
    LINE,
    SOFT,
    WARM,
    legend_below,
    panels_of,
    plot,
    shown_name,
)
from arena_kit.validity.leaderboard import BoardRow
from arena_kit.validity.weekly import Validity

GREEN = "#009e73"


@plot(
    "exposure",
    "Exposure of every model in the rolling window beside its lane-adjusted and its equal target",
)
def exposure(report: Validity) -> Figure:
    """Exposure of every model in the rolling window, beside what it is due (7.1)."""
    order = list(reversed(report.now.order))
    rows = sorted(report.now.fairness, key=lambda row: order.index(row.model))
    figure, (ax,) = panels_of(
        9, 1.5 + 0.27 * len(rows), 1, "Was every model shown as often as it is due?"
    )
    y = np.arange(len(rows))
    due = np.array([row.target for row in rows])
    slack = np.array([row.tolerance for row in rows]) * due
    ax.barh(y, 2 * slack, left=due - slack, height=0.62, color="#e3edf5", zorder=0,
            label=f"lane-adjusted target ± {100 * rows[0].tolerance:g}%")  # fmt: skip
    ax.vlines(due, y - 0.31, y + 0.31, color=ACCENT, linewidth=1)
    equal = rows[0].equal_target
    ax.axvline(equal, color=SOFT, linestyle=":", linewidth=1, label="equal target")
    shown = np.array([row.exposure for row in rows])
    inside = np.array([row.within for row in rows])
    ax.plot(shown[inside], y[inside], "o", color=ACCENT, label="shown, within")
    if not inside.all():
        ax.plot(shown[~inside], y[~inside], "X", color=WARM, markersize=7, label="shown, outside")
    ax.set_yticks(y, [shown_name(row.model) for row in rows])
    ax.set_ylim(-0.7, len(rows) - 0.3)
    low, high = min(shown.min(), (due - slack).min()), max(shown.max(), (due + slack).max())
    pad = 0.06 * max(1.0, high - low)
    ax.set_xlim(low - pad, high + pad)
    ax.set_xlabel(f"times shown in the last {report.now.coverage.matchups} matchups")
    ax.tick_params(length=0)
    legend_below(figure, columns=4)
    return figure


@plot(
    "confidence",
    "RD and Bradley–Terry standard error of every model, now and in the comparison week",
)
def confidence(report: Validity) -> Figure:
    """RD beside the Bradley–Terry standard error, now and in the comparison week (12)."""
    rows = list(reversed(report.confidence))
    figure, (left, right) = panels_of(
        9, 1.6 + 0.27 * len(rows), 2, "Does confidence hold, and what does RD not say?", sharey=True
    )
    y = np.arange(len(rows))
    _then_and_now(left, y, [r.rd for r in rows], [r.rd_before for r in rows], ACCENT)
    _then_and_now(right, y, [r.se for r in rows], [r.se_before for r in rows], GREEN)
    floor = report.feasibility.settled_rd
    left.axvline(floor, color=WARM, linestyle=":", linewidth=1.2)
    left.annotate(f"RD stays above {floor:.1f} \nwhatever the evidence ", (floor, len(rows) - 0.4),
                  va="top", ha="right", fontsize=8, color=WARM)  # fmt: skip
    left.set_yticks(y, [shown_name(row.model) for row in rows])
    left.set_ylim(-0.7, len(rows) - 0.2)
    left.set(title="RD: how far the next votes may move a rating", xlabel="RD")
    right.set(title="Bradley–Terry: how sure the evidence makes it", xlabel="standard error")
    for ax in (left, right):
        ax.set_xlim(0, 1.05 * ax.get_xlim()[1])
        ax.tick_params(length=0)
    label = "comparison week" if report.before else ""
    handles = [left.plot([], [], "o", color=SOFT)[0]]
    names = ["now"]
    if label:
        handles.append(left.plot([], [], "o", color=SOFT, markerfacecolor="white")[0])
        names.append(label)
    legend_below(figure, handles, names, columns=2)
    return figure


def _then_and_now(ax: Any, y: Any, now: list[Any], before: list[float | None], color: str) -> None:
    new, old = (np.array([np.nan if v is None else v for v in each]) for each in (now, before))
    ax.hlines(y, new, old, color=LINE, linewidth=2, zorder=1)
    ax.plot(old, y, "o", color=color, markerfacecolor="white", markersize=5.5)
    ax.plot(new, y, "o", color=color, markersize=5.5)


@plot(
    "bands",
    "Confidence bands of the top models, now and in the comparison week, with their ranks",
)
def bands(report: Validity) -> Figure:
    """Confidence bands of the top, now and in the comparison week, with the ranks (12)."""
    board, top = report.now, report.now.policy.publication.top
    was = {row.model: row for row in report.before.rows} if report.before else {}
    names = [m for m in reversed(board.order)
             if min(_rank(board[m]), _rank(was.get(m))) <= top]  # fmt: skip
    n = board.policy.deviations
    change = "Did the top change by more than its confidence bands?"
    title = change if report.before else "Do confidence bands tell the top apart?"
    figure, (ax,) = panels_of(9, 1.5 + 0.36 * len(names), 1, title)
    drawn: dict[str, Any] = {}
    for y, model in enumerate(names):
        row = board[model]
        now = ax.hlines(y + 0.12, row.rating - n * row.rd, row.rating + n * row.rd, color=ACCENT,
                        linewidth=3)  # fmt: skip
        drawn["now"] = now
        ax.plot(row.rating, y + 0.12, "o", color=ACCENT, markersize=5.5)
        if old := was.get(model):
            then = ax.hlines(y - 0.18, old.rating - n * old.rd, old.rating + n * old.rd,
                             color="#b6c2cd", linewidth=2)  # fmt: skip
            drawn["comparison week"] = then
            ax.plot(old.rating, y - 0.18, "o", color="#8a97a3", markersize=4)
    moved = {m: _moved(board[m].conservative_rank, was.get(m), bool(was)) for m in names}
    ax.set_yticks(range(len(names)), [f"{shown_name(m)}   {moved[m]}" for m in names])
    ax.set_ylim(-0.7, len(names) - 0.3)
    ax.set_xlabel(f"raw rating (bar: ± {n:g} RD; #: rank by its lower end, the conservative score)")
    ax.tick_params(length=0)
    legend_below(figure, list(drawn.values()), list(drawn), columns=2)
    return figure


def _rank(row: BoardRow | None) -> float:
    return np.inf if row is None else row.conservative_rank


def _moved(now: int, before: Any, compared: bool) -> str:
    if not compared:
        return f"#{now}"
    if before is None:
        return f"new → #{now}"
    old = before.conservative_rank
    return f"#{now}" if old == now else f"#{old} → #{now}"
