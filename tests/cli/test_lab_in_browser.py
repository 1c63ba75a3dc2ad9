"""A real JupyterLab in a real browser: *Run All*, as somebody does who has just installed it."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import nbformat
import pytest

from arena_kit.runs.settings.workspace import START
from tests.browser import Browser, running_browser
from tests.samples import newcomer, newcomers_environment

_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/lab/tree/\S+\?token=\w+")
_PANEL = ".jp-NotebookPanel:not(.lm-mod-hidden)"
_STATUS = f"document.querySelector('{_PANEL} .jp-Notebook-ExecutionIndicator')?.dataset.status"
_KERNEL_IS_IDLE = """(() => {
    const asked = new XMLHttpRequest();
    asked.open("GET", "/api/sessions", false);
    asked.send();
    const sessions = JSON.parse(asked.responseText);
    return sessions.some((s) => s.name === "NAME" && s.kernel.execution_state === "idle");
})()"""
_IS_RUNNING = (
    f"[...document.querySelectorAll('{_PANEL} .jp-InputPrompt')].some((e) => "
    "e.textContent.includes('*'))"
)
_RUN_MENU, _RUN_ALL = ".lm-MenuBar-item:nth-child(4)", ".lm-Menu [data-command='runmenu:run-all']"
_SAVE = f"{_PANEL} [data-jp-item-name='save'] jp-button"
_WINDOW, _OUTPUT = ".jp-WindowedPanel-outer", ".jp-OutputArea-output"
_PATIENCE = 240.0  # seconds, on a machine that others load


@pytest.mark.slow  # a virtual environment with every dependency and JupyterLab, and all notebooks
def test_run_all_in_lab(installed: Path, tmp_path: Path) -> None:
    """*Run All Cells* of every notebook ends without an error, and each run leaves a record."""
    command, root = installed / "venv" / "bin" / "arena-kit", tmp_path / "new"
    newcomer(command, "init", root)
    pilot = "notebooks/pilot.ipynb"
    with (
        running_browser(tmp_path / "profile", loopback=True) as page,
        running_lab(command, root) as address,
    ):
        page.size(1280)
        page.go(address)
        assert_all_is_well(run_all(page, root / START))
        assert "1 elm" in scrolled_to(page, "95% interval")
        assert "pilot_" in scrolled_to(page, "The report of this run")
        assert "battles of pilot_" in scrolled_to(page, "BattleReader(")
        page.go(address.replace(START, pilot) + "&reset")  # without the tab of the other one
        assert_all_is_well(run_all(page, root / pilot))
        assert "1 aspen 1723" in scrolled_to(page, "rank range")
        for notebook in sorted(set((root / "notebooks").glob("*.ipynb")) - {root / pilot}):
            page.go(address.replace(START, f"notebooks/{notebook.name}") + "&reset")
            assert_all_is_well(run_all(page, notebook))
        assert elsewhere(page) == []
    records = sorted((root / "runs").iterdir())
    assert len(records) == 1 + len(list((root / "notebooks").glob("*.ipynb")))
    for record in records:
        assert json.loads((record / "manifest.json").read_text())["status"] == "finished"
        assert "<h1" in (record / "report.html").read_text()


def assert_all_is_well(cells: list[Any]) -> None:
    """Every cell ran, and none says that it failed."""
    for cell in cells:
        assert cell.execution_count, cell.source
        for output in cell.outputs:
            assert output.output_type != "error", output
            assert output.get("name") != "stderr", output


def elsewhere(page: Browser) -> list[str]:
    """What the page asked of others than Lab."""
    ours = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:", "about:")
    return [address for address in page.requests if not address.startswith(ours)]


@contextmanager
def running_lab(command: Path, root: Path) -> Iterator[str]:
    """JupyterLab in a workspace, on a free port of this machine; yields the address it prints."""
    options = ["--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0"]
    log = root.parent / "lab.log"
    with log.open("w") as told:
        process = subprocess.Popen(
            [command, "lab", *options], cwd=root, env=newcomers_environment(), stdout=told,
            stderr=told,
        )  # fmt: skip
        try:
            yield _address(process, log)
        finally:
            process.terminate()
            process.wait(timeout=60)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    end = monotonic() + _PATIENCE
    while process.poll() is None and monotonic() < end:
        if told := _ADDRESS.search(log.read_text()):
            return told.group()
        sleep(0.1)
    pytest.fail(f"JupyterLab names no address: {log.read_text()}")


def run_all(page: Browser, notebook: Path) -> list[Any]:
    """Choose *Run All Cells* with the mouse, wait, save; the cells that ran, from the file."""
    page.until(_KERNEL_IS_IDLE.replace("NAME", notebook.name))
    wait_until_settled(page)
    page.click(_RUN_MENU)
    page.until(f'document.querySelector("{_RUN_ALL}")')
    page.click(_RUN_ALL)
    page.until(_IS_RUNNING)
    end = monotonic() + _PATIENCE
    while not ((cells := _saved(notebook)) and cells[-1].outputs):
        assert monotonic() < end, f"{notebook}: never ends; shown: {page.text()[-2000:]}"
        assert not [out for cell in cells for out in cell.outputs if out.output_type == "error"]
        page.until(f"{_STATUS} === 'idle'")
        page.click(_SAVE)
        sleep(0.2)
    return cells


def wait_until_settled(page: Browser) -> None:
    """Wait until the kernel has been idle for a while; it says so, too, before it connects."""
    since, end = monotonic(), monotonic() + _PATIENCE
    while monotonic() < since + 3:
        assert monotonic() < end, f"the kernel is {page.run(_STATUS)}"
        if page.run(_STATUS) != "idle":
            since = monotonic()
        sleep(0.05)


def _saved(notebook: Path) -> list[Any]:
    """The code cells of a file, none while Lab is writing it."""
    try:
        cells = nbformat.read(notebook, as_version=4).cells
    except nbformat.reader.NotJSONError:
        return []
    return [cell for cell in cells if cell.cell_type == "code"]


def scrolled_to(page: Browser, text: str) -> str:
    """Scroll down until an output has a text; all of that output on one line."""
    page.run(f"document.querySelector('{_PANEL} {_WINDOW}').scrollTop = 0")
    found = f"[...document.querySelectorAll('{_PANEL} {_OUTPUT}')].map((e) => e.innerText)"
    for _ in range(100):
        for shown in page.run(found):
            if text in shown:
                return " ".join(shown.split())
        page.run(f"document.querySelector('{_PANEL} {_WINDOW}').scrollTop += 400")
        sleep(0.1)
    pytest.fail(f"no output with {text!r} is seen")
