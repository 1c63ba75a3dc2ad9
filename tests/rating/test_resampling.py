"""Resampling: whole clusters, and votes that stand for themselves."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import SeedSequence
from numpy.typing import NDArray

from arena_kit.rating import resampling
from arena_kit.rating.elo.k_stability import _down_to
from arena_kit.rating.resampling import (
    ClusterRedraw,
    PoissonRedraw,
    denoised,
    interval,
    resampled_sets,
    uniforms,
)
from tests import naive

CLUSTERS = np.array([0, 1, 0, 2, 2, 2, 1], np.int32)
COUNTS = np.array([0.5, 1.0, 7.0, 13_149.0])


def drawn(n: int = 200) -> list[list[int]]:
    return [
        row[:size].tolist()
        for sets, sizes in resampled_sets(CLUSTERS, n, seed=5)
        for row, size in zip(sets, sizes, strict=True)
    ]


def test_clusters_come_whole() -> None:
    """A resample holds each cluster's battles equally often, and as many clusters as exist."""
    for sample in drawn():
        counts = np.bincount(sample, minlength=len(CLUSTERS))
        per_cluster = [set(counts[c == CLUSTERS].tolist()) for c in range(3)]
        assert all(len(found) == 1 for found in per_cluster)
        assert sum(found.pop() for found in per_cluster) == 3


def test_chunks_change_nothing() -> None:
    """Resampling in small chunks gives the same samples."""
    whole = drawn()
    before = resampling._CHUNK
    try:
        resampling._CHUNK = 3 * len(CLUSTERS)
        assert drawn() == whole
    finally:
        resampling._CHUNK = before


def test_every_cluster_is_drawn_equally_often() -> None:
    """Over many samples each of three clusters is drawn about once a sample."""
    counts = np.bincount(np.concatenate(drawn(3000)), minlength=len(CLUSTERS)) / 3000
    assert np.all(np.abs(counts - 1) < 0.05)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=20), st.integers(0, 2**32))
def test_clusters_are_redrawn_as_sets_are(labels: list[int], seed: int) -> None:
    """How often a row stands in resample number r is how often set number r holds it: every method
    draws the same questions for the same seed.
    """
    clusters = np.unique(labels, return_inverse=True)[1].astype(np.int32)
    times = ClusterRedraw.of(clusters, seed, np.ones(len(clusters)))
    for sets, sizes in resampled_sets(clusters, 8, seed=seed):
        for number, (row, size) in enumerate(zip(sets, sizes, strict=True)):
            expected = np.bincount(row[:size], minlength=len(clusters))
            np.testing.assert_array_equal(times(number), expected)
            np.testing.assert_array_equal(times(number, compiled=True), expected)


@pytest.mark.parametrize("compiled", [False, True])
def test_counts_beside_clusters_are_redrawn_by_themselves(compiled: bool) -> None:
    """Rows that count several votes, and belong to no question, are drawn as counts are; the rows
    beside them as their questions are.
    """
    if compiled:
        pytest.importorskip("numba")
    clusters = np.array([0, 1, 0, 2, 3, 1, 4], np.int32)
    counts = np.array([1, 1, 1, 40, 1, 1, 2.5])
    mixed = ClusterRedraw.of(clusters, 6, counts)
    alone, several = ClusterRedraw.of(clusters, 6, np.ones(7)), PoissonRedraw.of(counts, 6)
    for number in range(40):
        expected = [
            several(number)[i] if count != 1 else alone(number)[i] for i, count in enumerate(counts)
        ]
        np.testing.assert_array_equal(mixed(number, compiled=compiled), expected)


# Votes that stand for themselves


def redrawn(counts: NDArray[np.float64], n: int, seed: int = 0) -> NDArray[np.float64]:
    """A row per resample."""
    redraw = PoissonRedraw.of(counts, seed)
    return np.array([redraw(number) for number in range(n)])


@pytest.mark.parametrize("count", COUNTS)
def test_a_count_is_drawn_like_as_many_votes(count: float) -> None:
    """Over 60,000 draws, of 60 rows in 1000 resamples, mean and variance are the count, within 4.5
    standard errors: sqrt(c/n) and, with the Poisson's fourth moment c + 3c², sqrt((c + 2c²)/n).
    """
    drawn = redrawn(np.full(60, count), 1000)
    assert np.all(drawn == np.round(drawn))
    assert drawn.min() >= 0
    n = drawn.size
    assert abs(drawn.mean() - count) < 4.5 * math.sqrt(count / n)
    assert abs(drawn.var() - count) < 4.5 * math.sqrt((count + 2 * count**2) / n)


