"""Votes that arenas publish: FastChat, LMArena, compar:IA, and the voters of MT-bench."""

from arena_kit.battles.readers.format import Format, same

# What was said in a conversation, as SQL over its JSON text

_HIGH = r"\\u([dD][89abAB][0-9a-fA-F]{2})"
_LOW = r"\\u([dD][c-fC-F][0-9a-fA-F]{2})"
_LONE = r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"


def _mended(text: str) -> str:
    """A JSON text whose lone surrogates, which JSON forbids, are replaced."""
    pairs = rf"regexp_replace({text}, '{_HIGH}{_LOW}', chr(1) || '\1' || chr(2) || '\2', 'g')"
    whole = rf"regexp_replace({pairs}, '{_LONE}', '\\ufffd', 'g')"
    again = rf"regexp_replace({whole}, chr(1) || '(....)' || chr(2), '\\u\1\\u', 'g')"
    return f"CASE WHEN json_valid({text}) THEN {text} ELSE {again} END"


def _roles(conversation: str) -> str:
    return f"json_extract_string({conversation}, '$[*].role')"


def _said(conversation: str, place: int, turns: str = "0") -> str:
    """The message at a place, where a conversation is one plain question and one plain answer; else
    all of it, up to a turn, as a cell that `content.read_cell` divides.
    """
    kinds = f"json_type({conversation}, ['$[0].content', '$[1].content'])"
    text = f"({conversation}->>'$[{place}].content')"
    single = f"{_roles(conversation)} = ['user', 'assistant'] AND {kinds} = ['VARCHAR', 'VARCHAR']"
    whole = f"'{{\"conversation\":' || {conversation} || ',\"turns\":' || {turns} || '}}'"
    return f"CASE WHEN {single} AND NOT starts_with({text}, '{{\"') THEN {text} ELSE {whole} END"


def _spoken(turns: str = "0") -> dict[str, str]:
    """The prompt, the response of each side, and the user's messages, from the columns
    conversation_a and conversation_b, whose messages are {role, content}.
    """
    return {
        "prompt": _said("conversation_a", 0, turns),
        "response_a": _said("conversation_a", 1, turns),
        "response_b": _said("conversation_b", 1, turns),
        "turns": f"len(list_filter({_roles('conversation_a')}, lambda role: role = 'user'))",
    }


def _listed(name: str) -> str:
    """The one text of a list; of several, all that was said on that side."""
    answers = _mended("response_a" if name == "prompt" else name)
    whole = (
        f'\'{{"conversation":{{"user":\' || {_mended("prompt")} || \',"assistant":\' || {answers}'
    )
    text = f"({_mended(name)}->>'$[0]')"
    single = f"json_array_length({_mended('prompt')}) = 1 AND NOT starts_with({text}, '{{\"')"
    return f"CASE WHEN coalesce({single}, true) THEN {text} ELSE {whole} || '}}}}' END"


_CONVERSATIONS = _spoken()
_SPOKEN = {**_CONVERSATIONS, **same("language")}

# FastChat and LMArena

_SIDES = same("model_a", "model_b") | {"source": "'human'"}
_VOTES = _SIDES | same("winner") | {"voter": "judge", "timestamp": "tstamp"}
#: Votes that arenas leave out of their own ratings.
_NAMES_SHOWN = {"votes with the models' names shown (anony is false)": "lower(anony) = 'false'"}
_CLEAN = ("model_a", "model_b", "winner", "judge", "turn", "anony", "tstamp")
_ONE_HOT = ("winner_model_a", "winner_model_b", "winner_tie")
_NUMBERS = [f"try_cast({name} AS DOUBLE)" for name in _ONE_HOT]
_LISTS = ("prompt", "response_a", "response_b")
_TALKS = ("model_a", "model_b", "winner", "conversation_a", "conversation_b")

# The arena compar:IA of the French ministry of culture

_YES, _NO = "('true', '1', '1.0')", "('false', '0', '0.0')"
_EQUAL = f"coalesce(lower(both_equal) IN {_YES}, false)"

# The people and the judge of MT-bench

_BY_JUDGE = "ends_with(judge, '_pair')"
_BY_PERSON = "regexp_matches(judge, '^(expert|author)_')"
_FLIPPED = "winner = 'tie (inconsistent)'"

