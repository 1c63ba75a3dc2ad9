"""Battles that stay on disk: counted, checked, and read in chunks."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arena_kit.battles import on_disk
from arena_kit.battles.battle import OUTCOMES
from arena_kit.battles.log import BattleLog
from arena_kit.battles.on_disk import BattleFiles, Meter
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
    for chunk in stream.grouped(None):
        for cell in chunk.cell:
            sides = (cells.models[cells.a[cell]], cells.models[cells.b[cell]])
            out.append((*sides, str(OUTCOMES[cells.outcome[cell]])))
    return out


def as_rows(log: BattleLog) -> list[tuple[str, str, str]]:
    columns = log.columns()
    return list(zip(*(columns[c].tolist() for c in ("model_a", "model_b", "winner")), strict=True))


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl.gz", "json"])
def test_a_folder_holds_its_files(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts and rows in order are those of the log, however a file is cut into chunks."""
    monkeypatch.setattr(on_disk, "CHUNK", 2048)
    log = asked(5000 if suffix == "parquet" else 900)
    stream = BattleFiles.of(folder_of(log, tmp_path / "votes", suffix))
    assert (len(stream), stream.ways) == (len(log), ("question",))
    assert every_row(stream) == as_rows(log)
    counts = stream.cells.log.pair_counts()
    for name, column in log.pair_counts().items():
        assert counts[name].tolist() == column.tolist()


def test_questions_come_together(tmp_path: Path) -> None:
    """Battles of a question stand together, none is lost; one without it is its own cluster."""
    log = asked(2000, questions=150)
    stream = BattleFiles.of(folder_of(log, tmp_path / "votes"))
    clusters = np.concatenate([chunk.cluster for chunk in stream.grouped("question")])
    starts = np.flatnonzero(np.diff(clusters.astype(np.int64), prepend=-1))
    assert (len(clusters), len(starts)) == (2000, len(log.prompts))
    sizes = np.diff([*starts, len(clusters)])
    assert sorted(sizes) == sorted(np.bincount(log.clusters()))
    (tmp_path / "votes.csv").write_text(
        "model_a,model_b,winner,question_id\na,b,model_a,q\na,b,tie,q\na,b,tie,\na,b,model_b,\n"
    )
    (chunk,) = BattleFiles.of(tmp_path / "votes.csv").grouped("question")
    assert len(set(chunk.cluster.tolist())) == 3


def test_wrong_values_are_refused_with_file_and_line(tmp_path: Path) -> None:
    """A value nobody knows stops the reading, and the sentence says where it stands."""
    head = "model_a,model_b,winner,weight,source\na,b,model_b,1,human\n"
    (tmp_path / "part0.csv").write_text(head)
    for row, why in {
        "a,b,draw,1,": "unknown winner 'draw'",
        "a,a,tie,1,": "both models are 'a'",
        ",b,tie,1,": "model_a is missing",
        "a,b,tie,-2,": "weight '-2' is",
        "a,b,tie,1,nobody": "unknown source 'nobody'",
    }.items():
        (tmp_path / "part1.csv").write_text(f"{head}{row}\n")
        with pytest.raises(DataError, match=rf"part1\.csv:3: {why}"):
            BattleFiles.of(tmp_path)
    for n, winners in enumerate((["tie", "a"], ["b", "won"])):
        columns = {"model_a": ["x", "x"], "model_b": ["y", "y"], "winner": winners}
        arrays = {name: np.array(values, object) for name, values in columns.items()}
        write_columns(tmp_path / f"{n}.parquet", arrays)
    with pytest.raises(DataError, match=r"1\.parquet row 1: unknown winner 'won'"):
        BattleFiles.of(tmp_path / "*.parquet")


def test_what_cannot_be_streamed_is_refused(tmp_path: Path) -> None:
    """What cannot be streamed is refused; labels that are no outcome are left out and counted."""
    head = "model_a,model_b,winner"
    (tmp_path / "w.csv").write_text(f"{head},question_id,weight\na,b,tie,q,2\na,b,tie,,3\n")
    (tmp_path / "soft.csv").write_text(f"{head},share_a\na,b,tie,0.3\n")
    (tmp_path / "other.jsonl").write_text('{"model_a": "a", "model_b": "b", "winner": "tie"}\n')
    (tmp_path / "empty").mkdir()
    for name, why in {
        "w.csv": r"w\.csv:3: weight '3' without a question or voter",
        "soft.csv": r"soft outcomes \(share_a\) cannot be streamed",
        "": "holds csv and jsonl files; allowed: one kind",
        "empty": "no battle file there",
        "nowhere": "no such file or folder",
    }.items():
        with pytest.raises(DataError, match=why):
            BattleFiles.of(tmp_path / name)
    (tmp_path / "votes.csv").write_text("one,two,vote\na,b,left\na,b,skip\nb,a,left\n")
    values = {"left": "model_a", "skip": ""}
    columns = Columns(model_a="one", model_b="two", winner="vote", values=values)
    with pytest.warns(LeftOutWarning, match="left out 1 rows with vote 'skip'"):
        stream = BattleFiles.of(tmp_path / "votes.csv", columns=columns)
    assert every_row(stream) == [("a", "b", "model_a"), ("b", "a", "model_a")]


def test_a_file_there_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A battle id comes once per judge; of many ids a part is compared, which finds a copy."""
    log = replace(asked(300), battle_id=np.array([f"b{n}" for n in range(300)], object))
    folder = folder_of(log, tmp_path / "votes", "csv")
    assert len(BattleFiles.of(folder)) == 300
    (folder / "part9.csv").write_bytes((folder / "part0.csv").read_bytes())
    sentence = r"part9\.csv:(\d+): battle_id 'b\d+' again; remove it or that at .*part0\.csv:\1$"
    with pytest.raises(DataError, match=sentence):
        BattleFiles.of(folder)
    monkeypatch.setattr(on_disk, "COMPARED_IDS", 30)
    with pytest.raises(DataError, match=sentence):
        BattleFiles.of(folder)


def test_the_meter_tells_rows_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a quarter of the rows in ten seconds, thirty are left."""
    now = [100.0]
    monkeypatch.setattr(on_disk.time, "monotonic", lambda: now[0])
    meter = Meter()
    meter.start("counting battles", 4_000_000)
    now[0] = 110.0
    meter.done += 1_000_000
    assert meter.words() == "counting battles: 1,000,000 of 4,000,000 rows, 0:30 left"
