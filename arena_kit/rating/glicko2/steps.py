"""The arithmetic of Glicko-2, vote by vote or in rating periods.

Python runs these functions on lists, and `kernels` compiles the very same bodies with Numba, so
both do the same operations in the same order.

All quantities are in Glicko-2's own scale: `mu` is the distance from the start rating and `var`
is RD squared, both in units of `SCALE` points; `s` is the volatility squared, `log_s` its
logarithm, and `damp` the paper's g(RD). The paper's v and delta appear as `info` = 1/v and
`pull` = delta/v, which stay finite however one-sided a game is.
"""

from __future__ import annotations

from math import copysign, exp, inf, log, pi, sqrt
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Rating points in one unit of Glicko-2's own scale.
SCALE = 400 / log(10)
DAMPING = 3 / (pi * pi)
_FARTHEST = 100.0  # log odds, about 17,000 points: beyond it a game says nothing new
_HIGHEST = 700.0  # log of a variance that exp can still take, above every root
_SETTLED = 1e-7  # a Newton step this short is off by its square
_MOST_STEPS = 100

Floats: TypeAlias = list[float] | NDArray[np.float64]
Ints: TypeAlias = list[int] | NDArray[Any]
#: Which votes in which order, first models, second models, scores (NaN moves nothing).
Votes: TypeAlias = tuple[Ints, Ints, Ints, Floats]
#: tau, least var, most var.
Limits: TypeAlias = tuple[float, float, float]
#: mu, var, damp, log_s and s of each model.
State: TypeAlias = tuple[Floats, Floats, Floats, Floats, Floats]
#: First vote, end, and number of a rating period.
Span: TypeAlias = tuple[int, int, int]
#: Of each model in a rating period: sums of info and pull, both 0 between periods, and the period
#: at whose onset its state stands, -1 before its first game.
Work: TypeAlias = tuple[Floats, Floats, Ints]
#: mu, var and s of both sides after each vote, or three times nothing.
Trace: TypeAlias = tuple[Floats, Floats, Floats]


def damping(var: float) -> float:
    """How much of a game's evidence remains when the opponent's rating is this uncertain."""
    return 1.0 / sqrt(1.0 + DAMPING * var)


def evidence(gap: float, damp: float, score: float) -> tuple[float, float]:
    """Information and pull of one game against an opponent `gap` below, who has this `damp`."""
    log_odds = -damp * gap
    if not -_FARTHEST < log_odds < _FARTHEST:
        log_odds = copysign(_FARTHEST, log_odds)
    odds = exp(log_odds)
    expected = 1.0 / (1.0 + odds)
    return damp * damp * expected * expected * odds, damp * (score - expected)


def settled(
    var: float, log_s: float, s: float, info: float, pull: float, tau: float
) -> tuple[float, float, float]:
    """New `var`, `log_s` and `s` after a period with this much information and pull.

    The new `log_s` is the root of the paper's f, found with Newton's method from the old one
    inside a bracket: f is positive at its lower end and negative at its upper. A step that
    leaves the bracket, or is not half as long as the one before, goes to its middle instead.
    """
    stiffness = 1.0 / (tau * tau)
    low, high = log_s - 0.5 * tau * tau, _HIGHEST
    x, last = log_s, inf
    for _ in range(_MOST_STEPS):
        r = 1.0 / (1.0 + info * (var + s))
        falls = s * info * r
        rises = s * (pull * r) * (pull * r)
        tilt = 0.5 * (rises - falls)
        f = tilt - (x - log_s) * stiffness
        slope = stiffness - tilt + falls * (rises - 0.5 * falls)
        step = f / slope if slope > 0.0 else inf
        if abs(step) < _SETTLED:
            x += step
            s += s * step
            break
        if f > 0.0:
            low = x
        else:
            high = x
        if not low < x + step < high or 2.0 * abs(step) > last:
            step = 0.5 * (low + high) - x
        last = abs(step)
        x += step
        s = exp(x)
    spread = var + s
    return spread / (1.0 + info * spread), x, s


def move(k: int, info: float, pull: float, limits: Limits, state: State) -> None:
    """Settle model k after a period with this much information and pull."""
    tau, least, most = limits
    mu, var, damp, log_s, s = state
    settled_var, log_s[k], s[k] = settled(var[k], log_s[k], s[k], info, pull, tau)
    mu[k] += settled_var * pull
    var[k] = min(most, max(least, settled_var))
    damp[k] = damping(var[k])


