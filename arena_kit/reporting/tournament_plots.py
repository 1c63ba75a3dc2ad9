"""Pictures of a study. Titles ask the question that the picture answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.judging.quality.estimates import Estimate
from arena_kit.judging.quality.measures import position_bias
from arena_kit.judging.verdicts.records import Judgment
from arena_kit.rating.base import Ratings, rated_or_none
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.claims import claims
from arena_kit.rating.claims.power import Effect
from arena_kit.reporting import figures as fig
from arena_kit.reporting.board import Board
from arena_kit.reporting.tables import probability
from arena_kit.reporting.tournament_tables import pairwise_winrates

_PARTS = 5  # of the questions, on which a learning curve is measured


@fig.plot(
    "winrates",
    "Share of decisive battles won by the row entrant against the column entrant, per dimension",
)
def winrates(battles: BattleLog, board: Board) -> fig.Figure:
    """How often the row entrant beat the column entrant, of the decisive battles; entrants in the
    order of the board.
    """
    rows = pairwise_winrates(battles)
    dimensions = [name for name in board.names if any(row["dimension"] == name for row in rows)]
    everyone = sorted({row[side] for row in rows for side in ("entrant_a", "entrant_b")})
    title = "Who beats whom, how often?"
    figure, axes, side = fig.matrices_of(len(everyone), len(dimensions), title, everyone)
    for ax, dimension in zip(axes, dimensions, strict=True):
        names = _ordered(everyone, board, dimension)
        wins = np.zeros((len(names), len(names)))
        for row in (row for row in rows if row["dimension"] == dimension):
            i, j = names.index(row["entrant_a"]), names.index(row["entrant_b"])
            wins[i, j], wins[j, i] = row["a_wins"], row["b_wins"]
        decided = wins + wins.T
        share = np.divide(wins, decided, out=np.full_like(wins, np.nan), where=decided > 0)
        texts = {at: f"{100 * share[at]:.0f}%" for at, n in np.ndenumerate(decided) if n}
        counts = {at: f"n={decided[at]:.0f}" for at in texts} if side > 0.5 else None
        fig.share_matrix(ax, share, texts, names, side, under=counts, title=dimension,
                         xlabel="… against")  # fmt: skip
    axes[0].set_ylabel("share won by …")
    return figure


def _ordered(models: Sequence[str], board: Board, dimension: str) -> list[str]:
    """Models in the order of a board, those that are not on it last."""
    order = [row.model for row in board.rows(dimension)]
    return sorted(models, key=lambda m: (order.index(m) if m in order else len(order), m))


@fig.plot(
    "position_bias",
    "Share of verdicts for slot A, and share of pairs whose two orders disagree, per dimension",
)
def position(judgments: Sequence[Judgment]) -> fig.Figure:
    """Share of decisive verdicts for the response shown first, and share of flips."""
    from matplotlib.ticker import MaxNLocator

    bias, title = position_bias(judgments), "Does the order of presentation decide?"
    figure, (left, right) = fig.panels_of(1.4 + 0.42 * len(bias), 2, title, sharey=True)
    y = np.arange(len(bias))[::-1]
    rate, low, high = (_ends([b.slot_a for b in bias.values()])).T
    left.axvline(0.5, color=fig.SOFT, linewidth=1, linestyle=":")
    left.hlines(y, low, high, color=fig.ACCENT, linewidth=2.4)
    left.plot(rate, y, "o", color=fig.ACCENT)
    for at, value in zip(y, rate, strict=True):
        if not np.isnan(value):
            left.annotate(f"{100 * value:.1f}%", (value, at), (0, 6), textcoords="offset points",
                          ha="center", fontsize=8.5)  # fmt: skip
    spread = max(0.1, 1.25 * float(np.nanmax(np.abs([low - 0.5, high - 0.5]), initial=0.0)))
    fig.name_rows(left, [*bias][::-1], title="slot A named (50%: order ignored)",
                  xlabel="share of decisive verdicts, 95%", ylim=(-0.6, len(bias) - 0.3),
                  xlim=(max(0, 0.5 - spread), min(1, 0.5 + spread)))  # fmt: skip
    flips = _ends([b.flips for b in bias.values()])[:, 0]
    right.barh(y, flips, height=0.5, color=fig.WARM)
    for at, value in zip(y, flips, strict=True):
        label = "unknown" if np.isnan(value) else f"{100 * value:.1f}%"
        right.annotate(f" {label}", (np.nan_to_num(value), at), va="center", fontsize=9)
    right.set(title="the two orders disagree", xlabel="share of pairs with both answers",
              xlim=(0, max(0.05, 1.3 * float(np.nanmax(flips, initial=0.0)))))  # fmt: skip
    for ax in (left, right):
        ax.xaxis.set_major_formatter("{x:.0%}")
        ax.xaxis.set_major_locator(MaxNLocator(5))
    return figure


def _ends(shares: Sequence[Estimate]) -> NDArray[np.float64]:
    """Value and both ends of each share's interval, the value itself where it has none."""
    known = [(s.value, *((s.value,) * 2 if s.low is None else (s.low, s.high))) for s in shares]
    return np.array(known, float).reshape(-1, 3)


