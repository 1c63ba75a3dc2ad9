"""The command that lets people vote on a page: who may come in, and what is printed."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from arena_kit.cli.base import echo, plain_errors
from arena_kit.cli.votes import (
    arena_options,
    counted,
    opened_arena,
    question_option,
    store_state,
    votes,
    warn_of_names,
)
from arena_kit.files import DataError

if TYPE_CHECKING:
    from arena_kit.voting.access import Access
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
def serve(host: str, port: int, names: tuple[str, ...], question: str, **where: Any) -> None:
    """Let people vote on a page, live.

    The links are printed once, with their tokens: one for voters (without a token on this
    machine's own address), one for the researcher's board. ARENA_KIT_VOTE_TOKEN and
    ARENA_KIT_BOARD_TOKEN keep links the same over restarts. Ctrl-C ends it; votes are safe at any
    time.
    """
    live, key = opened_arena(**where)
    import uvicorn

    from arena_kit.voting.server import voting_app

    warn_of_names(live)
    access = _access(key, host, names)
    listening = _listen(host, port)
    app = voting_app(live, access, question)
    _print_links(live, access, _address(host, listening.getsockname()[1], names))
    before = live.vote_count
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, limit_concurrency=1000,
        timeout_graceful_shutdown=5,
    )  # fmt: skip
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C, with the sentence
    try:
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])
    finally:
        n = live.vote_count - before
        cast = f"{counted(n, 'vote')} {'was' if n == 1 else 'were'}"
        echo(f"ended; {cast} cast meanwhile; {store_state(live)}")
        live.close()


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens before anything is printed."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=2048)
    except OSError as error:
        raise DataError(f"cannot listen on {host}:{port} ({error.strerror or error})") from None


def _access(key: bytes, host: str, names: Sequence[str]) -> Access:
    from arena_kit.voting.access import Access

    if any("*" in name for name in names):
        raise DataError("--allow-host takes one name of the server each, and no wildcard")
    own = {host, *_LOOPBACK, *names}
    if not _is_loopback(host):
        own |= {socket.gethostname(), socket.getfqdn(), *_addresses()}
    token = os.environ.get(_VOTE_TOKEN, "")
    if not token and (names or not _is_loopback(host)):
        token = token_urlsafe(24)
    return Access(
        hosts=frozenset(_in_brackets(name.lower().strip("[]")) for name in own),
        token=token,
        board_token=os.environ.get(_BOARD_TOKEN) or token_urlsafe(24),
        key=key,
    )


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
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
    return f"http://{socket.gethostname() if unspecified else _in_brackets(host)}:{port}/"


def _in_brackets(host: str) -> str:
    """A name as URLs have it: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host


def _print_links(live: LiveArena, access: Access, address: str) -> None:
    models, prompts = len(live.texts.models), len(live.texts.prompts)
    token, board = (f"#token={quote(each, safe='')}" for each in (access.token, access.board_token))
    echo(
        f"voting on {address} among {models} models ({models * (models - 1) // 2} pairs) on "
        f"{prompts:,} prompts; {store_state(live)}"
    )
    echo(f"voters: {address}{token if access.token else ''}")
    echo(f"board:  {address}board{board}")
    sys.stdout.flush()
