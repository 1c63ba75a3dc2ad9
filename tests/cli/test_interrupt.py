"""Ctrl-C typed at a terminal while a command is at work: a sentence and exit code 1."""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
from pathlib import Path

import pytest

from arena_kit import write_battles
from tests.samples import ROOT, log_of, won

CTRL_C = b"\x03"
_PATIENCE = 120  # seconds, on a machine that others load
SLOWLY = ("--method", "elo", "--set", "n_perms=900000")


class Terminal:
    """A command at a terminal of its own, which it is controlled by."""

    def __init__(self, *words: str, cwd: Path, modules: Path = ROOT) -> None:
        environment = os.environ | {"PYTHONPATH": f"{modules}{os.pathsep}{ROOT}"}
        command = [sys.executable, "-m", "arena_kit", *words]
        self.shown = b""
        self.pid, self.keys = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a job in the background ignores it
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            os.chdir(cwd)
            os.execve(sys.executable, command, environment)

    def wait_for(self, text: bytes) -> None:
        """Read until the command has shown a text."""
        while text not in self.shown:
            part = self._read()
            assert part, self.shown
            self.shown += part

    def end(self) -> tuple[int, str]:
        """Press Ctrl-C, read to the end; the exit code, and all that was shown."""
        os.write(self.keys, CTRL_C)
        while part := self._read():
            self.shown += part
        _, status = os.waitpid(self.pid, 0)
        os.close(self.keys)
        return os.waitstatus_to_exitcode(status), self.shown.decode()

    def _read(self) -> bytes:
        ready, _, _ = select.select([self.keys], [], [], _PATIENCE)
        if not ready:
            os.kill(self.pid, signal.SIGKILL)
            raise AssertionError(f"nothing for {_PATIENCE} s after {self.shown!r}")
        try:
            return os.read(self.keys, 65_536)
        except OSError:  # on Linux the end of a terminal
            return b""


@pytest.mark.parametrize(
    ("words", "begun"),
    [
        (("rate", "votes.jsonl", *SLOWLY), b"rating 320 battles"),
        (("simulate", "--seeds", "4", "--matchups", "90000"), b"0/4"),
    ],
)
def test_work_is_interrupted(words: tuple[str, ...], begun: bytes, tmp_path: Path) -> None:
    """A command clears the line that says what it is doing, and says that it was interrupted."""
    write_battles(tmp_path / "votes.jsonl", log_of(won("ash", "beech", 200, 120)))
    command = Terminal(*words, cwd=tmp_path)
    command.wait_for(begun)
    code, shown = command.end()
    assert (code, shown.endswith("\r\x1b[Kerror: interrupted\r\n")) == (1, True), shown
    assert "Traceback" not in shown
    assert "Warning" not in shown


def test_imports_are_interrupted(tmp_path: Path) -> None:
    """Before a command has begun, Ctrl-C ends it as it ends any other program: without a word."""
    (tmp_path / "click.py").write_text(
        "import time; print('importing', flush=True); time.sleep(60)"
    )
    command = Terminal("rate", cwd=tmp_path, modules=tmp_path)
    command.wait_for(b"importing\r\n")
    assert command.end() == (-2, "importing\r\n^C")
