"""Battles that stay on disk: counted, checked, and read in chunks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arena_kit.battles import on_disk
from arena_kit.battles.battle import OUTCOMES
from arena_kit.battles.cells import HashIndex
from arena_kit.battles.log import BattleLog
from arena_kit.battles.on_disk import BattleFiles, Meter, battle_files
from arena_kit.battles.read import LeftOutWarning
from arena_kit.battles.readers.format import Columns
from arena_kit.battles.write import write_battles, write_columns
from arena_kit.files import DataError
from tests.samples import asked

PARTS = 3


def folder_of(log: BattleLog, folder: Path, suffix: str = "parquet") -> Path:
    """A log cut into files of a folder."""
    folder.mkdir()
    for n, rows in enumerate(np.array_split(np.arange(len(log)), PARTS)):
        write_battles(folder / f"part{n}.{suffix}", log.select(rows))
    return folder


def every_row(stream: BattleFiles) -> list[tuple[str, str, str]]:
    """The battles that a stream reads, in its order."""
    cells, out = stream.cells.log, []
    for share in stream.shares():
        for chunk in stream.rows(share, None):
            for cell in chunk.cell:
                sides = (cells.models[cells.a[cell]], cells.models[cells.b[cell]])
                out.append((*sides, str(OUTCOMES[cells.outcome[cell]])))
    return out


def as_rows(log: BattleLog) -> list[tuple[str, str, str]]:
    columns = log.columns()
    return list(zip(*(columns[c].tolist() for c in ("model_a", "model_b", "winner")), strict=True))


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl.gz", "json"])
def test_a_folder_holds_what_its_files_hold(tmp_path: Path, suffix: str) -> None:
    """Counts of every pair and rows in their order are those of the log that was written."""
    log = asked(900)
    stream = BattleFiles.of(folder_of(log, tmp_path / "votes", suffix))
    assert len(stream) == 900
    assert stream.ways == ("question",)
    assert every_row(stream) == as_rows(log)
    counts, expected = stream.cells.log.pair_counts(), log.pair_counts()
    for name, column in expected.items():
        assert counts[name].tolist() == column.tolist()


def test_small_chunks_are_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However Parquet is cut into pieces, the rows are all there, once and in order."""
    monkeypatch.setattr(on_disk, "CHUNK", 2048)
    log = asked(9000)
    stream = BattleFiles.of(folder_of(log, tmp_path / "votes"))
    assert every_row(stream) == as_rows(log)


def test_questions_come_together(tmp_path: Path) -> None:
    """Grouped by question, the battles of each stand one after another, and none is lost; one that
    names no question is a cluster of its own.
    """
    log = asked(2000, questions=150)
    stream = BattleFiles.of(folder_of(log, tmp_path / "votes"))
    clusters = np.concatenate([chunk.cluster for chunk in stream.grouped("question")])
    starts = np.flatnonzero(np.diff(clusters.astype(np.int64), prepend=-1))
    assert len(clusters) == 2000
    assert len(starts) == len(log.prompts)
    sizes = np.diff([*starts, len(clusters)])
    assert sorted(sizes) == sorted(np.bincount(log.clusters()))
    (tmp_path / "votes.csv").write_text(
        "model_a,model_b,winner,question_id\na,b,model_a,q\na,b,tie,q\na,b,tie,\na,b,model_b,\n"
    )
    (chunk,) = BattleFiles.of(tmp_path / "votes.csv").grouped("question")
    assert len(set(chunk.cluster.tolist())) == 3


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("a,b,draw,1,", "part1.csv:3: unknown winner 'draw'; allowed: model_a"),
        ("a,a,tie,1,", "part1.csv:3: both models are 'a'"),
        (",b,tie,1,", "part1.csv:3: model_a is missing"),
        ("a,b,tie,-2,", "part1.csv:3: weight '-2' is not a positive finite number"),
        ("a,b,tie,1,nobody", "part1.csv:3: unknown source 'nobody'; allowed: llm-judge, human"),
    ],
)
def test_wrong_values_are_refused_with_file_and_line(
    tmp_path: Path, rows: str, sentence: str
) -> None:
    """A value nobody knows stops the reading, and the sentence says where it stands."""
    head = "model_a,model_b,winner,weight,source\n"
    (tmp_path / "part0.csv").write_text(f"{head}a,b,model_a,1,human\n")
    (tmp_path / "part1.csv").write_text(f"{head}a,b,model_b,1,human\n{rows}\n")
    with pytest.raises(DataError) as error:
        BattleFiles.of(tmp_path)
    assert sentence in str(error.value)


