"""Our own columns, also under other names."""

from __future__ import annotations

from arena_kit.battles.log import TEXT_COLUMNS
from arena_kit.battles.readers.format import Columns, Format
from arena_kit.battles.tabular import column_name

OPTIONAL = (*TEXT_COLUMNS, "battle_id", "timestamp", "weight", "inconsistent", "share_a")
TEXTS = ("prompt", "response_a", "response_b", "language", "turns")


def mapped(columns: Columns) -> Format:
    """Our format with some columns under other names."""
    named = {"question_id": columns.question, "voter": columns.voter}
    optional = {name: named.get(name, name) for name in OPTIONAL}
    asked = [name for name in named.values() if name not in OPTIONAL]
    return Format(
        name="arena-kit",
        title="columns as they were named" if columns else "battles under our own names",
        follows="arena-kit 0.1",
        needs=(columns.model_a, columns.model_b, columns.winner, *asked),
        also=(*optional.values(), *TEXTS),
        battles={
            "model_a": column_name(columns.model_a),
            "model_b": column_name(columns.model_b),
            "winner": columns.outcome(),
            **{name: column_name(column) for name, column in optional.items()},
        },
        texts={name: column_name(name) for name in TEXTS},
        left_out=columns.no_outcome(),
    )


OWN = mapped(Columns())
