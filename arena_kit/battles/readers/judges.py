"""Verdicts of other tools' judges: MT-bench, evalscope, Arena-Hard, AlpacaEval, JudgeArena,
orq-arena.
"""

from arena_kit.battles.readers.format import Format, outcome_of, same
from arena_kit.battles.readers.tables import BY_SCORE, PAIRS_BY_SCORE, pairs_of_scores


def _settled(first: str, second: str, words: dict[str, str]) -> dict[str, str]:
    """The outcome of two games, each a column: the winner that both name, a tie where both do, and
    else a tie that is inconsistent. `words` are the games' words for our outcomes.
    """
    return {
        "winner": f"CASE WHEN {first} = {second} THEN {outcome_of(first, **words)} ELSE 'tie' END",
        "inconsistent": f"{first} <> {second}",
    }


def _unknown_verdict(words: tuple[str, ...], *games: str) -> dict[str, str]:
    """The sentence on a game that ended in none of these words, and its condition."""
    allowed = ", ".join(f"'{word}'" for word in words)
    return {
        f"{game} is none of {', '.join(words)}": f"{game} IS NULL OR {game} NOT IN ({allowed})"
        for game in games
    }


_BY_JUDGE = {"source": "'llm-judge'"}
#: A judge's grade that could not be read, as FastChat and evalscope note it.
_NO_GRADE = {"pairs with an error for a grade (-1)": "-1 IN (score_a, score_b)"}

# MT-bench

_GAMES = {"model_a": "model_1", "model_b": "model_2", "tie": "tie"}
_JUDGE = "CASE WHEN starts_with(judge, '[') THEN judge->>'$[0]' ELSE judge END"

# evalscope: a judge in both orders, or in one

_WINS = same("model_a", "model_b", "tie") | {"both_bad": "tie_both_bad"}
_WIN_WORDS = (*_WINS.values(), "unknown")
_REVIEWS = same("model_a", "model_b", "question_id") | {"timestamp": "tstamp"} | _BY_JUDGE
_REVIEWED = {"prompt": "question", "language": "language"}

# Arena-Hard: a model against the baseline, graded, in both orders

#: What A takes of the win by each verdict, and how often Arena-Hard counts it.
_GRADES = {
    "A>>B": (1.0, 3), "A>B": (1.0, 1), "A=B": (0.5, 1), "B>A": (0.0, 1), "B>>A": (0.0, 3),
    "A<<B": (0.0, 3), "A<B": (0.0, 1), "B=A": (0.5, 1), "B<A": (1.0, 1), "B<<A": (1.0, 3),
}  # fmt: skip
_ALLOWED = ", ".join(f"'{verdict}'" for verdict in _GRADES)


def _grade(game: str, part: int) -> str:
    cases = " ".join(f"WHEN '{verdict}' THEN {grade[part]}" for verdict, grade in _GRADES.items())
    return f"(CASE {game} {cases} END)"


_SCORES = "games->>['$[0].score', '$[1].score']"
_FIRST, _SECOND = f"(1 - {_grade('first', 0)})", _grade("second", 0)  # first, A is the baseline
_WEIGHTS = _grade("first", 1), _grade("second", 1)
_SHARE = f"(({_FIRST} * {_WEIGHTS[0]} + {_SECOND} * {_WEIGHTS[1]}) / ({' + '.join(_WEIGHTS)}))"
_CONTRADICTING = f"(abs({_FIRST} - {_SECOND}) = 1)"

# AlpacaEval: a preference between two outputs, as a number from 1 to 2

_NUMBER = "try_cast(preference AS DOUBLE)"
_PREFERENCE = f"(CASE WHEN {_NUMBER} = 0 THEN 1.5 ELSE {_NUMBER} END)"  # 0 is an older draw

# JudgeArena: a preference from 0 (the first model) to 1 (the second); where an answer could not be
# parsed there is none, and the winner beside it says tie

_PREF = "try_cast(pref AS DOUBLE)"

# orq-arena: two models' answers before a panel of judges

