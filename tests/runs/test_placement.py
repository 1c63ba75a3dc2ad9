"""Placement: verdicts read or made here, artifacts, refusals, money and resuming."""

import csv
import gzip
import hashlib
import json
import math
import re
import shutil
from collections.abc import Callable
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import Result

import arena_kit as ak
from arena_kit import Battle, DataError, Outcome, judge_placement, place, publish_placement
from arena_kit.cli.records import show_board
from arena_kit.files import read_yaml
from arena_kit.judging.asking.cost import CostError
from arena_kit.judging.asking.judge_pairs import OfflineError
from arena_kit.judging.pairs.prompts import read_prompts, read_responses
from arena_kit.reporting import placement
from arena_kit.runs.placement.place import PlacedModel
from arena_kit.runs.placement.plan import PlacementPlan, forecast_values
from tests import naive, samples
from tests.emulator import Emulator, Reply
from tests.samples import call, jsonl, loaded, parameters, placed_model, placement_record

ARTIFACTS = ("battles.jsonl", "elo_ratings.json", "bootstrap_ratings.csv", "placement.json")
SKILL = {"ash": 1120.0, "box": 1040.0, "elm": 960.0, "fig": 880.0, "gum": 1000.0}
NAMES = list(SKILL)
PAIRS = [(a, b) for i, a in enumerate(NAMES) for b in NAMES[:i]]
JUDGE = "acme/judge-1"


def voted(rng: np.random.Generator, a: str, b: str, stretch: float = 1.0) -> Outcome:
    gap = stretch * (SKILL.get(a, 1050.0) - SKILL.get(b, 1050.0))
    if rng.random() < 0.1:
        return Outcome.TIE
    return Outcome.MODEL_A if rng.random() < 1 / (1 + 10 ** (-gap / 400)) else Outcome.MODEL_B


def votes() -> list[Battle]:
    """Every pair on 60 questions; a model of few votes; and votes on the model to be placed."""
    rng = np.random.default_rng(1)
    rows = [(a, b, f"q{q}") for q in range(60) for a, b in PAIRS]
    rows += [("rare", NAMES[q % 5], f"q{q}") for q in range(25)]
    rows += [("new", NAMES[q % 5], f"q{q}") for q in range(50)]
    return [
        Battle(model_a=a, model_b=b, winner=voted(rng, a, b), question_id=q, battle_id=f"v{n}")
        for n, (a, b, q) in enumerate(rows)
    ]


def verdicts() -> list[Battle]:
    """A judge that is surer than people, on the same questions, some judgments inconsistent."""
    rng = np.random.default_rng(2)
    new = [("new", NAMES[q % 5]) for q in range(60)]
    rows = [(a, b, f"q{q}") for q in range(60) for a, b in [*PAIRS[q % 2 :: 2], new[q]]]
    rows += [("rare", "new", f"q{q}") for q in range(7)]
    by: dict[str, Any] = {"source": "llm-judge", "judge_model": JUDGE}
    return [
        Battle(model_a=a, model_b=b, question_id=q, battle_id=f"j{n}", inconsistent=n % 29 == 0,
               winner=Outcome.TIE if n % 29 == 0 else voted(rng, a, b, 2.5), **by)
        for n, (a, b, q) in enumerate(rows)
    ]  # fmt: skip


def of_new(**changes: Any) -> list[Battle]:
    """The verdicts on the model to be placed, with changes."""
    return [replace(b, **changes) for b in verdicts() if b.model_a == "new"]


def written(path: Path, battles: list[Battle]) -> Path:
    ak.write_battles(path, ak.BattleLog.from_battles(battles))
    return path


