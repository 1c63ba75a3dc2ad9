"""Claude and any chat-completions server as judges; `test_live` has what all live ones share."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import replace
from math import ceil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from arena_kit.files import DataError
from arena_kit.judging.asking.cost import Budget, CostError, Estimator, Spending
from arena_kit.judging.asking.judge_pairs import ask, judge_pairs
from arena_kit.judging.judges import anthropic as claude
from arena_kit.judging.judges.base import Price, ServiceError
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.verdicts.records import Judgment, Settlement, Slot, Status
from arena_kit.judging.verdicts.rendering import HEADER
from arena_kit.runs.settings.files import ChatSettings
from arena_kit.runs.settings.judges import Backend
from tests.emulator import Emulator, Fault, Reply
from tests.emulator.app import Answer, Request
from tests.emulator.errors import ApiError
from tests.samples import (
    HAIKU,
    KEY,
    MATERIAL,
    OPUS,
    PAIRS,
    TWO_DIMENSIONS,
    TWO_RUBRICS,
    batch_judge,
    chat_judge,
    judged_by,
    live_judge,
    options,
    outcomes,
    sizes,
    statuses,
    verdict,
)

OLD = "claude-sonnet-4-5"

# What is sent


def judged(
    emulator: Emulator, ledger: Ledger, n: int = 1, *, judge: Any = None, **changes: Any
) -> list[Judgment]:
    """The first pairs put to Claude, in batches unless told otherwise."""
    return judged_by(judge or batch_judge(emulator), ledger, n, **changes)


@pytest.fixture
def bodies(emulator: Emulator) -> list[dict[str, Any]]:
    """The params of every message the service was asked for, in order."""
    seen: list[dict[str, Any]] = []

    def note(params: Any) -> str:
        seen.append(params)
        return verdict("A")

    emulator.settings.behaviour = note
    return seen


VERDICT = {
    "type": "object",
    "properties": {
        "justification": {"type": "string"},
        "winner": {"type": "string", "enum": ["A", "B", "tie"]},
    },
    "required": ["justification", "winner"],
    "additionalProperties": False,
}


def expected_body(index: int) -> dict[str, Any]:
    """The body of a request of the first pair, written out."""
    request = MATERIAL.requests(PAIRS[:1])[index]
    control = {"type": "ephemeral", "ttl": "1h"}
    return {
        "model": "claude-opus-5-5",
        "max_tokens": 4096,
        "system": [{"type": "text", "text": request.system, "cache_control": control}],
        "messages": [{"role": "user", "content": request.user}],
        "output_config": {
            "effort": "low",
            "format": {"type": "json_schema", "schema": VERDICT},
        },
    }


def test_the_body_of_a_request(
    emulator: Emulator, ledger: Ledger, bodies: list[dict[str, Any]]
) -> None:
    """A request holds one system block cached for an hour, one user message, the schema and the
    effort, and nothing else: no sampling, no key. A live one is the same, so they share answers.
    Without effort, schema and system text their fields are not sent.
    """
    live = live_judge(emulator, effort="low", concurrency=1)
    judged(emulator, Ledger(ledger.path.with_name("other.sqlite")), judge=live)
    judged(emulator, ledger, judge=batch_judge(emulator, effort="low"))
    assert bodies == 2 * [expected_body(0), expected_body(1)]
    judged(emulator, ledger, judge=live)
    assert len(bodies) == 4
    schema = bodies[0]["output_config"]["format"]["schema"]
    assert list(schema["properties"]) == ["justification", "winner"], "reasons come first"
    assert KEY not in json.dumps(bodies)
    request = MATERIAL.requests(PAIRS[:1])[0]._replace(system="")
    batch_judge(emulator, effort="", verdict=False, max_tokens=77).submit({"one": request})
    bare = {"model": "claude-opus-5-5", "max_tokens": 77}
    assert bodies[4:] == [bare | {"messages": [{"role": "user", "content": request.user}]}]


def test_nobody_is_named_and_no_key_is_shown(
    emulator: Emulator, ledger: Ledger, bodies: list[dict[str, Any]]
) -> None:
    """Neither bodies nor custom ids, which are legal, say whose responses they are."""
    judge = batch_judge(emulator)
    judged(emulator, ledger, 6, judge=judge)
    [batch] = emulator.batches
    names: Any = batch["custom_ids"]
    assert len(bodies) == 12
    assert not re.search(r"\b(ash|beech|cherry)\b", json.dumps([bodies, names]))
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)
    assert KEY not in f"{judge!r} {judge.settings} {judge.service}"
    assert judge.service.account != batch_judge(emulator, key="sk-ant-other").service.account


# What comes back


CUT = Reply(text=verdict("A") + " " * 20_000, thinking_tokens=0)
REFUSAL = Reply(text="I can't.", stop_reason="refusal", category="general_harms")


@pytest.mark.parametrize("made", [batch_judge, chat_judge])
@pytest.mark.parametrize(
    ("behaviour", "status", "read"),
    [
        ("refuse_empty", Status.REFUSED, {}),
        (REFUSAL, Status.REFUSED, {"raw_text": "I can't."}),
        ("thinking_only", Status.TRUNCATED, {}),
        (CUT, Status.TRUNCATED, {}),
        ("empty", Status.UNPARSABLE, {}),
        ("garbage", Status.UNPARSABLE, {}),
        ("lowercase", Status.OK, {}),
        ("prose", Status.OK, {}),
        (Reply(text=verdict("b")), Status.OK, {"winner": Slot.B, "winning_entrant": "beech"}),
        (Reply(text=verdict("TIE")), Status.OK, {"winner": Slot.TIE, "winning_entrant": None}),
        (Reply(text=verdict("A"), thinking_tokens=50), Status.OK, {"raw_text": verdict("A")}),
    ],
)
def test_every_kind_of_answer_gets_its_status(
    emulator: Emulator, ledger: Ledger, behaviour: Any, status: Status, read: Any, made: Any
) -> None:
    """Refused, truncated and unreadable answers keep their status, a cut one even where a verdict
    could be guessed from it; only unreadable ones are asked again, once; and a second run pays for
    none of them anew. Small letters and a thinking block do not change who is named.
    """
    emulator.settings.behaviour = (
        behaviour if isinstance(behaviour, str) else lambda params: behaviour
    )
    judgments = judged(emulator, ledger, judge=made(emulator))
    asked = 4 if status is Status.UNPARSABLE else 2
    assert statuses(judgments) == [status, status]
    assert len(emulator.billing.rows) == asked
    assert {name: getattr(judgments[0].forward, name) for name in read} == read
    if status is not Status.OK:
        assert outcomes(judgments) == [(PAIRS[0], Settlement.INCOMPLETE, None)]
        assert judgments[0].forward.winner is None
    if behaviour is REFUSAL and made is batch_judge:
        assert judgments[0].forward.detail == "refusal: general_harms"
    assert statuses(judged(emulator, ledger, judge=made(emulator))) == [status, status]
    assert len(emulator.billing.rows) == len(emulator.billing.accepted) == asked


# What failed


@pytest.mark.parametrize(
    ("kind", "status", "paid"),
    [
        ("errored", Status.ERRORED, False),
        ("overloaded_errored", Status.ERRORED, False),
        ("expired", Status.EXPIRED, False),
        ("canceled", Status.CANCELED, False),
        ("unknown_type", Status.ERRORED, True),
        ("message_null", Status.ERRORED, True),
    ],
)
def test_what_failed_unpaid_is_sent_again_alone(
    emulator: Emulator, ledger: Ledger, kind: str, status: Status, paid: bool
) -> None:
    """Failures are sent again by themselves, `max_tries` times in all; what then remains keeps its
    status and is asked by the next run. A result that makes no sense may have been billed: it is
    final. Nothing is paid twice.
    """
    again = [] if paid else [3]
    emulator.faults.add(Fault(on="item", kind=kind, count=3, times=2))
    found = statuses(judged(emulator, ledger, 6, max_tries=2))
    assert (found.count(Status.OK), found.count(status)) == (9, 3)
    assert sizes(emulator) == [12, *again]
    assert ledger.outcomes("first") == {"ok": 9, str(status): 3 if paid else 6}
    emulator.faults.clear()
    second = statuses(judged(emulator, ledger, 6, run="second"))
    assert second == (found if paid else [Status.OK] * 12)
    assert sizes(emulator) == [12, *again, *again]
    assert len({row.digest for row in emulator.billing.rows}) == len(emulator.billing.rows) == 12


def test_a_request_refused_for_good_is_not_sent_again(emulator: Emulator, ledger: Ledger) -> None:
    """An invalid request is sent once, however many tries are left, and its reason is kept; of a
    pre-warming, the others are not sent at all.
    """

    def refuse(params: Any) -> str:
        raise ApiError(400, "The service does not like this request.")

    emulator.settings.behaviour = refuse
    [judgment] = judged(emulator, ledger)
    assert judgment.forward.status is judgment.backward.status is Status.ERRORED
    assert judgment.forward.detail.endswith("The service does not like this request.")
    assert sizes(emulator) == [2]
    assert len(ledger) == 0
    with pytest.raises(ServiceError, match=r"nothing else was sent: .* does not like this"):
        judged(emulator, ledger, 6, prewarm=True)
    assert sizes(emulator) == [2, 1]


# Size


@pytest.mark.parametrize(
    ("limit", "most", "room"), [("_MOST_REQUESTS", 5, 5), ("_MOST_BYTES", 9_000, 9_100)]
)
def test_more_than_a_batch_takes_is_split(
    emulator: Emulator, ledger: Ledger, monkeypatch: pytest.MonkeyPatch,
    limit: str, most: int, room: int,
) -> None:  # fmt: skip
    """No batch has more requests or bytes than the service takes, and each request is paid once."""
    monkeypatch.setattr(claude, limit, most)
    emulator.settings.update({f"max_batch_{limit.removeprefix('_MOST_').lower()}": room})
    assert {*statuses(judged(emulator, ledger, 6))} == {Status.OK}
    assert len(sizes(emulator)) > 1
    assert sum(sizes(emulator)) == len({row.digest for row in emulator.billing.rows}) == 12


def test_a_batch_holds_a_hundred_thousand_requests(
    emulator: Emulator, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100,001 requests make two groups; a single one beyond the limit is refused by name."""
    request = MATERIAL.requests(PAIRS[:1])[0]._replace(system="s", user="u")
    groups = batch_judge(emulator).split({str(n): request for n in range(100_001)})
    assert [len(group) for group in groups] == [100_000, 1]
    monkeypatch.setattr(claude, "_MOST_BYTES", 500)
    with pytest.raises(ServiceError, match=r"tone\|q1\|ash\|beech#1: \d+ bytes are too many"):
        judged(emulator, ledger)
    assert emulator.billing.accepted == []


