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
from click.testing import CliRunner, Result

from arena_kit import (
    Battle,
    BattleLog,
    DataError,
    RatingError,
    placement,
    publish_placement,
    read_battles,
    read_placement,
    write_battles,
)
from arena_kit.cli.main import main
from arena_kit.cli.records import show_board
from arena_kit.files import read_yaml
from arena_kit.runs.notebook.run import run_notebook
from arena_kit.runs.placement.place import PlacedModel
from arena_kit.runs.placement.plan import PlacementPlan
from arena_kit.runs.record.record import Record
from arena_kit.runs.settings.parameters import PlacementParams
from tests import naive
from tests.samples import (
    HOSTILE,
    SMALL,
    copy_workspace,
    jsonl,
    parameters,
    placed_model,
    placement_record,
    record_of,
)

ARTIFACTS = ("battles.jsonl", "elo_ratings.json", "bootstrap_ratings.csv", "placement.json")
SKILL = {"ash": 1120.0, "box": 1040.0, "elm": 960.0, "fig": 880.0, "gum": 1000.0}
NAMES = list(SKILL)
JUDGE = "acme/judge-1"
SCRIPT, IMAGE = HOSTILE[:2]


def voted(rng: np.random.Generator, a: str, b: str, stretch: float = 1.0) -> str:
    gap = stretch * (SKILL.get(a, 1050.0) - SKILL.get(b, 1050.0))
    if rng.random() < 0.1:
        return "tie"
    return "model_a" if rng.random() < 1 / (1 + 10 ** (-gap / 400)) else "model_b"


def votes() -> list[Battle]:
    """Every pair on 60 questions; a model of few votes; and votes on the model to be placed."""
    rng = np.random.default_rng(1)
    pairs = [(a, b) for i, a in enumerate(NAMES) for b in NAMES[:i]]
    rows = [(a, b, f"q{q}") for q in range(60) for a, b in pairs]
    rows += [("rare", NAMES[q % 5], f"q{q}") for q in range(25)]
    rows += [("new", NAMES[q % 5], f"q{q}") for q in range(50)]
    return [
        Battle(model_a=a, model_b=b, winner=voted(rng, a, b), question_id=q, battle_id=f"v{n}")  # type: ignore[arg-type]
        for n, (a, b, q) in enumerate(rows)
    ]


def verdicts() -> list[Battle]:
    """A judge that is surer than people, on the same questions, some judgments inconsistent."""
    rng = np.random.default_rng(2)
    pairs = [(a, b) for i, a in enumerate(NAMES) for b in NAMES[:i]]
    rows = [
        (a, b, f"q{q}") for q in range(60) for a, b in [*pairs[q % 2 :: 2], ("new", NAMES[q % 5])]
    ]
    rows += [("rare", "new", f"q{q}") for q in range(7)]
    found = []
    for n, (a, b, q) in enumerate(rows):
        twice = n % 29 == 0
        found.append(
            Battle(
                model_a=a,
                model_b=b,
                winner="tie" if twice else voted(rng, a, b, 2.5),  # type: ignore[arg-type]
                inconsistent=twice,
                question_id=q,
                battle_id=f"j{n}",
                source="llm-judge",  # type: ignore[arg-type]
                judge_model=JUDGE,
            )
        )
    return found


def written(path: Path, battles: list[Battle]) -> Path:
    write_battles(path, BattleLog.from_battles(battles))
    return path


OWN: dict[str, Any] = {
    "model": "new",
    "human": "votes.csv",
    "judged": "verdicts.jsonl",
    "arena": "test arena",
    "min_battles": 100,
    "n_bootstraps": 100,
    "seed": 3,
}


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


