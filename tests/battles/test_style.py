"""Style control: what is counted of a text, and ratings that hold at equal length."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from arena_kit import BattleLog, BradleyTerry, DataError, RatingError, read_battles, write_battles
from arena_kit.battles.read import FEATURES, battles_from_frame, style_of
from arena_kit.rating.base import Ratings
from tests.naive import Naive, centred
from tests.samples import log_of

UNIT = 400 / math.log(10)
NAMES = ("m0", "m1", "m2", "m3")
MEAN_OFF = np.eye(4) - 1 / 4
BY_LENGTH = BradleyTerry(covariates=("length",))


def battles(
    a: NDArray[np.intp], b: NDArray[np.intp], first: NDArray[np.bool_], length: NDArray[np.float64]
) -> BattleLog:
    """Votes of models by number, won by the first side or not, with the difference in length."""
    sides = zip(a, b, first, strict=True)
    rows = [(NAMES[i], NAMES[j], "model_a" if w else "model_b") for i, j, w in sides]
    return replace(log_of(rows), covariates={"length": length})


def length_of(log: BattleLog) -> NDArray[np.float64]:
    return log.covariates["length"]


def random_log(n: int = 200, seed: int = 0) -> BattleLog:
    """Votes between four models about as good, with a length that plays no part."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 4, n)
    b = (a + rng.integers(1, 4, n)) % 4
    return battles(a, b, rng.random(n) < 0.5, rng.normal(size=n))


def planted(n: int, seed: int = 1) -> BattleLog:
    """m3 is as good as m0 and m1 is best, but m3 writes much more, and length wins votes."""
    rng = np.random.default_rng(seed)
    skill, habit = np.array([0.0, 0.5, 0.25, 0.0]), np.array([0.0, -0.5, 0.0, 1.0])
    a = rng.integers(0, 4, n)
    b = (a + rng.integers(1, 4, n)) % 4
    length = habit[a] - habit[b] + rng.normal(0, 0.7, n)
    chance = 1 / (1 + np.exp(-(skill[a] - skill[b] + 0.8 * length)))
    return battles(a, b, rng.random(n) < chance, length)


def assert_alike(one: Ratings, other: Ratings, tolerance: float = 1e-6) -> None:
    """The same ratings and covariance."""
    np.testing.assert_allclose(one.covariance, other.covariance, atol=tolerance)
    for model in NAMES:
        assert one[model].rating == pytest.approx(other[model].rating, abs=tolerance)


MARKDOWN = (
    "# Title\n\nSome **bold words** and __more__ of them.\n\n## Part one\n- first\n- second\n"
    "  * nested\n+ plus\n1. one\n2) two\n\n```python\nx = 1\n```\n"
)


def test_features_of_a_text_by_hand() -> None:
    """Words between blanks, headings, list items, bold runs and code fences."""
    for text, expected in (
        (MARKDOWN, (29, 2, 6, 2, 2)),
        (" \n\t ", (0, 0, 0, 0, 0)),
        ("#hashtag and 3 * 4 - 5", (7, 0, 0, 0, 0)),
        ("####### seven", (2, 0, 0, 0, 0)),
        ("not # a\nheading", (4, 0, 0, 0, 0)),
        ("2024 was long; -5 degrees", (5, 0, 0, 0, 0)),
        ("**a** **b** ** c", (4, 0, 0, 2, 0)),
        ("**never\nclosed** inline ``` is no fence", (7, 0, 0, 0, 0)),
        ("```\n# comment\n- x\n```\n# Real", (8, 1, 0, 0, 2)),
    ):
        parts = ("assistant_turns", "images", "tool_calls")
        assert ("length", "headings", "lists", "bold", "code", *parts) == FEATURES
        assert style_of(text) == (*expected, 1, 0, 0)


def test_two_models_at_two_lengths_by_hand() -> None:
    """Gap and effect are half the sum and difference of two log-odds; the jackknife: 79 of 80."""
    first, length = np.repeat([True, False] * 2, [60, 20, 30, 50]), np.repeat([1.0, -1.0], 80)
    log = battles(np.zeros(160, np.intp), np.ones(160, np.intp), first, length)
    found = BradleyTerry(prior=0, covariates=("length",))(log)
    longer, shorter = math.log(60 / 20), math.log(30 / 50)
    error = math.sqrt((1 / 60 + 1 / 20 + 1 / 30 + 1 / 50) / 4 * 159 / 160) * 80 / 79
    gap = found["m0"].rating - found["m1"].rating
    assert gap == pytest.approx(UNIT * (longer + shorter) / 2, abs=1e-7)
    assert found["m0"].extra["se"] == pytest.approx(UNIT * error / 2, rel=1e-8)
    assert found.fit["length"] == pytest.approx(UNIT * (longer - shorter) / 2, abs=1e-7)
    assert found.fit["length_se"] == pytest.approx(UNIT * error, rel=1e-8)


