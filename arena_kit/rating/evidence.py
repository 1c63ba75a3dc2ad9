"""What counts as one piece of evidence: a question with all its battles, or a single vote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from arena_kit.battle_log import BattleLog
from arena_kit.rating.base import questions_seen
from arena_kit.rating.likelihood import Cells, Pairs
from arena_kit.rating.resampling import Redraw, either, redrawn_clusters, redrawn_counts
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
        """The evidence of a log; votes without a question stand for themselves."""
        if log.question_id is None:
            counts = log.weights()
            return cls(
                rows=Cells.of(log, x), clusters=None, counts=counts, seen=_sides(log, counts)
            )
        counts = np.where(log.question_id.codes >= 0, 1.0, log.weights())
        clusters = log.clusters()
        single = cluster == "battle" or clusters.max() + 1 == len(log)
        seen = questions_seen(log.a, log.b, clusters, len(log.models)) + _sides(log, counts - 1)
        return cls(
            rows=Cells.of(log, x),
            clusters=None if single else clusters,
            counts=counts,
            seen=seen,
        )

    @property
    def pieces(self) -> float:
        """How many pieces there are."""
        if self.clusters is None:
            return float(self.counts.sum())
        return float(self.clusters.max()) + 1 + float((self.counts - 1).sum())

    def votes(self, pairs: Pairs, seed: int) -> Votes:
        """What a resample draws from; votes alike are drawn together."""
        single = self.rows.with_weights(1 / self.counts)
        if self.clusters is not None:
            redraw = redrawn_clusters(self.clusters, seed=seed)
            if np.any(self.counts != 1):
                redraw = either(self.counts != 1, redrawn_counts(self.counts, seed=seed), redraw)
            return Votes(single, redraw)
        if self._alike():
            cells, counts = pairs.pooled(self.rows).single_votes()
            return Votes(cells, redrawn_counts(counts, seed=seed))
        return Votes(single, redrawn_counts(self.counts, seed=seed))

    def _alike(self) -> bool:
        """Whether every vote is a plain win, loss or tie, so that only their number matters."""
        if self.rows.x.shape[1]:
            return False
        return all(bool(np.all((w == 0) | (w == self.counts))) for w in self.rows.outcomes)


def _sides(log: BattleLog, values: Floats) -> Floats:
    """Values of battles, added up for both of their models."""
    total: Floats = np.bincount(
        np.concatenate([log.a, log.b]), np.tile(values, 2), len(log.models)
    ).astype(float)
    return total
