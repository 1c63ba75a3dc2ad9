"""The commands for people's votes: ballots as files, a server, and the store behind both."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from arena_kit.cli.base import WRONG_INPUT, echo, main, plain_errors
from arena_kit.files import DataError, write_text

if TYPE_CHECKING:
    from arena_kit.voting.live import LiveArena

DEFAULT_STORE = ".arena_kit/votes.sqlite"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_VOTE_TOKEN, _BOARD_TOKEN = "ARENA_KIT_VOTE_TOKEN", "ARENA_KIT_BOARD_TOKEN"


def _options(*options: Callable[..., Any]) -> Callable[..., Any]:
    def added(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return added


_store = click.option(
    "--store", metavar="PATH|URL", default="", envvar="ARENA_KIT_VOTES",
    help=f"Where votes are kept: a SQLite file, or postgresql://… (default: {DEFAULT_STORE} in the "
    "workspace).",
)  # fmt: skip
_arena = _options(
    click.option("--tournament", type=click.Path(path_type=Path), default="params/tournament.yaml",
                 show_default=True, help="Whose prompts and responses are voted on."),
    click.option("--policy", type=click.Path(path_type=Path), default="params/policy.yaml",
                 show_default=True, help="How matchups are drawn."),
    click.option("--dimension", default=None,
                 help="What the votes are about, a dimension of the tournament (default: the "
                 "store's, at first none)."),
    _store,
)  # fmt: skip
_question = click.option(
    "--question", default="Which response is better?", show_default=True,
    help="What voters are asked.",
)  # fmt: skip


@main.command()
@click.option("--pairs", type=click.IntRange(1, 1000), default=40, show_default=True,
              help="Pairs on each ballot.")  # fmt: skip
@click.option("--ballots", type=click.IntRange(1, 1000), default=1, show_default=True,
              help="How many ballots, for a voter each.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), default="ballots", show_default=True,
              help="Folder of the ballots, or a .html file for one.")  # fmt: skip
@click.option("--days", type=click.IntRange(1, 3650), default=30, show_default=True,
              help="How long votes are waited for; then others get the pairs.")  # fmt: skip
@_question
@_arena
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
    from arena_kit.voting.ballot import make_ballot

    paths = _free_paths(out, ballots)
    live, key = _opened(tournament, policy, dimension, store)
    _warn_of_names(live)
    for path in paths:
        write_text(path, make_ballot(live, key, pairs=pairs, days=days, question=question))
        echo(path)
    each = "1 ballot" if ballots == 1 else f"{ballots} ballots"
    echo(
        f"{each} of {pairs} pairs among {len(live.texts.models)} models on "
        f"{len(live.texts.prompts):,} prompts, kept in {live.store.address}; what comes back: "
        "arena-kit votes add FILE..."
    )


@main.command()
@click.option("--host", default="127.0.0.1", show_default=True,
              help="Address to listen on; any but this machine's own needs a token.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=8321, show_default=True,
              help="0 takes a free one.")  # fmt: skip
@click.option("--allow-host", "names", multiple=True, metavar="NAME",
              help="A further name of the server in browsers, as behind a proxy.")  # fmt: skip
@click.option("--per-minute", type=click.IntRange(min=1), default=30, show_default=True,
              help="Pairs that a voter may ask for in a minute.")  # fmt: skip
@_question
@_arena
@plain_errors
def serve(
    host: str, port: int, names: tuple[str, ...], per_minute: int, question: str,
    tournament: Path, policy: Path, dimension: str | None, store: str,
) -> None:  # fmt: skip
    """Let people vote on a page, live.

    The links are printed once, with their tokens: one for voters (without a token on this
    machine's own address), one for the researcher's board. ARENA_KIT_VOTE_TOKEN and
    ARENA_KIT_BOARD_TOKEN keep links the same over restarts. Ctrl-C ends it; votes are safe at any
    time.
    """
    from arena_kit.voting.live import Limits

    live, key = _opened(tournament, policy, dimension, store, Limits(per_minute=per_minute))
    _warn_of_names(live)
    _run_server(live, key, host=host, port=port, names=names, question=question)


@main.group()
def votes() -> None:
    """Take in, list and hand on people's votes."""


@votes.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True,
                type=click.Path(path_type=Path, dir_okay=False))  # fmt: skip
@_arena
@plain_errors
def add(
    files: tuple[Path, ...], tournament: Path, policy: Path, dimension: str | None, store: str
) -> None:
    """Take in the files that voters sent back.

    Each file counts whole or not at all, and once however often it is added. A file that is
    refused is named with the reason, the others are taken in; the exit code is then 2.
    """
    from arena_kit.voting.ballot import take_ballot

    live, key = _opened(tournament, policy, dimension, store)
    refused = 0
    for path in files:
        try:
            taken = take_ballot(live, key, path)
        except DataError as error:
            echo(f"refused: {error}", err=True)
            refused += 1
            continue
        again = f" ({taken.new} new)" if taken.new < taken.votes + taken.skips else ""
        echo(f"{path}: {_counted(taken.votes, taken.skips)} of {taken.voter}{again}")
    echo(_state(live))
    if refused:
        sys.exit(WRONG_INPUT)


@votes.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@_store
@plain_errors
def list_voters(store: str, as_json: bool) -> None:
    """Who voted, how often, and who is removed."""
    from arena_kit.cli import terminal
    from arena_kit.reporting.tables import Table

    voters = _kept(store).voters()
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
        terminal.show_table(Table(rows=rows, title="Voters", left=["voter", "removed"]))


