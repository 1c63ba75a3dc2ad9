"""Live calls: several at once, each written into the ledger before it is made.

A call that ends without an answer may have been billed; there is no way to ask the
service later. Such calls are counted as `unknown`, shown, and asked again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice

from arena_kit.judging.judges.base import (
    BusyError,
    LiveJudge,
    PausedError,
    Result,
    ServiceError,
    UnsureError,
)
from arena_kit.judging.ledger import Awaited, Intent, Ledger
from arena_kit.judging.records import Answer, Asked, Status
from arena_kit.judging.terms import OnSettled, Terms

Requests = Mapping[str, Asked]


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """Asks a live judge through a ledger; requests are named by their cache keys."""

    judge: LiveJudge
    ledger: Ledger
    terms: Terms
    on_settled: OnSettled
    answers: dict[str, Answer] = field(default_factory=dict)
    failed: dict[str, Result] = field(default_factory=dict)

    def ask(self, requests: Requests) -> dict[str, Answer]:
        """Have every request answered in the ledger; returns what came, failures too.

        The caller holds the ledger, so calls of earlier processes are over.
        """
        for intent in self.ledger.open_intents("live"):
            self.ledger.close(intent, "closed")
        settled = self.ledger.settled(requests)
        left = {key: request for key, request in requests.items() if key not in settled}
        if left:
            self.terms.check(self.judge, list(left.values()))
            self.terms.allow(left.values())
        for _ in range(self.terms.max_tries):
            if left:
                self._round(left)
                left = {k: requests[k] for k, result in self.failed.items() if result.again}
        return self.answers | {key: result.answer for key, result in self.failed.items()}

    def _round(self, requests: Requests) -> None:
        """Ask each request once, `concurrency` at a time."""
        intent = self.ledger.plan(
            {},
            transport="live",
            service=self.judge.service,
            model=self.judge.model,
            purpose=self.terms.purpose,
            run=self.terms.run,
        )
        stop = threading.Event()
        todo = iter(list(requests.items()))
        pool = ThreadPoolExecutor(self.judge.concurrency)
        under_way: dict[Future[Result], Awaited] = {}
        pauses: set[str] = set()
        try:
            while not pauses:
                some = dict(islice(todo, self.judge.concurrency - len(under_way)))
                busy = (requests[owed.key] for owed in under_way.values())
                self.terms.allow([*some.values(), *busy])
                under_way |= self._begun(intent, some, pool, stop)
                if not under_way:
                    break
                pauses |= self._finished(intent, under_way)
        finally:
            stop.set()  # waiting calls give up; those at the service are paid for, so wait
            while under_way:
                pauses |= self._finished(intent, under_way)
            pool.shutdown()
            self.ledger.close(intent, "closed")
        if pauses:
            raise PausedError("; ".join(sorted(pauses)))

    def _begun(
        self,
        intent: Intent,
        requests: Requests,
        pool: ThreadPoolExecutor,
        stop: threading.Event,
    ) -> Iterator[tuple[Future[Result], Awaited]]:
        if not requests:
            return
        for key in requests:
            self.failed.pop(key, None)
        for owed in self.ledger.begin(intent, requests):
            yield pool.submit(self._call, requests[owed.key], stop), owed

    def _call(self, request: Asked, stop: threading.Event) -> Result:
        """One answer; a busy service is asked again, after the pause it wishes for."""
        started = time.monotonic()
        for pause in self.terms.pace.waits():
            try:
                return self.judge.ask(request)
            except BusyError as error:
                late = time.monotonic() - started > self.terms.pace.patience
                longest = self.terms.pace.longest_wait
                if late or stop.wait(max(pause, min(error.wait or 0.0, longest))):
                    return _failure(request, str(error), Status.ERRORED)
            except UnsureError as error:
                return _failure(request, f"may have been billed: {error}", Status.MISSING)
            except PausedError as error:
                return _failure(request, str(error), Status.ERRORED, pause=str(error))
            except ServiceError as error:
                return _failure(request, str(error), Status.ERRORED, again=False)
        raise AssertionError  # the waits have no end

    def _finished(self, intent: Intent, under_way: dict[Future[Result], Awaited]) -> set[str]:
        """Keep what has come in, each answer at once; returns what only the user can mend."""
        done, _ = wait(under_way, return_when=FIRST_COMPLETED)
        pauses = set()
        for future in done:
            owed = under_way.pop(future)
            result = future.result()
            if result.answer.status is not Status.MISSING:  # unsure ones stay open: `unknown`
                self.ledger.record(intent, [(owed, result)])
            if result.billed:
                self.answers[owed.key] = result.answer
            else:
                self.failed[owed.key] = result
            if result.pause:
                pauses.add(result.pause)
        self.on_settled(len(done))
        return pauses


def _failure(
    request: Asked, detail: str, status: Status, *, again: bool = True, pause: str = ""
) -> Result:
    answer = Answer(request_id=request.request_id, status=status, detail=detail)
    return Result(answer=answer, billed=False, again=again, pause=pause)
