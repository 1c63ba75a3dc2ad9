"""Batches that are never paid twice and never lost.

The order of things is the guarantee: an intent is durable before a batch is created, the
batch's id before anything else happens, each group of results before the next. Whatever
was begun is settled before anything new is sent; an intent whose batch id was lost is
reconciled with the service's list of batches, and so is a ledger that an older copy has
replaced. See design/never-paid-twice.md.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import islice

from arena_kit.judging.asking.cost import PREWARM, CostError
from arena_kit.judging.asking.options import Asking
from arena_kit.judging.judges import base
from arena_kit.judging.judges.base import Batch, BatchJudge, PausedError, Result
from arena_kit.judging.ledger.ledger import Awaited, Intent, Ledger, Requests, key_in_name
from arena_kit.judging.verdicts.records import Answer, Asked

#: Results made durable together: so many, or what came in so many seconds.
_GROUP = 20_000
_GROUP_SECONDS = 1.0
#: Openings of a results stream in a row that bring nothing new, before it is left for later.
_STALLS = 5
#: The account's newest batches among which unknown ones are looked for, how many of these are
#: looked into, and how many results of one tell whose it is.
_LISTED, _BATCHES, _RESULTS = 100, 20, 20
#: Statuses of a batch that has not ended.
_RUNNING = ("in_progress", "canceling")


class Batching(Asking[BatchJudge]):
    """Asks a batch judge."""

    __slots__ = ()

    def _ask(self, requests: Requests) -> None:
        try:
            self._settle_all(requests)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(left_running(self.ledger)) from None

    def _settle_all(self, requests: Requests) -> None:
        self._settle(requests)
        for tried in range(self.options.max_tries):
            left = self._left(requests)
            if not tried and left and self._adopt_lost(left):
                self._settle(left)
                left = self._left(requests)
            if not left:
                return
            if not tried:
                self.options.check(self.judge, list(left.values()))
                self.options.allow(left.values())
                left = self._warmed(left) if self.options.prewarm else left
            try:
                self.options.allow(left.values())
            except CostError as error:
                if not tried:
                    raise
                self.options.say(f"not sent again: {error}")  # what was paid for is worth having
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
        ahead = {r.request_id for r in base.first_of_each(requests.values())}
        first = {key: r for key, r in requests.items() if r.request_id in ahead}
        if len(first) == len(requests):
            return dict(requests)
        self.options.say("pre-warming the prompt cache, one request per rubric")
        for key, request in first.items():
            self._send({key: request}, PREWARM)
        self._settle(first)
        for result in (self.failed[key] for key in first if key in self.failed):
            if not result.again:
                raise base.ServiceError(
                    "the service refused the first request, so nothing else was sent: "
                    f"{result.answer.detail}"
                )
        return self._left(requests)

    def _send(self, requests: Requests, purpose: str = "") -> None:
        for shard in self.judge.split(requests):
            for key in shard:
                self.failed.pop(key, None)
            self.options.retry(partial(self._create, shard, purpose))

    def _create(self, shard: Requests, purpose: str) -> None:
        """Make one batch of these requests; busy when the service certainly did not take it."""
        newest = self.options.retry(lambda: next(self.judge.recent(), None))
        sender = self._sender._replace(purpose=purpose or self.options.purpose)
        intent = self.ledger.plan(shard, sender, "batches", newest.batch_id if newest else "")
        entries = {intent.name(key): request for key, request in shard.items()}
        try:
            batch = self.options.retry(lambda: self.judge.submit(entries))
        except base.UnsureError as error:
            self.options.say(f"{error}; checking whether the batch exists before sending again")
            if not self._reconcile(intent):
                raise base.BusyError(f"{error}; no batch was created") from None
        except base.ServiceError:
            self.ledger.close(intent, "void")  # certainly not taken
            raise
        else:
            self.ledger.submitted(intent, batch)

    def _settle(self, requests: Requests) -> None:
        """Wait for everything under way that holds one of these requests, and collect it."""
        under_way = self.ledger.open_intents()
        mine = [intent for intent in under_way if self.ledger.holds(intent, requests)]
        for intent in (each for each in mine if each.batch_id is None):
            self._check_account(intent)
            self._reconcile(intent)
        ids = {intent.intent for intent in mine}
        self._wait([i for i in self.ledger.open_intents() if i.intent in ids])

    def _check_account(self, intent: Intent) -> None:
        """An unconfirmed batch can be looked for only with the key that it was sent with."""
        if intent.service != self.judge.service:
            raise PausedError(
                f"{intent.words} was sent to {intent.service.origin} with another key, and "
                "only that key shows whether it became a batch; use that key or, if it did not: "
                f"arena-kit ledger batches --give-up {intent.intent}"
            )

    def _wait(self, intents: Iterable[Intent]) -> None:
        waiting = {intent.batch_id: intent for intent in intents if intent.batch_id}
        unknown_since: dict[str, float] = {}
        waits = self.options.backoff.waits()
        started = time.monotonic()
        while waiting:
            odd = ""
            for batch_id, intent in list(waiting.items()):
                batch = self._look(intent, unknown_since)
                if batch is not None and batch.ended:
                    self._collect(intent, batch)
                    del waiting[batch_id]
                elif batch is not None and batch.status not in _RUNNING:
                    odd = f"; {batch_id} has the unknown status {base.shortened(batch.status)!r}"
            if waiting:
                self.options.say(_progress(waiting.values(), time.monotonic() - started) + odd)
                time.sleep(next(waits))

    def _look(self, intent: Intent, unknown_since: dict[str, float]) -> Batch | None:
        """The batch as it is, or None while the service does not know it yet."""
        batch_id = str(intent.batch_id)
        try:
            batch = self.options.retry(lambda: self.judge.poll(batch_id))
        except base.UnknownBatchError:
            since = unknown_since.setdefault(batch_id, time.monotonic())
            if time.monotonic() - since < self.options.backoff.grace:
                return None
            if any(each.batch_id == batch_id for each in self._recent(intent)):
                return None
            raise PausedError(
                f"the service does not know {intent.words}: if it belongs to another workspace, "
                "use that workspace's key; to give it up and send its requests again: "
                f"arena-kit ledger batches --give-up {intent.intent}"
            ) from None
        unknown_since.pop(batch_id, None)
        return batch

    def _collect(self, intent: Intent, batch: Batch) -> None:
        """Read the results into the ledger, opening the stream as often as needed."""
        if not batch.results_url:
            raise PausedError(
                f"the service no longer keeps the results of {intent.words}; to send its "
                "requests again, and pay again: arena-kit ledger batches --give-up "
                f"{intent.intent}"
            )
        awaited = self.ledger.awaited(intent)
        seen: dict[str, Answer] = {}
        differing: set[str] = set()
        pauses: set[str] = set()

        for group in self._read_all(intent, batch, awaited):
            differing |= _differing(group, seen)
            pauses |= self._keep(intent, group, awaited)
        self.ledger.close(intent, "closed")
        if differing:
            self.options.say(
                f"{intent.words}: {len(differing)} requests have two results that differ; the "
                f"first that came is kept (such as {min(differing)})"
            )
        if pauses:
            raise PausedError("; ".join(sorted(pauses)))

    def _read_all(
        self, intent: Intent, batch: Batch, awaited: Mapping[str, Awaited]
    ) -> Iterator[list[Result]]:
        """Read a stream of results again until nothing is awaited, or nothing more comes."""
        stalls = 0
        waits = self.options.backoff.waits()
        while awaited:
            before = len(awaited)
            try:
                yield from _groups(self.judge.collect(batch), _GROUP)
            except base.BusyError as error:
                self.options.say(f"{intent.words}: {error}; reading on")
            stalls = 0 if len(awaited) < before else stalls + 1
            if awaited and stalls >= _STALLS:
                raise base.ServiceError(
                    f"{intent.words} has ended, but {len(awaited)} of its results have not "
                    "arrived; the service keeps them for 29 days: run again later, or, to send and "
                    "pay them again: arena-kit ledger batches --give-up "
                    f"{intent.intent}"
                )
            if awaited:
                time.sleep(next(waits))

    def _keep(self, intent: Intent, group: list[Result], awaited: dict[str, Awaited]) -> set[str]:
        """Make one group of results durable; returns what only the user can mend."""
        # of two results for one request the first counts
        new = {awaited[r.name].key: r for r in reversed(group) if r.name in awaited}
        new = self.options.with_unknown_costs(new, self.requests)
        owed = [(awaited[result.name], result) for result in new.values()]
        self.ledger.record(intent, owed, self.options.run)
        for key, result in new.items():
            del awaited[result.name]
            # what the user had canceled waits for the next run
            self._sort(key, result._replace(again=result.again and intent.status != "canceling"))
        self.on_settled(len(new))
        return {result.pause for result in new.values() if result.pause}

    def _reconcile(self, intent: Intent) -> bool:
        """Find the batch that an intent became, when the answer to its creation was lost; False
        when it became none.

        A batch carries no name, so one of the right size is a candidate until its results
        show whose requests it holds. Only when none is left of those that had appeared by the
        end of the grace period was nothing created.
        """
        others = self.ledger.known_batches()
        deadline = time.monotonic() + self.options.backoff.grace
        late, seen = False, set[str]()
        for wait in self.options.backoff.waits():
            complete = late  # a look was made after the deadline: who comes now is a stranger
            late = time.monotonic() > deadline
            candidates = [b for b in self._recent(intent) if b.batch_id not in others]
            candidates = [b for b in candidates if not complete or b.batch_id in seen]
            seen |= {batch.batch_id for batch in candidates}
            ended = [batch for batch in candidates if batch.ended]
            if ours := next((batch for batch in ended if self._holds(batch, intent)), None):
                self.ledger.submitted(intent, ours)
                return True
            others |= {batch.batch_id for batch in ended}
            running = [batch.batch_id for batch in candidates if not batch.ended]
            if not running and late:
                self.ledger.close(intent, "void")
                return False
            if running:
                self.options.say(
                    f"{intent.words} may be {' or '.join(running)}; waiting to see its results"
                )
            time.sleep(wait)
        raise AssertionError  # the waits have no end

    def _recent(self, intent: Intent) -> list[Batch]:
        """Batches of an intent's size that may have been created since it was planned."""
        newer = self.options.retry(lambda: list(_newer(self.judge.recent(), intent)))
        return [batch for batch in newer if batch.n_requests == intent.n_requests]

    def _holds(self, batch: Batch, intent: Intent) -> bool:
        """Whether the first result of an ended batch is one of an intent's requests; results of
        which none can be read do not tell.
        """
        if not batch.results_url:  # no longer kept: not to be told, and not to be had
            return False

        def look() -> bool:
            first = next(self.judge.collect(batch), None)
            if first is None:
                raise base.BusyError(
                    f"batch {batch.batch_id} has ended, and none of its results comes"
                )
            return intent.owns(first.name)

        return self.options.retry(look)

    def _adopt_lost(self, requests: Requests) -> bool:
        """Take up ended batches that hold some of these requests although the ledger does not know
        them; returns whether there are any.

        They may stand below batches that the ledger knows: it goes on after it was restored. One
        that knows none may have been restored, too.
        """
        unknown = self.options.retry(partial(_unknown, self.judge, self.ledger.known_batches()))
        if running := [batch.batch_id for batch in unknown if not batch.ended]:
            self.options.say(
                f"this ledger does not know {', '.join(running)}, which the account is running; if "
                "an older copy of the ledger was restored, stop, and start again when they have "
                "ended to collect them"
            )
        intents = self.ledger.known_intents()
        left = {key_in_name(key): key for key in requests}
        for batch in unknown:
            names = self.options.retry(partial(_names, self.judge, batch, left))
            intent = names[0].partition("-")[0] if names else ""
            if not names or intent in intents:
                continue
            held = [left.pop(part) for name in names if (part := name.partition("-")[2]) in left]
            asked = {key: requests[key] for key in held}
            self.ledger.adopt(intent, batch, asked, self._sender)
            self.options.say(
                f"batch {batch.batch_id} holds {len(held)} of these requests, but the ledger did "
                "not know it (was an older copy restored?); it is collected, nothing is paid again"
            )
        return len(left) < len(requests)


