"""Reading a judge's text: structured verdicts first, then the ways judges write prose."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import NamedTuple

from pydantic_core import from_json

from arena_kit.judging.verdicts.doubt import Doubts, own_object, without_fences
from arena_kit.judging.verdicts.records import Margin, Slot

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
_ALONE = (  # "3 reasons", "A 45-year-old", "A-level" and "B+" name no slot
    r"(?!(?<=\d)\s+(?!as\b|because\b|since\b|is\b|\()\w)(?![-+’'][\w+]|\+)"
    r"(?!(?<=\bA)[^\S\n]+(?!as\b|because\b|since\b|is\b|was\b|for\b|over\b|by\b|due\b|wins\b"
    r"|and\b|but\b|with\b|in\b|overall\b|here\b|which\b)\w)"
)
_NAMED = rf"(?:{_THING}\s*[#*\"'(\[]*{_LABEL}|[#*\"'(\[]*{_LABEL.replace('label', 'bare')}{_ALONE})"
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
_OWN_ANSWER = r"^[^\w\n]*(?:(?:my|the|final)\s+){0,2}answer"  # not "the correct answer"
_LETTER_LAST = r"(?P<label>[ABCabc]|tie)['\"*.}\s]*$"
#: Forms that exist to give a verdict; the last of them outranks anything said in prose.
_FORMAL = [
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        rf"\[\[\s*{_LABEL}\s*\]\]",
        rf"(?:{_DECIDED}|{_BEST}(?:\s+answer)?)['\"*]*\s*[:：=]{_FILLER}{_NAMED}",
        rf"(?:winner|verdict|{_OWN_ANSWER})['\"*]*\s*[:：=]\s*['\"*]*{_LETTER_LAST}",
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
_CONCLUDES = re.compile(
    r"\b(?:overall|final|finally|conclu\w+|reflection|therefore|thus|hence|actually|correct\w*"
    r"|revis\w+|instead|wait|all in all|in sum\w*|my (?:verdict|choice|winner))\b",
    re.IGNORECASE,
)
_VALUE = re.compile(
    rf"[\s\"'`*_(\[#<:]*(?:(?:the|an?)\s+)?(?:{_THING}[\s_]*)?(?P<label>{'|'.join(_SLOTS)})"
    r"[\s\"'`*_)\].!>]*",
    re.IGNORECASE,
)
_EQUAL = re.compile(
    r"\b(?:both|two|they|responses|answers|assistants)\b[^.\n]{0,60}?"
    r"(?<!not )\b(?:equally(?!\s+(?:long|short|verbose|brief|wordy))|equivalent|tied"
    r"|(?<!\")tie|equal in|on par)\b"
    r"|\bit(?:'s| is) a tie\b|(?<!not )\bequally (?:good|helpful|bad)\b",
    re.IGNORECASE,
)
#: What each of `GRADED_LABELS` says.
_GRADES = {
    "A>>B": (Slot.A, Margin.MUCH),
    "A>B": (Slot.A, Margin.BETTER),
    "A=B": (Slot.TIE, Margin.NONE),
    "B>A": (Slot.B, Margin.BETTER),
    "B>>A": (Slot.B, Margin.MUCH),
}
_GRADE = r"(?P<label>A\s*>\s*>\s*B|A\s*[>=]\s*B|B\s*>\s*>\s*A|B\s*>\s*A)"
_GRADE_VALUE = re.compile(rf"[\s\[]*{_GRADE}[\s\]]*", re.IGNORECASE)
_GRADE_FORMAL = re.compile(rf"\[\[\s*{_GRADE}\s*\]\]", re.IGNORECASE)


class Reading(NamedTuple):
    """What was read from a text; `winner` None means that no verdict could be. `margin` is that
    of a graded verdict.
    """

    winner: Slot | None
    justification: str = ""
    margin: Margin | None = None


def read_verdict(text: str) -> Reading:
    """The verdict in a judge's text, or none where it is absent, doubtful or contradicts itself.

    A JSON object with a `winner` settles it, whatever it says (the last one, outermost).
    Otherwise the last statement of a verdict in the text counts: `[[A]]`, "Winner: B", "Best
    answer: 2", "I choose option 3", "the better response is the first", "both are equally
    good", in a few languages. Numbers name slots in order, and 3 (or C), the third choice
    of three, a tie. What is quoted, denied, asked or only supposed is no statement.
    """
    text = text[-_LONGEST:]
    if whole := _whole_object(text):  # nothing stands around it that could speak against it
        return _read_object(whole, _slot(whole["winner"]))
    own, rest = _objects(text)
    if not own:
        return Reading(winner=_last_statement(rest), justification=text.strip()[-_TAIL:])
    winner = _slot(own[-1]["winner"])
    later = {each.slot for each in _statements(_FORMAL, rest[-_TAIL:]) if each.meant}
    return _read_object(own[-1], winner if later <= {winner} else None)


def read_graded(text: str) -> Reading:
    """The graded verdict in a judge's text, or none where it is absent, doubtful or contradicts
    itself; a winner without a grade is none, for how much better it is would be a guess.

    A JSON object whose `winner` is a label (`A>>B`, `A>B`, `A=B`, `B>A`, `B>>A`) settles it, else
    such labels in double brackets do, as they stand in what the writer states.
    """
    text = text[-_LONGEST:]
    if whole := _whole_object(text):
        return _graded(_grade(whole["winner"]), whole)
    own, rest = _objects(text)
    later = _grades_stated(rest[-_TAIL:])
    if not own:
        grade = next(iter(later)) if len(later) == 1 else None
        return _graded(grade, {"justification": text.strip()[-_TAIL:]})
    grade = _grade(own[-1]["winner"])
    slots = {each.slot for each in _statements(_FORMAL, rest[-_TAIL:]) if each.meant}
    agrees = grade is not None and later <= {grade} and slots <= {grade[0]}
    return _graded(grade if agrees else None, own[-1])


def _graded(grade: tuple[Slot, Margin] | None, verdict: dict[str, object]) -> Reading:
    winner, margin = grade or (None, None)
    justification = str(verdict.get("justification", ""))
    return Reading(winner=winner, margin=margin, justification=justification)


def _grade(value: object) -> tuple[Slot, Margin] | None:
    """The winner and the margin that a whole value names."""
    match = _GRADE_VALUE.fullmatch(value) if isinstance(value, str) else None
    return _GRADES["".join(match["label"].upper().split())] if match else None


def _grades_stated(tail: str) -> set[tuple[Slot, Margin]]:
    """The grades in double brackets that the writer states and means."""
    tail = without_fences(tail)
    doubts = Doubts.about(tail)
    grades = {
        _grade(match["label"])
        for match in _GRADE_FORMAL.finditer(tail)
        if doubts.stated(match.start(), match.span(), match.end())
    }
    return {grade for grade in grades if grade}


def _read_object(verdict: dict[str, object], winner: Slot | None) -> Reading:
    return Reading(winner=winner, justification=str(verdict.get("justification", "")))


def _whole_object(text: str) -> dict[str, object] | None:
    """The text itself where it is one JSON object with a winner, as structured output is."""
    if not text.startswith("{"):
        return None
    try:
        value = from_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "winner" in value else None


def _objects(text: str) -> tuple[list[dict[str, object]], str]:
    """The JSON objects with a winner that are verdicts, in order, and the text after the last of
    them without those that are only shown; objects inside others do not count.
    """
    decoder = json.JSONDecoder()
    own: list[dict[str, object]] = []
    rest, end = text, 0
    for start in [match.start() for match in re.finditer(r"\{", text)][-50:]:
        if start < end:
            continue
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if not (isinstance(value, dict) and "winner" in value):
            continue
        after = text[end:]
        if own_object(text, start, end):
            own.append(value)
            rest = after
        else:
            rest = rest[: len(rest) - len(after) - (end - start)] + "…" + after
    return own, rest


def _slot(value: object) -> Slot | None:
    """The slot that a whole value names, and nothing but names."""
    if isinstance(value, str) and (plain := _SLOTS.get(value.lower())):
        return plain
    match = _VALUE.fullmatch(str(value)) if isinstance(value, str | int) else None
    return _SLOTS[match["label"].lower()] if match else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statement:
    """Where a statement ends, which slot it names, whether it is meant, and the end of the
    sentence before it.
    """

    end: int
    slot: Slot
    meant: bool
    formal: bool
    sentence: int


def _last_statement(text: str) -> Slot | None:
    """The slot of the last formal verdict, or of the last thing said where there is none;
    nothing where the last sentence names two, or where what follows takes it back.
    """
    tail = re.sub(r"([^\w\n`])\1{2,}", r"\1\1", text[-_TAIL:])  # runs of marks say nothing
    tail = without_fences(tail)
    formal, prose = _statements(_FORMAL, tail), _statements(_PROSE, tail)
    equal = _statements([_EQUAL], tail)
    ranked = formal if any(each.meant for each in formal) else formal + prose + equal
    meant = [each for each in ranked if each.meant]
    if not meant:
        return _slot(text.strip()) if len(text) < _SHORT and not ranked else None
    last = max(meant, key=lambda each: each.end)
    named = {each.slot for each in meant if each.end > last.sentence}
    contested = any(_contests(each, last, tail) for each in formal + prose + equal)
    return last.slot if len(named) == 1 and not contested else None


def _contests(other: _Statement, last: _Statement, tail: str) -> bool:
    """Whether a statement speaks against the last formal verdict: it takes that back, names
    another winner after it, or is another formal verdict that no conclusion sets aside.
    """
    if other.end > last.end:
        agrees = other.slot is last.slot
        return not agrees and other.slot is not Slot.TIE if other.meant else agrees
    return (
        other.formal
        and other.meant
        and other.slot is not last.slot
        and not _CONCLUDES.search(tail[other.end : last.end])
    )


def _statements(patterns: list[re.Pattern[str]], tail: str) -> list[_Statement]:
    """Everything in a text that has the form of a verdict."""
    doubts = Doubts.about(tail)
    statements = []
    for pattern in patterns:
        for match in pattern.finditer(tail):
            groups = match.groupdict()
            group = next((name for name in ("label", "bare") if groups.get(name)), 0)
            end = match.end(group)
            core = (match.start(), end) if group else (end - 1, end)
            statements.append(
                _Statement(
                    end=end,
                    slot=_SLOTS[match[group].lower()] if group else Slot.TIE,
                    formal=patterns is _FORMAL,
                    meant=doubts.stated(match.start(), core, match.end()),
                    sentence=doubts.sentence(end - 1)[0],
                )
            )
    return statements
