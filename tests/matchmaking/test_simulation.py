"""The simulated arena: its truth, its two systems, what is measured, and the command."""

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from arena_kit import BattleLog, BradleyTerry, Outcome, claims
from arena_kit.cli.simulate import simulated
from arena_kit.matchmaking import simulation as sim
from arena_kit.matchmaking.arena import Arena
from arena_kit.matchmaking.lanes import lane_weights
from arena_kit.matchmaking.simulation import (
    Duel,
    Planted,
    Run,
    World,
    duel,
    planted,
    played,
    season,
)
from arena_kit.policy.constants import Contenders, Decide, Phase, Policy
from arena_kit.policy.rules import Standing
from arena_kit.reporting import simulation as reporting
from arena_kit.reporting.simulation import metrics, promises, summary
from tests.samples import call, rated_by_hand

TRUTH = {"a": 1600.0, "b": 1580.0, "c": 1540.0, "d": 1400.0}
ENDS = (Phase.GOVERNANCE, Phase.SHADOW)  # the policy in force, and the scheme before it
SMALL = World(models=8, prompts=6, matchups=400, newcomers=2)
QUICK = World(models=6, prompts=4, matchups=40, newcomers=2)
NOTHING = {"neighbours": 0, "settled": 0, "settled_by_votes": 0, "decided": 0, "wrong": 0,
           "equivalent": 0, "apart": 0}  # fmt: skip
TINY = ("simulate", "--models", 4, "--prompts", 3, "--matchups", 20, "--newcomers", 1,
        "--every", 10, "--jobs", 1)  # fmt: skip


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def votes(found: Planted, phase: Phase) -> list[sim.Vote]:
    return list(played(found, Arena(Policy(phase=phase), (), found.prompts, rng=rng(1))))


@pytest.fixture(scope="module")
def duels() -> list[Duel]:
    return [duel(QUICK, Policy(), rng=rng(seed), every=10) for seed in range(2)]


def made(run: Run, *changes: dict[str, Any]) -> Run:
    kept = run.checkpoints[: len(run.checkpoints) - len(changes)]
    last = run.checkpoints[len(kept) :]
    changed = [at | change for at, change in zip(last, changes, strict=True)]
    return replace(run, checkpoints=(*kept, *changed))


def test_closeness_by_hand() -> None:
    """By hand: closeness of orders; decided orders, equivalence and badges that are false."""
    for order, value in (("abcd", 1.0), ("bacd", 0.8), ("dcba", -1.0)):
        assert sim.rank_correlation(list(order), TRUTH) == pytest.approx(value)
        by_scipy = spearmanr(range(4), [-TRUTH[m] for m in order]).statistic
        assert sim.rank_correlation(list(order), TRUTH) == pytest.approx(by_scipy)
    assert sim.order_accuracy(list("badc"), TRUTH, top=3) == pytest.approx(2 / 3)
    assert sim.order_accuracy(list("abcd"), TRUTH, top=8) == 1
    assert sim.order_accuracy(list("dcba"), TRUTH, top=2) == 0
    for order, worst in (("abcd", 0.0), ("bacd", 20.0), ("acbd", 40.0), ("dabc", 200.0)):
        assert sim.inversion(order, TRUTH) == worst
    for true, wrong, apart, badges in (
        ((1500.0, 1400.0, 1300.0, 1280.0), 0, 0, 0),
        ((1500.0, 1500.1, 1300.0, 1280.0), 1, 0, 2),  # a above b is false, by however little
        ((1500.0, 1400.0, 1300.0, 1279.0), 0, 1, 2),  # c and d are 21 points apart, not 20 at most
        ((1300.0, 1400.0, 1500.0, 1500.0), 5, 0, 3),  # everything but that c and d are alike
    ):
        fit = rated_by_hand({"a": 1560.0, "b": 1530.0, "c": 1500.0, "d": 1499.0}, 4.0)
        truth = dict(zip("abcd", true, strict=True))
        for top, settled in (("abcd", 3), ("bacd", 2)):
            assert sim.order_counts(Policy(), top, fit, truth) == {
                "neighbours": 3, "settled": settled, "settled_by_votes": 3, "decided": 5,
                "wrong": wrong, "equivalent": 1, "apart": apart,
            }  # fmt: skip
        assert sim.order_counts(Policy(), "abcz", fit, truth)["decided"] == 3, "z is not rated"
        shared = {"rd": 60.0, "decisive": 200, "prompt_coverage": 1.0}
        board = [Standing(model=m, rating=1600.0 - n, **shared) for n, m in enumerate("abcd")]
        found = sim.badge_counts(Policy(), board, fit, truth)
        assert found == {"stable": 4, "wrongly_stable": badges}
        few = [replace(each, decisive=199) for each in board]
        assert sim.badge_counts(Policy(), few, fit, truth) == {"stable": 0, "wrongly_stable": 0}


