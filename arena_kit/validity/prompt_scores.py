"""Scores of a model per prompt: average, spread and consistency, raw and opponent-adjusted (9.1).

A raw score depends on whom a model was matched with. The adjusted one takes away what a model of
average rating would be expected to score against the same opponents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import BOTH_BAD
from arena_kit.battles.log import BattleLog
from arena_kit.policy.constants import PromptScores
from arena_kit.rating.base import Ratings, expected_share, scores

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Sides(NamedTuple):
    """Every vote twice, as each of its models saw it; models and prompts in codes of the log.

    `score` is 1, 0.5 or 0, and NaN where the vote compares nothing: both-bad, or a judgment
    whose orders disagree. `battle` is the vote's row in the log; -1 is no prompt.
    """

    battle: Ints
    model: Ints
    other: Ints
    prompt: Ints
    score: Floats

    @classmethod
    def of(cls, battles: BattleLog) -> Self:
        """Both sides of every vote, first all first sides."""
        nothing = (battles.outcome == BOTH_BAD) | battles.flags()
        first = np.where(nothing, np.nan, scores(battles))
        asked = battles.question_id
        prompt = np.full(len(battles), -1) if asked is None else asked.codes.astype(np.int64)
        a, b = battles.a.astype(np.int64), battles.b.astype(np.int64)
        return cls(
            np.tile(np.arange(len(battles)), 2),
            np.concatenate([a, b]),
            np.concatenate([b, a]),
            np.tile(prompt, 2),
            np.concatenate([first, 1 - first]),
        )

    def where(self, mask: NDArray[np.bool_] | NDArray[np.intp]) -> Self:
        """Some of the rows: a mask, or indices in a new order."""
        battle, model, other, prompt = (
            each[mask] for each in (self.battle, self.model, self.other, self.prompt)
        )
        return type(self)(battle, model, other, prompt, self.score[mask])


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSummary:
    """A model's scores over prompts; None where there are too few prompts to say.

    `average` is their mean, `spread` their population standard deviation, and `consistency`
    100 where there is no spread and 0 from the cap on.
    """

    average: float | None
    spread: float | None
    consistency: int | None
    prompts: int


def summary(per_prompt: Floats, rule: PromptScores) -> ScoreSummary:
    """The summary of scores, one of each prompt that counts."""
    n = len(per_prompt)
    spread = float(np.std(per_prompt)) if n >= rule.min_prompts else None
    cap = rule.spread_cap
    return ScoreSummary(
        average=float(np.mean(per_prompt)) if n else None,
        spread=spread,
        consistency=None if spread is None else round(100 * (1 - min(cap, spread) / cap)),
        prompts=n,
    )


def summaries(battles: BattleLog, sides: Sides, rule: PromptScores) -> dict[str, ScoreSummary]:
    """Every model's summary of the scores of its sides; NaN does not count."""
    use = (sides.prompt >= 0) & ~np.isnan(sides.score)
    width = int(sides.prompt.max(initial=0)) + 1
    size = len(battles.models) * width
    cell = (sides.model * width + sides.prompt)[use]
    votes = np.bincount(cell, minlength=size).reshape(-1, width)
    total = np.bincount(cell, sides.score[use], minlength=size).reshape(-1, width)
    counted = votes >= rule.min_votes
    return {
        model: summary(total[i, counted[i]] / votes[i, counted[i]], rule)
        for i, model in enumerate(battles.models)
    }


def raw_scores(battles: BattleLog, rule: PromptScores) -> dict[str, ScoreSummary]:
    """Every model's scores as they were cast."""
    return summaries(battles, Sides.of(battles), rule)


def adjusted_scores(
    battles: BattleLog, strengths: Ratings, rule: PromptScores
) -> dict[str, ScoreSummary]:
    """Every model's scores less what an average model would score against the same opponents."""
    sides = Sides.of(battles)
    rating = rating_of(battles, strengths)
    expected = expected_share(float(np.nanmean(rating)) - rating[sides.other])
    return summaries(battles, sides._replace(score=sides.score - expected), rule)


def rating_of(battles: BattleLog, strengths: Ratings) -> Floats:
    """The ratings of a log's models, NaN where there is none."""
    known = {row.model: row.rating for row in strengths.ratings}
    return np.array([known.get(model, np.nan) for model in battles.models])
