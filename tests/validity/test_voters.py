"""Voters against the others: e-values that are fair to honest voters, and whom they find."""

from __future__ import annotations

import csv
import gzip
from dataclasses import replace
from itertools import product
from math import log
from pathlib import Path

import numpy as np
import pytest

from arena_kit import Battle, BattleLog, BradleyTerry, Outcome, RatingError, read_battles
from arena_kit.battles.log import Labels
from arena_kit.validity.shifts import (
    EITHER_WAY,
    GRID,
    Floats,
    NullShifts,
    ShiftLikelihoods,
    estimate_null,
)
from arena_kit.validity.voters import LeaveOneVoterOut, Rule, e_bh, voter_tests
from tests.samples import ROOT

SKILLS = {"ash": 0.6, "beech": 0.3, "cherry": 0.0, "dogwood": -0.3, "elder": -0.6}


def crowd(voters: int = 30, votes: int = 60, seed: int = 0, taste: float = 0.0) -> BattleLog:
    """Honest voters who all see the same skills, but for tastes of this SD (in log odds)."""
    rng = np.random.default_rng(seed)
    liked = taste * np.random.default_rng([seed, 1]).standard_normal((voters, len(SKILLS)))
    seen = np.array([*SKILLS.values()]) + liked
    names, battles = list(SKILLS), []
    for voter in range(voters):
        for n in range(votes):
            a, b = rng.choice(len(names), 2, replace=False)
            won = rng.random() < 1 / (1 + np.exp(seen[voter, b] - seen[voter, a]))
            battles.append(
                Battle(
                    model_a=names[a],
                    model_b=names[b],
                    winner=Outcome.MODEL_A if won else Outcome.MODEL_B,
                    question_id=f"q{voter}-{n}",
                    voter=f"v{voter:02}",
                )
            )
    return BattleLog.from_battles(battles)


def pushed(log: BattleLog, voter: str, model: str) -> BattleLog:
    """The same votes, those of a voter always for a model where it is shown."""
    place, mine = log.models.index(model), log.voter.values() == voter
    outcome = np.where(
        mine & (log.a == place), 0, np.where(mine & (log.b == place), 1, log.outcome)
    )
    return replace(log, outcome=outcome.astype(np.int8))


def shifts(won: object, gap: Floats, keys: object = 0) -> ShiftLikelihoods:
    """Likelihoods of votes with these log odds, by default those of one group."""
    one = np.ones(len(gap))
    return ShiftLikelihoods.of(np.asarray(keys * one, np.int64), np.asarray(won), gap, one, one)


class TestEValues:
    """E-values whose mean is 1 for honest voters."""

    def test_by_hand(self) -> None:
        """Two votes won at even odds and one lost at odds of 3:1: a shift of 0 has the likelihood
        1/2 · 1/2 · 1/4.
        """
        table = shifts([True, True, False], np.array([0.0, 0.0, log(3)])).table
        assert table[0, GRID == 0] == pytest.approx(log(1 / 16))
        always = (1 / (1 + np.exp(-6))) ** 2 / (1 + np.exp(6 + log(3)))
        assert table[0, -1] == pytest.approx(log(always))

    def test_a_mean_of_one_at_any_look(self) -> None:
        """Over all outcomes of twelve votes, each as likely as the null hypothesis makes it, the
        mean of the e-value is 1 after every vote, and the probability that it ever reaches 5 (or
        20) is at most 1/5 (1/20): Ville's inequality.
        """
        gap, null = np.linspace(-1.5, 2.0, 12), NullShifts(0.1, 0.5)
        outcomes = np.array(list(product([True, False], repeat=12)))
        odds = np.where(outcomes, 1.0, -1.0)[:, :, None] * (gap[:, None] + GRID)
        likely = np.exp(-np.logaddexp(0, -odds).sum(axis=1)) @ null.weights
        assert likely.sum() == pytest.approx(1)
        looks = []
        for n in range(1, 13):
            keys = np.repeat(np.arange(len(outcomes)), n)
            some = shifts(outcomes[:, :n].ravel(), np.tile(gap[:n], len(outcomes)), keys)
            looks.append(np.exp(some.log_e_value(EITHER_WAY, null)))
            assert likely @ looks[-1] == pytest.approx(1)
        for bar in (5, 20):
            ever = float(likely @ (np.max(looks, axis=0) >= bar))
            assert float(likely @ (looks[-1] >= bar)) <= ever <= 1 / bar

    def test_the_spread_of_taste_is_found(self) -> None:
        """Of 300 groups with 40 votes each and tastes of SD 0.5 the spread found is near 0.5, and
        six that always vote one way hardly widen it.
        """
        rng = np.random.default_rng(3)
        keys, zero = np.repeat(np.arange(300), 40), np.zeros(12_000)
        won = rng.random(len(keys)) < 1 / (1 + np.exp(-rng.normal(0, 0.5, 300)[keys]))
        found, odd = (
            estimate_null(shifts(each, zero, keys), EITHER_WAY, centered=True).spread
            for each in (won, won | (keys < 6))
        )
        assert found == pytest.approx(0.5, abs=0.12)
        assert odd <= found * 1.35

    def test_e_bh_by_hand(self) -> None:
        """Three voters at level 0.05: 1,000 and 70 pass 60 and 30, and 5 does not pass 20, so two
        stand out, at 30; of 5, 50 and 1 none passes.
        """
        out, needed = e_bh(np.log([5.0, 1000.0, 70.0]), 0.05)
        assert (out.tolist(), np.exp(needed)) == ([False, True, True], pytest.approx(30))
        nobody, needed = e_bh(np.log([5.0, 50.0, 1.0]), 0.05)
        assert (nobody.any(), np.exp(needed)) == (False, pytest.approx(60))


