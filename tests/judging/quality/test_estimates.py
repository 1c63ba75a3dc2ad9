"""Shares and their intervals, by hand and by tables."""

from __future__ import annotations

import numpy as np
import pytest

from arena_kit.judging.quality.estimates import Estimate, share_of, wilson


def test_a_share_of_nothing_is_bounded_by_the_number_of_clusters() -> None:
    """The rule of three: none in 30 independent questions leaves up to a tenth possible, however
    many verdicts each has.
    """
    clusters = np.repeat(np.arange(30), 10)
    found = share_of(np.zeros(300, bool), clusters)
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(3 / 30, abs=0.006)
    assert share_of(np.ones(300, bool), clusters).low == pytest.approx(1 - (found.high or 0))


def test_the_interval_of_a_share_is_that_of_the_mean_of_its_clusters() -> None:
    """With clusters of one size, leaving one out gives the t interval of the clusters' means."""
    rng = np.random.default_rng(2)
    flags = rng.random((12, 5)) < rng.random(12)[:, None]
    means = flags.mean(axis=1)
    half = 2.200985 * means.std(ddof=1) / np.sqrt(12)  # t with 11 degrees of freedom
    found = share_of(flags.ravel(), np.repeat(np.arange(12), 5))
    assert found.high == pytest.approx(means.mean() + half, abs=1e-6)
    assert found.low == pytest.approx(means.mean() - half, abs=1e-6)


def test_the_interval_of_a_share_does_not_reach_below_nothing() -> None:
    """One row of ten: the t interval would end at 0.1 - 2.262 * 0.1 < 0."""
    found = share_of([True] + [False] * 9)
    assert found.low == 0.0
    assert found.high == pytest.approx(0.1 + 2.262157 * 0.1, abs=1e-6)


@pytest.mark.parametrize(("hits", "ends"), [(8, (0.4902, 0.9433)), (0, (0.0, 0.2775))])
def test_wilsons_interval(hits: int, ends: tuple[float, float]) -> None:
    """8 of 10 and 0 of 10, as tables of the score interval print them."""
    found = wilson([True] * hits + [False] * (10 - hits))
    assert (found.counted, found.value) == (f"{hits} of 10", hits / 10)
    assert (found.low, found.high) == pytest.approx(ends, abs=1e-4)
    assert wilson([]).value is None


@pytest.mark.parametrize(
    ("share", "away", "above", "rest"),
    [
        ((0.7, 0.6, 0.8), (0.2, 0.1, 0.3), (0.2, 0.1, 0.3), (0.3, 0.2, 0.4)),
        ((0.3, 0.2, 0.4), (0.2, 0.1, 0.3), (-0.2, -0.3, -0.1), (0.7, 0.6, 0.8)),
        ((0.45, 0.2, 0.6), (0.05, 0.0, 0.3), (-0.05, -0.3, 0.1), (0.55, 0.4, 0.8)),
        ((0.3, None, None), (0.2, None, None), (-0.2, None, None), (0.7, None, None)),
        ((None, None, None),) * 4,
    ],
)
def test_distances_from_one_half_take_their_interval_along(
    share: tuple[float | None, ...],
    away: tuple[float | None, ...],
    above: tuple[float | None, ...],
    rest: tuple[float | None, ...],
) -> None:
    """An interval that holds one half reaches down to no distance at all."""
    value, low, high = share
    given = Estimate(value=value, low=low, high=high, n=9)
    for found, wanted in (
        (given.from_half(), away),
        (given.above_half(), above),
        (given.complement(), rest),
    ):
        assert (found.value, found.low, found.high) == pytest.approx(wanted)
        assert found.n == 9
