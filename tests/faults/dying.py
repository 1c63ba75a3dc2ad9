"""How a judging process dies: at a step of its own, or at a moment that its parent picks."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from arena_kit.judging.judges.base import Batch, Result
from arena_kit.judging.ledger import ledger as ledger_module
from arena_kit.judging.ledger import schema as ledger_schema
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.verdicts.records import Asked

#: Steps that change the ledger, and calls of a batch service around them.
DURABLE = ("plan", "begin", "submitted", "adopt", "record", "close")
CALLS = ("submit", "poll")


@dataclass(frozen=True, slots=True)
class At:
    """Death by SIGKILL when `point` is reached for the n-th time."""

    point: str
    n: int


@dataclass(frozen=True, slots=True)
class After:
    """A signal so many seconds after the start."""

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
        """Pass a point, or die there."""
        self.seen[point] += 1
        if self._death == At(point, self.seen[point]):
            os.kill(os.getpid(), signal.SIGKILL)


def mortal_ledger(fate: Fate, base: type[Ledger]) -> type[Ledger]:
    """A ledger that may die before, within (before its COMMIT) and after every durable step."""
    _die_before_commit(fate)

    @contextmanager
    def locked(self: Ledger, run: str) -> Iterator[None]:
        fate.reach("locked:before")
        with base.locked(self, run):
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
    def writing(con: Any) -> Iterator[None]:
        with real(con):
            yield
            fate.reach(f"{fate.inside or 'other'}:within")

    @contextmanager
    def creating(con: Any) -> Iterator[None]:
        with real(con):
            yield
            fate.reach("new_file:within")

    ledger_module.transaction = writing  # type: ignore[attr-defined]
    ledger_schema.transaction = creating
