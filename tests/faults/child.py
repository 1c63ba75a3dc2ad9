"""One life of the judging process, possibly killed at a step of its own or at a picked moment."""

import fcntl
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from pydantic_core import SchemaError

from arena_kit.files import DataError, LockedError
from arena_kit.judging.asking import batches as batching
from arena_kit.judging.asking.judge_pairs import judge_pairs
from arena_kit.judging.judges.base import Batch, PaidJudge, PausedError, Result, ServiceError
from arena_kit.judging.ledger import ledger as ledger_module
from arena_kit.judging.ledger import schema as ledger_schema
from arena_kit.judging.verdicts.records import Asked
from arena_kit.runs.record.record import Record
from tests.faults.careless import Variant
from tests.faults.tournament import JUDGES, OPTIONS, PAIRS, Transport, judge_of, material

#: Steps that change the ledger, and calls of a batch service around them.
DURABLE = ("plan", "begin", "submitted", "adopt", "record", "close")
CALLS = ("submit", "poll")
#: Small groups of results make many durable steps.
_GROUP = 4
_LONGEST_LIFE = 120.0


class At(NamedTuple):
    """Death by SIGKILL when `point` is reached for the n-th time."""

    point: str
    n: int


class After(NamedTuple):
    seconds: float
    signal: int = signal.SIGKILL


Death = At | After


class Fate:
    """Counts the points that a process reaches, and ends it at the appointed one."""

    def __init__(self, death: Death | None) -> None:
        self.seen: Counter[str] = Counter()
        self.inside = ""
        self._death = death

    def reach(self, point: str) -> None:
        self.seen[point] += 1
        if self._death == At(point, self.seen[point]):
            os.kill(os.getpid(), signal.SIGKILL)


def mortal_ledger(fate: Fate, base: type[Any]) -> type[Any]:
    """A ledger that may die before, within (before its COMMIT) and after every durable step."""
    _die_before_commit(fate)

    @contextmanager
    def locked(self: Any, run: str, say: Any = None) -> Iterator[None]:
        fate.reach("locked:before")
        with base.locked(self, run, say):
            fate.reach("locked:after")
            yield
        fate.reach("locked:released")

    methods: dict[str, Any] = {name: _mortal(fate, base, name) for name in DURABLE}
    return type("MortalLedger", (base,), {**methods, "locked": locked})


def mortal_judge(fate: Fate, base: type[Any]) -> type[Any]:
    """A judge that may die around its calls, and between two lines of results."""

    def ask(self: Any, request: Asked) -> Result:  # by several threads at once
        fate.reach("ask:before")
        result: Result = base.ask(self, request)
        fate.reach("ask:after")
        return result

    def collect(self: Any, batch: Batch) -> Iterator[Result]:
        for result in base.collect(self, batch):
            fate.reach("collect:line")
            yield result

    if hasattr(base, "ask"):
        return type("MortalJudge", (base,), {"ask": ask})
    methods: dict[str, Any] = {name: _mortal(fate, base, name) for name in CALLS}
    return type("MortalJudge", (base,), {**methods, "collect": collect})


def _mortal(fate: Fate, base: type, name: str) -> Callable[..., Any]:
    method = getattr(base, name)

    def step(*args: Any, **kwargs: Any) -> Any:
        fate.reach(f"{name}:before")
        fate.inside = name
        result = method(*args, **kwargs)
        fate.inside = ""
        fate.reach(f"{name}:after")
        return result

    return step


def _die_before_commit(fate: Fate) -> None:
    """In this process, let every transaction pass a point when only its COMMIT is missing."""
    real = ledger_schema.transaction

    @contextmanager
    def transaction(con: Any, name: str = "") -> Iterator[None]:
        with real(con):
            yield
            fate.reach(f"{name or fate.inside or 'other'}:within")

    ledger_module.transaction = transaction
    ledger_schema.transaction = partial(transaction, name="new_file")


