"""Placement from files to a record: artifacts, the command line, the notebook, and refusals."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
import shutil
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from arena_kit import (
    Battle,
    BattleLog,
    DataError,
    Outcome,
    RatingError,
    publish_placement,
    read_battles,
    read_placement,
    write_battles,
)
from arena_kit.cli.records import show_board
from arena_kit.files import read_yaml
from arena_kit.reporting import placement
from arena_kit.runs.placement.place import PlacedModel
from arena_kit.runs.placement.plan import PlacementPlan
from tests import naive
from tests.samples import (
    SMALL,
    call,
    copy_workspace,
    jsonl,
    loaded,
    parameters,
    placed_model,
    placement_record,
    record_of,
    report_of,
)

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
    write_battles(path, BattleLog.from_battles(battles))
    return path


OWN: dict[str, Any] = {
    "model": "new", "human": "votes.csv", "judged": "verdicts.jsonl", "arena": "test arena",
    "min_battles": 100, "n_bootstraps": 100, "seed": 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace with the shipped folders, and files of votes and verdicts."""
    root = copy_workspace(tmp_path_factory.mktemp("placing") / "workspace")
    written(root / "votes.csv", votes())
    written(root / "verdicts.jsonl", verdicts())
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("ARENA_KIT_RUNS", raising=False)
        patch.delenv("ARENA_KIT_RUN_TOKEN", raising=False)
        yield root


def planned(home: Path, **changes: Any) -> PlacementPlan:
    with chdir(home):
        return read_placement(**parameters("placement", **OWN | changes))


def placed_by(home: Path, **changes: Any) -> PlacedModel:
    with chdir(home):
        return placed_model(**OWN | changes)


def saved(home: Path, **changes: Any) -> Path:
    return publish_placement(placed_by(home, **changes)).path


@pytest.fixture(scope="module")
def record(home: Path) -> Path:
    return saved(home)


@pytest.fixture(scope="module")
def pinned(home: Path) -> Path:
    return saved(home, inline_human=False)


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
    """The manifest has settings and hashes, elo_ratings.json the fields of the format."""
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
    assert "where this judge puts it" in told
    (own,) = [row for row in rows if row["model"] == "new"]
    assert wide["ci_low"] < own["ci_low"] < own["ci_high"] < wide["ci_high"]
    for row in rows:
        assert set(row) == {"model", "rating", "ci_low", "ci_high", "n_battles", "source"}
        assert row["ci_low"] < row["rating"] < row["ci_high"]
        assert row["source"] == ("evaluated" if row["model"] == "new" else "human")
    assert rows == sorted(rows, key=lambda row: -row["rating"])
    assert {row["model"] for row in rows} == {"new", *NAMES}


def test_the_ratings_are_those_of_the_battles(record: Path) -> None:
    """A naive fit of battles.jsonl, read as plain JSON, gives the ratings."""
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


def test_rating_the_record_again(home: Path, record: Path, pinned: Path, tmp_path: Path) -> None:
    """`rate RECORD` gives the record's numbers byte for byte, also where votes are only pinned."""
    written(home / "tasted.jsonl", [replace(b, dimension="taste") for b in verdicts()])
    assert_rated_again(saved(home, judged="tasted.jsonl"), home)
    for each in (record, pinned):
        for cwd, file in ((home, "."), (home, "battles.jsonl"), (tmp_path, "battles.jsonl")):
            assert_rated_again(each, cwd, file)
    rows = jsonl(pinned / "battles.jsonl")
    assert rows == [r for r in jsonl(record / "battles.jsonl") if r["source"] == "llm-judge"]
    pin = loaded(pinned / "manifest.json")["human_battles"]
    assert (pin["inlined"], pin["file"]) == (False, "votes.csv")
    assert pin["sha256"] == hashlib.sha256((home / "votes.csv").read_bytes()).hexdigest()
    for name in ("elo_ratings.json", "bootstrap_ratings.csv", "placement.json"):
        assert (pinned / name).read_bytes() == (record / name).read_bytes(), name
    shutil.copy(record / "battles.jsonl", tmp_path / "battles.jsonl")
    done = call_in(tmp_path, "rate", tmp_path / "battles.jsonl", "--json")
    own = loaded(record / "manifest.json")["rating"]["settings"]
    assert json.loads(done.stdout)["settings"] != own


