"""The policy: constants, file, phases, rules by number, what it can guarantee, decided orders."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from arena_kit import DataError
from arena_kit.policy import constants, exposure, rules
from arena_kit.policy.constants import Contenders, Decide, LaneWeights, Phase, Policy, Publication
from arena_kit.policy.exposure import feasibility, settled_rd
from arena_kit.policy.rules import Badge, PairCoverage, PublicationLabel, Standing, Verdict
from arena_kit.rating.claims import claims
from arena_kit.rating.glicko2 import Glicko2
from arena_kit.runs.settings.files import read_policy
from tests.samples import ROOT, rated_by_hand, timed, votes_on

SHIPPED = ROOT / "params" / "policy.yaml"
POLICY = Policy()
FULL = PairCoverage.of(POLICY, 12, 6)
BEST = {"decisive": 200, "prompt_coverage": 0.9, "rd": 65.0}
UP = rules.PairOrder(above="up", below="m", verdict=Verdict.DECIDED, gap=50.0)
DOWN = rules.PairOrder(above="m", below="down", verdict=Verdict.DECIDED, gap=50.0)
NEAR = (UP, DOWN)
BOARD = "abcdefghi"
RATINGS = dict(zip(BOARD, (1700.0, 1650.0, 1649.0, 1600.0, 1640.0, 1595.0, 1500.0, 1498.0, 1520.0),
                   strict=True))  # fmt: skip
ERRORS = dict.fromkeys(BOARD, 10.0) | {"g": 4.0, "h": 4.0}
#: Ratings known to 10 points have gaps known to 14.14. Two neighbours by rating are decided from
#: 2.807 standard errors on (39.70 points), the ends of three from 3.131 on (44.28).
VERDICTS = {
    "ab": Verdict.DECIDED,  # 50 points, neighbours
    "bc": Verdict.UNRESOLVED,  # 1 point
    "cd": Verdict.DECIDED,  # 49 points over three models: c, e, d
    "de": Verdict.REVERSED,  # e is 40 points above d
    "ef": Verdict.DECIDED,  # 45 points over three models: e, d, f
    "fg": Verdict.DECIDED,  # 95 points
    "gh": Verdict.EQUIVALENT,  # 2 points ± 5.66: 18 / 5.66 = 3.18 standard errors inside 20
    "hi": Verdict.UNRESOLVED,  # i is 22 points above h, ± 10.77: 2.04 standard errors
}
STRENGTHS = rated_by_hand(RATINGS, ERRORS)


def standing(model: str = "m", **more: Any) -> Standing:
    """A model that just misses nothing of Established."""
    known = {"rating": 1600.0, "rd": 90.0, "decisive": 80, "prompt_coverage": 0.8}
    return Standing(model=model, **known | more)


def board(n: int, **more: Any) -> list[Standing]:
    """Models a, b, c … in this order, fit for publication."""
    known = {"rd": 75.0, "prompt_coverage": 0.9}
    return [standing(chr(97 + i), rating=1900.0 - 20 * i, **known | more) for i in range(n)]


def test_shipped_file_is_the_default(tmp_path: Path) -> None:
    """`Policy()` is params/policy.yaml; a wrong file is refused with key, allowed and given."""
    assert (read_policy(SHIPPED), yaml.safe_load(SHIPPED.read_text())) == (POLICY, asdict(POLICY))
    (tmp_path / "policy.yaml").write_text("phase: 2\nstable: {rd: 65}\n")
    found = read_policy(tmp_path / "policy.yaml")
    assert found == Policy(phase=Phase.LANES, stable=replace(POLICY.stable, rd=65.0))
    for text, why in (
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
        ("claims_about: prompts", "claims_about: .*'these_prompts' or 'similar_prompts'"),
        ("- 1", "expected a mapping"),
    ):
        (tmp_path / "policy.yaml").write_text(text)
        with pytest.raises(DataError, match=f"policy.yaml: {why}"):
            read_policy(tmp_path / "policy.yaml")


def test_constants_as_written() -> None:
    """Sections 4 to 10: the constants are those of the policy."""
    p = POLICY
    assert (p.contenders.band, p.exposure.window, p.exposure.tolerance) == (8, 2000, 0.12)
    assert (p.prompts.floor, p.prompts.top_target, p.pairs.votes, p.pairs.prompts) == (2, 4, 12, 6)
    assert tuple(asdict(p.lanes).values()) == (0.4, 0.3, 0.2, 0.1)
    assert tuple(asdict(p.contenders).values()) == (8, 0.7, 0.2, 0.1, 8)
    assert (p.repeats.same_prompt, p.repeats.meetings) == (2, 10)
    assert p.established == constants.Threshold(decisive=80, prompt_coverage=0.8, rd=90)
    assert p.stable == constants.Threshold(decisive=200, prompt_coverage=0.9, rd=60)
    assert p.publication == Publication(top=10, median_rd=75, pair_share=0.8, prompt_coverage=0.9)
    assert tuple(asdict(p.legacy_elo).values()) == (16, 1500)
    assert tuple(asdict(p.glicko).values()) == (1500, 350, 0.06, 0.5, 30, 350)


def test_12_phases() -> None:
    """6, 12: each phase puts in force what the plan says; `decide` is opt-in, from phase 3 on."""
    for phase, expected in (
        (1, (False, False, "legacy_elo", False, True, False)),
        (2, (True, True, "legacy_elo", False, True, False)),
        (3, (True, True, "conservative", True, True, False)),
        (4, (True, True, "conservative", True, False, True)),
    ):
        found = Policy(phase=Phase(phase)).phase
        assert expected == (
            found.uses_lanes, found.shows_diagnostics, found.orders_by, found.publishes_status,
            found.shows_legacy_elo, found.publishes_weekly_report,
        )  # fmt: skip
    written = {"coverage": 0.4, "contender": 0.3, "uncertainty": 0.2, "exploration": 0.1}
    assert Policy().lane_shares == written
    assert Policy(phase=Phase.LANES, decide=Decide(share=0.5)).lane_shares == written
    for phase in (Phase.MIGRATION, Phase.GOVERNANCE):
        found = Policy(phase=phase, decide=Decide(share=0.5)).lane_shares
        assert found == {"decide": 0.5} | {lane: share / 2 for lane, share in written.items()}


def test_5_2_order() -> None:
    """4, 5.2: ordered by rating less two RDs, eight contenders; 9.3: RD 30 is 100 %, 350 is 0 %."""
    lucky, tested = standing("lucky", rating=1700.0, rd=200.0), standing("tested", rd=60.0)
    assert (lucky.conservative(POLICY), tested.conservative(POLICY)) == (1300, 1480)
    assert lucky.conservative(Policy(deviations=1.0)) == 1500
    twin = standing("twin", rd=60.0)
    assert list(rules.ranked(POLICY, [lucky, twin, tested])) == [tested, twin, lucky]
    found = [rules.confidence(POLICY, rd) for rd in (20, 30, 62, 75, 190, 350, 400)]
    assert found == [100, 100, 90, 86, 50, 0, 0]
    assert rules.contender_band(POLICY, board(12)[::-1]) == tuple("abcdefgh")
    assert rules.contender_band(POLICY, board(5)) == tuple("abcde")


def test_9_2_badges() -> None:
    """5.3, 9.2: 80 votes, coverage 0.8, RD 90 are Established; 200, 0.9, 65 and order Stable."""
    for lacks, reason in (
        ({"decisive": 79}, "79 decisive votes, 80 needed"),
        ({"prompt_coverage": 0.799}, "prompt coverage 0.799, 0.8 needed"),
        ({"rd": 90.01}, "RD 90.01, at most 90 allowed"),
    ):
        assert rules.established(POLICY, standing())[0]
        assert rules.established(POLICY, standing(**lacks)) == (False, (reason,))
        assert rules.stability_badge(POLICY, standing(**lacks)) == (Badge.PROVISIONAL, (reason,))
    for lacks, badge, reason in (
        ({}, Badge.STABLE, "RD 65, at most 65"),
        ({"decisive": 199}, Badge.ESTABLISHED, "199 decisive votes, 200 needed"),
        ({"prompt_coverage": 0.899}, Badge.ESTABLISHED, "prompt coverage 0.899, 0.9 needed"),
        ({"rd": 65.004}, Badge.ESTABLISHED, "RD 65.004, at"),  # with the digits that show it
        ({"rd": 66.25}, Badge.ESTABLISHED, "RD 66.25, at"),
        ({"rd": 90.01}, Badge.PROVISIONAL, "RD 90.01, at most 90"),
    ):
        found, reasons = rules.stability_badge(POLICY, standing(**BEST | lacks), NEAR)
        assert (found, len(reasons)) == (badge, 1 if lacks else 5)
        assert reason in "; ".join(reasons)
    for near, badge, reason in (
        (NEAR, Badge.STABLE, "decided below up"),
        ((replace(UP, verdict=Verdict.EQUIVALENT), DOWN), Badge.STABLE,
         "equivalent to up within 20 points"),
        (NEAR[:1], Badge.STABLE, "decided below up"),
        ((UP, replace(DOWN, verdict=Verdict.UNRESOLVED)), Badge.ESTABLISHED,
         "order with down unresolved: no feasible number of votes would resolve it"),
        ((UP, replace(DOWN, becomes=Verdict.DECIDED, more=1234, weeks=2.6,
                      verdict=Verdict.UNRESOLVED)),
         Badge.ESTABLISHED,
         "order with down unresolved: about 1,200 more votes should decide it"),
        ((replace(UP, verdict=Verdict.REVERSED), DOWN), Badge.ESTABLISHED,
         "below up on the board, but the votes decide the reverse"),
        ((), Badge.ESTABLISHED, "no officially ranked model above or below"),
    ):  # fmt: skip
        found, reasons = rules.stability_badge(POLICY, standing(**BEST), near)
        assert found is badge
        assert reason in reasons if badge is Badge.STABLE else reasons == (reason,)


def test_8_3_quality_floor() -> None:
    """8.3: a check is due above 20 % both-bad, from ten such votes on, the worst first."""
    for votes, both_bad, check in ((50, 10, False), (49, 10, True), (20, 9, False)):
        found = rules.quality_floor(POLICY, standing(votes=votes, both_bad=both_bad))
        assert (found.check, found.both_bad_rate) == (check, both_bad / votes)
        assert found.score == 1 - both_bad / votes
        assert found.reasons[0].startswith(f"{both_bad} of {votes} votes both-bad")
    assert rules.quality_floor(POLICY, standing(votes=0)).score is None
    models = [standing(m, votes=100, both_bad=n) for m, n in zip("abc", (25, 5, 40), strict=True)]
    assert [floor.model for floor in rules.quality_checks(POLICY, models)] == ["c", "a"]


def test_10_the_thresholds() -> None:
    """10: at the thresholds the board is official, beyond any it is calibrating, with reasons."""
    short = {("a", "b"): PairCoverage.of(POLICY, 11, 6), ("c", "d"): PairCoverage.of(POLICY, 40, 5)}
    one = {("a", "b"): short["a", "b"]}
    eight = rules.publication_status(POLICY, board(12), lambda *two: one.get(two, FULL))
    assert eight.status is PublicationLabel.OFFICIAL
    assert eight.top == tuple("abcdefghij")
    assert eight.sentence == (
        "officially stable: median RD of the top 10 is 75, at most 75 allowed; "
        "8 of 9 adjacent pairs in the top 10 have 12 votes on 6 prompts, 80 % needed; "
        "too few: a–b 11/12 votes on 6/6 prompts; "
        "mean prompt coverage of the top 10 is 0.9, 0.9 needed"
    )
    seven = rules.publication_status(POLICY, board(12), lambda *two: short.get(two, FULL))
    assert seven.sentence == (
        "calibrating: 7 of 9 adjacent pairs in the top 10 have 12 votes on 6 prompts, 80 % needed; "
        "too few: a–b 11/12 votes on 6/6 prompts, c–d 40/12 votes on 5/6 prompts"
    )
    for more, reason in (
        ({"rd": 75.01}, "median RD of the top 10 is 75.01, at most 75 allowed"),
        ({"prompt_coverage": 0.899}, "mean prompt coverage of the top 10 is 0.899, 0.9 needed"),
    ):
        found = rules.publication_status(POLICY, board(12, **more), lambda *_: FULL)
        assert (found.status, found.reasons) == (PublicationLabel.CALIBRATING, (reason,))


def test_10_who_counts() -> None:
    """5.3, 10: only the top ten of officially ranked models count, and it must be whole."""
    weak = standing("z", rating=100.0, rd=350.0, prompt_coverage=0.0)
    new = [standing(f"n{i}", rating=2500.0, decisive=1, prompt_coverage=0.1) for i in range(18)]

    def status(*models: Standing) -> rules.PublicationStatus:
        return rules.publication_status(POLICY, models, lambda *_: FULL)

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
    assert few.reasons[-1] == "there are only 5 models for the top 10"


def test_shares_add_up() -> None:
    """7.1: two exposures a matchup, equal up to 23 models; a contender's share by hand."""
    for n_models in (1, 2, 8, 9, 20, 23, 24, 400):
        shares, band = exposure.exposure_shares(POLICY, n_models), min(n_models, 8)
        assert band * shares.band + (n_models - band) * shares.others == pytest.approx(2)
        equal = shares.band == shares.others == shares.equal == 2 / n_models
        assert equal == (n_models <= 23)
    shares = exposure.exposure_shares(POLICY, 50)
    assert (shares.equal, shares.band) == (0.04, pytest.approx(0.06960938 + 0.012))
    assert shares.others == pytest.approx((2 - 8 * 0.08160938) / 42)
    shadow = replace(POLICY, phase=Phase.SHADOW)
    assert exposure.due_shares(POLICY, 50) == exposure.exposure_shares(POLICY, 50)
    shares = exposure.due_shares(shadow, 50)
    assert shares.equal == shares.band == shares.others == 0.04
    assert feasibility(shadow, 50)[:2] == (
        feasibility(POLICY, 50)[0],
        "The lanes are off, so every model has the same exposure target.",
    )
    assert [exposure.equal_is_feasible(POLICY, n) for n in (23, 24)] == [True, False]
    light, none = (LaneWeights(coverage=0.7 - w, contender=w) for w in (0.15, 0.0))
    blunt = LaneWeights(coverage=0.0, contender=0.9, uncertainty=0.05, exploration=0.05)
    wide = replace(POLICY, contenders=Contenders(band=16))
    for lanes, limit in ((light, 47), (none, None), (blunt, 8)):
        assert exposure.equal_up_to(replace(POLICY, lanes=lanes)) == limit
    assert (exposure.equal_up_to(POLICY), exposure.equal_up_to(wide)) == (23, 46)
    assert exposure.equal_is_feasible(replace(POLICY, lanes=none), 500)
    least = exposure.exposure_shares(replace(POLICY, lanes=blunt), 9).band
    assert least == pytest.approx(0.9 * 1.85625 / 8 + 0.2 / 9)


