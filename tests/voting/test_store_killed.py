"""A process that is killed in the middle of voting."""

from __future__ import annotations

import random
import subprocess
import sys

from arena_kit.voting.store import VoteStore
from tests.samples import ROOT
from tests.voting.arenas import live
from tests.voting.child import ENDLESS


def killed_while_voting(address: str, after: int) -> list[tuple[str, str]]:
    """What a process was acknowledged (ticket, choice) until SIGKILL ended it, so many votes on."""
    command = [sys.executable, "-m", "tests.voting.child", address, "voter"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(after)]
        child.kill()
        lines += child.stdout.read().splitlines()
    whole = [line.split() for line in lines if len(line.split()) == 2]
    return [(ticket, choice) for ticket, choice in whole]


def test_an_acknowledged_vote_is_never_lost(address: str) -> None:
    """A process is killed twice at random moments: every vote that it was told was taken is
    in the store, once, in the order of acknowledgement, with at most one more that was under way
    at each kill; and the next process goes on with the matchup that was open.
    """
    dice, told = random.Random(4), []
    for _ in range(2):
        told += killed_while_voting(address, dice.randint(2, 12))
    with VoteStore.open(address) as store:
        votes = store.votes()
    kept = [(vote.ticket.ticket, str(vote.choice)) for vote in votes]
    assert len({ticket for ticket, _ in kept}) == len(kept)
    assert [vote for vote in kept if vote in told] == told
    assert len(told) <= len(kept) <= len(told) + 2
    assert [vote.number for vote in votes] == list(range(1, len(kept) + 1))
    arena = live(address, policy=ENDLESS)
    tickets = len({*(vote.ticket.number for vote in votes)})
    assert arena.board().waiting <= 1
    assert max(vote.ticket.number for vote in votes) - tickets <= 1
