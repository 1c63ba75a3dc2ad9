"""Bradley–Terry beside Elo: what claims about who is above whom rest on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from arena_kit.rating import claims
from arena_kit.rating.base import Ratings
from arena_kit.reporting.figures import INK, in_a_row, models_of, panels_of, plot
from arena_kit.reporting.tables import DASH, Table, interval_text, number, ranks_text

ByDimension = Mapping[str, Ratings]
_UNRATED = "No dimension has a rating."


def board(elo: ByDimension, strengths: ByDimension) -> Table:
    """Elo and Bradley–Terry side by side, with the ranks that the evidence allows."""
    rows = []
    for dimension, rated in strengths.items():
        ranges = claims.single_rank_ranges(rated)
        rows += [
            {
                "dimension": dimension,
                "entrant": row.model,
                "Bradley–Terry": f"{row.rating:.0f}",
                "95% interval": interval_text(row),
                "rank": rank,
                "possible ranks": ranks_text(ranges[row.model]),
                "Elo": _elo(elo.get(dimension), row.model),
                "battles": row.n_battles,
            }
            for rank, row in enumerate(rated.ratings, 1)
        ]
    return Table(rows=rows, name="strengths", group="dimension", left=["entrant"], empty=_UNRATED)


def text(strengths: ByDimension) -> str:
    """Which neighbours the evidence separates, the same on every machine: for quoting."""
    lines = []
    for dimension, rated in strengths.items():
        above = claims.gaps(rated)
        lines.append(dimension)
        for rank, row in enumerate(rated.ratings[:-1], 1):
            i, j = (rated.models.index(m) for m in (row.model, rated.ratings[rank].model))
            apart = "separated" if above.low[i, j] > 0 else "not separated"
            lines.append(
                f"  {row.model + ' over ' + rated.ratings[rank].model:<24} "
                f"{above.gap[i, j]:5.0f} points, P {share_text(above.above[i, j])}, {apart}"
            )
    return "\n".join(lines)


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
    return Table(rows=rows, name="shrinkage", left=["dimension"], empty=_UNRATED)


@plot("above", "Probability that the row entrant is above the column entrant, per dimension")
def above(strengths: ByDimension) -> Figure:
    """How probable it is that the row's entrant is above the column's."""
    names = models_of(strengths.values())
    n = max(len(rated.models) for rated in strengths.values())
    side = min(0.72 * n, 9.0 / min(in_a_row(names), len(strengths)) - 0.8)
    figure, axes = panels_of(
        9, side + 1.5, len(strengths), "How sure is it who is above whom?", labels=names
    )
    for ax, (dimension, rated) in zip(axes, strengths.items(), strict=True):
        _matrix(ax, rated)
        ax.set(title=dimension, xlabel="… is above")
    axes[0].set_ylabel("probability that …")
    return figure


def _matrix(ax: Any, rated: Ratings) -> None:
    order = [rated.models.index(model) for model in rated.order]
    shown = claims.above(rated)[np.ix_(order, order)]
    np.fill_diagonal(shown, np.nan)
    ax.imshow(shown, cmap="RdBu", vmin=0, vmax=1)
    size = 9.5 if len(order) <= 8 else 6.5
    for i, j in np.ndindex(shown.shape):
        if i != j:
            light = abs(shown[i, j] - 0.5) > 0.21
            ax.text(j, i, share_text(float(shown[i, j])), ha="center", va="center", fontsize=size,
                    color="white" if light else INK)  # fmt: skip
    ax.set_xticks(range(len(order)), rated.order, rotation=30, ha="right")
    ax.set_yticks(range(len(order)), rated.order)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def _elo(rated: Ratings | None, model: str) -> str | None:
    if rated is None or model not in rated.models:
        return None
    return f"{rated[model].rating:.0f}"


def share_text(value: float) -> str:
    """A probability; never 0 or 1, which no finite evidence gives."""
    if np.isnan(value):
        return DASH
    if value < 0.005 or value > 0.995:
        return "<1%" if value < 0.5 else ">99%"
    return f"{100 * value:.0f}%"