def test_sentences_for_the_report() -> None:
    """Sentences say what is possible, what is due, and what cannot be promised."""
    limit = (
        "30 % of matchups are reserved for the top 8, so equal exposure within 12 % is feasible "
        "for up to 23 models; there are"
    )
    assert feasibility(POLICY, 20)[0] == f"{limit} 20."
    with_decide = replace(POLICY, decide=Decide(share=0.4))
    shown, newcomer, decide = feasibility(with_decide, 50)
    assert shown == (
        f"{limit} 50. In 2000 matchups the target is 163 exposures for a contender and 64 for any "
        "other model (equal: 80)."
    )
    assert "3.2 exposures per 100 matchups outside the top 8" in newcomer
    assert "below a target of 8, one exposure exceeds it" in newcomer
    assert decide.startswith("40 % of matchups are reserved for unresolved adjacent pairs")
    four = feasibility(POLICY, 10, n_prompts=4)
    assert "needs 5 prompts; there are 4" in four[2]
    assert "need 6 prompts; there are 4, so this minimum cannot be met" in four[3]
    assert len(feasibility(POLICY, 10, n_prompts=6)) == len(four) - 2
    early = replace(with_decide, phase=Phase.LANES)
    assert feasibility(POLICY, 20) == feasibility(early, 20) == feasibility(with_decide, 20)[:-1]
    assert exposure.due_shares(with_decide, 50) == exposure.due_shares(POLICY, 50)


