"""What was said in a conversation, as SQL over its JSON text."""

from __future__ import annotations

_HIGH = r"\\u([dD][89abAB][0-9a-fA-F]{2})"
_LOW = r"\\u([dD][c-fC-F][0-9a-fA-F]{2})"
_LONE = r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"


def mended(text: str) -> str:
    """A JSON text whose lone surrogates, which JSON forbids, are replaced."""
    pairs = rf"regexp_replace({text}, '{_HIGH}{_LOW}', chr(1) || '\1' || chr(2) || '\2', 'g')"
    whole = rf"regexp_replace({pairs}, '{_LONE}', '\\ufffd', 'g')"
    again = rf"regexp_replace({whole}, chr(1) || '(....)' || chr(2), '\\u\1\\u', 'g')"
    return f"CASE WHEN json_valid({text}) THEN {text} ELSE {again} END"


def _roles(conversation: str) -> str:
    return f"json_extract_string({conversation}, '$[*].role')"


def _first(conversation: str, role: str) -> str:
    place = f"list_position({_roles(conversation)}, '{role}')"
    content = f"json_extract({conversation}, '$[' || (nullif({place}, 0) - 1) || '].content')"
    joined = f"array_to_string(json_extract_string({content}, '$[*].text'), chr(10))"
    return f"CASE json_type({content}) WHEN 'ARRAY' THEN {joined} ELSE {content}->>'$' END"


#: The first message of the user, the first answer of each side, and the user's messages, from the
#: columns conversation_a and conversation_b. A message is {role, content}; the content is a text,
#: or a list of parts {type, text} of which the texts count.
TEXTS = {
    "prompt": _first("conversation_a", "user"),
    "response_a": _first("conversation_a", "assistant"),
    "response_b": _first("conversation_b", "assistant"),
    "turns": f"len(list_filter({_roles('conversation_a')}, lambda role: role = 'user'))",
}
