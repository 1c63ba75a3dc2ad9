"""What a judge is: it answers at once, over the network while one waits, or in batches later.

Also what passes between a judge and those who ask it: batches, results, errors, and the key
under which an answer is cached. Rendering, parsing and settling are the same for every judge.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import ssl
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import nan
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from arena_kit.battles.content import picture_bytes, scaled
from arena_kit.files import ArenaError, visible, whole_text
from arena_kit.judging.verdicts.records import Answer, Asked, JudgeRequest, Picture, Status

if TYPE_CHECKING:
    import httpx2

#: Part of every cache key: another number and no answer is found again.
_KEY_VERSION = 2

#: The longest edge of an image that services look at as it is, in pixels.
IMAGE_EDGE = 1568
#: No answer has more tokens: a larger number is a mistake.
_MOST_TOKENS = 10**12

_MONEY = re.compile(
    r"credit balance|usage limits|spend(ing)?[ _]limit|billing|insufficient_quota|\bcredits?\b",
    re.IGNORECASE,
)

#: How a verdict's shape is asked for: `auto` tries the schema and goes on without it where
#: the server refuses it; `grammar` is llama.cpp's own field.
Structured = Literal["auto", "json_schema", "grammar", "none"]


class Judge(Protocol):
    """Who answers. `model` is the id recorded with every verdict; `settings` is everything
    else that could change an answer and therefore belongs to the cache key.
    """

    @property
    def model(self) -> str: ...

    @property
    def settings(self) -> Mapping[str, object]: ...


class ImmediateJudge(Judge, Protocol):
    """Answers in this process and costs nothing."""

    def answer(self, request: JudgeRequest) -> Answer | None:
        """The answer to one request, None for none at all."""


@runtime_checkable
class PaidJudge(Judge, Protocol):
    """A judge behind a service that is paid by the token."""

    @property
    def service(self) -> Service: ...

    @property
    def price(self) -> Price: ...

    @property
    def max_tokens(self) -> int: ...

    @property
    def image_edge(self) -> int:
        """The longest edge of an image in pixels: larger ones are scaled down; 0 scales none."""

    def at(self, address: str) -> PaidJudge:
        """The same judge at another address."""

    def ready(self) -> None:
        """Raise when the judge cannot be asked at all, for want of a key."""

    def check(self, requests: Sequence[Asked]) -> list[str]:
        """Raise for what the service would refuse, before anything is spent; returns
        warnings.
        """

    def count_tokens(self, request: Asked) -> int | None:
        """Input tokens as the service counts them; None where it cannot be asked."""


@runtime_checkable
class LiveJudge(PaidJudge, Protocol):
    """Answers over the network while one waits; `concurrency` calls may be under way."""

    @property
    def concurrency(self) -> int: ...

    def ask(self, request: Asked) -> Result:
        """One call, never repeated by itself; called from several threads."""


@runtime_checkable
class BatchJudge(PaidJudge, Protocol):
    """Takes batches that go on without this process; asked again by the batch's id."""

    def split(self, entries: Mapping[str, Asked]) -> Iterator[dict[str, Asked]]:
        """The requests in groups that fit into one batch each."""

    def submit(self, entries: Mapping[str, Asked]) -> Batch:
        """Create one batch, with a single call that is never repeated by itself."""

    def poll(self, batch_id: str) -> Batch:
        """How far a batch is."""

    def collect(self, batch: Batch) -> Iterator[Result]:
        """The results in any order, as they stream in."""

    def recent(self) -> Iterator[Batch]:
        """All batches of the account, newest first."""

    def cancel(self, batch_id: str) -> Batch:
        """Ask the service to stop a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million tokens of one model; a batch costs `batch_factor` of it.

    `write` is for tokens written into the prompt cache for an hour (`write_5m` for five
    minutes), `read` for those read from it. `source` and `date` say where the figures
    come from and when.
    """

    model: str
    input: float
    output: float
    write: float = 0.0
    write_5m: float = 0.0
    read: float = 0.0
    batch_factor: float = 1.0
    source: str = ""
    date: str = ""

    def usd(self, usage: Mapping[str, int], *, batch: bool) -> float:
        """What this usage costs."""
        tokens = usage.get
        written = tokens("cache_creation_input_tokens", 0)
        short = min(tokens("ephemeral_5m_input_tokens", 0), written)
        total = (
            tokens("input_tokens", 0) * self.input
            + tokens("output_tokens", 0) * self.output
            + tokens("cache_read_input_tokens", 0) * self.read
            + (written - short) * self.write
            + short * self.write_5m
        )
        return total * (self.batch_factor if batch else 1.0) / 1_000_000

    def usd_uncached(self, usage: Mapping[str, int], *, batch: bool) -> float:
        """What this usage would have cost without the prompt cache."""
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        plain = {
            "input_tokens": sum(usage.get(name, 0) for name in names),
            "output_tokens": usage.get("output_tokens", 0),
        }
        return self.usd(plain, batch=batch)

    def usd_saved(self, read_tokens: int, *, batch: bool) -> float:
        """What tokens cost less that are read from the prompt cache."""
        factor = self.batch_factor if batch else 1.0
        return read_tokens * (self.input - self.read) * factor / 1_000_000

    @property
    def free(self) -> bool:
        return not (self.input or self.output)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Where requests go and on whose account; `account` is a fingerprint, never the key."""

    origin: str
    account: str

    @classmethod
    def of(cls, address: str, key: str | None) -> Service:
        """The service at an address, on the account of a key."""
        digest = hashlib.sha256(f"arena_kit account {key or ''}".encode()).hexdigest()
        return cls(origin=address.rstrip("/").lower(), account=digest[:12])


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch as the service describes it; times are RFC 3339 texts."""

    batch_id: str
    n_requests: int
    created_at: str
    expires_at: str = ""
    status: str = "in_progress"
    counts: Mapping[str, int] = field(default_factory=dict)
    results_url: str | None = None

    @property
    def ended(self) -> bool:
        return self.status == "ended"


