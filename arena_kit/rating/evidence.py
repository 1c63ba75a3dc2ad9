"""What counts as one piece of evidence: a question with all its battles, or a single vote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import questions_seen
from arena_kit.rating.likelihood import Cells
from arena_kit.rating.resampling import ClusterRedraw, PoissonRedraw, Redraw
from arena_kit.rating.tie_models import Floats

Cluster = Literal["question", "battle"]


@dataclass(frozen=True, slots=True)
class Votes:
    """What a resample is made of: cells, and how often each is drawn."""

    cells: Cells
    redraw: Redraw


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A log's battles, a cell each, and which of them belong together.

    With `clusters`, battles of one cluster are one piece of evidence; without, each battle is.
    `counts` says how many votes alike a row stands for: its weight where it has no question, as
    in a table of pair counts, else 1. `seen` is how many pieces each model takes part in.
    """

    rows: Cells
    clusters: NDArray[np.int32] | None
    counts: Floats
    seen: Floats

    @classmethod
    def of(cls, log: BattleLog, x: Floats, cluster: Cluster) -> Evidence:
        """The evidence of a log; votes without a question stand for themselves, and those that
        are alike share a row.
        """
        counts, clusters = log.weights(), None
        seen = _sides(log, counts)
        if log.question_id is not None:
            counts = np.where(log.question_id.codes >= 0, 1.0, counts)
            clusters = log.clusters()
            seen = questions_seen(log.a, log.b, clusters, len(log.models)) + _sides(log, counts - 1)
            if cluster == "battle" or clusters.max() + 1 == len(log):
                clusters = None
        alike = clusters is None and not x.shape[1] and log.share_a is None
        if alike and np.array_equal(counts, log.weights()):
            single, counts = Cells.counted(log)
            return cls(rows=single.with_weights(counts), clusters=None, counts=counts, seen=seen)
        return cls(rows=Cells.of(log, x), clusters=clusters, counts=counts, seen=seen)

    @property
    def pieces(self) -> float:
        """How many pieces there are."""
        if self.clusters is None:
            return float(self.counts.sum())
        return float(self.clusters.max()) + 1 + float((self.counts - 1).sum())

    def votes(self, seed: int) -> Votes:
        """What a resample draws from."""
        single = self.rows.with_weights(1 / self.counts)
        if self.clusters is not None:
            return Votes(single, ClusterRedraw.of(self.clusters, seed, self.counts))
        return Votes(single, PoissonRedraw.of(self.counts, seed))


def _sides(log: BattleLog, values: Floats) -> Floats:
    """Values of battles, added up for both of their models."""
    total: Floats = np.bincount(
        np.concatenate([log.a, log.b]), np.tile(values, 2), len(log.models)
    ).astype(float)
    return total
