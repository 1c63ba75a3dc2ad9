"""Side by side with peers, in one run: ratios, not wall times, are the result.

    make bench

Each line prints what was done, both times, the ratio and the bar it is held to.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import duckdb
import evalica
import numpy as np
import pandas as pd

from arena_kit import BattleLog, PermutationElo, read_battles, write_battles
from arena_kit.battle_log import Labels


def best(work: Callable[[], object], repeats: int = 3) -> float:
    """The shortest of several runs: the least disturbed one."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def line(what: str, ours: float, peer: float, told: str, *, met: bool) -> bool:
    """Print one comparison."""
    verdict = "met" if met else "NOT MET"
    print(f"{what:<56} ours {ours:6.3f} s   peer {peer:6.3f} s   {told}: {verdict}")
    return met


def random_log(n: int, n_models: int, n_questions: int) -> BattleLog:
    """Battles between random models on random questions with random outcomes."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, n_models, n, dtype=np.int32)
    b = ((a + rng.integers(1, n_models, n)) % n_models).astype(np.int32)
    return BattleLog(
        models=tuple(f"model-{i:03d}" for i in range(n_models)),
        a=a,
        b=b,
        outcome=rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1]).astype(np.int8),
        question_id=Labels.of(f"q{q}" for q in rng.integers(0, n_questions, n)),
        dimension=Labels.of("overall" for _ in range(n)),
        battle_id=np.array([f"b{i:07d}" for i in range(n)], object),
    )


def bench_elo() -> bool:
    """10,000 matches, 1,000 shuffled orders, 8 models, against evalica's Elo in a loop.

    evalica is called its fastest public way: integer arrays and a ready index, so that
    nothing but shuffling and replaying is repeated. It runs 50 orders, scaled to 1,000.
    """
    n, n_orders, sample = 10_000, 1_000, 50
    rng = np.random.default_rng(1)
    a = rng.integers(0, 8, n, dtype=np.int32)
    b = ((a + rng.integers(1, 8, n)) % 8).astype(np.int32)
    outcome = rng.integers(0, 2, n).astype(np.int8)
    log = BattleLog(models=tuple("abcdefgh"), a=a, b=b, outcome=outcome)
    method = PermutationElo(k=4, initial=1000, n_perms=n_orders, evidence_replicates=0)
    start = time.perf_counter()
    method(log)
    print(f"first call, with the kernel compiled or loaded: {time.perf_counter() - start:.2f} s")
    ours = best(lambda: method(log))
    index = pd.Index(np.arange(8))
    winners = np.array([evalica.Winner.X, evalica.Winner.Y], object)[outcome]

    def peer() -> None:
        for _ in range(sample):
            order = rng.permutation(n)
            evalica.elo(a[order], b[order], winners[order].tolist(), index=index, initial=1000, k=4)

    theirs = best(peer) * n_orders / sample
    told = f"{theirs / ours:.1f} times faster, bar 25"
    what = f"permutation Elo 10,000 x 1,000 x 8, evalica {version('evalica')}"
    return line(what, ours, theirs, told, met=theirs >= 25 * ours)


def bench_read() -> bool:
    """1,000,000 battles from JSONL, against DuckDB's own read_json on the same file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "battles.jsonl"
        write_battles(path, random_log(1_000_000, 50, 20_000))
        query = f"FROM read_json('{path}')"
        peer = best(lambda: duckdb.connect().execute(f"CREATE TABLE t AS {query}"))
        fetched = best(lambda: duckdb.connect().execute(query).fetchnumpy())
        ours = best(lambda: read_battles(path))
    told = f"{ours / peer:.2f} times its time ({ours / fetched:.2f} into NumPy), bar 2"
    what = f"read 1,000,000 battles, DuckDB {duckdb.__version__}"
    return line(what, ours, peer, told, met=ours <= 2 * peer)


def main() -> None:
    """Run every benchmark and say whether all bars are met."""
    met = [bench_elo(), bench_read()]
    print(f"{sum(met)} of {len(met)} bars met")
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
