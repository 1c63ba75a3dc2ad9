"""Does a ranking depend on K? Neighbours of the ranking, followed through a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from arena_kit.battles.log import BattleLog
from arena_kit.rating import claims
from arena_kit.rating.base import Ratings
from arena_kit.rating.elo import PermutationElo, k_sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """Two neighbours of the default-K ranking at every K of a sweep.

    `gap` is how far `above` leads `below`, `low` and `high` its 95 % evidence interval,
    `share_above` the share of resamples in which it leads. The gap's interval is not the
    difference of the two entrants' intervals: both ratings come from the same resamples.
    """

    above: str
    below: str
    ks: tuple[float, ...]
    gap: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    share_above: tuple[float, ...]
    lowest_k_tried: float
    smallest_ordered_k: float | None

    @property
    def ordered_everywhere(self) -> bool:
        return all(gap > 0 for gap in self.gap)


def neighbour_stability(
    sweep: Mapping[float, Ratings], default_k: float, *, method: PermutationElo, battles: BattleLog
) -> list[Stability]:
    """Every pair of neighbours in the default-K ranking.

    `smallest_ordered_k` is the smallest K down to which `above` still leads at every K
    tried, on a grid finer than the sweep and reaching below it; None where it does not
    lead even at the default.
    """
    order = sweep[default_k].order
    fine = _fine_means(sweep, default_k, method, battles)
    return [_follow(sweep, default_k, above, below, fine) for above, below in pairwise(order)]


def _fine_means(
    sweep: Mapping[float, Ratings], default_k: float, method: PermutationElo, battles: BattleLog
) -> dict[float, Ratings]:
    lowest = min(sweep) / 8
    grid = np.geomspace(lowest, default_k, 13)[:-1]
    quick = replace(method, evidence_replicates=0)
    return k_sweep(quick, battles, grid.tolist()) | dict(sweep)


def _follow(
    sweep: Mapping[float, Ratings],
    default_k: float,
    above: str,
    below: str,
    fine: Mapping[float, Ratings],
) -> Stability:
    found = []
    for ratings in sweep.values():
        at = ratings.models.index(above), ratings.models.index(below)
        found.append([float(each[at]) for each in claims.gaps(ratings)])
    gaps, lows, highs, shares = zip(*found, strict=True)
    leads = {k: fine[k][above].rating > fine[k][below].rating for k in sorted(fine)}
    return Stability(
        above=above,
        below=below,
        ks=tuple(sweep),
        gap=gaps,
        low=lows,
        high=highs,
        share_above=shares,
        lowest_k_tried=min(fine),
        smallest_ordered_k=_down_to(leads, default_k),
    )


def _down_to(holds: Mapping[float, bool], start: float) -> float | None:
    """The smallest K reached from `start` downwards without the property failing."""
    reached = None
    for k in sorted((k for k in holds if k <= start), reverse=True):
        if not holds[k]:
            break
        reached = k
    return reached
