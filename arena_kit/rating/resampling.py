"""The cluster bootstrap: whole questions are resampled, for battles on one are not independent."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from arena_kit.rating.base import MIN_QUESTIONS, questions_seen, together
from arena_kit.rating.elo.replay import Games
from arena_kit.rating.splitmix import draw

_AHEAD = 8  # resamples whose clusters are drawn before they are counted
_SUMS = 2048  # rows counted at once: what a processor's nearest cache holds
#: Indices held at once; larger logs are resampled in several chunks.
_CHUNK = 20_000_000


def resampled_sets(
    clusters: NDArray[np.int32], n: int, *, seed: int
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
    """Bootstrap samples of battles, drawn as whole clusters with replacement.

    Yields chunks of (indices, sizes): row i of `indices` holds `sizes[i]` battle numbers,
    the rest of the row is padding. Each sample has its own child of `seed`, so chunking
    and threads change nothing.
    """
    lengths = np.bincount(clusters)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    grouped = together(clusters).astype(np.int32)
    rows = max(1, _CHUNK // max(1, len(clusters)))
    for first in range(0, n, rows):
        draws = np.stack(
            [
                drawn_clusters(child_generator(seed, number), len(lengths))
                for number in range(first, min(n, first + rows))
            ]
        )
        yield _expand(draws, lengths, starts, grouped)


def evidence_sets(
    games: Games, clusters: NDArray[np.int32], n: int, *, seed: int
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]]:
    """Chunks of `resampled_sets` with the models that each resample rates, a row per resample.

    A model is rated where it was drawn, and only if it was seen on enough questions to say
    how sure its rating is; without such a model there are no chunks.
    """
    if not n:
        return
    enough = questions_seen(games.a, games.b, clusters, games.n_models) >= MIN_QUESTIONS
    if not enough.any():
        return
    for sets, sizes in resampled_sets(clusters, n, seed=seed):
        yield sets, sizes, _drawn(games, sets, sizes) & enough


def _drawn(games: Games, sets: NDArray[np.int32], sizes: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which models take part in each resample."""
    seen = np.zeros((len(sets), games.n_models), bool)
    for row, battles, size in zip(seen, sets, sizes, strict=True):
        row[games.a[battles[:size]]] = True
        row[games.b[battles[:size]]] = True
    return seen


