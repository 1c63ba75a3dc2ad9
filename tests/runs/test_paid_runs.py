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
from pathlib import Path

import pytest

from arena_kit import DataError, Study
from tests.emulator import Emulator, Fault
from tests.samples import copy_workspace

KEY = "sk-ant-planted-0123456789abcdefghij"
PILOT = ("run", "pilot", "--params", "params/pilot_claude.yaml", "-p", "n_perms", "20")
TINY = (*PILOT, "-p", "limit_pairs", "6")
HEADLINE = ("run", "headline", "--params", "params/headline_claude.yaml", "-p", "n_perms", "20")


def make_workspace(folder: Path) -> Path:
    """A workspace of its own, with little to resample."""
    copy_workspace(folder)
    tournament = folder / "params" / "tournament.yaml"
    text = tournament.read_text(encoding="utf-8")
    tournament.write_text(text.replace("evidence_replicates: 500", "evidence_replicates: 20"))
    return folder


@pytest.fixture
def paid_workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "workspace")


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    with Emulator(seed=1) as running:
        yield running


def start(*words: str, cwd: Path, emulator: Emulator, key: str = KEY) -> subprocess.Popen[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("ANTHROPIC_", "ARENA_KIT_RUN"))}
    env |= {"ANTHROPIC_BASE_URL": emulator.base_url, "ANTHROPIC_API_KEY": key}
    return subprocess.Popen(
        [sys.executable, "-m", "arena_kit", *words],
        cwd=cwd,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def run(*words: str, cwd: Path, emulator: Emulator, key: str = KEY) -> tuple[int, str, str]:
    process = start(*words, cwd=cwd, emulator=emulator, key=key)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def manifest_of(out: str) -> dict[str, object]:
    record = Path(out.splitlines()[-1])
    found: dict[str, object] = json.loads((record / "manifest.json").read_text())
    return found


def paid_twice(emulator: Emulator) -> list[str]:
    """Cache keys, as they stand in custom ids, that were billed more than once."""
    billed = Counter(row.custom_id.partition("-")[2] for row in emulator.billing.rows)
    return [key for key, n in billed.items() if n > 1]


def wait_for_batch(workspace: Path, emulator: Emulator) -> str:
    """The id of the first batch that is in the ledger."""
    for _ in range(600):
        code, out, _ = run("batches", "--json", cwd=workspace, emulator=emulator)
        if code == 0 and (rows := json.loads(out)) and rows[0]["batch_id"]:
            return str(rows[0]["batch_id"])
        time.sleep(0.2)
    raise AssertionError("no batch was created within two minutes")


def test_the_headline_run_is_whole_and_a_second_one_sends_nothing(paid_workspace: Path) -> None:
    """4 entrants make 2,274 pairs and 4,548 requests; the report shows statuses, cost and hit
    rate; the bill equals the emulator's; the second run sends no request at all.
    """
    with Emulator(seed=1, behaviour="mixed") as emulator:
        code, out, err = run(*HEADLINE, cwd=paid_workspace, emulator=emulator)
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
        first = [b["n_requests"] for b in _batches(emulator)[:3]]
        assert first == [1, 1, 1], "one pre-warm batch per rubric comes before the bulk"

        before = len(emulator.requests)
        code, out, err = run(*HEADLINE, cwd=paid_workspace, emulator=emulator)
        assert code == 0, err
        assert len(emulator.requests) == before
        again = manifest_of(out)
        assert again["cost"]["usd_spent"] == 0
        assert again["cost"]["usd_saved_by_cache"] > 0
        assert again["counts"] == manifest["counts"]


def _batches(emulator: Emulator) -> list[dict[str, object]]:
    rows = [{"n_requests": len(b["custom_ids"]), **b} for b in emulator.batches]
    return sorted(rows, key=lambda row: str(row["created_at"]))


def test_two_at_once_pay_once(paid_workspace: Path) -> None:
    """Of two runs started at once on one ledger, one is refused (exit 3) or both finish; run
    again, all is there, and every request was paid once.
    """
    with Emulator(seed=2, batch_seconds=6) as emulator:
        both = [start(*TINY, cwd=paid_workspace, emulator=emulator) for _ in range(2)]
        ends = [(*process.communicate(timeout=300), process.returncode) for process in both]
        codes = sorted(code for *_, code in ends)
        assert codes in ([0, 0], [0, 3]), ends
        for _, err, code in ends:
            assert code == 0 or re.search(r"another run is asking .*process( \d+ on|\))", err)
        code, out, err = run(*TINY, cwd=paid_workspace, emulator=emulator)
        assert code == 0, err
        assert manifest_of(out)["cost"]["usd_spent"] == 0
        assert len(emulator.billing.rows) == 36
        assert paid_twice(emulator) == []


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_is_resumed(paid_workspace: Path, kill: signal.Signals) -> None:
    """Ctrl-C says which batch goes on and how to resume; after a SIGKILL too, `resume` ends in
    the same record, and every request was paid once.
    """
    with Emulator(seed=3, batch_seconds=3600) as emulator:
        process = start(*TINY, cwd=paid_workspace, emulator=emulator)
        batch_id = wait_for_batch(paid_workspace, emulator)
        process.send_signal(kill)
        _, err = process.communicate(timeout=60)
        record = next((paid_workspace / "runs").iterdir())
        if kill is signal.SIGINT:
            assert process.returncode == 1
            assert batch_id in err
            assert "still running at the service" in err
            assert f"arena-kit resume {record}" in err
        emulator.clock.advance(hours=2)
        code, out, err = run("resume", str(record), cwd=paid_workspace, emulator=emulator)
        for _ in range(30):  # the orphaned kernel of a killed run may hold the ledger a little
            if code != 3:
                break
            time.sleep(1)
            code, out, err = run("resume", str(record), cwd=paid_workspace, emulator=emulator)
        assert code == 0, err
        manifest = manifest_of(out)
        assert manifest["status"] == "finished"
        assert len(manifest["earlier_tries"]) >= 1
        assert len(emulator.billing.rows) == 36
        assert paid_twice(emulator) == []
        assert manifest["cost"]["usd_spent"] == pytest.approx(emulator.billing.total_usd, abs=1e-9)
        code, _, err = run("resume", str(record), cwd=paid_workspace, emulator=emulator)
        assert code == 2
        assert "has finished" in err


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("-p", "max_cost_usd", "0.01"), 3, r"forecast at \$.*more than max_cost_usd 0.01 allows"),
        (("-p", "base_url", f"http://x/{KEY}"), 2, "base_url holds a key"),
    ],
)
def test_refused_runs(
    paid_workspace: Path, emulator: Emulator, words: tuple[str, ...], code: int, why: str
) -> None:
    """A run that may not be is refused with the documented code, and nothing is accepted."""
    found, _, err = run(*TINY, *words, cwd=paid_workspace, emulator=emulator)
    assert found == code, err
    assert re.search(why, err)
    assert emulator.billing.accepted == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"max_cost_usd": 0.0}, "spends money: set max_cost_usd"),
        ({"judge_model": "claude-9"}, "no price is known for the model 'claude-9'"),
        ({"judge_model": ""}, "needs judge_model"),
        ({"judge": "openai_compatible"}, "needs base_url"),
        ({"judge": "openai_compatible", "base_url": "https://far.example/v1"}, "no price is known"),
    ],
)
def test_refused_parameters(workspace: Path, changes: dict[str, object], why: str) -> None:
    """Parameters that could spend unseen are refused before a record exists."""
    given = {"judge": "anthropic", "judge_model": "claude-x", "max_cost_usd": 5.0} | changes
    if "judge_model" not in changes and given["judge"] == "anthropic":
        given["judge_model"] = "claude-opus-5-5"
    with pytest.raises(DataError, match=why):
        Study.open("pilot", **given)
    assert not (workspace / "runs").exists()


