"""`rate` on folders, patterns and large files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arena_kit import BradleyTerry, Columns, PermutationElo
from arena_kit.battles import on_disk
from arena_kit.battles.write import write_battles
from arena_kit.cli.imports import HowToRead
from arena_kit.cli.rate_stream import streams as is_streamed
from tests.samples import asked, call

LOG = asked(600, models=4)
HOW = HowToRead(None, Columns())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log in two Parquet files of a folder, and whole beside it."""
    votes = tmp_path / "votes"
    votes.mkdir()
    write_battles(votes / "may.parquet", LOG.select(np.arange(250)))
    write_battles(votes / "june.parquet", LOG.select(np.arange(250, 600)))
    write_battles(tmp_path / "all.parquet", LOG)
    return votes


def test_a_folder_and_a_pattern_are_rated_like_one_file(folder: Path) -> None:
    """The board, the claims and the counts are those of the file that holds all battles."""
    whole = call("rate", folder.parent / "all.parquet", "--json")
    assert whole.exit_code == 0
    expected = json.loads(whole.stdout)
    for words in ((folder,), (folder / "*.parquet",), (folder.parent / "all.parquet", "--stream")):
        told = json.loads(call("rate", *words, "--json").stdout)
        assert told["n_battles"] == expected["n_battles"]
        assert told["dropped"] == expected["dropped"]
        assert told["claims"]["tiers"] == expected["claims"]["tiers"]
        for mine, theirs in zip(told["ratings"], expected["ratings"], strict=True):
            assert mine["model"] == theirs["model"]
            assert mine["rating"] == pytest.approx(theirs["rating"], abs=1e-7)
            assert mine["ci_low"] == pytest.approx(theirs["ci_low"], abs=1e-7)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--method", "elo"), "need --method bradley-terry"),
        (("--also", "x.csv"), "--also and --panel hold all battles"),
        (("--dimension", "tone"), "no dimension 'tone'; found: none"),
        (("--set", "covariates=length"), "covariates are not streamed"),
    ],
)
def test_what_cannot_be_streamed_is_refused(
    folder: Path, words: tuple[str, ...], sentence: str
) -> None:
    """One sentence, and exit code 2."""
    refused = call("rate", folder, *words)
    assert refused.exit_code == 2
    assert sentence in refused.stderr


def test_large_files_are_streamed_by_themselves(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From so many rows on, unless the method or --no-stream says otherwise."""
    file, method = folder.parent / "all.parquet", BradleyTerry()
    assert not is_streamed(method, file, HOW, None, alone=True)
    monkeypatch.setattr(on_disk, "STREAM_FROM", 600)
    assert is_streamed(method, file, HOW, None, alone=True)
    assert not is_streamed(method, file, HOW, False, alone=True)
    assert not is_streamed(PermutationElo(), file, HOW, None, alone=True)
    assert not is_streamed(method, file, HOW, None, alone=False)
    assert is_streamed(method, folder, HOW, None, alone=True)
    soft = folder.parent / "soft.parquet"
    write_battles(soft, replace(LOG, share_a=np.full(len(LOG), 0.5)))
    assert not is_streamed(method, soft, HOW, None, alone=True)


def test_a_cluster_that_is_not_there_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address stands in the sentence."""
    from arena_kit import fanout

    monkeypatch.setattr(fanout, "_PATIENCE", 0.5)
    words = ("--set", "interval=percentile", "--cluster", "tcp://127.0.0.1:9")
    refused = call("rate", folder, *words)
    assert refused.exit_code == 2
    assert "cluster tcp://127.0.0.1:9: no Dask scheduler answers" in refused.stderr
