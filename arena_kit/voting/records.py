"""What is kept of a vote, what a voter is told, and why one is refused.

Times are microseconds since 1970 (UTC).
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, StringConstraints

from arena_kit.battles.battle import Outcome
from arena_kit.files import ArenaError
from arena_kit.runs.settings.files import Strict

#: An id or a hash as a page holds it and gives it back.
Opaque = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,128}$")]
#: The name or code that a voter chooses, and what a voter writes beside a vote: one line each.
VoterName = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{0,60}$")]
Comment = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{0,500}$")]
#: Where a vote was cast: the live page, a ballot file, or a notebook.
VoteSource = Literal["page", "ballot", "lab"]
#: Why a vote of a ballot is kept and not counted.
LeftOut = Literal["", "repeat", "conflict"]
#: What can be removed: all votes of a voter, all of a session, or a single one by its ticket.
RemovalKind = Literal["voter", "session", "vote"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Choice(StrEnum):
    """What a voter says of two responses; A is the left one. A skip is kept and is no battle."""

    A = "A"
    B = "B"
    TIE = "TIE"
    BOTH_BAD = "BOTH_BAD"
    SKIP = "SKIP"

    @property
    def outcome(self) -> Outcome | None:
        """What the battle ends in, None where there is none."""
        return _OUTCOMES.get(self)


_OUTCOMES = {
    Choice.A: Outcome.MODEL_A,
    Choice.B: Outcome.MODEL_B,
    Choice.TIE: Outcome.TIE,
    Choice.BOTH_BAD: Outcome.BOTH_BAD,
}


def read_choice(label: object) -> Choice:
    """The choice that a label stands for."""
    try:
        return Choice(str(label))
    except ValueError:
        allowed = f"allowed: {', '.join(Choice)}"
        message = f"unknown choice {str(label)[:40]!r}; {allowed}"
        raise RefusalError(422, "bad_input", message) from None


def moment(microseconds: int) -> datetime:
    """A time of the store as people read it."""
    return _EPOCH + timedelta(microseconds=microseconds)


def counted(n: int, what: str) -> str:
    """A number of things: `1 vote`, `2 votes`."""
    return f"1 {what}" if n == 1 else f"{n:,} {what}s"


class Ticket(NamedTuple):
    """A matchup as it was handed out. `model_a` stands left, `model_b` right; `digest` is of the
    prompt and both responses as they were shown. `copy_of` names the ticket of a ballot that
    several voters got the same of, or that is asked on several dimensions.
    """

    number: int
    ticket: str
    copy_of: str | None
    session: str
    voter: str | None
    model_a: str
    model_b: str
    prompt: str
    dimension: str | None
    lane: str
    reason: str
    digest: str
    issued_at: int
    expires_at: int | None


class StoredVote(NamedTuple):
    """A vote with the ticket that it was cast on; `number` is its place in the order of votes.

    `seconds` is how long the voter looked. `revealed` says whether the voter was then told which
    models wrote the two responses, `known` whether that was told of one of them before the vote.
    `comment` is what the voter wrote beside it. `removed` says whether it is left out of battles.
    """

    number: int
    ticket: Ticket
    voter: str
    session: str
    choice: Choice
    cast_at: int
    seconds: float | None
    source: VoteSource
    revealed: bool = False
    known: bool = False
    comment: str = ""
    removed: bool = False


class Voter(NamedTuple):
    """Somebody who was shown a matchup or voted: how often, single votes that were removed left
    out, and whether all of it is removed.
    """

    voter: str
    first_seen: int
    votes: int
    skips: int
    removed: bool


class Removal(NamedTuple):
    """A line of the log of removals; `undone` takes an earlier one back. Nothing is deleted."""

    number: int
    kind: RemovalKind
    target: str
    undone: bool
    why: str
    by: str
    at: int

    @property
    def cells(self) -> tuple[str, ...]:
        """As a table shows it: when, what, whose, the change, by whom and why."""
        when = f"{moment(self.at):%Y-%m-%d %H:%M}"
        change = "restored" if self.undone else "removed"
        return when, self.kind, self.target, change, self.by, self.why


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a voter may see before the vote: no model, no rating, and no id made from one.

    `reference` is what the judge is shown beside the prompt, '' for nothing; `dimensions` are those
    that the voter is asked about.
    `count` is how many votes the voter has cast so far; `digest` is of the texts, and comes back
    with the vote.
    """

    ticket: str
    prompt: str
    left: str
    right: str
    reference: str
    digest: str
    dimensions: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a voter is told once the vote is durable: who stood where (None unless the arena reveals
    names, and after a skip), and how many votes the voter has cast. `left_out` says of a vote on a
    ballot that it is not counted: the voter had just seen the pair on the prompt elsewhere
    (`repeat`), or another vote on it came before under the same name (`conflict`).
    """

    ticket: str
    choice: Choice
    left: str | None
    right: str | None
    count: int
    cast_at: int
    left_out: LeftOut = ""


class BallotVote(Strict):
    """One answer of a ballot that came back; it names the dimension where the ballot asks about
    several.
    """

    ticket: Opaque
    digest: Opaque
    choice: Choice
    seconds: float = Field(ge=0, le=1e6)
    comment: Comment = ""
    dimension: Comment = ""


class RefusalError(ArenaError, ValueError):
    """What somebody asked for and does not get: `status` is that of HTTP, `code` names the reason
    for programs, and after `retry_after` seconds (if not 0) one may ask again.
    """

    def __init__(self, status: int, code: str, message: str, retry_after: float = 0) -> None:
        super().__init__(message)
        self.status, self.code, self.retry_after = status, code, retry_after
