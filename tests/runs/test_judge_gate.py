"""The gate of whole runs: scripted judges fail for their reasons, and a failed one is not paid."""

from __future__ import annotations

import json
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from arena_kit import DataError, Judgments, judge_tables, publish_placement, tournament_tables
from arena_kit.cli.main import main
from arena_kit.cli.show import show_board
from arena_kit.judging.quality.gate import Level, UnfitJudgeError
from tests.emulator import Emulator
from tests.samples import (
    SMALL,
    edited,
    judgments_of,
    parameters,
    placed_model,
    published,
    record_of,
)

MODEL = "claude-sonnet-5-5"
#: Eight questions of six pairs: enough for every rule.
EIGHT = {"strata": {"open_recall": 4, "vignette": 4}, "n_perms": 20}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-planted-0123456789abcdefghij")


def paid(emulator: Emulator, **more: Any) -> dict[str, Any]:
    """Claude at the emulated service, answering at once."""
    return EIGHT | {
        "judge": "anthropic", "judge_model": MODEL, "base_url": emulator.base_url,
        "transport": "messages", "max_cost_usd": 50.0, "preflight": False, **more,
    }  # fmt: skip


#: A tournament of two dimensions that asks as fast as it can.
FAST: dict[str, Any] = {
    "judge__anthropic__per_minute": 100_000,
    "judge__anthropic__concurrency": 16,
    "dimensions__clinical_utility": None,
}


@pytest.fixture(autouse=True)
def _fast(workspace: Path) -> None:
    edited(workspace, **FAST)


def failed(study: Judgments) -> set[str]:
    assert study.gate.level is Level.FAILED, study.gate.sentence
    return {f.measure.rule for f in study.gate.findings if f.level is Level.FAILED}


@pytest.mark.parametrize(
    ("behaviour", "rules"),
    [
        ("first", {"flips", "slot"}),
        ("longer", {"length", "rubric"}),
        ("ignores_rubric", {"rubric"}),
        ("refuse_text", {"readable"}),
    ],
)
def test_a_scripted_judge_fails_for_its_reason(
    workspace: Path, behaviour: str, rules: set[str]
) -> None:
    """One that names the first slot by order and slot, one that counts words by length (and by
    rubric, which it does not read), one with a single taste by rubric alone, one that refuses
    because nothing can be read.
    """
    with Emulator(seed=1, behaviour=behaviour) as emulator:
        assert failed(judgments_of("pilot", **paid(emulator))) == rules


