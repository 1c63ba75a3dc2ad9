"""The policy: its constants, its file, its rollout phases, and each rule by its number."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from arena_kit import DataError
from arena_kit.policy.constants import Decide, LaneWeights, Phase, Policy, Publication, Threshold
from arena_kit.policy.order import PairOrder, Verdict
from arena_kit.policy.rules import (
    Badge,
    PairCoverage,
    PublicationLabel,
    Standing,
    confidence,
    contender_band,
    provisional_state,
    publication_status,
    quality_checks,
    quality_floor,
    ranked,
    stability_badge,
)
from arena_kit.runs.settings.files import read_policy
from tests.samples import ROOT

SHIPPED = ROOT / "params" / "policy.yaml"
POLICY = Policy()
FULL = PairCoverage(votes=12, prompts=6)
BEST = {"decisive": 200, "prompt_coverage": 0.9, "rd": 65.0}
UP = PairOrder(above="up", below="m", verdict=Verdict.DECIDED, gap=50.0)
DOWN = PairOrder(above="m", below="down", verdict=Verdict.DECIDED, gap=50.0)
NEAR = (UP, DOWN)


def standing(model: str = "m", **more: Any) -> Standing:
    """A model that just misses nothing of Established."""
    known = {"rating": 1600.0, "rd": 90.0, "decisive": 80, "prompt_coverage": 0.8}
    return Standing(model=model, **known | more)


def board(n: int, **more: Any) -> list[Standing]:
    """Models a, b, c … in this order, fit for publication."""
    known = {"rd": 75.0, "prompt_coverage": 0.9}
    return [standing(chr(97 + i), rating=1900.0 - 20 * i, **known | more) for i in range(n)]


def test_shipped_file_is_the_default() -> None:
    """`Policy()` equals params/policy.yaml, which names every constant."""
    assert read_policy(SHIPPED) == Policy()
    values, defaults = yaml.safe_load(SHIPPED.read_text()), asdict(Policy())
    assert values == defaults


def test_constants_as_written() -> None:
    """Sections 4 to 10: the constants are those of the policy."""
    p = POLICY
    assert (p.contenders.band, p.exposure.window, p.exposure.tolerance) == (8, 2000, 0.12)
    assert (p.prompts.floor, p.prompts.top_target, p.pairs.votes, p.pairs.prompts) == (2, 4, 12, 6)
    assert tuple(asdict(p.lanes).values()) == (0.4, 0.3, 0.2, 0.1)
    assert tuple(asdict(p.contenders).values()) == (8, 0.7, 0.2, 0.1, 8)
    assert (p.repeats.same_prompt, p.repeats.meetings) == (2, 10)
    assert p.established == Threshold(decisive=80, prompt_coverage=0.8, rd=90)
    assert p.stable == Threshold(decisive=200, prompt_coverage=0.9, rd=60)
    assert p.publication == Publication(top=10, median_rd=75, pair_share=0.8, prompt_coverage=0.9)
    assert tuple(asdict(p.legacy_elo).values()) == (16, 1500)
    assert tuple(asdict(p.glicko).values()) == (1500, 350, 0.06, 0.5, 30, 350)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("colour: blue", "unknown key 'colour'; allowed: phase, deviations"),
        ("lanes: {express: 1}", "unknown key 'lanes.express'; allowed: coverage, contender"),
        ("lanes: {coverage: 0.5}", "lanes: coverage, contender, .* must add up to 1, not 1.1"),
        ("phase: 5", "phase: .*1, 2, 3 or 4, got '5'"),
        ("exposure: {window: many}", "exposure.window: .*integer.*got 'many'"),
        ("exposure: {tolerance: 1}", "exposure.tolerance: .*less than 1, got '1'"),
        ("pairs: {votes: 3}", "pairs: votes must be 6 or more, not 3"),
        ("publication: {pair_share: 1.5}", "publication.pair_share: .*1, got '1.5'"),
        ("glicko: {rd: .inf}", "glicko.rd: .*finite"),
        ("glicko: {rd: 400}", "glicko: rd_max must be 400 or more, not 350.0"),
        ("established: {decisive: yes}", "established.decisive: .*valid integer, got 'True'"),
        ("legacy_elo: {k: 200000}", "legacy_elo.k: .*1000, got '200000'"),
        ("stable: {rd: 91}", "stable must ask for no less than established"),
        ("lanes: 3", "lanes: .*got '3'"),
        ("2026-01-01: 3", "unknown key '2026-01-01'; allowed: phase"),
        ("pairs: {patience: 5}", "pairs: patience must be 12 or more, not 5"),
        ("publication: {margin: -1}", "publication.margin: .*0, got '-1'"),
        ("decide: {refresh: 0}", "decide.refresh: .*1, got '0'"),
        ("claims_about: prompts", "claims_about: .*'these_prompts' or 'prompts_like_these'"),
        ("- 1", "expected a mapping"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, why: str) -> None:
    """A wrong policy file is refused with the key, what is allowed and what came."""
    (tmp_path / "policy.yaml").write_text(text)
    with pytest.raises(DataError, match=f"policy.yaml: {why}"):
        read_policy(tmp_path / "policy.yaml")


def test_a_file_may_change_one_thing(tmp_path: Path) -> None:
    """What a file leaves out keeps the value of the policy as written."""
    (tmp_path / "policy.yaml").write_text("phase: 2\nstable: {rd: 65}\n")
    found = read_policy(tmp_path / "policy.yaml")
    assert found == Policy(phase=Phase.LANES, stable=replace(POLICY.stable, rd=65.0))


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        (1, (False, False, "legacy_elo", False, True, False)),
        (2, (True, True, "legacy_elo", False, True, False)),
        (3, (True, True, "conservative", True, True, False)),
        (4, (True, True, "conservative", True, False, True)),
    ],
)
def test_12_phases(phase: int, expected: tuple[Any, ...]) -> None:
    """Section 12: each phase puts in force what the plan says and no more."""
    found = Policy(phase=Phase(phase)).phase
    assert expected == (
        found.uses_lanes, found.shows_diagnostics, found.orders_by, found.publishes_status,
        found.shows_legacy_elo, found.publishes_weekly_report,
    )  # fmt: skip


def test_lanes_share_what_the_fifth_leaves() -> None:
    """In phases 1 and 2 the four lanes are as written; from phase 3 on `decide` has its share, and
    they have the rest in the written proportions.
    """
    written = {"coverage": 0.4, "contender": 0.3, "uncertainty": 0.2, "exploration": 0.1}
    assert Policy(phase=Phase.LANES).lane_shares == written
    assert Policy(decide=Decide(share=0.0)).lane_shares == written
    for phase in (Phase.MIGRATION, Phase.GOVERNANCE):
        found = Policy(phase=phase, decide=Decide(share=0.5)).lane_shares
        assert found == {"decide": 0.5} | {lane: share / 2 for lane, share in written.items()}


def test_4_conservative_score() -> None:
    """Section 4: the conservative score is the rating less two RDs."""
    assert standing(rating=1600.0, rd=75.0).conservative(POLICY) == 1450
    assert standing(rating=1600.0, rd=75.0).conservative(replace(POLICY, deviations=1.0)) == 1525


def test_5_2_order() -> None:
    """Section 5.2: a lucky new model stands below a well-tested one; equals go by name."""
    lucky, tested = standing("lucky", rating=1700.0, rd=200.0), standing("tested", rd=60.0)
    twin = standing("twin", rd=60.0)
    assert [s.model for s in ranked(POLICY, [lucky, twin, tested])] == ["tested", "twin", "lucky"]


@pytest.mark.parametrize(
    ("lacks", "reason"),
    [
        ({"decisive": 79}, "79 decisive votes, 80 needed"),
        ({"prompt_coverage": 0.799}, "prompt coverage 0.799, 0.8 needed"),
        ({"rd": 90.01}, "RD 90.01, at most 90 allowed"),
    ],
)
def test_5_3_provisional_until_all_hold(lacks: dict[str, Any], reason: str) -> None:
    """Section 5.3: 80 votes, coverage 0.8 and RD 90 end the provisional state; less does not."""
    assert not provisional_state(POLICY, standing()).provisional
    found = provisional_state(POLICY, standing(**lacks))
    assert found.provisional
    assert found.reasons == (reason,)
    assert stability_badge(POLICY, standing(**lacks)).badge is Badge.PROVISIONAL


@pytest.mark.parametrize(
    ("lacks", "badge"),
    [
        ({}, Badge.STABLE),
        ({"decisive": 199}, Badge.ESTABLISHED),
        ({"prompt_coverage": 0.899}, Badge.ESTABLISHED),
        ({"rd": 65.01}, Badge.ESTABLISHED),
        ({"rd": 90.01}, Badge.PROVISIONAL),
    ],
)
def test_9_2_badges(lacks: dict[str, Any], badge: Badge) -> None:
    """Section 9.2: Stable takes 200 votes, coverage 0.9, RD at its floor of 65 and a decided order
    against both neighbours, else what 5.3 leaves.
    """
    found = stability_badge(POLICY, standing(**BEST | lacks), NEAR)
    assert found.badge is badge
    assert len(found.reasons) == (1 if lacks else 5)


@pytest.mark.parametrize(
    ("near", "badge", "reason"),
    [
        (NEAR, Badge.STABLE, "decided below up"),
        ((replace(UP, verdict=Verdict.EQUIVALENT), DOWN), Badge.STABLE,
         "equivalent to up within 20 points"),
        (NEAR[:1], Badge.STABLE, "decided below up"),
        ((UP, replace(DOWN, verdict=Verdict.OPEN)), Badge.ESTABLISHED,
         "order with down open: no number of votes in reach would settle it"),
        ((UP, replace(DOWN, verdict=Verdict.OPEN, becomes=Verdict.DECIDED, more=1234, weeks=2.6)),
         Badge.ESTABLISHED,
         ("order with down open: about 1,200 more votes (about 3 weeks at the present rate) until "
          "it is decided")),
        ((replace(UP, verdict=Verdict.REVERSED), DOWN), Badge.ESTABLISHED,
         "below up on the board, and the votes decide the opposite"),
        ((), Badge.ESTABLISHED, "no officially ranked neighbour to be told apart from"),
    ],
)  # fmt: skip
def test_9_2_stable_needs_a_decided_order(
    near: tuple[PairOrder, ...], badge: Badge, reason: str
) -> None:
    """Section 9.2: a model with everything else is Stable only where its order against both
    neighbours is decided or equivalent; the reason names the neighbour that is open.
    """
    found = stability_badge(POLICY, standing(**BEST), near)
    assert found.badge is badge
    assert reason in found.reasons
    assert badge is Badge.STABLE or found.reasons == (reason,)


@pytest.mark.parametrize(
    ("rd", "percent"), [(30, 100), (20, 100), (350, 0), (400, 0), (190, 50), (62, 90), (75, 86)]
)
def test_9_3_confidence(rd: float, percent: int) -> None:
    """Section 9.3: confidence is the place of RD between 30 (100 %) and 350 (0 %)."""
    assert confidence(POLICY, rd) == percent


def test_4_contender_band() -> None:
    """Section 4: the band is the top eight by conservative score, or all when they are fewer."""
    assert contender_band(POLICY, board(12)[::-1]) == tuple("abcdefgh")
    assert contender_band(POLICY, board(5)) == tuple("abcde")


@pytest.mark.parametrize(
    ("votes", "both_bad", "check"),
    [(50, 10, False), (49, 10, True), (20, 9, False), (100, 21, True), (0, 0, False)],
)
def test_8_3_quality_floor(votes: int, both_bad: int, check: bool) -> None:
    """Section 8.3: a check is due above a both-bad rate of 20 %, from ten such votes on."""
    found = quality_floor(POLICY, standing(votes=votes, both_bad=both_bad))
    assert found.check is check
    if votes:
        assert found.both_bad_rate == both_bad / votes
        assert found.score == 1 - both_bad / votes
        assert found.reasons[0].startswith(f"{both_bad} of {votes} votes both-bad")
    else:
        assert found.score is None


def test_8_3_checks_are_listed() -> None:
    """Section 8.3: the models to check are listed, the worst first."""
    models = [standing(m, votes=100, both_bad=n) for m, n in zip("abc", (25, 5, 40), strict=True)]
    assert [floor.model for floor in quality_checks(POLICY, models)] == ["c", "a"]


def test_10_officially_stable() -> None:
    """Section 10: at the thresholds themselves the board is officially stable."""
    short = {("a", "b")}
    found = publication_status(
        POLICY, board(12), lambda *two: PairCoverage(votes=11, prompts=6) if two in short else FULL
    )
    assert found.status is PublicationLabel.OFFICIAL
    assert found.top == tuple("abcdefghij")
    assert found.sentence == (
        "officially stable: median RD of the top 10 is 75, at most 75 allowed; "
        "8 of 9 adjacent top-10 pairs have the floor, 80 % needed; "
        "missing: a–b 11/12 votes on 6/6 prompts; "
        "mean prompt coverage of the top 10 is 0.9, 0.9 needed"
    )


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"rd": 75.01}, "median RD of the top 10 is 75.01, at most 75 allowed"),
        ({"prompt_coverage": 0.899}, "mean prompt coverage of the top 10 is 0.899, 0.9 needed"),
    ],
)
def test_10_calibrating(more: dict[str, Any], reason: str) -> None:
    """Section 10: RD above 75 or coverage below 0.9 leaves the board calibrating."""
    found = publication_status(POLICY, board(12, **more), lambda *_: FULL)
    assert found.status is PublicationLabel.CALIBRATING
    assert found.reasons == (reason,)


def test_10_pairs_are_missing() -> None:
    """Section 10: 7 of 9 pairs are below 80 %; those missing are named with their counts."""
    short = {
        ("a", "b"): PairCoverage(votes=7, prompts=4),
        ("c", "d"): PairCoverage(votes=40, prompts=5),
    }
    found = publication_status(POLICY, board(12), lambda *two: short.get(two, FULL))
    assert found.sentence == (
        "calibrating: 7 of 9 adjacent top-10 pairs have the floor, 80 % needed; "
        "missing: a–b 7/12 votes on 4/6 prompts, c–d 40/12 votes on 5/6 prompts"
    )


def test_10_fewer_than_ten() -> None:
    """Section 10: with five models the top ten is all of them, and the status says so."""
    found = publication_status(POLICY, board(5), lambda *_: FULL)
    assert found.status is PublicationLabel.OFFICIAL
    assert found.reasons[-1] == "the top 10 is all 5 models there are"
    alone = publication_status(POLICY, board(1), lambda *_: FULL)
    assert alone.sentence == "calibrating: 1 of 1 models are officially ranked, 2 needed"


def test_10_only_the_top_that_may_be_claimed_counts() -> None:
    """Sections 5.3 and 10: models below the top ten change nothing, nor does a provisional one at
    the very top, which is outside official claims.
    """
    weak = standing("z", rating=100.0, rd=350.0, prompt_coverage=0.0)
    lucky = standing("lucky", rating=2500.0, decisive=15, prompt_coverage=0.2)
    found = publication_status(POLICY, [lucky, *board(10), weak], lambda *_: FULL)
    assert "lucky" not in found.top
    assert found == publication_status(POLICY, board(10), lambda *_: FULL)


def test_10_the_top_must_be_whole() -> None:
    """Sections 5.3 and 10: two models with all votes, and eighteen with hardly any, are no top ten;
    nor are nine of twelve. All ten are.
    """
    new = [standing(f"n{i}", decisive=1, prompt_coverage=0.1) for i in range(18)]
    found = publication_status(POLICY, board(2) + new, lambda *_: FULL)
    assert found.status is PublicationLabel.CALIBRATING
    assert found.reasons[0] == "2 of 20 models are officially ranked, 10 needed"
    assert found.top == ()
    nine = publication_status(POLICY, board(9) + new[:3], lambda *_: FULL)
    assert nine.reasons[0] == "9 of 12 models are officially ranked, 10 needed"
    ten = publication_status(POLICY, board(10) + new[:2], lambda *_: FULL)
    assert ten.status is PublicationLabel.OFFICIAL


@pytest.mark.parametrize(
    ("rd", "said"),
    [(65.0, "RD 65, at most 65"), (65.004, "RD 65.004, at"), (66.25, "RD 66.25, at")],
)
def test_reasons_tell_values_from_their_limits(rd: float, said: str) -> None:
    """A value a little beyond its limit is written with the digits that show it."""
    found = stability_badge(POLICY, standing(**BEST | {"rd": rd}), NEAR)
    assert said in "; ".join(found.reasons)


def test_stable_is_not_weaker_than_established() -> None:
    """A Stable model must be an Established one as well, or the badges make no order."""
    for weaker in ({"decisive": 79}, {"prompt_coverage": 0.7}, {"rd": 91.0}):
        with pytest.raises(ValueError, match="stable must ask for no less than established"):
            Policy(stable=replace(POLICY.stable, **weaker))


def test_settings_are_checked() -> None:
    """What a file must not say is refused where the policy is made in code, too."""
    with pytest.raises(ValueError, match=r"must add up to 1, not 1\.6"):
        LaneWeights(coverage=1.0)
    with pytest.raises(ValueError, match="deviations"):
        Policy(deviations=-1)