def loaded(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def call(*words: str | Path, cwd: Path) -> Result:
    with chdir(cwd):
        return CliRunner().invoke(main, [str(word) for word in words])


def rated(file: Path, cwd: Path) -> list[tuple[object, ...]]:
    """What `rate --json` gives for a file, without naming a method."""
    done = call("rate", file, "--json", cwd=cwd)
    assert done.exit_code == 0, done.stderr
    return [shown(row) for row in json.loads(done.stdout)["ratings"]]


def shown(row: dict[str, Any]) -> tuple[object, ...]:
    """The numbers of a row as JSON writes them: equal texts are equal bytes."""
    names = ("rating", "ci_low", "ci_high", "n_battles")
    return row["model"], *(json.dumps(row[name]) for name in names)


def test_every_artifact(record: Path) -> None:
    """A placement leaves its four artifacts, and a finished manifest with settings and hashes."""
    assert {path.name for path in record.iterdir()} >= {*ARTIFACTS, "manifest.json"}
    manifest = loaded(record / "manifest.json")
    assert manifest["status"] == "finished"
    assert manifest["mode"] == "placement"
    assert manifest["left_out"] == {"rare": 25}
    assert manifest["judge"] == {"model": JUDGE}
    for name, file in (("human_battles", "votes.csv"), ("judged_battles", "verdicts.jsonl")):
        data = (record.parent.parent / file).read_bytes()
        assert manifest[name]["file"] == file
        assert manifest[name]["sha256"] == hashlib.sha256(data).hexdigest()


def test_the_ratings_file(record: Path) -> None:
    """elo_ratings.json has the fields of the format, best first, one model evaluated; two more say
    what its interval holds, and the one that also holds the judge's error.
    """
    found = loaded(record / "elo_ratings.json")
    format_ = {"arena", "model", "judge_model", "n_bootstraps", "seed", "ratings"}
    assert set(found) == format_ | {"interval", "with_judge_error"}
    assert "where this judge puts it" in found["interval"]
    wide, (own,) = found["with_judge_error"], [r for r in found["ratings"] if r["model"] == "new"]
    assert wide["ci_low"] < own["ci_low"] < own["ci_high"] < wide["ci_high"]
    assert (found["arena"], found["model"], found["judge_model"]) == ("test arena", "new", JUDGE)
    assert (found["n_bootstraps"], found["seed"]) == (100, 3)
    for row in found["ratings"]:
        assert set(row) == {"model", "rating", "ci_low", "ci_high", "n_battles", "source"}
        assert row["ci_low"] < row["rating"] < row["ci_high"]
        assert row["source"] == ("evaluated" if row["model"] == "new" else "human")
    ratings = [row["rating"] for row in found["ratings"]]
    assert ratings == sorted(ratings, reverse=True)
    assert {row["model"] for row in found["ratings"]} == {"new", *NAMES}


def test_the_ratings_are_those_of_the_battles(record: Path) -> None:
    """A naive fit of battles.jsonl, read as plain JSON, gives the ratings: a vote as it was cast,
    a verdict as its share, inconsistent judgments left out, the arena's mean at 1000.
    """
    names = sorted(["new", *NAMES])
    score = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5, "both_bad": 0.5}
    games = [
        (
            names.index(row["model_a"]),
            names.index(row["model_b"]),
            score[row["winner"]] if row["share_a"] is None else row["share_a"],
        )
        for row in jsonl(record / "battles.jsonl")
        if not row["inconsistent"]
    ]
    settings = loaded(record / "manifest.json")["rating"]["settings"]
    prior = settings["prior"] if settings["prior_when"] == "always" else 0.0
    fit = dict(zip(names, naive.bradley_terry(games, len(names), prior), strict=True))
    middle = np.mean([fit[name] for name in NAMES])
    found = {row["model"]: row for row in loaded(record / "elo_ratings.json")["ratings"]}
    for name in names:
        assert found[name]["rating"] == pytest.approx(1000 + fit[name] - middle, abs=1e-6)
        assert found[name]["n_battles"] == sum(names.index(name) in game[:2] for game in games)


