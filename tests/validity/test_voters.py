"""Voters against the others: evidence that is fair to honest voters, and what it finds."""

from __future__ import annotations

import csv
import gzip
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from math import log, prod
from pathlib import Path

import numpy as np
import pytest

from arena_kit import Battle, BattleLog, BradleyTerry, Outcome, RatingError, read_battles
from arena_kit.battles.log import Labels
from arena_kit.validity.leans import EITHER_WAY, GRID, Honest, Leans, honest_leans
from arena_kit.validity.left_out import LeftOut
from arena_kit.validity.voter_rules import Rule
from arena_kit.validity.voters import VoterTests, stand_out, voter_tests
from tests.samples import ROOT

MONDAY, MINUTE = datetime(2026, 10, 5, tzinfo=UTC), timedelta(minutes=1)
SKILLS = {"ash": 0.6, "beech": 0.3, "cherry": 0.0, "dogwood": -0.3, "elder": -0.6}
PLANTED = {
    "simulated-61": (Rule.PUSH, "elm"),
    "simulated-62": (Rule.PUSH, "elm"),
    "simulated-63": (Rule.PUSH, "elm"),
    "simulated-64": (Rule.SIDE, ""),
    "simulated-65": (Rule.COPY, "simulated-17"),
}


def crowd(voters: int = 30, votes: int = 60, seed: int = 0, taste: float = 0.0) -> BattleLog:
    """Honest voters who all see the same skills, but for tastes of this SD (in log odds)."""
    rng = np.random.default_rng(seed)
    liked = taste * np.random.default_rng([seed, 1]).standard_normal((voters, len(SKILLS)))
    tastes = [dict(zip(SKILLS, row, strict=True)) for row in liked.tolist()]
    return BattleLog.from_battles(
        Battle(
            model_a=a,
            model_b=b,
            winner=Outcome.MODEL_A
            if rng.random() < _chance(tastes[voter], a, b)
            else Outcome.MODEL_B,
            question_id=f"q{voter}-{n}",
            voter=f"v{voter:02}",
        )
        for voter in range(voters)
        for n in range(votes)
        for a, b in [rng.choice(list(SKILLS), 2, replace=False)]
    )


def _chance(taste: dict[str, float], a: str, b: str) -> float:
    gap = SKILLS[b] + taste[b] - SKILLS[a] - taste[a]
    return float(1 / (1 + np.exp(gap)))


def pushed(log: BattleLog, voter: str, model: str) -> BattleLog:
    """The same votes, those of a voter always for a model where it is shown."""
    assert log.voter is not None
    place = log.models.index(model)
    mine = log.voter.values() == voter
    outcome = np.where(
        mine & (log.a == place), 0, np.where(mine & (log.b == place), 1, log.outcome)
    )
    return replace(log, outcome=outcome.astype(np.int8))


@pytest.fixture(scope="module")
def sample() -> VoterTests:
    return voter_tests(read_battles(ROOT / "sample" / "arena" / "pushed_votes.csv.gz"))


