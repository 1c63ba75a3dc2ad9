"""How many votes the server takes in a second, and how long a voter waits.

    .venv/bin/python benchmarks/voting.py [--voters 50] [--votes 5000] [--store URL]

Voters are threads of two processes of their own on loopback, each with a session and a connection;
they vote as fast as they are answered, and send every tenth vote twice. Afterwards the store must
have every vote that was answered, with its choice, and none twice; the exit status is 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

import numpy as np

PROCESSES = 2
CHOICES = ("A", "B", "TIE", "BOTH_BAD")
SAMPLE = Path(__file__).parents[1]


class Voter:
    """One connection with its cookie, and how long each answer took."""

    def __init__(self, address: str) -> None:
        self._connection = HTTPConnection(urlsplit(address).netloc, timeout=120)
        self._headers = {"Content-Type": "application/json"}
        self.seconds: dict[str, list[float]] = {"matchup": [], "vote": []}

    def enter(self) -> None:
        _, cookie = self._ask("enter", {"token": ""})
        self._headers["Cookie"] = cookie.partition(";")[0]

    def vote(self, number: int) -> tuple[str, str]:
        """Ask for a pair and vote on it; every tenth vote is sent twice."""
        pair, _ = self._timed("matchup", {})
        choice = CHOICES[number % len(CHOICES)]
        body = {"ticket": pair["ticket"], "digest": pair["digest"], "choice": choice}
        for _ in range(2 if number % 10 == 0 else 1):
            self._timed("vote", body)
        return pair["ticket"], choice

    def _timed(self, path: str, body: Any) -> tuple[dict[str, Any], str]:
        begin = perf_counter()
        answer = self._ask(path, body)
        self.seconds[path].append(perf_counter() - begin)
        return answer

    def _ask(self, path: str, body: Any) -> tuple[dict[str, Any], str]:
        self._connection.request("POST", f"/api/{path}", json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {text[:200]!r}")
        return json.loads(text), answer.getheader("Set-Cookie", "")


def many_voters(address: str, voters: int, votes: int) -> None:
    """Vote from so many threads, and print what was told as JSON."""
    told: list[tuple[str, str]] = []
    people = [Voter(address) for _ in range(voters)]

    def work(voter: Voter, share: int) -> None:
        voter.enter()
        told.extend(voter.vote(number) for number in range(share))

    shares = [votes // voters + (n < votes % voters) for n in range(voters)]
    threads = [
        threading.Thread(target=work, args=each) for each in zip(people, shares, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = {
        what: [s for voter in people for s in voter.seconds[what]] for what in ("matchup", "vote")
    }
    print(json.dumps({"told": told, "seconds": seconds}))


@contextmanager
def serving(store: str) -> Iterator[str]:
    """`arena-kit votes serve` on the sample, and its address."""
    command = [sys.executable, "-m", "arena_kit", "votes", "serve", "--port", "0", "--store", store]
    process = subprocess.Popen(
        [*command, "--per-minute", "1000000"],
        cwd=SAMPLE, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        found = re.search(r"http://[\w.]+:\d+", process.stdout.readline())
        assert found, "the server did not start"
        yield found[0]
    finally:
        process.terminate()
        process.wait()


def measured(store: str, voters: int, votes: int) -> int:
    """Print throughput and waiting times; 0 where every vote is stored once."""
    from arena_kit.voting.store import VoteStore

    with serving(store) as address:
        begin = perf_counter()
        parts = [str(voters // PROCESSES), str(votes // PROCESSES)]
        command = [sys.executable, __file__, "--address", address, *parts]
        running = [
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)
        ]
        outputs = [json.loads(process.communicate()[0]) for process in running]
        took = perf_counter() - begin
    told = {ticket: choice for output in outputs for ticket, choice in output["told"]}
    with VoteStore.open(store, create=False) as kept:
        stored = [(vote.ticket.ticket, str(vote.choice)) for vote in kept.votes()]
    print(
        f"{len(told):,} votes of {voters} voters in {took:.1f} s: {len(told) / took:,.0f} a second"
    )
    for what in ("matchup", "vote"):
        values = np.concatenate([output["seconds"][what] for output in outputs]) * 1000
        p50, p95, p99 = np.percentile(values, [50, 95, 99])
        print(
            f"  {what:7} median {p50:.0f} ms, p95 {p95:.0f}, p99 {p99:.0f}, most {values.max():.0f}"
        )
    lost, twice = told.items() - dict(stored).items(), len(stored) - len(dict(stored))
    print(f"  lost {len(lost)}, stored twice {twice}, in the store {len(stored):,}")
    return int(bool(lost or twice or len(stored) != len(told)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--voters", type=int, default=50)
    parser.add_argument("--votes", type=int, default=5000)
    parser.add_argument("--store", default="", help="postgresql://…, by default a new SQLite file")
    parser.add_argument("--address", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.address:
        address, voters, votes = given.address
        many_voters(address, int(voters), int(votes))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return measured(given.store or f"{folder}/votes.sqlite", given.voters, given.votes)


if __name__ == "__main__":
    sys.exit(main())
