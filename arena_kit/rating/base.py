"""What every rating method takes and gives back, and the error they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import A_WINS, B_WINS, BOTH_BAD, TIE
from arena_kit.battles.display import html_table
from arena_kit.battles.log import BattleLog
from arena_kit.files import ArenaError, DataError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: What can be rated: a log, or a pandas frame with the columns of a file of battles.
Battles = BattleLog | Any
#: Standard errors to either side of a 95 % interval.
NORMAL_95 = 1.959963984540054
#: Questions (or voters) a model must be seen on before its interval is shown; see design/.
MIN_QUESTIONS = 10
_FULL = 64  # cells of a table per battle, up to which a table is quicker than sorting


Number = TypeVar("Number", float, NDArray[np.float64])
Rated = TypeVar("Rated")
_no_rows = partial(np.empty, (0, 0))


class RatingError(ArenaError, ValueError):
    """A rating that does not exist for these battles; the message names the cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """One model's rating with the interval that the evidence supports.

    `ci_low` and `ci_high` are None where the battles do not bound the rating or say too little,
    and `no_interval` says why; `extra` holds what only this method reports.
    """

    model: str
    rating: float
    ci_low: float | None
    ci_high: float | None
    n_battles: int
    extra: dict[str, float | None] = field(default_factory=dict)
    no_interval: str = ""

    @property
    def placed(self) -> bool:
        """Whether the evidence reaches for claims, if only for an interval without an end."""
        known = (self.ci_low, self.ci_high, self.extra.get("se"))
        return any(each is not None for each in known)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "model": self.model,
            "rating": self.rating,
            "ci_low": self.ci_low,
            "ci_high": self.ci_high,
            "n_battles": self.n_battles,
            **self.extra,
            **({"no_interval": self.no_interval} if self.no_interval else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratings:
    """The result of one method on one log, best first, with every setting that made it.

    `n_questions` counts questions that are clusters of battles, 0 where they are not. `traces` has
    a row per replay, `replicates` a row per resample of the evidence, both a
    column per model of `models` (name order). `covariance` is that of the ratings, where the
    method knows it, `profile` the likelihood that claims rest on; `fit` holds what was fitted
    beside them, under plain names. `engine` is what computed them where that can change their last
    digits. `notes` are sentences without which the intervals would mislead.
    """

    method: str
    settings: dict[str, Any]
    ratings: tuple[Rating, ...]
    n_battles: int
    dropped: dict[str, int]
    models: tuple[str, ...] = field(repr=False)
    traces: NDArray[np.float64] = field(default_factory=_no_rows, repr=False)
    replicates: NDArray[np.float64] = field(default_factory=_no_rows, repr=False)
    covariance: NDArray[np.float64] | None = field(default=None, repr=False)
    profile: Any = field(default=None, repr=False)
    fit: dict[str, float] = field(default_factory=dict)
    n_questions: int = 0
    engine: str = field(default="", repr=False)
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """The board as a table, best first."""
        rows = [
            {
                "#": n,
                "model": row.model,
                "rating": f"{row.rating:.0f}",
                "95 % interval": span(row.ci_low, row.ci_high) or row.no_interval,
                "battles": row.n_battles,
            }
            for n, row in enumerate(self.ratings, 1)
        ]
        return html_table(
            rows, title=f"{self.method}, {self.n_battles:,} battles", notes=self.notes
        )

    def to_frame(self) -> pd.DataFrame:
        """A row per model, best first: rating, interval, battles, and what the method adds."""
        import pandas as pd

        return pd.DataFrame([rating.as_dict() for rating in self.ratings])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Ratings with their 95 % intervals, best first; a dot without a bar has no interval."""
        from matplotlib import pyplot as plt

        if ax is None:
            _, ax = plt.subplots(figsize=(7, 1 + 0.3 * len(self.ratings)), layout="constrained")
        for row, rating in enumerate(self.ratings):
            if rating.ci_low is not None and rating.ci_high is not None:
                ax.plot([rating.ci_low, rating.ci_high], [row, row], color="#0969da", lw=2.5)
            ax.plot([rating.rating], [row], "o", color="#0969da")
        ax.set_yticks(range(len(self.ratings)), self.order)
        ax.invert_yaxis()
        ax.set_xlabel(f"rating ({self.method}), 95 % interval")
        return ax

    def __getitem__(self, model: str) -> Rating:
        for rating in self.ratings:
            if rating.model == model:
                return rating
        raise KeyError(f"{model!r} is not rated; rated: {', '.join(self.models)}")

    def values(self, models: Iterable[str] | None = None) -> NDArray[np.float64]:
        """The ratings of some models as numbers, by default of all in name order."""
        by_model = {rating.model: rating.rating for rating in self.ratings}
        return np.array([by_model[model] for model in (self.models if models is None else models)])

    @property
    def order(self) -> tuple[str, ...]:
        """Model names, best first."""
        return tuple(rating.model for rating in self.ratings)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "method": self.method,
            "settings": self.settings,
            "ratings": [rating.as_dict() for rating in self.ratings],
            "n_battles": self.n_battles,
            "dropped": self.dropped,
            **({"fit": self.fit} if self.fit else {}),
            **({"notes": list(self.notes)} if self.notes else {}),
        }


def as_log(battles: Battles) -> BattleLog:
    """Battles as a log, from a log or from a frame with the columns of a file of battles."""
    if isinstance(battles, BattleLog):
        return battles
    if not hasattr(battles, "columns"):
        raise DataError(
            f"expected battles as a BattleLog or a pandas frame, got {type(battles).__name__}; "
            "BattleLog.from_battles takes records, read_battles a file"
        )
    from arena_kit.battles.read import battles_from_frame

    return battles_from_frame(battles)


def ranked(
    models: Sequence[str],
    rating: NDArray[np.float64],
    ends: Sequence[NDArray[np.float64]],
    n_battles: NDArray[Any],
    extra: Mapping[str, NDArray[np.float64]],
    reasons: Sequence[str] = (),
) -> tuple[Rating, ...]:
    """A row per model, best first; `ends` are those of the intervals, and NaN is not known."""
    columns = [each.tolist() for each in (*ends, *extra.values())]
    numbers = zip(*(map(known, column) for column in columns), strict=True)
    rest = (models, rating.tolist(), n_battles.tolist(), reasons or [""] * len(models))
    rows = [
        Rating(
            model=model,
            rating=value,
            ci_low=low,
            ci_high=high,
            n_battles=round(n),
            extra=dict(zip(extra, more, strict=True)),
            no_interval=why,
        )
        for model, value, n, why, (low, high, *more) in zip(*rest, numbers, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.rating, row.model)))


def kinds(battles: BattleLog) -> dict[str, NDArray[np.bool_]]:
    """Masks of the battles that are not plain wins, under the names of the settings; a tie with
    a share of its own counts as that share.
    """
    flags = battles.flags()
    soft = np.zeros(len(battles), bool) if battles.share_a is None else ~np.isnan(battles.share_a)
    return {
        "tie": (battles.outcome == TIE) & ~flags & ~soft,
        "both_bad": battles.outcome == BOTH_BAD,
        "inconsistent": flags,
    }


def counted(battles: BattleLog, **treatments: str) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Which battles count where kinds whose treatment is `drop` or `exclude` do not, and how many
    of each kind do not.
    """
    leave = {kind for kind, each in treatments.items() if each in ("drop", "exclude")}
    masks = {kind: mask & (kind in leave) for kind, mask in kinds(battles).items()}
    dropped = {kind: int(mask.sum()) for kind, mask in masks.items()}
    return ~np.any(list(masks.values()), axis=0), dropped


def scores(battles: BattleLog) -> NDArray[np.float64]:
    """What the first model got from each battle: its share where the battle has one, else 1, 0,
    or half for anything undecided.
    """
    decided = np.where(battles.outcome == B_WINS, 0.0, 0.5)
    score: NDArray[np.float64] = np.where(battles.outcome == A_WINS, 1.0, decided)
    if battles.share_a is None:
        return score
    return np.where(np.isnan(battles.share_a), score, battles.share_a)


def check_kept(given: BattleLog, kept: BattleLog, dropped: dict[str, int]) -> None:
    """Refuse a log of which too little counts: no battle, a model without one, or models that
    never met.
    """
    check_counted(given, kept, dropped)
    check_connected(kept.models, kept.a, kept.b)


def check_counted(given: BattleLog, kept: BattleLog, dropped: dict[str, int]) -> None:
    """Refuse a log of which no battle counts, or none of a model's."""
    left_out = ", ".join(f"{n} {kind}" for kind, n in dropped.items() if n)
    if not len(kept):
        why = f"all were dropped ({left_out})" if len(given) else "there are none"
        raise RatingError(f"no battles to rate: {why}")
    if missing := sorted(set(given.models) - set(kept.models)):
        raise RatingError(
            f"no rating for {', '.join(missing)}: none of its battles counts ({left_out} dropped)"
        )


def check_unweighted(log: BattleLog, method: str) -> None:
    """Refuse weights other than 1, for methods that replay battles one at a time."""
    if log.weight is not None and np.any(log.weight != 1.0):
        raise RatingError(
            f"{method} replays battles one at a time and cannot use weights or pair counts"
        )


def questions_seen(
    a: NDArray[Any], b: NDArray[Any], clusters: NDArray[Any], n_models: int
) -> NDArray[np.intp]:
    """On how many questions each model was seen."""
    n = int(clusters.max()) + 1
    if n_models * n <= _FULL * len(a):
        met = np.zeros((n_models, n), bool)
        met[a, clusters] = met[b, clusters] = True
        return np.asarray(np.count_nonzero(met, axis=1))
    sides = np.concatenate([a, b]).astype(np.int64)
    cells = np.sort(sides * n + np.tile(clusters, 2))
    new = np.append(True, cells[1:] != cells[:-1])  # quicker than np.unique
    return np.bincount(cells[new] // n, minlength=n_models)


def together(keys: NDArray[Any]) -> NDArray[np.intp]:
    """The order that brings equal keys (0 and more) together, else as they come."""
    few = not len(keys) or int(keys.max()) <= np.iinfo(np.uint16).max
    return np.argsort(keys.astype(np.uint16) if few else keys, kind="stable")  # of few: radix sort


def why_no_interval(log: BattleLog, score: NDArray[np.float64]) -> list[str]:
    """For each model why resampling cannot say how sure its rating is; empty where it can.

    A model must be seen on enough questions. And a resample holds no outcome that was not there:
    who lost every battle loses all of each resample, which looks like certainty and is none; the
    same goes for a group of models that lost every battle with the others.
    """
    a, b, n = log.a, log.b, len(log.models)
    seen = questions_seen(a, b, log.clusters(), n)
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    for side, value in ((a, score), (b, 1 - score)):
        np.fmin.at(low, side, value)
        np.fmax.at(high, side, value)
    winner = np.concatenate([a[score > 0], b[score < 1]])
    loser = np.concatenate([b[score > 0], a[score < 1]])
    group = strong_groups(n, winner, loser)
    sizes = np.bincount(group)
    apart = (group != sizes.argmax()) | (sizes.max() < 2)
    reasons = {
        "it lost every battle that counts": high == 0,
        "it won every battle that counts": low == 1,
        "every battle of it that counts ended alike": low == high,
        "between it and the others every battle was won by the same side": apart,
    }
    few = [f"it was seen on {n} questions, {MIN_QUESTIONS} needed" for n in seen.tolist()]
    conditions = [seen < MIN_QUESTIONS, *reasons.values()]
    return [str(why) for why in np.select(conditions, [np.array(few), *reasons], "")]


def gap_variances(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """The variance of the gap between every two models, of one covariance or of several."""
    own = np.diagonal(covariance, axis1=-2, axis2=-1)
    return np.asarray(own[..., :, None] + own[..., None, :] - 2 * covariance)


def expected_share(gap: Number) -> Number:
    """The share of a win that a rating gap promises, ties as half of one."""
    return 1 / (1 + 10 ** (-gap / 400))


def span(low: float | None, high: float | None) -> str:
    """An interval in whole numbers, which may lack an end; empty without both."""
    if low is None:
        return "" if high is None else f"at most {high:.0f}"
    return f"at least {low:.0f}" if high is None else f"{low:.0f} to {high:.0f}"


def known(value: float) -> float | None:
    """A number, or None where there is none."""
    return value if isfinite(value) else None


def rated_or_none(method: Callable[[BattleLog], Rated], battles: BattleLog) -> Rated | None:
    """What a method makes of battles; None where no rating exists."""
    try:
        return method(battles)
    except RatingError:
        return None


def each_rated(
    names: Iterable[str], rate: Callable[[str], Rated], *, none_allowed: bool = False
) -> tuple[dict[str, Rated], dict[str, str]]:
    """What is rated under each name, and why others are not; raises where none is, unless that is
    allowed.
    """
    rated: dict[str, Rated] = {}
    unrated: dict[str, str] = {}
    for name in names:
        try:
            rated[name] = rate(name)
        except RatingError as error:
            unrated[name] = str(error)
    if not rated and not none_allowed:
        raise RatingError("; ".join(f"{n}: {why}" if n else why for n, why in unrated.items()))
    return rated, unrated


def check_settings(settings: object, *rules: tuple[str, bool, str]) -> None:
    """Refuse the first setting that does not hold: its name, whether it holds, what is allowed.
    One whose type is a `Literal` has to be one of its values.
    """
    hints = get_type_hints(type(settings)).items()
    closed = {name: get_args(hint) for name, hint in hints if get_origin(hint) is Literal}
    choices = [
        (name, getattr(settings, name) in words, " or ".join(map(repr, words)))
        for name, words in closed.items()
    ]
    for name, holds, allowed in (*choices, *rules):
        if not holds:
            raise ValueError(f"{name} must be {allowed}, not {getattr(settings, name)!r}")


def check_connected(models: tuple[str, ...], a: NDArray[Any], b: NDArray[Any]) -> None:
    """Refuse models that no chain of battles connects: their ratings share no scale."""
    label = components(len(models), a, b)
    groups = [[m for m, c in zip(models, label, strict=True) if c == g] for g in np.unique(label)]
    if len(groups) > 1:
        shown = "; ".join(some(group) for group in groups[:4]) + ("; …" if len(groups) > 4 else "")
        raise RatingError(
            f"the battles fall into {len(groups)} groups of models that never met, "
            f"so no common scale exists: {shown}"
        )


def components(n_models: int, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.intp]:
    """The connected component of each model, in the graph whose edges are the battles."""
    return strong_groups(n_models, np.concatenate([a, b]), np.concatenate([b, a]))


def strong_groups(n_models: int, winner: NDArray[Any], loser: NDArray[Any]) -> NDArray[np.intp]:
    """The strongly connected component of each model: within one, all beat each other, directly
    or through others. It is numbered by its first model.
    """
    beat = np.zeros((n_models, n_models), bool)
    beat[winner, loser] = True
    np.fill_diagonal(beat, val=False)
    lost = np.ascontiguousarray(beat.T)
    group, left = np.full(n_models, -1, np.intp), np.ones(n_models, bool)
    while left.any():
        first = int(np.argmax(left))
        group[_reached(beat, first, left) & _reached(lost, first, left)] = first
        left = group < 0
        alone = left & ~((beat & left).any(axis=1) & (lost & left).any(axis=1))
        group[alone] = np.flatnonzero(alone)  # beat nobody who is left, or lost to nobody
        left = group < 0
    return group


def _reached(beat: NDArray[np.bool_], start: int, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whom a breadth-first search from one model reaches among some."""
    reached = np.zeros(len(beat), bool)
    reached[start : start + 1] = True
    new = reached
    while new.any():
        new = beat[new].any(axis=0) & among & ~reached
        reached = reached | new
    return reached


def transitive_closure(
    n_models: int, winner: NDArray[Any], loser: NDArray[Any]
) -> NDArray[np.float64]:
    """1 where the row's model beat the column's, directly or through others."""
    reach = np.eye(n_models)
    reach[winner, loser] = 1
    while True:
        further = ((reach @ reach) > 0).astype(float)
        if np.array_equal(further, reach):
            return reach
        reach = further


def check_separation(models: tuple[str, ...], winner: NDArray[Any], loser: NDArray[Any]) -> None:
    """Refuse models of which one group never lost to the others: no finite rating exists."""
    reach = transitive_closure(len(models), winner, loser)
    above = reach.T == 0  # above[i, j]: j never beat i, not even through others
    if above.any():
        top = int(np.argmax(above.sum(axis=1)))
        group = sorted(m for m, lost in zip(models, reach[:, top], strict=True) if lost)
        raise RatingError(
            f"{some(group)} never lost to the other models, directly or through "
            "others, so no finite rating exists; set a prior above 0"
        )


def some(names: Sequence[str], most: int = 5) -> str:
    """A few names in words, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
