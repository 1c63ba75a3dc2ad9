"""Paid runs as a user starts them: the command line, real kernels, the emulated service."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from arena_kit import DataError
from arena_kit.cli.main import main
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.reporting import tournament_tables as tables
from arena_kit.runs.record.record import Record
from arena_kit.runs.tournament.publish import UnusableError
from tests.emulator import Emulator, Fault
from tests.samples import (
    call,
    copy_workspace,
    edited,
    jsonl,
    judgments_of,
    paid_twice,
    plan_of,
    published,
    record_of,
    without_report,
)

KEY = "sk-ant-planted-0123456789abcdefghij"
#: What is looked at here is the bulk; tests/runs/test_canaries.py is about what goes before it.
BULK = ("-p", "judge.preflight", "false")
PILOT = ("run", "pilot", "--params", "params/pilot_claude.yaml", "-p", "elo.n_perms", "20", *BULK)
TINY = (*PILOT, "-p", "limit_pairs", "6")
LEDGER = Path(".arena_kit") / "verdicts.sqlite"


#: `python -m arena_kit` that hears Ctrl-C, which a process started in the background ignores.
HEARING = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("arena_kit", run_name="__main__")
"""


@contextmanager
def served_by(emulator: Emulator) -> Iterator[None]:
    """An environment that names the emulated service and a key, and no record."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("ANTHROPIC_", "ARENA_KIT_RUN")):
                patch.delenv(name)
        patch.setenv("ANTHROPIC_BASE_URL", emulator.base_url)
        patch.setenv("ANTHROPIC_API_KEY", KEY)
        yield


def start(*words: str, cwd: Path, emulator: Emulator) -> subprocess.Popen[str]:
    """The command line in a process of its own, which can be killed or be one of two."""
    with served_by(emulator):
        return subprocess.Popen(
            [sys.executable, "-c", HEARING, *words],
            cwd=cwd,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )


def run(*words: str, cwd: Path, emulator: Emulator) -> tuple[int, str, str]:
    """The command line here, where all it imports is there already; notebooks have a kernel."""
    with served_by(emulator), chdir(cwd):
        done = CliRunner().invoke(main, words)
    assert isinstance(done.exception, SystemExit | None), done.exception
    return done.exit_code, done.stdout, done.stderr


def manifest_of(out: str) -> dict[str, Any]:
    record = Path(out.splitlines()[-1])
    found: dict[str, Any] = json.loads((record / "manifest.json").read_text())
    return found


def wait_for_batch(workspace: Path) -> str:
    """The id of the first batch that is in the ledger."""
    ledger = Ledger(workspace / LEDGER)
    for _ in range(1200):
        for intent in ledger.open_intents():
            if intent.batch_id:
                return intent.batch_id
        time.sleep(0.1)
    raise AssertionError("no batch was created within two minutes")


def still_to_ask(workspace: Path, emulator: Emulator) -> int:
    """How many requests the small pilot would still send."""
    code, out, err = run("cost", *TINY[2:], "--json", cwd=workspace, emulator=emulator)
    assert code == 0, err
    return int(json.loads(out)["forecast"]["requests"])


# two processes and three kernels, each with the SDK; killed spenders are in judging/test_batching,
# runners in test_record, Ctrl-C in cli/test_interrupt, and `resumed` goes on with a paid run
@pytest.mark.slow
@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_is_resumed(workspace: Path, kill: signal.Signals) -> None:
    """Ctrl-C says which batch goes on and how to resume."""
    without_report(workspace)
    with Emulator(seed=3, batch_seconds=3600) as emulator:
        process = start(*TINY, cwd=workspace, emulator=emulator)
        batch_id = wait_for_batch(workspace)
        _, out, _ = run("ledger", "batches", "--json", cwd=workspace, emulator=emulator)
        assert [row["batch_id"] for row in json.loads(out)] == [batch_id]
        if kill is signal.SIGINT:
            os.killpg(process.pid, kill)  # as a terminal does, to the kernel too
        else:
            process.send_signal(kill)
        _, err = process.communicate(timeout=60)
        record = next((workspace / "runs").iterdir())
        if kill is signal.SIGINT:
            assert process.returncode == 1
            assert "Traceback" not in err
            assert batch_id in err
            assert "still running at the service" in err
            assert f"arena-kit resume {record}" in err
        emulator.clock.advance(hours=2)
        code, out, err = run("resume", str(record), cwd=workspace, emulator=emulator)
        for _ in range(30):  # the orphaned kernel of a killed run may hold the ledger a little
            if code != 3:
                break
            time.sleep(1)
            code, out, err = run("resume", str(record), cwd=workspace, emulator=emulator)
        assert code == 0, err
        manifest = manifest_of(out)
        assert manifest["status"] == "finished"
        assert len(manifest["earlier_tries"]) >= 1
        assert len(emulator.billing.rows) == 36
        assert paid_twice(emulator) == []
        assert manifest["cost"]["usd_spent"] == pytest.approx(emulator.billing.total_usd, abs=1e-9)
        code, _, err = run("resume", str(record), cwd=workspace, emulator=emulator)
        assert code == 2
        assert "has finished" in err


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"max_cost_usd": 0.0}, "must be paid: set max_cost_usd"),
        ({"judge_model": "claude-9"}, "no price is known for the model 'claude-9'"),
        ({"judge_model": "baseline/lexical-v1"}, "needs a model, .*which is the embedded judge"),
        ({"judge": "openai_compatible"}, "needs judge.base_url"),
        ({"judge": "openai_compatible", "base_url": "https://far.example/v1"}, "no price is known"),
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


def test_token_use_stands_per_dimension(
    workspace: Path, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest has tokens and dollars of each dimension."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    given = {
        "judge": "anthropic", "judge_model": "claude-opus-5-5", "max_cost_usd": 5.0,
        "limit_pairs": 2, "n_perms": 20, "base_url": emulator.base_url, "preflight": False,
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
    again = record_of("pilot", **given).read()["cost"]["by_dimension"]["calibration"]
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
    assert ("served by another model than asked: 12 by quant-4bit;" in shown) == other
    record = published(study)
    assert record.read()["served_by_others"] == ({name: 12} if other else {})
    battles = jsonl(record.path / "battles.jsonl")
    assert {row.get("served_model") for row in battles} == ({name} if other else {None})


def holding_the_key(workspace: Path) -> list[Path]:
    """The files of a workspace with a report and a ledger that hold the key."""
    files = [path for path in workspace.rglob("*") if path.is_file()]
    assert {"report.html", "verdicts.sqlite"} <= {path.name for path in files}
    return [path for path in files if KEY.encode() in path.read_bytes()]


def own_server(emulator: Emulator) -> dict[str, Any]:
    """The parameters of a tiny run whose judge is a server of one's own."""
    return {
        "judge": "openai_compatible", "judge_model": "own", "base_url": f"{emulator.base_url}/v1",
        "limit_pairs": 2, "n_perms": 20,
    }  # fmt: skip


