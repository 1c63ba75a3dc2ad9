"""The live arena: blind before the vote, durable after it, and the same again after a restart."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from itertools import cycle

import numpy as np
import pytest

from arena_kit.files import DataError
from arena_kit.policy.constants import Policy, Repeats
from arena_kit.voting import records
from arena_kit.voting.live import Limits, LiveArena
from arena_kit.voting.records import BallotVote, Choice, Shown
from arena_kit.voting.store import now
from tests.voting.arenas import MODELS, live, texts

CHOICES = cycle([Choice.A, Choice.B, Choice.A, Choice.TIE, Choice.BOTH_BAD, Choice.SKIP])


def vote(arena: LiveArena, session: str, choice: Choice = Choice.A) -> str:
    """One vote of a session; the ticket that it was cast on."""
    shown = arena.issue(session=session)
    arena.cast(shown.ticket, session=session, choice=choice, digest=shown.digest, seconds=3.0)
    return shown.ticket


def answers(shown: list[Shown], choice: Choice = Choice.A) -> list[BallotVote]:
    return [BallotVote(ticket=s.ticket, choice=choice, digest=s.digest) for s in shown]


def test_nothing_shown_tells_a_model(address: str) -> None:
    """Before the vote no field names a model, not even through the ticket, which is new each time;
    after it both names come, left and right as the store kept them, and none after a skip.
    """
    arena = live(address)
    for n in range(30):
        session, choice = f"s-{n % 3}", next(CHOICES)
        shown = arena.issue(session=session)
        assert not any(model in str(asdict(shown)) for model in MODELS)
        receipt = arena.cast(shown.ticket, session=session, choice=choice, digest=shown.digest)
        kept = arena.store.votes()[-1].ticket
        names = (None, None) if choice is Choice.SKIP else (kept.model_a, kept.model_b)
        assert (receipt.left, receipt.right) == names
        assert (shown.left, shown.right) == arena.texts.shown(
            kept.prompt, kept.model_a, kept.model_b
        )[1:]  # type: ignore[index]
        assert kept.lane
        assert kept.reason
    tickets = [each.ticket.ticket for each in arena.store.votes()]
    assert len({*tickets}) == 30
    assert all(len(name) == 32 and int(name, 16) >= 0 for name in tickets)


def test_a_session_has_one_matchup_at_a_time(address: str) -> None:
    """Whoever asks again before voting gets the same matchup: nobody leafs through the arena."""
    arena = live(address)
    first = arena.issue(session="s")
    assert arena.issue(session="s") == first
    assert arena.issue(session="other").ticket != first.ticket
    arena.cast(first.ticket, session="s", choice="A")
    assert arena.issue(session="s").ticket != first.ticket


def test_the_same_vote_again_is_one_vote(address: str) -> None:
    """A repeated submission gets the same receipt; another choice on the ticket is refused."""
    arena = live(address)
    shown = arena.issue(session="s")
    first = arena.cast(shown.ticket, session="s", choice="B", digest=shown.digest, seconds=1.0)
    assert arena.cast(shown.ticket, session="s", choice="B", digest=shown.digest) == first
    with pytest.raises(records.AlreadyVotedError):
        arena.cast(shown.ticket, session="s", choice="A", digest=shown.digest)
    assert [each.choice for each in arena.store.votes()] == [Choice.B]


def test_each_refusal_has_a_class_and_a_code(address: str) -> None:
    """Unknown and foreign tickets, changed content and impossible input are told apart, and
    leave no vote.
    """
    arena = live(address)
    shown = arena.issue(session="s")
    good = {"session": "s", "choice": "A", "digest": shown.digest}
    for ticket, more, code in (
        ("0" * 32, {}, "unknown_ticket"),
        ("nul \x00 '; DROP TABLE votes", {}, "unknown_ticket"),
        (shown.ticket, {"session": "thief"}, "foreign_ticket"),
        (shown.ticket, {"digest": "0" * 64}, "changed_content"),
        (shown.ticket, {"choice": "LEFT"}, "bad_input"),
        (shown.ticket, {"seconds": float("nan")}, "bad_input"),
        (shown.ticket, {"seconds": -1.0}, "bad_input"),
    ):
        with pytest.raises(records.RefusalError) as caught:
            arena.cast(ticket, **(good | more))  # type: ignore[arg-type]
        assert caught.value.code == code
        assert str(caught.value)
    for session in ("", "x" * 129, "line\nbreak", "\ud800"):
        with pytest.raises(records.BadInputError):
            arena.issue(session=session)
    assert arena.store.votes() == []


def test_a_vote_on_changed_texts_is_refused(address: str) -> None:
    """Where responses were replaced at a restart, a matchup of before is refused, whatever digest
    comes with the vote, and its session is shown another one.
    """
    before = live(address)
    shown = before.issue(session="s")
    after = live(address, texts(changed=" Or not."))
    for digest in (shown.digest, None):
        with pytest.raises(records.ChangedContentError):
            after.cast(shown.ticket, session="s", choice="A", digest=digest)
    assert after.issue(session="s").ticket != shown.ticket


def test_a_matchup_expires(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time a matchup is given up: the scheduler waits no more, a late vote is refused,
    and the session gets another.
    """
    arena = live(address, limits=Limits(lasts=60))
    shown = arena.issue(session="s")
    assert arena.board().waiting == 1
    monkeypatch.setattr("arena_kit.voting.live.now", lambda: now() + 61_000_000)
    with pytest.raises(records.ExpiredTicketError):
        arena.cast(shown.ticket, session="s", choice="A", digest=shown.digest)
    assert arena.board().waiting == 0
    assert arena.issue(session="s").ticket != shown.ticket
    assert live(address).board().waiting == 1


