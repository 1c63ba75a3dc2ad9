"""Elo averaged over many shuffled orders, with an interval that the evidence supports."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from math import inf, isfinite
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating import base, resampling
from arena_kit.rating.bradley_terry.clusters import Evidence
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.bradley_terry.sandwich import stretched
from arena_kit.rating.claims import claims
from arena_kit.rating.claims.power import true_variance
from arena_kit.rating.critical_values import normal_cdf, widening
from arena_kit.rating.elo.replay import EloRule, Engine, engine_for, replay_in_order, replay_orders

Floats = NDArray[np.float64]
Treatment = Literal["drop", "half"]

#: A million orders know the mean to a thousandth of one order's spread; more only take memory.
MAX_PERMS = 1_000_000
MAX_EVIDENCE_REPLAYS = 10_000_000
#: Below so much expected coverage of nominal 95 % a board is told; one model alone only if it is
#: hopeless, since a single expectation is uncertain itself. docs/intervals.md has the measurement.
_MIN_COVERAGE, _MIN_COVERAGE_OF_ONE = 0.93, 0.5
#: Elo points that stand for one of Bradley–Terry, from which a replay counts as arrived.
_CONVERGED = 0.97


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
        kinds = ("tie", "both_bad", "inconsistent")
        treatments = zip(kinds, (self.ties, self.both_bad, self.inconsistent), strict=True)
        keep, dropped = base.counted(battles, [kind for kind, each in treatments if each == "drop"])
        return battles.select(keep), dropped


def k_sweep(
    method: PermutationElo, battles: BattleLog, ks: Iterable[float]
) -> dict[float, base.Ratings]:
    """The same rating for several K; every K sees the same orders and resamples."""
    methods = [replace(method, k=float(k)) for k in ks]
    log, dropped = method.kept(battles)
    base.check_kept(battles, log, dropped)
    base.check_unweighted(log, "permutation-elo")
    games = resampling.Games(a=log.a, b=log.b, score=base.scores(log), n_models=len(log.models))
    rules = [EloRule(k=m.k, initial=m.initial, scale=m.scale) for m in methods]
    replays = method.n_perms + method.evidence_replicates * method.evidence_orders
    engine = engine_for(len(log) * replays) if method.shuffle else "numpy"
    if method.shuffle:
        seeds = resampling.split_seed(method.seed, method.n_perms, resampling.ORDERS)
        traces = replay_orders(games, rules, seeds, compiled=engine == "numba")
    else:
        traces = np.stack([replay_in_order(games, rule) for rule in rules])
    order_variance = traces.var(axis=1, ddof=1) if traces.shape[1] > 1 else 0.0 * traces[:, 0]
    replicates = resampling.denoised(
        _replicates(method, games, rules, log.clusters(), engine),
        order_variance / method.evidence_orders,
    )
    if log.voter is not None and replicates.shape[1]:
        replicates = _two_way(log, replicates, traces.mean(axis=1))
    reasons = [""] * len(log.models)
    if method.evidence_replicates:
        reasons = base.why_no_interval(log, games.score, base.MIN_QUESTIONS)
    rated = {
        each.k: base.Ratings(
            method="permutation-elo",
            settings=asdict(each),
            ratings=_ranked(log, traces[n], replicates[n], reasons),
            n_battles=len(log),
            dropped=dropped,
            models=log.models,
            engine=engine,
            traces=traces[n],
            replicates=replicates[n],
        )
        for n, each in enumerate(methods)
    }
    if not method.evidence_replicates:
        return rated
    same = BradleyTerry(scale=method.scale, center=method.initial, inconsistent="tie")(log)
    notes = {k: caution(ratings, same) for k, ratings in rated.items()}
    return {k: replace(each, notes=(notes[k],) if notes[k] else ()) for k, each in rated.items()}


def _replicates(
    method: PermutationElo,
    games: resampling.Games,
    rules: list[EloRule],
    clusters: NDArray[np.int32],
    engine: Engine,
) -> Floats:
    """Mean ratings of each resample, shaped (rules, resamples, models); NaN where it has none."""
    n, orders = method.evidence_replicates, method.evidence_orders
    out = [np.empty((len(rules), 0, games.n_models))]
    seeds = resampling.split_seed(method.seed, n * orders, resampling.RESAMPLED_ORDERS)
    done = 0
    for sets, sizes, rated in resampling.evidence_sets(games, clusters, n, seed=method.seed):
        some = seeds[done * orders : (done + len(sets)) * orders]
        ratings = replay_orders(
            games, rules, some, sets=sets, sizes=sizes, compiled=engine == "numba"
        )
        shape = (len(rules), len(sets), orders, games.n_models)
        means = ratings.reshape(shape).mean(axis=2)
        out.append(np.where(rated, means, np.nan))
        done += len(sets)
    return np.concatenate(out, axis=1)


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
