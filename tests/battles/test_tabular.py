"""Reads share one database and leave nothing behind in it."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import numpy as np
import pytest

from arena_kit.battles import tabular
from arena_kit.battles.read import read_battles
from arena_kit.battles.tabular import connection
from arena_kit.files import DataError

GOOD = {"model_a": "ash", "model_b": "beech", "winner": "model_a"}


def jsonl(path: Path, *rows: dict[str, str]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def setting(con: duckdb.DuckDBPyConnection, name: str) -> object:
    return con.execute(f"SELECT current_setting('{name}')").fetchall()[0][0]


def test_connections_have_tables_views_and_settings_of_their_own() -> None:
    """What one connection makes or sets, another one beside it or after it does not see."""
    with connection() as con:
        con.execute("CREATE TEMP TABLE raw AS SELECT 1 AS one; SET TimeZone = 'Asia/Tokyo'")
        con.register("incoming", {"one": np.ones(1)})
        with connection() as beside:
            assert setting(beside, "TimeZone") == "UTC"
            assert beside.execute("SHOW TABLES").fetchall() == []
    with connection() as after:
        assert setting(after, "TimeZone") == "UTC"
        assert setting(after, "autoinstall_known_extensions") is False
        assert after.execute("SHOW TABLES").fetchall() == []


def test_a_read_holds_no_memory_when_it_is_done(tmp_path: Path) -> None:
    """The rows of a file are gone from the shared database once it is read."""
    read_battles(jsonl(tmp_path / "votes.jsonl", *[GOOD] * 5000))
    with connection() as con:
        held = "SELECT sum(memory_usage_bytes) FROM duckdb_memory()"
        assert con.execute(held).fetchall()[0][0] < 1e6


def test_threads_read_at_the_same_time(tmp_path: Path) -> None:
    """Each of many threads gets the battles of its file, and errors of others do not reach it."""
    rows = [GOOD | {"model_a": f"m{n}"} for n in range(10)]
    rows[::5] = [row | {"winner": "nobody"} for row in rows[::5]]
    files = [jsonl(tmp_path / f"{n}.jsonl", row) for n, row in enumerate(rows)]

    def models(path: Path) -> tuple[str, ...]:
        try:
            return read_battles(path).models
        except DataError:
            return ()

    with ThreadPoolExecutor(8) as pool:
        every = list(pool.map(models, files * 4))
    assert every == [("beech", f"m{n}") if n % 5 else () for n in range(10)] * 4


def number() -> int:
    """1 on a new database, and one more with every call."""
    with connection() as con:
        con.execute("CREATE SEQUENCE IF NOT EXISTS reads")
        return int(con.execute("SELECT nextval('reads')").fetchall()[0][0])


def test_after_an_error_the_database_is_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An internal error makes a DuckDB database unusable, so that none is used after an error."""
    monkeypatch.setattr(tabular, "_BRIEF", 60)
    wrong = jsonl(tmp_path / "wrong.jsonl", GOOD | {"winner": "nobody"})
    for _ in range(2):
        with pytest.raises(DataError):
            read_battles(wrong)
        assert [number(), number()] == [1, 2]


def test_after_long_work_the_database_is_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB returns memory when a database ends, so that one that worked for long does."""
    monkeypatch.setattr(tabular, "_BRIEF", 60)
    number()
    monkeypatch.setattr(tabular, "_BRIEF", 0)
    assert number() > 1
    assert [number(), number()] == [1, 1]


FORKS = """
import os, sys
from arena_kit import read_battles
read_battles(sys.argv[1])
child = os.fork()
if not child:
    sys.exit(40 + len(read_battles(sys.argv[1])))
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), len(read_battles(sys.argv[1])))
"""
THREADS = """
import sys, threading
from arena_kit.battles import read, tabular
def wait(database):
    threading.Event().wait()
threading.Thread(target=wait, args=(tabular._shared,), daemon=True).start()
print(len(read.read_battles(sys.argv[1])))
"""


def ended(script: str, path: Path) -> tuple[int, str, str]:
    """How a script on two battles ended, and what it said on its two outputs."""
    command = [sys.executable, "-c", script, str(jsonl(path / "votes.jsonl", GOOD, GOOD))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
def test_a_forked_process_reads_and_ends(tmp_path: Path) -> None:
    """Threads of a database do not survive a fork; a child reads with a database of its own, and
    both processes end as they should.
    """
    assert ended(FORKS, tmp_path)[:2] == (0, "42 2\n")


def test_a_process_with_threads_ends_quietly(tmp_path: Path) -> None:
    """DuckDB complains of a database that outlives Python, as one would that a daemon thread of a
    notebook's kernel holds on to.
    """
    assert ended(THREADS, tmp_path) == (0, "2\n", "")


def test_a_row_longer_than_usual_is_read(tmp_path: Path) -> None:
    """JSON is read in parts that have room for usual rows; a row of 45 million bytes is, too."""
    rows = [GOOD, GOOD | {"winner": "model_b", "prompt": "long" * 11_250_000}, GOOD]
    log = read_battles(jsonl(tmp_path / "votes.jsonl", *rows))
    assert [each.winner.value for each in log.to_battles()] == ["model_a", "model_b", "model_a"]
