"""A live arena: matchups handed out blind, votes taken in durably, and ratings that follow them.

Everything is in the store; an arena that is opened again goes on where it stopped.
"""

import hashlib
import secrets
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from math import ceil, isfinite
from operator import itemgetter
from pathlib import Path
from threading import RLock
from typing import Any, Self

import numpy as np

from arena_kit.files import DataError, write_text
from arena_kit.judging.verdicts.records import rare_garbage_collection
from arena_kit.matchmaking.arena import Arena
from arena_kit.matchmaking.lanes import Lane, MatchmakingError, Matchup
from arena_kit.policy.constants import Policy
from arena_kit.runs.settings.files import DEFAULT_POLICY, DEFAULT_TOURNAMENT, read_policy
from arena_kit.voting import ballot
from arena_kit.voting.board import LiveBoard
from arena_kit.voting.export import battle_log
from arena_kit.voting.records import (
    BallotVote,
    Choice,
    LeftOut,
    Receipt,
    RefusalError,
    Shown,
    StoredVote,
    Ticket,
    VoteSource,
    read_choice,
)
from arena_kit.voting.store import UNDONE, Transaction, VoteStore, now
from arena_kit.voting.texts import ArenaTexts, BalancedDraw

#: What a matchup is drawn from: lists of prompts, the first that has one; or the chosen one.
Draw = Sequence[Collection[str]] | ballot.Comparison | None
History = list[tuple[Ticket, StoredVote | None]]

