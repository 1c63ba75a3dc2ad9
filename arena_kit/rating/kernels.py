"""Numba kernels; imported only where the work pays for it (see `elo_replay.COMPILED_FROM`).

They are plain loops over arrays that the caller made: Numba compiles those in a fraction of the
time that array expressions take, and the first call in a new environment waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from math import exp, factorial, sqrt
from threading import Timer
from typing import Any

import numpy as np
from numba import njit, typeof
from numba.extending import register_jitable
from numpy.typing import NDArray

from arena_kit.rating.bradley_terry.likelihood import damping
from arena_kit.rating.glicko2 import steps as glicko2_steps
from arena_kit.rating.splitmix import GAMMA, mix

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Places = NDArray[np.uint64]

_S11, _S32 = np.uint64(11), np.uint64(32)
_LOWER = np.uint64(0xFFFFFFFF)
_UNIT = 2.0**-53

#: Steps up to these sizes take the series of exp to its 7th or 11th power, which is exact there.
TINY, _SMALL = 0.05, 0.25
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11 = (1 / factorial(n) for n in range(2, 12))
#: Replays side by side: while one waits for a division, the others compute.
LANES = 4
#: Conjugate gradients stop at this share of the first residual; Newton's next step takes the rest.
_FORCING = 1e-4
#: What kernels do without, since compiling it takes time: reference counts (they make no arrays),
#: a way to be called from C, and rewritten array expressions.
_LEAN: dict[str, Any] = {"_nrt": False, "no_cfunc_wrapper": True, "no_rewrites": True}
_PATIENCE = 1.0  # seconds; loading what was compiled before takes less


class Kernel:
    """A function that is compiled, or loaded from Numba's cache, at its first call; the first that
    takes long says so.
    """

    def __init__(self, function: Callable[..., Any], *fastmath: str) -> None:
        self.compiled = njit(
            function, nogil=True, cache=True, error_model="numpy", fastmath=set(fastmath), **_LEAN
        )
        self.ready = False

    def __call__(self, *args: Any) -> Any:
        if not self.ready:
            self._compile(args)
        return self.compiled(*args)

    def _compile(self, args: tuple[Any, ...]) -> None:
        told = Timer(_PATIENCE, _tell)
        told.daemon = True
        told.start()
        try:
            self.compiled.compile(tuple(map(typeof, args)))
        finally:
            told.cancel()
        self.ready = True


@cache
def _tell() -> None:
    said = "preparing kernels: they are compiled once in an environment, which takes a few seconds"
    logging.getLogger("arena_kit").warning(said)


register_jitable(mix)
_damping = register_jitable(damping)


@register_jitable
def _moved_little(first: float, second: float, gain: float, step: float) -> tuple[float, float]:
    """The same as `_moved` for steps below `TINY`."""
    x = gain - step * (first / (first + second))
    y = x * x
    even = 1 + y * (_C2 + y * (_C4 + y * _C6))
    odd = x * (1 + y * (_C3 + y * (_C5 + y * _C7)))
    return first * (even + odd), second * (even - odd)


@register_jitable
def _moved(first: float, second: float, gain: float, step: float) -> tuple[float, float]:
    """Both strengths after a game; `gain` is the first side's score times the step."""
    x = gain - step * (first / (first + second))
    if step < _SMALL:
        y = x * x
        even = 1 + y * (_C2 + y * (_C4 + y * (_C6 + y * (_C8 + y * _C10))))
        odd = x * (1 + y * (_C3 + y * (_C5 + y * (_C7 + y * (_C9 + y * _C11)))))
        return first * (even + odd), second * (even - odd)
    return first * exp(x), second * exp(-x)


@register_jitable
def _place(seed: np.uint64, i: int) -> np.uint64:
    """With which of the first i + 1 entries a shuffle swaps entry i."""
    bits = mix(seed + np.uint64(i) * GAMMA) >> _S32
    return (bits * np.uint64(np.uint32(i + 1))) >> _S32