def left_running(ledger: Ledger) -> str:
    """Which batches go on without this process, and how to take them up again."""
    intents = ledger.open_intents()
    if not intents:
        return "interrupted; nothing is under way, and another run continues from the ledger"
    names = ", ".join(intent.words for intent in intents)
    return (
        f"interrupted; still running at the service: {names}; another run or `arena-kit resume` "
        "collects them, `arena-kit ledger batches` lists all"
    )


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


def _differing(group: Iterable[Result], seen: dict[str, Answer]) -> set[str]:
    """Names whose result is not the one seen before; a stream that is read again repeats itself."""
    return {
        each.name
        for each in group
        if (first := seen.setdefault(each.name, each.answer)) is not each.answer
        and (first.status, first.text) != (each.answer.status, each.answer.text)
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
    except base.BusyError:
        yield group
        raise
    yield group


def _newer(newest_first: Iterator[Batch], intent: Intent) -> Iterator[Batch]:
    """The batches that the service lists above the newest one that was there before an intent,
    whatever the clocks say.

    Batches of the same moment have no order, so those are among them.
    """
    seen: Batch | None = None
    for batch in newest_first:
        if batch.batch_id == intent.newest_seen:
            seen = batch
        elif seen is None or batch.created_at >= seen.created_at:
            yield batch
        else:
            return


def _unknown(judge: BatchJudge, known: set[str]) -> list[Batch]:
    """The newest batches of the account that the ledger does not know."""
    newest = islice(judge.recent(), _LISTED)
    return list(islice((batch for batch in newest if batch.batch_id not in known), _BATCHES))


def _names(judge: BatchJudge, batch: Batch, wanted: Mapping[str, str]) -> list[str]:
    """The custom ids of an ended batch; none when its first results are not of these requests.

    Results that are fewer than the batch's requests do not tell: the missing ones would be
    sent again.
    """
    if not batch.ended or not batch.results_url:  # not there yet, or no longer kept
        return []
    results = judge.collect(batch)
    names = [result.name for result in islice(results, _RESULTS)]
    if any(name.partition("-")[2] in wanted for name in names):
        names += [result.name for result in results]
    elif len(names) >= min(_RESULTS, batch.n_requests):
        return []
    if len(names) < batch.n_requests:
        raise base.BusyError(
            f"batch {batch.batch_id}: {len(names)} of {batch.n_requests} results can be read"
        )
    return names
