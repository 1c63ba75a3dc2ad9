"""The board of people and judge together, as it is shown."""

import re
from functools import cache

import numpy as np

from arena_kit import BattleLog, Hybrid, claims
from arena_kit.battles.battle import Source
from arena_kit.rating.with_judge.hybrid import HybridRatings
from arena_kit.reporting import hybrid, placement
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
    """Models come best first, also without votes; the notes name what the board rests on."""
    found = rated()
    rows = hybrid.hybrid_board({"": found}, {}).table().rows
    assert [row["model"] for row in rows] == list(found.ratings.order) != list(found.people.order)
    by_name = {row["model"]: row for row in rows}
    assert by_name["m03"]["rating"] == f"{found.ratings['m03'].rating:.0f}"
    assert by_name["m03"]["people alone"] == f"{found.people['m03'].rating:.0f}"
    ranges = claims.rank_ranges(found.ratings)
    assert by_name["m03"]["rank range"] == ranks_text(ranges["m03"])
    assert (by_name["new"]["people alone"], by_name["new"]["votes"]) == ("–", "0")
    html = placement.together("m04", found, "").html
    (marked,) = [row for row in re.findall(r"<tr.*?</tr>", html, re.DOTALL) if "#fdebd9" in row]
    assert ">m04<" in marked
    found = rated()
    said = "\n".join(hybrid.notes(found))
    for words in (
        f"as {round(found.effective_sample):,} votes alone", "This judge is worth about",
        "m05: its rating by votes is", "below the judge's prediction",
        "Too few votes: m07 (4);", "Results generalise to similar prompts",
        "assume the same judge error for all models",
    ):  # fmt: skip
        assert words in said
