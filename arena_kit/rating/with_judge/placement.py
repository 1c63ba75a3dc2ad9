"""Placing one new model, known by a judge's verdicts, among models known by people's votes, and
what a judge's verdict is worth in these votes.
"""

from dataclasses import dataclass, field, replace
from math import log as ln
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating import base
from arena_kit.rating.base import NORMAL_95, Rating, RatingError, Ratings, scores
from arena_kit.rating.bradley_terry.clusters import Evidence, Influence, covariance_of
from arena_kit.rating.bradley_terry.likelihood import Cells
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.critical_values import t_score
from arena_kit.rating.resampling import Games
from arena_kit.rating.with_judge.fay_herriot import judge_variance

Floats = NDArray[np.float64]

#: Battles that people and the judge both decided, below which no temperature is fitted.
MIN_SHARED = 200
#: Models that both rate, below which nothing is said about the judge's error.
MIN_MODELS = 5
#: Temperatures tried; at the lowest a verdict counts in full, at the highest hardly at all.
_COLDEST, _WARMEST = 0.05, 20.0
#: How closely the logarithm of the temperature is found.
_LOG_TOLERANCE = 1e-4
_GROUPS = 20
_FAR = 100.0  # natural units, beyond any strength that so many battles could show
_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A temperature that turns a judge's verdicts into soft outcomes.

    A verdict has a margin from -1 (the second model wins) through 0 (a tie) to 1 and gives the
    first model the share 1 / (1 + exp(-margin / temperature)) of a win. The temperature is the
    one under which ratings by the judge's verdicts predict people's votes on the same battles
    best: a judge that is more decided than people are is toned down, one that is less decided
    counts in full. (Matching single votes instead would be wrong: a judge and people disagree
    on close battles most, and pairs far apart would be drawn together for it.)

    `log_error` is the standard error of the temperature's logarithm, by leaving out each
    twentieth of the questions in turn. `nll` is the mean negative log-likelihood of people's
    votes under ratings by the soft verdicts, `nll_full` the same with verdicts that count in
    full, `nll_human` under ratings by the votes themselves, which no judge can beat.
    """

    temperature: float
    log_error: float
    n_shared: int
    agreement: float | None
    nll: float
    nll_full: float
    nll_human: float

    def applied(self, judged: BattleLog) -> BattleLog:
        """The battles with soft outcomes."""
        return _softened(judged, self.temperature)

    @property
    def worth(self) -> float:
        """The share of a win that a clear verdict is worth; 1 counts in full."""
        return float(1 / (1 + np.exp(-1 / self.temperature)))


def calibrated(human: BattleLog, judged: BattleLog, method: BradleyTerry) -> Calibration:
    """The best temperature on the battles that people and the judge both decided: those with the
    same question and models that count under `method`.
    """
    votes, verdicts = _shared(method.kept(human)[0], method.kept(judged)[0])
    if len(votes) < MIN_SHARED:
        raise RatingError(
            f"soft outcomes need {MIN_SHARED} battles that people and the judge both decided "
            f"(same question, same models), found {len(votes)}"
        )
    base.check_connected(votes.models, votes.a, votes.b)

    best = _best(votes, verdicts, method, ln(_COLDEST), ln(_WARMEST))
    return Calibration(
        temperature=float(np.exp(best)),
        log_error=_log_error(votes, verdicts, method, best),
        n_shared=len(votes),
        agreement=_agreement(votes, verdicts),
        nll=_nll(votes, method.strengths(_softened(verdicts, float(np.exp(best))))),
        nll_full=_nll(votes, method.strengths(verdicts)),
        nll_human=_nll(votes, method.strengths(votes)),
    )


def _best(
    votes: BattleLog, verdicts: BattleLog, method: BradleyTerry, low: float, high: float
) -> float:
    """The temperature (its logarithm) between two at which ratings by verdicts predict the votes
    best. Battles that are alike are looked at once; covariates make each its own.
    """
    from scipy.optimize import minimize_scalar

    first, kind = Games.of(votes).kinds()
    cast, times = votes.select(first), np.bincount(kind)
    if not method.covariates:
        first, kind = Games.of(verdicts).kinds()
        weight = np.bincount(kind, verdicts.weights()).astype(float)
        verdicts = replace(verdicts.select(first), weight=weight)

    def loss(at: float) -> float:
        return _nll(cast, method.strengths(_softened(verdicts, float(np.exp(at)))), times)

    lowest = minimize_scalar(
        loss, bounds=(low, high), method="bounded", options={"xatol": _LOG_TOLERANCE}
    )
    return float(lowest.x)


def _log_error(votes: BattleLog, verdicts: BattleLog, method: BradleyTerry, best: float) -> float:
    """The jackknife standard error, by groups of questions; 0 where verdicts count in full."""
    if best - ln(_COLDEST) < 0.01:
        return 0.0
    group = votes.clusters() % _GROUPS
    estimates, low, high = [], max(best - 1, ln(_COLDEST)), min(best + 1, ln(_WARMEST))
    for left_out in range(_GROUPS):
        some, same = votes.select(group != left_out), verdicts.select(group != left_out)
        if some.models == votes.models:
            estimates.append(_best(some, same, method, low, high))
    return float(np.sqrt((len(estimates) - 1) * np.var(estimates)))


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeError:
    """How far a judge's ratings are from people's, beyond what chance explains.

    `sd` is what to allow for on a further model, in rating points: 1.96 times as much holds 95 %
    of the judge's errors, given how few models showed them. The variance of these errors is
    integrated over its posterior (see `fay_herriot`), so agreement by luck does not make it zero.
    """

    sd: float
    n_models: int
    n_shared: int


def judge_error(
    human: BattleLog, judged: BattleLog, method: BradleyTerry, calibration: Calibration | None
) -> JudgeError | None:
    """The judge's error on the models that both rate; None where there are too few of them."""
    votes, verdicts = _shared(method.kept(human)[0], method.kept(judged)[0])
    if calibration is not None:
        verdicts = calibration.applied(verdicts)
    few = len(votes) < MIN_SHARED or len(votes.models) < MIN_MODELS
    if few or np.ptp(base.components(len(votes.models), votes.a, votes.b)):
        return None
    plain = replace(method, interval="sandwich")
    people, judge = plain(votes), plain(verdicts)
    gap = judge.values(votes.models) - people.values(votes.models)
    both = Influence(votes, people).shared(Influence(verdicts, judge))
    noise = covariance_of(people) + covariance_of(judge) - both - both.T  # they share battles
    half = judge_variance(gap, noise).half_width(models=len(gap))
    return JudgeError(sd=half / NORMAL_95, n_models=len(gap), n_shared=len(votes))


