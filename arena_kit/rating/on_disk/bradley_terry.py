"""Bradley–Terry on battles that stay on disk: kinds of battle are held, rows pass by.

The fit needs no rows. The bootstrap is one pass, in which the battles of every resample are added
up by pair and outcome (`poisson_weights`). The sandwich needs the battles of a question together,
so its pass is sorted. Battles that name neither question nor voter need no pass at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

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
from arena_kit.rating.on_disk.poisson_weights import PoissonWeights
from arena_kit.rating.on_disk.sketch import Sketch
from arena_kit.rating.resampling import Redraw

#: Bytes for the sums of resamples; where they need more, there are several passes.
MOST_BYTES = 1_000_000_000
_KINDS = 3  # won, tied, lost
_NAMED: dict[Way | None, str] = {
    "question": "question", "voter": "voter", "both": "question and voter", None: "themselves"
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Board:
    """The battles of one dimension that count, by kind: `votes` has a row for every pair and
    outcome, `counts` their weight, `row_of` the row of each kind in the stream's table, from
    `first` on (-1: it does not count here).
    """

    log: BattleLog
    dropped: dict[str, int]
    votes: Cells
    counts: Floats
    row_of: Ints
    first: int

    @property
    def n(self) -> int:
        return len(self.log.models)

    @property
    def rows(self) -> Cells:
        """The votes with their counts."""
        return self.votes.with_weights(self.counts)

    @property
    def pairs(self) -> Pairs:
        return Pairs.of(self.votes, self.n)

    @property
    def pooled(self) -> Cells:
        """One cell per pair."""
        return self.pairs.pooled(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamedEvidence(Evidence):
    """Evidence whose pieces were counted as they passed."""

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
    `start` is told of every pass.
    """
    if method.covariates:
        raise RatingError("covariates are not streamed; rate fewer battles in memory")
    boards, unrated = _boards(method, stream.cells, only)
    ways = _ways(stream, method.cluster)
    weighted = bool(np.any(stream.cells.log.weights() != stream.cells.count))
    with one_thread():
        if not stream.ways or (not ways and not weighted):
            rated = {name: _by_counts(method, board) for name, board in boards.items()}
        else:
            rated = dict(_by_rows(method, stream, boards, ways, start))
    return rated, unrated


def _by_counts(method: BradleyTerry, board: Board) -> Ratings:
    """Battles that each stand for themselves: their counts say it all."""
    return replace(method(board.log), dropped=board.dropped)


def dimensions(cells: CellTable, only: str | None = None) -> Iterator[tuple[str, NDArray[np.intp]]]:
    """The dimensions of a stream (or one of them), and the places of their kinds of battle in its
    table; '' where battles name none.
    """
    if cells.log.dimension is None:
        yield "", np.arange(len(cells))
        return
    names, codes = [*cells.log.dimension.names, ""], cells.log.dimension.codes
    for code in np.unique(codes):
        if only is None or names[code] == only:
            yield str(names[code]), np.flatnonzero(codes == code)


class Keeps(Protocol):
    """A rating method, which says what battles count."""

    def kept(self, battles: BattleLog) -> tuple[BattleLog, dict[str, int]]: ...


def counted(
    method: Keeps, log: BattleLog, count: NDArray[np.int64]
) -> tuple[BattleLog, NDArray[np.intp], dict[str, int]]:
    """The kinds of battle that count, their rows, and how many battles of each kind do not."""
    number = np.arange(len(log))
    kept, _ = method.kept(replace(log, covariates={"number": number.astype(float)}))
    rows = np.asarray((kept.covariates or {})["number"], np.intp)
    left = np.ones(len(log), bool)
    left[rows] = False
    dropped = {kind: int(count[left & mask].sum()) for kind, mask in kinds(log).items()}
    kept = replace(kept, covariates=None, dimension=None)
    check_kept(log, kept, dropped)
    return kept, rows, dropped


