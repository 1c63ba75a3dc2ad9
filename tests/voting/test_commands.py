"""Votes by commands: ballots out, files in, one store; and the server, killed without a loss."""

import json
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from click.testing import Result

from arena_kit import read_battles
from arena_kit.battles.read import LeftOutWarning
from arena_kit.voting.store import VoteStore
from arena_kit.voting.texts import ArenaTexts
from tests.samples import ROOT, call, copy_workspace
from tests.voting.arenas import Voter, filled, leaks, page_data, returned

STORE, DIMENSION = ".arena_kit/votes.sqlite", "--dimension"
MODELS = ("aspen", "birch", "cedar", "dogwood")
VOTERS, ENOUGH = 6, 30


def votes(*words: object, code: int = 0) -> Result:
    result = call("votes", *words)
    assert result.exit_code == code, result.output
    return result


def answered(ballot: Path, voter: str) -> Path:
    """A ballot filled in by somebody who prefers the longer text, and skips the first pair."""
    html = ballot.read_text()
    pairs = page_data(html)[0]["pairs"]
    longer = ["A" if len(pair["left"]) >= len(pair["right"]) else "B" for pair in pairs]
    file = filled(html, voter=voter, copy=f"copy-{voter}", choices=" ".join(["SKIP", *longer[1:]]))
    return returned(ballot.with_name(f"votes-{voter}.json"), file)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The sample with three ballots of 20 pairs, two of them returned."""
    root = copy_workspace(tmp_path_factory.mktemp("votes") / "workspace")
    with chdir(root):
        votes("ballot", "--ballots", 3, "--pairs", 20)
        votes("add", *(answered(root / "ballots" / f"ballot-{n}.html", f"v{n}") for n in (1, 2)))
        yield root


def test_ballots_go_out_and_come_back(workspace: Path) -> None:
    """Of three files the good one is stored and the bad ones are named; again nothing is new."""
    ballots = workspace / "ballots"
    assert not leaks("".join(page.read_text() for page in ballots.glob("*.html")), MODELS)
    assert votes("ballot", "--pairs", 1).output.startswith("ballots/ballot-4.html\n")
    votes("ballot", "--pairs", 1, "--out", "one.html")
    votes("ballot", "--pairs", 1, "--out", "one.html", code=2)
    votes("ballot", "--ballots", 2, "--out", "two.html", code=2)
    good, empty = answered(ballots / "ballot-3.html", "Late"), returned(Path("empty.json"), "")
    bad = returned(Path("bad.json"), good.read_text().replace('"A"', '"B"', 1))
    said = votes("add", bad, good, empty, code=2).output
    assert f"refused: {bad}: " in said
    assert f"{good}: 19 votes and 1 skipped of late\n" in said
    assert f"refused: {empty}:1: " in said
    assert "(0 new)" in votes("add", good).output
    rows = json.loads(votes("list", "--json").output)
    found = [(r["voter"], r["votes"], r["skips"]) for r in rows]
    assert found == [(voter, 19, 1) for voter in ("v1", "v2", "late")]
    assert "late" in votes("list").output


def test_people_vote_on_chosen_battles(pilot_record: Path, tmp_path: Path) -> None:
    """Ballots ask the battles that were drawn from a judge's, each once before any twice; what is
    not in the tournament is refused.
    """
    with chdir(copy_workspace(tmp_path / "workspace")):
        about = (DIMENSION, "factuality")
        assert "chosen.csv: 30 of " in votes("choose", pilot_record, "--votes", 30, *about).output
        asks: Any = ("ballot", "--chosen", "chosen.csv", *about, "--pairs")
        assert "cannot be filled: 30 were chosen" in votes(*asks, 31, code=2).output
        votes(*asks, 15, "--ballots", 2)
        votes(*asks, 15)
        files = [answered(Path("ballots") / f"ballot-{n}.html", f"v{n}") for n in (1, 2, 3)]
        votes("add", *files)
        rows = [vote.ticket for vote in VoteStore.open(STORE).votes()]
        asked = Counter((t.prompt, *sorted((t.model_a, t.model_b))) for t in rows)
        assert {*asked} == {*read_battles("chosen.csv").compared()}
        assert Counter(asked.values()) == {1: 15, 2: 15}
        strange = Path("chosen.csv").read_text().replace("aspen", "ash")
        Path("strange.csv").write_text(strange)
        said = votes("ballot", "--chosen", "strange.csv", *about, code=2).output
        assert re.search(r"strange.csv: ash and \w+ on prompt '.*' cannot be voted on", said)


def test_the_store_is_read_as_its_export(workspace: Path) -> None:
    """A store reads as its export, without skips and removed voters; names are its owner's."""
    with VoteStore.open(workspace / STORE) as store:
        store.remove("voter", ["v1"], why="a test", by="tests")
        said = votes("export", "--out", "votes.jsonl").output
        assert "left out: " in said
        assert said.endswith("votes.jsonl\n")
        with pytest.warns(LeftOutWarning, match="20 votes that were removed"):
            ours = read_battles(STORE)
        theirs = read_battles("votes.jsonl")
        assert ours.columns().keys() == theirs.columns().keys()
        for name, column in theirs.columns().items():
            np.testing.assert_array_equal(ours.columns()[name], column)
        assert "v1" not in set(ours.columns()["voter"])
        store.restore("voter", ["v1"], why="a test", by="tests")
    with pytest.warns(LeftOutWarning, match="skipped pairs"):
        assert len(read_battles(STORE)) == len(ours) + 19
    before = os.umask(0o022)
    try:
        for words, mode in (((), 0o600), (("--deidentified",), 0o644)):
            for kind in ("jsonl", "csv", "parquet"):
                votes("export", "--out", f"mode.{kind}", *words)
                assert stat.S_IMODE((workspace / f"mode.{kind}").stat().st_mode) == mode
                (workspace / f"mode.{kind}").unlink()
    finally:
        os.umask(before)


