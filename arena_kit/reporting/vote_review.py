"""Tables, figure and sentences of a review of voters: who is flagged, why, and what it changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import inf, nan
from typing import Any

from arena_kit.rating.base import Ratings
from arena_kit.reporting import figures as fig
from arena_kit.reporting.tables import DASH, Table, number
from arena_kit.validity.voters import MIN_VOTES, Rule, VoterTests

RULES = {
    Rule.PUSH: "favours or disfavours a model",
    Rule.SIDE: "favours a side",
    Rule.SPEED: "votes too fast to read",
}
_NAMED, _LISTED = 5, 15
_FLOOR = -2.0  # less evidence is drawn here
_LINES = 22  # of names, from the top of the figure to its bottom
_LOG_SCALE_FROM = 20  # ratio of the largest to the smallest number of votes


@dataclass(frozen=True, slots=True, kw_only=True)
class Boards:
    """The board of all votes, and the one without some voters (None where there is none)."""

    left_out: tuple[str, ...]
    votes: int
    before: Ratings
    after: Ratings | None


def answer(tests: VoterTests, boards: Boards) -> list[str]:
    """Who is flagged and why, and how the board would change without them."""
    out = tests.flagged
    if not out:
        return [f"No voter of {len(tests.tests):,} tested is flagged."]
    named = [
        f"{test.voter}: {RULES[test.reasons[0].rule]} ({test.reasons[0].text})."
        for test in out[:_NAMED]
    ]
    more = [f"The table names {len(out) - _NAMED} more."] * (len(out) > _NAMED)
    verb = "is" if len(out) == 1 else "are"
    head = f"{len(out)} of {len(tests.tests):,} voters tested {verb} flagged."
    return [head, *named, *more, change(boards)]


def change(boards: Boards) -> str:
    """How the board would change without the voters left out, in a sentence."""
    if boards.after is None:
        return "Without their votes no rating exists."
    whose = "their" if len(boards.left_out) > 1 else "this voter's"
    after, before = boards.after.order, boards.before.order
    points = {m: boards.after[m].rating - boards.before[m].rating for m in after}
    most = max(points, key=lambda model: abs(points[model]))
    moved = sum(rank != before.index(model) for rank, model in enumerate(after))
    who = f"{moved} of {len(after)} models" if moved else "no model"
    moves = f"largest change: {most}, {points[most]:+.0f} points"
    return f"Without {whose} {boards.votes:,} votes, {who} would change rank; {moves}."


def caveats(tests: VoterTests) -> list[str]:
    """What not to conclude."""
    rare = (
        f"False discovery rate: at most {100 * tests.level:g}% of flagged voters are honest on "
        "average, if honest preferences vary as estimated; weekly repetition keeps this rate."
    )
    few = f"{tests.too_few:,} voters with fewer than {MIN_VOTES} decisive votes were not tested."
    unnamed = f"{tests.unnamed:,} votes have no voter."
    more = [few] * bool(tests.too_few) + [unnamed] * bool(tests.unnamed)
    return ["A flag is a reason to look, not proof; no vote was removed.", rare, *more]


def flagged(tests: VoterTests) -> Table:
    """The flagged voters, with every reason."""
    rows = [
        {
            "voter": test.voter,
            "votes": test.votes,
            "rule": RULES[reason.rule],
            "observed": reason.text,
            "evidence": odds(reason.evidence),
        }
        for test in tests.flagged
        for reason in test.reasons
    ]
    note = (
        "Evidence: e-value, how many times more likely the votes are under the rule than under "
        f"honest preferences. A flag needs {odds(tests.needed)} over all rules, with "
        f"{len(tests.tests):,} voters tested."
    )
    return Table(rows, "flagged", nowrap=["voter"], notes=[note], empty="No voter is flagged.")


def voters(tests: VoterTests) -> Table:
    """The voters with the largest e-values, flagged or not."""
    rows = [
        {
            "voter": test.voter,
            "votes": test.votes,
            "decisive": test.decisive,
            "agreement with ratings": f"{test.sharpness:.2f}",
            "evidence": odds(test.evidence),
            "strongest rule": RULES[test.reasons[0].rule] if test.reasons else DASH,
            "flagged": "yes" if test.flagged else "",
        }
        for test in tests.tests[:_LISTED]
    ]
    rest = len(tests.tests) - len(rows)
    return Table(
        rows, "voters", notes=[f"{rest:,} more voters have smaller e-values." * (rest > 0)]
    )


def boards(boards: Boards) -> Table:
    """Every model's rating and rank with all votes, and without those of the voters left out."""
    ranked = enumerate(boards.after.ratings if boards.after else (), 1)
    after = {row.model: (rank, row.rating) for rank, row in ranked}
    rows = [
        {
            "model": row.model,
            "rank": rank,
            "rating": f"{row.rating:.0f}",
            "rank without": (without := after.get(row.model, (DASH, nan)))[0],
            "rating without": number(without[1], ".0f"),
            "change": number(without[1] - row.rating, "+.0f"),
        }
        for rank, row in enumerate(boards.before.ratings, 1)
    ]
    names = ", ".join(boards.left_out[:_LISTED])
    more = " and others" if len(boards.left_out) > _LISTED else ""
    left = f"Left out: {names}{more}, {boards.votes:,} votes."
    return Table(rows, "boards", notes=[left if boards.left_out else "Nobody is left out."])


