"""The simulated arena: its truth, its two systems, what is measured, and the command."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise, permutations, product
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from scipy.stats import studentized_range

from arena_kit import BattleLog, BradleyTerry, Outcome, Ratings
from arena_kit.cli.main import main
from arena_kit.cli.simulate import simulated
from arena_kit.judging.quality.estimates import t_quantile
from arena_kit.matchmaking.accuracy import (
    Duel,
    OrderClaim,
    claim,
    order_accuracy,
    order_claim,
    rank_correlation,
    stable_badges,
)
from arena_kit.matchmaking.arena import Arena
from arena_kit.matchmaking.lanes import lane_weights
from arena_kit.matchmaking.simulation import Vote, duel, played, run, season
from arena_kit.matchmaking.world import Planted, World, planted
from arena_kit.policy.constants import Contenders, Phase, Policy
from arena_kit.policy.coverage import Coverage
from arena_kit.policy.rules import Standing
from arena_kit.reporting.simulation import METRICS, difference, promises, sentence
from arena_kit.reporting.simulation_plots import against_votes
from tests.samples import rated_by_hand

TRUTH = {"a": 1600.0, "b": 1580.0, "c": 1540.0, "d": 1400.0}
ENDS = (Phase.GOVERNANCE, Phase.SHADOW)  # the policy in force, and the scheme before it
SMALL = World(models=8, prompts=6, matchups=400, newcomers=2)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def votes(found: Planted, phase: Phase) -> list[Vote]:
    return list(played(found, Arena(Policy(phase=phase), (), found.prompts, rng=rng(1))))


@pytest.fixture(scope="module")
def duels() -> list[Duel]:
    """Three small worlds."""
    return [duel(SMALL, Policy(), rng=rng(seed), every=100) for seed in range(3)]


def test_rank_correlation_by_hand() -> None:
    """Two neighbours of four swapped are 1 - 6·2 / (4·15) = 0.8; the reverse is -1."""
    assert rank_correlation(list("abcd"), TRUTH) == 1
    assert rank_correlation(list("bacd"), TRUTH) == pytest.approx(0.8)
    assert rank_correlation(list("dcba"), TRUTH) == -1


def test_order_accuracy_by_hand() -> None:
    """Of the pairs ab, ac and bc of the true top 3, the order b a d c has ab wrong."""
    assert order_accuracy(list("badc"), TRUTH, top=3) == pytest.approx(2 / 3)
    assert order_accuracy(list("abcd"), TRUTH, top=8) == 1
    assert order_accuracy(list("dcba"), TRUTH, top=2) == 0


def standing(model: str, rating: float, decisive: int = 80) -> Standing:
    return Standing(model=model, rating=rating, rd=60.0, decisive=decisive, prompt_coverage=1.0)


@pytest.mark.parametrize(
    ("order", "worst", "false", "strictly"),
    [
        ("abcd", 0.0, False, False),
        ("bacd", 20.0, False, True),  # 1600 below 1580: by 20 points, not by more
        ("acbd", 40.0, True, True),
        ("dabc", 200.0, True, True),
    ],
)
def test_false_claims_by_hand(order: str, worst: float, false: bool, strictly: bool) -> None:
    """A claim is false when neighbours truly stand the other way round by more than 20 points,
    and strictly false when they do at all.
    """
    board = [standing(model, 1600.0 - n) for n, model in enumerate(order)]
    found = claim(Policy(), board, TRUTH)
    assert found.top == tuple(order)
    assert (found.worst, found.false, found.strictly_false) == (worst, false, strictly)


def test_claims_leave_provisional_models_out() -> None:
    """Section 5.3: a model with 79 decisive votes is in no official claim, however wrong."""
    board = [standing("d", 1700.0, decisive=79), standing("a", 1600.0), standing("b", 1500.0)]
    found = claim(Policy(), board, TRUTH)
    assert found.top == ("a", "b")
    assert not found.strictly_false


def test_claims_are_about_the_band() -> None:
    """Section 4: with a band of two, only the first two are claimed."""
    policy = replace(Policy(), contenders=replace(Policy().contenders, band=2))
    assert claim(policy, [standing(m, 1600.0 - n) for n, m in enumerate("abdc")], TRUTH).worst == 0


@pytest.mark.parametrize(
    ("true", "wrong", "apart"),
    [
        ((1500.0, 1400.0, 1300.0, 1280.0), 0, 0),
        ((1500.0, 1500.1, 1300.0, 1280.0), 1, 0),  # a above b is false, by however little
        ((1500.0, 1400.0, 1300.0, 1279.0), 0, 1),  # c and d are 21 points apart, not 20 at most
        ((1300.0, 1400.0, 1500.0, 1500.0), 5, 0),  # everything but that c and d are alike
    ],
)
def test_decided_orders_beside_the_truth_by_hand(
    true: tuple[float, ...], wrong: int, apart: int
) -> None:
    """Ratings known to 4 points have gaps known to 5.7: 30 points are decided (5.3 standard
    errors), 1 point is equivalent within 20 (19 / 5.7 = 3.4). Every pair of the top counts,
    neighbours on the board or not, and what the votes decide against the board counts, too.
    """
    fit = rated_by_hand({"a": 1560.0, "b": 1530.0, "c": 1500.0, "d": 1499.0}, 4.0)
    truth = dict(zip("abcd", true, strict=True))
    for top, settled in (("abcd", 3), ("bacd", 2)):
        found = order_claim(Policy(), top, fit, truth)
        assert (found.neighbours, found.settled, found.settled_by_votes) == (3, settled, 3)
        assert (found.decided, found.wrong) == (5, wrong)
        assert (found.equivalent, found.apart) == (1, apart)
        assert found.false is bool(wrong + apart)
        assert found.claimed == 6
    assert order_claim(Policy(), "abcz", fit, truth).decided == 3, "z is not rated"


@pytest.mark.parametrize(
    ("true", "stable", "wrong"),
    [
        ((1500.0, 1400.0, 1300.0, 1280.0), 4, 0),
        ((1500.0, 1510.0, 1300.0, 1280.0), 4, 2),  # a and b claim to be the other way round
        ((1500.0, 1400.0, 1300.0, 1270.0), 4, 2),  # c and d claim to be alike
    ],
)
def test_false_badges_by_hand(true: tuple[float, ...], stable: int, wrong: int) -> None:
    """A badge Stable is false where the model truly stands otherwise to a neighbour than the
    votes decide, or lies further from an equivalent one than the margin.
    """
    fit = rated_by_hand({"a": 1560.0, "b": 1530.0, "c": 1500.0, "d": 1499.0}, 4.0)
    board = [standing(m, 1600.0 - n, decisive=200) for n, m in enumerate("abcd")]
    truth = dict(zip("abcd", true, strict=True))
    assert stable_badges(Policy(), board, fit, truth) == (stable, wrong)
    few = [replace(each, decisive=199) for each in board]
    assert stable_badges(Policy(), few, fit, truth) == (0, 0)
    assert stable_badges(Policy(), board, None, truth) == (0, 0)


def test_false_orders_against_an_independent_count() -> None:
    """At every look of a season the claims and the false ones are those that a refit of the votes,
    SciPy's studentized range and the planted truth give.
    """
    world = World(models=7, prompts=4, matchups=900, newcomers=1, skill_sd=200.0)
    policy = Policy(phase=Phase.SHADOW, contenders=Contenders(band=5))
    found = planted(world, rng(3))
    arena = Arena(policy, (), found.prompts, rng=rng(1))
    looks = run(found, arena, every=300).checkpoints
    again = Arena(policy, (), found.prompts, rng=rng(1))
    battles = [vote.matchup.battle(vote.outcome) for vote in played(found, again)]
    truth = dict(zip(found.models, found.truth.tolist(), strict=True))
    claimed = 0
    for look in looks:
        assert look.order
        votes_then = BattleLog.from_battles(battles[: look.votes])
        above = _decided_by_hand(BradleyTerry(both_bad="exclude", cluster="battle")(votes_then))
        pairs = [pair for pair in permutations(look.order.top, 2) if pair in above]
        assert look.order.decided == len(pairs)
        assert look.order.wrong == sum(truth[better] < truth[worse] for better, worse in pairs)
        assert look.order.settled == sum(pair in above for pair in pairwise(look.order.top))
        claimed += len(pairs)
    assert claimed > 8


def _decided_by_hand(fit: Ratings) -> set[tuple[str, str]]:
    """Pairs that clear the 99.5 % point for their span, and what follows through others."""
    assert fit.covariance is not None
    above = set()
    for i, j in permutations(range(len(fit.models)), 2):
        better, worse = fit.models[i], fit.models[j]
        span = abs(fit.order.index(better) - fit.order.index(worse)) + 1
        bar = studentized_range.ppf(0.995, span, np.inf) / sqrt(2)
        error = sqrt(fit.covariance[i, i] + fit.covariance[j, j] - 2 * fit.covariance[i, j])
        if (fit[better].rating - fit[worse].rating) / error > bar:
            above.add((better, worse))
    for middle, better, worse in product(fit.models, repeat=3):
        if (better, middle) in above and (middle, worse) in above:
            above.add((better, worse))
    return above


def test_both_kinds_of_claims_are_told(duels: list[Duel]) -> None:
    """The sentence and the metrics count looks with a false order, and seasons with one."""
    order = OrderClaim(
        top=("a", "b"),
        neighbours=1,
        settled=1,
        settled_by_votes=1,
        decided=1,
        wrong=0,
        equivalent=0,
        apart=0,
    )
    looks = (order, replace(order, wrong=1), replace(order, decided=0, settled=0), None)
    points = tuple(
        replace(at, order=look) for at, look in zip(duels[0].v2.checkpoints, looks, strict=True)
    )
    made = [Duel(v2=replace(duels[0].v2, checkpoints=points), baseline=duels[0].baseline)]
    assert "1 of 2 looks at decided orders had a false one among the top (of 2 pairs 1)" in (
        sentence(made, Policy())
    )
    value = {metric.key: metric.of(made[0].v2) for metric in METRICS}
    assert (value["false_orders"], value["false_order_seasons"]) == (0.5, 1.0)
    assert value["order_settled"] is None, "nothing can be fitted at the end"
    silent = replace(made[0].v2, checkpoints=points[2:])
    assert "no order was decided" in sentence([Duel(v2=silent, baseline=silent)], Policy())


def test_the_seed_alone_decides(duels: list[Duel]) -> None:
    """A seed gives the same duel again, in one process or in two and in the order of the seeds;
    another seed gives another one.
    """
    assert list(simulated(SMALL, Policy(), range(1), 100, 1)) == duels[:1]
    assert list(simulated(SMALL, Policy(), range(1, 3), 100, 2)) == duels[1:]
    assert duels[0] != duels[1]


def test_both_systems_meet_the_same_world(duels: list[Duel]) -> None:
    """The n-th voter is the same under both, and says the same of the same matchup; those who
    vote at random say the same of any.
    """
    found = planted(replace(SMALL, noise=0.3), rng())
    both = list(zip(*(votes(found, phase) for phase in ENDS), strict=True))
    assert all(v2.matchup.session == baseline.matchup.session for v2, baseline in both)
    blind = [pair for pair in both if found.voters.button[pair[0].number] >= 0]
    assert len(blind) > 50
    assert all(v2.outcome == baseline.outcome for v2, baseline in blind)
    for each in duels:
        joined = [[at.models for at in run.checkpoints] for run in (each.v2, each.baseline)]
        assert joined[0] == joined[1] == [6, 7, 8, 8]


def test_voters_follow_bradley_terry() -> None:
    """Without ties or a floor, 191 points more win 3 of 4 votes (odds 10^(191/400) = 3); equals
    closer than 60 points tie in 2 / (1 + 10^(-60/400)) - 1 = 17 % of votes.
    """
    world = World(models=2, prompts=1, matchups=20_000, newcomers=0, noise=0.0, tie_gap=0.0,
                  bad_below=-9000.0)  # fmt: skip
    drawn = replace(planted(world, rng()), quality=np.array([[1691.0], [1500.0]]))
    won = Counter(drawn.vote(n, 0, 1, 0) for n in range(20_000))
    assert won[Outcome.MODEL_A] / 20_000 == pytest.approx(0.75, abs=0.01)
    equal = replace(drawn, world=replace(world, tie_gap=60.0), quality=np.full((2, 1), 1500.0))
    tied = Counter(equal.vote(n, 0, 1, 0) for n in range(20_000))
    assert tied[Outcome.TIE] / 20_000 == pytest.approx(0.171, abs=0.01)


def test_both_bad_is_about_the_floor() -> None:
    """Two responses far below the floor are both bad; one above it is enough for a verdict."""
    world = World(models=2, prompts=1, matchups=200, newcomers=0, noise=0.0, bad_sd=0.0)
    drawn = planted(world, rng())
    low = replace(drawn, quality=np.array([[-9000.0], [-9000.0]]))
    assert {low.vote(n, 0, 1, 0) for n in range(200)} == {Outcome.BOTH_BAD}
    mixed = replace(drawn, quality=np.array([[-9000.0], [9000.0]]))
    assert {mixed.vote(n, 0, 1, 0) for n in range(200)} == {Outcome.MODEL_B}


def test_skills_are_recovered() -> None:
    """With enough votes of voters who look, both orders and a fit correlate with the truth, on
    average of three worlds.
    """
    world = World(models=10, prompts=5, matchups=1000, newcomers=0, noise=0.0, skill_sd=200.0)
    found = [duel(world, Policy(), rng=rng(seed), every=500) for seed in range(3)]
    for runs in ([each.v2 for each in found], [each.baseline for each in found]):
        ends = [run.published(at).correlation for run in runs for at in run.checkpoints[1:]]
        assert np.mean(ends) > 0.88
        fits = [run.bradley_terry.correlation for run in runs if run.bradley_terry]
        assert len(fits) == 3
        assert np.mean(fits) > 0.93


def test_noise_lowers_the_correlation() -> None:
    """Where nine in ten voters vote at random, the order is further from the truth."""
    world = World(models=10, prompts=5, matchups=400, newcomers=0)
    mean = {}
    for noise in (0.0, 0.9):
        runs = [duel(replace(world, noise=noise), Policy(), rng=rng(s)) for s in range(2)]
        ends = [run.published(at).correlation
                for each in runs for run in (each.v2, each.baseline)
                for at in run.checkpoints[1:]]  # fmt: skip
        mean[noise] = float(np.mean(ends))
    assert mean[0.0] > mean[0.9] + 0.15


@pytest.mark.parametrize("phase", ENDS)
def test_newcomers_join_late_and_are_matched(phase: Phase) -> None:
    """A newcomer is in no matchup before it joins and in several soon after."""
    found = planted(SMALL, rng())
    late = {found.models[i]: int(found.joins[i]) for i in np.flatnonzero(found.joins)}
    assert sorted(late.values()) == [120, 200]
    for model, joins in late.items():
        shown = [v.number for v in votes(found, phase)
                 if model in (v.matchup.model_a, v.matchup.model_b)]  # fmt: skip
        assert min(shown) >= joins
        assert sum(number < joins + 30 for number in shown) >= 5


@pytest.mark.parametrize("phase", ENDS)
def test_only_responses_that_exist_are_shown(phase: Phase) -> None:
    """Where models answered half of the prompts, both of a matchup answered its prompt."""
    found = planted(replace(SMALL, answered=0.5), rng())
    assert 0.3 < found.answered.mean() < 0.8
    for vote in votes(found, phase):
        for model in (vote.matchup.model_a, vote.matchup.model_b):
            assert vote.matchup.prompt in found.responses(model)


def test_the_truth_is_the_mean_quality() -> None:
    """What a model is worth is the mean quality of the responses it has."""
    found = planted(replace(SMALL, answered=0.5), rng())
    for quality, has, truth in zip(found.quality, found.answered, found.truth, strict=True):
        assert truth == pytest.approx(quality[has].mean())


def test_2_baseline_pairs_by_inverse_exposure() -> None:
    """Section 2: prompts come up alike, and models are shown alike although drawn at random."""
    found = planted(World(models=6, prompts=3, matchups=1500, newcomers=0), rng())
    done = votes(found, Phase.SHADOW)
    prompts = Counter(vote.matchup.prompt for vote in done)
    assert all(count / 1500 == pytest.approx(1 / 3, abs=0.04) for count in prompts.values())
    shown = Counter(m for v in done for m in (v.matchup.model_a, v.matchup.model_b))
    assert all(count == pytest.approx(500, rel=0.05) for count in shown.values())


def test_long_sessions() -> None:
    """A voter who stays for a billion matchups is one voter, and takes no room."""
    found = planted(replace(SMALL, session_length=1e9), rng())
    assert len(set(found.voters.session)) == 1
    assert len(set(planted(replace(SMALL, session_length=1.0), rng()).voters.session)) == 400


def test_a_tiny_world_goes_on() -> None:
    """Voters who have seen everything there is come back as new ones."""
    world = World(models=2, prompts=1, matchups=60, newcomers=0, session_length=20.0)
    assert duel(world, Policy(), rng=rng()).v2.end.votes == 60


def test_promises_on_a_smaller_case() -> None:
    """In 2500 matchups of twelve models, every promise of the policy is kept; sides, which are
    drawn one by one, within three standard errors.
    """
    world = World(models=12, prompts=8, matchups=2500, newcomers=0)
    found = promises(Policy(), [duel(world, Policy(), rng=rng(1), every=2500)])
    sides = found.pop(1)
    assert sides["value"] < 3 * 0.5 / sqrt(2500)
    assert len(found) == 5
    assert all(row["met"] for row in found), found


def test_promises_can_be_broken(duels: list[Duel]) -> None:
    """A promise is met at its bound and broken beyond it; the worst seed decides."""

    def met(**change: float) -> list[bool]:
        end = replace(duels[0].v2.end, **change)
        one = replace(duels[0], v2=replace(duels[0].v2, checkpoints=(end,), left=0.515))
        return [row["met"] for row in promises(Policy(), [one])][1:]

    at = {"exposure_deviation": 0.12, "adjacent_share": 0.8, "coverage_mean": 0.9}
    assert met(**at) == [True] * 5
    for n, beyond in ((1, {"exposure_deviation": 0.121}), (2, {"exposure_deviation": 0.121}),
                      (3, {"adjacent_share": 0.79}), (4, {"coverage_mean": 0.89})):  # fmt: skip
        assert met(**at | beyond)[n] is False
    tilted = replace(duels[1], v2=replace(duels[1].v2, left=0.484))
    assert promises(Policy(), [duels[0], tilted])[1]["met"] is False


def test_difference_by_hand(duels: list[Duel]) -> None:
    """Gaps of 0.1, 0.2 and 0.3 are 0.2 ± 4.30 · 0.1 / √3; swapped systems swap the sign."""
    left = next(m for m in METRICS if m.key == "median_rd")
    made = [
        Duel(v2=_with_rd(each, 60 + gap), baseline=_with_rd(each, 60.0))
        for each, gap in zip(duels, (0.1, 0.2, 0.3), strict=True)
    ]
    found = difference(left, made)
    assert found is not None
    assert found.half is not None
    assert found.mean == pytest.approx(0.2)
    assert found.half == pytest.approx(4.302653 * 0.1 / sqrt(3))
    assert (found.seeds, found.higher, found.clear) == (3, 3, False)
    back = difference(left, [Duel(v2=d.baseline, baseline=d.v2) for d in made])
    assert back is not None
    assert back.mean == pytest.approx(-0.2)


@pytest.mark.parametrize(
    ("df", "quantile"), [(1, 12.706), (2, 4.303), (9, 2.262), (10, 2.228), (120, 1.980)]
)
def test_quantiles_of_student(df: int, quantile: float) -> None:
    """The 97.5 % quantiles of Student's t as tables print them."""
    assert round(t_quantile(df), 3) == quantile


