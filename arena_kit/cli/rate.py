"""The commands right of the battles: rate and compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import click

from arena_kit.battles.log import BattleLog
from arena_kit.battles.on_disk import STREAM_FROM
from arena_kit.cli.base import (
    PATH,
    Listing,
    Lists,
    cluster_option,
    echo,
    echo_json,
    json_option,
    main,
    plain_errors,
    record_folder,
)
from arena_kit.cli.imports import HowToRead, reading_options
from arena_kit.cli.rate_hybrid import SETTINGS, rate_together, refuse_alone
from arena_kit.cli.rate_stream import rate_stream, streams
from arena_kit.files import DataError
from arena_kit.judging.quality.panel import Panel, panel
from arena_kit.rating.base import Ratings, each_rated
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.rating.elo.method import PermutationElo
from arena_kit.rating.glicko2.method import Glicko2

Method = PermutationElo | BradleyTerry | Glicko2
METHODS: dict[str, type[Method]] = {
    "permutation-elo": PermutationElo,
    "bradley-terry": BradleyTerry,
    "glicko2": Glicko2,
}
DEFAULT_METHOD = "bradley-terry"
#: Short names of methods.
_SHORT = {"elo": "permutation-elo"}
#: Settings that are several names, separated by commas.
_SEVERAL = ("covariates", "center_on")
#: Elo updates from which `rate` warns that it takes more than a few seconds.
_LONG = 500_000_000


def _settings() -> Lists:
    """Every key that `--set` takes, with its default and, where they are few, what it may be."""
    own = {f"Settings of {name} (--set KEY=VALUE)": _keys(each) for name, each in METHODS.items()}
    return own | SETTINGS


def _keys(method: type[Method]) -> list[tuple[str, str]]:
    kinds = get_type_hints(method)
    return [(each.name, _default(each.default, kinds[each.name])) for each in fields(method)]


def _default(value: object, kind: object) -> str:
    if isinstance(value, tuple):
        return "names separated by commas; default: none"
    if get_origin(kind) is Literal:
        return f"{' | '.join(map(str, get_args(kind)))}; default: {value}"
    if isinstance(value, bool):
        return f"true | false; default: {str(value).lower()}"
    if isinstance(value, float):
        return f"default: {value:g}"
    return f"default: {'none' if value == '' else value}"


@main.command(cls=Listing, lists=_settings)
@click.argument("file", type=PATH)
@click.option("--method", type=click.Choice([*METHODS, *_SHORT]),
              help=f"How battles become ratings (default: {DEFAULT_METHOD}; elo is "
              "permutation-elo).")  # fmt: skip
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE",
              help="Change one setting of the method, listed below; may be repeated.")  # fmt: skip
@click.option("--dimension", help="Rate only this dimension of the file.")
@click.option("--margin", type=click.FloatRange(min=0), metavar="POINTS",
              help="Call neighbours equivalent whose gap surely lies within so many points "
              "(bradley-terry; default: a record's own, else 0).")  # fmt: skip
@click.option("--also", multiple=True, type=PATH, metavar="FILE",
              help="A further battles file or record, such as another judge's on the same pairs; "
              "may be repeated.")  # fmt: skip
@click.option("--panel", "votes", is_flag=True,
              help="Let the judges in the files vote on every pair, and rate what the majority "
              "says.")  # fmt: skip
@click.option("--verdicts", type=PATH, metavar="VERDICTS",
              help="A judge's battles file or run record: people's votes in FILE and these make "
              "one board.")  # fmt: skip
@click.option("--verdicts-winner", default="winner", metavar="COLUMN",
              help="The column of the outcome in VERDICTS.")  # fmt: skip
@click.option("--judge-model", default="", metavar="NAME",
              help="Whose verdicts count, where VERDICTS has those of several judges.")  # fmt: skip
@click.option("--stream/--no-stream", default=None,
              help="Rate the battles where they are, without holding them (default: those of a "
              f"folder or pattern, and files of {STREAM_FROM:,} rows or 1 GB of text and "
              "more).")  # fmt: skip
@cluster_option
@json_option()
@plain_errors
@reading_options
def rate(
    file: Path,
    method: str | None,
    changes: tuple[str, ...],
    dimension: str | None,
    margin: float | None,
    also: tuple[Path, ...],
    votes: bool,
    verdicts: Path | None,
    verdicts_winner: str,
    judge_model: str,
    stream: bool | None,
    as_json: bool,
    how: HowToRead,
) -> None:
    """Rate a battles FILE (JSONL, JSON or CSV, gzipped or not, or Parquet) or a run record.

    FILE may be a folder of such files, or a pattern in quotes such as 'votes/*.parquet'. Those,
    and large files, are streamed: battles pass by and are not held, whatever their number. Only
    Bradley–Terry is streamed.

    A file needs the columns model_a, model_b and winner (model_a, model_b, tie or both_bad), or
    is in another tool's format, or has its columns named (--model-a, --winner, ...).
    A file with several dimensions is rated one by one. A run record, or the battles.jsonl
    inside, is rated with that record's settings, so the board of its report comes out again, and
    with --method elo the Elo beside it. Only Bradley–Terry says which orders are decided, how few
    votes they rest on and how many more the open ones need. Several judges on the same pairs vote
    as a --panel.
    """
    from arena_kit.runs.record.battles import battles_file, manifest_of
    from arena_kit.runs.record.progress import PATIENCE, status_line

    method = _SHORT.get(method or "", method)
    if verdicts is not None:
        if also or votes:
            raise click.UsageError("--verdicts takes neither --also nor --panel: one judge's alone")
        if margin:
            raise DataError("--margin is for a board by itself, not for one with --verdicts")
        rate_together(
            file, how, verdicts, verdicts_winner=verdicts_winner, judge_model=judge_model,
            method=method, settings=_changed(changes), dimension=dimension, as_json=as_json,
        )  # fmt: skip
        return
    refuse_alone(verdicts_winner, judge_model)
    spec = _method(file, method, changes)
    if margin and not isinstance(spec, BradleyTerry):
        raise DataError("--margin needs --method bradley-terry: only it says which orders are open")
    if streams(spec, file, how, stream, alone=not (also or votes)):
        rated = rate_stream(spec, file, how, dimension)
        _show(rated.results, rated.unrated, rated.logs, margin or 0.0, as_json=as_json)
        return
    battles = _read((file, *also), how, dimension, getattr(spec, "covariates", ()))
    jury = panel(battles) if votes else None
    battles = jury.battles if jury else battles
    _warn_if_long(spec, len(battles))
    logs = battles.by_dimension()
    record = manifest_of(battles_file(file))
    own = record.get("tournament", {}).get("report", {}).get("margin", 0.0)
    with status_line(lambda: f"rating {len(battles):,} battles", after=PATIENCE):
        results, unrated = each_rated(logs, lambda name: spec(logs[name]))
    _show(
        results, unrated, logs, own if margin is None else margin,
        judged="judge" in record, jury=jury, as_json=as_json,
    )  # fmt: skip


def _read(
    files: tuple[Path, ...], how: HowToRead, dimension: str | None, covariates: tuple[str, ...]
) -> BattleLog:
    """The battles of all files."""
    from arena_kit.runs.record.battles import battles_of
    from arena_kit.runs.record.progress import PATIENCE, status_line

    with status_line(lambda: f"reading {files[0]}", after=PATIENCE):
        every = [
            battles_of(
                file, covariates=covariates, format=how.format, columns=how.columns,
                dimension=dimension,
            )
            for file in files
        ]  # fmt: skip
    return BattleLog.joined(*every) if len(every) > 1 else every[0]


def _show(
    results: dict[str, Ratings],
    unrated: dict[str, str],
    logs: Mapping[str, BattleLog],
    margin: float,
    *,
    judged: bool = False,
    jury: Panel | None = None,
    as_json: bool,
) -> None:
    """Print ratings and what may be said about them."""
    from arena_kit.cli import terminal
    from arena_kit.runs.record.progress import PATIENCE, status_line

    with status_line(lambda: "looking at which orders are decided", after=PATIENCE):
        claims = _claims(results, logs, margin, judged=judged)
    if as_json:
        told = _rated_json(results, unrated, claims) | ({"panel": jury.as_dict()} if jury else {})
        echo_json(told)
        return
    for sentence in jury.sentences if jury else ():
        echo(sentence)
    for name, why in unrated.items():
        echo(f"{name} is not rated: {why}", err=True)
    terminal.show_ratings(results, claims)


def _claims(
    results: dict[str, Ratings], logs: Mapping[str, BattleLog], margin: float, *, judged: bool
) -> dict[str, dict[str, Any]]:
    """What may be said about the order of every dimension; nothing by Elo and
    Glicko-2.
    """
    from arena_kit.runs.record.artifacts import claimed

    return {
        name: claimed(ratings, logs[name], margin, judged=judged)
        for name, ratings in results.items()
        if ratings.method == "bradley-terry"
    }


def _warn_if_long(method: Method, n_battles: int) -> None:
    """Say beforehand what a large file costs, and how to have it cheaper."""
    if isinstance(method, BradleyTerry):
        return
    replays = method.evidence_replicates
    if isinstance(method, PermutationElo):
        replays = method.n_perms + replays * method.evidence_orders
    if n_battles * replays > _LONG:
        echo(
            f"{n_battles} battles x {replays} replays take a while; "
            "--set evidence_replicates=0 leaves the intervals out",
            err=True,
        )


def _method(file: Path, name: str | None, changes: tuple[str, ...]) -> Method:
    """The method that is named, else the default one, with a record's settings and the changes."""
    from arena_kit.runs.record.battles import battles_file, manifest_of
    from arena_kit.runs.settings.files import recorded_settings, validated

    file = battles_file(file)
    recorded = manifest_of(file).get("rating", {})
    name = name or DEFAULT_METHOD
    settings = recorded_settings(recorded, name, file.parent)
    if settings:
        echo(f"settings of the run record {file.parent}", err=True)
    return validated(METHODS[name], settings | _changed(changes), "--set")


