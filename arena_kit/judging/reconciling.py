"""Finding the batch that an intent became, when the answer to its creation was lost."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from itertools import islice

from arena_kit.judging.judges.base import Batch, BatchJudge, BusyError, CutError
from arena_kit.judging.ledger import Ledger
from arena_kit.judging.ledger_rows import Intent
from arena_kit.judging.terms import Terms

_LOOK_BACK = timedelta(hours=24)  # clocks differ


def reconcile(intent: Intent, judge: BatchJudge, ledger: Ledger, terms: Terms) -> bool:
    """Find the batch that an intent became; False when it became none.

    A batch carries no name, so one of the right size is a candidate until its results
    show whose requests it holds. Only when none is left of those that had appeared by the
    end of the grace period was nothing created.
    """
    others = ledger.known_batches()
    deadline = time.monotonic() + terms.pace.grace
    late, seen = False, set[str]()
    for wait in terms.pace.waits():
        complete, late = late, time.monotonic() > deadline  # after one look beyond the deadline
        candidates = [b for b in recent(intent, judge, terms) if b.batch_id not in others]
        candidates = [b for b in candidates if not complete or b.batch_id in seen]
        seen |= {batch.batch_id for batch in candidates}
        for batch in candidates:
            if batch.ended and _holds(batch, intent, judge, terms):
                ledger.submitted(intent, batch)
                return True
            if batch.ended:
                others.add(batch.batch_id)
        running = [batch.batch_id for batch in candidates if not batch.ended]
        if not running and late:
            ledger.close(intent, "void")
            return False
        if running:
            terms.say(f"{named(intent)} may be {' or '.join(running)}; waiting to see its results")
        time.sleep(wait)
    raise AssertionError  # the waits have no end


def recent(intent: Intent, judge: BatchJudge, terms: Terms) -> list[Batch]:
    """Batches of an intent's size that may have been made since it was planned."""
    oldest = datetime.fromisoformat(intent.planned_at) - _LOOK_BACK

    def look() -> list[Batch]:
        found = []
        for batch in judge.recent():
            if datetime.fromisoformat(batch.created_at) < oldest:
                break
            if batch.n_requests == intent.n_requests:
                found.append(batch)
        return found

    return terms.patiently(look)


def _holds(batch: Batch, intent: Intent, judge: BatchJudge, terms: Terms) -> bool:
    if not batch.results_url:  # no longer kept: not to be told, and not to be had
        return False

    def look() -> bool:
        try:
            return any(intent.owns(result.name) for result in islice(judge.collect(batch), 1))
        except CutError as error:
            raise BusyError(str(error)) from None

    return terms.patiently(look)


def named(intent: Intent) -> str:
    """An intent in words: its batch, if it has one, and its size."""
    what = f"batch {intent.batch_id}" if intent.batch_id else f"unconfirmed batch {intent.intent}"
    return f"{what} ({intent.n_requests} requests)"
