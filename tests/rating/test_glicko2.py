"""Glicko-2: the paper's example, properties, rating periods, and ratings that do not exist."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit import Battle, BattleLog, Outcome, RatingError
from arena_kit.rating import glicko2
from arena_kit.rating.base import Ratings
from arena_kit.rating.glicko2 import SCALE, Glicko2, GlickoState, Limits, States, replay
from arena_kit.rating.resampling import Games
from tests import naive
from tests.samples import battle, ring

PLAIN = Glicko2(evidence_replicates=0)
QUICK = Glicko2(evidence_replicates=40)
FRESH = GlickoState(1500.0, 350.0, 0.06)
DAWN = datetime(2026, 3, 1, 9, tzinfo=UTC)
FLIP = {"model_a": "model_b", "model_b": "model_a", "tie": "tie", "both_bad": "both_bad"}
SCORES = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}
PAIRS = [("a", "b"), ("b", "c"), ("c", "a"), ("a", "d"), ("d", "b")]


def log_of(*rows: Battle) -> BattleLog:
    return BattleLog.from_battles(rows)


def dated(rows: list[Battle], hours: float = 7.0) -> list[Battle]:
    """The battles at regular hours, three of them always at once, with ids."""
    return [
        replace(row, timestamp=DAWN + timedelta(hours=hours * (n // 3)), battle_id=f"b{n:04d}")
        for n, row in enumerate(rows)
    ]


def fresh(n_models: int) -> tuple[States, Limits]:
    return PLAIN.start(n_models), PLAIN.limits()


def states(found: Ratings) -> dict[str, tuple[float | None, ...]]:
    return {r.model: (r.rating, r.extra["rd"], r.extra["volatility"]) for r in found.ratings}


@st.composite
def battle_lists(draw: st.DrawFn) -> list[Battle]:
    """Battles in which a, b, c and d all win or lose, between others of any outcome."""
    outcome = st.sampled_from(["model_a", "model_b", "tie", "both_bad"])
    drawn = draw(st.lists(st.tuples(st.sampled_from(PAIRS), outcome), max_size=20))
    decisive = [(pair, draw(st.sampled_from(["model_a", "model_b"]))) for pair in PAIRS]
    return [battle(*pair, winner) for pair, winner in draw(st.permutations(drawn + decisive))]


def test_glickman() -> None:
    """Glickman's worked example comes out to all the digits he prints, and three more."""
    rating, rd, volatility = np.array(
        [(1500, 200, 0.06), (1400, 30, 0.06), (1550, 100, 0.06), (1700, 300, 0.06)]
    ).T
    start = States(mu=(rating - 1500) / SCALE, var=(rd / SCALE) ** 2, s=volatility**2)
    a, b = np.zeros(3, np.int32), np.arange(1, 4, dtype=np.int32)
    games = Games(a=a, b=b, score=np.array([1.0, 0.0, 0.0]), n_models=4)
    final = PLAIN.in_points(replay(games, start, PLAIN.limits(), period=np.zeros(3, np.int64)))
    found = [column[0] for column in final]
    assert found[:2] == pytest.approx([1464.0507, 151.5165], abs=5e-5)
    assert found[2] == pytest.approx(0.0599960, abs=5e-8)


@given(
    rd=st.floats(10, 2000),
    volatility=st.floats(-3, 1.5).map(lambda x: 10**x),
    tau=st.floats(-1.5, 1.3).map(lambda x: 10**x),
    gap=st.floats(-3000, 3000),
    score=st.sampled_from([0.0, 0.5, 1.0]),
)
@settings(max_examples=100, deadline=None)
def test_wild_settings(rd: float, volatility: float, tau: float, gap: float, score: float) -> None:
    """Where Newton's steps go astray the new volatility still is a root of the paper's f."""
    var, s = (rd / SCALE) ** 2, volatility**2
    info, pull = glicko2.evidence(gap / SCALE, 0.9, score)
    _, x, new = glicko2.settled(var, log(s), s, info, pull, tau)
    assert new == pytest.approx(exp(x), rel=1e-9)

    def f(x: float) -> float:
        v, delta, e = 1 / info, pull / info, exp(x)
        top = e * (delta**2 - var - v - e)
        return top / (2 * (var + v + e) ** 2) - (x - log(s)) / tau**2

    assert abs(f(x)) < 1e-9 * max(1 / tau**2, abs(f(log(s))), 1e-3)