def test_a_run_that_fails_reports_what_it_paid_and_is_resumed(
    workspace: Path, emulator: Emulator
) -> None:
    """Credit ends half way: the failed manifest has the cost; resumed, nothing is paid twice."""
    without_report(workspace, shown="ak.answer(board, judgments)")
    emulator.faults.add(Fault(on="item", kind="credit_errored", share=0.5))
    code, out, err = run(*TINY, cwd=workspace, emulator=emulator)
    assert code == 3, err
    assert "credit balance is too low" in err
    paid = emulator.billing.total_usd
    assert manifest_of(out)["cost"]["usd_spent"] == pytest.approx(paid, abs=1e-9)
    assert paid > 0
    assert holding_the_key(workspace) == []
    code, ended, late = run("resume", out.splitlines()[-1], cwd=workspace, emulator=emulator)
    assert code == 0, late
    total = emulator.billing.total_usd
    assert manifest_of(ended)["cost"]["usd_spent"] == pytest.approx(total, abs=1e-9)
    assert paid_twice(emulator) == []
    assert holding_the_key(workspace) == []
    assert KEY not in out + err + ended + late
    moved = copy_workspace(workspace.parent / "moved")
    (moved / LEDGER).parent.mkdir()
    shutil.copy(workspace / LEDGER, moved / LEDGER)
    assert still_to_ask(moved, emulator) == 0


@pytest.mark.slow  # five commands, two whole reports
def test_errored_requests_are_asked_again_when_told(workspace: Path, emulator: Emulator) -> None:
    """What ended as errored for good is sent again only with `--ask-again errored`."""
    emulator.faults.add(Fault(on="item", kind="unknown_type", count=4))
    code, out, err = run(*TINY, cwd=workspace, emulator=emulator)
    assert code == 0, err
    errored = sum(v.get("errored", 0) for v in manifest_of(out)["counts"]["verdicts"].values())
    assert errored == 4
    assert still_to_ask(workspace, emulator) == 0
    sent = len(emulator.billing.accepted)

    again = (*TINY, "--ask-again", "errored")
    code, _, err = run(*again, "-p", "max_cost_usd", "1e-9", cwd=workspace, emulator=emulator)
    assert (code, len(emulator.billing.accepted)) == (3, sent), err
    assert "more than max_cost_usd 1e-09 allows" in err
    assert still_to_ask(workspace, emulator) == 0

    code, out, err = run(*again, cwd=workspace, emulator=emulator)
    assert code == 0, err
    assert re.search(r"4 requests that ended as errored are asked again, for about \$0\.0", err)
    assert len(emulator.billing.accepted) == sent + 4
    counts = manifest_of(out)["counts"]["verdicts"].values()
    assert [found["errored"] for found in counts] == [0, 0, 0]


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
