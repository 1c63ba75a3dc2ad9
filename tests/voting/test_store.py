"""The vote store: durable, numbered, and reversible in what it removes."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from arena_kit.files import DataError
from arena_kit.voting.database import database_url, opened, writing
from arena_kit.voting.records import Choice, StoredVote, Ticket
from arena_kit.voting.store import VoteStore
from tests.voting.postgres import Postgres


def ticket(name: str, voter: str = "ann", session: str = "s-1") -> Ticket:
    return Ticket(
        number=0, ticket=name, copy_of=None, session=session, voter=voter, model_a="left",
        model_b="right", prompt="p", dimension=None, lane="coverage", reason="because",
        digest="0" * 64, issued_at=1, expires_at=None,
    )  # fmt: skip


def cast(store: VoteStore, name: str, voter: str = "ann", choice: Choice = Choice.A) -> StoredVote:
    with store.writing() as transaction:
        transaction.begin("arena", None, 7)
        kept = transaction.add_ticket(ticket(name, voter, f"of-{voter}"))
        return transaction.add_vote(
            kept, voter=voter, session=kept.session, choice=choice, seconds=2.5, source="page"
        )


def test_what_is_written_is_read_again(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Votes come back whole after the store was closed, numbered from 1, each later than the one
    before, also where the clock is set back.
    """
    with VoteStore.open(address) as store:
        first = cast(store, "t-1")
        monkeypatch.setattr("arena_kit.voting.store.now", lambda: first.cast_at - 10**9)
        second = cast(store, "t-2", "bob", Choice.SKIP)
    with VoteStore.open(address, create=False) as store:
        assert store.votes() == [first, second]
        assert store.votes(after=1) == [second]
        assert (first.number, second.number) == (1, 2)
        assert second.cast_at == first.cast_at + 1
        counts = {(v.voter, v.votes, v.skips) for v in store.voters()}
        assert counts == {("ann", 1, 0), ("bob", 0, 1)}


def test_what_fails_leaves_nothing(address: str) -> None:
    """The database itself refuses a second vote on a ticket, and a vote on none; an error inside a
    transaction undoes all of it, numbers included.
    """
    with VoteStore.open(address) as store:
        vote = cast(store, "t-1")
        for target in (vote.ticket, ticket("unknown")):
            with pytest.raises(IntegrityError), store.writing() as transaction:
                transaction.add_vote(
                    target, voter="ann", session="x", choice=Choice.B, seconds=None, source="lab"
                )
        with pytest.raises(IntegrityError), store.writing() as transaction:
            transaction.add_ticket(transaction.add_ticket(ticket("t-2", "carla")))
        assert store.votes() == [vote]
        assert [voter.voter for voter in store.voters()] == ["ann"]
        assert cast(store, "t-3").ticket.number == 2


def test_a_removal_is_logged_and_can_be_undone(address: str) -> None:
    """Removing marks votes and deletes none; undoing is another line of the log; both say who
    did it, why, and how many it changed. An unknown voter and an empty reason are refused.
    """
    with VoteStore.open(address) as store:
        for n, voter in enumerate(("ann", "bob", "ann")):
            cast(store, f"t-{n}", voter)
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
            (1, "voter", "ann", False, "a bot", "me"),
            (2, "vote", "t-1", False, "a slip", "me"),
            (3, "session", "of-bob", False, "shared", "me"),
            (4, "voter", "ann", True, "no bot", "you"),
            (5, "vote", "t-1", True, "no slip", "you"),
        ]


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
    """PostgreSQL waits for the disk, whatever the database's own setting is."""
    url = postgres.new_database()
    engine = opened(database_url(url))
    with writing(engine) as connection:
        name = connection.execute(text("SELECT current_database()")).scalar()
        connection.execute(text(f"ALTER DATABASE {name} SET synchronous_commit = off"))
    engine.dispose()
    engine = opened(database_url(url))
    with engine.connect() as connection:
        assert connection.execute(text("SHOW synchronous_commit")).scalar() == "on"
    engine.dispose()


def test_postgresql_that_does_not_wait_for_the_disk_is_refused(postgres: Postgres) -> None:
    """With `fsync` off no vote would be durable, so such a server is refused in a sentence."""
    url = postgres.new_database()

    def set_fsync(change: str, value: str) -> None:
        connection.execute(f"ALTER SYSTEM {change}")
        connection.execute("SELECT pg_reload_conf()")
        while connection.execute("SHOW fsync").fetchone() != (value,):
            time.sleep(0.05)

    with psycopg.connect(url, autocommit=True) as connection:
        try:
            set_fsync("SET fsync = off", "off")
            with pytest.raises(DataError, match="has fsync off"):
                VoteStore.open(url)
        finally:
            set_fsync("RESET fsync", "on")
    VoteStore.open(url).close()


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    """A folder, a text, another program's database, a missing file and a server that cannot be
    reached are one sentence each, without a password.
    """
    (tmp_path / "text.sqlite").write_text("no database, but long enough to be looked at" * 20)
    with sqlite3.connect(tmp_path / "other.sqlite") as other:
        other.execute("CREATE TABLE cakes (id INTEGER)")
    for where, create, why in (
        (tmp_path, True, "is a file, not a folder"),
        (tmp_path / "text.sqlite", True, "file is not a database"),
        (tmp_path / "other.sqlite", True, "other tables (cakes)"),
        (tmp_path / "missing.sqlite", False, "no such vote store"),
        ("mysql://somebody@localhost/votes", True, "not mysql://"),
        ("postgresql://someone:secret@127.0.0.1:1/votes", True, "cannot be opened"),
    ):
        with pytest.raises(DataError) as caught:
            VoteStore.open(where, create=create)
        assert why in str(caught.value)
        assert "secret" not in str(caught.value)
    assert not (tmp_path / "missing.sqlite").exists()
