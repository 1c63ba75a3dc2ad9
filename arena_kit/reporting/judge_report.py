"""How good a judge is, and judges side by side: sentences, tables and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill

import numpy as np

from arena_kit.battles.log import BattleLog
from arena_kit.judging.asking.cost import dollars
from arena_kit.judging.quality.agreement import confusion as agreement_of
from arena_kit.judging.quality.estimates import Estimate, Measure, find
from arena_kit.judging.quality.gate import Finding, Gate, Level, Rule
from arena_kit.judging.quality.judge import Judged, JudgeQuality, agree, cheapest
from arena_kit.reporting import figures as fig
from arena_kit.reporting.html import LEVEL_COLOURS
from arena_kit.reporting.tables import DASH, Table, number

_CANARIES = {
    "known_right": "known pairs judged right",
    "contrasts_followed": "contrasts followed",
    "attacks_worked": "attacks that worked: ",
}
_COUNTS = {"known_right": "known pairs right", "attacks_worked": "attacks worked"}
_POOLED = (
    "Partially pooled: a stratum with few verdicts is drawn towards the others. Agreement is by "
    "call; a judge is trusted on a stratum only if that has enough verdicts of its own."
)
_MARKS = {Level.TRUSTED: "✓", Level.CAUTION: "!", Level.FAILED: "✗"}
_WIDTH = 88
#: The measures of a dimension that a table shows, in words.
_NAMES = {
    "longer_named": "win rate of the longer response",
    "twice_as_long": "length bias: win rate of a response twice as long, at equal quality",
    "own_family": "self-preference: win rate of its own family, at equal ratings by others",
    "repeats": "same answer to a repeated request",
    "readable": "readable verdicts",
    "ties": "ties among readable verdicts",
    "status": "",
    "agreement_by_call": "agreement with human votes, inconsistent pairs as half",
    "agreement": "agreement with human votes, both decisive",
    "kappa": "Cohen's kappa, both decisive",
    "agreement_with_ties": "agreement with human votes, ties included",
    "kappa_with_ties": "Cohen's kappa, ties included",
}
#: What the table that compares judges shows.
_COMPARED = {("twice_as_long", ""), ("agreement", "")}
_NOT_MEASURED = 0.4  # where a judge stands whose agreement is not known


def sentences(judges: Sequence[Judged]) -> list[str]:
    """What was found: each judge's gate, and which is the cheapest that will do."""
    return [*map(sentence, judges), *choice(judges)]


def brief(judges: Sequence[Judged]) -> list[str]:
    """How often the first judge agrees with people, and which is the cheapest that will do."""
    share = agreement(judges[0])
    known = f"Agreement with human votes: {share} of {share.n:,} battles."
    return [*([known] if share.value is not None else []), *choice(judges)]


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
    empty = "No judge was measured."
    return Table(rows, "comparison", group="dimension", nowrap=["judge"], empty=empty)


