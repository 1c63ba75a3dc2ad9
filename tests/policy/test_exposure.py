"""What the policy can guarantee, against hand calculations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from arena_kit.policy.constants import Contenders, Decide, Glicko, LaneWeights, Phase, Policy
from arena_kit.policy.exposure import (
    due_shares,
    equal_is_feasible,
    equal_up_to,
    exposure_shares,
    feasibility,
    settled_rd,
    stable_rd,
)
from arena_kit.rating.glicko2.method import Glicko2

POLICY = Policy()


def test_share_of_a_contender_by_hand() -> None:
    """Among 50 models a contender is due 0.3 · (1 + 0.7 · 15/16 + 0.2) / 8 + 0.6 / 50 a matchup."""
    shares = exposure_shares(POLICY, 50)
    assert shares.equal == 0.04
    assert shares.band == pytest.approx(0.06960938 + 0.012)
    assert shares.others == pytest.approx((2 - 8 * 0.08160938) / 42)


def test_12_equal_until_the_lanes_are_on() -> None:
    """In the shadow every model is due an equal share, and the report says what will change."""
    shadow = replace(POLICY, phase=Phase.SHADOW)
    assert due_shares(POLICY, 50) == exposure_shares(POLICY, 50)
    shares = due_shares(shadow, 50)
    assert shares.equal == shares.band == shares.others == 0.04
    assert feasibility(shadow, 50)[:2] == (
        feasibility(POLICY, 50)[0],
        "The lanes are not on yet: until then every model is due an equal share.",
    )


@pytest.mark.parametrize("n_models", [1, 2, 8, 9, 20, 23, 24, 400])
def test_shares_add_up(n_models: int) -> None:
    """Two exposures a matchup in all; up to 20 models exactly equal (0.0996 < 0.1)."""
    shares, band = exposure_shares(POLICY, n_models), min(n_models, 8)
    assert band * shares.band + (n_models - band) * shares.others == pytest.approx(2)
    if n_models <= 20:
        assert shares.band == shares.equal == 2 / n_models
        assert shares.others == pytest.approx(shares.equal)


def test_7_1_equal_within_tolerance_up_to() -> None:
    """7.1: (2.24 - 0.6) / 0.0696 = 23 models; half the lane 47, a band of 16: 46."""
    assert [equal_is_feasible(POLICY, n) for n in (23, 24)] == [True, False]
    light, none = (LaneWeights(coverage=0.7 - w, contender=w) for w in (0.15, 0.0))
    blunt = LaneWeights(coverage=0.0, contender=0.9, uncertainty=0.05, exploration=0.05)
    wide = replace(POLICY, contenders=Contenders(band=16))
    limits = {lanes: equal_up_to(replace(POLICY, lanes=lanes)) for lanes in (light, none, blunt)}
    assert limits == {light: 47, none: None, blunt: 8}
    assert (equal_up_to(POLICY), equal_up_to(wide)) == (23, 46)
    assert equal_is_feasible(replace(POLICY, lanes=none), 500)
    least = exposure_shares(replace(POLICY, lanes=blunt), 9).band
    assert least == pytest.approx(0.9 * 1.85625 / 8 + 0.2 / 9)


def test_sentences_for_the_report() -> None:
    """Sentences say what is possible, what is due, and what cannot be promised."""
    limit = (
        "With 30 % of matchups kept for the top 8, equal exposure within 12 % is possible for "
        "up to 23 models, and there are"
    )
    assert feasibility(POLICY, 20)[0] == f"{limit} 20."
    exposure, newcomer, decide = feasibility(POLICY, 50)
    assert exposure == (
        f"{limit} 50: in 2000 matchups a contender is due 163 exposures "
        "and any other model 64, where equal would be 80."
    )
    assert "3.2 per 100 matchups outside the top 8" in newcomer
    assert "no 12 % is guaranteed: until it is due 8, one exposure is more than that" in newcomer
    assert decide.startswith("40 % of matchups are kept to decide open neighbours of the top 8")
    four = feasibility(POLICY, 10, n_prompts=4)
    assert "takes 5 prompts, and there are 4" in four[2]
    assert "asks for 6 prompts, and there are 4: it cannot be met" in four[3]
    assert len(feasibility(POLICY, 10, n_prompts=6)) == len(four) - 2
    off, early = replace(POLICY, decide=Decide(share=0.0)), replace(POLICY, phase=Phase.LANES)
    assert feasibility(off, 20) == feasibility(early, 20) == feasibility(POLICY, 20)[:-1]
    assert due_shares(off, 50) == due_shares(POLICY, 50)


def test_settled_rd_is_where_votes_lead() -> None:
    """RD settles where 1/φ² = 1/(φ² + 0.06²) + 0.25/(1 + 3φ²/π²): at 60.28."""
    running = Glicko2().running()
    running.play(("a", "b", float(n % 2)) for n in range(2000))
    assert settled_rd(POLICY.glicko) == pytest.approx(running.states["a"].rd, abs=1.0)
    assert settled_rd(Glicko(volatility=0.01)) == 30, "the lower limit of RD holds"


def test_the_floor_of_rd_is_where_a_leader_settles() -> None:
    """9.2: who wins three of four settles at 64.93, so that 65 is allowed."""
    assert settled_rd(POLICY.glicko) > POLICY.stable.rd
    assert settled_rd(POLICY.glicko, wins=0.75) == pytest.approx(64.93, abs=0.01)
    assert stable_rd(POLICY) == 65
    assert stable_rd(replace(POLICY, stable=replace(POLICY.stable, rd=70.0))) == 70
    assert stable_rd(replace(POLICY, glicko=Glicko(volatility=0.01))) == 60