def removals(lines: Sequence[tuple[str, ...]]) -> Table:
    """The log of removals: when, who or what, removed or restored, by whom and why."""
    names = ("when", "what", "whose", "change", "by", "why")
    return Table(
        [dict(zip(names, line, strict=True)) for line in lines], name="removals", columns=names,
        left=names, empty="No vote was ever removed.",
    )  # fmt: skip


def to_dict(tests: VoterTests) -> dict[str, Any]:
    """Plain values, for JSON; evidence is a power of ten."""
    values = asdict(tests)
    voters, nulls = values.pop("tests"), values.pop("honest")
    return values | {"honest": {str(rule): null for rule, null in nulls.items()}, "voters": voters}


def odds(log10: float) -> str:
    """Evidence as people read it: so many to one."""
    if log10 >= 6:
        return f"10^{log10:.0f} : 1"
    value = 10**log10
    return f"{value:,.0f} : 1" if value >= 10 else f"{value:.1f} : 1"


@fig.plot(
    "evidence",
    "E-value of every voter by number of votes, with the threshold above which a voter is flagged",
)
def evidence(tests: VoterTests) -> fig.Figure:
    """The e-value of every voter, and the threshold for a flag."""
    figure, (ax,), _ = fig.on_first_screen(10, 1, "Do any voters behave anomalously?", [])
    for kind, color, label in ((False, fig.ACCENT, "voter"), (True, fig.WARM, "flagged")):
        some = [test for test in tests.tests if test.flagged == kind]
        heights = [max(test.evidence, _FLOOR) for test in some]
        ax.plot([test.votes for test in some], heights, "o",
                color=color, alpha=0.7, markersize=5, label=label)  # fmt: skip
    ax.axhline(
        tests.needed, color=fig.SOFT, linestyle=":", linewidth=1, label="threshold for a flag"
    )
    top, bottom = max(test.evidence for test in tests.tests), ax.get_ylim()[0]
    line, height = (top - bottom) / _LINES, inf
    for test in tests.flagged[:_LISTED]:  # the largest evidence first: names go downwards
        height = min(test.evidence, height - line)
        ax.annotate(fig.shown_name(test.voter), (test.votes, height), xytext=(6, 0), fontsize=8,
                    textcoords="offset points", va="center", color=fig.SOFT)  # fmt: skip
    counts = [test.votes for test in tests.tests]
    if max(counts) > _LOG_SCALE_FROM * min(counts):
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set(xlabel="votes", ylabel="evidence (log10 of the e-value)")
    fig.legend_below(figure, columns=3)
    return figure
