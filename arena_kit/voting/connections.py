"""The server's connections: how long one may wait, how many there may be, and who goes first."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.requests import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

from arena_kit.voting.access import Access, network_of

if TYPE_CHECKING:
    import asyncio

    from starlette.types import ASGIApp

HEADER_SECONDS = 10.0  # for the head of a request
PER_ADDRESS = 200  # connections of one address, or of one IPv6 network
MOST = 800  # connections in all; a process may usually open 1,024 files
_QUIET: Any = {"log_level": "warning", "access_log": False, "server_header": False}


def server_config(app: ASGIApp, access: Access, proxy: str = "") -> uvicorn.Config:
    """The server's settings; `X-Forwarded-For` is believed of the address of a proxy alone."""
    protocol: Any = partial(Connection, access, proxy)
    forwarded: Any = {"proxy_headers": bool(proxy), "forwarded_allow_ips": [proxy]}
    return uvicorn.Config(app, http=protocol, **_QUIET, **forwarded, timeout_graceful_shutdown=5)


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
