"""Batches that are never paid twice and never lost, whatever the service does."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from arena_kit.files import DataError, LockedError
from arena_kit.judging.asking.cost import CostError
from arena_kit.judging.asking.judge_pairs import judge_pairs
from arena_kit.judging.judges.base import PausedError, ServiceError, cache_keys
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.verdicts.records import Judgment, Status
from arena_kit.runs.settings.judges import Batches
from tests.emulator import Emulator, Fault
from tests.emulator.app import Request
from tests.faults.tournament import FixedBudget
from tests.samples import (
    KEY,
    MATERIAL,
    PAIRS,
    TWO_DIMENSIONS,
    TWO_RUBRICS,
    batch_judge,
    client_of,
    judged_by,
    options,
    sizes,
    statuses,
)


@pytest.fixture
def slow() -> Iterator[Emulator]:
    """A service whose batches end only when its clock is pushed."""
    with Emulator(batch_seconds=3600) as running:
        yield running


def judged(emulator: Emulator, ledger: Ledger, *, key: str = KEY, **changes: Any) -> list[Judgment]:
    """Twelve requests put to Claude in batches."""
    judge = batch_judge(emulator, client=client_of(emulator, key, timeout=0.5))
    return judged_by(judge, ledger, **changes)


def all_ok(emulator: Emulator, ledger: Ledger, **changes: Any) -> bool:
    """Whether every request gets a verdict, and none was charged twice."""
    found = {*statuses(judged(emulator, ledger, **changes))}
    digests = [row.digest for row in emulator.billing.rows]
    return found == {Status.OK} and len(digests) == len({*digests}) == 12


def interrupt(_text: str) -> None:
    """What is done when words are said while waiting: the user presses Ctrl-C."""
    raise KeyboardInterrupt


def left_running(emulator: Emulator, ledger: Ledger, **changes: Any) -> str:
    """Send twelve requests and be interrupted while they run; returns the batch's id."""
    with pytest.raises(KeyboardInterrupt):
        judged(emulator, ledger, say=interrupt, **changes)
    return str(emulator.batches[-1]["id"])


# One batch, paid once


DROP = Fault(on="create", kind="drop")
LOOKED_FOR = "looking whether the batch exists before sending again"


FAULTS: list[tuple[str, list[Fault]]] = [
    (LOOKED_FOR, [replace(DROP, kind="status_after", status=500)]),
    (LOOKED_FOR, [replace(DROP, kind="status_after", status=408)]),
    (LOOKED_FOR, [replace(DROP, kind="hang", seconds=0.8)]),
    (LOOKED_FOR, [replace(DROP, kind="drop_before")]),
    ("status 429", [replace(DROP, kind="status", status=429, times=2)]),
    (LOOKED_FOR, [DROP, Fault(on="list", kind="list_lag", times=3)]),
    (LOOKED_FOR, [DROP, Fault(on="results", kind="page", times=2)]),
    (LOOKED_FOR, [DROP, Fault(on="results", kind="short", share=0.0, times=2)]),
    ("under way", [Fault(on="retrieve", kind="not_found", times=15)]),
    ("; waiting since ", [Fault(on="retrieve", kind="status", status=429, times=2)]),
    ("status 503", [Fault(on="results", kind="status", status=503, times=2)]),
    ("status 529", [Fault(on="models", kind="status", status=529)]),
    ("status 529", [Fault(on="count_tokens", kind="status", status=529)]),
    ("reading on", [Fault(on="results", kind="truncate", share=0.0, times=2)]),
    ("reading on", [Fault(on="results", kind="half_line", share=0.5, times=2)]),
]


@pytest.mark.parametrize(
    ("told", "faults"), FAULTS, ids=["+".join(f"{f.on}-{f.kind}" for f in row[1]) for row in FAULTS]
)
def test_one_batch_is_made_and_paid_once(
    emulator: Emulator, ledger: Ledger, faults: list[Fault], told: str
) -> None:
    """A create that took effect unseen is found again, one that never arrived is sent again; a
    batch that is not known or listed yet is waited for, results are read until all are there; and
    what is waited for is said. A batch that is listed exists, however long it is not found.
    """
    said: list[str] = []
    emulator.faults.add(*map(replace, faults))
    assert all_ok(emulator, ledger, say=said.append)
    assert sizes(emulator) == [12]
    assert any(told in text for text in said)
    assert ledger.outcomes("first") == {"ok": 12}
    with closing(sqlite3.connect(ledger.path)) as con:
        assert con.execute("SELECT count(*) FROM result_lines").fetchone() == (12,)


