"""Fan-out: the same numbers from one process, from many, and from a cluster that loses a worker."""

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import factorial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arena_kit import BradleyTerry, DataError, Glicko2, PermutationElo, fanout
from arena_kit.cli.simulate import simulated
from arena_kit.fanout import VARIABLE, fan_out, on_cluster, shares
from arena_kit.files import read_json
from arena_kit.matchmaking.simulation import World
from arena_kit.policy.constants import Policy
from tests.samples import ROOT, asked


@dataclass(frozen=True)
class Cluster:
    """A scheduler on loopback and two worker processes, of which one may be killed."""

    address: str
    cluster: Any

    @contextmanager
    def losing_a_worker(self) -> Iterator[list[int]]:
        """Kill one worker as soon as it is at work; who was killed is listed."""
        killed: list[int] = []
        stop = threading.Event()

        def strike() -> None:
            while not stop.is_set():
                busy = [w for w in self.cluster.scheduler.workers.values() if w.processing]
                if busy:
                    pid = self.cluster.workers[busy[0].name].pid
                    os.kill(pid, signal.SIGKILL)
                    killed.append(pid)
                    return
                time.sleep(0.005)

        thread = threading.Thread(target=strike)
        thread.start()
        try:
            yield killed
        finally:
            stop.set()
            thread.join()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A real scheduler, and two worker processes of one thread each."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None,
        silence_logs=50,
    ) as running:  # fmt: skip
        yield Cluster(running.scheduler_address, running)
        fanout._client.cache_clear()


@pytest.mark.parametrize("by", ["here", "threads", "processes"])
def test_results_come_in_the_order_of_tasks(by: fanout.By) -> None:
    """Whoever computes them, in the order of the tasks; every task is in one share."""
    results = fan_out(factorial, range(9), by=by, jobs=2)
    assert list(results) == [1, 1, 2, 6, 24, 120, 720, 5040, 40320]
    for n in (0, 1, 3, 100):
        assert [k for some in shares(n) for k in range(n)[some]] == list(range(n))


def test_a_scheduler_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence, with the address."""
    monkeypatch.setattr(fanout, "_PATIENCE", 0.5)
    with (
        on_cluster("tcp://127.0.0.1:9"),
        pytest.raises(DataError, match=r"tcp://127\.0\.0\.1:9: no"),
    ):
        list(fan_out(factorial, [1]))


@pytest.mark.slow  # a cluster of processes, one of which is killed
def test_work_that_loses_a_worker_is_the_serial_one(cluster: Cluster) -> None:
    """A worker process is killed during resamples, or playing a world; every number stays."""
    method = BradleyTerry(interval="percentile", resamples=100, ties="davidson")
    log = asked(1000, models=8, questions=200)
    expected = method(log)
    with on_cluster(cluster.address), cluster.losing_a_worker() as killed:
        rated = method(log)
    assert killed
    assert np.array_equal(rated.replicates, expected.replicates)
    assert rated.ratings == expected.ratings
    world = World(models=6, prompts=12, matchups=150, newcomers=1)
    serial = list(simulated(world, Policy(), range(4), 75, 1))
    with on_cluster(cluster.address), cluster.losing_a_worker() as killed:
        duels = list(simulated(world, Policy(), range(4), 75, 0))
    assert killed
    assert duels == serial


def test_permutations_and_replays_are_the_same_on_a_cluster(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elo and the resamples of Glicko-2, with the scheduler in the environment."""
    log = asked(500)
    elo = PermutationElo(n_perms=100, evidence_replicates=100, ties="half")
    glicko = Glicko2(evidence_replicates=20)
    here = [elo(log), glicko(log)]
    monkeypatch.setenv(VARIABLE, cluster.address)
    there = [elo(log), glicko(log)]
    for mine, theirs in zip(here, there, strict=True):
        assert np.array_equal(mine.replicates, theirs.replicates)
        assert mine.ratings == theirs.ratings


@pytest.mark.slow  # three kernels
def test_the_loop_over_notebooks_of_the_documents_runs_on_a_cluster(
    cluster: Cluster, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cluster_grid.py` of docs/scale.md leaves a finished record per run."""
    shown = (ROOT / "docs" / "scale.md").read_text()
    (code,) = re.findall(r"```python\n(import papermill\nfrom distributed.*?)```", shown, re.DOTALL)
    here = code.replace("tcp://127.0.0.1:8786", cluster.address)
    root = f"import os; os.chdir({str(workspace)!r})"
    monkeypatch.chdir(workspace)
    exec(here.replace("    papermill.", f"    {root}\n    papermill."), {})
    manifests = [read_json(each) for each in workspace.glob("runs/*/manifest.json")]
    assert [each["status"] for each in manifests] == ["finished"] * 3
    assert {each["parameters"]["seed"] for each in manifests} == {0, 1, 2}
