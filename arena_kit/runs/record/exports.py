"""The ratings of a board as rows, whichever method made them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena_kit.files import write_csv
from arena_kit.reporting.board import Board, BoardRow, MethodRating

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
    for row in board.ratings:
        more = {"ranks": row.ranks, "n_battles": row.n_battles}
        error = row.se if row.evidence_se is None else row.evidence_se
        yield _rating_row(row, row, error, board.method, board.settings, **more)
    for name, beside in board.beside.items():
        method = f"placement-{name}" if name in _WAYS else beside.method
        for row in board.ratings:
            if figures := row.beside.get(name):
                yield _rating_row(row, figures, figures.se, method, beside.settings)


def _rating_row(
    row: BoardRow,
    figures: BoardRow | MethodRating,
    error: float | None,
    method: str,
    settings: Mapping[str, Any],
    **more: Any,
) -> RatingRow:
    return RatingRow(
        dimension=row.dimension,
        model=row.model,
        method=method,
        settings=settings,
        rating=figures.rating,
        ci_low=figures.ci_low,
        ci_high=figures.ci_high,
        se=error,
        interval="" if figures.ci_low is None else _interval(settings),
        **more,
    )


def write_ratings_csv(path: Path, rows: Iterable[RatingRow]) -> None:
    """Write ratings as one tidy CSV table, a row per dimension, model and method."""
    write_csv(path, [_cells(row) for row in rows], COLUMNS)


def _cells(row: RatingRow) -> dict[str, object]:
    best, worst = row.ranks or (None, None)
    settings = json.dumps(dict(row.settings), sort_keys=True, allow_nan=False)
    values = {"settings": settings, "best_rank": best, "worst_rank": worst}
    return {name: values[name] if name in values else getattr(row, name) for name in COLUMNS}


def _interval(settings: Mapping[str, Any]) -> str:
    """What made the interval of a method with these settings."""
    if "interval" in settings:  # Bradley–Terry's
        cluster = str(settings["cluster"])
        return f"{settings['interval']}, clustered by {_CLUSTERS.get(cluster, cluster)}"
    return "bootstrap, clustered by question"
