"""The vote store: durable, numbered, reversible in what it removes, and migrated without a loss."""

import json
import random
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, MetaData, create_engine, insert, inspect, select
from sqlalchemy.exc import IntegrityError

from arena_kit import read_battles
from arena_kit.battles.readers.vote_chain import DamagedError
from arena_kit.files import DataError
from arena_kit.voting import database
from arena_kit.voting.database import database_url, opened
from arena_kit.voting.records import Choice, StoredVote, Ticket
from arena_kit.voting.store import VoteStore
from tests.samples import CASES
from tests.voting.arenas import arena_texts, live_arena, vote
from tests.voting.postgres import Postgres

#: Rows of every table as version 0002 wrote them, in an order that foreign keys allow: a ballot of
#: two voters, votes of the page, skips, an open ticket, a removal that stands and one undone.
FIRST: dict[str, list[dict[str, Any]]] = json.loads((CASES / "votes_0002.json").read_text())
SCHEMA = (CASES / "votes_0002.sql").read_text()
#: A later version that changes every table which others refer to.
NEXT = """
from alembic import op

revision, down_revision = "next", "{head}"


def upgrade():
    for name in ("tickets", "votes", "removals"):
        with op.batch_alter_table(name) as table:
            table.alter_column("reason" if name == "tickets" else "checksum", nullable=True)
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
        about: Any = {"number": 0, "cast_at": 0, "revealed": False, "known": False}
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
    """A store as version 0002 left it."""
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
    """Whether a store holds all that version 0002 wrote, and no row more."""
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
    """A store of version 0002 gets the tables of a new one; one of a later version is refused."""
    write_first(address)
    engine = opened(database_url(address))
    with engine.begin() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, database.metadata) == []
        tables = [inspect(connection).get_check_constraints(t) for t in database.metadata.tables]
        checks = {check["name"] for table in tables for check in table}
        assert {"ck_votes_choice", "ck_votes_source", "ck_removals_kind", "ck_arena_one"} <= checks
    for version, why in (("9999", r"\(schema 9999; this one knows up to 0002"),
                         ("0001", "was written by an unreleased arena_kit")):  # fmt: skip
        with engine.begin() as connection:
            connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{version}'")
        with pytest.raises(DataError, match=why):
            VoteStore.open(address)
    engine.dispose()


@contextmanager
def edited(address: str) -> Iterator[Connection]:
    """A connection that changes a store behind its back."""
    engine = create_engine(database_url(address))
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def check_refused(address: str, why: str) -> None:
    """A store is refused by those who open it and, if it is a file, by those who read battles."""
    with pytest.raises(DataError, match=why), VoteStore.open(address) as store:
        store.votes()
    if "://" not in address:
        with pytest.raises(DataError, match=why):
            read_battles(address)


@pytest.mark.parametrize(("statement", "what"), [
    ("UPDATE votes SET choice = 'B' WHERE number = 2", "row 2 of votes"),
    ("UPDATE votes SET ticket = 'x' WHERE number = 2", "row 2 of votes"),
    ("UPDATE votes SET number = 7 - number WHERE number IN (3, 4)", "row 3 of votes, row 4"),
    ("DELETE FROM votes WHERE number = 2", "row 3 of votes"),
    ("DELETE FROM votes WHERE number = 5", "the last row of votes"),
    ("UPDATE tickets SET model_a = model_b, model_b = model_a WHERE number = 1", "row 1 of tick"),
    ("DELETE FROM removals", "the last row of removals"),
    ("UPDATE arena SET dimension = 'tone'", "row 1 of"),
    ("UPDATE arena SET votes = 4", "the last row of votes"),
])  # fmt: skip
def test_a_changed_row_is_noticed(address: str, statement: str, what: str) -> None:
    """A row that was changed, swapped or taken away is named by whoever reads the store."""
    arena = live_arena(address)
    for _ in range(5):
        vote(arena, "ann")
    arena.store.remove("vote", [arena.store.votes()[0].ticket.ticket], why="a slip", by="me")
    assert arena.store.damage() == []
    with edited(address) as connection:
        for each in ("PRAGMA foreign_keys = OFF",) if "://" not in address else (
            "ALTER TABLE votes DROP CONSTRAINT fk_votes_ticket",
            "ALTER TABLE votes DROP CONSTRAINT pk_votes",
        ):  # fmt: skip
            connection.exec_driver_sql(each)
        if "7 - number" in statement and "://" not in address:
            for change in ("number = 9 WHERE number = 3", "number = 3 WHERE number = 4",
                           "number = 4 WHERE number = 9"):  # fmt: skip
                connection.exec_driver_sql(f"UPDATE votes SET {change}")
        else:
            connection.exec_driver_sql(statement)
    check_refused(address, rf"the vote store is damaged \(.*{what}")
    with pytest.raises(DamagedError):
        arena.store.votes()
    arena.close()


@pytest.mark.parametrize(("statement", "what"), [
    ("CREATE VIEW more AS SELECT * FROM votes", "view more"),
    ("ALTER TABLE votes ADD COLUMN more TEXT", "column votes.more"),
    ("TRIGGER", "trigger other"),
])  # fmt: skip
def test_what_no_store_has_is_refused(address: str, statement: str, what: str) -> None:
    """A trigger, view or column that is not ours is refused when a store is opened."""
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
    with pytest.raises(DataError, match=rf"holds what no vote store has \({what}\)"):
        VoteStore.open(address)
    if "://" not in address and "column" not in what:
        with pytest.raises(DataError, match=what):
            read_battles(address)


def test_flipped_bits_are_noticed(tmp_path: Path) -> None:
    """Of stores with a flipped bit each, none reads differently without a word."""
    path, dice = tmp_path / "votes.sqlite", random.Random(28)
    arena = live_arena(path)
    for n in range(12):
        vote(arena, f"s-{n % 3}", "AB"[n % 2])
    arena.close()
    whole, raw = VoteStore.open(path).votes(), path.read_bytes()
    battles, refused = list(read_battles(path).to_battles()), 0
    for n in range(60):
        place = dice.randrange(len(raw))
        other = tmp_path / f"flipped-{n}.sqlite"
        other.write_bytes(
            raw[:place] + bytes([raw[place] ^ 1 << dice.randrange(8)]) + raw[place + 1 :]
        )
        for read, good in ((lambda p: VoteStore.open(p, create=False).votes(), whole),
                           (lambda p: list(read_battles(p).to_battles()), battles)):  # fmt: skip
            try:
                assert read(other) == good, place
            except DataError:
                refused += 1
    assert refused > 10