# Before anything is spent


@pytest.mark.parametrize("made", [batch_judge, live_judge])
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"model": "claude-3-opus-20240229"}, "claude-3-opus-20240229 was retired"),
        ({"model": "claude-opus-9"}, "does not know the model 'claude-opus-9'"),
        ({"model": OLD, "max_tokens": 64_001}, rf"64001 is more than ({OLD} allows: 64000|21333)"),
        ({"effort": "utmost"}, r"counting tokens: refused \(400\): output_config.effort"),
    ],
)
def test_what_the_service_would_refuse_is_refused_before_spending(
    emulator: Emulator, ledger: Ledger, changes: dict[str, Any], why: str, made: Any
) -> None:
    """A retired or unknown model, too many tokens and a wrong shape cost nothing."""
    with pytest.raises(ServiceError, match=why):
        judged(emulator, ledger, judge=made(emulator, **changes))
    assert emulator.billing.accepted == []
    assert ledger.open_intents() == []


def test_a_deprecated_model_warns_and_works(emulator: Emulator, ledger: Ledger) -> None:
    """The end of a deprecated model is told, and its answers are paid as any other."""
    said: list[str] = []
    price = Price(model=OLD, input=3, output=15, write=6, write_5m=3.75, read=0.3, batch_factor=0.5)
    judge = batch_judge(emulator, model=OLD, price=price, max_tokens=64_000)
    assert {*statuses(judged(emulator, ledger, judge=judge, say=said.append))} == {Status.OK}
    assert ledger.spent("first") == pytest.approx(emulator.billing.total_usd, abs=1e-12)
    assert f"the model {OLD} is deprecated, ends 2026-11-30" in said