def strata_table(judges: Sequence[Judged], rules: Mapping[str, Rule]) -> Table:
    """What may be done with each judge's verdicts on each stratum of prompts, and why."""
    rows = [
        {
            "dimension": dimension or "all",
            "stratum": stratum,
            "judge": judge.judge,
            "gate": str(gate.level),
            **_shares(judge.quality.strata, dimension, stratum, "agreement_by_call"),
        }
        for judge in judges
        for (dimension, stratum), gate in sorted(judge.quality.by_stratum(rules).items())
    ]
    return Table(
        rows, "judge_strata", group="dimension", nowrap=["stratum", "judge"], notes=[_POOLED],
        empty="No prompt has a stratum.",
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
    empty = "No canaries were asked: verdicts alone were read."
    return Table(rows, "canaries", group="judge", empty=empty)


@fig.plot("judges", "Agreement with human votes against price, one dot per judge, gate by colour")
def figure(judges: Sequence[Judged], note: str = "") -> fig.Figure:
    """How often each judge agrees with people, with its 95 % interval, by what it costs; the colour
    is its gate, and `note` is about people's votes. Judges whose price or agreement is not known
    stand at the edges.
    """
    title = "Which judge agrees with human votes, and at what price?"
    figure, (ax,), _ = fig.on_first_screen(10, 1, title, [])
    asked = [judge for judge in judges if judge.battles is not None]
    shares, top = [agreement(judge) for judge in asked], max(judge.usd or 0 for judge in asked)
    unknown = -0.12 * (top or 1)
    for judge, share in zip(asked, shares, strict=True):
        at = unknown if judge.usd is None else judge.usd
        height, colour = share.value or _NOT_MEASURED, LEVEL_COLOURS[judge.gate.level]
        if share.low is not None and share.high is not None:
            ax.vlines(at, share.low, share.high, color=colour, linewidth=2.4)
        ax.plot(at, height, "o", color=colour, markersize=8, label=judge.gate.level)
        named = fig.shown_name(judge.judge) + ("" if share.value else " (not measured)")
        ax.annotate(named, (at, height), xytext=(9, 0), textcoords="offset points", va="center")
    findings = [finding for judge in asked for finding in judge.gate.findings]
    for rule in [each.rule for each in findings if each.measure.rule == "people"][:1]:
        for limit, word in ((rule.trusted, "trusted"), (rule.usable, "usable")):
            ax.axhline(limit, color=fig.SOFT, linewidth=1, linestyle=":")
            ax.annotate(f"{word} from {limit:.0%}", (1, limit), xycoords=("axes fraction", "data"),
                        xytext=(0, 3), textcoords="offset points", ha="right", color=fig.SOFT,
                        fontsize=8.5)  # fmt: skip
    ax.axhline(0.5, color=fig.LINE, linewidth=1)
    ax.yaxis.set_major_formatter("{x:.0%}")
    people = f"agreement with human votes ({note})" if note else "agreement with human votes"
    if not top:
        ax.set_xticks([0], ["free"])
    ax.set(xlabel="$ per 1,000 verdicts", ylabel=people,
           ylim=(_NOT_MEASURED - 0.05, 1), xlim=(1.5 * unknown, 1.6 * (top or 1)))  # fmt: skip
    marks = dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    fig.legend_below(figure, list(marks.values()), list(marks), columns=3, phone=2)
    return figure


def agreement(judge: Judged) -> Estimate:
    """How often a judge agrees with people over all dimensions, each by its battles."""
    known = [judge.quality.find("agreement", name) for name in judge.quality.dimensions]
    known = [each for each in known if each.value is not None]
    n = sum(each.n for each in known)

    def mean(end: str) -> float | None:
        values = [(getattr(each, end), each.n) for each in known]
        return sum(v * k for v, k in values) / n if n and None not in dict(values) else None

    return Estimate(value=mean("value"), low=mean("low"), high=mean("high"), n=n)


@fig.plot("confusion", "Verdicts of a judge against human votes on the same battles")
def confusion(logs: Mapping[str, BattleLog], labels: BattleLog | None) -> fig.Figure:
    """What a judge said of each dimension where people named the first of two models, a tie or the
    second, in percent of each row.
    """
    counts = {name: agreement_of(log, labels) for name, log in logs.items() if labels is not None}
    counts = {name: table for name, table in counts.items() if table.any()}
    if not counts:
        return fig.nothing_to_show()
    title = "Where do the judge and human votes differ?"
    figure, axes = fig.panels_of(3.0, len(counts), title)
    for ax, (dimension, table) in zip(axes, counts.items(), strict=True):
        shares = table / np.maximum(1, table.sum(axis=1, keepdims=True))
        ax.imshow(shares, cmap="Blues", vmin=0, vmax=1.4, aspect="auto")
        for (i, j), share in np.ndenumerate(shares):
            fig.cell(ax, j, i, f"{share:.0%}\n{table[i, j]:,}", fontsize=8.5)
        ax.set_xticks(range(4), ["first", "tie", "second", "excluded"])
        ax.spines[:].set_visible(False)
        fig.name_rows(ax, ["first", "tie", "second"], title=dimension or "all battles")
    fig.label_below(axes, "judge (excluded: changed with order)")
    axes[0].set_ylabel("human votes")
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


def _shares(
    rows: Sequence[Measure], dimension: str, stratum: str = "", agreement: str = "agreement"
) -> dict[str, str]:
    shares = {
        "agrees with people": find(rows, agreement, dimension, stratum),
        "both orders agree": find(rows, "flips", dimension, stratum).complement(),
        "slot A": find(rows, "slot_a", dimension, stratum),
        "twice as long": find(rows, "twice_as_long", dimension, stratum),
    }
    return {name: str(share) for name, share in shares.items()}


def _figures(judge: Judged, dimension: str) -> dict[str, str]:
    canaries = judge.canaries
    asked = canaries is not None and dimension in canaries.dimensions
    counts = {
        what: canaries.find(measure, dimension).counted if canaries and asked else DASH
        for measure, what in _COUNTS.items()
    }
    return _shares(judge.quality.measures, dimension) | counts


def gate_text(gate: Gate) -> str:
    """The level of a judge and every reason, in lines that fit a text box."""
    reasons = [f"{finding.level}: {finding.reason}" for finding in _doubts(gate)]
    folded = [fill(each, _WIDTH, initial_indent="  ", subsequent_indent="    ") for each in reasons]
    return "\n".join([fill(gate.sentence, _WIDTH), *folded])


def gate_table(gate: Gate) -> Table:
    """Every check below trusted, worst first."""
    rows = [
        {
            "measure": finding.share.about or finding.rule.text,
            "dimension": finding.share.dimension or "all",
            "value": "not measured" if finding.share.value is None else str(finding.share),
            "n": finding.share.n,
            "trusted": finding.allowed(finding.rule.trusted),
            "usable": finding.allowed(finding.rule.usable),
            "": f"{_MARKS[finding.level]} {finding.level}",
        }
        for finding in _doubts(gate)
    ]
    kept = len(gate.findings) - len(rows)
    notes = [f"{kept} further checks are trusted; judge_gate.json lists all."]
    if gate.unmeasured:
        notes.append(f"Not measured: {', '.join(gate.unmeasured)}.")
    return Table(rows, "judge_gate", notes=notes, empty="All checks are trusted.")


def measured(quality: JudgeQuality, *, compared: bool = False) -> Table:
    """The measures of a judge with 95 % intervals, clustered by question, without position bias,
    which has a figure, and, with `compared`, without what the comparison of judges shows.
    """
    left_out = _COMPARED if compared else set()
    rows = [
        {"dimension": name or "all", "measure": _words(row), "value": _found(row), "n": row.n}
        for name in quality.dimensions
        for measure in _NAMES
        for row in quality.measures
        if (row.measure, row.dimension) == (measure, name)
        and (row.measure, row.stratum) not in left_out
        and _shown(row)
    ]
    notes = [_rank_note(quality, name) for name in quality.dimensions]
    empty = "Nothing was measured."
    return Table(rows, "judge_quality", group="dimension", notes=notes, empty=empty)


def rubric_table(quality: JudgeQuality) -> Table:
    """How similar the verdicts on two dimensions are, most similar first."""
    rows = [
        {
            "dimensions": f"{row.dimension} and {row.stratum}",
            "verdicts that differ": str(row),
            "n": row.n,
            "correlation": quality.find("correlation", row.dimension, row.stratum).coefficient,
        }
        for row in quality.measures
        if row.measure == "different"
    ]
    return Table(rows, "rubric_use", empty="Rubric use needs two dimensions.")


def _doubts(gate: Gate) -> list[Finding]:
    return [finding for finding in gate.findings if finding.level is not Level.TRUSTED]


def _shown(row: Measure) -> bool:
    """Whether a row is informative: a status that did not occur, or `ok`, is not."""
    if row.measure == "status":
        return bool(row.value) and row.stratum != "ok"
    return row.value is not None or row.measure.startswith(("agreement", "kappa"))


def _words(row: Measure) -> str:
    if row.measure == "status":
        return row.stratum
    what = _NAMES[row.measure]
    return f"{what.partition(',')[0]}, both decisive, {row.stratum}" if row.stratum else what


def _found(row: Measure) -> str:
    return row.coefficient if row.measure.startswith("kappa") else str(row)


def _rank_note(quality: JudgeQuality, dimension: str) -> str:
    names = ("rating_error", "spearman", "kendall")
    error, spearman, kendall = (quality.find(name, dimension) for name in names)
    return "" if error.value is None else (
        f"{dimension or 'All'}: ratings by judge and by human votes, {error.n} models: Spearman "
        f"{spearman.coefficient}, Kendall {kendall.coefficient}, RMS difference "
        f"{error.value:.0f} points."
    )  # fmt: skip
