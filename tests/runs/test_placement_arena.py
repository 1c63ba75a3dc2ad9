"""A new model into an arena, end to end: the sample, the emulated services, money and resuming."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from arena_kit import (
    DataError,
    judge_placement,
    place,
    placement,
    publish_placement,
    read_battles,
    read_placement,
)
from arena_kit.battles.read import read_battle_texts
from arena_kit.cli.main import main
from arena_kit.cli.records import show_board
from arena_kit.files import read_yaml
from arena_kit.judging.asking.cost import CostError
from arena_kit.judging.asking.judge_pairs import OfflineError
from arena_kit.judging.judges.base import PausedError
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.pairs.prompts import read_prompts, read_responses
from arena_kit.runs.placement.plan import PlacementPlan
from tests.emulator import Emulator, Fault, Reply
from tests.samples import (
    KEY,
    edited,
    jsonl,
    parameters,
    placed_model,
    placement_record,
    plan_of,
    verdict,
)

ARENA = "sample/arena/simulated_texts.jsonl.gz"
LEDGER = Path(".arena_kit") / "verdicts.sqlite"


def claude(emulator: Emulator, **changes: Any) -> dict[str, Any]:
    """A newcomer made by one Claude and judged by another, on a few battles."""
    address = {"base_url": emulator.base_url}
    made = {"backend": "anthropic", "model": "claude-sonnet-5-5", "max_tokens": 400} | address
    return (
        {"model": "newcomer", "human": ARENA, "judged": "", "generate": made, "min_battles": 300}
        | {"judge": "anthropic", "judge_model": "claude-opus-5-5", "max_cost_usd": 20.0}
        | {"n_battles": 14, "n_shared": 6, "soft": False, "n_bootstraps": 100, "preflight": False}
        | address
        | changes
    )


@pytest.fixture(autouse=True)
def _a_key(_no_keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def paid_twice(emulator: Emulator) -> list[str]:
    """Cache keys, as they stand in custom ids, that were billed more than once."""
    billed = Counter(row.custom_id.partition("-")[2] for row in emulator.billing.rows)
    return [key for key, n in billed.items() if n > 1]


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
    """The shipped parameters draw, judge with the embedded judge and place the model, the judge's
    error included, as the terminal shows; every judged text is in the record, as it stands in the
    arena.
    """
    study = placed_model(**sample_params | {"n_bootstraps": 100})
    record = publish_placement(study)
    capsys.readouterr()
    show_board(record.path)
    shown = " ".join(capsys.readouterr().out.split())
    span = interval_with_judge_error(record.path)
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
    prompts = read_prompts(inputs / "prompts.jsonl")
    entrants = ["dogwood", *manifest["sample"]["opponents"]]
    kept = read_responses(inputs / "responses", entrants, [p.prompt_id for p in prompts])
    recorded = {
        (row[f"model_{side}"], row["question_id"]): row[f"response_{side}"]
        for row in map(json.loads, gzip.decompress((workspace / ARENA).read_bytes()).splitlines())
        for side in "ab"
    }
    bank = [p.prompt_id for p in read_prompts(workspace / "sample" / "prompts.jsonl")]
    own = read_responses(workspace / "sample" / "responses", ["dogwood"], bank)
    recorded |= {cell: response.response_text for cell, response in own.items()}
    for cell, response in kept.items():
        assert response.response_text == recorded[cell]
    for row in jsonl(record.path / "matches" / "matches.jsonl"):
        for side in ("entrant_a", "entrant_b"):
            assert (row[side], row["prompt_id"]) in kept

    told = CliRunner().invoke(main, ["rate", str(record.path), "--json"]).stdout
    ratings = json.loads((record.path / "elo_ratings.json").read_text())["ratings"]
    assert [row["rating"] for row in json.loads(told)["ratings"]] == [r["rating"] for r in ratings]
    judged = read_battles(record.path / "judged.jsonl")
    again = placed_model(**sample_params | {"n_bootstraps": 100, "responses": "",
                                "judged": str(record.path / "judged.jsonl")})  # fmt: skip
    assert len(judged) == 600
    assert again.placed.shown.ratings == study.placed.shown.ratings


def interval_with_judge_error(record: Path) -> str:
    wide = json.loads((record / "elo_ratings.json").read_text())["with_judge_error"]
    return f"{wide['ci_low']:.0f} to {wide['ci_high']:.0f}"


@pytest.mark.slow  # a kernel; the test above has the same board in terminal and report
def test_the_sample_as_a_user_runs_it(workspace: Path) -> None:
    """`arena-kit run placement --params params/placement_arena.yaml` needs no key, ends in under a
    minute, and its terminal and report show the interval that holds the judge's error.
    """
    env = {k: v for k, v in os.environ.items() if not k.startswith("ANTHROPIC_")}
    words = ["run", "placement", "--params", "params/placement_arena.yaml"]
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "arena_kit", *words], env=env, capture_output=True, text=True,
        timeout=180, check=False,
    )  # fmt: skip
    took = time.monotonic() - started
    assert done.returncode == 0, done.stderr
    record = Path(done.stdout.splitlines()[-1])
    span = interval_with_judge_error(record)
    report = (record / "report.html").read_text(encoding="utf-8")
    assert span in done.stdout
    assert span in report
    assert "with this judge's error" in " ".join(done.stdout.split())
    assert "simulated, no person voted" in report
    assert "<script" not in report
    assert took < 60 * max(1.0, os.getloadavg()[0] / 2), "an idle machine takes half of it"


def test_a_record_alone_shows_every_judged_text(
    workspace: Path, sample_params: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A placement's record in an empty folder, on its own, shows each judged battle with its
    texts, odd names included, and what the judge said; with `inputs: hashes` it keeps no text.
    """
    odd = workspace / "odd.jsonl"
    text = gzip.decompress((workspace / ARENA).read_bytes()).decode()
    odd.write_text(text.replace('"aspen"', '"aspen (large)"').replace('"rec-001"', '"rec 001?"'))
    few = {
        "n_bootstraps": 100,
        "n_battles": 140,
        "n_shared": 0,
        "soft": False,
        "human": "odd.jsonl",
    }
    (workspace / "sample" / "responses" / "responses_dogwood.jsonl").rename(workspace / "d.jsonl")
    rows = [r for r in jsonl(workspace / "d.jsonl") if r["prompt_id"] != "rec-001"]
    (workspace / "sample" / "responses" / "responses_dogwood.jsonl").write_text(
        "\n".join(map(json.dumps, rows)) + "\n"
    )
    record = placement_record(**sample_params | few).path
    copy = tmp_path / "alone" / "record"
    shutil.copytree(record, copy)
    monkeypatch.chdir(copy.parent)
    told = CliRunner().invoke(main, ["runs", "show", "record", "--json"])
    assert told.exit_code == 0, told.stderr
    shown = [row for row in map(json.loads, told.stdout.splitlines()) if row["judge_model"]]
    judged = [r for r in jsonl(copy / "battles.jsonl") if r["source"] == "llm-judge"]
    assert {row["battle_id"] for row in shown} == {row["battle_id"] for row in judged}
    assert any("aspen (large)" in (row["model_a"], row["model_b"]) for row in shown)
    assert all(row["prompt"] and row["response_a"] and row["verdicts"] for row in shown)
    monkeypatch.chdir(workspace)
    hashes = placement_record(**sample_params | few | {"inputs": "hashes"})
    assert not list((hashes.path / "inputs").rglob("*.jsonl"))
    assert hashes.read()["inputs"]["prompts.jsonl"]["kept"] is False


