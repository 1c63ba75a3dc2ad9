"""The server as a command: killed in the middle it loses no vote that a voter was told of."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from arena_kit.voting.store import VoteStore
from tests.samples import copy_workspace
from tests.voting.serving import Voter

VOTERS, ENOUGH = 6, 40


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_workspace(tmp_path_factory.mktemp("killed") / "workspace")


@contextmanager
def served(
    workspace: Path, store: str, *options: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`arena-kit votes serve` on a free port, and its address."""
    command = [sys.executable, "-m", "arena_kit", "votes", "serve", "--port", "0", "--store", store]
    process = subprocess.Popen(
        [*command, "--per-minute", "100000", *options],
        cwd=workspace, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        first = process.stdout.readline()
        found = re.search(r"http://[\w.]+:\d+", first)
        assert found, first + process.stderr.read()
        process.stdout.readline()
        process.stdout.readline()
        yield process, found[0]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def test_a_kill_loses_no_vote_that_was_acknowledged(workspace: Path, address: str) -> None:
    """Six voters vote while the server is killed with SIGKILL: every vote that was answered is in
    the store with its choice, and none is there twice.
    """
    told: dict[str, str] = {}
    enough = threading.Event()

    def votes(voter: Voter) -> None:
        try:
            voter.enter()
            for turn in range(10_000):
                pair, choice = voter.pair(), ("A", "B", "TIE")[turn % 3]
                assert voter.vote(pair, choice).status_code == 200
                told[pair["ticket"]] = choice
                if len(told) >= ENOUGH:
                    enough.set()
        except httpx2.TransportError:
            return

    with served(workspace, address) as (process, at):
        threads = [threading.Thread(target=votes, args=(Voter(at),)) for _ in range(VOTERS)]
        for thread in threads:
            thread.start()
        assert enough.wait(120)
        process.send_signal(signal.SIGKILL)
        for thread in threads:
            thread.join()
    with VoteStore.open(address, create=False) as store:
        kept = [(vote.ticket.ticket, str(vote.choice)) for vote in store.votes()]
    assert len(told) >= ENOUGH
    assert told.items() <= dict(kept).items()
    assert len(kept) == len(dict(kept)) <= len(told) + VOTERS


def test_other_addresses_need_a_token(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listening on all addresses, the server admits nobody without the token; ended by Ctrl-C, it
    says what was collected.
    """
    monkeypatch.setenv("ARENA_KIT_VOTE_TOKEN", "open sesame")
    with served(workspace, str(tmp_path / "votes.sqlite"), "--host", "0.0.0.0") as (process, at):
        here = f"http://127.0.0.1:{at.rpartition(':')[2]}"
        assert Voter(here).enter().status_code == 401
        voter = Voter(here, token="open sesame")
        assert voter.enter().status_code == 200
        assert voter.vote(voter.pair(), "A").status_code == 200
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert output.startswith("ended; 1 vote was cast meanwhile; ")
    assert output.endswith("votes.sqlite holds 1 vote of 1 voter\n")
    assert errors == ""
    assert process.returncode == 0
