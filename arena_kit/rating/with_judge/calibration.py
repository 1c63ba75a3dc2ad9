"""What a judge's verdict is worth in people's votes."""

from dataclasses import dataclass, replace
from math import log as ln

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import NORMAL_95, RatingError, check_connected, scores
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.bradley_terry.sandwich import Influence, covariance_of
from arena_kit.rating.with_judge.fay_herriot import judge_variance

Floats = NDArray[np.float64]

#: Battles that people and the judge both decided, below which no temperature is fitted.
MIN_SHARED = 200
#: Models that both rate, below which nothing is said about the judge's error.
MIN_MODELS = 5
#: Temperatures tried; at the lowest a verdict counts in full, at the highest hardly at all.
_COLDEST, _WARMEST = 0.05, 20.0
#: How closely the logarithm of the temperature is found.
_TOLERANCE = 1e-4
_GROUPS = 20


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
    check_connected(votes.models, votes.a, votes.b)

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

    cast, of_vote = _kinds(votes)
    times = np.bincount(of_vote)
    if not method.covariates:
        weights = verdicts.weights()
        verdicts, of_verdict = _kinds(verdicts)
        verdicts = replace(verdicts, weight=np.bincount(of_verdict, weights).astype(float))

    def loss(at: float) -> float:
        return _nll(cast, method.strengths(_softened(verdicts, float(np.exp(at)))), times)

    lowest = minimize_scalar(
        loss, bounds=(low, high), method="bounded", options={"xatol": _TOLERANCE}
    )
    return float(lowest.x)


def _kinds(log: BattleLog) -> tuple[BattleLog, NDArray[np.intp]]:
    """A battle of each kind (the same sides with the same score), and the kind of each battle."""
    n, (score, of_score) = len(log.models), np.unique(scores(log), return_inverse=True)
    key = (log.a.astype(np.int64) * n + log.b) * len(score) + of_score
    _, first, kind = np.unique(key, return_index=True, return_inverse=True)
    return log.select(first), kind


def _log_error(votes: BattleLog, verdicts: BattleLog, method: BradleyTerry, best: float) -> float:
    """The jackknife standard error, by groups of questions; 0 where verdicts count in full."""
    if best - ln(_COLDEST) < 0.01:
        return 0.0
    group = votes.clusters() % _GROUPS
    estimates = []
    for left_out in range(_GROUPS):
        some, same = votes.select(group != left_out), verdicts.select(group != left_out)
        if some.models == votes.models:
            low, high = max(best - 1, ln(_COLDEST)), min(best + 1, ln(_WARMEST))
            estimates.append(_best(some, same, method, low, high))
    n = len(estimates)
    return float(np.sqrt((n - 1) * np.var(estimates)))


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
    plain = replace(method, interval="sandwich")
    try:
        check_connected(votes.models, votes.a, votes.b)
    except RatingError:
        return None
    if len(votes) < MIN_SHARED or len(votes.models) < MIN_MODELS:
        return None
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
    theirs = judged.select([verdicts[key] for key in both]).sides_in_order()
    return mine, theirs


def _first_rows(log: BattleLog) -> dict[tuple[str, str, str], int]:
    """The first row of each question and pair of models."""
    rows = reversed(list(enumerate(log.compared())))
    return {(q, first, second): row for row, (q, first, second) in rows if q is not None}
