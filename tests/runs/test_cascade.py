"""A cascade from the calibration to a run that follows it."""

from __future__ import annotations

import json
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from arena_kit import BattleLog, DataError, Source, Study, read_battles, write_battles
from arena_kit.runs.record.inputs import replay_parameters
from tests.emulator import Emulator
from tests.samples import call, copy_workspace, edited

DEAR = "claude-sonnet-5-5"
FACTUALITY = {"strata": {"open_recall": 24, "vignette": 30}, "n_perms": 10}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace of one dimension with the embedded judge's record of it."""
    root = copy_workspace(tmp_path_factory.mktemp("cascade") / "workspace")
    file = edited(root, dimensions__calibration=None, dimensions__clinical_utility=None)
    assert file.is_file()
    edited(root, judge__anthropic__per_minute=100_000)
    with chdir(root):
        Study.open("pilot", **FACTUALITY, run_dir="runs/cheap").save()
    return root


@pytest.fixture
def cheap(home: Path, monkeypatch: pytest.MonkeyPatch, emulator: Emulator) -> Path:
    monkeypatch.chdir(home)
    monkeypatch.delenv("ARENA_KIT_RUNS", raising=False)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", emulator.base_url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-any")
    return home / "runs" / "cheap"


def voted(record: Path, folder: Path) -> tuple[Path, Path]:
    """A dear judge's battles and people's votes on a record's pairs: people side with the models
    in name order, mostly; the dear judge with people, nearly always.
    """
    log = read_battles(record / "battles.jsonl").sides_in_order()
    rng = np.random.default_rng(0)
    people = (rng.random(len(log)) > 0.5 + 0.15 * (log.b - log.a)).astype(np.int8)
    dear = np.where(rng.random(len(log)) < 0.95, people, 1 - people).astype(np.int8)
    plain = replace(log, inconsistent=None, battle_id=None)
    files = folder / "dear.jsonl", folder / "people.jsonl"
    for file, outcome, source, judge in (
        (files[0], dear, Source.LLM_JUDGE, DEAR),
        (files[1], people, Source.HUMAN, None),
    ):
        battles: BattleLog = replace(plain, outcome=outcome).of_source(source, judge)
        write_battles(file, replace(battles, dimension=None) if judge is None else battles)
    return files


def calibrate(cheap: Path, folder: Path, *words: str) -> tuple[Path, Result]:
    dear, people = voted(cheap, folder)
    out = folder / "cascade.json"
    done = call("cascade", cheap, dear, "--people", people, "--out", out, "--target", "0.7",
                  "--coverage", "0.5", *words)  # fmt: skip
    return out, done


def again(record: Path, **changes: Any) -> Study:
    paid = {
        "judge": "anthropic", "judge_model": DEAR, "transport": "messages", "max_cost_usd": 9,
        "preflight": False,
    }  # fmt: skip
    return Study.open("pilot", **replay_parameters(record) | paid | changes)


def test_a_calibrated_cascade_is_followed_by_a_run(
    cheap: Path, tmp_path: Path, emulator: Emulator
) -> None:
    """The file says what is promised; the run asks about fewer pairs than there are, pays for
    those alone, and says of which pairs it abstains.
    """
    file, done = calibrate(cheap, tmp_path)
    assert done.exit_code == 0, done.stderr
    assert "agree with people on at least 70%" in done.stdout
    told = json.loads(file.read_text())
    assert (told["cheap"], told["dear"]) == ("baseline/lexical-v1", DEAR)
    assert told["cascade"]["agreement_low"] >= 0.7
    study = again(cheap, rejudge=str(file))
    asked = {pair.pair_id for pair in study.plan.asked}
    record = study.save().path
    assert 0 < len(asked) < len(study.plan.pairing.pairs)
    assert len(emulator.billing.rows) == 2 * len(asked)
    found = json.loads((record / "rejudge.json").read_text())["cascade"]
    assert {*found["abstained"]} <= asked
    battles = {b.battle_id: b for b in read_battles(record / "battles.jsonl").to_battles()}
    ties = {i for i in asked if i in battles and not battles[i].winner.decisive}
    assert ties <= {*found["abstained"]}  # no winner is no answer
    assert "agrees with people at least 70% of the time" in found["sentence"]


def test_a_cascade_holds_for_the_judges_that_it_was_calibrated_on(
    cheap: Path, tmp_path: Path
) -> None:
    file, _ = calibrate(cheap, tmp_path)
    with pytest.raises(DataError, match=f"the dear judge '{DEAR}', but this run has 'claude-opus"):
        again(cheap, rejudge=str(file), judge_model="claude-opus-5-5")


def test_a_promise_that_cannot_be_kept_is_not_made(cheap: Path, tmp_path: Path) -> None:
    _, done = calibrate(cheap, tmp_path, "--target", "0.99")
    assert done.exit_code == 2
    assert "can promise 99% agreement" in done.stderr
    _, done = calibrate(cheap, tmp_path, "--risk", "2")
    assert done.exit_code == 2
    assert "risk must be between 0 and 1" in done.stderr


def test_both_ways_to_choose_pairs_are_not_mixed(cheap: Path, tmp_path: Path) -> None:
    file, _ = calibrate(cheap, tmp_path)
    done = call("rejudge", cheap, "--judge", "baseline", "--only-unsure", "--cascade", file)
    assert done.exit_code == 2
    assert "name one" in done.stderr
