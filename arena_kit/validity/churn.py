"""Top-rank churn against confidence bands (12): who moved, and whether that means anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A model and its confidence band: rating less and plus so many RDs."""

    model: str
    low: float
    high: float

    def overlaps(self, other: Place) -> bool:
        """Whether the two bands have a point in common."""
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A model at the top whose rank changed; None is a week in which it was not there.

    `crossed` are the models that it changed order with, and `apart` those of them whose band
    does not overlap with its own now.
    """

    model: str
    before: int | None
    now: int | None
    crossed: tuple[str, ...]
    apart: tuple[str, ...]

    @property
    def inside(self) -> bool:
        """Whether the move stayed within the bands, so that chance may have made it."""
        return not self.apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Churn:
    """Moves among the top of either week, and pairs there that changed order."""

    top: int
    moves: tuple[Move, ...]
    swaps: int
    swaps_inside: int

    @property
    def sentence(self) -> str:
        """What happened, in a sentence."""
        if not self.moves:
            return f"No model of the top {self.top} changed rank."
        left = [move for move in self.moves if move.now is None or move.now > self.top]
        moved = f"{len(self.moves) - len(left)} of the top {self.top} changed rank"
        if left:
            gone = ", ".join(f"{m.model} ({m.before} → {m.now or 'gone'})" for m in left)
            moved += f", and {gone} left it"
        if not self.swaps:
            return f"{moved}; no two models that were there before changed order."
        pairs = "1 pair" if self.swaps == 1 else f"{self.swaps} pairs"
        outside = self.swaps - self.swaps_inside
        if not outside:
            overlap = "its bands overlap" if self.swaps == 1 else "all with bands that overlap"
            return f"{moved}; {pairs} changed order, {overlap}: sampling noise alone may do that."
        named = ", ".join(f"{m.model} ({', '.join(m.apart)})" for m in self.moves if m.apart)
        return (
            f"{moved}; {pairs} changed order, {outside} of them with bands that lie apart: {named}."
        )


def churn(before: Sequence[Place], now: Sequence[Place], *, top: int) -> Churn:
    """Compare two orders, best first; the bands are those of `now`."""
    rank = {place.model: n for n, place in enumerate(now, 1)}
    was = {place.model: n for n, place in enumerate(before, 1)}
    band = {place.model: place for place in now}
    upper = [m for m in {**rank, **was} if min(rank.get(m, top + 1), was.get(m, top + 1)) <= top]
    both = [m for m in rank if m in was]
    swapped = [
        (a, b)
        for a, b in combinations(both, 2)
        if (rank[a] < rank[b]) != (was[a] < was[b]) and (a in upper or b in upper)
    ]
    moves = []
    for model in upper:
        if rank.get(model) != was.get(model):
            crossed = [b if a == model else a for a, b in swapped if model in (a, b)]
            apart = [other for other in crossed if not band[model].overlaps(band[other])]
            moves.append(
                Move(
                    model=model,
                    before=was.get(model),
                    now=rank.get(model),
                    crossed=tuple(crossed),
                    apart=tuple(apart),
                )
            )
    moves.sort(key=lambda move: (move.now or len(rank) + 1, move.model))
    inside = sum(band[a].overlaps(band[b]) for a, b in swapped)
    return Churn(top=top, moves=tuple(moves), swaps=len(swapped), swaps_inside=inside)
