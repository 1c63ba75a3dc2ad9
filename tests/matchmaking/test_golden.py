"""Seeded matchups are the same for ever, on every machine: 3,000 against a stored digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import numpy as np

from arena_kit import Arena, Outcome
from arena_kit.matchmaking.matchup import Matchup
from arena_kit.policy.constants import Decide, Policy
from tests.samples import CASES

MODELS = [f"m{i:02d}" for i in range(18)]
PROMPTS = [f"p{i:02d}" for i in range(15)]


def season(n: int) -> Iterator[Matchup]:
    """Matchups of the four lanes, where models join and leave and some voters never answer."""
    rng = np.random.default_rng(11)
    skill = {name: 400 * rng.standard_normal() for name in [*MODELS, "x", "y"]}
    available = rng.random((len(MODELS), len(PROMPTS))) < 0.95
    policy = Policy(decide=Decide(share=0.0))
    arena = Arena(policy, MODELS, PROMPTS, rng=np.random.default_rng(5), available=available)
    for number in range(n):
        if number == 1500:
            arena.scheduler.enable("x")
            arena.scheduler.enable("y", prompts=PROMPTS[:9])
        if number == 2500:
            arena.scheduler.disable("m03")
        matchup = arena.next_matchup(session=f"s{rng.integers(40)}")
        yield matchup
        draw = rng.random()
        if 0.04 <= draw < 0.08:
            arena.scheduler.cancel(matchup.matchup_id)
        elif draw >= 0.08:
            gap = skill[matchup.model_b] - skill[matchup.model_a]
            arena.vote(matchup.matchup_id, vote(rng, 1 / (1 + 10 ** (gap / 400))))


def vote(rng: np.random.Generator, chance: float) -> Outcome:
    kind = rng.random()
    if kind < 0.15:
        return Outcome.TIE if kind < 0.1 else Outcome.BOTH_BAD
    return Outcome.MODEL_A if rng.random() < chance else Outcome.MODEL_B


def test_matchups_are_the_same_for_ever() -> None:
    """Matchups and reasons are those of the golden, our own output: sameness, not rightness."""
    rows = [[m.model_a, m.model_b, m.prompt, str(m.lane), m.reason] for m in season(3000)]
    golden = json.loads((CASES / "matchups.json").read_text())
    assert rows[:3] == golden["first"]
    blocks = [rows[start : start + 500] for start in range(0, 3000, 500)]
    digests = [hashlib.sha256(json.dumps(block).encode()).hexdigest() for block in blocks]
    assert digests == golden["blocks"]
    assert rows[-3:] == golden["last"]
