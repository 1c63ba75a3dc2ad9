"""The contract of the stand-in, seen through the real SDK: the rules on which other tests rely."""

import json
from base64 import b64encode
from collections import Counter
from functools import cache
from typing import Any

import anthropic
import httpx2
import pytest

from tests.emulator import Emulator, Fault, Reply, digest_of
from tests.emulator.__main__ import main
from tests.samples import ROOT, picture

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


def asking(text: Any = "Why is the sky blue?", **changes: Any) -> dict[str, Any]:
    user = [{"role": "user", "content": text}]
    return {"model": "claude-opus-5-5", "max_tokens": 2000, "messages": user} | changes


def requests(*params: dict[str, Any]) -> Any:
    return [{"custom_id": f"r{index}", "params": p} for index, p in enumerate(params)]


def run(client: anthropic.Anthropic, *params: dict[str, Any]) -> dict[str, Any]:
    batch = client.messages.batches.create(requests=requests(*params))
    return {line.custom_id: line.result for line in client.messages.batches.results(batch.id)}


def test_a_batch_from_create_to_results(emulator: Emulator, client: anthropic.Anthropic) -> None:
    """It is listed, newest first, and billed once, whoever reads it how often."""
    batches = client.messages.batches
    older = batches.create(requests=requests(asking("Before?"))).id
    made = batches.create(requests=requests(*(asking(f"Why {i}?") for i in range(30))))
    assert (made.processing_status, made.results_url, made.ended_at) == ("in_progress", None, None)
    assert (made.expires_at - made.created_at).total_seconds() == 86400
    assert [batch.id for batch in batches.list(limit=1)] == [made.id, older]
    seen = batches.retrieve(made.id)
    assert seen.results_url == f"{emulator.base_url}/v1/messages/batches/{made.id}/results"
    lines, again = ([line.custom_id for line in batches.results(made.id)] for _ in range(2))
    assert sorted(lines) == sorted(again) == sorted(f"r{i}" for i in range(30))
    assert lines != again, "the order is not to be relied on"
    assert len(emulator.billing.rows) == len(emulator.billing.accepted) == 31
    assert emulator.billing.rows[1].digest == digest_of(asking("Why 0?"))


def test_time_ends_batches_and_unfinished_requests_are_not_billed() -> None:
    """What is cancelled or unfinished after a day is not billed; results go after 29 days."""
    with Emulator(batch_seconds=48 * 3600) as emulator:
        batches = connect(emulator).messages.batches
        ids = [batches.create(requests=requests(*[asking()] * 10)).id for _ in range(2)]
        assert batches.retrieve(ids[0]).request_counts.processing == 10
        assert batches.cancel(ids[0]).processing_status == "canceling"
        emulator.clock.advance(hours=24.1)
        kinds = [Counter(line.result.type for line in batches.results(name)) for name in ids]
        assert kinds == [{"succeeded": 5, "canceled": 5}, {"succeeded": 5, "expired": 5}]
        counts = batches.retrieve(ids[1]).request_counts
        assert (counts.processing, counts.succeeded, counts.expired) == (0, 5, 5)
        assert len(emulator.billing.rows) == 10
        emulator.clock.advance(days=29)
        assert batches.retrieve(ids[0]).results_url is None


def test_a_request_is_priced_as_by_hand() -> None:
    """1,163 tokens written for an hour, then read, 8 plain, 100 put out; a batch pays half."""
    control = {"type": "ephemeral", "ttl": "1h"}
    system = [{"type": "text", "text": RUBRIC, "cache_control": control}]
    params = asking("y" * 27, system=system)
    with Emulator(behaviour=lambda params: Reply(text="x" * 32, thinking_tokens=90)) as emulator:
        client = connect(emulator)
        usages = [client.messages.create(**params).usage for _ in range(2)]
        cached = [(u.cache_creation_input_tokens, u.cache_read_input_tokens) for u in usages]
        assert cached == [(1163, 0), (0, 1163)]
        assert (usages[0].input_tokens, usages[0].output_tokens) == (8, 90 + 10)
        run(client, params)
        wrote, read, batch = emulator.billing.rows
        assert wrote.usd == pytest.approx((1163 * 8 + 8 * 4 + 100 * 20) / 1e6)
        assert read.usd == pytest.approx((1163 * 0.20 + 8 * 4 + 100 * 20) / 1e6)
        assert batch.usd == pytest.approx(wrote.usd / 2), "batches do not read what messages wrote"
        del params["max_tokens"]
        assert client.messages.count_tokens(**params).input_tokens == 1163 + 8


