"""Compiled kernels: what they say while they are compiled."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

kernels = pytest.importorskip("arena_kit.rating.kernels")
config = pytest.importorskip("numba").config


def test_a_long_first_call_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Two kernels that take longer than patience lasts give one sentence, and the right result;
    with patience enough nothing is said.
    """
    for patience, said in ((60.0, 0), (0.001, 1)):
        monkeypatch.setattr(kernels, "_PATIENCE", patience)
        monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / str(said)))
        kernels._tell.cache_clear()
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="arena_kit"):
            for _ in range(2):
                tally = kernels.Kernel(kernels._tally)
                drawn, ends = (
                    np.array([[1, 1, 1], [0, 1, 0]], np.uint32),
                    np.array([1, 3], np.uint32),
                )
                clusters, out = np.array([0, 1, 1], np.uint32), np.empty((2, 2))
                tally(*drawn, clusters, ends, *np.zeros((2, 3), np.uint64), *out)
                assert out.tolist() == [[0.0, 6.0], [2.0, 2.0]]
        assert len(caplog.records) == said
        assert all("compiled once" in record.message for record in caplog.records)
