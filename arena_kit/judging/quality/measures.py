"""Measures from a judge's own verdicts: position, length, family, repeats, rubric, statuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import A_WINS, B_WINS, TIE
from arena_kit.battles.content import spoken
from arena_kit.battles.log import BattleLog, Labels
from arena_kit.judging.pairs.prompts import Response
from arena_kit.judging.quality import estimates
from arena_kit.judging.quality.agreement import verdicts
from arena_kit.judging.quality.estimates import Estimate, Measure, share_of
from arena_kit.judging.verdicts.records import Judgment, Slot, Status

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
#: Pairs with an answer in both orders: numbers, both answers, questions.
Orders = tuple[NDArray[np.int64], Floats, Floats, Ints]
#: How many words each entrant's response to each prompt has.
Lengths = Mapping[tuple[str, str], int]

_OUTCOME = {Slot.A: A_WINS, Slot.B: B_WINS, Slot.TIE: TIE}


def calls_of(judgments: Sequence[Judgment], lengths: Lengths | None = None) -> BattleLog:
    """The readable verdicts, a battle for each time that a judge was shown two responses, the first
    side shown first; the covariate `length` is the difference of their words, divided by the sum.
    """
    shown = [v for judgment in judgments for v in judgment.verdicts if v.winner]
    sides = [[getattr(v.presentation, side) for v in shown] for side in ("first", "second")]
    prompts = [v.presentation.pair.prompt_id for v in shown]
    models, known = Labels.of([*sides[0], *sides[1]]), lengths or {}
    first, second = (
        np.array([known.get(cell, 0) or np.nan for cell in zip(side, prompts, strict=True)], float)
        for side in sides
    )
    return BattleLog(
        models=tuple(map(str, models.names)),
        a=models.codes[: len(shown)],
        b=models.codes[len(shown) :],
        outcome=np.array([_OUTCOME[v.winner] for v in shown if v.winner], np.int8),
        question_id=Labels.of(prompts),
        dimension=Labels.of(v.presentation.pair.dimension for v in shown),
        covariates={"length": (first - second) / (first + second)},
    )


def by_dimension(calls: BattleLog, names: Iterable[str]) -> dict[str, BattleLog]:
    """The verdicts on each of these dimensions, which may be none."""
    own = np.array([], object) if calls.dimension is None else calls.dimension.values()
    return {name: calls.select(own == name) for name in names}


def _longer(calls: BattleLog) -> Floats:
    """How often the length of the second response must be doubled to reach the first's, NaN where
    lengths are not known.
    """
    share = (calls.covariates or {}).get("length", np.full(len(calls), np.nan))
    with np.errstate(divide="ignore"):
        longer = np.log2((1 + share) / (1 - share))
    return np.where(np.isfinite(longer), longer, np.nan)


def _pairs(calls: BattleLog) -> NDArray[np.int64]:
    """A number for each two models on each question, whichever was shown first."""
    n, low, high = len(calls.models), np.minimum(calls.a, calls.b), np.maximum(calls.a, calls.b)
    return (calls.clusters().astype(np.int64) * n + low) * n + high


def _won(calls: BattleLog) -> Floats:
    """1 for the response shown first, 0 for the other, a half for a tie."""
    return np.asarray(1 - verdicts(calls) / 2)


def _model_columns(calls: BattleLog, names: Sequence[str]) -> Floats:
    """A column per name: 1 where that model was shown first, -1 where second."""
    column = np.array([names.index(name) for name in calls.models], np.intp)
    x, rows = np.zeros((len(calls), len(names))), np.arange(len(calls))
    x[rows, column[calls.a]] = 1.0
    x[rows, column[calls.b]] = -1.0
    return x


def _both_orders(calls: BattleLog, some: NDArray[np.bool_] | None = None) -> Orders:
    """Pairs with an answer in both orders (among some verdicts): their numbers, the verdicts with
    the model first by name in front and behind (1 for it, -1 for the other, 0 a tie), and their
    questions.
    """
    ahead, pairs, questions = calls.a < calls.b, _pairs(calls), calls.clusters()
    signed = np.where(ahead, 1, -1) * (1.0 - verdicts(calls))
    sides = []
    for rows in (ahead, ~ahead):
        at = np.flatnonzero(rows if some is None else rows & some)
        keys, index = np.unique(pairs[at], return_index=True)
        sides.append((keys, at[index]))
    keys, one, two = np.intersect1d(sides[0][0], sides[1][0], return_indices=True)
    front, behind = sides[0][1][one], sides[1][1][two]
    return keys, signed[front], signed[behind], questions[front]


def lengths_of(responses: Mapping[tuple[str, str], Response]) -> Lengths:
    """The words of each response."""
    return {cell: len(spoken(each.response_text).split()) for cell, each in responses.items()}


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


def served_sentence(others: Mapping[str, int]) -> str:
    """A sentence if other models than the requested one answered, by their counts; else empty."""
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


def position(calls: BattleLog) -> PositionBias:
    """Order effects of these answers together."""
    _, front, behind, questions = _both_orders(calls)
    decisive = calls.decisive()
    return PositionBias(
        flips=share_of(front != behind, questions),
        slot_a=share_of(calls.outcome[decisive] == A_WINS, calls.clusters()[decisive]),
    )


def settled(log: BattleLog) -> PositionBias:
    """Order effects of battles that were settled from both orders; which slot won is not known."""
    return PositionBias(flips=share_of(log.flags(), log.clusters()), slot_a=estimates.NOTHING)


def position_bias(judgments: Sequence[Judgment]) -> dict[str, PositionBias]:
    """Order effects per dimension, in the order in which dimensions first appear."""
    names = dict.fromkeys(judgment.pair.dimension for judgment in judgments)
    return {name: position(own) for name, own in by_dimension(calls_of(judgments), names).items()}


def length_preference(calls: BattleLog) -> list[Measure]:
    """How length moves verdicts, of answers whose lengths are known, clustered by question.

    `longer_named` is the share of decisive verdicts that name the longer response. `twice_as_long`
    is the win share of a response twice as long as one of equal quality: from a logistic regression
    of every verdict on the two models (their fitted ratings), the slot, and the logarithm of the
    lengths' ratio. A response may be longer and better on its question; the regression cannot tell.
    """
    rows = calls.select(np.isfinite(_longer(calls)))
    longer, clusters = _longer(rows), rows.clusters()
    differs = longer != 0
    decisive = differs & rows.decisive()
    if not decisive.any():
        return []
    named_longer = (rows.outcome == A_WINS) == (longer > 0)
    x = np.column_stack([longer, np.ones(len(rows)), _model_columns(rows, rows.models)])
    doubled = estimates.logistic_shift(x, _won(rows), clusters, 0, n=int(differs.sum()))
    return [
        share_of(named_longer[decisive], clusters[decisive]).named("longer_named"),
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


def family_preference(calls: BattleLog, families: Families, others: BattleLog) -> list[Measure]:
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
    models, their_models = _model_columns(judge, names), _model_columns(theirs, names)
    side = models @ member
    n = int((side != 0).sum())
    if not n or not len(theirs):
        return []
    slot = np.ones((len(theirs), 1))
    strengths = estimates.fit_logistic(np.hstack([their_models, slot]), _won(theirs))[: len(names)]
    mine = np.column_stack([side, np.ones(len(judge)), models @ strengths, np.zeros(len(judge))])
    x = np.block([[mine, models], [np.zeros((len(theirs), 3)), slot, their_models]])
    y = np.concatenate([_won(judge), _won(theirs)])
    questions = np.concatenate([[q or f"#{i}" for i, (q, *_) in enumerate(log.compared())]
                                for log in (judge, theirs)])  # fmt: skip
    share = estimates.logistic_shift(x, y, np.unique(questions, return_inverse=True)[1], 0, n=n)
    return [share.named("own_family", rule="family")]


def stability(calls: BattleLog) -> list[Measure]:
    """`repeats`: the share of equal answers among every two to the same request (one pair in one
    order), with an interval clustered by question; nothing where none was asked twice.
    """
    names, place = np.unique(_pairs(calls) * 2 + (calls.a < calls.b), return_inverse=True)
    counts = np.bincount(place * 3 + verdicts(calls), minlength=3 * len(names)).reshape(-1, 3)
    equal = (counts * (counts - 1) // 2).sum(axis=1)
    asked = counts.sum(axis=1)
    unequal = asked * (asked - 1) // 2 - equal
    question = np.zeros(len(names), int)
    question[place] = calls.clusters()
    flags = np.repeat(np.tile([True, False], len(names)), np.stack([equal, unequal], 1).ravel())
    share = share_of(flags, np.repeat(question, equal + unequal))
    return [share.named("repeats", rule="repeats")] if share.n else []


def rubric_use(calls: BattleLog) -> list[Measure]:
    """Whether verdicts depend on the rubric: every two dimensions that share pairs, most alike
    first. `different` is the share of pairs, settled on both dimensions by two orders that agree,
    that are not answered alike: a judge that ignores rubrics has almost none. `correlation` is that
    of signed verdicts, both orders averaged.
    """
    own = np.full(len(calls), "") if calls.dimension is None else calls.dimension.values()
    orders = {name: _both_orders(calls, own == name) for name in dict.fromkeys(own) if name}
    compared = []
    for one, other in combinations(orders, 2):
        (keys, x1, x2, questions), (others, y1, y2, _) = orders[one], orders[other]
        _, at, there = np.intersect1d(keys, others, return_indices=True)
        twice = (x1[at] == x2[at]) & (y1[there] == y2[there])
        if len(at):
            differ = share_of((x1[at] != y1[there])[twice], questions[at][twice])
            together = estimates.correlation((x1 + x2)[at], (y1 + y2)[there])
            names = {"dimension": one, "stratum": other}
            rows = differ.named("different", **names), together.named("correlation", **names)
            compared.append(rows)
    return [row for rows in sorted(compared, key=lambda rows: rows[0].value or 0.0) for row in rows]


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
