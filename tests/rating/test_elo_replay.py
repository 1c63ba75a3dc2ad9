"""Replaying games through Elo: both engines against the naive loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit.rating.elo.replay import (
    COMPILED_FROM,
    EloRule,
    _shuffled,
    engine_for,
    replay_orders,
)
from arena_kit.rating.resampling import ORDERS, Games, split_seed
from tests import naive

GameList = list[tuple[int, int, float]]


@st.composite
def game_lists(draw: st.DrawFn) -> tuple[GameList, int]:
    n_models = draw(st.integers(2, 6))
    side = st.integers(0, n_models - 1)
    game = st.tuples(side, side, st.sampled_from([0.0, 0.5, 1.0])).filter(lambda g: g[0] != g[1])
    return draw(st.lists(game, min_size=1, max_size=30)), n_models


def as_games(games: GameList, n_models: int) -> Games:
    a, b, score = zip(*games, strict=True)
    return Games(
        a=np.array(a, np.int32),
        b=np.array(b, np.int32),
        score=np.array(score, float),
        n_models=n_models,
    )


@pytest.mark.parametrize("compiled", [False, True])
@given(case=game_lists(), k=st.sampled_from([1.0, 16.0, 32.0, 250.0]), seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_engines(compiled: bool, case: tuple[GameList, int], k: float, seed: int) -> None:
    """Each engine plays exactly the naive shuffles and agrees with the naive loop to 1e-9."""
    games, n_models = case
    seeds = split_seed(seed, 5, ORDERS)
    rules = [EloRule(k=k, initial=1400.0, scale=400.0), EloRule(k=k / 2, initial=0.0, scale=200.0)]
    found = replay_orders(as_games(games, n_models), rules, seeds, compiled=compiled)
    for n, rule in enumerate(rules):
        for row, each in enumerate(seeds.tolist()):
            played = [games[i] for i in naive.shuffle(range(len(games)), each)]
            expected = naive.elo(played, n_models, k=rule.k, initial=rule.initial, scale=rule.scale)
            np.testing.assert_allclose(found[n, row], expected, rtol=0, atol=1e-9)


@given(game_lists(), st.integers(0, 2**32), st.data())
@settings(max_examples=30, deadline=None)
def test_sets(case: tuple[GameList, int], seed: int, data: st.DataObject) -> None:
    """Resampled sets of unequal size play their own games only, in both engines alike."""
    games, n_models = case
    index = st.integers(0, len(games) - 1)
    rows = data.draw(st.lists(st.lists(index, min_size=1, max_size=12), min_size=1, max_size=4))
    sizes = np.array([len(row) for row in rows], np.int32)
    sets = np.zeros((len(rows), sizes.max()), np.int32)
    for n, row in enumerate(rows):
        sets[n, : len(row)] = row
    seeds = split_seed(seed, 3 * len(rows), ORDERS)
    rule = EloRule(k=16.0, initial=1400.0, scale=400.0)
    both = [
        replay_orders(
            as_games(games, n_models), [rule], seeds, sets=sets, sizes=sizes, compiled=compiled
        )[0]
        for compiled in (False, True)
    ]
    np.testing.assert_allclose(both[0], both[1], rtol=0, atol=1e-9)
    for r, each in enumerate(seeds.tolist()):
        played = [games[i] for i in naive.shuffle(rows[r // 3], each)]
        expected = naive.elo(played, n_models, k=16.0, initial=1400.0)
        np.testing.assert_allclose(both[0][r], expected, rtol=0, atol=1e-9)


def test_orders_are_uniform() -> None:
    """All 24 orders of four games come up equally often (chi-squared, 23 degrees)."""
    seeds = split_seed(3, 24_000, ORDERS)
    index = np.broadcast_to(np.arange(4, dtype=np.int32)[:, None], (4, len(seeds)))
    found = _shuffled(index, seeds, np.full(len(seeds), 4, np.int32))
    counts = np.unique(found, axis=1, return_counts=True)[1]
    assert len(counts) == 24
    chi2 = float(((counts - 1000) ** 2 / 1000).sum())
    assert chi2 < 49.7, "beyond the 99.9 % point of the chi-squared distribution"


def test_large_work_is_compiled() -> None:
    """From the stated amount of work on the compiled engine runs; below it, never."""
    assert [engine_for(COMPILED_FROM - 1), engine_for(COMPILED_FROM)] == ["numpy", "numba"]
