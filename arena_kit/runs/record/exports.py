"""The ratings of a board as rows, whichever method made them: one tidy table."""

import json
from collections.abc import Iterable, Iterator, Mapping
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


#: A model's rating by one method in one dimension: `COLUMNS`. None is what the board does not say;
#: `interval` is what made the 95 % interval, and empty where there is none.
RatingRow = Mapping[str, Any]


def rating_rows(board: Board) -> Iterator[RatingRow]:
    """The ratings of a board by its own method, then by each beside it."""
    for row in board.ratings:
        best, worst = row.ranks or (None, None)
        own = {"best_rank": best, "worst_rank": worst, "n_battles": row.n_battles}
        yield _rating_row(row, row, board.method, board.settings) | own
    for name, beside in board.beside.items():
        method = f"placement-{name}" if name in _WAYS else beside.method
        for row in board.ratings:
            if figures := row.beside.get(name):
                yield _rating_row(row, figures, method, beside.settings)


def _rating_row(
    row: BoardRow, figures: BoardRow | MethodRating, method: str, settings: Mapping[str, Any]
) -> dict[str, Any]:
    same = {name: getattr(figures, name) for name in ("rating", "ci_low", "ci_high")}
    known = {"dimension": row.dimension, "model": row.model, "method": method, **same}
    interval = "" if figures.ci_low is None else _interval(settings)
    return dict.fromkeys(COLUMNS) | known | {"settings": dict(settings), "interval": interval}


def write_ratings_csv(path: Path, rows: Iterable[RatingRow]) -> None:
    """Write ratings as one tidy CSV table, a row per dimension, model and method."""
    cells = [{name: row[name] for name in COLUMNS} for row in rows]
    for row in cells:
        row["settings"] = json.dumps(row["settings"], sort_keys=True, allow_nan=False)
    write_csv(path, cells, COLUMNS)


def _interval(settings: Mapping[str, Any]) -> str:
    """What made the interval of a method with these settings."""
    if "interval" in settings:  # Bradley–Terry's
        cluster = str(settings["cluster"])
        return f"{settings['interval']}, clustered by {_CLUSTERS.get(cluster, cluster)}"
    return "bootstrap, clustered by question"
