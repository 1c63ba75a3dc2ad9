"""`rate` on files, folders, records and patterns; and the commands that need no notebook."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arena_kit import (
    Board,
    BradleyTerry,
    Columns,
    PermutationElo,
    rate,
    read_battles,
    write_battles,
)
from arena_kit.battles import on_disk
from arena_kit.cli import rate as command
from arena_kit.cli.imports import HowToRead
from arena_kit.cli.rate import METHODS, method_class
from arena_kit.cli.records import show_board
from arena_kit.runs.settings.files import validated
from tests.samples import ROOT, asked, call, log_of, won

BATTLES = """\
{"model_a": "x", "model_b": "y", "winner": "model_a", "question_id": "1"}
{"model_a": "y", "model_b": "x", "winner": "model_b", "question_id": "2"}
{"model_a": "x", "model_b": "y", "winner": "tie", "question_id": "3"}
"""
HOW = HowToRead(format=None, columns=Columns())


def rated(*words: str | Path) -> dict[str, Any]:
    done = call("rate", *words, "--json")
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture
def battles(tmp_path: Path) -> Path:
    path = tmp_path / "battles.jsonl"
    path.write_text(BATTLES)
    return path


@pytest.fixture
def led(tmp_path: Path) -> Path:
    """Battles that ann leads by far, and that leave bob and cy even."""
    votes = won("ann", "bob", 45, 5) + won("bob", "cy", 26, 24) + won("ann", "cy", 44, 6)
    write_battles(tmp_path / "led.jsonl", log_of(votes))
    return tmp_path / "led.jsonl"


def test_a_board_in_the_terminal_loads_no_heavy_package(led: Path) -> None:
    """Matplotlib, pandas or SciPy would take longer to import than the rest of `rate`."""
    words = (sys.executable, "-X", "importtime", "-m", "arena_kit", "rate", str(led))
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=led.parent)
    assert not re.findall(r"\b(?:matplotlib|pandas|scipy)\b", done.stderr)


def test_rate_json(battles: Path, tmp_path: Path) -> None:
    """`rate --json` prints a board, best first; `--set` changes settings, typed."""
    found = rated(battles, "--method", "elo")
    assert {"method", "settings", "ratings", "n_battles", "dropped", "version"} <= {*found}
    assert found["method"] == "permutation-elo"
    assert [row["model"] for row in found["ratings"]] == ["x", "y"]
    assert {"model", "rating", "ci_low", "ci_high", "n_battles"} <= {*found["ratings"][0]}
    assert found["n_battles"] == 2
    assert found["dropped"] == {"both_bad": 0, "inconsistent": 0, "tie": 1}
    (tmp_path / "printed.json").write_text(json.dumps(found))
    assert Board.read(tmp_path / "printed.json").as_dict() == found
    found = rated(battles, "--method", "elo", "--set", "k=32", "--set", "ties=half")
    assert (found["settings"]["k"], found["n_battles"]) == (32.0, 3)
    named = rated(battles, "--set", "center_on=x, y", "--set", "cluster=battle")
    assert named["settings"]["center_on"] == ["x", "y"]


def test_a_record_is_rated_as_it_was(pilot_record: Path, tmp_path: Path) -> None:
    """Rating a record again gives its board, byte for byte."""
    board = Board.read(pilot_record)
    found = rated(pilot_record)
    plain = [{k: v for k, v in row.items() if k != "beside"} for row in board.as_dict()["ratings"]]
    by_model = {(row["dimension"], row["model"]): row for row in found["ratings"]}
    assert by_model == {(row["dimension"], row["model"]): row for row in plain}
    for dimension in found["dimensions"]:
        same = board[dimension["name"]].model_dump(mode="json", exclude_unset=True)
        assert dimension == {k: same[k] for k in dimension} | {"notes": dimension["notes"]}
        orders = [pair for pair in dimension["orders"] if pair["more"] is not None]
        assert all(0 <= pair["prompts"] <= pair["more"] for pair in orders)
    elo = {(row.dimension, row.model): row.beside["elo"].rating for row in board.ratings}
    again = rated(pilot_record, "--method", "elo")["ratings"]
    assert {(row["dimension"], row["model"]): row["rating"] for row in again} == elo
    moved = rated(pilot_record, "--set", "center=1000")["ratings"][0]
    assert moved["rating"] == pytest.approx(found["ratings"][0]["rating"] - 400)
    for name in ("battles.jsonl", "board.json"):
        shutil.copy(pilot_record / name, tmp_path / name)
    done = call("rate", tmp_path, "--json")
    assert json.loads(done.stdout) == found
    assert "settings of the run record" in done.stderr


def test_records_of_different_protocols_are_joined_with_a_warning(
    led: Path, tmp_path: Path
) -> None:
    """Records of one protocol are joined in silence, of two with one sentence that names both."""
    for name, protocol in (("one", "a" * 64), ("two", "b" * 64)):
        (tmp_path / name).mkdir()
        shutil.copy(led, tmp_path / name / "battles.jsonl")
        board = rate(read_battles(led)).model_copy(update={"protocol": {"sha256": protocol}})
        board.write(tmp_path / name / "board.json")
    one, two = tmp_path / "one", tmp_path / "two"
    said = f"different protocols ({'a' * 12}, {'b' * 12}): their joint board is exploratory"
    assert [said in note for note in rated(one, "--also", two)["notes"]] == [True]
    assert rated(one, "--also", one).get("notes", []) == []


def test_the_board_of_a_run_in_the_terminal(
    pilot_record: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`runs show` prints every row of the board, each open order with the battles it rests on."""
    show_board(pilot_record)
    shown = capsys.readouterr().out
    board = Board.read(pilot_record)
    for row in board.ratings:
        elo = row.beside["elo"]
        assert re.search(rf"{row.model} +{row.rating:.0f} ", shown)
        assert f"{elo.rating:.0f} ± {elo.order_sem:.1f}" in shown
    for each in (o for dimension in board.dimensions for o in dimension.orders):
        rests = rf"{each.removed or '–'} +{each.added or '–'} "
        cells = re.search(rf"{each.name} +{each.gap:.0f} +{rests}", shown)
        assert bool(cells) == (each.state == "unresolved")
    answer = json.loads((pilot_record / "answer.json").read_text())
    assert shown.endswith("\n".join(answer["said"]) + "\n")


