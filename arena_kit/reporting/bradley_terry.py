"""Bradley–Terry beside Elo: what claims about who is above whom rest on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from arena_kit.rating import claims
from arena_kit.rating.base import Ratings
from arena_kit.reporting.figures import INK, in_a_row, models_of, panels_of, styled
from arena_kit.reporting.show import DASH, Shown, interval_text, table

if TYPE_CHECKING:
    from great_tables import GT

ByDimension = Mapping[str, Ratings]


def board(elo: ByDimension, strengths: ByDimension) -> Shown:
    """Elo and Bradley–Terry side by side, with the ranks that the evidence allows."""
    import pandas as pd

    rows = [
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
        for dimension, found in strengths.items()
        for ranges in [claims.rank_ranges(found)]
        for rank, row in enumerate(found.ratings, 1)
    ]
    if not rows:
        return Shown("<p>No dimension has a rating.</p>", "No dimension has a rating.")

    def look(gt: GT) -> GT:
        return gt.cols_align(
            "right", columns=["Bradley–Terry", "95% interval", "possible ranks", "Elo"]
        )

    return table(pd.DataFrame(rows), name="strengths", group="dimension", style=look)


def text(strengths: ByDimension) -> str:
    """Which neighbours the evidence separates, the same on every machine: for quoting."""
    lines = []
    for dimension, found in strengths.items():
        above = claims.gaps(found)
        lines.append(dimension)
        for rank, row in enumerate(found.ratings[:-1], 1):
            i, j = (found.models.index(m) for m in (row.model, found.ratings[rank].model))
            apart = "separated" if above.low[i, j] > 0 else "not separated"
            lines.append(
                f"  {row.model + ' over ' + found.ratings[rank].model:<24} "
                f"{above.gap[i, j]:5.0f} points, P {share_text(above.above[i, j])}, {apart}"
            )
    return "\n".join(lines)


def shrinkage(sweep: Mapping[str, Mapping[float, Ratings]], strengths: ByDimension) -> Shown:
    """Per dimension and K, how many Elo points stand for one of Bradley–Terry."""
    import pandas as pd

    rows = [
        {"dimension": dimension}
        | {
            f"K {k:g}": _slope(claims.shrinkage(ratings, strengths[dimension]))
            for k, ratings in by_k.items()
        }
        for dimension, by_k in sweep.items()
        if dimension in strengths
    ]
    if not rows:
        return Shown("<p>No dimension has a rating.</p>", "No dimension has a rating.")
    return table(pd.DataFrame(rows), name="shrinkage")


@styled
def above(strengths: ByDimension) -> Figure:
    """How probable it is that the row's entrant is above the column's."""
    names = models_of(strengths.values())
    n = max(len(found.models) for found in strengths.values())
    side = min(0.72 * n, 9.0 / min(in_a_row(names), len(strengths)) - 0.8)
    figure, axes = panels_of(
        9, side + 1.5, len(strengths), "How sure is it who is above whom?", labels=names
    )
    for ax, (dimension, found) in zip(axes, strengths.items(), strict=True):
        _matrix(ax, found)
        ax.set(title=dimension, xlabel="… is above")
    axes[0].set_ylabel("probability that …")
    return figure


def _matrix(ax: Any, found: Ratings) -> None:
    order = [found.models.index(model) for model in found.order]
    shown = claims.above(found)[np.ix_(order, order)]
    np.fill_diagonal(shown, np.nan)
    ax.imshow(shown, cmap="RdBu", vmin=0, vmax=1)
    size = 9.5 if len(order) <= 8 else 6.5
    for i, j in np.ndindex(shown.shape):
        if i != j:
            light = abs(shown[i, j] - 0.5) > 0.21
            ax.text(j, i, share_text(float(shown[i, j])), ha="center", va="center", fontsize=size,
                    color="white" if light else INK)  # fmt: skip
    ax.set_xticks(range(len(order)), found.order, rotation=30, ha="right")
    ax.set_yticks(range(len(order)), found.order)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def ranks_text(ranks: tuple[int, int] | None) -> str:
    """A range of ranks in words."""
    if ranks is None:
        return DASH
    return str(ranks[0]) if ranks[0] == ranks[1] else f"{ranks[0]} to {ranks[1]}"


def _slope(value: float) -> str:
    return DASH if np.isnan(value) else f"{value:.2f}"


def _elo(found: Ratings | None, model: str) -> str:
    if found is None or model not in found.models:
        return DASH
    return f"{found[model].rating:.0f}"


def share_text(value: float) -> str:
    """A probability; never 0 or 1, which no finite evidence gives."""
    if np.isnan(value):
        return DASH
    if value < 0.005 or value > 0.995:
        return "<1%" if value < 0.5 else ">99%"
    return f"{100 * value:.0f}%"
