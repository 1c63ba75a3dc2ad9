"""The commands for people's votes: ballots as files, and the store that votes are kept in."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from arena_kit.cli.base import WRONG_INPUT, echo, main, plain_errors
from arena_kit.files import DataError, write_text

if TYPE_CHECKING:
    from arena_kit.voting.ballot import Taken
    from arena_kit.voting.live import LiveArena
    from arena_kit.voting.store import VoteStore

DEFAULT_STORE = ".arena_kit/votes.sqlite"


def options_of(*options: Callable[..., Any]) -> Callable[..., Any]:
    """Several options as one decorator."""

    def added(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return added


store_option = click.option(
    "--store", metavar="PATH|URL", default="", envvar="ARENA_KIT_VOTES",
    help=f"Where votes are kept: a SQLite file, or postgresql://… (default: {DEFAULT_STORE} in the "
    "workspace).",
)  # fmt: skip
arena_options = options_of(
    click.option("--tournament", type=click.Path(path_type=Path), default="params/tournament.yaml",
                 show_default=True, help="Whose prompts and responses are voted on."),
    click.option("--policy", type=click.Path(path_type=Path), default="params/policy.yaml",
                 show_default=True, help="How matchups are drawn."),
    click.option("--dimension", default=None,
                 help="What the votes are about, a dimension of the tournament (default: the "
                 "store's, at first none)."),
    store_option,
)  # fmt: skip
question_option = click.option(
    "--question", default="Which response is better?", show_default=True,
    help="What voters are asked.",
)  # fmt: skip


@main.group()
def votes() -> None:
    """Take in, list and hand on people's votes."""


@votes.command()
@click.option("--pairs", type=click.IntRange(1, 1000), default=40, show_default=True,
              help="Pairs on each ballot.")  # fmt: skip
@click.option("--ballots", type=click.IntRange(1, 1000), default=1, show_default=True,
              help="How many ballots, for a voter each.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), default="ballots", show_default=True,
              help="Folder of the ballots, or a .html file for one.")  # fmt: skip
@click.option("--days", type=click.IntRange(1, 3650), default=30, show_default=True,
              help="How long votes are waited for; then others get the pairs.")  # fmt: skip
@question_option
@arena_options
@plain_errors
def ballot(
    pairs: int, ballots: int, out: Path, days: int, question: str,
    tournament: Path, policy: Path, dimension: str | None, store: str,
) -> None:  # fmt: skip
    """Make blind ballots: pages to send, that need no server.

    Voters open one, vote with the keyboard and send back a small file, which
    `arena-kit votes add` takes in. Which model is which is in the store only; send ballots
    around, never the store. Pairs are drawn as an arena would; several voters may fill in the same
    ballot.
    """
    paths = _free_paths(out, ballots)
    live, key = opened_arena(tournament, policy, dimension, store)
    from arena_kit.voting.ballot import make_ballot

    warn_of_names(live)
    for path in paths:
        write_text(path, make_ballot(live, key, pairs=pairs, days=days, question=question))
        echo(path)
    each = "1 ballot" if ballots == 1 else f"{ballots} ballots"
    echo(
        f"{each} of {pairs} pairs among {len(live.texts.models)} models on "
        f"{len(live.texts.prompts):,} prompts, kept in {live.store.address}; what comes back: "
        "arena-kit votes add FILE..."
    )


@votes.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True,
                type=click.Path(path_type=Path, dir_okay=False))  # fmt: skip
@arena_options
@plain_errors
def add(
    files: tuple[Path, ...], tournament: Path, policy: Path, dimension: str | None, store: str
) -> None:
    """Take in the files that voters sent back.

    Each file counts whole or not at all, and once however often it is added. A file that is
    refused is named with the reason, the others are taken in; the exit code is then 2.
    """
    live, key = opened_arena(tournament, policy, dimension, store)
    from arena_kit.voting.ballot import take_ballot

    refused = 0
    for path in files:
        try:
            taken = take_ballot(live, key, path)
        except DataError as error:
            echo(f"refused: {error}", err=True)
            refused += 1
            continue
        counted = _counted(taken.votes, taken.skips)
        again = f" ({taken.new} new)" if taken.new < taken.votes + taken.skips else ""
        echo(f"{path}: {counted} of {taken.voter}{again}{_left_out(taken)}")
    echo(store_state(live))
    if refused:
        sys.exit(WRONG_INPUT)


@votes.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@store_option
@plain_errors
def list_voters(store: str, as_json: bool) -> None:
    """Who voted, how often, and who is removed."""
    from arena_kit.cli import terminal
    from arena_kit.reporting.tables import Table

    voters = kept_store(store).voters()
    rows = [
        {
            "voter": each.voter,
            "votes": each.votes,
            "skips": each.skips,
            "first seen (UTC)": _moment(each.first_seen),
            "removed": "yes" if each.removed else "",
        }
        for each in voters
    ]
    if as_json:
        echo(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        left = ["voter", "removed"]
        terminal.show_table(Table(rows=rows, title="Voters", left=left, nowrap=["voter"]))


@votes.command("export")
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False),
              help="Battles file to write: .jsonl, .csv or .parquet.")  # fmt: skip
