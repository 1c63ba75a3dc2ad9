"""Claude as a judge or as an entrant: in batches, or live.

The SDK repeats calls on its own, `batches.create` too, and sends no idempotency header:
every call here is made with `max_retries=0`, and repeated only by those who know whether
that is safe.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Self
from urllib.parse import urlsplit

import anthropic
import httpx2
from anthropic.types.messages import MessageBatch
from pydantic_core import to_json

from arena_kit.files import DataError, whole_text
from arena_kit.judging.judges import base
from arena_kit.judging.judges.base import Batch, NoAnswerError, Price, Result, ServiceError
from arena_kit.judging.verdicts.records import Answer, Asked, Picture, Status, verdict_schema

OFFICIAL = "https://api.anthropic.com"
_MOST_REQUESTS = 100_000
_MOST_BYTES = 250_000_000  # the service takes 256 MB; the rest is for the frame
_LONGEST_LIVE = 21_333  # the SDK wants a stream above it
#: Statuses after which a batch may exist, or a message may have been billed.
_UNSURE_CREATE = (408, 409, 499, *range(500, 600))
_UNSURE_MESSAGE = (408, 504)
_COUNTS = ("processing", "succeeded", "errored", "canceled", "expired")
_STATUS = {
    "end_turn": Status.OK,
    "refusal": Status.REFUSED,
    "max_tokens": Status.TRUNCATED,
    "model_context_window_exceeded": Status.TRUNCATED,
}
_UNPAID = {"canceled": Status.CANCELED, "expired": Status.EXPIRED, "errored": Status.ERRORED}
#: Errors that no second try mends.
_PERMANENT = frozenset(
    "invalid_request_error authentication_error permission_error not_found_error "
    "request_too_large".split()
)
_CUSTOM_ID = re.compile(rb'"custom_id"\s*:\s*"([A-Za-z0-9_-]{1,64})"')


def client_of(api_key: str, base_url: str | None) -> anthropic.Anthropic:
    """The SDK's client, which follows no redirect: the prompts would go with it."""
    transport = anthropic.DefaultHttpxClient(follow_redirects=False, verify=base.tls_context())
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
    image_edge
        The longest edge of an image in pixels: larger ones are scaled down; 0 scales none.
    """

    client: anthropic.Anthropic = field(repr=False)
    model: str
    price: Price
    max_tokens: int
    effort: str
    verdict: bool = True
    graded: bool = False
    lacks: str = ""
    image_edge: int = base.IMAGE_EDGE

    @property
    def settings(self) -> Mapping[str, object]:
        settings: dict[str, object] = {
            "judge": "anthropic",
            "effort": self.effort,
            "max_tokens": self.max_tokens,
            "cache_ttl": "1h",
            "structured": self.verdict,
        }
        graded, origin = {"graded": True} if self.graded else {}, self.service.origin
        edge = {} if self.image_edge == base.IMAGE_EDGE else {"image_edge": self.image_edge}
        return settings | graded | edge | ({} if origin == OFFICIAL else {"origin": origin})

    @property
    def service(self) -> base.Service:
        return base.Service.of(str(self.client.base_url), self.client.api_key)

    def at(self, address: str) -> Self:
        return replace(self, client=self.client.with_options(base_url=address))

    def ready(self) -> None:
        """Raise when there is no key."""
        if self.lacks:
            raise DataError(f"no key: set {self.lacks} in the environment or in .env")

    def check(self, requests: Sequence[Asked]) -> list[str]:
        """Raise when the model is retired or cannot do this, or when the service refuses the
        shape of a request; returns warnings.
        """
        self.ready()
        with self._translated(f"looking up {self.model}"):
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
            raise ServiceError(f"{self.model} does not support a JSON schema")
        for request in base.first_of_each(requests):
            self.count_tokens(request)
        if info.lifecycle == "deprecated":
            ends = f", ends {info.retires_at:%Y-%m-%d}" if info.retires_at else ""
            return [f"the model {self.model} is deprecated{ends}"]
        return []

    def count_tokens(self, request: Asked) -> int | None:
        """Input tokens of a request, counted by the service for free; None without a key."""
        if self.lacks:
            return None
        params = self._params(request)
        del params["max_tokens"]
        with self._translated("counting tokens"):
            count = self._once.messages.count_tokens(**params)
            if not isinstance(count, anthropic.types.MessageTokensCount):
                raise NoAnswerError("counting tokens", str(count))
            return count.input_tokens

    def _params(self, request: Asked) -> dict[str, Any]:
        """The body of one message; the system text is one block, cached for an hour."""
        settings = (self.model, self.max_tokens, self.effort, self.verdict, self.graded)
        blocks = [self._block(piece) for piece in request.pieces]
        content = blocks if len(blocks) > 1 else request.user
        shared = _shared_params(request.system, *settings)
        return {**shared, "messages": [{"role": "user", "content": content}]}

    def _block(self, piece: str | Picture) -> dict[str, Any]:
        return base.image_part(piece, self.image_edge, _image_block)

    @contextmanager
    def _translated(self, what: str, unsure: tuple[int, ...] | None = None) -> Iterator[None]:
        """Errors of the SDK and its transport, as ours, without the key in their words: the SDK's
        own hold the request and with it the key.

        `unsure` lists the statuses after which an effect may exist although the call failed
        (None: the call has no effect worth being unsure of); a connection that ends early
        is then unsure too, unless it was never made.
        """
        try:
            yield
        except anthropic.APIStatusError as error:
            message = _message_of(error, str(self.client.api_key))
            if error.status_code == 404:
                raise base.UnknownBatchError(f"{what}: {message}") from None
            raise base.status_error(error.response, what, message, unsure) from None
        except (anthropic.APIConnectionError, httpx2.HTTPError) as error:
            cause = error.__cause__ or error
            known = unsure is None or isinstance(cause, httpx2.ConnectError)
            kind = base.BusyError if known else base.UnsureError
            raise kind(f"{what}: {type(cause).__name__}") from None
        except (json.JSONDecodeError, RecursionError, NoAnswerError) as error:
            no_json = not isinstance(error, NoAnswerError)
            words = f"{what}: the reply is no JSON" if no_json else str(error)
            raise (base.BusyError if unsure is None else base.UnsureError)(words) from None
        except httpx2.InvalidURL as error:
            raise ServiceError(f"{what}: invalid address ({error})") from None

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
        settings = (self.model, self.max_tokens, self.effort, self.verdict, self.graded)
        frame = len(json.dumps({"params": _shared_params(" ", *settings)})) + 150
        for key, request in entries.items():
            images = sum(len(str(self._block(p))) for p in base.pictures_of(request))
            n_bytes = frame + _system_size(request.system) + _json_size(request.user) + images
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
        requests: Any = [
            {"custom_id": name, "params": self._params(request)}
            for name, request in entries.items()
        ]
        with self._translated("creating a batch", unsure=_UNSURE_CREATE):
            return _batch(self._once.messages.batches.create(requests=requests))

    def poll(self, batch_id: str) -> Batch:
        with self._translated(f"looking at batch {batch_id}"):
            return _batch(self._once.messages.batches.retrieve(batch_id, timeout=60))

    def recent(self) -> Iterator[Batch]:
        try:  # what is no page must not pass for an empty one
            with self._translated("listing batches"):
                for page in self._once.messages.batches.list(limit=100, timeout=60).iter_pages():
                    if not isinstance(getattr(page, "data", None), list):
                        raise NoAnswerError("listing batches", str(page))
                    yield from map(_batch, page.data)
        except base.UnknownBatchError as error:  # a list is never unknown for long
            raise base.BusyError(str(error)) from None
        except AttributeError as error:  # the SDK got something else than an object
            raise base.BusyError(str(NoAnswerError("listing batches", str(error)))) from None

    def cancel(self, batch_id: str) -> Batch:
        with self._translated(f"cancelling batch {batch_id}"):
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
            if (result := _read_result(line, self.price)) is not None:
                yield result.without(self.client.api_key)

    def _lines(self, batch: Batch) -> Iterator[bytes]:
        try:
            with (
                self._translated(f"reading batch {batch.batch_id}"),
                closing(self._stream(str(batch.results_url))) as response,
            ):
                rest = b""
                for chunk in response.iter_bytes():
                    *whole, rest = (rest + chunk).split(b"\n")
                    yield from filter(bytes.strip, whole)
                if rest.strip() and _read_result(rest, self.price, whole=False) is None:
                    raise base.CutError("the last result line was cut short")
                yield from filter(bytes.strip, [rest])
        except base.UnknownBatchError as error:
            raise base.CutError(str(error)) from None

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
        with self._translated(f"asking {self.model}", unsure=_UNSURE_MESSAGE):
            params = self._params(request)
            raw = self._once.messages.with_raw_response.create(**params)
            line = raw.http_response.text
        try:
            message = base.parsed_json(line)
        except (ValueError, RecursionError):
            message = None
        if not _is_message(message):
            raise NoAnswerError(f"asking {self.model}", line, self.client.api_key)
        name = request.request_id
        result = _read_message(message, self.price, batch=False, name=name, line=line)
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
    times = {name: getattr(batch, name, None) for name in ("created_at", "expires_at")}
    return Batch(
        batch_id=batch.id,
        n_requests=sum(counts.values()),
        **{n: t.isoformat() if isinstance(t, datetime) else "" for n, t in times.items()},
        status=str(getattr(batch, "processing_status", "")),
        counts=counts,
        results_url=getattr(batch, "results_url", None),
    )


def _origin(url: str) -> str:
    """Scheme, host and port of an address; empty for a path of the same service."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ServiceError(f"{base.shortened(url)!r} is no address of results") from None
    return f"{parts.scheme}://{parts.netloc}".lower() if parts.netloc else ""


