"""Records: who may go on with one; the report that a live kernel leaves."""

import json
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from jupyter_client.manager import start_new_kernel

from arena_kit.files import DataError, LockedError
from arena_kit.runs.record.live_report import SESSION_VARIABLE
from arena_kit.runs.record.record import Record
from tests.samples import SMALL, call, without_report

SESSION = """
import arena_kit as ak
judgments = ak.judge(ak.read_plan("pilot", limit_pairs=6))
input()
"""
REOPEN = """
import sys
from pathlib import Path
from arena_kit.files import LockedError
from arena_kit.runs.record.record import Record
print("ready", flush=True)
input()
try:
    record = Record.reopen(Path(sys.argv[1]))
except LockedError:
    print("refused", flush=True)
else:
    print("runs", flush=True)
input()
"""


def start(*words: str, cwd: Path) -> subprocess.Popen[str]:
    """A command in a session of its own, so that it can be killed with its kernel."""
    return subprocess.Popen(
        [sys.executable, *words], cwd=cwd, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def running_record(workspace: Path) -> Path:
    """The record that a process has just begun."""
    for _ in range(600):
        for manifest in (workspace / "runs").glob("*/manifest.json"):
            return manifest.parent
        time.sleep(0.1)
    raise AssertionError("no record was begun within a minute")


def killed_session(workspace: Path) -> Path:
    """The record of a notebook session that held it, and was killed while it ran."""
    process = start("-c", SESSION, cwd=workspace)
    record = running_record(workspace)
    done = call("resume", record)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert done.exit_code == 3, done.output
    assert f"still going (process {process.pid} on" in done.stderr
    return record


def test_a_killed_run_may_be_resumed(workspace: Path) -> None:
    """After a SIGKILL a record can be taken up whoever it names, by one of two at once."""
    path, here = killed_session(workspace), socket.gethostname()
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["status"] == "running"
    for name, process in {
        "the host has another name": {"pid": 4, "host": "another-name"},
        "the pid is used again": {"pid": os.getpid(), "host": here},
        "under pid 1": {"pid": 1, "host": here},
    }.items():
        copy = shutil.copytree(path, workspace / "runs" / name)
        (copy / "manifest.json").write_text(json.dumps(manifest | {"process": process}))
        assert Record.reopen(copy).path == copy, name
    both = [start("-c", REOPEN, str(path), cwd=workspace) for _ in range(2)]
    assert [each.stdout.readline() for each in both if each.stdout] == ["ready\n"] * 2
    for each in both:
        print(file=each.stdin, flush=True)
    answers = [each.stdout.readline().strip() for each in both if each.stdout]
    for each in both:
        each.communicate("\n", timeout=60)
    assert sorted(answers) == ["refused", "runs"]


def test_a_kernel_that_outlives_its_runner_holds_the_record(workspace: Path) -> None:
    """When only the runner is killed, its record is free once its kernel has ended, too."""
    without_report(workspace)
    process = start("-m", "arena_kit", "run", "pilot", cwd=workspace)
    record = running_record(workspace)
    while "prompt_set" not in json.loads((record / "manifest.json").read_text()):
        time.sleep(0.05)  # which the kernel writes
    children = psutil.Process(process.pid).children()
    [kernel] = [child.pid for child in children if "ipykernel" in str(child.cmdline())]
    os.kill(kernel, signal.SIGSTOP)  # it would end by itself within a second or two
    try:
        process.kill()
        process.wait(timeout=60)
        with pytest.raises(LockedError):
            Record.reopen(record)
    finally:
        os.kill(kernel, signal.SIGKILL)
        process.communicate(timeout=60)
    for _ in range(100):
        try:
            Record.reopen(record)
        except LockedError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the record is still held ten seconds after its kernel was killed")


def test_a_failed_step_lets_go_and_the_next_one_takes_hold(tmp_path: Path) -> None:
    """A record is free for `resume` after a step failed."""
    record = Record.create(tmp_path, "pilot")
    record.start("pilot", {})
    with pytest.raises(LockedError, match="still going"):
        Record.reopen(record.path)
    with pytest.raises(ZeroDivisionError), record.failing():
        _ = 1 / 0
    other = Record.reopen(record.path)
    with pytest.raises(LockedError, match="still going"), record.failing():
        pass
    other.start("pilot", {})
    other.close()
    with pytest.raises(DataError, match="has finished"):
        Record.reopen(record.path)


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        ("[1, 2]", "manifest.json: expected a JSON object with a run's facts, got list"),
        ('{"mode": "pilot", "parameters": [3]}', "parameters must be a mapping, got list"),
    ],
)
def test_a_manifest_of_another_kind_is_one_sentence(
    workspace: Path, manifest: str, why: str
) -> None:
    """`resume` of a record whose manifest is no object, or names no parameters, exits 2."""
    record = workspace / "runs" / "odd"
    record.mkdir(parents=True)
    (record / "manifest.json").write_text(manifest)
    done = call("resume", record)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert why in done.stderr