class TestEvidence:
    """Evidence whose mean is 1 for honest voters."""

    def test_by_hand(self) -> None:
        """Two votes won at even odds and one lost at odds of 3:1: a lean of 0 has the likelihood
        1/2 · 1/2 · 1/4, whatever the others are.
        """
        won = np.array([True, True, False])
        gap = np.array([0.0, 0.0, log(3)])
        leans = Leans.of(np.zeros(3, np.int64), won, gap, np.ones(3), np.ones(3))
        assert leans.table[0, GRID == 0] == pytest.approx(log(1 / 16))
        always = (1 / (1 + np.exp(-6))) ** 2 / (1 + np.exp(6 + log(3)))
        assert leans.table[0, -1] == pytest.approx(log(always))

    @pytest.mark.parametrize("spread", [0.2, 1.0])
    def test_honest_votes_have_evidence_one_on_average(self, spread: float) -> None:
        """Over all outcomes of five votes, each as likely as honest taste makes it, the mean of
        the evidence is 1: it is an e-value.
        """
        gap = np.array([-1.0, 0.0, 0.5, 2.0, 0.3])
        honest = Honest(0.1, spread)
        mean = 0.0
        for outcome in product([True, False], repeat=5):
            won = np.array(outcome)
            leans = Leans.of(np.zeros(5, np.int64), won, gap, np.ones(5), np.ones(5))
            likely = sum(
                weight
                * prod(
                    1 / (1 + np.exp(-(g + lean) if w else g + lean))
                    for g, w in zip(gap, won, strict=True)
                )
                for lean, weight in zip(GRID, honest.weights, strict=True)
            )
            mean += likely * np.exp(leans.log_evidence(EITHER_WAY, honest)[0])
        assert mean == pytest.approx(1.0)

    def test_evidence_may_be_looked_at_after_every_vote(self) -> None:
        """Over all outcomes of twelve votes, the probability that an honest voter's evidence ever
        reaches 5 (or 20) at any of twelve looks is at most 1/5 (1/20), which is Ville's inequality,
        while one look at the end would be under it by far: looking often costs no false alarms.
        """
        gap = np.linspace(-1.5, 2.0, 12)
        honest = Honest(0.0, 0.5)
        outcomes = np.array(list(product([True, False], repeat=12)))
        odds = np.where(outcomes, 1.0, -1.0)[:, :, None] * (gap[:, None] + GRID)
        likely = np.exp(-np.logaddexp(0, -odds).sum(axis=1)) @ honest.weights
        assert likely.sum() == pytest.approx(1)
        looks = []
        for n in range(1, 13):
            keys = np.repeat(np.arange(len(outcomes)), n)
            one, gaps = np.ones(len(keys)), np.tile(gap[:n], len(outcomes))
            leans = Leans.of(keys, outcomes[:, :n].ravel(), gaps, one, one)
            looks.append(np.exp(leans.log_evidence(EITHER_WAY, honest)))
            assert likely @ looks[-1] == pytest.approx(1)
        for bar in (5, 20):
            ever = float(likely @ (np.max(looks, axis=0) >= bar))
            assert float(likely @ (looks[-1] >= bar)) <= ever <= 1 / bar

    def test_the_spread_of_taste_is_found(self) -> None:
        """Of 300 groups with 40 votes each and tastes of SD 0.5 the spread found is near 0.5, and
        six that always vote one way hardly widen it.
        """
        rng = np.random.default_rng(3)
        keys = np.repeat(np.arange(300), 40)
        taste = rng.normal(0, 0.5, 300)
        won = rng.random(len(keys)) < 1 / (1 + np.exp(-taste[keys]))
        zero, one = np.zeros(len(keys)), np.ones(len(keys))
        found = honest_leans(Leans.of(keys, won, zero, one, one), EITHER_WAY, centered=True)
        assert found.spread == pytest.approx(0.5, abs=0.12)
        odd = honest_leans(
            Leans.of(keys, won | (keys < 6), zero, one, one), EITHER_WAY, centered=True
        )
        assert odd.spread <= found.spread * 1.35

    def test_e_bh_by_hand(self) -> None:
        """Three voters at level 0.05: evidence of 1,000 and 70 passes 60 and 30, and 5 does not
        pass 20, so two stand out, at 30.
        """
        out, needed = stand_out(np.log([5.0, 1000.0, 70.0]), 0.05)
        assert out.tolist() == [False, True, True]
        assert np.exp(needed) == pytest.approx(30)
        nobody, bar = stand_out(np.log([5.0, 50.0, 1.0]), 0.05)
        assert not nobody.any()
        assert np.exp(bar) == pytest.approx(60)


class TestRatingsWithout:
    """Ratings that a voter has no say in."""

    def test_are_those_of_a_refit(self) -> None:
        """For every voter the gaps are those of Bradley–Terry on the others' votes."""
        votes = crowd(voters=6, votes=40)
        assert votes.voter is not None
        voter = votes.voter.codes.astype(np.int64)
        gaps = LeftOut(votes, BradleyTerry()).gaps(voter, np.zeros(len(votes), bool))
        for code in range(6):
            strength = BradleyTerry().strengths(votes.select(voter != code))
            mine = voter == code
            expected = strength[votes.a[mine]] - strength[votes.b[mine]]
            assert gaps[mine] == pytest.approx(expected, abs=1e-8)

    def test_some_are_out_for_everybody(self) -> None:
        """Votes that are out count for nobody, and their voter is rated by all the others."""
        votes = crowd(voters=6, votes=40)
        assert votes.voter is not None
        voter = votes.voter.codes.astype(np.int64)
        gaps = LeftOut(votes, BradleyTerry()).gaps(voter, voter == 2)
        for code, others in ((2, voter != 2), (4, (voter != 2) & (voter != 4))):
            strength = BradleyTerry().strengths(votes.select(others))
            mine = voter == code
            expected = strength[votes.a[mine]] - strength[votes.b[mine]]
            assert gaps[mine] == pytest.approx(expected, abs=1e-8)

    def test_exist_where_only_one_voter_saw_a_model(self) -> None:
        """Where nobody else voted on a model, its gaps are finite all the same."""
        votes = crowd(voters=4, votes=30)
        more = [
            Battle(model_a="fir", model_b="ash", winner=Outcome.MODEL_A, voter="v00")
            for _ in range(12)
        ]
        log = BattleLog.from_battles([*votes.to_battles(), *more])
        assert log.voter is not None
        codes = log.voter.codes.astype(np.int64)
        gaps = LeftOut(log, BradleyTerry()).gaps(codes, np.zeros(len(log), bool))
        assert np.isfinite(gaps).all()


