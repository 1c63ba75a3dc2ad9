"""The lane that decides open neighbours: whom it takes, whom it leaves alone, and what it costs."""

from collections import Counter
from dataclasses import replace
from math import log, log10, sqrt

import numpy as np
import pytest

from arena_kit import Arena, Battle, BattleLog, Outcome
from arena_kit.matchmaking.arena import Scheduler
from arena_kit.matchmaking.lanes import Cast, Lane, Matchup, OpenNeighbours
from arena_kit.policy.constants import Decide, Exposure, Policy, Publication
from arena_kit.policy.exposure import aimed_votes
from arena_kit.rating.glicko2 import GlickoState

WON, LOST, TIED, BAD = range(4)
DECIDES = 2.807  # the two-sided 99.5 % point of the normal distribution
MODELS = tuple(f"m{i:02}" for i in range(12))
PROMPTS = tuple(f"p{i:02}" for i in range(15))


def met(above: int, won: int, lost: int, *, tied: int = 0, prompts: int = 10) -> list[Cast]:
    """Votes between a model and the next one, on prompts in turn."""
    outcomes = [WON] * won + [LOST] * lost + [TIED] * tied
    return [Cast(above, above + 1, n % prompts, each) for n, each in enumerate(outcomes)]


def outlook(*votes: list[Cast], margin: float = 20.0, **rule: float) -> OpenNeighbours:
    """What is open after these votes, all of them looked at."""
    cast = [each for some in votes for each in some]
    decide = Decide(share=0.4, refresh=len(cast), **rule)  # type: ignore[arg-type]
    found = OpenNeighbours(Policy(decide=decide, publication=Publication(margin=margin)))
    found.add(cast)
    return found


def pairs(found: OpenNeighbours, n: int = 4) -> list[tuple[int, int]]:
    return [(pair.above, pair.below) for pair in found.open_pairs(np.ones(n, bool))]


def by_hand(won: int, lost: int) -> tuple[float, float]:
    """The gap of two models and its standard error, where all their votes are between them."""
    return 400 * log10(won / lost), 400 / log(10) * sqrt(1 / won + 1 / lost)


def voted(live: Arena, n: int, seed: int = 1) -> list[Matchup]:
    """So many votes of people who see each model 30 points above the next."""
    rng, done = np.random.default_rng(seed), []
    for _ in range(n):
        matchup = live.next_matchup()
        gap = 30 * (int(matchup.model_b[1:]) - int(matchup.model_a[1:]))
        wins = rng.random() < 1 / (1 + 10 ** (-gap / 400))
        done.append(live.vote(matchup.matchup_id, Outcome.MODEL_A if wins else Outcome.MODEL_B))
        done[-1] = replace(done[-1], session="won" if wins else "lost")
    return done


def arena(policy: Policy, battles: BattleLog | None = None, seed: int = 0) -> Arena:
    return Arena(policy, MODELS, PROMPTS, rng=np.random.default_rng(seed), battles=battles)


