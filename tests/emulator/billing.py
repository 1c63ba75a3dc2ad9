"""The ledger: every request the service accepted, and what it charged for which."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.emulator.catalogue import MODELS


class Usage(NamedTuple):
    """The token counts of one processed request; `output` includes `thinking` [SRC]."""

    input: int
    output: int
    write_5m: int = 0
    write_1h: int = 0
    read: int = 0
    thinking: int = 0
    tier: str = "standard"

    def as_dict(self) -> dict[str, object]:
        """The usage object of a message; total prompt = input + creation + read [SRC]."""
        return {
            "input_tokens": self.input,
            "cache_creation_input_tokens": self.write_5m + self.write_1h,
            "cache_read_input_tokens": self.read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.write_5m,
                "ephemeral_1h_input_tokens": self.write_1h,
            },
            "output_tokens": self.output,
            "output_tokens_details": {"thinking_tokens": self.thinking},
            "service_tier": self.tier,
            "inference_geo": "global",
        }


def price(model: str, usage: Usage) -> float:
    """What the service charges: the batch tier pays half of every figure [DOC-A].

    A model that is not in the catalogue (a chat server's own) costs nothing.
    """
    if (known := MODELS.get(model)) is None:
        return 0.0
    rate = known.price
    full = (
        usage.input * rate.input
        + usage.output * rate.output
        + usage.write_5m * rate.write_5m
        + usage.write_1h * rate.write_1h
        + usage.read * rate.read
    ) / 1_000_000
    return full / 2 if usage.tier == "batch" else full


class Accepted(NamedTuple):
    """A request that entered the service, billed or not."""

    transport: str
    batch_id: str | None
    custom_id: str | None
    digest: str


class BillingRow(NamedTuple):
    """One billed request; `digest` identifies its model, system and messages."""

    transport: str
    batch_id: str | None
    custom_id: str | None
    digest: str
    model: str
    counts: Usage
    usd: float


class Ledger:
    """Accepted and billed requests in order.

    Work goes on whether or not anyone looks, so reading `rows` first ends the batches
    that are due.
    """

    def __init__(self, settle: Callable[[], None]) -> None:
        self.accepted: list[Accepted] = []
        self._rows: list[BillingRow] = []
        self._settle = settle

    @property
    def rows(self) -> list[BillingRow]:
        self._settle()
        return list(self._rows)

    @property
    def total_usd(self) -> float:
        return sum(row.usd for row in self.rows)

    def bill(self, request: Accepted, model: str, usage: Usage) -> None:
        """Charge one processed request."""
        self._rows.append(BillingRow(*request, model, usage, price(model, usage)))