def test_prompts_and_responses_of_ones_own(workspace: Path) -> None:
    """Votes that name their question take the texts from a tournament's files; with a rubric that
    needs gold answers only prompts that have one are judged.
    """
    study = placed_model(
        model="dogwood", human="sample/arena/simulated_votes.csv.gz", judged="",
        texts="params/tournament.yaml", responses="sample/responses", n_battles=60, n_shared=250,
        rubric="params/rubrics/factuality.md", reference="gold_answer", n_bootstraps=100,
    )  # fmt: skip
    tournament = study.verdicts.plan.tournament
    assert tournament is not None
    sample = tournament.sample
    assert set(sample.opponents) == {"aspen", "birch", "cedar"}
    assert all(prompt.gold_answer for prompt in sample.prompts)
    assert study.placed.calibration is not None
    assert study.placed.judge_error is None, "three models do not show a judge's error"
    assert placement.board(study.placed).title.endswith("where this judge puts it")
    record = publish_placement(study)
    kept = read_prompts(record.path / "inputs" / "prompts.jsonl")
    assert all(prompt.gold_answer for prompt in kept)


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


def test_battles_without_a_question_id(workspace: Path, sample_params: dict[str, Any]) -> None:
    """An arena that names no questions is known by its prompts: people's and the judge's battles
    on equal prompts meet, and the record gives its ratings again; only pinning is refused.
    """
    rows = map(json.loads, gzip.decompress((workspace / ARENA).read_bytes()).splitlines())
    bare = [json.dumps({k: v for k, v in row.items() if k != "question_id"}) for row in rows]
    (workspace / "bare.jsonl").write_text("\n".join(bare) + "\n", encoding="utf-8")
    made = {"backend": "openai_compatible", "model": "own", "base_url": "http://127.0.0.1:9/v1"}
    given = sample_params | {"human": "bare.jsonl", "responses": "", "generate": made}
    with pytest.raises(DataError, match=r"bare\.jsonl: .*set placement.inline_human to true"):
        planned(**given | {"inline_human": False})
    study = planned(**given)
    assert study.tournament is not None
    sample = study.tournament.sample
    assert all(prompt.prompt_id.startswith("prompt-") for prompt in sample.prompts)
    assert {prompt.prompt_id for prompt in sample.prompts} <= {*study.human.prompts}
    assert len(study.human.prompts) <= 143


