"""The gate: whether a judge is trusted, usable with caution or not usable, and by which number.

All measures of a judge (position bias, canaries, agreement with human votes …) are rows of one
table; those with a rule are tested against it. The worst finding determines the level.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from arena_kit.files import ArenaError
from arena_kit.judging.quality.estimates import Measure

_REASONS = 2  # in a sentence
_UNKNOWN = "not measured"
_COUNTED_BELOW = 100  # verdicts; a share of more is a percentage
#: Rules about how far a share is from one half, in either direction, and about how far above it.
_FROM_HALF, _ABOVE_HALF = {"slot", "length"}, {"family"}


class UnfitJudgeError(ArenaError, RuntimeError):
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
    """The limits of a measure, a minimum (`least`) or a maximum: for trust and for any use.

    `text` names the measure. A judge fails only if the whole 95 % interval is outside `usable`;
    with fewer than `min_n` verdicts it is never trusted.
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
                f"trusted ({self.trusted:g}) must be no less strict than usable ({self.usable:g})"
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
    """The level of a measure by its rule, and the limits that explain it. `measure` is in the
    rule's terms, where a share is a distance from one half for some rules; `share` is the measure
    itself.
    """

    measure: Measure
    share: Measure
    rule: Rule
    level: Level
    limits: tuple[str, ...]

    @property
    def reason(self) -> str:
        """In words: what was measured where, the share, and the limits that it misses."""
        share, rule = self.share, self.rule
        name, _, how = (share.about or rule.text).partition(": ")
        where = f"{name} on {share.dimension}" if share.dimension else name
        if share.value is None:
            return f"{where} was not measured"
        if not share.n:  # a fact, not a count
            return where
        whole = abs(share.value * share.n - share.count) < 1e-6 and share.n < _COUNTED_BELOW
        number = share.counted if whole else f"{share.value:.1%} of {share.n:,}"
        known = {
            "usable": f"usable: {self.allowed(rule.usable)}",
            "trusted": f"trusted: {self.allowed(rule.trusted)}",
            "few": f"trusted: from {rule.min_n} on",
            "interval": f"95% interval {share.low or 0:.0%} to {share.high or 0:.0%}",
            "no interval": "too few for an interval",
        }
        limits = "; ".join(known[name] for name in self.limits)
        return f"{where}: {how}{' ' * bool(how)}{number} ({limits})"

    def allowed(self, limit: float) -> str:
        """A limit of the rule, in terms of the share."""
        if self.measure.rule in _FROM_HALF:
            return f"{0.5 - limit:.0%} to {0.5 + limit:.0%}"
        limit += 0.5 * (self.measure.rule in _ABOVE_HALF)
        return f"{'at least' if self.rule.least else 'at most'} {limit:.0%}"

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
    def brief(self) -> str:
        """What to do with the judge's verdicts and the first reasons, in ten words or so."""
        trusted, worst = self.level is Level.TRUSTED, _worst_by_rule(self)
        why = [] if trusted else [_briefly(finding) for finding, _ in worst]
        why.sort(key=lambda words: words.endswith(_UNKNOWN))
        level = "use with caution" if self.level is Level.CAUTION else self.level
        return ", ".join([f"Judge: {level}", *why[:_REASONS]]) + "."

    @property
    def sentence(self) -> str:
        """The first line of a report: the level, and its first reasons."""
        if self.level is Level.TRUSTED:
            missing = f"; not measured: {', '.join(self.unmeasured)}" if self.unmeasured else ""
            why = f"it meets all {len(self.findings)} checks{missing}"
        else:
            reasons = [worst.reason + others for worst, others in _worst_by_rule(self)]
            reasons = reasons or ["nothing was measured"]
            further = len(reasons) - _REASONS
            more = [f"further reasons: {further}"] if further > 0 else []
            why = "; ".join([*reasons[:_REASONS], *more])
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
    """Test the measures of a judge against the rules; without measures it is not trusted.

    `full` is an earlier, full measurement of the same judge: it replaces `measures` of the same
    rule and dimension, unless these fail the judge by themselves.
    """
    earlier = [m for m in full if m.rule and m.value is not None]
    known = {(m.rule, m.dimension) for m in earlier}
    findings = [
        finding
        for n, m in enumerate([*earlier, *measures])
        if m.rule and (finding := _finding(m, rules[m.rule]))
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


def _briefly(finding: Finding) -> str:
    """What was measured, and the share, in two or three words."""
    name, value = (finding.share.about or finding.rule.text).partition(": ")[0], finding.share.value
    known = f"{value:.0%}" if value is not None and finding.share.n else ""
    return f"{name} {_UNKNOWN if value is None else known}".rstrip()


def _in_rules_terms(measure: Measure) -> Measure:
    """A measure as its rule sees it: a share, or how far it is from one half."""
    if measure.rule in _FROM_HALF:
        return measure.from_half()
    return measure.above_half() if measure.rule in _ABOVE_HALF else measure


def _finding(share: Measure, rule: Rule) -> Finding:
    measure = _in_rules_terms(share)
    level, limits = _level(measure, rule)
    return Finding(measure=measure, share=share, rule=rule, level=level, limits=limits)


def _level(measure: Measure, rule: Rule) -> tuple[Level, tuple[str, ...]]:
    """Failed if the whole interval is outside `usable`; trusted if the value is within `trusted`,
    the interval within `usable`, and `n` is large enough. Also which limits explain the level.
    """
    value = measure.value
    if value is None:
        return Level.CAUTION, ()
    best, worst = (measure.high, measure.low) if rule.least else (measure.low, measure.high)
    if best is not None and not rule.keeps(best, rule.usable):
        return Level.FAILED, ("usable",)
    if not rule.keeps(value, rule.usable):
        return Level.CAUTION, ("usable", "no interval" if best is None else "interval")
    if not rule.keeps(value, rule.trusted):
        return Level.CAUTION, ("trusted",)
    few, wide = measure.n < rule.min_n, worst is not None and not rule.keeps(worst, rule.usable)
    if few or wide:
        return Level.CAUTION, ("few",) if few else ("interval", "usable")
    return Level.TRUSTED, ("trusted",)


def _worst_by_rule(gate: Gate) -> Iterator[tuple[Finding, str]]:
    """The worst finding of each rule that makes the judge's level, and on which other dimensions
    that rule does, in words.
    """
    by_rule: dict[str, list[Finding]] = {}
    for finding in gate.findings:
        if finding.level is gate.level:
            by_rule.setdefault(finding.measure.rule, []).append(finding)
    for own in by_rule.values():
        pick = min if own[0].rule.least else max
        worst = pick(own, key=lambda finding: finding.measure.value or 0.0)
        others = [f.measure.dimension for f in own if f is not worst and f.measure.dimension]
        yield worst, f" (also on {', '.join(others)})" if others else ""
