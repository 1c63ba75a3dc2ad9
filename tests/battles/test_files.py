"""Battle logs on disk: what is written is read back, and what is wrong is named by its line."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit.battles.battle import (
    OUTCOMES,
    Battle,
    LookAlikeWarning,
    Outcome,
    Source,
    look_alikes,
)
from arena_kit.battles.log import BattleLog
from arena_kit.battles.read import battles_from_frame, read_battles
from arena_kit.battles.write import write_battles, write_columns
from arena_kit.files import DataError

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


def jsonl(path: Path, *lines: str) -> Path:
    path.write_text("".join(text + "\n" for text in lines), encoding="utf-8")
    return path


def parquet(path: Path, select: str) -> Path:
    """A Parquet file of what a SELECT yields, made without the package."""
    with duckdb.connect() as con:
        con.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet)")
    return path


def records(path: Path) -> list[Battle]:
    return list(read_battles(path).to_battles())


printable = st.characters(exclude_categories=("C", "Z"), include_characters=" ")
awkward = st.sampled_from("ab\"'\\,#;|0 =+-@")
names = st.text(printable | awkward, min_size=1, max_size=8)
texts = st.none() | st.text(st.characters(codec="utf-8") | awkward, min_size=1, max_size=8)
zones = st.integers(-12, 14).map(lambda hours: timezone(timedelta(hours=hours)))
instants = st.integers(-(10**16), 10**17).map(lambda us: NOON + timedelta(microseconds=us))
moments = st.none() | st.builds(lambda when, zone: when.astimezone(zone), instants, zones)
positive = st.floats(0, exclude_min=True, allow_infinity=False, allow_nan=False)


@st.composite
def battles(draw: st.DrawFn) -> Battle:
    """Any valid battle, with awkward characters wherever text may stand."""
    a, b = draw(st.lists(names, min_size=2, max_size=2, unique=True))
    inconsistent = draw(st.booleans())
    return Battle(
        model_a=a,
        model_b=b,
        winner=Outcome.TIE if inconsistent else draw(st.sampled_from(OUTCOMES)),
        inconsistent=inconsistent,
        source=draw(st.sampled_from(Source)),
        question_id=draw(texts),
        dimension=draw(texts),
        judge_model=draw(texts),
        battle_id=draw(texts),
        session=draw(texts),
        lane=draw(texts),
        timestamp=draw(moments),
        weight=draw(st.just(1.0) | positive),
    )


def identity(row: Battle) -> object:
    """What no two battles of a file share: the id; those without one are all different."""
    return row.battle_id or object()


some_battles = st.lists(battles(), max_size=10, unique_by=identity)


# What is written is read


@pytest.mark.filterwarnings("ignore::arena_kit.battles.battle.LookAlikeWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_log_survives_its_file(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Written and read again, every field of every battle is the same, in order."""
    path = tmp_path_factory.mktemp("files") / f"battles{kind}"

    @settings(max_examples=6, deadline=None)
    @given(some_battles)
    def survives(wanted: list[Battle]) -> None:
        write_battles(path, BattleLog.from_battles(wanted))
        assert records(path) == wanted

    survives()


@pytest.mark.filterwarnings("ignore::arena_kit.battles.battle.LookAlikeWarning")
@settings(max_examples=8, deadline=None)
@given(some_battles)
def test_a_log_survives_its_frame(wanted: list[Battle]) -> None:
    """Through a pandas frame and back, every field of every battle is the same, in order."""
    frame = BattleLog.from_battles(wanted).to_frame()
    assert list(battles_from_frame(frame).to_battles()) == wanted


@pytest.mark.parametrize("kind", UNZIPPED)
def test_a_log_of_bare_votes_survives_its_file(kind: str, tmp_path: Path) -> None:
    """A log that only has models and winners comes back without columns it never had."""
    wanted = [battle(winner=outcome) for outcome in OUTCOMES]
    write_battles(tmp_path / f"bare{kind}", BattleLog.from_battles(wanted))
    back = read_battles(tmp_path / f"bare{kind}")
    assert list(back.to_battles()) == wanted
    assert set(back.columns()) == {"model_a", "model_b", "winner", "source"}


@pytest.mark.parametrize("kind", UNZIPPED)
def test_a_log_without_battles_survives_its_file(kind: str, tmp_path: Path) -> None:
    """An empty log is written and read as an empty log."""
    write_battles(tmp_path / f"empty{kind}", BattleLog.from_battles([]))
    back = read_battles(tmp_path / f"empty{kind}")
    assert (len(back), back.models) == (0, ())


@pytest.mark.parametrize("text", ["", "\n \n\n"])
@pytest.mark.parametrize("name", ["empty.jsonl", "empty.jsonl.gz"])
def test_an_empty_file_is_an_empty_log(name: str, text: str, tmp_path: Path) -> None:
    """A file without lines, or with blank ones only, holds no battles."""
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    assert len(read_battles(path)) == 0


