"""A new model into an arena, end to end: the sample, the emulated services, money and resuming."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from arena_kit import (
    DataError,
    judge_placement,
    place,
    publish_placement,
    read_battles,
    read_placement,
)
from arena_kit.cli.records import show_board
from arena_kit.files import read_yaml
from arena_kit.judging.asking.cost import CostError
from arena_kit.judging.asking.judge_pairs import OfflineError
from arena_kit.judging.judges.base import PausedError
from arena_kit.judging.pairs.prompts import read_prompts, read_responses
from arena_kit.reporting import placement
from arena_kit.runs.placement.plan import PlacementPlan
from tests.emulator import Emulator, Fault, Reply
from tests.samples import (
    KEY,
    call,
    jsonl,
    loaded,
    paid_twice,
    parameters,
    placed_model,
    placement_record,
    plan_of,
    verdict,
)

ARENA = "sample/arena/simulated_texts.jsonl.gz"


def claude(emulator: Emulator, **changes: Any) -> dict[str, Any]:
    """A newcomer made by one Claude and judged by another, on a few battles."""
    address = {"base_url": emulator.base_url}
    made = {"backend": "anthropic", "model": "claude-sonnet-5-5", "max_tokens": 400} | address
    return {
        "model": "newcomer", "human": ARENA, "judged": "", "generate": made, "min_battles": 300,
        "judge": "anthropic", "judge_model": "claude-opus-5-5", "max_cost_usd": 20.0,
        "n_battles": 14, "n_shared": 6, "soft": False, "n_bootstraps": 100, "preflight": False,
    } | address | changes  # fmt: skip


def rows_of(workspace: Path) -> list[dict[str, Any]]:
    """The battles of the sample's arena, with their texts."""
    return [json.loads(x) for x in gzip.decompress((workspace / ARENA).read_bytes()).splitlines()]


