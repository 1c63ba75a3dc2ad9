"""The command that says how well battles cover models, prompts and neighbours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from arena_kit.cli.base import echo, json_option, main, plain_errors, policy_of, policy_option
from arena_kit.cli.imports import HowToRead, reading_options


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@policy_option
@json_option()
@reading_options
@plain_errors
def coverage(file: Path, policy_file: Path | None, as_json: bool, how: HowToRead) -> None:
    """How often models of a battles FILE, a folder of files or a pattern (in quotes) were voted
    on, on which share of the prompts, and how well neighbours are compared.

    Models stand in the order of their Bradley–Terry strengths. The policy says how many decisive
    votes (those with a winner) cover a prompt, and how many, on how many prompts, compare two
    neighbours well enough. Battles are counted where they are, in any number.
    """
    from arena_kit.battles.streams import Meter
    from arena_kit.cli.terminal import show_table
    from arena_kit.reporting.coverage import coverage_rows, coverage_table
    from arena_kit.runs.coverage import covered_files
    from arena_kit.runs.record.progress import PATIENCE, status_line

    meter, policy = Meter(), policy_of(policy_file)
    with status_line(meter.words, after=PATIENCE):
        counted = covered_files(file, policy, meter, format=how.format, columns=how.columns)
    rows: list[dict[str, Any]] = coverage_rows(counted.coverage, counted.order)
    if as_json:
        told = {"prompts": counted.coverage.prompts, "models": rows}
        echo(json.dumps(told, indent=2, sort_keys=True, allow_nan=False))
    else:
        show_table(coverage_table(counted.coverage, rows))