@pytest.mark.parametrize("source", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_a_csv_of_another_writer_is_read(source: int, tmp_path: Path) -> None:
    """Quotes, commas, hashes, backslashes and line breaks in a CSV file are read as text."""
    rows = [
        ["#ash", 'be"ech', "model_a", "two\nlines", "x"],
        ["a,sh", "be\\ech", "tie (bothbad)", '\\"', "y"],
        [" ash ", "'beech'", "bothbad", "<script>alert('1')</script>", ""],
    ]
    path = tmp_path / "other.csv"
    with path.open("w", newline="", encoding="utf-8") as out:
        table = csv.writer(out, quoting=source)  # type: ignore[arg-type]
        table.writerows([["model_a", "model_b", "winner", "question_id", "remark"], *rows])
    found = [[b.model_a, b.model_b, b.question_id] for b in records(path)]
    assert found == [[a, b, question] for a, b, _, question, _ in rows]


@pytest.mark.parametrize("kind", UNZIPPED)
def test_ids_that_look_like_numbers_stay_text(kind: str, tmp_path: Path) -> None:
    """The id 007 is not 7, and a model called 1e5 is not 100000."""
    wanted = [battle("007", "1e5", question_id="010", battle_id="0x1F", session="NaN", lane="null")]
    write_battles(tmp_path / f"ids{kind}", BattleLog.from_battles(wanted))
    assert records(tmp_path / f"ids{kind}") == wanted


def test_ids_in_a_frame_stay_text() -> None:
    """A frame's text ids keep their zeros, beside missing ones too."""
    frame = pd.DataFrame(
        {"model_a": ["007", "7"], "model_b": ["x", "x"], "winner": "tie", "battle_id": ["01", None]}
    )
    found = [(b.model_a, b.battle_id) for b in battles_from_frame(frame).to_battles()]
    assert found == [("007", "01"), ("7", None)]


@pytest.mark.parametrize("kind", UNZIPPED)
def test_html_and_control_characters_stay_as_they_are(kind: str, tmp_path: Path) -> None:
    """Markup and control characters in free text are data: neither changed nor run."""
    nasty = "<img src=x onerror=alert(1)>\x00\x07\x1b[31m\r\n\t\u2028&amp;\ufeff"
    wanted = [battle("<script>", "b&b", question_id=nasty, judge_model=nasty, session="'; DROP")]
    write_battles(tmp_path / f"html{kind}", BattleLog.from_battles(wanted))
    assert records(tmp_path / f"html{kind}") == wanted


@pytest.mark.parametrize("kind", UNZIPPED)
def test_a_value_late_in_the_log_is_not_lost(kind: str, tmp_path: Path) -> None:
    """A column that is empty for thousands of rows still keeps its only value."""
    late = battle(battle_id="last", question_id="q", timestamp=NOON, inconsistent=True)
    wanted = [*[battle()] * 3000, late]
    write_battles(tmp_path / f"late{kind}", BattleLog.from_battles(wanted))
    back = read_battles(tmp_path / f"late{kind}").select([0, 3000])
    assert list(back.to_battles()) == [battle(), late]


def test_very_many_questions_are_read_like_few(tmp_path: Path) -> None:
    """Sixty thousand distinct questions, and one row without, keep their order."""
    n = 60_000
    lines = [f'{GOOD[:-1]}, "question_id": "{i:05d}"}}' for i in reversed(range(n))]
    log = read_battles(jsonl(tmp_path / "many.jsonl", *lines, GOOD))
    assert log.question_id is not None
    assert log.question_id.names.tolist() == [f"{i:05d}" for i in range(n)]
    assert log.question_id.codes.tolist() == [*reversed(range(n)), -1]


def test_an_old_file_stays_when_the_new_one_fails(tmp_path: Path) -> None:
    """A log that cannot be written leaves neither a half file nor a lost one."""
    path = jsonl(tmp_path / "battles.jsonl", GOOD)
    log = BattleLog.from_battles([battle(question_id="\ud800")])
    with pytest.raises(Exception, match=r"(?i)surrogate|utf"):
        write_battles(path, log)
    assert path.read_text() == GOOD + "\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", UNZIPPED)
def test_names_of_files_are_not_patterns(kind: str, tmp_path: Path) -> None:
    """A file called run[1] is that file, even beside one called run1."""
    write_battles(tmp_path / f"run1{kind}", BattleLog.from_battles([battle("wrong", "file")]))
    write_battles(tmp_path / f"run[1]{kind}", BattleLog.from_battles([battle("ash", "beech")]))
    assert read_battles(tmp_path / f"run[1]{kind}").models == ("ash", "beech")


@pytest.mark.parametrize("kind", UNZIPPED)
def test_names_of_folders_are_not_columns(kind: str, tmp_path: Path) -> None:
    """Reading from a folder called weight=7 gives the battles of the file and nothing else."""
    path = tmp_path / "weight=7" / f"battles{kind}"
    write_battles(path, BattleLog.from_battles([battle()]))
    assert records(path) == [battle()]


def test_a_quote_in_a_path_is_harmless(tmp_path: Path) -> None:
    """A path with a quote in it is a path."""
    path = tmp_path / "o'brien; DROP TABLE.jsonl"
    write_battles(path, BattleLog.from_battles([battle()]))
    assert records(path) == [battle()]