def test_every_row_and_every_resample_is_drawn_anew() -> None:
    """Over 2000 resamples each row has its own mean and variance; neither rows of equal or other
    counts nor resamples one after the other go up and down together.
    """
    counts = np.tile(COUNTS, 2)
    drawn = redrawn(counts, 2000, seed=3)
    assert np.all(np.abs(drawn.mean(axis=0) - counts) < 4.5 * np.sqrt(counts / 2000))
    error = np.sqrt((counts + 2 * counts**2) / 2000)
    assert np.all(np.abs(drawn.var(axis=0) - counts) < 4.5 * error)
    away = (drawn - counts) / np.sqrt(counts)
    together = away.T @ away / 2000
    assert np.abs(together - np.diag(np.diag(together))).max() < 4.5 / math.sqrt(2000)
    assert np.abs(np.mean(away[1:] * away[:-1], axis=0)).max() < 4.5 / math.sqrt(2000)


@pytest.mark.parametrize("count", [0.5, 1.0, 7.0])
def test_small_counts_have_the_chances_of_the_poisson(count: float) -> None:
    """The share of draws that are k is e^-c c^k / k!, for every k, within 4.5 standard errors."""
    drawn = redrawn(np.full(60, count), 1000, seed=8).ravel()
    for k in range(int(count + 8)):
        chance = math.exp(-count) * count**k / math.factorial(k)
        error = math.sqrt(chance * (1 - chance) / len(drawn))
        assert abs(np.mean(drawn == k) - chance) < 4.5 * error + 1 / len(drawn)


