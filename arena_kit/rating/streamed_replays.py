"""Elo and Glicko-2 on battles that stay on disk: replayed in order, a chunk at a time.

Resamples are replayed beside the battles themselves: each plays a battle as often as its question
is drawn (`poisson_weights`).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from math import log as ln
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.cells import Rows, Stream
from arena_kit.battles.log import BattleLog, Ints
from arena_kit.fanout import cluster, fan_out, shares
from arena_kit.rating import elo_steps
from arena_kit.rating.base import (
    MIN_QUESTIONS,
    Rating,
    RatingError,
    Ratings,
    ranked,
    scores,
    why_no_interval,
)
from arena_kit.rating.bradley_terry.tie_models import Floats
from arena_kit.rating.claims.critical_values import widening
from arena_kit.rating.elo.method import PermutationElo
from arena_kit.rating.elo.replay import Games
from arena_kit.rating.glicko2.method import Glicko2
from arena_kit.rating.glicko2.replay import GlickoRule, States, replay
from arena_kit.rating.on_disk.bradley_terry import counted, dimensions
from arena_kit.rating.on_disk.poisson_weights import PoissonWeights
from arena_kit.rating.on_disk.sketch import Sketch
from arena_kit.rating.resampling import interval

#: Games of a chunk, times replays, from which compiled code pays for its start.
COMPILED_FROM = 100_000

#: Plays games, each so many times, from a state, and gives the state after them.
Player = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replayed:
    """What is replayed: the kinds of battle that count, and the game that each place of the
    stream's table is (its models, its score, whether it counts).
    """

    log: BattleLog
    dropped: dict[str, int]
    a: Ints
    b: Ints
    score: Floats
    counts: NDArray[np.bool_]
    n_battles: int

    @property
    def n(self) -> int:
        return len(self.log.models)

    def games(self, rows: Rows) -> tuple[Games, NDArray[np.uint64]]:
        """The games of some rows, and the cluster of each."""
        own = self.counts[rows.cell]
        cell = rows.cell[own]
        games = Games(a=self.a[cell], b=self.b[cell], score=self.score[cell], n_models=self.n)
        return games, rows.cluster[own]


def replay_boards(
    method: PermutationElo | Glicko2,
    stream: Stream,
    *,
    only: str | None = None,
    start: Callable[[str], None] = lambda _: None,
) -> tuple[dict[str, Ratings], dict[str, str]]:
    """Ratings of every dimension (or of one `only`) that has one, and why the others have none;
    `start` is told of every pass.
    """
    _check(method, stream)
    rated: dict[str, Ratings] = {}
    unrated: dict[str, str] = {}
    for name, places in dimensions(stream.cells, only):
        try:
            board = _replayed(method, stream, places)
        except RatingError as error:
            unrated[name] = str(error)
            continue
        start(f"replaying {name or 'battles'}")
        rated[name] = _rated(method, stream, board)
    return rated, unrated


def _check(method: PermutationElo | Glicko2, stream: Stream) -> None:
    if isinstance(method, PermutationElo) and method.shuffle:
        raise RatingError(
            "battles on disk are replayed in their order, not shuffled; set shuffle=false and "
            "n_perms=1, or rate fewer battles in memory"
        )
    if isinstance(method, Glicko2) and method.period_days:
        raise RatingError("battles on disk are replayed one by one; set period_days=0")
    if np.any(stream.cells.weight != stream.cells.count):
        raise RatingError("battles are replayed one at a time, so weights cannot be used")


def _replayed(
    method: PermutationElo | Glicko2, stream: Stream, places: NDArray[np.intp]
) -> Replayed:
    cells = stream.cells
    log, rows, dropped = counted(method, cells.log().select(places), cells.count[places])
    a, b = np.zeros((2, len(cells)), np.int32)
    score, counts = np.zeros(len(cells)), np.zeros(len(cells), bool)
    own = places[rows]
    a[own], b[own], score[own], counts[own] = log.a, log.b, scores(log), True
    n_battles = int(cells.count[own].sum())
    return Replayed(
        log=log, dropped=dropped, a=a, b=b, score=score, counts=counts, n_battles=n_battles
    )


def _rated(method: PermutationElo | Glicko2, stream: Stream, board: Replayed) -> Ratings:
    n = method.evidence_replicates
    tasks = shares(n + 1) if cluster() else [slice(0, n + 1)]
    parts = list(fan_out(partial(_some_replays, method, stream, board), tasks, by="here"))
    states = [state for some, _ in parts for state in some]
    seen = parts[0][1].counts().astype(np.intp)
    reasons = why_no_interval(board.log, scores(board.log), MIN_QUESTIONS, seen) if n else []
    if isinstance(method, PermutationElo):
        rating, extra = states[0], {"order_sem": np.full(board.n, np.nan)}
        draws = np.array(states[1:]).reshape(n, board.n)
    else:
        rating, rd, volatility = method.in_points(states[0])
        extra = {"rd": rd, "volatility": volatility}
        draws = np.array([method.in_points(state)[0] for state in states[1:]]).reshape(n, board.n)
    return Ratings(
        method="permutation-elo" if isinstance(method, PermutationElo) else "glicko2",
        settings=asdict(method),
        ratings=_ranked(method, board, rating, draws, reasons or [""] * board.n, seen, extra),
        n_battles=board.n_battles,
        dropped=board.dropped,
        models=board.log.models,
        traces=rating[None, :],
        replicates=draws,
    )


def _some_replays(
    method: PermutationElo | Glicko2, stream: Stream, board: Replayed, some: slice
) -> tuple[list[Any], Sketch]:
    """Where some replays end (the first is that of the battles themselves, the others are
    resamples), and on how many questions each model was seen.
    """
    weights = PoissonWeights.of(method.seed, max(1, method.evidence_replicates))
    play, fresh = _player(method, board)
    states = [fresh() for _ in range(some.start, some.stop)]
    sketch, installed = Sketch(board.n), importlib.util.find_spec("numba") is not None
    for rows in _in_order(method, stream):
        games, clusters = board.games(rows)
        if not some.start:
            sketch.add(games.a.astype(np.intp), clusters)
            sketch.add(games.b.astype(np.intp), clusters)
        compiled = installed and len(clusters) * len(states) >= COMPILED_FROM
        step = partial(_step, partial(play, compiled=compiled), games, clusters, weights)
        states = list(fan_out(step, list(zip(range(some.start, some.stop), states, strict=True))))
    return states, sketch


def _step(
    play: Player,
    games: Games,
    clusters: NDArray[np.uint64],
    weights: PoissonWeights,
    task: tuple[int, Any],
) -> Any:
    """One replay after a chunk of games."""
    number, state = task
    once = np.ones(len(games.a), np.uint8)
    return play(games, weights.times(clusters, number - 1) if number else once, state)


def _in_order(method: PermutationElo | Glicko2, stream: Stream) -> Iterator[Rows]:
    """All battles in the order in which the method replays them."""
    if isinstance(method, Glicko2):
        yield from stream.in_order()
        return
    for share in stream.shares():
        yield from stream.rows(share, "question" if "question" in stream.ways else None)


def _player(method: PermutationElo | Glicko2, board: Replayed) -> tuple[Player, Callable[[], Any]]:
    """What plays games by the method's rule, and what makes a fresh state."""
    if isinstance(method, Glicko2):
        rule = method.rule()
        return partial(_play_glicko, rule), partial(method.start, board.n)
    unit = ln(10) / method.scale
    return partial(_play_elo, method.k, unit), partial(np.full, board.n, method.initial)