# What is tolerated


def test_unknown_keys_are_tolerated(tmp_path: Path) -> None:
    """Files outlive schemas: a key nobody knows is left aside, whatever it holds."""
    path = jsonl(tmp_path / "new.jsonl", line(mood="good", extra={"deep": [1, None]}), GOOD)
    assert records(path) == [battle(winner="model_a")] * 2


def test_unknown_columns_are_tolerated(tmp_path: Path) -> None:
    """A CSV file, a Parquet file and a frame may have columns nobody knows, in any order."""
    table = tmp_path / "new.csv"
    table.write_text("mood,winner,model_b,model_a\n1,model_a,beech,ash\n")
    select = "SELECT 'ash' AS model_a, [1, 2] AS mood, 'beech' AS model_b, 'model_a' AS winner"
    frame = pd.DataFrame([{"mood": {"a": 1}, **json.loads(GOOD)}])
    wanted = [battle(winner="model_a")]
    assert records(table) == wanted
    assert records(parquet(tmp_path / "new.parquet", select)) == wanted
    assert list(battles_from_frame(frame).to_battles()) == wanted


def test_a_frame_may_hold_any_type_beside_the_battles() -> None:
    """A column of a type that only pandas knows does not stand in the way."""
    frame = pd.DataFrame([json.loads(GOOD)]).assign(month=pd.period_range("2024", periods=1))
    assert len(battles_from_frame(frame)) == 1


def test_published_spellings_are_read(tmp_path: Path) -> None:
    """Both-bad votes are read in each of their three spellings."""
    labels = ["both_bad", "bothbad", "tie (bothbad)"]
    path = jsonl(tmp_path / "spelling.jsonl", *(line(winner=label) for label in labels))
    assert [b.winner for b in records(path)] == [Outcome.BOTH_BAD] * 3


def test_null_means_absent(tmp_path: Path) -> None:
    """An optional value that is null is as if it were not there."""
    path = jsonl(
        tmp_path / "null.jsonl",
        line(weight=None, timestamp=None, inconsistent=None, question_id=None, source=None),
    )
    assert records(path) == [battle(winner="model_a")]


def test_times_are_iso_or_seconds(tmp_path: Path) -> None:
    """A timestamp is an ISO date, UTC unless it says otherwise, or seconds since 1970."""
    moments: list[tuple[object, datetime]] = [
        ("2024-08-14T12:00:00Z", NOON),
        ("2024-08-14T14:00:00+02:00", NOON),
        ("2024-08-14 12:00:00", NOON),
        ("2024-08-14", NOON - timedelta(hours=12)),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (1723636800, NOON),
        (1723636800.25, NOON + timedelta(milliseconds=250)),
        ("1723636800", NOON),
    ]
    path = jsonl(tmp_path / "time.jsonl", *(line(timestamp=written) for written, _ in moments))
    assert [b.timestamp for b in records(path)] == [moment for _, moment in moments]


def test_typed_columns_are_read(tmp_path: Path) -> None:
    """Parquet columns of numbers, booleans and times mean what they mean as text."""
    select = (
        "SELECT 'ash' AS model_a, 'beech' AS model_b, 'tie' AS winner, 7 AS question_id,"
        " 2.5::DOUBLE AS weight, true AS inconsistent, TIMESTAMP '2024-08-14 12:00' AS timestamp"
    )
    (found,) = records(parquet(tmp_path / "typed.parquet", select))
    assert found == battle(question_id="7", weight=2.5, inconsistent=True, timestamp=NOON)


def test_a_typed_frame_is_read() -> None:
    """Categories, booleans and zoned times in a frame mean what they mean as text."""
    frame = pd.DataFrame(
        {
            "model_a": pd.Categorical(["ash", "ash"]),
            "model_b": ["beech", "beech"],
            "winner": ["tie", "tie"],
            "inconsistent": [True, False],
            "weight": [2, 3],
            "timestamp": pd.to_datetime(["2024-08-14T14:00:00+02:00", None]),
        },
        index=[9, 3],
    )
    assert list(battles_from_frame(frame).to_battles()) == [
        battle(weight=2.0, inconsistent=True, timestamp=NOON),
        battle(weight=3.0),
    ]


