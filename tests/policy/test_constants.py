"""The policy: its constants, its file, its rollout phases, and each rule by its number."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from arena_kit import DataError
from arena_kit.policy.constants import Decide, Phase, Policy, Publication, Threshold
from arena_kit.policy.order import PairOrder, Verdict
from arena_kit.policy.rules import (
    Badge,
    PairCoverage,
    PublicationLabel,
    PublicationStatus,
    Standing,
    confidence,
    contender_band,
    established,
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
FULL = PairCoverage.of(POLICY, 12, 6)
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


def test_shipped_file_is_the_default(tmp_path: Path) -> None:
    """`Policy()` is params/policy.yaml, which names every constant; a file may leave some out."""
    assert read_policy(SHIPPED) == POLICY
    assert yaml.safe_load(SHIPPED.read_text()) == asdict(POLICY)
    (tmp_path / "policy.yaml").write_text("phase: 2\nstable: {rd: 65}\n")
    found = read_policy(tmp_path / "policy.yaml")
    assert found == Policy(phase=Phase.LANES, stable=replace(POLICY.stable, rd=65.0))


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
        ("pairs: {patience: 5}", "pairs: patience must be 12 or more, not 5"),
        ("glicko: {rd: .inf}", "glicko.rd: .*finite"),
        ("glicko: {rd: 400}", "glicko: rd_max must be 400 or more, not 350.0"),
        ("established: {decisive: yes}", "established.decisive: .*valid integer, got 'True'"),
        ("stable: {rd: 91}", "stable must ask for no less than established"),
        ("stable: {decisive: 79}", "stable must ask"),
        ("stable: {prompt_coverage: 0.7}", "stable must ask"),
        ("2026-01-01: 3", "unknown key '2026-01-01'; allowed: phase"),
        ("claims_about: prompts", "claims_about: .*'these_prompts' or 'prompts_like_these'"),
        ("- 1", "expected a mapping"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, why: str) -> None:
    """A wrong policy file is refused with the key, what is allowed and what came."""
    (tmp_path / "policy.yaml").write_text(text)
    with pytest.raises(DataError, match=f"policy.yaml: {why}"):
        read_policy(tmp_path / "policy.yaml")


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
    """From phase 3 on `decide` has its share, and the four lanes the rest in proportion."""
    written = {"coverage": 0.4, "contender": 0.3, "uncertainty": 0.2, "exploration": 0.1}
    assert Policy(phase=Phase.LANES).lane_shares == written
    assert Policy(decide=Decide(share=0.0)).lane_shares == written
    for phase in (Phase.MIGRATION, Phase.GOVERNANCE):
        found = Policy(phase=phase, decide=Decide(share=0.5)).lane_shares
        assert found == {"decide": 0.5} | {lane: share / 2 for lane, share in written.items()}


def test_5_2_order() -> None:
    """4, 5.2: the score is the rating less two RDs; equals go by name."""
    lucky, tested = standing("lucky", rating=1700.0, rd=200.0), standing("tested", rd=60.0)
    assert (lucky.conservative(POLICY), tested.conservative(POLICY)) == (1300, 1480)
    assert lucky.conservative(Policy(deviations=1.0)) == 1500
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
    assert established(POLICY, standing())[0]
    assert established(POLICY, standing(**lacks)) == (False, (reason,))
    assert stability_badge(POLICY, standing(**lacks)) == (Badge.PROVISIONAL, (reason,))


@pytest.mark.parametrize(
    ("lacks", "badge", "reason"),
    [
        ({}, Badge.STABLE, "RD 65, at most 65"),
        ({"decisive": 199}, Badge.ESTABLISHED, "199 decisive votes, 200 needed"),
        ({"prompt_coverage": 0.899}, Badge.ESTABLISHED, "prompt coverage 0.899, 0.9 needed"),
        ({"rd": 65.004}, Badge.ESTABLISHED, "RD 65.004, at"),  # with the digits that show it
        ({"rd": 66.25}, Badge.ESTABLISHED, "RD 66.25, at"),
        ({"rd": 90.01}, Badge.PROVISIONAL, "RD 90.01, at most 90"),
    ],
)
def test_9_2_badges(lacks: dict[str, Any], badge: Badge, reason: str) -> None:
    """9.2: Stable takes 200 votes, coverage 0.9, RD 65; reasons tell values from limits."""
    found, reasons = stability_badge(POLICY, standing(**BEST | lacks), NEAR)
    assert (found, len(reasons)) == (badge, 1 if lacks else 5)
    assert reason in "; ".join(reasons)


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
    """9.2: Stable takes a decided or equivalent order against both neighbours."""
    found, reasons = stability_badge(POLICY, standing(**BEST), near)
    assert found is badge
    assert reason in reasons if badge is Badge.STABLE else reasons == (reason,)


def test_9_3_confidence() -> None:
    """Section 9.3: confidence is the place of RD between 30 (100 %) and 350 (0 %)."""
    found = [confidence(POLICY, rd) for rd in (20, 30, 62, 75, 190, 350, 400)]
    assert found == [100, 100, 90, 86, 50, 0, 0]


def test_4_contender_band() -> None:
    """Section 4: the band is the top eight by conservative score, or all when they are fewer."""
    assert contender_band(POLICY, board(12)[::-1]) == tuple("abcdefgh")
    assert contender_band(POLICY, board(5)) == tuple("abcde")


def test_8_3_quality_floor() -> None:
    """8.3: a check is due above 20 % both-bad, from ten such votes on, the worst first."""
    for votes, both_bad, check in ((50, 10, False), (49, 10, True), (20, 9, False)):
        found = quality_floor(POLICY, standing(votes=votes, both_bad=both_bad))
        assert (found.check, found.both_bad_rate) == (check, both_bad / votes)
        assert found.score == 1 - both_bad / votes
        assert found.reasons[0].startswith(f"{both_bad} of {votes} votes both-bad")
    assert quality_floor(POLICY, standing(votes=0)).score is None
    models = [standing(m, votes=100, both_bad=n) for m, n in zip("abc", (25, 5, 40), strict=True)]
    assert [floor.model for floor in quality_checks(POLICY, models)] == ["c", "a"]


def test_10_the_thresholds() -> None:
    """10: at the thresholds the board is official, beyond any it is calibrating, with reasons."""
    short = {
        ("a", "b"): PairCoverage.of(POLICY, 11, 6),
        ("c", "d"): PairCoverage.of(POLICY, 40, 5),
    }
    eight = publication_status(
        POLICY, board(12), lambda *two: short[two] if two == ("a", "b") else FULL
    )
    assert eight.status is PublicationLabel.OFFICIAL
    assert eight.top == tuple("abcdefghij")
    assert eight.sentence == (
        "officially stable: median RD of the top 10 is 75, at most 75 allowed; "
        "8 of 9 adjacent top-10 pairs have the floor, 80 % needed; "
        "missing: a–b 11/12 votes on 6/6 prompts; "
        "mean prompt coverage of the top 10 is 0.9, 0.9 needed"
    )
    seven = publication_status(POLICY, board(12), lambda *two: short.get(two, FULL))
    assert seven.sentence == (
        "calibrating: 7 of 9 adjacent top-10 pairs have the floor, 80 % needed; "
        "missing: a–b 11/12 votes on 6/6 prompts, c–d 40/12 votes on 5/6 prompts"
    )
    for more, reason in (
        ({"rd": 75.01}, "median RD of the top 10 is 75.01, at most 75 allowed"),
        ({"prompt_coverage": 0.899}, "mean prompt coverage of the top 10 is 0.899, 0.9 needed"),
    ):
        found = publication_status(POLICY, board(12, **more), lambda *_: FULL)
        assert (found.status, found.reasons) == (PublicationLabel.CALIBRATING, (reason,))


def test_10_who_counts() -> None:
    """5.3, 10: only the top ten of officially ranked models count, and it must be whole."""
    weak = standing("z", rating=100.0, rd=350.0, prompt_coverage=0.0)
    new = [standing(f"n{i}", rating=2500.0, decisive=1, prompt_coverage=0.1) for i in range(18)]

    def status(*models: Standing) -> PublicationStatus:
        return publication_status(POLICY, models, lambda *_: FULL)

    assert status(*new[:1], *board(10), weak) == status(*board(10))
    assert status(*board(10), *new[:2]).status is PublicationLabel.OFFICIAL
    for models, reason in (
        ([*board(2), *new], "2 of 20 models are officially ranked, 10 needed"),
        ([*board(9), *new[:3]], "9 of 12 models are officially ranked, 10 needed"),
        (board(1), "1 of 1 models are officially ranked, 2 needed"),
    ):
        found = status(*models)
        assert (found.status, found.top) == (PublicationLabel.CALIBRATING, ())
        assert found.reasons[0] == reason
    few = status(*board(5))
    assert few.status is PublicationLabel.OFFICIAL
    assert few.reasons[-1] == "the top 10 is all 5 models there are"
