"""The vote store: tickets handed out, votes cast and removals, each durable once it is committed.

Several processes may use one store: writers come one after the other, and see what others wrote.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import sqlalchemy as sa
from sqlalchemy import Connection, Row, Table, func, insert, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from arena_kit.battles.readers import vote_chain
from arena_kit.files import DataError
from arena_kit.voting import database as db
from arena_kit.voting.records import Choice, Removal, RemovalKind, StoredVote, Ticket, Voter


class ArenaRow(NamedTuple):
    """The arena of a store, how many rows its tables have, and the last checksum of each."""

    name: str
    dimension: str | None
    seed: str
    created_at: int
    openings: int
    openings_head: str
    tickets: int
    tickets_head: str
    votes: int
    votes_head: str
    removals: int
    removals_head: str

    @property
    def dimensions(self) -> tuple[str, ...]:
        """What its votes are about, none where they have no dimension."""
        return tuple(self.dimension.split(SEPARATOR)) if self.dimension else ()


_ARENA = select(*(db.arena.c[name] for name in ArenaRow._fields))
_VOTERS = "voters"
DEFAULT_STORE = ".arena_kit/votes.sqlite"  # in the workspace
#: Between the dimensions of an arena that asks about several.
SEPARATOR = ", "
_LOCKED_ARENA = _ARENA.with_for_update()
#: Why a vote was removed that its voter took back, and who did it.
UNDONE = {"why": "the voter took it back", "by": "the voter"}
_TAKEN_BACK = select(db.removals.c.target).where(db.removals.c.by == UNDONE["by"])
_VOTES_BY = select(func.count()).where(
    db.votes.c.voter == sa.bindparam("voter"),
    db.votes.c.choice != Choice.SKIP.value,
    db.votes.c.ticket.not_in(_TAKEN_BACK),
)
_ISSUED_TO = select(func.count(), func.min(db.tickets.c.issued_at)).where(
    db.tickets.c.voter == sa.bindparam("voter"), db.tickets.c.issued_at > sa.bindparam("since")
)
_CHOICES = {str(choice): choice for choice in Choice}
#: Every kind of removal, and who or what it is about.
RemovedSet = frozenset[tuple[str, str]]


def now() -> int:
    """This moment in microseconds since 1970."""
    return time.time_ns() // 1000


class VoteStore:
    """The votes of one arena, in a SQLite file or a PostgreSQL database.

    It may be used from any thread. `open` makes it; one of another version is refused.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    @classmethod
    def open(cls, where: str | Path, *, create: bool = True) -> Self:
        """The store at a path (SQLite) or a `postgresql://` address; made where there is none,
        unless `create` is off.
        """
        return cls(db.opened(db.database_url(where), create=create))

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
        return db.shown(self._engine.url)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """A transaction that no other writer overlaps; what it wrote is durable at the end of the
        block, and undone where that raises.
        """
        with self._in_words(), db.writing(self._engine) as connection:
            yield Transaction(connection)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A transaction that sees one moment of the store."""
        postgres = self._engine.dialect.name == "postgresql"
        level: Any = {"isolation_level": "REPEATABLE READ"} if postgres else {}
        with (
            self._in_words(),
            self._engine.connect().execution_options(**level) as connection,
            connection.begin(),
        ):
            yield Transaction(connection, locked=False)

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Say in a sentence that the database failed; what a constraint refuses is our error."""
        try:
            yield
        except IntegrityError:
            raise
        except DBAPIError as error:
            why = str(error.orig).strip().partition("\n")[0]
            raise vote_chain.DamagedError(f"{self.address}: the database failed ({why})") from error

    def votes(self, after: int = 0) -> list[StoredVote]:
        """The votes in their order, skips among them; those after a number, by default all."""
        with self.reading() as transaction:
            return transaction.votes(after)

    def voters(self) -> list[Voter]:
        """Everybody who was shown a matchup or voted, first come first."""
        with self.reading() as transaction:
            return transaction.voters()

    def removals(self) -> list[Removal]:
        """The log of removals, oldest first."""
        with self.reading() as transaction:
            return transaction.removals()

    def check(self) -> int:
        """Verify every row; says how many votes there are, and raises `DamagedError`."""
        with self.reading() as transaction:
            return transaction.check()

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
    Whatever rows are read are verified; a damaged one raises `DamagedError`.
    """

    def __init__(self, connection: Connection, *, locked: bool = True) -> None:
        self._connection = connection
        row = connection.execute(_LOCKED_ARENA if locked else _ARENA).one_or_none()
        self.arena = None if row is None else ArenaRow(*row)

    def begin(self, name: str, dimensions: Sequence[str], seed: int) -> ArenaRow:
        """The arena of this store, begun where there is none; another one is refused. Without
        dimensions they are those of the store.
        """
        dimension = SEPARATOR.join(dict.fromkeys(dimensions)) or None
        if self.arena is None:
            own = (name, dimension, str(seed), now())
            chains: Any = (0, vote_chain.beginning((1, *own))) * len(vote_chain.CHAINED)
            self.arena = ArenaRow(*own, *chains)
            self._connection.execute(insert(db.arena).values(self.arena._asdict() | {"one": 1}))
        known = (self.arena.name, self.arena.dimension)
        if name != known[0] or dimension not in (None, known[1]):
            raise DataError(
                f"the store holds votes of {_named(*known)}, not of {_named(name, dimension)}"
            )
        return self.arena

    def note_opening(
        self, policy: dict[str, Any], texts: str, models: Sequence[str],
        voters: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:  # fmt: skip
        """Keep what is in force from now on, where it is not what was before; attributes of voters
        are beside the policy, with those that were known.
        """
        from arena_kit import __version__

        known = self.attributes() | dict(voters or {})
        values = {
            "policy": json.dumps(policy | ({_VOTERS: known} if known else {}), sort_keys=True),
            "texts": texts,
            "models": json.dumps(list(models), ensure_ascii=False),
        }
        last = self._last_opening()
        if not last or any(getattr(last[0], key) != value for key, value in values.items()):
            self._insert(db.openings, values | {"opened_at": now(), "version": __version__})

    def attributes(self) -> dict[str, dict[str, str]]:
        """What is known of voters (specialty, say), by their names."""
        last = self._last_opening()
        return dict(json.loads(last[0].policy).get(_VOTERS, {})) if last else {}

    def _last_opening(self) -> Sequence[Row[Any]]:
        return self._rows(db.openings, max(0, self.arena.openings - 1)) if self.arena else []

    def check(self) -> int:
        """Verify every row, and the pages of a SQLite file; says how many votes there are."""
        pages = ["ok"]
        if self._connection.dialect.name == "sqlite":
            pages = [*self._connection.exec_driver_sql("PRAGMA integrity_check").scalars()]
        if pages != ["ok"]:
            raise self._damaged(pages)
        return [len(self._rows(db.metadata.tables[name])) for name in vote_chain.CHAINED][2]

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many tickets, votes and lines of the log of removals there are."""
        arena = self._arena()
        return arena.tickets, arena.votes, arena.removals

    def add_ticket(self, ticket: Ticket) -> Ticket:
        """Keep a ticket under the next number."""
        return ticket._replace(number=self._insert(db.tickets, ticket._asdict()))

    def add_vote(self, vote: StoredVote) -> StoredVote:
        """Keep a vote under the next number, its time after that of every vote before."""
        last = select(db.votes.c.cast_at).where(db.votes.c.number == self._arena().votes)
        cast_at = max(now(), (self._connection.execute(last).scalar() or 0) + 1)
        values = vote._replace(cast_at=cast_at)._asdict() | {
            "ticket": vote.ticket.ticket,
            "choice": str(vote.choice),
            "revealed": int(vote.revealed),
            "known": int(vote.known),
        }
        number = self._insert(db.votes, values)
        out = _is_removed(self.removed(), vote.voter, vote.session, vote.ticket)
        return vote._replace(number=number, cast_at=cast_at, removed=out)

    def ticket(self, ticket: str) -> Ticket | None:
        """A ticket by its id."""
        row = self._last(db.tickets, db.tickets.c.ticket == ticket)
        return None if row is None else Ticket._make(row[:-1])

    def tickets(self, after: int = 0) -> list[Ticket]:
        """Tickets in the order in which they were handed out, those after a number."""
        return [Ticket._make(row[:-1]) for row in self._rows(db.tickets, after)]

    def history(self) -> list[tuple[Ticket, StoredVote | None]]:
        """All tickets, each with its vote where there is one."""
        tickets = self.tickets()
        votes = {vote.ticket.ticket: vote for vote in self._votes(0, tickets)}
        return [(ticket, votes.get(ticket.ticket)) for ticket in tickets]

    def vote_on(self, ticket: str) -> StoredVote | None:
        """The vote on a ticket, None where there is none."""
        return self._last_vote(db.votes.c.ticket == ticket)

    def vote_of(self, voter: str, root: str) -> StoredVote | None:
        """The first vote of a voter on a ticket of a ballot, or on a copy of it."""
        copies = select(db.tickets.c.ticket).where(db.tickets.c.copy_of == root)
        mine = (db.votes.c.ticket == root) | db.votes.c.ticket.in_(copies)
        first = select(func.min(db.votes.c.number)).where(db.votes.c.voter == voter, mine)
        return self._last_vote(db.votes.c.number == first.scalar_subquery())

    def last_vote(self, session: str) -> StoredVote | None:
        """The latest vote of a session, None where there is none."""
        return self._last_vote(db.votes.c.session == session)

    def _last_vote(self, wanted: sa.ColumnElement[bool]) -> StoredVote | None:
        row = self._last(db.votes, wanted)
        known = None if row is None else self.ticket(row.ticket)
        return None if row is None or known is None else _vote(row, known, self.removed())

    def votes(self, after: int = 0) -> list[StoredVote]:
        """The votes in their order, those after a number."""
        return self._votes(after, [] if after else self.tickets())

    def _votes(self, after: int, tickets: Iterable[Ticket]) -> list[StoredVote]:
        """The votes after a number, with their tickets of those given, or of the store."""
        known, removed = {ticket.ticket: ticket for ticket in tickets}, self.removed()
        return [
            _vote(row, ticket, removed)
            for row in self._rows(db.votes, after)
            if (ticket := known.get(row.ticket) or self.ticket(row.ticket)) is not None
        ]

    def count_by(self, voter: str) -> int:
        """How many votes a voter has cast, without skips and what the voter took back."""
        return int(self._connection.execute(_VOTES_BY, {"voter": voter}).scalar_one())

    def issued_to(self, voter: str, since: int) -> tuple[int, int]:
        """How many tickets a voter got since a time, and when the first of them."""
        given = {"voter": voter, "since": since}
        n, first = self._connection.execute(_ISSUED_TO, given).one()
        return int(n), int(first or 0)

    def voters(self) -> list[Voter]:
        """Everybody who was shown a matchup or voted, first come first."""
        tickets = self.tickets()
        votes, removed = self._votes(0, tickets), self.removed()
        seen = [(t.voter, t.issued_at) for t in tickets if t.voter and t.copy_of is None]
        first: dict[str, int] = {}
        for voter, at in [*seen, *((vote.voter, vote.cast_at) for vote in votes)]:
            first[voter] = min(at, first.get(voter, at))
        votes = [vote for vote in votes if ("vote", vote.ticket.ticket) not in removed]
        cast = Counter(vote.voter for vote in votes)
        skips = Counter(vote.voter for vote in votes if vote.choice is Choice.SKIP)
        return [
            Voter(voter, at, cast[voter] - skips[voter], skips[voter], ("voter", voter) in removed)
            for voter, at in sorted(first.items(), key=lambda each: (each[1], each[0]))
        ]

    def removals(self) -> list[Removal]:
        """The log of removals, oldest first."""
        lines = [Removal._make(row[:-1]) for row in self._rows(db.removals)]
        return [line._replace(undone=bool(line.undone)) for line in lines]

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
            about = {"kind": kind, "target": target, "undone": int(undone), "why": why, "by": by}
            self._insert(db.removals, about | {"at": now()})
        return len(changed)

    def _check_known(self, kind: RemovalKind, targets: Iterable[str]) -> None:
        votes, tickets = db.votes.c, db.tickets.c
        columns: dict[str, tuple[sa.Column[Any], ...]] = {
            "voter": (votes.voter, tickets.voter),
            "session": (votes.session,),
            "vote": (votes.ticket,),
        }
        for target in targets:
            queries = [select(column).where(column == target).limit(1) for column in columns[kind]]
            if not any(self._connection.execute(query).first() for query in queries):
                raise DataError(f"the store knows no {kind} {target[:60]!r}")

    def _arena(self) -> ArenaRow:
        if self.arena is None:
            raise DataError("the store holds no arena yet; open one on it first")
        return self.arena

    def _insert(self, table: Table, values: Mapping[str, Any]) -> int:
        """Add a row under the next number, with its checksum."""
        name, arena = table.name, self._arena()
        number = int(getattr(arena, name)) + 1
        own = {c.name: values.get(c.name) for c in table.c if c.name != "checksum"}
        own["number"] = number
        head = vote_chain.checksum(getattr(arena, f"{name}_head"), own.values())
        self._connection.execute(insert(table), own | {"checksum": head})
        counts: dict[str, Any] = {name: number, f"{name}_head": head}
        self._connection.execute(sa.update(db.arena).values(counts))
        self.arena = arena._replace(**counts)
        return number

    def _rows(self, table: Table, after: int = 0, upto: int | None = None) -> Sequence[Row[Any]]:
        """The rows of a table after a number, in their order and as they were written."""
        if self.arena is None:
            return []
        number, name, most = table.c.number, table.name, upto and upto - after + 1
        wanted = select(table).where(number >= after).order_by(number).limit(most)
        rows = self._connection.execute(wanted).all()
        begin = rows[0][-1] if after and rows else vote_chain.beginning((1, *self.arena))
        rows = rows[1:] if after else rows
        last = None if upto else (getattr(self.arena, name), getattr(self.arena, f"{name}_head"))
        if broken := vote_chain.breaks(name, rows, (after, begin), last):
            raise self._damaged(broken)
        return rows

    def _damaged(self, what: Sequence[str]) -> vote_chain.DamagedError:
        return vote_chain.damaged(db.shown(self._connection.engine.url), what)

    def _last(self, table: Table, wanted: sa.ColumnElement[bool]) -> Row[Any] | None:
        """The last row that is wanted, None where there is none."""
        newest = select(table.c.number).where(wanted).order_by(table.c.number.desc()).limit(1)
        number = self._connection.scalar(newest)
        return None if number is None else self._rows(table, number - 1, number)[0]


def _vote(row: Sequence[Any], ticket: Ticket, removed: RemovedSet) -> StoredVote:
    number, _, voter, session, choice, cast_at, seconds, source, *flags, comment, _ = row
    revealed, known = map(bool, flags)
    kept = (voter, session, _CHOICES[choice], cast_at, seconds, source, revealed, known, comment)
    return StoredVote(number, ticket, *kept, _is_removed(removed, voter, session, ticket))


def _is_removed(removed: RemovedSet, voter: str, session: str, ticket: Ticket) -> bool:
    keys = {("voter", voter), ("session", session), ("vote", ticket.ticket)} if removed else ()
    return not removed.isdisjoint(keys)


def _named(name: str, dimension: str | None) -> str:
    return repr(name) + (f" on {dimension!r}" if dimension else "")
