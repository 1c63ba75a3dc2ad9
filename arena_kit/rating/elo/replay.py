"""Replaying battles through Elo in many shuffled orders at once.

Two engines compute the same thing. NumPy moves all replays forward in lockstep and needs no
compiler; above `COMPILED_FROM` updates a Numba kernel takes over where Numba is installed
(design/engines.md). Both draw the same orders from the same counters, so a result does not depend
on the number of threads, and on the engine only by rounding (1e-9): a result names its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, factorial
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
_LANES = 4  # replays side by side: while one waits for a division, the others compute
_S32 = np.uint64(32)
_SMALL = 0.25  # steps up to this size take the series of exp to its 11th power, exact there
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11 = (1 / factorial(n) for n in range(2, 12))


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
        order = np.empty((_LANES, sets.shape[1]), np.uint32)
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


def _moved(first: float, second: float, gain: float, step: float) -> tuple[float, float]:
    """Both strengths after a game; `gain` is the first side's score times the step."""
    x = gain - step * (first / (first + second))
    if step < _SMALL:
        y = x * x
        even = 1 + y * (_C2 + y * (_C4 + y * (_C6 + y * (_C8 + y * _C10))))
        odd = x * (1 + y * (_C3 + y * (_C5 + y * (_C7 + y * (_C9 + y * _C11)))))
        return first * (even + odd), second * (even - odd)
    return first * exp(x), second * exp(-x)


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
    last = len(seeds) - 1
    o0, o1, o2, o3 = order[0], order[1], order[2], order[3]
    for first in range(0, len(seeds), 4):
        lanes = min(4, len(seeds) - first)
        fewest = sizes[row_of[first]] if lanes == 4 else 0
        for lane in range(lanes):
            row = row_of[first + lane]
            fewest = min(fewest, sizes[row])
            _shuffle(seeds[first + lane], sets[row], sizes[row], order[lane])
        q0, q1 = q[first], q[min(first + 1, last)]
        q2, q3 = q[min(first + 2, last)], q[min(first + 3, last)]
        for n in range(fewest):
            k0, k1, k2, k3 = o0[n], o1[n], o2[n], o3[n]  # all are read before any is written
            i0, i1, i2, i3 = a[k0], a[k1], a[k2], a[k3]
            j0, j1, j2, j3 = b[k0], b[k1], b[k2], b[k3]
            x0, x1, x2, x3 = q0[i0], q1[i1], q2[i2], q3[i3]
            y0, y1, y2, y3 = q0[j0], q1[j1], q2[j2], q3[j3]
            q0[i0], q0[j0] = _moved(x0, y0, gain[k0], step)
            q1[i1], q1[j1] = _moved(x1, y1, gain[k1], step)
            q2[i2], q2[j2] = _moved(x2, y2, gain[k2], step)
            q3[i3], q3[j3] = _moved(x3, y3, gain[k3], step)
        for lane in range(lanes):
            mine = q[first + lane]
            for n in range(fewest, sizes[row_of[first + lane]]):
                k = order[lane, n]
                i, j = a[k], b[k]
                mine[i], mine[j] = _moved(mine[i], mine[j], gain[k], step)


replay = Kernel(_replay, "contract", parts=(mix, _moved, _shuffle))
