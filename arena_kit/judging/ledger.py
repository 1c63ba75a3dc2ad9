"""The ledger: one SQLite file that remembers every answer and everything ever paid for.

Final answers are kept raw under a key made of all that could change them, so parsing can
be redone for free and an answer is asked, and paid for, once. What is under way is kept
as intents: written before a batch is created, then its id, then each result line.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import socket
import sqlite3
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from filelock import FileLock, Timeout
from pydantic_core import from_json, to_json

from arena_kit.battles import whole_text
from arena_kit.judging.bulk import undisturbed
from arena_kit.judging.judges.base import Batch, Judge, Result, Service
from arena_kit.judging.ledger_schema import kept_open, opened, transaction
from arena_kit.judging.records import Answer, Asked, Status
from arena_kit.store import LockedError

_KEY_VERSION = 2
_CHUNK = 500
_KEY_IN_NAME = 40

Transport = Literal["batches", "live"]
#: What becomes of attempts without a result when their intent ends.
_LEFT_OPEN = {
    ("closed", "batches"): "missing",
    ("closed", "live"): "unknown",
    ("void", "batches"): "void",
    ("void", "live"): "void",
    ("given_up", "batches"): "given_up",
    ("given_up", "live"): "given_up",
}


def cache_keys(judge: Judge, requests: Iterable[Asked]) -> list[str]:
    """A hash for each request of everything that could change its answer."""
    asked = {"schema": _KEY_VERSION, "model": judge.model, "settings": dict(judge.settings)}
    head = json.dumps(asked, sort_keys=True, allow_nan=False).encode()
    return [_key(head, request) for request in requests]


def cache_key(judge: Judge, request: Asked) -> str:
    """Hash of everything that could change the answer to one request."""
    return cache_keys(judge, [request])[0]


def _key(head: bytes, request: Asked) -> str:
    parts = (
        head,
        to_json(request.identity),
        _digest(request.system),
        request.user.encode("utf-8", "surrogatepass"),
    )
    return hashlib.sha256(b"\n".join(parts)).hexdigest()


@lru_cache(maxsize=64)
def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """Requests that were about to be sent together, and the batch they became, if known."""

    intent: str
    transport: Transport
    state: str
    service: Service
    model: str
    purpose: str
    run: str
    n_requests: int
    planned_at: str
    batch_id: str | None = None
    created_at: str = ""
    expires_at: str = ""

    def name(self, key: str) -> str:
        """What a request is called inside this intent's batch (a custom id)."""
        return f"{self.intent}-{key[:_KEY_IN_NAME]}"

    def owns(self, name: str) -> bool:
        """Whether a custom id was made by this intent."""
        return name.startswith(f"{self.intent}-")


