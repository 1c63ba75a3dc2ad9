"""All that can be measured of a judge, and what of it the gate holds against rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from arena_kit.battles.log import BattleLog
from arena_kit.judging.agreement import Share
from arena_kit.judging.gate import Measure
from arena_kit.judging.quality.calls import Calls, Lengths
from arena_kit.judging.quality.family import family_preference
from arena_kit.judging.quality.length import LengthPreference, length_preference
from arena_kit.judging.quality.people import People, people
from arena_kit.judging.quality.position import PositionBias, position, settled
from arena_kit.judging.quality.rubric import RubricUse, likenesses
from arena_kit.judging.quality.stability import stability
from arena_kit.judging.quality.statuses import Statuses, statuses
from arena_kit.judging.records import Judgment
from arena_kit.judging.verdicts import to_battles

#: Why a judge that compares words fails on a rubric that nobody programmed.
NO_RUBRIC = "compares words, reads no rubric"


@dataclass(frozen=True, slots=True, kw_only=True)
class Families:
    """The family of models, the judge among them: `of` names each one's, `own` is the judge's."""

    of: Mapping[str, str] = field(default_factory=dict)
    own: str = ""

    @classmethod
    def around(cls, judge: str, families: Mapping[str, str]) -> Families:
        """Those of a judge, whose own stands under its model's name."""
        return cls(of=families, own=families.get(judge, ""))

    @property
    def barred(self) -> frozenset[str]:
        """The models of the judge's own family."""
        return frozenset(m for m, family in self.of.items() if self.own and family == self.own)


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionQuality:
    """What was measured on one dimension; a share without a value could not be."""

    dimension: str
    statuses: Statuses | None
    position: PositionBias
    length: LengthPreference
    family: Share
    stability: Share
    people: People | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeQuality:
    """How good a judge is, by its own answers and, where there are labels, by other people's.

    `rubrics` compares every two dimensions on the same pairs, most alike first; `unread` names
    dimensions whose rubric the judge cannot follow, whatever it says.
    """

    judge: str
    dimensions: tuple[DimensionQuality, ...]
    rubrics: tuple[RubricUse, ...] = ()
    unread: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        judge: str,
        judgments: Sequence[Judgment],
        *,
        labels: BattleLog | None = None,
        battles: BattleLog | None = None,
        lengths: Lengths | None = None,
        families: Families = Families(),  # noqa: B008 (frozen)
        strata: Mapping[str, str] | None = None,
        unread: Iterable[str] = (),
    ) -> JudgeQuality:
        """From judgments in both orders.

        Parameters
        ----------
        labels
            People's votes or gold labels on the same battles.
        battles
            The judgments as battles, where labels call models and questions by other names.
        lengths
            The words of each entrant's response to each prompt.
        families
            The family of each model and of the judge.
        strata
            The stratum of each prompt.
        unread
            Dimensions whose rubric this judge is known not to follow.
        """
        calls = Calls.of(judgments, lengths)
        logs = _by_dimension(to_battles(judgments) if battles is None else battles)
        found = []
        for name, own in calls.by_dimension().items():
            log, voted = logs.get(name, logs.get("")), _labels(labels, name)
            each = [j for j in judgments if j.pair.dimension == name]
            found.append(
                DimensionQuality(
                    dimension=name,
                    statuses=statuses(each),
                    position=position(own),
                    **_of_calls(own, families, voted),
                    stability=stability(own),
                    people=people(log, voted, strata) if log is not None and voted else None,
                )
            )
        return cls(
            judge=judge,
            dimensions=tuple(found),
            rubrics=likenesses(calls),
            unread=tuple(unread),
        )

    @classmethod
    def from_battles(
        cls,
        judge: str,
        judged: BattleLog,
        *,
        labels: BattleLog | None = None,
        both_orders: bool = False,
        families: Families = Families(),  # noqa: B008 (frozen)
        strata: Mapping[str, str] | None = None,
    ) -> JudgeQuality:
        """From battles alone, such as a file with a column for the judge and one for people.

        `both_orders` says that each battle was settled from two presentations, which then flipped
        where it is marked inconsistent; otherwise its first side was shown first.
        """
        found = []
        for name, log in _by_dimension(judged).items():
            calls, voted = Calls.from_battles(log), _labels(labels, name)
            found.append(
                DimensionQuality(
                    dimension=name,
                    statuses=None,
                    position=settled(log) if both_orders else position(calls),
                    **_of_calls(calls, families, voted),
                    stability=_NOTHING,  # the same question again may be other responses
                    people=people(log, voted, strata) if voted else None,
                )
            )
        calls = Calls.from_battles(judged)
        return cls(judge=judge, dimensions=tuple(found), rubrics=likenesses(calls))

    def measures(self) -> list[Measure]:
        """What the gate holds against rules: what could be measured, and agreement with people
        also where it could not, for nothing else shows that verdicts are right.
        """
        found = [measure for each in self.dimensions for measure in _measures(each)]
        found += _rubric_measures(self)
        voted = [each for each in self.dimensions if each.people is not None]
        found += [_people(each) for each in voted]
        return found if voted else [*found, Measure(rule="people", value=None)]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def _of_calls(calls: Calls, families: Families, labels: BattleLog | None) -> dict[str, Any]:
    others = Calls.from_battles(labels) if families.own and labels is not None else None
    return {
        "length": length_preference(calls),
        "family": _NOTHING
        if others is None
        else family_preference(calls, families.of, families.own, others),
    }


