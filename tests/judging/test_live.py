"""Live calls: several at once, each answer kept as it comes, doubtful ones counted as such."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import pytest

from arena_kit.judging.asking.cost import CostError
from arena_kit.judging.asking.judge_pairs import judge_pairs
from arena_kit.judging.asking.options import Backoff
from arena_kit.judging.judges.anthropic import AnthropicMessages
from arena_kit.judging.judges.base import PausedError, ServiceError, cache_keys
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.ledger.rows import Intent
from arena_kit.judging.verdicts.records import Judgment, Status
from tests.emulator import Emulator, Fault
from tests.faults.tournament import FixedBudget
from tests.samples import (
    CLAUDE,
    MATERIAL,
    OPUS,
    PAIRS,
    TWO_DIMENSIONS,
    TWO_RUBRICS,
    batch_judge,
    client_of,
    options,
    sizes,
    statuses,
)


def live_judge(emulator: Emulator, *, timeout: float = 10.0, **changes: Any) -> AnthropicMessages:
    """Claude over plain messages, without a limit per minute that a test would feel."""
    client = client_of(emulator, timeout=timeout)
    shared = {"client": client, "model": OPUS.model, "price": OPUS}
    pace = {"concurrency": 4, "per_minute": 60_000}
    return AnthropicMessages(**(shared | CLAUDE | pace | changes))


def judged(
    emulator: Emulator, ledger: Ledger, *, judge: dict[str, Any] | None = None, **changes: Any
) -> list[Judgment]:
    """Twelve requests put to Claude live."""
    asked = live_judge(emulator, **(judge or {}))
    return judge_pairs(PAIRS, MATERIAL, asked, ledger, options=options(**changes))


def calls(emulator: Emulator) -> list[int | None]:
    """The status of every message call, None for a dropped one."""
    return [row.status for row in emulator.requests if row.path == "/v1/messages"]


def test_live_answers_cost_what_the_service_billed(emulator: Emulator, ledger: Ledger) -> None:
    """Live calls pay the full price, prompt cache included, and the ledger knows it."""
    judge = live_judge(emulator, concurrency=2)
    judge_pairs(TWO_DIMENSIONS, TWO_RUBRICS, judge, ledger, options=options())
    bill = emulator.billing.rows
    assert calls(emulator) == [200] * 24
    assert {row.counts.tier for row in bill} == {"standard"}
    assert sum(row.counts.read for row in bill) > 0
    assert sorted(a.cost_usd for a in ledger.paid("first")) == pytest.approx(
        sorted(row.usd for row in bill), abs=1e-12
    )
    assert ledger.spent("first") == pytest.approx(sum(row.usd for row in bill), abs=1e-12)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_calls_are_under_way_than_allowed(
    emulator: Emulator, ledger: Ledger, concurrency: int
) -> None:
    """The limit is reached, and never passed."""
    emulator.settings.latency = 0.03
    judge = live_judge(emulator, concurrency=concurrency)
    judge_pairs(PAIRS[:3], MATERIAL, judge, ledger, options=options())
    assert emulator.max_seen_concurrency == concurrency


def test_calls_are_spaced_over_the_minute(emulator: Emulator, ledger: Ledger) -> None:
    """At 300 calls a minute two calls are a fifth of a second apart, though more may be at once."""
    judge = live_judge(emulator, per_minute=300, concurrency=12)
    started = time.monotonic()
    judge_pairs(PAIRS[:1], MATERIAL, judge, ledger, options=options())
    assert time.monotonic() - started >= 0.2


def test_a_rate_limit_is_waited_out_as_told(emulator: Emulator, ledger: Ledger) -> None:
    """After a 429 the same request is asked again, not before the service wished."""
    emulator.faults.add(Fault(on="messages", kind="status", status=429, retry_after=0.3))
    judge = live_judge(emulator, concurrency=1)
    started = time.monotonic()
    judgments = judge_pairs(PAIRS[:1], MATERIAL, judge, ledger, options=options())
    assert time.monotonic() - started >= 0.3
    assert statuses(judgments) == [Status.OK, Status.OK]
    assert calls(emulator) == [429, 200, 200]
    assert ledger.outcomes("first") == {"ok": 2}


WAITING = r"status {}.*; waiting since \d\d:\d\d:\d\d, until \d\d:\d\d:\d\d at the latest"


@pytest.mark.parametrize("status", [409, 429, 500, 503, 529])
def test_an_outage_is_told_while_it_lasts(emulator: Emulator, ledger: Ledger, status: int) -> None:
    """What is waited for, since when and until when is said at the first failure, once for all
    calls that wait, and also that answers come again.
    """
    emulator.faults.add(Fault(on="messages", kind="status", status=status, times=6))
    said: list[tuple[int, str]] = []
    judged(emulator, ledger, say=lambda text: said.append((len(ledger), text)))
    [(answered, waiting), (_, over)] = said
    assert answered == 0
    assert re.search(WAITING.format(status), waiting)
    assert over == "the service answers again"
    assert calls(emulator).count(status) == 6
    assert len(emulator.billing.rows) == len(ledger) == 12


def test_patience_has_an_end(emulator: Emulator, ledger: Ledger) -> None:
    """A service that stays down leaves errored verdicts, unpaid; the next run asks for them."""
    emulator.faults.add(Fault(on="messages", kind="status", status=503, times=None))
    backoff = Backoff(first_wait=0.01, longest_wait=0.02, grace=0.1, patience=0.05)
    judge, allowed = live_judge(emulator), options(backoff=backoff, max_tries=2)
    judgments = judge_pairs(PAIRS[:1], MATERIAL, judge, ledger, options=allowed)
    assert statuses(judgments) == [Status.ERRORED, Status.ERRORED]
    assert ledger.outcomes("first") == {"errored": 4}
    assert len(ledger) == 0
    emulator.faults.clear()
    assert set(statuses(judged(emulator, ledger))) == {Status.OK}


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "drop"},
        {"kind": "hang", "seconds": 2},
        {"kind": "status_after", "status": 504},
        {"kind": "status_after", "status": 408},
    ],
    ids=["drop", "timeout", "504", "408"],
)
def test_a_call_without_an_answer_is_unknown_and_asked_again(
    emulator: Emulator, ledger: Ledger, fault: dict[str, Any]
) -> None:
    """A call that broke off may have been billed: it is counted as unknown, and asked again only
    by the next run.
    """
    emulator.faults.add(Fault(on="messages", **fault))
    judgments = judged(emulator, ledger, judge={"timeout": 1})
    missing = [v for j in judgments for v in j.verdicts if v.status is Status.MISSING]
    assert [v.detail[:47] for v in missing] == ["no answer came, and it may have been billed: as"]
    assert ledger.outcomes("first") == {"ok": 11, "unknown": 1}
    assert set(statuses(judged(emulator, ledger, run="second"))) == {Status.OK}
    assert len(emulator.billing.rows) == 13, "the service did bill the call that broke off"
    assert ledger.spent("first") < emulator.billing.total_usd


@pytest.mark.parametrize(
    "page",
    [b"<html>Welcome</html>", b'{"hello": "world"}', b"null", b"[" * 100_000],
    ids=["html", "json", "null", "deep"],
)
def test_a_page_instead_of_a_message_is_asked_again(
    emulator: Emulator, ledger: Ledger, page: bytes
) -> None:
    """A 200 that is no message is no answer: it is counted as unknown, asked again only by the
    next run, and five in a row end a run with a sentence.
    """
    emulator.app.tamper = lambda request, body: page if request.path == "/v1/messages" else body
    with pytest.raises(ServiceError, match="5 replies in a row were no answer"):
        judged(emulator, ledger, judge={"concurrency": 1})
    assert ledger.outcomes("first") == {"unknown": 5}
    emulator.app.tamper = None
    assert set(statuses(judged(emulator, ledger, run="second"))) == {Status.OK}
    assert len(ledger) == 12


def test_answers_that_had_arrived_survive_an_interrupt(emulator: Emulator, ledger: Ledger) -> None:
    """Each answer is durable before the next is counted: stopped after five, all that was paid
    for is there, and the next run asks only for the rest.
    """
    kept: list[int] = []

    def stop(done: int, total: int) -> None:
        kept.append(len(ledger))
        assert kept[-1] >= done
        if done == 5:
            raise KeyboardInterrupt

    judge = live_judge(emulator, concurrency=1)
    with pytest.raises(KeyboardInterrupt):
        judge_pairs(PAIRS, MATERIAL, judge, ledger, options=options(), on_progress=stop)
    assert kept[:6] == [0, 1, 2, 3, 4, 5]
    assert len(ledger) == len(emulator.billing.rows) == 5
    assert set(statuses(judged(emulator, ledger))) == {Status.OK}
    assert len(emulator.billing.rows) == 12


def test_calls_under_way_are_waited_for_at_an_interrupt(emulator: Emulator, ledger: Ledger) -> None:
    """Calls that the service already works on are paid for, so their answers are still kept."""
    emulator.settings.latency = 0.1
    stopped = threading.Event()

    def stop(done: int, total: int) -> None:
        if done and not stopped.is_set():
            stopped.set()
            raise KeyboardInterrupt

    judge = live_judge(emulator, concurrency=4)
    with pytest.raises(KeyboardInterrupt):
        judge_pairs(PAIRS, MATERIAL, judge, ledger, options=options(), on_progress=stop)
    assert len(ledger) == len(emulator.billing.rows) == 4
    assert ledger.outcomes("first") == {"ok": 4}


class InterruptedLedger(Ledger):
    """A ledger during whose third record Ctrl-C is pressed, before anything is written."""

    __slots__ = ("records",)

    def record(self, intent: Intent, results: Any, run: str = "") -> None:
        n = getattr(self, "records", 0) + 1
        object.__setattr__(self, "records", n)
        if n == 3:
            raise KeyboardInterrupt
        super().record(intent, results, run)


def test_an_interrupt_while_an_answer_is_written_does_not_lose_it(
    emulator: Emulator, ledger: Ledger
) -> None:
    """Ctrl-C in the middle of keeping an answer does not throw away what was paid for."""
    interrupted = InterruptedLedger(ledger.path)
    with pytest.raises(KeyboardInterrupt):
        judged(emulator, interrupted, judge={"concurrency": 1})
    assert len(ledger) == len(emulator.billing.rows) == 3


@pytest.mark.parametrize("kind", ["spend_cap", "credit", "usage_limit"])
def test_an_empty_purse_pauses_the_run(emulator: Emulator, ledger: Ledger, kind: str) -> None:
    """After five answers the money is gone: the run pauses, keeps the five, marks nothing as
    failed, and the next one asks for the other seven.
    """
    emulator.faults.add(Fault(on="messages", kind=kind, after=5, times=None))
    with pytest.raises(PausedError, match="nothing is marked as failed"):
        judged(emulator, ledger, judge={"concurrency": 1})
    assert calls(emulator) == [200] * 5 + [429 if kind == "spend_cap" else 400]
    assert len(ledger) == 5
    assert {a.status for a in ledger.paid("first")} == {Status.OK}
    emulator.faults.clear()
    assert set(statuses(judged(emulator, ledger, run="second"))) == {Status.OK}
    assert len(emulator.billing.rows) == 12


def test_the_cap_is_held_against_each_call(emulator: Emulator, ledger: Ledger) -> None:
    """A budget that ends midway stops the calls, and what was answered by then is kept."""

    def allow(requests: Any) -> None:
        if len(ledger) >= 4 and len(requests) < 12:
            raise CostError("the money is spent")

    with pytest.raises(CostError, match="the money is spent"):
        judged(emulator, ledger, budget=FixedBudget(lambda _: 0, allow), judge={"concurrency": 1})
    assert len(ledger) == len(emulator.billing.rows) == 4


def test_the_check_comes_before_the_first_call(emulator: Emulator, ledger: Ledger) -> None:
    """A model that the service does not know costs nothing."""
    with pytest.raises(ServiceError, match="does not know the model"):
        judged(emulator, ledger, judge={"model": "claude-opus-9"})
    assert calls(emulator) == []


def test_a_dead_process_leaves_unknown_calls(emulator: Emulator, ledger: Ledger) -> None:
    """Calls that an earlier process began and never recorded are closed as unknown by the next,
    and booked by forecast to the run that made them: one that is not asked for now as those
    that are cost on average.
    """
    judge = live_judge(emulator)
    asked = MATERIAL.requests(PAIRS[:1])
    requests = dict(zip((cache_keys(judge, asked)[0], "another's"), asked, strict=True))
    intent = ledger.plan({}, transport="live", judge=judge, purpose="judge", run="died")
    ledger.begin(intent, requests)
    assert ledger.outcomes("died") == {"under way": 2}
    prices = [0.5, *(11 * [0.25])]  # dollars, in the order of the twelve requests
    by_id = dict(zip((r.request_id for r in MATERIAL.requests(PAIRS)), prices, strict=True))
    budget = FixedBudget(lambda request: by_id[request.request_id])
    judgments = judged(emulator, ledger, budget=budget)
    assert set(statuses(judgments)) == {Status.OK}
    assert ledger.outcomes("died") == {"unknown": 2}
    assert ledger.usd_unknown("died") == pytest.approx(0.5 + sum(prices) / 12)
    assert ledger.usd_unknown("first") == 0


def test_requests_that_a_batch_still_owes_are_not_paid_twice(ledger: Ledger) -> None:
    """Asking live for what a batch is answering makes no call and names the batch."""

    def interrupt(_text: str) -> None:
        raise KeyboardInterrupt

    with Emulator(batch_seconds=3600) as emulator:
        with pytest.raises(KeyboardInterrupt):
            judge_pairs(
                PAIRS, MATERIAL, batch_judge(emulator), ledger, options=options(say=interrupt)
            )
        with pytest.raises(PausedError, match=str(emulator.batches[0]["id"])):
            judged(emulator, ledger)
        assert calls(emulator) == []
        assert sizes(emulator) == [12]
