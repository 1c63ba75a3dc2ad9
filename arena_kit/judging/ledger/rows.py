"""The ledger's records and the rows they are kept in."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

from pydantic_core import from_json, to_json

from arena_kit.files import whole_text
from arena_kit.judging.judges.base import Result, Service
from arena_kit.judging.verdicts.records import Answer, Asked, Status

#: Characters of a cache key in a custom id, which may have 64 in all.
_KEY_IN_NAME = 40

Transport = Literal["batches", "live"]

#: The columns that make an answer, in the order of `answer_row` and `read_answer`.
ANSWER_COLUMNS = "request_id, status, text, served_model, usage, cost_usd, detail, run"
#: All that an answer's checksum covers.
KEPT_COLUMNS = f"key, judge_model, {ANSWER_COLUMNS}"
#: How an attempt ended; a live call without an answer may have been billed: `unknown`.
_OUTCOMES = {status: str(status) for status in Status} | {Status.MISSING: "unknown"}
#: Bytes of a checksum, and what it is made of.
_CHECKSUM = 16
_CHECKED = "\0".join(["%s"] * len(KEPT_COLUMNS.split()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """Requests that were about to be sent together, and the batch they became, if known.

    `newest_seen` is the newest batch that the service listed just before, empty for none and
    None where nobody looked.
    """

    intent: str
    transport: Transport
    state: str
    service: Service
    model: str
    purpose: str
    settings: str
    run: str
    n_requests: int
    planned_at: str
    newest_seen: str | None = None
    batch_id: str | None = None
    created_at: str = ""
    expires_at: str = ""
    status: str = ""

    def name(self, key: str) -> str:
        """What a request is called inside this intent's batch (a custom id)."""
        return f"{self.intent}-{key_in_name(key)}"

    def owns(self, name: str) -> bool:
        """Whether a custom id was made by this intent."""
        return name.startswith(f"{self.intent}-")

    @property
    def words(self) -> str:
        """The intent in words: its batch, if it has one, and its size."""
        batch = f"batch {self.batch_id}" if self.batch_id else f"unconfirmed batch {self.intent}"
        return f"{batch} ({self.n_requests} requests)"


def key_in_name(key: str) -> str:
    """The part of a cache key that a custom id holds."""
    return key[:_KEY_IN_NAME]


class Awaited(NamedTuple):
    """A request that an intent still owes: its cache key, its row, and its id for people."""

    key: str
    request: int
    request_id: str


def add_attempts(con: sqlite3.Connection, intent: str, requests: Mapping[str, Asked]) -> None:
    """Rows for requests that are about to be sent, in the order of their keys: neighbours in one
    table are then neighbours in the others and in their indexes.
    """
    keys = sorted(requests)
    con.executemany(
        "INSERT OR IGNORE INTO requests (key, request_id) VALUES (?, ?)",
        ((key, requests[key].request_id) for key in keys),
    )
    con.execute(
        "INSERT INTO attempts (intent, request) SELECT ?, request "
        "FROM json_each(?) JOIN requests ON requests.key = value",
        [intent, to_json(keys).decode()],
    )


def record_results(
    con: sqlite3.Connection, intent: Intent, results: Iterable[tuple[Awaited, Result]], run: str
) -> None:
    """Rows for results: the line, how the attempt ended, and the answer where it is final."""
    results = sorted(results, key=_request)  # neighbouring rows share database pages
    cursor = con.cursor()
    lines = []
    for owed, result in results:
        answer = result.answer
        cursor.execute(
            "UPDATE attempts SET outcome = ?, cost_usd = ?, usd_unknown = ?, detail = ?, run = ? "
            "WHERE intent = ? AND request = ? AND outcome IS NULL",
            (_OUTCOMES[answer.status], answer.cost_usd, result.usd_unknown, answer.detail, run,
             intent.intent, owed.request),
        )  # fmt: skip
        if cursor.rowcount:  # the first result of this attempt
            lines.append((intent.intent, owed.request, result.line))
    con.executemany("INSERT INTO result_lines (intent, request, line) VALUES (?, ?, ?)", lines)
    add_answers(
        con,
        (
            answer_row(owed.key, intent.model, result.answer, run, owed.request_id)
            for owed, result in results
            if result.billed
        ),
    )


def _request(row: tuple[Awaited, Result]) -> int:
    return row[0].request


def add_answers(con: sqlite3.Connection, rows: Iterable[tuple[object, ...]]) -> None:
    """Keep rows of `answer_row`; an answer that is already there stays as it was."""
    # SQLite's default would work out the time once a row
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    con.executemany(
        f"INSERT OR IGNORE INTO answers ({KEPT_COLUMNS}, checksum, created_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        ((*row, now) for row in rows),
    )


def set_state(con: sqlite3.Connection, intent: str, state: str) -> None:
    """Write down how far an intent is."""
    con.execute("UPDATE intents SET state = ? WHERE intent = ?", (state, intent))


def read_intents(con: sqlite3.Connection, where: str, values: list[str]) -> Iterator[Intent]:
    """Intents with the batches they became."""
    rows = con.execute(
        "SELECT origin, account, intent, transport, state, model, purpose, settings, run, "
        "n_requests, planned_at, newest_seen, batch_id, coalesce(created_at, '') AS created_at, "
        "coalesce(expires_at, '') AS expires_at, coalesce(status, '') AS status "
        f"FROM intents LEFT JOIN batches USING (intent) {where}",
        values,
    )
    _, _, *names = (column[0] for column in rows.description)
    for origin, account, *rest in rows:
        service = Service(origin=origin, account=account)
        yield Intent(service=service, **dict(zip(names, rest, strict=True)))


def answer_row(
    key: str, judge_model: str, answer: Answer, run: str, request_id: str = ""
) -> tuple[object, ...]:
    """An answer as a row of `answers`, its checksum last."""
    columns = (
        key,
        judge_model,
        request_id or answer.request_id,
        str(answer.status),
        whole_text(answer.text),
        answer.served_model,
        to_json(answer.usage).decode(),
        float(answer.cost_usd),
        answer.detail,
        run or answer.run,
    )
    return (*columns, checksum(columns))


def read_answer(*row: Any) -> Answer:
    """A row of `answers`, without its key, as an answer."""
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


def checksum(columns: Sequence[object]) -> str:
    """The checksum of an answer's columns, as they are kept and as they come back."""
    text = _CHECKED % tuple(columns)
    content = text.encode("utf-8", "surrogateescape")  # as `opened` decodes damaged text
    return blake2b(content, digest_size=_CHECKSUM).hexdigest()


def is_damaged(row: Sequence[object]) -> bool:
    """Whether an answer's columns, followed by its checksum, are not what was kept."""
    return checksum(row[:-1]) != row[-1]


def sealed(secret: bytes) -> bytes:
    """A secret followed by its checksum."""
    return secret + blake2b(secret, digest_size=_CHECKSUM).digest()


def unsealed(value: object) -> bytes | None:
    """The secret in front of its checksum; None when either is damaged."""
    if not isinstance(value, bytes):
        return None
    secret = value[:-_CHECKSUM]
    return secret if sealed(secret) == value else None
