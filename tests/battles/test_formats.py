"""Other tools' files: recognised by looking at them, read as their makers mean them.

The rows are written by hand from the fields that each tool documents.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit import Columns, read_battles
from arena_kit.battles.battle import Battle
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
    """Rows as JSON array, JSONL, CSV (JSON in its cells) or Parquet, by the file's name."""
    if path.suffix == ".parquet":
        lines = written(path.with_suffix(".jsonl"), rows)
        with duckdb.connect() as con:
            con.execute(f"COPY (FROM read_json_auto('{lines}')) TO '{path}' (FORMAT parquet)")
        return path
    text = {".json": _array, ".jsonl": _lines, ".csv": _table}["." + path.name.split(".")[1]](rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def _array(rows: Rows) -> str:
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"


def _lines(rows: Rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


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
    return [
        {"role": "assistant" if n % 2 else "user", "content": text} for n, text in enumerate(turns)
    ]


def parts(*turns: str) -> list[dict[str, Any]]:
    """The same, with contents that are lists of parts."""
    return [
        {"role": each["role"], "content": [{"type": "text", "text": each["content"]}]}
        for each in said(*turns)
    ]


def battle(a: str, b: str, winner: str, **more: object) -> Battle:
    return Battle(**({"model_a": a, "model_b": b, "winner": winner} | more))  # type: ignore[arg-type]


def records(log: BattleLog) -> list[Battle]:
    return list(log.to_battles())


def outcomes(log: BattleLog) -> list[tuple[str, bool]]:
    """The winner of each battle, and whether it is inconsistent."""
    return [(str(each.winner), each.inconsistent) for each in log.to_battles()]


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
VOTED = [
    battle(
        "vicuna-13b", "koala-13b", "model_a", voter="arena_user_7",
        timestamp=datetime(2023, 4, 24, 15, 53, 11, 132200, UTC),
    ),
    battle(
        "koala-13b", "alpaca-13b", "both_bad", voter="arena_user_8",
        timestamp=datetime(2023, 4, 24, 15, 54, 14, 666600, UTC),
    ),
]  # fmt: skip
TALKS = [
    {"conversation_a": said("Hi", "Hello"), "conversation_b": said("Hi", "Yo")},
    {
        "conversation_a": said("Why?", "Because", "But why?", "Hm"),
        "conversation_b": said("Why?", "No idea", "But why?", "Oh"),
    },
    {"conversation_a": said("So?", "Yes"), "conversation_b": said("So?", "No")},
]
CONVERSATIONS: Rows = [
    {"question_id": f"q{n}", **row, **talk}
    for n, (row, talk) in enumerate(zip(CLEAN, TALKS, strict=True))
]


@pytest.mark.parametrize("suffix", TEXT_FILES)
def test_fastchat_votes_by_hand(suffix: str, tmp_path: Path) -> None:
    """The judge is the voter, the stamp a time; a vote cast with the names shown is left out."""
    path = written(tmp_path / f"clean{suffix}", CLEAN)
    with pytest.warns(LeftOutWarning, match=r"left out 1 votes with the models' names shown"):
        log = read_battles(path)
    assert format_of(path).name == "fastchat"
    assert records(log) == VOTED


def test_lines_under_the_name_of_an_array_are_read(tmp_path: Path) -> None:
    """A file called .json that holds a row per line is read as what it is."""
    path = tmp_path / "lines.json"
    path.write_text(_lines(CLEAN[:2]))
    assert records(read_battles(path)) == VOTED


@pytest.mark.filterwarnings("ignore::arena_kit.battles.read.LeftOutWarning")
@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".csv", ".parquet"])
def test_fastchat_conversations_by_hand(suffix: str, tmp_path: Path) -> None:
    """The release with conversations has questions, and the texts of every battle."""
    path = written(tmp_path / f"conversations{suffix}", CONVERSATIONS)
    log, texts = read_battle_texts(path)
    assert format_of(path).name == "fastchat-conversations"
    assert log.prompts == ("q0", "q1")
    assert texts.prompt.tolist() == ["Hi", "Why?"]
    assert texts.response_a.tolist() == ["Hello", "Because"]
    assert texts.response_b.tolist() == ["Yo", "No idea"]
    assert texts.turns.tolist() == [1, 2]
    assert texts.language.tolist() == ["English", "German"]


# LMArena's votes

ONE_HOT = ("winner_model_a", "winner_model_b", "winner_tie")


