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
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from arena_kit import DataError, read_battles
from arena_kit.cli.main import main
from arena_kit.cli.records import show_board
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.reporting import tournament_tables as tables
from arena_kit.runs.record.record import Record
from arena_kit.runs.tournament.publish import UnusableError
from tests.emulator import Emulator, Fault
from tests.samples import (
    call,
    copy_workspace,
    edited,
    judgments_of,
    plan_of,
    published,
    record_of,
    sizes,
    without_report,
)

KEY = "sk-ant-planted-0123456789abcdefghij"
#: What is looked at here is the bulk; tests/runs/test_canaries.py is about what goes before it.
BULK = ("-p", "judge.preflight", "false")
PILOT = ("run", "pilot", "--params", "params/pilot_claude.yaml", "-p", "elo.n_perms", "20", *BULK)
TINY = (*PILOT, "-p", "limit_pairs", "6")
LEDGER = Path(".arena_kit") / "verdicts.sqlite"
HEADLINE = ("run", "headline", "--params", "params/headline_claude.yaml", *TINY[4:6], *BULK)


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    with Emulator(seed=1) as running:
        yield running


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


def paid_twice(emulator: Emulator) -> list[str]:
    """Cache keys, as they stand in custom ids, that were billed more than once."""
    billed = Counter(row.custom_id.partition("-")[2] for row in emulator.billing.rows)
    return [key for key, n in billed.items() if n > 1]


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
    words = (
        "cost",
        "--params",
        "params/pilot_claude.yaml",
        "-p",
        "limit_pairs",
        "6",
        "--json",
        *BULK,
    )
    code, out, err = run(*words, cwd=workspace, emulator=emulator)
    assert code == 0, err
    return int(json.loads(out)["forecast"]["requests"])


@pytest.mark.slow  # 4,548 requests to the service, and two whole reports
def test_the_headline_run_is_whole_and_a_second_one_sends_nothing(workspace: Path) -> None:
    """4 entrants make 2,274 pairs and 4,548 requests; the report shows statuses, cost and hit
    rate; the bill equals the emulator's; the second run sends no request at all.
    """
    with Emulator(seed=1, behaviour="mixed") as emulator:
        code, out, err = run(*HEADLINE, cwd=workspace, emulator=emulator)
        assert code == 0, err
        manifest = manifest_of(out)
        verdicts = manifest["counts"]["verdicts"]
        assert sum(sum(found.values()) for found in verdicts.values()) == 4548
        assert manifest["counts"]["pairs"] == {
            "factuality": 93 * 6, "calibration": 143 * 6, "clinical_utility": 143 * 6,
        }  # fmt: skip
        assert sum(found["refused"] for found in verdicts.values()) > 0
        assert sum(found["truncated"] for found in verdicts.values()) > 0
        assert manifest["cost"]["usd_spent"] == pytest.approx(emulator.billing.total_usd, abs=1e-9)
        assert manifest["cost"]["answers_paid"]["hit_rate"] > 0.8
        assert paid_twice(emulator) == []
        text = (Path(out.splitlines()[-1]) / "report.html").read_text()
        for words in (
            "verdicts by status",
            "prompt-cache hit rate",
            "no prompt-cache hit",
            "spent",
        ):
            assert words in text
        assert sizes(emulator)[:3] == [1, 1, 1], "one pre-warm batch per rubric before the bulk"

        before = len(emulator.requests)
        code, out, err = run(*HEADLINE, cwd=workspace, emulator=emulator)
        assert code == 0, err
        assert len(emulator.requests) == before
        again = manifest_of(out)
        assert again["cost"]["usd_spent"] == 0
        assert again["cost"]["usd_saved_by_cache"] > 0
        assert again["counts"] == manifest["counts"]


