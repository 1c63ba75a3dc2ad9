"""Batches that the service has and the ledger does not know: an older copy may have replaced it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import islice, takewhile

from arena_kit.judging.judges.base import Batch, BatchJudge, BusyError, CutError
from arena_kit.judging.ledger import Ledger
from arena_kit.judging.ledger_rows import key_in_name
from arena_kit.judging.records import Asked
from arena_kit.judging.terms import AskingTerms

#: The newest batches that are looked at, and how many results of one tell whose it is.
_BATCHES, _RESULTS = 20, 20


def adopt_lost(
    judge: BatchJudge, ledger: Ledger, terms: AskingTerms, requests: Mapping[str, Asked]
) -> bool:
    """Take up ended batches that hold some of these requests although the ledger does not know
    them; returns whether there are any.

    They are newer than all that it knows. A ledger without batches is a new one, whose keys
    depend on a secret of its own: nobody has sent its requests.
    """
    known = ledger.known_batches()
    if not known:
        return False
    newest = terms.patiently(lambda: _newer(judge, known))
    _name_running(newest, terms)
    intents = ledger.known_intents()
    left = {key_in_name(key): key for key in requests}
    for batch in newest:
        names = terms.patiently(partial(_names, judge, batch, left))
        intent = names[0].partition("-")[0] if names else ""
        if not names or intent in intents:
            continue
        held = [left.pop(part) for name in names if (part := name.partition("-")[2]) in left]
        asked = {key: requests[key] for key in held}
        ledger.adopt(intent, batch, asked, judge=judge, purpose=terms.purpose, run=terms.run)
        terms.say(
            f"batch {batch.batch_id} holds {len(held)} of these requests, and the ledger did not "
            "know it (was an older copy restored?): it is collected, nothing is paid again"
        )
    return len(left) < len(requests)


def _name_running(batches: list[Batch], terms: AskingTerms) -> None:
    """Say which of these batches are running, for only results tell whose a batch is."""
    running = [batch.batch_id for batch in batches if not batch.ended]
    if running:
        terms.say(
            f"the account runs {', '.join(running)}, unknown to this ledger; if an older copy of "
            "it was restored, stop and start again when they have ended: they are then collected"
        )


def _newer(judge: BatchJudge, known: set[str]) -> list[Batch]:
    """The newest batches of the account, down to the first that is known."""
    unknown = takewhile(lambda batch: batch.batch_id not in known, judge.recent())
    return list(islice(unknown, _BATCHES))


def _names(judge: BatchJudge, batch: Batch, wanted: Mapping[str, str]) -> list[str]:
    """The custom ids of an ended batch; none when its first results are not of these requests."""
    if not batch.ended or not batch.results_url:  # not there yet, or no longer kept
        return []
    try:
        results = judge.collect(batch)
        first = [result.name for result in islice(results, _RESULTS)]
        if not any(name.partition("-")[2] in wanted for name in first):
            return []
        return first + [result.name for result in results]
    except CutError as error:
        raise BusyError(str(error)) from None
