"""`arena-kit runs` and `arena-kit site`: records by name, listed, opened, compared and pruned."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from filelock import FileLock

from arena_kit.cli.main import main


def invoke(*words: object, code: int = 0) -> Result:
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == code, (done.stdout, done.stderr)
    return done


def manifest(root: Path, name: str, *, days: float = 0, **values: Any) -> Path:
    """A record that is nothing but its manifest."""
    began = (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="seconds")
    record = root / "runs" / name
    record.mkdir(parents=True)
    facts = {"mode": "pilot", "status": "finished", "started_at": began} | values
    (record / "manifest.json").write_text(json.dumps(facts))
    return record


def names(root: Path) -> set[str]:
    return {path.parent.name for path in root.glob("runs/*/manifest.json")}


@pytest.fixture
def two(workspace: Path, recorded: Path) -> Path:
    """A workspace with two real records."""
    for name in ("one", "two"):
        shutil.copytree(recorded / "runs" / name, workspace / "runs" / name)
    return workspace


def test_a_list_says_what_each_run_found(two: Path) -> None:
    """Every record is listed with its facts and answer, and known by its folder or name."""
    (two / "runs" / "broken").mkdir()
    (two / "runs" / "broken" / "manifest.json").write_text("[]")
    manifest(two, "failed", status="failed", error="DataError: no \x1b[31mprompt")
    found = {row["id"]: row for row in json.loads(invoke("runs", "list", "--json").stdout)}
    assert set(found) == {"one", "two", "broken", "failed"}
    box = json.loads((two / "runs" / "one" / "answer.json").read_text())
    assert found["one"]["answer"] == [box["gate"], *box["answer"]]
    assert found["one"]["cautions"] == box["caveats"]
    assert (found["one"]["mode"], found["one"]["usd"]) == ("pilot", 0.0)
    assert "expected a JSON object" in found["broken"]["why_not"]
    table = invoke("runs", "list").stdout
    assert "baseline/lexical-v1" in table
    assert "\x1b" not in table
    assert all(name in table for name in found)
    assert (
        invoke("runs", "show", "one").stdout == invoke("runs", "show", two / "runs" / "one").stdout
    )
    by_path = invoke("runs", "compare", two / "runs" / "one", two / "runs" / "two", "--json").stdout
    assert invoke("runs", "compare", "one", "two", "--json").stdout == by_path
    assert "not a run record" in invoke("runs", "show", "three", code=2).stderr


def test_open_needs_a_display(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The path of the report is printed, and a browser is asked for only with a display."""
    report = manifest(workspace, "one") / "report.html"
    assert "has no report.html (status finished)" in invoke("runs", "open", "one", code=2).stderr
    report.write_text("x")
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/opened\n')
    browser.chmod(0o755)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert invoke("runs", "open", "one").stdout == f"{report.resolve()}\n"
    assert not (tmp_path / "opened").exists()
    done = subprocess.run(
        [sys.executable, "-m", "arena_kit", "runs", "open", "one"], capture_output=True, text=True,
        env=os.environ | {"DISPLAY": ":99", "BROWSER": str(browser)}, check=True,
    )  # fmt: skip
    assert done.stdout == f"{report.resolve()}\n"
    assert (tmp_path / "opened").read_text() == f"{report.resolve().as_uri()}\n"


def test_prune_asks_first(workspace: Path) -> None:
    """Without --yes nothing is removed; with it, what was listed is, and nothing else."""
    for name, days, status in (
        ("old", 40, "finished"),
        ("new", 1, "finished"),
        ("bad", 1, "failed"),
    ):
        manifest(workspace, name, days=days, status=status)
    (workspace / "runs" / "notes").mkdir()
    assert "name the records" in invoke("runs", "prune", code=2).stderr
    assert "12h, 30d, 8w" in invoke("runs", "prune", "--older-than", "soon", code=2).stderr
    dry = invoke("runs", "prune", "--older-than", "30d").stdout
    assert "would remove" in dry
    assert "1 record, " in dry
    assert names(workspace) == {"old", "new", "bad"}
    for words, left in (
        (("--older-than", "30d"), {"new", "bad"}),
        (("--older-than", "30d", "--status", "failed"), {"new", "bad"}),
        (("--status", "failed"), {"new"}),
    ):
        invoke("runs", "prune", *words, "--yes")
        assert names(workspace) == left
    assert (workspace / "runs" / "notes").is_dir()


