"""MT-bench: judgments of pairs in both orders, grades of single answers, and people's votes."""

from __future__ import annotations

from arena_kit.battles.readers.conversations import TEXTS
from arena_kit.battles.readers.format import Format
from arena_kit.battles.readers.scores import BATTLES, ERRORS, NOTE, REFUSED, pairs_of_scores
from arena_kit.battles.readers.settling import settled, unknown_verdict

_WORDS = ("model_1", "model_2", "tie", "error")
_JUDGED = {
    "question_id": "question_id",
    "judge_model": "CASE WHEN starts_with(judge, '[') THEN judge->>'$[0]' ELSE judge END",
    "timestamp": "tstamp",
    "source": "'llm-judge'",
}
_BY_JUDGE = "ends_with(judge, '_pair')"
_BY_PERSON = "regexp_matches(judge, '^(expert|author)_')"
_FLIPPED = "winner = 'tie (inconsistent)'"

PAIRS = Format(
    name="mt-bench-pairs",
    title="MT-bench pair judgments",
    follows="FastChat at 007ecd0, llm_judge/common.py",
    needs=("question_id", "model_1", "model_2", "g1_winner", "g2_winner", "judge"),
    also=("turn", "tstamp"),
    battles={
        "model_a": "model_1",
        "model_b": "model_2",
        **settled(
            "g1_winner", "g2_winner", {"model_1": "model_a", "model_2": "model_b", "tie": "tie"}
        ),
        **_JUDGED,
    },
    texts={"turns": "turn"},
    refused={**unknown_verdict("g1_winner", _WORDS), **unknown_verdict("g2_winner", _WORDS)},
    left_out={"judgments with an error": "'error' IN (g1_winner, g2_winner)"},
)

GRADES = Format(
    name="mt-bench-grades",
    title="MT-bench grades of single answers",
    follows="FastChat at 007ecd0, llm_judge/common.py",
    needs=("question_id", "model", "score", "judge", "turn"),
    battles={**BATTLES, "judge_model": _JUDGED["judge_model"], "source": _JUDGED["source"]},
    rows=pairs_of_scores("judge", "turn"),
    row="later",
    refused=REFUSED,
    left_out=ERRORS,
    note=NOTE,
)

VOTES = Format(
    name="mt-bench-votes",
    title="MT-bench votes",
    follows="lmsys/mt_bench_human_judgments at f7d2896",
    needs=("question_id", "model_a", "model_b", "winner", "judge", "turn"),
    also=("conversation_a", "conversation_b"),
    battles={
        "model_a": "model_a",
        "model_b": "model_b",
        "winner": f"CASE WHEN {_FLIPPED} THEN 'tie' ELSE winner END",
        "inconsistent": _FLIPPED,
        "question_id": "question_id",
        "source": f"CASE WHEN {_BY_JUDGE} THEN 'llm-judge' WHEN {_BY_PERSON} THEN 'human' END",
        "voter": f"CASE WHEN NOT {_BY_JUDGE} THEN judge END",
        "judge_model": f"CASE WHEN {_BY_JUDGE} THEN judge END",
    },
    texts={**TEXTS, "turns": "turn"},
)
