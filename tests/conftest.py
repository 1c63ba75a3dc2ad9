"""Shared fixtures: a throwaway workspace, and the real data where it is present."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real battles and published results."""
    folder = Path(os.environ.get("ARENA_KIT_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"real data not found at {folder}; set ARENA_KIT_DATA")
    return folder


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh workspace with its own cache and records, as the current folder."""
    root = tmp_path / "workspace"
    for part in ("notebooks", "params", "sample"):
        shutil.copytree(ROOT / part, root / part)
    monkeypatch.chdir(root)
    monkeypatch.delenv("ARENA_KIT_RUNS", raising=False)
    monkeypatch.delenv("ARENA_KIT_RUN_TOKEN", raising=False)
    return root
