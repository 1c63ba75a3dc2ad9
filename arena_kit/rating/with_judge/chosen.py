"""Votes on battles that were drawn from a judge's: which ones, and what verdicts on all of them add
to the votes on a few.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import TIE, Source
from arena_kit.battles.log import BattleLog, Labels
from arena_kit.rating.base import RatingError, Ratings, scores
from arena_kit.rating.bradley_terry.clusters import Influence

Floats = NDArray[np.float64]

_TINY = float(np.finfo(float).tiny)


def choose_battles(verdicts: BattleLog, n: int, *, unsure: float = 1.0, seed: int = 0) -> BattleLog:
    """Draw `n` judged battles for people to vote on; a battle is two models on one question.

    Pairs of models and verdicts come in proportion (systematic sampling). A battle on which
    verdicts differ or name no winner is `unsure` times as probable as others. `weight` is the
    inverse of a battle's probability, and `share_a` the mean verdict on it.
    """
    log = mean_verdicts(verdicts)
    if n > len(log):
        raise RatingError(f"{n:,} battles are to be chosen, but {len(log):,} were judged")
    probability = _probabilities(np.where(is_unsure(scores(log)), unsure, 1.0), n)
    rng = np.random.default_rng(seed)
    order = np.lexsort((rng.random(len(log)), scores(log), log.b, log.a))
    reached = np.cumsum(probability[order])
    reached[-1] = n
    taken = order[np.diff(np.floor(reached + rng.random()), prepend=0) > 0]
    return replace(log.select(taken), weight=1 / probability[taken])


def mean_verdicts(verdicts: BattleLog) -> BattleLog:
    """One row for each judged battle, with the mean verdict on it as `share_a`."""
    log = verdicts.sides_in_order()
    if log.question_id is None:
        raise RatingError("the verdicts have no question_id, so votes on them cannot be matched")
    keys = np.stack([log.question_id.codes, log.a, log.b])
    _, first, battle = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    return BattleLog(
        models=log.models,
        a=log.a[first],
        b=log.b[first],
        outcome=np.full(len(first), TIE, np.int8),
        source=Labels.of([Source.LLM_JUDGE] * len(first)),
        question_id=log.question_id.take(first),
        share_a=np.bincount(battle.ravel(), scores(log)) / np.bincount(battle.ravel()),
    )


def is_unsure(share: Floats) -> NDArray[np.bool_]:
    """Which mean verdicts are not unanimous for one model."""
    return (share > 0) & (share < 1)


def _probabilities(size: Floats, n: int) -> Floats:
    """Probabilities in proportion to a size, of which none exceeds 1 and the sum is n."""
    sure = np.zeros(len(size), bool)
    while True:
        rest = size[~sure].sum()
        probability = np.where(sure, 1.0, size * (n - sure.sum()) / rest if rest else 1.0)
        if not (probability > 1).any():
            return probability
        sure |= probability >= 1


def weighted(votes: BattleLog, chosen: BattleLog) -> BattleLog:
    """Votes on chosen battles, each weighted by the inverse of its battle's probability."""
    weight = _looked_up(votes, chosen, chosen.weights(), "that were not chosen")
    return replace(votes, weight=weight / weight.mean())


def _looked_up(votes: BattleLog, battles: BattleLog, values: Floats, lacking: str) -> Floats:
    """The value of each vote's battle; refuses votes on others."""
    known = dict(zip(battles.compared(), values.tolist(), strict=True))
    if others := [each for each in votes.compared() if each not in known]:
        question, *models = others[0]
        n, first = f"{len(others):,} of {len(votes):,}", f"{' and '.join(models)} on {question}"
        raise RatingError(f"{n} votes are on battles {lacking}, the first {first}")
    return np.array([known[each] for each in votes.compared()])


class Overlap(NamedTuple):
    """What votes and verdicts on the same battles have in common: the covariance of people's
    ratings (rows) with the judge's, how far verdicts move people's ratings, and what part of the
    covariance of these they take off.
    """

    shared: Floats
    shift: Floats
    explained: Floats

    def share(self, covariance: Floats) -> float:
        """The share of a variance that is taken off."""
        return float(np.trace(self.explained) / np.trace(covariance))


def overlap(people: Influence, judge: Influence, on_voted: Influence | None = None) -> Overlap:
    """What votes and verdicts have in common; `on_voted` are the verdicts on the voted battles,
    given where these were drawn from all.

    Where verdicts on the voted battles differ from those on all, votes would have: by λ times as
    much, with the λ from 0 to 1 that leaves the least variance (prediction-powered inference).
    """
    if on_voted is None:
        size = len(people.models)
        return Overlap(people.shared(judge), np.zeros(size), np.zeros((size, size)))
    place = {name: row for row, name in enumerate(judge.questions)}
    columns = [judge.models.index(model) for model in people.models]
    all_of_them = judge.pulls.toarray()[[*judge.questions.values()]]
    own, away = np.zeros((2, len(place), len(columns)))
    rows, voted = [place[each] for each in people.questions], [*people.questions.values()]
    own[rows], away[rows] = (each.pulls.toarray()[voted] for each in (people, on_voted))
    away -= people.weight / judge.weight * all_of_them[:, columns]
    moved, control = own @ people.bread, away @ people.bread
    slope = np.clip((moved * control).sum() / max((control**2).sum(), _TINY), 0, 1)
    rest = moved - slope * control
    return Overlap(
        rest.T @ all_of_them @ judge.bread,
        -slope * control.sum(axis=0),
        moved.T @ moved - rest.T @ rest,
    )


def on_voted(votes: BattleLog, verdicts: BattleLog, judge: Ratings) -> Influence:
    """The mean verdict on the battle of each vote, with the vote's weight."""
    judged = mean_verdicts(verdicts)
    share = _looked_up(votes, judged, scores(judged), "without a verdict")
    share = np.where(votes.a > votes.b, 1 - share, share)
    return Influence(replace(votes, share_a=share), judge)
