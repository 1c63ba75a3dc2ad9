"""Votes of compar:IA, the arena of the French ministry of culture."""

from __future__ import annotations

from arena_kit.battles.readers.conversations import TEXTS
from arena_kit.battles.readers.format import Format

_YES, _NO = "('true', '1', '1.0')", "('false', '0', '0.0')"
_EQUAL = f"coalesce(lower(both_equal) IN {_YES}, false)"

COMPARIA = Format(
    name="comparia",
    title="compar:IA votes",
    follows="ministere-culture/comparia-votes, its data card in 2026",
    needs=("id", "timestamp", "model_a_name", "model_b_name", "chosen_model_name", "both_equal"),
    also=("conversation_a", "conversation_b"),
    battles={
        "model_a": "model_a_name",
        "model_b": "model_b_name",
        "winner": f"CASE WHEN {_EQUAL} THEN 'tie' WHEN chosen_model_name = model_a_name "
        "THEN 'model_a' ELSE 'model_b' END",
        "battle_id": "id",
        "timestamp": "timestamp",
        "source": "'human'",
    },
    texts=TEXTS,
    refused={
        "both_equal is not true or false": (
            f"NOT (lower(both_equal) IN {_YES} OR lower(both_equal) IN {_NO})"
        ),
        "both_equal is true, and a model is chosen": f"{_EQUAL} AND chosen_model_name <> ''",
        "chosen_model_name is neither of the two models": (
            "chosen_model_name <> '' AND chosen_model_name NOT IN (model_a_name, model_b_name)"
        ),
    },
    left_out={
        "rows without a vote": f"NOT {_EQUAL} AND coalesce(chosen_model_name, '') = ''",
        "battles of a model with itself": "model_a_name = model_b_name",
    },
)