def test_a_checkpoint_is_of_the_votes_so_far() -> None:
    """At every look, what is decided is that of a refit of the votes so far."""
    world = World(models=5, prompts=4, matchups=600, newcomers=0, skill_sd=200.0)
    policy = Policy(phase=Phase.SHADOW, contenders=Contenders(band=5))
    found = planted(world, rng(3))
    looks = sim.run(found, Arena(policy, (), found.prompts, rng=rng(1)), every=300).checkpoints
    again = Arena(policy, (), found.prompts, rng=rng(1))
    battles = [vote.matchup.battle(vote.outcome) for vote in played(found, again)]
    truth = dict(zip(found.models, found.truth.tolist(), strict=True))
    for look in looks:
        votes_then = BattleLog.from_battles(battles[: look["votes"]])
        fit = BradleyTerry(both_bad="exclude", cluster="battle", looks=80)(votes_then)
        above = claims.decided(fit)
        assert look["decided"] == above.sum() > 0
        pairs = [(fit.models[i], fit.models[j]) for i, j in np.argwhere(above)]
        assert look["wrong"] == sum(truth[better] < truth[worse] for better, worse in pairs)
        accuracy = sim.order_accuracy(fit.order, truth, 5)
        assert look["bradley_terry_order_accuracy"] == pytest.approx(accuracy)


def test_claims_are_counted_by_hand(duels: list[Duel]) -> None:
    """Of two claims one is false, of two official boards one by 21 points, of four badges one."""
    one = NOTHING | {"neighbours": 1, "settled": 1, "decided": 1}
    official, silent = {"official": True}, {"official": False, "inversion": None}
    v2 = made(
        duels[0].v2,
        one | official | {"inversion": 0.0, "stable": 2, "wrongly_stable": 0},
        one | official | {"inversion": 21.0, "wrong": 1, "stable": 2, "wrongly_stable": 1},
        NOTHING | silent | {"neighbours": 1, "stable": 0, "wrongly_stable": 0},
        NOTHING | silent | {"stable": 0, "wrongly_stable": 0},
    )
    found = metrics(v2)
    assert (found["stable_at"], found["false_claims"], found["false_orders"]) == (10, 0.5, 0.5)
    assert found["false_badges"] == 0.25
    assert found["order_settled"] is None, "nothing can be fitted at the end"
    none = metrics(made(v2, *([NOTHING | silent | {"stable": 0, "wrongly_stable": 0}] * 4)))
    assert {
        none[name] for name in ("stable_at", "false_claims", "false_orders", "false_badges")
    } == {None}


def test_the_seed_alone_decides(duels: list[Duel]) -> None:
    """A seed gives the same duel again; both systems meet the same voters."""
    assert list(simulated(QUICK, Policy(), range(1), 10, 1)) == duels[:1]
    assert duels[0] != duels[1]
    tiny = planted(World(models=2, prompts=1, newcomers=0, matchups=60, session_length=20.0), rng())
    assert len(votes(tiny, ENDS[0])) == 60, "who has seen all there is comes back as somebody new"
    found = planted(replace(SMALL, matchups=200, noise=0.3), rng())
    both = list(zip(*(votes(found, phase) for phase in ENDS), strict=True))
    assert all(v2.matchup.session == baseline.matchup.session for v2, baseline in both)
    blind = [pair for pair in both if found.button[pair[0].number] >= 0]
    assert len(blind) > 40
    assert all(v2.outcome == baseline.outcome for v2, baseline in blind)
    for each in duels:
        joined = [[at["models"] for at in run.checkpoints] for run in each]
        assert joined[0] == joined[1] == [4, 5, 6, 6]