@pytest.mark.slow  # two whole runs; judging/test_batching holds a ledger, test_record exits 3
def test_two_at_once_pay_once(workspace: Path) -> None:
    """Of two runs started at once on one ledger, one is refused (exit 3) or both finish; then
    all answers are there, and every request was paid once.
    """
    with Emulator(seed=2, batch_seconds=4) as emulator:
        both = [start(*TINY, cwd=workspace, emulator=emulator) for _ in range(2)]
        ends = [(*process.communicate(timeout=300), process.returncode) for process in both]
        codes = sorted(code for *_, code in ends)
        assert codes in ([0, 0], [0, 3]), ends
        for _, err, code in ends:
            assert code == 0 or re.search(r"another run is asking .*process( \d+ on|\))", err)
        assert still_to_ask(workspace, emulator) == 0
        assert len(emulator.billing.rows) == 36
        assert paid_twice(emulator) == []


# two processes and three kernels, each with the SDK; killed spenders are in judging/test_batching,
# runners in test_record, Ctrl-C in cli/test_interrupt, and `resumed` goes on with a paid run
@pytest.mark.slow
@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_is_resumed(workspace: Path, kill: signal.Signals) -> None:
    """Ctrl-C says which batch goes on and how to resume; after a SIGKILL too, `resume` ends in
    the same record, and every request was paid once.
    """
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


def test_a_key_among_the_parameters_is_refused(workspace: Path, emulator: Emulator) -> None:
    """A run whose parameters hold a key ends with exit 2, and nothing is accepted."""
    words = ("-p", "judge.base_url", f"http://x/{KEY}")
    code, _, err = run(*TINY, *words, cwd=workspace, emulator=emulator)
    assert code == 2
    assert "judge.base_url holds a key" in err
    assert emulator.billing.accepted == []


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
    (workspace / "params" / "prices.yaml").write_text(PRICES)
    given = {"judge": judge, "base_url": "http://127.0.0.1:9/v1", "max_cost_usd": 5}
    assert plan_of(mode, **given).judge.model == model
    assert plan_of(mode, **given | {"judge_model": "small"}).judge.model == "small"
    assert plan_of(mode).judge.model == "baseline/lexical-v1"
    edited(workspace, judge__pilot_model=None, judge__headline_model=None)
    why = rf"as judge_model or as judge.{mode}_model in params/tournament.yaml; there is none"
    with pytest.raises(DataError, match=why):
        plan_of(mode, **given)


PRICES = """
date: 2026-11-15
source: this test
models:
  small: {input: 1, output: 2}
  large: {input: 10, output: 20}
"""


def test_the_forecast_of_a_pilot_file_is_for_the_pilots_model(workspace: Path) -> None:
    """`arena-kit cost` asks for the model of the notebook that is named, or that the file's name
    begins with.
    """
    files = {"pilot_claude.yaml": "claude-sonnet-5-5", "headline_claude.yaml": "claude-opus-5-5"}
    for file, model in files.items():
        told = call("cost", "--params", f"params/{file}", "-p", "limit_pairs", "1", "--json")
        assert json.loads(told.stdout)["forecast"]["model"] == model
    named = call("cost", "pilot", "--params", "params/headline_claude.yaml", "--json")
    assert json.loads(named.stdout)["forecast"]["model"] == "claude-sonnet-5-5"


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


