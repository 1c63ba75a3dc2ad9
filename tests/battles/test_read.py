"""Battle logs on disk: what is written is read back, and what is wrong is named by its line."""

import csv
import gzip
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from arro3.core import Array, DataType, Table
from arro3.io import write_ipc, write_ipc_stream
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit import files
from arena_kit.battles import tabular
from arena_kit.battles.battle import MAX_WEIGHT, OUTCOMES, Battle, LookAlikeWarning, Outcome, Source
from arena_kit.battles.log import BattleLog
from arena_kit.battles.on_disk import BattleFiles
from arena_kit.battles.read import RepeatedWarning, battles_from_frame, read_battles
from arena_kit.battles.tabular import connection
from arena_kit.battles.write import write_battles
from arena_kit.files import DataError
from tests.samples import call

KINDS = [".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".parquet"]
UNZIPPED = [".jsonl", ".csv", ".parquet"]
GOOD = '{"model_a": "ash", "model_b": "beech", "winner": "model_a"}'
HEADER = "model_a,model_b,winner"
NOON = datetime(2024, 8, 14, 12, 0, tzinfo=UTC)


def battle(model_a: str = "ash", model_b: str = "beech", **more: object) -> Battle:
    return Battle(**({"model_a": model_a, "model_b": model_b, "winner": "tie"} | more))  # type: ignore[arg-type]


def line(**changes: object) -> str:
    """A good JSONL line with some values changed."""
    return json.dumps(json.loads(GOOD) | changes)


def text(path: Path, *lines: str) -> Path:
    """A file of lines, zipped by its name."""
    data = "".join(each + "\n" for each in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def parquet(path: Path, select: str) -> Path:
    """A Parquet file of what a SELECT yields, made without the package."""
    with duckdb.connect() as con:
        con.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet)")
    return path


def records(path: Path) -> list[Battle]:
    return list(read_battles(path).to_battles())


def through(path: Path, wanted: list[Battle]) -> list[Battle]:
    """Battles written to a file and read again."""
    write_battles(path, BattleLog.from_battles(wanted))
    return records(path)


AWKWARD = "ab\"'\\,#;|0 =+-@éß樺Ж\u0301\U0001f600"
names = st.text(AWKWARD, min_size=1, max_size=8)
controls = "\0\x07\x1b\r\n\t\x7f\x85\u200b\u2028\u202e\ufeff\ufffe\U0010ffff"
texts = st.none() | st.text(AWKWARD + controls, min_size=1, max_size=8)
zones = st.integers(-12, 14).map(lambda hours: timezone(timedelta(hours=hours)))
instants = st.integers(-(10**16), 10**17).map(lambda us: NOON + timedelta(microseconds=us))
moments = st.none() | st.builds(lambda when, zone: when.astimezone(zone), instants, zones)
positive = st.floats(0, MAX_WEIGHT, exclude_min=True)


@st.composite
def battles(draw: st.DrawFn) -> Battle:
    """Any valid battle, with awkward characters wherever text may stand."""
    a, b = draw(st.lists(names, min_size=2, max_size=2, unique=True))
    inconsistent = draw(st.booleans())
    winner = Outcome.TIE if inconsistent else draw(st.sampled_from(OUTCOMES))
    named = ("question_id", "dimension", "judge_model", "battle_id", "session", "lane")
    rest = {name: draw(texts) for name in named} | {"source": draw(st.sampled_from(Source))}
    rest |= {"timestamp": draw(moments), "weight": draw(st.just(1.0) | positive)}
    rest |= {"share_a": draw(st.none() | st.floats(0, 1))}
    return battle(a, b, winner=winner, inconsistent=inconsistent, **rest)


#: Battles of a file, each id once.
some_battles = st.lists(battles(), max_size=10, unique_by=lambda row: row.battle_id or object())


@pytest.mark.filterwarnings("ignore::arena_kit.battles.battle.LookAlikeWarning")
@pytest.mark.parametrize("kind", [*KINDS, "frame"])
def test_a_log_survives_its_file(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Through a file or a frame, every field of every battle is the same, in order."""
    path = tmp_path_factory.mktemp("files") / f"battles{kind}"

    @settings(max_examples=4, deadline=None)
    @given(some_battles)
    def survives(wanted: list[Battle]) -> None:
        if kind == "frame":
            frame = BattleLog.from_battles(wanted).to_frame()
            assert list(battles_from_frame(frame).to_battles()) == wanted
        else:
            assert through(path, wanted) == wanted

    survives()


NASTY = "<img src=x onerror=alert(1)>\x00\x07\x1b[31m\r\n\t\u2028&amp;\ufeff"
LATE = battle(battle_id="last", question_id="q", timestamp=NOON, inconsistent=True)


@pytest.mark.parametrize("kind", UNZIPPED)
@pytest.mark.parametrize(
    "wanted",
    [
        [],
        [battle(winner=outcome) for outcome in OUTCOMES],
        [battle("007", "NaN", question_id="010", battle_id="0x1F", session="NaN", lane="null")],
        [battle("<script>", "b&b", question_id=NASTY, judge_model=NASTY, session="'; DROP")],
        [*[battle()] * 3000, LATE],
    ],
    ids=["none", "bare votes", "numbers", "markup", "a late value"],
)
def test_awkward_logs_survive_their_file(kind: str, wanted: list[Battle], tmp_path: Path) -> None:
    """Empty logs, ids like numbers, markup and a late value come back as they were."""
    assert through(tmp_path / f"log{kind}", wanted) == wanted
    if len(wanted) == len(OUTCOMES):
        columns = set(read_battles(tmp_path / f"log{kind}").columns())
        assert columns == {"model_a", "model_b", "winner", "source"}


@pytest.mark.parametrize("kind", UNZIPPED)
@pytest.mark.parametrize("name", ["run[1]", "weight=7/battles", "o'brien; DROP TABLE"])
def test_a_path_is_only_a_path(kind: str, name: str, tmp_path: Path) -> None:
    """A name is no pattern, a folder no column, a quote no SQL, even if a pattern matched."""
    through(tmp_path / f"run1{kind}", [battle("wrong", "file")])
    assert through(tmp_path / f"{name}{kind}", [battle()]) == [battle()]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_a_csv_of_another_writer_is_read(quoting: int, tmp_path: Path) -> None:
    """Quotes, commas, backslashes and line breaks in a CSV file are read as text."""
    rows = [
        ["#ash", 'be"ech', "model_a", "two\nlines", "x"],
        ["a,sh", "be\\ech", "tie (bothbad)", '\\"', "y"],
        [" ash ", "'beech'", "bothbad", "<script>alert('1')</script>", ""],
        *(["#x" if i % 10 else "x", "y", "tie", str(i), "#"] for i in range(1000)),
    ]
    path = tmp_path / "other.csv"
    with path.open("w", newline="", encoding="utf-8") as out:
        table = csv.writer(out, quoting=quoting)  # type: ignore[arg-type]
        table.writerows([["model_a", "model_b", "winner", "question_id", "remark"], *rows])
    found = [[b.model_a, b.model_b, b.question_id] for b in records(path)]
    assert found == [[a, b, question] for a, b, _, question, _ in rows]
    for name, content in (("a.jsonl", []), ("b.jsonl.gz", []), ("c.jsonl", ["", " ", ""])):
        assert records(text(tmp_path / name, *content)) == []


def test_an_old_file_stays_when_the_new_one_fails(tmp_path: Path) -> None:
    """A failed write leaves the old file; judges share ids; a row of 45 MB is read."""
    path = text(tmp_path / "battles.jsonl", GOOD)
    with pytest.raises(Exception, match=r"(?i)surrogate|utf"):
        through(path, [battle(question_id="\ud800")])
    assert (path.read_text(), list(tmp_path.iterdir())) == (GOOD + "\n", [path])
    judged = [battle(battle_id="b", source="llm-judge", judge_model=j) for j in ("j1", "j2")]
    rows = [battle(battle_id="b"), battle(battle_id="b", dimension="tone"), *judged]
    assert len(through(tmp_path / "battles.jsonl", [*rows, battle(), battle()])) == 6
    empty = text(tmp_path / "empty.jsonl", *[line(battle_id="")] * 2, line(battle_id="x"))
    assert len(read_battles(empty)) == 3
    long = line(winner="model_b", prompt="long" * 11_250_000)
    log = read_battles(text(tmp_path / "votes.jsonl", GOOD, long, GOOD))
    assert [each.winner.value for each in log.to_battles()] == ["model_a", "model_b", "model_a"]


def test_unknown_columns_are_tolerated(tmp_path: Path) -> None:
    """A key or column nobody knows is left aside, whatever it holds; null is as if not there."""
    strange = line(mood="good", extra={"deep": [1, None]}, weight=None, timestamp=None, source=None)
    select = "SELECT 'ash' AS model_a, [1, 2] AS mood, 'beech' AS model_b, 'model_a' AS winner"
    frame = pd.DataFrame([{"mood": {"a": 1}, **json.loads(GOOD)}])
    frame["month"] = pd.period_range("2024", periods=1)  # a type that only pandas knows
    wanted = [battle(winner="model_a")]
    assert records(text(tmp_path / "new.jsonl", strange, GOOD)) == wanted * 2
    table = text(tmp_path / "new.csv", "mood,winner,model_b,model_a", "1,model_a,beech,ash")
    assert records(table) == wanted
    assert records(parquet(tmp_path / "new.parquet", select)) == wanted
    assert list(battles_from_frame(frame).to_battles()) == wanted


def test_times_are_iso_or_seconds(tmp_path: Path) -> None:
    """A time is an ISO date or seconds; typed columns mean what they mean as text."""
    given = ["2024-08-14T12:00:00Z", "2024-08-14T14:00:00+02:00", "2024-08-14 12:00:00", 1723636800,
             "1723636800", "2024-08-14", 0, 1723636800.25]  # fmt: skip
    later = [NOON - timedelta(hours=12), datetime(1970, 1, 1, tzinfo=UTC)]
    path = text(tmp_path / "time.jsonl", *(line(timestamp=each) for each in given))
    expected = [*[NOON] * 5, *later, NOON + timedelta(milliseconds=250)]
    assert [b.timestamp for b in records(path)] == expected
    select = "SELECT 'ash' AS model_a, 'beech' AS model_b, 'tie' AS winner, "
    typed = (
        "7 AS question_id, 2.5::DOUBLE AS weight, true AS inconsistent,"
        " TIMESTAMP '2024-08-14 12:00' AS timestamp"
    )
    (found,) = records(parquet(tmp_path / "typed.parquet", select + typed))
    assert found == battle(question_id="7", weight=2.5, inconsistent=True, timestamp=NOON)
    nan = parquet(tmp_path / "nan.parquet", f"{select} unnest([1.0, 'NaN'::DOUBLE]) AS weight")
    with pytest.raises(DataError, match=r"nan\.parquet row 1: weight 'nan'"):
        read_battles(nan)
    columns = {
        "model_a": pd.Categorical(["ash", "ash"]), "model_b": ["beech"] * 2, "winner": ["tie"] * 2,
        "battle_id": ["01", None], "inconsistent": [True, False], "weight": [2, 3],
        "timestamp": pd.to_datetime(["2024-08-14T14:00:00+02:00", None]),
    }  # fmt: skip
    assert list(battles_from_frame(pd.DataFrame(columns, index=[9, 3])).to_battles()) == [
        battle(battle_id="01", weight=2.0, inconsistent=True, timestamp=NOON),
        battle(weight=3.0),
    ]


NO_WEIGHT, NO_TIME = "is not a number above 0, at most", "is not an ISO date or seconds"


def test_a_wrong_value_is_named_with_its_line(tmp_path: Path) -> None:
    """A wrong value is named with file, line (blank ones count) and, in a frame, row from 0."""
    for changes, message in (
        ({"winner": "draw"}, "unknown winner 'draw'; .*: one of the row's models, model_a, .*tie"),
        *(({name: None}, f"{name} is missing") for name in ("winner", "model_a", "model_b")),
        ({"model_b": "ash"}, "both models are 'ash'"),
        ({"model_a": ""}, "model name '' is not valid; allowed: 1 to 256 printable"),
        ({"model_b": "a\u0007"}, "model name .* is not valid; allowed: 1 to 256 printable"),
        ({"source": "crowd"}, "unknown source 'crowd'; allowed: llm-judge, human"),
        *(({"weight": w}, f"weight '{w}' {NO_WEIGHT}") for w in ("NaN", 0, -1, "heavy", "1e10")),
        *(({"timestamp": t}, f"timestamp '{t}' {NO_TIME}")
          for t in ("yesterday", "2024-02-30", "inf", "1e300")),
        *(({"share_a": s}, f"share_a '{s}' is not a number from 0 to 1")
          for s in (1.5, -0.1, "half", "NaN", "inf")),
        ({"inconsistent": "maybe"}, "inconsistent 'maybe' is not true or false"),
        ({"inconsistent": True}, "an inconsistent battle must have winner 'tie'"),
    ):  # fmt: skip
        path = text(tmp_path / "bad.jsonl", GOOD, "", GOOD, "  ", line(**changes), GOOD)
        with pytest.raises(DataError, match=rf"bad\.jsonl:5: {message}"):
            read_battles(path)
        frame = pd.DataFrame([json.loads(GOOD), json.loads(line(**changes))])
        if "NaN" not in changes.values():  # which is a missing value in a frame
            with pytest.raises(DataError, match="the frame row 1: "):
                battles_from_frame(frame)


ROWS = gzip.compress("".join(f"{line(question_id=str(i))}\n" for i in range(500)).encode())
FLIPPED = ROWS[:200] + bytes(byte ^ 0xFF for byte in ROWS[200:202]) + ROWS[202:]
LATIN = f"{GOOD}\n".encode() + GOOD.replace("ash", "ä").encode("latin-1")
DEEP = line(winner="draw")[:-1] + ', "x": ' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize(
    "wrong",
    [
        '{"model_a": ', "{'model_a': 'ash'}", "oops", GOOD + GOOD, GOOD[:-1] + ', "weight": NaN}',
        GOOD.replace('"ash"', "NaN"), '["ash", "beech", "tie"]', "null", '"ash"',
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["bad.jsonl", "bad.jsonl.gz"])
def test_a_malformed_line_is_named(name: str, wrong: str, tmp_path: Path) -> None:
    """A line that is not one JSON object is named by its number; blank lines count."""
    path = text(tmp_path / name, GOOD, "", "", wrong, GOOD)
    with pytest.raises(DataError, match=rf"{name}:4: (not valid JSON|expected a JSON object)"):
        read_battles(path)


WINNER = "unknown winner 'draw'"


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    """Damaged files, ragged rows and missing columns name the file, and the line if known."""
    for name, content, where in (
        ("latin.jsonl", LATIN, ":2: not UTF-8"),
        ("deep.jsonl", DEEP.encode(), ":1: "),
        *(("damaged.jsonl.gz", content, "") for content in (ROWS[:-12], FLIPPED, b"hello")),
        ("fake.parquet", GOOD.encode(), ": "),
        *((f"empty.{kind}", b"", r": an empty file \(0 bytes\)")
          for kind in ("parquet", "arrow", "duckdb")),
        *((f"fake.{kind}", b"hello", ": .*not a") for kind in ("arrow", "duckdb")),
        ("nested.jsonl", line(model_a={"size": "x"}).encode(), ":1: model .* is a nested value"),
        ("short.csv", b"model_a,vote\nash,tie\n", ": missing column model_b, winner"),
        *(("bad.csv", f"{HEADER},question_id\nash,beech,tie,{rest}\n".encode(), where)
          for rest, where in {
              "q\n\n\nash,beech,draw,q": f":5: {WINNER}",
              '"two\nlines"\nash,beech,draw,q': f":4: {WINNER}",
              "q\n,,,": ":3: model_a is missing",
              "q\nash,beech": "",
              "q\nash,beech,tie,q,extra": "",
          }.items()),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=re.escape(name) + where):
            read_battles(tmp_path / name)


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    """Nothing, a folder or an unknown kind is named; of several voters the named one decides."""
    path = text(tmp_path / "battles.dat", GOOD)
    kinds = r"save it as one of \.jsonl, \.jsonl\.gz, .*, \.csv\.gz, \.tsv, \.tsv\.gz, \.txt"
    with pytest.raises(DataError, match=rf"battles\.dat: unknown kind of battle file; {kinds}"):
        read_battles(path)
    with pytest.raises(DataError, match=r"out\.xlsx: workbook files are read, not written"):
        through(tmp_path / "out.xlsx", [battle()])
    assert list(tmp_path.iterdir()) == [path]
    no = tmp_path / "no.jsonl"
    for nothing, fmt in ((no, None), (no, "arena-kit"), (tmp_path, None)):
        with pytest.raises(DataError, match=f"{nothing.name}: no such file"):
            read_battles(nothing, format=fmt)
    with pytest.raises(DataError, match="the frame: missing column model_b, winner"):
        battles_from_frame(pd.DataFrame({"model_a": ["ash"]}))
    path = text(tmp_path / "voters.csv", *VOTERS)
    frame = pd.read_csv(path)
    lines = text(tmp_path / "voters.jsonl", *(json.dumps(row) for row in frame.to_dict("records")))
    for column, expected in {
        "human": [Outcome.MODEL_A, Outcome.MODEL_B],
        "gpt-4": [Outcome.BOTH_BAD, Outcome.TIE],
        "winner": [Outcome.TIE, Outcome.MODEL_A],
    }.items():
        for log in (read_battles(path, winner=column), read_battles(lines, winner=column),
                    battles_from_frame(frame, winner=column)):  # fmt: skip
            assert [b.winner for b in log.to_battles()] == expected
    with pytest.raises(DataError, match=r"voters\.csv: missing column claude"):
        read_battles(path, winner="claude")
    for vote, complaint in (("c", "unknown winner 'c'"), ("", "is missing")):
        path = text(tmp_path / "v.csv", "model_a,model_b,human,winner", "x,y,a,a", f"x,y,{vote},a")
        assert len(read_battles(path)) == 2
        with pytest.raises(DataError, match=rf"v\.csv:3: .*{complaint}"):
            read_battles(path, winner="human")


TABLE = {"question_id": ["007", "8"], "model_a": ["x", "y"], "model_b": ["y", "z"],
         "winner": ["model_a", "tie"]}  # fmt: skip


def test_tables_of_other_writers_are_read(tmp_path: Path) -> None:
    """Delimiters, JSON by columns, Arrow files and streams, and a table of DuckDB hold the same."""
    frame = pd.DataFrame(TABLE)
    for name, cut in {"a.tsv": "\t", "a.csv": ";", "b.csv": "\t"}.items():
        frame.to_csv(tmp_path / name, sep=cut, index=False)
    frame.to_json(tmp_path / "columns.json", indent=2)
    frame.to_json(tmp_path / "split.json", orient="split")
    frame.to_json(tmp_path / "lines.ndjson", orient="records", lines=True)
    (tmp_path / "lists.json").write_text(json.dumps(TABLE))
    with duckdb.connect(tmp_path / "a.duckdb") as con:
        con.execute("CREATE TABLE other AS SELECT 1 AS x; CREATE TABLE battles AS FROM frame")
    columns = Table({name: Array(cells, DataType.utf8()) for name, cells in TABLE.items()})
    write_ipc(columns, tmp_path / "lz4.arrow", compression="lz4")
    write_ipc_stream(columns, tmp_path / "stream.arrow", compression=None)
    wanted = records(text(tmp_path / "own.jsonl", *(json.dumps(row) for row in
                                                    frame.to_dict("records"))))  # fmt: skip
    for path in tmp_path.iterdir():
        assert records(path) == wanted, path.name


VOTERS = ["model_a,model_b,human,gpt-4,winner", "x,y,a,tie_bothbad,tie", "y,x,b,tie,model_a"]


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [(".jsonl", ":1", ":4"), (".csv.gz", ":2", ":5"), (".parquet", " row 0", " row 3")],
)
def test_a_battle_id_twice_is_refused(kind: str, first: str, second: str, tmp_path: Path) -> None:
    """A file of battles written twice in a row is refused."""
    path = tmp_path / f"battles{kind}"
    rows = BattleLog.from_battles([battle(battle_id=name) for name in ("b1", "b2", "b3")])
    twice = rows.select([0, 1, 2, 0, 1, 2])
    write_battles(path, twice)
    with pytest.raises(DataError) as refused:
        read_battles(path)
    sentence = f"{path}{second}: battle_id 'b1' again; remove it or that at {path}{first}"
    assert str(refused.value) == sentence
    with pytest.raises(DataError, match=r"the frame row 3: .* that at the frame row 0"):
        battles_from_frame(twice.to_frame())
    write_battles(path, replace(twice, battle_id=None))
    assert len(read_battles(path)) == 6


FORMULAS = ["=1+1", "+x", "-x", "@x", "-2+3", "'=x", "''@x"]
PLAIN = ["x", "'x", "-1", "+2.5", "-1e-3", "a=b", "x-y"]


@pytest.mark.parametrize("kind", [".csv", ".csv.gz"])
def test_no_cell_of_a_csv_file_is_a_formula(kind: str, tmp_path: Path) -> None:
    """Text that a spreadsheet would calculate stands after an apostrophe in CSV."""
    path = tmp_path / f"battles{kind}"
    wanted = [
        battle(name, f"{name} too", question_id=name, session=f"\t{name}", lane=f"\r{name}")
        for name in FORMULAS + PLAIN
    ]
    log = BattleLog.from_battles(wanted)
    write_battles(path, replace(log, covariates={"length": np.linspace(-1, 1, len(log))}))
    assert records(path) == wanted
    with (gzip.open if kind.endswith(".gz") else open)(path, "rt", newline="") as lines:
        rows = list(csv.DictReader(lines))
    for name in ("model_a", "question_id"):
        assert [row[name] for row in rows] == [f"'{each}" for each in FORMULAS] + PLAIN
    assert {row["session"][:2] for row in rows} == {"'\t"}
    assert {row["lane"][:2] for row in rows} == {"'\r"}
    assert rows[0]["length"] == "-1.0"


def test_names_that_look_alike_are_warned_about(tmp_path: Path) -> None:
    """Names that look alike, or mix scripts, are warned about by their code points."""
    for one, two, told in (
        ("caf\u00e9", "cafe\u0301", r"'cafe\\u0301' and 'caf\\xe9' look alike and count as two"),
        ("gpt-4o", "gpt-4\u043e", r"'gpt-4o' and 'gpt-4\\u043e' look alike and count as two"),
        ("\uff47pt", "gpt", r"'gpt' and '\\uff47pt' look alike and count"),
        ("gpt-4o", "gpt-4o ", "'gpt-4o' and 'gpt-4o ' look alike and count"),
        ("gpt-4o", "GPT-4o", "'GPT-4o' and 'gpt-4o' look alike and count"),
        ("gpt-4o", "gpt\u20114o", r"'gpt-4o' and 'gpt\\u20114o' look alike and count"),
        ("cl\u0430ude", "other", r"'cl\\u0430ude' mixes Cyrillic and Latin letters and may be"),
    ):
        with pytest.warns(LookAlikeWarning, match=f"votes.jsonl: {told}"):
            through(tmp_path / "votes.jsonl", [battle(one, two)])


def value(con: duckdb.DuckDBPyConnection, query: str) -> Any:
    return con.execute(query).fetchall()[0][0]


def test_connections_have_tables_views_and_settings_of_their_own(tmp_path: Path) -> None:
    """Connections share no table or setting, and each thread gets the battles of its file."""
    zone = "SELECT current_setting('TimeZone')"
    with connection() as con:
        con.execute("CREATE TEMP TABLE raw AS SELECT 1 AS one; SET TimeZone = 'Asia/Tokyo'")
        con.register("incoming", {"one": np.ones(1)})
        with connection() as beside:
            assert (value(beside, zone), beside.execute("SHOW TABLES").fetchall()) == ("UTC", [])
    read_battles(text(tmp_path / "votes.jsonl", *[GOOD] * 5000))
    with connection() as after:
        assert value(after, zone) == "UTC"
        assert value(after, "SELECT current_setting('autoinstall_known_extensions')") is False
        assert after.execute("SHOW TABLES").fetchall() == []
        assert value(after, "SELECT sum(memory_usage_bytes) FROM duckdb_memory()") < 1e6

    def models(n: int) -> tuple[str, ...]:
        try:
            winner = "model_a" if n % 5 else "nobody"
            path = text(tmp_path / f"{n}.jsonl", line(model_a=f"m{n:02}", winner=winner))
            return read_battles(path).models
        except DataError:
            return ()

    with ThreadPoolExecutor(8) as pool:
        every = list(pool.map(models, range(30)))
    assert every == [("beech", f"m{n:02}") if n % 5 else () for n in range(30)]


def number() -> int:
    """1 on a new database, and one more with every call."""
    with connection() as con:
        con.execute("CREATE SEQUENCE IF NOT EXISTS reads")
        return int(value(con, "SELECT nextval('reads')"))


def test_errors_or_long_work_end_databases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No database is used after an error or after long work."""
    monkeypatch.setattr(tabular, "_BRIEF", 60)
    wrong = text(tmp_path / "wrong.jsonl", line(winner="nobody"))
    for _ in range(2):
        with pytest.raises(DataError):
            read_battles(wrong)
        assert [number(), number()] == [1, 2]
    monkeypatch.setattr(tabular, "_BRIEF", 0)
    assert (number(), [number(), number()]) == (3, [1, 1])


FORKS = """
import os, sys
from arena_kit import read_battles
read_battles(sys.argv[1])
child = os.fork()
if not child:
    sys.exit(40 + len(read_battles(sys.argv[1])))
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), len(read_battles(sys.argv[1])))
"""
THREADS = """
import sys, threading
from arena_kit.battles import read, tabular
def wait(database):
    threading.Event().wait()
threading.Thread(target=wait, args=(tabular._shared,), daemon=True).start()
print(len(read.read_battles(sys.argv[1])))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
@pytest.mark.parametrize(("script", "said"), [(FORKS, "42 2\n"), (THREADS, "2\n")])
def test_a_process_that_reads_ends_quietly(script: str, said: str, tmp_path: Path) -> None:
    """Threads of a database do not survive a fork, so a child reads with a database of its own."""
    command = [sys.executable, "-c", script, str(text(tmp_path / "votes.jsonl", GOOD, GOOD))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, said)
    assert script == FORKS or done.stderr == ""


#: Rows of small files that hold too much, by name, and what is said of each.
COLUMNS = {"model_a": ["ash"] * 9, "model_b": ["beech"] * 9, "winner": ["model_a"] * 9}
TOO_MUCH = {
    "rows.parquet": ([], "has 101 rows, and at most 100 are held in memory"),
    "line.jsonl.gz": ([line(prompt="x" * 100)], ":1: a line has over 100 bytes"),
    "columns.json.gz": ([json.dumps(COLUMNS)], ":1: a line has over 100 bytes"),
    "broken.json.gz": (["[", f"{GOOD},", GOOD], "over 100 characters in one piece"),
}


@pytest.mark.parametrize("name", TOO_MUCH)
def test_a_file_holds_too_much(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused before it fills memory; --no-limits, which the sentence names, lifts that."""
    for module, limit in ((files, "LONGEST_LINE"), (tabular, "MOST_ROWS"), (tabular, "MOST_JSON")):
        monkeypatch.setattr(module, limit, 100)
    lines, why = TOO_MUCH[name]
    row = "'ash' AS model_a, 'beech' AS model_b, 'model_a' AS winner FROM range(101)"
    file = text(tmp_path / name, *lines) if lines else parquet(tmp_path / name, f"SELECT {row}")
    with pytest.raises(DataError, match=why) as refused:
        read_battles(file)
    assert "`arena-kit rate --no-limits`" in str(refused.value)
    rated = call("rate", "--no-stream", "--no-limits", file)
    assert rated.exit_code == (2 if "broken" in name else 0), rated.output


READERS = pytest.mark.parametrize("read", [read_battles, BattleFiles.of])


@pytest.mark.parametrize(("more", "repeats"), [
    ({"question_id": "q"}, 2), ({"timestamp": "2026-01-02"}, 2), ({}, 0),
    ({"question_id": "q", "battle_id": "{n}"}, 0),
])  # fmt: skip
@READERS
def test_equal_rows_are_told(
    tmp_path: Path, more: dict[str, str], repeats: int, read: Callable[[Path], Any]
) -> None:
    """Repeated rows without an id are counted in a warning, if they name question or time."""
    rows = [line(**{key: value.format(n=n) for key, value in more.items()}) for n in range(3)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(read(text(tmp_path / "battles.jsonl", *rows))) == 3
    told = [str(each.message) for each in caught if each.category is RepeatedWarning]
    assert len(told) == bool(repeats)
    assert all("repeat an earlier row: 2; without a battle_id" in sentence for sentence in told)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@READERS
def test_a_struct_is_read_by_the_field_that_names_the_model(
    tmp_path: Path, suffix: str, read: Callable[[Path], Any]
) -> None:
    """Two structs with one name are one model, whatever else they hold."""
    rows = [({"name": "x", "size": n}, {"id": "y"}, winner)
            for n, winner in enumerate(("model_a", "tie", "model_b"))]  # fmt: skip
    table = [dict(zip(("model_a", "model_b", "winner"), row, strict=True)) for row in rows]
    path = tmp_path / f"battles.{suffix}"
    lines = tmp_path / "battles.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in table))
    if suffix == "parquet":
        duckdb.read_json(str(lines)).write_parquet(str(path))
    battles = read(path)
    log = battles.cells.log if isinstance(battles, BattleFiles) else battles
    assert log.models == ("x", "y")
    assert {str(each.winner) for each in log.to_battles()} == {"model_a", "tie", "model_b"}
    assert len(battles) == 3
