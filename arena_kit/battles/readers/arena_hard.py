"""Judgments of Arena-Hard-Auto: a model against the baseline, graded, in both orders."""

from __future__ import annotations

from arena_kit.battles.readers.format import Format

#: What A takes of the win by each verdict, and how often Arena-Hard counts it.
_GRADES = {
    "A>>B": (1.0, 3),
    "A>B": (1.0, 1),
    "A=B": (0.5, 1),
    "B>A": (0.0, 1),
    "B>>A": (0.0, 3),
    "A<<B": (0.0, 3),
    "A<B": (0.0, 1),
    "B=A": (0.5, 1),
    "B<A": (1.0, 1),
    "B<<A": (1.0, 3),
}


_ALLOWED = ", ".join(f"'{verdict}'" for verdict in _GRADES)


def _grade(game: str, part: int) -> str:
    cases = " ".join(f"WHEN '{verdict}' THEN {grade[part]}" for verdict, grade in _GRADES.items())
    return f"(CASE {game} {cases} END)"


_SCORES = "games->>['$[0].score', '$[1].score']"
_FIRST, _SECOND = f"(1 - {_grade('first', 0)})", _grade("second", 0)  # first, A is the baseline
_WEIGHTS = _grade("first", 1), _grade("second", 1)
_SHARE = f"(({_FIRST} * {_WEIGHTS[0]} + {_SECOND} * {_WEIGHTS[1]}) / ({' + '.join(_WEIGHTS)}))"
_CONTRADICTING = f"(abs({_FIRST} - {_SECOND}) = 1)"

JUDGMENTS = Format(
    name="arena-hard",
    title="Arena-Hard judgments",
    follows="arena-hard-auto 2.0, show_result.py",
    needs=("uid", "judge", "model", "baseline", "games"),
    also=("category",),
    battles={
        "model_a": "model",
        "model_b": "baseline",
        "winner": f"CASE WHEN {_CONTRADICTING} THEN 'tie' WHEN {_SHARE} > 0.5 THEN 'model_a' "
        f"WHEN {_SHARE} < 0.5 THEN 'model_b' ELSE 'tie' END",
        "share_a": f"CASE WHEN {_SHARE} NOT IN (0, 0.5, 1) THEN {_SHARE} END",
        "inconsistent": _CONTRADICTING,
        "question_id": "uid",
        "dimension": "category",
        "judge_model": "judge",
        "source": "'llm-judge'",
    },
    rows=f"(SELECT rowid AS judgment, scores[1] AS first, scores[2] AS second, * "
    f"FROM (SELECT rowid, {_SCORES} AS scores, * FROM file))",
    row="judgment",
    refused={
        "games is not a list of two games": "CASE WHEN json_valid(games) THEN "
        "coalesce(json_array_length(games), 0) <> 2 ELSE true END",
        f"a game's score is none of {', '.join(_GRADES)}": f"len(list_filter({_SCORES}, "
        f"lambda score: score NOT IN ({_ALLOWED}))) > 0",
    },
    left_out={"judgments with a game that has no verdict": "first IS NULL OR second IS NULL"},
    note="a model's share is the mean of both games in which a strong verdict counts three times, "
    "as Arena-Hard counts it; games that name different winners are inconsistent",
)
