"""A live arena: matchups handed out blind, votes taken in durably, and ratings that follow them.

Everything is in the store; an arena that is opened again goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from math import ceil, isfinite
from operator import itemgetter
from pathlib import Path
from threading import RLock
from typing import Self

import numpy as np

from arena_kit.matchmaking.arena import Arena
from arena_kit.matchmaking.matchup import Lane, MatchmakingError, Matchup
from arena_kit.policy.constants import Policy
from arena_kit.runs.settings import DEFAULT_POLICY, DEFAULT_TOURNAMENT, read_policy
from arena_kit.voting.board import LiveBoard
from arena_kit.voting.export import battle_log
from arena_kit.voting.records import (
    BallotVote,
    Choice,
    Receipt,
    Shown,
    StoredVote,
    Ticket,
    VoteSource,
    read_choice,
)
from arena_kit.voting.refusals import (
    AlreadyVotedError,
    BadInputError,
    ChangedContentError,
    ExpiredTicketError,
    ForeignTicketError,
    NothingLeftError,
    TooFastError,
    UnknownTicketError,
)
from arena_kit.voting.store import Transaction, VoteStore, now
from arena_kit.voting.texts import ArenaTexts

_SECOND = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a voter may ask for: matchups in a minute and in a day, and for how many seconds a
    matchup waits for its vote.
    """

    per_minute: int = 30
    per_day: int = 2000
    lasts: float = 3600.0

    def __post_init__(self) -> None:
        for name in ("per_minute", "per_day", "lasts"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)!r}")


