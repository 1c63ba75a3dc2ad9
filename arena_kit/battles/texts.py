"""What was said in each battle: the prompt and both answers, where a file has them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_kit.battles.files import read_battles
from arena_kit.battles.log import BattleLog, Strings
from arena_kit.battles.tabular import column_name, connection, table_of
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

    Needs the columns prompt, response_a and response_b beside those of `read_battles`; takes
    language and turns where present.
    """
    path = Path(path)
    log = read_battles(path)
    with connection() as con:
        source = table_of(path, (*_NEEDED, "language", "turns"))
        present = [row[0] for row in con.execute(f"DESCRIBE FROM {source}").fetchall()]
        if missing := [name for name in _NEEDED if name not in present]:
            raise DataError(f"{path}: no texts of battles: missing column {', '.join(missing)}")
        texts = {name: _text(name, present) for name in (*_NEEDED, "language")}
        turns = "coalesce(try_cast(turns AS INTEGER), 0)" if "turns" in present else "0"
        chosen = ", ".join(f"{value} AS {name}" for name, value in texts.items())
        columns: dict[str, Any] = con.execute(
            f"SELECT {chosen}, {turns} AS turns FROM {source}"
        ).fetchnumpy()
    filled = {name: _filled(columns[name]) for name in texts}
    return log, BattleTexts(**filled, turns=np.asarray(columns["turns"], np.int32))


def _text(name: str, present: list[str]) -> str:
    return f"CAST({column_name(name)} AS VARCHAR)" if name in present else "NULL::VARCHAR"


def _filled(column: NDArray[Any]) -> Strings:
    texts: Strings = np.asarray(column).astype(object)
    texts[np.ma.getmaskarray(np.ma.asarray(column))] = None
    return texts
