"""Progress: what is counted, and what a terminal of 80 columns is left with."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from arena_kit import write_battles
from arena_kit.runs.record.progress import Progress
from tests.emulator import Emulator
from tests.samples import KEY, judgments_of, log_of, published, without_report, won

COLUMNS = 80
LONG = "a note of a service that goes on and on " * 5


def in_a_terminal(code: str, *words: str, cwd: Path) -> str:
    """What Python code writes to a terminal of 80 columns that is its stderr."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    hidden = ("COLUMNS", "LINES", "ARENA_KIT_RUN_TOKEN", "ARENA_KIT_RUNS")
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name not in hidden},
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(ours, 65_536)
        except OSError:  # on Linux the end of a terminal
            break
        if not part:
            break
        written += part
    os.close(ours)
    assert process.wait(timeout=120) == 0, written
    return written.decode()


def states(written: str) -> list[str]:
    """What stood in the line, one after the other; every state begins by erasing it whole."""
    assert "\n" not in written
    assert written.startswith("\r\x1b[K")
    return written.split("\r\x1b[K")[1:]


def test_a_long_line_is_cut_and_cleared_whole(tmp_path: Path) -> None:
    """A note that is longer than the terminal never wraps, wide characters count twice."""
    code = (
        "import sys, time; from arena_kit.runs.record.progress import status_line\n"
        "with status_line(lambda: sys.argv[1]): time.sleep(0.7)"
    )
    for text, fits in ((LONG, COLUMNS - 1), ("評" * 90, (COLUMNS - 1 - 5) // 2 + 5)):
        *shown, last = states(in_a_terminal(code, text, cwd=tmp_path))
        assert last == ""
        assert shown
        assert all(0 < len(each) <= fits for each in shown)


def test_rate_says_that_it_is_at_work(tmp_path: Path) -> None:
    """`rate` says what it reads and how many battles it rates, where that takes a while."""
    write_battles(tmp_path / "votes.jsonl", log_of(won("ash", "beech", 20, 12)))
    code = (
        "from arena_kit.runs.record import progress; progress.PATIENCE = 0\n"
        "from arena_kit.cli.main import main; main()"
    )
    written = in_a_terminal(code, "rate", "votes.jsonl", cwd=tmp_path)
    assert "reading votes.jsonl" in written
    assert "rating 32 battles" in written
    assert states(written)[-1] == ""


def test_a_run_says_where_it_is_from_check_to_report(workspace: Path) -> None:
    """`run` says that it checks, then that the notebook runs."""
    without_report(workspace)
    code = "from arena_kit.cli.main import main; main()"
    small = ("-p", "limit_pairs", "6", "-p", "elo.n_perms", "20")
    written = in_a_terminal(code, "run", "pilot", *small, cwd=workspace)
    *shown, last = states(written)
    assert last == ""
    assert shown[0].startswith("0:00 checking parameters, data and judge")
    assert any("running the notebook" in each for each in shown)
    assert all(re.match(r"(\d+:\d\d .+)?$", each) and len(each) < COLUMNS for each in shown)


def test_dollars_are_counted(
    workspace: Path, emulator: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The progress file has the dollars that the service has billed this run."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", emulator.base_url)
    own = {"judge": "anthropic", "max_cost_usd": 5.0, "limit_pairs": 2, "preflight": False}
    study = judgments_of("pilot", **own, n_perms=20)
    assert len(study) == 3 * 2
    progress = Progress(study.record)
    progress.show(12, 12)
    now = json.loads((study.record.path / "progress.json").read_text())
    assert (now["verdicts"], now["of"]) == (12, 12)
    assert now["usd"] == pytest.approx(emulator.billing.total_usd)
    assert now["usd"] > 0
    published(study)
