"""The gate: whether a judge's verdicts may be built upon, by which rule and number.

Whatever is measured of a judge (order effects, canaries, agreement with people …) is a row of one
table; those that name a rule are held against it. A judge is as good as its worst finding.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from arena_kit.judging.quality.estimates import Measure

#: How many reasons a sentence names.
_REASONS = 2
#: Rules about how far a share is from one half, in either direction, and about how far above it.
_FROM_HALF, _ABOVE_HALF = {"slot", "length"}, {"family"}


#: What is wrong where a rule is not kept, in two or three words.
_BRIEFLY = {
    "readable": "unreadable answers", "flips": "verdicts change with presentation order",
    "slot": "position bias", "length": "length bias", "family": "self-preference",
    "repeats": "answers vary", "rubric": "rubric ignored",
    "people": "low agreement with human votes",
    "canary": "wrong on known pairs", "attack": "prompt injection succeeds",
    "contrast": "dimension ignored",
}  # fmt: skip
_UNMEASURED = {"people": "agreement with human votes not measured"}
_TO_DO = {"usable with caution": "use with caution"}


class UnfitJudgeError(RuntimeError):
    """A paid run does not start, or stops: its judge was measured and is not usable."""


class Level(StrEnum):
    """What may be done with a judge's verdicts, best first."""

    TRUSTED = "trusted"
    CAUTION = "usable with caution"
    FAILED = "not usable"

    @property
    def badness(self) -> int:
        """0 for the best."""
        return list(Level).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a measure must keep: a least or a most, for trust and for any use at all.

    `text` is what is measured, in words. A judge fails only where the whole interval is beyond use;
    fewer than `min_n` verdicts never make it trusted.
    """

    text: str
    trusted: float
    usable: float
    least: bool
    min_n: int = 1

    def __post_init__(self) -> None:
        if not (0 <= self.trusted <= 1 and 0 <= self.usable <= 1):
            raise ValueError(
                f"trusted and usable must be from 0 to 1, not {self.trusted:g} and {self.usable:g}"
            )
        if not self.keeps(self.trusted, self.usable):
            raise ValueError(
                f"trusted ({self.trusted:g}) must ask for no less than usable ({self.usable:g})"
            )

    def keeps(self, value: float, limit: float) -> bool:
        """Whether a value is on the right side of a limit."""
        return value >= limit if self.least else value <= limit

    def doubts(self, measure: Measure) -> bool:
        """Whether a measure is known and speaks against trust."""
        value = _in_rules_terms(measure).value
        return value is not None and not self.keeps(value, self.trusted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a rule says of a measure, in the rule's terms, and why in one sentence."""

    measure: Measure
    rule: Rule
    level: Level
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        limits = {name: getattr(self.rule, name) for name in ("least", "trusted", "usable")}
        return self.measure.as_dict() | limits | {"level": str(self.level), "reason": self.reason}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A judge's level, and every finding behind it, worst first; `note` is said with it, and
    `unmeasured` names the rules that nothing was measured for.
    """

    judge: str
    level: Level
    findings: tuple[Finding, ...]
    note: str = ""
    unmeasured: tuple[str, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the judge is no better than its level; empty for a trusted one."""
        if self.level is Level.TRUSTED:
            return ()
        return tuple(f.reason for f in self.findings if f.level is self.level)

    @property
    def brief(self) -> str:
        """What to do with the judge's verdicts and the first reasons, in ten words or so."""
        worst = [f.measure for f in self.findings if f.level is self.level]
        measured = [_BRIEFLY.get(m.rule, m.rule) for m in worst if m.value is not None]
        rest = [_UNMEASURED.get(m.rule, "") for m in worst if m.value is None]
        why = list(dict.fromkeys(filter(None, [*measured, *rest])))
        why = [] if self.level is Level.TRUSTED else why[:_REASONS]
        return ", ".join([f"Judge: {_TO_DO.get(self.level, self.level)}", *why]) + "."

    @property
    def sentence(self) -> str:
        """The first line of a report: the level, and its first reasons."""
        if self.level is Level.TRUSTED:
            missing = f"; not measured: {', '.join(self.unmeasured)}" if self.unmeasured else ""
            why = f"all {len(self.findings)} checks are met{missing}"
        else:
            reasons = list(_by_rule(self)) or ["nothing was measured"]
            more = f"; {len(reasons) - _REASONS} more" if len(reasons) > _REASONS else ""
            why = f"{'; '.join(reasons[:_REASONS])}{more}"
        return f"The judge {self.judge} is {self.level}: {why}. {self.note}".rstrip()

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "judge": self.judge,
            "level": str(self.level),
            "brief": self.brief,
            "sentence": self.sentence,
            "unmeasured": list(self.unmeasured),
            "findings": [finding.as_dict() for finding in self.findings],
        }


