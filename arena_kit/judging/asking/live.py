"""Live calls: several at once, each written into the ledger before it is made.

A call that ends without an answer may have been billed; there is no way to ask the
service later. Such calls are counted as `unknown`, shown, and asked again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from arena_kit.judging.asking.options import Asking, AskOptions
from arena_kit.judging.judges import base
from arena_kit.judging.ledger.ledger import Awaited, Intent, Ledger, Requests
from arena_kit.judging.verdicts.records import Answer, Asked, Status

#: The budget is asked again after a tenth more answers, or after this many.
_CHECK_BUDGET_EVERY = 20
#: Seconds between two words about an outage.
_TELL_EVERY = 5.0
#: Failures without a single answer that end a run, and replies in a row that are no answer.
_HOPELESS = 5
#: Seconds before failed requests are sent a second and a third time, which grow by this factor.
_SECOND_TRY, _GROWTH = 3.0, 4.0
#: So many failures in a row may be one question's; until then calls are so many seconds apart.
_ONE_QUESTION, _SOON = 50, 0.25
#: When only so many questions are left and others were answered, no outage is waited out.
_FEW_QUESTIONS = 3


@dataclass(slots=True)
class _Outage:
    """Busy replies in a row, since when, the last one's words, and how long to wait."""

    waits: Iterator[float]
    since: float
    failures: int = 0
    detail: str = ""
    until: float = 0.0
    tell_after: float = 0.0