def test_a_voter_is_held_to_the_limits(address: str) -> None:
    """A voter gets so many matchups in a minute, whatever the session, and is told when the next
    one comes; other voters are not held up.
    """
    arena = live(address, limits=Limits(per_minute=3))
    for n in range(3):
        shown = arena.issue(session=f"s-{n}", voter="ann")
        arena.cast(shown.ticket, session=f"s-{n}", choice="SKIP")
    with pytest.raises(records.TooFastError, match="at most 3 matchups in a minute") as caught:
        arena.issue(session="s-9", voter="ann")
    assert 50 < caught.value.retry_after <= 60
    assert arena.issue(session="s-1", voter="bob")


def test_11_a_voter_does_not_see_a_pair_on_a_prompt_again(address: str) -> None:
    """Section 11: until all 6 pairs were seen on all 6 prompts, nothing comes twice, skipped ones
    and a restart included; then there is nothing left.
    """
    policy = Policy(repeats=Repeats(session_gap=100, same_prompt=10))
    arena = live(address, policy=policy)
    for n in range(36):
        arena = live(address, policy=policy) if n == 20 else arena
        vote(arena, "s", next(CHOICES))
    seen = Counter(
        (frozenset((t.model_a, t.model_b)), t.prompt)
        for t in (each.ticket for each in arena.store.votes())
    )
    assert set(seen.values()) == {1}
    with pytest.raises(records.NothingLeftError, match="no matchup can be served"):
        arena.issue(session="s")


def test_11_sides_are_even(tmp_path: object) -> None:
    """Section 11: over 200 matchups each model stands left about half of the time."""
    often = Repeats(session_gap=0, same_prompt=200, meetings=200)
    arena = live(f"{tmp_path}/votes.sqlite", policy=Policy(repeats=often))
    shown = arena.issue_ballot(200, session="b")
    with arena.store.writing() as transaction:
        sides = [transaction.ticket(each.ticket) for each in shown]
    left = Counter(ticket.model_a for ticket in sides if ticket)
    both = left + Counter(ticket.model_b for ticket in sides if ticket)
    for model in MODELS:
        assert abs(left[model] - both[model] / 2) < 3 * (both[model] / 4) ** 0.5


def test_a_restart_goes_on_where_it_stopped(address: str) -> None:
    """An arena that is opened again has the same ratings, waits for the same matchups, takes their
    votes, and draws next what it would have drawn.
    """
    arena = live(address)
    for n in range(40):
        vote(arena, f"s-{n % 4}", next(CHOICES))
    waiting = arena.issue(session="waits")
    again = live(address)
    assert again.board().waiting == 1
    assert again.issue(session="waits") == waiting
    assert (again.board().ratings, again.board().elo) == (arena.board().ratings, arena.board().elo)
    drawn = [each.arena.next_matchup("new") for each in (_seeded(arena), _seeded(again))]
    assert replace(drawn[0], matchup_id="") == replace(drawn[1], matchup_id="")
    again = live(address)
    again.cast(waiting.ticket, session="waits", choice="A", digest=waiting.digest)
    assert again.board().waiting == 0


def _seeded(arena: LiveArena) -> LiveArena:
    """The arena, about to draw what it draws for its next ticket."""
    arena.arena.scheduler.rng = np.random.default_rng([5, 42])
    return arena


