"""What was said in each battle: the prompt and both answers, where a file has them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.files import read_file
from arena_kit.battles.log import BattleLog, Strings
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


def read_battle_texts(path: str | Path) -> tuple[BattleLog, BattleTexts]:
    """The battles of a file and what was said in each.

    The format, which is seen from the columns, has to have the texts. In our own, they are the
    columns prompt, response_a, response_b and, where present, language and turns.
    """
    path = Path(path)
    reading = read_file(path, format_of(path), texts=True)
    said, n = reading.texts, len(reading.log)
    if missing := [name for name in _NEEDED if n and name not in said]:
        raise DataError(f"{path}: no texts of battles: missing column {', '.join(missing)}")
    nothing = np.full(n, None, object)
    texts = {name: said.get(name, nothing) for name in (*_NEEDED, "language")}
    turns = [turn or 0 for turn in said.get("turns", nothing)]
    return reading.log, BattleTexts(**texts, turns=np.array(turns, np.int32))
