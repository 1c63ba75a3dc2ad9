"""How many votes an order rests on, and what a planned run is expected to decide."""

import math
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import norm, studentized_range
from scipy.stats import t as student_t

from arena_kit import BattleLog, BradleyTerry, RatingError, claims
from arena_kit.rating.claims import power
from arena_kit.rating.claims.claims import Spread
from arena_kit.rating.claims.power import Fragile, Meetings, fragility, prospects, smallest_gaps
from benchmarks.prospects import SETTINGS, battles, said_and_came
from tests.samples import log_of, won

PLAIN = BradleyTerry(prior=0)


def counted(*rows: tuple[str, str, int, int, int]) -> BattleLog:
    """A log of wins, losses and ties of each pair."""
    a, b, won, lost, tied = zip(*rows, strict=True)
    return BattleLog.from_counts(a, b, won, lost, tied)


def test_two_models_by_hand() -> None:
    """Of 30 wins, 21 less leave 9 to 10, which the sentence says; soft outcomes are refused."""
    for ties in (0, 7):
        found, n = fragility(counted(("x", "y", 30, 10, ties))), 40 + ties
        first = Fragile(above="x", below="y", removed=21, added=21, between=n, of=n)
        assert (found.first, found.neighbours) == (first, (first,))
    log = counted(("x", "y", 3, 2, 2))
    with pytest.raises(RatingError, match="fragility needs ties='half'"):
        fragility(log, BradleyTerry(ties="davidson"))
    with pytest.raises(RatingError, match="no soft outcomes"):
        fragility(replace(log, share_a=np.full(len(log), 0.5)))
    found = Fragile(above="x", below="y", removed=3, added=5, between=750, of=40_000)
    needs = "Reversing x over y needs"
    assert found.sentence == f"{needs} 3 battles removed or 5 added (750 between them)."
    one = replace(found, removed=None, added=1)
    assert one.sentence == f"{needs} 1 battle added (750 between them)."
    far = replace(found, removed=1200, added=None, between=0)
    assert far.sentence == f"{needs} 1,200 battles removed (they never met)."
    never = replace(found, removed=None, added=None)
    assert never.sentence == "No removal or addition of battles reverses x over y."


def turns(table: np.ndarray, change: tuple[int, ...]) -> bool:
    """Whether the second of three models is above the first once these votes are gone."""
    left = table.ravel() - np.array(change)
    pairs = (("a", "b"), ("a", "c"), ("b", "c"))
    rows = [(*pair, *n) for pair, n in zip(pairs, left.reshape(3, 3).tolist(), strict=True)]
    strength = PLAIN.strengths(counted(*rows))
    return bool(strength[1] > strength[0] + 1e-9)


def test_no_smaller_choice_turns_the_order_round() -> None:
    """All choices of fewer votes, tried one by one, leave the order; one of as many does not."""
    table = np.array([[6, 4, 2], [9, 3, 1], [8, 4, 1]])
    pairs = (("a", "b"), ("a", "c"), ("b", "c"))
    log = counted(*((*pair, *n) for pair, n in zip(pairs, table.tolist(), strict=True)))
    (found, _) = fragility(log, PLAIN).neighbours
    assert (found.above, found.below) == ("a", "b")
    choices = list(product(*(range(min(n, found.removed) + 1) for n in table.ravel())))
    fewer = [c for c in choices if 0 < sum(c) < found.removed]
    assert not any(turns(table, choice) for choice in fewer)
    assert any(turns(table, choice) for choice in choices if sum(choice) == found.removed)


def test_the_first_place_may_fall_to_another_than_the_second() -> None:
    """The third may need fewer votes than the second; where influential votes stay, others go."""
    many = (("a", "b", 5200, 4800, 0), ("a", "d", 6000, 4000, 0), ("b", "d", 5800, 4200, 0))
    found = fragility(counted(*many, ("c", "d", 4, 3, 0)))
    assert found.first.below == "c"
    assert found.first.removed < 10
    rows = [("a", "b", 60, 40, 0), ("a", "z", 99, 0, 0), ("b", "z", 98, 2, 0)]
    (found, _) = fragility(counted(*rows)).neighbours
    assert (found.above, found.below) == ("a", "b")
    for fewer, turned in ((found.removed, True), (found.removed - 1, False)):
        left = BradleyTerry(prior=0)(counted(("a", "b", 60 - fewer, 40, 0), *rows[1:]))
        assert (left.order[0] == "b") is turned


def every(n: int, times: float) -> np.ndarray:
    return times * (1.0 - np.eye(n))


