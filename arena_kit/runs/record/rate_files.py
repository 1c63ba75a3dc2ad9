"""The board of battles that are not held: a file of any size, a folder of files, a pattern."""

from __future__ import annotations

from pathlib import Path

from arena_kit.battles.on_disk import BattleFiles, Meter
from arena_kit.battles.readers.format import Columns
from arena_kit.files import DataError
from arena_kit.rating.base import RatingError
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.bradley_terry.on_disk import dimensions, rate_boards
from arena_kit.reporting.board import Board, board_of


def rate_files(
    path: str | Path,
    method: BradleyTerry | None = None,
    *,
    format: str | None = None,  # noqa: A002 (what --format takes)
    columns: Columns | None = None,
    dimension: str | None = None,
    margin: float = 0.0,
    meter: Meter | None = None,
) -> Board:
    """Rate battles where they are, without holding them: a file, a folder of files or a pattern
    such as `votes/*.parquet`, by Bradley–Terry.

    Parameters
    ----------
    format, columns
        How the files are read: a format by its name, or which columns are the battle's.
    dimension
        Only this one, where battles name dimensions.
    margin
        Points within which neighbours count as equivalent.
    meter
        Says how far the work is.
    """
    meter = meter or Meter()
    stream = BattleFiles.of(path, format=format, columns=columns, meter=meter)
    parts = dict(dimensions(stream.cells))
    if dimension is not None and dimension not in parts:
        named = ", ".join(name for name in parts if name) or "none"
        raise DataError(f"{path}: no dimension {dimension!r}; found: {named}")

    def start(doing: str) -> None:
        meter.start(doing, len(stream))

    results, unrated = rate_boards(method or BradleyTerry(), stream, only=dimension, start=start)
    if not results:
        raise RatingError("; ".join(f"{n}: {why}" if n else why for n, why in unrated.items()))
    logs = {name: stream.cells.log.select(at) for name, at in parts.items()}
    return board_of(results, logs, unrated=unrated, margin=margin)