def test_a_wrong_value_in_parquet_is_refused_with_its_row(tmp_path: Path) -> None:
    """Parquet has no lines: the row is counted from 0 in its own file."""
    columns = {name: np.array(["x", "x"], object) for name in ("model_a", "model_b")}
    columns["model_b"] = np.array(["y", "y"], object)
    write_columns(tmp_path / "1.parquet", {**columns, "winner": np.array(["tie", "a"], object)})
    write_columns(tmp_path / "2.parquet", {**columns, "winner": np.array(["b", "won"], object)})
    with pytest.raises(DataError, match=r"2\.parquet row 1: unknown winner 'won'"):
        BattleFiles.of(tmp_path / "*.parquet")


def test_labels_that_are_no_outcome_are_left_out_and_counted(tmp_path: Path) -> None:
    """Named columns and labels mean the same for files on disk as for a log in memory."""
    text = "one,two,vote\na,b,left\na,b,skip\nb,a,left\n"
    (tmp_path / "votes.csv").write_text(text)
    columns = Columns(
        model_a="one", model_b="two", winner="vote", values={"left": "model_a", "skip": ""}
    )
    with pytest.warns(LeftOutWarning, match="left out 1 rows with vote 'skip'"):
        stream = BattleFiles.of(tmp_path / "votes.csv", columns=columns)
    assert every_row(stream) == [("a", "b", "model_a"), ("b", "a", "model_a")]


def test_what_cannot_be_streamed_is_refused(tmp_path: Path) -> None:
    """Soft outcomes, a weight that counts votes among battles that are one each, other kinds of
    file beside, and folders without battles are refused.
    """
    (tmp_path / "w.csv").write_text(
        "model_a,model_b,winner,question_id,weight\na,b,tie,q,2\na,b,tie,,3\n"
    )
    with pytest.raises(DataError, match=r"w\.csv:3: weight '3' without a question or voter"):
        BattleFiles.of(tmp_path / "w.csv")
    (tmp_path / "soft.csv").write_text("model_a,model_b,winner,share_a\na,b,tie,0.3\n")
    with pytest.raises(DataError, match=r"soft outcomes \(share_a\) cannot be streamed"):
        BattleFiles.of(tmp_path / "soft.csv")
    (tmp_path / "other.jsonl").write_text('{"model_a": "a", "model_b": "b", "winner": "tie"}\n')
    with pytest.raises(DataError, match="holds csv and jsonl files; allowed: one kind"):
        BattleFiles.of(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no battle file there"):
        battle_files(tmp_path / "empty")
    with pytest.raises(DataError, match="no such file or folder"):
        battle_files(tmp_path / "nowhere")


def test_a_file_that_is_there_twice_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A battle id comes once per judge; of many ids a part is compared, which finds a copy."""
    log = replace(asked(300), battle_id=np.array([f"b{n}" for n in range(300)], object))
    folder = folder_of(log, tmp_path / "votes", "csv")
    assert len(BattleFiles.of(folder)) == 300
    (folder / "part9.csv").write_bytes((folder / "part0.csv").read_bytes())
    sentence = r"part9\.csv:(\d+): battle_id 'b\d+' was there before, at .*part0\.csv:\1$"
    with pytest.raises(DataError, match=sentence):
        BattleFiles.of(folder)
    monkeypatch.setattr(on_disk, "COMPARED_IDS", 30)
    with pytest.raises(DataError, match=sentence):
        BattleFiles.of(folder)


def test_hashes_are_found_where_they_stand() -> None:
    """Every known hash has its place and an unknown one none; those with the same upper bits are
    told apart by the lower ones.
    """
    many = np.random.default_rng(0).integers(0, 2**64, 5000, np.uint64)
    assert HashIndex.of(many).places(many).tolist() == list(range(5000))
    known = np.array([9, 2**64 - 3, 5, 3, 7], np.uint64)
    wanted = [-1, -1, -1, 3, -1, 2, -1, 4, -1, 0, -1, 1, -1]
    asked = np.array([*range(11), 2**64 - 3, 2**64 - 2], np.uint64)
    assert HashIndex.of(known).places(asked).tolist() == wanted
    assert HashIndex.of(known[:0]).places(asked).tolist() == [-1] * 13


def test_the_meter_tells_rows_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a quarter of the rows in ten seconds, thirty are left."""
    now = [100.0]
    monkeypatch.setattr(on_disk.time, "monotonic", lambda: now[0])
    meter = Meter()
    meter.start("resampling battles", 4_000_000)
    now[0] = 110.0
    meter.done += 1_000_000
    assert meter.words() == "resampling battles: 1,000,000 of 4,000,000 rows, 0:30 left"
