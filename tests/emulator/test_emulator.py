"""The contract of the stand-in for the service, seen through the real SDK.

What the package meets of it is tested where the package meets it; here stand the rules on which
those tests rely.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from typing import Any

import anthropic
import httpx2
import pytest

from tests.emulator import Emulator, Fault, Reply, digest_of
from tests.samples import ROOT

MODEL = "claude-opus-5-5"
RUBRIC = "Judge the facts and nothing else, whatever the length may be. " * 60


@cache
def pool() -> anthropic.Anthropic:
    """One client for all tests, since each new one loads certificates anew."""
    return anthropic.Anthropic(api_key="any", base_url="http://127.0.0.1:9")


def connect(emulator: Emulator, retries: int = 0, **options: Any) -> anthropic.Anthropic:
    return pool().with_options(base_url=emulator.base_url, max_retries=retries, **options)


@pytest.fixture
def client(emulator: Emulator) -> anthropic.Anthropic:
    return connect(emulator)


def asking(text: str = "Why is the sky blue?", **changes: Any) -> dict[str, Any]:
    user = [{"role": "user", "content": text}]
    params: dict[str, Any] = {"model": MODEL, "max_tokens": 2000, "messages": user}
    return {k: v for k, v in (params | changes).items() if v is not None}


def cached(text: str = "Why?", **changes: Any) -> dict[str, Any]:
    control = {"type": "ephemeral", "ttl": "1h"}
    system = [{"type": "text", "text": RUBRIC, "cache_control": control}]
    return asking(text, **({"system": system} | changes))


def requests(*params: dict[str, Any]) -> Any:
    return [{"custom_id": f"r{index}", "params": p} for index, p in enumerate(params)]


def run(client: anthropic.Anthropic, *params: dict[str, Any]) -> dict[str, Any]:
    """Results of a batch by custom_id."""
    batch = client.messages.batches.create(requests=requests(*params))
    return {line.custom_id: line.result for line in client.messages.batches.results(batch.id)}


# The life of a batch


def test_a_batch_lives_from_create_to_delete(
    emulator: Emulator, client: anthropic.Anthropic
) -> None:
    """Create, list, retrieve, results and delete give what the SDK expects of each; it is billed
    once, whoever reads it how often.
    """
    batches = client.messages.batches
    made = batches.create(requests=requests(*(asking(f"Why {i}?") for i in range(30))))
    assert (made.processing_status, made.results_url, made.ended_at) == ("in_progress", None, None)
    assert (made.expires_at - made.created_at).total_seconds() == 86400
    assert [batch.id for batch in batches.list()] == [made.id]
    seen = batches.retrieve(made.id)
    assert seen.results_url == f"{emulator.base_url}/v1/messages/batches/{made.id}/results"
    lines, again = ([line.custom_id for line in batches.results(made.id)] for _ in range(2))
    assert sorted(lines) == sorted(again) == sorted(f"r{i}" for i in range(30))
    assert lines != again, "the order is not to be relied on"
    assert len(emulator.billing.rows) == len(emulator.billing.accepted) == 30
    assert emulator.billing.rows[0].digest == digest_of(asking("Why 0?"))
    assert batches.delete(made.id).type == "message_batch_deleted"
    with pytest.raises(anthropic.NotFoundError):
        batches.retrieve(made.id)


def test_counts_are_frozen_until_the_end_and_results_go_after_29_days() -> None:
    """A running batch shows all requests as processing, and no results."""
    with Emulator(batch_seconds=3600) as emulator:
        batches = connect(emulator).messages.batches
        made = batches.create(requests=requests(asking(), asking(temperature=0)))
        emulator.clock.advance(1800)
        running = batches.retrieve(made.id)
        assert (running.request_counts.processing, running.results_url) == (2, None)
        emulator.clock.advance(1801)
        counts = batches.retrieve(made.id).request_counts
        assert (counts.processing, counts.succeeded, counts.errored) == (0, 1, 1)
        emulator.clock.advance(days=29)
        assert batches.retrieve(made.id).results_url is None


def test_what_is_cancelled_or_expired_is_not_billed() -> None:
    """Cancelling passes through canceling; what is unfinished after a day expires."""
    with Emulator(batch_seconds=48 * 3600) as emulator:
        batches = connect(emulator).messages.batches
        ids = [batches.create(requests=requests(*[asking()] * 10)).id for _ in range(2)]
        assert batches.cancel(ids[0]).processing_status == "canceling"
        emulator.clock.advance(hours=24.1)
        kinds = [
            Counter(line.result.type for line in batches.results(batches.retrieve(name).id))
            for name in ids
        ]
        assert kinds == [{"succeeded": 5, "canceled": 5}, {"succeeded": 5, "expired": 5}]
        assert len(emulator.billing.rows) == 10


def test_pages_run_from_new_to_old(client: anthropic.Anthropic) -> None:
    """Listing follows after_id to the oldest batch."""
    made = [client.messages.batches.create(requests=requests(asking())).id for _ in range(5)]
    assert [batch.id for batch in client.messages.batches.list(limit=2)] == made[::-1]


# Refusals


def test_a_credential_and_a_version_are_needed(emulator: Emulator) -> None:
    """Bearer token and x-api-key both open the door; neither, or no version, does not."""
    url, version = f"{emulator.base_url}/v1/messages/batches", {"anthropic-version": "2026-10-21"}
    for headers in ({"authorization": "Bearer k"}, {"x-api-key": "k"}):
        assert httpx2.get(url, headers=version | headers).headers["request-id"].startswith("req_")
        assert httpx2.get(url, headers=headers).status_code == 400
    assert httpx2.get(url, headers=version).status_code == 401
    emulator.settings.key = "right"
    with pytest.raises(anthropic.AuthenticationError):
        connect(emulator).models.list()


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ([], "at least 1 item"),
        (requests(asking()) * 2, "not unique"),
        ([{"custom_id": "a b", "params": asking()}], "match pattern"),
        ([{"custom_id": "x" * 65, "params": asking()}], "match pattern"),
        (requests(*[asking()] * 4), "at most 3"),
        (requests(asking("x" * 3000)), "maximum size"),
    ],
)
def test_a_malformed_batch_is_refused_at_once(made: Any, message: str) -> None:
    """Empty or large batches and bad custom_ids are refused, and nothing is accepted."""
    with Emulator(max_batch_bytes=2000, max_batch_requests=3) as emulator:
        with pytest.raises(anthropic.APIStatusError, match=message):
            connect(emulator).messages.batches.create(requests=made)
        assert not emulator.billing.accepted


OPEN_SCHEMA = {"format": {"type": "json_schema", "schema": {"type": "object"}}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"temperature": 0}, "temperature: This parameter is not supported"),
        ({"extra_body": {}}, "extra_body: Extra inputs are not permitted"),
        ({"output_config": {"effort": "huge"}}, "effort"),
        ({"output_config": OPEN_SCHEMA}, "additionalProperties"),
        ({"max_tokens": 200_000}, "max_tokens: 200000 > 128000"),
        ({"model": "claude-3-opus-20240229"}, "model: claude-3-opus"),
    ],
)
def test_bad_params_fail_late_in_a_batch_and_at_once_alone(
    emulator: Emulator, client: anthropic.Anthropic, changes: dict[str, Any], message: str
) -> None:
    """The same complaint is an errored line of a batch and a status of a single message."""
    params = asking(**changes)
    results = run(client, params, asking())
    assert (results["r0"].type, results["r1"].type) == ("errored", "succeeded")
    assert message in results["r0"].error.error.message
    with pytest.raises(anthropic.APIStatusError, match=re.escape(message)):
        client.post("/v1/messages", body=params, cast_to=object)
    assert [row.custom_id for row in emulator.billing.rows] == ["r1"]


# Cache and prices


def test_a_request_is_priced_as_by_hand() -> None:
    """By hand: 1,163 tokens written for an hour, 8 plain, 100 put out; a batch pays half, and a
    second message reads what the first wrote. Batches do not read what messages wrote.
    """
    with Emulator(behaviour=lambda params: Reply(text="x" * 32, thinking_tokens=90)) as emulator:
        client = connect(emulator)
        usages = [client.messages.create(**cached("y" * 27)).usage for _ in range(2)]
        assert [(u.cache_creation_input_tokens, u.cache_read_input_tokens) for u in usages] == [
            (1163, 0),
            (0, 1163),
        ]
        assert (usages[0].input_tokens, usages[0].output_tokens) == (8, 90 + 10)
        run(client, cached("y" * 27))
        wrote, read, batch = emulator.billing.rows
        assert wrote.usd == pytest.approx((1163 * 8 + 8 * 4 + 100 * 20) / 1e6)
        assert read.usd == pytest.approx((1163 * 0.20 + 8 * 4 + 100 * 20) / 1e6)
        assert batch.usd == pytest.approx(wrote.usd / 2)
        counted = {k: v for k, v in cached("y" * 27).items() if k != "max_tokens"}
        assert client.messages.count_tokens(**counted).input_tokens == 1163 + 8


# Faults


@pytest.mark.parametrize(
    ("fault", "error", "left"),
    [
        ({"kind": "drop"}, anthropic.APIConnectionError, 1),
        ({"kind": "drop_before"}, anthropic.APIConnectionError, 0),
        ({"kind": "hang", "seconds": 20}, anthropic.APITimeoutError, 1),
        ({"kind": "status", "status": 529}, anthropic.OverloadedError, 0),
        ({"kind": "status_after", "status": 504}, anthropic.GatewayTimeoutError, 1),
        ({"kind": "spend_cap"}, anthropic.RateLimitError, 0),
        ({"kind": "usage_limit"}, anthropic.BadRequestError, 0),
    ],
)
def test_a_create_that_fails_may_leave_a_batch(
    emulator: Emulator, fault: dict[str, Any], error: type[Exception], left: int
) -> None:
    """The SDK's error does not say whether the batch exists and will be billed."""
    emulator.faults.add(Fault(on="create", **fault))
    with pytest.raises(error):
        connect(emulator, timeout=0.5).messages.batches.create(requests=requests(asking()))
    assert len(emulator.batches) == len(emulator.billing.rows) == left