@pytest.mark.parametrize(("when", "prior"), [("needed", 0.0), ("always", 0.5)])
@pytest.mark.parametrize("ties", ["half", "davidson"])
def test_fit_and_covariance_against_a_naive_twin(ties: str, when: str, prior: float) -> None:
    """With two covariates, the plain sum over battles has its peak and jackknife at our fit."""
    rng = np.random.default_rng(5)
    winners = rng.choice(["model_a", "model_b", "tie"], 45)
    asked = [f"q{n}" for n in rng.integers(0, 12, 45)]
    rows = [
        replace(battle, winner=winner, question_id=question)
        for battle, winner, question in zip(
            random_log(45, seed=5).to_battles(), winners, asked, strict=True
        )
    ]
    x = {"length": rng.normal(0.3, 1, 45), "lists": rng.uniform(-1, 1, 45)}
    log = replace(BattleLog.from_battles(rows), covariates=x)
    if ties == "half":
        log = replace(log, share_a=np.where(np.arange(45) % 4, rng.random(45), np.nan))
    found = BradleyTerry(ties=ties, prior_when=when, covariates=("length", "lists"))(log)  # type: ignore[arg-type]
    twin = Naive(log, ties, prior, covariates=("length", "lists"))
    theta = twin.parameters(found)
    assert np.abs(twin.slope(theta)).max() < 1e-6
    spread = twin.covariance(theta, asked)
    ours = UNIT**2 * MEAN_OFF @ found.profile.spread @ MEAN_OFF
    np.testing.assert_allclose(ours, centred(spread, 4), rtol=2e-4, atol=2e-2)
    assert (np.diag(found.covariance) >= np.diag(ours) - 1e-6).all()  # by the tie-free floor
    for place, name in ((-2, "length"), (-1, "lists")):
        error = UNIT * math.sqrt(spread[place, place]) * np.sqrt(np.mean(x[name] ** 2))
        assert found.fit[f"{name}_se"] == pytest.approx(error, rel=2e-4)


def test_a_weight_is_a_number_of_votes() -> None:
    """A battle of weight 3 rates as three; an error that cannot be known is no NaN in JSON."""
    log = replace(planted(200), question_id=None)
    times = np.random.default_rng(6).integers(1, 5, 200)
    one = BY_LENGTH(replace(log, weight=times.astype(float)))
    other = BY_LENGTH(log.select(np.repeat(np.arange(200), times)))
    assert one.fit["nll"] == pytest.approx(other.fit["nll"], abs=1e-9)
    assert one.fit["length"] == pytest.approx(other.fit["length"], rel=1e-9)
    assert_alike(one, other)
    outcome = np.where(np.arange(200) % 5 == 0, 3, log.outcome).astype(np.int8)
    log = replace(log, outcome=outcome)
    found = replace(BY_LENGTH, both_bad="exclude")(log)
    assert (found.dropped["both_bad"], found.fit) == (40, BY_LENGTH(log.select(outcome < 3)).fit)
    log = planted(40)
    one = replace(log, question_id=replace(log.question_id, codes=0 * log.question_id.codes))
    assert json.dumps(BY_LENGTH(one).as_dict(), allow_nan=False)


@pytest.mark.parametrize("ties", ["half", "davidson"])
def test_uncontrolled_is_the_rating_without_covariates(ties: str) -> None:
    """Each rating has what it would be without style; numbers nobody asked for change nothing."""
    log = replace(random_log(), outcome=(np.arange(200) % 3).astype(np.int8))
    method = BradleyTerry(ties=ties, baseline="m2", center=1200.0)  # type: ignore[arg-type]
    plain, controlled = method(log), replace(method, covariates=("length",))(log)
    for model in NAMES:
        assert controlled[model].extra["uncontrolled"] == plain[model].rating
        assert "uncontrolled" not in plain[model].extra
    assert plain.as_dict() == method(replace(log, covariates=None)).as_dict()


X, Y = np.random.default_rng(9).normal(size=(2, 200))
LOG = random_log()
HABIT = np.array([0.13, 0.7, -0.4, 0.9])
WON = np.where(LOG.outcome == 0, 1.0, -1.0)


SAME, TWICE = "covariate 'x' is the same in every", "the covariates say the same thing twice"


