"""An answer as other tools log it, and what their logs have in common."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from arena_kit.battles.battle import check_entrant_id, check_id
from arena_kit.files import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One model's answer to one sample of a task.

    `same` is equal for two logs exactly where they asked the same; a chat template may have put
    it in other words. `scores` are the log's own, as numbers. `place` is where it stands.
    """

    task: str
    sample: str
    model: str
    prompt: str
    text: str
    same: str
    place: str
    target: str | None = None
    scores: Mapping[str, float] = field(default_factory=dict)

    @property
    def prompt_id(self) -> str:
        return safe_id(f"{self.task}:{self.sample}")


class AnswerLog(Protocol):
    """A tool's log of answers: how it is recognised, and its answers."""

    title: str
    follows: str

    def recognises(self, path: Path) -> bool:
        """Whether a file is such a log, by a look at its beginning."""
        ...

    def answers(self, path: Path, entrant: str, left_out: Counter[str]) -> Iterator[Answer]:
        """The answers of a file, under the entrant's name where one is given; what is no answer
        is counted.
        """
        ...


def safe_id(name: str) -> str:
    """A name as an id of ours: itself where it is one, else with a hash of what was replaced."""
    try:
        return check_entrant_id(name, "id")
    except DataError:
        digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
        cleaned = re.sub(r"[^A-Za-z0-9._:/@+-]|\.(?=\.)", "_", name).lstrip("+-@")[:110]
        return check_id(f"{cleaned}-{digest}", "id")


def digest_of(*texts: str) -> str:
    """What is equal for equal texts."""
    return hashlib.sha256("\x00".join(texts).encode("utf-8", "replace")).hexdigest()


def content_text(content: Any) -> str | None:
    """The text of a message's content, which is a text or a list of parts; None where a part is
    more than text. A model's reasoning is no part of its answer.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    parts = [p for p in content if not (isinstance(p, dict) and p.get("type") == "reasoning")]
    if not all(isinstance(p, dict) and isinstance(p.get("text"), str) for p in parts):
        return None
    return "\n".join(p["text"] for p in parts)


def conversation_text(messages: Sequence[Any]) -> str | None:
    """A conversation as one text: the message itself where there is one, else each with its role;
    None where one is more than text.
    """
    turns = [(m.get("role"), content_text(m.get("content"))) for m in messages]
    if not turns or any(text is None for _, text in turns):
        return None
    if len(turns) == 1:
        return turns[0][1]
    return "\n\n".join(f"{role}: {text}" for role, text in turns)
