"""Checksums of our own vote store: each row's is of its values and of the checksum before it, so
that a row that was changed, swapped or taken away is noticed.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
_encode = json.JSONEncoder(separators=(",", ":")).encode


class DamagedError(DataError):
    """A vote store that cannot be read, or is not as it was written."""


def checksum(previous: str, values: Iterable[object]) -> str:
    """The checksum of a row, given that of the row before."""
    return hashlib.sha256(_encode([previous, *values]).encode()).hexdigest()


def beginning(arena: Sequence[object]) -> str:
    """What the chains of an arena's row begin with."""
    return checksum("", arena[_OWN])


def breaks(rows: Iterable[Sequence[Any]], previous: str, number: int) -> Iterator[int]:
    """Numbers of rows that do not follow from the row before, which has this checksum and number;
    a row's first value is its number, its last one its checksum.
    """
    for row in rows:
        if row[0] != number + 1 or checksum(previous, row[:-1]) != row[-1]:
            yield row[0]
        number, previous = row[0], row[-1]


def damage(arena: Sequence[Any], tables: Mapping[str, Sequence[Sequence[Any]]]) -> Iterator[str]:
    """What of a store is not as it was written, in a few words each."""
    begin = beginning(arena)
    for place, name in enumerate(CHAINED):
        rows, end = tables[name], tuple(arena[5 + 2 * place : 7 + 2 * place])
        yield from (f"row {number} of {name}" for number in breaks(rows, begin, 0))
        if ((rows[-1][0], rows[-1][-1]) if rows else (0, begin)) != end:
            yield f"the last row of {name}"


def damaged(where: object, what: Iterable[str]) -> DamagedError:
    """The error that names what is damaged."""
    why = f"the vote store is damaged ({', '.join(what)})"
    return DamagedError(f"{where}: {why}; put a backup in its place (see `arena-kit check`)")


def verified_columns(path: Path, query: str) -> Mapping[str, NDArray[Any]]:
    """What a query of a vote store gives, by column, once every row is verified."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            database.execute("BEGIN")
            strange, found = _strangers(database), _damage(database)
    except sqlite3.Error as error:
        raise DataError(f"{path}: not a whole SQLite database ({error})") from None
    if strange:
        raise DamagedError(f"{path}: holds what no vote store has ({', '.join(strange)})")
    if found:
        raise damaged(path, found[:3])
    return query_columns(path, query)


def _strangers(database: sqlite3.Connection) -> list[str]:
    query = "SELECT type || ' ' || name FROM sqlite_master WHERE type IN ('trigger', 'view')"
    return [name for (name,) in database.execute(query)]


def _damage(database: sqlite3.Connection) -> list[str]:
    tables = {
        name: database.execute(f"SELECT * FROM {name} ORDER BY number").fetchall()
        for name in CHAINED
    }
    arenas = database.execute("SELECT * FROM arena").fetchall()
    return [each for arena in arenas for each in damage(arena, tables)]
