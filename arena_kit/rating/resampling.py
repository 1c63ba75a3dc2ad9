"""The bootstrap by hash: how often a cluster stands in a resample is a function of the two alone.

SplitMix64 serves as a counter-based generator, without state, so that clusters may come in any
order, in parts of any size and on any machine (Chamandy, Muralidharan, Najmi and Naidu 2012). A
cluster, which is a question or voter with all its battles, stands in a resample a Poisson number of
times. One draw of 64 bits serves four resamples: 16 bits each give Poisson numbers with mean 1 and
variance 0.99997.

The win difference (net win rate), which clinicians publish beside ratings, is the share of battles
won less the share lost, per model. Its interval is Wilson's, for as many independent battles as the
cluster jackknife says the battles are worth, so that a perfect record is not certain.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import MIN_QUESTIONS, NORMAL_95, known, questions_seen, scores
from arena_kit.rating.critical_values import t_score

Floats = NDArray[np.float64]
Hashes = NDArray[np.uint64]
Ints = NDArray[np.int32]
Bits = TypeVar("Bits", np.uint64, Hashes)

GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S32 = (np.uint64(n) for n in (27, 30, 31, 32))
#: Streams of random numbers under one seed.
ORDERS, RESAMPLED_ORDERS, RESAMPLES = range(3)
LANES = 4  # resamples that share 64 bits
_VALUES = 2**16
_LARGE = 32  # votes alike, from which their Poisson number is a transformed normal deviate
_PARTS = 8  # Poisson tables per vote, for weights that are no whole numbers
_ALIKE = 1e-12  # a variance that is rounding
#: Indices held at once; larger logs are resampled in several chunks.
_CHUNK = 20_000_000


def mix(z: Bits) -> Bits:
    """SplitMix64's finalizer; NumPy runs it on arrays, and the Elo kernel compiles it."""
    z = (z ^ (z >> _S30)) * _MIX1
    z = (z ^ (z >> _S27)) * _MIX2
    return z ^ (z >> _S31)


def random_bits(seeds: Hashes | np.uint64, counters: Hashes) -> Hashes:
    """64 random bits for each seed and counter, broadcast against each other."""
    return mix(seeds + counters * GAMMA)


def split_seed(seed: int, n: int, stream: int) -> Hashes:
    """`n` unrelated 64-bit seeds; those of other streams are unrelated, too."""
    return np.random.SeedSequence([seed, stream]).generate_state(n, np.uint64).astype(np.uint64)


@cache
def poisson_table(mean: float = 1.0) -> NDArray[np.uint8]:
    """The Poisson number of every 16 bits, by the inverse of the distribution function."""
    k = np.arange(_VALUES >> 8)
    logs = k * np.log(mean) - np.concatenate([[0.0], np.cumsum(np.log(k[1:]))])
    ends = np.round(np.cumsum(np.exp(logs - mean)) * _VALUES).astype(int)
    ends[-1] = _VALUES
    return np.repeat(k, np.diff(ends, prepend=0)).astype(np.uint8)


@cache
def _normal_table() -> Floats:
    """The normal deviate of every 16 bits."""
    from scipy.special import ndtri

    return np.asarray(ndtri((np.arange(_VALUES) + 0.5) / _VALUES))


