"""Pictures of a study. Titles ask the question that the picture answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.judging.quality.estimates import Estimate
from arena_kit.judging.quality.measures import position_bias
from arena_kit.judging.verdicts.records import Judgment
from arena_kit.rating.base import Ratings
from arena_kit.rating.elo.method import Stability
from arena_kit.reporting.board import Board
from arena_kit.reporting.figures import (
    ACCENT,
    INK,
    SOFT,
    WARM,
    cell_size,
    cell_text,
    legend_below,
    matrices_of,
    models_of,
    nothing_to_show,
    panels_of,
    plot,
    row_height,
    shown_name,
)
from arena_kit.reporting.tournament_tables import pairwise_winrates


@plot(
    "winrates",
    "Share of decisive battles won by the row entrant against the column entrant, per dimension",
)
def winrates(battles: BattleLog, board: Board) -> Figure:
    """How often the row entrant beat the column entrant, of the decisive battles; entrants in the
    order of the board.
    """
    rows = pairwise_winrates(battles)
    named = {row["dimension"] for row in rows}
    dimensions = [name for name in board.names if name in named]
    everyone = sorted({row[side] for row in rows for side in ("entrant_a", "entrant_b")})
    figure, axes, side = matrices_of(
        len(everyone), len(dimensions), "Who beats whom, how often?", everyone
    )
    counted = side > 0.5  # where a cell has room for how many battles there were
    for ax, dimension in zip(axes, dimensions, strict=True):
        names = _ordered(everyone, board, dimension)
        share, decided = _shares(rows, dimension, names)
        ax.imshow(share, cmap="RdBu", vmin=0, vmax=1)
        for i, j in np.ndindex(share.shape):
            if decided[i, j]:
                light = abs(share[i, j] - 0.5) > 0.21
                ax.text(j, i - 0.08 * counted, cell_text(f"{100 * share[i, j]:.0f}%", side),
                        ha="center", va="center", fontsize=cell_size(side),
                        color="white" if light else INK, in_layout=False)  # fmt: skip
                if counted:
                    ax.text(j, i + 0.26, f"n={decided[i, j]:.0f}", ha="center", va="center",
                            fontsize=7.5, color="white" if light else SOFT,
                            in_layout=False)  # fmt: skip
        labels = [shown_name(name) for name in names]
        ax.set_xticks(range(len(names)), labels, rotation=30 if counted else 60, ha="right")
        ax.set_yticks(range(len(names)), labels)
        ax.set(title=dimension, xlabel="… against")
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
    axes[0].set_ylabel("share won by …")
    return figure


def _ordered(models: Sequence[str], board: Board, dimension: str) -> list[str]:
    """Models in the order of a board, those that are not on it last."""
    order = [row.model for row in board.rows(dimension)]
    return sorted(models, key=lambda m: (order.index(m) if m in order else len(order), m))


def _shares(
    rows: Iterable[Mapping[str, Any]], dimension: str, names: list[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    wins = np.zeros((len(names), len(names)))
    for row in rows:
        if row["dimension"] == dimension:
            i, j = names.index(row["entrant_a"]), names.index(row["entrant_b"])
            wins[i, j] += row["a_wins"]
            wins[j, i] += row["b_wins"]
    decided = wins + wins.T
    return np.divide(wins, decided, out=np.full_like(wins, np.nan), where=decided > 0), decided


@plot(
    "position_bias",
    "Share of verdicts for slot A, and share of pairs whose two orders disagree, per dimension",
)
def position(judgments: Sequence[Judgment]) -> Figure:
    """Share of decisive verdicts for the response shown first, and share of flips."""
    bias = position_bias(judgments)
    figure, (left, right) = panels_of(
        9, 1.4 + 0.42 * len(bias), 2, "Does the order of presentation decide?", sharey=True
    )
    y = np.arange(len(bias))[::-1]
    rate, low, high = (_ends([b.slot_a for b in bias.values()])).T
    left.axvline(0.5, color=SOFT, linewidth=1, linestyle=":")
    left.hlines(y, low, high, color=ACCENT, linewidth=2.4)
    left.plot(rate, y, "o", color=ACCENT)
    for at, value in zip(y, rate, strict=True):
        if not np.isnan(value):
            left.annotate(f"{100 * value:.1f}%", (value, at), (0, 6), textcoords="offset points",
                          ha="center", fontsize=8.5)  # fmt: skip
    spread = max(0.1, 1.25 * float(np.nanmax(np.abs([low - 0.5, high - 0.5]), initial=0.0)))
    left.set_xlim(max(0, 0.5 - spread), min(1, 0.5 + spread))
    left.set(title="slot A named (50%: order ignored)", xlabel="share of decisive verdicts, 95%")
    flips = _ends([b.flips for b in bias.values()])[:, 0]
    right.barh(y, flips, height=0.5, color=WARM)
    for at, value in zip(y, flips, strict=True):
        label = "unknown" if np.isnan(value) else f"{100 * value:.1f}%"
        right.annotate(f" {label}", (np.nan_to_num(value), at), va="center", fontsize=9)
    right.set_xlim(0, max(0.05, 1.3 * float(np.nanmax(flips, initial=0.0))))
    right.set(title="the two orders disagree", xlabel="share of pairs with both answers")
    left.set_yticks(y, [shown_name(name) for name in bias])
    left.set_ylim(-0.6, len(bias) - 0.3)
    for ax in (left, right):
        ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        ax.xaxis.set_major_locator(MaxNLocator(5))
        ax.tick_params(length=0)
    return figure


def _ends(shares: Sequence[Estimate]) -> NDArray[np.float64]:
    """Value and both ends of each share's interval, the value itself where it has none."""
    known = [
        (s.value, s.value, s.value) if s.low is None else (s.value, s.low, s.high) for s in shares
    ]
    return np.array(known, float).reshape(-1, 3)


