"""The command line without notebooks: rate, init, help."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import chdir
from dataclasses import fields
from math import log, sqrt
from pathlib import Path

import pytest

from arena_kit import __version__
from arena_kit.battles.battle import Battle, Outcome
from arena_kit.battles.log import BattleLog
from arena_kit.battles.write import write_battles
from arena_kit.cli.board import show_board
from arena_kit.cli.rate import METHODS
from arena_kit.runs.record.record import open_record
from arena_kit.runs.settings.files import validated
from tests.samples import ROOT, SMALL, call, copy_workspace, log_of, record_of, won

BATTLES = """\
{"model_a": "x", "model_b": "y", "winner": "model_a", "question_id": "1"}
{"model_a": "y", "model_b": "x", "winner": "model_b", "question_id": "2"}
{"model_a": "x", "model_b": "y", "winner": "tie", "question_id": "3"}
"""


@pytest.fixture
def battles(tmp_path: Path) -> Path:
    path = tmp_path / "battles.jsonl"
    path.write_text(BATTLES)
    return path


@pytest.fixture(scope="module")
def pilot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record of a small pilot run."""
    root = copy_workspace(tmp_path_factory.mktemp("rate") / "workspace")
    with chdir(root), pytest.MonkeyPatch.context() as patch:
        patch.delenv("ARENA_KIT_RUNS", raising=False)
        patch.delenv("ARENA_KIT_RUN_TOKEN", raising=False)
        return record_of("pilot", **SMALL).path


def test_rate_json(battles: Path) -> None:
    """`rate --json` prints the documented keys, best first, with what was dropped."""
    found = json.loads(call("rate", battles, "--method", "elo", "--json").stdout)
    assert set(found) == {"method", "settings", "ratings", "n_battles", "dropped"}
    assert found["method"] == "permutation-elo"
    assert [row["model"] for row in found["ratings"]] == ["x", "y"]
    assert {"model", "rating", "ci_low", "ci_high", "n_battles"} <= set(found["ratings"][0])
    assert found["n_battles"] == 2
    assert found["dropped"] == {"both_bad": 0, "inconsistent": 0, "tie": 1}


def test_rate_is_by_bradley_terry(led: Path, pilot: Path) -> None:
    """Without a method a file is rated by Bradley–Terry, which carries claims, and so is a record;
    `--method elo` gives the record's Elo, with its settings.
    """
    named = json.loads(call("rate", led, "--method", "bradley-terry", "--json").stdout)
    assert json.loads(call("rate", led, "--json").stdout) == named
    report = json.loads((pilot / "bradley_terry.json").read_text())
    found = json.loads(call("rate", pilot, "--json").stdout)
    assert found["method"] == "bradley-terry"
    for row in found["ratings"]:
        (same,) = (r for r in report[row["dimension"]]["ratings"] if r["model"] == row["model"])
        assert row == {"dimension": row["dimension"]} | same
    primary = json.loads((pilot / "elo_results.json").read_text())["primary"]
    for row in json.loads(call("rate", pilot, "--method", "elo", "--json").stdout)["ratings"]:
        assert row["rating"] == primary[row["dimension"]][row["model"]]["mean"]


@pytest.fixture
def led(tmp_path: Path) -> Path:
    """Battles that ann leads by far, and that leave bob and cy even."""
    votes = won("ann", "bob", 45, 5) + won("bob", "cy", 26, 24) + won("ann", "cy", 44, 6)
    write_battles(tmp_path / "led.jsonl", log_of(votes))
    return tmp_path / "led.jsonl"


def test_rate_says_what_is_decided(led: Path) -> None:
    """By Bradley–Terry `rate --json` has what may be said about the order: a model that wins nine
    of ten is first, two that win 26 and 24 are open; the table has the sentences under it.
    """
    found = json.loads(call("rate", led, "--method", "bradley-terry", "--json").stdout)["claims"]
    assert (found["first"], found["tiers"]) == (["ann"], [["ann"], ["bob", "cy"]])
    assert [each["state"] for each in found["neighbours"]] == ["decided", "open"]
    assert found["ranks_at_once"] == {"ann": [1, 1], "bob": [2, 3], "cy": [2, 3]}
    assert found["about"] == "prompts_like_these"
    assert found["fragility"]["above"] == "ann"
    assert found["fragility"]["of"] == 150
    table = call("rate", led, "--method", "bradley-terry").stdout
    assert "First: ann, decided." in table
    assert all(sentence in table for sentence in found["sentences"])
    assert "Claims are about prompts like these" in table
    words = ("--method", "bradley-terry", "--set", "cluster=battle")
    assert "Claims are about these prompts;" in call("rate", led, *words).stdout


