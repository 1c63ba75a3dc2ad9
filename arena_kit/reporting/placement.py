"""Tables and pictures of a model placed among others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from arena_kit.battles.log import BattleLog
from arena_kit.judging.asking.cost import Forecast, dollars
from arena_kit.rating.base import Rating, Ratings
from arena_kit.rating.claims import claims
from arena_kit.rating.with_judge.hybrid import HybridRatings
from arena_kit.rating.with_judge.placement import MIN_MODELS, MIN_SHARED, Placed
from arena_kit.reporting import figures as fig
from arena_kit.reporting import hybrid
from arena_kit.reporting.board import board_of
from arena_kit.reporting.tables import Table, facts, percent, ranks_text, span
from arena_kit.reporting.tournament_tables import forecast_rows, pairwise_winrates


def heading(placed: Placed) -> str:
    """What a board says of the placed model, in a few words."""
    return "including the judge error" if placed.judge_error else "judge error unknown"


def caution(placed: Placed) -> str:
    """Whether the intervals include the judge error, in one sentence or two."""
    model, error = placed.model, placed.judge_error
    if error is not None:
        return (
            f"The interval, ranks and probabilities of {model} include the judge error: "
            f"{error.sd:.0f} points (SD), estimated from {error.n_models} other models."
        )
    return (
        f"The judge error is unknown: it needs {MIN_SHARED} battles decided by human votes and by "
        f"the judge, among {MIN_MODELS} other models. The interval, ranks and probabilities of "
        f"{model} do not include it."
    )


def board(placed: Placed, note: str = "") -> Table:
    """The leaderboard of the joint fit, the placed model marked; `note` is about the votes."""
    shown, model = placed.shown, placed.model
    own = ranks_text(claims.single_rank_ranges(shown)[model])
    alone = f"Rank ranges hold for all models at once; for {model} alone: {own}."
    return replace(
        board_of({"": shown}).table(),
        title=f"{model} among models with human votes, {heading(placed)}",
        marked=shown.order.index(model),
        notes=[caution(placed), alone, note and f"Human votes: {note}."],
    )


def brief(placed: Placed) -> list[str]:
    """Rank and rating of the placed model and the judge's error, in a few words."""
    shown, model, error = placed.shown, placed.model, placed.judge_error
    ranks = claims.rank_ranges(shown)[model]
    alone, row = claims.single_rank_ranges(shown)[model], shown[model]
    place = f"rank {shown.order.index(model) + 1} of {len(shown.models)}"
    off = f"{error.sd:.0f} points (SD) from people's ratings" if error else "unknown"
    ranked = f"{ranks_text(alone)} on its own, {ranks_text(ranks)} for all models at once"
    rated = f"rating {row.rating:.0f} (95% interval {span(row.ci_low, row.ci_high)})"
    return [f"{model}: estimated {place} ({ranked}), {rated}.", f"Judge error: {off}."]


def ways(placed: Placed, together: HybridRatings | None = None) -> Table:
    """The model's place by each method, by its human votes where there are any, and by both
    `together`.
    """
    joint, model = placed.joint, placed.model
    held, anchored = placed.shown_anchored, placed.anchored[model]
    rows = [
        _way("joint fit", placed.shown[model], joint[model], placed.shown),
        _way("others held fixed", held[model], anchored, held),
    ]
    if placed.hidden is not None:
        rows.append(_way("its human votes (held out)", placed.hidden, placed.hidden, None))
    if together is not None:
        both = together.ratings
        rows.append(_way("votes and judge together", both[model], None, both))
    moved = max(abs(joint[m].rating - placed.human[m].rating) for m in placed.human.models)
    note = f"The joint fit moves the other models by at most {moved:.1f} points."
    return Table(rows, "ways", notes=[caution(placed), note])


def together(model: str, found: HybridRatings | None, apart: str) -> Table:
    """The board by votes and judge together, the placed model marked, and the placement's worth in
    votes; where there is none, `apart` says why.
    """
    if found is None:
        return Table([], empty=in_votes(model, found, apart))
    return replace(
        hybrid.hybrid_board({"": found}, {}).table(),
        title=f"{model} by votes and judge together",
        marked=found.ratings.order.index(model),
        notes=[in_votes(model, found, apart), *hybrid.notes(found)],
    )


def in_votes(model: str, found: HybridRatings | None, apart: str) -> str:
    """How many human votes on the model the placement is worth, in a sentence."""
    if found is None:
        return f"The placement's worth in votes is unknown: {apart}."
    row, ranks = found.ratings[model], claims.single_rank_ranges(found.ratings)[model]
    rated = f"{row.rating:.0f} ({span(row.ci_low, row.ci_high)})"
    place = f"{rated}, rank {ranks_text(ranks)} on its own"
    worth = f"worth about {float(f'{found.as_votes(model):.2g}'):,.0f} votes: {place}."
    if votes := row.extra["votes"]:
        return f"{votes:,} votes on {model} and the verdicts are together {worth}"
    few = found.left_out.get(model)
    nobody = f"{model} has too few votes ({few})" if few else f"{model} has no votes"
    return f"{nobody}; the placement is {worth}"


_SUMS = {
    "usd_all_hits": "with all prompt-cache hits",
    "usd_no_hits": "without one (compared with max_cost_usd)",
    "usd_at_most": "upper bound",
}


