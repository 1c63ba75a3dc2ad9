"""All that can be measured of a judge, as one table, and judges side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from arena_kit.battles.log import BattleLog
from arena_kit.judging.quality import measures
from arena_kit.judging.quality.agreement import between, people, stratum_of
from arena_kit.judging.quality.canaries import CanaryReport
from arena_kit.judging.quality.estimates import Estimate, Measure, find
from arena_kit.judging.quality.gate import Gate, Level, Rule, gate
from arena_kit.judging.quality.measures import Families, Lengths, by_dimension, calls_of
from arena_kit.judging.verdicts.records import Judgment, to_battles
from arena_kit.rating.base import NORMAL_95

if TYPE_CHECKING:
    import pandas as pd

Rows = Sequence[Measure]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeQuality:
    """How good a judge is, by its own answers and, where there are labels, by other people's.

    `measures` is a tidy table: a row for each measure, dimension and stratum. `unread` names
    dimensions whose rubric the judge cannot follow, whatever it says. `strata` are order effects,
    length bias and agreement of each stratum, partially pooled.
    """

    judge: str
    dimensions: tuple[str, ...] = ()
    measures: tuple[Measure, ...] = ()
    unread: tuple[str, ...] = ()
    strata: tuple[Measure, ...] = ()

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
        names = list(dict.fromkeys(judgment.pair.dimension for judgment in judgments))
        calls = calls_of(judgments, lengths)
        twice = by_dimension(calls_of([*judgments, *repeats]), names)
        log = to_battles(judgments) if battles is None else battles
        logs = log.by_dimension() or {"": log}
        own, compared, parts = [], [], []
        for name, each in by_dimension(calls, names).items():
            labelled = _labels(labels, name)
            parts += _named(name, *_by_stratum(each, strata or {}))
            own += _named(
                name,
                *measures.statuses([j for j in judgments if j.pair.dimension == name]),
                *measures.position(each).measures(),
                *_preferences(each, families, labelled),
                *measures.stability(twice[name]),
            )
            settled = logs.get(name, logs.get(""))
            if settled is not None and labelled is not None:
                compared += _named(name, *people(settled, labelled, strata))
        agreed = [row for row in compared if row.stratum and row.measure == "agreement_by_call"]
        parts += [replace(row, rule="people") for row in agreed]
        unread = tuple(unread)
        return cls(
            judge=judge, dimensions=tuple(names), unread=unread, strata=tuple(_pooled(parts)),
            measures=_table(calls, names, own, compared, unread),
        )  # fmt: skip

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
        own, compared, logs = [], [], judged.by_dimension() or {"": judged}
        for name, log in logs.items():
            labelled = _labels(labels, name)
            bias = measures.settled(log) if both_orders else measures.position(log)
            known = [row for row in bias.measures() if row.value is not None]
            own += _named(name, *known, *_preferences(log, families, labelled))
            if labelled is not None:
                compared += _named(name, *people(log, labelled))
        return cls(judge=judge, dimensions=(*logs,), measures=_table(judged, logs, own, compared))

    def find(self, measure: str, dimension: str = "", stratum: str = "") -> Estimate:
        """One of the measures; without a value where it was not measured."""
        return find(self.measures, measure, dimension, stratum)

    def gate(
        self,
        rules: Mapping[str, Rule],
        *,
        more: Iterable[Measure] = (),
        full: Sequence[Measure] = (),
        note: str = "",
    ) -> Gate:
        """All of that, what was measured besides, and a `full` measurement of earlier, held against
        rules; `note` is said with what comes out.
        """
        return gate(self.judge, [*more, *self.measures], rules, full=full, note=note)

    def by_stratum(self, rules: Mapping[str, Rule]) -> dict[tuple[str, str], Gate]:
        """What may be done with the verdicts of each dimension and stratum."""
        cells = dict.fromkeys((row.dimension, row.stratum) for row in self.strata)
        return {
            cell: gate(self.judge, [r for r in self.strata if (r.dimension, r.stratum) == cell],
                       rules)
            for cell in cells
        }  # fmt: skip

    def to_frame(self) -> pd.DataFrame:
        """The table as a data frame."""
        import pandas as pd

        return pd.DataFrame([row.as_dict() for row in self.measures])


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One judge on the pairs of a report.

    `source` says where its verdicts come from; `usd` and `seconds` are per 1,000 verdicts, None
    where that is not known. A judge without battles could not be asked; `source` then says why.
    """

    judge: str
    source: str
    quality: JudgeQuality
    gate: Gate
    battles: BattleLog | None = field(default=None, repr=False)
    canaries: CanaryReport | None = field(default=None, repr=False)
    n_verdicts: int = 0
    usd: float | None = None
    seconds: float | None = None

    @classmethod
    def of(
        cls,
        quality: JudgeQuality,
        gate: Gate,
        judgments: Sequence[Judgment],
        *,
        source: str,
        canaries: CanaryReport | None = None,
        timing: Mapping[str, float] | None = None,
    ) -> Judged:
        """From judgments in both orders; `timing` says how many of them were `asked` for and how
        many `seconds` that took.
        """
        verdicts = [verdict for judgment in judgments for verdict in judgment.verdicts]
        n, took = len(verdicts), timing or {}
        return cls(
            judge=quality.judge, source=source, quality=quality, gate=gate,
            battles=to_battles(judgments), canaries=canaries, n_verdicts=n,
            usd=1000 * sum(v.cost_usd for v in verdicts) / n if n else None,
            seconds=1000 * took["seconds"] / took["asked"] if took.get("asked") else None,
        )  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "judge": self.judge,
            "source": self.source,
            "verdicts": self.n_verdicts,
            "usd_per_1000": self.usd,
            "seconds_per_1000": self.seconds,
            "gate": self.gate.as_dict(),
            "measures": [row.as_dict() for row in self.quality.measures],
            "strata": [row.as_dict() for row in self.quality.strata],
            "canaries": self.canaries and self.canaries.as_dict(),
        }


