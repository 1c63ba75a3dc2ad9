"""Logistic regression with standard errors clustered by question, for what shifts a verdict."""

from __future__ import annotations

from math import exp, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.judging.quality.agreement import Share, sums, t_quantile

Floats = NDArray[np.float64]

#: Pseudo-precision of every coefficient: next to nothing beside a few dozen verdicts, it keeps
#: finite what a judge that always does the same would make infinite.
_RIDGE = 0.01
_STEPS = 50


def shift(
    x: Floats, y: Floats, clusters: NDArray[np.integer[Any]], column: int, *, n: int
) -> Share:
    """The win share of a response that is ahead by one unit of a column and equal in all others.

    `y` is 1, 0 or, for a tie, a half. The interval is that of the coefficient, from the sandwich
    covariance clustered by `clusters`; `n` is how many verdicts tell anything about it.
    """
    coefficients = fitted(x, y)
    value = float(coefficients[column])
    groups = len(np.unique(clusters))
    if groups < 2:
        return Share(value=_expit(value), ci_low=None, ci_high=None, n=n)
    half = t_quantile(groups - 1) * sqrt(_covariance(x, y, clusters, coefficients)[column, column])
    return Share(
        value=_expit(value), ci_low=_expit(value - half), ci_high=_expit(value + half), n=n
    )


def fitted(x: Floats, y: Floats, ridge: float = _RIDGE) -> Floats:
    """Coefficients by Newton's method; the likelihood penalised by `ridge` is strictly concave."""
    beta = np.zeros(x.shape[1])
    for _ in range(_STEPS):
        score = x.T @ (y - _chance(x, beta)) - ridge * beta
        step = np.linalg.solve(_information(x, beta, ridge), score)
        step *= min(1.0, 2.0 / max(1e-12, float(np.abs(step).max())))
        beta += step
        if np.abs(step).max() < 1e-9:
            break
    return beta


def _covariance(x: Floats, y: Floats, clusters: NDArray[np.integer[Any]], beta: Floats) -> Floats:
    scores = sums(x * (y - _chance(x, beta))[:, None], clusters)
    bread = np.linalg.inv(_information(x, beta, _RIDGE))
    groups = len(scores)
    covariance: Floats = groups / (groups - 1) * bread @ (scores.T @ scores) @ bread
    return covariance


def _information(x: Floats, beta: Floats, ridge: float) -> Floats:
    p = _chance(x, beta)
    information: Floats = (x * (p * (1 - p))[:, None]).T @ x + ridge * np.eye(x.shape[1])
    return information


def _chance(x: Floats, beta: Floats) -> Floats:
    chance: Floats = 1 / (1 + np.exp(-np.clip(x @ beta, -500, 500)))
    return chance


def _expit(value: float) -> float:
    return 1 / (1 + exp(-min(max(value, -500.0), 500.0)))
