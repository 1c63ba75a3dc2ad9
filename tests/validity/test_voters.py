"""Voters against the others: e-values that are fair to honest voters, and whom they find."""

import csv
import gzip
from dataclasses import replace
from itertools import product
from math import log
from operator import itemgetter
from pathlib import Path

import numpy as np
import pytest

from arena_kit import Battle, BattleLog, BradleyTerry, Outcome, RatingError, read_battles
from arena_kit.battles.log import Labels
from arena_kit.validity.voters import (
    EITHER_WAY,
    GRID,
    Floats,
    LeaveOneVoterOut,
    NullShifts,
    Rule,
    ShiftLikelihoods,
    e_bh,
    estimate_null,
    voter_tests,
)
from tests.samples import ROOT

SKILLS = {"ash": 0.6, "beech": 0.3, "cherry": 0.0, "dogwood": -0.3, "elder": -0.6}


def of_voter(voter: str, a: str, b: str, winner: Outcome, question: str = "") -> Battle:
    return Battle(model_a=a, model_b=b, winner=winner, question_id=question or None, voter=voter)


def crowd(voters: int = 30, votes: int = 60, seed: int = 0, taste: float = 0.0) -> BattleLog:
    """Honest voters who all see the same skills, but for tastes of this SD (in log odds)."""
    rng, names, battles = np.random.default_rng(seed), list(SKILLS), []
    liked = taste * np.random.default_rng([seed, 1]).standard_normal((voters, len(SKILLS)))
    seen = np.array([*SKILLS.values()]) + liked
    for voter, n in product(range(voters), range(votes)):
        a, b = rng.choice(len(names), 2, replace=False)
        won = rng.random() < 1 / (1 + np.exp(seen[voter, b] - seen[voter, a]))
        winner = Outcome.MODEL_A if won else Outcome.MODEL_B
        battles.append(of_voter(f"v{voter:02}", names[a], names[b], winner, f"q{voter}-{n}"))
    return BattleLog.from_battles(battles)


def shifts(won: object, gap: Floats, keys: object = 0) -> ShiftLikelihoods:
    """Likelihoods of votes with these log odds, by default those of one group."""
    one = np.ones(len(gap))
    return ShiftLikelihoods.of(np.asarray(keys * one, np.int64), np.asarray(won), gap, one, one)


def test_likelihoods_by_hand() -> None:
    """1/16 by hand, e-BH finds two of three; the e-value has a mean of 1 at any look."""
    table = shifts([True, True, False], np.array([0.0, 0.0, log(3)])).table
    assert table[0, GRID == 0] == pytest.approx(log(1 / 16))
    always = (1 / (1 + np.exp(-6))) ** 2 / (1 + np.exp(6 + log(3)))
    assert table[0, -1] == pytest.approx(log(always))
    out, needed = e_bh(np.log([5.0, 1000.0, 70.0]), 0.05)
    assert (out.tolist(), np.exp(needed)) == ([False, True, True], pytest.approx(30))
    nobody, needed = e_bh(np.log([5.0, 50.0, 1.0]), 0.05)
    assert (nobody.any(), np.exp(needed)) == (False, pytest.approx(60))
    gap, null = np.linspace(-1.5, 2.0, 10), NullShifts(0.1, 0.5)
    outcomes = np.array(list(product([True, False], repeat=10)))
    odds = np.where(outcomes, 1.0, -1.0)[:, :, None] * (gap[:, None] + GRID)
    likely = np.exp(-np.logaddexp(0, -odds).sum(axis=1)) @ null.weights
    assert likely.sum() == pytest.approx(1)
    looks = []
    for n in range(1, 11):
        keys = np.repeat(np.arange(len(outcomes)), n)
        some = shifts(outcomes[:, :n].ravel(), np.tile(gap[:n], len(outcomes)), keys)
        looks.append(np.exp(some.log_e_value(EITHER_WAY, null)))
        assert likely @ looks[-1] == pytest.approx(1)
    for bar in (5, 20):
        ever = float(likely @ (np.max(looks, axis=0) >= bar))
        assert float(likely @ (looks[-1] >= bar)) <= ever <= 1 / bar


