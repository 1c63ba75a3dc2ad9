"""A cascade of judges on 26,919 battles that people voted on: Claude first, GPT-4 where needed.

    ARENA_KIT_DATA=... python benchmarks/cascade.py [--splits 200]

Calibrates on a random third of the battles and measures on the rest, again and again: how often
the answers agree with people, on which share of the battles decided by people and a judge, for
which share of GPT-4's calls, and in how many splits the promised agreement was broken. The order
of the answers in each battle was shown once, so confidence comes from the verdict and from the gap
between the two models in Claude's own Bradley–Terry ratings.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from arena_kit import BradleyTerry, read_battles
from arena_kit.judging.cascade import Cascade, Tally, Verdicts
from arena_kit.judging.quality.agreement import verdicts

DATA = Path(os.environ.get("ARENA_KIT_DATA", Path(__file__).parents[2] / "shared" / "data"))
PEOPLE, CHEAP, DEAR = "human", "claude-3-opus-20240229", "gpt-4-0125-preview"


def read() -> tuple[Verdicts, np.ndarray, np.ndarray]:
    """Both judges' verdicts, people's votes, and the question of each battle."""
    file = DATA / "chatbot_arena_27k" / "battles.csv.gz"
    people, cheap, dear = (read_battles(file, winner=name) for name in (PEOPLE, CHEAP, DEAR))
    voted, first, second = (1 - verdicts(log).astype(int) for log in (people, cheap, dear))
    strength = BradleyTerry().strengths(cheap)
    gap = strength[cheap.a] - strength[cheap.b]
    return Verdicts.of(first, second, gap), voted, people.clusters()


def splits(cascade: Cascade, n: int) -> Iterator[Tally | None]:
    """What the cascade does on the two thirds that it was not calibrated on; None where nothing
    could be promised.
    """
    battles, people, questions = read()
    rng = np.random.default_rng(0)
    for _ in range(n):
        third = rng.permutation(len(people)) < len(people) // 3
        found = cascade(battles.at(third), people[third], questions[third])
        yield found.tally(battles.at(~third), people[~third]) if found else None


def show(cascade: Cascade, n: int) -> None:
    tallies = [tally for tally in splits(cascade, n) if tally is not None]
    agreed = np.array([tally.agreement for tally in tallies], float)
    answered = np.array([tally.answered for tally in tallies])
    asked = np.array([tally.asked for tally in tallies])
    print(
        f"target {cascade.target:.0%}: promised in {len(tallies)} of {n} splits, broken in "
        f"{(agreed < cascade.target).sum()} ({(agreed < cascade.target).mean():.1%})"
    )
    for name, values in (
        ("agreement with people", agreed),
        ("answered, of battles decided by people and a judge", answered),
        ("GPT-4 calls, of all battles", asked),
    ):
        print(f"  {name}: mean {values.mean():.1%}, {values.min():.1%} to {values.max():.1%}")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--splits", type=int, default=200)
    words.add_argument("--targets", type=float, nargs="+", default=[0.80, 0.84])
    words.add_argument("--coverage", type=float, default=0.77)
    given = words.parse_args()
    for target in given.targets:
        show(Cascade(target=target, coverage=given.coverage), given.splits)


if __name__ == "__main__":
    main()
