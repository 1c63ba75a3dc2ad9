"""A PostgreSQL server of our own in a temporary folder, on a free port of the loopback."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg

_numbers = count(1)


def binaries() -> Path | None:
    """Where Debian keeps the newest server, or where the path finds one."""
    folders = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = sorted(folders, key=lambda path: int(path.parts[-3]))
    found = str(newest[-1]) if newest else shutil.which("initdb")
    return Path(found).parent if found else None


class Postgres:
    """A running server; `new_database` gives the address of an empty database."""

    def __init__(self, port: int, user: str) -> None:
        self._base = f"postgresql://{user}@127.0.0.1:{port}"

    def new_database(self) -> str:
        name = f"votes_{os.getpid()}_{next(_numbers)}"
        with psycopg.connect(f"{self._base}/template1", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"{self._base}/{name}"


@contextmanager
def running(programs: Path) -> Iterator[Postgres]:
    """Start a server, durable as any, and stop it in the end; it refuses to run as root."""
    names = {entry.pw_name for entry in pwd.getpwall()} if os.getuid() == 0 else set()
    account = pwd.getpwnam("postgres" if "postgres" in names else "nobody") if names else None
    memory = Path("/dev/shm")  # a disk that others use, too, would cost seconds
    folder = Path(tempfile.mkdtemp(prefix="arena_kit_", dir=memory if memory.is_dir() else None))
    quiet = {"stdout": subprocess.DEVNULL, "cwd": folder}
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)
        quiet |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    data = folder / "data"
    try:
        made = [programs / "initdb", "-D", data, "-A", "trust", "-U", "tester", "--no-sync"]
        subprocess.run([*made, "-E", "UTF8", "--no-locale"], check=True, **quiet)
        settings = f"-p {port} -k {folder} -h 127.0.0.1 -c shared_buffers=16MB".split()
        with (folder / "log").open("wb") as log:
            command = [programs / "postgres", "-D", data, *settings]
            server = subprocess.Popen(command, stderr=log, **quiet)
        try:
            _await(port, server, folder / "log")
            yield Postgres(port, "tester")
        finally:
            server.send_signal(signal.SIGQUIT)
            server.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _await(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        assert server.poll() is None, log.read_text(errors="replace")
        try:
            return psycopg.connect(f"postgresql://tester@127.0.0.1:{port}/template1").close()
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise AssertionError(log.read_text(errors="replace"))
