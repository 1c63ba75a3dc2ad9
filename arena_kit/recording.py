"""A notebook's hold on its record: claimed first, closed last, failed in between."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_kit.reporting.pictures import Picture, save_picture
from arena_kit.runs import Record, runs_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """Work that leaves a record, whether a runner watches over it or a person in JupyterLab."""

    record: Record

    def show(self, name: str, figure: Figure, alt: str) -> Picture:
        """Save a figure in the record and return it for display."""
        return save_picture(figure, self.record.path / "figures" / f"{name}.png", alt)

    def _start(self, mode: str, parameters: dict[str, Any]) -> None:
        """Write the first manifest, unless a runner has."""
        if not self.record.attached:
            self.record.start(mode, parameters)
            atexit.register(_abandon, self.record)

    def _close(self) -> Record:
        """Close the record as finished, unless a runner will."""
        if not self.record.attached:
            self.record.finish()
        return self.record

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Close the record as failed when the block fails, unless a runner will."""
        try:
            yield
        except BaseException as error:
            self._on_failure(error)
            if not self.record.attached:
                self.record.finish(error=f"{type(error).__name__}: {error}")
            raise

    def _on_failure(self, error: BaseException) -> None:
        """What else a failure leaves in the record."""


def claimed_record(mode: str, run_dir: str, root: Path) -> Record:
    """The folder that a run was given, or a new one."""
    return Record.claim(root / run_dir) if run_dir else Record.create(runs_folder(root), mode)


def _abandon(record: Record) -> None:
    """Close a record whose session ends before it was saved."""
    if record.path.is_dir() and record.read().get("status") == "running":
        record.finish(error="the session ended before the record was saved")
