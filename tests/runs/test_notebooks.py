"""Headless runs: the real papermill, real kernels, the real command line, and what it says."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from click.testing import CliRunner
from papermill.cli import papermill

from arena_kit import write_battles
from arena_kit.files import read_json
from arena_kit.runs.notebook import run as notebooks
from arena_kit.runs.record import progress
from arena_kit.runs.record.progress import Progress
from arena_kit.runs.record.record import Record
from tests import samples
from tests.emulator import Emulator
from tests.samples import (
    COLUMNS,
    call,
    in_a_terminal,
    judgments_of,
    log_of,
    states,
    without_report,
    won,
)

LONG = "a note of a service that goes on and on " * 5


def test_a_long_line_is_cut_and_cleared_whole(tmp_path: Path) -> None:
    """A note that is longer than the terminal never wraps, wide characters count twice."""
    code = (
        "import sys, time; from arena_kit.runs.record.progress import status_line\n"
        "with status_line(lambda: sys.argv[1]): time.sleep(0.7)"
    )
    for text, fits in ((LONG, COLUMNS - 1), ("評" * 90, (COLUMNS - 1 - 5) // 2 + 5)):
        *shown, last = states(in_a_terminal(code, text, cwd=tmp_path)[1])
        assert last == ""
        assert shown
        assert all(0 < len(each) <= fits for each in shown)


def test_a_log_has_plain_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where stderr is no terminal, a run writes a line whenever there is something new."""
    monkeypatch.setattr(progress, "LINE_EVERY", 0.02)
    words = ["3 of 9 verdicts; \x1b[2Jbusy", "9 of 9 verdicts"]
    with progress.status_line(lambda: words[0] if len(words) > 1 else words[-1], lines=True):
        time.sleep(0.2)
        words.pop(0)
        time.sleep(0.2)
    lines = ["3 of 9 verdicts; [U+001B][2Jbusy", "9 of 9 verdicts"]
    assert capsys.readouterr().err.splitlines() == lines


def test_rate_says_that_it_is_at_work(tmp_path: Path) -> None:
    """`rate` says what it reads and how many battles it rates, where that takes a while."""
    write_battles(tmp_path / "votes.jsonl", log_of(won("ash", "beech", 20, 12)))
    code = (
        "from arena_kit.runs.record import progress; progress.PATIENCE = 0\n"
        "from arena_kit.cli.main import main; main()"
    )
    _, written = in_a_terminal(code, "rate", "votes.jsonl", cwd=tmp_path)
    assert "reading votes.jsonl" in written
    assert "rating 32 battles" in written
    assert states(written)[-1] == ""


def test_dollars_are_counted(workspace: Path, service: Emulator) -> None:
    """The progress file has the dollars that the service has billed this run."""
    own = {"judge": "anthropic", "max_cost_usd": 5.0, "limit_pairs": 2, "preflight": False}
    study = judgments_of("pilot", **own, n_perms=20)
    assert len(study) == 3 * 2
    Progress(study.record).show(12, 12)
    now = json.loads((study.record.path / "progress.json").read_text())
    assert (now["verdicts"], now["of"]) == (12, 12)
    assert now["usd"] == pytest.approx(service.billing.total_usd)
    assert now["usd"] > 0
    samples.published(study)


TINY = ("-p", "strata", "{open_recall: 3, vignette: 3, curated: 3}", "-p", "elo.n_perms", "20")


def test_report_that_cannot_be_written(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose report cannot be written is a failed run, not one that runs for ever."""
    without_report(workspace, steps="6 * 7")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(notebooks, "export_report", full)
    done = call("run", "pilot", "-p", "limit_pairs", "2")
    assert done.exit_code == 1
    assert "No space left on device" in done.stderr
    record = Path(done.stdout.splitlines()[-1])
    assert re.fullmatch(r"pilot_\d{8}_\d{6}", record.relative_to(workspace / "runs").name)
    assert f"to resume: arena-kit resume {record}" in done.stderr
    assert read_json(record / "manifest.json")["status"] == "failed"


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
    assert (done.exit_code, len(done.stderr.strip().splitlines())) == (code, 1)
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
        overrides={"elo.n_perms": "20", "judge.base_url": "http://127.0.0.1:9"},
    )
    wanted = {"elo.n_perms": 20, "elo.seed": 3}
    wanted |= {"judge.transport": "messages", "judge.base_url": "http://127.0.0.1:9"}
    assert run.params.overrides == run.given["overrides"] == wanted
    assert run.tournament().tournament.elo.n_perms == 20


def test_plain_papermill(workspace: Path) -> None:
    """Bare papermill with a params file works as written and leaves a finished record."""
    without_report(workspace)
    words = ["notebooks/pilot.ipynb", "out.ipynb", "-f", "params/pilot.yaml"]
    done = CliRunner().invoke(papermill, [*words, "-p", "limit_pairs", "2"])
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
    """A run says in the terminal where it is and leaves no trace of it; told to stop, here by its
    own notebook, it leaves a failed record, not one that runs for ever.
    """
    stops = "os.kill(os.getppid(), signal.SIGTERM)"
    steps = f"import os, signal, time; time.sleep(1); {stops}; time.sleep(60)"
    without_report(workspace, steps=steps)
    code = "from arena_kit.cli.main import main; main()"
    words = ("run", "pilot", "-p", "limit_pairs", "2")
    printed, written = in_a_terminal(code, *words, cwd=workspace / "notebooks", ends=1)
    *shown, last = states(written.partition("error: ")[0])
    assert last == ""
    assert shown[0].startswith("0:00 checking parameters, data and judge")
    assert any("running the notebook" in each for each in shown)
    assert all(re.match(r"(\d+:\d\d .+)?$", each) and len(each) < COLUMNS for each in shown)
    record = Path(printed.splitlines()[-1])
    assert record.parent == workspace / "runs"
    assert read_json(record / "manifest.json")["status"] == "failed"


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
