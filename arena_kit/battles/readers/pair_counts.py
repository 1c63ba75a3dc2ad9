"""Tables of pair counts: how published arenas share many votes in a small file."""

from __future__ import annotations

from arena_kit.battles.readers.format import Format

_NEEDED = ("a_wins", "b_wins")
_OPTIONAL = ("tie", "ties", "both_bad", "tie_bothbad")
_COUNTS = "a_wins, b_wins, coalesce(tie, ties), coalesce(both_bad, tie_bothbad)"
_OUTCOMES = "'model_a', 'model_b', 'tie', 'both_bad'"


def _missing(count: str) -> str:
    """A hole is no zero; only a column that nobody fills may be missing."""
    filled = "true" if count in _NEEDED else f"(SELECT count({count}) FROM file) > 0"
    return f"{count} IS NULL AND {filled}"


def _wrong(count: str) -> str:
    number = f"try_cast({count} AS DOUBLE)"
    return f"{count} IS NOT NULL AND NOT coalesce(isfinite({number}) AND {number} >= 0, false)"


PAIR_COUNTS = Format(
    name="pair-counts",
    title="pair counts",
    follows="a row per pair",
    needs=("model_a", "model_b", *_NEEDED),
    also=_OPTIONAL,
    battles={
        "model_a": "model_a",
        "model_b": "model_b",
        "winner": "winner",
        "weight": "votes",
        "source": "'human'",
    },
    rows=(
        f"(SELECT * FROM (SELECT rowid AS pair, model_a, model_b, unnest([{_OUTCOMES}]) AS winner, "
        f"unnest([{_COUNTS}]) AS votes FROM file) WHERE votes::DOUBLE > 0)"
    ),
    row="pair",
    refused={
        **{f"{count} is missing": _missing(count) for count in (*_NEEDED, *_OPTIONAL)},
        **{
            f"{count} is not a finite number >= 0": _wrong(count)
            for count in (*_NEEDED, *_OPTIONAL)
        },
        "model_a is missing": "model_a IS NULL",
        "model_b is missing": "model_b IS NULL",
        "both tie and ties are given": "tie IS NOT NULL AND ties IS NOT NULL",
        "both both_bad and tie_bothbad are given": (
            "both_bad IS NOT NULL AND tie_bothbad IS NOT NULL"
        ),
    },
    note="each pair and outcome is one battle with the number of its votes as weight",
)