OWN: dict[str, Any] = {
    "model": "new", "human": "votes.csv", "judged": "verdicts.jsonl", "arena": "test arena",
    "min_battles": 100, "n_bootstraps": 100, "seed": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the shipped folders, and files of votes and verdicts."""
    root = samples.copy_workspace(tmp_path_factory.mktemp("placing") / "workspace")
    written(root / "votes.csv", votes())
    written(root / "verdicts.jsonl", verdicts())
    return root


def planned(home: Path, **changes: Any) -> PlacementPlan:
    with chdir(home):
        return ak.read_placement(**parameters("placement", **OWN | changes))


def placed_by(home: Path, **changes: Any) -> PlacedModel:
    with chdir(home):
        return placed_model(**OWN | changes)


def saved(home: Path, **changes: Any) -> Path:
    return publish_placement(placed_by(home, **changes)).path


@pytest.fixture(scope="module")
def record(home: Path) -> Path:
    return saved(home)


def call_in(cwd: Path, *words: object) -> Result:
    with chdir(cwd):
        return call(*words)


def assert_rated_again(record: Path, cwd: Path, file: str = "battles.jsonl") -> None:
    """`rate --json`, without naming a method, gives the record's numbers as JSON writes them."""
    names = ("model", "rating", "ci_low", "ci_high", "n_battles")
    done = call_in(cwd, "rate", record / file, "--json")
    assert done.exit_code == 0, done.stderr
    found, expected = (
        [[json.dumps(row[name]) for name in names] for row in rows]
        for rows in (
            json.loads(done.stdout)["ratings"], loaded(record / "elo_ratings.json")["ratings"]
        )
    )  # fmt: skip
    assert found == expected


def test_every_artifact(record: Path) -> None:
    """Settings and hashes are kept; a naive fit of battles.jsonl gives the ratings."""
    assert {path.name for path in record.iterdir()} >= {*ARTIFACTS, "manifest.json"}
    manifest = loaded(record / "manifest.json")
    assert (manifest["status"], manifest["mode"]) == ("finished", "placement")
    assert (manifest["left_out"], manifest["judge"]) == ({"rare": 25}, {"model": JUDGE})
    for name, file in (("human_battles", "votes.csv"), ("judged_battles", "verdicts.jsonl")):
        data = (record.parent.parent / file).read_bytes()
        assert manifest[name]["file"] == file
        assert manifest[name]["sha256"] == hashlib.sha256(data).hexdigest()
    found = loaded(record / "elo_ratings.json")
    rows, wide, told = found.pop("ratings"), found.pop("with_judge_error"), found.pop("interval")
    assert found == {"arena": "test arena", "model": "new", "judge_model": JUDGE,
                     "n_bootstraps": 100, "seed": 3}  # fmt: skip
    assert "do not include the judge error" in told
    (own,) = [row for row in rows if row["model"] == "new"]
    assert wide["ci_low"] < own["ci_low"] < own["ci_high"] < wide["ci_high"]
    for row in rows:
        assert set(row) == {"model", "rating", "ci_low", "ci_high", "n_battles", "source"}
        assert row["ci_low"] < row["rating"] < row["ci_high"]
        assert row["source"] == ("evaluated" if row["model"] == "new" else "human")
    assert rows == sorted(rows, key=lambda row: -row["rating"])
    assert {row["model"] for row in rows} == {"new", *NAMES}
    names = sorted(["new", *NAMES])
    score = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5, "both_bad": 0.5}
    games = [
        (names.index(row["model_a"]), names.index(row["model_b"]),
         score[row["winner"]] if row["share_a"] is None else row["share_a"])
        for row in jsonl(record / "battles.jsonl")
        if not row["inconsistent"]
    ]  # fmt: skip
    settings = loaded(record / "manifest.json")["rating"]["settings"]
    prior = settings["prior"] if settings["prior_when"] == "always" else 0.0
    fit = dict(zip(names, naive.bradley_terry(games, len(names), prior), strict=True))
    middle = np.mean([fit[name] for name in NAMES])
    found = {row["model"]: row for row in loaded(record / "elo_ratings.json")["ratings"]}
    for name in names:
        assert found[name]["rating"] == pytest.approx(1000 + fit[name] - middle, abs=1e-6)
        assert found[name]["n_battles"] == sum(names.index(name) in game[:2] for game in games)


