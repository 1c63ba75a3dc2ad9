"""The wheel carries notebooks, params and sample, and makes a working workspace."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.samples import ROOT


def run(*words: str | Path, cwd: Path | None = None) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("ARENA_KIT", "PYTHON"))}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=600,
        env=env,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow  # a virtual environment with every dependency
def test_wheel_in_a_fresh_environment(tmp_path: Path) -> None:
    """Built, installed alone with its pinned dependencies, `init` and `run pilot` work."""
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("arena_kit-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in (
        "notebooks/pilot.ipynb", "params/rubrics/factuality.md", "sample/prompts.jsonl",
        "start_here.ipynb",
    ):  # fmt: skip
        assert f"arena_kit/_workspace/{wanted}" in names
    assert "arena_kit/reporting/template/arena_report/report.css" in names
    for wanted in ("site.css", "site.js", "battles.html.j2"):
        assert f"arena_kit/site/assets/{wanted}" in names
    for data in ("known", "contrasts", "attacks"):
        assert f"arena_kit/judging/canaries/{data}.yaml" in names
    assert not [name for name in names if "tests/" in name or ".sqlite" in name]
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    pip = (tmp_path / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet")
    run(*pip, "-c", ROOT / "constraints.txt", wheel)
    command = tmp_path / "venv" / "bin" / "arena-kit"
    run(command, "init", tmp_path / "new", cwd=tmp_path)
    out = run(command, "run", "pilot", "-p", "n_perms", "20", cwd=tmp_path / "new")
    record = Path(out.splitlines()[-1])
    assert record.parent == tmp_path / "new" / "runs"
    assert (record / "report.html").is_file()
