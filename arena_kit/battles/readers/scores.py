"""Score tables: a row per question and model; models with a score on a question have met."""

from __future__ import annotations

from collections.abc import Mapping

from arena_kit.battles.readers.format import Format

NOTE = "the higher score wins and equal scores tie, so how far scores lie apart is not used"


def pairs_of_scores(*same: str) -> str:
    """The rows of all pairs of scores on the same question, in the file's order; `same` are
    further columns in which both rows have to agree.
    """
    agree = "".join(f" AND x.{name} IS NOT DISTINCT FROM y.{name}" for name in same)
    kept = "".join(f", y.{name}" for name in same)
    return (
        "(SELECT y.question_id, x.model AS model_a, y.model AS model_b, y.rowid AS later, "
        f"x.rowid AS earlier, x.score::DOUBLE AS score_a, y.score::DOUBLE AS score_b{kept} "
        f"FROM file AS x JOIN file AS y ON x.question_id = y.question_id{agree} "
        "AND x.rowid < y.rowid ORDER BY later, earlier)"
    )


BATTLES: Mapping[str, str] = {
    "model_a": "model_a",
    "model_b": "model_b",
    "winner": "CASE WHEN score_a > score_b THEN 'model_a' WHEN score_a < score_b THEN 'model_b' "
    "ELSE 'tie' END",
    "question_id": "question_id",
}
REFUSED: Mapping[str, str] = {
    "question_id is missing": "question_id IS NULL",
    "score is not a finite number": "NOT coalesce(isfinite(try_cast(score AS DOUBLE)), false)",
}
#: A judge's grade that could not be read, as FastChat and evalscope note it.
ERRORS: Mapping[str, str] = {"pairs with an error for a grade (-1)": "-1 IN (score_a, score_b)"}

SCORES = Format(
    name="scores",
    title="score table",
    follows="a row per question_id and model",
    needs=("question_id", "model", "score"),
    also=("dimension", "judge_model", "source"),
    battles={**BATTLES, **{name: name for name in ("dimension", "judge_model", "source")}},
    rows=pairs_of_scores("dimension", "judge_model", "source"),
    row="later",
    refused=REFUSED,
    note=NOTE,
)
