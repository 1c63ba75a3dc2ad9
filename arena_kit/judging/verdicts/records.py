"""The records of judging: what is asked, what comes back, and what it settles.

A run creates hundreds of thousands of them, so garbage collection can be made rare meanwhile, and
they are named tuples, which are made faster than frozen dataclasses.
"""

import gc
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import NamedTuple, Protocol

from pydantic_core import to_json

from arena_kit.battles.display import html_table
from arena_kit.judging.pairs.prompts import Pair

#: What a verdict may say, and what a graded one may.
PLAIN_LABELS = ("A", "B", "tie")
GRADED_LABELS = ("A>>B", "A>B", "A=B", "B>A", "B>>A")


def verdict_schema(*, graded: bool) -> dict[str, object]:
    """The JSON schema of a verdict, for judges that can be held to one."""
    labels = GRADED_LABELS if graded else PLAIN_LABELS
    return {
        "type": "object",
        "properties": {
            "justification": {"type": "string"},
            "winner": {"type": "string", "enum": list(labels)},
        },
        "required": ["justification", "winner"],
        "additionalProperties": False,
    }


#: The repetition of a request that a run asks twice, to see whether the answer is the same.
REPEAT = -1

_FORMATS = {
    graded: hashlib.sha256(json.dumps(verdict_schema(graded=graded)).encode()).hexdigest()
    for graded in (False, True)
}


class Status(StrEnum):
    """How one presentation ended; only `OK` carries an answer."""

    OK = "ok"
    REFUSED = "refused"
    TRUNCATED = "truncated"
    UNPARSABLE = "unparsable"
    ERRORED = "errored"
    EXPIRED = "expired"
    CANCELED = "canceled"
    MISSING = "missing"


class Slot(StrEnum):
    """What a verdict names: the response shown first, the one shown second, or neither."""

    A = "A"
    B = "B"
    TIE = "tie"


class Margin(StrEnum):
    """By how much a graded verdict puts one response above the other."""

    MUCH = "much better"
    BETTER = "better"
    NONE = "tie"


#: Fields of a verdict that stand in its line as they are.
_KEPT_AS_THEY_ARE = (
    "justification raw_text judge_model served_model usage cost_usd attempt detail".split()
)


class Settlement(StrEnum):
    """What the presentations of a pair add up to; `ONE_ORDER`: only one was asked, and answered."""

    WINNER = "winner"
    TIE = "tie"
    ONE_ORDER = "one_order"
    INCONSISTENT = "inconsistent"
    INCOMPLETE = "incomplete"


class Presentation(NamedTuple):
    """A pair in one order: `first` stands in slot A."""

    pair: Pair
    first: str
    second: str

    @property
    def request_id(self) -> str:
        return f"{self.pair.dimension}|{self.pair.prompt_id}|{self.first}|{self.second}"


class Picture(NamedTuple):
    """An image that is shown: its name, and its file or bytes."""

    name: str
    source: Path | bytes


class Asked(Protocol):
    """A text put to a model, by a judge or for an entrant, with the images that stand in it.

    `request_id` names it to people; `identity` is what belongs to its cache key beside
    the texts, as JSON; `seed` goes to servers that take one. `pieces` are `user` and its images,
    in order.
    """

    @property
    def request_id(self) -> str: ...

    @property
    def prompt_id(self) -> str: ...

    @property
    def system(self) -> str: ...

    @property
    def user(self) -> str: ...

    @property
    def seed(self) -> int | None: ...

    @property
    def pieces(self) -> Sequence[str | Picture]: ...

    @property
    def identity(self) -> bytes: ...


class JudgeRequest(NamedTuple):
    """A rendered presentation: everything a judge may see is in `system`, `user` and `images`.

    `presentation` identifies the request to our side only; `boundary` fences the texts
    in `user`. `attempt` counts re-asks after an answer that could not be read, and
    `repetition` is `REPEAT` where a request is asked again on purpose, which an earlier answer
    must not save. `graded` asks by how much the better response is better, too.
    """

    presentation: Presentation
    system: str
    user: str
    boundary: str
    attempt: int = 1
    repetition: int = 0
    graded: bool = False
    images: tuple[Picture, ...] = ()
    seed: int | None = None

    @property
    def request_id(self) -> str:
        again = f"@{self.repetition}" if self.repetition else ""
        return f"{self.presentation.request_id}#{self.attempt}{again}"

    @property
    def prompt_id(self) -> str:
        return self.presentation.pair.prompt_id

    @property
    def pieces(self) -> list[str | Picture]:
        """`user` in pieces, each image after the line that announces it."""
        if not self.images:
            return [self.user]
        line = rf"^\[turn \d+: image \d+ {self.boundary}\]\n"
        found = re.finditer(line, self.user, re.MULTILINE)
        ends = [0, *(each.end() for each in found), len(self.user)]
        texts = [self.user[start:end] for start, end in pairwise(ends)]
        shown = [piece for two in zip_longest(texts, self.images) for piece in two]
        return [piece for piece in shown if piece]

    @property
    def identity(self) -> bytes:
        shown = self.presentation
        swapped = shown.first != shown.pair.entrant_a
        images = tuple(image.name for image in self.images)
        return _identity(swapped, self.graded, self.attempt, self.repetition, images)