def test_a_missing_or_wrong_key_is_told_as_such(emulator: Emulator, ledger: Ledger) -> None:
    """Without a key its variable is named, and the service hears nothing; one that the service
    refuses is one sentence, which does not repeat it.
    """
    lacking = batch_judge(emulator, lacks="MY_KEY")
    with pytest.raises(DataError, match=r"set MY_KEY in the environment or in \.env"):
        judged(emulator, ledger, judge=lacking)
    assert lacking.count_tokens(MATERIAL.requests(PAIRS[:1])[0]) is None
    assert emulator.requests == []
    emulator.settings.key = "sk-ant-the-right-one"
    with pytest.raises(ServiceError, match=r"refuses the key \(401\)") as caught:
        judged(emulator, ledger)
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None, "an SDK error holds the key"


# Where the key goes


def test_the_key_is_not_sent_where_results_are_said_to_be(
    emulator: Emulator, ledger: Ledger
) -> None:
    """Results on another origin are not fetched; the sentence says where and that the key stayed.
    The next run, with an address of the service or without a host, collects what was paid for.
    """
    with Emulator() as elsewhere:
        fault = Fault(on="retrieve", kind="foreign_results_url", url=elsewhere.base_url, times=None)
        emulator.faults.add(fault)
        with pytest.raises(ServiceError, match=r"not at .*: the key was not sent there"):
            judged(emulator, ledger, 6)
        assert elsewhere.requests == []
    emulator.faults.clear()
    emulator.faults.add(Fault(on="retrieve", kind="foreign_results_url", url="", times=None))
    assert {*statuses(judged(emulator, ledger, 6))} == {Status.OK}
    assert sizes(emulator) == [12]


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


