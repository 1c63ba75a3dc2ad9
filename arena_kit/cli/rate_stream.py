"""Battles that `rate` does not hold: folders, patterns and large files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from arena_kit.battles.log import BattleLog
from arena_kit.battles.streams import BattleFiles, Meter, battle_files, large
from arena_kit.cli.imports import HowToRead
from arena_kit.files import DataError
from arena_kit.rating.base import RatingError, Ratings
from arena_kit.rating.bradley_terry import BradleyTerry
from arena_kit.rating.elo import PermutationElo
from arena_kit.rating.glicko2 import Glicko2
from arena_kit.rating.streamed import dimensions, rate_boards
from arena_kit.rating.streamed_replays import replay_boards

Method = BradleyTerry | PermutationElo | Glicko2


@dataclass(frozen=True, slots=True)
class Streamed:
    """The ratings of every dimension, why some have none, and the battles of each as counts."""

    results: dict[str, Ratings]
    unrated: dict[str, str]
    logs: Mapping[str, BattleLog]


def streams(method: Method, file: Path, wanted: bool | None, *, alone: bool) -> bool:
    """Whether battles are streamed: as `--stream` says, else a folder or pattern, and a file that
    is large and rated in a way that can be streamed.
    """
    if wanted is not None and not wanted:
        return False
    record = (file / "battles.jsonl").is_file() or file.name == "battles.jsonl"
    if wanted is None and (record or (file.is_file() and not _large(method, file, alone=alone))):
        return False
    if not file.exists() and not set(str(file)) & set("*?["):
        return False
    if not alone:
        raise DataError(
            f"{file}: --also and --panel hold all battles; not allowed with a folder, a pattern or "
            "--stream"
        )
    return True


def _large(method: Method, file: Path, *, alone: bool) -> bool:
    plain = isinstance(method, BradleyTerry) and not method.covariates
    return alone and plain and large(battle_files(file))


def rate_stream(method: Method, file: Path, how: HowToRead, dimension: str | None) -> Streamed:
    """Rate battles where they are, saying how many rows have passed and how long it will take."""
    from arena_kit.runs.progress import PATIENCE, status_line

    meter = Meter()
    with status_line(meter.words, after=PATIENCE):
        path = file / "battles.jsonl" if (file / "battles.jsonl").is_file() else file
        stream = BattleFiles.of(path, format=how.format, columns=how.columns, meter=meter)
        parts = dict(dimensions(stream.cells))
        if dimension is not None and dimension not in parts:
            named = ", ".join(name for name in parts if name) or "none"
            raise DataError(f"{file}: no dimension {dimension!r}; found: {named}")

        def start(doing: str) -> None:
            meter.start(doing, len(stream))

        if isinstance(method, BradleyTerry):
            results, unrated = rate_boards(method, stream, only=dimension, start=start)
        else:
            results, unrated = replay_boards(method, stream, only=dimension, start=start)
    if not results:
        raise RatingError("; ".join(f"{n}: {why}" if n else why for n, why in unrated.items()))
    whole = stream.cells.log()
    logs = {name: whole.select(places) for name, places in parts.items()}
    return Streamed(results, unrated, logs)
