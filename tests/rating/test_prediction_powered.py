"""Prediction-powered ratings: the formula by hand, and that a judge cannot bias them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from arena_kit import BattleLog, BradleyTerry, Source
from arena_kit.rating.influence import Influence
from arena_kit.rating.prediction_powered import powered
from tests.naive import UNIT
from tests.samples import all_pairs, drawn, log_of, shared_log

METHOD = BradleyTerry()

#: Battles of x and y by (vote, verdict): both for x, only people, only the judge, neither.
CELLS = {("a", "a"): 18, ("a", "b"): 6, ("b", "a"): 4, ("b", "b"): 12}
#: The judge's verdicts on other battles.
OTHERS = {"a": 120, "b": 80}


def two_models() -> tuple[BattleLog, BattleLog]:
    rows = [cell for cell, n in CELLS.items() for _ in range(n)]
    votes = [("x", "y", f"model_{vote}") for vote, _ in rows]
    said = [("x", "y", f"model_{verdict}") for _, verdict in rows]
    more = [("x", "y", f"model_{verdict}") for verdict, n in OTHERS.items() for _ in range(n)]
    return log_of(votes), log_of(said + more, source=Source.LLM_JUDGE)


def test_two_models_by_hand() -> None:
    """With two models, 40 votes and 240 verdicts, the correction is PPI++'s by the delta method on
    log odds: the variance of log odds is 1 / (n p (1 - p)), times n / (n - 1).
    """
    n, more, p, q, elsewhere = 40, 200, 24 / 40, 22 / 40, 120 / 200
    together = (18 / 40 - p * q) / (n * p * (1 - p) * q * (1 - q))
    ours = 1 / (p * (1 - p)) / (n - 1)
    theirs = 1 / (q * (1 - q)) / (n - 1) + 1 / (elsewhere * (1 - elsewhere)) / (more - 1)
    power = together / theirs
    odds = math.log(p / (1 - p))
    odds -= power * (math.log(q / (1 - q)) - math.log(elsewhere / (1 - elsewhere)))
    variance = ours - 2 * power * together + power**2 * theirs

    votes, verdicts = two_models()
    found = powered(METHOD, METHOD(votes), votes, verdicts)
    assert found is not None
    assert found.ratings.fit["power"] == pytest.approx(power)
    assert found.ratings["x"].rating - found.ratings["y"].rating == pytest.approx(UNIT * odds)
    gap = np.array([1.0, -1.0])
    assert gap @ found.ratings.covariance @ gap == pytest.approx(UNIT**2 * variance)
    assert variance < 0.85 * ours


def test_covariance_with_all_verdicts_by_hand() -> None:
    """The judge's log odds by all 240 verdicts share the 40 battles with people's: over those the
    products of what each verdict and vote is off its mean sum to 18 - 22 p.
    """
    votes, verdicts = two_models()
    ours, theirs = Influence.of(votes, METHOD(votes)), Influence.of(verdicts, METHOD(verdicts))
    p, every = 24 / 40, 142 / 240
    expected = (18 - 22 * p) / (40 * p * (1 - p) * 240 * every * (1 - every))
    gap = np.array([1.0, -1.0])
    assert gap @ ours.shared(theirs) @ gap == pytest.approx(UNIT**2 * expected)


def world(seed: int, judge: np.ndarray | None, n: int, more: int) -> tuple[BattleLog, BattleLog]:
    """Votes on `n` battles of five models, and verdicts on these and `more`; without a judge's
    skills the verdicts are people's own votes.
    """
    rng = np.random.default_rng(seed)
    skill, names = np.linspace(-120, 120, 5), list("abcde")
    a = rng.integers(0, 5, n + more)
    b = (a + rng.integers(1, 5, n + more)) % 5
    luck = rng.random(n + more)
    votes = luck > 1 / (1 + 10 ** ((skill[b] - skill[a]) / 400))
    theirs = skill if judge is None else judge
    said = luck > 1 / (1 + 10 ** ((theirs[b] - theirs[a]) / 400))
    human = shared_log(a, b, votes.astype(int), names, Source.HUMAN)
    return human.select(np.arange(n)), shared_log(a, b, said.astype(int), names, Source.LLM_JUDGE)


def test_a_judge_cannot_bias_it() -> None:
    """A judge that sees every model in the wrong order, but is moved by the same luck, takes
    variance out of people's ratings without moving them on average.
    """
    skill = np.linspace(-120, 120, 5)
    errors, widths = [], []
    for seed in range(40):
        votes, verdicts = world(seed, -skill / 2, 400, 4000)
        people = METHOD(votes)
        found = powered(METHOD, people, votes, verdicts)
        assert found is not None
        errors.append([found.ratings[m].rating - 1000 for m in people.models] - skill)
        widths.append([found.ratings[m].extra["se"] / people[m].extra["se"] for m in people.models])
    standard_error = np.std(errors, axis=0) / np.sqrt(40)
    assert np.all(np.abs(np.mean(errors, axis=0)) < 4 * standard_error + 3)
    assert np.mean(widths) < 0.9


def test_it_needs_shared_battles_and_others() -> None:
    """Without verdicts on the same battles, or without others, there is nothing to correct by."""
    votes, verdicts = world(1, None, 400, 1000)
    elsewhere = verdicts.select(np.arange(400, 1400))
    assert powered(METHOD, METHOD(votes), votes, elsewhere) is None
    assert powered(METHOD, METHOD(votes), votes, verdicts.select(np.arange(400))) is None
    apart = drawn(
        np.random.default_rng(2), dict.fromkeys("abcde", 0.0), all_pairs("abcde"), 900, "z"
    )
    assert powered(METHOD, METHOD(votes), votes, apart) is None


def test_a_useless_judge_corrects_nothing() -> None:
    """Verdicts by coin have a power near zero, and leave people's ratings where they are."""
    votes, verdicts = world(3, None, 400, 4000)
    rng = np.random.default_rng(4)
    coin = shared_log(verdicts.a, verdicts.b, rng.integers(0, 2, 4400), list("abcde"), Source.HUMAN)
    people = METHOD(votes)
    found = powered(METHOD, people, votes, coin)
    assert found is not None
    assert found.ratings.fit["power"] < 0.1
    for model in people.models:
        assert found.ratings[model].rating == pytest.approx(people[model].rating, abs=5)
