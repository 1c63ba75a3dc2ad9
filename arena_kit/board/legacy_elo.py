"""The rating that the validity policy replaces, kept beside it during the transition (2, 12)."""

from __future__ import annotations

import numpy as np

from arena_kit.battle_log import BattleLog
from arena_kit.battles import BOTH_BAD
from arena_kit.matchmaking.policy import LegacyElo
from arena_kit.rating.base import scores
from arena_kit.rating.glicko2 import replay_order


def legacy_elo(battles: BattleLog, rule: LegacyElo) -> dict[str, float]:
    """Elo of every model of a log, replayed once by time and battle id.

    A tie is half a win. A both-bad vote is a loss of each model to a baseline that stays at
    the initial rating, which is one of the reasons to replace this rating. A judgment whose
    two orders disagree moves nothing.
    """
    rating = [rule.initial] * len(battles.models)
    rows = replay_order(battles, ~battles.flags())
    bad = (battles.outcome[rows] == BOTH_BAD).tolist()
    columns = battles.a[rows].tolist(), battles.b[rows].tolist(), scores(battles)[rows].tolist()
    for a, b, score, both_bad in zip(*columns, bad, strict=True):
        if both_bad:
            for side in (a, b):
                rating[side] -= rule.k * expected(rating[side] - rule.initial)
        else:
            step = rule.k * (score - expected(rating[a] - rating[b]))
            rating[a] += step
            rating[b] -= step
    return dict(zip(battles.models, rating, strict=True))


def expected(gap: float) -> float:
    """The share of a win that a rating gap promises."""
    return float(1 / (1 + np.power(10.0, -gap / 400)))
