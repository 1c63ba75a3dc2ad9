"""All that can be measured of a judge, and what of it the gate holds against rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from arena_kit.battles.log import BattleLog
from arena_kit.judging.quality.agreement import NOTHING
from arena_kit.judging.quality.calls import Calls, Lengths
from arena_kit.judging.quality.dimension import DimensionQuality
from arena_kit.judging.quality.family import Families, family_preference
from arena_kit.judging.quality.gate import Gate, Measure, Rule, gate
from arena_kit.judging.quality.length import length_preference
from arena_kit.judging.quality.measures import dimension_measures, people_measures, rubric_measures
from arena_kit.judging.quality.people import people
from arena_kit.judging.quality.position import position, settled
from arena_kit.judging.quality.rubric import RubricUse, likenesses
from arena_kit.judging.quality.stability import stability
from arena_kit.judging.quality.statuses import statuses
from arena_kit.judging.verdicts.records import Judgment
from arena_kit.judging.verdicts.settle import to_battles


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
        repeats: Sequence[Judgment] = (),
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
        repeats
            Some of the same pairs, judged a second time.
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
        twice = Calls.of([*judgments, *repeats]).by_dimension()
        logs = _by_dimension(to_battles(judgments) if battles is None else battles)
        measured = []
        for name, own in calls.by_dimension().items():
            log, voted = logs.get(name, logs.get("")), _labels(labels, name)
            each = [j for j in judgments if j.pair.dimension == name]
            measured.append(
                DimensionQuality(
                    dimension=name,
                    statuses=statuses(each),
                    position=position(own),
                    **_of_calls(own, families, voted),
                    stability=stability(twice[name]),
                    people=people(log, voted, strata) if log is not None and voted else None,
                )
            )
        return cls(
            judge=judge, dimensions=tuple(measured), rubrics=likenesses(calls), unread=tuple(unread)
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
    ) -> JudgeQuality:
        """From battles alone, such as a file with a column for the judge and one for people.

        `both_orders` says that each battle was settled from two presentations, which then flipped
        where it is marked inconsistent; otherwise its first side was shown first.
        """
        measured = []
        for name, log in _by_dimension(judged).items():
            calls, voted = Calls.from_battles(log), _labels(labels, name)
            measured.append(
                DimensionQuality(
                    dimension=name,
                    statuses=None,
                    position=settled(log) if both_orders else position(calls),
                    **_of_calls(calls, families, voted),
                    stability=NOTHING,  # the same question again may be other responses
                    people=people(log, voted) if voted else None,
                )
            )
        calls = Calls.from_battles(judged)
        return cls(judge=judge, dimensions=tuple(measured), rubrics=likenesses(calls))

    def measures(self) -> list[Measure]:
        """What the gate holds against rules."""
        return [
            *(measure for each in self.dimensions for measure in dimension_measures(each)),
            *rubric_measures(self.dimensions, self.rubrics, self.unread),
            *people_measures(self.dimensions),
        ]

    def gate(
        self, rules: Mapping[str, Rule], *, more: Iterable[Measure] = (), note: str = ""
    ) -> Gate:
        """All of that, and what was measured besides, held against rules; `note` is said with
        what comes out.
        """
        return gate(self.judge, [*more, *self.measures()], rules, note=note)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def _of_calls(calls: Calls, families: Families, labels: BattleLog | None) -> dict[str, Any]:
    others = Calls.from_battles(labels) if families.own and labels is not None else None
    return {
        "length": length_preference(calls),
        "family": NOTHING
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
