"""The protocol: what is fixed beforehand, and whether every deviation from it is named."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import arena_kit as ak
from arena_kit.files import DataError, read_json
from arena_kit.runs.tournament.judge import plan_manifest
from arena_kit.runs.tournament.protocol import check_record, deviations, freeze, read_protocol
from tests.samples import SMALL, plan_of

CLAIMS = ("aspen above cedar on calibration", "cedar above aspen on clinical_utility")


def manifest(mode: str = "pilot", **given: Any) -> dict[str, Any]:
    plan = plan_of(mode, **given)
    return plan_manifest(plan) | {"mode": mode, "parameters": plan.params.model_dump(mode="json")}


@pytest.fixture
def protocol(workspace: Path) -> dict[str, Any]:
    return freeze(manifest(), CLAIMS, workspace / "protocol.json")


#: A place in the manifest for every field of a protocol, and what is planted there.
PLANTED: dict[str, tuple[tuple[str, ...], object]] = {
    "notebook": (("mode",), "headline"),
    "prompts": (("prompt_set", "sha256"), "0" * 64),
    "sampling.strata": (("parameters", "strata"), {"curated": 1}),
    "sampling.limit_pairs": (("parameters", "limit_pairs"), 3),
    "sampling.seed": (("parameters", "seed"), 7),
    "sampling.first_share": (("parameters", "first_share"), 0.5),
    "sampling.round_share": (("parameters", "round_share"), 0.5),
    "sampling.hopeless_below": (("parameters", "hopeless_below"), 0.5),
    "sampling.max_rounds": (("parameters", "max_rounds"), 3),
    "sampling.only_entrant": (("tournament", "judge", "only_entrant"), "aspen"),
    "entrants": (("entrants",), ["aspen", "birch"]),
    "responses.aspen": (("responses", "aspen"), "0" * 64),
    "rubrics.factuality": (("rubrics", "factuality", "sha256"), "0" * 64),
    "references.factuality": (("tournament", "dimensions", "factuality", "reference"), "none"),
    "judge.model": (("judge", "model"), "another"),
    "judge.settings.noise": (("judge", "settings", "noise"), 0.5),
    "judge.graded": (("tournament", "judge", "graded"), True),
    "judge.max_attempts": (("tournament", "judge", "max_attempts"), 5),
    "judge.rejudge": (("tournament", "judge", "rejudge"), "all"),
    "gate.flips.usable": (("analysis", "gate", "flips", "usable"), 0.99),
    "exclusions.missing_responses": (("tournament", "missing_responses"), "pairwise"),
    "exclusions.both_bad": (("analysis", "rating", "both_bad"), "tie"),
    "exclusions.inconsistent": (("analysis", "rating", "inconsistent"), "tie"),
    "exclusions.ties": (("analysis", "rating", "ties"), "davidson"),
    "clusters": (("analysis", "rating", "cluster"), "battle"),
    "rating.prior": (("analysis", "rating", "prior"), 3.0),
    "rating.prior_when": (("analysis", "rating", "prior_when"), "always"),
    "rating.covariates": (("analysis", "rating", "covariates"), ["length"]),
    "margin": (("tournament", "report", "margin"), 25.0),
    "looks": (("analysis", "rating", "looks"), 12),
    "level": (("analysis", "level"), 0.9),
    "strata": (("tournament", "report", "strata"), ["subject"]),
}


def test_every_field_that_deviates_is_named(protocol: dict[str, Any]) -> None:
    """A planted change of any field is named, and nothing else with it."""
    honest = json.loads(json.dumps(manifest()))
    sections = {name.partition(".")[0] for name in PLANTED}
    assert sections == {*protocol["fixed"]}
    for name, (path, value) in PLANTED.items():
        run = copy.deepcopy(honest)
        place = run
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = value
        named = {each.partition(" is ")[0] for each in deviations(protocol, run)}
        top = name.partition(".")[0]
        assert named, name
        assert all(each == name or each.startswith(f"{name}.") for each in named) or named == {
            top
        }, (name, named)


def test_honest_runs_raise_no_alarm(protocol: dict[str, Any]) -> None:
    """What does not shape the result may differ: cap, offline, address, key, speed."""
    for n in range(10):
        changes = {"judge.prewarm": bool(n % 2), "judge.max_tries": 1 + n % 10}
        run = manifest(max_cost_usd=float(n), offline=bool(n % 3), overrides=changes)
        assert deviations(protocol, run) == []


def test_a_run_says_how_it_kept_its_protocol(workspace: Path) -> None:
    """A run under its protocol says so first and how the primary claims ended; the record alone
    is enough to check it, and a changed copy is refused.
    """
    tournament = workspace / "params" / "tournament.yaml"
    freeze(manifest(**SMALL), CLAIMS, workspace / "protocol.json")
    tournament.write_text(tournament.read_text() + "\nprotocol: protocol.json\n")
    judgments = ak.judge(plan_of("pilot", **SMALL))
    board = ak.rate(ak.to_battles(judgments), **judgments.plan.rating)
    record = ak.publish(board, judgments).path
    (workspace / "protocol.json").unlink()
    found = check_record(record)
    assert found["deviations"] == []
    assert [each["state"] for each in found["primary"]] == ["decided", "reversed"]
    assert found["sentences"][0].startswith("As preregistered")
    assert read_json(record / "answer.json")["answer"][0] == found["sentences"][0]
    assert read_json(record / "board.json")["protocol"] == found
    kept = record / "protocol.json"
    kept.write_text(kept.read_text().replace("aspen above cedar", "birch above cedar"))
    with pytest.raises(DataError, match="changed after it was frozen"):
        read_protocol(kept)


@pytest.mark.parametrize("claim", ["aspen is best", "elm above aspen on factuality",
                                   "aspen above birch on taste"])  # fmt: skip
def test_a_claim_names_what_is_there(workspace: Path, claim: str) -> None:
    """A claim about nobody, or in other words, is refused before anything is written."""
    with pytest.raises(DataError, match="claim"):
        freeze(manifest(), [claim], workspace / "protocol.json")
    assert not (workspace / "protocol.json").exists()
