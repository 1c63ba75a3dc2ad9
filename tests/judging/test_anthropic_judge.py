"""Claude as a judge, through the real SDK against the emulated service."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from math import ceil
from typing import Any

import pytest

from arena_kit.files import DataError
from arena_kit.judging.asking.cost import Spending
from arena_kit.judging.asking.judge_pairs import ask, judge_pairs
from arena_kit.judging.judges import anthropic as claude
from arena_kit.judging.judges.anthropic import AnthropicMessages
from arena_kit.judging.judges.base import ServiceError
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.verdicts.records import Settlement, Slot, Status
from arena_kit.judging.verdicts.rendering import HEADER
from tests.emulator import Emulator, Fault, Reply
from tests.emulator.errors import ApiError
from tests.samples import (
    ENTRANTS,
    KEY,
    LONG,
    MATERIAL,
    OLD,
    OPUS,
    PAIRS,
    TWO_DIMENSIONS,
    TWO_RUBRICS,
    batch_judge,
    client_of,
    options,
    outcomes,
    sizes,
    statuses,
    verdict,
)

# What is sent


@pytest.fixture
def bodies(emulator: Emulator) -> list[dict[str, Any]]:
    """The params of every message the service was asked for, in order."""
    seen: list[dict[str, Any]] = []

    def note(params: Any) -> str:
        seen.append(params)
        return verdict("A")

    emulator.settings.behaviour = note
    return seen


def expected_body(index: int) -> dict[str, Any]:
    """The body of a request of the first pair, written out."""
    request = MATERIAL.requests(PAIRS[:1])[index]
    return {
        "model": "claude-opus-5-5",
        "max_tokens": 4096,
        "system": [
            {
                "type": "text",
                "text": request.system,
                "cache_control": {"type": "ephemeral", "ttl": "1h"},
            }
        ],
        "messages": [{"role": "user", "content": request.user}],
        "output_config": {
            "effort": "low",
            "format": {
                "type": "json_schema",
                "schema": {
                    "type": "object",
                    "properties": {
                        "justification": {"type": "string"},
                        "winner": {"type": "string", "enum": ["A", "B", "tie"]},
                    },
                    "required": ["justification", "winner"],
                    "additionalProperties": False,
                },
            },
        },
    }


def test_the_body_of_a_batch_request(
    emulator: Emulator, ledger: Ledger, bodies: list[dict[str, Any]]
) -> None:
    """A request holds one system block cached for an hour, one user message, the schema and the
    effort, and nothing else: no sampling, no key.
    """
    judge_pairs(PAIRS[:1], MATERIAL, batch_judge(emulator, effort="low"), ledger, options=options())
    assert bodies == [expected_body(0), expected_body(1)]
    schema = bodies[0]["output_config"]["format"]["schema"]
    assert list(schema["properties"]) == schema["required"] == ["justification", "winner"]
    assert not {"temperature", "top_p", "top_k"} & set(bodies[0])
    assert KEY not in json.dumps(bodies)


def test_the_body_of_a_live_request_is_the_same(
    emulator: Emulator, ledger: Ledger, bodies: list[dict[str, Any]]
) -> None:
    """Both transports ask the same question, so they may share its answer."""
    judge = AnthropicMessages(
        client=client_of(emulator), model=OPUS.model, price=OPUS, effort="low", max_tokens=4096,
        concurrency=1, per_minute=300,
    )  # fmt: skip
    judge_pairs(PAIRS[:1], MATERIAL, judge, ledger, options=options())
    assert bodies == [expected_body(0), expected_body(1)]
    batch = batch_judge(emulator, effort="low")
    judge_pairs(PAIRS[:1], MATERIAL, batch, ledger, options=options())
    assert sizes(emulator) == []


def test_no_effort_and_no_schema_leave_no_field(
    emulator: Emulator, bodies: list[dict[str, Any]]
) -> None:
    """Without effort and schema, and with an empty system text, their fields are not sent."""
    request = MATERIAL.requests(PAIRS[:1])[0]._replace(system="")
    judge = batch_judge(emulator, effort="", verdict=False, max_tokens=77)
    judge.submit({"one": request})
    assert bodies == [
        {
            "model": "claude-opus-5-5",
            "max_tokens": 77,
            "messages": [{"role": "user", "content": request.user}],
        }
    ]


def test_no_entrant_is_named_to_the_service(
    emulator: Emulator, ledger: Ledger, bodies: list[dict[str, Any]]
) -> None:
    """Neither bodies nor custom ids say whose responses they are, and ids have a legal form."""
    judge_pairs(PAIRS, MATERIAL, batch_judge(emulator), ledger, options=options())
    [batch] = emulator.batches
    sent = json.dumps([bodies, batch["custom_ids"]])
    assert len(bodies) == 12
    assert not re.search(rf"\b({'|'.join(ENTRANTS)})\b", sent)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in batch["custom_ids"])  # type: ignore[attr-defined]


def test_the_key_is_in_no_repr(emulator: Emulator) -> None:
    """A judge may be shown: neither its repr nor its settings and account repeat the key."""
    judge = batch_judge(emulator)
    shown = f"{judge!r} {judge.settings} {judge.service}"
    assert KEY not in shown
    assert judge.service.account != batch_judge(emulator, key="sk-ant-other").service.account


# What comes back


@pytest.mark.parametrize(
    ("behaviour", "status", "asked"),
    [
        ("refuse_empty", Status.REFUSED, 2),
        ("refuse_text", Status.REFUSED, 2),
        ("thinking_only", Status.TRUNCATED, 2),
        ("empty", Status.UNPARSABLE, 4),
        ("garbage", Status.UNPARSABLE, 4),
        ("lowercase", Status.OK, 2),
        ("prose", Status.OK, 2),
        ("tie", Status.OK, 2),
    ],
)
def test_every_kind_of_answer_gets_its_status(
    emulator: Emulator, ledger: Ledger, behaviour: str, status: Status, asked: int
) -> None:
    """Refused, truncated and unreadable answers keep their status; only unreadable ones are
    asked again, once; and a second run pays for none of them anew.
    """
    emulator.settings.behaviour = behaviour
    judge = batch_judge(emulator)
    judgments = judge_pairs(PAIRS[:1], MATERIAL, judge, ledger, options=options())
    assert statuses(judgments) == [status, status]
    assert len(emulator.billing.rows) == asked
    if status is not Status.OK:
        assert outcomes(judgments) == [(PAIRS[0], Settlement.INCOMPLETE, None)]

    again = judge_pairs(PAIRS[:1], MATERIAL, judge, ledger, options=options(run="second"))
    assert statuses(again) == [status, status]
    assert len(emulator.billing.rows) == len(emulator.billing.accepted) == asked


@pytest.mark.parametrize(
    ("text", "slot", "entrant"),
    [
        (verdict("b"), Slot.B, "beech"),
        (verdict("a"), Slot.A, "ash"),
        (verdict("TIE"), Slot.TIE, None),
        (f"Here it is.\n```json\n{verdict('B')}\n```\nAsk {{me}} more.", Slot.B, "beech"),
    ],
)
def test_a_drifted_verdict_names_the_right_slot(
    emulator: Emulator, ledger: Ledger, text: str, slot: Slot, entrant: str | None
) -> None:
    """Small letters and sentences around the JSON do not change who is named."""
    emulator.settings.behaviour = lambda params: text
    [judgment] = judge_pairs(PAIRS[:1], MATERIAL, batch_judge(emulator), ledger, options=options())
    assert judgment.forward.winner is slot
    assert judgment.forward.winning_entrant == entrant


def test_two_ties_are_a_tie(emulator: Emulator, ledger: Ledger) -> None:
    """A judge that calls a tie in both orders settles the pair as a tie."""
    emulator.settings.behaviour = "tie"
    judgments = judge_pairs(PAIRS[:1], MATERIAL, batch_judge(emulator), ledger, options=options())
    assert outcomes(judgments) == [(PAIRS[0], Settlement.TIE, None)]


def test_a_refusal_keeps_its_reason_and_its_words(emulator: Emulator, ledger: Ledger) -> None:
    """The category of a refusal and the text that came with it are kept."""
    emulator.settings.behaviour = "refuse_text"
    [judgment] = judge_pairs(PAIRS[:1], MATERIAL, batch_judge(emulator), ledger, options=options())
    assert judgment.forward.detail == "refusal: general_harms"
    assert judgment.forward.raw_text == "I can't help with comparing these responses."


def test_text_is_found_behind_a_thinking_block(emulator: Emulator, ledger: Ledger) -> None:
    """A thinking block may come first; its tokens are counted and its place is not the text's."""
    emulator.settings.behaviour = lambda params: Reply(text=verdict("A"), thinking_tokens=50)
    [judgment] = judge_pairs(PAIRS[:1], MATERIAL, batch_judge(emulator), ledger, options=options())
    assert judgment.forward.raw_text == verdict("A")
    assert judgment.forward.usage["thinking_tokens"] == 50


