"""Looking after a ledger: verifying it, forgetting what is damaged, copying it while in use."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from arena_kit.files import DataError, whole_file
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.ledger.rows import KEPT_COLUMNS, is_damaged, unsealed
from arena_kit.judging.ledger.schema import integrity_errors, opened, transaction


@dataclass(frozen=True, slots=True)
class DamagedAnswer:
    """An answer that is not what was kept: its row, its key, and its request's id for people."""

    row: int
    key: str
    request_id: str


@dataclass(frozen=True, slots=True)
class Findings:
    """What a ledger holds, and what is wrong with it."""

    n_answers: int
    answers: list[DamagedAnswer]
    structure: list[str]

    @property
    def sound(self) -> bool:
        return not (self.answers or self.structure)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Answers that a ledger has no longer, and what their requests had cost."""

    answers: list[DamagedAnswer]
    cost_usd: float


def check(path: Path) -> Findings:
    """Verify the structure of a whole ledger, its salt, and every answer's checksum."""
    with opened(existing(path)) as con:
        structure = integrity_errors(con)
        answers: list[DamagedAnswer] = []
        try:
            answers += _damaged_answers(con)
            (n,) = con.execute("SELECT count(*) FROM answers NOT INDEXED").fetchone()
        except sqlite3.DatabaseError as error:  # a page that cannot be read ends the scan
            structure.append(str(error))
            n = 0
        secrets = dict(con.execute("SELECT name, value FROM secrets").fetchall())
        if secrets and unsealed(secrets.get("salt")) is None:
            structure.append("the secret on which all cache keys depend is damaged")
    return Findings(n_answers=int(n), answers=answers, structure=structure)


def forget_damaged(ledger: Ledger) -> Forgotten:
    """Remove damaged answers, so that their requests are asked again, and make the index anew."""
    existing(ledger.path)
    with ledger.locked("forget damaged"), opened(ledger.path) as con, transaction(con):
        con.execute("REINDEX answers")  # rows are removed by what the table says
        answers = list(_damaged_answers(con))
        cost = sum(_booked(con, damaged.key) for damaged in answers)
        con.executemany("DELETE FROM answers WHERE rowid = ?", ([d.row] for d in answers))
    return Forgotten(answers=answers, cost_usd=cost)


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


def _damaged_answers(con: sqlite3.Connection) -> Iterator[DamagedAnswer]:
    """Every answer whose checksum does not fit, by a scan that needs no index."""
    rows = con.execute(f"SELECT rowid, {KEPT_COLUMNS}, checksum FROM answers NOT INDEXED")
    for row, *columns in rows:
        if is_damaged(columns):
            yield DamagedAnswer(row=row, key=str(columns[0]), request_id=str(columns[2]))


def _booked(con: sqlite3.Connection, key: str) -> float:
    """US dollars that were booked for a request."""
    (usd,) = con.execute(
        "SELECT coalesce(sum(cost_usd), 0) FROM requests JOIN attempts USING (request) "
        "WHERE key = ?",
        [key.encode("utf-8", "replace").decode()],
    ).fetchone()
    return float(usd)
