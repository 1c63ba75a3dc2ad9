"""A PostgreSQL server of our own in a temporary folder, on a free port of the loopback."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg


def binaries() -> Path | None:
    """Where Debian keeps the newest server, or where the path finds one."""
    folders = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = sorted(folders, key=lambda path: int(path.parts[-3]))
    found = str(newest[-1]) if newest else shutil.which("initdb")
    return Path(found).parent if found else None


class Postgres:
    """A running server; `new_database` gives the address of an empty database."""

    def __init__(self, port: int) -> None:
        self._base, self._numbers = f"postgresql://tester@127.0.0.1:{port}", count(1)

    def new_database(self) -> str:
        name = f"votes_{next(self._numbers)}"
        with psycopg.connect(f"{self._base}/template1", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"{self._base}/{name}"


@contextmanager
def running(programs: Path) -> Iterator[Postgres]:
    """Start a server, durable as any, and stop it in the end; it refuses to run as root."""
    memory = Path("/dev/shm")  # a disk that others use, too, would cost seconds
    folder = Path(tempfile.mkdtemp(prefix="arena_kit_", dir=memory if memory.is_dir() else None))
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "cwd": folder}
    if os.getuid() == 0:
        names = {entry.pw_name for entry in pwd.getpwall()}
        account = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
        os.chown(folder, account.pw_uid, account.pw_gid)
        quiet |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    settings = f"-p {port} -k {folder} -h 127.0.0.1 -c shared_buffers=16MB"
    made = [programs / "initdb", "-A", "trust", "-U", "tester", "--no-sync", "-E", "UTF8"]
    control = [programs / "pg_ctl", "-D", folder / "data", "-l", folder / "log", "-t", "60", "-w"]
    try:
        subprocess.run([*made, "--no-locale", "-D", folder / "data"], check=True, **quiet)
        subprocess.run([*control, "-o", settings, "start"], check=True, **quiet)
        try:
            yield Postgres(port)
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], check=True, **quiet)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
