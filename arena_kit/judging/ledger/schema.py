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

#: What is paid for, as SQL, a blank line between statements.
_TABLES = Path(__file__).with_name("schema.sql")
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
    """Set a new connection up, and make the tables of a new file; another schema is refused."""
    # what damage has made undecodable is for the checksum to find
    con.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
    try:
        if writable:
            _write_ahead(con)
            con.execute("PRAGMA synchronous = FULL")
            # a copy of the file alone has every answer
            con.execute("PRAGMA wal_autocheckpoint = 1")
            con.execute("PRAGMA cache_size = -64000")
            _create_tables(con)
        version = _version(con)
    except UnicodeDecodeError as error:  # SQLite's message quotes what it cannot read
        raise sqlite3.DatabaseError("malformed database schema") from error
    if version != SCHEMA_VERSION:
        raise DataError(
            f"{path}: a ledger of schema {version}, and this arena_kit knows {SCHEMA_VERSION} only"
        )


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


def _create_tables(con: sqlite3.Connection) -> None:
    """Make the tables of a new file."""
    if _version(con) == 0:
        with transaction(con):
            if _version(con) == 0:  # no other process has done it meanwhile
                for statement in _TABLES.read_text("utf-8").split(";\n\n"):
                    con.execute(statement)
                con.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def integrity_errors(con: sqlite3.Connection, table: str = "") -> list[str]:
    """What SQLite finds wrong with the structure of a ledger, or of one table and its indexes."""
    pragma = f"PRAGMA integrity_check({table})" if table else "PRAGMA integrity_check"
    return [error for (error,) in con.execute(pragma) if error != "ok"]


def _version(con: sqlite3.Connection) -> int:
    (version,) = con.execute("PRAGMA user_version").fetchone()
    return int(version)
