"""Asking any judge through the ledger: what has an answer is not asked, what is paid is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from arena_kit.judging.batching import Batching
from arena_kit.judging.judges.base import BatchJudge, ImmediateJudge, Judge, LiveJudge
from arena_kit.judging.ledger import Ledger
from arena_kit.judging.live import Live
from arena_kit.judging.records import Answer, Asked, JudgeRequest, Status
from arena_kit.judging.terms import OnSettled, Terms

_SAVE_EVERY = 50
#: How an answer may have ended that is kept for good; others were not paid for.
_FINAL = (Status.OK, Status.REFUSED, Status.TRUNCATED)


def ask(
    requests: Mapping[str, Asked],
    judge: Judge,
    ledger: Ledger,
    terms: Terms,
    on_settled: OnSettled,
) -> dict[str, Answer]:
    """Have these requests, by cache key, answered in the ledger; returns what came.

    What failed unpaid is among it, and not in the ledger.
    """
    if isinstance(judge, BatchJudge | LiveJudge):
        with ledger.held(terms.run):
            for intent in ledger.open_intents("live"):  # of a process that is gone
                ledger.close(intent, "closed")
            asker = (
                Batching(judge=judge, ledger=ledger, terms=terms, on_settled=on_settled)
                if isinstance(judge, BatchJudge)
                else Live(judge=judge, ledger=ledger, terms=terms, on_settled=on_settled)
            )
            return asker.ask(requests)
    return _ask_here(
        cast("Mapping[str, JudgeRequest]", requests),
        cast("ImmediateJudge", judge),
        ledger,
        terms.run,
        on_settled,
    )


def _ask_here(
    requests: Mapping[str, JudgeRequest],
    judge: ImmediateJudge,
    ledger: Ledger,
    run: str,
    on_settled: OnSettled,
) -> dict[str, Answer]:
    found: dict[str, Answer] = {}
    unsaved: list[tuple[str, Answer]] = []
    try:
        for key, request in requests.items():
            answer = judge.answer(request)
            if answer is not None:
                found[key] = answer
            if answer is not None and answer.status in _FINAL:
                unsaved.append((key, answer))
            if len(unsaved) >= _SAVE_EVERY:
                ledger.put(judge.model, unsaved, run)
                unsaved = []
            on_settled(1)
    finally:
        ledger.put(judge.model, unsaved, run)
    return found
