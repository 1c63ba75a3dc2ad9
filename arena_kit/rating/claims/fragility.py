"""How fragile an order is: the fewest votes that, taken out or added, would turn it round.

Which votes hold a gap apart is told by their influence, the derivative of the gap in each vote's
weight; how many of them it takes is found by refits (Broderick, Giordano and Meager 2020 call the
first step AMIP). So every number is one that does turn the order round, and one vote less, chosen
in the same way, does not; a cleverer choice might take fewer. Added are votes of one kind that was
cast before: the same pair, the same outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.rating.base import RatingError, check_kept, strongly_connected
from arena_kit.rating.bradley_terry.bootstrap import refitted
from arena_kit.rating.bradley_terry.likelihood import Cells, Fit, Pairs, fitted
from arena_kit.rating.bradley_terry.method import BradleyTerry, one_thread
from arena_kit.rating.bradley_terry.tie_models import TIE_MODELS, Floats

_MOST_REFITS = 60
_TIED = 1e-9  # a gap that is rounding
#: Challengers of the first place that are looked at beside the second.
_CHALLENGERS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragile:
    """Two models, and the fewest votes `removed` or `added` that would put `below` first.

    None where no number of them does; `between` is how many votes the two have between them, `of`
    how many there are.
    """

    above: str
    below: str
    removed: int | None
    added: int | None
    between: int
    of: int

    @property
    def sentence(self) -> str:
        """The same in words."""
        ways = [(n, verb) for n, verb in ((self.removed, "removed"), (self.added, "added")) if n]
        if not ways:
            return f"No choice of battles puts {self.below} above {self.above}."
        fewest = min(n for n, _ in ways)
        first, *more = [f"{n:,} {verb}" for n, verb in ways]
        number, _, verb = first.partition(" ")
        told = " or ".join([f"{number} {'battle' if number == '1' else 'battles'} {verb}", *more])
        return f"{told} would put {self.below} above {self.above}{self._beside(fewest)}."

    def _beside(self, votes: int) -> str:
        """How much so many votes are, beside those between the two."""
        if votes > self.between:
            return f"; the two met {self.between:,} times" if self.between else "; they never met"
        percent = 100 * votes / self.between
        share = f"{percent:.0f}%" if percent >= 10 else f"{percent:.2g}%"
        return f", {share} of the {self.between:,} between the two"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragility:
    """What would change the `first` place, and the order of all `neighbours`, best first."""

    first: Fragile
    neighbours: tuple[Fragile, ...]


def fragility(battles: BattleLog, method: BradleyTerry | None = None) -> Fragility:
    """How many votes the order of a log rests on, under a method with ties as half wins and no
    covariates; raises `RatingError` where no rating exists.
    """
    method = method or BradleyTerry()
    if method.ties != "half" or method.covariates or battles.share_a is not None:
        raise RatingError("fragility needs ties='half', no covariates and no soft outcomes")
    log, dropped = method.kept(battles)
    check_kept(battles, log, dropped)
    if len(log.models) < 2:
        raise RatingError(f"fragility needs two models or more, not {len(log.models)}")
    with one_thread():
        board = _Board.of(log, method)
        order = np.argsort(-board.fit.strength, kind="stable").tolist()
        pairs = [board.turned(above, below) for above, below in pairwise(order)]
        rivals = [board.turned(order[0], below) for below in board.rivals(order)]
        return Fragility(first=_least([pairs[0], *rivals]), neighbours=tuple(pairs))


def _least(rivals: list[Fragile]) -> Fragile:
    """The challenger that needs the fewest votes, one way or the other."""
    never = float("inf")

    def needed(each: Fragile) -> float:
        return min(n if n is not None else never for n in (each.removed, each.added))

    return min(rivals, key=needed)


@dataclass(frozen=True, slots=True)
class _Board:
    """A fit, the single votes behind it (a row for each pair and outcome), and their number."""

    models: tuple[str, ...]
    fit: Fit
    inverse: Floats
    votes: Cells
    counts: Floats
    slope: Floats
    pairs: Pairs
    pooled: Cells
    prior: Cells

    @classmethod
    def of(cls, log: BattleLog, method: BradleyTerry) -> _Board:
        votes, counts = Cells.counted(log)
        n = len(log.models)
        pairs = Pairs.of(votes, n)
        pooled = pairs.pooled(votes.with_weights(counts))
        prior = method.priors(pooled, pairs).always
        fit = fitted(pooled.and_also(prior), n, TIE_MODELS["half"])
        slope = fit.terms(votes).eta
        return cls(log.models, fit, fit.inverse(), votes, counts, slope, pairs, pooled, prior)

    def influence(self, above: int, below: int) -> Floats:
        """How much one vote of each row adds to the gap."""
        pull = self.inverse[above] - self.inverse[below]
        return np.asarray((pull[self.votes.a] - pull[self.votes.b]) * self.slope)

    def gap(self, above: int, below: int) -> float:
        return float(self.fit.strength[above] - self.fit.strength[below])

    def guess(self, above: int, below: int) -> float:
        """To first order, how many of the most influential votes make up the gap."""
        most = float(self.influence(above, below).max())
        return self.gap(above, below) / most if most else float("inf")  # ties alone move nothing

    def rivals(self, order: list[int]) -> list[int]:
        """Models below the second that might become first with fewer votes than it."""
        guesses = {below: self.guess(order[0], below) for below in order[1:]}
        near = [below for below in order[2:] if guesses[below] < 2 * guesses[order[1]]]
        return sorted(near, key=guesses.__getitem__)[:_CHALLENGERS]

    def turned(self, above: int, below: int) -> Fragile:
        """The fewest votes that turn one order round."""
        influence, met = self.influence(above, below), self._met(above, below)
        removed = self._removed(above, below, influence)
        if removed is None:  # the most influential may be all that keeps others finite
            removed = self._removed(above, below, np.where(met, influence, 0.0))
        return Fragile(
            above=self.models[above],
            below=self.models[below],
            removed=removed,
            added=self._added(above, below, influence),
            between=round(self.counts[met].sum()),
            of=round(self.counts.sum()),
        )

    def _removed(self, above: int, below: int, influence: Floats) -> int | None:
        """How few of the votes that hold the order, the most influential first, turn it round."""
        rows = np.argsort(-influence, kind="stable")
        rows = rows[influence[rows] > 0]
        if not len(rows):
            return None
        most = np.cumsum(self.counts[rows])
        worth = np.cumsum(self.counts[rows] * influence[rows])

        def left(k: int) -> float:
            taken = np.zeros(len(self.counts))
            taken[rows] = np.clip(k - (most - self.counts[rows]), 0, self.counts[rows])
            return self._gap_after(above, below, -taken)

        gap, limit = self.gap(above, below), int(most[-1]) - 1
        first = int(np.interp(gap, worth, most)) + 1
        return _fewest(left, gap, min(first, limit), limit)

    def _added(self, above: int, below: int, influence: Floats) -> int | None:
        """How few votes of the kind that speaks most against the order turn it round."""
        worst = int(np.argmin(influence))
        if influence[worst] >= 0:
            return None

        def left(k: int) -> float:
            more = np.zeros(len(self.counts))
            more[worst] = k
            return self._gap_after(above, below, more)

        gap = self.gap(above, below)
        first = int(gap / -influence[worst]) + 1
        return _fewest(left, gap, first, 100 * first + 100)

    def _gap_after(self, above: int, below: int, votes: Floats) -> float:
        """The gap with some votes more or fewer, by a refit; NaN where no rating is finite."""
        cells = self._changed(votes)
        if np.any(votes <= -self.counts) and not self._rateable(cells):  # a kind of vote is gone
            return np.nan
        theta = refitted(self.fit, cells, self.inverse)
        return float(theta[above] - theta[below])

    def _rateable(self, cells: Cells) -> bool:
        """Whether everybody took something from everybody, directly or through others (Ford 1957),
        which is told sooner than by a fit that runs away.
        """
        by_a, by_b = cells.won + cells.tied > 0, cells.lost + cells.tied > 0
        winner = np.append(cells.a[by_a], cells.b[by_b])
        loser = np.append(cells.b[by_a], cells.a[by_b])
        return strongly_connected(len(self.models), winner, loser)

    def _met(self, one: int, other: int) -> NDArray[np.bool_]:
        """The rows in which two models met."""
        a, b = self.votes.a, self.votes.b
        return np.asarray(((a == one) & (b == other)) | ((a == other) & (b == one)))

    def _changed(self, votes: Floats) -> Cells:
        """The pairs' cells with some votes more or fewer."""
        change = self.pairs.pooled(self.votes.with_weights(votes))
        cells = replace(
            self.pooled,
            won=self.pooled.won + change.won,
            tied=self.pooled.tied + change.tied,
            lost=self.pooled.lost + change.lost,
        )
        return cells.and_also(self.prior)


def _fewest(gap_after: Callable[[int], float], gap: float, guess: int, most: int) -> int | None:
    """The least k, up to `most`, from which the gap is below 0: by secants, as long as no number is
    known that is enough, then by interpolation between it and one that is too small.
    """
    low, low_gap, high, high_gap, rate = 0, gap, 0, np.nan, 0.0
    k = guess
    for _ in range(_MOST_REFITS):
        if not low < k <= most:
            return None
        after = gap_after(k)
        if np.isnan(after):  # so many votes leave no finite rating
            most, k = k - 1, (low + k) // 2
            continue
        if after < -_TIED:
            high, high_gap = k, after
        else:
            rate = (low_gap - after) / (k - low)
            low, low_gap = k, after
        if high and high - low == 1:
            return high
        if high:
            part = low_gap / (low_gap - high_gap)
            k = min(max(low + round(part * (high - low)), low + 1), high - 1)
        else:
            k = low + 1 + (int(1.02 * low_gap / rate) if rate > 0 else low)
            k = most if low < most < k else k
    return None
