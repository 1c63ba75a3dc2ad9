"""Adaptive rounds: which calls are made next, and when to stop."""

from dataclasses import replace
from math import log as ln
from typing import Any

import numpy as np
import pytest

from arena_kit.matchmaking.adaptive import AdaptiveRounds, Table
from arena_kit.rating.base import MIN_QUESTIONS, Ratings
from arena_kit.rating.claims.power import chance_decided
from tests.samples import rated_by_hand

MODELS = ("ash", "birch", "cedar", "dogwood")
UNIT = 400 / ln(10)


def ratings(levels: list[float], variance: float, n_battles: int) -> Ratings:
    """Ratings of MODELS whose errors are independent, each with this variance."""
    found = rated_by_hand(dict(zip(MODELS, map(float, levels), strict=True)), variance**0.5)
    return replace(found, settings={"scale": 400.0, "looks": 80}, n_battles=n_battles)


def table(prompts: int, made: int = 0) -> Table:
    """Calls of MODELS on so many prompts, the first ones made."""
    done = np.zeros((6, prompts), bool)
    done[:, :made] = True
    return Table(MODELS, np.ones((6, prompts), bool), done)


def standings(rounds: AdaptiveRounds, calls: Table, given: Ratings) -> list[str]:
    return [pair.standing for pair in rounds.neighbours(calls, given)]


def test_rounds() -> None:
    """A first round is even, on ten prompts a model, repeats by its seed; no call comes twice."""
    calls = table(200)
    made = AdaptiveRounds(first_share=0.01).first(calls)
    assert len(set(made.sum(axis=1).tolist())) == 1
    for model in range(4):
        rows = [row for row, pair in enumerate(calls.pairs) if model in pair]
        assert made[rows].any(axis=0).sum() >= MIN_QUESTIONS
    rng = np.random.default_rng(3)
    calls = table(50)
    possible = rng.random(calls.possible.shape) < 0.7
    calls = replace(calls, possible=possible)
    first = AdaptiveRounds().first(calls)
    assert not (first & ~possible).any()
    calls = replace(calls, made=first)
    given = ratings([1000, 1005, 1010, 1015], 300.0, int(first.sum()))
    later = AdaptiveRounds().next(calls, given)
    assert later.any()
    assert not (later & ~calls.left).any()
    calls = table(100)
    same = [AdaptiveRounds(seed=5).first(calls) for _ in range(2)]
    assert np.array_equal(same[0], same[1])
    assert not np.array_equal(same[0], AdaptiveRounds(seed=6).first(calls))


def test_a_gap_that_clears_the_level_is_decided_and_gets_no_more_calls() -> None:
    """Calls go to open neighbours within two tight groups, and to nobody when all are decided."""
    given, calls = ratings([1300, 1285, 1000, 985], 200.0, 120), table(500, made=20)
    assert standings(AdaptiveRounds(), calls, given) == ["open", "decided", "open"]
    per_pair = dict(zip(calls.pairs, AdaptiveRounds().next(calls, given).sum(axis=1), strict=True))
    assert per_pair[0, 1] + per_pair[2, 3] == sum(per_pair.values())
    assert abs(per_pair[0, 1] - per_pair[2, 3]) <= max(per_pair.values()) / 10
    decided = ratings([1300, 1200, 1100, 1000], 50.0, 120)
    assert set(standings(AdaptiveRounds(), calls, decided)) == {"decided"}
    assert not AdaptiveRounds().next(calls, decided).any()


def test_neighbours_that_are_equivalent_or_hopeless() -> None:
    """2 + 2.81 x 2 = 7.6 lies within 10; 25 of 30 prompts leave no hope; no interval is open."""
    given, calls = ratings([1002, 1000, 900, 800], 2.0, 120), table(500, made=20)
    assert standings(AdaptiveRounds(margin=10), calls, given)[0] == "equivalent"
    assert standings(AdaptiveRounds(margin=7), calls, given)[0] != "equivalent"
    given = ratings([1010, 1000, 900, 800], 200.0, 150)
    for prompts, standing in ((30, "hopeless"), (3000, "open"), (25, "hopeless")):
        assert standings(AdaptiveRounds(), table(prompts, made=25), given)[0] == standing
    given = ratings([1010, 1000, 900, 800], 200.0, 150)
    shown = tuple(
        replace(row, ci_low=None, ci_high=None) if row.model == "birch" else row
        for row in given.ratings
    )
    given = replace(given, ratings=shown)
    assert standings(AdaptiveRounds(), table(500, made=20), given)[:2] == ["open", "open"]


def test_the_chance_of_being_decided_is_that_of_a_simulated_continuation() -> None:
    """The estimate is the mean of what was seen; what is still to come is drawn and added."""
    for gap, shrinks in ((0.0, 0.3), (12.0, 0.5), (30.0, 0.9)):
        rng = np.random.default_rng(1)
        variance, level = (
            100.0,
            2.807,
        )  # of two neighbours: the 99.5 % point of the range, over root 2
        after = gap + rng.normal(0, np.sqrt((1 - shrinks) * variance), 400_000)
        simulated = np.mean(np.abs(after) > level * np.sqrt(shrinks * variance))
        assert chance_decided(gap, variance, shrinks, 80) == pytest.approx(simulated, abs=0.003)


def test_the_first_call_chosen_is_the_one_that_reduces_the_gaps_variance_most() -> None:
    """Against the variance after adding each pair's calls in turn, by plain matrix inversion."""
    given = ratings([1040, 1000, 930, 700], 400.0, 60)
    made = np.zeros((6, 300), bool)
    for row, count in enumerate([3, 14, 9, 12, 10, 12]):
        made[row, :count] = True
    calls = Table(MODELS, np.ones((6, 300), bool), made)
    p = {(i, j): 1 / (1 + np.exp((b - a) / UNIT))
         for i, a in enumerate([1040, 1000, 930, 700])
         for j, b in enumerate([1040, 1000, 930, 700])}  # fmt: skip

    def variance(counts: Any) -> float:
        information = np.zeros((4, 4))
        for (i, j), count in zip(calls.pairs, counts, strict=True):
            contrast = np.eye(4)[i] - np.eye(4)[j]
            information += count * p[i, j] * (1 - p[i, j]) * np.outer(contrast, contrast)
        spread = np.linalg.pinv(information)
        return float(spread[0, 0] + spread[1, 1] - 2 * spread[0, 1])

    now = made.sum(axis=1)
    after = [variance(now + np.eye(6)[row]) for row in range(6)]
    rounds = AdaptiveRounds(hopeless_below=0.0)
    allotted = rounds._allotted(calls, given, [np.array([1.0, -1.0, 0, 0])], 1)
    assert (int(np.argmax(allotted)), allotted.sum()) == (int(np.argmin(after)), 1)
