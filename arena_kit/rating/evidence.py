"""What counts as one piece of evidence: a question with all its battles, or a single vote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from arena_kit.battle_log import BattleLog
from arena_kit.rating.base import questions_seen
from arena_kit.rating.likelihood import Cells, Pairs
from arena_kit.rating.resampling import Redraw, redrawn_clusters, redrawn_counts
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

    With `clusters`, battles of one cluster are one piece of evidence. Without, each battle is
    one; or, with `counts`, each row stands for so many votes alike (its weight says how many,
    as in a table of pair counts).
    """

    rows: Cells
    clusters: NDArray[np.int32] | None
    counts: Floats | None
    seen: Floats

    @classmethod
    def of(cls, log: BattleLog, x: Floats, cluster: Cluster) -> Evidence:
        """The evidence of a log; votes without a question stand for themselves."""
        clusters = log.clusters() if log.question_id is not None else None
        n = len(log.models)
        if clusters is None:
            seen = np.bincount(np.concatenate([log.a, log.b]), np.tile(log.weights(), 2), n)
        else:
            seen = questions_seen(log.a, log.b, clusters, n)
        counts = log.weight if clusters is None else None
        if cluster == "battle" or clusters is None or clusters.max() + 1 == len(log):
            clusters = None
        return cls(rows=Cells.of(log, x), clusters=clusters, counts=counts, seen=seen.astype(float))

    @property
    def pieces(self) -> float:
        """How many pieces there are."""
        if self.clusters is not None:
            return float(self.clusters.max()) + 1
        return float(len(self.rows.a) if self.counts is None else self.counts.sum())

    def votes(self, pairs: Pairs, seed: int) -> Votes:
        """What a resample draws from; votes alike are drawn together."""
        if self.clusters is not None:
            return Votes(self.rows, redrawn_clusters(self.clusters, seed=seed))
        if self._alike():
            cells, counts = pairs.pooled(self.rows).single_votes()
            return Votes(cells, redrawn_counts(counts, seed=seed))
        counts = np.ones(len(self.rows.a)) if self.counts is None else self.counts
        return Votes(self.rows.with_weights(1 / counts), redrawn_counts(counts, seed=seed))

    def _alike(self) -> bool:
        """Whether every vote is a plain win, loss or tie, so that only their number matters."""
        if self.rows.x.shape[1]:
            return False
        weight = np.ones(len(self.rows.a)) if self.counts is None else self.counts
        return all(
            bool(np.all((each == 0) | (each == weight)))
            for each in (self.rows.won, self.rows.tied, self.rows.lost)
        )
