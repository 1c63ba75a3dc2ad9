"""How far two voters agree on the same battles: shares, Cohen's kappa, Krippendorff's alpha.

Intervals leave out one question at a time (the jackknife): verdicts on one question share it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from math import nan, sqrt
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena_kit.battles.battle import A_WINS, B_WINS, OUTCOMES
from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError

Floats = NDArray[np.float64]
Ties = Literal["counted", "left out"]
#: What a verdict may say, in the order of the tables: the first side, neither, the second.
LABELS = ("model_a", "tie", "model_b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share or coefficient with its 95 % interval, and how many verdicts it rests on; None where
    there is nothing to tell it from.
    """

    value: float | None
    ci_low: float | None
    ci_high: float | None
    n: int

    def as_dict(self) -> dict[str, float | int | None]:
        """Plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        if self.value is None:
            return "–"
        if self.ci_low is None or self.ci_high is None:
            return f"{self.value:.1%}"
        return f"{self.value:.1%} ({self.ci_low:.1%} to {self.ci_high:.1%})"

    @property
    def coefficient(self) -> str:
        """The same as a number, not as a percentage."""
        if self.value is None:
            return "–"
        ends = "" if self.ci_low is None else f" ({self.ci_low:.2f} to {self.ci_high:.2f})"
        return f"{self.value:.2f}{ends}"


#: A share that could not be measured.
NOTHING = Share(value=None, ci_low=None, ci_high=None, n=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How often two voters say the same, and how much of that is beyond chance (`kappa`), with
    ties as a verdict of their own or only where both are decisive.
    """

    ties: Ties
    agreed: int
    rate: Share
    kappa: Share


def agreement(
    first: ArrayLike, second: ArrayLike, clusters: ArrayLike | None = None, *, ties: Ties
) -> Agreement:
    """Agreement of two columns of `LABELS` (as numbers; -1 is no verdict), row by row.

    Parameters
    ----------
    clusters
        What rows belong together, as numbers; by default each stands for itself.
    ties
        `counted` as a verdict, or `left out`: only rows that both decide.
    """
    one, two = np.asarray(first), np.asarray(second)
    kept = (one >= 0) & (two >= 0)
    if ties == "left out":
        kept &= (one != 1) & (two != 1)
    groups = np.arange(len(one)) if clusters is None else np.asarray(clusters)
    tables = _tables(one[kept], two[kept], groups[kept])
    total = tables.sum(axis=0)
    return Agreement(
        ties=ties,
        agreed=round(float(np.trace(total))),
        rate=_shared(tables, _rates),
        kappa=jackknifed(tables, _kappas, n=round(float(total.sum()))),
    )


def verdicts(log: BattleLog) -> NDArray[np.int8]:
    """What each battle says, as a place in `LABELS`; ties of every kind are ties."""
    table = np.full(len(OUTCOMES), LABELS.index("tie"), np.int8)
    table[A_WINS], table[B_WINS] = LABELS.index("model_a"), LABELS.index("model_b")
    said: NDArray[np.int8] = table[log.outcome]
    return said


