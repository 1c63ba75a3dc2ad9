"""Our own numerical code beside SciPy's and DuckDB's: what `design/numerics.md` decides on.

.venv/bin/python benchmarks/numerics.py

Times are the best of several calls, imports those of a fresh process that has NumPy. The last
column is the largest difference between both results.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
from bench import best

from arena_kit import BattleLog, BradleyTerry
from arena_kit.rating.base import strong_groups
from arena_kit.rating.with_judge.placement import _COLDEST, _WARMEST, _best, _nll, _softened

MODULES = ("optimize", "special", "stats", "sparse.csgraph")


def import_seconds(module: str) -> float:
    """What importing a module adds to a process that has NumPy."""
    code = (
        f"import numpy, time; t = time.perf_counter(); import {module}; t = time.perf_counter() - t"
    )
    command = [sys.executable, "-c", f"{code}; print(t)"]
    return min(float(subprocess.check_output(command)) for _ in range(7))


def line(what: str, ours: Callable[[], Any], library: Callable[[], Any]) -> None:
    """Print both times and how far the results are apart."""
    apart = float(np.max(np.abs(np.asarray(ours()) - np.asarray(library()))))
    print(f"{what:<44} {_ms(ours):10.3f} ms {_ms(library):10.3f} ms   {apart:.1g}")


def _ms(call: Callable[[], Any]) -> float:
    return 1e3 * float(best(call)["seconds"])


def graphs(n: int, edges: int) -> None:
    """Strongly connected components of a random graph."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    rng = np.random.default_rng(n)
    winner = rng.integers(0, n, edges)
    loser = (winner + rng.integers(1, n, edges)) % n

    def library() -> Any:
        graph = coo_array((np.ones(edges, bool), (winner, loser)), shape=(n, n))
        return connected_components(graph, connection="strong")[1]

    line(f"components of {n} models, {edges:,} pairs",
         lambda: strong_groups(n, winner, loser), library)  # fmt: skip


def normal(n: int) -> None:
    """The normal distribution function of a table of gaps."""
    from scipy.special import ndtr

    z = np.random.default_rng(n).normal(0, 3, (n, n))
    ours = np.vectorize(NormalDist().cdf, otypes=[float])
    line(f"normal cdf of {n} x {n} gaps", lambda: ours(z), lambda: ndtr(z))


def temperature(n: int) -> None:
    """The best temperature by golden-section search, and by SciPy as `placement` does it."""
    rng = np.random.default_rng(n)
    skill = np.linspace(-1, 1, 20)
    a = rng.integers(0, 20, n).astype(np.int32)
    b = ((a + rng.integers(1, 20, n)) % 20).astype(np.int32)
    models = tuple(f"model-{i:02d}" for i in range(20))

    def log(spread: float) -> BattleLog:
        lost = rng.random(n) > 1 / (1 + np.exp(spread * (skill[b] - skill[a])))
        return BattleLog(models=models, a=a, b=b, outcome=lost.astype(np.int8))

    votes, verdicts, method = log(1.0), log(2.0), BradleyTerry()
    bounds = float(np.log(_COLDEST)), float(np.log(_WARMEST))

    def loss(at: float) -> float:
        return _nll(votes, method.strengths(_softened(verdicts, float(np.exp(at)))))

    line(f"temperature on {n:,} battles (golden section)",
         lambda: _golden(loss, *bounds),
         lambda: _best(votes, verdicts, method, *bounds))  # fmt: skip


def _golden(loss: Callable[[float], float], low: float, high: float) -> float:
    ratio = (5**0.5 - 1) / 2
    inner = [high - ratio * (high - low), low + ratio * (high - low)]
    values = [loss(x) for x in inner]
    while high - low > 1e-3:
        if values[0] <= values[1]:
            high, inner[1], values[1] = inner[1], inner[0], values[0]
            inner[0] = high - ratio * (high - low)
            values[0] = loss(inner[0])
        else:
            low, inner[0], values[0] = inner[0], inner[1], values[1]
            inner[1] = low + ratio * (high - low)
            values[1] = loss(inner[1])
    return (low + high) / 2


def main() -> None:
    """Print imports, then every comparison."""
    for module in MODULES:
        print(f"import scipy.{module:<31} {1e3 * import_seconds(f'scipy.{module}'):10.0f} ms")
    print(f"{'':<44} {'ours':>13} {'library':>13}   apart")
    for size in ((8, 28), (20, 190), (129, 3460), (300, 30_000)):
        graphs(*size)
    for n in (8, 129, 300):
        normal(n)
    temperature(22_000)


if __name__ == "__main__":
    main()
