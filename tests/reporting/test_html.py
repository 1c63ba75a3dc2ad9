"""The report: safe with hostile text, self-contained, and right in a real browser."""

from __future__ import annotations

import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

from arena_kit.reporting.html import clean_html, export_report
from arena_kit.reporting.show import table

HOSTILE = [
    "<script>document.title='PWNED'</script>",
    "<img src=x onerror=\"document.title='PWNED'\">",
    "<svg onload=\"document.title='PWNED'\"></svg>",
    "<iframe srcdoc=\"<script>parent.document.title='PWNED'</script>\"></iframe>",
    "<a href=\"javascript:document.title='PWNED'\">x</a>",
    "<style>body{display:none}</style>",
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>",
    "<img src=http://127.0.0.1:9/beacon.png>",
    '<div style="background:url(http://127.0.0.1:9/b.png)">x</div>',
    "<form action=http://127.0.0.1:9/><input name=x></form>",
]


def hostile_notebook(path: Path) -> Path:
    """A notebook whose outputs carry hostile HTML in every form an output can take."""
    outputs = [v4.new_output("display_data", {"text/html": text}) for text in HOSTILE]
    outputs += [
        v4.new_output("stream", name="stdout", text="".join(HOSTILE)),
        v4.new_output("display_data", {"application/javascript": "document.title='PWNED'"}),
        v4.new_output("display_data", {"text/markdown": HOSTILE[1]}),
        v4.new_output("display_data", {"image/svg+xml": HOSTILE[2]}),
        v4.new_output("error", ename="E", evalue=HOSTILE[0], traceback=[HOSTILE[0], HOSTILE[1]]),
    ]
    node = v4.new_notebook(
        cells=[
            v4.new_markdown_cell("# Title\n\nstill here"),
            v4.new_code_cell("x = '</details><script>1</script>'", outputs=outputs),
        ],
        metadata={"title": "A <b>report</b>"},
    )
    nbformat.write(node, path)
    return path


@pytest.fixture
def report(tmp_path: Path) -> Path:
    target = tmp_path / "report.html"
    export_report(hostile_notebook(tmp_path / "hostile.ipynb"), target)
    return target


class Elements(HTMLParser):
    """Collects what a browser would act on: tags and attributes, not text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


def test_nothing_active(report: Path) -> None:
    """No script, handler, frame, form, link or remote address survives as an element."""
    body = Elements(report.read_text().split("<main>")[1])
    assert body.tags <= {"h1", "p", "div", "span", "pre", "details", "summary", "code", "a"}
    assert "details" in body.tags
    for name, value in body.attributes:
        assert not name.startswith("on"), (name, value)
        assert name not in ("src", "srcdoc", "action"), (name, value)
        assert name != "href" or value.startswith("#"), (name, value)
        assert "url(" not in value, (name, value)


def test_nothing_fetched(report: Path) -> None:
    """The file names no address to load from: no src, no stylesheet link, no import."""
    text = report.read_text()
    assert 'src="http' not in text
    assert "<link" not in text
    assert "@import" not in text


def test_clean_keeps_tables() -> None:
    """Cleaning leaves our own tables as they are, styles included."""
    import pandas as pd

    shown = table(pd.DataFrame({"model": ["<b>x</b>"], "elo": [1400]}), name="t")
    assert "&lt;b&gt;x" in shown.html
    cleaned = clean_html(shown.html)
    assert cleaned.count("<td") == 2
    assert "text-align" in cleaned


@pytest.fixture(scope="session")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no chromium on this machine")
    return found


def browse(chromium: str, page: Path, profile: Path, *flags: str) -> str:
    quiet = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
    ]  # fmt: skip
    done = subprocess.run(
        [chromium, *quiet, f"--user-data-dir={profile}", *flags, page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def test_in_a_browser(chromium: str, report: Path, tmp_path: Path) -> None:
    """Opened in a browser, no hostile text runs, and the title is the notebook's as text."""
    dom = browse(chromium, report, tmp_path / "profile", "--dump-dom")
    assert "<title>A &lt;b&gt;report&lt;/b&gt;</title>" in dom
    assert "still here" in dom


def test_the_browser_would_notice(chromium: str, tmp_path: Path) -> None:
    """The same text in an unprotected page does run: the test above can fail."""
    page = tmp_path / "open.html"
    page.write_text(f"<title>safe</title>{HOSTILE[0]}")
    dom = browse(chromium, page, tmp_path / "profile", "--dump-dom")
    assert "<title>PWNED</title>" in dom
