"""A judge's answers as columns, a row for each time it was shown a pair: what measures take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog, Labels
from arena_kit.judging.pairs.prompts import Response
from arena_kit.judging.quality.agreement import LABELS, verdicts
from arena_kit.judging.verdicts.records import Judgment, Slot, Verdict

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
    return {cell: len(each.response_text.split()) for cell, each in responses.items()}


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
