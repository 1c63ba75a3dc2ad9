"""Batches that are never paid twice and never lost.

The order of things is the guarantee: an intent is durable before a batch is created, the
batch's id before anything else happens, each group of results before the next. Whatever
was begun is settled before anything new is sent; an intent whose batch id was lost is
reconciled with the service's list of batches. See design/never-paid-twice.md.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import takewhile

from arena_kit.judging.cost import CostError
from arena_kit.judging.judges.base import (
    Batch,
    BatchJudge,
    BusyError,
    CutError,
    PausedError,
    Result,
    ServiceError,
    UnknownBatchError,
    UnsureError,
    first_of_each,
    shortened,
)
from arena_kit.judging.ledger import Ledger
from arena_kit.judging.ledger_rows import Awaited, Intent
from arena_kit.judging.lost_batches import adopt_lost
from arena_kit.judging.records import Answer, Asked, garbage_collection_disabled
from arena_kit.judging.terms import AskingTerms, OnSettled

#: Results made durable together: so many, or what came in so many seconds.
_GROUP = 5000
_GROUP_SECONDS = 1.0
#: Openings of a results stream in a row that bring nothing new, before it is left for later.
_STALLS = 5
#: How long before its intent a batch may seem to have been created, where only clocks can tell.
_CLOCK_SKEW = timedelta(hours=24)

#: Statuses of a batch that has not ended.
_RUNNING = ("in_progress", "canceling")

Requests = Mapping[str, Asked]


@dataclass(slots=True, kw_only=True)
class Batching:
    """Asks a batch judge through a ledger; requests are named by their cache keys."""

    judge: BatchJudge
    ledger: Ledger
    terms: AskingTerms
    on_settled: OnSettled
    answers: dict[str, Answer] = field(default_factory=dict)
    failed: dict[str, Result] = field(default_factory=dict)
    requests: Requests = field(default_factory=dict)

    def ask(self, requests: Requests) -> dict[str, Answer]:
        """Have every request answered in the ledger; returns what came, failures too.

        The caller holds the ledger. An interrupt leaves batches running and says so.
        """
        try:
            self._ask(requests)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(left_running(self.ledger)) from None
        return self.answers | {key: result.answer for key, result in self.failed.items()}

    def reconcile(self, intent: Intent) -> bool:
        """Find the batch that an intent became, when the answer to its creation was lost; False
        when it became none.

        A batch carries no name, so one of the right size is a candidate until its results
        show whose requests it holds. Only when none is left of those that had appeared by the
        end of the grace period was nothing created.
        """
        others = self.ledger.known_batches()
        deadline = time.monotonic() + self.terms.pace.grace
        late, seen = False, set[str]()
        for wait in self.terms.pace.waits():
            complete = late  # a look was made after the deadline: who comes now is a stranger
            late = time.monotonic() > deadline
            candidates = [b for b in self._recent(intent) if b.batch_id not in others]
            candidates = [b for b in candidates if not complete or b.batch_id in seen]
            seen |= {batch.batch_id for batch in candidates}
            for batch in candidates:
                if batch.ended and self._holds(batch, intent):
                    self.ledger.submitted(intent, batch)
                    return True
                if batch.ended:
                    others.add(batch.batch_id)
            running = [batch.batch_id for batch in candidates if not batch.ended]
            if not running and late:
                self.ledger.close(intent, "void")
                return False
            if running:
                self.terms.say(
                    f"{_named(intent)} may be {' or '.join(running)}; waiting to see its results"
                )
            time.sleep(wait)
        raise AssertionError  # the waits have no end

    def _ask(self, requests: Requests) -> None:
        self.judge.ready()
        self.requests = requests
        self._settle(requests)
        for tried in range(self.terms.max_tries):
            left = self._left(requests)
            if not tried and left and adopt_lost(self.judge, self.ledger, self.terms, left):
                self._settle(left)
                left = self._left(requests)
            if not left:
                return
            if not tried:
                self.terms.check(self.judge, list(left.values()))
                self.terms.allow(left.values())
                left = self._warmed(left) if self.terms.prewarm else left
            try:
                self.terms.allow(left.values())
            except CostError as error:
                if not tried:
                    raise
                self.terms.say(f"not sent again: {error}")  # what was paid for is worth having
                return
            self._send(left)
            self._settle(requests)

    def _left(self, requests: Requests) -> dict[str, Asked]:
        """Requests without a final answer that are worth sending."""
        hopeless = {key for key, result in self.failed.items() if not result.again}
        left = [key for key in requests if key not in self.answers and key not in hopeless]
        settled = self.ledger.settled(left)
        return {key: requests[key] for key in left if key not in settled}

    def _warmed(self, requests: Requests) -> dict[str, Asked]:
        """Send one request of each system text and wait for it; returns the others."""
        ahead = {r.request_id for r in first_of_each(requests.values())}
        first = {key: r for key, r in requests.items() if r.request_id in ahead}
        if len(first) == len(requests):
            return dict(requests)
        self.terms.say("pre-warming the prompt cache, one request per rubric")
        for key, request in first.items():
            self._send({key: request})
        self._settle(first)
        for result in (self.failed[key] for key in first if key in self.failed):
            if not result.again:
                raise ServiceError(
                    "the service refused the first request, so nothing else was sent: "
                    f"{result.answer.detail}"
                )
        return self._left(requests)

    def _send(self, requests: Requests) -> None:
        for shard in self.judge.split(requests):
            for key in shard:
                self.failed.pop(key, None)
            self.terms.patiently(partial(self._create, shard))

    def _create(self, shard: Requests) -> None:
        """Make one batch of these requests; busy when the service certainly did not take it."""
        newest = self.terms.patiently(lambda: next(self.judge.recent(), None))
        intent = self.ledger.plan(
            shard,
            transport="batches",
            judge=self.judge,
            purpose=self.terms.purpose,
            run=self.terms.run,
            newest_seen=newest.batch_id if newest else "",
        )
        entries = {intent.name(key): request for key, request in shard.items()}
        try:
            batch = self.terms.patiently(lambda: self.judge.submit(entries))
        except UnsureError as error:
            self.terms.say(f"{error}; looking whether the batch exists before sending again")
            if not self.reconcile(intent):
                raise BusyError(f"{error}; no batch was made") from None
        except ServiceError:
            self.ledger.close(intent, "void")  # certainly not taken
            raise
        else:
            self.ledger.submitted(intent, batch)

    def _settle(self, requests: Requests) -> None:
        """Wait for everything under way that holds one of these requests, and collect it."""
        under_way = self.ledger.open_intents()
        mine = [intent for intent in under_way if self.ledger.holds(intent, requests)]
        for intent in mine:
            self._check_account(intent)
            if intent.batch_id is None:
                self.reconcile(intent)
        ids = {intent.intent for intent in mine}
        self._wait([i for i in self.ledger.open_intents() if i.intent in ids])

    def _check_account(self, intent: Intent) -> None:
        """An unconfirmed batch can be looked for only with the key that it was sent with."""
        if intent.batch_id is None and intent.service != self.judge.service:
            raise PausedError(
                f"{_named(intent)} was sent to {intent.service.origin} with another key, and "
                "whether it became a batch can be seen only with that key; use it, or, if it "
                f"became none: arena-kit batches --give-up {intent.intent}"
            )

    def _wait(self, intents: Iterable[Intent]) -> None:
        waiting = {intent.batch_id: intent for intent in intents if intent.batch_id}
        unknown_since: dict[str, float] = {}
        waits = self.terms.pace.waits()
        started = time.monotonic()
        while waiting:
            odd = ""
            for batch_id, intent in list(waiting.items()):
                batch = self._look(intent, unknown_since)
                if batch is not None and batch.ended:
                    self._collect(intent, batch)
                    del waiting[batch_id]
                elif batch is not None and batch.status not in _RUNNING:
                    odd = f"; {batch_id} has the unknown status {shortened(batch.status)!r}"
            if waiting:
                self.terms.say(_progress(waiting.values(), time.monotonic() - started) + odd)
                time.sleep(next(waits))

    def _look(self, intent: Intent, unknown_since: dict[str, float]) -> Batch | None:
        """The batch as it is, or None while the service does not know it yet."""
        batch_id = str(intent.batch_id)
        try:
            batch = self.terms.patiently(lambda: self.judge.poll(batch_id))
        except UnknownBatchError:
            since = unknown_since.setdefault(batch_id, time.monotonic())
            if time.monotonic() - since < self.terms.pace.grace:
                return None
            if any(batch.batch_id == batch_id for batch in self._recent(intent)):
                return None
            raise PausedError(
                f"the service does not know {_named(intent)}: if it belongs to another workspace, "
                "use that workspace's key; to give it up and send its requests again: "
                f"arena-kit batches --give-up {intent.intent}"
            ) from None
        unknown_since.pop(batch_id, None)
        return batch

    def _recent(self, intent: Intent) -> list[Batch]:
        """Batches of an intent's size that may have been created since it was planned."""

        def look() -> list[Batch]:
            newer = _newer(self.judge.recent(), intent)
            return [batch for batch in newer if batch.n_requests == intent.n_requests]

        return self.terms.patiently(look)

    def _holds(self, batch: Batch, intent: Intent) -> bool:
        """Whether the first result of an ended batch is one of an intent's requests; results of
        which none can be read do not tell.
        """
        if not batch.results_url:  # no longer kept: not to be told, and not to be had
            return False

        def look() -> bool:
            try:
                first = next(self.judge.collect(batch), None)
            except CutError as error:
                raise BusyError(str(error)) from None
            if first is None:
                raise BusyError(f"batch {batch.batch_id} has ended, and none of its results comes")
            return intent.owns(first.name)

        return self.terms.patiently(look)

    def _collect(self, intent: Intent, batch: Batch) -> None:
        """Read the results into the ledger, opening the stream as often as needed."""
        if not batch.results_url:
            raise PausedError(
                f"the service no longer keeps the results of {_named(intent)}; to send its "
                f"requests again, and pay again: arena-kit batches --give-up {intent.intent}"
            )
        awaited = self.ledger.awaited(intent)
        pauses: set[str] = set()
        seen: dict[str, int] = {}
        differing: set[str] = set()
        stalls = 0
        waits = self.terms.pace.waits()
        while awaited:
            before = len(awaited)
            try:
                with garbage_collection_disabled():
                    for group in _groups(self.judge.collect(batch), _GROUP):
                        differing |= _differing(group, seen)
                        pauses |= self._keep(intent, group, awaited)
            except (CutError, BusyError) as error:
                self.terms.say(f"{_named(intent)}: {error}; reading on")
            stalls = 0 if len(awaited) < before else stalls + 1
            if awaited and stalls >= _STALLS:
                raise ServiceError(
                    f"{_named(intent)} has ended, but {len(awaited)} of its results do not arrive; "
                    "the service keeps them for 29 days: run again later, or, to send their "
                    f"requests again, and pay again: arena-kit batches --give-up {intent.intent}"
                )
            if awaited:
                time.sleep(next(waits))
        self.ledger.close(intent, "closed")
        if differing:
            self.terms.say(
                f"{_named(intent)}: {len(differing)} requests have two results that differ; the "
                f"first that came is kept (such as {min(differing)})"
            )
        if pauses:
            raise PausedError("; ".join(sorted(pauses)))

    def _keep(self, intent: Intent, group: list[Result], awaited: dict[str, Awaited]) -> set[str]:
        """Make one group of results durable; returns what only the user can mend."""
        # of two results for one request the first counts
        new = {awaited[r.name].key: r for r in reversed(group) if r.name in awaited}
        new = self.terms.booked(new, self.requests)
        owed = [(awaited[result.name], result) for result in new.values()]
        self.ledger.record(intent, owed, self.terms.run)
        for key, result in new.items():
            del awaited[result.name]
            if result.billed:
                self.answers[key] = result.answer
            else:
                # what the user had canceled waits for the next run
                again = result.again and intent.status != "canceling"
                self.failed[key] = replace(result, again=again)
        self.on_settled(len(new))
        return {result.pause for result in new.values() if result.pause}