def replay_votes(votes: Votes, limits: Limits, state: State, trace: Trace) -> None:
    """Play votes one after another, changing `state`: each moves both models from where they
    stood before it.
    """
    order, a, b, score = votes
    mu, var, damp, _, s = state
    traced_mu, traced_var, traced_s = trace
    for n in range(len(order)):
        i, j, won = a[order[n]], b[order[n]], score[order[n]]
        if won >= 0.0:
            gap = mu[i] - mu[j]
            info_i, pull_i = evidence(gap, damp[j], won)
            info_j, pull_j = evidence(-gap, damp[i], 1.0 - won)
            move(i, info_i, pull_i, limits, state)
            move(j, info_j, pull_j, limits, state)
        if len(traced_mu):
            at = 2 * n
            traced_mu[at], traced_var[at], traced_s[at] = mu[i], var[i], s[i]
            traced_mu[at + 1], traced_var[at + 1], traced_s[at + 1] = mu[j], var[j], s[j]


def replay_periods(
    votes: Votes, period: Ints, limits: Limits, state: State, work: Work, trace: Trace
) -> None:
    """Play votes in rating periods, changing `state`: all votes of a period count together.

    `period` numbers the period of each vote, rising along the order. From its first game on,
    a model's RD grows by its volatility in every period without one.
    """
    order, _, _, _ = votes
    _, _, most = limits
    _, var, _, _, s = state
    _, _, due = work
    traced_mu, _, _ = trace
    first, now = 0, 0
    while first < len(order):
        now = period[order[first]]
        end = first
        while end < len(order) and period[order[end]] == now:
            end += 1
        span = (first, end, now)
        open_period(votes, span, limits, state, work)
        sum_period(votes, span, state, work)
        close_period(votes, span, limits, state, work)
        if len(traced_mu):
            trace_period(votes, span, limits, state, work, trace)
        first = end
    for k in range(len(var)):
        if due[k] >= 0:
            var[k] = min(most, var[k] + (now + 1 - due[k]) * s[k])


def open_period(votes: Votes, span: Span, limits: Limits, state: State, work: Work) -> None:
    """Bring all who play to the onset of this period."""
    order, a, b, score = votes
    first, end, now = span
    _, _, most = limits
    _, _, due = work
    _, var, damp, _, s = state
    for n in range(first, end):
        if score[order[n]] >= 0.0:
            for k in (a[order[n]], b[order[n]]):
                if due[k] >= 0:
                    var[k] = min(most, var[k] + (now - due[k]) * s[k])
                    damp[k] = damping(var[k])
                due[k] = now


def sum_period(votes: Votes, span: Span, state: State, work: Work) -> None:
    """Add up what the votes of a period say about each model."""
    order, a, b, score = votes
    mu, _, damp, _, _ = state
    info, pull, _ = work
    for n in range(span[0], span[1]):
        i, j, won = a[order[n]], b[order[n]], score[order[n]]
        if won >= 0.0:
            gap = mu[i] - mu[j]
            info_i, pull_i = evidence(gap, damp[j], won)
            info_j, pull_j = evidence(-gap, damp[i], 1.0 - won)
            info[i] += info_i
            pull[i] += pull_i
            info[j] += info_j
            pull[j] += pull_j


def close_period(votes: Votes, span: Span, limits: Limits, state: State, work: Work) -> None:
    """Settle all who played, and clear the sums for the next period."""
    order, a, b, _ = votes
    first, end, now = span
    info, pull, due = work
    for n in range(first, end):
        for k in (a[order[n]], b[order[n]]):
            if info[k] > 0.0:
                move(k, info[k], pull[k], limits, state)
                info[k] = pull[k] = 0.0
                due[k] = now + 1


def trace_period(
    votes: Votes, span: Span, limits: Limits, state: State, work: Work, trace: Trace
) -> None:
    """Note both sides of each vote of a period as they stand after it."""
    order, a, b, _ = votes
    first, end, now = span
    _, _, most = limits
    _, _, due = work
    mu, var, _, _, s = state
    traced_mu, traced_var, traced_s = trace
    for n in range(first, end):
        for at, k in ((2 * n, a[order[n]]), (2 * n + 1, b[order[n]])):
            idle = now + 1 - due[k] if due[k] >= 0 else 0
            traced_mu[at], traced_s[at] = mu[k], s[k]
            traced_var[at] = min(most, var[k] + idle * s[k])


#: What the two replays are made of, for the compiler.
PARTS = (damping, evidence, settled, move, open_period, sum_period, close_period, trace_period)
