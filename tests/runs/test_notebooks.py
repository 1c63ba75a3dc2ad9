"""Headless runs: the real papermill, real kernels, the real command line."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import chdir
from pathlib import Path

import nbformat
import pytest
import yaml
from click.testing import CliRunner, Result
from papermill.cli import papermill

from arena_kit.cli.main import main
from arena_kit.runs.notebook import kernel
from arena_kit.runs.notebook import run as notebooks
from arena_kit.runs.record.compare import compare_records
from arena_kit.runs.record.record import Record
from tests.samples import (
    TOURNAMENT_ARTIFACTS,
    copy_workspace,
    without_report,
)

TINY = ("-p", "strata", "{open_recall: 3, vignette: 3, curated: 3}", "-p", "elo.n_perms", "20")


def arena_kit(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "arena_kit", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        env={name: value for name, value in os.environ.items() if "ARENA_KIT_RUN" not in name},
        check=False,
    )


def here(*words: str, cwd: Path) -> Result:
    """The command line in this process, where all it imports is there already."""
    with pytest.MonkeyPatch.context() as patch, chdir(cwd):
        patch.delenv("ARENA_KIT_RUNS", raising=False)
        patch.delenv("ARENA_KIT_RUN_TOKEN", raising=False)
        done = CliRunner().invoke(main, words)
    assert isinstance(done.exception, SystemExit | None), done.exception
    return done


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace for the two runs that several tests look at."""
    return copy_workspace(tmp_path_factory.mktemp("runs") / "workspace")


@pytest.fixture(scope="module")
def pilot(home: Path) -> subprocess.CompletedProcess[str]:
    """A small pilot, started below the root of its workspace."""
    done = arena_kit("run", "pilot", *TINY, cwd=home / "notebooks")
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def noisy(home: Path, pilot: subprocess.CompletedProcess[str]) -> Result:
    """The same pilot by a noisier judge, told as JSON, into a folder of its own."""
    path = home / "params" / "tournament.yaml"
    path.write_text(path.read_text().replace("noise: 0.06", "noise: 0.5"))
    without_report(home)
    return here("run", "pilot", *TINY, "--json", "--runs-dir", "elsewhere", cwd=home)


def record_of(run: subprocess.CompletedProcess[str] | Result) -> Path:
    """The record that a run names in its last line."""
    return Path(run.stdout.splitlines()[-1])


def test_run(home: Path, pilot: subprocess.CompletedProcess[str]) -> None:
    """`run pilot` prints the board, ends with the record's path, and leaves every artifact."""
    record = record_of(pilot)
    assert record.parent == home / "runs"
    assert "by Bradley–Terry" in pilot.stdout
    assert "Elo ± SEM" in pilot.stdout
    assert "aspen" in pilot.stdout
    said = json.loads((record / "answer.json").read_text())["said"]
    assert "\n".join(said) in pilot.stdout
    assert "Neighbouring orders decided" not in pilot.stdout, "the answer says it, and the report"
    found = {str(p.relative_to(record)) for p in record.rglob("*") if p.is_file()}
    assert found >= TOURNAMENT_ARTIFACTS | {
        "report.ipynb",
        "report.html",
        "figures/position_bias.png",
    }
    manifest = json.loads((record / "manifest.json").read_text())
    assert manifest["status"] == "finished"
    assert manifest["parameters"]["overrides"] == {"elo.n_perms": 20}
    assert manifest["parameters"]["seed"] == 0, "parameters that were not given stand there too"
    text = (record / "report.html").read_text()
    assert "<script" not in text
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in text
    rated = here("rate", str(record / "battles.jsonl"), "--method", "elo", "--json", cwd=home)
    assert rated.exit_code == 0, rated.stderr
    primary = json.loads((record / "elo_results.json").read_text())["primary"]
    ratings = json.loads(rated.stdout)["ratings"]
    assert {(r["dimension"], r["model"]): (r["rating"], r["ci_low"]) for r in ratings} == {
        (dimension, model): (entry["mean"], entry["ci95_low"])
        for dimension, entries in primary.items()
        for model, entry in entries.items()
    }