@pytest.fixture(autouse=True)
def _a_key(_no_keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


# The sample


@pytest.fixture(scope="module")
def sample_params() -> dict[str, Any]:
    given = read_yaml(Path(__file__).parents[2] / "params" / "placement_arena.yaml")
    settings = given.pop("overrides")
    return given | {name.removeprefix("placement."): each for name, each in settings.items()}


def planned(**given: Any) -> PlacementPlan:
    return read_placement(**parameters("placement", **given))


def test_the_sample_from_an_arena_file_to_a_place(
    workspace: Path, sample_params: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The shipped parameters draw, judge with the embedded judge and place the model."""
    study = placed_model(**sample_params | {"n_bootstraps": 100})
    record = publish_placement(study)
    capsys.readouterr()
    show_board(record.path)
    shown = " ".join(capsys.readouterr().out.split())
    wide = loaded(record.path / "elo_ratings.json")["with_judge_error"]
    span = f"{wide['ci_low']:.0f} to {wide['ci_high']:.0f}"
    assert span in shown
    assert "with this judge's error" in shown
    assert span in placement.board(study.placed, study.verdicts.plan.note).html
    assert study.placed.judge_error is not None
    assert study.placed.cautious is not None
    manifest = record.read()
    assert (manifest["status"], manifest["sample"]["battles"]) == ("finished", 200)
    assert manifest["counts"]["verdicts"]["preference"]["ok"] == 1200
    each = manifest["sample"]["opponents"].values()
    assert max(each) - min(each) <= 1

    inputs = record.path / "inputs"
    prompts = [p.prompt_id for p in read_prompts(inputs / "prompts.jsonl")]
    entrants = ["dogwood", *manifest["sample"]["opponents"]]
    kept = read_responses(inputs / "responses", entrants, prompts)
    rows = [(r, side) for r in rows_of(workspace) for side in "ab"]
    recorded = {(r[f"model_{s}"], r["question_id"]): r[f"response_{s}"] for r, s in rows}
    bank = [p.prompt_id for p in read_prompts(workspace / "sample" / "prompts.jsonl")]
    own = read_responses(workspace / "sample" / "responses", ["dogwood"], bank)
    recorded |= {cell: response.response_text for cell, response in own.items()}
    assert {cell: response.response_text for cell, response in kept.items()}.items() <= (
        recorded.items()
    )
    for row in jsonl(record.path / "matches" / "matches.jsonl"):
        assert {(row[side], row["prompt_id"]) for side in ("entrant_a", "entrant_b")} <= {*kept}

    told = json.loads(call("rate", record.path, "--json").stdout)["ratings"]
    ratings = loaded(record.path / "elo_ratings.json")["ratings"]
    assert [row["rating"] for row in told] == [row["rating"] for row in ratings]
    judged = record.path / "judged.jsonl"
    assert len(read_battles(judged)) == 600
    from_file = {"n_bootstraps": 100, "responses": "", "judged": str(judged)}
    again = placed_model(**sample_params | from_file)
    assert again.placed.shown.ratings == study.placed.shown.ratings


def test_a_record_alone_shows_every_judged_text(
    workspace: Path, sample_params: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A placement's record alone shows each judged battle with its texts, odd names included."""
    text = gzip.decompress((workspace / ARENA).read_bytes()).decode()
    text = text.replace('"aspen"', '"aspen (large)"').replace('"rec-001"', '"rec 001?"')
    (workspace / "odd.jsonl").write_text(text)
    own = workspace / "sample" / "responses" / "responses_dogwood.jsonl"
    answers = [line for line in own.read_text().splitlines() if '"rec-001"' not in line]
    own.write_text("\n".join(answers) + "\n")
    few = {"n_bootstraps": 100, "n_battles": 140, "n_shared": 0, "soft": False}
    few = sample_params | few | {"human": "odd.jsonl"}
    copy = tmp_path / "alone" / "record"
    shutil.copytree(placement_record(**few).path, copy)
    monkeypatch.chdir(copy.parent)
    told = call("runs", "show", "record", "--json")
    assert told.exit_code == 0, told.stderr
    shown = [row for row in map(json.loads, told.stdout.splitlines()) if row["judge_model"]]
    judged = [r for r in jsonl(copy / "battles.jsonl") if r["source"] == "llm-judge"]
    assert {row["battle_id"] for row in shown} == {row["battle_id"] for row in judged}
    assert any("aspen (large)" in (row["model_a"], row["model_b"]) for row in shown)
    assert all(row["prompt"] and row["response_a"] and row["verdicts"] for row in shown)
    monkeypatch.chdir(workspace)
    hashes = placement_record(**few | {"inputs": "hashes"})
    assert not list((hashes.path / "inputs").rglob("*.jsonl"))
    assert hashes.read()["inputs"]["prompts.jsonl"]["kept"] is False


def test_prompts_and_responses_of_ones_own(workspace: Path) -> None:
    """Votes that name their question take the texts from a tournament's files."""
    study = placed_model(
        model="dogwood", human="sample/arena/simulated_votes.csv.gz", judged="",
        texts="params/tournament.yaml", responses="sample/responses", n_battles=60, n_shared=250,
        rubric="params/rubrics/factuality.md", reference="gold_answer", n_bootstraps=100,
    )  # fmt: skip
    tournament = study.verdicts.plan.tournament
    assert tournament is not None
    assert set(tournament.sample.opponents) == {"aspen", "birch", "cedar"}
    assert study.placed.calibration is not None
    assert study.placed.judge_error is None, "three models do not show a judge's error"
    assert placement.board(study.placed).title.endswith("where this judge puts it")
    kept = read_prompts(publish_placement(study).path / "inputs" / "prompts.jsonl")
    assert all(prompt.gold_answer for prompt in [*tournament.sample.prompts, *kept])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"responses": ""}, "set responses, .*, or placement.generate, .*; neither is given"),
        ({"generate": {"backend": "anthropic", "model": "m"}}, "both are given"),
        ({"responses": "", "generate": {"backend": "smoke"}}, "generate.backend: .*'anthropic'"),
        ({"n_shared": 100}, "soft needs 200 battles .* n_shared is 100"),
        ({"n_battles": 9999}, r"n_battles is 9999, but the arena has only \d+ recorded answers"),
        ({"languages": ["tlh"]}, "no battle of the arena can be used.*languages named: en"),
        ({"human": "sample/arena/simulated_votes.csv.gz"}, "no texts of battles: missing column"),
        ({"rubric": "sample/DATA_CARD.md"}, "DATA_CARD.md:1: the heading must end in 'version"),
        ({"rubric": "params/nothing.md"}, "nothing.md: no such file"),
        ({"dimension": "a/b"}, "dimension 'a/b' must not hold a slash"),
        ({"judge": "anthropic"}, "claude-opus-5-5 must be paid: set max_cost_usd"),
        ({"texts": "params/tournament.yaml"}, "languages has no effect with texts"),
        ({"responses": "params"}, r"responses_dogwood\.jsonl: no such file"),
        ({"judge": "replay"}, "judge: .*'baseline', 'anthropic' or 'openai_compatible'"),
        ({"judged": "v.jsonl"}, "responses say how to judge here, but judged names verdicts"),
    ],
)
def test_refused_before_a_record(
    workspace: Path, sample_params: dict[str, Any], changes: dict[str, Any], why: str
) -> None:
    """What cannot be drawn, answered or judged is one sentence, and no record is made."""
    with pytest.raises(DataError, match=why) as caught:
        judge_placement(planned(**sample_params | changes))
    assert "\n" not in str(caught.value)
    assert not (workspace / "runs").exists()


