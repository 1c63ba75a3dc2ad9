"""Resampling whole questions: battles on one question are not independent evidence."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from arena_kit.rating.base import MIN_QUESTIONS, questions_seen
from arena_kit.rating.replay import Games

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
    grouped = np.argsort(clusters, kind="stable").astype(np.int32)
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
    games: Games,
    clusters: NDArray[np.int32],
    n: int,
    *,
    seed: int,
    min_questions: int = MIN_QUESTIONS,
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]]:
    """Chunks of `resampled_sets` with the models that each resample rates, a row per resample.

    A model is rated where it was drawn, and only if it was seen on enough questions to say
    how sure its rating is; without such a model there are no chunks.
    """
    if not n:
        return
    enough = questions_seen(games.a, games.b, clusters, games.n_models) >= min_questions
    if not enough.any():
        return
    for sets, sizes in resampled_sets(clusters, n, seed=seed):
        yield sets, sizes, _drawn(games, sets, sizes) & enough


def _drawn(games: Games, sets: NDArray[np.int32], sizes: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which models take part in each resample."""
    seen = np.zeros((len(sets), games.n_models), bool)
    rows = np.repeat(np.arange(len(sets)), sizes)
    drawn = sets[np.arange(sets.shape[1]) < sizes[:, None]]
    seen[rows, games.a[drawn]] = True
    seen[rows, games.b[drawn]] = True
    return seen


def _expand(
    draws: NDArray[np.int64],
    lengths: NDArray[np.intp],
    starts: NDArray[np.intp],
    grouped: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The battle numbers behind drawn clusters, padded to the longest sample."""
    taken = lengths[draws]
    sizes = taken.sum(axis=1).astype(np.int32)
    ends = np.cumsum(taken.ravel())
    within = np.arange(ends[-1]) - np.repeat(ends - taken.ravel(), taken.ravel())
    battles = grouped[np.repeat(starts[draws].ravel(), taken.ravel()) + within]
    sets = np.zeros((len(draws), sizes.max()), np.int32)
    sets[np.arange(sizes.max()) < sizes[:, None]] = battles
    return sets, sizes


#: How often each piece of evidence stands in a resample, given the resample's number.
Redraw = Callable[[int], NDArray[np.float64]]


def redrawn_clusters(clusters: NDArray[np.int32], *, seed: int) -> Redraw:
    """Whole clusters drawn with replacement, as `resampled_sets` draws them."""
    n = int(clusters.max()) + 1

    def times(number: int) -> NDArray[np.float64]:
        drawn = np.bincount(drawn_clusters(child_generator(seed, number), n), minlength=n)
        return drawn.astype(float)[clusters]

    return times


def redrawn_counts(counts: NDArray[np.float64], *, seed: int) -> Redraw:
    """Votes that stand for themselves, `counts[i]` of them alike: each kind is drawn a Poisson
    number of times, which costs no more for a million of them than for one.
    """
    return lambda number: child_generator(seed, number).poisson(counts).astype(float)


def either(rows: NDArray[np.bool_], these: Redraw, others: Redraw) -> Redraw:
    """Some rows drawn in one way, the rest in another."""
    return lambda number: np.where(rows, these(number), others(number))


def child_generator(seed: int, number: int) -> np.random.Generator:
    """The generator of one resample: the seed's child of that number."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number,)))


def drawn_clusters(rng: np.random.Generator, n: int) -> NDArray[np.int64]:
    """As many of `n` clusters as there are, with replacement."""
    return rng.integers(0, n, n)


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
    replicates: NDArray[np.float64], level: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Standard deviation and percentile interval of each column, ignoring NaN.

    NaN for a column without two different values: resampling unanimous evidence shows no
    spread, which says nothing about how sure it is.
    """
    tail = 100 * (1 - level) / 2
    se, low, high = np.full((3, replicates.shape[1]), np.nan)
    if not len(replicates):
        return se, low, high
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a model without resamples stays NaN
        known = np.nan_to_num(np.nanmax(replicates, axis=0) - np.nanmin(replicates, axis=0)) > 1e-6
    if known.any():
        found = replicates[:, known]
        low[known], high[known] = np.nanpercentile(found, [tail, 100 - tail], axis=0)
        se[known] = np.nanstd(found, axis=0, ddof=1)
    return se, low, high
