"""A running arena: matchups, votes and both ratings, from the first vote and after a restart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from arena_kit import BattleLog, Outcome
from arena_kit.files import DataError
from arena_kit.matchmaking.arena import Arena
from arena_kit.matchmaking.matchup import MatchmakingError, Matchup
from arena_kit.policy.constants import Exposure, Phase, Policy

A, B, TIE, BAD = Outcome
MODELS, PROMPTS = ("a", "b", "c", "d"), ("p", "q", "r", "s", "t")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def arena(
    models: tuple[str, ...] = MODELS, battles: BattleLog | None = None, **more: Phase
) -> Arena:
    return Arena(Policy(**more), models, PROMPTS, rng=rng(), battles=battles)


def voted(live: Arena, n: int) -> list[tuple[Matchup, Outcome]]:
    """So many votes, drawn at random."""
    outcomes = [Outcome(str(name)) for name in rng(1).choice([*Outcome], n)]
    done = []
    for outcome in outcomes:
        matchup = live.next_matchup()
        done.append((live.vote(matchup.matchup_id, outcome), outcome))
    return done


def test_8_votes_by_hand() -> None:
    """Section 8.1: the winner of two new models stands at 1662.3109 and the loser at 1337.6891,
    both at RD 290.3190 (Glickman's example of two fresh players). 8.3: both-bad leaves Glicko-2 as
    it is; 2: for legacy Elo each of two new models loses half of K, as against one at 1500.
    """
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


def test_8_2_a_tie_is_half() -> None:
    """Section 8.2: a tie of two new models moves neither rating, and both are surer."""
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


def test_a_restart_goes_on_as_if_it_had_not_been() -> None:
    """The same battles, policy and generator give the same matchups, with the contenders of the
    time known again, although ratings moved and the band with them.
    """
    models = tuple(f"m{n:02}" for n in range(30))
    live = Arena(Policy(exposure=Exposure(window=300)), models, PROMPTS, rng=rng())
    log = BattleLog.from_battles(m.battle(outcome) for m, outcome in voted(live, 500))
    again = Arena(live.policy, models, PROMPTS, rng=rng(5), battles=log)
    live.scheduler.rng = rng(5)
    assert again.scheduler.exposure_due(again.ratings) == live.scheduler.exposure_due(live.ratings)
    for (mine, _), (theirs, _) in zip(voted(again, 200), voted(live, 200), strict=True):
        assert replace(mine, matchup_id=theirs.matchup_id) == theirs


def test_a_restart_knows_who_joined() -> None:
    """Section 7.1: opened again on its votes, an arena owes a model that joined after 200 of 300
    votes what it owed it before, from its first vote on instead of from the moment it joined.
    """
    live = arena(tuple(f"m{n:02}" for n in range(10)))
    votes = voted(live, 200)
    live.scheduler.enable("new")
    votes += voted(live, 100)
    log = BattleLog.from_battles(matchup.battle(outcome) for matchup, outcome in votes)
    again = arena(live.scheduler.enabled, log)
    before, after = (each.scheduler.exposure_due(each.ratings) for each in (live, again))
    assert before["new"].equal == pytest.approx(100 * 2 / 11)
    assert after["new"].equal == pytest.approx(before["new"].equal, abs=1)
    assert sum(due.target for due in after.values()) == pytest.approx(600)


def test_a_vote_from_before_a_restart() -> None:
    """Section 11: a vote on a matchup that waited when the arena stopped is not taken for one on
    another matchup, not even where the same pair is shown on the same prompt again.
    """
    live = arena()
    log = BattleLog.from_battles(m.battle(outcome) for m, outcome in voted(live, 10))
    live.scheduler.rng = rng(8)
    old = live.next_matchup(session="s")
    again = Arena(Policy(), MODELS, PROMPTS, rng=rng(8), battles=log)
    new = again.next_matchup(session="s")
    assert replace(new, matchup_id=old.matchup_id) == old
    with pytest.raises(MatchmakingError, match="does not wait for a vote"):
        again.vote(old.matchup_id, A)


def test_11_an_id_says_nothing_about_its_matchup() -> None:
    """Section 11: two arenas that hand out the same matchups in the same order share no id, so an
    id cannot be computed from names, prompt, session, number or seed.
    """
    ids = [[m.matchup_id for m, _ in voted(arena(), 300)] for _ in range(2)]
    assert len({*ids[0], *ids[1]}) == 600


@pytest.mark.parametrize("phase", Phase)
def test_12_order(phase: Phase) -> None:
    """Sections 5.2 and 12: legacy Elo orders until phase 3, then the conservative score; a
    disabled model is in no order.
    """
    live = arena(phase=phase)
    voted(live, 100)
    low = {m: live.ratings[m].rating - 2 * live.ratings[m].rd for m in MODELS}
    score = live.elo if phase < Phase.MIGRATION else low
    assert live.order() == sorted(MODELS, key=lambda model: -score[model])
    live.scheduler.disable("a")
    assert "a" not in live.order()


def test_a_vote_counts_once() -> None:
    """Section 11: a second vote on the same matchup is refused and moves nothing."""
    live = arena()
    matchup = live.next_matchup("someone")
    live.vote(matchup.matchup_id, A)
    before = dict(live.ratings)
    with pytest.raises(MatchmakingError, match="does not wait for a vote"):
        live.vote(matchup.matchup_id, A)
    with pytest.raises(ValueError, match="perhaps"):
        live.vote(live.next_matchup().matchup_id, "perhaps")  # type: ignore[arg-type]
    assert dict(live.ratings) == before


def test_a_vote_is_replayed_once() -> None:
    """A stored vote that comes twice is refused when an arena restarts, naming both rows; votes
    without an id are all counted.
    """
    votes = voted(arena(), 6)
    kept = [m.battle(outcome, battle_id=f"v{n}") for n, (m, outcome) in enumerate(votes)]
    log = BattleLog.from_battles(kept)
    with pytest.raises(DataError, match="the vote 'v2' is there twice, in rows 2 and 6"):
        arena(battles=log.select([0, 1, 2, 3, 4, 5, 2]))
    unnamed = replace(log, battle_id=None).select([0, 1, 2, 3, 4, 5, 2])
    assert arena(battles=unnamed).scheduler.coverage().votes.sum() == 14


def test_a_matchup_is_brought_back_after_a_restart() -> None:
    """What waited before a restart waits again, counts as planned, and takes its vote; unknown
    models are refused.
    """
    before = arena()
    waiting = before.next_matchup("s")
    after = arena()
    after.scheduler.restore(waiting, after.ratings)
    assert after.scheduler.pending == (waiting,)
    assert after.vote(waiting.matchup_id, A) == waiting == before.vote(waiting.matchup_id, A)
    assert after.ratings == before.ratings
    with pytest.raises(MatchmakingError, match="unknown model 'x'"):
        after.scheduler.restore(replace(waiting, model_a="x"), after.ratings)


def test_11_what_a_session_saw_is_remembered() -> None:
    """Section 11: a session that is said to have seen a pair on all prompts but one meets it on
    that one; what names unknown models is passed over.
    """
    live = arena(("a", "b"))
    seen = [("s", "b", "a", prompt) for prompt in PROMPTS[:-1]]
    live.scheduler.remember([*seen, ("s", "a", "x", PROMPTS[-1])])
    assert live.next_matchup("s").prompt == PROMPTS[-1]
    with pytest.raises(MatchmakingError, match="no matchup can be served"):
        live.next_matchup("s")