def _boards(
    method: BradleyTerry, cells: CellTable, only: str | None
) -> tuple[dict[str, Board], dict[str, str]]:
    """A board for every dimension that can be rated, and why the others cannot."""
    boards: dict[str, Board] = {}
    unrated: dict[str, str] = {}
    first = 0
    for name, places in dimensions(cells, only):
        try:
            log, rows, dropped = counted(method, cells.log.select(places), cells.count[places])
        except RatingError as error:
            unrated[name] = str(error)
            continue
        votes, counts = Cells.counted(log)
        row_of = np.full(len(cells), -1, np.int32)
        row_of[places[rows]] = first + _rows_of(log, votes)
        boards[name] = Board(
            log=log, dropped=dropped, votes=votes, counts=counts, row_of=row_of, first=first
        )
        first += len(counts)
    return boards, unrated


def _rows_of(log: BattleLog, votes: Cells) -> NDArray[np.intp]:
    """The row of each kind of battle among single votes of each pair and outcome."""
    n, low, high = len(log.models), np.minimum(log.a, log.b), np.maximum(log.a, log.b)
    lost = np.where(log.a < log.b, log.outcome == B_WINS, log.outcome == A_WINS)
    kind = np.where(log.decisive(), np.where(lost, 2, 0), 1)
    mine = (low.astype(np.int64) * n + high) * _KINDS + kind
    theirs = (votes.a.astype(np.int64) * n + votes.b) * _KINDS + np.where(
        votes.won > 0, 0, np.where(votes.tied > 0, 1, 2)
    )
    order = np.argsort(theirs)
    return np.asarray(order[np.searchsorted(theirs[order], mine)])


def _ways(stream: Stream, cluster: Cluster) -> tuple[Way, ...]:
    """How battles hang together; as `evidence` has it."""
    asked: tuple[Way, ...] = ("question", "voter") if cluster == "both" else (cluster,)  # type: ignore[assignment]
    ways = [way for way in asked if way in stream.ways]
    if cluster == "both" and "voter" in ways and stream.voters(MIN_QUESTIONS) < MIN_QUESTIONS:
        ways.remove("voter")
    return tuple(ways)