@given(battle_lists(), st.floats(0.2, 1.2), st.sampled_from([(30, 350), (100, 300)]))
@settings(max_examples=20, deadline=None)
def test_votes(rows: list[Battle], tau: float, limits: tuple[float, float]) -> None:
    """Per-vote ratings are the naive replay to 1e-9."""
    method = replace(PLAIN, tau=tau, rd=200, rd_min=limits[0], rd_max=limits[1])
    votes = [row for row in rows if row.winner is not Outcome.BOTH_BAD]
    games = [
        (n, "abcd".index(v.model_a), "abcd".index(v.model_b), SCORES[v.winner])
        for n, v in enumerate(votes)
    ]
    expected = naive.glicko2(games, 4, (1500, 200, 0.06), idle=False, tau=tau, limits=limits)
    found = states(method(log_of(*rows)))
    for model, state in zip("abcd", expected, strict=True):
        assert found[model] == pytest.approx(state, rel=0, abs=1e-9)


@given(battle_lists(), st.integers(0, 30))
@settings(max_examples=30, deadline=None)
def test_running_states_are_those_of_a_replay(rows: list[Battle], at_once: int) -> None:
    """Rated vote by vote, models stand where a replay of all votes puts them, in every digit."""
    running = PLAIN.running()
    votes = [(v.model_a, v.model_b, SCORES.get(v.winner, float("nan"))) for v in rows]
    running.play(votes[:at_once])
    for vote in votes[at_once:]:
        running.play([vote])
    assert states(PLAIN(log_of(*rows))) == {
        model: (state.rating, state.rd, state.volatility) for model, state in running.states.items()
    }
    assert running.states["somebody new"] == FRESH


@given(battle_lists())
@settings(max_examples=30, deadline=None)
def test_properties(rows: list[Battle]) -> None:
    """Ratings are deterministic, blind to names and sides, and leave their input alone."""
    log = log_of(*rows)
    before = {name: column.copy() for name, column in log.columns().items()}
    found = PLAIN(log)
    assert PLAIN(log).as_dict() == found.as_dict()
    for name, column in log.columns().items():
        assert (column == before[name]).all()
    renamed = [replace(r, model_a=f"x{r.model_a}", model_b=f"x{r.model_b}") for r in rows]
    assert {m[1:]: s for m, s in states(PLAIN(log_of(*renamed))).items()} == states(found)
    swapped = [
        replace(r, model_a=r.model_b, model_b=r.model_a, winner=Outcome(FLIP[r.winner]))
        for r in rows
    ]
    higher = replace(PLAIN, initial=2345.0)(log)
    for model, state in states(PLAIN(log_of(*swapped))).items():
        assert state == pytest.approx(states(found)[model], rel=0, abs=1e-9)
        assert 30 <= found[model].extra["rd"] <= 350
        assert higher[model].rating == pytest.approx(found[model].rating + 845, abs=1e-9)
        assert higher[model].extra == found[model].extra


def test_replay_order() -> None:
    """Votes are replayed by time and id, those without one last, however they are stored."""
    rows = dated(ring())
    expected = QUICK(log_of(*rows))
    shuffled = [rows[i] for i in np.random.default_rng(2).permutation(len(rows))]
    assert QUICK(log_of(*shuffled)).as_dict() == expected.as_dict()
    assert states(expected) == states(PLAIN(log_of(*ring())))
    by_id = [replace(row, timestamp=None) for row in shuffled]
    assert states(PLAIN(log_of(*by_id))) == states(expected)
    later = DAWN + timedelta(hours=1)
    keys = [(None, "a"), (later, None), (DAWN, "c"), (later, "b"), (DAWN, "a"), (None, None)]
    keys += [(later, "b"), (DAWN, None)]
    rows = [battle("x", "y", "model_a", timestamp=t, battle_id=i) for t, i in keys]
    assert PLAIN.history(log_of(*rows)).battle.tolist() == [4, 2, 7, 3, 6, 1, 0, 5]


def test_history() -> None:
    """History has a row per vote and ends in the ratings; what does not count moves nothing."""
    rows = [*ring(6), battle("c", "a", "both_bad"), battle("b", "a", "tie", inconsistent=True)]
    log = log_of(*reversed(dated(rows)))
    history, found = PLAIN.history(log), PLAIN(log)
    assert len(history) == 19
    assert history.rating.shape == history.rd.shape == history.volatility.shape == (19, 2)
    assert history.battle.tolist() == list(range(19, 0, -1))
    for model, state in states(found).items():
        votes, *columns = history.of(model)
        assert tuple(column[-1] for column in columns) == state
        assert len(votes) == found[model].n_battles + (model in "ac")
        if model in "ac":
            assert votes[-1] == 1
            assert [column[-2] for column in columns] == list(state)
    assert "array" not in repr(history)
    with pytest.raises(KeyError, match="'z' has no history"):
        history.of("z")
    some, odd = battle("a", "b", "both_bad"), battle("a", "b", "tie", inconsistent=True)
    rows = [*(row for each in ring(8) for row in (some, each)), odd]
    plain, found = PLAIN(log_of(*ring(8))), PLAIN(log_of(*rows))
    assert states(found) == states(plain)
    assert (found.dropped, found.n_battles) == ({"tie": 0, "both_bad": 24, "inconsistent": 1}, 24)
    half = replace(PLAIN, inconsistent="half")(log_of(*rows))
    assert states(half) == states(PLAIN(log_of(*ring(8), battle("a", "b", "tie"))))


