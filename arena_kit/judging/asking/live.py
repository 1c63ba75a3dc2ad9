"""Live calls: several at once, each written into the ledger before it is made.

A call that ends without an answer may have been billed; there is no way to ask the
service later. Such calls are counted as `unknown`, shown, and asked again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice

from arena_kit.judging.asking.options import Asking, AskOptions, Requests
from arena_kit.judging.judges import base
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.ledger.rows import Awaited, Intent
from arena_kit.judging.verdicts.records import Answer, Asked, Status

#: The budget is asked again after a tenth more answers, or after this many.
_CHECK_BUDGET_EVERY = 20
#: Seconds between two words about an outage.
_TELL_EVERY = 5.0
#: Failures without a single answer that end a run, and replies in a row that are no answer.
_HOPELESS = 5


@dataclass(slots=True, kw_only=True)
class Live(Asking[base.LiveJudge]):
    """Asks a live judge."""

    _no_answers: int = 0

    def _ask(self, requests: Requests) -> None:
        settled = self.ledger.settled(requests)
        left = {key: request for key, request in requests.items() if key not in settled}
        self._refuse_owed(left)
        if left:
            self.options.check(self.judge, list(left.values()))
            self.options.allow(left.values())
        for _ in range(self.options.max_tries):
            if left:
                self._round(left)
                left = {k: requests[k] for k, result in self.failed.items() if result.again}

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
        intent = self.ledger.plan({}, transport="live", **self._sender)
        calls = _Calls()
        todo = iter(list(requests.items()))
        pauses: set[str] = set()
        try:
            with ThreadPoolExecutor(self.judge.concurrency) as pool:
                try:
                    while not pauses and self._begin(intent, requests, todo, calls, pool):
                        calls.wait()
                        self._tell(calls)
                        pauses |= self._keep(intent, calls)
                        self._refuse_hopeless()
                finally:  # calls that only wait for a busy service give up
                    calls.stop.set()
        finally:  # calls at the service when an interrupt came were paid for: they are kept
            pauses |= self._keep(intent, calls)
            self.ledger.close(intent, "closed")
        if pauses:
            raise base.PausedError("; ".join(sorted(pauses)))

    def _begin(
        self,
        intent: Intent,
        requests: Requests,
        todo: Iterator[tuple[str, Asked]],
        calls: _Calls,
        pool: ThreadPoolExecutor,
    ) -> bool:
        """Start as many calls as there is room for; False when none is under way."""
        some = dict(islice(todo, self.judge.concurrency - len(calls.under_way)))
        if len(self.answers) >= calls.checked + min(_CHECK_BUDGET_EVERY, len(self.answers) // 10):
            calls.checked = len(self.answers)
            busy = (requests[owed.key] for owed in calls.under_way)
            self.options.allow([*some.values(), *busy])
        for owed in self.ledger.begin(intent, some) if some else ():
            self.failed.pop(owed.key, None)
            calls.under_way.add(owed)
            pool.submit(self._call, some[owed.key], owed, calls)
        return bool(calls.under_way)

    def _call(self, request: Asked, owed: Awaited, calls: _Calls) -> None:
        try:
            calls.came(owed, self._answer(request, owed, calls))
        except BaseException as error:
            calls.broke(error)
            raise

    def _answer(self, request: Asked, owed: Awaited, calls: _Calls) -> base.Result:
        """One answer; a busy service is asked again, until patience or the round ends."""
        try:
            return self.options.backoff.retry(
                lambda: self.judge.ask(request), partial(calls.waits, owed), calls.stop.wait
            )
        except base.BusyError as error:
            return _failure(request, str(error), Status.ERRORED)
        except base.UnsureError as error:
            free = self.judge.price.free
            doubt = "" if free else ", and it may have been billed"
            failure = _failure(
                request, f"no answer came{doubt}: {error}", Status.MISSING, again=free
            )
            reply = error.line if isinstance(error, base.NoAnswerError) else ""
            return failure._replace(line=reply, no_answer=bool(reply))
        except base.PausedError as error:
            return _failure(request, str(error), Status.ERRORED, pause=str(error))
        except base.ServiceError as error:
            return _failure(request, str(error), Status.ERRORED, again=False)

    def _tell(self, calls: _Calls) -> None:
        """Say what calls wait for, now and then, for all of them wait for the same; and when it
        is over.
        """
        if calls.note and time.monotonic() > calls.tell_after:
            self.options.say(calls.note)
            calls.tell_after = time.monotonic() + _TELL_EVERY
        answered = any(result.billed for result in calls.arrived.values())
        if calls.tell_after and answered and not calls.waiting:
            self.options.say("the service answers again")
            calls.tell_after = 0.0
        calls.note = ""

    def _keep(self, intent: Intent, calls: _Calls) -> set[str]:
        """Make durable what has come in; returns what only the user can mend."""
        pauses = set()
        for owed, arrived in list(calls.arrived.items()):
            result = self.options.with_unknown_costs({owed.key: arrived}, self.requests)[owed.key]
            self.ledger.record(intent, [(owed, result)], self.options.run)
            self._sort(owed.key, result)
            if result.pause:
                pauses.add(result.pause)
            self._no_answers = self._no_answers + 1 if result.no_answer else 0
            calls.kept(owed)
            self.on_settled(1)
        return pauses

    def _refuse_hopeless(self) -> None:
        """Raise when asking on makes no sense."""
        if self._no_answers >= _HOPELESS:
            last = next(r.answer.detail for r in reversed(self.failed.values()) if r.no_answer)
            raise base.ServiceError(
                f"{self._no_answers} replies in a row were no answer, so no more was asked; "
                f"running again asks for what is missing: {last}"
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
        detail = "its process ended before an answer came, and it may have been billed"
        lost = {e.key: _failure(e, detail, Status.MISSING, again=False) for e in owed}
        results = options.with_unknown_costs(lost, requests)
        ledger.record(intent, [(each, results[each.key]) for each in owed], intent.run)
        ledger.close(intent, "closed")


class _Calls:
    """Calls under way in threads. A result stays here until it is kept, so none is lost."""

    def __init__(self) -> None:
        self.under_way: set[Awaited] = set()
        self.arrived: dict[Awaited, base.Result] = {}
        self.stop = threading.Event()
        self.checked = 0
        self.waiting: set[Awaited] = set()
        self.note = ""
        self.tell_after = 0.0
        self._news = threading.Semaphore(0)
        self._error: BaseException | None = None

    def came(self, owed: Awaited, result: base.Result) -> None:
        self.waiting.discard(owed)
        self.arrived[owed] = result
        self._news.release()

    def waits(self, owed: Awaited, text: str) -> None:
        self.waiting.add(owed)
        self.note = text
        self._news.release()

    def broke(self, error: BaseException) -> None:
        self._error = error
        self._news.release()

    def wait(self) -> None:
        """Until something comes in; an error of a thread is raised here."""
        self._news.acquire()
        if self._error is not None:
            raise self._error

    def kept(self, owed: Awaited) -> None:
        self.under_way.discard(owed)
        self.arrived.pop(owed, None)


def _failure(
    request: Asked | Awaited, detail: str, status: Status, *, again: bool = True, pause: str = ""
) -> base.Result:
    answer = Answer(request_id=request.request_id, status=status, detail=detail)
    return base.Result(answer=answer, billed=False, again=again, pause=pause)
