"""What the gate holds against rules: shares as measures, each under the rule it must keep."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from arena_kit.judging.quality.agreement import Share
from arena_kit.judging.quality.dimension import DimensionQuality
from arena_kit.judging.quality.gate import Measure
from arena_kit.judging.quality.rubric import RubricUse

#: Why a judge that compares words fails on a rubric that nobody programmed.
NO_RUBRIC = "compares words, reads no rubric"


def dimension_measures(each: DimensionQuality) -> list[Measure]:
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


def rubric_measures(
    dimensions: Iterable[DimensionQuality], rubrics: Sequence[RubricUse], unread: Collection[str]
) -> list[Measure]:
    """Per dimension, how far its verdicts are from those of the dimension most like it; nothing
    for one whose rubric the judge cannot follow.
    """
    measures = []
    for each in dimensions:
        name = each.dimension
        if name in unread:
            n = each.position.slot_a.n
            nothing = Share(value=0.0, ci_low=0.0, ci_high=0.0, n=n)
            measures.append(replace(_measure("rubric", name, nothing), about=NO_RUBRIC))
            continue
        alike = next((use for use in rubrics if name in (use.one, use.other)), None)
        if alike is not None:
            other = alike.other if alike.one == name else alike.one
            about = f"pairs answered otherwise than on {other}"
            measures.append(replace(_measure("rubric", name, alike.different), about=about))
    return measures


def people_measures(dimensions: Iterable[DimensionQuality]) -> list[Measure]:
    """Agreement with people, said to be missing where nothing was compared: nothing else shows
    that verdicts are right.
    """
    compared = [(d.dimension, d.people.decided.rate) for d in dimensions if d.people is not None]
    measures = [_measure("people", name, rate) for name, rate in compared]
    return measures or [Measure(rule="people", value=None)]


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
