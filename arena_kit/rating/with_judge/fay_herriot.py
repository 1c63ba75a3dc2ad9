"""Fay–Herriot: noisy ratings by people, drawn towards a line through a judge's ratings.

People's ratings are y = θ + e and the judge's x = x* + w, with known covariances of e and w. The
wanted ratings are θ = slope · x* + u, where u, the judge's error, has the same variance A for all
models. Both ratings are known up to a shift, so everything is said in contrasts of the models that
people rated. The slope has a flat prior; A has Jeffreys' prior and is integrated over its
posterior, so it is never taken to be zero because a few models happened to agree (Fay and Herriot
1979; Datta and Lahiri 2000; the noise of x as in Ybarra and Lohr 2008).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Points of the grid per factor e of the error's variance; its integrand is smooth on that scale.
_DENSITY = 8
#: How far the grid reaches below the noise and above noise and differences.
_REACH = 1e6
#: Posterior weight, relative to the largest, below which a point of the grid is left out.
_NEGLIGIBLE = 1e-10
#: Rounds in which the slope and the noise of the judge's line settle.
_ROUNDS = 5
#: Variance of what the judge says about a model it never saw, in variances of people's ratings.
_UNKNOWN = 1e6
#: Precision of the slope's prior, which is flat but for a judge that rates all models alike.
_NO_SLOPE = 1e-12
_HALVINGS = 100


@dataclass(frozen=True, slots=True)
class JudgeVariance:
    """The posterior of a judge's error variance: points, and how probable each is."""

    variance: Floats = field(repr=False)
    weight: Floats = field(repr=False)

    @classmethod
    def of(cls, variance: Floats, log_weight: Floats) -> JudgeVariance:
        """The posterior without points that do not count."""
        weight = np.exp(log_weight - log_weight.max())
        counts = weight > _NEGLIGIBLE
        return cls(variance[counts], weight[counts] / weight[counts].sum())

    def quantile(self, share: float) -> float:
        """The variance below which this share of the posterior lies."""
        return float(np.interp(share, np.cumsum(self.weight) - self.weight / 2, self.variance))

    @property
    def sd(self) -> float:
        """The judge's error: the root of the posterior's median."""
        return float(np.sqrt(self.quantile(0.5)))

    def half_width(self, variance: float = 0.0, models: float = np.inf) -> float:
        """Half of the 95 % interval for a model that has this sampling variance beside the judge's
        error, and is compared with so many models on which the judge errs as well.
        """
        spread = (variance + self.variance * (1 + 1 / models))[:, None]
        return float(mixture_quantile(np.zeros_like(spread), spread, self.weight, 0.975)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoRatings:
    """What people and a judge say about the same models, each with its noise.

    Ratings are per model, in one order; `people` counts where `voted`, `judge` where `judged`.
    `shared` is the covariance of people's noise (rows) with the judge's (columns): it is not zero
    where both decided the same battles. The mean of the models in `center`, all of them voted on,
    is the scale's zero.
    """

    people: Floats
    judge: Floats
    people_noise: Floats
    judge_noise: Floats
    shared: Floats
    voted: Mask
    judged: Mask
    center: Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    """Ratings by people and judge together, relative to the mean of the models in the center.

    `surprise` is the two-sided probability of people's rating given all others and the judge's (1
    where one of both is missing), `gap` how far people's rating is from the one so predicted.
    """

    rating: Floats
    covariance: Floats
    low: Floats
    high: Floats
    slope: float
    slope_se: float
    error: JudgeVariance
    gap: Floats
    surprise: Floats


def judge_variance(gap: Floats, noise: Floats) -> JudgeVariance:
    """The posterior of the judge's error variance from differences between its ratings and
    people's, each known up to a shift, with the covariance of their noise.
    """
    floor = _NEGLIGIBLE * float(np.trace(noise) + gap @ gap)
    basis, spread = _eigen(noise, np.ones(len(gap), bool), floor)
    grid = _grid(spread, float(np.sum((basis.T @ gap) ** 2)))
    wide = grid[:, None] + spread
    fit = -0.5 * (np.log(wide) + (basis.T @ gap) ** 2 / wide).sum(axis=1)
    return JudgeVariance.of(grid, _log_posterior(grid, fit, spread))


def combined(pair: TwoRatings) -> Combined:
    """Both ratings together, the judge's error integrated over its posterior."""
    line = JudgeLine(pair, 0.0)
    for _ in range(_ROUNDS):
        line = JudgeLine(pair, line.slope()[0])
    return line.combined()


class JudgeLine:
    """The judge's line through people's ratings, for each possible variance of its error, where the
    judge's noise counts `slope` times.

    In the basis, contrasts of people's ratings have independent noise; `ours` and `theirs` are
    people's and the judge's ratings there. `known` is what is known of ratings off the line before
    people are asked, the judge's error apart.
    """

    def __init__(self, pair: TwoRatings, slope: float) -> None:
        far = _UNKNOWN * float(np.var(pair.people[pair.voted]))
        self.pair, self.overlap = pair, slope * pair.shared
        self.known = slope**2 * pair.judge_noise + np.diag(np.where(pair.judged, 0.0, far))
        floor = _NEGLIGIBLE * float(np.trace(pair.people_noise))
        noise = self.known + pair.people_noise - self.overlap - self.overlap.T
        self.basis, self.spread = basis, spread = _eigen(noise, pair.voted, floor)
        self.ours = ours = basis.T @ np.where(pair.voted, pair.people, 0.0)
        seen = np.where(pair.judged, pair.judge, pair.judge[pair.judged].mean())
        self.theirs = theirs = basis.T @ seen
        within = spread < far / 100
        self.grid = grid = _grid(spread[within], float(np.sum(ours[within] ** 2)))
        wide = grid[:, None] + spread
        slopes, doubts = _slopes(ours, theirs, wide)
        rest = ((ours - slopes[:, None] * theirs) ** 2 / wide).sum(axis=1)
        fit = -0.5 * (np.log(wide).sum(axis=1) - np.log(doubts) + rest)
        self.log_weight = _log_posterior(grid, fit, spread)
        self.error = JudgeVariance.of(grid, self.log_weight)

    def slope(self) -> tuple[float, float]:
        """The slope and its standard error."""
        error = self.error
        mean, variance = _slopes(self.ours, self.theirs, error.variance[:, None] + self.spread)
        at = float(error.weight @ mean)
        return at, float(np.sqrt(error.weight @ (variance + (mean - at) ** 2)))

    def at(self, variance: float) -> tuple[Floats, Floats]:
        """Ratings and their covariance for one variance of the judge's error."""
        pair, voted = self.pair, self.pair.voted
        shown = np.eye(len(voted)) - pair.center / pair.center.sum()
        judge = shown @ np.where(pair.judged, pair.judge, pair.judge[pair.judged].mean())
        slope, doubt = _slopes(self.ours, self.theirs, variance + self.spread)
        before = variance * np.eye(len(voted)) + self.known
        moved = shown @ (before - self.overlap.T) @ self.basis
        gain = moved / (variance + self.spread)
        rating = slope * judge + gain @ (self.ours - slope * self.theirs)
        leverage = judge - gain @ self.theirs
        covariance = shown @ before @ shown.T - gain @ moved.T
        return rating, covariance + doubt * np.outer(leverage, leverage)

    def combined(self) -> Combined:
        """Ratings with the judge's error integrated out."""
        error = self.error
        weight = error.weight
        parts = [self.at(variance) for variance in error.variance]
        means = np.array([mean for mean, _ in parts])
        rating = weight @ means
        covariance = sum(w * each for w, (_, each) in zip(weight, parts, strict=True))
        off = means - rating
        variances = np.array([np.maximum(np.diag(each), 0.0) for _, each in parts])
        gap, surprise = self._surprises()
        slope, slope_se = self.slope()
        return Combined(
            rating=rating,
            covariance=np.asarray(covariance + (off * weight[:, None]).T @ off),
            low=mixture_quantile(means, variances, weight, 0.025),
            high=mixture_quantile(means, variances, weight, 0.975),
            slope=slope,
            slope_se=slope_se,
            error=error,
            gap=gap,
            surprise=surprise,
        )

    def _surprises(self) -> tuple[Floats, Floats]:
        """How far people's rating of each model is from what the judge and the other models let
        expect, and the probability of being that far.

        These are deleted residuals: the model's own rating moves neither the line nor the error,
        whose posterior is divided by what the model said about it.
        """
        from scipy.special import ndtr

        wide = self.grid[:, None] + self.spread
        slope, doubt = _slopes(self.ours, self.theirs, wide)
        leverage = (self.theirs / wide) @ self.basis.T
        precision = (1 / wide) @ (self.basis**2).T - doubt[:, None] * leverage**2
        pull = ((self.ours - slope[:, None] * self.theirs) / wide) @ self.basis.T
        both = self.pair.voted & self.pair.judged
        precision = np.where(both, np.maximum(precision, np.finfo(float).tiny), 1.0)
        far = np.where(both, pull, 0.0) / np.sqrt(precision)
        log_weight = self.log_weight[:, None] + far**2 / 2 - np.log(precision) / 2
        weight = np.exp(log_weight - log_weight.max(axis=0))
        weight = weight / weight.sum(axis=0)
        gap = (weight * far / np.sqrt(precision)).sum(axis=0)
        below = (weight * ndtr(far)).sum(axis=0)
        return gap, 2 * np.minimum(below, 1 - below)


def _eigen(noise: Floats, chosen: Mask, floor: float) -> tuple[Floats, Floats]:
    """Orthonormal contrasts of the chosen models whose noise is independent, and its variances,
    none below a floor.
    """
    size = int(chosen.sum())
    contrasts = np.linalg.qr(np.column_stack([np.ones(size), np.eye(size)[:, 1:]]))[0][:, 1:]
    inner = contrasts.T @ noise[np.ix_(chosen, chosen)] @ contrasts
    variance, vectors = np.linalg.eigh((inner + inner.T) / 2)
    basis = np.zeros((len(chosen), size - 1))
    basis[chosen] = contrasts @ vectors
    return basis, np.maximum(variance, floor)


def _slopes(ours: Floats, theirs: Floats, wide: Floats) -> tuple[Floats, Floats]:
    """The slope of people's ratings in the judge's and its variance, by weighted least squares."""
    steep = (theirs**2 / wide).sum(axis=-1) + _NO_SLOPE
    return (ours * theirs / wide).sum(axis=-1) / steep, 1 / steep


def _grid(spread: Floats, square: float) -> Floats:
    """Variances of the judge's error that are tried, evenly on a logarithmic scale."""
    noise = float(spread.mean())
    low, high = noise / _REACH, _REACH * max(noise, square / len(spread))
    return np.geomspace(low, high, int(_DENSITY * np.log(high / low)))


def _log_posterior(grid: Floats, fit: Floats, spread: Floats) -> Floats:
    """The logarithm of each point's weight under Jeffreys' prior; `fit` is the log-likelihood."""
    jeffreys = 0.5 * np.log(((grid[:, None] + spread) ** -2.0).sum(axis=1))
    return np.asarray(fit + jeffreys + np.log(grid))


def mixture_quantile(mean: Floats, variance: Floats, weight: Floats, share: float) -> Floats:
    """The quantile of each column's mixture of normal distributions, by bisection."""
    from scipy.special import ndtr

    sd = np.sqrt(np.maximum(variance, np.finfo(float).tiny))
    low, high = (mean - 40 * sd).min(axis=0), (mean + 40 * sd).max(axis=0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = weight @ ndtr((middle - mean) / sd) < share
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)
