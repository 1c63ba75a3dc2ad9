"""Bradley–Terry on battles that stay on disk: counts of cells are held, rows pass by.

The fit needs no rows. The bootstrap is one pass, in which the battles of every resample are added
up by pair and outcome. The sandwich needs the battles of a question together, so its pass is
sorted. Battles that name neither question nor voter need no pass at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import A_WINS, B_WINS
from arena_kit.battles.cells import CellTable, Share, Stream, Way, whole_clusters
from arena_kit.battles.log import BattleLog, Ints
from arena_kit.fanout import cluster, fan_out
from arena_kit.rating.base import (
    MIN_QUESTIONS,
    RatingError,
    Ratings,
    check_kept,
    kinds,
    questions_seen,
    together,
)
from arena_kit.rating.bradley_terry.bootstrap import Priors
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
    `counts` their weight, `cell_of` the cell of each row in the stream's table, those of all boards
    numbered on from `first` (-1: it does not count here).
    """

    log: BattleLog
    dropped: dict[str, int]
    votes: Cells
    counts: Floats
    cell_of: Ints
    first: int

    @property
    def n(self) -> int:
        return len(self.log.models)

    @property
    def cells(self) -> slice:
        """Its cells among those of all boards."""
        return slice(self.first, self.first + len(self.counts))

    @property
    def rows(self) -> Cells:
        """The votes with their counts."""
        return self.votes.with_weights(self.counts)

    @property
    def pairs(self) -> Pairs:
        return Pairs.of(self.votes, self.n)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamedEvidence(Evidence):
    """Evidence whose clusters were counted as they passed."""

    n_pieces: float

    @property
    def pieces(self) -> float:
        return self.n_pieces


def rate_boards(
    method: BradleyTerry,
    stream: Stream,
    *,
    only: str | None = None,
    start: Callable[[str], None] = lambda _: None,
) -> tuple[dict[str, Ratings], dict[str, str]]:
    """Ratings of every dimension (or of one `only`) that has one, and why the others have none;
    `start` hears of every pass.
    """
    if method.covariates:
        raise RatingError("covariates are not streamed; rate fewer battles in memory")
    boards, unrated = _boards(method, stream.cells, only)
    ways = _ways(stream, method.cluster)
    weighted = bool(np.any(stream.cells.log.weights() != stream.cells.count))
    with one_thread():
        if not stream.ways or (not ways and not weighted):  # their counts say it all
            rated = {
                name: replace(method(board.log), dropped=board.dropped)
                for name, board in boards.items()
            }
        else:
            rated = dict(_by_rows(method, stream, boards, ways, start))
    return rated, unrated


def dimensions(cells: CellTable, only: str | None = None) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """The dimensions of a stream (or one of them), and their rows in its table; '' where battles
    name none.
    """
    if cells.log.dimension is None:
        yield "", np.arange(len(cells))
        return
    names, codes = [*cells.log.dimension.names, ""], cells.log.dimension.codes
    for code in np.unique(codes):
        if only is None or names[code] == only:
            yield str(names[code]), np.flatnonzero(codes == code)


def _boards(
    method: BradleyTerry, cells: CellTable, only: str | None
) -> tuple[dict[str, Board], dict[str, str]]:
    """A board for every dimension that can be rated, and why the others cannot."""
    boards: dict[str, Board] = {}
    unrated: dict[str, str] = {}
    for name, rows in dimensions(cells, only):
        first = sum(len(board.counts) for board in boards.values())
        try:
            boards[name] = _board(method, cells, rows, first)
        except RatingError as error:
            unrated[name] = str(error)
    return boards, unrated


def _board(method: BradleyTerry, cells: CellTable, rows: NDArray[np.intp], first: int) -> Board:
    log, count = cells.log.select(rows), cells.count[rows]
    number = np.arange(len(log))
    kept, _ = method.kept(replace(log, covariates={"number": number.astype(float)}))
    own = np.asarray((kept.covariates or {})["number"], np.intp)
    out = np.isin(number, own, invert=True)
    dropped = {kind: int(count[out & mask].sum()) for kind, mask in kinds(log).items()}
    kept = replace(kept, covariates=None, dimension=None)
    check_kept(log, kept, dropped)
    votes, counts = Cells.summed(kept).single_votes()
    cell_of = np.full(len(cells), -1, np.int32)
    cell_of[rows[own]] = first + _cells_of(kept, votes)
    return Board(
        log=kept, dropped=dropped, votes=votes, counts=counts, cell_of=cell_of, first=first
    )


