"""The server: the voting page live, the researcher's board, and who keeps a connection."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from arena_kit.battles.readers.vote_chain import DamagedError
from arena_kit.voting.access import Access, RateLimit, SecurityHeaders, network_of, read_body
from arena_kit.voting.ballot import voter_id
from arena_kit.voting.board import board_view
from arena_kit.voting.page import board_page, live_page, shown_pair
from arena_kit.voting.records import Comment, Opaque, RefusalError, VoterName

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from arena_kit.voting.live import LiveArena

MAX_BODY = 4096  # bytes; a vote has about 200
HEADER_SECONDS = 10.0  # for the head of a request
PER_ADDRESS = 200  # connections of one address, or of one IPv6 network
MOST = 800  # connections in all; a process may usually open 1,024 files
_BOARD_EVERY = 2.0  # seconds
_WORKERS = 3  # threads that take turns at the arena; see design/vote-store.md
_ALL_SEEN = "You have seen every pair that you may be shown for now."

Given = TypeVar("Given")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Entry(_Body):
    """Asking to be let in; the token may be empty where none is needed, and so may the name or
    code that the voter chooses.
    """

    token: str = Field(max_length=256)
    voter: VoterName = ""


class Nothing(_Body):
    """A request that needs no words."""


class Vote(_Body):
    """A vote on a pair that was shown."""

    ticket: Opaque
    digest: Opaque
    choice: Annotated[str, StringConstraints(pattern=r"^(A|B|TIE|BOTH_BAD|SKIP)$")]
    seconds: float | None = Field(default=None, ge=0, le=1e6)
    comment: Comment = ""


def voting_app(live: LiveArena, access: Access, question: str = "", goal: int = 0) -> ASGIApp:
    """The server as an ASGI application; its pages that document it are turned off. `goal` is how
    many votes each voter is asked for.
    """
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    _pages(app, live, question, goal)
    _voting(app, live, access)
    _board(app, live, access)
    _errors(app)
    limited = RequestBodyLimitMiddleware(app, max_body_size=MAX_BODY)
    hosts = sorted(access.hosts)
    return SecurityHeaders(TrustedHostMiddleware(limited, hosts, www_redirect=False))


def _pages(app: FastAPI, live: LiveArena, question: str, goal: int) -> None:
    voting = live_page(live.texts, question, goal=goal, reveal=live.reveal)
    for path, page in (("/", voting), ("/board", board_page())):
        policy = {"content-security-policy": f"{page.policy}; frame-ancestors 'none'"}
        response = HTMLResponse(page.html, headers=policy)
        app.router.routes.append(Route(path, response, methods=["GET"]))


def _voting(app: FastAPI, live: LiveArena, access: Access) -> None:
    limit, turns = RateLimit(), _Turns(_WORKERS, thread_name_prefix="arena")

    @app.post("/api/enter", response_model=None)
    async def enter(request: Request) -> Response:
        """Let a voter in: who has no session yet gets one as a cookie."""
        entry = await read_body(request, Entry)
        code = voter_id(entry.voter)
        if code or not access.is_admitted(request, "voter"):
            limit.check(request)
        return access.enter(request, "voter", entry.token, code)

    @app.post("/api/matchup", response_model=None)
    async def matchup(request: Request) -> dict[str, Any]:
        """The next pair, without names."""
        await read_body(request, Nothing)
        session, voter = access.who(request, "voter")
        shown = await turns.take(live.issue, session=session, voter=voter)
        return shown_pair(shown) | {"votes": shown.count}

    @app.post("/api/undo", response_model=None)
    async def undo(request: Request) -> dict[str, Any]:
        """Take the last vote back, and show its pair again."""
        await read_body(request, Nothing)
        session, _ = access.who(request, "voter")
        shown = await turns.take(live.undo, session=session)
        return shown_pair(shown) | {"votes": shown.count}

    @app.post("/api/vote", response_model=None)
    async def vote(request: Request) -> dict[str, Any]:
        """Store a vote, then say who wrote the two responses if the arena reveals that."""
        ballot = await read_body(request, Vote)
        session, _ = access.who(request, "voter")
        given = ballot.model_dump(exclude={"ticket"})
        receipt = await turns.take(live.cast, ballot.ticket, session=session, **given)
        return {"model_a": receipt.left, "model_b": receipt.right, "votes": receipt.count}


def _board(app: FastAPI, live: LiveArena, access: Access) -> None:
    limit, latest = RateLimit(), _LatestBoard(live)

    @app.post("/api/board/enter", response_model=None)
    async def enter(request: Request) -> Response:
        """Let the researcher in."""
        entry = await read_body(request, Entry)
        limit.check(request)
        return access.enter(request, "board", entry.token)

    @app.post("/api/board", response_model=None)
    async def board(request: Request) -> Any:
        """The board as the votes stand now."""
        await read_body(request, Nothing)
        access.who(request, "board")
        return await run_in_threadpool(latest.view)


class _Turns(ThreadPoolExecutor):
    """Lets voters at the arena in the order in which they came, a few at a time: it has one lock,
    and of many threads that wait for a lock one may wait for ever.
    """

    async def take(self, call: Callable[..., Given], *args: Any, **named: Any) -> Given:
        """What a call gives, when its turn has come."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self, partial(call, *args, **named))