def left_running(ledger: Ledger) -> str:
    """Which batches go on without this process, and how to take them up again."""
    intents = ledger.open_intents()
    if not intents:
        return "interrupted; nothing is under way, and running again goes on from the ledger"
    names = ", ".join(_named(intent) for intent in intents)
    return (
        f"interrupted; still running at the service: {names}; running again or `arena-kit resume` "
        "collects what the same requests need, `arena-kit batches` lists all"
    )


def _newer(newest_first: Iterator[Batch], intent: Intent) -> Iterator[Batch]:
    """The batches that the service lists above the newest one that was there before an intent,
    whatever the clocks say.

    Batches of the same moment have no order, so those are among them. Where nobody had
    looked, in a ledger of an earlier version, the clocks have to do.
    """
    if intent.newest_seen is None:
        oldest = datetime.fromisoformat(intent.planned_at) - _CLOCK_SKEW
        yield from takewhile(lambda batch: _moment(batch, oldest) >= oldest, newest_first)
        return
    seen: Batch | None = None
    for batch in newest_first:
        if batch.batch_id == intent.newest_seen:
            seen = batch
        elif seen is None or batch.created_at >= seen.created_at:
            yield batch
        else:
            return


def _moment(batch: Batch, unknown: datetime) -> datetime:
    return datetime.fromisoformat(batch.created_at) if batch.created_at else unknown


