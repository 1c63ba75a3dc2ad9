"""Intervals mean what they say: samples drawn where the truth is known.

The tables in `docs/intervals.md` come from the same simulation, with a thousand samples.
"""

from __future__ import annotations

import numpy as np
import pytest

from arena_kit import BradleyTerry
from benchmarks.intervals import (
    MODELS,
    SCENARIOS,
    SKILLS,
    Scenario,
    bradley_terry,
    ends,
    generator,
    sample,
    share_held,
    truth,
)

QUESTION_EFFECTS, NO_EFFECTS, UNEVEN, TWICE, _ = SCENARIOS


def drawn(scenario: Scenario, n: int) -> dict[str, tuple[float, float]]:
    """For both sandwich intervals: the share that holds the truth, and the mean half-width."""
    logs = [sample(scenario, generator(scenario, number)) for number in range(n)]
    out = {}
    for cluster in ("question", "battle"):
        tables = [ends(BradleyTerry(cluster=cluster)(log)) for log in logs]
        held, _, half = share_held(tables, truth(scenario))
        out[cluster] = held, half
    return out


@pytest.mark.parametrize("scenario", [QUESTION_EFFECTS, TWICE], ids=lambda s: s.title)
def test_clustered_intervals_hold_the_truth_and_plain_ones_do_not(scenario: Scenario) -> None:
    """Where battles on one question are alike, 95 % intervals clustered by question hold the
    truth about as often as they say; those that take battles for independent are a quarter too
    narrow and hold it at least five points less often.
    """
    found = drawn(scenario, 60)
    (held, half), (plain, plain_half) = found["question"], found["battle"]
    assert 92 < held < 98
    assert plain < 90
    assert plain < held - 5
    assert plain_half < 0.8 * half


def test_clustering_costs_nothing_where_questions_do_not_matter() -> None:
    """Without question effects both intervals are equally wide and hold the truth as they say."""
    found = drawn(NO_EFFECTS, 60)
    (held, half), (plain, plain_half) = found["question"], found["battle"]
    assert 92 < held < 98
    assert 92 < plain < 98
    assert plain_half == pytest.approx(half, rel=0.05)


def test_the_truth_is_what_was_planted_where_questions_do_not_matter() -> None:
    """Without question effects, integration and fit give the planted skills back."""
    assert truth(NO_EFFECTS) == pytest.approx(SKILLS, abs=1e-9)


@pytest.mark.parametrize("scenario", [QUESTION_EFFECTS, UNEVEN], ids=lambda s: s.title)
def test_the_truth_is_where_very_many_questions_lead(scenario: Scenario) -> None:
    """A sample of 300,000 battles is rated within 4 standard errors of the truth, which is
    narrower than the planted skills by more than a tenth.
    """
    n = 300_000
    many = Scenario(
        number=0, title="many", questions=n // 10, battles=n, exposure=scenario.exposure
    )
    found = BradleyTerry()(sample(many, np.random.default_rng(0)))
    target = truth(scenario)
    for model, value in zip(MODELS, target, strict=True):
        row = found[model]
        assert abs(row.rating - 1000 - value) < 4 * row.extra["se"] < 25
    assert np.ptp(target) < 0.9 * np.ptp(SKILLS)


def test_the_basic_interval_mirrors_the_percentiles() -> None:
    """The table's basic intervals, mirrored there to save time, are those the package gives."""
    log = sample(QUESTION_EFFECTS, generator(QUESTION_EFFECTS, 0))
    mirrored = dict(bradley_terry(log, seed=3))["basic by question"]
    given = ends(BradleyTerry(interval="basic", resamples=500, seed=3)(log))
    assert mirrored == pytest.approx(given, abs=1e-6)
