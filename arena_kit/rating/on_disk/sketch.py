"""How many different hashes were seen, counted in bounded memory: a bottom-k sketch.

Of every item the k smallest hashes are kept (Bar-Yossef et al. 2002): fewer than k are counted one
by one, and how small the k-th is tells how many more there are. What is kept depends neither on the
order of what comes nor on who saw which part.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.cells import Hashes
from arena_kit.rating.bradley_terry.tie_models import Floats
from arena_kit.rating.splitmix import mix

#: Hashes kept of an item; beyond, their number is known to about 3 %.
KEPT = 1024
_ALL = np.uint64(2**64 - 1)


class Sketch:
    """The different hashes of some items."""

    def __init__(self, n_items: int) -> None:
        self._items = np.empty(0, np.int64)
        self._hashes = np.empty(0, np.uint64)
        self._bar = np.full(n_items, _ALL)

    def add(self, items: NDArray[np.intp], hashes: Hashes) -> None:
        """A hash each for some items."""
        self._keep(items.astype(np.int64), mix(hashes))

    def join(self, other: Sketch) -> None:
        """What another sketch of these items saw."""
        self._keep(other._items, other._hashes)

    def counts(self) -> Floats:
        """How many different hashes each item had."""
        kept = np.bincount(self._items, minlength=len(self._bar)).astype(float)
        share = (self._bar.astype(float) + 1) / 2.0**64
        return np.where(kept < KEPT, kept, np.round((KEPT - 1) / share))

    def _keep(self, items: NDArray[np.int64], hashes: Hashes) -> None:
        low = hashes < self._bar[items]
        items = np.concatenate([self._items, items[low]])
        hashes = np.concatenate([self._hashes, hashes[low]])
        order = np.lexsort((hashes, items))
        items, hashes = items[order], hashes[order]
        new = np.ones(len(items), bool)
        new[1:] = (items[1:] != items[:-1]) | (hashes[1:] != hashes[:-1])
        items, hashes = items[new], hashes[new]
        starts = np.searchsorted(items, np.arange(len(self._bar)))
        rank = np.arange(len(items)) - starts[items]
        last = rank == KEPT - 1
        self._bar[items[last]] = hashes[last]
        self._items, self._hashes = items[rank < KEPT], hashes[rank < KEPT]
