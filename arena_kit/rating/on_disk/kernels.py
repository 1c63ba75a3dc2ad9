"""Numba kernels for battles that stay on disk; imported only where the work pays for it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from arena_kit.rating.kernels import Kernel
from arena_kit.rating.splitmix import GAMMA, mix

_S16, _S32, _S48 = np.uint64(16), np.uint64(32), np.uint64(48)
_LAST = np.uint64(0xFFFF)


def _add_drawn(
    sums: NDArray[np.float64],
    rows: NDArray[np.int32],
    clusters: NDArray[np.uint64],
    weight: NDArray[np.float64],
    seeds: NDArray[np.uint64],
    table: NDArray[np.uint8],
    first: int,
    last: int,
) -> None:
    """Add each row, as often as its cluster is drawn, to the sums of the resamples whose seeds
    these are; see `poisson_weights`.
    """
    for i in range(len(rows)):
        counter, w, row = clusters[i] * GAMMA, weight[i], rows[i]
        for s in range(first, last):
            bits = mix(seeds[s] + counter)
            lane = 4 * s
            sums[row, lane] += w * table[bits & _LAST]
            sums[row, lane + 1] += w * table[(bits >> _S16) & _LAST]
            sums[row, lane + 2] += w * table[(bits >> _S32) & _LAST]
            sums[row, lane + 3] += w * table[bits >> _S48]


add_drawn = Kernel(_add_drawn)
