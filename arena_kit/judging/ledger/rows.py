"""The ledger's records, the rows they are kept in, and the checksums of these."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

from pydantic_core import from_json, to_json

from arena_kit.files import whole_text
from arena_kit.judging.judges.base import Service
from arena_kit.judging.verdicts.records import Answer, Status

#: Characters of a cache key in a custom id, which may have 64 in all.
_KEY_IN_NAME = 40

Transport = Literal["batches", "live"]

#: All that a checksum covers, in the order of `answer_row`; the last eight make an answer.
KEPT_COLUMNS = (
    "key, judge_model, request_id, status, text, served_model, usage, cost_usd, detail, run"
)
#: Bytes of a checksum, and what it is made of.
_CHECKSUM = 16
_CHECKED = "\0".join(["%s"] * len(KEPT_COLUMNS.split()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """Requests that were about to be sent together, and the batch they became, if known.

    `newest_seen` is the newest batch that the service listed just before, empty for none.
    """

    intent: str
    transport: Transport
    state: str
    service: Service
    model: str
    purpose: str
    settings: str
    run: str
    n_requests: int
    planned_at: str
    newest_seen: str = ""
    batch_id: str | None = None
    created_at: str = ""
    expires_at: str = ""
    status: str = ""

    def name(self, key: str) -> str:
        """What a request is called inside this intent's batch (a custom id)."""
        return f"{self.intent}-{key_in_name(key)}"

    def owns(self, name: str) -> bool:
        """Whether a custom id was made by this intent."""
        return name.startswith(f"{self.intent}-")

    @property
    def words(self) -> str:
        """The intent in words: its batch, if it has one, and its size."""
        batch = f"batch {self.batch_id}" if self.batch_id else f"unconfirmed batch {self.intent}"
        return f"{batch} ({self.n_requests} requests)"


def key_in_name(key: str) -> str:
    """The part of a cache key that a custom id holds."""
    return key[:_KEY_IN_NAME]


class Awaited(NamedTuple):
    """A request that an intent still owes: its cache key, its row, and its id for people."""

    key: str
    request: int
    request_id: str


def answer_row(
    key: str, judge_model: str, answer: Answer, run: str, request_id: str = ""
) -> tuple[object, ...]:
    """An answer as a row of `answers`, its checksum last."""
    columns = (
        key, judge_model, request_id or answer.request_id, str(answer.status),
        whole_text(answer.text), answer.served_model, to_json(answer.usage).decode(),
        float(answer.cost_usd), answer.detail, run or answer.run,
    )  # fmt: skip
    return (*columns, checksum(columns))


def read_answer(
    request_id: str, status: str, text: str, served: str, usage: str, *row: Any
) -> Answer:
    """A row of `answers`, without its key and its judge, as an answer."""
    return Answer(request_id, Status(status), text, served, from_json(usage), *row)


def checksum(columns: Sequence[object]) -> str:
    """The checksum of an answer's columns, as they are kept and as they come back."""
    text = _CHECKED % tuple(columns)
    content = text.encode("utf-8", "surrogateescape")  # as `opened` decodes damaged text
    return blake2b(content, digest_size=_CHECKSUM).hexdigest()


def is_damaged(row: Sequence[object]) -> bool:
    """Whether an answer's columns, followed by its checksum, are not what was kept."""
    return checksum(row[:-1]) != row[-1]


def sealed(secret: bytes) -> bytes:
    """A secret followed by its checksum."""
    return secret + blake2b(secret, digest_size=_CHECKSUM).digest()


def unsealed(value: object) -> bytes | None:
    """The secret in front of its checksum; None when either is damaged."""
    if not isinstance(value, bytes):
        return None
    secret = value[:-_CHECKSUM]
    return secret if sealed(secret) == value else None