def forecast(parts: Mapping[str, Forecast]) -> Table:
    """What answers and verdicts would cost, side by side, and together; verdicts on answers that
    are not made yet are priced by their expected length.
    """
    columns = {name: forecast_rows(part) for name, part in parts.items()}
    rows: list[dict[str, object]] = [
        {"what": what, **{name: column[what] for name, column in columns.items()}}
        for what in next(iter(columns.values()), {})
    ]
    total = {name: sum(getattr(part, name) for part in parts.values()) for name in _SUMS}
    sums = ", ".join(f"{dollars(total[name])} {when}" for name, when in _SUMS.items())
    return Table(
        rows, "forecast", bold=["what"], notes=[f"Together: {sums}."],
        empty="Nothing is asked over the network, so nothing is paid.",
    )  # fmt: skip


def met(judged: BattleLog, model: str, statuses: Mapping[str, int]) -> Table:
    """The model's record against each opponent by the judge; what of the verdicts was unusable."""
    rows = []
    for pair in pairwise_winrates(replace(judged, dimension=None)):
        sides, wins = (pair["entrant_a"], pair["entrant_b"]), (pair["a_wins"], pair["b_wins"])
        if model in sides:
            own = sides.index(model)
            rows.append(
                {
                    "opponent": sides[1 - own],
                    "judged battles": sum(wins) + pair["ties"],
                    "won": wins[own],
                    "tied": pair["settled_ties"],
                    "lost": wins[1 - own],
                    "inconsistent": pair["inconsistent"],
                }
            )
    others = len(judged) - sum(row["judged battles"] for row in rows)
    kept = ", ".join(f"{n:,} {status}" for status, n in statuses.items() if n)
    more = f"{others:,} more battles were judged among the other models." if others else ""
    notes = [more, kept and f"Verdicts by status: {kept}."]
    return Table(rows, "met", notes=notes, empty=f"No battle of {model} was judged.")


def calibration(placed: Placed) -> Table:
    """How the judge's verdicts were calibrated to human votes."""
    fit = placed.calibration
    if fit is None:
        why = "soft outcomes are off, or too few battles have human votes and verdicts"
        return Table([], empty=f"Verdicts count in full: {why}.")
    return facts(
        {
            "battles decided by human votes and by the judge": fit.n_shared,
            "same winner, where both name one": percent(fit.agreement, ".1f"),
            "temperature": f"{fit.temperature:.3f} (± {100 * fit.log_error:.0f} %, 1 SE)",
            "a clear verdict counts": f"{fit.worth:.3f} of a win",
            "cross-entropy of human votes, calibrated verdicts": f"{fit.nll:.4f} nats",
            "… verdicts in full": f"{fit.nll_full:.4f} nats",
            "… ratings by the votes": f"{fit.nll_human:.4f} nats",
        },
        name="calibration",
    )


@fig.plot("placement", "Rating of every model with its 95 % interval, the placed model marked")
def forest(placed: Placed, note: str = "") -> fig.Figure:
    """Everybody's rating with its interval; the placed model both ways, its evidence in bold. Of
    many models those around it.
    """
    model, order = placed.model, placed.shown.order
    known = f"Where does {model} stand, and how sure is it?"
    title = known if placed.judge_error else f"Where does this judge put {model}?"
    figure, (ax,), shown = fig.on_first_screen(len(order), 1, title, order)
    first = min(max(0, order.index(model) - shown // 2), len(order) - shown)
    rows = list(reversed(placed.shown.ratings[first : first + shown]))
    for y, row in enumerate(rows):
        if row.model == model:
            fig.interval_bar(ax, row, y + 0.14, fig.WARM, "o", f"joint fit, {heading(placed)}")
        else:
            fig.interval_bar(ax, row, y)
    at = [row.model for row in rows].index(model)
    evidence = placed.joint[model]
    if placed.extra_error and evidence.ci_low is not None and evidence.ci_high is not None:
        ax.hlines(at + 0.14, evidence.ci_low, evidence.ci_high, color=fig.WARM, linewidth=6,
                  alpha=0.35, label="evidence alone")  # fmt: skip
    others = placed.shown_anchored[model]
    fig.interval_bar(ax, others, at - 0.08, fig.WARM, "s", "others held fixed")
    if placed.hidden is not None:
        aside = "by people's own votes, set aside"
        fig.interval_bar(ax, placed.hidden, at - 0.3, fig.SOFT, "D", aside)
    fig.band(ax, at, fig.MARKED)
    ax.axvline(placed.joint.settings["center"], color=fig.LINE, linewidth=1, zorder=0)
    votes = f"; votes {note if len(note) <= 80 else f'{note[:79]}…'}" if note else ""
    fig.name_rows(ax, [row.model for row in rows], ylim=(-0.5, len(rows) - 0.5),
                  xlabel=f"rating (95% interval{votes})")  # fmt: skip
    fig.legend_below(figure, columns=4)
    return figure


def _way(
    how: str, row: Rating, evidence: Rating | None, among: Ratings | None
) -> dict[str, object]:
    ranks = claims.single_rank_ranges(among)[row.model] if among else None
    return {
        "placed by": how,
        "rating": f"{row.rating:.0f}",
        "95% interval": span(row.ci_low, row.ci_high),
        "evidence alone": span(evidence.ci_low, evidence.ci_high) if evidence else None,
        "rank on its own": ranks_text(ranks),
        "battles": row.n_battles,
    }
