"""`arena-kit lab` and the notebook that it opens on."""

import ast
import json
import os
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import nbformat
import pytest
from click.testing import CliRunner

from arena_kit.cli.main import main
from arena_kit.runs.settings.workspace import START
from tests.samples import ROOT, edited, run_cells


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A workspace as `init` makes it."""
    done = CliRunner().invoke(main, ["init", str(tmp_path / "new")])
    assert done.exit_code == 0, done.output
    return tmp_path / "new"


def test_without_lab(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where JupyterLab is not installed, one sentence says how to install it."""
    monkeypatch.setitem(sys.modules, "jupyterlab", None)
    with chdir(fresh):
        done = CliRunner().invoke(main, ["lab"])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "pip install 'arena-kit[lab]'" in done.stderr


def test_where_lab_opens(fresh: Path, tmp_path: Path) -> None:
    """Lab starts at the workspace's root on start_here.ipynb, with options of its own."""
    stand_in = tmp_path / "site" / "jupyterlab"
    stand_in.mkdir(parents=True)
    (stand_in / "__init__.py").touch()
    told = "import json, os, sys; print(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]))"
    (stand_in / "__main__.py").write_text(told)
    paths = os.pathsep.join([str(ROOT), str(stand_in.parent)])
    done = subprocess.run(
        [sys.executable, "-m", "arena_kit", "lab", "--no-browser", "--port", "9000"],
        cwd=fresh / "notebooks", env=os.environ | {"PYTHONPATH": paths}, capture_output=True,
        text=True, timeout=60, check=True,
    )  # fmt: skip
    words, folder, environment = json.loads(done.stdout)
    assert words == [
        f"--ServerApp.root_dir={fresh}", f"--LabApp.default_url=/lab/tree/{START}", "--no-browser",
        "--port", "9000",
    ]  # fmt: skip
    assert (Path(folder), environment["JUPYTER_PREFER_ENV_PATH"]) == (fresh, "1")


def test_start_here_runs(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cells of the first notebook of a fresh workspace work one after the other."""
    monkeypatch.chdir(fresh)
    edited(fresh, elo__evidence_replicates=20, dimensions__clinical_utility=None)
    run_cells(nbformat.read(START, as_version=4))
    (record,) = (fresh / "runs").iterdir()
    assert json.loads((record / "manifest.json").read_text())["status"] == "finished"


def test_start_here_is_clean() -> None:
    """It stores no output, imports from the one door, names files and notebooks that exist."""
    node = nbformat.read(ROOT / START, as_version=4)
    assert set(node.metadata) == {"kernelspec", "title"}
    for cell in (cell for cell in node.cells if cell.cell_type == "code"):
        assert not cell.outputs
        assert len(cell.source.splitlines()) <= 6
        for line in ast.parse(cell.source).body:
            assert not isinstance(line, ast.ImportFrom) or line.module == "arena_kit"
    text = "".join(cell.source for cell in node.cells if cell.cell_type == "markdown")
    named = {word for word in text.split("`") if word.endswith((".ipynb", ".yaml"))}
    assert len(named) >= 4
    assert all((ROOT / name).is_file() for name in named)
