"""Votes of LMArena as it publishes them: 55k (CSV), 100k and 140k (Parquet)."""

from __future__ import annotations

from arena_kit.battles.readers.conversations import TEXTS, mended
from arena_kit.battles.readers.fastchat import NAMES_SHOWN
from arena_kit.battles.readers.format import Format

_SIDES = {"model_a": "model_a", "model_b": "model_b", "source": "'human'"}
_ONE_HOT = ("winner_model_a", "winner_model_b", "winner_tie")
_NUMBERS = [f"try_cast({name} AS DOUBLE)" for name in _ONE_HOT]
_LISTS = ("prompt", "response_a", "response_b")

VOTES_55K = Format(
    name="lmarena-55k",
    title="LMArena human preference 55k",
    follows="lmsys/lmsys-arena-human-preference-55k, its data card in 2026",
    needs=("id", "model_a", "model_b", *_LISTS, *_ONE_HOT),
    battles=_SIDES
    | {
        "battle_id": "id",
        "winner": f"CASE 1 WHEN {_NUMBERS[0]} THEN 'model_a' WHEN {_NUMBERS[1]} THEN 'model_b' "
        "ELSE 'tie' END",
    },
    texts={
        **{name: f"{mended(name)}->>'$[0]'" for name in _LISTS},
        "turns": f"json_array_length({mended('prompt')})",
    },
    refused={
        f"not one of {', '.join(_ONE_HOT)} is 1 and the others 0": (
            f"list_sort([{', '.join(_NUMBERS)}]) IS DISTINCT FROM [0.0, 0.0, 1.0]"
        )
    },
    note="votes that both were bad count as ties here, for the file has no name of their own",
)

VOTES_100K = Format(
    name="lmarena-100k",
    title="LMArena human preference 100k",
    follows="lmarena-ai/arena-human-preference-100k, its data card in 2026",
    needs=(
        "question_id",
        "model_a",
        "model_b",
        "winner",
        "conversation_a",
        "conversation_b",
        "tstamp",
        "judge_hash",
    ),
    also=("language", "anony"),
    battles=_SIDES
    | {
        "winner": "winner",
        "question_id": "question_id",
        "voter": "judge_hash",
        "timestamp": "tstamp",
    },
    texts={**TEXTS, "language": "language"},
    left_out=NAMES_SHOWN,
)

VOTES_140K = Format(
    name="lmarena-140k",
    title="LMArena human preference 140k",
    follows="lmarena-ai/arena-human-preference-140k at 6322995",
    needs=(
        "id",
        "model_a",
        "model_b",
        "winner",
        "conversation_a",
        "conversation_b",
        "full_conversation",
        "evaluation_order",
    ),
    also=("evaluation_session_id", "language", "timestamp"),
    battles=_SIDES
    | {
        "winner": "winner",
        "battle_id": "id",
        "session": "evaluation_session_id",
        "timestamp": "timestamp",
    },
    texts={**TEXTS, "language": "language", "turns": "json_array_length(full_conversation)"},
)