@dataclass(frozen=True, slots=True)
class Passed:
    """What a pass said of one board: on how many questions each model was seen, how many there
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
    peaks = [method.peak(each.log, each.rows, each.pairs, each.pooled) for each in every]
    sums: Floats | None = None
    passes: list[tuple[int, list[Passed]]] = []
    if method.interval != "sandwich":
        start("resampling battles")
        sums, passed = _resampled(method, stream, every, ways[0] if ways else None)
        passes = [(1, passed)]
    if method.interval == "sandwich" or len(ways) > 1:
        passes = []
        for sign, way in _partitions(ways):
            start(f"adding up battles by {_NAMED[way]}")
            passes.append((sign, _meats(stream, every, [fit for fit, _ in peaks], way)))
    for i, (name, board) in enumerate(boards.items()):
        passed_here = [(sign, each[i]) for sign, each in passes]
        own = None if sums is None else sums[board.first : board.first + len(board.counts)]
        yield name, _told(method, board, *peaks[i], passed_here, own)


def _partitions(ways: tuple[Way, ...]) -> list[tuple[int, Way | None]]:
    """The ways to cut the battles, as `Evidence.partitions` has them."""
    if len(ways) > 1:
        return [(1, ways[0]), (1, ways[1]), (-1, "both")]
    return [(1, ways[0] if ways else None)]


def _told(
    method: BradleyTerry,
    board: Board,
    fit: Fit,
    priors: Priors,
    passes: Sequence[tuple[int, Passed]],
    sums: Floats | None,
) -> Ratings:
    """The ratings of one board from what the passes said of it."""
    added = [each for sign, each in passes if sign > 0]
    evidence = StreamedEvidence(
        rows=board.rows,
        clusters=None,
        counts=board.counts,
        seen=np.min([each.seen for each in added], axis=0),
        n_pieces=min(each.pieces for each in added),
    )
    pooled, n = board.pooled, board.n
    same = unanimous(board.rows, board.pairs, pooled)
    draws = np.empty((0, n))
    if sums is not None:
        draws = method.resampled(fit, Votes(board.votes, SummedRedraw(sums)), priors)
    meat = [sign * each.meat for sign, each in passes if each.meat is not None]
    spread = sandwiched(fit, meat, same) if meat else _covariance(draws, fit)
    if meat and len(draws):
        one_way = sandwiched(fit, meat[:1], same)
        draws = stretched(draws, fit.strength, one_way[:n, :n], spread[:n, :n])
    return method.told(board.log, board.dropped, evidence, pooled, fit, spread, draws, same)


def _covariance(draws: Floats, fit: Fit) -> Floats:
    """The covariance of resampled strengths; that of other parameters is not known."""
    spread = np.full(fit.information.shape, np.nan)
    known = draws[~np.isnan(draws).any(axis=1)]
    spread[: fit.n_models, : fit.n_models] = np.cov(known, rowvar=False)
    return spread


@dataclass(frozen=True, slots=True)
class SummedRedraw(Redraw):
    """Resamples that were added up as the rows passed."""

    sums: Floats

    def __call__(self, number: int, *, compiled: bool = False) -> Floats:  # noqa: ARG002
        """The weight of each row."""
        return np.ascontiguousarray(self.sums[:, number])


def _resampled(
    method: BradleyTerry, stream: Stream, boards: Sequence[Board], way: Way | None
) -> tuple[Floats, list[Passed]]:
    """The battles of every resample, added up by row of the boards' votes; and what was seen."""
    whole = PoissonWeights.of(method.seed, method.resamples)
    size = sum(len(board.counts) for board in boards)
    step = max(1, MOST_BYTES // (4 * 8 * size))
    parts = []
    for first in range(0, len(whole.seeds), step):
        weights = replace(whole, seeds=whole.seeds[first : first + step])
        sums = np.zeros((size, weights.lanes))
        sketch = Sketch(sum(board.n + 1 for board in boards))
        add = partial(_added, stream, boards, weights, way)
        cut = stream.shares()
        for share, (share_sums, share_sketch) in zip(
            cut, fan_out(add, cut, by="here"), strict=True
        ):
            sums += share_sums
            sketch.join(share_sketch)
            if cluster():
                stream.passed(share)
        parts.append(sums)
    counts, passed, first = sketch.counts(), [], 0
    for board in boards:
        seen = counts[first : first + board.n]
        passed.append(Passed(seen, float(counts[first + board.n]), None))
        first += board.n + 1
    return np.concatenate(parts, axis=1), passed


def _added(
    stream: Stream,
    boards: Sequence[Board],
    weights: PoissonWeights,
    way: Way | None,
    share: Share,
) -> tuple[Floats, Sketch]:
    """The battles of a part of the log, added up for every resample, and what was seen there."""
    row_of = np.max([board.row_of for board in boards], axis=0)
    sums = np.zeros((sum(len(board.counts) for board in boards), weights.lanes))
    items = [
        (board.votes.a, board.votes.b, np.full(len(board.counts), board.n)) for board in boards
    ]
    starts = np.cumsum([0] + [board.n + 1 for board in boards])
    a, b, board_item = (
        np.concatenate([each[side] + start for each, start in zip(items, starts, strict=False)])
        for side in range(3)
    )
    sketch = Sketch(int(starts[-1]))
    for chunk in stream.rows(share, way):
        row = row_of[chunk.cell]
        counted = row >= 0
        row, clusters = row[counted], chunk.cluster[counted]
        weight = np.ones(len(row)) if chunk.weight is None else chunk.weight[counted]
        weights.add(sums, row, clusters, weight)
        for item in (a, b, board_item):
            sketch.add(item[row], clusters)
    return sums, sketch


def _meats(
    stream: Stream, boards: Sequence[Board], fits: Sequence[Fit], way: Way | None
) -> list[Passed]:
    """What a pass, the battles of a question together, says of every board."""
    scores = [scores_of(fit, board.votes) for fit, board in zip(fits, boards, strict=True)]
    meats = [np.zeros(fit.information.shape) for fit in fits]
    seen = [np.zeros(board.n) for board in boards]
    pieces = [0] * len(boards)
    row_of = np.max([board.row_of for board in boards], axis=0)
    chunks = stream.grouped(way)
    for chunk in chunks if way is None else whole_clusters(chunks):
        row = row_of[chunk.cell]
        for i, board in enumerate(boards):
            own = (row >= board.first) & (row < board.first + len(board.counts))
            if not own.any():
                continue
            votes = row[own] - board.first
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
