"""The live board and the export: one replay gives the other, to the last digit."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from arena_kit import Arena, BattleLog, leaderboard, read_battles, write_battles
from arena_kit.policy.constants import Exposure, Policy
from arena_kit.rating.base import RatingError
from arena_kit.voting.board import UNNAMED, LiveBoard
from arena_kit.voting.export import exported
from arena_kit.voting.live import LiveArena
from arena_kit.voting.records import BallotVote, Choice
from tests.voting.arenas import MODELS, PROMPTS, live, texts

#: A window that is full, and rolls, within a short test.
POLICY = Policy(exposure=Exposure(window=20))
VOTERS = ("ann", "bob", "carla", "dan")
COUNTED = (
    "models", "prompts", "matchups", "enabled", "active", "votes", "decisive", "ties", "both_bad",
    "exposure", "by_prompt", "by_pair", "pair_prompts",
)  # fmt: skip


def step(arena: LiveArena, dice: random.Random) -> None:
    """One thing that happens to an arena."""
    voter, choice = dice.choice(VOTERS), dice.choice(list(Choice))
    what = dice.random()
    if what < 0.8:
        shown = arena.issue(session=voter)
        if dice.random() < 0.9:
            arena.cast(shown.ticket, session=voter, choice=choice, digest=shown.digest)
    elif what < 0.9:
        ballot = arena.issue_ballot(3, session=f"ballot-{dice.random()}")
        votes = [BallotVote(ticket=s.ticket, choice=choice, digest=s.digest) for s in ballot]
        for person in dice.sample(VOTERS, 2):
            arena.cast_ballot(votes, session=f"file of {person}", voter=person)
    else:
        known = [each.voter for each in arena.store.voters()][:1]
        change = arena.store.remove if dice.random() < 0.5 else arena.store.restore
        change("voter", known, why="to see", by="a test")


def check_replay(board: LiveBoard, battles: BattleLog) -> None:
    """The board is what a new arena on exported battles gives, in every digit."""
    past = battles if len(battles) else None
    again = Arena(POLICY, MODELS, PROMPTS, rng=np.random.default_rng(0), battles=past)
    assert board.ratings == {model: again.ratings[model] for model in MODELS}
    assert board.elo == {model: again.elo[model] for model in MODELS}
    assert board.order == tuple(again.order())
    coverage = again.scheduler.coverage()
    for name in COUNTED:
        assert np.array_equal(getattr(board.coverage, name), getattr(coverage, name)), name
    assert sorted(board.standings, key=lambda s: s.model) == coverage.standings(again.ratings)


def test_7_the_board_equals_a_replay_of_the_export(address: str, tmp_path: Path) -> None:
    """After each of 30 random events (votes of every kind, skips, ballots of two voters, matchups
    left open, removals and their undoing) ratings, standings and coverage are those of a new
    arena on the export; and those of the leaderboard of the exported file.
    """
    dice, arena = random.Random(1), live(address, policy=POLICY)
    for n in range(30):
        step(arena, dice)
        export, board = exported(arena.store), arena.board()
        check_replay(board, export.battles)
        assert (export.skips, export.removed) == (board.skips, board.removed)
        if n % 10 == 9:
            path = tmp_path / f"votes-{n}.{('csv', 'jsonl', 'parquet')[n // 10]}"
            write_battles(path, export.battles)
            check_replay(board, read_battles(path))
            check_leaderboard(board, read_battles(path))


def check_leaderboard(board: LiveBoard, battles: BattleLog) -> None:
    """The leaderboard of a file has the ratings that the live board has."""
    published = leaderboard(battles, POLICY, models=MODELS, prompts=PROMPTS)
    assert published.order == board.order
    for row in published.rows:
        state = board.ratings[row.model]
        assert (row.rating, row.rd, row.volatility) == (state.rating, state.rd, state.volatility)
        assert row.legacy_elo == board.elo[row.model]
    assert published.status == board.status
    assert published.rows == board.leaderboard.rows


def filled(address: str, votes: int = 40) -> LiveArena:
    """An arena with votes of four voters, all for the left side."""
    arena = live(address, policy=POLICY)
    for n in range(votes):
        voter = VOTERS[n % 4]
        shown = arena.issue(session=f"session of {voter}", voter=voter)
        arena.cast(shown.ticket, session=f"session of {voter}", choice="A", digest=shown.digest)
    return arena


def test_an_export_has_all_that_a_battle_has(address: str) -> None:
    """Battles say that people decided, who, when, in which session, on what and through which
    lane; skips and removed votes are left out and counted.
    """
    arena = filled(address, votes=8)
    arena.cast(arena.issue(session="x").ticket, session="x", choice="SKIP")
    arena.store.remove("voter", ["bob"], why="a bot", by="me")
    export = exported(arena.store)
    assert (len(export.battles), export.skips, export.removed) == (6, 1, 2)
    stored = [vote for vote in arena.store.votes() if not vote.removed]
    for battle, vote in zip(export.battles.to_battles(), stored, strict=False):
        assert (battle.source, battle.winner) == ("human", "model_a")
        assert (battle.voter, battle.session) == (vote.voter, f"session of {vote.voter}")
        assert (battle.model_a, battle.model_b) == (vote.ticket.model_a, vote.ticket.model_b)
        assert (battle.question_id, battle.lane) == (vote.ticket.prompt, vote.ticket.lane)
        assert battle.battle_id == vote.ticket.ticket
        assert round(battle.timestamp.timestamp() * 1e6) == vote.cast_at


def test_a_deidentified_export_tells_nobody(address: str, tmp_path: Path) -> None:
    """Voters, sessions and tickets of the store are in no cell, ids differ in every export, times
    are days; who shares a voter stays together, and the ratings of a replay are the same.
    """
    arena = filled(address)
    plain = exported(arena.store).battles
    hidden = [exported(arena.store, deidentified=True).battles for _ in range(2)]
    path = tmp_path / "votes.csv"
    write_battles(path, hidden[0])
    written = path.read_text()
    assert not [secret for secret in (*VOTERS, *plain.battle_id) if secret in written]
    first, second = ({*log.voter.names} | {*log.session.names} for log in hidden)
    assert not first & second
    days = hidden[0].timestamp.astype("datetime64[D]").astype("datetime64[us]")
    assert np.array_equal(hidden[0].timestamp, days)
    together = [len({*zip(plain.voter.codes, log.voter.codes, strict=True)}) for log in hidden]
    assert together == [4, 4]
    check_replay(arena.board(), read_battles(path))


def test_7_exposure_is_audited_per_provider(address: str) -> None:
    """Every showing belongs to a provider, or to none that is named; targets of the window add up
    to what was shown in it; private and withdrawn models are listed with their votes.
    """
    filled(address)
    arena = live(address, texts("aspen", "birch", "cedar"), policy=POLICY)
    audit = arena.board().exposure
    rows = {row.provider: row for row in audit.providers}
    assert rows.keys() == {"north", "south", UNNAMED}
    assert sum(row.shown for row in audit.providers) == 80
    assert sum(row.share for row in audit.providers) == pytest.approx(1)
    assert (rows["north"].models, rows["north"].private) == (("aspen", "birch"), ("birch",))
    assert (rows[UNNAMED].models, rows[UNNAMED].withdrawn) == ((), ("dogwood",))
    assert (audit.private.keys(), audit.withdrawn.keys()) == ({"birch"}, {"dogwood"})
    assert rows[UNNAMED].shown == audit.withdrawn["dogwood"] > 0
    window = sum(row.exposure for row in audit.providers)
    assert sum(row.target for row in audit.providers) == pytest.approx(window)
    assert sum(row.equal_target for row in audit.providers) == pytest.approx(window)
    assert "dogwood" not in arena.board().order


def test_7_1_a_provider_shown_too_often_is_named(address: str) -> None:
    """Section 7.1: where two of four models were in every matchup of the window, each provider is
    outside the tolerance of 12 %, and its models are named.
    """
    arena = live(address, policy=POLICY)
    for n in range(30):
        shown = arena.issue(session=f"s-{n}")
        with arena.store.writing() as transaction:
            ticket = transaction.ticket(shown.ticket)
        north = {ticket.model_a, ticket.model_b} == {"aspen", "birch"}
        arena.cast(shown.ticket, session=f"s-{n}", choice=Choice.A if north else Choice.SKIP)
    rows = {row.provider: row for row in arena.board().exposure.providers}
    assert rows["north"].exposure > 0
    assert not any(row.within for row in rows.values())
    assert (rows["north"].outside, rows["south"].outside) == (("aspen", "birch"), ("cedar",))


def test_a_board_without_votes(address: str) -> None:
    """An arena that nobody voted in has a board, all models at the start, and no leaderboard."""
    board = live(address).board()
    assert board.order == MODELS
    assert {state.rating for state in board.ratings.values()} == {1500.0}
    assert board.status.status == "calibrating"
    assert [row.shown for row in board.exposure.providers] == [0, 0, 0]
    with pytest.raises(RatingError):
        _ = board.leaderboard
