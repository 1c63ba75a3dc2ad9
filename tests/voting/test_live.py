"""The live arena: blind before the vote, durable after it, and its board equals a replay."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple, replace
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest

from arena_kit import Arena, BattleLog, RatingError, leaderboard, read_battles, write_battles
from arena_kit.files import DataError
from arena_kit.judging.pairs.prompts import Prompt
from arena_kit.policy.constants import Exposure, Policy, Repeats
from arena_kit.voting.ballot import InvitedVoter
from arena_kit.voting.board import UNNAMED, LiveBoard
from arena_kit.voting.export import conflicting, exported
from arena_kit.voting.live import LiveArena
from arena_kit.voting.records import Choice, RefusalError, Shown
from arena_kit.voting.store import now
from arena_kit.voting.texts import ArenaTexts
from tests.samples import edited
from tests.voting.arenas import MODELS, answers, arena_texts, live_arena, vote

CHOICES = cycle([Choice.A, Choice.B, Choice.A, Choice.TIE, Choice.BOTH_BAD, Choice.SKIP])
#: All 12 pairs and prompts come before one comes again.
TWO_PROMPTS, RARE = arena_texts(prompts=2), Policy(repeats=Repeats(session_gap=100, same_prompt=10))
#: A window that is full, and rolls, within a short test.
POLICY = Policy(exposure=Exposure(window=16))
VOTERS = ("ann", "bob", "carla", "dan")
COUNTED = (
    "models", "prompts", "matchups", "enabled", "active", "votes", "decisive", "ties", "both_bad",
    "exposure", "by_prompt", "by_pair", "pair_prompts",
)  # fmt: skip


@contextmanager
def refused(code: str) -> Iterator[pytest.ExceptionInfo[RefusalError]]:
    with pytest.raises(RefusalError) as caught:
        yield caught
    assert caught.value.code == code


def test_one_vote_or_a_refusal_with_a_code(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One vote counts on a ticket; all else is refused by code and leaves no vote."""
    arena = live_arena(address, lasts=60)
    voted = arena.issue(session="s")
    assert arena.issue(session="s") == voted
    first = arena.cast(voted.ticket, session="s", choice="B", digest=voted.digest, seconds=1.0)
    assert arena.cast(voted.ticket, session="s", choice="B", digest=voted.digest) == first
    shown = arena.issue(session="s")
    assert arena.issue(session="other").ticket not in (shown.ticket, voted.ticket)
    changed = live_arena(address, arena_texts(more=" Or not."), lasts=60)

    def check_refused(by: LiveArena, code: str, ticket: str = shown.ticket, **more: object) -> None:
        good = {"session": "s", "choice": "A", "digest": shown.digest}
        with refused(code):
            by.cast(ticket, **(good | more))

    for code, ticket, more in (
        ("already_voted", voted.ticket, {"digest": voted.digest}),
        ("unknown_ticket", "0" * 32, {}),
        ("unknown_ticket", "nul \x00 '; DROP TABLE votes", {}),
        ("foreign_ticket", shown.ticket, {"session": "thief"}),
        ("changed_content", shown.ticket, {"digest": "0" * 64}),
        ("bad_input", shown.ticket, {"choice": "LEFT"}),
        ("bad_input", shown.ticket, {"seconds": float("nan")}),
        ("bad_input", shown.ticket, {"seconds": -1.0}),
    ):
        check_refused(arena, code, ticket, **more)
    for session in ("", "x" * 129, "line\nbreak", "\ud800"):
        with refused("bad_input"):
            arena.issue(session=session)
    for digest in (shown.digest, None):
        check_refused(changed, "changed_content", digest=digest)
    assert arena.board().waiting == 2
    monkeypatch.setattr("arena_kit.voting.live.now", lambda: now() + 61_000_000)
    check_refused(arena, "expired_ticket")
    assert arena.board().waiting == 0
    for each in (arena, changed):
        assert each.issue(session="s").ticket != shown.ticket
    assert [each.choice for each in arena.store.votes()] == [Choice.B]


