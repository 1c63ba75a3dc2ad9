"""The fault script: what goes wrong, where, and how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from tests.emulator.errors import ApiError

SITES = tuple(
    "create retrieve list results cancel delete messages count_tokens models chat item".split()
)
#: Faults that answer with an error and leave the service as it was.
REFUSALS = ("status", "spend_cap", "usage_limit", "credit", "not_found", "redirect")
#: Faults of the connection; all but drop_before happen after the request took effect. With
#: "page" and "json_page" something in between answers with a 200 of its own.
CONNECTION = (
    "drop", "drop_before", "hang", "status_after", "redirect_after", "page", "json_page"
)  # fmt: skip
#: Faults that make sense at one site only.
SPECIAL = {
    "list": ("list_lag",),
    "results": ("truncate", "half_line", "short"),
    "retrieve": ("foreign_results_url",),
    "messages": ("odd_usage",),
    "chat": ("odd_usage",),
    "item": tuple(
        "errored expired canceled unknown_type message_null odd_usage credit_errored "
        "overloaded_errored".split()
    ),
}
CREDIT = (
    "Your credit balance is too low to access the Anthropic API. "
    "Please go to Plans & Billing to upgrade or purchase credits."
)


@dataclass(slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong `times` times (None: always) at a site, after `after` good calls.

    Options by kind: `status`, `message` and `retry_after` for "status" and
    "status_after"; `seconds` (real) for "hang"; `share` for "truncate", "half_line" and
    "short" (of the lines delivered); `url` (an origin) for "foreign_results_url"; `url` (an
    address, or an origin that has the same paths) and `status` for "redirect" and
    "redirect_after"; `usage` (any text, JSON or not; none for a usage that is missing) for
    "odd_usage"; `count` for "list_lag" (the newest so many are missing; else those created
    after the fault was added). Faults of items take `share` or `count` of a batch's requests;
    `times` and `after` count batches as they end, so `after=1` lets a pre-warm pass.
    """

    on: str
    kind: str
    times: int | None = 1
    after: int = 0
    status: int = 500
    retry_after: float | None = None
    seconds: float = 30.0
    share: float | None = None
    count: int | None = None
    url: str = "http://127.0.0.1:9"
    usage: str = ""
    message: str = "The fault script says so."
    seen: int = field(default=0, repr=False)  # batches that existed when it was added

    def __post_init__(self) -> None:
        if self.on not in SITES:
            raise ValueError(f"unknown site {self.on!r}; known: {', '.join(SITES)}")
        kinds = SPECIAL.get(self.on, ())
        if self.on != "item":
            kinds = (*REFUSALS, *CONNECTION, *kinds)
        if self.kind not in kinds:
            raise ValueError(f"unknown fault {self.kind!r} on {self.on}; known: {', '.join(kinds)}")

    def error(self, path: str) -> ApiError:
        """What a refusing fault, or one that comes afterwards, answers to a request for `path`."""
        match self.kind:
            case "spend_cap":  # no retry-after, yet the SDK retries it [RUN]
                return ApiError(
                    429,
                    "This request would exceed your organization's spend limit.",
                    error_code="enforced_spend_limit_reached",
                )
            case "usage_limit":  # [DOC-A]
                return ApiError(
                    400,
                    "You have reached your specified API usage limits. "
                    "You will regain access on 2026-12-01 at 00:00 UTC.",
                )
            case "credit":  # [3P]
                return ApiError(400, CREDIT)
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
    others = {name: value for name, value in message.items() if name != "usage"}
    text = encode(others)
    return f'{text[:-1]},"usage":{usage}}}' if usage else text


class Faults:
    """The faults still to come; each call at a site takes the first that is due."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = Lock()
        self.batches = 0  # kept current by whoever creates batches

    def add(self, *faults: Fault) -> None:
        with self._lock:
            for fault in faults:
                fault.seen = self.batches
                self._faults.append(fault)

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()

    def take(self, site: str) -> Fault | None:
        """The fault of this call, if any; faults that still wait count the call."""
        with self._lock:
            return _used(self._ready(site)[:1])

    def take_all(self, site: str) -> list[Fault]:
        """Every fault that is due, for sites where several can happen at once."""
        with self._lock:
            ready = self._ready(site)
            _used(ready)
            return ready

    def _ready(self, site: str) -> list[Fault]:
        due = [f for f in self._faults if f.on == site and f.times != 0]
        ready = [f for f in due if f.after == 0]
        for fault in due:
            fault.after = max(0, fault.after - 1)
        return ready


def _used(faults: list[Fault]) -> Fault | None:
    """Count these faults as having happened; the first is returned."""
    for fault in faults:
        if fault.times is not None:
            fault.times -= 1
    return faults[0] if faults else None