def test_voters_follow_bradley_terry() -> None:
    """191 points win 3 of 4; equals tie in 2 / (1 + 10^(-60/400)) - 1 = 17 %; a floor is kept."""
    world = World(models=2, prompts=1, matchups=20_000, newcomers=0, noise=0.0, tie_gap=0.0,
                  bad_below=-9000.0, bad_sd=0.0)  # fmt: skip
    drawn = planted(world, rng())

    def share(outcome: Outcome, *quality: float, **change: Any) -> float:
        given = replace(drawn, quality=np.array(quality)[:, None], world=replace(world, **change))
        return Counter(given.vote(n, 0, 1, 0) for n in range(20_000))[outcome] / 20_000

    assert share(Outcome.MODEL_A, 1691.0, 1500.0) == pytest.approx(0.75, abs=0.01)
    assert share(Outcome.TIE, 1500.0, 1500.0, tie_gap=60.0) == pytest.approx(0.171, abs=0.01)
    assert share(Outcome.BOTH_BAD, -99_000.0, -99_000.0) == 1
    assert share(Outcome.MODEL_B, -99_000.0, 9000.0) == 1


@pytest.mark.parametrize("phase", ENDS)
def test_newcomers_join_late_and_only_responses_that_exist_are_shown(phase: Phase) -> None:
    """Newcomers appear once joined; only responses that exist are shown."""
    found = planted(replace(SMALL, answered=0.5), rng())
    assert 0.3 < found.answered.mean() < 0.8
    late = {found.models[i]: int(found.joins[i]) for i in np.flatnonzero(found.joins)}
    assert sorted(late.values()) == [120, 200]
    done = [(v.number, v.matchup.prompt, {v.matchup.model_a, v.matchup.model_b})
            for v in votes(found, phase)]  # fmt: skip
    for model, joins in late.items():
        shown = [number for number, _, pair in done if model in pair]
        assert min(shown) >= joins
        assert sum(number < joins + 30 for number in shown) >= 4
    answered = dict(zip(found.models, found.answered, strict=True))
    place = {prompt: n for n, prompt in enumerate(found.prompts)}
    assert all(answered[m][place[prompt]] for _, prompt, pair in done for m in pair)
    for quality, has, truth in zip(found.quality, found.answered, found.truth, strict=True):
        assert truth == pytest.approx(quality[has].mean())


@pytest.mark.slow  # a season long enough that every promise can be kept
def test_promises_on_a_smaller_case() -> None:
    """Every promise of the policy is kept, sides within three standard errors."""
    world = World(models=12, prompts=8, matchups=2500, newcomers=0)
    found = promises(Policy(), [duel(world, Policy(), rng=rng(1), every=2500)])
    sides = found.pop(1)
    assert sides["value"] < 3 * 0.5 / sqrt(2500)
    assert len(found) == 5
    assert all(row["met"] for row in found), found


def test_promises_can_be_broken(duels: list[Duel]) -> None:
    """0.1, 0.2, 0.3 are 0.2 ± 0.248; a promise is broken beyond its bound; words follow."""

    def met(**change: float) -> list[bool]:
        v2 = replace(made(duels[0].v2, change), left=0.515)
        return [row["met"] for row in promises(Policy(), [Duel(v2, v2)])][1:]

    at = {"exposure_deviation": 0.12, "adjacent_share": 0.8, "coverage_mean": 0.9}
    assert met(**at) == [True] * 5
    for n, beyond in ((1, {"exposure_deviation": 0.121}), (2, {"exposure_deviation": 0.121}),
                      (3, {"adjacent_share": 0.79}), (4, {"coverage_mean": 0.89})):  # fmt: skip
        assert met(**at | beyond)[n] is False
    tilted = duels[1]._replace(v2=replace(duels[1].v2, left=0.484))
    assert promises(Policy(), [duels[0], tilted])[1]["met"] is False
    shared = duels[0].v2
    runs = [made(shared, {"coverage_mean": 0.5 + gap}) for gap in (0.0, 0.1, 0.2, 0.3)]
    pairs = [Duel(run, runs[0]) for run in runs[1:]]
    found = summary(pairs)["difference"]["coverage_mean"]
    assert found["mean"] == pytest.approx(0.2)
    assert found["half"] == pytest.approx(4.302653 * 0.1 / sqrt(3))
    assert (found["seeds"], found["clear"]) == (3, False)
    back = summary([Duel(d.baseline, d.v2) for d in pairs])["difference"]["coverage_mean"]
    assert back["mean"] == pytest.approx(-0.2)
    never = summary([Duel(duels[0].baseline, duels[0].baseline)] * 3)
    assert never["difference"]["stable_at"]["mean"] is None
    rows = {row["what"]: row for row in reporting.table_rows(pairs)}
    assert rows["prompt coverage, mean"]["difference (95 %)"] == "+20.0% ± 24.8% unclear"
    for v2, baseline, words in (
        (0.9, 0.6, "orders the true top 6 better than the baseline (91.0% against"),
        (0.6, 0.9, "orders the true top 6 worse than the baseline (61.0% against"),
        (0.9, 0.9, "top 6 not significantly better or worse than"),
    ):
        pairs = []
        for n in range(3):
            other = baseline + (n / 100 if v2 == baseline else 0)
            values = (v2 + n / 100, other)
            runs = (made(duels[0].v2, *[{"order_accuracy": x}] * 4) for x in values)
            pairs.append(Duel(*runs))
        assert words in reporting.sentence(pairs, Policy())


