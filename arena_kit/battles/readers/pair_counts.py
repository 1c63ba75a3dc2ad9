"""Tables of pair counts: how published arenas share many votes in a small file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import COUNT_COLUMNS, BattleLog
from arena_kit.battles.tabular import connection, table_of, write_columns
from arena_kit.files import DataError

_ALIASES = {"ties": "tie", "tie_bothbad": "both_bad"}
_NEEDED = ("model_a", "model_b", "a_wins", "b_wins")


def read_pair_counts(path: str | Path) -> BattleLog:
    """A weighted log from a table with a row per pair: model_a, model_b, a_wins, b_wins and,
    where counted, tie (or ties) and both_bad (or tie_bothbad).
    """
    path = Path(path)
    try:
        columns = _named(_columns(path))
        if missing := [name for name in _NEEDED if name not in columns]:
            raise DataError(f"missing column {', '.join(sorted(missing))}")
        tallies = [columns[n].astype(float) if n in columns else 0.0 for n in COUNT_COLUMNS]
        a, b = (columns[side].astype(str).tolist() for side in ("model_a", "model_b"))
        return BattleLog.from_counts(a, b, *tallies)
    except (ValueError, duckdb.Error) as error:
        message = str(error).splitlines()[0]
        named = message if message.startswith(str(path)) else f"{path}: {message}"
        raise DataError(named) from None


def write_pair_counts(path: str | Path, log: BattleLog) -> None:
    """Write the counts of every pair of a log, as `read_pair_counts` reads them."""
    write_columns(Path(path), log.pair_counts())


def _columns(path: Path) -> dict[str, NDArray[Any]]:
    """The columns that hold anything; one with holes is refused, for a hole is no zero."""
    names = ("model_a", "model_b", *COUNT_COLUMNS, *_ALIASES)
    with connection() as con:
        con.execute(f"CREATE TEMP TABLE raw AS FROM {table_of(path, names)}")
        columns = {}
        for name, column in con.execute("FROM raw").fetchnumpy().items():
            holes = np.ma.getmaskarray(np.ma.asarray(column))
            if holes.any() and not holes.all():
                raise DataError(f"{name} is missing in some rows")
            if not holes.all():
                columns[name] = np.asarray(column)
    return columns


def _named(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The columns under our names for them."""
    for alias, name in _ALIASES.items():
        if alias in columns and name in columns:
            raise DataError(f"both {name} and {alias} are given")
    return {_ALIASES.get(name, name): column for name, column in columns.items()}
