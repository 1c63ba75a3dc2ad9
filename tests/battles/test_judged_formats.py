"""Files of judging tools and chat clients, written by hand from their fields."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from arena_kit import Battle, BradleyTerry, DataError, read_battles, write_battles
from arena_kit.battles.read import LeftOutWarning, read_battle_texts
from arena_kit.battles.readers.formats import format_of
from arena_kit.cli.main import main
from tests.samples import ROOT

Rows = Sequence[Mapping[str, Any]]


def lines(path: Path, rows: Rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def array(path: Path, rows: Rows) -> Path:
    path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    return path


# Arena-Hard


def judgment(uid: str, first: str | None, second: str | None) -> dict[str, Any]:
    games = [{"score": score, "judgment": "…", "prompt": []} for score in (first, second)]
    return {
        "uid": uid, "category": "hard_prompt", "judge": "gpt-4.1", "model": "m", "baseline": "o3",
        "games": games,
    }  # fmt: skip


def graded(share: float | None, winner: str, uid: str, *, inconsistent: bool = False) -> Battle:
    return Battle(
        model_a="m", model_b="o3", winner=winner, share_a=share, inconsistent=inconsistent,
        question_id=uid, dimension="hard_prompt", judge_model="gpt-4.1", source="llm-judge",
    )  # fmt: skip


def test_arena_hard_counts_strong_verdicts_thrice(tmp_path: Path) -> None:
    """The baseline is A in the first game and B in the second; by hand: a strong win and a tie are
    (3 × 1 + 1 × ½) / 4 = 0.875, a weak loss and a strong win (1 × 0 + 3 × 1) / 4 = 0.75, in
    which the games contradict each other.
    """
    file = lines(
        tmp_path / "m.jsonl",
        [
            judgment("both", "B>>A", "A>B"),
            judgment("lost", "A>B", "B>>A"),
            judgment("tied", "A=B", "A=B"),
            judgment("won and tied", "A=B", "A>>B"),
            judgment("contradicting", "A>B", "A>>B"),
            judgment("even", "A>B", "A>B"),
        ],
    )
    assert format_of(file).name == "arena-hard"
    assert list(read_battles(file).to_battles()) == [
        graded(None, "model_a", "both"),
        graded(None, "model_b", "lost"),
        graded(None, "tie", "tied"),
        graded(0.875, "model_a", "won and tied"),
        graded(0.75, "tie", "contradicting", inconsistent=True),
        graded(None, "tie", "even", inconsistent=True),
    ]


def test_arena_hard_without_a_verdict_is_left_out(tmp_path: Path) -> None:
    """A game that is null, or whose score is, leaves no battle, and is counted."""
    none: dict[str, Any] = judgment("x", "A>B", "A>B")
    none["games"] = [None, {"score": "A>B"}]
    file = lines(
        tmp_path / "m.jsonl", [judgment("y", "A>B", "B>A"), none, judgment("z", None, "A=B")]
    )
    with pytest.warns(LeftOutWarning, match="left out 2 judgments with a game that has no verdict"):
        assert len(read_battles(file)) == 1


@pytest.mark.parametrize(
    ("pairs", "rate"),
    [
        ([("B>A", "A>B"), ("A>B", "A>B"), ("A=B", "A=B"), ("B>A", "A=B")], (2 + 1 + 1 + 1.5) / 8),
        ([("A>B", "A>>B")], 3 / 4),
    ],
)
def test_arena_hards_own_win_rate_comes_out(
    tmp_path: Path, pairs: list[tuple[str, str]], rate: float
) -> None:
    """With contradictions counted, the model's expected share is Arena-Hard's score, the mean over
    both games of all, strong verdicts thrice.
    """
    file = lines(tmp_path / "m.jsonl", [judgment(str(n), *p) for n, p in enumerate(pairs)])
    ratings = BradleyTerry(inconsistent="tie", prior=0)(read_battles(file))
    gap = ratings["m"].rating - ratings["o3"].rating
    assert 1 / (1 + 10 ** (-gap / 400)) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("games", "why"),
    [
        ([{"score": "A>B"}, {"score": "A>>>B"}], "a game's score is none of A>>B, A>B, A=B"),
        ([{"score": "A>B"}], "games is not a list of two games"),
        ("both won", "games is not a list of two games"),
    ],
)
def test_a_damaged_judgment_is_named(tmp_path: Path, games: object, why: str) -> None:
    """What a game cannot end in, and a list that is none, are refused with their line."""
    wrong = judgment("x", "A>B", "A>B") | {"games": games}
    file = lines(tmp_path / "m.jsonl", [judgment("y", "A>B", "A>B"), wrong])
    with pytest.raises(DataError, match=rf"m\.jsonl:2: {why}"):
        read_battles(file)


# AlpacaEval


def annotation(preference: float | None) -> dict[str, Any]:
    return {
        "dataset": "koala", "instruction": "Say hi.", "output_1": "Hi.", "generator_1": "gpt4",
        "output_2": "Hello.", "generator_2": "mine", "annotator": "weighted",
        "preference": preference,
    }  # fmt: skip


def test_alpaca_eval_preferences_are_shares(tmp_path: Path) -> None:
    """The share of generator_2 is preference − 1, 1.5 (and 0, an older draw) is a tie, and what
    has no preference is left out; the same instruction is the same question.
    """
    wanted = [1.0, 1.25, 1.5, 0, 1.9, 2, None]
    file = array(tmp_path / "annotations.json", [annotation(p) for p in wanted])
    assert format_of(file).name == "alpaca-eval"
    with pytest.warns(LeftOutWarning, match="left out 1 annotations without a preference"):
        log = read_battles(file)
    battles = list(log.to_battles())
    assert [str(b.winner) for b in battles] == [
        "model_a", "model_a", "tie", "tie", "model_b", "model_b",
    ]  # fmt: skip
    assert [b.share_a for b in battles] == [None, 0.75, None, None, pytest.approx(0.1), None]
    assert {(b.model_a, b.model_b, b.judge_model) for b in battles} == {
        ("gpt4", "mine", "weighted")
    }
    assert len(log.prompts) == 1


def test_alpaca_eval_has_texts(tmp_path: Path) -> None:
    """The instruction and both outputs are the texts of a battle."""
    _, texts = read_battle_texts(array(tmp_path / "annotations.json", [annotation(1)]))
    assert (texts.prompt[0], texts.response_a[0], texts.response_b[0]) == (
        "Say hi.", "Hi.", "Hello.",
    )  # fmt: skip


def test_a_preference_beyond_its_scale_is_named(tmp_path: Path) -> None:
    """3 is no preference; the line is the one on which the annotation begins."""
    file = array(tmp_path / "annotations.json", [annotation(1), annotation(3)])
    with pytest.raises(DataError, match=r"\.json:3: preference is not a number from 1 to 2"):
        read_battles(file)


# Open WebUI

CHAT = {
    "u1": {"id": "u1", "role": "user", "content": "Why?"},
    "a1": {"id": "a1", "parentId": "u1", "model": "x", "content": "Because."},
    "a2": {"id": "a2", "parentId": "u1", "model": "y", "content": "No idea."},
}


def feedback(rating: object, siblings: list[str] | None, **changes: Any) -> dict[str, Any]:
    return {
        "id": "f", "user_id": "ann", "version": 0, "type": "rating",
        "data": {"rating": rating, "model_id": "x", "sibling_model_ids": siblings, "reason": ""},
        "meta": {"arena": True, "chat_id": "c1", "message_id": "a1", "tags": []},
        "snapshot": {"chat": {"chat": {"history": {"messages": CHAT}}}},
        "created_at": 1700000000, "updated_at": 1700000000,
    } | changes  # fmt: skip


def test_open_webui_ratings_beside_others_are_battles(tmp_path: Path) -> None:
    """1 beats every model beside it, −1 loses to each, also as text; the user is the voter and the
    chat the question. A rating of one model alone, or of neither sign, is no battle.
    """
    file = array(
        tmp_path / "feedback.json",
        [
            feedback(1, ["y"]),
            feedback("-1", ["y", "z", "x"]),
            feedback(1, None),
            feedback(1, []),
            feedback(None, ["y"]),
        ],
    )
    assert format_of(file).name == "open-webui"
    with pytest.warns(LeftOutWarning) as warned:
        log = read_battles(file)
    assert [str(w.message).partition("left out ")[2] for w in warned] == [
        "1 entries that are no rating of 1 or -1",
        "2 ratings of one model alone",
    ]
    shared = {
        "source": "human", "voter": "ann", "question_id": "c1",
        "timestamp": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
    }  # fmt: skip
    assert list(log.to_battles()) == [
        Battle(model_a="x", model_b="y", winner="model_a", **shared),
        Battle(model_a="x", model_b="y", winner="model_b", **shared),
        Battle(model_a="x", model_b="z", winner="model_b", **shared),
    ]


def test_open_webui_has_texts_in_its_snapshot(tmp_path: Path) -> None:
    """The message above the rated one is the prompt, its other child the sibling's answer."""
    file = array(tmp_path / "feedback.json", [feedback(1, ["y", "z"])])
    _, texts = read_battle_texts(file)
    assert list(texts.prompt) == ["Why?", "Why?"]
    assert list(texts.response_a) == ["Because.", "Because."]
    assert list(texts.response_b) == ["No idea.", None]