def test_a_gap_and_what_decides_it_by_hand() -> None:
    """60 of 100 are 70 ± 100: as many again decide it; claims about similar prompts need more."""
    (found,) = outlook(met(0, 60, 40)).open_pairs(np.ones(2, bool))
    gap, error = by_hand(60, 40)
    assert ((found.above, found.below), found.gap) == ((0, 1), pytest.approx(gap))
    jackknife = DECIDES * error * sqrt(100 / 99)
    assert found.half == pytest.approx(jackknife, rel=1e-4)
    assert found.more == pytest.approx(100 * (jackknife / gap) ** 2 - 100, rel=0.01)
    assert found.reason == "unresolved adjacent pair, gap 70 ± 100; about 100 more votes decide it"
    plain, tied = (outlook(met(0, 60 - n, 40 - n, tied=2 * n)) for n in (0, 20))
    bad = outlook(met(0, 60, 40), [Cast(0, 1, 0, BAD)] * 100)
    most, fewer, twice = (each.open_pairs(np.ones(2, bool))[0] for each in (plain, tied, bad))
    gap, error = by_hand(60, 40)
    part = 61 / 101  # the floor, above the variance of the outcomes over p (1 - p), 0.14 / 0.24
    assert fewer.gap == pytest.approx(gap)
    assert fewer.half == pytest.approx(DECIDES * error * sqrt(part), rel=1e-4)
    assert fewer.more == pytest.approx(100 * part * (DECIDES * error / gap) ** 2 - 100, abs=1.5)
    assert twice.more == pytest.approx(2 * most.more, rel=0.01)
    votes = [Cast(0, 1, p, WON if p < 6 else LOST) for p in range(12) for _ in range(20)]
    half = {}
    for about in ("these_prompts", "similar_prompts"):
        decide = Decide(share=0.4, refresh=len(votes))
        found = OpenNeighbours(Policy(claims_about=about, decide=decide))
        found.add([*votes[:-1], Cast(0, 1, 0, WON)])
        (pair,) = found.open_pairs(np.ones(2, bool))
        half[about] = pair.half
    assert half["similar_prompts"] > 3 * half["these_prompts"]
    policy = Policy(claims_about="similar_prompts", decide=Decide(share=0.4, refresh=100))
    found, alike = OpenNeighbours(policy), OpenNeighbours(policy)
    found.add([Cast(0, 1, -1, outcome) for *_, outcome in met(0, 60, 40)])
    assert found.open_pairs(np.ones(2, bool))[0].half == pytest.approx(100, abs=1)
    alike.add([Cast(0, 1, p, WON if n < 6 else LOST) for p in range(10) for n in range(10)])
    assert len(alike.open_pairs(np.ones(2, bool))) == 1
    nothing = OpenNeighbours(policy)
    nothing.add([Cast(0, 1, 0, BAD)] * 100)
    assert nothing.open_pairs(np.ones(2, bool)) == []


def test_neighbours_that_are_left_alone() -> None:
    """Decided, equivalent and hopeless neighbours are left; the fewest votes come first."""
    gap, error = by_hand(120, 40)
    assert gap > DECIDES * error
    gap, error = by_hand(5_010, 4_990)
    assert gap + DECIDES * error < 20
    other, decided = met(1, 60, 40), met(0, 120, 40)
    turned = [Cast(b, a, p, {WON: LOST, LOST: WON}[o]) for a, b, p, o in decided]
    alike, close = met(0, 5_010, 4_990), met(0, 505, 495)
    assert [pairs(outlook(each, other)) for each in (decided, turned, alike)] == [[(1, 2)]] * 3
    assert pairs(outlook(alike, other, margin=0.0, hopeless_below=0.0)) == [(1, 2), (0, 1)]
    assert pairs(outlook(close, other, reach=100)) == [(1, 2)]
    assert pairs(outlook(close, other, reach=20_000)) == [(1, 2), (0, 1)]
    large, sure, small = (12, 8), (560, 480), (220, 200)
    need = [
        sum(each) * ((DECIDES * by_hand(*each)[1] / by_hand(*each)[0]) ** 2 - 1)
        for each in (large, sure, small)
    ]
    order = [(n, n + 1) for n in np.argsort(need).tolist()]
    assert pairs(outlook(*(met(n, *each) for n, each in enumerate((large, sure, small))))) == order
    assert by_hand(*large)[0] > by_hand(*sure)[0]
    found = outlook(*(met(n, 60, 40) for n in range(11)))
    assert {below for _, below in pairs(found, 12)} == set(range(1, 8))
    enabled = np.ones(12, bool)
    enabled[1] = False
    open_now = [(pair.above, pair.below) for pair in found.open_pairs(enabled)]
    assert (0, 2) in open_now
    assert not any(1 in two for two in open_now)


