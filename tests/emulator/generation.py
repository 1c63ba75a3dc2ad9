"""Answers to requests that show no two responses: plain generation."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tests.emulator.behaviours import Reply
from tests.emulator.dice import Dice

_OPENINGS = ("In short", "Usually", "As far as is known", "It depends", "Most sources agree")
_PLAIN: dict[Any, object] = {
    "string": "Nothing was compared.",
    "integer": 0,
    "number": 0,
    "boolean": False,
    "array": [],
}


def generate(prompt: str, schema: Mapping[str, Any] | None, dice: Dice) -> Reply:
    """A short text that echoes words of the prompt, or an object that fits the schema."""
    if schema is not None:
        return Reply(text=json.dumps(_filled(schema), ensure_ascii=False))
    words = re.findall(r"\w+", prompt[:4000]) or ["nothing"]
    opening = _OPENINGS[dice.between(0, len(_OPENINGS))]
    start = dice.between(0, len(words))
    echo = " ".join((words[start:] + words)[: dice.between(4, 24)])
    return Reply(text=f"{opening}: {echo}.")


def _filled(schema: Mapping[str, Any]) -> Any:
    """The smallest value that fits a schema of plain types [INF]."""
    if options := schema.get("enum"):
        return options[-1]
    kind = schema.get("type")
    if kind == "object":
        return {name: _filled(part) for name, part in schema.get("properties", {}).items()}
    return _PLAIN.get(kind)
