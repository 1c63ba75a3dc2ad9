"""How good the judge is, in a sentence and in tables."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from textwrap import fill

from arena_kit.judging.quality.agreement import Agreement, Share
from arena_kit.judging.quality.dimension import DimensionQuality
from arena_kit.judging.quality.gate import Finding, Gate, Level
from arena_kit.judging.quality.judge import JudgeQuality
from arena_kit.judging.quality.people import People
from arena_kit.reporting.tables import DASH, Shown, Table, number

_COLOURS = {Level.TRUSTED: "#1a7f37", Level.CAUTION: "#9a6700", Level.FAILED: "#b42318"}
_WIDTH = 88
_TWICE_AS_LONG = "win share of a response twice as long, at equal quality"
_DECIDED = "of battles both decided"
#: What the table that compares judges shows.
_COMPARED = {_TWICE_AS_LONG, f"agrees with people, {_DECIDED}"}
_MARKS = {Level.TRUSTED: "✓", Level.CAUTION: "!", Level.FAILED: "✗"}


def sentence(gate: Gate) -> Shown:
    """The first line of a report: what may be done with this judge's verdicts, and why."""
    style = f"border-left:4px solid {_COLOURS[gate.level]};padding:4px 12px"
    level, colon, why = gate.sentence.partition(f" is {gate.level}: ")
    first = f"{level}{colon.rstrip()}"
    html = f'<p style="{style}"><strong>{escape(first)}</strong> {escape(why)}</p>'
    return Shown(html, gate.sentence)


def text(gate: Gate) -> str:
    """The same with every reason, folded to lines that fit a text box."""
    reasons = [f"{finding.level}: {finding.reason}" for finding in _doubts(gate)]
    folded = [fill(each, _WIDTH, initial_indent="  ", subsequent_indent="    ") for each in reasons]
    return "\n".join([fill(gate.sentence, _WIDTH), *folded])


def gate_table(gate: Gate) -> Table:
    """Every rule that is not kept beyond doubt, worst first."""
    rows = [
        {
            "what": finding.measure.about or finding.rule.text,
            "dimension": finding.measure.dimension or "all",
            "found": _found(finding),
            "verdicts": finding.measure.n,
            "trusted": _limit(finding, finding.rule.trusted),
            "usable": _limit(finding, finding.rule.usable),
            "": f"{_MARKS[finding.level]} {finding.level}",
        }
        for finding in _doubts(gate)
    ]
    kept = len(gate.findings) - len(rows)
    notes = [f"{kept} checks are met beyond doubt; judge_gate.json has all."]
    if gate.unmeasured:
        notes.append(f"Rules not applied, for want of data: {', '.join(gate.unmeasured)}.")
    return Table(
        rows=rows,
        name="judge_gate",
        left=["what", "dimension", ""],
        empty="No rule is in doubt.",
        notes=notes,
    )


def measured(quality: JudgeQuality, *, compared: bool = False) -> Table:
    """The figures of a judge with their 95 % intervals, clustered by question, but for those of
    position, which a report shows as a picture; where judges are `compared`, also but for those.
    """
    rows = [
        {"dimension": each.dimension or "all", "what": what, "found": shown, "of": n}
        for each in quality.dimensions
        for what, shown, n in _figures(each)
        if not (compared and what in _COMPARED)
    ]
    notes = [
        f"{each.dimension or 'All'}: {note}."
        for each in quality.dimensions
        for note in _notes(each)
    ]
    return Table(
        rows=rows, name="judge_quality", group="dimension", left=["what"], notes=notes,
        empty="Nothing could be measured of this judge.",
    )  # fmt: skip


def rubric_table(quality: JudgeQuality) -> Table:
    """How alike every two dimensions are answered, most alike first."""
    rows = [
        {
            "dimensions": f"{use.one} and {use.other}",
            "pairs answered differently": str(use.different),
            "of": use.different.n,
            "correlation": use.correlation.coefficient,
            "without order noise": DASH if use.corrected is None else f"{use.corrected:.2f}",
        }
        for use in quality.rubrics
    ]
    return Table(
        rows=rows,
        name="rubric_use",
        left=["dimensions"],
        empty="One dimension alone cannot show whether the judge reads the rubric.",
    )


def _doubts(gate: Gate) -> list[Finding]:
    return [finding for finding in gate.findings if finding.level is not Level.TRUSTED]


def _found(finding: Finding) -> str:
    measure = finding.measure
    share = Share(value=measure.value, ci_low=measure.low, ci_high=measure.high, n=measure.n)
    return "not measured" if measure.value is None else str(share)


def _limit(finding: Finding, limit: float) -> str:
    return f"{'at least' if finding.rule.least else 'at most'} {limit:.0%}"


def _figures(each: DimensionQuality) -> Iterator[tuple[str, str, int]]:
    """What was measured, its value in words, and how many verdicts it rests on."""
    for what, share in _shares(each):
        if share.value is not None:
            yield what, str(share), share.n
    for kind, found in _agreements(each.people) if each.people else ():
        yield f"agrees with people, {kind}", str(found.rate), found.rate.n
        yield f"Cohen's kappa, {kind}", found.kappa.coefficient, found.kappa.n


def _shares(each: DimensionQuality) -> Iterator[tuple[str, Share]]:
    yield "longer response named, of decisive verdicts", each.length.raw
    yield _TWICE_AS_LONG, each.length.doubled
    yield "win share of its own family, at equal ratings by others", each.family
    yield "equal answers to the same request", each.stability
    if each.statuses is not None:
        yield "verdicts that could be read", each.statuses.readable
        yield "ties, of those", each.statuses.ties
        yield from (
            pair for pair in each.statuses.shares.items() if pair[0] != "ok" and pair[1].value
        )


def _agreements(people: People) -> Iterator[tuple[str, Agreement]]:
    yield _DECIDED, people.decided
    yield "with ties as a verdict", people.counted
    yield from ((f"both decided, {name}", found) for name, found in people.strata.items())


def _notes(each: DimensionQuality) -> Iterator[str]:
    people = each.people
    if people is not None and people.ranks is not None:
        ranks = people.ranks
        yield (
            f"against people's ratings of {ranks.n_models} models, rank correlation "
            f"{number(ranks.spearman, '.2f')} (Spearman), {number(ranks.kendall, '.2f')} (Kendall),"
            f" ratings {ranks.rating_error:.0f} points off (root mean square)"
        )
    if people is not None and people.worth is not None:
        yield str(people.worth)


def rest(share: Share) -> Share:
    """The complement of a share."""
    if share.value is None:
        return share
    low, high = share.ci_low, share.ci_high
    return Share(
        value=1 - share.value,
        ci_low=None if high is None else 1 - high,
        ci_high=None if low is None else 1 - low,
        n=share.n,
    )
