"""Killed anywhere and served badly, judging pays for every request once and keeps its answer."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable

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


#: Who is careless in what way, by the scenarios that show it and what the matrix says of each.
NOTICED = {
    "forgets-batches": {"step/submitted:before/3": "paid twice"},
    "sdk-retries": {"fault/create-drop-bulk": "paid twice"},
    "follows-redirects": {
        "fault/redirect-create-307-bulk": "astray",
        "fault/redirect-results-307": "astray",
        "live/messages/redirect-307": "astray",
        "live/chat/redirect-307": "answers from elsewhere",
    },
    "counts-any-usage": {
        "fault/usage-negative-some": "miscounted",
        "fault/usage-nan-some": "a life ended BROKEN",
        "live/messages/usage-nan": "a life ended BROKEN",
    },
    "trusts-its-copy": {"restored/backup/00": "paid twice"},
    "locks-by-pid": {"host/renamed/00": "not done after"},
}


def only(scenarios: Iterable[str]) -> list[str]:
    return [word for name in scenarios for word in ("--only", name)]


def test_nobody_is_caught_without_being_careless() -> None:
    """The runner as it is does well in all scenarios in which the careless ones are caught."""
    names = [name for scenarios in NOTICED.values() for name in scenarios]
    played = play(*only(names), "--jobs", "2")
    assert (last_line(played), played.returncode) == (CLEAN, 0), played.stdout + played.stderr


@pytest.mark.parametrize("careless", NOTICED)
def test_the_matrix_notices_carelessness(careless: str) -> None:
    """A runner without one of the guards fails each scenario, for the reason that is due."""
    played = play(*only(NOTICED[careless]), "--careless", careless)
    assert played.returncode == 1
    for name, why in NOTICED[careless].items():
        [reason] = re.findall(rf"FAILED {re.escape(name)} \(seed 1\): (.*)", played.stdout)
        assert why in reason


def test_a_failure_says_how_to_see_it_again() -> None:
    """The command under a failed scenario, with its seed, plays it alone, and it fails again."""
    played = play("--only", "fault/create-drop-bulk", "--careless", "sdk-retries", "--seed", "3")
    [command] = re.findall(r"again: python -m tests\.faults (.*)", played.stdout)
    again = play(*shlex.split(command))
    assert again.returncode == 1
    assert again.stdout.count("FAILED fault/create-drop-bulk (seed 3): paid twice") == 1
