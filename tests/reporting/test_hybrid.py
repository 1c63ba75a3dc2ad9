"""The board of people and judge together, as it is shown."""

from __future__ import annotations

import re
from functools import cache
from html import unescape

import numpy as np

from arena_kit import BattleLog, Hybrid, Source, claims
from arena_kit.rating.with_judge.hybrid import HybridRatings
from arena_kit.reporting import hybrid
from arena_kit.reporting.tables import ranks_text
from tests.samples import shared_log

NAMES = ("<b>bold</b>", *(f"m{i:02d}" for i in range(1, 11)), "new")


@cache
def rated() -> HybridRatings:
    """Twelve models: the judge puts m05 too high, `new` has no votes, and m07 has four."""
    rng = np.random.default_rng(3)
    skill = np.linspace(-200, 200, 12)
    theirs = skill + 500 * (np.arange(12) == 5)
    a = rng.integers(0, 12, 6000)
    b = (a + rng.integers(1, 12, 6000)) % 12

    def log(strength: np.ndarray, source: Source) -> BattleLog:
        chance = 1 / (1 + 10 ** ((strength[b] - strength[a]) / 400))
        return shared_log(a, b, (rng.random(6000) > chance).astype(int), NAMES, source)

    keep = (a != 11) & (b != 11)
    few = np.flatnonzero(keep & ((a == 7) | (b == 7)))[4:]
    keep[few] = False
    keep[4000:] = False
    return Hybrid()(log(skill, Source.HUMAN).select(keep), log(theirs, Source.LLM_JUDGE))


def test_every_model_has_a_row() -> None:
    """Models come best first with their rating, also those that people did not rate, which have a
    dash there; the one that stands out is marked.
    """
    found = rated()
    rows = hybrid.board(found).rows
    assert [row["model"] for row in rows] == list(found.ratings.order)
    by_name = {row["model"]: row for row in rows}
    assert by_name["m03"]["together"] == f"{found.ratings['m03'].rating:.0f}"
    alone = found.people["m03"]
    half = (alone.ci_high - alone.ci_low) / 2
    assert by_name["m03"]["people alone"] == f"{alone.rating:.0f} ± {half:.0f}"
    ranges = claims.rank_ranges(found.ratings, repeated=True)
    assert by_name["m03"]["possible ranks"] == ranks_text(ranges["m03"])
    assert by_name["new"]["people alone"] == "–"
    assert by_name["new"]["votes"] == "0"
    assert [m for m in by_name if by_name[m]["people and judge"]] == ["m05"]


def test_sentences_say_what_it_rests_on() -> None:
    """The notes name the effective sample, the judge's worth, who stands out and which way, and
    the model whose votes are too few.
    """
    found = rated()
    said = "\n".join(hybrid.notes(found))
    for words in (
        f"as much as {round(found.effective_sample):,} votes alone", "This judge is worth about",
        "m05: people put it", "below what the judge lets expect",
        "Too few votes to count: m07 (4);", "Claims are about prompts like these",
        "possible ranks, which hold for all models at once",
    ):  # fmt: skip
        assert words in said


def test_names_are_text_and_the_placed_model_is_marked() -> None:
    """A model's name is text, never markup; every cell of the placed model's row is highlighted,
    those that stay on one line included.
    """
    page = hybrid.board(rated(), model="m04").html
    assert "<b>bold</b>" not in page
    assert "<b>bold</b>" in unescape(page)
    (marked,) = [row for row in re.findall(r"<tr.*?</tr>", page, re.DOTALL) if "#fdebd9" in row]
    assert ">m04<" in marked
    for cell in re.findall(r"<td[^>]*>", marked):
        assert "#fdebd9" in cell
        assert "nowrap" not in cell or re.search(r"nowrap;.*background-color", cell), cell
