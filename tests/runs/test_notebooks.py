"""Headless runs: the real papermill, real kernels, the real command line."""

from __future__ import annotations

import os
import re
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
from arena_kit.files import read_json
from arena_kit.runs.notebook import run as notebooks
from arena_kit.runs.record.record import Record
from tests.samples import TOURNAMENT_ARTIFACTS, call, copy_workspace, without_report

TINY = ("-p", "strata", "{open_recall: 3, vignette: 3, curated: 3}", "-p", "elo.n_perms", "20")


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
    done = subprocess.run(
        [sys.executable, "-m", "arena_kit", "run", "pilot", *TINY],
        cwd=home / "notebooks",
        capture_output=True,
        text=True,
        timeout=300,
        env={name: value for name, value in os.environ.items() if "ARENA_KIT_RUN" not in name},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def named(run: subprocess.CompletedProcess[str] | Result) -> Path:
    """The record that a run names in its last line."""
    return Path(run.stdout.splitlines()[-1])


def test_run(home: Path, pilot: subprocess.CompletedProcess[str]) -> None:
    """`run pilot` prints board, answer and path; the report runs nothing."""
    record = named(pilot)
    assert record.parent == home / "runs"
    assert "Elo ± SEM" in pilot.stdout
    said = read_json(record / "answer.json")["said"]
    assert "\n".join(said) in pilot.stdout
    found = {str(p.relative_to(record)) for p in record.rglob("*") if p.is_file()}
    extra = {"report.ipynb", "report.html", "board.json", "figures/position_bias.png"}
    assert found >= TOURNAMENT_ARTIFACTS | extra
    manifest = read_json(record / "manifest.json")
    assert manifest["status"] == "finished"
    assert manifest["parameters"]["overrides"] == {"elo.n_perms": 20}
    assert manifest["parameters"]["seed"] == 0, "parameters that were not given stand there too"
    text = (record / "report.html").read_text()
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in text
    assert not [word for word in ("<script", "Warning", "site-packages") if word in text]
    assert text.index('class="answer"') < text.index("<h2")


def test_failed_run(workspace: Path) -> None:
    """An offline run without verdicts is refused with exit 3; its record and report stay in the
    folder asked for, and `--json` prints the manifest and nothing else.
    """
    without_report(workspace)
    words = ("--offline", "--json", "--runs-dir", "elsewhere")
    done = here("run", "pilot", *TINY, *words, cwd=workspace)
    assert done.exit_code == 3
    assert "verdicts are not in the cache" in done.stderr
    assert "Traceback" not in done.stderr
    (record,) = (workspace / "elsewhere").iterdir()
    assert yaml.safe_load(done.stdout) == read_json(record / "manifest.json")
    assert read_json(record / "manifest.json")["status"] == "failed"
    assert (record / "report.html").is_file()


def test_report_that_cannot_be_written(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose report cannot be written is a failed run, not one that runs for ever."""
    without_report(workspace)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(notebooks, "export_report", full)
    done = here("run", "pilot", "-p", "limit_pairs", "2", cwd=workspace)
    assert done.exit_code == 1
    assert "No space left on device" in done.stderr
    assert f"go on with: arena-kit resume {named(done)}" in done.stderr
    assert read_json(named(done) / "manifest.json")["status"] == "failed"


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["nonsense"], 2, "no notebook 'nonsense'; known: adaptive, headline, judge_report"),
        (["pilot", "-p", "n_prems", "5"], 2, "unknown parameter 'n_prems'.*overrides"),
        (["pilot", "-p", "elo.n_perms", "-5"], 2, "elo: n_perms must be 1 to 1,000,000"),
        (["pilot", "-p", "judge.address", "x"], 2, "unknown key 'judge.address'; allowed"),
        (["pilot", "--params", "missing.yaml"], 2, "missing.yaml: no such file"),
        (["pilot", "--params", "odd.yaml"], 2, "odd.yaml: unknown parameter 'temperature'"),
        (["pilot", *TINY, "--runs-dir", "odd.yaml/sub"], 2, "odd.yaml"),
        (["pilot", *TINY, "-p", "run_dir", "mine"], 3, "belongs to another run"),
    ],
)
def test_refused_before_start(workspace: Path, words: list[str], code: int, why: str) -> None:
    """Wrong usage and a folder that another run holds end with one sentence, before any record."""
    (workspace / "odd.yaml").write_text("temperature: 0\n")
    (workspace / "mine").mkdir()
    (workspace / "mine" / ".claim").write_text("someone else")
    done = call("run", *words)
    assert done.exit_code == code
    assert len(done.stderr.strip().splitlines()) == 1
    assert re.search(why, done.stderr), done.stderr
    assert not (workspace / "runs").exists()


def test_dotted_names_replace_settings(workspace: Path) -> None:
    """A dotted key of a params file, its `overrides` and `-p` are one thing."""
    (workspace / "own.yaml").write_text(
        "judge.transport: messages\noverrides: {elo.n_perms: 30, elo.seed: 3}\n"
    )
    run = notebooks.NotebookRun.resolve(
        "pilot",
        workspace,
        params_file=workspace / "own.yaml",
        overrides={"elo.n_perms": "20", "judge.key_variable": "ON"},
    )
    wanted = {"elo.n_perms": 20, "elo.seed": 3}
    wanted |= {"judge.transport": "messages", "judge.key_variable": "ON"}
    assert run.params.overrides == run.given["overrides"] == wanted
    assert run.tournament().tournament.elo.n_perms == 20


def test_plain_papermill(workspace: Path) -> None:
    """Bare papermill with a params file works as written and leaves a finished record."""
    without_report(workspace)
    words = ["notebooks/pilot.ipynb", "out.ipynb", "-f", "params/pilot.yaml"]
    done = CliRunner().invoke(papermill, [*words, "-p", "limit_pairs", "6"])
    assert done.exit_code == 0, done.output
    (record,) = (workspace / "runs").iterdir()
    assert read_json(record / "manifest.json")["status"] == "finished"
    assert (workspace / "out.ipynb").is_file()


def test_session_that_ends_early(workspace: Path) -> None:
    """A session that ends before it publishes leaves a failed record, not a running one."""
    code = "import arena_kit as ak; judgments = ak.judge(ak.read_plan('pilot', limit_pairs=2))"
    subprocess.run([sys.executable, "-c", code], cwd=workspace, check=True, timeout=60)
    (record,) = (workspace / "runs").iterdir()
    manifest = read_json(record / "manifest.json")
    assert manifest["status"] == "failed"
    assert "ended before" in manifest["error"]


def test_terminated(workspace: Path) -> None:
    """A run that is told to stop leaves a failed record, not one that runs for ever."""
    without_report(workspace, "headline")
    process = subprocess.Popen(
        [sys.executable, "-m", "arena_kit", "run", "headline"],
        cwd=workspace,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for _ in range(600):
        time.sleep(0.1)
        if list(workspace.glob("runs/*/matches/matches.jsonl")):
            break
    process.terminate()
    process.wait(timeout=60)
    (manifest,) = workspace.glob("runs/*/manifest.json")
    assert read_json(manifest)["status"] == "failed"


def test_what_was_shown_before_a_kernel_died_is_kept(tmp_path: Path) -> None:
    """The notebook is saved with what it has shown when its kernel has died."""
    cells = [nbformat.v4.new_code_cell(code) for code in ("print(6 * 7)", "import os; os._exit(1)")]
    python = {"kernelspec": {"name": "python3", "language": "python", "display_name": "Python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=python), tmp_path / "dies.ipynb")
    record = Record.create(tmp_path / "runs", "dies")
    with pytest.raises(RuntimeError, match="Kernel died"):
        notebooks.execute(tmp_path / "dies.ipynb", record, {}, tmp_path)
    first, second = nbformat.read(record.path / "report.ipynb", as_version=4).cells
    assert (first.outputs[0].text, second.outputs) == ("42\n", [])