class Result(NamedTuple):
    """One answer as it arrived, and what follows from it.

    `name` is the custom id in a batch, `line` the raw text of the result. `billed` marks
    what was or may have been paid for: it is final and never asked again. Otherwise
    `again` says whether asking once more can help, and `pause` is a sentence for the user
    where only the user can (credit, spend limit). `no_answer` marks a reply that is none, and
    `busy` has the seconds that a busy service wishes for before the next call.
    `usd_unknown` is what a result may have cost that does not say so, by forecast.
    """

    answer: Answer
    name: str = ""
    line: str = ""
    billed: bool = True
    again: bool = False
    pause: str = ""
    no_answer: bool = False
    busy: float | None = None
    usd_unknown: float = 0.0

    def without(self, secret: str | None) -> Result:
        """The same without the key, where the service repeats it: what is kept holds none."""
        answer = self.answer
        texts = (self.line, self.pause, answer.text, answer.detail, answer.served_model)
        if not secret or secret not in "\0".join(texts):
            return self
        line, pause, text, detail, served_model = (each.replace(secret, "[key]") for each in texts)
        if secret in answer.text and secret not in self.line:  # it stands there in JSON's escapes
            line = ""
        kept = answer._replace(text=text, detail=detail, served_model=served_model)
        return self._replace(answer=kept, line=line, pause=pause)

    @property
    def unpriced(self) -> bool:
        """Whether it may have cost something and does not say how much."""
        answer = self.answer
        return (self.billed and not answer.usage) or answer.status is Status.MISSING


class ServiceError(ArenaError, RuntimeError):
    """The service cannot be used as things are; the message says what to do, and what it quotes
    of a server steers no terminal.
    """

    def __init__(self, message: str) -> None:
        super().__init__(visible(message))


class PausedError(ServiceError):
    """Only the user can help: credit, a spend limit, a batch that the account does not have."""


class BusyError(ServiceError):
    """Certainly not done and worth another try, after `wait` seconds where that is known."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class UnsureError(ServiceError):
    """It may or may not have been done: the connection ended before the answer came."""


class NoAnswerError(UnsureError):
    """A reply that is no answer, such as a page of something in between; `line` is all of it."""

    def __init__(self, what: str, line: str, secret: str | None = None) -> None:
        super().__init__(f"{what}: {shortened(scrubbed(line, secret))!r} is no answer")
        self.line = line.replace(secret, "[key]") if secret else line


class UnknownBatchError(ServiceError):
    """The service does not know a batch, or not yet."""


class CutError(BusyError):
    """A stream of results that broke off; it can be opened again."""


def scrubbed(text: str, secret: str | None) -> str:
    """A server's words, cut to length and without the key that it may have echoed."""
    return (text.replace(secret, "[key]") if secret else text)[:300]


def about_money(text: str) -> bool:
    """Whether an error is about credit or a spend limit, whatever its type says."""
    return _MONEY.search(text) is not None


def paused(reason: str) -> str:
    """What only the user can mend, in a sentence."""
    reason = reason.strip().rstrip(".") or "a spend limit was reached"
    return f"paused, nothing is marked as failed: {reason}; then run again"


