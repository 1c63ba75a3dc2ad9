"""The command that opens JupyterLab in a workspace."""

from __future__ import annotations

import click

from arena_kit.cli.base import main, plain_errors


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@plain_errors
def lab(options: tuple[str, ...]) -> None:
    """Open JupyterLab at the workspace's root, on start_here.ipynb.

    OPTIONS are JupyterLab's own, such as --no-browser or --port 9000. Needs the extra `lab`:
    pip install 'arena-kit[lab]'
    """
    from arena_kit.runs.record.record import find_root
    from arena_kit.runs.settings.workspace import open_lab

    open_lab(find_root(), options)
