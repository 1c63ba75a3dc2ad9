"""What was said in each battle: the prompt and both answers, where a file has them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.files import read_file
from arena_kit.battles.log import BattleLog, Strings
from arena_kit.battles.readers.format import Columns
from arena_kit.battles.readers.formats import format_of
from arena_kit.files import DataError

_NEEDED = ("prompt", "response_a", "response_b")


@dataclass(frozen=True, slots=True, eq=False)
class BattleTexts:
    """Texts of the battles of one log, row by row; None where a file leaves one out.

    `prompt` is the first message of the user, the responses are the first answers to it;
    `turns` counts the user's messages (0 where the file does not say).
    """

    prompt: Strings
    response_a: Strings
    response_b: Strings
    language: Strings
    turns: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.prompt)


def read_battle_texts(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 (what --format takes)
    columns: Columns | None = None,
) -> tuple[BattleLog, BattleTexts]:
    """The battles of a file and what was said in each.

    Takes what `read_battles` takes; the format has to have the texts. In our own, they are the
    columns prompt, response_a, response_b and, where present, language and turns.
    """
    path = Path(path)
    reading = read_file(path, format_of(path, format, columns), texts=True)
    said = reading.texts
    if missing := [name for name in _NEEDED if name not in said or not _any(said[name])]:
        raise DataError(f"{path}: no texts of battles: missing column {', '.join(missing)}")
    nothing = np.full(len(reading.log), None, object)
    texts = {name: said.get(name, nothing) for name in (*_NEEDED, "language")}
    turns = [_number(turn) for turn in said.get("turns", nothing)]
    return reading.log, BattleTexts(**texts, turns=np.array(turns, np.int32))


def _any(column: NDArray[Any]) -> bool:
    return len(column) == 0 or any(text is not None for text in column)


def _number(text: str | None) -> int:
    """A number of turns; whatever is none is 0."""
    return int(text) if text is not None and text.isdecimal() else 0