def vote_55k(number: int, winner: str, prompt: str = '["Hi"]') -> dict[str, Any]:
    """A row of the 55k file; lists are JSON in text."""
    return {
        "id": number, "model_a": "gpt-4", "model_b": "llama-13b", "prompt": prompt,
        "response_a": '["Hello", "Again"]', "response_b": '["Yo", null]',
        **{name: int(name == winner) for name in ONE_HOT},
    }  # fmt: skip


def test_lmarena_55k_by_hand(tmp_path: Path) -> None:
    """One of three columns is 1: the winner; prompt and answers are the first of their lists."""
    rows = [
        vote_55k(30192, "winner_model_a", '["Hi", "And?"]'),
        vote_55k(53567, "winner_model_b", r'["\ud83d\ude00 or \ud83d?"]'),
        vote_55k(65089, "winner_tie", '["\\"Quoted\\"\\nline"]'),
    ]
    path = written(tmp_path / "train.csv", rows)
    log, texts = read_battle_texts(path)
    assert format_of(path).name == "lmarena-55k"
    assert records(log) == [
        battle("gpt-4", "llama-13b", "model_a", battle_id="30192"),
        battle("gpt-4", "llama-13b", "model_b", battle_id="53567"),
        battle("gpt-4", "llama-13b", "tie", battle_id="65089"),
    ]
    assert texts.prompt.tolist() == ["Hi", "\U0001f600 or \ufffd?", '"Quoted"\nline']
    assert texts.response_a.tolist() == ["Hello"] * 3
    assert texts.turns.tolist() == [2, 1, 1]


def test_numbers_that_pandas_wrote_are_the_same_votes(tmp_path: Path) -> None:
    """A column with holes becomes one of floats in pandas: 1.0 is still a one, and a yes."""
    one_hot = {"winner_model_a": 0.0, "winner_model_b": 1.0, "winner_tie": 0.0}
    path = written(tmp_path / "train.csv", [vote_55k(1, "") | one_hot])
    assert outcomes(read_battles(path)) == [("model_b", False)]
    equal = [{**COMPARIA[2], "both_equal": 1.0}, {**COMPARIA[0], "both_equal": 0.0}]
    path = written(tmp_path / "votes.csv", equal)
    assert outcomes(read_battles(path)) == [("tie", False), ("model_a", False)]


def test_a_vote_for_two_is_refused_with_its_line(tmp_path: Path) -> None:
    """A row of the 55k file with no winner, or two, is not guessed at."""
    for wrong in ({"winner_tie": 1}, {"winner_model_a": 0}, {"winner_tie": "maybe"}):
        rows = [vote_55k(1, "winner_tie"), vote_55k(2, "winner_model_a") | wrong]
        path = written(tmp_path / "train.csv", rows)
        with pytest.raises(DataError, match=r"train\.csv:3: not one of winner_model_a, .* is 1"):
            read_battles(path)


VOTES_100K: Rows = [
    {
        "question_id": "58210e39", "model_a": "gpt-4o", "model_b": "yi-large",
        "winner": "tie (bothbad)", **TALKS[1], "turn": 2, "anony": True, "language": "English",
        "tstamp": 1718837310.45, "conv_metadata": {"sum_user_tokens": 12}, "is_code": False,
        "is_refusal": False, "dedup_tag": {"high_freq": False, "sampled": True},
        "category_tag": {"math_v0.1": {"math": False}}, "judge_hash": "d6e6c2",
    },
]  # fmt: skip
VOTES_140K: Rows = [
    {
        "id": "a1", "evaluation_session_id": "s1", "evaluation_order": 2, "model_a": "gpt-5",
        "model_b": "o3", "winner": "both_bad", "conversation_a": parts("Hi", "Hello"),
        "conversation_b": parts("Hi", "Yo"),
        "full_conversation": [{"user": parts("So?")[0]}, {"user": parts("Hi")[0]}],
        "conv_metadata": {"turns": 1}, "category_tag": {"math_v0.1": {"math": False}},
        "language": "pl", "is_code": False, "timestamp": "2025-07-10T12:00:00",
    },
]  # fmt: skip


def test_lmarena_100k_by_hand(tmp_path: Path) -> None:
    """The hash of the judge is the voter; conversations are lists of structs in Parquet."""
    path = written(tmp_path / "votes.parquet", VOTES_100K)
    log, texts = read_battle_texts(path)
    assert format_of(path).name == "lmarena-100k"
    assert records(log) == [
        battle(
            "gpt-4o", "yi-large", "both_bad", question_id="58210e39", voter="d6e6c2",
            timestamp=datetime(2024, 6, 19, 22, 48, 30, 450000, UTC),
        )
    ]  # fmt: skip
    assert (texts.prompt[0], texts.response_a[0], texts.response_b[0]) == (
        "Why?", "Because", "No idea",
    )  # fmt: skip
    assert (texts.language[0], texts.turns[0]) == ("English", 2)