def test_rate_says_how_few_votes_the_first_place_rests_on(tmp_path: Path) -> None:
    """Of two models with 12 to 8, taking out five wins of the first leaves 7 to 8, and adding five
    of the second 12 to 13: then the second is above. Davidson's ties leave that unasked.
    """
    write_battles(tmp_path / "votes.jsonl", log_of(won("ann", "bob", 12, 8)))
    words = ("rate", tmp_path / "votes.jsonl", "--method", "bradley-terry", "--json")
    assert json.loads(call(*words).stdout)["claims"]["fragility"] == {
        "above": "ann", "below": "bob", "removed": 5, "added": 5, "between": 20, "of": 20,
        "sentence": "5 battles removed or 5 added would put bob above ann, 25% of the 20 between "
        "the two.",
    }  # fmt: skip
    assert "5 battles removed or 5 added would put bob above ann" in call(*words[:-1]).stdout
    write_battles(tmp_path / "votes.jsonl", log_of(won("ann", "bob", 12, 8, 4)))
    davidson = json.loads(call(*words, "--set", "ties=davidson").stdout)["claims"]
    assert davidson["fragility"] is None


def test_rate_says_what_open_orders_rest_on_and_need(led: Path) -> None:
    """Bob won 31 of 100 battles and cy 30: one more win of cy over bob makes them even and two turn
    them round, as two wins of bob less do. The decided order is not listed.
    """
    words = ("rate", led, "--method", "bradley-terry")
    found = json.loads(call(*words, "--json").stdout)
    waiting = found["claims"]["neighbours"][1]
    assert (waiting["above"], waiting["below"], waiting["state"]) == ("bob", "cy", "open")
    assert (waiting["removed"], waiting["added"]) == (2, 2)
    table = call(*words).stdout
    assert re.search(r"bob over cy +│ +\d+ │ +2 │ +2 │ +[\d,]+ │", table)
    assert "ann over bob" not in table


def test_rate_counts_judge_calls_of_a_record(pilot: Path) -> None:
    """A record's battles are pairs that a judge saw in both orders, so each is two calls, and more
    where some pairs gave no battle.
    """
    words = ("rate", pilot, "--method", "bradley-terry", "--json")
    for said in json.loads(call(*words).stdout)["claims"].values():
        for pair in said["neighbours"]:
            assert pair["more"] is None or pair["calls"] >= 2 * pair["more"]


