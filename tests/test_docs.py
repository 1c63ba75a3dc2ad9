"""What the documents show works: their Python runs, and their links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest

from tests.samples import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md"),
                *ROOT.glob("design/*.md")])  # fmt: skip


def python_of(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def test_the_arena_example_runs() -> None:
    """The Python of docs/arena.md runs as it stands, from the root of the workspace."""
    (code,) = python_of(ROOT / "docs" / "arena.md")
    with chdir(ROOT):
        exec(code, {})


def test_examples_are_typed(tmp_path: Path) -> None:
    """All Python of the documents passes mypy --strict, and a misspelt name in it would not."""
    examples = [code for page in PAGES for code in python_of(page)]
    assert len(examples) >= 3
    for n, code in enumerate(examples):
        (tmp_path / f"example{n}.py").write_text(code)
    typo = "from arena_kit import BradleyTerry\nBradleyTerry(resample=5)\n"
    (tmp_path / "typo.py").write_text(typo)
    words = ["-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".mypy_cache"), str(tmp_path)]
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 1, done.stdout
    assert "typo.py:2" in errors[0]


def test_users_need_one_door() -> None:
    """No document and no notebook imports a submodule."""
    for page in [*PAGES, *ROOT.glob("notebooks/*.ipynb")]:
        assert not re.findall(r"(?:from|import) arena_kit\.\S+", page.read_text()), page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    """Every relative link leads to a file."""
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target