@votes.command("export")
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False),
              help="Battles file to write: .jsonl, .csv or .parquet.")  # fmt: skip
@click.option("--deidentified", is_flag=True,
              help="Voters and sessions under random names, times to the day.")  # fmt: skip
@_store
@plain_errors
def export_votes(out: Path, deidentified: bool, store: str) -> None:
    """Write the votes as battles that every notebook and `arena-kit rate` read.

    Removed votes and skips are left out, and counted. The last line is the file's path.
    """
    from arena_kit.battles.files import write_battles

    kept = _kept(store)
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


def _opened(
    tournament: Path, policy: Path, dimension: str | None, store: str, limits: Any = None
) -> tuple[LiveArena, bytes]:
    """The arena and the key of its store."""
    from arena_kit.runs.inputs import tournament_inputs
    from arena_kit.runs.record import find_root

    _need_extra()
    from arena_kit.voting.live import LiveArena
    from arena_kit.voting.signing import key_file, signing_key

    root = find_root()
    where = _where(store)
    known = tournament_inputs(root / tournament, root)[0].dimensions
    if dimension is not None and dimension not in known:
        raise DataError(f"--dimension {dimension!r} is none of {tournament}: {', '.join(known)}")
    live = LiveArena.open(
        where, tournament, root=root, policy=policy, dimension=dimension, limits=limits
    )
    return live, signing_key(key_file(where, root))


def _kept(store: str) -> Any:
    _need_extra()
    from arena_kit.voting.store import VoteStore

    return VoteStore.open(_where(store), create=False)


def _where(store: str) -> str:
    from arena_kit.runs.record import find_root

    path = find_root() / DEFAULT_STORE
    here = path.is_relative_to(Path.cwd())
    return store or str(path.relative_to(Path.cwd()) if here else path)


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


def _warn_of_names(live: LiveArena) -> None:
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


def _moment(microseconds: int) -> str:
    from arena_kit.voting.records import moment

    return f"{moment(microseconds):%Y-%m-%d %H:%M}"


def _state(live: LiveArena) -> str:
    """What the store holds now."""
    voters = [each for each in live.store.voters() if each.votes or each.skips]
    people = "1 voter" if len(voters) == 1 else f"{len(voters):,} voters"
    counted = _counted(sum(v.votes for v in voters), sum(v.skips for v in voters))
    return f"{live.store.address} holds {counted} of {people}"


# The server


def _run_server(
    live: LiveArena, key: bytes, *, host: str, port: int, names: Sequence[str], question: str
) -> None:
    import uvicorn

    from arena_kit.voting.server import voting_app

    listening = _listen(host, port)
    port = listening.getsockname()[1]
    access = _access(key, host, names)
    app = voting_app(live, access, question)
    _say_links(live, access, _address(host, port, names))
    before = _vote_count(live)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, limit_concurrency=1000,
        timeout_graceful_shutdown=5,
    )  # fmt: skip
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C, with the sentence
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        n = _vote_count(live) - before
        cast = "1 vote was" if n == 1 else f"{n:,} votes were"
        echo(f"ended; {cast} cast meanwhile; {_state(live)}")
        live.close()


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens before anything is printed."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        raise DataError(f"cannot listen on {host}:{port} ({error.strerror or error})") from None
    listening.listen(2048)
    return listening


def _access(key: bytes, host: str, names: Sequence[str]) -> Any:
    from secrets import token_urlsafe

    from arena_kit.voting.server import Access

    own = {host, *_LOOPBACK, *names}
    if not _is_loopback(host):
        own |= {socket.gethostname(), socket.getfqdn(), *_addresses()}
    token = os.environ.get(_VOTE_TOKEN, "")
    if not token and (names or not _is_loopback(host)):
        token = token_urlsafe(24)
    return Access(
        hosts=frozenset(name.lower().strip("[]") for name in own),
        token=token,
        board_token=os.environ.get(_BOARD_TOKEN) or token_urlsafe(24),
        key=key,
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _addresses() -> set[str]:
    """The addresses that this machine's name leads to, and the one that others see."""
    found = set()
    with suppress(OSError):
        found = {str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), None)}
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # of a network for documents; it sends nothing
        found.add(str(probe.getsockname()[0]))
    return found


def _address(host: str, port: int, names: Sequence[str]) -> str:
    """What voters type: a further name is that of a proxy, which speaks TLS."""
    if names:
        return f"https://{names[0]}/"
    unspecified = host in ("0.0.0.0", "::")  # noqa: S104 (compared, not bound)
    name = socket.gethostname() if unspecified else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/"


def _say_links(live: LiveArena, access: Any, address: str) -> None:
    texts = live.texts
    pairs = len(texts.models) * (len(texts.models) - 1) // 2
    token = f"#token={access.token}" if access.token else ""
    echo(
        f"voting on {address} among {len(texts.models)} models ({pairs} pairs) on "
        f"{len(texts.prompts):,} prompts; {_state(live)}"
    )
    echo(f"voters: {address}{token}")
    echo(f"board:  {address}board#token={access.board_token}")
    sys.stdout.flush()


def _vote_count(live: LiveArena) -> int:
    arena = live.store.arena()
    return 0 if arena is None else arena.votes