@pytest.mark.parametrize("prior", [0.0, 0.5])
@pytest.mark.parametrize(
    ("covariates", "why"),
    [
        *(({"x": np.full(200, c)}, SAME) for c in (0, 0.3)),
        *(({"x": X, "again": c * X}, TWICE) for c in (1, -3)),
        ({"x": X, "y": Y, "z": X + Y}, "covariates"),
        ({"habit": HABIT[LOG.a] - HABIT[LOG.b]}, "a covariate cannot be told from the models"),
        ({"x": WON * np.linspace(0.5, 1, 200)}, "covariates decide nearly every battle"),
    ],
    ids=["zero", "0.3", "twice", "a multiple", "a sum", "a habit", "decisive"],
)
def test_what_has_no_answer_is_refused(
    covariates: dict[str, NDArray[np.float64]], why: str, prior: float
) -> None:
    """What does not vary, is told twice, is one with skill or decides everything is refused."""
    log = replace(LOG, covariates=covariates)
    with pytest.raises(RatingError, match=why):
        BradleyTerry(prior=prior, covariates=tuple(covariates))(log)
    known = ", ".join(covariates)
    with pytest.raises(RatingError, match=f"no covariate 'bold' in the battles; known: {known}"):
        BradleyTerry(covariates=("bold",))(log)


def csv(path: Path, *lines: str) -> Path:
    path.write_text("".join(each + "\n" for each in lines))
    return path


def covariates_of(log: BattleLog) -> dict[str, list[float]]:
    return {name: column.tolist() for name, column in (log.covariates or {}).items()}


def test_numeric_columns_become_covariates(tmp_path: Path) -> None:
    """Columns that were asked for, whatever they are called, are read as numbers."""
    path = csv(tmp_path / "v.csv", "model_a,model_b,winner,gap diff,order", "x,y,a,1.5,-2",
               "y,x,b,-0.25,1e3")  # fmt: skip
    asked = ["order", "gap diff"]
    expected = {"order": [-2.0, 1000.0], "gap diff": [1.5, -0.25]}
    found = covariates_of(read_battles(path, covariates=asked))
    assert list(found.items()) == list(expected.items())
    assert covariates_of(battles_from_frame(pd.read_csv(path), covariates=asked)) == expected
    assert read_battles(path).covariates is None
    log = planted(20)
    for kind in (".jsonl", ".csv", ".parquet"):
        write_battles(tmp_path / f"log{kind}", log)
        back = read_battles(tmp_path / f"log{kind}", covariates=["length"])
        np.testing.assert_array_equal(length_of(back), length_of(log))
        assert list(back.to_battles()) == list(log.to_battles())


@pytest.mark.parametrize("kind", [".jsonl", ".csv"])
def test_style_is_measured_from_the_responses_of_a_file(kind: str, tmp_path: Path) -> None:
    """4 words against 4, 1 against none, 2 against 3; a heading, two list items, one bold."""
    pairs = [("# T\none two", "- a\n- b\n"), ("plain", None), ("**b** c", "one two three")]
    frame = pd.DataFrame(pairs, columns=["response_a", "response_b"])
    frame = frame.assign(model_a="x", model_b="y", winner="a")
    path = tmp_path / f"votes{kind}"

    def read(frame: pd.DataFrame, *names: str) -> dict[str, list[float]]:
        json_lines = {"orient": "records", "lines": True}
        frame.to_json(path, **json_lines) if kind == ".jsonl" else frame.to_csv(path, index=False)
        return covariates_of(read_battles(path, covariates=names))

    assert read(frame, *FEATURES) == {
        "length": [0.0, 1.0, pytest.approx(-1 / 5)], "headings": [1.0, 0.0, 0.0],
        "lists": [-1.0, 0.0, 0.0], "bold": [0.0, 0.0, 1.0], "code": [0.0, 0.0, 0.0],
    } | {name: [0.0, 0.0, 0.0] for name in FEATURES[5:]}  # fmt: skip
    assert read(frame.assign(length=42), "length", "bold")["length"] == [42.0] * 3
    allowed = "response_b, length, headings, lists, bold, code"
    with pytest.raises(DataError, match=rf"votes\{kind}: no covariate style; allowed: .*{allowed}"):
        read(frame, "length", "style")
    with pytest.raises(DataError, match="no covariate length, bold; allowed"):
        read(frame.drop(columns="response_b"), "length", "bold")


@pytest.mark.parametrize("wrong", ["long", "", "nan", "inf"])
def test_a_wrong_number_is_named_with_its_line(wrong: str, tmp_path: Path) -> None:
    """A value that is no finite number, or none at all, is told with file, line and column."""
    path = csv(tmp_path / "votes.csv", "model_a,model_b,winner,gap", "x,y,a,1", f"x,y,a,{wrong}")
    with pytest.raises(DataError, match=rf"votes\.csv:3: gap '{wrong or 'None'}' is not a finite"):
        read_battles(path, covariates=["gap"])
