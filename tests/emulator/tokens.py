"""One rule for counting tokens, used by usage and by count_tokens alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import ceil
from typing import Any

BYTES_PER_TOKEN = 3.2


def tokens_of(size: int) -> int:
    """Tokens of a text of `size` UTF-8 bytes; a made-up rule that is the same everywhere [INF]."""
    return ceil(size / BYTES_PER_TOKEN)


def text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def block_bytes(block: Any) -> int:
    """The size of a content block: its text, or its JSON when it has none."""
    if isinstance(block, str):
        return text_bytes(block)
    text = block.get("text")
    return text_bytes(text) if isinstance(text, str) else len(json.dumps(block))


def prompt_tokens(params: Mapping[str, Any]) -> int:
    """Tokens of tools, system and messages together."""
    contents = [params.get("tools"), params.get("system")]
    contents += [message["content"] for message in params["messages"]]
    size = 0
    for content in contents:
        for block in [content] if isinstance(content, str) else content or ():
            size += block_bytes(block)
    return tokens_of(size)