class TestRatingsWithout:
    """Ratings that a voter has no say in."""

    @pytest.mark.parametrize("out", [-1, 2])
    def test_are_those_of_a_refit(self, out: int) -> None:
        """For every voter the gaps are those of Bradley–Terry on the others' votes, without those
        that are out for everybody.
        """
        votes = crowd(voters=6, votes=40)
        voter = votes.voter.codes.astype(np.int64)
        gaps = LeaveOneVoterOut(votes).gaps(voter, voter == out)
        for code in range(6):
            strength = BradleyTerry().strengths(votes.select((voter != code) & (voter != out)))
            mine = voter == code
            expected = strength[votes.a[mine]] - strength[votes.b[mine]]
            assert gaps[mine] == pytest.approx(expected, abs=1e-8)

    def test_exist_where_only_one_voter_saw_a_model(self) -> None:
        """Where nobody else voted on a model, its gaps are finite all the same."""
        alone = Battle(model_a="fir", model_b="ash", winner=Outcome.MODEL_A, voter="v00")
        log = BattleLog.from_battles([*crowd(voters=4, votes=30).to_battles(), *[alone] * 12])
        codes = log.voter.codes.astype(np.int64)
        assert np.isfinite(LeaveOneVoterOut(log).gaps(codes, np.zeros(len(log), bool))).all()


class TestVoters:
    """Who stands out, and who does not."""

    def test_the_planted_ones_of_the_sample(self) -> None:
        """Pushers and the one who prefers the left side stand out by their test, and nobody else
        of 65.
        """
        tests = voter_tests(read_battles(ROOT / "sample" / "arena" / "pushed_votes.csv.gz"))
        found = {t.voter: (t.reasons[0].rule, t.reasons[0].about) for t in tests.standing_out}
        pushers = {f"simulated-{n}": (Rule.PUSH, "elm") for n in (61, 62, 63)}
        assert found == pushers | {"simulated-64": (Rule.SIDE, "")}

    def test_nobody_of_an_honest_crowd_in_any_week(self) -> None:
        """In none of three honest crowds with tastes, each reviewed four times with all votes so
        far, is anybody ever accused; at a level of 5 % it would be one crowd in twenty at most.
        """
        for seed in range(3):
            votes = crowd(voters=20, seed=seed, taste=0.4)
            turn = np.tile(np.arange(60), 20)
            for week in range(1, 5):
                tests = voter_tests(votes.select(turn < 15 * week))
                assert not tests.standing_out
            assert np.median([t.sharpness for t in tests.tests]) == pytest.approx(1, abs=0.25)

    def test_a_pusher_among_few_whichever_side_comes_first(self) -> None:
        """One of thirty who always votes for the worst model stands out by it, and which side is
        called the first changes no evidence.
        """
        votes = pushed(crowd(votes=120), "v07", "elder")
        turned = replace(votes, a=votes.b, b=votes.a, outcome=(1 - votes.outcome).astype(np.int8))
        one, two = voter_tests(votes), voter_tests(turned)
        assert [test.voter for test in one.standing_out] == ["v07"]
        reason = one.standing_out[0].reasons[0]
        assert (reason.about, reason.text[:9]) == ("elder", "elder won")
        turned_evidence = {test.voter: test.evidence for test in two.tests}
        for test in one.tests:
            assert turned_evidence[test.voter] == pytest.approx(test.evidence, abs=1e-6)

    def test_votes_of_nobody_count_for_ratings_alone(self) -> None:
        """Votes without a voter are counted, and nobody is tested for them."""
        votes = crowd(voters=8)
        names = [None if name == "v03" else str(name) for name in votes.voter.values()]
        tests = voter_tests(replace(votes, voter=Labels.of(names)))
        assert (len(tests.tests), tests.unnamed) == (7, 60)

    def test_speed(self) -> None:
        """Of eight voters the one who takes a second for four hundred words stands out by it; with
        ten words to read, a second is enough.
        """
        votes = crowd(voters=8)
        seconds = np.where(votes.voter.values() == "v05", 1.0, 60.0)
        tests = voter_tests(votes, seconds=seconds, words=np.full(len(votes), 400.0))
        assert [test.voter for test in tests.standing_out] == ["v05"]
        reason = tests.standing_out[0].reasons[0]
        assert reason.rule is Rule.SPEED
        assert reason.text.startswith("60 of 60 votes came faster")
        assert not voter_tests(votes, seconds=seconds, words=np.full(len(votes), 10.0)).standing_out

    def test_real_voters(self, data: Path) -> None:
        """Of LLMFAO's 124 voters at most one in a hundred stands out."""
        outcome = {"left": Outcome.MODEL_A, "right": Outcome.MODEL_B, "tie": Outcome.TIE}
        with gzip.open(data / "llmfao" / "crowd-comparisons.csv.gz", "rt") as lines:
            votes = BattleLog.from_battles(
                Battle(
                    model_a=row["left"],
                    model_b=row["right"],
                    winner=outcome[row["winner"]],
                    question_id=row["prompt"],
                    voter=row["worker"],
                )
                for row in csv.DictReader(lines)
            )
        tests = voter_tests(votes)
        assert len(tests.tests) + tests.too_few == 124
        assert len(tests.standing_out) <= 1

    @pytest.mark.parametrize("log", [replace(crowd(voters=4), voter=None), crowd(voters=2)])
    def test_refused(self, log: BattleLog) -> None:
        """Without voters, or with two, nobody can be tested against the others."""
        with pytest.raises(RatingError):
            voter_tests(log)
