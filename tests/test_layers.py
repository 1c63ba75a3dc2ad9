"""Imports point one way, and the light things stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "arena_kit"

#: Floors from the ground up; a module may import its own floor and those below.
FLOORS = [
    ("battles", "battle_log", "prompts", "style"),
    ("store", "tabular", "battle_files", "pair_counts"),
    ("rating",),
    ("matchmaking",),
    ("judging",),
    ("board",),
    ("reporting",),
    (
        "settings",
        "parameters",
        "policy_file",
        "runs",
        "recording",
        "artifacts",
        "workspace",
        "keys",
        "backends",
        "progress",
        "generation",
    ),
    ("plan", "batches", "study", "placing", "policy_study", "runner", "compare"),
    ("cli", "cli_base", "cli_rate", "cli_runs", "cli_simulate", "terminal", "__main__"),
]
FILES = {"store", "tabular", "battle_files", "pair_counts"}
#: What may not be imported although it stands below: these modules are pure.
PURE = {
    "rating": FILES,
    "matchmaking": FILES,
    "judging.pairing": FILES,
    "judging.rendering": FILES,
    "judging.parsing": FILES,
    "judging.verdicts": FILES,
    "judging.quality": FILES,
    "board": FILES,
}


def modules() -> list[str]:
    return sorted(
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    )


def imports(module: str) -> set[str]:
    tree = ast.parse((PACKAGE / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            found |= {n.removeprefix("arena_kit.") for n in names if n.startswith("arena_kit.")}
        assert not (isinstance(node, ast.ImportFrom) and node.level), "imports are absolute"
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            if node.module == "arena_kit":
                found |= {alias.name for alias in node.names if not alias.name.startswith("_")}
            elif node.module.startswith("arena_kit."):
                found.add(node.module.removeprefix("arena_kit."))
    return found


def floor(module: str) -> int:
    top = module.split(".", maxsplit=1)[0]
    return next(n for n, rooms in enumerate(FLOORS) if top in rooms)


@pytest.mark.parametrize("module", modules())
def test_imports_point_down(module: str) -> None:
    """A module imports only its own floor and those below, and pure ones no file access."""
    for other in imports(module):
        assert floor(other) <= floor(module), f"{module} imports {other}, which stands above it"
        for pure, forbidden in PURE.items():
            if module == pure or module.startswith(f"{pure}."):
                assert other not in forbidden, f"{module} is pure and must not import {other}"


def test_import_is_light() -> None:
    """`import arena_kit` and rating a log load no pandas, numba, papermill or SDK."""
    code = (
        "import sys, arena_kit; arena_kit.PermutationElo; arena_kit.read_battles; "
        "heavy = {'pandas', 'numba', 'papermill', 'matplotlib', 'nbconvert', 'scipy', "
        "'anthropic', 'joblib'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