@pytest.mark.parametrize("judge", ["anthropic", "openai_compatible"])
def test_token_use_stands_per_dimension(
    workspace: Path, emulator: Emulator, monkeypatch: pytest.MonkeyPatch, judge: str
) -> None:
    """The manifest has tokens and dollars of each dimension, as the usage of its verdicts adds up;
    a run that finds all in the ledger has made none.
    """
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    paid = judge == "anthropic"
    given = {
        "judge": judge, "judge_model": "claude-opus-5-5" if paid else "own", "max_cost_usd": 5.0,
        "base_url": emulator.base_url if paid else f"{emulator.base_url}/v1",
        "limit_pairs": 2, "n_perms": 20, "preflight": False,
    }  # fmt: skip
    if not paid:
        monkeypatch.delenv("ANTHROPIC_API_KEY")
    study = judgments_of("pilot", **given)
    record = published(study)
    cost = record.read()["cost"]
    assert set(cost["by_dimension"]) == {"factuality", "calibration", "clinical_utility"}
    for dimension, found in cost["by_dimension"].items():
        path = record.path / "verdicts" / f"{dimension}.jsonl"
        verdicts = [json.loads(line) for line in path.read_text().splitlines()]
        for name, key in (
            ("input_tokens", "input_tokens"),
            ("read_tokens", "cache_read_input_tokens"),
            ("written_tokens", "cache_creation_input_tokens"),
            ("output_tokens", "output_tokens"),
        ):
            assert found[name] == sum(row["usage"].get(key, 0) for row in verdicts), name
        assert found["usd"] == pytest.approx(sum(row["cost_usd"] for row in verdicts))
        assert (found["answers"], found["from_ledger"]) == (4, 0)
    assert sum(f["output_tokens"] for f in cost["by_dimension"].values()) > 0
    assert "on clinical_utility" in study._repr_html_()
    again = record_of("pilot", **given).read()["cost"]["by_dimension"]["calibration"]
    assert (again["answers"], again["usd"], again["from_ledger"]) == (0, 0, 4)


@pytest.mark.parametrize(("name", "other"), [("quant-4bit", True), ("own-20261101", False)])
def test_a_model_that_was_not_asked_is_told(
    workspace: Path,
    emulator: Emulator,
    capsys: pytest.CaptureFixture[str],
    name: str,
    other: bool,
) -> None:
    """Verdicts that another model served are counted by its name in the manifest and told in the
    report, in the terminal and on each battle; a dated name is no other model.
    """
    served = f'"model": "{name}"'.encode()
    emulator.app.tamper = lambda request, body: re.sub(rb'"model": "own"', served, body)
    address = f"{emulator.base_url}/v1"
    study = judgments_of(
        "pilot", judge="openai_compatible", judge_model="own", base_url=address, limit_pairs=2,
        n_perms=20,
    )  # fmt: skip
    table = tables.verdict_counts(study)
    record = published(study)
    assert record.read()["served_by_others"] == ({name: 12} if other else {})
    show_board(record.path)
    for text in (table.html, str(table), capsys.readouterr().out):
        words = " ".join(text.split())
        assert ("served by another model than asked: 12 by quant-4bit;" in words) == other
    marked = {
        battle.served_model for battle in read_battles(record.path / "battles.jsonl").to_battles()
    }
    assert marked == ({name} if other else {None})
    assert ("served_model" in (record.path / "battles.jsonl").read_text()) == other


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """A run whose credit ended half way, resumed when there was some again."""

    workspace: Path
    failed: tuple[int, str, str]
    failed_manifest: dict[str, Any]
    paid_at_first: float
    ended: tuple[int, str, str]
    emulator: Emulator
    holding_the_key: list[Path]


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resumed]:
    workspace = copy_workspace(tmp_path_factory.mktemp("credit") / "workspace")
    without_report(workspace, shown="ak.answer(board, judgments)")
    with Emulator(seed=1) as emulator:
        emulator.faults.add(Fault(on="item", kind="credit_errored", share=0.5))
        failed = run(*TINY, cwd=workspace, emulator=emulator)
        manifest, paid = manifest_of(failed[1]), emulator.billing.total_usd
        leaks = holding_the_key(workspace)
        ended = run("resume", failed[1].splitlines()[-1], cwd=workspace, emulator=emulator)
        yield Resumed(
            workspace=workspace,
            failed=failed,
            failed_manifest=manifest,
            paid_at_first=paid,
            ended=ended,
            emulator=emulator,
            holding_the_key=leaks + holding_the_key(workspace),
        )


