"""What ratings allow one to say: who is above whom, which orders are decided, which ranks are
possible, who would win.

Claims about two models rest on the gap between them, not on whether their intervals overlap:
both ratings come from the same battles, and a gap does not depend on where the scale is pinned.

A pair is decided by the span rule: its gap, as a normal deviate, exceeds the studentized range of
so many equal models as it spans in the ranking. So neighbours need little and models far apart, of
which there are many pairs to be wrong about, need more. What follows from decided pairs through
others is decided too. The deviate of a Bradley–Terry fit is the root of its profile likelihood; of
other ratings, their gap in standard errors. docs/claims.md has the levels that were measured.
"""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from math import ceil, sqrt
from math import log as ln
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.rating.base import NORMAL_95, Ratings, gap_variances, transitive_closure
from arena_kit.rating.bradley_terry.clusters import CLAIMS_ABOUT
from arena_kit.rating.critical_values import (
    normal_cdf,
    normal_score,
    span_scores,
    t_score,
    widening,
)
from arena_kit.rating.resampling import percentiles

Floats = NDArray[np.float64]

#: Times of the present evidence beyond which an order is not within reach.
MOST = 40.0
_GROWTH = np.geomspace(1.01, MOST, 128)
#: The median of the standard deviation of ratings, in natural units (130 points of the usual
#: scale), and the standard deviation of its logarithm.
_TYPICAL, _LOG_SD = 0.75, 0.7
_DEVIATES = np.linspace(-4, 4, 64)


class Spread(NamedTuple):
    """How `n` models are spread in truth: normal about their mean, with this standard deviation."""

    deviation: float
    mean: float
    n: int

    @classmethod
    def of(cls, rating: Floats, errors: Floats, unit: float) -> Spread:
        """The spread by ratings and the standard errors of their gaps, in units of so many points:
        the posterior mean of the standard deviation.
        """
        if (n := len(rating)) < 2:
            return cls(_TYPICAL * unit, 0.0, n)
        deviation = _TYPICAL * unit * np.exp(_LOG_SD * _DEVIATES)
        contrasts = np.linalg.svd(np.eye(n) - 1 / n)[0][:, : n - 1]
        noise, axes = np.linalg.eigh(-contrasts.T @ errors**2 @ contrasts / 2)
        noise, seen = np.maximum(0, noise), (rating @ contrasts @ axes) ** 2
        total = noise + deviation[:, None] ** 2
        log_weight = -(_DEVIATES**2 + (np.log(total) + seen / total).sum(axis=1)) / 2
        weight = np.exp(log_weight - log_weight.max())
        return cls(float(np.average(deviation, weights=weight)), float(rating.mean()), n)

    def kept(self, variance: float) -> float:
        """The part of a gap of this variance that is true."""
        return 2 * self.deviation**2 / (2 * self.deviation**2 + variance)

    def beyond(self, gap: float, now: float, then: float, same: float, bar: float) -> float:
        """How probable it is that a gap of variance `now` is beyond the bar, either way, after
        a run that gives it the variance `then` and in which it weighs `same`.
        """
        kept = self.kept(now)
        moves = sqrt(max(0.0, (1 - same) ** 2 * kept * now + then - same**2 * now))
        return chance_beyond(gap * (same + (1 - same) * kept), bar, moves)

    def bar(
        self, middle: float, now: float, error: float, new: float, bars: Sequence[float]
    ) -> float:
        """What decides two models about `middle` once their gap has this standard error, of `bars`
        by places apart: others may then stand between them, as far as evidence is `new`.
        """
        above, bar = self.kept(now) * (middle - self.mean), bars[1]
        others = NormalDist(0, self.deviation)
        for _ in range(2):
            half = bar * error / 2
            inside = new * (self.n - 2) * (others.cdf(above + half) - others.cdf(above - half))
            bar = float(np.interp(1 + inside, range(len(bars)), bars))
        return bar


def chance_beyond(gap: float, bar: float, moves: float) -> float:
    """How probable it is that a gap clears the bar, on either side, once it has moved by a normal
    deviate of so many points.
    """
    if not moves:
        return float(abs(gap) > bar)
    after = NormalDist(gap, moves)
    return 1 - after.cdf(bar) + after.cdf(-bar)


def growth(chance: Callable[[float], float], power: float) -> float | None:
    """The times of the present evidence from which this chance is reached; None where they are more
    than `MOST`.
    """
    step = bisect_left(_GROWTH, power, key=chance)
    return float(_GROWTH[step]) if step < len(_GROWTH) else None


