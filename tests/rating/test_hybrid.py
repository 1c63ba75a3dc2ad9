"""People and judge together: what is gained, what is guarded against, and what is refused."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from arena_kit import BattleLog, BradleyTerry, Hybrid, RatingError, claims
from arena_kit.battles.battle import Source
from arena_kit.rating.with_judge.hybrid import HybridRatings
from tests.samples import shared_log


class Board:
    """Models with planted skills; people vote on some battles, a judge decides them all."""

    def __init__(
        self, seed: int, n: int = 12, battles: int = 6000, error: float = 15.0, slope: float = 1.4
    ) -> None:
        self.rng = np.random.default_rng(seed)
        skill = self.rng.normal(0, 120, n)
        self.skill = skill - skill.mean()
        self.judge = slope * (self.skill + self.rng.normal(0, error, n))
        self.names = [f"m{i:02d}" for i in range(n)]
        self.a = self.rng.integers(0, n, battles)
        self.b = (self.a + self.rng.integers(1, n, battles)) % n

    def outcomes(self, skill: np.ndarray) -> np.ndarray:
        chance = 1 / (1 + 10 ** ((skill[self.b] - skill[self.a]) / 400))
        return (self.rng.random(len(self.a)) > chance).astype(int)

    def human(self, n: int) -> BattleLog:
        log = shared_log(self.a, self.b, self.outcomes(self.skill), self.names, Source.HUMAN)
        return log.select(np.arange(n))

    def judged(self, skill: np.ndarray | None = None) -> BattleLog:
        said = self.outcomes(self.judge if skill is None else skill)
        return shared_log(self.a, self.b, said, self.names, Source.LLM_JUDGE)

    def errors(self, found: HybridRatings) -> tuple[float, float]:
        """The mean squared error of people alone and of both together."""
        alone, both = (
            np.array([each[m].rating - 1000 for m in self.names]) - self.skill
            for each in (found.people, found.ratings)
        )
        return float(np.mean(alone**2)), float(np.mean(both**2))


def without(log: BattleLog, *models: str) -> BattleLog:
    gone = np.isin(np.array(log.models, object), models)
    return log.select(~(gone[log.a] | gone[log.b]))


def width(found: HybridRatings, model: str, *, alone: bool = False) -> float:
    row = (found.people if alone else found.ratings)[model]
    return row.ci_high - row.ci_low


@pytest.mark.slow  # a simulation
def test_a_good_judge_is_worth_votes_and_a_useless_one_does_not_hurt() -> None:
    """A good judge is worth 2.5 times the votes; with a useless one no interval is wider."""
    good, useless, said = [], [], []
    for seed in range(8):
        board = Board(seed)
        votes = board.human(600)
        found = Hybrid()(votes, board.judged())
        good.append(board.errors(found))
        said.append(found.effective_sample / 600)
        other = np.random.default_rng(seed + 100).normal(0, 120, 12)
        found = Hybrid()(votes, board.judged(other))
        useless.append(board.errors(found))
        for model in board.names:
            assert width(found, model) <= width(found, model, alone=True) * 1.000001
    alone, both = np.mean(good, axis=0)
    assert alone / both > 2.5
    assert 2 < np.mean(said) < 1.5 * alone / both
    alone, both = np.mean(useless, axis=0)
    assert both < 1.05 * alone


def test_a_new_model_is_placed_by_the_judge() -> None:
    """A model without votes stands on the judge's line; one with too few is listed."""
    board = Board(4)
    human, judged = without(board.human(3000), "m05"), board.judged()
    found = Hybrid()(human, judged)
    people = found.people
    mean = np.mean([found.judge[m].rating for m in human.models])
    expected = 1000 + found.slope * (found.judge["m05"].rating - mean)
    assert found.ratings["m05"].rating == pytest.approx(expected, abs=3)
    assert width(found, "m05") > 3.9 * found.error.sd
    assert found.gain("m05") is None
    assert found.ratings["m05"].extra["votes"] == 0
    assert "m05" not in people.models
    single = np.median([people[m].extra["se"] ** 2 * people[m].n_battles for m in people.models])
    se = width(found, "m05") / (2 * 1.959964)
    assert found.as_votes("m05") == pytest.approx(single / se**2, rel=1e-5)
    gained = (width(found, "m03", alone=True) / width(found, "m03")) ** 2
    assert found.as_votes("m03") == pytest.approx(people["m03"].n_battles * gained)
    middle = np.median([row.n_battles for row in people.ratings])
    assert found.judge_share == pytest.approx(1 / (1 + middle / found.worth.votes))
    assert found.follows_people
    board = Board(5)
    human = board.human(1500)
    mine = np.flatnonzero((human.a == 7) | (human.b == 7))
    found = Hybrid()(human.select(np.setdiff1d(np.arange(1500), mine[4:])), board.judged())
    assert found.left_out == {"m07": 4}
    assert "m07" in found.ratings.models
    rated = [found.ratings[m].rating for m in found.people.models]
    assert np.mean(rated) == pytest.approx(1000)
    votes = board.human(6000)
    found = Hybrid()(votes, votes.of_source(Source.LLM_JUDGE))
    for model in board.names:
        assert found.ratings[model].rating == pytest.approx(found.people[model].rating, abs=0.01)
        # the covariance that both share is a sandwich, a little below the jackknife of each
        assert found.gain(model) == pytest.approx(1, abs=0.02)


