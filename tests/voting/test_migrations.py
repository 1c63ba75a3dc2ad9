"""Stores of earlier versions: opened with all that they hold, and migrated without a loss."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import MetaData, create_engine, insert, inspect, select, text
from sqlalchemy.exc import IntegrityError

from arena_kit.files import DataError
from arena_kit.voting import database
from arena_kit.voting.database import database_url, opened, writing
from arena_kit.voting.records import Choice
from arena_kit.voting.store import VoteStore
from tests.samples import CASES
from tests.voting.arenas import live

#: Rows of every table as version 0001 wrote them, in an order that foreign keys allow: a ballot of
#: two voters, votes of the page, skips, an open ticket, a removal that stands and one undone.
FIRST: dict[str, list[dict[str, Any]]] = json.loads((CASES / "votes_0001.json").read_text())
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


def write_first(address: str) -> None:
    """A store as version 0001 left it."""
    engine = create_engine(database_url(address))
    config = Config()
    config.set_main_option("script_location", str(database._MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        tables = MetaData()
        tables.reflect(connection)
        for name, rows in FIRST.items():
            connection.execute(insert(tables.tables[name]), rows)
    engine.dispose()


def kept(address: str) -> dict[str, list[str]]:
    """What a store holds of what version 0001 knew."""
    engine, tables, found = create_engine(database_url(address)), MetaData(), {}
    with engine.connect() as connection:
        tables.reflect(connection)
        for name, rows in FIRST.items():
            query = select(*(tables.tables[name].c[column] for column in rows[0]))
            found[name] = list(map(dict, connection.execute(query).mappings()))
    engine.dispose()
    return in_order(found)


def in_order(tables: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    return {name: sorted(map(repr, rows)) for name, rows in tables.items()}


def test_a_first_store_opens_with_all_that_it_holds(address: str) -> None:
    """A store of version 0001 loses nothing when this version opens it, and its arena goes on."""
    write_first(address)
    VoteStore.open(address).close()
    assert kept(address) == in_order(FIRST)
    arena = live(address)
    counted = {row["ticket"] for row in FIRST["votes"] if row["choice"] != "SKIP"}
    gone = {
        vote["ticket"]
        for vote in FIRST["votes"]
        for line in FIRST["removals"]
        if line["target"] in (vote["voter"], vote["ticket"]) and line["number"] == 3
    }
    assert {vote.ticket.ticket for vote in arena.board().votes} == counted - gone
    assert arena.board().waiting == 1
    arena.close()


def next_version(folder: Path, more: str = "") -> Path:
    """The migrations, with a later one."""
    shutil.copytree(database._MIGRATIONS, folder)
    head = max(path.name for path in (folder / "versions").glob("v*.py"))[1:5]
    (folder / "versions" / "v9999_next.py").write_text(NEXT.format(head=head) + more)
    return folder


def test_a_migration_of_a_store_with_votes_loses_nothing(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later version may change tables that others refer to, full as they are: every row is there
    afterwards, and foreign keys are in force again.
    """
    write_first(address)
    monkeypatch.setattr(database, "_MIGRATIONS", next_version(tmp_path / "migrations"))
    VoteStore.open(address).close()
    assert kept(address) == in_order(FIRST)
    with VoteStore.open(address) as store:
        assert len(store.votes()) == len(FIRST["votes"])
        unknown = store.votes()[0].ticket._replace(ticket="unknown")
        with pytest.raises(IntegrityError), store.writing() as transaction:
            transaction.add_vote(
                unknown, voter="ann", session="x", choice=Choice.A, seconds=1.0, source="page"
            )


def test_a_migration_that_fails_changes_nothing(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a migration breaks off, the store is as it was, and this version opens it."""
    write_first(address)
    folder = next_version(tmp_path / "migrations", "    raise RuntimeError('half-way')\n")
    with monkeypatch.context() as patched:
        patched.setattr(database, "_MIGRATIONS", folder)
        with pytest.raises(RuntimeError, match="half-way"):
            VoteStore.open(address)
    VoteStore.open(address).close()
    assert kept(address) == in_order(FIRST)


def test_the_tables_are_those_of_the_code(address: str) -> None:
    """Migrations lead to the tables that the code uses, on either database."""
    engine = opened(database_url(address))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, database.metadata) == []
        found = inspect(connection)
        checks = {
            check["name"]
            for t in database.metadata.tables
            for check in found.get_check_constraints(t)
        }
        assert {"ck_votes_choice", "ck_votes_source", "ck_removals_kind", "ck_arena_one"} <= checks
    engine.dispose()


def test_a_newer_store_is_refused(address: str) -> None:
    """A store of a later schema is not touched, and the sentence names both versions."""
    engine = opened(database_url(address))
    with writing(engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(DataError, match=r"\(schema 9999; this one knows up to 0001"):
        VoteStore.open(address)
