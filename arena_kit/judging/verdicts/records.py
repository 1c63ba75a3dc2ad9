"""The records of judging: what is asked, what comes back, and what it settles.

A run creates hundreds of thousands of them, so garbage collection can be made rare meanwhile, and
they are named tuples, which are made faster than frozen dataclasses.
"""

import gc
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import NamedTuple, Protocol

from pydantic_core import to_json

from arena_kit.battles.battle import Battle, Outcome, Source
from arena_kit.battles.display import html_table
from arena_kit.battles.log import BattleLog
from arena_kit.files import whole_text
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


_LONGEST = 200_000
_TAIL = 3_000
_LONGEST_LINE = 300
#: Lines that begin with a brace and are tried as JSON, the last of them.
_MOST_OBJECTS = 50

#: What a label names; C is the third choice of three.
_PLAIN: dict[str, tuple[Slot, Margin | None]] = {
    "A": (Slot.A, None), "B": (Slot.B, None), "C": (Slot.TIE, None), "TIE": (Slot.TIE, None)
}  # fmt: skip
_GRADED: dict[str, tuple[Slot, Margin | None]] = {
    "A>>B": (Slot.A, Margin.MUCH),
    "A>B": (Slot.A, Margin.BETTER),
    "A=B": (Slot.TIE, Margin.NONE),
    "B>A": (Slot.B, Margin.BETTER),
    "B>>A": (Slot.B, Margin.MUCH),
}
_LABEL = r"(?P<label>A\s*>\s*>\s*B|A\s*[>=]\s*B|B\s*>\s*>\s*A|B\s*>\s*A|A|B|C|tie)"
_VALUE = re.compile(rf"[\s\[(]*(?:(?:response|assistant)[\s_]*)?{_LABEL}[\s\])]*", re.IGNORECASE)
_MARK = re.compile(rf"\[\[\s*{_LABEL}\s*\]\]", re.IGNORECASE)
_LINE = re.compile(rf"^[ \t*]*winner[*]*:[ \t*]*{_LABEL}[ \t*.]*$", re.IGNORECASE | re.MULTILINE)
_LAST_MARK = re.compile(rf"(?:^|[.:!*)]|\bis)[ \t*]*{_MARK.pattern}[ \t*.]*$", re.IGNORECASE)
_BRACE = re.compile(r"^[ \t]*\{", re.MULTILINE)
_FENCE = " \t\r\n`"
_LINE_END = re.compile(r"[ \t]*(?:\n|$)")


class Reading(NamedTuple):
    """What was read from a text; `winner` None means that no verdict could be. `margin` is that
    of a graded verdict.
    """

    winner: Slot | None
    justification: str = ""
    margin: Margin | None = None


def read_verdict(text: str, *, graded: bool = False) -> Reading:
    """The verdict in a judge's text, none where it is absent or where two are named.

    A verdict is a JSON object with a `winner` on lines of its own that ends the text, a label in
    double brackets that ends the last line, or `Winner: A` as the last line. Where it should be
    `graded`, a label says by how much, too; one that does not is none.
    """
    text = text[-_LONGEST:]
    objects, rest, after = _objects(text)
    labels = [_label(each["winner"]) for each in objects]
    marks = [*_MARK.finditer(rest), *_LINE.finditer(rest)] if rest else []
    ends = bool(objects and not after.strip(_FENCE)) or _ends_in_verdict(rest)
    labels = [*labels, *(_normal(mark["label"]) for mark in marks)] if ends else []
    justification = str(objects[-1].get("justification", "")) if objects else text.strip()[-_TAIL:]
    named = {(_GRADED if graded else _PLAIN).get(label) for label in labels}
    winner, margin = (named.pop() if len(named) == 1 else None) or (None, None)
    return Reading(winner=winner, justification=justification, margin=margin)


def _label(value: object) -> str:
    """The label that a whole value is, empty where it is none."""
    match = _VALUE.fullmatch(value) if isinstance(value, str) else None
    return _normal(match["label"]) if match else ""


def _normal(label: str) -> str:
    return "".join(label.upper().split())


def _ends_in_verdict(text: str) -> bool:
    """Whether the last line, that of a closing code fence apart, is or ends in a verdict."""
    last = text.rstrip(_FENCE).rpartition("\n")[2][-_LONGEST_LINE:]
    return bool(_LINE.search(last) or _LAST_MARK.search(last))


def _objects(text: str) -> tuple[list[dict[str, object]], str, str]:
    """The JSON objects with a winner that stand on lines of their own, the text without them, and
    what follows the last; objects inside others do not count.
    """
    decoder = json.JSONDecoder()
    objects: list[dict[str, object]] = []
    kept, end = "", 0
    for start in [match.end() - 1 for match in _BRACE.finditer(text)][-_MOST_OBJECTS:]:
        if start < end:
            continue
        try:
            value, stop = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and "winner" in value and _LINE_END.match(text, stop):
            objects.append(value)
            kept, end = kept + text[end:start], stop
    return objects, kept + text[end:], text[end:]


def presentations(pair: Pair) -> tuple[Presentation, Presentation]:
    """A pair in both orders."""
    a, b = pair.entrants
    return Presentation(pair, a, b), Presentation(pair, b, a)


