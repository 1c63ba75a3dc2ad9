"""What a token costs. The figures themselves are data: params/prices.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million tokens of one model; a batch costs `batch_factor` of it.

    `write` is for tokens written into the prompt cache for an hour (`write_5m` for five
    minutes), `read` for those read from it. `source` and `date` say where the figures
    come from and when.
    """

    model: str
    input: float
    output: float
    write: float = 0.0
    write_5m: float = 0.0
    read: float = 0.0
    batch_factor: float = 1.0
    source: str = ""
    date: str = ""

    def usd(self, usage: Mapping[str, int], *, batch: bool) -> float:
        """What this usage costs."""
        tokens = usage.get
        written = tokens("cache_creation_input_tokens", 0)
        short = min(tokens("ephemeral_5m_input_tokens", 0), written)
        total = (
            tokens("input_tokens", 0) * self.input
            + tokens("output_tokens", 0) * self.output
            + tokens("cache_read_input_tokens", 0) * self.read
            + (written - short) * self.write
            + short * self.write_5m
        )
        return total * (self.batch_factor if batch else 1.0) / _MILLION

    def usd_uncached(self, usage: Mapping[str, int], *, batch: bool) -> float:
        """What this usage would have cost without the prompt cache."""
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        plain = {
            "input_tokens": sum(usage.get(name, 0) for name in names),
            "output_tokens": usage.get("output_tokens", 0),
        }
        return self.usd(plain, batch=batch)

    @property
    def free(self) -> bool:
        return not (self.input or self.output)