@pytest.mark.parametrize("deleted", [True, False], ids=["unknown", "results gone"])
def test_a_batch_that_is_gone_pauses_and_is_named(
    slow: Emulator, ledger: Ledger, deleted: bool
) -> None:
    """A batch that is neither found nor listed, or whose results went after 29 days, is for the
    user to give up; nothing is sent again before that, and given up its requests are.
    """
    batch_id = left_running(slow, ledger)
    [intent] = ledger.open_intents()
    slow.clock.advance(days=0 if deleted else 30, hours=2)
    if deleted:
        client_of(slow).messages.batches.delete(batch_id)
    with pytest.raises(PausedError, match=rf"{batch_id} .*batches --give-up {intent.intent}"):
        judged(slow, ledger)
    before = sizes(slow)
    assert before == ([] if deleted else [12])
    batches = Batches(ledger=ledger, root=ledger.path.parent)
    batches.give_up(intent.intent if deleted else batch_id)
    slow.settings.batch_seconds = 0
    assert {*statuses(judged(slow, ledger))} == {Status.OK}
    assert sizes(slow) == [*before, 12]
    assert ledger.outcomes("first") == {"ok": 12, "given_up": 12}, "it may have been billed"


def test_results_that_never_arrive_are_left_for_later(emulator: Emulator, ledger: Ledger) -> None:
    """Results that stay unreadable end the run with a sentence, and the next run reads them."""
    emulator.faults.add(Fault(on="results", kind="half_line", share=0.5, times=1))
    emulator.faults.add(Fault(on="results", kind="truncate", share=0.0, times=None))
    words = r"\d+ of its results do not arrive.*pay again: arena-kit ledger batches --give-up"
    with pytest.raises(ServiceError, match=words):
        judged(emulator, ledger)
    assert len(ledger) >= 6, "what had arrived is kept"
    emulator.faults.clear()
    assert all_ok(emulator, ledger)
    assert sizes(emulator) == [12]


# Money


CREDIT = "credit balance is too low"


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
def test_an_empty_purse_pauses_the_run(
    emulator: Emulator, ledger: Ledger, fault: Fault, words: str
) -> None:
    """Without credit the run pauses, nothing is marked as failed, and the next one goes on."""
    emulator.faults.add(replace(fault))
    with pytest.raises(PausedError, match=f"nothing is marked as failed: .*{words}"):
        judged(emulator, ledger)
    paid = len(emulator.billing.rows)
    assert len(ledger) == paid
    assert {a.status for a in ledger.paid("first")} <= {Status.OK}
    assert ledger.open_intents() == []
    if fault.on == "create":  # no limit is worth a retry
        posts = [row for row in emulator.requests if row.method == "POST"]
        assert [row.path for row in posts].count("/v1/messages/batches") == 1
    assert all_ok(emulator, ledger, run="second")
    assert sizes(emulator)[-1] == 12 - paid


def test_no_batch_leaves_without_the_budgets_leave(emulator: Emulator, ledger: Ledger) -> None:
    """The bulk is allowed on its own, when the pre-warming has been paid; what is not allowed is
    not sent, and no intent stays behind.
    """
    asked: list[int] = []

    def refuse(requests: Any) -> None:
        asked.append(len(requests))
        if len(asked) == 2:
            raise CostError("22 are too many")

    allowed = options(prewarm=True, budget=FixedBudget(lambda _: 0, refuse))
    with pytest.raises(CostError, match="22 are too many"):
        judge_pairs(TWO_DIMENSIONS, TWO_RUBRICS, batch_judge(emulator), ledger, options=allowed)
    assert asked == [24, 22]
    assert len(emulator.billing.accepted) == len(ledger) == 2
    assert ledger.open_intents() == []


# An interrupt


def test_an_interrupt_leaves_the_batch_running_and_names_it(slow: Emulator, ledger: Ledger) -> None:
    """Ctrl-C cancels nothing: the text names the batch, and the next run collects it."""
    with pytest.raises(KeyboardInterrupt) as caught:
        judged(slow, ledger, say=interrupt)
    [batch] = slow.batches
    assert f"still running at the service: batch {batch['id']} (12 requests)" in str(caught.value)
    assert batch["cancel_initiated_at"] is None
    with pytest.raises(KeyboardInterrupt, match=str(batch["id"])):
        judged(slow, ledger, say=interrupt, run="second")
    slow.clock.advance(hours=2)
    assert all_ok(slow, ledger, run="second")
    assert sizes(slow) == [12]
    assert ledger.spent("second") == pytest.approx(slow.billing.total_usd), "who collects reports"
    assert ledger.spent("first") == 0.0


# One spender at a time

