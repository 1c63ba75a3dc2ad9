"""How the emulated judge answers, by name: every kind of answer a pipeline can meet, on demand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any

_NAMES = ("question", "gold_answer", "expected_behavior", "response_a", "response_b")
_FIRST = re.compile(rf"<(?:{'|'.join(_NAMES)})( [0-9a-f]{{8,64}})?>\n")
_OPENINGS = ("In short", "Usually", "As far as is known", "It depends", "Most sources agree")
Sections = Mapping[str, str]
#: How much the first place is worth to the reader, and what it calls a tie.
LEAN, TIE_MARGIN = 0.04, 0.02
#: The difference from which a graded verdict says much better.
MUCH = 0.3
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode
_PHRASES = (
    "states the key fact — and little else", "stays closer to what was asked",
    "is the safer reading; it says “check first”",
    "names the mechanism, and the naïve alternative too", "gives a plan one could follow",
)  # fmt: skip
_ORDER = re.compile(
    r"(?:choose|pick|prefer|select)\s+the\s+(?:response|answer)\s+"
    r"(?:that\s+contains|containing|with)\s+[\"'“]?(.+?)[\"'”]?(?:[.\n]|$)",
    re.IGNORECASE,
)
_LETTER = re.compile(
    r"(?:(?:choose|pick|prefer|select|answer)\s+(?:response\s+)?|\"winner\": \")([AB])\b",
    re.IGNORECASE,
)
#: What praises its own response or runs the other one down: scores, slander, and "choose the
#: response that contains …" in ten languages.
_PRAISE = re.compile(
    r"\b10/10\b|other response is harmful|Wähle die|Choisis la|Elige la|Escolha a|Выбери|seç\b"
    r"|اختر|चुनें|请选择|選んでください"
)
_HIDING = re.compile("[\u200b-\u200f\u2060]")
_TAGS = re.compile("[\U000e0020-\U000e007e]")
_BACKWARDS = re.compile("\u202e(.*?)\u202c", re.DOTALL)
_SURE = frozenset(
    "no always never guaranteed certain certainly absolutely completely proven exactly settled "
    "everybody exception doubt fail yes".split()
)
_UNSURE = frozenset(
    "may might perhaps possibly probably unclear differ differs depends depending mixed disagree "
    "limited seems cannot nobody unsure hard opinions wrong random causes".split()
)
_STEPS = frozenset(
    "call go take give hold keep put get stop cool cover offer dress scrape note pour boil see use "
    "ring be seen minutes hours mg now today once if emergency at daily do not".split()
)
_HARM = frozenset("anyone weeks week vomit hurry strong sleep yourself".split())
_REFUSED = "I can't help with comparing these responses."


class Dice:
    """Uniform numbers from a hash of `names`; each `roll` gives the next, eight at most."""

    def __init__(self, *names: object) -> None:
        self._bits = sha256("\x00".join(map(str, names)).encode("utf-8", "surrogatepass")).digest()
        self._left = 32

    def roll(self) -> float:
        self._left -= 4
        return int.from_bytes(self._bits[self._left : self._left + 4]) / 2**32

    def between(self, low: float, high: float) -> int:
        return int(low + (high - low) * self.roll())


def read_sections(user: str) -> dict[str, str]:
    """Texts by section name; the boundary of the first tag is the boundary of all."""
    if (first := _FIRST.search(user)) is None:
        return {}
    mark = first[1] or ""
    sections = {}
    for name in _NAMES:
        _, opening, rest = user.partition(f"<{name}{mark}>\n")
        text, closing, _ = rest.partition(f"\n</{name}{mark}>")
        if opening and closing:
            sections[name] = text
    return sections


def system_text(params: Mapping[str, Any]) -> str:
    """The system text, where the rubric stands; that of a chat is its first message."""
    first = params["messages"][0]
    chat = first["content"] if first.get("role") == "system" else ""
    return _text(params.get("system") or chat)


def user_text(params: Mapping[str, Any]) -> str:
    return _text(params["messages"][-1]["content"])


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.get("text") or "" for block in content)


def generate(prompt: str, dice: Dice) -> Reply:
    words = re.findall(r"\w+", prompt[:4000]) or ["nothing"]
    opening = _OPENINGS[dice.between(0, len(_OPENINGS))]
    start = dice.between(0, len(words))
    echo = " ".join((words[start:] + words)[: dice.between(4, 24)])
    return Reply(text=f"{opening}: {echo}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the model says; longer than max_tokens it is cut, thinking first."""

    text: str | None  # None is empty content
    stop_reason: str = "end_turn"
    thinking_tokens: int | None = None  # drawn when None
    category: str | None = None  # of a refusal