class Code(IntEnum):
    """How a life ended, told by its exit code."""

    DONE = 0
    BROKEN = 1
    PAUSED = 3
    LOCKED = 4
    SERVICE = 5
    INTERRUPTED = 6
    KILLED = -signal.SIGKILL
    STUCK = 99


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a life is for: texts, where they go, what remembers them, on which record and host."""

    base_url: str
    ledger: Path
    seed: int
    transport: Transport = "batches"
    record: Path | None = None
    host: str = ""
    variant: Variant = field(default_factory=Variant)


@dataclass(slots=True, kw_only=True)
class Life:
    pid: int
    files: Path
    death: Death | None
    born: float

    def end(self) -> Code:
        """Wait for the end, bringing it about when that is due."""
        handle = os.pidfd_open(self.pid)
        try:
            if isinstance(self.death, After) and not _over(handle, self._left(self.death.seconds)):
                os.kill(self.pid, self.death.signal)
            if not _over(handle, self._left(_LONGEST_LIFE)):
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                return Code.STUCK
        finally:
            os.close(handle)
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return Code(code) if code in set(Code) else Code.BROKEN

    def result(self) -> dict[str, Any]:
        return dict(json.loads(self.files.with_suffix(".json").read_text()))

    def words(self) -> str:
        """The last line that it wrote before it ended otherwise."""
        lines = self.files.with_suffix(".err").read_text().strip().splitlines()
        return lines[-1] if lines else ""

    def _left(self, seconds: float) -> float:
        return max(0.0, self.born + seconds - time.monotonic())


def begin(task: Task, files: Path, death: Death | None = None) -> Life:
    """Fork a judging process; the caller must have no threads."""
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the child can take it
    if not (pid := os.fork()):
        _live(task, files, death)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    return Life(pid=pid, files=files, death=death, born=time.monotonic())


def _over(handle: int, seconds: float) -> bool:
    return bool(select.select([handle], [], [], seconds)[0])


def _live(task: Task, files: Path, death: Death | None) -> NoReturn:
    code = Code.BROKEN
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        os.dup2(os.open(files.with_suffix(".err"), os.O_WRONLY | os.O_CREAT), 2)
        code = _judge(task, files, Fate(death))
    except BaseException as error:
        code = _code(error)
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _judge(task: Task, files: Path, fate: Fate) -> Code:
    batching._GROUP = _GROUP
    if task.host:
        socket.gethostname = lambda: task.host
    ledger = mortal_ledger(fate, task.variant.ledger)(task.ledger)
    kind = task.variant.judge(JUDGES[task.transport])
    judge = judge_of(mortal_judge(fate, kind), task.base_url)
    with _recorded(task.record):
        judgments = judge_pairs(PAIRS, material(task.seed), judge, ledger, options=OPTIONS)
    _look_over(ledger, judge)
    verdicts = [(v.presentation.request_id, str(v.status)) for j in judgments for v in j.verdicts]
    files.with_suffix(".json").write_text(json.dumps({"verdicts": verdicts, "seen": fate.seen}))
    return Code.DONE


@contextmanager
def _recorded(folder: Path | None) -> Iterator[None]:
    """Run a record; a lock of the matrix's own tells when two do so at once."""
    if folder is None:
        yield
        return
    try:
        resumed = (folder / "manifest.json").exists()
        record = Record.reopen(folder) if resumed else Record.claim(folder)
    except DataError as error:
        if "has finished" in str(error):  # by a rival
            raise LockedError(str(error)) from None
        raise
    with record.failing(), (folder / "witness").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
        record.start("matrix", {})
        yield
    record.close()


def _look_over(ledger: Any, judge: PaidJudge) -> None:
    """Do with the ledger what later commands do; nothing in it may stop them."""
    run = OPTIONS.run
    figures = (ledger.spent(run), ledger.usd_unknown(run), ledger.output_tokens(judge, "judge"))
    json.dumps((figures, ledger.outcomes(run), len(ledger.paid(run))), allow_nan=False)
    if not (findings := ledger.check()).sound:
        raise RuntimeError(f"the ledger is damaged: {findings}")


def _code(error: BaseException) -> Code:
    if isinstance(error, SchemaError) and "KeyboardInterrupt" in str(error):
        return Code.INTERRUPTED  # while the SDK built a model: pydantic_core puts it into a text
    codes = {LockedError: Code.LOCKED, PausedError: Code.PAUSED, ServiceError: Code.SERVICE}
    codes |= {KeyboardInterrupt: Code.INTERRUPTED}
    return next((code for kind, code in codes.items() if isinstance(error, kind)), Code.BROKEN)