def test_an_answer_cut_by_the_token_limit_is_truncated(emulator: Emulator, ledger: Ledger) -> None:
    """A text that max_tokens cut is truncated even where a verdict could be guessed from it."""
    emulator.settings.behaviour = lambda params: Reply(
        text=verdict("A") + " " * 1000, thinking_tokens=0
    )
    judge = batch_judge(emulator, max_tokens=64)
    judgments = judge_pairs(PAIRS[:1], MATERIAL, judge, ledger, options=options())
    assert statuses(judgments) == [Status.TRUNCATED, Status.TRUNCATED]
    assert outcomes(judgments) == [(PAIRS[0], Settlement.INCOMPLETE, None)]


@pytest.mark.parametrize("kind", ["unknown_type", "message_null"])
def test_a_result_that_makes_no_sense_is_final(
    emulator: Emulator, ledger: Ledger, kind: str
) -> None:
    """A result of an unknown type, or a success without a message, may have been billed: it is
    errored, and no second run asks for it again.
    """
    emulator.faults.add(Fault(on="item", kind=kind, times=None))
    judge = batch_judge(emulator)
    judgments = judge_pairs(PAIRS, MATERIAL, judge, ledger, options=options())
    assert set(statuses(judgments)) == {Status.ERRORED}
    assert sizes(emulator) == [12]
    emulator.faults.clear()
    again = judge_pairs(PAIRS, MATERIAL, judge, ledger, options=options(run="second"))
    assert set(statuses(again)) == {Status.ERRORED}
    assert sizes(emulator) == [12]
    assert len(emulator.billing.rows) == 12