def verdict_of(
    request: JudgeRequest,
    answer: Answer | None,
    *,
    judge_model: str,
    cached: bool = False,
) -> Verdict:
    """Read an answer; one that is absent or unreadable gets a status, never a winner."""
    if answer is None:
        shown, nothing = request.presentation, "the judge returned no answer"
        return Verdict(shown, Status.MISSING, judge_model=judge_model, detail=nothing)
    text, status = whole_text(answer.text), answer.status
    reading = Reading(winner=None)
    if status is Status.OK:
        reading = read_verdict(text, graded=request.graded)
        status = Status.OK if reading.winner else Status.UNPARSABLE
    return Verdict(
        request.presentation, status, reading.winner, reading.margin,
        justification=whole_text(reading.justification), raw_text=text, judge_model=judge_model,
        served_model=answer.served_model, usage=answer.usage, cost_usd=answer.cost_usd,
        cached=cached, attempt=request.attempt, detail=answer.detail,
    )  # fmt: skip


def settle(forward: Verdict | None, backward: Verdict | None) -> Judgment:
    """What the two orders of a pair say together; None is an order that was not asked.

    The same entrant named twice wins; two ties are a tie; two different answers are
    inconsistent; an order without an answer leaves the pair incomplete. A pair of which one order
    was asked has that order's outcome.
    """
    asked = [verdict for verdict in (forward, backward) if verdict]
    winner, *other = (verdict.winning_entrant for verdict in asked)
    if not all(v.status is Status.OK and v.winner for v in asked):
        settlement, winner = Settlement.INCOMPLETE, None
    elif other not in ([], [winner]):
        settlement, winner = Settlement.INCONSISTENT, None
    elif not other:
        settlement = Settlement.ONE_ORDER
    else:
        settlement = Settlement.WINNER if winner else Settlement.TIE
    return Judgment(asked[0].presentation.pair, settlement, winner, forward, backward)


def settle_all(verdicts: Iterable[Verdict]) -> list[Judgment]:
    """Judgments of all pairs, in the order in which pairs first appear; of two verdicts on one
    presentation the later one counts, one without a verdict was not asked.
    """
    by_pair: dict[Pair, dict[str, Verdict]] = defaultdict(dict)
    for verdict in verdicts:
        by_pair[verdict.presentation.pair][verdict.presentation.first] = verdict
    return [settle(*map(said.get, pair.entrants)) for pair, said in by_pair.items()]


def to_battles(judgments: Iterable[Judgment]) -> BattleLog:
    """Battles of the settled judgments; incomplete ones give none."""
    settled = (each for each in judgments if each.settlement is not Settlement.INCOMPLETE)
    return BattleLog.from_battles(map(_battle, settled))


#: What a graded verdict gives the better response of a win: five labels at equal steps from 0
#: to 1. The order of entrants is that of any even steps; how far apart they are is a judge's own
#: scale, as it is without grades, and `rating.calibration` puts it on people's.
SHARES = {Margin.MUCH: 1.0, Margin.BETTER: 0.75, Margin.NONE: 0.5}


def share_of_first(judgment: Judgment) -> float | None:
    """The share of the win that graded orders give `entrant_a`, their mean; None where the
    verdicts are not graded, and where the two orders agree on no winner and no tie.
    """
    shares = [SHARES[verdict.margin] for verdict in judgment.verdicts if verdict.margin]
    if judgment.settlement in (Settlement.INCONSISTENT, Settlement.INCOMPLETE) or not shares:
        return None
    share = sum(shares) / len(shares)
    return 1 - share if judgment.winner == judgment.pair.entrant_b else share


def _battle(judgment: Judgment) -> Battle:
    pair, share = judgment.pair, share_of_first(judgment)
    others = {verdict.other_model for verdict in judgment.verdicts} - {""}
    won = {pair.entrant_a: Outcome.MODEL_A, pair.entrant_b: Outcome.MODEL_B}
    return Battle(
        battle_id=pair.pair_id, model_a=pair.entrant_a, model_b=pair.entrant_b,
        winner=won[judgment.winner] if judgment.winner else Outcome.TIE,
        inconsistent=judgment.settlement is Settlement.INCONSISTENT,
        source=Source.LLM_JUDGE, question_id=pair.prompt_id, dimension=pair.dimension,
        judge_model=judgment.verdicts[0].judge_model,
        served_model=" + ".join(sorted(others)) or None,
        share_a=None if share in (0.0, 0.5, 1.0) else share,  # else it says what the winner does
    )  # fmt: skip


def status_counts(judgments: Sequence[Judgment]) -> dict[str, dict[str, int]]:
    """Per dimension, how many verdicts ended in each status."""
    statuses = ((j.pair.dimension, v.status) for j in judgments for v in j.verdicts)
    return _counts(statuses, Status)


def settlement_counts(judgments: Sequence[Judgment]) -> dict[str, dict[str, int]]:
    """Per dimension, how many pairs were settled in each way."""
    return _counts(((j.pair.dimension, j.settlement) for j in judgments), Settlement)


def _counts(
    outcomes: Iterable[tuple[str, StrEnum]], kinds: Iterable[StrEnum]
) -> dict[str, dict[str, int]]:
    """How often each kind occurs in each dimension, zeros included."""
    counts = Counter(outcomes)
    dimensions = dict.fromkeys(dimension for dimension, _ in counts)
    return {d: {str(kind): counts[d, kind] for kind in kinds} for d in dimensions}