def poisson_steps(count: float, most: int) -> list[Decimal]:
    """The chances of at most 0, 1, 2 … as sums of e^-c c^k / k!, to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        mean = Decimal(count)
        chances = accumulate(
            range(1, most), lambda chance, k: chance * mean / k, initial=(-mean).exp()
        )
        return list(accumulate(chances))


@pytest.mark.parametrize(
    ("count", "most"), [(0.001, 30), (0.5, 40), (1.0, 40), (7.0, 80), (13_149.0, 14_500)]
)
def test_a_draw_is_the_inverse_of_the_distribution(count: float, most: int) -> None:
    """Row i of resample r takes draw i + 1 of SplitMix64 with the key of r, as a number u from 0 to
    1, and is the least k whose chance of at most k is above u. Both by plain integers and
    decimals.
    """
    steps = poisson_steps(count, most)
    redraw = PoissonRedraw.of(np.full(50, count), seed=12)
    for number in range(10):
        key = int(SeedSequence(12, spawn_key=(number,)).generate_state(1, np.uint64)[0])
        for i, found in enumerate(redraw(number)):
            u = Decimal(naive.splitmix(key, i + 1) >> 11) / 2**53
            low, high = 0, len(steps) - 1
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if u < steps[middle] else (middle + 1, high)
            assert found == low


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.sampled_from([1.0, 2.0, 13_149.0]) | st.floats(1e-6, 1e5), min_size=1, max_size=40),
    st.integers(0, 2**63),
)
def test_the_compiled_lookup_is_the_search(counts: list[float], seed: int) -> None:
    """Looked up in compiled code, every number is the very same."""
    pytest.importorskip("numba")
    redraw = PoissonRedraw.of(np.array(counts), seed)
    for number in (0, 1, 499):
        np.testing.assert_array_equal(redraw(number, compiled=True), redraw(number))


def key_of(u: int) -> np.uint64:
    """The key whose first draw has these 53 leading bits: SplitMix64 run backwards."""
    mask = naive.MASK

    def unshifted(z: int, by: int) -> int:
        out = z
        for _ in range(64 // by + 1):
            out = z ^ (out >> by)
        return out

    z = unshifted(u << 11, 31)
    z = unshifted(z * pow(0x94D049BB133111EB, -1, 2**64) & mask, 27)
    z = unshifted(z * pow(0xBF58476D1CE4E5B9, -1, 2**64) & mask, 30)
    return np.uint64((z - 0x9E3779B97F4A7C15) & mask)


@pytest.mark.parametrize("count", [*COUNTS, 1e-9, 40.0, 1e6])
def test_the_lookup_at_its_edges(count: float) -> None:
    """At 0, at the largest number below 1, at steps of the table, at entries of its guide and next
    to all of these, lookup and search agree, and a number equal to a step is beyond it.
    """
    kernels = pytest.importorskip("arena_kit.rating.kernels")
    redraw = PoissonRedraw.of(np.array([count]), 0)
    entries = np.arange(len(redraw.steps)) / len(redraw.steps)
    some = np.concatenate([redraw.steps, entries])[:: max(1, len(redraw.steps) // 150)]
    places = {0, 2**53 - 1} | {int(u * 2**53) + near for u in some.tolist() for near in (-1, 0, 1)}
    for place in (place for place in places if 0 <= place < 2**53):
        key = key_of(place)
        u = uniforms(key, 1)
        assert u[0] == place / 2**53
        passed = int(np.sum(redraw.steps <= u[0]))
        fast = np.empty(1)
        kernels.lookup(
            key, redraw.first, redraw.size, redraw.least, redraw.steps, redraw.guide, fast
        )
        assert redraw._passed(u)[0] == passed
        assert fast[0] == redraw.least[0] + passed


def test_uniforms_are_splitmix() -> None:
    """Number i is the leading 53 bits of draw i + 1 of the definition, in plain integers."""
    key = np.uint64(2**64 - 5)
    expected = [(naive.splitmix(int(key), i + 1) >> 11) / 2**53 for i in range(200)]
    assert uniforms(key, 200).tolist() == expected


@pytest.mark.parametrize("compiled", [False, True])
def test_a_draw_depends_on_seed_number_and_row_alone(compiled: bool) -> None:
    """Not on which numbers were drawn before, nor on the counts of the other rows; another number
    and another seed draw otherwise.
    """
    if compiled:
        pytest.importorskip("numba")
    counts = np.linspace(0.5, 900, 60)
    redraw = PoissonRedraw.of(counts, 4)
    forwards = [redraw(number, compiled=compiled) for number in range(20)]
    backwards = [PoissonRedraw.of(counts, 4)(n, compiled=compiled) for n in range(19, -1, -1)]
    np.testing.assert_array_equal(forwards, backwards[::-1])
    few = PoissonRedraw.of(counts[:10], 4)
    others = PoissonRedraw.of(np.concatenate([counts[:10], counts[10:] * 2]), 4)
    for number in range(20):
        for same in (few, others):
            found = same(number, compiled=compiled)[:10]
            np.testing.assert_array_equal(found, forwards[number][:10])
    assert not np.array_equal(forwards[0], forwards[1])
    assert not np.array_equal(forwards[0], PoissonRedraw.of(counts, 5)(0, compiled=compiled))


# Intervals


def test_interval_by_hand() -> None:
    """The interval of 0..100 is its 2.5 and 97.5 percentiles; NaN is left out."""
    column = np.arange(101.0)[:, None]
    se, low, high = interval(np.vstack([column, [[np.nan]]]))
    assert abs(low[0] - 2.5) < 1e-9
    assert abs(high[0] - 97.5) < 1e-9
    assert abs(se[0] - np.sqrt(101 * 102 / 12)) < 1e-9


def test_denoised_by_hand() -> None:
    """Noise of a quarter of the variance shrinks every deviation by sqrt(3/4)."""
    replicates = np.array([[-2.0], [2.0]] * 50)
    spread = replicates.var(ddof=1)
    found = denoised(replicates, np.array([spread / 4]))
    np.testing.assert_allclose(found, replicates * np.sqrt(0.75))


def test_denoised_keeps_what_cannot_be_told_from_noise() -> None:
    """Noise as large as the spread still leaves the share that n resamples cannot resolve."""
    replicates = np.random.default_rng(0).normal(size=(200, 3))
    found = denoised(replicates, replicates.var(axis=0, ddof=1))
    np.testing.assert_allclose(found.var(axis=0) / replicates.var(axis=0), 2 * np.sqrt(2 / 200))


def test_down_to() -> None:
    """The smallest K is where the property last held on the way down from the default."""
    holds = {1.0: True, 2.0: False, 4.0: True, 8.0: True, 16.0: False}
    assert _down_to(holds, 8.0) == 4.0
    assert _down_to(holds, 16.0) is None
