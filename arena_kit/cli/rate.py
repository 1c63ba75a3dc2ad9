"""The command that makes a board of a battles file, of many files, of votes and verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, get_args, get_origin, get_type_hints

import click

from arena_kit.battles.log import BattleLog
from arena_kit.battles.readers.format import Columns
from arena_kit.cli import base as cli
from arena_kit.cli.imports import HowToRead, reading_options
from arena_kit.files import DataError, file_in
from arena_kit.rating.bradley_terry.method import BradleyTerry
from arena_kit.reporting.board import FILE as BOARD
from arena_kit.reporting.board import Board, rate

if TYPE_CHECKING:
    from arena_kit.rating.elo import PermutationElo
    from arena_kit.rating.glicko2 import Glicko2

    Method = PermutationElo | BradleyTerry | Glicko2
#: Methods and their classes, which are imported when they are used.
METHODS = {
    "permutation-elo": "PermutationElo",
    "bradley-terry": "BradleyTerry",
    "glicko2": "Glicko2",
}
DEFAULT_METHOD = "bradley-terry"
#: A board and, where they are held in memory, its battles.
Rated = tuple[Board, BattleLog | None]
#: Short names of methods.
_SHORT = {"elo": "permutation-elo"}
#: Settings that are several names, separated by commas.
_SEVERAL = ("covariates", "center_on")
#: Elo updates from which `rate` warns that it takes more than a few seconds.
_LONG = 500_000_000
#: Bytes below which no file is large, whatever it holds.
_SMALL = 1_000_000


def method_class(name: str) -> type[Method]:
    """The class of a method."""
    found: type[Method] = getattr(import_module("arena_kit"), METHODS[name])
    return found


def _settings() -> cli.Lists:
    """Every key that `--set` takes, with its default and, where they are few, what it may be."""
    from arena_kit.rating.with_judge.hybrid import Hybrid

    least = f"votes that a model needs to count; default: {Hybrid().min_battles}"
    own = {f"Settings of {name} (--set KEY=VALUE)": _keys(method_class(name)) for name in METHODS}
    together = "Settings with --verdicts (--set KEY=VALUE), beside those of bradley-terry"
    return own | {together: [("min_battles", least)]}


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


@cli.main.command("rate", cls=cli.Listing, lists=_settings)
@click.argument("file", type=cli.PATH)
@click.option("--method", type=click.Choice([*METHODS, *_SHORT]),
              help=f"How battles become ratings (default: {DEFAULT_METHOD}; elo is "
              "permutation-elo).")  # fmt: skip
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE",
              help="Change one setting of the method, listed below; may be repeated.")  # fmt: skip
@click.option("--dimension", help="Rate only this dimension of the file.")
@click.option("--margin", type=click.FloatRange(min=0), metavar="POINTS",
              help="Margin of equivalence: neighbours are equivalent if the interval of their gap "
              "lies within it (bradley-terry; default: the record's, else 0).")  # fmt: skip
@click.option("--looks", type=click.IntRange(min=1), metavar="N",
              help="How many times the board is read while battles come in; more looks need a "
              "higher level (bradley-terry; default: the record's, else 1).")  # fmt: skip
@click.option("--by", multiple=True, metavar="COLUMN",
              help="Also a board per stratum of this column (language, say; of a record, its "
              "prompts' source, subject, tags or own axes); may be repeated.")  # fmt: skip
@click.option("--also", multiple=True, type=cli.PATH, metavar="FILE",
              help="A further battles file or record, such as another judge's on the same pairs; "
              "may be repeated.")  # fmt: skip
@click.option("--panel", "votes", is_flag=True,
              help="Rate the majority of the judges in the files on each pair.")  # fmt: skip
@click.option("--verdicts", type=cli.PATH, metavar="VERDICTS",
              help="A judge's battles file or run record; one board is estimated from people's "
              "votes in FILE and these verdicts.")  # fmt: skip
@click.option("--verdicts-winner", default="winner", metavar="COLUMN",
              help="The column of the outcome in VERDICTS.")  # fmt: skip
@click.option("--judge-model", default="", metavar="NAME",
              help="Whose verdicts count, where VERDICTS has those of several judges.")  # fmt: skip
@click.option("--chosen", type=cli.FILE, metavar="FILE",
              help="The battles that `votes choose` drew from VERDICTS, where the votes are on "
              "these: verdicts on the others make the board more precise.")  # fmt: skip
@click.option("--stream/--no-stream", default=None,
              help="Read the battles in parts, so that memory stays small (default: for a folder "
              "or pattern, and for files from 5 million rows or 1 GB of text).")  # fmt: skip
@click.option("--report", type=cli.FILE, metavar="PAGE",
              help="Also write a page (.html) of board and figures, and a record.")  # fmt: skip
@cli.cluster_option
@cli.json_option()
@reading_options
def rate_command(
    file: Path, method: str | None, as_json: bool, how: HowToRead, **options: Any
) -> None:
    """Rate a battles FILE (JSONL, JSON or CSV, gzipped or not, or Parquet) or a run record.

    FILE may be a folder of such files, or a pattern in quotes such as 'votes/*.parquet'. Those,
    and large files, are streamed: memory does not grow with the number of battles. Only
    Bradley–Terry can be streamed.

    A file needs the columns model_a, model_b and winner (model_a, model_b, tie or both_bad), or
    another tool's format, or options that name its columns (--model-a, --winner, ...).
    Each dimension has a board of its own. A run record, or the battles.jsonl inside, is rated with
    the record's settings, so the board is that of its report; --method elo gives its Elo.
    Bradley–Terry alone says which orders are decided, how many votes would reverse them and how
    many more would decide the others. Several judges on the same pairs vote as a --panel; with
    --set judges=like_these claims are about a further judge like these.
    """
    name, given = _SHORT.get(method or "", method), SimpleNamespace(**options)
    if given.report and given.report.suffix.lower() != ".html":
        raise DataError(f"--report {given.report}: a report is a page; call it {file.stem}.html")
    together = given.verdicts is not None
    board, battles = (_together if together else _alone)(file, name, how, given)
    if given.report:
        from arena_kit.runs.record.rate_report import publish_rating

        record = publish_rating(board, battles, file, given.report)
        cli.echo(f"record: {record.path}", err=True)
    if as_json:
        cli.echo_json(board.as_dict(pairs=False))
        return
    from arena_kit.cli.terminal import show_board, show_table

    for dimension, why in board.unrated.items():
        cli.echo(f"{dimension or file} is not rated: {why}", err=True)
    show_board(board)
    for axis in given.by:
        if any(each["axis"] == axis for d in board.dimensions for each in d.strata):
            from arena_kit.reporting.strata import strata_table  # needs Matplotlib

            show_table(strata_table(board, axis))
        else:
            why = "they need two strata with battles, and no covariates"
            cli.echo(f"no boards by {axis}: {why}", err=True)
    if given.report:
        cli.echo(f"report: {given.report}")


def _alone(file: Path, method: str | None, how: HowToRead, given: SimpleNamespace) -> Rated:
    """The board of the battles in one or several files, and these, unless they were streamed."""
    named = given.verdicts_winner != Columns().winner
    idle = {"--verdicts-winner": named, "--judge-model": given.judge_model,
            "--chosen": given.chosen}  # fmt: skip
    if names := ", ".join(name for name, there in idle.items() if there):
        raise DataError(f"{names}: only with --verdicts, which names a file of verdicts")
    recorded, margin = _recorded(file), given.margin
    looks = (f"looks={given.looks}",) if given.looks else ()
    spec = _method(recorded, method or DEFAULT_METHOD, given.changes + looks, file)
    if margin and not isinstance(spec, BradleyTerry):
        raise DataError("--margin needs --method bradley-terry: only it says which orders are open")
    if margin is None:
        margin = max((each.margin for each in recorded.dimensions), default=0.0) if recorded else 0
    if given.by and not isinstance(spec, BradleyTerry):
        raise DataError("--by needs --method bradley-terry")
    alone = not (given.also or given.votes or given.by)
    if _streams(spec, file, how, given.stream, alone=alone):
        return _streamed(spec, file, how, given.dimension, margin), None
    battles, panel_fields = _read(file, how, given, spec), {}
    if given.votes:
        from arena_kit.judging.quality.agreement import panel

        jury = panel(battles)
        battles = jury.battles
        panel_fields = {"panel": jury.as_dict(), "notes": jury.sentences}
    _warn_if_long(spec, len(battles))
    with _patience(lambda: f"rating {len(battles):,} battles"):
        board = rate(battles, spec, margin=margin)
    notes = [*_protocols(file, *given.also), *board.notes, *panel_fields.pop("notes", [])]
    return board.model_copy(update=panel_fields | {"notes": notes}), battles


def _protocols(*files: Path) -> list[str]:
    """A warning where records are joined that were not made under one protocol."""
    boards = [board for board in map(_recorded, files) if board]
    found = {each.protocol["sha256"][:12] if each.protocol else "none" for each in boards}
    if len(found) < 2:
        return []
    names = ", ".join(sorted(found))
    return [f"The records have different protocols ({names}): their joint board is exploratory."]


def _recorded(file: Path) -> Board | None:
    """The board of the run record that battles belong to; None for any other file."""
    record = file if file.is_dir() else file.parent if file.name == "battles.jsonl" else None
    return Board.read(record) if record and (record / BOARD).is_file() else None


def _method(recorded: Board | None, name: str, changes: tuple[str, ...], file: Path) -> Method:
    """The method with a record's settings of it, and the changes."""
    settings = recorded.settings_of(name) if recorded else {}
    if settings:
        record = file if file.is_dir() else file.parent
        cli.echo(f"settings of the run record {record}", err=True)
    if not settings and not changes:
        return method_class(name)()
    from arena_kit.runs.settings.files import validated

    return validated(method_class(name), settings | _changed(changes), "--set")


