"""Does a ranking depend on K? Neighbours of the ranking, followed through a sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import Ratings
from arena_kit.rating.claims import claims
from arena_kit.rating.elo.method import PermutationElo, k_sweep


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
    sweep: Mapping[float, Ratings], method: PermutationElo, battles: BattleLog
) -> list[Stability]:
    """Every pair of neighbours in the ranking at the method's own K.

    `smallest_ordered_k` is the smallest K down to which `above` still leads at every K
    tried, on a grid finer than the sweep and reaching below it; None where it does not
    lead even at the method's own.
    """
    grid = np.geomspace(min(sweep) / 8, method.k, 13)[:-1]
    quick = replace(method, evidence_replicates=0)
    fine = k_sweep(quick, battles, grid.tolist()) | dict(sweep)
    gaps = [(ratings.models.index, claims.gaps(ratings)) for ratings in sweep.values()]
    followed = []
    for above, below in pairwise(sweep[method.k].order):
        at_each_k = [[float(each[at(above), at(below)]) for each in four] for at, four in gaps]
        gap, low, high, share = zip(*at_each_k, strict=True)
        leads = {k: fine[k][above].rating > fine[k][below].rating for k in fine}
        followed.append(
            Stability(
                above=above,
                below=below,
                ks=tuple(sweep),
                gap=gap,
                low=low,
                high=high,
                share_above=share,
                lowest_k_tried=min(fine),
                smallest_ordered_k=_down_to(leads, method.k),
            )
        )
    return followed


def _down_to(holds: Mapping[float, bool], start: float) -> float | None:
    """The smallest K reached from `start` downwards without the property failing."""
    reached = None
    for k in sorted((k for k in holds if k <= start), reverse=True):
        if not holds[k]:
            break
        reached = k
    return reached
