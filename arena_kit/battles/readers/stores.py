"""Stores of votes: Open WebUI's feedback, AutoArena's projects, and our own vote store."""

from functools import partial

from arena_kit.battles.readers.format import Format, outcome_of, same
from arena_kit.battles.readers.vote_chain import verified_columns
from arena_kit.battles.tabular import query_columns

# Open WebUI: one model's answer rated up or down beside others' answers

_MODEL = "data->>'$.model_id'"
_RATING = "data->>'$.rating'"
_OTHERS = (
    "list_filter(CAST(coalesce(data->'$.sibling_model_ids', '[]') AS VARCHAR[]), "
    f"lambda other: other <> {_MODEL})"
)
_NO_RATING = f"type <> 'rating' OR {_MODEL} IS NULL OR coalesce({_RATING}, '') NOT IN ('1', '-1')"
_MESSAGES = "json_extract(snapshot, '$.chat.chat.history.messages.*')"
_RATED = f"list_filter({_MESSAGES}, lambda x: x->>'$.id' = (meta->>'$.message_id'))[1]"
_PARENT = f"({_RATED}->>'$.parentId')"
_ASKED = f"list_filter({_MESSAGES}, lambda y: y->>'$.id' = {_PARENT})[1]"
_HISTORY = "json_extract(snapshot, '$.chat.chat.history.messages')"
_OTHER = (
    f"list_filter({_MESSAGES}, lambda y: y->>'$.parentId' = {_PARENT} "
    "AND coalesce(y->>'$.selectedModelId', y->>'$.model') = sibling)[1]"
)
_FIRST = f"{_ASKED}->>'$.parentId' IS NULL AND NOT starts_with({_ASKED}->>'$.content', '{{\"')"
#: The message that was answered; with what stood before it, or pictures, as `read_cell` takes it.
_PROMPT = (
    f"CASE WHEN {_FIRST} AND coalesce(json_array_length({_ASKED}->'$.files'), 0) = 0 "
    f"THEN {_ASKED}->>'$.content' ELSE '{{\"conversation\":' || json_object("
    f"'history', {_HISTORY}, 'id', {_PARENT}) || '}}' END"
)

#: A row per vote of AutoArena, with names and texts in place of ids.
_HEAD_TO_HEADS = """
SELECT head_to_head.id AS vote, first.name AS name_a, second.name AS name_b, winner, judge_type,
       judge.name AS judge_name, head_to_head.created AS created, a.prompt AS prompt,
       a.response AS response_a, b.response AS response_b
FROM head_to_head
JOIN response AS a ON a.id = response_a_id JOIN model AS first ON first.id = a.model_id
JOIN response AS b ON b.id = response_b_id JOIN model AS second ON second.id = b.model_id
JOIN judge ON judge.id = judge_id
ORDER BY head_to_head.id
"""
_BY_PERSON = "judge_type = 'human'"

#: A row per vote of our own store with its ticket. The last line on a target is whether it is
#: removed: SQLite takes `undone` from the row of the maximum. Rows are verified and indexes are
#: not, so no index is used.
_VOTES = """
WITH
lines AS (SELECT kind || ' ' || target AS target, undone, max(number) FROM removals GROUP BY 1),
drawn AS MATERIALIZED (SELECT ticket, model_a, model_b, prompt, dimension, lane FROM tickets)
SELECT votes.ticket AS ticket, model_a, model_b, choice, prompt AS question, dimension,
       votes.session AS session, votes.voter AS voter, lane,
       strftime('%Y-%m-%dT%H:%M:%S', cast_at / 1000000, 'unixepoch')
       || printf('.%06dZ', cast_at % 1000000) AS cast_at,
       EXISTS (SELECT 1 FROM lines WHERE NOT undone AND target IN (
           'voter ' || votes.voter, 'session ' || votes.session, 'vote ' || votes.ticket
       )) AS is_removed
FROM votes CROSS JOIN drawn ON drawn.ticket = votes.ticket
ORDER BY votes.number
"""

STORES = (
    Format(
        "open-webui", "Open WebUI feedback",
        needs=("type", "data", "meta", "user_id", "created_at"), also=("snapshot",), battles={
            "model_a": _MODEL, "model_b": "sibling", "voter": "user_id",
            "winner": f"CASE {_RATING} WHEN '1' THEN 'model_a' ELSE 'model_b' END",
            "question_id": "meta->>'$.chat_id'",
            "timestamp": "created_at", "source": "'human'",
        },
        texts={
            "prompt": _PROMPT,
            "response_a": f"{_RATED}->>'$.content'",
            "response_b": f"{_OTHER}->>'$.content'",
        },
        rows=f"(SELECT rowid AS feedback, unnest(CASE WHEN len({_OTHERS}) > 0 THEN {_OTHERS} "
        "ELSE [NULL] END) AS sibling, * FROM file)", row="feedback",
        refused={
            "data or meta is not an object": "json_type(CASE WHEN json_valid(data) THEN data END) "
            "IS DISTINCT FROM 'OBJECT' OR coalesce(json_type(CASE WHEN json_valid(meta) THEN meta "
            "END), 'OBJECT') <> 'OBJECT'"
        },
        left_out={
            "entries that are no rating of 1 or -1": _NO_RATING,
            "ratings of one model alone": f"sibling IS NULL AND NOT ({_NO_RATING})",
        },
        note="a model rated 1 beats each model beside it and one rated -1 loses to each, as Open "
        "WebUI counts them; the prompt has no id, so a chat counts as one question",
    ),
    Format(
        "autoarena", "AutoArena project", needs=("head_to_head", "response", "model"),
        also=("vote", "name_a", "name_b", "winner", "judge_type", "judge_name", "created",
              "prompt", "response_a", "response_b"),
        battles={
            "model_a": "name_a", "model_b": "name_b", "battle_id": "vote", "timestamp": "created",
            "winner": outcome_of("winner", "winner", model_a="A", model_b="B", tie="-"),
            "question_id": "left(md5(prompt), 16)",
            "source": f"CASE WHEN {_BY_PERSON} THEN 'human' ELSE 'llm-judge' END",
            "judge_model": f"CASE WHEN NOT {_BY_PERSON} THEN judge_name END",
        },
        texts=same("prompt", "response_a", "response_b"),
        load=partial(query_columns, query=_HEAD_TO_HEADS),
        note="a question is known by its text; people are one judge, not told apart",
    ),
    Format(
        "vote-store", "vote store of arena-kit",
        needs=("arena", "openings", "tickets", "votes", "removals"),
        also=("ticket", "model_a", "model_b", "choice", "question", "dimension", "session",
              "voter", "lane", "cast_at", "is_removed"),
        battles=same("model_a", "model_b", "dimension", "session", "voter", "lane") | {
            "winner": outcome_of("choice", "choice", model_a="A", model_b="B", tie="TIE",
                                 both_bad="BOTH_BAD"),
            "question_id": "question", "battle_id": "ticket", "timestamp": "cast_at",
            "source": "'human'",
        },
        left_out={
            "votes that were removed": "is_removed = '1'",
            "skipped pairs": "choice = 'SKIP' AND is_removed = '0'",
        },
        load=partial(verified_columns, query=_VOTES),
        note="removed votes and skipped pairs are left out, as in an export",
    ),
)  # fmt: skip
