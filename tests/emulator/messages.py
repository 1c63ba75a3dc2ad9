"""From one request to its message or chat completion: answer, length, usage."""

import json
from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from tests.emulator import behaviours, billing
from tests.emulator.behaviours import Dice, Reply
from tests.emulator.billing import Counts, Prefix, Usage
from tests.emulator.rules import MODELS, check, invalid
from tests.emulator.settings import Settings

_CANON = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
#: Mean thinking tokens by effort; made up, but growing. [INF]
_THOUGHT = {"low": 40, "medium": 120, "high": 300, "xhigh": 600, "max": 1200}
#: The finish_reason of each stop_reason, and what a chat may put out without a limit [3P].
_FINISH = {"end_turn": "stop", "max_tokens": "length", "refusal": "content_filter"}
_NO_LIMIT = 10**6


def digest_of(params: Mapping[str, Any]) -> str:
    """What identifies a request: sha256 of the canonical JSON of model, system and messages."""
    asked = {name: params.get(name) for name in ("model", "system", "messages")}
    return sha256(_CANON(asked).encode()).hexdigest()


class Output(NamedTuple):
    text: str | None
    stop_reason: str
    category: str | None
    tokens: int
    thinking_tokens: int

    def content(self) -> list[dict[str, object]]:
        """The blocks: a thinking block, whose text is omitted, may stand before the text [SRC]."""
        thought = {"type": "thinking", "thinking": "", "signature": "ZW11bGF0ZWQ="}
        text = {"type": "text", "text": self.text, "citations": None}
        return [thought] * (self.thinking_tokens > 0) + [text] * (self.text is not None)


class Prepared(NamedTuple):
    """A valid request with its answer; all that is kept of its params."""

    model: str
    digest: str
    prompt_tokens: int
    prefixes: tuple[Prefix, ...]
    output: Output

    def usage(self, cached: Counts, tier: str) -> Usage:
        """Input is what is neither written nor read [SRC]."""
        plain = self.prompt_tokens - sum(cached)
        return Usage(plain, self.output.tokens, *cached, self.output.thinking_tokens, tier)


class Desk:
    """Where requests are answered: lengths, and what "mixed" does, are drawn anew each time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._asked: Counter[str] = Counter()

    def prepare(self, params: Any) -> Prepared:
        """Validate params and answer them; raises ApiError as the service would."""
        model = check(params)
        prefixes = billing.prefixes_of(params, model)
        digest = digest_of(params)
        effort = (params.get("output_config") or {}).get("effort") or "medium"
        dice = self._dice(digest)
        thinks = model.line in {"opus", "sonnet"}  # 5.5 does unless told otherwise [SRC, INF]
        reply, thought = self._reply(params, dice), _THOUGHT[effort] * thinks
        output = self._finish(reply, params["max_tokens"], dice, thought)
        return Prepared(model.id, digest, billing.prompt_tokens(params), prefixes, output)

    def complete(self, body: Any) -> tuple[dict[str, object], Usage, str]:
        """A chat completion [3P], its usage, and the digest of the request."""
        if not body.get("model") or not body.get("messages"):
            raise invalid("you must provide a model and messages", param="model")
        if not self._settings.chat_schema and body.get("response_format"):
            words = "response_format of type 'json_schema' is not supported with this model"
            raise invalid(words, param="response_format")
        digest = digest_of(body)
        dice = self._dice(digest, body.get("seed"))
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or _NO_LIMIT
        output = self._finish(self._reply(body, dice), limit, dice, 0)
        usage = Usage(input=billing.prompt_tokens(body), output=output.tokens)
        return _completion(body["model"], output, usage, digest), usage, digest

    def _dice(self, digest: str, seed: object = None) -> Dice:
        """Dice for one asking of a question; a seed of the request's own fixes them."""
        if seed is not None:
            return Dice(self._settings.seed, "seed", seed, digest)
        self._asked[digest] += 1
        return Dice(self._settings.seed, self._asked[digest], digest)

    def _reply(self, params: Mapping[str, Any], dice: Dice) -> Reply:
        behaviour = self._settings.behaviour
        if not isinstance(behaviour, str):
            answer = behaviour(params)
            return Reply(text=answer) if isinstance(answer, str) else answer
        text, rubric = behaviours.user_text(params), behaviours.system_text(params)
        sections = behaviours.read_sections(text)
        if "response_a" not in sections or "response_b" not in sections:
            return behaviours.generate(text, dice)
        sections["rubric"] = rubric
        name = behaviours.pick(behaviour, self._settings.shares, dice)
        reply = behaviours.BEHAVIOURS[name](sections, dice)
        return behaviours.graded(reply, sections) if "A>>B" in rubric else reply

    def _finish(self, reply: Reply, limit: int, dice: Dice, mean_thought: int) -> Output:
        """Count the tokens and cut at the limit; thinking counts, and comes first [DOC-A]."""
        thinking = reply.thinking_tokens
        luck, size = dice.roll(), dice.roll()
        if thinking is None:
            thinks = luck < self._settings.thinking_share
            thinking = int(mean_thought * (0.3 + 1.4 * size)) if thinks else 0
        text, stop = reply.text, reply.stop_reason
        if thinking >= limit:
            return Output(None, "max_tokens", None, limit, limit)
        needed = billing.tokens_of(billing.text_bytes(text)) if text is not None else 0
        if thinking + needed > limit:
            text, stop, needed = _cut(text or "", limit - thinking), "max_tokens", limit - thinking
        return Output(text, stop, reply.category, max(1, thinking + needed), thinking)


def _cut(text: str, tokens: int) -> str:
    whole = text.encode("utf-8", "surrogatepass")
    return whole[: int(tokens * billing.BYTES_PER_TOKEN)].decode("utf-8", "ignore")


def message_object(message_id: str, model: str, output: Output, usage: Usage) -> dict[str, object]:
    """The Message object [SRC: types/message.py]."""
    details = {"type": "refusal", "category": output.category, "explanation": None}
    return {
        "id": message_id, "type": "message", "role": "assistant", "model": model,
        "content": output.content(), "stop_reason": output.stop_reason, "stop_sequence": None,
        "stop_details": details if output.stop_reason == "refusal" else None,
        "usage": usage.as_dict(),
    }  # fmt: skip


def chat_models() -> dict[str, object]:
    """The list of models as chat clients read it [3P]."""
    shared = {"object": "model", "created": 0, "owned_by": "emulator"}
    return {"object": "list", "data": [{"id": name} | shared for name in MODELS]}


def _completion(model: str, output: Output, usage: Usage, digest: str) -> dict[str, object]:
    message: dict[str, object] = {"role": "assistant", "content": output.text or ""}
    if output.stop_reason == "refusal":
        message["refusal"] = output.text
    finish = _FINISH[output.stop_reason]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    tokens = {"prompt_tokens": usage.input, "completion_tokens": usage.output}
    name = f"chatcmpl-{sha256(digest.encode()).hexdigest()[:24]}"
    shared = {"id": name, "object": "chat.completion", "created": 1_760_000_000, "model": model}
    total = {"total_tokens": usage.input + usage.output}
    return shared | {"choices": [choice], "usage": tokens | total}
