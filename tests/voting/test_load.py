"""Fifty voters at once, by the benchmark that prints what they wait for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.samples import ROOT


@pytest.mark.slow  # 5,000 durable votes take a minute and more
def test_fifty_voters_lose_no_vote(address: str) -> None:
    """5,000 votes of 50 voters at once, every tenth sent twice, are each stored once, on both
    databases; throughput and waiting times are printed.
    """
    command = [sys.executable, ROOT / "benchmarks" / "voting.py", "--store", address]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5,000 votes of 50 voters" in done.stdout
    assert "lost 0, stored twice 0, in the store 5,000" in done.stdout