@click.option("--deidentified", is_flag=True,
              help="Voters and sessions under random names, times to the day.")  # fmt: skip
@store_option
@plain_errors
def export_votes(out: Path, deidentified: bool, store: str) -> None:
    """Write the votes as battles that every notebook and `arena-kit rate` read.

    Removed votes and skips are left out, and counted. The last line is the file's path.
    """
    from arena_kit.battles.write import write_battles

    kept = kept_store(store)
    from arena_kit.voting.export import exported

    export = exported(kept, deidentified=deidentified)
    if not len(export.battles):
        raise DataError(f"{kept.address}: holds no vote that counts yet")
    write_battles(out, export.battles)
    echo(
        f"{len(export.battles):,} votes; left out: {export.skips:,} skipped, "
        f"{export.removed:,} removed"
    )
    echo(out)


def opened_arena(
    tournament: Path, policy: Path, dimension: str | None, store: str, **limits: Any
) -> tuple[LiveArena, bytes]:
    """The arena, with these limits, and the key of its store."""
    from arena_kit.runs.record.inputs import tournament_inputs
    from arena_kit.runs.record.record import find_root

    _need_extra()
    from arena_kit.voting.limits import Limits
    from arena_kit.voting.live import LiveArena
    from arena_kit.voting.signing import key_file, signing_key

    root = find_root()
    where = _where(store)
    known = tournament_inputs(root / tournament, root)[0].dimensions
    if dimension is not None and dimension not in known:
        raise DataError(f"--dimension {dimension!r} is none of {tournament}: {', '.join(known)}")
    live = LiveArena.open(
        where, tournament, root=root, policy=policy, dimension=dimension, limits=Limits(**limits)
    )
    return live, signing_key(key_file(where, root))


def kept_store(store: str) -> VoteStore:
    """The store that a command is about, which must be there."""
    _need_extra()
    from arena_kit.voting.store import VoteStore

    return VoteStore.open(_where(store), create=False)


def _where(store: str) -> str:
    from arena_kit.runs.record.record import find_root

    if store:
        return store
    path = find_root() / DEFAULT_STORE
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _need_extra() -> None:
    try:
        import alembic  # noqa: F401
        import fastapi  # noqa: F401
        import sqlalchemy  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise DataError(
            f"people's votes need the extra vote ({error.name} is missing): "
            "pip install 'arena-kit[vote]'"
        ) from None


def warn_of_names(live: LiveArena) -> None:
    """Say which responses name a model of the arena."""
    from arena_kit.voting.ballot import self_naming

    if found := sorted(self_naming(live.texts)):
        model, prompt = found[0]
        echo(
            f"warning: {len(found):,} responses name a model of the arena, which no page can hide "
            f"(the first: {model} on {prompt})",
            err=True,
        )


def _free_paths(out: Path, ballots: int) -> list[Path]:
    """Where the ballots go; what was made before may have been sent, so it stays."""
    if out.suffix.lower() in (".html", ".htm"):
        if ballots > 1:
            raise DataError(f"{out}: is one file, and {ballots} ballots need a folder")
        if out.exists():
            raise DataError(
                f"{out}: is there already, and a ballot may have been sent; name another"
            )
        return [out]
    if out.is_file():
        raise DataError(f"{out}: is a file; name a folder, or a new file that ends in .html")
    made = [path.stem.removeprefix("ballot-") for path in out.glob("ballot-*.html")]
    last = max((int(number) for number in made if number.isdecimal()), default=0)
    return [out / f"ballot-{last + n}.html" for n in range(1, ballots + 1)]


def _counted(votes: int, skips: int) -> str:
    said = "1 vote" if votes == 1 else f"{votes:,} votes"
    return f"{said} and {skips:,} skipped" if skips else said


def _left_out(taken: Taken) -> str:
    """What is said of votes that came again too soon."""
    if not taken.repeats:
        return ""
    return (
        f"; {taken.repeats:,} of them kept and not counted: the same pair and prompt was just "
        "voted on elsewhere"
    )


def _moment(microseconds: int) -> str:
    from arena_kit.voting.records import moment

    return f"{moment(microseconds):%Y-%m-%d %H:%M}"


def store_state(live: LiveArena) -> str:
    """What the store holds now."""
    voters = [each for each in live.store.voters() if each.votes or each.skips]
    people = "1 voter" if len(voters) == 1 else f"{len(voters):,} voters"
    counted = _counted(sum(v.votes for v in voters), sum(v.skips for v in voters))
    return f"{live.store.address} holds {counted} of {people}"