def test_resamples_give_the_intervals(home: Path, record: Path, tmp_path: Path) -> None:
    """A row per resample has the arena's mean; `rate RECORD` gives the record's numbers again."""
    with (record / "bootstrap_ratings.csv").open(newline="") as lines:
        table = list(csv.DictReader(lines))
    assert (len(table), set(table[0])) == (100, {"new", *NAMES})
    ratings = loaded(record / "elo_ratings.json")["ratings"]
    for row in ratings:
        values = sorted(float(each[row["model"]]) for each in table)
        low, high = np.percentile(values, [2.5, 97.5])
        rating = row["rating"]
        below = (rating - row["ci_low"]) / (rating - low)
        above = (row["ci_high"] - rating) / (high - rating)
        assert below == pytest.approx(above, rel=1e-6)
        assert 1 < below < 1.1
    means = [np.mean([float(row[name]) for name in NAMES]) for row in table]
    assert means == pytest.approx([1000] * 100)
    written(home / "tasted.jsonl", [replace(b, dimension="taste") for b in verdicts()])
    again, other = saved(home), saved(home, seed=4, judged="tasted.jsonl")
    assert again != record
    for name in ARTIFACTS:
        assert (again / name).read_bytes() == (record / name).read_bytes(), name
    drawn = loaded(other / "elo_ratings.json")["ratings"]
    assert [row["rating"] for row in ratings] == [row["rating"] for row in drawn]
    assert all(a["ci_low"] != b["ci_low"] for a, b in zip(ratings, drawn, strict=True))
    assert_rated_again(other, home)
    for cwd, file in ((home, "."), (home, "battles.jsonl"), (tmp_path, "battles.jsonl")):
        assert_rated_again(record, cwd, file)
    shutil.copy(record / "battles.jsonl", tmp_path / "battles.jsonl")
    done = call_in(tmp_path, "rate", tmp_path / "battles.jsonl", "--json")
    own = loaded(record / "manifest.json")["rating"]["settings"]
    assert json.loads(done.stdout)["settings"] != own


def test_placement_summary(record: Path) -> None:
    """placement.json has both ways and all six together, the box says what may be concluded."""
    found = loaded(record / "placement.json")
    ratings = loaded(record / "elo_ratings.json")["ratings"]
    joint = {row["model"]: row for row in found["joint"]}
    assert all(joint[row["model"]]["rating"] == row["rating"] for row in ratings)
    assert set(found["above"]) == {"joint", "anchored", "board"}
    for above in found["above"].values():
        assert set(above) == set(NAMES)
        chances = [above[row["model"]] for row in ratings if row["model"] != "new"]
        assert chances == sorted(chances), "the higher the other, the less probable"
    for row in (*found["joint"], *found["anchored"]):
        assert 1 <= row["ranks"][0] <= row["ranks"][1] <= 6
    assert found["left_out"] == {"rare": 25}
    assert found["calibration"]["n_shared"] >= 200
    assert found["ranks_alone"].keys() == {"joint", "anchored", "board"}
    board = loaded(record / "board.json")
    (placed,) = [row for row in board["ratings"] if row.get("marked")]
    best, worst = found["ranks_alone"]["board"]
    assert placed["ranks"][0] <= best <= worst <= placed["ranks"][1], "no narrower all at once"
    together = {row["model"]: row for row in found["together"]["ratings"]}
    assert set(together) == {"new", *NAMES}
    others = [r["rating"] for r in found["together"]["people"] if r["model"] != "new"]
    assert np.mean(others) == pytest.approx(1000)
    new, alone = together["new"], found["hidden_human_rating"]
    assert (new["votes"], alone["n_battles"]) == (50, 50)
    assert abs(new["rating"] - 1050) < 60, "planted"
    assert new["ci_high"] - new["ci_low"] < alone["ci_high"] - alone["ci_low"]
    worth = re.search(r"^50 votes on new .* worth about (\d+) votes:", found["in_votes"])
    assert worth is not None
    assert int(worth[1]) > 50
    assert found["together"]["disagreements"] == []
    box = loaded(record / "answer.json")
    assert box["answer"][0].startswith(f"new: estimated rank {placed['rank']} of 6 (")
    assert f", rating {placed['rating']:.0f} (" in box["answer"][0]
    assert found["in_votes"] in box["said"]
    assert board["dimensions"][0]["sentences"][0] in box["caveats"]
    assert box["gate"] == loaded(record / "judge_gate.json")["sentence"]
    assert box["facts"]["judge"] == f"{JUDGE}, verdicts of verdicts.jsonl"


def test_people_and_judge_apart(home: Path) -> None:
    """A judge that saw only three others: the record says why its place cannot be told in votes."""
    known = {"new", *NAMES[:3]}
    written(home / "few.jsonl", [b for b in verdicts() if {b.model_a, b.model_b} <= known])
    study = placed_by(home, judged="few.jsonl", soft=False)
    assert study.together is None
    why = "5 models must have verdicts and 10 human battles (min_battles), found 4"
    assert why in placement.together("new", study.together, study.apart).text
    found = loaded(publish_placement(study).path / "placement.json")
    assert found["together"] is None
    assert why in found["in_votes"]
    ties = [b if "new" in (b.model_a, b.model_b) else replace(b, winner="tie") for b in verdicts()]
    written(home / "ties.jsonl", ties)
    assert loaded(saved(home, judged="ties.jsonl") / "manifest.json")["status"] == "finished"


