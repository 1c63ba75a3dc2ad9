"""Whole boards on the smallest and most lopsided logs: a board or a sentence, never a traceback."""

import csv
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arena_kit import BattleLog, Board, BradleyTerry, DataError, RatingError, read_battles
from tests.samples import call

Row = tuple[str, ...]  # question, model a, model b, winner, voter
HEAD = ("question_id", "model_a", "model_b", "winner", "voter")
FEW = ("--set", "evidence_replicates=20")
COMMANDS = (
    ("--json",),
    (),
    ("--method", "permutation-elo", *FEW, "--set", "n_perms=20", "--json"),
    ("--method", "glicko2", *FEW),
)
METHODS = (
    BradleyTerry(ties="davidson"),
    BradleyTerry(interval="percentile", resamples=100),
    BradleyTerry(prior=0.0),
)


def rows(winners: str, pairs: str = "xy", questions: int = 12, voters: int = 3) -> list[Row]:
    """Battles of `pairs` on so many questions, won as `winners` says in turn."""
    names = {"a": "model_a", "b": "model_b", "t": "tie", "n": "both_bad"}
    return [
        (f"q{i % questions}", pair[0], pair[1], names[winners[i % len(winners)]], f"v{i % voters}")
        for i in range(12)
        for pair in pairs.split()
    ]


NAMED = {
    "all ties": rows("t"),
    "all ties, one question": rows("t", questions=1),
    "all ties, three models": rows("t", "xy yz xz"),
    "all both bad": rows("n"),
    "one battle": rows("a")[:1],
    "one tie": rows("t")[:1],
    "one question": rows("ab", "xy yz xz", questions=1),
    "one voter": rows("ab", voters=1),
    "one-sided": rows("a", "xy yz xz"),
    "disconnected": rows("ab", "xy zw"),
    "two that never met": rows("ab", "xy yz"),
    "one model": rows("t", "xx"),
    "none": [],
}


def write(path: Path, lines: Sequence[Row], head: Sequence[str] = HEAD) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *lines])
    return path


def check(path: Path) -> None:
    """Every command and every method gives a board, or says in one sentence why not."""
    for words in COMMANDS:
        done = call("rate", path, *words)
        assert done.exit_code in (0, 2), (words, done.output, done.exception)
        if done.exit_code == 2:
            said = [line for line in done.stderr.splitlines() if not line.startswith("warning: ")]
            assert len(said) == 1
            assert said[0].startswith("error: ")
        elif "--json" in words:
            Board.model_validate(json.loads(done.stdout, parse_constant=pytest.fail))
        else:
            assert "rank" in done.stdout
            assert " nan" not in done.stdout
    with suppress(DataError):
        battles = read_battles(path)
        for method in METHODS:
            with suppress(RatingError):
                assert len(method(battles).models) >= 2


@pytest.mark.parametrize("name", NAMED)
def test_a_named_log_gives_a_board_or_a_sentence(name: str, tmp_path: Path) -> None:
    """Each degenerate log by name, in the terminal, as JSON and in Python."""
    check(write(tmp_path / "votes.csv", NAMED[name]))


def test_weights_of_zero_are_named_with_their_line(tmp_path: Path) -> None:
    """A battle that weighs nothing is refused in a file, and counts of zero are no battles."""
    path = write(tmp_path / "votes.csv", [(*NAMED["one battle"][0], "0")], (*HEAD, "weight"))
    done = call("rate", path)
    assert done.exit_code == 2
    assert "votes.csv:2" in done.stderr
    with pytest.raises(RatingError):
        BradleyTerry()(BattleLog.from_counts(["x"], ["y"], 0, 0))


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["q1", "q2", "q3"]),
            st.sampled_from("xyzw"),
            st.sampled_from("xyzw"),
            st.sampled_from(["model_a", "model_a", "model_b", "tie", "both_bad"]),
            st.sampled_from(["v1", "v2", ""]),
        ).filter(lambda row: row[1] != row[2]),
        max_size=14,
    )
)
def test_any_small_log_gives_a_board_or_a_sentence(tmp_path: Path, lines: list[Row]) -> None:
    """Up to fourteen battles of up to four models on up to three questions."""
    check(write(tmp_path / "votes.csv", lines))
