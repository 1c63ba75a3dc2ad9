"""The server: the voting page live, the researcher's board, and what keeps strangers out."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import urlsplit

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from arena_kit.voting.board_view import board_view
from arena_kit.voting.page import QUESTION, Opaque, Page, board_page, live_page, shown_pair
from arena_kit.voting.refusals import NothingLeftError, RefusalError, TooFastError
from arena_kit.voting.signing import same, signature

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from arena_kit.voting.live import LiveArena

LONGEST_BODY = 4096  # bytes; a vote has about 200
ENTRIES_PER_MINUTE = 120  # from one address: sessions begun, or tokens tried
_BOARD_EVERY = 2.0  # seconds
_PATIENCE = 20.0  # seconds for a body to arrive
_YEAR = 365 * 24 * 3600
_STATUS = {
    "bad_input": 422,
    "unknown_ticket": 404,
    "nothing_left": 404,
    "foreign_ticket": 403,
    "changed_content": 409,
    "already_voted": 409,
    "expired_ticket": 410,
    "too_fast": 429,
}
_ALL_SEEN = "You have seen every pair that you may be shown for now."
_HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}

Body = TypeVar("Body", bound=BaseModel)
Given = TypeVar("Given")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Entry(_Body):
    """Asking to be let in; the token may be empty where none is needed."""

    token: str = Field(max_length=256)


class Nothing(_Body):
    """A request that needs no words."""


class Vote(_Body):
    """A vote on a pair that was shown."""

    ticket: Opaque
    digest: Opaque
    choice: Annotated[str, StringConstraints(pattern=r"^(A|B|TIE|BOTH_BAD|SKIP)$")]
    seconds: float | None = Field(default=None, ge=0, le=1e6)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may come in.

    Parameters
    ----------
    hosts
        The names and addresses that a browser may call this server by, so that no foreign name
        can be pointed at it (DNS rebinding).
    token
        What voters must bring; empty lets everybody vote who reaches the address.
    board_token
        What the researcher brings to see the board.
    key
        Signs cookies, so that sessions outlive a restart.
    """

    hosts: frozenset[str]
    token: str = ""
    board_token: str
    key: bytes = field(repr=False)

    def signed(self, role: str, name: str) -> str:
        """A cookie's value that nobody else can make."""
        return f"{name}.{signature(self.key, role, name)}"

    def name_in(self, role: str, cookie: str | None) -> str | None:
        """Whose cookie it is, None where it was not made here."""
        name, _, given = (cookie or "").partition(".")
        return name if name and same(given, signature(self.key, role, name)) else None


class TurnedAwayError(Exception):
    """A request that is answered with a status, a code for programs, and one sentence."""

    def __init__(self, status: int, code: str, message: str, retry_after: float = 0) -> None:
        super().__init__(message)
        self.status, self.code, self.retry_after = status, code, retry_after


def voting_app(live: LiveArena, access: Access, question: str = QUESTION) -> ASGIApp:
    """The server as an ASGI application; its pages that document it are turned off."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    _pages(app, question)
    _voting(app, live, access)
    _board(app, live, access)
    _errors(app)
    return _Guard(app, access.hosts)


def _pages(app: FastAPI, question: str) -> None:
    for path, page in (("/", live_page(question)), ("/board", board_page(question))):
        app.add_api_route(path, _sends(page), methods=["GET"])


def _sends(page: Page) -> Callable[[], Awaitable[Response]]:
    policy = f"{page.policy}; frame-ancestors 'none'"

    async def send() -> Response:
        return HTMLResponse(page.html, headers={"content-security-policy": policy})

    return send


def _voting(app: FastAPI, live: LiveArena, access: Access) -> None:
    door, turns = _Door(), _Turns()

    @app.post("/api/enter", response_model=None)
    async def enter(request: Request) -> Response:
        """Let a voter in: who has no session yet gets one as a cookie."""
        entry = await _read(request, Entry)
        session = access.name_in("voter", request.cookies.get("arena_kit_voter"))
        if session is None:
            door.check(request)
            _check_token(entry.token, access.token)
            session = secrets.token_hex(16)
        answer = JSONResponse({"entered": True})
        _set_cookie(answer, request, "arena_kit_voter", access.signed("voter", session))
        return answer

    @app.post("/api/matchup", response_model=None)
    async def matchup(request: Request) -> dict[str, Any]:
        """The next pair, without names."""
        await _read(request, Nothing)
        session = _session(request, access)
        shown = await turns.take(live.issue, session=session, voter=session)
        pair = shown_pair(shown.ticket, shown.digest, shown.prompt, shown.left, shown.right)
        return pair | {"votes": shown.count}

    @app.post("/api/vote", response_model=None)
    async def vote(request: Request) -> dict[str, Any]:
        """Store a vote, then say who wrote the two responses."""
        ballot = await _read(request, Vote)
        session = _session(request, access)
        receipt = await turns.take(
            live.cast,
            ballot.ticket,
            session=session,
            choice=ballot.choice,
            digest=ballot.digest,
            seconds=ballot.seconds,
        )
        return {"model_a": receipt.left, "model_b": receipt.right, "votes": receipt.count}


def _board(app: FastAPI, live: LiveArena, access: Access) -> None:
    door, seen = _Door(), _Board(live)

    @app.post("/api/board/enter", response_model=None)
    async def enter(request: Request) -> Response:
        """Let the researcher in."""
        entry = await _read(request, Entry)
        door.check(request)
        _check_token(entry.token, access.board_token)
        answer = JSONResponse({"entered": True})
        _set_cookie(answer, request, "arena_kit_board", access.signed("board", "researcher"))
        return answer

    @app.post("/api/board", response_model=None)
    async def board(request: Request) -> Any:
        """The board as the votes stand now."""
        await _read(request, Nothing)
        if access.name_in("board", request.cookies.get("arena_kit_board")) is None:
            raise TurnedAwayError(401, "no_token", "The board opens with its own link only.")
        return await run_in_threadpool(seen.view)


def _session(request: Request, access: Access) -> str:
    session = access.name_in("voter", request.cookies.get("arena_kit_voter"))
    if session is None:
        raise TurnedAwayError(401, "no_session", "Your session is not known; open the link again.")
    return session


def _check_token(given: str, wanted: str) -> None:
    if not same(given, wanted):
        raise TurnedAwayError(
            401, "no_token", "This address needs the link with its token; ask whoever sent it."
        )


def _set_cookie(answer: Response, request: Request, name: str, value: str) -> None:
    secure = request.headers.get("origin", "").startswith("https:")
    answer.set_cookie(name, value, max_age=_YEAR, httponly=True, samesite="strict", secure=secure)


class _Turns:
    """Lets voters at the arena one after the other, in the order in which they came: it has one
    lock, and threads that wait for a lock may wait for ever.
    """

    def __init__(self) -> None:
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="arena")

    async def take(self, call: Callable[..., Given], *args: Any, **named: Any) -> Given:
        """What a call gives, when its turn has come."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._worker, partial(call, *args, **named))