def test_another_tools_arena(workspace: Path, sample_params: dict[str, Any]) -> None:
    """An arena in LMArena's CSV of 55,000 votes (one-hot winners, turns as JSON lists) is drawn
    from as our own is.
    """
    rows = map(json.loads, gzip.decompress((workspace / ARENA).read_bytes()).splitlines())
    with (workspace / "lmarena.csv").open("w", newline="", encoding="utf-8") as out:
        winners = ["winner_model_a", "winner_model_b", "winner_tie"]
        texts = ["prompt", "response_a", "response_b"]
        table = csv.writer(out)
        table.writerow(["id", "model_a", "model_b", *texts, *winners])
        for n, row in enumerate(rows):
            won = {"model_a": 0, "model_b": 1}.get(row["winner"], 2)
            said = [json.dumps([row[name]]) for name in texts]
            table.writerow(
                [n, row["model_a"], row["model_b"], *said, *(int(won == i) for i in range(3))]
            )
    made = {"backend": "openai_compatible", "model": "own", "base_url": "http://127.0.0.1:9/v1"}
    given = sample_params | {"human": "lmarena.csv", "responses": "", "generate": made}
    plan = planned(**given | {"model": "newcomer", "languages": []}).tournament
    assert plan is not None
    assert (len(plan.sample.battles), len(plan.sample.shared)) == (200, 400)
    assert not plan.left_out
    ours = map(json.loads, gzip.decompress((workspace / ARENA).read_bytes()).splitlines())
    known = {row[f"response_{side}"] for row in ours for side in "ab"}
    assert {response.response_text for response in plan.sample.recorded.values()} <= known


def test_too_few_shared_battles_after_all(workspace: Path, sample_params: dict[str, Any]) -> None:
    """Where fewer shared battles than needed could be judged, what was paid for is not lost: the
    verdicts count in full, which is said, and so is that this is only where this judge puts it.
    """
    few = {"n_shared": 210, "n_battles": 50, "n_bootstraps": 100}  # some will be inconsistent
    study = placed_model(**sample_params | few)
    assert study.placed.calibration is None
    assert "for want of battles" in study.facts["verdicts"]
    assert study.placed.judge_error is None
    assert "where this judge puts it" in placement.board(study.placed).title


# Paid answers and verdicts


