"""Bradley–Terry: closed forms, a published list, a naive twin, and what has no answer."""

import csv
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit import BattleLog, BradleyTerry, RatingError, read_battles
from arena_kit.battles.log import Labels
from arena_kit.rating.base import strong_groups
from tests.samples import log_of


def log(*rows: tuple[str, str, str], questions: bool = True) -> BattleLog:
    """Battles (model_a, model_b, winner), each on a question of its own, or on none."""
    return log_of(rows) if questions else replace(log_of(rows), question_id=None)


def ratings(battles: BattleLog, method: BradleyTerry) -> dict[str, float]:
    return {rating.model: rating.rating for rating in method(battles).ratings}


PLAIN = BradleyTerry(prior=0)
ALWAYS = BradleyTerry(prior_when="always")
THREE_TO_ONE = [("x", "y", "model_a")] * 3 + [("x", "y", "model_b")]


@pytest.mark.parametrize("questions", [True, False])
def test_a_model_that_never_lost_needs_the_prior(questions: bool) -> None:
    """Four wins of four have no finite odds, so by default they are 4.5:0.5, as with `always`."""
    four = [("x", "y", "model_a")] * 4
    for method, more, odds in (
        (BradleyTerry(), [], 4.5 / 0.5), (ALWAYS, [], 4.5 / 0.5),
        (BradleyTerry(prior=2), [], 6 / 2), (BradleyTerry(), ["tie"], 4.5 / 0.5),
        (PLAIN, ["tie"], 4.5 / 0.5), (ALWAYS, ["tie"], 5 / 1),
        (BradleyTerry(), ["both_bad"], 4.5 / 0.5), (BradleyTerry(), ["model_b"], 4),
    ):  # fmt: skip
        rows = four + [("x", "y", winner) for winner in more]
        found = ratings(log(*rows, questions=questions), method)
        assert found["x"] - found["y"] == pytest.approx(400 * math.log10(odds), abs=1e-9)


def test_models_in_a_chain_have_the_odds_of_their_pairs() -> None:
    """Every pair of a chain has its own odds; without a prior who never lost is named."""
    chain = [*THREE_TO_ONE, ("y", "z", "model_a"), ("y", "z", "model_a")]
    for more, y_to_z in (([], 5), ([("z", "y", "model_a")], 2), ([("z", "y", "tie")], 5)):
        found = ratings(log(*chain, *more), BradleyTerry())
        assert found["x"] - found["y"] == pytest.approx(400 * math.log10(3), abs=1e-8)
        assert found["y"] - found["z"] == pytest.approx(400 * math.log10(y_to_z), abs=1e-8)
    rows = [("a", "b", "model_a"), ("b", "c", "model_a"), ("c", "b", "model_a")]
    with pytest.raises(RatingError, match=r"^a never lost to the other models"):
        PLAIN(log(*rows))
    found = ratings(log(*rows), BradleyTerry())
    assert found["a"] - found["b"] == pytest.approx(400 * math.log10(3), abs=1e-8)
    assert found["b"] == pytest.approx(found["c"], abs=1e-8)


def test_both_bad_is_a_tie_or_left_out() -> None:
    """Both-bad is a tie or left out; a question told four times over is one evidence."""
    rows = [*THREE_TO_ONE, ("x", "y", "both_bad")]
    as_tie = ratings(log(*rows), PLAIN)
    assert as_tie["x"] - as_tie["y"] == pytest.approx(400 * math.log10(3.5 / 1.5), abs=1e-9)
    left_out = replace(PLAIN, both_bad="exclude")(log(*rows))
    assert left_out.dropped["both_bad"] == 1
    assert left_out["x"].rating - left_out["y"].rating == pytest.approx(400 * math.log10(3))
    rows = THREE_TO_ONE * 10
    found = BradleyTerry(prior=0, baseline="y", center=1100.0)(log(*rows))
    assert found["y"].rating == pytest.approx(1100)
    assert found["y"].extra["se"] == pytest.approx(0, abs=1e-9)
    assert found["x"].rating == pytest.approx(1100 + 400 * math.log10(3))
    with pytest.raises(RatingError, match="baseline 'z' has no battle; models: x, y"):
        BradleyTerry(baseline="z")(log(*rows))
    once, copies = log(*THREE_TO_ONE * 10), np.repeat(np.arange(40), 4)
    told = once.select(copies)
    more = replace(told, question_id=Labels.of(f"q{n}" for n in range(160)))
    one, same, apart = (PLAIN(each)["x"] for each in (once, told, more))
    assert same.rating == pytest.approx(one.rating, abs=1e-9)
    assert same.extra["se"] == pytest.approx(one.extra["se"], rel=1e-9)
    assert apart.extra["se"] == pytest.approx(one.extra["se"] / 2, rel=0.02)


outcomes = st.sampled_from(["model_a", "model_b", "tie"])
games = st.tuples(st.integers(0, 3), st.integers(1, 3), outcomes)
CONNECTED = [("m0", "m1", "tie"), ("m1", "m2", "tie"), ("m2", "m3", "tie")]
tournaments = st.lists(games, min_size=1, max_size=30).map(
    lambda rows: CONNECTED + [(f"m{a}", f"m{(a + k) % 4}", winner) for a, k, winner in rows]
)


edges = st.integers(1, 7).flatmap(
    lambda n: st.tuples(
        st.just(n), st.lists(st.tuples(*[st.integers(0, n - 1)] * 2), max_size=3 * n)
    )
)


@settings(max_examples=40, deadline=None)
@given(edges)
def test_strongly_connected_is_a_full_closure(graph: tuple[int, list[tuple[int, int]]]) -> None:
    """Two models are of one group exactly where the closure of wins leads both ways."""
    n, took = graph
    winner, loser = np.array(took, np.intp).reshape(-1, 2).T
    steps = np.eye(n)
    steps[winner, loser] = 1
    above = np.linalg.matrix_power(steps, n) > 0  # directly or through others
    group = strong_groups(n, winner, loser)
    np.testing.assert_array_equal(group[:, None] == group, above & above.T)


@settings(max_examples=20, deadline=None)
@given(tournaments, st.randoms())
def test_order_sides_names_do_not_matter(rows: list[tuple[str, str, str]], luck: object) -> None:
    """Shuffling battles, swapping their sides and renaming models changes ratings in name only."""
    other = {"model_a": "model_b", "model_b": "model_a", "tie": "tie"}
    turned = [(b.replace("m", "z"), a.replace("m", "z"), other[w]) for a, b, w in rows]
    luck.shuffle(turned)  # type: ignore[attr-defined]
    before, after = ratings(log(*rows), BradleyTerry()), ratings(log(*turned), BradleyTerry())
    for model, rating in before.items():
        assert after[model.replace("m", "z")] == pytest.approx(rating, abs=1e-8)


@pytest.mark.parametrize("voter", ["human", "gpt-3.5-turbo"])
def test_four_voters_on_27_thousand_battles(data: Path, voter: str) -> None:
    """Ratings by people and three judges are those of an independent fit, to four digits."""
    folder = data / "chatbot_arena_27k"
    battles = read_battles(folder / "battles.csv.gz", winner=voter)
    with (folder / "reference_bt.csv").open() as rows:
        expected = {r["model"]: float(r[voter]) for r in csv.DictReader(rows)}
    found = ratings(battles, BradleyTerry(prior=0, center=0))
    assert found.keys() == expected.keys()
    for model, rating in expected.items():
        assert found[model] == pytest.approx(rating, abs=1e-3)
