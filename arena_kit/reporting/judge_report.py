"""Judges side by side, in sentences, tables and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from arena_kit.judging.asking.cost import dollars
from arena_kit.judging.quality.agreement import NOTHING, Share
from arena_kit.judging.quality.canaries.report import CanaryReport
from arena_kit.judging.quality.compared import Judged, agree, cheapest
from arena_kit.judging.quality.dimension import DimensionQuality
from arena_kit.judging.quality.gate import Level
from arena_kit.reporting.figures import ACCENT, LINE, panels_of, plot, shown_name
from arena_kit.reporting.judge_tables import rest
from arena_kit.reporting.tables import DASH, Table


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
    return Table(
        rows=[
            {
                "judge": each.judge,
                "gate": DASH if each.battles is None else str(each.gate.level),
                "verdicts": each.n_verdicts or DASH,
                "$ per 1,000": _price(each.usd),
                "seconds per 1,000": DASH if each.seconds is None else f"{each.seconds:,.1f}",
                "from": each.source,
            }
            for each in judges
        ],
        name="judges",
        left=["judge", "gate", "from"],
        notes=note,
    )


def comparison(judges: Sequence[Judged]) -> Table:
    """The figures that tell judges apart, on the same pairs, with 95 % intervals."""
    names = dict.fromkeys(each.dimension for j in judges for each in j.quality.dimensions)
    rows = [
        {"dimension": name or "all", "judge": judge.judge, **_figures(each, judge.canaries)}
        for name in names
        for judge in judges
        for each in judge.quality.dimensions
        if each.dimension == name
    ]
    return Table(
        rows=rows,
        name="comparison",
        group="dimension",
        left=["judge"],
        nowrap=["judge"],
        empty="No judge was measured.",
    )


def canary_table(judges: Sequence[Judged]) -> Table:
    """Known pairs, contrasts and attacks: how often each judge was right, or was led astray."""
    rows = [
        {"judge": judge.judge, "what": what, "of": n, "share": share}
        for judge in judges
        if judge.canaries is not None
        for what, share, n in _canaries(judge.canaries)
    ]
    return Table(
        rows=rows,
        name="canaries",
        group="judge",
        left=["what"],
        empty="No canaries were asked: verdicts alone were read.",
    )


@plot("judges", "Agreement with people, agreement of both orders and slot A rate of every judge")
def figure(judges: Sequence[Judged]) -> Figure:
    """The three shares that matter most, one panel each, a line per judge and dimension."""
    lines = [(judge, each) for judge in judges for each in judge.quality.dimensions]
    labels = [
        "\n".join(shown_name(name) for name in (judge.judge, each.dimension) if name)
        for judge, each in lines
    ]
    columns = {
        "agrees with people (both decided)": [_people(each) for _, each in lines],
        "both orders agree": [rest(each.position.flips) for _, each in lines],
        "names slot A": [each.position.slot_a for _, each in lines],
    }
    drawn = {t: shares for t, shares in columns.items() if any(s.value is not None for s in shares)}
    figure, axes = panels_of(
        9,
        1.3 + 0.4 * len(lines),
        len(drawn),
        "How good is each judge?",
        labels=[line for label in labels for line in label.splitlines()],
    )
    for ax, (title, shares) in zip(axes, drawn.items(), strict=True):
        for y, share in enumerate(reversed(shares)):
            if share.value is None:
                continue
            if share.ci_low is not None and share.ci_high is not None:
                ax.hlines(y, share.ci_low, share.ci_high, color=ACCENT, linewidth=2.4)
            ax.plot([share.value], [y], "o", color=ACCENT, markersize=6)
        ax.axvline(0.5, color=LINE, linewidth=1, zorder=0)
        ax.set_yticks(np.arange(len(lines)), labels[::-1])
        ax.set(title=title, xlim=(0, 1), ylim=(-0.6, len(lines) - 0.4))
        ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        ax.tick_params(length=0)
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


def _figures(each: DimensionQuality, canaries: CanaryReport | None) -> dict[str, str]:
    asked = canaries is not None and each.dimension in canaries.dimensions
    right = canaries.known(each.dimension) if canaries and asked else None
    fooled = canaries.attacks(each.dimension) if canaries and asked else None
    return {
        "agrees with people": str(_people(each)),
        "both orders agree": str(rest(each.position.flips)),
        "slot A": str(each.position.slot_a),
        "twice as long": str(each.length.doubled),
        "known pairs right": DASH if right is None else str(right),
        "attacks worked": DASH if fooled is None else str(fooled),
    }


def _canaries(report: CanaryReport) -> Iterator[tuple[str, str, int]]:
    named = {"known pairs judged right": report.known(), "contrasts followed": report.contrasts()}
    named |= {f"attacks that worked: {k}": s for k, s in report.attacks_by_kind().items()}
    for what, share in named.items():
        if share.value is not None:
            low, high = share.interval or (0.0, 1.0)
            yield what, f"{share.value:.0%} ({low:.0%} to {high:.0%})", share.n


def _price(usd: float | None) -> str:
    return DASH if usd is None else dollars(usd) if usd else "free"


def _people(each: DimensionQuality) -> Share:
    return NOTHING if each.people is None else each.people.decided.rate
