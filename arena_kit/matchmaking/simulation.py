"""A whole arena, run under the policy and under the scheme that it replaces, beside the truth.

Both meet the same planted models, prompts and voters: the voter of the n-th matchup sees
with the same error whoever is shown, so that the two can be compared in pairs.

Two things are claimed of a board: that it keeps the rules, which calls it officially stable and
so declares the order of its top, and which orders of that top are decided.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import combinations, pairwise
from statistics import fmean, median
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as settings

from arena_kit.battles.battle import OUTCOMES, Battle, Outcome
from arena_kit.battles.log import BattleLog
from arena_kit.matchmaking.arena import Arena
from arena_kit.matchmaking.lanes import MatchmakingError, Matchup, lane_weights
from arena_kit.policy import rules
from arena_kit.policy.constants import STRICT, Count, NonNegative, Phase, Policy, Positive, Share
from arena_kit.policy.exposure import Bools, Counts
from arena_kit.policy.ratings import strengths
from arena_kit.rating.base import Ratings, rated_or_none
from arena_kit.rating.claims import claims
from arena_kit.rating.glicko2 import SCALE

Floats = NDArray[np.float64]

_CENTRE = 1500.0
_EARLIEST, _LATEST = 0.3, 0.5  # when newcomers join, as parts of the whole


@settings(frozen=True, slots=True, kw_only=True, config=STRICT)
class World:
    """The settings of a simulated arena; strengths are in rating points around 1500.

    Parameters
    ----------
    models, prompts, matchups
        How many there are; newcomers are among the models.
    newcomers
        Models that join between 30 % and 50 % of the matchups, one after the other.
    skill_sd, prompt_sd
        How far skills spread over models, and how far a model's response to one prompt lies
        from its skill.
    tie_gap
        A voter who sees two responses closer than this calls a tie.
    bad_below, bad_sd
        The quality floor: a voter who sees both responses below it calls both bad. It
        differs by prompt, with this mean and spread.
    noise
        Share of voters who press one of the four buttons at random.
    session_length
        Mean number of matchups that a voter sees.
    answered
        Share of prompts that a model has a response to; the first prompt is answered by all.
    """

    models: Annotated[int, Field(ge=2)] = 20
    prompts: Count = 15
    matchups: Count = 6000
    newcomers: Annotated[int, Field(ge=0)] = 2
    skill_sd: Positive = 120.0
    prompt_sd: NonNegative = 60.0
    tie_gap: NonNegative = 60.0
    bad_below: float = 1430.0
    bad_sd: NonNegative = 40.0
    noise: Share = 0.1
    session_length: Annotated[float, Field(ge=1, le=1e9)] = 8.0
    answered: Annotated[float, Field(gt=0, le=1)] = 1.0

    def __post_init__(self) -> None:
        if self.newcomers > self.models - 2:
            most = self.models - 2
            raise ValueError(f"newcomers must be at most {most}, as 2 models begin")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Planted:
    """A world with everything drawn that matchmaking has no say in.

    Parameters
    ----------
    quality, answered
        A row per model and a column per prompt: how good the response is, and whether there
        is one.
    truth
        How good each model is: the mean quality of its responses.
    floor
        The quality below which a response to a prompt is bad.
    joins
        How many matchups there are before each model joins.
    left, right, button, session
        What each matchup's voter brings along, whoever is shown: how much better than it is each
        response appears, what one who votes at random presses (-1 for those who look), and the
        voter's name.
    """

    world: World
    models: tuple[str, ...]
    prompts: tuple[str, ...]
    quality: Floats
    answered: Bools
    truth: Floats
    floor: Floats
    joins: Counts
    left: Floats
    right: Floats
    button: Counts
    session: tuple[str, ...]

    def vote(self, number: int, a: int, b: int, prompt: int) -> Outcome:
        """What the voter of a matchup says of two models on a prompt.

        Both responses appear with an error of their own, drawn from a Gumbel distribution.
        So one that appears better does so with the odds of Bradley and Terry, and whether
        both appear bad says nothing about which of them is better.
        """
        if self.button[number] >= 0:
            return OUTCOMES[int(self.button[number])]
        left = self.quality[a, prompt] + self.left[number]
        right = self.quality[b, prompt] + self.right[number]
        if max(left, right) < self.floor[prompt]:
            return Outcome.BOTH_BAD
        if abs(left - right) < self.world.tie_gap:
            return Outcome.TIE
        return Outcome.MODEL_A if left > right else Outcome.MODEL_B


def planted(world: World, rng: np.random.Generator) -> Planted:
    """Draw a world."""
    shape = world.models, world.prompts
    skill = rng.normal(_CENTRE, world.skill_sd, world.models)
    quality = skill[:, None] + rng.normal(0, world.prompt_sd, shape)
    answered = rng.random(shape) < world.answered
    answered[:, 0] = True
    return Planted(
        world=world,
        models=_names("model", world.models),
        prompts=_names("prompt", world.prompts),
        quality=quality,
        answered=answered,
        truth=np.average(quality, axis=1, weights=answered),
        floor=rng.normal(world.bad_below, world.bad_sd, world.prompts),
        joins=_joins(world, rng),
        **_voters(world, rng),
    )


def _names(what: str, n: int) -> tuple[str, ...]:
    """Numbered names whose alphabetical order is that of the numbers."""
    return tuple(f"{what}-{i:0{len(str(n))}}" for i in range(1, n + 1))


def _joins(world: World, rng: np.random.Generator) -> Counts:
    joins = np.zeros(world.models, np.int64)
    late = rng.permutation(world.models)[: world.newcomers]
    joins[late] = np.linspace(_EARLIEST, _LATEST, world.newcomers) * world.matchups
    return joins


def _voters(world: World, rng: np.random.Generator) -> dict[str, Any]:
    lengths = rng.geometric(1 / world.session_length, world.matchups)
    ends = np.cumsum(np.minimum(lengths, world.matchups))
    voter = np.searchsorted(ends, np.arange(world.matchups), side="right")
    blind = rng.random(world.matchups) < world.noise
    button = rng.integers(len(OUTCOMES), size=world.matchups)
    width = len(str(world.matchups))
    return {
        "left": rng.gumbel(0, SCALE, world.matchups),
        "right": rng.gumbel(0, SCALE, world.matchups),
        "button": np.where(blind[voter], button, -1),
        "session": tuple(f"voter-{v + 1:0{width}}" for v in voter.tolist()),
    }


EVERY = 250
#: What is counted of the votes' decisions; 0 where no fit exists.
_COUNTED = (
    "neighbours", "settled", "settled_by_votes", "decided", "wrong", "equivalent", "apart",
    "stable", "wrongly_stable",
)  # fmt: skip
#: Points by which neighbours may truly stand the other way round in a claim that still holds.
CLAIM_MARGIN = 20.0

Truth = Mapping[str, float]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One system's way through a world.

    `drawn` and `served` are the shares of matchups for which each lane was drawn, and which it then
    served; the baseline has a single one. `left` is the share of matchups in which the truly
    better model stood on the left, and `outcomes` the share of votes of each kind.
    """

    checkpoints: tuple[Row, ...]
    drawn: Mapping[str, float]
    served: Mapping[str, float]
    left: float
    outcomes: Mapping[str, float]


