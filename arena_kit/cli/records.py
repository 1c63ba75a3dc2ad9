"""The commands about records: list, show, open, compare, export and
prune them, and make their site.
"""

import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import click

from arena_kit.battles.log import BattleLog
from arena_kit.battles.readers.formats import format_of
from arena_kit.battles.write import spoken, write_fastchat
from arena_kit.cli import base as cli
from arena_kit.cli import terminal
from arena_kit.cli.imports import HowToRead, reading_options
from arena_kit.cli.rate import METHODS, method_class
from arena_kit.files import DataError, read_json
from arena_kit.rating.base import RatingError
from arena_kit.reporting.answer import FILE as ANSWER
from arena_kit.reporting.board import FILE as BOARD
from arena_kit.reporting.board import Board, rate
from arena_kit.runs.record import exports, pruning
from arena_kit.runs.record.compare import compare_records
from arena_kit.runs.record.inputs import battles_of, human_votes
from arena_kit.runs.record.record import find_root, open_record, runs_folder
from arena_kit.site.build import build_site
from arena_kit.site.overview import overviews, reading, records_in
from arena_kit.site.reading import reading_of

_SHOWN = ("first", "winner", "winning_entrant", "justification")
_RELATIONSHIPS = get_args(exports.Relationship)
_runs_dir = cli.runs_folder_option("Folder of the records")


@cli.main.group()
def runs() -> None:
    """List, show, open, compare, export and prune run records.

    A RUN is a record's folder, or its name in runs/.
    """


@runs.command("list")
@_runs_dir
@cli.json_option()
def list_runs(runs_dir: Path | None, as_json: bool) -> None:
    """All records, the newest first: date, notebook, judge, status, cost and answer."""
    there = overviews(_folder(runs_dir))
    cli.echo_either(as_json, [each.as_dict() for each in there], terminal.show_runs, there)


@runs.command()
@click.argument("record", type=cli.record_folder)
@click.argument("battle", required=False)
@cli.json_option("every battle, or BATTLE, with its texts as JSON lines")
def show(record: Path, battle: str | None, as_json: bool) -> None:
    """Show a run RECORD: its board or, with the battle_id of a BATTLE, that battle's texts.

    Reads only the record's folder; texts need a record that kept its inputs.
    """
    with reading(record):
        if battle or as_json:
            for row in _battles(record, battle):
                _print(row, as_json=as_json)
            return
        manifest = open_record(record)
        show_board(record)
        facts = [manifest.get(name) for name in ("mode", "started_at", "status")]
        cli.echo("{} of {}, {}".format(*facts))
        kept = [entry["kept"] for entry in manifest.get("inputs", {}).values()]
        cli.echo(f"inputs: {sum(kept)} files kept, {len(kept) - sum(kept)} only as hashes")


def show_board(record: Path) -> None:
    """The board of a run record and under it the answer that its report begins with."""
    answer = read_json(record / ANSWER) if (record / ANSWER).is_file() else None
    board = Board.read(record) if (record / BOARD).is_file() else None
    if board:
        terminal.show_board(board, answered=answer is not None)
    if answer and (board is None or board.diagnostics):
        cli.echo("", *answer["said"])


@runs.command()
@click.argument("before", type=cli.record_folder)
@click.argument("after", type=cli.record_folder)
@cli.json_option("JSON instead of tables")
def compare(before: Path, after: Path, as_json: bool) -> None:
    """Compare two run records.

    Warns if prompt sets, judges or centers differ. Shows parameters and inputs that differ,
    verdicts that changed, the change of each entrant's Bradley–Terry gap to the others, with the
    interval of that change, and which decided orders were lost, gained or reversed.
    """
    with reading(after), reading(before):
        comparison = compare_records(before, after)
    cli.echo_either(as_json, comparison.as_dict(), terminal.show_comparison, comparison)


@runs.command("open")
@click.argument("run", type=cli.record_folder)
def open_run(run: Path) -> None:
    """Print the path of a run's report, and open it where there is a display."""
    status = open_record(run).get("status")
    report = run / "report.html"
    if not report.is_file():
        raise DataError(f"{run}: has no report.html (status {status})")
    cli.echo(report.resolve())
    display = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if display or sys.platform in ("darwin", "win32"):
        import webbrowser

        webbrowser.open(report.resolve().as_uri())


