"""Prompt-cache accounting: what each request writes, reads and pays in full.

Not modelled: the 20-block lookback, and the moment at which a response begins.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any, NamedTuple

from tests.emulator.catalogue import Model
from tests.emulator.errors import invalid

BYTES_PER_TOKEN = 3.2


def tokens_of(size: int) -> int:
    """Tokens of a text of `size` UTF-8 bytes; a made-up rule that is the same everywhere [INF]."""
    return ceil(size / BYTES_PER_TOKEN)


def text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def block_text(block: Any) -> str:
    """The text of a content block, or its JSON when it has none."""
    if isinstance(block, str):
        return block
    return block.get("text") or json.dumps(block, sort_keys=True)


def _blocks(params: Mapping[str, Any]) -> Iterator[Any]:
    """The blocks of system and messages, in this order."""
    for content in (params.get("system"), *(m["content"] for m in params["messages"])):
        yield from [content] if isinstance(content, str) else content or ()


def prompt_tokens(params: Mapping[str, Any]) -> int:
    """Tokens of system and messages together."""
    return tokens_of(sum(text_bytes(block_text(block)) for block in _blocks(params)))


#: Lifetimes a breakpoint may ask for. [DOC-A]
LIFETIMES = {"5m": 300, "1h": 3600}


class Prefix(NamedTuple):
    """The prompt up to one breakpoint: what identifies it, its length and its lifetime."""

    key: Hashable
    tokens: int
    seconds: int


class Counts(NamedTuple):
    """Tokens written for 5 minutes, written for an hour, and read."""

    write_5m: int = 0
    write_1h: int = 0
    read: int = 0

    @property
    def total(self) -> int:
        return sum(self)


def prefixes_of(params: Mapping[str, Any], model: Model) -> tuple[Prefix, ...]:
    """The cacheable prefixes of a request, shortest first.

    The key is the model, the blocks' bytes, effort and format [DOC-A]. A prefix below the model's
    minimum is silently not cached [DOC-A].
    """
    prefixes: list[Prefix] = []
    size, parts = 0, []
    config = marshal.dumps(params.get("output_config"), 0)  # quick, for many requests at once
    for block in _blocks(params):
        parts.append(block_text(block))
        size += text_bytes(parts[-1])
        if not isinstance(block, str) and (control := block.get("cache_control")) is not None:
            key = (model.id, config, tuple(parts))
            prefixes.append(Prefix(key, tokens_of(size), _lifetime(control)))
    return tuple(prefix for prefix in prefixes if prefix.tokens >= model.min_prefix)


def _lifetime(control: Any) -> int:
    ttl = control.get("ttl", "5m") if isinstance(control, dict) else None
    if ttl not in LIFETIMES or control.get("type") != "ephemeral":
        raise invalid("cache_control: type must be 'ephemeral' and ttl one of '5m', '1h'")
    return LIFETIMES[ttl]


@dataclass(slots=True)
class _Entry:
    since: datetime
    until: datetime
    origin: str


class PromptCache:
    """Entries of one transport; synchronous calls and batches do not share them [3P]."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, _Entry] = {}

    def warm(self, prefix: Prefix, at: datetime, *, other_than: str = "") -> bool:
        """Whether an entry not written by `other_than` was readable at that time."""
        entry = self._entries.get(prefix.key)
        return entry is not None and entry.origin != other_than and entry.since <= at < entry.until

    def use(
        self,
        prefixes: tuple[Prefix, ...],
        at: datetime,
        *,
        hit: Callable[[Prefix], bool],
        origin: str,
    ) -> Counts:
        """Read the longest prefix that `hit` grants and write what follows it."""
        read = max((p.tokens for p in prefixes if hit(p)), default=0)
        writes = {300: 0, 3600: 0}
        done = read
        for prefix in prefixes:
            if prefix.tokens > done:
                writes[prefix.seconds] += prefix.tokens - done
                done = prefix.tokens
            self._keep(prefix, at, origin)
        return Counts(writes[300], writes[3600], read)

    def _keep(self, prefix: Prefix, at: datetime, origin: str) -> None:
        """Write or refresh an entry: using it starts its lifetime again [DOC-A]."""
        until = at + timedelta(seconds=prefix.seconds)
        entry = self._entries.get(prefix.key)
        if entry is None or entry.until <= at:
            self._entries[prefix.key] = _Entry(at, until, origin)
        else:
            entry.until = max(entry.until, until)
