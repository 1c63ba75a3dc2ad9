"""Records that stand alone: what was judged is in them, or only its hash."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from contextlib import chdir
from pathlib import Path

import pytest

from arena_kit import DataError, record_texts
from arena_kit.reporting import tables
from arena_kit.runs.notebook.run import NotebookRun
from arena_kit.runs.record.inputs import keep_inputs, replay_parameters, tournament_inputs
from arena_kit.runs.record.record import Record
from tests.samples import (
    ROOT,
    SMALL,
    call,
    copy_workspace,
    jsonl,
    judgments_of,
    plan_of,
    published,
    record_of,
)

KEPT = {
    "tournament.yaml": "params/tournament.yaml",
    "prices.yaml": "params/prices.yaml",
    "prompts.jsonl": "sample/prompts.jsonl",
    "rubrics/factuality.md": "params/rubrics/factuality.md",
    "rubrics/calibration.md": "params/rubrics/calibration.md",
    "rubrics/clinical_utility.md": "params/rubrics/clinical_utility.md",
    **{
        f"responses/responses_{entrant}.jsonl": f"sample/responses/responses_{entrant}.jsonl"
        for entrant in ("aspen", "birch", "cedar", "dogwood")
    },
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with two records, of which the second has another seed."""
    root = copy_workspace(tmp_path_factory.mktemp("home") / "workspace")
    with chdir(root):
        for name, seed in (("one", 0), ("two", 5)):
            own = {"overrides": {"elo.n_perms": 20, "elo.seed": seed}, "run_dir": f"runs/{name}"}
            record_of("pilot", **SMALL | own)
    return root