ARENAS = (
    Format(
        "fastchat", "FastChat clean_battle", needs=_CLEAN, also=("language",), battles=_VOTES,
        texts=same("language") | {"turns": "turn"}, left_out=_NAMES_SHOWN,
    ),
    Format(
        "fastchat-conversations", "Chatbot Arena conversations",
        needs=(*_CLEAN, "question_id", "conversation_a", "conversation_b"), also=("language",),
        battles=_VOTES | same("question_id"), texts=_SPOKEN, left_out=_NAMES_SHOWN,
    ),
    Format(
        "lmarena-55k", "LMArena human preference 55k",
        needs=("id", "model_a", "model_b", *_LISTS, *_ONE_HOT), battles=_SIDES | {
            "battle_id": "id",
            "winner": f"CASE 1 WHEN {_NUMBERS[0]} THEN 'model_a' "
            f"WHEN {_NUMBERS[1]} THEN 'model_b' ELSE 'tie' END",
        },
        texts={
            **{name: _listed(name) for name in _LISTS},
            "turns": f"json_array_length({_mended('prompt')})",
        },
        refused={
            f"not one of {', '.join(_ONE_HOT)} is 1 and the others 0": "list_sort("
            f"[{', '.join(_NUMBERS)}]) IS DISTINCT FROM [0.0, 0.0, 1.0]"
        },
        note="votes that both were bad count as ties here, for the file has no name of their own",
    ),
    Format(
        "lmarena-100k", "LMArena human preference 100k",
        needs=("question_id", *_TALKS, "tstamp", "judge_hash"), also=("language", "anony"),
        battles=_VOTES | same("question_id") | {"voter": "judge_hash"}, texts=_SPOKEN,
        left_out=_NAMES_SHOWN,
    ),
    Format(
        "lmarena-140k", "LMArena human preference 140k",
        needs=("id", *_TALKS, "full_conversation", "evaluation_order"),
        also=("evaluation_session_id", "language", "timestamp"),
        battles=_SIDES | same("winner", "timestamp")
        | {"battle_id": "id", "session": "evaluation_session_id"},
        texts=_SPOKEN | {"turns": "json_array_length(full_conversation)"},
    ),
    Format(
        "comparia", "compar:IA votes",
        needs=("id", "timestamp", "model_a_name", "model_b_name", "chosen_model_name",
               "both_equal"),
        also=("conversation_a", "conversation_b"), battles={
            "model_a": "model_a_name", "model_b": "model_b_name", "battle_id": "id",
            "winner": f"CASE WHEN {_EQUAL} THEN 'tie' WHEN chosen_model_name = model_a_name "
            "THEN 'model_a' ELSE 'model_b' END",
            "timestamp": "timestamp", "source": "'human'",
        },
        texts=_CONVERSATIONS, refused={
            "both_equal is not true or false": f"NOT (lower(both_equal) IN {_YES} "
            f"OR lower(both_equal) IN {_NO})",
            "both_equal is true, and a model is chosen": f"{_EQUAL} AND chosen_model_name <> ''",
            "chosen_model_name is neither of the two models": "chosen_model_name <> '' "
            "AND chosen_model_name NOT IN (model_a_name, model_b_name)",
        },
        left_out={
            "rows without a vote": f"NOT {_EQUAL} AND coalesce(chosen_model_name, '') = ''",
            "battles of a model with itself": "model_a_name = model_b_name",
        },
    ),
    Format(
        "mt-bench-votes", "MT-bench votes",
        needs=("question_id", "model_a", "model_b", "winner", "judge", "turn"),
        also=("conversation_a", "conversation_b"),
        battles=same("model_a", "model_b", "question_id") | {
            "winner": f"CASE WHEN {_FLIPPED} THEN 'tie' ELSE winner END",
            "inconsistent": _FLIPPED,
            "source": f"CASE WHEN {_BY_JUDGE} THEN 'llm-judge' WHEN {_BY_PERSON} THEN 'human' END",
            "voter": f"CASE WHEN NOT {_BY_JUDGE} THEN judge END",
            "judge_model": f"CASE WHEN {_BY_JUDGE} THEN judge END",
        },
        texts=_spoken("coalesce(try_cast(turn AS INTEGER), 0)") | {"turns": "turn"},
    ),
)  # fmt: skip
