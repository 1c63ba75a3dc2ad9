"""With which options a paid judge is asked: for which run, how patiently, within what budget."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from arena_kit.judging.asking.cost import Budget
from arena_kit.judging.judges.base import BusyError, PaidJudge, Result
from arena_kit.judging.ledger.ledger import Ledger, Requests, Sender
from arena_kit.judging.verdicts.records import Answer, Asked

T = TypeVar("T")
J = TypeVar("J", bound=PaidJudge)

#: Called with how many requests have just been settled.
OnSettled = Callable[[int], None]

#: Seconds for which a service that is busy is waited for before anything was sent.
_CHECK_PATIENCE = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long to wait, in seconds.

    Polls of a batch begin `first_wait` apart and grow to `longest_wait`. `grace` is how
    long a fresh batch may be unknown to the service before that means anything, and
    `patience` how long an outage is waited out.
    """

    first_wait: float = 0.05
    longest_wait: float = 60.0
    grace: float = 120.0
    patience: float = 1800.0

    def waits(self) -> Iterator[float]:
        """Growing pauses between polls, without end."""
        wait = self.first_wait
        while True:
            yield wait
            wait = min(1.7 * wait, self.longest_wait)

    def waiting(self, started: float) -> str:
        """Since when and until when something is waited for, by the clock on the wall."""
        since = time.time() - (time.monotonic() - started)
        both = (time.localtime(moment) for moment in (since, since + self.patience))
        first, last = (time.strftime("%H:%M:%S", moment) for moment in both)
        return f"waiting since {first}, until {last} at the latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskOptions:
    """How a run asks a judge.

    Parameters
    ----------
    run
        The run that pays, so that its cost can be told apart.
    prewarm
        Send one request of each system text ahead, so that the others find it cached.
    max_tries
        How often a request that failed unpaid is sent in one run. Where nobody is answered, a
        live call is tried again for as long as `backoff` has patience, unless only a few questions
        of a run that has answers are left.
    budget
        What requests are forecast at, and the cap; None where nothing can cost.
    answered
        Whether the run already has answers to others of its requests, so that not everything fails.
    say
        Told, in words, what is being waited for.
    """

    run: str = ""
    prewarm: bool = False
    max_tries: int = 3
    budget: Budget | None = None
    answered: bool = False
    say: Callable[[str], None] = lambda _: None
    backoff: Backoff = Backoff()

    @property
    def purpose(self) -> str:
        """What the answers are for: `judge` or `generate`."""
        return self.budget.purpose if self.budget else "judge"

    def allow(self, requests: Collection[Asked]) -> None:
        """Raise when sending these requests would break the budget."""
        if self.budget is not None:
            self.budget.allow(requests, self.run)

    def with_unknown_costs(
        self, results: dict[str, Result], requests: Requests
    ) -> dict[str, Result]:
        """Results by cache key; those that do not say what they cost with its forecast.

        A request that a batch of another run holds is not among ours: it may cost what ours
        do on average.
        """
        unpriced = {key for key, result in results.items() if result.unpriced}
        if not unpriced or self.budget is None:
            return results
        mine = {key: request for key, request in requests.items() if key in unpriced}
        usd = dict(zip(mine, self.budget.forecast_each(mine.values()), strict=True))
        if unpriced - usd.keys():
            each = self.budget.forecast_each(requests.values())
            usd = dict.fromkeys(unpriced, sum(each) / max(1, len(each))) | usd
        return {key: r._replace(usd_unknown=usd.get(key, 0.0)) for key, r in results.items()}

    def check(self, judge: PaidJudge, requests: Sequence[Asked]) -> None:
        """Have a judge look over what it is about to be sent; its warnings are said."""
        brief = replace(self.backoff, patience=min(self.backoff.patience, _CHECK_PATIENCE))
        for warning in replace(self, backoff=brief).retry(lambda: judge.check(requests)):
            self.say(warning)

    def retry(self, call: Callable[[], T]) -> T:
        """Call again while the service is busy, saying so, after the pause it wishes for, until
        patience ends.
        """
        started, backoff = time.monotonic(), self.backoff
        for wait in backoff.waits():
            try:
                return call()
            except BusyError as error:
                if time.monotonic() - started > backoff.patience:
                    raise
                self.say(f"{error}; {backoff.waiting(started)}")
                time.sleep(max(wait, min(error.wait or 0, backoff.patience)))
        raise AssertionError  # the waits have no end


@dataclass(slots=True)
class Asking(Generic[J]):
    """A paid judge that is asked through a ledger; requests are named by their cache keys."""

    judge: J
    ledger: Ledger
    options: AskOptions
    on_settled: OnSettled
    answers: dict[str, Answer] = field(default_factory=dict)
    failed: dict[str, Result] = field(default_factory=dict)
    requests: Requests = field(default_factory=dict)

    def ask(self, requests: Requests) -> dict[str, Answer]:
        """Have every request answered in the ledger; returns what came, failures too.

        The caller holds the ledger, so calls of earlier processes are over. An interrupt leaves
        batches running and says so.
        """
        self.judge.ready()
        self.requests = requests
        self._ask(requests)
        return self.answers | {key: result.answer for key, result in self.failed.items()}

    def _ask(self, requests: Requests) -> None:
        raise NotImplementedError

    @property
    def _sender(self) -> Sender:
        return Sender(self.judge, self.options.purpose, self.options.run)

    def _sort(self, key: str, result: Result) -> None:
        """An answer that is final, or a failure that may be asked again."""
        if result.billed:
            self.answers[key] = result.answer
        else:
            self.failed[key] = result
