"""Numba kernels; imported only where the work pays for it (see `elo_replay.COMPILED_FROM`)."""

from __future__ import annotations

from math import exp, factorial, log

import numpy as np
from numba import njit
from numba.extending import register_jitable
from numpy.typing import NDArray

from arena_kit.rating import glicko2_steps
from arena_kit.rating.splitmix import GAMMA, mix

_S11, _S32 = np.uint64(11), np.uint64(32)
_UNIT = 2.0**-53

#: Steps up to these sizes take the series of exp to its 7th or 11th power, which is exact there.
_TINY, _SMALL = 0.05, 0.25
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11 = (1 / factorial(n) for n in range(2, 12))


register_jitable(mix)


@njit(nogil=True, cache=True)
def _shuffle(index: NDArray[np.int32], size: int, seed: np.uint64) -> None:
    for i in range(size - 1, 0, -1):
        j = ((mix(seed + np.uint64(i) * GAMMA) >> _S32) * np.uint64(i + 1)) >> _S32
        index[i], index[j] = index[j], index[i]


@njit(nogil=True, cache=True, inline="always", fastmath={"contract"})
def _factors(x: float, largest: float) -> tuple[float, float]:
    """exp(x) and exp(-x), where |x| is never above `largest`."""
    y = x * x
    if largest < _TINY:
        even = 1 + y * (_C2 + y * (_C4 + y * _C6))
        odd = x * (1 + y * (_C3 + y * (_C5 + y * _C7)))
        return even + odd, even - odd
    if largest < _SMALL:
        even = 1 + y * (_C2 + y * (_C4 + y * (_C6 + y * (_C8 + y * _C10))))
        odd = x * (1 + y * (_C3 + y * (_C5 + y * (_C7 + y * (_C9 + y * _C11)))))
        return even + odd, even - odd
    return exp(x), exp(-x)


@njit(nogil=True, cache=True, inline="always", fastmath={"contract"})
def _play(
    a: NDArray[np.int32],
    b: NDArray[np.int32],
    score: NDArray[np.float64],
    games: NDArray[np.int32],
    step: float,
    q: NDArray[np.float64],
) -> None:
    """Play games one after another."""
    for game in games:
        i, j = np.uint64(a[game]), np.uint64(b[game])
        change = step * (score[game] - q[i] / (q[i] + q[j]))
        up, down = _factors(change, step)
        q[i] *= up
        q[j] *= down


@njit(nogil=True, cache=True, fastmath={"contract"})
def replay(
    a: NDArray[np.int32],
    b: NDArray[np.int32],
    score: NDArray[np.float64],
    sets: NDArray[np.int32],
    sizes: NDArray[np.int32],
    row_of: NDArray[np.intp],
    seeds: NDArray[np.uint64],
    k: float,
    initial: float,
    scale: float,
    out: NDArray[np.float64],
) -> None:
    """Replay one shuffled order per seed, writing the final ratings into `out`.

    Strengths q = 10^(rating/scale) stand in for ratings while playing: the expected
    score is then one division, and a step multiplies q by exp of something small. Two
    replays run side by side, so that one computes while the other waits for a division.
    """
    step = k * log(10.0) / scale
    order = np.empty((2, sets.shape[1]), np.int32)
    q = np.empty((2, out.shape[1]))
    size = np.zeros(2, np.int64)
    for r in range(0, len(seeds), 2):
        lanes = min(2, len(seeds) - r)
        size[1] = 0
        for lane in range(lanes):
            row = row_of[r + lane]
            size[lane] = sizes[row]
            order[lane, : size[lane]] = sets[row, : size[lane]]
            _shuffle(order[lane], size[lane], seeds[r + lane])
        q[:] = 1.0
        both = min(size[0], size[1])
        for g in range(both):
            game0, game1 = order[0, g], order[1, g]
            i0, j0 = np.uint64(a[game0]), np.uint64(b[game0])
            i1, j1 = np.uint64(a[game1]), np.uint64(b[game1])
            qi0, qj0, qi1, qj1 = q[0, i0], q[0, j0], q[1, i1], q[1, j1]
            change0 = step * (score[game0] - qi0 / (qi0 + qj0))
            change1 = step * (score[game1] - qi1 / (qi1 + qj1))
            up0, down0 = _factors(change0, step)
            up1, down1 = _factors(change1, step)
            q[0, i0], q[0, j0] = qi0 * up0, qj0 * down0
            q[1, i1], q[1, j1] = qi1 * up1, qj1 * down1
        for lane in range(lanes):
            _play(a, b, score, order[lane, both : size[lane]], step, q[lane])
            out[r + lane] = initial + np.log(q[lane]) * (scale / log(10.0))


