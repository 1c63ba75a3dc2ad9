"""ISO weeks, Monday to Sunday in UTC: which one a report is about, and which it compares with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, timedelta
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.log import BattleLog
from arena_kit.files import DataError

_WEEK = re.compile(r"(\d{4})-?W(\d{2})\Z")
_ALLOWED = "an ISO week like 2026-W38, or a date like 2026-09-16"


@dataclass(frozen=True, slots=True, order=True)
class Week:
    """A week by its Monday."""

    monday: date

    @classmethod
    def parse(cls, text: str) -> Self:
        """The week of a text: an ISO week, or a date within the week."""
        try:
            if written := _WEEK.match(text):
                return cls(date.fromisocalendar(int(written[1]), int(written[2]), 1))
            return cls.of(date.fromisoformat(text))
        except ValueError:
            raise DataError(f"{text!r} is not a week; allowed: {_ALLOWED}") from None

    @classmethod
    def of(cls, day: date) -> Self:
        """The week that a day lies in."""
        return cls(day - timedelta(days=day.weekday()))

    @property
    def label(self) -> str:
        """The week as ISO 8601 writes it."""
        year, number, _ = self.monday.isocalendar()
        return f"{year:04d}-W{number:02d}"

    @property
    def end(self) -> np.datetime64:
        """The midnight after its Sunday, which no longer belongs to it."""
        return np.datetime64(self.monday, "us") + np.timedelta64(7, "D")


class Chosen(NamedTuple):
    """The week of a report, whether it was over when the last vote came, and the week to
    compare with, None where there is no vote so early.
    """

    week: Week
    complete: bool
    compared: Week | None


def untimed(battles: BattleLog) -> int:
    """How many battles have no timestamp."""
    times = battles.timestamp
    return len(battles) if times is None else int(np.isnat(times).sum())


def chosen_weeks(times: NDArray[np.datetime64], week: str = "", compare: str = "") -> Chosen:
    """The weeks that a report is about; empty texts take the last complete week with votes,
    and the last week with votes before it.

    A week is complete when votes reach its Sunday. Where none is, the last one is taken.
    """
    first, last = _day(times.min()), _day(times.max())
    voted = [numbered(n) for n in np.unique(week_numbers(times)).tolist()]
    asked = Week.parse(week) if week else _last_complete(voted, last)
    if asked not in voted:
        raise DataError(f"week {asked.label} has no votes; votes are from {first} to {last}")
    before = [each for each in voted if each < asked]
    against = Week.parse(compare) if compare else before[-1] if before else None
    if against is not None and against >= asked:
        raise DataError(f"compare_week {against.label} must lie before the week {asked.label}")
    if compare and against not in voted:
        raise DataError(f"compare_week {compare} has no votes; the first are of {first}")
    return Chosen(asked, last >= asked.monday + timedelta(days=6), against)


def until(battles: BattleLog, week: Week) -> BattleLog:
    """The battles up to the end of a week; all need a timestamp."""
    if battles.timestamp is None:
        raise DataError("battles without timestamps have no weeks")
    return battles.select(battles.timestamp < week.end)


def week_numbers(times: NDArray[np.datetime64]) -> NDArray[np.int64]:
    """A number per moment that is equal within a week, and one more in the next."""
    days: NDArray[np.int64] = times.astype("datetime64[D]").astype(np.int64)
    return (days + 3) // 7  # day 0 was a Thursday


def numbered(number: int) -> Week:
    """The week of such a number."""
    return Week(date(1970, 1, 5) + timedelta(weeks=int(number) - 1))


def _last_complete(voted: list[Week], last: date) -> Week:
    """The last week with votes that was over when the last vote came, or the only one."""
    over = [each for each in voted if last >= each.monday + timedelta(days=6)]
    return over[-1] if over else voted[-1]


def _day(moment: np.datetime64) -> date:
    day: date = moment.astype("datetime64[D]").item()
    return day
