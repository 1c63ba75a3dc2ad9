"""Bradley–Terry: closed forms, a published list, a naive twin, and what has no answer."""

from __future__ import annotations

import csv
import gzip
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit import Battle, BattleLog, BradleyTerry, Outcome, RatingError
from arena_kit.rating.base import strong_groups, strongly_connected
from tests import naive
from tests.samples import sparse

UNIT = 400 / math.log(10)


def log(*rows: tuple[str, str, str], questions: bool = True, weight: float = 1.0) -> BattleLog:
    """Battles (model_a, model_b, winner), each on a question of its own."""
    return BattleLog.from_battles(
        Battle(
            battle_id=f"b{n}",
            model_a=a,
            model_b=b,
            winner=Outcome(winner),
            question_id=f"q{n}" if questions else None,
            weight=weight,
        )
        for n, (a, b, winner) in enumerate(rows)
    )


def ratings(battles: BattleLog, method: BradleyTerry) -> dict[str, float]:
    return {rating.model: rating.rating for rating in method(battles).ratings}


PLAIN = BradleyTerry(prior=0)
ALWAYS = BradleyTerry(prior_when="always")
THREE_TO_ONE = [("x", "y", "model_a")] * 3 + [("x", "y", "model_b")]


@pytest.mark.parametrize(("method", "odds"), [(BradleyTerry(), 3), (ALWAYS, 3.5 / 1.5)])
def test_the_prior_adds_half_a_win_each_way(method: BradleyTerry, odds: float) -> None:
    """With half a win added on both sides, 3:1 becomes 3.5:1.5; where both sides won, that is
    done only when told to.
    """
    found = ratings(log(*THREE_TO_ONE), method)
    assert found["x"] - found["y"] == pytest.approx(400 * math.log10(odds), abs=1e-9)


@pytest.mark.parametrize("questions", [True, False])
def test_a_model_that_never_lost_needs_the_prior(questions: bool) -> None:
    """Four wins of four have no finite odds, so by default they are 4.5:0.5, as with `always`; a
    tie among them is half a win for the other side, so 4 wins and a tie are 4.5:0.5 without help.
    """
    four = [("x", "y", "model_a")] * 4
    for method, more, odds in (
        (BradleyTerry(), [], 4.5 / 0.5),
        (ALWAYS, [], 4.5 / 0.5),
        (BradleyTerry(prior=2), [], 6 / 2),
        (BradleyTerry(), ["tie"], 4.5 / 0.5),
        (PLAIN, ["tie"], 4.5 / 0.5),
        (ALWAYS, ["tie"], 5 / 1),
        (BradleyTerry(), ["both_bad"], 4.5 / 0.5),
        (BradleyTerry(), ["model_b"], 4),
    ):
        rows = four + [("x", "y", winner) for winner in more]
        found = ratings(log(*rows, questions=questions), method)
        assert found["x"] - found["y"] == pytest.approx(400 * math.log10(odds), abs=1e-9)


#: x beat y 3:1, z never won.
CHAIN = [*THREE_TO_ONE, ("y", "z", "model_a"), ("y", "z", "model_a")]


@pytest.mark.parametrize(
    ("more", "x_to_y", "y_to_z"),
    [
        ([], 3, 2.5 / 0.5),
        ([("z", "y", "model_a")], 3, 2),
        ([("z", "y", "tie")], 3, 2.5 / 0.5),
    ],
)
def test_models_in_a_chain_have_the_odds_of_their_pairs(
    more: list[tuple[str, str, str]], x_to_y: float, y_to_z: float
) -> None:
    """In a chain every pair that met has its own odds. While z never won, its pair has half a win
    each way and no other pair has; its first win, or a tie, takes them out again.
    """
    found = ratings(log(*CHAIN, *more), BradleyTerry())
    assert found["x"] - found["y"] == pytest.approx(400 * math.log10(x_to_y), abs=1e-8)
    assert found["y"] - found["z"] == pytest.approx(400 * math.log10(y_to_z), abs=1e-8)


def test_a_ring_of_wins_needs_no_prior() -> None:
    """No pair went both ways, but each model beat the next one round, x twice: that is rated
    without half wins. With odds r of x to y, z is half way between them by symmetry, and x's
    two wins are 2 r/(1+r) + sqrt(r)/(1+sqrt(r)), or r = q² with 2 q²/(1+q²) + q/(1+q) = 2.
    """
    ring = ["xy", "yz", "zx", "xy"]
    found = ratings(log(*[(a, b, "model_a") for a, b in ring]), BradleyTerry(center=0))
    low, high = 1.0, 10.0
    while high - low > 1e-14 * high:
        q = (low + high) / 2
        low, high = (q, high) if 2 * q**2 / (1 + q**2) + q / (1 + q) < 2 else (low, q)
    expected = {"x": 400 * math.log10(low), "y": -400 * math.log10(low), "z": 0.0}
    assert found == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("shape", ["rating", "strengths"])
