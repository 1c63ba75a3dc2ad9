"""The command line: run, rate, compare, init."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click

from arena_kit import __version__
from arena_kit.battles import BattleLog, DataError
from arena_kit.rating.base import RatingError, Ratings
from arena_kit.rating.elo import PermutationElo

P = ParamSpec("P")
R = TypeVar("R")

METHODS: dict[str, type[PermutationElo]] = {"permutation-elo": PermutationElo}
WRONG_INPUT, REFUSED = 2, 3
#: Elo updates from which `rate` warns that it takes more than a few seconds.
_LONG = 500_000_000


def _plain_errors(command: Callable[P, R]) -> Callable[P, R]:
    """One sentence on stderr and the documented exit code instead of a traceback."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        from arena_kit.runs import LockedError

        try:
            return command(*args, **kwargs)
        except (DataError, RatingError) as error:
            _stop(str(error), WRONG_INPUT)
        except LockedError as error:
            _stop(str(error), REFUSED)
        except OSError as error:
            _stop(f"{error.filename or ''}: {error.strerror or error}".lstrip(": "), WRONG_INPUT)
        raise AssertionError  # _stop does not return

    return wrapped


def _stop(message: str, code: int) -> None:
    click.echo(f"error: {message}", err=True)
    sys.exit(code)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="arena-kit")
def main() -> None:
    """Turn judge verdicts and human votes into model ratings you can defend.

    Start with `arena-kit run pilot` in a workspace (`arena-kit init DIR` makes one).
    """


@main.command()
@click.argument("name")
@click.option("--params", "params_file", type=click.Path(path_type=Path, dir_okay=False),
              help="YAML file of parameters (default: params/NAME.yaml).")  # fmt: skip
@click.option("-p", "overrides", nargs=2, multiple=True, metavar="KEY VALUE",
              help="Set one parameter; may be repeated and wins over the file.")  # fmt: skip
@click.option("--offline", is_flag=True,
              help="Use cached verdicts only; refuse (exit 3) when one is missing.")  # fmt: skip
@click.option("--runs-dir", type=click.Path(path_type=Path, file_okay=False),
              help="Folder for the record (default: runs/ in the workspace).")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the manifest instead of the table.")
@_plain_errors
def run(
    name: str,
    params_file: Path | None,
    overrides: tuple[tuple[str, str], ...],
    offline: bool,
    runs_dir: Path | None,
    as_json: bool,
) -> None:
    """Run notebook NAME (pilot, headline, k_sweep) into a new record.

    The record holds report.html, the executed notebook and all artifacts; its path is
    the last line printed. Exit codes: 0 finished, 1 failed (the record is kept), 2 wrong
    usage or input, 3 refused.
    """
    from arena_kit import terminal
    from arena_kit.runner import RunFailedError, run_notebook
    from arena_kit.runs import find_root

    given = dict(overrides) | ({"offline": "true"} if offline else {})
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # leaves a failed record
    try:
        record = run_notebook(
            name,
            root=find_root(),
            params_file=params_file,
            overrides=given,
            runs_dir=runs_dir,
            progress=sys.stderr.isatty() and not as_json,
        )
    except RunFailedError as error:
        click.echo(f"error: {error}", err=True)
        click.echo(json.dumps(error.record.read(), indent=2) if as_json else error.record.path)
        sys.exit(error.exit_code)
    if as_json:
        click.echo(json.dumps(record.read(), indent=2, sort_keys=True))
        return
    terminal.show_board(record.path)
    click.echo(f"report: {record.path / 'report.html'}")
    click.echo(record.path)


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--method", type=click.Choice(list(METHODS)), default="permutation-elo",
              show_default=True, help="How battles become ratings.")  # fmt: skip
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE",
              help="Change one setting of the method; may be repeated.")  # fmt: skip
