"""What comes into the server and who: names of hosts, origins, tokens, cookies, bodies."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from arena_kit.voting.signing import same, signature

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LONGEST_BODY = 4096  # bytes; a vote has about 200
ENTRIES_PER_MINUTE = 120  # from one address: sessions begun, or tokens tried
_PATIENCE = 20.0  # seconds for a body to arrive
_YEAR = 365 * 24 * 3600
_PARTS = 3  # of a cookie: a name, who says so, and that it came with the token
_HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}

Role = Literal["voter", "board"]
Body = TypeVar("Body", bound=BaseModel)


class TurnedAwayError(Exception):
    """A request that is answered with a status, a code for programs, and one sentence."""

    def __init__(self, status: int, code: str, message: str, retry_after: float = 0) -> None:
        super().__init__(message)
        self.status, self.code, self.retry_after = status, code, retry_after


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may come in: a role's cookie says who somebody is, and whether they brought its token.

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
        Signs cookies: sessions outlive a restart, and who came with a token that is no longer the
        token has to bring the new one.
    """

    hosts: frozenset[str]
    token: str = ""
    board_token: str
    key: bytes = field(repr=False)

    def enter(self, request: Request, role: Role, token: str) -> Response:
        """Let somebody in, under the name of their cookie if they have one."""
        name, admitted = self._read(request, role)
        if not admitted and not same(token, self._token(role)):
            raise TurnedAwayError(
                401, "no_token", "This address needs the link with its token; ask whoever sent it."
            )
        name = name or secrets.token_hex(16)
        signatures = (signature(self.key, role, name), self._admission(role, name))
        answer = JSONResponse({"entered": True})
        answer.set_cookie(
            _cookie(role), ".".join((name, *signatures)), max_age=_YEAR, httponly=True,
            samesite="strict", secure=request.headers.get("origin", "").startswith("https:"),
        )  # fmt: skip
        return answer

    def name_of(self, request: Request, role: Role) -> str:
        """Who asks; refused where they did not enter."""
        name, admitted = self._read(request, role)
        if not admitted:
            raise TurnedAwayError(
                401, "no_session", "You are not let in yet; open the link that you were given."
            )
        return name

    def is_admitted(self, request: Request, role: Role) -> bool:
        """Whether somebody entered before, with today's token."""
        return self._read(request, role)[1]

    def _read(self, request: Request, role: Role) -> tuple[str, bool]:
        """The name in a cookie that was made here, and whether it came with today's token."""
        parts = request.cookies.get(_cookie(role), "").split(".")
        if len(parts) != _PARTS or not same(parts[1], signature(self.key, role, parts[0])):
            return "", False
        return parts[0], same(parts[2], self._admission(role, parts[0]))

    def _admission(self, role: Role, name: str) -> str:
        return signature(self.key, "admitted", role, name, self._token(role))

    def _token(self, role: Role) -> str:
        return self.token if role == "voter" else self.board_token


def _cookie(role: Role) -> str:
    return f"arena_kit_{role}"


class Door:
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


async def read_body(request: Request, kind: type[Body]) -> Body:
    """The body of a request as what it must be; all else is turned away."""
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
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


class Guard:
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

        app = self._app if self._called_by_name(scope) else answer(
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


def answer(status: int, code: str, message: str, retry_after: float = 0) -> Response:
    """A refusal: a status, a code for programs, and one sentence."""
    headers = {"retry-after": str(max(1, round(retry_after)))} if retry_after else {}
    return JSONResponse({"error": code, "message": message}, status, headers)
