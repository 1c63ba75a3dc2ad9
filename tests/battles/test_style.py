"""Style control: what is counted of a text, and ratings that hold at equal length."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from arena_kit import (
    Battle,
    BattleLog,
    BradleyTerry,
    DataError,
    RatingError,
    battles_from_frame,
    read_battles,
    write_battles,
)
from arena_kit.battles.style import FEATURES, style_differences, style_of
from tests.naive import Naive, centred

UNIT = 400 / math.log(10)
NAMES = ("m0", "m1", "m2", "m3")
BY_LENGTH = BradleyTerry(covariates=("length",))


def battles(
    a: NDArray[np.intp], b: NDArray[np.intp], first: NDArray[np.bool_], **more: NDArray[np.float64]
) -> BattleLog:
    """Votes of models by number, won by the first side or not, with covariates."""
    rows = zip(a, b, first, strict=True)
    log = BattleLog.from_battles(
        Battle(
            model_a=NAMES[i],
            model_b=NAMES[j],
            winner="model_a" if won else "model_b",  # type: ignore[arg-type]
            question_id=f"q{n}",
        )
        for n, (i, j, won) in enumerate(rows)
    )
    return replace(log, covariates=more)


def random_log(n: int = 200, seed: int = 0) -> BattleLog:
    """Votes between four models about as good, with a length that plays no part."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 4, n)
    b = (a + rng.integers(1, 4, n)) % 4
    return battles(a, b, rng.random(n) < 0.5, length=rng.normal(size=n))


# What is counted of a text

MARKDOWN = """# Title

Some **bold words** and __more__ of them.

## Part one
- first
- second
  * nested
+ plus
1. one
2) two

```python
x = 1
```
"""


def test_features_of_a_text_by_hand() -> None:
    """Words between blanks, two headings, six list items, two bold runs, two code fences."""
    words = [
        *"# Title Some **bold words** and __more__ of them.".split(),
        *"## Part one - first - second * nested + plus 1. one 2) two".split(),
        *"```python x = 1 ```".split(),
    ]
    assert FEATURES == ("length", "headings", "lists", "bold", "code")
    assert style_of(MARKDOWN) == (len(words), 2, 6, 2, 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (0, 0, 0, 0, 0)),
        (" \n\t ", (0, 0, 0, 0, 0)),
        ("one two\nthree", (3, 0, 0, 0, 0)),
        ("#hashtag and 3 * 4 - 5", (7, 0, 0, 0, 0)),
        ("####### seven", (2, 0, 0, 0, 0)),
        ("not # a heading", (4, 0, 0, 0, 0)),
        ("2024 was long; -5 degrees", (5, 0, 0, 0, 0)),
        ("**a** **b** ** c", (4, 0, 0, 2, 0)),
        ("**never\nclosed**", (2, 0, 0, 0, 0)),
        ("inline ``` is no fence", (5, 0, 0, 0, 0)),
        ("```\n# comment\n- x\n```\n# Real", (8, 1, 0, 0, 2)),
    ],
)
def test_what_is_no_markdown_is_not_counted(text: str, expected: tuple[int, ...]) -> None:
    """Marks in the middle of a line or without their partner are plain words."""
    assert style_of(text) == expected


def test_differences_by_hand() -> None:
    """Six words against two are (6 - 2) / (6 + 2) = 0.5; nothing against nothing is 0."""
    found = style_differences(["a b c d e f", "", "# x\n# y\n# z"], ["a b", "", "# x\nplain"])
    assert found["length"].tolist() == [0.5, 0.0, pytest.approx(3 / 9)]
    assert found["headings"].tolist() == [0.0, 0.0, pytest.approx(2 / 4)]
    assert found["code"].tolist() == [0.0, 0.0, 0.0]


texts = st.lists(
    st.sampled_from(["word", "# h\n", "\n- item\n", "**b**", "\n```\n", " "]), max_size=8
).map(" ".join)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=5))
def test_differences_are_seen_from_either_side(pairs: list[tuple[str, str]]) -> None:
    """Swapped texts have the opposite difference, never beyond -1 and 1; alike ones have none."""
    first, second = zip(*pairs, strict=True)
    there, back = style_differences(first, second), style_differences(second, first)
    for name in FEATURES:
        np.testing.assert_array_equal(there[name], -back[name])
        assert np.all(np.abs(there[name]) <= 1)
        assert not style_differences(first, first)[name].any()