def test_rate_says_what_is_decided(led: Path) -> None:
    """Nine of ten is first; 31 and 30 of 100 are open, or equivalent within 500 points."""
    found = rated(led)
    assert found == rated(led, "--method", "bradley-terry")
    (claims,) = found["dimensions"]
    assert (claims["first"], claims["tiers"]) == (["ann"], [["ann"], ["bob", "cy"]])
    assert claims["decided"] == {"ann": ["bob", "cy"], "bob": [], "cy": []}
    assert [each["state"] for each in claims["orders"]] == ["decided", "unresolved"]
    assert [claims["orders"][1][name] for name in ("above", "below", "removed", "added")] == [
        "bob", "cy", 2, 2
    ]  # fmt: skip
    assert [row["ranks"] for row in found["ratings"]] == [[1, 1], [2, 3], [2, 3]]
    assert (claims["about"], claims["fragility"]["of"]) == ("similar_prompts", 150)
    table = call("rate", led).stdout
    assert all(sentence in table for sentence in claims["sentences"])
    assert re.search(r"bob over cy +\d+ +2 +2 +[\d,]+\n", table)
    assert not re.search("^ann over bob", table, re.MULTILINE)
    assert "Results generalise to similar prompts" in table
    by_battle = rated(led, "--set", "cluster=battle")["dimensions"][0]
    assert by_battle["about"] == "these_prompts"
    (found,) = rated(led, "--margin", "500")["dimensions"]
    assert [each["state"] for each in found["orders"]] == ["decided", "equivalent"]
    assert found["margin"] == 500
    settings = ("k=1", "n_perms=20", "evidence_replicates=50")
    words = (led, "--method", "elo", *(w for each in settings for w in ("--set", each)))
    (note,) = rated(*words)["dimensions"][0]["notes"]
    assert "at K 1" in note
    assert note in call("rate", *words).stdout


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--set", "kk=3"], "--set: unknown key 'kk'; allowed: k, initial, scale, n_perms"),
        (["--set", "k"], "--set 'k': expected KEY=VALUE"),
        (["--set", "k=inf"], "--set: k: Input should be a finite number, got 'inf'"),
        (["--set", "ties=win"], "--set: ties: Input should be 'drop' or 'half', got 'win'"),
        (["--set", "n_perms=0"], "n_perms must be 1 to 1,000,000, not 0"),
        (["--dimension", "taste"], "battles.jsonl: no dimension 'taste'; found: none"),
        (["--judge-model", "ann"], "--judge-model: only with --verdicts"),
        (["--margin", "5"], "--margin needs --method bradley-terry"),
    ],
)
def test_rate_usage(battles: Path, words: list[str], why: str) -> None:
    """Wrong settings end with exit 2 and a sentence that says what is known."""
    done = call("rate", battles, "--method", "elo", *words)
    assert (done.exit_code, why in done.stderr) == (2, True), done.stderr


