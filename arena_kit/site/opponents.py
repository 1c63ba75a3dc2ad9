"""What one model did against each other one: the tables of its page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from arena_kit.files import read_json
from arena_kit.reporting.tables import percent
from arena_kit.site.boards import Cell, Column
from arena_kit.site.reading import Reading
from arena_kit.site.texts import slug


@dataclass(frozen=True, slots=True)
class OpponentRow:
    """One line of a table; `link` leads to the battles behind it or, in a policy's record, which
    may have none to read, to the opponent.
    """

    cells: Mapping[str, Cell]
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpponentTable:
    """A table of a model's page."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[OpponentRow]


_COUNTS = ("won", "lost", "tied", "inconsistent", "unusable")
_KINDS = {"tie": "tied", "both_bad": "tied", "inconsistent": "inconsistent",
          "incomplete": "unusable"}  # fmt: skip


def opponents_of(record: Path, reading: Reading | None) -> dict[str, list[OpponentTable]]:
    """The tables of every model: from its battles or, in a policy's record, from its page there."""
    if (record / "model_detail.json").is_file():
        details = read_json(record / "model_detail.json")
        return {model: list(_voted(detail, details)) for model, detail in details.items()}
    return _met(reading) if reading else {}


def _met(reading: Reading) -> dict[str, list[OpponentTable]]:
    counts: dict[tuple[str, str], dict[str, Counter[str]]] = {}
    for battle in reading.battles:
        for model, other in ((battle.model_a, battle.model_b), (battle.model_b, battle.model_a)):
            kind = _KINDS.get(battle.outcome) or ("won" if battle.winner == model else "lost")
            met = counts.setdefault((model, battle.dimension), {})
            met.setdefault(other, Counter())[kind] += 1
    tables: dict[str, list[OpponentTable]] = {}
    for (model, dimension), met in counts.items():
        tables.setdefault(model, []).append(_head_to_head(model, dimension, met))
    return tables


def _head_to_head(model: str, dimension: str, met: Mapping[str, Counter[str]]) -> OpponentTable:
    shown = [kind for kind in _COUNTS if kind != "unusable" or any(c[kind] for c in met.values())]
    rows = []
    for other, counted in sorted(met.items()):
        cells = {"opponent": Cell(other, other)}
        cells |= {kind: Cell(f"{counted[kind]:,}", counted[kind]) for kind in shown}
        where = {"entrant": model, "opponent": other, "dimension": dimension}
        address = urlencode({name: value for name, value in where.items() if value})
        rows.append(OpponentRow(cells, f"../battles.html#{address}"))
    return OpponentTable(
        title=f"Head to head, {dimension}" if dimension else "Head to head",
        columns=(Column(key="opponent", label="Opponent", text=True),
                 *(Column(key=kind, label=kind.capitalize()) for kind in shown)),
        rows=rows,
    )  # fmt: skip


def _voted(detail: Mapping[str, Any], models: Collection[str]) -> Iterator[OpponentTable]:
    for title, what, rows in (
        ("Opponents", "Opponent", detail["opponents"]),
        ("Prompts", "Prompt", detail["prompts"]),
    ):
        columns = (
            Column(key="name", label=what, text=True),
            Column(key="votes", label="Votes"),
            Column(key="decisive", label="Decisive"),
            Column(key="both_bad", label="Both bad"),
            Column(key="score", label="Score"),
        )
        known = models if what == "Opponent" else ()
        voted = [_voted_row(row, known) for row in rows]
        yield OpponentTable(title=title, columns=columns, rows=voted)


def _voted_row(row: Mapping[str, Any], models: Collection[str]) -> OpponentRow:
    cells = {"name": Cell(row["name"], row["name"])}
    cells |= {name: Cell(f"{row[name]:,}", row[name]) for name in ("votes", "decisive", "both_bad")}
    link = f"{slug(row['name'])}.html" if row["name"] in models else ""
    return OpponentRow(cells | {"score": Cell(percent(row["score"]), row["score"])}, link)
