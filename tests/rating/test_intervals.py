"""Intervals mean what they say: samples drawn where the truth is known."""

import numpy as np

from arena_kit import BradleyTerry
from benchmarks.claims import COVERAGE, RANKS, VOTERS, covered, false_and_found, ranks_held
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
    found = drawn(SCENARIOS[0], 30)
    (held, half), (plain, plain_half) = found["question"], found["battle"]
    assert 92 < held < 98
    assert plain < 90
    assert plain < held - 5
    assert plain_half < 0.8 * half


def test_voters_matter_as_questions_do() -> None:
    """Where one voter is loud, by question is too narrow; on ten questions 95 % hold, too."""
    held: dict[str, list[float]] = {"both": [], "question": []}
    for log, value, _ in COVERAGE[5].drawn(20, 0):
        for way, shares in held.items():
            shares.append(covered(BradleyTerry(cluster=way)(log), value))  # type: ignore[arg-type]
    assert 93 < 100 * np.mean(held["both"]) < 99
    assert np.mean(held["question"]) < np.mean(held["both"]) - 0.1
    held = [covered(BradleyTerry()(log), value) for log, value, _ in COVERAGE[6].drawn(30, 0)]
    assert 93 < 100 * np.mean(held) < 97


def test_few_voters_make_no_false_boards_and_say_whom_claims_are_about() -> None:
    """Of six voters boards say so, of nine nothing; rank ranges hold all true ranks at once."""
    for design, these in ((VOTERS[0], True), (VOTERS[1], False)):
        false = 0
        for log, like_these, of_these in design.drawn(8, 1):
            ratings = BradleyTerry()(log)
            assert bool(ratings.notes) == these
            false += false_and_found(ratings, of_these if these else like_these)[0]
        assert false <= 2
    found = [ranks_held(BradleyTerry()(log), t) for log, t, _ in RANKS[0].drawn(12, 0)]
    assert np.mean(found) >= 0.94
