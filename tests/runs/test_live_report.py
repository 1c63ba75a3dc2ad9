"""Records of a live kernel: the report it leaves, and cells that run twice."""

from __future__ import annotations

import json
import os
import queue
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel

from arena_kit.runs.record.live_report import SESSION_VARIABLE
from tests.samples import SMALL

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
        assert live.run(OPEN, "open") == ""
        assert live.run(OPEN, "open") == ""
        assert [each["status"] for each in records(root)] == ["failed", "running"]
        assert records(root)[0]["error"] == "opened again before the record was saved"
        assert live.run("ak.reporting.tournament_plots.winrates(battles, board)", "figure") == ""
        assert live.run("print('an aside')") == ""
        assert live.run(SAVE, "save") == ""
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