# What failed unpaid


@pytest.mark.parametrize("kind", ["errored", "overloaded_errored", "expired", "canceled"])
def test_what_failed_unpaid_is_sent_again_alone(
    emulator: Emulator, ledger: Ledger, kind: str
) -> None:
    """Three failures among twelve make a second batch of those three, and all ends well."""
    emulator.faults.add(Fault(on="item", kind=kind, count=3))
    judgments = judge_pairs(PAIRS, MATERIAL, batch_judge(emulator), ledger, options=options())
    assert set(statuses(judgments)) == {Status.OK}
    assert sizes(emulator) == [12, 3]
    assert len({row.digest for row in emulator.billing.rows}) == 12
    assert len(emulator.billing.rows) == 12


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("errored", Status.ERRORED),
        ("expired", Status.EXPIRED),
        ("canceled", Status.CANCELED),
    ],
)
def test_tries_are_bounded_and_begin_anew_with_the_next_run(
    emulator: Emulator, ledger: Ledger, kind: str, status: Status
) -> None:
    """What fails unpaid is sent max_tries times, keeps its status, and is asked by the next run."""
    emulator.faults.add(Fault(on="item", kind=kind, times=None))
    judge = batch_judge(emulator)
    judgments = judge_pairs(PAIRS, MATERIAL, judge, ledger, options=options(max_tries=2))
    assert set(statuses(judgments)) == {status}
    assert sizes(emulator) == [12, 12]
    assert len(ledger) == 0
    assert ledger.outcomes("first") == {str(status): 24}

    emulator.faults.clear()
    again = judge_pairs(PAIRS, MATERIAL, judge, ledger, options=options(run="second"))
    assert set(statuses(again)) == {Status.OK}
    assert sizes(emulator) == [12, 12, 12]
    assert len(emulator.billing.rows) == 12