@pytest.fixture(scope="module")
def season() -> tuple[Arena, list[Matchup]]:
    live = arena(Policy(decide=Decide(share=0.5, refresh=100), exposure=Exposure(window=600)))
    return live, voted(live, 900)


def test_exposure_is_within_its_bound(season: tuple[Arena, list[Matchup]]) -> None:
    """What the lane shows is due to whom it shows; coverage goes first where others overshot."""
    live, done = season
    fair = live.scheduler.coverage().fairness(live.scheduler.exposure_due(live.ratings))
    assert all(each.within for each in fair)
    decided = [x for x in done[-600:] if x.lane is Lane.DECIDE]
    aimed = Counter(m for x in decided for m in (x.model_a, x.model_b))
    rest = (1200 - aimed.total()) / 12
    for each in fair:
        assert each.target == pytest.approx(aimed[each.model] + rest)
        assert each.equal_target == pytest.approx(1200 / 12)
    assert max(each.target for each in fair) > 1.5 * 1200 / 12, "hence no equal exposure"
    for lane in (Lane.DECIDE, Lane.CONTENDER):
        votes = [("a", "b", n % 10 < 6, lane) for n in range(100)]
        votes += [(x, y, n < 9, Lane.COVERAGE) for x, y in ("bc", "ad") for n in range(10)]
        battles = BattleLog.from_battles(
            Battle(model_a=a, model_b=b, winner=Outcome.MODEL_A if won else Outcome.MODEL_B,
                   question_id=PROMPTS[n % 15], lane=by)
            for n, (a, b, won, by) in enumerate(votes)
        )  # fmt: skip
        policy = Policy(decide=Decide(share=1.0, refresh=len(votes)))
        rng = np.random.default_rng(0)
        ratings = dict.fromkeys("abcd", GlickoState(1500.0, 60.0, 0.06))
        scheduler = Scheduler(policy, "abcd", PROMPTS, rng=rng, battles=battles)
        served = [scheduler.cancel(scheduler.next_matchup(ratings).matchup_id) for _ in range(20)]
        first = Lane.DECIDE if lane is Lane.DECIDE else Lane.COVERAGE
        assert {(matchup.lane, matchup.drawn) for matchup in served} == {(first, Lane.DECIDE)}


@pytest.mark.parametrize("about", ["these_prompts", "similar_prompts"])
def test_a_restart_serves_the_same(about: str) -> None:
    """An arena opened on its votes hands out what it would have handed out."""
    decide = Decide(share=0.5, refresh=50)
    policy = Policy(claims_about=about, decide=decide, exposure=Exposure(window=150))
    live = arena(policy)
    outcome = {"won": Outcome.MODEL_A, "lost": Outcome.MODEL_B}
    cast = ((replace(m, session=None), outcome[str(m.session)]) for m in voted(live, 200))
    battles = BattleLog.from_battles(matchup.battle(won) for matchup, won in cast)
    again = arena(policy, battles, seed=5)
    live.scheduler.rng = np.random.default_rng(5)
    assert again.scheduler.exposure_due(again.ratings) == live.scheduler.exposure_due(live.ratings)
    mine, theirs = voted(again, 60), voted(live, 60)
    assert [replace(m, matchup_id="") for m in mine] == [replace(m, matchup_id="") for m in theirs]
    assert Lane.DECIDE in {matchup.lane for matchup in mine}
    assert aimed_votes(battles).sum() > 30


def test_what_waits_for_its_vote_counts_as_due() -> None:
    """Forty matchups handed out at once leave nothing when they are cancelled."""
    live, other = (arena(Policy(decide=Decide(share=0.8, refresh=100))) for _ in range(2))
    for each in (live, other):
        voted(each, 200)
    for matchup in [live.next_matchup() for _ in range(40)]:
        live.scheduler.cancel(matchup.matchup_id)
    live.scheduler.rng, other.scheduler.rng = (np.random.default_rng(3) for _ in range(2))
    left, right = (replace(each.next_matchup(), matchup_id="") for each in (live, other))
    assert left == right
