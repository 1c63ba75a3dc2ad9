"""The site in a real browser, from the file system: it works, it fits, and nothing hostile runs."""

import json
from contextlib import chdir
from pathlib import Path

import pytest

from arena_kit import DataError, open_run
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.site.build import build_site
from tests.browser import Browser
from tests.samples import HOSTILE, SMALL, Elements, plan_of
from tests.site.handmade import Handmade

READY = "document.querySelector('#text').children.length"
SWITCHABLE = "document.querySelector('#switch')?.hidden === false"
DIMENSION = "document.querySelector('section:not([hidden])[data-dimension] h2').textContent"


READ = {"file", "about", "data"}


def expect(page: Browser, n: int) -> None:
    """Wait until the reader says that so many battles are left."""
    page.until(f"document.querySelector('#count').textContent.startsWith('{n:,} of ')")


def at(page: Browser, place: int) -> None:
    """Wait until the reader shows the battle at a place."""
    page.until(f"document.querySelector('#place').textContent.startsWith('{place} of')")


def harmless(page: Browser) -> None:
    """There was no error, and no request elsewhere."""
    assert not page.errors
    assert {url.split(":")[0] for url in page.requests} <= READ


def count(page: Browser) -> int:
    """How many battles the reader says there are."""
    return int(page.text("#count").split()[0].replace(",", ""))


def test_a_run_is_read_in_a_cell(page: Browser, workspace_of_runs: Path, tmp_path: Path) -> None:
    """`browse` is the site's reader in a sandboxed frame, filtered by entrant, outcome and text; it
    asks for nothing, and `battle` shows one battle with what the judge said.
    """
    run = open_run(workspace_of_runs / "runs" / "pilot")
    every, of_aspen = run.browse(most=10**6), run.browse(entrant="aspen", outcome="decided")
    assert len(of_aspen) == sum("aspen" in (b.model_a, b.model_b) and b.winner is not None
                                for b in every.reading.battles)  # fmt: skip
    assert len(run.browse(text="no text has this")) == 0
    shown = run.browse(most=5)
    assert "5 battles of pilot" in repr(shown)
    assert f"{len(every) - 5:,} more left out" in shown._repr_html_()
    frame = Elements(every._repr_html_())
    assert ("sandbox", "allow-scripts") in frame.attributes
    file = tmp_path / "cell.html"
    file.write_text(dict(frame.attributes)["srcdoc"], encoding="utf-8")
    page.size(1280)
    page.forget()
    page.go(file)
    expect(page, len(every))
    word = next(iter(every.reading.responses.values())).split()[0]
    page.run("document.querySelector('[name=text]').value = " + json.dumps(word))
    page.run("document.querySelector('#filters').dispatchEvent(new Event('input'))")
    expect(page, len(run.browse(text=word, most=10**6)))
    page.click("#next")
    at(page, 2)
    page.click("#battles li:nth-child(1) a")
    at(page, 1)
    harmless(page)
    one = run.battle(every.reading.battles[0].id)
    file.write_text(dict(Elements(one._repr_html_()).attributes)["srcdoc"], encoding="utf-8")
    page.go(file)
    page.until(READY)
    assert "shown first" in page.text("#text")
    assert not page.run("document.querySelector('#filters').offsetHeight")
    with pytest.raises(DataError, match="no battle 'none' among"):
        run.battle("none")