def test_spending_adds_up_to_the_bill(ledger: Ledger) -> None:
    """Dollars and every kind of token are those that the service billed. After a pre-warm that
    never misses, each of two rubrics is written once and read eleven times: a hit rate of 11/12,
    and a saving that can be worked out by hand.
    """
    with Emulator(miss_rate=0.0) as emulator:
        judge = batch_judge(emulator)
        judge_pairs(TWO_DIMENSIONS, TWO_RUBRICS, judge, ledger, options=options(prewarm=True))
        bill = emulator.billing
    spending = Spending.of(ledger.paid("first"), OPUS, batch=True)
    counts = [row.counts for row in bill.rows]
    assert spending.usd == pytest.approx(bill.total_usd, abs=1e-12)
    assert spending.answers == len(counts) == 24
    for name in ("input", "output", "thinking"):
        assert getattr(spending, f"{name}_tokens") == sum(getattr(c, name) for c in counts)
    rubrics = [f"{HEADER}\n{rubric.text.strip()}\n" for rubric in TWO_RUBRICS.rubrics.values()]
    tokens = sum(ceil(len(text.encode()) / 3.2) for text in rubrics)
    assert (spending.written_tokens, spending.read_tokens) == (tokens, 11 * tokens)
    assert spending.hit_rate == pytest.approx(11 / 12, abs=1e-12)
    saved = (12 * 4 - 8 - 11 * 0.2) * tokens / 2 / 1e6
    assert spending.usd_saved_by_prompt_cache == pytest.approx(saved, abs=1e-12)
    assert spending.warning == ""


def test_a_prewarmed_single_pair_is_judged(emulator: Emulator, ledger: Ledger) -> None:
    """With one request per rubric there is nothing to warm for, and all is sent at once."""
    pairs = [PAIRS[0], replace(PAIRS[0], dimension="rigour")]
    requests = {str(n): r for n, r in enumerate(TWO_RUBRICS.requests(pairs)) if n % 2 == 0}
    ask(requests, batch_judge(emulator), ledger, options(prewarm=True), lambda n: None)
    assert ledger.settled(requests) == {"0", "2"}
    assert sizes(emulator) == [2]


# A chat-completions server

MODEL = HAIKU.model
SECRET = "sk-local-0123456789abcdef"


@pytest.fixture
def heard(emulator: Emulator) -> list[tuple[str, dict[str, str], Any]]:
    """Path, headers and body of every request, as the server heard them."""
    found: list[tuple[str, dict[str, str], Any]] = []
    answer = emulator.app.answer

    def note(request: Request) -> Answer:
        found.append((request.path, request.headers, json.loads(request.body or b"null")))
        return answer(request)

    emulator.app.answer = note  # type: ignore[method-assign]
    return found


def chatted(emulator: Emulator, ledger: Ledger, n: int = 6, **changes: Any) -> list[Judgment]:
    """The first n pairs put to the server in both orders."""
    return judged_by(chat_judge(emulator, **changes), ledger, n)