@runs.command()
@_runs_dir
@click.option("--older-than", metavar="AGE", default="", help="Such as 12h, 30d or 8w.")
@click.option("--status", type=click.Choice(["failed", "finished", "running"]), default=None,
              help="Only these; a running record without a process was cut off.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Remove them instead of listing them.")
def prune(runs_dir: Path | None, older_than: str, status: str | None, yes: bool) -> None:
    """Remove records that nothing refers to; without --yes only list them.

    Running records are kept, and those that another record or a file in params/ refers to (to
    replay, rate or compare). Verdicts stay in the ledger.
    """
    age = pruning.age(older_than) if older_than else None
    folder = _folder(runs_dir)
    plan = pruning.prunable(folder, find_root(), older_than=age, status=status or "")
    cli.echo(*(f"kept: {record.name}: {why}" for record, why in plan.kept.items()))
    size = f"{plan.bytes / 1e6:.1f} MB"
    for record in plan.removable:
        if yes:
            pruning.remove(record)
        cli.echo(f"{'removed' if yes else 'would remove'}: {record}")
    n = len(plan.removable)
    todo = "" if yes or not n else "; remove them with --yes"
    cli.echo(f"{n} {'record' if n == 1 else 'records'}, {size}{todo}")


@runs.command()
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@click.option("--to", "target", required=True,
              type=click.Choice(["fastchat", "every-eval-ever", "csv"]),
              help="fastchat: battles, as FastChat and arena-rank read them; csv: all ratings in "
              "one table; every-eval-ever: a document per model.")  # fmt: skip
@click.option("--out", required=True, type=cli.PATH,
              help="File to write; for every-eval-ever, a folder.")  # fmt: skip
@click.option("--dimension", help="Only this dimension.")
@click.option("--method", "methods", multiple=True, type=click.Choice(list(METHODS)),
              help="How the battles of a file become ratings; may be repeated (default: "
              "bradley-terry). A record has its own.")  # fmt: skip
@click.option("--organization", default="",
              help="For every-eval-ever: who publishes these ratings.")  # fmt: skip
@click.option("--relationship", type=click.Choice(_RELATIONSHIPS),
              help="For every-eval-ever: that organization's relation to the models.")  # fmt: skip
@click.option("--developer", "developers", multiple=True, metavar="[MODEL=]NAME",
              help="For every-eval-ever: developer of models whose names lack one.")  # fmt: skip
@reading_options
def export(
    source: Path,
    target: str,
    out: Path,
    dimension: str | None,
    methods: tuple[str, ...],
    developers: tuple[str, ...],
    how: HowToRead,
    **publisher: Any,
) -> None:
    """Write the battles or ratings of a run record or battles file (SOURCE) for other tools.

    Losses of the other format are reported on stderr; unknown fields are omitted.
    """
    if target == "fastchat":
        battles = battles_of(source, dimension=dimension, **how)
        whole_file = source.is_file() and dimension is None
        said = (
            spoken(source, format_of(source, how["format"], how["columns"])) if whole_file else {}
        )
        cli.echo(*write_fastchat(out, battles, said), err=True)
        cli.echo(f"{len(battles)} battles: {out}")
        return
    if target == "every-eval-ever" and not all(publisher.values()):
        raise DataError(
            "every-eval-ever needs --organization (who publishes these ratings) and "
            f"--relationship ({', '.join(_RELATIONSHIPS)}), which records do not have"
        )
    rows, provenance = _ratings(source, dimension, methods, how)
    if target == "csv":
        exports.write_ratings_csv(out, rows)
        cli.echo(f"{len(rows)} ratings: {out}")
        return
    made_by = {model: name for model, _, name in (each.rpartition("=") for each in developers)}
    publisher |= {"developers": made_by, "now": datetime.now(UTC)}
    files = exports.write_documents(out, rows, provenance, **publisher)
    if n := sum(not exports.developer_of(name, made_by) for name in {row["model"] for row in rows}):
        cli.echo(
            f"{n} models have no developer and are filed under unknown; name it with --developer",
            err=True,
        )
    cli.echo(f"{len(files)} documents: {out}")


