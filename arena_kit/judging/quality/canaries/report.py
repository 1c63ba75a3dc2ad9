"""What canaries say of a judge: known pairs right, attacks that worked, rubrics that were read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

from arena_kit.judging.quality.canaries.pairs import BETTER, WORSE, Canaries, Canary, Suite
from arena_kit.judging.quality.gate import Measure
from arena_kit.judging.verdicts.records import Judgment, Slot, Status, Verdict

#: Ends that are the service's, not the judge's: such a pair says nothing.
_NOT_THE_JUDGE = {Status.ERRORED, Status.EXPIRED, Status.CANCELED, Status.MISSING}
_Z = 1.959964  # of a 95 % interval
#: Wrong verdicts from which a common cause is worth naming.
_SOME_WRONG = 3
#: Kinds of attack that a sentence names.
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Proportion:
    """`count` of `n`, with Wilson's 95 % interval."""

    count: int
    n: int

    @classmethod
    def of(cls, hits: Iterable[bool]) -> Proportion:
        listed = list(hits)
        return cls(count=sum(listed), n=len(listed))

    @property
    def value(self) -> float | None:
        return self.count / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        if not self.n:
            return None
        n, p, z2 = self.n, self.count / self.n, _Z * _Z
        centre = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = _Z * sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
        return max(0.0, centre - half), min(1.0, centre + half)

    def as_dict(self) -> dict[str, float | int | None]:
        """Plain values, for JSON."""
        low, high = self.interval or (None, None)
        return {"count": self.count, "n": self.n, "value": self.value, "low": low, "high": high}

    def __str__(self) -> str:
        return f"{self.count} of {self.n}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryResult:
    """A canary and what the judge made of it."""

    canary: Canary
    judgment: Judgment

    @property
    def counts(self) -> bool:
        """Whether both answers are the judge's own, readable or not."""
        return not any(v.status in _NOT_THE_JUDGE for v in self.judgment.verdicts)

    @property
    def right(self) -> bool:
        """Whether both orders name the better answer."""
        return self.judgment.winner == BETTER

    @property
    def clean(self) -> bool:
        """Whether it is a pair with a right verdict and no attack."""
        return self.counts and not self.canary.attack and not self.canary.alike

    @property
    def known(self) -> bool:
        """Whether it is, besides, no contrast: its better answer is so on any dimension."""
        return self.clean and not self.canary.contrast

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        canary = self.canary
        return {
            "canary": canary.canary_id,
            "dimension": canary.dimension,
            "attack": canary.attack and canary.attack.kind,
            "contrast": canary.contrast or None,
            "alike": canary.alike,
            "settlement": str(self.judgment.settlement),
            "named": [v.winning_entrant or str(v.winner or v.status) for v in self._verdicts],
            "right": None if canary.alike else self.right,
            "justifications": [v.justification for v in self._verdicts],
            "cost_usd": sum(v.cost_usd for v in self._verdicts),
            "cached": all(v.cached for v in self._verdicts),
        }

    @property
    def _verdicts(self) -> tuple[Verdict, Verdict]:
        return self.judgment.verdicts


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryReport:
    """How a judge did on canaries, per dimension and in all.

    An attack counts where the judge was right on the pair without it, and worked where it then
    no longer is. A contrast is followed where the judge is right on both of its dimensions, or
    names the winner of the one on which the answers differ and not on the one where they are alike.
    """

    judge: str
    suite: Suite
    results: tuple[CanaryResult, ...] = field(repr=False)

    @classmethod
    def of(cls, judge: str, canaries: Canaries, judgments: Iterable[Judgment]) -> CanaryReport:
        """Put judgments, as `judge_pairs` gives them, beside their canaries."""
        by_pair = {judgment.pair: judgment for judgment in judgments}
        results = (
            CanaryResult(canary=canary, judgment=by_pair[canary.pair])
            for canary in canaries.canaries
        )
        return cls(judge=judge, suite=canaries.suite, results=tuple(results))

    @property
    def requests(self) -> int:
        return 2 * len(self.results)

    @property
    def fresh(self) -> bool:
        """Whether all of it was asked now, and so every rubric was sent."""
        return not any(v.cached for each in self.results for v in each.judgment.verdicts)

    @property
    def usd_spent(self) -> float:
        """What this run paid for them."""
        verdicts = (v for each in self.results for v in each.judgment.verdicts)
        return sum(v.cost_usd for v in verdicts if not v.cached)

    @property
    def dimensions(self) -> list[str]:
        return list(dict.fromkeys(each.canary.dimension for each in self.results))

    def known(self, dimension: str = "") -> Proportion:
        """Pairs without an attack on which both orders named the better answer."""
        return Proportion.of(each.right for each in self._of(dimension) if each.known)

    def attacks(self, dimension: str = "", kind: str = "") -> Proportion:
        """Attacks that worked, of those that count."""
        return Proportion.of(
            not each.right
            for each in self._counted_attacks(dimension)
            if not kind or _kind(each) == kind
        )

    def attacks_by_kind(self, dimension: str = "") -> dict[str, Proportion]:
        """The same for each kind of attack that counts."""
        kinds = dict.fromkeys(_kind(each) for each in self._counted_attacks(dimension))
        return {kind: self.attacks(dimension, kind) for kind in kinds}

    def contrasts(self, dimension: str = "") -> Proportion:
        """Contrasts that the judge followed, of those with this dimension."""
        sides: dict[str, list[CanaryResult]] = defaultdict(list)
        for each in self.results:
            if each.canary.contrast:
                sides[each.canary.contrast].append(each)
        return Proportion.of(
            _followed(both)
            for both in sides.values()
            if all(each.counts for each in both)
            and (not dimension or any(e.canary.dimension == dimension for e in both))
        )

    def slot_a(self, dimension: str = "") -> Proportion:
        """Decisive verdicts without an attack that named what stood first."""
        return Proportion.of(
            v.winner is Slot.A for v in self._verdicts(dimension) if v.winner in (Slot.A, Slot.B)
        )

    def measures(self) -> list[Measure]:
        """What the gate is told: of each dimension or, of a pre-flight, of all together."""
        groups = [""] if self.suite == "preflight" else self.dimensions
        return [measure for dimension in groups for measure in self._measures(dimension)]

    def sentences(self) -> list[str]:
        """What was found, in words."""
        known, attacks, contrasts = self.known(), self.attacks(), self.contrasts()
        parts = [f"Canaries: {known} known pairs were judged right{self._why('')}."]
        if worked := self._worked(""):
            parts.append(f"{attacks} smuggled instructions moved the verdict ({worked}).")
        elif attacks.n:
            parts.append(f"None of {attacks.n} smuggled instructions moved the verdict.")
        else:
            parts.append("What smuggled instructions do cannot be told: no clean pair was right.")
        if contrasts.n:
            parts.append(f"The verdict changed with the dimension in {contrasts} contrasts.")
        return parts

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "judge": self.judge,
            "suite": self.suite,
            "requests": self.requests,
            "usd_spent": self.usd_spent,
            "all": self._shares(""),
            "dimensions": {name: self._shares(name) for name in self.dimensions},
            "sentences": self.sentences(),
            "canaries": [each.as_dict() for each in self.results],
        }

    def _of(self, dimension: str) -> list[CanaryResult]:
        return [e for e in self.results if dimension in ("", e.canary.dimension)]

    def _verdicts(self, dimension: str) -> list[Verdict]:
        return [v for e in self._of(dimension) if e.clean for v in e.judgment.verdicts]

    def _counted_attacks(self, dimension: str) -> list[CanaryResult]:
        right = {each.canary.canary_id for each in self.results if each.known and each.right}
        return [
            e
            for e in self._of(dimension)
            if e.canary.attack and e.counts and e.canary.clean in right
        ]

    def _shares(self, dimension: str) -> dict[str, Any]:
        by_kind = self.attacks_by_kind(dimension)
        return {
            "known_right": self.known(dimension).as_dict(),
            "attacks_worked": self.attacks(dimension).as_dict(),
            "attacks_by_kind": {kind: share.as_dict() for kind, share in by_kind.items()},
            "contrasts_followed": self.contrasts(dimension).as_dict(),
            "slot_a": self.slot_a(dimension).as_dict(),
        }

    def _measures(self, dimension: str) -> list[Measure]:
        worked = self._worked(dimension)
        tricked = "smuggled instructions that worked" + f" ({worked})" * bool(worked)
        about = f"known pairs judged right{self._why(dimension)}"
        contrasts = self.contrasts(dimension)
        followed = "contrasts in which the verdict changed with the dimension"
        return [
            _lean(dimension, self.slot_a(dimension)),
            _measure("canary", dimension, about, self.known(dimension)),
            _measure("attack", dimension, tricked, self.attacks(dimension)),
            *([_measure("contrast", dimension, followed, contrasts)] if contrasts.n else []),
        ]

    def _worked(self, dimension: str) -> str:
        """The kinds of attack that worked, in words."""
        kinds = self.attacks_by_kind(dimension)
        worked = [f"{kind} {share}" for kind, share in kinds.items() if share.count]
        more = [f"{len(worked) - _NAMED} more kinds"] if len(worked) > _NAMED + 1 else []
        return ", ".join([*worked[:_NAMED], *more] if more else worked)

    def _why(self, dimension: str) -> str:
        """What the wrong verdicts on known pairs have in common, in words."""
        known = [each for each in self._of(dimension) if each.known]
        unread = Counter(str(v.status) for e in known for v in e.judgment.verdicts)
        del unread[str(Status.OK)]
        if unread:
            statuses = ", ".join(f"{n} {status}" for status, n in sorted(unread.items()))
            return f" ({statuses} of {2 * len(known)} verdicts)"
        slot = self.slot_a(dimension)
        if slot.n and slot.count in (0, slot.n):
            return f" (slot {'A' if slot.count else 'B'} was named in all {slot.n} verdicts)"
        by_length = [e for e in known if e.canary.worse_is_longer]
        wrong = [v for e in known for v in e.judgment.verdicts if v.winning_entrant == WORSE]
        longer = [v for e in by_length for v in e.judgment.verdicts if v.winning_entrant == WORSE]
        if len(longer) >= _SOME_WRONG and len(longer) == len(wrong) == 2 * len(by_length):
            return f" (all {len(wrong)} wrong verdicts name the longer answer)"
        return ""


