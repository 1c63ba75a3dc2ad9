"""What a run will cost, what it may cost, and what it did cost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from arena_kit.judging.judges.base import BatchJudge, PaidJudge, ServiceError
from arena_kit.judging.judges.prices import Price
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.verdicts.records import Answer, Asked

_BYTES_PER_TOKEN = 3.0
#: Requests whose tokens the service is asked to count.
_SAMPLE = 20
#: Earlier answers from which their mean length says more than the expected one.
_ENOUGH_ANSWERS = 20
_NOT_CACHED = "Nothing was cached: the rubric may be shorter than the model's minimum prefix."


class CostError(RuntimeError):
    """A run that would cost more than it may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """Tokens of a request from its length; `how` says where the ratio comes from."""

    tokens_per_byte: float
    how: str

    @classmethod
    def local(cls) -> Estimator:
        how = f"local estimate, {_BYTES_PER_TOKEN:g} bytes a token"
        return cls(tokens_per_byte=1 / _BYTES_PER_TOKEN, how=how)

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
            return cls.local()
        tokens = sum(n for n in counts if n is not None)
        if None in counts or not tokens:
            return cls.local()
        n_bytes = sum(_size(request.system) + _size(request.user) for request in sample)
        how = f"count_tokens on {len(sample)} of the requests, scaled by length"
        return cls(tokens_per_byte=tokens / max(1, n_bytes), how=how)

    def tokens(self, text: str) -> float:
        return _size(text) * self.tokens_per_byte


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecaster:
    """Turns requests into tokens and dollars.

    `output_tokens` is what an answer is expected to have, thinking included; `assumed`
    says why.
    """

    price: Price
    batch: bool
    estimator: Estimator
    output_tokens: float
    longest: int
    assumed: str

    @classmethod
    def of(
        cls, judge: PaidJudge, ledger: Ledger, estimator: Estimator, *, purpose: str, expected: int
    ) -> Forecaster:
        """With `expected` output tokens an answer, until enough answers say better."""
        tokens, assumed = float(expected), f"{expected} output tokens an answer assumed"
        n, mean = ledger.output_tokens(judge, purpose)
        if n >= _ENOUGH_ANSWERS:
            tokens, assumed = mean, f"{mean:.0f} output tokens an answer, the mean of {n} earlier"
        return cls(
            price=judge.price,
            batch=isinstance(judge, BatchJudge),
            estimator=estimator,
            output_tokens=tokens,
            longest=judge.max_tokens,
            assumed=assumed,
        )

    def __call__(self, requests: Collection[Asked], *, answered: int = 0) -> Forecast:
        systems: dict[str, int] = {}
        user = 0.0
        for request in requests:
            systems[request.system] = systems.get(request.system, 0) + 1
            user += self.estimator.tokens(request.user)
        system = sum(self.estimator.tokens(text) * n for text, n in systems.items())
        once = sum(self.estimator.tokens(text) for text in systems)
        output = self.output_tokens * len(requests)
        return Forecast(
            model=self.price.model,
            requests=len(requests),
            answered=answered,
            system_tokens=round(system),
            user_tokens=round(user),
            output_tokens=round(output),
            usd_all_hits=self._usd(user, output, written=once, read=system - once),
            usd_no_cache=self._usd(user + system, output),
            usd_no_hits=self._worst(user, system, output),
            usd_at_most=self._worst(user, system, float(self.longest * len(requests))),
            counted=self.estimator.how,
            assumed=self.assumed,
            priced=f"{self.price.source}, {self.price.date}".strip(", "),
        )

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
        return self.price.usd(usage, batch=self.batch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A cap in dollars on what a run may cost; `allow` is asked before anything is sent.

    `forecaster` is made anew each time, for it learns from the answers that have come.
    """

    cap_usd: float
    forecaster: Callable[[], Forecaster]
    ledger: Ledger
    run: str

    def allow(self, requests: Collection[Asked]) -> None:
        """Raise when what was spent, what is under way and what these requests may cost exceed
        the cap.
        """
        forecast = self.forecaster()(requests)
        each = forecast.usd_no_hits / max(1, forecast.requests)
        booked = self.ledger.spent(self.run) + self.ledger.usd_unknown(self.run)
        spent = booked + each * self.ledger.under_way(self.run)
        if requests and spent + forecast.usd_no_hits > self.cap_usd:
            already = f"{dollars(spent)} are spent or under way and " if spent else ""
            raise CostError(
                f"{already}{forecast.requests} requests to {forecast.model} are forecast at "
                f"{dollars(forecast.usd_no_hits)} without prompt-cache hits, more than "
                f"max_cost_usd {self.cap_usd:g} allows; nothing of it was sent "
                f"({forecast.counted}; {forecast.assumed})"
            )

    def forecast(self, requests: Collection[Asked]) -> list[float]:
        """What each of these requests may cost, without a prompt-cache hit."""
        forecaster = self.forecaster()
        return [forecaster([request]).usd_no_hits for request in requests]


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

        def total(name: str) -> int:
            return sum(answer.usage.get(name, 0) for answer in paid)

        uncached = sum(price.usd_uncached(answer.usage, batch=batch) for answer in paid)
        spent = sum(answer.cost_usd for answer in paid)
        return cls(
            answers=len(paid),
            usd=spent,
            input_tokens=total("input_tokens"),
            output_tokens=total("output_tokens"),
            thinking_tokens=total("thinking_tokens"),
            written_tokens=total("cache_creation_input_tokens"),
            read_tokens=total("cache_read_input_tokens"),
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


def dollars(usd: float) -> str:
    """An amount with enough digits to be more than zero."""
    return f"${usd:,.2f}" if usd >= 0.1 or not usd else f"${usd:.4f}"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