def matched(first: BattleLog, second: BattleLog) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows of both logs that are about the same two models on the same question and dimension,
    every combination of them; sides must be in order (`BattleLog.sides_in_order`).
    """
    if first.question_id is None or second.question_id is None:
        raise DataError("agreement needs battles with question_id in both files")
    by_key: dict[tuple[object, ...], list[int]] = {}
    for row, key in enumerate(_keys(second)):
        by_key.setdefault(key, []).append(row)
    pairs = [(i, j) for i, key in enumerate(_keys(first)) for j in by_key.get(key, ())]
    rows = np.array(pairs, np.intp).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def share_of(named: ArrayLike, clusters: ArrayLike | None = None) -> Share:
    """The share of rows that are true, with an interval clustered like those of agreement."""
    flags = np.asarray(named, bool)
    groups = np.arange(len(flags)) if clusters is None else np.asarray(clusters)
    return _shared(_tables(np.where(flags, 0, 1), np.zeros(len(flags), int), groups), _firsts)


def alpha(ratings: ArrayLike) -> float:
    """Krippendorff's alpha of several voters (rows) on the same units (columns), NaN where a voter
    said nothing: 1 is full agreement, 0 what chance would give. NaN where no two voters differ
    anywhere and only one value was ever given.
    """
    return float(_alphas(_coincidences(ratings).sum(axis=0)[None])[0])


def alpha_share(ratings: ArrayLike, clusters: ArrayLike | None = None) -> Share:
    """The same with an interval, from leaving out one cluster of units at a time."""
    parts = _coincidences(ratings)
    groups = np.arange(len(parts)) if clusters is None else np.asarray(clusters)
    return jackknifed(sums(parts, groups), _alphas, n=round(float(parts.sum())))


def _coincidences(ratings: ArrayLike) -> Floats:
    """Per unit, how often each two values were given by two voters; a square table each."""
    values = np.asarray(ratings, float)
    known = np.unique(values[~np.isnan(values)])
    counts = np.stack([(values == value).sum(axis=0) for value in known], axis=1).astype(float)
    units = counts.sum(axis=1)
    counts[units < 2] = 0.0
    share = counts / np.maximum(units - 1, 1)[:, None]
    tables: Floats = counts[:, :, None] * share[:, None, :]
    tables -= np.eye(len(known))[None] * share[:, None, :]
    return tables


def _alphas(tables: Floats) -> Floats:
    totals = tables.sum(axis=2)
    n = totals.sum(axis=1)
    differing, by_chance = n - np.trace(tables, axis1=1, axis2=2), n**2 - (totals**2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        alphas: Floats = 1 - differing * (n - 1) / by_chance
    return np.where(by_chance > 0, alphas, nan)


def _keys(log: BattleLog) -> list[tuple[object, ...]]:
    names = np.array(log.models, object)
    columns = [names[log.a].tolist(), names[log.b].tolist()]
    named = (log.question_id, log.dimension)
    columns += [labels.values().tolist() for labels in named if labels is not None]
    return list(zip(*columns, strict=True))


def sums(parts: Floats, groups: NDArray[np.integer[Any]]) -> Floats:
    """Parts added up per cluster; `groups` says which cluster each belongs to."""
    names, place = np.unique(groups, return_inverse=True)
    total = np.zeros((len(names), *parts.shape[1:]))
    np.add.at(total, place, parts)
    return total


def _tables(
    one: NDArray[np.int_], two: NDArray[np.int_], groups: NDArray[np.integer[Any]]
) -> Floats:
    """A 3 x 3 table of what was said per cluster."""
    if not len(one):
        return np.zeros((0, 3, 3))
    names, place = np.unique(groups, return_inverse=True)
    flat = np.bincount((place * 3 + one) * 3 + two, minlength=9 * len(names))
    return flat.reshape(-1, 3, 3).astype(float)


def _rates(tables: Floats) -> Floats:
    n = tables.sum(axis=(1, 2))
    rates: Floats = np.trace(tables, axis1=1, axis2=2) / n
    return rates


def _firsts(tables: Floats) -> Floats:
    shares: Floats = tables[:, 0].sum(axis=1) / tables.sum(axis=(1, 2))
    return shares


def _kappas(tables: Floats) -> Floats:
    shares = tables / tables.sum(axis=(1, 2), keepdims=True)
    by_chance = (shares.sum(axis=1) * shares.sum(axis=2)).sum(axis=1)
    agreed = np.trace(shares, axis1=1, axis2=2)
    kappas: Floats = (agreed - by_chance) / (1 - by_chance)
    return kappas


def jackknifed(parts: Floats, statistic: Callable[[Floats], Floats], *, n: int) -> Share:
    """A statistic of all parts together, a part per cluster, with an interval from leaving out one
    at a time. `statistic` takes a stack of sums of parts; `n` is how many verdicts they hold.
    """
    total, clusters = parts.sum(axis=0), len(parts)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(statistic(total[None])[0]) if n else nan
        without = statistic(total[None] - parts) if clusters > 1 else np.empty(0)
    if not np.isfinite(value):
        return Share(value=None, ci_low=None, ci_high=None, n=n)
    if clusters < 2:
        return Share(value=value, ci_low=None, ci_high=None, n=n)
    without = without[np.isfinite(without)]
    se = sqrt((clusters - 1) / clusters * float(((without - without.mean()) ** 2).sum()))
    half = t_quantile(clusters - 1) * se
    low, high = max(-1.0, value - half), min(1.0, value + half)
    return Share(value=value, ci_low=low, ci_high=high, n=n)


def _shared(tables: Floats, statistic: Callable[[Floats], Floats]) -> Share:
    """A share by the jackknife, its interval within 0 and 1. One of 0 or 1 does not vary when a
    cluster is left out: its other end is then what as many independent clusters leave possible
    (with 0 of 30, 3 of 30: Clopper and Pearson's one-sided bound).
    """
    share = jackknifed(tables, statistic, n=round(float(tables.sum())))
    if share.ci_low is None:
        return share
    if share.value not in (0.0, 1.0):
        return replace(share, ci_low=max(0.0, share.ci_low))
    possible = 1 - 0.05 ** (1 / len(tables))
    low, high = (0.0, possible) if share.value == 0 else (1 - possible, 1.0)
    return replace(share, ci_low=low, ci_high=high)


def t_quantile(freedom: int) -> float:
    """What a 95 % interval takes of standard errors."""
    from scipy.special import stdtrit  # scipy.stats takes four times longer to import

    return float(stdtrit(freedom, 0.975))
