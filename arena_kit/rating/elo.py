"""Elo averaged over many shuffled orders, with an interval that the evidence supports.

Two engines replay the battles in all orders at once. NumPy moves all replays forward in lockstep
and needs no compiler; above `COMPILED_FROM` updates a Numba kernel takes over where Numba is
installed (design/engines.md). Both draw the same orders from the same counters, so a result does
not depend on the number of threads, and on the engine only by rounding (1e-9): a result names its
own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from math import exp, factorial, inf, isfinite
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.fanout import fan_out, shares
from arena_kit.rating import base, resampling
from arena_kit.rating.bradley_terry.clusters import Evidence, stretched
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.claims import claims
from arena_kit.rating.claims.power import true_variance
from arena_kit.rating.compiled import Kernel, numba_pays
from arena_kit.rating.critical_values import normal_cdf, widening
from arena_kit.rating.resampling import GAMMA, Games, mix, random_bits

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Treatment = Literal["drop", "half"]

#: A million orders know the mean to a thousandth of one order's spread; more only take memory.
MAX_PERMS = 1_000_000
MAX_EVIDENCE_REPLAYS = 10_000_000
#: Below so much expected coverage of nominal 95 % a board is told; one model alone only if it is
#: hopeless, since a single expectation is uncertain itself. docs/intervals.md has the measurement.
_MIN_COVERAGE, _MIN_COVERAGE_OF_ONE = 0.93, 0.5
#: Elo points that stand for one of Bradley–Terry, from which a replay counts as arrived.
_CONVERGED = 0.97
#: Elo updates from which compiled code pays for its start (below it NumPy is quicker).
COMPILED_FROM = 10_000_000

_BLOCK = 4_000_000  # games laid out at once
_LANES = 4  # replays side by side: while one waits for a division, the others compute
_S32 = np.uint64(32)
_SMALL = 0.25  # steps up to this size take the series of exp to its 11th power, exact there
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11 = (1 / factorial(n) for n in range(2, 12))


@dataclass(frozen=True, slots=True, kw_only=True)
class PermutationElo:
    """Mean Elo rating over `n_perms` shuffled orders of the battles.

    Elo depends on the order in which battles are replayed; averaging over orders removes
    that. What remains of it is `sem`, the Monte-Carlo error of the average: it says how
    well the average is known, not how well the models are. How sure one can be of a
    rating is the evidence interval (`ci_low`, `ci_high`): whole questions are drawn again
    and rated anew. A model that lost, or won, every battle has none, as does
    one seen on few questions: `no_interval` says why. Where K is too small for so few battles,
    ratings are drawn towards the start and intervals do not hold the truth: `notes` says so.

    Parameters
    ----------
    k, initial, scale
        The Elo step, the starting rating, and the rating gap at which the odds are 10:1.
    n_perms, seed
        How many orders are averaged, and the seed they and the resamples are drawn from.
    shuffle
        False replays the battles once, in the order given (`n_perms` must be 1).
    ties, both_bad, inconsistent
        What a tie, a both-bad vote and an inconsistent judgment are: `drop` leaves them
        out, `half` scores them half a win for each side.
    evidence_replicates, evidence_orders
        Resamples behind the evidence interval (0 computes none), and orders averaged in
        each. What the shuffle adds to the spread of resamples is taken out again, as far
        as so many resamples can tell it from the evidence.
    """

    k: float = 16.0
    initial: float = 1400.0
    scale: float = 400.0
    n_perms: int = 500
    seed: int = 0
    shuffle: bool = True
    ties: Treatment = "drop"
    both_bad: Treatment = "drop"
    inconsistent: Treatment = "drop"
    evidence_replicates: int = 500
    evidence_orders: int = 10

    def __post_init__(self) -> None:
        replicates = self.evidence_replicates
        base.check_settings(
            self,
            ("k", 0 < self.k < inf, "a number above 0"),
            ("initial", isfinite(self.initial), "a finite number"),
            ("scale", 0 < self.scale < inf, "above 0"),
            ("n_perms", 1 <= self.n_perms <= MAX_PERMS, f"1 to {MAX_PERMS:,}"),
            ("seed", self.seed >= 0, "0 or more"),
            ("n_perms", self.shuffle or self.n_perms == 1, "1 without shuffling"),
            ("evidence_replicates", replicates == 0 or replicates >= 20, "0, or 20 or more"),
            ("evidence_orders", self.evidence_orders >= 1, "1 or more"),
            ("evidence_orders", replicates * self.evidence_orders <= MAX_EVIDENCE_REPLAYS,
             f"at most {MAX_EVIDENCE_REPLAYS:,} / evidence_replicates"),
        )  # fmt: skip

    def __call__(self, battles: base.Battles) -> base.Ratings:
        """Rate a log or a frame; raises `RatingError` where no rating exists."""
        return k_sweep(self, base.as_log(battles), [self.k])[self.k]

    def kept(self, battles: BattleLog) -> tuple[BattleLog, dict[str, int]]:
        """The battles that count under these settings, and how many of each kind do not."""
        keep, dropped = base.counted(
            battles, tie=self.ties, both_bad=self.both_bad, inconsistent=self.inconsistent
        )
        return battles.select(keep), dropped


def k_sweep(
    method: PermutationElo, battles: BattleLog, ks: Iterable[float]
) -> dict[float, base.Ratings]:
    """The same rating for several K; every K sees the same orders and resamples."""
    methods = [replace(method, k=float(k)) for k in ks]
    log, dropped = method.kept(battles)
    base.check_kept(battles, log, dropped)
    base.check_unweighted(log, "permutation-elo")
    games = Games.of(log)
    n, orders = method.evidence_replicates, method.evidence_orders
    work = len(log) * (method.n_perms + n * orders)
    compiled = method.shuffle and numba_pays(work, COMPILED_FROM)
    if method.shuffle:
        seeds = resampling.split_seed(method.seed, method.n_perms, resampling.ORDERS)
        traces = replay_orders(games, methods, seeds, compiled=compiled)
    else:
        every = np.arange(len(log), dtype=np.int32)[:, None]
        traces = _play(games, methods, every, np.array([len(log)], np.int32))
    resampled_orders = resampling.split_seed(method.seed, n * orders, resampling.RESAMPLED_ORDERS)

    def means(sets: Ints, sizes: Ints, first: int) -> Floats:
        seeds = resampled_orders[first * orders : (first + len(sets)) * orders]
        each = replay_orders(games, methods, seeds, sets=sets, sizes=sizes, compiled=compiled)
        shape = (len(methods), len(sets), orders, games.n_models)
        return np.asarray(each.reshape(shape).mean(axis=2))

    draws = resampling.replicates(
        games, log.clusters(), n, means, seed=method.seed, kinds=len(methods)
    )
    order_variance = traces.var(axis=1, ddof=1) if traces.shape[1] > 1 else 0.0 * traces[:, 0]
    draws = resampling.denoised(draws, order_variance / orders)
    if log.voter is not None and draws.shape[1]:
        draws = _two_way(log, draws, traces.mean(axis=1))
    reasons = base.why_no_interval(log, games.score) if n else [""] * len(log.models)
    rated = {
        each.k: base.Ratings(
            method="permutation-elo",
            settings=asdict(each),
            ratings=_ranked(log, traces[i], draws[i], reasons),
            n_battles=len(log),
            dropped=dropped,
            models=log.models,
            engine="numba" if compiled else "numpy",
            traces=traces[i],
            replicates=draws[i],
        )
        for i, each in enumerate(methods)
    }
    if not n:
        return rated
    same = BradleyTerry(scale=method.scale, center=method.initial, inconsistent="tie")(log)
    notes = {k: caution(ratings, same) for k, ratings in rated.items()}
    return {k: replace(each, notes=(notes[k],) if notes[k] else ()) for k, each in rated.items()}


def _two_way(log: BattleLog, replicates: Floats, mean: Floats) -> Floats:
    """Replicates of resampled questions, drawn apart by what voters add to the covariance of
    Bradley–Terry ratings.
    """
    by_question, by_both = (BradleyTerry(cluster=way)(log) for way in ("question", "both"))
    narrow, wide = by_question.covariance, by_both.covariance
    if narrow is None or wide is None or not np.isfinite(narrow).all():
        return replicates
    several = zip(replicates, mean, strict=True)
    return np.stack([stretched(draws, centre, narrow, wide) for draws, centre in several])


def _ranked(
    log: BattleLog, traces: Floats, replicates: Floats, reasons: list[str]
) -> tuple[base.Rating, ...]:
    mean = traces.mean(axis=0)
    sem = traces.std(axis=0, ddof=1) / np.sqrt(len(traces)) if len(traces) > 1 else mean * np.nan
    evidence = Evidence.of(log, np.empty((len(log), 0)), "both")
    if len(replicates):
        scarce = np.where(evidence.scarce, "too few voters saw it", "").tolist()
        reasons = [why or few for why, few in zip(reasons, scarce, strict=True)]
    se, low, high = np.where(
        [bool(why) for why in reasons], np.nan, resampling.interval(replicates)
    )
    df = np.diag(evidence.freedom)
    low, high = (mean + widening(df) * (end - mean) for end in (low, high))
    extra = {"order_sem": sem, "evidence_se": se, "df": np.where(np.isfinite(low), df, np.nan)}
    return base.ranked(log.models, mean, (low, high), log.per_model(), extra, reasons)


def holding(elo: base.Ratings, strengths: base.Ratings) -> Floats:
    """How probable it is that Elo's interval of each model holds the truth, given Bradley–Terry's
    rating of the same battles on the same center; NaN where either has no interval.
    """
    rows = [(elo[model], strengths[model]) for model in elo.models]
    figures = [(e.ci_low, e.ci_high, s.rating, s.extra["se"]) for e, s in rows]
    low, high, center, error = np.array(figures, float).T  # None becomes NaN
    start, spread = center.mean(), true_variance(strengths)
    kept = spread / (spread + error**2)
    expected, deviation = start + kept * (center - start), np.sqrt(kept) * error
    deviation = np.where(deviation > 0, deviation, np.nan)
    below, above = (normal_cdf((end - expected) / deviation) for end in (low, high))
    return np.asarray(above - below)


def caution(elo: base.Ratings, strengths: base.Ratings) -> str:
    """A warning that Elo's intervals cover less than 95 %, and why; empty where they do not."""
    held = holding(elo, strengths)
    way = claims.shrinkage(elo, strengths)
    if np.isnan(held).all() or not way < _CONVERGED:
        return ""
    off = held < _MIN_COVERAGE_OF_ONE
    if np.nanmean(held) < _MIN_COVERAGE:
        whose, share = "intervals cover", float(np.nanmean(held))
    elif off.any():
        names = [model for model, each in zip(elo.models, off, strict=True) if each]
        whose, share = f"interval of {', '.join(names)} covers", held[off].mean()
    else:
        return ""
    return (
        f"Elo's 95% {whose} about {100 * share:.0f}% here: at K {elo.settings['k']:g} Elo has not "
        f"converged (its scale is {100 * way:.0f}% of Bradley–Terry's); use Bradley–Terry or a "
        "larger K."
    )


