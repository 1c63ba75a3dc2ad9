"""Votes of Chatbot Arena as FastChat cleans them, and the release with conversations."""

from __future__ import annotations

from arena_kit.battles.readers.conversations import TEXTS
from arena_kit.battles.readers.format import Format

_BATTLES = {
    "model_a": "model_a",
    "model_b": "model_b",
    "winner": "winner",
    "voter": "judge",
    "timestamp": "tstamp",
    "source": "'human'",
}
#: Votes that arenas leave out of their own ratings.
NAMES_SHOWN = {"votes with the models' names shown (anony is false)": "lower(anony) = 'false'"}

CLEAN_BATTLES = Format(
    name="fastchat",
    title="FastChat clean_battle",
    follows="FastChat at 01e89b4, serve/monitor/clean_battle_data.py",
    needs=("model_a", "model_b", "winner", "judge", "turn", "anony", "tstamp"),
    also=("language",),
    battles=_BATTLES,
    texts={"language": "language", "turns": "turn"},
    left_out=NAMES_SHOWN,
)

CONVERSATIONS = Format(
    name="fastchat-conversations",
    title="Chatbot Arena conversations",
    follows="lmsys/chatbot_arena_conversations, its data card in 2026",
    needs=(*CLEAN_BATTLES.needs, "question_id", "conversation_a", "conversation_b"),
    also=CLEAN_BATTLES.also,
    battles=_BATTLES | {"question_id": "question_id"},
    texts={**TEXTS, "language": "language"},
    left_out=NAMES_SHOWN,
)