def test_pinned_votes_that_changed(home: Path, pinned: Path) -> None:
    """A human file that is not the pinned one any more is refused in one sentence."""
    path = home / "votes.csv"
    before = path.read_bytes()
    edited = before.replace(b"model_a,human", b"model_b,human", 1)
    for content, why in ((edited, "changed since"), (None, "no such file")):
        path.unlink() if content is None else path.write_bytes(content)
        done = call_in(home, "rate", pinned / "battles.jsonl", "--json")
        path.write_bytes(before)
        assert (done.exit_code, done.stdout) == (2, "")
        (sentence,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
        assert re.search(rf"votes\.csv.*{why}", sentence)
        assert "Traceback" not in done.stderr


def test_resamples_give_the_intervals(home: Path, record: Path) -> None:
    """bootstrap_ratings.csv has a row per resample, each with the arena's mean."""
    with (record / "bootstrap_ratings.csv").open(newline="") as lines:
        table = list(csv.DictReader(lines))
    assert len(table) == 100
    assert set(table[0]) == {"new", *NAMES}
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
    again, other = saved(home), saved(home, seed=4)
    assert again != record
    for name in ARTIFACTS:
        assert (again / name).read_bytes() == (record / name).read_bytes(), name
    drawn = loaded(other / "elo_ratings.json")["ratings"]
    assert [row["rating"] for row in ratings] == [row["rating"] for row in drawn]
    assert all(a["ci_low"] != b["ci_low"] for a, b in zip(ratings, drawn, strict=True))


def test_placement_summary(record: Path) -> None:
    """placement.json says both ways, with possible ranks and the probability to be above."""
    found = loaded(record / "placement.json")
    ratings = loaded(record / "elo_ratings.json")["ratings"]
    joint = {row["model"]: row for row in found["joint"]}
    assert all(joint[row["model"]]["rating"] == row["rating"] for row in ratings)
    assert set(found["above"]) == {"joint", "anchored"}
    for way, above in found["above"].items():
        assert set(above) == set(NAMES)
        chances = [above[row["model"]] for row in ratings if row["model"] != "new"]
        assert chances == sorted(chances), "the higher the other, the less probable"
        assert all(1 <= row["ranks"][0] <= row["ranks"][1] <= 6 for row in found[way])
    assert found["left_out"] == {"rare": 25}
    assert found["calibration"]["n_shared"] >= 200
    assert found["ranks_alone"].keys() == {"joint", "anchored", "board"}
    (placed,) = [row["ranks"] for row in found["board"]["ratings"] if row["model"] == "new"]
    best, worst = found["ranks_alone"]["board"]
    assert placed[0] <= best <= worst <= placed[1], "all at once is no narrower"


def test_people_and_judge_together(record: Path) -> None:
    """placement.json has all six models by votes and verdicts together."""
    found = loaded(record / "placement.json")
    together = {row["model"]: row for row in found["together"]["ratings"]}
    assert set(together) == {"new", *NAMES}
    others = [r["rating"] for r in found["together"]["people"] if r["model"] != "new"]
    assert np.mean(others) == pytest.approx(1000)
    new, alone = together["new"], found["hidden_human_rating"]
    assert (new["votes"], alone["n_battles"]) == (50, 50)
    assert abs(new["rating"] - 1050) < 60, "planted"
    assert new["ci_high"] - new["ci_low"] < alone["ci_high"] - alone["ci_low"]
    worth = re.search(r"^50 votes on new .* worth about (\d+) votes on it:", found["in_votes"])
    assert worth is not None
    assert int(worth[1]) > 50
    assert found["together"]["disagreements"] == []


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


def test_a_record_as_judged(home: Path) -> None:
    """The judged battles may be a tournament's record."""
    with chdir(home):
        tournament = record_of("pilot", **SMALL | {"run_dir": "runs/tournament"}).path
    sample = {"model": "dogwood", "human": "sample/arena/simulated_votes.csv.gz", "soft": False,
              "min_battles": 500, "judged": "runs/tournament"}  # fmt: skip
    with pytest.raises(DataError, match=r"several dimensions \(calibration, clinical_utility, fac"):
        planned(home, **sample)
    with pytest.raises(DataError, match="no dimension 'taste'; found: calibration, clinical_util"):
        planned(home, **sample, dimension="taste")
    study = placed_by(home, **sample, dimension="factuality")
    assert study.verdicts.plan.judge_model == "baseline/lexical-v1"
    battles = read_battles(tournament / "battles.jsonl").by_dimension()["factuality"]
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
    with pytest.raises(RatingError, match=why) as caught:
        placed_by(home, **changes)
    assert "\n" not in str(caught.value)
    last = max((home / "runs").iterdir(), key=lambda p: p.stat().st_mtime)
    manifest = loaded(last / "manifest.json")
    assert manifest["status"] == "failed"
    assert str(caught.value) in manifest["error"]


def test_several_judges(home: Path) -> None:
    """Verdicts of several judges are refused with their names."""
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


def test_verdicts_are_no_votes(home: Path, record: Path) -> None:
    """A file of both, such as the battles of an earlier placement, lends only its human votes."""
    mixed = [*votes(), *(b for b in verdicts() if "new" not in (b.model_a, b.model_b))]
    written(home / "mixed.jsonl", mixed)
    placed = placed_by(home, human="mixed.jsonl", soft=False).placed
    assert placed.human.n_battles == loaded(record / "placement.json")["n_human"]
    with pytest.raises(RatingError, match=r"people and the judge both decided .* found 0$"):
        placed_by(home, judged=str(record), soft=True)


def test_the_answer_of_a_placement(record: Path) -> None:
    """The box says rank, rating, possible ranks, who judged, and what may not be concluded."""
    box, summary = loaded(record / "answer.json"), loaded(record / "placement.json")
    board, model = summary["board"], summary["model"]
    rank = [row["model"] for row in board["ratings"]].index(model) + 1
    row = board["ratings"][rank - 1]
    place = f"{model} is placed at rank {rank} of {len(board['ratings'])}, {board['heading']}: "
    assert box["answer"][0].startswith(f"{place}{row['rating']:.0f} (")
    assert summary["in_votes"] in box["said"]
    assert board["caution"] in box["caveats"]
    assert box["gate"] == loaded(record / "judge_gate.json")["sentence"]
    assert box["facts"]["judge"] == f"{JUDGE}, verdicts of verdicts.jsonl"


def test_run_placement(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The notebook as shipped leaves report, figure, artifacts and a board that can be rated again;
    report and terminal say that the votes are simulated.
    """
    with chdir(home):
        record = report_of("placement", home).parent
    show_board(record)
    printed = capsys.readouterr().out
    assert "dogwood ◀" in printed
    assert "simulated" in printed
    names = {str(path.relative_to(record)) for path in record.rglob("*") if path.is_file()}
    assert names >= {*ARTIFACTS, "report.ipynb", "report.html", "figures/placement.png"}
    report = (record / "report.html").read_text(encoding="utf-8")
    assert not re.search("<script|Warning", report)
    assert "simulated, no person voted" in report
    assert "yew (187): fewer than 500 human battles" in report
    assert_rated_again(record, home)


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
    assert len(found["ratings"]) == 20
    assert found["ratings"][0]["model"] == "gpt-4"
    hidden = loaded(record.path / "placement.json")["hidden_human_rating"]
    assert abs(found["ratings"][0]["rating"] - hidden["rating"]) < 50
    rows = jsonl(record.path / "battles.jsonl")
    assert sum(row["source"] == "human" for row in rows) + hidden["n_battles"] == 26_919
