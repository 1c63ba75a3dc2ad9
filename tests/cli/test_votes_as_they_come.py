"""Votes as people have them: every usual spelling is read, and what is wrong says what to do."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from arena_kit import Board, DataError, open_run, read_battles
from tests.samples import call

HEADER = ["question_id", "model_a", "model_b", "winner"]
NAMES = ["RAG v2 + CoT", "plain GPT", "RAG v1"]
#: Ten questions with each pair once; every sixth vote is a tie and every third goes to the second.
VOTES = [
    [f"q{q}", *((a, b) if q % 2 else (b, a)), ["A", "A", "B", "A", "B", "tie"][(q + n) % 6]]
    for q in range(10)
    for n, (a, b) in enumerate([(NAMES[0], NAMES[1]), (NAMES[1], NAMES[2]), (NAMES[0], NAMES[2])])
]


def table(path: Path, rows: list[list[str]], delimiter: str = ";", encoding: str = "utf-8") -> Path:
    with path.open("w", encoding=encoding, newline="") as out:
        csv.writer(out, delimiter=delimiter).writerows(rows)
    return path


def spelled(a: str, b: str, tie: str) -> list[list[str]]:
    words = {"A": a, "B": b, "tie": tie}
    return [HEADER, *([*row[:3], words[row[3]]] for row in VOTES)]


def named() -> list[list[str]]:
    """The winner by its name."""
    rows = [[*row[:3], {"A": row[1], "B": row[2]}.get(row[3], row[3])] for row in VOTES]
    return [HEADER, *rows]


def workbook(path: Path) -> Path:
    pd.DataFrame(VOTES, columns=HEADER).to_excel(path, index=False)
    return path


WAYS: dict[str, Callable[[Path], Path]] = {
    "semicolons, A and B": lambda at: table(at / "v.csv", [HEADER, *VOTES]),
    "tabs": lambda at: table(at / "v.txt", [HEADER, *VOTES], "\t"),
    "Excel's Unicode text": lambda at: table(at / "v.txt", [HEADER, *VOTES], "\t", "utf-16"),
    "a byte order mark": lambda at: table(at / "v.csv", [HEADER, *VOTES], ";", "utf-8-sig"),
    "headers in capitals": lambda at: table(at / "v.csv", [[*map(str.upper, HEADER)], *VOTES]),
    "headers with spaces": lambda at: table(
        at / "v.csv", [["Question", "Model A", "Model B", "Winner"], *VOTES]
    ),
    "left, right, both": lambda at: table(at / "v.csv", spelled("Left", "Right", "both")),
    "1, 2, 0": lambda at: table(at / "v.csv", spelled("1", "2", "0")),
    "names of models": lambda at: table(at / "v.csv", named()),
    "a workbook": lambda at: workbook(at / "v.xlsx"),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_writing_the_votes_gives_the_same_board(way: str, tmp_path: Path) -> None:
    """Delimiter, encoding, headers and the spelling of winners change nothing."""
    plain = table(tmp_path / "plain.csv", spelled("model_a", "model_b", "tie"), ",")
    boards = [call("rate", file, "--json") for file in (plain, WAYS[way](tmp_path))]
    assert [done.exit_code for done in boards] == [0, 0], boards[1].stderr
    assert boards[0].stdout == boards[1].stdout
    told = way in ("left, right, both", "1, 2, 0")  # which others may mean otherwise
    assert ("--value 'LABEL=OUTCOME'" in boards[1].stderr) == told


def test_neither_is_no_tie(tmp_path: Path) -> None:
    """`neither` is both_bad, which Elo leaves out; --value gives it another meaning."""
    file = table(tmp_path / "v.csv", spelled("A", "B", "neither"))
    for words, kind in (([], "both_bad"), (["--value", "neither=tie"], "tie")):
        done = call("rate", file, "--json", "--method", "elo", *words)
        assert json.loads(done.stdout)["dropped"][kind] == 4


def test_a_name_that_is_also_a_side_is_settled_by_an_option(tmp_path: Path) -> None:
    """Models called A and B: `A` is refused until --value says whether it is a side or a name."""
    rows = [["A", "B", "A"], ["B", "A", "A"], ["B", "A", "A"], ["A", "B", "B"]]  # names: 3 to 1
    file = table(tmp_path / "v.csv", [HEADER, *([f"q{n}", *row] for n, row in enumerate(rows))])
    done = call("rate", file)
    assert done.exit_code == 2
    assert "v.csv:3: winner 'A' may be a side or the model of that name" in done.stderr
    with pytest.raises(DataError, match=r"Columns\(values=\{'A': 'name'\}\)$"):
        read_battles(file)  # in Python, no option of the command line is named
    for (a, b), first in {("name", "name"): "A", ("model_a", "model_b"): "B"}.items():
        board = call("rate", file, "--json", "--value", f"A={a}", "--value", f"B={b}").stdout
        assert json.loads(board)["ratings"][0]["model"] == first


def test_one_command_makes_a_page_and_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`rate FILE --report` leaves a page with forest and heatmap, and the record of a run."""
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "votes.csv", [HEADER, *VOTES])
    done = call("rate", "votes.csv", "--report", "out.html")
    assert done.exit_code == 0, done.stderr
    page = Path("out.html").read_text()
    assert [page.count(f'alt="{alt}') for alt in ("Rating of every", "Probability that")] == [1, 1]
    assert page.index("<picture>") < page.index("<table")
    assert not re.search(r'(src|href)="http', page)
    (record,) = Path("runs").iterdir()
    run = open_run(record)
    assert run.manifest["status"] == "finished"
    assert run.figures == ["above", "forest"]
    assert len(run.log) == len(VOTES)
    assert run.report.read_text() == page
    again = call("rate", record, "--json")
    wanted = Board.read(record).as_dict(pairs=False)["ratings"]
    assert json.loads(again.stdout)["ratings"] == wanted
    assert call("runs", "list", "--runs-dir", "runs").exit_code == 0
    assert call("site", record, "--out", "site").exit_code == 0


