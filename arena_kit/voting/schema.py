"""The tables of a vote store, the same on SQLite and PostgreSQL.

Numbers count from 1 without a gap, in the order of commits; times are microseconds since 1970.
A change here is a new file in `migrations/versions`.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    false,
)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)
_Number = BigInteger().with_variant(Integer, "sqlite")


def _text(name: str, *more: object, nullable: bool = False, **options: object) -> Column[str]:
    return Column(name, Text, *more, nullable=nullable, **options)  # type: ignore[arg-type]


def _number(name: str, *, key: bool = False, nullable: bool = False) -> Column[int]:
    return Column(name, _Number, primary_key=key, autoincrement=False, nullable=nullable)


#: The one arena of a store, and how much there is of everything; every writer locks this row.
arena = Table(
    "arena",
    metadata,
    Column(
        "one",
        Integer,
        CheckConstraint("one = 1", name="one"),
        primary_key=True,
        autoincrement=False,
    ),
    _text("name"),
    _text("dimension", nullable=True),
    _text("seed"),
    _number("created_at"),
    _number("tickets"),
    _number("votes"),
    _number("removals"),
    _number("last_cast"),
)

#: What was in force since when: a row where policy, texts or models changed.
openings = Table(
    "openings",
    metadata,
    _number("number", key=True),
    _number("opened_at"),
    _text("version"),
    _text("policy"),
    _text("texts"),
    _text("models"),
)

voters = Table("voters", metadata, _text("voter", primary_key=True), _number("first_seen"))

tickets = Table(
    "tickets",
    metadata,
    _number("number", key=True),
    _text("ticket", unique=True),
    _text("copy_of", ForeignKey("tickets.ticket"), nullable=True),
    _text("session"),
    _text("voter", ForeignKey("voters.voter"), nullable=True),
    _text("model_a"),
    _text("model_b"),
    _text("prompt"),
    _text("dimension", nullable=True),
    _text("lane"),
    _text("reason"),
    _text("digest"),
    _number("issued_at"),
    _number("expires_at", nullable=True),
    Index("ix_tickets_voter", "voter", "issued_at"),
)

votes = Table(
    "votes",
    metadata,
    _number("number", key=True),
    _text("ticket", ForeignKey("tickets.ticket"), unique=True),
    _text("voter", ForeignKey("voters.voter")),
    _text("session"),
    _text(
        "choice",
        CheckConstraint("choice IN ('A', 'B', 'TIE', 'BOTH_BAD', 'SKIP')", name="choice"),
    ),
    _number("cast_at"),
    Column("seconds", Float, nullable=True),
    _text("source", CheckConstraint("source IN ('page', 'ballot', 'lab')", name="source")),
    Index("ix_votes_voter", "voter"),
)

removals = Table(
    "removals",
    metadata,
    _number("number", key=True),
    _text("kind", CheckConstraint("kind IN ('voter', 'session', 'vote')", name="kind")),
    _text("target"),
    Column("undone", Boolean, nullable=False, server_default=false()),
    _text("why"),
    _text("by"),
    _number("at"),
)