class _LatestBoard:
    """The board as it is shown; making it anew takes at most a tenth of the time."""

    def __init__(self, live: LiveArena) -> None:
        self._live, self._lock = live, Lock()
        self._next = 0.0
        self._view: dict[str, Any] = {}

    def view(self) -> dict[str, Any]:
        """The board now, or a moment ago."""
        with self._lock:
            begin = time.monotonic()
            if begin >= self._next:
                voters = sum(bool(each.votes) for each in self._live.store.voters())
                self._view = board_view(self._live.board(), voters)
                done = time.monotonic()
                self._next = done + max(_BOARD_EVERY, 9 * (done - begin))
            return self._view


def _errors(app: FastAPI) -> None:
    @app.exception_handler(RefusalError)
    async def refused(_: Request, error: RefusalError) -> Response:
        message = _ALL_SEEN if error.code == "nothing_left" else str(error)
        return _answer(error.status, error.code, message, error.retry_after)

    @app.exception_handler(HTTPException)
    async def refused_by_starlette(_: Request, error: HTTPException) -> Response:
        code = {413: "too_large"}.get(error.status_code, "no_such_page")
        return _answer(error.status_code, code, f"{error.detail}.")

    @app.exception_handler(DamagedError)
    @app.exception_handler(SQLAlchemyError)
    async def no_store(_: Request, error: Exception) -> Response:
        logging.getLogger(__name__).error("the store failed: %s", error)
        return _answer(503, "no_store", "The vote could not be stored; try again in a moment.", 5)


def _answer(status: int, code: str, message: str, retry_after: float = 0) -> Response:
    """A refusal: a status, a code for programs, and one sentence."""
    headers = {"retry-after": str(max(1, round(retry_after)))} if retry_after else {}
    return JSONResponse({"error": code, "message": message}, status, headers)


def server_config(app: ASGIApp, access: Access, proxy: str = "") -> uvicorn.Config:
    """The server's settings; `X-Forwarded-For` is believed of the address of a proxy alone."""
    protocol: Any = partial(Connection, access, proxy)
    quiet: Any = {"log_level": "warning", "access_log": False, "server_header": False}
    forwarded: Any = {"proxy_headers": bool(proxy), "forwarded_allow_ips": [proxy]}
    return uvicorn.Config(app, http=protocol, **quiet, **forwarded, timeout_graceful_shutdown=5)


class Connection(H11Protocol):
    """A connection that is closed when the head of a request takes too long, and when another one
    needs its place: where an address, or all together, have too many, the one goes that has waited
    longest for its client, those with a session last. A request that is being answered is safe.
    """

    def __init__(self, access: Access, proxy: str, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._access, self._proxy = access, proxy
        self._timer: asyncio.TimerHandle | None = None
        self.since, self.has_session = 0.0, False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for a new connection, and wait for its first request."""
        super().connection_made(transport)
        self._await_request()
        if self.client and self.client[0] != self._proxy:
            self._make_room(PER_ADDRESS, self.host)
        self._make_room(MOST)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Note whether the request of a connection brought a session."""
        before = self.scope
        super().handle_events()
        if self.scope is not before:
            request = Request(dict(self.scope))
            self.has_session = any(
                self._access.is_admitted(request, role) for role in ("voter", "board")
            )

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._await_request()
        super().on_response_complete()

    @property
    def is_idle(self) -> bool:
        """Whether no request has begun."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def host(self) -> str:
        """Whose it is, as limits count."""
        return network_of(self.client[0]) if self.client else ""

    def _await_request(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.since = self.loop.time()
        self._timer = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _give_up(self) -> None:
        if self.is_idle:
            self.transport.abort()

    def _make_room(self, most: int, host: str = "") -> None:
        """Close the connection that is missed least where there are too many: one that waits for a
        request, or for the rest of its body.
        """
        every: list[Any] = [*self.connections]
        here = [c for c in every if not c.transport.is_closing() and host in ("", c.host)]
        if len(here) > most:
            waiting = [c for c in here if c is not self and (c.is_idle or c.cycle.more_body)]
            missed_least = min(waiting or [self], key=lambda c: (c.has_session, c.since))
            missed_least.transport.abort()
