"""Importing other tools' files, and rating them as they are."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from arena_kit import read_battles
from arena_kit.battles.read import read_battle_texts
from tests.samples import call

CROWD = "left,right,vote,item,worker\nx,y,left,q1,ann\ny,x,right,q2,bob\nx,y,skip,q2,bob\n"
MAPPED = (
    "--model-a", "left", "--model-b", "right", "--winner", "vote", "--question", "item",
    "--voter", "worker", "--value", "left=model_a", "--value", "right=model_b",
)  # fmt: skip


@pytest.fixture
def crowd(tmp_path: Path) -> Path:
    path = tmp_path / "crowd.csv"
    path.write_text(CROWD)
    return path


def fastchat(path: Path) -> Path:
    """Two battles with conversations, as FastChat publishes them."""
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "=1+1"}]
    shared = {
        "model_b": "y", "judge": "arena_user_1", "turn": 1, "anony": True, "language": "English",
        "tstamp": 1682351591.5, "conversation_a": said, "conversation_b": said,
    }  # fmt: skip
    rows = [
        shared | {"question_id": "q1", "model_a": "x", "winner": "model_a"},
        shared | {"question_id": "q2", "model_a": "z", "winner": "tie (bothbad)"},
    ]
    path.write_text(json.dumps(rows))
    return path


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "jsonl.gz", "csv", "json"])
def test_an_imported_file_is_ours(suffix: str, tmp_path: Path) -> None:
    """What is written has our names, and reads as the file that it came from, texts and all."""
    file, out = fastchat(tmp_path / "conv.json"), tmp_path / f"battles.{suffix}"
    done = call("import", file, "--out", out)
    title = "Chatbot Arena conversations (fastchat-conversations)"
    told = [f"read 2 battles of 3 models, from {file}: {title}", str(out)]
    assert (done.exit_code, done.stdout.splitlines()) == (0, told), done.stderr
    (before, said), (after, kept) = read_battle_texts(file), read_battle_texts(out)
    assert list(after.to_battles()) == list(before.to_battles())
    for name in ("prompt", "response_a", "response_b", "language", "turns"):
        assert getattr(kept, name).tolist() == getattr(said, name).tolist(), name
    bare = tmp_path / "bare.jsonl"
    assert call("import", file, "--out", bare, "--no-texts").exit_code == 0
    assert set(json.loads(bare.read_text().splitlines()[0])) == {
        "model_a", "model_b", "winner", "source", "question_id", "voter", "timestamp",
    }  # fmt: skip


REVIEW = {"model_a": "x", "model_b": "y", "win_1": "tie", "win_2": "model_a", "question_id": 1,
          "tstamp": 1687222800.0}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (
            "counts.csv",
            "model_a,model_b,a_wins,b_wins\nx,y,10,20\n",
            (
                r"read 2 battles of 2 models, total weight 30, .*: pair counts \(pair-counts\)\n"
                r"the file has no question id, no voter, no time: .*every battle as independent\n"
            ),
        ),
        ("review.jsonl", json.dumps(REVIEW), r"read .*\nthe file has no judge\n"),
    ],
)
def test_what_a_file_does_not_say_is_said(name: str, text: str, told: str, tmp_path: Path) -> None:
    """What a file does not have, and what that means, is a sentence."""
    (tmp_path / name).write_text(text)
    done = call("import", tmp_path / name, "--out", tmp_path / "battles.csv")
    assert re.match(told, done.stdout), done.stdout


def test_columns_are_named_by_options(crowd: Path, tmp_path: Path) -> None:
    """A file in no known format is read once its columns are named."""
    out = tmp_path / "battles.jsonl"
    refused = call("import", crowd, "--out", out, *MAPPED)
    assert refused.exit_code == 2
    assert "crowd.csv:4: unknown winner 'skip'" in refused.stderr
    assert not out.exists()
    words = (*MAPPED, "--value", "skip=")
    done = call("import", crowd, "--out", out, *words)
    assert done.exit_code == 0
    assert "left out 1 rows with vote 'skip'" in done.stderr
    assert "columns as they were named" in done.stdout
    found = [
        (b.model_a, str(b.winner), b.question_id, b.voter) for b in read_battles(out).to_battles()
    ]
    assert found == [("x", "model_a", "q1", "ann"), ("y", "model_b", "q2", "bob")]
    direct = call("rate", crowd, "--json", *words)
    assert direct.stdout == call("rate", out, "--json").stdout != ""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--value", "left"], "--value 'left': expected LABEL=OUTCOME"),
        (["--value", "left=first"], "value 'left': unknown winner 'first'; allowed: model_a"),
        (["--format", "elo"], "unknown format 'elo'; allowed: arena-kit, fastchat"),
        (["--format", "scores", "--winner", "vote"], "a format (scores) and columns are named"),
        (["--format", "scores"], "missing column question_id, model, score; found: left, right"),
        (["--winner", "votes"], "missing column model_a, model_b, votes; found: left, right"),
    ],
)
def test_wrong_options_are_one_sentence(words: list[str], why: str, crowd: Path) -> None:
    """A wrong option ends with exit 2, and says what is allowed."""
    done = call("import", crowd, "--out", crowd.parent / "out.csv", *words)
    assert done.exit_code == 2
    assert why in done.stderr
    assert not (crowd.parent / "out.csv").exists()


def test_llmfao_is_imported(data: Path, tmp_path: Path) -> None:
    """Totals are the published ones; rating/test_golden.py holds the ratings to the golden."""
    out = tmp_path / "llmfao.parquet"
    done = call(
        "import", data / "llmfao" / "crowd-comparisons.csv.gz", "--out", out,
        "--model-a", "left", "--model-b", "right", "--question", "prompt", "--voter", "worker",
        "--value", "left=model_a", "--value", "right=model_b",
    )  # fmt: skip
    assert "read 8,931 battles of 59 models" in done.stdout
    log = read_battles(out)
    assert np.bincount(log.outcome).tolist() == [2_911, 2_549, 3_471]
    assert log.voter is not None
    assert (len(log.prompts), len(log.voter.names)) == (13, 124)