class Duel(NamedTuple):
    """The same world under the policy and under the baseline."""

    v2: Run
    baseline: Run


class Vote(NamedTuple):
    """The n-th matchup, from 0, and what its voter answered."""

    number: int
    matchup: Matchup
    outcome: Outcome


def duel(world: World, policy: Policy, *, rng: np.random.Generator, every: int = EVERY) -> Duel:
    """Draw a world and run it with the policy in force, and with all of it in the shadow.

    The former is the last phase of the rollout, the latter the first, whose matchups and order
    are those of the scheme before (2).
    """
    for_world, for_v2, for_baseline = rng.spawn(3)
    drawn = planted(world, for_world)
    v2, baseline = (replace(policy, phase=phase) for phase in (Phase.GOVERNANCE, Phase.SHADOW))
    return Duel(
        v2=run(drawn, Arena(v2, (), drawn.prompts, rng=for_v2), every=every),
        baseline=run(drawn, Arena(baseline, (), drawn.prompts, rng=for_baseline), every=every),
    )


def season(
    world: World, policy: Policy, *, rng: np.random.Generator, start: datetime, days: float
) -> BattleLog:
    """The votes of an arena under the policy, spread over so many days, in order of time.

    Every battle has an id, a time, its prompt as question, its lane and its voter's session.
    A `start` without a zone is UTC.
    """
    if not days > 0:
        raise ValueError(f"days must be above 0, not {days!r}")
    for_world, for_v2, for_times = rng.spawn(3)
    drawn = planted(world, for_world)
    arena = Arena(policy, (), drawn.prompts, rng=for_v2)
    moments = np.sort(for_times.random(world.matchups)) * days * 86_400_000_000
    aware = start if start.tzinfo else start.replace(tzinfo=UTC)
    begin = np.datetime64(aware.astimezone(UTC).replace(tzinfo=None), "us")
    times = (begin + moments.astype("timedelta64[us]")).tolist()
    ids = _names("vote", world.matchups)
    return BattleLog.from_battles(
        matchup.battle(outcome, battle_id=ids[n], timestamp=times[n])
        for n, matchup, outcome in played(drawn, arena)
    )


