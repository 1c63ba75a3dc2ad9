"""The tournament file and run parameters at the door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from arena_kit import DataError
from arena_kit.runs.parameters import RunParams
from arena_kit.runs.settings import read_tournament, validated
from tests.samples import ROOT, edited


def test_shipped_file(workspace: Path) -> None:
    """The shipped file is valid and carries the documented Elo settings."""
    method = read_tournament(workspace / "params" / "tournament.yaml").elo.method()
    assert (method.k, method.initial, method.n_perms, method.seed) == (16, 1400, 500, 0)
    assert (method.ties, method.both_bad, method.inconsistent) == ("drop", "drop", "drop")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"colour": "blue"}, "unknown key 'colour'; allowed: name, entrants"),
        ({"elo__K": 3}, "unknown key .elo.K'; allowed: n_perms, shuffle_seed"),
        ({"dimensions__factuality__weight": 3}, "unknown key.*allowed: rubric, version"),
        ({"entrants": ["aspen"]}, "entrants: .*at least 2"),
        ({"dimensions": {"a/b": {"rubric": "r", "version": "1"}}}, "must not hold a slash"),
        ({"entrants": ["aspen", "../x"]}, "is not a valid id"),
        ({"elo__default_k": -1}, "elo.default_k: .*greater than 0, got '-1'"),
        ({"elo__n_perms": "many"}, "elo.n_perms: .*integer.*got 'many'"),
        ({"elo__ties": "win"}, "elo.ties: .*'drop' or 'half', got 'win'"),
        ({"missing_responses": "ignore"}, "'listwise' or 'pairwise', got 'ignore'"),
        ({"prompts": None}, "prompts: Field required"),
    ],
)
def test_bad_files(workspace: Path, changes: dict[str, Any], why: str) -> None:
    """A wrong tournament file is refused with the key, what is allowed and what came."""
    with pytest.raises(DataError, match=f"tournament.yaml: .*{why}"):
        read_tournament(edited(workspace, **changes))


def test_rubric_version(workspace: Path) -> None:
    """A rubric whose heading names another version is refused, with file and line."""
    file = read_tournament(edited(workspace, dimensions__calibration__version="3"))
    with pytest.raises(DataError, match=r"calibration.md:1: .*'version 3'.*version 2"):
        file.rubrics(workspace)


def test_overrides() -> None:
    """Parameters override the file only where they are given."""
    file = read_tournament(ROOT / "params" / "tournament.yaml")
    assert RunParams().applied(file) == file
    changed = RunParams(n_perms=7, seed=3).applied(file).elo
    assert (changed.n_perms, changed.shuffle_seed) == (7, 3)
    assert changed.default_k == file.elo.default_k


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"n_prems": 3}, "unknown key 'n_prems'; allowed: tournament, judge, judge_model"),
        ({"judge": "oracle"}, "judge: .*'baseline', 'replay'.*got 'oracle'"),
        ({"strata": {"vignette": -1}}, "strata.vignette"),
        ({"limit_pairs": -2}, "limit_pairs"),
    ],
)
def test_bad_parameters(values: dict[str, Any], why: str) -> None:
    """Wrong run parameters are refused in one sentence."""
    with pytest.raises(DataError, match=why):
        validated(RunParams, values, "parameters of pilot")
