"""The likelihood of paired comparisons, with a tie as half a win or as an outcome of its own, and
Newton's method to its peak.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, isfinite, log1p
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.battle import A_WINS, B_WINS, BOTH_BAD, TIE
from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import RatingError, scores, strong_groups

Codes = NDArray[np.intp]
Floats = NDArray[np.float64]

_MOST_STEPS = 100
_NEWMAN_STEPS = 3
_NEWMAN_MIN_ODDS = 1e-2
_FAR = 0.5  # a first step from which their start is no good
_TOLERANCE = 1e-11
_FLAT = 1e-5  # a step that changes a log-likelihood by rounding
_SCALED_STEPS = 20
_MANY = 300  # models for whom a solution takes longer than a few steps without one
_SURE = 0.5  # a step from which Newton's method needs no damping
_NEAR = 1e-4  # a step from which convergence is quadratic
_SAME = 1e-9  # a share of the whole that counts as nothing left
_ROUNDING = 1e-6  # steps below it that shrink no more are rounding


class Terms(NamedTuple):
    """The log-likelihood's slopes in the gap `eta` and in the tie parameter `t`, and its
    curvatures, each with the sign that makes it positive at the peak; per cell.
    """

    eta: Floats
    t: Floats
    eta_eta: Floats
    eta_t: Floats
    t_t: Floats


Outcomes = Callable[[Floats, float, Floats, Floats, Floats], Terms]
Values = Callable[[Floats, float, Floats, Floats, Floats], Floats]


@dataclass(frozen=True, slots=True, kw_only=True)
class TieModel:
    """One treatment of ties: where its parameter starts (None: it has none), the log-likelihood
    and its terms.
    """

    start: float | None
    value: Values
    terms: Outcomes


def _half(eta: Floats, _: float, won: Floats, tied: Floats, lost: Floats) -> Terms:
    won, lost = won + tied / 2, lost + tied / 2
    games = won + lost
    p = 1 / (1 + np.exp(-np.clip(eta, -700, 700)))
    none = np.zeros_like(eta)
    return Terms(won - games * p, none, games * p * (1 - p), none, none)


def _half_value(eta: Floats, _: float, won: Floats, tied: Floats, lost: Floats) -> Floats:
    return np.asarray(-(won + tied + lost) * np.logaddexp(0, -eta) - (lost + tied / 2) * eta)


def _davidson(eta: Floats, t: float, won: Floats, tied: Floats, lost: Floats) -> Terms:
    """Odds of win : tie : loss are e^(eta/2) : e^t : e^(-eta/2)."""
    games, logs = won + tied + lost, np.stack([eta / 2, np.full_like(eta, t), -eta / 2])
    win, tie, loss = np.exp(logs - np.logaddexp.reduce(logs, axis=0))
    lead = (win - loss) / 2
    return Terms(
        (won - lost) / 2 - games * lead,
        tied - games * tie,
        games * ((win + loss) / 4 - lead**2),
        -games * tie * lead,
        games * tie * (1 - tie),
    )


def _davidson_value(eta: Floats, t: float, won: Floats, tied: Floats, lost: Floats) -> Floats:
    total = np.logaddexp(np.logaddexp(eta / 2, -eta / 2), t)
    return np.asarray((won - lost) * eta / 2 + tied * t - (won + tied + lost) * total)


TIE_MODELS = {
    "half": TieModel(start=None, value=_half_value, terms=_half),
    "davidson": TieModel(start=0.0, value=_davidson_value, terms=_davidson),
}


@dataclass(frozen=True, slots=True)
class Cells:
    """Comparisons as the likelihood sees them: who met whom, and the weight of each outcome.

    A cell is one battle, or all battles of a pair. `outcomes` has a row each for wins, ties and
    losses of the first side and a column per cell; `x` has a row per cell and a column per
    covariate.
    """

    a: Codes
    b: Codes
    outcomes: Floats
    x: Floats

    @classmethod
    def of(cls, log: BattleLog, covariates: Floats) -> Cells:
        """A cell per battle, in the log's order, with the battle's weight."""
        won, lost = ((log.outcome == side).astype(float) for side in (A_WINS, B_WINS))
        if log.share_a is not None:
            soft, share = ~np.isnan(log.share_a), scores(log)
            won, lost = np.where(soft, share, won), np.where(soft, 1 - share, lost)
        outcomes = log.weights() * np.stack([won, 1 - won - lost, lost])
        return cls(log.a.astype(np.intp), log.b.astype(np.intp), outcomes, covariates)

    @classmethod
    def plain(cls, a: Codes, b: Codes, outcomes: Floats) -> Cells:
        """Cells without covariates."""
        return cls(a, b, outcomes, np.zeros((len(a), 0)))

    @classmethod
    def summed(cls, log: BattleLog) -> Cells:
        """A cell per pair, the lower number first; for logs of plain wins, losses and ties."""
        n = len(log.models)
        key: NDArray[Any] = log.outcome.astype(np.int32 if 4 * n * n < 2**31 else np.int64)
        for column in (log.a, log.b):
            key = key * n + column
        table = np.bincount(key, log.weight, 4 * n * n).astype(float).reshape(4, n, n)
        wins, ties = table[A_WINS] + table[B_WINS].T, table[TIE] + table[BOTH_BAD]
        ties = ties + ties.T
        low, high = np.nonzero(np.triu(wins + wins.T + ties, 1))
        return cls.plain(low, high, np.stack([wins[low, high], ties[low, high], wins[high, low]]))

    @property
    def games(self) -> Floats:
        """The weight of all outcomes of each cell."""
        return np.asarray(self.outcomes.sum(axis=0))

    @property
    def wins(self) -> Floats:
        """What the first and what the second side won, ties as half."""
        won, tied, lost = self.outcomes
        return np.stack([won + tied / 2, lost + tied / 2])

    def with_weights(self, weights: Floats) -> Cells:
        """The same cells, each outcome times a weight."""
        return replace(self, outcomes=weights * self.outcomes)

    def and_also(self, other: Cells) -> Cells:
        """These cells and those."""
        a, b, x = ([getattr(each, name) for each in (self, other)] for name in ("a", "b", "x"))
        outcomes = np.concatenate([self.outcomes, other.outcomes], axis=1)
        return Cells(np.concatenate(a), np.concatenate(b), outcomes, np.concatenate(x))

    def single_votes(self) -> tuple[Cells, Floats]:
        """A cell for a single vote of each outcome that a cell has, and how many there were."""
        counts = self.outcomes.ravel()
        there = np.flatnonzero(counts > 0)
        ended, cell = np.divmod(there, len(self.a))
        return replace(self.at(cell), outcomes=np.eye(3)[:, ended]), counts[there]

    def alike(self, n_models: int) -> tuple[Cells, NDArray[np.int32]]:
        """A cell for each kind of vote among cells of a single one, and the kind of each; cells
        with covariates, or with parts of votes, stay what they are.
        """
        whole = np.isin(self.outcomes, (0.0, 1.0)).all() and np.all(self.games == 1)
        if self.x.shape[1] or not whole:
            return self, np.arange(len(self.a), dtype=np.int32)
        pairs, (won, tied, _) = Pairs.of(self, n_models), self.outcomes
        ended = np.where(tied > 0, 1, np.where((won > 0) == pairs.turned, 2, 0))
        met = len(pairs.low)
        kinds, of_row = _numbered(ended * met + pairs.of_cell, 3 * met)
        ended, pair = np.divmod(kinds, met)
        cells = Cells.plain(pairs.low[pair], pairs.high[pair], np.eye(3)[:, ended])
        return cells, of_row.astype(np.int32)

    def at(self, rows: NDArray[Any]) -> Cells:
        """Some of the cells."""
        return Cells(self.a[rows], self.b[rows], self.outcomes[:, rows], self.x[rows])


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs that met (the lower number first), and which of them each cell belongs to."""

    low: Codes
    high: Codes
    of_cell: Codes
    turned: NDArray[np.bool_]
    n_models: int

    @classmethod
    def of(cls, cells: Cells, n_models: int) -> Pairs:
        turned = cells.a > cells.b
        low, high = np.where(turned, cells.b, cells.a), np.where(turned, cells.a, cells.b)
        met, of_cell = _numbered(low * n_models + high, n_models * n_models)
        return cls(met // n_models, met % n_models, of_cell, turned, n_models)

    def pooled(self, cells: Cells) -> Cells:
        """One cell per pair, with the sums of its cells; only for cells without covariates."""
        won, tied, lost = cells.outcomes
        by_low, by_high = np.where(self.turned, [lost, won], [won, lost])
        sums = [_sums(self.of_cell, each, len(self.low)) for each in (by_low, tied, by_high)]
        return Cells.plain(self.low, self.high, np.array(sums))

    def taken(self, pooled: Cells, *, half: bool) -> tuple[Codes, Codes]:
        """Who took a win from whom, or part of one. Where ties are an outcome of their own rather
        than `half` a win, they hold two models together only if wins both ways somewhere say how
        rare ties are.
        """
        won, tied, lost = pooled.outcomes
        by_wins = self.winners(won, lost)
        if not half and np.bincount(strong_groups(self.n_models, *by_wins)).max() == 1:
            return by_wins
        return self.winners(won + tied, lost + tied)

    def winners(self, by_low: Floats, by_high: Floats) -> tuple[Codes, Codes]:
        """Who took something from whom, given what either side of each pair took."""
        low, high = by_low > 0, by_high > 0
        return (
            np.concatenate([self.low[low], self.high[high]]),
            np.concatenate([self.high[low], self.low[high]]),
        )

    def divided(self, pooled: Cells, *, half: bool) -> NDArray[np.bool_]:
        """Pairs of which one never beat the other, not even through others."""
        group = strong_groups(self.n_models, *self.taken(pooled, half=half))
        return np.asarray(group[self.low] != group[self.high])

    def prior(self, wins: float, n_covariates: int) -> Cells:
        """`wins` for either side of every pair; no cells where there are none to give."""
        n = len(self.low) if wins else 0
        outcomes = np.outer([wins, 0.0, wins], np.ones(n))
        return Cells(self.low[:n], self.high[:n], outcomes, np.zeros((n, n_covariates)))


@dataclass(frozen=True, slots=True)
class Fit:
    """The peak of a likelihood: strengths (natural units, mean 0), the tie parameter and the
    covariates' coefficients in one vector, with the curvature there.
    """

    theta: Floats
    information: Floats
    n_models: int
    ties: TieModel

    @property
    def strength(self) -> Floats:
        return self.theta[: self.n_models]

    @property
    def tie(self) -> float:
        """The tie parameter; 0 where there is none."""
        return float(self.theta[self.n_models]) if self.ties.start is not None else 0.0

    def terms(self, cells: Cells) -> Terms:
        """The likelihood's terms at the peak, per cell."""
        return _terms(self.theta, cells, self.n_models, self.ties)

    def log_likelihood(self, cells: Cells) -> float:
        """The log-likelihood of cells at the peak."""
        eta, t = _gaps(self.theta, cells, self.n_models, self.ties)
        return float(self.ties.value(eta, t, *cells.outcomes).sum())

    def inverse(self) -> Floats:
        """The inverse curvature, with the strengths' mean held at 0."""
        return np.asarray(np.linalg.inv(anchored(self.information, self.n_models)), float)


def fitted(cells: Cells, n_models: int, ties: TieModel, start: Floats | None = None) -> Fit:
    """The strengths that explain the cells best; raises where Newton's method finds none."""
    theta = _start(cells, n_models, ties) if start is None else start.copy()
    before = np.inf
    for number in range(_MOST_STEPS):
        terms = _terms(theta, cells, n_models, ties)
        information = _information(terms, cells, n_models, ties)
        rise = slope(terms, cells, n_models, ties)
        try:
            step = np.asarray(np.linalg.solve(anchored(information, n_models), rise), float)
        except np.linalg.LinAlgError:
            raise RatingError(_unsettled(cells)) from None
        largest = float(np.abs(step).max())
        if number == 0 and start is None and not largest < _FAR:
            theta = _level(cells, n_models, ties)
            continue
        theta = theta + step * damping(largest)
        next_step = largest * (largest / before) ** 2  # as Newton's method converges
        done = largest < _TOLERANCE or (largest < _NEAR and next_step < _TOLERANCE / 100)
        if done or before / 2 < largest < _ROUNDING:
            theta[:n_models] -= theta[:n_models].mean()
            terms = _terms(theta, cells, n_models, ties)
            return Fit(theta, _information(terms, cells, n_models, ties), n_models, ties)
        before = largest
    raise RatingError(_unsettled(cells))


def constrained(fit: Fit, cells: Cells, inverse: Floats, contrast: Floats, value: float) -> float:
    """The largest log-likelihood of cells where the contrast of the parameters has this value.

    By Newton's method; with many models, the `inverse` curvature of a fit near by serves at first,
    scaled as the curvature of each model changes on the way.
    """
    n, ties = fit.n_models, fit.ties
    along = inverse @ contrast
    theta = fit.theta - along * ((contrast @ fit.theta - value) / (contrast @ along))
    bent, scale = 1 / np.diag(inverse), np.ones(len(theta))
    for number in range(_MOST_STEPS):
        terms = _terms(theta, cells, n, ties)
        both = np.stack([slope(terms, cells, n, ties), contrast], axis=1)
        if n > _MANY and number < _SCALED_STEPS:
            curve = _sums(cells.a, terms.eta_eta, n) + _sums(cells.b, terms.eta_eta, n)
            scale[:n] = np.sqrt(bent[:n] / np.maximum(curve, _SAME))
            free, along = (scale[:, None] * (inverse @ (scale[:, None] * both))).T
        else:
            curvature = anchored(_information(terms, cells, n, ties), n)
            curvature += _SAME * np.eye(len(theta))
            free, along = np.linalg.solve(curvature, both).T
        step = free - along * ((contrast @ free) / (contrast @ along))
        largest = float(np.abs(step).max())
        theta = theta + step * damping(largest)
        if largest < _FLAT:
            break
    value_there = replace(fit, theta=theta).log_likelihood(cells)
    return value_there if isfinite(value_there) else -inf


def _unsettled(cells: Cells) -> str:
    if cells.x.shape[1]:
        return "no finite fit exists: the covariates decide nearly every battle; leave one out"
    return "no finite rating exists; set a prior above 0"


def slope(terms: Terms, cells: Cells, n_models: int, ties: TieModel) -> Floats:
    """The gradient of the log-likelihood in all parameters."""
    parts = [to_models(cells, terms.eta, n_models)]
    if ties.start is not None:
        parts.append(np.array([terms.t.sum()]))
    return np.concatenate([*parts, cells.x.T @ terms.eta])


def gradient(theta: Floats, cells: Cells, n_models: int, ties: TieModel) -> Floats:
    """The gradient at a point."""
    return slope(_terms(theta, cells, n_models, ties), cells, n_models, ties)


def _start(cells: Cells, n_models: int, ties: TieModel) -> Floats:
    """Close to the peak: a few of Newman's (2023) iterations, each a pass over the cells where one
    of Newton's solves for all models at once.
    """
    won, lost = cells.wins
    side, other = np.append(cells.a, cells.b), np.append(cells.b, cells.a)
    wins, losses = np.append(won, lost), np.append(lost, won)
    q = np.ones(n_models)
    for _ in range(_NEWMAN_STEPS):
        share = 1 / (q[side] + q[other])
        gained = _sums(side, wins * share * q[other], n_models)
        q = gained / np.maximum(_sums(side, losses * share, n_models), _NEWMAN_MIN_ODDS)
        mean = np.exp(np.log(np.maximum(q, _NEWMAN_MIN_ODDS)).mean())
        q = np.clip(q / mean, _NEWMAN_MIN_ODDS, 1 / _NEWMAN_MIN_ODDS)
    theta = _level(cells, n_models, ties)
    theta[:n_models] = np.log(q)
    return theta


def _level(cells: Cells, n_models: int, ties: TieModel) -> Floats:
    """All models alike, which Newton's method starts from where nothing better is known."""
    extra = [] if ties.start is None else [ties.start]
    return np.concatenate([np.zeros(n_models), extra, np.zeros(cells.x.shape[1])])


def damping(largest: float) -> float:
    """What part of Newton's step to go, given its largest entry: all of a small one; of a larger
    one, with which it may go back and forth for ever, the part that climbs for sure, since a
    logistic model's curvature changes no faster with gaps (Sun and Tran-Dinh 2019).
    """
    return 1.0 if largest < _SURE else log1p(2 * largest) / (2 * largest)


def _terms(theta: Floats, cells: Cells, n_models: int, ties: TieModel) -> Terms:
    return ties.terms(*_gaps(theta, cells, n_models, ties), *cells.outcomes)


def _gaps(theta: Floats, cells: Cells, n_models: int, ties: TieModel) -> tuple[Floats, float]:
    """How far each cell's first side is ahead, and the tie parameter."""
    strength, has_tie = theta[:n_models], ties.start is not None
    eta = strength[cells.a] - strength[cells.b]
    if cells.x.shape[1]:
        eta = eta + cells.x @ theta[n_models + has_tie :]
    return eta, float(theta[n_models]) if has_tie else 0.0


def to_models(cells: Cells, values: Floats, n_models: int) -> Floats:
    """Values of cells, added to their first model and taken from their second."""
    return _sums(cells.a, values, n_models) - _sums(cells.b, values, n_models)


def _numbered(keys: Codes, n: int) -> tuple[Codes, Codes]:
    """The keys that occur, of n possible, and the place among them of each; without sorting."""
    met = np.flatnonzero(np.bincount(keys, minlength=n))
    place = np.zeros(n, np.intp)
    place[met] = np.arange(len(met))
    return met, place[keys]


def _sums(places: Codes, values: Floats, n: int) -> Floats:
    return np.bincount(places, values, n).astype(float)


def _information(terms: Terms, cells: Cells, n_models: int, ties: TieModel) -> Floats:
    """The observed information: that of strengths and covariates, the tie parameter between."""
    n, plain = n_models, gram(cells, terms.eta_eta, n_models)
    if ties.start is None:
        return plain
    tie = np.append(to_models(cells, terms.eta_t, n), cells.x.T @ terms.eta_t)
    return np.insert(np.insert(plain, n, tie, 0), n, np.insert(tie, n, terms.t_t.sum()), 1)


def gram(cells: Cells, weights: Floats, n: int) -> Floats:
    """The weighted sum over cells of the squared design: strengths, then covariates."""
    border = np.array([to_models(cells, weights * x, n) for x in cells.x.T])
    return bordered(laplacian(cells, weights, n), border, cells.x.T @ (weights[:, None] * cells.x))


def laplacian(cells: Cells | BattleLog, weights: Floats, n: int) -> Floats:
    """The Laplacian of the graph whose edges are the cells (or battles), each with its weight."""
    weight = np.bincount(cells.a * n + cells.b, weights, n * n).reshape(n, n)
    weight = weight + weight.T
    np.fill_diagonal(weight, 0)
    return np.diag(weight.sum(axis=1)) - weight


def bordered(inner: Floats, border: Floats, corner: Floats) -> Floats:
    """A symmetric matrix of its parts."""
    if not len(border):
        return inner
    return np.block([[inner, border.T], [border, corner]])


def anchored(information: Floats, n_models: int) -> Floats:
    """The curvature with the strengths' mean, which no battle tells, held in place."""
    whole = information.copy()
    whole[:n_models, :n_models] += 1 / n_models
    return whole


def check_identified(cells: Cells, n_models: int) -> None:
    """Refuse covariates that are collinear, with each other or with the models: no battle could
    tell their coefficients apart, and only a prior would pretend to.
    """
    n, whole = n_models, anchored(gram(cells, cells.games, n_models), n_models)
    border, own = whole[n:, :n], whole[n:, n:]
    if np.linalg.matrix_rank(own, tol=_SAME * float(own.max())) < len(own):
        raise RatingError("the covariates say the same thing twice; leave one out")
    left = own - border @ np.linalg.solve(whole[:n, :n], border.T)
    if np.linalg.matrix_rank(left, tol=_SAME * float(own.max())) < len(own):
        raise RatingError(
            "a covariate cannot be told from the models: each has its own in every battle"
        )