def _with_rd(each: Duel, rd: float) -> Any:
    at = replace(each.v2.end, median_rd=rd)
    return replace(each.v2, checkpoints=(*each.v2.checkpoints[:-1], at))


def test_the_sentence_falls_either_way(duels: list[Duel]) -> None:
    """The sentence says better, worse or neither, as the numbers have it."""

    def order(each: Duel, accuracy: float) -> Any:
        close = replace(each.v2.end.conservative, order_accuracy=accuracy)
        points = [replace(at, conservative=close, claim=None) for at in each.v2.checkpoints]
        return replace(each.v2, checkpoints=tuple(points))

    good = [Duel(v2=order(d, 0.9 + n / 100), baseline=order(d, 0.6)) for n, d in enumerate(duels)]
    bad = [Duel(v2=each.baseline, baseline=each.v2) for each in good]
    same = [Duel(v2=each.v2, baseline=each.v2) for each in good]
    assert "orders the true top 8 better than the baseline (91.0% against" in sentence(
        good, Policy()
    )
    assert "orders the true top 8 worse than the baseline (60.0% against" in sentence(bad, Policy())
    assert "top 8 neither clearly better nor worse than" in sentence(same, Policy())
    assert "never claimed" in sentence(same, Policy())


def test_pictures_ask(duels: list[Duel]) -> None:
    """Nine panels, each under a question, for several seeds and for one."""
    for some in (duels, duels[:1]):
        titles = [ax.get_title(loc="left") for ax in against_votes(some, Policy()).figure.axes]
        assert len(titles) == 9
        assert all(title.endswith("?") for title in titles)


