"""The gate: a judge is as good as its worst finding."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from arena_kit import BattleLog, DataError, JudgeQuality
from arena_kit.battles.log import Labels
from arena_kit.judging.quality.estimates import Measure
from arena_kit.judging.quality.gate import Level, Rule, gate
from arena_kit.runs.settings.files import read_gate
from tests.samples import ROOT

MOST = Rule(text="flips", trusted=0.3, usable=0.5, least=False, min_n=30)
LEAST = Rule(text="right", trusted=0.8, usable=0.6, least=True, min_n=30)
RULES = {"flips": MOST, "right": LEAST}


def measured(rule: str, value: float | None, n: int = 50, **more: object) -> Measure:
    return Measure(measure=rule, rule=rule, value=value, n=n, **more)  # type: ignore[arg-type]


def test_a_number_within_trust_and_an_interval_within_use_are_trusted() -> None:
    """Limits are inclusive; a least and a most are mirror images."""
    for rule, value, n, low, high, wanted in (
        ("flips", 0.30, 100, 0.2, 0.4, Level.TRUSTED),
        ("flips", 0.31, 100, 0.2, 0.4, Level.CAUTION),
        ("flips", 0.30, 100, 0.0, 0.6, Level.CAUTION),
        ("flips", 0.51, 9999, 0.49, 0.53, Level.CAUTION),
        ("flips", 0.60, 100, 0.51, 0.7, Level.FAILED),
        ("right", 0.80, 100, 0.7, 0.9, Level.TRUSTED),
        ("right", 0.79, 100, 0.7, 0.9, Level.CAUTION),
        ("right", 0.80, 100, 0.5, 0.9, Level.CAUTION),
        ("right", 0.59, 9999, 0.57, 0.61, Level.CAUTION),
        ("right", 0.50, 100, 0.4, 0.59, Level.FAILED),
        ("right", None, 100, None, None, Level.CAUTION),
        # Fewer than 30 earn no trust, and lose use only where the interval is all beyond it.
        ("flips", 0.0, 29, None, None, Level.CAUTION),
        ("flips", 0.6, 29, None, None, Level.CAUTION),
        ("flips", 0.6, 29, 0.4, 0.8, Level.CAUTION),
        ("flips", 0.9, 29, 0.7, 1.0, Level.FAILED),
        ("right", 0.1, 29, 0.0, 0.3, Level.FAILED),
    ):
        assert gate("j", [measured(rule, value, n, low=low, high=high)], RULES).level is wanted


def test_the_sentence_names_the_worst_of_each_rule_and_where_else() -> None:
    """Reasons are of the own level; a full measurement counts unless a few verdicts fail it."""
    measures = [
        measured("flips", 0.6, dimension="tone", low=0.55, high=0.65),
        measured("flips", 0.9, dimension="facts", low=0.8, high=1.0),
        measured("right", 0.7), Measure(measure="beside", value=0.0, n=50),
    ]  # fmt: skip
    found = gate("j", measures, RULES, note="It was allowed.")
    assert found.sentence == (
        "The judge j is not usable: flips on facts: 45 of 50 (usable: at most 50%) "
        "(also on tone). It was allowed."
    )
    trusted = gate("j", [measured("right", 0.9)], RULES)
    assert trusted.sentence == "The judge j is trusted: it meets all 1 checks; not measured: flips."
    nothing = gate("j", [], RULES)
    assert nothing.sentence == "The judge j is usable with caution: nothing was measured."
    full = [measured("flips", 0.1, 900, low=0.05, high=0.15), measured("right", None, 0)]
    few = [measured("flips", 0.4, low=0.2, high=0.6), measured("right", 0.9, low=0.8, high=1.0)]
    assert gate("j", few, RULES).level is Level.CAUTION
    found = gate("j", few, RULES, full=full)
    assert (found.level, [f.measure.n for f in found.findings]) == (Level.TRUSTED, [900, 50])
    unfit = [measured("flips", 0.9, low=0.8, high=1.0)]
    assert gate("j", unfit, RULES, full=full).level is Level.FAILED
    assert gate("j", few, RULES, full=unfit).level is Level.FAILED


@pytest.mark.parametrize(("rule", "seen"), [("slot", 0.3), ("length", 0.3), ("family", -0.3)])
def test_shares_that_should_be_one_half_are_seen_as_their_distance(rule: str, seen: float) -> None:
    """Either way for slot and length; less than half is no preference for the own family."""
    found = gate("j", [measured(rule, 0.2)], {rule: MOST}).findings[0].measure
    assert found.value == pytest.approx(seen)


def test_a_wrong_rule_is_one_sentence(tmp_path: Path) -> None:
    """It names the file, the rule, what is allowed and what came; without a file ours hold."""
    for text, sentence in (
        ("flips: {text: x, least: false, trusted: 0.6, usable: 0.5}", "no less strict than usable"),
        ("flips: {text: x, least: false, trusted: 0.1, usable: 2}", "from 0 to 1, not 0.1 and 2"),
        ("flips: {text: x, least: false, trusted: 0.1, usable: 0.5, most: 3}", "unknown key"),
        ("slant: {text: x, least: true, trusted: 1, usable: 1}", "unknown key 'slant'"),
        ("flips: {text: x, least: maybe, trusted: 0.1, usable: 0.5}", "flips.least"),
    ):
        assert read_gate(tmp_path) == read_gate(ROOT)
        head, _, rest = (ROOT / "params" / "judge_gate.yaml").read_text().partition("flips:")
        flips, _, rest = rest.partition("\nslot:")
        own = text if text.startswith("flips") else f"{text}\nflips:{flips}"
        (tmp_path / "gate.yaml").write_text(f"{head}{own}\nslot:{rest}")
        with pytest.raises(DataError, match=r"gate\.yaml") as caught:
            read_gate(tmp_path, Path("gate.yaml"))
        assert sentence in str(caught.value)
        assert "\n" not in str(caught.value)


def test_levels_follow_how_often_a_published_judge_is_right(data: Path) -> None:
    """LLMBar's 65 judges: flips and slot alone do not show who is right, so labels are needed."""
    rows = pd.read_csv(data / "llmbar" / "judge_verdicts.csv.gz", dtype=str, na_filter=False)
    rows["question"] = rows.subset + "/" + rows.idx
    levels, by_order, kept, rules = defaultdict(list), [], [], read_gate(ROOT)
    for (judge, _), own in rows.groupby(["judge", "prompting"]):
        orders = (("winner_original_order", "12"), ("winner_swapped_order", "21"))
        shown = pd.concat([named(own, *order) for order in orders])
        quality = JudgeQuality.from_battles(judge, log_of(shown), labels=log_of(named(own)))
        found = quality.gate(rules)
        levels[found.level].append(judge)
        failed = {f.measure.rule for f in found.findings if f.level is Level.FAILED}
        right = quality.find("agreement").value or 0.0
        (by_order if failed & {"flips", "slot"} else kept).append(right)
    assert [len(levels[level]) for level in Level] == [9, 11, 45]
    assert ({*levels[Level.TRUSTED]}, {*levels[Level.CAUTION]}) == ({"GPT-4"}, {"GPT-4", "PaLM2"})
    assert (len(by_order), max(by_order) < 0.56) == (14, True)
    assert (len(kept), sum(right < 0.65 for right in kept)) == (51, 32)


def named(rows: pd.DataFrame, column: str = "gold", order: str = "12") -> pd.DataFrame:
    """Votes for the response that a column names, of two shown in this order."""
    own = rows[rows[column] != ""]
    lost = own[column] != order[0]
    return pd.DataFrame({"a": order == "21", "lost": lost, "question": own.question})


def log_of(votes: pd.DataFrame) -> BattleLog:
    a = votes.a.to_numpy(np.int32)
    questions = Labels.of(votes.question)
    lost = votes.lost.to_numpy(np.int8)
    return BattleLog(models=("1", "2"), a=a, b=1 - a, outcome=lost, question_id=questions)