Bools = NDArray[np.bool_]
State = Literal["decided", "equivalent", "unresolved"]

#: The level of the span rule by the number of looks at a board, up to which it was measured;
#: benchmarks/claims.py prints what it holds.
LEVELS = {1: 0.95, 12: 0.985, 80: 0.995}
_MORE_LOOKS = 0.999
_SHOWN = 6  # names in a sentence
OUT_OF_REACH = "not within reach of this prompt bank"


class Gaps(NamedTuple):
    """How far each model (row) is above each other (column), with its 95 % interval, and how
    probable it is that it is above. NaN where there is too little evidence.
    """

    gap: Floats
    low: Floats
    high: Floats
    above: Floats


def level(looks: int) -> float:
    """The level of the span rule for claims that are read so many times."""
    return next((share for most, share in LEVELS.items() if looks <= most), _MORE_LOOKS)


def looks(ratings: Ratings) -> int:
    """How many times the ratings of these battles are read as battles come in."""
    return int(ratings.settings.get("looks", 1))


def gaps(ratings: Ratings) -> Gaps:
    """Gaps between all models, in the order of `ratings.models`."""
    gap, df = _gap(ratings), _freedom(ratings)
    if ratings.profile is None and len(ratings.replicates):
        low, high, share = _from_replicates(ratings.replicates, gap, df)
    else:
        half, share = t_score(NORMAL_95, df) * gap_errors(ratings), above(ratings)
        low, high = gap - half, gap + half
    if ratings.profile is not None:
        for i, j in np.argwhere(ratings.profile.unbounded()).tolist():
            low[i, j], high[i, j] = _unit(ratings) * np.array(ratings.profile.ends(i, [j]))
    low, high, share = np.where(_unknown(ratings), np.nan, (low, high, share))
    return Gaps(gap, low, high, share)


def above(ratings: Ratings) -> Floats:
    """How probable it is that the row's model is above the column's, given the evidence."""
    if ratings.profile is None and len(ratings.replicates):
        return gaps(ratings).above
    return np.where(_unknown(ratings), np.nan, normal_cdf(deviates(ratings)))


def decided(ratings: Ratings) -> Bools:
    """Where the row's model is decidedly above the column's, in the order of `ratings.models`."""
    memo = {} if ratings.profile is None else ratings.profile.memo
    key = ("decided", looks(ratings), _known_order(ratings))
    if key not in memo:
        n = len(ratings.models)
        reach = transitive_closure(n, *np.nonzero(deviates(ratings) > _bars(ratings)))
        memo[key] = np.asarray((reach > 0) & ~np.eye(n, dtype=bool))
    return np.asarray(memo[key])


def _bars(ratings: Ratings) -> Floats:
    """What decides every two models, as a normal deviate."""
    return np.array(span_scores(len(ratings.models), level(looks(ratings))))[_spans(ratings)]


def deviates(ratings: Ratings) -> Floats:
    """Every gap as a normal deviate; 0 where nothing is known."""
    if ratings.profile is None:
        return _scores(ratings, _gap(ratings))
    memo, key = ratings.profile.memo, ("deviates", looks(ratings), _known_order(ratings))
    if key not in memo:
        unknown = _unknown(ratings)
        memo[key] = np.where(unknown, 0.0, ratings.profile.scores(_bars(ratings), ~unknown))
    return np.asarray(memo[key])


def _spans(ratings: Ratings) -> NDArray[np.int64]:
    """How many places apart every two models stand, among those whose evidence reaches."""
    order = _known_order(ratings)
    place = np.array([order.index(m) if m in order else 0 for m in ratings.models])
    return np.asarray(np.abs(place[:, None] - place[None, :]))


def may_be_first(ratings: Ratings) -> tuple[str, ...]:
    """The models that none is decidedly above, best first: one means that the first is decided.
    Those with too little evidence are not among them.
    """
    beaten = dict(zip(ratings.models, decided(ratings).sum(axis=0), strict=True))
    return tuple(model for model in _known_order(ratings) if not beaten[model])


def tiers(ratings: Ratings) -> tuple[tuple[str, ...], ...]:
    """Groups of models, best first: every model is decidedly above all of later groups, and no
    group can be cut once more.
    """
    order = _known_order(ratings)
    index = [ratings.models.index(model) for model in order]
    clear = decided(ratings)[np.ix_(index, index)]
    cuts = [n for n in range(1, len(order)) if clear[:n, n:].all()]
    edges = [0, *cuts, len(order)] if order else []
    return tuple(order[start:end] for start, end in pairwise(edges))