# What is refused, and where


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"winner": "TIE"}, r"unknown winner 'TIE'; allowed: model_a, .*tie \(bothbad\)"),
        ({"winner": None}, "winner is missing"),
        ({"model_a": None}, "model_a is missing"),
        ({"model_b": None}, "model_b is missing"),
        ({"model_b": "ash"}, "both models are 'ash'"),
        ({"model_a": ""}, "model name '' is not valid; allowed: 1 to 256 printable"),
        ({"model_b": "a\u0007"}, "model name .* is not valid; allowed: 1 to 256 printable"),
        ({"source": "crowd"}, "unknown source 'crowd'; allowed: llm-judge, human"),
        ({"weight": "NaN"}, "weight 'NaN' is not a positive finite number"),
        ({"weight": 0}, "weight '0' is not a positive finite number"),
        ({"weight": -1}, "weight '-1' is not a positive finite number"),
        ({"weight": "inf"}, "weight 'inf' is not a positive finite number"),
        ({"weight": "heavy"}, "weight 'heavy' is not a positive finite number"),
        ({"timestamp": "yesterday"}, "timestamp 'yesterday' is not an ISO date or seconds"),
        ({"timestamp": "2024-02-30"}, "timestamp '2024-02-30' is not an ISO date or seconds"),
        ({"timestamp": "inf"}, "timestamp 'inf' is not an ISO date or seconds"),
        ({"timestamp": "1e300"}, "timestamp '1e300' is not an ISO date or seconds"),
        ({"inconsistent": "maybe"}, "inconsistent 'maybe' is not true or false"),
        ({"inconsistent": True}, "an inconsistent battle must have winner 'tie'"),
    ],
)
def test_a_wrong_value_is_named_with_its_line(
    changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    """An unknown value is an error that names the file, the line (blank ones count) and it."""
    path = jsonl(tmp_path / "bad.jsonl", GOOD, "", GOOD, "  ", line(**changes), GOOD)
    with pytest.raises(DataError, match=rf"bad\.jsonl:5: {message}"):
        read_battles(path)


@pytest.mark.parametrize(
    "text",
    [
        '{"model_a": ',
        "{'model_a': 'ash'}",
        "oops",
        GOOD + GOOD,
        GOOD[:-1] + ', "weight": NaN}',
        '["ash", "beech", "tie"]',
        "null",
        '"ash"',
    ],
)
def test_a_malformed_line_is_named(text: str, tmp_path: Path) -> None:
    """A line that is not one JSON object is named by its number; blank lines count."""
    path = jsonl(tmp_path / "bad.jsonl", GOOD, "", "", text, GOOD)
    with pytest.raises(DataError, match=r"bad\.jsonl:4: (not valid JSON|expected a JSON object)"):
        read_battles(path)


def test_a_malformed_line_in_a_zipped_file_is_named(tmp_path: Path) -> None:
    """A line is counted as it stands in the unzipped text."""
    path = tmp_path / "bad.jsonl.gz"
    path.write_bytes(gzip.compress(f"{GOOD}\n\noops\n".encode()))
    with pytest.raises(DataError, match=r"bad\.jsonl\.gz:3: not valid JSON"):
        read_battles(path)


def test_bytes_that_are_not_text_are_named(tmp_path: Path) -> None:
    """A line that is not UTF-8 is named by its number."""
    path = tmp_path / "latin.jsonl"
    path.write_bytes(f"{GOOD}\n{GOOD}\n".encode() + GOOD.replace("ash", "ä").encode("latin-1"))
    with pytest.raises(DataError, match=r"latin\.jsonl:3: not UTF-8"):
        read_battles(path)


def test_deeply_nested_text_is_refused_politely(tmp_path: Path) -> None:
    """A line nested a hundred thousand deep beside a wrong winner is an error like any other."""
    deep = "[" * 100_000 + "]" * 100_000
    path = jsonl(tmp_path / "deep.jsonl", line(winner="draw")[:-1] + f', "x": {deep}}}')
    with pytest.raises(DataError, match=r"deep\.jsonl:1: "):
        read_battles(path)


def test_a_damaged_gzip_file_is_refused(tmp_path: Path) -> None:
    """A gzip file cut short or with flipped bits is named, not half read."""
    whole = gzip.compress("".join(line(question_id=str(i)) + "\n" for i in range(500)).encode())
    flipped = bytearray(whole)
    flipped[200] ^= 0xFF
    flipped[201] ^= 0xFF
    for damaged in (whole[:-12], bytes(flipped), b"hello"):
        path = tmp_path / "damaged.jsonl.gz"
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"damaged\.jsonl\.gz"):
            read_battles(path)


@pytest.mark.parametrize(
    ("rows", "where"),
    [
        (["ash,beech,tie,q", "ash,beech,draw,q"], 3),
        (["ash,beech,tie,q", "", "", "ash,beech,draw,q"], 5),
        (['ash,beech,tie,"two\nlines"', "ash,beech,draw,q"], 4),
    ],
    ids=["plain", "after blank lines", "after a line break in quotes"],
)
def test_a_wrong_value_in_a_csv_is_named_with_its_line(
    rows: list[str], where: int, tmp_path: Path
) -> None:
    """The line number is the one an editor shows, whatever came before it."""
    path = jsonl(tmp_path / "bad.csv", f"{HEADER},question_id", *rows)
    with pytest.raises(DataError, match=rf"bad\.csv:{where}: unknown winner 'draw'"):
        read_battles(path)


def test_missing_columns_are_named(tmp_path: Path) -> None:
    """A table without the columns of a battle is an error that lists them."""
    path = jsonl(tmp_path / "short.csv", "model_a,vote", "ash,tie")
    with pytest.raises(DataError, match=r"short\.csv: missing column model_b, winner"):
        read_battles(path)
    select = "SELECT 'ash' AS model_a, 'beech' AS model_b"
    with pytest.raises(DataError, match=r"short\.parquet: missing column winner"):
        read_battles(parquet(tmp_path / "short.parquet", select))
    with pytest.raises(DataError, match="the frame: missing column model_b, winner"):
        battles_from_frame(pd.DataFrame({"model_a": ["ash"]}))


