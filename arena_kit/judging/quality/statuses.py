"""How a judge's answers ended, and which model gave them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from arena_kit.judging.quality.agreement import Share, share_of
from arena_kit.judging.verdicts.records import Judgment, Slot, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Statuses:
    """Shares of all verdicts by status, those that can be read among them; `ties` are of the
    latter.
    """

    readable: Share
    ties: Share
    shares: dict[str, Share]

    @property
    def unread(self) -> str:
        """What became of verdicts that cannot be read, in words; empty where all can."""
        counts = {name: round((s.value or 0.0) * s.n) for name, s in self.shares.items()}
        return ", ".join(f"{n} {name}" for name, n in counts.items() if n and name != Status.OK)


def statuses(judgments: Sequence[Judgment]) -> Statuses:
    """How the answers of these judgments ended, with intervals clustered by question."""
    ended = [(v.status, v.winner, j.pair.prompt_id) for j in judgments for v in j.verdicts]
    status, winner, prompt = (np.array(c, object) for c in zip(*ended, strict=True))
    question = np.unique(prompt, return_inverse=True)[1]
    readable = winner != np.array(None, object)
    return Statuses(
        readable=share_of(readable, question),
        ties=share_of(winner[readable] == Slot.TIE, question[readable]),
        shares={str(kind): share_of(status == kind, question) for kind in Status},
    )


def served_by_others(judgments: Iterable[Judgment]) -> dict[str, int]:
    """How many verdicts came from a model that was not asked, by its name."""
    others = (verdict.other_model for judgment in judgments for verdict in judgment.verdicts)
    return dict(Counter(filter(None, others)))


def served_warning(judgments: Iterable[Judgment]) -> str:
    """A sentence when other models answered than the one that was asked; empty when none did."""
    return served_sentence(served_by_others(judgments))


def served_sentence(others: Mapping[str, int]) -> str:
    """The same from counts by model."""
    counts = ", ".join(f"{n} by {name}" for name, n in sorted(others.items()))
    told = f"Verdicts were served by another model than asked: {counts}; "
    return f"{told}such battles name it in served_model." if others else ""
