"""How good the judge is, in a sentence and in tables."""

from collections.abc import Iterator
from textwrap import fill

from arena_kit.judging.quality.estimates import Measure
from arena_kit.judging.quality.gate import Finding, Gate, Level
from arena_kit.judging.quality.judge import JudgeQuality
from arena_kit.reporting.tables import Table

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


def text(gate: Gate) -> str:
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
    notes = [f"{name or 'All'}: {note}." for name in quality.dimensions
             for note in _rank_notes(quality, name)]  # fmt: skip
    return Table(
        rows, "judge_quality", group="dimension", notes=notes,
        empty="Nothing was measured.",
    )  # fmt: skip


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


def _rank_notes(quality: JudgeQuality, dimension: str) -> Iterator[str]:
    error = quality.find("rating_error", dimension)
    if error.value is not None:
        spearman, kendall = (quality.find(name, dimension) for name in ("spearman", "kendall"))
        yield (
            f"ratings by judge and by human votes, {error.n} models: Spearman "
            f"{spearman.coefficient}, Kendall {kendall.coefficient}, RMS difference "
            f"{error.value:.0f} points"
        )
