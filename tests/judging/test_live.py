"""Live calls to Claude and to a chat-completions server: each answer is kept as it comes, and
doubtful ones are counted as such.
"""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from arena_kit.judging.asking.cost import CostError
from arena_kit.judging.asking.judge_pairs import judge_pairs
from arena_kit.judging.asking.options import Backoff
from arena_kit.judging.judges.base import PausedError, ServiceError, cache_keys
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.ledger.rows import Intent
from arena_kit.judging.verdicts.records import Judgment, Status
from tests.emulator import Emulator, Fault
from tests.faults.tournament import FixedBudget
from tests.samples import (
    MATERIAL,
    PAIRS,
    TWO_DIMENSIONS,
    TWO_RUBRICS,
    batch_judge,
    chat_judge,
    judged_by,
    live_judge,
    options,
    sizes,
    statuses,
)

JUDGES: dict[str, Any] = {"messages": live_judge, "chat": chat_judge}
PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions"}


def judged(
    emulator: Emulator, ledger: Ledger, n: int = 6, *, site: str = "messages", **changes: Any
) -> list[Judgment]:
    """Requests put live, with settings of the judge and options by name."""
    names = ("timeout", "concurrency", "per_minute", "model")
    own = {name: changes.pop(name) for name in names if name in changes}
    return judged_by(JUDGES[site](emulator, **own), ledger, n, **changes)


def calls(emulator: Emulator, site: str = "messages") -> list[int | None]:
    """The status of every call, None for a dropped one."""
    return [row.status for row in emulator.requests if row.path == PATHS[site]]


@pytest.mark.parametrize("site", JUDGES)
def test_live_answers_cost_what_the_service_billed(
    emulator: Emulator, ledger: Ledger, site: str
) -> None:
    """Live calls pay the full price, prompt cache included, and the ledger knows it."""
    judge = JUDGES[site](emulator, concurrency=2)
    judge_pairs(TWO_DIMENSIONS, TWO_RUBRICS, judge, ledger, options=options())
    bill = emulator.billing.rows
    assert calls(emulator, site) == [200] * 24
    assert {row.counts.tier for row in bill} == {"standard"}
    assert (sum(row.counts.read for row in bill) > 0) == (site == "messages")
    costs = sorted(answer.cost_usd for answer in ledger.paid("first"))
    assert costs == pytest.approx(sorted(row.usd for row in bill), abs=1e-12)
    assert ledger.spent("first") == pytest.approx(emulator.billing.total_usd, abs=1e-12)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_calls_are_under_way_than_allowed(
    emulator: Emulator, ledger: Ledger, concurrency: int
) -> None:
    """The limit is reached, and never passed."""
    emulator.settings.latency = 0.03
    judged(emulator, ledger, 3, concurrency=concurrency)
    assert emulator.max_seen_concurrency == concurrency


def test_calls_are_spaced_as_told(emulator: Emulator, ledger: Ledger) -> None:
    """At 300 calls a minute two calls are a fifth of a second apart, though more may be at once;
    after a 429 the same request is asked again, not before the service wished.
    """
    started = time.monotonic()
    judged(emulator, ledger, 1, per_minute=300, concurrency=12)
    assert time.monotonic() - started >= 0.2
    emulator.faults.add(Fault(on="messages", kind="status", status=429, retry_after=0.3))
    started = time.monotonic()
    assert statuses(judged(emulator, ledger, 2, concurrency=1)) == [Status.OK] * 4
    assert time.monotonic() - started >= 0.3
    assert calls(emulator) == [200, 200, 429, 200, 200]


WAITING = r"status {}.*; waiting since \d\d:\d\d:\d\d, until \d\d:\d\d:\d\d at the latest"


@pytest.mark.parametrize(
    ("site", "status"),
    [*(("messages", status) for status in (409, 429, 500, 529)), ("chat", 429), ("chat", 503)],
)
def test_an_outage_is_told_while_it_lasts(
    emulator: Emulator, ledger: Ledger, site: str, status: int
) -> None:
    """What is waited for, since when and until when is said at the first failure, once for all
    calls that wait, and also that answers come again.
    """
    emulator.faults.add(Fault(on=site, kind="status", status=status, times=6))
    said: list[tuple[int, str]] = []
    judged(emulator, ledger, site=site, say=lambda text: said.append((len(ledger), text)))
    [(answered, waiting), (_, over)] = said
    assert answered == 0
    assert re.search(WAITING.format(status), waiting)
    assert over == "the service answers again"
    assert calls(emulator, site).count(status) == 6
    assert len(emulator.billing.rows) == len(ledger) == 12


def test_patience_has_an_end(emulator: Emulator, ledger: Ledger) -> None:
    """A service that stays down leaves errored verdicts, unpaid; the next run asks for them."""
    emulator.faults.add(Fault(on="messages", kind="status", status=503, times=None))
    backoff = Backoff(first_wait=0.01, longest_wait=0.02, grace=0.1, patience=0.05)
    found = judged(emulator, ledger, 1, backoff=backoff, max_tries=2)
    assert statuses(found) == [Status.ERRORED, Status.ERRORED]
    assert ledger.outcomes("first") == {"errored": 4}
    assert len(ledger) == 0
    emulator.faults.clear()
    assert {*statuses(judged(emulator, ledger))} == {Status.OK}


