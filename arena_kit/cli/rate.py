"""The commands right of the battles: rate and compare."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from arena_kit.battles.log import BattleLog
from arena_kit.cli.base import main, plain_errors
from arena_kit.files import DataError
from arena_kit.rating import claims
from arena_kit.rating.base import RatingError, Ratings
from arena_kit.rating.bradley_terry import BradleyTerry
from arena_kit.rating.elo import PermutationElo
from arena_kit.rating.glicko2 import Glicko2

Method = PermutationElo | BradleyTerry | Glicko2
METHODS: dict[str, type[Method]] = {
    "permutation-elo": PermutationElo,
    "bradley-terry": BradleyTerry,
    "glicko2": Glicko2,
}
DEFAULT_METHOD = "permutation-elo"
#: Elo updates from which `rate` warns that it takes more than a few seconds.
_LONG = 500_000_000


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--method", type=click.Choice(list(METHODS)),
              help=f"How battles become ratings (default: {DEFAULT_METHOD}, or a record's "
              "own).")  # fmt: skip
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE",
              help="Change one setting of the method; may be repeated.")  # fmt: skip
@click.option("--dimension", help="Rate only this dimension of the file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@plain_errors
def rate(
    file: Path, method: str | None, changes: tuple[str, ...], dimension: str | None, as_json: bool
) -> None:
    """Rate a battles file (JSONL or CSV, gzipped or not, or Parquet).

    Needs the columns model_a, model_b and winner (model_a, model_b, tie or both_bad).
    A file with several dimensions is rated one by one. A battles.jsonl inside a run
    record is rated with that record's settings, so its ratings come out again.
    """
    from arena_kit.cli import terminal

    recorded = _record_of(file)
    method = method or recorded.get("rating", {}).get("method", DEFAULT_METHOD)
    spec = _method(method, _recorded_settings(file, recorded, method) | _settings(method, changes))
    battles = _battles(file, recorded, getattr(spec, "covariates", ()))
    _warn_if_long(spec, len(battles))
    results, unrated = _rate_each(spec, _dimensions(battles, dimension))
    if as_json:
        click.echo(json.dumps(_rated_json(results, unrated), indent=2, allow_nan=False))
        return
    for name, why in unrated.items():
        click.echo(f"{name} is not rated: {why}", err=True)
    terminal.show_ratings(results)


def _warn_if_long(method: Method, n_battles: int) -> None:
    """Say beforehand what a large file costs, and how to have it cheaper."""
    if isinstance(method, BradleyTerry):
        return
    replays = method.evidence_replicates
    if isinstance(method, PermutationElo):
        replays = method.n_perms + replays * method.evidence_orders
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
    method: Method, logs: dict[str, BattleLog]
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


def _method(name: str, settings: dict[str, Any]) -> Method:
    try:
        return METHODS[name](**settings)
    except ValueError as error:
        raise DataError(f"--set: {error}") from None


def _record_of(file: Path) -> dict[str, Any]:
    """The manifest of the run record that this file belongs to; empty for any other file."""
    from arena_kit.runs.record import open_record

    if file.name != "battles.jsonl" or not (file.parent / "manifest.json").is_file():
        return {}
    return open_record(file.parent)


def _battles(file: Path, recorded: dict[str, Any], covariates: tuple[str, ...]) -> BattleLog:
    """The battles of a file; of a record that only pins its human votes, those too."""
    from arena_kit.battles.files import read_battles

    if recorded.get("human_battles", {}).get("inlined", True):
        return read_battles(file, covariates=covariates)
    from arena_kit.runs.placement import pinned_battles

    return pinned_battles(file.parent, recorded)


def _recorded_settings(file: Path, recorded: dict[str, Any], method: str) -> dict[str, Any]:
    """Settings that a run record rated this file with; none for any other file."""
    rating = recorded.get("rating", {})
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
    readers: dict[str, Callable[[str], Any]] = {
        "int": int, "float": float, "bool": _boolean, "tuple[str, ...]": _names,
    }  # fmt: skip
    try:
        return readers.get(kind, str)(text)
    except ValueError:
        raise DataError(f"--set {key}: expected {kind}, got {text!r}") from None


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


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
    fit = {name: found.fit for name, found in results.items()} if several else some.fit
    return (
        {
            "method": some.method,
            "settings": some.settings,
            "ratings": [
                ({"dimension": name} if several else {})
                | rating.as_dict()
                | {"ranks": ranges[rating.model]}
                for name, ratings in results.items()
                for ranges in [claims.rank_ranges(ratings)]
                for rating in ratings.ratings
            ],
            "n_battles": sum(ratings.n_battles for ratings in results.values()),
            "dropped": dropped,
        }
        | ({"fit": fit} if any(fit.values()) else {})
        | ({"unrated": unrated} if unrated else {})
    )


@main.command()
@click.argument("before", type=click.Path(path_type=Path, file_okay=False))
@click.argument("after", type=click.Path(path_type=Path, file_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@plain_errors
def compare(before: Path, after: Path, as_json: bool) -> None:
    """What changed between two run records.

    Shows parameters and inputs that differ, verdicts that flipped, and how far each
    rating moved, with both evidence intervals.
    """
    from arena_kit.cli import terminal
    from arena_kit.runs.compare import compare_records

    found = compare_records(before, after)
    if as_json:
        click.echo(json.dumps(found.as_dict(), indent=2, allow_nan=False))
    else:
        terminal.show_comparison(found)
