"""Judging a tournament: render, look into the ledger, ask for the rest, read, settle.

`judge_pairs` does all of it; `ask` has any requests answered, in batches, live or in this process.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from arena_kit.battles.content import Conversation, turns_of
from arena_kit.files import ArenaError
from arena_kit.judging.asking.batches import Batching
from arena_kit.judging.asking.cost import CostError
from arena_kit.judging.asking.live import Live, close_abandoned
from arena_kit.judging.asking.options import AskOptions, OnSettled
from arena_kit.judging.judges import base
from arena_kit.judging.judges.base import BatchJudge, ImmediateJudge, Judge, LiveJudge
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.pairs.prompts import Pair, Prompt, Response
from arena_kit.judging.verdicts import records
from arena_kit.judging.verdicts.records import settle_all, verdict_of
from arena_kit.judging.verdicts.rendering import Rubric, render

#: Called with (done, total) as answers arrive.
OnProgress = Callable[[int, int], None]

#: How an answer may have ended that is kept for good; others were not paid for.
_FINAL = (records.Status.OK, records.Status.REFUSED, records.Status.TRUNCATED)
#: Answers made in this process that are written together.
_SAVE_EVERY = 50


class OfflineError(ArenaError, RuntimeError):
    """Verdicts that an offline run needs and the cache does not have; `elsewhere` says under which
    other address it has them.
    """

    def __init__(self, missing: Sequence[str], elsewhere: str = "") -> None:
        shown = "\n".join(f"  {request_id}" for request_id in missing[:20])
        more = f"\n  … and {len(missing) - 20} more" if len(missing) > 20 else ""
        super().__init__(
            f"offline, but {len(missing)} verdicts are not in the cache{elsewhere}:\n{shown}{more}"
        )
        self.missing = tuple(missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What judging reads: prompts and responses by id, rubrics by dimension; `graded` asks by
    how much the better response is better.
    """

    prompts: Mapping[str, Prompt]
    responses: Mapping[tuple[str, str], Response]
    rubrics: Mapping[str, Rubric]
    salt: bytes
    graded: bool = False

    def shows_images(self, pair: Pair) -> bool:
        """Whether the prompt or a response of a pair holds an image."""
        cells = (self.responses[each, pair.prompt_id].response_text for each in pair.entrants)
        texts = (self.prompts[pair.prompt_id].text, *cells)
        return any(isinstance(text, Conversation) and text.parts("image") for text in texts)

    def reaching(self, turn: int) -> set[str]:
        """The prompts to which every response has this turn."""
        cells = self.responses.items()
        short = {prompt for (_, prompt), each in cells if turns_of(each.response_text) < turn}
        return self.prompts.keys() - short

    def requests(
        self, pairs: Sequence[Pair | records.Presentation], repetition: int = 0
    ) -> list[records.JudgeRequest]:
        """The rendered requests of pairs in both orders, or of single presentations; as a
        `repetition` they are asked again on purpose, whatever was answered before.
        """
        wanted = [(each, each if isinstance(each, Pair) else each.pair) for each in pairs]
        requests = [
            request
            for each, pair in wanted
            for request in render(
                pair,
                prompt=self.prompts[pair.prompt_id],
                responses=self.responses,
                rubric=self.rubrics[pair.dimension],
                salt=self.salt,
                graded=self.graded,
            )
            if each is pair or each == request.presentation
        ]
        return [r._replace(repetition=repetition) for r in requests] if repetition else requests


@records.rare_garbage_collection()
def judge_pairs(
    pairs: Sequence[Pair | records.Presentation],
    material: Material,
    judge: Judge,
    ledger: Ledger,
    *,
    offline: bool = False,
    max_attempts: int = 2,
    repetition: int = 0,
    options: AskOptions = AskOptions(),  # noqa: B008 (frozen)
    on_progress: OnProgress = lambda *_: None,
) -> list[records.Judgment]:
    """Judge every pair in both orders, or in the order presented, and settle it.

    Cached answers are used as they are. Offline, an uncached one is an `OfflineError`
    that lists all of them. An answer that cannot be read is asked for again, up to
    `max_attempts` times in all; what then remains unread keeps its status. A
    `repetition` has answers of its own.
    """
    requests = material.requests(pairs, repetition)
    verdicts: list[records.Verdict] = []  # of a presentation the last one counts
    for attempt in range(1, max_attempts + 1):
        asked = [r._replace(attempt=attempt) for r in requests] if attempt > 1 else requests
        try:
            latest = _verdicts(
                asked, judge, ledger, options, offline=offline, on_progress=on_progress
            )
        except CostError as error:
            if attempt == 1:
                raise
            options.say(f"not asked again: {error}")  # what was paid for is worth having
            break
        options = replace(options, prewarm=False)  # a few re-asks are not worth the wait
        verdicts += filter(None, latest)
        requests = [
            request
            for request, verdict in zip(requests, latest, strict=True)
            if verdict is None or verdict.status is records.Status.UNPARSABLE
        ]
        if not requests:
            break
    return settle_all(verdicts)


