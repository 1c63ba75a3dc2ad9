"""Which orders of a board the votes decide, beside the publication rules of section 10.

Those rules require enough comparisons; they do not test who is better. The order is tested with
Bradley–Terry and claims that hold for repeated looks (docs/claims.md).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any

import numpy as np

from arena_kit.battles.battle import BOTH_BAD
from arena_kit.battles.log import BattleLog
from arena_kit.policy.constants import Policy
from arena_kit.rating.base import Ratings, some
from arena_kit.rating.claims import claims

_WEEK = np.timedelta64(7, "D")
_LATELY = 4  # weeks behind the present rate of votes
_NAMED = 4  # pairs named in a sentence


class Verdict(StrEnum):
    """What the votes show about an adjacent pair of a board."""

    DECIDED = "decided"
    EQUIVALENT = "equivalent"
    UNRESOLVED = "unresolved"
    REVERSED = "reversed"


_BECOMES = {
    Verdict.DECIDED: "decide it",
    Verdict.REVERSED: "show the reverse order",
    Verdict.EQUIVALENT: "show equivalence",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOrder:
    """An adjacent pair as the board orders it, and what the votes show.

    `reversed`: decided in the reverse order. `gap`: the upper one's lead in Bradley–Terry points,
    None where one of them has too little evidence. `more`: the further votes, distributed as now,
    that turn an unresolved order into `becomes` with a power of 50 %; `weeks`: how long they take
    at the current rate. None where no feasible number suffices, or without times.
    """

    above: str
    below: str
    verdict: Verdict = Verdict.UNRESOLVED
    gap: float | None = None
    becomes: Verdict | None = None
    more: int | None = None
    weeks: float | None = None

    @property
    def settled(self) -> bool:
        """Whether the board may stay as it is: decided so, or equivalent."""
        return self.verdict in (Verdict.DECIDED, Verdict.EQUIVALENT)

    @property
    def needs(self) -> str:
        """How many more votes should resolve an unresolved order, in words."""
        if self.gap is None:
            return "too little evidence for a claim"
        if self.becomes is None or self.more is None:
            return "no feasible number of votes would resolve it"
        weeks = "" if self.weeks is None else f" ({_weeks(self.weeks)} at the current rate)"
        votes = f"about {claims.two_digits(self.more):,} more votes"
        return f"{votes} should {_BECOMES[self.becomes]}{weeks}"

    def seen_by(self, model: str, margin: float) -> str:
        """The verdict on one of the two, in words that name the other."""
        upper = model == self.above
        other, side = (self.below, "above") if upper else (self.above, "below")
        if self.verdict is Verdict.DECIDED:
            return f"decided {side} {other}"
        if self.verdict is Verdict.EQUIVALENT:
            return f"equivalent to {other} within {margin:g} points"
        if self.verdict is Verdict.REVERSED:
            return f"{side} {other} on the board, but the votes decide the reverse"
        return f"order with {other} unresolved: {replace(self, weeks=None).needs}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderStatus:
    """What is decided about the order of the top, `margin` points being equivalent.

    `pairs` are the adjacent pairs of the top as the board orders it, `by_votes` those of the same
    models in the order of all votes (Bradley–Terry), best first. `about` says what the claims are
    about, a key of `CLAIMS_ABOUT`.
    """

    pairs: tuple[PairOrder, ...]
    by_votes: tuple[PairOrder, ...]
    top: int
    margin: float
    about: str

    def of(self, verdict: Verdict) -> tuple[PairOrder, ...]:
        """The adjacent pairs with this verdict, best first."""
        return tuple(pair for pair in self.pairs if pair.verdict is verdict)

    @property
    def whole(self) -> bool:
        """Whether every adjacent pair is decided or equivalent."""
        return bool(self.pairs) and all(pair.settled for pair in self.pairs)

    @property
    def counts(self) -> str:
        """How many adjacent pairs are decided, equivalent, reversed and unresolved."""
        n = {verdict: len(self.of(verdict)) for verdict in Verdict}
        alike = f", {n[Verdict.EQUIVALENT]} equivalent within {self.margin:g} points"
        reverse = f", {n[Verdict.REVERSED]} decided in the reverse order"
        return (
            f"of {len(self.pairs)} adjacent pairs in the top {self.top}, {n[Verdict.DECIDED]} are "
            f"decided{alike * bool(n[Verdict.EQUIVALENT])}{reverse * bool(n[Verdict.REVERSED])} "
            f"and {n[Verdict.UNRESOLVED]} unresolved"
        )

    @property
    def sentence(self) -> str:
        """What is decided and what is not, and for which prompts."""
        if not self.pairs:
            return "fewer than two models are rated, so there is no order to decide"
        n, settled = len(self.by_votes), sum(pair.settled for pair in self.by_votes)
        parts = [
            self.counts,
            f"in Bradley–Terry order, {settled} of {n} are decided or equivalent",
        ]
        if wrong := self.of(Verdict.REVERSED):
            named = some([f"{pair.below} above {pair.above}" for pair in wrong], _NAMED)
            parts.append(f"the votes decide {named}, against the board")
        waiting = [pair for pair in self.of(Verdict.UNRESOLVED) if pair.more is not None]
        if waiting:
            pair = min(waiting, key=lambda each: each.more or 0)
            parts.append(f"nearest to a decision: {pair.above} over {pair.below}, {pair.needs}")
        return f"{'; '.join(parts)}; claims hold for {self.about.replace('_', ' ')}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {
            "whole": self.whole,
            "counts": {verdict.value: len(self.of(verdict)) for verdict in Verdict},
            "sentence": self.sentence,
        }


def neighbour_orders(
    policy: Policy, names: Sequence[str], strengths: Ratings, per_week: float | None = None
) -> tuple[PairOrder, ...]:
    """What the votes show about every adjacent pair of an order, best first."""
    pairs = list(pairwise(names))
    placed = {row.model for row in strengths.ratings if row.placed}
    known = [pair for pair in pairs if placed.issuperset(pair)]
    margin = policy.publication.margin
    states = claims.between(strengths, known, margin)
    alike = claims.until_equivalent(strengths, known, margin)
    placed_orders = {
        pair: _pair_order(pair, state, until, strengths, per_week)
        for pair, state, until in zip(known, states, alike, strict=True)
    }
    return tuple(
        placed_orders.get(pair) or PairOrder(above=pair[0], below=pair[1]) for pair in pairs
    )


def _pair_order(
    pair: tuple[str, str],
    state: claims.Neighbours,
    alike: int | None,
    strengths: Ratings,
    per_week: float | None,
) -> PairOrder:
    above, below = pair
    gap = strengths[above].rating - strengths[below].rating
    if state.state != "unresolved":
        turned = state.state == "decided" and state.above != above
        verdict = Verdict.REVERSED if turned else Verdict(state.state)
        return PairOrder(above=above, below=below, verdict=verdict, gap=gap)
    way = Verdict.DECIDED if state.above == above else Verdict.REVERSED
    ends = [
        (n, end) for n, end in ((state.more, way), (alike, Verdict.EQUIVALENT)) if n is not None
    ]
    more, becomes = min(ends, default=(None, None))
    weeks = more / per_week if more is not None and per_week else None
    return PairOrder(
        above=above, below=below, verdict=Verdict.UNRESOLVED, gap=gap, becomes=becomes, more=more,
        weeks=weeks,
    )  # fmt: skip


def order_status(
    policy: Policy, names: Sequence[str], strengths: Ratings, per_week: float | None = None
) -> OrderStatus:
    """What is decided about an order, of which `names` are the top; best first."""
    by_votes = [row.model for row in strengths.ratings if row.model in names]
    return OrderStatus(
        pairs=neighbour_orders(policy, names, strengths, per_week),
        by_votes=neighbour_orders(policy, by_votes, strengths, per_week),
        top=len(names),
        margin=policy.publication.margin,
        about=claims.about(strengths),
    )


def votes_per_week(battles: BattleLog) -> float | None:
    """Votes per week that move ratings, over the last four weeks or the whole log if shorter; None
    where times are missing or span less than a day.
    """
    times = battles.timestamp
    if times is None or not len(times) or np.isnat(times).any():
        return None
    last = times.max()
    span = min(_LATELY * _WEEK, last - times.min())
    if span < np.timedelta64(1, "D"):
        return None
    counted = (times >= last - span) & (battles.outcome != BOTH_BAD) & ~battles.flags()
    return float(counted.sum() / (span / _WEEK))


def _weeks(weeks: float) -> str:
    if weeks < 1:
        return "less than a week"
    return (
        "about a week" if round(weeks) == 1 else f"about {claims.two_digits(round(weeks)):,} weeks"
    )
