"""How the sample season was made: six weeks of an arena that never was, under the policy as
written, which is the shipped default (params/policy.yaml).

    python sample/arena/season.py

writes season.csv.gz beside this file. Models, prompts and voters are planted by
`arena_kit.matchmaking.simulation`; two models join on the way, and most lack some responses. No
person voted. The seed is one of eight tried, taken because it leaves one model provisional and
some due a quality check. Seven of the eight keep every exposure within the tolerance.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from arena_kit import BattleLog, write_battles
from arena_kit.battles.log import Labels
from arena_kit.matchmaking.simulation import World, season
from arena_kit.policy.constants import Policy

WORLD = World(models=18, prompts=15, matchups=6000, newcomers=2, answered=0.92, bad_below=1450)
MONDAY = datetime(2026, 9, 7, tzinfo=UTC)


def simulated() -> BattleLog:
    """The votes, in order of time."""
    rng = np.random.default_rng(20260906)
    votes = season(WORLD, Policy(), rng=rng, start=MONDAY, days=42)
    if votes.session is None:
        raise TypeError("a season has sessions")
    names = [name.replace("voter", "simulated") for name in votes.session.values()]
    return replace(votes, session=Labels.of(names))


def main() -> None:
    """Write the file."""
    write_battles(Path(__file__).parent / "season.csv.gz", simulated())


if __name__ == "__main__":
    main()
