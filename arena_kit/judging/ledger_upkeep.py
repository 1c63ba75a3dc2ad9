"""Looking after a ledger: copying it while it is in use."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from arena_kit.files import DataError, whole_file
from arena_kit.judging.ledger_schema import opened


def back_up(path: Path, to: Path) -> None:
    """Copy a ledger as it stands, also while a run writes to it; the copy is whole or absent."""
    if to.exists():
        raise DataError(f"{to}: there is a file already, and a backup replaces none; name another")
    with (
        opened(existing(path)) as con,
        whole_file(to) as part,
        closing(sqlite3.connect(part)) as copy,
    ):
        con.backup(copy)


def existing(path: Path) -> Path:
    """The path of a ledger that is there."""
    if not path.is_file():
        raise DataError(f"{path}: there is no ledger")
    return path