class Neighbours(NamedTuple):
    """Two neighbours of the ranking, and whether their order is decided.

    `equivalent` is a gap that surely lies within the margin. `more` is how many further battles of
    the present mix decide an open order with a power of 50 %, `prompts` on how many further
    questions, where these are clusters; None where that is not within reach.
    """

    above: str
    below: str
    state: State
    more: int | None
    prompts: int | None = None


def neighbours(ratings: Ratings, margin: float = 0.0, power: float = 0.5) -> tuple[Neighbours, ...]:
    """All neighbours of the ranking whose evidence reaches, best first."""
    memo = {} if ratings.profile is None else ratings.profile.memo
    key = ("neighbours", looks(ratings), order := _known_order(ratings), margin, power)
    if key not in memo:
        memo[key] = between(ratings, pairwise(order), margin, power)
    found: tuple[Neighbours, ...] = memo[key]
    return found


def between(
    ratings: Ratings, pairs: Iterable[tuple[str, str]], margin: float = 0.0, power: float = 0.5
) -> tuple[Neighbours, ...]:
    """Any two models, as neighbours of another order are: `above` is the one rated higher."""
    clear, alike = decided(ratings), equivalent(ratings, margin)
    index = {model: i for i, model in enumerate(ratings.models)}
    likely, out = spread(ratings), []
    for one, other in pairs:
        above, below = sorted((one, other), key=lambda model: -ratings[model].rating)
        at = index[above], index[below]
        state: State = "decided" if clear[at] else "equivalent" if alike[at] else "unresolved"
        times = _growth(ratings, likely, at, power) if state == "unresolved" else 1.0
        counts = (_further(n, times) for n in (ratings.n_battles, ratings.n_questions))
        out.append(Neighbours(above, below, state, *counts))
    return tuple(out)


def until_equivalent(
    ratings: Ratings, pairs: Iterable[tuple[str, str]], margin: float
) -> tuple[int | None, ...]:
    """How many further battles of the present mix show two models to be equivalent with a power of
    50 %; None where that is not within reach.
    """
    at, likely, n = ratings.models.index, spread(ratings), ratings.n_battles
    times = (margin and _growth(ratings, likely, (at(a), at(b)), margin=margin) for a, b in pairs)
    return tuple(_further(n, each) for each in times)


def spread(ratings: Ratings) -> Spread:
    """How far apart models are in truth, by those whose evidence reaches."""
    index = [ratings.models.index(model) for model in _known_order(ratings)]
    errors = gap_errors(ratings)[np.ix_(index, index)]
    return Spread.of(ratings.values()[index], errors, _unit(ratings))


def _growth(
    ratings: Ratings, likely: Spread, at: tuple[int, int], power: float = 0.5, margin: float = 0.0
) -> float | None:
    """How many times the present evidence decides an order with this power, or shows that its gap
    lies within a margin.
    """
    size, df = abs(float(_gap(ratings)[at])), float(_freedom(ratings)[at])
    now, middle = variance_now(ratings, at), float(ratings.values()[list(at)].mean())
    bars = span_scores(2 if margin else len(ratings.models), level(looks(ratings)))
    bars = bars if margin else (0.0, *bars[_spans(ratings)[at] :])

    def chance(times: float) -> float:
        then = now / times
        bar = likely.bar(middle, now, sqrt(then), 1 - 1 / times, bars)
        t = float(t_score(bar, times * (df + 1) - 1))
        limit = margin - t * sqrt(then) if margin else t * sqrt(then)
        beyond = likely.beyond(size, now, then, 1 / times, limit)
        return (1 - beyond) * (limit > 0) if margin else beyond

    return growth(chance, power)


def variance_now(ratings: Ratings, at: tuple[int, int]) -> float:
    """The variance of a gap, by the standard error that gives its deviate."""
    size, df, score = (abs(float(of(ratings)[at])) for of in (_gap, _freedom, deviates))
    error = size / float(t_score(score, df)) if score and size else gap_errors(ratings)[at]
    return float(error) ** 2


def _further(n: int, times: float | None) -> int | None:
    """How many of `n` are missing to so many times of them."""
    return ceil(n * (times - 1)) if n and times else None


def equivalent(ratings: Ratings, margin: float) -> Bools:
    """Pairs whose gap surely lies within `margin` rating points, at the level of decided
    neighbours.
    """
    if not margin >= 0:
        raise ValueError(f"margin must be 0 or more, not {margin!r}")
    left = margin - np.abs(_gap(ratings))
    within = _scores(ratings, left) > neighbour_score(looks(ratings))
    return np.asarray(within & ~np.eye(len(within), dtype=bool))


