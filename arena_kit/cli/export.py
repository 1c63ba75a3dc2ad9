"""The command that writes battles and ratings for other tools."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import click

from arena_kit.battles.log import BattleLog
from arena_kit.battles.readers.formats import format_of
from arena_kit.battles.write import spoken, write_fastchat
from arena_kit.cli.base import PATH, echo
from arena_kit.cli.imports import HowToRead, reading_options
from arena_kit.cli.rate import METHODS, method_class
from arena_kit.files import DataError
from arena_kit.rating.base import RatingError
from arena_kit.reporting.board import FILE as BOARD
from arena_kit.reporting.board import Board, rate
from arena_kit.runs.record import exports
from arena_kit.runs.record.battles import battles_of
from arena_kit.runs.record.record import open_record
from arena_kit.site.overview import reading

_RELATIONSHIPS = get_args(exports.Relationship)


@click.command()
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@click.option("--to", "target", required=True,
              type=click.Choice(["fastchat", "every-eval-ever", "csv"]),
              help="fastchat: battles, as FastChat and arena-rank read them; csv: all ratings in "
              "one table; every-eval-ever: a document per model.")  # fmt: skip
@click.option("--out", required=True, type=PATH,
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
    organization: str,
    relationship: exports.Relationship | None,
    developers: tuple[str, ...],
    how: HowToRead,
) -> None:
    """Write the battles or ratings of a run record or battles file (SOURCE) for other tools.

    Losses of the other format are reported on stderr; unknown fields are omitted.
    """
    if target == "fastchat":
        _export_battles(source, out, dimension, how)
        return
    if target == "every-eval-ever" and not (organization and relationship):
        raise DataError(
            "every-eval-ever needs --organization (who publishes these ratings) and "
            f"--relationship ({', '.join(_RELATIONSHIPS)}), which records do not have"
        )
    rows, provenance = _ratings(source, dimension, methods, how)
    if relationship is None or target == "csv":
        exports.write_ratings_csv(out, rows)
        echo(f"{len(rows)} ratings: {out}")
        return
    made_by = {model: name for model, _, name in (each.rpartition("=") for each in developers)}
    publisher: Any = {"organization": organization, "relationship": relationship}
    publisher |= {"developers": made_by, "now": datetime.now(UTC)}
    files = exports.write_documents(out, rows, provenance, **publisher)
    if n := sum(not exports.developer_of(name, made_by) for name in {row.model for row in rows}):
        echo(
            f"{n} models have no developer and are filed under unknown; name it with --developer",
            err=True,
        )
    echo(f"{len(files)} documents: {out}")


def _export_battles(source: Path, out: Path, dimension: str | None, how: HowToRead) -> None:
    battles = battles_of(source, dimension=dimension, format=how.format, columns=how.columns)
    whole_file = source.is_file() and dimension is None
    said = spoken(source, format_of(source, how.format, how.columns)) if whole_file else {}
    for sentence in write_fastchat(out, battles, said):
        echo(sentence, err=True)
    echo(f"{len(battles)} battles: {out}")


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
        kept = [row for row in rows if dimension in (None, row.dimension)]
        if not kept:
            found = ", ".join(sorted({row.dimension for row in rows} - {""})) or "none"
            raise DataError(f"{source}: no dimension {dimension!r}; found: {found}")
        with reading(source):
            return kept, exports.record_provenance(source)
    battles = battles_of(source, dimension=dimension, format=how.format, columns=how.columns)
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
            echo(f"not rated: {name}: {error}", err=True)
            continue
        for dimension, why in boards[-1].unrated.items():
            echo(f"not rated: {name}, {dimension}: {why}", err=True)
    if not boards:
        raise RatingError("no battles to rate by any method")
    return boards