class Stability(NamedTuple):
    """Does a ranking depend on K? Two neighbours of the default-K ranking at every K of a sweep.

    `gap` is how far `above` leads `below`, `low` and `high` its 95 % evidence interval,
    `share_above` the share of resamples in which it leads. The gap's interval is not the
    difference of the two entrants' intervals: both ratings come from the same resamples.
    """

    above: str
    below: str
    ks: tuple[float, ...]
    gap: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    share_above: tuple[float, ...]

    @property
    def ordered_everywhere(self) -> bool:
        return len(self.ordered_at) == len(self.ks)

    @property
    def ordered_at(self) -> list[float]:
        """Every K of the sweep at which `above` leads, the smallest first."""
        return sorted(k for k, gap in zip(self.ks, self.gap, strict=True) if gap > 0)


def neighbour_stability(sweep: Mapping[float, base.Ratings], k: float) -> list[Stability]:
    """Every pair of neighbours in the ranking at this K."""
    gaps = [(ratings.models.index, claims.gaps(ratings)) for ratings in sweep.values()]
    followed = []
    for above, below in pairwise(sweep[k].order):
        at_each_k = [[float(each[at(above), at(below)]) for each in four] for at, four in gaps]
        followed.append(Stability(above, below, tuple(sweep), *zip(*at_each_k, strict=True)))
    return followed


