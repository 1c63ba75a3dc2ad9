"""Coverage: hand-counted logs, the rules by their number, and vote by vote against the whole."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit import Battle, BattleLog, DataError, Outcome
from arena_kit.battles.battle import OUTCOMES
from arena_kit.policy.constants import Contenders, Exposure, Policy
from arena_kit.policy.coverage import Coverage, Tally
from arena_kit.policy.exposure import Roster
from arena_kit.validity.leaderboard import leaderboard

Vote = tuple[str, str, str | None, str]
MODELS = st.lists(st.sampled_from("edcba"), min_size=2, max_size=2, unique=True)
VOTES = st.lists(
    st.tuples(MODELS, st.sampled_from(["q", "p", "r", None]), st.sampled_from(list(Outcome))),
    max_size=60,
)
Cell = tuple[tuple[int, int], int]
FATES = st.sampled_from(["cast", "awaited", "given up"])


def log(votes: Sequence[Vote]) -> BattleLog:
    return BattleLog.from_battles(
        Battle(model_a=a, model_b=b, winner=Outcome(winner), question_id=prompt)
        for a, b, prompt, winner in votes
    )


def wins(a: str, b: str, prompt: str, n: int) -> list[Vote]:
    return [(a, b, prompt, "model_a")] * n


def row(coverage: Coverage, column: str) -> dict[str, int]:
    return dict(zip(coverage.models, getattr(coverage, column).tolist(), strict=True))


def even(coverage: Coverage) -> dict[str, float]:
    return dict.fromkeys(coverage.models, 1.0)


def same(one: Coverage, other: Coverage) -> None:
    for name in (each.name for each in fields(Coverage)):
        left, right = getattr(one, name), getattr(other, name)
        if isinstance(left, np.ndarray):
            assert left.shape == right.shape, name
            assert (left == right).all(), name
        else:
            assert left == right, name


def test_counted_by_hand() -> None:
    """4: votes of each kind and pairs of both models; 9.2: 6/12 votes or 3/6 prompts are 1/2."""
    counted = Coverage.of(log([("a", "b", "p", "model_a"), ("b", "a", "p", "model_a"),
                               ("a", "c", "q", "tie"), ("c", "b", "q", "both_bad"),
                               ("c", "a", None, "model_b")]))  # fmt: skip
    assert row(counted, "votes") == {"a": 4, "b": 3, "c": 3}
    assert row(counted, "decisive") == {"a": 3, "b": 2, "c": 1}
    assert row(counted, "ties") == {"a": 1, "b": 0, "c": 1}
    assert row(counted, "both_bad") == {"a": 0, "b": 1, "c": 1}
    assert counted.by_prompt.tolist() == [[2, 0], [2, 0], [0, 0]]
    assert counted.by_pair.tolist() == [[0, 2, 1], [2, 0, 0], [1, 0, 0]]
    assert counted.pair("b", "a")[:2] == (2, 1)
    assert counted.pair("c", "a")[:2] == (1, 0), "no prompt, no diversity"
    flipped = Battle(model_a="a", model_b="b", winner=Outcome.TIE, inconsistent=True)
    assert Coverage.of(BattleLog.from_battles([flipped])).decisive.tolist() == [0, 0]
    votes = [vote for n in range(6) for vote in wins("a", "b", f"p{n}", 1)]
    votes += [vote for n in range(3) for vote in wins("b", "c", f"p{n}", 4)]
    votes += [vote for n in range(10) for vote in wins("c", "d", f"p{n}", 2)]
    policy = replace(Policy(), contenders=Contenders(band=3))
    scores = Coverage.of(log(votes), policy).pair_scores(["a", "b", "c", "d"])
    assert scores == {"a": 0.5, "b": 0.5, "c": 0.75}
    assert Coverage.of(log(votes), policy).pair_scores(["a"]) == {}


def test_7_1_exposure_in_the_window() -> None:
    """7.1: only the last W matchups count, by time; 88 to 112 lie within 12 % of 100."""
    policy = Policy(exposure=Exposure(window=4))
    votes = wins("a", "b", "p", 3) + wins("b", "c", "p", 2) + wins("c", "a", "p", 1)
    early = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(n) for n in range(6)]
    cast = zip(log(votes).to_battles(), early, strict=True)
    timed = [replace(vote, timestamp=at) for vote, at in cast]
    for battles in (log(votes), BattleLog.from_battles(timed[::-1])):
        coverage = Coverage.of(battles, policy)
        assert (row(coverage, "exposure"), coverage.matchups) == ({"a": 2, "b": 3, "c": 3}, 4)
        due = [f.equal_target for f in coverage.fairness(even(coverage))]
        assert due == pytest.approx([8 / 3] * 3)
    short = Coverage.of(log(votes[:3]), policy, models=["a", "b", "c"])
    assert (short.matchups, short.fairness(even(short))[0].equal_target) == (3, 2.0)
    coverage = Coverage.of(log(wins("a", "b", "p", 100)))
    for extra, within in ((0, True), (12, True), (13, False), (-12, True), (-13, False)):
        shown = replace(coverage, exposure=np.array([100 + extra, 100 - extra]))
        fair = shown.fairness(even(coverage))[0]
        assert (fair.target, fair.equal_target) == (100, 100)
        assert fair.within is fair.within_equal is within
        assert fair.deviation == pytest.approx(extra / 100)


def test_7_1_lane_adjusted_target() -> None:
    """7.1: contenders of 50 are due 163; who joins late from then on; what decides, its two."""
    models = [f"m{i:02}" for i in range(50)]
    coverage = Coverage.of(log(wins("m00", "m01", "p", 2000)), models=models)
    tally, everybody = Tally(Policy(), models), Roster(Policy(), np.ones(50, bool))
    for band in ([*range(8)], [0, *range(2, 9)]):
        for _ in range(1000):
            tally.vote((0, 1), -1, 0)
            tally.note(everybody, np.array(band))
    dues = tally.due(everybody, np.arange(0)).tolist()
    fair = {f.model: f for f in coverage.fairness(dict(zip(models, dues, strict=True)))}
    assert (round(fair["m00"].target), round(fair["m10"].target)) == (163, 64)
    assert fair["m01"].target == pytest.approx((fair["m00"].target + fair["m10"].target) / 2)
    assert fair["m00"].equal_target == pytest.approx(80)
    for window, parts, due in ((2000, (100, 60), [140, 140, 40]), (50, (40, 30), [40, 40, 20])):
        policy = Policy(exposure=Exposure(window=window))
        tally = Tally(policy, "abc")
        two, three = (Roster(policy, np.array([True, True, third])) for third in (False, True))
        for roster, matchups in zip((two, three), parts, strict=True):
            for _ in range(matchups):
                tally.vote((0, 1), -1, 0)
                tally.note(roster, np.flatnonzero(roster.present))
        assert tally.due(three, np.arange(3)).tolist() == pytest.approx(due)
        ahead = tally.due(three, np.arange(3), more=30)
        assert ahead.tolist() == pytest.approx([each + 20 for each in due])
    for window in (2000, 12):
        policy = replace(Policy(), exposure=Exposure(window=window))
        around = [("a", "b"), ("c", "d"), ("a", "c"), ("b", "d"), ("a", "d")] * 2
        pairs = [*around[:4], *[("a", "b")] * 6, *around[4:]]
        lanes = ["coverage"] * 4 + ["decide"] * 6 + ["contender"] * 6
        votes = BattleLog.from_battles(
            Battle(model_a=x, model_b=y, winner=Outcome.MODEL_A, question_id="p", lane=lane)
            for (x, y), lane in zip(pairs, lanes, strict=True)
        )
        tally = Tally(policy, "abcd", "p")
        for (x, y), lane in zip(pairs, lanes, strict=True):
            pair = (tally.models[x], tally.models[y])
            tally.show(pair, 0)
            tally.vote(pair, 0, 0, aimed=lane == "decide")
        due = [11, 11, 5, 5] if window == 2000 else [9, 9, 3, 3]
        whole, everybody = Tally.of(votes, policy), Roster(policy, np.ones(4, bool))
        for each in (tally, whole):
            assert each.due(everybody, np.arange(4)).tolist() == pytest.approx(due)
        reported = {row.model: row.target for row in leaderboard(votes, policy).fairness}
        assert [reported[m] for m in "abcd"] == pytest.approx(due)


def test_7_2_prompt_coverage() -> None:
    """7.2: covered from two decisive votes on, four at the top; 7.3: 12 votes on 6 prompts."""
    votes = log(wins("a", "b", "p", 2) + wins("a", "c", "q", 1) + wins("b", "c", "r", 5))
    for prompts, shares in ((None, [1 / 3, 2 / 3, 1 / 3]), (["p", "q"], [0.5, 0.5, 0.0]),
                            (["p", "q", "r", "new"], [0.25, 0.5, 0.25])):  # fmt: skip
        found = Coverage.of(votes, prompts=prompts).prompt_coverage()
        assert found.tolist() == pytest.approx(shares)
    votes = log(wins("a", "b", "p", 1) + wins("a", "b", "q", 5))
    assert Coverage.of(votes).prompt_deficits(band=["a"]).tolist() == [[3, 0], [1, 0]]
    votes = log(wins("a", "b", "p", 1) + wins("a", "b", "q", 1))
    assert Coverage.of(votes, prompts=["p"]).prompt_deficits().tolist() == [[1, 0], [1, 0]]
    for votes, prompts, meets in ((12, 6, True), (11, 6, False), (12, 5, False), (30, 6, True)):
        cast = [vote for n in range(votes) for vote in wins("a", "b", f"p{n % prompts}", 1)]
        pairs = Coverage.of(log(cast), models=["a", "b", "c"]).adjacent(["b", "a", "c"])
        assert [(pair["above"], pair["below"]) for pair in pairs] == [("b", "a"), ("a", "c")]
        assert (pairs[0]["votes"], pairs[0]["prompts"]) == (votes, prompts)
        assert [pair["meets_floor"] for pair in pairs] == [meets, False]
    counts = BattleLog.from_counts(["a"], ["b"], [3], [4])
    with pytest.raises(DataError, match="single votes and cannot use weights"):
        Coverage.of(counts)


def cell(tally: Tally, vote: Vote) -> Cell:
    """Pair and prompt of a vote in numbers, which are given to new names."""
    a, b, prompt, _ = vote
    tally.add([a, b], [] if prompt is None else [prompt])
    low, high = sorted([tally.models[a], tally.models[b]])
    return (low, high), -1 if prompt is None else tally.prompts[prompt]


def cast(tally: Tally, votes: Sequence[Vote]) -> Tally:
    for vote in votes:
        pair, prompt = cell(tally, vote)
        tally.show(pair, prompt)
        tally.vote(pair, prompt, OUTCOMES.index(Outcome(vote[3])))
    return tally


@given(VOTES, st.integers(1, 70), st.none() | st.just(["a", "x"]), st.none() | st.just(["p", "y"]))
@settings(max_examples=75, deadline=None)
def test_vote_by_vote_is_the_whole(votes: Any, window: int, models: Any, prompts: Any) -> None:
    """Counting vote by vote, or on from a part, gives what one pass gives."""
    policy = replace(Policy(), exposure=Exposure(window=window))
    rows = [(a, b, prompt, str(outcome)) for (a, b), prompt, outcome in votes]
    names = sorted({name for a, b, *_ in rows for name in (a, b)})
    asked = sorted({prompt for *_, prompt, _ in rows if prompt})
    given = names if models is None else models, asked if prompts is None else prompts
    whole = Coverage.of(log(rows), policy, models=models, prompts=prompts)
    same(Coverage.counted(cast(Tally(policy, *given), rows)), whole)
    half = Tally.of(log(rows[: len(rows) // 2]), policy, *given)
    same(Coverage.counted(cast(half, rows[len(rows) // 2 :])), whole)
    assert set(whole.prompts) == set(asked) | set(prompts or ())


@given(st.lists(st.tuples(FATES, MODELS, st.sampled_from("qpr"), st.sampled_from(list(Outcome)))))
@settings(max_examples=50, deadline=None)
def test_awaited_count_as_decisive(matchups: list[tuple[str, list[str], str, Outcome]]) -> None:
    """Awaited votes count as decisive until they come; given up ones leave no trace."""
    rows: dict[str, list[Vote]] = {"cast": [], "awaited": [], "given up": []}
    for fate, (a, b), prompt, outcome in matchups:
        rows[fate].append((a, b, prompt, str(outcome)))
    tally = Tally(Policy(), "abcde", "pqr")
    for row in rows["awaited"] + rows["given up"]:
        tally.show(*cell(tally, row))
    cast(tally, rows["cast"])
    for row in rows["given up"]:
        tally.show(*cell(tally, row), -1)
    decided = [(a, b, prompt, "model_a") for a, b, prompt, _ in rows["awaited"]]
    planned = Tally.of(log(rows["cast"] + decided), Policy(), "abcde", "pqr")
    for column in ("shown", "exposure", "met", "by_prompt", "by_pair", "pair_prompts"):
        assert (getattr(tally, column) == getattr(planned, column)).all(), column
    for pair in combinations(range(5), 2):
        assert +Counter(tally.on_prompts(pair)) == +Counter(planned.on_prompts(pair))
    coverage = Coverage.counted(tally, [cell(tally, row) for row in rows["awaited"]])
    same(coverage, Coverage.of(log(rows["cast"]), models="abcde", prompts="pqr"))