def _changed(changes: tuple[str, ...]) -> dict[str, Any]:
    """What `--set` says, as it was written; several names as a list."""
    settings: dict[str, Any] = {}
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise DataError(f"--set {change!r}: expected KEY=VALUE")
        settings[key] = _names(text) if key in _SEVERAL else text
    return settings


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _rated_json(
    results: dict[str, Ratings], unrated: dict[str, str], claims: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    from arena_kit.runs.record.artifacts import rows_with_ranks

    some = next(iter(results.values()))
    several = len(results) + len(unrated) > 1
    dropped = {
        kind: sum(ratings.dropped[kind] for ratings in results.values()) for kind in some.dropped
    }
    fit = {name: ratings.fit for name, ratings in results.items()} if several else some.fit
    notes = {name: list(ratings.notes) for name, ratings in results.items() if ratings.notes}
    return (
        {
            "method": some.method,
            "settings": some.settings,
            "ratings": [
                ({"dimension": name} if several else {}) | row
                for name, ratings in results.items()
                for row in rows_with_ranks(ratings)
            ],
            "n_battles": sum(ratings.n_battles for ratings in results.values()),
            "dropped": dropped,
        }
        | ({"fit": fit} if any(fit.values()) else {})
        | ({"notes": notes if several else next(iter(notes.values()))} if notes else {})
        | ({"claims": claims if several else next(iter(claims.values()))} if claims else {})
        | ({"unrated": unrated} if unrated else {})
    )


@click.command()
@click.argument("before", type=record_folder)
@click.argument("after", type=record_folder)
@json_option("JSON instead of tables")
@plain_errors
def compare(before: Path, after: Path, as_json: bool) -> None:
    """What changed between two run records.

    Warns where prompt sets, judges or centers differ. Shows parameters and inputs that differ,
    verdicts that flipped, how far each entrant's Bradley–Terry gap to the others moved, with the
    interval of that change, and which decided orders were lost, gained or reversed.
    """
    from arena_kit.cli import terminal
    from arena_kit.runs.record.compare import compare_records

    comparison = compare_records(before, after)
    if as_json:
        echo_json(comparison.as_dict())
    else:
        terminal.show_comparison(comparison)