def _replaying(moved: Callable[..., tuple[float, float]]) -> Callable[..., None]:  # noqa: C901
    """The replays of Elo, by the way strengths are `moved`; only what is called is compiled."""

    def replay(  # noqa: C901 (one function compiles in less time than several)
        a: NDArray[np.uint32],
        b: NDArray[np.uint32],
        gain: Floats,
        sets: NDArray[np.uint32],
        sizes: NDArray[np.int32],
        row_of: Codes,
        seeds: NDArray[np.uint64],
        step: float,
        order: NDArray[np.uint32],
        drawn: NDArray[np.uint32],
        q: Floats,
    ) -> None:
        """Replay one shuffled order per seed, from strengths `q`, a row per seed, which change.

        Strengths q = 10^(rating/scale) stand in for ratings while playing: the expected
        score is then one division, and a step multiplies q by exp of something small. `a`, `b` and
        `gain` are of each kind of game, `sets` has the kinds of the games in each row; `order` and
        `drawn` are room to work in. Four replays are played side by side, and the swaps of the next
        four are drawn meanwhile: that takes integers, playing fractions, and processors do both.
        """
        last = len(seeds) - 1
        o0, o1, o2, o3 = order[0], order[1], order[2], order[3]
        d0, d1, d2, d3 = drawn[0], drawn[1], drawn[2], drawn[3]
        for lane in range(4):
            ahead = min(lane, last)
            for n in range(sizes[row_of[ahead]]):
                drawn[lane, n] = _place(seeds[ahead], n)
        for first in range(0, len(seeds), 4):
            lanes = min(4, len(seeds) - first)
            together = sizes[row_of[first]] if lanes == 4 else 0
            for lane in range(lanes):
                row = row_of[first + lane]
                size = sizes[row]
                together = min(together, size)
                for n in range(size):
                    order[lane, n] = sets[row, n]
                for n in range(size - 1, 0, -1):
                    m = drawn[lane, n]
                    order[lane, n], order[lane, m] = order[lane, m], order[lane, n]
            q0, q1 = q[first], q[min(first + 1, last)]
            q2, q3 = q[min(first + 2, last)], q[min(first + 3, last)]
            s0, s1 = seeds[min(first + 4, last)], seeds[min(first + 5, last)]
            s2, s3 = seeds[min(first + 6, last)], seeds[min(first + 7, last)]
            for n in range(together):
                k0, k1, k2, k3 = o0[n], o1[n], o2[n], o3[n]  # all are read before any is written
                i0, i1, i2, i3 = a[k0], a[k1], a[k2], a[k3]
                j0, j1, j2, j3 = b[k0], b[k1], b[k2], b[k3]
                x0, x1, x2, x3 = q0[i0], q1[i1], q2[i2], q3[i3]
                y0, y1, y2, y3 = q0[j0], q1[j1], q2[j2], q3[j3]
                q0[i0], q0[j0] = moved(x0, y0, gain[k0], step)
                q1[i1], q1[j1] = moved(x1, y1, gain[k1], step)
                q2[i2], q2[j2] = moved(x2, y2, gain[k2], step)
                q3[i3], q3[j3] = moved(x3, y3, gain[k3], step)
                d0[n], d1[n] = _place(s0, n), _place(s1, n)
                d2[n], d3[n] = _place(s2, n), _place(s3, n)
            for lane in range(4):
                ahead = min(first + lane, last)
                for n in range(together, sizes[row_of[ahead]] if lane < lanes else 0):
                    k = order[lane, n]
                    i, j = a[k], b[k]
                    q[ahead, i], q[ahead, j] = moved(q[ahead, i], q[ahead, j], gain[k], step)
                ahead = min(first + 4 + lane, last)
                for n in range(together, sizes[row_of[ahead]]):
                    drawn[lane, n] = _place(seeds[ahead], n)

    return replay


def _lookup(
    key: np.uint64,
    first: NDArray[np.int64],
    size: NDArray[np.int64],
    least: Floats,
    steps: Floats,
    guide: NDArray[np.int64],
    out: Floats,
) -> None:
    """A Poisson number per row, looked up in its table; see `resampling.PoissonRedraw`."""
    for i in range(len(first)):
        u = np.float64(mix(key + np.uint64(i + 1) * GAMMA) >> _S11) * _UNIT
        passed = guide[first[i] + int(u * size[i])]
        while steps[first[i] + passed] <= u:
            passed += 1
        out[i] = least[i] + passed


def _tally(
    drawn: NDArray[np.uint32],
    more: NDArray[np.uint32],
    clusters: NDArray[np.uint32],
    ends: NDArray[np.uint32],
    times: Places,
    sums: Places,
    out: Floats,
    out_more: Floats,
) -> None:
    """How often the rows of each cell were drawn, in two resamples at once. The rows of a cell, by
    their clusters, stand together and end before `ends[c]`: their number is the difference of two
    running sums, that of the second resample in the upper half. `times`, all 0, and `sums` are room
    to work in.
    """
    one, first, c = np.uint64(1), np.uint64(0), np.uint64(0)
    rows, cells = np.uint64(len(clusters)), np.uint64(len(ends))
    total, before = np.uint64(0), np.uint64(0)
    for i in range(len(drawn)):
        times[drawn[i]] += one
        times[more[i]] += one << _S32
    size = np.uint64(len(sums))
    while first < rows:
        size = size if first + size < rows else rows - first
        for i in range(size):
            total += times[clusters[first + i]]
            sums[i] = total
        first += size
        while c < cells and ends[c] <= first:
            now = sums[size - (first - ends[c]) - one]
            out[c] = np.float64((now - before) & _LOWER)
            out_more[c] = np.float64((now - before) >> _S32)
            before = now
            c += one


