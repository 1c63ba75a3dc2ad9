"""Claims: who is above whom, which ranks are possible, who would win."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import lognorm, norm, studentized_range
from scipy.stats import t as student_t

from arena_kit import Battle, BattleLog, BradleyTerry, Outcome, PermutationElo
from arena_kit.rating.claims import claims
from tests.samples import log_of, won
from tests.samples import rated_by_hand as board

UNIT = 400 / math.log(10)
T_39 = 2.022691  # from tables


def two(wins: int, losses: int) -> BattleLog:
    """So many wins and losses of x against y, each on a question of its own."""
    return log_of(won("x", "y", wins, losses))


def league(skill: Sequence[float], rounds: int, *, seed: int = 0, ties: float = 0.1) -> BattleLog:
    """Every pair of models meets on every question."""
    rng = np.random.default_rng(seed)
    battles = []
    for q in range(rounds):
        for i in range(len(skill)):
            for j in range(i):
                chance = 1 / (1 + math.exp(skill[j] - skill[i]))
                name = "model_a" if rng.random() < chance else "model_b"
                winner = Outcome("tie" if rng.random() < ties else name)
                sides = {"model_a": f"m{i}", "model_b": f"m{j}"}
                battles.append(Battle(**sides, winner=winner, question_id=f"q{q}"))
    return BattleLog.from_battles(battles)


SANDWICH = BradleyTerry()
BOOTSTRAP = BradleyTerry(interval="percentile", resamples=120)
ELO = PermutationElo(n_perms=20, evidence_replicates=60, evidence_orders=3, ties="half")
LEAGUE = league([0.0, 0.3, 0.5, 1.4], 25)
METHODS = [SANDWICH, BOOTSTRAP, ELO]
WIDER = 2.0638986 / 1.9599640 * math.sqrt(25 / 24)  # 25 questions; t from tables


def ids(method: object) -> str:
    return f"{type(method).__name__} {getattr(method, 'interval', '')}"


@pytest.mark.parametrize("method", [SANDWICH, BradleyTerry(prior=0)])
def test_two_models_by_hand(method: BradleyTerry) -> None:
    """30:10 has the gap 400 log10(3), the error sqrt(1/30 + 1/10) and Student's t with 39 df."""
    found = claims.gaps(method(two(30, 10)))
    gap = 400 * math.log10(3)
    error = UNIT * math.sqrt((1 / 30 + 1 / 10) * 40 / 39)
    assert found.gap[0, 1] == pytest.approx(gap, abs=1e-8)
    assert found.low[0, 1] == pytest.approx(gap - T_39 * error, abs=1e-4)
    assert found.high[0, 1] == pytest.approx(gap + T_39 * error, abs=1e-4)
    root = math.sqrt(2 * (30 * math.log(1.5) + 10 * math.log(0.5)) * 39 / 40)
    assert found.above[0, 1] == pytest.approx(student_t.cdf(root, 39), abs=1e-7)


@pytest.mark.parametrize("method", METHODS, ids=ids)
def test_rank_ranges_by_counting(method: BradleyTerry | PermutationElo) -> None:
    """Surely above a model are those whose gap to it excludes 0."""
    found = method(LEAGUE)
    between, ranges = claims.gaps(found), claims.single_rank_ranges(found)
    for i, model in enumerate(found.models):
        better = sum(between.low[j, i] > 0 for j in range(4))
        worse = sum(between.low[i, j] > 0 for j in range(4))
        assert ranges[model] == (1 + better, 4 - worse)
        assert 1 + better <= 1 + found.order.index(model) <= 4 - worse


@pytest.mark.parametrize("method", [SANDWICH, BOOTSTRAP], ids=ids)
@pytest.mark.parametrize("baseline", ["m0", "m3"])
def test_claims_do_not_depend_on_the_baseline(method: BradleyTerry, baseline: str) -> None:
    """Whichever model is pinned, the same is said about every two of them."""
    one, other = method(LEAGUE), replace(method, baseline=baseline)(LEAGUE)
    for here, there in zip(claims.gaps(one), claims.gaps(other), strict=True):
        np.testing.assert_allclose(here, there, atol=1e-6)
    assert claims.single_rank_ranges(one) == claims.single_rank_ranges(other)


