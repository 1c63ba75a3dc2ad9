"""The arena of builds: pictures from ballot and live page through votes to policy and site."""

import hashlib
import runpy
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from arena_kit import publish_policy, read_plan, read_season
from arena_kit.battles.content import Conversation
from arena_kit.judging.judges.base import ServiceError
from arena_kit.site.build import build_site
from arena_kit.voting.ballot import make_ballot
from arena_kit.voting.live import LiveArena
from arena_kit.voting.texts import ArenaTexts
from tests.browser import running_browser
from tests.samples import ROOT, call
from tests.voting.arenas import KEY, live_arena, serving, vote

FILE = "params/builds.yaml"
PAIR = "!document.querySelector('#pair').hidden"
ENLARGED = "document.querySelector('.zoom[open] img').width >= document.body.clientWidth"


def builds(store: Path) -> LiveArena:
    return live_arena(store, ArenaTexts.of_tournament(Path(FILE)))


BUILDS = ROOT / "sample" / "builds"


@pytest.mark.slow  # 72 pictures and 1,500 votes; six pictures below, and the matchmaking's tests
def test_the_script_draws_the_builds(workspace: Path) -> None:
    """Pictures, responses and votes are what the script makes, byte for byte."""
    copy = workspace / "sample" / "builds"
    subprocess.run([sys.executable, copy / "make.py"], check=True, timeout=120)
    for path in (path for path in BUILDS.rglob("*.*") if path.is_file()):
        assert (copy / path.relative_to(BUILDS)).read_bytes() == path.read_bytes(), path


def test_pictures_are_the_scripts_and_nothing_but_pixels() -> None:
    """The script draws every builder's last build as it is committed; no picture has metadata."""
    made = runpy.run_path(str(BUILDS / "make.py"))
    *_, (_, scene) = made["SCENES"].values()
    for n, builder in enumerate(made["BUILDERS"].values()):
        rng = np.random.default_rng((n, len(made["SCENES"]) - 1))
        content = made["drawn"](made["built"](scene(), builder, rng))
        path = BUILDS / "images" / f"{hashlib.sha256(content).hexdigest()}.png"
        assert path.read_bytes() == content
    pictures = [*BUILDS.glob("images/*.png")]
    assert len(pictures) == 72
    for path in pictures:
        with Image.open(path) as image:
            image.load()
            assert not image.info.keys() - {"transparency"}


def test_pictures_are_voted_on_blind_on_every_page(workspace: Path, tmp_path: Path) -> None:
    """At 390 and 1280 pixels a ballot, the live page and the site show both builds side by side, or
    one above the other, and enlarge one at a click; neither page names a builder or a file.
    """
    live = builds(tmp_path / "votes.sqlite")
    for n in range(30):
        vote(live, f"voter-{n % 3}", "AB"[n % 2])
    ballot = tmp_path / "ballot.html"
    ballot.write_text(make_ballot(live, KEY, pairs=3, days=30))
    names = [*live.texts.models, *(p.name for p in Path("sample/builds/images").iterdir())]
    assert not [name for name in names if name in ballot.read_text()]
    live.close()
    export = f"votes export --store {tmp_path / 'votes.sqlite'} --texts {FILE} --out votes.jsonl"
    assert call(*export.split()).exit_code == 0
    season = read_season(battles="votes.jsonl", run_dir="runs/builds")
    record = publish_policy(season, season.report())
    pages = build_site([record.path], tmp_path / "site")
    (reader,) = (tmp_path / "site").rglob("battles.html")
    assert pages
    with (
        serving(live := builds(tmp_path / "more.sqlite")) as address,
        running_browser(tmp_path / "profile", loopback=True) as page,
    ):
        for width in (390, 1280):
            page.size(width)
            for where, shown in ((ballot, PAIR), (f"{address}/", PAIR), (reader, "true")):
                page.go(where)
                if shown == PAIR:
                    page.click("#begin")
                page.until(f"{shown} && document.querySelectorAll('.sides img').length === 2")
                page.until("[...document.images].every((each) => each.naturalWidth > 0)")
                assert page.overflow() <= 0
                page.click(".sides .zoom summary")
                page.until(ENLARGED)
                page.click(".zoom[open] summary")
            assert not page.errors
    live.close()


def test_every_response_is_a_picture() -> None:
    """Six builders and twelve prompts; the demo judge says that it cannot see them."""
    texts = ArenaTexts.of_tournament(ROOT / FILE, ROOT)
    assert (len(texts.models), len(texts.prompts), len(texts.responses)) == (6, 12, 72)
    said = texts.responses.values()
    assert all(isinstance(each, Conversation) and len(each.parts("image")) == 1 for each in said)
    with chdir(ROOT), pytest.raises(ServiceError, match="does not see images, which 180 pairs sh"):
        read_plan("headline", tournament=FILE)