# Closed forms and truth


def two_levels(wins: tuple[int, int], losses: tuple[int, int]) -> BattleLog:
    """m0 against m1, longer (first of each pair of counts) and shorter."""
    first = np.repeat([True, False, True, False], [wins[0], losses[0], wins[1], losses[1]])
    length = np.repeat([1.0, 1.0, -1.0, -1.0], [wins[0], losses[0], wins[1], losses[1]])
    zeros = np.zeros(len(first), np.intp)
    return battles(zeros, zeros + 1, first, length=length)


def test_two_models_at_two_lengths_by_hand() -> None:
    """Longer, m0 wins 60:20; shorter, 30:50. The log-odds are gap + effect and gap - effect, so
    the gap is half their sum and the effect half their difference, errors included.
    """
    found = BradleyTerry(prior=0, covariates=("length",))(two_levels((60, 30), (20, 50)))
    longer, shorter = math.log(60 / 20), math.log(30 / 50)
    error = math.sqrt((1 / 60 + 1 / 20 + 1 / 30 + 1 / 50) / 4 * 160 / 159)
    gap = found["m0"].rating - found["m1"].rating
    assert gap == pytest.approx(UNIT * (longer + shorter) / 2, abs=1e-7)
    assert found["m0"].extra["se"] == pytest.approx(UNIT * error / 2, rel=1e-8)
    assert found.fit["length"] == pytest.approx(UNIT * (longer - shorter) / 2, abs=1e-7)
    assert found.fit["length_se"] == pytest.approx(UNIT * error, rel=1e-8)


def planted(n: int, seed: int = 1) -> BattleLog:
    """m3 is as good as m0 and m1 is best, but m3 writes much more, and length wins votes: 0.8
    per standard deviation of the difference or so.
    """
    rng = np.random.default_rng(seed)
    skill, habit = np.array([0.0, 0.5, 0.25, 0.0]), np.array([0.0, -0.5, 0.0, 1.0])
    a = rng.integers(0, 4, n)
    b = (a + rng.integers(1, 4, n)) % 4
    length = habit[a] - habit[b] + rng.normal(0, 0.7, n)
    chance = 1 / (1 + np.exp(-(skill[a] - skill[b] + 0.8 * length)))
    return battles(a, b, rng.random(n) < chance, length=length)


def test_a_planted_length_effect_is_found_and_taken_out() -> None:
    """Controlled ratings agree with the planted skills and the coefficient with the planted
    one; uncontrolled, the model that writes much is more than ten standard errors too high.
    """
    log = planted(6000)
    found = BY_LENGTH(log)
    skill = UNIT * (np.array([0.0, 0.5, 0.25, 0.0]) - 0.1875) + 1000
    for model, truth in zip(NAMES, skill, strict=True):
        assert abs(found[model].rating - truth) < 3.5 * found[model].extra["se"]
    wordy = found["m3"]
    assert wordy.extra["uncontrolled"] - skill[3] > 10 * wordy.extra["se"]
    assert found.order[0] == "m1"
    assert BradleyTerry()(log).order[0] == "m3"
    spread = float(np.sqrt(np.mean(log.covariates["length"] ** 2)))  # type: ignore[index]
    assert abs(found.fit["length"] - 0.8 * UNIT * spread) < 3.5 * found.fit["length_se"]


def test_a_coefficient_is_as_sure_as_it_says() -> None:
    """Over 100 samples of length without an effect, the 95 % interval of its coefficient holds 0
    in about 95 % of them.
    """
    held = 0
    for seed in range(100):
        found = BradleyTerry(prior=0, covariates=("length",))(random_log(120, seed))
        held += abs(found.fit["length"]) < 1.96 * found.fit["length_se"]
    assert 0.90 <= held / 100 <= 0.99