def _cells_of(log: BattleLog, votes: Cells) -> NDArray[np.intp]:
    """The cell of each battle among single votes of each pair and outcome."""
    n, low, high = len(log.models), np.minimum(log.a, log.b), np.maximum(log.a, log.b)
    lost = np.where(log.a < log.b, log.outcome == B_WINS, log.outcome == A_WINS)
    ended = np.where(log.decisive(), np.where(lost, 2, 0), 1)
    mine = (low.astype(np.int64) * n + high) * _OUTCOMES + ended
    theirs = (votes.a.astype(np.int64) * n + votes.b) * _OUTCOMES + np.where(
        votes.won > 0, 0, np.where(votes.tied > 0, 1, 2)
    )
    order = np.argsort(theirs)
    return np.asarray(order[np.searchsorted(theirs[order], mine)])


def _ways(stream: Stream, cluster: Cluster) -> tuple[Way, ...]:
    """By what battles are clustered, as `Evidence` has it."""
    asked: tuple[Way, ...] = ("question", "voter") if cluster == "both" else (cluster,)  # type: ignore[assignment]
    ways = [way for way in asked if way in stream.ways]
    if cluster == "both" and "voter" in ways and stream.voters(MIN_QUESTIONS) < MIN_QUESTIONS:
        ways.remove("voter")
    return tuple(ways)


@dataclass(frozen=True, slots=True)
class Passed:
    """What a pass says of one board: on how many questions each model was seen, how many there
    are, and the spread of the likelihood's slope between them (None after a resampling).
    """

    seen: Floats
    pieces: float
    meat: Floats | None


def _by_rows(
    method: BradleyTerry,
    stream: Stream,
    boards: Mapping[str, Board],
    ways: tuple[Way, ...],
    start: Callable[[str], None],
) -> Iterator[tuple[str, Ratings]]:
    """Ratings whose certainty comes from the rows: from resamples, from a sandwich, or both."""
    every = list(boards.values())
    peaks = [
        method.peak(each.log, each.rows, each.pairs, each.pairs.pooled(each.rows)) for each in every
    ]
    first, *others = ways or (None,)
    sums: Floats | None = None
    passes: list[tuple[int, list[Passed]]] = []
    if method.interval != "sandwich":
        start("resampling battles")
        sums, passed = _resampled(method, stream, every, first)
        passes = [(1, passed)]
    if method.interval == "sandwich" or others:
        partitions = [(1, first), (1, others[0]), (-1, "both")] if others else [(1, first)]
        passes = []
        for sign, way in partitions:
            start(f"adding up battles by {_NAMED[way]}")
            passes.append((sign, _meats(stream, every, [fit for fit, _ in peaks], way)))
    for i, (name, board) in enumerate(boards.items()):
        here = [(sign, each[i]) for sign, each in passes]
        own = None if sums is None else sums[board.cells]
        yield name, _rated(method, board, *peaks[i], here, own)


def _rated(
    method: BradleyTerry,
    board: Board,
    fit: Fit,
    priors: Priors,
    passes: Sequence[tuple[int, Passed]],
    sums: Floats | None,
) -> Ratings:
    """The ratings of one board from what the passes say of it."""
    added = [each for sign, each in passes if sign > 0]
    evidence = StreamedEvidence(
        rows=board.rows,
        clusters=None,
        counts=board.counts,
        seen=np.min([each.seen for each in added], axis=0),
        n_pieces=min(each.pieces for each in added),
    )
    pooled, n, draws = board.pairs.pooled(board.rows), board.n, np.empty((0, board.n))
    same = unanimous(board.rows, board.pairs, pooled)
    if sums is not None:
        draws = method.resampled(fit, Votes(board.votes, sums), priors)
    meat = [sign * each.meat for sign, each in passes if each.meat is not None]
    spread = sandwiched(fit, meat, same) if meat else _covariance(draws, fit)
    if meat and len(draws):
        one_way = sandwiched(fit, meat[:1], same)
        draws = stretched(draws, fit.strength, one_way[:n, :n], spread[:n, :n])
    return method.in_points(board.log, board.dropped, evidence, pooled, fit, spread, draws, same)


def _covariance(draws: Floats, fit: Fit) -> Floats:
    """The covariance of resampled strengths; that of other parameters is not known."""
    spread = np.full(fit.information.shape, np.nan)
    known = draws[~np.isnan(draws).any(axis=1)]
    spread[: fit.n_models, : fit.n_models] = np.cov(known, rowvar=False)
    return spread


