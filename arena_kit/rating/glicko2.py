"""Glicko-2: ratings that follow the votes as they come, each with a deviation and a volatility.

Python runs the steps on lists; above `COMPILED_FROM` votes the very same functions run compiled,
where Numba is installed, so both do the same operations in the same order. Periods are few, and
not compiled.

Replays are in Glicko-2's own scale: `mu` is the distance from the start rating and `var` is RD
squared, both in units of `SCALE` points; `s` is the volatility squared, `log_s` its logarithm, and
`damp` the paper's g(RD). The paper's v and delta appear as `info` = 1/v and `pull` = delta/v, which
stay finite however one-sided a game is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import groupby
from math import copysign, exp, inf, isfinite, isnan, log, pi, sqrt
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import BOTH_BAD
from arena_kit.battles.log import BattleLog, Strings
from arena_kit.fanout import By, fan_out, shares
from arena_kit.rating import base
from arena_kit.rating.compiled import Kernel, numba_pays
from arena_kit.rating.resampling import Games, interval, replicates

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

_DAY = 86_400_000_000  # microseconds
#: Votes from which compiled code pays for its start (below it plain Python is quicker).
COMPILED_FROM = 100_000
#: Rating points in one unit of Glicko-2's own scale.
SCALE = 400 / log(10)
DAMPING = 3 / (pi * pi)
_FARTHEST = 100.0  # log odds, about 17,000 points: beyond it a game says nothing new
_HIGHEST = 700.0  # log of a variance that exp can still take, above every root
_SETTLED = 1e-7  # a Newton step this short is off by its square
_MOST_STEPS = 100

Numbers: TypeAlias = list[float] | Floats
#: Which votes in which order, first models, second models, scores (NaN moves nothing).
Votes: TypeAlias = tuple[Ints | list[int], Ints | list[int], Ints | list[int], Numbers]
#: How far volatility may move at a time (tau), and the least and most that var may be.
Limits: TypeAlias = tuple[float, float, float]
#: mu, var, damp, log_s and s of each model.
State: TypeAlias = tuple[Numbers, Numbers, Numbers, Numbers, Numbers]
#: mu, var and s of both sides after each vote, or three times nothing.
Trace: TypeAlias = tuple[Numbers, Numbers, Numbers]


@dataclass(frozen=True, slots=True)
class GlickoState:
    """Where one model stands: its rating, rating deviation and volatility."""

    rating: float
    rd: float
    volatility: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GlickoHistory:
    """Every vote in the order of replay, with where both of its models stood after it.

    `battle` is the vote's row in the log that was given, `sides` its two models as indices
    into `models`; `rating`, `rd` and `volatility` have the same two columns. A both-bad vote
    is listed with states that it did not change. With rating periods, all votes of a period
    show the states after that period: what lies between them does not exist.
    """

    models: tuple[str, ...]
    battle: NDArray[np.intp] = field(repr=False)
    sides: NDArray[np.int32] = field(repr=False)
    rating: Floats = field(repr=False)
    rd: Floats = field(repr=False)
    volatility: Floats = field(repr=False)

    def __len__(self) -> int:
        return len(self.battle)

    def of(self, model: str) -> tuple[NDArray[np.intp], Floats, Floats, Floats]:
        """One model's own votes: their rows in the log, and its rating, RD and volatility."""
        if model not in self.models:
            raise KeyError(f"{model!r} has no history; rated: {', '.join(self.models)}")
        own = self.sides == self.models.index(model)
        votes = self.battle[own.any(axis=1)]
        return votes, self.rating[own], self.rd[own], self.volatility[own]


