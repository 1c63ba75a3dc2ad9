"""Another judge on the recorded pairs of a run: what is asked, what stands, what changed."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from arena_kit import Board, DataError, Judgments, read_battles
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.verdicts.records import Judgment, Margin, Slot, Status, Verdict
from arena_kit.judging.verdicts.settle import presentations as both_orders
from arena_kit.judging.verdicts.settle import settle
from arena_kit.runs.record.inputs import replay_parameters
from arena_kit.runs.settings.parameters import RunParams
from arena_kit.runs.tournament.rejudge import changes, unsure
from tests.emulator import Emulator
from tests.samples import (
    call,
    copy_workspace,
    edited,
    jsonl,
    judgments_of,
    published,
    record_of,
    without_report,
)

TINY = {"strata": {"open_recall": 3, "vignette": 3, "curated": 3}, "n_perms": 10}
PAID = {
    "judge": "anthropic", "judge_model": "claude-sonnet-5-5", "transport": "messages",
    "preflight": False,
}  # fmt: skip
PAIR = Pair(dimension="tone", prompt_id="q1", entrant_a="ash", entrant_b="beech")
A, B, TIE = Slot.A, Slot.B, Slot.TIE
MUCH, BETTER = Margin.MUCH, Margin.BETTER


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a record of the embedded judge, one of its twin with another noise, one
    that keeps only hashes, and an adaptive one.
    """
    root = copy_workspace(tmp_path_factory.mktemp("rejudge") / "workspace")
    edited(root, judge__anthropic__per_minute=100_000)
    without_report(root, shown="ak.answer(board, judgments)")
    with chdir(root):
        record_of("pilot", **TINY, run_dir="runs/first")
        record_of("pilot", **TINY, inputs="hashes", run_dir="runs/hashed")
        record_of("adaptive", **TINY, max_rounds=1, run_dir="runs/adaptive")
        edited(root, judge__baseline__noise=0.4)
        record_of("pilot", **TINY, run_dir="runs/noisy")
        edited(root, judge__baseline__noise=0.06)
    return root


@pytest.fixture
def first(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(home)
    monkeypatch.delenv("ARENA_KIT_RUNS", raising=False)
    return home / "runs" / "first"


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch, emulator: Emulator) -> Emulator:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", emulator.base_url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-any")
    return emulator


def again(record: Path, which: str = "all", **changes: Any) -> Judgments:
    given = {n: v for n, v in replay_parameters(record).items() if n in RunParams.model_fields}
    return judgments_of("pilot", **given | {"rejudge": which} | changes)


def presentations(record: Path) -> set[tuple[str, ...]]:
    names = ("dimension", "prompt_id", "first", "second")
    return {
        tuple(row[name] for name in names)
        for file in (record / "verdicts").glob("*.jsonl")
        for row in jsonl(file)
    }


def test_another_judge_is_asked_about_the_recorded_pairs(first: Path, service: Emulator) -> None:
    """The new record has the same presentations, each billed once, and says what changed."""
    record = published(again(first, **PAID, max_cost_usd=5)).path
    assert presentations(record) == presentations(first)
    assert len(service.billing.rows) == len(presentations(first))
    told = json.loads((record / "rejudge.json").read_text())
    assert told["before"]["judge_model"] == "baseline/lexical-v1"
    assert told["after"]["judge_model"] == "claude-sonnet-5-5"
    assert {*told["dimensions"]} == {"factuality", "calibration", "clinical_utility"}
    for name, each in told["dimensions"].items():
        old, new = (
            {(r["prompt_id"], r["first"], r["second"]): r["winner"] for r in
             jsonl(path / "verdicts" / f"{name}.jsonl")}
            for path in (first, record)
        )  # fmt: skip
        assert each["agreed"] == sum(old[key] == new[key] for key in old)
        assert each["flipped"] == len(old) - each["agreed"]
        assert -1 <= each["kendall"] <= 1
        for when, path in (("before", first), ("after", record)):
            bias = json.loads((path / "manifest.json").read_text())["position_bias"][name]
            slots = each["slots"][when]
            assert slots == {key: bias[key] for key in slots}


