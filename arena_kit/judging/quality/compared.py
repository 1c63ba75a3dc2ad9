"""Judges side by side: what each was measured to be worth, what it cost and how long it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from arena_kit.battles.log import BattleLog
from arena_kit.judging.quality.agreement import Share
from arena_kit.judging.quality.canaries.report import CanaryReport
from arena_kit.judging.quality.gate import Gate, Level
from arena_kit.judging.quality.judge import JudgeQuality
from arena_kit.judging.quality.people import between


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One judge on the pairs of a report.

    `source` says where its verdicts come from; `usd` and `seconds` are per 1,000 verdicts, None
    where that is not known. A judge without battles could not be asked; `source` then says why.
    """

    judge: str
    source: str
    quality: JudgeQuality
    gate: Gate
    battles: BattleLog | None = field(default=None, repr=False)
    canaries: CanaryReport | None = field(default=None, repr=False)
    n_verdicts: int = 0
    usd: float | None = None
    seconds: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "judge": self.judge,
            "source": self.source,
            "verdicts": self.n_verdicts,
            "usd_per_1000": self.usd,
            "seconds_per_1000": self.seconds,
            "gate": self.gate.as_dict(),
            "quality": self.quality.as_dict(),
            "canaries": self.canaries and self.canaries.as_dict(),
        }


def cheapest(judges: Sequence[Judged]) -> Judged | None:
    """The cheapest judge that passes the gate, trusted ones first; None where none does or no
    price is known.
    """
    priced = [j for j in judges if j.usd is not None and j.gate.level is not Level.FAILED]
    return min(priced, key=lambda j: (j.gate.level.badness, j.usd), default=None)


def agree(judges: Sequence[Judged]) -> Share | None:
    """Krippendorff's alpha of all judges with battles; None for one alone."""
    logs = {judge.judge: judge.battles for judge in judges if judge.battles is not None}
    return between(logs) if len(logs) > 1 else None