GOOD = [HEADER, *VOTES[:3]]


def changed(column: int, value: str) -> list[list[str]]:
    """Votes with one cell of line 5 replaced."""
    row = list(VOTES[3])
    row[column] = value
    return [*GOOD, row, *VOTES[4:]]


def as_csv(*rows: list[str], name: str = "v.csv") -> tuple[str, bytes]:
    return name, "".join(";".join(row) + "\n" for row in rows).encode()


DOUBLE = [[*HEADER, "battle_id"], *([*row, "b1"] for row in VOTES[:2])]
#: What is wrong → the file, further options, and what the sentence says to do next.
BAD: dict[str, tuple[tuple[str, bytes], list[str], str]] = {
    "no file": (("other.csv", b""), [], r"v\.csv: no such file; check the path"),
    "a web address": (("https://x.org//v.csv", b""), [], r"https://x\.org//v\.csv.*download it"),
    "an unknown kind": (("v.pages", b"x"), [], "save it as one of .*xlsx"),
    "0 bytes of CSV": (("v.csv", b""), [], r"empty file \(0 bytes\); export it again"),
    "0 bytes of Parquet": (("v.parquet", b""), [], r"empty file \(0 bytes\); export it again"),
    "0 bytes of a workbook": (("v.xlsx", b""), [], r"empty file \(0 bytes\); export it again"),
    "no whole workbook": (("v.xlsx", b"PK\x03"), [], "not a whole workbook .*; save it again"),
    "no whole Parquet": (("v.parquet", b"PAR1"), [], "export it again"),
    "a header alone": (as_csv(HEADER), [], "no battles in it; write a row per vote"),
    "no header": (as_csv(*VOTES), [], "missing column .*; name .* with --model-a"),
    "an unknown winner": (as_csv(*changed(3, "draw")), [], ":5: .*--value 'draw=tie'"),
    "0 and 1": (as_csv(*spelled("0", "1", "1")), [], ":2: winner '0' is .*--value '0=model_a'"),
    "no winner": (as_csv(*changed(3, "")), [], ":5: winner is missing; fill or remove it"),
    "no model": (as_csv(*changed(1, "")), [], ":5: model_a is missing; fill or remove it"),
    "a model with itself": (as_csv(*changed(1, "RAG v1")[:4], ["q", "x", "x", "A"]), [],
                            ":5: both models are 'x'; correct or remove it"),
    "too few cells": (as_csv(*GOOD, VOTES[3][:3]), [], ":5: 3 cells under a header of 4; put quot"),
    "too many cells": (as_csv(*GOOD, [*VOTES[3], "x"]), [], ":5: 5 cells under .*; put quotation"),
    "an open quotation mark": (as_csv(*GOOD, ["q", '"x', "y", "A"]), [], ":5: .*close or double"),
    "another encoding": (("v.csv", as_csv(*changed(1, "Müller"))[1].decode().encode("latin-1")), [],
                         ":5: not UTF-8; save the file as CSV UTF-8"),
    "big-endian UTF-16": (("v.csv", b"\xfe\xff\x00x"), [], "save the file as CSV UTF-8"),
    "an id twice": (as_csv(*DOUBLE), [], r":3: battle_id 'b1' .*; remove it or that at v\.csv:2"),
    "a time that is none": (as_csv([*HEADER, "timestamp"], [*VOTES[0], "noon"]), [],
                            ":2: timestamp 'noon' is not an ISO date or seconds since 1970"),
    "broken JSON": (("v.jsonl", b'{"model_a": "x"\n'), [], ":1: not valid JSON .*; correct"),
    "an unknown setting": (as_csv(*GOOD), ["--set", "foo=1"], "foo.*allowed|unknown.*foo"),
    "an unknown column": (as_csv(*GOOD), ["--winner", "vote"], "missing column vote; found: quest"),
    "no label": (as_csv(*GOOD), ["--value", "draw"], "expected LABEL=OUTCOME"),
    "no page": (as_csv(*GOOD), ["--report", "out.pdf"], r"a report is a page; call it v\.html"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_bad_input_says_what_to_do_next(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong input ends with 2 and one sentence: file and line, what is wrong, what to do."""
    monkeypatch.chdir(tmp_path)
    (name, content), options, sentence = BAD[what]
    if "://" not in name:
        Path(name).write_bytes(content)
    done = call("rate", "v.csv" if name == "other.csv" else name, *options)
    assert done.exit_code == 2
    assert re.search(sentence, done.stderr), done.stderr
    assert "Traceback" not in done.stderr
