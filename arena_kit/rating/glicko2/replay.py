"""Replaying votes through Glicko-2, one by one or in rating periods.

Above `COMPILED_FROM` votes the steps of `glicko2_steps` run compiled, where Numba is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from arena_kit.fanout import fan_out, shares
from arena_kit.rating.base import numba_pays
from arena_kit.rating.elo.replay import Games
from arena_kit.rating.glicko2.steps import DAMPING, Floats, replay_periods, replay_votes

#: Votes from which compiled code pays for its start (below it plain Python is quicker).
COMPILED_FROM = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GlickoRule:
    """How far volatility may move at a time, and the least and most that `var` may be."""

    tau: float
    least: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class States:
    """Where models stand, one entry of each array per model (or per side of a vote)."""

    mu: NDArray[np.float64]
    var: NDArray[np.float64]
    s: NDArray[np.float64]

    @classmethod
    def fresh(cls, n_models: int, *, var: float, s: float) -> Self:
        """Models that have not played."""
        return cls(mu=np.zeros(n_models), var=np.full(n_models, var), s=np.full(n_models, s))


class Running:
    """Models that go on playing: each vote moves them as `replay` would, to the last digit."""

    def __init__(self, rule: GlickoRule, *, var: float, s: float) -> None:
        self._limits = (float(rule.tau), float(rule.least), float(rule.most))
        fresh = _columns(States.fresh(1, var=var, s=s))
        self._fresh: list[float] = [float(column[0]) for column in fresh]
        self._state: tuple[list[float], ...] = ([], [], [], [], [])

    def join(self) -> int:
        """The number of one more model, which has not played."""
        for column, value in zip(self._state, self._fresh, strict=True):
            column.append(value)
        return len(self._state[0]) - 1

    def play(self, a: list[int], b: list[int], score: list[float]) -> None:
        """Play votes in their order; NaN moves nothing."""
        mu, var, damp, log_s, s = self._state
        votes = (list(range(len(a))), a, b, score)
        replay_votes(votes, self._limits, (mu, var, damp, log_s, s), ([], [], []))

    def state(self, model: int) -> tuple[float, float, float]:
        """`mu`, `var` and `s` of a model."""
        mu, var, _, _, s = self._state
        return mu[model], var[model], s[model]


Play = Callable[[NDArray[Any], States, int], tuple[States, States]]


def replay(
    games: Games,
    start: States,
    rule: GlickoRule,
    *,
    period: NDArray[np.int64] | None = None,
    compiled: bool | None = None,
) -> States:
    """Where every model stands after the games, played in the order given.

    With `period` (a number per game, rising) they are played in rating periods. `compiled`
    forces one engine; None picks by the amount of work.
    """
    play = _engine(games, rule, period, _compiled(len(games.a), compiled))
    return play(_all(games), start, 0)[0]


def replay_traced(
    games: Games,
    start: States,
    rule: GlickoRule,
    *,
    period: NDArray[np.int64] | None = None,
    compiled: bool | None = None,
) -> States:
    """Where both sides of every game stand after it (or after its period), shaped (games, 2)."""
    play = _engine(games, rule, period, _compiled(len(games.a), compiled))
    flat = play(_all(games), start, len(games.a))[1]
    return States(mu=flat.mu.reshape(-1, 2), var=flat.var.reshape(-1, 2), s=flat.s.reshape(-1, 2))


def replay_sets(
    games: Games,
    start: States,
    rule: GlickoRule,
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
    compiled = _compiled(int(sizes.sum(dtype=np.int64)), compiled)

    def share(some: slice) -> NDArray[np.float64]:
        play = _engine(games, rule, period, compiled)
        rows = zip(sets[some], sizes[some], strict=True)
        return np.stack([play(np.sort(row[:size]), start, 0)[0].mu for row, size in rows])

    return np.concatenate(
        [*fan_out(share, shares(len(sets)), by="threads" if compiled else "here")]
    )


def _all(games: Games) -> NDArray[np.int32]:
    return np.arange(len(games.a), dtype=np.int32)


def _compiled(votes: int, wanted: bool | None) -> bool:
    return numba_pays(votes, COMPILED_FROM) if wanted is None else wanted


def _engine(
    games: Games, rule: GlickoRule, period: NDArray[np.int64] | None, compiled: bool
) -> Play:
    """A function that plays some of the games from a start, and gives (final, traced) states."""
    box: Callable[[NDArray[Any]], Any] = np.ndarray.tolist
    votes: Callable[..., None] = replay_votes
    periods: Callable[..., None] = replay_periods
    if compiled:
        from arena_kit.rating import kernels

        box, votes, periods = _plain_array, kernels.glicko2_votes, kernels.glicko2_periods
    columns = tuple(box(column) for column in (games.a, games.b, games.score))
    limits = (float(rule.tau), float(rule.least), float(rule.most))
    numbers = None if period is None else box(period)

    def play(order: NDArray[Any], start: States, n_traced: int) -> tuple[States, States]:
        played = (box(order), *columns)
        state = tuple(box(column) for column in _columns(start))
        trace = tuple(box(np.empty(2 * n_traced)) for _ in range(3))
        if numbers is None:
            votes(played, limits, state, trace)
        else:
            n = games.n_models
            work = tuple(map(box, (np.zeros(n), np.zeros(n), np.full(n, -1, np.int64))))
            periods(played, numbers, limits, state, work, trace)
        return _states(state[0], state[1], state[4]), _states(*trace)

    return play


def _columns(start: States) -> tuple[NDArray[np.float64], ...]:
    """What the steps keep of each model: mu, var, damp, log_s and s."""
    damp = 1.0 / np.sqrt(1.0 + DAMPING * start.var)
    return start.mu.copy(), start.var.copy(), damp, np.log(start.s), start.s.copy()


def _plain_array(column: NDArray[Any]) -> NDArray[Any]:
    """The column itself where it is laid out as the kernels were compiled for, else a copy."""
    return np.require(column, requirements=["C", "W"])


def _states(mu: Floats, var: Floats, s: Floats) -> States:
    return States(mu=np.asarray(mu, float), var=np.asarray(var, float), s=np.asarray(s, float))
