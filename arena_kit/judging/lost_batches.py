"""Batches that the service has and the ledger does not know: an older copy may have replaced it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import islice

from arena_kit.judging.judges.base import Batch, BatchJudge, BusyError, CutError
from arena_kit.judging.ledger import Ledger
from arena_kit.judging.ledger_rows import key_in_name
from arena_kit.judging.records import Asked
from arena_kit.judging.terms import AskingTerms

#: The account's newest batches among which unknown ones are looked for, how many of these are
#: looked into, and how many results of one tell whose it is.
_LISTED, _BATCHES, _RESULTS = 100, 20, 20


def adopt_lost(
    judge: BatchJudge, ledger: Ledger, terms: AskingTerms, requests: Mapping[str, Asked]
) -> bool:
    """Take up ended batches that hold some of these requests although the ledger does not know
    them; returns whether there are any.

    They may stand below batches that the ledger knows: it goes on after it was restored. One
    that knows none may have been restored, too.
    """
    unknown = terms.patiently(partial(_unknown, judge, ledger.known_batches()))
    _name_running(unknown, terms)
    intents = ledger.known_intents()
    left = {key_in_name(key): key for key in requests}
    for batch in unknown:
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
