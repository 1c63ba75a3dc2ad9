"""Votes on a store until it is killed: `python -m tests.voting.child ADDRESS SESSION`.

It prints a ticket and the choice as soon as the vote was acknowledged.
"""

from __future__ import annotations

import sys
from itertools import cycle

from arena_kit.policy.constants import Policy, Repeats
from arena_kit.voting.records import Choice
from tests.voting.arenas import live

#: Nothing is left out, so that voting never ends.
ENDLESS = Policy(repeats=Repeats(session_gap=0, same_prompt=100, meetings=100))

if __name__ == "__main__":
    address, session = sys.argv[1:]
    arena = live(address, policy=ENDLESS)
    for choice in cycle(Choice):
        shown = arena.issue(session=session)
        arena.cast(shown.ticket, session=session, choice=choice, digest=shown.digest)
        print(shown.ticket, choice, flush=True)
