"""Batches that are never paid twice and never lost, whatever the service does."""

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from arena_kit.files import DataError
from arena_kit.judging.asking.cost import CostError, Spending
from arena_kit.judging.asking.judge_pairs import OfflineError, ask, judge_pairs
from arena_kit.judging.judges import anthropic as claude
from arena_kit.judging.judges.base import PausedError, Price, ServiceError, cache_keys
from arena_kit.judging.ledger.ledger import Ledger, Sender
from arena_kit.judging.verdicts.records import Status
from arena_kit.judging.verdicts.rendering import HEADER
from arena_kit.runs.settings.judges import Batches
from tests.emulator import ApiError, Emulator, Fault
from tests.emulator.app import Request
from tests.faults.tournament import FixedBudget
from tests.judging.conftest import JUDGES, Bench, interrupt
from tests.samples import KEY, MATERIAL, OPUS, PAIRS, TWO_DIMENSIONS, TWO_RUBRICS, options

OTHER_KEY = {"key": "sk-ant-another-key-0123", "timeout": 0.5}
DROP = Fault(on="create", kind="drop")
LOOKED_FOR = "checking whether the batch exists before sending again"
FAULTS: list[tuple[str, list[Fault]]] = [
    (LOOKED_FOR, [replace(DROP, kind="status_after", status=500)]),
    (LOOKED_FOR, [replace(DROP, kind="status_after", status=408)]),
    (LOOKED_FOR, [replace(DROP, kind="hang", seconds=0.8)]),
    (LOOKED_FOR, [replace(DROP, kind="drop_before")]),
    ("status 429", [replace(DROP, kind="status", status=429, times=2)]),
    (LOOKED_FOR, [DROP, Fault(on="list", kind="list_lag", times=3)]),
    (LOOKED_FOR, [DROP, Fault(on="results", kind="page", times=2)]),
    (LOOKED_FOR, [DROP, Fault(on="results", kind="short", share=0.0, times=2)]),
    ("under way", [Fault(on="retrieve", kind="not_found", times=8)]),
    ("; waiting since ", [Fault(on="retrieve", kind="status", status=429, times=2)]),
    ("status 503", [Fault(on="results", kind="status", status=503, times=2)]),
    ("status 529", [Fault(on="models", kind="status", status=529)]),
    ("status 529", [Fault(on="count_tokens", kind="status", status=529)]),
    ("reading on", [Fault(on="results", kind="truncate", share=0.0, times=2)]),
    ("reading on", [Fault(on="results", kind="half_line", share=0.5, times=2)]),
]
CREDIT = "credit balance is too low"
OLD = "claude-sonnet-4-5"
DEEP = b"[" * 100_000 + b"]" * 100_000


def left_running(slow: Bench) -> str:
    """Send twelve requests and be interrupted while they run; returns the batch's id."""
    with pytest.raises(KeyboardInterrupt):
        slow.judged(say=interrupt, timeout=0.5)
    return str(slow.emulator.batches[-1]["id"])


@pytest.mark.parametrize(("told", "faults"), FAULTS)
def test_one_batch_is_made_and_paid_once(bench: Bench, faults: list[Fault], told: str) -> None:
    """A batch that exists is found, all results are read, and what is waited for is said."""
    bench.fail(*map(replace, faults))
    assert bench.all_ok(timeout=0.5)
    assert bench.sizes == [12]
    assert any(told in text for text in bench.said)
    assert bench.ledger.outcomes("first") == {"ok": 12}
    with closing(sqlite3.connect(bench.ledger.path)) as con:
        assert con.execute("SELECT count(*) FROM result_lines").fetchone() == (12,)


