"""How good a ranking is where the truth is known, and what was claimed of it.

Two things are claimed of a board: that it keeps the rules, which calls it officially stable and
so declares the order of its top, and which orders of that top are decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import median

from arena_kit.battles.log import BattleLog
from arena_kit.policy.constants import Order, Policy
from arena_kit.policy.coverage import Coverage
from arena_kit.policy.order import PairOrder, Verdict, order_status
from arena_kit.policy.ratings import strengths
from arena_kit.policy.rules import (
    Badge,
    PublicationLabel,
    Standing,
    provisional_state,
    publication_status,
    ranked,
    ranked_neighbours,
    stability_badge,
)
from arena_kit.rating.base import Ratings, rated_or_none
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.claims import claims

#: Points by which neighbours may truly stand the other way round in a claim that still holds.
CLAIM_MARGIN = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Closeness:
    """How close an order is to the truth: rank correlation, and pairs of the top ordered right."""

    correlation: float
    order_accuracy: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The order of the top as it was declared when the board was called officially stable.

    It is the contender band by conservative score, provisional models left out (5.3).
    `worst` is by how many points neighbours in it truly stand the other way round, at most
    (0: none do).
    """

    top: tuple[str, ...]
    worst: float

    @property
    def false(self) -> bool:
        """Whether neighbours truly stand the other way round by more than the margin."""
        return self.worst > CLAIM_MARGIN

    @property
    def strictly_false(self) -> bool:
        """Whether any neighbours truly stand the other way round."""
        return self.worst > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderClaim:
    """What the votes decide about the order of the top at one look, beside the truth.

    Parameters
    ----------
    top
        The contender band by conservative score, provisional models left out where there are
        enough others.
    neighbours, settled, settled_by_votes
        Neighbours in it, those of them whose order is decided as it stands or equivalent, and
        those of the same models in the order of all votes (Bradley–Terry).
    decided, wrong
        Pairs of the top, neighbours or not, that are decided, either way round, and those of
        them that truly stand otherwise.
    equivalent, apart
        Pairs that are equivalent, and those of them that truly lie apart by more than the margin.
    """

    top: tuple[str, ...]
    neighbours: int
    settled: int
    settled_by_votes: int
    decided: int
    wrong: int
    equivalent: int
    apart: int

    @property
    def claimed(self) -> int:
        """Pairs of which anything is claimed."""
        return self.decided + self.equivalent

    @property
    def false(self) -> bool:
        """Whether any of it is false, by however little."""
        return self.wrong + self.apart > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What is known of a run after so many votes.

    Parameters
    ----------
    models
        How many have joined; all else is about these.
    conservative, elo
        How close to the truth the order by conservative score and the order by Elo are. Both
        ratings follow the same votes.
    exposure_deviation
        The largest relative deviation from the exposure due in the rolling window.
    coverage_mean, coverage_least
        Over models, of the share of prompts with the floor of decisive votes.
    median_rd
        Over models.
    adjacent_share
        Share of neighbours in the contender band that have the floor of comparisons.
    official, claim
        Whether the rules are kept, so that the board may be called officially stable, and what
        that then claims.
    order
        What is decided about the order of the top; None where nothing can be fitted yet.
    stable, wrongly_stable
        Models with the badge Stable, and those of them that truly stand otherwise to a neighbour
        than the badge says.
    """

    votes: int
    models: int
    conservative: Closeness
    elo: Closeness
    exposure_deviation: float
    coverage_mean: float
    coverage_least: float
    median_rd: float
    adjacent_share: float
    official: bool
    claim: Claim | None
    order: OrderClaim | None
    stable: int
    wrongly_stable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One system's way through a world.

    Parameters
    ----------
    checkpoints
        What was measured on the way; the last one is the end.
    drawn, served
        Share of matchups for which each lane was drawn, and which it then served. The
        baseline has a single one.
    left
        Share of matchups in which the truly better model stood on the left.
    outcomes
        Share of votes of each kind.
    ordered_by
        The rating that the published order rests on.
    bradley_terry
        How close to the truth the order is that best explains all votes at once, None where
        there is no such.
    """

    ordered_by: Order
    checkpoints: tuple[Checkpoint, ...]
    drawn: Mapping[str, float]
    served: Mapping[str, float]
    left: float
    outcomes: Mapping[str, float]
    bradley_terry: Closeness | None

    def published(self, at: Checkpoint) -> Closeness:
        """How close to the truth the published order is."""
        return at.elo if self.ordered_by == "legacy_elo" else at.conservative

    @property
    def end(self) -> Checkpoint:
        """The last checkpoint."""
        return self.checkpoints[-1]

    @property
    def stable_at(self) -> int | None:
        """Votes at the first checkpoint that may be called officially stable."""
        return next((each.votes for each in self.checkpoints if each.official), None)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What was claimed at each checkpoint that may be called officially stable."""
        return tuple(each.claim for each in self.checkpoints if each.claim)

    @property
    def orders(self) -> tuple[OrderClaim, ...]:
        """What was decided at each checkpoint at which anything was."""
        looks = (each.order for each in self.checkpoints)
        return tuple(order for order in looks if order and order.claimed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Duel:
    """The same world under the policy and under the baseline."""

    v2: Run
    baseline: Run


def rank_correlation(order: Sequence[str], truth: Mapping[str, float]) -> float:
    """Spearman's correlation of an order, best first, with the true one."""
    place = {model: n for n, model in enumerate(_true_order(order, truth))}
    n = len(order)
    squares = sum((place[model] - i) ** 2 for i, model in enumerate(order))
    return 1 - 6 * squares / (n * (n * n - 1))


