"""`arena-kit runs export`: battles and ratings for other tools."""

import csv
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from arena_kit import BattleLog, Board, BradleyTerry, publish_policy, read_season, write_battles
from tests.samples import CASES, call, log_of, season, won

#: The fields of every_eval_ever's schema that we write, and what it says of each.
SCHEMA = json.loads((CASES / "every_eval_ever.json").read_text())
PUBLISHED = ("--organization", "Hospital", "--relationship", "third_party")
#: A version 4 UUID, as the datastore asks of file names.
_UUID4 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\.json")


def export(*words: object) -> Any:
    """Call `arena-kit runs export`."""
    return call("runs", "export", *words)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def documents(folder: Path) -> dict[str, dict[str, Any]]:
    """The documents by model, each checked against the schema and its place."""
    found = {}
    for file in folder.rglob("*.json"):
        document = json.loads(file.read_text())
        jsonschema.validate(document, SCHEMA)
        assert len(file.relative_to(folder).parts) == 4
        assert _UUID4.fullmatch(file.name)
        found[document["model_info"]["name"]] = document
    return found


@pytest.fixture
def votes() -> BattleLog:
    return log_of([*won("acme/x", "y", 30, 12), *won("y", "z", 25, 15), *won("acme/x", "z", 20, 8)])


@pytest.fixture
def file(tmp_path: Path, votes: BattleLog) -> Path:
    write_battles(tmp_path / "votes.jsonl", votes)
    return tmp_path / "votes.jsonl"


def test_a_file_becomes_one_table_of_ratings(file: Path, votes: BattleLog, tmp_path: Path) -> None:
    """A file becomes a row per model and method, or a document per model; twice, still one."""
    out = tmp_path / "ratings.csv"
    words = ("--method", "bradley-terry", "--method", "glicko2")
    done = export(file, "--to", "csv", "--out", out, *words)
    assert done.stdout == f"6 ratings: {out}\n"
    rows = rows_of(out)
    assert [(row["method"], row["model"]) for row in rows[:3]] == [
        ("bradley-terry", name) for name in BradleyTerry()(votes).order
    ]
    best = BradleyTerry()(votes)["acme/x"]
    row = rows[0]
    assert float(row["rating"]) == best.rating
    assert (float(row["ci_low"]), float(row["ci_high"])) == (best.ci_low, best.ci_high)
    assert row["interval"].startswith("sandwich, clustered by question")
    assert (row["n_battles"], json.loads(row["settings"])["center"]) == ("70", 1000)
    assert {row["method"] for row in rows[3:]} == {"glicko2"}
    for _ in range(2):
        done = export(file, "--to", "every-eval-ever", "--out", tmp_path / "e", *PUBLISHED)
    assert "2 models have no developer and are filed under unknown" in done.stderr
    assert len(list((tmp_path / "e").rglob("*.json"))) == 3
    found = documents(tmp_path / "e")
    assert set(found) == {"acme/x", "y", "z"}
    assert list((tmp_path / "e" / "votes" / "acme" / "x").iterdir())
    document = found["acme/x"]
    assert document["model_info"]["developer"] == "acme"
    assert document["source_metadata"]["source_organization_name"] == "Hospital"
    (result,) = document["evaluation_results"]
    best = BradleyTerry()(votes)["acme/x"]
    assert result["score_details"]["score"] == best.rating
    uncertainty = result["score_details"]["uncertainty"]
    assert uncertainty["confidence_interval"]["lower"] == best.ci_low
    assert uncertainty["standard_error"]["value"] == best.extra["se"]


def test_a_tournament_record_names_its_judge(pilot_record: Path, tmp_path: Path) -> None:
    """Documents name the judge; the table has the board's ratings and Elo beside them."""
    out = tmp_path / "out"
    done = export(pilot_record, "--to", "every-eval-ever", "--out", out, *PUBLISHED)
    assert done.exit_code == 0, done.stderr
    found = documents(out)
    assert set(found) == {"aspen", "birch", "cedar", "dogwood"}
    results = {x["evaluation_result_id"]: x for x in found["aspen"]["evaluation_results"]}
    assert len(results) == 3 * 2
    told = results["clinical-sample.calibration::bradley-terry"]["source_data"]
    assert told["additional_details"]["judge_model"] == "baseline/lexical-v1"
    words = ("--to", "csv", "--dimension", "calibration")
    export(pilot_record, *words, "--out", tmp_path / "r.csv")
    rows = {(row["method"], row["model"]): row for row in rows_of(tmp_path / "r.csv")}
    board = Board.read(pilot_record).rows("calibration")
    assert len(rows) == 2 * len(board)
    for row in board:
        elo = rows["permutation-elo", row.model]
        assert float(rows["bradley-terry", row.model]["rating"]) == row.rating
        assert (float(elo["rating"]), float(elo["ci_low"])) == (
            row.beside["elo"].rating, row.beside["elo"].ci_low
        )  # fmt: skip