def _resampled(
    method: BradleyTerry, stream: Stream, boards: Sequence[Board], way: Way | None
) -> tuple[Floats, list[Passed]]:
    """The battles of every resample, added up by cell of the boards; and what was seen."""
    whole = PoissonWeights.of(method.seed, method.resamples)
    size = sum(len(board.counts) for board in boards)
    step = max(1, MOST_BYTES // (LANES * 8 * size))
    parts = []
    for first in range(0, len(whole.seeds), step):
        weights = PoissonWeights(whole.seeds[first : first + step])
        sums = np.zeros((size, weights.lanes))
        sketch = Sketch(sum(board.n + 1 for board in boards))
        tasks = stream.shares()
        passed = fan_out(partial(_added, stream, boards, weights, way), tasks, by="here")
        for share, (share_sums, share_sketch) in zip(tasks, passed, strict=True):
            sums += share_sums
            sketch.join(share_sketch)
            if cluster():
                stream.passed(share)
        parts.append(sums)
    ends = np.cumsum([board.n + 1 for board in boards])[:-1]
    counts = [Passed(each[:-1], float(each[-1]), None) for each in np.split(sketch.counts(), ends)]
    return np.concatenate(parts, axis=1), counts


def _added(
    stream: Stream, boards: Sequence[Board], weights: PoissonWeights, way: Way | None, share: Share
) -> tuple[Floats, Sketch]:
    """The battles of a part of the log, added up for every resample, and what was seen there: a
    sketch has an item for every model of each board, and one for the board itself.
    """
    cell_of = np.max([board.cell_of for board in boards], axis=0)
    sums = np.zeros((sum(len(board.counts) for board in boards), weights.lanes))
    starts = np.cumsum([0] + [board.n + 1 for board in boards])
    items = [
        start + np.stack([board.votes.a, board.votes.b, np.full(len(board.counts), board.n)])
        for board, start in zip(boards, starts, strict=False)
    ]
    sketch, item = Sketch(int(starts[-1])), np.concatenate(items, axis=1)
    for chunk in stream.rows(share, way):
        cell = cell_of[chunk.cell]
        counted = np.flatnonzero(cell >= 0)
        counted = counted[together(cell[counted])]
        cell, clusters = cell[counted], chunk.cluster[counted]
        weight = np.ones(len(cell)) if chunk.weight is None else chunk.weight[counted]
        add_drawn(sums, cell, clusters, weight, weights)
        for each in item:
            sketch.add(each[cell], clusters)
    return sums, sketch


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
    pieces = [0] * len(boards)
    cell_of = np.max([board.cell_of for board in boards], axis=0)
    chunks = stream.grouped(way)
    for chunk in chunks if way is None else whole_clusters(chunks):
        cell = cell_of[chunk.cell]
        for i, board in enumerate(boards):
            own = (cell >= board.cells.start) & (cell < board.cells.stop)
            if not own.any():
                continue
            votes = cell[own] - board.first
            clusters = np.unique(chunk.cluster[own], return_inverse=True)[1].astype(np.int32)
            weight = 1.0 if chunk.weight is None else chunk.weight[own]
            cells = board.votes.at(votes)
            meats[i] += meat_of_clusters(cells, scores[i][:, votes] * weight, clusters, board.n)
            seen[i] += questions_seen(cells.a, cells.b, clusters, board.n)
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
        self._items = np.empty(0, np.int64)
        self._hashes = np.empty(0, np.uint64)
        self._bar = np.full(n_items, _ALL)

    def add(self, items: NDArray[np.intp], hashes: Hashes) -> None:
        """A hash each for some items."""
        self._keep(items.astype(np.int64), mix(hashes))

    def join(self, other: Sketch) -> None:
        """What another sketch of these items saw."""
        self._keep(other._items, other._hashes)

    def counts(self) -> Floats:
        """How many different hashes each item had."""
        kept = np.bincount(self._items, minlength=len(self._bar)).astype(float)
        share = (self._bar.astype(float) + 1) / 2.0**64
        return np.where(kept < KEPT, kept, np.round((KEPT - 1) / share))

    def _keep(self, items: NDArray[np.int64], hashes: Hashes) -> None:
        low = hashes < self._bar[items]
        items = np.concatenate([self._items, items[low]])
        hashes = np.concatenate([self._hashes, hashes[low]])
        order = np.lexsort((hashes, items))
        items, hashes = items[order], hashes[order]
        new = np.ones(len(items), bool)
        new[1:] = (items[1:] != items[:-1]) | (hashes[1:] != hashes[:-1])
        items, hashes = items[new], hashes[new]
        starts = np.searchsorted(items, np.arange(len(self._bar)))
        rank = np.arange(len(items)) - starts[items]
        last = rank == KEPT - 1
        self._bar[items[last]] = hashes[last]
        self._items, self._hashes = items[rank < KEPT], hashes[rank < KEPT]
