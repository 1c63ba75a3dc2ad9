"""The tables of the ledger, and how a file of them is opened; `user_version` names the schema."""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from arena_kit.files import DataError

#: Seconds for which another process's lock on the file is waited for.
_LOCK_TIMEOUT = 60.0

#: What is paid for. An intent is written before a batch is created and
#: names each of its requests; the batch's id follows, then every result line; `answers`
#: keeps what is final, whatever its status. An attempt belongs to the run that got its
#: result, which may not be the run that sent it. The index and the trigger are the guard: no
#: request is ever under way twice, and none is sent that has an answer.
_SCHEMA = """
CREATE TABLE answers (
    key TEXT NOT NULL PRIMARY KEY, judge_model TEXT NOT NULL, request_id TEXT NOT NULL,
    status TEXT NOT NULL, text TEXT NOT NULL, served_model TEXT NOT NULL, usage TEXT NOT NULL,
    cost_usd REAL NOT NULL, detail TEXT NOT NULL, run TEXT NOT NULL DEFAULT '',
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    checksum TEXT NOT NULL DEFAULT ''
);

CREATE TABLE requests (
    request INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, request_id TEXT NOT NULL
);

CREATE TABLE intents (
    intent TEXT NOT NULL PRIMARY KEY,
    transport TEXT NOT NULL CHECK (transport IN ('batches', 'live')),
    state TEXT NOT NULL CHECK (state IN ('planned', 'submitted', 'closed', 'void', 'given_up')),
    origin TEXT NOT NULL, account TEXT NOT NULL, model TEXT NOT NULL, purpose TEXT NOT NULL,
    settings TEXT NOT NULL, run TEXT NOT NULL, n_requests INTEGER NOT NULL, newest_seen TEXT,
    planned_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) WITHOUT ROWID;

CREATE TABLE batches (
    batch_id TEXT NOT NULL PRIMARY KEY, intent TEXT NOT NULL UNIQUE REFERENCES intents,
    created_at TEXT NOT NULL, expires_at TEXT NOT NULL, status TEXT NOT NULL,
    recorded_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) WITHOUT ROWID;

CREATE TABLE attempts (
    intent TEXT NOT NULL REFERENCES intents, request INTEGER NOT NULL REFERENCES requests,
    outcome TEXT, run TEXT, cost_usd REAL NOT NULL DEFAULT 0,
    usd_unknown REAL NOT NULL DEFAULT 0, detail TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (intent, request)
) WITHOUT ROWID;

CREATE UNIQUE INDEX under_way_once ON attempts (request) WHERE outcome IS NULL;

CREATE TRIGGER answered_once BEFORE INSERT ON attempts
    WHEN EXISTS (SELECT 1 FROM requests JOIN answers USING (key) WHERE request = NEW.request)
    BEGIN SELECT RAISE(ABORT, 'a request that is already answered was about to be sent'); END;

CREATE TABLE result_lines (
    intent TEXT NOT NULL REFERENCES intents, request INTEGER NOT NULL REFERENCES requests,
    line TEXT NOT NULL
);

CREATE TABLE holder (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    pid INTEGER NOT NULL, host TEXT NOT NULL, run TEXT NOT NULL,
    since TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
);

CREATE INDEX attempts_by_run ON attempts (run) WHERE run IS NOT NULL;

CREATE TABLE secrets (name TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
"""

SCHEMA_VERSION = 3

_kept = threading.local()


@contextmanager
def kept_open(path: Path) -> Iterator[sqlite3.Connection]:
    """One connection for all that this thread does in the block, so that its page cache is kept."""
    with opened(path) as con:
        _kept.path, _kept.con = path, con
        try:
            yield con
        finally:
            _kept.path = None


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a ledger file, made where there is none; write-protected, it is only read."""
    if getattr(_kept, "path", None) == path:
        with _named_errors(path):
            yield _kept.con
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # WAL makes files beside it
    writable = not path.exists() or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
    address = str(path) if writable else _read_only(path)
    with (
        _named_errors(path),
        closing(
            sqlite3.connect(address, timeout=_LOCK_TIMEOUT, isolation_level=None, uri=not writable)
        ) as con,
    ):
        _prepare(con, path, writable=writable)
        yield con


def _read_only(path: Path) -> str:
    """The address of a write-protected file. Without a `-wal` file nobody is writing to it, and
    as `immutable` it needs none to be made.
    """
    log = path.with_name(f"{path.name}-wal")
    in_use = log.exists() and log.stat().st_size > 0
    return f"{path.absolute().as_uri()}?mode=ro{'' if in_use else '&immutable=1'}"


def _prepare(con: sqlite3.Connection, path: Path, *, writable: bool) -> None:
    """Set a new connection up, and make the tables of a new file."""
    # what damage has made undecodable is for the checksum to find
    con.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
    if not writable:
        _refuse_other_schema(con, path)
        return
    try:
        _write_ahead(con)
        con.execute("PRAGMA synchronous = FULL")
        con.execute("PRAGMA wal_autocheckpoint = 1")  # a copy of the file alone has every answer
        con.execute("PRAGMA cache_size = -64000")
        _create_tables(con, path)
    except UnicodeDecodeError as error:  # SQLite's message quotes what it cannot read
        raise sqlite3.DatabaseError("malformed database schema") from error


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """SQLite's errors as a `DataError` that names the file."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise DataError(f"{path}: the verdict cache cannot be used ({error})") from error


@contextmanager
def transaction(con: sqlite3.Connection) -> Iterator[None]:
    """All of the block's changes, durably, or none."""
    con.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        con.execute("ROLLBACK")
        raise
    con.execute("COMMIT")


def _write_ahead(con: sqlite3.Connection) -> None:
    """Turn on WAL; on a new file SQLite refuses this at once while another process does it."""
    deadline = time.monotonic() + _LOCK_TIMEOUT
    while True:
        try:
            con.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _create_tables(con: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new file; a file of another schema is refused."""
    if _version(con) == 0:
        with transaction(con):
            if _version(con) == 0:  # no other process has done it meanwhile
                for statement in _SCHEMA.split(";\n\n"):
                    con.execute(statement)
                con.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    _refuse_other_schema(con, path)


def _refuse_other_schema(con: sqlite3.Connection, path: Path) -> None:
    version = _version(con)
    if version != SCHEMA_VERSION:
        raise DataError(
            f"{path}: a ledger of schema {version}, and this arena_kit knows {SCHEMA_VERSION} only"
        )


def integrity_errors(con: sqlite3.Connection, table: str = "") -> list[str]:
    """What SQLite finds wrong with the structure of a ledger, or of one table and its indexes."""
    pragma = f"PRAGMA integrity_check({table})" if table else "PRAGMA integrity_check"
    return [error for (error,) in con.execute(pragma) if error != "ok"]


def _version(con: sqlite3.Connection) -> int:
    (version,) = con.execute("PRAGMA user_version").fetchone()
    return int(version)