def test_battles_are_whole(home: Path, record: Path) -> None:
    """battles.jsonl holds the human votes among ranked models and the model's verdicts, each with
    who decided; no vote on the model and no verdict on others.
    """
    rows = jsonl(record / "battles.jsonl")
    human = [row for row in rows if row["source"] == "human"]
    judge = [row for row in rows if row["source"] == "llm-judge"]
    kept = [b for b in votes() if {b.model_a, b.model_b} <= {*NAMES}]
    assert [row["battle_id"] for row in human] == [b.battle_id for b in kept]
    mine = [b for b in verdicts() if "new" in (b.model_a, b.model_b) and b.model_a != "rare"]
    assert [row["battle_id"] for row in judge] == [b.battle_id for b in mine]
    assert {row["judge_model"] for row in judge} == {JUDGE}
    assert {row["judge_model"] for row in human} == {None}
    assert {row["winner"] for row in judge} <= {"model_a", "model_b", "tie"}
    unused = loaded(record / "manifest.json")["unused"]
    assert unused["judged, against a model left out"] == 7
    assert unused["judged, of other models"] == len(verdicts()) - len(mine) - 7


def test_rating_the_record_again(home: Path, record: Path, tmp_path: Path) -> None:
    """`rate RECORD` or `rate RECORD/battles.jsonl` gives the record's ratings and intervals byte
    for byte, from any folder, without naming a method; the file outside its record is rated
    as any other.
    """
    expected = [shown(row) for row in loaded(record / "elo_ratings.json")["ratings"]]
    assert rated(record, home) == expected
    assert rated(record / "battles.jsonl", home) == expected
    assert rated(record / "battles.jsonl", tmp_path) == expected
    shutil.copy(record / "battles.jsonl", tmp_path / "battles.jsonl")
    done = call("rate", tmp_path / "battles.jsonl", "--json", cwd=tmp_path)
    own = loaded(record / "manifest.json")["rating"]["settings"]
    assert json.loads(done.stdout)["settings"] != own


def test_resamples_give_the_intervals(record: Path) -> None:
    """bootstrap_ratings.csv has a row per resample and a column per model; its percentiles, drawn
    apart a little around the rating (Student's t), are the intervals, and every
    resample keeps the arena's mean.
    """
    with (record / "bootstrap_ratings.csv").open(newline="") as lines:
        table = list(csv.DictReader(lines))
    assert len(table) == 100
    assert set(table[0]) == {"new", *NAMES}
    for row in loaded(record / "elo_ratings.json")["ratings"]:
        values = sorted(float(each[row["model"]]) for each in table)
        low, high = np.percentile(values, [2.5, 97.5])
        rating = row["rating"]
        below = (rating - row["ci_low"]) / (rating - low)
        above = (row["ci_high"] - rating) / (high - rating)
        assert below == pytest.approx(above, rel=1e-6)
        assert 1 < below < 1.1
    means = [np.mean([float(row[name]) for name in NAMES]) for row in table]
    assert means == pytest.approx([1000] * 100)


def test_pinned_votes(home: Path, record: Path, pinned: Path) -> None:
    """With `inline_human: false` the record holds only the verdicts, pins the votes by path and
    SHA-256, has the same ratings, and they come out again.
    """
    rows = jsonl(pinned / "battles.jsonl")
    assert rows == [r for r in jsonl(record / "battles.jsonl") if r["source"] == "llm-judge"]
    pin = loaded(pinned / "manifest.json")["human_battles"]
    assert pin["inlined"] is False
    assert pin["file"] == "votes.csv"
    assert pin["sha256"] == hashlib.sha256((home / "votes.csv").read_bytes()).hexdigest()
    for name in ("elo_ratings.json", "bootstrap_ratings.csv", "placement.json"):
        assert (pinned / name).read_bytes() == (record / name).read_bytes(), name
    expected = [shown(row) for row in loaded(pinned / "elo_ratings.json")["ratings"]]
    assert rated(pinned, home) == expected
    assert rated(pinned / "battles.jsonl", home) == expected
    assert rated(pinned / "battles.jsonl", pinned) == expected


