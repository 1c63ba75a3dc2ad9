"""Killed anywhere and served badly, judging pays for every request once and keeps its answer."""

import re
import shlex
import subprocess
import sys

import pytest

from tests.samples import ROOT

pytestmark = pytest.mark.slow  # tournaments that are killed and started again
CLEAN = "paid twice: 0, lost: 0, duplicated verdicts: 0"
#: Who is careless in what way, by the scenarios that show it and what the matrix says of each.
NOTICED = {
    "forgets-batches": {"step/submitted:before/3": "paid twice"},
    "sdk-retries": {"fault/create-drop-bulk": "paid twice"},
    "follows-redirects": {
        "fault/redirect-create-307-bulk": "astray", "fault/redirect-results-307": "astray",
        "live/messages/redirect-307": "astray", "live/chat/redirect-307": "answers from elsewhere",
    },
    "counts-any-usage": {
        "fault/usage-negative-some": "miscounted", "fault/usage-nan-some": "a life ended BROKEN",
        "live/messages/usage-nan": "a life ended BROKEN",
    },
    "trusts-its-copy": {"restored/backup/00": "paid twice"},
    "locks-by-pid": {"host/renamed/00": "not done after"},
}  # fmt: skip
ONLY = {who: [w for name in names for w in ("--only", name)] for who, names in NOTICED.items()}


def play(*options: str) -> tuple[int, str]:
    """The matrix in a process of its own, for it forks: its code, and what it prints."""
    command = [sys.executable, "-m", "tests.faults", *options]
    played = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    return played.returncode, played.stdout


def test_no_kill_and_no_fault_costs_twice_or_loses_an_answer() -> None:
    """A sample of every group of the matrix ends with nothing paid twice, lost or duplicated."""
    code, shown = play("--quick", "--jobs", "2")
    assert (code, shown.splitlines()[-1]) == (0, CLEAN), shown
    runs, kills = map(int, re.findall(r"(\d+) runs, (\d+) kills", shown)[0])
    assert runs >= 40
    assert kills >= 20


def test_nobody_is_caught_without_being_careless() -> None:
    """The runner as it is does well in all scenarios in which the careless ones are caught."""
    code, shown = play(*(word for words in ONLY.values() for word in words), "--jobs", "2")
    assert (code, shown.splitlines()[-1]) == (0, CLEAN), shown


@pytest.mark.parametrize("careless", NOTICED)
def test_the_matrix_notices_carelessness(careless: str) -> None:
    """Without a guard each scenario fails as due, and so does the command that is told."""
    code, shown = play(*ONLY[careless], "--careless", careless)
    assert code == 1
    for name, why in NOTICED[careless].items():
        [reason] = re.findall(rf"FAILED {re.escape(name)} \(seed 1\): (.*)", shown)
        assert why in reason
    if careless == "sdk-retries":
        [again] = re.findall(r"again: python -m tests\.faults (.*)", shown)
        assert "FAILED fault/create-drop-bulk (seed 1): paid twice" in play(*shlex.split(again))[1]