def _ratings(
    source: Path, dimension: str | None, methods: tuple[str, ...], how: HowToRead
) -> tuple[list[exports.RatingRow], exports.Provenance]:
    """The ratings of a record or file, and where they come from."""
    if source.is_dir():
        if methods:
            raise DataError(f"{source}: a record has its own ratings; --method is for battle files")
        manifest = open_record(source)
        if not (source / BOARD).is_file():
            kind = f"a record of {manifest.get('mode')}, status {manifest.get('status')}"
            raise DataError(f"{source}: {kind}, without ratings")
        rows = list(exports.rating_rows(Board.read(source)))
        kept = [row for row in rows if dimension in (None, row["dimension"])]
        if not kept:
            found = ", ".join(sorted({row["dimension"] for row in rows} - {""})) or "none"
            raise DataError(f"{source}: no dimension {dimension!r}; found: {found}")
        with reading(source):
            return kept, exports.record_provenance(source)
    battles = battles_of(source, dimension=dimension, **how)
    boards = _boards(battles, methods or ("bradley-terry",))
    rows = [row for board in boards for row in exports.rating_rows(board)]
    return rows, exports.file_provenance(source, battles)


def _boards(battles: BattleLog, methods: tuple[str, ...]) -> list[Board]:
    """The boards of battles by each method; what is not rated is said."""
    boards = []
    for name in methods:
        try:
            boards.append(rate(battles, method_class(name)()))
        except RatingError as error:
            cli.echo(f"not rated: {name}: {error}", err=True)
            continue
        for dimension, why in boards[-1].unrated.items():
            cli.echo(f"not rated: {name}, {dimension}: {why}", err=True)
    if not boards:
        raise RatingError("no battles to rate by any method")
    return boards


@cli.main.command()
@click.argument("records", metavar="[RUN]...", nargs=-1, type=cli.record_folder)
@click.option("--out", required=True, type=cli.PATH,
              help="Folder of the site: new, empty, or an earlier site.")  # fmt: skip
@click.option("--people", type=cli.FILE,
              help="Battles file of human votes on the same prompts, to find disagreements "
              "with the judge.")  # fmt: skip
@_runs_dir
def site(records: tuple[Path, ...], out: Path, people: Path | None, runs_dir: Path | None) -> None:
    """Make a static site of run records: boards, models, and every battle to read.

    RUN is a record's folder, or its name in runs/; without one, all records there. The site
    needs no server: open its index.html, or publish the folder. Its path is the last line printed.
    """
    for record in records:
        open_record(record)
    chosen = list(records) or records_in(_folder(runs_dir))
    if not chosen:
        raise DataError(f"{_folder(runs_dir)}: holds no record; arena-kit run pilot makes one")
    votes = human_votes(str(people), Path(), winner="winner") if people else None
    built = build_site(chosen, out, votes)
    for name, why in built.without_board.items():
        cli.echo(f"{name} has no board: {why}", err=True)
    cli.echo(built.index)


def _folder(given: Path | None) -> Path:
    return given or runs_folder(find_root())


def _battles(record: Path, wanted: str | None) -> Iterator[dict[str, Any]]:
    """The battles of a record with their texts and what the judge said; one where it is wanted."""
    reading = reading_of(record)
    if reading.no_texts:
        raise DataError(reading.no_texts)
    for each in [reading.battle(wanted)] if wanted else reading.battles:
        yield {
            "battle_id": each.id,
            "model_a": each.model_a,
            "model_b": each.model_b,
            "winner": each.outcome,
            "judge_model": each.judge,
            "prompt": reading.prompts.get(each.prompt),
            "response_a": reading.responses.get((each.model_a, each.prompt)),
            "response_b": reading.responses.get((each.model_b, each.prompt)),
            "verdicts": [{name: said[name] for name in _SHOWN} for said in each.verdicts],
        }


def _print(battle: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        cli.echo(json.dumps(battle, allow_nan=False))
        return
    outcome = battle.get(battle["winner"], battle["winner"])
    cli.echo(f"{battle['battle_id']}: {outcome}, judged by {battle['judge_model']}")
    cli.echo(f"\n[prompt]\n{battle['prompt']}")
    for side in ("a", "b"):
        cli.echo(f"\n[{battle[f'model_{side}']}]\n{battle[f'response_{side}']}")
    for verdict in battle["verdicts"]:
        named = verdict["winning_entrant"] or verdict["winner"] or "no verdict"
        cli.echo(f"\n[{verdict['first']} shown first: {named}]\n{verdict['justification']}")
