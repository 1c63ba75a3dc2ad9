"""Bradley–Terry: one strength per model that best explains all battles at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import cache
from math import log as ln
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating import base
from arena_kit.rating.bradley_terry.bootstrap import Priors, replicates
from arena_kit.rating.bradley_terry.clusters import Cluster, Evidence, Votes, covariance, stretched
from arena_kit.rating.bradley_terry.likelihood import (
    TIE_MODELS,
    Cells,
    Fit,
    Floats,
    Pairs,
    check_identified,
    fitted,
)
from arena_kit.rating.critical_values import t_score, widening
from arena_kit.rating.resampling import interval

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


from dataclasses import field
from typing import Any

from arena_kit.rating.base import NORMAL_95, gap_variances, transitive_closure
from arena_kit.rating.bradley_terry.likelihood import constrained
from arena_kit.rating.critical_values import normal_score

BothBad = Literal["tie", "exclude"]
Inconsistent = Literal["tie", "drop"]
Sample = Literal["these", "like_these"]
#: Judges that claims about others like them need; two leave one degree of freedom.
MIN_JUDGES = 3

#: Resamples without a finite rating, as a share, from which no interval is given.
_MOST_LOST = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class BradleyTerry:
    """Maximum-likelihood strengths: a beats b with odds 10^((rating_a - rating_b) / scale).

    The order of battles plays no part; a soft outcome counts as that share of a win. The
    interval is by default the cluster jackknife's, by question and by voter: battles on one
    question share that question, and counting them as independent claims more certainty than
    there is. Few or unequal clusters widen it (Student's t). A model that others do not bound has
    an interval without an end, by the profile likelihood. `P(a above b)`, which orders are decided
    and rank ranges are in `claims`.

    Parameters
    ----------
    scale
        The rating gap at which the odds are 10:1.
    center, baseline, center_on
        The mean rating of all models, or of those named in `center_on`; or, where a
        `baseline` model is named, its rating.
    prior, prior_when
        Wins added to each side of pairs that met: `needed` adds them only where one never beat
        the other, not even through others, since no finite rating exists without; `always`
        draws all models together, the more the fewer battles a pair has. 0 is plain maximum
        likelihood.
    ties
        A tie is `half` a win for each side, or an outcome of its own under the model of
        `davidson`, whose parameter is fitted too (`fit["tie"]`).
    both_bad
        A both-bad vote counts as a `tie`, or is left out (`exclude`).
    inconsistent
        A judgment whose two orders disagree counts as a `tie`, or is left out (`drop`).
    covariates
        Columns of the log fitted jointly, so that ratings hold at equal length, say. A
        coefficient in `fit` is what a typical difference (its root mean square) is worth in
        rating points; a rating's `uncontrolled` is what it would be without them.
    interval
        `sandwich` needs no resampling; `percentile` draws whole questions again (single votes
        where questions have one battle each) `resamples` times, from `seed`.
    cluster
        What counts as one piece of evidence: a `question`, a `voter`, `both` (two-way; voters
        that are fewer than eight in effect are left out, and `notes` says so), or each `battle`
        by itself. With questions, claims generalise to similar prompts; without, about these
        prompts.
    judges
        Verdicts of several judges are about `these`, or about what a further judge `like_these`
        would say: how far judges' own ratings lie apart is then added to the variance.
    looks
        How many times the board is read while battles come in: more looks need more evidence
        before an order is decided.
    """

    scale: float = 400.0
    center: float = 1000.0
    baseline: str = ""
    center_on: tuple[str, ...] = ()
    prior: float = 0.5
    prior_when: Literal["needed", "always"] = "needed"
    ties: Literal["half", "davidson"] = "half"
    both_bad: BothBad = "tie"
    inconsistent: Inconsistent = "drop"
    covariates: tuple[str, ...] = ()
    interval: Literal["sandwich", "percentile"] = "sandwich"
    cluster: Cluster = "both"
    judges: Sample = "these"
    resamples: int = 500
    seed: int = 0
    looks: int = 1

    def __post_init__(self) -> None:
        for name in ("covariates", "center_on"):
            if isinstance(given := getattr(self, name), str):
                raise ValueError(f"{name} must be several names, not {given!r}")  # noqa: TRY004
            object.__setattr__(self, name, tuple(given))
        base.check_settings(
            self,
            ("scale", 0 < self.scale < float("inf"), "a finite number above 0"),
            ("center", abs(self.center) < float("inf"), "a finite number"),
            ("center_on", not (self.center_on and self.baseline), "empty beside a baseline"),
            ("prior", 0 <= self.prior < float("inf"), "a finite number, 0 or more"),
            ("resamples", self.resamples >= 100, "100 or more"),
            ("seed", self.seed >= 0, "0 or more"),
            ("looks", self.looks >= 1, "1 or more"),
        )

    def __call__(self, battles: base.Battles) -> base.Ratings:
        """Rate a log or a frame; raises `RatingError` where no rating exists."""
        with one_thread():
            return self._rated(base.as_log(battles))

    def _rated(self, battles: BattleLog) -> base.Ratings:
        log, dropped = self.kept(battles)
        base.check_counted(battles, log, dropped)
        evidence = Evidence.of(log, self._x(log), self.cluster)
        pairs = Pairs.of(evidence.rows, len(log.models))
        pooled = pairs.pooled(evidence.rows)
        fit, priors = self.peak(log, evidence.rows, pairs, pooled)
        draws = np.empty((0, fit.n_models))
        narrow = spread = covariance(fit, evidence)
        jury = Judges.of(log, replace(self, covariates=()).strengths)
        if self.judges == "like_these":
            freedom = np.minimum(evidence.freedom, len(jury.strength) - 1.0)
            evidence, spread = replace(evidence, freedom=freedom), spread.copy()
            spread[: len(freedom), : len(freedom)] += jury.further()
        if self.interval != "sandwich":
            draws = self.resampled(fit, evidence.votes(self.seed, self.resamples), priors)
        if len(draws) and evidence.voters is not None:
            narrow = covariance(fit, replace(evidence, voters=None))
        if len(draws) and narrow is not spread:
            draws = stretched(draws, fit.strength, narrow, spread)
        rated = self.in_points(log, dropped, evidence, pooled, fit, priors, spread, draws)
        if len(jury.strength) < 2:
            return rated
        figures = jury.figures(log)
        notes = (*rated.notes, *_judges_told(figures, len(jury.strength), self.judges))
        return replace(rated, fit=rated.fit | figures, notes=notes)

    def in_points(
        self,
        log: BattleLog,
        dropped: dict[str, int],
        evidence: Evidence,
        pooled: Cells,
        fit: Fit,
        priors: Priors,
        spread: Floats,
        draws: Floats,
    ) -> base.Ratings:
        """A fit, its covariance and its resamples (none for a sandwich) as ratings."""
        n, rows = fit.n_models, evidence.rows
        unit = self.scale / ln(10)
        anchors = [log.models.index(model) for model in self._named_anchors() or log.models]
        counted, needed = rows if self.covariates else pooled, self.prior_when == "needed"
        profile = Profile.of(fit, counted, priors.always, evidence, spread, needed=needed)
        rating = self.center + unit * _beyond(fit.strength, anchors)
        both: Floats = np.stack([profile.spread, profile.inverse[:n, :n]])
        both = unit**2 * _beyond(_beyond(both, anchors).swapaxes(1, 2), anchors)
        df = np.diag(evidence.freedom)
        surely = (base.NORMAL_95 / t_score(base.NORMAL_95, df)) ** 2  # a floor is not estimated
        shown_spread = _floored(both[0], both[1], surely * profile.floor)
        shown_draws: Floats = self.center + unit * _beyond(draws, anchors)
        se, low, high = self._interval(rating, shown_spread, shown_draws, df)
        reasons = [""] * n
        main, apart = profile.groups()
        for i in apart.tolist():
            others = anchors if self._named_anchors() else main
            level = self.center + unit * float(_beyond(fit.strength, anchors)[others].mean())
            if others != [i]:
                low[i], high[i] = (level + unit * end for end in profile.ends(i, others))
                reasons[i] = profile.why_open(i, others)
        hidden = evidence.scarce | (evidence.pieces < 2)
        se, low, high, free = np.where(hidden, np.nan, [se, low, high, df])
        reasons = ["" if hid else why for why, hid in zip(reasons, hidden, strict=True)]
        extra = {"se": se, "df": free}
        if self.covariates:
            extra["uncontrolled"] = replace(self, covariates=())(log).values()
        n_battles = np.bincount(np.append(rows.a, rows.b), np.tile(rows.games, 2))
        return base.Ratings(
            method="bradley-terry",
            settings=asdict(self),
            ratings=base.ranked(log.models, rating, (low, high), n_battles, extra, reasons),
            n_battles=round(pooled.outcomes.sum()),
            dropped=dropped,
            models=log.models,
            replicates=shown_draws,
            covariance=shown_spread,
            profile=profile,
            fit=self._beside(counted, fit, spread),
            n_questions=evidence.questions,
            notes=evidence.notes,
        )

    def kept(self, battles: BattleLog) -> tuple[BattleLog, dict[str, int]]:
        """The battles that count under these settings, and how many of each kind do not."""
        treatments = {"both_bad": self.both_bad, "inconsistent": self.inconsistent}
        keep, dropped = base.counted(battles, **treatments)
        whole = not any(dropped.values()) and battles.per_model().all()
        return battles if whole else battles.select(keep), dropped

    def _check(self, log: BattleLog) -> None:
        for model in self._named_anchors():
            if model not in log.models:
                what = "baseline" if self.baseline else "center_on:"
                raise base.RatingError(
                    f"{what} {model!r} has no battle; models: {', '.join(log.models)}"
                )
        if self.ties != "half" and log.share_a is not None:
            raise base.RatingError(
                f"ties={self.ties!r} needs wins, losses and ties, not soft outcomes"
            )
        if self.ties != "half" and log.decisive().all():
            raise base.RatingError(f"ties={self.ties!r} cannot be fitted: no battle is a tie")

    def _x(self, log: BattleLog) -> Floats:
        """The covariates, each with a typical difference of 1; 0 stays no difference."""
        given, weight = log.covariates or {}, log.weights()
        columns = []
        for name in self.covariates:
            if name not in given:
                known = ", ".join(given) or "none"
                raise base.RatingError(f"no covariate {name!r} in the battles; known: {known}")
            if not np.ptp(given[name]):
                raise base.RatingError(f"covariate {name!r} is the same in every battle")
            columns.append(given[name] / np.sqrt(np.average(given[name] ** 2, weights=weight)))
        return np.array(columns).reshape(len(columns), len(log)).T

    def peak(self, log: BattleLog, rows: Cells, pairs: Pairs, pooled: Cells) -> tuple[Fit, Priors]:
        """The fit to all battles that count, and the prior it took."""
        self._check(log)
        n = len(log.models)
        base.check_connected(log.models, pairs.low, pairs.high)
        if not self.prior:
            base.check_separation(log.models, *pairs.taken(pooled, half=self.ties == "half"))
        if self.covariates:
            check_identified(rows, n)
        priors = self.priors(pooled, pairs)
        cells = rows if self.covariates else pooled
        return fitted(cells.and_also(priors.always), n, TIE_MODELS[self.ties]), priors

    def resampled(self, fit: Fit, votes: Votes, priors: Priors) -> Floats:
        """The strengths of each resample."""
        draws = replicates(fit, votes, priors, self.resamples)[:, : fit.n_models]
        if (lost := int(np.isnan(draws[:, 0]).sum())) > _MOST_LOST * self.resamples:
            raise base.RatingError(
                f"{lost} of {self.resamples} resamples have no finite {self._why()}"
            )
        return draws

    def priors(self, pooled: Cells, pairs: Pairs) -> Priors:
        """The prior that all battles need, and the one that a resample may need."""
        spare = pairs.prior(self.prior, len(self.covariates))
        if self.prior_when == "always":
            return Priors(always=spare, spare=spare)
        divided = pairs.divided(pooled, half=self.ties == "half")[: len(spare.a)]
        return Priors(always=spare.at(divided), spare=spare)

    def strengths(self, log: BattleLog) -> Floats:
        """Strengths as log odds with mean 0, without intervals or checks; quicker than rating."""
        n, plain = len(log.models), log.share_a is None and not self.covariates
        rows = Cells.summed(log) if plain else Cells.of(log, self._x(log))
        pairs = Pairs.of(rows, n)
        pooled = rows if plain else pairs.pooled(rows)
        cells = rows if self.covariates else pooled
        always = self.priors(pooled, pairs).always
        with one_thread():
            return fitted(cells.and_also(always), n, TIE_MODELS[self.ties]).strength

    def _why(self) -> str:
        """What is missing in resamples that cannot be rated."""
        if not self.prior:
            return "rating; set a prior above 0"
        if self.ties != "half":
            return f"fit: too few ties for ties={self.ties!r}"
        return "fit: the covariates decide nearly every battle; leave one out"

    def _named_anchors(self) -> tuple[str, ...]:
        """The models that are named as the center; none means all."""
        return (self.baseline,) if self.baseline else self.center_on

    def _beside(self, cells: Cells, fit: Fit, spread: Floats) -> dict[str, float]:
        """What was fitted beside the ratings, and how well the battles are explained."""
        unit, first = self.scale / ln(10), len(fit.theta) - len(self.covariates)
        figures = {"nll": -fit.log_likelihood(cells) / float(cells.outcomes.sum())}
        if fit.ties.start is not None:
            figures["tie"] = fit.tie
        for i, name in enumerate(self.covariates, first):
            figures[name] = unit * float(fit.theta[i])
            if spread[i, i] >= 0:
                figures[f"{name}_se"] = unit * float(np.sqrt(spread[i, i]))
        return figures

    def _interval(
        self, rating: Floats, spread: Floats, draws: Floats, df: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Standard error and 95 % interval of every rating."""
        if self.interval == "sandwich":
            se = np.sqrt(np.maximum(0, np.diag(spread)))
            half = t_score(base.NORMAL_95, df) * se
            return se, rating - half, rating + half
        se, low, high = interval(draws)
        low, high = (rating + widening(df) * (end - rating) for end in (low, high))
        pinned = np.diag(spread) == 0 if self.baseline else np.zeros(len(rating), bool)
        se, low, high = np.where(pinned, (0 * rating, rating, rating), (se, low, high))
        return se, low, high


def _beyond(values: Floats, anchors: list[int]) -> Floats:
    """Along the last axis, how far values are above the mean of some."""
    return np.asarray(values - values[..., anchors].mean(axis=-1, keepdims=True))


def _floored(covariance: Floats, least: Floats, floor: Floats) -> Floats:
    """A covariance, with variances of at least a part of others."""
    own, needed = np.diag(covariance), np.maximum(np.diag(covariance), floor * np.diag(least))
    scale = np.sqrt(np.divide(needed, own, where=own > 0, out=np.ones_like(own)))
    return np.asarray(scale[:, None] * covariance * scale + np.diag(np.where(own > 0, 0, needed)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Judges:
    """The judges of a log whose battles connect all of its models: the `strength` that each of them
    (a row) gives each model, and which of them judged each battle (-1 is nobody).

    Verdicts of two judges on one battle are alike beyond what ratings explain: both see the same
    responses. With a mean correlation r of their residuals, k judges say as much as
    k / (1 + (k - 1) r) judges whose verdicts are independent given the ratings (the design effect
    of Kish 1965).
    """

    strength: Floats
    of_battle: NDArray[np.intp]

    @classmethod
    def of(cls, log: BattleLog, strengths: Callable[[BattleLog], Floats]) -> Judges:
        """The judges of a log; none where it names fewer than two."""
        codes = np.full(len(log), -1) if log.judge_model is None else log.judge_model.codes
        named = np.unique(codes[codes >= 0])
        found: list[Floats] = []
        of_battle = np.full(len(log), -1)
        for code in named if len(named) > 1 else ():
            own = log.select(codes == code)
            group = base.components(len(own.models), own.a, own.b)
            if own.models == log.models and not np.ptp(group):
                of_battle[codes == code] = len(found)
                found.append(strengths(own))
        return cls(strength=np.array(found), of_battle=of_battle)

    def further(self) -> Floats:
        """The covariance of a further judge's strengths about the mean of these."""
        if (n := len(self.strength)) < MIN_JUDGES:
            needed = f"{MIN_JUDGES} judges or more whose verdicts rate all models"
            raise base.RatingError(f"judges='like_these' needs {needed}, not {n}")
        return np.asarray(np.cov(self.strength, rowvar=False) * (1 + 1 / n))

    def figures(self, log: BattleLog) -> dict[str, float]:
        """The mean correlation of residuals and the effective number of judges, with its 95 %
        interval; nothing where they share battles on too few questions.
        """
        products, pairs, k = *self._by_question(log), len(self.strength)
        if len(pairs) < base.MIN_QUESTIONS:
            return {}
        mean = products.sum() / pairs.sum()
        without = (products.sum() - products) / (pairs.sum() - pairs)
        effective = pairs.sum() ** 2 / (pairs**2).sum()  # fewer than questions that weigh the same
        error = np.sqrt((1 - 1 / effective) * ((without - mean) ** 2).sum())  # the jackknife's
        half = float(t_score(base.NORMAL_95, effective - 1)) * error
        spans = {"": 0.0, "_low": half, "_high": -half}
        found = {x: k / (1 + (k - 1) * np.clip(mean + h, 0, 1)) for x, h in spans.items()}
        effective_judges = {f"judges_effective{end}": float(n) for end, n in found.items()}
        return {"judges": k, "judges_correlation": float(mean), **effective_judges}

    def _by_question(self, log: BattleLog) -> Floats:
        """For each question on which judges share a battle, the sum of the products of two judges'
        standardised residuals, and how many there are.
        """
        log, n = log.sides_in_order(), len(log.models)
        asked = -1 if log.question_id is None else log.question_id.codes
        rows = np.flatnonzero((self.of_battle >= 0) & (asked >= 0))
        judge, a, b = self.of_battle[rows], log.a[rows], log.b[rows]
        expected = 1 / (1 + np.exp(self.strength[judge, b] - self.strength[judge, a]))
        keys = (log.clusters()[rows].astype(np.int64) * n + a) * n + b
        battles, battle = np.unique(keys, return_inverse=True)
        residual = np.full((len(self.strength), len(battles)), np.nan)
        residual[judge, battle] = base.scores(log)[rows] - expected  # asked twice: the last
        known = np.isfinite(residual)
        z = np.where(known, residual, 0.0)
        z /= np.sqrt((z**2).sum(axis=1) / np.maximum(1, known.sum(axis=1)))[:, None]
        sums = z.sum(axis=0) ** 2 - (z**2).sum(axis=0), known.sum(axis=0) * (known.sum(axis=0) - 1)
        products, pairs = (np.bincount(battles // n**2, each) for each in sums)
        return np.array([products, pairs])[:, pairs > 0]


def _judges_told(figures: Mapping[str, float], n: int, sample: Sample) -> tuple[str, ...]:
    """What is said where several judges rate."""
    like = f"Claims are about what a further judge like these {n} would say."
    about = like if sample == "like_these" else "Claims are about these judges."
    told = (
        "Effective number of judges: {judges_effective:.1f} of {judges} (95 % interval "
        "{judges_effective_low:.1f} to {judges_effective_high:.1f}; mean residual correlation "
        "{judges_correlation:.2f})."
    )
    return (told.format(**figures), about) if figures else (about,)


def one_thread() -> AbstractContextManager[object]:
    """Limit BLAS to one thread within a block: on a busy machine several take many times longer."""
    limited: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limited


@cache
def _controller() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


_HARDLY = 1e-3  # wins that either side of a divided pair gets, so that a peak exists
_NEAR_BAR = (0.6, 1.4)  # parts of a bar between which standard errors do not decide
_FEW = 5e4  # cells of all pairs' roots up to which none is spared
_MOST_WORK = 1e8  # cells of all roots of a board; those of pairs far apart come last
_PRECISE = 1e-4  # natural units to which the end of an interval is found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """The likelihood of a board in natural units, and what is known of its clusters.

    `fit` is its peak with hardly a prior, `strength` the published one; `bread` and `spread` are
    the covariance that independent battles and clusters give, `floor` is the least design effect
    of each model, `freedom` has the degrees of freedom of every gap, `reach` says who beat whom,
    directly or through others.
    """

    fit: Fit
    cells: Cells
    strength: Floats
    inverse: Floats
    spread: Floats
    floor: Floats
    freedom: Floats
    reach: NDArray[np.bool_]
    memo: dict[Any, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        fit: Fit,
        counted: Cells,
        prior: Cells,
        evidence: Evidence,
        spread: Floats,
        *,
        needed: bool,
    ) -> Profile:
        """The profile of a fit to the cells that counted and a prior, which gives way to a smaller
        one where it is only `needed` for a peak to exist.
        """
        n, cells, peak = fit.n_models, counted.and_also(prior), fit
        reach = np.ones((n, n), bool)
        if len(prior.a) and needed:
            little = np.full(len(prior.a), _HARDLY / prior.outcomes.max())
            cells = counted.and_also(prior.with_weights(little))
            peak = fitted(cells, n, fit.ties, start=fit.theta)
            pairs = Pairs.of(counted, n)
            won = pairs.taken(pairs.pooled(counted), half=fit.ties.start is None)
            reach = transitive_closure(n, *won) > 0
        return cls(
            fit=peak,
            cells=cells,
            strength=fit.strength,
            inverse=fit.inverse(),
            spread=spread[:n, :n],
            floor=_floor(evidence, n) if fit.ties.start is None else np.ones(n),
            freedom=evidence.freedom,
            reach=reach,
        )

    def errors(self) -> Floats:
        """The standard error of every gap."""
        return np.sqrt(self.design() * self._independent())

    def unbounded(self) -> NDArray[np.bool_]:
        """Pairs of which one never beat the other, not even through others."""
        return np.asarray(~(self.reach & self.reach.T))

    def scores(self, bar: Floats, known: NDArray[np.bool_]) -> Floats:
        """Every gap that is known as a normal deviate: by the root of the profile near the bar and
        of unbounded pairs, elsewhere by its standard error.
        """
        gap, error = self.strength[:, None] - self.strength[None, :], self.errors()
        t = np.divide(gap, error, out=np.zeros_like(gap), where=error > 0)
        size = np.divide(normal_score(np.abs(t), self.freedom), bar, where=bar > 0, out=0 * t)
        near = (_NEAR_BAR[0] < size) & (size < _NEAR_BAR[1]) | self.unbounded()
        near |= len(gap) ** 2 * len(self.cells.a) < _FEW
        above, below = np.nonzero(near & known & (gap > 0))
        most = int(_MOST_WORK / len(self.cells.a))
        closest = np.argsort(bar[above, below], kind="stable")[:most]
        peak, design = self.fit.log_likelihood(self.cells), self.design()
        for i, j in zip(above[closest].tolist(), below[closest].tolist(), strict=True):
            contrast = np.zeros(len(self.fit.theta))
            contrast[[i, j]] = 1, -1
            fall = self._fall(contrast, 0.0, peak) if contrast @ self.fit.theta > 0 else 0.0
            t[i, j] = np.sqrt(fall / design[i, j])  # 0 where only the prior puts it above
            t[j, i] = -t[i, j]
        return normal_score(t, self.freedom)

    def groups(self) -> tuple[list[int], NDArray[np.intp]]:
        """The largest group of models that beat each other, directly or through others (all where
        none has two), and the models outside it.
        """
        mutual = self.reach & self.reach.T
        largest = int(np.argmax(mutual.sum(axis=1)))
        if (main := np.flatnonzero(mutual[largest])).size > 1:
            return main.tolist(), np.flatnonzero(~mutual[largest])
        every = np.arange(len(mutual))
        return every.tolist(), every

    def why_open(self, model: int, others: list[int]) -> str:
        """Why the interval of a model lacks an end."""
        below, above = self.reach[model, others].all(), self.reach[others, model].all()
        if not (below or above):
            return "never both won and lost against the others, so nothing bounds its rating"
        rivals = np.arange(len(self.reach)) != model
        alone = not (self.reach.T if below else self.reach)[model, rivals].any()
        verb = ("won" if below else "lost") if alone else ("never lost" if below else "never won")
        what = "every battle" if alone else "against the models it is rated with"
        return f"{verb} {what}, so its interval has no {'upper' if below else 'lower'} end"

    def ends(self, model: int, others: list[int]) -> tuple[float, float]:
        """The 95 % interval of how far a model is above the mean of others: what the root of the
        profile does not exclude, infinite where nothing would.
        """
        contrast = np.zeros(len(self.fit.theta))
        contrast[others] -= 1 / len(others)
        contrast[model] += 1
        short = contrast[: len(self.spread)]
        ratio = short @ self.spread @ short / (contrast @ self.inverse @ contrast)
        design = max(self.floor[model], float(ratio))
        limit = design * float(t_score(NORMAL_95, self.freedom[model, model])) ** 2
        bounded = self.reach[model, others].all(), self.reach[others, model].all()
        low, high = (
            self._end(contrast, sign, limit) if there else sign * np.inf
            for sign, there in zip((-1, 1), bounded, strict=True)
        )
        return low, high

    def _end(self, contrast: Floats, sign: int, limit: float) -> float:
        """Where the squared root passes its limit: by doubling steps, then by bisection."""
        peak = self.fit.log_likelihood(self.cells)
        inside, step, passed = float(contrast @ self.fit.theta), 1.0, False
        while step > _PRECISE:
            if self._fall(contrast, inside + sign * step, peak) > limit:
                step, passed = step / 2, True
            else:
                inside, step = inside + sign * step, step / 2 if passed else 2 * step
        return inside

    def _fall(self, contrast: Floats, value: float, peak: float) -> float:
        """Twice the fall of the log-likelihood where the contrast has this value."""
        there = constrained(self.fit, self.cells, self.inverse, contrast, value)
        return max(0.0, 2 * (peak - there))

    def design(self) -> Floats:
        """The design effect of every gap."""
        plain = self._independent()
        ratio = np.divide(gap_variances(self.spread), plain, where=plain > 0, out=0 * plain)
        return np.maximum(np.maximum(self.floor[:, None], self.floor[None, :]), ratio)

    def _independent(self) -> Floats:
        """The variance of every gap by independent battles."""
        n = len(self.spread)
        return gap_variances(self.inverse[:n, :n])


def _floor(evidence: Evidence, n: int) -> Floats:
    """Of each model's battles the share without a tie (soft outcomes count by their square), as if
    one more were decided; times what a vote weighs.
    """
    rows = evidence.rows
    won, _, lost = rows.outcomes
    games = rows.games
    weight, sides = games / evidence.counts, np.append(rows.a, rows.b)
    clear = weight * np.divide((won - lost) ** 2, games, where=games > 0, out=0 * games)
    total, squared, decided = (
        np.bincount(sides, np.tile(each, 2), n) for each in (games, weight * games, clear)
    )
    votes = total**2 / squared
    return np.asarray(squared / total * (decided / squared * votes + 1) / (votes + 1))
