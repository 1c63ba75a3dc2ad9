"""Bradley–Terry beside Elo: what claims about who is above whom rest on."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from arena_kit.battles.log import BattleLog
from arena_kit.rating import claims
from arena_kit.rating.base import Ratings
from arena_kit.reporting.figures import INK, in_a_row, models_of, panels_of, plot
from arena_kit.reporting.tables import DASH, Table, interval_text, number, ranks_text
from arena_kit.reporting.tournament_tables import ABOUT, first_rests_on

ByDimension = Mapping[str, Ratings]
_UNRATED = "No dimension has a rating."


def board(elo: ByDimension, strengths: ByDimension) -> Table:
    """Elo and Bradley–Terry side by side, with the ranks that decided orders leave open to all
    entrants at once; under it, what may be said about each dimension.
    """
    rows = []
    for dimension, rated in strengths.items():
        ranges = claims.rank_ranges(rated, repeated=True)
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
    return Table(
        rows=rows,
        name="strengths",
        group="dimension",
        left=["entrant"],
        notes=[
            *(
                f"{dimension}: {' '.join(claims.sentences(r))}"
                for dimension, r in strengths.items()
            ),
            *about(strengths),
        ],
        empty=_UNRATED,
    )


def text(strengths: ByDimension, battles: Mapping[str, BattleLog] | None = None) -> str:
    """What may be said about each dimension, which neighbouring orders are decided, and how
    probable each is by itself, the same on every machine: for quoting. With the `battles` of each
    dimension also how few of them the first place rests on.
    """
    lines = []
    for dimension, rated in strengths.items():
        lines.append(dimension)
        said = [*claims.sentences(rated)]
        if battles and (fragile := first_rests_on(rated, battles[dimension])):
            said.append(fragile.sentence)
        for sentence in said:  # a report's box holds so much in a line
            lines += wrap(sentence, 88, initial_indent="  ", subsequent_indent="    ")
        lines += [f"  {_neighbours(rated, pair)}" for pair in claims.neighbours(rated)]
    return "\n".join([*lines, *about(strengths)])


def about(strengths: ByDimension) -> list[str]:
    """What the claims are about, in a sentence for each kind there is."""
    return [ABOUT[name] for name in dict.fromkeys(claims.about(r) for r in strengths.values())]


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
    return Table(rows=rows, name="shrinkage", left=["dimension"], empty=_UNRATED)


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
    side = min(0.72 * n, 9.0 / min(in_a_row(names), len(strengths)) - 0.8)
    figure, axes = panels_of(
        9,
        side + 1.5,
        len(strengths),
        "How sure is one pair named beforehand? (bold: decided)",
        labels=names,
    )
    for ax, (dimension, rated) in zip(axes, strengths.items(), strict=True):
        _matrix(ax, rated)
        ax.set(title=dimension, xlabel="… is above")
    axes[0].set_ylabel("probability that …")
    return figure


def _matrix(ax: Any, rated: Ratings) -> None:
    order = [rated.models.index(model) for model in rated.order]
    shown, clear = (each(rated)[np.ix_(order, order)] for each in (claims.above, claims.decided))
    np.fill_diagonal(shown, np.nan)
    ax.imshow(shown, cmap="RdBu", vmin=0, vmax=1)
    size = 9.5 if len(order) <= 8 else 6.5
    for i, j in np.ndindex(shown.shape):
        if i != j:
            light = abs(shown[i, j] - 0.5) > 0.21
            ax.text(j, i, share_text(float(shown[i, j])), ha="center", va="center", fontsize=size,
                    color="white" if light else INK,
                    weight="bold" if clear[i, j] or clear[j, i] else "normal")  # fmt: skip
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