def test_prune_keeps_what_others_refer_to(workspace: Path) -> None:
    """A record stays that one which stays was made from, directly or through another."""
    manifest(workspace, "source", days=40)
    manifest(workspace, "middle", days=40, parameters={"replay_from": "runs/source"})
    here = str(workspace / "runs" / "middle" / "battles.jsonl")
    manifest(workspace, "new", parameters={"judged": here})
    manifest(workspace, "named", days=40)
    (workspace / "params" / "mine.yaml").write_text("earlier: runs/named/leaderboard.json\n")
    manifest(workspace, "forgotten", days=40)
    manifest(workspace, "gone", days=40, parameters={"tournament": "runs/forgotten"})
    told = invoke("runs", "prune", "--older-than", "4w", "--yes").stdout
    assert names(workspace) == {"source", "middle", "new", "named"}
    assert "kept: middle: new refers to it" in told
    assert "kept: source: middle refers to it" in told
    assert "kept: named: mine.yaml refers to it" in told


def test_prune_keeps_what_runs_and_what_is_elsewhere(workspace: Path, tmp_path: Path) -> None:
    """A record that a process holds stays, and so does what a link in runs/ leads to."""
    record = manifest(workspace, "going", days=40, status="running")
    cut_off = manifest(workspace, "cut_off", days=40, status="running")
    (cut_off / ".lock").touch()
    manifest(workspace, "unfit", days=40, status="running", judge_gate={"level": "not usable"})
    elsewhere = manifest(tmp_path / "elsewhere", "linked", days=40, status="running")
    (workspace / "runs" / "linked").symlink_to(elsewhere)
    with FileLock(record / ".lock"):
        told = invoke("runs", "prune", "--status", "running", "--yes").stdout
    assert "kept: going: it is still running" in told
    assert "kept: unfit: it found its judge not usable" in told
    assert names(workspace) == {"going", "linked", "unfit"}
    assert elsewhere.is_dir()


def test_odd_manifests_and_links_are_a_sentence(two: Path) -> None:
    """Whatever a manifest holds, commands say so; a linked lock stops no pruning."""
    odd = two / "runs" / "one" / "manifest.json"
    values = json.loads(odd.read_text())
    for name in ("judge", "rating", "prompt_set", "inputs"):
        odd.write_text(json.dumps(values | {name: [3]}))
        for words in (("show", "one"), ("compare", "one", "two"), ("compare", "two", "one"),
                      ("export", "one", "--to", "every-eval-ever", "--out", "x")):  # fmt: skip
            done = CliRunner().invoke(main, ["runs", *words])
            assert done.exit_code in (0, 2), (name, words, done.exception)
    odd.write_text(json.dumps(values))
    (two / "runs" / "one" / ".lock").unlink(missing_ok=True)
    (two / "runs" / "one" / ".lock").symlink_to(two / "params" / "pilot.yaml")
    assert "would remove: " in invoke("runs", "prune", "--status", "finished").stdout


def test_the_site_of_all_records_or_some(two: Path) -> None:
    """Without names all records are shown, with names those; the last line is the first page."""
    done = invoke("site", "--out", "site")
    assert done.stdout.splitlines()[-1] == "site/index.html"
    assert (two / "site" / "one" / "battles.html").is_file()
    row = json.loads((two / "runs/two/battles.jsonl").read_text().splitlines()[0])
    (two / "votes.jsonl").write_text(json.dumps(row | {"source": "human", "judge_model": None}))
    invoke("site", "two", "--people", "votes.jsonl", "--out", "site")
    assert not (two / "site" / "one").exists()
    assert "People's votes: " in (two / "site" / "two" / "data" / "battles.js").read_text()
    (two / "empty").mkdir()
    for words, why in (
        (("three", "--out", "site"), "not a run record"),
        (("--out", "params"), "holds files of its own"),
        (("--runs-dir", "empty", "--out", "other"), "arena-kit run pilot"),
    ):
        assert why in invoke("site", *words, code=2).stderr
    assert not (two / "other").exists()
