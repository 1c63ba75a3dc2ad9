"""The site of every kind of record, and a window to look at it."""

import json
from contextlib import chdir
from pathlib import Path

import pytest

from arena_kit import publish_policy, read_season
from arena_kit.files import read_yaml
from arena_kit.site.build import build_site
from arena_kit.site.overview import records_in
from tests.browser import Browser
from tests.samples import SMALL, copy_workspace, placement_record, record_of, short_season
from tests.site.handmade import Handmade


@pytest.fixture
def page(browser: Browser) -> Browser:
    """The browser with a desktop's window, and with nothing noted yet."""
    browser.size(1280)
    browser.forget()
    return browser


@pytest.fixture(scope="session")
def workspace_of_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a record of every kind, and one that cannot be read."""
    root = copy_workspace(tmp_path_factory.mktemp("site") / "workspace")
    short_season(root)
    with chdir(root):
        record_of("pilot", **SMALL, run_dir="runs/pilot")
        arena = read_yaml(root / "params" / "placement_arena.yaml") | {"run_dir": "runs/placed"}
        placement_record(**arena, n_battles=40, n_shared=60, soft=False, n_bootstraps=100)
        read = read_season(run_dir="runs/policy")
        publish_policy(read, read.report())
    models = {"ash": "ash", "beech": "beech"}
    Handmade(models=models, prompts={"q": "A question?"}, kept=False).write(
        root / "runs" / "hashes"
    )
    (root / "runs" / "broken").mkdir()
    (root / "runs" / "broken" / "manifest.json").write_text("{")
    failed = {"mode": "pilot", "status": "failed", "error": "DataError: no such prompt"}
    (root / "runs" / "failed").mkdir()
    (root / "runs" / "failed" / "manifest.json").write_text(json.dumps(failed))
    return root


@pytest.fixture(scope="session")
def site(workspace_of_runs: Path) -> Path:
    """The folder of their site."""
    with chdir(workspace_of_runs):
        records = records_in(workspace_of_runs / "runs")
        return build_site(records, workspace_of_runs / "out").index.parent