SECOND = 1_000_000  # in the unit of the store's times
#: Who removes what is not counted, and what is said of it.
_REPEATS, _CONFLICT = "arena-kit (policy 11)", "arena-kit (conflict)"
_LEFT_OUT: dict[str, LeftOut] = {_REPEATS: "repeat", _CONFLICT: "conflict"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a voter may ask for: matchups in a minute and in a day, and for how many seconds a
    matchup waits for its vote.
    """

    per_minute: int = 30
    per_day: int = 2000
    lasts: float = 3600.0

    def check(self, turn: Transaction, voter: str, moment: int) -> None:
        """Refuse a voter who has had enough matchups for now."""
        spans = ((60, self.per_minute, "a minute"), (86_400, self.per_day, "a day"))
        for seconds, most, span in spans:
            n, first = turn.issued_to(voter, moment - seconds * SECOND)
            if n >= most:
                wait = seconds - (moment - first) / SECOND
                shown = f"a voter is shown at most {most} matchups in {span}"
                message = f"{shown}; the next one in {ceil(wait)} s"
                raise RefusalError(429, "too_fast", message, wait)


class LiveArena:
    """Matchups and votes of a running arena; safe to use from many threads.

    Nothing that it hands out says which models are shown, before a vote or after it; with `reveal`,
    voters are told after the vote, and votes on responses that a voter was told of are flagged
    (`StoredVote.known`). A vote is in the store
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
        dimension: str | Sequence[str] | None = None,
        limits: Limits | None = None,
        seed: int | None = None,
        reveal: bool = False,
        root: Path = Path(),
    ) -> None:
        self.store, self.policy, self.reveal, self._root = store, policy, reveal, root
        self.limits = limits or Limits()
        self._lock = RLock()
        seed = secrets.randbits(64) if seed is None else seed
        with store.writing() as transaction:
            asked = [dimension] if isinstance(dimension, str) else dimension or ()
            begun = transaction.begin(texts.name, asked, seed)
            self.texts = texts.on(begun.dimensions)
            self._in_force = (asdict(policy), self.texts.digest, self.texts.models)
            transaction.note_opening(*self._in_force)
            self._replayed = Replayed(self.texts, policy, int(begun.seed))
            self._replayed.catch_up(transaction, now())

    @classmethod
    def open(
        cls,
        where: str | Path,
        tournament: Path = DEFAULT_TOURNAMENT,
        *,
        root: Path = Path(),
        policy: Path | None = None,
        dimension: str | Sequence[str] | None = None,
        limits: Limits | None = None,
        reveal: bool = False,
    ) -> Self:
        """The arena of a store, on the prompts and responses of a tournament; see `VoteStore.open`.
        Paths are relative to the workspace `root`.
        """
        rules = read_policy(root / (policy or DEFAULT_POLICY))
        texts = ArenaTexts.of_tournament(root / tournament, root)
        store = VoteStore.open(where)
        try:
            more: Any = {"dimension": dimension, "limits": limits, "reveal": reveal}
            return cls(store, texts, rules, root=root, **more)
        except BaseException:
            store.close()
            raise

    @property
    def arena(self) -> Arena:
        """Scheduler and ratings after the last turn."""
        return self._replayed.arena

    @property
    def vote_count(self) -> int:
        """How many votes are in the store, skips and removed ones among them."""
        with self.store.reading() as transaction:
            return transaction.counts[1]

    def key(self) -> bytes:
        """What seals ballots and signs cookies; made where there is none."""
        return ballot.signing_key(ballot.key_file(self.store.address, self._root))

    def write_ballots(
        self,
        out: str | Path = "ballots",
        ballots: int = 1,
        *,
        pairs: int = 40,
        days: float = 30,
        question: str = "",
        voters: Sequence[ballot.InvitedVoter] = (),
        chosen: Sequence[ballot.Comparison] | None = None,
    ) -> list[Path]:
        """Write blind ballots, pages that need no server, into a folder (or one `.html` file): so
        many of so many pairs each, whose votes are waited for so many days; or one for each of the
        `voters` (see `read_voters`), whose attributes the store keeps. With `chosen` battles (see
        `read_chosen`) they ask about these alone.
        """
        invited = [each._replace(chosen=chosen) for each in voters or [ballot.ANYBODY] * ballots]
        paths = ballot.free_paths(Path(out), [each.name for each in invited])
        for each in invited:
            ballot.check_enough(self.texts, pairs, each)
        known = {ballot.voter_id(each.name): each.attributes for each in voters}
        with self._turn() as turn:
            turn.note_opening(*self._in_force, known)
        about: Any = {"pairs": pairs, "days": days, "question": question}
        for path, each in zip(paths, invited, strict=True):
            write_text(path, ballot.make_ballot(self, self.key(), voter=each, **about))
        return paths

    def take_ballot(self, path: str | Path) -> ballot.Taken:
        """Take in a file that a voter sent back, whole or not at all, and say what was in it."""
        return ballot.take_ballot(self, self.key(), Path(path))

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    def issue(self, *, session: str, voter: str | None = None) -> Shown:
        """The matchup that a session is to vote on: a new one, or the one that it has not voted
        on yet. Without a voter's name the session is the voter.
        """
        self.check_one_dimension()
        session, voter = _id(session, "session"), _id(session if voter is None else voter, "voter")
        with self._turn() as turn:
            ticket = self._replayed.waiting_for(session)
            if ticket is None:
                self.limits.check(turn, voter, now())
                ticket = self._hand_out(turn, session, voter, self.limits.lasts)
            return self._shown(ticket, turn.count_by(voter))

    def check_one_dimension(self) -> None:
        """Refuse to show single pairs where several dimensions are asked about, as ballots do."""
        if len(self.texts.dimensions) > 1:
            named = ", ".join(self.texts.dimensions)
            message = f"a live page asks about one dimension, not about several ({named})"
            raise DataError(f"{message}: make ballots")

    def issue_ballot(
        self,
        n: int,
        voter: ballot.InvitedVoter = ballot.ANYBODY,
        *,
        session: str,
        lasts: float | None = None,
    ) -> list[Shown]:
        """Several matchups at once for voters who are not known yet, none of them twice within the
        policy's gap, balanced over the prompts' strata (see `BalancedDraw`), or those of the chosen
        that were asked least; they wait for so many seconds, by default as long as it takes.
        """
        session = _id(session, "session")
        with self._turn() as turn:
            asked = [each.prompt for each in self.arena.scheduler.pending]
            asked += [vote.ticket.prompt for vote in self._replayed.counted]
            balance = BalancedDraw(self.texts, voter.prompts, asked)
            due = self._least_asked(voter)
            tickets = []
            for i in range(n):
                how = due[i] if voter.chosen else balance.least_first()
                tickets.append(self._hand_out(turn, session, None, lasts, how))
                balance.add(tickets[-1].prompt)
            return [self._shown(ticket, 0) for ticket in tickets]

    def _least_asked(self, voter: ballot.InvitedVoter) -> list[ballot.Comparison]:
        """The battles that were chosen for a voter, those first that fewest ballots hold."""
        waiting = [(m.prompt, m.model_a, m.model_b) for m in self.arena.scheduler.pending]
        cast = [vote.ticket for vote in self._replayed.counted]
        waiting += [(t.prompt, t.model_a, t.model_b) for t in cast]
        count = Counter((prompt, *sorted(models)) for prompt, *models in waiting)
        here = [each for each in voter.chosen or () if voter.is_asked(each[0])]
        return sorted(here, key=lambda each: count[each])

    def cast(
        self,
        ticket: str,
        *,
        session: str,
        choice: Choice | str,
        digest: str | None = None,
        seconds: float | None = None,
        source: VoteSource = "page",
        comment: str = "",
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
                message = "the ticket was handed out to another session"
                raise RefusalError(403, "foreign_ticket", message)
            vote = turn.vote_on(ticket)
            if vote is None:
                self._check_open(known, digest)
                whose = (known, known.voter or session, session)
                given = StoredVote(0, *whose, choice, 0, seconds, source, comment=comment)
                vote = self._add(turn, given)
            if vote.choice is not choice:
                message = "this matchup has its vote already, and it was another one"
                raise RefusalError(409, "already_voted", message)
            return _receipt(vote, turn.count_by(vote.voter))

    def undo(self, *, session: str) -> Shown:
        """Take the last vote of a session back, and show its matchup again.

        The vote is kept and removed, which the log says; the next one is on a copy of its ticket,
        as long as the ticket lives. Who was told the models cannot go back.
        """
        with self._turn() as turn:
            vote = turn.last_vote(session)
            if vote is None or vote.removed or vote.source == "ballot":
                raise RefusalError(409, "nothing_to_undo", "there is no vote to take back")
            if vote.revealed:
                message = "the models of this vote were named, so it stands"
                raise RefusalError(409, "nothing_to_undo", message)
            self._check_open(vote.ticket, None)
            self.limits.check(turn, vote.voter, now())
            turn.log_removals("vote", [vote.ticket.ticket], undone=False, **UNDONE)
            again = _copy(vote.ticket, session, vote.voter, f"after {vote.number}")
            again = turn.add_ticket(again._replace(issued_at=now()))
            self._replayed.catch_up(turn, now())
            return self._shown(again, turn.count_by(vote.voter))

    def cast_ballot(
        self, answers: Sequence[BallotVote], *, session: str, voter: str
    ) -> list[Receipt]:
        """Take in what one voter answered on a ballot: all of it, or nothing.

        Several voters may answer the same ballot: the first vote on a matchup uses its ticket,
        every further voter's a copy of it. The same answers again get the same receipts. Nobody
        knew who would answer when the ballot was made, so one may hold a pair and prompt that the
        voter saw elsewhere within the policy's gap (11): such a vote is kept and removed at once.
        So is one that differs from an earlier vote under the same name, which anybody who has the
        ballot can type: the researcher settles it (`arena-kit votes conflicts`).
        """
        session, voter = _id(session, "session"), _id(voter, "voter")
        with self._turn() as turn:
            votes = [self._answered(turn, each, session, voter) for each in answers]
            count = turn.count_by(voter)
            why = {line.target: _LEFT_OUT.get(line.by, "") for line in turn.removals()}
            return [
                _receipt(vote, count, why.get(vote.ticket.ticket, "") if vote.removed else "")
                for vote in votes
            ]

    def board(self) -> LiveBoard:
        """Where everybody stands after the last vote."""
        with self._turn():
            scheduler, replayed = self.arena.scheduler, self._replayed
            return LiveBoard(
                policy=self.policy,
                texts=self.texts,
                ratings={model: self.arena.ratings[model] for model in scheduler.enabled},
                elo={model: self.arena.elo[model] for model in scheduler.enabled},
                order=tuple(self.arena.order()),
                coverage=scheduler.coverage(),
                due=scheduler.exposure_due(self.arena.ratings),
                waiting=len(scheduler.pending),
                votes=tuple(replayed.counted),
                skips=replayed.skips,
                removed=replayed.removed,
            )

    @contextmanager
    def _turn(self) -> Iterator[Transaction]:
        """One thread's turn: a transaction on the store, with the arena brought up to date before.

        It is durable when the block ends.
        """
        with self._lock:
            try:
                with self.store.writing() as transaction:
                    self._replayed.catch_up(transaction, now())
                    yield transaction
                self._replayed.committed(transaction)
            except BaseException:
                self._replayed.roll_back()
                raise

    def _hand_out(
        self,
        turn: Transaction,
        session: str,
        voter: str | None,
        lasts: float | None,
        how: Draw = None,
    ) -> Ticket:
        """Draw a matchup and keep it."""
        number, issued = turn.counts[0] + 1, now()
        try:
            matchup = self._replayed.draw(number, voter or session, how)
        except MatchmakingError as error:
            raise RefusalError(404, "nothing_left", str(error)) from None
        ticket = Ticket(
            number=number,
            ticket=matchup.matchup_id,
            copy_of=None,
            session=session,
            voter=voter,
            model_a=matchup.model_a,
            model_b=matchup.model_b,
            prompt=matchup.prompt,
            dimension=next(iter(self.texts.asked(matchup.prompt)), None),
            lane=str(matchup.lane),
            reason=matchup.reason,
            digest=self.texts.digest_now(matchup.prompt, matchup.model_a, matchup.model_b) or "",
            issued_at=issued,
            expires_at=None if lasts is None else issued + round(lasts * SECOND),
        )
        self._replayed.keep_open(ticket)
        return turn.add_ticket(ticket)

    def _answered(
        self, turn: Transaction, answer: BallotVote, session: str, voter: str
    ) -> StoredVote:
        """The vote that an answer of a ballot becomes, or became before."""
        choice, ticket = read_choice(answer.choice), self._known(turn, answer.ticket)
        if ticket.voter is not None or ticket.copy_of is not None:
            message = "the ticket was handed out to a session, and is on no ballot"
            raise RefusalError(403, "foreign_ticket", message)
        root, dimension = ticket, answer.dimension or ticket.dimension
        if answer.dimension and dimension not in self.texts.asked(root.prompt):
            message = f"the ballot asks nothing about {answer.dimension[:60]!r} on this pair"
            raise RefusalError(422, "bad_input", message)
        if dimension != root.dimension:
            ticket = _copy(root, session, voter, dimension=dimension)
        vote = turn.vote_on(ticket.ticket)
        if vote is not None and vote.voter != voter:
            ticket = _copy(root, session, voter)
            vote = turn.vote_on(ticket.ticket)
        differs = vote is not None and vote.choice is not choice
        if differs:
            ticket = _copy(root, session, voter, choice, dimension)
            vote = turn.vote_on(ticket.ticket)
        if vote is not None:
            return vote
        self._check_open(ticket, answer.digest)
        if ticket.copy_of is not None:
            ticket = turn.add_ticket(ticket)
        again = not differs and self._is_repeat(turn, root, answer, voter)
        by = _CONFLICT if differs else _REPEATS if again else ""
        given = StoredVote(0, ticket, voter, session, choice, 0, answer.seconds, "ballot")
        return self._add(turn, given._replace(comment=answer.comment), by)

    def _is_repeat(self, turn: Transaction, root: Ticket, answer: BallotVote, voter: str) -> bool:
        """Whether a voter just saw a matchup elsewhere; what holds for the first dimension that it
        is asked on holds for the others, so a skip of one of several is a repeat, too.
        """
        if voter == root.session or (answer.choice is Choice.SKIP and not answer.dimension):
            return False
        before = turn.vote_of(voter, root.ticket)
        if before is not None:
            return before.removed and any(
                line.by == _REPEATS and line.target == before.ticket.ticket
                for line in turn.removals()
            )
        return self.arena.scheduler.was_shown(voter, root.model_a, root.model_b, root.prompt)

    @staticmethod
    def _known(turn: Transaction, ticket: str) -> Ticket:
        known = turn.ticket(ticket) if isinstance(ticket, str) and ticket.isprintable() else None
        if known is None:
            raise RefusalError(404, "unknown_ticket", "the ticket was never handed out")
        return known

    def _add(self, turn: Transaction, vote: StoredVote, removed_by: str = "") -> StoredVote:
        """Store a vote and count it, unless it is removed at once."""
        ticket, counts = vote.ticket, vote.choice.outcome is not None
        sides = ((vote.voter, side, ticket.prompt) for side in (ticket.model_a, ticket.model_b))
        vote = vote._replace(
            seconds=_viewing_seconds(ticket, vote.seconds),
            revealed=self.reveal and counts and vote.source != "ballot",
            known=not self._replayed.told.isdisjoint(sides),
        )
        vote = turn.add_vote(vote)
        if removed_by:
            gap = f"the same pair and prompt within {self.policy.repeats.session_gap} matchups"
            why = gap if removed_by == _REPEATS else "another vote under the same name"
            turn.log_removals("vote", [ticket.ticket], why=why, by=removed_by, undone=False)
            vote = vote._replace(removed=True)
        self._replayed.take_in(vote)
        return vote

    def _shown(self, ticket: Ticket, count: int) -> Shown:
        texts = self.texts.shown(ticket.prompt, ticket.model_a, ticket.model_b)
        prompt, left, right = texts or ("", "", "")
        return Shown(
            ticket=ticket.ticket,
            prompt=prompt,
            left=left,
            right=right,
            reference=self.texts.reference(ticket.prompt),
            digest=ticket.digest,
            dimensions=tuple(self.texts.asked(ticket.prompt)),
            count=count,
        )

    def _check_open(self, ticket: Ticket, digest: str | None) -> None:
        if is_expired(ticket, now()):
            message = "the time to vote on this matchup is over; ask for a new one"
            raise RefusalError(410, "expired_ticket", message)
        here = self.texts.digest_now(ticket.prompt, ticket.model_a, ticket.model_b)
        if here != ticket.digest or digest not in (None, ticket.digest):
            message = "the texts of this matchup are not those that were handed out"
            raise RefusalError(409, "changed_content", f"{message}; ask for a new one")


def _id(value: str, what: str) -> str:
    """A name that may stand in files and pages, else a refusal."""
    if isinstance(value, str) and 0 < len(value) <= 128 and value.isprintable():
        return value
    message = f"{what} {str(value)[:40]!r} is not valid; allowed: 1 to 128 printable characters"
    raise RefusalError(422, "bad_input", message)


def _viewing_seconds(ticket: Ticket, seconds: float | None) -> float:
    """For how long a voter looked, by default since the matchup was handed out."""
    if seconds is None:
        return (now() - ticket.issued_at) / SECOND
    if not (isfinite(seconds) and seconds >= 0):
        message = f"seconds must be a finite number, 0 or more, not {seconds!r}"
        raise RefusalError(422, "bad_input", message)
    return float(seconds)


def _copy(
    root: Ticket, session: str, voter: str, choice: str = "", dimension: str | None = None
) -> Ticket:
    """A further ticket on what a ballot's showed, for another voter, choice or dimension."""
    other = f"\n{dimension}" if dimension not in (None, root.dimension) else ""
    name = hashlib.sha256(f"{root.ticket} {choice} {voter}{other}".encode()).hexdigest()[:32]
    about: Any = {"voter": voter, "session": session, "dimension": dimension or root.dimension}
    return root._replace(ticket=name, copy_of=root.ticket, **about)


def _comparison(vote: StoredVote) -> tuple[str, str]:
    """The voter, and the ticket that was drawn: the same on every dimension."""
    return vote.voter, vote.ticket.copy_of or vote.ticket.ticket


def _receipt(vote: StoredVote, count: int, left_out: LeftOut = "") -> Receipt:
    return Receipt(
        ticket=vote.ticket.copy_of or vote.ticket.ticket,
        choice=vote.choice,
        left=vote.ticket.model_a if vote.revealed else None,
        right=vote.ticket.model_b if vote.revealed else None,
        count=count,
        cast_at=vote.cast_at,
        left_out=left_out,
    )


class Replayed:
    """Scheduler and ratings as the store has them, and the tickets that wait for their vote.

    A comparison on several dimensions counts once for each voter, by the dimension that was voted
    on first. `counted` are the votes that count here, in their order; `skips` and `removed` say how
    many do not. `told` are the voters, models and prompts of responses whose model was revealed.
    Whatever is done here before the store has committed it is undone with `roll_back`.
    """

    def __init__(self, texts: ArenaTexts, policy: Policy, seed: int) -> None:
        self._texts, self._policy, self._seed = texts, policy, seed
        self._seen: tuple[int, int, int] | None = None
        self._ahead = False
        self.arena: Arena

    def catch_up(self, transaction: Transaction, moment: int) -> None:
        """Take in what others wrote, and give up on what has waited too long at this time."""
        counts = transaction.counts
        if self._seen is None or counts[2] != self._seen[2]:
            self._build(transaction, moment)
        elif counts != self._seen:
            self._ahead = True
            for ticket in transaction.tickets(self._seen[0]):
                self._await(ticket)
            for vote in transaction.votes(self._seen[1]):
                if not self.take_in(vote):
                    self._build(transaction, moment)
                    break
            self._seen = counts
        for ticket in [each for each in self._open.values() if is_expired(each, moment)]:
            self._settle(ticket)
            self.arena.scheduler.cancel(ticket.ticket)

    def committed(self, transaction: Transaction) -> None:
        """All that was done here is in the store now."""
        self._seen, self._ahead = transaction.counts, False

    def roll_back(self) -> None:
        """The store may not have what was done here: begin anew at the next turn, if it matters."""
        if self._ahead:
            self._seen = None

    def draw(self, number: int, voter: str, how: Draw = None) -> Matchup:
        """A matchup for a voter; what is drawn, or which side is left in a chosen one, depends on
        seed and number of the ticket.
        """
        rng = self.arena.scheduler.rng = np.random.default_rng([self._seed, number])
        self._ahead = True
        if not isinstance(how, tuple):
            return self.arena.next_matchup(voter, how)
        left, right = rng.permutation(how[1:]).tolist()
        matchup = Matchup(matchup_id=secrets.token_hex(16), model_a=left, model_b=right,
                          prompt=how[0], lane=Lane.BASELINE, reason="chosen beforehand",
                          session=voter)  # fmt: skip
        self.arena.scheduler.restore(matchup, self.arena.ratings)
        return matchup

    def keep_open(self, ticket: Ticket) -> None:
        """A ticket of a matchup that was drawn waits for its vote from now on."""
        self._open[ticket.ticket] = ticket
        if ticket.voter is not None:
            self._current.setdefault(ticket.session, []).append(ticket)

    def waiting_for(self, session: str) -> Ticket | None:
        """The latest ticket of a session that has no vote yet."""
        waiting = self._current.get(session)
        return waiting[-1] if waiting else None

    def take_in(self, vote: StoredVote) -> bool:
        """Count a vote; False where its models or prompt are unknown here, so that only a new
        beginning tells where it leads.
        """
        self._ahead = True
        ticket, outcome = vote.ticket, vote.choice.outcome
        counts, scheduler = self._file(vote), self.arena.scheduler
        waiting = self._open.get(ticket.ticket)
        if waiting is None and counts:
            waiting = self._open.get(ticket.copy_of or "")
        if counts and waiting is None:
            try:
                scheduler.restore(_matchup(ticket), self.arena.ratings)
            except MatchmakingError:
                return False
        if waiting:
            self._settle(waiting)
        name = (waiting or ticket).ticket
        if counts and outcome is not None:
            self.arena.vote(name, outcome)
        elif waiting:
            scheduler.cancel(name)
        if self._is_showing(vote):
            scheduler.note_shown(vote.voter, ticket.model_a, ticket.model_b, ticket.prompt)
        return True

    @rare_garbage_collection()
    def _build(self, transaction: Transaction, moment: int) -> None:
        """Replay the store: votes in their order, then what waits for its vote."""
        history = transaction.history()
        votes = [vote for _, vote in history if vote is not None]
        self.counted: list[StoredVote] = []
        self.skips = self.removed = 0
        self.told: set[tuple[str, str, str]] = set()
        self._leads: dict[tuple[str, str], str | None] = {}
        self._seen_on: dict[tuple[str, str], str | None] = {}
        self._open: dict[str, Ticket] = {}
        self._current: dict[str, list[Ticket]] = {}
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
        self.arena.scheduler.remember(self._showings(history))
        voted = {vote.ticket.copy_of for vote in self.counted}
        for ticket, answer in history:
            if answer is None and ticket.ticket not in voted and not is_expired(ticket, moment):
                self._await(ticket)
        self._seen, self._ahead = transaction.counts, False

    def _file(self, vote: StoredVote) -> bool:
        """Put a vote with those that count, or count why it does not; says whether it does."""
        comparison, dimension = _comparison(vote), vote.ticket.dimension
        self._seen_on.setdefault(comparison, dimension)
        if vote.revealed:
            sides = (vote.ticket.model_a, vote.ticket.model_b)
            self.told |= {(vote.voter, side, vote.ticket.prompt) for side in sides}
        if vote.removed:
            self.removed += 1
        elif vote.choice.outcome is None:
            self.skips += 1
        elif self._leads.setdefault(comparison, dimension) == dimension:
            self.counted.append(vote)
            return True
        return False

    def _is_showing(self, vote: StoredVote) -> bool:
        """Whether a vote says that its voter saw a matchup of a ballot: once for all dimensions."""
        first = self._seen_on.get(_comparison(vote))
        return vote.source == "ballot" and first == vote.ticket.dimension

    def _showings(self, history: History) -> Iterator[tuple[str, str, str, str]]:
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
            if vote is not None and self._is_showing(vote)
        ]
        for _, voter, ticket in sorted(seen, key=itemgetter(0)):
            yield voter, ticket.model_a, ticket.model_b, ticket.prompt

    def _await(self, ticket: Ticket) -> None:
        """Let a ticket of the store wait for its vote, if what it shows is still there."""
        texts = self._texts.digest_now(ticket.prompt, ticket.model_a, ticket.model_b)
        if texts == ticket.digest:
            self.arena.scheduler.restore(_matchup(ticket), self.arena.ratings)
            self.keep_open(ticket)

    def _settle(self, ticket: Ticket) -> None:
        del self._open[ticket.ticket]
        others = self._current.pop(ticket.session, [])
        if others := [each for each in others if each.ticket != ticket.ticket]:
            self._current[ticket.session] = others


def is_expired(ticket: Ticket, moment: int) -> bool:
    """Whether the time to vote on a ticket is over."""
    return ticket.expires_at is not None and ticket.expires_at <= moment


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
