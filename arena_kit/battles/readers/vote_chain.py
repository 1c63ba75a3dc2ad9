"""Checksums of our own vote store: each row's is of its values and of the checksum before it, so
that a row that was changed, swapped or taken away is noticed.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from arena_kit.battles.tabular import query_columns
from arena_kit.files import DataError

#: Tables whose rows are numbered from 1 and chained; the arena's row holds after its own values
#: the number of rows and the last checksum of each, in this order.
CHAINED = ("openings", "tickets", "votes", "removals")
_OWN = slice(1, 5)  # name, dimension, seed and time of the arena: where every chain begins
_NAMED = 3
_encode = json.JSONEncoder(separators=(",", ":")).encode


class DamagedError(DataError):
    """A vote store that cannot be read, or is not as it was written."""


def checksum(previous: str, values: Iterable[object]) -> str:
    """The checksum of a row, given that of the row before."""
    return hashlib.sha256(_encode([previous, *values]).encode()).hexdigest()


def beginning(arena: Sequence[object]) -> str:
    """What the chains of an arena's row begin with."""
    return checksum("", arena[_OWN])


def breaks(
    name: str, rows: Sequence[Sequence[Any]], before: tuple[int, str], last: tuple[int, str] | None
) -> list[str]:
    """Rows of a table that do not follow from the row before, and whether the last one is not the
    last that was written; a row's first value is its number, its last one its checksum.
    """
    found = []
    for row in rows:
        number, previous = before
        if row[0] != number + 1 or checksum(previous, row[:-1]) != row[-1]:
            found.append(f"row {row[0]} of {name}")
        before = (row[0], row[-1])
    return found if last in (None, before) else [*found, f"the last row of {name}"]


def damaged(where: object, what: Sequence[str]) -> DamagedError:
    """The error that names what is damaged."""
    more = ", …" if len(what) > _NAMED else ""
    why = f"the vote store is damaged ({', '.join(what[:_NAMED])}{more})"
    return DamagedError(f"{where}: {why}; put a backup in its place")


def verified_columns(path: Path, query: str) -> Mapping[str, NDArray[Any]]:
    """What a query of a vote store gives, by column, once every row is verified."""
    code = "SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view')"
    found: list[str] = []
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.execute("BEGIN")
            strange = [name for (name,) in database.execute(code)]
            for arena in database.execute("SELECT * FROM arena"):
                for place, name in enumerate(CHAINED):
                    rows = database.execute(f"SELECT * FROM {name} ORDER BY number").fetchall()
                    last = arena[5 + 2 * place : 7 + 2 * place]
                    found += breaks(name, rows, (0, beginning(arena)), last)
    except sqlite3.Error as error:
        raise DataError(f"{path}: not a whole SQLite database ({error})") from None
    if strange:
        raise DamagedError(f"{path}: holds what no vote store has: {', '.join(strange)}")
    if found:
        raise damaged(path, found)
    return query_columns(path, query)
