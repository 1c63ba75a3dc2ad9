"""Judges side by side, in sentences, tables and a picture."""

from collections.abc import Iterator, Sequence
from textwrap import fill

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from arena_kit.judging.asking.cost import dollars
from arena_kit.judging.quality.estimates import Estimate
from arena_kit.judging.quality.gate import Level
from arena_kit.judging.quality.judge import Judged, agree, cheapest
from arena_kit.reporting import figures as fig
from arena_kit.reporting.tables import DASH, Table, number

_CANARIES = {
    "known_right": "known pairs judged right",
    "contrasts_followed": "contrasts followed",
    "attacks_worked": "attacks that worked: ",
}
_COUNTS = {"known_right": "known pairs right", "attacks_worked": "attacks worked"}
_DRAWN = ("agrees with people", "both orders agree", "slot A")


def sentences(judges: Sequence[Judged]) -> list[str]:
    """What was found: each judge's gate, and which is the cheapest that will do."""
    return [*map(sentence, judges), *choice(judges)]


def sentence(judge: Judged) -> str:
    """A judge's gate, or why it could not be asked."""
    if judge.battles is None:
        return f"The judge {judge.judge} was {judge.source}."
    return judge.gate.sentence


def text(judges: Sequence[Judged]) -> str:
    """The same in lines that fit a page."""
    return "\n".join(fill(each, 96, subsequent_indent="  ") for each in sentences(judges))


def judges_table(judges: Sequence[Judged]) -> Table:
    """Every judge with its level, where its verdicts come from, its price and its time."""
    alpha = agree(judges)
    note = [] if alpha is None else [f"Krippendorff's alpha of all judges: {alpha.coefficient}."]
    rows = [
        {
            "judge": each.judge,
            "gate": DASH if each.battles is None else str(each.gate.level),
            "verdicts": each.n_verdicts or DASH,
            "$ per 1,000": DASH if each.usd is None else dollars(each.usd) if each.usd else "free",
            "seconds per 1,000": number(each.seconds, ",.1f"),
            "from": each.source,
        }
        for each in judges
    ]
    return Table(rows, "judges", notes=note)


def comparison(judges: Sequence[Judged]) -> Table:
    """The figures that tell judges apart, on the same pairs, with 95 % intervals."""
    names = dict.fromkeys(name for judge in judges for name in judge.quality.dimensions)
    rows = [
        {"dimension": name or "all", "judge": judge.judge, **_figures(judge, name)}
        for name in names
        for judge in judges
        if name in judge.quality.dimensions
    ]
    return Table(
        rows, "comparison", group="dimension", nowrap=["judge"],
        empty="No judge was measured.",
    )  # fmt: skip


def canary_table(judges: Sequence[Judged]) -> Table:
    """Known pairs, contrasts and attacks: how often each judge was right, or was led astray."""
    rows = [
        {
            "judge": judge.judge,
            "what": f"{_CANARIES[row.measure]}{row.stratum}",
            "of": row.n,
            "share": f"{row.value:.0%} ({row.low:.0%} to {row.high:.0%})",
        }
        for judge in judges
        for row in (judge.canaries.measures if judge.canaries else ())
        if row.measure in _CANARIES and not row.dimension and row.value is not None
        and bool(row.stratum) == (row.measure == "attacks_worked")
    ]  # fmt: skip
    return Table(
        rows, "canaries", group="judge",
        empty="No canaries were asked: verdicts alone were read.",
    )  # fmt: skip


@fig.plot("judges", "Agreement with people and of both orders, and slot A rate of every judge")
def figure(judges: Sequence[Judged]) -> Figure:
    """The three shares that matter most, one panel each, a line per judge and dimension."""
    lines = [(judge, name) for judge in judges for name in judge.quality.dimensions]
    labels = [
        "\n".join(fig.shown_name(name) for name in (judge.judge, dimension) if name)
        for judge, dimension in lines
    ]
    shares = [_shares(*line) for line in lines]
    columns = {title: [each[title] for each in shares] for title in _DRAWN}
    drawn = {t: column for t, column in columns.items() if any(s.value is not None for s in column)}
    names, height = [n for label in labels for n in label.splitlines()], 1.3 + 0.4 * len(lines)
    figure, axes = fig.panels_of(9, height, len(drawn), "How good is each judge?", labels=names)
    for ax, (title, column) in zip(axes, drawn.items(), strict=True):
        for y, share in enumerate(reversed(column)):
            if share.value is None:
                continue
            if share.low is not None and share.high is not None:
                ax.hlines(y, share.low, share.high, color=fig.ACCENT, linewidth=2.4)
            ax.plot([share.value], [y], "o", color=fig.ACCENT, markersize=6)
        ax.axvline(0.5, color=fig.LINE, linewidth=1, zorder=0)
        ax.set_yticks(np.arange(len(lines)), labels[::-1])
        ax.set(title=title, xlim=(0, 1), ylim=(-0.6, len(lines) - 0.4))
        ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    return figure


def choice(judges: Sequence[Judged]) -> Iterator[str]:
    """Which judge is the cheapest that will do, where there are several to choose from."""
    if sum(judge.battles is not None for judge in judges) < 2:
        return
    best = cheapest(judges)
    if best is None or best.usd is None:
        usable = [j for j in judges if j.gate.level is not Level.FAILED]
        yield "No price is known of a judge that passes." if usable else "No judge passes."
        return
    cost = f"{dollars(best.usd)} per 1,000 verdicts" if best.usd else "free"
    yield f"The cheapest judge that is {best.gate.level}: {best.judge}, {cost}."


def _shares(judge: Judged, dimension: str) -> dict[str, Estimate]:
    found = judge.quality.find
    return {
        "agrees with people": found("agreement", dimension),
        "both orders agree": found("flips", dimension).complement(),
        "slot A": found("slot_a", dimension),
        "twice as long": found("twice_as_long", dimension),
    }


def _figures(judge: Judged, dimension: str) -> dict[str, str]:
    canaries = judge.canaries
    asked = canaries is not None and dimension in canaries.dimensions
    counts = {
        what: canaries.find(measure, dimension).counted if canaries and asked else DASH
        for measure, what in _COUNTS.items()
    }
    return {name: str(share) for name, share in _shares(judge, dimension).items()} | counts