def test_a_record_as_judged(home: Path, pilot_record: Path) -> None:
    """The judged battles may be a tournament's record."""
    sample = {"model": "dogwood", "human": "sample/arena/simulated_votes.csv.gz", "soft": False,
              "min_battles": 500, "judged": str(pilot_record)}  # fmt: skip
    with pytest.raises(DataError, match=r"several dimensions \(calibration, clinical_utility, fac"):
        planned(home, **sample)
    with pytest.raises(DataError, match="no dimension 'taste'; found: calibration, clinical_util"):
        planned(home, **sample, dimension="taste")
    study = placed_by(home, **sample, dimension="factuality")
    assert study.verdicts.plan.judge_model == "baseline/lexical-v1"
    battles = ak.read_battles(pilot_record / "battles.jsonl").by_dimension()["factuality"]
    mine = [b for b in battles.to_battles() if "dogwood" in (b.model_a, b.model_b)]
    assert study.placed.n_judged == sum(not b.inconsistent for b in mine)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"human": "nothing.csv"}, r"nothing\.csv: no such file"),
        ({"judged": "sample"}, r"battles\.jsonl: no such file"),
        ({"human_winner": "human_winner"}, r"votes\.csv: missing column human_winner"),
        ({"judged": "votes.csv", "judged_winner": "gpt"}, r"votes\.csv: missing column gpt"),
        ({"overrides": {"placement.temperature": 1}}, "temperature"),
        ({"model": ""}, "model: .*at least 1 character"),
        ({"n_bootstraps": 99}, "n_bootstraps: .*greater than or equal to 100"),
        ({"min_battles": -1}, "min_battles: .*greater than or equal to 0"),
        ({"prior": math.nan}, "prior: .*finite"),
        ({"both_bad": "half"}, "both_bad: .*'tie' or 'exclude'"),
        ({"dimension": "taste"}, r"verdicts\.jsonl: no dimension 'taste'; found: none"),
    ],
)
def test_refused_before_a_record(home: Path, changes: dict[str, Any], why: str) -> None:
    """Wrong input is one sentence, and no record is made."""
    before = set((home / "runs").glob("*"))
    with pytest.raises(DataError, match=why) as caught:
        planned(home, **changes)
    assert "\n" not in str(caught.value)
    assert set((home / "runs").glob("*")) == before


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"model": "oak"}, "no judged battle of 'oak'"),
        ({"min_battles": 5000}, "no two models have 5000 human battles"),
        ({"judged": "apart.jsonl"}, "soft outcomes need 200 battles"),
        ({"judged": "wins.jsonl", "prior": 0.0, "soft": False}, "set a prior above 0"),
    ],
)
def test_a_place_that_does_not_exist(home: Path, changes: dict[str, Any], why: str) -> None:
    """A model that cannot be placed leaves a failed record that says why, in one sentence."""
    apart = [replace(b, question_id=f"other-{b.question_id}") for b in of_new()]
    written(home / "apart.jsonl", apart)
    written(home / "wins.jsonl", of_new(winner="model_a", inconsistent=False))
    with pytest.raises(ak.RatingError, match=why) as caught:
        placed_by(home, **changes)
    assert "\n" not in str(caught.value)
    last = max((home / "runs").iterdir(), key=lambda p: p.stat().st_mtime)
    manifest = loaded(last / "manifest.json")
    assert manifest["status"] == "failed"
    assert str(caught.value) in manifest["error"]


