"""The commands that look after the ledger: backup."""

from __future__ import annotations

from pathlib import Path

import click

from arena_kit.cli.base import main, plain_errors

_tournament = click.option(
    "--tournament", type=click.Path(path_type=Path, dir_okay=False),
    help="Tournament file whose ledger is meant.",
)  # fmt: skip


@main.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_tournament
@plain_errors
def backup(file: Path, tournament: Path | None) -> None:
    """Copy the ledger to a new FILE, also while a run is writing to it.

    To restore, put FILE in the ledger's place while no run is going on, and remove what
    stands beside it under its name with -wal and -shm.
    """
    from arena_kit.judging.ledger import Ledger
    from arena_kit.judging.ledger_upkeep import back_up

    path = _ledger_path(tournament)
    back_up(path, file)
    click.echo(f"{file}: {len(Ledger(file))} answers, a copy of {path}")


def _ledger_path(tournament: Path | None) -> Path:
    """Where the ledger of a tournament file is."""
    from arena_kit.runs.record import find_root
    from arena_kit.runs.settings import DEFAULT_TOURNAMENT, read_tournament

    root = find_root()
    return root / read_tournament(root / (tournament or DEFAULT_TOURNAMENT)).verdicts
