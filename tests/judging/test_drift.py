"""Drift: the exact test against hand calculation and brute force, and what a report says."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from arena_kit.judging.drift import (
    ALPHA,
    LEVEL,
    LOOKS,
    WINDOWS,
    DriftReport,
    Look,
    shift,
    shifts,
    unusual,
)  # fmt: skip


def by_permuting(table: np.ndarray, window: int) -> float:
    """The same p-value by putting every row into every order."""
    orders = [[row[list(o)] for o in permutations(range(len(row)))] for row in table]
    sums = [sum(row[-window:].sum() for row in rows) for rows in product(*orders)]
    observed = table[:, -window:].sum()
    below, above = np.mean(np.array(sums) <= observed), np.mean(np.array(sums) >= observed)
    return float(min(1.0, 2 * min(below, above)))


def look(
    number: int,
    flips: list[bool | None],
    answers: list[str | None] | None = None,
    served: str = "claude-opus-5-5",
) -> Look:
    named = answers if answers is not None else ["A"] * 2 * len(flips)
    return Look(
        number=number,
        at="2026-11-15T00:00:00Z",
        flips=tuple(flips),
        answers=tuple(named),
        served=frozenset([served]),
    )


def test_two_looks_are_mcnemars_exact_test() -> None:
    """10 pairs changed one way and 2 the other: 2 (1 + 12 + 66) / 2^12 = 0.0386."""
    table = np.array([[0, 1]] * 10 + [[1, 0]] * 2 + [[0, 0]] * 50 + [[1, 1]] * 5, float)
    found = shift(table, 1)
    assert found is not None
    assert found.p_value == pytest.approx(2 * 79 / 4096)
    assert (found.before, found.after) == (pytest.approx(7 / 67), pytest.approx(15 / 67))


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_test_of_all_orders_of_each_row(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = (rng.random((3, 4)) < 0.5).astype(float)
    for window in (1, 2, 3):
        found = shift(table, window)
        assert found is not None
        assert found.p_value == pytest.approx(by_permuting(table, window))


def test_an_answer_that_is_missing_takes_no_part() -> None:
    """A row whose late looks have no answer says nothing; one with a gap counts what it has."""
    table = np.array([[0, 1, 1], [1, 0, np.nan], [np.nan, 0, 1]], float)
    found = shift(table, 1)
    assert found is not None
    # two rows move: late hit with chance 2/3 and with 1/2, and both came late
    assert found.p_value == pytest.approx(2 * (2 / 3) * (1 / 2))
    assert shift(np.array([[0.0, np.nan]]), 1) is None


def test_levels_add_up_to_the_false_alarms_of_a_year() -> None:
    """Two statistics, 51 comparisons and every window share 1 % (a union bound)."""
    assert 2 * (LOOKS - 1) * len(WINDOWS) * LEVEL == pytest.approx(ALPHA)
    assert ALPHA == 0.01
    assert LOOKS == 52


def test_a_judge_that_repeats_itself_is_caught_at_the_first_wait_after_a_change() -> None:
    """Five equal looks, then 10 of 100 pairs flip: 2 (1/6)^10; a single pair is no alarm."""
    still = np.zeros((100, 6))
    changed = still.copy()
    changed[:10, -1] = 1
    (found,) = [each for each in shifts(changed) if each.window == 1]
    assert found.p_value == pytest.approx(2 * (1 / 6) ** 10)
    assert found.found
    one = still.copy()
    one[0, -1] = 1
    assert not any(each.found for each in shifts(one))
    assert not any(each.found for each in shifts(still))


def test_noise_alone_is_no_alarm() -> None:
    """Over a year of looks at 100 pairs that flip at random, not one alarm in ten worlds."""
    rng = np.random.default_rng(1)
    for _ in range(3):
        table = (rng.random((100, LOOKS)) < 0.2).astype(float)
        ends = range(2, LOOKS + 1, 5)
        assert not any(each.found for n in ends for each in shifts(table[:, :n]))


def test_unusual_answers_are_those_that_are_not_the_most_frequent() -> None:
    table = unusual([["A", "A", "B"], ["tie", None, "tie"], ["B", "A", None]])
    np.testing.assert_array_equal(table, [[0, 0, 1], [0, np.nan, 0], [1, 0, np.nan]])


def test_the_report_says_what_changed() -> None:
    """Flips, answers that changed without a flip, and another served model, each in its words."""
    first = look(1, [False] * 20)
    assert "for the first time" in " ".join(DriftReport(judge="j", looks=(first,)).sentences())
    quiet = DriftReport(judge="j", looks=tuple(look(n, [False] * 20) for n in range(1, 6)))
    assert not quiet.drifted
    assert "none found" in " ".join(quiet.sentences())
    flipped = DriftReport(judge="j", looks=(*quiet.looks, look(6, [True] * 20)))
    assert flipped.drifted
    assert "orders disagree were 0.0%, and in the last look 100.0%" in flipped.sentences()[0]
    other = look(6, [False] * 20, answers=["B"] * 40)
    answered = DriftReport(judge="j", looks=(*quiet.looks, other))
    assert "usual one were 0.0%, and in the last look 100.0%" in answered.sentences()[0]
    moved = look(6, [False] * 20, served="claude-opus-5-6")
    served = DriftReport(judge="j", looks=(*quiet.looks, moved))
    assert served.drifted
    assert "now served by claude-opus-5-6, before by claude-opus-5-5" in served.sentences()[0]
    assert served.as_dict()["drifted"]


def test_repeat_is_the_correlation_between_looks() -> None:
    """1 where each pair always ends alike, about 0 where it is drawn anew."""
    halves = [True] * 10 + [False] * 10
    same = DriftReport(judge="j", looks=tuple(look(n, [*halves]) for n in (1, 2, 3)))
    assert same.repeat == pytest.approx(1.0)
    rng = np.random.default_rng(0)
    drawn = [look(n, list(rng.random(400) < 0.3)) for n in range(1, 9)]
    assert DriftReport(judge="j", looks=tuple(drawn)).repeat == pytest.approx(0.0, abs=0.05)
    assert DriftReport(judge="j", looks=(look(1, [*halves]),)).repeat is None