@pytest.mark.parametrize("deleted", [True, False], ids=["unknown", "results gone"])
def test_a_batch_that_is_gone_pauses_and_is_named(slow: Bench, deleted: bool) -> None:
    """Nothing is sent again before the user gives it up; given up, its requests are."""
    batch_id = left_running(slow)
    [intent] = slow.ledger.open_intents()
    slow.emulator.clock.advance(days=0 if deleted else 30, hours=2)
    if deleted:
        del slow.emulator.app.batches.by_id[batch_id]
    with pytest.raises(PausedError, match=rf"{batch_id} .*batches --give-up {intent.intent}"):
        slow.judged()
    before = slow.sizes
    assert before == ([] if deleted else [12])
    batches = Batches(ledger=slow.ledger, root=slow.ledger.path.parent)
    batches.give_up(intent.intent if deleted else batch_id)
    slow.emulator.settings.batch_seconds = 0
    assert ({*slow.statuses()}, slow.sizes) == ({Status.OK}, [*before, 12])
    assert slow.ledger.outcomes("first") == {"ok": 12, "given_up": 12}, "it may have been billed"


def test_results_that_never_arrive_are_left_for_later(bench: Bench) -> None:
    """Results that stay unreadable end the run with a sentence, and the next run reads them."""
    bench.fail(Fault(on="results", kind="half_line", share=0.5, times=1))
    bench.fail(Fault(on="results", kind="truncate", share=0.0, times=None))
    words = r"\d+ of its results have not arrived.*again: arena-kit ledger batches --give-up"
    with pytest.raises(ServiceError, match=words):
        bench.judged()
    assert len(bench.ledger) >= 6, "what had arrived is kept"
    bench.emulator.faults.clear()
    assert bench.all_ok()
    assert bench.sizes == [12]


@pytest.mark.parametrize(
    ("kind", "status", "paid"),
    [
        ("errored", Status.ERRORED, False), ("overloaded_errored", Status.ERRORED, False),
        ("expired", Status.EXPIRED, False), ("canceled", Status.CANCELED, False),
        ("unknown_type", Status.ERRORED, True), ("message_null", Status.ERRORED, True),
    ],
)  # fmt: skip
def test_what_failed_unpaid_goes_again(bench: Bench, kind: str, status: Status, paid: bool) -> None:
    """`max_tries` times in all, then by the next run; what may have been billed is final."""
    again = [] if paid else [3]
    bench.fail(Fault(on="item", kind=kind, count=3, times=2))
    found = bench.statuses(max_tries=2)
    assert ((found.count(Status.OK), found.count(status)), bench.sizes) == ((9, 3), [12, *again])
    assert bench.ledger.outcomes("first") == {"ok": 9, str(status): 3 if paid else 6}
    bench.emulator.faults.clear()
    second = bench.statuses(run="second")
    assert (second, bench.sizes) == (found if paid else [Status.OK] * 12, [12, *again, *again])
    assert len({row.digest for row in bench.bill}) == len(bench.bill) == 12


def test_a_request_refused_for_good_is_not_sent_again(bench: Bench) -> None:
    """However many tries are left; of a pre-warming, the others are not sent at all."""

    def refuse(params: Any) -> str:
        raise ApiError(400, "The service does not like this request.")

    bench.emulator.settings.behaviour = refuse
    [judgment] = bench.judged(1)
    assert judgment.forward.status is judgment.backward.status is Status.ERRORED
    assert judgment.forward.detail.endswith("The service does not like this request.")
    assert (bench.sizes, len(bench.ledger)) == ([2], 0)
    with pytest.raises(ServiceError, match=r"nothing else was sent: .* does not like this"):
        bench.judged(prewarm=True)
    assert bench.sizes == [2, 1]


@pytest.mark.parametrize(
    ("limit", "most", "room"), [("_MOST_REQUESTS", 5, 5), ("_MOST_BYTES", 9_000, 9_100)]
)
def test_more_than_a_batch_takes_is_split(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, room: int
) -> None:
    """No batch has more requests or bytes than the service takes, and each request is paid once."""
    monkeypatch.setattr(claude, limit, most)
    bench.emulator.settings.update({f"max_batch_{limit.removeprefix('_MOST_').lower()}": room})
    assert bench.all_ok()
    assert len(bench.sizes) > 1


