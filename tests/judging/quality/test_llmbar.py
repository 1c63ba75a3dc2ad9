"""The gate on judges whose verdicts in both orders and right answers were published."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from pathlib import Path

import pytest

from arena_kit import Battle, BattleLog, JudgeQuality, Outcome, read_gate
from arena_kit.judging.quality.gate import Gate, Level
from tests.samples import ROOT

A_WINS, B_WINS = Outcome.MODEL_A, Outcome.MODEL_B


@pytest.fixture(scope="module")
def gates(data: Path) -> dict[tuple[str, str], tuple[float, Gate]]:
    """Per judge and prompting strategy of LLMBar: how often it is right, and its gate."""
    rows = defaultdict(list)
    with gzip.open(data / "llmbar" / "judge_verdicts.csv.gz", "rt", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            rows[row["judge"], row["prompting"]].append(row)
    found, rules = {}, read_gate(ROOT)
    for name, own in rows.items():
        judged, gold = shown(own), right(own)
        quality = JudgeQuality.from_battles(name[0], judged, labels=gold)
        people = quality.dimensions[0].people
        assert people is not None
        rate = people.decided.rate.value
        assert rate is not None
        found[name] = (rate, quality.gate(rules))
    return found


def shown(rows: list[dict[str, str]]) -> BattleLog:
    """Each pair in both orders, the response in the first slot first."""
    orders = (("winner_original_order", "one", "two"), ("winner_swapped_order", "two", "one"))
    named = {"1": "one", "2": "two"}
    return BattleLog.from_battles(
        Battle(
            model_a=first,
            model_b=second,
            winner=A_WINS if named[row[column]] == first else B_WINS,
            question_id=f"{row['subset']}/{row['idx']}",
        )
        for row in rows
        for column, first, second in orders
        if row[column]
    )


def right(rows: list[dict[str, str]]) -> BattleLog:
    return BattleLog.from_battles(
        Battle(
            model_a="one",
            model_b="two",
            winner=A_WINS if row["gold"] == "1" else B_WINS,
            question_id=f"{row['subset']}/{row['idx']}",
        )
        for row in rows
    )


def failed(gate: Gate) -> set[str]:
    return {f.measure.rule for f in gate.findings if f.level is Level.FAILED}


def test_levels_follow_how_often_a_judge_is_right(
    gates: dict[tuple[str, str], tuple[float, Gate]],
) -> None:
    """Of 65 settings 9 are trusted, all of GPT-4; 10 are usable with caution, of GPT-4 and PaLM 2;
    every one of ChatGPT, LLaMA 2 and Falcon is not usable.
    """
    levels = defaultdict(set)
    for (judge, prompting), (_, gate) in gates.items():
        levels[gate.level].add((judge, prompting))
    assert {level: len(names) for level, names in levels.items()} == {
        Level.TRUSTED: 9, Level.CAUTION: 10, Level.FAILED: 46,
    }  # fmt: skip
    assert {judge for judge, _ in levels[Level.TRUSTED]} == {"GPT-4"}
    assert {judge for judge, _ in levels[Level.CAUTION]} == {"GPT-4", "PaLM2"}


def test_rules_about_order_fail_no_judge_that_is_right_in_six_of_ten(
    gates: dict[tuple[str, str], tuple[float, Gate]],
) -> None:
    """All 19 settings that fail by flips or slot are right in less than 56 %; but of those that
    keep both rules, 27 of 46 are right in less than 65 %: without labels no judge is trusted.
    """
    by_order = {name for name, (_, gate) in gates.items() if failed(gate) & {"flips", "slot"}}
    assert len(by_order) == 19
    assert max(gates[name][0] for name in by_order) < 0.56
    kept = [rate for name, (rate, _) in gates.items() if name not in by_order]
    assert (len(kept), sum(rate < 0.65 for rate in kept)) == (46, 27)
