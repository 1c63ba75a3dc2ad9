"""What a test may set about the service: its knobs, its clock, and what goes wrong, and where."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from tests.emulator.behaviours import BEHAVIOURS, Reply
from tests.emulator.rules import ApiError, invalid

#: What the "mixed" behaviour does beside reading; the rest of the share is "reader".
MIXTURE = {
    "refuse_empty": 0.02, "refuse_text": 0.01, "thinking_only": 0.02, "lowercase": 0.02,
    "prose": 0.02, "garbage": 0.01, "tie": 0.05,
}  # fmt: skip
#: Faults that answer with an error and leave the service as it was.
REFUSALS = ("status", "spend_cap", "usage_limit", "credit", "not_found", "redirect")
#: Faults of the connection; all but drop_before happen after the request took effect, which with
#: "late" it does only some seconds after it was sent. With "page" and "json_page" something in
#: between answers with a 200 of its own.
_CONNECTION = "drop drop_before hang late status_after redirect_after page json_page".split()
_SITES = "create retrieve list results cancel messages count_tokens models chat item".split()
#: Faults that make sense at one site only.
_SPECIAL = {
    "list": ["list_lag"],
    "results": ["truncate", "half_line", "short"],
    "retrieve": ["foreign_results_url"],
    "messages": ["odd_usage"],
    "chat": ["odd_usage"],
    "item": "errored expired canceled unknown_type message_null odd_usage credit_errored "
    "overloaded_errored".split(),
}
CREDIT = (
    "Your credit balance is too low to access the Anthropic API. "
    "Please go to Plans & Billing to upgrade or purchase credits."
)


class Clock:
    """Virtual time: it starts at the real time and can be advanced."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def advance(self, seconds: float = 0.0, *, hours: float = 0.0, days: float = 0.0) -> None:
        self._ahead += timedelta(days=days, hours=hours, seconds=seconds)


@dataclass(slots=True, kw_only=True)
class Settings:
    """Knobs of the emulated service, in virtual seconds; every one may change while it runs."""

    seed: int = 0
    batch_seconds: float = 0.0
    miss_rate: float = 0.1  # how often a batch misses a prefix that was warm before it began
    expire_share: float = 0.0  # of every batch
    behaviour: str | Callable[[Mapping[str, object]], Reply | str] = "reader"
    shares: dict[str, float] = field(default_factory=lambda: dict(MIXTURE))
    thinking_share: float = 0.7
    latency: float = 0.0  # real seconds
    chat_schema: bool = True
    max_batch_bytes: int = 256_000_000
    max_batch_requests: int = 100_000
    key: str | None = None  # None accepts any

    def __post_init__(self) -> None:
        self.update({})

    def update(self, changes: Mapping[str, object]) -> None:
        """Change settings by name; names and behaviours must exist."""
        if unknown := changes.keys() - {f.name for f in fields(self)}:
            raise ValueError(f"unknown setting {min(unknown)!r}")
        for name, value in changes.items():
            setattr(self, name, value)
        names = [self.behaviour] if isinstance(self.behaviour, str) else []
        if wrong := {*names, *self.shares} - {*BEHAVIOURS, "mixed"}:
            raise ValueError(f"unknown behaviour {min(wrong)!r}")


@dataclass(slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong `times` times at a site, after so many good calls."""

    on: str
    kind: str
    times: int | None = 1  # None: always; faults of items count batches as they end
    after: int = 0
    status: int = 500
    retry_after: float | None = None
    seconds: float = 30.0  # real ones, of a hang or of lateness
    share: float | None = None  # of the lines of results, or of a batch's requests
    count: int | None = None  # of a batch's requests, or of the newest batches that a list lacks
    url: str = "http://127.0.0.1:9"  # an origin, or the address to redirect to
    usage: str = ""  # any text; none for a usage that is missing
    message: str = "The fault script says so."
    seen: int = field(default=0, repr=False)  # batches that existed when it was added

    def __post_init__(self) -> None:
        kinds = _SPECIAL.get(self.on, [])
        if self.on != "item":
            kinds = [*REFUSALS, *_CONNECTION, *kinds]
        if self.on not in _SITES or self.kind not in kinds:
            raise ValueError(f"unknown fault {self.kind!r} on {self.on!r}; known: {kinds}")

    def error(self, path: str) -> ApiError:
        """What a refusing fault, or one that comes afterwards, answers to a request for `path`."""
        match self.kind:
            case "spend_cap":  # no retry-after, yet the SDK retries it [RUN]
                words = "This request would exceed your organization's spend limit."
                return ApiError(429, words, error_code="enforced_spend_limit_reached")
            case "usage_limit":  # [DOC-A]
                return invalid(
                    "You have reached your specified API usage limits. "
                    "You will regain access on 2026-12-01 at 00:00 UTC."
                )
            case "credit":  # [3P]
                return invalid(CREDIT)
            case "not_found":  # seconds after a create that succeeded [3P]
                return ApiError(404, "Not found")
            case "redirect" | "redirect_after":
                address = self.url if urlsplit(self.url).path else f"{self.url}{path}"
                return ApiError(self.status, "Elsewhere.", headers={"location": address})
            case _:
                wait = {} if self.retry_after is None else {"retry-after": f"{self.retry_after:g}"}
                return ApiError(self.status, self.message, headers=wait)


def with_usage(message: Mapping[str, Any], usage: str, encode: Callable[[Any], str]) -> str:
    """A message as JSON text that has this text, whatever it is, for its usage."""
    text = encode({name: value for name, value in message.items() if name != "usage"})
    return f'{text[:-1]},"usage":{usage}}}' if usage else text


class Faults:
    """The faults still to come; each call at a site takes the first that is due."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = Lock()
        self.batches = self.fired = 0  # batches are kept current by whoever creates them

    def add(self, *faults: Fault) -> None:
        with self._lock:
            for fault in faults:
                fault.seen = self.batches
                self._faults.append(fault)

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()

    def taken(self, site: str, most: int | None) -> list[Fault]:
        """Every fault that is due, or the first so many; those that still wait count the call."""
        with self._lock:
            due = [f for f in self._faults if f.on == site and f.times != 0]
            ready = [f for f in due if f.after == 0][:most]
            for fault in due:
                fault.after = max(0, fault.after - 1)
            for fault in ready:
                fault.times = None if fault.times is None else fault.times - 1
            self.fired += len(ready)
            return ready
