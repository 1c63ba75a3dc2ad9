"""Records that stand alone: what was judged, two of them compared, and one opened as frames."""

import hashlib
import json
import re
import shutil
import struct
from collections.abc import Callable
from contextlib import chdir
from dataclasses import replace
from math import log, sqrt
from pathlib import Path
from typing import Any

import pytest

import arena_kit as ak
from arena_kit import Battle, BattleLog, Board, BradleyTerry, DataError, open_run
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.verdicts.records import Judgment, Slot
from arena_kit.reporting import tables
from arena_kit.runs.notebook.run import NotebookRun
from arena_kit.runs.record.inputs import (
    keep_inputs,
    record_texts,
    replay_parameters,
    tournament_inputs,
)
from arena_kit.runs.record.record import Record
from tests import samples
from tests.samples import HOSTILE, SMALL, call, copy_workspace, jsonl, judgments_of, log_of, won

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


@pytest.fixture
def alone(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The two records, copied to an empty folder, which is the current one."""
    empty = tmp_path / "empty"
    shutil.copytree(recorded / "runs", empty)
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


def test_a_record_keeps_what_was_judged(recorded: Path, alone: tuple[Path, Path]) -> None:
    """Every input is in the record byte for byte, and its manifest has size and SHA-256."""
    record, _ = alone
    listed = json.loads((record / "manifest.json").read_text())["inputs"]
    assert set(listed) == set(KEPT)
    for name, source in KEPT.items():
        content = (recorded / source).read_bytes()
        assert (record / "inputs" / name).read_bytes() == content
        digest = hashlib.sha256(content).hexdigest()
        assert listed[name] == {"bytes": len(content), "sha256": digest, "kept": True}
    assert re.search(r"/inputs/ \(10 files\) +\d+ kB", str(tables.files(record, recorded)))
    asked = {row["prompt_id"]: row["text"] for row in jsonl(recorded / "sample" / "prompts.jsonl")}
    said = {
        (row["entrant_id"], row["prompt_id"]): row["response_text"]
        for path in (recorded / "sample" / "responses").glob("*.jsonl")
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


def test_records_alone_are_opened_and_compared(alone: tuple[Path, Path]) -> None:
    """Another seed moves no verdict; address, key and cap are never taken from a record."""
    assert "10 files kept, 0 only as hashes" in call("runs", "show", alone[0]).stdout
    found = json.loads(call("runs", "compare", *alone, "--json").stdout)
    assert found["settings"]["tournament.elo.seed"] == [0, 5]
    assert (found["flips"], found["n_shared"], found["warnings"]) == ([], 384, [])
    assert len(found["deltas"]) == 12
    assert {(d["change"], d["says"]) for d in found["deltas"]} == {(0.0, "same")}
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
    made = "{backend: openai_compatible, model: x, key_variable: HOME}"
    rewritten(
        record,
        "judge:\n",
        f"generate: {{aspen: {made}}}\nplacement: {{generate: {made}}}\njudge:\n",
    )
    taken = tournament_inputs(record, samples.ROOT)[0]
    assert (taken.judge.base_url, taken.judge.key_variable) == ("", "")
    assert (taken.generate, taken.placement.generate) == ({}, None)


def test_a_record_is_replayed_in_another_workspace(
    alone: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workspace that has none of the entrants repeats a record's verdicts on its texts."""
    record, _ = alone
    other = copy_workspace(tmp_path / "other")
    shutil.rmtree(other / "sample")
    monkeypatch.chdir(other)
    NotebookRun.resolve("pilot", other, from_record=record).tournament()
    made = samples.record_of("pilot", **replay_parameters(record)).path
    for name in ("matches/matches.jsonl", "battles.jsonl", "elo_results.json"):
        assert (made / name).read_bytes() == (record / name).read_bytes()
    assert (made / "inputs" / "prompts.jsonl").is_file()
    manifest = json.loads((made / "manifest.json").read_text())
    assert manifest["judge"]["settings"]["judge"] == "replay"
    assert call("runs", "compare", record, made).stdout.count("+0.0") == 12
    strange = tmp_path / "elsewhere.sqlite"
    rewritten(record, ".arena_kit/verdicts.sqlite", str(strange))
    paid = {"judge": "anthropic", "max_cost_usd": 5.0}
    assert (
        samples.plan_of("headline", **replay_parameters(record) | paid).judge.model
        == "claude-opus-5-5"
    )
    assert len(judgments_of("pilot", tournament=str(record), **SMALL)) == 192
    assert (other / ".arena_kit" / "verdicts.sqlite").is_file()
    assert not strange.exists()


def test_confidential_inputs_are_only_hashed(workspace: Path) -> None:
    """With `inputs: hashes` no text of a prompt or response is in the record."""
    study = judgments_of("headline", **SMALL, inputs="hashes")
    record = samples.published(study)
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


def test_a_changed_copy_is_refused(alone: tuple[Path, Path], workspace: Path) -> None:
    """A kept file that changed is named; what kept nothing cannot be replayed."""
    record, _ = alone
    path = record / "inputs" / "responses" / "responses_cedar.jsonl"
    path.write_text(path.read_text().replace("the", "The", 1))
    with pytest.raises(DataError, match=r"responses_cedar.jsonl: changed since the run: its SHA"):
        record_texts(record)
    path.unlink()
    with pytest.raises(DataError, match=r"responses_cedar.jsonl: no such file"):
        record_texts(record)
    record, _ = alone
    changed(record, inputs={})
    done = call("run", "pilot", "--from-record", record)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "keeps no tournament file among its inputs" in done.stderr
    for odd in ([1], {"tournament.yaml": {"sha256": 3}}):
        changed(record, inputs=odd)
        with pytest.raises(DataError, match=r"manifest.json: inputs: files"):
            record_texts(record)


def test_a_key_in_a_comment_is_not_copied(workspace: Path) -> None:
    """A tournament file with a key in a comment is refused before it is copied."""
    path = workspace / "params" / "tournament.yaml"
    path.write_text(f"# sk-ant-planted-0123456789abcdef\n{path.read_text()}")
    with pytest.raises(DataError, match=r"tournament.yaml: the file holds a key"):
        judgments_of("pilot", **SMALL)
    (manifest,) = workspace.glob("runs/*/manifest.json")
    assert json.loads(manifest.read_text())["status"] == "failed"
    assert not list(workspace.glob("runs/*/inputs/tournament.yaml"))


Votes = list[tuple[str, str, str]]


def with_battles(record: Path, folder: Path, votes: Votes, *, questions: bool = True) -> Path:
    """A copy of a record with other battles of one dimension, each on a question of its own."""
    shutil.copytree(record, folder)
    log = BattleLog.from_battles(
        Battle(
            model_a=a, model_b=b, winner=ak.Outcome(w), question_id=f"q{n}" if questions else None,
            dimension="taste",
        )
        for n, (a, b, w) in enumerate(votes)
    )  # fmt: skip
    ak.write_battles(folder / "battles.jsonl", log)
    method = BradleyTerry(**Board.read(record).settings)
    ak.rate(log, method, dimensions=["taste"]).write(folder)
    return folder


def test_compare_says_which_decided_orders_changed(pilot_record: Path, tmp_path: Path) -> None:
    """An order won 45 to 5 before and 26 to 24 after is lost, one the other way round gained."""
    before = with_battles(pilot_record, tmp_path / "before", won("ann", "bob", 45, 5)
                          + won("bob", "cy", 26, 24) + won("ann", "cy", 44, 6)
                          + won("ann", "old", 45, 5))  # fmt: skip
    after = with_battles(pilot_record, tmp_path / "after", won("ann", "bob", 26, 24)
                         + won("cy", "bob", 45, 5) + won("cy", "ann", 44, 6))  # fmt: skip
    done = call("runs", "compare", before, after, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["orders"] == [
        {
            "dimension": "taste", "kept": [], "lost": [["ann", "bob"]], "gained": [["cy", "bob"]],
            "reversed": [["cy", "ann"]],
        }
    ]  # fmt: skip
    told = "kept: 0; lost: ann above bob; gained: cy above bob; reversed: cy above ann."
    shown = call("runs", "compare", before, after).stdout
    assert f"taste: decided orders {told}" in shown
    assert "apart" not in shown
    same = json.loads(call("runs", "compare", before, before, "--json").stdout)["orders"][0]
    assert [same[kind] for kind in ("lost", "gained", "reversed")] == [[], [], []]
    assert ["ann", "bob"] in same["kept"]


def with_verdicts(record: Path, winners: list[str]) -> Path:
    """The record with one verdict on each of these questions."""
    rows = [
        {"dimension": "taste", "prompt_id": f"q{n}", "first": "ann", "second": "bob",
         "winner": winner, "status": "ok"}
        for n, winner in enumerate(winners)
    ]  # fmt: skip
    (record / "verdicts" / "taste.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return record


def test_compare_knows_that_both_records_asked_the_same_questions(
    pilot_record: Path, tmp_path: Path
) -> None:
    """Ann wins 60 of 100 before and 50 after, ten verdicts having changed. By hand: the log odds
    fall by ln 1.5; a question moves the change by 1/3 (won twice), -11/3 (lost after) or 1/2 (lost
    twice) of 1/100, so its variance is 150/100² times 100/99; t with 99 degrees is 1.984; a gap to
    the mean of two is half of theirs, in units of 400/ln 10.
    """
    before = with_battles(pilot_record, tmp_path / "before", won("ann", "bob", 60, 40))
    after = with_battles(pilot_record, tmp_path / "after", won("ann", "bob", 50, 50))
    with_verdicts(before, ["A"] * 60 + ["B"] * 40)
    with_verdicts(after, ["A"] * 50 + ["B"] * 50)
    ann, bob = json.loads(call("runs", "compare", before, after, "--json").stdout)["deltas"]
    unit = 400 / log(10) / 2
    half = 1.9842 * unit * sqrt(150 / 100**2 * 100 / 99)
    assert ann["change"] == pytest.approx(-unit * log(1.5), abs=0.01)
    assert ann["high"] - ann["change"] == pytest.approx(half, abs=0.02)
    assert bob["change"] == pytest.approx(-ann["change"])
    assert (ann["flips"], ann["says"]) == (10, "moved")
    assert re.search(r"ann +\+35 +[+-]0 +-35\.2 +-56 to -14  moved", call(
        "runs", "compare", before, after).stdout)  # fmt: skip


def test_compare_calls_nobody_moved_where_no_shared_verdict_changed(
    pilot_record: Path, tmp_path: Path
) -> None:
    """Forty more questions that bob wins change ratings and no verdict."""
    before = with_battles(pilot_record, tmp_path / "before", won("ann", "bob", 60, 40))
    after = with_battles(pilot_record, tmp_path / "after", won("ann", "bob", 60, 80))
    with_verdicts(before, ["A"] * 60 + ["B"] * 40)
    with_verdicts(after, ["A"] * 60 + ["B"] * 80)
    manifest = json.loads((after / "manifest.json").read_text())
    manifest["judge"]["model"] = "another"
    manifest["rating"]["settings"]["initial"] = 1000.0
    (after / "manifest.json").write_text(json.dumps(manifest))
    found = json.loads(call("runs", "compare", before, after, "--json").stdout)
    assert {delta["says"] for delta in found["deltas"]} == {"other battles"}
    shown = call("runs", "compare", before, after).stdout
    assert "but no shared verdict" in shown
    assert "The prompt sets differ (" in shown
    assert "The judges differ (baseline/lexical-v1 before, another after)" in shown
    assert "The centers differ (1400.0 before, 1000.0 after)" in shown


def test_compare_without_ratings_decides_nothing(pilot_record: Path, tmp_path: Path) -> None:
    """Where entrants never met in one record, no order is decided there, and all are lost."""
    before = with_battles(pilot_record, tmp_path / "before", won("ann", "bob", 45, 5))
    after = with_battles(
        pilot_record, tmp_path / "after", won("ann", "x", 3, 3) + won("bob", "y", 3, 3)
    )
    (found,) = json.loads(call("runs", "compare", before, after, "--json").stdout)["orders"]
    assert (found["lost"], found["kept"], found["gained"]) == ([["ann", "bob"]], [], [])


def test_compare_takes_battles_without_questions_for_different_evidence(
    pilot_record: Path, tmp_path: Path
) -> None:
    """Battles that name no question are each record's own: by hand the variances 1/24 and 1/25 of
    two log odds add up, times 200/199, where the same questions would have left far less.
    """
    records = [
        with_battles(pilot_record, tmp_path / name, won("ann", "bob", n, 100 - n), questions=False)
        for name, n in (("before", 60), ("after", 50))
    ]
    ann, _ = json.loads(call("runs", "compare", *records, "--json").stdout)["deltas"]
    half = 1.9842 * 400 / log(10) / 2 * sqrt((1 / 24 + 1 / 25) * 200 / 199)
    assert ann["high"] - ann["change"] == pytest.approx(half, abs=0.05)


SAFE_TAGS = {"div", "b", "small", "table", "thead", "tbody", "tr", "th", "td"}


def test_frames(pilot_record: Path, tmp_path: Path) -> None:
    """Frames have the rows of the record's files; figures and what is not there are named."""
    run = open_run(pilot_record)
    assert run.manifest == json.loads((pilot_record / "manifest.json").read_text())
    assert run.battles["battle_id"].tolist() == [
        row["battle_id"] for row in jsonl(pilot_record / "battles.jsonl")
    ]
    assert len(run.verdicts) == sum(len(jsonl(f)) for f in pilot_record.glob("verdicts/*.jsonl"))
    assert len(run.judgments) * 2 == len(run.verdicts)
    elo = json.loads((pilot_record / "elo_results.json").read_text())["primary"]
    assert {(r.dimension, r.model): r.rating for r in run.elo.itertuples()} == {
        (dimension, model): entry["mean"]
        for dimension, entries in elo.items()
        for model, entry in entries.items()
    }
    assert dict(run.bradley_terry.groupby("dimension")["model"].apply(list)) == {
        name: [row.model for row in run.board.rows(name)] for name in run.board.names
    }
    gate = json.loads((pilot_record / "judge_gate.json").read_text())
    assert len(run.gate) == len(gate["findings"])
    assert run.gate.attrs["sentence"] == gate["sentence"]
    with chdir(pilot_record.parents[1] / "notebooks"):
        run = open_run(f"runs/{pilot_record.name}")
        assert run.path.resolve() == pilot_record.resolve()
    run = open_run(pilot_record)
    assert run.figures == ["forest"]
    picture = run.figure("forest")
    (width,) = struct.unpack(">I", picture.data[16:20])
    assert picture.width == round(width / 1.6)
    with pytest.raises(DataError, match=r"no figure 'heatmap'; there: forest$"):
        run.figure("heatmap")
    with pytest.raises(DataError, match=r"record of pilot has no report\.html; it has: .*battles"):
        _ = run.report
    with pytest.raises(DataError, match="not a run record"):
        open_run(tmp_path)
    (tmp_path / "manifest.json").write_text('{"mode": "pilot"}')
    with pytest.raises(DataError, match=r"record of pilot has no board\.json"):
        _ = open_run(tmp_path).elo


def hostile_judgment() -> Judgment:
    first, second = sorted(HOSTILE[:2])
    pair = Pair(dimension=HOSTILE[2], prompt_id=HOSTILE[3], entrant_a=first, entrant_b=second)
    (judged,) = samples.settled((Slot.A, Slot.B))
    shown = judged.forward.presentation._replace(pair=pair, first=first, second=second)
    verdict = judged.forward._replace(presentation=shown, justification=HOSTILE[4])
    return judged._replace(pair=pair, winner=first, forward=verdict, backward=verdict)


def hostile_record(folder: Path) -> Record:
    record = Record.create(folder, "pilot")
    record.start("pilot", {})
    record.update(judge={"model": HOSTILE[0]}, judge_gate={"sentence": HOSTILE[1]})
    record.finish(error=HOSTILE[2])
    return record


BATTLES = [row for name in HOSTILE for row in won(name, "plain", 6, 5)]
SHOWN: dict[str, Callable[[Path], Any]] = {
    "log": lambda _: log_of(won(HOSTILE[0], HOSTILE[1], 2, 1)),
    "ratings": lambda _: replace(
        samples.rated_by_hand(dict(zip(HOSTILE, range(10), strict=True))), notes=(HOSTILE[0],)
    ),
    "Bradley–Terry": lambda _: BradleyTerry()(log_of(BATTLES)),
    "leaderboard": lambda _: ak.leaderboard(
        samples.votes_on(*((a, b, w[-1], "q1") for a, b, w in BATTLES))
    ),
    "judgment": lambda _: hostile_judgment(),
    "record": hostile_record,
    "opened": lambda folder: open_run(hostile_record(folder).path),
}


@pytest.mark.parametrize("name", SHOWN)
def test_hostile_names_are_text(name: str, tmp_path: Path) -> None:
    """The table of an object has no element but a table's own and no attribute but its style."""
    html = SHOWN[name](tmp_path)._repr_html_()
    found = samples.Elements(html)
    assert found.tags <= SAFE_TAGS
    assert {attribute for attribute, _ in found.attributes} <= {"style"}
    assert "url(" not in "".join(value for _, value in found.attributes)
    assert "&lt;script&gt;" in html


def test_a_log_shows_its_first_battles() -> None:
    """Of 30 battles five are shown and 25 are counted."""
    html = log_of(won("ash", "beech", 20, 10))._repr_html_()
    assert html.count("<tr>") == 1 + 5
    assert "30 battles of 2 models" in html
    assert "and 25 more" in html
    assert "a[U+202E]b" in samples.rated_by_hand({"a\u202eb": 1.0, "c": 0.0})._repr_html_()