def test_lmarena_140k_by_hand(tmp_path: Path) -> None:
    """Contents are lists of parts; turns count what was said before in the session, too."""
    path = written(tmp_path / "votes.parquet", VOTES_140K)
    log, texts = read_battle_texts(path)
    assert format_of(path).name == "lmarena-140k"
    assert records(log) == [
        battle(
            "gpt-5", "o3", "both_bad", battle_id="a1", session="s1",
            timestamp=datetime(2025, 7, 10, 12, 0, tzinfo=UTC),
        )
    ]  # fmt: skip
    assert (texts.prompt[0], texts.response_a[0], texts.response_b[0]) == ("Hi", "Hello", "Yo")
    assert (texts.language[0], texts.turns[0]) == ("pl", 2)


def test_an_answer_with_a_picture_keeps_its_texts(tmp_path: Path) -> None:
    """Of the parts of a content, those with a text are joined by lines."""
    picture = {"type": "image", "text": None, "image": "x.png"}
    words = [{"type": "text", "text": "Look:", "image": None}, picture]
    words.append({"type": "text", "text": "a cat", "image": None})
    answer = [{"role": "user", "content": words}, {"role": "assistant", "content": words[:1]}]
    rows = [{**VOTES_140K[0], "conversation_a": answer}]
    _, texts = read_battle_texts(written(tmp_path / "votes.jsonl", rows))
    assert (texts.prompt[0], texts.response_a[0]) == ("Look:\na cat", "Look:")


def test_style_is_controlled_for_from_conversations(tmp_path: Path) -> None:
    """A covariate of style is measured on the answers within conversations: 1 word against 2."""
    found = read_battles(written(tmp_path / "v.parquet", VOTES_100K), covariates=["length"])
    assert found.covariates is not None
    assert found.covariates["length"].tolist() == [pytest.approx(-1 / 3)]


# Votes of compar:IA

COMPARIA: Rows = [
    {
        "id": 1, "timestamp": "2025-01-31T08:00:00", "model_a_name": "mistral-large",
        "model_b_name": "gemma-2", "chosen_model_name": chosen, "both_equal": equal,
        "conversation_a": said("Bonjour", "Salut"), "conversation_b": said("Bonjour", "Oui"),
    }
    | {"id": n}
    for n, (chosen, equal) in enumerate(
        [("mistral-large", False), ("gemma-2", False), (None, True), (None, False)]
    )
]  # fmt: skip


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".csv"])
def test_comparia_votes_by_hand(suffix: str, tmp_path: Path) -> None:
    """The chosen model wins, both equal is a tie, and a row without a vote is left out."""
    path = written(tmp_path / f"votes{suffix}", COMPARIA)
    with pytest.warns(LeftOutWarning, match="left out 1 rows without a vote"):
        log, texts = read_battle_texts(path)
    assert format_of(path).name == "comparia"
    when = datetime(2025, 1, 31, 8, 0, tzinfo=UTC)
    assert records(log) == [
        battle("mistral-large", "gemma-2", winner, battle_id=str(n), timestamp=when)
        for n, winner in enumerate(["model_a", "model_b", "tie"])
    ]
    assert texts.response_b.tolist() == ["Oui"] * 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"chosen_model_name": "gpt-4"}, "chosen_model_name is neither of the two models"),
        ({"both_equal": True}, "both_equal is true, and a model is chosen"),
        ({"both_equal": "peut-être"}, "both_equal is not true or false"),
    ],
)
def test_a_contradicting_comparia_vote_is_refused(wrong: Row, message: str, tmp_path: Path) -> None:
    """A vote that contradicts itself is named with its line."""
    path = written(tmp_path / "votes.jsonl", [COMPARIA[2], {**COMPARIA[0], **wrong}])
    with pytest.raises(DataError, match=rf"votes\.jsonl:2: {message}"):
        read_battles(path)


# MT-bench


def judged(question: int, first: str, second: str) -> dict[str, Any]:
    """A pair judgment of MT-bench: who won each game, in the names of the pair."""
    return {
        "question_id": question, "model_1": "alpaca-13b", "model_2": "claude-v1",
        "g1_winner": first, "g2_winner": second, "judge": ["gpt-4", "pair-v2"],
        "g1_user_prompt": "…", "g1_judgment": "[[A]]", "g2_user_prompt": "…",
        "g2_judgment": "[[B]]", "turn": 1, "tstamp": 1687222800.0,
    }  # fmt: skip