def _softened(judged: BattleLog, temperature: float) -> BattleLog:
    margin = 2 * scores(judged) - 1
    return replace(judged, share_a=1 / (1 + np.exp(-margin / temperature)))


def _nll(votes: BattleLog, strength: Floats, times: NDArray[np.intp] | None = None) -> float:
    """How badly strengths predict votes, each of which may stand for several."""
    eta, vote = strength[votes.a] - strength[votes.b], scores(votes)
    loss = vote * np.logaddexp(0, -eta) + (1 - vote) * np.logaddexp(0, eta)
    return float(np.average(loss, weights=times))


def _agreement(votes: BattleLog, verdicts: BattleLog) -> float | None:
    """How often the two name the same winner, where both name one."""
    vote, verdict = scores(votes) - 0.5, scores(verdicts) - 0.5
    decided = (vote != 0) & (verdict != 0)
    return float(np.mean((vote * verdict)[decided] > 0)) if decided.any() else None


def _shared(human: BattleLog, judged: BattleLog) -> tuple[BattleLog, BattleLog]:
    """The first vote and the first verdict on every battle that has both, with equal sides."""
    votes, verdicts = _first_rows(human), _first_rows(judged)
    both = sorted(votes.keys() & verdicts.keys())
    mine = human.select([votes[key] for key in both]).sides_in_order()
    return mine, judged.select([verdicts[key] for key in both]).sides_in_order()


