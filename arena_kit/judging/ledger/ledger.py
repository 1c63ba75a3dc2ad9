"""The ledger: one SQLite file that remembers every answer and everything ever paid for.

Final answers are kept raw under a key made of all that could change them, so parsing can
be redone for free and an answer is asked, and paid for, once. What is under way is kept
as intents: written before a batch is created, then its id, then each result line.
"""

import os
import secrets
import socket
import sqlite3
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple

from filelock import FileLock, Timeout
from pydantic_core import from_json, to_json

from arena_kit.files import DataError, LockedError, whole_file, whole_text
from arena_kit.judging.judges.base import Batch, PaidJudge, Result, Service, settings_digest
from arena_kit.judging.ledger.schema import integrity_errors, kept_open, opened, transaction
from arena_kit.judging.verdicts.records import Answer, Asked, Status

#: Characters of a cache key in a custom id, which may have 64 in all.
_KEY_IN_NAME = 40

Transport = Literal["batches", "live"]
#: Requests by their cache keys.
Requests = Mapping[str, Asked]


class Sender(NamedTuple):
    """Who is paid, for what, and by which run."""

    judge: PaidJudge
    purpose: str
    run: str


#: All that a checksum covers, in the order of `answer_row`; the last eight make an answer.
KEPT_COLUMNS = (
    "key, judge_model, request_id, status, text, served_model, usage, cost_usd, detail, run"
)
#: Bytes of a checksum, and what it is made of.
_CHECKSUM = 16
_CHECKED = "\0".join(["%s"] * len(KEPT_COLUMNS.split()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """Requests that were about to be sent together, and the batch they became, if known.

    `newest_seen` is the newest batch that the service listed just before, empty for none.
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
    newest_seen: str = ""
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


def answer_row(
    key: str, judge_model: str, answer: Answer, run: str, request_id: str = ""
) -> tuple[object, ...]:
    """An answer as a row of `answers`, its checksum last."""
    columns = (
        key, judge_model, request_id or answer.request_id, str(answer.status),
        whole_text(answer.text), answer.served_model, to_json(answer.usage).decode(),
        float(answer.cost_usd), answer.detail, run or answer.run,
    )  # fmt: skip
    return (*columns, checksum(columns))


def read_answer(
    request_id: str, status: str, text: str, served: str, usage: str, *row: Any
) -> Answer:
    """A row of `answers`, without its key and its judge, as an answer."""
    return Answer(request_id, Status(status), text, served, from_json(usage), *row)


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


#: The answers under a JSON list of keys, with their checksums.
_KEPT = (
    f"SELECT {KEPT_COLUMNS.replace('key', 'answers.key')}, checksum "
    "FROM json_each(?) CROSS JOIN answers ON answers.key = value"
)
#: What a closed intent's attempts without a result are counted as.
_NO_RESULT = {"batches": "missing", "live": "unknown"}
#: Damaged answers that a message names.
_NAMED = 3
#: Seconds after which a run that waits for another one says so.
_WAIT = 2.0
_OWED = "FROM attempts JOIN requests USING (request) WHERE intent = ? AND outcome IS NULL"
_INTENTS = (
    "SELECT origin, account, intent, transport, state, model, purpose, settings, run, "
    "n_requests, planned_at, newest_seen, batch_id, coalesce(created_at, '') AS created_at, "
    "coalesce(expires_at, '') AS expires_at, coalesce(status, '') AS status "
    "FROM intents LEFT JOIN batches USING (intent) WHERE "
)
#: How an attempt ended; a live call without an answer may have been billed: `unknown`.
_OUTCOMES = {status: str(status) for status in Status} | {Status.MISSING: "unknown"}


@dataclass(frozen=True, slots=True)
class DamagedAnswer:
    """An answer that is not what was kept: its row, its key, and its request's id for people."""

    row: int
    key: str
    request_id: str


@dataclass(frozen=True, slots=True)
class Findings:
    """What a ledger holds, and what is wrong with it."""

    n_answers: int
    answers: list[DamagedAnswer]
    structure: list[str]

    @property
    def sound(self) -> bool:
        return not (self.answers or self.structure)


@dataclass(frozen=True, slots=True)
class Ledger:
    """The file; every call opens its own connection, so any thread may use it."""

    path: Path

    def get(self, keys: Iterable[str]) -> dict[str, Answer]:
        """The final answers among these keys; a damaged one is an error."""
        return {key: read_answer(*row) for key, _, *row in self._look_up(keys)}

    def settled(self, keys: Iterable[str]) -> set[str]:
        """Which of these keys have a final answer; a damaged one is an error."""
        return {str(row[0]) for row in self._look_up(keys)}

    def put(self, judge_model: str, answers: Iterable[tuple[str, Answer]], run: str = "") -> None:
        """Keep final answers; one that is already there stays as it was."""
        rows = [answer_row(key, judge_model, answer, run) for key, answer in answers]
        with opened(self.path) as con, transaction(con):
            _add_answers(con, rows)

    def reopen(self, keys: Iterable[str]) -> None:
        """Let requests be sent again although they have a final answer, for the user said so;
        what they cost and the lines that came stay.
        """
        with opened(self.path) as con, transaction(con):
            con.executemany("DELETE FROM answers WHERE key = ?", ((key,) for key in keys))

    def __len__(self) -> int:
        return int(self._number("SELECT count(*) FROM answers"))

    @contextmanager
    def locked(self, run: str, say: Callable[[str], None] | None = None) -> Iterator[None]:
        """Be the only process that asks; refuse while another one does or, told how to `say` so,
        wait for it.

        The lock is the operating system's, so it ends with its process however that ends;
        the file only remembers who holds it.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path.with_name(f"{self.path.name}.lock"))
        while not lock.is_locked:
            try:
                lock.acquire(timeout=0 if say is None else _WAIT)
            except Timeout:
                if say is None:
                    raise LockedError(self._holder()) from None
                say(f"waiting: {self._holder()}")
            except OSError as error:
                told = f"answers could not be kept ({error.strerror}), so nothing new is asked"
                raise DataError(f"{self.path}: {told}") from None
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
        rows = self._rows("SELECT pid, host, since FROM holder")
        who = "process {} on {}, since {}".format(*rows[0]) if rows else "another process"
        return (
            f"{self.path}: another run is using this ledger ({who}); start again when it "
            "has finished; its answers are then free"
        )

    def plan(
        self, requests: Requests, sender: Sender, transport: Transport, newest_seen: str = ""
    ) -> Intent:
        """Write down, durably, that these requests are about to be sent, and which batch was the
        service's newest before.
        """
        intent = secrets.token_hex(6)
        with opened(self.path) as con, transaction(con):
            _add_intent(con, sender, intent, transport, "planned", len(requests), newest_seen)
            _add_attempts(con, intent, requests)
            return next(_read_intents(con, "intent = ?", intent))

    def begin(self, intent: Intent, requests: Requests) -> list[Awaited]:
        """Write down that these calls of a live intent are about to be made."""
        with opened(self.path) as con, transaction(con):
            _add_attempts(con, intent.intent, requests)
        return [owed for owed in self.awaited(intent).values() if owed.key in requests]

    def submitted(self, intent: Intent, batch: Batch) -> None:
        """Write down the id of the batch that an intent became."""
        with opened(self.path) as con, transaction(con):
            _add_batch(con, intent.intent, batch, "INSERT OR REPLACE")
            con.execute("UPDATE intents SET state = 'submitted' WHERE intent = ?", [intent.intent])

    def adopt(self, intent: str, batch: Batch, requests: Requests, sender: Sender) -> None:
        """Write down a batch that exists at the service, with those of its requests that are
        wanted, under the intent that its custom ids name.
        """
        with opened(self.path) as con, transaction(con):
            _add_intent(con, sender, intent, "batches", "submitted", batch.n_requests, "")
            _add_attempts(con, intent, requests)
            _add_batch(con, intent, batch)

    def record(
        self, intent: Intent, results: Iterable[tuple[Awaited, Result]], run: str = ""
    ) -> None:
        """Keep result lines, how their attempts ended and what they cost the run that got them;
        final ones become answers.
        """
        ordered = sorted(results, key=lambda row: row[0].request)  # neighbours share database pages
        run, name, lines = run or intent.run, intent.intent, []
        with opened(self.path) as con, transaction(con):
            for owed, result in ordered:
                answer = result.answer
                ended = con.execute(
                    "UPDATE attempts SET outcome = ?, cost_usd = ?, usd_unknown = ?, detail = ?, "
                    "run = ? WHERE intent = ? AND request = ? AND outcome IS NULL",
                    (_OUTCOMES[answer.status], answer.cost_usd, result.usd_unknown, answer.detail,
                     run, name, owed.request),
                )  # fmt: skip
                if ended.rowcount:  # the first result of this attempt
                    lines.append((name, owed.request, result.line))
            con.executemany(
                "INSERT INTO result_lines (intent, request, line) VALUES (?, ?, ?)", lines
            )
            final = ((owed, result.answer) for owed, result in ordered if result.billed)
            rows = (answer_row(o.key, intent.model, a, run, o.request_id) for o, a in final)
            _add_answers(con, rows)

    def canceled(self, intent: Intent) -> None:
        """Write down that the user asked for a batch to be stopped."""
        with opened(self.path) as con, transaction(con):
            con.execute("UPDATE batches SET status = 'canceling' WHERE intent = ?", [intent.intent])

    def salt(self) -> bytes:
        """The secret from which this ledger's boundaries are derived, made at first use.

        Every cache key depends on it, so a damaged one is an error and never made anew.
        """
        with opened(self.path) as con:
            rows = con.execute("SELECT name, value FROM secrets").fetchall()
            if not rows:
                with transaction(con):
                    self._refuse_unsound(con, "secrets")
                    fresh = sealed(secrets.token_bytes(32))
                    con.execute("INSERT OR IGNORE INTO secrets VALUES ('salt', ?)", [fresh])
                    rows = con.execute("SELECT name, value FROM secrets").fetchall()
        salt = unsealed(dict(rows).get("salt"))
        if salt is None:
            raise DataError(
                f"{self.path}: the secret on which all its cache keys depend is damaged, so every "
                "request would be paid again; restore a backup"
            )
        return salt

    def close(self, intent: Intent, state: Literal["closed", "void", "given_up"]) -> None:
        """End an intent: nothing more will come, the service never took it, or the user gave
        it up. A live call that then has no answer may have been billed: it stays `unknown`.
        """
        outcome = _NO_RESULT[intent.transport] if state == "closed" else state
        with opened(self.path) as con, transaction(con):
            con.execute("UPDATE intents SET state = ? WHERE intent = ?", (state, intent.intent))
            con.execute(
                "UPDATE attempts SET outcome = ? WHERE intent = ? AND outcome IS NULL",
                (outcome, intent.intent),
            )
            con.execute("UPDATE batches SET status = 'ended' WHERE intent = ?", [intent.intent])

    def open_intents(self, transport: Transport = "batches") -> list[Intent]:
        """Intents that may still owe results, oldest first."""
        if not self.path.exists():
            return []
        where = (
            "transport = ? AND state IN ('planned', 'submitted') AND EXISTS (SELECT 1 FROM "
            "attempts WHERE attempts.intent = intents.intent AND outcome IS NULL) "
            "ORDER BY planned_at"
        )
        with opened(self.path) as con:
            return list(_read_intents(con, where, transport))

    def awaited(self, intent: Intent) -> dict[str, Awaited]:
        """An intent's requests that have no result yet, by name."""
        rows = self._rows(f"SELECT key, request, request_id {_OWED}", intent.intent)
        return {intent.name(row[0]): Awaited._make(row) for row in rows}

    def holds(self, intent: Intent, keys: Container[str]) -> bool:
        """Whether an intent still owes one of these requests."""
        return any(key in keys for (key,) in self._rows(f"SELECT key {_OWED}", intent.intent))

    def known_batches(self) -> set[str]:
        """Ids of all batches that belong to an intent."""
        return {batch_id for (batch_id,) in self._rows("SELECT batch_id FROM batches")}

    def known_intents(self) -> set[str]:
        """Names of all intents."""
        return {intent for (intent,) in self._rows("SELECT intent FROM intents")}

    def under_way(self, run: str) -> int:
        """How many requests that a run has sent have no result yet."""
        query = (
            "SELECT count(*) FROM intents JOIN attempts USING (intent) "
            "WHERE intents.run = ? AND outcome IS NULL"
        )
        return int(self._number(query, run))

    def outcomes(self, run: str) -> dict[str, int]:
        """How many attempts of a run ended in each way; `unknown` ones may have been billed."""
        query = (
            "SELECT coalesce(outcome, 'under way'), count(*) FROM attempts "
            "JOIN intents USING (intent) WHERE coalesce(attempts.run, intents.run) = ? "
            "AND outcome IS NOT 'void' GROUP BY 1"
        )
        return {str(outcome): int(n) for outcome, n in self._rows(query, run)}

    def spent(self, run: str) -> float:
        """US dollars that a run has paid so far, failed and re-asked answers included."""
        return self._sum("cost_usd", run)

    def usd_unknown(self, run: str) -> float:
        """US dollars, by forecast, that results may have cost a run which do not say what they
        cost.
        """
        return self._sum("usd_unknown", run)

    def _sum(self, column: str, run: str) -> float:
        return self._number(f"SELECT coalesce(sum({column}), 0) FROM attempts WHERE run = ?", run)

    def output_tokens(self, judge: PaidJudge, purpose: str) -> tuple[int, float]:
        """How many answers a judge has given for a purpose with the same settings, and their
        tokens on average.
        """
        query = (
            "SELECT count(usage ->> 'output_tokens'), coalesce(avg(usage ->> 'output_tokens'), 0) "
            "FROM intents JOIN attempts USING (intent) JOIN requests USING (request) "
            "JOIN answers USING (key) WHERE model = ? AND origin = ? AND purpose = ? "
            "AND settings = ? AND outcome = status"
        )
        values = (judge.model, judge.service.origin, purpose, settings_digest(judge))
        ((n, mean),) = self._rows(query, *values) or [(0, 0)]
        return int(n), float(mean)

    def addresses(self, model: str) -> list[str]:
        """Where a model was ever asked."""
        query = "SELECT DISTINCT origin FROM intents WHERE model = ? ORDER BY origin"
        return [str(origin) for (origin,) in self._rows(query, model)]

    def paid(self, run: str, purpose: str = "") -> list[Answer]:
        """Every answer that a run paid for, re-asked ones included, without its text; with a
        `purpose`, those that were sent for it.
        """
        query = f"SELECT {KEPT_COLUMNS}, checksum FROM answers WHERE run = ? AND cost_usd > 0"
        if purpose:
            query += (
                " AND key IN (SELECT key FROM intents JOIN attempts USING (intent) "
                "JOIN requests USING (request) WHERE purpose = ?)"
            )
        rows = self._undamaged(self._rows(query, *filter(None, (run, purpose))))
        return [read_answer(*row)._replace(text="") for _, _, *row in rows]

    def check(self) -> Findings:
        """Verify the structure of the whole file, its salt, and every answer's checksum."""
        with opened(self._existing()) as con:
            structure = integrity_errors(con)
            answers: list[DamagedAnswer] = []
            try:
                answers += _damaged_answers(con)
                (n,) = con.execute("SELECT count(*) FROM answers NOT INDEXED").fetchone()
            except sqlite3.DatabaseError as error:  # a page that cannot be read ends the scan
                structure.append(str(error))
                n = 0
            kept = dict(con.execute("SELECT name, value FROM secrets").fetchall())
            if kept and unsealed(kept.get("salt")) is None:
                structure.append("the secret on which all cache keys depend is damaged")
        return Findings(n_answers=int(n), answers=answers, structure=structure)

    def forget_damaged(self) -> tuple[int, float]:
        """Remove damaged answers, so that their requests are asked again, and make the index
        anew; returns how many they were, and what their requests had cost.
        """
        self._existing()
        with self.locked("forget damaged"), opened(self.path) as con, transaction(con):
            con.execute("REINDEX answers")  # rows are removed by what the table says
            answers = list(_damaged_answers(con))
            keys = to_json([d.key.encode("utf-8", "replace").decode() for d in answers]).decode()
            (cost,) = con.execute(
                "SELECT coalesce(sum(cost_usd), 0) FROM json_each(?) "
                "JOIN requests ON requests.key = value JOIN attempts USING (request)", [keys],
            ).fetchone()  # fmt: skip
            con.executemany("DELETE FROM answers WHERE rowid = ?", ([d.row] for d in answers))
        return len(answers), float(cost)

    def back_up(self, to: Path) -> None:
        """Copy the file as it stands, also while a run writes to it; whole or not at all."""
        if to.exists():
            raise DataError(f"{to}: this file exists; name a new one for the backup")
        with (
            opened(self._existing()) as con,
            whole_file(to) as part,
            closing(sqlite3.connect(part)) as copy,
        ):
            con.backup(copy)

    def _existing(self) -> Path:
        if not self.path.is_file():
            raise DataError(f"{self.path}: there is no ledger")
        return self.path

    def _rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        """What a query gives; nothing where there is no file, and none is made."""
        if not self.path.exists():
            return []
        with opened(self.path) as con:
            return con.execute(query, values).fetchall()

    def _number(self, query: str, *values: str) -> float:
        """The number that a query gives, 0 where there is no file."""
        ((number,),) = self._rows(query, *values) or [(0,)]
        return float(number)

    def _look_up(self, keys: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        """The kept columns under these keys, verified; a key is absent only from a sound table."""
        wanted = list(dict.fromkeys(keys))
        if not self.path.exists() or not wanted:
            return
        with opened(self.path) as con:
            n = 0
            for row in self._undamaged(con.execute(_KEPT, [to_json(wanted).decode()])):
                n += 1
                yield row
            if n < len(wanted):
                self._refuse_unsound(con, "answers")

    def _undamaged(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Rows of answers without their checksums; raises after the last when some are damaged."""
        damaged: list[str] = []
        for row in rows:
            if is_damaged(row):
                damaged.append(repr(row[2]))
            else:
                yield row[:-1]
        if damaged:
            more = f" and {len(damaged) - _NAMED} more" if len(damaged) > _NAMED else ""
            raise DataError(
                f"{self.path}: the kept answer to {', '.join(damaged[:_NAMED])}{more} is damaged "
                "and not used; to request and pay it again: `arena-kit ledger check "
                "--forget-damaged`"
            )

    def _refuse_unsound(self, con: sqlite3.Connection, table: str) -> None:
        """Raise when a table is damaged, so that something in it may not be found."""
        if errors := integrity_errors(con, table):
            raise DataError(
                f"{self.path}: its table {table} is damaged ({errors[0]}), so paid answers may "
                "not be found; see `arena-kit ledger check`, or restore a backup"
            )


def _add_intent(con: sqlite3.Connection, sender: Sender, *sent: object) -> None:
    """A row for requests that go to a judge together."""
    judge, purpose, run = sender
    con.execute(
        "INSERT INTO intents (origin, account, model, settings, purpose, run, intent, transport, "
        "state, n_requests, newest_seen) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (judge.service.origin, judge.service.account, judge.model, settings_digest(judge), purpose,
         run, *sent),
    )  # fmt: skip


def _add_batch(con: sqlite3.Connection, intent: str, batch: Batch, verb: str = "INSERT") -> None:
    con.execute(
        f"{verb} INTO batches (batch_id, intent, created_at, expires_at, status) "
        "VALUES (?, ?, ?, ?, ?)",
        (batch.batch_id, intent, batch.created_at, batch.expires_at, batch.status),
    )


def _add_attempts(con: sqlite3.Connection, intent: str, requests: Requests) -> None:
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


def _add_answers(con: sqlite3.Connection, rows: Iterable[tuple[object, ...]]) -> None:
    """Keep rows of `answer_row`; an answer that is already there stays as it was."""
    con.executemany(
        f"INSERT OR IGNORE INTO answers ({KEPT_COLUMNS}, checksum) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def _read_intents(con: sqlite3.Connection, where: str, value: str) -> Iterator[Intent]:
    """Intents with the batches they became."""
    rows = con.execute(_INTENTS + where, [value])
    _, _, *names = (column[0] for column in rows.description)
    for origin, account, *rest in rows:
        service = Service(origin=origin, account=account)
        yield Intent(service=service, **dict(zip(names, rest, strict=True)))


def _damaged_answers(con: sqlite3.Connection) -> Iterator[DamagedAnswer]:
    """Every answer whose checksum does not fit, by a scan that needs no index."""
    rows = con.execute(f"SELECT rowid, {KEPT_COLUMNS}, checksum FROM answers NOT INDEXED")
    for row, *columns in rows:
        if is_damaged(columns):
            yield DamagedAnswer(row=row, key=str(columns[0]), request_id=str(columns[2]))
