"""Playing scenarios: start, let die, start again until done, then ask the witnesses."""

import json
import os
import shutil
import socket
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, repeat
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from arena_kit.judging.ledger.ledger import Ledger
from tests.faults.careless import Variant
from tests.faults.child import Code, Death, Life, Task, begin
from tests.faults.scenarios import Host, Restore, Scenario, SeenBy
from tests.faults.service import Service
from tests.faults.tournament import CONCURRENCY, JUDGES, client
from tests.faults.witness import Evidence, Finding, compare

_MOST_LIVES = 25
_BETWEEN_RIVALS = 0.05


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of one scenario; `trouble` says why it did not finish."""

    name: str
    seed: int
    lives: int = 0
    kills: int = 0
    fired: int = 0
    trouble: str = ""
    finding: Finding = field(default_factory=Finding)

    @property
    def clean(self) -> bool:
        return not self.trouble and self.finding.clean


class Stage(NamedTuple):
    service: Service
    folder: Path
    variant: Variant

    def play(self, scenario: Scenario) -> Outcome:
        outcome = Outcome(name=scenario.name, seed=scenario.seed)
        task = self._task(scenario)
        last: list[tuple[str, str]] = []
        try:
            self._until_done(scenario, task, scenario.deaths, outcome)
            if scenario.restore is not None:
                _put_back(task.ledger)
                self._until_done(scenario, task, scenario.restore.deaths, outcome)
            self.service.heal()
            last = self._last_life(task, outcome)
        except _TroubleError as error:
            outcome.trouble = str(error)[:500]
        outcome.fired = self.service.fired()
        doubtful = CONCURRENCY * outcome.kills + outcome.fired
        service = self.service
        evidence = Evidence(service.bill(), service.silent(), service.astray(), doubtful)
        outcome.finding = compare(evidence, task.ledger, last, task.transport, task.seed)
        return outcome

    def _task(self, scenario: Scenario) -> Task:
        base_url = self.service.fresh(scenario.service())
        self.service.sleep(scenario.skew_hours)
        self.service.add(list(scenario.faults))
        ledger = Path(tempfile.mkdtemp(dir=self.folder)) / "verdicts.sqlite"
        how = {"transport": scenario.transport, "variant": self.variant}
        return Task(base_url=base_url, ledger=ledger, seed=scenario.seed, **how)

    def _until_done(
        self, scenario: Scenario, task: Task, deaths: Sequence[Death], outcome: Outcome
    ) -> None:
        appointed = chain(deaths, repeat(None))
        for number in range(_MOST_LIVES):
            self.service.foreign(list(scenario.foreign))
            if scenario.asleep_hours and number == len(deaths):
                self.service.hurry()
            mine = _dressed(task, scenario.host, number)
            lives = [begin(mine, task.ledger.with_name(f"life{number}-0"), next(appointed))]
            for rival in range(1, scenario.rivals):
                time.sleep(_BETWEEN_RIVALS)
                lives.append(begin(mine, task.ledger.with_name(f"life{number}-{rival}")))
            ends = _ends(lives, outcome)
            _copy_if_due(task.ledger, scenario.restore, number + 1)
            if Code.DONE in ends:
                return
            _blame(mine, scenario.host)
            self.service.sleep(scenario.asleep_hours)
        last = f"{ends[-1].name}: {lives[-1].words()}"
        raise _TroubleError(f"not done after {_MOST_LIVES} lives, the last {last}")

    def _last_life(self, task: Task, outcome: Outcome) -> list[tuple[str, str]]:
        """Once more with a service that is well: what had failed unpaid is answered now."""
        life = begin(task, task.ledger.with_name("last"))
        [end] = _ends([life], outcome)
        if end is not Code.DONE:
            raise _TroubleError(f"the last life ended {end.name}: {life.words()}")
        return [(name, status) for name, status in life.result()["verdicts"]]


def _copy_if_due(ledger: Path, restore: Restore | None, lives: int) -> None:
    """Make the older copy when so many lives are over, unless there is nothing to copy."""
    copy = ledger.with_name("older.sqlite")
    if restore and lives == restore.after and ledger.exists() and not copy.exists():
        way = Ledger(ledger).back_up if restore.way == "backup" else partial(shutil.copy, ledger)
        way(copy)


def _put_back(ledger: Path) -> None:
    """Restore the older copy as docs/safety.md says."""
    copy = ledger.with_name("older.sqlite")
    if not copy.exists():
        return
    for ending in ("-wal", "-shm"):
        ledger.with_name(f"{ledger.name}{ending}").unlink(missing_ok=True)
    shutil.copy(copy, ledger)


def _dressed(task: Task, host: Host, number: int) -> Task:
    """The task of the life of this number: it goes on with the record of those before, if any."""
    if not host:
        return task
    folder = task.ledger.with_name("records")
    left = sorted(manifest.parent for manifest in folder.glob("*/manifest.json"))
    record = left[0] if left else folder / f"{number:02}"
    return replace(task, record=record, host=f"host-{number}" if host == "renamed" else "")


def _blame(task: Task, host: Host) -> None:
    """Let what the dead left behind name a process of this host that lives."""
    if host in ("", "renamed") or task.record is None:
        return
    process = {"pid": 1 if host == "first" else os.getpid(), "host": socket.gethostname()}
    manifest = task.record / "manifest.json"
    if manifest.exists():
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"process": process}))
    if task.ledger.exists():
        with closing(sqlite3.connect(task.ledger, isolation_level=None)) as con:
            tables = con.execute("SELECT 1 FROM sqlite_master WHERE name = 'holder'").fetchone()
            if tables:
                con.execute("UPDATE holder SET pid = :pid, host = :host", process)


class _TroubleError(Exception):
    """A scenario that cannot be finished."""


def _ends(lives: Sequence[Life], outcome: Outcome) -> list[Code]:
    """Wait for all of these lives; one that breaks off on its own is trouble."""
    ends = [life.end() for life in lives]
    outcome.lives += len(lives)
    outcome.kills += ends.count(Code.KILLED)
    for life, end in zip(lives, ends, strict=True):
        if end in (Code.BROKEN, Code.STUCK):
            raise _TroubleError(f"a life ended {end.name}: {life.words()}")
    return ends


def rehearse(seed: int) -> SeenBy:
    """Judge once over each transport without any trouble, and count what was reached."""
    seen = {}
    with Service() as service, tempfile.TemporaryDirectory() as folder:
        stage = Stage(service=service, folder=Path(folder), variant=Variant())
        for transport in JUDGES:
            task = stage._task(Scenario(name="rehearsal", seed=seed, transport=transport))
            life = begin(task, Path(folder) / transport)
            if life.end() is not Code.DONE:
                raise RuntimeError(f"the rehearsal failed: {life.words()}")
            seen[transport] = dict(life.result()["seen"])
    return seen


_stage: Stage


def play_all(scenarios: Sequence[Scenario], *, variant: Variant, jobs: int) -> Iterator[Outcome]:
    """Outcomes as they come, from `jobs` forked workers with a service each."""
    client()  # once for all that are forked
    with (
        tempfile.TemporaryDirectory() as folder,
        get_context("fork").Pool(jobs, _set_stage, (Path(folder), variant)) as pool,
    ):
        yield from pool.imap_unordered(_play, scenarios)


def _set_stage(folder: Path, variant: Variant) -> None:
    global _stage  # noqa: PLW0603 (a worker's own)
    _stage = Stage(service=Service(), folder=folder, variant=variant)


def _play(scenario: Scenario) -> Outcome:
    return _stage.play(scenario)
