"""Agreement with people or gold labels, verdict by verdict and as ratings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.judging.quality.agreement import (
    Agreement,
    Share,
    agreement,
    alpha_share,
    matched,
    verdicts,
)
from arena_kit.rating.base import RatingError, Ratings, known
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.with_judge.hybrid import Hybrid, Worth

Rows = NDArray[np.intp]

#: Models below which no rank correlation is told.
_LEAST_RANKED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """How far ratings by the judge are from people's, on the same battles: rank correlations, and
    the root mean square of the differences in rating points, both sides centred. One who rates all
    models alike has no rank correlation.
    """

    n_models: int
    spearman: float | None
    kendall: float | None
    rating_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """Agreement on battles that both decided, on all of them with ties as a verdict of their own,
    and on each stratum of questions (of those both decided). `ranks` and `worth` (human votes per
    model that say as much as the judge) are None where ratings do not exist.
    """

    decided: Agreement
    counted: Agreement
    strata: dict[str, Agreement]
    ranks: Ranks | None
    worth: Worth | None


def people(
    judged: BattleLog, labels: BattleLog, strata: Mapping[str, str] | None = None
) -> People | None:
    """A judge's battles held against labels on the same two models and question; None where there
    are none.

    Parameters
    ----------
    labels
        People's votes or gold labels. Without dimensions they are held against any.
    strata
        The stratum of each question.
    """
    judge, voters = judged.sides_in_order(), labels.sides_in_order()
    if voters.dimension is None or judge.dimension is None:
        judge, voters = replace(judge, dimension=None), replace(voters, dimension=None)
    ours, theirs = same_battles(judge, voters)
    if not len(ours):
        return None
    one, two = verdicts(judge)[ours], verdicts(voters)[theirs]
    questions = ours if judge.question_id is None else judge.question_id.codes[ours]
    return People(
        decided=agreement(one, two, questions, ties="left out"),
        counted=agreement(one, two, questions, ties="counted"),
        strata=_strata(one, two, questions, _named(judge, ours, strata or {})),
        ranks=_ranks(judge.select(np.unique(ours)), voters.select(np.unique(theirs))),
        worth=_worth(judge, voters),
    )


def same_battles(first: BattleLog, second: BattleLog) -> tuple[Rows, Rows]:
    """Rows of both that are about the same battle: row by row for two columns of one file, else
    by models, question and dimension.
    """
    if len(first) == len(second) and _equal(first, second):
        return np.arange(len(first)), np.arange(len(first))
    if first.question_id is None or second.question_id is None:
        return np.empty(0, np.intp), np.empty(0, np.intp)
    return matched(first, second)


def between(judges: Mapping[str, BattleLog]) -> Share:
    """Krippendorff's alpha of several judges, or of judges and people, on the battles of the first
    one; ties are a verdict of their own, and the interval leaves out a question at a time.
    """
    logs = [log.sides_in_order() for log in judges.values()]
    table = np.full((len(logs), len(logs[0])), np.nan)
    for row, log in enumerate(logs):
        ours, theirs = same_battles(logs[0], log)
        table[row, ours] = verdicts(log)[theirs]
    questions = logs[0].question_id
    return alpha_share(table, None if questions is None else questions.codes)


def _equal(first: BattleLog, second: BattleLog) -> bool:
    same = first.models == second.models
    same = same and np.array_equal(first.a, second.a) and np.array_equal(first.b, second.b)
    for name in ("question_id", "dimension"):
        one, two = getattr(first, name), getattr(second, name)
        if same and (one is None) != (two is None):
            return False
        same = same and (one is None or np.array_equal(one.values(), two.values()))
    return same


def _named(log: BattleLog, rows: Rows, strata: Mapping[str, str]) -> NDArray[np.object_]:
    """The stratum of each row, empty where it has none."""
    if log.question_id is None:
        return np.full(len(rows), "", object)
    names = np.array([strata.get(str(name), "") for name in log.question_id.names], object)
    stratum: NDArray[np.object_] = names[log.question_id.codes[rows]]
    return stratum


def _strata(
    one: NDArray[np.int8],
    two: NDArray[np.int8],
    questions: NDArray[np.integer[Any]],
    stratum: NDArray[np.object_],
) -> dict[str, Agreement]:
    names = sorted({str(name) for name in stratum if name})
    return {
        name: agreement(one[at], two[at], questions[at], ties="left out")
        for name in names
        for at in (stratum == name,)
    }


def rank_correlation(
    first: Ratings | None, second: Ratings | None
) -> tuple[float | None, float | None]:
    """Kendall's and Spearman's correlation of the models that both rate; None of fewer than 3."""
    from scipy.stats import kendalltau, spearmanr

    if first is None or second is None:
        return None, None
    shared = [model for model in first.models if model in second.models]
    if len(shared) < _LEAST_RANKED:
        return None, None
    one, two = (ratings.values(shared) for ratings in (first, second))
    return known(float(kendalltau(one, two).statistic)), known(float(spearmanr(one, two).statistic))


def _ranks(judged: BattleLog, labels: BattleLog) -> Ranks | None:
    try:
        judge, voters = map(BradleyTerry(prior=0.5), (judged, labels))
    except RatingError:
        return None
    both = sorted({*judge.models} & {*voters.models})
    if len(both) < _LEAST_RANKED:
        return None
    one, two = (rated.values(both) for rated in (judge, voters))
    apart = (one - one.mean()) - (two - two.mean())
    kendall, spearman = rank_correlation(judge, voters)
    return Ranks(
        n_models=len(both),
        spearman=spearman,
        kendall=kendall,
        rating_error=float(np.sqrt((apart**2).mean())),
    )


def _worth(judged: BattleLog, labels: BattleLog) -> Worth | None:
    try:
        return Hybrid()(labels, judged).worth
    except RatingError:
        return None
