"""What changed between two records: verdicts, gaps and decided orders."""

from __future__ import annotations

import json
import re
import shutil
from math import log, sqrt
from pathlib import Path

import pytest

from arena_kit import Battle, BattleLog, Board, BradleyTerry, Outcome, rate, write_battles
from tests.samples import call, won

Votes = list[tuple[str, str, str]]


def with_battles(record: Path, folder: Path, votes: Votes, *, questions: bool = True) -> Path:
    """A copy of a record with other battles of one dimension, each on a question of its own."""
    shutil.copytree(record, folder)
    log = BattleLog.from_battles(
        Battle(
            model_a=a,
            model_b=b,
            winner=Outcome(w),
            question_id=f"q{n}" if questions else None,
            dimension="taste",
        )
        for n, (a, b, w) in enumerate(votes)
    )
    write_battles(folder / "battles.jsonl", log)
    method = BradleyTerry(**Board.read(record).settings)
    rate(log, method, dimensions=["taste"]).write(folder)
    return folder


def test_compare_says_which_decided_orders_changed(pilot_record: Path, tmp_path: Path) -> None:
    """An order won 45 to 5 before and 26 to 24 after is lost, one the other way round gained, one
    won 44 to 6 by either in turn reversed; entrants that only one record has count for nothing.
    """
    before = with_battles(pilot_record, tmp_path / "before", won("ann", "bob", 45, 5)
                          + won("bob", "cy", 26, 24) + won("ann", "cy", 44, 6)
                          + won("ann", "old", 45, 5))  # fmt: skip
    after = with_battles(pilot_record, tmp_path / "after", won("ann", "bob", 26, 24)
                         + won("cy", "bob", 45, 5) + won("cy", "ann", 44, 6))  # fmt: skip
    done = call("runs", "compare", before, after, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["orders"] == [
        {
            "dimension": "taste",
            "kept": [],
            "lost": [["ann", "bob"]],
            "gained": [["cy", "bob"]],
            "reversed": [["cy", "ann"]],
        }
    ]
    told = "kept: 0; lost: ann above bob; gained: cy above bob; reversed: cy above ann."
    shown = call("runs", "compare", before, after).stdout
    assert f"taste: decided orders {told}" in shown
    assert "apart" not in shown
    same = json.loads(call("runs", "compare", before, before, "--json").stdout)["orders"][0]
    assert [same[kind] for kind in ("lost", "gained", "reversed")] == [[], [], []]
    assert ["ann", "bob"] in same["kept"]


def with_verdicts(record: Path, winners: list[str]) -> Path:
    """The record with one verdict on each of these questions."""
    rows = [
        {"dimension": "taste", "prompt_id": f"q{n}", "first": "ann", "second": "bob",
         "winner": winner, "status": "ok"}
        for n, winner in enumerate(winners)
    ]  # fmt: skip
    (record / "verdicts" / "taste.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return record


def test_compare_knows_that_both_records_asked_the_same_questions(
    pilot_record: Path, tmp_path: Path
) -> None:
    """Ann wins 60 of 100 before and 50 after, ten verdicts having changed. By hand: the log odds
    fall by ln 1.5; a question moves the change by 1/3 (won twice), -11/3 (lost after) or 1/2 (lost
    twice) of 1/100, so its variance is 150/100² times 100/99; t with 99 degrees is 1.984; a gap to
    the mean of two is half of theirs, in units of 400/ln 10.
    """
    before = with_battles(pilot_record, tmp_path / "before", won("ann", "bob", 60, 40))
    after = with_battles(pilot_record, tmp_path / "after", won("ann", "bob", 50, 50))
    with_verdicts(before, ["A"] * 60 + ["B"] * 40)
    with_verdicts(after, ["A"] * 50 + ["B"] * 50)
    ann, bob = json.loads(call("runs", "compare", before, after, "--json").stdout)["deltas"]
    unit = 400 / log(10) / 2
    half = 1.9842 * unit * sqrt(150 / 100**2 * 100 / 99)
    assert ann["change"] == pytest.approx(-unit * log(1.5), abs=0.01)
    assert ann["high"] - ann["change"] == pytest.approx(half, abs=0.02)
    assert bob["change"] == pytest.approx(-ann["change"])
    assert (ann["flips"], ann["says"]) == (10, "moved")
    assert re.search(r"ann +\+35 +[+-]0 +-35\.2 +-56 to -14  moved", call(
        "runs", "compare", before, after).stdout)  # fmt: skip


def test_compare_calls_nobody_moved_where_no_shared_verdict_changed(
    pilot_record: Path, tmp_path: Path
) -> None:
    """Forty more questions that bob wins change ratings and no verdict: that is said, and that the
    prompt sets differ; another judge and another center are warned about, too.
    """
    before = with_battles(pilot_record, tmp_path / "before", won("ann", "bob", 60, 40))
    after = with_battles(pilot_record, tmp_path / "after", won("ann", "bob", 60, 80))
    with_verdicts(before, ["A"] * 60 + ["B"] * 40)
    with_verdicts(after, ["A"] * 60 + ["B"] * 80)
    manifest = json.loads((after / "manifest.json").read_text())
    manifest["judge"]["model"] = "another"
    manifest["rating"]["settings"]["initial"] = 1000.0
    (after / "manifest.json").write_text(json.dumps(manifest))
    found = json.loads(call("runs", "compare", before, after, "--json").stdout)
    assert {delta["says"] for delta in found["deltas"]} == {"other battles"}
    shown = call("runs", "compare", before, after).stdout
    assert "Other battles: no shared verdict changed" in shown
    assert "The prompt sets differ (" in shown
    assert "The judges differ (baseline/lexical-v1 before, another after)" in shown
    assert "The centers differ (1400.0 before, 1000.0 after)" in shown


def test_compare_without_ratings_decides_nothing(pilot_record: Path, tmp_path: Path) -> None:
    """Where entrants never met in one record, no order is decided there, and all are lost."""
    before = with_battles(pilot_record, tmp_path / "before", won("ann", "bob", 45, 5))
    after = with_battles(
        pilot_record, tmp_path / "after", won("ann", "x", 3, 3) + won("bob", "y", 3, 3)
    )
    (found,) = json.loads(call("runs", "compare", before, after, "--json").stdout)["orders"]
    assert (found["lost"], found["kept"], found["gained"]) == ([["ann", "bob"]], [], [])


def test_compare_takes_battles_without_questions_for_different_evidence(
    pilot_record: Path, tmp_path: Path
) -> None:
    """Battles that name no question are each record's own: by hand the variances 1/24 and 1/25 of
    two log odds add up, times 200/199, where the same questions would have left far less.
    """
    records = [
        with_battles(pilot_record, tmp_path / name, won("ann", "bob", n, 100 - n), questions=False)
        for name, n in (("before", 60), ("after", 50))
    ]
    ann, _ = json.loads(call("runs", "compare", *records, "--json").stdout)["deltas"]
    half = 1.9842 * 400 / log(10) / 2 * sqrt((1 / 24 + 1 / 25) * 200 / 199)
    assert ann["high"] - ann["change"] == pytest.approx(half, abs=0.05)


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    """Comparing something that is not a record says so."""
    done = call("runs", "compare", tmp_path, tmp_path)
    assert done.exit_code == 2
    assert "no verdicts" in done.stderr
