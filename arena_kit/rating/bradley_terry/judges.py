"""Several judges on the same battles: how alike they err, and how far apart they rate.

Verdicts of two judges on one battle are alike beyond what ratings explain: both see the same
responses. With a mean correlation r of their residuals, k judges say as much as k / (1 + (k - 1) r)
judges whose verdicts are independent given the ratings (the design effect of Kish 1965).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import MIN_QUESTIONS, NORMAL_95, RatingError, components, scores
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
    def of(cls, log: BattleLog, strengths: Callable[[BattleLog], Floats]) -> Judges:
        """The judges of a log; none where it names fewer than two."""
        codes = np.full(len(log), -1) if log.judge_model is None else log.judge_model.codes
        named = np.unique(codes[codes >= 0])
        found: list[Floats] = []
        of_battle = np.full(len(log), -1)
        for code in named if len(named) > 1 else ():
            own = log.select(codes == code)
            if own.models == log.models and not np.ptp(components(len(own.models), own.a, own.b)):
                of_battle[codes == code] = len(found)
                found.append(strengths(own))
        return cls(strength=np.array(found), of_battle=of_battle)

    def further(self) -> Floats:
        """The covariance of a further judge's strengths about the mean of these."""
        if (n := len(self.strength)) < MIN_JUDGES:
            needed = f"{MIN_JUDGES} judges or more whose verdicts rate all models"
            raise RatingError(f"judges='like_these' needs {needed}, not {n}")
        return np.asarray(np.cov(self.strength, rowvar=False) * (1 + 1 / n))

    def figures(self, log: BattleLog) -> dict[str, float]:
        """The mean correlation of residuals and the effective number of judges, with its 95 %
        interval; nothing where they share battles on too few questions.
        """
        products, pairs, k = *self._by_question(log), len(self.strength)
        if len(pairs) < MIN_QUESTIONS:
            return {}
        mean = products.sum() / pairs.sum()
        without = (products.sum() - products) / (pairs.sum() - pairs)
        effective = pairs.sum() ** 2 / (pairs**2).sum()  # fewer than questions that weigh the same
        error = np.sqrt((1 - 1 / effective) * ((without - mean) ** 2).sum())  # the jackknife's
        half = float(t_score(NORMAL_95, effective - 1)) * error
        spans = {"": 0.0, "_low": half, "_high": -half}
        found = {x: k / (1 + (k - 1) * np.clip(mean + h, 0, 1)) for x, h in spans.items()}
        effective_judges = {f"judges_effective{end}": float(n) for end, n in found.items()}
        return {"judges": k, "judges_correlation": float(mean), **effective_judges}

    def _by_question(self, log: BattleLog) -> Floats:
        """For each question on which judges share a battle, the sum of the products of two judges'
        standardised residuals, and how many there are.
        """
        log, n = log.sides_in_order(), len(log.models)
        asked = -1 if log.question_id is None else log.question_id.codes
        rows = np.flatnonzero((self.of_battle >= 0) & (asked >= 0))
        judge, a, b = self.of_battle[rows], log.a[rows], log.b[rows]
        expected = 1 / (1 + np.exp(self.strength[judge, b] - self.strength[judge, a]))
        keys = (log.clusters()[rows].astype(np.int64) * n + a) * n + b
        battles, battle = np.unique(keys, return_inverse=True)
        residual = np.full((len(self.strength), len(battles)), np.nan)
        residual[judge, battle] = scores(log)[rows] - expected  # of a judge asked twice the last
        known = np.isfinite(residual)
        z = np.where(known, residual, 0.0)
        z /= np.sqrt((z**2).sum(axis=1) / np.maximum(1, known.sum(axis=1)))[:, None]
        sums = z.sum(axis=0) ** 2 - (z**2).sum(axis=0), known.sum(axis=0) * (known.sum(axis=0) - 1)
        products, pairs = (np.bincount(battles // n**2, each) for each in sums)
        return np.array([products, pairs])[:, pairs > 0]


def sentences(figures: Mapping[str, float], n: int, sample: Sample) -> tuple[str, ...]:
    """What is said where several judges rate."""
    like = f"Claims are about what a further judge like these {n} would say."
    about = like if sample == "like_these" else "Claims are about these judges."
    told = (
        "Effective number of judges: {judges_effective:.1f} of {judges} (95 % interval "
        "{judges_effective_low:.1f} to {judges_effective_high:.1f}; mean residual correlation "
        "{judges_correlation:.2f})."
    )
    return (told.format(**figures), about) if figures else (about,)