def test_where_rd_settles() -> None:
    """9.2: RD settles at 60.28 among equals, and at 64.93 for three of four, so 65 is allowed."""
    running = Glicko2().running()
    running.play(("a", "b", float(n % 2)) for n in range(2000))
    assert settled_rd(POLICY.glicko) == pytest.approx(running.states["a"].rd, abs=1.0)
    assert settled_rd(constants.Glicko(volatility=0.01)) == 30, "the lower limit of RD holds"
    assert settled_rd(POLICY.glicko) > POLICY.stable.rd
    assert settled_rd(POLICY.glicko, wins=0.75) == pytest.approx(64.93, abs=0.01)
    assert exposure.stable_rd(POLICY) == 65
    assert exposure.stable_rd(replace(POLICY, stable=replace(POLICY.stable, rd=70.0))) == 70
    assert exposure.stable_rd(replace(POLICY, glicko=constants.Glicko(volatility=0.01))) == 60


def test_neighbours_of_a_board_by_hand() -> None:
    """1 ± 14.14 will be called equivalent, 22 ± 10.77 decided the other way round."""
    found = rules.neighbour_orders(POLICY, BOARD, STRENGTHS)
    assert {pair.above + pair.below: pair.verdict for pair in found} == VERDICTS
    assert [pair.gap for pair in found] == [50, 1, 49, -40, 45, 95, 2, -22]
    assert {pair.above for pair in found if not pair.settled} == {"b", "d", "h"}
    found = {p.above + p.below: p for p in rules.neighbour_orders(POLICY, BOARD, STRENGTHS, 500.0)}
    assert found["bc"].becomes is Verdict.EQUIVALENT
    assert (found["bc"].more,) == claims.until_equivalent(STRENGTHS, ["bc"], 20.0)
    assert found["bc"].weeks == pytest.approx(found["bc"].more / 500)
    assert found["bc"].needs == (
        "about 13,000 more votes should show equivalence (about 25 weeks at the current rate)"
    )
    assert found["hi"].becomes is Verdict.REVERSED
    assert found["hi"].more == claims.between(STRENGTHS, ["ih"])[0].more
    assert found["ab"].more is found["ab"].becomes is found["ab"].weeks is None
    without = {p.above + p.below: p for p in rules.neighbour_orders(POLICY, BOARD, STRENGTHS)}
    assert without["hi"].needs == "about 1,500 more votes should show the reverse order"
    strict = replace(POLICY, publication=Publication(margin=0.0))
    (pair,) = rules.neighbour_orders(strict, "bc", STRENGTHS)
    assert pair.becomes is Verdict.DECIDED
    assert pair.more == claims.between(STRENGTHS, ["bc"])[0].more


