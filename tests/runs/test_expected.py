"""`arena-kit cost` says what the money is expected to decide."""

import json
import math
import shutil
from collections.abc import Iterator
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import norm, studentized_range
from scipy.stats import t as student_t

from arena_kit import claims
from arena_kit.rating.claims.power import DESIGN_EFFECT
from arena_kit.runs.tournament.judge import Judgments
from tests.samples import call as invoke
from tests.samples import copy_workspace, judgments_of, published
from tests.samples import rated as board_of

DIMENSIONS = ["factuality", "calibration", "clinical_utility"]
STRATA = {"open_recall": 4, "vignette": 10, "curated": 6}


call = partial(invoke, "cost")


@pytest.fixture(scope="module")
def pilot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judgments]:
    """A small pilot in a workspace of its own, which is the current folder."""
    root = copy_workspace(tmp_path_factory.mktemp("expected") / "workspace")
    with chdir(root):
        judgments = judgments_of("pilot", strata=STRATA, n_perms=20)
        published(judgments)
        yield judgments


def expected(*words: object) -> dict[str, Any]:
    done = call(*words, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)["expected"]
    assert list(found) == DIMENSIONS
    return found


@pytest.fixture(scope="module")
def headline(pilot: Judgments) -> dict[str, Any]:
    """What a headline run after the pilot is expected to decide."""
    return expected("headline")


def test_without_a_record_the_gap_that_is_decided(workspace: Path) -> None:
    """143 prompts between four entrants decide, on half of all occasions, a gap as large as the bar
    in standard errors: 400 / ln 10 times the root of 2 over 4 x 143 / 4 and the design effect. Two
    pairs say nothing about an order, and the command says so.
    """
    found = expected("headline")["calibration"]
    z = studentized_range.ppf(0.95, 2, 1e6) / math.sqrt(2)
    error = 400 / math.log(10) * math.sqrt(DESIGN_EFFECT * 2 / 143)
    half = student_t.isf(norm.sf(z), 142) * error
    assert found["gap_decided_in_50_percent"] == pytest.approx(half, rel=1e-3)
    assert found["design_effect_assumed"] == DESIGN_EFFECT
    assert (found["record"], found["neighbours"]) == (None, [])
    told = call("headline").stdout
    assert f"calibration, clinical_utility: a gap of {half:.0f} points" in told
    told = call("headline", "-p", "limit_pairs", "2").stdout
    assert "no order can be decided: prompts judged: 1, needed: 10." in told


def test_by_an_earlier_record(pilot: Judgments, headline: dict[str, Any]) -> None:
    """The latest record tells by its own neighbours; the same run decides what it decided."""
    found = headline
    for dimension, rated in board_of(pilot).fits["bradley_terry"].items():
        told = found[dimension]
        assert told["record"] == f"{pilot.record.path.name} (judge {pilot.plan.judge.model})"
        pairs = [(each["above"], each["below"]) for each in told["neighbours"]]
        assert pairs == list(zip(rated.order, rated.order[1:], strict=False))
        chances = [each["chance"] for each in told["neighbours"]]
        assert told["expected_decided"] == pytest.approx(sum(chances))
        errors = claims.gap_errors(rated)
        for each in told["neighbours"]:
            at = (rated.models.index(each["above"]), rated.models.index(each["below"]))
            prompts = {"factuality": (16, 93)}.get(dimension, (20, 143))
            less = math.sqrt(prompts[0] / prompts[1])
            assert each["error"] == pytest.approx(less * errors[at], rel=0.1)
    text = call("headline", "--from", pilot.record.path).stdout
    assert all(each["sentence"] in text for each in found.values())
    found = expected("pilot", "-p", "strata", json.dumps(STRATA))
    for dimension, rated in board_of(pilot).fits["bradley_terry"].items():
        states = [pair.state == "decided" for pair in claims.neighbours(rated)]
        chances = [each["chance"] for each in found[dimension]["neighbours"]]
        assert [round(each, 9) for each in chances] == states


def test_the_embedded_judge_says_nothing_about_another(
    pilot: Judgments, headline: dict[str, Any], tmp_path: Path
) -> None:
    """The demo judge's record counts only where named; what rates nobody is refused."""
    file = "params/headline_claude.yaml"
    assert {each["record"] for each in expected("--params", file).values()} == {None}
    named = expected("--params", file, "--from", pilot.record.path)
    for dimension in DIMENSIONS:
        assert named[dimension]["record"]
        for fresh, same in zip(
            named[dimension]["neighbours"], headline[dimension]["neighbours"], strict=True
        ):
            assert fresh["error"] == pytest.approx(same["error"])
            assert fresh["chance"] != same["chance"], "other verdicts may move the gap further"
    other = shutil.copytree(pilot.record.path, tmp_path / "other")
    battles = other / "battles.jsonl"
    battles.write_text(battles.read_text().replace('"aspen"', '"oak"'))
    for words, why in (
        (("placement", "--from", pilot.record.path), "--from is for tournaments"),
        (("headline", "--from", pilot.plan.root / "params"), "not a run record"),
        (("headline", "--from", other), f"{other}: has no dimension that rates all of"),
    ):
        done = call(*words)
        assert done.exit_code == 2
        assert why in done.output


def test_a_study_is_planned_from_a_pilot(pilot_record: Path, workspace: Path) -> None:
    """`plan` says prompts per stratum, calls and votes for each claim; without a claim, a record or
    a gap it says what is missing.
    """
    claim = "aspen above cedar on calibration"
    done = invoke("plan", "--claim", claim, "--from", pilot_record, "--json")
    (found,) = json.loads(done.stdout)
    needed = found["needed"]
    assert needed["power"] >= 0.8
    assert 0 <= sum(found["prompts_per_stratum"].values()) - needed["prompts"] < 3
    assert found["votes"] >= 10
    powers = [row["power"] for row in found["curve"]]
    assert powers == sorted(powers)
    assumed = invoke("plan", "--claim", claim, "--gap", 60).output
    assert "new prompts for 80% power (gap 60 points, assumed noise; the bank has 143)" in assumed
    assert "no primary claim" in invoke("plan").output
    assert "no record rates both" in invoke("plan", "--claim", claim).output
