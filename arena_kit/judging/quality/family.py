"""Preference for a model of the judge's own family, beyond what others think of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from arena_kit.judging.quality.agreement import NOTHING, Share
from arena_kit.judging.quality.calls import Calls
from arena_kit.judging.quality.regression import fitted, shift


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


def family_preference(calls: Calls, families: Mapping[str, str], own: str, others: Calls) -> Share:
    """The win share of a response of the judge's own family against one of another family that is
    as good by others' verdicts; one half is no preference.

    From one logistic regression of the judge's verdicts and others': both follow the same
    strengths of the models, the judge's on a scale and with a slot of its own, and besides which
    side is of the family. So the interval holds what is uncertain about the strengths.

    Parameters
    ----------
    families
        The family of each model; one that is not named has none.
    own
        The judge's family.
    others
        Verdicts of people, or of another judge, on models that the judge saw, too.
    """
    names = sorted({*calls.models} & {*others.models})
    judge, theirs = _among(calls, names), _among(others, names)
    member = np.array([families.get(name) == own for name in names], float)
    models, their_models = judge.model_columns(names), theirs.model_columns(names)
    side = models @ member
    n = int((side != 0).sum())
    if not n or not len(theirs):
        return NOTHING
    slot = np.ones((len(theirs), 1))
    strengths = fitted(np.hstack([their_models, slot]), theirs.won)[: len(names)]
    mine = np.column_stack([side, np.ones(len(judge)), models @ strengths, np.zeros(len(judge))])
    x = np.block([[mine, models], [np.zeros((len(theirs), 3)), slot, their_models]])
    y = np.concatenate([judge.won, theirs.won])
    asked = np.concatenate([each.question.values() for each in (judge, theirs)]).astype(str)
    return shift(x, y, np.unique(asked, return_inverse=True)[1], 0, n=n)


def _among(calls: Calls, names: Sequence[str]) -> Calls:
    """The answers on pairs of these models."""
    known = np.isin(np.array(calls.models, object), np.array(names, object))
    return calls.select(calls.answered & known[calls.first] & known[calls.second])
