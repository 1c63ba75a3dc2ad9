"""The command that puts the recorded pairs of a run to another judge."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from arena_kit.cli.base import (
    FOLDER,
    echo_json,
    json_option,
    main,
    plain_errors,
    runs_folder_option,
)
from arena_kit.cli.runs import Overrides, finish, with_overrides

_JUDGES = ["baseline", "anthropic", "openai_compatible"]


@main.command()
@click.argument("record", type=FOLDER)
@click.option("--judge", required=True, type=click.Choice(_JUDGES), help="Who judges the pairs.")
@click.option("--judge-model", default="", help="Its model, as the parameter judge_model.")
@click.option("--max-cost-usd", default="", help="The most that this may cost; refused above it.")
@click.option("--only-unsure", is_flag=True,
              help="Ask only about pairs of which the record's judge was unsure; its other "
              "verdicts stand.")  # fmt: skip
@with_overrides
@click.option("--forecast", is_flag=True, help="Only say what it would send and cost.")
@runs_folder_option("Folder for the new record")
@json_option("rejudge.json instead of sentences")
@plain_errors
def rejudge(
    record: Path,
    judge: str,
    judge_model: str,
    max_cost_usd: str,
    only_unsure: bool,
    overrides: Overrides,
    forecast: bool,
    runs_dir: Path | None,
    as_json: bool,
) -> None:
    """Have another judge judge the pairs of a run RECORD, on the inputs that it kept.

    Leaves a new record with a report of its own and rejudge.json: verdicts that agreed and
    flipped, the rank correlation, which decided orders survive, both judges' slot bias. Judging
    goes through the ledger, the forecast and the cap of any run; exit codes as for run.
    """
    from arena_kit.cli import terminal
    from arena_kit.runs.notebook.run import NotebookRun, run_notebook
    from arena_kit.runs.record.record import find_root
    from arena_kit.runs.tournament.rejudge import ARTIFACT, notebook_for

    given = {"judge": judge, "judge.rejudge": "unsure" if only_unsure else "all"}
    given |= {"judge_model": judge_model} if judge_model else {}
    given |= {"max_cost_usd": max_cost_usd} if max_cost_usd else {}
    given |= dict(overrides)
    name, root = notebook_for(record), find_root()
    if forecast:
        plan = NotebookRun.resolve(name, root, from_record=record, overrides=given).tournament()
        cost = plan.forecast
        if as_json:
            echo_json(cost and cost.as_dict())
        else:
            title = f"Forecast of {len(plan.asked)} pairs in both orders"
            terminal.show_forecasts({title: cost} if cost else {}, plan.params.max_cost_usd)
        return
    again = partial(
        run_notebook, name, root=root, from_record=record, overrides=given, runs_dir=runs_dir
    )
    finish(again, as_json=as_json, shown=ARTIFACT)
