"""A tournament with graded verdicts, from its file to its ratings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from arena_kit import BradleyTerry, publish, read_battles
from arena_kit.runs.record.inputs import replay_parameters
from tests.emulator import Emulator
from tests.samples import SMALL, edited, judgments_of, rated, record_of


@pytest.fixture
def graded(workspace: Path) -> Path:
    edited(workspace, judge__graded=True, judge__anthropic__per_minute=100_000)
    return workspace


def verdict_rows(record: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for file in sorted((record / "verdicts").glob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]


def test_shares_count_in_the_ratings_and_the_report_says_so(graded: Path) -> None:
    """The winner is the side with the larger share, and ratings are those of the shares."""
    judgments = judgments_of("headline", **SMALL)
    board = rated(judgments)
    record = publish(board, judgments).path
    assert judgments.plan.facts["verdicts"].startswith(
        "graded: much better counts 1 of a win, better"
    )
    log = read_battles(record / "battles.jsonl")
    soft = [b for b in log.to_battles() if b.share_a is not None]
    assert len(soft) > 5
    for battle in soft:
        assert battle.winner.decisive
        assert (battle.winner == "model_a") == (battle.share_a is not None and battle.share_a > 0.5)
    for name, ratings in board.fits["bradley_terry"].items():
        again = BradleyTerry(center=1400)(log.by_dimension()[name])
        for rating in again.ratings:
            assert ratings[rating.model].rating == pytest.approx(rating.rating)
    assert {row["margin"] for row in verdict_rows(record)} == {"much better", "better", "tie"}


def test_a_paid_judge_is_asked_for_grades_and_a_replay_reads_them_again(
    graded: Path, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every verdict has its margin, the manifest says that grades were asked for."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", emulator.base_url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-any")
    paid = {"judge": "anthropic", "transport": "messages", "max_cost_usd": 5, "limit_pairs": 8}
    record = record_of("pilot", **SMALL, **paid).path
    rows = verdict_rows(record)
    assert all(row["margin"] for row in rows)
    manifest = json.loads((record / "manifest.json").read_text())
    assert manifest["judge"]["settings"]["graded"] is True
    edited(graded, judge__graded=False)  # the record's own file counts
    replayed = record_of("pilot", **replay_parameters(record)).path
    assert (replayed / "battles.jsonl").read_text() == (record / "battles.jsonl").read_text()
