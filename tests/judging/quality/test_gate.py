"""The gate: a judge is as good as its worst finding."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from pathlib import Path

import pytest

from arena_kit import Battle, BattleLog, DataError, JudgeQuality, Outcome
from arena_kit.judging.quality.estimates import Measure
from arena_kit.judging.quality.gate import Gate, Level, Rule, gate
from arena_kit.runs.settings.files import read_gate
from tests.samples import ROOT

MOST = Rule(text="flips", trusted=0.3, usable=0.5, least=False, min_n=30)
LEAST = Rule(text="right", trusted=0.8, usable=0.6, least=True, min_n=30)
RULES = {"flips": MOST, "right": LEAST}


def level(rule: str, value: float | None, n: int = 100, *ends: float) -> Level:
    low, high = ends or (None, None)
    return gate("j", [measured(rule, value, n, low=low, high=high)], RULES).level


def measured(rule: str, value: float | None, n: int = 50, **more: object) -> Measure:
    return Measure(measure=rule, rule=rule, value=value, n=n, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "value", "ends", "wanted"),
    [
        ("flips", 0.30, (0.2, 0.4), Level.TRUSTED),
        ("flips", 0.31, (0.2, 0.4), Level.CAUTION),
        ("flips", 0.30, (0.0, 0.6), Level.CAUTION),
        ("flips", 0.51, (0.4, 0.6), Level.FAILED),
        ("right", 0.80, (0.7, 0.9), Level.TRUSTED),
        ("right", 0.79, (0.7, 0.9), Level.CAUTION),
        ("right", 0.80, (0.5, 0.9), Level.CAUTION),
        ("right", 0.59, (0.5, 0.7), Level.FAILED),
    ],
)
def test_a_number_within_trust_and_an_interval_within_use_are_trusted(
    rule: str, value: float, ends: tuple[float, float], wanted: Level
) -> None:
    """Limits are inclusive; a least and a most are mirror images."""
    assert level(rule, value, 100, *ends) is wanted


def test_few_verdicts_neither_earn_trust_nor_lose_use() -> None:
    """Fewer than 30 are caution, unless the whole interval is beyond use."""
    assert level("flips", 0.0, 29) is Level.CAUTION
    assert level("flips", 0.6, 29) is Level.CAUTION
    assert level("flips", 0.6, 29, 0.4, 0.8) is Level.CAUTION
    assert level("flips", 0.9, 29, 0.7, 1.0) is Level.FAILED
    assert level("right", 0.1, 29, 0.0, 0.3) is Level.FAILED


def test_what_was_not_measured_is_no_trust() -> None:
    assert level("right", None) is Level.CAUTION
    nothing = gate("j", [], RULES)
    assert (nothing.level, nothing.findings) == (Level.CAUTION, ())
    assert nothing.sentence == "The judge j is usable with caution: nothing was measured."


def test_the_sentence_names_the_worst_of_each_rule_and_where_else() -> None:
    """Only findings of the judge's own level are reasons; a measure without a rule is none."""
    measures = [
        measured("flips", 0.6, dimension="tone"),
        measured("flips", 0.9, dimension="facts"),
        measured("right", 0.7),
        Measure(measure="beside", value=0.0, n=50),
    ]
    found = gate("j", measures, RULES, note="It was allowed.")
    assert found.sentence == (
        "The judge j is not usable: flips on facts: 90.0% of 50, at most 50% is usable "
        "(also on tone). It was allowed."
    )
    trusted = gate("j", [measured("right", 0.9)], RULES)
    assert trusted.sentence == (
        "The judge j is trusted: all 1 checks are met; not measured: flips."
    )


