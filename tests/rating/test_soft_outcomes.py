"""Soft outcomes: a share of a win instead of a name, in records, files and ratings."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit import Battle, BattleLog, BradleyTerry, PermutationElo
from arena_kit.rating.base import Ratings
from tests import naive

parts = st.integers(0, 1000).map(lambda n: n / 1000)
quick = settings(max_examples=25, deadline=None)


def soft(*rows: tuple[str, str, float | None], winner: str = "tie", **more: object) -> BattleLog:
    """Battles (model_a, model_b, share of model_a)."""
    return BattleLog.from_battles(
        Battle(model_a=a, model_b=b, winner=winner, share_a=share, **more)  # type: ignore[arg-type]
        for a, b, share in rows
    )


def ratings(found: Ratings) -> dict[str, float]:
    return {rating.model: rating.rating for rating in found.ratings}


@st.composite
def tournaments(draw: st.DrawFn) -> list[tuple[str, str, float]]:
    """Soft battles that connect four models."""
    rows = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), parts), max_size=20))
    chain = [("m0", "m1", 0.3), ("m1", "m2", 0.8), ("m2", "m3", 0.5)]
    return chain + [(f"m{a}", f"m{(a + k) % 4}", share) for a, k, share in rows]


ELO = PermutationElo(ties="half", n_perms=20, evidence_replicates=20)
DRAWN = BradleyTerry(interval="percentile", resamples=100)


@pytest.mark.parametrize(
    ("method", "questions"),
    [(BradleyTerry(), True), (BradleyTerry(), False), (DRAWN, True), (ELO, True), (ELO, False)],
)
def test_whole_shares_are_hard_outcomes(method: Any, questions: bool) -> None:
    """A share of 1, 0 or 0.5 rates, with its interval, as the win, loss or tie that it is."""
    rng = np.random.default_rng(4)
    shares = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}
    hard = []
    for n in range(80):
        (a, b), winner = rng.choice([*"wxyz"], 2, replace=False), rng.choice([*shares])
        sides = {"model_a": str(a), "model_b": str(b), "winner": str(winner)}
        hard.append(Battle(**sides, question_id=f"q{n % 25}" if questions else None))  # type: ignore[arg-type]
    shared = [replace(each, share_a=shares[each.winner]) for each in hard]
    plain, by_share = (method(BattleLog.from_battles(rows)) for rows in (hard, shared))
    for model in plain.models:
        assert by_share[model].rating == pytest.approx(plain[model].rating, abs=1e-9)
        assert by_share[model].ci_low == pytest.approx(plain[model].ci_low, abs=1e-7)
        assert by_share[model].ci_high == pytest.approx(plain[model].ci_high, abs=1e-7)


def test_a_share_below_one_needs_no_prior() -> None:
    """Shares of 0.9, 0.6 and 0.75 are odds of 3:1; four of 0.9 are 9:1 without a prior."""
    found = ratings(BradleyTerry()(soft(("x", "y", 0.9), ("y", "x", 0.4), ("x", "y", 0.75))))
    assert found["x"] - found["y"] == pytest.approx(400 * math.log10(3), abs=1e-8)
    for share, method, odds in (
        (0.9, BradleyTerry(), 9),
        (0.9, BradleyTerry(prior_when="always"), 4.1 / 0.9),
        (1.0, BradleyTerry(), 4.5 / 0.5),
        (0.0, BradleyTerry(), 0.5 / 4.5),
    ):
        found = ratings(method(soft(*[("x", "y", share)] * 4)))
        assert found["x"] - found["y"] == pytest.approx(400 * math.log10(odds), abs=1e-8)


@quick
@given(tournaments())
def test_elo_in_order_counts_shares(rows: list[tuple[str, str, float]]) -> None:
    """Replayed in order, a share is the score that the definition of Elo asks for."""
    method = PermutationElo(shuffle=False, n_perms=1, evidence_replicates=0, ties="half")
    found = ratings(method(soft(*rows)))
    games = [(int(a[1]), int(b[1]), share) for a, b, share in rows]
    expected = naive.elo(games, 4, k=16, initial=1400)
    assert [found[f"m{n}"] for n in range(4)] == pytest.approx(expected, abs=1e-9)