@njit(nogil=True, cache=True)
def lookup(
    key: np.uint64,
    first: NDArray[np.int64],
    size: NDArray[np.int64],
    least: NDArray[np.float64],
    steps: NDArray[np.float64],
    guide: NDArray[np.int64],
) -> NDArray[np.float64]:
    """A Poisson number per row, looked up in its table; see `resampling.PoissonRedraw`."""
    out = np.empty(len(first))
    for i in range(len(first)):
        u = np.float64(mix(key + np.uint64(i + 1) * GAMMA) >> _S11) * _UNIT
        passed = guide[first[i] + int(u * size[i])]
        while steps[first[i] + passed] <= u:
            passed += 1
        out[i] = least[i] + passed
    return out


@njit(nogil=True, cache=True)
def _all_reached(
    low: NDArray[np.intp],
    high: NDArray[np.intp],
    up: NDArray[np.bool_],
    down: NDArray[np.bool_],
    start: int,
    n: int,
) -> bool:
    """Whether a search from one model reaches all, where `up[c]` allows pair c from low to high and
    `down[c]` the way back.
    """
    reached = np.zeros(n, np.bool_)
    reached[start] = True
    count, before = 1, 0
    while before < count:
        before = count
        for c in range(len(low)):
            i, j = low[c], high[c]
            if reached[i] == reached[j]:
                continue
            if (up[c] and reached[i]) or (down[c] and reached[j]):
                reached[i] = reached[j] = True
                count += 1
                if count == n:
                    return True
    return count == n


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc"})
def _product(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@njit(nogil=True, cache=True, inline="always", fastmath={"contract", "reassoc"})
def _slopes(
    low: NDArray[np.intp],
    high: NDArray[np.intp],
    wins: NDArray[np.float64],
    total: NDArray[np.float64],
    q: NDArray[np.float64],
    slope: NDArray[np.float64],
) -> None:
    """The slope of the log-likelihood at strengths q, which are exponentials."""
    slope[:] = 0.0
    c = 0
    while c < len(low):
        i = low[c]
        mine = 0.0
        while c < len(low) and low[c] == i:
            change = wins[c] - total[c] * q[i] / (q[i] + q[high[c]])
            mine += change
            slope[high[c]] -= change
            c += 1
        slope[i] += mine


@njit(nogil=True, cache=True, fastmath={"contract", "reassoc"})
def climb(
    pair: NDArray[np.intp],
    won: NDArray[np.float64],
    games: NDArray[np.float64],
    times: NDArray[np.float64],
    prior_low: NDArray[np.float64],
    prior_high: NDArray[np.float64],
    low: NDArray[np.intp],
    high: NDArray[np.intp],
    inverse: NDArray[np.float64],
    tolerance: float,
    most_steps: int,
    theta: NDArray[np.float64],
) -> int:
    """Move strengths to the peak for resampled rows, in place: 1 where they settled, 0 where they
    did not, -1 where no peak exists.

    Row i belongs to `pair[i]`, was won by its lower side `won[i]` of `games[i]` times, and
    counts `times[i]`-fold. Pairs are in the order of `low`.
    """
    wins, total = prior_low.copy(), prior_low + prior_high
    for i in range(len(pair)):
        wins[pair[i]] += times[i] * won[i]
        total[pair[i]] += times[i] * games[i]
    n = len(theta)
    up, down = wins > 0, total > wins
    hub = low[np.argmax(total)]
    if not _all_reached(low, high, up, down, hub, n) or not _all_reached(
        low, high, down, up, hub, n
    ):
        return -1
    taken, lengths = np.empty((most_steps, n)), np.empty(most_steps)
    slope, step = np.empty(n), np.empty(n)
    for k in range(most_steps):
        _slopes(low, high, wins, total, np.exp(theta), slope)
        for m in range(n):
            step[m] = _product(inverse[m], slope)
        for j in range(1, k):
            step += taken[j] * (_product(taken[j - 1], step) / lengths[j - 1])
        if k:
            step /= 1 - _product(taken[k - 1], step) / lengths[k - 1]
        theta += step
        largest = np.abs(step).max()
        if not largest <= 20.0:
            return 0
        if largest < tolerance:
            return 1
        taken[k], lengths[k] = step, _product(step, step)
    return 0


for _part in glicko2_steps.PARTS:
    register_jitable(error_model="numpy")(_part)

glicko2_votes = njit(nogil=True, cache=True, error_model="numpy")(glicko2_steps.replay_votes)
glicko2_periods = njit(nogil=True, cache=True, error_model="numpy")(glicko2_steps.replay_periods)