@pytest.mark.parametrize("method", [BOOTSTRAP, replace(BOOTSTRAP, ties="davidson"), ELO], ids=ids)
def test_chances_are_shares_of_resamples(method: BradleyTerry | PermutationElo) -> None:
    """Counted one by one: a chance is the share of resamples in which a model is above another."""
    found = replace(method(LEAGUE), profile=None)
    between = claims.gaps(found)
    for i in range(4):
        for j in range(4):
            gap = between.gap[i, j]
            lead = [gap + WIDER * (row[i] - row[j] - gap) for row in found.replicates]
            share = sum((d > 0) + 0.5 * (d == 0) for d in lead) / len(lead)
            assert between.above[i, j] == pytest.approx(share, abs=1e-12)
            low, high = np.quantile(lead, [0.025, 0.975])
            assert between.low[i, j] == pytest.approx(low, abs=1e-4)
            assert between.high[i, j] == pytest.approx(high, abs=1e-4)


def test_resamples_without_one_of_the_two_do_not_count() -> None:
    """Where a resample did not rate a model, it says nothing about its gaps."""
    found = replace(BOOTSTRAP(LEAGUE), profile=None)
    holes = found.replicates.copy()
    holes[::3, 1] = np.nan
    holes[5] = np.nan
    between = claims.gaps(replace(found, replicates=holes))
    for i, j in ((1, 2), (0, 3), (2, 1)):
        gap = between.gap[i, j]
        lead = gap + WIDER * (holes[:, i] - holes[:, j] - gap)
        lead = lead[~np.isnan(lead)]
        assert between.above[i, j] == pytest.approx((lead > 0).mean(), abs=1e-12)
        assert between.low[i, j] == pytest.approx(np.quantile(lead, 0.025), abs=1e-4)


@pytest.mark.parametrize("method", METHODS, ids=ids)
def test_a_model_on_few_questions_has_no_claims(method: BradleyTerry | PermutationElo) -> None:
    """A model seen on nine questions has a gap and nothing about it."""
    few = [
        Battle(model_a="new", model_b="m1", winner="model_a", question_id=f"q{q}")  # type: ignore[arg-type]
        for q in range(9)
    ]
    rows = [*league([0.0, 2.0, 4.0], 60, ties=0).to_battles(), *few]
    found = method(BattleLog.from_battles(rows))
    between, new = claims.gaps(found), found.models.index("new")
    for each in between[1:]:
        assert np.isnan(each[new]).all()
        assert np.isnan(each[:, new]).all()
        assert not np.isnan(np.delete(np.delete(each, new, 0), new, 1)).any()
    assert np.isfinite(between.gap).all()
    assert claims.single_rank_ranges(found) == {
        "m2": (1, 2), "m1": (2, 3), "m0": (3, 4), "new": None,
    }  # fmt: skip


def test_unanimous_evidence_is_not_certainty() -> None:
    """40 wins of 40 exclude no model that wins 95 %; each further win adds to the deviate."""
    tied = claims.gaps(SANDWICH(replace(two(40, 0), outcome=np.full(40, 2, np.int8))))
    assert math.isnan(tied.low[0, 1]) or tied.low[0, 1] < 0 < tied.high[0, 1]
    found = claims.gaps(SANDWICH(two(40, 0)))
    assert found.gap[0, 1] == pytest.approx(400 * math.log10(40.5 / 0.5), abs=1e-8)
    assert 0.95**40 > 0.05
    gap = 400 * math.log10(0.95 / 0.05)
    assert math.isnan(found.low[0, 1]) or found.low[0, 1] < gap
    for lost in range(5):
        row = [claims.deviates(BradleyTerry()(two(won, lost)))[0, 1] for won in range(10, 30, 4)]
        assert (np.diff(row) > 0).all()
    turned = [claims.deviates(BradleyTerry()(two(30 - lost, lost)))[0, 1] for lost in range(13)]
    assert (np.diff(turned) < 0).all()