def test_season() -> None:
    """A season is a log of human votes in order of time, each with all that reports need."""
    start = datetime(2025, 3, 3, tzinfo=UTC)
    log = season(SMALL, Policy(), rng=rng(), start=start, days=14)
    again = season(SMALL, Policy(), rng=rng(), start=datetime(2025, 3, 3), days=14)  # noqa: DTZ001
    rows = list(log.to_battles())
    assert rows == list(again.to_battles()), "no zone is UTC"
    assert len(rows) == 400
    times = [row.timestamp for row in rows if row.timestamp]
    assert times == sorted(times)
    assert start <= times[0] < times[-1] < datetime(2025, 3, 17, tzinfo=UTC)
    assert len({row.battle_id for row in rows}) == 400
    assert [row.battle_id for row in rows] == sorted(row.battle_id or "" for row in rows)
    assert all(row.question_id and row.session and row.lane for row in rows)
    assert {row.source for row in rows} == {"human"}
    assert len(Coverage.of(log, Policy()).models) == 8
    with pytest.raises(ValueError, match="days must be above 0, not 0"):
        season(SMALL, Policy(), rng=rng(), start=start, days=0)


def call(*words: object) -> Result:
    return CliRunner().invoke(main, ["simulate", *(str(word) for word in words)])


TINY = ("--models", 6, "--prompts", 4, "--matchups", 120, "--newcomers", 1, "--every", 60,
        "--jobs", 1)  # fmt: skip