def test_people_are_asked_what_the_judge_is_asked(workspace: Path) -> None:
    """A ballot has its rubric and references, and brings comments; a store keeps its dimension."""
    own = ("--store", workspace / "gold.sqlite")
    votes("ballot", *own, DIMENSION, "factuality", "--pairs", 3, "--out", "gold.html")
    html = Path("gold.html").read_text()
    assert "<h1>Which response is more accurate, measured against the gold answer?</h1>" in html
    assert "<h4>Factuality, version 2</h4>" in html
    assert re.search(r"3 pairs take about \d minutes", html)
    assert all(pair["reference"] for pair in page_data(html)[0]["pairs"])
    file = filled(html, comment="Dose is wrong.")
    votes("add", *own, returned(workspace / "gold.json", file))
    rows = json.loads(votes("comments", *own, "--json").output)
    assert [(row["voter"], row["comment"]) for row in rows] == [("ann", "Dose is wrong.")] * 3
    assert "Dose is wrong." in votes("comments", *own).output
    own = ("--store", workspace / "factual.sqlite")
    ballot = ("ballot", *own, "--pairs", 2, "--out")
    votes(*ballot, "f1.html", DIMENSION, "factuality")
    votes(*ballot, "f2.html")
    votes("add", *own, answered(Path("f2.html"), "v1"))
    with pytest.warns(LeftOutWarning):
        assert set(read_battles("factual.sqlite").columns()["dimension"]) == {"factuality"}
    other = votes(*ballot, "f3.html", DIMENSION, "calibration", code=2)
    assert "the store holds votes of 'clinical-sample' on 'factuality'" in other.output
    unknown = votes(*ballot, "f3.html", DIMENSION, "wit", code=2)
    assert "--dimension 'wit' is none of params/tournament.yaml: factuality" in unknown.output
    assert not Path("f3.html").exists()


def test_conflicts_are_listed_and_settled(workspace: Path) -> None:
    """A second file under a name is kept, listed, and counts once the researcher says so."""
    own = ("--store", workspace / "names.sqlite")
    votes("ballot", *own, "--pairs", 3, "--out", "names.html")
    html = Path("names.html").read_text()
    for copy, choices in (("first-file", "A A A"), ("second-file", "A B B")):
        file = filled(html, voter="Ann", copy=copy, choices=choices)
        said = votes("add", *own, returned(workspace / f"{copy}.json", file)).output
    assert "2 of them kept and not counted: an earlier vote under the same name differs" in said
    listed = votes("conflicts", *own).output
    assert [listed.count(text) for text in ("ann", "yes", "first-file", "second-file")] == [
        4,
        2,
        2,
        2,
    ]
    for keep, counted in (("last", "ABB"), ("first", "AAA"), ("none", "A")):
        votes("conflicts", "ann", *own, "--keep", keep, "--why", "asked Ann")
        with VoteStore.open(own[1]) as store:
            kept = sorted(str(vote.choice) for vote in store.votes() if not vote.removed)
        assert "".join(kept) == counted
    votes("conflicts", *own, "--keep", "last", code=2)


