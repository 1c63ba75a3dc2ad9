"""Another judge on the recorded pairs of a run: what is asked, what stands, what changed."""

import json
import shutil
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from arena_kit import Battle, Board, DataError, read_battles
from arena_kit.judging.verdicts.records import Margin, Slot, Status, settle
from arena_kit.runs.record.inputs import replay_parameters
from arena_kit.runs.settings.parameters import RunParams
from arena_kit.runs.tournament.judge import Judgments
from arena_kit.runs.tournament.rejudge import changes, unsure
from tests import samples
from tests.emulator import Emulator
from tests.samples import call, edited, jsonl, judgments_of, loaded, published, record_of, settled

TINY = {"strata": {"open_recall": 2, "vignette": 1, "curated": 1}, "n_perms": 10}
PAID = {
    "judge": "anthropic", "judge_model": "claude-sonnet-5-5", "transport": "messages",
    "preflight": False,
}  # fmt: skip
A, B, TIE = Slot.A, Slot.B, Slot.TIE
MUCH, BETTER = Margin.MUCH, Margin.BETTER


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a record of the demo judge, one of its twin with another noise."""
    root = samples.copy_workspace(tmp_path_factory.mktemp("rejudge") / "workspace")
    edited(root, judge__anthropic__per_minute=100_000)
    samples.without_report(root, shown="ak.answer(board, judgments)")
    with chdir(root):
        record_of("pilot", **TINY, run_dir="runs/first")
        edited(root, judge__baseline__noise=0.4)
        record_of("pilot", **TINY, run_dir="runs/noisy")
        edited(root, judge__baseline__noise=0.06)
    hashed = Path(shutil.copytree(root / "runs" / "first", root / "runs" / "hashed"))
    shutil.rmtree(hashed / "inputs")
    manifest = loaded(hashed / "manifest.json")
    manifest["inputs"] = {name: each | {"kept": False} for name, each in manifest["inputs"].items()}
    (hashed / "manifest.json").write_text(json.dumps(manifest))
    return root


@pytest.fixture
def first(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(home)
    return home / "runs" / "first"


def again(record: Path, which: str = "all", **changes: Any) -> Judgments:
    kept = {k: v for k, v in replay_parameters(record).items() if k in RunParams.model_fields}
    return judgments_of("pilot", **kept | {"rejudge": which} | changes)


def battles(record: Path) -> dict[str | None, Battle]:
    return {b.battle_id: b for b in read_battles(record / "battles.jsonl").to_battles()}


def winners(record: Path) -> dict[tuple[str, ...], str]:
    """What a record's judge said to each presentation."""
    names = ("dimension", "prompt_id", "first", "second")
    rows = [row for file in (record / "verdicts").glob("*.jsonl") for row in jsonl(file)]
    return {tuple(row[name] for name in names): row["winner"] for row in rows}


def test_another_judge_is_asked_about_the_recorded_pairs(first: Path, service: Emulator) -> None:
    """The new record has the same presentations, each billed once, and says what changed."""
    with pytest.raises(DataError, match="max_cost_usd"):
        again(first, **PAID)
    record = published(again(first, **PAID, max_cost_usd=5)).path
    old, new, found = winners(first), winners(record), loaded(record / "rejudge.json")
    assert (old.keys(), len(service.billing.rows)) == (new.keys(), len(old))
    assert found["before"]["judge_model"] == "baseline/lexical-v1"
    assert found["after"]["judge_model"] == "claude-sonnet-5-5"
    for name, each in found["dimensions"].items():
        own = [key for key in old if key[0] == name]
        assert each["agreed"] == sum(old[key] == new[key] for key in own)
        assert each["flipped"] == len(own) - each["agreed"]
        assert -1 <= each["kendall"] <= 1
        for when, path in (("before", first), ("after", record)):
            assert each["slots"][when] == loaded(path / "manifest.json")["position_bias"][name]


def test_the_dear_judge_is_asked_only_where_the_cheap_one_was_unsure(
    first: Path, service: Emulator
) -> None:
    """Pairs whose two orders agreed keep their verdicts and their judge."""
    doubted = {name for name, battle in battles(first).items() if battle.inconsistent}
    words = ("rejudge", first, "--judge", "anthropic", "--max-cost-usd", "5", "--forecast")
    words = (*words, "-p", "judge.preflight", "false", "--json")
    whole, part = (json.loads(call(*words, *more).stdout) for more in ((), ("--only-unsure",)))
    assert (whole["requests"], part["requests"]) == (len(winners(first)), 2 * len(doubted))
    assert not service.billing.rows
    judgments = again(first, "unsure", **PAID, max_cost_usd=5)
    record = published(judgments).path
    assert {pair.pair_id for pair in judgments.plan.asked} == doubted
    assert len(service.billing.rows) == 2 * len(doubted) > 0
    judges = {name: battle.judge_model for name, battle in battles(record).items()}
    assert {name for name, judge in judges.items() if judge == "claude-sonnet-5-5"} == doubted
    assert {judges[name] for name in judges.keys() - doubted} == {"baseline/lexical-v1"}
    found = loaded(record / "rejudge.json")
    assert found["unsure"] == {"verdict changed with presentation order": len(doubted)}
    asked = sum(each["agreed"] + each["flipped"] for each in found["dimensions"].values())
    assert asked == 2 * len(doubted)
    assert "of which baseline/lexical-v1 was unsure" in judgments.plan.facts["judged again"]