def test_several_judges(home: Path, record: Path) -> None:
    """Verdicts of several judges are refused with their names, and verdicts are no votes."""
    kind = of_new(winner="model_a", inconsistent=False, judge_model="kind")
    stern = of_new(winner="model_b", inconsistent=False, judge_model="stern")
    written(home / "two.jsonl", kind + stern)
    with pytest.raises(DataError, match=r"kind.*stern"):
        planned(home, judged="two.jsonl", soft=False)
    study = placed_by(home, judged="two.jsonl", soft=False, judge_model="kind")
    assert study.placed.n_judged == len(kind)
    assert study.placed.joint.order[0] == "new", "the kind judge lets it win every time"
    written(home / "unnamed.jsonl", [replace(b, judge_model=None) for b in verdicts()])
    assert planned(home, judged="unnamed.jsonl").judge_model != "winner"
    mixed = [*votes(), *(b for b in verdicts() if "new" not in (b.model_a, b.model_b))]
    written(home / "mixed.jsonl", mixed)
    placed = placed_by(home, human="mixed.jsonl", soft=False).placed
    assert placed.human.n_battles == loaded(record / "placement.json")["n_human"]
    with pytest.raises(ak.RatingError, match=r"people and the judge both decided .* found 0$"):
        placed_by(home, judged=str(record), soft=True)


