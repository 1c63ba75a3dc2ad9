"""The live arena: blind before the vote, durable after it, and the same again after a restart."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest

from arena_kit.files import DataError
from arena_kit.policy.constants import Policy, Repeats
from arena_kit.voting import records
from arena_kit.voting.live import Limits, LiveArena
from arena_kit.voting.records import BallotVote, Choice, Shown, Ticket
from arena_kit.voting.store import now
from arena_kit.voting.texts import ArenaTexts
from tests.samples import edited
from tests.voting.arenas import MODELS, live, texts

CHOICES = cycle([Choice.A, Choice.B, Choice.A, Choice.TIE, Choice.BOTH_BAD, Choice.SKIP])
#: All 36 pairs and prompts come before one comes again.
RARE = Policy(repeats=Repeats(session_gap=100, same_prompt=10))


def vote(arena: LiveArena, session: str, choice: Choice = Choice.A) -> str:
    """One vote of a session; the ticket that it was cast on."""
    shown = arena.issue(session=session)
    arena.cast(shown.ticket, session=session, choice=choice, digest=shown.digest, seconds=3.0)
    return shown.ticket


def answers(shown: list[Shown], choice: Choice = Choice.A) -> list[BallotVote]:
    return [BallotVote(ticket=s.ticket, choice=choice, digest=s.digest) for s in shown]


def tickets(arena: LiveArena) -> list[Ticket]:
    with arena.store.writing() as transaction:
        return [ticket for ticket, _ in transaction.history()]


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
        texts = arena.texts.shown(kept.prompt, kept.model_a, kept.model_b)
        assert (shown.prompt, shown.left, shown.right) == texts
        assert kept.lane
        assert kept.reason
    ids = [each.ticket.ticket for each in arena.store.votes()]
    assert len({*ids}) == 30
    assert all(len(name) == 32 and int(name, 16) >= 0 for name in ids)


def test_one_matchup_at_a_time_and_one_vote_on_it(address: str) -> None:
    """Who asks again before voting gets the same matchup; the same vote again gets the same
    receipt, and another choice on the ticket is refused.
    """
    arena = live(address)
    shown = arena.issue(session="s")
    assert arena.issue(session="s") == shown
    assert arena.issue(session="other").ticket != shown.ticket
    first = arena.cast(shown.ticket, session="s", choice="B", digest=shown.digest, seconds=1.0)
    assert arena.cast(shown.ticket, session="s", choice="B", digest=shown.digest) == first
    with pytest.raises(records.AlreadyVotedError):
        arena.cast(shown.ticket, session="s", choice="A", digest=shown.digest)
    assert [each.choice for each in arena.store.votes()] == [Choice.B]
    assert arena.issue(session="s").ticket != shown.ticket


def test_each_refusal_has_a_code(address: str) -> None:
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
            arena.cast(ticket, **(good | more))
        assert caught.value.code == code
    for session in ("", "x" * 129, "line\nbreak", "\ud800"):
        with pytest.raises(records.BadInputError):
            arena.issue(session=session)
    assert arena.store.votes() == []


def test_a_vote_on_changed_texts_is_refused(address: str) -> None:
    """Where responses were replaced at a restart, a matchup of before is refused, whatever digest
    comes with the vote, and its session is shown another one.
    """
    shown = live(address).issue(session="s")
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


def test_a_voter_is_held_to_the_limits(address: str) -> None:
    """A voter gets so many matchups in a minute, whatever the session, and is told when the next
    one comes; other voters are not held up.
    """
    arena = live(address, limits=Limits(per_minute=3))
    for n in range(3):
        shown = arena.issue(session=f"s-{n}", voter="ann")
        arena.cast(shown.ticket, session=f"s-{n}", choice="SKIP")
    with pytest.raises(records.TooFastError) as caught:
        arena.issue(session="s-9", voter="ann")
    assert 50 < caught.value.retry_after <= 60
    assert arena.issue(session="s-1", voter="bob")


def test_11_a_voter_does_not_see_a_pair_on_a_prompt_again(address: str) -> None:
    """Section 11: until all 6 pairs were seen on all 6 prompts, nothing comes twice, skipped ones
    and a restart included; then there is nothing left.
    """
    arena = live(address, policy=RARE)
    for n in range(36):
        arena = live(address, policy=RARE) if n == 20 else arena
        vote(arena, "s", next(CHOICES))
    seen = {(frozenset((t.model_a, t.model_b)), t.prompt) for t in tickets(arena)}
    assert len(seen) == 36
    with pytest.raises(records.NothingLeftError):
        arena.issue(session="s")


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
    drawn = []
    for each in (arena, again):
        each.arena.scheduler.rng = np.random.default_rng([5, 42])
        drawn.append(replace(each.arena.next_matchup("new"), matchup_id=""))
    assert drawn[0] == drawn[1]
    again = live(address)
    again.cast(waiting.ticket, session="waits", choice="A", digest=waiting.digest)
    assert again.board().waiting == 0


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
    votes = [(v.voter, v.choice, v.source) for v in arena.store.votes()]
    assert votes == [("ann", "A", "ballot")] * 8 + [("bob", "B", "ballot")] * 8
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
    board, again = arena.board(), live(address, policy=policy).board()
    assert (len(board.votes), board.removed) == (144 - 2 * left_out, 2 * left_out)
    assert (again.ratings, again.removed) == (board.ratings, board.removed)


def test_11_ballots_and_pages_know_of_each_other(address: str) -> None:
    """Where the session of a ballot is the voter's name, its own pairs are no repeats. Who answered
    all pairs on all prompts is shown nothing more within the gap, skips included, in this process,
    in another and after a restart.
    """
    arena, other = live(address, policy=RARE), live(address, policy=RARE)
    shown = arena.issue_ballot(36, session="ann")
    answered = [*answers(shown[:9], Choice.SKIP), *answers(shown[9:])]
    arena.cast_ballot(answered, session="c", voter="ann")
    assert (len(arena.board().votes), arena.board().removed) == (27, 0)
    for each in (arena, other, live(address, policy=RARE)):
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


def test_threads_lose_and_double_nothing(address: str) -> None:
    """Eight threads that vote at once, each submission sent twice, give each vote once, numbered
    without a gap.
    """
    arena = live(address)

    def votes_of(n: int) -> list[str]:
        cast = []
        for _ in range(8):
            shown = arena.issue(session=f"s-{n}")
            for _ in range(2):
                arena.cast(shown.ticket, session=f"s-{n}", choice="A", digest=shown.digest)
            cast.append(shown.ticket)
        return cast

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

    def fails(*_: object) -> int:
        raise OSError("disk full")

    arena = live(address)
    vote(arena, "s")
    shown, before = arena.issue(session="t"), arena.board().ratings
    with monkeypatch.context() as broken:
        broken.setattr("arena_kit.voting.store.Transaction.count_by", fails)
        with pytest.raises(OSError, match="disk full"):
            arena.issue(session="u")
        with pytest.raises(OSError, match="disk full"):
            arena.cast(shown.ticket, session="t", choice="A")
    board = arena.board()
    assert (board.ratings, board.waiting, len(board.votes)) == (before, 1, 1)
    arena.cast(shown.ticket, session="t", choice="A")
    assert arena.board().ratings == live(address).board().ratings


def test_a_store_belongs_to_one_arena(address: str) -> None:
    """The votes of another tournament, or on another dimension, are not mixed in."""
    arena = live(address)
    with pytest.raises(DataError):
        LiveArena(arena.store, replace(arena.texts, name="other"), Policy())
    with pytest.raises(DataError):
        LiveArena(arena.store, arena.texts, Policy(), dimension="helpfulness")


def test_the_texts_of_a_workspace(workspace: Path) -> None:
    """Prompts and responses of a tournament are there by id, with what its file says of models, and
    an arena on it shows them.
    """
    of = {"aspen": "North & Co.", "elm": "North & Co."}
    edited(workspace, arena={"providers": of, "private": ["birch"], "withdrawn": ["cedar", "elm"]})
    found = ArenaTexts.of_tournament(workspace / "params" / "tournament.yaml", workspace)
    assert found.models == ("aspen", "birch", "dogwood")
    assert (found.providers, found.private, found.withdrawn) == (of, ("birch",), ("cedar", "elm"))
    prompt = next(iter(found.prompts))
    responses = (found.responses["birch", prompt], found.responses["aspen", prompt])
    assert found.shown(prompt, "birch", "aspen") == (found.prompts[prompt], *responses)
    assert found.shown(prompt, "cedar", "aspen") is None
    arena = LiveArena.open(workspace / "votes.sqlite", root=workspace)
    assert arena.issue(session="s").prompt in found.prompts.values()
    arena.close()


def test_texts_by_hand() -> None:
    """Other words, other sides and other prompts have another digest; a model without a response
    is not available there; one model is no arena.
    """
    here, there = texts(), texts(changed="!")
    asked = [("q-0", "aspen", "birch"), ("q-0", "birch", "aspen"), ("q-1", "aspen", "birch")]
    digests = {each.digest_now(*cell) for each in (here, there) for cell in asked}
    assert len(digests) == 6
    assert here.digest != there.digest
    some = {key: text for key, text in here.responses.items() if key != ("birch", "q-2")}
    part = replace(here, responses=some)
    assert np.argwhere(~part.available()).tolist() == [[1, 2]]
    assert part.shown("q-2", "aspen", "birch") is None
    with pytest.raises(DataError):
        texts("aspen")