@pytest.mark.parametrize(("when", "prior"), [("needed", 0.0), ("always", 0.5)])
@pytest.mark.parametrize("ties", ["half", "davidson", "rao-kupper"])
def test_fit_and_covariance_against_a_naive_twin(ties: str, when: str, prior: float) -> None:
    """With two covariates, ties and shared questions, the plain sum over battles has its peak
    at our fit, and differences put together by hand give the same sandwich: without half wins by
    default, for every model won and lost, and with half wins (at no difference of style) if they
    are always added.
    """
    rng = np.random.default_rng(5)
    log = random_log(70, seed=5)
    winners = rng.choice(["model_a", "model_b", "tie"], 70)
    asked = [f"q{n}" for n in rng.integers(0, 18, 70)]
    rows = [
        replace(battle, winner=winner, question_id=question)
        for battle, winner, question in zip(log.to_battles(), winners, asked, strict=True)
    ]
    x = {"length": rng.normal(0.3, 1, 70), "lists": rng.uniform(-1, 1, 70)}
    log = replace(BattleLog.from_battles(rows), covariates=x)
    method = BradleyTerry(ties=ties, prior_when=when, covariates=("length", "lists"))  # type: ignore[arg-type]
    found = method(log)
    twin = Naive(log, ties, prior, covariates=("length", "lists"))
    theta = twin.parameters(found)
    assert np.abs(twin.slope(theta)).max() < 1e-6
    spread = twin.covariance(theta, asked)
    np.testing.assert_allclose(found.covariance, centred(spread, 4), rtol=2e-4, atol=2e-2)
    for place, name in ((-2, "length"), (-1, "lists")):
        error = UNIT * math.sqrt(spread[place, place]) * np.sqrt(np.mean(x[name] ** 2))
        assert found.fit[f"{name}_se"] == pytest.approx(error, rel=2e-4)


def test_half_wins_have_no_length() -> None:
    """Where m0 wins all of its longer and of its shorter responses, half a win each way at equal
    length makes gap and effect finite: at the fit the score of the gap, 6 wins against half a
    loss, and the score of the effect, 4 longer against 2 shorter wins, are both 0.
    """
    found = BradleyTerry(covariates=("length",))(two_levels((4, 2), (0, 0)))
    gap = (found["m0"].rating - found["m1"].rating) / UNIT
    effect = found.fit["length"] / UNIT
    longer, shorter, equal = (1 / (1 + math.exp(-gap - k * effect)) for k in (1, -1, 0))
    assert 4 * longer + 2 * shorter + equal == pytest.approx(6.5, abs=1e-8)
    assert 4 * longer - 2 * shorter == pytest.approx(2, abs=1e-8)


# What must not matter


def test_swapped_sides_change_nothing() -> None:
    """Seen from the other side a difference has the other sign: nothing else changes."""
    log = planted(300)
    turned = replace(
        log,
        a=log.b,
        b=log.a,
        outcome=(1 - log.outcome).astype(np.int8),
        covariates={"length": -log.covariates["length"]},  # type: ignore[index]
    )
    before, after = BY_LENGTH(log), BY_LENGTH(turned)
    assert after.fit == pytest.approx(before.fit, abs=1e-8)
    np.testing.assert_allclose(after.covariance, before.covariance, atol=1e-6)
    for model in NAMES:
        assert after[model].rating == pytest.approx(before[model].rating, abs=1e-7)


def test_the_sides_of_single_battles_change_no_rating() -> None:
    """Which side of a battle is written first moves no rating and no standard error."""
    log = planted(300)
    swap = np.random.default_rng(0).random(300) < 0.5
    sign = np.where(swap, -1.0, 1.0)
    turned = replace(
        log,
        a=np.where(swap, log.b, log.a),
        b=np.where(swap, log.a, log.b),
        outcome=np.where(swap, 1 - log.outcome, log.outcome).astype(np.int8),
        covariates={"length": sign * log.covariates["length"]},  # type: ignore[index]
    )
    before, after = BY_LENGTH(log), BY_LENGTH(turned)
    np.testing.assert_allclose(after.covariance, before.covariance, atol=1e-6)
    for model in NAMES:
        assert after[model].rating == pytest.approx(before[model].rating, abs=1e-7)


@pytest.mark.parametrize("factor", [-1.0, 1e-6, 7.0, 1e9])
def test_the_unit_of_a_covariate_changes_nothing(factor: float) -> None:
    """Counted in letters or in volumes, length has the same effect per standard deviation; a
    negative factor turns its sign and moves no rating.
    """
    log = planted(300)
    scaled = replace(log, covariates={"length": factor * log.covariates["length"]})  # type: ignore[index]
    before, after = BY_LENGTH(log), BY_LENGTH(scaled)
    sign = math.copysign(1, factor)
    assert after.fit["length"] == pytest.approx(sign * before.fit["length"], abs=1e-6)
    assert after.fit["length_se"] == pytest.approx(before.fit["length_se"], abs=1e-6)
    for model in NAMES:
        assert after[model].rating == pytest.approx(before[model].rating, abs=1e-6)


