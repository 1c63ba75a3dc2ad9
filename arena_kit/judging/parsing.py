"""Reading a judge's text: structured verdicts first, then the ways judges write prose."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from pydantic_core import from_json

from arena_kit.judging.records import Slot

_LONGEST = 200_000
_TAIL = 3_000
_SHORT = 60

_WORDS = {
    Slot.A: "a 1 first primera primero первый первого 第一",
    Slot.B: "b 2 second segunda segundo второй второго 第二",
    Slot.TIE: "c 3 third tie tied draw neither equal empate ничья 平局",
}
_SLOTS = {word: slot for slot, words in _WORDS.items() for word in words.split()}
_LETTERS = "(?-i:[ABC])"  # capitals only: "a" is an article
_NOT_ALONE = r"(?!\"?\s*(?:/|&|,|\bor\b|\band\b)\s*\"?(?:[ABC123]|tie)(?!\w))"  # "A or B", "A/B"
_NOT_BLAMED = r"(?!\s+(?:is|was)\s+(?:not|worse|wrong|weaker|inferior))"
_LABEL = (
    rf"(?P<label>{_LETTERS}|{'|'.join(word for word in _SLOTS if len(word) > 1 or word.isdigit())})"
    rf"(?!\w)(?![./]\d){_NOT_ALONE}{_NOT_BLAMED}"
)
_THING = (
    r"(?:assistant|response|answer|option|model|candidate|number|respuesta|opci[oó]n|asistente"
    r"|assistente|ассистента?|ассистентом|вариант|ответ|помощника?|助手|答案|选项|回答)"
)
_NO_COUNT = r"(?!(?<=\d)\s+(?!as\b|because\b|since\b|is\b|\()\w)"  # "3 reasons" names no slot
_NAMED = (
    rf"(?:{_THING}\s*[#*\"'(\[]*{_LABEL}|[#*\"'(\[]*{_LABEL.replace('label', 'bare')}{_NO_COUNT})"
)
_FILLER = (
    r"(?:\s*(?:is|was|to|be|would|goes|comes|the|that|one|an|of|from|by|provided|given|answer"
    r"|response|overall|here|therefore|es|és|est|ist|la|el|die|del|de|von|celle|dada|por|это"
    r"|является|от|дал|是|l['’]|[-—–:：=*\"']))*\s*"
)
_BEST = (
    r"(?:best|better|superior|stronger|preferred|winning|mejor|millor|meilleure?|beste[rn]?"
    r"|лучший|лучшим|лучше|最佳|最好的|更好的)"
    r"(?:\s*(?:assistant|choice|option|opci[oó]n|respuesta|resposta|réponse|antwort|ответ(?:ом)?"
    r"|вариант|答案|回答))?"
)
_DECIDED = r"(?:winner|verdict|choice|decision|final answer|выбор|выбираю|elijo|选择)"
_CHOSE = r"\b(?:choose|select|pick|prefer|vote for|go with)"
_LEADS = (
    r"(?:['’]s)?\s*(?:answer|response)?\s*(?:wins\b|(?:is|was)"
    r"(?:\s*(?:the|a|as|clearly|slightly|much|overall|considered|therefore))*\s*"
    r"(?:better|best|superior|stronger|winner|preferred|preferable))"
)
#: Forms that exist to give a verdict; the last of them outranks anything said in prose.
_FORMAL = [
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        rf"\[\[\s*{_LABEL}\s*\]\]",
        rf"(?:{_DECIDED}|{_BEST}(?:\s+answer)?)['\"*]*\s*[:：=]{_FILLER}{_NAMED}",
        r"(?:winner|verdict|answer)['\"*]*\s*[:：=]\s*['\"*]*(?P<label>[ABCabc]|tie)['\"*.}\s]*$",
    )
]
_PROSE = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_DECIDED}{_FILLER}{_NAMED}",
        rf"{_BEST}{_FILLER}{_NAMED}",
        rf"{_CHOSE}{_FILLER}{_NAMED}",
        rf"{_THING}\s*{_LABEL}{_LEADS}",
    )
]
_DENIED = re.compile(
    r"(?:\b(?:cannot|can['’]t|not|neither|nor|unable|hardly)|n['’]t)[^\w.\n]+(?:\w+[^\w.\n]+){0,2}$",
    re.IGNORECASE,
)
_VALUE = re.compile(
    rf"\W*(?:(?:the|an?)\s+)?(?:{_THING}[\s_]*)?(?P<label>{'|'.join(_SLOTS)})\W*", re.IGNORECASE
)
_EQUAL = re.compile(
    r"\b(?:both|two|they|responses|answers|assistants)\b[^.\n]{0,60}?"
    r"(?<!not )\b(?:equally|equivalent|tied|(?<!\")tie|equal in|on par)\b"
    r"|\bit(?:'s| is) a tie\b|(?<!not )\bequally (?:good|helpful|bad)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was read from a text; `winner` None means that no verdict could be."""

    winner: Slot | None
    justification: str = ""