def test_rate_keeps_going(battles: Path) -> None:
    """A dimension without a rating is named; the others are rated all the same."""
    rows = [json.loads(line) | {"dimension": "taste"} for line in BATTLES.splitlines()]
    rows.append({"model_a": "x", "model_b": "y", "winner": "tie", "dimension": "smell"})
    battles.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = rated(battles, "--method", "elo")
    assert {row["dimension"] for row in found["ratings"]} == {"taste"}
    (smell,) = (each for each in found["dimensions"] if each["name"] == "smell")
    assert "all were dropped" in smell["unrated"]
    assert "smell is not rated: " in call("rate", battles, "--method", "elo").stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log in two Parquet files of a folder, and whole beside it."""
    log, votes = asked(600, models=4), tmp_path / "votes"
    votes.mkdir()
    write_battles(votes / "may.parquet", log.select(np.arange(250)))
    write_battles(votes / "june.parquet", log.select(np.arange(250, 600)))
    write_battles(tmp_path / "all.parquet", log)
    return votes


def test_a_folder_and_a_pattern_are_rated_like_one_file(folder: Path) -> None:
    """The ratings, the claims and the counts are those of the file that holds all battles."""
    whole = folder.parent / "all.parquet"
    expected = rated(whole)
    for words in ((folder,), (folder / "*.parquet",), (whole, "--stream")):
        found = rated(*words)
        assert found["n_battles"] == expected["n_battles"]
        assert found["dropped"] == expected["dropped"]
        assert found["dimensions"][0]["tiers"] == expected["dimensions"][0]["tiers"]
        for mine, theirs in zip(found["ratings"], expected["ratings"], strict=True):
            assert mine["model"] == theirs["model"]
            assert mine["rating"] == pytest.approx(theirs["rating"], abs=1e-7)
            assert mine["ci_low"] == pytest.approx(theirs["ci_low"], abs=1e-7)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--method", "elo"), "need --method bradley-terry"),
        (("--also", "x.csv"), "--also, --by and --panel hold all battles"),
        (("--dimension", "tone"), "no dimension 'tone'; found: none"),
        (("--set", "covariates=length"), "covariates are not streamed"),
    ],
)
def test_what_cannot_be_streamed_is_refused(folder: Path, words: tuple[str, ...], why: str) -> None:
    """One sentence, and exit code 2."""
    refused = call("rate", folder, *words)
    assert (refused.exit_code, why in refused.stderr) == (2, True), refused.stderr


def test_large_files_are_streamed_by_themselves(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From so many rows on, unless the method or --no-stream says otherwise."""
    is_streamed = command._streams
    file, method = folder.parent / "all.parquet", BradleyTerry()
    assert not is_streamed(method, file, HOW, None, alone=True)
    monkeypatch.setattr(on_disk, "STREAM_FROM", 600)
    monkeypatch.setattr(command, "_SMALL", 0)
    assert is_streamed(method, file, HOW, None, alone=True)
    assert not is_streamed(method, file, HOW, False, alone=True)
    assert not is_streamed(PermutationElo(), file, HOW, None, alone=True)
    assert not is_streamed(method, file, HOW, None, alone=False)
    assert is_streamed(method, folder, HOW, None, alone=True)
    soft, log = folder.parent / "soft.parquet", asked(600, models=4)
    write_battles(soft, replace(log, share_a=np.full(len(log), 0.5)))
    assert not is_streamed(method, soft, HOW, None, alone=True)


def test_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside a workspace, `run` says how to make one, and `init` makes it."""
    monkeypatch.chdir(tmp_path)
    lost = call("run", "pilot")
    assert (lost.exit_code, "arena-kit init" in lost.stderr) == (2, True)
    new = tmp_path / "new"
    assert call("init", new).exit_code == 0
    assert (new / "params" / "tournament.yaml").is_file()
    texts = [each.read_text() for each in (new / "notebooks").glob("*.ipynb")]
    named = {page for text in texts for page in re.findall(r"docs/[\w-]+\.md", text)}
    assert named
    assert [page for page in named if not (new / page).is_file()] == []
    assert not [*(new / "docs").glob("*.py")]
    again = call("init", new)
    assert (again.exit_code, "not an empty folder" in again.stderr) == (2, True)


def test_run_help_lists_every_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run --help` names every notebook with its question: those shipped, outside a workspace."""
    monkeypatch.chdir(tmp_path)
    shown = call("run", "--help").stdout
    for file in (ROOT / "notebooks").glob("*.ipynb"):
        question = json.loads(file.read_text())["metadata"]["title"].split(": ")[1]
        assert re.search(rf"\n  {file.stem} +{re.escape(question[:40])}", shown)
    for part in ("params", "notebooks"):
        (tmp_path / part).mkdir()
    (tmp_path / "params" / "tournament.yaml").touch()
    (tmp_path / "notebooks" / "mine.ipynb").write_text('{"metadata": {"title": "Mine: is it?"}}')
    (tmp_path / "notebooks" / "torn.ipynb").write_text("{")
    own = call("run", "--help").stdout.partition("Notebooks:")[2].split("\n")
    assert [line.split(maxsplit=1) for line in own if line] == [
        ["mine", "is it?"],
        ["torn", "without a title"],
    ]


def test_rate_help_lists_every_setting() -> None:
    """`rate --help` has every key of every method with its default, as `--set` takes it."""
    shown = call("rate", "--help").stdout
    assert "votes that a model needs to count; default: 10" in shown
    for name in METHODS:
        method = method_class(name)
        part = shown.partition(f"Settings of {name} (--set KEY=VALUE):")[2].partition("Settings")[0]
        keys = re.findall(r"^  (\w+) .*default: (\S+)", part, re.MULTILINE)
        assert [key for key, _ in keys] == [field.name for field in fields(method)]
        given = {key: text for key, text in keys if text != "none"}
        assert validated(method, given, "help") == method()
