"""Order effects of a judge, by hand on a few verdicts and on published ones."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit import Battle, BattleLog, JudgeQuality, Outcome, read_battles
from arena_kit.judging.quality.calls import Calls
from arena_kit.judging.quality.position import PositionBias, position, position_bias
from arena_kit.judging.verdicts.records import Slot, Status
from tests.samples import settled

A, B, TIE = Slot.A, Slot.B, Slot.TIE
Said = Slot | Status


def bias(*said: tuple[Said, Said]) -> PositionBias:
    return position_bias(settled(*said))["tone"]


def test_rates_match_a_hand_calculation() -> None:
    """Two of three pairs flip, three of five decisive verdicts name slot A."""
    found = bias((A, A), (A, B), (TIE, B))
    assert (found.flips.n, found.slot_a.n) == (3, 5)
    assert found.flips.value == pytest.approx(2 / 3)
    assert found.slot_a.value == pytest.approx(0.6)


def test_the_interval_knows_that_verdicts_on_one_question_go_together() -> None:
    """Four pairs named twice A, twice B, by turns: on four questions the means are 1, 0, 1, 0, and
    the t interval of four such means is 0.5 ± 3.182 x 0.577 / 2; on two questions, A and B each, it
    is all that a share can be.
    """
    said = [(A, A), (B, B), (A, A), (B, B)]
    four = position_bias(settled(*said))["tone"].slot_a
    assert four.ci_high == pytest.approx(min(1.0, 0.5 + 3.182446 * 0.57735 / 2))
    two = position_bias(settled(*said, questions=2))["tone"].slot_a
    assert (two.value, two.ci_low, two.ci_high) == (0.5, 0.0, 1.0)


def test_a_judge_that_always_names_slot_a_flips_every_pair() -> None:
    """A pure slot bias shows as a flip rate and a slot A rate of one, and of 10 questions that all
    say so as few as 74 % may be typical (0.05 to the power of a tenth).
    """
    found = bias(*[(A, A)] * 10)
    for share in (found.flips, found.slot_a):
        assert (share.value, share.ci_high) == (1.0, 1.0)
        assert share.ci_low == pytest.approx(0.7411, abs=1e-4)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from([(A, B), (B, A), (TIE, TIE)]), min_size=1, max_size=12))
def test_a_consistent_judge_shows_no_order_effect(said: list[tuple[Slot, Slot]]) -> None:
    """Orders that agree give no flips and, where decisive, a slot A rate of exactly a half."""
    found = bias(*said)
    assert found.flips.value == 0
    assert found.slot_a.value in (None, 0.5)


def test_incomplete_pairs_do_not_count_as_agreeing() -> None:
    """A pair with a missing answer is left out of the flip rate, above and below the line."""
    found = bias((A, A), (A, B), (A, Status.REFUSED), (Status.MISSING, Status.MISSING))
    assert (found.flips.n, found.flips.value) == (2, 0.5)


def test_what_was_not_answered_has_no_rate() -> None:
    """Where no pair has both answers the flip rate does not exist, nor a slot rate of ties."""
    found = bias((Status.ERRORED, Status.ERRORED))
    assert (found.flips.n, found.flips.value, found.slot_a.value) == (0, None, None)
    assert bias((TIE, TIE)).slot_a.value is None


def test_dimensions_are_kept_apart() -> None:
    """Each dimension has its own rates, in the order of first appearance."""
    found = position_bias(settled((A, A)) + settled((A, B), dimension="facts"))
    assert list(found) == ["tone", "facts"]
    assert (found["tone"].flips.value, found["facts"].flips.value) == (1.0, 0.0)


def test_the_plain_form_holds_counts_and_rates() -> None:
    """The JSON form carries the same numbers, with None where a rate does not exist."""
    assert bias((TIE, TIE)).as_dict() == {
        "n_pairs": 1,
        "flip_rate": 0.0,
        "flip_low": None,
        "flip_high": None,
        "n_decisive_verdicts": 0,
        "slot_a_rate": None,
        "slot_a_low": None,
        "slot_a_high": None,
    }


def test_gpt4_of_qlora_prefers_the_first_slot_as_its_verdicts_say(data: Path) -> None:
    """38,544 verdicts of the OpenAssistant benchmark, every pair in both orders: 57.3 % of decisive
    ones for the first slot, 72.4 % of pairs alike in both orders (data card, recounted from the
    authors' files).
    """
    won = {"first": Outcome.MODEL_A, "second": Outcome.MODEL_B, "tie": Outcome.TIE}
    with gzip.open(data / "qlora_gpt4_judge" / "verdicts.csv.gz", "rt", encoding="utf-8") as lines:
        log = BattleLog.from_battles(
            Battle(
                model_a=row["first_model"],
                model_b=row["second_model"],
                winner=won[row["verdict"]],
                question_id=row["question_id"],
            )
            for row in csv.DictReader(lines)
            if row["bench"] == "oa" and row["verdict"] in won
        )
    found = position(Calls.from_battles(log))
    assert found.slot_a.value == pytest.approx(18875 / (18875 + 14043))
    assert found.flips.value is not None
    assert 1 - found.flips.value == pytest.approx(0.724, abs=5e-4)
    assert found.slot_a.ci_low is not None
    assert found.slot_a.ci_low > 0.55


def test_gpt4_of_mt_bench_flips_as_often_as_its_verdicts_say(data: Path) -> None:
    """380 of 2,400 settled pairs are inconsistent: 15.8 %."""
    log = read_battles(data / "mtbench_human_gpt4" / "gpt4_pair.csv.gz")
    quality = JudgeQuality.from_battles("gpt-4", log, both_orders=True)
    (found,) = quality.dimensions
    assert found.position.flips.n == 2400
    assert found.position.flips.value == pytest.approx(380 / 2400)
    assert found.position.slot_a.value is None