@pytest.mark.parametrize("periods", [False, True])
def test_engines_agree(periods: bool) -> None:
    """The compiled engine gives what plain Python gives, to 1e-9, for votes, traces and sets."""
    rng = np.random.default_rng(1)
    a = rng.integers(0, 8, 900, dtype=np.int32)
    b = ((a + rng.integers(1, 8, 900)) % 8).astype(np.int32)
    games = Games(a=a, b=b, score=rng.choice([0.0, 0.5, 1.0, 0.3, np.nan], 900), n_models=8)
    period = np.arange(900) // 40 * 2 if periods else None
    sets = np.random.default_rng(3).integers(0, 900, (3, 500)).astype(np.int32)
    sizes = np.array([500, 300, 1], np.int32)
    found = []
    for compiled in (False, True):
        final = replay(games, *fresh(8), period=period, compiled=compiled)
        trace = replay(games, *fresh(8), period=period, traced=True, compiled=compiled)
        again = glicko2.replay_sets(games, *fresh(8), sets, sizes, period=period, compiled=compiled)
        found.append([final.mu, final.var, final.s, trace.mu, trace.var, trace.s, again])
    for plain, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(compiled * SCALE, plain * SCALE, rtol=0, atol=1e-9)
    assert trace.mu[-1].tolist() == final.mu[[games.a[-1], games.b[-1]]].tolist()


@given(battle_lists(), st.data())
@settings(max_examples=30, deadline=None)
def test_periods(rows: list[Battle], data: st.DataObject) -> None:
    """Rating periods are the naive replay of whole periods to 1e-9, idle ones included."""
    days = sorted(data.draw(st.lists(st.integers(0, 30), min_size=len(rows), max_size=len(rows))))
    rows = [
        replace(row, timestamp=DAWN + timedelta(days=day))
        for row, day in zip(rows, days, strict=True)
    ]
    votes = [row for row in rows if row.winner is not Outcome.BOTH_BAD]
    first = votes[0].timestamp
    games = [
        ((v.timestamp - first).days // 3, *map("abcd".index, (v.model_a, v.model_b)),
         SCORES[v.winner])
        for v in votes
    ]  # fmt: skip
    expected = naive.glicko2(games, 4, (1500, 200, 0.3), idle=True, tau=0.5)
    method = replace(PLAIN, rd=200, volatility=0.3, period_days=3)
    found = states(method(log_of(*rows)))
    for model, state in zip("abcd", expected, strict=True):
        assert found[model] == pytest.approx(state, rel=0, abs=1e-9)


def test_history_of_periods() -> None:
    """A vote shows the states after its period, idle time included; periods begin at midnight."""
    method = replace(PLAIN, period_days=1)
    rows = [battle("a", "b", "model_a", timestamp=DAWN + timedelta(days=n // 3)) for n in range(9)]
    rows += [battle("a", "b", "both_bad", timestamp=DAWN + timedelta(days=4))]
    log = log_of(*rows)
    history = method.history(log)
    assert history.battle.tolist() == list(range(10))
    for column in (history.rating, history.rd, history.volatility):
        assert (column[0:3] == column[0]).all()
        assert (column[3:6] == column[3]).all()
    for n in (3, 6, 9):
        found = method(log.select(np.arange(n)))
        assert history.rating[n - 1].tolist() == [found["a"].rating, found["b"].rating]
        assert history.rd[n - 1].tolist() == [found["a"].extra["rd"], found["b"].extra["rd"]]
    idle = np.sqrt(history.rd[8] ** 2 + 2 * (SCALE * history.volatility[8]) ** 2)
    assert history.rd[9] == pytest.approx(idle, abs=1e-9)
    with pytest.raises(RatingError, match="timestamp on every battle, but 90 of 90 have none"):
        method(log_of(*ring()))
    rows = dated(ring())
    rows[5] = replace(rows[5], timestamp=None)
    with pytest.raises(RatingError, match="but 1 of 90 have none"):
        method.history(log_of(*rows))
    late, next_day = DAWN.replace(hour=23, minute=59), DAWN.replace(day=2, hour=0)
    rows = [
        battle("a", "b", "model_a", timestamp=when)
        for when in (DAWN, late, next_day, next_day + timedelta(hours=12))
    ]
    for days, periods in ((1, [0, 0, 1, 1]), (0.5, [0, 1, 2, 3])):
        assert replace(PLAIN, period_days=days)._periods(log_of(*rows)).tolist() == periods
