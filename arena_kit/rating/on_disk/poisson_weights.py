"""The Poisson bootstrap of clusters that are never together: weights by hash.

How often a cluster stands in a resample is a function of its hash and the resample's number alone
(SplitMix64 as a counter-based generator), so that rows may come in any order, in chunks of any size
and on any machine (Chamandy, Muralidharan, Najmi and Naidu 2012). One draw of 64 bits serves four
resamples: 16 bits each give Poisson numbers with mean 1 and variance 0.99997.
"""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import exp, factorial
from os import cpu_count
from typing import Self

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from arena_kit.battles.cells import Hashes
from arena_kit.rating.bradley_terry.tie_models import Floats
from arena_kit.rating.splitmix import draw

#: Draws from which compiled code pays for its start.
COMPILED_FROM = 20_000_000
_BITS = 16
_LANES = 4  # resamples that share 64 bits
_BLOCK = 4096  # rows at once without compiled code


def poisson_table() -> NDArray[np.uint8]:
    """The Poisson number of every 16 bits."""
    chance = [exp(-1) / factorial(k) for k in range(9)]
    ends = np.round(np.cumsum(chance) * 2**_BITS)
    return np.searchsorted(ends, np.arange(2**_BITS), side="right").astype(np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class PoissonWeights:
    """How often clusters stand in resamples, by their hashes."""

    seeds: Hashes
    n: int
    table: NDArray[np.uint8]

    @classmethod
    def of(cls, seed: int, n: int) -> Self:
        """Weights of `n` resamples."""
        groups = range(-(-n // _LANES))
        state = [SeedSequence(seed, spawn_key=(g,)).generate_state(1, np.uint64)[0] for g in groups]
        return cls(np.array(state, np.uint64), n, poisson_table())

    def times(self, clusters: Hashes, number: int) -> NDArray[np.uint8]:
        """How often each cluster stands in one resample."""
        bits = draw(self.seeds[number // _LANES], clusters)
        shift = np.uint64(_BITS * (number % _LANES))
        return self.table[((bits >> shift) & np.uint64(2**_BITS - 1)).astype(np.uint16)]

    def add(
        self,
        sums: Floats,
        rows: NDArray[np.int32],
        clusters: Hashes,
        weight: Floats,
        *,
        compiled: bool | None = None,
    ) -> None:
        """Add weighted rows to the sums of every resample, shaped (rows of the sums, resamples),
        where the resamples are as many as there are lanes (`lanes`).
        """
        if compiled is None:
            enough = len(rows) * self.n >= COMPILED_FROM
            compiled = enough and importlib.util.find_spec("numba") is not None
        (self._add_compiled if compiled else self._add)(sums, rows, clusters, weight)

    @property
    def lanes(self) -> int:
        """Resamples, those included that only fill the last 64 bits."""
        return _LANES * len(self.seeds)

    def _add_compiled(
        self, sums: Floats, rows: NDArray[np.int32], clusters: Hashes, weight: Floats
    ) -> None:
        from arena_kit.rating.on_disk.kernels import add_drawn

        threads = min(cpu_count() or 1, len(self.seeds))
        edges = np.linspace(0, len(self.seeds), threads + 1).astype(int)

        def share(part: int) -> None:
            some = (int(edges[part]), int(edges[part + 1]))
            add_drawn(sums, rows, clusters, weight, self.seeds, self.table, *some)

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(share, range(threads)))

    def _add(self, sums: Floats, rows: NDArray[np.int32], clusters: Hashes, weight: Floats) -> None:
        order = np.argsort(rows, kind="stable")
        for start in range(0, len(rows), _BLOCK):
            some = order[start : start + _BLOCK]
            bits = draw(self.seeds[None, :], clusters[some][:, None])
            drawn = self.table[bits.astype("<u8").view("<u2")] * weight[some][:, None]
            firsts = np.flatnonzero(np.diff(rows[some], prepend=-1))
            sums[rows[some[firsts]]] += np.add.reduceat(drawn, firsts, axis=0)