_HOLD = """
import sys
from pathlib import Path
from arena_kit.judging.ledger.ledger import Ledger
with Ledger(Path(sys.argv[1])).locked("theirs"):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def other_process(ledger: Ledger) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the ledger until it is ended."""
    command, pipe = [sys.executable, "-c", _HOLD, str(ledger.path)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        try:
            yield holder
        finally:
            holder.kill()


def test_a_second_process_is_refused_and_a_dead_one_is_not_waited_for(
    emulator: Emulator, ledger: Ledger
) -> None:
    """While another process holds the ledger, nothing is sent and its pid and host are named;
    when it is killed, the next run simply goes on.
    """
    with other_process(ledger) as holder:
        who = rf"process {holder.pid} on {socket.gethostname()}, since \d{{4}}-"
        with pytest.raises(LockedError, match=who):
            judged(emulator, ledger)
        assert emulator.requests == []
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait(10)
        assert all_ok(emulator, ledger)
    with other_process(ledger):
        assert all_ok(emulator, ledger), "a full cache needs no lock"
    assert sizes(emulator) == [12]


def test_a_new_key_of_the_same_account_collects(slow: Emulator, ledger: Ledger) -> None:
    """A batch whose id is known is asked for with whatever key there is: keys are renewed."""
    left_running(slow, ledger)
    slow.clock.advance(hours=2)
    assert {*statuses(judged(slow, ledger, key="sk-ant-another-key-0123"))} == {Status.OK}
    assert sizes(slow) == [12]


def test_an_unconfirmed_batch_of_another_key_pauses(slow: Emulator, ledger: Ledger) -> None:
    """Whether a batch exists can be seen only with the key that made it: nothing is sent."""
    judge, requests = batch_judge(slow), MATERIAL.requests(PAIRS)
    by_key = dict(zip(cache_keys(judge, requests), requests, strict=True))
    intent = ledger.plan(by_key, transport="batches", judge=judge, purpose="judge", run="first")
    words = rf"unconfirmed batch {intent.intent} .* with another key.*--give-up {intent.intent}"
    with pytest.raises(PausedError, match=words) as caught:
        judged(slow, ledger, key="sk-ant-another-key-0123", say=pytest.fail)
    assert "sk-ant" not in str(caught.value)
    assert sizes(slow) == []


# Batches under way


@pytest.fixture
def sent(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Batches:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    return Batches(ledger=ledger, root=tmp_path)


def test_the_list_has_what_is_under_way(slow: Emulator, ledger: Ledger, sent: Batches) -> None:
    """A running batch is listed with its run, model and size, and looked at at its service; a run
    of other requests does not wait for it, and a misspelt id is told with those under way.
    """
    with pytest.raises(DataError, match="no batch 'msgbatch_x' is under way; under way: none"):
        sent.cancel("msgbatch_x")
    batch_id = left_running(slow, ledger)
    [intent] = sent.under_way()
    assert (intent.batch_id, intent.run, intent.n_requests) == (batch_id, "first", 12)
    assert (intent.model, intent.service.origin) == ("claude-opus-5-5", slow.base_url)
    assert (sent.look(intent).batch_id, sent.look(intent).ended) == (batch_id, False)
    with pytest.raises(DataError, match=f"under way: {batch_id}"):
        sent.give_up("msgbatch_x")
    slow.settings.batch_seconds = 0
    pairs = [pair for pair in TWO_DIMENSIONS if pair.dimension == "rigour"]
    judge_pairs(pairs, TWO_RUBRICS, batch_judge(slow), ledger, options=options())
    assert sizes(slow) == [12, 12]
    slow.clock.advance(hours=2)
    assert sent.look(intent).ended
    judged(slow, ledger)
    assert sent.under_way() == []


def test_a_cancelled_batch_is_collected_and_the_rest_sent(
    slow: Emulator, ledger: Ledger, sent: Batches
) -> None:
    """After a cancel, what was answered is kept and paid; the rest is not sent by a run that
    collects it, but by the next.
    """
    batch_id = left_running(slow, ledger)
    assert sent.cancel(batch_id).status == "canceling"
    slow.settings.batch_seconds = 0
    assert statuses(judged(slow, ledger)).count(Status.CANCELED) == 6
    assert sizes(slow) == [12]
    assert all_ok(slow, ledger, run="second")
    assert sizes(slow) == [12, 6], "half of a cancelled batch is cancelled"


def test_an_unconfirmed_batch_cannot_be_cancelled_yet(
    slow: Emulator, ledger: Ledger, sent: Batches
) -> None:
    """An intent without a batch id is told as such; the next process finds its batch."""
    slow.faults.add(replace(DROP))
    left_running(slow, ledger)
    [intent] = sent.under_way()
    assert intent.batch_id is None
    with pytest.raises(DataError, match=f"whether {intent.intent} became a batch is not known"):
        sent.cancel(intent.intent)
    slow.clock.advance(hours=2)
    assert all_ok(slow, ledger)
    assert sizes(slow) == [12]


# Lines and strangers


def tamper_with_one_line(emulator: Emulator, change: Callable[[bytes], bytes]) -> None:
    """One result line of the service arrives changed."""
    first: list[bytes] = []

    def tamper(request: Request, line: bytes) -> bytes:
        if line and request.path.endswith("/results"):
            first.append(line[:80])
            return change(line) if line[:80] == first[0] else line
        return line

    emulator.app.tamper = tamper


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("number", "errored"), [(b"1e400", 0), (b"-5", 0), (b"1.5", 0), (b"true", 0), (DEEP, 1)]
)
def test_a_bad_line_is_unknown_alone(
    emulator: Emulator, ledger: Ledger, number: bytes, errored: int
) -> None:
    """A usage number that counts nothing leaves that line's usage unknown, and its answer is kept;
    a line too deep to be read is errored. The others have their cost; nothing is sent again.
    """
    counts = re.compile(rb'"output_tokens": ?\d+')
    tamper_with_one_line(emulator, lambda line: counts.sub(b'"output_tokens":' + number, line))
    found = statuses(judged(emulator, ledger, budget=FixedBudget(lambda _: 0.25)))
    assert (found.count(Status.OK), found.count(Status.ERRORED)) == (12 - errored, errored)
    assert 0 < ledger.spent("first") < emulator.billing.total_usd
    assert ledger.usd_unknown("first") == 0.25
    assert len(ledger.paid("first")) == 11
    assert statuses(judged(emulator, ledger, run="second")) == found
    assert sizes(emulator) == [12]


@pytest.mark.parametrize(
    "reply", [b"<html>Welcome</html>", b'{"id": 7}', b'{"data": null}', b"null", b"{"]
)
def test_a_page_instead_of_a_batch_is_no_answer(
    emulator: Emulator, ledger: Ledger, reply: bytes
) -> None:
    """When create and the next look at the batch get something else with a 200, the batch is
    looked for, found and paid once.
    """
    left = {"POST": 1, "GET": 2}

    def tamper(request: Request, body: bytes) -> bytes:
        if "/batches" not in request.path or not body or not left[request.method]:
            return body
        left[request.method] -= 1
        return reply

    emulator.app.tamper = tamper
    assert all_ok(emulator, ledger)
    assert left == {"POST": 0, "GET": 0}
    assert sizes(emulator) == [12]


def test_an_unknown_batch_status_is_told(emulator: Emulator, ledger: Ledger) -> None:
    """A status that is not known is waited out, and its name, in printable letters, is said."""
    odd = iter([b'"processing_status": "on\\u001b hold"'] * 2)
    emulator.app.tamper = lambda request, body: (
        re.sub(rb'"processing_status": "\w+"', lambda found: next(odd, found[0]), body)
        if "/msgbatch_" in request.path
        else body
    )
    said: list[str] = []
    assert {*statuses(judged(emulator, ledger, say=said.append))} == {Status.OK}
    assert any(text.endswith("has the unknown status 'on hold'") for text in said)


@pytest.mark.parametrize("same", [True, False])
def test_contradicting_results_are_told(emulator: Emulator, ledger: Ledger, same: bool) -> None:
    """Of two results that differ the first is kept, and that is said; a repeat is no news."""
    expired = b'{"custom_id": "%b", "result": {"type": "expired"}}\n'

    def twice(line: bytes) -> bytes:
        name = json.loads(line)["custom_id"].encode()
        return line + (line if same else expired % name)

    tamper_with_one_line(emulator, twice)
    said: list[str] = []
    assert {*statuses(judged(emulator, ledger, say=said.append))} == {Status.OK}
    told = [text for text in said if "two results that differ" in text]
    assert len(told) == (0 if same else 1)
    assert sizes(emulator) == [12]


def test_a_batch_without_its_times_is_collected(emulator: Emulator, ledger: Ledger) -> None:
    """A batch that names no created_at and no expires_at is polled, reconciled and read."""
    times = re.compile(rb'"(created|expires)_at": "[^"]*"')
    emulator.app.tamper = lambda request, body: times.sub(rb'"\1_at": null', body)
    emulator.faults.add(replace(DROP))
    assert all_ok(emulator, ledger)
    assert sizes(emulator) == [12]


def test_a_control_character_in_results_url_is_one_sentence(
    emulator: Emulator, ledger: Ledger
) -> None:
    """An address of results that no request can be made of ends in a sentence; nothing is lost."""
    emulator.app.tamper = lambda request, body: body.replace(b"/results", b"/\\u0007results")
    with pytest.raises(ServiceError, match="address that cannot be used"):
        judged(emulator, ledger)
    emulator.app.tamper = None
    assert {*statuses(judged(emulator, ledger))} == {Status.OK}
    assert sizes(emulator) == [12]
