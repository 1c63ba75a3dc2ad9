"""Killed anywhere and served badly, judging pays for every request once and keeps its answer."""

from __future__ import annotations

import re
import shlex
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


def test_no_kill_and_no_fault_costs_twice_or_loses_an_answer() -> None:
    """A sample of every group of the matrix ends with nothing paid twice, lost or duplicated."""
    played = play("--quick", "--jobs", "2")
    assert last_line(played) == CLEAN, played.stdout + played.stderr
    assert played.returncode == 0
    runs, kills = map(int, re.findall(r"(\d+) runs, (\d+) kills", played.stdout)[0])
    assert runs >= 40
    assert kills >= 20


@pytest.mark.parametrize(
    ("careless", "scenarios", "noticed"),
    [
        ("forgets-batches", "step/submitted:before/[13]", "paid twice"),
        ("sdk-retries", "fault/create-drop-bulk", "paid twice"),
        ("follows-redirects", "fault/redirect-create-307-bulk", "astray"),
        ("follows-redirects", "fault/redirect-results-307", "answers from elsewhere"),
        ("follows-redirects", "live/*/redirect-307", "answers from elsewhere"),
        ("counts-any-usage", "fault/usage-negative-some", "miscounted"),
        ("counts-any-usage", "fault/usage-nan-some", "a life ended BROKEN"),
        ("counts-any-usage", "live/messages/usage-negative", "miscounted"),
        ("trusts-its-copy", "restored/copy/*7", "paid twice"),
        ("locks-by-pid", "host/renamed/00", "not done after"),
    ],
)
def test_the_matrix_notices_carelessness(careless: str, scenarios: str, noticed: str) -> None:
    """A runner without one of the guards is caught where the runner as it is does well, and the
    matrix says how to see it again.
    """
    assert last_line(play("--only", scenarios)) == CLEAN
    played = play("--only", scenarios, "--careless", careless)
    assert played.returncode == 1
    assert noticed in played.stdout
    [again, *_] = re.findall(r"again: python -m tests\.faults (.*)", played.stdout)
    assert play(*shlex.split(again)).returncode == 1