def test_the_dear_judge_is_asked_only_where_the_cheap_one_was_unsure(
    first: Path, service: Emulator
) -> None:
    """Pairs whose two orders agreed keep their verdicts and their judge; only the
    others are billed.
    """
    study = again(first, "unsure", **PAID, max_cost_usd=5)
    unsure = {b.battle_id for b in read_battles(first / "battles.jsonl").to_battles()
              if b.inconsistent}  # fmt: skip
    record = published(study).path
    assert {pair.pair_id for pair in study.plan.asked} == unsure
    assert len(service.billing.rows) == 2 * len(unsure) > 0
    battles = list(read_battles(record / "battles.jsonl").to_battles())
    assert {b.battle_id for b in battles if b.judge_model == "claude-sonnet-5-5"} == unsure
    assert Counter(b.judge_model for b in battles)["baseline/lexical-v1"] == len(battles) - len(
        unsure
    )
    told = json.loads((record / "rejudge.json").read_text())
    assert told["unsure"] == {"the orders disagree": len(unsure)}
    asked = sum(each["agreed"] + each["flipped"] for each in told["dimensions"].values())
    assert asked == 2 * len(unsure)
    assert "of which baseline/lexical-v1 was unsure" in study.plan.facts["judged again"]


def test_a_judge_that_said_otherwise_when_asked_twice_is_unsure(first: Path) -> None:
    """Of two pairs asked a second time, one with a winner then names the other entrant."""
    study = judgments_of("pilot", **TINY, limit_pairs=4, repeats=4)
    record = published(study).path
    file = record / "repeats.jsonl"
    pair = next(j.pair for j in study.repeats if j.winner)
    lines = jsonl(file)
    for row in lines:
        sides = {row["first"], row["second"]}
        if (row["prompt_id"], sides) == (pair.prompt_id, {pair.entrant_a, pair.entrant_b}):
            other = {"A": "B", "B": "A"}[row["winner"]]
            row["raw_text"] = json.dumps({"justification": "", "winner": other})
    file.write_text("".join(json.dumps(row) + "\n" for row in lines))
    plan = again(record, "unsure", judge="baseline").plan
    assert plan.rejudged is not None
    assert plan.rejudged.why["repeated answers disagree"] == 1
    assert pair in plan.asked


def test_the_forecast_counts_only_what_is_asked(first: Path, service: Emulator) -> None:
    """With --only-unsure it is the unsure pairs in both orders, and nothing is sent."""
    alone = ("-p", "judge.preflight", "false", "--forecast")
    words = ("rejudge", first, "--judge", "anthropic", "--max-cost-usd", "5", *alone)
    whole, part = (
        json.loads(call(*words, *more, "--json").stdout) for more in ((), ("--only-unsure",))
    )
    unsure = sum(b.inconsistent for b in read_battles(first / "battles.jsonl").to_battles())
    assert (whole["requests"], part["requests"]) == (len(presentations(first)), 2 * unsure)
    assert not service.billing.rows


def test_a_paid_judge_needs_a_cap(first: Path, service: Emulator) -> None:
    with pytest.raises(DataError, match="must be paid: set max_cost_usd"):
        again(first, **PAID)


def test_the_pairs_of_an_adaptive_run_are_those_that_it_chose(first: Path) -> None:
    """Not all pairs of its prompts, of which one round judges a part."""
    adaptive = first.parent / "adaptive"
    study = again(adaptive, judge="baseline")
    both = {(p.dimension, p.prompt_id, *sides) for p in study.plan.asked
            for sides in ((p.entrant_a, p.entrant_b), (p.entrant_b, p.entrant_a))}  # fmt: skip
    assert both == presentations(adaptive)
    assert len(both) < len(presentations(first))
    published(study)


def test_agreement_is_that_of_the_two_records_battles(first: Path) -> None:
    """Counted by hand from both files: pairs that both judges decide, and those that agree."""
    noisy = first.parent / "noisy"
    old, new = (
        {b.battle_id: b for b in read_battles(path / "battles.jsonl").to_battles()}
        for path in (first, noisy)
    )
    for each in changes(first, noisy, Board.read(noisy)):
        own = [i for i in old if i in new and old[i].dimension == each.dimension]
        decided = [i for i in own if old[i].winner.decisive and new[i].winner.decisive]
        assert each.decided.rate.n == len(decided) > 0
        assert each.decided.agreed == sum(old[i].winner == new[i].winner for i in decided)
        whole = [i for i in own if not (old[i].inconsistent or new[i].inconsistent)]
        assert each.pairs.rate.n == len(whole)
        assert 0 < each.flipped < each.agreed + each.flipped
        for above, below in (*each.orders.lost, *each.orders.reversed):
            assert f"{above} above {below}" in each.sentence


