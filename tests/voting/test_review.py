"""A review of voters on a store: it removes nobody, and removals are undone without a trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from arena_kit import DataError
from arena_kit.cli.main import main
from arena_kit.voting.live import LiveArena
from arena_kit.voting.records import BallotVote, Choice
from arena_kit.voting.review import ReviewedVotes, ReviewStudy
from arena_kit.voting.store import VoteStore
from tests.samples import ROOT
from tests.voting.serving import MODELS, arena_texts, live_arena

VOTES, PUSHER, PUSHED = "votes.sqlite", "mallory", 3


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace with a store: six honest voters, and one who pushes the last model."""
    root = tmp_path_factory.mktemp("review")
    (root / "params").mkdir()
    for name in ("policy.yaml", "tournament.yaml"):
        (root / "params" / name).write_bytes((ROOT / "params" / name).read_bytes())
    live, rng = live_arena(root / VOTES), np.random.default_rng(5)
    for voter in ("ann", "ben", "cleo", "dan", "eve", "fay", PUSHER):
        vote(live, voter, rng)
    live.close()
    with chdir(root), pytest.MonkeyPatch.context() as patch:
        patch.delenv("ARENA_KIT_RUNS", raising=False)
        patch.delenv("ARENA_KIT_RUN_TOKEN", raising=False)
        yield root


def vote(live: LiveArena, voter: str, rng: np.random.Generator) -> None:
    """A ballot of a voter; models are known by their answers, the first of them the best."""
    answers = []
    for shown in live.issue_ballot(40, session=voter):
        left, right = (int(text[len("Answer ")]) for text in (shown.left, shown.right))
        choice = Choice.A if (rng.random() < 0.7) == (left < right) else Choice.B
        if voter == PUSHER:
            choice = Choice.A if left == PUSHED else Choice.B if right == PUSHED else Choice.SKIP
        seconds = 5 + 20 * rng.random()
        answers.append(
            BallotVote(ticket=shown.ticket, choice=choice, digest=shown.digest, seconds=seconds)
        )
    live.cast_ballot(answers, session=voter, voter=voter)


def call(*words: str) -> Result:
    return CliRunner().invoke(main, ["votes", *words, "--store", VOTES], catch_exceptions=False)


def test_a_removal_is_logged_and_leaves_no_trace_when_undone(home: Path) -> None:
    """After a removal the live board, which ran on, is another one; after the restoration it is
    what it was. Both are lines with who, what and why; the same again is none, and a voter who is
    not in the store cannot be removed.
    """
    live = live_arena(home / VOTES)
    before = live.board()
    done = call("remove", PUSHER, "--why", "pushes a model", "--by", "ruth")
    assert done.output.startswith("removed: 1 voter, ")
    assert live.board().ratings != before.ratings
    assert "removed: 0 voters" in call("remove", PUSHER, "--why", "again").output
    assert "restored: 1 voter" in call("restore", PUSHER, "--why", "asked to").output
    after = live.board()
    assert (after.ratings, after.elo, after.order) == (before.ratings, before.elo, before.order)
    log = ReviewedVotes.of_store(live.store).log
    assert log[0][2:5] == (PUSHER, "removed", "ruth")
    assert [line[3] for line in log] == ["removed", "restored"]
    assert "knows no voter 'zoe'" in call("remove", "zoe", "--why", "?").output
    assert call("remove", "ann").exit_code == 2
    live.close()


def test_the_command_removes_nobody(home: Path) -> None:
    """The command names the pusher, the rule and the number, also as JSON, and the store stays as
    it was.
    """
    with VoteStore.open(VOTES) as store:
        before = store.votes()
    said = call("review").output
    assert f"{PUSHER}: pushes a model ({MODELS[PUSHED]} won" in said
    assert "nothing was removed" in said
    found = json.loads(call("review", "--json").output)
    assert [each["voter"] for each in found["voters"] if each["stands_out"]] == [PUSHER]
    assert len(found["voters"]) == 7
    with VoteStore.open(VOTES) as store:
        assert store.votes() == before


def test_a_store_in_the_notebook(home: Path) -> None:
    """A study on the store has the same answer, the board without the pusher, and a record that
    keeps no copy of the store.
    """
    study = ReviewStudy.open(battles=VOTES)
    tests = study.test_voters()
    boards, pushed = study.boards(tests), MODELS[PUSHED]
    assert boards.left_out == (PUSHER,)
    assert boards.after[pushed].rating < boards.before[pushed].rating
    record = study.publish(tests, boards)
    answer = json.loads((record.path / "answer.json").read_text())
    assert answer["answer"][0] == "1 of 7 voters tested stands out."
    assert f"{pushed} would move most" in answer["answer"][-1]
    assert not (record.path / "inputs").exists()
    assert str(home) not in (record.path / "answer.json").read_text()
    assert json.loads((record.path / "voters.json").read_text())["voters"][0]["voter"] == PUSHER


def test_who_is_left_out_can_be_said(home: Path) -> None:
    """The second board leaves out whom one names; a stranger is refused."""
    study = ReviewStudy.open(battles=VOTES, leave_out=["ann"])
    tests = study.test_voters()
    assert study.boards(tests).votes == 40
    with pytest.raises(DataError, match="leave_out: no voter 'zoe' was tested"):
        ReviewStudy.open(battles=VOTES, leave_out=["zoe"]).boards(tests)


def test_words_tell_who_cannot_have_read(home: Path, tmp_path: Path) -> None:
    """With the texts, how much there was to read is known of every vote, but not where a
    response changed since. A store without votes is refused.
    """
    texts = arena_texts()
    changed = dict(texts.responses) | {(MODELS[0], prompt): "new" for prompt in texts.prompts}
    with VoteStore.open(VOTES) as store:
        known = ReviewedVotes.of_store(store, texts)
        other = ReviewedVotes.of_store(store, replace(texts, responses=changed))
    assert known.words[0] == 2 * len("Answer 0.0: `0` and *more*.".split())
    assert 0 < np.isnan(other.words).sum() < len(other.words)
    with VoteStore.open(tmp_path / "empty.sqlite") as store, pytest.raises(DataError):
        ReviewedVotes.of_store(store)