def test_strengths_alone_have_the_prior_of_the_rating(shape: str) -> None:
    """The quick way to strengths adds half wins exactly where the rating does."""
    for rows, method, odds in (
        (THREE_TO_ONE, BradleyTerry(), 3),
        (THREE_TO_ONE, ALWAYS, 3.5 / 1.5),
        (THREE_TO_ONE[:3], BradleyTerry(), 3.5 / 0.5),
    ):
        battles = log(*rows)
        if shape == "rating":
            found = ratings(battles, method)
            gap = (found["x"] - found["y"]) / UNIT
        else:
            strength = method.strengths(battles)
            gap = float(strength[0] - strength[1])
        assert gap == pytest.approx(math.log(odds), abs=1e-9)


def against_the_truth(method: BradleyTerry) -> tuple[float, float]:
    """The slope of ratings against the truth, and how often their intervals hold it."""
    slopes, held = [], []
    for seed in range(4):
        rows, truth = sparse(seed)
        found = method(BattleLog.from_battles(rows))
        rated = [found[f"m{i:02}"] for i in range(40)]
        x = np.array(truth) - 1000
        slopes.append(x @ [r.rating - 1000 for r in rated] / (x @ x))
        held += [r.ci_low < t < r.ci_high for r, t in zip(rated, truth, strict=True)]
    return float(np.mean(slopes)), float(np.mean(held))


def test_half_wins_everywhere_draw_models_together() -> None:
    """Where pairs have four battles, the default has the slope of the truth to a tenth and
    intervals that hold it about as often as they say; half wins on every pair take a third of
    every gap away, and leave intervals that hold the truth in about 60 %.
    """
    slope, held = against_the_truth(BradleyTerry())
    assert slope == pytest.approx(1, abs=0.1)
    assert held > 0.88
    slope, held = against_the_truth(ALWAYS)
    assert slope == pytest.approx(2 / 3, abs=0.1)
    assert held < 0.75


def test_two_groups_have_half_wins_between_them_only() -> None:
    """Within u and v, and within x and y, both sides won; v beat x twice and never lost to it: only
    that pair is 2.5:0.5, the others have their own odds.
    """
    rows = [("u", "v", "model_a")] * 3 + [("v", "u", "model_a")] * 2
    rows += [("x", "y", "model_a")] + [("y", "x", "model_a")] * 4 + [("v", "x", "model_a")] * 2
    found = ratings(log(*rows), BradleyTerry())
    for one, other, odds in (("u", "v", 3 / 2), ("y", "x", 4), ("v", "x", 2.5 / 0.5)):
        assert found[one] - found[other] == pytest.approx(400 * math.log10(odds), abs=1e-8)


def test_a_newcomer_leaves_the_others_where_they_were() -> None:
    """A newcomer that met one model once, and won, has odds of 1.5:0.5 against it. It is a leaf:
    whatever its odds are, they say nothing about the gaps between the others.
    """
    rows, _ = sparse(2)
    before = ratings(BattleLog.from_battles(rows), BradleyTerry())
    newcomer = Battle(model_a="new", model_b="m00", winner=Outcome("model_a"))
    after = ratings(BattleLog.from_battles([*rows, newcomer]), BradleyTerry())
    assert after["new"] - after["m00"] == pytest.approx(400 * math.log10(3), abs=1e-6)
    for model, rating in before.items():
        assert after[model] - after["m00"] == pytest.approx(rating - before["m00"], abs=1e-6)


def test_both_bad_is_a_tie_or_left_out() -> None:
    """A both-bad vote draws two models together, or counts for nothing and is counted."""
    rows = [*THREE_TO_ONE, ("x", "y", "both_bad")]
    as_tie = ratings(log(*rows), PLAIN)
    assert as_tie["x"] - as_tie["y"] == pytest.approx(400 * math.log10(3.5 / 1.5), abs=1e-9)
    left_out = replace(PLAIN, both_bad="exclude")(log(*rows))
    assert left_out.dropped["both_bad"] == 1
    assert left_out["x"].rating - left_out["y"].rating == pytest.approx(400 * math.log10(3))


def test_a_baseline_is_pinned() -> None:
    """The baseline model has the center as its rating, and no uncertainty of its own."""
    rows = THREE_TO_ONE * 10
    found = BradleyTerry(prior=0, baseline="y", center=1100.0)(log(*rows))
    assert found["y"].rating == pytest.approx(1100)
    assert found["y"].extra["se"] == pytest.approx(0, abs=1e-9)
    assert found["x"].rating == pytest.approx(1100 + 400 * math.log10(3))
    with pytest.raises(RatingError, match="baseline 'z' has no battle; models: x, y"):
        BradleyTerry(baseline="z")(log(*rows))