def gate(
    judge: str,
    measures: Iterable[Measure],
    rules: Mapping[str, Rule],
    *,
    full: Sequence[Measure] = (),
    note: str = "",
) -> Gate:
    """Hold what was measured of a judge against the rules; nothing measured is no trust.

    `full` is an earlier, full measurement of the same judge: it counts in place of what `measures`
    say of the same rule and dimension, unless that fails the judge by itself.
    """
    earlier = [m for m in full if m.rule and m.value is not None]
    known = {(m.rule, m.dimension) for m in earlier}
    findings = [
        finding
        for n, m in enumerate([*earlier, *measures])
        if m.rule and (finding := _finding(_in_rules_terms(m), rules[m.rule]))
        if n < len(earlier) or finding.level is Level.FAILED or (m.rule, m.dimension) not in known
    ]
    findings.sort(key=lambda finding: -finding.level.badness)
    level = findings[0].level if findings else Level.CAUTION
    measured = {finding.measure.rule for finding in findings}
    return Gate(
        judge=judge,
        level=level,
        findings=tuple(findings),
        note=note,
        unmeasured=tuple(name for name in rules if name not in measured),
    )


def _in_rules_terms(measure: Measure) -> Measure:
    """A measure as its rule sees it: a share, or how far it is from one half."""
    if measure.rule in _FROM_HALF:
        return measure.from_half()
    return measure.above_half() if measure.rule in _ABOVE_HALF else measure


def _finding(measure: Measure, rule: Rule) -> Finding:
    level, why = _level(measure, rule)
    where = f" on {measure.dimension}" if measure.dimension else ""
    what = f"{measure.about or rule.text}{where}"
    return Finding(measure=measure, rule=rule, level=level, reason=f"{what}: {why}")


def _level(measure: Measure, rule: Rule) -> tuple[Level, str]:
    """Failed where the whole interval is beyond use; trusted where the number is within trust,
    the interval within use, and enough verdicts say so.
    """
    word, value = "at least" if rule.least else "at most", measure.value
    if value is None:
        return Level.CAUTION, "not measured"
    shown = f"{value:.1%} of {measure.n}"
    usable = f"{word} {rule.usable:.0%} is usable"
    best, worst = (measure.high, measure.low) if rule.least else (measure.low, measure.high)
    if best is not None and not rule.keeps(best, rule.usable):
        return Level.FAILED, f"{shown}, {usable}"
    if not rule.keeps(value, rule.usable):
        possible = "too few to tell" if best is None else f"but {best:.1%} is possible"
        why = f"{usable}, {possible}"
    elif not rule.keeps(value, rule.trusted):
        why = f"{word} {rule.trusted:.0%} is trusted"
    elif measure.n < rule.min_n:
        why = f"trust takes {rule.min_n} or more"
    elif worst is not None and not rule.keeps(worst, rule.usable):
        why = f"but {worst:.1%} is possible and {usable}"
    else:
        return Level.TRUSTED, f"{shown}, {word} {rule.trusted:.0%} is trusted"
    return Level.CAUTION, f"{shown}, {why}"


def _by_rule(gate: Gate) -> Iterator[str]:
    """Why the judge is no better, a reason per rule: the worst dimension, and where else."""
    by_rule: dict[str, list[Finding]] = {}
    for finding in gate.findings:
        if finding.level is gate.level:
            by_rule.setdefault(finding.measure.rule, []).append(finding)
    for own in by_rule.values():
        pick = min if own[0].rule.least else max
        worst = pick(own, key=lambda finding: finding.measure.value or 0.0)
        others = [f.measure.dimension for f in own if f is not worst and f.measure.dimension]
        yield worst.reason + (f" (also on {', '.join(others)})" if others else "")
