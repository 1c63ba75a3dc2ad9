"""The commands that make a workspace and open it, and the door of the command line."""

from pathlib import Path

import click

from arena_kit.cli.base import PATH, echo, main

__all__ = ["main"]


@main.command()
@click.argument("folder", type=PATH)
def init(folder: Path) -> None:
    """Make a workspace in FOLDER: notebooks, parameters, the sample and the documentation.

    Works from an installed package alone. Then: cd FOLDER && arena-kit run pilot
    """
    from arena_kit.runs.settings.workspace import init_workspace

    for path in init_workspace(folder):
        echo(path)
    echo(f"next: cd {folder} && arena-kit run pilot (or arena-kit lab, to look around)")


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