@pytest.mark.parametrize("phase", [Phase.SHADOW, Phase.LANES, Phase.GOVERNANCE])
def test_12_a_season_in_each_phase(phase: Phase) -> None:
    """12: each phase draws from its lanes; a season has all that reports need, in order."""
    policy = Policy(phase=phase, decide=Decide(share=0.4))
    start = datetime(2025, 3, 3, tzinfo=UTC)
    world = replace(SMALL, matchups=200)
    rows = list(season(world, policy, rng=rng(), start=start, days=14).to_battles())
    assert {row.lane for row in rows} == set(lane_weights(policy))
    assert ("decide" in {row.lane for row in rows}) is (phase >= Phase.MIGRATION)
    times = [row.timestamp for row in rows if row.timestamp]
    assert times == sorted(times)
    assert start <= times[0] < times[-1] < datetime(2025, 3, 17, tzinfo=UTC)
    assert [row.battle_id for row in rows] == sorted({row.battle_id or "" for row in rows})
    assert all(row.question_id and row.session and row.source == "human" for row in rows)


def test_12_a_duel_is_between_the_ends_in_any_phase() -> None:
    """12: whatever phase a policy is in, its full form meets the scheme before it."""
    duels = [
        duel(replace(QUICK, matchups=10), Policy(phase=phase), rng=rng(), every=10)
        for phase in (Phase.SHADOW, Phase.GOVERNANCE)
    ]
    assert duels[0] == duels[1]
    assert duels[0].baseline.drawn == {"baseline": 1.0}


def test_json(tmp_path: Path) -> None:
    """`--json` prints settings, summary, promises and runs; without it tables; `--policy` runs."""
    file = tmp_path / "policy.yaml"
    file.write_text("lanes: {coverage: 0.7, contender: 0, uncertainty: 0.2, exploration: 0.1}\n")
    words = ("--policy", file, "--json", "--plot", tmp_path / "votes.png")
    result = call(*TINY, "--seeds", 2, "--seed", 7, *words)
    assert (tmp_path / "votes.png").read_bytes().startswith(b"\x89PNG")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert set(found) == {"settings", "summary", "promises", "limits", "sentence", "runs"}
    assert found["settings"]["world"]["matchups"] == 20
    assert found["settings"]["seeds"] == [run["seed"] for run in found["runs"]] == [7, 8]
    assert all(set(part) == set(reporting.METRICS) for part in found["summary"].values())
    run = found["runs"][0]["v2"]
    assert sum(run["drawn"].values()) == pytest.approx(1)
    assert [at["votes"] for at in run["checkpoints"]] == [10, 20]
    shown = call(*TINY, "--seeds", 1).stdout
    for words in ("4 models, 3 prompts, 20 votes", "Guarantees of the policy", "there are 4",
                  "On average over all measurements up to 20 votes"):  # fmt: skip
        assert words in shown
    assert found["runs"][0]["v2"]["drawn"]["contender"] == 0
    assert found["settings"]["policy"]["lanes"]["coverage"] == 0.7


def test_wrong_arguments() -> None:
    """Wrong input ends with exit 2 and a sentence that names it, before any work."""
    for words, why in (
        (["--models", 1], "models"),
        (["--newcomers", 19], "newcomers must be at most 18, as 2 models begin"),
        (["--noise", "nan"], "noise"),
        (["--answered", 0], "answered"),
        (["--seeds", 0], "--seeds"),
        (["--policy", "none.yaml"], "none.yaml"),
    ):
        result = call("simulate", *words)
        assert result.exit_code == 2
        assert why in result.stderr