@register_jitable
def _product(x: Any, y: Any) -> float:
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@register_jitable
def _total(x: Any) -> float:
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return total


def _climb(  # noqa: C901, PLR0912, PLR0915 (one function compiles in less time)
    cell: Places,
    won: Floats,
    games: Floats,
    times: Floats,
    wins: Floats,
    total: Floats,
    curve: Floats,
    curvature: Floats,
    inverse: NDArray[np.float32],
    tolerance: float,
    taken: Floats,
    q: Floats,
    gained: Floats,
    slope: Floats,
    step: Floats,
    scale: Floats,
    scaled: NDArray[np.float32],
    queue: Places,
    theta: Floats,
) -> int:
    """Move strengths to the peak for resampled cells, in place, by Broyden's method: 1 where they
    settled, 0 where they did not, -1 where no peak exists.

    `wins` of the lower side and `total` are square tables, laid out flat, that come with the prior
    and leave with the resample. Cell i is at `cell[i]`; its lower side won `won[i]` of `games[i]`
    times, and it counts `times[i]`-fold. `inverse` is that of the curvature of all battles, whose
    diagonal is `curvature`, and one battle of a pair adds `curve` to it: so much more or less often
    as a model was drawn, its row is scaled. Tables have a multiple of four columns, and strengths,
    which models without battles fill. `taken` holds the steps, the arrays after it are room to work
    in: `gained` and `scale` come as 0, `queue` with all models. Places are unsigned, so that none
    counts from the end: else the loops would not be vectorised. A direction needs few digits, so
    single precision finds it, and the steps' length tells when the peak is reached.
    """
    n, size = np.uint64(len(queue)), np.uint64(len(theta))
    zero, one, two, three = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)
    four = np.uint64(4)
    for c in range(len(cell)):
        wins[cell[c]] += times[c] * won[c]
        total[cell[c]] += times[c] * games[c]
    row, hub = zero, zero
    for i in range(n):  # what each model won, and its curvature
        mine, bent = 0.0, 0.0
        for j in range(i + one, n):
            mine += wins[row + j]
            gained[j] += total[row + j] - wins[row + j]
            each = total[row + j] * curve[row + j]
            bent += each
            scale[j] += each
        gained[i] += mine
        scale[i] += bent
        if scale[i] > scale[hub]:
            hub = np.uint64(i)
        row += size
    queue[zero], queue[hub] = hub, zero
    for way in range(2):  # whether searches from one model reach all, down from winners, then up
        first, last = zero, one
        while first < last < n:
            i = queue[first]
            first += one
            for place in range(last, n):
                j = queue[place]
                pair = i * size + j if i < j else j * size + i
                each = wins[pair] if (i < j) == (way == 0) else total[pair] - wins[pair]
                if each > 0.0:
                    queue[place], queue[last] = queue[last], j
                    last += one
        if last < n:
            return -1
    for i in range(n):
        scale[i] = sqrt(curvature[i] / scale[i])
    for k in range(len(taken) // size):
        for i in range(size):
            q[i] = exp(theta[i])
            slope[i] = 0.0
        for i in range(zero, size, four):  # four models share a division with each other one
            row, i1, i2, i3 = i * size, i + one, i + two, i + three
            row1, row2, row3 = row + size, row + two * size, row + three * size
            a, b, c, d = q[i], q[i1], q[i2], q[i3]
            of_a = of_b = of_c = of_d = 0.0
            for j in range(i, size):  # below the diagonal are no battles
                aj, bj, cj, dj = a + q[j], b + q[j], c + q[j], d + q[j]
                ab, cd = aj * bj, cj * dj
                each = 1.0 / (ab * cd)
                ab, cd = each * cd, each * ab
                aj, bj = total[row + j] * (ab * bj), total[row1 + j] * (ab * aj)
                cj, dj = total[row2 + j] * (cd * dj), total[row3 + j] * (cd * cj)
                slope[j] += (aj + bj) + (cj + dj)
                of_a += aj
                of_b += bj
                of_c += cj
                of_d += dj
            slope[i] += of_a
            slope[i1] += of_b
            slope[i2] += of_c
            slope[i3] += of_d
        for i in range(size):
            scaled[i] = scale[i] * (gained[i] - q[i] * slope[i])
        row, drift = zero, 0.0
        for i in range(n):
            product = np.float32(0.0)
            for j in range(size):
                product += inverse[row + j] * scaled[j]
            step[i] = scale[i] * product
            drift += step[i]
            row += size
        for i in range(n):
            step[i] -= drift / n
        row, shrink = zero, 1.0
        for m in range(k):
            along, square = 0.0, 0.0
            for i in range(n):
                along += taken[row + i] * step[i]
                square += taken[row + i] * taken[row + i]
            along /= square
            row += size
            if m + 1 < k:
                for i in range(n):
                    step[i] += taken[row + i] * along
            else:
                shrink = 1.0 - along
        largest, square = 0.0, 0.0
        for i in range(n):
            move = step[i] / shrink
            theta[i] += move
            taken[row + i] = move
            move *= move
            square += move
            if move > largest:  # noqa: PLR1730 (max compiles another function)
                largest = move
        if not square <= 400.0:
            return 0
        if largest < tolerance * tolerance:
            return 1
    return 0


@register_jitable
def _laplacian(low: Any, high: Any, weight: Any, x: Any, out: Any) -> None:
    """The product of the pairs' Laplacian with a vector."""
    for m in range(len(out)):
        out[m] = 0.0
    for c in range(len(low)):
        flow = weight[c] * (x[low[c]] - x[high[c]])
        out[low[c]] += flow
        out[high[c]] -= flow


@register_jitable
def _conjugate(
    low: Any, high: Any, weight: Any, diagonal: Any, residual: Any, step: Any, way: Any, image: Any
) -> None:
    """Solve the pairs' Laplacian for `residual` into `step` by conjugate gradients with the
    diagonal as preconditioner.
    """
    n = len(step)
    drift = _total(residual) / n  # rounding, which no Laplacian explains
    for m in range(n):
        residual[m] -= drift
        step[m] = 0.0
        way[m] = residual[m] / diagonal[m]
    energy = _product(residual, way)
    aim = energy * _FORCING * _FORCING
    for _ in range(4 * n):
        if not energy > aim:
            return
        _laplacian(low, high, weight, way, image)
        curvature = _product(way, image)
        if not curvature > 0.0:
            return
        far = energy / curvature
        left = 0.0
        for m in range(n):
            step[m] += far * way[m]
            residual[m] -= far * image[m]
            left += residual[m] * residual[m] / diagonal[m]
        for m in range(n):
            way[m] = residual[m] / diagonal[m] + way[m] * (left / energy)
        energy = left


def _ascend(
    low: Codes,
    high: Codes,
    wins: Floats,
    total: Floats,
    tolerance: float,
    most_steps: int,
    weight: Floats,
    work: Floats,
    theta: Floats,
) -> bool:
    """Move strengths to the peak by Newton's method, in place, and say whether they settled. Each
    step is solved by conjugate gradients, so that it costs a few passes over the pairs.
    """
    n = len(theta)
    q, slope, step, way, image, diagonal = work[0], work[1], work[2], work[3], work[4], work[5]
    for _ in range(most_steps):
        for m in range(n):
            q[m] = exp(theta[m])
            slope[m] = diagonal[m] = 0.0
        for c in range(len(low)):
            i, j = low[c], high[c]
            share = q[i] / (q[i] + q[j])
            change = wins[c] - total[c] * share
            weight[c] = total[c] * share * (1.0 - share)
            slope[i] += change
            slope[j] -= change
            diagonal[i] += weight[c]
            diagonal[j] += weight[c]
        _conjugate(low, high, weight, diagonal, slope, step, way, image)
        largest = 0.0
        for m in range(n):
            largest = max(largest, abs(step[m]))
        if not largest < 1e9:
            return False
        short, drift = _damping(largest), _total(step) / n
        for m in range(n):
            theta[m] += short * (step[m] - drift)
        if largest < tolerance:
            return True
    return False


for _part in glicko2_steps.PARTS:
    register_jitable(error_model="numpy")(_part)

replay = Kernel(_replaying(_moved), "contract")
replay_little = Kernel(_replaying(_moved_little), "contract")
lookup = Kernel(_lookup)
tally = Kernel(_tally)
climb = Kernel(_climb, "contract", "reassoc")
ascend = Kernel(_ascend, "contract", "reassoc")
glicko2_votes = Kernel(glicko2_steps.replay_votes)
glicko2_periods = Kernel(glicko2_steps.replay_periods)