def test_a_batch_holds_100_000_requests(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """100,001 requests make two groups; a single one beyond the limit is refused by name."""
    request = MATERIAL.requests(PAIRS[:1])[0]._replace(system="s", user="u")
    groups = bench.judge().split({str(n): request for n in range(100_001)})
    assert [len(group) for group in groups] == [100_000, 1]
    monkeypatch.setattr(claude, "_MOST_BYTES", 500)
    with pytest.raises(ServiceError, match=r"tone\|q1\|ash\|beech#1: \d+ bytes are too many"):
        bench.judged(1)
    assert bench.emulator.billing.accepted == []


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (CREDIT, Fault(on="create", kind="credit")),
        ("reached your specified API usage limits", Fault(on="create", kind="usage_limit")),
        ("exceed your organization's spend limit", Fault(on="create", kind="spend_cap")),
        ("The fault script says so", Fault(on="create", kind="status", status=402)),
        (CREDIT, Fault(on="item", kind="credit_errored")),
        (CREDIT, Fault(on="item", kind="credit_errored", count=5)),
    ],
    ids=["credit", "usage limit", "spend cap", "402", "credit in results", "credit in some"],
)
def test_an_empty_purse_pauses_the_run(bench: Bench, fault: Fault, words: str) -> None:
    """Without credit the run pauses, nothing is marked as failed, and the next one goes on."""
    bench.fail(replace(fault))
    with pytest.raises(PausedError, match=f"nothing is marked as failed: .*{words}"):
        bench.judged()
    paid = len(bench.bill)
    assert len(bench.ledger) == paid
    assert {a.status for a in bench.ledger.paid("first")} <= {Status.OK}
    assert bench.ledger.open_intents() == []
    if fault.on == "create":  # no limit is worth a retry
        posts = [row.path for row in bench.emulator.requests if row.method == "POST"]
        assert posts.count("/v1/messages/batches") == 1
    assert bench.all_ok(run="second")
    assert bench.sizes[-1] == 12 - paid


def test_no_batch_leaves_without_the_budgets_leave(bench: Bench) -> None:
    """The bulk is allowed on its own, when the pre-warming has been paid."""
    asked: list[int] = []

    def refuse(requests: Any) -> None:
        asked.append(len(requests))
        if len(asked) == 2:
            raise CostError("22 are too many")

    allowed = options(prewarm=True, budget=FixedBudget(lambda _: 0, refuse))
    with pytest.raises(CostError, match="22 are too many"):
        judge_pairs(TWO_DIMENSIONS, TWO_RUBRICS, bench.judge(), bench.ledger, options=allowed)
    assert asked == [24, 22]
    assert len(bench.emulator.billing.accepted) == len(bench.ledger) == 2
    assert bench.ledger.open_intents() == []


