"""A vote store's database: its tables, the same on SQLite and PostgreSQL, and how it is opened:
durable, and refused where its tables are not those of this version.

Numbers count from 1 without a gap, in the order of commits; times are microseconds since 1970.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection, Engine, ForeignKey, Index, Table
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from arena_kit.battles.readers.vote_chain import CHAINED
from arena_kit.files import DataError

_POSTGRES = {"postgres", "postgresql", "postgresql+psycopg"}
#: Seconds for which another process's lock is waited for.
_LOCK_TIMEOUT = 60

metadata = sa.MetaData()
_Number = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _text(name: str, *more: object, nullable: bool = False, **options: object) -> Column[str]:
    return Column(name, sa.Text, *more, nullable=nullable, **options)  # type: ignore[arg-type]


def _texts(*names: str) -> list[Column[str]]:
    return [_text(name) for name in names]


def _one_of(name: str, *allowed: str) -> Column[str]:
    """A text that is one of few."""
    values = ", ".join(f"'{each}'" for each in allowed)
    return _text(name, sa.CheckConstraint(f"{name} IN ({values})", name=name))


def _number(name: str, *, key: bool = False, nullable: bool = False) -> Column[int]:
    return Column(name, _Number, primary_key=key, autoincrement=False, nullable=nullable)


_ONE = sa.CheckConstraint("one = 1", name="one")
#: The one arena of a store, how many rows the other tables have and the checksum of the last one;
#: every writer locks this row.
arena = Table(
    "arena",
    metadata,
    Column("one", sa.Integer, _ONE, primary_key=True, autoincrement=False),
    _text("name"),
    _text("dimension", nullable=True),
    _text("seed"),
    _number("created_at"),
    *(make(name + end) for name in CHAINED for make, end in ((_number, ""), (_text, "_head"))),
)

#: What was in force since when: a row where policy, texts or models changed.
openings = Table(
    "openings",
    metadata,
    _number("number", key=True),
    _number("opened_at"),
    *_texts("version", "policy", "texts", "models", "checksum"),
)

tickets = Table(
    "tickets",
    metadata,
    _number("number", key=True),
    _text("ticket", unique=True),
    _text("copy_of", ForeignKey("tickets.ticket"), nullable=True),
    _text("session"),
    _text("voter", nullable=True),
    *_texts("model_a", "model_b", "prompt"),
    _text("dimension", nullable=True),
    *_texts("lane", "reason", "digest"),
    _number("issued_at"),
    _number("expires_at", nullable=True),
    _text("checksum"),
    Index("ix_tickets_voter", "voter", "issued_at"),
)

votes = Table(
    "votes",
    metadata,
    _number("number", key=True),
    _text("ticket", ForeignKey("tickets.ticket"), unique=True),
    *_texts("voter", "session"),
    _one_of("choice", "A", "B", "TIE", "BOTH_BAD", "SKIP"),
    _number("cast_at"),
    Column("seconds", sa.Float, nullable=True),
    _one_of("source", "page", "ballot", "lab"),
    _number("revealed"),
    _number("known"),
    *_texts("comment", "checksum"),
    Index("ix_votes_voter", "voter"),
)

removals = Table(
    "removals",
    metadata,
    _number("number", key=True),
    _one_of("kind", "voter", "session", "vote"),
    _text("target"),
    _number("undone"),
    *_texts("why", "by"),
    _number("at"),
    _text("checksum"),
)
#: What a PostgreSQL database runs by itself, and SQLite.
_CODE = {
    "postgresql": "SELECT 'trigger ' || tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = "
    "tgrelid WHERE NOT tgisinternal AND relnamespace = current_schema()::regnamespace UNION "
    "SELECT 'rule ' || rulename FROM pg_rules WHERE schemaname = current_schema()",
    "sqlite": "SELECT 'trigger ' || name FROM sqlite_master WHERE type = 'trigger'",
}


def database_url(where: str | Path) -> URL:
    """The address of a store: a path is a SQLite file, `postgresql://…` a PostgreSQL database."""
    if "://" not in str(where):
        return URL.create("sqlite", database=str(Path(where)))
    try:
        url = make_url(str(where))
    except ArgumentError:
        raise DataError("the address of a vote store is not a URL that can be read") from None
    if url.drivername in _POSTGRES:
        return url.set(drivername="postgresql+psycopg")
    if url.drivername == "sqlite" and url.database not in (None, "", ":memory:"):
        return url
    raise DataError(f"a vote store is a path or a postgresql:// address, not {url.drivername}://")


def opened(url: URL, *, create: bool = True) -> Engine:
    """An engine on a store of this version; an empty one is made."""
    if url.drivername == "sqlite":
        _check_file(Path(str(url.database)), create=create)
    try:
        engine = sa.create_engine(url, pool_pre_ping=url.drivername != "sqlite")
    except (ImportError, NoSuchModuleError):
        raise DataError(
            "votes in PostgreSQL need the extra postgres: pip install 'arena-kit[postgres]'"
        ) from None
    _make_durable(engine)
    try:
        with writing(engine) as connection:
            _check_tables(connection, create=create)
    except BaseException as error:
        engine.dispose()
        if not isinstance(error, DBAPIError):
            raise
        why = str(error.orig).strip().partition("\n")[0]
        raise DataError(f"{shown(url)}: cannot be opened as a vote store ({why})") from None
    return engine


def shown(url: URL) -> str:
    """The address as it may be printed: without a password."""
    if url.drivername == "sqlite":
        return str(url.database)
    return url.set(drivername="postgresql").render_as_string(hide_password=True)


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that no other writer overlaps on SQLite; it is durable when the block ends."""
    with (
        engine.connect().execution_options(arena_kit_writes=True) as connection,
        connection.begin(),
    ):
        yield connection