class Awaited(NamedTuple):
    """A request that an intent still owes: its cache key, its row, and its id for people."""

    key: str
    request: int
    request_id: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """The file; every call opens its own connection, so any thread may use it."""

    path: Path

    def get(self, keys: Iterable[str]) -> dict[str, Answer]:
        """The final answers among these keys."""
        columns = "request_id, status, text, served_model, usage, cost_usd, detail, run"
        found = self._look_up(f"SELECT key, {columns} FROM answers", keys)
        with undisturbed():
            return {key: _answer(*row) for key, *row in found}

    def settled(self, keys: Iterable[str]) -> set[str]:
        """Which of these keys have a final answer."""
        return {key for (key,) in self._look_up("SELECT key FROM answers", keys)}

    def put(self, judge_model: str, answers: Iterable[tuple[str, Answer]], run: str = "") -> None:
        """Keep final answers; one that is already there stays as it was."""
        rows = [_row(key, judge_model, answer, run) for key, answer in answers]
        with opened(self.path) as con, transaction(con):
            con.executemany(_INSERT_ANSWER, rows)

    def __len__(self) -> int:
        if not self.path.exists():
            return 0
        with opened(self.path) as con:
            (n,) = con.execute("SELECT count(*) FROM answers").fetchone()
        return int(n)

    @contextmanager
    def held(self, run: str) -> Iterator[None]:
        """Be the only process that spends; refuse while another one does.

        The lock is the operating system's, so it ends with its process however that ends;
        the file only remembers who holds it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path.with_name(f"{self.path.name}.lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise LockedError(self._holder()) from None
        try:
            with kept_open(self.path) as con:
                con.execute(
                    "INSERT OR REPLACE INTO holder (one, pid, host, run) VALUES (1, ?, ?, ?)",
                    (os.getpid(), socket.gethostname(), run),
                )
                yield
        finally:
            lock.release()

    def _holder(self) -> str:
        with opened(self.path) as con:
            row = con.execute("SELECT pid, host, since FROM holder").fetchone()
        who = "process {} on {}, since {}".format(*row) if row else "another process"
        return (
            f"{self.path}: another run is asking paid judges through this ledger ({who}); "
            "start again when it has finished, what it paid for is then free"
        )

    def plan(
        self,
        requests: Mapping[str, Asked],
        *,
        transport: Transport,
        service: Service,
        model: str,
        purpose: str,
        run: str,
    ) -> Intent:
        """Write down, durably, that these requests (by key) are about to be sent."""
        intent = secrets.token_hex(6)
        with opened(self.path) as con, transaction(con):
            con.execute(
                "INSERT INTO intents (intent, transport, state, origin, account, model, purpose, "
                "run, n_requests) VALUES (?, ?, 'planned', ?, ?, ?, ?, ?, ?)",
                (intent, transport, service.origin, service.account, model, purpose, run,
                 len(requests)),
            )  # fmt: skip
            _add_attempts(con, intent, requests)
            return next(_intents(con, "WHERE intent = ?", [intent]))

    def begin(self, intent: Intent, requests: Mapping[str, Asked]) -> list[Awaited]:
        """Write down that these calls of a live intent are about to be made."""
        with opened(self.path) as con, transaction(con):
            _add_attempts(con, intent.intent, requests)
        return [owed for owed in self.awaited(intent).values() if owed.key in requests]

    def submitted(self, intent: Intent, batch: Batch) -> None:
        """Write down the id of the batch that an intent became."""
        with opened(self.path) as con, transaction(con):
            con.execute(
                "INSERT OR REPLACE INTO batches (batch_id, intent, created_at, expires_at, status) "
                "VALUES (?, ?, ?, ?, ?)",
                (batch.batch_id, intent.intent, batch.created_at, batch.expires_at, batch.status),
            )
            _set_state(con, intent.intent, "submitted")

    def record(self, intent: Intent, results: Iterable[tuple[Awaited, Result]]) -> None:
        """Keep result lines with what they cost; final ones become answers."""
        with opened(self.path) as con, transaction(con):
            _record(con, intent, sorted(results, key=_by_request))  # neighbours share pages

    def close(self, intent: Intent, state: Literal["closed", "void", "given_up"]) -> None:
        """End an intent: nothing more will come, the service never took it, or the user gave
        it up. A live call that then has no answer may have been billed: it stays `unknown`.
        """
        with opened(self.path) as con, transaction(con):
            _set_state(con, intent.intent, state)
            con.execute(
                "UPDATE attempts SET outcome = ? WHERE intent = ? AND outcome IS NULL",
                (_LEFT_OPEN[state, intent.transport], intent.intent),
            )
            con.execute("UPDATE batches SET status = 'ended' WHERE intent = ?", [intent.intent])

    def open_intents(self, transport: Transport = "batches") -> list[Intent]:
        """Intents that may still owe results, oldest first."""
        if not self.path.exists():
            return []
        where = (
            "WHERE transport = ? AND state IN ('planned', 'submitted') AND EXISTS (SELECT 1 FROM "
            "attempts WHERE attempts.intent = intents.intent AND outcome IS NULL) "
            "ORDER BY planned_at"
        )
        with opened(self.path) as con:
            return list(_intents(con, where, [transport]))

    def awaited(self, intent: Intent) -> dict[str, Awaited]:
        """An intent's requests that have no result yet, by name."""
        query = (
            "SELECT key, request, request_id FROM attempts JOIN requests USING (request) "
            "WHERE intent = ? AND outcome IS NULL"
        )
        with opened(self.path) as con:
            found = (Awaited(*row) for row in con.execute(query, [intent.intent]))
            return {intent.name(each.key): each for each in found}

    def holds(self, intent: Intent, keys: Container[str]) -> bool:
        """Whether an intent still owes one of these requests."""
        query = (
            "SELECT key FROM attempts JOIN requests USING (request) "
            "WHERE intent = ? AND outcome IS NULL"
        )
        with opened(self.path) as con:
            return any(key in keys for (key,) in con.execute(query, [intent.intent]))

    def known_batches(self) -> set[str]:
        """Ids of all batches that belong to an intent."""
        with opened(self.path) as con:
            return {batch_id for (batch_id,) in con.execute("SELECT batch_id FROM batches")}

    def lines(self, intent: Intent) -> Iterator[str]:
        """The raw result lines of an intent."""
        with opened(self.path) as con:
            for (line,) in con.execute(
                "SELECT line FROM result_lines WHERE intent = ?", [intent.intent]
            ):
                yield line

    def outcomes(self, run: str) -> dict[str, int]:
        """How many attempts of a run ended in each way; `unknown` ones may have been billed."""
        if not self.path.exists():
            return {}
        query = (
            "SELECT coalesce(outcome, 'under way'), count(*) FROM attempts "
            "JOIN intents USING (intent) WHERE run = ? AND state NOT IN ('void', 'given_up') "
            "GROUP BY 1"
        )
        with opened(self.path) as con:
            return {str(outcome): int(n) for outcome, n in con.execute(query, [run])}

    def spent(self, run: str) -> float:
        """US dollars that a run has paid so far, failed and re-asked answers included."""
        if not self.path.exists():
            return 0.0
        with opened(self.path) as con:
            query = "SELECT coalesce(sum(usd), 0) FROM costs WHERE run = ?"
            (usd,) = con.execute(query, [run]).fetchone()
        return float(usd)

    def output_tokens(self, model: str, origin: str, purpose: str) -> tuple[int, float]:
        """How many answers a model has given for a purpose, and their tokens on average."""
        if not self.path.exists():
            return 0, 0.0
        query = (
            "SELECT count(*), coalesce(avg(json_extract(usage, '$.output_tokens')), 0) "
            "FROM intents JOIN attempts USING (intent) JOIN requests USING (request) "
            "JOIN answers USING (key) WHERE model = ? AND origin = ? AND purpose = ? "
            "AND outcome = status"
        )
        with opened(self.path) as con:
            n, mean = con.execute(query, [model, origin, purpose]).fetchone()
        return int(n), float(mean)

    def paid(self, run: str) -> list[Answer]:
        """Every answer that a run paid for, re-asked ones included, without its text."""
        if not self.path.exists():
            return []
        query = (
            "SELECT request_id, status, '', served_model, usage, cost_usd, detail, run "
            "FROM answers WHERE run = ? AND cost_usd > 0"
        )
        with opened(self.path) as con:
            return [_answer(*row) for row in con.execute(query, [run])]

    def _look_up(self, select: str, keys: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        wanted = list(keys)
        if not self.path.exists() or not wanted:
            return
        with opened(self.path) as con:
            for start in range(0, len(wanted), _CHUNK):
                some = wanted[start : start + _CHUNK]
                yield from con.execute(f"{select} WHERE key IN ({','.join('?' * len(some))})", some)


_INSERT_ANSWER = (
    "INSERT OR IGNORE INTO answers (key, judge_model, request_id, status, text, served_model, "
    "usage, cost_usd, detail, run) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def _add_attempts(con: sqlite3.Connection, intent: str, requests: Mapping[str, Asked]) -> None:
    named = to_json([(key, request.request_id) for key, request in requests.items()]).decode()
    con.execute(
        "INSERT OR IGNORE INTO requests (key, request_id) "
        "SELECT value ->> 0, value ->> 1 FROM json_each(?)",
        [named],
    )
    con.execute(
        "INSERT INTO attempts (intent, request) SELECT ?, request "
        "FROM json_each(?) JOIN requests ON requests.key = value ->> 0",
        [intent, named],
    )


def _by_request(row: tuple[Awaited, Result]) -> int:
    return row[0].request


def _record(
    con: sqlite3.Connection, intent: Intent, results: Sequence[tuple[Awaited, Result]]
) -> None:
    con.executemany(
        "INSERT INTO result_lines (intent, request, line) SELECT intent, request, ? "
        "FROM attempts WHERE intent = ? AND request = ? AND outcome IS NULL",
        ((result.line, intent.intent, owed.request) for owed, result in results),
    )
    con.executemany(
        "UPDATE attempts SET outcome = ?, cost_usd = ?, detail = ? "
        "WHERE intent = ? AND request = ? AND outcome IS NULL",
        (
            (a.status.value, a.cost_usd, a.detail, intent.intent, owed.request)
            for owed, a in ((owed, result.answer) for owed, result in results)
        ),
    )
    con.executemany(
        _INSERT_ANSWER,
        (
            _row(owed.key, intent.model, result.answer, intent.run, owed.request_id)
            for owed, result in results
            if result.billed
        ),
    )


def _set_state(con: sqlite3.Connection, intent: str, state: str) -> None:
    con.execute("UPDATE intents SET state = ? WHERE intent = ?", (state, intent))


def _intents(con: sqlite3.Connection, where: str, values: list[str]) -> Iterator[Intent]:
    query = (
        "SELECT intent, transport, state, origin, account, model, purpose, run, n_requests, "
        "planned_at, batch_id, coalesce(created_at, ''), coalesce(expires_at, '') "
        f"FROM intents LEFT JOIN batches USING (intent) {where}"
    )
    for intent, transport, state, origin, account, *rest in con.execute(query, values):
        names = ("model", "purpose", "run", "n_requests", "planned_at", "batch_id")
        yield Intent(
            intent=intent,
            transport=transport,
            state=state,
            service=Service(origin=origin, account=account),
            **dict(zip((*names, "created_at", "expires_at"), rest, strict=True)),
        )


def _row(
    key: str, judge_model: str, answer: Answer, run: str, request_id: str = ""
) -> tuple[object, ...]:
    return (
        key,
        judge_model,
        request_id or answer.request_id,
        answer.status.value,
        whole_text(answer.text),
        answer.served_model,
        to_json(answer.usage).decode(),
        answer.cost_usd,
        answer.detail,
        run or answer.run,
    )


def _answer(*row: Any) -> Answer:
    request_id, status, text, served_model, usage, cost_usd, detail, run = row
    return Answer(
        request_id=request_id,
        status=Status(status),
        text=text,
        served_model=served_model,
        usage=from_json(usage),
        cost_usd=cost_usd,
        detail=detail,
        run=run,
    )
