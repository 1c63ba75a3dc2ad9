"""Other tools' files: recognised by looking at them, read as their makers mean them."""

import csv
import gzip
import io
import json
import sqlite3
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from arena_kit import Columns, read_battles, write_battles
from arena_kit.battles.battle import Battle
from arena_kit.battles.content import Pictures, made_content, spoken
from arena_kit.battles.log import BattleLog
from arena_kit.battles.read import LeftOutWarning, read_battle_texts
from arena_kit.battles.readers.formats import FORMATS, format_of
from arena_kit.cli.main import main
from arena_kit.files import DataError
from tests.samples import ROOT

Row = Mapping[str, Any]
Rows = Sequence[Row]
PAGE = ROOT / "docs" / "formats.md"
TEXT_FILES = (".json", ".json.gz", ".jsonl", ".jsonl.gz", ".csv", ".csv.gz")


def written(path: Path, rows: Rows) -> Path:
    """Rows as JSON, JSONL, CSV (JSON in cells), Parquet or an AutoArena project, by name."""
    if path.suffix == ".sqlite":
        return project(path, *((row["judge"], row["winner"]) for row in rows))
    if path.suffix == ".parquet":
        lines = written(path.with_suffix(".jsonl"), rows)
        with duckdb.connect() as con:
            con.execute(f"COPY (FROM read_json_auto('{lines}')) TO '{path}' (FORMAT parquet)")
        return path
    texts = [json.dumps(row) for row in rows]
    match path.name.split(".")[1]:
        case "json":
            text = "[\n" + ",\n".join(texts) + "\n]\n"
        case "jsonl":
            text = "".join(f"{each}\n" for each in texts)
        case _:
            text = _table(rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def _table(rows: Rows) -> str:
    out = io.StringIO()
    table = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    table.writeheader()
    for row in rows:
        nested = {name: json.dumps(v) for name, v in row.items() if isinstance(v, list | dict)}
        table.writerow({**row, **nested})
    return out.getvalue()


def said(*turns: str) -> list[dict[str, str]]:
    """A conversation of the user and a model by turns."""
    return [{"role": ("user", "assistant")[n % 2], "content": t} for n, t in enumerate(turns)]


def answers(*turns: str) -> str:
    """A response of several turns; the user writes every second."""
    return made_content(said("", *turns)[1:], Pictures(), response=True)


def parts(*turns: str) -> list[dict[str, Any]]:
    """The same, with contents that are lists of parts."""
    talk = said(*turns)
    return [each | {"content": [{"type": "text", "text": each["content"]}]} for each in talk]


def battle(a: str, b: str, winner: str, **more: object) -> Battle:
    return Battle(**({"model_a": a, "model_b": b, "winner": winner} | more))  # type: ignore[arg-type]


def judged(a: str, b: str, winner: str, **more: object) -> Battle:
    return battle(a, b, winner, source="llm-judge", **more)


def records(log: BattleLog) -> list[Battle]:
    return list(log.to_battles())


def outcomes(path: Path) -> list[tuple[str, bool]]:
    """The winner of each battle of a file, and whether it is inconsistent."""
    return [(str(each.winner), each.inconsistent) for each in read_battles(path).to_battles()]


def at(*moment: int) -> datetime:
    return datetime(*moment, tzinfo=UTC)  # type: ignore[misc, arg-type]


JUNE = 1687222800.0, at(2023, 6, 20, 1)
NOVEMBER = 1700000000, at(2023, 11, 14, 22, 13, 20)

CLEAN: Rows = [
    {"model_a": a, "model_b": b, "winner": winner, "judge": f"arena_user_{n}", "turn": turn,
     "anony": anony, "language": language, "tstamp": JUNE[0]}
    for a, b, winner, n, turn, anony, language in [
        ("vicuna", "koala", "model_a", 7, 1, True, "English"),
        ("koala", "alpaca", "tie (bothbad)", 8, 2, True, "German"),
        ("koala", "alpaca", "model_b", 8, 1, False, "German"),
    ]
]  # fmt: skip
VOTED = [
    battle("vicuna", "koala", "model_a", voter="arena_user_7", timestamp=JUNE[1]),
    battle("koala", "alpaca", "both_bad", voter="arena_user_8", timestamp=JUNE[1]),
]
TALKS = [
    {"conversation_a": said(*mine), "conversation_b": said(*theirs)}
    for mine, theirs in [
        (("Hi", "Hello"), ("Hi", "Yo")),
        (("Why?", "Because", "But why?", "Hm"), ("Why?", "No idea", "But why?", "Oh")),
        (("So?", "Yes"), ("So?", "No")),
    ]
]
CONVERSATIONS: Rows = [
    {"question_id": f"q{n}", **row, **talk}
    for n, (row, talk) in enumerate(zip(CLEAN, TALKS, strict=True))
]
SHOWN = ["1 votes with the models' names shown (anony is false)"]


def vote_55k(number: int, winner: str, prompt: str = '["Hi"]') -> dict[str, Any]:
    """A row of the 55k file; lists are JSON in text."""
    names = ("winner_model_a", "winner_model_b", "winner_tie")
    return {
        "id": number, "model_a": "gpt-4", "model_b": "llama", "prompt": prompt,
        "response_a": '["Hello", "Again"]', "response_b": '["Yo", null]',
        **{name: int(name == winner) for name in names},
    }  # fmt: skip


VOTES_100K: Rows = [
    {
        "question_id": "58210e39", "model_a": "gpt-4o", "model_b": "yi", "winner": "tie (bothbad)",
        **TALKS[1], "turn": 2, "anony": True, "language": "English", "tstamp": JUNE[0],
        "category_tag": {"math_v0.1": {"math": False}}, "judge_hash": "d6e6c2",
    },
]  # fmt: skip
VOTES_140K: Rows = [
    {
        "id": "a1", "evaluation_session_id": "s1", "evaluation_order": 2, "model_a": "gpt-5",
        "model_b": "o3", "winner": "both_bad", "conversation_a": parts("Hi", "Hello"),
        "conversation_b": parts("Hi", "Yo"),
        "full_conversation": [{"user": parts("So?")[0]}, {"user": parts("Hi")[0]}],
        "language": "pl", "timestamp": "2025-07-10T12:00:00",
    },
]  # fmt: skip
COMPARIA: Rows = [
    {
        "id": n, "timestamp": "2025-01-31T08:00:00", "model_a_name": "mistral",
        "model_b_name": "gemma", "chosen_model_name": chosen, "both_equal": equal,
        "conversation_a": said("Bonjour", "Salut"), "conversation_b": said("Bonjour", "Oui"),
    }
    for n, (chosen, equal) in enumerate(
        [("mistral", False), ("gemma", False), (None, True), (None, False)]
    )
]  # fmt: skip


def pair_judgment(first: str | None, second: str | None) -> dict[str, Any]:
    """A pair judgment of MT-bench: who won each game, in the names of the pair."""
    return {
        "question_id": 81, "model_1": "alpaca", "model_2": "claude", "g1_winner": first,
        "g2_winner": second, "judge": ["gpt-4", "pair-v2"], "turn": 1, "tstamp": JUNE[0],
    }  # fmt: skip


GRADES: Rows = [
    {
        "question_id": 81, "model": model, "judge": ["gpt-4", "single-v1"], "turn": turn,
        "score": score, "tstamp": JUNE[0],
    }
    for turn, scores in {1: {"a": 9, "b": 7, "c": 7}, 2: {"a": 5, "b": -1, "c": 8}}.items()
    for model, score in scores.items()
]  # fmt: skip
MT_VOTES: Rows = [
    {
        "question_id": 81, "model_a": "a", "model_b": "b", "turn": 1, **TALKS[1],
        "winner": winner, "judge": judge,
    }
    for winner, judge in [("model_b", "expert_17"), ("tie (inconsistent)", "gpt4_pair")]
]  # fmt: skip
REVIEW = {
    "model_a": "qwen", "model_b": "llama", "anony": True, "tstamp": JUNE[0], "language": "en",
    "question_id": 7, "category": "math", "question": "1 + 1?",
}  # fmt: skip
REVIEWED_ONCE: Rows = [{**REVIEW, "scores": [8, 9], "win": "model_b", "review_text": "8 9"}]
GRADED: Rows = [
    {**REVIEW, "model": model, "score": score, "review_text": "[[8]]"}
    for model, score in [("qwen", 8), ("llama", 9.5)]
]


def review(first: str, second: str) -> dict[str, Any]:
    return {**REVIEW, "win_1": first, "win_2": second, "review_text_1": "9", "review_text_2": "8"}


def games(uid: str, first: str | None, second: str | None) -> dict[str, Any]:
    """A judgment of Arena-Hard: the baseline is A in the first game and B in the second."""
    played = [{"score": score, "judgment": "…", "prompt": []} for score in (first, second)]
    return {"uid": uid, "category": "hard_prompt", "judge": "gpt-4.1", "model": "m",
            "baseline": "o3", "games": played}  # fmt: skip


def graded(share: float | None, winner: str, uid: str, *, inconsistent: bool = False) -> Battle:
    return judged("m", "o3", winner, share_a=share, inconsistent=inconsistent, question_id=uid,
                  dimension="hard_prompt", judge_model="gpt-4.1")  # fmt: skip


def annotation(preference: float | None) -> dict[str, Any]:
    """An annotation of AlpacaEval."""
    return {
        "dataset": "koala", "instruction": "Say hi.", "output_1": "Hi.", "generator_1": "gpt4",
        "output_2": "Hello.", "generator_2": "mine", "annotator": "weighted",
        "preference": preference,
    }  # fmt: skip


CHAT = {
    "u1": {"id": "u1", "role": "user", "content": "Why?"},
    "a1": {"id": "a1", "parentId": "u1", "model": "x", "content": "Because."},
    "a2": {"id": "a2", "parentId": "u1", "model": "y", "content": "No idea."},
}


def feedback(rating: object, siblings: list[str] | None, **changes: Any) -> dict[str, Any]:
    """An entry of Open WebUI's feedback."""
    return {
        "id": "f", "user_id": "ann", "version": 0, "type": "rating",
        "data": {"rating": rating, "model_id": "x", "sibling_model_ids": siblings, "reason": ""},
        "meta": {"arena": True, "chat_id": "c1", "message_id": "a1", "tags": []},
        "snapshot": {"chat": {"chat": {"history": {"messages": CHAT}}}},
        "created_at": NOVEMBER[0], "updated_at": NOVEMBER[0],
    } | changes  # fmt: skip


FED_BACK = {"voter": "ann", "question_id": "c1", "timestamp": NOVEMBER[1]}


def round_of(verdict: str, **changes: Any) -> dict[str, Any]:
    """A round of orq-arena."""
    votes = [
        {"model": "o/b", "vote": "A", "flipped": False, "completed": True, "replacement": False},
        {"model": "o/a", "vote": None, "flipped": True, "completed": True, "replacement": False},
        {"model": "o/z", "vote": "A", "flipped": False, "completed": True, "replacement": True},
    ]
    return {
        "prompt_hash": "b6a6", "prompt_text": "Why?", "model_a": "x", "model_b": "y",
        "response_a": "Because.", "response_b": "No idea.", "judge_votes": votes,
        "majority_verdict": verdict, "winner": "x", "error": None, "timestamp": NOVEMBER[0],
    } | changes  # fmt: skip


PANEL = {"judge_model": "o/a, o/b", "question_id": "b6a6", "timestamp": NOVEMBER[1]}
PROJECT = f"""
CREATE TABLE judge (id INTEGER PRIMARY KEY, judge_type TEXT, name TEXT);
CREATE TABLE model (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE response (id INTEGER PRIMARY KEY, model_id INTEGER, prompt TEXT, response TEXT);
CREATE TABLE head_to_head (id INTEGER PRIMARY KEY, response_a_id INTEGER, response_b_id INTEGER,
    judge_id INTEGER, winner TEXT, created TEXT DEFAULT '{NOVEMBER[1]:%F %T}');
INSERT INTO judge VALUES (1, 'human', 'Human'), (2, 'openai', 'gpt-x');
INSERT INTO model VALUES (1, 'x'), (2, 'y');
INSERT INTO response VALUES (1, 1, 'Why?', 'Because.'), (2, 2, 'Why?', 'No idea.');
"""


def project(path: Path, *votes: tuple[int, str]) -> Path:
    """An AutoArena project with votes: the judge's number and the winner."""
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(PROJECT)
        vote = "INSERT INTO head_to_head (response_a_id, response_b_id, judge_id, winner)"
        db.executemany(f"{vote} VALUES (1, 2, ?, ?)", votes)
    return path


SCORES: Rows = [
    {"question_id": q, "model": model, "score": score}
    for q, model, score in [("q1", "a", 3), ("q2", "a", 0.5), ("q1", "b", 4), ("q1", "c", 3.0),
                            ("q2", "c", -2)]
]  # fmt: skip
COUNTS: Rows = [
    {"model_a": a, "model_b": b, "a_wins": w, "b_wins": v, "ties": t, "tie_bothbad": bad}
    for a, b, w, v, t, bad in [("beech", "ash", 3, 1, 2, 0), ("007", "ash", 0, 4, 0, 0.5)]
]


class Example(NamedTuple):
    """A file as docs/formats.md calls it: rows, battles (or outcomes), what is left out, texts."""

    file: str
    rows: Rows
    battles: list[Battle] | list[tuple[str, bool]]
    left_out: Sequence[str] = ()
    texts: tuple[str, str, str] | None = None
    turns: Sequence[int] | None = None


YES, TIED, FLIPPED = ("model_a", False), ("tie", False), ("tie", True)
NO, BAD = ("model_b", False), ("both_bad", False)
EXAMPLES = {
    "fastchat": Example("clean_battle.json", CLEAN, VOTED, SHOWN),
    "fastchat-conversations": Example(
        "chatbot_arena_conversations.parquet", CONVERSATIONS,
        [replace(row, question_id=f"q{n}") for n, row in enumerate(VOTED)], SHOWN,
        ("Hi", "Hello", "Yo"), [1, 2],
    ),
    "lmarena-55k": Example(
        "train.csv",
        [vote_55k(1, "winner_model_a", '["Hi", "And?"]'), vote_55k(2, "winner_model_b"),
         vote_55k(3, "winner_tie")],
        [battle("gpt-4", "llama", winner, battle_id=str(n))
         for n, winner in enumerate(["model_a", "model_b", "tie"], 1)],
        texts=("Hi", answers("Hello", "And?", "Again"), answers("Yo", "And?", "")), turns=[2, 1, 1],
    ),
    "lmarena-100k": Example(
        "arena-human-preference-100k.parquet", VOTES_100K,
        [battle("gpt-4o", "yi", "both_bad", question_id="58210e39", voter="d6e6c2",
                timestamp=JUNE[1])],
        texts=("Why?", answers("Because", "But why?", "Hm"), answers("No idea", "But why?", "Oh")),
        turns=[2],
    ),
    "lmarena-140k": Example(
        "arena-human-preference-140k.parquet", VOTES_140K,
        [battle("gpt-5", "o3", "both_bad", battle_id="a1", session="s1",
                timestamp=at(2025, 7, 10, 12))],
        texts=("Hi", "Hello", "Yo"), turns=[2],
    ),
    "comparia": Example(
        "comparia-votes.parquet", COMPARIA,
        [battle("mistral", "gemma", winner, battle_id=str(n), timestamp=at(2025, 1, 31, 8))
         for n, winner in enumerate(["model_a", "model_b", "tie"])],
        ["1 rows without a vote"], ("Bonjour", "Salut", "Oui"), [1, 1, 1],
    ),
    "mt-bench-pairs": Example(
        "gpt-4_pair.jsonl",
        [pair_judgment(*game) for game in [
            ("model_1", "model_1"), ("model_2", "model_2"), ("tie", "tie"), ("model_1", "model_2"),
            ("tie", "model_1"), ("error", "model_1"), ("tie", "error")]],
        [judged("alpaca", "claude", winner, inconsistent=flipped, question_id="81",
                judge_model="gpt-4", timestamp=JUNE[1])
         for winner, flipped in [YES, NO, TIED, FLIPPED, FLIPPED]],
        ["2 judgments with an error"],
    ),
    "mt-bench-grades": Example(
        "gpt-4_single.jsonl", GRADES,
        [judged(*pair, winner, question_id="81", judge_model="gpt-4") for pair, winner in [
            ("ab", "model_a"), ("ac", "model_a"), ("bc", "tie"), ("ac", "model_b")]],
        ["2 pairs with an error for a grade (-1)"],
    ),
    "mt-bench-votes": Example(
        "mt_bench_human_judgments.parquet", MT_VOTES,
        [battle("a", "b", "model_b", question_id="81", voter="expert_17"),
         judged("a", "b", "tie", question_id="81", judge_model="gpt4_pair", inconsistent=True)],
        texts=("Why?", "Because", "No idea"), turns=[1, 1],
    ),
    "evalscope": Example(
        "review_gpt4.jsonl",
        [review(*game) for game in [("model_a", "model_a"), ("model_b", "model_a"), ("tie", "tie"),
                                    ("unknown", "tie"), ("tie_both_bad", "tie_both_bad")]],
        [YES, FLIPPED, TIED, BAD], ["1 reviews without a verdict"],
    ),
    "evalscope-one-order": Example(
        "review_gpt4_once.jsonl", REVIEWED_ONCE,
        [judged("qwen", "llama", "model_b", question_id="7", timestamp=JUNE[1])],
    ),
    "evalscope-grades": Example("review_gpt4_grades.jsonl", GRADED, [NO]),
    "arena-hard": Example(
        "model_judgment.jsonl",
        [games("both", "B>>A", "A>B"), games("lost", "A>B", "B>>A"), games("tied", "A=B", "A=B"),
         games("won and tied", "A=B", "A>>B"), games("contradicting", "A>B", "A>>B"),
         games("even", "A>B", "A>B"), games("none", None, "A=B"),
         games("null", "A>B", "A>B") | {"games": [None, {"score": "A>B"}]}],
        [graded(None, "model_a", "both"), graded(None, "model_b", "lost"),
         graded(None, "tie", "tied"), graded(0.875, "model_a", "won and tied"),
         graded(0.75, "tie", "contradicting", inconsistent=True),
         graded(None, "tie", "even", inconsistent=True)],
        ["2 judgments with a game that has no verdict"],
    ),
    "alpaca-eval": Example(
        "annotations.json", [annotation(p) for p in [1.0, 1.25, 1.5, 0, 2, None]],
        [YES, YES, TIED, TIED, NO], ["1 annotations without a preference"],
        ("Say hi.", "Hi.", "Hello."),
    ),
    "open-webui": Example(
        "feedback.json",
        [feedback(1, ["y"]), feedback("-1", ["y", "z", "x"]), feedback(1, None), feedback(1, []),
         feedback(None, ["y"])],
        [battle("x", "y", "model_a", **FED_BACK), battle("x", "y", "model_b", **FED_BACK),
         battle("x", "z", "model_b", **FED_BACK)],
        ["1 entries that are no rating of 1 or -1", "2 ratings of one model alone"],
        ("Why?", "Because.", "No idea."),
    ),
    "orq-arena": Example(
        "orq_battles.jsonl",
        [round_of("A"), round_of("tie", winner="tie"),
         round_of("inconclusive", winner="inconclusive"),
         round_of("inconclusive", winner="void", error="stream failed"),
         round_of("B", model_a_id="p/x", model_b_id="q/y")],
        [judged("x", "y", "model_a", **PANEL), judged("x", "y", "tie", **PANEL),
         judged("x", "y", "tie", inconsistent=True, **PANEL),
         judged("p/x", "q/y", "model_b", **PANEL)],
        ["1 rounds that were voided"], ("Why?", "Because.", "No idea."),
    ),
    "autoarena": Example(
        "project.sqlite",
        [{"judge": 1, "winner": "A"}, {"judge": 2, "winner": "B"}, {"judge": 2, "winner": "-"}],
        [YES, NO, TIED], texts=("Why?", "Because.", "No idea."),
    ),
    "judgearena": Example(
        "judgearena.parquet",
        [{"model_a": "x", "model_b": "y", "winner": winner, "pref": pref, "source": source,
          "judge_model": "gpt" if source == "llm-judge" else None, "question_id": "q",
          "orientation": order} for winner, pref, source, order in [
            ("model_a", 0.0, "llm-judge", "single"), ("model_b", 0.75, "llm-judge", "direct"),
            ("tie", None, "llm-judge", "single"), ("tie (bothbad)", 0.5, "human", None)]],
        [judged("x", "y", "model_a", question_id="q", judge_model="gpt"),
         judged("x", "y", "model_b", question_id="q", judge_model="gpt", share_a=0.25, weight=0.5),
         battle("x", "y", "both_bad", question_id="q")],
        ["1 battles without a preference (an unparsable judgment, written as a tie)"],
    ),
    "crowd-kit": Example(
        "comparisons.tsv",
        [{"worker": "w", "left": "x", "right": "y", "label": label} for label in "xy"],
        [battle("x", "y", "model_a", voter="w"), battle("x", "y", "model_b", voter="w")],
    ),
    "evalica": Example(
        "llmfao.csv", [{"left": "x", "right": "y", "winner": w} for w in ("left", "right", "tie")],
        [YES, NO, TIED],
    ),
    "scores": Example(
        "scores.csv", SCORES,
        [battle(a, b, winner, question_id=q) for q, a, b, winner in [
            ("q1", "a", "b", "model_b"), ("q1", "a", "c", "tie"), ("q1", "b", "c", "model_a"),
            ("q2", "a", "c", "model_a")]],
    ),
    "pair-counts": Example(
        "pair_counts.csv", COUNTS,
        [battle("beech", "ash", "model_a", weight=3), battle("beech", "ash", "model_b"),
         battle("beech", "ash", "tie", weight=2), battle("007", "ash", "model_b", weight=4),
         battle("007", "ash", "both_bad", weight=0.5)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_every_format_is_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is recognised, its rows are the battles written down here."""
    monkeypatch.chdir(tmp_path)
    file, rows, expected, left_out, texts, turns = EXAMPLES[name]
    path = written(Path(file), rows)
    assert format_of(path).name == name
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log, spoken = read_battle_texts(path) if texts else (read_battles(path), None)
    assert [str(each.message).partition("left out ")[2] for each in caught] == list(left_out)
    found: Any = records(log)
    if not isinstance(expected[0], Battle):
        found = [(str(each.winner), each.inconsistent) for each in found]
    assert found == expected
    if spoken is not None:
        assert (spoken.prompt[0], spoken.response_a[0], spoken.response_b[0]) == texts
        assert turns is None or spoken.turns.tolist() == turns
    command = f"arena-kit import {file} --out battles.parquet"
    assert f"$ {command}\n" in PAGE.read_text()
    done = CliRunner().invoke(main, command.split()[1:])
    assert done.exit_code == 0, done.stderr
    assert f"({name})" in done.stdout
    assert len(read_battles("battles.parquet")) == len(expected)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "autoarena"])
def test_a_format_is_recognised_in_any_order_and_file(name: str, tmp_path: Path) -> None:
    """Neither the order of columns, nor one that nobody knows, nor the kind of file matters."""
    cells = [*EXAMPLES[name].rows[0].items(), ("x", 1)]
    shuffle = Random(name).sample
    for suffix in TEXT_FILES:
        row = dict(shuffle(cells, len(cells)))
        assert format_of(written(tmp_path / f"votes{suffix}", [row])).name == name


def test_every_format_is_named_once_and_documented() -> None:
    """A format has a name of its own, a title, and a row in the table of docs/formats.md."""
    names = [each.name for each in FORMATS]
    assert len(set(names)) == len({each.needs for each in FORMATS}) == len(names) == 24
    assert set(EXAMPLES) | {"arena-kit", "vote-store"} == set(names)
    for each in FORMATS:
        assert each.title
        assert f"\n| `{each.name}` |" in PAGE.read_text(), each.name


def test_a_wrong_row_is_named_with_its_line(tmp_path: Path) -> None:
    """What a tool cannot have meant is not guessed at: file, line or row, and what is wrong."""
    for name, place, wrong, message in (
        ("lmarena-55k", ":3", {"winner_tie": 1}, "not one of winner_model_a, .* is 1"),
        ("lmarena-55k", ":3", {"winner_model_a": 0}, "not one of"),
        ("lmarena-55k", ":3", {"winner_tie": "maybe"}, "not one of"),
        ("comparia", " row 1", {"chosen_model_name": "gpt-4"}, "chosen_model_name is neither of"),
        ("comparia", " row 1", {"both_equal": True}, "both_equal is true, and a model is chosen"),
        ("mt-bench-pairs", ":2", {"g2_winner": "model_3"}, "g2_winner is none of model_1, model_2"),
        ("arena-hard", ":2", {"games": [{"score": "A>B"}, {"score": "A>>>B"}]},
         "a game's score is none of A>>B, A>B, A=B"),
        ("arena-hard", ":2", {"games": [{"score": "A>B"}]}, "games is not a list of two games"),
        ("arena-hard", ":2", {"games": "both won"}, "games is not a list of two games"),
        ("alpaca-eval", ":3", {"preference": 3}, "preference is not a number from 1 to 2"),
        ("open-webui", ":3", {"data": "good"}, "data or meta is not an object"),
        ("orq-arena", ":2", {"majority_verdict": "C"}, "majority_verdict is none of A, B, tie"),
        ("orq-arena", ":2", {"judge_votes": "all"}, "judge_votes is not a list"),
        ("autoarena", " row 1", {"winner": "C"}, "unknown winner 'C'"),
        ("scores", ":3", {"score": "inf"}, "score is not a finite number"),
        ("scores", ":3", {"question_id": None}, "question_id is missing"),
        ("scores", ":3", {"model": "a"}, "both models are 'a'"),
        ("judgearena", " row 1", {"pref": 1.2}, "pref is not a number from 0 to 1"),
        ("judgearena", " row 1", {"pref": 0.7}, "winner is not what pref says"),
        ("crowd-kit", ":3", {"label": "z"}, "label is neither left nor right"),
        ("pair-counts", ":3", {"b_wins": -1}, "b_wins is not a finite number >= 0"),
        ("pair-counts", ":3", {"b_wins": "nan"}, "b_wins is not a finite number >= 0"),
        ("pair-counts", ":3", {"ties": None}, "ties is missing"),
        ("pair-counts", ":3", {"model_b": "beech"}, "both models are 'beech'"),
        ("pair-counts", ":3", {"model_a": None}, "model_a is missing"),
    ):  # fmt: skip
        first = EXAMPLES[name].rows[0]
        path = written(tmp_path / EXAMPLES[name].file, [first, {**first, **wrong}])
        with pytest.raises(DataError, match=rf"{path.stem}\.\w+{place}: .*{message}"):
            read_battles(path)


@pytest.mark.filterwarnings("ignore::arena_kit.battles.read.LeftOutWarning")
@pytest.mark.parametrize(
    ("name", "column", "line"), [("lmarena-55k", "prompt", 5), ("comparia", "conversation_a", 6)]
)
def test_a_damaged_conversation_is_named(name: str, column: str, line: int, tmp_path: Path) -> None:
    """A conversation that is not JSON is refused where texts are asked for; votes are read."""
    rows = EXAMPLES[name].rows
    path = written(tmp_path / "cut.csv", [*rows, {**rows[0], "id": 99, column: '["cut sho'}])
    with pytest.raises(DataError, match=rf"cut\.csv:{line}: prompt cannot be read from {column}"):
        read_battle_texts(path)
    assert len(read_battles(path)) > 1


def test_a_damaged_database_is_named(tmp_path: Path) -> None:
    """A cut or foreign database is named; lines count rows that are left out."""
    whole, cut, other = (tmp_path / name for name in ("p.sqlite", "cut.sqlite", "other.db"))
    cut.write_bytes(project(whole, (1, "A")).read_bytes()[:2000])
    with closing(sqlite3.connect(other)) as db, db:
        db.execute("CREATE TABLE songs (title TEXT)")
    for path, why in ((cut, "not a whole SQLite database"), (other, ".* found: songs")):
        with pytest.raises(DataError, match=f"{path.name}: {why}"):
            read_battles(path)
    with pytest.raises(DataError, match=r"q\.sqlite: sqlite files are read, not written"):
        write_battles(tmp_path / "q.sqlite", read_battles(whole))
    wrong = {**CLEAN[0], "winner": "draw"}
    places = {".json": ":3", ".jsonl": ":2", ".csv": ":3", ".json.gz": ":3", ".parquet": " row 1"}
    for suffix, place in places.items():
        with pytest.raises(DataError, match=rf"v{suffix}{place}: unknown winner 'draw'"):
            read_battles(written(tmp_path / f"v{suffix}", [CLEAN[2], wrong]))


GOOD = '{"model_a": "x", "model_b": "y", "winner": "tie"}'


def test_a_damaged_array_is_named_with_its_line(tmp_path: Path) -> None:
    """A damaged array, and a wrong row however it is laid out, is named with its line."""
    for text, where in (
        (f'[\n{GOOD},\n{{"model_a": ]\n', ":3: not valid JSON"),
        (f"[\n{GOOD}\n", ":3: not valid JSON"),
        (f"[{GOOD},\n 5]\n", ":2: expected a JSON object"),
        ('[{"model_a": NaN, "model_b": "y", "winner": "tie"}]', ": .*NaN is not a JSON number"),
    ):
        (tmp_path / "bad.json").write_text(text)
        (tmp_path / "bad.json.gz").write_bytes(gzip.compress(text.encode()))
        for name in ("bad.json", "bad.json.gz"):
            with pytest.raises(DataError, match=f"{name}{where}"):
                read_battles(tmp_path / name)
    for indent in (None, 1, 2):
        good, path = json.loads(GOOD), tmp_path / "array.json"
        rows = [{**good, "remark": text} for text in ("\n{[", '"\\', "", "}\u2028", "樺")]
        text = json.dumps(
            [*rows, {**good, "model_a": "WRONG", "winner": "draw"}, good], indent=indent
        )
        path.write_text(text)
        opening = text[: text.index('"WRONG"')].rindex("{")
        with pytest.raises(
            DataError, match=rf":{text[:opening].count(chr(10)) + 1}: unknown winner"
        ):
            read_battles(path)


def test_what_other_writers_do_to_a_file_is_undone(tmp_path: Path) -> None:
    """Odd files are read as meant, chats with what came before, judges as far as known."""
    path = tmp_path / "lines.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in CLEAN[:2]))
    assert records(read_battles(path)) == VOTED
    one_hot = {"winner_model_a": 0.0, "winner_model_b": 1.0, "winner_tie": 0.0}
    assert outcomes(written(tmp_path / "train.csv", [vote_55k(1, "") | one_hot])) == [NO]
    equal = [{**COMPARIA[2], "both_equal": 1.0}, {**COMPARIA[0], "both_equal": 0.0}]
    assert outcomes(written(tmp_path / "votes.csv", equal)) == [TIED, YES]
    prompts = [r'["\ud83d\ude00 or \ud83d?"]', '["\\"Quoted\\"\\nline"]']
    rows = [vote_55k(n, "winner_tie", prompt) for n, prompt in enumerate(prompts)]
    _, texts = read_battle_texts(written(tmp_path / "train.csv", rows))
    assert texts.prompt.tolist() == ["\U0001f600 or \ufffd?", '"Quoted"\nline']
    picture = {"type": "image", "text": None, "image": "x.png"}
    words = [{"type": "text", "text": "Look:"}, picture, {"type": "text", "text": "a cat"}]
    answer = [{"role": "user", "content": words}, {"role": "assistant", "content": words[:1]}]
    rows = [{**VOTES_140K[0], "conversation_a": answer}]
    with pytest.warns(LeftOutWarning, match=r"votes\.jsonl:1: prompt .*'x\.png' is missing.*: 1$"):
        _, texts = read_battle_texts(written(tmp_path / "votes.jsonl", rows))
    assert (texts.prompt[0], texts.response_b[0]) == (None, "Yo")
    log = read_battles(written(tmp_path / "v.parquet", VOTES_100K), covariates=["length"])
    assert log.covariates["length"].tolist() == [pytest.approx(-1 / 5)]
    Image.new("RGB", (3, 3)).save(tmp_path / "house.png")
    start = {
        "s0": {"id": "s0", "role": "user", "content": "Look.", "files": [{"url": "house.png"}]},
        "s1": {"id": "s1", "parentId": "s0", "role": "assistant", "content": "A house."},
    }
    chat = start | CHAT | {"u1": CHAT["u1"] | {"parentId": "s1"}}
    row = feedback(1, ["y"], snapshot={"chat": {"chat": {"history": {"messages": chat}}}})
    _, texts = read_battle_texts(written(tmp_path / "feedback.json", [row]))
    prompt = texts.prompt[0]
    assert [message.role for message in prompt.messages] == ["user", "assistant", "user"]
    assert [part.kind for part in prompt.messages[0].parts] == ["text", "image"]
    assert (spoken(prompt), texts.response_b[0]) == ("A house.", "No idea.")
    path = written(tmp_path / "pair.jsonl", [pair_judgment("tie", "tie") | {"judge": "gpt-4"}])
    assert records(read_battles(path))[0].judge_model == "gpt-4"
    rows = [{**MT_VOTES[0], "judge": "gpt-4o"}, *MT_VOTES]
    log = read_battles(written(tmp_path / "votes.jsonl", rows))
    assert log.columns()["source"].tolist() == [None, "human", "llm-judge"]
    rows = [annotation(p) for p in (1.0, 1.25, 1.9, 2)]
    log = read_battles(written(tmp_path / "annotations.json", rows))
    assert [b.share_a for b in log.to_battles()] == [None, 0.75, pytest.approx(0.1), None]
    assert len(log.prompts) == 1


def test_the_published_counts_add_up(data: Path) -> None:
    """The 1.67M votes, recognised by looking at them, have the totals that their README states."""
    log = read_battles(data / "chatbot_arena_1m7_counts" / "pair_counts.csv.gz")
    assert (len(log.models), log.weights().sum()) == (129, 1_670_250)
    by_outcome = np.bincount(log.outcome, log.weights(), minlength=4)
    assert by_outcome.tolist() == [595_570, 498_305, 281_121, 295_254]
    assert len(log.pair_counts()["model_a"]) == 3_460


def test_an_unknown_file_is_told_what_it_lacks(tmp_path: Path) -> None:
    """An unknown file is told the nearest format, and read once its columns are named."""
    path = tmp_path / "votes.csv"
    path.write_text("left,right,vote,model_a\nx,y,left,z\n")
    with pytest.raises(DataError) as refused:
        read_battles(path)
    assert str(refused.value) == (
        f"{path}: missing column winner for the nearest format, evalica; found: left, "
        "right, vote, model_a; name the format with format= or the columns with "
        "columns=Columns(model_a=…, values={'left': 'model_a'})"
    )
    path = written(tmp_path / "votes.jsonl", CLEAN[:2])
    assert read_battles(path, format="arena-kit").voter is None
    with pytest.raises(DataError, match="unknown format 'fast'; allowed: arena-kit, fastchat, "):
        read_battles(path, format="fast")
    with pytest.raises(DataError, match=r"a format \(fastchat\) and columns are named"):
        read_battles(path, format="fastchat", columns=Columns(winner="vote"))
    with pytest.raises(DataError, match=r"missing column .*g1_winner, g2_winner; found: "):
        read_battles(written(tmp_path / "votes.csv", CLEAN), format="mt-bench-pairs")
    with pytest.raises(DataError, match="no texts of battles: missing column prompt, response_a"):
        read_battle_texts(path)
    path = tmp_path / "votes.csv"
    path.write_text("l,r,vote,item,who\nx,y,left,q1,ann\ny,x,right,q1,bob\nx,y,draw,q2,ann\n")
    labels = {"left": "model_a", "right": "model_b", "draw": "tie"}
    sides = {"model_a": "l", "model_b": "r", "winner": "vote"}
    columns = Columns(**sides, question="item", voter="who", values=labels)
    assert records(read_battles(path, columns=columns)) == [
        battle("x", "y", "model_a", question_id="q1", voter="ann"),
        battle("y", "x", "model_b", question_id="q1", voter="bob"),
        battle("x", "y", "tie", question_id="q2", voter="ann"),
    ]
    del labels["draw"]
    with pytest.raises(DataError, match=r"votes\.csv:4: unknown winner 'draw'"):
        read_battles(path, columns=replace(columns, values=labels))
    with pytest.raises(DataError, match="missing column voters; found: l, r, vote"):
        read_battles(path, columns=Columns(**sides, voter="voters"))
    with pytest.raises(DataError, match="value 'left': unknown winner 'a_model'"):
        Columns(values={"left": "a_model"})
    awkward = """vo"te'; DROP TABLE raw --"""
    path = written(tmp_path / "v.jsonl", [{"model_a": "x", "model_b": "y", awkward: "it's"}])
    columns = Columns(winner=awkward, values={"it's": "model_b"})
    assert [str(b.winner) for b in records(read_battles(path, columns=columns))] == ["model_b"]
