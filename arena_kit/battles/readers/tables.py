"""Pair counts, scores of models on questions, and the comparisons of evalica and crowd-kit."""

from typing import Any

from arena_kit.battles.readers.format import Format, outcome_of, same

# Pair counts: how published arenas share many votes in a small file

_COUNTS = ("a_wins", "b_wins")
_FURTHER_COUNTS = ("tie", "ties", "both_bad", "tie_bothbad")
_VOTES = "a_wins, b_wins, coalesce(tie, ties), coalesce(both_bad, tie_bothbad)"
_OUTCOMES = "'model_a', 'model_b', 'tie', 'both_bad'"


def _missing(count: str) -> str:
    """A hole is no zero; only a column that nobody fills may be missing."""
    filled = "true" if count in _COUNTS else f"(SELECT count({count}) FROM file) > 0"
    return f"{count} IS NULL AND {filled}"


def _wrong(count: str) -> str:
    number = f"try_cast({count} AS DOUBLE)"
    return f"{count} IS NOT NULL AND NOT coalesce(isfinite({number}) AND {number} >= 0, false)"


_EVERY_COUNT = (*_COUNTS, *_FURTHER_COUNTS)

# Scores: models with a score on the same question have met


def pairs_of_scores(*equal: str) -> str:
    """The rows of all pairs of scores on the same question, in the file's order; `equal` are
    further columns in which both rows have to agree.
    """
    agree = "".join(f" AND x.{name} IS NOT DISTINCT FROM y.{name}" for name in equal)
    kept = "".join(f", y.{name}" for name in equal)
    return (
        "(SELECT y.question_id, x.model AS model_a, y.model AS model_b, y.rowid AS later, "
        f"x.rowid AS earlier, x.score::DOUBLE AS score_a, y.score::DOUBLE AS score_b{kept} "
        f"FROM file AS x JOIN file AS y ON x.question_id = y.question_id{agree} "
        "AND x.rowid < y.rowid ORDER BY later, earlier)"
    )


#: Battles of `pairs_of_scores`, and what every format of scores has besides.
PAIRS_BY_SCORE = {
    **same("model_a", "model_b", "question_id"),
    "winner": "CASE WHEN score_a > score_b THEN 'model_a' WHEN score_a < score_b THEN 'model_b' "
    "ELSE 'tie' END",
}
BY_SCORE: dict[str, Any] = {
    "row": "later",
    "refused": {
        "question_id is missing": "question_id IS NULL",
        "score is not a finite number": "NOT coalesce(isfinite(try_cast(score AS DOUBLE)), false)",
    },
    "note": "the higher score wins and equal scores tie, so how far scores lie apart is not used",
}
_SHARED = ("dimension", "judge_model", "source")

TABLES = (
    Format(
        "pair-counts",
        "pair counts",
        needs=("model_a", "model_b", *_COUNTS),
        also=_FURTHER_COUNTS,
        battles=same("model_a", "model_b", "winner") | {"weight": "votes", "source": "'human'"},
        rows="(SELECT * FROM (SELECT rowid AS pair, model_a, model_b, "
        f"unnest([{_OUTCOMES}]) AS winner, unnest([{_VOTES}]) AS votes FROM file) "
        "WHERE votes::DOUBLE > 0)",
        row="pair",
        refused={
            **{f"{count} is missing": _missing(count) for count in _EVERY_COUNT},
            **{f"{count} is not a finite number >= 0": _wrong(count) for count in _EVERY_COUNT},
            "model_a is missing": "model_a IS NULL",
            "model_b is missing": "model_b IS NULL",
            "both tie and ties are given": "tie IS NOT NULL AND ties IS NOT NULL",
            "both both_bad and tie_bothbad are given": "both_bad IS NOT NULL "
            "AND tie_bothbad IS NOT NULL",
        },
        note="each pair and outcome is one battle with the number of its votes as weight",
    ),
    Format(
        "evalica",
        "evalica comparisons",
        needs=("left", "right", "winner"),
        battles={
            "model_a": '"left"',
            "model_b": '"right"',
            "winner": outcome_of("winner", "winner", model_a="left", model_b="right"),
        },
    ),
    Format(
        "crowd-kit",
        "crowd-kit comparisons",
        needs=("left", "right", "label"),
        also=("worker",),
        battles={
            "model_a": '"left"',
            "model_b": '"right"',
            "winner": "CASE label WHEN \"left\" THEN 'model_a' ELSE 'model_b' END",
            "voter": "worker",
            "source": "'human'",
        },
        refused={
            "label is neither left nor right": '"left" <> "right" AND '
            'coalesce(label, \'\') NOT IN ("left", "right")'
        },
    ),
    Format(
        "scores",
        "score table",
        needs=("question_id", "model", "score"),
        also=_SHARED,
        battles=PAIRS_BY_SCORE | same(*_SHARED),
        rows=pairs_of_scores(*_SHARED),
        **BY_SCORE,
    ),
)
