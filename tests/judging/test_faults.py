"""Killed anywhere and served badly, judging pays for every request once and keeps its answer."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.samples import ROOT

pytestmark = pytest.mark.slow  # tournaments that are killed and started again
CLEAN = "paid twice: 0, lost: 0, duplicated verdicts: 0"


def play(*options: str) -> subprocess.CompletedProcess[str]:
    """The matrix in a process of its own, for it forks."""
    command = [sys.executable, "-m", "tests.faults", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def last_line(played: subprocess.CompletedProcess[str]) -> str:
    return played.stdout.strip().splitlines()[-1]


def paid_twice(played: subprocess.CompletedProcess[str]) -> int:
    found = re.match(r"paid twice: (\d+)", last_line(played))
    assert found, played.stdout + played.stderr
    return int(found[1])


def test_no_kill_and_no_fault_costs_twice_or_loses_an_answer() -> None:
    """A sample of every group of the matrix ends with nothing paid twice, lost or duplicated."""
    played = play("--quick", "--jobs", "2")
    assert last_line(played) == CLEAN, played.stdout + played.stderr
    assert played.returncode == 0
    runs, kills = map(int, re.findall(r"(\d+) runs, (\d+) kills", played.stdout)[0])
    assert runs >= 40
    assert kills >= 20


@pytest.mark.parametrize(
    ("careless", "scenarios"),
    [
        ("--without-guard", "step/submitted:before/[13]"),
        ("--with-sdk-retries", "fault/create-drop-bulk"),
    ],
)
def test_the_matrix_notices_carelessness(careless: str, scenarios: str) -> None:
    """Forgetting open batches, or leaving the SDK's retries on, is found to pay twice where the
    judge as it is pays once.
    """
    assert last_line(play("--only", scenarios)) == CLEAN
    played = play("--only", scenarios, careless)
    assert played.returncode == 1
    assert paid_twice(played) > 0
    assert "FAILED" in played.stdout
    assert careless in played.stdout
