"""Reading battle logs; DuckDB does the parsing, so a million rows is ordinary.

Every column arrives as text, is checked once per distinct value, and becomes integer
codes. Only when something is wrong is the file walked again, to name the line.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from arena_kit.battles import battle as schema
from arena_kit.battles import content, tabular
from arena_kit.battles.log import IDENTITY, TEXT_COLUMNS, BattleLog, Labels, Strings
from arena_kit.battles.readers.format import Columns, Format, RowError, Table, mapped, refuse
from arena_kit.battles.readers.formats import format_of
from arena_kit.battles.tabular import Connection, column_name, connection, quoted
from arena_kit.files import LONGEST_LINE, DataError, limit, option

if TYPE_CHECKING:
    import pandas as pd

_COUNTED = {
    "headings": re.compile(r"^#{1,6} ", re.MULTILINE),
    "lists": re.compile(r"^[ \t]*(?:[-*+]|\d+[.)]) ", re.MULTILINE),
    "bold": re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__"),
}
_FENCE = re.compile(r"^[ \t]*```", re.MULTILINE)
_CODE = re.compile(r"^[ \t]*```.*?(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
#: What is measured of a response: its length in words, how often each kind of Markdown stands
#: outside its code, how many fences of code it has, and its turns, images and tool calls.
FEATURES = ("length", *_COUNTED, "code", "assistant_turns", "images", "tool_calls")
_PARTS: tuple[content.Kind, ...] = ("image", "tool_call")


@lru_cache(maxsize=4096, typed=True)
def style_of(text: str) -> tuple[int, ...]:
    """The features of one response, in the order of `FEATURES`."""
    said = content.spoken(text)
    prose = _CODE.sub("", said)
    counts = (len(kind.findall(prose)) for kind in _COUNTED.values())
    parts = [
        len(text.parts(kind)) if isinstance(text, content.Conversation) else 0 for kind in _PARTS
    ]
    return (len(said.split()), *counts, len(_FENCE.findall(said)), content.turns_of(text), *parts)


def style_differences(
    first: Iterable[str], second: Iterable[str]
) -> dict[str, NDArray[np.float64]]:
    """Per feature, how much more of it each first response has than its second: the difference
    divided by the sum, from -1 to 1, and 0 where neither has any.
    """
    sides = ([style_of(text) for text in texts] for texts in (first, second))
    a, b = (np.array(each, float).reshape(-1, len(FEATURES)) for each in sides)
    share = np.divide(a - b, a + b, out=np.zeros_like(a), where=a + b > 0)
    return dict(zip(FEATURES, share.T, strict=True))


REQUIRED = ("model_a", "model_b", "winner")
RESPONSES = ("response_a", "response_b")
_BY = "by "  # begins our name of a column of strata, which may be another column of ours, too
#: Labels that a reader is told the meaning of.
_UNSURE = (*schema.OUTCOME_NUMBERS, "both", "neither")
_SECONDS = "try_cast(timestamp AS DOUBLE)"
#: A timestamp, an ISO date or seconds since 1970, as SQL.
_MOMENT = (
    f"CASE WHEN {_SECONDS} IS NULL THEN try_cast(timestamp AS TIMESTAMPTZ) "
    f"WHEN abs({_SECONDS}) < 1e11 THEN to_timestamp({_SECONDS}) END"
)


class LeftOutWarning(UserWarning):
    """Rows of a file that are no battles, and how many they are."""


class LabelWarning(UserWarning):
    """Labels of outcomes that were read in one of several ways."""


class RepeatedWarning(UserWarning):
    """Rows of a file that repeat others, without an id that tells them apart."""


@dataclass(frozen=True, slots=True, eq=False)
class BattleTexts:
    """Texts of the battles of one log, row by row; None where a file leaves one out.

    `prompt` is what stands before the first answer, a response all that follows: texts, or
    conversations. `turns` counts the user's messages (0 where the file does not say).
    """

    prompt: Strings
    response_a: Strings
    response_b: Strings
    language: Strings
    turns: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.prompt)


def read_battles(
    path: str | Path,
    *,
    winner: str = "winner",
    covariates: Sequence[str] = (),
    strata: Sequence[str] = (),
    format: str | None = None,  # noqa: A002 (what --format takes)
    columns: Columns | None = None,
) -> BattleLog:
    """A battle log from JSONL, a JSON array, CSV (each may be gzipped) or Parquet.

    A file has the columns model_a, model_b, winner and what else of the `Battle` fields it
    knows, or is in one of the formats of other tools (`docs/formats.md`), which is seen from
    its columns. Columns nobody knows are ignored, values nobody knows refused. A battle id may
    come once per source, judge and dimension; battles without an id are counted as they are.

    Parameters
    ----------
    winner
        The column of the outcome, where a file has several voters.
    covariates
        Columns of numbers or, where the file has the responses, features of style
        (`FEATURES`).
    strata
        Columns such as language or specialty, each an axis of boards per stratum.
    format
        The name of the format, where looking at the file does not tell.
    columns
        Which columns are the battle's, where the file is in no known format.
    """
    columns = columns or Columns()
    columns = columns if winner == "winner" else replace(columns, winner=winner)
    return read_file(Path(path), format_of(Path(path), format, columns), covariates, strata)[0]


def read_battle_texts(path: str | Path) -> tuple[BattleLog, BattleTexts]:
    """The battles of a file and what was said in each.

    The format, which is seen from the columns, has to have the texts. In our own, they are the
    columns prompt, response_a, response_b and, where present, language and turns.
    """
    path = Path(path)
    log, said = read_file(path, format_of(path), texts=True)
    n = len(log)
    if missing := [name for name in ("prompt", *RESPONSES) if n and name not in said]:
        raise DataError(f"{path}: no texts of battles: missing column {', '.join(missing)}")
    nothing = np.full(n, None, object)
    texts = {name: said.get(name, nothing) for name in ("prompt", *RESPONSES, "language")}
    turns = [turn or 0 for turn in said.get("turns", nothing)]
    return log, BattleTexts(**texts, turns=np.array(turns, np.int32))


def read_file(
    path: Path,
    fmt: Format,
    covariates: Sequence[str] = (),
    strata: Sequence[str] = (),
    *,
    texts: bool = False,
) -> tuple[BattleLog, dict[str, NDArray[Any]]]:
    """The battles of a file in this format and, where asked for, columns of what was said in each;
    rows that are left out are warned about.
    """
    chosen = _chosen(fmt, covariates, texts=texts) | {_BY + s: column_name(s) for s in strata}
    with connection() as con:
        left_out = _laid_out(con, path, fmt, chosen)
        log = _log(con, path, covariates)
        log = replace(log, strata=_strata(con, strata, path)) if strata else log
        said = _said(con, fmt.texts, path) if texts else {}
    for reason, n in left_out.items():
        warnings.warn(f"{path}: left out {n:,} {reason}", LeftOutWarning, stacklevel=3)
    return log, said


def _strata(con: Connection, axes: Sequence[str], path: Path) -> dict[str, Labels]:
    """The stratum of each battle on each axis; empty cells are none."""
    for axis in axes:
        if not _holding(con, [_BY + axis]):
            known = ", ".join(tabular.columns_of(path))
            raise DataError(f"{path}: no column {axis!r} with strata; columns: {known}")
    return {axis: Labels.of(_values(con, column_name(_BY + axis)).tolist()) for axis in axes}


def _laid_out(
    con: Connection, path: Path, fmt: Format, chosen: Mapping[str, str], longest: int = 0
) -> dict[str, int]:
    """Make the table `raw` of a file; whatever is wrong is told with the file, and the line if it
    can be found. Where a row is longer than usual, the file is read again.
    """
    table = None
    try:
        tabular.check_rows(con, path)
        table = fmt.table(con, path, chosen, longest or tabular.usual_row(path))
        return fmt.lay_out(con, table, chosen)
    except RowError as error:
        raise DataError(error.sentence(path, error.rows)) from None
    except DataError as error:
        raise DataError(_about(path, str(error))) from None
    except duckdb.Error as error:
        if tabular.is_too_long(error) and not longest:
            return _laid_out(con, path, fmt, chosen, limit(LONGEST_LINE))
        tabular.check_text(path)
        told = str(error).splitlines()[0]
        with suppress(duckdb.Error):
            if table and (row := fmt.broken_row(con, table, chosen)) is not None:
                told = f"{row.sentence(path, row.rows)} ({told})"
        raise DataError(_about(path, told)) from None


def _about(path: Path, sentence: str) -> str:
    """A sentence that begins with the file."""
    return sentence if sentence.startswith(str(path)) else f"{path}: {sentence}"


def _said(con: Connection, names: Iterable[str], path: Path) -> dict[str, NDArray[Any]]:
    """The columns of what was said that hold anything; turns are numbers."""
    said = {
        name: _values(con, "try_cast(turns AS INTEGER)" if name == "turns" else name)
        for name in _holding(con, names)
    }
    for name in [name for name in ("prompt", *RESPONSES) if name in said]:
        said[name], errors = _contents(said[name], name, lambda: content.PictureFiles(path))
        for error in errors[:1]:
            sentence = error.sentence(path, _file_rows(con, error.rows))
            told = f"{sentence}; texts left out: {len(errors):,}"
            warnings.warn(told, LeftOutWarning, stacklevel=3)
    return said


def _contents(
    cells: NDArray[Any], name: str, pictures: Callable[[], content.Pictures]
) -> tuple[NDArray[np.object_], list[RowError]]:
    """The texts and conversations of cells, None where one cannot be read, and why."""
    found, errors = cells.astype(object), []
    for row, cell in enumerate(cells):
        try:
            found[row] = content.read_cell(cell, pictures(), response=name in RESPONSES)
        except (DataError, KeyError, TypeError) as error:
            found[row] = None
            errors.append(RowError(row, f"{name} cannot be read ({error})"))
    return found, errors


def battles_from_frame(
    frame: pd.DataFrame, *, winner: str = "winner", covariates: Sequence[str] = ()
) -> BattleLog:
    """A battle log from a pandas frame with the same columns as a file."""
    fmt = mapped(Columns(winner=winner), tuple(frame.columns))
    chosen = _chosen(fmt, covariates)
    known = {*fmt.needs, *fmt.also, *covariates}
    with connection() as con:
        con.register("incoming", frame[[name for name in frame.columns if name in known]])
        try:
            fmt.lay_out(con, Table("incoming", tabular.types_of(con, "incoming")), chosen)
        except (duckdb.Error, DataError) as error:
            raise DataError(f"the frame: {str(error).splitlines()[0]}") from None
        return _log(con, None, covariates)


def _chosen(fmt: Format, covariates: Sequence[str], *, texts: bool = False) -> dict[str, str]:
    """The columns to read, with their expressions; style is measured from the responses."""
    responses = RESPONSES if covariates else ()
    said = {name: x for name, x in fmt.texts.items() if texts or name in responses}
    numbers = {name: column_name(name) for name in covariates}
    return {**numbers, **said, **fmt.battles}


def _log(con: Connection, path: Path | None, covariates: Sequence[str]) -> BattleLog:
    """The log of the table `raw`; whatever is wrong is told with the file and the line."""
    name = str(path) if path else "the frame"
    try:
        log = checked_log(con)
        if covariates:
            log = replace(log, covariates=_covariates(con, covariates, name))
    except RowError as error:
        raise DataError(error.sentence(path, _file_rows(con, error.rows))) from None
    if path and _has_constants(log):
        tabular.check_text(path)  # refuses a bare NaN, which DuckDB reads as a name
    warn_of_reading(con, log, name, _repeated(con, log, path))
    return log


def _repeated(con: Connection, log: BattleLog, path: Path | None) -> int:
    """How many rows without an id are the same as an earlier one in every column of the file; none
    where rows say so little (no question, no time) that equal ones are to be expected.
    """
    if log.battle_id is not None or (log.question_id is None and log.timestamp is None):
        return 0
    if not _repeats(_values(con, "hash(raw)")):
        return 0
    is_table = path is not None and tabular.kind_of(path) in tabular.STREAMED
    table = tabular.table_of(path, tabular.columns_of(path)) if path and is_table else "raw"
    query = f"SELECT count(*) - count(DISTINCT hash(whole)) FROM {table} AS whole"
    return int(con.execute(query).fetchall()[0][0])


def _file_rows(con: Connection, rows: Iterable[int]) -> list[int]:
    """The rows of the file that rows of `raw` come from."""
    if "file_row" not in tabular.types_of(con, "raw"):
        return list(rows)
    query = "SELECT file_row FROM raw WHERE rowid = ?"
    return [con.execute(query, [row]).fetchall()[0][0] for row in rows]


def _has_constants(log: BattleLog) -> bool:
    columns = [getattr(log, column) for column in TEXT_COLUMNS]
    names = {*log.models, *(name for c in columns if c is not None for name in c.names)}
    return not names.isdisjoint(("NaN", "Infinity", "-Infinity"))


def _holding(con: Connection, names: Iterable[str]) -> list[str]:
    """Those of the columns that are there and hold anything."""
    _, held = _counts(con)
    return [name for name in names if held.get(name)]


def _counts(con: Connection) -> tuple[int, Mapping[str, int]]:
    """The rows of the table `raw`, and in how many of them each column holds anything."""
    [(rows, *held)] = con.execute("SELECT count(*), count(COLUMNS(*)) FROM raw").fetchall()
    return rows, dict(zip([each[0] for each in con.description[1:]], held, strict=True))


def checked_log(con: Connection) -> BattleLog:
    """The log of the table `raw`, once every value in it has been checked."""
    rows, held = _counts(con)
    for column in REQUIRED:
        if held[column] < rows:
            refuse(con, column, f"{column} IS NULL", f"{column} is missing; fill or remove it")
    filled = {name for name, n in held.items() if n}
    outcome = _outcomes(con)
    columns: dict[str, Any] = {"battle_id": _ids(con, filled)} if "battle_id" in filled else {}
    sides = _checked("model", _coded(con, "model_a", "model_b"))
    columns |= {name: _checked(name, _coded(con, name)) for name in TEXT_COLUMNS if name in filled}
    a, b = np.split(sides.codes, 2)
    if np.any(same := a == b):
        row = int(np.argmax(same))
        raise RowError(row, f"both models are {sides.names[a[row]]!r}; correct or remove it")
    if "timestamp" in filled:
        columns["timestamp"] = _timestamps(con)
    if "weight" in filled:
        weights = _numbers(
            con, "weight", f"{{0}} > 0 AND {{0}} <= {schema.MAX_WEIGHT}", schema.A_WEIGHT, 1
        )
        columns["weight"] = weights if np.any(weights != 1.0) else None
    if "share_a" in filled:
        share = "{} BETWEEN 0 AND 1", "a number from 0 to 1", np.nan
        columns["share_a"] = _numbers(con, "share_a", *share)
    if "inconsistent" in filled:
        columns["inconsistent"] = _inconsistent(con, outcome)
    return BattleLog(models=tuple(sides.names), a=a, b=b, outcome=outcome, **columns)


#: The outcome, as SQL, where a row's label is the name of one of its models.
_NAMED = "CASE WHEN winner = model_a THEN 0 WHEN winner = model_b THEN 1 ELSE -1 END"


def _outcomes(con: Connection) -> NDArray[np.int8]:
    labels = schema.outcome_labels(_distinct_labels(con))
    cases = " ".join(f"WHEN {quoted(x)} THEN {schema.OUTCOMES.index(y)}" for x, y in labels.items())
    code = f"(CASE winner {cases} ELSE {_NAMED} END)" if cases else _NAMED
    if spelled := ", ".join(quoted(label) for label in labels if label not in schema.OUTCOMES):
        both = f"winner IN ({spelled}) AND {_NAMED} NOT IN (-1, {code})"
        refuse(con, "winner", both, "winner {0!r} may be a side or the model of that name; say "
               f"which with {_meaning('model_a')} (a side) or {_meaning('name')}")  # fmt: skip
    codes = _values(con, f"{code}::TINYINT")
    if np.any(codes < 0):
        numbers = f"{code} < 0 AND winner IN ('0', '1', '2')"
        refuse(con, "winner", numbers, "winner {0!r} is ambiguous in a column without both 1 and "
               f"2; say what each number means, as in {_meaning('model_a')}")  # fmt: skip
        refuse(con, "winner", f"{code} < 0", "unknown winner {0!r}; allowed: one of the row's "
               f"models, {', '.join(schema.OUTCOME_LABELS)}; say what it means with "
               f"{_meaning('tie')}, or exclude such rows with {_meaning('')}")  # fmt: skip
    return codes


def _meaning(outcome: str, label: str = "{0}") -> str:
    """How a label is given a meaning: as an option where a command runs, else in Python."""
    in_python = f"Columns(values={{{{'{label}': '{outcome}'}}}})"
    return option(f"--value '{label}={outcome}'", in_python)


def _distinct_labels(con: Connection) -> list[str]:
    return [label for (label,) in con.execute("SELECT DISTINCT winner FROM raw").fetchall()]


def warn_of_reading(con: Connection, log: BattleLog, name: str, repeated: int) -> None:
    """Warn of names that look alike, of labels of outcomes that others may mean otherwise, and of
    rows that repeat others.
    """
    if sentence := schema.look_alikes(log.models):
        warnings.warn(f"{name}: {sentence}", schema.LookAlikeWarning, stacklevel=5)
    labels = schema.outcome_labels(_distinct_labels(con))
    if read := ", ".join(f"{x} is {y}" for x, y in sorted(labels.items()) if x.lower() in _UNSURE):
        other = _meaning("OUTCOME", "LABEL").format()
        told = f"winners were read so: {read}; {other} changes that"
        warnings.warn(f"{name}: {told}", LabelWarning, stacklevel=5)
    if repeated:
        told = f"rows that repeat an earlier row: {repeated:,}; without a battle_id, each counts"
        warnings.warn(f"{name}: {told}", RepeatedWarning, stacklevel=5)


def _coded(con: Connection, *columns: str) -> Labels:
    """Some columns as codes of the distinct names in them, one column after the other."""
    every = " UNION ALL ".join(f"SELECT {column} AS name FROM raw" for column in columns)
    numbers = f"SELECT name, row_number() OVER (ORDER BY name) - 1 AS code FROM ({every})"
    numbers += " WHERE name IS NOT NULL GROUP BY name"
    con.execute(f"CREATE OR REPLACE TEMP TABLE names AS {numbers}")
    names = con.execute("SELECT name FROM names ORDER BY code").fetchnumpy()["name"]
    join = "raw LEFT JOIN names ON raw.{} = names.name ORDER BY raw.rowid"
    query = f"SELECT coalesce(names.code, -1)::INTEGER AS v FROM {join}"
    joined = (con.execute(query.format(column)).fetchnumpy() for column in columns)
    codes = np.concatenate([np.asarray(each["v"]) for each in joined])
    return Labels(np.asarray(names).astype(object), codes)


def _repeats(hashes: NDArray[Any]) -> bool:
    ordered = np.sort(hashes)  # which takes a tenth of np.unique
    return bool(np.any(ordered[1:] == ordered[:-1]))


#: The field of a struct that names a model, the first that it has.
_NAME_FIELDS = ("name", "model", "model_name", "id", "model_id")


def _flat_name(name: str) -> str:
    """The name of a model; of a struct, which arrives as JSON, the field that names it."""
    if name.startswith(("{", "[")):
        with suppress(json.JSONDecodeError):
            nested = json.loads(name)
            fields = nested if isinstance(nested, dict) else {}
            found = [fields[each] for each in _NAME_FIELDS if isinstance(fields.get(each), str)]
            if not found:
                raise DataError(
                    f"model {name[:60]!r} is a nested value; allowed: a name, or a struct with one "
                    f"of {', '.join(_NAME_FIELDS)}"
                )
            name = found[0]
    return schema.check_model_name(name)


_CHECKS: dict[str, Callable[[str], str]] = {"model": _flat_name, "source": schema.read_source}


def _checked(name: str, labels: Labels) -> Labels:
    """The labels, if every name may stand in this column; an empty optional text is none."""
    if name != "model" and len(labels.names) and not labels.names[0]:
        labels = Labels(labels.names[1:], np.maximum(labels.codes - 1, -1))
    names = list(labels.names)
    for code, value in enumerate(names if name in _CHECKS else ()):
        try:
            names[code] = _CHECKS[name](value)
        except DataError as error:
            first = int(np.argmax(labels.codes == code))
            rows = len(labels.codes) // (2 if name == "model" else 1)
            raise RowError(first % rows, str(error)) from None
    if names == list(labels.names):
        return labels
    distinct, codes = np.unique(np.array(names, object), return_inverse=True)
    return Labels(distinct, np.append(codes, -1)[labels.codes].astype(labels.codes.dtype))


def _values(con: Connection, expression: str) -> NDArray[Any]:
    column = con.execute(f"SELECT {expression} AS v FROM raw").fetchnumpy()["v"]
    if isinstance(column, np.ma.MaskedArray):
        plain = column.data.astype(object)
        plain[np.ma.getmaskarray(column)] = None
        return plain
    return np.asarray(column)


def _ids(con: Connection, filled: set[str]) -> NDArray[Any]:
    """The ids, each once for whoever decided on whatever; where two rows share a 64-bit hash,
    they are compared as texts.
    """
    parts = ", ".join(["battle_id", *(column for column in IDENTITY if column in filled)])
    key = f"CASE WHEN battle_id <> '' THEN hash({parts}) ELSE rowid::UBIGINT END"
    if _repeats(_values(con, key)):
        rows = f"SELECT rowid AS n, min(rowid) OVER (PARTITION BY {parts}) AS earlier, battle_id"
        again = f"SELECT * FROM ({rows} FROM raw WHERE battle_id <> '') WHERE n > earlier"
        if (row := con.execute(f"{again} ORDER BY n LIMIT 1").fetchone()) is not None:
            raise RowError(row[0], f"battle_id {row[2][:60]!r} again; remove it or that at", row[1])
    return _values(con, "battle_id")


def _timestamps(con: Connection) -> NDArray[np.datetime64]:
    nowhere = -(2**63)
    micros = _values(con, f"coalesce(epoch_us({_MOMENT}), {nowhere + 1} - 1)")
    if np.any(micros == nowhere):
        _refuse_value(con, "timestamp", f"{_MOMENT} IS NULL", "an ISO date or seconds since 1970")
    return micros.astype("datetime64[us]")


def _numbers(
    con: Connection, column: str, right: str, allowed: str, absent: float | None = None
) -> NDArray[np.float64]:
    """A column of numbers for which a condition holds; rows that have none are refused, or get what
    stands for it.
    """
    name = column_name(column)
    number = f"try_cast({name} AS DOUBLE)"
    known = "" if absent is None else f"{name} IS NOT NULL AND "
    wrong = f"{known}NOT coalesce({right.format(number)}, false)"
    refuse(con, name, wrong, f"{column} {{!r}} is not {allowed}")
    return _values(con, f"coalesce({number}, '{absent or 0}'::DOUBLE)").astype(float)


def _covariates(
    con: Connection, names: Sequence[str], table: str
) -> dict[str, NDArray[np.float64]]:
    """Numbers per battle: columns of the table, or features of the two responses."""
    finite = "isfinite({})", "a finite number"
    given = {name: _numbers(con, name, *finite) for name in _holding(con, names)}
    rest = [name for name in names if name not in given]
    there = len(_holding(con, RESPONSES)) == len(RESPONSES)
    if strangers := [name for name in rest if not there or name not in FEATURES]:
        raise DataError(
            f"{table}: no covariate {', '.join(strangers)}; allowed: a column of numbers or, in a "
            f"table with response_a and response_b, {', '.join(FEATURES)}"
        )
    if rest:
        cells = {text: _values(con, f"coalesce({text}, '')") for text in RESPONSES}
        said = (_contents(each, name, content.Pictures)[0] for name, each in cells.items())
        styles = style_differences(*([text or "" for text in texts] for texts in said))
        given |= {name: styles[name] for name in rest}
    return {name: given[name] for name in names}


def _inconsistent(con: Connection, outcome: NDArray[np.int8]) -> NDArray[np.bool_] | None:
    known = "lower(inconsistent) IN ('true', 'false')"
    _refuse_value(con, "inconsistent", f"NOT {known}", "true or false")
    flags = _values(con, "coalesce(lower(inconsistent) = 'true', false)").astype(bool)
    if np.any(wrong := flags & (outcome != schema.TIE)):
        raise RowError(int(np.argmax(wrong)), "an inconsistent battle must have winner 'tie'")
    return flags if flags.any() else None


def _refuse_value(con: Connection, column: str, wrong: str, allowed: str) -> None:
    refuse(con, column, f"{column} IS NOT NULL AND ({wrong})", f"{column} {{!r}} is not {allowed}")
