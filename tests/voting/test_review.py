"""A review of voters on a store: it removes nobody, and removals are undone without a trace."""

import json
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arena_kit import DataError
from arena_kit.voting.records import BallotVote, Choice
from arena_kit.voting.review import ReviewedVotes, ReviewStudy
from arena_kit.voting.store import VoteStore
from tests.samples import ROOT, call
from tests.voting.arenas import MODELS, arena_texts, live_arena

VOTES, PUSHER, PUSHED = "votes.sqlite", "mallory", 3
TEXTS = arena_texts(prompts=12)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace with a store: six honest voters, and one who pushes the last model."""
    root = tmp_path_factory.mktemp("review")
    (root / "params").mkdir()
    for name in ("policy.yaml", "tournament.yaml"):
        (root / "params" / name).write_bytes((ROOT / "params" / name).read_bytes())
    live, rng = live_arena(root / VOTES, TEXTS), np.random.default_rng(5)
    for voter in ("ann", "ben", "cleo", "dan", "eve", "fay", PUSHER):
        votes = []
        for shown in live.issue_ballot(40, session=voter):
            left, right = (int(text.split()[3][0]) for text in (shown.left, shown.right))
            choice = Choice.A if (rng.random() < 0.7) == (left < right) else Choice.B
            if voter == PUSHER:
                pushed = {left: Choice.A, right: Choice.B}
                choice = pushed.get(PUSHED, Choice.SKIP)
            about = {"ticket": shown.ticket, "digest": shown.digest, "choice": choice}
            votes.append(BallotVote(**about, seconds=5 + 20 * rng.random()))
        live.cast_ballot(votes, session=voter, voter=voter)
    live.close()
    with chdir(root), pytest.MonkeyPatch.context() as patch:
        patch.delenv("ARENA_KIT_RUNS", raising=False)
        patch.delenv("ARENA_KIT_RUN_TOKEN", raising=False)
        patch.setenv("ARENA_KIT_VOTES", VOTES)
        yield root


def test_the_command_removes_nobody(home: Path, tmp_path: Path) -> None:
    """The command names the pusher and removes nobody; words are known with unchanged texts."""
    with VoteStore.open(home / VOTES) as store:
        before = store.votes()
        said = call("votes", "review").output
        assert f"{PUSHER}: favours or disfavours a model ({MODELS[PUSHED]} won" in said
        assert "no vote was removed" in said
        found = json.loads(call("votes", "review", "--json").output)
        assert [each["voter"] for each in found["voters"] if each["flagged"]] == [PUSHER]
        assert (len(found["voters"]), store.votes()) == (7, before)
    changed = {**TEXTS.responses} | {(MODELS[0], prompt): "new" for prompt in TEXTS.prompts}
    with VoteStore.open(home / VOTES) as store:
        known = ReviewedVotes.of_store(store, TEXTS)
        other = ReviewedVotes.of_store(store, replace(TEXTS, responses=changed))
    assert known.words[0] == 2 * len("It is number 0.0.".split())
    assert 0 < np.isnan(other.words).sum() < len(other.words)
    with VoteStore.open(tmp_path / "empty.sqlite") as store, pytest.raises(DataError):
        ReviewedVotes.of_store(store)


def test_a_store_in_the_notebook(home: Path) -> None:
    """A study on a store has the board without the pusher, and its record no copy of the store."""
    study = ReviewStudy.open(battles=VOTES)
    tests = study.test_voters()
    boards, pushed = study.boards(tests), MODELS[PUSHED]
    assert boards.left_out == (PUSHER,)
    assert boards.after[pushed].rating < boards.before[pushed].rating
    path = study.publish(tests, boards).path
    answer = (path / "answer.json").read_text()
    sentences = json.loads(answer)["answer"]
    assert sentences[0] == "1 of 7 voters tested is flagged."
    assert f"largest change: {pushed}" in sentences[-1]
    assert str(home) not in answer
    assert not (path / "inputs").exists()
    assert json.loads((path / "voters.json").read_text())["voters"][0]["voter"] == PUSHER
    assert ReviewStudy.open(battles=VOTES, leave_out=["ann"]).boards(tests).votes == 40
    with pytest.raises(DataError, match="leave_out: no voter 'zoe' was tested"):
        ReviewStudy.open(battles=VOTES, leave_out=["zoe"]).boards(tests)
