"""Paid runs as a user starts them: the command line, real kernels, the emulated service."""

import json
import os
import re
import shutil
import signal
import time
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from arena_kit import DataError
from arena_kit.judging.asking.cost import CostError
from arena_kit.judging.verdicts.records import Status
from arena_kit.reporting import tournament_tables as tables
from arena_kit.runs.record.record import Record
from arena_kit.runs.tournament.publish import UnusableError
from tests import samples
from tests.emulator import Emulator, Fault
from tests.samples import call, edited, jsonl, judgments_of, loaded, paid_twice, plan_of, published

#: What is looked at here is the bulk; tests/runs/test_canaries.py is about what goes before it.
SMALL = {"judge": "anthropic", "max_cost_usd": 5.0, "limit_pairs": 6, "n_perms": 20,
         "preflight": False, "prewarm": False}  # fmt: skip
PILOT_CLAUDE = ("--params", "params/pilot_claude.yaml", "-p", "limit_pairs", "6")


def small_words() -> list[str]:
    """SMALL as words of the command line."""
    overrides = samples.parameters("pilot", **SMALL)["overrides"]
    return [word for name, value in overrides.items() for word in ("-p", name, str(value))]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"max_cost_usd": 0.0}, "must be paid: set max_cost_usd"),
        ({"judge_model": "claude-9"}, "there is no price for the model 'claude-9'"),
        ({"judge_model": "baseline/lexical-v1"}, "needs a model, .*which is the demo judge"),
        ({"judge": "openai_compatible"}, "needs judge.base_url"),
        ({"judge": "openai_compatible", "base_url": "https://far.example/v1"}, "there is no price"),
    ],
)
def test_refused_parameters(workspace: Path, changes: dict[str, object], why: str) -> None:
    """Parameters that could spend unseen are refused before a record exists."""
    given = {"judge": "anthropic", "judge_model": "claude-x", "max_cost_usd": 5.0} | changes
    if "judge_model" not in changes and given["judge"] == "anthropic":
        given["judge_model"] = "claude-opus-5-5"
    with pytest.raises(DataError, match=why):
        judgments_of("pilot", **given)
    assert not (workspace / "runs").exists()


@pytest.mark.parametrize("judge", ["anthropic", "openai_compatible"])
@pytest.mark.parametrize(("mode", "model"), [("pilot", "small"), ("headline", "large")])
def test_the_tournament_file_chooses_the_model_of_a_paid_judge(
    workspace: Path, judge: str, mode: str, model: str
) -> None:
    """Whatever paid judge is named, pilot asks pilot_model and headline asks headline_model."""
    edited(workspace, judge__pilot_model="small", judge__headline_model="large")
    price = "{input: 1, output: 2}"
    (workspace / "params" / "prices.yaml").write_text(
        f"date: 2026-11-15\nsource: x\nmodels: {{small: {price}, large: {price}}}\n"
    )
    given = {"judge": judge, "base_url": "http://127.0.0.1:9/v1", "max_cost_usd": 5}
    assert plan_of(mode, **given).judge.model == model
    assert plan_of(mode, **given | {"judge_model": "small"}).judge.model == "small"
    assert plan_of(mode).judge.model == "baseline/lexical-v1"
    for words in (("--params", f"params/{mode}_claude.yaml"),
                  (mode, "--params", "params/headline_claude.yaml")):  # fmt: skip
        shown = call("cost", *words, "-p", "limit_pairs", "1", "--json").stdout
        assert json.loads(shown)["forecast"]["model"] == model
    edited(workspace, judge__pilot_model=None, judge__headline_model=None)
    why = rf"as judge_model or as judge.{mode}_model in params/tournament.yaml; there is none"
    with pytest.raises(DataError, match=why):
        plan_of(mode, **given)


@pytest.mark.parametrize(("pairs", "prewarms"), [(1, False), (2, True)])
def test_headline_batches_are_prewarmed_where_that_saves(
    workspace: Path, pairs: int, prewarms: bool
) -> None:
    """Two requests per rubric: a write at 2 and a hit at 0.05 of the price are dearer than 2
    plain ones, so none goes ahead; of four, one does (2.15 against 4).
    """
    paid = {"judge": "anthropic", "max_cost_usd": 5.0, "limit_pairs": pairs, "preflight": False}
    assert plan_of("headline", **paid).ask_options("run", print).prewarm == prewarms
    assert not plan_of("headline", **paid, prewarm=False).prewarms


def test_a_prewarm_is_recorded_with_what_it_saved(workspace: Path, service: Emulator) -> None:
    """Three requests ahead, each rubric then read by three others, at 4 - 0.2 dollars per million
    tokens and half of that in a batch; the report says the same.
    """
    service.settings.update({"miss_rate": 0.0})
    study = judgments_of("headline", **SMALL | {"prewarm": True, "limit_pairs": 2})
    ahead, bill = study.record.read()["cost"]["prewarm"], service.billing.rows
    written = sum(row.counts.write_1h for row in bill[:3])
    assert (ahead["what"], ahead["sent"]["answers"]) == ("requests", 3)
    assert ahead["sent"]["written_tokens"] == written > 0
    assert ahead["sent"]["usd"] == pytest.approx(sum(row.usd for row in bill[:3]))
    assert ahead["read_tokens"] == 3 * written
    assert ahead["usd_saved"] == pytest.approx(3 * written * (4 - 0.2) / 2 / 1e6)
    shown = f"3 requests wrote {written:,} tokens to the prompt cache"
    assert shown in study._repr_html_()
    again = judgments_of("headline", **SMALL | {"limit_pairs": 2}).record.read()
    assert again["cost"]["prewarm"] is None


