"""Judging a tournament: render, look into the cache, ask for the rest, read, settle."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from arena_kit.judging.judges.base import Judge
from arena_kit.judging.ledger import Ledger, cache_key
from arena_kit.judging.records import Answer, JudgeRequest, Judgment, Presentation, Status, Verdict
from arena_kit.judging.rendering import Rubric, render
from arena_kit.judging.verdicts import presentations, settle_all, verdict_of
from arena_kit.prompts import Pair, Prompt, Response

#: Called with (done, total) as answers arrive.
OnProgress = Callable[[int, int], None]


def _silent(_done: int, _total: int) -> None:
    pass


_SAVE_EVERY = 50
_LONGEST_WAIT = 60.0


class OfflineError(RuntimeError):
    """Verdicts that an offline run needs and the cache does not have."""

    def __init__(self, missing: Sequence[str]) -> None:
        shown = "\n".join(f"  {request_id}" for request_id in missing[:20])
        more = f"\n  … and {len(missing) - 20} more" if len(missing) > 20 else ""
        super().__init__(
            f"offline, but {len(missing)} verdicts are not in the cache:\n{shown}{more}"
        )
        self.missing = tuple(missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What judging reads: prompts and responses by id, rubrics by dimension."""

    prompts: Mapping[str, Prompt]
    responses: Mapping[tuple[str, str], Response]
    rubrics: Mapping[str, Rubric]
    salt: bytes

    def request(self, presentation: Presentation) -> JudgeRequest:
        """The rendered request of one presentation."""
        return render(
            presentation,
            prompt=self.prompts[presentation.pair.prompt_id],
            responses=self.responses,
            rubric=self.rubrics[presentation.pair.dimension],
            salt=self.salt,
        )


def judge_pairs(
    pairs: Sequence[Pair],
    material: Material,
    judge: Judge,
    ledger: Ledger,
    *,
    offline: bool = False,
    max_attempts: int = 2,
    on_progress: OnProgress = _silent,
) -> list[Judgment]:
    """Judge every pair in both orders and settle it.

    Cached answers are used as they are. Offline, an uncached one is an `OfflineError`
    that lists all of them. An answer that cannot be read is asked for again, up to
    `max_attempts` times in all; what then remains unread keeps its status.
    """
    requests = [material.request(shown) for pair in pairs for shown in presentations(pair)]
    verdicts: dict[Presentation, Verdict] = {}
    for attempt in range(1, max_attempts + 1):
        asked = [replace(request, attempt=attempt) for request in requests]
        verdicts |= _ask(asked, judge, ledger, offline=offline, on_progress=on_progress)
        unread = {shown for shown, v in verdicts.items() if v.status is Status.UNPARSABLE}
        requests = [request for request in requests if request.presentation in unread]
        if not requests:
            break
    return settle_all(verdicts.values())


def _ask(
    requests: Sequence[JudgeRequest],
    judge: Judge,
    ledger: Ledger,
    *,
    offline: bool,
    on_progress: OnProgress,
) -> dict[Presentation, Verdict]:
    keys = {request.request_id: cache_key(judge, request) for request in requests}
    cached = ledger.get(keys.values())
    fresh = [request for request in requests if keys[request.request_id] not in cached]
    if fresh and offline and fresh[0].attempt == 1:
        raise OfflineError([request.request_id for request in fresh])
    on_progress(len(requests) - len(fresh), len(requests))
    answers: dict[str, Answer] = {}
    if fresh and not offline:
        done = len(requests) - len(fresh)
        for answer in _collect(judge, fresh, keys, ledger):
            answers[answer.request_id] = answer
            on_progress(done + len(answers), len(requests))
    verdicts = {}
    for request in requests:
        kept = cached.get(keys[request.request_id])
        given = kept or answers.get(request.request_id)
        if given is not None or request.attempt == 1:  # a re-ask without answer changes nothing
            verdicts[request.presentation] = verdict_of(
                request, given, judge_model=judge.model, cached=kept is not None
            )
    return verdicts


def _collect(
    judge: Judge, fresh: Sequence[JudgeRequest], keys: Mapping[str, str], ledger: Ledger
) -> Iterable[Answer]:
    """Answers as they arrive, each kept in the ledger before or soon after it is used."""
    ticket = judge.submit(fresh)
    wait = 0.05
    while not judge.poll(ticket).ended:
        time.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT)
    unsaved: list[tuple[str, Answer]] = []
    try:
        for answer in judge.collect(ticket):
            unsaved.append((keys[answer.request_id], answer))
            if len(unsaved) >= _SAVE_EVERY:
                ledger.put(judge.model, unsaved)
                unsaved = []
            yield answer
    finally:
        ledger.put(judge.model, unsaved)