def read_verdict(text: str) -> Reading:
    """The verdict in a judge's text, or none where it is absent or contradicts itself.

    A JSON object with a `winner` settles it, whatever it says (the last one, outermost).
    Otherwise the last statement of a verdict in the text counts: `[[A]]`, "Winner: B", "Best
    answer: 2", "I choose option 3", "the better response is the first", "both are equally
    good", in a few languages. Numbers name slots in order, and 3 (or C), the third choice
    of three, a tie.
    """
    text = text[-_LONGEST:]
    verdict = _whole_object(text) or _last_object(text)
    if verdict is None:
        return Reading(winner=_last_statement(text), justification=text.strip()[-_TAIL:])
    return Reading(
        winner=_slot(verdict["winner"]), justification=str(verdict.get("justification", ""))
    )


def _whole_object(text: str) -> dict[str, object] | None:
    """The text itself where it is one JSON object with a winner, as structured output is."""
    if not text.startswith("{"):
        return None
    try:
        value = from_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "winner" in value else None


def _last_object(text: str) -> dict[str, object] | None:
    """The last JSON object in a text that has a winner; objects inside others do not count."""
    decoder = json.JSONDecoder()
    last, end = None, 0
    for start in [match.start() for match in re.finditer(r"\{", text)][-50:]:
        if start < end:
            continue
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and "winner" in value:
            last = value
    return last


def _slot(value: object) -> Slot | None:
    """The slot that a whole value names, and nothing but names."""
    if isinstance(value, str) and (plain := _SLOTS.get(value.lower())):
        return plain
    match = _VALUE.fullmatch(str(value)) if isinstance(value, str | int) else None
    return _SLOTS[match["label"].lower()] if match else None


def _last_statement(text: str) -> Slot | None:
    """The slot of the last formal verdict, or of the last thing said where there is none;
    nothing where the last sentence names two.
    """
    tail = re.sub(r"([^\w\n])\1{2,}", r"\1\1", text[-_TAIL:])  # runs of marks say nothing
    formal = _statements(_FORMAL, tail)
    statements = formal or _statements(_PROSE, tail)
    last = max((end for end, _ in statements), default=-1)
    equal = max((match.end() for match in _EQUAL.finditer(tail)), default=-1)
    if equal > last and not formal:
        return Slot.TIE
    if not statements:
        return _slot(text.strip()) if len(text) < _SHORT else None
    sentence_start = max(tail.rfind(mark, 0, last - 1) for mark in ("\n", ". ", "。"))
    named = {slot for end, slot in statements if end > sentence_start}
    return named.pop() if len(named) == 1 else None


def _statements(patterns: list[re.Pattern[str]], tail: str) -> list[tuple[int, Slot]]:
    """Where each statement ends and which slot it names; denied ones are left out."""
    statements = []
    for pattern in patterns:
        for match in pattern.finditer(tail):
            groups = match.groupdict()
            label = groups.get("label") or groups.get("bare") or ""
            if not _DENIED.search(tail[max(0, match.start() - 40) : match.start()]):
                statements.append((match.end(), _SLOTS[label.lower()]))
    return statements
