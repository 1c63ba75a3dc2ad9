"""Bradley–Terry on battles that stay on disk: counts of cells are held, rows pass by.

The fit needs no rows. The cluster jackknife needs the battles of a question together, so its pass
is sorted; the first such pass also adds up the battles of every resample by pair and outcome.
Battles that name neither question nor voter need no pass at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import A_WINS, B_WINS
from arena_kit.battles.log import BattleLog, CellTable, Hashes, Ints, Rows, Stream, Way
from arena_kit.rating import base
from arena_kit.rating.bradley_terry import clusters as clustered
from arena_kit.rating.bradley_terry.likelihood import Cells, Fit, Floats, Pairs
from arena_kit.rating.bradley_terry.method import BradleyTerry, one_thread
from arena_kit.rating.resampling import LANES, PoissonWeights

_OUTCOMES = 3  # won, tied, lost
_BLOCK = 4096  # rows that are drawn at once
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
    if method.covariates or method.judges == "like_these":
        what = "covariates are" if method.covariates else "judges='like_these' is"
        raise base.RatingError(f"{what} not streamed; rate fewer battles in memory")
    rows = stream.cells.log.dimension_rows()
    rows = {name: rows[name] for name in rows if only in (None, name)}
    boards, unrated = base.each_rated(
        rows, lambda name: _board(method, stream.cells, rows[name]), none_allowed=True
    )
    asked = ("question", "voter") if method.cluster == "both" else (method.cluster,)
    ways = tuple(way for way in stream.ways if way in asked)
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


class Passed(NamedTuple):
    """What a pass by one way to cut the battles says of one board: on how many clusters each model
    was seen, how many there are, their sizes' effective number, the inverse effective number of
    every two models, the spread of the likelihood's slope between them, and of each cell the sum of
    squared weights and the battles in every resample.
    """

    way: Way | None
    seen: Floats
    pieces: float
    effective: float
    shares: Floats
    meat: Floats
    squares: Floats
    drawn: Floats


def _by_rows(
    method: BradleyTerry,
    stream: Stream,
    boards: Sequence[Board],
    ways: tuple[Way, ...],
    start: Callable[[str], None],
) -> Iterator[base.Ratings]:
    """Ratings whose certainty comes from the rows: from a sandwich, and from resamples."""
    pooled = [board.pairs.pooled(board.rows) for board in boards]
    peaks = [
        method.peak(board.log, board.rows, board.pairs, each)
        for board, each in zip(boards, pooled, strict=True)
    ]
    resamples = 0 if method.interval == "sandwich" else method.resamples
    passes: list[list[Passed]] = []
    for way in (*ways, "both") if len(ways) > 1 else ways or (None,):
        start(f"adding up battles by {_NAMED[way]}")
        weights = PoissonWeights.of(method.seed, 0 if passes else resamples)
        passes.append(_meats(stream, boards, [fit for fit, _ in peaks], way, weights))
    for i, board in enumerate(boards):
        fit, priors = peaks[i]
        cuts, these = [each[i] for each in passes], 0.0
        if method.cluster == "both" and (voters := [c for c in cuts if c.way == "voter"]):
            these = voters[0].effective if voters[0].effective < clustered.MIN_VOTERS else 0.0
        cuts = [cut for cut in cuts if not these or cut.way == "question"]
        if not cuts:  # of votes by few voters without questions each stands for itself
            rated = method(board.log)
            yield replace(rated, dropped=board.dropped, notes=clustered.few_voters(these))
            continue
        meat, draws = [cut.meat for cut in cuts], np.empty((0, board.n))
        spread = clustered.sandwiched(fit, meat)
        if cuts[0].drawn.size:
            draws = method.resampled(fit, clustered.Votes(board.votes, cuts[0].drawn), priors)
        if len(draws) and len(meat) > 1:
            draws = clustered.stretched(
                draws, fit.strength, clustered.sandwiched(fit, meat[:1]), spread
            )
        added = [cut for cut in cuts if cut.way != "both"]
        evidence = clustered.Evidence(
            rows=board.rows,
            clusters=None,
            counts=board.counts**2 / cuts[0].squares,
            freedom=clustered.freedom([cut.shares for cut in added]),
            scarce=np.any([clustered.too_few(str(c.way), c.seen, c.shares) for c in added], axis=0),
            pieces=min(cut.pieces for cut in added),
            notes=clustered.few_voters(these),
            questions=next((round(c.pieces) for c in added if c.way == "question"), 0),
        )
        dropped = board.dropped
        yield method.in_points(board.log, dropped, evidence, pooled[i], fit, priors, spread, draws)


def _meats(
    stream: Stream,
    boards: Sequence[Board],
    fits: Sequence[Fit],
    way: Way | None,
    weights: PoissonWeights,
) -> list[Passed]:
    """What a pass, the battles of a question together, says of every board."""
    tables = [
        (
            np.zeros(fit.information.shape),
            np.zeros((board.n, board.n)),
            np.zeros(board.n),
            np.zeros(len(board.counts)),
            np.zeros((len(board.counts), weights.lanes)),
        )
        for fit, board in zip(fits, boards, strict=True)
    ]
    inverses = [None if way == "both" else fit.inverse() for fit in fits]
    pieces, squares, total = np.zeros((3, len(boards)))
    chunks = stream.grouped(way)
    for chunk in chunks if way is None else _whole_clusters(chunks):
        for i, board in enumerate(boards):
            cell, hashes, weight = board.own(chunk)
            if not len(cell):
                continue
            cells, ones = board.votes.at(cell).with_weights(weight), np.ones(len(cell))
            clusters = np.unique(hashes, return_inverse=True)[1].astype(np.int32)
            tables[i][0][:] += clustered.meat_of(fits[i], cells, ones, clusters, inverses[i])
            tables[i][1][:] += clustered.of_clusters(
                cells.a, cells.b, weight, clusters, board.n, sign=1
            )
            tables[i][3][:] += np.bincount(cell, weight**2, len(board.counts))
            tables[i][2][:] += base.questions_seen(cells.a, cells.b, clusters, board.n)
            add_drawn(tables[i][4], cell, hashes, weight, weights)
            cast = np.bincount(clusters, weight)
            pieces[i] += len(cast)
            squares[i], total[i] = squares[i] + (cast**2).sum(), total[i] + cast.sum()
    sign = -1 if way == "both" else 1
    return [
        Passed(
            way,
            seen,
            float(pieces[i]),
            float(total[i] ** 2 / squares[i]),
            clustered.inverse_effective(products, boards[i].log.per_model()),
            sign * clustered.small_sample(float(pieces[i]), jackknife=sign > 0) * meat,
            by_cell,
            drawn,
        )
        for i, (meat, products, seen, by_cell, drawn) in enumerate(tables)
    ]


def add_drawn(
    sums: Floats, cell: Ints, clusters: Hashes, weight: Floats, weights: PoissonWeights
) -> None:
    """Add weighted rows to the sums of every resample (a column each)."""
    from scipy.sparse import csr_array

    order = base.together(cell)
    for start in range(0, len(cell), _BLOCK):
        some = order[start : start + _BLOCK]
        first, last = cell[some][0], cell[some][-1] + 1
        ends = np.searchsorted(cell[some], np.arange(first, last + 1))
        rows = csr_array((weight[some], np.arange(ends[-1]), ends))
        for lane in range(0, weights.lanes, 8 * LANES):
            resamples = slice(lane, min(lane + 8 * LANES, weights.lanes))
            sums[first:last, resamples] += rows @ weights.times(clusters[some], resamples)


def _whole_clusters(chunks: Iterator[Rows]) -> Iterator[Rows]:
    """Chunks of sorted rows, cut between clusters."""
    left: list[Any] = []
    for chunk in chunks:
        parts: Any = zip(left, chunk, strict=True) if left else zip(chunk, strict=True)
        rows: list[Any] = [np.concatenate(each) for each in parts]
        cut = int(np.searchsorted(rows[1], rows[1][-1]))
        if cut:
            yield Rows(*(each[:cut] for each in rows))
        left = [each[cut:] for each in rows]
    if left:
        yield Rows(*left)