def test_order_and_names_do_not_matter() -> None:
    """Shuffled battles and other names for the models, in another order, rate the same."""
    log = planted(300)
    order = np.random.default_rng(3).permutation(300)
    names = {"m0": "d", "m1": "c", "m2": "b", "m3": "a"}
    rows = [
        replace(battle, model_a=names[battle.model_a], model_b=names[battle.model_b])
        for battle in log.select(order).to_battles()
    ]
    moved = replace(
        BattleLog.from_battles(rows),
        covariates={"length": log.covariates["length"][order]},  # type: ignore[index]
    )
    before, after = BY_LENGTH(log), BY_LENGTH(moved)
    assert after.fit == pytest.approx(before.fit, abs=1e-8)
    for model in NAMES:
        assert after[names[model]].rating == pytest.approx(before[model].rating, abs=1e-7)
        assert after[names[model]].extra == pytest.approx(before[model].extra, abs=1e-7)


def weighted_and_repeated() -> tuple[BattleLog, BattleLog]:
    """The same votes, told by weights and one by one, without questions."""
    log = replace(planted(200), question_id=None)
    times = np.random.default_rng(6).integers(1, 5, 200)
    return replace(log, weight=times.astype(float)), log.select(np.repeat(np.arange(200), times))


def test_a_weight_is_a_number_of_votes() -> None:
    """A battle of weight 3 rates as three battles, with the same standard errors."""
    one, other = (BY_LENGTH(log) for log in weighted_and_repeated())
    assert one.fit["nll"] == pytest.approx(other.fit["nll"], abs=1e-9)
    np.testing.assert_allclose(one.covariance, other.covariance, atol=1e-6)
    for model in NAMES:
        assert one[model].rating == pytest.approx(other[model].rating, abs=1e-7)


def test_a_weight_is_a_number_of_votes_in_a_coefficient_too() -> None:
    """Points per standard deviation are the same whether votes are counted or listed."""
    one, other = (BY_LENGTH(log) for log in weighted_and_repeated())
    assert one.fit["length"] == pytest.approx(other.fit["length"], rel=1e-9)


def test_rating_leaves_the_covariates_alone() -> None:
    """The numbers of a log are the same after they were used."""
    log = planted(100)
    before = log.covariates["length"].copy()  # type: ignore[index]
    BY_LENGTH(log)
    np.testing.assert_array_equal(log.covariates["length"], before)  # type: ignore[index]


@pytest.mark.parametrize("ties", ["half", "davidson"])
def test_uncontrolled_is_the_rating_without_covariates(ties: str) -> None:
    """Beside each rating stands what it would be if style were not fitted."""
    log = replace(random_log(), outcome=(np.arange(200) % 3).astype(np.int8))
    method = BradleyTerry(ties=ties, baseline="m2", center=1200.0)  # type: ignore[arg-type]
    plain = method(log)
    controlled = replace(method, covariates=("length",))(log)
    for model in NAMES:
        assert controlled[model].extra["uncontrolled"] == plain[model].rating
        assert "uncontrolled" not in plain[model].extra


def test_covariates_that_are_not_asked_for_change_nothing() -> None:
    """A log with numbers beside its battles rates as one without, unless told."""
    log = planted(100)
    assert BradleyTerry()(log).as_dict() == BradleyTerry()(replace(log, covariates=None)).as_dict()


def test_battles_left_out_take_their_covariates_along() -> None:
    """Excluding both-bad votes is rating a log that never had them."""
    log = planted(200)
    outcome = np.where(np.arange(200) % 5 == 0, 3, log.outcome).astype(np.int8)
    log = replace(log, outcome=outcome)
    found = replace(BY_LENGTH, both_bad="exclude")(log)
    assert found.dropped["both_bad"] == 40
    assert found.fit == BY_LENGTH(log.select(outcome < 3)).fit


# What has no answer