def refuses_everything(params: Any) -> str:
    raise ApiError(400, "The service does not like this request.")


def test_a_request_refused_for_good_is_not_sent_again(emulator: Emulator, ledger: Ledger) -> None:
    """An invalid request is sent once, however many tries are left, and its reason is kept."""
    emulator.settings.behaviour = refuses_everything
    judgments = judge_pairs(PAIRS[:1], MATERIAL, batch_judge(emulator), ledger, options=options())
    assert statuses(judgments) == [Status.ERRORED, Status.ERRORED]
    assert judgments[0].forward.detail == (
        "invalid_request_error: The service does not like this request."
    )
    assert sizes(emulator) == [2]
    assert len(ledger) == 0


def test_a_refused_prewarm_stops_the_bulk(emulator: Emulator, ledger: Ledger) -> None:
    """When the first request is invalid, the others are not sent, and the reason is told."""
    emulator.settings.behaviour = refuses_everything
    with pytest.raises(ServiceError, match=r"nothing else was sent: .* does not like this"):
        judge_pairs(PAIRS, MATERIAL, batch_judge(emulator), ledger, options=options(prewarm=True))
    assert sizes(emulator) == [1]


# Size


def test_more_requests_than_a_batch_takes_are_split(
    emulator: Emulator, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for five, twelve requests go as batches of 5, 5 and 2, each paid once."""
    monkeypatch.setattr(claude, "_MOST_REQUESTS", 5)
    emulator.settings.max_batch_requests = 5
    judgments = judge_pairs(PAIRS, MATERIAL, batch_judge(emulator), ledger, options=options())
    assert sizes(emulator) == [5, 5, 2]
    assert set(statuses(judgments)) == {Status.OK}
    assert len({row.digest for row in emulator.billing.rows}) == 12


def test_a_batch_holds_a_hundred_thousand_requests(emulator: Emulator) -> None:
    """100,001 requests make a group of 100,000 and a group of one."""
    request = MATERIAL.requests(PAIRS[:1])[0]._replace(system="s", user="u")
    groups = batch_judge(emulator).split({str(n): request for n in range(100_001)})
    assert [len(group) for group in groups] == [100_000, 1]


def test_more_bytes_than_a_batch_takes_are_split(
    emulator: Emulator, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No batch that is sent is longer than the service takes, and nothing is lost."""
    most = 9_000
    monkeypatch.setattr(claude, "_MOST_BYTES", most)
    emulator.settings.max_batch_bytes = most + 100  # the frame around the requests
    judgments = judge_pairs(PAIRS, MATERIAL, batch_judge(emulator), ledger, options=options())
    assert len(sizes(emulator)) > 1
    assert sum(sizes(emulator)) == 12
    assert set(statuses(judgments)) == {Status.OK}


def test_a_request_longer_than_any_batch_is_named(
    emulator: Emulator, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single request beyond the limit is refused by name, and nothing is sent."""
    monkeypatch.setattr(claude, "_MOST_BYTES", 500)
    with pytest.raises(ServiceError, match=r"tone\|q1\|ash\|beech#1: \d+ bytes are too many"):
        judge_pairs(PAIRS[:1], MATERIAL, batch_judge(emulator), ledger, options=options())
    assert emulator.billing.accepted == []


# Before anything is spent


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"model": "claude-3-opus-20240229"}, "claude-3-opus-20240229 was retired"),
        ({"model": "claude-opus-9"}, "does not know the model 'claude-opus-9'"),
        (
            {"model": "claude-sonnet-4-5", "max_tokens": 64_001},
            "max_tokens 64001 is more than claude-sonnet-4-5 allows: 64000",
        ),
        ({"effort": "utmost"}, r"counting tokens: refused \(400\): output_config.effort"),
    ],
)
def test_what_the_service_would_refuse_is_refused_before_spending(
    emulator: Emulator, ledger: Ledger, changes: dict[str, Any], why: str
) -> None:
    """A retired or unknown model, too many tokens and a wrong shape are one sentence each, and
    no request is accepted.
    """
    with pytest.raises(ServiceError, match=why):
        judge_pairs(PAIRS, MATERIAL, batch_judge(emulator, **changes), ledger, options=options())
    assert emulator.billing.accepted == []
    assert ledger.open_intents() == []


def test_a_deprecated_model_warns_and_works(emulator: Emulator, ledger: Ledger) -> None:
    """The end of a deprecated model is told, and its answers are paid as any other."""
    said: list[str] = []
    judge = batch_judge(emulator, model=OLD.model, price=OLD, max_tokens=64_000)
    judgments = judge_pairs(PAIRS[:1], MATERIAL, judge, ledger, options=options(say=said.append))
    assert "the model claude-sonnet-4-5 is deprecated, ends 2026-11-30" in said
    assert statuses(judgments) == [Status.OK, Status.OK]


def test_a_judge_without_a_key_asks_for_one(emulator: Emulator, ledger: Ledger) -> None:
    """Without a key the variable is named, and the service hears nothing."""
    judge = batch_judge(emulator, lacks="MY_KEY")
    with pytest.raises(DataError, match=r"set MY_KEY in the environment or in \.env"):
        judge_pairs(PAIRS, MATERIAL, judge, ledger, options=options())
    assert judge.count_tokens(MATERIAL.requests(PAIRS[:1])[0]) is None
    assert emulator.requests == []


def test_a_wrong_key_is_told_as_such(emulator: Emulator, ledger: Ledger) -> None:
    """A key that the service refuses is one sentence, which does not repeat it."""
    emulator.settings.key = "sk-ant-the-right-one"
    with pytest.raises(ServiceError, match=r"refuses the key \(401\)") as caught:
        judge_pairs(PAIRS, MATERIAL, batch_judge(emulator), ledger, options=options())
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None, "an SDK error holds the key"


# Where the key goes


class _Elsewhere(BaseHTTPRequestHandler):
    seen: list[str]

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("authorization") or self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def elsewhere() -> Iterator[tuple[str, list[str]]]:
    """Another server's address, and what it has been sent."""
    seen: list[str] = []
    handler = type("Handler", (_Elsewhere,), {"seen": seen})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()
        thread.join()


def test_the_key_is_not_sent_where_results_are_said_to_be(
    emulator: Emulator, ledger: Ledger, elsewhere: tuple[str, list[str]]
) -> None:
    """Results on another origin are not fetched; the sentence says where and that the key stayed.
    The next run, with an honest address, collects what was paid for.
    """
    address, seen = elsewhere
    emulator.faults.add(Fault(on="retrieve", kind="foreign_results_url", url=address, times=None))
    judge = batch_judge(emulator)
    with pytest.raises(ServiceError, match=f"at {address}, not at .*: the key was not sent there"):
        judge_pairs(PAIRS, MATERIAL, judge, ledger, options=options())
    assert seen == []
    emulator.faults.clear()
    judgments = judge_pairs(PAIRS, MATERIAL, judge, ledger, options=options())
    assert set(statuses(judgments)) == {Status.OK}
    assert sizes(emulator) == [12]


def test_results_at_a_path_are_the_services_own(emulator: Emulator, ledger: Ledger) -> None:
    """An address without a host belongs to the service that names it."""
    emulator.faults.add(Fault(on="retrieve", kind="foreign_results_url", url="", times=None))
    judgments = judge_pairs(PAIRS, MATERIAL, batch_judge(emulator), ledger, options=options())
    assert set(statuses(judgments)) == {Status.OK}


# Money and the prompt cache


def test_answers_cost_what_the_service_billed(ledger: Ledger) -> None:
    """With writes and reads of the prompt cache, thinking, and re-asked answers, the ledger and
    the service's own bill agree on every answer and on the sum.
    """
    with Emulator(behaviour="mixed", shares={"garbage": 0.2, "tie": 0.2}, seed=3) as emulator:
        judge = batch_judge(emulator)
        judge_pairs(TWO_DIMENSIONS, TWO_RUBRICS, judge, ledger, options=options(prewarm=True))
        bill = emulator.billing.rows
    paid = ledger.paid("first")
    assert len(paid) == len(bill) > 24, "some answers were asked again"
    assert sum(row.counts.write_1h for row in bill) > 0
    assert sum(row.counts.read for row in bill) > 0
    assert sorted(answer.cost_usd for answer in paid) == pytest.approx(
        sorted(row.usd for row in bill), abs=1e-12
    )
    assert ledger.spent("first") == pytest.approx(sum(row.usd for row in bill), abs=1e-12)


def test_prewarming_sends_one_request_per_rubric_ahead(ledger: Ledger) -> None:
    """Two rubrics make two batches of one; the bulk is created only after both have ended."""
    said: list[str] = []
    with Emulator(batch_seconds=0.08) as emulator:
        allowed = options(prewarm=True, say=said.append)
        judge_pairs(TWO_DIMENSIONS, TWO_RUBRICS, batch_judge(emulator), ledger, options=allowed)
        *ahead, bulk = emulator.batches
        bill = emulator.billing.rows
    assert [len(b["custom_ids"]) for b in (*ahead, bulk)] == [1, 1, 22]  # type: ignore[arg-type]
    assert all(str(batch["ended_at"]) <= str(bulk["created_at"]) for batch in ahead)
    first, second = ({r.digest for r in bill if r.batch_id == b["id"]} for b in ahead)
    assert first.isdisjoint(second)
    assert len({row.digest for row in bill}) == len(bill) == 24
    assert "pre-warming the prompt cache, one request per rubric" in said


def test_without_prewarming_there_is_one_batch(emulator: Emulator, ledger: Ledger) -> None:
    """Pre-warming happens only when it is asked for."""
    judge_pairs(TWO_DIMENSIONS, TWO_RUBRICS, batch_judge(emulator), ledger, options=options())
    assert sizes(emulator) == [24]


def test_the_hit_rate_is_read_from_usage(ledger: Ledger) -> None:
    """After a pre-warm that never misses, each of two rubrics is written once and read eleven
    times: a hit rate of 11/12, and a saving that can be worked out by hand.
    """
    with Emulator(miss_rate=0.0) as emulator:
        judge = batch_judge(emulator)
        judge_pairs(TWO_DIMENSIONS, TWO_RUBRICS, judge, ledger, options=options(prewarm=True))
    spending = Spending.of(ledger.paid("first"), OPUS, batch=True)
    system = {
        name: len(f"{HEADER}\n{rubric.text.strip()}\n".encode()) for name, rubric in LONG.items()
    }
    tokens = sum(ceil(n_bytes / 3.2) for n_bytes in system.values())
    assert (spending.written_tokens, spending.read_tokens) == (tokens, 11 * tokens)
    assert spending.hit_rate == pytest.approx(11 / 12, abs=1e-12)
    saved = (12 * 4 - 8 - 11 * 0.2) * tokens / 2 / 1e6
    assert spending.usd_saved_by_prompt_cache == pytest.approx(saved, abs=1e-12)
    assert spending.warning == ""


def test_a_prewarmed_single_pair_is_judged(emulator: Emulator, ledger: Ledger) -> None:
    """With one request per rubric there is nothing to warm for, and all is sent at once."""
    pairs = [Pair(dimension=d, prompt_id="q1", entrant_a="ash", entrant_b="beech") for d in LONG]
    requests = {str(n): r for n, r in enumerate(TWO_RUBRICS.requests(pairs)) if n % 2 == 0}
    ask(requests, batch_judge(emulator), ledger, options(prewarm=True), lambda n: None)
    assert ledger.settled(requests) == {"0", "2"}
    assert sizes(emulator) == [2]