def test_the_interval_of_two_models_by_hand() -> None:
    """With 30 wins and 10 losses on 40 questions the log-odds have a standard error of
    sqrt(1/30 + 1/10), times sqrt(40/39) for the number of questions; each model is half of it
    away from their mean. The interval takes Student's t with 39 degrees of freedom, 2.0227.
    """
    found = PLAIN(log(*(THREE_TO_ONE * 10)))
    se = UNIT * math.sqrt(1 / 30 + 1 / 10) * math.sqrt(40 / 39) / 2
    assert found["x"].extra["se"] == pytest.approx(se, rel=1e-9)
    assert found["x"].ci_high - found["x"].rating == pytest.approx(2.022691 * se, rel=1e-6)


def test_battles_on_one_question_are_one_piece_of_evidence() -> None:
    """Every battle told four times over on its question changes neither rating nor interval;
    told on four questions, it halves the interval.
    """
    rows = THREE_TO_ONE * 10
    once = BattleLog.from_battles(_on_questions(rows, copies=1, same=True))
    told = BattleLog.from_battles(_on_questions(rows, copies=4, same=True))
    more = BattleLog.from_battles(_on_questions(rows, copies=4, same=False))
    one, same, apart = (PLAIN(each)["x"] for each in (once, told, more))
    assert same.rating == pytest.approx(one.rating, abs=1e-9)
    assert same.extra["se"] == pytest.approx(one.extra["se"], rel=1e-9)
    assert apart.extra["se"] == pytest.approx(one.extra["se"] / 2, rel=0.02)


def _on_questions(rows: list[tuple[str, str, str]], copies: int, *, same: bool) -> list[Battle]:
    return [
        Battle(
            battle_id=f"b{n}.{c}",
            model_a=a,
            model_b=b,
            winner=Outcome(winner),
            question_id=f"q{n}" if same else f"q{n}.{c}",
        )
        for n, (a, b, winner) in enumerate(rows)
        for c in range(copies)
    ]


def test_counts_and_votes_agree() -> None:
    """A table of counts gives the ratings and intervals of the votes it counts."""
    rows = THREE_TO_ONE * 10
    votes = PLAIN(log(*rows, questions=False))
    counts = PLAIN(BattleLog.from_counts(["x"], ["y"], [30.0], [10.0], [0.0], [0.0]))
    assert counts["x"].rating == pytest.approx(votes["x"].rating, abs=1e-9)
    assert counts["x"].extra["se"] == pytest.approx(votes["x"].extra["se"], rel=1e-9)
    assert counts["x"].n_battles == votes["x"].n_battles == 40


def test_models_that_never_met_are_named() -> None:
    """Two groups without a battle between them have no common scale."""
    with pytest.raises(RatingError, match="2 groups of models that never met"):
        BradleyTerry()(log(("a", "b", "model_a"), ("c", "d", "model_a")))


def test_a_model_that_never_lost_has_no_rating_without_a_prior() -> None:
    """The group at the top is named; with a prior it gets a finite rating, that of the pair's odds
    of 1.5:0.5.
    """
    rows = [("a", "b", "model_a"), ("b", "c", "model_a"), ("c", "b", "model_a")]
    with pytest.raises(RatingError, match=r"^a never lost to the other models"):
        PLAIN(log(*rows))
    found = ratings(log(*rows), BradleyTerry())
    assert found["a"] - found["b"] == pytest.approx(400 * math.log10(3), abs=1e-8)
    assert found["b"] == pytest.approx(found["c"], abs=1e-8)


@pytest.mark.parametrize(
    "values",
    [
        {"scale": 0},
        {"prior": -1},
        {"prior_when": "never"},
        {"both_bad": "half"},
        {"inconsistent": "half"},
    ],
)
def test_wrong_settings_are_refused(values: dict[str, object]) -> None:
    """A setting out of range is named with what is allowed."""
    with pytest.raises(ValueError, match=f"{next(iter(values))} must be"):
        BradleyTerry(**values)  # type: ignore[arg-type]


tournaments = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 3), st.sampled_from(["model_a", "model_b", "tie"])),
    min_size=1,
    max_size=30,
).map(lambda rows: [("m0", "m1", "tie"), ("m1", "m2", "tie"), ("m2", "m3", "tie")] + [
    (f"m{a}", f"m{(a + step) % 4}", winner) for a, step, winner in rows
])  # fmt: skip


SCORE = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}


def games_of(rows: list[tuple[str, str, str]]) -> list[tuple[int, int, float]]:
    return [(int(a[1]), int(b[1]), SCORE[winner]) for a, b, winner in rows]