def test_the_order_of_the_top_in_a_sentence() -> None:
    """Decided, equivalent, reversed and unresolved pairs are counted; the unknown is open."""
    found = rules.order_status(POLICY, BOARD, STRENGTHS, 500.0)
    assert not found.whole
    assert found.sentence == (
        "of 8 adjacent pairs in the top 9, 4 are decided, 1 equivalent within 20 points, 1 decided "
        "in the reverse order and 2 unresolved; in Bradley–Terry order, 4 of 8 are decided or "
        "equivalent; the votes decide e above d, against the board; nearest to a decision: h over "
        "i, about 1,500 more votes should show the reverse order (about 3 weeks at the current "
        "rate); claims hold for similar prompts"
    )
    assert [pair.above for pair in found.by_votes] == list("abcedfig")
    assert [pair.settled for pair in found.by_votes] == [
        True,  # a over b, 50 points
        False,  # b over c, 1
        False,  # c over e, 9
        True,  # e over d, 40
        False,  # d over f, 5
        True,  # f over i, 75
        False,  # i over g, 20
        True,  # g over h, equivalent
    ]
    strengths = rated_by_hand({"a": 300.0, "b": 200.0, "d": 100.0, "f": 0.0})
    whole = rules.order_status(POLICY, "abdf", strengths)
    assert whole.whole
    assert whole.counts == "of 3 adjacent pairs in the top 4, 3 are decided and 0 unresolved"
    strengths = rated_by_hand({"a": 900.0, "b": 0.0}, {"a": float("nan"), "b": 10.0})
    for names in ("ab", "bz"):
        (pair,) = rules.neighbour_orders(POLICY, names, strengths, 500.0)
        assert pair.verdict is Verdict.UNRESOLVED
        assert pair.gap is None
        assert pair.needs == "too little evidence for a claim"
    (equal,) = rules.neighbour_orders(
        replace(POLICY, publication=Publication(margin=0.0)),
        "xy",
        rated_by_hand({"x": 0.0, "y": 0.0, "z": 1.0}, 300.0),
    )
    assert equal.needs == "no feasible number of votes would resolve it"
    nobody = rules.order_status(POLICY, ["a"], strengths)
    assert not nobody.whole
    assert nobody.sentence == "fewer than two models are rated, so there is no order to decide"


def test_the_present_rate_of_votes() -> None:
    """Of the last four weeks, both-bad left out: 9 votes a day are 63 a week."""
    busy = [("x", "y", "!" if n % 10 == 0 else "ab"[n % 2], "q") for n in range(400)]
    votes = timed(votes_on(*busy), days=40)
    assert rules.votes_per_week(votes) == pytest.approx(63, abs=0.5)
    early = np.where(np.arange(400) < 100, votes.timestamp[0], votes.timestamp)
    assert rules.votes_per_week(replace(votes, timestamp=early)) == pytest.approx(63, abs=0.5)
    assert rules.votes_per_week(timed(votes_on(*busy), days=0.5)) is None
    assert rules.votes_per_week(votes_on(*busy)) is None
