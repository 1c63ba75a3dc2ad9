"""What was paid for survives a copied, a damaged and a write-protected ledger file."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from arena_kit.cli.main import main
from arena_kit.files import DataError
from arena_kit.judging.ledger import Ledger
from arena_kit.judging.ledger_upkeep import back_up
from arena_kit.judging.records import Answer, Status
from arena_kit.judging.tournament import judge_pairs
from tests.emulator import Emulator
from tests.samples import MATERIAL, PAIRS, batch_judge, sizes, statuses, terms

#: Holds the ledger, keeps answers one by one and says how many there are, until it is ended.
_WRITER = """
import sys
from pathlib import Path
from arena_kit.judging.ledger import Ledger
from arena_kit.judging.records import Answer, Status
ledger = Ledger(Path(sys.argv[1]))
with ledger.held("writer"):
    for i in range(int(sys.argv[2])):
        answer = Answer(request_id=f"r{i}", status=Status.OK, text=f"text {i} " * 50)
        ledger.put("judge/x", [(f"k{i}", answer)])
        print(i + 1, flush=True)
    sys.stdin.read()
"""


def writer(path: Path, n: int) -> subprocess.Popen[str]:
    """Another process that holds the ledger and keeps n answers."""
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path), str(n)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def read_counts(process: subprocess.Popen[str], until: int) -> None:
    """Wait until the other process has kept so many answers."""
    assert process.stdout is not None
    while int(process.stdout.readline()) < until:
        pass


def put_answers(ledger: Ledger, n: int) -> dict[str, Answer]:
    """Keep n answers of some length; returns them by key."""
    answers = {
        f"key{i}": Answer(
            request_id=f"tone|q{i}|ash|beech#1",
            status=Status.OK,
            text=f"The calmer one is B ({i}). " * 20,
            served_model="judge/x-2026",
            usage={"input_tokens": 100 + i, "output_tokens": i},
            cost_usd=i / 1000,
            detail="end_turn",
            run="first",
        )
        for i in range(n)
    }
    ledger.put("judge/x", answers.items())
    return answers


def call(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def test_a_copy_made_during_a_run_answers_everything(
    emulator: Emulator, ledger: Ledger, tmp_path: Path
) -> None:
    """The ledger file alone, copied when the last group has come, pays for nothing again."""
    copy = tmp_path / "copy.sqlite"

    def copy_when_done(done: int, total: int) -> None:
        if done == total:
            shutil.copy(ledger.path, copy)

    judge = batch_judge(emulator)
    judge_pairs(PAIRS, MATERIAL, judge, ledger, terms=terms(), on_progress=copy_when_done)
    judgments = judge_pairs(PAIRS, MATERIAL, judge, Ledger(copy), terms=terms(run="second"))
    assert set(statuses(judgments)) == {Status.OK}
    assert sizes(emulator) == [12]


def test_a_copy_made_after_a_kill_has_every_answer(ledger: Ledger, tmp_path: Path) -> None:
    """What a killed process had kept is in the ledger file alone, without what is beside it."""
    process = writer(ledger.path, 20)
    read_counts(process, until=20)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    copy = tmp_path / "copy.sqlite"
    shutil.copy(ledger.path, copy)
    assert len(Ledger(copy)) == 20


def test_a_backup_during_a_run_is_whole(ledger: Ledger, tmp_path: Path) -> None:
    """A backup made while another process writes holds all that was kept when it began."""
    process = writer(ledger.path, 300)
    try:
        read_counts(process, until=100)
        back_up(ledger.path, tmp_path / "backup.sqlite")
    finally:
        process.communicate("")
    backup = Ledger(tmp_path / "backup.sqlite")
    n = len(backup)
    assert 100 <= n <= 300
    keys = [f"k{i}" for i in range(n)]
    assert {key: kept.text for key, kept in backup.get(keys).items()} == {
        f"k{i}": f"text {i} " * 50 for i in range(n)
    }
    assert len(ledger) == 300
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"backup.sqlite", ledger.path.name, f"{ledger.path.name}.lock"}


def test_a_backup_replaces_no_file(ledger: Ledger, tmp_path: Path) -> None:
    """An existing file, an older backup perhaps, is named and left as it was."""
    put_answers(ledger, 3)
    older = tmp_path / "backup.sqlite"
    older.write_text("precious", encoding="utf-8")
    with pytest.raises(DataError, match=r"backup\.sqlite: there is a file already"):
        back_up(ledger.path, older)
    assert older.read_text(encoding="utf-8") == "precious"


def test_there_is_nothing_to_back_up(ledger: Ledger, tmp_path: Path) -> None:
    """Without a ledger there is a sentence and no file."""
    with pytest.raises(DataError, match=r"verdicts\.sqlite: there is no ledger"):
        back_up(ledger.path, tmp_path / "backup.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_the_backup_command_copies_the_ledger_of_the_workspace(workspace: Path) -> None:
    """`arena-kit backup FILE` says how many answers the copy holds, and where they came from."""
    answers = put_answers(Ledger(workspace / ".arena_kit" / "verdicts.sqlite"), 3)
    done = call("backup", "copy.sqlite")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("copy.sqlite: 3 answers, a copy of ")
    assert Ledger(workspace / "copy.sqlite").get(answers) == answers
    again = call("backup", "copy.sqlite")
    assert again.exit_code == 2
    assert "there is a file already" in again.stderr
