"""Preferences that were planted into simulated verdicts are found again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from arena_kit import BattleLog
from arena_kit.battles.log import Labels
from arena_kit.judging.quality.calls import Calls
from arena_kit.judging.quality.family import family_preference
from arena_kit.judging.quality.length import length_preference
from arena_kit.judging.quality.stability import stability
from arena_kit.judging.verdicts.records import Slot
from tests.samples import log_of, settled

A, B = Slot.A, Slot.B
NAMES = tuple(f"m{i}" for i in range(6))
SKILL = np.array([1.2, 0.6, 0.2, -0.2, -0.6, -1.2])


def expit(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


def battles(
    n: int, seed: int, *, per_doubling: float = 0.0, family: float = 0.0, skill: np.ndarray = SKILL
) -> BattleLog:
    """Verdicts by skill, by length (better models write longer) and for m0 and m3, who are of the
    judge's family; four verdicts on each question, which has a taste of its own for one model.
    """
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 6, n)
    b = (a + rng.integers(1, 6, n)) % 6
    question = np.arange(n) // 4
    words = np.exp(5 + 0.2 * SKILL[None, :] + rng.normal(0, 0.5, (n // 4 + 1, 6)))
    taste = rng.normal(0, 0.3, (n // 4 + 1, 6))
    own = np.isin(np.arange(6), (0, 3)).astype(float)
    value = skill[None, :] + taste + per_doubling * np.log2(words) + family * own[None, :]
    first, second = value[question, a], value[question, b]
    won = rng.random(n) < 1 / (1 + np.exp(second - first - 0.3))  # the first slot has a bonus
    one, two = words[question, a], words[question, b]
    return BattleLog(
        models=NAMES,
        a=a.astype(np.int32),
        b=b.astype(np.int32),
        outcome=np.where(won, 0, 1).astype(np.int8),
        question_id=Labels.of([f"q{i:05}" for i in question]),
        covariates={"length": (one - two) / (one + two)},
    )


def test_a_planted_preference_for_length_is_recovered_at_equal_quality() -> None:
    """0.8 logits for each doubling are a win share of 69 % between equals, although longer models
    are better, too; the raw share says more than that is worth.
    """
    found = length_preference(Calls.from_battles(battles(12_000, seed=3, per_doubling=0.8)))
    assert found.doubled.value == pytest.approx(expit(0.8), abs=0.02)
    assert found.raw.value is not None
    assert found.raw.value > 0.65


def test_its_interval_holds_the_truth() -> None:
    """Of 100 simulated runs of 800 verdicts, 90 to 99 hold the planted share."""
    held = 0
    for seed in range(100):
        found = length_preference(Calls.from_battles(battles(800, seed, per_doubling=0.5))).doubled
        assert found.ci_low is not None
        assert found.ci_high is not None
        held += found.ci_low <= expit(0.5) <= found.ci_high
    assert 90 <= held <= 99


def test_no_preference_for_length_is_none_although_better_models_write_longer() -> None:
    found = length_preference(Calls.from_battles(battles(12_000, seed=5)))
    assert found.raw.value is not None
    assert found.raw.value > 0.51
    assert found.doubled.ci_low is not None
    assert found.doubled.ci_high is not None
    assert found.doubled.ci_low < 0.5 < found.doubled.ci_high


def test_a_judge_of_length_alone_has_a_finite_share_near_one() -> None:
    """Verdicts that length separates perfectly leave no maximum of the likelihood, and still a
    number.
    """
    log = battles(400, seed=1)
    assert log.covariates is not None
    longer = np.where(log.covariates["length"] > 0, 0, 1).astype(np.int8)
    found = length_preference(Calls.from_battles(replace(log, outcome=longer)))
    assert found.raw.value == 1.0
    assert found.doubled.value is not None
    assert 0.99 < found.doubled.value <= 1.0


def test_responses_of_unknown_length_say_nothing() -> None:
    found = length_preference(Calls.from_battles(log_of([("x", "y", "model_a")])))
    assert (found.raw.value, found.doubled.value, found.doubled.n) == (None, None, 0)


@pytest.mark.parametrize("planted", [0.0, 0.9])
def test_a_planted_preference_for_the_own_family_is_recovered(planted: float) -> None:
    """None, and 0.9 logits for m0 and m3, which are a win share of 71 % against equals by the
    votes of people who prefer nobody: of 40 simulated runs of 800 verdicts, 35 or more hold it.
    """
    held, shares = 0, []
    for seed in range(0, 80, 2):
        judged, people = battles(800, seed, family=planted), battles(800, seed + 1)
        calls, others = Calls.from_battles(judged), Calls.from_battles(people)
        found = family_preference(calls, {"m0": "ours", "m3": "ours", "m1": "x"}, "ours", others)
        assert found.ci_low is not None
        assert found.ci_high is not None
        held += found.ci_low <= expit(planted) <= found.ci_high
        shares.append(found.value or 0.0)
    assert held >= 35
    assert np.mean(shares) == pytest.approx(expit(planted), abs=0.03)


def test_a_family_that_nobody_belongs_to_is_no_preference() -> None:
    log = battles(400, seed=1)
    calls = Calls.from_battles(log)
    found = family_preference(calls, {}, "ours", calls)
    assert (found.value, found.n) == (None, 0)


def test_repeats_are_every_two_answers_to_one_request() -> None:
    """With ash first the answers are A, A, B: one of three pairs of answers is equal; with beech
    first B, B, B: three of three.
    """
    found = stability(Calls.of(settled((A, B), (A, B), (B, B), questions=1)))
    assert found.value == pytest.approx(4 / 6)
    assert found.n == 6
    once = stability(Calls.of(settled((A, B), (A, B))))
    assert (once.value, once.n) == (None, 0)