@pytest.mark.parametrize(
    ("site", "fault"),
    [
        *((site, {"kind": "drop"}) for site in JUDGES),
        *((site, {"kind": "hang", "seconds": 2}) for site in JUDGES),
        *(("messages", {"kind": "status_after", "status": status}) for status in (504, 408)),
    ],
)
def test_a_call_without_an_answer_is_unknown_and_asked_again(
    emulator: Emulator, ledger: Ledger, site: str, fault: dict[str, Any]
) -> None:
    """A call that broke off may have been billed: unknown, and asked again by the next run."""
    emulator.faults.add(Fault(on=site, **fault))
    found = judged(emulator, ledger, site=site, timeout=1)
    [missing] = [v for j in found for v in j.verdicts if v.status is Status.MISSING]
    assert missing.detail.startswith("no answer came, and it may have been billed: ")
    assert ledger.outcomes("first") == {"ok": 11, "unknown": 1}
    assert {*statuses(judged(emulator, ledger, site=site, run="second"))} == {Status.OK}
    assert len(emulator.billing.rows) == 13, "the service did bill the call that broke off"
    assert ledger.spent("first") < emulator.billing.total_usd


PAGES = [b"<html>\x1b[31mWelcome\x07</html>", b'{"hello": "world"}', b"null", b"[" * 100_000]


@pytest.mark.parametrize("site", JUDGES)
@pytest.mark.parametrize("page", PAGES, ids=["html", "json", "null", "deep"])
def test_a_page_instead_of_an_answer_is_asked_again(
    emulator: Emulator, ledger: Ledger, page: bytes, site: str
) -> None:
    """A 200 that is no answer is counted as unknown, asked again only by the next run, and five
    in a row end a run with a sentence.
    """
    emulator.app.tamper = lambda request, body: page if request.path == PATHS[site] else body
    with pytest.raises(ServiceError, match="5 replies in a row were no answer"):
        judged(emulator, ledger, site=site, concurrency=1)
    assert ledger.outcomes("first") == {"unknown": 5}
    emulator.app.tamper = None
    assert {*statuses(judged(emulator, ledger, site=site, run="second"))} == {Status.OK}
    assert len(ledger) == 12


def test_answers_that_had_arrived_survive_an_interrupt(emulator: Emulator, ledger: Ledger) -> None:
    """Each answer is durable before the next is counted: stopped after five, all that was paid
    for is there, and the next run asks only for the rest.
    """
    kept: list[int] = []

    def stop(done: int, _total: int) -> None:
        kept.append(len(ledger))
        assert kept[-1] >= done
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judged(emulator, ledger, concurrency=1, on_progress=stop)
    assert kept[:6] == [0, 1, 2, 3, 4, 5]
    assert len(ledger) == len(emulator.billing.rows) == 5
    assert {*statuses(judged(emulator, ledger))} == {Status.OK}
    assert len(emulator.billing.rows) == 12


def test_calls_under_way_are_waited_for_at_an_interrupt(emulator: Emulator, ledger: Ledger) -> None:
    """Calls that the service already works on are paid for, so their answers are still kept."""
    emulator.settings.latency = 0.1
    presses = iter([False, True])

    def stop(_done: int, _total: int) -> None:
        if next(presses, False):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judged(emulator, ledger, on_progress=stop)
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
    with pytest.raises(KeyboardInterrupt):
        judged(emulator, InterruptedLedger(ledger.path), concurrency=1)
    assert len(ledger) == len(emulator.billing.rows) == 3


@pytest.mark.parametrize(
    ("site", "kind"),
    [*(("messages", kind) for kind in ("spend_cap", "credit", "usage_limit")),
     *(("chat", kind) for kind in ("spend_cap", "credit"))],
)  # fmt: skip
def test_an_empty_purse_pauses_the_run(
    emulator: Emulator, ledger: Ledger, site: str, kind: str
) -> None:
    """After five answers the money is gone: the run pauses, keeps the five, marks nothing as
    failed, and the next one asks for the other seven.
    """
    emulator.faults.add(Fault(on=site, kind=kind, after=5, times=None))
    with pytest.raises(PausedError, match="nothing is marked as failed"):
        judged(emulator, ledger, site=site, concurrency=1)
    refused = 1 + ((site, kind) == ("chat", "credit"))  # once more, without the schema
    assert calls(emulator, site) == [200] * 5 + [429 if kind == "spend_cap" else 400] * refused
    assert [answer.status for answer in ledger.paid("first")] == [Status.OK] * 5
    emulator.faults.clear()
    assert {*statuses(judged(emulator, ledger, site=site, run="second"))} == {Status.OK}
    assert len(emulator.billing.rows) == 12


def test_the_cap_is_held_against_each_call(emulator: Emulator, ledger: Ledger) -> None:
    """A budget that ends midway stops the calls, and what was answered by then is kept."""

    def allow(requests: Any) -> None:
        if len(ledger) >= 4 and len(requests) < 12:
            raise CostError("the money is spent")

    with pytest.raises(CostError, match="the money is spent"):
        judged(emulator, ledger, budget=FixedBudget(lambda _: 0, allow), concurrency=1)
    assert len(ledger) == len(emulator.billing.rows) == 4


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
    assert {*statuses(judged(emulator, ledger, budget=budget))} == {Status.OK}
    assert ledger.outcomes("died") == {"unknown": 2}
    assert ledger.usd_unknown("died") == pytest.approx(0.5 + sum(prices) / 12)
    assert ledger.usd_unknown("first") == 0


def test_requests_that_a_batch_still_owes_are_not_paid_twice(ledger: Ledger) -> None:
    """Asking live for what a batch is answering makes no call and names the batch."""

    def interrupt(_text: str) -> None:
        raise KeyboardInterrupt

    with Emulator(batch_seconds=3600) as emulator:
        with pytest.raises(KeyboardInterrupt):
            judged_by(batch_judge(emulator), ledger, say=interrupt)
        with pytest.raises(PausedError, match=str(emulator.batches[0]["id"])):
            judged(emulator, ledger)
        assert calls(emulator) == []
        assert sizes(emulator) == [12]
