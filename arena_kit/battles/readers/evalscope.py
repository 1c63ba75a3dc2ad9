"""Reviews of evalscope's arena mode: a judge in both orders, or in one."""

from __future__ import annotations

from arena_kit.battles.readers import scores
from arena_kit.battles.readers.format import Format
from arena_kit.battles.readers.settling import settled, unknown_verdict

_OUTCOMES = {"model_a": "model_a", "model_b": "model_b", "tie": "tie", "tie_both_bad": "both_bad"}
_WORDS = (*_OUTCOMES, "unknown")
_BATTLES = {
    "model_a": "model_a",
    "model_b": "model_b",
    "question_id": "question_id",
    "timestamp": "tstamp",
    "source": "'llm-judge'",
}
_TEXTS = {"prompt": "question", "language": "language"}
_FOLLOWS = "evalscope at 2f941a6, evaluator/reviewer/auto_reviewer.py"

BOTH_ORDERS = Format(
    name="evalscope",
    title="evalscope arena reviews",
    follows=_FOLLOWS,
    needs=("model_a", "model_b", "win_1", "win_2", "question_id", "tstamp"),
    also=("question", "language"),
    battles={**_BATTLES, **settled("win_1", "win_2", _OUTCOMES)},
    texts=_TEXTS,
    refused={**unknown_verdict("win_1", _WORDS), **unknown_verdict("win_2", _WORDS)},
    left_out={"reviews without a verdict": "'unknown' IN (win_1, win_2)"},
)

ONE_ORDER = Format(
    name="evalscope-one-order",
    title="evalscope arena reviews in one order",
    follows=_FOLLOWS,
    needs=("model_a", "model_b", "win", "question_id", "tstamp"),
    also=BOTH_ORDERS.also,
    battles={**_BATTLES, "winner": "CASE win WHEN 'tie_both_bad' THEN 'both_bad' ELSE win END"},
    texts=_TEXTS,
    refused=unknown_verdict("win", _WORDS),
    left_out={"reviews without a verdict": "win = 'unknown'"},
    note="each pair was judged in one order only, so what a judge gives for a place is in it",
)

GRADES = Format(
    name="evalscope-grades",
    title="evalscope arena grades of single answers",
    follows=_FOLLOWS,
    needs=("question_id", "model", "score", "review_text", "tstamp"),
    battles={**scores.BATTLES, "source": "'llm-judge'"},
    rows=scores.pairs_of_scores(),
    row="later",
    refused=scores.REFUSED,
    left_out=scores.ERRORS,
    note=scores.NOTE,
)
