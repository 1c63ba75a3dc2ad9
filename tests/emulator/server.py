"""HTTP on the loopback interface: bytes in, bytes out, and connections that break on demand."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from threading import Event, Lock, Thread
from typing import Any, Self, cast
from urllib.parse import parse_qs, unquote, urlsplit

from tests.emulator.app import Answer, App, Request
from tests.emulator.billing import Ledger
from tests.emulator.settings import Clock, Faults, Settings

#: Chunk sizes that tear lines, JSON escapes and characters apart.
_SIZES = (1, 7, 61, 997, 8191, 65521)
_BLOCK = 1 << 20


@dataclass(slots=True)
class LogRow:
    """One HTTP request; `status` None means that the connection was closed without a word."""

    method: str
    path: str
    status: int | None = None


class _Server(ThreadingHTTPServer):
    daemon_threads, block_on_close, request_queue_size = True, False, 128

    def __init__(self, port: int, emulator: Emulator) -> None:
        self.emulator = emulator
        self.open: set[socket.socket] = set()
        self.lock = Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.lock:
            self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self.lock:
            self.open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no news; anything else is shown."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True

    def log_message(self, *args: Any) -> None:
        """Say nothing here: requests are logged by the emulator."""

    def _serve(self) -> None:
        emulator = cast("_Server", self.server).emulator
        url = urlsplit(self.path)
        body = self._body(emulator.settings.max_batch_bytes)
        row = LogRow(self.command, self.path)
        emulator.requests.append(row)
        headers = {name.lower(): value for name, value in self.headers.items()}
        where: Any = {"path": unquote(url.path), "query": parse_qs(url.query), "headers": headers}
        origin = f"http://{self.headers['host']}"
        request = Request(method=self.command, body=body, origin=origin, **where)
        answer = emulator.app.answer(request)
        row.status = answer.status
        self._send(answer)

    do_GET = do_POST = _serve  # noqa: N815 (names of the base class)

    def _body(self, most: int) -> bytes | None:
        """The body, or None for one over the limit, which is read and thrown away."""
        left = int(self.headers.get("content-length") or 0)
        if left <= most:
            return self.rfile.read(left)
        while left > 0 and (block := self.rfile.read(min(left, _BLOCK))):
            left -= len(block)
        return None

    def _send(self, answer: Answer) -> None:
        if answer.wait:
            cast("_Server", self.server).emulator.closing.wait(answer.wait)
        if answer.status is None:
            self._hang_up()
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.lines is not None:
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self._stream(answer, answer.lines)
            return
        self.send_header("content-length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def _stream(self, answer: Answer, lines: Iterator[bytes]) -> None:
        """Chunks at awkward boundaries; a torn stream promises more than it sends."""
        for chunk in _chunks(_shortened(answer, lines)):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        if answer.cut == "truncate":
            self.wfile.write(b"400\r\n")
            self._hang_up()
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)


def _shortened(answer: Answer, lines: Iterator[bytes]) -> Iterator[bytes]:
    """The lines up to where the answer breaks off, the last of them by half."""
    for index, line in enumerate(lines):
        if answer.cut is not None and index == answer.cut_after:
            yield b"" if answer.cut == "short" else line[: len(line) // 2]
            return
        yield line


def _chunks(lines: Iterator[bytes]) -> Iterator[bytes]:
    buffer = bytearray()
    sizes = cycle(_SIZES)
    size = next(sizes)
    for line in lines:
        buffer += line
        while len(buffer) >= size:
            yield bytes(buffer[:size])
            del buffer[:size]
            size = next(sizes)
    if buffer:
        yield bytes(buffer)


class Emulator:
    """A loopback server that stands in for the service until it is closed."""

    def __init__(self, *, port: int = 0, **settings: Any) -> None:
        self.settings = Settings(**settings)
        self.app = App(self.settings)
        self.clock: Clock = self.app.clock
        self.faults: Faults = self.app.faults
        self.billing: Ledger = self.app.billing
        self.requests: list[LogRow] = []
        self.closing = Event()
        self._server = _Server(port, self)
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving and break what is still connected; doing so twice is fine."""
        if self.closing.is_set():
            return
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        with self._server.lock:
            for connection in self._server.open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout=5)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def batches(self) -> list[dict[str, object]]:
        """Every batch with its custom_ids; looking ends none."""
        with self.app.lock:
            return [
                self.app.batches.describe(batch, "")
                | {"custom_ids": [item.custom_id for item in batch.items]}
                for batch in self.app.batches.by_id.values()
            ]
