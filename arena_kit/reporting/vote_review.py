"""Tables, picture and sentences of a review of voters: who stands out, why, and what it changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf, log
from typing import Any

from matplotlib.figure import Figure

from arena_kit.rating.base import Ratings
from arena_kit.reporting.figures import (
    ACCENT,
    SOFT,
    WARM,
    legend_below,
    panels_of,
    plot,
    shown_name,
)
from arena_kit.reporting.tables import DASH, Table
from arena_kit.validity.leans import WIDEST
from arena_kit.validity.voter_rules import Rule
from arena_kit.validity.voters import LEAST_VOTES, VoterTests

RULES = {
    Rule.PUSH: "pushes a model",
    Rule.AGAINST: "votes against the others' ratings",
    Rule.SIDE: "prefers a side",
    Rule.COPY: "copies another voter",
    Rule.SPEED: "faster than anybody reads",
}
_HONEST = {
    Rule.PUSH: "for or against one model, in rating points",
    Rule.AGAINST: "in how closely they follow the ratings (1 is as the others do)",
    Rule.SIDE: "for the left side, in rating points",
    Rule.COPY: "in how often two of them agree, in log odds",
    Rule.SPEED: "in how often they are too fast, in log odds (assumed)",
}
_POINTS = 400 / log(10)
_NAMED, _LISTED = 5, 15
_FLOOR = -2.0  # less evidence is drawn here
_LINES = 22  # of names, from the top of the figure to its bottom
_DECADES = 20  # times as many votes as another voter, from which counts are drawn as logarithms


@dataclass(frozen=True, slots=True, kw_only=True)
class Boards:
    """The board of all votes, and the one without some voters (None where there is none)."""

    left_out: tuple[str, ...]
    votes: int
    before: Ratings
    after: Ratings | None

    @property
    def moved(self) -> tuple[tuple[str, int, int], ...]:
        """Models whose rank differs, with both ranks."""
        if self.after is None:
            return ()
        now = {model: rank for rank, model in enumerate(self.after.order, 1)}
        return tuple(
            (model, rank, now[model])
            for rank, model in enumerate(self.before.order, 1)
            if model in now and now[model] != rank
        )


def answer(tests: VoterTests, boards: Boards) -> list[str]:
    """Who stands out and why, and how the board would change without them."""
    out = tests.standing_out
    if not out:
        return [f"Of {len(tests.tests):,} voters tested, none stands out from the others."]
    told = [
        f"{test.voter}: {RULES[test.reasons[0].rule]} ({test.reasons[0].text})."
        for test in out[:_NAMED]
    ]
    more = [f"{len(out) - _NAMED} more stand out; the table names them."] * (len(out) > _NAMED)
    verb = "stands" if len(out) == 1 else "stand"
    head = f"{len(out)} of {len(tests.tests):,} voters tested {verb} out."
    return [head, *told, *more, change(boards)]


def change(boards: Boards) -> str:
    """How the board would change without those who are left out, in a sentence."""
    if boards.after is None:
        return "Without them no rating exists, so nothing can be said about the board."
    whose = "their" if len(boards.left_out) > 1 else "this voter's"
    after = boards.after
    gaps = {m: after[m].rating - boards.before[m].rating for m in after.models}
    most = max(gaps, key=lambda model: abs(gaps[model]))
    moved = boards.moved
    ranks = (
        f"{len(moved)} of {len(after.models)} models would have another rank"
        if moved
        else "every model would keep its rank"
    )
    moves = f"{most} would move most, by {gaps[most]:+.0f} points"
    return f"Without {whose} {boards.votes:,} votes {ranks}; {moves}."


def caveats(tests: VoterTests) -> list[str]:
    """What not to conclude."""
    share = f"{100 * tests.level:g}%"
    rare = (
        f"Of those who stand out, at most {share} are honest on average, if honest tastes are "
        "spread as estimated; looking again every week does not change that."
    )
    told = ["To stand out is a reason to look, not a proof: nothing was removed.", rare]
    if tests.too_few:
        few = f"{tests.too_few:,} voters with fewer than {LEAST_VOTES} decisive votes"
        told.append(f"{few} were not tested.")
    if tests.unnamed:
        told.append(f"{tests.unnamed:,} votes name no voter.")
    return told


def standing_out(tests: VoterTests) -> Table:
    """Those who stand out, with every reason."""
    rows = [
        {
            "voter": test.voter,
            "votes": test.votes,
            "rule": RULES[reason.rule],
            "seen": reason.text,
            "evidence": odds(reason.evidence),
        }
        for test in tests.standing_out
        for reason in test.reasons
    ]
    note = (
        f"Evidence says how many times better the rule explains the votes than honest taste does. "
        f"Over all rules together {odds(tests.needed)} was needed, since {len(tests.tests):,} "
        "voters were looked at."
    )
    return Table(
        rows=rows,
        name="standing_out",
        left=["voter", "rule", "seen"],
        nowrap=["voter"],
        notes=[note],
        empty="Nobody stands out.",
    )


def voters(tests: VoterTests) -> Table:
    """The most conspicuous voters, whether they stand out or not."""
    rows = [
        {
            "voter": test.voter,
            "votes": test.votes,
            "decisive": test.decisive,
            "follows the ratings": f"{test.sharpness:.2f}",
            "evidence": odds(test.evidence),
            "strongest rule": RULES[test.reasons[0].rule] if test.reasons else DASH,
            "stands out": "yes" if test.stands_out else "",
        }
        for test in tests.tests[:_LISTED]
    ]
    left = len(tests.tests) - len(rows)
    return Table(
        rows=rows,
        name="voters",
        left=["voter", "strongest rule", "stands out"],
        notes=[f"{left:,} more voters have less evidence against them."] if left > 0 else [],
    )


def honest(tests: VoterTests) -> Table:
    """How far honest voters differ, which no voter is flagged for."""
    rows = [
        {"honest voters differ": _HONEST[rule], "standard deviation": _spread(rule, each.spread)}
        for rule, each in tests.honest.items()
    ]
    note = (
        "Estimated from all voters but those who stand out, as the widest spread that the votes "
        "allow; what ratings are not sure of is in it."
    )
    return Table(rows=rows, name="honest", left=["honest voters differ"], notes=[note])


def _spread(rule: Rule, spread: float) -> str:
    if spread >= WIDEST:
        return "not known"
    return f"{_POINTS * spread:.0f}" if rule in (Rule.PUSH, Rule.SIDE) else f"{spread:.2f}"


def boards(boards: Boards) -> Table:
    """Every model's rating and rank with all votes, and without those of the voters left out."""
    after = boards.after
    ranks = {model: rank for rank, model in enumerate(after.order, 1)} if after else {}
    new = {model: after[model].rating for model in ranks} if after else {}
    rows = [
        {
            "model": row.model,
            "rank": rank,
            "rating": f"{row.rating:.0f}",
            "rank without": ranks.get(row.model, DASH),
            "rating without": f"{new[row.model]:.0f}" if row.model in new else DASH,
            "change": f"{new[row.model] - row.rating:+.0f}" if row.model in new else DASH,
        }
        for rank, row in enumerate(boards.before.ratings, 1)
    ]
    names = ", ".join(boards.left_out[:_LISTED])
    more = " and others" if len(boards.left_out) > _LISTED else ""
    left = f"Left out: {names}{more}, {boards.votes:,} votes."
    return Table(
        rows=rows,
        name="boards",
        left=["model"],
        notes=[left if boards.left_out else "Nobody is left out."],
    )