def test_run_placement(
    quick_report: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The notebook as shipped leaves report, figure, artifacts and a board that can be rated again;
    report and terminal say that the votes are simulated.
    """
    record = quick_report("placement")
    show_board(record)
    printed = capsys.readouterr().out
    assert "dogwood ◀" in printed
    assert "simulated" in printed
    names = {str(path.relative_to(record)) for path in record.rglob("*") if path.is_file()}
    assert names >= {*ARTIFACTS, "report.ipynb", "report.html", "figures/placement.png"}
    report = (record / "report.html").read_text(encoding="utf-8")
    assert not re.search("<script|Warning", report)
    assert "simulated, no person voted" in report
    assert "all have at least 300 human battles" in report
    assert_rated_again(record, record.parents[1])


def test_the_27k_set(home: Path, data: Path) -> None:
    """Real votes put gpt-4 first of 20, near people's rating, and are not called simulated."""
    file = str(data / "chatbot_arena_27k" / "battles.csv.gz")
    given = read_yaml(home / "params" / "placement_27k.yaml")
    with chdir(home):
        record = placement_record(**given | {"human": file, "judged": file, "n_bootstraps": 100})
    found, manifest = loaded(record.path / "elo_ratings.json"), record.read()
    assert (manifest["status"], manifest["human_battles"]["note"]) == ("finished", "")
    assert found["arena"] == "Chatbot Arena, April to June 2023"
    assert (found["model"], found["judge_model"]) == ("gpt-4", "gpt-4-0125-preview")
    assert (len(found["ratings"]), found["ratings"][0]["model"]) == (20, "gpt-4")
    hidden = loaded(record.path / "placement.json")["hidden_human_rating"]
    assert abs(found["ratings"][0]["rating"] - hidden["rating"]) < 50
    rows = jsonl(record.path / "battles.jsonl")
    assert sum(row["source"] == "human" for row in rows) + hidden["n_battles"] == 26_919


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
    monkeypatch.setenv("ANTHROPIC_API_KEY", samples.KEY)


@pytest.fixture(scope="module")
def sample_params() -> dict[str, Any]:
    given = read_yaml(Path(__file__).parents[2] / "params" / "placement_arena.yaml")
    settings = given.pop("overrides")
    return given | {name.removeprefix("placement."): each for name, each in settings.items()}


def arena_plan(**given: Any) -> PlacementPlan:
    return ak.read_placement(**parameters("placement", **given))


def test_the_sample_from_an_arena_file_to_a_place(
    workspace: Path, sample_params: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The shipped parameters draw, judge with the demo judge and place the model."""
    study = placed_model(**sample_params | {"n_bootstraps": 100})
    record = publish_placement(study)
    capsys.readouterr()
    show_board(record.path)
    shown = " ".join(capsys.readouterr().out.split())
    wide = loaded(record.path / "elo_ratings.json")["with_judge_error"]
    span = f"{wide['ci_low']:.0f} to {wide['ci_high']:.0f}"
    assert span in shown
    assert "including the judge error" in shown
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
    assert len(ak.read_battles(judged)) == 600
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
    few = {"n_bootstraps": 100, "n_battles": 60, "n_shared": 0, "soft": False}
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
    hashes = placement_record(**few | {"inputs": "hashes", "n_battles": 10})
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
    assert placement.board(study.placed).title.endswith("judge error unknown")
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
        ({"texts": "params/tournament.yaml"}, "languages has no effect"),
        ({"responses": "params"}, r"responses_dogwood\.jsonl: no such file"),
        ({"judge": "replay"}, "judge: .*'baseline', 'anthropic' or 'openai_compatible'"),
        ({"judged": "v.jsonl"}, "responses say how to judge here, but judged names verdicts"),
    ],
)
def test_refused_before_anything_is_judged(
    workspace: Path, sample_params: dict[str, Any], changes: dict[str, Any], why: str
) -> None:
    """What cannot be drawn, answered or judged is one sentence, and no record is made."""
    with pytest.raises(DataError, match=why) as caught:
        judge_placement(arena_plan(**sample_params | changes))
    assert "\n" not in str(caught.value)
    assert not (workspace / "runs").exists()


def test_too_few_shared_battles_after_all(workspace: Path, sample_params: dict[str, Any]) -> None:
    """Where fewer shared battles than needed could be judged, what was paid for is not lost."""
    few = {"n_shared": 210, "n_battles": 50, "n_bootstraps": 100}  # some will be inconsistent
    study = placed_model(**sample_params | few)
    assert study.placed.calibration is None
    assert "too few battles" in placement.calibration(study.placed).text
    assert study.placed.judge_error is None
    assert "judge error unknown" in placement.board(study.placed).title


def test_the_bill_is_within_the_forecast(workspace: Path, emulator: Emulator) -> None:
    """Answers and verdicts over batches cost what the emulator bills."""
    given = claude(emulator)
    file = _file(parameters("placement", **given))
    told = json.loads(call("cost", "placement", "--params", file, "--json").stdout)["forecast"]
    unnamed = call("cost", "--params", file)
    assert "Forecast of answers" in unnamed.stdout, unnamed.stderr
    assert "is within max_cost_usd 20" in unnamed.stdout
    plan = arena_plan(**given)
    assert forecast_values(plan.forecast) == told
    study = place(judge_placement(plan))
    record = publish_placement(study)
    manifest, bill = record.read(), emulator.billing.total_usd
    assert manifest["cost"]["usd_spent"] == pytest.approx(bill, abs=1e-12)
    assert 0 < bill < told["total"]["usd_at_most"]
    assert (told["answers"]["requests"], told["verdicts"]["requests"]) == (14, 40)
    assert len(emulator.billing.rows) == 54
    paid = manifest["cost"]["answers_paid"]
    assert paid["answers"]["usd"] + paid["verdicts"]["usd"] == pytest.approx(bill, abs=1e-12)
    answers = jsonl(record.path / "inputs" / "responses" / "responses_newcomer.jsonl")
    assert (len(answers), manifest["answers"]["responses"]) == (14, {"ok": 14})

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
        judge_placement(arena_plan(**claude(emulator) | changes))
    assert "\n" not in str(caught.value)
    assert emulator.billing.accepted == []


def test_answers_and_verdicts_that_failed(workspace: Path, emulator: Emulator) -> None:
    """An answer that the model refuses is judged as it is."""
    plan = arena_plan(**claude(emulator, n_battles=21))
    assert plan.tournament is not None
    sample = plan.tournament.sample
    entrant = sample.asked
    refused, lost = entrant[0].text, entrant[1].text

    def answer(params: Any) -> Reply | str:
        asked = params["messages"][0]["content"]
        if asked == refused:
            return Reply(text="", stop_reason="refusal")
        if "response_a" in asked:
            return "no verdict" if lost in asked else samples.verdict("tie")
        return "An answer."

    emulator.settings.behaviour = answer
    verdicts = judge_placement(plan)
    assert verdicts.facts["answers made"] == "20 ok, 1 refused"
    uses = sum(p.prompt_id == entrant[1].prompt_id for p in sample.battles)
    told = place(verdicts).answer().facts["compared"]
    assert f"of 21 drawn count, {uses} lack a usable verdict" in told
    rows = jsonl(verdicts.record.path / "inputs" / "responses" / "responses_newcomer.jsonl")
    assert len(rows) == 21
    assert [r["response_text"] for r in rows if r["diagnostics"]["status"] == "refused"] == [""]
    assert "unparsable" in placement.met(verdicts.battles, "newcomer", verdicts.statuses).text


def test_only_one_entrant(workspace: Path) -> None:
    """`only_entrant` judges only pairs with it."""
    plan = samples.plan_of("pilot", only_entrant="dogwood", strata={"open_recall": 4, "curated": 2})
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
        samples.plan_of("pilot", only_entrant="oak")
