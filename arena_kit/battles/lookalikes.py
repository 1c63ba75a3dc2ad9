"""Names that a reader takes for one another's."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

#: Letters of other scripts that look like a Latin one, by their code points.
_HOMOGLYPHS = {
    0x0430: "a", 0x0435: "e", 0x043E: "o", 0x0440: "p", 0x0441: "c", 0x0443: "y", 0x0445: "x",
    0x0455: "s", 0x0456: "i", 0x0458: "j", 0x04BB: "h", 0x0501: "d", 0x051B: "q", 0x051D: "w",
    0x0410: "A", 0x0412: "B", 0x0415: "E", 0x041A: "K", 0x041C: "M", 0x041D: "H", 0x041E: "O",
    0x0420: "P", 0x0421: "C", 0x0422: "T", 0x0423: "Y", 0x0425: "X", 0x0405: "S", 0x0406: "I",
    0x0408: "J", 0x03BF: "o", 0x03BD: "v", 0x0391: "A", 0x0392: "B", 0x0395: "E", 0x0396: "Z",
    0x0397: "H", 0x0399: "I", 0x039A: "K", 0x039C: "M", 0x039D: "N", 0x039F: "O", 0x03A1: "P",
    0x03A4: "T", 0x03A5: "Y", 0x03A7: "X",
}  # fmt: skip
_CONFUSABLE = {"LATIN", "CYRILLIC", "GREEK"}


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
    """What names that look alike share: normal form NFKC, with Latin letters for homoglyphs."""
    if name.isascii():
        return name
    return unicodedata.normalize("NFKC", name).translate(_HOMOGLYPHS)


def _scripts(name: str) -> set[str]:
    """The scripts of a name's letters, as far as they hold letters that look alike."""
    letters = (unicodedata.name(char, "") for char in name if char.isalpha())
    return {letter.partition(" ")[0] for letter in letters} & _CONFUSABLE