@pytest.mark.parametrize("row", ["ash,beech", "ash,beech,tie,extra"])
def test_a_ragged_csv_is_refused(row: str, tmp_path: Path) -> None:
    """A row with too few or too many cells is not guessed at."""
    path = jsonl(tmp_path / "ragged.csv", HEADER, "ash,beech,tie", row)
    with pytest.raises(DataError, match=r"ragged\.csv"):
        read_battles(path)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"winner": "draw"}, "unknown winner 'draw'"),
        ({"model_b": None}, "model_b is missing"),
        ({"model_b": "ash"}, "both models are 'ash'"),
        ({"weight": -2.0}, "weight '-2.0' is not a positive"),
        ({"inconsistent": True}, "an inconsistent battle must have winner 'tie'"),
    ],
)
def test_a_wrong_value_in_a_frame_is_named_with_its_row(
    wrong: Mapping[str, object], message: str
) -> None:
    """An error in a frame names the row, counted from 0."""
    frame = pd.DataFrame([json.loads(GOOD), json.loads(GOOD) | wrong])
    with pytest.raises(DataError, match=f"the frame row 1: {message}"):
        battles_from_frame(frame)


def test_nan_in_parquet_is_refused(tmp_path: Path) -> None:
    """A weight that is NaN, which Parquet can hold beside null, is an error with its row."""
    select = (
        "SELECT 'ash' AS model_a, 'beech' AS model_b, 'tie' AS winner, unnest(weights) AS weight"
        " FROM (SELECT [1.0, 'NaN'::DOUBLE] AS weights)"
    )
    with pytest.raises(DataError, match=r"nan\.parquet row 1: weight 'nan' is not a positive"):
        read_battles(parquet(tmp_path / "nan.parquet", select))


@pytest.mark.parametrize("kind", UNZIPPED)
def test_a_model_name_of_a_megabyte_is_refused(kind: str, tmp_path: Path) -> None:
    """A monstrous name is refused, and the message about it stays short."""
    path, huge = tmp_path / f"huge{kind}", "x" * 1_000_000
    if kind == ".parquet":
        parquet(path, f"SELECT '{huge}' AS model_a, 'beech' AS model_b, 'tie' AS winner")
    elif kind == ".csv":
        jsonl(path, HEADER, f"{huge},beech,tie")
    else:
        jsonl(path, line(model_a=huge))
    with pytest.raises(DataError, match=r"model name 'xxx.* 1 to 256 printable") as caught:
        read_battles(path)
    assert len(str(caught.value)) < 500


def test_an_unknown_kind_of_file_is_refused(tmp_path: Path) -> None:
    """A file whose name tells no known kind is neither read nor written; the kinds are listed."""
    path = jsonl(tmp_path / "battles.txt", GOOD)
    kinds = r"allowed: \.jsonl, \.jsonl\.gz, \.json, \.json\.gz, \.csv, \.csv\.gz, \.parquet"
    with pytest.raises(DataError, match=rf"battles\.txt: unknown kind of battle file; {kinds}"):
        read_battles(path)
    with pytest.raises(DataError, match=rf"out\.xlsx: unknown kind of battle file; {kinds}"):
        write_battles(tmp_path / "out.xlsx", BattleLog.from_battles([battle()]))
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A path to nothing, or to a folder, is an error that names it."""
    for path in (tmp_path / "nowhere.jsonl", tmp_path):
        with pytest.raises(DataError, match=f"{path.name}: no such file"):
            read_battles(path)
    with pytest.raises(DataError, match=r"nowhere\.jsonl: no such file"):
        read_battles(tmp_path / "nowhere.jsonl", format="arena-kit")


def test_a_file_that_is_not_parquet_is_named(tmp_path: Path) -> None:
    """Text under a Parquet name is an error that names the file."""
    with pytest.raises(DataError, match=r"fake\.parquet: "):
        read_battles(jsonl(tmp_path / "fake.parquet", GOOD))


# Pair counts


def test_pair_counts_are_read(tmp_path: Path) -> None:
    """Counts of a pair add up over rows and sides, under either name of the tie columns."""
    path = jsonl(
        tmp_path / "counts.csv",
        "model_a,model_b,a_wins,b_wins,ties,tie_bothbad",
        "beech,ash,3,1,2,0",
        "ash,beech,1,0,0,5",
        "007,ash,0,4,0,0",
    )
    counts = {name: column.tolist() for name, column in read_battles(path).pair_counts().items()}
    assert counts == {
        "model_a": ["007", "ash"],
        "model_b": ["ash", "beech"],
        "a_wins": [0, 2],
        "b_wins": [4, 3],
        "tie": [0, 2],
        "both_bad": [0, 5],
    }


@pytest.mark.parametrize("kind", KINDS)
def test_pair_counts_survive_their_file(kind: str, tmp_path: Path) -> None:
    """Counts are written as they are read, in every kind of file."""
    log = BattleLog.from_battles(
        [
            battle("beech", "ash", winner="model_a"),
            battle("ash", "樺", winner="both_bad", weight=2.5),
            battle("ash", "樺", winner="tie", weight=0.1),
        ]
    )
    write_columns(tmp_path / f"counts{kind}", log.pair_counts())
    back = read_battles(tmp_path / f"counts{kind}", format="pair-counts").pair_counts()
    for name, column in log.pair_counts().items():
        assert back[name].tolist() == column.tolist()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("ash,beech,3,-1", "b_wins is not a finite number >= 0"),
        ("ash,beech,3,nan", "b_wins is not a finite number >= 0"),
        ("ash,beech,3,", "b_wins is missing"),
        ("ash,beech,few,1", "a_wins is not a finite number >= 0"),
        ("ash,ash,3,1", "both models are 'ash'"),
        (",beech,3,1", "model_a is missing"),
    ],
)
def test_wrong_pair_counts_are_refused(row: str, message: str, tmp_path: Path) -> None:
    """A count that is no count, or a pair that is no pair, is an error that names the line."""
    path = jsonl(tmp_path / "counts.csv", "model_a,model_b,a_wins,b_wins", "ash,cherry,1,1", row)
    with pytest.raises(DataError, match=rf"counts\.csv:3: {message}"):
        read_battles(path, format="pair-counts")


def test_a_missing_count_is_not_zero(tmp_path: Path) -> None:
    """A count that a Parquet file leaves out is refused, as it is in a CSV file."""
    select = "SELECT 'ash' AS model_a, 'beech' AS model_b, 3 AS a_wins, NULL::INTEGER AS b_wins"
    with pytest.raises(DataError, match=r"counts\.parquet row 0: b_wins is missing"):
        read_battles(parquet(tmp_path / "counts.parquet", select), format="pair-counts")


def test_a_count_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Text under a Parquet name is an error that names the file."""
    with pytest.raises(DataError, match=r"fake\.parquet"):
        read_battles(jsonl(tmp_path / "fake.parquet", "not parquet"), format="pair-counts")