@fig.plot("permutation_spread", "Spread of ratings over single shuffled orders, per dimension")
def permutation_spread(board: Board) -> fig.Figure:
    """Ratings of single shuffled orders: what one Elo run would have reported; entrants in the
    order of the board.
    """
    ratings = board.fits.get("elo", {})
    if not ratings:
        return fig.nothing_to_show()
    models = [model for rated in ratings.values() for model in rated.models]
    n = max(len(rated.models) for rated in ratings.values())
    title, row = "How far could a single order have led astray?", 0.32 if n <= 8 else 0.26
    figure, axes = fig.panels_of(1.5 + row * n, len(ratings), title, sharex=True, labels=models)
    soft = {"color": fig.SOFT}
    for ax, (dimension, rated) in zip(axes, ratings.items(), strict=True):
        order = _ordered(rated.models, board, dimension)[::-1]
        columns = [rated.traces[:, rated.models.index(model)] for model in order]
        ax.boxplot(
            columns, positions=range(len(order)), orientation="horizontal", widths=0.55,
            whis=(2.5, 97.5), showfliers=False, medianprops={"color": fig.WARM, "linewidth": 2},
            boxprops=soft, whiskerprops=soft, capprops=soft,
        )  # fmt: skip
        fig.name_rows(ax, order, title=dimension, xlabel="Elo of a single order")
    return figure


@fig.plot("k_heatmap", "Rank and rating of every entrant at every K of the sweep, per dimension")
def k_heatmap(sweep: Mapping[str, Mapping[float, Ratings]], board: Board) -> fig.Figure:
    """Rank of every entrant at every K, entrants in the order of the board."""
    names = list(next(iter(next(iter(sweep.values())).values())).order)
    title = "Does the order depend on K?"
    figure, axes = fig.panels_of(1.6 + 0.5 * len(names), len(sweep), title, labels=names)
    for ax, (dimension, by_k) in zip(axes, sweep.items(), strict=True):
        ks = list(by_k)
        order = _ordered(by_k[max(by_k)].models, board, dimension)
        ranks = np.array([[by_k[k].order.index(m) + 1 for k in ks] for m in order])
        ax.imshow(ranks, cmap="Blues_r", vmin=0, vmax=len(order) + 1.5, aspect="auto")
        for (i, j), rank in np.ndenumerate(ranks):
            color = "white" if rank <= 1 + len(order) / 4 else fig.INK
            fig.cell(ax, j, i - 0.1, f"{rank}", fontweight="bold", color=color)
            rating = f"{by_k[ks[j]][order[i]].rating:.0f}"
            fig.cell(ax, j, i + 0.28, rating, fontsize=7.5, color=color)
        ax.set_xticks(range(len(ks)), [f"{k:g}" for k in ks])
        ax.spines[:].set_visible(False)
        fig.name_rows(ax, order, title=dimension, xlabel="K (cell: rank, below it the rating)")
    return figure


@fig.plot("k_ranks", "Rank of every entrant at every K of the sweep, per dimension")
def k_ranks(sweep: Mapping[str, Mapping[float, Ratings]]) -> fig.Figure:
    """Rank of every entrant over K, a line each; lines that cross change places."""
    names = list(next(iter(next(iter(sweep.values())).values())).order)
    title = "Does the order depend on K?"
    figure, axes, shown = fig.on_first_screen(len(names), len(sweep), title, names)
    for ax, (dimension, by_k) in zip(axes, sweep.items(), strict=True):
        first = next(iter(by_k.values())).order
        for n, model in enumerate(first):
            ranks = [rated.order.index(model) + 1 for rated in by_k.values()]
            ax.plot(ranks, "o-", color=fig.HUES[n % len(fig.HUES)], linewidth=2.4, markersize=6)
        ax.set_yticks(range(1, shown + 1), [fig.shown_name(model) for model in first[:shown]])
        ax.set_xticks(range(len(by_k)), [f"{k:g}" for k in by_k])
        ax.set(title=dimension, ylim=(shown + 0.5, 0.5), xlim=(-0.3, len(by_k) - 0.7))
        last = ax.secondary_yaxis("right")
        last.set_yticks(range(1, shown + 1))
        last.spines[:].set_visible(False)
    fig.label_below(axes, "K (right: rank)")
    return figure


def learning_curve(
    board: Board, battles: BattleLog, expected: Mapping[str, Mapping[str, Any]]
) -> fig.Plot:
    """How interval widths fall with the number of prompts so far and, as its square root, up to
    that of the whole bank, and what is `expected` to be decided there.
    """
    logs, fits = battles.by_dimension(), board.fits.get("bradley_terry", {})
    methods = {dimension: BradleyTerry(**rated.settings) for dimension, rated in fits.items()}
    return _learning_curve({d: list(_widths(logs[d], methods[d])) for d in methods}, expected)


