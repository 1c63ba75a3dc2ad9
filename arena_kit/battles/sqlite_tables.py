"""SQLite databases of other tools, opened for reading only."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.files import DataError

_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"


def table_names(path: Path) -> tuple[str, ...]:
    """The names of a database's tables."""
    return tuple(query_columns(path, f"{_TABLES} ORDER BY name")["name"])


def query_columns(path: Path, query: str) -> Mapping[str, NDArray[Any]]:
    """What a query gives, by column, all text; None is NULL."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            cursor = database.execute(query)
            names = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
    except sqlite3.Error as error:
        raise DataError(f"{path}: not a whole SQLite database ({error})") from None
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return {
        name: np.array([None if cell is None else str(cell) for cell in column], object)
        for name, column in zip(names, columns, strict=True)
    }