def test_the_last_vote_is_taken_back(live: LiveArena, monkeypatch: pytest.MonkeyPatch) -> None:
    """Undoing keeps and logs the vote and shows the pair again, before names and expiry only."""
    for choice in ("A", "B"):
        vote(live, "s", choice)
    waiting = live.issue(session="s")
    again = live.undo(session="s")
    last = live.store.votes()[-1]
    assert again.ticket != last.ticket.ticket
    assert (again.count, again.digest, last.removed) == (1, last.ticket.digest, True)
    assert [line.cells[3:] for line in live.store.removals()] == [
        ("removed", "the voter", "the voter took it back")
    ]
    with refused("nothing_to_undo"):
        live.undo(session="s")
    assert live.issue(session="s") == again
    assert live.cast(again.ticket, session="s", choice="TIE").count == 2
    assert live.issue(session="s").ticket == waiting.ticket
    assert [str(each.choice) for each in live.board().votes] == ["A", "TIE"]
    assert [each[2:4] for each in live.store.voters()] == [(2, 0)]
    assert not conflicting(live.store)
    other = live_arena(live.store.address)
    assert other.board().ratings == live.board().ratings
    live.reveal = True
    vote(live, "s")
    for session in ("s", "nobody"):
        with refused("nothing_to_undo"):
            live.undo(session=session)
    live.reveal = False
    vote(live, "t")
    monkeypatch.setattr("arena_kit.voting.live.now", lambda: now() + 3_601_000_000)
    with refused("expired_ticket"):
        live.undo(session="t")


def test_a_voter_is_held_to_the_limits(live: LiveArena) -> None:
    """A voter gets so many matchups a minute, whatever the session; others are not held up."""
    live.limits = replace(live.limits, per_minute=3)
    for n in range(3):
        vote(live, f"s-{n}", "SKIP", voter="ann")
    with refused("too_fast") as caught:
        live.issue(session="s-9", voter="ann")
    assert 50 < caught.value.retry_after <= 60
    assert live.issue(session="s-1", voter="bob")


def test_11_a_voter_does_not_see_a_pair_on_a_prompt_again(address: str) -> None:
    """11: nothing comes twice, not after a skip, a restart or a ballot."""
    arena, other = (live_arena(address, TWO_PROMPTS, RARE) for _ in range(2))
    ballot = arena.issue_ballot(12, session="ann")
    answered = [*answers(ballot[:3], Choice.SKIP), *answers(ballot[3:])]
    arena.cast_ballot(answered, session="c", voter="ann")
    assert (len(arena.board().votes), arena.board().removed) == (9, 0)
    for n in range(12):
        vote(arena if n < 6 else other, "s", next(CHOICES))
    seen = [each.ticket for each in arena.store.votes() if each.voter == "s"]
    assert len({(frozenset((t.model_a, t.model_b)), t.prompt) for t in seen}) == 12
    for each in (arena, other, live_arena(address, TWO_PROMPTS, RARE)):
        for session, voter in (("s", None), ("lab", "ann")):
            with refused("nothing_left"):
                each.issue(session=session, voter=voter)
    assert other.issue(session="page", voter="bob")


@pytest.mark.parametrize(
    ("address", "gap", "left_out"),
    [("sqlite", 100, 12), ("postgresql", 100, 12), ("sqlite", 3, 0)],
    indirect=["address"],
)
def test_11_a_second_ballot_repeats_nothing(address: str, gap: int, left_out: int) -> None:
    """11: votes that repeat a pair and prompt within the gap are kept and left out."""
    policy = Policy(repeats=Repeats(session_gap=gap, same_prompt=10))
    arena = live_arena(address, TWO_PROMPTS, policy)
    ballots = [answers(arena.issue_ballot(12, session=f"ballot-{n}")) for n in range(2)]
    for place, voter in enumerate(("ann", "bob"), 1):
        first, second = (arena.cast_ballot(each, session=voter, voter=voter) for each in ballots)
        assert not any(receipt.left_out for receipt in first)
        assert sum(receipt.left_out == "repeat" for receipt in second) == left_out
        assert arena.cast_ballot(ballots[1], session=voter, voter=voter) == second
        assert len(arena.store.removals()) == place * left_out
    board, again = arena.board(), live_arena(address, TWO_PROMPTS, policy).board()
    assert (len(board.votes), board.removed) == (48 - 2 * left_out, 2 * left_out)
    assert (again.ratings, again.removed) == (board.ratings, board.removed)


