"""The ledger: one SQLite file that remembers every answer and everything ever paid for.

Final answers are kept raw under a key made of all that could change them, so parsing can
be redone for free and an answer is asked, and paid for, once. What is under way is kept
as intents: written before a batch is created, then its id, then each result line.
"""

from __future__ import annotations

import os
import secrets
import socket
import sqlite3
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout
from pydantic_core import to_json

from arena_kit.files import DataError, LockedError
from arena_kit.judging.judges.base import Batch, PaidJudge, Result, settings_digest
from arena_kit.judging.ledger.rows import (
    KEPT_COLUMNS,
    Awaited,
    Intent,
    Transport,
    add_answers,
    add_attempts,
    answer_row,
    is_damaged,
    read_answer,
    read_intents,
    record_results,
    sealed,
    set_state,
    unsealed,
)
from arena_kit.judging.ledger.schema import integrity_errors, kept_open, opened, transaction
from arena_kit.judging.verdicts.records import Answer, Asked, garbage_collection_disabled

#: The answers under a JSON list of keys, with their checksums.
_KEPT = (
    f"SELECT {KEPT_COLUMNS.replace('key', 'answers.key')}, checksum "
    "FROM json_each(?) CROSS JOIN answers ON answers.key = value"
)
#: What a closed intent's attempts without a result are counted as.
_NO_RESULT = {"batches": "missing", "live": "unknown"}
#: Damaged answers that a message names.
_NAMED = 3
_OWED = "FROM attempts JOIN requests USING (request) WHERE intent = ? AND outcome IS NULL"


