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


def _grade(game: int, part: int) -> str:
    cases = " ".join(f"WHEN '{verdict}' THEN {grade[part]}" for verdict, grade in _GRADES.items())
    return f"(CASE {_verdict(game)} {cases} END)"


def _verdict(game: int) -> str:
    return f"games->>'$[{game}].score'"


def _unknown(game: int) -> str:
    allowed = ", ".join(f"'{verdict}'" for verdict in _GRADES)
    return f"{_verdict(game)} NOT IN ({allowed})"


_FIRST, _SECOND = f"(1 - {_grade(0, 0)})", _grade(1, 0)  # in the first game, A is the baseline
_SHARE = (
    f"(({_FIRST} * {_grade(0, 1)} + {_SECOND} * {_grade(1, 1)}) / "
    f"({_grade(0, 1)} + {_grade(1, 1)}))"
)
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
    refused={
        "games is not a list of two games": "CASE WHEN json_valid(games) THEN "
        "coalesce(json_array_length(games), 0) <> 2 ELSE true END",
        f"a game's score is none of {', '.join(_GRADES)}": f"{_unknown(0)} OR {_unknown(1)}",
    },
    left_out={
        "judgments with a game that has no verdict": f"{_verdict(0)} IS NULL "
        f"OR {_verdict(1)} IS NULL"
    },
    note="a model's share is the mean of both games in which a strong verdict counts three times, "
    "as Arena-Hard counts it; games that name different winners are inconsistent",
)
