"""Under which terms a paid judge is asked: for which run, at what pace, within what budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from arena_kit.judging.judges.base import BusyError, PaidJudge, Result
from arena_kit.judging.verdicts.records import Asked

T = TypeVar("T")
#: Called with how many requests have just been settled.
OnSettled = Callable[[int], None]

#: Seconds for which a service that is busy is waited for before anything was sent.
_CHECK_PATIENCE = 90.0


def _silent(_text: str) -> None:
    pass


def _anything(_requests: Collection[Asked]) -> None:
    pass


def _nothing_each(requests: Collection[Asked]) -> list[float]:
    return [0.0] * len(requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long to wait, in seconds.

    Looks at a batch begin `first_look` apart and grow to `longest_wait`. `grace` is how
    long a fresh batch may be unknown to the service before that means anything, and
    `patience` how long an outage is waited out.
    """

    first_look: float = 0.05
    longest_wait: float = 60.0
    grace: float = 120.0
    patience: float = 1800.0

    def waits(self) -> Iterator[float]:
        """Growing pauses between looks, without end."""
        wait = self.first_look
        while True:
            yield wait
            wait = min(1.7 * wait, self.longest_wait)

    def patiently(
        self,
        call: Callable[[], T],
        say: Callable[[str], None] = _silent,
        sleep: Callable[[float], bool | None] = time.sleep,
    ) -> T:
        """Call again while the service is busy, after the pause it wishes for, until patience
        ends or `sleep` returns true.
        """
        started = time.monotonic()
        for wait in self.waits():
            try:
                return call()
            except BusyError as error:
                if time.monotonic() - started > self.patience:
                    raise
                say(f"{error}; {_waiting(started, self.patience)}")
                if sleep(max(wait, min(error.wait or 0, self.patience))):
                    raise
        raise AssertionError  # the waits have no end


def _waiting(started: float, patience: float) -> str:
    """Since when and until when something is waited for, by the clock on the wall."""
    since = time.time() - (time.monotonic() - started)
    first, last = (time.strftime("%H:%M:%S", time.localtime(t)) for t in (since, since + patience))
    return f"waiting since {first}, until {last} at the latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingTerms:
    """What a run allows while it asks a judge.

    Parameters
    ----------
    run
        The run that pays, so that its cost can be told apart.
    purpose
        What the answers are for: `judge` or `generate`.
    prewarm
        Send one request of each system text ahead, so that the others find it cached.
    max_tries
        How often a request that failed unpaid is sent in one run.
    allow
        Raises when sending these requests would break the budget.
    forecast
        What each of these requests may cost, in US dollars, where its result does not say.
    say
        Told, in words, what is being waited for.
    """

    run: str = ""
    purpose: str = "judge"
    prewarm: bool = False
    max_tries: int = 3
    allow: Callable[[Collection[Asked]], None] = _anything
    forecast: Callable[[Collection[Asked]], list[float]] = _nothing_each
    say: Callable[[str], None] = _silent
    pace: Pace = Pace()

    def booked(
        self, results: dict[str, Result], requests: Mapping[str, Asked]
    ) -> dict[str, Result]:
        """Results by cache key; those that do not say what they cost with its forecast.

        A request that a batch of another run holds is not among ours: it may cost what ours
        do on average.
        """
        unpriced = {key for key, result in results.items() if result.unpriced}
        if not unpriced:
            return results
        mine = {key: request for key, request in requests.items() if key in unpriced}
        usd = dict(zip(mine, self.forecast(mine.values()), strict=True))
        if unpriced - usd.keys():
            each = self.forecast(requests.values())
            usd = dict.fromkeys(unpriced, sum(each) / max(1, len(each))) | usd
        return {key: r._replace(usd_unknown=usd.get(key, 0.0)) for key, r in results.items()}

    def check(self, judge: PaidJudge, requests: Sequence[Asked]) -> None:
        """Have a judge look over what it is about to be sent; its warnings are said."""
        brief = replace(self.pace, patience=min(self.pace.patience, _CHECK_PATIENCE))
        for warning in brief.patiently(lambda: judge.check(requests), self.say):
            self.say(warning)

    def patiently(self, call: Callable[[], T]) -> T:
        """Call again while the service is busy, saying so."""
        return self.pace.patiently(call, self.say)
