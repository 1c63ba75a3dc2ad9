"""The verdict cache: one SQLite file shared by all runs of a workspace.

Answers are kept raw under a key made of everything that could change them, so parsing
can be redone for free and an answer is asked, and paid for, once.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from arena_kit.battles import DataError, whole_text
from arena_kit.judging.judges.base import Judge
from arena_kit.judging.records import Answer, JudgeRequest, Status
from arena_kit.judging.rendering import VERDICT_SCHEMA

SCHEMA_VERSION = 1
_CHUNK = 500
_PATIENCE = 60.0

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY,
    judge_model TEXT NOT NULL,
    request_id TEXT NOT NULL,
    text TEXT NOT NULL,
    served_model TEXT NOT NULL,
    usage TEXT NOT NULL,
    cost_usd REAL NOT NULL,
    detail TEXT NOT NULL,
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) WITHOUT ROWID;
"""


def cache_key(judge: Judge, request: JudgeRequest) -> str:
    """Hash of everything that could change the answer."""
    shown = request.presentation
    parts = {
        "schema": SCHEMA_VERSION,
        "judge_model": judge.model,
        "settings": dict(judge.settings),
        "system": request.system,
        "user": request.user,
        "position": int(shown.first != shown.pair.entrant_a),
        "format": VERDICT_SCHEMA,
        "attempt": request.attempt,
    }
    text = json.dumps(parts, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Ledger:
    """The cache file; every call opens its own connection, so any thread may use it."""

    path: Path

    def get(self, keys: Iterable[str]) -> dict[str, Answer]:
        """The cached answers among these keys."""
        wanted = list(keys)
        found: dict[str, Answer] = {}
        if not self.path.exists():
            return found
        with self._connection() as con:
            for start in range(0, len(wanted), _CHUNK):
                some = wanted[start : start + _CHUNK]
                marks = ",".join("?" * len(some))
                query = (
                    "SELECT key, request_id, text, served_model, usage, cost_usd, detail "
                    f"FROM answers WHERE key IN ({marks})"
                )
                for key, *row in con.execute(query, some):
                    found[key] = _answer(*row)
        return found

    def put(self, judge_model: str, answers: Iterable[tuple[str, Answer]]) -> None:
        """Keep whole answers; one that is already there stays as it was."""
        rows = [
            (
                key,
                judge_model,
                answer.request_id,
                whole_text(answer.text),
                answer.served_model,
                json.dumps(answer.usage, sort_keys=True),
                answer.cost_usd,
                answer.detail,
            )
            for key, answer in answers
            if answer.status is Status.OK
        ]
        with self._connection() as con, con:
            con.executemany(
                "INSERT OR IGNORE INTO answers (key, judge_model, request_id, text, served_model, "
                "usage, cost_usd, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )

    def __len__(self) -> int:
        if not self.path.exists():
            return 0
        with self._connection() as con:
            (n,) = con.execute("SELECT count(*) FROM answers").fetchone()
        return int(n)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with closing(sqlite3.connect(self.path, timeout=_PATIENCE)) as con:
                _write_ahead(con)
                con.execute("PRAGMA synchronous = FULL")
                self._check_schema(con)
                yield con
        except sqlite3.DatabaseError as error:
            raise DataError(f"{self.path}: the verdict cache cannot be used ({error})") from error

    def _check_schema(self, con: sqlite3.Connection) -> None:
        (version,) = con.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise DataError(
                f"{self.path}: made by a newer arena_kit (schema {version}, "
                f"this one knows {SCHEMA_VERSION})"
            )
        if version < SCHEMA_VERSION:
            with con:
                con.execute(_SCHEMA)
                con.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _write_ahead(con: sqlite3.Connection) -> None:
    """Turn on WAL; on a new file SQLite refuses this at once while another process does it."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            con.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _answer(
    request_id: str, text: str, served_model: str, usage: str, cost_usd: float, detail: str
) -> Answer:
    return Answer(
        request_id=request_id,
        status=Status.OK,
        text=text,
        served_model=served_model,
        usage=json.loads(usage),
        cost_usd=cost_usd,
        detail=detail,
    )
