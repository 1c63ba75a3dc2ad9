"""The ratings of a board as rows, whichever method made them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena_kit.files import write_csv
from arena_kit.reporting.board import Board

COLUMNS = (
    "dimension", "model", "method", "settings", "rating", "ci_low", "ci_high", "interval",
    "best_rank", "worst_rank", "n_battles",
)  # fmt: skip
_CLUSTERS = {"both": "question and, where known, voter"}
#: Ways of placing a model, beside the board that shows it.
_WAYS = ("joint", "anchored")


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingRow:
    """One model's rating by one method in one dimension; None is what the board does not say.

    `interval` is what made the 95 % interval, and empty where there is none.
    """

    dimension: str
    model: str
    method: str
    settings: Mapping[str, Any]
    rating: float
    ci_low: float | None = None
    ci_high: float | None = None
    se: float | None = None
    interval: str = ""
    ranks: tuple[int, int] | None = None
    n_battles: int | None = None


def rating_rows(board: Board) -> Iterator[RatingRow]:
    """The ratings of a board by its own method, then by each beside it."""
    interval = _interval(board.method, board.settings)
    for row in board.ratings:
        yield RatingRow(
            dimension=row.dimension,
            model=row.model,
            method=board.method,
            settings=board.settings,
            rating=row.rating,
            ci_low=row.ci_low,
            ci_high=row.ci_high,
            se=row.se if row.evidence_se is None else row.evidence_se,
            interval="" if row.ci_low is None else interval,
            ranks=row.ranks,
            n_battles=row.n_battles,
        )
    for name, beside in board.beside.items():
        interval = _interval(beside.method, beside.settings)
        for row in board.ratings:
            if figures := row.beside.get(name):
                yield RatingRow(
                    dimension=row.dimension,
                    model=row.model,
                    method=f"placement-{name}" if name in _WAYS else beside.method,
                    settings=beside.settings,
                    rating=figures.rating,
                    ci_low=figures.ci_low,
                    ci_high=figures.ci_high,
                    se=figures.se,
                    interval="" if figures.ci_low is None else interval,
                )


def write_ratings_csv(path: Path, rows: Iterable[RatingRow]) -> None:
    """Write ratings as one tidy CSV table, a row per dimension, model and method."""
    write_csv(path, [_cells(row) for row in rows], COLUMNS)


def _cells(row: RatingRow) -> dict[str, object]:
    best, worst = row.ranks or (None, None)
    settings = json.dumps(dict(row.settings), sort_keys=True, allow_nan=False)
    values = {"settings": settings, "best_rank": best, "worst_rank": worst}
    return {name: values[name] if name in values else getattr(row, name) for name in COLUMNS}


def _interval(method: str, settings: Mapping[str, Any]) -> str:
    """What made the interval of a method with these settings."""
    if method == "bradley-terry":
        cluster = str(settings["cluster"])
        return f"{settings['interval']}, clustered by {_CLUSTERS.get(cluster, cluster)}"
    return "bootstrap, clustered by question"
