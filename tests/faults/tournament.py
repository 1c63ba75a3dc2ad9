"""The small tournament that every scenario judges: two rubrics, so pre-warming matters."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from itertools import combinations
from typing import Any, Literal, cast

import anthropic

from arena_kit.judging.asking.judge_pairs import Material
from arena_kit.judging.asking.options import AskOptions, Backoff
from arena_kit.judging.judges.anthropic import AnthropicBatches, AnthropicMessages, client_of
from arena_kit.judging.judges.base import Price
from arena_kit.judging.judges.openai_compatible import ChatJudge
from arena_kit.judging.pairs.prompts import Pair, Prompt, Response
from arena_kit.judging.verdicts.records import Asked
from arena_kit.judging.verdicts.rendering import Rubric

Transport = Literal["batches", "messages", "chat"]

JUDGES: dict[Transport, type[Any]] = {
    "batches": AnthropicBatches,
    "messages": AnthropicMessages,
    "chat": ChatJudge,
}
MODEL = "claude-opus-5-5"
PRICE = Price(
    model=MODEL, input=4, output=20, write=8, write_5m=5, read=0.2, batch_factor=0.5
)  # fmt: skip
#: Long enough for the outages and the lateness that scenarios script, short enough for hundreds.
BACKOFF = Backoff(first_wait=0.01, longest_wait=0.1, grace=1.2, patience=30)
#: What is booked for a request whose result does not say what it cost, in US dollars.
FORECAST = 0.25
#: Live calls at once.
CONCURRENCY = 4
#: How long a call may hang before the client gives it up: one of a batch can be looked up later,
#: while a live one that a busy machine delays would be in doubt.
TIMEOUT, LIVE_TIMEOUT = 0.4, 3.0
#: The share of answers that are not a plain verdict.
SHARES = {
    "garbage": 0.12,
    "refuse_empty": 0.05,
    "refuse_text": 0.03,
    "thinking_only": 0.05,
    "lowercase": 0.05,
    "prose": 0.05,
    "tie": 0.1,
}

_ENTRANTS = ("ash", "beech", "cherry")
_PROMPTS = ("q1", "q2")
_TEXTS = {
    "tone": "Prefer the calmer response, and say which words make it so. ",
    "rigour": "Prefer the response whose claims could be checked, and say how. ",
}

PAIRS = [
    Pair(dimension=dimension, prompt_id=prompt_id, entrant_a=a, entrant_b=b)
    for dimension in _TEXTS
    for prompt_id in _PROMPTS
    for a, b in combinations(_ENTRANTS, 2)
]
#: Requests of one asking, and of the batch that follows the pre-warming.
N_REQUESTS = 2 * len(PAIRS)
N_BULK = N_REQUESTS - len(_TEXTS)


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


OPTIONS = AskOptions(
    run="matrix", prewarm=True, backoff=BACKOFF, budget=cast("Any", FixedBudget(lambda _: FORECAST))
)


def material(seed: int) -> Material:
    """The texts; another seed gives other cache keys."""
    return Material(
        prompts={p: Prompt(prompt_id=p, text=f"Question {p}?", source="plain") for p in _PROMPTS},
        responses={
            (e, p): Response(entrant_id=e, prompt_id=p, response_text=f"{e} says {len(e)} to {p}.")
            for e in _ENTRANTS
            for p in _PROMPTS
        },
        rubrics={d: Rubric(dimension=d, version="1", text=30 * t) for d, t in _TEXTS.items()},
        salt=f"salt {seed}".encode(),
    )


@cache
def client() -> anthropic.Anthropic:
    """The client that runs use, of no service yet; made once, for it loads certificates."""
    return client_of("sk-test", None)


def judge_of(kind: type[Any], base_url: str) -> Any:
    """A judge of the given class, which is one of `JUDGES` or a variant of it."""
    shared: dict[str, Any] = {"model": MODEL, "price": PRICE, "max_tokens": 4096}
    if issubclass(kind, ChatJudge):
        address = {"base_url": f"{base_url}/v1", "timeout": LIVE_TIMEOUT}
        shape = {"temperature": None, "structured": "json_schema"}
        return kind(**shared, **address, **shape, concurrency=CONCURRENCY)
    shared |= {"effort": "", "client": client().with_options(base_url=base_url, timeout=TIMEOUT)}
    if issubclass(kind, AnthropicMessages):
        shared["client"] = client().with_options(base_url=base_url, timeout=LIVE_TIMEOUT)
        return kind(**shared, concurrency=CONCURRENCY, per_minute=60_000)
    return kind(**shared)
