"""Soft outcomes: a share of a win instead of a name, in records, files and ratings."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit import (
    Battle,
    BattleLog,
    BradleyTerry,
    DataError,
    PermutationElo,
    Ratings,
    read_battles,
    write_battles,
)
from tests import naive
from tests.naive import Naive, centred

KINDS = [".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".parquet"]
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


# What a share means


def test_two_models_have_the_odds_of_their_shares() -> None:
    """Shares of 0.9, 0.6 and 0.75 are 2.25 wins against 0.75: odds of 3:1."""
    battles = soft(("x", "y", 0.9), ("y", "x", 0.4), ("x", "y", 0.75))
    found = ratings(BradleyTerry(prior=0)(battles))
    assert found["x"] - found["y"] == pytest.approx(400 * math.log10(3), abs=1e-9)


@pytest.mark.parametrize(
    ("method", "questions"),
    [
        (BradleyTerry(), True),
        (BradleyTerry(), False),
        (BradleyTerry(interval="percentile", resamples=100), True),
        (PermutationElo(ties="half", n_perms=20, evidence_replicates=20), True),
        (PermutationElo(ties="half", n_perms=20, evidence_replicates=20), False),
    ],
)
def test_whole_shares_are_hard_outcomes(
    method: BradleyTerry | PermutationElo, questions: bool
) -> None:
    """A share of 1, 0 or 0.5 rates, with its interval, as the win, loss or tie that it is."""
    rng = np.random.default_rng(4)
    names = {1.0: "model_a", 0.0: "model_b", 0.5: "tie"}
    hard, shared = [], []
    for n in range(80):
        a, b = rng.choice(["w", "x", "y", "z"], 2, replace=False)
        share = float(rng.choice([1.0, 0.0, 0.5]))
        battle = Battle(
            model_a=str(a),
            model_b=str(b),
            winner=names[share],  # type: ignore[arg-type]
            question_id=f"q{n % 25}" if questions else None,
        )
        hard.append(battle)
        shared.append(replace(battle, share_a=share))
    plain, by_share = (method(BattleLog.from_battles(rows)) for rows in (hard, shared))
    for model in plain.models:
        assert by_share[model].rating == pytest.approx(plain[model].rating, abs=1e-9)
        assert by_share[model].ci_low == pytest.approx(plain[model].ci_low, abs=1e-7)
        assert by_share[model].ci_high == pytest.approx(plain[model].ci_high, abs=1e-7)


@quick
@given(tournaments())
def test_a_share_splits_a_battle(rows: list[tuple[str, str, float]]) -> None:
    """A battle of share s rates as one win of weight s and one loss of weight 1 - s."""
    halves = [
        Battle(model_a=a, model_b=b, winner=winner, weight=weight)  # type: ignore[arg-type]
        for a, b, share in rows
        for winner, weight in (("model_a", share), ("model_b", 1 - share))
        if weight > 0
    ]
    whole = ratings(BradleyTerry()(soft(*rows)))
    split = ratings(BradleyTerry()(BattleLog.from_battles(halves)))
    assert whole == pytest.approx(split, abs=1e-6)


WHEN = [("needed", 0.0), ("always", 0.5)]


@pytest.mark.parametrize(("when", "prior"), WHEN)
def test_the_covariance_is_the_sandwich(when: str, prior: float) -> None:
    """Scores and curvature by differences give the covariance of soft, weighted battles, some
    of them without a share, on shared questions.
    """
    rng = np.random.default_rng(2)
    rows = [("m0", "m1"), ("m1", "m2"), ("m2", "m0"), ("m3", "m0"), ("m2", "m3")] * 12
    battles = BattleLog.from_battles(
        Battle(
            model_a=a,
            model_b=b,
            winner=str(rng.choice(["model_a", "model_b", "tie"])),  # type: ignore[arg-type]
            share_a=None if n % 4 == 0 else float(rng.random()),
            weight=float(rng.choice([1.0, 2.5])),
            question_id=f"q{n % 14}",
        )
        for n, (a, b) in enumerate(rows)
    )
    found = BradleyTerry(prior_when=when)(battles)  # type: ignore[arg-type]
    twin = Naive(battles, prior=prior)
    asked = [battle.question_id for battle in battles.to_battles()]
    expected = centred(twin.covariance(twin.parameters(found), asked), 4)
    np.testing.assert_allclose(found.covariance, expected, rtol=2e-4, atol=1e-2)


# Elo counts shares too


@quick
@given(tournaments())
def test_elo_in_order_counts_shares(rows: list[tuple[str, str, float]]) -> None:
    """Replayed in order, a share is the score that the definition of Elo asks for."""
    method = PermutationElo(shuffle=False, n_perms=1, evidence_replicates=0, ties="half")
    found = ratings(method(soft(*rows)))
    games = [(int(a[1]), int(b[1]), share) for a, b, share in rows]
    expected = naive.elo(games, 4, k=16, initial=1400)
    assert [found[f"m{n}"] for n in range(4)] == pytest.approx(expected, abs=1e-9)


# Records and logs


@pytest.mark.parametrize("share", [-0.01, 1.01, math.nan, math.inf])
def test_a_share_is_from_0_to_1(share: float) -> None:
    """A share out of range makes no battle."""
    with pytest.raises(DataError, match=r"share_a .* is not a number from 0 to 1"):
        Battle(model_a="x", model_b="y", winner="tie", share_a=share)  # type: ignore[arg-type]


# Files


@pytest.mark.parametrize("kind", KINDS)
def test_shares_survive_their_file(kind: str, tmp_path: Path) -> None:
    """Written and read again, every share is the same to the last bit; a missing one is missing."""
    given_shares = [0.1, None, 1.0, 0.0, 1 / 3, 5e-324, None, 0.9999999999999999]
    path = tmp_path / f"soft{kind}"
    write_battles(path, soft(*[("x", "y", share) for share in given_shares]))
    assert [battle.share_a for battle in read_battles(path).to_battles()] == given_shares


@pytest.mark.parametrize("wrong", ["1.5", "-0.1", "half", "NaN", "inf"])
def test_a_wrong_share_is_named_with_its_line(wrong: str, tmp_path: Path) -> None:
    """In a CSV file and in JSONL, the line and the value are told, and what was allowed."""
    csv = tmp_path / "soft.csv"
    csv.write_text(f"model_a,model_b,winner,share_a\nx,y,tie,0.5\nx,y,tie,\nx,y,tie,{wrong}\n")
    with pytest.raises(DataError, match=rf"soft\.csv:4: share_a '{wrong}' is not a number from 0"):
        read_battles(csv)
    lines = [{"model_a": "x", "model_b": "y", "winner": "tie", "share_a": s} for s in (1, wrong)]
    jsonl = tmp_path / "soft.jsonl"
    jsonl.write_text("".join(json.dumps(each) + "\n" for each in lines))
    with pytest.raises(DataError, match=rf"soft\.jsonl:2: share_a '{wrong}' is not a number from"):
        read_battles(jsonl)