@dataclass(frozen=True, slots=True)
class Ledger:
    """The file; every call opens its own connection, so any thread may use it."""

    path: Path

    def get(self, keys: Iterable[str]) -> dict[str, Answer]:
        """The final answers among these keys; a damaged one is an error."""
        with garbage_collection_disabled():
            return {key: read_answer(*row) for key, _, *row in self._look_up(keys)}

    def settled(self, keys: Iterable[str]) -> set[str]:
        """Which of these keys have a final answer; a damaged one is an error."""
        return {str(row[0]) for row in self._look_up(keys)}

    def put(self, judge_model: str, answers: Iterable[tuple[str, Answer]], run: str = "") -> None:
        """Keep final answers; one that is already there stays as it was."""
        rows = [answer_row(key, judge_model, answer, run) for key, answer in answers]
        with opened(self.path) as con, transaction(con):
            add_answers(con, rows)

    def reopen(self, keys: Iterable[str]) -> None:
        """Let requests be sent again although they have a final answer, for the user said so;
        what they cost and the lines that came stay.
        """
        with opened(self.path) as con, transaction(con):
            con.executemany("DELETE FROM answers WHERE key = ?", ((key,) for key in keys))

    def __len__(self) -> int:
        (n,) = self._row("SELECT count(*) FROM answers", absent=(0,))
        return int(n)

    @contextmanager
    def locked(self, run: str) -> Iterator[None]:
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
        row = self._row("SELECT pid, host, since FROM holder", absent=())
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
        judge: PaidJudge,
        purpose: str,
        run: str,
        newest_seen: str | None = None,
    ) -> Intent:
        """Write down, durably, that these requests (by key) are about to be sent, and which batch
        was the service's newest before.
        """
        intent = secrets.token_hex(6)
        with opened(self.path) as con, transaction(con):
            con.execute(
                "INSERT INTO intents (intent, transport, state, origin, account, model, purpose, "
                "settings, run, n_requests, newest_seen) "
                "VALUES (?, ?, 'planned', ?, ?, ?, ?, ?, ?, ?, ?)",
                (intent, transport, judge.service.origin, judge.service.account, judge.model,
                 purpose, settings_digest(judge), run, len(requests), newest_seen),
            )  # fmt: skip
            add_attempts(con, intent, requests)
            return next(read_intents(con, "WHERE intent = ?", [intent]))

    def begin(self, intent: Intent, requests: Mapping[str, Asked]) -> list[Awaited]:
        """Write down that these calls of a live intent are about to be made."""
        with opened(self.path) as con, transaction(con):
            add_attempts(con, intent.intent, requests)
        return [owed for owed in self.awaited(intent).values() if owed.key in requests]

    def submitted(self, intent: Intent, batch: Batch) -> None:
        """Write down the id of the batch that an intent became."""
        with opened(self.path) as con, transaction(con):
            con.execute(
                "INSERT OR REPLACE INTO batches (batch_id, intent, created_at, expires_at, status) "
                "VALUES (?, ?, ?, ?, ?)",
                (batch.batch_id, intent.intent, batch.created_at, batch.expires_at, batch.status),
            )
            set_state(con, intent.intent, "submitted")

    def adopt(
        self,
        intent: str,
        batch: Batch,
        requests: Mapping[str, Asked],
        *,
        judge: PaidJudge,
        purpose: str,
        run: str,
    ) -> None:
        """Write down a batch that exists at the service, with those of its requests (by key) that
        are wanted, under the intent that its custom ids name.
        """
        with opened(self.path) as con, transaction(con):
            con.execute(
                "INSERT INTO intents (intent, transport, state, origin, account, model, purpose, "
                "settings, run, n_requests) "
                "VALUES (?, 'batches', 'submitted', ?, ?, ?, ?, ?, ?, ?)",
                (intent, judge.service.origin, judge.service.account, judge.model, purpose,
                 settings_digest(judge), run, batch.n_requests),
            )  # fmt: skip
            add_attempts(con, intent, requests)
            con.execute(
                "INSERT INTO batches (batch_id, intent, created_at, expires_at, status) "
                "VALUES (?, ?, ?, ?, ?)",
                (batch.batch_id, intent, batch.created_at, batch.expires_at, batch.status),
            )

    def record(
        self, intent: Intent, results: Iterable[tuple[Awaited, Result]], run: str = ""
    ) -> None:
        """Keep result lines with what they cost the run that got them; final ones become
        answers.
        """
        with opened(self.path) as con, transaction(con):
            record_results(con, intent, results, run or intent.run)

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
                "request would be asked, and paid for, again; put a backup in its place"
            )
        return salt

    def close(self, intent: Intent, state: Literal["closed", "void", "given_up"]) -> None:
        """End an intent: nothing more will come, the service never took it, or the user gave
        it up. A live call that then has no answer may have been billed: it stays `unknown`.
        """
        outcome = _NO_RESULT[intent.transport] if state == "closed" else state
        with opened(self.path) as con, transaction(con):
            set_state(con, intent.intent, state)
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
            "WHERE transport = ? AND state IN ('planned', 'submitted') AND EXISTS (SELECT 1 FROM "
            "attempts WHERE attempts.intent = intents.intent AND outcome IS NULL) "
            "ORDER BY planned_at"
        )
        with opened(self.path) as con:
            return list(read_intents(con, where, [transport]))

    def awaited(self, intent: Intent) -> dict[str, Awaited]:
        """An intent's requests that have no result yet, by name."""
        rows = self._rows(f"SELECT key, request, request_id {_OWED}", intent.intent)
        return {intent.name(row[0]): Awaited._make(row) for row in rows}

    def holds(self, intent: Intent, keys: Container[str]) -> bool:
        """Whether an intent still owes one of these requests."""
        with opened(self.path) as con:
            rows = con.execute(f"SELECT key {_OWED}", [intent.intent])
            return any(key in keys for (key,) in rows)

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
        (n,) = self._row(query, run, absent=(0,))
        return int(n)

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
        query = "SELECT coalesce(sum(cost_usd), 0) FROM attempts WHERE run = ?"
        (usd,) = self._row(query, run, absent=(0,))
        return float(usd)

    def usd_unknown(self, run: str) -> float:
        """US dollars, by forecast, that results may have cost a run which do not say what they
        cost.
        """
        query = "SELECT coalesce(sum(usd_unknown), 0) FROM attempts WHERE run = ?"
        (usd,) = self._row(query, run, absent=(0,))
        return float(usd)

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
        n, mean = self._row(query, *values, absent=(0, 0))
        return int(n), float(mean)

    def paid(self, run: str) -> list[Answer]:
        """Every answer that a run paid for, re-asked ones included, without its text."""
        query = f"SELECT {KEPT_COLUMNS}, checksum FROM answers WHERE run = ? AND cost_usd > 0"
        if not self.path.exists():
            return []
        with opened(self.path) as con:
            rows = self._undamaged(con.execute(query, [run]))
            return [read_answer(*row)._replace(text="") for _, _, *row in rows]

    def _rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        """What a query gives; nothing where there is no file, and none is made."""
        if not self.path.exists():
            return []
        with opened(self.path) as con:
            return con.execute(query, values).fetchall()

    def _row(self, query: str, *values: str, absent: tuple[Any, ...]) -> tuple[Any, ...]:
        """The first row of a query, `absent` where there is none."""
        return next(iter(self._rows(query, *values)), absent)

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
                "and not used; `arena-kit ledger check --forget-damaged` lets it be asked, and "
                "paid for, again"
            )

    def _refuse_unsound(self, con: sqlite3.Connection, table: str) -> None:
        """Raise when a table is damaged, so that something in it may not be found."""
        if errors := integrity_errors(con, table):
            raise DataError(
                f"{self.path}: its table {table} is damaged ({errors[0]}), so that what was paid "
                "for may not be found; see `arena-kit ledger check`, or put a backup in its place"
            )