def _changed(changes: tuple[str, ...]) -> dict[str, Any]:
    """What `--set` says, as it was written; several names as a list."""
    settings: dict[str, Any] = {}
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise DataError(f"--set {change!r}: expected KEY=VALUE")
        names = [name.strip() for name in text.split(",") if name.strip()]
        settings[key] = names if key in _SEVERAL else text
    return settings


def _read(file: Path, how: HowToRead, given: SimpleNamespace, spec: Method) -> BattleLog:
    """The battles of all files."""
    from arena_kit.runs.record.inputs import battles_of

    covariates = spec.covariates if isinstance(spec, BradleyTerry) else ()
    named: Any = {"covariates": covariates, **how}
    named |= {"strata": given.by, "dimension": given.dimension}
    with _patience(lambda: f"reading {file}"):
        every = [battles_of(each, **named) for each in (file, *given.also)]
    if not any(map(len, every)):
        raise DataError(f"{file}: no battles in it; write a row per vote under its header")
    return BattleLog.joined(*every) if len(every) > 1 else every[0]


def _warn_if_long(method: Method, n_battles: int) -> None:
    """Say beforehand what a large file costs, and how to have it cheaper."""
    if isinstance(method, BradleyTerry):
        return
    replays = method.evidence_replicates * getattr(method, "evidence_orders", 1)
    replays += getattr(method, "n_perms", 0)
    if n_battles * replays > _LONG:
        cli.echo(
            f"{n_battles} battles x {replays} replays take a while; "
            "--set evidence_replicates=0 leaves the intervals out",
            err=True,
        )


