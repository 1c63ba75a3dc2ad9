"""Is every model shown as often as it is due, with newcomers and with many models? Simulated.

    .venv/bin/python benchmarks/exposure.py
    .venv/bin/python benchmarks/exposure.py --decide    # with the decide lane

Per arena: the largest deviation from the exposure due at the end of each of 20 seeds, and how many
seeds lie within the policy's tolerance (19 must, but in the arenas with a 0 below, which are shown
for what does not hold); the same over the last window; and how far models that joined are off what
they are due since then. The exit status is 1 where fewer than 19 do.
"""

from __future__ import annotations

import sys
from collections import defaultdict

import numpy as np

from arena_kit.matchmaking.arena import Arena
from arena_kit.matchmaking.simulation import Planted, World, planted, played
from arena_kit.policy.constants import Decide, Policy
from arena_kit.policy.coverage import ExposureFairness

#: Arenas, and the seeds of 20 that must end within the tolerance.
WORLDS = {
    World(models=20, newcomers=2, matchups=6000): 19,
    World(models=20, newcomers=4, matchups=3000): 19,
    World(models=21, newcomers=0, matchups=6000): 19,
    World(models=23, newcomers=0, matchups=6000): 0,
    World(models=40, newcomers=0, matchups=6000): 19,
    World(models=40, newcomers=2, matchups=6000): 19,
    World(models=40, newcomers=4, matchups=6000): 0,
}
SEEDS, EVERY = 20, 100
POLICY = Policy(decide=Decide(share=0.4 if "--decide" in sys.argv else 0.0))
AGES = (100, 200, 300, 500, 700, 1000, 1500, 2000)


class Measured:
    """What was found in all seeds of one world."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.ends: list[float] = []
        self.last_window: list[float] = []
        self.newcomers: dict[int, list[ExposureFairness]] = defaultdict(list)

    def play(self, drawn: Planted, rng: np.random.Generator) -> None:
        """Play a drawn world and look at every model's exposure on the way."""
        arena = Arena(self.policy, (), drawn.prompts, rng=rng)
        joins = dict(zip(drawn.models, drawn.joins.tolist(), strict=True))
        for vote in played(drawn, arena):
            votes = vote.number + 1
            if votes % EVERY:
                continue
            due = arena.scheduler.exposure_due(arena.ratings)
            rows = arena.scheduler.coverage().fairness(due)
            worst = max(abs(row.deviation or 0.0) for row in rows)
            if votes > drawn.world.matchups - self.policy.exposure.window:
                self.last_window.append(worst)
            for row in rows:
                if joins[row.model] and votes - joins[row.model] in AGES:
                    self.newcomers[votes - joins[row.model]].append(row)
        self.ends.append(worst)

    def show(self, world: World) -> int:
        """Print it; how many seeds end within the tolerance."""
        ends, way = 100 * np.array(self.ends), 100 * np.array(self.last_window)
        bound = 100 * self.policy.exposure.tolerance
        within = int((ends <= bound).sum())
        print(
            f"{world.models} models, {world.newcomers} of them newcomers, {world.matchups} votes: "
            f"within {bound:g} % at the end in {within} of {len(ends)} seeds "
            f"(mean {ends.mean():.1f} %, worst {ends.max():.1f} %); of all looks in the last "
            f"window {100 * np.mean(way <= bound):.0f} %"
        )
        for age, rows in sorted(self.newcomers.items()):
            extra = np.array([row.exposure - row.target for row in rows])
            within_share = np.mean([row.within for row in rows])
            print(
                f"  {age:5d} matchups after joining: due {np.mean([r.target for r in rows]):5.1f}, "
                f"shown {extra.mean():+5.1f} (from {extra.min():+.0f} to {extra.max():+.0f}), "
                f"within {100 * within_share:3.0f} %"
            )
        sys.stdout.flush()
        return within


def measured(world: World) -> int:
    """Play and print one world in all seeds, seeded as `arena-kit simulate` seeds them."""
    found = Measured(POLICY)
    for seed in range(SEEDS):
        for_world, for_policy, _ = np.random.default_rng(seed).spawn(3)
        found.play(planted(world, for_world), for_policy)
    return found.show(world)


if __name__ == "__main__":
    kept = [measured(world) >= needed for world, needed in WORLDS.items()]
    sys.exit(not all(kept))