@lru_cache(maxsize=64)  # few differ
def _identity(
    swapped: bool, graded: bool, attempt: int, repetition: int, images: tuple[str, ...]
) -> bytes:
    identity: dict[str, object] = {"position": int(swapped), "format": _FORMATS[graded]}
    more = {"look": repetition, "images": images}
    return to_json(identity | {"attempt": attempt} | {n: v for n, v in more.items() if v})


class Answer(NamedTuple):
    """What a judge returned for one request, unparsed.

    `status` is OK for any text that arrived whole, readable or not; `detail` says why it
    is anything else. `cost_usd` is what this answer cost when it was made, and `run` the
    run that paid for it.
    """

    request_id: str
    status: Status
    text: str = ""
    served_model: str = ""
    usage: Mapping[str, int] = {}
    cost_usd: float = 0.0
    detail: str = ""
    run: str = ""


class Verdict(NamedTuple):
    """One judge's answer to one presentation, read; `margin` is a graded one's, else None."""

    presentation: Presentation
    status: Status
    winner: Slot | None = None
    margin: Margin | None = None
    justification: str = ""
    raw_text: str = ""
    judge_model: str = ""
    served_model: str = ""
    usage: Mapping[str, int] = {}
    cost_usd: float = 0.0
    cached: bool = False
    attempt: int = 1
    detail: str = ""

    @property
    def winning_entrant(self) -> str | None:
        """The entrant named, or None for a tie and for a verdict without an answer."""
        if self.winner is Slot.A:
            return self.presentation.first
        return self.presentation.second if self.winner is Slot.B else None

    @property
    def other_model(self) -> str:
        """The model that answered where it is not the one that was asked; empty where it is. A
        dated name of the one that was asked is the same model.
        """
        dated = rf"{re.escape(self.judge_model)}(-\d{{8}})?"
        return "" if re.fullmatch(dated, self.served_model) else self.served_model

    def as_row(self) -> dict[str, object]:
        """The verdict as a line of `verdicts/<dimension>.jsonl`."""
        pair = self.presentation.pair
        return {
            "dimension": pair.dimension,
            "prompt_id": pair.prompt_id,
            "first": self.presentation.first,
            "second": self.presentation.second,
            "status": str(self.status),
            "winner": self.winner and str(self.winner),
            "winning_entrant": self.winning_entrant,
            **({"margin": str(self.margin)} if self.margin else {}),
            **{name: getattr(self, name) for name in _KEPT_AS_THEY_ARE},
        }


class Judgment(NamedTuple):
    """The orders of a pair, settled; `forward` showed `pair.entrant_a` first. None: not asked."""

    pair: Pair
    settlement: Settlement
    winner: str | None
    forward: Verdict | None
    backward: Verdict | None

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Those of the orders that were asked."""
        return tuple(verdict for verdict in (self.forward, self.backward) if verdict)

    def _repr_html_(self) -> str:
        """The verdicts, and what they add up to."""
        rows = [
            {
                "first": verdict.presentation.first,
                "second": verdict.presentation.second,
                "status": str(verdict.status),
                "better": verdict.winning_entrant or verdict.winner,
                "justification": verdict.justification or verdict.detail,
            }
            for verdict in self.verdicts
        ]
        outcome = f"{self.winner} wins" if self.winner else str(self.settlement)
        title = f"{self.pair.dimension}, prompt {self.pair.prompt_id}: {outcome}"
        return html_table(rows, title=title)


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Collect garbage rarely while many long-lived records are held: each full collection would
    look at all of them. What is short-lived is still collected.
    """
    before = gc.get_threshold()
    gc.set_threshold(200_000, 20, 1000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