def status_error(
    response: httpx2.Response, what: str, message: str, unsure: Collection[int] | None
) -> ServiceError:
    """A refusal by a status, in our terms.

    `unsure` lists the statuses after which an effect may exist (None: the call has none). A
    redirect is never followed, for prompts go only to the address that the user named: after 307
    and 308 the request was not taken, after the others its effect may exist.
    """
    status = response.status_code
    if response.has_redirect_location:
        kind = UnsureError if unsure is not None and status not in (307, 308) else ServiceError
        return kind(
            f"{what}: the service redirects to {message} ({status}); nothing was sent there"
        )
    if status == 402 or (status < 500 and about_money(response.text)):
        return PausedError(paused(message))
    if status in (401, 403):
        return ServiceError(f"{what}: the service refuses the key ({status}): {message}")
    if unsure is not None and status in unsure:
        return UnsureError(f"{what}: status {status}")
    if status in (408, 409, 429) or status >= 500:
        return BusyError(f"{what}: status {status}: {message}", _retry_after(response))
    return ServiceError(f"{what}: refused ({status}): {message}")


def _retry_after(response: httpx2.Response) -> float | None:
    try:
        return max(0.0, float(response.headers.get("retry-after", "")))
    except ValueError:
        return None


def shortened(text: str) -> str:
    """The beginning of a server's words on one line, control characters replaced."""
    printable = "".join(c if c.isprintable() else " " for c in text[:480])
    words = " ".join(printable.split())
    return words if len(words) <= 120 else f"{words[:120]}…"


def parsed_json(text: str | bytes) -> Any:
    """A reply as JSON; a number with more digits than any amount has is no number (NaN)."""
    return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < 100 else nan)


def token_counts(numbers: Mapping[str, Any]) -> dict[str, int]:
    """Numbers of tokens by name, out of a usage object; a ValueError where one is no whole number
    from 0 on, such as text, NaN or infinity.
    """
    whole = {n: int(v) if type(v) is float and v.is_integer() else v for n, v in numbers.items()}
    for number in whole.values():
        if type(number) is not int or not 0 <= number <= _MOST_TOKENS:
            raise ValueError(f"{str(number)[:40]!r} is no number of tokens")
    return whole


def answer_of(
    name: str, status: Status, text: str, row: Mapping[str, Any], *, usage: Mapping[str, int],
    usd: float, detail: str,
) -> Answer:  # fmt: skip
    """An answer out of a service's reply; what it says at length or in lone surrogates is cut."""
    served = whole_text(str(row.get("model", ""))[:200])
    return Answer(name, status, text, served, usage, usd, whole_text(detail[:500]))


def image_part(
    piece: str | Picture, edge: int, shape: Callable[[str, str], dict[str, Any]]
) -> dict[str, Any]:
    """A piece of a request as a part of a message; an SVG, which no service takes, is source."""
    if isinstance(piece, str):
        return {"type": "text", "text": piece}
    if piece.name.endswith(".svg"):
        source = picture_bytes(*piece).decode("utf-8", "replace")
        return {"type": "text", "text": f"{source}\n"}
    media_type, content = scaled(*piece, edge)
    return shape(media_type, base64.b64encode(content).decode())


def pictures_of(request: Asked) -> list[Picture]:
    """The images of a request."""
    return [piece for piece in request.pieces if isinstance(piece, Picture)]


def refuse_unseen(judge: Judge, shown: int, what: str) -> None:
    """Raise where a judge that cannot see images would be shown some."""
    if shown and not getattr(judge, "sees", True):
        raise ServiceError(
            f"{judge.model} does not see images, which {shown} {what} show; nothing was sent. Take "
            "a judge that does (judge.openai_compatible.sees: true says that a server's model does)"
        )


def first_of_each(requests: Iterable[Asked]) -> list[Asked]:
    """The first request of each system text."""
    by_system: dict[str, Asked] = {}
    for request in requests:
        by_system.setdefault(request.system, request)
    return list(by_system.values())


def cache_keys(judge: Judge, requests: Iterable[Asked]) -> list[str]:
    """A hash for each request of everything that could change its answer."""
    shared = {"schema": _KEY_VERSION, "model": judge.model, "settings": dict(judge.settings)}
    head = json.dumps(shared, sort_keys=True, allow_nan=False).encode()
    return [_key(head, request) for request in requests]


def settings_digest(judge: Judge) -> str:
    """A short hash of a judge's settings, to tell answers made under others apart."""
    settings = json.dumps(dict(judge.settings), sort_keys=True)
    return hashlib.sha256(settings.encode()).hexdigest()[:16]


def _key(head: bytes, request: Asked) -> str:
    user = request.user.encode("utf-8", "surrogatepass")
    parts = (head, request.identity, _digest(request.system), user)
    return hashlib.sha256(b"\n".join(parts)).hexdigest()


@lru_cache(maxsize=64)
def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def tls_context() -> ssl.SSLContext:
    """What verifies certificates, as httpx makes it: once a process, for reading all certificates
    takes longer than many a call; anew where the variables that name certificates have changed.
    """
    return _tls_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=1)
def _tls_context(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    import httpx2

    return httpx2.create_ssl_context()
