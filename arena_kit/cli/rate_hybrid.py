"""What `rate --verdicts` does: people's votes and a judge's verdicts make one board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from arena_kit.battles.readers.format import Columns
from arena_kit.cli.base import Lists, echo, echo_json
from arena_kit.cli.imports import HowToRead
from arena_kit.files import DataError
from arena_kit.rating.with_judge.hybrid import Hybrid, HybridRatings

METHOD = "bradley-terry"
#: What `--set` takes beside the settings of Bradley–Terry.
SETTINGS: Lists = {
    "Settings with --verdicts (--set KEY=VALUE), beside those of bradley-terry": [
        ("min_battles", f"votes that a model needs to count; default: {Hybrid().min_battles}")
    ]
}


def rate_together(
    file: Path,
    how: HowToRead,
    verdicts: Path,
    *,
    verdicts_winner: str,
    judge_model: str,
    method: str | None,
    settings: Mapping[str, Any],
    dimension: str | None,
    as_json: bool,
) -> None:
    """Rate FILE's votes and a judge's verdicts together, and print the boards."""
    from arena_kit.runs.placement.hybrid import BattlesFile, VotesAndVerdicts, hybrid_method

    if method not in (None, METHOD):
        raise DataError(
            f"--method {method} does not apply with --verdicts, which rates both by {METHOD}"
        )
    spec = hybrid_method(settings, "--set")
    both = VotesAndVerdicts.read(
        BattlesFile(path=file, format=how.format, columns=how.columns),
        BattlesFile(path=verdicts, columns=Columns(winner=verdicts_winner)),
        judge_model=judge_model,
        dimension=dimension,
    )
    boards, unrated = both.rated(spec)
    if as_json:
        echo_json(_as_json(boards, unrated))
        return
    for name, why in unrated.items():
        echo(f"{name} is not rated: {why}", err=True)
    for name, board in boards.items():
        _show(name, board)


def refuse_alone(verdicts_winner: str, judge_model: str) -> None:
    """Refuse options that say how verdicts are read where there are none."""
    given = {"--verdicts-winner": verdicts_winner != Columns().winner, "--judge-model": judge_model}
    if idle := [name for name, there in given.items() if there]:
        raise DataError(f"{', '.join(idle)}: only with --verdicts, which names a file of verdicts")


def _as_json(boards: Mapping[str, HybridRatings], unrated: Mapping[str, str]) -> dict[str, Any]:
    """One board as it is; several under their dimensions."""
    from arena_kit.runs.placement.hybrid import hybrid_summary

    summaries = {name: hybrid_summary(board) for name, board in boards.items()}
    if len(boards) + len(unrated) == 1:
        return next(iter(summaries.values()))
    return {"method": "hybrid", "dimensions": summaries, "unrated": dict(unrated)}


def _show(name: str, found: HybridRatings) -> None:
    """The board without counts of battles, which a terminal has no room for, and its notes."""
    from arena_kit.cli import terminal
    from arena_kit.reporting import hybrid

    votes, verdicts = found.people.n_battles, found.judge.n_battles
    title = f"{name or 'people and judge together'} ({votes:,} votes, {verdicts:,} verdicts)"
    board = hybrid.board(found, title)
    shown = [column for column in board.rows[0] if column not in ("votes", "verdicts")]
    terminal.show_table(replace(board, columns=shown, nowrap=()))