@dataclass(frozen=True, slots=True, kw_only=True)
class Glicko2:
    """Glicko-2 (Glickman 2013), updated after every vote or once per rating period.

    Votes are replayed by time, then by battle id, then as they stand in the log; a vote
    without a time or an id comes after those that have one. A tie is half a win. A both-bad
    vote moves nothing, and a model that has no other votes has no rating.

    RD says how far the next votes may move a rating, not how sure the evidence makes it: with
    per-vote updates and volatility 0.06 it stops falling at about 60, however much evidence
    there is. How sure one can be of a rating is the evidence interval (`ci_low`, `ci_high`):
    whole questions are drawn again and replayed anew.

    Parameters
    ----------
    initial, rd, volatility
        Where a model starts.
    tau
        How quickly volatility may change; Glickman advises 0.3 to 1.2.
    rd_min, rd_max
        Limits that RD is kept in after every update.
    period_days
        0 updates both models of each vote from where they stood before it. Above 0, all votes
        within so many days, counted from midnight (UTC) before the first, count together, and
        each period without a vote widens a model's RD by its volatility, from its first vote on.
    inconsistent
        A judgment whose two orders disagree is left out (`drop`) or is half a win for each
        side (`half`).
    evidence_replicates, seed
        Resamples behind the evidence interval (0 computes none), and the seed they are drawn
        from.
    """

    initial: float = 1500.0
    rd: float = 350.0
    volatility: float = 0.06
    tau: float = 0.5
    rd_min: float = 30.0
    rd_max: float = 350.0
    period_days: float = 0.0
    inconsistent: Literal["drop", "half"] = "drop"
    evidence_replicates: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        replicates = self.evidence_replicates
        base.check_settings(
            self,
            ("initial", isfinite(self.initial), "a finite number"),
            ("volatility", 0 < self.volatility < inf, "a finite number above 0"),
            ("tau", 0 < self.tau < inf, "a finite number above 0"),
            ("rd_min", 0 < self.rd_min < inf, "a finite number above 0"),
            ("rd_max", self.rd_min <= self.rd_max < inf, f"a finite number from {self.rd_min} on"),
            ("rd", self.rd_min <= self.rd <= self.rd_max, f"{self.rd_min} to {self.rd_max}"),
            ("period_days", 0 <= self.period_days < inf, "a finite number, 0 or more"),
            ("evidence_replicates", replicates == 0 or replicates >= 20, "0, or 20 or more"),
            ("seed", self.seed >= 0, "0 or more"),
        )

    def __call__(self, battles: base.Battles) -> base.Ratings:
        """Rate a log or a frame; raises `RatingError` where no rating exists."""
        battles = base.as_log(battles)
        log, dropped = self.kept(battles)
        self._check(battles, log, dropped)
        games, period = _games(log), self._periods(log)
        start, limits = self.start(games.n_models), self.limits()
        rating, rd, volatility = self.in_points(replay(games, start, limits, period=period))

        def rated(sets: Ints, sizes: Ints, _: int) -> Floats:
            mu = replay_sets(games, start, limits, sets, sizes, period=period)
            return self.initial + SCALE * mu[None]

        n = self.evidence_replicates
        draws = replicates(games, log.clusters(), n, rated, seed=self.seed)[0]
        reasons = base.why_no_interval(log, games.score) if n else [""] * games.n_models
        se, low, high = np.where([bool(why) for why in reasons], np.nan, interval(draws))
        extra = {"rd": rd, "volatility": volatility, "evidence_se": se}
        return base.Ratings(
            method="glicko2",
            settings=asdict(self),
            ratings=base.ranked(log.models, rating, (low, high), log.per_model(), extra, reasons),
            n_battles=len(log),
            dropped=dropped,
            models=log.models,
            traces=rating[None, :],
            replicates=draws,
        )

    def kept(self, battles: BattleLog) -> tuple[BattleLog, dict[str, int]]:
        """The battles that count, in the order of replay, and how many of each kind do not."""
        keep, dropped = base.counted(battles, both_bad="drop", inconsistent=self.inconsistent)
        return battles.select(replay_order(battles, keep)), dropped

    def history(self, battles: BattleLog) -> GlickoHistory:
        """Where both models stood after each vote; raises `RatingError` as rating does, but not
        where models never met: each then stands where its own votes took it.
        """
        self._check(battles, *self.kept(battles), connected=False)
        rows = replay_order(battles, base.counted(battles, inconsistent=self.inconsistent)[0])
        log = battles.select(rows)
        games, period = _games(log), self._periods(log)
        states = replay(
            games, self.start(games.n_models), self.limits(), period=period, traced=True
        )
        sides = np.stack([log.a, log.b], axis=1)
        points = dict(zip(("rating", "rd", "volatility"), self.in_points(states), strict=True))
        return GlickoHistory(models=log.models, battle=rows, sides=sides, **points)

    def running(self) -> RunningGlicko2:
        """An arena without votes yet, to be rated as they come."""
        return RunningGlicko2(self)

    def _check(
        self, given: BattleLog, kept: BattleLog, dropped: dict[str, int], *, connected: bool = True
    ) -> None:
        (base.check_kept if connected else base.check_counted)(given, kept, dropped)
        base.check_unweighted(kept, "glicko2")
        if self.period_days:
            times = given.timestamp
            missing = len(given) if times is None else int(np.isnat(times).sum())
            if missing:
                raise base.RatingError(
                    "rating periods need a timestamp on every battle, "
                    f"but {missing} of {len(given)} have none"
                )

    def limits(self) -> Limits:
        """What updates obey."""
        return float(self.tau), (self.rd_min / SCALE) ** 2, (self.rd_max / SCALE) ** 2

    def start(self, n_models: int) -> States:
        """Models that have not played."""
        new = (0.0, (self.rd / SCALE) ** 2, self.volatility**2)
        return States(*(np.full(n_models, each) for each in new))

    def in_points(self, states: States) -> tuple[Floats, Floats, Floats]:
        """Rating, RD and volatility as people read them."""
        rd = np.clip(SCALE * np.sqrt(states.var), self.rd_min, self.rd_max)
        return self.initial + SCALE * states.mu, rd, np.sqrt(states.s)

    def _periods(self, log: BattleLog) -> NDArray[np.int64] | None:
        """The rating period of each battle, counted from the day of the first that counts."""
        if not self.period_days or log.timestamp is None:
            return None
        times = log.timestamp.astype("datetime64[us]")
        first = times[log.outcome != BOTH_BAD].min().astype("datetime64[D]")
        passed: NDArray[np.int64] = (times - first).astype(np.int64)
        return passed // max(1, round(self.period_days * _DAY))