def test_columns_of_counts_are_required(tmp_path: Path) -> None:
    """A table without wins is an error that lists what is missing."""
    path = jsonl(tmp_path / "counts.csv", "model_a,b_wins", "ash,1")
    with pytest.raises(
        DataError, match=r"counts\.csv: missing column model_b, a_wins; found: model_a, b_wins"
    ):
        read_battles(path, format="pair-counts")


# Real files


def test_the_published_counts_add_up(data: Path) -> None:
    """The 1.67M votes have the totals that their README states."""
    log = read_battles(
        data / "chatbot_arena_1m7_counts" / "pair_counts.csv.gz", format="pair-counts"
    )
    assert len(log.models) == 129
    assert log.weights().sum() == 1_670_250
    by_outcome = np.bincount(log.outcome, log.weights(), minlength=4)
    assert by_outcome.tolist() == [595_570, 498_305, 281_121, 295_254]
    assert len(log.pair_counts()["model_a"]) == 3_460


def test_expert_votes_are_read(data: Path) -> None:
    """The expert votes of MT-bench, with columns of their own, are 3,355 on 80 questions."""
    log = read_battles(data / "mtbench_human_gpt4" / "human.csv.gz")
    assert (len(log), len(log.models), len(set(log.clusters().tolist()))) == (3_355, 6, 80)


def test_a_published_label_outside_the_table_is_refused(data: Path) -> None:
    """A real file with 'tie (inconsistent)', read as ours, is refused at a line that has it."""
    path = data / "mtbench_human_gpt4" / "gpt4_pair.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        first = next(n for n, text in enumerate(lines, 1) if "tie (inconsistent)" in text)
    with pytest.raises(DataError, match=rf":{first}: unknown winner 'tie \(inconsistent\)'"):
        read_battles(path, format="arena-kit")


def test_rows_that_look_like_comments_are_rows(tmp_path: Path) -> None:
    """Ids that begin with # are data; no row of a CSV file is skipped."""
    path = tmp_path / "hash.csv"
    ids = [f"#{i}" if i % 10 == 0 else str(i) for i in range(1000)]
    path.write_text("battle_id,model_a,model_b,winner\n" + "".join(f"{i},x,y,tie\n" for i in ids))
    log = read_battles(path)
    assert log.battle_id is not None
    assert log.battle_id.tolist() == ids


def test_a_bare_nan_is_no_name(tmp_path: Path) -> None:
    """A bare NaN where a name belongs is refused with its line; the text "NaN" is a name."""
    path = tmp_path / "nan.jsonl"
    good = '{"model_a": "NaN", "model_b": "y", "winner": "tie"}\n'
    path.write_text(good)
    assert read_battles(path).models == ("NaN", "y")
    path.write_text(good + good.replace('"NaN"', "NaN"))
    with pytest.raises(DataError, match=r"nan.jsonl:2: .*NaN is not a JSON number"):
        read_battles(path)


def test_a_row_of_commas_is_named_with_its_line(tmp_path: Path) -> None:
    """A row that holds only commas counts as a row, and is the one complained about."""
    path = tmp_path / "commas.csv"
    path.write_text("model_a,model_b,winner\nx,y,tie\n,,\n")
    with pytest.raises(DataError, match=r"commas.csv:3: model_a is missing"):
        read_battles(path)