def test_a_judge_that_said_otherwise_when_asked_twice_is_unsure(first: Path) -> None:
    """Of two pairs asked a second time, one with a winner then names the other entrant."""
    judgments = judgments_of("pilot", **TINY, limit_pairs=4, repeats=4)
    file = published(judgments).path / "repeats.jsonl"
    pair = next(j.pair for j in judgments.repeats if j.winner)
    lines = jsonl(file)
    for row in lines:
        sides = {row["first"], row["second"]}
        if (row["prompt_id"], sides) == (pair.prompt_id, {pair.entrant_a, pair.entrant_b}):
            other = {"A": "B", "B": "A"}[row["winner"]]
            row["raw_text"] = json.dumps({"justification": "", "winner": other})
    file.write_text("".join(json.dumps(row) + "\n" for row in lines))
    plan = again(file.parent, "unsure", judge="baseline").plan
    assert plan.rejudged is not None
    assert plan.rejudged.why["repeated answers differ"] == 1
    assert pair in plan.asked


@pytest.mark.parametrize(
    ("orders", "margins", "why"),
    [
        ((A, B), (None, None), ""), ((TIE, TIE), (None, None), ""),
        ((A, A), (None, None), "verdict changed with presentation order"),
        ((A, TIE), (None, None), "verdict changed with presentation order"),
        ((A, Status.REFUSED), (None, None), "missing verdict"),
        ((A, B), (MUCH, BETTER), ""), ((TIE, TIE), (Margin.NONE, Margin.NONE), ""),
        ((A, B), (BETTER, BETTER), "weak grade"),
        ((B, A), (BETTER, BETTER), "weak grade"),
    ],
)  # fmt: skip
def test_a_judge_is_unsure_where_its_orders_disagree_or_its_grade_is_weak(
    orders: tuple[Slot | Status, Slot | Status], margins: tuple[Margin | None, ...], why: str
) -> None:
    (judgment,) = settled(orders)
    graded = zip(judgment.verdicts, margins, strict=True)
    assert unsure(settle(*(verdict._replace(margin=margin) for verdict, margin in graded))) == why


def test_agreement_is_that_of_the_two_records_battles(first: Path) -> None:
    """Counted by hand from both files: pairs that both judges decide, and those that agree."""
    noisy = first.parent / "noisy"
    old, new = battles(first), battles(noisy)
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


@pytest.mark.slow  # a kernel and two runs; the steps are tested above
def test_from_the_command_line_with_the_embedded_judge(first: Path) -> None:
    """A whole run with a report; the terminal says what changed and ends with the record."""
    done = call("rejudge", first, "--judge", "baseline", "-p", "limit_pairs", "4")
    assert done.exit_code == 0, done.stderr
    record = Path(done.stdout.splitlines()[-1])
    for text in (done.stdout, (record / "report.html").read_text()):
        assert "0 of 8 verdicts changed" in " ".join(text.split())


@pytest.mark.parametrize(
    ("name", "words", "sentence"),
    [
        ("hashed", (), "keeps only hashes of its inputs"),
        ("none", (), "not a run record"),
        ("placed", (), "rejudge needs the record of pilot, headline, k_sweep, adaptive, not of"),
        ("first", ("-p", "judge.replay_from", "params/pilot.yaml"), "is not a run record"),
        ("first", ("-p", "judge.replay_from", ""), "replay_from"),
        ("first", ("-p", "judge.rejudge", "some"), "rejudge"),
        ("first", ("-p", "judge", "replay"), "replay only repeats one"),
        ("first", ("--only-unsure", "-p", "limit_pairs", "1", "-p", "judge.only_entrant", "cedar",
                   "-p", "strata", "{open_recall: 1}"), "was sure of every pair"),
    ],
)  # fmt: skip
def test_what_cannot_be_judged_again_is_said_in_a_sentence(
    first: Path, name: str, words: tuple[str, ...], sentence: str
) -> None:
    placed = first.parent / "placed"
    placed.mkdir(exist_ok=True)
    (placed / "manifest.json").write_text('{"mode": "placement"}')
    done = call("rejudge", first.parent / name, "--judge", "baseline", "--forecast", *words)
    assert done.exit_code == 2, done.output
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
