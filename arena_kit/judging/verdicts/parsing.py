"""Reading a judge's text: a JSON object, a mark in double brackets, or one final line.

Each form counts only in its place, and prose is not read: see design/verdict-parser.md.
"""

import json
import re
from typing import NamedTuple

from pydantic_core import from_json

from arena_kit.judging.verdicts.records import Margin, Slot

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
    if (whole := _whole_object(text)) is not None:
        return [whole], "", ""
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


def _whole_object(text: str) -> dict[str, object] | None:
    """The text itself where it is one JSON object with a winner, as structured output is."""
    if not text.startswith("{"):
        return None
    try:
        value = from_json(text)
    except (ValueError, TypeError):  # the latter for half a surrogate pair
        return None
    return value if isinstance(value, dict) and "winner" in value else None
