"""The coverage of battles that are not held: a file of any size, a folder of files, a pattern."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from arena_kit.battles.readers.format import Columns
from arena_kit.battles.streams import BattleFiles, Meter
from arena_kit.policy.constants import Policy
from arena_kit.policy.streamed_coverage import StreamedCoverage
from arena_kit.rating.base import check_connected
from arena_kit.rating.bradley_terry.method import BradleyTerry


@dataclass(frozen=True, slots=True)
class CoveredFiles:
    """The coverage of files, and their models by Bradley–Terry strength, best first."""

    coverage: StreamedCoverage
    order: tuple[str, ...]


def covered_files(
    path: Path,
    policy: Policy,
    meter: Meter,
    *,
    format: str | None = None,  # noqa: A002 (what --format takes)
    columns: Columns | None = None,
) -> CoveredFiles:
    """Count how well models, prompts and pairs are covered; the meter says how far that is."""
    stream = BattleFiles.of(path, format=format, columns=columns, meter=meter)
    meter.start("adding up votes by prompt", len(stream))
    coverage, log = StreamedCoverage.of(stream, policy), stream.cells.log()
    check_connected(log.models, log.a, log.b)
    strength = BradleyTerry().strengths(log)
    return CoveredFiles(coverage, tuple(log.models[i] for i in np.argsort(-strength)))