class RunningGlicko2:
    """Every model's state vote by vote: what `Glicko2.history` says after the same votes, to the
    last digit. A model without a vote that counts stands where new ones begin.
    """

    def __init__(self, method: Glicko2) -> None:
        self._method = method
        self._numbers: dict[str, int] = {}
        self._new = [float(column[0]) for column in columns(method.start(1))]
        self._state: tuple[list[float], list[float], list[float], list[float], list[float]]
        self._state = ([], [], [], [], [])
        fresh = GlickoState(method.initial, method.rd, method.volatility)
        self.states: dict[str, GlickoState] = defaultdict(lambda: fresh)

    def play(self, votes: Iterable[tuple[str, str, float]]) -> None:
        """Take in votes in their order: two models, and what the first got; NaN moves nothing."""
        rated = [vote for vote in votes if not isnan(vote[2])]
        names = dict.fromkeys(name for a, b, _ in rated for name in (a, b))
        for name in (name for name in names if name not in self._numbers):
            self._numbers[name] = len(self._numbers)
            for column, value in zip(self._state, self._new, strict=True):
                column.append(value)
        a = [self._numbers[first] for first, _, _ in rated]
        b = [self._numbers[second] for _, second, _ in rated]
        played = (list(range(len(a))), a, b, [vote[2] for vote in rated])
        replay_votes(played, self._method.limits(), self._state, ([], [], []))
        self.states |= {name: self._in_points(self._numbers[name]) for name in names}

    def _in_points(self, model: int) -> GlickoState:
        (mu, var, _, _, s), method = self._state, self._method
        rd = min(method.rd_max, max(method.rd_min, SCALE * sqrt(var[model])))
        return GlickoState(method.initial + SCALE * mu[model], rd, sqrt(s[model]))