class _Board:
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


class _Door:
    """Counts who comes from where within a minute; too many wait."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[float]] = {}

    def check(self, request: Request) -> None:
        """Count an entry; refused when there were too many from this address."""
        now, address = time.monotonic(), request.client.host if request.client else ""
        for other in [key for key, times in self._seen.items() if times[-1] < now - 60]:
            del self._seen[other]
        times = self._seen.setdefault(address, deque(maxlen=ENTRIES_PER_MINUTE))
        if len(times) == ENTRIES_PER_MINUTE and times[0] > now - 60:
            wait = times[0] + 60 - now
            raise TurnedAwayError(
                429,
                "too_fast",
                f"Too many came from your address; try again in {wait:.0f} s.",
                wait,
            )
        times.append(now)


# What comes in


async def _read(request: Request, kind: type[Body]) -> Body:
    """The body of a request as what it must be; all else is turned away."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise TurnedAwayError(
            403, "foreign_origin", "Votes are taken from this server's own page only."
        )
    content = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content != "application/json":
        raise TurnedAwayError(415, "not_json", "The body must be application/json.")
    try:
        async with asyncio.timeout(_PATIENCE):
            body = await _whole(request)
    except TimeoutError:
        raise TurnedAwayError(408, "too_slow", "The body did not arrive in time.") from None
    except ClientDisconnect:
        raise TurnedAwayError(400, "gone", "The body did not arrive whole.") from None
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"])
        raise TurnedAwayError(
            422, "bad_input", f"{where and f'{where}: '}{first['msg']}."
        ) from None


async def _whole(request: Request) -> bytes:
    """All of a body, unless it is too large."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_BODY:
            raise TurnedAwayError(
                413, "too_large", f"The body may have {LONGEST_BODY:,} bytes, not more."
            )
    return body


class _Guard:
    """Answers only to the server's own names, and sends headers that browsers keep to."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = {name for name, _ in message["headers"]}
                more = _HEADERS | {"content-security-policy": "default-src 'none'"}
                message["headers"] += [
                    (name.encode(), value.encode())
                    for name, value in more.items()
                    if name.encode() not in kept
                ]
            await send(message)

        app = self._app if self._called_by_name(scope) else _answer(
            421, "foreign_host", "This server does not go by that name; allow it with --allow-host."
        )  # fmt: skip
        await app(scope, receive, guarded)

    def _called_by_name(self, scope: Scope) -> bool:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1:
            return False
        try:
            return urlsplit(f"//{hosts[0].decode('latin-1')}").hostname in self._hosts
        except ValueError:
            return False


# What goes out


def _errors(app: FastAPI) -> None:
    @app.exception_handler(TurnedAwayError)
    async def turned_away(_: Request, error: TurnedAwayError) -> Response:
        return _answer(error.status, error.code, str(error), error.retry_after)

    @app.exception_handler(RefusalError)
    async def refused(_: Request, error: RefusalError) -> Response:
        wait = error.retry_after if isinstance(error, TooFastError) else 0
        told = _ALL_SEEN if isinstance(error, NothingLeftError) else str(error)
        return _answer(_STATUS.get(error.code, 400), error.code, told, wait)

    @app.exception_handler(HTTPException)
    async def missing(_: Request, error: HTTPException) -> Response:
        return _answer(error.status_code, "no_such_page", f"{error.detail}.")

    @app.exception_handler(SQLAlchemyError)
    async def no_store(_: Request, error: SQLAlchemyError) -> Response:
        logging.getLogger(__name__).error("the store failed: %s", error)
        return _answer(503, "no_store", "The vote could not be stored; try again in a moment.", 5)


def _answer(status: int, code: str, message: str, retry_after: float = 0) -> Response:
    headers = {"retry-after": str(max(1, round(retry_after)))} if retry_after else {}
    return JSONResponse({"error": code, "message": message}, status, headers)