def cheapest(judges: Sequence[Judged]) -> Judged | None:
    """The cheapest judge that passes the gate, trusted ones first; None where none does or no
    price is known.
    """
    priced = [j for j in judges if j.usd is not None and j.gate.level is not Level.FAILED]
    return min(priced, key=lambda j: (j.gate.level.badness, j.usd), default=None)


def agree(judges: Sequence[Judged]) -> Estimate | None:
    """Krippendorff's alpha of all judges with battles; None for one alone."""
    logs = {judge.judge: judge.battles for judge in judges if judge.battles is not None}
    return between(logs) if len(logs) > 1 else None


def _table(
    calls: BattleLog, names: Iterable[str], own: Rows, compared: Rows, unread: tuple[str, ...] = ()
) -> tuple[Measure, ...]:
    """The table of a judge from its own rows and those about people, which are said to be missing
    where nothing was compared: nothing else shows that verdicts are right.
    """
    rows = [*own, *measures.rubric_use(calls)]
    nobody = Measure(measure="agreement", rule="people", value=None)
    rubrics = measures.rubric_findings(names, rows, unread)
    return (*rows, *rubrics, *(compared or [nobody]))


def _named(dimension: str, *rows: Measure) -> list[Measure]:
    return [replace(row, dimension=dimension) for row in rows]


def _preferences(calls: BattleLog, families: Families, labels: BattleLog | None) -> list[Measure]:
    rows = measures.length_preference(calls)
    if families.own and labels is not None:
        rows += measures.family_preference(calls, families, labels)
    return rows


def _by_stratum(calls: BattleLog, strata: Mapping[str, str]) -> list[Measure]:
    """Order effects and length bias of each stratum by itself."""
    stratum = stratum_of(calls, strata)
    rows = []
    for name in sorted({str(each) for each in stratum if each}):
        part = calls.select(stratum == name)
        both = [*measures.position(part).measures(), *measures.length_preference(part)]
        rows += [replace(row, stratum=name) for row in both if row.rule]
    return rows


def _pooled(rows: Iterable[Measure]) -> list[Measure]:
    """Each measure of a dimension with its strata partially pooled."""
    from arena_kit.rating.strata import shrunk  # needs SciPy

    groups: dict[tuple[str, str], list[Measure]] = {}
    for row in rows:
        groups.setdefault((row.dimension, row.measure), []).append(row)
    out = []
    for group in groups.values():
        known = [(row, row.value, row.high - row.low) for row in group
                 if row.value is not None and row.low is not None and row.high is not None
                 and row.high > row.low]  # fmt: skip
        if len(known) < 2:
            out += group
            continue
        ends = shrunk([v for _, v, _ in known], [width / 2 / NORMAL_95 for *_, width in known])
        for (row, *_), *cell in zip(known, *ends, strict=True):
            value, low, high = np.clip(cell, 0, 1).tolist()
            out.append(replace(row, value=value, low=low, high=high))
    return out


def _labels(labels: BattleLog | None, dimension: str) -> BattleLog | None:
    """The labels of a dimension, or all where they have none; None where that leaves nothing."""
    if labels is None or labels.dimension is None:
        return labels
    return labels.by_dimension().get(dimension)
