"""Judging a tournament: render, look into the cache, ask for the rest, read, settle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from arena_kit.judging.asking import ask
from arena_kit.judging.bulk import undisturbed
from arena_kit.judging.cache_keys import cache_keys
from arena_kit.judging.cost import CostError
from arena_kit.judging.judges.base import Judge
from arena_kit.judging.ledger import Ledger
from arena_kit.judging.records import JudgeRequest, Judgment, Presentation, Status, Verdict
from arena_kit.judging.rendering import Rubric, render
from arena_kit.judging.terms import Terms
from arena_kit.judging.verdicts import presentations, settle_all, verdict_of
from arena_kit.prompts import Pair, Prompt, Response

#: Called with (done, total) as answers arrive.
OnProgress = Callable[[int, int], None]


def _silent(_done: int, _total: int) -> None:
    pass


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

    def requests(self, pairs: Sequence[Pair]) -> list[JudgeRequest]:
        """The rendered requests of all pairs, in both orders."""
        return [self.request(shown) for pair in pairs for shown in presentations(pair)]

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
    terms: Terms = Terms(),  # noqa: B008 (frozen)
    on_progress: OnProgress = _silent,
) -> list[Judgment]:
    """Judge every pair in both orders and settle it.

    Cached answers are used as they are. Offline, an uncached one is an `OfflineError`
    that lists all of them. An answer that cannot be read is asked for again, up to
    `max_attempts` times in all; what then remains unread keeps its status.
    """
    with undisturbed():
        requests = material.requests(pairs)
    verdicts: dict[Presentation, Verdict] = {}
    for attempt in range(1, max_attempts + 1):
        asked = [replace(r, attempt=attempt) for r in requests] if attempt > 1 else requests
        try:
            verdicts |= _ask(asked, judge, ledger, terms, offline=offline, on_progress=on_progress)
        except CostError as error:
            if attempt == 1:
                raise
            terms.say(f"not asked again: {error}")  # what was paid for is worth having
            break
        terms = replace(terms, prewarm=False)  # a few re-asks are not worth the wait
        unread = {shown for shown, v in verdicts.items() if v.status is Status.UNPARSABLE}
        requests = [request for request in requests if request.presentation in unread]
        if not requests:
            break
    with undisturbed():
        return settle_all(verdicts.values())


def _ask(
    requests: Sequence[JudgeRequest],
    judge: Judge,
    ledger: Ledger,
    terms: Terms,
    *,
    offline: bool,
    on_progress: OnProgress,
) -> dict[Presentation, Verdict]:
    keys = cache_keys(judge, requests)
    by_key = dict(zip(keys, requests, strict=True))  # equal texts share a key, and an answer
    before = ledger.settled(by_key)
    fresh = {key: request for key, request in by_key.items() if key not in before}
    if fresh and offline and requests[0].attempt == 1:
        raise OfflineError([request.request_id for request in fresh.values()])
    done, total = len(by_key) - len(fresh), len(by_key)
    on_progress(done, total)

    def settled(n: int) -> None:
        nonlocal done
        done = min(done + n, total)
        on_progress(done, total)

    answers = ask(fresh, judge, ledger, terms, settled) if fresh and not offline else {}
    answers |= ledger.get(key for key in by_key if key not in answers)
    verdicts = {}
    with undisturbed():
        for key, request in zip(keys, requests, strict=True):
            given = answers.get(key)
            cached = key in before and not (terms.run and given and given.run == terms.run)
            if given is not None or request.attempt == 1:  # a re-ask without one changes nothing
                verdicts[request.presentation] = verdict_of(
                    request, given, judge_model=judge.model, cached=cached
                )
    return verdicts
