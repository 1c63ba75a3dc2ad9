"""The small tournament that every scenario judges: two rubrics, so pre-warming matters."""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import anthropic

from arena_kit.judging.asking.judge_pairs import Material
from arena_kit.judging.asking.options import AskOptions, Backoff
from arena_kit.judging.judges.anthropic import AnthropicBatches, AnthropicMessages, client_of
from arena_kit.judging.judges.openai_compatible import ChatJudge
from arena_kit.judging.verdicts.records import Asked
from tests.samples import OPUS, TWO_DIMENSIONS, TWO_RUBRICS

Transport = Literal["batches", "messages", "chat"]

JUDGES: dict[Transport, type[Any]] = {
    "batches": AnthropicBatches, "messages": AnthropicMessages, "chat": ChatJudge,
}  # fmt: skip
PAIRS = TWO_DIMENSIONS
#: Long enough for the outages and the lateness that scenarios script, short enough for hundreds.
BACKOFF = Backoff(first_wait=0.01, longest_wait=0.1, grace=1.2, patience=30)
#: What is booked for a request whose result does not say what it cost, in US dollars.
FORECAST = 0.25
#: Live calls at once.
CONCURRENCY = 4
#: How long a call may hang before the client gives it up: one of a batch can be looked up later,
#: while a live one that a busy machine delays would be in doubt.
TIMEOUT, LIVE_TIMEOUT = 0.4, 3.0
#: Requests of the batch that follows the pre-warming, one of each rubric.
N_BULK = 2 * len(PAIRS) - len(TWO_RUBRICS.rubrics)


class FixedBudget:
    """A budget that forecasts every request at so many dollars, and may refuse some."""

    purpose = "judge"

    def __init__(
        self,
        usd: Callable[[Asked], float],
        refuse: Callable[[Collection[Asked]], None] = lambda _: None,
    ) -> None:
        self.usd, self.refuse = usd, refuse

    def allow(self, requests: Collection[Asked], _run: str) -> None:
        self.refuse(requests)

    def forecast_each(self, requests: Collection[Asked]) -> list[float]:
        return [self.usd(request) for request in requests]


BUDGET: Any = FixedBudget(lambda _: FORECAST)
OPTIONS = AskOptions(run="matrix", prewarm=True, backoff=BACKOFF, budget=BUDGET)


def material(seed: int) -> Material:
    """The texts; another seed gives other cache keys."""
    return replace(TWO_RUBRICS, salt=f"salt {seed}".encode())


@cache
def client() -> anthropic.Anthropic:
    """The client that runs use, of no service yet; made once, for it loads certificates."""
    return client_of("sk-test", None)


def judge_of(kind: type[Any], base_url: str) -> Any:
    """A judge of the given class, which is one of `JUDGES` or a variant of it."""
    shared: dict[str, Any] = {"model": OPUS.model, "price": OPUS, "max_tokens": 4096}
    if issubclass(kind, ChatJudge):
        shared |= {"base_url": f"{base_url}/v1", "timeout": LIVE_TIMEOUT, "temperature": None}
        return kind(**shared, structured="json_schema", concurrency=CONCURRENCY)
    live = issubclass(kind, AnthropicMessages)
    timeout = LIVE_TIMEOUT if live else TIMEOUT
    own = client().with_options(base_url=base_url, timeout=timeout)
    pace = {"concurrency": CONCURRENCY, "per_minute": 60_000} if live else {}
    return kind(**shared, **pace, effort="", client=own)