@dataclass(slots=True)
class Live(Asking[base.LiveJudge]):
    """Asks a live judge.

    A busy reply lets its worker go: the request is sent again when the others have been, and
    `max_tries` times in all. Where nobody is answered, one call at a time is tried, further and
    further apart, and none of that counts as a try as long as no answer has come at all, unless
    only a few questions are left.
    """

    _no_answers: int = 0
    _outage: _Outage = field(init=False)

    def _ask(self, requests: Requests) -> None:
        settled = self.ledger.settled(requests)
        left = {key: request for key, request in requests.items() if key not in settled}
        self._refuse_owed(left)
        if left:
            self.options.check(self.judge, list(left.values()))
            self.options.allow(left.values())
        self._outage = self._no_outage()
        tries = 0
        while left and tries < self.options.max_tries:
            if tries:
                wait = _SECOND_TRY * _GROWTH ** (tries - 1)
                self._sleep(min(wait, self.options.backoff.longest_wait))
                self._outage = self._no_outage()
            self._round(left)
            tries += bool(self.answers or not self._outage.failures or self._few(left.values()))
            left = {k: requests[k] for k, result in self.failed.items() if result.again}
        self._tell_failures(len(requests))

    def _few(self, left: Collection[Asked]) -> bool:
        """Whether only few questions are left of a run that has answers to others."""
        answered = self.answers or self.options.answered
        return bool(answered) and len({each.prompt_id for each in left}) <= _FEW_QUESTIONS

    def _no_outage(self) -> _Outage:
        return _Outage(self.options.backoff.waits(), time.monotonic())

    def _tell_failures(self, n: int) -> None:
        failed = [r.answer for r in self.failed.values() if r.answer.status is Status.ERRORED]
        if failed:
            self.options.say(
                f"{len(failed)} of {n} requests failed (status errored); another run sends them "
                f"again: {failed[0].detail}"
            )

    def _refuse_owed(self, requests: Requests) -> None:
        """Raise when a batch under way will answer some of these requests."""
        for intent in self.ledger.open_intents():
            if self.ledger.holds(intent, requests):
                raise base.PausedError(
                    f"batch {intent.batch_id or intent.intent} ({intent.n_requests} requests) is "
                    "under way and will answer some of these requests; run with "
                    "`transport: batches` to collect it"
                )

    def _round(self, requests: Requests) -> None:
        """Ask each request once, `concurrency` at a time."""
        intent = self.ledger.plan({}, self._sender, "live")
        calls = _Calls(deque(requests.items()))
        pauses: set[str] = set()
        try:
            with ThreadPoolExecutor(self.judge.concurrency) as pool:
                while not pauses and self._begin(intent, calls, pool):
                    calls.wait()
                    pauses |= self._keep(intent, calls)
                    self._refuse_hopeless()
        finally:  # calls at the service when an interrupt came were paid for: they are kept
            pauses |= self._keep(intent, calls)
            self.ledger.close(intent, "closed")
        if pauses:
            raise base.PausedError("; ".join(sorted(pauses)))

    def _begin(self, intent: Intent, calls: _Calls, pool: ThreadPoolExecutor) -> bool:
        """Start as many calls as there is room for; False when none is under way."""
        room, take = self.judge.concurrency - len(calls.under_way), calls.todo.popleft
        if self._outage.failures >= self.judge.concurrency:
            room, take = int(not calls.under_way), calls.todo.pop  # of another question, if any
            if room and calls.todo:
                self._sit_out(calls)
        some = dict(take() for _ in range(min(room, len(calls.todo))))
        if len(self.answers) >= calls.checked + min(_CHECK_BUDGET_EVERY, len(self.answers) // 10):
            calls.checked = len(self.answers)
            busy = (self.requests[owed.key] for owed in calls.under_way)
            self.options.allow([*some.values(), *busy])
        for owed in self.ledger.begin(intent, some) if some else ():
            self.failed.pop(owed.key, None)
            calls.under_way.add(owed)
            pool.submit(self._call, some[owed.key], owed, calls)
        return bool(calls.under_way)

    def _sit_out(self, calls: _Calls) -> None:
        """Wait before the next call while nobody is answered; after patience nothing is asked."""
        outage, backoff = self._outage, self.options.backoff
        if time.monotonic() - outage.since > backoff.patience:
            last = {key: _failure(r, outage.detail, Status.ERRORED) for key, r in calls.todo}
            self.failed = {k: r._replace(again=False) for k, r in (self.failed | last).items()}
            calls.todo.clear()
            return
        if time.monotonic() > outage.tell_after:
            self.options.say(f"{outage.detail}; {backoff.waiting(outage.since)}")
            outage.tell_after = time.monotonic() + _TELL_EVERY
        soon = self.answers and outage.failures < _ONE_QUESTION
        soon = soon or self._few([request for _, request in calls.todo])
        self._sleep(min(next(outage.waits), _SOON if soon else backoff.longest_wait))

    def _sleep(self, seconds: float) -> None:
        """Wait so long, or for as long as the service wishes."""
        wished = self._outage.until - time.monotonic()
        time.sleep(max(seconds, min(wished, self.options.backoff.patience)))

    def _call(self, request: Asked, owed: Awaited, calls: _Calls) -> None:
        try:
            calls.arrived[owed] = self._answer(request)
        except BaseException as error:
            calls.error = error
            raise
        finally:
            calls.news.release()

    def _answer(self, request: Asked) -> base.Result:
        """One answer, or how the call failed."""
        try:
            return self.judge.ask(request)
        except base.BusyError as error:
            return _failure(request, str(error), Status.ERRORED)._replace(busy=error.wait or 0.0)
        except base.UnsureError as error:
            free = self.judge.price.free
            doubt = "" if free else ", and it may have been billed"
            failure = _failure(request, f"no answer{doubt}: {error}", Status.MISSING, again=free)
            reply = error.line if isinstance(error, base.NoAnswerError) else ""
            return failure._replace(line=reply, no_answer=bool(reply))
        except base.PausedError as error:
            return _failure(request, str(error), Status.ERRORED, pause=str(error))
        except base.ServiceError as error:
            return _failure(request, str(error), Status.ERRORED, again=False)

    def _keep(self, intent: Intent, calls: _Calls) -> set[str]:
        """Make durable what has come in; returns what only the user can mend."""
        pauses = set()
        for owed, arrived in list(calls.arrived.items()):
            result = self.options.with_unknown_costs({owed.key: arrived}, self.requests)[owed.key]
            self.ledger.record(intent, [(owed, result)], self.options.run)
            self._sort(owed.key, result)
            pauses.add(result.pause)
            self._no_answers = self._no_answers + 1 if result.no_answer else 0
            self._watch(result)
            calls.under_way.discard(owed)
            del calls.arrived[owed]
            if result.busy is None:
                self.on_settled(1)
        return pauses - {""}

    def _watch(self, result: base.Result) -> None:
        """Count busy replies in a row; any other reply ends an outage."""
        outage = self._outage
        if result.busy is None:
            if outage.tell_after and result.billed:
                self.options.say("the service responds again")
            self._outage = self._no_outage()
            return
        outage.failures, outage.detail = outage.failures + 1, result.answer.detail
        outage.until = max(outage.until, time.monotonic() + result.busy)

    def _refuse_hopeless(self) -> None:
        """Raise when asking on makes no sense."""
        if self._no_answers >= _HOPELESS:
            last = next(r.answer.detail for r in reversed(self.failed.values()) if r.no_answer)
            raise base.ServiceError(
                f"{self._no_answers} consecutive replies were no answer, so the run stopped; "
                f"another run sends what is missing: {last}"
            )
        hopeless = [r.answer.detail for r in self.failed.values() if not r.again and not r.pause]
        if not self.answers and len(hopeless) >= _HOPELESS:
            raise base.ServiceError(f"the first {len(hopeless)} requests all failed: {hopeless[0]}")


def close_abandoned(ledger: Ledger, options: AskOptions, requests: Requests) -> None:
    """Book the calls that processes which are gone had under way: each may have been billed to
    the run that made it. The caller holds the ledger.
    """
    for intent in ledger.open_intents("live"):
        owed = list(ledger.awaited(intent).values())
        detail = "its process ended before the answer; it may have been billed"
        lost = {e.key: _failure(e, detail, Status.MISSING, again=False) for e in owed}
        results = options.with_unknown_costs(lost, requests)
        ledger.record(intent, [(each, results[each.key]) for each in owed], intent.run)
        ledger.close(intent, "closed")


@dataclass(slots=True)
class _Calls:
    """Calls to make and calls under way in threads, which release `news` at their end. A result
    stays here until it is kept, so none is lost.
    """

    todo: deque[tuple[str, Asked]]
    under_way: set[Awaited] = field(default_factory=set)
    arrived: dict[Awaited, base.Result] = field(default_factory=dict)
    checked: int = 0
    news: threading.Semaphore = field(default_factory=partial(threading.Semaphore, 0))
    error: BaseException | None = None

    def wait(self) -> None:
        """Until something comes in; an error of a thread is raised here."""
        self.news.acquire()
        if self.error is not None:
            raise self.error


def _failure(
    request: Asked | Awaited, detail: str, status: Status, *, again: bool = True, pause: str = ""
) -> base.Result:
    answer = Answer(request_id=request.request_id, status=status, detail=detail)
    return base.Result(answer=answer, billed=False, again=again, pause=pause)
