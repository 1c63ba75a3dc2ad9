"""Does the service behave as the emulator assumes? A few cents, only with a key.

    make live-probe

Each check names the assumption, what was seen, and whether they agree. Without a key
nothing is sent. Point ANTHROPIC_BASE_URL at the emulator to try the probe itself.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import anthropic

MODEL = "claude-sonnet-5-5"
LONGEST = float(os.environ.get("ARENA_KIT_PROBE_MINUTES", "30")) * 60
PREFIX = "You compare two answers and name the better one. Fairness rule number {}: judge words. "
SCHEMA = {
    "type": "object",
    "properties": {"justification": {"type": "string"}, "winner": {"enum": ["A", "B", "tie"]}},
    "required": ["justification", "winner"],
    "additionalProperties": False,
}

Check = tuple[str, str, bool]


def params(**changes: Any) -> dict[str, Any]:
    """A small judge request with a prefix long enough to be cached."""
    text = "".join(PREFIX.format(i) for i in range(90))
    return {
        "model": MODEL,
        "max_tokens": 600,
        "system": [
            {"type": "text", "text": text, "cache_control": {"type": "ephemeral", "ttl": "1h"}}
        ],
        "messages": [{"role": "user", "content": "A: two plus two is four. B: it is five."}],
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
        **changes,
    }


def status_of(call: Callable[[], object]) -> int:
    """The status that a call fails with, 200 when it does not."""
    try:
        call()
    except anthropic.APIStatusError as error:
        return error.status_code
    return 200


def finished(client: anthropic.Anthropic, batch_id: str) -> Any:
    """The batch when it has ended, within the time allowed."""
    deadline = time.monotonic() + LONGEST
    while True:
        batch = client.messages.batches.retrieve(batch_id)
        if batch.processing_status == "ended" or time.monotonic() > deadline:
            return batch
        time.sleep(5 if LONGEST > 60 else 0.1)


def one(client: anthropic.Anthropic, name: str, **changes: Any) -> tuple[Any, Any, Any]:
    """A batch of one request: as created, as ended, and its result."""
    requests: Any = [{"custom_id": name, "params": params(**changes)}]
    made = client.messages.batches.create(requests=requests)
    ended = finished(client, made.id)
    results = list(client.messages.batches.results(made.id)) if ended.results_url else [None]
    return made, ended, results[0]


def model_checks(client: anthropic.Anthropic) -> Iterator[Check]:
    """What is asked before anything is spent."""
    model = client.models.retrieve(MODEL)
    yield "a model has a lifecycle", str(model.lifecycle), model.lifecycle == "active"
    status = status_of(lambda: client.models.retrieve("claude-none-0"))
    yield "an unknown model is a 404", str(status), status == 404
    counted = {key: value for key, value in params().items() if key != "max_tokens"}
    n = client.messages.count_tokens(**counted).input_tokens
    yield "count_tokens takes system and output_config", f"{n} tokens", n > 512
    body = {"temperature": 0}
    status = status_of(lambda: client.messages.create(**params(), extra_body=body))
    yield "temperature is refused", str(status), status == 400


def create_checks(client: anthropic.Anthropic) -> Iterator[Check]:
    """What a batch refuses at once."""
    row: Any = {"custom_id": "same", "params": params()}
    status = status_of(lambda: client.messages.batches.create(requests=[row, row]))
    yield "a custom_id twice is a 400", str(status), status == 400
    bad: Any = {"custom_id": "a|b", "params": params()}
    status = status_of(lambda: client.messages.batches.create(requests=[bad]))
    yield "a custom_id with a bar is a 400", str(status), status == 400


def batch_checks(client: anthropic.Anthropic) -> Iterator[Check]:
    """The life of a batch, and what a second one reads from the first one's cache."""
    made, ended, result = one(client, "probe-first")
    counts = made.request_counts
    yield "counts are all `processing` at first", str(counts.processing), counts.processing == 1
    there, here = urlsplit(ended.results_url or ""), urlsplit(str(client.base_url))
    yield "results_url is of the same origin", there.netloc, there.netloc == here.netloc
    yield "custom_id comes back", str(result.custom_id), result.custom_id == "probe-first"
    usage = result.result.message.usage
    written = usage.cache_creation_input_tokens or 0
    parts = usage.cache_creation
    summed = parts is not None and written == (
        parts.ephemeral_1h_input_tokens + parts.ephemeral_5m_input_tokens
    )
    yield "written tokens are 5m plus 1h", str(written), summed
    yield "service_tier says batch", str(usage.service_tier), usage.service_tier == "batch"
    _, _, second = one(client, "probe-second")
    read = second.result.message.usage.cache_read_input_tokens or 0
    yield "a one-request batch warms the next batch", f"{read} tokens read", read > 0
    _, _, failed = one(client, "probe-bad", temperature=0)
    kind = str(failed.result.type)
    yield "a bad request is an `errored` line later", kind, kind == "errored"


def main() -> int:
    """Print a line per assumption; 1 when one does not hold."""
    if not os.environ.get("ANTHROPIC_API_KEY"):
        print("skipped: live-probe needs ANTHROPIC_API_KEY, and spends a few cents")
        return 0
    client = anthropic.Anthropic(max_retries=0)
    wrong = 0
    for checks in (model_checks, create_checks, batch_checks):
        for assumption, seen, agrees in checks(client):
            wrong += not agrees
            print(f"{'agrees ' if agrees else 'DIFFERS'}  {assumption}: {seen}", flush=True)
    print(f"{wrong} assumptions differ" if wrong else "all assumptions hold")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
