"""Records and results in a notebook: frames that say what the files say, and safe tables."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from arena_kit import BradleyTerry, DataError, leaderboard, open_run
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.verdicts.records import Judgment, Slot
from arena_kit.runs.record.record import Record
from tests.samples import (
    HOSTILE,
    Elements,
    jsonl,
    log_of,
    rated_by_hand,
    settled,
    votes_on,
    won,
)

SAFE_TAGS = {"div", "b", "small", "table", "thead", "tbody", "tr", "th", "td"}


def test_frames(pilot_record: Path) -> None:
    """Battles, verdicts, Elo, Bradley–Terry and the gate have the rows of the record's files."""
    run = open_run(pilot_record)
    assert run.manifest == json.loads((pilot_record / "manifest.json").read_text())
    assert run.battles["battle_id"].tolist() == [
        row["battle_id"] for row in jsonl(pilot_record / "battles.jsonl")
    ]
    assert len(run.verdicts) == sum(len(jsonl(f)) for f in pilot_record.glob("verdicts/*.jsonl"))
    assert len(run.judgments) * 2 == len(run.verdicts)
    elo = json.loads((pilot_record / "elo_results.json").read_text())["primary"]
    assert {(r.dimension, r.model): r.rating for r in run.elo.itertuples()} == {
        (dimension, model): entry["mean"]
        for dimension, entries in elo.items()
        for model, entry in entries.items()
    }
    claimed = json.loads((pilot_record / "bradley_terry.json").read_text())
    assert dict(run.bradley_terry.groupby("dimension")["model"].apply(list)) == {
        dimension: [row["model"] for row in each["ratings"]] for dimension, each in claimed.items()
    }
    gate = json.loads((pilot_record / "judge_gate.json").read_text())
    assert len(run.gate) == len(gate["findings"])
    assert run.gate.attrs["sentence"] == gate["sentence"]


def test_figures_and_what_is_not_there(pilot_record: Path, tmp_path: Path) -> None:
    """A record is found by its path in the workspace from a folder below, a figure is shown at 100
    of the 160 dots that an inch of its file has, and what is lacking is one sentence.
    """
    with chdir(pilot_record.parents[1] / "notebooks"):
        run = open_run(f"runs/{pilot_record.name}")
        assert run.path.resolve() == pilot_record.resolve()
    run = open_run(pilot_record)
    assert run.figures == ["forest"]
    picture = run.figure("forest")
    (width,) = struct.unpack(">I", picture.data[16:20])
    assert picture.width == round(width / 1.6)
    with pytest.raises(DataError, match=r"no figure 'heatmap'; there: forest$"):
        run.figure("heatmap")
    with pytest.raises(DataError, match=r"record of pilot has no report\.html; it has: .*battles"):
        _ = run.report
    with pytest.raises(DataError, match="not a run record"):
        open_run(tmp_path)
    (tmp_path / "manifest.json").write_text('{"mode": "pilot"}')
    with pytest.raises(DataError, match=r"record of pilot has no board\.json"):
        _ = open_run(tmp_path).elo


def hostile_judgment() -> Judgment:
    first, second = sorted(HOSTILE[:2])
    pair = Pair(dimension=HOSTILE[2], prompt_id=HOSTILE[3], entrant_a=first, entrant_b=second)
    (judged,) = settled((Slot.A, Slot.B))
    shown = judged.forward.presentation._replace(pair=pair, first=first, second=second)
    verdict = judged.forward._replace(presentation=shown, justification=HOSTILE[4])
    return judged._replace(pair=pair, winner=first, forward=verdict, backward=verdict)


def hostile_record(folder: Path) -> Record:
    record = Record.create(folder, "pilot")
    record.start("pilot", {})
    record.update(judge={"model": HOSTILE[0]}, judge_gate={"sentence": HOSTILE[1]})
    record.finish(error=HOSTILE[2])
    return record


BATTLES = [row for name in HOSTILE for row in won(name, "plain", 6, 5)]
SHOWN: dict[str, Callable[[Path], Any]] = {
    "log": lambda _: log_of(won(HOSTILE[0], HOSTILE[1], 2, 1)),
    "ratings": lambda _: replace(
        rated_by_hand(dict(zip(HOSTILE, range(10), strict=True))), notes=(HOSTILE[0],)
    ),
    "Bradley–Terry": lambda _: BradleyTerry()(log_of(BATTLES)),
    "leaderboard": lambda _: leaderboard(
        votes_on(*((a, b, w[-1], "q1") for a, b, w in BATTLES)),
    ),
    "judgment": lambda _: hostile_judgment(),
    "record": hostile_record,
    "opened": lambda folder: open_run(hostile_record(folder).path),
}


@pytest.mark.parametrize("name", SHOWN)
def test_hostile_names_are_text(name: str, tmp_path: Path) -> None:
    """Whatever names and texts are, the table of an object has no element but a table's own and
    no attribute but its style; the text itself is there to be read.
    """
    html = SHOWN[name](tmp_path)._repr_html_()
    found = Elements(html)
    assert found.tags <= SAFE_TAGS
    assert {attribute for attribute, _ in found.attributes} <= {"style"}
    assert "url(" not in "".join(value for _, value in found.attributes)
    assert "&lt;script&gt;" in html


def test_a_log_shows_its_first_battles() -> None:
    """Of 30 battles five are shown and 25 are counted; a character that would turn the direction of
    writing is shown as its code point.
    """
    html = log_of(won("ash", "beech", 20, 10))._repr_html_()
    assert html.count("<tr>") == 1 + 5
    assert "30 battles of 2 models" in html
    assert "and 25 more" in html
    assert "a[U+202E]b" in rated_by_hand({"a\u202eb": 1.0, "c": 0.0})._repr_html_()
