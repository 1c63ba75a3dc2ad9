"""A table of questions and answers becomes prompts and responses."""

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import openpyxl
import pandas as pd
import pytest

from arena_kit import init_study, judge, rate, read_battles, read_plan, to_battles
from arena_kit.files import DataError, read_yaml
from arena_kit.judging.pairs.answer_table import AnswerTable, Roles, read_answers, read_table

HEADER = ["Nr", "Question", "Gold answer", "RAG v2 + CoT", "plain GPT", "Specialty", "Seconds"]
ROWS = [
    [1, "Why does ice float?", "Less dense.", "Less dense it is.", "It is light.", "physics", 1],
    [2, "What causes seasons?", "Axial tilt.", "The axis is tilted.", "Distance.", "astronomy", 2],
    [3, "What is an atom's charge?", "Zero.", "It has none.", "Positive charge.", "physics", 2.5],
]  # fmt: skip


def workbook(path: Path, rows: list[list[Any]], merge: str = "") -> Path:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Answers"
    for row in rows:
        sheet.append(row)
    if merge:
        sheet.merge_cells(merge)
    book.save(path)
    return path


def answers(source: Any, **columns: Any) -> AnswerTable:
    return read_answers(read_table(source), Roles(**columns))


def frame(rows: list[list[Any]] | None = None) -> pd.DataFrame:
    return pd.DataFrame(ROWS if rows is None else rows, columns=HEADER)


def write(path: Path) -> Path:
    if path.suffix == ".xlsx":
        return workbook(path, [HEADER, *ROWS])
    if path.suffix == ".parquet":
        duckdb.from_df(frame()).write_parquet(str(path))
    elif path.suffix == ".jsonl":
        frame().to_json(path, orient="records", lines=True)
    else:
        frame().to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


@pytest.mark.parametrize("suffix", ["xlsx", "csv", "tsv", "parquet", "jsonl"])
def test_a_file_and_a_frame_say_the_same(tmp_path: Path, suffix: str) -> None:
    """Columns are recognised by name and content, whatever kind of file holds them."""
    study = answers(write(tmp_path / f"answers.{suffix}"))
    assert study.answers == answers(frame()).answers
    assert study.answers.entrants == ("RAG v2 + CoT", "plain GPT")
    first = study.answers.prompts[0]
    assert (first.text, first.gold_answer) == ("Why does ice float?", "Less dense.")
    assert (first.prompt_id, first.source, first.strata) == (
        "1",
        "physics",
        {"specialty": "physics"},
    )
    assert "left out: Seconds (numbers)" in study.sentences


def test_a_row_for_each_answer_says_the_same() -> None:
    """A long table is as a wide one; options make short values answers, wrong ones are named."""
    long = frame().melt(
        HEADER[:3] + HEADER[5:6], HEADER[3:5], var_name="Model", value_name="Response"
    )
    wide, study = answers(frame()), answers(long)
    assert study.answers.prompts == wide.answers.prompts
    assert study.answers.responses == wide.answers.responses
    short = frame([[*row[:3], "yes", "no", *row[5:]] for row in ROWS])
    with pytest.raises(DataError, match="entrants= "):
        answers(short)
    assert len(answers(short, entrants=tuple(HEADER[3:5])).answers.responses) == 6
    for columns, words in (
        ({"question": "Frage"}, "no column 'Frage'; it has: Nr, Question"),
        ({"entrants": ("plain GPT",)}, "needs the answers of two models"),
        ({"prompt_id": "Specialty"}, "two questions share an id in 'Specialty'"),
    ):
        with pytest.raises(DataError, match=words):
            answers(frame(), **columns)


def test_what_cannot_be_used_is_named_by_cell(tmp_path: Path) -> None:
    """An empty row, a repeated question and a missing answer lose nothing else."""
    rows = [
        [None] * 7,
        [4, ROWS[0][1], "x", "y", "z", "physics", 1],
        [5, None, "x", "orphan", "z", "physics", 1],
        [6, "Is water wet?", "Yes.", None, "It is wet.", "", 1],
    ]
    study = answers(workbook(tmp_path / "answers.xlsx", [HEADER, *ROWS, *rows]))
    assert [each.prompt_id for each in study.answers.prompts] == ["1", "2", "3", "6"]
    assert len(study.answers.responses) == 7
    assert study.sentences[-3:] == (
        "1 row without a question, left out: Answers!B7",
        "1 repeated question, left out: Answers!B6",
        "1 missing answer: Answers!D8",
    )
    assert study.answers.prompts[-1].source == "unknown"


def test_a_merged_range_has_its_value_in_every_row(tmp_path: Path) -> None:
    """A merged range has its value in every row; damage and wrong votes are named by place."""
    rows = [["Question", "Model", "Answer"], ["Why?", "a", "So."], [None, "b", "Because."]]
    study = answers(workbook(tmp_path / "long.xlsx", rows, merge="A2:A3"))
    assert len(study.answers.prompts) == 1
    assert study.answers.entrants == ("a", "b")
    (tmp_path / "broken.xlsx").write_bytes(b"PK\x03\x04 not a workbook")
    with pytest.raises(DataError, match="not a whole workbook"):
        read_table(tmp_path / "broken.xlsx")
    with pytest.raises(DataError, match="no sheet 'Votes'; it has: Answers"):
        read_table(workbook(tmp_path / "a.xlsx", [HEADER, *ROWS]), "Votes")
    votes = [["question_id", "model_a", "model_b", "winner"], ["q1", "a b", "c", "model_a"]]
    log = read_battles(workbook(tmp_path / "votes.xlsx", [*votes, ["q2", "a b", "c", "tie"]]))
    assert (len(log), log.models) == (2, ("a b", "c"))
    with pytest.raises(DataError, match=r"bad\.xlsx, row 4: unknown winner 'x'"):
        read_battles(workbook(tmp_path / "bad.xlsx", [*votes, [None], ["q2", "a b", "c", "x"]]))


def test_a_spreadsheet_becomes_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing answer costs only its pairs; the pilot draws from the table's own strata."""
    many = [[n, f"What is {n} + 1?", str(n + 1), f"It is {n + 1}.", f"Perhaps {n}.",
             ("easy", "hard")[n % 2], 1] for n in range(80)]  # fmt: skip
    many[3][4] = None
    study = init_study(tmp_path / "my study", workbook(tmp_path / "a.xlsx", [HEADER, *many]))
    assert study.sentences[-1] == "1 missing answer: Answers!E5"
    monkeypatch.chdir(tmp_path / "my study")
    assert read_yaml(Path("params/tournament.yaml"))["report"] == {"strata": ["specialty"]}
    plan = read_plan("pilot", strata=read_yaml(Path("params/pilot.yaml"))["strata"])
    assert Counter(each.source for each in plan.prompts) == {"easy": 25, "hard": 25}
    board = rate(to_battles(judge(read_plan("headline"))))
    assert board.to_frame()["model"].tolist() == ["RAG v2 + CoT", "plain GPT"]
    with pytest.raises(DataError, match="exists and is not an empty folder"):
        init_study(tmp_path / "my study", frame())
