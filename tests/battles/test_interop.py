"""Files that other tools wrote by their own code (`make interop` writes them anew) are read."""

import csv
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from arena_kit import BradleyTerry, read_battles
from arena_kit.files import DataError
from arena_kit.judging.pairs.answer_logs import collect
from tests.samples import CASES

FILES = Path(os.environ.get("ARENA_KIT_INTEROP") or CASES / "interop")
SUMS = ["What is 1 + 1?", "What is 2 + 2?"]


def only(pattern: str) -> Path:
    """The file of one tool, whatever its version."""
    (file,) = FILES.glob(pattern)
    return file


@pytest.mark.parametrize(
    ("pattern", "answers"),
    [("inspect_ai-*.eval", "24"), ("inspect_ai-*[0-9]-errors.json", "2"), ("lm_eval-*", "22")],
)
def test_answers(pattern: str, answers: str) -> None:
    """Prompts and answers are those that were asked; a sample that errored is counted."""
    read = collect([("m", only(pattern))])
    assert [prompt.text for prompt in read.prompts] == SUMS[: len(answers)]
    assert [each.response_text for each in read.responses] == list(answers)
    assert sum(read.left_out.values()) == 2 - len(answers)
    scores = [1.0, float(answers == "24")][: len(answers)]
    assert [score["score"] for score in read.scores] == scores


def test_a_log_of_errors_says_so() -> None:
    """Where every sample errored, that is said, with their number."""
    with pytest.raises(DataError, match=r"no answers in .*: 2 samples that ended in an error"):
        collect([("", only("inspect_ai-*-only-errors.json"))])


def test_autoarena(tmp_path: Path) -> None:
    """AutoArena's votes are read from its SQL; our ratings of evalica's file are evalica's."""
    with closing(sqlite3.connect(tmp_path / "project.sqlite")) as database:
        database.executescript(only("autoarena-*.sql").read_text())
    rows = [(row.model_a, row.model_b, str(row.winner), str(row.source))
            for row in read_battles(tmp_path / "project.sqlite").to_battles()]  # fmt: skip
    assert rows == [("x", "y", "model_a", "human"), ("x", "y", "tie", "human")]
    ours = BradleyTerry(prior=0.0)(read_battles(only("evalica-*[0-9].csv")))
    with only("evalica-*-scores.csv").open(newline="") as lines:
        theirs = {row["item"]: float(row["score"]) for row in csv.DictReader(lines)}
    points = 400 * np.log10([theirs["x"] / theirs["y"], theirs["y"] / theirs["z"]])
    gaps = [ours[a].rating - ours[b].rating for a, b in ("xy", "yz")]
    assert gaps == pytest.approx(points, abs=0.05)
