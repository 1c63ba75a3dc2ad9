"""The command that checks before anything is spent: a run's input, or the ledger."""

from __future__ import annotations

from pathlib import Path

import click

from arena_kit.cli.base import echo, main, params_option, plain_errors
from arena_kit.cli.ledger import verify_ledger, with_tournament
from arena_kit.cli.runs import Overrides, with_overrides


@main.command()
@click.argument("what", default="", metavar="[NAME | LEDGER]")
@params_option("YAML file of the run's parameters")
@with_overrides
@with_tournament
@click.option("--forget-damaged", "forget", is_flag=True,
              help="Remove damaged answers of the ledger; they are then asked, and paid for, "
              "again.")  # fmt: skip
@plain_errors
def check(
    what: str, params_file: Path | None, overrides: Overrides, tournament: Path | None, forget: bool
) -> None:
    """Check what a run of notebook NAME would read, or verify the LEDGER.

    With NAME: parameters, data and judge are checked as `run` does before a kernel starts, and
    what would run is told. Nothing is sent and no record is left. Without NAME the notebook is
    the one whose name the file of --params begins with.

    Without both: the structure and every checksum of the ledger, or of the backup LEDGER.

    Ends with 0 when all is well, with 2 when something is wrong or damaged, with 3 when the run
    would be refused.
    """
    name = _notebook_name(what, params_file)
    if not name and (params_file or overrides):
        raise click.UsageError("name the notebook that --params and -p are for")
    if name and (tournament or forget):
        raise click.UsageError("--tournament and --forget-damaged are for the ledger, not for NAME")
    if name:
        _check_run(name, params_file, dict(overrides))
    else:
        verify_ledger(Path(what) if what else None, tournament, forget=forget)


def _notebook_name(what: str, params_file: Path | None) -> str:
    """The notebook that is meant; empty where the ledger is. A file is a ledger, and so is
    anything with a suffix or a folder; any other word is a notebook, known or not.
    """
    from arena_kit.runs.notebook.run import known_notebooks
    from arena_kit.runs.record.record import find_root

    if what:
        plain = what == Path(what).stem
        return what if plain and (params_file or not Path(what).is_file()) else ""
    if params_file is None:
        return ""
    starts = [n for n in known_notebooks(find_root()) if params_file.stem.startswith(n)]
    return max(starts, key=len, default="")


def _check_run(name: str, params_file: Path | None, overrides: dict[str, str]) -> None:
    from arena_kit.cli import terminal
    from arena_kit.reporting.tables import facts
    from arena_kit.runs.notebook.run import ready_run
    from arena_kit.runs.record.record import find_root

    ready = ready_run(name, root=find_root(), params_file=params_file, overrides=overrides)
    terminal.show_table(facts(ready.facts(), name="check"))
    echo(f"{name}: parameters, data and judge are ready; nothing was sent")
