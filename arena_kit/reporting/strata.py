"""Boards per stratum: a table, small multiples of the forest, and a heatmap of deviations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from arena_kit.rating.claims.claims import two_digits
from arena_kit.reporting import figures as fig
from arena_kit.reporting.board import Board
from arena_kit.reporting.tables import Table

POOLED = (
    "Ratings of a stratum shrink towards the overall rating (partial pooling). Alone: the rating "
    "without pooling, where it differs from that on the other strata beyond noise."
)
FURTHER = "further prompts"
_FURTHER = "Further prompts: so many in a stratum decide its first place with 50 % power."
#: Panels of small multiples, at most.
_PANELS = 24


def strata_table(board: Board, axis: str = "") -> Table:
    """Rating and 95 % interval of each model in each stratum of an axis (by default the first); the
    fewer of both stand in the columns.
    """
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    several = len(board.dimensions) > 1
    shown = _axes(board, axis)
    names = sorted({name for _, each in shown for name in each["boards"]})
    models = list(dict.fromkeys(row.model for row in board.ratings))
    for dimension, each in shown:
        odd = {(d["model"], d["stratum"]) for d in each["deviations"]}
        cells = {
            (model, name): _cell(each["boards"].get(name), model, alone=(model, name) in odd)
            for model in models
            for name in names
        }
        first: dict[str, Any] = {"dimension": dimension} if several else {}
        if len(names) > len(models):
            rows += [
                first
                | {each["axis"]: name, "prompts": part["n_questions"]}
                | {model: cells[model, name] for model in models}
                | {FURTHER: _further(part)}
                for name, part in each["boards"].items()
            ]
        else:
            rows += [first | {"model": m} | {n: cells[m, n] for n in names} for m in models]
            last = {name: _further(each["boards"].get(name)) for name in names}
            rows += [first | {"model": FURTHER} | last]
        lead = f"{dimension}: " if several else ""
        notes += [lead + " ".join(each["sentences"])]
    return Table(
        rows=rows,
        name="strata",
        group="dimension" if several else "",
        nowrap=["model"],
        left=[*names, *models],
        notes=[*notes, POOLED, _FURTHER] if rows else [],
        empty="No prompt has a stratum.",
    )


def _further(part: Mapping[str, Any] | None) -> str:
    """How many further prompts decide the first place of a stratum."""
    if part is None:
        return "no battles"
    n = part["more_prompts"]
    return "not within reach" if n is None else f"{two_digits(n):,}" if n else "decided"


def _axes(board: Board, axis: str) -> list[tuple[str, dict[str, Any]]]:
    """The boards of one axis, by default the first, of each dimension."""
    found = [(d.name, each) for d in board.dimensions for each in d.strata]
    axis = axis or (found[0][1]["axis"] if found else "")
    return [(name, each) for name, each in found if each["axis"] == axis]


def _cell(part: Mapping[str, Any] | None, model: str, *, alone: bool) -> str:
    """A model's rating in a stratum, its interval and, where wanted, its rating without pooling."""
    row = next((each for each in part["ratings"] if each["model"] == model), None) if part else None
    if row is None or not row["n_battles"]:
        return "no battles"
    text = f"{row['rating']:.0f} ({row['ci_low']:.0f}–{row['ci_high']:.0f})"
    return f"{text}, alone {row['alone']:.0f}" if alone else text


def strata_forest(board: Board, axis: str = "") -> fig.Plot:
    """Small multiples of the forest: a panel per stratum of each dimension that there is room for,
    at least the first.
    """
    panels: dict[str, list[Any]] = {}
    for dimension, each in _axes(board, axis):
        if panels and len(panels) + len(each["boards"]) > _PANELS:
            break
        lead = f"{dimension}\n" if len(board.dimensions) > 1 else ""
        for name, part in each["boards"].items():
            shown = f"{lead}{fig.shown_name(name)} ({part['n_questions']} prompts)"
            panels[shown] = [SimpleNamespace(**r) for r in part["ratings"] if r["n_battles"]]
    title = "Who is ahead on which kind of prompt?"
    plotted = fig.forest(panels, board.settings.get("center"), title=title)
    alt = "Rating of every entrant with its 95 % interval, per dimension and stratum"
    return replace(plotted, name="strata_forest", alt=alt)


@fig.plot(
    "strata",
    "How far each model's rating in a stratum is from its overall rating, in points, per "
    "dimension; bold where it differs beyond noise",
)
def deviations_map(
    panels: Mapping[str, tuple[Sequence[str], Sequence[str], Any, Any]],
) -> fig.Figure:
    """Deviations in points: a row per model, a column per stratum, a panel per dimension."""
    n = max(len(models) for models, *_ in panels.values())
    names = [model for models, *_ in panels.values() for model in models]
    title = "Does a model do better on some strata? (points against its overall rating)"
    figure, axes = fig.panels_of(1.6 + 0.36 * n, len(panels), title, labels=names)
    most = max(60.0, *(float(np.nanmax(np.abs(off))) for *_, off, _ in panels.values()))
    for ax, (dimension, (models, strata, off, bold)) in zip(axes, panels.items(), strict=True):
        ax.imshow(off, cmap="RdBu", vmin=-most, vmax=most, aspect="auto")
        for (i, j), value in np.ndenumerate(off):
            if np.isfinite(value):
                ink = "white" if abs(value) > 0.6 * most else fig.INK
                weight = "bold" if bold[i, j] else "normal"
                fig.cell(ax, j, i, f"{value:+.0f}", weight=weight, color=ink)
        fig.name_rows(ax, models, title=dimension)
        shown = [fig.shown_name(stratum) for stratum in strata]
        ax.set_xticks(range(len(strata)), shown, rotation=30, ha="right")
        ax.tick_params(colors=fig.SOFT)
    return figure


def plot_strata(board: Board, axis: str = "") -> fig.Plot:
    """The heatmap of deviations of one axis, by default the first."""
    panels = {}
    for dimension, each in _axes(board, axis):
        overall = {row.model: row.rating for row in board.rows(dimension)}
        level = float(np.mean(list(overall.values()))) - each["center"]
        strata = list(each["boards"])
        off = np.full((len(overall), len(strata)), np.nan)
        for j, part in enumerate(each["boards"].values()):
            for row in part["ratings"]:
                if row["n_battles"]:
                    i = list(overall).index(row["model"])
                    off[i, j] = row["rating"] - (overall[row["model"]] - level)
        odd = {(d["model"], d["stratum"]) for d in each["deviations"]}
        bold = np.array([[(model, name) in odd for name in strata] for model in overall])
        panels[dimension] = (list(overall), strata, off, bold)
    return deviations_map(panels)
