"""Coverage of battles that stay on disk: what the same battles have in memory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from arena_kit import BattleLog, DataError, Policy
from arena_kit.battles import stream_source, streams
from arena_kit.battles.files import write_battles
from arena_kit.battles.streams import BattleFiles
from arena_kit.cli.main import main
from arena_kit.policy.coverage import Coverage
from arena_kit.policy.streamed_coverage import StreamedCoverage
from tests.samples import asked

BY_HAND = """model_a,model_b,winner,question_id
a,b,model_a,p
b,a,model_a,p
a,b,model_b,q
a,c,model_a,q
b,c,tie,r
a,c,model_a,
"""


def on_disk(log: BattleLog, folder: Path) -> BattleFiles:
    """A log as two files of a folder."""
    folder.mkdir()
    for n, rows in enumerate(np.array_split(np.arange(len(log)), 2)):
        write_battles(folder / f"{n}.parquet", log.select(rows))
    return BattleFiles.of(folder)


def test_counted_by_hand(tmp_path: Path) -> None:
    """Votes without a prompt compare two models and cover nothing; a prompt without a decisive
    vote is a prompt that nobody covers.
    """
    (tmp_path / "votes.csv").write_text(BY_HAND)
    policy = Policy()
    policy = replace(policy, prompts=replace(policy.prompts, floor=2))
    counted = StreamedCoverage.of(BattleFiles.of(tmp_path / "votes.csv"), policy)
    assert counted.models == ("a", "b", "c")
    assert counted.prompts == 3
    assert counted.votes.tolist() == [5, 4, 3]
    assert counted.decisive.tolist() == [5, 3, 2]
    assert counted.ties.tolist() == [0, 1, 1]
    assert counted.covered.tolist() == [2, 1, 0], "a on p and q, b on p"
    assert (counted.pair("a", "b").votes, counted.pair("b", "a").prompts) == (3, 2)
    assert (counted.pair("a", "c").votes, counted.pair("a", "c").prompts) == (2, 1)


def test_streamed_is_what_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every count is that of the same log in memory, whatever the chunks."""
    for module in (stream_source, streams):
        monkeypatch.setattr(module, "CHUNK", 2048)
    log, policy = asked(6000, models=7, questions=90), Policy()
    held = Coverage.of(log, policy)
    counted = StreamedCoverage.of(on_disk(log, tmp_path / "votes"), policy)
    for name in ("votes", "decisive", "ties", "both_bad", "by_pair", "pair_prompts"):
        assert np.array_equal(getattr(counted, name), getattr(held, name)), name
    assert counted.models == held.models
    assert counted.prompts == len(held.prompts)
    assert np.array_equal(counted.prompt_coverage(), held.prompt_coverage())
    assert counted.adjacent(log.models) == held.adjacent(log.models)


def test_weights_are_refused(tmp_path: Path) -> None:
    """Coverage counts single votes."""
    log = asked(50)
    stream = on_disk(replace(log, weight=np.full(50, 0.5)), tmp_path / "votes")
    with pytest.raises(DataError, match="counts single votes"):
        StreamedCoverage.of(stream)


def test_the_command_tells_models_prompts_and_neighbours(tmp_path: Path) -> None:
    """A table for people, and the same as JSON."""
    (tmp_path / "votes.csv").write_text(BY_HAND)
    shown = CliRunner().invoke(main, ["coverage", str(tmp_path / "votes.csv")])
    assert shown.exit_code == 0, shown.output
    assert "0 of 2 neighbours have the floor" in shown.output
    told = CliRunner().invoke(main, ["coverage", str(tmp_path / "votes.csv"), "--json"])
    first = json.loads(told.output)["models"][0]
    assert (first["model"], first["decisive"]) == ("b", 3), "b won twice against a"
    assert first["below"] == {"model": "a", "votes": 3, "prompts": 2, "meets_floor": False}
