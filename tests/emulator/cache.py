"""Prompt-cache accounting: what each request writes, reads and pays in full.

Not modelled: the 20-block lookback, and the moment at which a response begins.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
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


#: Lifetimes a breakpoint may ask for. [DOC-A]
LIFETIMES = {"5m": 300, "1h": 3600}
_CANON = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


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

    Blocks count in the order tools, system, messages; the key is the model, the blocks'
    bytes, thinking, effort and format [DOC-A]. A prefix below the model's minimum is
    silently not cached [DOC-A]. At most four breakpoints, 1h ones first [DOC-A].
    """
    prefixes: list[Prefix] = []
    size, parts = 0, []
    blocks = _blocks(params)
    while blocks and blocks[-1][1] is None:
        blocks.pop()
    for block, control in blocks:
        size += block_bytes(block)
        parts.append(block if isinstance(block, str) else block.get("text") or _CANON(block))
        if control is not None:
            prefixes.append(Prefix(tuple(parts), tokens_of(size), _lifetime(control)))
    if not prefixes:
        return ()
    if len(prefixes) > 4:
        raise invalid(
            f"A maximum of 4 blocks with cache_control may be provided. Found {len(prefixes)}."
        )
    if any(a.seconds < b.seconds for a, b in pairwise(prefixes)):
        raise invalid("a ttl='1h' cache_control block must not come after a ttl='5m' block")
    config = _config(params)
    return tuple(
        Prefix((model.id, config, p.key), p.tokens, p.seconds)
        for p in prefixes
        if p.tokens >= model.min_prefix
    )


def _config(params: Mapping[str, Any]) -> bytes:
    """Settings that change the key although they are no part of the prompt [DOC-A].

    Marshalled because a hundred thousand requests may come at once.
    """
    return marshal.dumps([params.get(n) for n in ("thinking", "output_config", "tool_choice")], 0)


def _blocks(params: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Every block with its breakpoint; a top-level cache_control marks the last one [SRC]."""
    blocks = [
        (block, block.get("cache_control") if isinstance(block, dict) else None)
        for block in _plain_blocks(params)
    ]
    if blocks and (automatic := params.get("cache_control")):
        block, own = blocks[-1]
        blocks[-1] = (block, own or automatic)
    return blocks


def _plain_blocks(params: Mapping[str, Any]) -> Iterator[Any]:
    yield from params.get("tools") or ()
    yield from _content(params.get("system"))
    for message in params["messages"]:
        yield from _content(message["content"])


def _content(content: Any) -> list[Any]:
    if content is None:
        return []
    return [content] if isinstance(content, str) else content


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