def test_an_unknown_covariate_is_named() -> None:
    """The sentence says what is there."""
    log = replace(random_log(), covariates={"length": np.ones(200), "lists": np.ones(200)})
    with pytest.raises(RatingError, match="no covariate 'bold' in the battles; known: length, li"):
        BradleyTerry(covariates=("bold",))(log)
    with pytest.raises(RatingError, match="no covariate 'bold' in the battles; known: none"):
        BradleyTerry(covariates=("bold",))(replace(log, covariates=None))


CONSTANTS = [
    (0.0, 200),
    (3.0, 200),
    (0.1, 30),
    (0.3, 200),
]


@pytest.mark.parametrize(("value", "n"), CONSTANTS)
def test_a_covariate_that_is_always_the_same_is_refused(value: float, n: int) -> None:
    """What does not vary explains nothing, whatever number it is."""
    log = replace(random_log(n), covariates={"length": np.full(n, value)})
    with pytest.raises(RatingError, match="covariate 'length' is the same in every battle"):
        BY_LENGTH(log)


@pytest.mark.parametrize("prior", [0.0, 0.5])
@pytest.mark.parametrize("factor", [1.0, -3.0])
def test_a_covariate_told_twice_is_refused(factor: float, prior: float) -> None:
    """Two columns that are multiples of each other cannot share out an effect."""
    log = random_log()
    x = log.covariates["length"]  # type: ignore[index]
    log = replace(log, covariates={"length": x, "again": factor * x})
    with pytest.raises(RatingError, match="the covariates say the same thing twice; leave one out"):
        BradleyTerry(prior=prior, covariates=("length", "again"))(log)


def test_a_covariate_that_is_the_sum_of_two_is_refused() -> None:
    """Collinearity of three is told as that of two is."""
    log, rng = random_log(), np.random.default_rng(9)
    x, y = rng.normal(size=(2, 200))
    log = replace(log, covariates={"x": x, "y": y, "z": x + y})
    with pytest.raises(RatingError, match="covariates"):
        BradleyTerry(covariates=("x", "y", "z"))(log)


@pytest.mark.parametrize(
    "prior",
    [
        0.0,
        0.5,
    ],
)
def test_a_habit_cannot_be_told_from_a_skill(prior: float) -> None:
    """Where every model always writes at its own length, length and skill are one: no battle can
    say which of them won, and no rating exists at equal length.
    """
    log, habit = random_log(), np.array([0.13, 0.7, -0.4, 0.9])
    log = replace(log, covariates={"length": habit[log.a] - habit[log.b]})
    with pytest.raises(RatingError, match="a covariate cannot be told from the models"):
        BradleyTerry(prior=prior, covariates=("length",))(log)


def test_a_covariate_that_decides_every_battle_has_no_coefficient() -> None:
    """Where the longer response always won, no finite effect is the best: that is an error, which
    names the covariates as its cause.
    """
    log = random_log()
    length = np.where(log.outcome == 0, 1.0, -1.0) * np.linspace(0.5, 1, 200)
    for prior in (0.0, 0.5):
        with pytest.raises(RatingError, match="covariates decide nearly every battle"):
            BradleyTerry(prior=prior, covariates=("length",))(
                replace(log, covariates={"length": length})
            )


def test_a_result_with_covariates_is_json() -> None:
    """An error that cannot be known is left out or null: JSON has no NaN."""
    log = planted(40)
    one = BattleLog.from_battles(replace(b, question_id="q") for b in log.to_battles())
    found = BY_LENGTH(replace(one, covariates=log.covariates))
    assert json.dumps(found.as_dict(), allow_nan=False)


# Files


ROWS = "model_a,model_b,winner,gap,length\nx,y,a,1.5,-2\ny,x,b,-0.25,1e3\n"


def test_numeric_columns_become_covariates(tmp_path: Path) -> None:
    """Columns that were asked for are read as numbers, in the order asked; others are not."""
    path = tmp_path / "votes.csv"
    path.write_text(ROWS)
    found = read_battles(path, covariates=["length", "gap"]).covariates
    assert found is not None
    assert {name: x.tolist() for name, x in found.items()} == {
        "length": [-2.0, 1000.0],
        "gap": [1.5, -0.25],
    }
    assert list(found) == ["length", "gap"]
    assert read_battles(path).covariates is None


