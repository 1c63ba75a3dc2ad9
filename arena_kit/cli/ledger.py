"""The commands about the ledger: its backup, its check (and that of votes), and batches that are
under way.
"""

import os
import sys
from dataclasses import asdict
from pathlib import Path

import click

from arena_kit.battles.tabular import query_columns
from arena_kit.cli import terminal
from arena_kit.cli.base import FILE, WRONG_INPUT, echo, echo_json, json_option, main
from arena_kit.cli.votes import open_store, store_address
from arena_kit.judging.asking.cost import dollars
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.runs.record.record import find_root
from arena_kit.runs.settings.files import DEFAULT_TOURNAMENT, read_tournament
from arena_kit.runs.settings.judges import Batches

with_tournament = click.option(
    "--tournament", type=FILE, help="Tournament file that names the ledger."
)


@main.group()
def ledger() -> None:
    """Back up and verify the ledger, list and cancel batches."""


@ledger.command()
@click.argument("file", type=FILE)
@with_tournament
def backup(file: Path, tournament: Path | None) -> None:
    """Copy the ledger to a new FILE, also while a run is writing to it, and verify the copy.

    To restore, stop all runs, replace the ledger with FILE, and remove the files of the same name
    that end in -wal and -shm.
    """
    Ledger(ledger_path(tournament)).back_up(file)
    _verify(file)


@main.command("check")
@click.argument("files", nargs=-1, metavar="[FILE|URL]...")
@with_tournament
@click.option("--forget-damaged", "forget", is_flag=True,
              help="Remove damaged answers; later runs request and pay them again.")  # fmt: skip
def check(files: tuple[str, ...], tournament: Path | None, forget: bool) -> None:
    """Verify every checksum of the ledger and of the vote store, or of the files, backups and
    databases that are named.

    Exit codes: 0 intact, 2 damaged.
    """
    votes = os.environ.get("ARENA_KIT_VOTES", "")
    own = [] if files else [str(ledger_path(tournament)), store_address(votes)]
    kept = [each for each in own if "://" in each or Path(each).is_file()]
    for where in files or kept or own[:1]:
        tables = "SELECT name FROM sqlite_master"
        if "://" in where or "tickets" in query_columns(Path(where), tables)["name"]:
            with open_store(where) as store:
                echo(f"{store.address}: {store.check()} votes, all intact")
            continue
        if forget:
            n, usd = Ledger(Path(where)).forget_damaged()
            may_cost = f"requesting them again may cost {dollars(usd)}, as before"
            echo(f"{where}: {n} damaged answers are removed; {may_cost}")
        _verify(Path(where))


ledger.add_command(check)


def _verify(path: Path) -> None:
    """Say that a ledger is intact, or name what is damaged and exit with 2."""
    findings = Ledger(path).check()
    for damaged in findings.answers:
        echo(f"{path}: the answer to {damaged.request_id!r} is damaged")
    echo(*(f"{path}: {error}" for error in findings.structure))
    if findings.sound:
        echo(f"{path}: {findings.n_answers} answers, all intact")
        return
    echo(
        "error: the ledger is damaged: restore a backup, or remove damaged answers with `arena-kit "
        "ledger check --forget-damaged`; later runs request and pay them again",
        err=True,
    )
    sys.exit(WRONG_INPUT)


def ledger_path(tournament: Path | None) -> Path:
    """Where the ledger of a tournament file is."""
    root = find_root()
    return root / read_tournament(root / (tournament or DEFAULT_TOURNAMENT)).verdicts


@ledger.command()
@with_tournament
@click.option("--look", is_flag=True, help="Ask the service for their status.")
@click.option("--cancel", metavar="BATCH",
              help="Ask the service to cancel a batch; finished answers are billed.")  # fmt: skip
@click.option("--give-up", metavar="BATCH",
              help="Forget a batch; later runs may send and pay its requests again.")  # fmt: skip
@click.option("--key-variable", default="", help="Environment variable that holds the key.")
@json_option()
def batches(
    tournament: Path | None,
    look: bool,
    cancel: str | None,
    give_up: str | None,
    key_variable: str,
    as_json: bool,
) -> None:
    """List the batches that are under way, or cancel one."""
    kept = Ledger(ledger_path(tournament))
    sent = Batches(ledger=kept, root=find_root(), key_variable=key_variable)
    if cancel:
        batch = sent.cancel(cancel)
        echo(f"batch {batch.batch_id} is {batch.status}; the next run collects its results")
    if give_up:
        intent = sent.give_up(give_up)
        echo(f"{intent.batch_id or intent.intent} is given up")
    rows = [
        asdict(i) | (asdict(sent.look(i)) if look and i.batch_id else {})
        for i in kept.open_intents()
    ]
    if as_json:
        echo_json(rows, default=str)
    elif not (cancel or give_up):
        terminal.show_batches(rows)