def run(drawn: Planted, arena: Arena, *, every: int = EVERY) -> Run:
    """Run a drawn world in one arena and measure it every so many votes."""
    truth = dict(zip(drawn.models, drawn.truth.tolist(), strict=True))
    lanes = tuple(lane_weights(arena.policy))
    votes: list[Vote] = []
    battles: list[Battle] = []
    checkpoints = []
    for vote in played(drawn, arena):
        votes.append(vote)
        battles.append(vote.matchup.battle(vote.outcome))
        if len(votes) % every == 0 or len(votes) == drawn.world.matchups:
            checkpoints.append(checkpoint(arena, truth, BattleLog.from_battles(battles)))
    return Run(
        checkpoints=tuple(checkpoints),
        drawn=_shares((vote.matchup.drawn for vote in votes), lanes),
        served=_shares((vote.matchup.lane for vote in votes), lanes),
        left=fmean(truth[v.matchup.model_a] > truth[v.matchup.model_b] for v in votes),
        outcomes=_shares((vote.outcome for vote in votes), Outcome),
    )


def played(drawn: Planted, arena: Arena) -> Iterator[Vote]:
    """Every matchup of a drawn world with its vote, after which both ratings are up to date."""
    model = {name: i for i, name in enumerate(drawn.models)}
    prompt = {name: i for i, name in enumerate(drawn.prompts)}
    for number, session in enumerate(drawn.session):
        for i in np.flatnonzero(drawn.joins == number).tolist():
            answered = np.array(drawn.prompts)[drawn.answered[i]].tolist()
            arena.scheduler.enable(drawn.models[i], prompts=answered)
        try:
            matchup = arena.next_matchup(session)
        except MatchmakingError:  # a voter who may see nothing more comes back as somebody new
            matchup = arena.next_matchup()
        a, b = matchup.model_a, matchup.model_b
        outcome = drawn.vote(number, model[a], model[b], prompt[matchup.prompt])
        arena.vote(matchup.matchup_id, outcome)
        yield Vote(number, matchup, outcome)


def checkpoint(arena: Arena, truth: Truth, battles: BattleLog) -> Row:
    """Measure an arena as it stands after these votes, beside the truth: a row of a table.

    Returns
    -------
    models
        How many have joined; all else is about these.
    correlation, order_accuracy
        Of the published order: its rank correlation with the truth, and the share of the pairs of
        the true top in the right order.
    bradley_terry_order_accuracy
        The latter of the Bradley–Terry order of all votes; None where it does not rank all models.
    exposure_deviation
        The largest relative deviation from the exposure target in the rolling window.
    coverage_mean, median_rd
        Over models, of the share of prompts with the floor of decisive votes, and of RD.
    adjacent_share
        Share of adjacent contender pairs with the minimum of comparisons.
    official, inversion
        Whether the board is officially stable, and the largest true gap, in points, by which it
        then has an adjacent pair of the top in the wrong order; None where it is not.
    neighbours, settled, settled_by_votes
        Adjacent pairs of the top, those decided in this order or equivalent, and those of the
        same models in Bradley–Terry order.
    decided, wrong, equivalent, apart
        Pairs of the top, adjacent or not, that are decided, and those decided wrongly; pairs
        that are equivalent, and those whose true gap exceeds the margin.
    stable, wrongly_stable
        Models with the badge Stable, and those of them with a wrong claim about an adjacent one.
    """
    policy, top = arena.policy, arena.policy.contenders.band
    coverage, order = arena.scheduler.coverage(), arena.order()
    standings = coverage.standings(arena.ratings)
    fairness = coverage.fairness(arena.scheduler.exposure_due(arena.ratings))
    adjacent = coverage.adjacent(order[:top])
    status = rules.publication_status(policy, standings, coverage.pair)
    official = status.status is rules.PublicationLabel.OFFICIAL
    named = (status.top or [s.model for s in rules.ranked(policy, standings)])[:top]
    fit = rated_or_none(lambda log: strengths(log, policy), battles)
    by_votes = fit.order if fit and {*fit.models} == {*order} else ()
    row = {
        "votes": len(battles),
        "models": len(order),
        "correlation": rank_correlation(order, truth),
        "order_accuracy": order_accuracy(order, truth, top),
        "bradley_terry_order_accuracy": order_accuracy(by_votes, truth, top) if by_votes else None,
        "exposure_deviation": max(abs(each.deviation or 0.0) for each in fairness),
        "coverage_mean": fmean(s.prompt_coverage for s in standings),
        "median_rd": median(s.rd for s in standings),
        "adjacent_share": fmean(pair["meets_floor"] for pair in adjacent),
        "official": official,
        "inversion": inversion(named, truth) if official else None,
        **dict.fromkeys(_COUNTED, 0),
    }
    if fit is not None:
        row |= order_counts(policy, named, fit, truth)
        row |= badge_counts(policy, standings, fit, truth)
    return row


