"""Live calls to Claude and to a chat server: each answer is kept, doubtful ones are counted."""

import json
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from arena_kit.files import DataError
from arena_kit.judging.asking import live
from arena_kit.judging.asking.cost import Budget, CostError, Estimator
from arena_kit.judging.asking.judge_pairs import judge_pairs
from arena_kit.judging.asking.options import Backoff
from arena_kit.judging.judges.base import PausedError, Price, ServiceError, cache_keys
from arena_kit.judging.ledger.ledger import Intent, Ledger, Sender
from arena_kit.judging.verdicts.records import Slot, Status
from arena_kit.runs.settings.files import ChatSettings
from arena_kit.runs.settings.judges import Backend
from tests import samples
from tests.emulator import Fault
from tests.emulator.app import Answer, Request
from tests.faults.tournament import FixedBudget
from tests.judging.conftest import PATHS, Bench, interrupt
from tests.samples import HAIKU, MATERIAL, PAIRS, TWO_DIMENSIONS, TWO_RUBRICS, options, verdict

SITES = pytest.mark.parametrize("site", PATHS)
WAITING = r"status {}.*; waiting since \d\d:\d\d:\d\d, until \d\d:\d\d:\d\d at the latest"
PAGES = [b"<html>\x1b[31mWelcome\x07</html>", b'{"hello": "world"}', b"null", b"[" * 100_000]
NO_USAGE = [b'"x":', b'"usage": null, "x":', b'"usage": {"total_tokens": NaN}, "x":']
NO_USAGE += [b'"usage": {"prompt_tokens": %b, "completion_tokens": 3}, "x":' % (b"9" * 6000)]
MODEL = HAIKU.model
SECRET = "sk-local-0123456789abcdef"


@SITES
def test_live_answers_cost_what_the_service_billed(bench: Bench, site: str) -> None:
    """Live calls pay the full price, prompt cache included, and the ledger knows it."""
    judge = bench.judge(site, concurrency=2)
    judge_pairs(TWO_DIMENSIONS, TWO_RUBRICS, judge, bench.ledger, options=options())
    assert bench.calls(site) == [200] * 24
    assert {row.counts.tier for row in bench.bill} == {"standard"}
    assert (sum(row.counts.read for row in bench.bill) > 0) == (site == "messages")
    costs = sorted(answer.cost_usd for answer in bench.ledger.paid("first"))
    assert costs == pytest.approx(sorted(row.usd for row in bench.bill), abs=1e-12)
    total = bench.emulator.billing.total_usd
    assert bench.ledger.spent("first") == pytest.approx(total, abs=1e-12)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_calls_are_under_way_than_allowed(bench: Bench, concurrency: int) -> None:
    """The limit is reached, and never passed."""
    bench.emulator.settings.latency = 0.03
    bench.judged(3, "messages", concurrency=concurrency)
    assert bench.emulator.app.max_seen_concurrency == concurrency


def test_calls_are_spaced_as_told(bench: Bench) -> None:
    """300 a minute are a fifth of a second apart; after a 429 not before the service wished."""
    started = time.monotonic()
    bench.judged(1, "messages", per_minute=300, concurrency=12)
    assert time.monotonic() - started >= 0.2
    bench.fail(Fault(on="messages", kind="status", status=429, retry_after=0.3))
    started = time.monotonic()
    assert bench.statuses(2, "messages", concurrency=1) == [Status.OK] * 4
    assert time.monotonic() - started >= 0.3
    assert bench.calls("messages") == [200, 200, 429, 200, 200]


@pytest.mark.parametrize(
    ("site", "status"), [("messages", 409), ("messages", 429), ("messages", 529), ("chat", 503)]
)
def test_an_outage_is_told_while_it_lasts(bench: Bench, site: str, status: int) -> None:
    """What is waited for is said once for all calls that wait, and also that answers come again."""
    bench.fail(Fault(on=site, kind="status", status=status, times=12))
    said: list[tuple[int, str]] = []
    bench.judged(by=site, say=lambda text: said.append((len(bench.ledger), text)))
    [(answered, waiting), (_, over)] = said
    assert answered == 0
    assert re.search(WAITING.format(status), waiting)
    assert (over, bench.calls(site).count(status)) == ("the service responds again", 12)
    assert len(bench.bill) == len(bench.ledger) == 12


