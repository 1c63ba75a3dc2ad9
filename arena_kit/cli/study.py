"""The commands about a study as a whole: its size and protocol beforehand, its paper afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from arena_kit.cli import base as cli
from arena_kit.cli.runs import Overrides, with_overrides
from arena_kit.cli.terminal import show_table
from arena_kit.reporting.tables import Table
from arena_kit.runs.notebook.run import NotebookRun
from arena_kit.runs.record.paper import write_paper
from arena_kit.runs.record.record import find_root
from arena_kit.runs.tournament.judge import plan_manifest
from arena_kit.runs.tournament.plan import Plan
from arena_kit.runs.tournament.power import study_size
from arena_kit.runs.tournament.protocol import check_record
from arena_kit.runs.tournament.protocol import freeze as write


def _plan(name: str, params_file: Path | None, overrides: Overrides) -> Plan:
    """The plan of a run of the notebook NAME."""
    changes = dict(overrides)
    run = NotebookRun.resolve(name, find_root(), params_file=params_file, overrides=changes)
    return run.tournament()


@cli.main.group()
def protocol() -> None:
    """Fix the analysis before the data, and check records against it."""


@protocol.command()
@click.argument("name", default="headline")
@cli.params_option("YAML file of the run's parameters")
@with_overrides
@click.option("--claim", "claims", multiple=True, metavar="TEXT",
              help="A primary claim, as 'aspen above birch on factuality'; may be "
              "repeated.")  # fmt: skip
@click.option("--out", type=cli.FILE, default=Path("protocol.json"), show_default=True,
              help="The file to write.")  # fmt: skip
def freeze(claims: tuple[str, ...], out: Path, **which: Any) -> None:
    """Write what a run of notebook NAME would do as a protocol, with a hash; nothing is sent.

    It fixes prompts, responses or how they are generated, rubrics, judge, gate, sampling,
    exclusions, clusters, margin, looks, level, strata and the primary claims. Name the file as
    protocol in the tournament file: each run then says what it did otherwise.
    """
    plan = _plan(**which)
    parameters = plan.params.model_dump(mode="json")
    frozen = write(plan_manifest(plan) | {"mode": plan.mode, "parameters": parameters}, claims, out)
    cli.echo(f"{out}: protocol {frozen['sha256']}")
    cli.echo(f"next: add 'protocol: {out}' to {plan.params.tournament}")


@protocol.command()
@click.argument("record", type=cli.FOLDER)
@click.option("--protocol", "file", type=cli.FILE,
              help="A protocol file (default: the record's own).")  # fmt: skip
@cli.json_option("JSON instead of sentences")
def check(record: Path, file: Path | None, as_json: bool) -> None:
    """Say what a run RECORD did otherwise than its protocol; ends with 2 where it did.

    The record alone is read, so it can be checked on another machine.
    """
    found = check_record(record, file)
    cli.echo_either(as_json, found, cli.echo, *found["sentences"])
    if found["deviations"]:
        raise click.exceptions.Exit(cli.WRONG_INPUT)


@cli.main.command()
@click.argument("name", default="headline")
@cli.params_option("YAML file of the run's parameters")
@with_overrides
@click.option("--claim", "claims", multiple=True, metavar="TEXT",
              help="A claim, as 'aspen above birch on factuality'; may be repeated (default: the "
              "primary claims of the tournament's protocol).")  # fmt: skip
@click.option("--power", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.8,
              show_default=True, help="How probable it should be that the claim is "
              "decided.")  # fmt: skip
@click.option("--gap", type=click.FloatRange(min=0, min_open=True), metavar="POINTS",
              help="The gap that is assumed (default: that of the record, shrunk).")  # fmt: skip
@click.option("--from", "record", type=cli.FOLDER,
              help="A pilot (default: the latest record of the tournament).")  # fmt: skip
@cli.json_option()
def plan(
    claims: tuple[str, ...],
    power: float,
    gap: float | None,
    record: Path | None,
    as_json: bool,
    **which: Any,
) -> None:
    """How many prompts, judge calls, dollars and human votes a claim needs; nothing is sent.

    By a pilot's record: its gap is shrunk, and its verdicts do not count again. Or by a --gap that
    you would not want to miss; without any record, variances are assumed.
    """
    found = study_size(_plan(**which), claims, power, gap, record)
    if as_json:
        cli.echo_json(found)
        return
    for each in found:
        cli.echo(each["sentence"])
        if each["needed"]:
            parts = ", ".join(f"{n} {s}" for s, n in each["prompts_per_stratum"].items())
            cli.echo(f"Prompts per stratum: {parts}.")
        if each["votes"]:
            cli.echo(f"By people alone: {each['votes']:,} votes on this pair, a prompt each.")
        rows = [row | {"power": f"{row['power']:.0%}"} for row in each["curve"]]
        show_table(Table(rows=rows))


@cli.main.command()
@click.argument("record", type=cli.FOLDER)
@click.option("--out", type=cli.FOLDER, default=Path("paper"), show_default=True,
              help="The folder to write.")  # fmt: skip
def paper(record: Path, out: Path) -> None:
    """Write what goes into a paper about a run RECORD: tables as LaTeX and HTML, figures as PDF and
    SVG, a methods paragraph, references, a reporting checklist, and hashes for the archive.
    """
    cli.echo(*write_paper(record, out))
