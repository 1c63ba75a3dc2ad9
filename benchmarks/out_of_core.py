"""Battles that stay on disk: 1, 10 and 100 million, 200 models, from Parquet files.

    python benchmarks/out_of_core.py                 # 1 and 10 million
    python benchmarks/out_of_core.py 1 10 100        # needs about 1 GB in --folder
    python benchmarks/out_of_core.py 100 --only sandwich

Every step runs in a process of its own: its wall time, its CPU time (which a busy machine changes
little) and its peak memory. DuckDB's own group-by of models and winner stands beside the counting.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODELS = 200
PER_FILE = 10_000_000
PER_QUESTION = 5
RESAMPLES = 200
STEPS = ("group-by", "count", "fit", "sandwich", "resamples")


def generate(folder: Path, millions: int) -> None:
    """Battles of random pairs, a fifth of them ties, five to a question in no order; files after
    the first have its battles on questions of their own.
    """
    import duckdb

    rows = min(millions * 1_000_000, PER_FILE)
    con = duckdb.connect()
    con.execute("SET memory_limit = '2GB'")
    first = folder / "000.parquet"
    con.execute(f"""COPY (
        WITH drawn AS (
            SELECT range AS n, (hash(range) % {MODELS})::INT AS a,
                (hash(range + 1000000007) % {MODELS - 1})::INT AS other,
                hash(range + 77777777777) AS luck FROM range({rows})),
        sides AS (SELECT n, a, other + (other >= a)::INT AS b, luck FROM drawn)
        SELECT 'model-' || lpad(a::VARCHAR, 3, '0') AS model_a,
            'model-' || lpad(b::VARCHAR, 3, '0') AS model_b,
            CASE WHEN luck % 5 = 0 THEN 'tie'
                WHEN (luck // 5 % 100000) / 1e5 < 1 / (1 + exp((b - a) * 0.02)) THEN 'model_a'
                ELSE 'model_b' END AS winner,
            'q' || (hash(n + 5) % {rows // PER_QUESTION}) AS question_id FROM sides
        ) TO '{first}' (FORMAT parquet)""")
    for number in range(1, millions * 1_000_000 // rows):
        other = f"SELECT * REPLACE ('{number}' || question_id AS question_id) FROM '{first}'"
        con.execute(f"COPY ({other}) TO '{folder / f'{number:03}.parquet'}' (FORMAT parquet)")


def step(name: str, folder: Path) -> None:
    """One step, and what it took, as a line of JSON."""
    began = time.perf_counter()
    if name == "group-by":
        import duckdb

        query = f"SELECT model_a, model_b, winner, count(*) FROM '{folder}/*.parquet' GROUP BY ALL"
        duckdb.connect().execute(query).fetchall()
    else:
        rate(name, folder)
    used = resource.getrusage(resource.RUSAGE_SELF)
    took = {
        "wall": time.perf_counter() - began,
        "cpu": used.ru_utime + used.ru_stime,
        "mb": used.ru_maxrss / 1024,
    }
    print(json.dumps(took))


def rate(name: str, folder: Path) -> None:
    from arena_kit.battles.on_disk import BattleFiles
    from arena_kit.rating.bradley_terry.method import BradleyTerry
    from arena_kit.rating.bradley_terry.on_disk import rate_boards

    stream = BattleFiles.of(folder)
    if name == "count":
        return
    method = {
        "fit": BradleyTerry(cluster="battle"),
        "sandwich": BradleyTerry(cluster="question"),
        "resamples": BradleyTerry(interval="percentile", resamples=RESAMPLES, cluster="question"),
    }[name]
    rated, _ = rate_boards(method, stream)
    assert len(rated[""].models) == MODELS


def measured(name: str, folder: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--step", name, "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("millions", nargs="*", type=int, default=[1, 10])
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--step", choices=STEPS)
    parser.add_argument("--only", choices=STEPS, action="append")
    given = parser.parse_args()
    if given.step:
        step(given.step, given.folder)
        return
    print(f"{'millions':>8} {'step':<10} {'wall s':>8} {'CPU s':>8} {'peak MB':>8} CPU s a million")
    for millions in given.millions:
        if given.folder:
            Path(given.folder).mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=given.folder, prefix="arena-kit-battles-"))
        try:
            generate(folder, millions)
            took = {}
            for name in given.only or STEPS:
                took[name] = each = measured(name, folder)
                figures = f"{each['wall']:8.1f} {each['cpu']:8.1f} {each['mb']:8.0f}"
                per_million = f"{each['cpu'] / millions:8.3f}"
                print(f"{millions:8} {name:<10} {figures} {per_million}", flush=True)
        finally:
            shutil.rmtree(folder)
        for clock in ("wall", "cpu") if {"count", "group-by"} <= took.keys() else ():
            ratio = took["count"][clock] / took["group-by"][clock]
            print(f"{millions:8} count takes {ratio:.2f} x DuckDB's group-by ({clock})", flush=True)


if __name__ == "__main__":
    main()
