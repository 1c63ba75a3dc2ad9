"""Which records may be removed: those that match, are not running, and that nothing refers to."""

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from arena_kit.files import DataError, LockedError, option, read_yaml
from arena_kit.judging.quality.gate import Level
from arena_kit.runs.record.record import readable_records

_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_LOCKS = (".lock", ".kernel.lock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """Records to remove, and those that match and are kept, with the reason."""

    removable: list[Path]
    kept: dict[Path, str]

    @property
    def bytes(self) -> int:
        """How much room the removable ones take."""
        files = (file for record in self.removable for file in record.rglob("*"))
        return sum(file.lstat().st_size for file in files if file.is_file())


def age(text: str) -> timedelta:
    """A time such as 12h, 30d or 8w."""
    match = re.fullmatch(r"(\d{1,5})([hdw])", text)
    if match is None:
        raise DataError(f"older-than takes a number of hours, days or weeks (12h, 30d, 8w): {text}")
    return int(match[1]) * _UNITS[match[2]]


def prunable(
    folder: Path, root: Path, *, older_than: timedelta | None = None, status: str = ""
) -> Pruning:
    """The records directly in a folder that match all that is asked, unless one still runs, forbids
    to ask its judge, or another record or a parameter file of the workspace refers to it. What is
    linked there stands elsewhere and is not looked at.
    """
    if older_than is None and not status:
        by = option("--older-than, --status", "older_than=, status=")
        raise DataError(f"name the records by {by} or both")
    records = readable_records(folder)
    manifests = {path: manifest for path, manifest in records if not path.is_symlink()}
    named_so = [path for path, own in manifests.items() if status in ("", own.get("status"))]
    matching = [p for p in named_so if older_than is None or _age(manifests[p]) > older_than]
    unfit = "it found its judge not usable, which later runs check"
    kept = {path: unfit for path in matching if _forbids(manifests[path])}
    kept |= {path: "it is still running" for path in matching if _runs(path)}
    named = {path: manifest.get("parameters") for path, manifest in manifests.items()}
    named |= {file: _parameters(file) for file in sorted((root / "params").glob("*.yaml"))}
    staying = [path for path in named if path not in matching or path in kept]
    for path in staying:  # grows while records are found that must stay for another
        for other in matching:
            if other not in kept and other != path and _refers(named[path], other, root):
                kept[other] = f"{path.name} refers to it"
                staying.append(other)
    return Pruning(removable=[path for path in matching if path not in kept], kept=kept)


def remove(record: Path) -> None:
    """Remove a record's folder, unless it has begun to run again."""
    try:
        with _locked(record):
            shutil.rmtree(record)
    except Timeout:
        raise LockedError(f"{record}: this run is active again") from None


@contextmanager
def _locked(record: Path) -> Iterator[None]:
    """Hold the locks that a record has; `Timeout` where a run does."""
    with ExitStack() as locks:
        for file in (record / name for name in _LOCKS if (record / name).exists()):
            locks.enter_context(FileLock(file).acquire(timeout=0))
        yield


def _forbids(manifest: dict[str, Any]) -> bool:
    """Whether this is a pilot on whose account nothing is bought of a judge."""
    gate = manifest.get("judge_gate") if manifest.get("mode") == "pilot" else None
    return isinstance(gate, dict) and gate.get("level") == Level.FAILED


def _age(manifest: dict[str, Any]) -> timedelta:
    """How long ago a run ended, or began; none where its manifest does not say."""
    with suppress(KeyError, TypeError, ValueError):
        moment = datetime.fromisoformat(manifest.get("finished_at") or manifest["started_at"])
        return datetime.now(UTC) - moment
    return timedelta(0)


def _runs(record: Path) -> bool:
    with suppress(Timeout), _locked(record):
        return False
    return True


def _parameters(file: Path) -> dict[str, Any]:
    with suppress(DataError):
        return read_yaml(file)
    return {}


def _refers(value: object, record: Path, root: Path) -> bool:
    """Whether a text in these values is the path of the record or of a file in it."""
    if isinstance(value, dict):
        return any(_refers(inner, record, root) for name, inner in value.items()
                   if name != "run_dir")  # fmt: skip
    if isinstance(value, list):
        return any(_refers(inner, record, root) for inner in value)
    if not isinstance(value, str) or record.name not in value:
        return False
    return (root / value).resolve().is_relative_to(record.resolve())
