"""Replaying votes through Glicko-2, one by one or in rating periods.

Python runs the steps on lists; above `COMPILED_FROM` votes the very same functions run compiled,
where Numba is installed, so both do the same operations in the same order. Periods are few, and
not compiled.

All quantities are in Glicko-2's own scale: `mu` is the distance from the start rating and `var`
is RD squared, both in units of `SCALE` points; `s` is the volatility squared, `log_s` its
logarithm, and `damp` the paper's g(RD). The paper's v and delta appear as `info` = 1/v and
`pull` = delta/v, which stay finite however one-sided a game is.
"""

from collections import defaultdict
from collections.abc import Callable
from itertools import groupby
from math import copysign, exp, inf, log, pi, sqrt
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from arena_kit.fanout import fan_out, shares
from arena_kit.rating.compiled import Kernel, numba_pays
from arena_kit.rating.resampling import Games

#: Votes from which compiled code pays for its start (below it plain Python is quicker).
COMPILED_FROM = 100_000
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
#: How far volatility may move at a time (tau), and the least and most that var may be.
Limits: TypeAlias = tuple[float, float, float]
#: mu, var, damp, log_s and s of each model.
State: TypeAlias = tuple[Floats, Floats, Floats, Floats, Floats]
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
    votes: Votes, period: list[int], limits: Limits, state: State, trace: Trace
) -> None:
    """Play votes in rating periods, changing `state`: all votes of a period count together.

    `period` numbers the period of each vote, rising along the order. From its first game on,
    a model's RD grows by its volatility in every period without one.
    """
    order, a, b, score = votes
    mu, var, damp, _, s = state
    since = [-1] * len(var)  # the period at whose onset a model's state stands

    def grown(k: int, now: int) -> float:
        """The variance of a model at the onset of a period."""
        idle = now - since[k] if since[k] >= 0 else 0
        return min(limits[2], var[k] + idle * s[k])

    now = -1
    for now, places in groupby(range(len(order)), lambda n: period[order[n]]):
        numbers = list(places)
        sides = [(a[order[n]], b[order[n]], score[order[n]]) for n in numbers]
        info, pull = defaultdict[int, float](float), defaultdict[int, float](float)
        for k in {k for i, j, won in sides if won >= 0 for k in (i, j)}:
            var[k] = grown(k, now)
            damp[k] = damping(var[k])
        for i, j, won in (each for each in sides if each[2] >= 0):
            for k, other, got in ((i, j, won), (j, i, 1.0 - won)):
                more_info, more_pull = evidence(mu[k] - mu[other], damp[other], got)
                info[k] += more_info
                pull[k] += more_pull
        for k in info:
            move(k, info[k], pull[k], limits, state)
            since[k] = now + 1
        for n, (i, j, _) in zip(numbers, sides, strict=True) if len(trace[0]) else ():
            for at, k in ((2 * n, i), (2 * n + 1, j)):
                trace[0][at], trace[1][at], trace[2][at] = mu[k], grown(k, now + 1), s[k]
    for k in range(len(var)):
        var[k] = grown(k, now + 1)


_votes_kernel = Kernel(replay_votes, parts=(damping, evidence, settled, move))


class States(NamedTuple):
    """Where models stand, one entry of each array per model (or per side of a vote)."""

    mu: NDArray[np.float64]
    var: NDArray[np.float64]
    s: NDArray[np.float64]


Play = Callable[[NDArray[Any], States, int], tuple[States, States]]


def replay(
    games: Games,
    start: States,
    limits: Limits,
    *,
    period: NDArray[np.int64] | None = None,
    traced: bool = False,
    compiled: bool | None = None,
) -> States:
    """Where every model stands after the games, played in the order given; or, `traced`, where both
    sides of every game stand after it (or after its period), shaped (games, 2).

    With `period` (a number per game, rising) they are played in rating periods. `compiled`
    forces one engine; None picks by the amount of work.
    """
    n = len(games.a)
    play = _engine(games, limits, period, _compiled(n, period, compiled))
    final, trace = play(np.arange(n, dtype=np.int32), start, n if traced else 0)
    return States(*(each.reshape(-1, 2) for each in trace)) if traced else final


def replay_sets(
    games: Games,
    start: States,
    limits: Limits,
    sets: NDArray[np.int32],
    sizes: NDArray[np.int32],
    *,
    period: NDArray[np.int64] | None = None,
    compiled: bool | None = None,
) -> NDArray[np.float64]:
    """Final `mu` of each resample, shaped (resamples, models).

    The games of resample i are the first `sizes[i]` entries of row i of `sets`, played in the
    order of `games`.
    """
    compiled = _compiled(int(sizes.sum(dtype=np.int64)), period, compiled)

    def share(some: slice) -> NDArray[np.float64]:
        play = _engine(games, limits, period, compiled)
        rows = zip(sets[some], sizes[some], strict=True)
        return np.stack([play(row[:size], start, 0)[0].mu for row, size in rows])

    return np.concatenate(
        [*fan_out(share, shares(len(sets)), by="threads" if compiled else "here")]
    )


def _compiled(votes: int, period: NDArray[np.int64] | None, wanted: bool | None) -> bool:
    """Whether votes are replayed by Numba; periods never are."""
    return period is None and (numba_pays(votes, COMPILED_FROM) if wanted is None else wanted)


def _engine(games: Games, limits: Limits, period: NDArray[np.int64] | None, compiled: bool) -> Play:
    """A function that plays some of the games from a start, and gives (final, traced) states."""
    box: Any = _plain_array if compiled else np.ndarray.tolist
    votes: Callable[..., None] = _votes_kernel if compiled else replay_votes
    games_columns = tuple(box(column) for column in (games.a, games.b, games.score))

    def play(order: NDArray[Any], start: States, n_traced: int) -> tuple[States, States]:
        played = (box(order), *games_columns)
        state = tuple(box(column) for column in columns(start))
        trace = tuple(box(np.empty(2 * n_traced)) for _ in range(3))
        if period is None:
            votes(played, limits, state, trace)
        else:
            replay_periods(played, period.tolist(), limits, state, trace)
        return _states(state[0], state[1], state[4]), _states(*trace)

    return play


def columns(start: States) -> tuple[NDArray[np.float64], ...]:
    """What the steps keep of each model: mu, var, damp, log_s and s."""
    damp = 1.0 / np.sqrt(1.0 + DAMPING * start.var)
    return start.mu.copy(), start.var.copy(), damp, np.log(start.s), start.s.copy()


def _plain_array(column: NDArray[Any]) -> NDArray[Any]:
    """The column itself where it is laid out as the kernels were compiled for, else a copy."""
    return np.require(column, requirements=["C", "W"])


def _states(mu: Floats, var: Floats, s: Floats) -> States:
    return States(*(np.asarray(each, float) for each in (mu, var, s)))
