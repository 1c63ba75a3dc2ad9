"""Fay–Herriot: brute-force integration, the classical t, and both limits."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from arena_kit.rating.with_judge.fay_herriot import JudgeLine, TwoRatings, combined, judge_variance
from tests.naive import FayHerriotGrid, contrasts


def covariance(rng: np.random.Generator, n: int, size: float) -> np.ndarray:
    """A covariance of ratings whose mean is 0, with correlations between models."""
    root = rng.normal(0, size, (n, 3 * n)) / np.sqrt(3 * n)
    root = root - root.mean(axis=0)
    return root @ root.T


def two(seed: int, n: int = 6, judge_noise: float = 0.0, error: float = 25.0) -> TwoRatings:
    """Ratings by people and by a judge that spreads models twice as far and errs by 25 points."""
    rng, every = np.random.default_rng(seed), np.ones(n, bool)
    truth = rng.normal(0, 100, n)
    noise = covariance(rng, n, 30.0)
    judged = covariance(rng, n, judge_noise) if judge_noise else np.zeros((n, n))
    people = truth + rng.multivariate_normal(np.zeros(n), noise)
    judge = 2 * (truth + rng.normal(0, error, n))
    return TwoRatings(people=people - people.mean(), judge=judge - judge.mean(), people_noise=noise,
                      judge_noise=judged, shared=np.zeros((n, n)), voted=every, judged=every,
                      center=every)  # fmt: skip


def test_the_posterior_is_the_integral() -> None:
    """Ratings, errors and surprises are those of a brute-force sum over variances and slopes."""
    pair = two(1)
    found = combined(pair)
    mean, sd = FayHerriotGrid(pair.people, pair.judge, pair.people_noise).moments()
    assert found.rating == pytest.approx(mean, abs=0.02)
    assert np.sqrt(np.diag(found.covariance)) == pytest.approx(sd, rel=2e-3)
    pair = two(4)
    people = pair.people + 300 * (np.arange(6) == 2)
    found = combined(replace(pair, people=people))
    grid = FayHerriotGrid(people, pair.judge, pair.people_noise)
    for model in (0, 2):
        assert found.surprise[model] == pytest.approx(grid.surprise(model), rel=5e-3)
    assert found.surprise[2] < 0.05


def test_the_error_of_a_fixed_slope_is_the_integral() -> None:
    """A new model's interval is that of quadrature, and without noise that of Student's t."""
    rng = np.random.default_rng(5)
    gap, noise = rng.normal(0, 30, 7), covariance(rng, 7, 20.0)
    q = contrasts(7)
    spread, vectors = np.linalg.eigh(q @ noise @ q.T)
    z = vectors.T @ q @ gap

    def density(log_variance: float) -> float:
        wide = np.exp(log_variance) + spread
        fit = np.prod(wide**-0.5) * np.exp(-0.5 * np.sum(z**2 / wide))
        return float(1e12 * fit * np.sqrt(np.sum(wide**-2.0)) * np.exp(log_variance))

    def outside(log_variance: float, half: float) -> float:
        sd = np.sqrt(100 + np.exp(log_variance) * (1 + 1 / 7))
        return float(density(log_variance) * 2 * stats.norm.sf(half / sd))

    found = judge_variance(gap, noise)
    half = found.half_width(100, 7)
    total = integrate.quad(density, -10, 25, limit=200)[0]
    missed = integrate.quad(outside, -10, 25, args=(half,), limit=200)[0] / total
    assert missed == pytest.approx(0.05, abs=1e-5)
    gap = np.array([-31.0, -4.0, 3.0, 12.0, 20.0])
    found = judge_variance(gap - gap.mean(), 1e-6 * (np.eye(5) - 1 / 5))
    expected = stats.t.ppf(0.975, 4) * gap.std(ddof=1) * np.sqrt(1 + 1 / 5)
    assert found.half_width(0.0, 5) == pytest.approx(expected, rel=1e-3)
    lucky = judge_variance(np.zeros(5), 400 * (np.eye(5) - 1 / 5))
    assert 5 < lucky.sd < 20
    assert lucky.half_width() > 20


def test_a_judge_without_bound_is_ignored_and_one_without_error_believed() -> None:
    """An endless error leaves people alone, none the judge; models it never saw keep votes."""
    for judge_noise in (0.0, 10.0):
        pair = two(6, judge_noise=judge_noise)
        rating, spread = JudgeLine(pair, 0.5).at(1e9)
        assert rating == pytest.approx(pair.people, abs=1e-3)
        assert spread == pytest.approx(pair.people_noise, abs=0.01)
    pair, q = two(7), contrasts(6)
    rating, spread = JudgeLine(pair, 0.5).at(1e-9)
    inverse = q.T @ np.linalg.inv(q @ pair.people_noise @ q.T) @ q
    steep = pair.judge @ inverse @ pair.judge
    slope = pair.judge @ inverse @ pair.people / steep
    assert rating == pytest.approx(slope * pair.judge, abs=1e-5)
    assert spread == pytest.approx(np.outer(pair.judge, pair.judge) / steep, abs=1e-4)
    pair = two(10, n=9)
    unseen = np.arange(9) >= 7
    noise = 900 * (np.eye(9) - 1 / 9)
    found = combined(replace(pair, judged=~unseen, people_noise=noise))
    gap = np.where(np.arange(9) == 7, 1.0, 0.0) - (np.arange(9) == 8)
    assert gap @ found.rating == pytest.approx(gap @ pair.people, abs=0.01)
    assert gap @ found.covariance @ gap == pytest.approx(1800, rel=1e-3)
    assert found.surprise[unseen] == pytest.approx([1, 1])


def blup(pair: TwoRatings, slope: float, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Ratings and covariance as one large normal distribution."""
    n = len(pair.people)
    flat = np.diag([1e7, 1e2])
    noises = np.block([[pair.people_noise, pair.shared], [pair.shared.T, pair.judge_noise]])
    truth = np.hstack([np.ones((n, 1)), pair.judge[:, None], np.eye(n), np.zeros((n, n)),
                       -slope * np.eye(n)])  # fmt: skip
    said = truth.copy()
    said[:, 2 + n : 2 + 2 * n] = np.eye(n)
    said = said[pair.voted]
    scale = np.block([
        [flat, np.zeros((2, 3 * n))],
        [np.zeros((n, 2)), variance * np.eye(n), np.zeros((n, 2 * n))],
        [np.zeros((2 * n, 2 + n)), noises],
    ])  # fmt: skip
    shown = (np.eye(n) - pair.center / pair.center.sum()) @ truth
    gain = shown @ scale @ said.T @ np.linalg.inv(said @ scale @ said.T)
    return gain @ pair.people[pair.voted], (shown - gain @ said) @ scale @ shown.T


def test_noise_that_both_share_and_models_without_votes() -> None:
    """Ratings are those of the joint normal distribution, conditioned on the votes."""
    voted = np.array([True] * 6 + [False] * 2)
    keep = np.diag(voted) - np.outer(voted, voted) / 6
    both = covariance(np.random.default_rng(9), 16, 40.0)
    noises = {"people_noise": keep @ both[:8, :8] @ keep, "judge_noise": both[8:, 8:]}
    shared = keep @ both[:8, 8:]
    pair = replace(two(8, 8, 20.0), voted=voted, center=voted, shared=shared, **noises)
    rating, spread = JudgeLine(pair, 0.5).at(300.0)
    expected, left = blup(pair, 0.5, 300.0)
    assert rating == pytest.approx(expected, abs=0.05)
    assert spread == pytest.approx(left, abs=0.5)
