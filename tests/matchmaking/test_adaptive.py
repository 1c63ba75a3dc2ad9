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
    """Calls of MODELS on so many prompts, the first ones made in both orders, without a verdict."""
    done = np.zeros((6, prompts, 2), bool)
    done[:, :made] = True
    return Table(MODELS, np.ones_like(done), done, np.full(done.shape, np.nan))


def standings(rounds: AdaptiveRounds, calls: Table, given: Ratings) -> list[str]:
    return [pair.standing for pair in rounds.neighbours(calls, given)]


def test_rounds() -> None:
    """First rounds are even, in both orders, over strata; later ones repeat no call."""
    calls = table(200)
    made = AdaptiveRounds(first_share=0.01).first(calls)
    assert (made.any(axis=2) == made.all(axis=2)).all()
    assert np.ptp(made.sum(axis=(1, 2))) <= 2
    for model in range(4):
        rows = [row for row, pair in enumerate(calls.pairs) if model in pair]
        assert made[rows].any(axis=(0, 2)).sum() >= MIN_QUESTIONS
    possible = np.random.default_rng(3).random(calls.possible.shape) < 0.7
    calls = replace(calls, possible=possible)
    first = AdaptiveRounds().first(calls)
    assert not (first & ~possible).any()
    calls = replace(calls, made=first)
    given = ratings([1000, 1005, 1010, 1015], 300.0, int(first.any(axis=2).sum()))
    later = AdaptiveRounds().next(calls, given)
    assert later.any()
    assert not (later & (first | ~possible)).any()
    assert not later.all(axis=2).any()
    calls = replace(table(200), made=(first := AdaptiveRounds().first(table(200))))
    later = AdaptiveRounds().next(calls, given)
    assert later.any()
    assert np.abs(np.diff(later.sum(axis=1))).max() <= 1
    same = [AdaptiveRounds(seed=5).first(table(100)) for _ in range(2)]
    assert np.array_equal(same[0], same[1])
    assert not np.array_equal(same[0], AdaptiveRounds(seed=6).first(table(100)))
    strata = np.random.default_rng(2).permutation(np.repeat([0, 1, 2], [100, 60, 40]))
    for seed in range(5):
        rounds = AdaptiveRounds(first_share=0.1, seed=seed)
        made = rounds.first(replace(table(200), strata=strata)).any(axis=2)
        counts = np.array([np.bincount(strata[row], minlength=3) for row in made])
        assert np.abs(counts - [10, 6, 4]).max() <= 3
    first = [
        AdaptiveRounds().first(replace(table(99), strata=s)) for s in (None, np.zeros(99, int))
    ]
    assert np.array_equal(*first)


def test_a_second_order_is_asked_where_it_tells_more_than_a_new_prompt() -> None:
    """Orders that agree are not both asked, those of a judge that takes a slot are."""
    for orders, second in (((1.0, 1.0), False), ((1.0, 0.5), False), ((1.0, 0.0), True)):
        calls, given = table(500, made=50), ratings([1003, 1002, 1001, 1000], 300.0, 600)
        calls.shares[:, :25], calls.shares[:, 25:50] = orders, 1 - np.array(orders)
        calls.made[:, 50:100, 0] = True
        target = np.array([1.0, -1.0, 0.0, 0.0])
        allotted = AdaptiveRounds()._allotted(calls, given, [target], 40).sum(axis=1)
        assert allotted.tolist() == ([0, 40] if second else [40, 0])
        r = {1.0: 75.0, 0.5: 0.0, 0.0: -75.0}[orders[1]]  # 300 residuals of a half, or of 0
        squares = 75.0 if orders[1] != 0.5 else 37.5
        r = (r + 0.8) / (squares + 2)
        assert calls.second_worth(given) == pytest.approx((1 - r) / (1 + r), rel=0.02)


def test_a_gap_that_clears_the_level_is_decided_and_gets_no_more_calls() -> None:
    """Calls go to open neighbours, none to decided, equivalent or hopeless ones."""
    given, calls = ratings([1300, 1285, 1000, 985], 200.0, 120), table(500, made=20)
    assert standings(AdaptiveRounds(), calls, given) == ["unresolved", "decided", "unresolved"]
    per_pair = dict(
        zip(calls.pairs, AdaptiveRounds().next(calls, given).sum(axis=(1, 2)), strict=True)
    )
    assert per_pair[0, 1] + per_pair[2, 3] == sum(per_pair.values())
    assert abs(per_pair[0, 1] - per_pair[2, 3]) <= max(per_pair.values()) / 10
    decided = ratings([1300, 1200, 1100, 1000], 50.0, 120)
    assert set(standings(AdaptiveRounds(), calls, decided)) == {"decided"}
    assert not AdaptiveRounds().next(calls, decided).any()
    given, calls = ratings([1002, 1000, 900, 800], 2.0, 120), table(500, made=20)
    assert standings(AdaptiveRounds(margin=10), calls, given)[0] == "equivalent"
    assert standings(AdaptiveRounds(margin=7), calls, given)[0] != "equivalent"
    given = ratings([1010, 1000, 900, 800], 200.0, 150)
    for prompts, standing in ((30, "hopeless"), (3000, "unresolved"), (25, "hopeless")):
        assert standings(AdaptiveRounds(), table(prompts, made=25), given)[0] == standing
    given = ratings([1010, 1000, 900, 800], 200.0, 150)
    shown = tuple(
        replace(row, ci_low=None, ci_high=None) if row.model == "birch" else row
        for row in given.ratings
    )
    given = replace(given, ratings=shown)
    assert standings(AdaptiveRounds(), table(500, made=20), given)[:2] == [
        "unresolved",
        "unresolved",
    ]
    given = ratings([1040, 1000, 900, 800], 200.0, 24)
    rows = tuple(replace(row, ci_low=None, ci_high=None) for row in given.ratings)
    unknown = replace(given, ratings=rows)
    for prompts, standing in ((9, "hopeless"), (10, "unresolved")):
        assert set(standings(AdaptiveRounds(), table(prompts, made=4), unknown)) == {standing}


def test_the_chance_of_being_decided_is_that_of_a_simulated_continuation() -> None:
    """A chance is that of a simulated continuation; the first call reduces variance most."""
    for gap, shrinks in ((0.0, 0.3), (12.0, 0.5), (30.0, 0.9)):
        rng = np.random.default_rng(1)
        variance, level = (
            100.0,
            2.807,
        )  # of two neighbours: the 99.5 % point of the range, over root 2
        after = gap + rng.normal(0, np.sqrt((1 - shrinks) * variance), 400_000)
        simulated = np.mean(np.abs(after) > level * np.sqrt(shrinks * variance))
        assert chance_decided(gap, variance, shrinks, 80) == pytest.approx(simulated, abs=0.003)
    given = ratings([1040, 1000, 930, 700], 400.0, 60)
    calls = table(300)
    for row, count in enumerate([3, 14, 9, 12, 10, 12]):
        calls.made[row, :count, 0] = True
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

    now = calls.made.sum(axis=(1, 2))
    after = [variance(now + np.eye(6)[row]) for row in range(6)]
    rounds = AdaptiveRounds(hopeless_below=0.0)
    allotted = rounds._allotted(calls, given, [np.array([1.0, -1.0, 0, 0])], 1)
    assert (int(np.argmax(allotted[0])), allotted.sum()) == (int(np.argmin(after)), 1)