def test_the_bill_is_within_the_forecast(workspace: Path, emulator: Emulator) -> None:
    """Answers and verdicts over batches cost what the emulator bills, between the forecast's least
    and most; a second placement sends nothing and pays nothing.
    """
    given = parameters("placement", **claude(emulator))
    code = CliRunner().invoke(main, ["cost", "placement", "--params", _file(given), "--json"])
    told = json.loads(code.stdout)["forecast"]
    unnamed = CliRunner().invoke(main, ["cost", "--params", _file(given)])
    assert "Forecast of answers" in unnamed.stdout, unnamed.stderr
    assert "is within max_cost_usd 20" in unnamed.stdout
    plan = read_placement(**given)
    assert plan.forecast.as_dict() == told
    study = place(judge_placement(plan))
    record = publish_placement(study)
    manifest = record.read()
    bill = emulator.billing.total_usd
    assert manifest["cost"]["usd_spent"] == pytest.approx(bill, abs=1e-12)
    assert told["total"]["usd_at_least"] < bill < told["total"]["usd_at_most"]
    assert told["answers"]["requests"] == 14
    assert told["verdicts"]["requests"] == 40
    assert len(emulator.billing.rows) == 54
    paid = manifest["cost"]["answers_paid"]
    assert paid["answers"]["usd"] + paid["verdicts"]["usd"] == pytest.approx(bill, abs=1e-12)
    answers = jsonl(record.path / "inputs" / "responses" / "responses_newcomer.jsonl")
    assert len(answers) == 14
    assert manifest["answers"]["responses"] == {"ok": 14}

    before = len(emulator.requests)
    again = place(judge_placement(read_placement(**given)))
    assert again.verdicts.record.read()["cost"]["usd_spent"] == 0
    assert len(emulator.requests) == before
    assert again.placed.joint.ratings == study.placed.joint.ratings


def _file(given: dict[str, Any]) -> str:
    Path("params/given.yaml").write_text(yaml.safe_dump(given))
    return "params/given.yaml"


def test_answers_as_long_as_forecast_cost_what_was_forecast(
    workspace: Path, emulator: Emulator
) -> None:
    """Where the new model writes as much as the recorded answers do and the judge as much as the
    tournament file says, the bill lies between all prompt-cache hits and none.
    """
    _, texts = read_battle_texts(workspace / ARENA)
    said = dict(zip(texts.prompt, texts.response_a, strict=True))
    long = json.dumps({"justification": "It does better. " * 20, "winner": "A"})

    def answer(params: Any) -> str:
        asked = params["messages"][0]["content"]
        return str(said[asked]) if asked in said else long

    edited(workspace, judge__anthropic__expected_output_tokens=90, judge__anthropic__effort="")
    emulator.settings.behaviour = answer
    emulator.settings.thinking_share = 0.0
    plan = planned(**claude(emulator, n_battles=40, inconsistent="tie"))
    total = plan.forecast.as_dict()["total"]
    judge_placement(plan)
    bill = emulator.billing.total_usd
    assert 0.95 * total["usd_all_hits"] < bill < 1.05 * total["usd_no_hits"]


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
    """Without a cap, above it, or offline, nothing is asked: one cap covers answers and verdicts,
    so answers that alone would fit are not bought either.
    """
    with pytest.raises(error, match=why) as caught:
        judge_placement(planned(**claude(emulator) | changes))
    assert "\n" not in str(caught.value)
    assert emulator.billing.accepted == []


def test_offline_after_a_run(workspace: Path, emulator: Emulator) -> None:
    """Offline, a placement comes from the ledger alone; what it lacks is listed and refused."""
    given = claude(emulator)
    ratings = placed_model(**given).placed.joint.ratings
    sent = len(emulator.requests)
    offline = placed_model(**given | {"offline": True})
    assert offline.placed.joint.ratings == ratings
    with pytest.raises(OfflineError, match="verdicts are not in the cache"):
        placed_model(**given | {"offline": True, "n_shared": 9, "run_dir": "runs/more"})
    assert len(jsonl(workspace / "runs" / "more" / "missing.jsonl")) == 6
    assert len(emulator.requests) == sent


def test_a_chat_completions_server(workspace: Path, emulator: Emulator) -> None:
    """A server of one's own answers and judges without a key or a cap, and nothing is billed."""
    address = f"{emulator.base_url}/v1"
    made = {"backend": "openai_compatible", "model": "own", "base_url": address, "seed": 1}
    manifest = placement_record(**claude(emulator) | {"generate": made, "max_cost_usd": 0.0,
        "judge": "openai_compatible", "judge_model": "own-judge",
        "base_url": address}).read()  # fmt: skip
    assert {row.transport for row in emulator.billing.accepted} == {"chat"}
    assert len(emulator.billing.accepted) == 54
    assert manifest["cost"]["usd_spent"] == 0
    assert manifest["judge"]["model"] == "own-judge"


def test_live_messages(workspace: Path, emulator: Emulator) -> None:
    """`transport: messages` asks the judge live, and the definition's own the new model."""
    edited(workspace, judge__anthropic__per_minute=6000)
    given = claude(emulator, transport="messages", n_battles=7, n_shared=0)
    given["generate"] |= {"transport": "messages"}
    manifest = placement_record(**given).read()
    assert {row.transport for row in emulator.billing.accepted} == {"messages"}
    assert manifest["cost"]["usd_spent"] == pytest.approx(emulator.billing.total_usd, abs=1e-12)


