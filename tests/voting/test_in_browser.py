"""Voting in a real browser: by keyboard, blind, on a phone, with a screen reader, and safely."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from arena_kit.judging.verdicts.rendering import Rubric
from arena_kit.voting.ballot import make_ballot, take_ballot
from arena_kit.voting.live import LiveArena
from tests.browser import Browser, running_browser
from tests.samples import HOSTILE
from tests.voting.arenas import BOARD_TOKEN, KEY, arena_texts, leaks, live_arena, serving, vote

CHOICES = {"1": "A", "ArrowLeft": "A", "a": "A", "2": "B", "ArrowRight": "B", "b": "B", "t": "TIE",
           "x": "BOTH_BAD", "s": "SKIP"}  # fmt: skip
CONTROLS = ("button", "textbox", "checkbox", "progressbar")
NETWORK = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
PAIR, AFTER, TROUBLE, END = (
    f"!document.querySelector('#{name}').hidden" for name in ("pair", "after", "trouble", "end")
)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_browser(tmp_path_factory.mktemp("profile"), loopback=True) as browser:
        yield browser


@pytest.fixture
def page(started: Browser) -> Browser:
    started.size(1280)
    started.send("Network.clearBrowserCookies")
    started.forget()
    return started


def ballot(live: LiveArena, folder: Path, pairs: int) -> Path:
    path = folder / "ballot.html"
    path.write_text(make_ballot(live, KEY, pairs=pairs, days=30))
    return path


def begin(page: Browser, voter: str = "") -> None:
    page.run(f"document.querySelector('#voter').value = {json.dumps(voter)}")
    page.click("#begin")


def saved(page: Browser, folder: Path) -> Path:
    """The file that the page would save; its text is the same."""
    path = folder / "votes.json"
    path.write_text(page.run("document.querySelector('#text').value"))
    return path


def test_names_stay_hidden_on_the_page(page: Browser, live: LiveArena) -> None:
    """The next pair follows at once, no model is named, the last vote can be taken back."""
    with serving(live) as address:
        page.go(f"{address}/")
        page.run("document.querySelector('#voter').value = '  Ann  B. '")
        page.click("#begin")
        for n, key in ((1, "1"), (2, "s"), (2, "2")):
            page.until(f"document.querySelector('#said').textContent === 'Pair {n}.'")
            page.until("!document.querySelector('.of-b').disabled")
            page.press(key)
        page.until("document.querySelector('#progress').textContent === '2 votes so far'")
        page.until(f"!({AFTER})")
        page.until("!document.querySelector('#undo').disabled")
        page.press("z")
        page.until("document.querySelector('#said').textContent.startsWith('Your last vote was')")
        page.until("document.querySelector('#progress').textContent === '1 vote so far'")
        page.run("document.querySelector('#comment').value = ' both\\n wrong\\ud800 '")
        page.press("x")
        page.until("document.querySelector('#said').textContent === 'Pair 3.'")
        seen = page.bodies() | {"page": page.run("document.documentElement.outerHTML")}
        assert not leaks(json.dumps(seen))
    votes = live.store.votes()
    assert [(str(vote.choice), vote.removed) for vote in votes] == [
        ("A", False), ("SKIP", False), ("B", True), ("BOTH_BAD", False)
    ]  # fmt: skip
    assert votes[3].ticket[5:8] == votes[2].ticket[5:8]  # the same models and prompt
    assert votes[3].comment == "both wrong"
    assert {vote.voter for vote in votes} == {f"ann b.-{votes[0].session[:6]}"}


def test_sessions_vote_through_the_page(page: Browser, live: LiveArena) -> None:
    """Two vote by keyboard and are told names where revealed; an unsent vote is stored later."""
    live.reveal = True
    with serving(live, token="a token") as address:
        for keys in ("1t", "1"):
            page.send("Network.clearBrowserCookies")
            page.forget()
            page.go(f"{address}/", "#token=a%20token")
            page.until("performance.getEntriesByName('arena-kit-ready').length")
            page.click("#begin")
            page.until(PAIR)
            assert page.run("location.hash") == ""
            for key in keys:
                seen = page.bodies() | {"page": page.run("document.documentElement.outerHTML")}
                assert any(url.endswith("/api/matchup") for url in seen)
                assert not leaks(json.dumps(seen))
                page.press(key)
                page.until(AFTER)
                kept = live.store.votes()[-1].ticket
                shown = page.text("#reveal")
                assert shown == f"Stored. A was {kept.model_a}, B was {kept.model_b}."
                page.until("!document.querySelector('#next').disabled")
                page.forget()
                page.press("Enter")
                page.until(f"!({AFTER})")
        assert not page.errors
        page.send("Network.emulateNetworkConditions", offline=True, **NETWORK)
        page.press("2")
        page.until(TROUBLE)
        assert "nothing is lost" in page.text("#trouble")
        page.send("Network.emulateNetworkConditions", offline=False, **NETWORK)
        page.until("!document.querySelector('.of-b').disabled")
        page.press("2")
        page.until(AFTER)
        assert not page.run(TROUBLE)
    votes = live.store.votes()
    assert [str(vote.choice) for vote in votes] == ["A", "TIE", "A", "B"]
    assert len({vote.voter for vote in votes}) == 2


def test_a_ballot_is_voted_on_by_keyboard(page: Browser, live: LiveArena, tmp_path: Path) -> None:
    """Every key votes as it says, the page asks nobody, a screen reader is told of each step."""
    path = ballot(live, tmp_path, 9)
    page.go(path)
    page.run("document.querySelector('#voter').focus()")
    page.press("a")
    begin(page, "  Ann  B. ")
    for n, key in enumerate(CHOICES, 1):
        page.until(f"document.querySelector('#progress').textContent.startsWith('Pair {n} of 9')")
        assert page.run("document.activeElement.id") == "prompt-title"
        page.press(key)
        if n == 1:
            page.until("document.querySelector('[aria-live=polite]#said').textContent === "
                       "'A is better. Pair 2 of 9.'")  # fmt: skip
            assert page.run("document.querySelectorAll('main, h1').length") == 2
            for node in page.send("Accessibility.getFullAXTree")["nodes"]:
                if node.get("role", {}).get("value") in CONTROLS:
                    assert node["name"]["value"].strip(), node
    page.until(END)
    assert page.run("document.activeElement.id") == "end-title"
    assert page.text("#summary") == "8 votes, 1 skipped."
    file = saved(page, tmp_path)
    assert not leaks(path.read_text() + file.read_text())
    assert {url.split(":")[0] for url in page.requests} <= {"file", "about"}
    taken = take_ballot(live, KEY, file)
    assert (taken.voter, taken.new) == ("ann b.", 9)
    assert [str(vote.choice) for vote in live.store.votes()] == [*CHOICES.values()]
    assert not page.errors


def test_half_a_ballot_is_kept(page: Browser, live: LiveArena, tmp_path: Path) -> None:
    """A closed page goes on where it stopped; Z and dots go back; the file is the text shown."""
    path = ballot(live, tmp_path, 4)
    page.go(path)
    begin(page, "Ann B.")
    page.press("1")
    page.press("2")
    page.go(path)
    assert page.text("#begin") == "Go on at pair 3"
    begin(page, "Ann B.")
    page.click("#dots :nth-child(2)")
    assert page.run("document.querySelector('.of-b').getAttribute('aria-pressed')") == "true"
    page.run("document.querySelector('#comment').value = 'unsure'")
    page.press("x")
    page.press("z")
    assert page.run("document.querySelector('#comment').value") == "unsure"
    page.click("#dots :nth-child(3)")
    page.run("document.querySelector('#shortcuts').checked = false")
    page.press("1")
    assert page.text("#progress") == "Pair 3 of 4, 2 votes so far"
    page.click("#finish")
    assert page.text("#summary") == "2 votes, 2 still open."
    values = json.loads(saved(page, tmp_path).read_text())
    assert [vote["choice"] for vote in values["votes"]] == ["A", "BOTH_BAD"]
    page.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.click("#save")
    page.until("document.querySelector('#said').textContent.includes('saved')")
    file = tmp_path / f"votes-{values['ballot'][:8]}-Ann-B.json"
    for _ in range(200):
        if not file.is_file():
            page.run("new Promise((done) => setTimeout(done, 50))")
    assert take_ballot(live, KEY, file).new == 2
    assert [vote.comment for vote in live.store.votes()] == ["", "unsure"]


@pytest.mark.parametrize("width", [390, 1280])
def test_several_dimensions_in_one_pass(page: Browser, tmp_path: Path, width: int) -> None:
    """Keys answer dimension by dimension, leave out, step back; a closed page goes on."""
    names = ("accuracy", "tone_of_voice")
    rubrics = {
        name: Rubric(dimension=name, version="1", text=f"# {name}\n\nBetter in {name}?\n\nMore.")
        for name in names
    }
    texts = replace(arena_texts(), rubrics=rubrics)
    live = live_arena(tmp_path / "votes.sqlite", texts, dimension=names)
    path = ballot(live, tmp_path, 4)
    page.size(width)
    page.go(path)
    begin(page, "Ann")

    def asked() -> tuple[str, str, str]:
        where = page.text("#progress").partition(",")[0]
        return where, page.text("#steps [aria-current]"), page.text("#asks")

    first, second = (
        ("Accuracy", "Better in accuracy?"),
        ("Tone of voice", "Better in tone_of_voice?"),
    )
    assert asked() == ("Pair 1 of 4", *first)
    page.press("1")
    said = page.run("document.querySelector('#said').textContent")
    assert said == "Accuracy: A is better. Tone of voice: Better in tone_of_voice?"
    assert asked() == ("Pair 1 of 4", *second)
    page.press("g")
    assert page.text(".rubric[open]").startswith("Guidelines: Tone of voice")
    assert page.overflow() <= 0
    page.press("s")
    page.press("t")
    page.run("document.querySelector('#comment').value = 'unsure'")
    page.press("Enter")
    assert asked() == ("Pair 3 of 4", *first)
    page.press("z")
    assert asked() == ("Pair 2 of 4", *second)
    page.press("z")
    page.press("x")
    assert asked() == ("Pair 2 of 4", *second)
    page.go(path)
    begin(page, "Ann")
    page.click("#dots :nth-child(3)")
    page.click("#steps :nth-child(2)")
    page.click(".of-b")
    assert asked() == ("Pair 3 of 4", *first)
    page.click(".of-a")
    assert asked() == ("Pair 4 of 4", *first)
    labels = page.run("[...document.querySelectorAll('.dot')].map((e) => e.ariaLabel)")
    assert labels == ["Pair 1: 2 of 2 dimensions", "Pair 2: 1 of 2 dimensions",
                      "Pair 3: 2 of 2 dimensions", "Pair 4: open"]  # fmt: skip
    page.click("#finish")
    assert page.text("#summary") == "4 votes, 1 skipped, 3 still open."
    taken = take_ballot(live, KEY, saved(page, tmp_path))
    assert (taken.new, taken.repeats, taken.conflicts) == (5, 0, 0)
    kept = [(v.ticket.dimension, str(v.choice), v.comment) for v in live.store.votes()]
    one, two = names
    assert kept == [(one, "A", ""), (two, "SKIP", ""), (one, "BOTH_BAD", "unsure"),
                    (one, "A", ""), (two, "B", "")]  # fmt: skip
    assert not page.errors
    live.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_hostile_texts_run_nothing_and_fit(page: Browser, tmp_path: Path, width: int) -> None:
    """Hostile texts run and fetch nothing and fit the window, on ballot, page and board."""
    hostile = "\n\n".join([*HOSTILE, "[x](javascript:document.title='PWNED')", "W" * 3000,
                           "\u202egnp.exe \0 \ud800", f"| a | b |\n|---|---|\n| {'w' * 500} | x |",
                           "</script><script>document.title='PWNED'</script>"])  # fmt: skip
    texts = arena_texts()
    prompts, responses = (dict.fromkeys(each, hostile) for each in (texts.prompts, texts.responses))
    texts = replace(texts, prompts=prompts, responses=responses)
    live = live_arena(tmp_path / "votes.sqlite", texts)

    def check(shown: str) -> None:
        page.until(shown)
        assert page.overflow() <= 0

    page.size(width)
    page.go(ballot(live, tmp_path, 2))
    check("true")
    page.click("#begin")
    for shown in (PAIR, PAIR, END):
        check(shown)
        page.press("1")
    assert {url.split(":")[0] for url in page.requests} <= {"file", "about"}
    with serving(live) as address:
        page.go(f"{address}/")
        page.click("#begin")
        check(PAIR)
        page.press("2")
        page.until("document.querySelector('#progress').textContent === '1 vote so far'")
        check(PAIR)
        assert "PWNED" not in page.run("document.title")
        page.forget()
        page.go(f"{address}/board")
        page.until(TROUBLE)
        assert not leaks(json.dumps(page.bodies()))
        page.go(f"{address}/board", f"#token={BOARD_TOKEN}")
        check("document.querySelector('#state').textContent.startsWith('1 vote of 1 voter')")
        assert page.run("location.hash") == ""
        if width == 390:  # the board asks every few seconds
            vote(live, "ann")
            check("document.querySelector('#state').textContent.startsWith('2 votes of 2 voters')")
        hosts = {url.split("/")[2] for url in page.requests if url.startswith("http")}
        assert hosts == {address[7:]}
    live.close()