def test_json(tmp_path: Path) -> None:
    """`--json` prints settings, the summary, the promises and every run, and nothing else."""
    result = call(*TINY, "--seeds", 2, "--seed", 7, "--json", "--plot", tmp_path / "votes.png")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert set(found) == {"settings", "summary", "promises", "limits", "sentence", "runs"}
    assert set(found["settings"]) == {"world", "policy", "seeds", "every", "claim_margin"}
    assert found["settings"]["world"]["matchups"] == 120
    assert found["settings"]["seeds"] == [run["seed"] for run in found["runs"]] == [7, 8]
    keys = {metric.key for metric in METRICS}
    assert all(set(found["summary"][part]) == keys for part in ("v2", "baseline", "difference"))
    run = found["runs"][0]["v2"]
    assert keys <= set(run)
    assert sum(run["drawn"].values()) == pytest.approx(1)
    assert [at["votes"] for at in run["checkpoints"]] == [60, 120]
    for at in run["checkpoints"]:
        assert {"claimed", "false", "wrong", "apart", "settled"} <= set(at["order"])
    assert run["orders"] == sum(at["order"]["claimed"] > 0 for at in run["checkpoints"])
    alone = json.loads(call(*TINY, "--seeds", 1, "--seed", 8, "--json").stdout)
    assert alone["runs"] == found["runs"][1:]
    assert (tmp_path / "votes.png").read_bytes().startswith(b"\x89PNG")


