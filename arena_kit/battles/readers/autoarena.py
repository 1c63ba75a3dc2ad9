"""Projects of AutoArena: an SQLite database of responses and head-to-head votes."""

from __future__ import annotations

from functools import partial

from arena_kit.battles.readers.format import Format
from arena_kit.battles.sqlite_tables import query_columns

#: A row per vote, with names and texts in place of ids.
_VOTES = """
SELECT head_to_head.id AS vote, first.name AS name_a, second.name AS name_b, winner,
       judge_type, judge.name AS judge_name, head_to_head.created AS created,
       a.prompt AS prompt, a.response AS response_a, b.response AS response_b
FROM head_to_head
JOIN response AS a ON a.id = response_a_id
JOIN response AS b ON b.id = response_b_id
JOIN model AS first ON first.id = a.model_id
JOIN model AS second ON second.id = b.model_id
JOIN judge ON judge.id = judge_id
ORDER BY head_to_head.id
"""


_BY_PERSON = "judge_type = 'human'"

PROJECT = Format(
    name="autoarena",
    title="AutoArena project",
    follows="AutoArena 0.1, store/migration/000__schema.sql",
    needs=("head_to_head", "response", "model"),
    also=(
        "vote", "name_a", "name_b", "winner", "judge_type", "judge_name", "created",
        "prompt", "response_a", "response_b",
    ),
    battles={
        "model_a": "name_a",
        "model_b": "name_b",
        "winner": "CASE winner WHEN 'A' THEN 'model_a' WHEN 'B' THEN 'model_b' "
        "WHEN '-' THEN 'tie' ELSE winner END",
        "question_id": "left(md5(prompt), 16)",
        "battle_id": "vote",
        "source": f"CASE WHEN {_BY_PERSON} THEN 'human' ELSE 'llm-judge' END",
        "judge_model": f"CASE WHEN NOT {_BY_PERSON} THEN judge_name END",
        "timestamp": "created",
    },
    texts={"prompt": "prompt", "response_a": "response_a", "response_b": "response_b"},
    load=partial(query_columns, query=_VOTES),
    note="a question is known by its text; people are one judge, not told apart",
)  # fmt: skip
