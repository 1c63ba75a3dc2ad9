"""What a planned run is expected to decide."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import norm, studentized_range
from scipy.stats import t as student_t

from arena_kit import BradleyTerry, claims
from arena_kit.rating.claims.power import (
    DESIGN_EFFECT,
    Meetings,
    chance_beyond,
    covariance,
    gap_variance,
    information,
    prospects,
    smallest_gaps,
    true_variance,
)
from benchmarks.prospects import SETTINGS, Setting, battles, said_and_came
from tests.samples import log_of, won


def every(n: int, times: float) -> np.ndarray:
    return times * (1.0 - np.eye(n))


def bar(questions: int) -> float:
    """The studentized range of two at 99.5 %, read as Student's t."""
    z = studentized_range.ppf(0.995, 2, 1e6) / math.sqrt(2)
    return float(student_t.isf(norm.sf(z), questions - 1))


def test_the_smallest_gap_by_hand() -> None:
    """Four models that meet 143 times each have a gap variance of 2 / (4 x 143 / 4) log odds."""
    error = 400 / math.log(10) * math.sqrt(DESIGN_EFFECT * 2 / 143)
    half, most = smallest_gaps(every(4, 143), 143, 400) or (0, 0)
    assert half == pytest.approx(bar(143) * error, rel=1e-4)
    assert most == pytest.approx((bar(143) + norm.ppf(0.8)) * error, rel=1e-4)
    shown = error * np.random.default_rng(0).standard_normal(40_000) + most
    assert np.mean(shown > bar(143) * error) == pytest.approx(0.8, abs=0.01)


def test_nothing_is_expected_where_nothing_can_be_decided() -> None:
    """Nine questions give no interval, and models that never meet no gap."""
    assert smallest_gaps(every(4, 9), 9, 400) is None
    apart = np.kron(np.eye(2), every(2, 50))
    assert smallest_gaps(apart, 50, 400) is None
    pilot, _ = battles(SETTINGS[0], np.random.default_rng(0))
    rated = BradleyTerry()(pilot)
    for planned, questions in ((every(4, 9), 9), (apart, 50)):
        meetings = Meetings(
            earlier=every(4, 50), planned=planned, repeated=0 * planned, questions=questions
        )
        assert prospects(rated, meetings) == ()


def test_the_chance_of_a_normal_gap() -> None:
    """A gap of 3 that moves by 2 clears a bar of 4 on the one side in 31 % of cases."""
    assert chance_beyond(3, 4, 2) == pytest.approx(norm.sf(0.5) + norm.cdf(-3.5))
    assert (chance_beyond(3, 4, 0), chance_beyond(-5, 4, 0)) == (0, 1)


def test_information_is_that_of_a_fit() -> None:
    """The covariance of gaps is what plain logistic regression gives."""
    weights = np.array([[0, 5.0, 0], [5.0, 0, 2.0], [0, 2.0, 0]])
    found = covariance(information(weights))
    assert gap_variance(found, 0, 1) == pytest.approx(1 / 5)
    assert gap_variance(found, 0, 2) == pytest.approx(1 / 5 + 1 / 2)


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


def test_what_errors_explain_is_no_spread() -> None:
    """Models that are equally good differ by chance only."""
    rows = [row for a, b in combinations("abcde", 2) for row in won(a, b, 25, 25)]
    assert true_variance(BradleyTerry()(log_of(rows))) == 0
    rows = won("a", "b", 40, 10) + won("b", "c", 40, 10)
    rated = BradleyTerry()(log_of(rows))
    spread = np.var([row.rating for row in rated.ratings], ddof=1)
    assert 0.8 * spread < true_variance(rated) < spread


@pytest.mark.parametrize("setting", SETTINGS[1:3], ids=lambda each: each.title)
def test_chances_come_true(setting: Setting) -> None:
    """Over simulated pilots, as many neighbours are decided by the run as was said."""
    said, came = said_and_came(setting, 80, seed=6)
    assert said.mean() == pytest.approx(came.mean(), abs=0.07)
    assert came[said > 0.7].mean() > 0.6
    assert came[said < 0.3].mean() < 0.3
