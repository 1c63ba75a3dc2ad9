"""What a run will cost, what it may cost, and what it did cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from arena_kit.battles.content import picture_bytes, picture_tokens
from arena_kit.battles.display import html_facts
from arena_kit.files import ArenaError, DataError
from arena_kit.judging.judges.base import BatchJudge, PaidJudge, Price, ServiceError, pictures_of
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.verdicts.records import Answer, Asked

_BYTES_PER_TOKEN = 3.0
#: Requests whose tokens the service is asked to count.
_SAMPLE = 20
#: Earlier answers from which their mean length says more than the expected one.
_ENOUGH_ANSWERS = 20
#: The purpose, in the ledger, of requests that are sent ahead to fill the prompt cache.
PREWARM = "prewarm"
_NOT_CACHED = "No prompt was cached: the rubric may be shorter than the model's minimum prefix."


class CostError(ArenaError, RuntimeError):
    """A run that would cost more than it may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """Tokens of a request from its length; `how` says where the ratio comes from."""

    tokens_per_byte: float = 1 / _BYTES_PER_TOKEN
    how: str = f"local estimate, {_BYTES_PER_TOKEN:g} bytes a token"

    @classmethod
    def of(cls, judge: PaidJudge, requests: Sequence[Asked], *, ask: bool = True) -> Estimator:
        """From a sample that the service counts; a local estimate where it cannot, or where
        `ask` is false.
        """
        step = max(1, len(requests) // _SAMPLE)
        sample = requests[::step][:_SAMPLE] if ask else []
        try:
            counts = [judge.count_tokens(request) for request in sample]
        except ServiceError:
            return cls()
        tokens = sum(n for n in counts if n is not None)
        if None in counts or not tokens:
            return cls()
        n_bytes = sum(_size(request.system) + _user_size(request) for request in sample)
        images = sum(_image_tokens(judge, request) for request in sample)
        how = f"count_tokens on {len(sample)} of the requests, scaled by length"
        return cls(tokens_per_byte=max(1, tokens - images) / max(1, n_bytes), how=how)

    def tokens(self, text: str) -> float:
        return _size(text) * self.tokens_per_byte

    def user_tokens(self, judge: PaidJudge, request: Asked) -> float:
        """Tokens of a request after its system text; those of images follow from their pixels."""
        return _user_size(request) * self.tokens_per_byte + _image_tokens(judge, request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Requests, tokens and dollars of a run before it starts.

    `usd_no_hits` is what every request costs when it writes the prompt cache and none reads
    it: that is held against a cap. `usd_all_hits` is the best case, `usd_no_cache` would be
    the price without prompt caching, and `usd_at_most` is reached only if no request is a hit
    and every answer is as long as `max_tokens` allows.
    """

    model: str
    requests: int
    answered: int
    system_tokens: int
    user_tokens: int
    output_tokens: int
    usd_all_hits: float
    usd_no_cache: float
    usd_no_hits: float
    usd_at_most: float
    counted: str
    assumed: str
    priced: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def _repr_html_(self) -> str:
        return html_facts(asdict(self), title="Forecast")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What requests to a judge are forecast at, and a cap on what a run may cost.

    Parameters
    ----------
    expected_tokens
        Output tokens of an answer, thinking included, until enough earlier answers for the
        same `purpose` say better.
    cap_usd
        The most that a run may cost, in US dollars; it does not bind a judge that is free.
    """

    judge: PaidJudge
    ledger: Ledger
    estimator: Estimator
    expected_tokens: int
    cap_usd: float
    purpose: str = "judge"

    def forecast(self, requests: Collection[Asked], *, answered: int = 0) -> Forecast:
        """Tokens and dollars of these requests; `answered` others are in the ledger."""
        return self._forecast(requests, *self.output_tokens(), answered)

    def forecast_each(self, requests: Collection[Asked]) -> list[float]:
        """What each of these requests may cost, without a prompt-cache hit."""
        tokens, assumed = self.output_tokens()
        return [self._forecast([each], tokens, assumed).usd_no_hits for each in requests]

    def allow(self, requests: Collection[Asked], run: str) -> None:
        """Raise when what a run has spent, what it has under way and what these requests may
        cost exceed the cap.
        """
        forecast = self.forecast(requests)
        each = forecast.usd_no_hits / max(1, forecast.requests)
        spent = booked(self.ledger, run) + each * self.ledger.under_way(run)
        if requests and not self.judge.price.free:
            refuse_above_cap({"": forecast}, self.cap_usd, spent)

    def output_tokens(self) -> tuple[float, str]:
        """Output tokens of an answer, and where that number comes from."""
        n, mean = self.ledger.output_tokens(self.judge, self.purpose)
        if n >= _ENOUGH_ANSWERS:
            return mean, f"{mean:.0f} output tokens an answer, the mean of {n} earlier"
        n = self.expected_tokens
        return float(n), f"{n} output tokens an answer assumed"

    def _forecast(
        self, requests: Collection[Asked], tokens: float, assumed: str, answered: int = 0
    ) -> Forecast:
        systems = Counter(request.system for request in requests)
        user = sum(self.estimator.user_tokens(self.judge, request) for request in requests)
        system = sum(self.estimator.tokens(text) * n for text, n in systems.items())
        once = sum(self.estimator.tokens(text) for text in systems)
        output, longest = tokens * len(requests), float(self.judge.max_tokens * len(requests))
        price = self.judge.price
        return Forecast(
            model=price.model, requests=len(requests), answered=answered,
            system_tokens=round(system), user_tokens=round(user), output_tokens=round(output),
            usd_all_hits=self._usd(user, output, written=once, read=system - once),
            usd_no_cache=self._usd(user + system, output),
            usd_no_hits=self._worst(user, system, output),
            usd_at_most=self._worst(user, system, longest),
            counted=self.estimator.how, assumed=assumed,
            priced=f"{price.source}, {price.date}".strip(", "),
        )  # fmt: skip

    def _worst(self, user: float, system: float, output: float) -> float:
        """Without a hit: what caching costs then, or its absence where that is dearer."""
        return max(self._usd(user, output, written=system), self._usd(user + system, output))

    def _usd(self, plain: float, output: float, *, written: float = 0, read: float = 0) -> float:
        usage = {
            "input_tokens": round(plain),
            "output_tokens": round(output),
            "cache_creation_input_tokens": round(written),
            "cache_read_input_tokens": round(read),
        }
        return self.judge.price.usd(usage, batch=isinstance(self.judge, BatchJudge))


def booked(ledger: Ledger, run: str) -> float:
    """US dollars that a run has spent, with the forecast of what does not say what it cost."""
    return ledger.spent(run) + ledger.usd_unknown(run)


def refuse_above_cap(forecasts: Mapping[str, Forecast], cap_usd: float, spent: float = 0.0) -> None:
    """Raise when what was spent and what is forecast, by what it pays for, exceed a cap."""
    total = sum(forecast.usd_no_hits for forecast in forecasts.values())
    if spent + total <= cap_usd:
        return
    parts = " and ".join(
        f"{name} {dollars(each.usd_no_hits)} ({each.requests} requests to {each.model}; "
        f"{each.counted}; {each.assumed})".lstrip()
        for name, each in forecasts.items()
    )
    already = f"{dollars(spent)} are spent or under way and " if spent else ""
    raise CostError(
        f"{already}{dollars(total)} are forecast without prompt-cache hits, more than max_cost_usd "
        f"{cap_usd:g}; nothing was sent: {parts}"
    )


def refuse_without_cap(judges: Iterable[PaidJudge], cap_usd: float) -> None:
    """Raise when one of these judges must be paid and there is no cap."""
    paid = dict.fromkeys(judge.model for judge in judges if not judge.price.free)
    if paid and not cap_usd:
        raise DataError(
            f"{' and '.join(paid)} must be paid: set max_cost_usd, the cost limit of the run (see "
            "`arena-kit cost`)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What answers cost, and what the prompt cache did.

    `hit_rate` is the share of cacheable prompt tokens that were read rather than written;
    None when nothing was cacheable. `usd_saved_by_prompt_cache` is negative when caching
    cost more than it saved. `usd_unknown` is the forecast of what does not say what it cost.
    """

    answers: int
    usd: float
    input_tokens: int
    output_tokens: int
    thinking_tokens: int
    written_tokens: int
    read_tokens: int
    usd_saved_by_prompt_cache: float
    usd_unknown: float = 0.0

    @classmethod
    def of(
        cls, answers: Iterable[Answer], price: Price, *, batch: bool, usd_unknown: float = 0.0
    ) -> Spending:
        """What these answers cost, priced in a batch or live."""
        paid = list(answers)
        uncached = sum(price.usd_uncached(answer.usage, batch=batch) for answer in paid)
        spent = sum(answer.cost_usd for answer in paid)
        total = sum((Counter(answer.usage) for answer in paid), Counter[str]())
        return cls(
            answers=len(paid),
            usd=spent,
            input_tokens=total["input_tokens"],
            output_tokens=total["output_tokens"],
            thinking_tokens=total["thinking_tokens"],
            written_tokens=total["cache_creation_input_tokens"],
            read_tokens=total["cache_read_input_tokens"],
            usd_saved_by_prompt_cache=uncached - spent,
            usd_unknown=usd_unknown,
        )

    @property
    def hit_rate(self) -> float | None:
        cacheable = self.written_tokens + self.read_tokens
        return self.read_tokens / cacheable if cacheable else None

    @property
    def warning(self) -> str:
        """A sentence when caching did not pay; empty when it did."""
        if not self.answers:
            return ""
        if self.usd_saved_by_prompt_cache < 0:
            return (
                f"Prompt caching cost ${-self.usd_saved_by_prompt_cache:.2f} more than it saved: "
                f"{self.hit_rate or 0:.0%} of the cacheable tokens were hits."
            )
        return _NOT_CACHED if self.hit_rate is None else ""

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "hit_rate": self.hit_rate}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prewarm:
    """What was sent ahead and filled the prompt cache, and what reading it saved the other answers:
    tokens read, times the difference between the prices of plain and of cached input.
    """

    what: str
    sent: Spending
    read_tokens: int
    usd_saved: float

    @property
    def words(self) -> str:
        wrote = f"{self.sent.answers} {self.what} wrote {self.sent.written_tokens:,} tokens"
        read = f"the other answers read {self.read_tokens:,}"
        paid, saved = dollars(self.sent.usd), dollars(self.usd_saved)
        return f"{wrote} to the prompt cache, for {paid}; {read}, which saved {saved}"


def dollars(usd: float) -> str:
    """An amount with enough digits to be more than zero."""
    return f"${usd:,.2f}" if usd >= 0.1 or not usd else f"${usd:.4f}"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _user_size(request: Asked) -> int:
    """Bytes of the user's text; an SVG is sent as its source."""
    vectors = (each for each in pictures_of(request) if each.name.endswith(".svg"))
    return _size(request.user) + sum(len(picture_bytes(*each)) for each in vectors)


def _image_tokens(judge: PaidJudge, request: Asked) -> int:
    images = (each for each in pictures_of(request) if not each.name.endswith(".svg"))
    return sum(picture_tokens(each.source, judge.image_edge) for each in images)
