"""Reports in a real browser, on a phone and on a desk: they fit, and no text in them acts."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from arena_kit.battles.log import Labels
from arena_kit.battles.write import write_battles
from arena_kit.judging.pairs.prompts import responses_file
from arena_kit.runs.notebook.run import NotebookRun
from arena_kit.site.build import build_site
from tests.browser import Browser
from tests.samples import HOSTILE, SAMPLE, all_pairs, drawn, edited, report_of


def crowd(root: Path, entrants: Sequence[str], dimensions: Sequence[str], prompts: int) -> None:
    """Make the workspace's tournament one of these entrants."""
    bank = [json.loads(line) for line in (SAMPLE / "prompts.jsonl").read_text().splitlines()]
    bank = [row for row in bank if row.get("gold_answer")][:prompts]
    (root / "sample" / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in bank))
    rng = np.random.default_rng(0)
    for n, entrant in enumerate(entrants):
        rows = []
        for row in bank:
            words = row["gold_answer"].split()
            kept = [w for w in words if rng.random() < 0.35 + 0.6 * n / len(entrants)]
            text = " ".join(kept or words[:1])
            rows.append({"entrant_id": entrant, "prompt_id": row["prompt_id"],
                         "response_text": text})  # fmt: skip
        file = responses_file(root / "sample" / "responses", entrant)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rubric = {"rubric": "params/rubrics/factuality.md", "version": "2", "reference": "gold_answer"}
    edited(root, entrants=[*entrants], dimensions=dict.fromkeys(dimensions, rubric))


PHONE, DESK = (390, 844), (1280, 900)
#: Texts that act, mislead or do not fit where they are shown as they are.
TEXTS = [
    *HOSTILE,
    "</script></style></textarea><script>document.title='PWNED'</script>",
    "![x](http://127.0.0.1:9/remote.png) [x](javascript:document.title='PWNED')",
    "user\u202egnp.exe \u2066x\u2069 \u200b\u2060\ufeff zero",
    "W" * 5000,
    r"$\frac{1}{0}$ \input{/etc/passwd} $$\sum$$",
    "| a | b |\n|---|---|\n# heading\n- item",
]
ALL = " ".join(TEXTS)


def wide(browser: Browser) -> list[str]:
    """What reaches beyond the window and does not scroll in a container of its own."""
    found: list[str] = browser.run(
        """[...document.querySelectorAll('main *')].filter((e) => {
          if (e.getBoundingClientRect().right <= innerWidth + 1) return false;
          for (let p = e.parentElement; p; p = p.parentElement)
            if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(p).overflowX)
                && p.getBoundingClientRect().right <= innerWidth + 1) return false;
          return true;
        }).map((e) => e.outerHTML.slice(0, 120))"""
    )
    return found


def check(browser: Browser, page: Path) -> None:
    """A page runs nothing, asks nobody and fits both windows, also with everything unfolded."""
    browser.forget()
    browser.go(page)
    for fold in (True, False):
        browser.run(
            f"document.querySelectorAll('details').forEach((d) => {{ d.open = {int(not fold)} }})"
        )
        for width, height in (PHONE, DESK):
            browser.size(width, height)
            assert browser.overflow() <= 0, width
            assert wide(browser) == [], width
    assert browser.run("document.title") != "PWNED"
    assert browser.run("document.scripts.length") == 0
    asked = {url.split(":")[0] for url in browser.requests}
    assert asked <= {"file", "about", "data"}, browser.requests
    assert not browser.errors


def above_the_figure(browser: Browser) -> list[str]:
    """The words down to the lower edge of the first figure."""
    text: str = browser.run(
        """(() => { const seen = [], end = document.images[0].getBoundingClientRect().bottom;
          const walk = document.createTreeWalker(document.querySelector('main'), 4);
          while (walk.nextNode()) {
            const r = document.createRange(); r.selectNode(walk.currentNode);
            const b = r.getBoundingClientRect();
            if (b.height && b.top <= end) seen.push(walk.currentNode.textContent); }
          return seen.join(' '); })()"""
    )
    return text.split()


def check_first_screen(browser: Browser, page: Path, shows: str) -> str:
    """The figure that answers is whole without scrolling, under at most 60 words: returns them."""
    for width, height in (PHONE, DESK):
        browser.size(width, height)
        browser.go(page)
        assert browser.run("document.images[0].alt").startswith(shows)
        box = browser.run("document.images[0].getBoundingClientRect().toJSON()")
        assert box["width"] > 0.85 * min(width, 960)
        assert 0 < box["top"] < box["bottom"] <= height
        words = above_the_figure(browser)
        assert len(words) <= 60, words
    return " ".join(words)