@pytest.mark.parametrize(("rule", "seen"), [("slot", 0.3), ("length", 0.3), ("family", -0.3)])
def test_shares_that_should_be_one_half_are_seen_as_their_distance(rule: str, seen: float) -> None:
    """Either way for slot and length; less than half is no preference for the own family."""
    found = gate("j", [measured(rule, 0.2, low=0.1, high=0.4)], {rule: MOST}).findings[0].measure
    ends = (-0.4, -0.1) if seen < 0 else (0.1, 0.4)
    assert (found.value, found.low, found.high) == pytest.approx((seen, *ends))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("flips: {text: x, least: false, trusted: 0.6, usable: 0.5}", "no less than usable"),
        ("flips: {text: x, least: false, trusted: 0.1, usable: 2}", "from 0 to 1, not 0.1 and 2"),
        ("flips: {text: x, least: false, trusted: 0.1, usable: 0.5, most: 3}", "unknown key"),
        ("slant: {text: x, least: true, trusted: 1, usable: 1}", "unknown key 'slant'"),
        ("flips: {text: x, least: maybe, trusted: 0.1, usable: 0.5}", "flips.least"),
    ],
)
def test_a_wrong_rule_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    """It names the file, the rule, what is allowed and what came."""
    shipped = (ROOT / "params" / "judge_gate.yaml").read_text()
    file = tmp_path / "gate.yaml"
    file.write_text(f"{shipped}\n{text}\n")
    if text.startswith("flips"):
        head, _, rest = shipped.partition("flips:")
        file.write_text(head + text + "\nslot:" + rest.partition("\nslot:")[2])
    with pytest.raises(DataError, match=r"gate\.yaml") as caught:
        read_gate(tmp_path, Path("gate.yaml"))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_workspace_without_rules_of_its_own_has_those_that_are_shipped(tmp_path: Path) -> None:
    assert read_gate(tmp_path) == read_gate(ROOT)
    with pytest.raises(DataError, match=r"mine\.yaml"):
        read_gate(tmp_path, Path("mine.yaml"))


# Judges whose verdicts in both orders and right answers were published


@pytest.fixture(scope="module")
def gates(data: Path) -> dict[tuple[str, str], tuple[float, Gate]]:
    """Per judge and prompting strategy of LLMBar: how often it is right, and its gate."""
    rows = defaultdict(list)
    with gzip.open(data / "llmbar" / "judge_verdicts.csv.gz", "rt", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            rows[row["judge"], row["prompting"]].append(row)
    found, rules = {}, read_gate(ROOT)
    for name, own in rows.items():
        shown = BattleLog.joined(
            named(own, "winner_original_order"), named(own, "winner_swapped_order", swapped=True)
        )
        quality = JudgeQuality.from_battles(name[0], shown, labels=named(own, "gold"))
        found[name] = (quality.find("agreement").value or 0.0, quality.gate(rules))
    return found


def named(rows: list[dict[str, str]], column: str, *, swapped: bool = False) -> BattleLog:
    """The response that a column names, of those shown in this order."""
    first, second = ("2", "1") if swapped else ("1", "2")
    return BattleLog.from_battles(
        Battle(
            model_a=first,
            model_b=second,
            winner=Outcome.MODEL_A if row[column] == first else Outcome.MODEL_B,
            question_id=f"{row['subset']}/{row['idx']}",
        )
        for row in rows
        if row[column]
    )


def test_levels_follow_how_often_a_judge_is_right(
    gates: dict[tuple[str, str], tuple[float, Gate]],
) -> None:
    """Of 65 settings 9 are trusted, all of GPT-4; 10 are usable with caution, of GPT-4 and PaLM 2;
    every one of ChatGPT, LLaMA 2 and Falcon is not usable.
    """
    levels = defaultdict(list)
    for (judge, _), (_, found) in gates.items():
        levels[found.level].append(judge)
    assert [len(levels[level]) for level in Level] == [9, 10, 46]
    assert {*levels[Level.TRUSTED]} == {"GPT-4"}
    assert {*levels[Level.CAUTION]} == {"GPT-4", "PaLM2"}


def test_rules_about_order_fail_no_judge_that_is_right_in_six_of_ten(
    gates: dict[tuple[str, str], tuple[float, Gate]],
) -> None:
    """All 19 settings that fail by flips or slot are right in less than 56 %; but of those that
    keep both rules, 27 of 46 are right in less than 65 %: without labels no judge is trusted.
    """
    by_order, kept = [], []
    for rate, found in gates.values():
        failed = {f.measure.rule for f in found.findings if f.level is Level.FAILED}
        (by_order if failed & {"flips", "slot"} else kept).append(rate)
    assert (len(by_order), max(by_order) < 0.56) == (19, True)
    assert (len(kept), sum(rate < 0.65 for rate in kept)) == (46, 27)
