"""Many models, and `rate` by Elo and Glicko-2 on real votes, beside their bars.

    make bench

The clock says what a person waits, on a machine that is otherwise idle; the processor's time is
shown beside it. The real votes are those of `$ARENA_KIT_DATA` (default `../shared/data`).
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from bench import Measured, best, header_if_busy  # noqa: E402
from ours import battles, names  # noqa: E402

from arena_kit import BattleLog, BradleyTerry  # noqa: E402
from arena_kit.battles.log import Labels  # noqa: E402

MODELS, BATTLES, RESAMPLES = 1_000, 100_000, 200
VOTES = Path(os.environ.get("ARENA_KIT_DATA", ROOT.parent / "shared" / "data"), "chatbot_arena_27k")
RUNS = 3


def sparse_log() -> BattleLog:
    """Battles of many models, most pairs of which never met, five on a question."""
    columns = battles(BATTLES, MODELS)
    questions = columns.pop("question")
    labels = Labels(names("question", int(questions.max()) + 1), questions)
    return BattleLog(models=tuple(names("model", MODELS)), question_id=labels, **columns)


def many_models() -> list[bool]:
    """The fit and its resamples of a thousand models."""
    log = sparse_log()
    bootstrap = BradleyTerry(interval="percentile", resamples=RESAMPLES)
    what = f"{MODELS:,} models x {BATTLES:,} battles"
    calls: list[tuple[str, Callable[[], Any], float]] = [
        (f"{what}: fit with sandwich", lambda: BradleyTerry()(log), 3),
        (f"{what}: {RESAMPLES} resamples", lambda: bootstrap(log), 30),
    ]
    found = []
    for told, call, bar in calls:
        call()
        found.append(show(told, best(call, at_least=RUNS), bar))
    return found


def rated(method: str) -> Measured:
    """`arena-kit rate` as a person calls it, in a process of its own, kernels compiled before."""
    command = [sys.executable, "-m", "arena_kit", "rate", str(VOTES / "battles.csv.gz"),
               "--winner", "human", "--method", method]  # fmt: skip

    def call() -> None:
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)

    call()
    times = []
    for _ in range(RUNS):
        start, before = time.perf_counter(), _children()
        call()
        times.append((time.perf_counter() - start, _children() - before))
    return {"seconds": min(t for t, _ in times), "cpu": min(cpu for _, cpu in times)}


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def show(what: str, took: Measured, bar: float) -> bool:
    """Print one line and say whether its bar is met."""
    met = took["seconds"] <= bar
    verdict = "met" if met else "NOT MET"
    print(f"{what:<56} {took['seconds']:7.2f} s {took['cpu']:7.2f} s CPU   ≤ {bar:g} s  {verdict}")
    sys.stdout.flush()
    return met


def main() -> None:
    """Print every line, and fail where a bar is missed."""
    header_if_busy()
    met = many_models()
    if VOTES.exists():
        for method in ("elo", "glicko2"):
            met.append(
                show(f"rate 26,919 real votes by {method}, with intervals", rated(method), 5)
            )
    else:
        print(f"There are no real votes in {VOTES}, so `rate` is not measured.")
    print(f"{sum(met)} of {len(met)} bars met")
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
