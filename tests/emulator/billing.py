"""What a request costs; the 20-block lookback and when a response begins are not modelled."""

import json
import marshal
from base64 import b64decode
from collections.abc import Callable, Hashable, Iterator, Mapping
from datetime import datetime, timedelta
from io import BytesIO
from math import ceil, prod
from typing import Any, NamedTuple

from PIL import Image

from tests.emulator.rules import MODELS, Model, invalid

BYTES_PER_TOKEN = 3.2
#: How long a breakpoint keeps its prefix; five minutes, the other choice, are not modelled. [DOC-A]
HOUR = timedelta(hours=1)


def tokens_of(size: int) -> int:
    """Tokens of a text of `size` UTF-8 bytes; a made-up rule that is the same everywhere [INF]."""
    return ceil(size / BYTES_PER_TOKEN)


def text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _block_text(block: Any) -> str:
    if isinstance(block, str):
        return block
    return block.get("text") or json.dumps(block, sort_keys=True)


def _blocks(params: Mapping[str, Any]) -> Iterator[Any]:
    for content in (params.get("system"), *(m["content"] for m in params["messages"])):
        yield from [content] if isinstance(content, str) else content or ()


def prompt_tokens(params: Mapping[str, Any]) -> int:
    blocks = list(_blocks(params))
    images = [pixels for block in blocks if (pixels := pixels_of(block))]
    texts = (_block_text(block) for block in blocks if not pixels_of(block))
    return tokens_of(sum(map(text_bytes, texts))) + sum(map(image_tokens, images))


def pixels_of(block: Any) -> tuple[int, int] | None:
    """Width and height of an image block, base64 or, in a chat, a data URL; None of another."""
    if not isinstance(block, dict) or block.get("type") not in ("image", "image_url"):
        return None
    url = (block.get("image_url") or {}).get("url") or ""
    data = url.partition(";base64,")[2] or (block.get("source") or {}).get("data") or ""
    try:
        with Image.open(BytesIO(b64decode(data, validate=True))) as image:
            return image.size
    except (ValueError, OSError):
        raise invalid("Could not process image") from None


def image_tokens(pixels: tuple[int, int]) -> int:
    """A token for each square of 28 pixels; larger images are scaled to 1,568 of them and to an
    edge of 1,568 pixels [DOC of 2026, platform.claude.com, vision; 3P for the cap].
    """
    scale = min(1.0, 1568 / max(pixels))
    while (n := prod(ceil(side * scale / 28) for side in pixels)) > 1568:
        scale *= 0.995
    return n


class Prefix(NamedTuple):
    """The prompt up to one breakpoint: what identifies it, and its length."""

    key: Hashable
    tokens: int


def prefixes_of(params: Mapping[str, Any], model: Model) -> tuple[Prefix, ...]:
    """The cacheable prefixes, shortest first; the key is model, blocks, effort, format [DOC-A]."""
    prefixes: list[Prefix] = []
    size, parts = 0, []
    config = marshal.dumps(params.get("output_config"), 0)  # quick, for many requests at once
    for block in _blocks(params):
        parts.append(_block_text(block))
        size += text_bytes(parts[-1])
        if not isinstance(block, str) and (control := block.get("cache_control")) is not None:
            if control != {"type": "ephemeral", "ttl": "1h"}:
                raise invalid("cache_control: type must be 'ephemeral' and ttl '1h'")
            prefixes.append(Prefix((model.id, config, tuple(parts)), tokens_of(size)))
    return tuple(prefix for prefix in prefixes if prefix.tokens >= model.min_prefix)


class Counts(NamedTuple):
    write_1h: int = 0
    read: int = 0


class PromptCache:
    """Entries of one transport; synchronous calls and batches do not share them [3P]."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, tuple[datetime, datetime, str]] = {}  # since, until, origin

    def warm(self, prefix: Prefix, at: datetime, *, other_than: str = "") -> bool:
        """Whether an entry not written by `other_than` was readable at that time."""
        since, until, origin = self._entries.get(prefix.key, (at, at, ""))
        return origin != other_than and since <= at < until

    def use(
        self, prefixes: tuple[Prefix, ...], at: datetime, *, hit: Callable[[Prefix], bool],
        origin: str,
    ) -> Counts:  # fmt: skip
        """Read the longest prefix that `hit` grants and write what follows it."""
        read = max((p.tokens for p in prefixes if hit(p)), default=0)
        longest = max((p.tokens for p in prefixes), default=0)
        for prefix in prefixes:
            self._keep(prefix, at, origin)
        return Counts(longest - read, read)

    def _keep(self, prefix: Prefix, at: datetime, origin: str) -> None:
        """Write or refresh an entry: using it starts its lifetime again [DOC-A]."""
        end = at + HOUR
        since, until, by = self._entries.get(prefix.key, (at, at, origin))
        kept = (since, max(until, end), by) if until > at else (at, end, origin)
        self._entries[prefix.key] = kept


class Usage(NamedTuple):
    """The token counts of one processed request; `output` includes `thinking` [SRC]."""

    input: int
    output: int
    write_1h: int = 0
    read: int = 0
    thinking: int = 0
    tier: str = "standard"

    def as_dict(self) -> dict[str, object]:
        """The usage object of a message; total prompt = input + creation + read [SRC]."""
        written = {"ephemeral_1h_input_tokens": self.write_1h}
        return {
            "input_tokens": self.input, "output_tokens": self.output,
            "cache_creation_input_tokens": self.write_1h, "cache_read_input_tokens": self.read,
            "cache_creation": {"ephemeral_5m_input_tokens": 0} | written,
            "output_tokens_details": {"thinking_tokens": self.thinking},
            "service_tier": self.tier, "inference_geo": "global",
        }  # fmt: skip

    def usd(self, model: str) -> float:
        """What the service charges: a batch pays half [DOC-A], a model of one's own nothing."""
        rates = MODELS[model].price if model in MODELS else [0.0] * 4
        full = sum(n * rate for n, rate in zip(self[:4], rates, strict=True)) / 1_000_000
        return full / 2 if self.tier == "batch" else full


class BillingRow(NamedTuple):
    """One accepted request, priced once it is billed; `digest` identifies what was asked."""

    transport: str
    batch_id: str
    custom_id: str
    digest: str
    counts: Usage = Usage(0, 0)
    usd: float = 0.0


class Ledger:
    """Accepted and billed requests in order; reading `rows` first ends the batches that are due."""

    def __init__(self, settle: Callable[[], None]) -> None:
        self.accepted: list[BillingRow] = []
        self._rows: list[BillingRow] = []
        self._settle = settle

    @property
    def rows(self) -> list[BillingRow]:
        self._settle()
        return list(self._rows)

    @property
    def total_usd(self) -> float:
        return sum(row.usd for row in self.rows)

    def bill(self, request: BillingRow, model: str, usage: Usage) -> None:
        self._rows.append(request._replace(counts=usage, usd=usage.usd(model)))
