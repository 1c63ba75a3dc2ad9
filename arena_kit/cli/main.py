"""The commands that make a workspace and open it, and the door of the command line."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from arena_kit.cli.base import FILE, PATH, echo, main

__all__ = ["main"]


@main.command()
@click.argument("folder", type=PATH)
@click.option("--from", "source", type=FILE, metavar="FILE",
              help="A table of questions and answers (.xlsx, .ods, .csv, .tsv, .parquet, .jsonl): "
              "a column for each model, or a row for each answer.")  # fmt: skip
@click.option("--sheet", default="", metavar="NAME", help="The sheet of a workbook.")
@click.option("--question", default="", metavar="COLUMN", help="The column of the questions.")
@click.option("--gold", default="", metavar="COLUMN", help="The column of the reference answers.")
@click.option("--id", "prompt_id", default="", metavar="COLUMN", help="The column of ids.")
@click.option("--entrant", "entrants", multiple=True, metavar="COLUMN",
              help="A model's column of answers; may be repeated.")  # fmt: skip
@click.option("--model", default="", metavar="COLUMN", help="In a row for each answer: the model.")
@click.option("--response", default="", metavar="COLUMN", help="And its answer.")
@click.option("--stratum", "strata", multiple=True, metavar="COLUMN",
              help="A column such as specialty or language; may be repeated.")  # fmt: skip
def init(folder: Path, source: Path | None, sheet: str, **columns: Any) -> None:
    """Make a workspace in FOLDER: notebooks, parameters, the sample and the documentation.

    With --from, its tournament compares the answers in FILE: prompts, responses, a starter rubric
    and the tournament file are written. Columns are recognised by name and content; the options
    name those that are not. Then: cd FOLDER && arena-kit run pilot
    """
    from arena_kit.runs.settings.workspace import init_study, init_workspace

    made: Iterable[object] = (
        init_workspace(folder)
        if source is None
        else init_study(folder, source, sheet=sheet, **columns).sentences
    )
    echo(*made, f"next: cd {folder} && arena-kit run pilot (or arena-kit lab, to look around)")


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def lab(options: tuple[str, ...]) -> None:
    """Open JupyterLab at the workspace's root, on start_here.ipynb.

    OPTIONS are JupyterLab's own, such as --no-browser or --port 9000. Needs the extra `lab`:
    pip install 'arena-kit[lab]'
    """
    from arena_kit.runs.record.record import find_root
    from arena_kit.runs.settings.workspace import open_lab

    open_lab(find_root(), options)
