"""Replaying battles through Elo in many shuffled orders at once.

Two engines compute the same thing. NumPy moves all replays forward in lockstep and needs
no compiler; above `COMPILED_FROM` updates the Numba kernels of `kernels` take over where
Numba is installed. Both draw the same orders from the same counters, so a result does not
depend on the number of threads, and on the engine only by rounding (1e-9): a result names its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from arena_kit.fanout import fan_out, shares
from arena_kit.rating.base import numba_pays
from arena_kit.rating.splitmix import draw

#: Elo updates from which compiled code pays for its start (below it NumPy is quicker).
COMPILED_FROM = 10_000_000

Engine = Literal["numpy", "numba"]

_BLOCK = 4_000_000  # games laid out at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Games:
    """Games to replay: who met whom and what the first side scored (1, 0.5 or 0)."""

    a: NDArray[np.int32]
    b: NDArray[np.int32]
    score: NDArray[np.float64]
    n_models: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EloRule:
    """The arithmetic of one Elo update."""

    k: float
    initial: float
    scale: float


def replay_orders(
    games: Games,
    rules: Sequence[EloRule],
    seeds: NDArray[np.uint64],
    *,
    sets: NDArray[np.int32] | None = None,
    sizes: NDArray[np.int32] | None = None,
    compiled: bool | None = None,
) -> NDArray[np.float64]:
    """Final ratings, shaped (rules, seeds, models); every rule sees the same orders.

    Replay r shuffles its games with seed r and plays them. By default its games are all
    of them; with `sets` they are the first `sizes[i]` entries of row i of `sets` (indices
    into `games`, repeats allowed), where row i serves an equal share of the replays.
    `compiled` forces one engine; None picks by the amount of work.
    """
    if sets is None or sizes is None:
        sets = np.arange(len(games.a), dtype=np.int32)[None, :]
        sizes = np.array([len(games.a)], np.int32)
    row_of = np.arange(len(seeds)) // (len(seeds) // len(sets))
    if compiled is None:
        work = float(sizes.sum(dtype=float)) * (len(seeds) / len(sets))
        compiled = engine_for(work) == "numba"
    engine = _compiled if compiled else _lockstep
    return engine(games, rules, seeds, sets, sizes, row_of)


def engine_for(updates: float) -> Engine:
    """What replays so many updates sooner: Numba, where it is installed and pays for its start."""
    return "numba" if numba_pays(updates, COMPILED_FROM) else "numpy"


def replay_in_order(games: Games, rule: EloRule) -> NDArray[np.float64]:
    """Final ratings of one replay in the given order, as a single row."""
    index = np.arange(len(games.a), dtype=np.int32)[:, None]
    rows: NDArray[np.float64] = _play(games, [rule], index, np.array([len(games.a)], np.int32))[0]
    return rows


def shuffle_seeds(seed: int, n: int, *, stream: int = 0) -> NDArray[np.uint64]:
    """One 64-bit seed for each of `n` replays; other streams are unrelated."""
    state = np.random.SeedSequence([seed, stream]).generate_state(n, np.uint64)
    return state.astype(np.uint64)


def _shuffled(
    index: NDArray[np.int32], seeds: NDArray[np.uint64], sizes: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Fisher-Yates down each column of `index`, over its first `sizes` entries."""
    index = index.copy()
    column = np.arange(len(seeds))
    for i in range(int(sizes.max(initial=0)) - 1, 0, -1):
        bits = draw(seeds, np.array([i], np.uint64))
        j = ((bits >> np.uint64(32)) * np.uint64(i + 1)) >> np.uint64(32)
        j = np.where(i < sizes, j, np.uint64(i)).astype(np.intp)
        index[i], index[j, column] = index[j, column], index[i].copy()
    return index


def _lockstep(
    games: Games,
    rules: Sequence[EloRule],
    seeds: NDArray[np.uint64],
    sets: NDArray[np.int32],
    sizes: NDArray[np.int32],
    row_of: NDArray[np.intp],
) -> NDArray[np.float64]:
    def share(block: slice) -> NDArray[np.float64]:
        rows = row_of[block]
        index = _shuffled(sets[rows].T, seeds[block], sizes[rows])
        return _play(games, rules, index, sizes[rows])

    width = max(64, _BLOCK // max(1, sets.shape[1]))
    blocks = [slice(start, start + width) for start in range(0, len(seeds), width)]
    return np.concatenate([*fan_out(share, blocks, by="here")], axis=1)


def _play(
    games: Games, rules: Sequence[EloRule], index: NDArray[np.int32], sizes: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Play the games of each column of `index` in order, all columns side by side."""
    n = index.shape[1]
    lane = np.arange(n) * games.n_models
    firsts, seconds = games.a[index] + lane, games.b[index] + lane
    scores = games.score[index]
    over = np.arange(len(index))[:, None] >= sizes  # padding behind the shorter lanes
    ragged = np.any(over, axis=1).tolist()
    out = np.empty((len(rules), n * games.n_models))
    for ratings, rule in zip(out, rules, strict=True):
        ratings[:] = rule.initial
        scale = np.log(10.0) / rule.scale
        for step, (first, second, score) in enumerate(zip(firsts, seconds, scores, strict=True)):
            a, b = ratings[first], ratings[second]
            change = rule.k * (score - 1.0 / (1.0 + np.exp((b - a) * scale)))
            if ragged[step]:
                change[over[step]] = 0.0
            ratings[first] = a + change
            ratings[second] = b - change
    return out.reshape(len(rules), n, games.n_models)


def _compiled(
    games: Games,
    rules: Sequence[EloRule],
    seeds: NDArray[np.uint64],
    sets: NDArray[np.int32],
    sizes: NDArray[np.int32],
    row_of: NDArray[np.intp],
) -> NDArray[np.float64]:
    a, b, score, kind = _kinds(games)
    played = kind[sets]

    def share(rows: slice) -> NDArray[np.float64]:
        from arena_kit.rating import kernels

        q = np.ones((len(rules), rows.stop - rows.start, games.n_models))
        order, drawn = np.empty((2, kernels.LANES, sets.shape[1]), np.uint32)
        for n, rule in enumerate(rules):
            step = rule.k * np.log(10.0) / rule.scale
            replay = kernels.replay_little if step < kernels.TINY else kernels.replay
            replay(
                a, b, step * score, played, sizes, row_of[rows], seeds[rows],
                step, order, drawn, q[n],
            )  # fmt: skip
        return q

    q = np.concatenate([*fan_out(share, shares(len(seeds)))], axis=1)
    starts, points = np.array([(r.initial, r.scale / np.log(10.0)) for r in rules]).T
    ratings: NDArray[np.float64] = starts[:, None, None] + points[:, None, None] * np.log(q)
    return ratings


def _kinds(
    games: Games,
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.float64], NDArray[np.uint32]]:
    """Both sides and the score of each kind of game, and the kind of each game: there are few, so
    that a replay finds them in the nearest cache.
    """
    score, ended = np.unique(games.score, return_inverse=True)
    key = (games.a.astype(np.int64) * games.n_models + games.b) * len(score) + ended
    kinds, kind = np.unique(key, return_inverse=True)
    pair, ended = np.divmod(kinds, len(score))
    a, b = np.divmod(pair, games.n_models)
    return a.astype(np.uint32), b.astype(np.uint32), score[ended], kind.astype(np.uint32)
