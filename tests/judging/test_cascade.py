"""A cascade of judges: who is unsure, and what may be promised about agreement with people."""

from __future__ import annotations

from math import comb
from pathlib import Path

import numpy as np
import pytest

from arena_kit import BradleyTerry, DataError, read_battles
from arena_kit.judging.cascade import Cascade, Verdicts, agreement_bound, unsure
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.quality.agreement import verdicts
from arena_kit.judging.verdicts.records import Judgment, Margin, Slot, Status, Verdict
from arena_kit.judging.verdicts.settle import presentations, settle

PAIR = Pair(dimension="tone", prompt_id="q1", entrant_a="ash", entrant_b="beech")
A, B, TIE = Slot.A, Slot.B, Slot.TIE
MUCH, BETTER = Margin.MUCH, Margin.BETTER


def judgment(forward: Slot | None, backward: Slot | None, *margins: Margin | None) -> Judgment:
    """A pair's two orders; None is an order that was refused."""
    said = zip(presentations(PAIR), (forward, backward), margins or (None, None), strict=True)
    first, second = (
        Verdict(
            presentation=shown,
            status=Status.OK if slot else Status.REFUSED,
            winner=slot,
            margin=margin,
        )
        for shown, slot, margin in said
    )
    return settle(first, second)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (judgment(A, B), ""),
        (judgment(TIE, TIE), ""),
        (judgment(A, A), "the orders disagree"),
        (judgment(A, TIE), "the orders disagree"),
        (judgment(A, None), "an order has no verdict"),
        (judgment(A, B, MUCH, MUCH), ""),
        (judgment(A, B, MUCH, BETTER), ""),
        (judgment(A, B, BETTER, BETTER), "the grade is weak"),
        (judgment(B, A, BETTER, BETTER), "the grade is weak"),
        (judgment(TIE, TIE, Margin.NONE, Margin.NONE), ""),
    ],
)
def test_a_judge_is_unsure_where_its_orders_disagree_or_its_grade_is_weak(
    said: Judgment, why: str
) -> None:
    assert unsure(said) == why


def test_a_judge_is_unsure_where_it_says_something_else_when_asked_again() -> None:
    assert unsure(judgment(A, B), [judgment(A, B)]) == ""
    assert unsure(judgment(A, B), [judgment(A, B), judgment(B, A)]) == "repeated answers disagree"
    assert unsure(judgment(A, B), [judgment(A, A)]) == "repeated answers disagree"


@pytest.mark.parametrize(("won", "n"), [(8, 10), (45, 50), (1, 3)])
def test_the_bound_is_the_share_under_which_so_many_agreements_are_a_rare_luck(
    won: int, n: int
) -> None:
    """Clopper and Pearson's definition, summed by hand: at the bound, as many or more happen with
    a chance of 5 %.
    """
    p = agreement_bound([1] * won + [0] * (n - won), range(n), 0.05)
    tail = sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(won, n + 1))
    assert tail == pytest.approx(0.05, rel=1e-6)


def test_rows_that_repeat_their_cluster_add_no_certainty() -> None:
    """Every row twice in its cluster gives the bound of every row once."""
    flags = np.array([1] * 40 + [0] * 10)
    once = agreement_bound(flags, range(50), 0.05)
    assert agreement_bound(np.repeat(flags, 2), np.repeat(range(50), 2), 0.05) == pytest.approx(
        once
    )
    assert agreement_bound([1] * 9, [0] * 9, 0.05) == pytest.approx(0.05)  # one cluster, one row
    assert agreement_bound([], [], 0.05) == 0.0


def world(rng: np.random.Generator, n: int) -> tuple[Verdicts, np.ndarray]:
    """People decide by a gap; the cheap judge sees it dimly, the dear one well."""
    gap = rng.normal(0, 1.2, n)
    people = np.where(rng.random(n) < 1 / (1 + np.exp(-2 * gap)), 1, -1)
    right = rng.random((2, n)) < np.array([[0.68], [0.80]])
    cheap, dear = np.where(right, people, -people)
    return Verdicts.of(cheap, dear, gap + rng.normal(0, 1, n)), people


def test_a_promise_is_broken_no_more_often_than_its_risk() -> None:
    """In worlds whose truth is known: 60 calibrations on 600 battles, at a risk of 10 %."""
    rng = np.random.default_rng(3)
    everything, truth = world(rng, 20_000)
    cascade = Cascade(target=0.82, risk=0.1, coverage=0.5)
    promised, broken = 0, 0
    for seed in range(60):
        found = Cascade(target=0.82, risk=0.1, coverage=0.5, seed=seed)(*world(rng, 600))
        if found is not None:
            promised += 1
            broken += (found.tally(everything, truth).agreement or 0) < cascade.target
    assert promised > 18
    assert broken <= 10  # 6 expected at most, of 60; 10 or fewer in 97 % of cases


def test_nothing_is_promised_of_judges_who_guess() -> None:
    rng = np.random.default_rng(0)
    cheap, dear, people = rng.choice([-1, 1], (3, 3000))
    assert Cascade()(Verdicts.of(cheap, dear), people) is None


def test_the_dear_judge_is_not_needed_to_know_whom_to_ask() -> None:
    """What is asked depends on the cheap judge alone, and a tie of the cheap judge is asked."""
    rng = np.random.default_rng(1)
    battles, people = world(rng, 4000)
    found = Cascade(target=0.75, coverage=0.5)(battles, people)
    assert found is not None
    blind = Verdicts.of(battles.cheap, np.zeros(4000), battles.signals)
    assert (found.asks(blind) == found.asks(battles)).all()
    tied = Verdicts.of(np.zeros(5), np.ones(5), np.full(5, 9.0))
    assert found.asks(tied).all()
    answers = found.answers(battles)
    kept = ~found.asks(battles)
    assert (answers[kept] == battles.cheap[kept]).all()
    assert {*answers[~kept].tolist()} <= {-1, 0, 1}


def test_verdicts_of_both_judges_are_needed() -> None:
    with pytest.raises(DataError, match="verdicts of both judges: 2 and 1"):
        Verdicts.of([1, -1], [1])
    with pytest.raises(ValueError, match="target must be between 0 and 1"):
        Cascade(target=1.0)
    with pytest.raises(DataError, match="decided for both sides"):
        Cascade()(Verdicts.of([1] * 20, [1] * 20), [1] * 20)


def test_claude_then_gpt4_keeps_its_promise_on_real_votes(data: Path) -> None:
    """Calibrated on a third of 26,919 battles: on the rest at least 80 % agreement with people, on
    at least 75 % of the battles decided by people and a judge, for at most half of GPT-4's calls.
    """
    file = data / "chatbot_arena_27k" / "battles.csv.gz"
    names = ("human", "claude-3-opus-20240229", "gpt-4-0125-preview")
    logs = [read_battles(file, winner=name) for name in names]
    people, cheap, dear = (1 - verdicts(log).astype(int) for log in logs)
    strength = BradleyTerry().strengths(logs[1])
    battles = Verdicts.of(cheap, dear, strength[logs[1].a] - strength[logs[1].b])
    rng = np.random.default_rng(7)
    for _ in range(3):
        third = rng.permutation(len(people)) < len(people) // 3
        found = Cascade(target=0.8, coverage=0.77)(
            battles.at(third), people[third], logs[0].clusters()[third]
        )
        assert found is not None
        tally = found.tally(battles.at(~third), people[~third])
        assert tally.agreement is not None
        assert tally.agreement >= 0.80
        assert tally.answered >= 0.75
        assert tally.asked <= 0.5