def _expand(
    draws: NDArray[np.uint32],
    lengths: NDArray[np.intp],
    starts: NDArray[np.intp],
    grouped: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The battle numbers behind drawn clusters, padded to the longest sample."""
    sizes = np.array([lengths[row].sum() for row in draws], np.int32)
    sets = np.zeros((len(draws), sizes.max()), np.int32)
    for row, battles, size in zip(draws, sets, sizes, strict=True):
        taken = lengths[row]
        shift = starts[row] - (np.cumsum(taken) - taken)
        battles[:size] = grouped[np.arange(size) + np.repeat(shift, taken)]
    return sets, sizes


class Redraw:
    """How often each row stands in a resample, given the resample's number."""

    __slots__ = ()

    def __call__(self, number: int, *, compiled: bool = False) -> NDArray[np.float64]:
        raise NotImplementedError

    def each(
        self, numbers: Sequence[int], *, compiled: bool = False
    ) -> Iterator[NDArray[np.float64]]:
        """The same for several resamples."""
        return (self(number, compiled=compiled) for number in numbers)


@dataclass(frozen=True, slots=True)
class ClusterRedraw(Redraw):
    """The cluster bootstrap: whole clusters drawn with replacement, as `resampled_sets` draws
    them; of a row that counts `several` votes and has no question, each vote by itself. Rows that
    are alike share a cell, and are counted there: the `order` brings them together, and those of
    cell c end before `ends[c]`.
    """

    clusters: NDArray[np.uint32]
    ends: NDArray[np.uint32]
    seed: int
    n_clusters: int
    order: NDArray[np.intp]
    several: NDArray[np.bool_] | None = None
    by_vote: PoissonRedraw | None = None

    @classmethod
    def of(
        cls,
        clusters: NDArray[np.int32],
        seed: int,
        counts: NDArray[np.float64],
        cells: NDArray[np.int32] | None = None,
    ) -> ClusterRedraw:
        cells = np.arange(len(clusters), dtype=np.int32) if cells is None else cells
        order, ends = together(cells), np.cumsum(np.bincount(cells)).astype(np.uint32)
        rows, n = clusters[order].astype(np.uint32), int(clusters.max()) + 1
        several = counts[order] != 1
        if not several.any():
            return cls(rows, ends, seed, n, order)
        return cls(rows, ends, seed, n, order, several, PoissonRedraw.of(counts, seed))

    def __call__(self, number: int, *, compiled: bool = False) -> NDArray[np.float64]:
        """The multiplicity of each cell."""
        if compiled and self.by_vote is None:
            return np.asarray(self._tallied([self._drawn(number)])[0])
        drawn = np.bincount(self._drawn(number), minlength=self.n_clusters)
        times = drawn.astype(float)[self.clusters]
        if self.by_vote is not None and self.several is not None:
            by_vote = self.by_vote(number, compiled=compiled)[self.order]
            times = np.where(self.several, by_vote, times)
        return np.add.reduceat(times, np.append(0, self.ends[:-1]))

    def each(
        self, numbers: Sequence[int], *, compiled: bool = False
    ) -> Iterator[NDArray[np.float64]]:
        """The same for several resamples; compiled, some are drawn and then two counted at once, as
        each of these finds in the processor's cache what it needs.
        """
        if not compiled or self.by_vote is not None:
            yield from Redraw.each(self, numbers, compiled=compiled)
            return
        for first in range(0, len(numbers), _AHEAD):
            drawn = [self._drawn(number) for number in numbers[first : first + _AHEAD]]
            for two in range(0, len(drawn), 2):
                yield from self._tallied(drawn[two : two + 2])

    def _drawn(self, number: int) -> NDArray[np.uint32]:
        return drawn_clusters(child_generator(self.seed, number), self.n_clusters)

    def _tallied(self, drawn: list[NDArray[np.uint32]]) -> NDArray[np.float64]:
        """The multiplicities of one resample or two, a row each, by the clusters drawn for them."""
        from arena_kit.rating import kernels

        times, sums = np.zeros(self.n_clusters, np.uint64), np.empty(_SUMS, np.uint64)
        out = np.empty((2, len(self.ends)))
        kernels.tally(drawn[0], drawn[-1], self.clusters, self.ends, times, sums, *out)
        return out[: len(drawn)]


@dataclass(frozen=True, slots=True)
class PoissonRedraw(Redraw):
    """The Poisson bootstrap of single votes: of `counts[i]` alike, a Poisson number is drawn,
    which costs no more for a million of them than for one.

    Row i looks its number up in the distribution's table, which begins at `first[i]`, has
    `size[i]` steps and starts from `least[i]`; the same table serves all equal counts. A table
    of the same shape, `guide` (a guide table), says how many steps are surely passed.
    """

    seed: int
    first: NDArray[np.int64]
    size: NDArray[np.int64]
    least: NDArray[np.float64]
    steps: NDArray[np.float64]
    guide: NDArray[np.int64]

    @classmethod
    def of(cls, counts: NDArray[np.float64], seed: int) -> PoissonRedraw:
        means, row = np.unique(counts, return_inverse=True)
        tables = [_poisson_table(float(mean)) for mean in means]
        sizes = np.array([len(steps) for _, steps in tables])
        ends = np.cumsum(sizes)
        return cls(
            seed,
            (ends - sizes)[row],
            sizes[row],
            np.array([least for least, _ in tables])[row],
            np.concatenate([steps for _, steps in tables]),
            np.concatenate([_guide(steps) for _, steps in tables]),
        )

    def __call__(self, number: int, *, compiled: bool = False) -> NDArray[np.float64]:
        """The multiplicity of each row."""
        key = SeedSequence(self.seed, spawn_key=(number,)).generate_state(1, np.uint64)[0]
        if compiled:
            from arena_kit.rating import kernels

            out = np.empty(len(self.first))
            kernels.lookup(key, self.first, self.size, self.least, self.steps, self.guide, out)
            return out
        return self.least + self._passed(uniforms(key, len(self.first)))

    def _passed(self, u: NDArray[np.float64]) -> NDArray[np.int64]:
        """How many steps of its table each number has passed (binary search)."""
        low, high = np.zeros_like(self.size), self.size.copy()
        while np.any(low < high):
            middle = (low + high) // 2
            open_ = low < high
            beyond = open_ & (self.steps[np.minimum(self.first + middle, len(self.steps) - 1)] <= u)
            low = np.where(beyond, middle + 1, low)
            high = np.where(open_ & ~beyond, middle, high)
        return low


def _poisson_table(mean: float) -> tuple[float, NDArray[np.float64]]:
    """The least number that matters, and the probability to stay at or below each from there."""
    reach = 9 * np.sqrt(mean) + 20
    k = np.arange(max(0, int(mean - reach)), int(mean + reach) + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(mean) - np.log(k[1:]))])
    chance = np.exp(logs - logs.max())
    steps = np.cumsum(chance / chance.sum())
    steps[-1] = 1.0
    return float(k[0]), steps


