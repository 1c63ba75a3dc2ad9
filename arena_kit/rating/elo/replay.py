"""Replaying battles through Elo in many shuffled orders at once.

Two engines compute the same thing. NumPy moves all replays forward in lockstep and needs no
compiler; above `COMPILED_FROM` updates a Numba kernel takes over where Numba is installed
(design/engines.md). Both draw the same orders from the same counters, so a result does not depend
on the number of threads, and on the engine only by rounding (1e-9): a result names its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from arena_kit.fanout import fan_out, shares
from arena_kit.rating.compiled import Kernel, numba_pays
from arena_kit.rating.resampling import GAMMA, Games, mix, random_bits

#: Elo updates from which compiled code pays for its start (below it NumPy is quicker).
COMPILED_FROM = 10_000_000

Engine = Literal["numpy", "numba"]

_BLOCK = 4_000_000  # games laid out at once
_S32 = np.uint64(32)


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
    width = max(64, _BLOCK // max(1, sets.shape[1]))
    blocks = [slice(start, start + width) for start in range(0, len(seeds), width)]
    a, b, score, cell = _cells(games)
    played = cell[sets]

    def share(some: slice) -> NDArray[np.float64]:
        rows = row_of[some]
        if not compiled:
            index = _shuffled(sets[rows].T, seeds[some], sizes[rows])
            return _play(games, rules, index, sizes[rows])
        q = np.ones((len(rules), len(rows), games.n_models))
        order = np.empty(sets.shape[1], np.uint32)
        for ratings, rule in zip(q, rules, strict=True):
            step = rule.k * np.log(10.0) / rule.scale
            replay(a, b, step * score, played, sizes, rows, seeds[some], step, order, ratings)
            ratings[:] = rule.initial + rule.scale / np.log(10.0) * np.log(ratings)
        return q

    if compiled:
        return np.concatenate([*fan_out(share, shares(len(seeds)))], axis=1)
    return np.concatenate([*fan_out(share, blocks, by="here")], axis=1)


def engine_for(updates: float) -> Engine:
    """What replays so many updates sooner: Numba, where it is installed and pays for its start."""
    return "numba" if numba_pays(updates, COMPILED_FROM) else "numpy"


def replay_in_order(games: Games, rule: EloRule) -> NDArray[np.float64]:
    """Final ratings of one replay in the given order, as a single row."""
    index = np.arange(len(games.a), dtype=np.int32)[:, None]
    return np.asarray(_play(games, [rule], index, np.array([len(games.a)], np.int32))[0])


def _shuffled(
    index: NDArray[np.int32], seeds: NDArray[np.uint64], sizes: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Fisher-Yates down each column of `index`, over its first `sizes` entries."""
    index = index.copy()
    column = np.arange(len(seeds))
    for i in range(int(sizes.max(initial=0)) - 1, 0, -1):
        bits = random_bits(seeds, np.array([i], np.uint64))
        j = ((bits >> _S32) * np.uint64(i + 1)) >> _S32
        j = np.where(i < sizes, j, np.uint64(i)).astype(np.intp)
        index[i], index[j, column] = index[j, column], index[i].copy()
    return index


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


def _cells(
    games: Games,
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.float64], NDArray[np.uint32]]:
    """Both sides and the score of each cell (sides and score), and the cell of each game: there are
    few, so that a replay finds them in the nearest cache.
    """
    score, ended = np.unique(games.score, return_inverse=True)
    key = (games.a.astype(np.int64) * games.n_models + games.b) * len(score) + ended
    cells, of_game = np.unique(key, return_inverse=True)
    pair, ended = np.divmod(cells, len(score))
    a, b = np.divmod(pair, games.n_models)
    return a.astype(np.uint32), b.astype(np.uint32), score[ended], of_game.astype(np.uint32)


def _shuffle(seed: np.uint64, cells: Any, size: int, order: Any) -> None:
    """Lay the games out in a row and shuffle them (Fisher-Yates)."""
    for n in range(size):
        order[n] = cells[n]
    for n in range(size - 1, 0, -1):
        bits = mix(seed + np.uint64(n) * GAMMA) >> _S32
        m = (bits * np.uint64(np.uint32(n + 1))) >> _S32
        order[n], order[m] = order[m], order[n]


def _replay(
    a: Any, b: Any, gain: Any, sets: Any, sizes: Any, row_of: Any, seeds: Any, step: Any,
    order: Any, q: Any,
) -> None:  # fmt: skip
    """Replay one shuffled order per seed, from strengths `q`, a row per seed, which change.

    Strengths q = 10^(rating/scale) stand in for ratings while playing: the expected score is then
    one division, and a step multiplies q by exp of something small. `a`, `b` and `gain` are of each
    cell, `sets` has the cells of the games in each row; `order` is room to work in.
    """
    for n in range(len(seeds)):
        row, strengths = row_of[n], q[n]
        _shuffle(seeds[n], sets[row], sizes[row], order)
        for game in range(sizes[row]):
            kind = order[game]
            first, second = strengths[a[kind]], strengths[b[kind]]
            factor = exp(gain[kind] - step * (first / (first + second)))
            strengths[a[kind]], strengths[b[kind]] = first * factor, second / factor


replay = Kernel(_replay, "contract", parts=(mix, _shuffle))