def test_the_spread_of_taste_is_found() -> None:
    """A spread of 0.5 is found; gaps without a voter are those of a refit."""
    rng = np.random.default_rng(3)
    keys, zero = np.repeat(np.arange(300), 40), np.zeros(12_000)
    won = rng.random(len(keys)) < 1 / (1 + np.exp(-rng.normal(0, 0.5, 300)[keys]))
    found, odd = (
        estimate_null(shifts(each, zero, keys), EITHER_WAY, centered=True).spread
        for each in (won, won | (keys < 6))
    )
    assert found == pytest.approx(0.5, abs=0.12)
    assert odd <= found * 1.35
    votes = crowd(voters=6, votes=40)
    voter = votes.voter.codes.astype(np.int64)
    for out, code in product((-1, 2), range(6)):
        gaps = LeaveOneVoterOut(votes).gaps(voter, voter == out)
        strength = BradleyTerry().strengths(votes.select((voter != code) & (voter != out)))
        mine = voter == code
        naive = strength[votes.a[mine]] - strength[votes.b[mine]]
        assert gaps[mine] == pytest.approx(naive, abs=1e-8)
    alone = [of_voter("v00", "fir", "ash", Outcome.MODEL_A)] * 12
    log = BattleLog.from_battles([*votes.to_battles(), *alone])
    codes = log.voter.codes.astype(np.int64)
    assert np.isfinite(LeaveOneVoterOut(log).gaps(codes, np.zeros(len(log), bool))).all()


def test_the_planted_ones_of_the_sample() -> None:
    """Planted pushers and the side-taker stand out by their test, and nobody else of 65."""
    tests = voter_tests(read_battles(ROOT / "sample" / "arena" / "pushed_votes.csv.gz"))
    found = {t.voter: (t.reasons[0].rule, t.reasons[0].about) for t in tests.flagged}
    pushers = {f"simulated-{n}": (Rule.PUSH, "elm") for n in (61, 62, 63)}
    assert found == pushers | {"simulated-64": (Rule.SIDE, "")}


def test_nobody_of_an_honest_crowd_in_any_week() -> None:
    """In two honest crowds, reviewed three times each, nobody is accused."""
    for seed in range(2):
        votes, turn = crowd(voters=16, seed=seed, taste=0.4), np.tile(np.arange(60), 16)
        for week in (1, 2, 4):
            tests = voter_tests(votes.select(turn < 15 * week))
            assert not tests.flagged
        assert np.median([t.sharpness for t in tests.tests]) == pytest.approx(1, abs=0.25)


def test_a_pusher_among_few_whichever_side_comes_first() -> None:
    """One pusher of thirty stands out, whichever side is called the first."""
    honest = crowd(votes=120)
    names, elder = honest.voter.values(), honest.models.index("elder")
    first, second = ((names == "v07") & (side == elder) for side in (honest.a, honest.b))
    outcome = np.where(first, 0, np.where(second, 1, honest.outcome)).astype(np.int8)
    named = [None if name == "v03" else str(name) for name in names]
    votes = replace(honest, outcome=outcome, voter=Labels.of(named))
    turned = replace(votes, a=votes.b, b=votes.a, outcome=(1 - votes.outcome).astype(np.int8))
    one, two = voter_tests(votes), voter_tests(turned)
    assert (len(one.tests), one.unnamed) == (29, 120)
    assert [test.voter for test in one.flagged] == ["v07"]
    reason = one.flagged[0].reasons[0]
    assert (reason.about, reason.text[:9]) == ("elder", "elder won")
    turned_evidence = {test.voter: test.evidence for test in two.tests}
    for test in one.tests:
        assert turned_evidence[test.voter] == pytest.approx(test.evidence, abs=1e-6)


def test_speed() -> None:
    """A second for four hundred words stands out, for ten not; two voters cannot be tested."""
    votes = crowd(voters=8, votes=30)
    seconds = np.where(votes.voter.values() == "v05", 1.0, 60.0)
    many, few = (
        voter_tests(votes, seconds=seconds, words=np.full(len(votes), words)).flagged
        for words in (400.0, 10.0)
    )
    assert [(test.voter, test.reasons[0].rule) for test in many] == [("v05", Rule.SPEED)]
    assert many[0].reasons[0].text.startswith("30 of 30 votes were faster")
    assert not few
    for votes in (replace(crowd(4, 9), voter=None), crowd(2, 9)):
        with pytest.raises(RatingError):
            voter_tests(votes)


def test_real_voters(data: Path) -> None:
    """Of LLMFAO's 124 voters at most one in a hundred stands out."""
    outcome = {"left": Outcome.MODEL_A, "right": Outcome.MODEL_B, "tie": Outcome.TIE}
    with gzip.open(data / "llmfao" / "crowd-comparisons.csv.gz", "rt") as lines:
        cells = itemgetter("worker", "left", "right", "winner", "prompt")
        rows = (cells(row) for row in csv.DictReader(lines))
        votes = BattleLog.from_battles(of_voter(*r[:3], outcome[r[3]], r[4]) for r in rows)
    tests = voter_tests(votes)
    assert len(tests.tests) + tests.too_few == 124
    assert len(tests.flagged) <= 1