@pytest.fixture
def alone(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The two records, copied to an empty folder, which is the current one."""
    empty = tmp_path / "empty"
    shutil.copytree(home / "runs", empty)
    monkeypatch.chdir(empty)
    return empty / "one", empty / "two"


def changed(record: Path, **values: object) -> None:
    """Write other values into a record's manifest."""
    manifest = json.loads((record / "manifest.json").read_text())
    (record / "manifest.json").write_text(json.dumps(manifest | values))


def rewritten(record: Path, old: str, new: str) -> None:
    """Change a record's tournament file, as somebody would who wants it believed."""
    file = record / "inputs" / "tournament.yaml"
    file.write_text(file.read_text().replace(old, new, 1))
    listed = json.loads((record / "manifest.json").read_text())["inputs"]
    listed["tournament.yaml"]["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    changed(record, inputs=listed)


def test_a_record_keeps_what_was_judged(home: Path, alone: tuple[Path, Path]) -> None:
    """Every input is in the record byte for byte, and its manifest has size and SHA-256."""
    record, _ = alone
    listed = json.loads((record / "manifest.json").read_text())["inputs"]
    assert set(listed) == set(KEPT)
    for name, source in KEPT.items():
        content = (home / source).read_bytes()
        assert (record / "inputs" / name).read_bytes() == content
        digest = hashlib.sha256(content).hexdigest()
        assert listed[name] == {"bytes": len(content), "sha256": digest, "kept": True}
    assert re.search(r"/inputs/ \(10 files\) +\d+ kB", str(tables.files(record, home)))
    asked = {row["prompt_id"]: row["text"] for row in jsonl(home / "sample" / "prompts.jsonl")}
    said = {
        (row["entrant_id"], row["prompt_id"]): row["response_text"]
        for path in (home / "sample" / "responses").glob("*.jsonl")
        for row in jsonl(path)
    }
    log, texts = record_texts(record)
    battles = jsonl(record / "battles.jsonl")
    shown = [
        json.loads(line) for line in call("runs", "show", record, "--json").stdout.splitlines()
    ]
    assert len(log) == len(texts) == len(battles) == len(shown) > 100
    for n, (battle, each) in enumerate(zip(battles, shown, strict=True)):
        question, sides = battle["question_id"], (battle["model_a"], battle["model_b"])
        wanted = (asked[question], *(said[side, question] for side in sides))
        assert (texts.prompt[n], texts.response_a[n], texts.response_b[n]) == wanted
        assert (each["prompt"], each["response_a"], each["response_b"]) == wanted
        assert {v["first"] for v in each["verdicts"]} == set(sides)
    one = call("runs", "show", record, battles[7]["battle_id"]).stdout
    assert all(shown[7][name] in one for name in ("prompt", "response_a", "response_b"))


def test_records_alone_are_opened_rated_and_compared(alone: tuple[Path, Path]) -> None:
    """In an empty folder `show` prints the board, `rate` gives the record's ratings again."""
    record, _ = alone
    assert "10 files kept, 0 only as hashes" in call("runs", "show", record).stdout
    primary = json.loads((record / "elo_results.json").read_text())["primary"]
    words = ("rate", record, "--method", "elo", "--json")
    for row in json.loads(call(*words).stdout)["ratings"]:
        entry = primary[row["dimension"]][row["model"]]
        assert (row["rating"], row["ci_low"]) == (entry["mean"], entry["ci95_low"])
    found = json.loads(call("runs", "compare", *alone, "--json").stdout)
    assert found["settings"]["tournament.elo.seed"] == [0, 5]
    assert (found["flips"], found["n_shared"], found["warnings"]) == ([], 384, [])
    assert len(found["deltas"]) == 12
    assert {(d["change"], d["says"]) for d in found["deltas"]} == {(0.0, "same")}


def test_a_record_is_replayed_in_another_workspace(
    alone: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workspace that has none of the entrants repeats a record's verdicts on its texts."""
    record, _ = alone
    other = copy_workspace(tmp_path / "other")
    shutil.rmtree(other / "sample")
    monkeypatch.chdir(other)
    NotebookRun.resolve("pilot", other, from_record=record).tournament()
    made = record_of("pilot", **replay_parameters(record)).path
    for name in ("matches/matches.jsonl", "battles.jsonl", "elo_results.json"):
        assert (made / name).read_bytes() == (record / name).read_bytes()
    assert (made / "inputs" / "prompts.jsonl").is_file()
    manifest = json.loads((made / "manifest.json").read_text())
    assert manifest["judge"]["settings"]["judge"] == "replay"
    assert call("runs", "compare", record, made).stdout.count("+0.0") == 12
    strange = tmp_path / "elsewhere.sqlite"
    rewritten(record, ".arena_kit/verdicts.sqlite", str(strange))
    paid = {"judge": "anthropic", "max_cost_usd": 5.0}
    assert plan_of("headline", **replay_parameters(record) | paid).judge.model == "claude-opus-5-5"
    assert len(judgments_of("pilot", tournament=str(record), **SMALL)) == 192
    assert (other / ".arena_kit" / "verdicts.sqlite").is_file()
    assert not strange.exists()


def test_confidential_inputs_are_only_hashed(workspace: Path) -> None:
    """With `inputs: hashes` no text of a prompt or response is in the record."""
    study = judgments_of("headline", **SMALL, inputs="hashes")
    record = published(study)
    listed = record.read()["inputs"]
    assert {name: (entry["kept"], entry["sha256"]) for name, entry in listed.items()} == {
        name: (False, hashlib.sha256((workspace / source).read_bytes()).hexdigest())
        for name, source in KEPT.items()
    }
    written = [path.read_text() for path in record.path.rglob("*.json*")]
    written += [study.examples().html, str(study.examples())]
    for row in jsonl(workspace / "sample" / "responses" / "responses_aspen.jsonl"):
        assert not any(row["response_text"] in text for text in written)
    with pytest.raises(DataError, match=r"keeps only hashes of its inputs \(parameter inputs"):
        record_texts(record.path)
    with pytest.raises(DataError):
        judgments_of("pilot", tournament=str(record.path))
    again = Record.create(workspace / "runs", "pilot")
    for name in ("secret.jsonl", "other.jsonl"):
        (workspace / name).write_text(f"{name}\n")
        keep_inputs(again, {name: workspace / name})
    keep_inputs(again, {"secret.jsonl": workspace / "secret.jsonl"}, "hashes")
    kept = {name: entry["kept"] for name, entry in again.read()["inputs"].items()}
    assert kept == {"secret.jsonl": False, "other.jsonl": True}
    assert [path.name for path in (again.path / "inputs").iterdir()] == ["other.jsonl"]


def test_a_changed_copy_is_refused(alone: tuple[Path, Path]) -> None:
    """A kept file that is not as it was is named."""
    record, _ = alone
    path = record / "inputs" / "responses" / "responses_cedar.jsonl"
    path.write_text(path.read_text().replace("the", "The", 1))
    with pytest.raises(DataError, match=r"responses_cedar.jsonl: changed since the run: its SHA"):
        record_texts(record)
    path.unlink()
    with pytest.raises(DataError, match=r"responses_cedar.jsonl: no such file"):
        record_texts(record)


def test_a_record_without_inputs_says_so(alone: tuple[Path, Path], workspace: Path) -> None:
    """A record that kept nothing cannot be replayed, in one sentence."""
    record, _ = alone
    changed(record, inputs={})
    done = call("run", "pilot", "--from-record", record)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "keeps no tournament file among its inputs" in done.stderr
    for odd in ([1], {"tournament.yaml": {"sha256": 3}}):
        changed(record, inputs=odd)
        with pytest.raises(DataError, match=r"manifest.json: inputs: files"):
            record_texts(record)


def test_a_replay_takes_no_address_key_or_cap_from_a_record(alone: tuple[Path, Path]) -> None:
    """Where to send requests, with which key and cap is never taken from a record."""
    record, _ = alone
    parameters = json.loads((record / "manifest.json").read_text())["parameters"]
    foreign = {"judge.base_url": "http://127.0.0.1:9", "judge.key_variable": "HOME"}
    parameters |= {"max_cost_usd": 900.0, "judge_model": "x", "offline": True}
    parameters["overrides"] |= foreign
    changed(record, parameters=parameters)
    taken = replay_parameters(record)
    assert not taken.keys() & {"max_cost_usd", "judge_model", "offline", "run_dir"}
    here = str(record.resolve())
    kept = {"elo.n_perms": 20, "elo.seed": 0, "judge.replay_from": here}
    assert (taken["strata"], taken["overrides"]) == (SMALL["strata"], kept)
    address = "judge:\n  base_url: http://127.0.0.1:9\n  key_variable: HOME\n"
    rewritten(record, "judge:\n", address)
    judge = tournament_inputs(record, ROOT)[0].judge
    assert (judge.base_url, judge.key_variable) == ("", "")


def test_a_key_in_a_comment_is_not_copied(workspace: Path) -> None:
    """A tournament file with a key in a comment is refused before it is copied."""
    path = workspace / "params" / "tournament.yaml"
    path.write_text(f"# sk-ant-planted-0123456789abcdef\n{path.read_text()}")
    with pytest.raises(DataError, match=r"tournament.yaml: the file holds a key"):
        judgments_of("pilot", **SMALL)
    (manifest,) = workspace.glob("runs/*/manifest.json")
    assert json.loads(manifest.read_text())["status"] == "failed"
    assert not list(workspace.glob("runs/*/inputs/tournament.yaml"))