def about(ratings: Ratings) -> str:
    """What the claims are about: `similar_prompts` where questions count as a sample,
    `these_prompts` where only the votes do.
    """
    cluster = ratings.settings.get("cluster", "both")
    return next(name for name, ways in CLAIMS_ABOUT.items() if cluster in ways)


def sentences(ratings: Ratings, margin: float = 0.0) -> tuple[str, ...]:
    """The claims about the order of a board, in sentences."""
    order, first = _known_order(ratings), may_be_first(ratings)
    if len(order) < 2:
        return ("Too few battles to rank.",)
    winner = (
        f"First: {first[0]}, decided."
        if len(first) == 1
        else f"First place: {_all(first)} are not separable."
    )
    missing = [model for model in ratings.order if model not in order]
    left_out = f" Too little evidence: {_all(missing)}." if missing else ""
    return winner + left_out, _told_apart(ratings, margin)


def summary(ratings: Ratings, margin: float = 0.0) -> dict[str, Any]:
    """Everything that may be said about the order of a board, as plain values for JSON; models
    without enough evidence are in none of it but `unplaced`.
    """
    order, ranges = _known_order(ratings), rank_ranges(ratings)
    return {
        "about": about(ratings),
        "looks": looks(ratings),
        "level": level(looks(ratings)),
        "first": list(may_be_first(ratings)),
        "tiers": [list(group) for group in tiers(ratings)],
        "neighbours": [pair._asdict() for pair in neighbours(ratings, margin)],
        "ranks_at_once": {model: list(ranges[model] or ()) for model in order},
        "unplaced": [model for model in ratings.order if model not in order],
        "margin": margin,
        "sentences": list(sentences(ratings, margin)),
    }


def _told_apart(ratings: Ratings, margin: float) -> str:
    """How many adjacent pairs are decided, and what the nearest unresolved one needs."""
    pairs = neighbours(ratings, margin)
    counts = {state: sum(p.state == state for p in pairs) for state in ("decided", "equivalent")}
    alike = f", equivalent within {margin:g} points: {counts['equivalent']}" if margin else ""
    text = f"Adjacent pairs decided: {counts['decided']} of {len(pairs)}{alike}"
    waiting = [(p.more, p) for p in pairs if p.state == "unresolved" and p.more is not None]
    if waiting:
        more, nearest = min(waiting, key=lambda each: each[0])
        n, unit = (nearest.prompts, "prompts") if nearest.prompts else (more, "battles")
        text += (
            f"; the next, {nearest.above} above {nearest.below}, needs about "
            f"{two_digits(n):,} further {unit} for 50 % power"
        )
    elif any(pair.state == "unresolved" for pair in pairs):
        text += f"; the others are {OUT_OF_REACH if ratings.n_questions else 'not within reach'}"
    groups = len(tiers(ratings))
    return f"{text}. The models form {groups} {'tier' if groups == 1 else 'tiers'}."


def rank_ranges(ratings: Ratings) -> dict[str, tuple[int, int] | None]:
    """The best and the worst rank of each model, such that with 95 % probability the true ranks
    of all models lie in their ranges at once, at every look.

    Ahead of a model in its best rank are only those decidedly above it, behind it in its worst
    only those below. None for a model with too little evidence.
    """
    return _ranges(ratings, decided(ratings))


def single_rank_ranges(ratings: Ratings) -> dict[str, tuple[int, int] | None]:
    """The best and the worst rank of each model that the 95 % intervals of its gaps allow: for
    one model named beforehand. Those of all models hold less often together: see `rank_ranges`.
    """
    return _ranges(ratings, above(ratings) > normal_cdf(NORMAL_95))


def _ranges(ratings: Ratings, above: Bools) -> dict[str, tuple[int, int] | None]:
    ahead, behind = above.sum(axis=0), above.sum(axis=1)
    n = len(ratings.models)
    return {
        model: None if not ratings[model].placed else (1 + int(ahead[i]), n - int(behind[i]))
        for i, model in enumerate(ratings.models)
    }


def rank_probabilities(ratings: Ratings, draws: int = 4000) -> Floats:
    """How probable each rank (a column) is for each model (a row), in the order of
    `ratings.models`, by resamples or by draws from the normal distribution of all ratings.
    """
    drawn = ratings.replicates[np.isfinite(ratings.replicates).all(axis=1)]
    if not len(drawn) and ratings.covariance is not None:
        rng = np.random.default_rng(0)
        spread = np.nan_to_num(ratings.covariance)
        drawn = rng.multivariate_normal(ratings.values(), spread, draws, method="eigh")
    ranks = (-drawn).argsort(axis=1).argsort(axis=1)
    return np.array([np.mean(ranks == rank, axis=0) for rank in range(len(ratings.models))]).T