@dataclass(frozen=True, slots=True, eq=False)
class PoissonWeights:
    """How often clusters stand in resamples, by their hashes; a seed serves four resamples."""

    seeds: Hashes

    @classmethod
    def of(cls, seed: int, n: int) -> Self:
        """The weights of `n` resamples, or a few more."""
        return cls(split_seed(seed, -(-n // LANES), RESAMPLES))

    @property
    def lanes(self) -> int:
        """Resamples, those included that only fill the last 64 bits."""
        return LANES * len(self.seeds)

    def times(self, clusters: Hashes, some: slice, counts: Floats | None = None) -> NDArray[Any]:
        """A row per cluster and a column per resample, the first of them a multiple of four. Where
        a cluster is a number (`counts`) of votes alike, each of these is drawn by itself.
        """
        seeds = self.seeds[some.start // LANES : -(-some.stop // LANES)]
        bits = random_bits(seeds[None, :], clusters[:, None]).astype("<u8").view("<u2")
        bits = bits[:, : some.stop - some.start]
        return poisson_table().take(bits) if counts is None else _of_counts(bits, counts)


def _of_counts(bits: NDArray[np.uint16], counts: Floats) -> Floats:
    """The Poisson number of every 16 bits in rows of these means: below `_LARGE` by the table of
    the nearest eighth, scaled; from there on by the expansion of Cornish and Fisher.
    """
    drawn, step = np.empty(bits.shape), np.maximum(1, np.round(_PARTS * counts))
    step[counts >= _LARGE] = np.inf
    for each in np.unique(step):
        rows = np.flatnonzero(step == each)
        mean = counts[rows, None]
        if np.isinf(each):
            normal = _normal_table().take(bits[rows])
            drawn[rows] = mean + np.sqrt(mean) * normal + (normal**2 - 1) / 6
        else:
            drawn[rows] = _PARTS / each * mean * poisson_table(each / _PARTS).take(bits[rows])
    return drawn


def _multinomial(seed: np.uint64, n: int) -> NDArray[np.intp]:
    """How often each of `n` clusters comes up in `n` draws."""
    bits = random_bits(seed, np.arange(n, dtype=np.uint64)) >> _S32
    return np.bincount(((bits * np.uint64(n)) >> _S32).astype(np.intp), minlength=n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Games:
    """Games to replay: who met whom and what the first side scored (1, 0.5 or 0)."""

    a: Ints
    b: Ints
    score: Floats
    n_models: int

    @classmethod
    def of(cls, log: BattleLog) -> Self:
        """The battles of a log."""
        return cls(a=log.a, b=log.b, score=scores(log), n_models=len(log.models))

    def kinds(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The first game of each kind (the same sides with the same score), and the kind of each
        game.
        """
        score, ended = np.unique(self.score, return_inverse=True)
        key = (self.a.astype(np.int64) * self.n_models + self.b) * len(score) + ended
        _, first, kind = np.unique(key, return_index=True, return_inverse=True)
        return first, kind


def replicates(
    games: Games,
    clusters: Ints,
    n: int,
    replayed: Callable[[Ints, Ints, int], Floats],
    *,
    seed: int,
    kinds: int = 1,
) -> Floats:
    """Ratings of `n` resamples by several `kinds` of replay, shaped (kinds, resamples, models); NaN
    where a model has none.

    `replayed` rates some resamples, given the games of each in a padded row, how many they are, and
    the number of the first. Where a replay ends depends on how many games it has, so that a
    resample has as many clusters as there are, drawn by hash with replacement: Poisson numbers,
    given their sum. A model is rated where it was drawn, and only if it was seen on enough
    questions to say how sure its rating is; without such a model there are no resamples.
    """
    enough = questions_seen(games.a, games.b, clusters, games.n_models) >= MIN_QUESTIONS
    seeds, n_clusters = split_seed(seed, n, RESAMPLES), int(clusters.max()) + 1
    rated, width = [np.empty((kinds, 0, games.n_models))], max(1, _CHUNK // len(clusters))
    for first in range(0, n if enough.any() else 0, width):
        times = np.stack([_multinomial(each, n_clusters) for each in seeds[first : first + width]])
        times = times[:, clusters]
        sizes = times.sum(axis=1, dtype=np.int32)
        sets = np.zeros((len(times), sizes.max()), np.int32)
        seen = np.zeros((len(times), games.n_models), bool)
        for row, met, size, drawn in zip(sets, seen, sizes, times, strict=True):
            row[:size] = battles = np.repeat(np.arange(len(drawn)), drawn)
            met[games.a[battles]] = met[games.b[battles]] = True
        rated.append(np.where(seen & enough, replayed(sets, sizes, first), np.nan))
    return np.concatenate(rated, axis=1)


def denoised(replicates: Floats, noise: Floats) -> Floats:
    """Replicates, shaped (…, resamples, models), without the variance `noise` that has nothing
    to do with what was resampled: each is drawn towards the mean of all.

    A variance from n resamples is known to about its share 2·sqrt(2/n) (two standard
    errors). What is left is never less than that share: the interval may stay too wide, but
    does not claim to know more than the resamples can tell.
    """
    n = replicates.shape[-2]
    if n < 2:
        return replicates
    with warnings.catch_warnings(action="ignore"):  # a model without resamples stays NaN
        spread = np.nanvar(replicates, axis=-2, ddof=1)
        centre = np.nanmean(replicates, axis=-2, keepdims=True)
    share = np.divide(noise, spread, out=np.zeros_like(spread), where=spread > 0)
    kept = np.sqrt(np.clip(1 - share, min(1.0, 2 * np.sqrt(2 / n)), 1))[..., None, :]
    return np.asarray(centre + kept * (replicates - centre))


def interval(replicates: Floats) -> tuple[Floats, Floats, Floats]:
    """Standard deviation and 95 % percentile interval of each column, ignoring NaN.

    NaN for a column without two different values: resampling unanimous evidence shows no
    spread, which says nothing about how sure it is.
    """
    se, low, high = np.full((3, replicates.shape[1]), np.nan)
    if not len(replicates):
        return se, low, high
    with warnings.catch_warnings(action="ignore"):  # a model without resamples stays NaN
        reach = np.nanmax(replicates, axis=0) - np.nanmin(replicates, axis=0)
    differs = np.nan_to_num(reach) > 1e-6
    if differs.any():
        low[differs], high[differs] = percentiles(replicates[:, differs])
        se[differs] = np.nanstd(replicates[:, differs], axis=0, ddof=1)
    return se, low, high


def percentiles(replicates: Floats) -> Floats:
    """The ends of the 95 % percentile interval of each column, ignoring NaN."""
    whole = not np.isnan(replicates).any()  # the function that looks for NaN is much slower
    with warnings.catch_warnings(action="ignore"):  # without replicates, NaN
        ends = (np.percentile if whole else np.nanpercentile)(replicates, [2.5, 97.5], axis=0)
    return np.asarray(ends)


class WinDifference(NamedTuple):
    """The win difference of a model, from -1 to 1, with its 95 % interval; None without one."""

    value: float
    low: float | None
    high: float | None


def win_differences(log: BattleLog) -> dict[str, WinDifference]:
    """The win difference of every model, clustered by question and voter where battles name them;
    without an interval for models seen on fewer than ten of either.
    """
    net, sides = 2 * scores(log) - 1, np.append(log.a, log.b)
    won = np.bincount(sides, np.tile(log.weights(), 2) * np.append(net, -net), len(log.models))
    value = won / log.per_model()
    named = [by for by in ("question_id", "voter") if getattr(log, by) is not None]
    ways = [_jackknife(log, log.clusters(by), net, value) for by in named]  # type: ignore[arg-type]
    each = _jackknife(log, np.arange(len(log), dtype=np.int32), net, value)
    spread, df = max(ways, key=lambda way: float(np.nansum(way[0]))) if ways else each
    if len(ways) == 2:
        spread = np.maximum(spread, ways[0][0] + ways[1][0] - each[0])
        df = np.minimum(ways[0][1], ways[1][1])
    ends = np.where(df + 1 >= MIN_QUESTIONS, _wilson(value, spread, df), np.nan).tolist()
    rows = zip(log.models, value.tolist(), *ends, strict=True)
    return {model: WinDifference(v, known(low), known(high)) for model, v, low, high in rows}


def _wilson(value: Floats, spread: Floats, df: Floats) -> Floats:
    """Both ends of Wilson's interval with Student's t; battles that all ended alike are worth as
    many as there are clusters.
    """
    share, t = (1 + value) / 2, t_score(NORMAL_95, np.maximum(df, 1))
    alike = spread <= _ALIKE
    worth = np.where(alike, df + 1, 4 * share * (1 - share) / np.where(alike, 1.0, spread))
    worth = np.maximum(worth, 1.0)
    middle = (share + t**2 / (2 * worth)) / (1 + t**2 / worth)
    half = t / (1 + t**2 / worth) * np.sqrt(share * (1 - share) / worth + (t / (2 * worth)) ** 2)
    return np.stack([2 * (middle - half) - 1, 2 * (middle + half) - 1])


def _jackknife(
    log: BattleLog, clusters: NDArray[np.int32], net: Floats, value: Floats
) -> tuple[Floats, Floats]:
    """Variance and degrees of freedom of every model's difference, leaving out clusters in turn."""
    n, sides, weight = len(log.models), np.append(log.a, log.b), np.tile(log.weights(), 2)
    key = np.tile(clusters, 2).astype(np.int64) * n + sides
    cells, of_side = np.unique(key, return_inverse=True)  # of a cluster and a model
    off = weight * (np.append(net, -net) - value[sides])
    games, total = (np.bincount(of_side, each).astype(float) for each in (weight, off))
    left = log.per_model()[cells % n] - games
    moved = np.divide(total, left, where=left > 0, out=np.zeros_like(left)) ** 2
    variance, groups = (
        np.bincount(cells % n, each, n).astype(float) for each in (moved, games > 0)
    )
    return variance * (groups - 1) / np.maximum(groups, 1), groups - 1
