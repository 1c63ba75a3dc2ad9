"""What verdicts show of a judge: by hand, on published verdicts, and where it was planted."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit import BattleLog, JudgeQuality, read_battles
from arena_kit.battles.log import Labels
from arena_kit.judging.quality import measures
from arena_kit.judging.quality.estimates import Estimate, find
from arena_kit.judging.quality.gate import Rule
from arena_kit.judging.quality.measures import Families, calls_of, position_bias
from arena_kit.judging.verdicts.records import Judgment, Slot, Status
from tests.samples import log_of, settled, votes_on

A, B, TIE = Slot.A, Slot.B, Slot.TIE
ASH, BEECH, FLIP = (A, B), (B, A), (A, A)
Said = Slot | Status
SKILL = np.array([1.2, 0.6, 0.2, -0.2, -0.6, -1.2])
OURS = Families(of={"m0": "ours", "m3": "ours", "m1": "x"}, own="ours")


def bias(*said: tuple[Said, Said], questions: int = 0) -> measures.PositionBias:
    return position_bias(settled(*said, questions=questions))["tone"]


def test_rates_match_a_hand_calculation() -> None:
    """Rates are those by hand; of ten questions that name slot A the interval ends at 74 %."""
    for said, flips, slot_a in (
        ([(A, A), (A, B), (TIE, B)], (2 / 3, 3), (0.6, 5)),
        ([(A, A), (A, B), (A, Status.REFUSED), (Status.MISSING, Status.MISSING)], (0.5, 2),
         (0.8, 5)),  # a pair with a missing answer is left out, above and below the line
        ([(Status.ERRORED, Status.ERRORED)], (None, 0), (None, 0)),
        ([(TIE, TIE)], (0.0, 1), (None, 0)),
    ):  # fmt: skip
        found = bias(*said)
        assert (found.flips.value, found.flips.n) == pytest.approx(flips)
        assert (found.slot_a.value, found.slot_a.n) == pytest.approx(slot_a)
    found = bias(*[FLIP] * 10)
    for share in (found.flips, found.slot_a):
        assert (share.value, share.high) == (1.0, 1.0)
        assert share.low == pytest.approx(0.7411, abs=1e-4)
    two = bias((A, A), (B, B), (A, A), (B, B), questions=2).slot_a
    assert (two.value, two.low, two.high) == (0.5, 0.0, 1.0)
    apart = position_bias(settled(FLIP) + settled((TIE, TIE), dimension="facts"))
    assert [apart[name].as_dict()["flip_rate"] for name in ("tone", "facts")] == [1.0, 0.0]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from([(A, B), (B, A), (TIE, TIE)]), min_size=1, max_size=12))
def test_a_consistent_judge_shows_no_order_effect(said: list[tuple[Slot, Slot]]) -> None:
    """Orders that agree give no flips and, where decisive, a slot A rate of exactly a half."""
    found = bias(*said)
    assert found.flips.value == 0
    assert found.slot_a.value in (None, 0.5)


def test_gpt4_flips_and_prefers_the_first_slot_as_its_published_verdicts_say(data: Path) -> None:
    """QLoRA: 57.3 % for the first slot, 72.4 % alike (data card); MT-bench: 380 of 2,400 flip."""
    rows = pd.read_csv(data / "qlora_gpt4_judge" / "verdicts.csv.gz", dtype=str)
    rows["winner"] = rows.verdict.map({"first": "a", "second": "b", "tie": "-"})
    kept = rows[rows.bench == "oa"].dropna(subset="winner")
    columns = kept[["first_model", "second_model", "winner", "question_id"]]
    log = votes_on(*columns.itertuples(index=False, name=None))
    found = measures.position(log)
    assert found.slot_a.value == pytest.approx(18875 / (18875 + 14043))
    assert found.flips.complement().value == pytest.approx(0.724, abs=5e-4)
    assert (found.slot_a.low or 0) > 0.55
    log = read_battles(data / "mtbench_human_gpt4" / "gpt4_pair.csv.gz")
    quality = JudgeQuality.from_battles("gpt-4", log, both_orders=True)
    assert quality.find("flips").counted == "380 of 2400"
    assert quality.find("slot_a").value is None


def expit(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


def battles(n: int, seed: int, *, per_doubling: float = 0.0, family: float = 0.0) -> BattleLog:
    """Verdicts by skill, length and family, four on each question, which has a taste of its own."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 6, n)
    b = (a + rng.integers(1, 6, n)) % 6
    question = np.arange(n) // 4
    words = np.exp(5 + 0.2 * SKILL[None, :] + rng.normal(0, 0.5, (n // 4 + 1, 6)))
    taste = rng.normal(0, 0.3, (n // 4 + 1, 6))
    own = np.isin(np.arange(6), (0, 3)).astype(float)
    value = SKILL[None, :] + taste + per_doubling * np.log2(words) + family * own[None, :]
    first, second = value[question, a], value[question, b]
    won = rng.random(n) < 1 / (1 + np.exp(second - first - 0.3))  # the first slot has a bonus
    one, two = words[question, a], words[question, b]
    return BattleLog(
        models=tuple(f"m{i}" for i in range(6)), a=a.astype(np.int32), b=b.astype(np.int32),
        outcome=np.where(won, 0, 1).astype(np.int8),
        question_id=Labels.of([f"q{i:05}" for i in question]),
        covariates={"length": (one - two) / (one + two)},
    )  # fmt: skip


def length(log: BattleLog) -> tuple[Estimate, Estimate]:
    found = measures.length_preference(log)
    return find(found, "longer_named"), find(found, "twice_as_long")


def covers(found: Estimate, truth: float) -> bool:
    return (found.low or 1) <= truth <= (found.high or 0)


@pytest.mark.parametrize("planted", [0.0, 0.8])
def test_a_planted_preference_for_length_is_recovered_at_equal_quality(planted: float) -> None:
    """0.8 logits per doubling are 69 % between equals; of 25 simulated runs 21 or more hold it."""
    raw, doubled = length(battles(12_000, seed=3, per_doubling=planted))
    assert doubled.value == pytest.approx(expit(planted), abs=0.02)
    assert (raw.value or 0) > (0.65 if planted else 0.51)
    found = [length(battles(800, seed, per_doubling=planted))[1] for seed in range(25)]
    assert sum(covers(each, expit(planted)) for each in found) >= 21


def test_a_judge_of_length_alone_has_a_finite_share_near_one() -> None:
    """Perfect separation leaves no maximum of the likelihood; unknown lengths say nothing."""
    log = battles(400, seed=1)
    longer = np.where(log.covariates["length"] > 0, 0, 1).astype(np.int8)
    raw, doubled = length(replace(log, outcome=longer))
    assert raw.value == 1.0
    assert 0.99 < (doubled.value or 0) <= 1.0
    assert measures.length_preference(log_of([("x", "y", "model_a")])) == []


@pytest.mark.parametrize("planted", [0.0, 0.9])
def test_a_planted_preference_for_the_own_family_is_recovered(planted: float) -> None:
    """0.9 logits for m0 and m3 are 71 % against equals; of 20 simulated runs 17 or more hold it."""
    found = []
    for seed in range(0, 40, 2):
        judged = battles(800, seed, family=planted)
        calls = battles(800, seed + 1)
        found += measures.family_preference(judged, OURS, calls)
    assert len(found) == 20
    assert sum(covers(each, expit(planted)) for each in found) >= 17
    assert np.mean([each.value for each in found]) == pytest.approx(expit(planted), abs=0.03)
    assert measures.family_preference(calls, Families(own="ours"), calls) == []


def test_repeats_are_every_two_answers_to_one_request() -> None:
    """By hand: four of six repeats are equal; one of four pairs is answered otherwise."""
    (found,) = measures.stability(calls_of(settled((A, B), (A, B), (B, B), questions=1)))
    assert (found.counted, measures.stability(calls_of(settled((A, B), (A, B))))) == ("4 of 6", [])
    calls = calls_of(both([ASH, ASH, BEECH, BEECH, FLIP], [ASH, BEECH, BEECH, BEECH, ASH]))
    found, correlation = measures.rubric_use(calls)
    assert (found.dimension, found.stratum, found.counted) == ("tone", "facts", "1 of 4")
    x, y = [2, 2, -2, -2, 0], [2, -2, -2, -2, 2]
    assert (correlation.value, correlation.n) == pytest.approx((np.corrcoef(x, y)[0, 1], 5))
    assert measures.rubric_use(calls_of(settled(ASH, BEECH))) == []


def both(tone: list[tuple[Slot, Slot]], facts: list[tuple[Slot, Slot]]) -> list[Judgment]:
    return settled(*tone) + settled(*facts, dimension="facts")


def test_each_status_is_a_share_of_all_verdicts_and_ties_of_those_that_can_be_read() -> None:
    """Half of eight are read, a quarter of these ties; where none is, nothing else is measured."""
    unparsable, truncated = (Status.UNPARSABLE, Status.UNPARSABLE), (A, Status.TRUNCATED)
    found = measures.statuses(settled((A, Status.REFUSED), (TIE, B), unparsable, truncated))
    assert (find(found, "readable").counted, find(found, "ties").counted) == ("4 of 8", "1 of 4")
    assert found[0].about == "readable verdicts (1 refused, 1 truncated, 2 unparsable)"
    shares = {row.stratum: row.value for row in found if row.measure == "status" and row.value}
    assert shares == {"ok": 0.5, "refused": 0.125, "truncated": 0.125, "unparsable": 0.25}
    quality = JudgeQuality.of("j", settled((Status.REFUSED, Status.MISSING)))
    rules = {row.rule: row.value for row in quality.measures if row.rule}
    assert rules == {"readable": 0.0, "flips": None, "slot": None, "people": None}


def test_a_judge_may_be_usable_on_one_stratum_alone() -> None:
    """A judge fails on the stratum where it names the first slot; few prompts are shrunk."""
    said = [ASH, BEECH] * 40 + [FLIP] * 80 + [ASH] * 3
    strata = {f"q{n}": "fair" if n < 80 else "biased" if n < 160 else "few" for n in range(163)}
    quality = JudgeQuality.of("x", settled(*said, questions=163), strata=strata)
    rule = Rule(text="order", trusted=0.1, usable=0.3, least=False)
    levels = quality.by_stratum(dict.fromkeys(("flips", "slot", "people", "length"), rule))
    assert [levels["tone", name].level for name in ("biased", "fair")] == ["not usable", "trusted"]
    flips = {row.stratum: row for row in quality.strata if row.measure == "flips"}
    assert flips["fair"].value < 0.1
    assert flips["biased"].value > 0.9
    assert flips["few"].value > 0
    assert flips["few"].high < 0.7
