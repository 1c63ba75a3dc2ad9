"""Deaths beside the matrix: of Dask workers, judge reports and tournaments with pictures; and
ledgers that may not be written.
"""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from arena_kit import fanout
from arena_kit.fanout import fan_out, on_cluster
from arena_kit.judging.asking.judge_pairs import judge_pairs
from arena_kit.judging.ledger.ledger import Ledger
from tests import samples
from tests.emulator import Emulator
from tests.faults.child import Task
from tests.faults.harness import Outcome
from tests.faults.service import Service
from tests.faults.tournament import CONCURRENCY, JUDGES, OPTIONS, PAIRS, judge_of, material
from tests.faults.witness import Evidence, Finding, compare

_REPORT = """
import json, sys
import arena_kit as ak
ak.publish_judges(ak.measure_judges(ak.read_judges(**json.loads(sys.argv[1]))))
"""
_JUDGE = """
import json, sys
import arena_kit as ak
ak.judge(ak.read_plan("pilot", **json.loads(sys.argv[1])))
"""
_UNPRIVILEGED = """
import sys
from pathlib import Path
from arena_kit.files import DataError
from tests.faults.child import Task
from tests.faults.drivers import judged
base_url, ledger, n = sys.argv[1:]
try:
    print(len(judged(Task(base_url=base_url, ledger=Path(ledger), seed=1), int(n))))
except DataError as error:
    sys.exit(f"error: {error}")
"""
#: How a ledger is protected: from which mode on its folder and its file.
_PROTECTED = {"folder": (0o555, 0o644), "file": (0o755, 0o444), "both": (0o555, 0o444)}


def drive(names: list[str], seed: int, *, quick: bool) -> Iterator[Outcome]:
    """Drive all that are named, or all; of each kind one if quick."""
    kinds = set()
    for name, driver in _DRIVERS.items():
        kind = name.partition("/")[0]
        wanted = any(fnmatch(name, each) for each in names) if names else True
        if not wanted or (quick and kind in kinds):
            continue
        kinds.add(kind)
        outcome = Outcome(name=name, seed=seed)
        with tempfile.TemporaryDirectory() as folder:
            try:
                driver(outcome, Path(folder))
            except (Exception, pytest.fail.Exception) as error:
                outcome.trouble = repr(error)[:500]
        yield outcome


def judged(task: Task, n: int = len(PAIRS)) -> list[tuple[str, str]]:
    """The verdicts on the first n pairs of the tournament."""
    judge = judge_of(JUDGES[task.transport], task.base_url)
    found = judge_pairs(PAIRS[:n], material(task.seed), judge, Ledger(task.ledger), options=OPTIONS)
    return [(v.presentation.request_id, str(v.status)) for j in found for v in j.verdicts]


@contextmanager
def _service(outcome: Outcome, folder: Path, **more: Any) -> Iterator[tuple[Service, Task]]:
    """A service and a task; in the end its bill is held against the ledger."""
    with Service() as service:
        settings = {"seed": outcome.seed, "batch_seconds": 0.3, "latency": 0.02}
        url = service.fresh(settings)
        task = Task(base_url=url, ledger=folder / "verdicts.sqlite", seed=outcome.seed, **more)
        yield service, task
        verdicts = judged(task)
        evidence = Evidence(service.bill(), (), 0, CONCURRENCY * outcome.kills)
        outcome.finding = compare(evidence, task.ledger, verdicts, task.transport, task.seed)


def _dask(transport: Any, outcome: Outcome, folder: Path) -> None:
    """A run on a Dask worker that is killed is begun again by another, and pays for the rest."""
    from distributed import LocalCluster

    local = {"host": "127.0.0.1", "dashboard_address": None, "silence_logs": 50}
    with (
        _service(outcome, folder, transport=transport) as (service, task),
        LocalCluster(n_workers=2, threads_per_worker=1, **local) as cluster,
        closing(fanout._client(cluster.scheduler_address)),
        on_cluster(cluster.scheduler_address),
    ):
        struck = threading.Thread(target=_strike, args=(cluster, outcome, task))
        struck.start()
        [verdicts] = fan_out(judged, [task])
        struck.join()
        assert outcome.kills, "no worker was killed"
        assert len(verdicts) == 2 * len(PAIRS)
        assert service.bill()


def _strike(cluster: Any, outcome: Outcome, task: Task) -> None:
    """Kill the worker that asks, once so many requests of it stand in the ledger."""
    n, deadline = random.Random(outcome.seed).randint(1, 9), time.monotonic() + 120
    while len(attempted(task.ledger)) < n and time.monotonic() < deadline:
        time.sleep(0.005)
    for worker in cluster.scheduler.workers.values():
        if worker.processing:
            os.kill(cluster.workers[worker.name].pid, signal.SIGKILL)
            outcome.kills, outcome.lives = 1, 2