def _image_block(media_type: str, data: str) -> dict[str, Any]:
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source}


@lru_cache(maxsize=64)
def _shared_params(
    system: str, model: str, max_tokens: int, effort: str, verdict: bool, graded: bool
) -> dict[str, Any]:
    """What all messages of a system text have in common."""
    config: dict[str, Any] = {"effort": effort} if effort else {}
    if verdict:
        config["format"] = {"type": "json_schema", "schema": verdict_schema(graded=graded)}
    params: dict[str, Any] = {"model": model, "max_tokens": max_tokens}
    if system:
        cached = {"type": "ephemeral", "ttl": "1h"}
        params["system"] = [{"type": "text", "text": system, "cache_control": cached}]
    return params | ({"output_config": config} if config else {})


def _read_result(line: bytes, price: Price, *, whole: bool = True) -> Result | None:
    """One line of a batch's results; None when its custom id cannot be read.

    A whole line that makes no sense may have been paid for: it is kept as it is, and its
    request is not sent again. One that is not `whole` may merely be cut short.
    """
    try:
        return _result(line, price)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        match = _CUSTOM_ID.search(line) if whole else None
    if match is None:
        return None
    text = line.decode("utf-8", "replace")
    return _errored(match[1].decode(), "an unreadable result line", text)


def _errored(name: str, detail: str, line: str) -> Result:
    """A result that may have been billed and holds no answer: final, and never asked again."""
    answer = Answer(request_id=name, status=Status.ERRORED, detail=detail)
    return Result(answer=answer, name=name, line=line)


