"""Style of a response in numbers, so that ratings can be told apart from it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_COUNTED = {
    "headings": re.compile(r"^#{1,6} ", re.MULTILINE),
    "lists": re.compile(r"^[ \t]*(?:[-*+]|\d+[.)]) ", re.MULTILINE),
    "bold": re.compile(r"\*\*[^*\n]+\*\*|__[^_\n]+__"),
    "code": re.compile(r"^[ \t]*```", re.MULTILINE),
}
#: What is measured of a response: its length in words, and how often each kind of Markdown
#: stands in it.
FEATURES = ("length", *_COUNTED)


@lru_cache(maxsize=4096)
def style_of(text: str) -> tuple[int, ...]:
    """The features of one response, in the order of `FEATURES`."""
    return (len(text.split()), *(len(kind.findall(text)) for kind in _COUNTED.values()))


def style_differences(
    first: Iterable[str], second: Iterable[str]
) -> dict[str, NDArray[np.float64]]:
    """Per feature, how much more of it each first response has than its second: the difference
    divided by the sum, from -1 to 1, and 0 where neither has any.
    """
    a = np.array([style_of(text) for text in first], float).reshape(-1, len(FEATURES))
    b = np.array([style_of(text) for text in second], float).reshape(-1, len(FEATURES))
    share = np.divide(a - b, a + b, out=np.zeros_like(a), where=a + b > 0)
    return dict(zip(FEATURES, share.T, strict=True))