class TestVoters:
    """Who stands out, and who does not."""

    def test_the_planted_ones_of_the_sample(self, sample: VoterTests) -> None:
        """Pushers, the one who prefers the left side and the one who copies stand out by their
        rule, and nobody else of 66: not the one whose votes were copied either.
        """
        found = {
            test.voter: (test.reasons[0].rule, test.reasons[0].about)
            for test in sample.standing_out
        }
        assert found == PLANTED

    def test_nobody_of_an_honest_crowd(self) -> None:
        """Thirty voters of one mind do not stand out, and their care is found to be theirs."""
        tests = voter_tests(crowd())
        assert not tests.standing_out
        assert len(tests.tests) == 30
        assert np.median([test.sharpness for test in tests.tests]) == pytest.approx(1, abs=0.25)

    def test_a_review_every_week_accuses_no_more(self) -> None:
        """In none of three honest crowds with tastes, each reviewed four times with all votes so
        far, is anybody ever accused; at a level of 5 % it would be one crowd in twenty at most.
        """
        for seed in range(3):
            votes = crowd(voters=20, seed=seed, taste=0.4)
            turn = np.tile(np.arange(60), 20)
            for week in range(1, 5):
                assert not voter_tests(votes.select(turn < 15 * week)).standing_out

    def test_a_pusher_among_few(self) -> None:
        """One of thirty who always votes for the worst model stands out, by that model, in battles
        as they come.
        """
        tests = voter_tests(pushed(crowd(votes=120), "v07", "elder"))
        assert [test.voter for test in tests.standing_out] == ["v07"]
        assert tests["v07"].reasons[0].about == "elder"
        assert "elder won" in tests["v07"].reasons[0].text

    def test_turned_sides_change_no_evidence(self) -> None:
        """Which side is called the first changes nothing but the name of the side."""
        votes = pushed(crowd(), "v07", "elder")
        turned = replace(votes, a=votes.b, b=votes.a, outcome=(1 - votes.outcome).astype(np.int8))
        one, two = voter_tests(votes), voter_tests(turned)
        assert [t.voter for t in one.tests] == [t.voter for t in two.tests]
        for test in one.tests:
            assert two[test.voter].evidence == pytest.approx(test.evidence, abs=1e-6)

    def test_votes_of_nobody_count_for_ratings_alone(self) -> None:
        """Votes without a voter are counted, and nobody is tested for them."""
        votes = crowd(voters=8)
        assert votes.voter is not None
        names = [None if name == "v03" else str(name) for name in votes.voter.values()]
        tests = voter_tests(replace(votes, voter=Labels.of(names)))
        assert (len(tests.tests), tests.unnamed) == (7, 60)

    def test_speed(self) -> None:
        """Of eight voters the one who takes a second for four hundred words stands out by it; with
        ten words to read, a second is enough.
        """
        votes = crowd(voters=8)
        assert votes.voter is not None
        hurried = votes.voter.values() == "v05"
        seconds = np.where(hurried, 1.0, 60.0)
        tests = voter_tests(votes, seconds=seconds, words=np.full(len(votes), 400.0))
        assert [test.voter for test in tests.standing_out] == ["v05"]
        reason = tests["v05"].reasons[0]
        assert reason.rule is Rule.SPEED
        assert reason.text.startswith("60 of 60 votes came faster")
        assert not voter_tests(votes, seconds=seconds, words=np.full(len(votes), 10.0)).standing_out

    @pytest.mark.parametrize("timed", [True, False])
    def test_copies(self, timed: bool) -> None:
        """Who repeats forty votes on responses that others saw, too, stands out; where votes have
        no time nobody knows who was first, so both do.
        """
        votes = [
            replace(vote, question_id=f"q{n % 3}", timestamp=MONDAY + n * MINUTE if timed else None)
            for n, vote in enumerate(crowd(voters=12, votes=40).to_battles())
        ]
        late = MONDAY + 1000 * MINUTE if timed else None
        copies = [replace(x, voter="copy", timestamp=late) for x in votes if x.voter == "v03"]
        tests = voter_tests(BattleLog.from_battles([*votes, *copies]))
        assert {t.voter for t in tests.standing_out} == ({"copy"} if timed else {"copy", "v03"})
        assert tests["copy"].reasons[0].about == "v03"


def test_real_voters(data: Path) -> None:
    """Of LLMFAO's 124 voters at most one in a hundred stands out."""
    outcome = {"left": Outcome.MODEL_A, "right": Outcome.MODEL_B, "tie": Outcome.TIE}
    with gzip.open(data / "llmfao" / "crowd-comparisons.csv.gz", "rt", encoding="utf-8") as lines:
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


class TestRefusals:
    """Logs in which nobody can be tested."""

    def test_no_voters(self) -> None:
        """A log without voters is refused."""
        with pytest.raises(RatingError, match="no vote names its voter"):
            voter_tests(replace(crowd(voters=4), voter=None))

    def test_too_few(self) -> None:
        """Two voters are too few to compare one with the others."""
        with pytest.raises(RatingError, match="2 voters have 10 decisive votes or more, 3 are"):
            voter_tests(crowd(voters=2))
