"""What a test may set about the service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta

from tests.emulator.behaviours import BEHAVIOURS, Reply

DAY = timedelta(days=1)


class Clock:
    """Virtual time: it starts at the real time and can be advanced."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def now(self) -> datetime:
        """The present moment in virtual time."""
        return datetime.now(UTC) + self._ahead

    def advance(self, seconds: float = 0.0, *, hours: float = 0.0, days: float = 0.0) -> None:
        """Let this much virtual time pass at once."""
        self._ahead += timedelta(days=days, hours=hours, seconds=seconds)


def rfc3339(moment: datetime | None) -> str | None:
    """A moment as the API writes it [SRC: fields typed as RFC 3339 datetimes]."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


Behaviour = str | Callable[[Mapping[str, object]], "Reply | str"]

#: What the "mixed" behaviour does beside reading; the rest of the share is "reader".
MIXTURE = {
    "refuse_empty": 0.02,
    "refuse_text": 0.01,
    "thinking_only": 0.02,
    "lowercase": 0.02,
    "prose": 0.02,
    "garbage": 0.01,
    "tie": 0.05,
}


@dataclass(slots=True, kw_only=True)
class Settings:
    """Knobs of the emulated service; every one may change while it runs.

    Times are virtual seconds except `latency`. `expire_share` of every batch expires when
    it ends, `cancel_share` of a cancelled batch is cancelled and the rest succeeds,
    `miss_rate` is how often a batch misses a prefix that was warm before it began, and
    `cold_hit_rate` how often it hits a prefix that it wrote itself. `key` is the only
    credential accepted; any is when it is None.
    """

    seed: int = 0
    batch_seconds: float = 0.0
    miss_rate: float = 0.1
    cold_hit_rate: float = 0.5
    expire_share: float = 0.0
    cancel_share: float = 0.5
    behaviour: Behaviour = "reader"
    shares: dict[str, float] = field(default_factory=lambda: dict(MIXTURE))
    thinking_share: float = 0.7
    latency: float = 0.0
    chat_schema: bool = True
    max_batch_bytes: int = 256_000_000
    max_batch_requests: int = 100_000
    key: str | None = None

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Refuse behaviours that do not exist."""
        names = [self.behaviour] if isinstance(self.behaviour, str) else []
        known = {*BEHAVIOURS, "mixed"}
        if unknown := [name for name in [*names, *self.shares] if name not in known]:
            raise ValueError(f"unknown behaviour {unknown[0]!r}; known: {', '.join(sorted(known))}")

    def update(self, changes: Mapping[str, object]) -> None:
        """Change settings by name."""
        names = [f.name for f in fields(self)]
        if unknown := [name for name in changes if name not in names]:
            raise ValueError(f"unknown setting {unknown[0]!r}; known: {', '.join(names)}")
        for name, value in changes.items():
            setattr(self, name, value)
        self.check()
