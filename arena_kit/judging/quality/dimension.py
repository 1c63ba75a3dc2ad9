"""What was measured of a judge on one dimension."""

from __future__ import annotations

from dataclasses import dataclass

from arena_kit.judging.quality.agreement import Share
from arena_kit.judging.quality.length import LengthPreference
from arena_kit.judging.quality.people import People
from arena_kit.judging.quality.position import PositionBias
from arena_kit.judging.quality.statuses import Statuses


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionQuality:
    """What was measured on one dimension; a share without a value could not be."""

    dimension: str
    statuses: Statuses | None
    position: PositionBias
    length: LengthPreference
    family: Share
    stability: Share
    people: People | None
