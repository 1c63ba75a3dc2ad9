"""Battles of orq-arena: two models' answers before a panel of judges."""

from __future__ import annotations

from arena_kit.battles.readers.format import Format

_VERDICTS = ("A", "B", "tie", "inconclusive")
_PANEL = (
    "list_filter(CAST(judge_votes AS JSON[]), "
    "lambda vote: coalesce(vote->>'$.replacement', 'false') <> 'true')"
)

BATTLES = Format(
    name="orq-arena",
    title="orq-arena battles",
    follows="orq-arena, battle records of version 3 and 4",
    needs=("prompt_hash", "model_a", "model_b", "judge_votes", "majority_verdict"),
    also=(
        "model_a_id", "model_b_id", "winner", "error", "timestamp",
        "prompt_text", "response_a", "response_b",
    ),
    battles={
        "model_a": "coalesce(nullif(model_a_id, ''), model_a)",
        "model_b": "coalesce(nullif(model_b_id, ''), model_b)",
        "winner": "CASE majority_verdict WHEN 'A' THEN 'model_a' WHEN 'B' THEN 'model_b' "
        "ELSE 'tie' END",
        "inconsistent": "majority_verdict = 'inconclusive'",
        "question_id": "prompt_hash",
        "judge_model": f"array_to_string(list_sort(list_transform({_PANEL}, "
        "lambda vote: vote->>'$.model')), ', ')",
        "timestamp": "timestamp",
        "source": "'llm-judge'",
    },
    texts={"prompt": "prompt_text", "response_a": "response_a", "response_b": "response_b"},
    refused={
        f"majority_verdict is none of {', '.join(_VERDICTS)}": "coalesce(majority_verdict, '') "
        f"NOT IN {_VERDICTS}",
        "judge_votes is not a list": "json_type(CASE WHEN json_valid(judge_votes) THEN judge_votes "
        "END) IS DISTINCT FROM 'ARRAY'",
    },
    left_out={"rounds that were voided": "winner = 'void' OR coalesce(error, '') <> ''"},
    note="a battle is the panel's majority; a round without one, where judges disagree or change "
    "with the order, is inconsistent",
)  # fmt: skip
