"""The vote store: tickets handed out, votes cast and removals, each durable once it is committed.

Several processes may use one store: writers come one after the other, and see what others wrote.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from sqlalchemy import Connection, Engine, bindparam, func, insert, select, update

from arena_kit.files import DataError
from arena_kit.voting import database as db
from arena_kit.voting.database import database_url, opened, shown, writing
from arena_kit.voting.records import (
    Choice,
    Removal,
    RemovalKind,
    StoredVote,
    Ticket,
    Voter,
    VoteSource,
)


class ArenaRow(NamedTuple):
    """The arena of a store, and how many tickets, votes and removals there are."""

    name: str
    dimension: str | None
    seed: int
    tickets: int
    votes: int
    removals: int
    last_cast: int


_TICKET = tuple(db.tickets.c[name] for name in Ticket._fields)
_VOTE = tuple(db.votes.c[name] for name in StoredVote._fields if name not in ("ticket", "removed"))
_ARENA = select(*(db.arena.c[name] for name in ArenaRow._fields))
_LOCKED_ARENA = _ARENA.with_for_update()
_ONE_TICKET = select(*_TICKET).where(db.tickets.c.ticket == bindparam("ticket"))
_ONE_VOTE = (
    select(*_VOTE, *_TICKET)
    .select_from(db.votes.join(db.tickets))
    .where(db.votes.c.ticket == bindparam("ticket"))
)
_ONE_VOTER = select(db.voters.c.voter).where(db.voters.c.voter == bindparam("voter"))
_VOTES_BY = select(func.count()).where(
    db.votes.c.voter == bindparam("voter"), db.votes.c.choice != Choice.SKIP.value
)
_ISSUED_TO = select(func.count(), func.min(db.tickets.c.issued_at)).where(
    db.tickets.c.voter == bindparam("voter"), db.tickets.c.issued_at > bindparam("since")
)
_CHOICES = {str(choice): choice for choice in Choice}
#: Every kind of removal, and who or what it is about.
RemovedSet = frozenset[tuple[str, str]]


def now() -> int:
    """This moment in microseconds since 1970."""
    return time.time_ns() // 1000


class VoteStore:
    """The votes of one arena, in a SQLite file or a PostgreSQL database.

    It may be used from any thread. `open` makes or migrates it; a store of a newer version is
    refused.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @classmethod
    def open(cls, where: str | Path, *, create: bool = True) -> Self:
        """The store at a path (SQLite) or a `postgresql://` address; made where there is none,
        unless `create` is off.
        """
        return cls(opened(database_url(where), create=create))

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        """Where the store is, without a password."""
        return shown(self._engine.url)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """A transaction that no other writer overlaps; what it wrote is durable at the end of the
        block, and undone where that raises.
        """
        with writing(self._engine) as connection:
            yield Transaction(connection)

    @contextmanager
    def _reading(self) -> Iterator[Transaction]:
        with self._engine.connect() as connection, connection.begin():
            yield Transaction(connection, locked=False)

    def arena(self) -> ArenaRow | None:
        """The arena whose votes these are, None before the first opening."""
        with self._reading() as transaction:
            return transaction.arena

    def votes(self, after: int = 0) -> list[StoredVote]:
        """The votes in their order, skips among them; those after a number, by default all."""
        with self._reading() as transaction:
            return transaction.votes(after)

    def voters(self) -> list[Voter]:
        """Everybody who was shown a matchup or voted, first come first."""
        with self._reading() as transaction:
            return transaction.voters()

    def removals(self) -> list[Removal]:
        """The log of removals, oldest first."""
        with self._reading() as transaction:
            return transaction.removals()

    def remove(self, kind: RemovalKind, targets: Iterable[str], *, why: str, by: str) -> int:
        """Leave votes out of all battles: those of voters, of sessions, or single ones by their
        ticket. Nothing is deleted; the log keeps who did it and why. Says how many were not
        removed before.
        """
        with self.writing() as transaction:
            return transaction.log_removals(kind, targets, why=why, by=by, undone=False)

    def restore(self, kind: RemovalKind, targets: Iterable[str], *, why: str, by: str) -> int:
        """Take removals back, which is logged, too; says how many there were."""
        with self.writing() as transaction:
            return transaction.log_removals(kind, targets, why=why, by=by, undone=True)


