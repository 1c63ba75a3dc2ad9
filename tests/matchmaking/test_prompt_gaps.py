"""What is lacking on prompts: kept up with the votes, and the same as worked out from all of it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit.matchmaking.lanes import PromptGaps
from arena_kit.policy.constants import PromptFloors
from arena_kit.policy.exposure import Bools, Counts, Floats


def whole(rule: PromptFloors, can: Bools, votes: Counts, band: list[int]) -> Floats:
    """The whole table, by definition: the part of its floor or target that each model lacks."""
    wanted = np.full((len(votes), 1), rule.floor)
    wanted[band] = rule.top_target
    return np.where(can, np.maximum(0.0, 1 - votes / wanted), -np.inf)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    models=st.integers(2, 7),
    prompts=st.integers(1, 40),
    target=st.integers(2, 300),
)
def test_is_kept_up_with_votes_and_band(seed: int, models: int, prompts: int, target: int) -> None:
    """After every vote and change of band all figures are those of the whole table."""
    rng = np.random.default_rng(seed)
    rule = PromptFloors(floor=min(2, target), top_target=target)
    can, active = rng.random((models, prompts)) < 0.7, rng.random(prompts) < 0.9
    can &= active
    active[0] = True
    votes = rng.integers(0, 4, (models, prompts))
    gaps = PromptGaps(rule, can, active, votes)
    for _ in range(6):
        changed = rng.choice(models, 2, replace=False)
        votes[changed, rng.integers(prompts)] += rng.integers(1, target)
        gaps.forget(changed.tolist())
        band = rng.choice(models, models // 2, replace=False)
        gaps.update(band)
        lack = whole(rule, can, votes, band.tolist())
        assert np.array_equal(gaps.total, np.maximum(lack, 0).sum(axis=1) / prompts)
        covered = (votes >= rule.floor) & active
        assert np.array_equal(gaps.coverage, covered.sum(axis=1) / active.sum())
        for model in range(models):
            assert np.array_equal(gaps.of(model), lack[model])
            mates = (can & can[model]).any(axis=1)
            most = (lack[model] + lack).max(axis=1)
            assert np.array_equal(gaps.most_with(model, mates)[mates], most[mates])