def posts(emulator: Emulator) -> list[int | None]:
    return [row.status for row in emulator.requests if row.path == "/v1/chat/completions"]


def test_the_body_of_a_chat(emulator: Emulator, ledger: Ledger, heard: list[Any]) -> None:
    """System and user text are two messages; the verdict's schema, temperature and length go
    with them, and a seed only where there is one. A grammar goes in llama.cpp's own field, `none`
    sends no shape at all.
    """
    chatted(emulator, ledger, 1, concurrency=1, max_tokens=300)
    request = MATERIAL.requests(PAIRS[:1])[0]
    body = next(body for path, _, body in heard if path.endswith("/completions"))
    shape = {"name": "verdict", "strict": True, "schema": VERDICT}
    assert body == {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": request.system},
            {"role": "user", "content": request.user},
        ],
        "max_tokens": 300,
        "temperature": 0.0,
        "response_format": {"type": "json_schema", "json_schema": shape},
    }
    for structured, extra in [("grammar", {"grammar"}), ("none", set())]:
        chatted(emulator, ledger, 1, structured=structured, max_tokens=300)
        assert heard[-1][2].keys() == (body.keys() - {"response_format"}) | extra


def test_a_server_without_schemas_is_asked_plainly(emulator: Emulator, ledger: Ledger) -> None:
    """A refused schema is left out, once and for all, and the verdict read from plain text; where
    it was insisted on, it is an error, not another question.
    """
    emulator.settings.chat_schema = False
    emulator.settings.behaviour = lambda params: "I have thought about it. [[B]]"
    judgments = chatted(emulator, ledger, 1, structured="json_schema")
    assert statuses(judgments) == [Status.ERRORED, Status.ERRORED]
    assert "json_schema" in judgments[0].forward.detail
    judgments = chatted(emulator, ledger, concurrency=1)
    assert {v.winner for j in judgments for v in j.verdicts} == {Slot.B}
    assert posts(emulator) == [400] * 3 + [200] * 12, "the schema is tried a single time"


def test_a_seed_is_passed_on(emulator: Emulator, heard: list[Any]) -> None:
    """A question's seed is sent, an empty system text is not, and the server repeats itself."""
    asked: Any = SimpleNamespace(
        request_id="q", system="", user="Say something.", seed=4711, identity=b"{}"
    )
    judge = chat_judge(emulator, verdict=False, temperature=None)
    assert judge.ask(asked).answer.text == judge.ask(asked).answer.text
    assert heard[-1][2] == {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Say something."}],
        "max_tokens": 1024,
        "seed": 4711,
    }


# The key


@pytest.mark.parametrize("variable", ["LOCAL_KEY", ""])
def test_the_named_variables_key_is_sent(
    emulator: Emulator, ledger: Ledger, heard: list[Any], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, variable: str,
) -> None:  # fmt: skip
    """The key of the variable that key_variable names is a bearer token, and goes nowhere else; a
    server of one's own needs none, and gets none.
    """
    monkeypatch.setenv("LOCAL_KEY", SECRET)
    if variable:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-not-this-one-012345")
    where = {"base_url": f"{emulator.base_url}/v1", "key_variable": variable}
    backend = Backend(kind="openai_compatible", model=MODEL, **where)
    judge = backend.judge(ChatSettings(), {MODEL: HAIKU}, tmp_path)
    judged_by(judge, ledger, 1)
    sent = f"Bearer {SECRET}" if variable else None
    assert [headers.get("authorization") for _, headers, _ in heard] == [sent] * 3
    assert SECRET not in json.dumps([body for *_, body in heard])
    assert SECRET not in f"{judge!r} {judge.settings} {judge.service}"
    assert SECRET.encode() not in ledger.path.read_bytes()


# Servers that are not well


