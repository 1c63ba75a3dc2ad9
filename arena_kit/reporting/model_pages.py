"""The picture of the leaderboard, and the pages of models (9.1, 9.2), several together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from arena_kit.policy.rules import Verdict
from arena_kit.reporting import figures as fig
from arena_kit.reporting.board import ABOUT
from arena_kit.reporting.tables import Table, number, percent, probability
from arena_kit.validity.leaderboard import Leaderboard, LeaderboardRow
from arena_kit.validity.model_page import RECENT, Deficits, ModelDetail
from arena_kit.validity.weekly import Row, WeeklyReport

Details = Sequence[ModelDetail]
_ROWS = 8  # shown at most of each model
_ENOUGH = 5  # votes from which a prompt or opponent is compared with others
_PROMPTS, _OPPONENTS = 40, 30  # shown at most in a heatmap


def sentences(details: Details, board: Leaderboard) -> list[str]:
    """Each model in a sentence."""
    return [
        f"{each.model}: rank {board[each.model].conservative_rank} of {len(board.rows)} by "
        f"conservative score, {board[each.model].badge}; won "
        f"{percent(each.summary['win_rate'])} of its decisive votes."
        for each in details
    ]


def summary(details: Details) -> Table:
    """Win rate, recent form and recent delta; ratings and records stand on the board."""
    rows = [
        {
            "model": each.model,
            "win rate": percent(each.summary["win_rate"], ".1f"),
            "recent form": each.summary["form"],
            "recent delta": number(each.summary["delta"], "+.0f"),
        }
        for each in details
    ]
    note = (
        f"Win rate is of decisive votes; form and delta are of the last {RECENT} votes (W win, "
        "L loss, D draw, B both bad), the latest last. The "
        "leaderboard has ratings, records and coverage."
    )
    left = ["model", "recent form"]
    return Table(rows, "summary", left=left, nowrap=list(rows[0]), notes=[note])


def neighbours(details: Details, board: Leaderboard) -> Table:
    """Each model against the ranks directly above and below (challenge record)."""
    rule = board.policy.pairs
    rank = {each.model: board[each.model].conservative_rank for each in details}
    rows = [
        {
            "model": f"{each.model}, #{rank[each.model]} by conservative score",
            "adjacent": ("above: " if near["rank"] < rank[each.model] else "below: ")
            + near["model"],
            "W/L/D": "/".join(str(near[kind]) for kind in ("wins", "losses", "ties")),
            f"decisive votes ({rule.votes})": near["votes"],
            f"prompts ({rule.prompts})": near["prompts"],
            "enough": "✓" if near["meets_floor"] else "✗",
            "order": near["order"].seen_by(each.model, board.policy.publication.margin),
            "P(above it), BT": None if near["above"] is None else probability(near["above"]),
        }
        for each in details
        for near in each.neighbours
    ]
    single = (
        "P(above it) is for this pair alone and one look; decided orders hold for all pairs and "
        "repeated looks."
    )
    notes = [single, ABOUT[board.order_decided.about]]
    return Table(rows, "neighbours", group="model", notes=notes)


def breakdown(details: Details, what: str) -> Table:
    """The prompts or opponents (`what`) on which each model is furthest above and below its rating,
    best first, and when responses to a prompt were shown.

    Where there are many, those with very few votes are left out: they would all be extreme.
    """
    rows = []
    for each in details:
        every: Sequence[Row] = getattr(each, f"{what}s")
        extremes = _extremes(every)
        rows += [
            {
                "model": f"{each.model}: {len(extremes)} of {len(every)} {what}s",
                what: row["name"],
                "votes": row["votes"],
                "decisive": row["decisive"],
                "both bad": row["both_bad"],
                "raw score": number(row["score"], ".2f"),
                "above expectation": number(row["surprise"], "+.2f"),
                "first seen (UTC)": _minute(row["first_seen"]),
                "last seen (UTC)": _minute(row["last_seen"]),
            }
            for row in extremes
        ]
    empty = f"The file has no {what}s with {_ENOUGH} votes."
    return Table(rows, f"{what}s", group="model", empty=empty)


def _extremes(rows: Sequence[Row]) -> list[Row]:
    few = 0 if len(rows) <= _ROWS else _ENOUGH
    known = sorted(
        (row for row in rows if row["surprise"] is not None and row["votes"] >= few),
        key=lambda row: (-row["surprise"], row["name"]),
    )
    half = _ROWS // 2
    return known if len(known) <= _ROWS else known[:half] + known[-half:]


def _minute(moment: str | None) -> str | None:
    return moment and moment[:16].replace("T", " ")


@fig.plot(
    "deficits", "Joint coverage deficit of each model by opponent and prompt, with decisive votes"
)
def deficits(details: Details, board: Leaderboard) -> fig.Figure:
    """The coverage heatmap: where each model lacks votes, by opponent and prompt."""
    n = max(min(_OPPONENTS, len(each.deficits.opponents)) for each in details)
    title = "Where does a model lack votes? (any number: decisive votes, #: conservative rank)"
    figure, axes = fig.panels_of(1.7 + 0.24 * n, len(details), title, labels=["x" * 30])
    image = None
    for ax, each in zip(axes, details, strict=True):
        if each.deficits.prompts:
            image = _heatmap(ax, each.model, each.deficits, board)
        else:
            ax.set_axis_off()
            none = f"{fig.shown_name(each.model)}: the file names no prompts"
            ax.text(0, 0.9, none, color=fig.SOFT)
    if image is not None:
        bar = figure.colorbar(image, ax=axes, location="bottom", shrink=0.4, aspect=30, pad=0.01)
        bar.set_label("missing share: prompt + opponent (◂: neighbour in rank)", fontsize=8.5)
        bar.outline.set_visible(False)
    return figure


def _heatmap(ax: Any, model: str, deficits: Deficits, board: Leaderboard) -> Any:
    columns = np.sort(np.argsort(-deficits.votes.sum(axis=0), kind="stable")[:_PROMPTS])
    joint, votes = deficits.joint[:_OPPONENTS, columns], deficits.votes[:_OPPONENTS, columns]
    image = ax.imshow(joint, cmap="YlOrBr", vmin=0, vmax=2, aspect="auto")
    room = (ax.figure.get_figwidth() - 1.6) / max(1, len(columns))  # inches of a cell
    for i, j in np.ndindex(votes.shape if room > 0.14 else (0, 0)):
        ink = "white" if joint[i, j] > 1.3 else fig.INK if joint[i, j] > 0.7 else fig.SOFT
        fig.cell(ax, j, i, str(votes[i, j]), fontsize=7, color=ink)
    rank = {name: n for n, name in enumerate(board.conservative_order, 1)}
    near = [
        f"{fig.shown_name(name)} {'◂ ' if abs(rank[name] - rank[model]) == 1 else ''}#{rank[name]}"
        for name in deficits.opponents[:_OPPONENTS]
    ]
    ax.set_yticks(range(len(near)), near, fontsize=7.5)
    names = [fig.shown_name(deficits.prompts[j]) for j in columns]
    names = names if max(map(len, names), default=0) <= 14 else []
    ax.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=7)
    n = len(deficits.prompts)
    some = f" (the {len(columns)} of {n} prompts with most votes)" if len(columns) < n else ""
    ax.set_title(fig.shown_name(model) + some)
    ax.spines[:].set_visible(False)
    return image


@fig.plot("quality", "Both-bad rate of each model by week, and the rate above which a check is due")
def quality(details: Details, board: Leaderboard) -> fig.Figure:
    """Quality floor and both-bad rate over time (8.3)."""
    title, names = "Is the quality floor holding?", [each.model for each in details]
    figure, axes = fig.panels_of(3.1, len(details), title, labels=names, sharey=True)
    limit = board.policy.quality.both_bad_rate
    for ax, each in zip(axes, details, strict=True):
        x = np.arange(len(each.trend))
        rate = [part["both_bad"] / max(1, part["votes"]) for part in each.trend]
        colors = ["#e2a37a" if share <= limit else fig.WARM for share in rate]
        bars = ax.bar(x, rate, width=0.62, color=colors)
        counts = [f"{part['both_bad']}/{part['votes']}" for part in each.trend]
        ax.bar_label(bars, counts, padding=2, fontsize=6.5, color=fig.SOFT)
        ax.axhline(limit, color=fig.WARM, linestyle=":", linewidth=1)
        floor = number(board[each.model].quality_floor, ".3f")
        ax.set_title(f"{fig.shown_name(each.model)}: quality floor {floor}")
        ax.set_xticks(x, [part["label"].rpartition("-")[2] for part in each.trend], fontsize=7.5)
        ax.yaxis.set_major_formatter("{x:.0%}")
    axes[0].set_ylabel(f"both-bad rate (check above {100 * limit:g}%)")
    return figure


@fig.plot(
    "history",
    "Rating and RD of each model after every vote, with the Bradley–Terry interval at the end",
)
def history(details: Details, board: Leaderboard) -> fig.Figure:
    """Rating and RD after every vote, with the Bradley–Terry interval at the end."""
    title = "How did rating and confidence develop?"
    names = ["x" * 20] if len(details) == 2 else [each.model for each in details]
    figure, axes = fig.panels_of(3.4, len(details), title, labels=names, sharey=True)
    for ax, each in zip(axes, details, strict=True):
        _history(ax, each, board)
    axes[0].set_ylim(*_limits(details, board.policy.deviations))
    axes[0].set_ylabel("rating")
    fig.legend_below(figure, *axes[0].get_legend_handles_labels(), columns=3)
    return figure


def _limits(details: Details, deviations: float) -> tuple[float | None, float | None]:
    """Limits that hold every band from the tenth vote on; the first ones are wider than a page."""
    later = [each.history for each in details if len(each.history.rating) > 10]
    if not later:
        return None, None
    low = min(float((h.rating - deviations * h.rd)[10:].min()) for h in later)
    high = max(float((h.rating + deviations * h.rd)[10:].max()) for h in later)
    return low - 20, high + 20


def _history(ax: Any, each: ModelDetail, board: Leaderboard) -> None:
    path, row = each.history, board[each.model]
    x: Any = np.arange(1, len(path.rating) + 1) if path.moments is None else path.moments
    n = board.policy.deviations
    ax.fill_between(x, path.rating - n * path.rd, path.rating + n * path.rd, color="#dbe8f2",
                    linewidth=0, label=f"± {n:g} RD")  # fmt: skip
    ax.plot(x, path.rating, color=fig.ACCENT, linewidth=1, label="raw rating after each vote")
    if len(path.rating) and row.bt_rating is not None:
        low = row.bt_rating if row.bt_low is None else row.bt_low
        high = row.bt_rating if row.bt_high is None else row.bt_high
        end = x[-1] + (x[-1] - x[0]) * 0.05
        ax.vlines(end, low, high, color=fig.HUES[2], linewidth=2.6)
        ax.plot(end, row.bt_rating, "s", color=fig.HUES[2], markersize=3.5,
                label="Bradley–Terry, 95% interval")  # fmt: skip
    ax.axhline(board.policy.glicko.rating, color=fig.LINE, linewidth=1, zorder=0)
    ax.set_title(f"{fig.shown_name(each.model)}: {row.rating:.0f} ± {row.rd:.0f} RD", color=fig.INK)
    if path.moments is None:
        ax.set_xlabel("votes of the model")
    else:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        ticks = AutoDateLocator(maxticks=4)  # type: ignore[no-untyped-call]
        ax.xaxis.set_major_locator(ticks)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(ticks))  # type: ignore[no-untyped-call]


@fig.plot(
    "leaderboard",
    "Confidence bands of the models in the published order, now and in the comparison week, with "
    "ranks and badges; open orders marked",
)
def leaderboard(report: WeeklyReport) -> fig.Figure:
    """Confidence bands in the published order, now and in the comparison week, with ranks and
    badges (5, 12); a bar joins neighbours whose order is not decided.
    """
    board, title = report.now, "Which orders of the leaderboard are decided?"
    figure, (ax,), shown = fig.on_first_screen(len(board.rows), 1, title, board.order)
    was = {row.model: row for row in report.before.rows} if report.before else {}
    rows = list(reversed(board.rows[:shown]))
    earlier = [(y - 0.2, was[row.model]) for y, row in enumerate(rows) if row.model in was]
    if earlier:
        places, before = zip(*earlier, strict=True)
        _bands(ax, before, places, board.policy.deviations, "#8a97a3", "comparison week")
    _bands(ax, rows, np.arange(len(rows)) + 0.1, board.policy.deviations, fig.ACCENT, "now")
    fig.name_rows(ax, [row.model for row in rows], ylim=(-0.5, len(rows) - 0.5))
    badges = ax.secondary_yaxis("right")
    badges.set_yticks(range(len(rows)), [_standing(report, row, was) for row in rows])
    badges.spines[:].set_visible(False)
    place = {row.model: y for y, row in enumerate(rows)}
    undecided = [p for p in board.adjacent if p.verdict is not Verdict.DECIDED]
    drawn = [(place[p.above], place[p.below]) for p in undecided if {p.above, p.below} <= {*place}]
    for n, ends in enumerate(drawn):
        ax.plot([1, 1], [max(ends) - 0.2, min(ends) + 0.2], color=fig.WARM, linewidth=4,
                transform=ax.get_yaxis_transform(), clip_on=False,
                label="" if n else "order not decided")  # fmt: skip
    ax.set_xlabel(f"raw rating (bar: ± {board.policy.deviations:g} RD)")
    fig.legend_below(figure, columns=3, phone=2)
    return figure


def _standing(report: WeeklyReport, row: LeaderboardRow, was: dict[str, LeaderboardRow]) -> str:
    """The rank, where there is room with that of the comparison week, and the badge."""
    before = was[row.model].conservative_rank if row.model in was else row.conservative_rank
    moved = f"#{before} → " if before != row.conservative_rank and not fig.is_narrow() else ""
    badge = f" {row.badge}" if report.now.policy.phase.shows_diagnostics else ""
    return f"{moved}#{row.conservative_rank}{badge}"


def _bands(
    ax: Any, rows: Sequence[LeaderboardRow], y: Any, deviations: float, color: str, label: str
) -> None:
    rating, rd = np.array([(row.rating, row.rd) for row in rows]).T
    ax.errorbar(rating, y, xerr=deviations * rd, fmt="o", color=color, elinewidth=2.2,
                markersize=4, label=label)  # fmt: skip
