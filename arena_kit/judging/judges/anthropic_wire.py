"""What goes over the wire to Anthropic and what comes back, in our own terms.

SDK exceptions end here: they hold the request and with it the key, so only their plain
words go on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import anthropic
import httpx2
from pydantic_core import from_json

from arena_kit.files import whole_text
from arena_kit.judging.judges.base import (
    BusyError,
    NoAnswerError,
    PausedError,
    Price,
    Result,
    ServiceError,
    UnknownBatchError,
    UnsureError,
    redirect_error,
    scrubbed,
    token_counts,
)
from arena_kit.judging.verdicts.records import Answer, Status, verdict_schema

_STATUS = {
    "end_turn": Status.OK,
    "refusal": Status.REFUSED,
    "max_tokens": Status.TRUNCATED,
    "model_context_window_exceeded": Status.TRUNCATED,
}
_UNPAID = {"canceled": Status.CANCELED, "expired": Status.EXPIRED, "errored": Status.ERRORED}
#: Errors that no second try mends.
_PERMANENT = {
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "request_too_large",
}
_MONEY = ("credit balance", "usage limits", "spend limit", "spend_limit", "billing")
_CUSTOM_ID = re.compile(rb'"custom_id"\s*:\s*"([A-Za-z0-9_-]{1,64})"')


def message_params(
    system: str,
    user: str,
    *,
    model: str,
    max_tokens: int,
    effort: str,
    verdict: bool,
    graded: bool = False,
) -> dict[str, Any]:
    """The body of one message; the system text is one block, cached for an hour."""
    shared = _shared_params(system, model, max_tokens, effort, verdict, graded)
    return {**shared, "messages": [{"role": "user", "content": user}]}


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


def read_result(line: bytes, price: Price, *, whole: bool = True) -> Result | None:
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
    name = match[1].decode()
    answer = Answer(
        request_id=name, status=Status.ERRORED, detail="a result line that makes no sense"
    )
    return Result(answer=answer, name=name, line=line.decode("utf-8", "replace"))


def is_message(message: Any) -> bool:
    """Whether a parsed body has the content of a message."""
    return isinstance(message, dict) and isinstance(message.get("content"), list)


def read_message(message: Any, price: Price, *, batch: bool, name: str, line: str) -> Result:
    """A message in our terms; text is found by block type, for thinking may come first."""
    if not is_message(message):
        answer = Answer(
            request_id=name, status=Status.ERRORED, detail="a success without a message"
        )
        return Result(answer=answer, name=name, line=line)
    texts = [
        str(block.get("text", ""))
        for block in message["content"]
        if isinstance(block, dict) and block.get("type") == "text"
    ]
    usage = _usage(message.get("usage"))
    stop = str(message.get("stop_reason"))
    answer = Answer(
        request_id=name,
        status=_STATUS.get(stop) or Status.OK,
        text="".join(texts),
        served_model=whole_text(str(message.get("model", ""))[:200]),
        usage=usage,
        cost_usd=price.usd(usage, batch=batch),
        detail=_detail(stop, message.get("stop_details")),
    )
    return Result(answer=answer, name=name, line=line)


@contextmanager
def translated(
    *, what: str, unsure: tuple[int, ...] | None = None, secret: str = ""
) -> Iterator[None]:
    """Errors of the SDK and its transport, as ours, without `secret` in their words.

    `unsure` lists the statuses after which an effect may exist although the call failed
    (None: the call has no effect worth being unsure of); a connection that ends early
    is then unsure too, unless it was never made.
    """
    try:
        yield
    except anthropic.APIStatusError as error:
        if error.response.has_redirect_location:
            address = scrubbed(error.response.headers["location"], secret)
            words = f"{what}: the service redirects to {address}"
            raise redirect_error(error.status_code, words, effect=unsure is not None) from None
        raise _status_error(error, what, unsure, secret) from None
    except (anthropic.APIConnectionError, httpx2.HTTPError) as error:
        never_made = isinstance(error.__cause__ or error, httpx2.ConnectError)
        words = f"{what}: {type(error.__cause__ or error).__name__}"
        if unsure is None or never_made:
            raise BusyError(words) from None
        raise UnsureError(words) from None
    except (json.JSONDecodeError, RecursionError, NoAnswerError) as error:
        words = str(error) if isinstance(error, NoAnswerError) else f"{what}: the reply is no JSON"
        raise (BusyError if unsure is None else UnsureError)(words) from None
    except httpx2.InvalidURL as error:
        raise ServiceError(f"{what}: an address that cannot be used ({error})") from None


def _result(line: bytes, price: Price) -> Result:
    """A result by the name of its type: the SDK's own classes take an unknown one for a
    success.
    """
    row = _parsed(line)
    name, result = row.get("custom_id"), row.get("result") or {}
    if not isinstance(name, str):
        raise TypeError("a line without a custom id is no result")
    kind, text = str(result.get("type")), line.decode("utf-8", "replace")
    if kind == "succeeded":
        return read_message(result.get("message"), price, batch=True, name=name, line=text)
    if kind in _UNPAID:
        error = ((result.get("error") or {}).get("error")) or {}
        return _unpaid(kind, str(error.get("type", "")), str(error.get("message", "")), name, text)
    usage = _usage((result.get("message") or {}).get("usage"))
    answer = Answer(
        request_id=name,
        status=Status.ERRORED,
        usage=usage,
        cost_usd=price.usd(usage, batch=True),
        detail=f"a result of the unknown type {kind[:100]!r}; it may have been billed",
    )
    return Result(answer=answer, name=name, line=text)


def _parsed(line: bytes) -> Any:
    """The line as JSON; the fast parser refuses lone surrogates."""
    try:
        return from_json(line, cache_strings="keys")
    except ValueError:
        return json.loads(line)


def _unpaid(kind: str, error_type: str, message: str, name: str, line: str) -> Result:
    money = _about_money(f"{error_type} {message}")
    detail = f"{error_type}: {message}" if error_type else kind
    return Result(
        answer=Answer(request_id=name, status=_UNPAID[kind], detail=whole_text(detail[:500])),
        name=name,
        line=line,
        billed=False,
        again=money or error_type not in _PERMANENT,
        pause=_paused(message) if money else "",
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
        return token_counts(numbers)
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}


def _detail(stop: str, more: Any) -> str:
    if stop == "end_turn" or not isinstance(more, dict):
        return "" if stop == "end_turn" else whole_text(stop[:500])
    reasons = [str(more[name]) for name in ("category", "explanation") if more.get(name)]
    return whole_text(": ".join([stop, *reasons])[:500])


def _about_money(text: str) -> bool:
    """Whether an error is about credit or a spend limit, whatever its type says."""
    return any(word in text.lower() for word in _MONEY)


def _paused(message: str) -> str:
    reason = message.strip().rstrip(".") or "a spend limit was reached"
    return f"paused, nothing is marked as failed: {reason}; then run again"


def _status_error(
    error: anthropic.APIStatusError, what: str, unsure: tuple[int, ...] | None, secret: str
) -> ServiceError:
    status = error.status_code
    body = error.body if isinstance(error.body, dict) else {}
    inner = body.get("error") if isinstance(body.get("error"), dict) else {}
    message = scrubbed(str((inner or {}).get("message") or error.message), secret)
    if status == 402 or (status < 500 and _about_money(json.dumps(body))):
        return PausedError(_paused(message))
    if status in (401, 403):
        return ServiceError(f"{what}: the service refuses the key ({status}): {message}")
    if status == 404:
        return UnknownBatchError(f"{what}: {message}")
    if unsure is not None and status in unsure:
        return UnsureError(f"{what}: status {status}")
    if status in (408, 409, 429) or status >= 500:
        return BusyError(f"{what}: status {status}: {message}", _retry_after(error))
    return ServiceError(f"{what}: refused ({status}): {message}")


def _retry_after(error: anthropic.APIStatusError) -> float | None:
    try:
        return max(0.0, float(error.response.headers.get("retry-after", "")))
    except ValueError:
        return None