@click.option("--dimension", help="Rate only this dimension of the file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@_plain_errors
def rate(
    file: Path, method: str, changes: tuple[str, ...], dimension: str | None, as_json: bool
) -> None:
    """Rate a battles file (JSONL or CSV, gzipped or not, or Parquet).

    Needs the columns model_a, model_b and winner (model_a, model_b, tie or both_bad).
    A file with several dimensions is rated one by one. A battles.jsonl inside a run
    record is rated with that record's settings, so its ratings come out again.
    """
    from arena_kit import terminal
    from arena_kit.battle_files import read_battles

    battles = read_battles(file)
    spec = _method(method, _recorded_settings(file, method) | _settings(method, changes))
    _warn_if_long(spec, len(battles))
    results, unrated = _rate_each(spec, _dimensions(battles, dimension))
    if as_json:
        click.echo(json.dumps(_rated_json(results, unrated), indent=2, allow_nan=False))
        return
    for name, why in unrated.items():
        click.echo(f"{name} is not rated: {why}", err=True)
    terminal.show_ratings(results)


def _warn_if_long(method: PermutationElo, n_battles: int) -> None:
    """Say beforehand what a large file costs, and how to have it cheaper."""
    replays = method.n_perms + method.evidence_replicates * method.evidence_orders
    if n_battles * replays > _LONG:
        click.echo(
            f"{n_battles} battles x {replays} replays take a while; "
            "--set evidence_replicates=0 leaves the intervals out",
            err=True,
        )


def _dimensions(battles: BattleLog, wanted: str | None) -> dict[str, BattleLog]:
    found = battles.by_dimension()
    if wanted is None:
        return found
    if wanted not in found:
        raise DataError(f"no dimension {wanted!r} in the file; found: {', '.join(found) or 'none'}")
    return {wanted: found[wanted]}


def _rate_each(
    method: PermutationElo, logs: dict[str, BattleLog]
) -> tuple[dict[str, Ratings], dict[str, str]]:
    """Ratings of every dimension that has one, and why the others have none."""
    rated: dict[str, Ratings] = {}
    unrated: dict[str, str] = {}
    for name, log in logs.items():
        try:
            rated[name] = method(log)
        except RatingError as error:
            unrated[name] = str(error)
    if not rated:
        raise RatingError("; ".join(f"{n}: {why}" if n else why for n, why in unrated.items()))
    return rated, unrated


def _method(name: str, settings: dict[str, Any]) -> PermutationElo:
    try:
        return METHODS[name](**settings)
    except ValueError as error:
        raise DataError(f"--set: {error}") from None


def _recorded_settings(file: Path, method: str) -> dict[str, Any]:
    """Settings that a run record rated this file with; none for any other file."""
    from arena_kit.runs import open_record

    if file.name != "battles.jsonl" or not (file.parent / "manifest.json").is_file():
        return {}
    rating = open_record(file.parent).get("rating", {})
    if rating.get("method") != method:
        return {}
    click.echo(f"settings of the run record {file.parent}", err=True)
    return dict(rating["settings"])


def _settings(method: str, changes: tuple[str, ...]) -> dict[str, Any]:
    known = {f.name: f.type for f in fields(METHODS[method])}
    out = {}
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals or key not in known:
            raise DataError(f"--set {change!r}: unknown setting; known: {', '.join(known)}")
        out[key] = _typed(key, text, str(known[key]))
    return out


def _typed(key: str, text: str, kind: str) -> Any:
    readers: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "bool": _boolean}
    try:
        return readers.get(kind, str)(text)
    except ValueError:
        raise DataError(f"--set {key}: expected {kind}, got {text!r}") from None


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _rated_json(results: dict[str, Ratings], unrated: dict[str, str]) -> dict[str, Any]:
    some = next(iter(results.values()))
    several = len(results) + len(unrated) > 1
    dropped = {
        kind: sum(ratings.dropped[kind] for ratings in results.values()) for kind in some.dropped
    }
    return {
        "method": some.method,
        "settings": some.settings,
        "ratings": [
            ({"dimension": name} if several else {}) | rating.as_dict()
            for name, ratings in results.items()
            for rating in ratings.ratings
        ],
        "n_battles": sum(ratings.n_battles for ratings in results.values()),
        "dropped": dropped,
    } | ({"unrated": unrated} if unrated else {})


@main.command()
@click.argument("before", type=click.Path(path_type=Path, file_okay=False))
@click.argument("after", type=click.Path(path_type=Path, file_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@_plain_errors
def compare(before: Path, after: Path, as_json: bool) -> None:
    """What changed between two run records.

    Shows parameters and inputs that differ, verdicts that flipped, and how far each
    rating moved, with both evidence intervals.
    """
    from arena_kit import terminal
    from arena_kit.compare import compare_records

    found = compare_records(before, after)
    if as_json:
        click.echo(json.dumps(found.as_dict(), indent=2, allow_nan=False))
    else:
        terminal.show_comparison(found)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@_plain_errors
def init(folder: Path) -> None:
    """Make a workspace in FOLDER: notebooks, parameters and the sample tournament.

    Works from an installed package alone. Then: cd FOLDER && arena-kit run pilot
    """
    from arena_kit.workspace import init_workspace

    for made in init_workspace(folder):
        click.echo(made)
    click.echo(f"next: cd {folder} && arena-kit run pilot")