@pytest.mark.parametrize("change", ["edited", "gone"])
def test_pinned_votes_that_changed(home: Path, pinned: Path, change: str) -> None:
    """A human file that is not the pinned one any more is refused in one sentence."""
    path = home / "votes.csv"
    before = path.read_bytes()
    try:
        if change == "edited":
            path.write_bytes(before.replace(b"model_a,human", b"model_b,human", 1))
        else:
            path.unlink()
        done = call("rate", pinned / "battles.jsonl", "--json", cwd=home)
    finally:
        path.write_bytes(before)
    assert done.exit_code == 2
    assert done.stdout == ""
    (sentence,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert "votes.csv" in sentence
    assert ("changed since" if change == "edited" else "no such file") in sentence
    assert "Traceback" not in done.stderr


def test_pinned_votes_from_elsewhere(pinned: Path, tmp_path: Path) -> None:
    """A pinned record inside its workspace is rated again from any folder, like an inlined one."""
    expected = [shown(row) for row in loaded(pinned / "elo_ratings.json")["ratings"]]
    assert rated(pinned / "battles.jsonl", tmp_path) == expected


def test_same_inputs_same_artifacts(home: Path, record: Path) -> None:
    """A second run leaves the same bytes; another seed moves intervals, never ratings."""
    again, other = saved(home), saved(home, seed=4)
    assert again != record
    for name in ARTIFACTS:
        assert (again / name).read_bytes() == (record / name).read_bytes(), name
    one, two = (loaded(each / "elo_ratings.json")["ratings"] for each in (record, other))
    assert [row["rating"] for row in one] == [row["rating"] for row in two]
    assert all(a["ci_low"] != b["ci_low"] for a, b in zip(one, two, strict=True))


def test_placement_summary(record: Path) -> None:
    """placement.json says both ways, with possible ranks and the probability to be above."""
    found = loaded(record / "placement.json")
    ratings = loaded(record / "elo_ratings.json")["ratings"]
    joint = {row["model"]: row for row in found["joint"]}
    assert all(joint[row["model"]]["rating"] == row["rating"] for row in ratings)
    assert set(found["above"]) == {"joint", "anchored"}
    for way in ("joint", "anchored"):
        assert set(found["above"][way]) == set(NAMES)
        chances = [found["above"][way][row["model"]] for row in ratings if row["model"] != "new"]
        assert chances == sorted(chances), "the higher the other, the less probable"
        for row in found[way]:
            best, worst = row["ranks"]
            assert 1 <= best <= worst <= 6
    assert found["left_out"] == {"rare": 25}
    assert found["calibration"]["n_shared"] >= 200
    assert found["hidden_human_rating"]["n_battles"] == 50


def test_people_and_judge_together(home: Path, record: Path) -> None:
    """placement.json has all six models by votes and verdicts together, on the placement's scale,
    whose center is the mean of the others: the votes on the placed model count, its interval is
    narrower than by them alone, and a sentence says how many votes that is worth.
    """
    found = loaded(record / "placement.json")
    together = {row["model"]: row for row in found["together"]["ratings"]}
    assert set(together) == {"new", *NAMES}
    assert np.mean([row["rating"] for row in found["together"]["people"]
                    if row["model"] != "new"]) == pytest.approx(1000)  # fmt: skip
    new, alone = together["new"], found["hidden_human_rating"]
    assert (new["votes"], alone["n_battles"]) == (50, 50)
    assert abs(new["rating"] - 1050) < 60, "planted"
    assert new["ci_high"] - new["ci_low"] < alone["ci_high"] - alone["ci_low"]
    worth = re.search(r"^50 votes on new .* worth about (\d+) votes on it:", found["in_votes"])
    assert worth is not None
    assert int(worth[1]) > 50
    assert [each["model"] for each in found["together"]["disagreements"]] == []
    assert found["ranks_alone"].keys() == {"joint", "anchored", "board"}
    (placed,) = [row["ranks"] for row in found["board"]["ratings"] if row["model"] == "new"]
    best, worst = found["ranks_alone"]["board"]
    assert placed[0] <= best <= worst <= placed[1], "all at once is no narrower"


def test_a_model_without_votes_is_worth_votes(home: Path) -> None:
    """Without votes on the model the sentence says how many its place by the judge is worth: as
    many as leave its standard error, by the median variance of a vote on the others.
    """
    written(home / "others.csv", [b for b in votes() if "new" not in (b.model_a, b.model_b)])
    study = placed_by(home, human="others.csv")
    both = study.together
    assert both is not None
    assert both.ratings["new"].extra["votes"] == 0
    people, row = both.people, both.ratings["new"]
    one = np.median([people[m].extra["se"] ** 2 * people[m].n_battles for m in people.models])
    expected = one / ((row.ci_high - row.ci_low) / (2 * 1.959964)) ** 2
    told = loaded(publish_placement(study).path / "placement.json")["in_votes"]
    assert told.startswith("No vote on new counts; its place by this judge")
    (number,) = re.findall(r"worth about (\d+) votes on it", told)
    assert int(number) == pytest.approx(expected, rel=0.05)


def test_people_and_judge_apart(home: Path) -> None:
    """A judge that saw only three others leaves a record that says why its place cannot be told in
    votes, in the report's table as well.
    """
    known = ("new", *NAMES[:3])
    few = [b for b in verdicts() if b.model_a in known and b.model_b in known]
    written(home / "few.jsonl", few)
    study = placed_by(home, judged="few.jsonl", soft=False)
    assert study.together is None
    why = "5 models must have verdicts and 10 human battles (min_battles), found 4"
    assert why in placement.together("new", study.together, study.apart).text
    found = loaded(publish_placement(study).path / "placement.json")
    assert found["together"] is None
    assert why in found["in_votes"]


def test_a_record_as_judged(home: Path) -> None:
    """The judged battles may be a tournament's record: its battles.jsonl is read, one dimension
    at a time, and several are refused with their names.
    """
    with chdir(home):
        tournament = record_of("pilot", **SMALL | {"run_dir": "runs/tournament"}).path
    sample = {
        "model": "dogwood",
        "human": "sample/arena/simulated_votes.csv.gz",
        "soft": False,
        "min_battles": 500,
    }
    with pytest.raises(DataError, match=r"several dimensions \(calibration, clinical_utility, fac"):
        planned(home, **sample, judged="runs/tournament")
    with pytest.raises(DataError, match="no dimension 'taste'; found: calibration, clinical_util"):
        planned(home, **sample, judged="runs/tournament", dimension="taste")
    study = placed_by(home, **sample, judged="runs/tournament", dimension="factuality")
    assert study.verdicts.plan.judge_model == "baseline/lexical-v1"
    battles = read_battles(tournament / "battles.jsonl").by_dimension()["factuality"]
    mine = [b for b in battles.to_battles() if "dogwood" in (b.model_a, b.model_b)]
    assert study.placed.n_judged == sum(not b.inconsistent for b in mine)


def test_verdicts_with_a_dimension(home: Path) -> None:
    """Verdicts on a dimension (as the sample's are) leave a record whose ratings come out again."""
    judged = [replace(b, dimension="taste") for b in verdicts()]
    written(home / "tasted.jsonl", judged)
    record = saved(home, judged="tasted.jsonl")
    expected = [shown(row) for row in loaded(record / "elo_ratings.json")["ratings"]]
    assert rated(record / "battles.jsonl", home) == expected


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"human": "nothing.csv"}, r"nothing\.csv: no such file"),
        ({"judged": "nothing.jsonl"}, r"nothing\.jsonl: no such file"),
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
    mine = [b for b in verdicts() if b.model_a == "new"]
    written(home / "apart.jsonl", [replace(b, question_id=f"other-{b.question_id}") for b in mine])
    written(home / "wins.jsonl", [replace(b, winner="model_a", inconsistent=False) for b in mine])
    with pytest.raises(RatingError, match=why) as caught:
        placed_by(home, **changes)
    assert "\n" not in str(caught.value)
    manifest = loaded(
        max((home / "runs").iterdir(), key=lambda p: p.stat().st_mtime) / "manifest.json"
    )
    assert manifest["status"] == "failed"
    assert str(caught.value) in manifest["error"]