def test_a_way_through_the_site(page: Browser, site: Path) -> None:
    """From the first page by clicks to a board, another dimension, a stratum of it, a model and its
    battles.
    """
    page.size(390)
    page.go(site / "index.html")
    page.click('a[href="pilot/index.html"]')
    page.until(SWITCHABLE)
    assert page.text("section:not([hidden])[data-dimension] h2") == "factuality"
    page.click("#switch label:nth-of-type(2)")
    page.until(f"{DIMENSION} === 'calibration'")
    assert page.run("location.hash") == "#dimension=calibration"
    page.click("#strata label:nth-of-type(2)")
    page.until(f"{DIMENSION} === 'calibration, open_recall'")
    assert page.run("location.hash") == "#dimension=calibration&stratum=open_recall"
    page.click("#strata label:nth-of-type(1)")
    page.until(f"{DIMENSION} === 'calibration'")
    page.click("section:not([hidden]) thead th:nth-child(2) button")
    assert page.text("#sorted") == "Sorted by model, ascending"
    assert page.overflow() <= 0
    page.click("section:not([hidden]) .of-model a")
    page.until("document.querySelector('.tables')")
    model = page.text("h1")
    assert page.overflow() <= 0
    page.click(".tables td a")
    page.until(READY)
    chosen = page.run("Object.fromEntries(new FormData(document.querySelector('#filters')))")
    assert chosen["entrant"] == model
    assert chosen["opponent"]
    assert page.text("#place").startswith("1 of ")
    page.click("#next")
    at(page, 2)
    place, address = page.text("#place"), page.run("location.href")
    assert "battle=" in address
    assert page.overflow() <= 0
    page.go(address)
    page.until(f"document.querySelector('#place').textContent === {json.dumps(place)}")
    page.click(".trail li:nth-child(2) a")
    page.until("document.title.startsWith('pilot')")
    harmless(page)


def test_the_same_way_without_a_mouse(page: Browser, site: Path) -> None:
    """Tab, Enter, Space and arrow keys lead the same way."""
    page.go(site / "index.html")
    page.tab_to('a[href="pilot/index.html"]')
    page.press("Enter")
    page.until(SWITCHABLE)
    page.tab_to("#switch input")
    page.press("ArrowRight")
    page.until(f"{DIMENSION} === 'calibration'")
    page.tab_to("section:not([hidden]) thead button")
    page.press("Space")
    assert page.text("#sorted") == "Sorted by rank, ascending"
    page.tab_to("section:not([hidden]) .of-model a")
    page.press("Enter")
    page.until("document.querySelector('.tables')")
    model = page.text("h1")
    page.tab_to('a[href^="../battles.html"]')
    page.press("Enter")
    page.until(READY)
    n = count(page)
    page.tab_to("[name=inconsistent]")
    page.press("Space")
    page.until(f"!document.querySelector('#count').textContent.startsWith('{n:,} ')")
    assert f"entrant={model}&inconsistent=" in page.run("location.hash")
    page.tab_to("#battles li:nth-child(2) a")
    page.press("Enter")
    at(page, 2)
    page.tab_to("#text details summary")
    page.press("Enter")
    page.until("document.querySelector('#text details').open")
    assert not page.errors


def test_boards_are_sorted_by_any_column(page: Browser, site: Path) -> None:
    """A click on a heading sorts by it, another one the other way round, and it is announced."""
    page.go(site / "policy" / "index.html")
    column = "[...document.querySelectorAll('.of-battles')].map((c) => Number(c.dataset.sort))"
    page.click("thead th:last-child button")
    votes = page.run(column)
    assert votes == sorted(votes)
    page.click("thead th:last-child button")
    assert page.run(column) == sorted(votes, reverse=True)
    assert page.text("#sorted") == "Sorted by battles, descending"
    page.click("thead th:first-child button")
    last = page.run("[...document.querySelectorAll('.of-rank')].pop().textContent")
    assert last == "–"  # a model without a rank is last either way


