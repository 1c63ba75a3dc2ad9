"""The command that lets people vote on a page: who may come in, and what is printed."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from arena_kit.cli import votes_review  # noqa: F401 (hangs its commands on votes)
from arena_kit.cli.base import echo, plain_errors
from arena_kit.cli.votes import (
    arena_options,
    opened_arena,
    question_option,
    store_state,
    votes,
    warn_of_names,
)
from arena_kit.files import DataError

if TYPE_CHECKING:
    from arena_kit.voting.live import LiveArena

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_VOTE_TOKEN, _BOARD_TOKEN = "ARENA_KIT_VOTE_TOKEN", "ARENA_KIT_BOARD_TOKEN"


@votes.command()
@click.option("--host", default="127.0.0.1", show_default=True,
              help="Address to listen on; any but this machine's own needs a token.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=8321, show_default=True,
              help="0 takes a free one.")  # fmt: skip
@click.option("--allow-host", "names", multiple=True, metavar="NAME",
              help="A further name of the server in browsers, as behind a proxy.")  # fmt: skip
@click.option("--per-minute", type=click.IntRange(min=1), default=30, show_default=True,
              help="Pairs that a voter may ask for in a minute.")  # fmt: skip
@question_option
@arena_options
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
    live, key = opened_arena(tournament, policy, dimension, store, per_minute=per_minute)
    warn_of_names(live)
    _run_server(live, key, host=host, port=port, names=names, question=question)


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
        echo(f"ended; {cast} cast meanwhile; {store_state(live)}")
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

    from arena_kit.voting.entrance import Access

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
    token = f"#token={quote(access.token, safe='')}" if access.token else ""
    echo(
        f"voting on {address} among {len(texts.models)} models ({pairs} pairs) on "
        f"{len(texts.prompts):,} prompts; {store_state(live)}"
    )
    echo(f"voters: {address}{token}")
    echo(f"board:  {address}board#token={quote(access.board_token, safe='')}")
    sys.stdout.flush()


def _vote_count(live: LiveArena) -> int:
    arena = live.store.arena()
    return 0 if arena is None else arena.votes