class Transaction:
    """What can be read and written at once; see `VoteStore.writing`.

    The row of the arena is locked, so that numbers have no gaps and follow the order of commits.
    """

    def __init__(self, connection: Connection, *, locked: bool = True) -> None:
        self._connection = connection
        row = connection.execute(_LOCKED_ARENA if locked else _ARENA).one_or_none()
        self.arena = None if row is None else ArenaRow(*row)._replace(seed=int(row.seed))

    def begin(self, name: str, dimension: str | None, seed: int) -> ArenaRow:
        """The arena of this store, begun where there is none; another one is refused. Without a
        dimension it is that of the store.
        """
        if self.arena is None:
            self.arena = ArenaRow(name, dimension, seed, 0, 0, 0, 0)
            values = self.arena._asdict() | {"one": 1, "seed": str(seed), "created_at": now()}
            self._connection.execute(insert(db.arena).values(values))
        known = (self.arena.name, self.arena.dimension)
        if name != known[0] or dimension not in (None, known[1]):
            raise DataError(
                f"the store holds votes of {_named(*known)}, not of {_named(name, dimension)}"
            )
        return self.arena

    def note_opening(
        self, version: str, policy: Mapping[str, Any], texts: str, models: Sequence[str]
    ) -> None:
        """Keep what is in force from now on, where it is not what was before."""
        values = {
            "policy": json.dumps(policy, sort_keys=True),
            "texts": texts,
            "models": json.dumps(list(models), ensure_ascii=False),
        }
        table = db.openings
        last = select(table).order_by(table.c.number.desc()).limit(1)
        row = self._connection.execute(last).one_or_none()
        if row is not None and all(getattr(row, key) == value for key, value in values.items()):
            return
        number = 1 if row is None else row.number + 1
        more = {"number": number, "opened_at": now(), "version": version}
        self._connection.execute(insert(table).values(values | more))

    @property
    def next_ticket(self) -> int:
        """The number that the next ticket gets."""
        return self._arena().tickets + 1

    def add_ticket(self, ticket: Ticket) -> Ticket:
        """Keep a ticket under the next number; its voter is kept, too."""
        if ticket.voter is not None:
            self._meet(ticket.voter, ticket.issued_at)
        ticket = ticket._replace(number=self._count("tickets"))
        self._connection.execute(insert(db.tickets), ticket._asdict())
        return ticket

    def add_vote(
        self,
        ticket: Ticket,
        *,
        voter: str,
        session: str,
        choice: Choice,
        seconds: float | None,
        source: VoteSource,
    ) -> StoredVote:
        """Keep a vote under the next number, its time after that of every vote before."""
        arena = self._arena()
        cast_at = max(now(), arena.last_cast + 1)
        self._meet(voter, cast_at)
        number = self._count("votes", last_cast=cast_at)
        row = (number, voter, session, str(choice), cast_at, seconds, source)
        values = {column.name: value for column, value in zip(_VOTE, row, strict=True)}
        self._connection.execute(insert(db.votes), values | {"ticket": ticket.ticket})
        return _vote(row, ticket, self.removed())

    def ticket(self, ticket: str) -> Ticket | None:
        """A ticket by its id."""
        row = self._connection.execute(_ONE_TICKET, {"ticket": ticket}).one_or_none()
        return None if row is None else Ticket(*row)

    def history(self, after: int = 0) -> list[tuple[Ticket, StoredVote | None]]:
        """Tickets in the order in which they were handed out, those after a number, each with its
        vote where there is one.
        """
        number, removed = db.tickets.c.number, self.removed()
        joined = db.tickets.outerjoin(db.votes)
        query = select(*_VOTE, *_TICKET).select_from(joined).where(number > after).order_by(number)
        return [
            (ticket, None if row[0] is None else _vote(row, ticket, removed))
            for row in self._connection.execute(query).all()
            for ticket in (Ticket._make(row[len(_VOTE) :]),)
        ]

    def vote_on(self, ticket: str) -> StoredVote | None:
        """The vote on a ticket, None where there is none."""
        row = self._connection.execute(_ONE_VOTE, {"ticket": ticket}).one_or_none()
        return None if row is None else _vote(row, Ticket._make(row[len(_VOTE) :]), self.removed())

    def votes(self, after: int = 0) -> list[StoredVote]:
        """The votes in their order, those after a number."""
        number, removed = db.votes.c.number, self.removed()
        joined = db.votes.join(db.tickets)
        query = select(*_VOTE, *_TICKET).select_from(joined).where(number > after)
        rows = self._connection.execute(query.order_by(number)).all()
        return [_vote(row, Ticket._make(row[len(_VOTE) :]), removed) for row in rows]

    def count_by(self, voter: str) -> int:
        """How many votes a voter has cast, skips not counted."""
        return int(self._connection.execute(_VOTES_BY, {"voter": voter}).scalar_one())

    def issued_to(self, voter: str, since: int) -> tuple[int, int]:
        """How many tickets a voter got since a time, and when the first of them."""
        given = {"voter": voter, "since": since}
        n, first = self._connection.execute(_ISSUED_TO, given).one()
        return int(n), int(first or 0)

    def voters(self) -> list[Voter]:
        """Everybody who was shown a matchup or voted, first come first."""
        table, removed = db.voters, self.removed()
        skips = func.count(db.votes.c.number).filter(db.votes.c.choice == Choice.SKIP.value)
        query = (
            select(table, func.count(db.votes.c.number) - skips, skips)
            .select_from(table.outerjoin(db.votes))
            .group_by(table.c.voter)
            .order_by(table.c.first_seen, table.c.voter)
        )
        return [
            Voter._make((*row, ("voter", row.voter) in removed))
            for row in self._connection.execute(query)
        ]

    def removals(self) -> list[Removal]:
        """The log of removals, oldest first."""
        columns = (db.removals.c[name] for name in Removal._fields)
        query = select(*columns).order_by(db.removals.c.number)
        return [Removal(*row) for row in self._connection.execute(query)]

    def removed(self) -> RemovedSet:
        """What is removed now: a kind and a target each."""
        if not self.arena or not self.arena.removals:
            return frozenset()
        last = {(each.kind, each.target): not each.undone for each in self.removals()}
        return frozenset(target for target, is_out in last.items() if is_out)

    def log_removals(
        self, kind: RemovalKind, targets: Iterable[str], *, why: str, by: str, undone: bool
    ) -> int:
        """Add a line for each target whose state it changes; an unknown target is refused."""
        if not why.strip() or not by.strip():
            raise DataError("a removal needs a reason (why) and who did it (by), neither empty")
        targets, out = dict.fromkeys(targets), self.removed()
        self._check_known(kind, targets)
        changed = [target for target in targets if ((kind, target) in out) == undone]
        for target in changed:
            row = Removal(self._count("removals"), kind, target, undone, why, by, now())
            self._connection.execute(insert(db.removals), row._asdict())
        return len(changed)

    def _check_known(self, kind: RemovalKind, targets: Iterable[str]) -> None:
        column = {
            "voter": db.voters.c.voter,
            "session": db.votes.c.session,
            "vote": db.votes.c.ticket,
        }[kind]
        for target in targets:
            query = select(column).where(column == target).limit(1)
            if self._connection.execute(query).one_or_none() is None:
                raise DataError(f"the store knows no {kind} {target[:60]!r}")

    def _arena(self) -> ArenaRow:
        if self.arena is None:
            raise DataError("the store holds no arena yet; open one on it first")
        return self.arena

    def _count(self, what: str, **more: int) -> int:
        """The next number of a kind of row."""
        number = int(getattr(self._arena(), what)) + 1
        values: dict[str, Any] = {what: number, **more}
        self._connection.execute(update(db.arena).values(values))
        self.arena = self._arena()._replace(**values)
        return number

    def _meet(self, voter: str, at: int) -> None:
        if self._connection.execute(_ONE_VOTER, {"voter": voter}).one_or_none() is None:
            self._connection.execute(insert(db.voters), {"voter": voter, "first_seen": at})


def _vote(row: Sequence[Any], ticket: Ticket, removed: RemovedSet) -> StoredVote:
    """The vote of a row of `_VOTE` and perhaps more."""
    number, voter, session, choice, cast_at, seconds, source = row[: len(_VOTE)]
    keys = {("voter", voter), ("session", session), ("vote", ticket.ticket)} if removed else ()
    left_out = not removed.isdisjoint(keys)
    return StoredVote(
        number, ticket, voter, session, _CHOICES[choice], cast_at, seconds, source, left_out
    )


def _named(name: str, dimension: str | None) -> str:
    return repr(name) + (f" on {dimension!r}" if dimension else "")
