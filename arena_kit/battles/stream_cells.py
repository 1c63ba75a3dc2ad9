"""Every kind of battle in files that are not held, counted by DuckDB and checked."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import OUTCOMES, TIE, check_model_name, read_outcome, read_source
from arena_kit.battles.cells import CellTable, Hashes
from arena_kit.battles.files import LeftOutWarning
from arena_kit.battles.log import IDENTITY, Labels
from arena_kit.battles.stream_source import KEY, ROW, Source, kind_hash
from arena_kit.battles.tabular import place_of
from arena_kit.files import DataError

#: Battle ids that are compared; of more, every n-th by its hash is.
_COMPARED = 5_000_000


def counted(source: Source, holds: frozenset[str]) -> tuple[CellTable, Hashes]:
    """Every kind of battle, checked, and its hash."""
    key = [name for name in KEY if name in holds]
    if missing := [name for name in KEY[:3] if name not in holds]:
        source.refuse("true", "''", f"{missing[0]} is missing")
        raise DataError(f"{source.files[0]}: no battles")
    if "share_a" in holds:
        raise DataError(f"{source.files[0]}: soft outcomes (share_a) cannot be streamed")
    number = "try_cast(weight AS DOUBLE)"
    weight = f"sum(coalesce({number}, 1.0))" if "weight" in holds else "count(*)::DOUBLE"
    kinds = ", ".join(f"any_value({name}) AS {name}" for name in key)
    query = f"SELECT {kind_hash(holds)} AS h, count(*) AS n, {weight} AS weight, {kinds}"
    rows = source.con.execute(f"{query} FROM ({source.battles()}) GROUP BY h ORDER BY h")
    columns = {name: _plain(column) for name, column in rows.fetchnumpy().items()}
    if "weight" in holds:
        wrong = (
            f"weight IS NOT NULL AND ({number} IS NULL OR NOT isfinite({number}) OR {number} <= 0)"
        )
        source.refuse(wrong, "weight", "weight {!r} is not a positive finite number")
        _refuse_unnamed(source, holds)
    cells = _table(source, columns)
    return cells, columns["h"].astype(np.uint64)


def _refuse_unnamed(source: Source, holds: frozenset[str]) -> None:
    """Refuse a weight without question and voter among battles that have one: it stands for several
    votes, and theirs does not.
    """
    if named := [name for name in ("question_id", "voter") if name in holds]:
        alone = " AND ".join(f"coalesce({name}, '') = ''" for name in named)
        sentence = "weight {!r} without a question or voter cannot be streamed among others"
        source.refuse(f"try_cast(weight AS DOUBLE) <> 1 AND {alone}", "weight", sentence)


def refuse_repeats(source: Source, holds: frozenset[str], n: int) -> None:
    """Refuse a battle id that comes twice from one source and judge in one dimension."""
    if "battle_id" not in holds:
        return
    parts = ["battle_id", *(name for name in IDENTITY if name in holds)]
    key, every = f"hash({', '.join(parts)})", max(1, -(-n // _COMPARED))
    some = f"battle_id <> '' AND hash(battle_id) % {every} = 0"
    twice = f"SELECT {key} FROM ({source.battles()}) WHERE {some} GROUP BY 1 HAVING count(*) > 1"
    if (row := source.con.execute(f"{twice} LIMIT 1").fetchone()) is None:
        return
    places, name = [], ""
    for path in source.files:
        own = Source(source.con, (path,), source.format).battles()
        query = f"SELECT {ROW}, battle_id FROM ({own}) WHERE {key} = {row[0]} ORDER BY 1 LIMIT 2"
        for number, name in source.con.execute(query).fetchall():  # noqa: B007 (kept)
            places.append(f"{path}{place_of(path, number)}")
    raise DataError(f"{places[1]}: battle_id {name[:60]!r} was there before, at {places[0]}")


def _plain(column: Any) -> NDArray[Any]:
    """A column without a mask: None stands where it has no value."""
    if not isinstance(column, np.ma.MaskedArray):
        return np.asarray(column)
    plain = column.data.astype(object)
    plain[np.ma.getmaskarray(column)] = None
    return plain


def _table(source: Source, columns: dict[str, NDArray[Any]]) -> CellTable:
    checks: dict[str, Callable[[Any], object]] = {
        "model_a": check_model_name, "model_b": check_model_name,
        "winner": _outcome, "source": _known_source, "inconsistent": _flag,
    }  # fmt: skip
    values: dict[str, list[Any]] = {
        name: _checked(source, name, columns[name].tolist(), check)
        for name, check in checks.items()
        if name in columns
    }
    sides = Labels.of([*values["model_a"], *values["model_b"]])
    a, b = np.split(sides.codes, 2)
    if np.any(a == b):
        twice = sides.names[a[np.argmax(a == b)]]
        source.refuse("model_a = model_b", "model_a", f"both models are {twice!r}")
    outcome = np.array(values["winner"], np.int8)
    flags = np.array(values.get("inconsistent", [False] * len(a)), bool)
    if np.any(flags & (outcome != TIE)):
        wrong = "lower(inconsistent) = 'true' AND winner <> 'tie'"
        source.refuse(wrong, "winner", "an inconsistent battle must have winner 'tie'")
    dimension = columns.get("dimension")
    return CellTable(
        models=tuple(sides.names),
        a=a,
        b=b,
        outcome=outcome,
        inconsistent=flags,
        dimension=None if dimension is None else Labels.of([x or None for x in dimension.tolist()]),
        count=columns["n"].astype(np.int64),
        weight=columns["weight"].astype(float),
    )


def _checked(
    source: Source, column: str, values: list[Any], check: Callable[[Any], object]
) -> list[object]:
    """What a check makes of values, each distinct one looked at once."""
    made: dict[Any, object] = {}
    for value in dict.fromkeys(values):
        try:
            made[value] = check(value)
        except DataError as error:
            _refuse_value(source, column, value, str(error))
    return [made[value] for value in values]


def _outcome(value: Any) -> int:
    return OUTCOMES.index(read_outcome(value))


def _known_source(value: object) -> object:
    return None if value in (None, "") else read_source(value)


def _flag(value: str | None) -> bool:
    if (text := (value or "false").lower()) not in ("true", "false"):
        raise DataError(f"inconsistent {value[:60]!r} is not true or false" if value else "")
    return text == "true"


def _refuse_value(source: Source, column: str, value: str | None, sentence: str) -> None:
    """Raise for the first row that has this value."""
    if value is None:
        source.refuse(f"{column} IS NULL", "''", f"{column} is missing")
    literal = "'" + str(value).replace("'", "''") + "'"
    told = sentence.replace("{", "{{").replace("}", "}}")
    source.refuse(f"{column} = {literal}", "''", told)
    raise DataError(f"{source.files[0]}: {sentence}")


def warn_left_out(source: Source, path: str | Path) -> None:
    """Warn of rows that the format leaves out, with their number."""
    for told, condition in source.format.left_out.items():
        query = f"SELECT count(*) FROM ({source.file()}) AS file WHERE {condition}"
        if n := source.con.execute(query).fetchall()[0][0]:
            warnings.warn(f"{path}: left out {n:,} {told}", LeftOutWarning, stacklevel=3)