def attempted(ledger: Path) -> list[Any]:
    """The outcome of every attempt in a ledger, None of those under way; none without a file."""
    try:
        with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as con:
            return [outcome for (outcome,) in con.execute("SELECT outcome FROM attempts")]
    except sqlite3.OperationalError:
        return []


def _judge_report(transport: str, outcome: Outcome, folder: Path) -> None:
    """A judge report that is killed three times pays for each of its questions once."""
    workspace = samples.copy_workspace(folder / "workspace")
    samples.edited(workspace, dimensions__clinical_utility=None)
    strata = {"strata": {"open_recall": 1, "vignette": 1}}
    _killed(_REPORT, "judge_report", strata, transport, outcome, workspace)


def _images(transport: str, outcome: Outcome, folder: Path) -> None:
    """So does a tournament of conversations with pictures."""
    workspace = samples.copy_workspace(folder / "workspace")
    samples.illustrated(workspace)
    _killed(_JUDGE, "pilot", {"prewarm": False}, transport, outcome, workspace)


def _killed(
    script: str, mode: str, more: dict[str, Any], transport: str, outcome: Outcome, workspace: Path
) -> None:
    """Run a script, kill it three times and let it end; its bill is held against the ledger."""
    fast = {"judge__anthropic__per_minute": 100_000, "judge__anthropic__concurrency": CONCURRENCY}
    samples.edited(workspace, **fast)
    luck = random.Random(outcome.seed)
    with Emulator(latency=0.02, batch_seconds=0.5) as emulator:
        given = {
            "judge": "anthropic", "judge_model": "claude-sonnet-5-5", "transport": transport,
            "base_url": emulator.base_url, "max_cost_usd": 50.0, "preflight": False, "n_perms": 20,
        } | more  # fmt: skip
        words = json.dumps(samples.parameters(mode, **given))
        begin = partial(
            subprocess.Popen, [sys.executable, "-c", script, words], cwd=workspace,
            env=os.environ | {"ANTHROPIC_API_KEY": samples.KEY, "PYTHONPATH": str(samples.ROOT)},
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        for _ in range(3):
            process, before = begin(), len(emulator.requests)
            after = before + luck.randint(1, 40 if transport == "messages" else 6)
            while process.poll() is None and len(emulator.requests) < after:
                time.sleep(0.01)
            outcome.kills += process.poll() is None
            process.kill()
            process.communicate()
        last = begin()
        _, told = last.communicate(timeout=300)
        outcome.lives = 4
        assert last.returncode == 0, told[-300:]
        rows = [(r.custom_id.partition("-")[2] or r.digest) for r in emulator.billing.rows]
    outcome.finding = _finding(rows, workspace / ".arena_kit" / "verdicts.sqlite")


def _finding(bill: list[str], ledger: Path) -> Finding:
    """The bill by request beside the answers that were paid for."""
    with closing(sqlite3.connect(ledger)) as con:
        (answers,) = con.execute("SELECT count(*) FROM answers WHERE cost_usd > 0").fetchone()
    billed, unknown = Counter(bill), attempted(ledger).count("unknown")
    twice, lost = billed.total() - len(billed) - unknown, len(billed) - answers
    found = {"billed": billed.total(), "unknown": unknown, "paid_twice": max(twice, 0)}
    return Finding(**found, lost=max(lost, 0))


def _read_only(way: str, outcome: Outcome, folder: Path) -> None:
    """A ledger that may not be written answers what it knows; nothing new is sent, and told."""
    own = folder / "kept"
    own.mkdir()
    with _service(outcome, own) as (service, task):
        judged(task, 2)
        task.ledger.with_name(f"{task.ledger.name}.lock").unlink()  # as in a copy
        before, bill = _files(own), service.bill()
        modes = _PROTECTED[way]
        own.chmod(modes[0])
        task.ledger.chmod(modes[1])
        run = partial(samples.run_unprivileged, _UNPRIVILEGED, task.base_url, str(task.ledger))
        known, new = (run(str(n), cwd=samples.ROOT) for n in (2, len(PAIRS)))
        own.chmod(0o755)
        task.ledger.chmod(0o644)
        assert (known.returncode, known.stdout) == (0, "4\n"), known.stderr
        assert new.returncode == 1, new.stdout
        assert new.stderr.startswith(f"error: {task.ledger}: "), new.stderr
        assert (_files(own), service.bill()) == (before, bill)
        outcome.lives = 2


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".lock"}


_DRIVERS: dict[str, Callable[[Outcome, Path], None]] = {
    **{f"dask/{each}": partial(_dask, each) for each in JUDGES},
    **{f"report/{each}": partial(_judge_report, each) for each in ("batches", "messages")},
    **{f"images/{each}": partial(_images, each) for each in ("batches", "messages")},
    **{f"read-only/{way}": partial(_read_only, way) for way in _PROTECTED},
}