def _named(intent: Intent) -> str:
    """An intent in words: its batch, if it has one, and its size."""
    what = f"batch {intent.batch_id}" if intent.batch_id else f"unconfirmed batch {intent.intent}"
    return f"{what} ({intent.n_requests} requests)"


def _progress(intents: Collection[Intent], seconds: float) -> str:
    """How much is under way, for how long, and when the first batch expires at the latest."""
    n = sum(intent.n_requests for intent in intents)
    soonest = min((intent.expires_at for intent in intents if intent.expires_at), default="")
    left = (datetime.fromisoformat(soonest) - datetime.now(UTC)).total_seconds() if soonest else 0.0
    batches = f"{len(intents)} batch" + ("es" if len(intents) > 1 else "")
    until = f", at most {_duration(left)} to go" if left > 0 else ""
    return f"{batches} of {n} requests under way for {_duration(seconds)}{until}"


def _duration(seconds: float) -> str:
    """A length of time in words: `40 s`, `12 min`, `3 h 05 min`."""
    minutes = int(seconds // 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def _differing(group: Iterable[Result], seen: dict[str, int]) -> set[str]:
    """Names whose result is not the one seen before; a stream that is read again repeats itself."""
    prints = ((r.name, hash((r.answer.status, r.answer.text))) for r in group)
    return {
        name for name, fingerprint in prints if seen.setdefault(name, fingerprint) != fingerprint
    }


def _groups(results: Iterator[Result], size: int) -> Iterator[list[Result]]:
    """Results in groups; what had arrived when a stream breaks off is still given."""
    group: list[Result] = []
    started = time.monotonic()
    try:
        for result in results:
            group.append(result)
            if len(group) >= size or time.monotonic() - started > _GROUP_SECONDS:
                yield group
                group, started = [], time.monotonic()
    except (CutError, BusyError):
        yield group
        raise
    yield group