def test_nothing_to_agree_on(home: Path) -> None:
    """A judge that ties every battle of the others still leaves a whole record."""
    ties = [b if "new" in (b.model_a, b.model_b) else replace(b, winner="tie") for b in verdicts()]
    written(home / "ties.jsonl", ties)
    assert loaded(saved(home, judged="ties.jsonl") / "manifest.json")["status"] == "finished"


def two_judges() -> list[Battle]:
    mine = [b for b in verdicts() if b.model_a == "new"]
    kind = [replace(b, winner="model_a", inconsistent=False, judge_model="kind") for b in mine]
    return kind + [
        replace(b, winner="model_b", inconsistent=False, judge_model="stern") for b in mine
    ]


def test_several_judges(home: Path) -> None:
    """Verdicts of several judges are refused with their names, as several dimensions are."""
    written(home / "two.jsonl", two_judges())
    with pytest.raises(DataError, match=r"kind.*stern"):
        planned(home, judged="two.jsonl", soft=False)


def test_one_of_several_judges(home: Path) -> None:
    """Naming one of the judges never counts the verdicts of another under its name."""
    written(home / "two.jsonl", two_judges())
    study = placed_by(home, judged="two.jsonl", soft=False, judge_model="kind")
    assert study.placed.n_judged == len(two_judges()) // 2
    assert study.placed.joint.order[0] == "new", "the kind judge lets it win every time"