def test_patience_has_an_end(bench: Bench) -> None:
    """A service that stays down leaves errored verdicts, unpaid; the next run asks for them."""
    bench.fail(Fault(on="messages", kind="status", status=503, times=None))
    backoff = Backoff(first_wait=0.01, longest_wait=0.02, grace=0.1, patience=0.05)
    found = bench.statuses(1, "messages", backoff=backoff, max_tries=2)
    assert found == [Status.ERRORED, Status.ERRORED]
    assert ({*bench.ledger.outcomes("first")}, len(bench.ledger)) == ({"errored"}, 0)
    assert bench.said[-1].startswith("2 of 2 requests failed (status errored); another run")
    bench.emulator.faults.clear()
    assert bench.all_ok("messages")


@pytest.mark.parametrize(
    ("site", "question", "concurrency"),
    [("messages", "q1", 1), ("messages", "q2", 4), ("chat", "q1", 4), ("chat", "q2", 1)],
)
def test_one_question_that_always_fails_stalls_nobody(
    bench: Bench, site: str, question: str, concurrency: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is sent `max_tries` times a run and errored; others are answered, nothing waited out."""
    slept: list[float] = []
    clock = {"sleep": slept.append, "monotonic": lambda: time.monotonic() + sum(slept)}
    monkeypatch.setattr(live, "time", SimpleNamespace(**clock))
    monkeypatch.setattr(live, "_ONE_QUESTION", 2)  # as if it had thirty times as many requests
    how: Any = {"by": site, "concurrency": concurrency, "backoff": Backoff(first_wait=5.0)}
    answer = bench.emulator.app.answer

    def fails(request: Request) -> Answer:
        mine = request.path == PATHS[site] and f"Question {question}?".encode() in request.body
        bad = {"type": "error", "error": {"type": "api_error", "message": "out of memory"}}
        return Answer(status=500, body=json.dumps(bad).encode()) if mine else answer(request)

    bench.emulator.app.answer = fails  # type: ignore[method-assign]
    found = bench.judged(**how)
    statuses = {j.pair.prompt_id: {v.status for v in j.verdicts} for j in found}
    assert statuses == {"q1": {Status.OK}, "q2": {Status.OK}} | {question: {Status.ERRORED}}
    assert bench.ledger.outcomes("first") == {"ok": 6, "errored": 6 * 3}
    assert "6 of 12 requests failed (status errored)" in bench.said[-1]
    bench.judged(**how, run="second")
    assert sum(slept) < 80, "seconds, in both runs"
    assert bench.ledger.outcomes("second") == {"errored": 6 * 3}
    assert "6 of 6 requests failed (status errored)" in bench.said[-1]
    bench.emulator.app.answer = answer  # type: ignore[method-assign]
    assert bench.all_ok(site)


@pytest.mark.parametrize(
    ("site", "fault"),
    [
        *((site, {"kind": "drop"}) for site in PATHS),
        *((site, {"kind": "hang", "seconds": 1}) for site in PATHS),
        *(("messages", {"kind": "status_after", "status": status}) for status in (504, 408)),
    ],
)
def test_a_call_without_answer_is_unknown(bench: Bench, site: str, fault: dict[str, Any]) -> None:
    """A call that broke off may have been billed: unknown, and asked again by the next run."""
    bench.fail(Fault(on=site, **fault))
    found = bench.judged(by=site, timeout=0.5)
    [missing] = [v for j in found for v in j.verdicts if v.status is Status.MISSING]
    assert missing.detail.startswith("no answer, and it may have been billed: ")
    assert bench.ledger.outcomes("first") == {"ok": 11, "unknown": 1}
    assert {*bench.statuses(by=site, run="second")} == {Status.OK}
    assert len(bench.bill) == 13, "the service did bill the call that broke off"
    assert bench.ledger.spent("first") < bench.emulator.billing.total_usd


@SITES
@pytest.mark.parametrize("page", PAGES, ids=["html", "json", "null", "deep"])
def test_a_page_instead_of_an_answer_is_asked_again(bench: Bench, page: bytes, site: str) -> None:
    """It is unknown, asked again only by the next run, and five in a row end a run."""
    bench.emulator.app.tamper = lambda request, body: page if request.path == PATHS[site] else body
    with pytest.raises(ServiceError, match="5 consecutive replies were no answer"):
        bench.judged(by=site, concurrency=1)
    assert bench.ledger.outcomes("first") == {"unknown": 5}
    bench.emulator.app.tamper = None
    assert ({*bench.statuses(by=site, run="second")}, len(bench.ledger)) == ({Status.OK}, 12)


def test_answers_that_had_arrived_survive_an_interrupt(bench: Bench) -> None:
    """Each answer is durable before the next is counted; the next run asks only for the rest."""
    kept: list[int] = []

    def stop(done: int, _total: int) -> None:
        kept.append(len(bench.ledger))
        assert kept[-1] >= done
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.judged(by="messages", concurrency=1, on_progress=stop)
    assert kept[:6] == [0, 1, 2, 3, 4, 5]
    assert len(bench.ledger) == len(bench.bill) == 5
    assert bench.all_ok("messages")


def test_calls_under_way_are_waited_for_at_an_interrupt(bench: Bench) -> None:
    """Calls that the service already works on are paid for, so their answers are still kept."""
    bench.emulator.settings.latency = 0.1
    presses = iter([False, True])

    def stop(_done: int, _total: int) -> None:
        if next(presses, False):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.judged(by="messages", on_progress=stop)
    assert len(bench.ledger) == len(bench.bill) == 4
    assert bench.ledger.outcomes("first") == {"ok": 4}


class InterruptedLedger(Ledger):
    """A ledger during whose third record Ctrl-C is pressed, before anything is written."""

    __slots__ = ("records",)

    def record(self, intent: Intent, results: Any, run: str = "") -> None:
        n = getattr(self, "records", 0) + 1
        object.__setattr__(self, "records", n)
        if n == 3:
            raise KeyboardInterrupt
        super().record(intent, results, run)


def test_an_interrupt_while_an_answer_is_written_does_not_lose_it(bench: Bench) -> None:
    """Ctrl-C in the middle of keeping an answer does not throw away what was paid for."""
    interrupted = InterruptedLedger(bench.ledger.path)
    with pytest.raises(KeyboardInterrupt):
        samples.judged_by(bench.judge("messages", concurrency=1), interrupted)
    assert len(bench.ledger) == len(bench.bill) == 3


@pytest.mark.parametrize(
    ("site", "kind"),
    [("messages", "spend_cap"), ("messages", "credit"), ("messages", "usage_limit"),
     ("chat", "spend_cap"), ("chat", "credit")],
)  # fmt: skip
def test_an_empty_purse_pauses_the_run(bench: Bench, site: str, kind: str) -> None:
    """The run keeps the five that were paid, marks nothing as failed, and the next one goes on."""
    bench.fail(Fault(on=site, kind=kind, after=5, times=None))
    with pytest.raises(PausedError, match="nothing is marked as failed"):
        bench.judged(by=site, concurrency=1)
    refused = 1 + ((site, kind) == ("chat", "credit"))  # once more, without the schema
    assert bench.calls(site) == [200] * 5 + [429 if kind == "spend_cap" else 400] * refused
    assert [answer.status for answer in bench.ledger.paid("first")] == [Status.OK] * 5
    bench.emulator.faults.clear()
    assert bench.all_ok(site, run="second")


def test_the_cap_is_held_against_each_call(bench: Bench) -> None:
    """A budget that ends midway stops the calls, and what was answered by then is kept."""

    def allow(requests: Any) -> None:
        if len(bench.ledger) >= 4 and len(requests) < 12:
            raise CostError("the money is spent")

    budget = FixedBudget(lambda _: 0, allow)
    with pytest.raises(CostError, match="the money is spent"):
        bench.judged(by="messages", budget=budget, concurrency=1)
    assert len(bench.ledger) == len(bench.bill) == 4


def test_a_free_judge_waits_for_another_run(bench: Bench) -> None:
    """Where nothing is paid, a second run waits for the first, and says so."""
    with ThreadPoolExecutor() as pool:
        with bench.ledger.locked("another"):
            free = Price(model=MODEL, input=0, output=0)
            asked = pool.submit(bench.statuses, by="chat", price=free)
            while not bench.said:
                time.sleep(0.05)
            assert bench.calls("chat") == []
        assert {*asked.result()} == {Status.OK}
    assert re.match("waiting: .*another run is using this ledger", bench.said[0])


def test_a_dead_process_leaves_unknown_calls(bench: Bench) -> None:
    """Booked by forecast to the run that made them, an unknown one at the average."""
    judge, ledger = bench.judge("messages"), bench.ledger
    asked = MATERIAL.requests(PAIRS[:1])
    requests = dict(zip((cache_keys(judge, asked)[0], "another's"), asked, strict=True))
    intent = ledger.plan({}, Sender(judge, "judge", "died"), "live")
    ledger.begin(intent, requests)
    assert ledger.outcomes("died") == {"under way": 2}
    prices = [0.5, *(11 * [0.25])]  # dollars, in the order of the twelve requests
    by_id = dict(zip((r.request_id for r in MATERIAL.requests(PAIRS)), prices, strict=True))
    budget = FixedBudget(lambda request: by_id[request.request_id])
    assert bench.all_ok("messages", budget=budget)
    assert ledger.outcomes("died") == {"unknown": 2}
    assert ledger.usd_unknown("died") == pytest.approx(0.5 + sum(prices) / 12)
    assert ledger.usd_unknown("first") == 0


def test_requests_that_a_batch_still_owes_are_not_paid_twice(slow: Bench) -> None:
    """Asking live for what a batch is answering makes no call and names the batch."""
    with pytest.raises(KeyboardInterrupt):
        slow.judged(say=interrupt)
    with pytest.raises(PausedError, match=str(slow.emulator.batches[0]["id"])):
        slow.judged(by="messages")
    assert (slow.calls("messages"), slow.sizes) == ([], [12])


@pytest.mark.parametrize("usage", NO_USAGE, ids=["missing", "null", "odd", "huge"])
def test_missing_usage_is_booked_by_forecast(bench: Bench, usage: bytes) -> None:
    """Each answer of a priced model is booked as unknown, and the cap is held against that."""
    bench.emulator.app.tamper = lambda request, body: body.replace(b'"usage":', usage)
    judge, ledger = bench.judge("chat", concurrency=1), bench.ledger
    money: Any = {"estimator": Estimator(), "expected_tokens": 100, "cap_usd": 1.0}
    budget = Budget(judge=judge, ledger=ledger, **money)
    requests = MATERIAL.requests(PAIRS)
    forecast = budget.forecast(requests).usd_no_hits
    assert {*bench.statuses(judge=judge, budget=budget)} == {Status.OK}
    assert ledger.spent("first") == 0
    assert ledger.usd_unknown("first") == pytest.approx(forecast, rel=0.01)
    assert ledger.output_tokens(judge, "judge") == (0, 0), "an unknown length is not one of zero"
    with pytest.raises(CostError, match="are spent or under way"):
        replace(budget, cap_usd=1.5 * forecast).allow(requests, "first")


def test_cached_prompt_tokens_pay_the_read_price(bench: Bench) -> None:
    """Of 1,000 prompt tokens of which 600 were cached, 400 pay in full."""
    details = {"prompt_tokens_details": {"cached_tokens": 600}}
    usage = {"prompt_tokens": 1000, "completion_tokens": 50} | details
    choice = {"message": {"content": verdict("A")}, "finish_reason": "stop"}
    completion = json.dumps({"model": "served", "choices": [choice], "usage": usage}).encode()
    bench.emulator.app.tamper = lambda *_: completion
    found = bench.judge("chat").ask(MATERIAL.requests(PAIRS[:1])[0]).answer
    counts = {"input_tokens": 400, "cache_read_input_tokens": 600, "output_tokens": 50}
    assert (found.usage, found.served_model) == (counts, "served")
    assert found.cost_usd == pytest.approx((400 * 1 + 600 * 0.1 + 50 * 5) / 1e6, abs=1e-15)


@pytest.fixture
def heard(bench: Bench) -> list[tuple[str, dict[str, str], Any]]:
    """Path, headers and body of every request, as the server heard them."""
    found: list[tuple[str, dict[str, str], Any]] = []
    answer = bench.emulator.app.answer

    def note(request: Request) -> Answer:
        found.append((request.path, request.headers, json.loads(request.body or b"null")))
        return answer(request)

    bench.emulator.app.answer = note  # type: ignore[method-assign]
    return found


def test_a_server_without_schemas_is_asked_plainly(bench: Bench) -> None:
    """A refused schema is left out once and for all; where it was insisted on, it is an error."""
    bench.emulator.settings.chat_schema = False
    bench.emulator.settings.behaviour = lambda params: "I have thought about it. [[B]]"
    [judgment] = bench.judged(1, "chat", structured="json_schema")
    assert judgment.forward.status is judgment.backward.status is Status.ERRORED
    assert "json_schema" in judgment.forward.detail
    judgments = bench.judged(by="chat", concurrency=1)
    assert {v.winner for j in judgments for v in j.verdicts} == {Slot.B}
    assert bench.calls("chat") == [400] * 3 + [200] * 12, "the schema is tried a single time"


def test_a_seed_is_passed_on(bench: Bench, heard: list[Any]) -> None:
    """A question's seed is sent, an empty system text is not, and the server repeats itself."""
    text = {"system": "", "user": "Say something.", "identity": b"{}", "pieces": ()}
    asked: Any = SimpleNamespace(request_id="q", seed=4711, **text)
    judge = bench.judge("chat", verdict=False, temperature=None)
    assert judge.ask(asked).answer.text == judge.ask(asked).answer.text
    messages = [{"role": "user", "content": "Say something."}]
    assert heard[-1][2] == {"model": MODEL, "messages": messages, "max_tokens": 1024, "seed": 4711}


@pytest.mark.parametrize("variable", ["LOCAL_KEY", ""])
def test_the_named_variables_key_is_sent(
    bench: Bench, heard: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """As a bearer token, and nowhere else; a server of one's own needs none, and gets none."""
    monkeypatch.setenv("LOCAL_KEY", SECRET)
    if variable:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-not-this-one-012345")
    where = {"base_url": f"{bench.emulator.base_url}/v1", "key_variable": variable}
    backend = Backend(kind="openai_compatible", model=MODEL, **where)
    judge = backend.judge(ChatSettings(), {MODEL: HAIKU}, tmp_path)
    bench.judged(1, judge=judge)
    sent = f"Bearer {SECRET}" if variable else None
    assert [headers.get("authorization") for _, headers, _ in heard] == [sent] * 3
    assert SECRET not in json.dumps([body for *_, body in heard])
    assert SECRET not in f"{judge!r} {judge.settings} {judge.service}"
    assert SECRET.encode() not in bench.ledger.path.read_bytes()


def test_a_server_that_is_absent_or_does_not_list_its_model(bench: Bench) -> None:
    """The address is named, nothing planned; an unlisted model is told, and asked."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ServiceError, match=rf"no server answers at {address}/v1 \(ConnectError\)"):
        bench.judged(judge=samples.chat_judge(address))
    assert bench.ledger.outcomes("first") == {}
    assert bench.statuses(1, "chat", model="llama-9") == [Status.OK, Status.OK]
    assert bench.said == [f"{bench.emulator.base_url}/v1 does not list the model llama-9"]


@pytest.mark.parametrize(
    ("page", "price", "told"),
    [
        (b'{"error": {"message": "model is loading"}}', HAIKU, "model is loading"),
        (b"<html>Welcome</html>", Price(model=MODEL, input=0, output=0), ""),
    ],
    ids=["loading", "free"],
)
def test_what_is_free_is_asked_again(bench: Bench, page: bytes, price: Price, told: str) -> None:
    """A 200 that carries an error is waited out, and said; a free server's page is asked again."""
    pages = iter([page] * 3)
    bench.emulator.app.tamper = lambda request, body: (
        next(pages, body) if "completions" in request.path else body
    )
    assert {*bench.statuses(by="chat", price=price, concurrency=1)} == {Status.OK}
    assert told in "".join(bench.said)


def test_a_model_from_this_machine_is_free(bench: Bench, tmp_path: Path) -> None:
    """An unlisted model needs no price on the loopback address without a key, else it does."""
    url = f"{bench.emulator.base_url}/v1"
    here = Backend(kind="openai_compatible", model="own", base_url=url)
    away = Backend(kind="openai_compatible", model="own", base_url="https://example.org/v1")
    assert here.price({}, keyless=True).free
    for backend in (here, away):
        with pytest.raises(DataError, match="there is no price for the model 'own'"):
            backend.price({MODEL: HAIKU})
    none = Backend(kind="openai_compatible", model=MODEL)
    with pytest.raises(DataError, match="base_url"):
        none.judge(ChatSettings(), {MODEL: HAIKU}, tmp_path)
