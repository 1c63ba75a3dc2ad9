"""Compiled kernels: what they say while they are compiled."""

from __future__ import annotations

import logging

import numpy as np
import pytest

kernels = pytest.importorskip("arena_kit.rating.kernels")


def test_a_long_first_call_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Two kernels that take longer than patience lasts give one sentence, and the right result;
    with patience enough nothing is said.
    """
    for patience, said in ((60.0, 0), (0.001, 1)):
        monkeypatch.setattr(kernels, "_PATIENCE", patience)
        kernels._tell.cache_clear()
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="arena_kit"):
            for _ in range(2):
                tally = kernels.Kernel(kernels._tally)
                out = np.zeros(2)
                codes = np.array([0, 1, 1], np.int32)
                tally(np.array([3, 4]), codes, codes, out)
                assert out.tolist() == [3.0, 8.0]
        assert len(caplog.records) == said
        assert all("compiled once" in record.message for record in caplog.records)