def test_table() -> None:
    """Without `--json` there are both tables, what cannot be promised, and the sentence."""
    shown = call(*TINY, "--seeds", 1).stdout
    assert "6 models, 4 prompts, 120 votes" in shown
    assert "What the policy promises" in shown
    assert "equal exposure within 12 % is possible for up to 23 models, and there are 6" in shown
    assert "A model that joins is due exposure from then on, 33.3 per 100 matchups" in shown
    assert "On average of all measurements up to 120 votes the policy orders" in shown


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--models", 1], "models must be 2 or more, not 1"),
        (["--newcomers", 19], "newcomers must be from 0 to 18, as 2 models begin, not 19"),
        (["--noise", 1.5], "noise must be from 0 to 1, not 1.5"),
        (["--noise", "nan"], "noise must be from 0 to 1, not nan"),
        (["--answered", 0], "answered must be above 0 and at most 1, not 0.0"),
        (["--seeds", 0], "--seeds must be 1 or more, not 0"),
        (["--seed", -1], "--seed must be 0 or more, not -1"),
        (["--every", 0], "--every must be 1 or more, not 0"),
        (["--plot", "votes.txt"], "--plot writes a .png file, not 'votes.txt'"),
        (["--plot", "nowhere/votes.png"], "--plot: there is no folder nowhere"),
        (["--policy", "none.yaml"], "none.yaml"),
    ],
)
def test_wrong_arguments(words: list[object], why: str) -> None:
    """Wrong input ends with exit 2 and one sentence, before any work."""
    result = call(*words)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert why in result.stderr
    assert result.stderr.count("\n") == 1