def test_a_policy_record_gives_its_board(workspace: Path, tmp_path: Path) -> None:
    """The conservative score, and beside it Glicko-2, Bradley–Terry and Elo of every model."""
    write_battles(workspace / "votes.jsonl", season(600))
    read = read_season(battles="votes.jsonl")
    record = publish_policy(read, read.report()).path
    export(record, "--to", "csv", "--out", tmp_path / "r.csv")
    rows = rows_of(tmp_path / "r.csv")
    board = json.loads((record / "leaderboard.json").read_text())["rows"]
    assert Counter(row["method"] for row in rows) == dict.fromkeys(
        ["conservative-score", "glicko2", "bradley-terry", "legacy-elo"], len(board)
    )
    scores = [float(row["rating"]) for row in rows if row["method"] == "conservative-score"]
    assert scores == [row["conservative"] for row in board]


def test_battles_of_a_record(pilot_record: Path, tmp_path: Path) -> None:
    """`--to fastchat` needs one dimension of a record, and says what became of inconsistency."""
    words = (pilot_record, "--to", "fastchat", "--out", tmp_path / "b.parquet")
    mixed = export(*words)
    assert (mixed.exit_code, "name one" in mixed.stderr) == (2, True)
    done = export(*words, "--dimension", "factuality")
    assert done.stdout == f"48 battles: {tmp_path / 'b.parquet'}\n"
    assert "inconsistent judgments became ties" in done.stderr


def test_developers_are_named(file: Path, tmp_path: Path) -> None:
    """A developer in a model's name stays; others are named for one model, or for all."""
    words = ("--to", "every-eval-ever", *PUBLISHED, "--developer", "lab", "--developer", "z=other")
    done = export(file, *words, "--out", tmp_path / "e")
    made = {
        name: each["model_info"]["developer"] for name, each in documents(tmp_path / "e").items()
    }
    assert (done.stderr, made) == ("", {"acme/x": "acme", "y": "lab", "z": "other"})
    assert list((tmp_path / "e" / "votes" / "other" / "z").iterdir())


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--to", "every-eval-ever", *PUBLISHED, "--developer", "a/b"], "allowed: letters, digits"),
        (["--to", "every-eval-ever"], "every-eval-ever needs --organization (who publishes"),
        (["--to", "csv", "--dimension", "wit"], "no dimension 'wit'; found: none"),
        (["--to", "fastchat", "--out", "x.xml"], "unknown kind of battle file"),
        (None, "a record of generate, status finished, without ratings"),
    ],
)
def test_refused(file: Path, tmp_path: Path, words: list[str] | None, why: str) -> None:
    """What cannot be written, and a record that has no ratings, is one sentence and exit code 2."""
    (tmp_path / "manifest.json").write_text('{"mode": "generate", "status": "finished"}')
    what = (file, *words) if words else (tmp_path, "--to", "csv")
    done = export(what[0], "--out", tmp_path / "out.csv", *what[1:])
    assert (done.exit_code, why in done.stderr) == (2, True), done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_hostile_names_do_nothing(tmp_path: Path) -> None:
    """A model's name makes no path of its own, however it is spelt or long."""
    names = ["../../escape", "..", "a" * 250, "con: <b>", "=1+1"]
    write_battles(tmp_path / "b.jsonl", log_of([r for n in names for r in won(n, "y", 6, 5)]))
    out = tmp_path / "in" / "side"
    done = export(tmp_path / "b.jsonl", "--to", "every-eval-ever", "--out", out, *PUBLISHED)
    assert done.exit_code == 0, done.stderr
    assert set(documents(out)) == {*names, "y"}
    assert {path.name for path in (tmp_path / "in").iterdir()} == {"side"}
    export(tmp_path / "b.jsonl", "--to", "csv", "--out", tmp_path / "r.csv")
    assert {row["model"] for row in rows_of(tmp_path / "r.csv")} == {*names[:4], "'=1+1", "y"}