def test_damaged_feedback_is_named(tmp_path: Path) -> None:
    """Data that is no object is refused with the line of its entry."""
    file = array(tmp_path / "feedback.json", [feedback(1, ["y"]), feedback(1, ["y"], data="good")])
    with pytest.raises(DataError, match=r"\.json:3: data or meta is not an object"):
        read_battles(file)


# orq-arena


def battle(verdict: str, **changes: Any) -> dict[str, Any]:
    votes = [
        {"model": "o/b", "vote": "A", "flipped": False, "completed": True, "replacement": False},
        {"model": "o/a", "vote": None, "flipped": True, "completed": True, "replacement": False},
        {"model": "o/z", "vote": "A", "flipped": False, "completed": True, "replacement": True},
    ]
    return {
        "schema_version": 3, "prompt_hash": "b6a6", "prompt_text": "Why?", "prompt_category": "x",
        "model_a": "x", "model_b": "y", "response_a": "Because.", "response_b": "No idea.",
        "judge_votes": votes, "majority_verdict": verdict, "winner": "x", "error": None,
        "timestamp": 1700000000.0, "tournament_id": "t", "match_id": "M1", "round_number": 1,
    } | changes  # fmt: skip


def test_orq_arena_majorities_are_battles(tmp_path: Path) -> None:
    """The panel is named without stand-ins, a round without a majority is inconsistent, a voided
    one left out; version 4 has the models' full names.
    """
    rows = [
        battle("A"),
        battle("tie", winner="tie"),
        battle("inconclusive", winner="inconclusive"),
        battle("inconclusive", winner="void", error="stream failed"),
        battle("B", schema_version=4, model_a_id="p/x", model_b_id="q/y"),
    ]
    file = lines(tmp_path / "battles.jsonl", rows)
    assert format_of(file).name == "orq-arena"
    with pytest.warns(LeftOutWarning, match="left out 1 rounds that were voided"):
        found = list(read_battles(file).to_battles())
    shared = {
        "source": "llm-judge", "judge_model": "o/a, o/b", "question_id": "b6a6",
        "timestamp": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC),
    }  # fmt: skip
    assert found == [
        Battle(model_a="x", model_b="y", winner="model_a", **shared),
        Battle(model_a="x", model_b="y", winner="tie", **shared),
        Battle(model_a="x", model_b="y", winner="tie", inconsistent=True, **shared),
        Battle(model_a="p/x", model_b="q/y", winner="model_b", **shared),
    ]
    _, texts = read_battle_texts(lines(tmp_path / "one.jsonl", rows[:1]))
    assert (texts.prompt[0], texts.response_b[0]) == ("Why?", "No idea.")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"majority_verdict": "C"}, "majority_verdict is none of A, B, tie, inconclusive"),
        ({"judge_votes": "all"}, "judge_votes is not a list"),
    ],
)
def test_a_damaged_round_is_named(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    """A verdict that is none and votes that are no list are refused with their line."""
    file = lines(tmp_path / "battles.jsonl", [battle("A"), battle("A", **changes)])
    with pytest.raises(DataError, match=rf"battles\.jsonl:2: {why}"):
        read_battles(file)


# AutoArena

_TABLES = """
CREATE TABLE judge (id INTEGER PRIMARY KEY, judge_type TEXT, name TEXT);
CREATE TABLE model (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE response (id INTEGER PRIMARY KEY, model_id INTEGER, prompt TEXT, response TEXT);
CREATE TABLE head_to_head (id INTEGER PRIMARY KEY, response_a_id INTEGER, response_b_id INTEGER,
                           judge_id INTEGER, created TEXT, winner TEXT);
INSERT INTO judge VALUES (1, 'human', 'Human'), (2, 'openai', 'gpt-x');
INSERT INTO model VALUES (1, 'x'), (2, 'y');
INSERT INTO response VALUES (1, 1, 'Why?', 'Because.'), (2, 2, 'Why?', 'No idea.');
"""


def project(path: Path, *winners: tuple[int, str]) -> Path:
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(_TABLES)
        for judge, winner in winners:
            db.execute(
                "INSERT INTO head_to_head (response_a_id, response_b_id, judge_id, created, winner)"
                " VALUES (1, 2, ?, '2023-11-14 22:13:20', ?)",
                (judge, winner),
            )
    return path


def test_autoarena_votes_of_people_and_judges(tmp_path: Path) -> None:
    """A, B and - are the outcomes; a judge is named, people are one."""
    file = project(tmp_path / "p.sqlite", (1, "A"), (2, "B"), (2, "-"))
    assert format_of(file).name == "autoarena"
    log, texts = read_battle_texts(file)
    found = [(str(b.winner), str(b.source), b.judge_model, b.battle_id) for b in log.to_battles()]
    assert found == [
        ("model_a", "human", None, "1"),
        ("model_b", "llm-judge", "gpt-x", "2"),
        ("tie", "llm-judge", "gpt-x", "3"),
    ]
    assert log.models == ("x", "y")
    assert len(log.prompts) == 1
    assert (texts.prompt[0], texts.response_a[0], texts.response_b[0]) == (
        "Why?", "Because.", "No idea.",
    )  # fmt: skip


def test_damaged_projects_are_named(tmp_path: Path) -> None:
    """A vote for nobody is refused with its row; a cut file, and a database of something else."""
    with pytest.raises(DataError, match=r"p\.sqlite row 1: unknown winner 'C'"):
        read_battles(project(tmp_path / "p.sqlite", (1, "A"), (1, "C")))
    whole = (tmp_path / "p.sqlite").read_bytes()
    (tmp_path / "cut.sqlite").write_bytes(whole[:2000])
    with pytest.raises(DataError, match=r"cut\.sqlite: not a whole SQLite database"):
        read_battles(tmp_path / "cut.sqlite")
    with closing(sqlite3.connect(tmp_path / "other.db")) as db, db:
        db.execute("CREATE TABLE songs (title TEXT)")
    with pytest.raises(DataError, match=r"other\.db: .* found: songs"):
        read_battles(tmp_path / "other.db")


def test_a_database_is_not_written(tmp_path: Path) -> None:
    """Battles go into a table of ours, not into a file with the suffix of a database."""
    log = read_battles(project(tmp_path / "p.sqlite", (1, "A")))
    with pytest.raises(DataError, match=r"q\.sqlite: SQLite is read, not written"):
        write_battles(tmp_path / "q.sqlite", log)


# All of them


@pytest.mark.parametrize(
    ("file", "name", "rows"),
    [
        ("model_judgment.jsonl", "arena-hard", [judgment("x", "A>B", "B>A")]),
        ("annotations.json", "alpaca-eval", [annotation(1.25)]),
        ("feedback.json", "open-webui", [feedback(1, ["y"])]),
        ("orq_battles.jsonl", "orq-arena", [battle("A")]),
        ("project.sqlite", "autoarena", []),
    ],
)
def test_the_documented_import_works(
    file: str, name: str, rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command of docs/formats.md imports the file it names, and says which format it is."""
    monkeypatch.chdir(tmp_path)
    if name == "autoarena":
        project(Path(file), (1, "A"))
    else:
        (lines if file.endswith(".jsonl") else array)(Path(file), rows)
    command = f"arena-kit import {file} --out battles.parquet"
    assert f"$ {command}\n" in (ROOT / "docs" / "formats.md").read_text()
    done = CliRunner().invoke(main, command.split()[1:])
    assert done.exit_code == 0, done.stderr
    assert f"({name})" in done.stdout
    assert len(read_battles("battles.parquet")) == 1
