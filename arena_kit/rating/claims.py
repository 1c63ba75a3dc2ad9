"""What ratings allow one to say: who is above whom, which ranks are possible, who would win.

Claims about two models rest on the gap between them, not on whether their intervals overlap:
both ratings come from the same battles, and a gap does not depend on where the scale is pinned.
"""

from __future__ import annotations

from math import log as ln
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.rating.base import NORMAL_95, Ratings
from arena_kit.rating.tie_models import TIE_MODELS

Floats = NDArray[np.float64]


class Gaps(NamedTuple):
    """How far each model (row) is above each other (column), with its 95 % interval, and how
    probable it is that it is above. NaN where the evidence does not reach.
    """

    gap: Floats
    low: Floats
    high: Floats
    above: Floats


def gaps(ratings: Ratings) -> Gaps:
    """Gaps between all models, in the order of `ratings.models`."""
    rating = np.array([ratings[model].rating for model in ratings.models])
    gap = rating[:, None] - rating[None, :]
    if len(ratings.replicates):
        claims = _from_replicates(ratings.replicates, gap)
        if ratings.settings.get("interval") == "basic":
            claims = Gaps(gap, 2 * gap - claims.high, 2 * gap - claims.low, claims.above)
    elif ratings.covariance is not None:
        claims = _from_covariance(ratings.covariance, gap)
    else:
        claims = Gaps(gap, *(np.full_like(gap, np.nan) for _ in range(3)))
    return _only_known(claims, ratings)


def above(ratings: Ratings) -> Floats:
    """How probable it is that the row's model is above the column's, given the evidence."""
    return gaps(ratings).above


def rank_ranges(ratings: Ratings) -> dict[str, tuple[int, int] | None]:
    """The best and the worst rank of each model that the 95 % intervals of the gaps allow.

    Ahead of a model in its best rank are only those that are surely above it, behind it in
    its worst only those surely below. None for a model whose evidence does not reach.
    """
    _, low, high, _ = gaps(ratings)
    behind = (low > 0).sum(axis=1)
    ahead = (high < 0).sum(axis=1)
    n = len(ratings.models)
    return {
        model: None if ratings[model].ci_low is None else (1 + int(ahead[i]), n - int(behind[i]))
        for i, model in enumerate(ratings.models)
    }


def win_rates(ratings: Ratings) -> Floats:
    """The share of a win that the row's model is expected to take from the column's, ties as
    half of one.
    """
    rating = np.array([ratings[model].rating for model in ratings.models])
    eta = (rating[:, None] - rating[None, :]) * ln(10) / ratings.settings.get("scale", 400.0)
    model = TIE_MODELS[str(ratings.settings.get("ties"))] if "tie" in ratings.fit else None
    return (model or TIE_MODELS["half"]).share(eta, ratings.fit.get("tie", 0.0))


def shrinkage(ratings: Ratings, reference: Ratings) -> float:
    """The slope of ratings against those of a reference: below 1, differences are too small."""
    x = np.array([reference[model].rating for model in ratings.models])
    y = np.array([ratings[model].rating for model in ratings.models])
    x, y = x - x.mean(), y - y.mean()
    return float(x @ y / (x @ x)) if np.any(x) else float("nan")


def _from_covariance(covariance: Floats, gap: Floats) -> Gaps:
    variance = np.diag(covariance)
    spread = np.sqrt(np.maximum(0, variance[:, None] + variance[None, :] - 2 * covariance))
    z = np.divide(gap, spread, out=np.zeros_like(gap), where=spread > 0)
    normal = np.vectorize(NormalDist().cdf, otypes=[float])
    half = NORMAL_95 * spread
    return Gaps(gap, gap - half, gap + half, normal(z))


def _from_replicates(replicates: Floats, gap: Floats) -> Gaps:
    low, high, share = np.empty((3, *gap.shape))
    for i in range(len(gap)):
        lead = replicates[:, [i]] - replicates
        low[i], high[i] = _percentiles(lead)
        counted = np.maximum(1, np.sum(~np.isnan(lead), axis=0))
        share[i] = (np.sum(lead > 0, axis=0) + 0.5 * np.sum(lead == 0, axis=0)) / counted
    return Gaps(gap, low, high, share)


def _percentiles(lead: Floats) -> tuple[Floats, Floats]:
    if not np.isnan(lead).any():
        low, high = np.percentile(lead, [2.5, 97.5], axis=0)
        return low, high
    columns = [column[~np.isnan(column)] for column in lead.T]
    limits = [np.percentile(c, [2.5, 97.5]) if len(c) else (np.nan, np.nan) for c in columns]
    low, high = np.array(limits).T
    return low, high


def _only_known(claims: Gaps, ratings: Ratings) -> Gaps:
    """Without claims about models whose evidence does not reach for an interval."""
    unknown = np.array([ratings[model].ci_low is None for model in ratings.models])
    hidden = unknown[:, None] | unknown[None, :]
    low, high, share = (np.where(hidden, np.nan, each) for each in claims[1:])
    return Gaps(claims.gap, low, high, share)
