"""The table of requirements names modules, settings, tests and evidence that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

from arena_kit.runs.settings.files import PlacementSettings
from tests.samples import ROOT

PAGE = ROOT / "docs" / "requirements.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text().splitlines()
    if re.match(r"\| [TPV]\d", line)
]


@cache
def names_in(file: Path) -> set[str]:
    return {node.name for node in ast.parse(file.read_text()).body if hasattr(node, "name")}


@cache
def settings() -> set[str]:
    """Every key of the shipped files, dotted, and every parameter of a notebook's file."""
    found = {f"placement.{name}" for name in PlacementSettings.model_fields}

    def walk(value: object, path: str) -> None:
        if isinstance(value, dict):
            for key, below in value.items():
                found.add(f"{path}{key}")
                walk(below, f"{path}{key}.")

    for file in (ROOT / "params").glob("*.yaml"):
        text = re.sub(r"^# (\s*[a-z_]+:)", r"  \1", file.read_text(), flags=re.MULTILINE)
        walk(yaml.safe_load(file.read_text()), "")
        found.update(re.findall(r"^\s*#?\s*([a-z_]+):", text, re.MULTILINE))
    return found


def test_every_requirement_has_a_row() -> None:
    """Those of the tournament, of the placement and, by section, of the policy: each once."""
    names = [row[0] for row in ROWS]
    assert len(names) == len(set(names)) >= 84
    assert {name[0] for name in names} == {"T", "P", "V"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_what_a_row_names_exists(row: list[str]) -> None:
    """Module, test and, where a requirement is not met as written, the page with the evidence."""
    _, _, setting, module, test, state = row
    assert (ROOT / "arena_kit" / module.strip("`")).is_file()
    file, _, name = test.strip("`").partition("::")
    assert name in names_in(ROOT / "tests" / file)
    for key in re.findall(r"`([a-z_]+(?:\.[a-z_]+)*)(?:: \d)?`", setting):
        is_file = key.endswith((".json", ".jsonl", ".csv"))
        assert is_file or key in settings() or key.split(".")[-1] in settings(), key
    links = re.findall(r"\]\(([^)#]+)", state)
    assert all((PAGE.parent / link).is_file() for link in links)
    assert state.startswith("as written") or ("departs: " in state and links)


def test_what_is_promised_names_tests_that_exist() -> None:
    """Every test and file of tests that docs/safety.md names is there."""
    named = re.findall(r"`tests/([\w/.]+?)(?:::(\w+))?`", (ROOT / "docs/safety.md").read_text())
    assert len(named) > 30
    for path, name in named:
        file = ROOT / "tests" / path
        assert name in names_in(file) if name else file.exists(), path
