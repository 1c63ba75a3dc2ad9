"""The gate: a judge is as good as its worst finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from arena_kit import DataError
from arena_kit.judging.quality.gate import Level, Measure, Rule, gate
from arena_kit.runs.settings.files import read_gate
from tests.samples import ROOT

MOST = Rule(text="flips", trusted=0.3, usable=0.5, least=False, min_n=30)
LEAST = Rule(text="right", trusted=0.8, usable=0.6, least=True, min_n=30)
RULES = {"flips": MOST, "right": LEAST}


def level(rule: str, value: float | None, n: int = 100, *ends: float) -> Level:
    low, high = ends or (None, None)
    return gate("j", [Measure(rule=rule, value=value, n=n, low=low, high=high)], RULES).level


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
    """Only findings of the judge's own level are reasons; two rules are named, others counted."""
    measures = [
        Measure(rule="flips", dimension="tone", value=0.6, n=50),
        Measure(rule="flips", dimension="facts", value=0.9, n=50),
        Measure(rule="right", value=0.7, n=50),
    ]
    found = gate("j", measures, RULES, note="It was allowed.")
    assert found.sentence == (
        "The judge j is not usable: flips on facts: 90.0% of 50, at most 50% is usable "
        "(also on tone). It was allowed."
    )
    trusted = gate("j", [Measure(rule="right", value=0.9, n=50)], RULES)
    assert trusted.sentence == (
        "The judge j is trusted: all 1 checks are met; not measured: flips."
    )


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
