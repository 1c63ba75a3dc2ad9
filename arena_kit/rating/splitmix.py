"""SplitMix64 as a counter-based generator: bits are a function of seed and counter, with no state.

NumPy runs these functions on arrays, and `kernels` compiles `mix` with Numba, so both draw the
same numbers.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31 = (np.uint64(n) for n in (27, 30, 31))

Bits = TypeVar("Bits", np.uint64, NDArray[np.uint64])


def mix(z: Bits) -> Bits:
    """SplitMix64's finalizer."""
    z = (z ^ (z >> _S30)) * _MIX1
    z = (z ^ (z >> _S27)) * _MIX2
    return z ^ (z >> _S31)


def draw(seeds: NDArray[np.uint64] | np.uint64, counters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """64 random bits for each seed and counter, broadcast against each other."""
    return mix(seeds + counters * GAMMA)