def test_mt_bench_judgments_are_settled_as_ours(tmp_path: Path) -> None:
    """Games agree: their winner, or a tie; they disagree: inconsistent; an error: no battle."""
    games = [
        ("model_1", "model_1"), ("model_2", "model_2"), ("tie", "tie"), ("model_1", "model_2"),
        ("tie", "model_1"), ("error", "model_1"), ("tie", "error"),
    ]  # fmt: skip
    rows = [judged(81 + n, *game) for n, game in enumerate(games)]
    path = written(tmp_path / "gpt-4_pair.jsonl", rows)
    with pytest.warns(LeftOutWarning, match="left out 2 judgments with an error"):
        log = read_battles(path)
    assert format_of(path).name == "mt-bench-pairs"
    assert outcomes(log) == [
        ("model_a", False), ("model_b", False), ("tie", False), ("tie", True), ("tie", True),
    ]  # fmt: skip
    assert records(log)[0] == battle(
        "alpaca-13b", "claude-v1", "model_a", question_id="81", source="llm-judge",
        judge_model="gpt-4", timestamp=datetime(2023, 6, 20, 1, 0, tzinfo=UTC),
    )  # fmt: skip


def test_a_judge_named_by_a_text_is_the_judge(tmp_path: Path) -> None:
    """Without its template beside it, the judge is still read."""
    path = written(tmp_path / "pair.jsonl", [judged(81, "tie", "tie") | {"judge": "gpt-4"}])
    assert records(read_battles(path))[0].judge_model == "gpt-4"


@pytest.mark.parametrize("game", ["model_3", None])
def test_a_game_without_a_known_end_is_refused(game: str | None, tmp_path: Path) -> None:
    """A verdict outside the four words is named with its line, though another line is an error."""
    rows = [judged(81, "error", "tie"), judged(82, "tie", game)]  # type: ignore[arg-type]
    path = written(tmp_path / "gpt-4_pair.jsonl", rows)
    with pytest.raises(DataError, match=r":2: g2_winner is none of model_1, model_2, tie, error"):
        read_battles(path)


GRADES: Rows = [
    {
        "question_id": 81, "model": model, "judge": ["gpt-4", "single-v1"], "turn": turn,
        "user_prompt": "…", "judgment": "[[9]]", "score": score, "tstamp": 1687222800.0,
    }
    for turn, scores in {1: {"a": 9, "b": 7, "c": 7}, 2: {"a": 5, "b": -1, "c": 8}}.items()
    for model, score in scores.items()
]  # fmt: skip
VOTES: Rows = [
    {
        "question_id": 81, "model_a": "a", "model_b": "b", "turn": 1, **TALKS[1],
        "winner": winner, "judge": judge,
    }
    for winner, judge in [("model_b", "expert_17"), ("tie (inconsistent)", "gpt4_pair")]
]  # fmt: skip


def test_mt_bench_grades_become_battles(tmp_path: Path) -> None:
    """Grades of one turn meet each other: of two turns and three models there are 2 x 3 battles
    less the two of a grade that is an error.
    """
    path = written(tmp_path / "gpt-4_single.jsonl", GRADES)
    with pytest.warns(LeftOutWarning, match="left out 2 pairs with an error for a grade"):
        log = read_battles(path)
    assert format_of(path).name == "mt-bench-grades"
    judge = {"question_id": "81", "judge_model": "gpt-4", "source": "llm-judge"}
    assert records(log) == [
        battle("a", "b", "model_a", **judge),
        battle("a", "c", "model_a", **judge),
        battle("b", "c", "tie", **judge),
        battle("a", "c", "model_b", **judge),
    ]


def test_mt_bench_votes_by_hand(tmp_path: Path) -> None:
    """A person is a voter and GPT-4 a judge; its flipped verdict is an inconsistent tie."""
    path = written(tmp_path / "human.parquet", VOTES)
    log, texts = read_battle_texts(path)
    assert format_of(path).name == "mt-bench-votes"
    assert records(log) == [
        battle("a", "b", "model_b", question_id="81", voter="expert_17"),
        battle(
            "a", "b", "tie", question_id="81", judge_model="gpt4_pair", inconsistent=True,
            source="llm-judge",
        ),
    ]  # fmt: skip
    assert texts.turns.tolist() == [1, 1]