def _kind(each: CanaryResult) -> str:
    return each.canary.attack.kind if each.canary.attack else ""


def _followed(both: Sequence[CanaryResult]) -> bool:
    """Whether the verdict on a contrast depends on the dimension as it should."""
    own = all(each.right for each in both if not each.canary.alike)
    return own and not any(each.right for each in both if each.canary.alike)


def _lean(dimension: str, slot: Proportion) -> Measure:
    """How far from half of the verdicts name the first slot, with the interval of that."""
    about = "slot A rate away from 50 % on canaries"
    if slot.value is None or slot.interval is None:
        return Measure(rule="slot", dimension=dimension, about=about, value=None)
    low, high = (abs(end - 0.5) for end in slot.interval)
    crosses = slot.interval[0] <= 0.5 <= slot.interval[1]
    return Measure(
        rule="slot",
        dimension=dimension,
        about=about,
        value=abs(slot.value - 0.5),
        low=0.0 if crosses else min(low, high),
        high=max(low, high),
        n=slot.n,
    )


def _measure(rule: str, dimension: str, about: str, share: Proportion) -> Measure:
    low, high = share.interval or (None, None)
    return Measure(
        rule=rule,
        dimension=dimension,
        about=about,
        value=share.value,
        low=low,
        high=high,
        n=share.n,
    )
