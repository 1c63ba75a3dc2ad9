"""The rules of the policy: each gives its verdict, and the reasons with the numbers.

The publication rules of section 10 require enough comparisons; they do not test who is better. The
order is tested with Bradley–Terry and claims that hold for repeated looks (docs/claims.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from itertools import pairwise
from statistics import fmean, median
from typing import Any, NamedTuple, Self

import numpy as np

from arena_kit.battles.battle import BOTH_BAD
from arena_kit.battles.log import BattleLog
from arena_kit.policy.constants import Policy, Threshold
from arena_kit.policy.exposure import stable_rd
from arena_kit.rating.base import Ratings, some
from arena_kit.rating.claims import claims

_WEEK = np.timedelta64(7, "D")
_LATELY = 4  # weeks behind the present rate of votes
_NAMED = 4  # pairs named in a sentence
_ROUNDING = 1e-9  # a mean of exact shares may miss its threshold by so much


class Badge(StrEnum):
    """How settled a model's place is."""

    PROVISIONAL = "Provisional"
    ESTABLISHED = "Established"
    STABLE = "Stable"


class PublicationLabel(StrEnum):
    """What the board may be called."""

    OFFICIAL = "officially stable"
    CALIBRATING = "calibrating"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the rules ask of one model: its rating state and how well it is covered."""

    model: str
    rating: float
    rd: float
    decisive: int = 0
    prompt_coverage: float = 0.0
    votes: int = 0
    both_bad: int = 0

    def conservative(self, policy: Policy) -> float:
        """The lower confidence bound that models are ordered by (4, 5.2)."""
        return self.rating - policy.deviations * self.rd


class PairCoverage(NamedTuple):
    """Decisive votes between two models, on how many prompts (4), and how much of the floor of
    comparisons that is: 1 when it is met (7.3).
    """

    votes: int
    prompts: int
    score: float

    @classmethod
    def of(cls, policy: Policy, votes: int, prompts: int) -> Self:
        """So many votes on so many prompts, beside the floor."""
        floor = policy.pairs
        return cls(votes, prompts, min(1.0, votes / floor.votes, prompts / floor.prompts))


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityFloor:
    """How seldom a model's battles end in both-bad (8.3), and whether it should be looked at.

    The rate and the score are None where there is no vote.
    """

    model: str
    both_bad_rate: float | None
    score: float | None
    check: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationStatus:
    """The publication label of the board (10); the reasons are unmet conditions, or all if met.
    Whether its order is decided is a separate question: see `OrderStatus`.

    `conditions` are all conditions, each with whether it is met.
    """

    status: PublicationLabel
    top: tuple[str, ...]
    reasons: tuple[str, ...]
    conditions: tuple[tuple[bool, str], ...] = ()

    @property
    def sentence(self) -> str:
        """Status and reasons in one line."""
        return f"{self.status}: {'; '.join(self.reasons)}"


def established(policy: Policy, standing: Standing) -> tuple[bool, tuple[str, ...]]:
    """Whether votes, prompt coverage and RD all reach the threshold until which a model is
    provisional (5.3); the reasons are what it lacks, or has.
    """
    return _all_met(_conditions(policy.established, standing))


def officially_ranked(policy: Policy, standings: Iterable[Standing]) -> list[Standing]:
    """The models that official claims may name, best first: provisional ones are outside (5.3)."""
    return [s for s in ranked(policy, standings) if established(policy, s)[0]]


def stability_badge(
    policy: Policy, standing: Standing, neighbours: Sequence[PairOrder] = ()
) -> tuple[Badge, tuple[str, ...]]:
    """Stable where both thresholds are reached, RD at its floor, and the order against every
    neighbour is decided or equivalent; Established at the first threshold, else Provisional. The
    reasons are what the model has for its badge, or lacks for the next.

    `neighbours` are what the votes say of the officially ranked models right above and below.
    """
    enough, lacking = established(policy, standing)
    if not enough:
        return Badge.PROVISIONAL, lacking
    threshold, margin = replace(policy.stable, rd=stable_rd(policy)), policy.publication.margin
    orders = [(pair.settled, pair.seen_by(standing.model, margin)) for pair in neighbours]
    alone = [(False, "no officially ranked model above or below")]
    stable, reasons = _all_met([*_conditions(threshold, standing), *(orders or alone)])
    return Badge.STABLE if stable else Badge.ESTABLISHED, reasons


def ranked_neighbours(
    policy: Policy, standings: Iterable[Standing], strengths: Ratings, per_week: float | None = None
) -> dict[str, tuple[PairOrder, ...]]:
    """What the votes say of every officially ranked model and those right above and below it."""
    named = [standing.model for standing in officially_ranked(policy, standings)]
    pairs = neighbour_orders(policy, named, strengths, per_week)
    return {model: pairs[max(0, n - 1) : n + 1] for n, model in enumerate(named)}


def confidence(policy: Policy, rd: float) -> int:
    """An RD as a percentage between the smallest and the largest there is; it says nothing about
    evidence beyond RD.
    """
    best, span = policy.confidence.rd_best, policy.confidence.rd_span
    return min(100, max(0, round(100 * (1 - (rd - best) / span))))


def ranked(policy: Policy, standings: Iterable[Standing]) -> list[Standing]:
    """Best conservative score first (5.2); equal scores in order of name."""
    return sorted(standings, key=lambda s: (-s.conservative(policy), s.model))


def contender_band(policy: Policy, standings: Iterable[Standing]) -> tuple[str, ...]:
    """The top models by conservative score (4), best first."""
    return tuple(s.model for s in ranked(policy, standings)[: policy.contenders.band])


def quality_floor(policy: Policy, standing: Standing) -> QualityFloor:
    """The both-bad rate of a model, its complement, and whether it calls for a check."""
    bad, votes, limit = standing.both_bad, standing.votes, policy.quality
    rate = bad / votes if votes else None
    often = rate is not None and rate > limit.both_bad_rate
    shown = "no votes" if rate is None else f"{bad} of {votes} votes both-bad ({100 * rate:.1f} %)"
    allowed = f"checked above {100 * limit.both_bad_rate:g} % and {limit.min_both_bad} such votes"
    return QualityFloor(
        model=standing.model,
        both_bad_rate=rate,
        score=None if rate is None else 1 - rate,
        check=often and bad >= limit.min_both_bad,
        reasons=(f"{shown}; {allowed}",),
    )


def quality_checks(policy: Policy, standings: Iterable[Standing]) -> tuple[QualityFloor, ...]:
    """The models whose both-bad votes call for a check, worst first."""
    due = [floor for floor in (quality_floor(policy, s) for s in standings) if floor.check]
    return tuple(sorted(due, key=lambda floor: (-(floor.both_bad_rate or 0.0), floor.model)))


def publication_status(
    policy: Policy, standings: Sequence[Standing], pair: Callable[[str, str], PairCoverage]
) -> PublicationStatus:
    """Whether the board may be called officially stable; `pair` is `Coverage.pair`.

    Provisional models are outside official claims (5.3), so the top is that of the others. It
    must be whole: where there are too few others, the conditions are shown for all models.
    """
    order, rule = ranked(policy, standings), policy.publication
    named = officially_ranked(policy, standings)
    needed = max(2, min(rule.top, len(order)))
    enough = len(named) >= needed
    top = (named if enough else order)[: rule.top]
    conditions = _top_conditions(policy, top, pair)
    if not enough:
        few = f"{len(named)} of {len(order)} models are officially ranked, {needed} needed"
        conditions = [(False, few), *conditions]
    met, reasons = _all_met(conditions)
    if enough and len(top) < rule.top:
        reasons += (f"there are only {len(top)} models for the top {rule.top}",)
    return PublicationStatus(
        status=PublicationLabel.OFFICIAL if met else PublicationLabel.CALIBRATING,
        top=tuple(s.model for s in top) if enough else (),
        reasons=reasons,
        conditions=tuple(conditions),
    )


def _top_conditions(
    policy: Policy, top: Sequence[Standing], pair: Callable[[str, str], PairCoverage]
) -> list[tuple[bool, str]]:
    """The three of section 10."""
    rule = policy.publication
    rd = median(s.rd for s in top) if top else policy.glicko.rd
    coverage = fmean(s.prompt_coverage for s in top) if top else 0.0
    of_top = f"of the top {rule.top} is"
    return [
        _at_most(f"median RD {of_top}", rd, rule.median_rd),
        _pairs_covered(policy, [s.model for s in top], pair),
        _share_of_prompts(f"mean prompt coverage {of_top}", coverage, rule.prompt_coverage),
    ]


def _pairs_covered(
    policy: Policy, names: Sequence[str], pair: Callable[[str, str], PairCoverage]
) -> tuple[bool, str]:
    rule, full = policy.publication, policy.pairs
    adjacent = [(above, below, pair(above, below)) for above, below in pairwise(names)]
    missing = [
        f"{above}–{below} {cell.votes}/{full.votes} votes on {cell.prompts}/{full.prompts} prompts"
        for above, below, cell in adjacent
        if cell.score < 1
    ]
    met = len(adjacent) - len(missing)
    text = (
        f"{met} of {len(adjacent)} adjacent pairs in the top {rule.top} have {full.votes} votes on "
        f"{full.prompts} prompts, {100 * rule.pair_share:g} % needed"
    )
    listed = f"; too few: {', '.join(missing)}" if missing else ""
    return met >= rule.pair_share * len(adjacent) - _ROUNDING, text + listed


def _conditions(threshold: Threshold, standing: Standing) -> list[tuple[bool, str]]:
    votes, needed = standing.decisive, threshold.decisive
    return [
        (votes >= needed, f"{votes} decisive votes, {needed} needed"),
        _share_of_prompts("prompt coverage", standing.prompt_coverage, threshold.prompt_coverage),
        _at_most("RD", standing.rd, threshold.rd),
    ]


def _share_of_prompts(what: str, share: float, needed: float) -> tuple[bool, str]:
    text = "below 0.001" if 0 < share < 0.001 else _beside(share, needed)
    return share >= needed - _ROUNDING, f"{what} {text}, {needed:g} needed"


def _at_most(what: str, value: float, limit: float) -> tuple[bool, str]:
    return value <= limit, f"{what} {_beside(value, limit)}, at most {limit:g} allowed"


def _all_met(conditions: Sequence[tuple[bool, str]]) -> tuple[bool, tuple[str, ...]]:
    """Whether all hold, and the texts of those that do not, or of all when they do."""
    unmet = tuple(text for met, text in conditions if not met)
    return not unmet, unmet or tuple(text for _, text in conditions)


def _beside(value: float, limit: float) -> str:
    """A number with as many digits as it takes to tell it from a limit that it is not."""
    texts = (f"{value:.{digits}g}" for digits in (4, 6, 8))
    same = abs(value - limit) <= _ROUNDING
    return next((text for text in texts if same or float(text) != limit), f"{value!r}")


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
        by_votes = f"in Bradley–Terry order, {settled} of {n} are decided or equivalent"
        parts = [self.counts, by_votes]
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
    states = dict(zip(known, claims.between(strengths, known, margin), strict=True))
    alike = dict(zip(known, claims.until_equivalent(strengths, known, margin), strict=True))
    found = ((pair, states.get(pair), alike.get(pair)) for pair in pairs)
    return tuple(_pair_order(*each, strengths, per_week) for each in found)


def _pair_order(
    pair: tuple[str, str],
    state: claims.Neighbours | None,
    alike: int | None,
    strengths: Ratings,
    per_week: float | None,
) -> PairOrder:
    above, below = pair
    if state is None:
        return PairOrder(above=above, below=below)
    gap = strengths[above].rating - strengths[below].rating
    way = Verdict.DECIDED if state.above == above else Verdict.REVERSED
    if state.state != "unresolved":
        verdict = way if state.state == "decided" else Verdict(state.state)
        return PairOrder(above=above, below=below, verdict=verdict, gap=gap)
    ends = [
        (n, end) for n, end in ((state.more, way), (alike, Verdict.EQUIVALENT)) if n is not None
    ]
    more, becomes = min(ends, default=(None, None))
    weeks = more / per_week if more is not None and per_week else None
    return PairOrder(above=above, below=below, gap=gap, becomes=becomes, more=more, weeks=weeks)


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
    n = claims.two_digits(round(weeks))
    return "about a week" if n == 1 else f"about {n:,} weeks"