def _by_dimension(log: BattleLog) -> dict[str, BattleLog]:
    """Each dimension's battles; all of them under no name where they have none."""
    if log.dimension is None or not len(log):
        return {"": log}
    return log.by_dimension()


def _labels(labels: BattleLog | None, dimension: str) -> BattleLog | None:
    """The labels of a dimension, or all where they have none; None where that leaves nothing."""
    if labels is None or labels.dimension is None:
        return labels
    return labels.by_dimension().get(dimension)


def _measures(each: DimensionQuality) -> list[Measure]:
    """What was measured on one dimension, without what could not be."""
    measures = []
    if each.statuses is not None:
        unread = each.statuses.unread
        measure = _measure("readable", each.dimension, each.statuses.readable)
        about = f"verdicts that could be read ({unread})" if unread else ""
        measures.append(replace(measure, about=about))
    shares = {
        "flips": each.position.flips,
        "slot": _away(each.position.slot_a),
        "length": _away(each.length.doubled),
        "family": _beyond(each.family),
        "repeats": each.stability,
    }
    asked = {"flips", "slot"} if each.statuses is not None else set()
    measures += [
        _measure(rule, each.dimension, share)
        for rule, share in shares.items()
        if share.value is not None or rule in asked
    ]
    return measures


def _rubric_measures(quality: JudgeQuality) -> list[Measure]:
    """Per dimension, how far its verdicts are from those of the dimension most like it."""
    found = []
    for each in quality.dimensions:
        name = each.dimension
        if name in quality.unread:
            n = each.position.slot_a.n
            nothing = Share(value=0.0, ci_low=0.0, ci_high=0.0, n=n)
            found.append(replace(_measure("rubric", name, nothing), about=NO_RUBRIC))
            continue
        alike = next((use for use in quality.rubrics if name in (use.one, use.other)), None)
        if alike is not None:
            other = alike.other if alike.one == name else alike.one
            about = f"pairs answered otherwise than on {other}"
            found.append(replace(_measure("rubric", name, alike.different), about=about))
    return found


def _people(each: DimensionQuality) -> Measure:
    share = each.people.decided.rate if each.people else _NOTHING
    return _measure("people", each.dimension, share)


def _measure(rule: str, dimension: str, share: Share) -> Measure:
    return Measure(
        rule=rule,
        dimension=dimension,
        value=share.value,
        low=share.ci_low,
        high=share.ci_high,
        n=share.n,
    )


def _away(share: Share) -> Share:
    """How far a share is from one half, in either direction."""
    if share.value is None or share.ci_low is None or share.ci_high is None:
        return replace(share, value=None if share.value is None else abs(share.value - 0.5))
    ends = (share.ci_low - 0.5, share.ci_high - 0.5)
    nearest = 0.0 if ends[0] <= 0 <= ends[1] else min(map(abs, ends))
    return replace(share, value=abs(share.value - 0.5), ci_low=nearest, ci_high=max(map(abs, ends)))


def _beyond(share: Share) -> Share:
    """How far a share is above one half; below it is no preference."""
    ends = (share.value, share.ci_low, share.ci_high)
    value, low, high = (None if end is None else end - 0.5 for end in ends)
    return replace(share, value=value, ci_low=low, ci_high=high)


_NOTHING = Share(value=None, ci_low=None, ci_high=None, n=0)
