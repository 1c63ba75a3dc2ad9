"""A batch and its requests as they are kept, and the result lines made of them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, cast

from tests.emulator.billing import Usage
from tests.emulator.cache import Counts
from tests.emulator.clock import DAY
from tests.emulator.errors import ApiError
from tests.emulator.faults import CREDIT, with_usage
from tests.emulator.messages import Prepared, message_object

#: What can become of a request. [SRC]
FATES = ("succeeded", "errored", "canceled", "expired")
#: Results are kept this long, counted from the creation. [DOC-A]
ARCHIVE = timedelta(days=29)
#: The errors of requests that the fault script lets fail.
ERRORS = {
    "errored": ApiError(500, "Internal server error"),
    "credit_errored": ApiError(400, CREDIT),  # invalid_request_error, yet not permanent [3P]
    "overloaded_errored": ApiError(529, "Overloaded"),
}
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
    if isinstance(item.work, ApiError):
        return {"type": "errored", "error": item.work.body(f"req_{name}")}
    if item.fate in ERRORS:
        return {"type": "errored", "error": ERRORS[item.fate].body(f"req_{name}")}
    if item.fate in {"expired", "canceled"}:
        return {"type": item.fate}
    if item.fate == "message_null":
        return {"type": "succeeded", "message": None}
    return {
        "type": "postponed" if item.fate == "unknown_type" else "succeeded",
        "message": _message(f"msg_01{name}", item, item.work),
    }


def _message(message_id: str, item: Item, work: Prepared) -> dict[str, object]:
    usage = item.usage or work.usage(Counts(), "batch")
    return message_object(message_id, work.model, work.output, usage)
