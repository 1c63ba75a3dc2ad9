"""Clustered resampling."""

from __future__ import annotations

import numpy as np

from arena_kit.rating import resampling
from arena_kit.rating.resampling import denoised, interval, resampled_sets
from arena_kit.rating.stability import _down_to

CLUSTERS = np.array([0, 1, 0, 2, 2, 2, 1], np.int32)


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
