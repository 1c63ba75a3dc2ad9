"""Other tools' files: recognised by looking at them, read as their makers mean them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from arena_kit.battles.battle import Battle
from arena_kit.battles.files import LeftOutWarning, read_battles
from arena_kit.battles.readers.formats import format_of
from arena_kit.battles.texts import read_battle_texts
from arena_kit.files import DataError

Rows = Sequence[Mapping[str, Any]]


def written(path: Path, rows: Rows) -> Path:
    """Rows as a JSON array or as JSONL, gzipped where the name says so."""
    if ".jsonl" in path.name:
        text = "".join(json.dumps(row) + "\n" for row in rows)
    else:
        text = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def said(*turns: str) -> list[dict[str, str]]:
    """A conversation of the user and a model by turns."""
    return [
        {"role": "assistant" if n % 2 else "user", "content": text} for n, text in enumerate(turns)
    ]


# FastChat

CLEAN: Rows = [
    {
        "model_a": "vicuna-13b", "model_b": "koala-13b", "winner": "model_a",
        "judge": "arena_user_7", "turn": 1, "anony": True, "language": "English",
        "tstamp": 1682351591.1322,
    },
    {
        "model_a": "koala-13b", "model_b": "alpaca-13b", "winner": "tie (bothbad)",
        "judge": "arena_user_8", "turn": 2, "anony": True, "language": "German",
        "tstamp": 1682351654.6666,
    },
    {
        "model_a": "koala-13b", "model_b": "alpaca-13b", "winner": "model_b",
        "judge": "arena_user_8", "turn": 1, "anony": False, "language": "German",
        "tstamp": 1682351700.0,
    },
]  # fmt: skip


@pytest.mark.parametrize("name", ["clean.json", "clean.json.gz", "clean.jsonl", "lines.json"])
def test_fastchat_votes_by_hand(name: str, tmp_path: Path) -> None:
    """The judge is the voter, the stamp a time; a vote cast with the names shown is left out."""
    path = written(tmp_path / name, CLEAN)
    if name == "lines.json":
        path.write_text("".join(json.dumps(row) + "\n" for row in CLEAN))
    with pytest.warns(LeftOutWarning, match=r"left out 1 votes with the models' names shown"):
        log = read_battles(path)
    assert format_of(path).name == "fastchat"
    assert list(log.to_battles()) == [
        Battle(
            model_a="vicuna-13b", model_b="koala-13b", winner="model_a", voter="arena_user_7",
            timestamp=datetime(2023, 4, 24, 15, 53, 11, 132200, UTC), source="human",
        ),
        Battle(
            model_a="koala-13b", model_b="alpaca-13b", winner="both_bad", voter="arena_user_8",
            timestamp=datetime(2023, 4, 24, 15, 54, 14, 666600, UTC), source="human",
        ),
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore::arena_kit.battles.files.LeftOutWarning")
def test_fastchat_conversations_by_hand(tmp_path: Path) -> None:
    """The release with conversations has questions, and the texts of every battle."""
    talks = [
        {"conversation_a": said("Hi", "Hello"), "conversation_b": said("Hi", "Yo")},
        {
            "conversation_a": said("Why?", "Because", "But why?", "Hm"),
            "conversation_b": said("Why?", "No idea", "But why?", "Oh"),
        },
        {"conversation_a": [], "conversation_b": []},
    ]
    rows = [
        row | talk | {"question_id": f"q{n}"}
        for n, (row, talk) in enumerate(zip(CLEAN, talks, strict=True))
    ]
    path = written(tmp_path / "conversations.jsonl", rows)
    log, texts = read_battle_texts(path)
    assert format_of(path).name == "fastchat-conversations"
    assert log.prompts == ("q0", "q1")
    assert texts.prompt.tolist() == ["Hi", "Why?"]
    assert texts.response_a.tolist() == ["Hello", "Because"]
    assert texts.response_b.tolist() == ["Yo", "No idea"]
    assert texts.turns.tolist() == [1, 2]
    assert texts.language.tolist() == ["English", "German"]


def test_a_wrong_fastchat_vote_is_named_with_its_line(tmp_path: Path) -> None:
    """The line is the file's, also after a vote that was left out and in an array."""
    wrong = {**CLEAN[0], "winner": "draw"}
    for name, line in {"votes.json": 3, "votes.jsonl": 2}.items():
        path = written(tmp_path / name, [CLEAN[2], wrong])
        with pytest.raises(DataError, match=rf"{name}:{line}: unknown winner 'draw'"):
            read_battles(path)