def test_a_judge_without_a_name(home: Path) -> None:
    """Where nobody says who judged, the record does not say that 'winner' did."""
    written(home / "unnamed.jsonl", [replace(b, judge_model=None) for b in verdicts()])
    assert planned(home, judged="unnamed.jsonl").judge_model != "winner"


def test_verdicts_are_no_votes(home: Path, record: Path) -> None:
    """A file of both, such as the battles of an earlier placement, lends only its human votes:
    verdicts marked as a judge's never pass for people's.
    """
    mixed = [*votes(), *(b for b in verdicts() if "new" not in (b.model_a, b.model_b))]
    written(home / "mixed.jsonl", mixed)
    placed = placed_by(home, human="mixed.jsonl", soft=False).placed
    assert placed.human.n_battles == loaded(record / "placement.json")["n_human"]


def test_votes_are_no_verdicts(home: Path, record: Path) -> None:
    """The votes in an earlier placement's record never pass for verdicts: a judge that is
    people's own echo would be found perfect.
    """
    with pytest.raises(RatingError, match=r"people and the judge both decided .* found 0$"):
        placed_by(home, judged=str(record), soft=True)


def test_any_column_of_a_jsonl_file(home: Path) -> None:
    """`judged_winner` names any column, also one with dashes in a JSONL file."""
    lines = (home / "verdicts.jsonl").read_text().replace('"winner"', '"gpt-4-0125-preview"')
    (home / "columns.jsonl").write_text(lines)
    study = placed_by(home, judged="columns.jsonl", judged_winner="gpt-4-0125-preview", soft=False)
    assert study.placed.n_judged == placed_by(home, soft=False).placed.n_judged


