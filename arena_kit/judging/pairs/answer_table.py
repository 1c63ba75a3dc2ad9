"""A table of questions and answers as prompts and responses: a column for each model (wide), or a
row for each answer (long). Columns are recognised by their names and by what they hold.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

import duckdb

from arena_kit.battles import tabular
from arena_kit.battles.battle import made_id, plain_name
from arena_kit.battles.tabular import is_workbook, read_sheet
from arena_kit.files import DataError, option
from arena_kit.judging.pairs.answer_logs import Collection
from arena_kit.judging.pairs.prompts import Prompt, Response

#: The names by which a column is recognised, in lower case with _ for all but letters and digits.
_KNOWN = {
    "question": "question prompt query input instruction text task question_text prompt_text "
    "user_prompt user_input frage",
    "gold": "gold gold_answer gold_standard reference reference_answer expected expected_answer "
    "expected_output target ground_truth correct_answer correct ideal answer_key",
    "prompt_id": "id prompt_id question_id qid nr no number item item_id",
    "model": "model model_name system configuration config entrant variant arm",
    "response": "response answer output completion response_text model_answer prediction",
    "strata": "source subject specialty speciality language lang difficulty category topic domain "
    "level type discipline department task_type field section",
}  # fmt: skip
_NUMBER = re.compile(r"[-+]?\d[\d.,:%/ T+-]*(ms|s|USD|\$)?")
#: A column of texts that repeat has shorter ones than this, in characters.
_SHORT = 25
_SHOWN = 5


class Table(NamedTuple):
    """Rows of text under column names; `where` names the file or sheet, and `cell` the place of a
    row and column.
    """

    where: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    cell: Callable[[int, int], str]

    def values(self, column: str) -> list[str]:
        """What stands in a column."""
        n = self.columns.index(column)
        return [row[n] for row in self.rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """Which column holds what; an empty name or tuple is to be recognised. A long table has
    `model` and `response`, a wide one `entrants`.
    """

    question: str = ""
    gold: str = ""
    prompt_id: str = ""
    entrants: tuple[str, ...] = ()
    model: str = ""
    response: str = ""
    strata: tuple[str, ...] = ()

    @property
    def used(self) -> tuple[str, ...]:
        """Every column that has a role."""
        single = (self.question, self.gold, self.prompt_id, self.model, self.response)
        return tuple(filter(None, (*single, *self.entrants, *self.strata)))


class AnswerTable(NamedTuple):
    """What was understood of a table: its roles, the prompts and responses, and in sentences what
    was recognised and what could not be used.
    """

    roles: Roles
    answers: Collection
    sentences: tuple[str, ...]


def read_table(source: Any, sheet: str = "") -> Table:
    """A file (a workbook, CSV, TSV, Parquet or JSONL) or a DataFrame as rows of text."""
    if isinstance(source, Path | str):
        path = Path(source)
        return _workbook(path, sheet) if is_workbook(path) else _file(path)
    columns = tuple(map(str, source.columns))
    rows = [tuple(map(_text, row)) for row in source.itertuples(index=False, name=None)]
    return Table("the frame", columns, rows, lambda r, c: f"row {r}, {columns[c]}")


def read_answers(table: Table, given: Roles = Roles()) -> AnswerTable:  # noqa: B008 (frozen)
    """The prompts and responses of a table; columns that `given` does not name are recognised."""
    roles, unused = _recognised(table, given)
    problems: list[str] = []
    prompts, kept = _prompts(table, roles, problems)
    responses = tuple(_responses(table, roles, kept, problems))
    if len({each.entrant_id for each in responses}) < 2:
        raise DataError(
            f"{table.where}: a comparison needs the answers of two models; name their columns with "
            + option(
                "--entrant COLUMN (or --model and --response", "entrants= (or model= and response="
            )
            + f", one row per answer). Columns: {tabular.listed(table.columns)}"
        )
    collection = Collection(prompts=prompts, responses=responses, scores=(), left_out={})
    recognised = _understood(table, roles, unused, collection)
    return AnswerTable(roles, collection, (*recognised, *problems))


def _workbook(path: Path, name: str) -> Table:
    sheet = read_sheet(path, name)
    return Table(f"{path}, sheet {sheet.name}", sheet.columns, sheet.rows, sheet.cell)


def _file(path: Path) -> Table:
    columns = tabular.columns_of(path)
    if not columns:
        raise DataError(f"{path}: no columns; expected a table of questions and answers")
    with tabular.connection() as con:
        names = ", ".join(map(tabular.column_name, columns))
        query = f"SELECT {names} FROM {tabular.table_of(path, columns)}"
        try:
            rows = [tuple(map(_text, row)) for row in con.execute(query).fetchall()]
        except duckdb.Error as error:
            raise DataError(f"{path}: {str(error).splitlines()[0]}") from None

    def cell(row: int, column: int) -> str:
        return f"{path.name}{tabular.place_of(path, row)} {columns[column]}"

    return Table(str(path), columns, rows, cell)


def _text(value: object) -> str:
    missing = value is None or (isinstance(value, float) and isnan(value))
    return "" if missing else str(value).strip()


def _recognised(table: Table, given: Roles) -> tuple[Roles, dict[str, str]]:
    """The role of every column, and why a column has none."""
    for name in given.used:
        if name not in table.columns:
            listed = tabular.listed(table.columns)
            raise DataError(f"{table.where}: no column {name!r}; it has: {listed}")
    free = [name for name in table.columns if name not in given.used]
    found = {
        role: [n for n in free if plain_name(n) in names.split()] for role, names in _KNOWN.items()
    }
    long = bool(given.model or given.response or (found["model"] and found["response"]))
    one = {role: (getattr(given, role) or (found[role] or [""])[0]) for role in _ROLES}
    if not long or given.entrants:
        one |= {"model": "", "response": ""}
        one["gold"] = one["gold"] or (found["response"] or [""])[0]
    if not one["question"]:
        raise DataError(
            f"{table.where}: no column of questions was recognised; name it with "
            f"{option('--question COLUMN', 'question=')}. Columns: {tabular.listed(table.columns)}"
        )
    roles = Roles(**one, entrants=given.entrants, strata=given.strata or tuple(found["strata"]))
    rest = {n: _no_answers(table.values(n)) for n in table.columns if n not in roles.used}
    if not (long or given.entrants):
        chosen = tuple(name for name, reason in rest.items() if not reason)
        roles = Roles(**one, entrants=chosen, strata=roles.strata)
    return roles, {n: why or "not named" for n, why in rest.items() if n not in roles.used}


_ROLES = ("question", "gold", "prompt_id", "model", "response")


def _no_answers(values: Sequence[str]) -> str:
    """Why a column holds no answers of a model; empty where it does."""
    texts = [value for value in values if value]
    if not texts:
        return "empty"
    if sum(bool(_NUMBER.fullmatch(text)) for text in texts) > len(texts) / 2:
        return "numbers"
    short = sum(map(len, texts)) / len(texts) < _SHORT
    return "few short values" if short and len({*texts}) <= max(len(texts) / 2, 1) else ""


def _prompts(
    table: Table, roles: Roles, problems: list[str]
) -> tuple[tuple[Prompt, ...], dict[int, str]]:
    """The prompts in order, and the id of the prompt that each row asks."""
    column = table.columns.index
    at, by_text, ids = column(roles.question), dict[str, Prompt](), dict[int, str]()
    width, empty, repeated = len(str(len(table.rows))), [], []
    for n, row in enumerate(table.rows):
        if not row[at]:
            empty.append((n, at))
        elif row[at] in by_text and not roles.model:
            repeated.append((n, at))
        else:
            own = made_id(row[column(roles.prompt_id)]) if roles.prompt_id else ""
            by_text.setdefault(row[at], _prompt(table, roles, row, own or f"q{n + 1:0{width}}"))
            ids[n] = by_text[row[at]].prompt_id
    problems += _listed(table, empty, "row(s) without a question, left out")
    problems += _listed(table, repeated, "repeated question(s), left out")
    if len({each.prompt_id for each in by_text.values()}) < len(by_text):
        raise DataError(f"{table.where}: two questions share an id in {roles.prompt_id!r}")
    return tuple(by_text.values()), ids


def _prompt(table: Table, roles: Roles, row: Sequence[str], prompt_id: str) -> Prompt:
    value = dict(zip(table.columns, row, strict=True))
    strata = {plain_name(name) or name: value[name] for name in roles.strata if value[name]}
    first = next(iter(strata.values()), "") if roles.strata else "all"
    return Prompt(
        prompt_id=prompt_id,
        text=value[roles.question],
        source=made_id(first or "unknown"),
        gold_answer=value[roles.gold] or None if roles.gold else None,
        strata=strata,
    )


def _responses(
    table: Table, roles: Roles, ids: dict[int, str], problems: list[str]
) -> Iterator[Response]:
    """The responses in the cells of a table, wide or long."""
    column = table.columns.index
    if roles.model:
        model, response = column(roles.model), column(roles.response)
        cells = [(n, response, table.rows[n][model]) for n in ids]
    else:
        cells = [(n, column(name), name) for name in roles.entrants for n in ids]
    seen, missing, repeated = set(), [], []
    for n, at, name in cells:
        text, own = table.rows[n][at], (name, ids[n])
        if not name or not text:
            missing.append((n, at if name else column(roles.model)))
        elif own in seen:
            repeated.append((n, at))
        else:
            seen.add(own)
            try:
                yield Response(entrant_id=name, prompt_id=ids[n], response_text=text)
            except DataError as error:
                raise DataError(f"{table.where}: {error}") from None
    problems += _listed(table, missing, "missing answer(s)")
    problems += _listed(table, repeated, "second answer(s) of a model to one question, left out")


def _listed(table: Table, cells: Sequence[tuple[int, int]], what: str) -> list[str]:
    """A sentence that counts cells and names the first of them; none without cells."""
    if not cells:
        return []
    named = [table.cell(*each) for each in cells[:_SHOWN]]
    more = ", …" if len(cells) > _SHOWN else ""
    counted = what.replace("(s)", "s" if len(cells) > 1 else "")
    return [f"{len(cells)} {counted}: {', '.join(named)}{more}"]


def _understood(
    table: Table, roles: Roles, unused: dict[str, str], answers: Collection
) -> Iterator[str]:
    """What each column was taken for."""
    layout = "a row for each answer" if roles.model else "a column for each model"
    yield f"{table.where}: {len(answers.prompts)} questions, {layout}"
    yield f"question: {roles.question}"
    yield f"reference answer: {roles.gold or 'none'}"
    yield f"models: {', '.join(answers.entrants)}"
    for name in roles.strata:
        yield f"stratum: {name} ({len({*table.values(name)} - {''})} values)"
    for name, reason in unused.items():
        yield f"left out: {name} ({reason})"