def order_accuracy(order: Sequence[str], truth: Mapping[str, float], top: int) -> float:
    """Share of the pairs of the true top that an order puts the right way round."""
    place = {model: n for n, model in enumerate(order)}
    pairs = list(combinations(_true_order(order, truth)[:top], 2))
    return sum(place[better] < place[worse] for better, worse in pairs) / len(pairs)


def closeness(order: Sequence[str], truth: Mapping[str, float], top: int) -> Closeness:
    """How close an order of two models or more is to the truth."""
    return Closeness(
        correlation=rank_correlation(order, truth), order_accuracy=order_accuracy(order, truth, top)
    )


def fitted_closeness(battles: BattleLog, truth: Mapping[str, float], top: int) -> Closeness | None:
    """How close the Bradley–Terry order of all votes is, None where there is none."""
    ratings = rated_or_none(BradleyTerry(both_bad="exclude", cluster="battle"), battles)
    return closeness(ratings.order, truth, top) if ratings else None


def claim(policy: Policy, standings: Sequence[Standing], truth: Mapping[str, float]) -> Claim:
    """What calling this board officially stable claims, beside the truth."""
    settled = [s for s in standings if not provisional_state(policy, s).provisional]
    top = tuple(s.model for s in ranked(policy, settled)[: policy.contenders.band])
    worst = max((truth[below] - truth[above] for above, below in pairwise(top)), default=0.0)
    return Claim(top=top, worst=max(0.0, worst))


def order_claim(
    policy: Policy, top: Sequence[str], fit: Ratings, truth: Mapping[str, float]
) -> OrderClaim:
    """What the votes decide about the order of a top, best first, beside the truth."""
    margin = policy.publication.margin
    rated = [model for model in top if model in fit.models]
    pairs = claims.between(fit, combinations(rated, 2), margin)
    lead = {pair: truth[pair.above] - truth[pair.below] for pair in pairs}
    decided = [lead[pair] for pair in pairs if pair.state == "decided"]
    alike = [lead[pair] for pair in pairs if pair.state == "equivalent"]
    status = order_status(policy, top, fit)
    return OrderClaim(
        top=tuple(top),
        neighbours=len(status.pairs),
        settled=sum(pair.settled for pair in status.pairs),
        settled_by_votes=sum(pair.settled for pair in status.by_votes),
        decided=len(decided),
        wrong=sum(gap < 0 for gap in decided),
        equivalent=len(alike),
        apart=sum(abs(gap) > margin for gap in alike),
    )


def stable_badges(
    policy: Policy, standings: Sequence[Standing], fit: Ratings | None, truth: Mapping[str, float]
) -> tuple[int, int]:
    """How many models have the badge Stable, and for how many of them it is false."""
    near = {} if fit is None else ranked_neighbours(policy, standings, fit)
    stable = [
        near[s.model]
        for s in standings
        if s.model in near and stability_badge(policy, s, near[s.model]).badge is Badge.STABLE
    ]
    margin = policy.publication.margin
    return len(stable), sum(any(_false(pair, truth, margin) for pair in each) for each in stable)


def _false(pair: PairOrder, truth: Mapping[str, float], margin: float) -> bool:
    gap = truth[pair.above] - truth[pair.below]
    return abs(gap) > margin if pair.verdict is Verdict.EQUIVALENT else gap < 0


def fitted(battles: BattleLog, policy: Policy) -> Ratings | None:
    """What all votes so far say together, None where they say nothing yet."""
    return rated_or_none(lambda log: strengths(log, policy), battles)


def checkpoint(
    coverage: Coverage,
    standings: Sequence[Standing],
    elo: Mapping[str, float],
    truth: Mapping[str, float],
    *,
    band: Sequence[str],
    exposure_deviation: float,
    fit: Ratings | None,
) -> Checkpoint:
    """Measure a run as it stands; `band` are the contenders in the order that it publishes."""
    policy, top = coverage.policy, coverage.policy.contenders.band
    order = [s.model for s in ranked(policy, standings)]
    by_elo = sorted(order, key=lambda model: (-elo[model], model))
    covered = [s.prompt_coverage for s in standings]
    adjacent = coverage.adjacent(band)
    status = publication_status(policy, standings, coverage.pair)
    official = status.status is PublicationLabel.OFFICIAL
    named = (status.top or order)[:top]
    stable, wrongly_stable = stable_badges(policy, standings, fit, truth)
    return Checkpoint(
        votes=int(coverage.votes.sum()) // 2,
        models=len(order),
        conservative=closeness(order, truth, top),
        elo=closeness(by_elo, truth, top),
        exposure_deviation=exposure_deviation,
        coverage_mean=sum(covered) / len(covered),
        coverage_least=min(covered),
        median_rd=median(s.rd for s in standings),
        adjacent_share=sum(pair.meets_floor for pair in adjacent) / len(adjacent),
        official=official,
        claim=claim(policy, standings, truth) if official else None,
        order=None if fit is None else order_claim(policy, named, fit, truth),
        stable=stable,
        wrongly_stable=wrongly_stable,
    )


def _true_order(models: Sequence[str], truth: Mapping[str, float]) -> list[str]:
    return sorted(models, key=lambda model: -truth[model])
