"""The rating that the validity policy replaces, kept beside it during the transition (2, 12)."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan

import numpy as np

from arena_kit.battle_log import BattleLog
from arena_kit.battles import BOTH_BAD
from arena_kit.matchmaking.policy import LegacyElo
from arena_kit.rating.base import expected_share, scores
from arena_kit.rating.glicko2 import replay_order


def legacy_elo(battles: BattleLog, rule: LegacyElo) -> dict[str, float]:
    """Elo of every model of a log, replayed once by time and battle id."""
    rating = dict.fromkeys(battles.models, rule.initial)
    for a, b, score in votes_in_order(battles):
        update_elo(rating, a, b, score, rule)
    return rating


def update_elo(
    rating: dict[str, float], a: str, b: str, score: float | None, rule: LegacyElo
) -> None:
    """Take in one vote, of which the first model got `score`: 1, 0, or half for a tie.

    None is a both-bad vote: a loss of each model to a baseline that stays at the initial
    rating, which is one of the reasons to replace this rating. NaN moves nothing.
    """
    if score is None:
        for model in (a, b):
            rating[model] -= rule.k * expected_share(rating[model] - rule.initial)
        return
    if isnan(score):
        return
    step = rule.k * (score - expected_share(rating[a] - rating[b]))
    rating[a] += step
    rating[b] -= step


def votes_in_order(battles: BattleLog) -> Iterator[tuple[str, str, float | None]]:
    """Both models of every vote and what the first of them got, by time and battle id.

    None is both-bad, and NaN a judgment whose two orders disagree: it moves nothing.
    """
    rows, names = replay_order(battles), battles.models
    bad = (battles.outcome[rows] == BOTH_BAD).tolist()
    got = np.where(battles.flags(), np.nan, scores(battles))[rows].tolist()
    columns = battles.a[rows].tolist(), battles.b[rows].tolist(), got
    for a, b, score, both_bad in zip(*columns, bad, strict=True):
        yield names[a], names[b], None if both_bad else score
