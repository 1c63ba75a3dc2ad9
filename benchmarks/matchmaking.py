"""How long the next matchup takes, in arenas of several sizes.

    .venv/bin/python benchmarks/matchmaking.py

Every matchup is voted on and rated at once; the mean over all lanes is printed. At most 1 ms is
allowed with 50 models and 150 prompts; the exit status is 1 where it takes more.
"""

from __future__ import annotations

import sys
from time import perf_counter

import numpy as np

from arena_kit.matchmaking.arena import Arena
from arena_kit.matchmaking.matchup import Matchup
from arena_kit.matchmaking.simulation import played
from arena_kit.matchmaking.world import World, planted
from arena_kit.policy.constants import Policy

SIZES = ((20, 15), (50, 150), (100, 500))
MATCHUPS = 5000


class Timed(Arena):
    """An arena that adds up the time its matchups take."""

    spent = 0.0

    def next_matchup(self, session: str | None = None) -> Matchup:
        begin = perf_counter()
        matchup = super().next_matchup(session)
        self.spent += perf_counter() - begin
        return matchup


def milliseconds(models: int, prompts: int) -> float:
    """What a matchup takes on average."""
    world = World(models=models, prompts=prompts, matchups=MATCHUPS, newcomers=0)
    for_world, for_arena = np.random.default_rng(0).spawn(2)
    found = planted(world, for_world)
    arena = Timed(Policy(), (), found.prompts, rng=for_arena)
    done = sum(1 for _ in played(found, arena))
    return 1000 * arena.spent / done


if __name__ == "__main__":
    spent = {size: milliseconds(*size) for size in SIZES}
    for (models, prompts), each in spent.items():
        print(f"{models} models x {prompts} prompts: {each:.2f} ms a matchup")
    sys.exit(spent[50, 150] > 1)