@pytest.mark.parametrize(
    ("fault", "error", "left"),
    [
        ({"kind": "drop"}, anthropic.APIConnectionError, 1),
        ({"kind": "drop_before"}, anthropic.APIConnectionError, 0),
        ({"kind": "hang", "seconds": 20}, anthropic.APITimeoutError, 1),
        ({"kind": "status", "status": 529}, anthropic.OverloadedError, 0),
        ({"kind": "status_after", "status": 504}, anthropic.GatewayTimeoutError, 1),
        ({"kind": "spend_cap"}, anthropic.RateLimitError, 0),
    ],
)
def test_a_create_that_fails_may_leave_a_batch(
    emulator: Emulator, fault: dict[str, Any], error: type[Exception], left: int
) -> None:
    """The SDK's error does not say whether the batch exists; its retries may make two."""
    emulator.faults.add(Fault(on="create", **fault))
    with pytest.raises(error):
        connect(emulator, timeout=0.5).messages.batches.create(requests=requests(asking()))
    assert len(emulator.batches) == len(emulator.billing.rows) == left
    if fault == {"kind": "drop"}:
        emulator.faults.add(Fault(on="create", **fault))
        connect(emulator, retries=2).messages.batches.create(requests=requests(asking()))
        assert len(emulator.batches) == len(emulator.billing.rows) == left + 2


def test_results_break_off_or_are_unknown(emulator: Emulator, client: anthropic.Anthropic) -> None:
    """A cut stream gives its whole lines, then raises what is no SDK error; only `.type` tells."""
    batches = client.messages.batches
    made = batches.create(requests=requests(*(asking(f"Why {i}?") for i in range(40))))
    cuts: dict[str, tuple[int, type[Exception]]] = {
        "truncate": (20, httpx2.RemoteProtocolError),
        "half_line": (39, json.JSONDecodeError),
    }
    for kind, (lines, error) in cuts.items():
        emulator.faults.add(Fault(on="results", kind=kind))
        seen: list[str] = []
        with pytest.raises(error):
            seen.extend(line.custom_id for line in batches.results(made.id))
        assert (len(seen), len([*batches.results(made.id)])) == (lines, 40)
    emulator.faults.add(Fault(on="item", kind="unknown_type"))
    result = run(client, asking())["r0"]
    assert (type(result).__name__, result.type) == ("MessageBatchSucceededResult", "postponed")


def test_a_used_port_is_a_sentence(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make emulator` beside another one says so, without a traceback."""
    monkeypatch.setattr("sys.argv", ["emulator", "--port", emulator.base_url.rpartition(":")[2]])
    with pytest.raises(SystemExit, match="Address already in use; choose another with --port"):
        main()


def test_the_same_seed_gives_the_same_service_and_shares_no_code_with_the_package() -> None:
    """The stand-in is an independent witness."""
    said = []
    for _ in range(2):
        with Emulator(seed=7, behaviour="mixed") as emulator:
            results = run(connect(emulator), *(asking(f"Why {i}?") for i in range(20)))
            said.append({name: result.message.content for name, result in results.items()})
    assert said[0] == said[1]
    for file in (ROOT / "tests" / "emulator").glob("[!t]*.py"):
        assert "arena_kit" not in file.read_text(encoding="utf-8")


def test_an_image_costs_its_squares_of_28_pixels(client: anthropic.Anthropic) -> None:
    """A longer edge is scaled to 1,568 pixels; a kind that is not listed is refused."""
    for size, tokens in (((200, 200), 64), ((1000, 1000), 1296), ((28, 29), 2), ((4000, 400), 336)):
        data = b64encode(picture(*size)).decode()
        source = {"type": "base64", "media_type": "image/png", "data": data}
        text: dict[str, Any] = {"type": "text", "text": "What?"}
        image = {"type": "image", "source": source}
        asked = [asking(content) for content in ([text, image], [text])]
        for params in asked:
            del params["max_tokens"]
        shown, alone = (client.messages.count_tokens(**each).input_tokens for each in asked)
        assert shown - alone == tokens
        source["media_type"] = "image/svg+xml"
        with pytest.raises(anthropic.BadRequestError, match="media_type"):
            client.messages.count_tokens(**asked[0])