def test_a_hostile_tournament(browser: Browser, workspace: Path) -> None:
    """Texts of prompts and responses act nowhere in its report or in the site's copy."""
    names = ["ash", "b" * 128, "cherry"]
    crowd(workspace, names, ["factuality", "d" * 60], prompts=2)
    bank = workspace / "sample" / "prompts.jsonl"
    rows = [json.loads(line) for line in bank.read_text().splitlines()]
    for row in rows:
        row |= {"text": ALL, "source": "s" * 128, "subject": ALL}
    bank.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for file in (workspace / "sample" / "responses").glob("*.jsonl"):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        for n, row in enumerate(rows):
            row["response_text"] += " " + ALL[n * 7 :]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    edited(workspace, name="n" * 128)
    page = report_of("headline", workspace, overrides={"elo.n_perms": 20})
    check(browser, page)
    assert "PWNED" in browser.text()  # as text
    assert "No answer on" in check_first_screen(browser, page, "Rating of every entrant")
    build_site([page.parent], workspace / "site")
    copied = workspace / "site" / page.parent.name / "report.html"
    browser.go(copied)
    assert browser.run("document.scripts.length") == 0
    assert browser.run("document.querySelector('p.site a').getAttribute('href')") == "index.html"


def hostile_votes(path: Path) -> list[str]:
    """A file of votes among models whose names are hostile, as far as names may be."""
    rng = np.random.default_rng(0)
    names = [text[:250] for text in TEXTS if text.isprintable()]
    skill = {name: 40.0 * n for n, name in enumerate(names)}
    log = drawn(rng, skill, all_pairs(names), 500)
    asked = Labels.of([TEXTS[n % 5] for n in range(len(log))])
    write_battles(path, replace(log, question_id=asked))
    return names


@pytest.mark.slow  # a whole report in a browser; the tournament's is quick
def test_a_hostile_arena(browser: Browser, workspace: Path) -> None:
    """Names of models and prompts and of the arena act nowhere in a validity report."""
    names = hostile_votes(workspace / "votes.jsonl")
    given = {"battles": "votes.jsonl", "arena": ALL}
    check(browser, report_of("model_pages", workspace, **given, models=names[:1]))
    check(browser, report_of("policy_validity", workspace, **given))
    assert "PWNED" in browser.text()


#: What the first figure of each report shows, and its first words; the headline's is above.
FIRST_SCREENS = {
    "pilot": ("Rating of every entrant", "Judge:"),
    "adaptive": ("Rating of every entrant", "Judge: "),
    "k_sweep": ("Rank of every entrant at every K", "Judge: "),
    "placement": ("Rating of every model", "Judge error: "),
    "policy_validity": ("Confidence bands of the models", "adjacent pairs in the top 10"),
    "judge_report": ("Agreement with human votes", "Agreement with human votes: "),
    "vote_review": ("E-value of every voter", "4 of 65 voters"),
}


@pytest.mark.parametrize("name", FIRST_SCREENS)
def test_the_first_screen_holds_the_figure_that_answers(
    name: str, browser: Browser, quick_report: Callable[[str], Path]
) -> None:
    """On a phone and on a desk the answering figure is whole on the first screen of a report."""
    shows, says = FIRST_SCREENS[name]
    page = quick_report(name) / "report.html"
    check(browser, page)
    assert says in check_first_screen(browser, page, shows)
    pictures = browser.run("document.images.length")
    assert browser.run("document.querySelectorAll('picture source').length") == pictures
    assert f"arena-kit site {page.parent.name} --out site" in browser.text()


@pytest.mark.slow  # 12 entrants on five dimensions are 3,300 verdicts and seven large figures
def test_twelve_entrants_on_five_dimensions(browser: Browser, workspace: Path) -> None:
    """The report of a large tournament stays within 12,000 pixels at 1280 and 3 MB."""
    names = [f"entrant-{n:02d}" for n in range(1, 13)]
    dimensions = ["factuality", "calibration", "clinical_utility", "tone", "brevity"]
    crowd(workspace, names, dimensions, prompts=5)
    given = {"elo.n_perms": "50", "strata": "{}"}
    run = NotebookRun.resolve("headline", workspace, overrides=given)
    page = run.start(progress=False).path
    check(browser, page / "report.html")
    browser.size(*DESK)
    browser.go(page / "report.html")
    assert browser.run("document.documentElement.scrollHeight") <= 12_000
    assert (page / "report.html").stat().st_size <= 3_000_000
