"""Batches that the service has and the ledger does not know: the answer to a creation was lost
(`reconcile`), or an older copy has replaced the ledger (`adopt_lost`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from itertools import islice, takewhile

from arena_kit.judging.asking.options import AskOptions
from arena_kit.judging.judges.base import Batch, BatchJudge, BusyError, CutError
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.ledger.rows import Intent, key_in_name
from arena_kit.judging.verdicts.records import Asked

#: The account's newest batches among which unknown ones are looked for, how many of these are
#: looked into, and how many results of one tell whose it is.
_LISTED, _BATCHES, _RESULTS = 100, 20, 20
#: How long before its intent a batch may seem to have been created, where only clocks can tell.
_CLOCK_SKEW = timedelta(hours=24)


def reconcile(judge: BatchJudge, ledger: Ledger, options: AskOptions, intent: Intent) -> bool:
    """Find the batch that an intent became, when the answer to its creation was lost; False
    when it became none.

    A batch carries no name, so one of the right size is a candidate until its results
    show whose requests it holds. Only when none is left of those that had appeared by the
    end of the grace period was nothing created.
    """
    others = ledger.known_batches()
    deadline = time.monotonic() + options.backoff.grace
    late, seen = False, set[str]()
    for wait in options.backoff.waits():
        complete = late  # a look was made after the deadline: who comes now is a stranger
        late = time.monotonic() > deadline
        candidates = [b for b in recent(judge, options, intent) if b.batch_id not in others]
        candidates = [b for b in candidates if not complete or b.batch_id in seen]
        seen |= {batch.batch_id for batch in candidates}
        ended = [batch for batch in candidates if batch.ended]
        if ours := next((batch for batch in ended if _holds(judge, options, batch, intent)), None):
            ledger.submitted(intent, ours)
            return True
        others |= {batch.batch_id for batch in ended}
        running = [batch.batch_id for batch in candidates if not batch.ended]
        if not running and late:
            ledger.close(intent, "void")
            return False
        if running:
            options.say(f"{intent.words} may be {' or '.join(running)}; waiting to see its results")
        time.sleep(wait)
    raise AssertionError  # the waits have no end


def recent(judge: BatchJudge, options: AskOptions, intent: Intent) -> list[Batch]:
    """Batches of an intent's size that may have been created since it was planned."""

    def look() -> list[Batch]:
        newer = _newer(judge.recent(), intent)
        return [batch for batch in newer if batch.n_requests == intent.n_requests]

    return options.retry(look)


def _holds(judge: BatchJudge, options: AskOptions, batch: Batch, intent: Intent) -> bool:
    """Whether the first result of an ended batch is one of an intent's requests; results of
    which none can be read do not tell.
    """
    if not batch.results_url:  # no longer kept: not to be told, and not to be had
        return False

    def look() -> bool:
        try:
            first = next(judge.collect(batch), None)
        except CutError as error:
            raise BusyError(str(error)) from None
        if first is None:
            raise BusyError(f"batch {batch.batch_id} has ended, and none of its results comes")
        return intent.owns(first.name)

    return options.retry(look)


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


def adopt_lost(
    judge: BatchJudge, ledger: Ledger, options: AskOptions, requests: Mapping[str, Asked]
) -> bool:
    """Take up ended batches that hold some of these requests although the ledger does not know
    them; returns whether there are any.

    They may stand below batches that the ledger knows: it goes on after it was restored. One
    that knows none may have been restored, too.
    """
    unknown = options.retry(partial(_unknown, judge, ledger.known_batches()))
    _name_running(unknown, options)
    intents = ledger.known_intents()
    left = {key_in_name(key): key for key in requests}
    for batch in unknown:
        names = options.retry(partial(_names, judge, batch, left))
        intent = names[0].partition("-")[0] if names else ""
        if not names or intent in intents:
            continue
        held = [left.pop(part) for name in names if (part := name.partition("-")[2]) in left]
        asked = {key: requests[key] for key in held}
        ledger.adopt(intent, batch, asked, judge=judge, purpose=options.purpose, run=options.run)
        options.say(
            f"batch {batch.batch_id} holds {len(held)} of these requests, and the ledger did not "
            "know it (was an older copy restored?): it is collected, nothing is paid again"
        )
    return len(left) < len(requests)


def _name_running(batches: list[Batch], options: AskOptions) -> None:
    """Say which of these batches are running, for only results tell whose a batch is."""
    running = [batch.batch_id for batch in batches if not batch.ended]
    if running:
        options.say(
            f"the account runs {', '.join(running)}, unknown to this ledger; if an older copy of "
            "it was restored, stop and start again when they have ended: they are then collected"
        )


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
    try:
        results = judge.collect(batch)
        names = [result.name for result in islice(results, _RESULTS)]
        if any(name.partition("-")[2] in wanted for name in names):
            names += [result.name for result in results]
        elif len(names) >= min(_RESULTS, batch.n_requests):
            return []
    except CutError as error:
        raise BusyError(str(error)) from None
    if len(names) < batch.n_requests:
        raise BusyError(
            f"batch {batch.batch_id}: {len(names)} of {batch.n_requests} results can be read"
        )
    return names