def test_neighbours_are_decided_from_2_807_standard_errors_on() -> None:
    """39.70 of errors 14.14 decide neighbours, 44.24 ends of three; the summary is plain JSON."""
    for gap, clear in ((39.6, False), (39.8, True)):
        found = board({"x": gap, "y": 0.0})
        assert claims.gap_errors(found)[0, 1] == pytest.approx(math.sqrt(200))
        assert claims.decided(found).tolist() == [[False, clear], [False, False]]
        assert claims.neighbours(found)[0].state == ("decided" if clear else "unresolved")
    for gap, clear in ((44.2, False), (44.3, True)):
        decided = claims.decided(board({"x": gap, "y": gap / 2, "z": 0.0}))
        assert (decided[0, 1], decided[0, 2]) == (False, clear)
    ratings = {"a": 300.0, "b": 299.0, "c": 0.0, "new": 5.0}
    found = claims.summary(board(ratings, {"a": 1, "b": 1, "c": 1, "new": math.nan}), margin=10.0)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert (found["about"], found["first"]) == ("similar_prompts", ["a", "b"])
    assert found["tiers"] == [["a", "b"], ["c"]]
    assert [pair["state"] for pair in found["neighbours"]] == ["equivalent", "decided"]
    assert found["ranks_at_once"] == {"a": [1, 3], "b": [1, 3], "c": [3, 4]}
    assert found["unplaced"] == ["new"]
    told = "Adjacent pairs decided: 1 of 2, equivalent within 10 points: 1."
    assert found["sentences"][1].startswith(told)


def test_how_many_more_battles_decide() -> None:
    """A gap of one error, shrunk, is decided at 50 % by so many; 5 ± 1.414 lies within 8.97."""
    found = board({"x": math.sqrt(200), "y": 0.0})
    (pair,) = claims.neighbours(found)
    gap, m, root = math.sqrt(200), 1 + pair.more / 1000, np.linspace(0.5, 2000, 8000)
    prior = lognorm.pdf(root, 0.7, scale=0.75 * 400 / math.log(10))
    weights = prior * norm.pdf(gap, 0, np.sqrt(2 * root**2 + 200))
    true = 2 * np.average(root, weights=weights) ** 2
    kept = true / (true + 200)
    further = norm(gap * kept, math.sqrt(200 * kept + 200 / (m - 1)))  # the gap in further battles
    bar = studentized_range.ppf(0.995, 2, 1e6) * 10 / math.sqrt(m)
    high, low = ((side * bar - gap / m) / (1 - 1 / m) for side in (1, -1))
    chance = further.sf(high) + further.cdf(low)
    assert chance == pytest.approx(0.5, abs=0.01)
    assert claims.neighbours(found, power=0.8)[0].more is None
    assert "the next, x above y, needs about 6,700 further battles" in claims.sentences(found)[1]
    asked = replace(found, n_questions=100)
    assert claims.neighbours(asked)[0].prompts == math.ceil(pair.more / 10)
    assert "needs about 670 further prompts for 50 % power" in claims.sentences(asked)[1]
    found = board({"x": 5.0, "y": 0.0}, 1.0)
    assert not claims.equivalent(found, 8.9).any()
    assert claims.equivalent(found, 9.1).tolist() == [[False, True], [True, False]]
    near = board({"x": 2.0, "y": 0.0}, 1.0)
    assert claims.neighbours(near, margin=6.0)[0].state == "equivalent"
    assert claims.neighbours(near)[0].state == "unresolved"
    with pytest.raises(ValueError, match="margin must be 0 or more, not -1"):
        claims.equivalent(found, -1)