def test_token_use_stands_per_dimension(workspace: Path, service: Emulator) -> None:
    """The manifest has tokens and dollars of each dimension."""
    given = {
        "judge": "anthropic", "judge_model": "claude-opus-5-5", "max_cost_usd": 5.0,
        "limit_pairs": 2, "n_perms": 20, "preflight": False,
    }  # fmt: skip
    study = judgments_of("pilot", **given)
    record = published(study)
    cost = record.read()["cost"]
    assert set(cost["by_dimension"]) == {"factuality", "calibration", "clinical_utility"}
    for dimension, found in cost["by_dimension"].items():
        verdicts = jsonl(record.path / "verdicts" / f"{dimension}.jsonl")
        for name, key in {
            "input_tokens": "input_tokens",
            "read_tokens": "cache_read_input_tokens",
            "written_tokens": "cache_creation_input_tokens",
            "output_tokens": "output_tokens",
        }.items():
            assert found[name] == sum(row["usage"].get(key, 0) for row in verdicts), name
        assert found["usd"] == pytest.approx(sum(row["cost_usd"] for row in verdicts))
        assert (found["answers"], found["from_ledger"]) == (4, 0)
    assert sum(f["output_tokens"] for f in cost["by_dimension"].values()) > 0
    assert "on clinical_utility" in study._repr_html_()
    again = samples.record_of("pilot", **given).read()["cost"]["by_dimension"]["calibration"]
    assert (again["answers"], again["usd"], again["from_ledger"]) == (0, 0, 4)


@pytest.mark.parametrize(("name", "other"), [("quant-4bit", True), ("own-20261101", False)])
def test_a_model_that_was_not_asked_is_told(
    workspace: Path, emulator: Emulator, name: str, other: bool
) -> None:
    """Verdicts that another model served are counted by its name; a dated name is no other."""
    served = f'"model": "{name}"'.encode()
    emulator.app.tamper = lambda request, body: re.sub(rb'"model": "own"', served, body)
    study = judgments_of("pilot", **own_server(emulator))
    shown = " ".join(str(tables.verdict_counts(study)).split())
    assert ("than requested served verdicts: 12 by quant-4bit;" in shown) == other
    record = published(study)
    assert record.read()["served_by_others"] == ({name: 12} if other else {})
    battles = jsonl(record.path / "battles.jsonl")
    assert {row.get("served_model") for row in battles} == ({name} if other else {None})


def holding_the_key(workspace: Path) -> list[Path]:
    """The files of a workspace with a report and a ledger that hold the key."""
    files = [path for path in workspace.rglob("*") if path.is_file()]
    assert {"report.html", "verdicts.sqlite"} <= {path.name for path in files}
    return [path for path in files if samples.KEY.encode() in path.read_bytes()]


def own_server(emulator: Emulator) -> dict[str, Any]:
    """The parameters of a tiny run whose judge is a server of one's own."""
    return {
        "judge": "openai_compatible", "judge_model": "own", "base_url": f"{emulator.base_url}/v1",
        "limit_pairs": 2, "n_perms": 20,
    }  # fmt: skip


def test_a_session_without_one_usable_verdict_has_failed(
    workspace: Path, emulator: Emulator
) -> None:
    """A run without one readable answer is a failed record with artifacts, and can be resumed."""
    emulator.settings.behaviour = "garbage"
    study = judgments_of("pilot", **own_server(emulator))
    with pytest.raises(UnusableError, match=r"not one of 12 verdicts can be used \(12 unpars"):
        published(study)
    manifest = study.record.read()
    assert manifest["status"] == "failed"
    assert manifest["error"].startswith("UnusableError: not one of 12 verdicts")
    assert (study.record.path / "battles.jsonl").is_file()
    Record.reopen(study.record.path).release()