def test_a_stranger_among_the_judges_has_no_source(tmp_path: Path) -> None:
    """Whether a judge of another name is a person or a model is not guessed."""
    rows = [{**VOTES[0], "judge": "gpt-4o"}, *VOTES]
    log = read_battles(written(tmp_path / "votes.jsonl", rows))
    assert log.source is not None
    assert log.source.values().tolist() == [None, "human", "llm-judge"]
    assert len(records(log)) == 3


Votes = dict[tuple[str, str, str], list[str]]


def _by_question(path: Path, turn: int, *, experts: bool) -> Votes:
    """Who was preferred, per question and pair, by whom: names of models or `tie`."""
    log = read_battles(path, covariates=["turn"])
    assert log.covariates is not None
    voters = None if log.voter is None else log.voter.values()
    votes: Votes = {}
    for n, each in enumerate(log.to_battles()):
        if log.covariates["turn"][n] != turn or (experts and not voters[n].startswith("expert")):  # type: ignore[index]
            continue
        first, second = sorted((each.model_a, each.model_b))
        name = {"model_a": each.model_a, "model_b": each.model_b}.get(str(each.winner), "tie")
        votes.setdefault((str(each.question_id), first, second), []).append(name)
    return votes


@pytest.mark.parametrize(
    ("turn", "judge", "people"),
    [
        (1, [(886, 1343), (727, 859)], [(454, 721), (388, 479)]),
        (2, [(871, 1325), (731, 864)], [(471, 707), (388, 474)]),
    ],
)
def test_agreement_on_mt_bench_is_the_published_table(
    turn: int, judge: list[tuple[int, int]], people: list[tuple[int, int]], data: Path
) -> None:
    """Table 5 of Zheng et al. 2023, exactly: GPT-4 agrees with 66 % of the experts' votes and
    with 85 % where neither ties, experts among each other with 63 % and 81 % (turn 1).
    """
    folder = data / "mtbench_human_gpt4"
    gpt4 = _by_question(folder / "gpt4_pair.csv.gz", turn, experts=False)
    experts = _by_question(folder / "human.csv.gz", turn, experts=True)
    met = [(g, e) for key, votes in experts.items() for g in gpt4.get(key, []) for e in votes]
    twice = [
        (x, y) for votes in experts.values() for n, x in enumerate(votes) for y in votes[n + 1 :]
    ]
    for pairs, (every, decisive) in ((met, judge), (twice, people)):
        named = [(x, y) for x, y in pairs if "tie" not in (x, y)]
        assert (sum(x == y for x, y in pairs), len(pairs)) == every
        assert (sum(x == y for x, y in named), len(named)) == decisive


# Reviews of evalscope


def review(first: str, second: str) -> dict[str, Any]:
    return {
        "model_a": "qwen", "model_b": "llama", "win_1": first, "win_2": second, "anony": True,
        "tstamp": 1687222800.0, "language": "en", "question_id": 7, "category": "math",
        "question": "1 + 1?", "review_text_1": "9 8", "review_text_2": "8 9",
    }  # fmt: skip


def test_evalscope_reviews_by_hand(tmp_path: Path) -> None:
    """Both orders are settled as ours; a review that told nothing is left out."""
    games = [
        ("model_a", "model_a"), ("model_b", "model_a"), ("tie", "tie"), ("unknown", "tie"),
        ("tie_both_bad", "tie_both_bad"),
    ]  # fmt: skip
    path = written(tmp_path / "review.jsonl", [review(*game) for game in games])
    with pytest.warns(LeftOutWarning, match="left out 1 reviews without a verdict"):
        log = read_battles(path)
    assert format_of(path).name == "evalscope"
    assert outcomes(log) == [
        ("model_a", False), ("tie", True), ("tie", False), ("both_bad", False),
    ]  # fmt: skip
    assert log.prompts == ("7",)


REVIEWED_ONCE: Rows = [
    {
        "model_a": "qwen", "model_b": "llama", "scores": [8, 9], "win": "model_b", "anony": True,
        "tstamp": 1687222800.0, "language": "en", "question_id": 7, "category": "math",
        "question": "1 + 1?", "review_text": "8 9",
    }
]  # fmt: skip
GRADED: Rows = [
    {
        "model": model, "score": score, "anony": True, "tstamp": 1.0, "language": "en",
        "question_id": 7, "category": "math", "question": "1 + 1?", "review_text": "[[8]]",
    }
    for model, score in [("qwen", 8), ("llama", 9.5)]
]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "name"), [(REVIEWED_ONCE, "evalscope-one-order"), (GRADED, "evalscope-grades")]
)
def test_other_evalscope_reviews_by_hand(rows: Rows, name: str, tmp_path: Path) -> None:
    """A pair reviewed once is decided by that, and grades of single answers meet."""
    path = written(tmp_path / "review.jsonl", rows)
    assert format_of(path).name == name
    assert outcomes(read_battles(path)) == [("model_b", False)]


