"""The life of a batch: created, processed while nobody sees it, ended, archived."""

import json
import re
import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from random import Random
from typing import Any, cast

from tests.emulator.billing import BillingRow, Counts, Ledger, Prefix, PromptCache, Usage
from tests.emulator.messages import Desk, Prepared, digest_of, message_object
from tests.emulator.rules import ApiError, invalid
from tests.emulator.settings import CREDIT, Clock, Fault, Faults, Settings, with_usage

#: What can become of a request. [SRC]
FATES = ("succeeded", "errored", "canceled", "expired")
#: A batch may take this long, and its results are kept, counted from the creation. [DOC-A]
DAY, ARCHIVE = timedelta(days=1), timedelta(days=29)
#: Shares of which nothing is known: of a cancelled batch what is cancelled, and how often a batch
#: hits a prefix that it wrote itself. [INF]
CANCELED, COLD_HITS = 0.5, 0.5
#: The errors of requests that the fault script lets fail.
ERRORS = {
    "errored": ApiError(500, "Internal server error"),
    "credit_errored": ApiError(400, CREDIT),  # invalid_request_error, yet not permanent [3P]
    "overloaded_errored": ApiError(529, "Overloaded"),
}
#: What a custom_id may be. [DOC-A]
CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
#: Items that were processed, and so are billed, whatever their line looks like.
_PROCESSED = ("succeeded", "unknown_type", "message_null", "odd_usage")
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(slots=True)
class Item:
    """One request of a batch: its answer, or the error found in its params."""

    custom_id: str
    digest: str
    work: Prepared | ApiError
    fate: str = "succeeded"
    usage: Usage | None = None
    odd_usage: str = ""


@dataclass(slots=True, kw_only=True)
class Batch:
    """One batch; `counts` is empty until it ends [SRC: frozen until then]."""

    id: str
    serial: int
    items: list[Item]
    created_at: datetime
    due: datetime
    ended_at: datetime | None = None
    cancel_initiated_at: datetime | None = None
    counts: Counter[str] = field(default_factory=Counter)
    reads: int = 0

    @property
    def expires_at(self) -> datetime:
        return self.created_at + DAY

    @property
    def status(self) -> str:
        if self.ended_at is not None:
            return "ended"
        return "in_progress" if self.cancel_initiated_at is None else "canceling"

    def archived_at(self, now: datetime) -> datetime | None:
        """When its results went away: 29 days after creation [DOC-A]."""
        moment = self.created_at + ARCHIVE
        return moment if self.ended_at is not None and now >= moment else None


