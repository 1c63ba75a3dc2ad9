"""The wheel carries notebooks, params and sample, and makes a working workspace."""

import zipfile
from pathlib import Path

import pytest

from tests.samples import newcomer


@pytest.mark.slow  # a virtual environment with every dependency
def test_wheel_in_a_fresh_environment(installed: Path, tmp_path: Path) -> None:
    """Built, installed alone with its pinned dependencies, `init` and `run pilot` work."""
    (wheel,) = installed.glob("arena_kit-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in (
        "notebooks/pilot.ipynb", "params/rubrics/factuality.md", "sample/prompts.jsonl",
        "start_here.ipynb", "docs/judges.md", "design/edge-prior.md",
    ):  # fmt: skip
        assert f"arena_kit/_workspace/{wanted}" in names
    assert "arena_kit/reporting/template/arena_report/report.css" in names
    for wanted in ("site.css", "site.js", "battles.html.j2"):
        assert f"arena_kit/site/assets/{wanted}" in names
    for data in ("known", "contrasts", "attacks"):
        assert f"arena_kit/judging/quality/canary_data/{data}.yaml" in names
    unwanted = ("tests/", ".sqlite", "docs/conf.py", "docs/_")
    assert not [name for name in names if any(each in name for each in unwanted)]
    command = installed / "venv" / "bin" / "arena-kit"
    newcomer(command, "init", tmp_path / "new", cwd=tmp_path)
    out = newcomer(command, "run", "pilot", "-p", "elo.n_perms", "20", cwd=tmp_path / "new")
    record = Path(out.splitlines()[-1])
    assert record.parent == tmp_path / "new" / "runs"
    assert (record / "report.html").is_file()
