"""The win difference (net win rate): the share of battles won less the share lost, per model.
Clinicians publish it beside ratings.

Its interval is Wilson's, for as many independent battles as the cluster jackknife says the battles
are worth, so that a perfect record is not certain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import MIN_QUESTIONS, NORMAL_95, scores
from arena_kit.rating.critical_values import t_score

Floats = NDArray[np.float64]
_ALIKE = 1e-12  # a variance that is rounding


class WinDifference(NamedTuple):
    """The win difference of a model, from -1 to 1, with its 95 % interval; None without one."""

    value: float
    low: float | None
    high: float | None


def win_differences(log: BattleLog) -> dict[str, WinDifference]:
    """The win difference of every model, clustered by question and voter where battles name them;
    without an interval for models seen on fewer than ten of either.
    """
    net, weight = 2 * scores(log) - 1, log.weights()
    won, games = log.per_model(0 * weight), log.per_model()
    np.add.at(won, log.a, weight * net)
    np.add.at(won, log.b, -weight * net)
    value = won / games
    named = [by for by in ("question_id", "voter") if getattr(log, by) is not None]
    ways = [_jackknife(log, log.clusters(by), net, value) for by in named]  # type: ignore[arg-type]
    each = _jackknife(log, np.arange(len(log), dtype=np.int32), net, value)
    spread, df = max(ways, key=lambda way: float(np.nansum(way[0]))) if ways else each
    if len(ways) == 2:
        spread = np.maximum(spread, ways[0][0] + ways[1][0] - each[0])
        df = np.minimum(ways[0][1], ways[1][1])
    known = df + 1 >= MIN_QUESTIONS
    low, high = np.where(known, _wilson(value, spread, df), np.nan).tolist()
    rows = zip(log.models, value.tolist(), low, high, known.tolist(), strict=True)
    return {
        model: WinDifference(v, *((start, end) if k else (None, None)))
        for model, v, start, end, k in rows
    }


def _wilson(value: Floats, spread: Floats, df: Floats) -> Floats:
    """Both ends of Wilson's interval with Student's t; battles that all ended alike are worth as
    many as there are clusters.
    """
    share, t = (1 + value) / 2, t_score(NORMAL_95, np.maximum(df, 1))
    alike = spread <= _ALIKE
    worth = np.where(alike, df + 1, 4 * share * (1 - share) / np.where(alike, 1.0, spread))
    worth = np.maximum(worth, 1.0)
    middle = (share + t**2 / (2 * worth)) / (1 + t**2 / worth)
    half = t / (1 + t**2 / worth) * np.sqrt(share * (1 - share) / worth + (t / (2 * worth)) ** 2)
    return np.stack([2 * (middle - half) - 1, 2 * (middle + half) - 1])


def _jackknife(
    log: BattleLog, clusters: NDArray[np.int32], net: Floats, value: Floats
) -> tuple[Floats, Floats]:
    """Variance and degrees of freedom of every model's difference, leaving out clusters in turn."""
    n, sides, weight = len(log.models), np.append(log.a, log.b), np.tile(log.weights(), 2)
    key = np.tile(clusters, 2).astype(np.int64) * n + sides
    cells, of_side = np.unique(key, return_inverse=True)  # of a cluster and a model
    off = weight * (np.append(net, -net) - value[sides])
    games, total = (np.bincount(of_side, each).astype(float) for each in (weight, off))
    left = log.per_model()[cells % n] - games
    moved = np.divide(total, left, where=left > 0, out=np.zeros_like(left)) ** 2
    variance, groups = (
        np.bincount(cells % n, each, n).astype(float) for each in (moved, games > 0)
    )
    return variance * (groups - 1) / np.maximum(groups, 1), groups - 1