def test_prewarming_sends_one_request_per_rubric_ahead(ledger: Ledger) -> None:
    """Each rubric is written once and read eleven times: hit rate and saving by hand."""
    with Emulator(batch_seconds=0.08, miss_rate=0.0) as emulator:
        bench = Bench(emulator, ledger)
        allowed = options(prewarm=True, say=bench.said.append)
        judge_pairs(TWO_DIMENSIONS, TWO_RUBRICS, bench.judge(), ledger, options=allowed)
        (*ahead, bulk), sizes, bill = emulator.batches, bench.sizes, bench.bill
    assert sizes == [1, 1, 22]
    assert all(str(batch["ended_at"]) <= str(bulk["created_at"]) for batch in ahead)
    assert len({row.digest for row in bill}) == len(bill) == 24
    assert "pre-warming the prompt cache, one request per rubric" in bench.said
    spending = Spending.of(ledger.paid("first"), OPUS, batch=True)
    assert spending.usd == pytest.approx(sum(row.usd for row in bill), abs=1e-12)
    assert spending.answers == 24
    for name in ("input", "output", "thinking"):
        assert getattr(spending, f"{name}_tokens") == sum(getattr(r.counts, name) for r in bill)
    rubrics = [f"{HEADER}\n{rubric.text.strip()}\n" for rubric in TWO_RUBRICS.rubrics.values()]
    tokens = sum(-(-len(text.encode()) // 3.2) for text in rubrics)
    assert (spending.written_tokens, spending.read_tokens) == (tokens, 11 * tokens)
    assert spending.hit_rate == pytest.approx(11 / 12, abs=1e-12)
    saved = (12 * 4 - 8 - 11 * 0.2) * tokens / 2 / 1e6
    assert spending.usd_saved_by_prompt_cache == pytest.approx(saved, abs=1e-12)
    assert spending.warning == ""


@pytest.mark.parametrize("by", ["batches", "chat"])
def test_offline_names_the_address_that_answered(bench: Bench, by: str) -> None:
    """Answers from another address are not used, and the refusal says where they come from."""
    bench.judged(by=by)
    with Emulator() as other:
        judge, ours = JUDGES[by](other), JUDGES[by](bench.emulator).service.origin
        missing = f"12 verdicts are not in the cache from {judge.service.origin}"
        with pytest.raises(OfflineError, match=f"{missing}, but it has 12 of them from {ours}"):
            judge_pairs(PAIRS, MATERIAL, judge, bench.ledger, offline=True)
        other_texts = replace(MATERIAL, salt=b"another")
        with pytest.raises(OfflineError, match="12 verdicts are not in the cache:"):
            judge_pairs(PAIRS, other_texts, judge, bench.ledger, offline=True)
    assert not other.requests


def test_a_prewarmed_single_pair_is_judged(bench: Bench) -> None:
    """With one request per rubric there is nothing to warm for, and all is sent at once."""
    pairs = [PAIRS[0], replace(PAIRS[0], dimension="rigour")]
    requests = {str(n): r for n, r in enumerate(TWO_RUBRICS.requests(pairs)) if n % 2 == 0}
    ask(requests, bench.judge(), bench.ledger, options(prewarm=True), lambda n: None)
    assert (bench.ledger.settled(requests), bench.sizes) == ({"0", "2"}, [2])


@pytest.mark.parametrize("by", ["batches", "messages"])
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"model": "claude-3-opus-20240229"}, "claude-3-opus-20240229 was retired"),
        ({"model": "claude-opus-9"}, "does not know the model 'claude-opus-9'"),
        ({"model": OLD, "max_tokens": 64_001}, rf"64001 is more than ({OLD} allows: 64000|21333)"),
        ({"effort": "utmost"}, r"counting tokens: refused \(400\): output_config.effort"),
    ],
)
def test_refused_before_spending(bench: Bench, changes: dict[str, Any], why: str, by: str) -> None:
    """A retired or unknown model, too many tokens and a wrong shape cost nothing."""
    with pytest.raises(ServiceError, match=why):
        bench.judged(1, by, **changes)
    assert bench.emulator.billing.accepted == bench.ledger.open_intents() == []


def test_a_deprecated_model_warns_and_works(bench: Bench) -> None:
    """The end of a deprecated model is told, and its answers are paid as any other."""
    price = Price(model=OLD, input=3, output=15, write=6, write_5m=3.75, read=0.3, batch_factor=0.5)
    assert bench.all_ok(model=OLD, price=price, max_tokens=64_000)
    total = bench.emulator.billing.total_usd
    assert bench.ledger.spent("first") == pytest.approx(total, abs=1e-12)
    assert f"the model {OLD} is deprecated, ends 2026-11-30" in bench.said


def test_an_interrupt_leaves_the_batch_running_and_names_it(slow: Bench) -> None:
    """Ctrl-C cancels nothing: the text names the batch, and the next run collects it."""
    with pytest.raises(KeyboardInterrupt) as caught:
        slow.judged(say=interrupt)
    [batch] = slow.emulator.batches
    assert f"still running at the service: batch {batch['id']} (12 requests)" in str(caught.value)
    assert batch["cancel_initiated_at"] is None
    with pytest.raises(KeyboardInterrupt, match=str(batch["id"])):
        slow.judged(say=interrupt, run="second")
    slow.emulator.clock.advance(hours=2)
    assert slow.all_ok(run="second", **OTHER_KEY), "of a known batch any key of the account asks"
    assert slow.sizes == [12]
    total = slow.emulator.billing.total_usd
    assert slow.ledger.spent("second") == pytest.approx(total), "who collects reports"
    assert slow.ledger.spent("first") == 0.0


