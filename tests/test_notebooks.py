"""The notebooks keep their form: one parameters cell, checked outputs stored, nothing else."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from papermill import inspect_notebook

from arena_kit.files import read_yaml
from arena_kit.runs.notebook.run import notebook_defaults
from arena_kit.runs.settings.files import validated
from arena_kit.runs.settings.parameters import parameters_of
from tests.samples import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CHECKED = {"keep_output", "nbval-check-output"}


def cells(path: Path, kind: str = "code") -> list[Any]:
    return [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == kind]


def tags(cell: Any) -> set[str]:
    return set(cell.metadata.get("tags", []))


def test_all_there() -> None:
    """All notebooks are there."""
    known = "adaptive headline judge_report k_sweep model_pages pilot placement policy_validity"
    assert [path.stem for path in NOTEBOOKS] == [*known.split(), "vote_review"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
class TestForm:
    """What every notebook must look like."""

    def test_parameters(self, path: Path) -> None:
        """One parameters cell declares exactly the run parameters, all visible to papermill."""
        tagged = [cell for cell in cells(path) if "parameters" in tags(cell)]
        assert len(tagged) == 1
        lines = tagged[0].source.splitlines()
        known = parameters_of(path.stem).model_fields
        assert set(inspect_notebook(str(path))) == set(known)
        assert list(notebook_defaults(path)) == list(inspect_notebook(str(path)))
        assert len(lines) == len(known)
        form = r"\w+: (str|int|float|bool|list|dict) = [^=#]+  # [^=]+"
        assert [line for line in lines if not re.fullmatch(form, line)] == []

    def test_defaults(self, path: Path) -> None:
        """Running all cells by hand does what the params file does."""
        model, declared = parameters_of(path.stem), notebook_defaults(path)
        given = read_yaml(ROOT / "params" / f"{path.stem}.yaml")
        by_hand = validated(model, declared, path.stem)
        assert by_hand == validated(model, given, path.stem)
        seen = {n: each["inferred_type_name"] for n, each in inspect_notebook(str(path)).items()}
        for name, kind in seen.items():
            values = (declared[name], by_hand.model_dump(mode="json")[name])
            assert [type(value).__name__ for value in values] == [kind, kind], name

    def test_parameters_are_passed_on_once(self, path: Path) -> None:
        """Each parameter is passed on by its name."""
        known = set(parameters_of(path.stem).model_fields)
        rest = [cell.source for cell in cells(path) if "parameters" not in tags(cell)]
        opens = ("read_plan(", "read_judges(", "read_placement(", "read_season(", "Study.open(")
        assert sum(any(word in source for word in opens) for source in rest) == 1
        assert all(any(f"{name}={name}" in source for source in rest) for name in known)
        for node in (node for source in rest for node in ast.walk(ast.parse(source))):
            if isinstance(node, ast.alias):
                assert (node.asname or node.name) not in known
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                assert node.id not in known

    def test_outputs(self, path: Path) -> None:
        """Checked cells store an output and a count; no other cell stores an output."""
        checked = 0
        for cell in cells(path):
            if tags(cell) & CHECKED:
                assert tags(cell) >= CHECKED
                assert cell.outputs, f"checked cell without output: {cell.source}"
                assert cell.execution_count, f"nbval skips a cell without a count: {cell.source}"
                assert not [out for out in cell.outputs if out.get("name") == "stderr"]
                checked += 1
            else:
                assert not cell.outputs, f"stored output: {cell.source}"
        assert 1 <= checked <= 3

    def test_story(self, path: Path) -> None:
        """Cells are one call; the first asks, reads, writes and costs; nothing of a machine."""
        for cell in cells(path):
            parameters = "parameters" in cell.metadata.get("tags", [])
            assert parameters or len(cell.source.splitlines()) <= 15
            assert not re.search(r"^\s*(def|class) ", cell.source, re.MULTILINE)
        node = nbformat.read(path, as_version=4)
        first = node.cells[0].source
        assert node.metadata["title"] == first.splitlines()[0].removeprefix("# ")
        for word in ("**Question.**", "**Reads**", "**Writes**", "**Costs**"):
            assert word in first
        assert set(node.metadata) == {"kernelspec", "title"}
        assert node.metadata["kernelspec"]["name"] == "python3"
        assert str(Path.home()) not in path.read_text(encoding="utf-8")


@pytest.mark.slow  # a kernel under a pytest of its own; the form of checked cells is tested above
def test_nbval_notices_a_changed_k(workspace: Path) -> None:
    """With another K in params/, nbval fails on the stored numbers."""
    for other in {path.stem for path in NOTEBOOKS} - {"pilot"}:
        (workspace / "notebooks" / f"{other}.ipynb").unlink()
    shutil.copy(ROOT / "pyproject.toml", workspace)
    path = workspace / "params" / "tournament.yaml"
    path.write_text(path.read_text().replace("  k: 16", "  k: 32"))
    notebook = workspace / "notebooks" / "pilot.ipynb"
    node = nbformat.read(notebook, as_version=4)
    needed = ("read_plan(", "judge(plan)", "rate(", "board.text(")
    node.cells = [cell for cell in node.cells if "parameters" in cell.metadata.get("tags", [])
                  or any(word in cell.source for word in needed)]  # fmt: skip
    nbformat.write(node, notebook)
    words = ["-q", "-p", "nbval.plugin", "-p", "no:cacheprovider"]
    words += ["--nbval-lax", "--nbval-current-env", "notebooks"]
    changed = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=workspace,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert changed.returncode == 1
    assert "1 failed" in changed.stdout
    assert "board.text" in changed.stdout