def test_check_covers_votes(workspace: Path) -> None:
    """`check` names a vote that was changed; `ballot` lists responses that name their maker."""
    said = call("check")
    assert (said.exit_code, "votes, all intact" in said.output) == (0, True), said.output
    copy = workspace / "changed.sqlite"
    with sqlite3.connect(workspace / STORE) as store, sqlite3.connect(copy) as other:
        store.backup(other)
        other.execute("UPDATE votes SET choice = 'TIE' WHERE number = 3")
    said = call("check", copy)
    assert said.exit_code == 2
    assert f"{copy}: the vote store is damaged (row 3 of votes)" in said.output
    path = workspace / "sample" / "responses" / "responses_aspen.jsonl"
    first, *rest = before = path.read_text().splitlines()
    row = json.loads(first)
    row["response_text"] += " As ChatGPT, I would wait."
    try:
        path.write_text("\n".join([json.dumps(row), *rest]))
        said = votes("ballot", "--pairs", 1, "--store", workspace / "named.sqlite").output
    finally:
        path.write_text("\n".join(before))
    assert said.index(f"aspen on {row['prompt_id']}: “ChatGPT”") < said.index("ballot-")


def test_votes_on_several_dimensions_go_by_dimension(workspace: Path) -> None:
    """A ballot asks what each prompt can be judged on; `rate` and `review` go by dimension."""
    own = ("--store", workspace / "several.sqlite")
    both = (DIMENSION, "factuality", DIMENSION, "calibration")
    votes("ballot", *own, *both, "--ballots", 2, "--pairs", 12, "--out", "several")
    pairs = []
    for n in (1, 2):
        html = Path(f"several/ballot-{n}.html").read_text()
        pairs += page_data(html)[0]["pairs"]
        for voter in ("ann", "bob"):
            file = filled(html, voter=voter, copy=voter, choices="A B B A B A A B " * 3)
            votes("add", *own, returned(workspace / "several.json", file))
    asked = Counter(tuple(pair["dimensions"]) for pair in pairs)
    assert asked == {("factuality", "calibration"): 16, ("calibration",): 8}  # of three sources
    rated = json.loads(call("rate", own[1], "--json").output)
    assert {each["name"] for each in rated["dimensions"]} == {"factuality", "calibration"}
    cast = {name: len(log) for name, log in read_battles(own[1]).by_dimension().items()}
    assert cast == {"factuality": 32, "calibration": 48}
    one = votes("review", *own, code=2).output
    assert "name one of its dimensions (factuality, calibration)" in one
    few = votes("review", *own, DIMENSION, "factuality", code=2).output
    assert "voters" in few
    votes("serve", *own, code=2)


PLAN = "voter,specialty,source\nAnn,cardiology,vignette; curated\nBob B.,nephrology,\n"


def test_a_plan_of_voters(workspace: Path) -> None:
    """A page per row has its voter's name and strata; attributes are columns of the export."""
    own, plan = ("--store", workspace / "plan.sqlite"), returned(workspace / "plan.csv", PLAN)
    made = votes("ballot", *own, "--voters", plan, "--pairs", 20, "--out", "planned").output
    assert made.startswith(
        "planned/ballot-1-Ann.html\nplanned/ballot-2-Bob-B.html\n2 ballots of 20"
    )
    bank = ArenaTexts.of_tournament(workspace / "params/tournament.yaml", workspace).bank
    with VoteStore.open(own[1]) as store, store.writing() as turn:
        sources = [bank[ticket.prompt].source for ticket in turn.tickets()]
    assert Counter(sources[:20]) == {"vignette": 10, "curated": 10}
    assert sorted(Counter(sources[20:]).values()) == [6, 7, 7]
    for n, name in ((1, "Ann"), (2, "Bob-B")):
        html = Path(f"planned/ballot-{n}-{name}.html").read_text()
        data = page_data(html)[0]
        assert data["voter"] == name.replace("Bob-B", "Bob B.")
        file = filled(html, voter=data["voter"], copy=name, choices="A B B A " * 5)
        votes("add", *own, returned(workspace / "planned.json", file))
    votes("ballot", *own, "--pairs", 1, "--out", "more.html")
    for words in ((), ("--deidentified",)):
        votes("export", *own, "--out", "plan.jsonl", *words)
        battles = read_battles("plan.jsonl", strata=["specialty"])
        assert Counter(battles["specialty"]) == {"cardiology": 20, "nephrology": 20}
    assert "Ann" not in Path("plan.jsonl").read_text()
    rated = json.loads(call("rate", "plan.jsonl", "--by", "specialty", "--json").output)
    assert [each["axis"] for each in rated["dimensions"][0]["strata"]] == ["specialty"]


