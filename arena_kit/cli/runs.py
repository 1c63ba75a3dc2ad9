"""The commands that run, forecast and resume: everything that may cost money."""

from __future__ import annotations

import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from arena_kit.cli import base as cli
from arena_kit.cli import terminal
from arena_kit.cli.records import show_board
from arena_kit.files import DataError, read_json, read_yaml
from arena_kit.judging.asking.cost import Forecast
from arena_kit.reporting.tables import facts
from arena_kit.runs.notebook.run import NotebookRun, RunFailedError
from arena_kit.runs.placement.plan import forecast_values, placement_plan
from arena_kit.runs.record.record import find_root
from arena_kit.runs.settings.workspace import source_folder
from arena_kit.runs.tournament.generate import Generation
from arena_kit.runs.tournament.power import expectations
from arena_kit.runs.tournament.rejudge import ARTIFACT, notebook_for

with_overrides = click.option(
    "-p", "overrides", nargs=2, multiple=True, metavar="KEY VALUE",
    help="Set one parameter; repeatable, overrides the file.",
)  # fmt: skip

_ask_again = click.option(
    "--ask-again", type=click.Choice(["errored"]),
    help="Repeat requests that ended with this final status; prints their number and cost first.",
)  # fmt: skip

Overrides = tuple[tuple[str, str], ...]


def _notebooks() -> cli.Lists:
    """The notebooks of the workspace, or those that `init` would put there, with their titles."""
    try:
        root = find_root()
    except DataError:
        root = source_folder()
    rows = []
    for file in sorted((root / "notebooks").glob("*.ipynb")):
        try:
            title = str(read_json(file)["metadata"]["title"])
        except (DataError, KeyError, TypeError):
            title = "without a title"
        rows.append((file.stem, title.partition(": ")[2] or title))
    return {"Notebooks": rows}


@cli.main.command(cls=cli.Listing, lists=_notebooks)
@click.argument("name")
@cli.params_option("YAML file of parameters")
@click.option("--from-record", type=cli.FOLDER,
              help="Repeat the verdicts of a record on the inputs that it kept.")  # fmt: skip
@with_overrides
@click.option("--offline", is_flag=True,
              help="Use cached verdicts only; refuse (exit 3) when one is missing.")  # fmt: skip
@cli.runs_folder_option("Folder for the record")
@_ask_again
@click.option("--check", is_flag=True,
              help="Only check parameters, data and judge; send nothing.")  # fmt: skip
@cli.json_option("the manifest instead of the table")
def run(
    name: str,
    params_file: Path | None,
    from_record: Path | None,
    overrides: Overrides,
    offline: bool,
    check: bool,
    **options: Any,
) -> None:
    """Run notebook NAME (listed below) into a new record.

    The record holds report.html, the executed notebook and all artifacts; its path is
    the last line printed. Exit codes: 0 finished, 1 failed or without one usable verdict (the
    record is kept), 2 wrong usage or input, 3 refused (cost cap, missing verdicts offline,
    locked, no credit).
    """
    changes = dict(overrides) | ({"offline": "true"} if offline else {})
    sources: Any = {"params_file": params_file, "from_record": from_record}
    run = NotebookRun.resolve(name, find_root(), **sources, overrides=changes)
    if check:
        terminal.show_table(facts(run.check(), name="check"))
        cli.echo(f"{name}: parameters, data and judge are ready; nothing was sent")
        return
    finish(run, **options)


@cli.main.command()
@click.argument("record", type=cli.FOLDER)
@with_overrides
@_ask_again
@cli.json_option("the manifest instead of the table")
def resume(record: Path, overrides: Overrides, ask_again: str | None, as_json: bool) -> None:
    """Resume a run RECORD that did not finish.

    Paid answers are in the ledger, and batches that finished meanwhile are collected; only
    missing requests are sent. Exit codes as for run.
    """
    run = NotebookRun.of_record(record, find_root(), dict(overrides))
    finish(run, as_json=as_json, ask_again=ask_again)