def _play_elo(
    k: float, unit: float, games: Games, times: NDArray[np.uint8], state: Floats, *, compiled: bool
) -> Floats:
    columns: list[Any] = [games.a, games.b, games.score, times]
    if compiled:
        from arena_kit.rating.on_disk import kernels as stream_kernels

        ratings = state.copy()
        stream_kernels.play_elo(*columns, k, unit, ratings)
        return ratings
    plain = state.tolist()
    a, b, score, drawn = (column.tolist() for column in columns)
    elo_steps.play(a, b, score, drawn, k, unit, plain)
    return np.array(plain)


def _play_glicko(
    rule: GlickoRule, games: Games, times: NDArray[np.uint8], state: States, *, compiled: bool
) -> States:
    again = np.repeat(np.arange(len(times)), times)
    some = Games(
        a=games.a[again], b=games.b[again], score=games.score[again], n_models=games.n_models
    )
    return replay(some, state, rule, compiled=compiled)


def _ranked(
    method: PermutationElo | Glicko2,
    board: Replayed,
    rating: Floats,
    draws: Floats,
    reasons: list[str],
    seen: NDArray[np.intp],
    extra: dict[str, Floats],
) -> tuple[Rating, ...]:
    se, low, high = np.where([bool(why) for why in reasons], np.nan, interval(draws))
    extra = {**extra, "evidence_se": se}
    if isinstance(method, PermutationElo):
        df = np.maximum(1.0, seen - 1)
        low, high = (rating + widening(df) * (end - rating) for end in (low, high))
        extra["df"] = np.where(np.isfinite(low), df, np.nan)
    sides = np.concatenate([board.log.a, board.log.b])
    n_battles = np.bincount(sides, np.tile(board.log.weights(), 2), board.n)
    return ranked(board.log.models, rating, (low, high), n_battles, extra, reasons)
