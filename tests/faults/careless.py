"""What would go wrong without each guard: the matrix must notice every one of these."""

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import anthropic

from arena_kit.files import LockedError
from arena_kit.judging.judges.base import Batch, Result
from arena_kit.judging.ledger.ledger import Intent, Ledger, Transport
from arena_kit.judging.ledger.schema import kept_open, opened
from arena_kit.judging.verdicts.records import Asked


class Variant(NamedTuple):
    """Which ledger is tried, and what is made of a judge's class; careless ones must be caught."""

    ledger: type[Ledger] = Ledger
    judge: Callable[[type[Any]], type[Any]] = lambda base: base


class ForgetfulLedger(Ledger):
    """Knows only the batches of its own process, and its file refuses nothing."""

    own: ClassVar[set[str]] = set()

    def plan(self, *requests: Any, **more: Any) -> Intent:
        with opened(self.path) as con:
            con.executescript("DROP INDEX IF EXISTS under_way_once;"
                              "DROP TRIGGER IF EXISTS answered_once;")  # fmt: skip
        intent = Ledger.plan(self, *requests, **more)
        self.own.add(intent.intent)
        return intent

    def open_intents(self, transport: Transport = "batches") -> list[Intent]:
        return [i for i in Ledger.open_intents(self, transport) if i.intent in self.own]


class UnsuspectingLedger(Ledger):
    """Takes up no batch that it does not know: what it does not remember was not sent."""

    def adopt(self, *_: object, **__: object) -> None:
        """Leave the batch alone."""


class PidLedger(Ledger):
    """Believes the process and the host in its file, and asks no operating system."""

    @contextmanager
    def locked(self, run: str, _say: Any = None) -> Iterator[None]:
        with kept_open(self.path) as con:
            holder = con.execute("SELECT pid, host FROM holder").fetchone()
            if holder and (holder[1] != socket.gethostname() or _lives(holder[0])):
                raise LockedError("somebody seems to hold this ledger")
            con.execute(
                "INSERT OR REPLACE INTO holder (one, pid, host, run) VALUES (1, ?, ?, ?)",
                (os.getpid(), socket.gethostname(), run),
            )
            yield
            con.execute("DELETE FROM holder")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def _retrying(base: type[Any]) -> type[Any]:
    """A judge that leaves the SDK's own retries on, for creating batches too."""
    once = property(lambda self: self.client.with_options(max_retries=2))
    return type("Retrying", (base,), {"_once": once})


def _following(base: type[Any]) -> type[Any]:
    """A judge whose client follows redirects, as the SDK's does unless told otherwise."""

    def once(self: Any) -> anthropic.Anthropic:
        transport = anthropic.DefaultHttpxClient(verify=False, follow_redirects=True)
        return self.client.with_options(max_retries=0, http_client=transport)

    def ask(self: Any, request: Asked) -> Result:
        if hasattr(self, "_client"):  # of a chat-completions server
            self._client.follow_redirects = True
        return base.ask(self, request)

    methods = {"ask": ask} if hasattr(base, "ask") else {}
    return type("Following", (base,), {"_once": property(once), **methods})


def _counting(base: type[Any]) -> type[Any]:
    """A judge that takes the numbers of every usage as they come."""

    def counted(judge: Any, result: Result, *, batch: bool) -> Result:
        row = json.loads(result.line)
        message = (row.get("result") or {}).get("message") if batch else row
        usage = (message or {}).get("usage")
        if not isinstance(usage, dict):
            return result
        cost = judge.price.usd(usage, batch=batch)
        return result._replace(answer=result.answer._replace(usage=usage, cost_usd=cost))

    def collect(self: Any, batch: Batch) -> Iterator[Result]:
        for result in base.collect(self, batch):
            yield counted(self, result, batch=True)

    def ask(self: Any, request: Asked) -> Result:
        return counted(self, base.ask(self, request), batch=False)

    method = {"collect": collect} if hasattr(base, "collect") else {"ask": ask}
    return type("Counting", (base,), method)


CARELESS: dict[str, Variant] = {
    "forgets-batches": Variant(ledger=ForgetfulLedger), "sdk-retries": Variant(judge=_retrying),
    "follows-redirects": Variant(judge=_following), "counts-any-usage": Variant(judge=_counting),
    "trusts-its-copy": Variant(ledger=UnsuspectingLedger),
    "locks-by-pid": Variant(ledger=PidLedger),
}  # fmt: skip