OWN_SERVER = {"backend": "openai_compatible", "model": "own", "base_url": "http://127.0.0.1:9/v1"}


def test_battles_without_a_question_id(workspace: Path, sample_params: dict[str, Any]) -> None:
    """An arena that names no questions is known by its prompts."""
    bare = [{k: v for k, v in row.items() if k != "question_id"} for row in rows_of(workspace)]
    (workspace / "bare.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in bare))
    given = sample_params | {"human": "bare.jsonl", "responses": "", "generate": OWN_SERVER}
    with pytest.raises(DataError, match=r"bare\.jsonl: .*set placement.inline_human to true"):
        planned(**given | {"inline_human": False})
    study = planned(**given)
    assert study.tournament is not None
    drawn = {prompt.prompt_id for prompt in study.tournament.sample.prompts}
    assert all(each.startswith("prompt-") for each in drawn)
    assert drawn <= {*study.human.prompts}
    assert len(study.human.prompts) <= 143


def test_too_few_shared_battles_after_all(workspace: Path, sample_params: dict[str, Any]) -> None:
    """Where fewer shared battles than needed could be judged, what was paid for is not lost."""
    few = {"n_shared": 210, "n_battles": 50, "n_bootstraps": 100}  # some will be inconsistent
    study = placed_model(**sample_params | few)
    assert study.placed.calibration is None
    assert "for want of battles" in study.facts["verdicts"]
    assert study.placed.judge_error is None
    assert "where this judge puts it" in placement.board(study.placed).title


# Paid answers and verdicts


def test_the_bill_is_within_the_forecast(workspace: Path, emulator: Emulator) -> None:
    """Answers and verdicts over batches cost what the emulator bills."""
    given = claude(emulator)
    file = _file(parameters("placement", **given))
    told = json.loads(call("cost", "placement", "--params", file, "--json").stdout)["forecast"]
    unnamed = call("cost", "--params", file)
    assert "Forecast of answers" in unnamed.stdout, unnamed.stderr
    assert "is within max_cost_usd 20" in unnamed.stdout
    plan = planned(**given)
    assert plan.forecast.as_dict() == told
    study = place(judge_placement(plan))
    record = publish_placement(study)
    manifest, bill = record.read(), emulator.billing.total_usd
    assert manifest["cost"]["usd_spent"] == pytest.approx(bill, abs=1e-12)
    assert told["total"]["usd_at_least"] < bill < told["total"]["usd_at_most"]
    assert (told["answers"]["requests"], told["verdicts"]["requests"]) == (14, 40)
    assert len(emulator.billing.rows) == 54
    paid = manifest["cost"]["answers_paid"]
    assert paid["answers"]["usd"] + paid["verdicts"]["usd"] == pytest.approx(bill, abs=1e-12)
    answers = jsonl(record.path / "inputs" / "responses" / "responses_newcomer.jsonl")
    assert len(answers) == 14
    assert manifest["answers"]["responses"] == {"ok": 14}

    sent = len(emulator.requests)
    for more in ({}, {"offline": True}):
        again = placed_model(**given | more)
        assert again.verdicts.record.read()["cost"]["usd_spent"] == 0
        assert again.placed.joint.ratings == study.placed.joint.ratings
    with pytest.raises(OfflineError, match="verdicts are not in the cache"):
        placed_model(**given | {"offline": True, "n_shared": 9, "run_dir": "runs/more"})
    assert len(jsonl(workspace / "runs" / "more" / "missing.jsonl")) == 6
    assert len(emulator.requests) == sent


def _file(given: dict[str, Any]) -> str:
    Path("params/given.yaml").write_text(yaml.safe_dump(given))
    return "params/given.yaml"


@pytest.mark.parametrize(
    ("changes", "error", "why"),
    [
        ({"max_cost_usd": 0.0}, DataError, "claude-sonnet-5-5 and claude-opus-5-5 must be paid"),
        ({"max_cost_usd": 0.02}, CostError, r"answers \$.* and verdicts \$"),
        ({"offline": True}, DataError, "offline, but 14 responses"),
    ],
)
def test_nothing_is_sent(
    workspace: Path, emulator: Emulator, changes: dict[str, Any], error: type[Exception], why: str
) -> None:
    """Without a cap, above it, or offline, nothing is asked."""
    with pytest.raises(error, match=why) as caught:
        judge_placement(planned(**claude(emulator) | changes))
    assert "\n" not in str(caught.value)
    assert emulator.billing.accepted == []


def test_other_transports(workspace: Path, emulator: Emulator) -> None:
    """A server of one's own answers and judges without a key or a cap, and nothing is billed."""
    address = f"{emulator.base_url}/v1"
    made = {"backend": "openai_compatible", "model": "own", "base_url": address, "seed": 1}
    own = {"judge": "openai_compatible", "judge_model": "own-judge", "base_url": address}
    given = claude(emulator, generate=made, max_cost_usd=0.0, **own)
    manifest = placement_record(**given).read()
    assert {row.transport for row in emulator.billing.accepted} == {"chat"}
    assert len(emulator.billing.accepted) == 54
    assert (manifest["cost"]["usd_spent"], manifest["judge"]["model"]) == (0, "own-judge")


def test_answers_and_verdicts_that_failed(workspace: Path, emulator: Emulator) -> None:
    """An answer that the model refuses is judged as it is."""
    plan = planned(**claude(emulator, n_battles=21))
    assert plan.tournament is not None
    sample = plan.tournament.sample
    entrant = sample.asked
    refused, lost = entrant[0].text, entrant[1].text

    def answer(params: Any) -> Reply | str:
        asked = params["messages"][0]["content"]
        if asked == refused:
            return Reply(text="", stop_reason="refusal")
        if "response_a" in asked:
            return "no verdict" if lost in asked else verdict("tie")
        return "An answer."

    emulator.settings.behaviour = answer
    verdicts = judge_placement(plan)
    told = verdicts.facts | place(verdicts).facts
    assert told["answers made"] == "20 ok, 1 refused"
    uses = sum(p.prompt_id == entrant[1].prompt_id for p in sample.battles)
    assert f"of 21 drawn count, {uses} lack a usable verdict" in told["judged battles"]
    rows = jsonl(verdicts.record.path / "inputs" / "responses" / "responses_newcomer.jsonl")
    assert len(rows) == 21
    assert [r["response_text"] for r in rows if r["diagnostics"]["status"] == "refused"] == [""]
    assert "unparsable" in placement.met(verdicts.battles, "newcomer", verdicts.statuses).text


def test_what_was_paid_before_credit_ended_is_not_paid_again(
    workspace: Path, emulator: Emulator
) -> None:
    """Where credit ends half way, the failed record has what was paid; the next pays the rest."""
    given = claude(emulator)
    emulator.faults.add(Fault(on="item", kind="credit_errored", share=0.5))
    with pytest.raises(PausedError, match="credit"):
        placed_model(**given | {"run_dir": "runs/failed"})
    manifest = loaded(workspace / "runs" / "failed" / "manifest.json")
    assert manifest["status"] == "failed"
    assert 0 < manifest["cost"]["usd_spent"] == pytest.approx(emulator.billing.total_usd, abs=1e-12)
    n_paid = len(emulator.billing.rows)
    emulator.faults.clear()
    rest = planned(**given)
    assert rest.forecast.parts["answers"].requests == 14 - n_paid
    spent = judge_placement(rest).record.read()["cost"]["usd_spent"]
    assert spent + manifest["cost"]["usd_spent"] == pytest.approx(emulator.billing.total_usd)
    assert len(emulator.billing.rows) == 54
    assert paid_twice(emulator) == []


# Tournaments


def test_only_one_entrant(workspace: Path) -> None:
    """`only_entrant` judges only pairs with it."""
    plan = plan_of("pilot", only_entrant="dogwood", strata={"open_recall": 4, "curated": 2})
    pairs = plan.pairing.pairs
    assert len(pairs) == 3 * (4 + 6 + 6)
    assert all("dogwood" in (pair.entrant_a, pair.entrant_b) for pair in pairs)
    assert re.search(r"96 \(48 pairs of dogwood in both orders\)", plan.facts["requests"])
    words = ["cost", "pilot", "--params", "params/pilot_claude.yaml", "--json"]
    words += ["-p", "judge.preflight", "false"]
    whole, some = (
        json.loads(call(*words, *more).stdout)["forecast"]["requests"]
        for more in ([], ["-p", "judge.only_entrant", "dogwood"])
    )
    assert some * 2 == whole
    with pytest.raises(DataError, match="only_entrant 'oak' does not compete; entrants: aspen"):
        plan_of("pilot", only_entrant="oak")