class LiveArena:
    """Matchups and votes of a running arena; safe to use from many threads.

    Before a vote nothing that it hands out says which models are shown. A vote is in the store
    before anybody is told that it was taken; the order of votes is that of commits, and of any
    replay. Other processes may write to the same store: each sees the others' votes, tickets and
    removals before it does anything.
    """

    def __init__(
        self,
        store: VoteStore,
        texts: ArenaTexts,
        policy: Policy,
        *,
        dimension: str | None = None,
        limits: Limits | None = None,
        seed: int | None = None,
    ) -> None:
        self.store = store
        self.texts = texts
        self.policy = policy
        self.limits = limits or Limits()
        self._lock = RLock()
        self._seen: tuple[int, int, int] | None = None
        self._ahead = False
        with store.writing() as transaction:
            begun = transaction.begin(
                texts.name, dimension, secrets.randbits(64) if seed is None else seed
            )
            self.dimension, self._seed = begun.dimension, begun.seed
            transaction.note_opening(_version(), asdict(policy), texts.digest, texts.models)
            self._build(transaction)

    @classmethod
    def open(
        cls,
        where: str | Path,
        tournament: Path = DEFAULT_TOURNAMENT,
        *,
        root: Path = Path(),
        policy: Path | Policy | None = None,
        dimension: str | None = None,
        limits: Limits | None = None,
        seed: int | None = None,
    ) -> Self:
        """The arena of a store, on the prompts and responses of a tournament; see `VoteStore.open`.
        Paths are relative to the workspace `root`.
        """
        rules = (
            policy if isinstance(policy, Policy) else read_policy(root / (policy or DEFAULT_POLICY))
        )
        texts = ArenaTexts.of_tournament(root / tournament, root)
        store = VoteStore.open(where)
        try:
            return cls(store, texts, rules, dimension=dimension, limits=limits, seed=seed)
        except BaseException:
            store.close()
            raise

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    def issue(self, *, session: str, voter: str | None = None) -> Shown:
        """The matchup that a session is to vote on: a new one, or the one that it has not voted
        on yet. Without a voter's name the session is the voter.
        """
        session, voter = _id(session, "session"), _id(session if voter is None else voter, "voter")
        with self._turn() as turn:
            ticket = self._current.get(session)
            if ticket is None:
                self._check_rate(turn, voter)
                ticket = self._hand_out(turn, session, voter, self.limits.lasts)
            return self._shown(ticket, turn.count_by(voter))

    def issue_ballot(self, n: int, *, session: str, lasts: float | None = None) -> list[Shown]:
        """Several matchups at once for voters who are not known yet, none of them twice within the
        policy's gap; they wait for so many seconds, by default as long as it takes.
        """
        session = _id(session, "session")
        with self._turn() as turn:
            tickets = [self._hand_out(turn, session, None, lasts) for _ in range(n)]
            return [self._shown(ticket, 0) for ticket in tickets]

    def cast(
        self,
        ticket: str,
        *,
        session: str,
        choice: Choice | str,
        digest: str | None = None,
        seconds: float | None = None,
        source: VoteSource = "page",
    ) -> Receipt:
        """Take in a vote; when this returns, it is durable.

        The same vote again gets the same receipt, another one on the same ticket is refused.
        `digest` is that of what the voter saw, as `Shown` gave it; without `seconds` the time since
        the matchup was handed out is kept.
        """
        choice = read_choice(choice)
        with self._turn() as turn:
            known = self._known(turn, ticket)
            if known.session != session:
                raise ForeignTicketError("the ticket was handed out to another session")
            vote = turn.vote_on(ticket)
            if vote is None:
                self._check_open(known, digest)
                voter = known.voter or session
                vote = self._add(turn, known, voter, session, choice, seconds, source)
            return _receipt(_same(vote, choice), turn.count_by(vote.voter))

    def cast_ballot(
        self, answers: Sequence[BallotVote], *, session: str, voter: str
    ) -> list[Receipt]:
        """Take in what one voter answered on a ballot: all of it, or nothing.

        Several voters may answer the same ballot: the first vote on a matchup uses its ticket,
        every further voter's a copy of it. The same answers again get the same receipts.
        """
        session, voter = _id(session, "session"), _id(voter, "voter")
        with self._turn() as turn:
            votes = [self._answered(turn, each, session, voter) for each in answers]
            count = turn.count_by(voter)
            return [_receipt(vote, count) for vote in votes]

    def board(self) -> LiveBoard:
        """Where everybody stands after the last vote."""
        with self._turn():
            scheduler = self.arena.scheduler
            return LiveBoard(
                policy=self.policy,
                texts=self.texts,
                ratings={model: self.arena.ratings[model] for model in scheduler.enabled},
                elo={model: self.arena.elo[model] for model in scheduler.enabled},
                order=tuple(self.arena.order()),
                coverage=scheduler.coverage(),
                waiting=len(scheduler.pending),
                votes=tuple(self._counted),
                skips=self._skips,
                removed=self._removed,
            )

    @contextmanager
    def _turn(self) -> Iterator[Transaction]:
        """One thread's turn: a transaction on the store, with the arena brought up to date before.

        It is durable when the block ends. Where it fails, the arena is built anew from the store
        if it may have gone ahead of it.
        """
        with self._lock:
            self._ahead = False
            try:
                with self.store.writing() as transaction:
                    self._catch_up(transaction)
                    yield transaction
                    seen = _counts(transaction)
                self._seen = seen
            except BaseException:
                if self._ahead:
                    self._seen = None
                raise

    def _build(self, transaction: Transaction) -> None:
        """Replay the store: votes in their order, then what waits for its vote."""
        tickets = transaction.history()
        votes = [vote for _, vote in tickets if vote is not None]
        self._counted: list[StoredVote] = []
        self._skips = self._removed = 0
        self._open: dict[str, Ticket] = {}
        self._current: dict[str, Ticket] = {}
        for vote in sorted(votes, key=itemgetter(0)):
            self._file(vote)
        past = replace(battle_log(self._counted), session=None)  # `remember` says more
        self.arena = Arena(
            self.policy,
            self.texts.models,
            tuple(self.texts.prompts),
            rng=np.random.default_rng(self._seed),
            available=self.texts.available(),
            battles=past if self._counted else None,
        )
        self.arena.scheduler.remember(
            (each.voter or each.session, each.model_a, each.model_b, each.prompt)
            for each, _ in tickets
        )
        moment = now()
        for ticket, answer in tickets:
            if answer is None and not _is_over(ticket, moment):
                self._wait(ticket)
        self._seen = _counts(transaction)

    def _catch_up(self, transaction: Transaction) -> None:
        """Take in what others wrote, and give up on what has waited too long."""
        counts = _counts(transaction)
        if self._seen is None or counts[2] != self._seen[2]:
            self._build(transaction)
        elif counts != self._seen:
            self._ahead = True
            for ticket, _ in transaction.history(self._seen[0]):
                self._wait(ticket)
            for vote in transaction.votes(self._seen[1]):
                if not self._take_in(vote):
                    self._build(transaction)
                    break
            self._seen = counts
        moment = now()
        for ticket in [each for each in self._open.values() if _is_over(each, moment)]:
            self._settle(ticket)
            self.arena.scheduler.cancel(ticket.ticket)

    def _hand_out(
        self, turn: Transaction, session: str, voter: str | None, lasts: float | None
    ) -> Ticket:
        """Draw a matchup and keep it; what is drawn depends on seed and number of the ticket."""
        number = _counts(turn)[0] + 1
        self.arena.scheduler.rng = np.random.default_rng([self._seed, number])
        try:
            matchup = self.arena.next_matchup(voter or session)
        except MatchmakingError as error:
            raise NothingLeftError(str(error)) from None
        self._ahead = True
        issued = now()
        ticket = Ticket(
            number=number,
            ticket=matchup.matchup_id,
            copy_of=None,
            session=session,
            voter=voter,
            model_a=matchup.model_a,
            model_b=matchup.model_b,
            prompt=matchup.prompt,
            dimension=self.dimension,
            lane=str(matchup.lane),
            reason=matchup.reason,
            digest=self.texts.digest_now(matchup.prompt, matchup.model_a, matchup.model_b) or "",
            issued_at=issued,
            expires_at=None if lasts is None else issued + round(lasts * _SECOND),
        )
        self._keep_open(ticket)
        return turn.add_ticket(ticket)

    def _answered(
        self, turn: Transaction, answer: BallotVote, session: str, voter: str
    ) -> StoredVote:
        """The vote that an answer of a ballot becomes, or became before."""
        choice, ticket = read_choice(answer.choice), self._known(turn, answer.ticket)
        if ticket.voter is not None or ticket.copy_of is not None:
            raise ForeignTicketError("the ticket was handed out to a session, and is on no ballot")
        vote = turn.vote_on(ticket.ticket)
        if vote is not None and vote.voter != voter:
            name = hashlib.sha256(f"{ticket.ticket} {voter}".encode()).hexdigest()[:32]
            ticket = ticket._replace(
                ticket=name, copy_of=ticket.ticket, voter=voter, session=session
            )
            vote = turn.vote_on(name)
        if vote is not None:
            return _same(vote, choice)
        self._check_open(ticket, answer.digest)
        if ticket.copy_of is not None:
            ticket = turn.add_ticket(ticket)
        return self._add(turn, ticket, voter, session, choice, answer.seconds, "ballot")

    @staticmethod
    def _known(turn: Transaction, ticket: str) -> Ticket:
        known = turn.ticket(ticket) if isinstance(ticket, str) and ticket.isprintable() else None
        if known is None:
            raise UnknownTicketError("the ticket was never handed out")
        return known

    def _add(
        self,
        turn: Transaction,
        ticket: Ticket,
        voter: str,
        session: str,
        choice: Choice,
        seconds: float | None,
        source: VoteSource,
    ) -> StoredVote:
        vote = turn.add_vote(
            ticket,
            voter=voter,
            session=session,
            choice=choice,
            seconds=_looked(ticket, seconds),
            source=source,
        )
        self._ahead = True
        self._take_in(vote)
        return vote

    def _take_in(self, vote: StoredVote) -> bool:
        """Count a vote; False where its models or prompt are unknown here, so that only a new
        beginning tells where it leads.
        """
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
        return True

    def _file(self, vote: StoredVote) -> None:
        """Put a vote with those that count, or count why it does not."""
        if vote.removed:
            self._removed += 1
        elif vote.choice.outcome is None:
            self._skips += 1
        else:
            self._counted.append(vote)

    def _wait(self, ticket: Ticket) -> None:
        """Let a ticket of the store wait for its vote, if what it shows is still there."""
        if self.texts.digest_now(ticket.prompt, ticket.model_a, ticket.model_b) != ticket.digest:
            return
        self.arena.scheduler.restore(_matchup(ticket), self.arena.ratings)
        self._keep_open(ticket)

    def _keep_open(self, ticket: Ticket) -> None:
        self._open[ticket.ticket] = ticket
        if ticket.voter is not None:
            self._current[ticket.session] = ticket

    def _settle(self, ticket: Ticket) -> None:
        del self._open[ticket.ticket]
        if self._current.get(ticket.session, ticket).ticket == ticket.ticket:
            self._current.pop(ticket.session, None)

    def _shown(self, ticket: Ticket, count: int) -> Shown:
        texts = self.texts.shown(ticket.prompt, ticket.model_a, ticket.model_b)
        prompt, left, right = texts or ("", "", "")
        return Shown(
            ticket=ticket.ticket,
            prompt=prompt,
            left=left,
            right=right,
            digest=ticket.digest,
            dimension=ticket.dimension,
            count=count,
        )

    def _check_open(self, ticket: Ticket, digest: str | None) -> None:
        if _is_over(ticket, now()):
            raise ExpiredTicketError("the time to vote on this matchup is over; ask for a new one")
        here = self.texts.digest_now(ticket.prompt, ticket.model_a, ticket.model_b)
        if here != ticket.digest or digest not in (None, ticket.digest):
            raise ChangedContentError(
                "the texts of this matchup are not those that were handed out; ask for a new one"
            )

    def _check_rate(self, turn: Transaction, voter: str) -> None:
        moment = now()
        for seconds, most, span in (
            (60, self.limits.per_minute, "a minute"),
            (86_400, self.limits.per_day, "a day"),
        ):
            n, first = turn.issued_to(voter, moment - seconds * _SECOND)
            if n >= most:
                wait = seconds - (moment - first) / _SECOND
                raise TooFastError(
                    f"a voter is shown at most {most} matchups in {span}; "
                    f"the next one in {ceil(wait)} s",
                    retry_after=wait,
                )


