"""Claude as a judge or as an entrant: in batches, or live.

The SDK repeats calls on its own, `batches.create` too, and sends no idempotency header:
every call here is made with `max_retries=0`, and repeated only by those who know whether
that is safe.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import anthropic
import httpx2
from anthropic.pagination import SyncPage
from anthropic.types.messages import MessageBatch
from pydantic_core import to_json

from arena_kit.files import DataError, whole_text
from arena_kit.judging.judges.anthropic_wire import (
    is_message,
    message_params,
    read_message,
    read_result,
    translated,
)
from arena_kit.judging.judges.base import (
    Batch,
    BusyError,
    CutError,
    NoAnswerError,
    Price,
    Result,
    Service,
    ServiceError,
    UnknownBatchError,
    first_of_each,
    shortened,
    tls_context,
)
from arena_kit.judging.verdicts.records import Asked, garbage_collection_disabled

OFFICIAL = "https://api.anthropic.com"
_MOST_REQUESTS = 100_000
_MOST_BYTES = 250_000_000  # the service takes 256 MB; the rest is for the frame
_LONGEST_LIVE = 21_333  # the SDK wants a stream above it
#: Statuses after which a batch may exist, or a message may have been billed.
_UNSURE_CREATE = (408, 409, 499, *range(500, 600))
_UNSURE_MESSAGE = (408, 504)
_COUNTS = ("processing", "succeeded", "errored", "canceled", "expired")


def client_of(api_key: str, base_url: str | None) -> anthropic.Anthropic:
    """The SDK's client, which follows no redirect: the prompts would go with it."""
    transport = anthropic.DefaultHttpxClient(follow_redirects=False, verify=tls_context())
    return anthropic.Anthropic(api_key=api_key, base_url=base_url, http_client=transport)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claude:
    """A Claude model with the settings that shape its answers.

    Parameters
    ----------
    client
        What speaks to the service; `client_of` makes one.
    effort
        How hard the model thinks (`low` to `max`), which is most of the cost; empty
        leaves it to the model.
    max_tokens
        Longest answer, thinking included; a longer one ends as `truncated`.
    verdict
        Whether answers are held to the schema of a verdict, a `graded` one where that is set.
    lacks
        The variable that should hold the key and does not; such a judge cannot be asked.
    """

    client: anthropic.Anthropic = field(repr=False)
    model: str
    price: Price
    max_tokens: int
    effort: str
    verdict: bool = True
    graded: bool = False
    lacks: str = ""

    @property
    def settings(self) -> Mapping[str, object]:
        settings: dict[str, object] = {
            "judge": "anthropic",
            "effort": self.effort,
            "max_tokens": self.max_tokens,
            "cache_ttl": "1h",
            "structured": self.verdict,
        }
        if self.graded:
            settings["graded"] = True
        origin = self.service.origin
        return settings if origin == OFFICIAL else {**settings, "origin": origin}

    @property
    def service(self) -> Service:
        return Service.of(str(self.client.base_url), self.client.api_key)

    def ready(self) -> None:
        """Raise when there is no key."""
        if self.lacks:
            raise DataError(f"no key: set {self.lacks} in the environment or in .env")

    def check(self, requests: Sequence[Asked]) -> list[str]:
        """Raise when the model is retired or cannot do this, or when the service refuses the
        shape of a request; returns warnings.
        """
        self.ready()
        with self._translated(what=f"looking up {self.model}"):
            try:
                info = self._once.models.retrieve(self.model)
            except anthropic.NotFoundError:
                raise ServiceError(f"the service does not know the model {self.model!r}") from None
            if not isinstance(info, anthropic.types.ModelInfo) or not isinstance(info.id, str):
                raise NoAnswerError(f"looking up {self.model}", str(info))
        if info.lifecycle == "retired":
            raise ServiceError(f"the model {self.model} was retired; choose another judge_model")
        if info.max_tokens is not None and self.max_tokens > info.max_tokens:
            raise ServiceError(
                f"max_tokens {self.max_tokens} is more than {self.model} allows: {info.max_tokens}"
            )
        able = info.capabilities
        if self.verdict and able and not able.structured_outputs.supported:
            raise ServiceError(f"{self.model} cannot be held to a JSON schema")
        for request in first_of_each(requests):
            self.count_tokens(request)
        if info.lifecycle == "deprecated":
            ends = f", ends {info.retires_at:%Y-%m-%d}" if info.retires_at else ""
            return [f"the model {self.model} is deprecated{ends}"]
        return []

    def count_tokens(self, request: Asked) -> int | None:
        """Input tokens of a request, counted by the service for free; None without a key."""
        if self.lacks:
            return None
        params = self._params(request.system, request.user)
        del params["max_tokens"]
        with self._translated(what="counting tokens"):
            count = self._once.messages.count_tokens(**params)
            if not isinstance(count, anthropic.types.MessageTokensCount):
                raise NoAnswerError("counting tokens", str(count))
            return count.input_tokens

    def _params(self, system: str, user: str) -> dict[str, Any]:
        return message_params(
            system,
            user,
            model=self.model,
            max_tokens=self.max_tokens,
            effort=self.effort,
            verdict=self.verdict,
            graded=self.graded,
        )

    def _translated(
        self, *, what: str, unsure: tuple[int, ...] | None = None
    ) -> AbstractContextManager[None]:
        return translated(what=what, unsure=unsure, secret=str(self.client.api_key))

    @property
    def _once(self) -> anthropic.Anthropic:
        """The client with the SDK's own retries off."""
        return self.client.with_options(max_retries=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicBatches(Claude):
    """Claude over Message Batches: half the price, an answer within a day."""

    def split(self, entries: Mapping[str, Asked]) -> Iterator[dict[str, Asked]]:
        shard: dict[str, Asked] = {}
        size = 0
        frame = len(json.dumps({"params": self._params(" ", "")})) + 100
        for key, request in entries.items():
            n_bytes = frame + _system_size(request.system) + _json_size(request.user)
            if n_bytes > _MOST_BYTES:
                raise ServiceError(f"{request.request_id}: {n_bytes} bytes are too many")
            if len(shard) >= _MOST_REQUESTS or size + n_bytes > _MOST_BYTES:
                yield shard
                shard, size = {}, 0
            shard[key] = request
            size += n_bytes
        if shard:
            yield shard

    def submit(self, entries: Mapping[str, Asked]) -> Batch:
        with garbage_collection_disabled():
            requests: Any = [
                {"custom_id": name, "params": self._params(request.system, request.user)}
                for name, request in entries.items()
            ]
        with self._translated(what="creating a batch", unsure=_UNSURE_CREATE):
            return _batch(self._once.messages.batches.create(requests=requests))

    def poll(self, batch_id: str) -> Batch:
        with self._translated(what=f"looking at batch {batch_id}"):
            return _batch(self._once.messages.batches.retrieve(batch_id, timeout=60))

    def recent(self) -> Iterator[Batch]:
        try:
            with self._translated(what="listing batches"):
                for page in self._pages():
                    if not isinstance(getattr(page, "data", None), list):
                        raise NoAnswerError("listing batches", str(page))
                    yield from map(_batch, page.data)
        except UnknownBatchError as error:  # a list is never unknown for long
            raise BusyError(str(error)) from None

    def _pages(self) -> Iterator[SyncPage[MessageBatch]]:
        """The account's list, page by page; one that is no page must not pass for an empty one."""
        try:
            yield from self._once.messages.batches.list(limit=100, timeout=60).iter_pages()
        except AttributeError as error:  # the SDK got something else than an object
            raise NoAnswerError("listing batches", str(error)) from None

    def cancel(self, batch_id: str) -> Batch:
        with self._translated(what=f"cancelling batch {batch_id}"):
            return _batch(self._once.messages.batches.cancel(batch_id))

    def collect(self, batch: Batch) -> Iterator[Result]:
        """Results line by line, from the address that the batch names, if it is the service's:
        the key goes with the request.
        """
        if not batch.results_url:
            raise ServiceError(f"batch {batch.batch_id} has no results (they are kept 29 days)")
        if _origin(batch.results_url) not in ("", _origin(self.service.origin)):
            raise ServiceError(
                f"batch {batch.batch_id} names results at {_origin(batch.results_url)}, not at "
                f"{self.service.origin}: the key was not sent there"
            )
        for line in self._lines(batch):
            if (result := read_result(line, self.price)) is not None:
                yield result.without(self.client.api_key)

    def _lines(self, batch: Batch) -> Iterator[bytes]:
        try:
            with (
                self._translated(what=f"reading batch {batch.batch_id}"),
                closing(self._stream(str(batch.results_url))) as response,
            ):
                rest = b""
                for chunk in response.iter_bytes():
                    *whole, rest = (rest + chunk).split(b"\n")
                    yield from filter(bytes.strip, whole)
                if rest.strip() and read_result(rest, self.price, whole=False) is None:
                    raise CutError("the last result line was cut short")
                yield from filter(bytes.strip, [rest])
        except UnknownBatchError as error:
            raise CutError(str(error)) from None

    def _stream(self, url: str) -> httpx2.Response:
        headers = {"Accept": "application/binary"}
        return self._once.get(
            url, cast_to=httpx2.Response, stream=True, options={"headers": headers}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnthropicMessages(Claude):
    """Claude over plain Messages: full price, an answer at once."""

    concurrency: int
    per_minute: int
    _limit: _RateLimit = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_limit", _RateLimit(self.per_minute))

    def check(self, requests: Sequence[Asked]) -> list[str]:
        if self.max_tokens > _LONGEST_LIVE:
            raise ServiceError(
                f"max_tokens {self.max_tokens} is more than {_LONGEST_LIVE}, the most for live "
                "calls; use `transport: batches`"
            )
        return Claude.check(self, requests)

    def ask(self, request: Asked) -> Result:
        self._limit.wait()
        with self._translated(what=f"asking {self.model}", unsure=_UNSURE_MESSAGE):
            params = self._params(request.system, request.user)
            raw = self._once.messages.with_raw_response.create(**params)
            line = raw.http_response.text
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not is_message(message):
            raise NoAnswerError(f"asking {self.model}", line, self.client.api_key)
        name = request.request_id
        result = read_message(message, self.price, batch=False, name=name, line=line)
        return result.without(self.client.api_key)


class _RateLimit:
    """Spaces calls of several threads evenly over each minute."""

    def __init__(self, per_minute: int) -> None:
        self._gap = 60.0 / per_minute
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        with self._lock:
            now = time.monotonic()
            start = max(now, self._next)
            self._next = start + self._gap
        time.sleep(max(0.0, start - now))


def _json_size(text: str) -> int:
    """Bytes of a text in JSON, as the SDK writes it."""
    try:
        return len(to_json(text))
    except ValueError:  # lone surrogates
        return len(to_json(whole_text(text)))


_system_size = lru_cache(maxsize=64)(_json_size)  # system texts are few and long


def _batch(batch: MessageBatch) -> Batch:
    """A batch in our terms; only one without id or counts is none (the SDK checks nothing)."""
    named = isinstance(getattr(batch, "id", None), str)
    reported = getattr(batch, "request_counts", None)
    numbers = {name: getattr(reported, name, None) for name in _COUNTS}
    counts = {name: n for name, n in numbers.items() if isinstance(n, int)}
    if not named or not counts:
        raise NoAnswerError("a reply that should be a batch", str(batch))
    return Batch(
        batch_id=batch.id,
        n_requests=sum(counts.values()),
        created_at=_moment(getattr(batch, "created_at", None)),
        expires_at=_moment(getattr(batch, "expires_at", None)),
        status=str(getattr(batch, "processing_status", "")),
        counts=counts,
        results_url=getattr(batch, "results_url", None),
    )


def _moment(moment: object) -> str:
    """A time as text; empty where the service names none."""
    return moment.isoformat() if isinstance(moment, datetime) else ""


def _origin(url: str) -> str:
    """Scheme, host and port of an address; empty for a path of the same service."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ServiceError(f"{shortened(url)!r} is no address of results") from None
    return f"{parts.scheme}://{parts.netloc}".lower() if parts.netloc else ""
