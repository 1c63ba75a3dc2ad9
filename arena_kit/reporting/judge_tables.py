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
    "longer_named": "longer response named, of decisive verdicts",
    "twice_as_long": "win share of a response twice as long, at equal quality",
    "own_family": "win share of its own family, at equal ratings by others",
    "repeats": "equal answers to the same request",
    "readable": "verdicts that could be read",
    "ties": "ties, of those",
    "status": "",
    "agreement_by_call": "agrees with people, half where it flips",
    "agreement": "agrees with people, of battles both decided",
    "kappa": "Cohen's kappa, of battles both decided",
    "agreement_with_ties": "agrees with people, with ties as a verdict",
    "kappa_with_ties": "Cohen's kappa, with ties as a verdict",
}
#: What the table that compares judges shows.
_COMPARED = {("twice_as_long", ""), ("agreement", "")}


def text(gate: Gate) -> str:
    """What may be done with a judge's verdicts and every reason, in lines that fit a text box."""
    reasons = [f"{finding.level}: {finding.reason}" for finding in _doubts(gate)]
    folded = [fill(each, _WIDTH, initial_indent="  ", subsequent_indent="    ") for each in reasons]
    return "\n".join([fill(gate.sentence, _WIDTH), *folded])


def gate_table(gate: Gate) -> Table:
    """Every rule that is not kept beyond doubt, worst first."""
    rows = [
        {
            "what": finding.measure.about or finding.rule.text,
            "dimension": finding.measure.dimension or "all",
            "found": "not measured" if finding.measure.value is None else str(finding.measure),
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
        rows, "judge_gate", notes=notes,
        empty="No rule is in doubt.",
    )  # fmt: skip


def measured(quality: JudgeQuality, *, compared: bool = False) -> Table:
    """The figures of a judge with their 95 % intervals, clustered by question, but for those of
    position, which a report shows as a picture; where judges are `compared`, also but for those.
    """
    left_out = _COMPARED if compared else set()
    rows = [
        {"dimension": name or "all", "what": _words(row), "found": _found(row), "of": row.n}
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
        empty="Nothing could be measured of this judge.",
    )  # fmt: skip


def rubric_table(quality: JudgeQuality) -> Table:
    """How alike every two dimensions are answered, most alike first."""
    coefficients = {"correlation": "correlation", "without order noise": "corrected"}
    rows = [
        {
            "dimensions": f"{row.dimension} and {row.stratum}",
            "pairs answered differently": str(row),
            "of": row.n,
            **{
                what: quality.find(measure, row.dimension, row.stratum).coefficient
                for what, measure in coefficients.items()
            },
        }
        for row in quality.measures
        if row.measure == "different"
    ]
    return Table(
        rows, "rubric_use",
        empty="One dimension alone cannot show whether the judge reads the rubric.",
    )  # fmt: skip


def _doubts(gate: Gate) -> list[Finding]:
    return [finding for finding in gate.findings if finding.level is not Level.TRUSTED]


def _limit(finding: Finding, limit: float) -> str:
    return f"{'at least' if finding.rule.least else 'at most'} {limit:.0%}"


def _shown(row: Measure) -> bool:
    """Whether a row says anything: a status that did not occur, or the usual one, does not."""
    if row.measure == "status":
        return bool(row.value) and row.stratum != "ok"
    return row.value is not None or row.measure.startswith(("agreement", "kappa"))


def _words(row: Measure) -> str:
    if row.measure == "status":
        return row.stratum
    what = _NAMES[row.measure]
    return f"{what.partition(',')[0]}, both decided, {row.stratum}" if row.stratum else what


def _found(row: Measure) -> str:
    return row.coefficient if row.measure.startswith("kappa") else str(row)


def _rank_notes(quality: JudgeQuality, dimension: str) -> Iterator[str]:
    error = quality.find("rating_error", dimension)
    if error.value is not None:
        spearman, kendall = (quality.find(name, dimension) for name in ("spearman", "kendall"))
        yield (
            f"against people's ratings of {error.n} models, rank correlation "
            f"{spearman.coefficient} (Spearman), {kendall.coefficient} (Kendall), ratings "
            f"{error.value:.0f} points off (root mean square)"
        )
