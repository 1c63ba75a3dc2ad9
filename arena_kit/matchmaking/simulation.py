"""A whole arena, run under the policy and under the scheme that it replaces.

Both meet the same planted models, prompts and voters: the voter of the n-th matchup sees
with the same error whoever is shown, so that the two can be compared in pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from arena_kit.battle_log import BattleLog
from arena_kit.battles import Battle, Outcome
from arena_kit.matchmaking.coverage import Coverage
from arena_kit.matchmaking.lanes import lane_weights
from arena_kit.matchmaking.matchup import MatchmakingError, Matchup
from arena_kit.matchmaking.measures import (
    Checkpoint,
    Duel,
    Run,
    checkpoint,
    fitted_closeness,
    standings_of,
)
from arena_kit.matchmaking.policy import Phase, Policy
from arena_kit.matchmaking.scheduler import Scheduler
from arena_kit.matchmaking.world import Planted, World, planted
from arena_kit.rating.glicko2 import Glicko2, GlickoState

EVERY = 250
_SCORES = {Outcome.MODEL_A: 1.0, Outcome.MODEL_B: 0.0, Outcome.TIE: 0.5}


class Vote(NamedTuple):
    """The n-th matchup, from 0, and what its voter said."""

    number: int
    matchup: Matchup
    outcome: Outcome


class Scores:
    """Both ratings of every model, kept vote by vote.

    Glicko-2 leaves a both-bad vote out (8.3). Legacy Elo takes it, as section 2 says, for a
    loss of each model against a baseline: here an opponent that stands where models begin.
    """

    def __init__(self, policy: Policy) -> None:
        rule = policy.glicko
        self.policy = policy
        self.method = Glicko2(
            initial=rule.rating,
            rd=rule.rd,
            volatility=rule.volatility,
            tau=rule.tau,
            rd_min=rule.rd_min,
            rd_max=rule.rd_max,
        )
        self.glicko: dict[str, GlickoState] = {}
        self.elo: dict[str, float] = {}

    def add(self, model: str) -> None:
        """Rate one more model."""
        rule = self.policy.glicko
        self.glicko[model] = GlickoState(rule.rating, rule.rd, rule.volatility)
        self.elo[model] = self.policy.legacy_elo.initial

    def update(self, a: str, b: str, outcome: Outcome) -> None:
        """Take in one vote."""
        rule, elo = self.policy.legacy_elo, self.elo
        if outcome is Outcome.BOTH_BAD:
            for model in (a, b):
                elo[model] -= rule.k * _expected(elo[model] - rule.initial)
            return
        score = _SCORES[outcome]
        states = self.glicko
        states[a], states[b] = self.method.updated(states[a], states[b], score)
        change = rule.k * (score - _expected(elo[a] - elo[b]))
        elo[a] += change
        elo[b] -= change

    def conservative(self, model: str) -> float:
        """The lower confidence bound."""
        state = self.glicko[model]
        return state.rating - self.policy.deviations * state.rd


class Arena:
    """A simulated arena in one rollout phase, which says how it matches models and orders them."""

    def __init__(self, policy: Policy, prompts: tuple[str, ...], rng: np.random.Generator) -> None:
        self.policy = policy
        self.scores = Scores(policy)
        self.scheduler = Scheduler(policy, (), prompts, rng=rng)

    def join(self, model: str, prompts: tuple[str, ...]) -> None:
        """Let a model take part; `prompts` are those it has responses to."""
        self.scores.add(model)
        self.scheduler.enable(model, prompts=prompts)

    def match(self, session: str) -> Matchup:
        """The next matchup; a voter who may see nothing more comes back as somebody new."""
        try:
            return self.scheduler.next_matchup(self.scores.glicko, session=session)
        except MatchmakingError:
            return self.scheduler.next_matchup(self.scores.glicko)

    def count(self, matchup: Matchup, outcome: Outcome) -> None:
        """Count the vote on a matchup."""
        self.scheduler.record(matchup.matchup_id, outcome)
        self.scores.update(matchup.model_a, matchup.model_b, outcome)

    def order(self) -> list[str]:
        """The models as they are published, best first."""
        score = self.scores.elo
        if self.policy.phase.orders_by == "conservative":
            score = {model: self.scores.conservative(model) for model in score}
        return sorted(score, key=lambda model: (-score[model], model))

    def exposure_deviation(self, coverage: Coverage) -> float:
        """The largest relative deviation from the exposure that is due in the window."""
        fairness = coverage.fairness(self.scheduler.time_in_band(self.scores.glicko))
        return max(abs(each.deviation or 0.0) for each in fairness)


def duel(world: World, policy: Policy, *, rng: np.random.Generator, every: int = EVERY) -> Duel:
    """Draw a world and run it with the policy in force, and with all of it in the shadow.

    The former is the last phase of the rollout, the latter the first, whose matchups and order
    are those of the scheme before (2).
    """
    for_world, for_v2, for_baseline = rng.spawn(3)
    found = planted(world, for_world)
    v2, baseline = (replace(policy, phase=phase) for phase in (Phase.GOVERNANCE, Phase.SHADOW))
    return Duel(
        v2=run(found, Arena(v2, found.prompts, for_v2), every=every),
        baseline=run(found, Arena(baseline, found.prompts, for_baseline), every=every),
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
    found = planted(world, for_world)
    arena = Arena(policy, found.prompts, for_v2)
    moments = np.sort(for_times.random(world.matchups)) * days * 86_400_000_000
    begin = np.datetime64(_utc(start), "us")
    times = (begin + moments.astype("timedelta64[us]")).tolist()
    width = len(str(world.matchups))
    return BattleLog.from_battles(
        _battle(
            vote,
            battle_id=f"vote-{vote.number + 1:0{width}}",
            timestamp=times[vote.number],
        )
        for vote in played(found, arena)
    )


def run(found: Planted, arena: Arena, *, every: int = EVERY) -> Run:
    """Run a drawn world in one arena and measure it every so many votes."""
    truth = dict(zip(found.models, found.truth.tolist(), strict=True))
    lanes = tuple(lane_weights(arena.policy))
    votes, checkpoints = [], []
    for vote in played(found, arena):
        votes.append(vote)
        if len(votes) % every == 0 or len(votes) == found.world.matchups:
            checkpoints.append(_measured(arena, truth))
    return Run(
        ordered_by=arena.policy.phase.orders_by,
        checkpoints=tuple(checkpoints),
        drawn=_shares((vote.matchup.drawn for vote in votes), lanes),
        served=_shares((vote.matchup.lane for vote in votes), lanes),
        left=fmean(truth[v.matchup.model_a] > truth[v.matchup.model_b] for v in votes),
        outcomes=_shares((vote.outcome for vote in votes), Outcome),
        bradley_terry=fitted_closeness(
            BattleLog.from_battles(map(_battle, votes)), truth, arena.policy.contenders.band
        ),
    )


def played(found: Planted, arena: Arena) -> Iterator[Vote]:
    """Every matchup of a drawn world with its vote, after which both ratings are up to date."""
    model = {name: i for i, name in enumerate(found.models)}
    prompt = {name: i for i, name in enumerate(found.prompts)}
    newcomers = set(found.joins.tolist())
    for number, session in enumerate(found.voters.session):
        if number in newcomers:
            for name in found.joining(number):
                arena.join(name, found.responses(name))
        matchup = arena.match(session)
        a, b = matchup.model_a, matchup.model_b
        outcome = found.vote(number, model[a], model[b], prompt[matchup.prompt])
        arena.count(matchup, outcome)
        yield Vote(number, matchup, outcome)


def _measured(arena: Arena, truth: Mapping[str, float]) -> Checkpoint:
    policy, scores, coverage = arena.policy, arena.scores, arena.scheduler.coverage()
    states = {model: (state.rating, state.rd) for model, state in scores.glicko.items()}
    return checkpoint(
        policy,
        coverage,
        standings_of(coverage, states),
        scores.elo,
        truth,
        band=arena.order()[: policy.contenders.band],
        exposure_deviation=arena.exposure_deviation(coverage),
    )


def _shares(found: Iterable[StrEnum], kinds: Iterable[StrEnum]) -> dict[str, float]:
    counts = Counter(found)
    return {kind: counts[kind] / counts.total() for kind in kinds}


def _battle(vote: Vote, **more: Any) -> Battle:
    return vote.matchup.battle(vote.outcome, **more)


def _expected(gap: float) -> float:
    return float(1 / (1 + 10 ** (-gap / 400)))


def _utc(moment: datetime) -> datetime:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).replace(tzinfo=None)