def replay_order(log: BattleLog, keep: NDArray[np.bool_] | None = None) -> NDArray[np.intp]:
    """Rows of the kept battles, by default all, by timestamp, then by battle id, then as they
    stand.
    """
    rows = np.arange(len(log)) if keep is None else np.flatnonzero(keep)
    moment = np.zeros(len(rows), np.int64)
    if log.timestamp is not None:
        rows = rows[np.argsort(log.timestamp[rows], kind="stable")]  # NaT comes last
        moment = log.timestamp[rows].view(np.int64)
    if log.battle_id is None:
        return rows
    group = np.concatenate([[0], np.cumsum(moment[1:] != moment[:-1])])[: len(rows)]
    tied = np.flatnonzero(np.bincount(group)[group] > 1)
    by_id = tied[_by_name(log.battle_id[rows[tied]])]
    rows[tied] = rows[by_id[np.argsort(group[by_id], kind="stable")]]
    return rows


def _by_name(names: Strings) -> NDArray[np.intp]:
    """Where the names stand, in their order, None last."""
    ids = names.tolist()
    named = sorted((i for i, name in enumerate(ids) if name is not None), key=ids.__getitem__)
    nameless = [i for i, name in enumerate(ids) if name is None]
    return np.array(named + nameless, np.intp)


def _games(log: BattleLog) -> Games:
    """The battles as games; NaN is the score of one that moves nothing."""
    games = Games.of(log)
    return replace(games, score=np.where(log.outcome == BOTH_BAD, np.nan, games.score))


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

    mu: Floats
    var: Floats
    s: Floats


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
    play = _engine(games, start, limits, period, compiled=_compiled(n, period, compiled))
    return play(np.arange(n, dtype=np.int32), traced=traced)


def replay_sets(
    games: Games,
    start: States,
    limits: Limits,
    sets: Ints,
    sizes: Ints,
    *,
    period: NDArray[np.int64] | None = None,
    compiled: bool | None = None,
) -> Floats:
    """Final `mu` of each resample, shaped (resamples, models).

    The games of resample i are the first `sizes[i]` entries of row i of `sets`, played in the
    order of `games`.
    """
    compiled = _compiled(int(sizes.sum(dtype=np.int64)), period, compiled)

    def share(some: slice) -> Floats:
        play = _engine(games, start, limits, period, compiled=compiled)
        rows = zip(sets[some], sizes[some], strict=True)
        return np.stack([play(row[:size]).mu for row, size in rows])

    by: By = "threads" if compiled else "here"
    return np.concatenate([*fan_out(share, shares(len(sets)), by=by)])


def _compiled(votes: int, period: NDArray[np.int64] | None, wanted: bool | None) -> bool:
    """Whether votes are replayed by Numba; periods never are."""
    return period is None and (numba_pays(votes, COMPILED_FROM) if wanted is None else wanted)


def _engine(
    games: Games,
    start: States,
    limits: Limits,
    period: NDArray[np.int64] | None,
    *,
    compiled: bool,
) -> Callable[..., States]:
    """A function that plays some of the games and gives the final, or the traced, states."""
    box: Any = partial(np.require, requirements=["C", "W"]) if compiled else np.ndarray.tolist
    votes: Callable[..., None] = _votes_kernel if compiled else replay_votes
    games_columns = tuple(box(column) for column in (games.a, games.b, games.score))

    def play(order: Ints, *, traced: bool = False) -> States:
        played = (box(order), *games_columns)
        mu, var, _, _, s = state = tuple(box(column) for column in columns(start))
        trace = tuple(box(np.empty(2 * len(order) * traced)) for _ in range(3))
        if period is None:
            votes(played, limits, state, trace)
        else:
            replay_periods(played, period.tolist(), limits, state, trace)
        found = (np.asarray(each, float) for each in (trace if traced else (mu, var, s)))
        return States(*(each.reshape(-1, 2) if traced else each for each in found))

    return play


def columns(start: States) -> tuple[Floats, ...]:
    """What the steps keep of each model: mu, var, damp, log_s and s."""
    damp = 1.0 / np.sqrt(1.0 + DAMPING * start.var)
    return start.mu.copy(), start.var.copy(), damp, np.log(start.s), start.s.copy()
