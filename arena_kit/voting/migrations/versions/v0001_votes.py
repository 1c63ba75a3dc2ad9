"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_Number = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable)


def _number(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, _Number, autoincrement=False, nullable=nullable)


def _texts(*names: str) -> list[sa.Column[str]]:
    return [_text(name) for name in names]


def _numbers(*names: str) -> list[sa.Column[int]]:
    return [_number(name) for name in names]


def upgrade() -> None:
    """Make all tables."""
    op.create_table(
        "arena",
        sa.Column("one", sa.Integer, autoincrement=False, nullable=False),
        _text("name"),
        _text("dimension", nullable=True),
        _text("seed"),
        *_numbers("created_at", "tickets", "votes", "removals", "last_cast"),
        sa.PrimaryKeyConstraint("one", name="pk_arena"),
        sa.CheckConstraint("one = 1", name=op.f("ck_arena_one")),
    )
    op.create_table(
        "openings",
        *_numbers("number", "opened_at"),
        *_texts("version", "policy", "texts", "models"),
        sa.PrimaryKeyConstraint("number", name="pk_openings"),
    )
    op.create_table(
        "voters",
        _text("voter"),
        _number("first_seen"),
        sa.PrimaryKeyConstraint("voter", name="pk_voters"),
    )
    _make_tickets()
    _make_votes()
    op.create_table(
        "removals",
        _number("number"),
        *_texts("kind", "target"),
        sa.Column("undone", sa.Boolean, nullable=False, server_default=sa.false()),
        *_texts("why", "by"),
        _number("at"),
        sa.PrimaryKeyConstraint("number", name="pk_removals"),
        sa.CheckConstraint("kind IN ('voter', 'session', 'vote')", name=op.f("ck_removals_kind")),
    )


def _make_tickets() -> None:
    op.create_table(
        "tickets",
        _number("number"),
        _text("ticket"),
        _text("copy_of", nullable=True),
        _text("session"),
        _text("voter", nullable=True),
        *_texts("model_a", "model_b", "prompt"),
        _text("dimension", nullable=True),
        *_texts("lane", "reason", "digest"),
        _number("issued_at"),
        _number("expires_at", nullable=True),
        sa.PrimaryKeyConstraint("number", name="pk_tickets"),
        sa.UniqueConstraint("ticket", name="uq_tickets_ticket"),
        sa.ForeignKeyConstraint(["copy_of"], ["tickets.ticket"], name="fk_tickets_copy_of"),
        sa.ForeignKeyConstraint(["voter"], ["voters.voter"], name="fk_tickets_voter"),
    )
    op.create_index("ix_tickets_voter", "tickets", ["voter", "issued_at"])


def _make_votes() -> None:
    op.create_table(
        "votes",
        _number("number"),
        *_texts("ticket", "voter", "session", "choice"),
        _number("cast_at"),
        sa.Column("seconds", sa.Float, nullable=True),
        _text("source"),
        sa.PrimaryKeyConstraint("number", name="pk_votes"),
        sa.UniqueConstraint("ticket", name="uq_votes_ticket"),
        sa.ForeignKeyConstraint(["ticket"], ["tickets.ticket"], name="fk_votes_ticket"),
        sa.ForeignKeyConstraint(["voter"], ["voters.voter"], name="fk_votes_voter"),
        sa.CheckConstraint(
            "choice IN ('A', 'B', 'TIE', 'BOTH_BAD', 'SKIP')", name=op.f("ck_votes_choice")
        ),
        sa.CheckConstraint("source IN ('page', 'ballot', 'lab')", name=op.f("ck_votes_source")),
    )
    op.create_index("ix_votes_voter", "votes", ["voter"])
