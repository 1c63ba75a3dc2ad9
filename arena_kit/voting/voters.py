"""The plan of voters: a table with a row for each, who they are and which strata they are asked."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from arena_kit.battles.battle import Battle
from arena_kit.battles.tabular import listed
from arena_kit.files import DataError
from arena_kit.judging.pairs.answer_table import Table, read_table
from arena_kit.voting.ballot import InvitedVoter, voter_id
from arena_kit.voting.texts import ArenaTexts

_LONGEST = 60  # characters of a name, as the page takes it
#: Columns of battles files, which no attribute may be called.
_TAKEN = {each.name for each in fields(Battle)} | {"prompt", "response_a", "response_b"}


def read_voters(path: Path, texts: ArenaTexts) -> list[InvitedVoter]:
    """The voters of a table (CSV or a workbook): `voter` is the name or code. A column that is
    called as an axis of the prompts' strata (`subject`) routes: it holds the strata that the voter
    is asked about, separated by semicolons, none for all. Other columns are attributes.
    """
    table = read_table(path)
    axes = {name: _strata(texts, name) for name in table.columns}
    axes = {name: strata for name, strata in axes.items() if strata and name != "voter"}
    attributes = [name for name in table.columns if name != "voter" and name not in axes]
    if "voter" not in table.columns or not table.rows:
        raise DataError(f"{path}: expected a column voter and a row for each of them")
    if taken := sorted({*attributes} & _TAKEN):
        raise DataError(f"{path}: the column {taken[0]!r} is one of battles files; rename it")
    _check_names(table)
    voters = []
    for n, cells in enumerate(table.rows):
        row = dict(zip(table.columns, cells, strict=True))
        about = {name: row[name] for name in attributes if row[name]}
        voters.append(InvitedVoter(row["voter"], _routed(table, n, row, axes), about))
    return voters


def _check_names(table: Table) -> None:
    """Refuse a row without a name that a page takes, and a second row of one voter."""
    rows: dict[str, int] = {}
    column = table.columns.index("voter")
    for n, name in enumerate(table.values("voter")):
        if not voter_id(name) or len(name) > _LONGEST or not name.isprintable():
            raise DataError(f"{table.cell(n, column)}: expected a name of 1 to {_LONGEST} letters")
        if (first := rows.setdefault(voter_id(name), n)) != n:
            place = table.cell(first, column)
            raise DataError(f"{table.cell(n, column)}: {name!r} is a voter of {place}, too")


def _strata(texts: ArenaTexts, axis: str) -> dict[str, set[str]]:
    """The prompts of each stratum on an axis."""
    found: dict[str, set[str]] = {}
    for name, prompt in texts.bank.items():
        if (stratum := prompt.stratum(axis)) is not None:
            found.setdefault(stratum, set()).add(name)
    return found


def _routed(
    table: Table, n: int, row: Mapping[str, str], axes: Mapping[str, dict[str, set[str]]]
) -> set[str] | None:
    """The prompts of the strata that a row names on every axis, None where it names none."""
    routed: set[str] | None = None
    for axis, strata in axes.items():
        wanted = [name.strip() for name in row[axis].split(";") if name.strip()]
        if unknown := [name for name in wanted if name not in strata]:
            place = table.cell(n, table.columns.index(axis))
            known = listed(sorted(strata))
            raise DataError(f"{place}: no prompt has {axis} {unknown[0]!r}; known: {known}")
        if wanted:
            named = set.union(*(strata[name] for name in wanted))
            routed = named if routed is None else routed & named
    return routed
