"""A running arena: matchups, votes and both ratings, from the first vote and after a restart."""

from dataclasses import replace

import numpy as np
import pytest

from arena_kit import BattleLog, Outcome
from arena_kit.files import DataError
from arena_kit.matchmaking.arena import Arena
from arena_kit.matchmaking.lanes import MatchmakingError, Matchup
from arena_kit.policy.constants import Phase, Policy

A, B, TIE, BAD = Outcome
MODELS, PROMPTS = ("a", "b", "c", "d"), ("p", "q", "r", "s", "t")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def arena(
    models: tuple[str, ...] = MODELS, battles: BattleLog | None = None, **more: Phase
) -> Arena:
    return Arena(Policy(**more), models, PROMPTS, rng=rng(), battles=battles)


def voted(live: Arena, n: int) -> list[tuple[Matchup, Outcome]]:
    outcomes = [Outcome(str(name)) for name in rng(1).choice([*Outcome], n)]
    done = []
    for outcome in outcomes:
        matchup = live.next_matchup()
        done.append((live.vote(matchup.matchup_id, outcome), outcome))
    return done


def test_8_votes_by_hand() -> None:
    """8.1: Glickman's fresh players: 1662.3109, 1337.6891, RD 290.3190; 8.2: tie; 8.3: both-bad."""
    live = arena(("a", "b"))
    live.vote(live.next_matchup().matchup_id, BAD)
    assert live.elo == {"a": 1492.0, "b": 1492.0}
    matchup = live.vote(live.next_matchup().matchup_id, B)
    assert (live.elo[matchup.model_b], live.elo[matchup.model_a]) == (1500.0, 1484.0)
    lost, won = live.ratings[matchup.model_a], live.ratings[matchup.model_b]
    assert (won.rating, lost.rating) == pytest.approx((1662.3109, 1337.6891), abs=1e-4)
    assert (won.rd, lost.rd) == pytest.approx((290.3190, 290.3190), abs=1e-4)
    before = dict(live.ratings)
    live.vote(live.next_matchup().matchup_id, BAD)
    assert dict(live.ratings) == before
    live = arena(("a", "b"))
    live.vote(live.next_matchup().matchup_id, TIE)
    assert {round(state.rating, 9) for state in live.ratings.values()} == {1500.0}
    assert all(state.rd < 350 for state in live.ratings.values())
    assert live.elo == {"a": 1500.0, "b": 1500.0}
    live.vote(live.next_matchup().matchup_id, A)
    ahead, behind = live.order()
    gap = live.ratings[ahead].rating - live.ratings[behind].rating
    live.vote(live.next_matchup().matchup_id, TIE)
    assert 0 < live.ratings[ahead].rating - live.ratings[behind].rating < gap


def test_a_restart_knows_who_joined() -> None:
    """7.1: after a restart a model that joined late is owed what it was owed before."""
    live = arena(tuple(f"m{n:02}" for n in range(10)))
    votes = voted(live, 200)
    live.scheduler.enable("new")
    votes += voted(live, 100)
    log = BattleLog.from_battles(matchup.battle(outcome) for matchup, outcome in votes)
    again = arena(live.scheduler.enabled, log)
    before, after = (each.scheduler.exposure_due(each.ratings) for each in (live, again))
    assert before["new"] == pytest.approx(100 * 2 / 11)
    assert after["new"] == pytest.approx(before["new"], abs=1)
    assert sum(after.values()) == pytest.approx(600)


@pytest.mark.parametrize("phase", Phase)
def test_12_order(phase: Phase) -> None:
    """5.2, 12: legacy Elo orders until phase 3, then the conservative score."""
    live = arena(phase=phase)
    voted(live, 100)
    low = {m: live.ratings[m].rating - 2 * live.ratings[m].rd for m in MODELS}
    score = live.elo if phase < Phase.MIGRATION else low
    assert live.order() == sorted(MODELS, key=lambda model: -score[model])
    live.scheduler.disable("a")
    assert "a" not in live.order()


def test_a_vote_counts_once() -> None:
    """11: a second vote on a matchup is refused, stored or after a restart, whose ids are new."""
    live = arena()
    matchup = live.next_matchup("someone")
    live.vote(matchup.matchup_id, A)
    before = dict(live.ratings)
    with pytest.raises(MatchmakingError, match="is not waiting for a vote"):
        live.vote(matchup.matchup_id, A)
    with pytest.raises(ValueError, match="perhaps"):
        live.vote(live.next_matchup().matchup_id, "perhaps")  # type: ignore[arg-type]
    assert dict(live.ratings) == before
    votes = voted(arena(), 6)
    kept = [m.battle(outcome, battle_id=f"v{n}") for n, (m, outcome) in enumerate(votes)]
    log = BattleLog.from_battles(kept)
    with pytest.raises(DataError, match="the vote 'v2' is there twice, in rows 2 and 6"):
        arena(battles=log.select([0, 1, 2, 3, 4, 5, 2]))
    unnamed = replace(log, battle_id=None).select([0, 1, 2, 3, 4, 5, 2])
    assert arena(battles=unnamed).scheduler.coverage().votes.sum() == 14
    live = arena()
    log = BattleLog.from_battles(m.battle(outcome) for m, outcome in voted(live, 10))
    live.scheduler.rng = rng(8)
    old = live.next_matchup(session="s")
    again = Arena(Policy(), MODELS, PROMPTS, rng=rng(8), battles=log)
    new = again.next_matchup(session="s")
    assert replace(new, matchup_id=old.matchup_id) == old
    with pytest.raises(MatchmakingError, match="is not waiting for a vote"):
        again.vote(old.matchup_id, A)
