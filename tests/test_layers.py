"""Imports point one way, and the light things stay light."""

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.samples import ROOT

PACKAGE = ROOT / "arena_kit"

#: Folders from the ground up; a module may import its own folder and those before it.
FLOORS = (
    "yaml_loader", "files", "fanout", "battles", "rating", "judging", "policy", "matchmaking",
    "validity", "reporting", "runs", "site", "voting", "cli", "__main__",
)  # fmt: skip
FILES = {"files", "battles.on_disk", "battles.read", "battles.tabular", "battles.write"}
HARMLESS = {
    ("files", "ArenaError"), ("files", "DataError"), ("files", "whole_text"),
    ("battles.read", "battles_from_frame"),
}  # fmt: skip
#: Pure folders and modules; of `FILES` they may import only what opens none.
PURE = (
    "rating", "policy", "matchmaking", "validity", "judging.pairs.pairing",
    "judging.verdicts.rendering", "judging.verdicts.records",
    "judging.quality.estimates", "judging.quality.agreement", "judging.quality.gate",
)  # fmt: skip


@cache
def modules() -> list[str]:
    return sorted(
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    )


@cache
def imports(module: str) -> set[tuple[str, str]]:
    """The modules of this package that a module imports, each with the name it takes."""
    tree = ast.parse((PACKAGE / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8"))
    known, taken = set(modules()), set()
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.Import) and "arena_kit" in ast.unparse(node)), module
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("arena_kit"):
            home = str(node.module).removeprefix("arena_kit").lstrip(".")
            for alias in node.names:
                inner = f"{home}.{alias.name}".lstrip(".")
                taken.add((inner, "") if inner in known else (home, alias.name))
    return {(home, name) for home, name in taken if home}


def folder(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


def test_imports_point_down() -> None:
    """A module imports only its own folder and those below it; pure ones open no file."""
    for module, (other, name) in ((m, each) for m in modules() for each in imports(m)):
        here, there = FLOORS.index(folder(module)), FLOORS.index(folder(other))
        assert there <= here, f"{module} imports {other}, which stands above it"
        if any(module == pure or module.startswith(f"{pure}.") for pure in PURE):
            opens = other in FILES and (other, name) not in HARMLESS
            assert not opens, f"{module} is pure and must not import {name} of {other}"


@pytest.mark.parametrize("folder", ["battles", "judging", "rating", "runs"])
def test_rooms_of_a_folder_point_one_way(folder: str) -> None:
    """The sub-folders of a folder, and modules beside them, can be ordered from the ground up."""
    rooms: dict[str, set[str]] = {}
    for module in modules():
        own = module.split(".")
        if own[0] == folder:
            inside = (other for other, _ in imports(module) if other.startswith(f"{folder}."))
            others = {other.split(".")[1] for other in inside}
            rooms.setdefault(own[1], set()).update(others - {own[1]})
    list(TopologicalSorter(rooms).static_order())  # raises CycleError, which names the circle


def test_no_circles() -> None:
    """Modules can be ordered so that each comes after all it imports, whenever it imports it."""
    graph = {module: {other for other, _ in imports(module)} for module in modules()}
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle


def test_no_test_imports_a_test() -> None:
    """What tests share stands in `samples`, `naive` and `conftest`, not in another test."""
    taken = r"^\s*(?:from|import) [^#\n]*\btest_\w+"
    for path in (ROOT / "tests").rglob("*.py"):
        tests = re.findall(taken, path.read_text(encoding="utf-8"), re.MULTILINE)
        assert not tests, f"{path.relative_to(ROOT)}: {tests}"


def test_the_top_is_empty() -> None:
    """The top has the door, the command, files and fan-out; `runs` at most seven rooms."""
    alone = {"__main__", "files", "yaml_loader", "fanout"}
    assert {path.stem for path in PACKAGE.glob("*.py")} == {"__init__", *alone}
    assert {path.name for path in PACKAGE.iterdir() if path.is_dir()} - {"__pycache__"} == {
        *FLOORS
    } - alone
    assert len({path.stem for path in (PACKAGE / "runs").glob("[!_]*")}) <= 7


def test_import_is_light(tmp_path: Path) -> None:
    """Reading battles and rating them with every method loads nothing heavy."""
    battles = tmp_path / "battles.csv"
    battles.write_text("model_a,model_b,winner\na,b,model_a\na,b,model_b\n", encoding="utf-8")
    code = (
        "import sys, arena_kit as ak; log = ak.read_battles(sys.argv[1]); "
        "rated = [rate(log) for rate in (ak.PermutationElo(), ak.BradleyTerry(), ak.Glicko2())]; "
        "ak.claims.gaps(rated[1]); "
        "heavy = {'pandas', 'numba', 'papermill', 'matplotlib', 'nbconvert', 'scipy', "
        "'anthropic', 'latex2mathml', 'sqlalchemy', 'fastapi'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, str(battles)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_commands_start_light() -> None:
    """No command loads what draws or rates by heavy packages before it needs it."""
    names = [f"arena_kit.cli.{path.stem}" for path in (PACKAGE / "cli").glob("[!_]*.py")]
    heavy = {"pandas", "numba", "papermill", "matplotlib", "nbconvert", "scipy", "anthropic"}
    code = f"import sys, {', '.join(names)}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