def test_the_board_in_the_terminal(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The terminal shows the ranking with the placed model marked; a name that looks like markup
    is shown as it is.
    """
    both = {"new": "[red]new[/red]", "ash": "[link=x]ash"}

    def renamed(battles: list[Battle]) -> list[Battle]:
        return [
            replace(
                b,
                model_a=both.get(b.model_a, b.model_a),
                model_b=both.get(b.model_b, b.model_b),
            )
            for b in battles
        ]

    written(home / "odd_votes.csv", renamed(votes()))
    written(home / "odd.jsonl", renamed(verdicts()))
    record = saved(home, model=both["new"], human="odd_votes.csv", judged="odd.jsonl")
    show_board(record)
    printed = capsys.readouterr().out
    assert "[red]new[/red] ◀ placed" in printed
    assert "[link=x]ash" in printed
    assert printed.count("◀ placed") == 1
    ranked = [row["model"] for row in loaded(record / "elo_ratings.json")["ratings"]]
    assert [printed.index(f" {model} ") for model in ranked] == sorted(
        printed.index(f" {model} ") for model in ranked
    )


@pytest.fixture(scope="module")
def sample_run(home: Path) -> Result:
    """`arena-kit run placement`, as shipped."""
    return call("run", "placement", cwd=home / "notebooks")


def test_the_answer_of_a_placement(record: Path) -> None:
    """The box says the rank, rating and possible ranks that placement.json has, who judged, and
    what may not be concluded.
    """
    box, summary = loaded(record / "answer.json"), loaded(record / "placement.json")
    board, model = summary["board"], summary["model"]
    rank = [row["model"] for row in board["ratings"]].index(model) + 1
    row = board["ratings"][rank - 1]
    place = f"{model} is placed at rank {rank} of {len(board['ratings'])}, {board['heading']}: "
    assert box["answer"][0].startswith(f"{place}{row['rating']:.0f} (")
    assert summary["in_votes"] in box["said"]
    assert board["caution"] in box["caveats"]
    assert box["gate"] == loaded(record / "judge_gate.json")["sentence"]
    judge = loaded(record / "elo_ratings.json")["judge_model"]
    assert box["facts"]["judge"] == f"{judge}, verdicts of verdicts.jsonl"


def test_run_placement(home: Path, sample_run: Result) -> None:
    """`arena-kit run placement` prints the board, ends with the record's path, and leaves the
    report, the figure and every artifact; the report says the votes are simulated.
    """
    assert sample_run.exit_code == 0, sample_run.output
    record = Path(sample_run.stdout.splitlines()[-1])
    assert record.parent == home / "runs"
    assert "dogwood ◀ placed" in sample_run.stdout
    assert "simulated" in sample_run.stdout
    names = {str(path.relative_to(record)) for path in record.rglob("*") if path.is_file()}
    assert names >= {*ARTIFACTS, "report.ipynb", "report.html", "figures/placement.png"}
    manifest = loaded(record / "manifest.json")
    assert manifest["status"] == "finished"
    assert manifest["parameters"] | {"run_dir": ""} == PlacementParams(
        **read_yaml(home / "params" / "placement.yaml")
    ).model_dump(mode="json")
    report = (record / "report.html").read_text(encoding="utf-8")
    assert "<script" not in report
    assert "simulated, no person voted" in report
    assert "yew (187): fewer than 500 human battles" in report
    assert "Warning" not in report


def test_the_notebook_tells_the_ratings(sample_run: Result) -> None:
    """The text that the notebook prints says what the ratings file says."""
    record = Path(sample_run.stdout.splitlines()[-1])
    (told,) = [
        "".join(output["text"])
        for cell in loaded(record / "report.ipynb")["cells"]
        for output in cell.get("outputs", [])
        if output["output_type"] == "stream" and output["name"] == "stdout"
    ]
    ratings = loaded(record / "elo_ratings.json")["ratings"]
    ((rank, mine),) = [(n, r) for n, r in enumerate(ratings, 1) if r["source"] == "evaluated"]
    assert f"dogwood is placed at rank {rank} of {len(ratings)}" in told
    assert f"{mine['rating']:.1f}" in told
    assert f"{mine['ci_low']:.0f} to {mine['ci_high']:.0f}" in told


def test_rating_the_sample_record_again(home: Path, sample_run: Result) -> None:
    """What the notebook says of its battles.jsonl holds: `rate` gives the ratings again."""
    record = Path(sample_run.stdout.splitlines()[-1])
    expected = [shown(row) for row in loaded(record / "elo_ratings.json")["ratings"]]
    assert rated(record / "battles.jsonl", home) == expected


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["-p", "modle", "x"], "unknown parameter 'modle' of placement; allowed: .*model"),
        (["-p", "min_battles", "many"], "min_battles"),
        (["-p", "model", ""], "model: .*at least 1 character"),
        (["--params", "nothing.yaml"], "nothing.yaml: no such file"),
    ],
)
def test_wrong_usage(home: Path, words: list[str], why: str) -> None:
    """Wrong parameters end with exit 2 and one sentence, before any record exists."""
    before = set((home / "runs").glob("*"))
    done = call("run", "placement", *words, cwd=home)
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert re.search(why, done.stderr), done.stderr
    assert set((home / "runs").glob("*")) == before


def test_a_wrong_column_in_a_run(home: Path) -> None:
    """A run that is told a column that is not there is refused in a sentence about the file of its
    workspace, wherever it is started, and leaves no record.
    """
    before = set((home / "runs").glob("*"))
    with pytest.raises(DataError, match="missing column human_winner") as caught:
        run_notebook(
            "placement",
            root=home,
            overrides={"placement.human_winner": "human_winner"},
            progress=False,
        )
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(home))
    assert set((home / "runs").glob("*")) == before


@pytest.fixture(scope="module")
def real_run(home: Path, data: Path) -> Record:
    """The 27k set with the parameters of its file, GPT-4 judging."""
    file = str(data / "chatbot_arena_27k" / "battles.csv.gz")
    given = read_yaml(home / "params" / "placement_27k.yaml")
    with chdir(home):
        own = {"human": file, "judged": file, "n_bootstraps": 100}
        return placement_record(**given | own)


def test_the_27k_set(real_run: Record) -> None:
    """On real battles a placement puts gpt-4 first of 20, as people do, near their rating."""
    assert real_run.read()["status"] == "finished"
    found = loaded(real_run.path / "elo_ratings.json")
    assert found["model"] == "gpt-4"
    assert found["judge_model"] == "gpt-4-0125-preview"
    assert len(found["ratings"]) == 20
    assert found["ratings"][0]["model"] == "gpt-4"
    hidden = loaded(real_run.path / "placement.json")["hidden_human_rating"]
    assert abs(found["ratings"][0]["rating"] - hidden["rating"]) < 50
    rows = jsonl(real_run.path / "battles.jsonl")
    assert sum(row["source"] == "human" for row in rows) + hidden["n_battles"] == 26_919


def test_real_votes_are_not_called_simulated(real_run: Record) -> None:
    """Nothing in the record of real votes says that no person voted."""
    found = loaded(real_run.path / "elo_ratings.json")
    assert found["arena"] == "Chatbot Arena, April to June 2023"
    assert real_run.read()["human_battles"]["note"] == ""


def test_the_manifest_says_what_ran(sample_run: Result) -> None:
    """The parameters in the manifest are those that the notebook ran with, given or not."""
    record = Path(sample_run.stdout.splitlines()[-1])
    cells = loaded(record / "report.ipynb")["cells"]
    ran: dict[str, Any] = {}
    for tag in ("parameters", "injected-parameters"):
        (cell,) = [c for c in cells if tag in c["metadata"].get("tags", [])]
        exec("".join(cell["source"]), ran)
    parameters = loaded(record / "manifest.json")["parameters"]
    assert {name: ran[name] for name in parameters} == parameters


def test_hostile_names_are_placed(home: Path) -> None:
    """The record has each model under the name that it was given, and the arena's as given: votes
    of one's own are not called simulated. What names do in a report, a browser says in
    tests/reporting/test_browser.py.
    """
    names = {"new": SCRIPT, "ash": IMAGE, "rare": "<b>rare</b>"}

    def renamed(battles: list[Battle]) -> list[Battle]:
        return [
            replace(
                b,
                model_a=names.get(b.model_a, b.model_a),
                model_b=names.get(b.model_b, b.model_b),
                judge_model=b.judge_model and "<i>judge</i>",
            )
            for b in battles
        ]

    written(home / "hostile.csv", renamed(votes()))
    written(home / "hostile.jsonl", renamed(verdicts()))
    own = {"model": SCRIPT, "human": "hostile.csv", "judged": "hostile.jsonl"}
    record = saved(home, **own, arena="<s>arena</s>")
    assert loaded(record / "manifest.json")["status"] == "finished"
    found = loaded(record / "elo_ratings.json")
    assert {row["model"] for row in found["ratings"]} == {SCRIPT, IMAGE, *NAMES[1:]}
    assert found["arena"] == "<s>arena</s>"