@pytest.mark.parametrize(("plan", "why"), [
    ("name\nAnn\n", "expected a column voter and a row for each"),
    ("voter,winner\nAnn,x\n", "the column 'winner' is one of battles files; rename it"),
    ("voter,source\nAnn,vignete\n", "plan.csv:2 source: no prompt has source 'vignete'; known: c"),
    ("voter\nAnn\nBob\nann \n", "plan.csv:4 voter: 'ann' is a voter of plan.csv:2 voter, too"),
    ("voter,a\n,b\n", "plan.csv:2 voter: expected a name of 1 to 60 letters"),
    ("voter,source,subject\nAnn,,\nBob,curated,anatomy\n", "30 pairs for Bob cannot be filled: "),
])  # fmt: skip
def test_a_plan_that_cannot_be_is_refused(workspace: Path, plan: str, why: str) -> None:
    """A wrong plan is refused in a sentence before any ballot is made."""
    own = ("--store", workspace / "wrong.sqlite")
    file = returned(workspace / "plan.csv", plan)
    said = votes("ballot", *own, "--voters", file, "--pairs", 30, "--out", "wrong", code=2).output
    assert why in said
    assert not Path("wrong").exists()


def test_the_extra_is_named(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing store ends with 2; the server's extra is named, and ballots need none."""
    votes("list", "--store", workspace / "none.sqlite", code=2)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert "pip install 'arena-kit[vote]'" in votes("serve", code=2).output
    for name in ("starlette", "itsdangerous", "uvicorn"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in [each for each in sys.modules if each.startswith("arena_kit.voting")]:
        monkeypatch.delitem(sys.modules, name)
    votes("ballot", "--pairs", 1, "--out", "x.html")
    votes("list")


@contextmanager
def served(workspace: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`arena-kit votes serve` on a free port, and its address on loopback."""
    command = [sys.executable, "-m", "arena_kit", "votes", "serve", "--port", "0", *options]
    process = subprocess.Popen(
        [*command, "--per-minute", "100000"], cwd=workspace, env=os.environ, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        try:
            lines = [process.stdout.readline() for _ in range(3)]
            found = re.search(r"http://[\w.-]+:(\d+)", lines[0])
            assert found, lines[0] + process.stderr.read()
            yield process, f"http://127.0.0.1:{found[1]}"
        finally:
            process.kill()


@pytest.mark.parametrize(
    "address", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)], indirect=True
)
def test_a_kill_loses_no_vote_that_was_acknowledged(workspace: Path, address: str) -> None:
    """After SIGKILL every vote that was answered is stored with its choice, none twice."""
    told: dict[str, str] = {}
    enough = threading.Event()

    def keeps_voting(voter: Voter) -> None:
        try:
            voter.enter()
            for turn in range(10_000):
                pair, choice = voter.pair(), ("A", "B", "TIE")[turn % 3]
                assert voter.vote(pair, choice).status_code == 200
                told[pair["ticket"]] = choice
                if len(told) >= ENOUGH:
                    enough.set()
        except httpx2.TransportError:
            return

    with served(workspace, "--store", address) as (process, at):
        threads = [threading.Thread(target=keeps_voting, args=(Voter(at),)) for _ in range(VOTERS)]
        for thread in threads:
            thread.start()
        assert enough.wait(120)
        process.send_signal(signal.SIGKILL)
        for thread in threads:
            thread.join()
    with VoteStore.open(address, create=False) as store:
        kept = [(vote.ticket.ticket, str(vote.choice)) for vote in store.votes()]
    assert told.items() <= dict(kept).items()
    assert len(kept) == len(dict(kept)) <= len(told) + VOTERS


def test_other_addresses_need_a_token(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On all addresses a token is needed; Ctrl-C ends with a count of the votes."""
    monkeypatch.setenv("ARENA_KIT_VOTE_TOKEN", "open sesame")
    with served(workspace, "--store", "open.sqlite", "--host", "0.0.0.0") as (process, at):
        assert Voter(at).enter().status_code == 401
        voter = Voter(at, token="open sesame")
        assert (voter.enter().status_code, voter.vote(voter.pair(), "A").status_code) == (200, 200)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    said = "ended; open.sqlite holds 1 vote of 1 voter\n"
    assert (output, errors, process.returncode) == (said, "", 0)


@pytest.mark.slow  # 5,000 durable votes take a minute and more
def test_fifty_voters_lose_no_vote(address: str) -> None:
    """5,000 votes of 50 voters at once, some sent twice, are each stored once."""
    command = [sys.executable, ROOT / "benchmarks" / "voting.py", "--store", address]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5,000 votes of 50 voters" in done.stdout
    assert "lost 0, stored twice 0, in the store 5,000" in done.stdout
