"""A chat-completions endpoint of the common shape, as local servers offer it [3P]."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from tests.emulator.billing import Usage
from tests.emulator.cache import prompt_tokens
from tests.emulator.catalogue import MODELS
from tests.emulator.errors import ApiError
from tests.emulator.messages import Desk, Output, digest_of

#: The finish_reason of each stop_reason.
FINISH = {"end_turn": "stop", "max_tokens": "length", "refusal": "content_filter"}
_NO_LIMIT = 10**6


def complete(desk: Desk, body: Any, *, schemas: bool) -> tuple[dict[str, object], Usage, str]:
    """The completion, its usage, and the digest of the request."""
    _check(body, schemas=schemas)
    digest = digest_of(body)
    dice = desk.dice(digest, body.get("seed"))
    reply = desk.reply(body, dice)
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or _NO_LIMIT
    output = desk.finish(reply, limit, dice, 0)
    usage = Usage(input=prompt_tokens(body), output=output.tokens)
    return _completion(body["model"], output, usage, digest), usage, digest


def chat_models() -> dict[str, object]:
    """The list of models as chat clients read it [3P]."""
    shared = {"object": "model", "created": 0, "owned_by": "emulator"}
    return {"object": "list", "data": [{"id": name} | shared for name in MODELS]}


def _check(body: Any, *, schemas: bool) -> None:
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        raise ApiError(400, "you must provide a model parameter", param="model")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
        raise ApiError(400, "messages must be a non-empty list of messages", param="messages")
    form = body.get("response_format")
    if form is not None and form.get("type") == "json_schema" and not schemas:
        raise ApiError(
            400,
            "response_format of type 'json_schema' is not supported with this model",
            param="response_format",
        )


def _is_message(message: Any) -> bool:
    return isinstance(message, dict) and isinstance(message.get("content"), str | list)


def _completion(model: str, output: Output, usage: Usage, digest: str) -> dict[str, object]:
    message: dict[str, object] = {"role": "assistant", "content": output.text or ""}
    if output.stop_reason == "refusal":
        message["refusal"] = output.text
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": FINISH[output.stop_reason],
    }
    return {
        "id": f"chatcmpl-{sha256(digest.encode()).hexdigest()[:24]}",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": model,
        "choices": [choice],
        "usage": {
            "prompt_tokens": usage.input,
            "completion_tokens": usage.output,
            "total_tokens": usage.input + usage.output,
        },
    }