def gap_errors(ratings: Ratings) -> Floats:
    """The standard error of the gap between every two models; NaN where there is too little
    evidence, 0 for a model and itself.
    """
    if ratings.profile is not None:
        spread = _unit(ratings) * ratings.profile.errors()
    elif len(ratings.replicates):
        draws = ratings.replicates
        with warnings.catch_warnings(action="ignore"):  # NaN without two values
            rows = [np.nanstd(own[:, None] - draws, axis=0, ddof=1) for own in draws.T]
        spread = np.stack(rows) * np.sqrt(1 + 1 / _freedom(ratings))
    elif ratings.covariance is not None:
        spread = np.sqrt(np.maximum(0, gap_variances(ratings.covariance)))
    else:
        spread = np.full((len(ratings.models),) * 2, np.nan)
    return np.where(_unknown(ratings), np.nan, spread)


def shrinkage(ratings: Ratings, reference: Ratings) -> float:
    """The slope of ratings against those of a reference: below 1, differences are too small."""
    x, y = reference.values(ratings.models), ratings.values()
    x, y = x - x.mean(), y - y.mean()
    return float(x @ y / (x @ x)) if np.any(x) else float("nan")


def _gap(ratings: Ratings) -> Floats:
    """How far the row's model is above the column's."""
    rating = ratings.values()
    return np.asarray(rating[:, None] - rating[None, :])


def _freedom(ratings: Ratings) -> Floats:
    """The degrees of freedom of every gap: those of the model seen on fewer clusters, where the
    method does not tell them.
    """
    if ratings.profile is not None:
        return np.asarray(ratings.profile.freedom)
    given = [ratings[model].extra.get("df") for model in ratings.models]
    df = np.nan_to_num(np.array(given, float), nan=np.inf)
    return np.asarray(np.minimum(df[:, None], df[None, :]))


def _unknown(ratings: Ratings) -> Bools:
    """Pairs of models of which the evidence of one does not reach for an interval."""
    placed = set(_known_order(ratings))
    unknown = np.array([model not in placed for model in ratings.models], bool)
    return np.asarray(unknown[:, None] | unknown[None, :])


def _known_order(ratings: Ratings) -> tuple[str, ...]:
    """The models whose evidence reaches, best first."""
    return tuple(row.model for row in ratings.ratings if row.placed)


def _unit(ratings: Ratings) -> float:
    """Rating points of a natural unit."""
    return float(ratings.settings.get("scale", 400.0) / ln(10))


def _scores(ratings: Ratings, size: Floats) -> Floats:
    """Sizes in standard errors of their gaps, as normal deviates; 0 where nothing is known."""
    error = gap_errors(ratings)
    reaches = np.nan_to_num(error) > 0
    t = np.divide(size, error, out=np.zeros_like(size), where=reaches)
    return normal_score(t, _freedom(ratings))


def neighbour_score(looks: int = 1) -> float:
    """What decides two neighbours, as a normal deviate."""
    return span_scores(2, level(looks))[1]


def neighbour_gaps(ratings: Ratings) -> tuple[Floats, Floats]:
    """The ends of the interval of every gap at the level that decides two neighbours."""
    gap = _gap(ratings)
    half = t_score(neighbour_score(looks(ratings)), _freedom(ratings)) * gap_errors(ratings)
    return gap - half, gap + half


def two_digits(n: int) -> int:
    """A number to two digits: no forecast of battles is known better."""
    return round(n, min(0, 2 - len(str(n))))


def _all(names: Sequence[str]) -> str:
    """Some names in words: all of them, or the first and how many more."""
    more = [f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    shown = [*names[:_SHOWN], *more]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _from_replicates(replicates: Floats, gap: Floats, df: Floats) -> tuple[Floats, Floats, Floats]:
    low, high, share = np.empty((3, *gap.shape))
    wider = widening(df)
    for i in range(len(gap)):
        lead = gap[i] + wider[i] * (replicates[:, [i]] - replicates - gap[i])
        low[i], high[i] = percentiles(lead)
        counted = np.maximum(1, np.sum(~np.isnan(lead), axis=0))
        share[i] = (np.sum(lead > 0, axis=0) + 0.5 * np.sum(lead == 0, axis=0)) / counted
    return low, high, share