def test_the_board_of_a_run_says_how_fragile_and_how_far(
    pilot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the end of a run a table says of every open order what bradley_terry.json has: how few
    battles it rests on and how many judge calls it needs; and on which dimensions Elo's intervals
    hold too seldom. A record from before, which has none of it, is shown all the same.
    """
    show_board(pilot)
    told = capsys.readouterr().out
    claimed = json.loads((pilot / "bradley_terry.json").read_text())
    notes = json.loads((pilot / "elo_results.json").read_text())["notes"]
    assert notes, "a few prompts at K 16 leave Elo on its way"
    assert f"hold the truth too seldom on {', '.join(notes)};" in told
    waiting = [
        pair
        for dimension in json.loads((pilot / "manifest.json").read_text())["dimensions"]
        for pair in claimed[dimension]["claims"]["neighbours"]
        if pair["state"] == "open"
    ]
    lines = [re.findall(r"[^│\s]+(?: [^│\s]+)*", line) for line in told.splitlines()]
    rows = [line for line in lines if any(" over " in cell for cell in line)]
    assert [next(cell for cell in row if " over " in cell) for row in rows] == [
        f"{pair['above']} over {pair['below']}" for pair in waiting
    ]
    assert [row[-3:-1] for row in rows] == [
        [str(pair[way] or "–") for way in ("removed", "added")] for pair in waiting
    ]
    old = tmp_path / "old"
    shutil.copytree(pilot, old)
    for each in claimed.values():
        del each["claims"]["fragility"]
        for pair in each["claims"]["neighbours"]:
            for name in ("calls", "removed", "added"):
                del pair[name]
    (old / "bradley_terry.json").write_text(json.dumps(claimed))
    show_board(old)
    assert "judge calls" not in capsys.readouterr().out


def test_a_margin_of_a_run_is_that_of_its_claims(tmp_path: Path) -> None:
    """The parameter `margin` is in the claims of the record: within 5,000 points all that is open
    is equivalent.
    """
    root = copy_workspace(tmp_path / "workspace")
    with chdir(root), pytest.MonkeyPatch.context() as patch:
        patch.delenv("ARENA_KIT_RUNS", raising=False)
        patch.delenv("ARENA_KIT_RUN_TOKEN", raising=False)
        record = record_of("pilot", **SMALL, margin=5000).path
    for each in json.loads((record / "bradley_terry.json").read_text()).values():
        assert each["claims"]["margin"] == 5000
        states = {pair["state"] for pair in each["claims"]["neighbours"]}
        assert states <= {"decided", "equivalent"}
    again = json.loads(call("rate", record, "--json").stdout)["claims"]
    assert {each["margin"] for each in again.values()} == {5000}, "rate has the record's margin"


def test_rate_names_equivalent_neighbours(led: Path) -> None:
    """With a margin of 500 points bob and cy, 14 apart, are equivalent; a margin is for
    Bradley–Terry alone.
    """
    words = ("rate", led, "--method", "bradley-terry", "--margin", "500")
    found = json.loads(call(*words, "--json").stdout)["claims"]
    assert [each["state"] for each in found["neighbours"]] == ["decided", "equivalent"]
    assert found["margin"] == 500
    assert "equivalent within 500 points: 1" in call(*words).stdout
    refused = call("rate", led, "--method", "elo", "--margin", "5")
    assert refused.exit_code == 2
    assert "--margin needs --method bradley-terry" in refused.stderr


def test_rate_says_where_elo_has_not_arrived(led: Path) -> None:
    """100 battles a model at K 1 leave Elo near its start; table and JSON say what that does to its
    intervals.
    """
    settings = ("k=1", "n_perms=20", "evidence_replicates=50")
    words = ("rate", led, "--method", "elo", *(w for each in settings for w in ("--set", each)))
    (note,) = json.loads(call(*words, "--json").stdout)["notes"]
    assert note.startswith("Elo's evidence intervals hold the truth in about ")
    assert "at K 1 so few battles take ratings only" in note
    assert note in call(*words).stdout


def test_other_methods_claim_no_order(led: Path) -> None:
    """Elo shrinks gaps and Glicko-2 follows time, so neither says what is decided."""
    for method in (("permutation-elo", "--set", "n_perms=20"), ("glicko2",)):
        words = ("--method", *method, "--set", "evidence_replicates=100")
        assert "claims" not in json.loads(call("rate", led, *words, "--json").stdout)
        assert "decided" not in call("rate", led, *words).stdout


def test_rate_settings(battles: Path) -> None:
    """`--set` changes settings of the method, typed."""
    words = ("--method", "elo", "--set", "k=32", "--set", "ties=half")
    found = json.loads(call("rate", battles, "--json", *words).stdout)
    assert found["settings"]["k"] == 32.0
    assert found["n_battles"] == 3


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--set", "kk=3"], "--set: unknown key 'kk'; allowed: k, initial, scale, n_perms"),
        (["--set", "k"], "--set 'k': expected KEY=VALUE"),
        (["--set", "k=many"], "--set: k: Input should be a valid number"),
        (["--set", "k=inf"], "--set: k: Input should be a finite number, got 'inf'"),
        (["--set", "shuffle=maybe"], "--set: shuffle: Input should be a valid boolean"),
        (["--set", "ties=win"], "--set: ties: Input should be 'drop' or 'half', got 'win'"),
        (["--set", "n_perms=0"], "n_perms must be 1 to 1,000,000, not 0"),
        (["--dimension", "taste"], "battles.jsonl: no dimension 'taste'; found: none"),
    ],
)
def test_rate_usage(battles: Path, words: list[str], why: str) -> None:
    """Wrong settings end with exit 2 and a sentence that says what is known."""
    done = call("rate", battles, "--method", "elo", *words)
    assert done.exit_code == 2
    assert why in done.stderr


def test_rate_names(battles: Path) -> None:
    """A setting that is several names takes them separated by commas."""
    words = ("--method", "bradley-terry", "--set", "center_on=x, y", "--set", "cluster=battle")
    done = json.loads(call("rate", battles, "--json", *words).stdout)
    assert done["settings"]["center_on"] == ["x", "y"]


def test_rate_a_folder(battles: Path) -> None:
    """A folder is rated by its battles.jsonl; one without is a sentence."""
    assert call("rate", battles.parent, "--json").stdout == call("rate", battles, "--json").stdout
    battles.unlink()
    done = call("rate", battles.parent)
    assert done.exit_code == 2
    assert "no battle file there" in done.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BATTLES + "oops\n", "battles.jsonl:4: not valid JSON"),
        (BATTLES.replace("tie", "draw"), "battles.jsonl:3: unknown winner 'draw'"),
        ("", "no battles to rate: there are none"),
    ],
)
def test_rate_bad_files(battles: Path, text: str, why: str) -> None:
    """A file that cannot be rated ends with exit 2, file and line."""
    battles.write_text(text)
    done = call("rate", battles)
    assert done.exit_code == 2
    assert why in done.stderr


def test_rate_keeps_going(battles: Path) -> None:
    """A dimension without a rating is named; the others are rated all the same."""
    rows = [json.loads(line) | {"dimension": "taste"} for line in BATTLES.splitlines()]
    rows.append({"model_a": "x", "model_b": "y", "winner": "tie", "dimension": "smell"})
    battles.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = json.loads(call("rate", battles, "--method", "elo", "--json").stdout)
    assert {row["dimension"] for row in found["ratings"]} == {"taste"}
    assert "all were dropped" in found["unrated"]["smell"]


def test_rate_shows_names_as_they_are(battles: Path) -> None:
    """A model name that looks like terminal markup is shown, not obeyed."""
    battles.write_text(BATTLES.replace('"x"', '"[red]x[/red]"'))
    assert "[red]x[/red]" in call("rate", battles).stdout


def test_rate_missing_file(tmp_path: Path) -> None:
    """A file that is not there is one sentence."""
    done = call("rate", tmp_path / "nothing.jsonl")
    assert done.exit_code == 2
    assert "no such file" in done.stderr


def test_rate_formats(tmp_path: Path, battles: Path) -> None:
    """The same battles in any file format give the same ratings."""
    from arena_kit import read_battles, write_battles

    log = read_battles(battles)
    expected = json.loads(call("rate", battles, "--json").stdout)
    for suffix in ("jsonl.gz", "csv", "csv.gz", "parquet"):
        path = tmp_path / f"other.{suffix}"
        write_battles(path, log)
        assert json.loads(call("rate", path, "--json").stdout) == expected, suffix


def test_init(tmp_path: Path) -> None:
    """`init` makes a workspace with every page that its notebooks name, and refuses a folder that
    holds something.
    """
    done = call("init", tmp_path / "new")
    assert done.exit_code == 0
    assert (tmp_path / "new" / "params" / "tournament.yaml").is_file()
    notebooks = list((tmp_path / "new" / "notebooks").glob("*.ipynb"))
    named = {
        page for each in notebooks for page in re.findall(r"docs/[\w-]+\.md", each.read_text())
    }
    assert "docs/judges.md" in named
    assert [page for page in named if not (tmp_path / "new" / page).is_file()] == []
    assert not [*(tmp_path / "new" / "docs").glob("*.py")]
    again = call("init", tmp_path / "new")
    assert again.exit_code == 2
    assert "not an empty folder" in again.stderr


def test_no_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside a workspace, `run` says how to make one."""
    monkeypatch.chdir(tmp_path)
    done = call("run", "pilot")
    assert done.exit_code == 2
    assert "arena-kit init" in done.stderr


def test_compare_not_a_record(tmp_path: Path) -> None:
    """Comparing something that is not a record says so."""
    done = call("runs", "compare", tmp_path, tmp_path)
    assert done.exit_code == 2
    assert "no verdicts" in done.stderr


def test_version_and_help() -> None:
    """Version and help answer at once, and every command explains itself."""
    assert __version__ in call("--version").stdout
    listing = call("--help").stdout
    for command in ("run", "rate", "runs", "init"):
        assert command in listing
        assert len(call(command, "--help").stdout.splitlines()) > 5


def test_run_help_lists_every_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run --help` names every notebook with its question: those shipped, outside a workspace."""
    monkeypatch.chdir(tmp_path)
    shown = call("run", "--help").stdout
    for file in (ROOT / "notebooks").glob("*.ipynb"):
        question = json.loads(file.read_text())["metadata"]["title"].split(": ")[1]
        assert re.search(rf"\n  {file.stem} +{re.escape(question[:40])}", shown)


def test_run_help_lists_own_notebooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a workspace its own notebooks are listed, also one that cannot be read."""
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / "tournament.yaml").touch()
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "notebooks" / "mine.ipynb").write_text('{"metadata": {"title": "Mine: is it?"}}')
    (tmp_path / "notebooks" / "torn.ipynb").write_text("{")
    monkeypatch.chdir(tmp_path)
    shown = call("run", "--help").stdout.partition("Notebooks:")[2].split("\n")
    assert [line.split(maxsplit=1) for line in shown if line] == [
        ["mine", "is it?"],
        ["torn", "without a title"],
    ]


def test_rate_help_lists_every_setting() -> None:
    """`rate --help` has every key of every method with its default, as `--set` takes it."""
    shown = call("rate", "--help").stdout
    for name, method in METHODS.items():
        part = shown.partition(f"Settings of {name} (--set KEY=VALUE):")[2].partition("Settings")[0]
        keys = re.findall(r"^  (\w+) .*default: (\S+)", part, re.MULTILINE)
        assert [key for key, _ in keys] == [field.name for field in fields(method)]
        given = {key: text for key, text in keys if text != "none"}
        assert validated(method, given, "help") == method()


@pytest.mark.parametrize("also", ["battles.jsonl manifest.json", "battles.jsonl"])
def test_rate_a_record_alone(pilot: Path, tmp_path: Path, also: str) -> None:
    """A record's folder copied anywhere is rated; without its manifest as any battles file."""
    for name in also.split():
        shutil.copy(pilot / name, tmp_path / name)
    done = call("rate", tmp_path, "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert ("settings of the run record" in done.stderr) == ("manifest.json" in also)
    assert {row["dimension"] for row in found["ratings"]} == set(open_record(pilot)["dimensions"])


def test_rate_bradley_terry_of_a_record_is_that_of_its_report(pilot: Path) -> None:
    """`--method bradley-terry` on a record is on its own center and counts what its report
    counts, so both say the same numbers; `--set` still changes them.
    """
    report = json.loads((pilot / "bradley_terry.json").read_text())
    found = json.loads(call("rate", pilot, "--method", "bradley-terry", "--json").stdout)
    for row in found["ratings"]:
        (same,) = (r for r in report[row["dimension"]]["ratings"] if r["model"] == row["model"])
        assert row == {"dimension": row["dimension"]} | same
    assert found["claims"] == {d: report[d]["claims"] for d in open_record(pilot)["dimensions"]}
    assert found["settings"]["center"] == 1400.0
    words = ("--method", "bradley-terry", "--set", "center=1000")
    moved = json.loads(call("rate", pilot, *words, "--json").stdout)
    assert moved["ratings"][0]["rating"] == pytest.approx(found["ratings"][0]["rating"] - 400)


def with_battles(record: Path, folder: Path, votes: list[tuple[str, str, str]]) -> Path:
    """A copy of a record with other battles of one dimension, each on a question of its own."""
    shutil.copytree(record, folder)
    rows = [
        Battle(model_a=a, model_b=b, winner=Outcome(w), question_id=f"q{n}", dimension="taste")
        for n, (a, b, w) in enumerate(votes)
    ]
    write_battles(folder / "battles.jsonl", BattleLog.from_battles(rows))
    return folder


def test_compare_says_which_decided_orders_changed(pilot: Path, tmp_path: Path) -> None:
    """An order won 45 to 5 before and 26 to 24 after is lost, one the other way round gained, one
    won 44 to 6 by either in turn reversed; entrants that only one record has count for nothing.
    """
    before = with_battles(pilot, tmp_path / "before", won("ann", "bob", 45, 5)
                          + won("bob", "cy", 26, 24) + won("ann", "cy", 44, 6)
                          + won("ann", "old", 45, 5))  # fmt: skip
    after = with_battles(pilot, tmp_path / "after", won("ann", "bob", 26, 24)
                         + won("cy", "bob", 45, 5) + won("cy", "ann", 44, 6))  # fmt: skip
    done = call("runs", "compare", before, after, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["orders"] == [
        {
            "dimension": "taste",
            "kept": [],
            "lost": [["ann", "bob"]],
            "gained": [["cy", "bob"]],
            "reversed": [["cy", "ann"]],
        }
    ]
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
    pilot: Path, tmp_path: Path
) -> None:
    """Ann wins 60 of 100 before and 50 after, ten verdicts having changed. By hand: the log odds
    fall by ln 1.5; a question moves the change by 1/3 (won twice), -11/3 (lost after) or 1/2 (lost
    twice) of 1/100, so its variance is 150/100² times 100/99; t with 99 degrees is 1.984; a gap to
    the mean of two is half of theirs, in units of 400/ln 10.
    """
    before = with_battles(pilot, tmp_path / "before", won("ann", "bob", 60, 40))
    after = with_battles(pilot, tmp_path / "after", won("ann", "bob", 50, 50))
    with_verdicts(before, ["A"] * 60 + ["B"] * 40)
    with_verdicts(after, ["A"] * 50 + ["B"] * 50)
    ann, bob = json.loads(call("runs", "compare", before, after, "--json").stdout)["deltas"]
    unit = 400 / log(10) / 2
    half = 1.9842 * unit * sqrt(150 / 100**2 * 100 / 99)
    assert ann["change"] == pytest.approx(-unit * log(1.5), abs=0.01)
    assert ann["high"] - ann["change"] == pytest.approx(half, abs=0.02)
    assert bob["change"] == pytest.approx(-ann["change"])
    assert (ann["flips"], ann["says"]) == (10, "moved")
    assert re.search(r"ann +│ +\+35 │ +[+-]0 │ +-35\.2 │ +-56 to -14 │ moved", call(
        "runs", "compare", before, after).stdout)  # fmt: skip


def test_compare_calls_nobody_moved_where_no_shared_verdict_changed(
    pilot: Path, tmp_path: Path
) -> None:
    """Forty more questions that bob wins change ratings and no verdict: that is said, and that the
    prompt sets differ; another judge and another center are warned about, too.
    """
    before = with_battles(pilot, tmp_path / "before", won("ann", "bob", 60, 40))
    after = with_battles(pilot, tmp_path / "after", won("ann", "bob", 60, 80))
    with_verdicts(before, ["A"] * 60 + ["B"] * 40)
    with_verdicts(after, ["A"] * 60 + ["B"] * 80)
    manifest = json.loads((after / "manifest.json").read_text())
    manifest["judge"]["model"] = "another"
    manifest["rating"]["settings"]["initial"] = 1000.0
    (after / "manifest.json").write_text(json.dumps(manifest))
    found = json.loads(call("runs", "compare", before, after, "--json").stdout)
    assert {delta["says"] for delta in found["deltas"]} == {"other battles"}
    shown = call("runs", "compare", before, after).stdout
    assert "Other battles: no shared verdict changed" in shown
    assert "The prompt sets differ (" in shown
    assert "The judges differ (baseline/lexical-v1 before, another after)" in shown
    assert "The centers differ (1400.0 before, 1000.0 after)" in shown


def test_compare_without_ratings_decides_nothing(pilot: Path, tmp_path: Path) -> None:
    """Where entrants never met in one record, no order is decided there, and all are lost."""
    before = with_battles(pilot, tmp_path / "before", won("ann", "bob", 45, 5))
    after = with_battles(pilot, tmp_path / "after", won("ann", "x", 3, 3) + won("bob", "y", 3, 3))
    (found,) = json.loads(call("runs", "compare", before, after, "--json").stdout)["orders"]
    assert (found["lost"], found["kept"], found["gained"]) == ([["ann", "bob"]], [], [])


def test_compare_takes_battles_without_questions_for_different_evidence(
    pilot: Path, tmp_path: Path
) -> None:
    """Battles that name no question are each record's own: by hand the variances 1/24 and 1/25 of
    two log odds add up, times 200/199, where the same questions would have left far less.
    """
    records = []
    for name, wins in (("before", 60), ("after", 50)):
        votes = [Battle(model_a="ann", model_b="bob", winner=Outcome.MODEL_A if n < wins else
                        Outcome.MODEL_B, dimension="taste") for n in range(100)]  # fmt: skip
        records.append(with_battles(pilot, tmp_path / name, []))
        write_battles(records[-1] / "battles.jsonl", BattleLog.from_battles(votes))
    ann, _ = json.loads(call("runs", "compare", *records, "--json").stdout)["deltas"]
    half = 1.9842 * 400 / log(10) / 2 * sqrt((1 / 24 + 1 / 25) * 200 / 199)
    assert ann["high"] - ann["change"] == pytest.approx(half, abs=0.05)