def test_ballots_are_balanced_over_strata(tmp_path: Path) -> None:
    """Strata share a ballot equally, and a second axis within; one that is used up ends alone."""
    texts = arena_texts(MODELS[:3], prompts=24)
    bank = {
        name: Prompt(prompt_id=name, text="?", source="abbbcccccccc"[n // 2], subject="xy"[n % 2])
        for n, name in enumerate(texts.prompts)
    }
    arena = live_arena(tmp_path / "v.sqlite", replace(texts, bank=bank, axes=("source", "subject")))
    together: Counter[str] = Counter()
    for n in range(3):
        prompts = [each.prompt.split()[2][:-1] for each in arena.issue_ballot(10, session=f"b-{n}")]
        for axis in ("source", "subject"):
            shares = Counter(bank[prompt].stratum(axis) for prompt in prompts)
            assert max(shares.values()) - min(shares.values()) <= 1, shares
        together.update(bank[prompt].source for prompt in prompts)
    assert together == {"a": 10, "b": 10, "c": 10}
    some = [name for name in bank if bank[name].source == "a"]
    asked = arena.issue_ballot(6, InvitedVoter(prompts=some), session="b-3")
    assert {each.prompt for each in asked} == {texts.prompts[name] for name in some}
    small = live_arena(tmp_path / "w.sqlite", arena.texts).issue_ballot(40, session="b-4")
    sources = Counter(bank[each.prompt.split()[2][:-1]].source for each in small)
    assert sources == {"a": 6, "b": 17, "c": 17}


def test_processes_and_restarts_share_a_store(address: str) -> None:
    """Arenas on one store see each other at once; a restart draws what it would have drawn."""
    one, two = live_arena(address), live_arena(address)
    for n in range(16):
        vote((one, two)[n % 2], f"s-{n % 4}", next(CHOICES))
    waiting = one.issue(session="waits")
    again, drawn = live_arena(address), []
    for each in (one, two, again):
        assert (each.board().waiting, each.issue(session="waits")) == (1, waiting)
        assert (each.board().ratings, each.board().elo) == (one.board().ratings, one.board().elo)
        each.arena.scheduler.rng = np.random.default_rng([5, 42])
        drawn.append(replace(each.arena.next_matchup("new"), matchup_id=""))
    assert drawn[0] == drawn[1] == drawn[2]
    again = live_arena(address)
    again.cast(waiting.ticket, session="waits", choice="B", digest=waiting.digest)
    one.store.remove("voter", ["s-1"], why="a bot", by="me")
    ratings = [each.board().ratings for each in (one, two, again, live_arena(address))]
    assert ratings.count(ratings[0]) == 4
    kept = [each.ticket for each in one.store.votes()]
    assert len({each.ticket for each in kept}) == 17
    assert all(each.lane and each.reason for each in kept)
    assert (two.board().waiting, two.board().removed) == (0, 4)
    for texts, dimension in ((replace(one.texts, name="other"), None), (one.texts, "helpfulness")):
        with pytest.raises(DataError):
            LiveArena(one.store, texts, Policy(), dimension=dimension)


def test_a_ballot_is_taken_whole_or_not_at_all(address: str) -> None:
    """A refused answer stores nothing of its file; every voter's answers are votes of their own."""
    arena = live_arena(address)
    ballot, page = arena.issue_ballot(4, session="ballot-1"), arena.issue(session="s")
    good = answers(ballot)
    for file, code in (
        ([*good[:3], good[3].model_copy(update={"digest": "0" * 64})], "changed_content"),
        ([*good, *answers([page])], "foreign_ticket"),
    ):
        with refused(code):
            arena.cast_ballot(file, session="c", voter="ann")
    with refused("foreign_ticket"):
        arena.cast(ballot[0].ticket, session="s", choice="A")
    board = arena.board()
    assert (arena.store.votes(), board.votes, board.waiting) == ([], (), 5)
    assert board.ratings == live_arena(address).board().ratings
    first = arena.cast_ballot(good, session="c-1", voter="ann")
    second = arena.cast_ballot(answers(ballot, Choice.B), session="c-2", voter="bob")
    again = arena.cast_ballot(answers(ballot, Choice.B), session="c-2", voter="bob")
    assert (again, [each.ticket for each in first]) == (second, [each.ticket for each in second])
    votes = [(v.voter, v.choice, v.source) for v in arena.store.votes()]
    assert votes == [("ann", "A", "ballot")] * 4 + [("bob", "B", "ballot")] * 4
    assert arena.board().waiting == 1
    assert arena.board().ratings == live_arena(address).board().ratings


def test_a_name_locks_nobody_out(address: str) -> None:
    """Of two files under one name both are kept, what agrees counts once, what differs waits."""
    arena = live_arena(address)
    ballot = arena.issue_ballot(4, session="ballot-1")
    arena.cast_ballot(answers(ballot[:3], Choice.B), session="impostor", voter="ann")
    own = [*answers(ballot[:1], Choice.B), *answers(ballot[1:])]
    for _ in range(2):
        receipts = arena.cast_ballot(own, session="ann's", voter="ann")
        assert [receipt.left_out for receipt in receipts] == ["", "conflict", "conflict", ""]
        counted = [(v.session, v.choice) for v in arena.store.votes() if not v.removed]
        assert counted == [("impostor", "B")] * 3 + [("ann's", "A")]
        assert (len(arena.store.votes()), arena.board().removed) == (6, 2)
    groups = [[(v.session, v.choice) for v in group] for group in conflicting(arena.store)]
    assert groups == [[("impostor", "B"), ("ann's", "A")]] * 2
    assert arena.board().ratings == live_arena(address).board().ratings


def test_a_comparison_on_several_dimensions_counts_once(address: str, tmp_path: Path) -> None:
    """A vote is a row on its dimension; ratings and repeats take a comparison once."""
    dimensions = ("a", "b", "c")
    arena = live_arena(address, TWO_PROMPTS, RARE, dimensions)
    ballot = arena.issue_ballot(12, session="b-1")

    def cast(places: str, choice: Choice, voter: str, shown: Sequence[Shown] = ballot) -> list[str]:
        """Answers on pair and dimension, as `0a 1b`; says which were left out."""
        given = [(answers([shown[int(p[:-1])]], choice)[0], p[-1]) for p in places.split()]
        files = [answer.model_copy(update={"dimension": name}) for answer, name in given]
        return [each.left_out for each in arena.cast_ballot(files, session=voter, voter=voter)]

    def counted() -> tuple[int, int, int]:
        boards = [each.board() for each in (arena, live_arena(address, TWO_PROMPTS, RARE))]
        assert boards[0].ratings == boards[1].ratings
        assert boards[0].waiting == boards[1].waiting
        return len(boards[0].votes), boards[0].coverage.matchups, boards[0].waiting

    assert not any(cast("0a 0b 0c 1b 1c", Choice.A, "ann"))
    assert counted() == (2, 2, 10)
    cast("2a", Choice.SKIP, "ann")
    cast("2b", Choice.B, "ann")
    assert not any(cast("1a", Choice.A, "ann"))  # a fuller file
    assert not any(cast("0a 0b 3c", Choice.B, "bob"))
    assert counted() == (5, 5, 8)
    assert cast("0b 0c", Choice.TIE, "ann") == ["conflict", "conflict"]
    groups = [[vote.ticket.dimension for vote in group] for group in conflicting(arena.store)]
    assert groups == [["b", "b"], ["c", "c"]]
    with refused("bad_input"):
        cast("4d", Choice.A, "ann")
    with pytest.raises(DataError, match="one dimension, not about several"):
        arena.issue(session="s")
    logs = exported(arena.store).battles.by_dimension()
    assert {name: len(log) for name, log in logs.items()} == {"a": 3, "b": 4, "c": 3}
    arena.store.remove("vote", [ballot[0].ticket], why="a slip", by="me")  # ann's on a
    assert counted() == (5, 5, 8)  # by its vote on b now
    again = arena.issue_ballot(12, session="b-2")
    seen = [(v.ticket.prompt, {*v.ticket[5:7]}) for v in arena.store.votes() if v.voter == "ann"]
    with arena.store.writing() as turn:
        drawn = [turn.ticket(each.ticket) for each in again]
    at = next(n for n, t in enumerate(drawn) if t and (t.prompt, {*t[5:7]}) in seen)
    cast(f"{at}a", Choice.SKIP, "ann", again)
    assert cast(f"{at}a {at}b {at}c", Choice.A, "ann", again)[1:] == ["repeat", "repeat"]
    assert counted()[:2] == (5, 5)
    other = live_arena(tmp_path / "one.sqlite", TWO_PROMPTS, RARE, ["a"])
    with pytest.raises(DataError, match="holds votes of 'small' on 'a', not of 'small' on 'a, b'"):
        LiveArena(other.store, TWO_PROMPTS, RARE, dimension=["a", "b"])


def test_votes_on_revealed_responses_are_flagged(address: str) -> None:
    """A vote on a response named to the voter before is flagged, after a restart, too."""
    arena = live_arena(address, TWO_PROMPTS)
    vote(arena, "ann")
    for _ in range(2):
        arena = LiveArena(arena.store, TWO_PROMPTS, Policy(), reveal=True)
        for n in range(8):
            vote(arena, ("ann", "bob")[n % 2], "SKIP" if n == 2 else "A")
    told: set[tuple[str, str, str]] = set()
    for n, each in enumerate(arena.store.votes()):
        shown = {(each.voter, m, each.ticket.prompt) for m in each.ticket[5:7]}
        assert each.known == bool(shown & told)
        assert each.revealed == (n > 0 and each.choice != "SKIP")
        told |= shown if each.revealed else set()
    assert {each.known for each in arena.store.votes()} == {False, True}


def test_threads_lose_and_double_nothing(address: str) -> None:
    """Eight threads, each vote sent twice, give each vote once, numbered without a gap."""
    arena = live_arena(address)

    def votes_of(n: int) -> list[str]:
        cast = []
        for _ in range(5):
            shown = arena.issue(session=f"s-{n}")
            for _ in range(2):
                arena.cast(shown.ticket, session=f"s-{n}", choice="A", digest=shown.digest)
            cast.append(shown.ticket)
        return cast

    with ThreadPoolExecutor(8) as pool:
        cast = [ticket for tickets in pool.map(votes_of, range(8)) for ticket in tickets]
    stored = arena.store.votes()
    assert sorted(each.ticket.ticket for each in stored) == sorted(cast)
    assert [each.number for each in stored] == list(range(1, 41))
    assert arena.board().ratings == live_arena(address).board().ratings


def test_what_is_not_stored_did_not_happen(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the store fails in the middle, no matchup waits and no vote counts in memory either."""

    def fails(*_: object) -> int:
        raise OSError("disk full")

    arena = live_arena(address)
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
    assert arena.board().ratings == live_arena(address).board().ratings


def test_the_texts_of_a_workspace(workspace: Path) -> None:
    """Texts of a tournament by id; every change of words, sides or prompt changes the digest."""
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
    on, gold = found.on(["factuality"]), {key for key, p in found.bank.items() if p.gold_answer}
    assert on.question() == "Which response is more accurate, measured against the gold answer?"
    assert {prompt for _, prompt in on.responses} == gold < {*found.prompts}
    assert on.reference("rec-001").startswith("Allopurinol inhibits xanthine oxidase")
    cell = ("rec-001", "aspen", "birch")
    assert on.digest_now(*cell) != found.digest_now(*cell)
    assert (found.question(), found.reference("rec-001")) == ("Which response is better?", "")
    here, there, (a, b, *_) = arena_texts(), arena_texts(more="!"), MODELS
    cells = [("q-0", a, b), ("q-0", b, a), ("q-1", a, b)]
    assert len({each.digest_now(*cell) for each in (here, there) for cell in cells}) == 6
    assert here.digest != there.digest
    some = {key: text for key, text in here.responses.items() if key != (b, "q-2")}
    part = replace(here, responses=some)
    assert np.argwhere(~part.available()).tolist() == [[1, 2]]
    assert part.shown("q-2", a, b) is None
    with pytest.raises(DataError):
        arena_texts([a])


def step(arena: LiveArena, dice: random.Random) -> None:
    voter, choice, what = dice.choice(VOTERS), dice.choice(list(Choice)), dice.random()
    if what < 0.1:
        arena.issue(session=voter)
    elif what < 0.8:
        vote(arena, voter, choice)
    elif what < 0.9:
        ballot = answers(arena.issue_ballot(3, session=f"ballot-{dice.random()}"), choice)
        for person in dice.sample(VOTERS, 2):
            arena.cast_ballot(ballot, session=f"file of {person}", voter=person)
    else:
        known = [each.voter for each in arena.store.voters()][:1]
        change = arena.store.remove if dice.random() < 0.5 else arena.store.restore
        change("voter", known, why="to see", by="a test")


def check_replay(board: LiveBoard, battles: BattleLog) -> None:
    """The board is what a new arena on exported battles gives, in every digit."""
    past, prompts = battles if len(battles) else None, tuple(board.texts.prompts)
    again = Arena(POLICY, MODELS, prompts, rng=np.random.default_rng(0), battles=past)
    assert board.ratings == {model: again.ratings[model] for model in MODELS}
    assert board.elo == {model: again.elo[model] for model in MODELS}
    assert board.order == tuple(again.order())
    coverage = again.scheduler.coverage()
    for name in COUNTED:
        assert np.array_equal(getattr(board.coverage, name), getattr(coverage, name)), name
    assert board.coverage.standings(board.ratings) == coverage.standings(again.ratings)


def test_7_the_board_equals_a_replay_of_the_export(address: str, tmp_path: Path) -> None:
    """After each of 21 random events the board is that of the export, in every digit."""
    dice, arena = random.Random(3), live_arena(address, policy=POLICY)
    for n in range(21):
        step(arena, dice)
        export, board = exported(arena.store), arena.board()
        check_replay(board, export.battles)
        assert (export.skips, export.removed) == (board.skips, board.removed)
        if n % 7 == 6:
            path = tmp_path / f"votes-{n}.{('csv', 'jsonl', 'parquet')[n // 7]}"
            write_battles(path, export.battles)
            read, prompts = read_battles(path), tuple(board.texts.prompts)
            check_replay(board, read)
            published = leaderboard(read, POLICY, models=MODELS, prompts=prompts)
            assert (published.order, published.status) == (board.order, board.status)
            assert published.rows == board.leaderboard.rows
            for row in published.rows:
                found = (row.rating, row.rd, row.volatility, row.legacy_elo)
                assert found == (*astuple(board.ratings[row.model]), board.elo[row.model])
    assert {line.undone for line in arena.store.removals()} == {False, True}
    assert len(board.votes) > POLICY.exposure.window


def filled(where: str | Path, votes: int) -> LiveArena:
    arena = live_arena(where, policy=POLICY)
    for n in range(votes):
        vote(arena, f"session of {VOTERS[n % 4]}", voter=VOTERS[n % 4])
    return arena


def test_an_export_has_all_that_a_battle_has(address: str, tmp_path: Path) -> None:
    """An export has every field; deidentified it names nobody and keeps who voted together."""
    arena = filled(address, votes=12)
    vote(arena, "x", "SKIP")
    arena.store.remove("voter", ["bob"], why="a bot", by="me")
    export = exported(arena.store)
    assert (len(export.battles), export.skips, export.removed) == (9, 1, 3)
    stored = [vote for vote in arena.store.votes() if not vote.removed]
    for battle, kept in zip(export.battles.to_battles(), stored, strict=False):
        ticket = kept.ticket
        assert (battle.source, battle.winner) == ("human", "model_a")
        assert (battle.voter, battle.session) == (kept.voter, f"session of {kept.voter}")
        assert (battle.model_a, battle.model_b) == (ticket.model_a, ticket.model_b)
        assert (battle.question_id, battle.lane) == (ticket.prompt, ticket.lane)
        assert battle.battle_id == ticket.ticket
        assert round(battle.timestamp.timestamp() * 1e6) == kept.cast_at
    plain, path = export.battles, tmp_path / "votes.csv"
    hidden = [exported(arena.store, deidentified=True).battles for _ in range(2)]
    write_battles(path, hidden[0])
    assert not [name for name in (*VOTERS, *plain.battle_id) if name in path.read_text()]
    first, second = ({*log.voter.names} | {*log.session.names} for log in hidden)
    assert not first & second
    days = hidden[0].timestamp.astype("datetime64[D]").astype("datetime64[us]")
    assert np.array_equal(hidden[0].timestamp, days)
    together = [len({*zip(plain.voter.codes, log.voter.codes, strict=True)}) for log in hidden]
    assert together == [3, 3]
    check_replay(arena.board(), read_battles(path))


def test_7_exposure_is_audited_per_provider(tmp_path: Path) -> None:
    """7: every showing belongs to a provider, and targets add up to what was shown."""
    filled(tmp_path / "votes.sqlite", votes=40).close()
    arena = live_arena(tmp_path / "votes.sqlite", arena_texts(MODELS[:3]), POLICY)
    audit, gone = arena.board().exposure, MODELS[3]
    rows = {row["provider"]: row for row in audit}
    assert rows.keys() == {"north", "south", UNNAMED}
    window = sum(row["exposure"] for row in audit)
    for name, total in (("shown", 80), ("share", 1), ("target", window), ("equal_target", window)):
        assert sum(row[name] for row in audit) == pytest.approx(total)
    assert (rows["north"]["models"], [*rows["north"]["private"]]) == ([*MODELS[:2]], [MODELS[1]])
    assert (rows[UNNAMED]["models"], rows["north"]["withdrawn"]) == ([], {})
    assert rows[UNNAMED]["shown"] == rows[UNNAMED]["withdrawn"][gone] > 0
    assert gone not in arena.board().order


def test_7_1_a_provider_shown_too_often_is_named(live: LiveArena) -> None:
    """7.1: a provider outside 12 % is named; without votes there is a board, all at the start."""
    board = live.board()
    assert (board.order, board.status.status) == (tuple(sorted(MODELS)), "calibrating")
    assert {state.rating for state in board.ratings.values()} == {1500.0}
    assert [row["shown"] for row in board.exposure] == [0, 0, 0]
    with pytest.raises(RatingError):
        _ = board.leaderboard
    for n in range(30):
        shown = live.issue(session=f"s-{n}")
        with live.store.writing() as transaction:
            ticket = transaction.ticket(shown.ticket)
        north = {ticket.model_a, ticket.model_b} == {*MODELS[:2]}
        live.cast(shown.ticket, session=f"s-{n}", choice=Choice.A if north else Choice.SKIP)
    rows = {row["provider"]: row for row in live.board().exposure}
    assert rows["north"]["exposure"] > 0
    assert not any(row["within"] for row in rows.values())
    assert (rows["north"]["outside"], rows["south"]["outside"]) == ([*MODELS[:2]], [MODELS[2]])
