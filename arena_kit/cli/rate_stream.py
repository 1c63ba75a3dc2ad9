"""Battles that `rate` does not hold: folders, patterns and large files."""

from __future__ import annotations

from pathlib import Path
from typing import TypeGuard

from arena_kit.battles.on_disk import Meter, better_streamed
from arena_kit.cli.imports import HowToRead
from arena_kit.files import DataError
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.runs.record.rate_files import RatedFiles, rated_files


def streams(
    method: object, file: Path, how: HowToRead, wanted: bool | None, *, alone: bool
) -> TypeGuard[BradleyTerry]:
    """Whether battles are streamed: as `--stream` says, else a folder or pattern, and a file that
    is large and rated in a way that can be streamed.
    """
    if wanted is not None and not wanted:
        return False
    record = (file / "battles.jsonl").is_file() or file.name == "battles.jsonl"
    small = file.is_file() and not (alone and _large(method, file, how))
    if wanted is None and (record or small):
        return False
    if not file.exists() and not set(str(file)) & set("*?["):
        return False
    if not alone:
        raise DataError(
            f"{file}: --also and --panel hold all battles; not allowed with a folder, a pattern or "
            "--stream"
        )
    if not isinstance(method, BradleyTerry):
        raise DataError(f"{file}: battles that are streamed need --method bradley-terry")
    return True


def _large(method: object, file: Path, how: HowToRead) -> bool:
    """Whether a file is large, and rated in a way that can be streamed."""
    if not isinstance(method, BradleyTerry) or method.covariates:
        return False
    return better_streamed(file, how.format, how.columns)


def rate_stream(
    method: BradleyTerry, file: Path, how: HowToRead, dimension: str | None
) -> RatedFiles:
    """Rate battles where they are, saying how many rows have passed and how long it will take."""
    from arena_kit.runs.record.progress import PATIENCE, status_line

    path = file / "battles.jsonl" if (file / "battles.jsonl").is_file() else file
    meter = Meter()
    with status_line(meter.words, after=PATIENCE):
        return rated_files(
            path, method, meter, format=how.format, columns=how.columns, dimension=dimension
        )
