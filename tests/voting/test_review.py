"""A review of voters on a store: it removes nobody, and removals are undone without a trace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from arena_kit import Arena, DataError, read_battles
from arena_kit.cli.main import main
from arena_kit.policy.constants import Policy
from arena_kit.site.answers import answers
from arena_kit.voting.board import LiveBoard
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


def told(board: LiveBoard) -> dict[str, Any]:
    return {"ratings": board.ratings, "elo": board.elo, "order": board.order}


@pytest.fixture
def live(home: Path) -> Iterator[LiveArena]:
    arena = live_arena(home / VOTES)
    yield arena
    arena.close()


class TestRemoval:
    """Removal, its log and its undoing."""

    def test_the_board_is_that_of_a_replay_without_them(
        self, live: LiveArena, tmp_path: Path
    ) -> None:
        """After a removal the live board, which ran on, equals one replayed from the export to the
        last digit; after the restoration it is what it was.
        """
        before = told(live.board())
        assert call("remove", PUSHER, "--why", "pushes a model").exit_code == 0
        after = live.board()
        assert told(after) != before
        export = tmp_path / "export.jsonl"
        assert call("export", "--out", str(export)).exit_code == 0
        texts, left = arena_texts(), read_battles(export)
        assert left.voter is not None
        assert PUSHER not in left.voter.names
        replay = Arena(
            Policy(),
            texts.models,
            tuple(texts.prompts),
            rng=np.random.default_rng(0),
            available=texts.available(),
            battles=left,
        )
        assert {model: replay.ratings[model] for model in MODELS} == dict(after.ratings)
        assert {model: replay.elo[model] for model in MODELS} == dict(after.elo)
        assert tuple(replay.order()) == after.order
        assert call("restore", PUSHER, "--why", "asked to").exit_code == 0
        assert told(live.board()) == before

    def test_the_log_keeps_both(self, home: Path) -> None:
        """Removals and restorations are lines with who, what and why; the same again is none."""
        with VoteStore.open(VOTES) as store:
            lines = len(store.removals())
        done = call("remove", "ann", "--why", "left the lab", "--by", "ruth")
        assert done.output.startswith("removed: 1 voter, 40 votes; ")
        assert "removed: 0 voters" in call("remove", "ann", "--why", "again").output
        assert "restored: 1 voter, 40 votes" in call("restore", "ann", "--why", "is back").output
        with VoteStore.open(VOTES) as store:
            added = [(x.target, x.undone, x.why) for x in store.removals()[lines:]]
            log = ReviewedVotes.of_store(store).log
        assert added == [("ann", False, "left the lab"), ("ann", True, "is back")]
        assert log[lines][2:5] == ("ann", "removed", "ruth")

    def test_strangers_are_refused(self, home: Path) -> None:
        """A voter who is not in the store cannot be removed, and a reason is asked for."""
        assert "knows no voter 'zoe'" in call("remove", "zoe", "--why", "?").output
        assert call("remove", "ann").exit_code == 2


class TestReview:
    """What a review says of a store."""

    def test_it_removes_nobody(self, home: Path) -> None:
        """The command names the pusher, the rule and the number, and the store stays as it was."""
        with VoteStore.open(VOTES) as store:
            before = store.votes()
        done = call("review")
        assert done.exit_code == 0
        assert f"{PUSHER}: pushes a model ({MODELS[PUSHED]} won" in done.output
        assert "nothing was removed" in done.output
        with VoteStore.open(VOTES) as store:
            assert store.votes() == before

    def test_as_json(self, home: Path) -> None:
        """Every voter's tests come as JSON."""
        found = json.loads(call("review", "--json").output)
        out = [each["voter"] for each in found["voters"] if each["stands_out"]]
        assert out == [PUSHER]
        assert {"ann", "ben"} < {each["voter"] for each in found["voters"]}

    def test_a_store_in_the_notebook(self, home: Path) -> None:
        """A study on the store has the same answer, the board without the pusher, and a record that
        keeps no copy of the store.
        """
        study = ReviewStudy.open(battles=VOTES)
        tests = study.test_voters()
        boards, pushed = study.boards(tests), MODELS[PUSHED]
        assert [test.voter for test in tests.standing_out] == [PUSHER]
        assert boards.left_out == (PUSHER,)
        assert boards.after is not None
        assert boards.after[pushed].rating < boards.before[pushed].rating
        record = study.publish(tests, boards)
        answer = json.loads((record.path / "answer.json").read_text())
        assert any(f"{pushed} would move most" in sentence for sentence in answer["answer"])
        assert answers(record.path, record.read())[0] == "1 of 7 voters tested stands out."
        assert not (record.path / "inputs").exists()
        assert str(home) not in (record.path / "answer.json").read_text()
        assert json.loads((record.path / "voters.json").read_text())["voters"][0]["voter"] == PUSHER

    def test_who_is_left_out_can_be_said(self, home: Path) -> None:
        """The second board leaves out whom one names; a stranger is refused."""
        study = ReviewStudy.open(battles=VOTES, leave_out=["ann"])
        tests = study.test_voters()
        assert study.boards(tests).votes == 40
        with pytest.raises(DataError, match="leave_out: no voter 'zoe' was tested"):
            ReviewStudy.open(battles=VOTES, leave_out=["zoe"]).boards(tests)

    def test_words_tell_who_cannot_have_read(self, live: LiveArena) -> None:
        """With the texts, how much there was to read is known of every vote, but not where a
        response changed since.
        """
        texts = arena_texts()
        known = ReviewedVotes.of_store(live.store, texts)
        assert known.words is not None
        assert known.words[0] == sum(
            len(text.split()) for text in ("Answer 0.0: `0` and *more*.",) * 2
        )
        changed = dict(texts.responses) | {(MODELS[0], prompt): "new" for prompt in texts.prompts}
        other = ReviewedVotes.of_store(live.store, replace(texts, responses=changed))
        assert other.words is not None
        assert 0 < np.isnan(other.words).sum() < len(other.words)

    def test_an_empty_store_says_so(self, home: Path, tmp_path: Path) -> None:
        """A store without votes is refused in a sentence."""
        with (
            VoteStore.open(tmp_path / "empty.sqlite") as store,
            pytest.raises(DataError, match="holds no vote that counts yet"),
        ):
            ReviewedVotes.of_store(store)
