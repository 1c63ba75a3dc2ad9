"""Tables and pictures of a model placed among others."""

from __future__ import annotations

from math import nan
from typing import Any

from matplotlib.figure import Figure

from arena_kit.rating import claims
from arena_kit.rating.base import Rating
from arena_kit.rating.placement import Placed
from arena_kit.reporting.bradley_terry import share_text
from arena_kit.reporting.figures import ACCENT, LINE, SOFT, WARM, panels_of, plot
from arena_kit.reporting.tables import Table, facts, interval_text, percent, ranks_text


def board(placed: Placed, note: str = "") -> Table:
    """The leaderboard of the joint fit, the placed model marked; `note` is about the votes."""
    ranges = claims.rank_ranges(placed.joint)
    row = claims.above(placed.joint)[placed.joint.models.index(placed.model)]
    ahead = dict(zip(placed.joint.models, row, strict=True)) | {placed.model: nan}
    rows = [
        {
            "rank": rank,
            "model": each.model,
            "rating": f"{each.rating:.0f}",
            "95% interval": interval_text(each),
            "possible ranks": ranks_text(ranges[each.model]),
            f"P({placed.model} above)": share_text(ahead[each.model]),
            "battles": each.n_battles,
            "decided by": "judge" if each.model == placed.model else "people",
        }
        for rank, each in enumerate(placed.joint.ratings, 1)
    ]
    return Table(
        rows=rows,
        name="placement",
        left=["model", "decided by"],
        marked=placed.joint.order.index(placed.model),
        notes=[f"People's votes: {note}."] if note else [],
    )


def ways(placed: Placed) -> Table:
    """The model's place by each way of placing it, beside people's own votes where there are."""
    joint, anchored = placed.joint, placed.anchored
    rows = [
        _way("joint fit", joint[placed.model], claims.rank_ranges(joint)[placed.model]),
        _way("others held fixed", anchored[placed.model],
             claims.rank_ranges(anchored)[placed.model]),
    ]  # fmt: skip
    if placed.cautious is not None:
        rows.insert(1, _way(f"joint fit, {_with(placed)}", placed.cautious, None))
    if placed.hidden is not None:
        rows.append(_way("people's own votes, set aside", placed.hidden, None))
    moved = max(abs(joint[m].rating - placed.human[m].rating) for m in placed.human.models)
    note = f"The joint fit moves the other models by at most {moved:.1f} points."
    return Table(rows=rows, name="ways", left=["placed by"], notes=[note])


def calibration(placed: Placed) -> Table:
    """How the judge's verdicts were weighed against people's votes."""
    fit = placed.calibration
    if fit is None:
        return Table(rows=[], empty="Verdicts count in full: soft outcomes were not asked for.")
    return facts(
        {
            "battles that people and the judge both decided": fit.n_shared,
            "same winner, where both name one": percent(fit.agreement, ".1f"),
            "temperature": f"{fit.temperature:.3f} (± {100 * fit.log_error:.0f} %, 1 SE)",
            "a clear verdict is worth": f"{fit.worth:.3f} of a win",
            "people's votes under ratings by the toned-down verdicts": f"{fit.nll:.4f} nats",
            "… by verdicts in full": f"{fit.nll_full:.4f} nats",
            "… by the votes themselves": f"{fit.nll_human:.4f} nats",
        },
        name="calibration",
    )


def text(placed: Placed) -> str:
    """The answer, the same on every machine: for quoting and for checks."""
    joint, anchored = placed.joint[placed.model], placed.anchored[placed.model]
    ranks = ranks_text(claims.rank_ranges(placed.joint)[placed.model])
    rank = placed.joint.order.index(placed.model) + 1
    lines = [
        (
            f"{placed.model} is placed at rank {rank} of {len(placed.joint.models)} "
            f"(possible: {ranks}) by {placed.n_judged} judged battles"
        ),
        f"  joint fit          {joint.rating:7.1f}  {interval_text(joint):>12}",
        f"  others held fixed  {anchored.rating:7.1f}  {interval_text(anchored):>12}",
    ]
    if placed.cautious is not None:
        wide = placed.cautious
        lines.append(f"  where people would {wide.rating:7.1f}  {interval_text(wide):>12}")
    if placed.hidden is not None:
        lines.append(
            f"  people's own votes {placed.hidden.rating:7.1f}  {interval_text(placed.hidden):>12}"
        )
    return "\n".join(lines)


@plot("placement", "Rating of every model with its 95 % interval, the placed model marked")
def forest(placed: Placed, note: str = "") -> Figure:
    """Everybody's rating with its interval; the placed model both ways."""
    rows = list(reversed(placed.joint.ratings))
    figure, (ax,) = panels_of(
        9, 1.6 + 0.34 * len(rows), 1, f"Where does {placed.model} stand, and how sure is it?"
    )
    for y, row in enumerate(rows):
        own = row.model == placed.model
        _bar(ax, row, y + (0.14 if own else 0), WARM if own else ACCENT, "o",
             "by the judge, joint fit" if own else "")  # fmt: skip
        if own and placed.cautious is not None:
            _thin(ax, placed.cautious, y + 0.14)
        ax.annotate(f"{row.rating:.0f}", (row.rating, y), (0, 6 if not own else 9),
                    textcoords="offset points", ha="center", fontsize=8)  # fmt: skip
    at = placed.joint.order[::-1].index(placed.model)
    _bar(ax, placed.anchored[placed.model], at - 0.08, WARM, "s", "by the judge, others held fixed")
    if placed.hidden is not None:
        _bar(ax, placed.hidden, at - 0.3, SOFT, "D", "by people's own votes, set aside")
    ax.axhspan(at - 0.46, at + 0.46, color="#fdebd9", zorder=0)
    ax.axvline(placed.joint.settings["center"], color=LINE, linewidth=1, zorder=0)
    ax.set_yticks(range(len(rows)), [row.model for row in rows])
    ax.set_ylim(-0.7, len(rows) - 0.2)
    votes = f"; votes {note}" if note else ""
    ax.set_xlabel(f"Bradley–Terry rating (bar: 95% interval{votes})")
    ax.tick_params(length=0)
    figure.legend(loc="outside lower left", ncols=3, frameon=False, fontsize=8.5)
    return figure


def _bar(ax: Any, row: Rating, y: float, color: str, mark: str, label: str) -> None:
    low = row.rating if row.ci_low is None else row.ci_low
    high = row.rating if row.ci_high is None else row.ci_high
    ax.hlines(y, low, high, color=color, linewidth=2.2)
    ax.plot(row.rating, y, mark, color=color, markersize=5.5, label=label or None)


def _with(placed: Placed) -> str:
    """What the wider interval adds."""
    if placed.judge_error is None:
        return "with the calibration's error"
    return "with this judge's error" + (" and the calibration's" if placed.calibration else "")


def _thin(ax: Any, row: Rating, y: float) -> None:
    ax.hlines(
        y, row.ci_low, row.ci_high, color=WARM, linewidth=0.9, label="… and this judge's error"
    )


def _way(how: str, row: Rating, ranks: tuple[int, int] | None) -> dict[str, object]:
    return {
        "placed by": how,
        "rating": f"{row.rating:.0f}",
        "95% interval": interval_text(row),
        "possible ranks": ranks_text(ranks),
        "battles": row.n_battles,
    }