def test_no_server_is_one_clear_sentence(ledger: Ledger) -> None:
    """When nobody listens, the address is named and nothing is planned."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ServiceError, match=rf"no server answers at {address}/v1 \(ConnectError\)"):
        judged_by(chat_judge(address), ledger)
    assert ledger.outcomes("first") == {}


def test_an_unlisted_model_warns_and_is_asked(emulator: Emulator, ledger: Ledger) -> None:
    """A model that the server does not list is told, but may exist all the same."""
    said: list[str] = []
    judgments = judged_by(chat_judge(emulator, model="llama-9"), ledger, 1, say=said.append)
    assert said == [f"{emulator.base_url}/v1 does not list the model llama-9"]
    assert statuses(judgments) == [Status.OK, Status.OK]


@pytest.mark.parametrize(
    ("page", "price", "told"),
    [
        (b'{"error": {"message": "model is loading"}}', HAIKU, "model is loading"),
        (b"<html>Welcome</html>", Price(model=MODEL, input=0, output=0), ""),
    ],
    ids=["loading", "free"],
)
def test_what_costs_nothing_is_asked_again_in_the_same_run(
    emulator: Emulator, ledger: Ledger, page: bytes, price: Price, told: str
) -> None:
    """A 200 that carries an error is waited out, and said; where asking costs nothing, a page
    instead of an answer is asked again at once.
    """
    pages = iter([page] * 3)
    emulator.app.tamper = lambda request, body: (
        next(pages, body) if "completions" in request.path else body
    )
    said: list[str] = []
    judgments = judged_by(chat_judge(emulator, price=price), ledger, say=said.append)
    assert {*statuses(judgments)} == {Status.OK}
    assert told in "".join(said)


# Money and the ledger


NO_USAGE = [b'"x":', b'"usage": null, "x":', b'"usage": {"total_tokens": NaN}, "x":']


@pytest.mark.parametrize("usage", NO_USAGE, ids=["missing", "null", "odd"])
def test_missing_usage_is_booked_by_forecast(
    emulator: Emulator, ledger: Ledger, usage: bytes
) -> None:
    """A priced model whose server tells no usage has not cost nothing: each answer is booked with
    its forecast as unknown, and the cap is held against that.
    """
    emulator.app.tamper = lambda request, body: body.replace(b'"usage":', usage)
    judge = chat_judge(emulator, concurrency=1)
    budget = Budget(
        judge=judge, ledger=ledger, estimator=Estimator.local(), expected_tokens=100, cap_usd=1.0
    )
    requests = MATERIAL.requests(PAIRS)
    forecast = budget.forecast(requests).usd_no_hits
    assert {*statuses(judged_by(judge, ledger, budget=budget))} == {Status.OK}
    assert ledger.spent("first") == 0
    assert ledger.usd_unknown("first") == pytest.approx(forecast, rel=0.01)
    assert ledger.output_tokens(judge, "judge") == (0, 0), "an unknown length is not one of zero"
    with pytest.raises(CostError, match="are spent or under way"):
        replace(budget, cap_usd=1.5 * forecast).allow(requests, "first")


def test_cached_prompt_tokens_pay_the_read_price(emulator: Emulator) -> None:
    """Of 1,000 prompt tokens of which 600 were cached, 400 pay in full."""
    usage = {"prompt_tokens": 1000, "completion_tokens": 50}
    usage |= {"prompt_tokens_details": {"cached_tokens": 600}}  # type: ignore[dict-item]
    choice = {"message": {"content": verdict("A")}, "finish_reason": "stop"}
    completion = json.dumps({"model": "served", "choices": [choice], "usage": usage}).encode()
    emulator.app.tamper = lambda *_: completion
    found = chat_judge(emulator).ask(MATERIAL.requests(PAIRS[:1])[0]).answer
    counts = {"input_tokens": 400, "cache_read_input_tokens": 600, "output_tokens": 50}
    assert found.usage == counts
    assert found.cost_usd == pytest.approx((400 * 1 + 600 * 0.1 + 50 * 5) / 1e6, abs=1e-15)
    assert found.served_model == "served"


def test_a_model_from_this_machine_is_free(emulator: Emulator, tmp_path: Path) -> None:
    """An unlisted model needs no price on the loopback address without a key, else it does."""
    here = Backend(kind="openai_compatible", model="own", base_url=f"{emulator.base_url}/v1")
    assert here.price({}, keyless=True).free
    with pytest.raises(DataError, match="no price is known for the model 'own'"):
        here.price({})
    away = Backend(kind="openai_compatible", model="own", base_url="https://example.org/v1")
    with pytest.raises(DataError, match="no price is known for the model 'own'"):
        away.price({MODEL: HAIKU})
    none = Backend(kind="openai_compatible", model=MODEL)
    with pytest.raises(DataError, match="base_url"):
        none.judge(ChatSettings(), {MODEL: HAIKU}, tmp_path)