def _version() -> str:
    from arena_kit import __version__

    return __version__


def _id(value: str, what: str) -> str:
    """A name that may stand in files and pages, else a refusal."""
    if isinstance(value, str) and 0 < len(value) <= 128 and value.isprintable():
        return value
    raise BadInputError(
        f"{what} {str(value)[:40]!r} is not valid; allowed: 1 to 128 printable characters"
    )


def _same(vote: StoredVote, choice: Choice) -> StoredVote:
    """The vote, unless another one is on its ticket already."""
    if vote.choice is not choice:
        raise AlreadyVotedError("this matchup has its vote already, and it was another one")
    return vote


def _looked(ticket: Ticket, seconds: float | None) -> float:
    """For how long a voter looked, by default since the matchup was handed out."""
    if seconds is None:
        return (now() - ticket.issued_at) / _SECOND
    if not (isfinite(seconds) and seconds >= 0):
        raise BadInputError(f"seconds must be a finite number, 0 or more, not {seconds!r}")
    return float(seconds)


def _receipt(vote: StoredVote, count: int) -> Receipt:
    skipped = vote.choice is Choice.SKIP
    return Receipt(
        ticket=vote.ticket.copy_of or vote.ticket.ticket,
        choice=vote.choice,
        left=None if skipped else vote.ticket.model_a,
        right=None if skipped else vote.ticket.model_b,
        count=count,
        cast_at=vote.cast_at,
    )


def _matchup(ticket: Ticket) -> Matchup:
    return Matchup(
        matchup_id=ticket.ticket,
        model_a=ticket.model_a,
        model_b=ticket.model_b,
        prompt=ticket.prompt,
        lane=Lane(ticket.lane),
        reason=ticket.reason,
        session=ticket.voter or ticket.session,
    )


def _is_over(ticket: Ticket, moment: int) -> bool:
    return ticket.expires_at is not None and ticket.expires_at <= moment


def _counts(transaction: Transaction) -> tuple[int, int, int]:
    arena = transaction.arena
    return (0, 0, 0) if arena is None else (arena.tickets, arena.votes, arena.removals)
