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

from arena_kit import Battle, BattleLog, BradleyTerry, Outcome, RatingError, read_pair_counts

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
THREE_TO_ONE = [("x", "y", "model_a")] * 3 + [("x", "y", "model_b")]


def test_two_models_have_the_log_odds_between_them() -> None:
    """Three wins against one are odds of 3:1: 400 log10(3) = 190.85 apart, around the center."""
    found = ratings(log(*THREE_TO_ONE), PLAIN)
    assert found["x"] - found["y"] == pytest.approx(400 * math.log10(3), abs=1e-9)
    assert found["x"] + found["y"] == pytest.approx(2000, abs=1e-9)


def test_the_prior_adds_half_a_win_each_way() -> None:
    """With half a win added on both sides, 3:1 becomes 3.5:1.5."""
    found = ratings(log(*THREE_TO_ONE), BradleyTerry())
    assert found["x"] - found["y"] == pytest.approx(400 * math.log10(3.5 / 1.5), abs=1e-9)


def test_a_tie_is_half_a_win_for_each() -> None:
    """Two wins and two ties are three wins against one."""
    rows = [("x", "y", "model_a")] * 2 + [("x", "y", "tie")] * 2
    found = ratings(log(*rows), PLAIN)
    assert found["x"] - found["y"] == pytest.approx(400 * math.log10(3), abs=1e-9)


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
    away from their mean.
    """
    found = PLAIN(log(*(THREE_TO_ONE * 10)))
    se = UNIT * math.sqrt(1 / 30 + 1 / 10) * math.sqrt(40 / 39) / 2
    assert found["x"].extra["se"] == pytest.approx(se, rel=1e-9)
    assert found["x"].ci_high - found["x"].rating == pytest.approx(1.959964 * se, rel=1e-6)


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


def test_the_published_list(data: Path) -> None:
    """On 1.67 million votes the ratings match the LMSYS list of 2024-08-22: RMS below 0.5, no
    model more than 3 Elo off.
    """
    folder = data / "chatbot_arena_1m7_counts"
    found = ratings(read_pair_counts(folder / "pair_counts.csv.gz"), BradleyTerry(prior=0))
    with (folder / "published_lmsys_ratings.csv").open() as rows:
        listed = {
            r["model"]: float(r["rating"]) for r in csv.DictReader(rows) if r["date"] == "20240822"
        }
    shared = sorted(set(found) & set(listed))
    assert len(shared) == 129
    gap = np.array([found[m] - listed[m] for m in shared])
    gap -= gap.mean()
    assert math.sqrt((gap**2).mean()) < 0.5
    assert np.abs(gap).max() < 3


def test_models_that_never_met_are_named() -> None:
    """Two groups without a battle between them have no common scale."""
    with pytest.raises(RatingError, match="2 groups of models that never met"):
        BradleyTerry()(log(("a", "b", "model_a"), ("c", "d", "model_a")))


def test_a_model_that_never_lost_has_no_rating_without_a_prior() -> None:
    """The group at the top is named; with a prior it gets a finite rating."""
    rows = [("a", "b", "model_a"), ("b", "c", "model_a"), ("c", "b", "model_a")]
    with pytest.raises(RatingError, match=r"^a never lost to the other models"):
        PLAIN(log(*rows))
    assert ratings(log(*rows), BradleyTerry())["a"] < 2000


@pytest.mark.parametrize(
    "values", [{"scale": 0}, {"prior": -1}, {"both_bad": "half"}, {"inconsistent": "half"}]
)
def test_wrong_settings_are_refused(values: dict[str, object]) -> None:
    """A setting out of range is named with what is allowed."""
    with pytest.raises(ValueError, match=f"{next(iter(values))} must be"):
        BradleyTerry(**values)  # type: ignore[arg-type]


def naive(battles: list[tuple[int, int, float]], n: int, prior: float) -> list[float]:
    """Minorisation–maximisation straight from the definition, in Elo units, mean 0."""
    wins = [[0.0] * n for _ in range(n)]
    for a, b, score in battles:
        wins[a][b] += score
        wins[b][a] += 1 - score
    for i in range(n):
        for j in range(i):
            if wins[i][j] + wins[j][i] > 0:
                wins[i][j] += prior
                wins[j][i] += prior
    worth = [1.0] * n
    for _ in range(20_000):
        new = [
            sum(wins[i])
            / sum((wins[i][j] + wins[j][i]) / (worth[i] + worth[j]) for j in range(n) if j != i)
            for i in range(n)
        ]
        mean = math.exp(sum(math.log(w) for w in new) / n)
        new = [w / mean for w in new]
        if max(abs(a - b) for a, b in zip(new, worth, strict=True)) < 1e-14:
            break
        worth = new
    return [400 * math.log10(w) for w in worth]


tournaments = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 3), st.sampled_from(["model_a", "model_b", "tie"])),
    min_size=1,
    max_size=30,
).map(lambda rows: [("m0", "m1", "tie"), ("m1", "m2", "tie"), ("m2", "m3", "tie")] + [
    (f"m{a}", f"m{(a + step) % 4}", winner) for a, step, winner in rows
])  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(tournaments)
def test_newton_agrees_with_the_naive_fit(rows: list[tuple[str, str, str]]) -> None:
    """The fast fit gives what iterating the definition gives, to a millionth of a point."""
    score = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}
    games = [(int(a[1]), int(b[1]), score[winner]) for a, b, winner in rows]
    found = ratings(log(*rows), BradleyTerry(center=0))
    for n, expected in enumerate(naive(games, 4, 0.5)):
        assert found[f"m{n}"] == pytest.approx(expected, abs=1e-6)


@settings(max_examples=40, deadline=None)
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