def test_a_record_that_was_judged_again_is_a_record_like_any_other(first: Path) -> None:
    """It is repeated, and judged again in its turn."""
    second = published(again(first, judge="baseline", limit_pairs=2)).path
    repeated = published(again(second, "")).path
    assert (repeated / "battles.jsonl").read_text() == (second / "battles.jsonl").read_text()
    assert not (repeated / "rejudge.json").exists()
    third = published(again(second, judge="baseline")).path
    told = json.loads((third / "rejudge.json").read_text())
    assert told["before"]["record"] == str(second)
    assert presentations(third) == presentations(second)


def test_from_the_command_line_with_the_embedded_judge(first: Path) -> None:
    """A whole run with a report; the terminal says what changed and ends with the record."""
    done = call("rejudge", first, "--judge", "baseline", "-p", "limit_pairs", "4")
    assert done.exit_code == 0, done.stderr
    record = Path(done.stdout.splitlines()[-1])
    assert (record / "report.html").is_file()
    for text in (done.stdout, (record / "report.html").read_text()):
        assert "0 of 8 verdicts flipped" in " ".join(text.split())
    overrides = json.loads((record / "manifest.json").read_text())["parameters"]["overrides"]
    assert overrides["judge.rejudge"] == "all"


@pytest.mark.parametrize(
    ("name", "words", "sentence"),
    [
        ("hashed", (), "keeps only hashes of its inputs"),
        ("none", (), "not a run record"),
        ("first", ("-p", "elo.n_perms", "x"), "n_perms"),
        ("first", ("-p", "judge.replay_from", "params/pilot.yaml"), "is no record"),
        ("first", ("-p", "judge.replay_from", ""), "rejudge needs replay_from"),
        (
            "first",
            ("-p", "judge.rejudge", "some"),
            "Input should be '', 'all' or 'unsure'",
        ),
        ("first", ("-p", "judge", "replay"), "replay only repeats one"),
    ],
)
def test_what_cannot_be_judged_again_is_said_in_a_sentence(
    first: Path, name: str, words: tuple[str, ...], sentence: str
) -> None:
    done = call("rejudge", first.parent / name, "--judge", "baseline", "--forecast", *words)
    assert done.exit_code == 2, done.output
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_only_tournaments_are_judged_again(first: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"mode": "placement"}')
    done = call("rejudge", tmp_path, "--judge", "baseline")
    assert done.exit_code == 2
    assert "needs the record of pilot, headline, k_sweep, adaptive, not of 'placement'" in (
        done.stderr
    )


def test_a_judge_that_was_sure_leaves_nothing_to_ask(first: Path) -> None:
    with pytest.raises(DataError, match="was sure of every pair"):
        again(first, "unsure", judge="baseline", limit_pairs=1, only_entrant="cedar",
              strata={"open_recall": 1})  # fmt: skip


def judgment(forward: Slot | None, backward: Slot | None, *margins: Margin | None) -> Judgment:
    """A pair's two orders; None is an order that was refused."""
    said = zip(both_orders(PAIR), (forward, backward), margins or (None, None), strict=True)
    first, second = (
        Verdict(
            presentation=shown,
            status=Status.OK if slot else Status.REFUSED,
            winner=slot,
            margin=margin,
        )
        for shown, slot, margin in said
    )
    return settle(first, second)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (judgment(A, B), ""),
        (judgment(TIE, TIE), ""),
        (judgment(A, A), "the orders disagree"),
        (judgment(A, TIE), "the orders disagree"),
        (judgment(A, None), "an order has no verdict"),
        (judgment(A, B, MUCH, MUCH), ""),
        (judgment(A, B, MUCH, BETTER), ""),
        (judgment(A, B, BETTER, BETTER), "the grade is weak"),
        (judgment(B, A, BETTER, BETTER), "the grade is weak"),
        (judgment(TIE, TIE, Margin.NONE, Margin.NONE), ""),
    ],
)
def test_a_judge_is_unsure_where_its_orders_disagree_or_its_grade_is_weak(
    said: Judgment, why: str
) -> None:
    assert unsure(said) == why


def test_a_judge_is_unsure_where_it_says_something_else_when_asked_again() -> None:
    assert unsure(judgment(A, B), [judgment(A, B)]) == ""
    assert unsure(judgment(A, B), [judgment(A, B), judgment(B, A)]) == "repeated answers disagree"
    assert unsure(judgment(A, B), [judgment(A, A)]) == "repeated answers disagree"