def test_several_processes_share_a_store(address: str) -> None:
    """Two arenas on one store count each other's votes, matchups and removals at once."""
    one, two = live(address), live(address)
    for n in range(30):
        vote((one, two)[n % 2], f"s-{n % 3}", next(CHOICES))
    waiting = one.issue(session="waits")
    assert two.board().waiting == 1
    assert two.issue(session="waits") == waiting
    two.cast(waiting.ticket, session="waits", choice="B", digest=waiting.digest)
    assert one.board().ratings == two.board().ratings
    one.store.remove("voter", ["s-1"], why="a bot", by="me")
    assert one.board().ratings == two.board().ratings == live(address).board().ratings
    assert two.board().removed == 10


def test_a_removed_voter_is_not_told(address: str) -> None:
    """Who is removed may go on, gets matchups and receipts, and no longer counts."""
    arena = live(address)
    vote(arena, "good")
    vote(arena, "bot")
    arena.store.remove("voter", ["bot"], why="a bot", by="me")
    before = arena.board().ratings
    shown = arena.issue(session="bot")
    assert arena.cast(shown.ticket, session="bot", choice="B").left in MODELS
    board = arena.board()
    assert (board.ratings, board.removed, len(board.votes)) == (before, 2, 1)
    arena.store.restore("voter", ["bot"], why="a person", by="me")
    assert len(arena.board().votes) == 3


def test_several_voters_answer_one_ballot(address: str) -> None:
    """Each voter's answers to a ballot are votes of their own; the same file again adds none, and
    another answer to the same matchup is refused.
    """
    arena = live(address)
    shown = arena.issue_ballot(8, session="ballot-1")
    assert arena.board().waiting == 8
    first = arena.cast_ballot(answers(shown), session="c-1", voter="ann")
    second = arena.cast_ballot(answers(shown, Choice.B), session="c-2", voter="bob")
    assert arena.cast_ballot(answers(shown, Choice.B), session="c-2", voter="bob") == second
    assert [each.ticket for each in first] == [each.ticket for each in second]
    assert arena.board().waiting == 0
    votes = arena.store.votes()
    assert [(v.voter, v.choice, v.source) for v in votes] == (
        [("ann", Choice.A, "ballot")] * 8 + [("bob", Choice.B, "ballot")] * 8
    )
    assert len({v.ticket.ticket for v in votes}) == 16
    with pytest.raises(records.AlreadyVotedError):
        arena.cast_ballot(answers(shown, Choice.TIE), session="c-1", voter="ann")
    assert live(address).board().ratings == arena.board().ratings


@pytest.mark.parametrize(("gap", "left_out"), [(100, 36), (3, 0)])
def test_11_a_second_ballot_does_not_repeat_the_first(
    address: str, gap: int, left_out: int
) -> None:
    """Section 11 over two ballots of one voter: votes that repeat a pair and prompt within the gap
    are kept and left out, by a line of the log each; the same file again says the same, and so
    does a replay.
    """
    policy = Policy(repeats=Repeats(session_gap=gap, same_prompt=10))
    arena = live(address, policy=policy)
    ballots = [arena.issue_ballot(36, session=f"ballot-{n}") for n in range(2)]
    for place, voter in enumerate(("ann", "bob"), 1):
        first, second = (
            arena.cast_ballot(answers(each), session=voter, voter=voter) for each in ballots
        )
        assert not any(receipt.repeated for receipt in first)
        assert sum(receipt.repeated for receipt in second) == left_out
        assert arena.cast_ballot(answers(ballots[1]), session=voter, voter=voter) == second
        assert len(arena.store.removals()) == place * left_out
    board = arena.board()
    assert (len(board.votes), board.removed) == (144 - 2 * left_out, 2 * left_out)
    again = live(address, policy=policy).board()
    assert (again.ratings, again.removed) == (board.ratings, board.removed)


def test_11_a_ballot_may_be_drawn_for_its_voter(address: str) -> None:
    """Where the session of a ballot is the voter's name, its own pairs are no repeats."""
    arena = live(address)
    arena.cast_ballot(answers(arena.issue_ballot(8, session="ann")), session="c", voter="ann")
    assert (len(arena.board().votes), arena.board().removed) == (8, 0)


