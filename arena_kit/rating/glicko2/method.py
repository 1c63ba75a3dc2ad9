"""Glicko-2: ratings that follow the votes as they come, each with a deviation and a volatility."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from math import inf, isfinite, isnan, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import BOTH_BAD
from arena_kit.battles.log import BattleLog, Strings
from arena_kit.rating import base
from arena_kit.rating.glicko2.replay import (
    SCALE,
    Limits,
    States,
    columns,
    replay,
    replay_sets,
    replay_votes,
)
from arena_kit.rating.resampling import Games, evidence_sets, interval

Floats = NDArray[np.float64]

_DAY = 86_400_000_000  # microseconds


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
        final = self.in_points(
            replay(games, self.start(games.n_models), self.limits(), period=period)
        )
        replicates = self._replicates(log, games, period)
        reasons = [""] * games.n_models
        if self.evidence_replicates:
            reasons = base.why_no_interval(log, games.score, base.MIN_QUESTIONS)
        return base.Ratings(
            method="glicko2",
            settings=asdict(self),
            ratings=_ranked(log, final, replicates, reasons),
            n_battles=len(log),
            dropped=dropped,
            models=log.models,
            traces=final[0][None, :],
            replicates=replicates,
        )

    def kept(self, battles: BattleLog) -> tuple[BattleLog, dict[str, int]]:
        """The battles that count, in the order of replay, and how many of each kind do not."""
        keep, dropped = base.counted(battles, self._dropping("both_bad"))
        return battles.select(replay_order(battles, keep)), dropped

    def history(self, battles: BattleLog) -> GlickoHistory:
        """Where both models stood after each vote; raises `RatingError` as rating does, but not
        where models never met: each then stands where its own votes took it.
        """
        self._check(battles, *self.kept(battles), connected=False)
        rows = replay_order(battles, base.counted(battles, self._dropping())[0])
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

    def _dropping(self, *kinds: str) -> tuple[str, ...]:
        """These kinds of battles, and inconsistent ones where they do not count."""
        return (*kinds, "inconsistent") if self.inconsistent == "drop" else kinds

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

    def _replicates(self, log: BattleLog, games: Games, period: NDArray[np.int64] | None) -> Floats:
        """Ratings of each resample, a row each; NaN where it has none."""
        out = [np.empty((0, games.n_models))]
        if not self.evidence_replicates:
            return out[0]
        start, limits = self.start(games.n_models), self.limits()
        for sets, sizes, rated in evidence_sets(
            games, log.clusters(), self.evidence_replicates, seed=self.seed
        ):
            mu = replay_sets(games, start, limits, sets, sizes, period=period)
            out.append(np.where(rated, self.initial + SCALE * mu, np.nan))
        return np.concatenate(out)


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
    named = [i for i, name in enumerate(ids) if name is not None]
    named.sort(key=ids.__getitem__)
    nameless = [i for i, name in enumerate(ids) if name is None]
    return np.array(named + nameless, np.intp)


def _games(log: BattleLog) -> Games:
    """The battles as games; NaN is the score of one that moves nothing."""
    score = np.where(log.outcome == BOTH_BAD, np.nan, base.scores(log))
    return Games(a=log.a, b=log.b, score=score, n_models=len(log.models))


def _ranked(
    log: BattleLog, final: tuple[Floats, Floats, Floats], replicates: Floats, reasons: list[str]
) -> tuple[base.Rating, ...]:
    rating, rd, volatility = final
    se, low, high = np.where([bool(why) for why in reasons], np.nan, interval(replicates))
    extra = {"rd": rd, "volatility": volatility, "evidence_se": se}
    return base.ranked(log.models, rating, (low, high), log.per_model(), extra, reasons)