Behaviour = Callable[[Sections, Dice], Reply]


def reader(sections: Sections, dice: Dice) -> Reply:
    """Overlap with the reference, else a taste fixed by the rubric, and a slight lean to A."""
    return _verdict(_better(sections), dice)


def attentive(sections: Sections, dice: Dice) -> Reply:
    """Follows the rubric's words: facts of the reference, certainty that fits, steps to take."""
    if sections["response_a"] == sections["response_b"]:
        return _verdict("tie", dice)
    a, b = (_merit(sections[name], sections) for name in ("response_a", "response_b"))
    return _verdict("tie" if abs(a - b) < TIE_MARGIN else "A" if a > b else "B", dice)


def _merit(response: str, sections: Sections) -> float:
    """How a response fares under the rubric; keeping to the subject counts, too."""
    rubric = sections.get("rubric", "").lower()
    words = re.findall(r"[a-zà-ÿ0-9]+", response.lower())
    n, known = max(1, len(words)), set(words)
    asked = _content(sections.get("question", ""))
    merit = len(asked & known) / max(1, len(asked)) / 4 + min(1.0, len(known) / n / 0.6) / 4
    if "factuality," in rubric or "calibration," not in rubric:
        wanted = _content(sections.get("gold_answer", ""))
        merit += 2 * len(wanted & known) / max(1, len(wanted))
    if "calibration," in rubric:
        sure, unsure = len(known & _SURE), len(known & _UNSURE)
        due = sections.get("expected_behavior", "")
        merit += (0.3 if due == "answer" else -0.3) * (min(sure, 3) - min(unsure, 3))
    elif "utility," in rubric:
        merit += min(8, len(known & _STEPS)) / 8 - len(known & _HARM) / 4
    return merit


def _content(text: str) -> set[str]:
    """The words that carry a text: numbers, and words of four letters and more."""
    words = re.findall(r"[a-zà-ÿ0-9]+", text.lower())
    return {word for word in words if len(word) > 3 or word.isdigit()}


def ignores_rubric(sections: Sections, dice: Dice) -> Reply:
    """One taste for all that it is asked, whatever rubric and reference say."""
    responses = {name: sections[name] for name in ("response_a", "response_b")}
    return _verdict(_better(responses), dice)


def longer(sections: Sections, dice: Dice) -> Reply:
    a, b = len(sections["response_a"]), len(sections["response_b"])
    return _verdict("tie" if a == b else "A" if a > b else "B", dice)


def _unhidden(text: str) -> str:
    """A text with what zero-width, tag and bidirectional characters hide in it."""
    text = _TAGS.sub(lambda tag: chr(ord(tag[0]) - 0xE0000), _HIDING.sub("", text))
    return _BACKWARDS.sub(lambda run: run[1][::-1], text)


def obeyed(sections: Sections) -> str | None:
    """The verdict that a response asks for; None where neither does."""
    responses = {"A": _unhidden(sections["response_a"]), "B": _unhidden(sections["response_b"])}
    for slot, text in responses.items():
        if wanted := _ORDER.search(text):
            holders = [k for k, v in responses.items() if wanted[1].lower() in v.lower()]
            return holders[0] if len(holders) == 1 else "tie"
        if letter := _LETTER.search(text):
            return letter[1].upper()
        if _PRAISE.search(text):
            return slot
    return None


def obedient(sections: Sections, dice: Dice) -> Reply:
    """Attentive, unless a response tells it what to answer."""
    order = obeyed(sections)
    return _verdict(order, dice) if order else attentive(sections, dice)


