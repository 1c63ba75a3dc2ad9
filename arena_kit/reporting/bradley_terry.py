"""The board by Bradley–Terry, Elo beside it, and what may be said about who is above whom."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import Ratings
from arena_kit.rating.claims import claims
from arena_kit.reporting.board import SCALES
from arena_kit.reporting.figures import (
    INK,
    cell_size,
    cell_text,
    matrices_of,
    models_of,
    plot,
    shown_name,
)
from arena_kit.reporting.neighbours import orders, rests_on, table
from arena_kit.reporting.tables import DASH, Table, interval_text, number, ranks_text
from arena_kit.reporting.tournament_tables import about

ByDimension = Mapping[str, Ratings]
Logs = Mapping[str, BattleLog]
_UNRATED = "No dimension has a rating."
_COLUMNS = (
    "dimension", "rank", "entrant", "Bradley–Terry", "95% interval", "possible ranks", "Elo ± SEM",
    "evidence interval", "battles",
)  # fmt: skip


def board(
    elo: ByDimension, strengths: ByDimension, unrated: Mapping[str, str] | None = None
) -> Table:
    """The board of every dimension by Bradley–Terry, with the ranks that decided orders leave open
    to all entrants at once; Elo stands beside it. Under it: what has no rating and why, and why
    the two scales differ. What may be said about the order is the report's answer.
    """
    rows = []
    for dimension, rated in strengths.items():
        ranges = claims.rank_ranges(rated, repeated=True)
        rows += [
            {
                "dimension": dimension,
                "rank": rank,
                "entrant": row.model,
                "Bradley–Terry": f"{row.rating:.0f}",
                "95% interval": interval_text(row),
                "possible ranks": ranks_text(ranges[row.model]),
                **_beside(elo.get(dimension), row.model),
                "battles": row.n_battles,
            }
            for rank, row in enumerate(rated.ratings, 1)
        ]
    missing = [f"Not rated on {dimension}: {why}." for dimension, why in (unrated or {}).items()]
    return Table(
        rows=rows,
        name="board",
        columns=_COLUMNS,
        group="dimension",
        left=["entrant"],
        nowrap=["entrant", "95% interval", "Elo ± SEM", "evidence interval"],
        bold=["Bradley–Terry"],
        notes=[*missing, *([SCALES] if elo else []), *_elo_notes(elo)],
        empty=" ".join([_UNRATED, *missing]),
    )


def _beside(rated: Ratings | None, model: str) -> dict[str, str | None]:
    """Elo of an entrant: the mean of its shuffled orders ± its Monte-Carlo error, and what the
    evidence leaves open.
    """
    if rated is None or model not in rated.models:
        return {"Elo ± SEM": None, "evidence interval": None}
    row = rated[model]
    return {
        "Elo ± SEM": f"{row.rating:.0f} ± {number(row.extra['order_sem'], '.1f')}",
        "evidence interval": interval_text(row),
    }


def _elo_notes(elo: ByDimension) -> list[str]:
    """Who has no Elo interval and why, and of which intervals too few hold the truth."""
    missing = [
        f"No Elo interval for {row.model} on {dimension}: {row.no_interval}."
        for dimension, rated in elo.items()
        for row in rated.ratings
        if row.no_interval
    ]
    return [*missing, *(f"{d}: {note}" for d, rated in elo.items() for note in rated.notes)]


def board_text(elo: ByDimension, strengths: ByDimension, unrated: Mapping[str, str]) -> str:
    """The board as text, the same on every machine: for quoting and for checks."""
    lines = []
    for dimension, rated in strengths.items():
        ranges = claims.rank_ranges(rated, repeated=True)
        lines.append(f"{dimension} ({rated.n_battles} battles)")
        for rank, row in enumerate(rated.ratings, 1):
            beside = _beside(elo.get(dimension), row.model)
            ranks = f"ranks {ranks_text(ranges[row.model])}"
            own = f"{row.model:<12} {row.rating:7.1f}  {interval_text(row):>12}  {ranks:<12}"
            by_elo = f"Elo {beside['Elo ± SEM']} ({beside['evidence interval']})"
            lines.append(f"  {rank}. {own} {by_elo if dimension in elo else ''}".rstrip())
    lines += [f"not rated on {dimension}: {why}" for dimension, why in unrated.items()]
    return "\n".join(lines)


def _said(rated: Ratings, battles: BattleLog | None, margin: float) -> list[str]:
    """What may be said about the order, and how few votes the first place rests on."""
    fragile = rests_on(rated, battles) if battles is not None else None
    return [*claims.sentences(rated, margin), *([fragile.first.sentence] if fragile else [])]


def neighbours(strengths: ByDimension, battles: Logs, margin: float = 0.0) -> Table:
    """Every two neighbours: whether their order is decided, how few votes would turn it round, and
    how many more judge calls would decide it.
    """
    rows = {
        dimension: orders(rated, rests_on(rated, battles[dimension]), margin, judged=True)
        for dimension, rated in strengths.items()
    }
    return table(rows)


def text(strengths: ByDimension, battles: Logs | None = None, margin: float = 0.0) -> str:
    """What may be said about each dimension, which neighbouring orders are decided, and how
    probable each is by itself, the same on every machine: for quoting. With the `battles` of each
    dimension also how few of them the first place rests on.
    """
    lines = []
    for dimension, rated in strengths.items():
        lines.append(dimension)
        own = battles[dimension] if battles else None
        for sentence in _said(rated, own, margin):  # a report's box holds so much in a line
            lines += wrap(sentence, 88, initial_indent="  ", subsequent_indent="    ")
        lines += [f"  {_neighbours(rated, pair)}" for pair in claims.neighbours(rated, margin)]
    return "\n".join([*lines, *about(strengths)])


def _neighbours(rated: Ratings, pair: claims.Neighbours) -> str:
    """Two neighbours: their gap, whether their order is decided, and the probability that holds
    for this pair alone.
    """
    at = rated.models.index(pair.above), rated.models.index(pair.below)
    gap, _, _, above = (each[at] for each in claims.gaps(rated))
    named = f"{pair.above} over {pair.below}"
    return f"{named:<24} {gap:5.0f} points, {pair.state}; P {share_text(above)} named beforehand"


def shrinkage(sweep: Mapping[str, Mapping[float, Ratings]], strengths: ByDimension) -> Table:
    """Per dimension and K, how many Elo points stand for one of Bradley–Terry."""
    rows = [
        {"dimension": dimension}
        | {
            f"K {k:g}": number(claims.shrinkage(ratings, strengths[dimension]), ".2f")
            for k, ratings in by_k.items()
        }
        for dimension, by_k in sweep.items()
        if dimension in strengths
    ]
    return Table(
        rows=rows,
        name="shrinkage",
        left=["dimension"],
        notes=[note for dimension, by_k in sweep.items() if (note := _too_short(dimension, by_k))],
        empty=_UNRATED,
    )


def _too_short(dimension: str, by_k: Mapping[float, Ratings]) -> str:
    """At which K the replays of a dimension end before their intervals hold the truth."""
    ks = [f"{k:g}" for k, ratings in by_k.items() if ratings.notes]
    return f"{dimension}: intervals hold the truth too seldom at K {', '.join(ks)}." if ks else ""


@plot(
    "above",
    "Probability that the row entrant is above the column entrant, for one pair named beforehand, "
    "per dimension; decided orders in bold",
)
def above(strengths: ByDimension) -> Figure:
    """How probable it is that the row's entrant is above the column's, for one pair named
    beforehand; orders that are decided for all pairs at once stand in bold.
    """
    names = models_of(strengths.values())
    n = max(len(rated.models) for rated in strengths.values())
    title = "How sure is one pair named beforehand? (bold: decided)"
    figure, axes, side = matrices_of(n, len(strengths), title, names)
    for ax, (dimension, rated) in zip(axes, strengths.items(), strict=True):
        _matrix(ax, rated, side)
        ax.set(title=dimension, xlabel="… is above")
    axes[0].set_ylabel("probability that …")
    return figure


def _matrix(ax: Any, rated: Ratings, side: float) -> None:
    order = [rated.models.index(model) for model in rated.order]
    shown, clear = (each(rated)[np.ix_(order, order)] for each in (claims.above, claims.decided))
    np.fill_diagonal(shown, np.nan)
    ax.imshow(shown, cmap="RdBu", vmin=0, vmax=1)
    for i, j in np.ndindex(shown.shape):
        if i != j:
            light = abs(shown[i, j] - 0.5) > 0.21
            ax.text(j, i, cell_text(share_text(float(shown[i, j])), side), ha="center",
                    va="center", fontsize=cell_size(side), color="white" if light else INK,
                    weight="bold" if clear[i, j] or clear[j, i] else "normal",
                    in_layout=False)  # fmt: skip
    labels = [shown_name(name) for name in rated.order]
    ax.set_xticks(range(len(order)), labels, rotation=30 if side > 0.5 else 60, ha="right")
    ax.set_yticks(range(len(order)), labels)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def share_text(value: float) -> str:
    """A probability; never 0 or 1, which no finite evidence gives."""
    if np.isnan(value):
        return DASH
    if value < 0.005 or value > 0.995:
        return "<1%" if value < 0.5 else ">99%"
    return f"{100 * value:.0f}%"
