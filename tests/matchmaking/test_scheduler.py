"""The scheduler and the four lanes as written: each rule by its number, and a whole arena."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit import Arena, Battle, BattleLog, Outcome
from arena_kit.matchmaking.arena import Meetings, Scheduler
from arena_kit.matchmaking.lanes import Lane, MatchmakingError, Matchup, PromptGaps, lane_weights
from arena_kit.policy import constants
from arena_kit.policy.constants import Contenders, Exposure, LaneWeights, Phase, Policy
from arena_kit.policy.coverage import Coverage
from arena_kit.policy.exposure import Bools, Counts, Floats
from arena_kit.policy.rules import Standing, contender_band
from arena_kit.rating.glicko2 import GlickoState
from tests.samples import CASES

A, B, TIE, BAD = Outcome
MODELS = [f"m{i:02}" for i in range(20)]
PROMPTS = [f"p{i:02}" for i in range(15)]
WRITTEN = Policy()
FLAT: dict[str, GlickoState] = {}  # nobody is rated yet
SHADOW = Policy(phase=Phase.SHADOW)


def only(lane: str, **more: Any) -> Policy:
    weights = dict.fromkeys(lane_weights(WRITTEN), 0.0) | {lane: 1.0}
    return replace(WRITTEN, lanes=LaneWeights(**weights), **more)


def arena(
    policy: Policy, models: Sequence[str] = MODELS, prompts: Sequence[str] = PROMPTS, **more: Any
) -> Scheduler:
    return Scheduler(policy, models, prompts, rng=np.random.default_rng(7), **more)


def ladder(models: Sequence[str] = MODELS) -> dict[str, GlickoState]:
    return {m: GlickoState(2000.0 - 40 * i, 60.0, 0.06) for i, m in enumerate(models)}


def states(**ratings: tuple[float, float]) -> dict[str, GlickoState]:
    return {m: GlickoState(*state, 0.06) for m, state in ratings.items()}


def votes(
    pairs: Iterable[Sequence[str]], prompts: Sequence[str] = PROMPTS, outcome: Outcome = A
) -> BattleLog:
    return BattleLog.from_battles(
        Battle(model_a=a, model_b=b, winner=outcome, question_id=p)
        for a, b in pairs
        for p in prompts
    )


def played(scheduler: Scheduler, n: int, ratings: Any = FLAT, outcome: Any = A) -> list[Matchup]:
    done = []
    for _ in range(n):
        done.append(scheduler.next_matchup(ratings))
        vote = outcome(done[-1]) if callable(outcome) else outcome
        scheduler.record(done[-1].matchup_id, vote)
    return done


def withdrawn(scheduler: Scheduler, n: int, ratings: Any = FLAT) -> list[Matchup]:
    return [scheduler.cancel(scheduler.next_matchup(ratings).matchup_id) for _ in range(n)]


def pair(matchup: Matchup) -> tuple[str, str]:
    first, second = sorted([matchup.model_a, matchup.model_b])
    return first, second


def most_repeated(prompts: Sequence[str]) -> int:
    """How often ten meetings in a row hold one prompt, at most."""
    return max(max(Counter(prompts[n : n + 10]).values()) for n in range(len(prompts) - 9))


def without_ids(matchups: Iterable[Matchup]) -> list[Matchup]:
    return [replace(matchup, matchup_id="") for matchup in matchups]


def test_6_1_anchor() -> None:
    """6.1, 7.1: the anchor lacks most, breaches first; it meets whom and where both lack most."""
    for models, window, battles, reason in (
        (  # 6.1: of models shown equally often, the one with the fewest votes
            "abcd", 2000, [votes(combinations("abc", 2)), votes(["ad", "bd", "cd"], outcome=TIE)],
            "d was shown 45 times, target 45.5: largest deficit of exposure, prompts and opponents",
        ),
        (  # 7.1: below the lower bound of exposure, though x lacks no votes and the others do
            "abcdx", 60,
            [votes(["xa", "xb", "xc"] * 4), votes(["ab", "bc", "ac", "ad"], outcome=BAD)],
            "x was shown 0 times, target 24.4: below the bound of 21.5",
        ),
        (  # 7.1: of two below the bound, the one further below
            "abcde", 2000, [votes([*["ab", "ac", "bc"] * 2, "ad"])], "e was shown 0 times",
        ),
    ):  # fmt: skip
        policy = only("coverage", exposure=Exposure(window=window))
        scheduler = arena(policy, list(models), battles=BattleLog.joined(*battles))
        assert scheduler.next_matchup(FLAT).reason.startswith(reason)
    scheduler = arena(only("coverage"), list("abcd"), battles=votes(["ab", "ac", "bd", "cd"] * 2))
    assert {pair(each) for each in withdrawn(scheduler, 20)} <= {("a", "d"), ("b", "c")}
    battles = BattleLog.joined(votes(["ax", "bx"] * 4, ["full"]), votes(["ab"], ["short"]))
    scheduler = arena(only("coverage"), ["a", "b"], ["full", "short"], battles=battles)
    assert scheduler.next_matchup(FLAT).prompt == "short"


def test_6_1_newcomers_meet_everybody() -> None:
    """6.1, 7.1: two newcomers are shown soon, as often as due, and to everybody."""
    coins = np.random.default_rng(3)
    running = Arena(WRITTEN, MODELS[:12], PROMPTS, rng=np.random.default_rng(7))
    met: list[tuple[int, str]] = []
    for n in range(1200):
        if n == 600:
            running.scheduler.enable("x")
            running.scheduler.enable("y")
        matchup = running.next_matchup()
        running.vote(matchup.matchup_id, A if coins.random() < 0.5 else B)
        met += [(n, other) for other in {*pair(matchup)} - {"x"} if "x" in pair(matchup)]
    opponents = Counter(other for _, other in met)
    assert met[0][0] < 610
    assert len(met) == pytest.approx(600 * 2 / 14, rel=0.12)
    assert opponents["y"] < 0.3 * len(met)
    assert len(opponents) >= 12


def test_7_1_who_is_owed_what() -> None:
    """7.1, 7.2: nobody is owed places of who left, or far beyond its due; contenders lack most."""
    scheduler = arena(WRITTEN)
    played(scheduler, 500, ladder())
    for name in MODELS[15:]:
        scheduler.disable(name)
    reasons = " ".join(each.reason for each in withdrawn(scheduler, 30, ladder()))
    assert "largest deficit" in reasons
    assert "below the bound" not in reasons
    even = dict.fromkeys(MODELS, 1.0)
    assert all(fair.within for fair in scheduler.coverage().fairness(even))
    models = [f"m{n:02}" for n in range(40)]
    scheduler, ratings = arena(WRITTEN, models), ladder(models)
    played(scheduler, 1000, ratings)
    for place in range(8):  # at every rank it has other neighbours, whom it has not met
        ratings["m39"] = GlickoState(1730.0 + 40 * place, 60.0, 0.06)
        played(scheduler, 60, ratings)
    fairness = scheduler.coverage().fairness(scheduler.exposure_due(ratings))
    assert next(fair for fair in fairness if fair.model == "m39").within
    policy = only("coverage", contenders=Contenders(band=2))
    met = votes(["ab", "cd"] * 2, PROMPTS[:5])
    scheduler = arena(policy, list("abcd"), PROMPTS[:5], battles=met)
    anchors = {each.reason.split()[0] for each in withdrawn(scheduler, 30, ladder("cabd"))}
    assert anchors == {"c", "a"}


def test_7_3_pairs_below_the_floor_first() -> None:
    """7.3: neighbours meet until 12 votes on 6 prompts, and for a while where they always tie."""
    scheduler = arena(only("contender"))
    done = played(scheduler, 7 * 12, ladder())
    assert {pair(matchup) for matchup in done[:7]} == set(pairwise(MODELS[:8])), "one by one"
    assert Counter(map(pair, done)) == dict.fromkeys(pairwise(MODELS[:8]), 12)
    assert all(each["meets_floor"] for each in scheduler.coverage().adjacent(MODELS[:8]))
    assert done[-1].reason.endswith("have 11/12 votes on 11/6 prompts")
    assert "meets" in scheduler.next_matchup(ladder()).reason
    met = votes([("m00", "m01")] * 3, PROMPTS[:5])
    matchup = arena(only("contender"), MODELS[:2], battles=met).next_matchup(ladder())
    assert matchup.reason == "ranks 1 and 2 have 15/12 votes on 5/6 prompts"
    few = arena(only("contender"), MODELS[:2], PROMPTS[:5], battles=met)
    assert "meets the adjacent" in few.next_matchup(ladder()).reason
    scheduler = arena(only("contender"), MODELS[:2])
    waiting = [scheduler.next_matchup(ladder()).matchup_id for _ in range(12)]
    withdrawn(scheduler, 1, ladder())
    for n, outcome in enumerate([A, B, TIE, BAD]):
        scheduler.record(waiting[n], outcome)
    ten, eleven, full = (scheduler.next_matchup(ladder()).reason for _ in range(3))
    assert ten == "ranks 1 and 2 have 10/12 votes on 10/6 prompts"
    assert eleven == "ranks 1 and 2 have 11/12 votes on 11/6 prompts"
    assert "meets the adjacent" in full
    twins = ("m00", "m01")
    done = played(arena(WRITTEN), 800, ladder(), lambda each: TIE if pair(each) == twins else A)
    first = [each for each in done if pair(each) == twins and "votes on" in each.reason]
    assert 12 < len(first) <= 60
    late = [pair(each) == twins for each in done[500:] if each.lane is Lane.CONTENDER]
    assert sum(late) < 0.3 * len(late)


def test_6_2_whom_contenders_meet() -> None:
    """6.2: 70 % neighbours, 20 % closest other contenders, 10 % challengers from ranks 9 to 16."""
    scheduler = arena(only("contender"), battles=votes(pairwise(MODELS[:9])))
    kinds: Counter[str] = Counter()
    for matchup in played(scheduler, 600, ladder()):
        low, high = (MODELS.index(m) for m in pair(matchup))
        kind = matchup.reason.split(" meets ")[1].split()[1]
        kinds[kind] += 1
        apart = {"adjacent": high == low + 1, "challenger": low < 8 <= high < 16}
        assert apart.get(kind, low + 2 == high < 8)
    shares = {"adjacent": 0.7, "closest-rated": 0.2, "challenger": 0.1}
    assert {kind: n / 600 for kind, n in kinds.items()} == pytest.approx(shares, abs=0.04)


def test_6_2_third_repeat_within_ten() -> None:
    """6.2: a pair meets where it has fewest votes; no ten meetings hold a prompt three times."""
    for between, allowed in ((7, False), (8, True)):
        meetings = Meetings(constants.Repeats())
        for prompt in [0, 0, *range(1, between + 1)]:
            meetings.begin((0, 1), prompt)
            meetings.end((0, 1), prompt)
        assert (0 not in meetings.used_up((0, 1), 15)) is allowed
        assert meetings.used_up((0, 2), 15) == set()
    rng, scheduler = np.random.default_rng(3), arena(only("contender"), MODELS[:2])
    voted: list[str] = []
    for _ in range(60):
        waiting = [scheduler.next_matchup(ladder()) for _ in range(rng.integers(1, 8))]
        for n in rng.permutation(len(waiting)):
            if rng.random() < 0.5:
                scheduler.cancel(waiting[n].matchup_id)
            else:
                voted.append(scheduler.record(waiting[n].matchup_id, A).prompt)
    assert len(voted) > 80
    assert most_repeated(voted) <= 2
    others = votes([("m00", "x"), ("m01", "x")] * 3, PROMPTS[12:])
    battles = BattleLog.joined(votes([("m00", "m01")], PROMPTS[:12]), others)
    done = played(arena(only("contender"), MODELS[:2], battles=battles), 3, ladder())
    assert {matchup.prompt for matchup in done} == set(PROMPTS[12:])
    done = played(arena(WRITTEN, MODELS[:2], PROMPTS[:3]), 60, ladder())
    assert most_repeated([matchup.prompt for matchup in done]) <= 4
    assert len(played(arena(WRITTEN, MODELS[:2], PROMPTS[:1]), 30)) == 30


def test_6_3_anchor() -> None:
    """6.3: anchors by RD · (2 - coverage), 6:2:2:1; opponents 1 + 0.25/11, 1 - 0.0575 + 0.25."""
    ratings = states(a=(1500, 300), b=(1500, 100), c=(1500, 100), d=(1500, 100))
    covered = votes([("d", "gone")] * 2, PROMPTS[:5])
    scheduler = arena(only("uncertainty"), list("abcd"), PROMPTS[:5], battles=covered)
    anchors = Counter(each.reason.split(";")[0] for each in withdrawn(scheduler, 600, ratings))
    for anchor, share in (("300.0 at coverage 0.00", 6 / 11), ("100.0 at coverage 0.00", 4 / 11),
                          ("100.0 at coverage 1.00", 1 / 11)):  # fmt: skip
        assert anchors[f"RD {anchor}"] / 600 == pytest.approx(share, abs=0.05)
    ratings = states(a=(1500, 5000), b=(1500, 1e-9), c=(1520, 1e-9))
    policy, met = only("uncertainty"), votes(["ab", "cd", "cd"], PROMPTS[:10])
    assert pair(arena(policy, list("abc")).next_matchup(ratings)) == ("a", "b")
    later = arena(policy, list("abc"), battles=met).next_matchup(ratings)
    assert later.reason == "RD 5000.0 at coverage 0.00; expected score 0.47 after 0 votes"
    even = arena(replace(policy, coverage_bonus=0.0), list("abc"), battles=votes(["ab", "cd"]))
    assert pair(even.next_matchup(ratings)) == ("a", "b"), "without the bonus chances alone count"
    ratings, available = states(a=(1500, 5000), b=(1500, 1e-9)), [[1, 1, 1, 0, 0, 0], [1] * 6]
    scheduler = arena(only("uncertainty"), ["a", "b"], PROMPTS[:6], available=available)
    assert {matchup.prompt for matchup in played(scheduler, 6, ratings)} <= set(PROMPTS[:3])
    assert scheduler.next_matchup(ratings).reason.startswith("RD 5000.0 at coverage 0.50")


def test_6_4_inverse_exposure() -> None:
    """2, 6.4: drawn by 1 / (shown + 1): 65.8 % and 2.6 %; prompts short of the floor first."""
    for policy in (only("exploration", exposure=Exposure(window=1)), SHADOW):
        met = BattleLog.joined(votes([("d", "gone")] * 2), votes([("gone", "away")]))
        done = withdrawn(arena(policy, list("abcd"), battles=met), 600)
        drawn = Counter(model for matchup in done for model in pair(matchup))
        assert drawn["a"] / 600 == pytest.approx(0.658, abs=0.05)
        assert drawn["d"] / 600 == pytest.approx(0.026, abs=0.015)
    scheduler = arena(only("exploration"), ["a", "b"], battles=votes(["ab"] * 2, PROMPTS[:9]))
    assert {scheduler.next_matchup(FLAT).prompt for _ in range(6)} <= set(PROMPTS[9:])
    battles = BattleLog.joined(votes(["ax", "bx"] * 2), votes(["ax", "bx"] * 5, PROMPTS[:1]))
    full = arena(only("exploration"), ["a", "b"], battles=battles)
    drawn = Counter(matchup.prompt for matchup in withdrawn(full, 600))
    assert all(drawn[prompt] == pytest.approx(40, abs=20) for prompt in PROMPTS)


def test_11_sessions() -> None:
    """11: a session sees a pair on a prompt again only after its gap; the oldest is forgotten."""
    for gap, apart in ((8, True), (0, False)):
        scheduler = arena(replace(WRITTEN, repeats=constants.Repeats(session_gap=gap)), MODELS[:2])
        seen = [scheduler.next_matchup(FLAT, session="s").prompt for _ in range(60)]
        assert all(len(set(seen[n : n + 9])) == 9 for n in range(51)) is apart
    scheduler = arena(WRITTEN, MODELS[:2], PROMPTS[:1])
    scheduler.next_matchup(FLAT, session="s")
    with pytest.raises(MatchmakingError, match="seen by session 's' in its last 50 matchups"):
        scheduler.next_matchup(FLAT, session="s")
    assert scheduler.next_matchup(FLAT, session="t")
    one = replace(WRITTEN, repeats=constants.Repeats(sessions=1))
    forgets = arena(one, MODELS[:2], PROMPTS[:1])
    assert all(forgets.next_matchup(FLAT, session=session) for session in "sts")


def test_what_waits_and_what_is_cancelled() -> None:
    """Requests before any vote spread over pairs; cancelled matchups leave no trace."""
    scheduler = arena(only("coverage"))
    done = [scheduler.next_matchup(FLAT) for _ in range(10)]
    assert len({pair(matchup) for matchup in done}) == 10
    assert len({model for matchup in done for model in pair(matchup)}) >= 16
    assert scheduler.pending == tuple(done)
    scheduler, other = arena(WRITTEN), arena(WRITTEN)
    for each in (scheduler, other):
        played(each, 50, ladder())
    cancelled = [scheduler.next_matchup(ladder()) for _ in range(20)]
    for matchup in cancelled:
        assert scheduler.cancel(matchup.matchup_id) is matchup
        for again in (scheduler.cancel, lambda n: scheduler.record(n, A)):
            with pytest.raises(MatchmakingError, match=f"{matchup.matchup_id}' is not waiting"):
                again(matchup.matchup_id)
    scheduler.rng, other.rng = (np.random.default_rng(3) for _ in range(2))
    after = [without_ids(played(each, 100, ladder())) for each in (scheduler, other)]
    assert after[0] == after[1]


@given(st.lists(st.sampled_from([A, B, TIE, BAD, "cancel", "leave"]), max_size=40))
@settings(max_examples=20, deadline=None)
def test_coverage_is_of_votes_cast(what: list[Any]) -> None:
    """Coverage is that of the log of votes, without what waits for its vote or was cancelled."""
    scheduler, cast = arena(WRITTEN, MODELS[:4], PROMPTS[:5]), []
    for each in what:
        matchup = scheduler.next_matchup(ladder())
        if each == "cancel":
            scheduler.cancel(matchup.matchup_id)
        elif each != "leave":
            cast.append(scheduler.record(matchup.matchup_id, each).battle(each))
    coverage = scheduler.coverage()
    whole = Coverage.of(BattleLog.from_battles(cast), models=MODELS[:4], prompts=PROMPTS[:5])
    assert len(scheduler.pending) == what.count("leave")
    for column in ("votes", "decisive", "exposure", "by_pair", "by_prompt", "pair_prompts"):
        assert (getattr(coverage, column) == getattr(whole, column)).all(), column


def test_12_phases() -> None:
    """2, 12: phase 1 serves the scheme before, later phases the same lanes; equals go by name."""
    scheduler, other = (arena(SHADOW, prompts=PROMPTS[:2]) for _ in range(2))
    done = [scheduler.next_matchup(FLAT, session="s") for _ in range(200)]
    others = [other.next_matchup(ladder(MODELS[::-1]), session="s") for _ in range(200)]
    assert without_ids(others) == without_ids(done)
    assert {matchup.lane for matchup in done} == {Lane.BASELINE}
    assert all(matchup.reason.startswith("a prompt at random") for matchup in done)
    assert Counter(each.prompt for each in done)[PROMPTS[0]] == pytest.approx(100, abs=20)
    for matchup in done:
        scheduler.record(matchup.matchup_id, A)
    coverage = scheduler.coverage()
    assert coverage.votes.sum() == coverage.by_prompt.sum() == 400
    fairness = coverage.fairness(scheduler.exposure_due(ladder()))
    assert {target for each in fairness for target in (each.target, each.equal_target)} == {20.0}
    by_phase = [without_ids(played(arena(replace(WRITTEN, phase=p)), 60, ladder())) for p in Phase]
    assert by_phase[1] == by_phase[2] == by_phase[3] != by_phase[0]
    scheduler = arena(only("contender"), MODELS[::-1])
    band = contender_band(WRITTEN, [Standing(model=m, rating=1500.0, rd=350.0) for m in MODELS])
    assert {pair(scheduler.next_matchup(FLAT)) for _ in range(7)} == set(pairwise(band))


def test_what_cannot_be_served() -> None:
    """What cannot be served is not, a lane without a pair passes on, and errors name causes."""
    scheduler = arena(WRITTEN, MODELS[:5], PROMPTS[:6])
    played(scheduler, 100, ladder())
    scheduler.disable("m02")
    assert not any("m02" in pair(matchup) for matchup in played(scheduler, 100, ladder()))
    assert scheduler.enabled == ("m00", "m01", "m03", "m04")
    assert scheduler.coverage().votes[2] > 0
    scheduler.enable("m02")
    assert any("m02" in pair(matchup) for matchup in played(scheduler, 50, ladder()))
    with pytest.raises(MatchmakingError, match="unknown model 'who'; known: m00, m01"):
        scheduler.disable("who")
    available = np.random.default_rng(1).random((12, 15)) < 0.4
    available[5] = False
    scheduler = arena(WRITTEN, MODELS[:12], available=available)
    for matchup in played(scheduler, 400, ladder()):
        for model in pair(matchup):
            assert available[MODELS.index(model), PROMPTS.index(matchup.prompt)]
    scheduler.enable("m05", prompts=["p02"])
    assert any("m05" in pair(matchup) for matchup in played(scheduler, 20, ladder()))
    with pytest.raises(ValueError, match=r"12 rows .models. and 15 columns .prompts., not the"):
        arena(WRITTEN, MODELS[:12], available=[[True]])
    policy = only("contender", contenders=Contenders(band=2))
    available = np.eye(3, dtype=bool)[[0, 1, 2, 2, 2, 2]]
    scheduler = arena(policy, list("abcdef"), PROMPTS[:3], available=available)
    served = scheduler.next_matchup(ladder("abcdef"))
    assert served.fallen_through == (Lane.CONTENDER,)
    assert (served.drawn, served.lane) == (Lane.CONTENDER, Lane.UNCERTAINTY)
    assert set(pair(served)) <= set("cdef")
    for models, prompts, available, why in (
        ([], [], None, "0 of 0 models enabled, 2 needed"),
        (["a"], ["p"], None, "1 of 1 models enabled, 2 needed"),
        (["a", "b"], [], None, "none of 0 prompts is active"),
        (["a", "b"], ["p", "q"], np.eye(2), "no two enabled models both have a response"),
    ):
        with pytest.raises(MatchmakingError, match=f"no matchup can be served: {why}"):
            arena(WRITTEN, models, prompts, available=available).next_matchup(FLAT)


def season(n: int) -> Iterator[Matchup]:
    """Matchups of the four lanes, where models join and leave and some voters never answer."""
    rng = np.random.default_rng(11)
    skill = {name: 400 * rng.standard_normal() for name in [*MODELS[:18], "x", "y"]}
    available = rng.random((18, 15)) < 0.95
    arena = Arena(WRITTEN, MODELS[:18], PROMPTS, rng=np.random.default_rng(5), available=available)
    for number in range(n):
        if number == 700:
            arena.scheduler.enable("x")
            arena.scheduler.enable("y", prompts=PROMPTS[:9])
        if number == 1100:
            arena.scheduler.disable("m03")
        matchup = arena.next_matchup(session=f"s{rng.integers(40)}")
        yield matchup
        draw = rng.random()
        if 0.04 <= draw < 0.08:
            arena.scheduler.cancel(matchup.matchup_id)
        elif draw >= 0.08:
            gap = skill[matchup.model_b] - skill[matchup.model_a]
            arena.vote(matchup.matchup_id, voted(rng, 1 / (1 + 10 ** (gap / 400))))


def voted(rng: np.random.Generator, chance: float) -> Outcome:
    kind = rng.random()
    if kind < 0.15:
        return Outcome.TIE if kind < 0.1 else Outcome.BOTH_BAD
    return Outcome.MODEL_A if rng.random() < chance else Outcome.MODEL_B


def test_matchups_are_the_same_for_ever() -> None:
    """Matchups and reasons are those of the golden, our own output: sameness, not rightness."""
    rows = [[m.model_a, m.model_b, m.prompt, str(m.lane), m.reason] for m in season(1500)]
    golden = json.loads((CASES / "matchups.json").read_text())
    assert rows[:3] == golden["first"]
    blocks = [rows[start : start + 500] for start in range(0, 1500, 500)]
    digests = [hashlib.sha256(json.dumps(block).encode()).hexdigest() for block in blocks]
    assert (digests, rows[-3:]) == (golden["blocks"], golden["last"])


def whole(rule: constants.PromptFloors, can: Bools, votes: Counts, band: list[int]) -> Floats:
    """The whole table, by definition: the part of its floor or target that each model lacks."""
    wanted = np.full((len(votes), 1), rule.floor)
    wanted[band] = rule.top_target
    return np.where(can, np.maximum(0.0, 1 - votes / wanted), -np.inf)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), models=st.integers(2, 7), prompts=st.integers(1, 40),
    target=st.integers(2, 300),
)  # fmt: skip
def test_is_kept_up_with_votes_and_band(seed: int, models: int, prompts: int, target: int) -> None:
    """After every vote and change of band all figures are those of the whole table."""
    rng = np.random.default_rng(seed)
    rule = constants.PromptFloors(floor=min(2, target), top_target=target)
    can, active = rng.random((models, prompts)) < 0.7, rng.random(prompts) < 0.9
    can &= active
    active[0] = True
    votes = rng.integers(0, 4, (models, prompts))
    gaps = PromptGaps(rule, can, active, votes)
    for _ in range(6):
        changed = rng.choice(models, 2, replace=False)
        votes[changed, rng.integers(prompts)] += rng.integers(1, target)
        gaps.forget(changed.tolist())
        band = rng.choice(models, models // 2, replace=False)
        gaps.update(band)
        lack = whole(rule, can, votes, band.tolist())
        assert np.array_equal(gaps.total, np.maximum(lack, 0).sum(axis=1) / prompts)
        covered = (votes >= rule.floor) & active
        assert np.array_equal(gaps.coverage, covered.sum(axis=1) / active.sum())
        for model in range(models):
            assert np.array_equal(gaps.of(model), lack[model])
            mates = (can & can[model]).any(axis=1)
            most = (lack[model] + lack).max(axis=1)
            assert np.array_equal(gaps.most_with(model, mates)[mates], most[mates])
