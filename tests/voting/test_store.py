"""The vote store: durable, numbered, reversible in what it removes, and migrated without a loss."""

import json
import shutil
import sqlite3
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import MetaData, create_engine, insert, inspect, select
from sqlalchemy.exc import IntegrityError

from arena_kit.files import DataError
from arena_kit.voting import database
from arena_kit.voting.database import database_url, opened
from arena_kit.voting.records import Choice, StoredVote, Ticket
from arena_kit.voting.store import VoteStore
from tests.samples import CASES
from tests.voting.arenas import arena_texts, live_arena
from tests.voting.postgres import Postgres

#: Rows of every table as version 0001 wrote them, in an order that foreign keys allow: a ballot of
#: two voters, votes of the page, skips, an open ticket, a removal that stands and one undone.
FIRST: dict[str, list[dict[str, Any]]] = json.loads((CASES / "votes_0001.json").read_text())
SCHEMA = (CASES / "votes_0001.sql").read_text()
#: A later version that changes every table which others refer to.
NEXT = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "next", "{head}"


def upgrade():
    for name in ("voters", "tickets", "votes", "removals"):
        with op.batch_alter_table(name) as table:
            table.add_column(sa.Column("more", sa.Text, nullable=False, server_default="none"))
            if name == "tickets":
                table.alter_column("reason", nullable=True)
"""


def ticket(name: str, voter: str = "ann") -> Ticket:
    return Ticket(
        number=0, ticket=name, copy_of=None, session=f"of-{voter}", voter=voter, model_a="left",
        model_b="right", prompt="p", dimension=None, lane="coverage", reason="because",
        digest="0" * 64, issued_at=1, expires_at=None,
    )  # fmt: skip


def add_vote(store: VoteStore, on: Ticket, choice: Choice = Choice.A, *, new: bool) -> StoredVote:
    """A vote on a ticket; a new one is added before."""
    with store.writing() as transaction:
        transaction.begin("small", None, 7)
        kept = transaction.add_ticket(on) if new else on
        about: Any = {"voter": on.voter, "session": on.session, "seconds": 2.5, "source": "page"}
        return transaction.add_vote(kept, choice=choice, **about)


def test_what_is_written_is_read_again(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Votes come back whole and in order; the database refuses a second vote; errors undo all."""
    with VoteStore.open(address) as store:
        first = add_vote(store, ticket("t-1"), new=True)
        monkeypatch.setattr("arena_kit.voting.store.now", lambda: first.cast_at - 10**9)
        second = add_vote(store, ticket("t-2", "bob"), Choice.SKIP, new=True)
        for target in (first.ticket, ticket("unknown")):
            with pytest.raises(IntegrityError):
                add_vote(store, target, Choice.B, new=False)
        with pytest.raises(IntegrityError), store.writing() as transaction:
            transaction.add_ticket(transaction.add_ticket(ticket("t-3", "carla")))
    with VoteStore.open(address, create=False) as store:
        assert (store.votes(), store.votes(after=1)) == ([first, second], [second])
        assert ((first.number, second.number), second.cast_at) == ((1, 2), first.cast_at + 1)
        counts = {(v.voter, v.votes, v.skips) for v in store.voters()}
        assert counts == {("ann", 1, 0), ("bob", 0, 1)}
        assert add_vote(store, ticket("t-4"), new=True).ticket.number == 3


def test_a_removal_is_logged_and_can_be_undone(address: str) -> None:
    """Removing deletes nothing; undoing is a further line; both say who, why and how many."""
    with VoteStore.open(address) as store:
        for n, voter in enumerate(("ann", "bob", "ann")):
            add_vote(store, ticket(f"t-{n}", voter), new=True)
        assert store.remove("voter", ["ann", "ann"], why="a bot", by="me") == 1
        assert store.remove("voter", ["ann"], why="again", by="me") == 0
        assert [vote.removed for vote in store.votes()] == [True, False, True]
        assert store.remove("vote", ["t-1"], why="a slip", by="me") == 1
        assert store.remove("session", ["of-bob"], why="shared", by="me") == 1
        assert store.restore("voter", ["ann"], why="no bot", by="you") == 1
        assert store.restore("vote", ["t-1"], why="no slip", by="you") == 1
        assert [vote.removed for vote in store.votes()] == [False, True, False]
        for targets, why in ((["ann", "eve"], "a bot"), (["ann"], " ")):
            with pytest.raises(DataError):
                store.remove("voter", targets, why=why, by="me")
        assert [(r.number, r.kind, r.target, r.undone, r.why, r.by) for r in store.removals()] == [
            (1, "voter", "ann", False, "a bot", "me"), (2, "vote", "t-1", False, "a slip", "me"),
            (3, "session", "of-bob", False, "shared", "me"),
            (4, "voter", "ann", True, "no bot", "you"), (5, "vote", "t-1", True, "no slip", "you"),
        ]  # fmt: skip


def test_sqlite_is_durable(tmp_path: Path) -> None:
    """SQLite runs in WAL with full synchronisation and foreign keys on every connection."""
    engine = opened(database_url(tmp_path / "votes.sqlite"))
    with engine.connect() as one, engine.connect() as two:
        for connection in (one, two):
            names = ("journal_mode", "synchronous", "foreign_keys")
            found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]
            assert found == ["wal", 2, 1]
    engine.dispose()