@plot(
    "order_against_evidence",
    "Order SEM beside evidence standard error of every entrant, per dimension",
)
def order_against_evidence(board: Board) -> Figure:
    """The spread over shuffles beside the spread over resampled questions; entrants in the order of
    the board.
    """
    ratings = board.fits.get("elo", {})
    if not ratings:
        return nothing_to_show()
    n = max(len(rated.models) for rated in ratings.values())
    figure, axes = panels_of(
        9, 1.9 + 0.36 * n, len(ratings), "What is the ± of? Shuffled orders against evidence",
        sharex=True, labels=models_of(ratings.values()),
    )  # fmt: skip
    for ax, (dimension, rated) in zip(axes, ratings.items(), strict=True):
        rows = [rated[m] for m in reversed(_ordered(rated.models, board, dimension))]
        y = np.arange(len(rows))
        sem, evidence = (
            np.array([np.nan if row.extra[name] is None else row.extra[name] for row in rows])
            for name in ("order_sem", "evidence_se")
        )
        ax.barh(y + 0.19, evidence, height=0.34, color=ACCENT, label="evidence SE")
        ax.barh(y - 0.19, sem, height=0.34, color=WARM, label="order SEM")
        for at, values in ((y + 0.19, evidence), (y - 0.19, sem)):
            for unknown in at[np.isnan(values)]:
                ax.annotate(" unknown", (0, unknown), va="center", fontsize=8)
        ax.set_yticks(y, [shown_name(row.model) for row in rows])
        ax.set(title=dimension, xlabel="Elo points")
        ax.tick_params(length=0)
    top = max(r.extra["evidence_se"] or 0.0 for rated in ratings.values() for r in rated.ratings)
    axes[0].set_xlim(0, max(1.0, 1.1 * top))
    handles, labels = axes[0].get_legend_handles_labels()
    legend_below(figure, handles, labels, columns=2)
    return figure