def holding_the_key(workspace: Path) -> list[Path]:
    """The files of a workspace with a report and a ledger that hold the key."""
    files = [path for path in workspace.rglob("*") if path.is_file()]
    assert {"report.html", "verdicts.sqlite"} <= {path.name for path in files}
    return [path for path in files if KEY.encode() in path.read_bytes()]


def test_the_key_is_nowhere(resumed: Resumed) -> None:
    """Neither after a run that the service refused nor after one that finished does a file, an
    output or a database page hold the key.
    """
    assert resumed.holding_the_key == []
    assert not any(KEY in text for end in (resumed.failed, resumed.ended) for text in end[1:])


def test_a_run_that_fails_reports_what_it_paid(resumed: Resumed) -> None:
    """Half a batch is answered and paid, then credit ends: the failed manifest has the cost, the
    resumed one the whole, and the ledger alone, moved elsewhere, still answers everything.
    """
    code, _, err = resumed.failed
    assert code == 3, err
    assert "credit balance is too low" in err
    assert resumed.paid_at_first > 0
    spent = resumed.failed_manifest["cost"]["usd_spent"]
    assert spent == pytest.approx(resumed.paid_at_first, abs=1e-9)
    code, out, err = resumed.ended
    assert code == 0, err
    total = resumed.emulator.billing.total_usd
    assert manifest_of(out)["cost"]["usd_spent"] == pytest.approx(total, abs=1e-9)
    assert paid_twice(resumed.emulator) == []
    moved = copy_workspace(resumed.workspace.parent / "moved")
    (moved / LEDGER).parent.mkdir()
    shutil.copy(resumed.workspace / LEDGER, moved / LEDGER)
    assert still_to_ask(moved, resumed.emulator) == 0


@pytest.mark.slow  # five commands, two whole reports
def test_errored_requests_are_asked_again_when_told(workspace: Path, emulator: Emulator) -> None:
    """What ended as errored for good is sent again only with `--ask-again errored`, which says how
    many and for how much, and which the cap refuses before anything changes.
    """
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


@pytest.mark.slow  # a kernel; the session below fails alike, test_notebooks has a failed report
def test_a_run_without_one_usable_verdict_has_failed(workspace: Path) -> None:
    """Where every answer is unreadable the run exits 1 with a sentence that counts them; its
    record has the texts, the report and what was paid.
    """
    with Emulator(seed=1, behaviour="garbage") as emulator:
        code, out, err = run(*TINY, cwd=workspace, emulator=emulator)
        paid = emulator.billing.total_usd
    assert code == 1, err
    assert "not one of 36 verdicts can be used (36 unparsable)" in err
    assert "Traceback" not in err
    manifest = manifest_of(out)
    assert manifest["status"] == "failed"
    assert manifest["cost"]["usd_spent"] == pytest.approx(paid, abs=1e-9)
    record = Path(out.splitlines()[-1])
    assert (record / "report.html").is_file()
    assert len((record / "verdicts" / "factuality.jsonl").read_text().splitlines()) > 0


def test_a_session_without_one_usable_verdict_has_failed(workspace: Path) -> None:
    """In a notebook without a runner, too, saving such a run raises the sentence and closes its
    record as failed; its artifacts are there, and it can be resumed.
    """
    with Emulator(seed=1, behaviour="garbage") as emulator:
        study = judgments_of(
            "pilot", judge="openai_compatible", judge_model="own",
            base_url=f"{emulator.base_url}/v1", limit_pairs=2, n_perms=20,
        )  # fmt: skip
        with pytest.raises(UnusableError, match=r"not one of 12 verdicts can be used \(12 unpars"):
            published(study)
    manifest = study.record.read()
    assert manifest["status"] == "failed"
    assert manifest["error"].startswith("UnusableError: not one of 12 verdicts")
    assert (study.record.path / "battles.jsonl").is_file()
    Record.reopen(study.record.path).release()
