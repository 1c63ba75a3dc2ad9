"""Intervals mean what they say: samples drawn where the truth is known."""

import numpy as np

from arena_kit import BradleyTerry, claims
from benchmarks.claims import QUESTIONS, RANGES, VOTERS, covered, ranks_held
from benchmarks.claims import drawn as worlds
from benchmarks.intervals import SCENARIOS, Scenario, ends, generator, sample, share_held, truth


def drawn(scenario: Scenario, n: int) -> dict[str, tuple[float, float]]:
    """For both sandwich intervals: the share that holds the truth, and the mean half-width."""
    logs = [sample(scenario, generator(scenario, number)) for number in range(n)]
    out = {}
    for cluster in ("question", "battle"):
        tables = [ends(BradleyTerry(cluster=cluster)(log)) for log in logs]
        held, _, half = share_held(tables, truth(scenario))
        out[cluster] = held, half
    return out


def test_clustered_intervals_hold_the_truth_and_plain_ones_do_not() -> None:
    """Clustered by question, 95 % intervals hold; by battle they are a quarter too narrow."""
    found = drawn(SCENARIOS[0], 40)
    (held, half), (plain, plain_half) = found["question"], found["battle"]
    assert 92 < held < 98
    assert plain < 90
    assert plain < held - 5
    assert plain_half < 0.8 * half


def test_voters_matter_as_questions_do() -> None:
    """Clustered by question and voter, intervals hold; by question alone they hold less often."""
    design = VOTERS[1]
    held: dict[str, list[float]] = {"both": [], "question": []}
    for log, value in worlds(design, 40, 0):
        for way, shares in held.items():
            shares.append(covered(BradleyTerry(cluster=way)(log), value)[0])
    assert 92 < 100 * np.mean(held["both"]) < 98
    assert np.mean(held["question"]) < np.mean(held["both"]) - 0.03


def test_few_questions_widen_the_interval() -> None:
    """On ten questions, too, 95 % intervals hold the truth about as often as they say."""
    held = [covered(BradleyTerry()(log), value)[0] for log, value in worlds(QUESTIONS[0], 40, 0)]
    assert 93 < 100 * np.mean(held) < 98


def test_all_true_ranks_lie_in_their_ranges_at_once() -> None:
    """Ranges for all at once hold all true ranks in 94 % of samples; single ones do not."""
    found = [(BradleyTerry()(log), value) for log, value in worlds(RANGES[3], 60, 0)]
    at_once = np.mean([ranks_held(claims.rank_ranges(r), value)[0] for r, value in found])
    single = np.mean([ranks_held(claims.single_rank_ranges(r), value)[0] for r, value in found])
    assert at_once >= 0.94
    assert single < at_once
