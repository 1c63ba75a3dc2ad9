"""The first tables: where every store begins, so that nothing leads here."""

revision = "0002"
down_revision = None


def upgrade() -> None:
    """A new store has its tables from `database.metadata`."""