def bar(questions: int) -> float:
    """The studentized range of two at 95 %, read as Student's t."""
    z = studentized_range.ppf(0.95, 2, 1e6) / math.sqrt(2)
    return float(student_t.isf(norm.sf(z), questions - 1))


def test_the_smallest_gap_by_hand() -> None:
    """Four models that meet 143 times have a gap variance of 2/143; nine questions give none."""
    error = 400 / math.log(10) * math.sqrt(power.DESIGN_EFFECT * 2 / 143)
    half, most = smallest_gaps(every(4, 143), 143, 400) or (0, 0)
    assert half == pytest.approx(bar(143) * error, rel=1e-4)
    assert most == pytest.approx((bar(143) + norm.ppf(0.8)) * error, rel=1e-4)
    shown = error * np.random.default_rng(0).standard_normal(40_000) + most
    assert np.mean(shown > bar(143) * error) == pytest.approx(0.8, abs=0.01)
    assert smallest_gaps(every(4, 9), 9, 400) is None
    apart = np.kron(np.eye(2), every(2, 50))
    assert smallest_gaps(apart, 50, 400) is None
    pilot, _ = battles(SETTINGS[0], np.random.default_rng(0))
    rated = BradleyTerry()(pilot)
    for planned, questions in ((every(4, 9), 9), (apart, 50)):
        shared = {"earlier": every(4, 50), "repeated": 0 * planned}
        assert prospects(rated, Meetings(planned=planned, questions=questions, **shared)) == ()


def test_the_chance_of_a_normal_gap() -> None:
    """Chances and variances are textbook ones; equal models have hardly a spread."""
    assert power.chance_beyond(3, 4, 2) == pytest.approx(norm.sf(0.5) + norm.cdf(-3.5))
    assert (power.chance_beyond(3, 4, 0), power.chance_beyond(-5, 4, 0)) == (0, 1)
    weights = np.array([[0, 5.0, 0], [5.0, 0, 2.0], [0, 2.0, 0]])
    found = power.covariance(power.information(weights))
    assert power.gap_variance(found, 0, 1) == pytest.approx(1 / 5)
    assert power.gap_variance(found, 0, 2) == pytest.approx(1 / 5 + 1 / 2)
    rows = [row for a, b in combinations("abcde", 2) for row in won(a, b, 100, 100)]
    assert claims.spread(BradleyTerry()(log_of(rows))).deviation < 40
    assert power.true_variance(BradleyTerry()(log_of(rows))) == 0
    rated = BradleyTerry()(log_of(won("a", "b", 400, 100) + won("b", "c", 400, 100)))
    assert claims.spread(rated).deviation == pytest.approx(rated.values().std(ddof=1), rel=0.1)
    assert power.true_variance(rated) == pytest.approx(rated.values().var(ddof=1), rel=0.1)


def test_the_same_run_again_gives_the_same_decisions() -> None:
    """A run that repeats all of the earlier verdicts, and has no other, moves nothing."""
    setting = SETTINGS[1]
    pilot, _ = battles(setting, np.random.default_rng(5))
    rated, met = BradleyTerry()(pilot), every(setting.models, setting.pilot)
    again = Meetings(earlier=met, planned=met, repeated=met, questions=setting.pilot)
    states = [pair.state == "decided" for pair in claims.neighbours(rated)]
    assert [pair.chance > 0.5 for pair in prospects(rated, again)] == states
    assert {pair.chance for pair in prospects(rated, again)} <= {0.0, 1.0}
    errors = claims.gap_errors(rated)
    for pair in prospects(rated, again):
        at = rated.models.index(pair.above), rated.models.index(pair.below)
        assert pair.error == pytest.approx(errors[at])


def test_chances_come_true() -> None:
    """Over simulated pilots, as many neighbours are decided by the run as was said."""
    said, came = said_and_came(SETTINGS[1], 40, seed=6)
    assert said.mean() == pytest.approx(came.mean(), abs=0.07)
    assert came[said > 0.7].mean() > 0.6
    assert came[said < 0.3].mean() < 0.3


def test_the_size_of_a_study_is_that_of_textbooks() -> None:
    """It has (1.96 + 0.84)² σ² / gap² prompts and two for Student's t; unsure pilots need more."""
    known = power.Effect(50.0, 400.0**2)
    n = known.prompts(0.8, 0.975)
    assert n == pytest.approx((1.959964 + 0.841621) ** 2 * 64 + 2, abs=1)
    wide = Spread(1e9, 0.0, 2)
    assert known._replace(now=1e-9, likely=wide).prompts(0.8, 0.975) == n
    unsure = known._replace(now=900.0, likely=wide)
    assert unsure.prompts(0.8, 0.975) > n
    assert known._replace(now=1e4, likely=wide).prompts(0.8, 0.975) is None
