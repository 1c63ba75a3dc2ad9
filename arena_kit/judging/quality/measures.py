"""Measures from a judge's own verdicts: position, length, family, repeats, rubric, statuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import nan, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.content import spoken
from arena_kit.battles.log import BattleLog, Labels
from arena_kit.judging.pairs.prompts import Response
from arena_kit.judging.quality import estimates
from arena_kit.judging.quality.agreement import LABELS, verdicts
from arena_kit.judging.quality.estimates import Estimate, Measure, share_of
from arena_kit.judging.verdicts.records import Judgment, Slot, Status, Verdict

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
#: Pairs with an answer in both orders: numbers, both answers, questions.
Orders = tuple[NDArray[np.int64], Floats, Floats, Ints]
#: How many words each entrant's response to each prompt has.
Lengths = Mapping[tuple[str, str], int]

_LABEL = dict(zip((Slot.A, Slot.TIE, Slot.B), range(len(LABELS)), strict=True))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calls:
    """A judge's verdicts, one for each time it was shown two responses.

    `first` and `second` index `models`; `label` is a place in `LABELS`, as seen by the response
    shown first, -1 for no readable answer. `longer` is how often the length of the second one
    must be doubled to reach the first's, NaN where lengths are not known.
    """

    models: tuple[str, ...]
    first: Ints
    second: Ints
    question: Labels
    dimension: Labels
    label: NDArray[np.int8]
    longer: Floats

    @classmethod
    def of(cls, judgments: Sequence[Judgment], lengths: Lengths | None = None) -> Calls:
        """Both orders of every judgment."""
        shown = [verdict for judgment in judgments for verdict in judgment.verdicts]
        sides = [v.presentation.first for v in shown] + [v.presentation.second for v in shown]
        models = Labels.of(sides)
        return cls(
            models=tuple(map(str, models.names)),
            first=models.codes[: len(shown)],
            second=models.codes[len(shown) :],
            question=Labels.of(v.presentation.pair.prompt_id for v in shown),
            dimension=_in_order([v.presentation.pair.dimension for v in shown]),
            label=np.array([_LABEL[v.winner] if v.winner else -1 for v in shown], np.int8),
            longer=np.array([_doublings(v, lengths or {}) for v in shown], float),
        )

    @classmethod
    def from_battles(cls, log: BattleLog) -> Calls:
        """Battles of which the first side was shown first; a battle without a question stands for
        itself. A `length` among the covariates is taken as a difference divided by the sum.
        """
        n = len(log)
        each = Labels(np.arange(n).astype(str).astype(object), np.arange(n, dtype=np.int32))
        whole = Labels(np.array([""], object), np.zeros(n, np.int32))
        share = (log.covariates or {}).get("length", np.full(n, np.nan))
        with np.errstate(divide="ignore"):
            longer = np.log2((1 + share) / (1 - share))
        return cls(
            models=log.models, first=log.a, second=log.b, question=log.question_id or each,
            dimension=log.dimension or whole, label=verdicts(log),
            longer=np.where(np.isfinite(longer), longer, np.nan),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.label)

    def select(self, rows: NDArray[np.bool_]) -> Calls:
        """Some of the rows, under the same names."""
        columns: dict[str, Any] = {
            name: getattr(self, name)[rows] for name in ("first", "second", "label", "longer")
        }
        for name in ("question", "dimension"):
            labels: Labels = getattr(self, name)
            columns[name] = Labels(labels.names, labels.codes[rows])
        return replace(self, **columns)

    def among(self, names: Sequence[str]) -> Calls:
        """The answers on pairs of these models."""
        known = np.isin(np.array(self.models, object), np.array(names, object))
        return self.select(self.answered & known[self.first] & known[self.second])

    def by_dimension(self) -> dict[str, Calls]:
        """The rows of each dimension, in the order in which they first appear."""
        codes = self.dimension.codes
        return {str(n): self.select(codes == i) for i, n in enumerate(self.dimension.names)}

    @property
    def clusters(self) -> Ints:
        """What rows share a question."""
        return self.question.codes

    @property
    def answered(self) -> NDArray[np.bool_]:
        """The rows with a readable answer."""
        return self.label >= 0

    @property
    def pair(self) -> NDArray[np.int64]:
        """A number for each two models on each question, whichever was shown first."""
        n = len(self.models)
        low, high = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        return (self.question.codes.astype(np.int64) * n + low) * n + high

    @property
    def signed(self) -> Floats:
        """1 for the model that comes first by name, -1 for the other, 0 for a tie; NaN unread."""
        value = np.where(self.first < self.second, 1.0 - self.label, self.label - 1.0)
        return np.where(self.answered, value, np.nan)

    @property
    def won(self) -> Floats:
        """1 for the response shown first, 0 for the other, a half for a tie; NaN unread."""
        return np.where(self.answered, 1 - self.label / 2, np.nan)

    def model_columns(self, names: Sequence[str]) -> Floats:
        """A column per name: 1 where that model was shown first, -1 where second."""
        place = {name: i for i, name in enumerate(names)}
        column = np.array([place.get(name, -1) for name in self.models])
        x, rows = np.zeros((len(self), len(names))), np.arange(len(self))
        x[rows, column[self.first]] = 1.0
        x[rows, column[self.second]] = -1.0
        return x

    def both_orders(self) -> Orders:
        """Pairs with an answer in both orders: their numbers, the verdicts (`signed`) with the
        model first by name in front and behind, and their questions.
        """
        ahead = self.first < self.second
        sides = []
        for rows in (ahead & self.answered, ~ahead & self.answered):
            at = np.flatnonzero(rows)
            keys, index = np.unique(self.pair[at], return_index=True)
            sides.append((keys, at[index]))
        keys, one, two = np.intersect1d(sides[0][0], sides[1][0], return_indices=True)
        front, behind = sides[0][1][one], sides[1][1][two]
        return keys, self.signed[front], self.signed[behind], self.clusters[front]


def lengths_of(responses: Mapping[tuple[str, str], Response]) -> Lengths:
    """The words of each response."""
    return {cell: len(spoken(each.response_text).split()) for cell, each in responses.items()}


def _in_order(values: Sequence[str]) -> Labels:
    """A column whose names stand in the order in which they first appear."""
    names = list(dict.fromkeys(values))
    place = {name: i for i, name in enumerate(names)}
    return Labels(np.array(names, object), np.array([place[v] for v in values], np.int32))


def _doublings(verdict: Verdict, lengths: Lengths) -> float:
    shown = verdict.presentation
    sides = (shown.first, shown.second)
    first, second = (lengths.get((side, shown.pair.prompt_id), 0) for side in sides)
    return float(np.log2(first / second)) if first and second else np.nan


#: Why the demo judge fails on a rubric that is not built in.
NO_RUBRIC = "the demo judge ignores the rubric"


def statuses(judgments: Sequence[Judgment]) -> list[Measure]:
    """How the answers of these judgments ended: `readable` ones, `ties` among them, and the share
    of each `status`, with intervals clustered by question.
    """
    ended = [(v.status, v.winner, j.pair.prompt_id) for j in judgments for v in j.verdicts]
    status, winner, prompt = (np.array(c, object) for c in zip(*ended, strict=True))
    question = np.unique(prompt, return_inverse=True)[1]
    readable = winner != np.array(None, object)
    unread = Counter(str(each) for each in status if each is not Status.OK)
    named = ", ".join(f"{unread[kind]} {kind}" for kind in map(str, Status) if unread[kind])
    about = f"readable verdicts ({named})" if named else ""
    return [
        share_of(readable, question).named("readable", rule="readable", about=about),
        share_of(winner[readable] == Slot.TIE, question[readable]).named("ties"),
        *(share_of(status == s, question).named("status", stratum=str(s)) for s in Status),
    ]


def served_by_others(judgments: Iterable[Judgment]) -> dict[str, int]:
    """How many verdicts came from another model than requested, by its name."""
    others = (verdict.other_model for judgment in judgments for verdict in judgment.verdicts)
    return dict(Counter(filter(None, others)))


def served_warning(judgments: Iterable[Judgment]) -> str:
    """A sentence if another model than the requested one answered; else empty."""
    return served_sentence(served_by_others(judgments))


def served_sentence(others: Mapping[str, int]) -> str:
    """The same from counts by model."""
    counts = ", ".join(f"{n} by {name}" for name, n in sorted(others.items()))
    warning = f"Another model than requested served verdicts: {counts}; "
    return f"{warning}served_model names it." if others else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionBias:
    """Order effects, with intervals clustered by question.

    `flips` is the share of pairs with both answers whose two orders disagree; `slot_a` the share
    of decisive verdicts that name the response shown first: a judge that ignores order stands at
    one half.
    """

    flips: Estimate
    slot_a: Estimate

    def as_dict(self) -> dict[str, float | int | None]:
        """Plain values, for JSON."""
        rates = {"flip": self.flips, "slot_a": self.slot_a}
        counts = {"n_pairs": self.flips.n, "n_decisive_verdicts": self.slot_a.n}
        ends = {"rate": "value", "low": "low", "high": "high"}
        return counts | {f"{n}_{end}": getattr(e, of) for n, e in rates.items()
                         for end, of in ends.items()}  # fmt: skip

    def measures(self) -> list[Measure]:
        """The same as rows of the table of measures."""
        return [self.flips.named("flips", rule="flips"), self.slot_a.named("slot_a", rule="slot")]


def position(calls: Calls) -> PositionBias:
    """Order effects of these answers together."""
    _, front, behind, questions = calls.both_orders()
    decisive = (calls.label == 0) | (calls.label == 2)
    return PositionBias(
        flips=share_of(front != behind, questions),
        slot_a=share_of(calls.label[decisive] == 0, calls.clusters[decisive]),
    )


def settled(log: BattleLog) -> PositionBias:
    """Order effects of battles that were settled from both orders; which slot won is not known."""
    clusters = None if log.question_id is None else log.question_id.codes
    return PositionBias(flips=share_of(log.flags(), clusters), slot_a=estimates.NOTHING)


def position_bias(judgments: Sequence[Judgment]) -> dict[str, PositionBias]:
    """Order effects per dimension, in the order in which dimensions first appear."""
    by_dimension = Calls.of(judgments).by_dimension()
    return {dimension: position(own) for dimension, own in by_dimension.items()}


def length_preference(calls: Calls) -> list[Measure]:
    """How length moves verdicts, of answers whose lengths are known, clustered by question.

    `longer_named` is the share of decisive verdicts that name the longer response. `twice_as_long`
    is the win share of a response twice as long as one of equal quality: from a logistic regression
    of every verdict on the two models (their fitted ratings), the slot, and the logarithm of the
    lengths' ratio. A response may be longer and better on its question; the regression cannot tell.
    """
    rows = calls.select(calls.answered & np.isfinite(calls.longer))
    differs = rows.longer != 0
    decisive = differs & (rows.label != 1)
    if not decisive.any():
        return []
    named_longer = (rows.label == 0) == (rows.longer > 0)
    x = np.column_stack([rows.longer, np.ones(len(rows)), rows.model_columns(rows.models)])
    doubled = estimates.logistic_shift(x, rows.won, rows.clusters, 0, n=int(differs.sum()))
    return [
        share_of(named_longer[decisive], rows.clusters[decisive]).named("longer_named"),
        doubled.named("twice_as_long", rule="length"),
    ]


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


def family_preference(calls: Calls, families: Families, others: Calls) -> list[Measure]:
    """`own_family`: the win share of a response of the judge's own family against one of another
    family that is as good by others' verdicts; one half is no preference.

    From one logistic regression of the judge's verdicts and those of `others` (people, or another
    judge, on models that the judge saw, too): both follow the same strengths of the models, the
    judge's on a scale and with a slot of its own, and besides which side is of the family. So the
    interval holds what is uncertain about the strengths.
    """
    names = sorted({*calls.models} & {*others.models})
    judge, theirs = calls.among(names), others.among(names)
    member = np.array([name in families.barred for name in names], float)
    models, their_models = judge.model_columns(names), theirs.model_columns(names)
    side = models @ member
    n = int((side != 0).sum())
    if not n or not len(theirs):
        return []
    slot = np.ones((len(theirs), 1))
    strengths = estimates.fit_logistic(np.hstack([their_models, slot]), theirs.won)[: len(names)]
    mine = np.column_stack([side, np.ones(len(judge)), models @ strengths, np.zeros(len(judge))])
    x = np.block([[mine, models], [np.zeros((len(theirs), 3)), slot, their_models]])
    y = np.concatenate([judge.won, theirs.won])
    questions = np.concatenate([each.question.values() for each in (judge, theirs)]).astype(str)
    share = estimates.logistic_shift(x, y, np.unique(questions, return_inverse=True)[1], 0, n=n)
    return [share.named("own_family", rule="family")]


def stability(calls: Calls) -> list[Measure]:
    """`repeats`: the share of equal answers among every two to the same request (one pair in one
    order), with an interval clustered by question; nothing where none was asked twice.
    """
    rows = calls.select(calls.answered)
    request = rows.pair * 2 + (rows.first < rows.second)
    names, place = np.unique(request, return_inverse=True)
    counts = np.bincount(place * 3 + rows.label, minlength=3 * len(names)).reshape(-1, 3)
    equal = (counts * (counts - 1) // 2).sum(axis=1)
    asked = counts.sum(axis=1)
    unequal = asked * (asked - 1) // 2 - equal
    question = np.zeros(len(names), int)
    question[place] = rows.clusters
    flags = np.repeat(np.tile([True, False], len(names)), np.stack([equal, unequal], 1).ravel())
    share = share_of(flags, np.repeat(question, equal + unequal))
    return [share.named("repeats", rule="repeats")] if share.n else []


def rubric_use(calls: Calls) -> list[Measure]:
    """Whether verdicts depend on the rubric: every two dimensions that share pairs, most alike
    first.

    `different` is the share of pairs, settled on both dimensions by two orders that agree, that
    are not answered alike: a judge that ignores rubrics has almost none. `correlation` is that
    of signed verdicts, both orders averaged; `corrected` is the same without the noise that the
    two orders of one dimension show (Spearman's correction for attenuation), not given where there
    is nothing to correct by.
    """
    orders = {name: own.both_orders() for name, own in calls.by_dimension().items()}
    compared = [
        _two_dimensions(one, other, orders[one], orders[other])
        for one, other in combinations(orders, 2)
    ]
    shared = [rows for rows in compared if rows]
    return [row for rows in sorted(shared, key=lambda rows: rows[0].value or 0.0) for row in rows]


def rubric_findings(
    dimensions: Iterable[str], rows: Sequence[Measure], unread: Collection[str]
) -> list[Measure]:
    """Per dimension, what the gate holds against the rule `rubric`: how far its verdicts are from
    those of the dimension most like it; nothing for one whose rubric the judge cannot follow.
    """
    found = []
    for name in dimensions:
        pairs = [row for row in rows if row.measure == "different"]
        alike = next((row for row in pairs if name in (row.dimension, row.stratum)), None)
        if name in unread:
            nothing = Estimate(value=0.0, low=0.0, high=0.0)
            found.append(nothing.named("rubric", dimension=name, rule="rubric", about=NO_RUBRIC))
        elif alike is not None:
            other = alike.stratum if alike.dimension == name else alike.dimension
            about = f"rubric use: verdict differs from that on {other} in"
            row = alike.named("rubric", dimension=name, stratum=other, rule="rubric", about=about)
            found.append(row)
    return found


def _two_dimensions(one: str, other: str, first: Orders, second: Orders) -> list[Measure]:
    _, at, there = np.intersect1d(first[0], second[0], return_indices=True)
    if not len(at):
        return []
    x1, x2, questions = first[1][at], first[2][at], first[3][at]
    y1, y2 = second[1][there], second[2][there]
    settled_twice = (x1 == x2) & (y1 == y2)
    correlation = _correlation(x1 + x2, y1 + y2, questions)
    different = share_of(x1[settled_twice] != y1[settled_twice], questions[settled_twice])
    corrected = Estimate(value=_corrected(correlation.value, (x1, x2), (y1, y2)), n=len(at))
    named = {"different": different, "correlation": correlation, "corrected": corrected}
    return [each.named(name, dimension=one, stratum=other) for name, each in named.items()]


def _correlation(x: Floats, y: Floats, questions: Ints) -> Estimate:
    parts = np.stack([np.ones(len(x)), x, y, x * x, y * y, x * y], axis=1)
    return estimates.jackknifed(estimates.sums(parts, questions), _pearson, n=len(x))


def _pearson(moments: Floats) -> Floats:
    n, x, y, xx, yy, xy = moments.T
    return np.asarray((n * xy - x * y) / np.sqrt((n * xx - x * x) * (n * yy - y * y)))


def _corrected(
    value: float | None, x: tuple[Floats, Floats], y: tuple[Floats, Floats]
) -> float | None:
    reliability = [_reliability(*orders) for orders in (x, y)]
    if value is None or not all(r > 0 for r in reliability):
        return None
    return min(1.0, value / sqrt(reliability[0] * reliability[1]))


def _reliability(front: Floats, behind: Floats) -> float:
    """How well the mean of two orders is reproduced (Spearman and Brown); NaN without variance."""
    if len(front) < 3 or not front.std() or not behind.std():
        return nan
    r = float(np.corrcoef(front, behind)[0, 1])
    return 2 * r / (1 + r) if r > -1 else nan