def _check_file(path: Path, *, create: bool) -> None:
    if path.is_dir():
        raise DataError(f"{path}: a vote store is a file, not a folder")
    if not path.exists():
        if not create:
            raise DataError(f"{path}: no such vote store")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)  # it says which model is which, and who voted


def _make_durable(engine: Engine) -> None:
    """A commit returns only when it would outlive a loss of power."""
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _durable_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
    else:
        sa.event.listen(engine, "connect", _durable_postgres)


def _durable_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where `_begin_sqlite` says
    connection.execute(f"PRAGMA busy_timeout = {1000 * _LOCK_TIMEOUT}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("arena_kit_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _durable_postgres(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = on")
        cursor.execute(f"SET lock_timeout = '{_LOCK_TIMEOUT}s'")
        fsync = cursor.execute("SHOW fsync").fetchone()[0]
    connection.commit()
    if fsync != "on":
        raise DataError("the PostgreSQL server has fsync off, so no vote on it would be durable")


def _check_tables(connection: Connection, *, create: bool) -> None:
    """Make the tables of an empty store. Others than ours are refused, and so is what runs by
    itself: a trigger may store another vote than the one that was cast.
    """
    if connection.dialect.name == "postgresql":  # two processes may make the same store
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(7236014290)"))
    inspector, where = sa.inspect(connection), shown(connection.engine.url)
    tables = inspector.get_table_names()
    found = {f"{table}.{c['name']}" for table in tables for c in inspector.get_columns(table)}
    ours = {str(column) for table in metadata.tables.values() for column in table.columns}
    if not tables and create:
        return metadata.create_all(connection)
    if not tables:
        raise DataError(f"{where}: holds no votes of arena_kit")
    if "alembic_version" in tables:
        raise DataError(f"{where}: was written by an unreleased arena_kit, and cannot be read")
    code = connection.exec_driver_sql(_CODE[connection.dialect.name]).scalars()
    strange = [*code, *inspector.get_view_names(), *sorted(found - ours), *sorted(ours - found)]
    if strange:
        why = "is no vote store, or one of another version; unknown or missing"
        raise DataError(f"{where}: {why}: {', '.join(strange[:3])}")
    return None