def replay_orders(
    games: Games,
    methods: Sequence[PermutationElo],
    seeds: NDArray[np.uint64],
    *,
    sets: Ints | None = None,
    sizes: Ints | None = None,
    compiled: bool,
) -> Floats:
    """Final ratings, shaped (methods, seeds, models); every method sees the same orders.

    Replay r shuffles its games with seed r and plays them. By default its games are all
    of them; with `sets` they are the first `sizes[i]` entries of row i of `sets` (indices
    into `games`, repeats allowed), where row i serves an equal share of the replays.
    """
    if sets is None or sizes is None:
        sets = np.arange(len(games.a), dtype=np.int32)[None, :]
        sizes = np.array([len(games.a)], np.int32)
    row_of = np.arange(len(seeds)) // (len(seeds) // len(sets))
    first, cell = games.kinds()  # few, so that a replay finds them in the nearest cache
    a, b, score = (
        games.a[first].astype(np.uint32),
        games.b[first].astype(np.uint32),
        games.score[first],
    )
    played = cell.astype(np.uint32)[sets]

    def share(some: slice) -> Floats:
        rows = row_of[some]
        if not compiled:
            index = _shuffled(sets[rows].T, seeds[some], sizes[rows])
            return _play(games, methods, index, sizes[rows])
        q = np.ones((len(methods), len(rows), games.n_models))
        order = np.empty((_LANES, sets.shape[1]), np.uint32)
        for ratings, rule in zip(q, methods, strict=True):
            step = rule.k * np.log(10.0) / rule.scale
            replay(a, b, step * score, played, sizes, rows, seeds[some], step, order, ratings)
            ratings[:] = rule.initial + rule.scale / np.log(10.0) * np.log(ratings)
        return q

    if compiled:
        return np.concatenate([*fan_out(share, shares(len(seeds)))], axis=1)
    width = max(64, _BLOCK // max(1, sets.shape[1]))
    blocks = [slice(start, start + width) for start in range(0, len(seeds), width)]
    return np.concatenate([*fan_out(share, blocks, by="here")], axis=1)


def _shuffled(index: Ints, seeds: NDArray[np.uint64], sizes: Ints) -> Ints:
    """Fisher-Yates down each column of `index`, over its first `sizes` entries."""
    index = index.copy()
    column = np.arange(len(seeds))
    for i in range(int(sizes.max(initial=0)) - 1, 0, -1):
        bits = random_bits(seeds, np.array([i], np.uint64))
        j = ((bits >> _S32) * np.uint64(i + 1)) >> _S32
        j = np.where(i < sizes, j, np.uint64(i)).astype(np.intp)
        index[i], index[j, column] = index[j, column], index[i].copy()
    return index


def _play(games: Games, methods: Sequence[PermutationElo], index: Ints, sizes: Ints) -> Floats:
    """Play the games of each column of `index` in order, all columns side by side."""
    n = index.shape[1]
    lane = np.arange(n) * games.n_models
    firsts, seconds = games.a[index] + lane, games.b[index] + lane
    scores = games.score[index]
    over = np.arange(len(index))[:, None] >= sizes  # padding behind the shorter lanes
    ragged = np.any(over, axis=1).tolist()
    out = np.empty((len(methods), n * games.n_models))
    for ratings, rule in zip(out, methods, strict=True):
        ratings[:] = rule.initial
        scale = np.log(10.0) / rule.scale
        for step, (first, second, score) in enumerate(zip(firsts, seconds, scores, strict=True)):
            a, b = ratings[first], ratings[second]
            change = rule.k * (score - 1.0 / (1.0 + np.exp((b - a) * scale)))
            if ragged[step]:
                change[over[step]] = 0.0
            ratings[first] = a + change
            ratings[second] = b - change
    return out.reshape(len(methods), n, games.n_models)


def _moved(first: float, second: float, gain: float, step: float) -> tuple[float, float]:
    """Both strengths after a game; `gain` is the first side's score times the step."""
    x = gain - step * (first / (first + second))
    if step < _SMALL:
        y = x * x
        even = 1 + y * (_C2 + y * (_C4 + y * (_C6 + y * (_C8 + y * _C10))))
        odd = x * (1 + y * (_C3 + y * (_C5 + y * (_C7 + y * (_C9 + y * _C11)))))
        return first * (even + odd), second * (even - odd)
    return first * exp(x), second * exp(-x)


def _shuffle(seed: np.uint64, cells: Any, size: int, order: Any) -> None:
    """Lay the games out in a row and shuffle them (Fisher-Yates)."""
    for n in range(size):
        order[n] = cells[n]
    for n in range(size - 1, 0, -1):
        bits = mix(seed + np.uint64(n) * GAMMA) >> _S32
        m = (bits * np.uint64(np.uint32(n + 1))) >> _S32
        order[n], order[m] = order[m], order[n]


def _replay(
    a: Any, b: Any, gain: Any, sets: Any, sizes: Any, row_of: Any, seeds: Any, step: Any,
    order: Any, q: Any,
) -> None:  # fmt: skip
    """Replay one shuffled order per seed, from strengths `q`, a row per seed, which change.

    Strengths q = 10^(rating/scale) stand in for ratings while playing: the expected score is then
    one division, and a step multiplies q by exp of something small. `a`, `b` and `gain` are of each
    cell, `sets` has the cells of the games in each row; `order` is room to work in.
    """
    last = len(seeds) - 1
    o0, o1, o2, o3 = order[0], order[1], order[2], order[3]
    for first in range(0, len(seeds), 4):
        lanes = min(4, len(seeds) - first)
        fewest = sizes[row_of[first]] if lanes == 4 else 0
        for lane in range(lanes):
            row = row_of[first + lane]
            fewest = min(fewest, sizes[row])
            _shuffle(seeds[first + lane], sets[row], sizes[row], order[lane])
        q0, q1 = q[first], q[min(first + 1, last)]
        q2, q3 = q[min(first + 2, last)], q[min(first + 3, last)]
        for n in range(fewest):
            k0, k1, k2, k3 = o0[n], o1[n], o2[n], o3[n]  # all are read before any is written
            i0, i1, i2, i3 = a[k0], a[k1], a[k2], a[k3]
            j0, j1, j2, j3 = b[k0], b[k1], b[k2], b[k3]
            x0, x1, x2, x3 = q0[i0], q1[i1], q2[i2], q3[i3]
            y0, y1, y2, y3 = q0[j0], q1[j1], q2[j2], q3[j3]
            q0[i0], q0[j0] = _moved(x0, y0, gain[k0], step)
            q1[i1], q1[j1] = _moved(x1, y1, gain[k1], step)
            q2[i2], q2[j2] = _moved(x2, y2, gain[k2], step)
            q3[i3], q3[j3] = _moved(x3, y3, gain[k3], step)
        for lane in range(lanes):
            mine = q[first + lane]
            for n in range(fewest, sizes[row_of[first + lane]]):
                k = order[lane, n]
                i, j = a[k], b[k]
                mine[i], mine[j] = _moved(mine[i], mine[j], gain[k], step)


replay = Kernel(_replay, "contract", parts=(mix, _moved, _shuffle))