def _first_rows(log: BattleLog) -> dict[tuple[str, str, str], int]:
    """The first row of each question and pair of models."""
    rows = reversed(list(enumerate(log.compared())))
    return {(q, first, second): row for row, (q, first, second) in rows if q is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A model among others, placed in two ways on one scale.

    `joint` rates people's votes and the judge's verdicts together. In `anchored` the others
    keep the ratings that people's votes alone give them (`human`), so placing a model never
    moves them. `hidden` is the model's rating by votes that people cast on it and that were
    set aside, where there are any.
    """

    model: str
    joint: Ratings
    anchored: Ratings
    human: Ratings
    hidden: Rating | None
    left_out: dict[str, int]
    unused: dict[str, int]
    calibration: Calibration | None
    calibration_error: float
    judge_error: JudgeError | None
    battles: BattleLog = field(repr=False)

    @property
    def extra_error(self) -> float:
        """What is known to be uncertain beside the evidence, as a standard deviation in rating
        points: the temperature, and how far this judge's ratings of other models are from
        people's.
        """
        judge = self.judge_error.sd if self.judge_error else 0.0
        return float(np.hypot(self.calibration_error, judge))

    @property
    def shown(self) -> Ratings:
        """The joint ratings as they may be shown: the model's interval, and every gap to it, also
        hold `extra_error`.
        """
        return _widened(self.joint, self.model, self.extra_error)

    @property
    def shown_anchored(self) -> Ratings:
        """The same with the others held fixed."""
        return _widened(self.anchored, self.model, self.extra_error)

    @property
    def cautious(self) -> Rating | None:
        """The joint rating with an interval for where people would put the model; None where the
        judge's own error is not known, for then nobody can say.
        """
        row = self.shown[self.model]
        return None if self.judge_error is None or row.ci_low is None else row

    @property
    def n_judged(self) -> int:
        """Judged battles that count."""
        return self.joint[self.model].n_battles


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Place `model` by judged battles among the models of an arena of human battles.

    The intervals of `joint` and `anchored` do not cover how far the judge differs from people:
    they say where this judge puts the model. Those of `Placed.shown` do, where both rated enough
    models.
    Ties, both-bad votes and inconsistent judgments are treated as `method` says.

    Parameters
    ----------
    model
        The model to place. Human votes on it are set aside, never used for its rating.
    min_battles
        Models with fewer human battles are left out and listed; so are judged battles
        against them.
    soft
        Tones verdicts down as battles that both people and the judge decided suggest: see
        `Calibration`. Needs such battles among the other models.
    method
        How battles become strengths. The mean of the arena's models is its center.
    """

    model: str
    min_battles: int = 500
    soft: bool = False
    method: BradleyTerry = field(default_factory=lambda: BradleyTerry(interval="percentile"))

    def __post_init__(self) -> None:
        if self.min_battles < 0:
            raise ValueError(f"min_battles must be 0 or more, not {self.min_battles!r}")
        if self.method.ties != "half" or self.method.covariates:
            raise ValueError("method must have ties 'half' and no covariates")
        if self.method.baseline or self.method.center_on:
            raise ValueError("method must not name a baseline or center_on: the arena is the scale")

    def __call__(self, human: BattleLog, judged: BattleLog) -> Placed:
        """Place the model; raises `RatingError` where that is not possible."""
        hidden = _with_model(human, self.model)
        others = human.select(~hidden)
        arena, left_out = self._split(others)
        calibration = calibrated(others, judged, self.method) if self.soft else None
        verdicts, unused = self._judged(judged, arena)
        ours = verdicts if calibration is None else calibration.applied(verdicts)
        method = replace(self.method, center_on=arena.models)
        sandwich = replace(method, interval="sandwich")
        people = sandwich(arena)
        battles = BattleLog.joined(arena, ours)
        return Placed(
            model=self.model,
            joint=method(battles),
            anchored=_anchored(people, ours, self.model, sandwich),
            human=people,
            hidden=_hidden(human, arena, self.model, sandwich) if hidden.any() else None,
            left_out=left_out,
            unused=unused,
            calibration=calibration,
            calibration_error=_moved(people, verdicts, self.model, sandwich, calibration),
            judge_error=judge_error(others, judged, self.method, calibration),
            battles=battles,
        )

    def arena(self, human: BattleLog) -> BattleLog:
        """The human battles that count: without the model, among models with enough of them."""
        return self._split(human.select(~_with_model(human, self.model)))[0]

    def _split(self, others: BattleLog) -> tuple[BattleLog, dict[str, int]]:
        """The battles among models with enough of them, and how many the others had."""
        counts = others.per_model()
        few = counts < self.min_battles
        arena = others.select(~(few[others.a] | few[others.b]))
        gone = {*others.models} - {*arena.models}  # too few, or all against those with too few
        left_out = {m: round(counts[i]) for i, m in enumerate(others.models) if m in gone}
        if not len(arena):
            raise RatingError(
                f"no two models have {self.min_battles} human battles (min_battles); "
                f"the most any has is {round(counts.max(initial=0))}"
            )
        return arena, left_out

    def _judged(self, judged: BattleLog, arena: BattleLog) -> tuple[BattleLog, dict[str, int]]:
        """The judged battles of the model against the arena, and how many others there were."""
        mine = _with_model(judged, self.model)
        known = np.isin(np.array(judged.models, object), [*arena.models, self.model])
        usable = mine & known[judged.a] & known[judged.b]
        if not usable.any():
            raise RatingError(
                f"no judged battle of {self.model!r} against a model of the arena; "
                f"judged models: {', '.join(judged.models)}; arena: {', '.join(arena.models)}"
            )
        unused = {
            "judged, of other models": int((~mine).sum()),
            "judged, against a model left out": int((mine & ~usable).sum()),
        }
        return judged.select(usable), unused


def _widened(ratings: Ratings, model: str, extra: float) -> Ratings:
    """The ratings with a further error of one model's, independent of the evidence."""
    row = ratings[model]
    se = row.extra["se"]
    if not extra or se is None or row.ci_low is None:
        return ratings
    wide = float(np.hypot(se, extra))
    low, high = row.rating - NORMAL_95 * wide, row.rating + NORMAL_95 * wide
    wider = replace(row, ci_low=low, ci_high=high, extra=row.extra | {"se": wide})
    at = ratings.models.index(model)
    replicates, covariance = ratings.replicates.copy(), ratings.covariance
    if len(replicates):
        replicates[:, at] += extra * _spread_evenly(replicates[:, at])
    if covariance is not None:
        covariance = covariance.copy()
        covariance[at, at] += extra**2
    rows = tuple(wider if each is row else each for each in ratings.ratings)
    return replace(
        ratings, ratings=rows, replicates=replicates, covariance=covariance, profile=None
    )


def _spread_evenly(replicates: Floats) -> Floats:
    """Standard normal errors for replicates, spread over small and large ones by a lattice (the
    golden ratio's), which is far more even than random draws.
    """
    n = len(replicates)
    share = (np.arange(n) + 0.5) * (5**0.5 - 1) / 2 % 1
    error = np.empty(n)
    error[np.argsort(replicates)] = [NormalDist().inv_cdf(each) for each in share]
    return error


def _with_model(battles: BattleLog, model: str) -> NDArray[np.bool_]:
    """Which battles the model takes part in."""
    if model not in battles.models:
        return np.zeros(len(battles), bool)
    code = battles.models.index(model)
    return np.asarray((battles.a == code) | (battles.b == code))


def _hidden(human: BattleLog, arena: BattleLog, model: str, method: BradleyTerry) -> Rating | None:
    """The model's rating by people's own votes, on the arena's scale."""
    try:
        return method(human.among([*arena.models, model]))[model]
    except (RatingError, KeyError):
        return None


def _anchored(people: Ratings, ours: BattleLog, model: str, method: BradleyTerry) -> Ratings:
    """The arena as people rate it, and the model placed into it."""
    log, dropped = method.kept(ours)
    if not len(log):
        raise RatingError(f"no battle of {model!r} counts: all are dropped")
    placed, variance, pull = _spot(log, people, model, method)
    rows = sorted([*people.ratings, placed], key=lambda row: (-row.rating, row.model))
    models, arena = sorted([*people.models, model]), np.asarray(people.covariance, float)
    at = models.index(model)
    covariance = np.insert(np.insert(arena, at, 0.0, axis=0), at, 0.0, axis=1)
    covariance[at, :] = covariance[:, at] = np.insert(pull @ arena, at, variance)
    return replace(
        people,
        settings=people.settings | {"anchored": True},
        ratings=tuple(rows),
        models=tuple(models),
        n_battles=people.n_battles + placed.n_battles,
        dropped={kind: n + dropped[kind] for kind, n in people.dropped.items()},
        covariance=covariance,
        profile=None,
    )


def _moved(
    people: Ratings,
    verdicts: BattleLog,
    model: str,
    method: BradleyTerry,
    calibration: Calibration | None,
) -> float:
    """How far the temperature's standard error moves the model, in rating points."""
    if calibration is None or not calibration.log_error:
        return 0.0
    places = []
    for sign in (-1, 1):
        moved = calibration.temperature * np.exp(sign * calibration.log_error)
        soft = replace(calibration, temperature=float(moved)).applied(verdicts)
        places.append(_spot(method.kept(soft)[0], people, model, method)[0].rating)
    return abs(places[1] - places[0]) / 2


def _spot(
    log: BattleLog, people: Ratings, model: str, method: BradleyTerry
) -> tuple[Rating, float, Floats]:
    """Where the model stands with the arena held fixed, its variance, and how far each anchor pulls
    it.
    """
    unit = method.scale / ln(10)
    evidence = Evidence.of(log, np.empty((len(log), 0)), method.cluster)
    games = _Games(evidence.rows, log, people, model, method)
    theta = games.solved(model)
    weight = games.weight(theta)
    pull = np.bincount(games.opponent, weight, len(people.models)) / weight.sum()
    meat = games.spread(theta, evidence) / weight.sum() ** 2
    variance = unit**2 * meat + float(pull @ np.asarray(people.covariance) @ pull)
    rating = method.center + unit * theta
    se = float(np.sqrt(variance))
    at = log.models.index(model)
    enough = evidence.pieces >= 2 and not evidence.scarce[at] and bool(np.isfinite(variance))
    df = float(evidence.freedom[at, at])
    half = float(t_score(NORMAL_95, df)) * se
    placed = Rating(
        model=model,
        rating=rating,
        ci_low=rating - half if enough else None,
        ci_high=rating + half if enough else None,
        n_battles=round(log.weights().sum()),
        extra={"se": se if enough else None, "df": df if enough else None},
    )
    return placed, variance, pull


class _Games:
    """The model's games against anchors: opponent, its strength, the share won, the weight. The
    prior's games stand behind those of the log.
    """

    def __init__(
        self, rows: Cells, log: BattleLog, people: Ratings, model: str, method: BradleyTerry
    ) -> None:
        first = rows.a == log.models.index(model)
        place = {name: i for i, name in enumerate(people.models)}
        codes = np.array([place.get(name, -1) for name in log.models])
        opponent = codes[np.where(first, rows.b, rows.a)]
        won, games = np.where(first, rows.wins[0], rows.wins[1]), rows.games
        needed = method.prior_when == "always" or not 0 < won.sum() < games.sum()
        met = np.unique(opponent) if method.prior and needed else np.empty(0, np.intp)
        self.n_real, self.opponent = len(rows.a), np.append(opponent, met)
        strength = people.values() - method.center
        self.strength = strength[self.opponent] * ln(10) / method.scale
        self.won = np.append(won, np.full(len(met), method.prior))
        self.games = np.append(games, np.full(len(met), 2 * method.prior))

    def chance(self, theta: float) -> Floats:
        return np.asarray(1 / (1 + np.exp(self.strength - theta)))

    def weight(self, theta: float) -> Floats:
        """What each game says about the model's strength."""
        p = self.chance(theta)
        return self.games * p * (1 - p)

    def slope(self, theta: float) -> float:
        """The slope of the log-likelihood in the model's strength."""
        return float((self.won - self.games * self.chance(theta)).sum())

    def solved(self, model: str) -> float:
        """The model's strength by maximum likelihood: the root of the slope."""
        from scipy.optimize import brentq

        low, high = self.strength.min() - _FAR, self.strength.max() + _FAR
        if self.slope(low) <= 0 or self.slope(high) >= 0:
            done = "lost" if self.slope(low) <= 0 else "won"
            raise RatingError(
                f"{model} {done} every battle, so it has no finite place; set a prior above 0"
            )
        return float(brentq(self.slope, low, high, xtol=_TOLERANCE))

    def spread(self, theta: float, evidence: Evidence) -> float:
        """The variance of the slope, by pieces of evidence."""
        residual = (self.won - self.games * self.chance(theta))[: self.n_real]
        residual = residual / np.sqrt(evidence.counts)
        total = 0.0
        for part in evidence.partitions():
            own = residual if part.clusters is None else np.bincount(part.clusters, residual)
            small_sample = part.pieces / (part.pieces - 1) if part.pieces > 1 else 1.0
            total += part.sign * small_sample * float((own**2).sum())
        return max(0.0, total)
