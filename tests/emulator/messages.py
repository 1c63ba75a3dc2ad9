"""From the params of one request to its message: answer, length, usage."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from tests.emulator.behaviours import (
    BEHAVIOURS,
    Dice,
    Reply,
    asks_for_grades,
    generate,
    graded,
    pick,
    read_sections,
    system_text,
    user_text,
)
from tests.emulator.billing import Usage
from tests.emulator.cache import (
    BYTES_PER_TOKEN,
    Counts,
    Prefix,
    prefixes_of,
    prompt_tokens,
    text_bytes,
    tokens_of,
)
from tests.emulator.settings import Settings
from tests.emulator.validation import check

_CANON = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
#: Mean thinking tokens by effort; made up, but growing. [INF]
_THOUGHT = {"low": 40, "medium": 120, "high": 300, "xhigh": 600, "max": 1200}


def digest_of(params: Mapping[str, Any]) -> str:
    """What identifies a request: sha256 of the canonical JSON of model, system and messages."""
    asked = {name: params.get(name) for name in ("model", "system", "messages")}
    return sha256(_CANON(asked).encode()).hexdigest()


class Output(NamedTuple):
    """A finished answer: what is shown, and the tokens it took."""

    text: str | None
    thought: bool
    stop_reason: str
    category: str | None
    tokens: int
    thinking_tokens: int

    def content(self) -> list[dict[str, object]]:
        """The blocks: a thinking block may stand before the text [SRC]."""
        blocks: list[dict[str, object]] = []
        if self.thought:
            # The text of thinking is omitted unless asked for; the signature stays. [SRC]
            blocks.append({"type": "thinking", "thinking": "", "signature": "ZW11bGF0ZWQ="})
        if self.text is not None:
            blocks.append({"type": "text", "text": self.text, "citations": None})
        return blocks


class Prepared(NamedTuple):
    """A valid request with its answer; all that is kept of its params."""

    model: str
    digest: str
    prompt_tokens: int
    prefixes: tuple[Prefix, ...]
    output: Output

    def usage(self, cached: Counts, tier: str) -> Usage:
        """Input is what is neither written nor read [SRC]."""
        return Usage(
            input=self.prompt_tokens - cached.total,
            output=self.output.tokens,
            write_5m=cached.write_5m,
            write_1h=cached.write_1h,
            read=cached.read,
            thinking=self.output.thinking_tokens,
            tier=tier,
        )


class Desk:
    """Where requests are read and answered.

    The same question gets the same verdict from the reader; how long the answer is, and
    what "mixed" does, is drawn anew each time it is asked, so asking again can help.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._asked: Counter[str] = Counter()

    def prepare(self, params: Any, *, version: str, where: str) -> Prepared:
        """Validate params and answer them; raises ApiError as the service would."""
        model = check(params, version=version, where=where)
        prefixes = prefixes_of(params, model)
        digest = digest_of(params)
        config = params.get("output_config") or {}
        dice = self.dice(digest)
        reply = self.reply(params, dice)
        thinks = model.line in {"opus", "sonnet"}  # 5.5 does unless told otherwise [SRC, INF]
        output = self.finish(
            reply, params["max_tokens"], dice, _THOUGHT[config.get("effort") or "medium"] * thinks
        )
        return Prepared(model.id, digest, prompt_tokens(params), prefixes, output)

    def dice(self, digest: str, seed: object = None) -> Dice:
        """Dice for one asking of a question; a seed of the request's own fixes them."""
        if seed is not None:
            return Dice(self._settings.seed, "seed", seed, digest)
        self._asked[digest] += 1
        return Dice(self._settings.seed, self._asked[digest], digest)

    def reply(self, params: Mapping[str, Any], dice: Dice) -> Reply:
        """What the behaviour now set says to a request."""
        behaviour = self._settings.behaviour
        if not isinstance(behaviour, str):
            answer = behaviour(params)
            return Reply(text=answer) if isinstance(answer, str) else answer
        text = user_text(params)
        sections = read_sections(text)
        if "response_a" not in sections or "response_b" not in sections:
            return generate(text, dice)
        sections["rubric"] = system_text(params)
        reply = BEHAVIOURS[pick(behaviour, self._settings.shares, dice)](sections, dice)
        return graded(reply, sections) if asks_for_grades(params) else reply

    def finish(self, reply: Reply, limit: int, dice: Dice, mean_thought: int) -> Output:
        """Count the tokens and cut at the limit; thinking counts, and comes first [DOC-A]."""
        thinking = reply.thinking_tokens
        luck, size = dice.roll(), dice.roll()
        if thinking is None:
            thinks = luck < self._settings.thinking_share
            thinking = int(mean_thought * (0.3 + 1.4 * size)) if thinks else 0
        text, stop = reply.text, reply.stop_reason
        if thinking >= limit:
            return Output(None, True, "max_tokens", None, limit, limit)
        needed = tokens_of(text_bytes(text)) if text is not None else 0
        if thinking + needed > limit:
            text, stop, needed = _cut(text or "", limit - thinking), "max_tokens", limit - thinking
        tokens = max(1, thinking + needed)
        return Output(text, thinking > 0, stop, reply.category, tokens, thinking)


def _cut(text: str, tokens: int) -> str:
    return text.encode("utf-8", "surrogatepass")[: int(tokens * BYTES_PER_TOKEN)].decode(
        "utf-8", "ignore"
    )


def message_object(message_id: str, model: str, output: Output, usage: Usage) -> dict[str, object]:
    """The Message object [SRC: types/message.py]."""
    details = None
    if output.stop_reason == "refusal":
        details = {"type": "refusal", "category": output.category, "explanation": None}
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": output.content(),
        "stop_reason": output.stop_reason,
        "stop_sequence": None,
        "stop_details": details,
        "usage": usage.as_dict(),
    }
