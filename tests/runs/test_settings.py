"""The tournament file and run parameters at the door."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from arena_kit import DataError
from arena_kit.rating.with_judge.placement import Placement
from arena_kit.runs.settings.files import (
    PlacementSettings,
    is_text,
    override,
    read_tournament,
    validated,
)
from arena_kit.runs.settings.parameters import (
    RunParams,
)
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
        ({"elo__default_k": 3}, "unknown key 'elo.default_k'; allowed: k, initial, scale.*k_sweep"),
        ({"judge__baseline__model": "x"}, "unknown key.*; allowed: noise, slot_bias"),
        ({"dimensions__factuality__weight": 3}, "unknown key.*allowed: rubric, version"),
        ({"entrants": ["aspen"]}, "entrants: .*at least 2"),
        ({"dimensions": {"a/b": {"rubric": "r", "version": "1"}}}, "must not hold a slash"),
        ({"entrants": ["aspen", "../x"]}, "is not a valid id"),
        ({"entrants": ["aspen", "-birch"]}, "entrant .-birch. begins with -; not allowed"),
        ({"entrants": ["aspen", "@birch"]}, "entrant .@birch. begins with @; not allowed"),
        ({"entrants": ["aspen", "+birch"]}, "entrant .[+]birch. begins with [+]; not allowed"),
        ({"elo__k": -1}, "elo: k must be a number above 0, not -1.0$"),
        ({"elo__k": float("inf")}, "elo.k: .*finite number, got 'inf'"),
        ({"elo__k": True}, "elo.k: .*valid number, got 'True'"),
        ({"elo__k_sweep": [4, 0]}, "elo.k_sweep.1: .*greater than 0, got '0'"),
        ({"elo__k_sweep": []}, "elo.k_sweep: .*at least 1 item"),
        ({"elo__shuffle": False}, "elo: n_perms must be 1 without shuffling, not 500"),
        ({"judge__baseline__noise": -1}, "judge.baseline: noise must be 0 or more, not -1.0"),
        ({"elo__n_perms": "many"}, "elo.n_perms: .*integer.*got 'many'"),
        ({"elo__ties": "win"}, "elo.ties: .*'drop' or 'half', got 'win'"),
        ({"missing_responses": "ignore"}, "'listwise' or 'pairwise', got 'ignore'"),
        ({"prompts": None}, "prompts: Field required"),
        ({"generate": {"oak": {"backend": "anthropic", "model": "m"}}}, "defines oak, who is no"),
        ({"arena": {"private": ["elm"]}}, "arena.private names elm, who is no entrant"),
        ({"arena": {"withdrawn": ["elm"]}}, "arena.withdrawn names elm, who is no entrant"),
        ({"arena": {"hidden": ["aspen"]}}, "'arena.hidden'; allowed: providers, private, withdr"),
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
    assert RunParams().override(file) == file
    changed = override(file, {"elo.n_perms": 7, "judge.base_url": "http://127.0.0.1:9/"}, "x")
    assert (changed.elo.n_perms, changed.judge.base_url) == (7, "http://127.0.0.1:9")
    assert changed.elo.k == file.elo.k
    assert is_text("judge.base_url")
    assert not is_text("elo.n_perms")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("judge.temperature", 0, "unknown key 'judge.temperature'; allowed: pilot_model"),
        ("elo.n_perms", "7", "elo.n_perms: .*valid integer, got '7'"),
        ("name", "other", "'name' names no setting in a section; sections: "),
        ("name.first", "other", "'name.first' names no setting in a section"),
        ("judges.transport", "messages", "'judges.transport' names no setting in a section"),
        ("judge.rejudge", "all", "judge: rejudge needs replay_from"),
    ],
)
def test_bad_overrides(name: str, value: object, why: str) -> None:
    """A setting that does not exist or does not fit is refused in one sentence."""
    file = read_tournament(ROOT / "params" / "tournament.yaml")
    with pytest.raises(DataError, match=why):
        override(file, {name: value}, "x")


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"n_prems": 3}, "unknown key 'n_prems'; allowed: tournament, judge, judge_model"),
        ({"judge": "oracle"}, "judge: .*'baseline', 'replay'.*got 'oracle'"),
        ({"strata": {"vignette": -1}}, "strata.vignette"),
        ({"limit_pairs": -2}, "limit_pairs"),
        ({"judge_model": "\ud83d"}, "parameters of pilot: .*surrogates not allowed"),
        ({"judge_model": object()}, "parameters of pilot: .*unknown type"),
    ],
)
def test_bad_parameters(values: dict[str, Any], why: str) -> None:
    """Wrong run parameters are refused in one sentence."""
    with pytest.raises(DataError, match=why):
        validated(RunParams, values, "parameters of pilot")


def test_a_placement_is_the_methods_own() -> None:
    """Settings left out of a placement are the method's defaults, others go to the method."""
    usual = Placement(model="new")
    own = (usual.model, usual.min_battles)
    assert PlacementSettings(soft=False).method(*own, usual.method.seed) == usual
    given = PlacementSettings(soft=False, n_bootstraps=200, prior=0.1).method(*own, 4)
    method = replace(usual.method, resamples=200, prior=0.1, seed=4)
    assert given == replace(usual, method=method)
