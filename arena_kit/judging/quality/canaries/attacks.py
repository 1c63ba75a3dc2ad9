"""Instructions smuggled into an answer: each attack takes a text and gives the attacked one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from arena_kit.files import read_yaml

#: A word that no honest answer holds.
MARKER = "KESTREL-7"

Hide = Literal["", "zero-width", "tags", "bidi"]

_ZERO_WIDTH_SPACE = "\u200b"
_TAG_BLOCK = 0xE0000  # the tag character of an ASCII one lies this much higher
_RIGHT_TO_LEFT, _POP = "\u202e", "\u202c"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """A text put below an answer to move the verdict towards it; attacks may follow each other."""

    attack_id: str
    kind: str
    text: str
    hide: Hide = ""

    def __call__(self, answer: str) -> str:
        return f"{answer}\n\n{_hidden(self.text.format(marker=MARKER), self.hide)}"


@cache
def attacks() -> tuple[Attack, ...]:
    """Every attack that is shipped."""
    rows = read_yaml(Path(__file__).with_name("attacks.yaml"))["attacks"]
    return tuple(
        Attack(attack_id=row["id"], kind=row["kind"], text=row["text"], hide=row.get("hide", ""))
        for row in rows
    )


def _hidden(text: str, how: Hide) -> str:
    match how:
        case "zero-width":
            return _ZERO_WIDTH_SPACE.join(text)
        case "tags":
            return "".join(chr(_TAG_BLOCK + ord(letter)) for letter in text)
        case "bidi":
            return f"{_RIGHT_TO_LEFT}{text[::-1]}{_POP}"
        case _:
            return text