def removals(lines: Sequence[tuple[str, ...]]) -> Table:
    """The log of removals: when, who or what, removed or restored, by whom and why."""
    names = ("when", "what", "whose", "change", "by", "why")
    return Table(
        rows=[dict(zip(names, line, strict=True)) for line in lines],
        name="removals",
        columns=names,
        left=names,
        empty="Nothing was ever removed.",
    )


def to_dict(tests: VoterTests) -> dict[str, Any]:
    """Plain values, for JSON; evidence is a power of ten."""
    return {
        "level": tests.level,
        "needed": tests.needed,
        "too_few": tests.too_few,
        "unnamed": tests.unnamed,
        "honest": {str(rule): asdict(each) for rule, each in tests.honest.items()},
        "voters": [asdict(test) for test in tests.tests],
    }


def text(tests: VoterTests) -> str:
    """Who stands out and why, as lines."""
    lines = [f"{len(tests.tests)} voters tested, {len(tests.standing_out)} stand out"]
    for test in tests.standing_out:
        lines += [f"{test.voter}: {reason.rule}, {reason.text}" for reason in test.reasons[:1]]
    return "\n".join(lines)


def odds(log10: float) -> str:
    """Evidence as people read it: so many to one."""
    if log10 >= 6:
        return f"10^{log10:.0f} : 1"
    value = 10**log10
    return f"{value:,.0f} : 1" if value >= 10 else f"{value:.1f} : 1"


@plot(
    "evidence",
    "Evidence against every voter by number of votes, with the bar above which one stands out",
)
def evidence(tests: VoterTests) -> Figure:
    """The evidence against every voter, and what it takes to stand out."""
    figure, (ax,) = panels_of(9, 4.2, 1, "Who votes otherwise than honest voters do?")
    for kind, color, label in ((False, ACCENT, "voter"), (True, WARM, "stands out")):
        some = [test for test in tests.tests if test.stands_out == kind]
        ax.plot(
            [test.votes for test in some],
            [max(test.evidence, _FLOOR) for test in some],
            "o",
            color=color,
            alpha=0.7,
            markersize=5,
            label=label,
        )
    ax.axhline(tests.needed, color=SOFT, linestyle=":", linewidth=1, label="needed to stand out")
    top, bottom = max(test.evidence for test in tests.tests), ax.get_ylim()[0]
    line, height = (top - bottom) / _LINES, inf
    for test in tests.standing_out[:_LISTED]:  # the largest evidence first: names go downwards
        height = min(test.evidence, height - line)
        ax.annotate(shown_name(test.voter), (test.votes, height), xytext=(6, 0), fontsize=8,
                    textcoords="offset points", va="center", color=SOFT)  # fmt: skip
    counts = [test.votes for test in tests.tests]
    if max(counts) > _DECADES * min(counts):
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set(xlabel="votes", ylabel="evidence, as a power of ten")
    legend_below(figure, columns=3)
    return figure
