"""The command that runs a notebook for every combination of some parameters."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

import click

from arena_kit.cli.base import (
    FAILED,
    FILE,
    FOLDER,
    cluster_option,
    echo,
    echo_json,
    json_option,
    main,
    params_option,
    plain_errors,
)


@main.command()
@click.argument("name")
@click.option("--grid", "grid_file", required=True, type=FILE,
              help="YAML file: a list of values for each parameter that varies.")  # fmt: skip
@params_option("YAML file of what all runs are told")
@click.option("--into", type=FOLDER, metavar="DIR",
              help="Folder for records and index; one that a sweep of the same grid has begun "
              "goes on (default: a new one in runs/).")  # fmt: skip
@click.option("--jobs", type=click.IntRange(min=0), default=0,
              help="Runs at once (default: as many as there are cores).")  # fmt: skip
@cluster_option
@json_option("the index as JSON")
@plain_errors
def sweep(
    name: str,
    grid_file: Path,
    params_file: Path | None,
    into: Path | None,
    jobs: int,
    as_json: bool,
) -> None:
    """Run notebook NAME for every combination of a grid, and set the answers side by side.

    Each combination is a run record of its own. The folder's index.html says first whether the
    answer depends on what was varied. Stopped or failed runs go on when the same command is given
    with --into and the folder; finished ones are not run again. The folder is the last line
    printed. A paid judge asks for each run by itself: its cost cap holds per run. Exit codes: 0 all
    finished, 1 some did not, 2 wrong usage or input.
    """
    from tqdm import tqdm

    from arena_kit.runs.record.record import find_root, runs_folder
    from arena_kit.runs.sweep import Grid, run_sweep

    root = find_root()
    grid = Grid.read(name, grid_file, root)
    stamp = datetime.now(UTC).strftime("%Y%m%d_%H%M%S")
    folder = into or runs_folder(root) / f"sweep_{name}_{stamp}"
    hidden = as_json or not sys.stderr.isatty()
    echo(f"{len(grid.runs)} runs of {name} into {folder}", err=True)
    steps = run_sweep(grid, folder, root=root, params_file=params_file, jobs=jobs)
    for index in tqdm(steps, total=len(grid.runs), desc="runs", unit="run", disable=hidden):
        last = index
    if as_json:
        echo_json(last.as_dict())
    else:
        for sentence in last.sentences:
            echo(sentence)
        for run in last.runs:
            if run.status != "finished":
                echo(f"{run.name} ({run.told}): {run.error or run.status}", err=True)
        echo(f"index: {folder / 'index.html'}")
        echo(folder)
    if any(run.status != "finished" for run in last.runs):
        sys.exit(FAILED)
