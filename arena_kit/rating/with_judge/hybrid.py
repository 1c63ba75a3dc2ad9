"""People and judge together: few votes and many verdicts become one board."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import NORMAL_95, RatingError, Ratings, ranked, some
from arena_kit.rating.bradley_terry.clusters import Influence, covariance_of
from arena_kit.rating.bradley_terry.method import BradleyTerry, one_thread
from arena_kit.rating.with_judge.chosen import Overlap, on_voted, overlap, weighted
from arena_kit.rating.with_judge.fay_herriot import Combined, JudgeVariance, TwoRatings, combined
from arena_kit.rating.with_judge.placement import MIN_MODELS

Floats = NDArray[np.float64]

#: How often, at most, a board names a disagreement although the judge errs on all models alike.
FALSE_ALARMS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """A model that people rate `gap` points away from what the judge and the other models let
    expect; `chance` is the probability of so large a gap on any model, had the judge erred alike
    on all of them.
    """

    model: str
    gap: float
    chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """How many human votes on a model would say as much about it as the judge does, with the
    interval that the posterior of the judge's error gives.
    """

    votes: float
    low: float
    high: float

    def __str__(self) -> str:
        low, high = (f"{round(x):,}" for x in (self.low, self.high))
        return f"this judge is worth about {round(self.votes):,} votes per model ({low} to {high})"


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridRatings:
    """Ratings by people and judge together, and what they were made of.

    `ratings` are on the scale of human votes; their intervals cover 95 % *on average* over models,
    less for a model on which the judge errs more than usual. `disagreements`
    names models on which the two differ by more than the judge's usual error, `left_out` those
    with too few human votes, which do not count, and how many they are. `explained` is the share
    of the variance of people's ratings that verdicts take off where votes are on chosen battles.
    """

    ratings: Ratings
    people: Ratings
    judge: Ratings
    slope: float
    slope_se: float
    error: JudgeVariance
    worth: Worth
    disagreements: tuple[Disagreement, ...]
    left_out: dict[str, int]
    explained: float | None = None

    def by_judge(self, model: str) -> float | None:
        """Where the judge alone puts a model on the scale of people's votes; None for one that it
        never saw.
        """
        if model not in self.judge.models:
            return None
        known = {row.model: row.rating for row in self.judge.ratings}
        usual = float(np.mean(list(known.values())))
        named = self.people.settings["center_on"] or self.people.models
        middle = float(np.mean([known.get(each, usual) for each in named]))
        return float(self.people.settings["center"]) + self.slope * (known[model] - middle)

    def gain(self, model: str) -> float | None:
        """How many times as many votes people alone would need for an interval as narrow; None for
        a model that people did not rate.
        """
        alone, both = (_width(each, model) for each in (self.people, self.ratings))
        return (alone / both) ** 2 if alone and both else None

    def as_votes(self, model: str) -> float:
        """How many votes of people on a model would give an interval as narrow as its own."""
        gain, width = self.gain(model), _width(self.ratings, model)
        if gain is not None:
            return gain * self.people[model].n_battles
        return _vote_variance(self.people) / ((width or np.inf) / (2 * NORMAL_95)) ** 2

    @property
    def judge_share(self) -> float:
        """How much of a rating the judge makes up, on a model with the median number of votes."""
        votes = float(np.median([row.n_battles for row in self.people.ratings]))
        return self.worth.votes / (self.worth.votes + votes)

    @property
    def follows_people(self) -> bool:
        """Whether the judge's ratings surely rise with people's: the slope's 95 % interval is
        above 0.
        """
        return self.slope > NORMAL_95 * self.slope_se

    @property
    def effective_sample(self) -> float:
        """How many human votes alone would give each model that people rated such an interval; a
        vote is on two models.
        """
        return sum(self.as_votes(model) for model in self.people.models) / 2

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return self.ratings.as_dict() | {
            "people": self.people.as_dict()["ratings"],
            "judge": self.judge.as_dict()["ratings"],
            "by_judge": {model: self.by_judge(model) for model in self.judge.models},
            "judge_share": self.judge_share,
            "follows_people": self.follows_people,
            "worth": asdict(self.worth) | {"sentence": str(self.worth)},
            "disagreements": [asdict(each) for each in self.disagreements],
            "effective_sample": self.effective_sample,
            "left_out": self.left_out,
            "explained": self.explained,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Hybrid:
    """Rate models by human votes and a judge's verdicts together (Fay–Herriot).

    The judge's rating of a model, brought to the scale of people's by a slope, is a prior for the
    people's rating. How far it may be off is learned from the models that both rated, and that
    uncertainty is integrated over. A model without human votes is placed by the judge alone; one
    that the judge never saw is rated by its votes.

    Parameters
    ----------
    min_battles
        Human votes on a model with fewer battles are left aside: so few do not show how uncertain
        they are. The judge places it.
    method
        How battles become strengths, for people and judge. The mean of the models that people
        rate, or of those of them in `center_on`, is its center.
    """

    min_battles: int = 10
    method: BradleyTerry = field(default_factory=BradleyTerry)

    def __post_init__(self) -> None:
        if self.min_battles < 1:
            raise ValueError(f"min_battles must be 1 or more, not {self.min_battles!r}")
        if self.method.ties != "half" or self.method.covariates:
            raise ValueError("method must have ties 'half' and no covariates")
        if self.method.baseline or self.method.interval != "sandwich":
            raise ValueError("method must have interval 'sandwich' and no baseline")

    def __call__(
        self, human: BattleLog, judged: BattleLog, chosen: BattleLog | None = None
    ) -> HybridRatings:
        """Rate all models; raises `RatingError` where that is not possible. With the `chosen`
        battles (see `choose_battles`) votes are weighted, and verdicts on the other battles count
        for votes that were not asked for.
        """
        votes, left_out = self._votes(human if chosen is None else weighted(human, chosen))
        verdicts, _ = self.method.kept(judged)
        self._refuse(human, votes, verdicts)
        plain = replace(self.method, center_on=())
        people, judge = plain(votes), plain(judged)
        with one_thread():
            voted = None if chosen is None else on_voted(votes, verdicts, judge)
            common = overlap(Influence(votes, people), Influence(verdicts, judge), voted)
            pair = _pair(people, judge, common, self.method.center_on or people.models)
            found = combined(pair)
        names, alone = _names(people, judge), self.method(votes)
        return HybridRatings(
            ratings=self._ratings(names, found, alone, judge),
            people=alone,
            judge=judge,
            slope=found.slope,
            slope_se=found.slope_se,
            error=found.error,
            worth=_worth(found, pair, people),
            disagreements=_disagreements(names, found, pair.voted & pair.judged),
            left_out=left_out,
            explained=None if chosen is None else common.share(covariance_of(people)),
        )

    def _refuse(self, human: BattleLog, votes: BattleLog, verdicts: BattleLog) -> None:
        """Refuse too few models that both rate, and a center that people do not rate."""
        both = sorted({*votes.models} & {*verdicts.models})
        if not {*human.models} & {*verdicts.models}:
            raise RatingError(
                f"people and the judge share no model: people voted on {some(human.models)}; the "
                f"judge decided on {some(verdicts.models)}"
            )
        if len(both) < MIN_MODELS:
            raise RatingError(
                f"{MIN_MODELS} models must have verdicts and {self.min_battles} human battles "
                f"(min_battles), found {len(both)}: {', '.join(both) or 'none'}"
            )
        if unknown := sorted({*self.method.center_on} - {*votes.models}):
            raise RatingError(
                f"center_on: {some(unknown)}: not among the models with {self.min_battles} human "
                f"battles (min_battles): {some(votes.models)}"
            )

    def _votes(self, human: BattleLog) -> tuple[BattleLog, dict[str, int]]:
        """The human battles among models with enough of them, and how many the others had."""
        log = whole = self.method.kept(human)[0]
        while len(log) and (few := log.per_model() < self.min_battles).any():
            log = log.select(~(few[log.a] | few[log.b]))
        counts = dict(zip(whole.models, whole.per_model(), strict=True))
        return log, {m: round(n) for m, n in counts.items() if m not in log.models}

    def _ratings(
        self, names: tuple[str, ...], found: Combined, people: Ratings, judge: Ratings
    ) -> Ratings:
        """The board, best first. An interval is no wider than by votes alone: where people and
        judge disagree, doubt about the judge can make it so, by a few percent.
        """
        votes, verdicts = (
            np.array([each[m].n_battles if m in each.models else 0 for m in names])
            for each in (people, judge)
        )
        alone = np.array([_width(people, model) for model in names], float)
        share = np.fmin(1.0, alone / (found.high - found.low))  # NaN: people did not rate it
        low, high = (found.rating + share * (end - found.rating) for end in (found.low, found.high))
        se, center = np.sqrt(np.maximum(0.0, np.diag(found.covariance))), self.method.center
        extra = {"se": se, "votes": votes, "verdicts": verdicts}
        return Ratings(
            method="hybrid",
            settings=asdict(self.method) | {"min_battles": self.min_battles},
            ratings=ranked(
                names, center + found.rating, (center + low, center + high), votes + verdicts, extra
            ),
            n_battles=people.n_battles + judge.n_battles,
            dropped={kind: n + judge.dropped[kind] for kind, n in people.dropped.items()},
            models=names,
            covariance=found.covariance,
            fit={"slope": found.slope, "slope_se": found.slope_se, "judge_sd": found.error.sd},
        )


def _width(ratings: Ratings, model: str) -> float | None:
    """The width of a model's interval; None where there is none."""
    row = ratings[model] if model in ratings.models else None
    if row is None or row.ci_low is None or row.ci_high is None:
        return None
    return row.ci_high - row.ci_low