_PANEL = (
    "list_filter(CAST(judge_votes AS JSON[]), "
    "lambda vote: coalesce(vote->>'$.replacement', 'false') <> 'true')"
)

JUDGES = (
    Format(
        "mt-bench-pairs", "MT-bench pair judgments",
        needs=("question_id", "model_1", "model_2", "g1_winner", "g2_winner", "judge"),
        also=("turn", "tstamp"), battles=_settled("g1_winner", "g2_winner", _GAMES) | _BY_JUDGE | {
            "model_a": "model_1", "model_b": "model_2", "question_id": "question_id",
            "judge_model": _JUDGE, "timestamp": "tstamp",
        },
        texts={"turns": "turn"},
        refused=_unknown_verdict((*_GAMES.values(), "error"), "g1_winner", "g2_winner"),
        left_out={"judgments with an error": "'error' IN (g1_winner, g2_winner)"},
    ),
    Format(
        "mt-bench-grades", "MT-bench grades of single answers",
        needs=("question_id", "model", "score", "judge", "turn"),
        battles=PAIRS_BY_SCORE | _BY_JUDGE | {"judge_model": _JUDGE},
        rows=pairs_of_scores("judge", "turn"), left_out=_NO_GRADE, **BY_SCORE,
    ),
    Format(
        "evalscope", "evalscope arena reviews",
        needs=("model_a", "model_b", "win_1", "win_2", "question_id", "tstamp"),
        also=("question", "language"), battles=_REVIEWS | _settled("win_1", "win_2", _WINS),
        texts=_REVIEWED, refused=_unknown_verdict(_WIN_WORDS, "win_1", "win_2"),
        left_out={"reviews without a verdict": "'unknown' IN (win_1, win_2)"},
    ),
    Format(
        "evalscope-one-order", "evalscope arena reviews in one order",
        needs=("model_a", "model_b", "win", "question_id", "tstamp"), also=("question", "language"),
        battles=_REVIEWS | {"winner": "CASE win WHEN 'tie_both_bad' THEN 'both_bad' ELSE win END"},
        texts=_REVIEWED, refused=_unknown_verdict(_WIN_WORDS, "win"),
        left_out={"reviews without a verdict": "win = 'unknown'"},
        note="each pair was judged in one order only, so what a judge gives for a place is in it",
    ),
    Format(
        "evalscope-grades", "evalscope arena grades of single answers",
        needs=("question_id", "model", "score", "review_text", "tstamp"),
        battles=PAIRS_BY_SCORE | _BY_JUDGE, rows=pairs_of_scores(), left_out=_NO_GRADE, **BY_SCORE,
    ),
    Format(
        "arena-hard", "Arena-Hard judgments", needs=("uid", "judge", "model", "baseline", "games"),
        also=("category",), battles=_BY_JUDGE | {
            "model_a": "model", "model_b": "baseline", "question_id": "uid",
            "dimension": "category", "judge_model": "judge", "inconsistent": _CONTRADICTING,
            "winner": f"CASE WHEN {_CONTRADICTING} THEN 'tie' WHEN {_SHARE} > 0.5 THEN 'model_a' "
            f"WHEN {_SHARE} < 0.5 THEN 'model_b' ELSE 'tie' END",
            "share_a": f"CASE WHEN {_SHARE} NOT IN (0, 0.5, 1) THEN {_SHARE} END",
        },
        rows=f"(SELECT rowid AS judgment, scores[1] AS first, scores[2] AS second, * "
        f"FROM (SELECT rowid, {_SCORES} AS scores, * FROM file))", row="judgment",
        refused={
            "games is not a list of two games": "CASE WHEN json_valid(games) THEN "
            "coalesce(json_array_length(games), 0) <> 2 ELSE true END",
            f"a game's score is none of {', '.join(_GRADES)}": f"len(list_filter({_SCORES}, "
            f"lambda score: score NOT IN ({_ALLOWED}))) > 0",
        },
        left_out={"judgments with a game that has no verdict": "first IS NULL OR second IS NULL"},
        note="a model's share is the mean of both games in which a strong verdict counts three "
        "times, as Arena-Hard counts it; games that name different winners are inconsistent",
    ),
    Format(
        "alpaca-eval", "AlpacaEval annotations",
        needs=("instruction", "generator_1", "generator_2", "preference"),
        also=("output_1", "output_2", "annotator"), battles=_BY_JUDGE | {
            "model_a": "generator_1", "model_b": "generator_2", "judge_model": "annotator",
            "winner": f"CASE WHEN {_PREFERENCE} < 1.5 THEN 'model_a' "
            f"WHEN {_PREFERENCE} > 1.5 THEN 'model_b' ELSE 'tie' END",
            "share_a": f"CASE WHEN {_PREFERENCE} NOT IN (1, 1.5, 2) THEN 2 - {_PREFERENCE} END",
            "question_id": "left(md5(instruction), 16)",
        },
        texts={"prompt": "instruction", "response_a": "output_1", "response_b": "output_2"},
        refused={
            "preference is not a number from 1 to 2": f"preference IS NOT NULL AND {_NUMBER} IS "
            f"DISTINCT FROM -1 AND NOT coalesce({_PREFERENCE} BETWEEN 1 AND 2, false)"
        },
        left_out={"annotations without a preference": f"preference IS NULL OR {_NUMBER} = -1"},
        note="a question is known by its text",
    ),
    Format(
        "judgearena", "JudgeArena battles",
        needs=("model_a", "model_b", "winner", "pref", "source"),
        also=("question_id", "judge_model", "orientation", "lang"),
        battles=same("model_a", "model_b", "winner", "source", "question_id", "judge_model") | {
            "share_a": f"CASE WHEN {_PREF} NOT IN (0, 0.5, 1) THEN 1 - {_PREF} END",
            "weight": "CASE WHEN orientation IN ('direct', 'reversed') THEN 0.5 END",
        },
        texts={"language": "lang"},
        refused={
            "pref is not a number from 0 to 1": "pref IS NOT NULL AND lower(pref) <> 'nan' "
            f"AND NOT coalesce({_PREF} BETWEEN 0 AND 1, false)",
            "winner is not what pref says": f"{_PREF} < 0.5 AND winner <> 'model_a' "
            f"OR {_PREF} > 0.5 AND winner <> 'model_b' AND NOT isnan({_PREF})",
        },
        left_out={
            "battles without a preference (an unparsable judgment, written as a tie)":
            f"pref IS NULL OR isnan({_PREF})"
        },
        note="pref is kept as a soft outcome: the first model's share is 1 - pref; the two orders "
        "of one comparison (orientation) are half a battle each",
    ),
    Format(
        "orq-arena", "orq-arena battles",
        needs=("prompt_hash", "model_a", "model_b", "judge_votes", "majority_verdict"),
        also=("model_a_id", "model_b_id", "winner", "error", "timestamp", "prompt_text",
              "response_a", "response_b"),
        battles=same("timestamp") | _BY_JUDGE | {
            "model_a": "coalesce(nullif(model_a_id, ''), model_a)",
            "model_b": "coalesce(nullif(model_b_id, ''), model_b)",
            "winner": outcome_of("majority_verdict", model_a="A", model_b="B"),
            "inconsistent": "majority_verdict = 'inconclusive'",
            "question_id": "prompt_hash",
            "judge_model": f"array_to_string(list_sort(list_transform({_PANEL}, "
            "lambda vote: vote->>'$.model')), ', ')",
        },
        texts=same("response_a", "response_b") | {"prompt": "prompt_text"},
        refused=_unknown_verdict(("A", "B", "tie", "inconclusive"), "majority_verdict") | {
            "judge_votes is not a list": "json_type(CASE WHEN json_valid(judge_votes) "
            "THEN judge_votes END) IS DISTINCT FROM 'ARRAY'",
        },
        left_out={"rounds that were voided": "winner = 'void' OR coalesce(error, '') <> ''"},
        note="a battle is the panel's majority; a round without one, where judges disagree or "
        "change with the order, is inconsistent",
    ),
)  # fmt: skip
