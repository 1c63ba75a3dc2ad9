"""Two games of a judge, one in each order, settled as ours are: as SQL."""

from __future__ import annotations

from collections.abc import Mapping


def settled(first: str, second: str, names: Mapping[str, str]) -> Mapping[str, str]:
    """The outcome of two games, each an expression: the winner that both name, a tie where both
    do, and else a tie that is inconsistent. `names` are the games' words for our outcomes.
    """
    cases = " ".join(f"WHEN '{word}' THEN '{outcome}'" for word, outcome in names.items())
    return {
        "winner": f"CASE WHEN {first} = {second} THEN CASE {first} {cases} END ELSE 'tie' END",
        "inconsistent": f"{first} <> {second}",
    }


def unknown_verdict(game: str, words: tuple[str, ...]) -> Mapping[str, str]:
    """The sentence on a game that ended in none of these words, and its condition."""
    allowed = ", ".join(f"'{word}'" for word in words)
    sentence = f"{game} is none of {', '.join(words)}"
    return {sentence: f"{game} IS NULL OR {game} NOT IN ({allowed})"}
