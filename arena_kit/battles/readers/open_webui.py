"""Feedback of Open WebUI: one model's answer rated up or down beside others' answers."""

from __future__ import annotations

from arena_kit.battles.readers.format import Format

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
_OTHER = (
    f"list_filter({_MESSAGES}, lambda y: y->>'$.parentId' = {_PARENT} "
    "AND coalesce(y->>'$.selectedModelId', y->>'$.model') = sibling)[1]"
)

FEEDBACK = Format(
    name="open-webui",
    title="Open WebUI feedback",
    follows="Open WebUI 0.6, routers/evaluations.py",
    needs=("type", "data", "meta", "user_id", "created_at"),
    also=("snapshot",),
    battles={
        "model_a": _MODEL,
        "model_b": "sibling",
        "winner": f"CASE {_RATING} WHEN '1' THEN 'model_a' ELSE 'model_b' END",
        "question_id": "meta->>'$.chat_id'",
        "voter": "user_id",
        "timestamp": "created_at",
        "source": "'human'",
    },
    texts={
        "prompt": f"{_ASKED}->>'$.content'",
        "response_a": f"{_RATED}->>'$.content'",
        "response_b": f"{_OTHER}->>'$.content'",
    },
    rows=f"(SELECT rowid AS feedback, unnest(CASE WHEN len({_OTHERS}) > 0 THEN {_OTHERS} "
    "ELSE [NULL] END) AS sibling, * FROM file)",
    row="feedback",
    refused={
        "data or meta is not an object": "json_type(CASE WHEN json_valid(data) THEN data END) IS "
        "DISTINCT FROM 'OBJECT' OR coalesce(json_type(CASE WHEN json_valid(meta) THEN meta END), "
        "'OBJECT') <> 'OBJECT'"
    },
    left_out={
        "entries that are no rating of 1 or -1": _NO_RATING,
        "ratings of one model alone": f"sibling IS NULL AND NOT ({_NO_RATING})",
    },
    note="a model rated 1 beats each model beside it and one rated -1 loses to each, as Open WebUI "
    "counts them; the prompt has no id, so a chat counts as one question",
)
