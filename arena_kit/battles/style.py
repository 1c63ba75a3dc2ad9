"""Style of a response in numbers, so that ratings can be told apart from it."""

import re
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_COUNTED = {
    "headings": re.compile(r"^#{1,6} ", re.MULTILINE),
    "lists": re.compile(r"^[ \t]*(?:[-*+]|\d+[.)]) ", re.MULTILINE),
    "bold": re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__"),
}
_FENCE = re.compile(r"^[ \t]*```", re.MULTILINE)
_CODE = re.compile(r"^[ \t]*```.*?(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
#: What is measured of a response: its length in words, how often each kind of Markdown stands
#: outside its code, and how many fences of code it has.
FEATURES = ("length", *_COUNTED, "code")


@lru_cache(maxsize=4096)
def style_of(text: str) -> tuple[int, ...]:
    """The features of one response, in the order of `FEATURES`."""
    prose = _CODE.sub("", text)
    counts = (len(kind.findall(prose)) for kind in _COUNTED.values())
    return (len(text.split()), *counts, len(_FENCE.findall(text)))


def style_differences(
    first: Iterable[str], second: Iterable[str]
) -> dict[str, NDArray[np.float64]]:
    """Per feature, how much more of it each first response has than its second: the difference
    divided by the sum, from -1 to 1, and 0 where neither has any.
    """
    sides = ([style_of(text) for text in texts] for texts in (first, second))
    a, b = (np.array(each, float).reshape(-1, len(FEATURES)) for each in sides)
    share = np.divide(a - b, a + b, out=np.zeros_like(a), where=a + b > 0)
    return dict(zip(FEATURES, share.T, strict=True))
