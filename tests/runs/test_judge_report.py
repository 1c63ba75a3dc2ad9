"""Judge reports: on the sample, on records, on a file of verdicts, against a paid judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from arena_kit import DataError, JudgeStudy
from arena_kit.cli.show import show_board
from arena_kit.judging.judges.replay import ReplayJudge
from arena_kit.judging.quality.gate import Level
from arena_kit.judging.quality.judge import agree, cheapest
from arena_kit.reporting import judge_report
from arena_kit.reporting.answer import QUESTIONS
from tests.emulator import Emulator
from tests.samples import edited, parameters, record_of

BASELINE = "baseline/lexical-v1"
MODEL = "claude-sonnet-5-5"
FEW: dict[str, Any] = {"strata": {"open_recall": 3, "vignette": 3}, "n_perms": 20}
JUDGES = ["gpt-4-0125-preview", "claude-3-opus-20240229", "gpt-3.5-turbo"]


#: A tournament of two dimensions that asks as fast as it can.
FAST: dict[str, Any] = {
    "judge__anthropic__per_minute": 100_000,
    "judge__anthropic__concurrency": 16,
    "dimensions__clinical_utility": None,
}


@pytest.fixture
def few(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-planted-0123456789abcdefghij")
    edited(workspace, **FAST)
    return workspace


def paid(emulator: Emulator) -> dict[str, Any]:
    return FEW | {
        "judge": "anthropic", "judge_model": MODEL, "base_url": emulator.base_url,
        "transport": "messages", "max_cost_usd": 50.0,
    }  # fmt: skip


def test_real_judges_of_one_file_side_by_side(
    workspace: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Chatzi et al.'s three judges: agreement and slot A as their data card says, GPT-3.5 fails;
    the embedded judge has a row that says why it was not asked, and the terminal says the same.
    """
    file = str(data / "chatbot_arena_27k" / "battles.csv.gz")
    report = JudgeStudy.open(
        verdicts=file, columns=JUDGES, overrides={"judge.labels_winner": "human"}
    )
    gpt4, claude, gpt35, embedded = report.judges
    levels = [each.gate.level for each in (gpt4, claude, gpt35)]
    assert levels == [Level.TRUSTED, Level.CAUTION, Level.FAILED]
    assert (embedded.judge, embedded.battles) == (BASELINE, None)
    assert embedded.source == f"not asked: {file} has verdicts but no texts"
    for measure, shares in (("agreement", [83.3, 72.3, 57.0]), ("slot_a", [55.1, 39.5, 86.3])):
        found = [each.quality.find(measure).value or 0.0 for each in (gpt4, claude, gpt35)]
        assert [round(100 * value, 1) for value in found] == shares
    folder = report.save().path
    said = json.loads((folder / "answer.json").read_text())["said"]
    assert said == json.loads((folder / "judges.json").read_text())["answer"]
    assert "not measured: readable, flips" in said[0]
    assert said[2].startswith("The judge gpt-3.5-turbo is not usable: slot A rate")
    assert said[3].startswith(f"The judge {BASELINE} was not asked")
    assert said[4] == "No price is known of a judge that passes."
    show_board(folder)
    lines = capsys.readouterr().out.replace("\n", " ")
    assert all(sentence in lines for sentence in said)


def test_the_embedded_judge_is_asked_all_canaries(few: Path) -> None:
    """It costs nothing, it is the only row, and its gate counts the canaries."""
    report = JudgeStudy.open(**parameters("judge_report", **FEW))
    (only,) = report.judges
    assert (only.judge, only.usd) == (BASELINE, 0.0)
    assert only.canaries is not None
    assert {"canary", "attack"} <= {f.measure.rule for f in only.gate.findings}
    record = report.save()
    assert record.read()["status"] == "finished"
    gate = json.loads((record.path / "judge_gate.json").read_text())
    assert gate["sentence"] == only.gate.sentence
    answer = json.loads((record.path / "answer.json").read_text())
    assert answer["said"][0] == only.gate.sentence
    assert answer["question"] == QUESTIONS["judge_report"]
    assert answer["facts"]["labels"] == "none"


