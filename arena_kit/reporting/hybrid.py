"""Tables and the picture of a board that people and a judge rated together."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from arena_kit.rating import claims
from arena_kit.rating.base import Rating, Ratings
from arena_kit.rating.hybrid import HybridRatings
from arena_kit.reporting.figures import ACCENT, LINE, SOFT, WARM, panels_of, plot
from arena_kit.reporting.tables import DASH, Table, interval_text, number, ranks_text


def board(found: HybridRatings) -> Table:
    """The board by people and judge together, people's own ratings and PPI++ beside it."""
    ranges = claims.rank_ranges(found.ratings)
    named = {each.model for each in found.disagreements}
    rows = [
        {
            "rank": rank,
            "model": row.model,
            "rating": f"{row.rating:.0f}",
            "95% interval": interval_text(row),
            "possible ranks": ranks_text(ranges[row.model]),
            "people alone": _with_interval(found.people, row.model),
            "prediction-powered": _with_interval(found.powered, row.model),
            "votes": number(row.extra["votes"], ".0f"),
            "verdicts": number(row.extra["verdicts"], ".0f"),
            "votes' worth": number(found.gain(row.model), ".1f", " ×"),
            "people and judge": "disagree" if row.model in named else "",
        }
        for rank, row in enumerate(found.ratings.ratings, 1)
    ]
    return Table(rows=rows, name="hybrid", left=["model", "people and judge"], notes=notes(found))


def notes(found: HybridRatings) -> list[str]:
    """What the board rests on, in sentences."""
    times = found.effective_sample / found.people.n_battles
    votes, verdicts = found.people.n_battles, found.judge.n_battles
    hold = "These intervals hold on average over models"
    if found.powered is not None:
        hold += "; those that are prediction-powered hold for each model, whatever the judge does"
    effective = f"{round(found.effective_sample):,} votes alone ({times:.1f} times as many)"
    sentences = [
        f"{votes:,} votes and {verdicts:,} verdicts say as much as {effective}.",
        f"{str(found.worth).capitalize()}; its error is about {found.error.sd:.0f} points.",
        f"{hold}.",
    ]
    sentences += [
        f"{each.model}: people put it {abs(each.gap):.0f} points "
        f"{'above' if each.gap > 0 else 'below'} what the judge lets expect "
        f"(chance {each.chance:.3f}); believe the votes there."
        for each in found.disagreements
    ]
    if found.left_out:
        few = ", ".join(f"{model} ({n})" for model, n in found.left_out.items())
        sentences.append(f"Too few votes to count: {few}; the judge places those it saw.")
    return sentences


def text(found: HybridRatings) -> str:
    """The answer, the same on every machine: for quoting and for checks."""
    lines = [
        f"{rank:3} {row.model:<24} {row.rating:7.1f}  {interval_text(row):>12}"
        for rank, row in enumerate(found.ratings.ratings, 1)
    ]
    return "\n".join([*lines, *notes(found)])


@plot("hybrid", "Rating of every model by people and judge together, and by people alone")
def forest(found: HybridRatings) -> Figure:
    """Everybody's rating with its interval, together and by people alone."""
    rows = list(reversed(found.ratings.ratings))
    figure, (ax,) = panels_of(
        9, 1.6 + 0.36 * len(rows), 1, "What do people and the judge say together?"
    )
    named = {each.model for each in found.disagreements}
    for y, row in enumerate(rows):
        if row.model in found.people.models:
            _bar(ax, found.people[row.model], y - 0.16, SOFT, "D")
        _bar(ax, row, y + 0.12, WARM if row.model in named else ACCENT, "o")
    for color, mark, label in (
        (ACCENT, "o", "people and judge together"),
        (SOFT, "D", "people alone"),
        (WARM, "o", "people and judge disagree"),
    ):
        if color != WARM or named:
            ax.plot([], [], mark, color=color, markersize=5, label=label)
    ax.axvline(found.ratings.settings["center"], color=LINE, linewidth=1, zorder=0)
    ax.set_yticks(range(len(rows)), [row.model for row in rows])
    ax.set_ylim(-0.7, len(rows) - 0.3)
    ax.set_xlabel("Bradley–Terry rating (bar: 95% interval)")
    ax.tick_params(length=0)
    figure.legend(loc="outside lower left", ncols=3, frameon=False, fontsize=8.5)
    return figure


def _bar(ax: Axes, row: Rating, y: float, color: str, mark: str) -> None:
    low = row.rating if row.ci_low is None else row.ci_low
    high = row.rating if row.ci_high is None else row.ci_high
    ax.hlines(y, low, high, color=color, linewidth=2.0)
    ax.plot(row.rating, y, mark, color=color, markersize=4.5)


def _with_interval(ratings: Ratings | None, model: str) -> str:
    if ratings is None or model not in ratings.models:
        return DASH
    row = ratings[model]
    return f"{row.rating:.0f} ({interval_text(row)})"
