"""Reading a judge's text: structured verdicts first, then the ways judges write prose."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from arena_kit.judging.records import Slot

_LONGEST = 200_000
_TAIL = 3_000


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
    if (found := _last_object(text)) is not None:
        winner = _slot(found["winner"])
        return Reading(winner=winner, justification=str(found.get("justification", "")))
    return Reading(winner=_last_statement(text), justification=text.strip()[-_TAIL:])


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


_WORDS = {
    Slot.A: "a 1 first primera primero первый первого 第一",
    Slot.B: "b 2 second segunda segundo второй второго 第二",
    Slot.TIE: "c 3 third tie tied draw neither equal empate ничья 平局",
}
_SLOTS = {word: slot for slot, words in _WORDS.items() for word in words.split()}
_LETTERS = "(?-i:[ABC])"  # capitals only: "a" is an article
_LABEL = (
    rf"(?P<label>{_LETTERS}|{'|'.join(word for word in _SLOTS if len(word) > 1 or word.isdigit())})"
    r"(?!\w)(?![./]\d)(?!\"? (?:or|and) \"?(?-i:[ABC])(?!\w))"  # not "2/5", not "A or B"
)
_THING = (
    r"(?:assistant|response|answer|option|model|candidate|number|respuesta|opci[oó]n|asistente"
    r"|assistente|ассистента?|ассистентом|вариант|ответ|помощника?|助手|答案|选项|回答)"
)
_NAMED = rf"(?:{_THING}\s*)?[#*\"'(\[]*{_LABEL}"
_FILLER = (
    r"(?:\s*(?:is|was|to|be|would|goes|comes|the|that|one|an|of|from|by|provided|given|answer"
    r"|response|overall|here|therefore|es|és|est|ist|la|el|die|del|de|von|celle|dada|por|это"
    r"|является|от|дал|是|l['’]|[-—–:：=*\"]))*\s*"
)
_BEST = (
    r"(?:best|better|superior|stronger|preferred|winning|mejor|millor|meilleure?|beste[rn]?"
    r"|лучший|лучшим|лучше|最佳|最好的|更好的)"
    r"(?:\s*(?:assistant|choice|option|opci[oó]n|respuesta|resposta|réponse|antwort|ответ(?:ом)?"
    r"|вариант|答案|回答))?"
)
_DECIDED = r"(?:winner|verdict|choice|decision|final answer|выбор|выбираю|elijo|选择)"
_CHOSE = r"(?<!not )(?<!n['’]t )(?<!unable to )\b(?:choose|select|pick|prefer|vote for|go with)"
_LEADS = (
    r"(?:['’]s)?\s*(?:answer|response)?\s*(?:wins\b|(?:is|was)"
    r"(?:\s*(?:the|a|as|clearly|slightly|much|overall|considered|therefore))*\s*"
    r"(?:better|best|superior|stronger|winner|preferred|preferable))"
)
_STATEMENTS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\[\[\s*{_LABEL}\s*\]\]",
        rf"{_DECIDED}{_FILLER}{_NAMED}",
        rf"{_BEST}{_FILLER}{_NAMED}",
        rf"{_CHOSE}{_FILLER}{_NAMED}",
        rf"(?<!nor ){_THING}\s*{_LABEL}{_LEADS}",
    )
]
_EQUAL = re.compile(
    r"\b(?:both|two|they|responses|answers|assistants)\b[^.\n]{0,60}?"
    r"(?<!not )\b(?:equally|equivalent|tied|(?<!\")tie|equal in|on par)\b"
    r"|\bit(?:'s| is) a tie\b|(?<!not )\bequally (?:good|helpful|bad)\b",
    re.IGNORECASE,
)


def _slot(value: object) -> Slot | None:
    if not isinstance(value, str | int):
        return None
    words = re.findall(r"[^\W_]+", str(value).lower())
    named = {_SLOTS[word] for word in words if word in _SLOTS}
    return named.pop() if len(named) == 1 else None


def _last_statement(text: str) -> Slot | None:
    """The slot of the last statement; none where the last sentence names two."""
    tail = re.sub(r"([^\w\n])\1{2,}", r"\1\1", text[-_TAIL:])  # runs of marks say nothing
    found = [
        (match.end(), _SLOTS[match["label"].lower()])
        for statement in _STATEMENTS
        for match in statement.finditer(tail)
    ]
    equal = max((match.end() for match in _EQUAL.finditer(tail)), default=-1)
    last = max((end for end, _ in found), default=-1)
    if equal > last:
        return Slot.TIE
    if not found:
        return None
    sentence_start = max(tail.rfind(mark, 0, last - 1) for mark in ("\n", ". ", "。"))
    named = {slot for end, slot in found if end > sentence_start}
    return named.pop() if len(named) == 1 else None
