"""How many matchups a voter may ask for, and how long one waits for its vote."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from arena_kit.voting.refusals import TooFastError
from arena_kit.voting.store import Transaction

#: A second in the unit of the store's times.
SECOND = 1_000_000


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

    def check(self, turn: Transaction, voter: str, moment: int) -> None:
        """Refuse a voter who has had enough matchups for now."""
        for seconds, most, span in (
            (60, self.per_minute, "a minute"),
            (86_400, self.per_day, "a day"),
        ):
            n, first = turn.issued_to(voter, moment - seconds * SECOND)
            if n >= most:
                wait = seconds - (moment - first) / SECOND
                raise TooFastError(
                    f"a voter is shown at most {most} matchups in {span}; "
                    f"the next one in {ceil(wait)} s",
                    retry_after=wait,
                )
