"""The vote store: durable, numbered, reversible in what it removes, refused where changed."""

import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import IntegrityError

from arena_kit import read_battles
from arena_kit.files import DataError
from arena_kit.voting.database import database_url, opened
from arena_kit.voting.records import Choice, StoredVote, Ticket
from arena_kit.voting.store import VoteStore
from tests.voting.arenas import live_arena, vote
from tests.voting.postgres import Postgres


def ticket(name: str, voter: str = "ann") -> Ticket:
    return Ticket(
        number=0, ticket=name, copy_of=None, session=f"of-{voter}", voter=voter, model_a="left",
        model_b="right", prompt="p", dimension=None, lane="coverage", reason="because",
        digest="0" * 64, issued_at=1, expires_at=None,
    )  # fmt: skip


def add_vote(store: VoteStore, on: Ticket, choice: Choice = Choice.A, *, new: bool) -> StoredVote:
    """A vote on a ticket; a new one is added before."""
    with store.writing() as transaction:
        transaction.begin("small", (), 7)
        kept = transaction.add_ticket(on) if new else on
        about: Any = {"number": 0, "cast_at": 0, "revealed": False, "known": False, "comment": ""}
        about |= {"voter": on.voter, "session": on.session, "seconds": 2.5, "source": "page"}
        return transaction.add_vote(StoredVote(ticket=kept, choice=choice, removed=False, **about))


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
        (tmp_path / "other.sqlite", "another version; unknown or missing: cakes"),
        (tmp_path / "missing.sqlite", "no such vote store"),
        ("mysql://somebody@localhost/votes", "not mysql://"),
        ("postgresql://someone:secret@127.0.0.1:1/votes", "cannot be opened"),
    ):
        with pytest.raises(DataError) as caught:
            VoteStore.open(where, create="missing" not in str(where))
        assert why in str(caught.value)
        assert "secret" not in str(caught.value)
    assert not (tmp_path / "missing.sqlite").exists()


@contextmanager
def edited(address: str) -> Iterator[Connection]:
    """A connection that changes a store behind its back."""
    engine = create_engine(database_url(address))
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def check_refused(address: str, why: str, in_battles: str) -> None:
    """A store is refused by those who open it and, if it is a file, by those who read battles."""
    with pytest.raises(DataError, match=why), VoteStore.open(address) as store:
        store.votes()
    if in_battles and "://" not in address:
        with pytest.raises(DataError, match=in_battles):
            read_battles(address)


CHANGED = [
    ("UPDATE votes SET choice = 'B' WHERE number = 2", "row 2 of votes"),
    ("UPDATE votes SET number = number + 1 WHERE number = 5", "row 6 of votes, the last row of"),
    ("UPDATE votes SET cast_at = 0 WHERE number IN (3, 4)", "row 3 of votes, row 4 of votes"),
    ("DELETE FROM votes WHERE number = 2", "row 3 of votes"),
    ("DELETE FROM votes WHERE number = 5", "the last row of votes"),
    ("UPDATE tickets SET model_a = model_b, model_b = model_a WHERE number = 1", "row 1 of tick"),
    ("DELETE FROM removals", "the last row of removals"),
    ("UPDATE arena SET dimension = 'tone'", "row 1 of"),
    ("UPDATE arena SET votes = 4", "the last row of votes"),
]


@pytest.mark.parametrize(
    ("address", "statement", "what"),
    [*(("sqlite", *each) for each in CHANGED), ("postgresql", *CHANGED[0])],
    indirect=["address"],
)
def test_a_changed_row_is_noticed(address: str, statement: str, what: str) -> None:
    """A row that was changed, moved or taken away is named by whoever reads the store."""
    arena = live_arena(address)
    for _ in range(5):
        vote(arena, "ann")
    arena.store.remove("vote", [arena.store.votes()[0].ticket.ticket], why="a slip", by="me")
    assert arena.store.check() == 5
    with edited(address) as connection:
        connection.exec_driver_sql(statement)
    with pytest.raises(DataError):
        arena.store.check()
    arena.close()
    check_refused(address, rf"the vote store is damaged \(.*{what}", what)


VIEW, COLUMN = "CREATE VIEW more AS SELECT * FROM votes", "ALTER TABLE votes ADD COLUMN more TEXT"
OLD = "CREATE TABLE alembic_version (version_num TEXT)"


@pytest.mark.parametrize(("statement", "what"), [
    (VIEW, "unknown or missing: more"), (COLUMN, "unknown or missing: votes.more"),
    ("TRIGGER", "unknown or missing: trigger other"), (OLD, "written by an unreleased arena_kit"),
])  # fmt: skip
def test_what_no_store_has_is_refused(address: str, statement: str, what: str) -> None:
    """A trigger, view or column that is not ours, and an unreleased store, are refused."""
    live_arena(address).close()
    then = "UPDATE votes SET choice = 'B' WHERE number = NEW.number;"
    trigger = [f"CREATE TRIGGER other AFTER INSERT ON votes BEGIN {then} END"]
    if "://" in address:
        code = f"RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {then} RETURN NULL; END $$"
        on = "AFTER INSERT ON votes FOR EACH ROW EXECUTE FUNCTION other()"
        trigger = [f"CREATE FUNCTION other() {code}", f"CREATE TRIGGER other {on}"]
    with edited(address) as connection:
        for each in trigger if statement == "TRIGGER" else [statement]:
            connection.exec_driver_sql(each)
    check_refused(address, what, {VIEW: "more", "TRIGGER": "other"}.get(statement, ""))


def test_flipped_bits_are_noticed(tmp_path: Path) -> None:
    """Of stores with flipped bits, none reads differently without a word."""
    path, dice = tmp_path / "votes.sqlite", random.Random(28)
    arena = live_arena(path)
    for n in range(12):
        vote(arena, f"s-{n % 3}", "AB"[n % 2])
    arena.close()
    readers = (lambda p: VoteStore.open(p, create=False).votes(),
               lambda p: list(read_battles(p).to_battles()))  # fmt: skip
    good, refused = [read(path) for read in readers], 0
    for n in range(30):
        raw, other = bytearray(path.read_bytes()), tmp_path / f"flipped-{n}.sqlite"
        for place in dice.sample(range(len(raw)), 1 + 3 * (n % 2)):
            raw[place] ^= 1 << dice.randrange(8)
        other.write_bytes(raw)
        for read, whole in zip(readers, good, strict=True):
            try:
                assert read(other) == whole, n
            except DataError:
                refused += 1
    assert refused > 8