@fig.plot(
    "learning_curve",
    "Median width of 95 % intervals by number of prompts, measured and expected, per dimension",
)
def _learning_curve(
    measured: Mapping[str, list[tuple[int, float]]], expected: Mapping[str, Mapping[str, Any]]
) -> fig.Figure:
    title = "What would the whole bank decide?"
    figure, (ax,) = fig.panels_of(3.6, 1, title)
    for n, (dimension, known) in enumerate(measured.items()):
        colour, whole = fig.HUES[n % len(fig.HUES)], expected[dimension]
        asked, widths = np.array(known or [(1, np.nan)]).T
        ax.plot(asked, widths, "o-", color=colour, label=_outlook(dimension, whole))
        ahead = np.linspace(asked[-1], max(asked[-1], whole["prompts"]), 30)
        ax.plot(ahead, widths[-1] * np.sqrt(asked[-1] / ahead), ":", color=colour)
    ax.set(xlabel="prompts (dotted: expected)", ylabel="median width of intervals",
           xlim=(0, None), ylim=(0, None))  # fmt: skip
    fig.legend_below(figure, columns=1)
    return figure


@fig.plot(
    "power",
    "Power to decide each adjacent pair, named beforehand, by number of new prompts, per dimension",
)
def power_curves(fits: Mapping[str, Ratings]) -> fig.Figure:
    """The power of a new study whose claim is the order of two neighbours, the best first."""
    title = "How many new prompts would decide a claim named beforehand?"
    figure, axes = fig.panels_of(3.4, len(fits), title)
    sizes = np.unique(np.geomspace(30, 3000, 30).astype(int)).tolist()
    for ax, (dimension, rated) in zip(axes, fits.items(), strict=True):
        order = [row.model for row in rated.ratings if row.placed]
        share = 1 - (1 - claims.level(claims.looks(rated))) / 2
        for (above, below), colour in zip(pairwise(order), fig.HUES, strict=False):
            effect = Effect.of(rated, above, below)
            name = f"{fig.shown_name(above)} above {fig.shown_name(below)}"
            chance = [effect.power(n, share) for n in sizes]
            ax.plot(sizes, chance, color=colour, label=name)
        ax.axhline(0.8, color=fig.LINE, linewidth=1, zorder=0.5)
        ax.yaxis.set_major_formatter("{x:.0%}")
        ax.set(title=dimension, xscale="log", xticks=[30, 100, 300, 1000, 3000], ylim=(0, 1.02))
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.minorticks_off()
        if len(order) > 1:
            ax.legend(fontsize=8, edgecolor="none", framealpha=0.8)
    fig.label_below(axes, "new prompts (line: 80% power)")
    return figure


def _widths(log: BattleLog, method: BradleyTerry) -> Iterator[tuple[int, float]]:
    """The median width of intervals on a fifth of the questions, two fifths and so on."""
    questions = log.clusters()
    n = len(np.unique(questions))
    for part in sorted({max(1, n * k // _PARTS) for k in range(1, _PARTS + 1)}):
        some = np.isin(questions, np.unique(questions)[:part])
        rated = rated_or_none(method, log.select(some))
        ends = [(row.ci_low, row.ci_high) for row in (rated.ratings if rated else ())]
        if known := [high - low for low, high in ends if low is not None and high is not None]:
            yield part, float(np.median(known))


def _outlook(dimension: str, whole: Mapping[str, Any]) -> str:
    """What the whole bank is expected to decide of a dimension, in a line."""
    pairs = whole["neighbours"]
    likely = f"{whole['expected_decided']:.1f} of {len(pairs)} adjacent pairs" if pairs else "–"
    return f"{dimension}: {likely} expected to be decided by {whole['prompts']} prompts"


@fig.plot("ranks", "Probability of every rank for every entrant, per dimension")
def rank_probabilities(fits: Mapping[str, Ratings]) -> fig.Figure:
    """How probable each rank is for each entrant, best first."""
    n = max(len(rated.models) for rated in fits.values())
    names = [model for rated in fits.values() for model in rated.models]
    title = "Which ranks are possible, and how probable?"
    figure, axes = fig.panels_of(1.4 + 0.34 * n, len(fits), title, labels=names)
    for ax, (dimension, rated) in zip(axes, fits.items(), strict=True):
        place = [rated.models.index(model) for model in rated.order]
        shares = claims.rank_probabilities(rated)[place]
        ax.imshow(shares, cmap="Blues", vmin=0, vmax=1.3, aspect="auto")
        for (i, j), share in np.ndenumerate(shares):
            if share >= 0.005:
                fig.cell(ax, j, i, probability(share), fontsize=8.5 if n <= 8 else 7.5)
        ax.set_xticks(range(len(place)), [str(rank + 1) for rank in range(len(place))])
        ax.spines[:].set_visible(False)
        fig.name_rows(ax, rated.order, title=dimension)
    fig.label_below(axes, "rank")
    return figure
