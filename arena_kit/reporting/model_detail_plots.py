"""The page of a model (9.2): its pictures, several models together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.dates import AutoDateLocator, DateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from arena_kit.board.detail import Deficits, ModelDetail, Path
from arena_kit.board.leaderboard import Leaderboard
from arena_kit.reporting.look import ACCENT, INK, LINE, SOFT, WARM, panels_of, styled
from arena_kit.reporting.tables import DASH
from arena_kit.reporting.validity_plots import GREEN, plain

Details = Sequence[ModelDetail]
_PROMPTS, _OPPONENTS = 40, 30  # shown at most


@styled
def deficits(details: Details, board: Leaderboard) -> Figure:
    """The coverage heatmap: where each model lacks votes, by opponent and prompt."""
    n = max(min(_OPPONENTS, len(each.deficits.opponents)) for each in details)
    figure, axes = panels_of(
        9, 1.7 + 0.24 * n, len(details), labels=["x" * 30],
        title="Where does a model lack votes? (number: decisive votes, #: conservative rank)",
    )  # fmt: skip
    image = None
    for ax, each in zip(axes, details, strict=True):
        if each.deficits.prompts:
            image = _heatmap(ax, each.model, each.deficits, board)
        else:
            ax.set_axis_off()
            ax.text(0, 0.9, f"{plain(each.model)}: the file names no prompts", color=SOFT)
    if image is not None:
        bar = figure.colorbar(image, ax=axes, location="bottom", shrink=0.4, aspect=30, pad=0.01)
        bar.set_label("missing share: prompt + opponent (◂: neighbour in rank)", fontsize=8.5)
        bar.outline.set_visible(False)
    return figure


def _heatmap(ax: Any, model: str, found: Deficits, board: Leaderboard) -> Any:
    order = np.argsort(-found.votes.sum(axis=0), kind="stable")[:_PROMPTS]
    columns = np.sort(order)
    joint, votes = found.joint[:_OPPONENTS, columns], found.votes[:_OPPONENTS, columns]
    image = ax.imshow(joint, cmap="YlOrBr", vmin=0, vmax=2, aspect="auto")
    for i, j in np.ndindex(votes.shape):
        ink = "white" if joint[i, j] > 1.3 else INK if joint[i, j] > 0.7 else SOFT
        cell = ax.text(j, i, str(votes[i, j]), ha="center", va="center", fontsize=7, color=ink)
        cell.set_in_layout(False)  # hundreds of them would take the layout seconds
    rank = {name: n for n, name in enumerate(board.conservative_order, 1)}
    near = [
        f"{plain(name)} {'◂ ' if abs(rank[name] - rank[model]) == 1 else ''}#{rank[name]}"
        for name in found.opponents[:_OPPONENTS]
    ]
    ax.set_yticks(range(len(near)), near, fontsize=7.5)
    names = [plain(found.prompts[j]) for j in columns]
    wide = max((len(name) for name in names), default=0) > 14
    ax.set_xticks([] if wide else range(len(names)), [] if wide else names, rotation=60,
                  ha="right", fontsize=7)  # fmt: skip
    left_out = len(found.prompts) - len(columns)
    some = f" (the {len(columns)} of {len(found.prompts)} prompts with most votes)"
    ax.set_title(plain(model) + (some if left_out else ""))
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    return image


@styled
def quality(details: Details, board: Leaderboard) -> Figure:
    """Quality floor and both-bad rate over time (8.3)."""
    figure, axes = panels_of(
        9, 3.1, len(details), "Is the quality floor holding?", sharey=True,
        labels=[each.model for each in details],
    )  # fmt: skip
    limit = board.policy.quality.both_bad_rate
    top = max((t.both_bad / max(1, t.votes) for d in details for t in d.trend), default=0.0)
    for ax, each in zip(axes, details, strict=True):
        x = np.arange(len(each.trend))
        rate = np.array([t.both_bad / t.votes if t.votes else np.nan for t in each.trend])
        ax.bar(x, rate, width=0.62, color=["#e2a37a" if r <= limit else WARM for r in rate])
        for at, value, trend in zip(x, rate, each.trend, strict=True):
            ax.annotate(f"{trend.both_bad}/{trend.votes}", (at, value), (0, 2), ha="center",
                        textcoords="offset points", fontsize=6.5, color=SOFT)  # fmt: skip
        ax.axhline(limit, color=WARM, linestyle=":", linewidth=1)
        floor = board[each.model].quality_floor
        told = DASH if floor is None else f"{floor:.3f}"
        ax.set_title(f"{plain(each.model)}: quality floor {told}")
        weekly = not any("%" in t.label for t in each.trend)
        ax.set_xticks(x, [t.label.partition("-")[2] if weekly else f"{n}"
                          for n, t in enumerate(each.trend, 1)], fontsize=7.5)  # fmt: skip
        ax.set_xlabel("" if weekly else "tenths of its votes, in order")
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        ax.set_ylim(0, 1.25 * max(limit, top))
        ax.tick_params(length=0)
    axes[0].set_ylabel(f"both-bad rate (check above {100 * limit:g}%)")
    return figure


@styled
def history(details: Details, board: Leaderboard) -> Figure:
    """Rating and RD after every vote, with the Bradley–Terry interval at the end."""
    figure, axes = panels_of(
        9, 3.4, len(details), "How did rating and confidence develop?", sharey=True,
        labels=["x" * 20] if len(details) == 2 else [each.model for each in details],
    )  # fmt: skip
    for ax, each in zip(axes, details, strict=True):
        _history(ax, each, board)
    axes[0].set_ylim(*_settled([each.path for each in details], board.policy.deviations))
    axes[0].set_ylabel("rating")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=3, frameon=False, fontsize=8.5)
    return figure


def _settled(paths: Sequence[Path], deviations: float) -> tuple[float | None, float | None]:
    """Limits that hold every band from the tenth vote on; the first ones are wider than a page."""
    later = [path for path in paths if len(path.rating) > 10]
    if not later:
        return None, None
    low = min(float((p.rating - deviations * p.rd)[10:].min()) for p in later)
    high = max(float((p.rating + deviations * p.rd)[10:].max()) for p in later)
    return low - 20, high + 20


def _history(ax: Any, each: ModelDetail, board: Leaderboard) -> None:
    path, row = each.path, board[each.model]
    x: Any = np.arange(1, len(path.rating) + 1) if path.moments is None else path.moments
    n = board.policy.deviations
    ax.fill_between(x, path.rating - n * path.rd, path.rating + n * path.rd, color="#dbe8f2",
                    linewidth=0, label=f"± {n:g} RD")  # fmt: skip
    ax.plot(x, path.rating, color=ACCENT, linewidth=1, label="raw rating after each vote")
    if len(path.rating) and row.bt_rating is not None:
        low = row.bt_rating if row.bt_low is None else row.bt_low
        high = row.bt_rating if row.bt_high is None else row.bt_high
        end = x[-1] + (x[-1] - x[0]) * 0.05
        ax.vlines(end, low, high, color=GREEN, linewidth=2.6)
        ax.plot(end, row.bt_rating, "s", color=GREEN, markersize=3.5,
                label="Bradley–Terry, 95% interval")  # fmt: skip
    ax.axhline(board.policy.glicko.rating, color=LINE, linewidth=1, zorder=0)
    ax.set_title(f"{plain(each.model)}: {row.rating:.0f} ± {row.rd:.0f} RD", color=INK)
    if path.moments is None:
        ax.set_xlabel("votes of the model")
    else:
        ax.xaxis.set_major_locator(AutoDateLocator(maxticks=4))  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_formatter(DateFormatter("%d %b"))  # type: ignore[no-untyped-call]
    ax.tick_params(length=0)