@plot("permutation_spread", "Spread of ratings over single shuffled orders, per dimension")
def permutation_spread(board: Board) -> Figure:
    """Ratings of single shuffled orders: what one Elo run would have reported; entrants in the
    order of the board.
    """
    ratings = board.fits.get("elo", {})
    if not ratings:
        return nothing_to_show()
    n = max(len(rated.models) for rated in ratings.values())
    figure, axes = panels_of(
        9, 1.5 + row_height(n) * n, len(ratings), "How far could a single order have led astray?",
        sharex=True, labels=models_of(ratings.values()),
    )  # fmt: skip
    for ax, (dimension, rated) in zip(axes, ratings.items(), strict=True):
        order = list(reversed(_ordered(rated.models, board, dimension)))
        columns = [rated.traces[:, rated.models.index(model)] for model in order]
        ax.boxplot(
            columns, orientation="horizontal", widths=0.55, whis=(2.5, 97.5), showfliers=False,
            medianprops={"color": WARM, "linewidth": 2}, boxprops={"color": SOFT},
            whiskerprops={"color": SOFT}, capprops={"color": SOFT},
        )  # fmt: skip
        ax.set_yticks(range(1, len(order) + 1), [shown_name(name) for name in order])
        ax.set(title=dimension, xlabel="Elo of a single order")
        ax.tick_params(length=0)
    return figure


@plot("k_heatmap", "Rank and rating of every entrant at every K of the sweep, per dimension")
def k_heatmap(sweep: Mapping[str, Mapping[float, Ratings]], board: Board) -> Figure:
    """Rank of every entrant at every K, entrants in the order of the board."""
    some = next(iter(sweep.values()))
    ks = list(some)
    names = list(next(iter(some.values())).order)
    figure, axes = panels_of(
        9, 1.6 + 0.5 * len(names), len(sweep), "Does the order depend on K?", labels=names
    )
    for ax, (dimension, by_k) in zip(axes, sweep.items(), strict=True):
        order = _ordered(by_k[max(by_k)].models, board, dimension)
        ranks = np.array([[by_k[k].order.index(m) + 1 for k in by_k] for m in order])
        ax.imshow(ranks, cmap="Blues_r", vmin=0, vmax=len(order) + 1.5, aspect="auto")
        for i, j in np.ndindex(ranks.shape):
            rating = by_k[ks[j]][order[i]].rating
            dark = ranks[i, j] <= 1 + len(order) / 4
            ax.text(j, i - 0.1, f"{ranks[i, j]}", ha="center", va="center", fontweight="bold",
                    color="white" if dark else INK)  # fmt: skip
            ax.text(j, i + 0.28, f"{rating:.0f}", ha="center", va="center", fontsize=7.5,
                    color="white" if dark else INK)  # fmt: skip
        ax.set_xticks(range(len(ks)), [f"{k:g}" for k in ks])
        ax.set_yticks(range(len(order)), [shown_name(name) for name in order])
        ax.set(title=dimension, xlabel="K (cell: rank, below it the rating)")
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
    return figure


@plot(
    "k_gaps",
    "Gap between neighbours of the ranking at every K with evidence intervals, per dimension",
)
def k_gaps(stability: Mapping[str, Sequence[Stability]]) -> Figure:
    """Gap between neighbours at every K, with its evidence interval."""
    figure, axes = panels_of(
        9, 3.4 + 0.15 * max(map(len, stability.values())), len(stability),
        "How far apart are neighbours as K changes?", sharey=True,
    )  # fmt: skip
    colors = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
    marks = "osD^v*"
    for ax, (dimension, pairs) in zip(axes, stability.items(), strict=True):
        ax.axhline(0, color=SOFT, linewidth=1, linestyle=":")
        for n, pair in enumerate(pairs):
            shift = 1 + 0.05 * (n - (len(pairs) - 1) / 2)
            x = np.array(pair.ks) * shift
            color = colors[n % len(colors)]
            ax.vlines(x, pair.low, pair.high, color=color, linewidth=1.6, alpha=0.8)
            named = f"{shown_name(pair.above)} over {shown_name(pair.below)}"
            ax.plot(x, pair.gap, marks[n % len(marks)] + "-", color=color, markersize=4,
                    linewidth=1, label=named)  # fmt: skip
        ax.set_xscale("log")
        ax.set_xticks(pairs[0].ks, [f"{k:g}" for k in pairs[0].ks])
        ax.minorticks_off()
        ax.set(title=dimension, xlabel="K")
        ax.legend(fontsize=7.5, frameon=False, loc="upper left", bbox_to_anchor=(0, -0.16))
        ax.tick_params(length=0)
    axes[0].set_ylabel("Elo gap (bar: 95% evidence interval)")
    return figure