# Scores and counts

SCORES: Rows = [
    {"question_id": "q1", "model": "a", "score": 3},
    {"question_id": "q2", "model": "a", "score": 0.5},
    {"question_id": "q1", "model": "b", "score": 4},
    {"question_id": "q1", "model": "c", "score": 3.0},
    {"question_id": "q2", "model": "c", "score": -2},
]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_scores_become_battles_by_hand(suffix: str, tmp_path: Path) -> None:
    """Models with a score on the same question have met: higher wins, equal ties."""
    path = written(tmp_path / f"scores{suffix}", SCORES)
    assert format_of(path).name == "scores"
    assert [(b.model_a, b.model_b, str(b.winner)) for b in records(read_battles(path))] == [
        ("a", "b", "model_b"),
        ("a", "c", "tie"),
        ("b", "c", "model_a"),
        ("a", "c", "model_a"),
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"score": "n/a"}, "score is not a finite number"),
        ({"score": None}, "score is not a finite number"),
        ({"score": "inf"}, "score is not a finite number"),
        ({"question_id": None}, "question_id is missing"),
        ({"model": "a"}, "both models are 'a'"),
        ({"model": ""}, "model"),
    ],
)
def test_a_wrong_score_is_named_with_its_line(wrong: Row, message: str, tmp_path: Path) -> None:
    """A score that is none, or a model scored twice on a question, is not guessed at."""
    path = written(tmp_path / "scores.csv", [*SCORES[:3], {**SCORES[3], **wrong}, SCORES[4]])
    with pytest.raises(DataError, match=rf"scores\.csv:5: {message}"):
        read_battles(path)


@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("pqr"), st.sampled_from("abcd"), st.integers(-2, 2)),
                unique_by=lambda row: row[:2], min_size=2))  # fmt: skip
def test_scores_become_battles_as_two_loops_say(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, int]]
) -> None:
    """Any table of scores gives the battles that comparing all rows with all gives."""
    path = tmp_path_factory.mktemp("scores") / "scores.jsonl"
    written(path, [{"question_id": q, "model": m, "score": s} for q, m, s in rows])
    expected = [
        (q, m, n, "tie" if s == t else "model_a" if s > t else "model_b")
        for later, (q, n, t) in enumerate(rows)
        for p, m, s in rows[:later]
        if p == q
    ]
    found = [
        (b.question_id, b.model_a, b.model_b, str(b.winner)) for b in records(read_battles(path))
    ]
    assert found == expected


def test_pair_counts_are_recognised(data: Path) -> None:
    """The published counts of 1.67 million votes are read by looking at them."""
    log = read_battles(data / "chatbot_arena_1m7_counts" / "pair_counts.csv.gz")
    assert np.bincount(log.outcome, log.weights()).tolist() == [595_570, 498_305, 281_121, 295_254]


# Recognising, naming and mapping

