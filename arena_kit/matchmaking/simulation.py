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

from arena_kit.battles.battle import OUTCOMES, Battle, Outcome
from arena_kit.battles.log import BattleLog, Labels
from arena_kit.matchmaking.accuracy import (
    Checkpoint,
    Duel,
    Run,
    checkpoint,
    fitted,
    fitted_closeness,
)
from arena_kit.matchmaking.arena import Arena
from arena_kit.matchmaking.lanes import lane_weights
from arena_kit.matchmaking.matchup import MatchmakingError, Matchup
from arena_kit.matchmaking.world import Planted, World, planted
from arena_kit.policy.constants import Phase, Policy

EVERY = 250


class Vote(NamedTuple):
    """The n-th matchup, from 0, and what its voter said."""

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
    begin = np.datetime64(_utc(start), "us")
    times = (begin + moments.astype("timedelta64[us]")).tolist()
    width = len(str(world.matchups))
    return BattleLog.from_battles(
        _battle(vote, battle_id=f"vote-{vote.number + 1:0{width}}", timestamp=times[vote.number])
        for vote in played(drawn, arena)
    )


def run(drawn: Planted, arena: Arena, *, every: int = EVERY) -> Run:
    """Run a drawn world in one arena and measure it every so many votes."""
    truth = dict(zip(drawn.models, drawn.truth.tolist(), strict=True))
    lanes = tuple(lane_weights(arena.policy))
    votes, checkpoints, log = [], [], VoteLog(drawn)
    for vote in played(drawn, arena):
        votes.append(vote)
        log.add(vote)
        if len(votes) % every == 0 or len(votes) == drawn.world.matchups:
            checkpoints.append(_measured(arena, truth, log.battles()))
    return Run(
        ordered_by=arena.policy.phase.orders_by,
        checkpoints=tuple(checkpoints),
        drawn=_shares((vote.matchup.drawn for vote in votes), lanes),
        served=_shares((vote.matchup.lane for vote in votes), lanes),
        left=fmean(truth[v.matchup.model_a] > truth[v.matchup.model_b] for v in votes),
        outcomes=_shares((vote.outcome for vote in votes), Outcome),
        bradley_terry=fitted_closeness(log.battles(), truth, arena.policy.contenders.band),
    )


class VoteLog:
    """The votes of a drawn world so far, as columns that a look takes no time to make."""

    def __init__(self, drawn: Planted) -> None:
        self._models, self._prompts = drawn.models, drawn.prompts
        self._place = {name: i for i, name in enumerate((*drawn.models, *drawn.prompts))}
        self._rows = np.empty((4, drawn.world.matchups), np.int32)
        self._n = 0

    def add(self, vote: Vote) -> None:
        """One more vote."""
        pair = vote.matchup
        named = (self._place[name] for name in (pair.model_a, pair.model_b, pair.prompt))
        self._rows[:, self._n] = (*named, OUTCOMES.index(vote.outcome))
        self._n += 1

    def battles(self) -> BattleLog:
        """The battles so far, with all models of the world."""
        a, b, prompt, outcome = self._rows[:, : self._n].copy()
        asked = Labels(np.array(self._prompts, object), prompt - len(self._models))
        return BattleLog(
            models=self._models, a=a, b=b, outcome=outcome.astype(np.int8), question_id=asked
        )


def played(drawn: Planted, arena: Arena) -> Iterator[Vote]:
    """Every matchup of a drawn world with its vote, after which both ratings are up to date."""
    model = {name: i for i, name in enumerate(drawn.models)}
    prompt = {name: i for i, name in enumerate(drawn.prompts)}
    newcomers = set(drawn.joins.tolist())
    for number, session in enumerate(drawn.voters.session):
        if number in newcomers:
            for name in drawn.joining(number):
                arena.scheduler.enable(name, prompts=drawn.responses(name))
        matchup = _matched(arena, session)
        a, b = matchup.model_a, matchup.model_b
        outcome = drawn.vote(number, model[a], model[b], prompt[matchup.prompt])
        arena.vote(matchup.matchup_id, outcome)
        yield Vote(number, matchup, outcome)


def _matched(arena: Arena, session: str) -> Matchup:
    """The next matchup; a voter who may see nothing more comes back as somebody new."""
    try:
        return arena.next_matchup(session)
    except MatchmakingError:
        return arena.next_matchup()


def _measured(arena: Arena, truth: Mapping[str, float], battles: BattleLog) -> Checkpoint:
    coverage = arena.scheduler.coverage()
    fairness = coverage.fairness(arena.scheduler.exposure_due(arena.ratings))
    return checkpoint(
        coverage,
        coverage.standings(arena.ratings),
        arena.elo,
        truth,
        band=arena.order()[: arena.policy.contenders.band],
        exposure_deviation=max(abs(each.deviation or 0.0) for each in fairness),
        fit=fitted(battles, arena.policy),
    )


def _shares(labels: Iterable[StrEnum], kinds: Iterable[StrEnum]) -> dict[str, float]:
    counts = Counter(labels)
    return {kind: counts[kind] / counts.total() for kind in kinds}


def _battle(vote: Vote, **more: Any) -> Battle:
    return vote.matchup.battle(vote.outcome, **more)


def _utc(moment: datetime) -> datetime:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).replace(tzinfo=None)
