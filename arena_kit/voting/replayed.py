"""The arena of a store in memory: replayed from its votes, and kept up with what is written."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from operator import itemgetter

import numpy as np

from arena_kit.matchmaking.arena import Arena
from arena_kit.matchmaking.matchup import Lane, MatchmakingError, Matchup
from arena_kit.policy.constants import Policy
from arena_kit.voting.export import battle_log
from arena_kit.voting.records import StoredVote, Ticket
from arena_kit.voting.store import Transaction
from arena_kit.voting.texts import ArenaTexts

History = list[tuple[Ticket, StoredVote | None]]


@contextmanager
def uncollected() -> Iterator[None]:
    """Without garbage collection, which would look at all votes again and again while they come in
    and find none to give up.
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


class Replayed:
    """Scheduler and ratings as the store has them, and the tickets that wait for their vote.

    `counted` are the votes that count, in their order; `skips` and `removed` say how many do not.
    Whatever is done here before the store has committed it is undone with `doubt`.
    """

    def __init__(self, texts: ArenaTexts, policy: Policy, seed: int) -> None:
        self._texts, self._policy, self._seed = texts, policy, seed
        self._seen: tuple[int, int, int] | None = None
        self._ahead = False
        self.arena: Arena

    def catch_up(self, transaction: Transaction, moment: int) -> None:
        """Take in what others wrote, and give up on what has waited too long at this time."""
        counts = _counts(transaction)
        if self._seen is None or counts[2] != self._seen[2]:
            self._build(transaction, moment)
        elif counts != self._seen:
            self._ahead = True
            for ticket, _ in transaction.history(self._seen[0]):
                self._await(ticket)
            for vote in transaction.votes(self._seen[1]):
                if not self.take_in(vote):
                    self._build(transaction, moment)
                    break
            self._seen = counts
        for ticket in [each for each in self._open.values() if is_over(each, moment)]:
            self._settle(ticket)
            self.arena.scheduler.cancel(ticket.ticket)

    def committed(self, transaction: Transaction) -> None:
        """All that was done here is in the store now."""
        self._seen, self._ahead = _counts(transaction), False

    def doubt(self) -> None:
        """The store may not have what was done here: begin anew at the next turn, if it matters."""
        if self._ahead:
            self._seen = None

    def current(self, session: str) -> Ticket | None:
        """The ticket that a session has not voted on yet."""
        return self._current.get(session)

    def draw(self, number: int, voter: str) -> Matchup:
        """A matchup for a voter; what is drawn depends on seed and number of the ticket."""
        self.arena.scheduler.rng = np.random.default_rng([self._seed, number])
        matchup = self.arena.next_matchup(voter)
        self._ahead = True
        return matchup

    def keep_open(self, ticket: Ticket) -> None:
        """A ticket of a matchup that was drawn waits for its vote from now on."""
        self._open[ticket.ticket] = ticket
        if ticket.voter is not None:
            self._current[ticket.session] = ticket

    def was_shown(self, voter: str, ticket: Ticket) -> bool:
        """Whether a voter saw the pair on the prompt of a ticket within the policy's gap (11)."""
        return self.arena.scheduler.was_shown(voter, ticket.model_a, ticket.model_b, ticket.prompt)

    def take_in(self, vote: StoredVote) -> bool:
        """Count a vote; False where its models or prompt are unknown here, so that only a new
        beginning tells where it leads.
        """
        self._ahead = True
        ticket, outcome = vote.ticket, vote.choice.outcome
        counts, is_open = outcome is not None and not vote.removed, ticket.ticket in self._open
        self._file(vote)
        scheduler = self.arena.scheduler
        if counts and not is_open:
            try:
                scheduler.restore(_matchup(ticket), self.arena.ratings)
            except MatchmakingError:
                return False
        if is_open:
            self._settle(ticket)
        if counts and outcome is not None:
            self.arena.vote(ticket.ticket, outcome)
        elif is_open:
            scheduler.cancel(ticket.ticket)
        if vote.source == "ballot":
            scheduler.note_shown(vote.voter, ticket.model_a, ticket.model_b, ticket.prompt)
        return True

    @uncollected()
    def _build(self, transaction: Transaction, moment: int) -> None:
        """Replay the store: votes in their order, then what waits for its vote."""
        history = transaction.history()
        votes = [vote for _, vote in history if vote is not None]
        self.counted: list[StoredVote] = []
        self.skips = self.removed = 0
        self._open: dict[str, Ticket] = {}
        self._current: dict[str, Ticket] = {}
        for vote in sorted(votes, key=itemgetter(0)):
            self._file(vote)
        past = replace(battle_log(self.counted), session=None)  # `remember` says more
        self.arena = Arena(
            self._policy,
            self._texts.models,
            tuple(self._texts.prompts),
            rng=np.random.default_rng(self._seed),
            available=self._texts.available(),
            battles=past if self.counted else None,
        )
        self.arena.scheduler.remember(_shown(history))
        for ticket, answer in history:
            if answer is None and not is_over(ticket, moment):
                self._await(ticket)
        self._seen, self._ahead = _counts(transaction), False

    def _file(self, vote: StoredVote) -> None:
        """Put a vote with those that count, or count why it does not."""
        if vote.removed:
            self.removed += 1
        elif vote.choice.outcome is None:
            self.skips += 1
        else:
            self.counted.append(vote)

    def _await(self, ticket: Ticket) -> None:
        """Let a ticket of the store wait for its vote, if what it shows is still there."""
        texts = self._texts.digest_now(ticket.prompt, ticket.model_a, ticket.model_b)
        if texts == ticket.digest:
            self.arena.scheduler.restore(_matchup(ticket), self.arena.ratings)
            self.keep_open(ticket)

    def _settle(self, ticket: Ticket) -> None:
        del self._open[ticket.ticket]
        if self._current.get(ticket.session, ticket).ticket == ticket.ticket:
            self._current.pop(ticket.session, None)


def is_over(ticket: Ticket, moment: int) -> bool:
    """Whether the time to vote on a ticket is over."""
    return ticket.expires_at is not None and ticket.expires_at <= moment


def _shown(history: History) -> Iterator[tuple[str, str, str, str]]:
    """Who saw which pair on which prompt, oldest first; who saw that of a ballot is known when
    the vote comes.
    """
    seen = [
        (ticket.issued_at, ticket.voter or ticket.session, ticket)
        for ticket, _ in history
        if ticket.copy_of is None
    ]
    seen += [
        (vote.cast_at, vote.voter, ticket)
        for ticket, vote in history
        if vote is not None and vote.source == "ballot"
    ]
    for _, voter, ticket in sorted(seen, key=itemgetter(0)):
        yield voter, ticket.model_a, ticket.model_b, ticket.prompt


def _matchup(ticket: Ticket) -> Matchup:
    return Matchup(
        matchup_id=ticket.ticket,
        model_a=ticket.model_a,
        model_b=ticket.model_b,
        prompt=ticket.prompt,
        lane=Lane(ticket.lane),
        reason=ticket.reason,
        session=None if ticket.copy_of else ticket.voter or ticket.session,
    )


def _counts(transaction: Transaction) -> tuple[int, int, int]:
    arena = transaction.arena
    return (0, 0, 0) if arena is None else (arena.tickets, arena.votes, arena.removals)