def test_the_key_is_nowhere(paid_workspace: Path, emulator: Emulator) -> None:
    """After a run that finished and one that the service refused, no file, no output and no
    database page holds the key.
    """
    said = []
    assert run(*TINY, cwd=paid_workspace, emulator=emulator)[0] == 0
    emulator.faults.add(Fault(on="create", kind="usage_limit", times=1))
    code, out, err = run(*TINY, "-p", "limit_pairs", "8", cwd=paid_workspace, emulator=emulator)
    assert code == 3
    assert "usage limits" in err
    said += [out, err]
    assert not any(KEY in text for text in said)
    files = [path for path in paid_workspace.rglob("*") if path.is_file()]
    assert any(path.suffix == ".sqlite" for path in files)
    assert len([path for path in files if path.name == "report.html"]) == 2
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


def test_a_run_that_fails_reports_what_it_paid(paid_workspace: Path, emulator: Emulator) -> None:
    """Half a batch is answered and paid, then credit ends: the failed manifest has the cost, the
    resumed one the whole, and the ledger alone, moved elsewhere, still answers everything.
    """
    emulator.faults.add(Fault(on="item", kind="credit_errored", share=0.5))
    code, out, err = run(*TINY, cwd=paid_workspace, emulator=emulator)
    assert code == 3, err
    assert "credit balance is too low" in err
    paid = emulator.billing.total_usd
    assert manifest_of(out)["cost"]["usd_spent"] == pytest.approx(paid, abs=1e-9)
    assert paid > 0
    code, out, err = run("resume", out.splitlines()[-1], cwd=paid_workspace, emulator=emulator)
    assert code == 0, err
    total = emulator.billing.total_usd
    assert manifest_of(out)["cost"]["usd_spent"] == pytest.approx(total, abs=1e-9)
    assert paid_twice(emulator) == []
    moved = make_workspace(paid_workspace.parent / "moved")
    ledger = Path(".arena_kit") / "verdicts.sqlite"
    (moved / ledger.parent).mkdir()
    shutil.copy(paid_workspace / ledger, moved / ledger)
    words = ("cost", "--params", "params/pilot_claude.yaml", "-p", "limit_pairs", "6", "--json")
    _, out, _ = run(*words, cwd=moved, emulator=emulator)
    assert json.loads(out)["forecast"]["requests"] == 0
