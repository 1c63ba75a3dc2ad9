"""Battles in FastChat's format: what it holds, and what is said about the rest."""

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from arena_kit import Battle, BattleLog, DataError, Outcome, read_battles
from arena_kit.battles.battle import Source
from arena_kit.battles.readers.formats import format_of
from arena_kit.battles.write import spoken, write_fastchat

VOTES = [
    Battle(model_a=a, model_b=b, winner=winner, voter=voter, timestamp=moment)
    for a, b, winner, voter, moment in [
        ("x", "y", Outcome.MODEL_A, "arena_user_1", datetime(2023, 6, 1, 12, tzinfo=UTC)),
        ("y", "z", Outcome.MODEL_B, "arena_user_2", None),
        ("x", "z", Outcome.TIE, None, None),
        ("z", "x", Outcome.BOTH_BAD, None, None),
    ]
]


def table(path: Path) -> tuple[list[str], list[tuple[object, ...]]]:
    rows = duckdb.sql(f"FROM read_parquet('{path}')")
    return rows.columns, rows.fetchall()


def test_votes_stand_under_the_names_and_labels_of_fastchat(tmp_path: Path) -> None:
    """FastChat's labels, judge, seconds, language and turns; what it cannot hold is said."""
    out = tmp_path / "votes.parquet"
    assert write_fastchat(out, BattleLog.from_battles(VOTES)) == []
    columns, rows = table(out)
    assert columns == ["model_a", "model_b", "winner", "judge", "tstamp"]
    assert rows == [
        ("x", "y", "model_a", "arena_user_1", 1685620800.0),
        ("y", "z", "model_b", "arena_user_2", None),
        ("x", "z", "tie", None, None),
        ("z", "x", "tie (bothbad)", None, None),
    ]
    again = [(x.model_a, x.model_b, x.winner) for x in read_battles(out).to_battles()]
    assert again == [(x.model_a, x.model_b, x.winner) for x in VOTES]
    file, out = tmp_path / "votes.jsonl", tmp_path / "votes.parquet"
    line = '{"model_a": "x", "model_b": "y", "winner": "tie", "language": %s, "turns": %d}\n'
    file.write_text(line % ('"English"', 2) + line % ("null", 1))
    write_fastchat(out, read_battles(file), spoken(file, format_of(file)))
    columns, rows = table(out)
    assert columns == ["model_a", "model_b", "winner", "language", "turn"]
    assert [row[-2:] for row in rows] == [("English", 2), (None, 1)]
    judged = {"source": Source.LLM_JUDGE, "judge_model": "m", "dimension": "tone"}
    flipped = Battle(model_a="x", model_b="y", winner=Outcome.TIE, inconsistent=True, **judged)
    soft = Battle(model_a="x", model_b="y", winner=Outcome.MODEL_A, share_a=0.8, **judged)
    out = tmp_path / "judged.parquet"
    assert write_fastchat(out, BattleLog.from_battles([flipped, flipped, soft])) == [
        "2 inconsistent judgments became ties",
        "1 soft outcomes became the winner beside them",
        "the dimension, tone, is not in the file",
    ]
    columns, rows = table(out)
    assert columns == ["model_a", "model_b", "winner", "judge_model"]
    assert [row[2] for row in rows] == ["tie", "tie", "model_a"]
    out = tmp_path / "x.parquet"
    counts = BattleLog.from_counts(["x"], ["y"], [3], [1])
    with pytest.raises(DataError, match=r"^1 of 2 battles have a weight other than 1"):
        write_fastchat(out, counts)
    mixed = BattleLog.from_battles(
        Battle(model_a="x", model_b="y", winner=Outcome.TIE, dimension=d) for d in ("tone", "wit")
    )
    with pytest.raises(DataError, match=r"2 dimensions \(tone, wit\).* name one$"):
        write_fastchat(out, mixed)
    assert not out.exists()
