"""Order effects of a judge, calculated by hand on a few verdicts."""

from __future__ import annotations

from math import sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit.judging.prompts import Pair
from arena_kit.judging.quality import Check, PositionBias, position_bias, readiness
from arena_kit.judging.records import Judgment, Slot, Status, Verdict
from arena_kit.judging.verdicts import presentations, settle

A, B, TIE = Slot.A, Slot.B, Slot.TIE
Said = Slot | Status


def judged(*said: tuple[Said, Said], dimension: str = "tone") -> list[Judgment]:
    """One judgment for each two answers, forward and backward, on a prompt of its own."""
    found = []
    for i, answers in enumerate(said):
        pair = Pair(dimension=dimension, prompt_id=f"q{i}", entrant_a="ash", entrant_b="beech")
        forward, backward = (
            Verdict(
                presentation=shown,
                status=answer if isinstance(answer, Status) else Status.OK,
                winner=answer if isinstance(answer, Slot) else None,
            )
            for shown, answer in zip(presentations(pair), answers, strict=True)
        )
        found.append(settle(forward, backward))
    return found


def bias(*said: tuple[Said, Said]) -> PositionBias:
    return position_bias(judged(*said))["tone"]


def checks(judgments: list[Judgment], **limits: float) -> dict[str, Check]:
    return {check.what: check for check in readiness(judgments, **limits)}


def test_rates_and_clustered_error_match_a_hand_calculation() -> None:
    """Two of three pairs flip, three of five decisive verdicts name slot A.

    The pairs' residuals are 2 x 0.4, 0.4 - 0.6 and -0.6, so the standard error is
    sqrt(0.64 + 0.04 + 0.36) / 5.
    """
    found = bias((A, A), (A, B), (TIE, B))
    assert (found.n_pairs, found.flips, found.n_decisive, found.slot_a) == (3, 2, 5, 3)
    assert found.flip_rate == pytest.approx(2 / 3)
    assert found.slot_a_rate == pytest.approx(0.6)
    assert found.slot_a_se == pytest.approx(sqrt(1.04) / 5)


def test_two_orders_of_a_pair_count_as_one_observation() -> None:
    """Always naming one slot per pair gives sqrt(2) times the error of independent verdicts."""
    found = bias((A, A), (B, B), (A, A), (B, B))
    independent = sqrt(0.5 * 0.5 / 8)
    assert found.slot_a_se == pytest.approx(sqrt(2) * independent)


def test_a_judge_that_always_names_slot_a_flips_every_pair() -> None:
    """A pure slot bias shows as a flip rate and a slot A rate of one."""
    found = bias((A, A), (A, A))
    assert (found.flip_rate, found.slot_a_rate, found.slot_a_se) == (1.0, 1.0, 0.0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([(A, B), (B, A), (TIE, TIE)]), min_size=1, max_size=12))
def test_a_consistent_judge_shows_no_order_effect(said: list[tuple[Slot, Slot]]) -> None:
    """Orders that agree give no flips and, where decisive, a slot A rate of exactly a half."""
    found = bias(*said)
    assert found.flip_rate == 0
    assert found.slot_a_rate in (None, 0.5)


def test_ties_alone_have_no_slot_rate() -> None:
    """Without a decisive verdict there is no slot A rate and no error, rather than zero."""
    found = bias((TIE, TIE), (TIE, TIE))
    assert (found.n_pairs, found.flip_rate) == (2, 0.0)
    assert (found.n_decisive, found.slot_a_rate, found.slot_a_se) == (0, None, None)


def test_incomplete_pairs_do_not_count_as_agreeing() -> None:
    """A pair with a missing answer is left out of the flip rate, above and below the line."""
    found = bias((A, A), (A, B), (A, Status.REFUSED), (Status.MISSING, Status.MISSING))
    assert (found.n_pairs, found.flip_rate) == (2, 0.5)


def test_no_complete_pair_has_no_flip_rate() -> None:
    """Where no pair has both answers the flip rate does not exist."""
    found = bias((Status.ERRORED, Status.ERRORED))
    assert (found.n_pairs, found.flip_rate, found.slot_a_rate) == (0, None, None)