def test_ranks_at_once_take_wider_intervals_than_ranks_of_one() -> None:
    """2.2 errors decide at one look, 2.81 at eighty; what follows is decided; tiers are cut."""
    step = math.sqrt(200)
    for errors, single, once in ((2.2, (1, 1), (1, 2)), (2.9, (1, 1), (1, 1))):
        found = board({"x": errors * step, "y": 0.0})
        assert claims.single_rank_ranges(found)["x"] == single
        assert claims.rank_ranges(found)["x"] == once
        assert claims.rank_ranges(replace(found, settings={}))["x"] == (1, 1)
    found = SANDWICH(league([0.0, 0.1, 0.2], 12))
    values = {"m0": (-100.0, -40.0), "m1": (0.0, 30.0), "m2": (100.0, 40.0)}
    reference, shrunk = (
        replace(found, ratings=tuple(replace(r, rating=values[r.model][k]) for r in found.ratings))
        for k in (0, 1)
    )
    assert claims.shrinkage(shrunk, reference) == pytest.approx(0.4)
    spread = np.array([[100.0, 0.0, -100.0], [0.0, 0.0, 0.0], [-100.0, 0.0, 100.0]])
    found = replace(board({"a": 58.0, "b": 29.0, "c": 0.0}), covariance=spread)
    np.testing.assert_allclose(claims.gap_errors(found)[0], [0, 10, 20])
    assert claims.decided(found)[0].tolist() == [False, True, True]
    alone = replace(found, covariance=4 * spread)
    assert not claims.decided(alone).any()
    found = board(
        {"a": 310.0, "b": 300.0, "c": 105.0, "d": 100.0, "new": 200.0},
        {"a": 10.0, "b": 10.0, "c": 10.0, "d": 10.0, "new": math.nan},
    )
    assert claims.tiers(found) == (("a", "b"), ("c", "d"))
    assert claims.may_be_first(found) == ("a", "b")
    states = [pair.state for pair in claims.neighbours(found)]
    assert states == ["unresolved", "decided", "unresolved"]
    told = "First place: a and b are not separable. Too little evidence: new."
    assert claims.sentences(found)[0] == told


@pytest.mark.parametrize(("wins", "end"), [(10, 213), (30, 456)])
def test_a_perfect_record_is_decided_and_its_interval_has_no_upper_end(wins: int, end: int) -> None:
    """n–0 has likelihood p^n: 2 n ln(1 + e^-gap) stays below t² from `end` points on."""
    for looks in claims.LEVELS:
        assert claims.decided(BradleyTerry(looks=looks)(two(wins, 0)))[0, 1]
    limit = student_t.ppf(0.975, wins - 1) ** 2
    exact = -math.log(math.expm1(limit / (2 * wins))) * 400 / math.log(10)
    found = BradleyTerry(baseline="y")(two(wins, 0))
    row = found["x"]
    assert (row.ci_low, row.ci_high) == (pytest.approx(1000 + exact, abs=1), None)
    assert row.ci_low == pytest.approx(1000 + end, abs=1)
    assert row.no_interval == "won every battle, so its interval has no upper end"
    between = claims.gaps(found)
    assert (round(between.low[0, 1]), between.high[0, 1]) == (round(row.ci_low - 1000), math.inf)


def test_the_deviate_is_the_root_of_the_profile_likelihood() -> None:
    """By a general optimizer: the fall of the likelihood where two models are one."""
    log = league([0.0, 0.3, 1.2, 1.6], 30)
    found = replace(SANDWICH, cluster="battle")(log)
    score = np.where(log.outcome == 0, 1.0, np.where(log.outcome == 1, 0.0, 0.5))

    def loss(theta: NDArray[np.float64]) -> float:
        gap = theta[log.a] - theta[log.b]
        return float((np.logaddexp(0, -gap) + (1 - score) * gap).sum())

    peak = minimize(loss, np.zeros(4)).fun
    deviate = claims.deviates(found)
    error = np.sqrt(found.profile.design())
    for i, j in (
        (i, j) for i in range(4) for j in range(4) if found.values()[i] > found.values()[j]
    ):
        same = minimize(lambda t, i=i, j=j: loss(np.where(np.arange(4) == j, t[i], t)), np.zeros(4))
        root = math.sqrt(2 * (same.fun - peak)) / error[i, j]
        expected = norm.isf(student_t.sf(root, found.profile.freedom[i, j]))
        assert deviate[i, j] == pytest.approx(expected, abs=1e-3)
