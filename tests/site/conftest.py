"""The site of every kind of record, and a window to look at it."""

import json
import shutil
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest

from arena_kit.files import read_yaml
from arena_kit.site.build import build_site
from arena_kit.site.overview import records_in
from tests.browser import Browser
from tests.samples import copy_workspace, placement_record
from tests.site.handmade import Handmade


@pytest.fixture
def page(browser: Browser) -> Browser:
    """The browser with a desktop's window, and with nothing noted yet."""
    browser.size(1280)
    browser.forget()
    return browser


Once = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def workspace_of_runs(once: Once, recorded: Path, quick_report: Callable[[str], Path]) -> Path:
    """A workspace with a record of every kind, one that cannot be read, and their site, `out`."""

    def make(root: Path) -> None:
        copy_workspace(root)
        shutil.copytree(recorded / "runs" / "one", root / "runs" / "pilot")
        shutil.copytree(quick_report("policy_validity"), root / "runs" / "policy")
        _more_records(root)
        with chdir(root):
            build_site(records_in(root / "runs"), root / "out")

    return once("site", make)


def _more_records(root: Path) -> None:
    with chdir(root):
        arena = read_yaml(root / "params" / "placement_arena.yaml") | {"run_dir": "runs/placed"}
        placement_record(**arena, n_battles=40, n_shared=60, soft=False, n_bootstraps=100)
    models = {"ash": "ash", "beech": "beech"}
    Handmade(models=models, prompts={"q": "A question?"}, kept=False).write(
        root / "runs" / "hashes"
    )
    (root / "runs" / "broken").mkdir()
    (root / "runs" / "broken" / "manifest.json").write_text("{")
    failed = {"mode": "pilot", "status": "failed", "error": "DataError: no such prompt"}
    (root / "runs" / "failed").mkdir()
    (root / "runs" / "failed" / "manifest.json").write_text(json.dumps(failed))


@pytest.fixture(scope="session")
def site(workspace_of_runs: Path) -> Path:
    """The folder of their site."""
    return workspace_of_runs / "out"
