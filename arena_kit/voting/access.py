"""Who may use the server and with what: tokens, cookies, origins, bodies."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Literal, TypeVar
from urllib.parse import quote, unquote

from itsdangerous import BadSignature, Signer
from pydantic import BaseModel, ValidationError
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from arena_kit.voting.records import RefusalError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

ENTRIES_PER_MINUTE = 120  # from one address: sessions begun, or tokens tried
_BODY_TIMEOUT = 20.0  # seconds
_YEAR = 365 * 24 * 3600
_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}

_CODE = "~"  # between a session and what its voter calls themselves

Role = Literal["voter", "board"]
Body = TypeVar("Body", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may come in: a role's cookie says who somebody is, and whether they brought its token.

    Parameters
    ----------
    hosts
        The names and addresses that a browser may call this server by, IPv6 ones in brackets, so
        that no foreign name can be pointed at it (DNS rebinding).
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

    def enter(self, request: Request, role: Role, token: str, code: str = "") -> Response:
        """Let somebody in, under the name of their cookie if they have one; another `code` of the
        voter's choice than before makes a new one.
        """
        name, admitted = self._read(request, role)
        given, needed = (text.encode("utf-8", "replace") for text in (token, self._token(role)))
        if not admitted and not secrets.compare_digest(given, needed):
            message = "This address needs the link with its token; ask whoever sent it."
            raise RefusalError(401, "no_token", message)
        identity, admission = self._signers(role)
        if not name or code not in ("", name.partition(_CODE)[2]):
            name = secrets.token_hex(16) + (_CODE + code if code else "")
        cookie = identity.sign(admission.sign(quote(name))).decode()
        answer = JSONResponse({"entered": True})
        answer.set_cookie(
            _cookie(role), cookie, max_age=_YEAR, httponly=True, samesite="strict",
            secure=request.headers.get("origin", "").startswith("https:"),
        )  # fmt: skip
        return answer

    def who(self, request: Request, role: Role) -> tuple[str, str]:
        """The session that asks, and its voter: the code that was chosen with the beginning of the
        session, so that nobody can vote under another's. Refused where they did not enter.
        """
        name, admitted = self._read(request, role)
        if not admitted:
            message = "You are not let in yet; open the link that you were given."
            raise RefusalError(401, "no_session", message)
        session, _, code = name.partition(_CODE)
        return session, f"{code}-{session[:6]}" if code else session

    def is_admitted(self, request: Request, role: Role) -> bool:
        """Whether somebody entered before, with today's token."""
        return self._read(request, role)[1]

    def _read(self, request: Request, role: Role) -> tuple[str, bool]:
        """The name in a cookie that was made here, and whether it came with today's token."""
        identity, admission = self._signers(role)
        try:
            admitted = identity.unsign(request.cookies.get(_cookie(role), "")).decode()
        except BadSignature:
            return "", False
        return unquote(admitted.rpartition(".")[0]), admission.validate(admitted)

    def _signers(self, role: Role) -> tuple[Signer, Signer]:
        """What signs a cookie: that it was made here, and that its owner brought today's token."""
        signer = partial(Signer, self.key, key_derivation="hmac", digest_method=hashlib.sha256)
        today = f"arena_kit {role} with {self._token(role)}".encode("utf-8", "replace")
        return signer(f"arena_kit {role}"), signer(today)

    def _token(self, role: Role) -> str:
        return self.token if role == "voter" else self.board_token


def _cookie(role: Role) -> str:
    return f"arena_kit_{role}"


def network_of(address: str) -> str:
    """Whom an address belongs to: itself, or its network of 64 bits where it is one of IPv6, for
    one household has as many of those as it likes.
    """
    try:
        six = ip_address(address).version == 6
    except ValueError:
        return address
    return str(ip_network((address, 64), strict=False)) if six else address


class RateLimit:
    """Counts who comes from where within a minute; too many wait."""

    def __init__(self) -> None:
        self._seen: dict[str, deque[float]] = {}

    def check(self, request: Request) -> None:
        """Count an entry; refused when there were too many from this address."""
        now, address = time.monotonic(), network_of(request.client.host) if request.client else ""
        for other in [key for key, times in self._seen.items() if times[-1] < now - 60]:
            del self._seen[other]
        times = self._seen.setdefault(address, deque(maxlen=ENTRIES_PER_MINUTE))
        if len(times) == ENTRIES_PER_MINUTE and times[0] > now - 60:
            wait = times[0] + 60 - now
            message = f"Too many came from your address; try again in {wait:.0f} s."
            raise RefusalError(429, "too_fast", message, wait)
        times.append(now)


async def read_body(request: Request, kind: type[Body]) -> Body:
    """The body of a request as what it must be; all else is turned away."""
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        message = "Votes are taken from this server's own page only."
        raise RefusalError(403, "foreign_origin", message)
    content = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content != "application/json":
        raise RefusalError(415, "not_json", "The body must be application/json.")
    try:
        async with asyncio.timeout(_BODY_TIMEOUT):
            body = await request.body()
        return kind.model_validate_json(body)
    except TimeoutError:
        raise RefusalError(408, "too_slow", "The body did not arrive in time.") from None
    except ClientDisconnect:
        raise RefusalError(400, "gone", "The body did not arrive whole.") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part)[:40] for part in first["loc"])
        message = f"{where and f'{where}: '}{first['msg']}."
        raise RefusalError(422, "bad_input", message) from None


class SecurityHeaders:
    """Adds the headers that browsers keep to, to every answer; a request that gives its length in
    two ways is refused, since a proxy may have read it in the other one (request smuggling).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        lengths = {b"content-length", b"transfer-encoding"}
        if lengths <= {name for name, _ in scope.get("headers", ())}:
            message = "A request has a Content-Length or a Transfer-Encoding, not both."
            refusal = {"error": "two_lengths", "message": message}
            answer = JSONResponse(refusal, 400, {"connection": "close"})
            return await answer(scope, receive, send_with_headers)
        return await self._app(scope, receive, send_with_headers)
