"""The emulated service in a process of its own, steered over its standard input."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tests.emulator import Emulator, Fault
from tests.emulator.app import Answer, Request

_ROOT = Path(__file__).parents[2]
MODEL = "claude-opus-5-5"
FOREIGN = "foreign"
#: How a live call is named on the bill, before the digest of what was asked.
LIVE = "live"
#: Results that do not say what they cost, by what became of their requests.
_SILENT = ("odd_usage", "message_null")
#: The address to redirect to, in a fault script, and the model in whose name it answers.
ELSEWHERE = "elsewhere"


class Service:
    """The harness's end: every call is one line there and one line back."""

    def __init__(self) -> None:
        command, pipe = [sys.executable, "-m", "tests.faults.service"], subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=_ROOT, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=120)

    def __getattr__(self, what: str) -> Callable[..., Any]:
        """The method of this name of the server, called over there."""
        return lambda value=None: self._call(what, value)

    def _call(self, what: str, value: object) -> Any:
        stdin: Any = self._process.stdin
        stdout: Any = self._process.stdout
        print(json.dumps([what, value]), file=stdin, flush=True)
        return json.loads(stdout.readline())


class _Server:
    """The service's end; elsewhere is a server that answers in another model's name."""

    def __init__(self) -> None:
        self._emulator = Emulator()
        self._elsewhere = Emulator()
        self._elsewhere.app.answer = self._answer_elsewhere  # type: ignore[method-assign]
        self._astray = 0

    def fresh(self, settings: dict[str, Any]) -> str:
        """Start anew, with nothing remembered; returns the address."""
        port = self._emulator.port
        self._emulator.close()
        self._emulator = Emulator(port=port, **settings)
        self._astray = 0
        return self._emulator.base_url

    def add(self, faults: list[dict[str, Any]]) -> None:
        there = {ELSEWHERE: self._elsewhere.base_url}
        for fault in (Fault(**each) for each in faults):
            fault.url = there.get(fault.url, fault.url)
            self._emulator.faults.add(fault)

    def heal(self, _: None) -> None:
        self._emulator.faults.clear()
        self._emulator.settings.expire_share = 0.0

    def hurry(self, _: None) -> None:
        self._emulator.settings.batch_seconds = 0.0

    def sleep(self, hours: float) -> None:
        self._emulator.clock.advance(hours=hours)

    def foreign(self, sizes: list[int]) -> None:
        """Batches of somebody else in the same account, of these sizes."""
        app = self._emulator.app
        asked = [{"role": "user", "content": "Somebody else's question."}]
        params = {"model": MODEL, "max_tokens": 64, "messages": asked}
        for size in sizes:
            ids = [f"{FOREIGN}-{index}" for index in range(size)]
            requests = [{"custom_id": name, "params": params} for name in ids]
            with app.lock:
                app.batches.create({"requests": requests})

    def bill(self, _: None) -> list[tuple[str, float]]:
        """What was charged, as (custom id, dollars); a live call has its question's digest."""
        self._emulator.clock.advance(hours=1)  # whatever was accepted is worked off and charged
        rows = self._emulator.billing.rows
        return [(row.custom_id or f"{LIVE}-{row.digest}", row.usd) for row in rows]

    def silent(self, _: None) -> list[str]:
        """Custom ids of results that did not say what they cost."""
        batches = self._emulator.app.batches.by_id.values()
        return [item.custom_id for batch in batches for item in batch.items if item.fate in _SILENT]

    def astray(self, _: None) -> int:
        """How many requests reached the other address that the service redirects to."""
        return self._astray

    def fired(self, _: None) -> int:
        return self._emulator.faults.fired

    def _answer_elsewhere(self, request: Request) -> Answer:
        self._astray += 1
        answer = self._emulator.app.answer(request)
        answer.body = _renamed(answer.body)
        if answer.lines is not None:
            answer.lines = map(_renamed, answer.lines)
        return answer


def _renamed(content: bytes) -> bytes:
    return content.replace(MODEL.encode(), ELSEWHERE.encode())


def main() -> None:
    server = _Server()
    for line in sys.stdin:
        what, value = json.loads(line)
        sys.stdout.write(json.dumps(getattr(server, what)(value)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