def _rfc3339(moment: datetime | None) -> str | None:
    """A moment as the API writes it [SRC: fields typed as RFC 3339 datetimes]."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def result_line(batch: Batch, item: Item) -> bytes:
    """One JSONL line of the results [SRC: types/messages/message_batch_result.py]."""
    result = _result(batch, item)
    line = _JSON({"custom_id": item.custom_id, "result": result})
    if item.fate == "odd_usage":
        message = cast("dict[str, Any]", result["message"])
        line = line.replace(_JSON(message), with_usage(message, item.odd_usage, _JSON))
    return line.encode("utf-8", "replace") + b"\n"


def _result(batch: Batch, item: Item) -> dict[str, object]:
    name = sha256(f"{batch.id}:{item.custom_id}".encode()).hexdigest()[:22]
    work = item.work
    if isinstance(work, ApiError) or item.fate in ERRORS:
        error = work if isinstance(work, ApiError) else ERRORS[item.fate]
        return {"type": "errored", "error": error.body(f"req_{name}")}
    if item.fate in {"expired", "canceled"}:
        return {"type": item.fate}
    if item.fate == "message_null":
        return {"type": "succeeded", "message": None}
    usage = item.usage or work.usage(Counts(), "batch")
    message = message_object(f"msg_01{name}", work.model, work.output, usage)
    kind = "postponed" if item.fate == "unknown_type" else "succeeded"
    return {"type": kind, "message": message}


class Batches:
    def __init__(
        self, settings: Settings, clock: Clock, desk: Desk, ledger: Ledger, faults: Faults
    ) -> None:
        self._settings, self._clock, self._faults = settings, clock, faults
        self._desk, self._ledger, self._cache = desk, ledger, PromptCache()
        self.by_id: dict[str, Batch] = {}
        self._open: list[Batch] = []
        self._serial = 0

    def create(self, body: Any) -> Batch:
        """Accept a batch: ids are checked now, params only while it is processed [DOC-A]."""
        requests = _checked(body, self._settings.max_batch_requests)
        self.settle()
        now = self._clock.now()
        self._serial += 1
        batch = Batch(
            id=f"msgbatch_01{secrets.token_hex(11)}", serial=self._serial,
            items=self._items(requests), created_at=now,
            due=now + timedelta(seconds=self._settings.batch_seconds),
        )  # fmt: skip
        for item in batch.items:
            self._ledger.accepted.append(_accepted(batch, item))
        self.by_id[batch.id] = batch
        self._open.append(batch)
        self._faults.batches = self._serial
        return batch

    def get(self, batch_id: str, *, settled: bool = True) -> Batch:
        if settled:
            self.settle()
        if batch_id not in self.by_id:
            raise ApiError(404, f"Message Batch {batch_id} not found.")
        return self.by_id[batch_id]

    def page(self, limit: int, after_id: str | None, lag: Fault | None) -> tuple[list[Batch], bool]:
        """Batches newest first, and whether more follow [SRC]."""
        self.settle()
        listed = [b for b in reversed(self.by_id.values()) if not _lags(b, lag, self._serial)]
        ids = [batch.id for batch in listed]
        if after_id is not None and after_id not in ids:
            raise invalid(f"cursor {after_id} is not a batch of this workspace")  # [INF]
        older = listed if after_id is None else listed[ids.index(after_id) + 1 :]
        return older[:limit], len(older) > limit

    def cancel(self, batch_id: str) -> Batch:
        """Start to cancel: `canceling` now, `ended` at the next look [DOC-A]."""
        batch = self.get(batch_id, settled=False)
        if batch.due > batch.created_at:  # one that ends at the first look is still running
            self.settle()
        if batch.ended_at is not None:
            raise invalid(f"Message Batch {batch_id} has already ended.")  # [INF]
        if batch.cancel_initiated_at is None:
            batch.cancel_initiated_at = batch.due = self._clock.now()
        return batch

    def lines(self, batch: Batch) -> Iterator[bytes]:
        """The result lines, made while they are read, in another order each time [DOC-A]."""
        if batch.ended_at is None:
            raise invalid(f"Message Batch {batch.id} has not ended.")  # [INF]
        if batch.archived_at(self._clock.now()):
            raise ApiError(404, f"Results of Message Batch {batch.id} are no longer available.")
        batch.reads += 1
        order = list(range(len(batch.items)))
        Random(f"{self._settings.seed}:{batch.serial}:{batch.reads}").shuffle(order)
        return (result_line(batch, batch.items[index]) for index in order)

    def describe(self, batch: Batch, origin: str) -> dict[str, object]:
        """The MessageBatch object; counts and results_url wait for the end [SRC]."""
        ended = batch.ended_at is not None
        counts = dict.fromkeys(("processing", *FATES), 0)
        counts |= batch.counts if ended else {"processing": len(batch.items)}
        archived = batch.archived_at(self._clock.now())
        url = f"{origin}/v1/messages/batches/{batch.id}/results"
        return {
            "id": batch.id, "type": "message_batch", "processing_status": batch.status,
            "request_counts": counts, "created_at": _rfc3339(batch.created_at),
            "expires_at": _rfc3339(batch.expires_at), "ended_at": _rfc3339(batch.ended_at),
            "cancel_initiated_at": _rfc3339(batch.cancel_initiated_at),
            "archived_at": _rfc3339(archived),
            "results_url": url if ended and archived is None else None,
        }  # fmt: skip

    def settle(self) -> None:
        now = self._clock.now()
        ready = [b for b in self._open if min(b.due, b.expires_at) <= now]
        for batch in sorted(ready, key=lambda b: min(b.due, b.expires_at)):
            self._end(batch)
            self._open.remove(batch)

    def _end(self, batch: Batch) -> None:
        batch.ended_at = min(batch.due, batch.expires_at)
        self._draw_fates(batch)
        luck = Random(f"{self._settings.seed}:{batch.serial}:cache").random
        for item in batch.items:
            if item.fate in _PROCESSED:
                self._process(batch, item, luck())
        kinds = dict.fromkeys(_PROCESSED, "succeeded") | dict.fromkeys(ERRORS, "errored")
        batch.counts = Counter(kinds.get(item.fate, item.fate) for item in batch.items)

    def _draw_fates(self, batch: Batch) -> None:
        """Who errs, expires or is cancelled: bad params for certain, the rest by seeded lot."""
        for item in batch.items:
            item.fate = "errored" if isinstance(item.work, ApiError) else item.fate
        lots = [item for item in batch.items if item.fate != "errored"]
        Random(f"{self._settings.seed}:{batch.serial}:fates").shuffle(lots)
        for fault in self._faults.taken("item", None):
            lots = _doom(lots, fault)
        if batch.cancel_initiated_at is not None:
            _give(lots, "canceled", CANCELED)
        elif batch.due > batch.expires_at:
            done = DAY / (batch.due - batch.created_at)
            _give(lots, "expired", 1 - done)
        else:
            _give(lots, "expired", self._settings.expire_share)

    def _process(self, batch: Batch, item: Item, luck: float) -> None:
        """Count the cache and bill one request. Hits in a batch are best effort [DOC-A]."""
        work, ended = cast("Prepared", item.work), batch.ended_at or batch.due

        def hit(prefix: Prefix) -> bool:
            if self._cache.warm(prefix, batch.created_at, other_than=batch.id):
                return luck >= self._settings.miss_rate
            return self._cache.warm(prefix, ended) and luck < COLD_HITS

        cached = self._cache.use(work.prefixes, ended, hit=hit, origin=batch.id)
        item.usage = work.usage(cached, "batch")
        self._ledger.bill(_accepted(batch, item), work.model, item.usage)

    def _items(self, requests: list[Any]) -> list[Item]:
        """What is kept of the requests; equal prefixes are kept once."""
        known: dict[Prefix, Prefix] = {}
        items = []
        for request in requests:
            work: Prepared | ApiError
            try:
                work = self._desk.prepare(request["params"])
                work = work._replace(prefixes=tuple(known.setdefault(p, p) for p in work.prefixes))
            except ApiError as error:
                work = error.with_traceback(None)
            items.append(Item(request["custom_id"], digest_of(request["params"]), work))
        return items


def _checked(body: Any, most: int) -> list[Any]:
    """The requests of a create call; shape and ids are checked at once [DOC-A]."""
    requests = body.get("requests") if isinstance(body, dict) else None
    if not isinstance(requests, list) or not requests:
        raise invalid("requests: List should have at least 1 item after validation, not 0")
    if len(requests) > most:
        raise invalid(f"requests: List should have at most {most} items, not {len(requests)}")
    ids = set()
    for index, request in enumerate(requests):
        if not isinstance(request, dict) or not isinstance(request.get("params"), dict):
            raise invalid(f"requests.{index}.params: Field required")
        custom_id = request.get("custom_id")
        if not isinstance(custom_id, str) or CUSTOM_ID.fullmatch(custom_id) is None:
            pattern = "String should match pattern '^[a-zA-Z0-9_-]{1,64}$'"
            raise invalid(f"requests.{index}.custom_id: {pattern}")
        if custom_id in ids:
            raise invalid(f"requests.{index}.custom_id: {custom_id} is not unique")
        ids.add(custom_id)
    return requests


def _accepted(batch: Batch, item: Item) -> BillingRow:
    return BillingRow("batch", batch.id, item.custom_id, item.digest)


def _lags(batch: Batch, lag: Fault | None, newest: int) -> bool:
    if lag is None or lag.kind != "list_lag":
        return False
    return batch.serial > (lag.seen if lag.count is None else newest - lag.count)


def _doom(lots: list[Item], fault: Fault) -> list[Item]:
    """Give a fault's items their fate; the others are returned."""
    share = 1.0 if fault.share is None else fault.share
    count = round(share * len(lots)) if fault.count is None else fault.count
    for item in lots[:count]:
        item.fate, item.odd_usage = fault.kind, fault.usage
    return [item for item in lots if item.fate == "succeeded"]


def _give(lots: list[Item], fate: str, share: float) -> None:
    """Give a share of the items a fate: at least one when the share is not zero."""
    if share > 0 and lots:
        for item in lots[: max(1, round(share * len(lots)))]:
            item.fate = fate