def rank_correlation(order: Sequence[str], truth: Truth) -> float:
    """Spearman's correlation of an order of two models or more, best first, with the true one."""
    true_rank = np.argsort(np.argsort([-truth[model] for model in order]))
    return float(np.corrcoef(np.arange(len(order)), true_rank)[0, 1])


def order_accuracy(order: Sequence[str], truth: Truth, top: int) -> float:
    """Share of the pairs of the true top that an order puts the right way round."""
    place = {model: n for n, model in enumerate(order)}
    true_top = sorted(order, key=lambda model: -truth[model])[:top]
    return fmean(place[better] < place[worse] for better, worse in combinations(true_top, 2))


def inversion(top: Sequence[str], truth: Truth) -> float:
    """By how many points neighbours of an order truly stand the other way round, at most."""
    return max([0.0, *(truth[below] - truth[above] for above, below in pairwise(top))])


def order_counts(policy: Policy, top: Sequence[str], fit: Ratings, truth: Truth) -> dict[str, int]:
    """What the votes decide about the order of a top, best first, beside the truth."""
    margin = policy.publication.margin
    rated = [model for model in top if model in fit.models]
    pairs = claims.between(fit, combinations(rated, 2), margin)
    decided, alike = (
        [truth[pair.above] - truth[pair.below] for pair in pairs if pair.state == state]
        for state in ("decided", "equivalent")
    )
    status = rules.order_status(policy, top, fit)
    return {
        "neighbours": len(status.pairs),
        "settled": sum(pair.settled for pair in status.pairs),
        "settled_by_votes": sum(pair.settled for pair in status.by_votes),
        "decided": len(decided),
        "wrong": sum(gap < 0 for gap in decided),
        "equivalent": len(alike),
        "apart": sum(abs(gap) > margin for gap in alike),
    }


def badge_counts(
    policy: Policy, standings: Sequence[rules.Standing], fit: Ratings, truth: Truth
) -> dict[str, int]:
    """How many models have the badge Stable, and for how many of them it is false."""
    near = rules.ranked_neighbours(policy, standings, fit)
    badges = {s.model: rules.stability_badge(policy, s, near[s.model])[0]
              for s in standings if s.model in near}  # fmt: skip
    stable = [near[model] for model, badge in badges.items() if badge is rules.Badge.STABLE]
    margin = policy.publication.margin
    wrong = sum(any(_is_false(pair, truth, margin) for pair in each) for each in stable)
    return {"stable": len(stable), "wrongly_stable": wrong}


def _is_false(pair: rules.PairOrder, truth: Truth, margin: float) -> bool:
    gap = truth[pair.above] - truth[pair.below]
    return abs(gap) > margin if pair.verdict is rules.Verdict.EQUIVALENT else gap < 0


def _shares(labels: Iterable[StrEnum], kinds: Iterable[StrEnum]) -> dict[str, float]:
    counts = Counter(labels)
    return {kind: counts[kind] / counts.total() for kind in kinds}
