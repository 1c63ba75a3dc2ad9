"""The service without its sockets: routes, credentials, faults, answers."""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from threading import RLock
from typing import Any

from tests.emulator.batches import Batches
from tests.emulator.billing import BillingRow, Ledger, PromptCache, Usage, prompt_tokens
from tests.emulator.messages import Desk, chat_models, message_object
from tests.emulator.rules import MODELS, ApiError, check, invalid
from tests.emulator.settings import REFUSALS, Clock, Fault, Faults, Settings, with_usage

_PAGE = b"<html><body>Welcome to the proxy</body></html>\n"
Match = re.Match[str]


@dataclass(slots=True, kw_only=True)
class Request:
    """An HTTP request; `body` is None when it was too large to be read."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes | None
    origin: str

    def json(self) -> Any:
        body, self.body = self.body or b"", b""
        try:
            return json.loads(body)
        except ValueError:
            raise invalid("The request body is not valid JSON.") from None

    def first(self, name: str) -> str | None:
        return self.query.get(name, [None])[0]


@dataclass(slots=True, kw_only=True)
class Answer:
    """What to send: a body, or result lines."""

    status: int | None  # None closes without a word
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    lines: Iterator[bytes] | None = None
    wait: float = 0.0  # real seconds
    cut: str | None = None  # how lines break off: torn in a chunk, in a line, or after a whole one
    cut_after: int = 0  # so many lines


Action = Callable[..., Answer]


class App:
    def __init__(self, settings: Settings) -> None:
        self.settings, self.clock, self.faults, self.lock = settings, Clock(), Faults(), RLock()
        self.billing = Ledger(self._settle)
        self.desk = Desk(settings)
        self.batches = Batches(settings, self.clock, self.desk, self.billing, self.faults)
        self.max_seen_concurrency = 0
        #: What something in between makes of every body and result line that is sent with a 200.
        self.tamper: Callable[[Request, bytes], bytes] | None = None
        self._concurrent, self._cache, self._numbers = 0, PromptCache(), count(1)
        self._routes: list[tuple[str, re.Pattern[str], str, Action]] = [
            (method, re.compile(path), site, action)
            for method, path, site, action in (
                ("POST", r"/v1/messages/batches", "create", self._create),
                ("GET", r"/v1/messages/batches", "list", self._list),
                ("GET", r"/v1/messages/batches/([^/]+)", "retrieve", self._retrieve),
                ("POST", r"/v1/messages/batches/([^/]+)/cancel", "cancel", self._cancel),
                ("GET", r"/v1/messages/batches/([^/]+)/results", "results", self._results),
                ("POST", r"/v1/messages", "messages", self._message),
                ("POST", r"/v1/messages/count_tokens", "count_tokens", self._count),
                ("GET", r"/v1/models", "models", self._models),
                ("GET", r"/v1/models/([^/]+)", "models", self._model),
                ("POST", r"/v1/chat/completions", "chat", self._chat),
            )
        ]

    def answer(self, request: Request) -> Answer:
        """Serve one request; every answer carries a request-id [RUN]."""
        request_id = f"req_011{next(self._numbers):021d}"
        try:
            answer = self._routed(request)
        except ApiError as error:
            chat = request.path.startswith("/v1/chat/")
            body = error.chat_body() if chat else error.body(request_id)
            answer = _json(body, status=error.status, headers=dict(error.headers))
        if self.tamper is not None and answer.status == 200:
            change = partial(self.tamper, request)
            answer.body = change(answer.body)
            answer.lines = answer.lines and map(change, answer.lines)
        answer.headers["request-id"] = request_id
        return answer

    def _routed(self, request: Request) -> Answer:
        for method, path, site, action in self._routes:
            if method == request.method and (match := path.fullmatch(request.path)):
                if request.path not in ("/v1/chat/completions", "/v1/models"):  # no key needed
                    self._admit(request)
                return self._faulty(site, action, request, match)
        raise ApiError(404, f"Not found: {request.method} {request.path}")

    def _admit(self, request: Request) -> None:
        """A bearer token [RUN], and a version [DOC-A]."""
        key = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        if not key or self.settings.key not in (None, key):
            raise ApiError(401, "invalid x-api-key")
        if "anthropic-version" not in request.headers:
            raise invalid("anthropic-version: header is required")
        if request.body is None:
            raise ApiError(413, "Request exceeds the maximum size")  # [DOC-A]

    def _faulty(self, site: str, action: Action, request: Request, match: Match) -> Answer:
        fault = next(iter(self.faults.taken(site, 1)), None)
        if fault is None:
            return action(request, match, None)
        if fault.kind in REFUSALS:
            raise fault.error(request.path)
        if fault.kind == "drop_before":
            return Answer(status=None)
        if fault.kind == "late":
            time.sleep(fault.seconds)
        answer = action(request, match, fault)
        match fault.kind:
            case "status_after" | "redirect_after":
                raise fault.error(request.path)
            case "page":
                return Answer(status=200, body=_PAGE, headers={"content-type": "text/html"})
            case "json_page":
                return _json({"status": "ok"})
            case "drop" | "hang":
                return Answer(status=None, wait=fault.seconds if fault.kind == "hang" else 0.0)
        return answer

    def _create(self, request: Request, match: Match, fault: Fault | None) -> Answer:
        with self.lock:
            batch = self.batches.create(request.json())
            return _json(self.batches.describe(batch, request.origin))

    def _list(self, request: Request, match: Match, fault: Fault | None) -> Answer:
        limit = int(request.first("limit") or 20)
        if not 1 <= limit <= 1000:  # [SRC]
            raise invalid("limit: Input should be between 1 and 1000")
        with self.lock:
            page, more = self.batches.page(limit, request.first("after_id"), fault)
            data = [self.batches.describe(batch, request.origin) for batch in page]
        first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
        page_of_list = {"data": data, "has_more": more, "first_id": first, "last_id": last}
        return _json(page_of_list)  # [SRC: pagination.SyncPage]

    def _retrieve(self, request: Request, match: Match, fault: Fault | None) -> Answer:
        origin = fault.url if fault and fault.kind == "foreign_results_url" else request.origin
        with self.lock:
            return _json(self.batches.describe(self.batches.get(match[1]), origin))

    def _cancel(self, request: Request, match: Match, fault: Fault | None) -> Answer:
        with self.lock:
            return _json(self.batches.describe(self.batches.cancel(match[1]), request.origin))

    def _results(self, request: Request, match: Match, fault: Fault | None) -> Answer:
        with self.lock:
            batch = self.batches.get(match[1])
            answer = Answer(status=200, lines=self.batches.lines(batch))
        answer.headers["content-type"] = "application/x-jsonl"
        usual = {"truncate": 0.5, "half_line": 1.0, "short": 0.5}
        if fault is not None and fault.kind in usual:
            answer.cut = fault.kind
            share = usual[fault.kind] if fault.share is None else fault.share
            answer.cut_after = min(int(len(batch.items) * share), len(batch.items) - 1)
        return answer

    def _message(self, request: Request, match: Match, fault: Fault | None) -> Answer:
        params = request.json()
        with self.lock:
            work = self.desk.prepare(params)
            now, cache = self.clock.now(), self._cache
            cached = cache.use(work.prefixes, now, hit=lambda p: cache.warm(p, now), origin="live")
            usage = work.usage(cached, "standard")
        name = f"msg_01{next(self._numbers):022d}"
        message = message_object(name, work.model, work.output, usage)
        return self._charged(message, ("messages", work.digest, work.model, usage), fault)

    def _count(self, request: Request, match: Match, fault: Fault | None) -> Answer:
        """Free, and checked like a message [DOC-A]."""
        params = request.json()
        check(params, counting=True)
        return _json({"input_tokens": prompt_tokens(params)})

    def _chat(self, request: Request, match: Match, fault: Fault | None) -> Answer:
        body = request.json()
        with self.lock:
            completion, usage, digest = self.desk.complete(body)
        return self._charged(completion, ("chat", digest, body["model"], usage), fault)

    def _charged(
        self, message: dict[str, object], bill: tuple[str, str, str, Usage], fault: Fault | None
    ) -> Answer:
        """Bill a live call and answer it as slowly as set, with its usage or the fault script's."""
        transport, digest, model, usage = bill
        accepted = BillingRow(transport, "", "", digest)
        with self.lock:
            self.billing.accepted.append(accepted)
            self.billing.bill(accepted, model, usage)
            self._concurrent += 1
            self.max_seen_concurrency = max(self.max_seen_concurrency, self._concurrent)
        time.sleep(self.settings.latency)
        with self.lock:
            self._concurrent -= 1
        answer = _json(message)
        if fault is not None and fault.kind == "odd_usage":
            answer.body = with_usage(message, fault.usage, json.dumps).encode()
        return answer

    def _models(self, request: Request, match: Match, fault: Fault | None) -> Answer:
        return _json(chat_models())

    def _model(self, request: Request, match: Match, fault: Fault | None) -> Answer:
        if (model := MODELS.get(match[1])) is None:
            raise ApiError(404, f"model: {match[1]}")
        return _json(model.info())

    def _settle(self) -> None:
        with self.lock:
            self.batches.settle()


def _json(body: object, *, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    headers = {"content-type": "application/json"} | (headers or {})
    return Answer(status=status, body=json.dumps(body).encode(), headers=headers)