# Which column is the winner


VOTERS = "model_a,model_b,human,gpt-4,winner\nx,y,a,tie_bothbad,tie\ny,x,b,tie,model_a\n"


def test_a_file_of_several_voters_is_read_by_one(tmp_path: Path) -> None:
    """The column that is named decides; the short labels of published files are read."""
    path = tmp_path / "voters.csv"
    path.write_text(VOTERS)
    for column, expected in {
        "human": [Outcome.MODEL_A, Outcome.MODEL_B],
        "gpt-4": [Outcome.BOTH_BAD, Outcome.TIE],
        "winner": [Outcome.TIE, Outcome.MODEL_A],
    }.items():
        assert [b.winner for b in read_battles(path, winner=column).to_battles()] == expected
    assert [b.winner for b in records(path)] == [Outcome.TIE, Outcome.MODEL_A]


@pytest.mark.parametrize(
    "voter",
    [
        "human",
        "gpt-4",
    ],
)
def test_a_jsonl_file_of_several_voters_is_read_by_one(voter: str, tmp_path: Path) -> None:
    """Names of judges have dashes; a column of any name can be the winner."""
    row = {"model_a": "x", "model_b": "y", "human": "b", "gpt-4": "b"}
    path = jsonl(tmp_path / "voters.jsonl", json.dumps(row))
    assert [b.winner for b in read_battles(path, winner=voter).to_battles()] == [Outcome.MODEL_B]


def test_a_frame_of_several_voters_is_read_by_one() -> None:
    """A frame's column is named like a file's."""
    frame = pd.DataFrame({"model_a": ["x"], "model_b": ["y"], "gpt-4": ["b"], "winner": ["a"]})
    found = battles_from_frame(frame, winner="gpt-4")
    assert [b.winner for b in found.to_battles()] == [Outcome.MODEL_B]


