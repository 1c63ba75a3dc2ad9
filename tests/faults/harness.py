"""Playing scenarios: start, let die, start again until done, then ask the witnesses."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, repeat
from pathlib import Path

from arena_kit.judging.judges.anthropic import AnthropicBatches
from arena_kit.judging.ledger import Ledger
from tests.faults.child import Code, Life, Task, begin
from tests.faults.scenarios import Scenario, Seen
from tests.faults.service import Service
from tests.faults.witness import Finding, compare

_MOST_LIVES = 25
_BETWEEN_RIVALS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """Which ledger and which judge are tried; the careless ones must be caught."""

    ledger: type[Ledger] = Ledger
    judge: type[AnthropicBatches] = AnthropicBatches


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came of one scenario; `trouble` says why it did not finish."""

    name: str
    lives: int = 0
    kills: int = 0
    pauses: int = 0
    locked: int = 0
    fired: int = 0
    seconds: float = 0.0
    trouble: str = ""
    finding: Finding = field(default_factory=Finding)

    @property
    def group(self) -> str:
        return self.name.partition("/")[0]

    @property
    def clean(self) -> bool:
        f = self.finding
        return not (self.trouble or f.paid_twice or f.lost or f.duplicated or f.miscounted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One worker's service, folder and variant."""

    service: Service
    folder: Path
    seed: int
    variant: Variant

    def play(self, scenario: Scenario) -> Outcome:
        """One scenario from the first start to the verdict."""
        started = time.monotonic()
        outcome = Outcome(name=scenario.name)
        task = self._task(scenario)
        last: list[tuple[str, str]] = []
        try:
            self._until_done(scenario, task, outcome)
            self.service.heal()
            last = self._last_life(task, outcome)
        except _TroubleError as error:
            outcome.trouble = str(error)[:500]
        outcome.finding = compare(self.service.bill(), task.ledger, last)
        outcome.fired = self.service.fired()
        outcome.seconds = time.monotonic() - started
        return outcome

    def _task(self, scenario: Scenario) -> Task:
        base_url = self.service.fresh(scenario.service(self.seed))
        self.service.sleep(scenario.skew_hours)
        self.service.add(list(scenario.faults))
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        return Task(
            base_url=base_url,
            ledger=folder / "verdicts.sqlite",
            seed=self.seed,
            ledger_class=self.variant.ledger,
            judge_class=self.variant.judge,
        )

    def _until_done(self, scenario: Scenario, task: Task, outcome: Outcome) -> None:
        deaths = chain(scenario.deaths, repeat(None))
        for number in range(_MOST_LIVES):
            self.service.foreign(list(scenario.foreign))
            if scenario.asleep_hours and number == len(scenario.deaths):
                self.service.hurry()
            lives = [begin(task, task.ledger.with_name(f"life{number}-0"), next(deaths))]
            for rival in range(1, scenario.rivals):
                time.sleep(_BETWEEN_RIVALS)
                lives.append(begin(task, task.ledger.with_name(f"life{number}-{rival}")))
            ends = _ends(lives, outcome)
            if Code.DONE in ends:
                return
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


class _TroubleError(Exception):
    """A scenario that cannot be finished."""


def _ends(lives: Sequence[Life], outcome: Outcome) -> list[Code]:
    """Wait for all of these lives; one that breaks off on its own is trouble."""
    ends = [life.end() for life in lives]
    outcome.lives += len(lives)
    outcome.kills += ends.count(Code.KILLED)
    outcome.pauses += ends.count(Code.PAUSED)
    outcome.locked += ends.count(Code.LOCKED)
    for life, end in zip(lives, ends, strict=True):
        if end in (Code.BROKEN, Code.STUCK):
            raise _TroubleError(f"a life ended {end.name}: {life.words()}")
    return ends


def rehearse(seed: int) -> Seen:
    """Judge once without any trouble, and count what was reached."""
    scenario = Scenario(name="rehearsal")
    with Service() as service, tempfile.TemporaryDirectory() as folder:
        stage = Stage(service=service, folder=Path(folder), seed=seed, variant=Variant())
        task = stage._task(scenario)
        life = begin(task, Path(folder) / "life")
        if life.end() is not Code.DONE:
            raise RuntimeError(f"the rehearsal failed: {life.words()}")
        return dict(life.result()["seen"])


def play_all(
    scenarios: Sequence[Scenario], *, seed: int, variant: Variant, jobs: int
) -> Iterator[Outcome]:
    """Outcomes as they come, from `jobs` workers with a service each."""
    reading, writing = os.pipe()
    workers = []
    for number in range(jobs):
        sys.stdout.flush()
        if not (pid := os.fork()):
            os.close(reading)
            _work(scenarios[number::jobs], writing, seed, variant)
        workers.append(pid)
    os.close(writing)
    with os.fdopen(reading) as lines:
        for line in lines:
            fields = json.loads(line)
            finding = Finding(**fields.pop("finding"))
            yield Outcome(**fields, finding=finding)
    for pid in workers:
        os.waitpid(pid, 0)


def _work(scenarios: Sequence[Scenario], pipe: int, seed: int, variant: Variant) -> None:
    """A worker: one line per outcome, each short enough to be written whole."""
    status = 1
    try:
        with Service() as service, tempfile.TemporaryDirectory() as folder:
            stage = Stage(service=service, folder=Path(folder), seed=seed, variant=variant)
            for scenario in scenarios:
                outcome = asdict(stage.play(scenario))
                os.write(pipe, json.dumps(outcome).encode() + b"\n")
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)
