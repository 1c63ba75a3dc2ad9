"""How long the next matchup and its vote take, in arenas of several sizes, and how long it takes
to open an arena on 100,000 votes.

    .venv/bin/python benchmarks/matchmaking.py

Every matchup is voted on and rated at once; the mean over all lanes is printed, in time of the
processor, with the four lanes of the policy as written and with the decide lane, whose looks at all
votes are part of the vote. At most 1 ms is allowed for a matchup with 50 models and 150 prompts.

The votes that an arena is opened on are in a SQLite file, on a bank of 150 prompts and on a prompt
each, of 20 models and of 130; at most 5 s are allowed. Then it draws matchups, of which the first
takes longest and is not in the mean. The exit status is 1 where anything takes more than allowed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np
from sqlalchemy import insert, update

from arena_kit.battles.battle import Outcome
from arena_kit.matchmaking.arena import Arena
from arena_kit.matchmaking.lanes import Matchup
from arena_kit.matchmaking.simulation import World, planted, played
from arena_kit.policy.constants import Decide, Policy
from arena_kit.voting import database
from arena_kit.voting.database import database_url, opened, writing
from arena_kit.voting.live import LiveArena
from arena_kit.voting.records import Choice, Ticket
from arena_kit.voting.store import VoteStore
from arena_kit.voting.texts import ArenaTexts

VOTES = 100_000
OPENED = ((20, 150), (20, VOTES), (130, VOTES))
SIZES = ((20, 15), (50, 150), (100, 500))
MATCHUPS, DRAWN = 5000, 100


POLICIES = {"four lanes": Policy(), "with decide": Policy(decide=Decide(share=0.4))}


class Timed(Arena):
    """An arena that adds up the time its matchups and votes take."""

    matchups = votes = 0.0

    def next_matchup(self, session: str | None = None) -> Matchup:
        begin = process_time()
        matchup = super().next_matchup(session)
        self.matchups += process_time() - begin
        return matchup

    def vote(self, matchup_id: str, outcome: Outcome) -> Matchup:
        begin = process_time()
        matchup = super().vote(matchup_id, outcome)
        self.votes += process_time() - begin
        return matchup


def milliseconds(policy: Policy, models: int, prompts: int) -> tuple[float, float]:
    """What a matchup and its vote take on average."""
    world = World(models=models, prompts=prompts, matchups=MATCHUPS, newcomers=0)
    for_world, for_arena = np.random.default_rng(0).spawn(2)
    found = planted(world, for_world)
    arena = Timed(policy, (), found.prompts, rng=for_arena)
    done = sum(1 for _ in played(found, arena))
    return 1000 * arena.matchups / done, 1000 * arena.votes / done


def seconds_to_open(models: int, prompts: int) -> tuple[float, float]:
    """What it takes to open a live arena on 100,000 votes of two thousand voters, and to draw a
    matchup from it. Every model has a response to the first 150 prompts, and two have one to each
    of the others.
    """
    names = [f"model-{i:03}" for i in range(models)]
    asked = [f"prompt-{i:06}" for i in range(prompts)]
    texts = ArenaTexts(
        name="benchmark",
        models=tuple(names),
        prompts={prompt: prompt for prompt in asked},
        responses={
            (model, prompt): f"{model} on {prompt}"
            for n, prompt in enumerate(asked)
            for model in (names if n < 150 else (names[n % models], names[(n + 1) % models]))
        },
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "votes.sqlite"
        with VoteStore.open(path) as store, store.writing() as transaction:
            transaction.begin(texts.name, None, seed=0)
        fill(path, names, asked)
        begin = process_time()
        live = LiveArena(VoteStore.open(path), texts, Policy())
        took = process_time() - begin
        live.arena.next_matchup()
        begin = process_time()
        for n in range(DRAWN):
            live.arena.next_matchup(f"voter-{n:04}")
        each = (process_time() - begin) / DRAWN
        live.close()
        return took, each


def fill(path: Path, models: list[str], prompts: list[str]) -> None:
    """Put the votes into a store, drawn at random, all prompts in turn."""
    rng = np.random.default_rng(0)
    first = rng.integers(len(models), size=VOTES)
    second = (first + rng.integers(1, len(models), size=VOTES)) % len(models)
    choices = rng.choice(list(Choice), VOTES, p=[0.4, 0.35, 0.13, 0.07, 0.05]).tolist()
    columns = first.tolist(), second.tolist(), rng.integers(2000, size=VOTES).tolist(), choices
    tickets, votes = [], []
    for n, (a, b, voter, choice) in enumerate(zip(*columns, strict=True), 1):
        name = f"voter-{voter:04}"
        ticket = Ticket(
            number=n, ticket=f"{n:032x}", copy_of=None, session=name, voter=name,
            model_a=models[a], model_b=models[b], prompt=prompts[n % len(prompts)], dimension=None,
            lane="coverage", reason="drawn at random", digest="0" * 64, issued_at=n, expires_at=n,
        )  # fmt: skip
        tickets.append(ticket._asdict())
        more = {"choice": str(choice), "cast_at": n, "seconds": 9.0, "source": "page"}
        votes.append({"number": n, "ticket": ticket.ticket, "voter": name, "session": name, **more})
    voters = [{"voter": f"voter-{n:04}", "first_seen": 0} for n in range(2000)]
    with writing(opened(database_url(path))) as connection:
        connection.execute(insert(database.voters), voters)
        connection.execute(insert(database.tickets), tickets)
        connection.execute(insert(database.votes), votes)
        connection.execute(
            update(database.arena).values(tickets=VOTES, votes=VOTES, last_cast=VOTES)
        )


if __name__ == "__main__":
    quick = True
    for models, prompts in OPENED:
        took, each = seconds_to_open(models, prompts)
        quick &= took <= 5
        print(
            f"{VOTES:,} votes on {prompts:,} prompts, {models} models: {took:.1f} s to open, "
            f"{1000 * each:.1f} ms a matchup"
        )
    for models, prompts in SIZES:
        for name, policy in POLICIES.items():
            matchup, vote = milliseconds(policy, models, prompts)
            quick &= (models, prompts) != (50, 150) or matchup <= 1
            print(
                f"{models} models x {prompts} prompts, {name}: "
                f"{matchup:.2f} ms a matchup, {vote:.2f} ms a vote"
            )
    sys.exit(not quick)