#: A file of each format, called as docs/formats.md calls it.
EXAMPLES: dict[str, tuple[str, Rows]] = {
    "fastchat": ("clean_battle.json", CLEAN),
    "fastchat-conversations": ("chatbot_arena_conversations.parquet", CONVERSATIONS),
    "lmarena-55k": ("train.csv", [vote_55k(1, "winner_tie")]),
    "lmarena-100k": ("arena-human-preference-100k.parquet", VOTES_100K),
    "lmarena-140k": ("arena-human-preference-140k.parquet", VOTES_140K),
    "comparia": ("comparia-votes.parquet", COMPARIA),
    "mt-bench-pairs": ("gpt-4_pair.jsonl", [judged(81, "tie", "model_1")]),
    "mt-bench-grades": ("gpt-4_single.jsonl", GRADES),
    "mt-bench-votes": ("mt_bench_human_judgments.parquet", VOTES),
    "evalscope": ("review_gpt4.jsonl", [review("tie", "tie")]),
    "evalscope-one-order": ("review_gpt4_once.jsonl", REVIEWED_ONCE),
    "evalscope-grades": ("review_gpt4_grades.jsonl", GRADED),
    "scores": ("scores.csv", SCORES),
    "pair-counts": (
        "pair_counts.csv",
        [{"model_a": "x", "model_b": "y", "a_wins": 1, "b_wins": 2}],
    ),
}


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_the_documented_import_works(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command of docs/formats.md imports the file it names, and says which format it is."""
    monkeypatch.chdir(tmp_path)
    file, rows = EXAMPLES[name]
    written(Path(file), rows)
    command = f"arena-kit import {file} --out battles.parquet"
    assert f"$ {command}\n" in PAGE.read_text()
    done = CliRunner().invoke(main, command.split()[1:])
    assert done.exit_code == 0, done.stderr
    assert f"({name})" in done.stdout
    assert len(read_battles("battles.parquet")) > 0


def test_every_format_is_documented() -> None:
    """Each format has a row in the table of docs/formats.md."""
    for each in FORMATS:
        assert f"\n| `{each.name}` |" in PAGE.read_text(), each.name


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_a_format_is_recognised_in_any_order_and_file(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Neither the order of columns, nor one that nobody knows, nor the kind of file matters."""
    folder = tmp_path_factory.mktemp("formats")

    @settings(max_examples=6, deadline=None)
    @given(st.permutations([*EXAMPLES[name][1][0].items(), ("x", 1)]), st.sampled_from(TEXT_FILES))
    def recognised(cells: list[tuple[str, Any]], suffix: str) -> None:
        assert format_of(written(folder / f"votes{suffix}", [dict(cells)])).name == name

    recognised()


def test_every_format_is_named_once() -> None:
    """A format has a name of its own, and a title."""
    names = [each.name for each in FORMATS]
    assert len(set(names)) == len(names)
    assert len({each.needs for each in FORMATS}) == len(names)
    assert all(each.title for each in FORMATS)


def test_an_unknown_file_is_told_what_it_lacks(tmp_path: Path) -> None:
    """The sentence names the columns, the nearest format with what it lacks, and the way out."""
    path = tmp_path / "votes.csv"
    path.write_text("left,right,vote,model_a\nx,y,left,z\n")
    with pytest.raises(DataError) as refused:
        read_battles(path)
    assert str(refused.value) == (
        f"{path}: missing column model_b, winner for the nearest format, arena-kit; found: left, "
        "right, vote, model_a; name the format with --format or the columns with --model-a, "
        "--model-b, --winner, --question, --voter and labels with --value 'left=model_a'"
    )


def test_a_format_may_be_named(tmp_path: Path) -> None:
    """A named format goes before what the columns show; an unknown one is refused with a list."""
    path = written(tmp_path / "votes.jsonl", CLEAN[:2])
    assert read_battles(path, format="arena-kit").voter is None
    with pytest.raises(DataError, match="unknown format 'fast'; allowed: arena-kit, fastchat, "):
        read_battles(path, format="fast")
    with pytest.raises(DataError, match=r"a format \(fastchat\) and columns are named"):
        read_battles(path, format="fastchat", columns=Columns(winner="vote"))
    with pytest.raises(DataError, match=r"missing column .*g1_winner, g2_winner; found: "):
        read_battles(written(tmp_path / "votes.csv", CLEAN), format="mt-bench-pairs")


def test_columns_may_be_mapped(tmp_path: Path) -> None:
    """Any table of votes is read once its columns and labels are named."""
    path = tmp_path / "votes.csv"
    path.write_text("l,r,vote,item,who\nx,y,left,q1,ann\ny,x,right,q1,bob\nx,y,draw,q2,ann\n")
    labels = {"left": "model_a", "right": "model_b", "draw": "tie"}
    columns = Columns(
        model_a="l", model_b="r", winner="vote", question="item", voter="who", values=labels
    )
    assert records(read_battles(path, columns=columns)) == [
        battle("x", "y", "model_a", question_id="q1", voter="ann"),
        battle("y", "x", "model_b", question_id="q1", voter="bob"),
        battle("x", "y", "tie", question_id="q2", voter="ann"),
    ]
    del labels["draw"]
    with pytest.raises(DataError, match=r"votes\.csv:4: unknown winner 'draw'"):
        read_battles(path, columns=replace(columns, values=labels))
    with pytest.raises(DataError, match="missing column voters; found: l, r, vote"):
        read_battles(path, columns=Columns(model_a="l", model_b="r", winner="vote", voter="voters"))
    with pytest.raises(DataError, match=r"v\.jsonl: missing column vote; found: model_a, "):
        read_battles(written(tmp_path / "v.jsonl", CLEAN), winner="vote")
    with pytest.raises(DataError, match="value 'left': unknown winner 'a_model'"):
        Columns(values={"left": "a_model"})


# Damaged files


def test_the_line_counts_rows_that_are_left_out(tmp_path: Path) -> None:
    """The line is the file's, also after a vote that was left out, and in an array."""
    wrong = {**CLEAN[0], "winner": "draw"}
    for name, line in {"v.json": 3, "v.jsonl": 2, "v.csv": 3, "v.json.gz": 3}.items():
        path = written(tmp_path / name, [CLEAN[2], wrong])
        with pytest.raises(DataError, match=rf"{name}:{line}: unknown winner 'draw'"):
            read_battles(path)


def test_a_row_of_parquet_is_named_by_its_number(tmp_path: Path) -> None:
    """Parquet has no lines: the row counts from 0, those left out included."""
    rows = [COMPARIA[3], COMPARIA[0], {**COMPARIA[0], "chosen_model_name": "gpt-4"}]
    with pytest.raises(DataError, match=r"v\.parquet row 2: chosen_model_name is neither"):
        read_battles(written(tmp_path / "v.parquet", rows))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[\n{"model_a": "x", "model_b": "y", "winner": "tie"},\n{"model_a": ]\n', ":3: not valid"),
        ('[\n{"model_a": "x", "model_b": "y", "winner": "tie"}\n', ":3: not valid JSON"),
        (
            '[{"model_a": "x", "model_b": "y", "winner": "tie"},\n 5]\n',
            ":2: expected a JSON object",
        ),
    ],
    ids=["broken", "cut short", "no object"],
)
@pytest.mark.parametrize("name", ["bad.json", "bad.json.gz"])
def test_a_damaged_array_is_named_with_its_line(
    name: str, text: str, where: str, tmp_path: Path
) -> None:
    """An array that is not whole JSON, or holds something else than objects, is refused."""
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    with pytest.raises(DataError, match=f"{name}{where}"):
        read_battles(path)