def test_an_unconfirmed_batch_of_another_key_pauses(slow: Bench) -> None:
    """Whether a batch exists can be seen only with the key that made it: nothing is sent."""
    judge, requests = slow.judge(), MATERIAL.requests(PAIRS)
    by_key = dict(zip(cache_keys(judge, requests), requests, strict=True))
    intent = slow.ledger.plan(by_key, Sender(judge, "judge", "first"), "batches")
    words = rf"unconfirmed batch {intent.intent} .* with another key.*--give-up {intent.intent}"
    with pytest.raises(PausedError, match=words) as caught:
        slow.judged(say=pytest.fail, **OTHER_KEY)
    assert "sk-ant" not in str(caught.value)
    assert slow.sizes == []


@pytest.fixture
def sent(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Batches:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    return Batches(ledger=ledger, root=ledger.path.parent)


def test_the_list_has_what_is_under_way(slow: Bench, sent: Batches) -> None:
    """With its run, model and size; a run of other requests does not wait for it."""
    with pytest.raises(DataError, match="no batch 'msgbatch_x' is under way; under way: none"):
        sent.cancel("msgbatch_x")
    batch_id = left_running(slow)
    [intent] = sent.ledger.open_intents()
    assert (intent.batch_id, intent.run, intent.n_requests) == (batch_id, "first", 12)
    assert (intent.model, intent.service.origin) == ("claude-opus-5-5", slow.emulator.base_url)
    assert (sent.look(intent).batch_id, sent.look(intent).ended) == (batch_id, False)
    with pytest.raises(DataError, match=f"under way: {batch_id}"):
        sent.give_up("msgbatch_x")
    slow.emulator.settings.batch_seconds = 0
    pairs = [pair for pair in TWO_DIMENSIONS if pair.dimension == "rigour"]
    judge_pairs(pairs, TWO_RUBRICS, slow.judge(), slow.ledger, options=options())
    assert slow.sizes == [12, 12]
    slow.emulator.clock.advance(hours=2)
    assert sent.look(intent).ended
    slow.judged()
    assert sent.ledger.open_intents() == []


def test_a_cancelled_batch_is_collected_and_the_rest_sent(slow: Bench, sent: Batches) -> None:
    """What was answered is kept and paid; the rest is sent by the next run, not by this one."""
    batch_id = left_running(slow)
    assert sent.cancel(batch_id).status == "canceling"
    slow.emulator.settings.batch_seconds = 0
    assert (slow.statuses().count(Status.CANCELED), slow.sizes) == (6, [12])
    assert slow.all_ok(run="second")
    assert slow.sizes == [12, 6], "half of a cancelled batch is cancelled"


def test_an_unconfirmed_batch_cannot_be_cancelled_yet(slow: Bench, sent: Batches) -> None:
    """An intent without a batch id is told as such; the next process finds its batch."""
    slow.fail(replace(DROP))
    left_running(slow)
    [intent] = sent.ledger.open_intents()
    assert intent.batch_id is None
    with pytest.raises(DataError, match=f"whether {intent.intent} became a batch is not known"):
        sent.cancel(intent.intent)
    slow.emulator.clock.advance(hours=2)
    assert slow.all_ok()
    assert slow.sizes == [12]


def tamper_with_one_line(bench: Bench, change: Callable[[bytes], bytes]) -> None:
    first: list[bytes] = []

    def tamper(request: Request, line: bytes) -> bytes:
        if line and request.path.endswith("/results"):
            first.append(line[:80])
            return change(line) if line[:80] == first[0] else line
        return line

    bench.emulator.app.tamper = tamper


@pytest.mark.parametrize(
    ("number", "errored"), [(b"1e400", 0), (b"-5", 0), (b"1.5", 0), (b"true", 0), (DEEP, 1)]
)
def test_a_bad_line_is_unknown_alone(bench: Bench, number: bytes, errored: int) -> None:
    """A usage that counts nothing is unknown, and its answer kept; too deep a line is errored."""
    counts = re.compile(rb'"output_tokens": ?\d+')
    tamper_with_one_line(bench, lambda line: counts.sub(b'"output_tokens":' + number, line))
    found = bench.statuses(budget=FixedBudget(lambda _: 0.25))
    assert (found.count(Status.OK), found.count(Status.ERRORED)) == (12 - errored, errored)
    assert 0 < bench.ledger.spent("first") < bench.emulator.billing.total_usd
    assert (bench.ledger.usd_unknown("first"), len(bench.ledger.paid("first"))) == (0.25, 11)
    assert (bench.statuses(run="second"), bench.sizes) == (found, [12])


@pytest.mark.parametrize(
    "reply", [b"<html>Welcome</html>", b'{"id": 7}', b'{"data": null}', b"null", b"{"]
)
def test_a_page_instead_of_a_batch_is_no_answer(bench: Bench, reply: bytes) -> None:
    """At create and at the next look: the batch is looked for, found and paid once."""
    left = {"POST": 1, "GET": 2}

    def tamper(request: Request, body: bytes) -> bytes:
        if "/batches" not in request.path or not body or not left[request.method]:
            return body
        left[request.method] -= 1
        return reply

    bench.emulator.app.tamper = tamper
    assert bench.all_ok()
    assert (left, bench.sizes) == ({"POST": 0, "GET": 0}, [12])


def test_an_unknown_batch_status_is_told(bench: Bench) -> None:
    """It is waited out, and its name, in printable letters, is said; so without its times."""
    odd = iter([b'"processing_status": "on\\u001b hold"'] * 2)
    times = re.compile(rb'"(created|expires)_at": "[^"]*"')
    bench.emulator.app.tamper = lambda request, body: times.sub(
        rb'"\1_at": null',
        re.sub(rb'"processing_status": "\w+"', lambda found: next(odd, found[0]), body)
        if "/msgbatch_" in request.path
        else body,
    )
    bench.fail(replace(DROP))
    assert bench.all_ok()
    assert any(text.endswith("has the unknown status 'on hold'") for text in bench.said)
    assert bench.sizes == [12]


@pytest.mark.parametrize("same", [True, False])
def test_contradicting_results_are_told(bench: Bench, same: bool) -> None:
    """Of two results that differ the first is kept, and that is said; a repeat is no news."""
    expired = b'{"custom_id": "%b", "result": {"type": "expired"}}\n'

    def twice(line: bytes) -> bytes:
        return line + (line if same else expired % json.loads(line)["custom_id"].encode())

    tamper_with_one_line(bench, twice)
    assert bench.all_ok()
    assert len([text for text in bench.said if "two results that differ" in text]) == (not same)
    assert bench.sizes == [12]


@pytest.mark.parametrize(
    ("url", "words"), [(b"/\\u0007results", "invalid address"), (b"", "the key was not sent there")]
)
def test_results_are_fetched_from_the_service_alone(bench: Bench, url: bytes, words: str) -> None:
    """Another origin gets no key; then all is collected, also from an address without a host."""
    with Emulator() as elsewhere:
        there = elsewhere.base_url
        foreign = Fault(on="retrieve", kind="foreign_results_url", url=there, times=None)
        there_or = url or b"/results"
        bench.emulator.app.tamper = lambda _, body: body.replace(b"/results", there_or)
        bench.fail(*([] if url else [foreign]))
        with pytest.raises(ServiceError, match=words):
            bench.judged()
        assert elsewhere.requests == []
    bench.emulator.app.tamper = None
    bench.emulator.faults.clear()
    bench.fail(Fault(on="retrieve", kind="foreign_results_url", url="", times=None))
    assert bench.all_ok()
    assert bench.sizes == [12]
