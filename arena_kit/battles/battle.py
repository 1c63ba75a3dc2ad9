"""The battle: one comparison of two models, in the words the community uses."""

import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from arena_kit.files import DataError

ID_RULE = "1 to 128 of the characters A-Z a-z 0-9 . _ : / @ + -, without '..'"
_ID = re.compile(r"(?!.*\.\.)[A-Za-z0-9._:/@+-]{1,128}\Z")

#: Letters of other scripts that look like a Latin one: the code point and that letter.
_HOMOGLYPHS = {int(each[:4], 16): each[4] for each in (
    "0430a 0435e 043Eo 0440p 0441c 0443y 0445x 0455s 0456i 0458j 04BBh 0501d 051Bq 051Dw "
    "0410A 0412B 0415E 041AK 041CM 041DH 041EO 0420P 0421C 0422T 0423Y 0425X 0405S 0406I "
    "0408J 03BFo 03BDv 0391A 0392B 0395E 0396Z 0397H 0399I 039AK 039CM 039DN 039FO 03A1P "
    "03A4T 03A5Y 03A7X"
).split()}  # fmt: skip
_HOMOGLYPHS |= dict.fromkeys([*range(0x2010, 0x2016), 0x2212], "-")  # hyphens and dashes
#: What one battle may weigh: beyond, sums of weights drown the other battles in rounding.
MAX_WEIGHT = 1e9
A_WEIGHT = "a number above 0, at most 1,000,000,000"
_CONFUSABLE = {"LATIN", "CYRILLIC", "GREEK"}


class Outcome(StrEnum):
    """What a battle ended in. *Decisive* means `MODEL_A` or `MODEL_B`, nothing else."""

    MODEL_A = "model_a"
    MODEL_B = "model_b"
    TIE = "tie"
    BOTH_BAD = "both_bad"

    @property
    def decisive(self) -> bool:
        return self in (Outcome.MODEL_A, Outcome.MODEL_B)


class Source(StrEnum):
    """Who decided a battle."""

    LLM_JUDGE = "llm-judge"
    HUMAN = "human"


OUTCOMES: tuple[Outcome, ...] = tuple(Outcome)
A_WINS, B_WINS, TIE, BOTH_BAD = range(4)

#: Every spelling of an outcome that is read, in any case and with spaces for `_`.
OUTCOME_LABELS: dict[str, Outcome] = {
    **{str(outcome): outcome for outcome in Outcome},
    **dict.fromkeys(("a", "left"), Outcome.MODEL_A),
    **dict.fromkeys(("b", "right"), Outcome.MODEL_B),
    "both": Outcome.TIE,
    **dict.fromkeys(("neither", "bothbad", "tie_(bothbad)", "tie_bothbad"), Outcome.BOTH_BAD),
}
#: What numbers mean in a column that has 1 and 2; in any other they are ambiguous.
OUTCOME_NUMBERS = {"1": Outcome.MODEL_A, "2": Outcome.MODEL_B, "0": Outcome.TIE}