def _names(people: Ratings, judge: Ratings) -> tuple[str, ...]:
    return tuple(sorted({*people.models, *judge.models}))


def _pair(people: Ratings, judge: Ratings, common: Overlap, center: tuple[str, ...]) -> TwoRatings:
    """Both ratings and their noise, in the order of all names."""
    names = _names(people, judge)
    voted = np.array([names.index(model) for model in people.models])
    judged = np.array([names.index(model) for model in judge.models])
    people_noise, judge_noise, both = np.zeros((3, len(names), len(names)))
    people_noise[np.ix_(voted, voted)] = covariance_of(people) - common.explained
    judge_noise[np.ix_(judged, judged)] = covariance_of(judge)
    both[np.ix_(voted, judged)] = common.shared
    shift = np.zeros(len(names))
    shift[voted] = common.shift
    return TwoRatings(
        people=_centered(names, people) + shift,
        judge=_centered(names, judge),
        people_noise=people_noise,
        judge_noise=judge_noise,
        shared=both,
        voted=np.isin(np.arange(len(names)), voted),
        judged=np.isin(np.arange(len(names)), judged),
        center=np.isin(np.array(names, object), center),
    )


def _centered(names: tuple[str, ...], ratings: Ratings) -> Floats:
    center = ratings.settings["center"]
    known = {row.model: row.rating - center for row in ratings.ratings}
    return np.array([known.get(model, 0.0) for model in names])


