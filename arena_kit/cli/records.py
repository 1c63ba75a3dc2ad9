"""The commands about records that there are: list, open and prune them, and make their site."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from arena_kit.cli.base import (
    FILE,
    PATH,
    echo,
    echo_json,
    json_option,
    main,
    plain_errors,
    record_folder,
    runs_folder_option,
)
from arena_kit.cli.export import export
from arena_kit.cli.show import compare, show
from arena_kit.files import DataError

_runs_dir = runs_folder_option("Folder of the records")


@main.group()
def runs() -> None:
    """List, show, open, compare, export and prune run records.

    A RUN is a record's folder, or its name in runs/.
    """


runs.add_command(show, "show")
runs.add_command(compare, "compare")
runs.add_command(export, "export")


@runs.command("list")
@_runs_dir
@json_option()
@plain_errors
def list_runs(runs_dir: Path | None, as_json: bool) -> None:
    """All records, the newest first: date, notebook, judge, status, cost and answer."""
    from arena_kit.cli import terminal
    from arena_kit.site.overview import overviews

    runs_there = overviews(_folder(runs_dir))
    if as_json:
        echo_json([each.as_dict() for each in runs_there])
    else:
        terminal.show_runs(runs_there)


@runs.command("open")
@click.argument("run", type=record_folder)
@plain_errors
def open_run(run: Path) -> None:
    """Print the path of a run's report, and open it where there is a display."""
    from arena_kit.runs.record.record import open_record

    status = open_record(run).get("status")
    report = run / "report.html"
    if not report.is_file():
        raise DataError(f"{run}: has no report.html (status {status})")
    echo(report.resolve())
    if _has_display():
        import webbrowser

        webbrowser.open(report.resolve().as_uri())


@runs.command()
@_runs_dir
@click.option("--older-than", metavar="AGE", default="", help="Such as 12h, 30d or 8w.")
@click.option("--status", type=click.Choice(["failed", "finished", "running"]), default=None,
              help="Only these; a running one that nobody runs was cut off.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Remove them; without it they are only listed.")
@plain_errors
def prune(runs_dir: Path | None, older_than: str, status: str | None, yes: bool) -> None:
    """Remove records that nothing refers to; without --yes only say which.

    Kept are runs that still go on, and records that another one, or a file in params/, names
    (as what it replays, rates or compares with). Verdicts are in the ledger and stay.
    """
    from arena_kit.runs.record import pruning
    from arena_kit.runs.record.record import find_root

    age = pruning.age(older_than) if older_than else None
    folder = _folder(runs_dir)
    plan = pruning.prunable(folder, find_root(), older_than=age, status=status or "")
    for record, why in plan.kept.items():
        echo(f"kept: {record.name}: {why}")
    size = f"{plan.bytes / 1e6:.1f} MB"
    for record in plan.removable:
        if yes:
            pruning.remove(record)
        echo(f"{'removed' if yes else 'would remove'}: {record}")
    n = len(plan.removable)
    todo = "" if yes or not n else "; remove them with --yes"
    echo(f"{n} {'record' if n == 1 else 'records'}, {size}{todo}")


@main.command()
@click.argument("records", metavar="[RUN]...", nargs=-1, type=record_folder)
@click.option("--out", required=True, type=PATH,
              help="Folder of the site: new, empty, or a site that is made again.")  # fmt: skip
@click.option("--people", type=FILE,
              help="Battles file of people's votes on the same prompts, to find where they and the "
              "judge disagree.")  # fmt: skip
@_runs_dir
@plain_errors
def site(records: tuple[Path, ...], out: Path, people: Path | None, runs_dir: Path | None) -> None:
    """Make a static site of run records: boards, models, and every battle to read.

    RUN is a record's folder, or its name in runs/; without one, all records there. The site
    needs no server: open its index.html, or publish the folder. Its path is the last line printed.
    """
    from arena_kit.runs.record.battles import human_votes
    from arena_kit.runs.record.record import open_record
    from arena_kit.site.build import build_site
    from arena_kit.site.overview import records_in

    for record in records:
        open_record(record)
    chosen = list(records) or records_in(_folder(runs_dir))
    if not chosen:
        raise DataError(f"{_folder(runs_dir)}: holds no record; arena-kit run pilot makes one")
    votes = human_votes(str(people), Path(), winner="winner") if people else None
    built = build_site(chosen, out, votes)
    for name, why in built.without_board.items():
        echo(f"{name} has no board: {why}", err=True)
    echo(built.index)


def _folder(given: Path | None) -> Path:
    from arena_kit.runs.record.record import find_root, runs_folder

    return given or runs_folder(find_root())


def _has_display() -> bool:
    shown = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return shown or sys.platform in ("darwin", "win32")