def test_failed_run(workspace: Path) -> None:
    """An offline run without verdicts is refused with exit 3; its record and report stay."""
    without_report(workspace)
    done = here("run", "pilot", *TINY, "--offline", cwd=workspace)
    assert done.exit_code == 3
    assert "verdicts are not in the cache" in done.stderr
    assert "Traceback" not in done.stderr
    record = record_of(done)
    assert json.loads((record / "manifest.json").read_text())["status"] == "failed"
    assert (record / "report.html").is_file()


def test_report_that_cannot_be_written(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose report cannot be written is a failed run, not one that runs for ever: it exits
    1 with a sentence and the command that goes on.
    """
    without_report(workspace)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(notebooks, "export_report", full)
    done = here("run", "pilot", "-p", "limit_pairs", "2", "-p", "elo.n_perms", "20", cwd=workspace)
    assert done.exit_code == 1
    assert "No space left on device" in done.stderr
    assert f"go on with: arena-kit resume {record_of(done)}" in done.stderr
    assert json.loads((record_of(done) / "manifest.json").read_text())["status"] == "failed"


def test_json(home: Path, noisy: Result) -> None:
    """`--json` prints the manifest and nothing else; the record is in the folder asked for."""
    (record,) = (home / "elsewhere").iterdir()
    assert json.loads(noisy.stdout) == json.loads((record / "manifest.json").read_text())


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ["run", "nonsense"],
            "no notebook 'nonsense'; known: adaptive, headline, judge_report, k_sweep",
        ),
        (["run", "pilot", "-p", "n_prems", "5"], "unknown parameter 'n_prems'.*overrides"),
        (["run", "pilot", "-p", "elo.n_perms", "-5"], "elo: n_perms must be 1 to 1,000,000"),
        (["run", "pilot", "-p", "judge.address", "x"], "unknown key 'judge.address'; allowed"),
        (["run", "pilot", "--params", "missing.yaml"], "missing.yaml: no such file"),
    ],
)
def test_refused_before_start(workspace: Path, words: list[str], why: str) -> None:
    """Wrong usage ends with exit 2 and one sentence, before any record exists."""
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert re.search(why, done.stderr), done.stderr
    assert not (workspace / "runs").exists()


def test_unknown_key_in_params_file(workspace: Path) -> None:
    """An unknown key in a params file is refused with the file's name."""
    path = workspace / "params" / "pilot.yaml"
    path.write_text(yaml.safe_dump({"judge": "baseline", "temperature": 0}))
    done = CliRunner().invoke(main, ["run", "pilot"])
    assert done.exit_code == 2
    assert "pilot.yaml: unknown parameter 'temperature'" in done.stderr


def test_locked(workspace: Path) -> None:
    """A record folder that another run holds is refused with exit 3."""
    taken = workspace / "runs" / "mine"
    taken.mkdir(parents=True)
    (taken / ".claim").write_text("someone else")
    done = CliRunner().invoke(main, ["run", "pilot", *TINY, "-p", "run_dir", "runs/mine"])
    assert done.exit_code == 3
    assert "belongs to another run" in done.stderr


def test_plain_papermill(workspace: Path) -> None:
    """Bare papermill with a params file works as written and leaves a finished record."""
    without_report(workspace)
    words = ["notebooks/pilot.ipynb", "out.ipynb", "-f", "params/pilot.yaml"]
    words += ["-p", "limit_pairs", "6"]
    done = CliRunner().invoke(papermill, words)
    assert done.exit_code == 0, done.output
    (record,) = (workspace / "runs").iterdir()
    assert json.loads((record / "manifest.json").read_text())["status"] == "finished"
    assert (workspace / "out.ipynb").is_file()


def test_session_that_ends_early(workspace: Path) -> None:
    """A notebook session that ends before saving leaves a failed record, not a running one."""
    code = "import arena_kit as ak; judgments = ak.judge(ak.read_plan('pilot', limit_pairs=2))"
    subprocess.run([sys.executable, "-c", code], cwd=workspace, check=True, timeout=60)
    (record,) = (workspace / "runs").iterdir()
    manifest = json.loads((record / "manifest.json").read_text())
    assert manifest["status"] == "failed"
    assert "ended before" in manifest["error"]


@pytest.mark.usefixtures("noisy")
def test_compare(home: Path, pilot: subprocess.CompletedProcess[str]) -> None:
    """Comparing two runs shows the setting that changed, flipped verdicts and moved ratings."""
    first, (second,) = record_of(pilot), (home / "elsewhere").iterdir()
    found = compare_records(first, second)
    assert found.settings["tournament.judge.baseline.noise"] == (0.06, 0.5)
    assert found.n_shared == 2 * 6 * (6 + 9 + 9)
    assert found.flips
    assert any(delta.change for delta in found.deltas)
    done = CliRunner().invoke(main, ["runs", "compare", str(first), str(second)])
    assert done.exit_code == 0, done.stderr
    assert "tournament.judge.baseline.noise" in done.stdout
    assert f"{len(found.flips)} of {found.n_shared} shared" in done.stdout
    same = CliRunner().invoke(main, ["runs", "compare", str(first), str(first)])
    assert "no difference" in same.stdout
    assert "0 of" in same.stdout


def test_report_is_clean(pilot: subprocess.CompletedProcess[str]) -> None:
    """A headless report holds no warning and no path of this machine's installation."""
    text = (record_of(pilot) / "report.html").read_text()
    assert "Warning" not in text
    assert "site-packages" not in text


def test_terminated(workspace: Path) -> None:
    """A run that is told to stop leaves a failed record, not one that runs for ever."""
    without_report(workspace, "headline")
    process = subprocess.Popen(
        [sys.executable, "-m", "arena_kit", "run", "headline"],
        cwd=workspace,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    manifest = None
    for _ in range(600):
        time.sleep(0.1)
        if found := list(workspace.glob("runs/*/matches/matches.jsonl")):
            manifest = found[0].parent.parent / "manifest.json"
            break
    process.terminate()
    process.wait(timeout=60)
    assert manifest is not None
    assert json.loads(manifest.read_text())["status"] == "failed"


def test_what_was_shown_before_a_kernel_died_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However seldom the notebook is saved, it is when its kernel has died."""
    monkeypatch.setattr(kernel, "_SAVED_EVERY", 3600.0)
    cells = [nbformat.v4.new_code_cell(code) for code in ("print(6 * 7)", "import os; os._exit(1)")]
    python = {"kernelspec": {"name": "python3", "language": "python", "display_name": "Python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=python), tmp_path / "dies.ipynb")
    record = Record.create(tmp_path / "runs", "dies")
    with pytest.raises(RuntimeError, match="Kernel died"):
        kernel.execute(tmp_path / "dies.ipynb", record, {}, tmp_path)
    first, second = nbformat.read(record.path / "report.ipynb", as_version=4).cells
    assert (first.outputs[0].text, second.outputs) == ("42\n", [])


def test_unusable_runs_folder(workspace: Path) -> None:
    """A runs folder that cannot be made is one sentence and exit 2."""
    (workspace / "file").write_text("")
    done = CliRunner().invoke(main, ["run", "pilot", *TINY, "--runs-dir", "file/sub"])
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.slow  # two whole runs on a disk of their own; a report without room is the quick one
def test_a_full_disk_names_the_way_to_go_on(workspace: Path) -> None:
    """A run whose disk is full exits 1 with a sentence and the command that goes on, which
    finishes the record once there is room.
    """
    if shutil.which("unshare") is None:
        pytest.skip("no unshare on this machine")
    (workspace / "runs").mkdir()
    python = shlex.quote(sys.executable)
    script = f"""
        mount -t tmpfs -o size=100k tmpfs runs || exit 99
        {python} -m arena_kit run pilot -p limit_pairs 6 -p elo.n_perms 20
        echo "run: $?"
        mount -o remount,size=50m runs
        {python} -m arena_kit resume runs/pilot_*
        echo "resume: $?"
    """
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", script],
        cwd=workspace, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if done.returncode == 99 or "unshare failed" in done.stderr:
        pytest.skip("this machine mounts nothing for an ordinary user")
    assert "run: 1" in done.stdout, done.stderr
    assert "No space left on device" in done.stderr
    assert "go on with: arena-kit resume" in done.stderr
    assert "Traceback" not in done.stderr
    assert "resume: 0" in done.stdout, done.stderr