def test_a_voter_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The column that was asked for is the one reported missing."""
    path = tmp_path / "voters.csv"
    path.write_text(VOTERS)
    with pytest.raises(DataError, match=r"voters\.csv: missing column claude"):
        read_battles(path, winner="claude")


@pytest.mark.parametrize(("vote", "complaint"), [("c", "unknown winner 'c'"), ("", "is missing")])
def test_a_wrong_vote_of_a_voter_is_named_with_its_line(
    vote: str, complaint: str, tmp_path: Path
) -> None:
    """A label outside the table, or none, in the chosen column is told by its line."""
    path = tmp_path / "voters.csv"
    path.write_text(f"model_a,model_b,human,winner\nx,y,a,a\nx,y,{vote},a\n")
    with pytest.raises(DataError, match=rf"voters\.csv:3: .*{complaint}"):
        read_battles(path, winner="human")
    assert len(read_battles(path)) == 2


@pytest.mark.parametrize("name", ["length-diff", "length diff", "order"])
@pytest.mark.parametrize("kind", [".csv", ".jsonl"])
def test_a_covariate_may_have_any_name(kind: str, name: str, tmp_path: Path) -> None:
    """A column of numbers is read whatever it is called."""
    path = tmp_path / f"votes{kind}"
    if kind == ".csv":
        path.write_text(f"model_a,model_b,winner,{name}\nx,y,a,1.5\n")
    else:
        jsonl(path, line(**{name: 1.5}))
    found = read_battles(path, covariates=[name]).covariates
    assert found is not None
    assert found[name].tolist() == [1.5]


@pytest.mark.parametrize(
    ("voter", "totals"),
    [("human", [9_516, 9_391, 2_880, 5_132]), ("gpt-4-0125-preview", None)],
)
def test_the_votes_of_27_thousand_battles_add_up(
    voter: str, totals: list[int] | None, data: Path
) -> None:
    """People's votes have the totals that the README states; GPT-4 picks slot a in 55.1 % of
    its decisive verdicts.
    """
    log = read_battles(data / "chatbot_arena_27k" / "battles.csv.gz", winner=voter)
    found = np.bincount(log.outcome, minlength=4).tolist()
    assert (len(log), len(log.models)) == (26_919, 20)
    if totals is None:
        assert round(100 * found[0] / (found[0] + found[1]), 1) == 55.1
    else:
        assert found == totals


# A battle counts once


@pytest.mark.parametrize("kind", KINDS)
def test_a_battle_id_that_comes_twice_is_refused(kind: str, tmp_path: Path) -> None:
    """A file of battles written twice in a row is refused, naming the places of the first battle
    that is there twice; without ids, every row is a battle of its own.
    """
    path = tmp_path / f"battles{kind}"
    rows = BattleLog.from_battles([battle(battle_id=name) for name in ("b1", "b2", "b3")])
    write_battles(path, rows.select([0, 1, 2, 0, 1, 2]))
    first, second = {
        ".jsonl": (":1", ":4"),
        ".jsonl.gz": (":1", ":4"),
        ".csv": (":2", ":5"),
        ".csv.gz": (":2", ":5"),
        ".parquet": (" row 0", " row 3"),
    }[kind]
    with pytest.raises(DataError) as refused:
        read_battles(path)
    told = f"{path}{second}: battle_id 'b1' was there before, at {path}{first}"
    assert str(refused.value) == told
    write_battles(path, replace(rows, battle_id=None).select([0, 1, 2, 0, 1, 2]))
    assert len(read_battles(path)) == 6


def test_a_frame_with_a_battle_twice_is_refused() -> None:
    """In a frame, both rows are named."""
    frame = BattleLog.from_battles([battle(battle_id=i) for i in ("x", "b1", "y")]).to_frame()
    told = "the frame row 3: battle_id 'b1' was there before, at the frame row 1"
    with pytest.raises(DataError, match=told):
        battles_from_frame(frame.iloc[[0, 1, 2, 1]])


def test_an_id_is_one_battle_per_judge_and_dimension(tmp_path: Path) -> None:
    """Two judges, or a judge and a person, may decide the battle of one id, in several
    dimensions; rows without an id, or with an empty one, are never repeats.
    """
    path = tmp_path / "battles.jsonl"
    write_battles(
        path,
        BattleLog.from_battles(
            [
                battle(battle_id="b"),
                battle(battle_id="b", dimension="tone"),
                battle(battle_id="b", source="llm-judge", judge_model="j1"),
                battle(battle_id="b", source="llm-judge", judge_model="j2"),
                battle(),
                battle(),
            ]
        ),
    )
    assert len(read_battles(path)) == 6
    empty = jsonl(tmp_path / "empty.jsonl", *[line(battle_id="")] * 2, *[line(battle_id="x")])
    assert len(read_battles(empty)) == 3


# A cell is no formula

FORMULAS = ["=1+1", "+x", "-x", "@x", "-2+3", "'=x", "''@x"]
PLAIN = ["x", "'x", "-1", "+2.5", "-1e-3", "a=b", "x-y"]


@pytest.mark.parametrize("kind", [".csv", ".csv.gz"])
def test_no_cell_of_a_csv_file_is_a_formula(kind: str, tmp_path: Path) -> None:
    """Text that a spreadsheet would calculate stands after an apostrophe in CSV, and is read back
    without it; numbers, also as text, stand as they are.
    """
    path = tmp_path / f"battles{kind}"
    wanted = [
        battle(name, f"{name} too", question_id=name, session=f"\t{name}", lane=f"\r{name}")
        for name in FORMULAS + PLAIN
    ]
    log = BattleLog.from_battles(wanted)
    log = replace(log, covariates={"length": np.linspace(-1, 1, len(log))})
    write_battles(path, log)
    assert records(path) == wanted
    with (gzip.open if kind.endswith(".gz") else open)(path, "rt", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["model_a"] for row in rows] == [f"'{name}" for name in FORMULAS] + PLAIN
    assert [row["question_id"] for row in rows] == [f"'{name}" for name in FORMULAS] + PLAIN
    assert {row["session"][:2] for row in rows} == {"'\t"}
    assert {row["lane"][:2] for row in rows} == {"'\r"}
    assert rows[0]["length"] == "-1.0"


def test_formulas_survive_a_table_of_counts(tmp_path: Path) -> None:
    """Names that begin as formulas do are read back from a CSV table of pair counts."""
    log = BattleLog.from_battles([battle("=1+1", "@x"), battle("'=x", "-x")])
    write_columns(tmp_path / "counts.csv", log.pair_counts())
    assert read_battles(tmp_path / "counts.csv", format="pair-counts").models == log.models
    assert "\n=" not in (tmp_path / "counts.csv").read_text()


# Names that look alike


@pytest.mark.parametrize(
    ("one", "two", "told"),
    [
        (
            "caf\u00e9",
            "cafe\u0301",
            r"'cafe\\u0301' and 'caf\\xe9' look alike and count as two models",
        ),
        (
            "gpt-4o",
            "gpt-4\u043e",
            r"'gpt-4o' and 'gpt-4\\u043e' look alike and count as two models",
        ),
        ("\uff47pt", "gpt", r"'gpt' and '\\uff47pt' look alike and count"),
        ("cl\u0430ude", "other", r"'cl\\u0430ude' mixes Cyrillic and Latin letters and may be"),
    ],
    ids=["two normal forms", "a homoglyph", "full width", "mixed scripts"],
)
def test_names_that_look_alike_are_warned_about(
    one: str, two: str, told: str, tmp_path: Path
) -> None:
    """A file whose model names look alike, or mix scripts, is read with a warning in a sentence
    that names them by their code points.
    """
    path = tmp_path / "votes.jsonl"
    write_battles(path, BattleLog.from_battles([battle(one, two)]))
    with pytest.warns(LookAlikeWarning, match=f"votes.jsonl: {told}"):
        read_battles(path)


def test_names_of_one_script_are_no_look_alikes() -> None:
    """Names in any one script, with digits and signs, are told apart without a warning."""
    names = ["gpt-4o", "GPT-4o", "gpt-40", "Модель 1", "模型", "GPT模型", "μ", "modèle"]
    assert look_alikes(names) == ""
