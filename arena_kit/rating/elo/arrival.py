"""Has an Elo replay arrived? Where it has not, its evidence interval does not hold the truth.

A replay starts with everybody alike and moves by at most K a battle, so with a small K or few
battles it ends on the way: ratings and their resamples are drawn towards the start together, and
the interval is too narrow around a value that is off. Bradley–Terry on the same battles knows no
start. What it says of the true ratings, shrunk as far as their spread and its own errors ask for
(Efron and Morris 1975), says how often such an interval holds.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from arena_kit.rating.base import Ratings
from arena_kit.rating.claims import claims
from arena_kit.rating.claims.power import true_variance

Floats = NDArray[np.float64]

#: Below so much expected coverage of nominal 95 % a board is told; one model alone only if it is
#: hopeless, since a single expectation is uncertain itself. docs/intervals.md has the measurement.
_LEAST, _LEAST_OF_ONE = 0.93, 0.5
#: Elo points that stand for one of Bradley–Terry, from which a replay counts as arrived.
_ARRIVED = 0.97


def holding(elo: Ratings, strengths: Ratings) -> Floats:
    """How probable it is that Elo's interval of each model holds the truth, given Bradley–Terry's
    rating of the same battles on the same center; NaN where either has no interval.
    """
    rows = [(elo[model], strengths[model]) for model in elo.models]
    low, high, center, error = (
        np.array([np.nan if value is None else value for value in column])
        for column in zip(
            *((e.ci_low, e.ci_high, s.rating, s.extra["se"]) for e, s in rows), strict=True
        )
    )
    start, spread = center.mean(), true_variance(strengths)
    kept = spread / (spread + error**2)
    expected, deviation = start + kept * (center - start), np.sqrt(kept) * error
    known = (deviation > 0) & ~np.isnan(low)
    scores = [
        np.divide(end - expected, deviation, out=np.full(len(rows), np.nan), where=known)
        for end in (low, high)
    ]
    below, above = (np.array([NormalDist().cdf(z) for z in each]) for each in scores)
    return np.asarray(above - below)


def caution(elo: Ratings, strengths: Ratings) -> str:
    """That Elo's intervals hold the truth too seldom and why, in a sentence; empty where they do
    not.
    """
    held = holding(elo, strengths)
    way = claims.shrinkage(elo, strengths)
    if np.isnan(held).all() or not way < _ARRIVED:
        return ""
    off = held < _LEAST_OF_ONE
    if np.nanmean(held) < _LEAST:
        whose, share = "intervals hold", float(np.nanmean(held))
    elif off.any():
        names = [model for model, each in zip(elo.models, off, strict=True) if each]
        whose, share = f"interval of {', '.join(names)} holds", held[off].mean()
    else:
        return ""
    k, start = elo.settings["k"], elo.settings["initial"]
    return (
        f"Elo's evidence {whose} the truth in about {100 * share:.0f}% of cases, not in 95%: at K "
        f"{k:g} so few battles take ratings only {100 * way:.0f}% of the way from {start:g} to "
        "Bradley–Terry's; use those, or a larger K."
    )