def test_answers_and_verdicts_that_failed(workspace: Path, emulator: Emulator) -> None:
    """An answer that the model refuses is judged as it is; one that the service never gave and a
    pair without both verdicts give no battle, and all of it is told.
    """
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


# Killed and resumed

#: `python -m arena_kit` that hears Ctrl-C, which a process started in the background ignores.
HEARING = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("arena_kit", run_name="__main__")
"""


def started(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HEARING, *words], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def wait_for_batch(workspace: Path, known: set[str]) -> str:
    """The id of a batch in the ledger that was not known."""
    ledger = Ledger(workspace / LEDGER)
    for _ in range(1200):
        for intent in ledger.open_intents():
            if intent.batch_id and intent.batch_id not in known:
                return intent.batch_id
        time.sleep(0.1)
    raise AssertionError("no batch was created within two minutes")


def resumed(record: Path) -> subprocess.Popen[str]:
    return started("resume", str(record))


@pytest.mark.slow  # three whole runs, two of them killed; the next test is the quick one
def test_killed_while_answering_and_while_judging(workspace: Path) -> None:
    """Killed outright while the answers are made and interrupted while they are judged, the run is
    resumed each time in its record, ends, and every request was paid once.
    """
    with Emulator(seed=3, batch_seconds=3600) as emulator:
        process = started(
            "run", "placement", "--params", _file(parameters("placement", **claude(emulator)))
        )
        first = wait_for_batch(workspace, set())
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        (record,) = (workspace / "runs").iterdir()
        emulator.clock.advance(hours=2)

        process = resumed(record)
        for _ in range(60):  # the orphaned kernel of a killed run may hold the ledger a little
            if (code := process.poll()) is None and Ledger(workspace / LEDGER).known_batches() > {
                first
            }:
                break
            if code == 3:
                process = resumed(record)
            time.sleep(1)
        second = wait_for_batch(workspace, {first})
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert second in err
        assert f"arena-kit resume {record}" in err
        emulator.clock.advance(hours=2)

        process = resumed(record)
        out, err = process.communicate(timeout=180)
        assert process.returncode == 0, err
        manifest = json.loads((record / "manifest.json").read_text())
        assert manifest["status"] == "finished"
        assert len(emulator.billing.rows) == 54
        assert paid_twice(emulator) == []
        bill = emulator.billing.total_usd
        assert manifest["cost"]["usd_spent"] == pytest.approx(bill, abs=1e-9)
        assert "newcomer ◀ placed" in out
        assert manifest["cost"]["forecast"]["answers"]["requests"] == 14, "the first one is kept"


def test_what_was_paid_before_credit_ended_is_not_paid_again(
    workspace: Path, emulator: Emulator
) -> None:
    """Where credit ends half way through the answers, the failed record has what was paid, and the
    next placement pays only for the rest.
    """
    given = claude(emulator)
    emulator.faults.add(Fault(on="item", kind="credit_errored", share=0.5))
    with pytest.raises(PausedError, match="credit"):
        placed_model(**given | {"run_dir": "runs/failed"})
    manifest = json.loads((workspace / "runs" / "failed" / "manifest.json").read_text())
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
    """`only_entrant` judges only pairs with it: half of all pairs among four, in the forecast,
    the facts and the record; a stranger is refused.
    """
    plan = plan_of("pilot", only_entrant="dogwood", strata={"open_recall": 4, "curated": 2})
    pairs = plan.pairing.pairs
    assert len(pairs) == 3 * (4 + 6 + 6)
    assert all("dogwood" in (pair.entrant_a, pair.entrant_b) for pair in pairs)
    assert re.search(r"96 \(48 pairs of dogwood in both orders\)", plan.facts["requests"])
    words = ["cost", "pilot", "--params", "params/pilot_claude.yaml", "--json"]
    words += ["-p", "judge.preflight", "false"]
    whole, some = (
        json.loads(CliRunner().invoke(main, [*words, *more]).stdout)["forecast"]["requests"]
        for more in ([], ["-p", "judge.only_entrant", "dogwood"])
    )
    assert some * 2 == whole
    with pytest.raises(DataError, match="only_entrant 'oak' does not compete; entrants: aspen"):
        plan_of("pilot", only_entrant="oak")