def _worth(found: Combined, pair: TwoRatings, people: Ratings) -> Worth:
    """What the judge says about a model, in votes: one of m votes on a model leaves a variance of
    about c / m, and c is known from the models that people rate.
    """
    single = _vote_variance(people)
    noise = found.slope**2 * float(np.median(np.diag(pair.judge_noise)[pair.judged]))
    low, votes, high = (single / (found.error.quantile(q) + noise) for q in (0.975, 0.5, 0.025))
    return Worth(votes=votes, low=low, high=high)


def _vote_variance(people: Ratings) -> float:
    """The variance of a rating by one vote on its model, as the median model shows it."""
    counts = np.array([people[model].n_battles for model in people.models])
    return float(np.median(np.diag(covariance_of(people)) * counts))


def _disagreements(
    names: tuple[str, ...], found: Combined, both: NDArray[np.bool_]
) -> tuple[Disagreement, ...]:
    """The models that stand out, most surprising first, by Holm's procedure: on a board without
    any, one is named in at most `FALSE_ALARMS` of cases.
    """
    order = [int(i) for i in np.argsort(found.surprise) if both[i]]
    named, worst = [], 0.0
    for rank, i in enumerate(order):
        worst = max(worst, float(found.surprise[i]) * (len(order) - rank))
        if worst > FALSE_ALARMS:
            break
        named.append(Disagreement(model=names[i], gap=float(found.gap[i]), chance=worst))
    return tuple(named)
