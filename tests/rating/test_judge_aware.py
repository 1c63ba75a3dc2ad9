"""Judge-aware Bradley–Terry: against the plain fit, a general optimiser and planted judges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from arena_kit import BattleLog, BradleyTerry, RatingError, Source, claims
from arena_kit.battles.log import Labels
from arena_kit.rating.judge_aware import JudgeAware
from tests.samples import all_pairs, drawn, judged, shared_log, won

SKILL = {"ash": 150.0, "beech": 50.0, "cherry": -50.0, "date": -150.0}


def by(judge: str, log: BattleLog) -> BattleLog:
    return replace(log, judge_model=Labels.of([judge] * len(log)))


def three(n: int = 1500, seed: int = 0) -> BattleLog:
    """Judges who see skills half as large, as they are, and half as large again."""
    rng = np.random.default_rng(seed)
    return BattleLog.joined(
        *(
            by(name, drawn(rng, {m: s * by_how_much for m, s in SKILL.items()},
                           all_pairs(list(SKILL)), n, questions=name))
            for name, by_how_much in (("dull", 0.5), ("plain", 1.0), ("sharp", 1.5))
        )
    )  # fmt: skip


def test_one_judge_is_plain_bradley_terry() -> None:
    """Ratings, standard errors and intervals are those of `BradleyTerry` clustered by question."""
    log = by("x", drawn(np.random.default_rng(1), SKILL, all_pairs(list(SKILL)), 400))
    ours, plain = JudgeAware()(log), BradleyTerry(cluster="question")(log)
    for model in SKILL:
        assert ours[model].rating == pytest.approx(plain[model].rating, abs=1e-6)
        assert ours[model].ci_low == pytest.approx(plain[model].ci_low, abs=1e-6)
        assert ours[model].extra["se"] == pytest.approx(plain[model].extra["se"], rel=1e-6)
    assert ours.fit["discrimination of x"] == pytest.approx(1.0)


def test_it_finds_the_peak_that_a_general_optimiser_finds() -> None:
    """The same likelihood with the same prior, written down again and given to SciPy."""
    log = three(150)
    assert log.judge_model is not None
    judge = log.judge_model.codes
    names = sorted(SKILL)
    share = np.bincount(judge) / len(judge)

    def loss(free: np.ndarray) -> float:
        strength = np.append(free[:3], -free[:3].sum())
        sharp = np.append(free[3:], (1 - share[:2] @ free[3:]) / share[2])
        eta = sharp[judge] * (strength[log.a] - strength[log.b])
        won = log.outcome == 0
        likelihood = np.logaddexp(0, np.where(won, -eta, eta)).sum()
        return float(likelihood + ((sharp - 1) ** 2).sum() / 2)

    best = minimize(loss, np.append(np.zeros(3), [1.0, 1.0]), tol=1e-12)
    found = JudgeAware()(log)
    unit = 400 / np.log(10)
    strength = np.append(best.x[:3], -best.x[:3].sum())
    for name, value in zip(names, strength, strict=True):
        assert found[name].rating == pytest.approx(1000 + unit * value, abs=0.01)
    assert found.fit["discrimination of dull"] == pytest.approx(best.x[3], abs=1e-4)
    assert found.fit["discrimination of plain"] == pytest.approx(best.x[4], abs=1e-4)


def test_planted_judges_are_told_apart() -> None:
    """Discriminations 0.5, 1 and 1.5 within three standard errors, skills within three, too."""
    found = JudgeAware()(three())
    for name, planted in (("dull", 0.5), ("plain", 1.0), ("sharp", 1.5)):
        error = found.fit[f"discrimination of {name}_se"]
        assert abs(found.fit[f"discrimination of {name}"] - planted) < 3 * error < 0.5
    for model, skill in SKILL.items():
        se = found[model].extra["se"]
        assert se is not None
        assert abs(found[model].rating - 1000 - skill) < 3 * se


def test_a_judge_who_guesses_costs_less_than_in_a_pooled_fit() -> None:
    """Pooled, a guesser draws all ratings together; here it has next to no say."""
    rng = np.random.default_rng(2)
    good = by("good", drawn(rng, SKILL, all_pairs(list(SKILL)), 1000, questions="g"))
    flat = dict.fromkeys(SKILL, 0.0)
    both = BattleLog.joined(
        good, by("guesser", drawn(rng, flat, all_pairs(list(SKILL)), 1000, questions="r"))
    )
    found = JudgeAware()(both)
    assert abs(found.fit["discrimination of guesser"]) < 0.25
    ratio = (found["ash"].rating - found["date"].rating) / (
        BradleyTerry()(both)["ash"].rating - BradleyTerry()(both)["date"].rating
    )
    assert ratio > 1.0
    one, two = (BradleyTerry()(log) for log in (good, both))
    z = [(r["ash"].rating - r["date"].rating) / (r["ash"].extra["se"] or 1) for r in (found, two)]
    assert z[0] > z[1]
    assert one.order == found.order


def test_judges_on_the_same_questions_are_one_piece_of_evidence() -> None:
    """The same verdicts under three names are as certain as under one, not three times."""
    log = drawn(np.random.default_rng(3), SKILL, all_pairs(list(SKILL)), 500)
    once = JudgeAware()(by("x", log))
    thrice = JudgeAware()(BattleLog.joined(*(by(name, log) for name in "xyz")))
    for model in SKILL:
        assert thrice[model].rating == pytest.approx(once[model].rating, abs=0.01)
        assert thrice[model].extra["se"] == pytest.approx(once[model].extra["se"], rel=1e-3)


def test_order_of_battles_and_sides_play_no_part() -> None:
    log = three(100)
    turned = log.select(np.arange(len(log))[::-1])
    ours, other = JudgeAware()(log), JudgeAware()(turned)
    assert [r.rating for r in ours.ratings] == pytest.approx([r.rating for r in other.ratings])
    assert claims.decided(ours).tolist() == claims.decided(other).tolist()


def test_what_cannot_be_fitted_is_said() -> None:
    log = judged(won("ash", "beech", 3, 2))
    with pytest.raises(RatingError, match="need a judge_model in every battle"):
        JudgeAware()(log)
    with pytest.raises(ValueError, match="spread must be"):
        JudgeAware(spread=0)
    unanimous = by("x", judged(won("ash", "beech", 20, 0)))
    assert JudgeAware()(unanimous).order == ("ash", "beech")  # the prior makes it finite


def test_intervals_hold_where_judges_share_their_luck() -> None:
    """150 worlds of 250 questions, each judged by three who go by the same luck half of the time:
    95 % intervals hold the planted skills in 92 to 98 % of cases, discriminations likewise.
    """
    rng = np.random.default_rng(0)
    names, sharp = tuple(sorted(SKILL)), (0.5, 1.0, 1.5)
    skill = np.array([SKILL[name] for name in names]) * np.log(10) / 400
    rated, judged_well = [], []
    for _ in range(150):
        a = rng.integers(0, 4, 250)
        b = (a + rng.integers(1, 4, 250)) % 4
        shared = rng.logistic(size=250)
        logs = []
        for judge, by_how_much in enumerate(sharp):
            luck = np.where(rng.random(250) < 0.5, shared, rng.logistic(size=250))
            lost = by_how_much * (skill[a] - skill[b]) + luck < 0
            log = shared_log(a, b, lost, names, Source.LLM_JUDGE)
            logs.append(by(f"j{judge}", log))
        found = JudgeAware()(BattleLog.joined(*logs))
        for name in names:
            low, high = found[name].ci_low, found[name].ci_high
            rated.append(low is not None and high is not None and low < 1000 + SKILL[name] < high)
        for judge, by_how_much in enumerate(sharp):
            told = f"discrimination of j{judge}"
            error = abs(found.fit[told] - by_how_much)
            judged_well.append(error < 1.96 * found.fit[f"{told}_se"])
    assert 0.92 < np.mean(rated) < 0.98
    assert 0.92 < np.mean(judged_well) < 0.98