def test_one_pair_has_no_standard_error() -> None:
    """A single pair cannot tell how much pairs differ."""
    assert bias((A, A)).slot_a_se is None


def test_dimensions_are_kept_apart() -> None:
    """Each dimension has its own rates, in the order of first appearance."""
    found = position_bias(judged((A, A)) + judged((A, B), dimension="facts"))
    assert list(found) == ["tone", "facts"]
    assert (found["tone"].flip_rate, found["facts"].flip_rate) == (1.0, 0.0)


def test_the_plain_form_holds_counts_and_rates() -> None:
    """The JSON form carries the same numbers, with None where a rate does not exist."""
    assert bias((TIE, TIE)).as_dict() == {
        "n_pairs": 1,
        "flips": 0,
        "flip_rate": 0.0,
        "n_decisive_verdicts": 0,
        "slot_a_wins": 0,
        "slot_a_rate": None,
        "slot_a_se": None,
    }


def test_a_consistent_judge_is_ready() -> None:
    """A judge whose answers are all read and agree passes all three conditions."""
    found = readiness(judged(*[(A, B), (B, A), (TIE, TIE)] * 10))
    assert [check.passed for check in found] == [True, True, True, True]
    assert {check.dimension for check in found} == {"tone"}


def test_a_judge_that_leans_to_one_slot_is_not_ready() -> None:
    """Always naming slot A fails on orders and on the slot, but not on reading."""
    found = checks(judged((A, A), (A, A)))
    assert found["verdicts that could be read"].passed
    assert not found["orders that disagree"].passed
    lean = found["slot A rate away from 50%"]
    assert (lean.passed, lean.found, lean.allowed) == (False, "50.0%", "at most 10%")


def test_a_lean_to_slot_b_counts_as_much_as_one_to_slot_a() -> None:
    """The lean is measured away from a half in either direction."""
    lean = checks(judged((B, B), (B, B)))["slot A rate away from 50%"]
    assert (lean.passed, lean.found) == (False, "50.0%")


def test_unread_answers_are_measured_against_all_verdicts() -> None:
    """One unreadable verdict of eight is 87.5 % read: too few at 98 %, enough at 80 %."""
    judgments = judged((A, B), (B, A), (A, B), (B, Status.UNPARSABLE))
    strict = checks(judgments)["verdicts that could be read"]
    assert (strict.found, strict.allowed, strict.passed) == ("87.5%", "at least 98%", False)
    assert checks(judgments, min_ok=0.8)["verdicts that could be read"].passed


@pytest.mark.parametrize(("limit", "passed"), [(0.4, False), (0.5, True)])
def test_the_flip_limit_is_inclusive(limit: float, passed: bool) -> None:
    """A flip rate of a half passes a limit of a half and fails a lower one."""
    found = checks(judged((A, A), (A, B)), max_flip_rate=limit)["orders that disagree"]
    assert (found.found, found.passed) == ("50.0%", passed)


def test_each_dimension_is_checked_on_its_own_verdicts() -> None:
    """Unread answers on one dimension do not count against another."""
    judgments = judged((A, B)) + judged((A, Status.UNPARSABLE), dimension="facts")
    read = [check for check in readiness(judgments) if check.what == "verdicts that could be read"]
    assert [(check.dimension, check.found) for check in read] == [
        ("tone", "100.0%"),
        ("facts", "50.0%"),
    ]


def test_what_cannot_be_measured_does_not_pass() -> None:
    """A judge that never answered is ready in no respect."""
    found = readiness(judged((Status.REFUSED, Status.MISSING)))
    assert [check.passed for check in found] == [False, False, False, False]
    assert [check.found for check in found] == ["0", "0.0%", "–", "–"]


def test_few_pairs_are_not_enough() -> None:
    """A judge that behaved on 29 pairs has not shown enough; on 30 it has."""
    assert not checks(judged(*[(A, B)] * 29))["pairs with both orders"].passed
    assert checks(judged(*[(A, B)] * 30))["pairs with both orders"].passed