def test_run_and_resume(workspace: Path, service: Emulator) -> None:
    """`run pilot`, started below the root, whose credit ends half way: record and report stay in
    the folder asked for, `--json` prints the manifest alone, which has the cost. `resume` prints
    board, answer and the record's path, and leaves every artifact; nothing is paid twice, and no
    file, output or page of the ledger holds the key.
    """
    samples.without_report(workspace, shown="ak.answer(board, judgments)")
    service.faults.add(Fault(on="item", kind="credit_errored", share=0.5))
    with chdir(workspace / "notebooks"):
        words = (*PILOT_CLAUDE, *small_words(), "--json", "--runs-dir", "../elsewhere")
        done = call("run", "pilot", *words)
    assert done.exit_code == 3, done.stderr
    assert "credit balance is too low" in done.stderr
    assert "Traceback" not in done.stderr
    (record,), paid = (workspace / "elsewhere").iterdir(), service.billing.total_usd
    manifest = loaded(record / "manifest.json")
    assert (json.loads(done.stdout), manifest["status"]) == (manifest, "failed")
    assert manifest["cost"]["usd_spent"] == pytest.approx(paid, abs=1e-9)
    assert paid > 0
    assert holding_the_key(workspace) == []
    with chdir(workspace / "notebooks"):
        ended = call("resume", record)
    assert ended.exit_code == 0, ended.stderr
    printed = ended.stdout
    assert Path(printed.splitlines()[-1]) == record
    assert "Elo ± SEM" in printed
    assert "\n".join(loaded(record / "answer.json")["said"]) in printed
    found = {str(path.relative_to(record)) for path in record.rglob("*") if path.is_file()}
    assert found >= samples.TOURNAMENT_ARTIFACTS | {"report.ipynb", "report.html", "board.json"}
    manifest, total = loaded(record / "manifest.json"), service.billing.total_usd
    assert manifest["status"] == "finished"
    assert manifest["parameters"]["overrides"]["elo.n_perms"] == 20
    assert manifest["parameters"]["seed"] == 0, "parameters that were not given stand there too"
    assert manifest["cost"]["usd_spent"] == pytest.approx(total, abs=1e-9)
    text = (record / "report.html").read_text()
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in text
    assert not [word for word in ("<script", "Warning", "site-packages") if word in text]
    assert (paid_twice(service), holding_the_key(workspace)) == ([], [])
    assert samples.KEY not in done.output + ended.output
    moved, ledger = samples.copy_workspace(workspace.parent / "moved"), ".arena_kit/verdicts.sqlite"
    (moved / ledger).parent.mkdir()
    shutil.copy(workspace / ledger, moved / ledger)
    with chdir(moved):
        told = call("cost", "pilot", *PILOT_CLAUDE, *small_words(), "--json").stdout
    assert json.loads(told)["forecast"]["requests"] == 0


@pytest.mark.slow  # two processes and three kernels, each with the SDK
@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_is_resumed(workspace: Path, service: Emulator, kill: signal.Signals) -> None:
    """Ctrl-C says which batch goes on and how to resume; after a SIGKILL too, `resume` ends in
    the same record, and every request was paid once.
    """
    samples.without_report(workspace)
    service.settings.batch_seconds = 3600
    process = samples.started("run", "pilot", *PILOT_CLAUDE, *small_words())
    batch_id = samples.wait_for_batch()
    told = json.loads(call("ledger", "batches", "--json").stdout)
    assert [row["batch_id"] for row in told] == [batch_id]
    # a terminal sends Ctrl-C to the kernel too
    (os.killpg if kill is signal.SIGINT else os.kill)(process.pid, kill)
    _, err = process.communicate(timeout=60)
    (record,) = (workspace / "runs").iterdir()
    if kill is signal.SIGINT:
        assert (process.returncode, "Traceback" in err) == (1, False), err
        assert f"still running at the service: batch {batch_id}" in err
        assert f"arena-kit resume {record}" in err
    service.clock.advance(hours=2)
    for _ in range(30):  # the orphaned kernel of a killed run may hold the ledger a little
        if (done := call("resume", record)).exit_code != 3:
            break
        time.sleep(1)
    assert done.exit_code == 0, done.stderr
    manifest, bill = loaded(record / "manifest.json"), service.billing.total_usd
    assert (manifest["status"], len(manifest["earlier_tries"]) >= 1) == ("finished", True)
    assert (len(service.billing.rows), paid_twice(service)) == (36, [])
    assert manifest["cost"]["usd_spent"] == pytest.approx(bill, abs=1e-9)
    again = call("resume", record)
    assert (again.exit_code, "has finished" in again.stderr) == (2, True)


def test_errored_requests_are_asked_again_when_told(workspace: Path, service: Emulator) -> None:
    """What ended as errored for good is sent again only when told, with how many and for how much,
    and the cap refuses it before anything changes.
    """
    service.faults.add(Fault(on="item", kind="unknown_type", count=4))
    counts = judgments_of("pilot", **SMALL).record.read()["counts"]["verdicts"].values()
    assert sum(found["errored"] for found in counts) == 4
    assert not plan_of("pilot", **SMALL).buys
    told: list[str] = []
    with pytest.raises(CostError, match="more than max_cost_usd 1e-09"):
        plan_of("pilot", **SMALL | {"max_cost_usd": 1e-9}).ask_again(Status.ERRORED, told.append)
    assert not plan_of("pilot", **SMALL).buys
    plan_of("pilot", **SMALL).ask_again(Status.ERRORED, told.append)
    assert re.match(r"4 requests that ended as errored are repeated, for about \$0\.0", told[0])
    sent = len(service.billing.accepted)
    counts = judgments_of("pilot", **SMALL).record.read()["counts"]["verdicts"].values()
    assert len(service.billing.accepted) == sent + 4
    assert [found["errored"] for found in counts] == [0, 0, 0]