def test_a_bare_nan_in_an_array_is_no_name(tmp_path: Path) -> None:
    """A bare NaN where a name belongs is refused, as it is in JSONL."""
    path = tmp_path / "nan.json"
    path.write_text('[{"model_a": NaN, "model_b": "y", "winner": "tie"}]')
    with pytest.raises(DataError, match=r"nan\.json: .*NaN is not a JSON number"):
        read_battles(path)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=5), max_size=6),
       st.sampled_from([None, 1, 2]))  # fmt: skip
def test_lines_of_an_array_are_those_of_an_editor(
    tmp_path_factory: pytest.TempPathFactory, remarks: list[str], indent: int | None
) -> None:
    """However an array is laid out, the row with a wrong winner is found at its line."""
    good = {"model_a": "x", "model_b": "y", "winner": "tie"}
    rows = [{**good, "remark": text} for text in remarks]
    text = json.dumps([*rows, {"model_a": "WRONG", "model_b": "y", "winner": "draw"}, good],
                      indent=indent)  # fmt: skip
    path = tmp_path_factory.mktemp("arrays") / "array.json"
    path.write_text(text)
    opening = text[: text.index('"WRONG"')].rindex("{")
    with pytest.raises(DataError, match=rf":{text[:opening].count(chr(10)) + 1}: unknown winner"):
        read_battles(path)


@pytest.mark.parametrize(
    ("name", "column", "line"), [("lmarena-55k", "prompt", 3), ("comparia", "conversation_a", 6)]
)
def test_a_damaged_conversation_is_named_with_its_line(
    name: str, column: str, line: int, tmp_path: Path
) -> None:
    """A conversation in a cell of a CSV file that is not JSON is refused where texts are asked
    for; the votes are read without them.
    """
    rows = EXAMPLES[name][1]
    path = written(tmp_path / "cut.csv", [*rows, {**rows[0], "id": 99, column: '["cut sho'}])
    with pytest.raises(DataError, match=rf"cut\.csv:{line}: prompt cannot be read from {column}"):
        read_battle_texts(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeftOutWarning)
        assert len(read_battles(path)) > 1


def test_a_column_may_have_any_name(tmp_path: Path) -> None:
    """Quotes and SQL in the name of a column or a label are part of it."""
    awkward = """vo"te'; DROP TABLE raw --"""
    path = written(tmp_path / "v.jsonl", [{"model_a": "x", "model_b": "y", awkward: "it's"}])
    columns = Columns(winner=awkward, values={"it's": "model_b"})
    assert outcomes(read_battles(path, columns=columns)) == [("model_b", False)]


def test_a_file_without_texts_says_so(tmp_path: Path) -> None:
    """Votes without conversations are no arena to place a new model in."""
    path = written(tmp_path / "clean.jsonl", CLEAN[:2])
    with pytest.raises(DataError, match="no texts of battles: missing column prompt, response_a"):
        read_battle_texts(path)
