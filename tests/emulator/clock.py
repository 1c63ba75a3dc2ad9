"""A clock that tests may push forward: a day passes in no time."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

DAY = timedelta(days=1)


class Clock:
    """Virtual time: it starts at the real time, runs `speed` times as fast, and can be advanced."""

    def __init__(self, speed: float = 1.0) -> None:
        self.restart(speed)

    def restart(self, speed: float) -> None:
        """Go back to the real time and run at `speed`."""
        self._speed = speed
        self._anchor = time.monotonic()
        self._base = datetime.now(UTC)

    @property
    def speed(self) -> float:
        return self._speed

    @speed.setter
    def speed(self, speed: float) -> None:
        self._base, self._anchor = self.now(), time.monotonic()
        self._speed = speed

    def now(self) -> datetime:
        """The present moment in virtual time."""
        return self._base + timedelta(seconds=(time.monotonic() - self._anchor) * self._speed)

    def advance(self, seconds: float = 0.0, *, hours: float = 0.0, days: float = 0.0) -> None:
        """Let this much virtual time pass at once."""
        self._base += timedelta(days=days, hours=hours, seconds=seconds)


def rfc3339(moment: datetime | None) -> str | None:
    """A moment as the API writes it [SRC: fields typed as RFC 3339 datetimes]."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")