def finish(
    run: NotebookRun, *, as_json: bool, shown: str = "manifest.json", **options: Any
) -> None:
    """Run a notebook and print its board, or one of its artifacts as JSON; or why there is none
    and how to go on. `options` are those of `NotebookRun.start`.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # leaves a failed record
    try:
        shown_live = sys.stderr.isatty() and not as_json
        record = run.start(say=partial(cli.echo, err=True), progress=shown_live, **options)
    except RunFailedError as error:
        cli.echo(f"error: {error}", err=True)
        if error.exit_code != cli.WRONG_INPUT:
            cli.echo(f"to resume: arena-kit resume {error.record.path}", err=True)
        cli.echo_either(as_json, error.record.read(), cli.echo, error.record.path)
        sys.exit(error.exit_code)
    if as_json:
        cli.echo_json(read_json(record.path / shown), sort_keys=True)
        return
    show_board(record.path)
    counts = (record.read().get("counts") or {}).get("verdicts") or {}
    if errored := sum(each.get("errored", 0) for each in counts.values()):
        cli.echo(f"{errored} verdicts failed; another run requests them again", err=True)
    cli.echo(f"report: {record.path / 'report.html'}", record.path)


@cli.main.command()
@click.argument("name", default="")
@cli.params_option("YAML file of a run's parameters")
@click.option("--from", "record", type=cli.FOLDER,
              help="Earlier run record from which to predict the decided orders (default: the "
              "latest of the same tournament).")  # fmt: skip
@with_overrides
@cli.json_option()
def cost(
    name: str, params_file: Path | None, record: Path | None, overrides: Overrides, as_json: bool
) -> None:
    """Forecast the requests and cost of a run of notebook NAME, and which orders it should decide.

    NAME selects the tournament file's pilot_model or headline_model. Without it, a parameter file
    named pilot… or adaptive… is for that notebook, one with a model for placement, and any other
    for headline. The service counts tokens if a key is present; else they are estimated from
    length. Nothing is spent. Answers in the ledger are not counted. A placement that makes its own
    verdicts has two forecasts, for the new model's answers and for the verdicts. The orders that a
    tournament should decide follow from an earlier record; without one, the forecast is the gap
    that it can decide.
    """
    if not (name or params_file):
        raise click.UsageError("name a notebook, or a parameter file with --params")
    root, file = find_root(), params_file or Path("params") / f"{name}.yaml"
    file = file if file.is_file() else root / file
    if not name:
        of_a_model = "model" in read_yaml(file)  # which only a placement names
        begins = (each for each in ("pilot", "adaptive") if file.name.startswith(each))
        name = "placement" if of_a_model else next(begins, "headline")
    run = NotebookRun.resolve(name, root, params_file=file, overrides=dict(overrides))
    figures: dict[str, Any] = {"forecast": None, "max_cost_usd": run.params.max_cost_usd}
    parts: dict[str, Forecast] = {}
    if name == "placement":
        if record:
            raise click.UsageError("--from is for tournaments, not for a placement")
        if both := placement_plan(run.params, root).forecast:
            parts = {f"Forecast of {what}": part for what, part in both.items()}
            figures["forecast"] = forecast_values(both)
    else:
        plan = run.tournament()
        if forecast := plan.cost():
            in_rounds = "Forecast for all pairs; rounds may stop earlier"
            parts = {in_rounds if name == "adaptive" else "Forecast": forecast}
            figures["forecast"] = forecast.as_dict()
        figures["expected"] = expectations(plan, record)
    if as_json:
        cli.echo_json(figures)
        return
    terminal.show_forecasts(parts, figures["max_cost_usd"])
    terminal.show_expected(figures.get("expected", {}))


@cli.main.command()
@click.option("--params", "params_file", required=True, type=cli.FILE,
              help="YAML file: tournament, entrants, max_cost_usd, strata.")  # fmt: skip
@click.option("--forecast", is_flag=True, help="Only print the forecast cost.")
@click.option("--offline", is_flag=True, help="Use the ledger only; send nothing.")
@cli.json_option()
def generate(params_file: Path, forecast: bool, offline: bool, as_json: bool) -> None:
    """Generate the responses of the entrants that a tournament file defines.

    Appends answers to responses_<entrant>.jsonl as they arrive. Run it again to resume: paid
    answers are in the ledger. Responses of a changed definition are generated again.
    """
    given = read_yaml(params_file) | ({"offline": True} if offline else {})
    generation = Generation.read(given, str(params_file))
    if forecast:
        forecasts, cap = generation.forecasts(), generation.params.max_cost_usd
        values = {entrant: each.as_dict() for entrant, each in forecasts.items()}
        cli.echo_either(as_json, values, terminal.show_forecasts, forecasts, cap)
        return
    record = generation.run()
    manifest = record.read()
    if as_json:
        cli.echo_json(manifest, sort_keys=True)
        return
    terminal.show_generated(manifest)
    cli.echo(record.path)


_JUDGES = ["baseline", "anthropic", "openai_compatible"]


@cli.main.command()
@click.argument("record", type=cli.FOLDER)
@click.option("--judge", required=True, type=click.Choice(_JUDGES), help="Kind of judge.")
@click.option("--judge-model", default="", help="Model of the judge.")
@click.option("--max-cost-usd", default="", help="Cost limit; a run above it is refused.")
@click.option("--only-unsure", is_flag=True,
              help="Judge only pairs of which the record's judge was unsure; keep its other "
              "verdicts.")  # fmt: skip
@with_overrides
@click.option("--forecast", is_flag=True, help="Only print the forecast.")
@cli.runs_folder_option("Folder for the new record")
@cli.json_option("rejudge.json instead of sentences")
def rejudge(
    record: Path,
    only_unsure: bool,
    overrides: Overrides,
    forecast: bool,
    runs_dir: Path | None,
    as_json: bool,
    **judge: str,
) -> None:
    """Judge the pairs of a run RECORD with another judge, on the inputs that it kept.

    Makes a new record with a report and rejudge.json: verdicts that agree and that changed, rank
    correlation, decided orders that remain, position bias of both judges. Ledger, forecast and
    cost limit apply as for any run; exit codes as for run.
    """
    given = {"judge.rejudge": "unsure" if only_unsure else "all"} | dict(overrides)
    given = {name: value for name, value in judge.items() if value} | given
    name = notebook_for(record)
    run = NotebookRun.resolve(name, find_root(), from_record=record, overrides=given)
    if forecast:
        plan = run.tournament()
        cost, cap = plan.cost(), plan.params.max_cost_usd
        parts = {f"Forecast of {len(plan.asked)} pairs in both orders": cost} if cost else {}
        values = cost and cost.as_dict()
        cli.echo_either(as_json, values, terminal.show_forecasts, parts, cap)
        return
    finish(run, as_json=as_json, runs_dir=runs_dir, shown=ARTIFACT)
