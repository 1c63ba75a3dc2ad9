"""Writing battles: under our own names, and as FastChat's table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles import tabular
from arena_kit.battles.battle import BOTH_BAD
from arena_kit.battles.content import cell_of, write_pictures
from arena_kit.battles.log import BattleLog, Strings
from arena_kit.battles.read import read_file
from arena_kit.battles.readers.format import Format
from arena_kit.battles.tabular import APOSTROPHE, Connection, column_name, connection, quoted
from arena_kit.files import FORMULA, NUMBER, DataError, whole_file

Texts = Mapping[str, NDArray[Any]]
_SPOKEN = ("language", "turns")
_CONTENT = ("prompt", "response_a", "response_b")


def write_battles(
    path: str | Path, log: BattleLog, texts: Texts | None = None, *, private: bool = False
) -> None:
    """Write a battle log as JSONL, a JSON array, CSV (each gzipped by its name) or Parquet; with
    columns of what was said in each battle, where they are given. A private file is its owner's.
    """
    columns: dict[str, Any] = dict(log.columns())
    if "timestamp" in columns:
        iso = np.datetime_as_string(columns["timestamp"], unit="us", timezone="UTC")
        columns["timestamp"] = np.where(np.isnat(columns["timestamp"]), np.array(None), iso)
    said = dict(texts or {})
    for name in [name for name in _CONTENT if name in said]:
        write_pictures(Path(path).parent, said[name])
        said[name] = np.array([cell_of(text) for text in said[name]], object)
    write_columns(Path(path), columns | said, private=private)


def write_columns(
    path: Path, columns: Mapping[str, NDArray[Any]], *, private: bool = False
) -> None:
    """Write columns as a whole file, in the format its name asks for.

    In CSV, text that a spreadsheet would take for a formula gets an apostrophe before it, which
    `table_of` takes away again.
    """
    kind = tabular.named_kind(path)
    if kind not in tabular.STREAMED:
        kinds = ", ".join(tabular.STREAMED)
        raise DataError(f"{path}: {kind} files are read, not written; allowed: {kinds}")
    form = {"csv": "csv, HEADER", "parquet": "parquet", "json": "json, ARRAY"}.get(kind, "json")
    if ".tsv" in path.name.lower():
        form += ", DELIM '\t'"
    if path.name.lower().endswith(".gz"):
        form += ", COMPRESSION gzip"
    form += ", USE_TMP_FILE false"  # which would have the usual permissions for a moment
    with connection() as con, whole_file(path, private=private) as part:
        con.register("outgoing", dict(columns))
        source = _guarded(con) if kind == "csv" else "FROM outgoing"
        con.execute(f"COPY ({source}) TO {quoted(str(part))} (FORMAT {form})")


def _guarded(con: Connection) -> str:
    """The outgoing columns with an apostrophe before every formula."""
    columns = []
    for name, kind, *_ in con.execute("DESCRIBE FROM outgoing").fetchall():
        cell = column_name(name)
        formula = f"regexp_matches({cell}, {quoted(FORMULA)})"
        number = f"regexp_full_match({cell}, {quoted(NUMBER)})"
        text = f"CASE WHEN {formula} AND NOT {number} THEN {APOSTROPHE} || {cell} ELSE {cell} END"
        columns.append(f"{text} AS {cell}" if kind == "VARCHAR" else cell)
    return f"SELECT {', '.join(columns)} FROM outgoing"


def spoken(path: Path, fmt: Format) -> Texts:
    """The language and the number of turns of each battle of a file, as far as it says."""
    kept = {name: cell for name, cell in fmt.texts.items() if name in _SPOKEN}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # who read the battles was warned
        return read_file(path, replace(fmt, texts=kept), texts=True)[1]


def write_fastchat(path: str | Path, log: BattleLog, said: Texts | None = None) -> list[str]:
    """Write battles as FastChat's `clean_battle` table, which arena-rank reads too, and say in a
    sentence each what the format cannot hold.

    The columns are model_a, model_b, winner, judge (the voter), tstamp, language and turn (of
    `said`, see `spoken`), and of ours question_id and judge_model; one that no battle fills is
    left out, as is `anony`, which battles do not say.
    """
    _refuse_what_is_lost(log)
    own, said = log.columns(), said or {}
    columns: dict[str, Any] = {
        "question_id": own.get("question_id"),
        "model_a": own["model_a"],
        "model_b": own["model_b"],
        "winner": np.where(log.outcome == BOTH_BAD, "tie (bothbad)", own["winner"]),
        "judge": own.get("voter"),
        "judge_model": own.get("judge_model"),
        "tstamp": None if log.timestamp is None else _seconds(log.timestamp),
        "language": said.get("language"),
        "turn": said.get("turns"),
    }
    filled = {name: column for name, column in columns.items() if column is not None}
    write_columns(Path(path), filled)
    return _lost(log)


def _seconds(moments: NDArray[np.datetime64]) -> Strings:
    """Seconds since 1970, as FastChat writes moments; None where a battle has none."""
    seconds = moments.astype("datetime64[us]").astype(np.int64) / 1e6
    return np.where(np.isnat(moments), np.array(None), seconds)


def _refuse_what_is_lost(log: BattleLog) -> None:
    """Refuse battles that would count otherwise in the format."""
    if n := int(np.sum(log.weights() != 1.0)):
        raise DataError(
            f"{n} of {len(log)} battles have a weight other than 1 (or are pair counts), "
            "which FastChat's format cannot hold"
        )
    if log.dimension is not None and len(names := log.dimension.names) > 1:
        raise DataError(
            f"the battles have {len(names)} dimensions ({', '.join(names)}), which FastChat's "
            "format would mix; name one"
        )


def _lost(log: BattleLog) -> list[str]:
    """What the format cannot hold, a sentence each."""
    soft = 0 if log.share_a is None else int(np.sum(~np.isnan(log.share_a)))
    flipped, named = int(log.flags().sum()), tuple(log.dimension.names if log.dimension else ())
    return [
        *([f"{flipped} inconsistent judgments became ties"] if flipped else []),
        *([f"{soft} soft outcomes became the winner beside them"] if soft else []),
        *(f"the dimension, {name}, is not in the file" for name in named),
    ]