def test_an_outlier_is_named() -> None:
    """A model that the judge puts 400 points too high is named alone, alike errors rarely."""
    board = Board(7, n=16, battles=8000, slope=1.0)
    skill = board.judge + 400 * (np.arange(16) == 9)
    found = Hybrid()(board.human(4000), board.judged(skill))
    assert [each.model for each in found.disagreements] == ["m09"]
    (named,) = found.disagreements
    assert named.gap == pytest.approx(-400, abs=150)
    assert named.chance < 0.05
    alarms = 0
    for seed in range(8):
        board = Board(seed + 50, n=10, battles=1500, error=40)
        alarms += bool(Hybrid()(board.human(1000), board.judged()).disagreements)
    assert alarms <= 1


def test_the_exchange_rate_by_hand() -> None:
    """A judge known to err by sd (and to be noisy) leaves as much variance as c / sd² votes."""
    board = Board(8, battles=20_000, error=20)
    found = Hybrid()(board.human(8000), board.judged())
    people = found.people
    single = np.median([people[m].extra["se"] ** 2 * people[m].n_battles for m in board.names])
    noise = np.median([found.judge[m].extra["se"] ** 2 for m in board.names])
    expected = single / (found.error.sd**2 + found.slope**2 * noise)
    assert found.worth.votes == pytest.approx(expected, rel=1e-6)
    assert found.worth.low < found.worth.votes < found.worth.high
    assert f"worth about {round(expected):,} votes per model" in str(found.worth)


def test_names_sides_and_input() -> None:
    """Renaming models renames ratings, swapping every battle's sides changes nothing."""
    board = Board(9, battles=3000)
    logs = human, judged = board.human(900), board.judged()
    before = [each.outcome.copy() for each in logs]
    first = Hybrid(min_battles=20)(human, judged)
    plain = json.loads(json.dumps(first.as_dict(), allow_nan=False))
    assert (plain["method"], plain["settings"]["min_battles"]) == ("hybrid", 20)
    assert {"worth", "disagreements", "left_out", "effective_sample"} <= plain.keys()
    best, worst = (first.ratings.models.index(first.ratings.order[i]) for i in (0, -1))
    assert claims.above(first.ratings)[best, worst] > 0.99
    assert Hybrid(min_battles=20)(human, judged).as_dict() == first.as_dict()
    turned = [
        replace(each, a=each.b, b=each.a, outcome=(1 - each.outcome).astype(np.int8))
        for each in logs
    ]
    other = tuple(f"x{11 - i:02d}" for i in range(12))
    renamed = [BattleLog.from_battles(replace(x, models=other).to_battles()) for x in logs]
    for both, names in ((turned, board.names), (renamed, other)):
        found = Hybrid(min_battles=20)(*both).ratings
        for model, name in zip(board.names, names, strict=True):
            assert found[name].rating == pytest.approx(first.ratings[model].rating, abs=1e-5)
            assert found[name].ci_low == pytest.approx(first.ratings[model].ci_low, abs=1e-5)
    for log, outcome in zip(logs, before, strict=True):
        assert np.array_equal(log.outcome, outcome)


def test_a_center_of_ones_own() -> None:
    """Relative to 11 others a model is 12/11 as far; what has no meaning here is refused."""
    board = Board(13)
    human, judged = board.human(900), board.judged()
    plain = Hybrid()(human, judged)
    others = tuple(m for m in board.names if m != "m04")
    moved = Hybrid(method=BradleyTerry(center_on=others))(human, judged)
    for one, other in ((plain.people, moved.people), (plain.ratings, moved.ratings)):
        for name in ("rating", "ci_low", "ci_high"):
            before, after = (getattr(each["m04"], name) - 1000 for each in (one, other))
            assert after == pytest.approx(before * 12 / 11, abs=1e-6), name
        assert other["m04"].extra["se"] == pytest.approx(one["m04"].extra["se"] * 12 / 11)
        assert claims.gaps(other).low == pytest.approx(claims.gaps(one).low, abs=1e-6)
        assert np.mean([other[m].rating for m in others]) == pytest.approx(1000)
    by = [plain.by_judge("m04"), moved.by_judge("m04")]
    assert by[1] - 1000 == pytest.approx((by[0] - 1000) * 12 / 11)
    with pytest.raises(RatingError, match="center_on: oak: not among the models with 10 human"):
        Hybrid(method=BradleyTerry(center_on=("m01", "oak")))(human, judged)
    board = Board(11, battles=3000)
    human, judged = board.human(900), board.judged()
    few = without(judged, *board.names[4:])
    with pytest.raises(RatingError, match=r"5 models must have verdicts and 10 human .* found 4"):
        Hybrid()(human, few)
    strangers = replace(judged, models=tuple(f"x{i:02d}" for i in range(12)))
    with pytest.raises(RatingError, match=r"share no model: people voted on m00, .* on x00, x01"):
        Hybrid()(human, strangers)
    settings: list[tuple[dict[str, Any], str]] = [
        ({"min_battles": 0}, "min_battles must be 1 or more, not 0"),
        ({"method": BradleyTerry(ties="davidson")}, "ties 'half'"),
        ({"method": BradleyTerry(interval="percentile")}, "interval 'sandwich'"),
    ]
    for wrong, why in settings:
        with pytest.raises(ValueError, match=why):
            Hybrid(**wrong)