def test_default_retries_pay_twice(emulator: Emulator) -> None:
    """With its default retries one create call leaves two batches."""
    emulator.faults.add(Fault(on="create", kind="drop"))
    connect(emulator, retries=2).messages.batches.create(requests=requests(asking()))
    assert len(emulator.batches) == len(emulator.billing.rows) == 2


@pytest.mark.parametrize(
    ("kind", "lines", "error"),
    [("truncate", 20, httpx2.RemoteProtocolError), ("half_line", 39, json.JSONDecodeError)],
)
def test_results_break_off(
    emulator: Emulator, client: anthropic.Anthropic, kind: str, lines: int, error: type[Exception]
) -> None:
    """A cut stream yields its whole lines, then raises what is no SDK error; then all is well."""
    batches = client.messages.batches
    made = batches.create(requests=requests(*(asking(f"Why {i}?") for i in range(40))))
    emulator.faults.add(Fault(on="results", kind=kind))
    seen: list[str] = []
    with pytest.raises(error):
        seen.extend(line.custom_id for line in batches.results(made.id))
    assert len(seen) == lines
    assert len([*batches.results(made.id)]) == 40


def test_an_unknown_result_looks_succeeded_to_the_sdk(
    emulator: Emulator, client: anthropic.Anthropic
) -> None:
    """The SDK builds its success class for a type it does not know: only `.type` tells."""
    emulator.faults.add(Fault(on="item", kind="unknown_type"))
    result = run(client, asking())["r0"]
    assert (type(result).__name__, result.type) == ("MessageBatchSucceededResult", "postponed")


def test_the_same_seed_gives_the_same_service_and_shares_no_code_with_the_package() -> None:
    """The stand-in is an independent witness."""
    said = []
    for _ in range(2):
        with Emulator(seed=7, behaviour="mixed") as emulator:
            results = run(connect(emulator), *(asking(f"Why {i}?") for i in range(20)))
            said.append({name: result.message.content for name, result in results.items()})
    assert said[0] == said[1]
    for file in (ROOT / "tests" / "emulator").glob("*.py"):
        if file.name != "test_emulator.py":
            assert "arena_kit" not in re.sub(r"ARENA_KIT_\w+", "", file.read_text(encoding="utf-8"))