def _guide(steps: NDArray[np.float64]) -> NDArray[np.int64]:
    """How many steps every number from i/n on has passed, of n."""
    return np.searchsorted(steps, np.arange(len(steps)) / len(steps), side="right")


def uniforms(key: np.uint64, n: int) -> NDArray[np.float64]:
    """Uniform numbers from 0 to 1, the same on every machine."""
    bits = draw(key, np.arange(1, n + 1, dtype=np.uint64))
    return (bits >> np.uint64(11)).astype(float) * 2.0**-53


def child_generator(seed: int, number: int) -> np.random.Generator:
    """The generator of one resample: the seed's child of that number."""
    return np.random.default_rng(SeedSequence(seed, spawn_key=(number,)))


def drawn_clusters(rng: np.random.Generator, n: int) -> NDArray[np.uint32]:
    """As many of `n` clusters as there are, with replacement."""
    return rng.integers(0, n, n, np.uint32)


def denoised(replicates: NDArray[np.float64], noise: NDArray[np.float64]) -> NDArray[np.float64]:
    """Replicates, shaped (…, resamples, models), without the variance `noise` that has nothing
    to do with what was resampled: each is drawn towards the mean of all.

    A variance from n resamples is known to about its share 2·sqrt(2/n) (two standard
    errors). What is left is never less than that share: the interval may stay too wide, but
    does not claim to know more than the resamples can tell.
    """
    n = replicates.shape[-2]
    if n < 2:
        return replicates
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a model without resamples stays NaN
        spread = np.nanvar(replicates, axis=-2, ddof=1)
        centre = np.nanmean(replicates, axis=-2, keepdims=True)
    share = np.divide(noise, spread, out=np.zeros_like(spread), where=spread > 0)
    kept = np.sqrt(np.clip(1 - share, min(1.0, 2 * np.sqrt(2 / n)), 1))[..., None, :]
    return np.asarray(centre + kept * (replicates - centre))


def interval(
    replicates: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Standard deviation and 95 % percentile interval of each column, ignoring NaN.

    NaN for a column without two different values: resampling unanimous evidence shows no
    spread, which says nothing about how sure it is.
    """
    se, low, high = np.full((3, replicates.shape[1]), np.nan)
    if not len(replicates):
        return se, low, high
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a model without resamples stays NaN
        known = np.nan_to_num(np.nanmax(replicates, axis=0) - np.nanmin(replicates, axis=0)) > 1e-6
    if known.any():
        values = replicates[:, known]
        whole = not np.isnan(values).any()  # the functions that look for NaN are much slower
        percentile, spread = (np.percentile, np.std) if whole else (np.nanpercentile, np.nanstd)
        low[known], high[known] = percentile(values, [2.5, 97.5], axis=0)
        se[known] = spread(values, axis=0, ddof=1)
    return se, low, high