def test_policy_file(tmp_path: Path) -> None:
    """`--policy` is what runs: without a contender lane none is drawn."""
    file = tmp_path / "policy.yaml"
    file.write_text("lanes: {coverage: 0.7, contender: 0, uncertainty: 0.2, exploration: 0.1}\n")
    found = json.loads(call(*TINY, "--seeds", 1, "--policy", file, "--json").stdout)
    assert found["runs"][0]["v2"]["drawn"]["contender"] == 0
    assert found["settings"]["policy"]["lanes"]["coverage"] == 0.7


@pytest.mark.parametrize("phase", Phase)
def test_12_a_season_in_each_phase(phase: Phase) -> None:
    """Section 12: in the shadow every vote comes from the scheme before, as if there were no
    policy; from phase 2 on from the four lanes, and from phase 3 on from the decide lane, too.
    """
    start = datetime(2025, 3, 3, tzinfo=UTC)
    log = season(SMALL, Policy(phase=phase), rng=rng(), start=start, days=14)
    lanes = {row.lane for row in log.to_battles()}
    assert lanes == set(lane_weights(Policy(phase=phase)))
    assert ("decide" in lanes) is (phase >= Phase.MIGRATION)


def test_12_the_duel_is_between_the_ends_of_the_rollout() -> None:
    """`simulate` compares the policy in force with the scheme before, whatever phase the policy
    file says.
    """
    world = replace(SMALL, matchups=100)
    found = [duel(world, Policy(phase=phase), rng=rng(), every=50) for phase in Phase]
    assert all(each == found[0] for each in found)
    assert (found[0].v2.ordered_by, found[0].baseline.ordered_by) == ("conservative", "legacy_elo")
    assert found[0].baseline.drawn == {"baseline": 1.0}
