"""Annotations of AlpacaEval: a preference between two outputs, as a number from 1 to 2."""

from __future__ import annotations

from arena_kit.battles.readers.format import Format

_NUMBER = "try_cast(preference AS DOUBLE)"
_PREFERENCE = f"(CASE WHEN {_NUMBER} = 0 THEN 1.5 ELSE {_NUMBER} END)"  # 0 is an older draw

ANNOTATIONS = Format(
    name="alpaca-eval",
    title="AlpacaEval annotations",
    follows="alpaca_eval 0.6, metrics/glm_winrate.py",
    needs=("instruction", "generator_1", "generator_2", "preference"),
    also=("output_1", "output_2", "annotator"),
    battles={
        "model_a": "generator_1",
        "model_b": "generator_2",
        "winner": f"CASE WHEN {_PREFERENCE} < 1.5 THEN 'model_a' "
        f"WHEN {_PREFERENCE} > 1.5 THEN 'model_b' ELSE 'tie' END",
        "share_a": f"CASE WHEN {_PREFERENCE} NOT IN (1, 1.5, 2) THEN 2 - {_PREFERENCE} END",
        "question_id": "left(md5(instruction), 16)",
        "judge_model": "annotator",
        "source": "'llm-judge'",
    },
    texts={"prompt": "instruction", "response_a": "output_1", "response_b": "output_2"},
    refused={
        "preference is not a number from 1 to 2": f"preference IS NOT NULL AND {_NUMBER} IS "
        f"DISTINCT FROM -1 AND NOT coalesce({_PREFERENCE} BETWEEN 1 AND 2, false)"
    },
    left_out={"annotations without a preference": f"preference IS NULL OR {_NUMBER} = -1"},
    note="a question is known by its text",
)