def with_texts(path: Path) -> Path:
    """Votes with the texts of both responses."""
    pairs = [("# T\none two", "- a\n- b\n"), ("plain", None), ("**b** c", "one two three")]
    rows = [
        {"model_a": "x", "model_b": "y", "winner": "a", "response_a": a, "response_b": b}
        for a, b in pairs
    ]
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pd.DataFrame(rows).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("kind", [".jsonl", ".csv"])
def test_style_is_measured_from_the_responses_of_a_file(kind: str, tmp_path: Path) -> None:
    """4 words against 4, 1 against none, 2 against 3; a heading, two list items, one bold."""
    path = with_texts(tmp_path / f"votes{kind}")
    found = read_battles(path, covariates=FEATURES).covariates
    assert found is not None
    assert found["length"].tolist() == [0.0, 1.0, pytest.approx(-1 / 5)]
    assert found["headings"].tolist() == [1.0, 0.0, 0.0]
    assert found["lists"].tolist() == [-1.0, 0.0, 0.0]
    assert found["bold"].tolist() == [0.0, 0.0, 1.0]
    assert found["code"].tolist() == [0.0, 0.0, 0.0]


def test_a_numeric_column_goes_before_the_measure_of_its_name(tmp_path: Path) -> None:
    """A file that brings its own length is believed; the rest is measured."""
    path = tmp_path / "votes.csv"
    path.write_text("model_a,model_b,winner,response_a,response_b,length\nx,y,a,one **b**,one,42\n")
    found = read_battles(path, covariates=["length", "bold"]).covariates
    assert found is not None
    assert (found["length"].tolist(), found["bold"].tolist()) == ([42.0], [1.0])


def test_covariates_of_a_frame() -> None:
    """A frame gives numbers and measures like a file."""
    frame = pd.DataFrame(
        {
            "model_a": ["x", "y"],
            "model_b": ["y", "x"],
            "winner": ["a", "tie"],
            "gap": [0.1, -7.0],
            "response_a": ["a b c", "a"],
            "response_b": ["a", "a"],
        }
    )
    found = battles_from_frame(frame, covariates=["gap", "length"]).covariates
    assert found is not None
    assert (found["gap"].tolist(), found["length"].tolist()) == ([0.1, -7.0], [0.5, 0.0])


@pytest.mark.parametrize("kind", [".jsonl", ".csv", ".parquet"])
def test_covariates_survive_their_file(kind: str, tmp_path: Path) -> None:
    """Written with the log and asked for again, they are the same to the last bit."""
    log = planted(20)
    write_battles(tmp_path / f"log{kind}", log)
    back = read_battles(tmp_path / f"log{kind}", covariates=["length"])
    np.testing.assert_array_equal(back.covariates["length"], log.covariates["length"])  # type: ignore[index]
    assert list(back.to_battles()) == list(log.to_battles())


@pytest.mark.parametrize("wrong", ["long", "", "nan", "inf"])
def test_a_wrong_number_is_named_with_its_line(wrong: str, tmp_path: Path) -> None:
    """A value that is no finite number, or none at all, is told with file, line and column."""
    path = tmp_path / "votes.csv"
    path.write_text(f"model_a,model_b,winner,gap\nx,y,a,1\nx,y,a,{wrong}\n")
    with pytest.raises(DataError, match=rf"votes\.csv:3: gap '{wrong or 'None'}' is not a finite"):
        read_battles(path, covariates=["gap"])


@pytest.mark.parametrize("asked", [["style"], ["length", "style"]])
def test_an_unknown_covariate_of_a_file_is_named(asked: list[str], tmp_path: Path) -> None:
    """A name that is neither a column nor a measure is told with what is allowed."""
    path = with_texts(tmp_path / "votes.jsonl")
    allowed = "response_b, length, headings, lists, bold, code"
    with pytest.raises(DataError, match=rf"votes\.jsonl: no covariate style; allowed: .*{allowed}"):
        read_battles(path, covariates=asked)


def test_style_needs_both_responses(tmp_path: Path) -> None:
    """Without the texts of both sides a measure does not exist."""
    path = tmp_path / "votes.csv"
    path.write_text("model_a,model_b,winner,response_a\nx,y,a,one\n")
    with pytest.raises(DataError, match=r"votes\.csv: no covariate length, bold; allowed"):
        read_battles(path, covariates=["length", "bold"])