def plain_name(name: str) -> str:
    """A name in lower case, with _ for all but letters and digits."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def read_outcome(label: object) -> Outcome:
    """The outcome a label stands for."""
    if isinstance(label, str) and (known := outcome_labels([label])):
        return known[label]
    raise DataError(f"unknown winner {_clip(label)}; allowed: {', '.join(OUTCOME_LABELS)}")


def outcome_labels(labels: Iterable[str]) -> dict[str, Outcome]:
    """The outcome that each label of a column stands for; names of models are left out."""
    every = {label: "_".join(label.lower().split()) for label in labels}
    known = OUTCOME_LABELS | (OUTCOME_NUMBERS if {"1", "2"} <= {*every} else {})
    return {label: known[plain] for label, plain in every.items() if plain in known}


def read_source(label: object) -> Source:
    """The source a label stands for."""
    if str(label) in list(Source):
        return Source(str(label))
    raise DataError(f"unknown source {_clip(label)}; allowed: {', '.join(Source)}")


def check_id(value: object, what: str) -> str:
    """`value` if it is a safe id (ids end up in file names and HTML), else an error."""
    if isinstance(value, str) and _ID.match(value):
        return value
    raise DataError(f"{what} {_clip(value)} is not a valid id; allowed: {ID_RULE}")


def check_model_name(value: object, what: str = "model name") -> str:
    """`value` if it can name a model: published lists use spaces and brackets, so only
    emptiness, control characters and more than 256 characters are refused.
    """
    if isinstance(value, str) and 0 < len(value) <= 256 and value.isprintable():
        return value
    raise DataError(f"{what} {_clip(value)} is not valid; allowed: 1 to 256 printable characters")


def check_entrant_id(value: object, what: str) -> str:
    """`value` if it can name an entrant: a model name as people write it, without `|`, which joins
    ids, without space at its ends, and none that a spreadsheet takes for a formula.
    """
    name = check_model_name(value, what)
    if "|" in name or name != name.strip() or name[0] in "+-@=":
        raise DataError(
            f"{what} {_clip(name)} is not valid; not allowed: |, a space at either end, and "
            "+ - @ = at the beginning"
        )
    return name


def made_id(name: str) -> str:
    """An id made from a name: itself where it is one, else with a hash of what was replaced."""
    if _ID.match(name) and name[0] not in "+-@":
        return name
    cleaned = re.sub(r"[^A-Za-z0-9._:/@+-]|\.(?=\.)", "_", name).lstrip("+-@")[:110]
    return f"{cleaned}-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


class LookAlikeWarning(UserWarning):
    """Names that a reader cannot tell apart, or that mix scripts."""


def look_alikes(names: Collection[str]) -> str:
    """A sentence on the first two names that look alike, or on the first that mixes scripts, with
    their letters beyond ASCII as code points; empty where there is none.
    """
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(_appearance(name), name)
        if other != name:
            return f"{other!a} and {name!a} look alike and count as two models"
    for name in names:
        if len(scripts := sorted(_scripts(name))) > 1:
            mixed = " and ".join(script.capitalize() for script in scripts)
            return f"{name!a} mixes {mixed} letters and may be taken for another model"
    return ""


def _appearance(name: str) -> str:
    """What names that look alike share: normal form NFKC, with Latin letters for homoglyphs, and
    neither case nor blanks around.
    """
    plain = name if name.isascii() else unicodedata.normalize("NFKC", name).translate(_HOMOGLYPHS)
    return " ".join(plain.casefold().split())


def _scripts(name: str) -> set[str]:
    """The scripts of a name's letters, as far as they hold letters that look alike."""
    letters = (unicodedata.name(char, "") for char in name if char.isalpha())
    return {letter.partition(" ")[0] for letter in letters} & _CONFUSABLE


def _clip(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


_NUMBER = (int, float)
_TEXTS = ("question_id", "dimension", "judge_model", "served_model", "battle_id", "session",
          "voter", "lane")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Battle:
    """One comparison of two models, under the names the community uses on disk.

    `inconsistent` marks a judged pair whose two presentations disagreed: it has no
    winner, its `winner` field reads `tie`, and every rating method has a named setting
    for it. `served_model` is who judged where that was another model than `judge_model`, the one
    that was asked. `share_a` is a soft outcome: the share of the win that goes to `model_a`, from 0
    to 1, where more is known than a name; ratings then count it instead of the winner. `voter`
    is who voted, where a file tells voters apart. A timestamp without a zone is UTC; an empty
    text is none.
    """

    model_a: str
    model_b: str
    winner: Outcome
    source: Source = Source.HUMAN
    question_id: str | None = None
    dimension: str | None = None
    judge_model: str | None = None
    served_model: str | None = None
    battle_id: str | None = None
    timestamp: datetime | None = None
    session: str | None = None
    voter: str | None = None
    lane: str | None = None
    weight: float = 1.0
    inconsistent: bool = False
    share_a: float | None = None

    def __post_init__(self) -> None:
        check_model_name(self.model_a)
        check_model_name(self.model_b)
        if self.model_a == self.model_b:
            raise DataError(f"a battle needs two different models, but both are {self.model_a!r}")
        if type(self.winner) is not Outcome:
            object.__setattr__(self, "winner", read_outcome(self.winner))
        if type(self.source) is not Source:
            object.__setattr__(self, "source", read_source(self.source))
        if self.inconsistent is True and self.winner is not Outcome.TIE:
            raise DataError(f"an inconsistent battle has winner 'tie', not {self.winner!r}")
        if not isinstance(self.weight, _NUMBER) or not 0 < self.weight <= MAX_WEIGHT:
            raise DataError(f"weight {_clip(self.weight)} is not {A_WEIGHT}")
        share = self.share_a
        if share is not None and not (isinstance(share, _NUMBER) and 0 <= share <= 1):
            raise DataError(f"share_a {_clip(share)} is not a number from 0 to 1")
        if not isinstance(self.inconsistent, bool):
            raise DataError(f"inconsistent {_clip(self.inconsistent)} is not true or false")
        if self.timestamp is not None and self.timestamp.tzinfo is None:
            object.__setattr__(self, "timestamp", self.timestamp.replace(tzinfo=UTC))
        for name in [name for name in _TEXTS if getattr(self, name) == ""]:
            object.__setattr__(self, name, None)
