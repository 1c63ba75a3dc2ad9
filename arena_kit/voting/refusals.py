"""Why a matchup or a vote is refused: a class each, with a sentence and a code that stays."""

from __future__ import annotations

from typing import ClassVar


class RefusalError(ValueError):
    """What a voter asked for and does not get; `code` names the reason for programs."""

    code: ClassVar[str] = "refused"


class BadInputError(RefusalError):
    """A session, voter, choice or time that cannot be one."""

    code = "bad_input"


class UnknownTicketError(RefusalError):
    """A ticket that was never handed out."""

    code = "unknown_ticket"


class ForeignTicketError(RefusalError):
    """A ticket that was handed out to another session."""

    code = "foreign_ticket"


class ExpiredTicketError(RefusalError):
    """A ticket whose time is over, its matchup given to others."""

    code = "expired_ticket"


class ChangedContentError(RefusalError):
    """A vote on other texts than those that the ticket stands for."""

    code = "changed_content"


class AlreadyVotedError(RefusalError):
    """A second vote on a ticket, other than the first."""

    code = "already_voted"


class TooFastError(RefusalError):
    """More matchups than a voter may ask for in so short a time."""

    code = "too_fast"

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NothingLeftError(RefusalError):
    """No matchup that this voter may be shown now."""

    code = "nothing_left"