def test_the_reader_shows_what_was_said(page: Browser, site: Path, workspace_of_runs: Path) -> None:
    """A deep link shows prompt, responses, both orders and all that the judge was sent; people's
    other votes can be read.
    """
    record = workspace_of_runs / "runs" / "pilot"
    said = [json.loads(line) for line in (record / "verdicts" / "factuality.jsonl").open()]
    first, second = said[2:4]
    pair = sorted((first["first"], first["second"]))
    name = "|".join(("factuality", first["prompt_id"], *pair))
    page.go(site / "pilot" / "battles.html", f"#battle={name}")
    page.until(READY)
    shown = " ".join(page.text("#text").split())
    for entrant in pair:
        rows = (record / "inputs" / "responses" / f"responses_{entrant}.jsonl").open()
        texts = {row["prompt_id"]: row["response_text"] for row in map(json.loads, rows)}
        assert " ".join(texts[first["prompt_id"]].split())[:80] in shown
    assert first["justification"] in shown
    assert second["justification"] in shown
    page.click("details summary")
    assert page.text("details pre") == first["raw_text"]
    with chdir(workspace_of_runs):
        material = plan_of("pilot", **SMALL).material
    asked = Pair(dimension="factuality", prompt_id=first["prompt_id"], entrant_a=pair[0],
                 entrant_b=pair[1])  # fmt: skip
    sent = material.requests([asked])
    request = next(each for each in sent if each.presentation.first == first["first"])
    page.click("details.request summary")
    page.until("document.querySelector('details.request pre').textContent")
    shown = page.run("document.querySelector('details.request pre').textContent")
    assert shown == f"{request.system}\n{request.user}".replace(request.boundary, "…")
    page.go(site / "placed" / "battles.html", "#disputed=1")
    page.until(READY)
    assert 0 < count(page) < 60
    assert "People's votes (simulated, no person voted): " in page.text("#text")


def test_filters_keep_what_they_say(page: Browser, site: Path, workspace_of_runs: Path) -> None:
    """Each filter leaves as many battles as the record's own file has of the kind."""
    lines = (workspace_of_runs / "runs" / "pilot" / "battles.jsonl").open()
    rows = [json.loads(line) for line in lines]
    aspen = [row for row in rows if "aspen" in (row["model_a"], row["model_b"])]
    won = [r for r in aspen if not r["inconsistent"] and r.get(r["winner"]) == "aspen"]
    page.go(site / "pilot" / "battles.html")
    page.until(READY)
    expect(page, len(rows))
    page.choose("entrant", "aspen")
    expect(page, len(aspen))
    page.choose("outcome", "won")
    expect(page, len(won))
    assert "entrant=aspen&outcome=won" in page.run("location.hash")
    page.click("#filters button")
    expect(page, len(rows))
    page.click("[name=inconsistent]")
    expect(page, sum(row["inconsistent"] for row in rows))
    page.choose("prompt", "no such prompt")
    expect(page, 0)
    assert page.text("#place") == "No battle"


def test_a_battle_comes_into_view(page: Browser, site: Path) -> None:
    """On a phone a step brings the battle into view; arrow keys step, but not in a field."""
    page.size(390, 700)
    page.go(site / "pilot" / "battles.html")
    page.until(READY)
    top = "document.querySelector('#battle').getBoundingClientRect().top"
    page.click("#battles li:nth-child(2) a")
    page.until(f"Math.abs({top}) < 20")
    page.run("window.scrollBy(0, 900)")
    page.press("ArrowRight")
    at(page, 3)
    page.until(f"Math.abs({top}) < 20")
    page.run("history.back()")
    at(page, 2)
    page.press("ArrowLeft")
    at(page, 1)
    page.run("document.querySelector('[name=prompt]').focus()")
    page.press("ArrowRight")
    assert page.text("#place").startswith("1 of")


PAGES = (
    "index.html", "pilot/index.html", "placed/index.html", "policy/index.html",
    "pilot/models/aspen.html", "policy/models/model-17.html",
    "pilot/battles.html", "placed/battles.html", "hashes/battles.html",
)  # fmt: skip


def test_pages_fit_and_have_names_for_screen_readers(page: Browser, site: Path) -> None:
    """Every page has one main part, one first heading, and a name for every field and button."""
    for name in PAGES:
        page.go(site / name)
        if name.endswith("battles.html"):
            page.until(READY)
        for width in (390, 1280):
            page.size(width)
            assert page.overflow() <= 0, (name, width)
        assert page.run("document.querySelectorAll('main').length") == 1
        assert page.run("document.querySelectorAll('h1').length") == 1
        for node in page.send("Accessibility.getFullAXTree")["nodes"]:
            role = node.get("role", {}).get("value")
            if role in ("button", "combobox", "searchbox", "checkbox", "radio", "link", "table"):
                assert node["name"]["value"].strip(), (name, node)


