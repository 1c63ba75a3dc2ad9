"""Bradley–Terry on battles that stay on disk: counts of cells are held, rows pass by.

The fit needs no rows. The bootstrap is one pass, in which the battles of every resample are added
up by pair and outcome. The sandwich needs the battles of a question together, so its pass is
sorted. Battles that name neither question nor voter need no pass at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import A_WINS, B_WINS
from arena_kit.battles.cells import CellTable, Rows, Share, Stream, Way, whole_clusters
from arena_kit.battles.log import BattleLog, Ints
from arena_kit.fanout import cluster, fan_out
from arena_kit.rating import base
from arena_kit.rating.bradley_terry.clusters import Cluster, Evidence, Votes
from arena_kit.rating.bradley_terry.likelihood import Cells, Fit, Pairs, unanimous
from arena_kit.rating.bradley_terry.method import BradleyTerry, one_thread
from arena_kit.rating.bradley_terry.sandwich import (
    meat_of_clusters,
    sandwiched,
    scores_of,
    stretched,
)
from arena_kit.rating.bradley_terry.tie_models import Floats
from arena_kit.rating.resampling import LANES, Hashes, PoissonWeights, mix

#: Bytes for the sums of resamples; where they need more, there are several passes.
MOST_BYTES = 1_000_000_000
#: Hashes that a sketch keeps of an item; beyond, their number is known to about 3 %.
KEPT = 1024
_OUTCOMES = 3  # won, tied, lost
_BLOCK = 4096  # rows that are drawn at once
_ALL = np.uint64(2**64 - 1)
_NAMED: dict[Way | None, str] = {
    "question": "question", "voter": "voter", "both": "question and voter", None: "themselves"
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Board:
    """The battles of one dimension that count: `votes` has a cell for every pair and outcome,
    `counts` their weight, `cell_of` the cell of each row in the stream's table (-1: it does not
    count here).
    """

    log: BattleLog
    dropped: dict[str, int]
    votes: Cells
    counts: Floats
    cell_of: Ints
    pairs: Pairs

    @property
    def n(self) -> int:
        return len(self.log.models)

    @property
    def rows(self) -> Cells:
        """The votes with their counts."""
        return self.votes.with_weights(self.counts)

    def own(self, chunk: Rows) -> tuple[Ints, Hashes, Floats]:
        """The rows of a chunk that count here: cell among the votes, cluster and weight."""
        cell = self.cell_of[chunk.cell]
        some = np.flatnonzero(cell >= 0)
        return cell[some], chunk.cluster[some], chunk.weight[some]


def rate_boards(
    method: BradleyTerry,
    stream: Stream,
    *,
    only: str | None = None,
    start: Callable[[str], None] = lambda _: None,
) -> tuple[dict[str, base.Ratings], dict[str, str]]:
    """Ratings of every dimension (or of one `only`) that has one, and why the others have none;
    `start` hears of every pass.
    """
    if method.covariates:
        raise base.RatingError("covariates are not streamed; rate fewer battles in memory")
    rows = stream.cells.log.dimension_rows()
    rows = {name: rows[name] for name in rows if only in (None, name)}
    boards, unrated = base.each_rated(
        rows, lambda name: _board(method, stream.cells, rows[name]), none_allowed=True
    )
    ways = _ways(stream, method.cluster)
    weighted = bool(np.any(stream.cells.log.weights() != stream.cells.count))
    with one_thread():
        if not stream.ways or (not ways and not weighted):  # their counts say it all
            rated = {
                name: replace(method(board.log), dropped=board.dropped)
                for name, board in boards.items()
            }
        else:
            every = _by_rows(method, stream, list(boards.values()), ways, start)
            rated = dict(zip(boards, every, strict=True))
    return rated, unrated


def _board(method: BradleyTerry, cells: CellTable, rows: NDArray[np.intp]) -> Board:
    log, count = cells.log.select(rows), cells.count[rows]
    number = np.arange(len(log))
    kept, _ = method.kept(replace(log, covariates={"number": number.astype(float)}))
    own = np.asarray((kept.covariates or {})["number"], np.intp)
    out = np.isin(number, own, invert=True)
    dropped = {kind: int(count[out & mask].sum()) for kind, mask in base.kinds(log).items()}
    kept = replace(kept, covariates=None, dimension=None)
    base.check_kept(log, kept, dropped)
    votes, counts = Cells.summed(kept).single_votes()
    cell_of = np.full(len(cells), -1, np.int32)
    cell_of[rows[own]] = _cells_of(kept, votes)
    pairs = Pairs.of(votes, len(kept.models))
    return Board(
        log=kept, dropped=dropped, votes=votes, counts=counts, cell_of=cell_of, pairs=pairs
    )


def _cells_of(log: BattleLog, votes: Cells) -> NDArray[np.intp]:
    """The cell of each battle among single votes of each pair and outcome."""
    n, low, high = len(log.models), np.minimum(log.a, log.b), np.maximum(log.a, log.b)
    lost = np.where(log.a < log.b, log.outcome == B_WINS, log.outcome == A_WINS)
    ended = np.where(log.decisive(), np.where(lost, 2, 0), 1)
    mine = (low.astype(np.int64) * n + high) * _OUTCOMES + ended
    theirs = (votes.a.astype(np.int64) * n + votes.b) * _OUTCOMES + votes.outcomes.argmax(axis=0)
    order = np.argsort(theirs)
    return np.asarray(order[np.searchsorted(theirs[order], mine)])


def _ways(stream: Stream, cluster: Cluster) -> tuple[Way, ...]:
    """By what battles are clustered, as `Evidence` has it."""
    asked: tuple[Way, ...] = ("question", "voter") if cluster == "both" else (cluster,)  # type: ignore[assignment]
    ways = [way for way in asked if way in stream.ways]
    least = base.MIN_QUESTIONS
    if cluster == "both" and "voter" in ways and stream.voters(least) < least:
        ways.remove("voter")
    return tuple(ways)


class Passed(NamedTuple):
    """What a pass says of one board: on how many questions each model was seen, how many there
    are, and the spread of the likelihood's slope between them (None after a resampling).
    """

    seen: Floats
    pieces: float
    meat: Floats | None


def _by_rows(
    method: BradleyTerry,
    stream: Stream,
    boards: Sequence[Board],
    ways: tuple[Way, ...],
    start: Callable[[str], None],
) -> Iterator[base.Ratings]:
    """Ratings whose certainty comes from the rows: from resamples, from a sandwich, or both."""
    pooled = [board.pairs.pooled(board.rows) for board in boards]
    peaks = [
        method.peak(board.log, board.rows, board.pairs, each)
        for board, each in zip(boards, pooled, strict=True)
    ]
    first, *others = ways or (None,)
    sums: list[Floats] = []
    passes: list[tuple[int, list[Passed]]] = []
    if method.interval != "sandwich":
        start("resampling battles")
        sums, passed = _resampled(method, stream, boards, first)
        passes = [(1, passed)]
    if method.interval == "sandwich" or others:
        partitions = [(1, first), (1, others[0]), (-1, "both")] if others else [(1, first)]
        passes = []
        for sign, way in partitions:
            start(f"adding up battles by {_NAMED[way]}")
            passes.append((sign, _meats(stream, boards, [fit for fit, _ in peaks], way)))
    for i, board in enumerate(boards):
        (fit, priors), same = peaks[i], unanimous(board.rows, board.pairs, pooled[i])
        draws = np.empty((0, board.n))
        if sums:
            draws = method.resampled(fit, Votes(board.votes, sums[i]), priors)
        meat = [sign * m for sign, each in passes if (m := each[i].meat) is not None]
        spread = sandwiched(fit, meat, same) if meat else _covariance(draws, fit)
        if meat and len(draws):
            one_way = sandwiched(fit, meat[:1], same)
            draws = stretched(draws, fit.strength, one_way, spread)
        added = [each[i] for sign, each in passes if sign > 0]
        evidence = Evidence(
            rows=board.rows,
            clusters=None,
            counts=board.counts,
            seen=np.min([each.seen for each in added], axis=0),
            pieces=min(each.pieces for each in added),
        )
        dropped = board.dropped
        yield method.in_points(board.log, dropped, evidence, pooled[i], fit, spread, draws, same)


def _covariance(draws: Floats, fit: Fit) -> Floats:
    """The covariance of resampled strengths; that of other parameters is not known."""
    spread = np.full(fit.information.shape, np.nan)
    known = draws[~np.isnan(draws).any(axis=1)]
    spread[: fit.n_models, : fit.n_models] = np.cov(known, rowvar=False)
    return spread


def _resampled(
    method: BradleyTerry, stream: Stream, boards: Sequence[Board], way: Way | None
) -> tuple[list[Floats], list[Passed]]:
    """The battles of every resample, added up by cell of each board; and what was seen."""
    whole = PoissonWeights.of(method.seed, method.resamples)
    step = max(1, MOST_BYTES // (LANES * 8 * sum(len(board.counts) for board in boards)))
    parts: list[list[Floats]] = []
    sketches: list[Sketch] = []
    for first in range(0, len(whole.seeds), step):
        weights = PoissonWeights(whole.seeds[first : first + step])
        sums, sketches = _nothing(boards, weights)
        tasks = stream.shares()
        passed = fan_out(partial(_added, stream, boards, weights, way), tasks, by="here")
        for share, (share_sums, share_sketches) in zip(tasks, passed, strict=True):
            for i in range(len(boards)):
                sums[i] += share_sums[i]
                sketches[i].join(share_sketches[i])
            if cluster():
                stream.passed(share)
        parts.append(sums)
    counts = [sketch.counts() for sketch in sketches]
    seen = [Passed(each[:-1], float(each[-1]), None) for each in counts]
    return [np.concatenate(each, axis=1) for each in zip(*parts, strict=True)], seen


def _nothing(boards: Sequence[Board], weights: PoissonWeights) -> tuple[list[Floats], list[Sketch]]:
    """Sums and sketches to begin with: a sketch has an item for every model of its board, and one
    for the board itself.
    """
    sums = [np.zeros((len(board.counts), weights.lanes)) for board in boards]
    return sums, [Sketch(board.n + 1) for board in boards]


def _added(
    stream: Stream, boards: Sequence[Board], weights: PoissonWeights, way: Way | None, share: Share
) -> tuple[list[Floats], list[Sketch]]:
    """The battles of a part of the log, added up for every resample, and what was seen there."""
    sums, sketches = _nothing(boards, weights)
    for chunk in stream.rows(share, way):
        for board, total, sketch in zip(boards, sums, sketches, strict=True):
            cell, clusters, weight = board.own(chunk)
            order = base.together(cell)
            cell, clusters = cell[order], clusters[order]
            add_drawn(total, cell, clusters, weight[order], weights)
            votes, hashes = board.votes, mix(clusters)
            for items in (votes.a[cell], votes.b[cell], np.full(len(cell), board.n)):
                sketch.add(items, hashes)
    return sums, sketches


def add_drawn(
    sums: Floats, cell: Ints, clusters: Hashes, weight: Floats, weights: PoissonWeights
) -> None:
    """Add weighted rows, which stand by cell, to the sums of every resample (a column each)."""
    from scipy.sparse import csr_array

    for start in range(0, len(cell), _BLOCK):
        some = slice(start, start + _BLOCK)
        first, last = cell[some][0], cell[some][-1] + 1
        ends = np.searchsorted(cell[some], np.arange(first, last + 1))
        rows = csr_array((weight[some], np.arange(ends[-1]), ends))
        for lane in range(0, weights.lanes, 8 * LANES):
            resamples = slice(lane, min(lane + 8 * LANES, weights.lanes))
            sums[first:last, resamples] += rows @ weights.times(clusters[some], resamples)


def _meats(
    stream: Stream, boards: Sequence[Board], fits: Sequence[Fit], way: Way | None
) -> list[Passed]:
    """What a pass, the battles of a question together, says of every board."""
    scores = [scores_of(fit, board.votes) for fit, board in zip(fits, boards, strict=True)]
    meats = [np.zeros(fit.information.shape) for fit in fits]
    seen = [np.zeros(board.n) for board in boards]
    pieces = np.zeros(len(boards))
    chunks = stream.grouped(way)
    for chunk in chunks if way is None else whole_clusters(chunks):
        for i, board in enumerate(boards):
            cell, hashes, weight = board.own(chunk)
            if not len(cell):
                continue
            cells = board.votes.at(cell)
            clusters = np.unique(hashes, return_inverse=True)[1].astype(np.int32)
            meats[i] += meat_of_clusters(cells, scores[i][:, cell] * weight, clusters, board.n)
            seen[i] += base.questions_seen(cells.a, cells.b, clusters, board.n)
            pieces[i] += int(clusters.max()) + 1
    return [
        Passed(s, float(p), m * (p / max(1, p - 1)))
        for s, p, m in zip(seen, pieces, meats, strict=True)
    ]


class Sketch:
    """How many different hashes each of some items has, in bounded memory: of every item the
    smallest are kept (a bottom-k sketch: Bar-Yossef et al. 2002). Fewer than `KEPT` are counted one
    by one, and how small the last kept is tells how many more there are. What is kept depends
    neither on the order of what comes nor on who saw which part.
    """

    def __init__(self, n_items: int) -> None:
        self._items, self._hashes = np.empty(0, np.int64), np.empty(0, np.uint64)
        self._bar = np.full(n_items, _ALL)

    def join(self, other: Sketch) -> None:
        """What another sketch of these items saw."""
        self.add(other._items, other._hashes)

    def counts(self) -> Floats:
        """How many different hashes each item had."""
        kept = np.bincount(self._items, minlength=len(self._bar)).astype(float)
        share = (self._bar.astype(float) + 1) / 2.0**64
        return np.where(kept < KEPT, kept, np.round((KEPT - 1) / share))

    def add(self, items: NDArray[np.intp], hashes: Hashes) -> None:
        """A random hash each for some items."""
        low = hashes < self._bar[items]
        items = np.concatenate([self._items, items[low]])
        hashes = np.concatenate([self._hashes, hashes[low]])
        order = np.lexsort((hashes, items))
        items, hashes = items[order], hashes[order]
        new = np.append(True, (items[1:] != items[:-1]) | (hashes[1:] != hashes[:-1]))[: len(items)]
        items, hashes = items[new], hashes[new]
        rank = np.arange(len(items)) - np.searchsorted(items, items)
        last = rank == KEPT - 1
        self._bar[items[last]] = hashes[last]
        self._items, self._hashes = items[rank < KEPT], hashes[rank < KEPT]
