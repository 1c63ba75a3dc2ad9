"""Ratings of battles that are not held: a file of any size, a folder of files, a pattern."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from arena_kit.battles.log import BattleLog
from arena_kit.battles.on_disk import BattleFiles, Meter
from arena_kit.battles.readers.format import Columns
from arena_kit.files import DataError
from arena_kit.rating.base import RatingError, Ratings
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.bradley_terry.on_disk import dimensions, rate_boards


@dataclass(frozen=True, slots=True)
class RatedFiles:
    """The ratings of every dimension, why some have none, and the battles of each as counts."""

    results: dict[str, Ratings]
    unrated: dict[str, str]
    logs: Mapping[str, BattleLog]


def rate_files(
    path: str | Path, method: BradleyTerry | None = None, *, columns: Columns | None = None
) -> dict[str, Ratings]:
    """Rate battles where they are, without holding them: a file, a folder of files or a pattern
    such as `votes/*.parquet`, by Bradley–Terry.

    The result has the ratings of each dimension, under '' where battles name none. `columns` says
    which columns are the battle's, where the files are in no known format.
    """
    return rated_files(Path(path), method or BradleyTerry(), Meter(), columns=columns).results


def rated_files(
    path: Path,
    method: BradleyTerry,
    meter: Meter,
    *,
    format: str | None = None,  # noqa: A002 (what --format takes)
    columns: Columns | None = None,
    dimension: str | None = None,
) -> RatedFiles:
    """Rate the battles of files, of one dimension or all; the meter says how far that is."""
    stream = BattleFiles.of(path, format=format, columns=columns, meter=meter)
    parts = dict(dimensions(stream.cells))
    if dimension is not None and dimension not in parts:
        named = ", ".join(name for name in parts if name) or "none"
        raise DataError(f"{path}: no dimension {dimension!r}; found: {named}")

    def start(doing: str) -> None:
        meter.start(doing, len(stream))

    results, unrated = rate_boards(method, stream, only=dimension, start=start)
    if not results:
        raise RatingError("; ".join(f"{n}: {why}" if n else why for n, why in unrated.items()))
    whole = stream.cells.log
    return RatedFiles(results, unrated, {name: whole.select(at) for name, at in parts.items()})