def ask(
    requests: Mapping[str, records.Asked],
    judge: Judge,
    ledger: Ledger,
    options: AskOptions,
    on_settled: OnSettled,
) -> dict[str, records.Answer]:
    """Have these requests, by cache key, answered in the ledger; returns what came.

    What failed unpaid is among it, and not in the ledger.
    """
    shown = sum(bool(base.pictures_of(request)) for request in requests.values())
    base.refuse_unseen(judge, shown, "requests")
    if not isinstance(judge, BatchJudge | LiveJudge):
        return _ask_in_process(requests, judge, ledger, options.run, on_settled)  # type: ignore[arg-type]
    with ledger.locked(options.run, options.say if judge.price.free else None):
        close_abandoned(ledger, options, requests)
        if isinstance(judge, BatchJudge):
            return Batching(judge, ledger, options, on_settled).ask(requests)
        return Live(judge, ledger, options, on_settled).ask(requests)


def _verdicts(
    requests: Sequence[records.JudgeRequest],
    judge: Judge,
    ledger: Ledger,
    options: AskOptions,
    *,
    offline: bool,
    on_progress: OnProgress,
) -> list[records.Verdict | None]:
    """A verdict on each request, from the ledger or asked for; offline nothing is asked. A re-ask
    without an answer has none.
    """
    keys = base.cache_keys(judge, requests)
    by_key = dict(zip(keys, requests, strict=True))  # equal texts share a key, and an answer
    before = ledger.settled(by_key)
    fresh = {key: request for key, request in by_key.items() if key not in before}
    if fresh and offline and requests[0].attempt == 1:
        missing = list(fresh.values())
        raise OfflineError([r.request_id for r in missing], _elsewhere(missing, judge, ledger))
    done, total = len(by_key) - len(fresh), len(by_key)
    on_progress(done, total)

    def settled(n: int) -> None:
        nonlocal done
        done = min(done + n, total)
        on_progress(done, total)

    options = replace(options, answered=bool(before) or requests[0].attempt > 1)
    answers = ask(fresh, judge, ledger, options, settled) if fresh and not offline else {}
    answers |= ledger.get(key for key in by_key if key not in answers)
    verdicts: list[records.Verdict | None] = []
    for key, request in zip(keys, requests, strict=True):
        answer = answers.get(key)
        paid_now = options.run and answer and answer.run == options.run
        cached = key in before and not paid_now
        verdict = verdict_of(request, answer, judge_model=judge.model, cached=cached)
        verdicts.append(None if answer is None and request.attempt > 1 else verdict)
    return verdicts


def _elsewhere(requests: Sequence[records.Asked], judge: Judge, ledger: Ledger) -> str:
    """Under which other addresses of the judge the ledger answers these requests, in words."""
    if not isinstance(judge, base.PaidJudge):
        return ""
    asked = judge.service.origin
    counts = {
        address: len(ledger.settled(base.cache_keys(judge.at(address), requests)))
        for address in ledger.addresses(judge.model)
        if address != asked
    }
    found = " and ".join(f"{n} of them from {address}" for address, n in counts.items() if n)
    return f" from {asked}, but it has {found} (judge.base_url)" if found else ""


def _ask_in_process(
    requests: Mapping[str, records.JudgeRequest],
    judge: ImmediateJudge,
    ledger: Ledger,
    run: str,
    on_settled: OnSettled,
) -> dict[str, records.Answer]:
    answers: dict[str, records.Answer] = {}
    unsaved: list[tuple[str, records.Answer]] = []
    try:
        for key, request in requests.items():
            answer = judge.answer(request)
            if answer is not None:
                answers[key] = answer
            if answer is not None and answer.status in _FINAL:
                unsaved.append((key, answer))
            if len(unsaved) >= _SAVE_EVERY:
                ledger.put(judge.model, unsaved, run)
                unsaved = []
            on_settled(1)
    finally:
        ledger.put(judge.model, unsaved, run)
    return answers