def _patience(words: Callable[[], str]) -> Any:
    """A line that says what is done, once that takes long."""
    from arena_kit.runs.record.progress import PATIENCE, status_line

    return status_line(words, after=PATIENCE)


def _streams(
    spec: Method, file: Path, how: HowToRead, wanted: bool | None, *, alone: bool
) -> TypeGuard[BradleyTerry]:
    """Whether battles are streamed: as `--stream` says, else a folder or pattern, and a file that
    is large and rated in a way that can be streamed.
    """
    record = (file / "battles.jsonl").is_file() or file.name == "battles.jsonl"
    small = file.is_file() and not (alone and _large(spec, file, how))
    unwanted = wanted is False or (wanted is None and (record or small))
    if unwanted or (not file.exists() and not set(str(file)) & set("*?[")):
        return False
    if not alone:
        raise DataError(
            f"{file}: --also, --by and --panel hold all battles; not allowed with a folder, a "
            "pattern or --stream"
        )
    if not isinstance(spec, BradleyTerry):
        raise DataError(f"{file}: battles that are streamed need --method bradley-terry")
    return True


def _large(spec: Method, file: Path, how: HowToRead) -> bool:
    """Whether a file is large, and rated in a way that can be streamed."""
    small = file.stat().st_size < _SMALL and file.suffix.lower() != ".parquet"
    if not isinstance(spec, BradleyTerry) or small or spec.covariates or spec.judges != "these":
        return False
    from arena_kit.battles.on_disk import better_streamed

    return better_streamed(file, how["format"], how["columns"])


def _streamed(
    spec: BradleyTerry, file: Path, how: HowToRead, dimension: str | None, margin: float
) -> Board:
    """Rate battles where they are, saying how many rows have passed and how long it will take."""
    from arena_kit.battles.on_disk import Meter
    from arena_kit.runs.record.rate_files import rate_files

    inner = file_in(file, "battles.jsonl")
    path = inner if inner.is_file() else file
    meter = Meter()
    with _patience(meter.words):
        return rate_files(path, spec, dimension=dimension, margin=margin, meter=meter, **how)


def _together(file: Path, method: str | None, how: HowToRead, given: SimpleNamespace) -> Rated:
    """The board of people's votes and a judge's verdicts together."""
    from arena_kit.reporting.hybrid import hybrid_board
    from arena_kit.runs.record.rate_files import hybrid_method, rate_together

    if given.also or given.votes:
        raise click.UsageError("--verdicts takes neither --also nor --panel: one judge's alone")
    if given.margin:
        raise DataError("--margin is for a board by itself, not for one with --verdicts")
    if method not in (None, DEFAULT_METHOD):
        why = f"which rates both by {DEFAULT_METHOD}"
        raise DataError(f"--method {method} does not apply with --verdicts, {why}")
    spec = hybrid_method(_changed(given.changes), "--set")
    named: Any = {"judge_model": given.judge_model, "dimension": given.dimension, **how}
    named |= {"judge_winner": given.verdicts_winner, "chosen": given.chosen}
    return hybrid_board(*rate_together(file, given.verdicts, spec, **named)), None
