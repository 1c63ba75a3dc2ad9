"""Resampling by hash, and how large a gap must be."""

import logging
import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import norm, poisson, studentized_range
from scipy.stats import t as student_t

from arena_kit.rating import compiled, resampling
from arena_kit.rating.critical_values import normal_score, span_scores, t_score, widening
from arena_kit.rating.resampling import RESAMPLES, Games, PoissonWeights, split_seed
from tests import naive

COUNTS = np.array([0.5, 1.0, 7.0, 40.0, 13_149.0])


def drawn(counts: Any, rows: int, n: int, seed: int = 0) -> NDArray[np.float64]:
    """A row per resample."""
    keys = np.arange(rows, dtype=np.uint64)
    return np.asarray(PoissonWeights.of(seed, n).times(keys, slice(0, n), counts).T, float)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32))
def test_bits_are_splitmix(seed: int, counter: int) -> None:
    """Bits are those of the definition, in plain integers."""
    found = resampling.random_bits(np.array([seed], np.uint64), np.array([counter], np.uint64))
    assert int(found[0]) == naive.splitmix(seed, counter)


def test_a_multiplicity_is_the_inverse_of_the_distribution() -> None:
    """Multiplicities are Poisson(1) of 16 bits; rows and resamples are drawn anew."""
    seeds = split_seed(12, 2, RESAMPLES)
    found = drawn(None, 50, 8, seed=12)
    for number in range(8):
        for cluster in range(50):
            bits = naive.splitmix(int(seeds[number // 4]), cluster) >> 16 * (number % 4)
            expected = poisson.ppf(((bits & 0xFFFF) + 0.5) / 2**16, 1)
            assert found[number, cluster] == expected
    counts = np.tile(COUNTS, 2)
    found = drawn(counts, 10, 2000, seed=3)
    away = (found - counts) / np.sqrt(counts)
    together = away.T @ away / 2000
    assert np.abs(together - np.diag(np.diag(together))).max() < 4.5 / math.sqrt(2000)
    assert np.abs(np.mean(away[1:] * away[:-1], axis=0)).max() < 4.5 / math.sqrt(2000)
    weights, keys = PoissonWeights.of(3, 40), np.arange(4, dtype=np.uint64)
    np.testing.assert_array_equal(weights.times(keys, slice(8, 20), counts[:4]).T, found[8:20, :4])
    assert not np.array_equal(drawn(None, 10, 40, seed=4), drawn(None, 10, 40, seed=3))


@pytest.mark.parametrize("count", COUNTS)
def test_a_count_is_drawn_like_as_many_votes(count: float) -> None:
    """Over 60,000 draws mean and variance are the count, within 4.5 standard errors."""
    found = drawn(np.full(60, count), 60, 1000)
    n = found.size
    assert found.min() >= 0
    assert abs(found.mean() - count) < 4.5 * math.sqrt(count / n)
    assert abs(found.var() - count) < 4.5 * math.sqrt((count + 2 * count**2) / n)
    levels = np.array([0.01, 0.025, 0.5, 0.975, 0.99])
    off = np.quantile(found, levels) - poisson.ppf(levels, count)
    assert np.abs(off).max() <= 1 + 4.5 * math.sqrt(count / n) * 4


def sets_of(clusters: NDArray[np.int32], n: int) -> list[list[int]]:
    """The games of each resample, every game between the same two models."""
    one = np.ones(len(clusters), np.int32)
    games = Games(a=0 * one, b=one, score=one.astype(float), n_models=3)
    out: list[list[int]] = []

    def replayed(sets: NDArray[np.int32], sizes: NDArray[np.int32], first: int) -> NDArray[Any]:
        assert first == len(out)
        out.extend(row[:size].tolist() for row, size in zip(sets, sizes, strict=True))
        return np.ones((1, len(sets), 3))

    rated = resampling.replicates(games, clusters, n, replayed, seed=5)
    assert rated.shape == (1, len(out), 3)
    assert (np.isfinite(rated) == [True, True, False]).all()
    return out


def test_replays_draw_whole_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resample draws as many clusters as there are, by the upper bits of SplitMix64."""
    clusters = np.random.default_rng(0).integers(0, 12, 40).astype(np.int32)
    whole = sets_of(clusters, 30)
    for games, seed in zip(whole, split_seed(5, 30, RESAMPLES).tolist(), strict=True):
        names = [((naive.splitmix(seed, slot) >> 32) * 12) >> 32 for slot in range(12)]
        times = np.bincount(names, minlength=12)
        assert games == np.repeat(np.arange(40), times[clusters]).tolist()
    monkeypatch.setattr(resampling, "_CHUNK", 3 * len(clusters))
    assert (sets_of(clusters, 30), sets_of(clusters % 9, 30)) == (whole, [])


def test_interval_by_hand() -> None:
    """Percentiles, noise taken out, the smallest K and Student's widening, by hand."""
    column = np.arange(101.0)[:, None]
    se, low, high = resampling.interval(np.vstack([column, [[np.nan]]]))
    assert (low[0], high[0]) == pytest.approx((2.5, 97.5))
    assert se[0] == pytest.approx(np.sqrt(101 * 102 / 12))
    replicates = np.array([[-2.0], [2.0]] * 50)
    spread = replicates.var(axis=0, ddof=1)
    quarter = resampling.denoised(replicates, spread / 4)
    np.testing.assert_allclose(quarter, replicates * np.sqrt(0.75))
    left = resampling.denoised(replicates, spread).var(axis=0) / replicates.var(axis=0)
    np.testing.assert_allclose(left, 2 * np.sqrt(2 / 100))
    assert float(widening(9)) == pytest.approx(2.262157 / 1.959964 * np.sqrt(10 / 9), rel=1e-6)
    assert float(widening(np.inf)) == 1.0


def doubled(x: NDArray[np.float64]) -> None:
    for i in range(len(x)):
        x[i] *= 2


def test_a_long_first_call_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Two kernels that take longer than patience lasts give one sentence, and the right result."""
    config = pytest.importorskip("numba").config
    for patience, sentences in ((60.0, 0), (0.001, 1)):
        monkeypatch.setattr(compiled, "_PATIENCE", patience)
        monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / str(sentences)))
        compiled._say_so.cache_clear()
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="arena_kit"):
            for _ in range(2):
                values = np.array([1.0, 2.0])
                compiled.Kernel(doubled)(values)
                assert values.tolist() == [2.0, 4.0]
        assert len(caplog.records) == sentences
        assert all("compiled once" in record.message for record in caplog.records)


def test_a_t_is_as_improbable_as_its_normal_score() -> None:
    """Scores are SciPy's: Student's t and back, one number as many, the studentized range."""
    t, df = np.meshgrid([-3.0, 0.0, 0.5, 2.0, 5.0], [9, 14, 39, 1000])
    expected = norm.isf(student_t.sf(t, df))
    np.testing.assert_allclose(normal_score(t, df), expected, rtol=0, atol=1e-6)
    df = np.array([[9.0, 14.0], [200.0, np.inf]])
    for z in (1.959964, 2.807, 4.2):
        found = t_score(z, df)
        np.testing.assert_allclose(found, student_t.isf(norm.sf(z), df), rtol=1e-5)
        assert [[float(t_score(z, each)) for each in row] for row in df] == found.tolist()
    for level, p in product((0.95, 0.995), (2, 3, 8, 30)):
        scores = span_scores(30, level)
        assert (len(scores), scores[0]) == (30, 0)
        expected = studentized_range.ppf(level, p, np.inf) / np.sqrt(2)
        assert scores[p - 1] == pytest.approx(expected, abs=2e-4)
