"""What a judge is asked: the tagged sections of a user text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_NAMES = ("question", "gold_answer", "expected_behavior", "response_a", "response_b")
_FIRST = re.compile(rf"<(?:{'|'.join(_NAMES)})( [0-9a-f]{{8,64}})?>\n")


def read_sections(user: str) -> dict[str, str]:
    """Texts by section name; the boundary of the first tag is the boundary of all."""
    if (first := _FIRST.search(user)) is None:
        return {}
    mark = first[1] or ""
    sections = {}
    for name in _NAMES:
        opening = f"<{name}{mark}>\n"
        start = user.find(opening)
        end = user.find(f"\n</{name}{mark}>", start) if start >= 0 else -1
        if end >= 0:
            sections[name] = user[start + len(opening) : end]
    return sections


def system_text(params: Mapping[str, Any]) -> str:
    """The system text, where the rubric stands; that of a chat is its first message."""
    first = params["messages"][0]
    content = params.get("system") or (first["content"] if first.get("role") == "system" else "")
    if isinstance(content, str):
        return content
    return "".join(block.get("text") or "" for block in content)


def user_text(params: Mapping[str, Any]) -> str:
    """The text of the last message."""
    content = params["messages"][-1]["content"]
    if isinstance(content, str):
        return content
    return "".join(block.get("text") or "" for block in content)
