"""Looking after the ledger: its backup, and what `check` says of it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from arena_kit.cli.base import FILE, WRONG_INPUT, echo, main, plain_errors

with_tournament = click.option(
    "--tournament", type=FILE, help="Tournament file whose ledger is meant."
)


@main.command()
@click.argument("file", type=FILE)
@with_tournament
@plain_errors
def backup(file: Path, tournament: Path | None) -> None:
    """Copy the ledger to a new FILE, also while a run is writing to it, and verify the copy.

    To restore, put FILE in the ledger's place while no run is going on, and remove what
    stands beside it under its name with -wal and -shm.
    """
    from arena_kit.judging.ledger.upkeep import back_up

    back_up(ledger_path(tournament), file)
    _verify(file)


def verify_ledger(file: Path | None, tournament: Path | None, *, forget: bool) -> None:
    """Verify a ledger or a backup, after damaged answers were forgotten where that is wanted."""
    from arena_kit.judging.asking.cost import dollars
    from arena_kit.judging.ledger.ledger import Ledger
    from arena_kit.judging.ledger.upkeep import forget_damaged

    path = file or ledger_path(tournament)
    if forget:
        forgotten = forget_damaged(Ledger(path))
        echo(
            f"{path}: {len(forgotten.answers)} damaged answers are forgotten; asking them again "
            f"may cost {dollars(forgotten.cost_usd)}, as they did before"
        )
    _verify(path)


def _verify(path: Path) -> None:
    """Say that a ledger is as it was kept, or name what is damaged and end with 2."""
    from arena_kit.judging.ledger.upkeep import check as verify

    findings = verify(path)
    for damaged in findings.answers:
        echo(f"{path}: the answer to {damaged.request_id!r} is damaged")
    for error in findings.structure:
        echo(f"{path}: {error}")
    if findings.sound:
        echo(f"{path}: {findings.n_answers} answers, all as they were kept")
        return
    echo(
        "error: the ledger is damaged: put a backup in its place, or let "
        "`arena-kit check --forget-damaged` remove damaged answers, which are then asked, and paid "
        "for, again",
        err=True,
    )
    sys.exit(WRONG_INPUT)


def ledger_path(tournament: Path | None) -> Path:
    """Where the ledger of a tournament file is."""
    from arena_kit.runs.record.record import find_root
    from arena_kit.runs.settings.files import DEFAULT_TOURNAMENT, read_tournament

    root = find_root()
    return root / read_tournament(root / (tournament or DEFAULT_TOURNAMENT)).verdicts