@pytest.mark.parametrize(("when", "prior"), [("needed", 0.0), ("always", 0.5)])
@settings(max_examples=20, deadline=None)
@given(rows=tournaments)
def test_newton_agrees_with_the_naive_fit(
    when: str, prior: float, rows: list[tuple[str, str, str]]
) -> None:
    """The fast fit gives what iterating the definition gives, to a millionth of a point: by default
    without a prior, for ties connect these models both ways, and with half wins when told to.
    """
    found = ratings(log(*rows), BradleyTerry(center=0, prior_when=when))  # type: ignore[arg-type]
    for n, expected in enumerate(naive.bradley_terry(games_of(rows), 4, prior)):
        assert found[f"m{n}"] == pytest.approx(expected, abs=1e-6)


def closure(n: int, took: list[tuple[int, int]]) -> list[list[bool]]:
    """Who is above whom directly or through others (Warshall), everybody above itself."""
    above = [[i == j or (i, j) in took for j in range(n)] for i in range(n)]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                above[i][j] = above[i][j] or (above[i][k] and above[k][j])
    return above


edges = st.integers(1, 7).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=3 * n),
    )
)


@settings(max_examples=100, deadline=None)
@given(edges)
def test_strongly_connected_is_a_full_closure(graph: tuple[int, list[tuple[int, int]]]) -> None:
    """Every model beat every other, directly or through others, exactly where the closure of the
    wins, by brute force, has no gap; two models are of one group where it leads both ways.
    """
    n, took = graph
    winner, loser = np.array(took, np.intp).reshape(-1, 2).T
    above = closure(n, took)
    assert strongly_connected(n, winner, loser) == all(map(all, above))
    group = strong_groups(n, winner, loser)
    for i in range(n):
        for j in range(n):
            assert (group[i] == group[j]) == (above[i][j] and above[j][i])


open_tournaments = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 3), st.sampled_from(sorted(SCORE))),
    max_size=12,
).map(lambda rows: [("m0", "m1", "model_a"), ("m1", "m2", "model_a"), ("m2", "m3", "model_a")] + [
    (f"m{a}", f"m{(a + step) % 4}", winner) for a, step, winner in rows
])  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(open_tournaments)
def test_half_wins_are_there_exactly_where_they_are_needed(
    rows: list[tuple[str, str, str]],
) -> None:
    """By default a pair that met has half a win each way, which is one tie more, exactly where wins
    and ties do not lead from each of the two to the other.
    """
    games = games_of(rows)
    took = [(a, b) for a, b, s in games if s > 0] + [(b, a) for a, b, s in games if s < 1]
    above = closure(4, took)
    met = {tuple(sorted((a, b))) for a, b, _ in games}
    more = [(a, b, 0.5) for a, b in met if not (above[a][b] and above[b][a])]
    found = ratings(log(*rows), BradleyTerry(center=0))
    for n, expected in enumerate(naive.bradley_terry(games + more, 4, 0)):
        assert found[f"m{n}"] == pytest.approx(expected, abs=1e-6)


@settings(max_examples=20, deadline=None)
@given(tournaments, st.randoms())
def test_order_sides_and_names_do_not_matter(
    rows: list[tuple[str, str, str]], luck: object
) -> None:
    """Shuffling battles, swapping their sides and renaming models changes ratings in name only."""
    other = {"model_a": "model_b", "model_b": "model_a", "tie": "tie"}
    turned = [(b.replace("m", "z"), a.replace("m", "z"), other[w]) for a, b, w in rows]
    luck.shuffle(turned)  # type: ignore[attr-defined]
    before, after = ratings(log(*rows), BradleyTerry()), ratings(log(*turned), BradleyTerry())
    for model, rating in before.items():
        assert after[model.replace("m", "z")] == pytest.approx(rating, abs=1e-8)


@pytest.mark.parametrize(
    "voter", ["human", "gpt-4-0125-preview", "gpt-3.5-turbo", "claude-3-opus-20240229"]
)
def test_four_voters_on_27_thousand_battles(data: Path, voter: str) -> None:
    """The ratings by people and by three judges are those of an independent fit of the same
    battles, to its four digits.
    """
    folder = data / "chatbot_arena_27k"
    names = {"a": "model_a", "b": "model_b", "tie": "tie", "tie_bothbad": "both_bad"}
    with gzip.open(folder / "battles.csv.gz", "rt") as rows:
        battles = [(r["model_a"], r["model_b"], names[r[voter]]) for r in csv.DictReader(rows)]
    with (folder / "reference_bt.csv").open() as rows:
        expected = {r["model"]: float(r[voter]) for r in csv.DictReader(rows)}
    found = ratings(log(*battles), BradleyTerry(prior=0, center=0))
    assert found.keys() == expected.keys()
    for model, rating in expected.items():
        assert found[model] == pytest.approx(rating, abs=1e-3)
