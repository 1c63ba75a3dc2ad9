"""From responses to votes to reports by commands: ballots out, files in, one store for all."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from arena_kit import read_battles
from arena_kit.battles.read import LeftOutWarning
from arena_kit.cli.main import main
from arena_kit.voting.store import VoteStore
from tests.samples import copy_workspace
from tests.voting.serving import filled, leaks, page_data

STORE = ".arena_kit/votes.sqlite"
MODELS = ("aspen", "birch", "cedar", "dogwood")


def command(*words: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == code, result.output
    return result


def answered(ballot: Path, voter: str) -> Path:
    """A ballot filled in by somebody who prefers the longer text, and skips the first pair."""
    html = ballot.read_text()
    pairs = page_data(html)[0]["pairs"]
    longer = ["A" if len(pair["left"]) >= len(pair["right"]) else "B" for pair in pairs]
    file = filled(html, voter=voter, copy=f"copy-{voter}", choices=" ".join(["SKIP", *longer[1:]]))
    path = ballot.with_name(f"votes-{voter}.json")
    path.write_text(json.dumps(file))
    return path


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The sample with five ballots of 40 pairs, four of them returned."""
    root = copy_workspace(tmp_path_factory.mktemp("votes") / "workspace")
    with chdir(root):
        command("votes", "ballot", "--ballots", "5", "--pairs", "40", "--out", "ballots")
        files = [answered(root / "ballots" / f"ballot-{n}.html", f"v{n}") for n in range(1, 5)]
        command("votes", "add", *map(str, files))
        yield root


def test_ballots_that_may_have_been_sent_stay(workspace: Path) -> None:
    """Five ballots of the sample name no model; further ones get further numbers, and a file that
    is there is not replaced.
    """
    pages = [(workspace / "ballots" / f"ballot-{n}.html").read_text() for n in range(1, 6)]
    assert not leaks("".join(pages), MODELS)
    made = command("votes", "ballot", "--pairs", "1", "--out", "ballots").output
    assert made.startswith("ballots/ballot-6.html\n")
    command("votes", "ballot", "--pairs", "1", "--out", "one.html")
    command("votes", "ballot", "--pairs", "1", "--out", "one.html", code=2)
    command("votes", "ballot", "--ballots", "2", "--out", "two.html", code=2)


def test_files_that_are_refused_do_not_hold_up_others(workspace: Path) -> None:
    """Of a good file and two bad ones the good one is stored, each bad one is named with its
    reason, and the exit code says that something was refused; again nothing is new, and everybody
    who voted is listed.
    """
    good = answered(workspace / "ballots" / "ballot-5.html", "Late")
    bad, empty = workspace / "bad.json", workspace / "empty.json"
    bad.write_text(good.read_text().replace('"A"', '"B"', 1))
    empty.write_text("")
    result = command("votes", "add", str(bad), str(good), str(empty), code=2)
    assert f"refused: {bad}: its votes do not fit its seal" in result.output
    assert f"{good}: 39 votes and 1 skipped of late\n" in result.output
    assert f"refused: {empty}:1: not valid JSON" in result.output
    assert "(0 new)" in command("votes", "add", str(good)).output
    rows = json.loads(command("votes", "list", "--json").output)
    assert [row["voter"] for row in rows] == ["v1", "v2", "v3", "v4", "late"]
    assert {(row["votes"], row["skips"]) for row in rows} == {(39, 1)}
    assert "late" in command("votes", "list").output


def test_the_store_is_read_as_its_export(workspace: Path) -> None:
    """Whatever reads battles (judge reports, placements, ratings) reads a store as it reads its
    export, cell by cell, and leaves out the same: skips, and voters who were removed.
    """
    with VoteStore.open(STORE) as store:
        store.remove("voter", ["v1"], why="a test", by="tests")
    said = command("votes", "export", "--out", "votes.jsonl").output
    assert "left out: " in said
    assert said.endswith("votes.jsonl\n")
    with pytest.warns(LeftOutWarning, match="40 votes that were removed"):
        ours = read_battles(STORE)
    theirs = read_battles("votes.jsonl")
    assert ours.columns().keys() == theirs.columns().keys()
    for name, column in theirs.columns().items():
        np.testing.assert_array_equal(ours.columns()[name], column)
    assert "v1" not in set(ours.columns()["voter"])
    with VoteStore.open(STORE) as store:
        store.restore("voter", ["v1"], why="a test", by="tests")
    with pytest.warns(LeftOutWarning, match="skipped pairs"):
        assert len(read_battles(STORE)) == len(ours) + 39


def test_votes_may_be_about_a_dimension(workspace: Path) -> None:
    """A store that begun with a dimension keeps it: later commands need not name it, another one
    is refused, and so is one that the tournament does not have.
    """
    own = ["--store", "factual.sqlite", "--pairs", "2"]
    command("votes", "ballot", *own, "--out", "f1.html", "--dimension", "factuality")
    command("votes", "ballot", *own, "--out", "f2.html")
    command("votes", "add", "--store", "factual.sqlite", str(answered(Path("f2.html"), "v1")))
    with pytest.warns(LeftOutWarning):
        assert set(read_battles("factual.sqlite").columns()["dimension"]) == {"factuality"}
    other = command(
        "votes", "ballot", *own, "--out", "f3.html", "--dimension", "calibration", code=2
    )
    assert "the store holds votes of 'clinical-sample' on 'factuality'" in other.output
    unknown = command("votes", "ballot", *own, "--out", "f3.html", "--dimension", "wit", code=2)
    assert "--dimension 'wit' is none of params/tournament.yaml: factuality" in unknown.output
    assert not Path("f3.html").exists()


def test_the_extra_is_named(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a store a command ends with 2, without the extra's packages it says what to
    install.
    """
    command("votes", "list", "--store", "none.sqlite", code=2)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    for words in (["ballot", "--out", "x.html"], ["serve"], ["list"]):
        assert "pip install 'arena-kit[vote]'" in command("votes", *words, code=2).output