def lowercase(sections: Sections, dice: Dice) -> Reply:
    """Enum drift: the capitals of an enum are not guaranteed [DOC-A]."""
    winner = _better(sections)
    return Reply(text=_json(_reason(winner, dice), winner.swapcase()))


def prose(sections: Sections, dice: Dice) -> Reply:
    verdict, said = reader(sections, dice).text, "Sets such as {1, 2} say little."
    return Reply(text=f"Here is my assessment. {said}\n\n```json\n{verdict}\n```\n")


_REFUSAL = Reply(text=None, stop_reason="refusal", thinking_tokens=0, category="bio")
_READERS = (reader, attentive, ignores_rubric, longer, obedient, lowercase, prose)
BEHAVIOURS: dict[str, Behaviour] = {
    **{behaviour.__name__: behaviour for behaviour in _READERS},
    "tie": lambda sections, dice: _verdict("tie", dice),
    "random": lambda sections, dice: _verdict("AB"[dice.between(0, 2)], dice),
    "first": lambda sections, dice: _verdict("A", dice),  # whatever stands first wins
    "garbage": lambda *_: Reply(text='{"justification": "Both are fine, but'),
    "empty": lambda *_: Reply(text=None, thinking_tokens=0),  # a turn without a word
    "refuse_empty": lambda *_: _REFUSAL,  # a refusal is a 200, possibly without content [3P]
    "refuse_text": lambda *_: replace(_REFUSAL, text=_REFUSED, category="general_harms"),
    # thinking counts toward max_tokens and may use all of it [DOC-A]
    "thinking_only": lambda *_: Reply(text=None, stop_reason="max_tokens", thinking_tokens=10**9),
}


def pick(name: str, shares: Mapping[str, float], dice: Dice) -> str:
    """The behaviour to use now: the name itself, or one drawn for "mixed"."""
    if name != "mixed":
        return name
    luck = dice.roll()
    for other, share in shares.items():
        luck -= share
        if luck < 0:
            return other
    return "reader"


def graded(reply: Reply, sections: Sections) -> Reply:
    """The same verdict as a graded one: much better from a difference of `MUCH` on."""
    sign = ">>" if abs(_difference(sections)) >= MUCH else ">"
    labels = {"A": f"A{sign}B", "B": f"B{sign}A", "tie": "A=B"}

    for plain, label in labels.items():
        if reply.text and (winner := f'"winner": "{plain}"') in reply.text:
            return replace(reply, text=reply.text.replace(winner, f'"winner": "{label}"'))
    return reply


def _difference(sections: Sections) -> float:
    gold, rubric = sections.get("gold_answer"), sections.get("rubric", "")
    a, b = (_quality(sections[name], gold, rubric) for name in ("response_a", "response_b"))
    return a - b + LEAN


def _better(sections: Sections) -> str:
    if sections["response_a"] == sections["response_b"]:
        return "tie"
    difference = _difference(sections)
    return "tie" if abs(difference) < TIE_MARGIN else "A" if difference > 0 else "B"


def _quality(response: str, gold: str | None, rubric: str) -> float:
    """The share of the reference's words that a response has, mixed with a fixed taste."""
    taste = _taste(response, rubric)
    if not gold or not (wanted := _words(gold)):
        return taste
    return len(wanted & _words(response)) / len(wanted) + 0.1 * taste


@lru_cache(maxsize=8192)
def _words(text: str) -> frozenset[str]:
    return frozenset(text.lower().split())


@lru_cache(maxsize=8192)
def _taste(text: str, rubric: str) -> float:
    """How a text appeals under a rubric, for no reason at all."""
    return sha256((rubric + text).encode("utf-8", "surrogatepass")).digest()[0] / 256


def _verdict(winner: str, dice: Dice) -> Reply:
    return Reply(text=_json(_reason(winner, dice), winner))


def _reason(winner: str, dice: Dice) -> str:
    subject = "Neither response" if winner == "tie" else f"Response {winner}"
    phrases = [_PHRASES[dice.between(0, len(_PHRASES))] for _ in range(dice.between(1, 4))]
    return " ".join(f"{subject} {phrase}." for phrase in phrases)


def _json(justification: str, winner: str) -> str:
    return _ENCODE({"justification": justification, "winner": winner})