def _is_message(message: Any) -> bool:
    """Whether a parsed body has the content of a message."""
    return isinstance(message, dict) and isinstance(message.get("content"), list)


def _read_message(message: Any, price: Price, *, batch: bool, name: str, line: str) -> Result:
    """A message in our terms; text is found by block type, for thinking may come first."""
    if not _is_message(message):
        return _errored(name, "a success without a message", line)
    texts = [
        str(block.get("text", ""))
        for block in message["content"]
        if isinstance(block, dict) and block.get("type") == "text"
    ]
    usage = _usage(message.get("usage"))
    stop = str(message.get("stop_reason"))
    usd, detail = price.usd(usage, batch=batch), _detail(stop, message.get("stop_details"))
    status = _STATUS.get(stop) or Status.OK
    answer = base.answer_of(
        name, status, "".join(texts), message, usage=usage, usd=usd, detail=detail
    )
    return Result(answer=answer, name=name, line=line)


def _result(line: bytes, price: Price) -> Result:
    """A result by the name of its type: the SDK's own classes take an unknown one for a
    success.
    """
    row = base.parsed_json(line)
    name, result = row.get("custom_id"), row.get("result") or {}
    if not isinstance(name, str):
        raise TypeError("a line without a custom id is no result")
    kind, text = str(result.get("type")), line.decode("utf-8", "replace")
    if kind == "succeeded":
        return _read_message(result.get("message"), price, batch=True, name=name, line=text)
    if kind in _UNPAID:
        error = ((result.get("error") or {}).get("error")) or {}
        return _unpaid(kind, str(error.get("type", "")), str(error.get("message", "")), name, text)
    detail = f"a result of the unknown type {kind[:100]!r}; it may have been billed"
    usage = _usage((result.get("message") or {}).get("usage"))
    unknown = _errored(name, detail, text)
    cost = price.usd(usage, batch=True)
    return unknown._replace(answer=unknown.answer._replace(usage=usage, cost_usd=cost))


def _unpaid(kind: str, error_type: str, message: str, name: str, line: str) -> Result:
    money = base.about_money(f"{error_type} {message}")
    detail = f"{error_type}: {message}" if error_type else kind
    return Result(
        answer=Answer(request_id=name, status=_UNPAID[kind], detail=whole_text(detail[:500])),
        name=name,
        line=line,
        billed=False,
        again=money or error_type not in _PERMANENT,
        pause=base.paused(message) if money else "",
    )


def _usage(usage: Any) -> dict[str, int]:
    """The counts of a usage object, nested ones beside the others; empty, which is unknown,
    when there is none or one of its numbers counts nothing.
    """
    try:
        written = usage.get("cache_creation") or {}
        output = usage.get("output_tokens_details") or {}
        numbers = {
            "input_tokens": usage["input_tokens"],
            "output_tokens": usage["output_tokens"],
            "thinking_tokens": output.get("thinking_tokens") or 0,
            "cache_read_input_tokens": usage.get("cache_read_input_tokens") or 0,
            "cache_creation_input_tokens": usage.get("cache_creation_input_tokens") or 0,
            "ephemeral_5m_input_tokens": written.get("ephemeral_5m_input_tokens") or 0,
        }
        return base.token_counts(numbers)
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}


def _detail(stop: str, more: Any) -> str:
    if stop == "end_turn" or not isinstance(more, dict):
        return "" if stop == "end_turn" else stop
    reasons = [str(more[name]) for name in ("category", "explanation") if more.get(name)]
    return ": ".join([stop, *reasons])


def _message_of(error: anthropic.APIStatusError, secret: str) -> str:
    """What a refusal says, or where it redirects to, without the key."""
    if error.response.has_redirect_location:
        return base.scrubbed(error.response.headers["location"], secret)
    body = error.body if isinstance(error.body, dict) else {}
    inner = body.get("error") if isinstance(body.get("error"), dict) else {}
    return base.scrubbed(str((inner or {}).get("message") or error.message), secret)
