"""A real browser for tests: headless chromium over a pipe, that reaches this machine only."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from time import monotonic, sleep
from typing import Any

import pytest

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-proxy-server",
    "--remote-debugging-pipe",
)  # fmt: skip
_NO_NETWORK, _LOOPBACK = "--host-resolver-rules=MAP * ~NOTFOUND", ", EXCLUDE 127.0.0.1"
_PATIENCE = 60.0  # seconds, on a machine that others load
_KEYS = {"ArrowLeft": 37, "ArrowRight": 39, "Tab": 9, "Enter": 13, "Space": 32}
_TYPED = {"Enter": "\r", "Space": " "}


class Browser:
    """One page of a browser: goes somewhere, clicks, types; tells what it sees and asked for."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read, self._buffer, self._last = write, read, b"", 0
        self._session, self.width = "", 0
        self._asked: dict[str, str] = {}
        self.errors: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the DevTools protocol, and what it answers."""
        number = self._post(method, **params)
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer)
                return answer["result"]  # type: ignore[no-any-return]

    def _post(self, method: str, **params: Any) -> int:
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        return self._last

    def _next(self) -> dict[str, Any]:
        end = monotonic() + _PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select([self._read], [], [], max(0.0, end - monotonic()))
            assert ready, "the browser does not answer"
            self._buffer += os.read(self._read, 1 << 20)
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, params: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self._asked[params["requestId"]] = params["request"]["url"]
        elif method == "Network.loadingFailed" and params.get("blockedReason") == "csp":
            self._asked.pop(params["requestId"], None)
        elif method == "Page.javascriptDialogOpening":  # such as "leave without saving?"
            self._post("Page.handleJavaScriptDialog", accept=True)
        elif method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])

    @property
    def requests(self) -> list[str]:
        """The addresses that were asked, but for those that a page's policy forbade."""
        return list(self._asked.values())

    def forget(self) -> None:
        """Forget what was asked and what went wrong."""
        self._asked.clear()
        self.errors.clear()

    def size(self, width: int, height: int = 900) -> None:
        """A window of so many pixels; narrow ones are a phone's."""
        self.width = width
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)  # fmt: skip

    def go(self, page: Path | str, fragment: str = "") -> None:
        """Open a page from the file system and wait until it is loaded."""
        address = page.as_uri() if isinstance(page, Path) else page
        self.send("Page.navigate", url="about:blank")
        self.until("location.href === 'about:blank'")
        self.send("Page.navigate", url=address + fragment)
        self.until("location.href !== 'about:blank' && document.readyState === 'complete'")

    def run(self, code: str) -> Any:
        """The value of an expression in the page."""
        done = self.send("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, (code, done["exceptionDetails"])
        return done["result"].get("value")

    def until(self, code: str) -> None:
        """Wait until an expression is true; on the way to another page it may have no value."""
        end = monotonic() + _PATIENCE
        while not self._is_true(code):
            assert monotonic() < end, f"never true: {code}; shown: {self.text()[:2000]}"
            sleep(0.01)

    def _is_true(self, code: str) -> bool:
        try:
            return bool(self.run(f"Boolean({code})"))
        except AssertionError:
            return False

    def text(self, selector: str = "body") -> str:
        """What a reader sees in an element."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def click(self, selector: str) -> None:
        """Move the mouse to the middle of an element, which must be there and on top, and press."""
        self.run(
            f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block:'center'}})"
        )
        box = self.run(
            f"document.querySelector({json.dumps(selector)}).getBoundingClientRect().toJSON()"
        )
        at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        self.send("Input.dispatchMouseEvent", type="mouseMoved", **at)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)

    def press(self, key: str) -> None:
        """Press one key, by its name or by the letter or digit on it."""
        number = _KEYS[key] if key in _KEYS else ord(key.upper())
        typed = {"text": _TYPED[key]} if key in _TYPED else {}
        for kind in ("keyDown" if typed else "rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=_TYPED.get(key, key), code=key,
                      windowsVirtualKeyCode=number, **typed)  # fmt: skip

    def tab_to(self, selector: str) -> None:
        """Press Tab until an element has the focus, which must show."""
        for _ in range(200):
            self.press("Tab")
            if self.run(f"document.activeElement.matches({json.dumps(selector)})"):
                assert self.run("document.activeElement.matches(':focus-visible')"), selector
                return
        raise AssertionError(f"Tab never reaches {selector}")

    def bodies(self) -> dict[str, str]:
        """What was answered to each request since the last `forget`, by its address."""
        answers = {
            url: self.send("Network.getResponseBody", requestId=number)
            for number, url in self._asked.items()
            if url.startswith("http")
        }
        return {url: answer["body"] for url, answer in answers.items()}

    def choose(self, name: str, value: str) -> None:
        """Set a form's field as its user would, events included."""
        field = f"document.querySelector('[name={name}]')"
        self.run(f"{field}.value = {json.dumps(value)}")
        self.run(f"{field}.dispatchEvent(new Event('input', {{bubbles: true}}))")

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        return int(self.run("document.scrollingElement.scrollWidth")) - self.width

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Save what is seen as a PNG."""
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def running_browser(profile: Path, *, loopback: bool = False) -> Iterator[Browser]:
    """A browser with a profile of its own, ended with the block."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on this machine")
    reach = _NO_NETWORK + (_LOOPBACK if loopback else "")
    to_browser, from_us = os.pipe()
    to_us, from_browser = os.pipe()

    def third_and_fourth() -> None:
        """The protocol's pipes are the descriptors 3 and 4."""
        reads, writes = os.dup(to_browser), os.dup(from_browser)
        os.dup2(reads, 3)
        os.dup2(writes, 4)

    process = subprocess.Popen(
        [chromium, *_FLAGS, reach, f"--user-data-dir={profile}", "about:blank"],
        preexec_fn=third_and_fourth,  # noqa: PLW1509 (no threads here)
        close_fds=False,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(to_browser)
    os.close(from_browser)
    try:
        yield Browser(from_us, to_us)
    finally:
        process.terminate()
        process.wait(timeout=30)
        os.close(from_us)
        os.close(to_us)
