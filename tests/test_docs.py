"""What the documents show works: their Python runs, and their links lead somewhere."""

from __future__ import annotations

import re
from contextlib import chdir
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md"),
                *ROOT.glob("design/*.md")])  # fmt: skip


def test_the_arena_example_runs() -> None:
    """The Python of docs/arena.md runs as it stands, from the root of the workspace."""
    (code,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "arena.md").read_text(), re.DOTALL
    )
    with chdir(ROOT):
        exec(code, {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    """Every relative link leads to a file."""
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target