def test_a_judge_that_reads_is_not_failed_and_the_record_keeps_why(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The emulator's reader keeps every rule that fails others; it is not trusted, for nobody
    compared it with people. judge_gate.json, the manifest and the terminal say the same sentence.
    """
    with Emulator(seed=1) as emulator:
        study = judgments_of("pilot", **paid(emulator))
        assert study.gate.level is Level.CAUTION, study.gate.sentence
        record = published(study)
    assert any(f.measure.rule == "people" for f in study.gate.findings if not f.measure.n)
    kept = json.loads((record.path / "judge_gate.json").read_text())
    assert kept["sentence"] == study.gate.sentence
    assert kept["level"] == "usable with caution"
    assert {row["dimension"] for row in kept["measures"]} == {*study.plan.tournament.dimensions, ""}
    assert record.read()["judge_gate"] == {"level": kept["level"], "sentence": kept["sentence"]}
    show_board(record.path)
    assert study.gate.sentence in " ".join(capsys.readouterr().out.split())


def test_a_judge_that_prefers_its_family_fails_by_what_others_say(workspace: Path) -> None:
    """The scripted judge names whoever mentions Claude; held against another judge's verdicts as
    labels, that is a preference for its family.
    """
    other = record_of("pilot", **EIGHT)
    path = workspace / "sample" / "responses" / "responses_birch.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row["response_text"] = f"As Claude, I say: {row['response_text']}"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    edited(
        workspace,
        judge__labels=str((other.path / "battles.jsonl").relative_to(workspace)),
        judge__families={"birch": "claude", MODEL: "claude", "aspen": "tree"},
    )
    with Emulator(seed=1, behaviour="self_preferring") as emulator:
        study = judgments_of("pilot", **paid(emulator))
        assert "family" in failed(study)
    assert study.record.read()["labels"]["file"].endswith("battles.jsonl")
    strata = {row.stratum for row in study.quality.measures if row.measure == "agreement"}
    assert strata == {"", "open_recall", "vignette"}


@pytest.mark.parametrize("wrong", ["gate", "labels"])
def test_wrong_files_are_refused_before_anything_is_asked(
    workspace: Path, emulator: Emulator, wrong: str
) -> None:
    """Rules and labels are read first: nobody pays for a judge that then cannot be measured."""
    edited(workspace, **{f"judge__{wrong}": "params/nothing_here.yaml"})
    with pytest.raises(DataError, match="nothing_here"):
        judgments_of("pilot", **paid(emulator))
    assert not emulator.requests
    assert not (workspace / "runs").exists()


def test_a_judge_barred_from_its_family_is_not_asked_about_it(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No pair holds birch; the record counts what was left out, and birch has no rating."""
    families = {"birch": "ours", "baseline/lexical-v1": "ours", "aspen": "theirs"}
    edited(workspace, judge__families=families, judge__bar_own_family=True)
    study = judgments_of("pilot", **SMALL)
    record = published(study)
    assert not any("birch" in (p.entrant_a, p.entrant_b) for p in study.plan.pairing.pairs)
    manifest = record.read()
    assert manifest["dropped"]["own_family"] == {
        "factuality": 8 * 3, "calibration": 12 * 3,
    }  # fmt: skip
    assert "birch" in manifest["unrated"]["calibration"]
    told = "Not judged, as the judge's own family: 60 pairs."
    assert told in tournament_tables.pair_counts(study.plan.pairing, study.plan.prompts).notes
    show_board(record.path)
    assert told in " ".join(capsys.readouterr().out.split())


def test_a_family_that_is_to_be_barred_must_be_named(workspace: Path) -> None:
    edited(workspace, judge__families={"birch": "ours"}, judge__bar_own_family=True)
    with pytest.raises(DataError, match="needs the family of the judge 'baseline/lexical-v1'"):
        judgments_of("pilot", **SMALL)


def test_a_judge_that_failed_its_pilot_is_paid_for_no_headline(workspace: Path) -> None:
    """`arena-kit run headline` exits 3 with the pilot's reason before anything is sent; it goes on
    where that is allowed, and its first line says so; another rubric is another judge.
    """
    with Emulator(seed=1, behaviour="ignores_rubric") as emulator:
        pilot = record_of("pilot", **paid(emulator))
        asked = len(emulator.requests)
        given = paid(emulator, strata={"curated": 1})
        own = parameters("headline", **given)
        words = [w for n, v in (own | own.pop("overrides")).items() for w in ("-p", n, str(v))]
        with chdir(workspace):
            done = CliRunner().invoke(main, ["run", "headline", *words])
        assert done.exit_code == 3, done.output
        found = f"the pilot {pilot.path.name} found: The judge {MODEL} is not usable"
        assert found in " ".join(done.output.split())
        assert len(emulator.requests) == asked

        study = judgments_of("headline", **given, allow_failed=True)
        first_line = str(judge_tables.sentence(study.gate))
        assert f"This run was allowed although {found}" in first_line
        rubric = workspace / "params" / "rubrics" / "calibration.md"
        rubric.write_text(f"{rubric.read_text()}\nPrefer the calmer one.\n")
        judgments_of("headline", **given | {"strata": {"curated": 2}})


def test_what_the_ledger_answers_is_no_purchase(workspace: Path) -> None:
    """A headline on the pilot's own pairs buys nothing of the judge that failed, so it may run."""
    with Emulator(seed=1, behaviour="first") as emulator:
        record_of("pilot", **paid(emulator))
        assert failed(judgments_of("headline", **paid(emulator)))
        with pytest.raises(UnfitJudgeError, match="nothing was sent"):
            judgments_of("headline", **paid(emulator, strata={"curated": 2}))


def test_the_embedded_judge_is_not_called_fit(workspace: Path) -> None:
    """On the rubrics it was written for it is usable with caution; on a text of the user's own
    under the same name it is not usable, for it reads no rubric.
    """
    assert judgments_of("pilot", **SMALL).gate.level is Level.CAUTION
    rubric = workspace / "params" / "rubrics" / "factuality.md"
    rubric.write_text(f"{rubric.read_text()}\nPrefer the calmer one.\n")
    study = judgments_of("pilot", **SMALL)
    assert failed(study) == {"rubric"}
    assert "compares words, reads no rubric on factuality" in study.gate.sentence


def test_a_placement_holds_its_judge_against_people(workspace: Path) -> None:
    """Verdicts from a file and people's votes on the same battles."""
    placed = placed_model(model="dogwood", n_bootstraps=100)
    study = placed.verdicts
    (dimension,) = study.quality.dimensions
    assert study.quality.find("agreement", dimension).n > 100
    assert study.quality.find("flips", dimension).value is not None
    assert study.quality.find("slot_a", dimension).value is None, "settled battles tell no slot"
    record = publish_placement(placed)
    assert record.read()["judge_gate"]["sentence"] == study.gate.sentence