def test_records_are_compared_on_the_pairs_they_share(few: Path, emulator: Emulator) -> None:
    """A paid judge and the embedded one, recorded apart, on the pairs of the smaller run; the
    price is what the emulator billed.
    """
    claude = record_of("pilot", **paid(emulator))
    verdicts = sum(1 for _ in (claude.path / "verdicts" / "factuality.jsonl").open())
    own = record_of("pilot", **FEW | {"strata": {"open_recall": 3}})
    report = JudgeStudy.open(records=[str(claude.path), str(own.path)])
    first, second = report.judges
    assert (first.judge, second.judge) == (MODEL, BASELINE)
    assert first.n_verdicts == second.n_verdicts == 2 * 2 * 3 * 6 < 2 * verdicts
    rows = ReplayJudge.from_record(claude.path).judgments()
    assert sum(v.cost_usd for j in rows for v in j.verdicts) == pytest.approx(
        emulator.billing.total_usd - claude.read()["preflight"]["usd"]
    )
    assert second.usd == 0
    assert agree(report.judges) is not None
    assert [each.gate.level for each in (first, second)] == [Level.CAUTION, Level.CAUTION]
    assert cheapest(report.judges) is second  # alike by the gate, and free
    assert "Krippendorff's alpha" in str(judge_report.judges_table(report.judges))


def test_a_paid_judge_stands_beside_the_embedded_one(few: Path, emulator: Emulator) -> None:
    """The report asks the judge for all canaries and the pairs; what that costs was forecast."""
    report = JudgeStudy.open(**parameters("judge_report", **paid(emulator)))
    first, second = report.judges
    assert (first.judge, second.judge) == (MODEL, BASELINE)
    assert first.seconds is not None
    assert first.canaries is not None
    manifest = report.save().read()
    cost = manifest["cost"]
    asked = 2 * 2 * 6 * 6 + first.canaries.requests
    assert asked <= cost["forecast"]["requests"] <= asked + manifest["preflight"]["requests"]
    assert report.judgments is not None
    assert report.judgments.spending is not None
    assert report.judgments.spending.usd == pytest.approx(emulator.billing.total_usd)


def test_records_without_a_pair_in_common_are_refused(few: Path) -> None:
    one = record_of("pilot", **FEW | {"strata": {"open_recall": 2}})
    two = record_of("pilot", **FEW | {"strata": {"vignette": 2}})
    report = JudgeStudy.open(records=[str(one.path), str(two.path)])
    with pytest.raises(DataError, match="no pair was judged in all of pilot_"):
        _ = report.judges


def test_a_record_of_hashes_says_what_it_leaves_out(few: Path) -> None:
    """Its judge is measured; the embedded one has a row without battles that says why, and the
    answer says what could not be measured without the texts.
    """
    kept = record_of("pilot", **FEW | {"inputs": "hashes"})
    file = kept.path / "verdicts" / "factuality.jsonl"
    for path in (file, file.with_name("calibration.jsonl")):
        path.write_text(path.read_text().replace(BASELINE, "other/judge"))
    report = JudgeStudy.open(records=[str(kept.path)])
    other, embedded = report.judges
    assert (other.judge, other.n_verdicts) == ("other/judge", 2 * 2 * 6 * 6)
    why = f"{kept.path}: keeps only hashes of its inputs (parameter inputs: hashes)"
    assert (embedded.judge, embedded.battles) == (BASELINE, None)
    assert embedded.source == f"not asked: {why}"
    assert report.answer().caveats == [f"Length, strata and rubric use are left out: {why}."]


def test_a_record_without_verdicts_is_refused(few: Path) -> None:
    """One sentence, not an index error."""
    kept = record_of("pilot", **FEW)
    for path in (kept.path / "verdicts").iterdir():
        path.write_text("")
    with pytest.raises(DataError, match="holds no verdict, so there is no judge to measure"):
        _ = JudgeStudy.open(records=[str(kept.path)]).judges
