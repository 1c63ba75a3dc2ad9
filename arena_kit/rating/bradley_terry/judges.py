"""Several judges on the same battles: how alike they err, and how far apart they rate.

Verdicts of two judges on one battle are alike beyond what ratings explain: both see the same
responses. With a mean correlation r of their residuals, k judges say as much as k / (1 + (k - 1) r)
judges whose verdicts are independent given the ratings (the design effect of Kish 1965).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import MIN_QUESTIONS, NORMAL_95, components, scores
from arena_kit.rating.bradley_terry.tie_models import Floats
from arena_kit.rating.critical_values import t_score

Sample = Literal["these", "like_these"]
#: Judges that claims about others like them need; two leave one degree of freedom.
MIN_JUDGES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Judges:
    """The judges of a log whose battles connect all of its models: the `strength` that each of them
    (a row) gives each model, and which of them judged each battle (-1 is nobody).
    """

    strength: Floats
    of_battle: NDArray[np.intp]

    @classmethod
    def of(cls, log: BattleLog, strengths: Callable[[BattleLog], Floats]) -> Judges | None:
        """The judges of a log; None where there are not two."""
        codes = np.full(len(log), -1) if log.judge_model is None else log.judge_model.codes
        named = np.unique(codes[codes >= 0])
        of_battle, found = np.full(len(log), -1), []
        for code in named if len(named) > 1 else ():
            own = log.select(codes == code)
            if own.models == log.models and not np.ptp(components(len(own.models), own.a, own.b)):
                of_battle[codes == code] = len(found)
                found.append(strengths(own))
        return cls(strength=np.array(found), of_battle=of_battle) if len(found) > 1 else None

    def __len__(self) -> int:
        return len(self.strength)

    def further(self) -> Floats:
        """The covariance of a further judge's strengths about the mean of these."""
        return np.asarray(np.cov(self.strength, rowvar=False) * (1 + 1 / len(self)))

    def effective(self, correlation: float) -> float:
        """How many independent judges say as much."""
        return len(self) / (1 + (len(self) - 1) * min(1.0, max(0.0, correlation)))

    def figures(self, log: BattleLog) -> dict[str, float]:
        """The mean correlation of residuals and the effective number of judges, with its 95 %
        interval; nothing where they share battles on too few questions.
        """
        questions = _by_question(self._verdicts(log))
        if len(questions) < MIN_QUESTIONS:
            return {}
        mean, half = _jackknife(*questions.T)
        return {
            "judges": len(self),
            "judges_correlation": mean,
            "judges_effective": self.effective(mean),
            "judges_effective_low": self.effective(mean + half),
            "judges_effective_high": self.effective(mean - half),
        }

    def _verdicts(self, log: BattleLog) -> _Verdicts:
        """Every judge's residual on every battle; the mean where it judged one several times."""
        log, n = log.sides_in_order(), len(log.models)
        asked = -1 if log.question_id is None else log.question_id.codes
        rows = np.flatnonzero((self.of_battle >= 0) & (asked >= 0))
        judge, a, b = self.of_battle[rows], log.a[rows], log.b[rows]
        expected = 1 / (1 + np.exp(self.strength[judge, b] - self.strength[judge, a]))
        keys, battle = np.unique((log.clusters()[rows] * n + a) * n + b, return_inverse=True)
        verdicts, row = np.unique(judge * len(keys) + battle, return_inverse=True)
        residual = np.bincount(row, scores(log)[rows] - expected) / np.bincount(row)
        judge, battle = np.divmod(verdicts, max(1, len(keys)))
        size = np.sqrt(np.bincount(judge, residual**2) / np.bincount(judge))
        return _Verdicts(keys // n**2, battle, residual / size[judge])


class _Verdicts(NamedTuple):
    """The question of each battle; the battle of each verdict, and its standardised residual."""

    question: NDArray[np.int64]
    battle: NDArray[np.int64]
    residual: Floats


def _by_question(verdicts: _Verdicts) -> Floats:
    """For each question on which two judges share a battle, the sum of the products of their
    residuals, and how many there are.
    """
    n = np.bincount(verdicts.battle)
    summed = np.bincount(verdicts.battle, verdicts.residual)
    products = summed**2 - np.bincount(verdicts.battle, verdicts.residual**2)
    sums = [np.bincount(verdicts.question, each) for each in (products, n * (n - 1))]
    return np.array([each[sums[1] > 0] for each in sums]).T


def _jackknife(product: Floats, count: Floats) -> tuple[float, float]:
    """A ratio of sums over questions, and half of its 95 % interval; questions that weigh more
    leave fewer degrees of freedom.
    """
    ratio = product.sum() / count.sum()
    without = (product.sum() - product) / (count.sum() - count)
    effective = count.sum() ** 2 / (count**2).sum()
    error = np.sqrt((1 - 1 / effective) * ((without - ratio) ** 2).sum())
    return float(ratio), float(t_score(NORMAL_95, effective - 1) * error)


def sentences(figures: Mapping[str, float], n: int, sample: Sample) -> tuple[str, ...]:
    """What is said where several judges rate."""
    about = (
        f"Claims are about what a further judge like these {n} would say."
        if sample == "like_these"
        else "Claims are about these judges."
    )
    if not figures:
        return (about,)
    low, high = figures["judges_effective_low"], figures["judges_effective_high"]
    effective = (
        f"Effective number of judges: {figures['judges_effective']:.1f} of {n} (95 % interval "
        f"{low:.1f} to {high:.1f}; mean residual correlation {figures['judges_correlation']:.2f})."
    )
    return effective, about