HOSTILE_ANSWER = "\n\n".join(
    [
        *HOSTILE, "[x](javascript:document.title='PWNED')", "![x](http://127.0.0.1:9/beacon.png)",
        "<http://127.0.0.1:9/>", "\u202egnp.exe \u2066 \0 \ud800", "W" * 3000,
    ]
)  # fmt: skip


def test_hostile_texts_run_nothing(page: Browser, tmp_path: Path) -> None:
    """Script, handlers, links and controls in every field of a record run nothing."""
    anything = "".join(HOSTILE) + "\u202e\0" + "</script>" + "W" * 300
    names = [text for text in HOSTILE if len(text) < 257]
    record = Handmade(
        models={f"m{n}": name for n, name in enumerate(names)},
        prompts={"q0": HOSTILE_ANSWER, "q1": HOSTILE_ANSWER},
        questions={"q0": HOSTILE[0], "q1": "W" * 200}, response=HOSTILE_ANSWER, said=HOSTILE_ANSWER,
        anything=anything, dimension=HOSTILE[1], report="".join(HOSTILE),
    ).write(tmp_path / "runs" / "<img src=x onerror=alert(1)>")  # fmt: skip
    out = build_site([record], tmp_path / "out").index.parent
    pages = sorted(out.rglob("*.html"))
    assert len(pages) == 4 + len(names)
    page.size(390)
    for path in pages:
        page.go(path)
        if path.name == "battles.html":
            page.until(READY)
            for _ in range(len(names)):
                page.press("ArrowRight")
        assert_harmless(page, path)
    harmless(page)


def assert_harmless(page: Browser, path: Path) -> None:
    """Nothing of a page's texts runs, hides it, is an element that acts, or makes it wider."""
    assert not page.run("document.title").startswith("PWNED"), path
    assert page.run("getComputedStyle(document.body).display") == "block", path
    assert page.overflow() <= 0, path
    active = "script:not([src]), iframe, img[src], body style, form[action], a[href^=j]"
    active += ", [onerror], [onload]"
    assert page.run(f"document.querySelectorAll({json.dumps(active)}).length") == 0, path


def test_what_is_injected_is_stopped(page: Browser, site: Path) -> None:
    """An element that is injected in spite of all is stopped by the page's policy."""
    page.go(site / "pilot" / "battles.html")
    page.until(READY)
    page.forget()
    page.run("document.body.append(Object.assign(document.createElement('script'),"
             "{textContent: 'document.title = 1'}))")  # fmt: skip
    page.run("document.body.append(Object.assign(document.createElement('script'),"
             "{src: 'data/texts-0.js'}))")  # fmt: skip
    for text in (each for each in HOSTILE if "refresh" not in each):
        page.run(f"document.body.insertAdjacentHTML('beforeend', {json.dumps(text)})")
    page.run("new Promise((done) => setTimeout(done, 300))")
    assert page.run("document.title").startswith("Battles of pilot")
    assert not page.requests
    assert len(page.errors) > 5


def test_ten_thousand_battles_load_at_once(page: Browser, tmp_path: Path) -> None:
    """A reader of 10,000 battles shows the first of them within two seconds."""
    record = Handmade(
        models={f"m{n:02}": f"model {n:02}" for n in range(8)},
        prompts={f"q{n:03}": f"Question {n}?" for n in range(358)},
    ).write(tmp_path / "runs" / "large")
    page.go(build_site([record], tmp_path / "out").index.parent / "large" / "battles.html")
    page.until(READY)
    assert count(page) == 358 * 28 > 10_000
    assert page.run("performance.getEntriesByName('arena-kit-ready')[0].startTime") < 2000
