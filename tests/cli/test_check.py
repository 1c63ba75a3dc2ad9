"""`run --check` and what `run` checks first: wrong input costs no kernel and no record."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from arena_kit.cli.main import main

PAID = ("-p", "judge", "anthropic", "-p", "max_cost_usd", "5")
OPUS = ("-p", "judge_model", "claude-opus-5-5")


def call(*words: str) -> Result:
    done = CliRunner().invoke(main, words)
    assert isinstance(done.exception, SystemExit | None), done.exception
    return done


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("pilot", ["50 of 143", "1,584 (792 pairs in both orders)", "baseline/lexical-v1"]),
        ("judge_report", ["baseline/lexical-v1"]),
        ("placement", ["dogwood", "600 of sample/arena/judged_texts.jsonl.gz"]),
        ("policy_validity", ["6,000 of sample/arena/season.csv.gz", "18", "15"]),
        ("vote_review", ["3,841 of sample/arena/pushed_votes.csv.gz", "8"]),
    ],
)
def test_what_would_run(workspace: Path, name: str, told: list[str]) -> None:
    """`run NAME --check` tells what would run, such as (32 + 50 + 50) x 6 = 792 pairs."""
    done = call("run", name, "--check")
    assert done.exit_code == 0, done.stderr
    for text in told:
        assert text in done.stdout
    assert not (workspace / "runs").exists()


def test_responses_that_are_missing_are_named(workspace: Path) -> None:
    """`run NAME --check` names entrant and prompt of every response that is missing."""
    file = workspace / "sample/responses/responses_aspen.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[2:]))
    missing = [f"aspen on {json.loads(line)['prompt_id']}" for line in lines[:2]]
    shown = " ".join(call("run", "headline", "--check").stdout.split())
    assert f"missing responses 2: {', '.join(missing)} (dropped" in shown


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("pilot", "-p", "judge.only_entrant", "nobody"), "nobody"),
        (("pilot", "-p", "judge", "anthropic"), "set max_cost_usd"),
        (("pilot", *PAID), "no key: set ANTHROPIC_API_KEY"),
        (("placement", "-p", "human", "nowhere.csv"), "nowhere.csv"),
        (("placement", "--params", "params/placement_arena.yaml", *PAID, *OPUS), "no key: set"),
        (("policy_validity", "-p", "retired", "[nobody]"), "'nobody' is no model or prompt"),
        (("judge_report", "-p", "records", "[runs/none]"), "not a run record"),
    ],
)
def test_wrong_input(workspace: Path, words: tuple[str, ...], why: str) -> None:
    """Parameters that do not fit the data end `run` with 2 before there is a record."""
    for how in (["--check"], []):
        done = call("run", *words, *how)
        assert done.exit_code == 2, done.output
        assert why in done.stderr
    assert not (workspace / "runs").exists()