def test_postgresql_is_durable(postgres: Postgres) -> None:
    """PostgreSQL waits for the disk whatever its setting; a server with fsync off is refused."""
    url = postgres.new_database()

    def set_fsync(change: str, value: str) -> None:
        connection.execute(f"ALTER SYSTEM {change}")
        connection.execute("SELECT pg_reload_conf()")
        while connection.execute("SHOW fsync").fetchone() != (value,):
            time.sleep(0.05)

    with psycopg.connect(url, autocommit=True) as connection:
        name = url.rpartition("/")[2]
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        try:
            set_fsync("SET fsync = off", "off")
            with pytest.raises(DataError, match="has fsync off"):
                VoteStore.open(url)
        finally:
            set_fsync("RESET fsync", "on")
    engine = opened(database_url(url))
    with engine.connect() as ours:
        assert ours.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    engine.dispose()


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    """What is no store is refused in a sentence, without a password."""
    (tmp_path / "text.sqlite").write_text("no database, but long enough to be looked at" * 20)
    with sqlite3.connect(tmp_path / "other.sqlite") as other:
        other.execute("CREATE TABLE cakes (id INTEGER)")
    for where, why in (
        (tmp_path, "is a file, not a folder"),
        (tmp_path / "text.sqlite", "file is not a database"),
        (tmp_path / "other.sqlite", "other tables (cakes)"),
        (tmp_path / "missing.sqlite", "no such vote store"),
        ("mysql://somebody@localhost/votes", "not mysql://"),
        ("postgresql://someone:secret@127.0.0.1:1/votes", "cannot be opened"),
    ):
        with pytest.raises(DataError) as caught:
            VoteStore.open(where, create="missing" not in str(where))
        assert why in str(caught.value)
        assert "secret" not in str(caught.value)
    assert not (tmp_path / "missing.sqlite").exists()


def write_first(address: str) -> None:
    """A store as version 0001 left it."""
    engine, tables = create_engine(database_url(address)), MetaData()
    number = "INTEGER" if engine.dialect.name == "sqlite" else "BIGINT"
    with engine.begin() as connection:
        for statement in SCHEMA.replace("BIGINT", number).split(";\n")[:-1]:
            connection.exec_driver_sql(statement)
        tables.reflect(connection)
        for name, rows in FIRST.items():
            connection.execute(insert(tables.tables[name]), rows)
    engine.dispose()


def holds_all(address: str) -> bool:
    """Whether a store holds all that version 0001 wrote, and no row more."""
    engine, tables, found = create_engine(database_url(address)), MetaData(), {}
    with engine.connect() as connection:
        tables.reflect(connection)
        for name, rows in FIRST.items():
            query = select(*(tables.tables[name].c[column] for column in rows[0]))
            found[name] = [dict(row) for row in connection.execute(query).mappings()]
    engine.dispose()
    return all(sorted(map(repr, found[n])) == sorted(map(repr, FIRST[n])) for n in FIRST)


def test_migrated_whole(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration that breaks off changes nothing; a later one keeps every row."""
    write_first(address)
    later = Path(shutil.copytree(database._MIGRATIONS, tmp_path / "migrations"))
    head = max(path.name for path in (later / "versions").glob("v*.py"))[1:5]
    file = later / "versions" / "v9999_next.py"
    with monkeypatch.context() as patched:
        patched.setattr(database, "_MIGRATIONS", later)
        file.write_text(NEXT.format(head=head) + "    raise RuntimeError('half-way')\n")
        with pytest.raises(RuntimeError, match="half-way"):
            VoteStore.open(address)
    VoteStore.open(address).close()
    assert holds_all(address)
    monkeypatch.setattr(database, "_MIGRATIONS", later)
    file.write_text(NEXT.format(head=head))
    VoteStore.open(address).close()
    assert holds_all(address)
    arena = live_arena(address, arena_texts(("aspen", "birch", "cedar", "dogwood")))
    cast = [vote for vote in FIRST["votes"] if vote["choice"] != "SKIP"]
    gone = {line["target"] for line in FIRST["removals"] if line["number"] == 3}
    counted = {vote["ticket"] for vote in cast if not gone & {vote["voter"], vote["ticket"]}}
    assert {vote.ticket.ticket for vote in arena.board().votes} == counted
    assert arena.board().waiting == 1
    with pytest.raises(IntegrityError):
        add_vote(arena.store, ticket("unknown"), new=False)
    arena.close()


def test_the_tables_are_those_of_the_code(address: str) -> None:
    """A store of version 0001 gets the tables of a new one; one of a later version is refused."""
    write_first(address)
    engine = opened(database_url(address))
    with engine.begin() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, database.metadata) == []
        tables = [inspect(connection).get_check_constraints(t) for t in database.metadata.tables]
        checks = {check["name"] for table in tables for check in table}
        assert {"ck_votes_choice", "ck_votes_source", "ck_removals_kind", "ck_arena_one"} <= checks
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    with pytest.raises(DataError, match=r"\(schema 9999; this one knows up to 0001"):
        VoteStore.open(address)