OPEN = f"""
import arena_kit as ak
plan = ak.read_plan('pilot', **{SMALL})
judgments = ak.judge(plan)
battles = ak.to_battles(judgments)
board = ak.rate(battles, **plan.rating)
"""
SAVE = "record = ak.publish(board, judgments)\nprint('saved', 6 * 7)"


class Kernel:
    """A kernel as a front end sees it, without a file that it would have saved."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def run(self, source: str, cell_id: str = "") -> str:
        """Run a cell; returns what went wrong, empty where nothing did."""
        content = {"code": source, "silent": False, "store_history": True, "stop_on_error": False}
        message = self.client.session.msg("execute_request", content, metadata={"cellId": cell_id})
        self.client.shell_channel.send(message)
        while True:
            try:
                reply = self.client.get_shell_msg(timeout=60)
            except queue.Empty:
                raise AssertionError(f"no answer to: {source}") from None
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return str(reply["content"].get("evalue", ""))


@contextmanager
def kernel(folder: Path, **environment: str) -> Iterator[Kernel]:
    manager, client = start_new_kernel(cwd=str(folder), kernel_name="python3", env=environment)
    try:
        yield Kernel(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture
def notebook(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A notebook that was last saved before it ran, with another title for its figure."""
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "1")
    monkeypatch.setenv(SESSION_VARIABLE, str(workspace / "mine.ipynb"))
    cells = [
        nbformat.v4.new_markdown_cell("# Mine"),
        nbformat.v4.new_code_cell("seed = 1", id="p", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(OPEN, id="open"),
        nbformat.v4.new_markdown_cell("## Wins"),
        nbformat.v4.new_code_cell("never_run()", id="stale"),
        nbformat.v4.new_code_cell("1 / 0  # as it was saved", id="figure"),
        nbformat.v4.new_code_cell(SAVE, id="save"),
    ]
    node = nbformat.v4.new_notebook(cells=cells, metadata={"title": "Mine"})
    path = workspace / "mine.ipynb"
    nbformat.write(node, path)
    return path


def records(workspace: Path) -> list[dict[str, Any]]:
    files = sorted((workspace / "runs").glob("*/manifest.json"))
    return [json.loads(file.read_text()) for file in files]


def test_a_session_in_lab_leaves_a_report(notebook: Path) -> None:
    """A record that a notebook in Lab closes has report.html; one opened anew is failed."""
    root = notebook.parent
    with kernel(root, **os.environ) as live:
        assert (live.run(OPEN, "open"), live.run(OPEN, "open")) == ("", "")
        assert [each["status"] for each in records(root)] == ["failed", "running"]
        assert records(root)[0]["error"] == "opened again before the record was saved"
        assert live.run("ak.reporting.tournament_plots.winrates(battles, board)", "figure") == ""
        assert (live.run("print('an aside')"), live.run(SAVE, "save")) == ("", "")
    assert [each["status"] for each in records(root)] == ["failed", "finished"]
    folder = max((root / "runs").iterdir())
    html = (folder / "report.html").read_text()
    assert "<script" not in html
    shown = re.sub(r"<[^>]+>", "", html)
    for text in ("Mine", "saved 42", "an aside", "seed = 0"):
        assert text in shown, text
    for text in ("never_run", "as it was saved", "seed = 1\n"):
        assert text not in shown, text
    (picture,) = re.findall(r"<img [^>]+>", html)
    assert 'alt="Share of decisive battles' in picture
    assert shown.index("Wins") < shown.index("an aside") < shown.index("saved 42")
    assert nbformat.read(folder / "report.ipynb", as_version=4).metadata["title"] == "Mine"
