"""How long the next matchup and its vote take, in arenas of several sizes.

    .venv/bin/python benchmarks/matchmaking.py

Every matchup is voted on and rated at once; the mean over all lanes is printed, in time of the
processor, with the four lanes of the policy as written and with the decide lane, whose looks at all
votes are part of the vote. At most 1 ms is allowed for a matchup with 50 models and 150 prompts;
the exit status is 1 where it takes more.
"""

from __future__ import annotations

import sys
from time import process_time

import numpy as np

from arena_kit.battles.battle import Outcome
from arena_kit.matchmaking.arena import Arena
from arena_kit.matchmaking.matchup import Matchup
from arena_kit.matchmaking.simulation import played
from arena_kit.matchmaking.world import World, planted
from arena_kit.policy.constants import Decide, Policy

SIZES = ((20, 15), (50, 150), (100, 500))
MATCHUPS = 5000


POLICIES = {"four lanes": Policy(decide=Decide(share=0.0)), "with decide": Policy()}


class Timed(Arena):
    """An arena that adds up the time its matchups and votes take."""

    matchups = votes = 0.0

    def next_matchup(self, session: str | None = None) -> Matchup:
        begin = process_time()
        matchup = super().next_matchup(session)
        self.matchups += process_time() - begin
        return matchup

    def vote(self, matchup_id: str, outcome: Outcome) -> Matchup:
        begin = process_time()
        matchup = super().vote(matchup_id, outcome)
        self.votes += process_time() - begin
        return matchup


def milliseconds(policy: Policy, models: int, prompts: int) -> tuple[float, float]:
    """What a matchup and its vote take on average."""
    world = World(models=models, prompts=prompts, matchups=MATCHUPS, newcomers=0)
    for_world, for_arena = np.random.default_rng(0).spawn(2)
    found = planted(world, for_world)
    arena = Timed(policy, (), found.prompts, rng=for_arena)
    done = sum(1 for _ in played(found, arena))
    return 1000 * arena.matchups / done, 1000 * arena.votes / done


if __name__ == "__main__":
    quick = True
    for models, prompts in SIZES:
        for name, policy in POLICIES.items():
            matchup, vote = milliseconds(policy, models, prompts)
            quick &= (models, prompts) != (50, 150) or matchup <= 1
            print(
                f"{models} models x {prompts} prompts, {name}: "
                f"{matchup:.2f} ms a matchup, {vote:.2f} ms a vote"
            )
    sys.exit(not quick)