def test_11_what_a_voter_saw_on_a_ballot_is_not_shown_again(address: str) -> None:
    """Who answered all pairs on all prompts on a ballot is shown nothing more within the gap, skips
    included, in this process, in another and after a restart.
    """
    policy = Policy(repeats=Repeats(session_gap=100, same_prompt=10))
    arena, other = live(address, policy=policy), live(address, policy=policy)
    shown = arena.issue_ballot(36, session="ballot")
    answered = [*answers(shown[:9], Choice.SKIP), *answers(shown[9:])]
    arena.cast_ballot(answered, session="c", voter="ann")
    for each in (arena, other, live(address, policy=policy)):
        with pytest.raises(records.NothingLeftError):
            each.issue(session="lab", voter="ann")
    assert other.issue(session="page", voter="bob")


def test_a_ballot_is_taken_whole_or_not_at_all(address: str) -> None:
    """Where one answer is refused, nothing of the file is stored, and the arena is as before; a
    matchup of the page is on no ballot, and one of a ballot on no page.
    """
    arena = live(address)
    shown = arena.issue_ballot(4, session="ballot-1")
    page = arena.issue(session="s")
    bad = [*answers(shown[:3]), replace(answers(shown)[3], digest="0" * 64)]
    with pytest.raises(records.ChangedContentError):
        arena.cast_ballot(bad, session="c", voter="ann")
    with pytest.raises(records.ForeignTicketError):
        arena.cast_ballot([*answers(shown), *answers([page])], session="c", voter="ann")
    with pytest.raises(records.ForeignTicketError):
        arena.cast(shown[0].ticket, session="s", choice="A")
    board = arena.board()
    assert (arena.store.votes(), board.votes, board.waiting) == ([], (), 5)
    assert board.ratings == live(address).board().ratings


def test_ballots_cover_as_one_arena(address: str) -> None:
    """Ballots that nobody has answered yet count as planned: after three of 12 matchups each model
    was shown 18 times, give or take the tolerance of 12 %, and every pair has met.
    """
    arena = live(address)
    shown = [s for n in range(3) for s in arena.issue_ballot(12, session=f"ballot-{n}")]
    with arena.store.writing() as transaction:
        tickets = [transaction.ticket(each.ticket) for each in shown]
    pairs = Counter(frozenset((t.model_a, t.model_b)) for t in tickets if t)
    assert len(pairs) == 6
    for model in MODELS:
        assert abs(sum(n for pair, n in pairs.items() if model in pair) - 18) <= 0.12 * 18


def test_threads_lose_and_double_nothing(address: str) -> None:
    """Eight threads that vote at once, each submission sent twice, give each vote once, numbered
    without a gap.
    """
    arena = live(address)

    def votes_of(n: int) -> list[str]:
        tickets = []
        for _ in range(8):
            shown = arena.issue(session=f"s-{n}")
            for _ in range(2):
                arena.cast(shown.ticket, session=f"s-{n}", choice="A", digest=shown.digest)
            tickets.append(shown.ticket)
        return tickets

    with ThreadPoolExecutor(8) as pool:
        cast = [ticket for tickets in pool.map(votes_of, range(8)) for ticket in tickets]
    stored = arena.store.votes()
    assert sorted(each.ticket.ticket for each in stored) == sorted(cast)
    assert [each.number for each in stored] == list(range(1, 65))
    assert arena.board().ratings == live(address).board().ratings


def test_what_cannot_be_committed_did_not_happen(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the store fails in the middle, no matchup waits and no vote counts in memory either."""
    arena = live(address)
    vote(arena, "s")
    shown, before = arena.issue(session="t"), arena.board().ratings
    with monkeypatch.context() as broken:
        broken.setattr("arena_kit.voting.store.Transaction.count_by", _fails)
        for call in (
            lambda: arena.issue(session="u"),
            lambda: arena.cast(shown.ticket, session="t", choice="A"),
        ):
            with pytest.raises(OSError, match="disk full"):
                call()
    board = arena.board()
    assert (board.ratings, board.waiting, len(board.votes)) == (before, 1, 1)
    arena.cast(shown.ticket, session="t", choice="A")
    assert arena.board().ratings == live(address).board().ratings


def _fails(*_: object) -> int:
    raise OSError("disk full")


def test_a_store_belongs_to_one_arena(address: str) -> None:
    """The votes of another tournament, or on another dimension, are not mixed in."""
    arena = live(address)
    with pytest.raises(DataError, match="holds votes of 'small', not of 'other'"):
        LiveArena(arena.store, replace(arena.texts, name="other"), Policy())
    with pytest.raises(DataError, match="not of 'small' on 'helpfulness'"):
        LiveArena(arena.store, arena.texts, Policy(), dimension="helpfulness")
