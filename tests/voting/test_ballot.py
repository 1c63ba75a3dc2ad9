"""Ballots: blind pages, and files that come back and count once, whole, or not at all."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arena_kit.files import DataError
from arena_kit.voting.access import signing_key
from arena_kit.voting.ballot import make_ballot, self_naming, take_ballot, voter_id
from arena_kit.voting.live import LiveArena
from arena_kit.voting.records import Choice, Ticket
from tests.voting.serving import (
    KEY,
    MODELS,
    Row,
    arena_texts,
    filled,
    leaks,
    live_arena,
    page_data,
    returned,
)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveArena]:
    arena = live_arena(tmp_path / "votes.sqlite")
    yield arena
    arena.close()


def made(live: LiveArena, pairs: int = 6) -> str:
    return make_ballot(live, KEY, pairs=pairs, days=30)


def stored(live: LiveArena) -> list[tuple[str, str]]:
    return [(vote.voter, str(vote.choice)) for vote in live.store.votes()]


def test_no_page_leads_to_a_model(live: LiveArena) -> None:
    """Pages hold no name in any form, no id of a prompt, and each pair under an id of its own,
    the same pair under another one the next time.
    """
    pages = [made(live, 20) for _ in range(3)]
    assert not leaks("".join(pages))
    ids = [pair["ticket"] for page in pages for pair in page_data(page)[0]["pairs"]]
    assert len({*ids}) == 60
    known = {each for text in pages for each in (*MODELS, "question_id", "lane") if each in text}
    assert not known


def test_a_page_asks_nobody_for_anything(live: LiveArena) -> None:
    """Its policy admits one script and one style by their hashes, and no request at all."""
    html = made(live)
    assert "default-src 'none'; script-src 'sha256-" in html
    assert "connect-src" not in html
    assert "http://" not in html
    assert "https://" not in html


def test_ballots_together_cover_as_one_arena(live: LiveArena) -> None:
    """Five ballots of 12 pairs hold 60 matchups as one arena would draw them: every one of the
    six pairs of models comes ten times, give or take a few, and no ballot has one twice.
    """
    for _ in range(5):
        made(live, 12)
    with live.store.writing() as transaction:
        tickets = [ticket for ticket, _ in transaction.history()]
    pairs = [frozenset((t.model_a, t.model_b)) for t in tickets]
    assert len(tickets) == 60
    assert all(6 <= pairs.count(pair) <= 14 for pair in {*pairs})
    cells = [(t.session, pair, t.prompt) for t, pair in zip(tickets, pairs, strict=True)]
    assert len({*cells}) == 60


def test_votes_come_back_once(live: LiveArena, tmp_path: Path) -> None:
    """A file's votes are stored under the voter's name, and again they change nothing."""
    path = returned(tmp_path, filled(made(live)))
    taken = take_ballot(live, KEY, path)
    assert (taken.voter, taken.votes, taken.skips, taken.new) == ("ann", 5, 1, 6)
    assert stored(live) == [("ann", c) for c in ("A", "B", "TIE", "BOTH_BAD", "SKIP", "A")]
    assert take_ballot(live, KEY, path).new == 0
    assert len(stored(live)) == 6
    assert {vote.source for vote in live.store.votes()} == {"ballot"}


def test_a_ballot_may_come_back_in_two_parts(live: LiveArena, tmp_path: Path) -> None:
    """Who sends the first half and later all of it loses nothing; a vote that was changed
    meanwhile is refused, and with it the file.
    """
    html = made(live)
    take_ballot(live, KEY, returned(tmp_path, filled(html, choices="A B TIE")))
    changed = returned(tmp_path, filled(html, choices="B B TIE A A A"))
    with pytest.raises(DataError, match="nothing of this file was stored"):
        take_ballot(live, KEY, changed)
    assert len(stored(live)) == 3
    assert (
        take_ballot(live, KEY, returned(tmp_path, filled(html, choices="A B TIE A A A"))).new == 3
    )


def test_several_people_may_fill_in_one_ballot(live: LiveArena, tmp_path: Path) -> None:
    """Five copies of one page are five voters' votes; a voter without a name is their browser."""
    html = made(live)
    for n, name in enumerate(["Ann", "Ben", "Cleo", "", ""]):
        take_ballot(live, KEY, returned(tmp_path, filled(html, voter=name, copy=f"c{n}")))
    assert [voter.votes for voter in live.store.voters()] == [5] * 5
    assert {voter.voter for voter in live.store.voters()} == {"ann", "ben", "cleo", "c3", "c4"}
    assert len(live.board().battles) == 25


def test_votes_that_repeat_another_ballot_are_told(live: LiveArena, tmp_path: Path) -> None:
    """A voter who fills in two ballots that share pairs and prompts is told about in numbers; the
    votes are kept and left out.
    """
    pages = [made(live, 40), made(live, 40)]
    cells = [{(t.prompt, frozenset((t.model_a, t.model_b))) for t in tickets(live, page)}
             for page in pages]  # fmt: skip
    taken = [
        take_ballot(live, KEY, returned(tmp_path, filled(page, choices="A " * 40)))
        for page in pages
    ]
    assert taken[0].repeats == 0
    assert 0 < taken[1].repeats <= len(cells[0] & cells[1])
    assert len(live.board().votes) == 80 - taken[1].repeats


def tickets(live: LiveArena, page: str) -> list[Ticket]:
    ids = {pair["ticket"] for pair in page_data(page)[0]["pairs"]}
    with live.store.writing() as transaction:
        return [ticket for ticket, _ in transaction.history() if ticket.ticket in ids]


def edit_choice(file: Row) -> object:
    return file | {"votes": [file["votes"][0] | {"choice": "B"}, *file["votes"][1:]]}


def edit_twice(file: Row) -> object:
    return file | {"votes": [*file["votes"], file["votes"][0]]}


#: What somebody may do to a file, and what the refusal says.
TAMPERED: dict[str, tuple[Callable[[Row], object], str]] = {
    "another choice": (edit_choice, "do not fit its seal"),
    "a vote twice": (edit_twice, "do not fit its seal"),
    "a vote less": (lambda f: f | {"votes": f["votes"][1:]}, "do not fit its seal"),
    "another voter": (lambda f: f | {"voter": "Ben"}, "do not fit its seal"),
    "another copy": (lambda f: f | {"copy": "c9"}, "do not fit its seal"),
    "another ballot": (lambda f: f | {"ballot": "b9"}, "do not fit its seal"),
    "another content": (lambda f: f | {"content": "0" * 64}, "do not fit its seal"),
    "another seal": (lambda f: f | {"seal": "0" * 64}, "do not fit its seal"),
    "no votes": (lambda f: f | {"votes": []}, "votes"),
    "an unknown choice": (
        lambda f: f | {"votes": [f["votes"][0] | {"choice": "C"}]}, "choice"),
    "no number": (lambda f: f | {"votes": [f["votes"][0] | {"seconds": "1"}]}, "seconds"),
    "a negative number": (lambda f: f | {"votes": [f["votes"][0] | {"seconds": -1}]}, "seconds"),
    "SQL": (lambda f: f | {"ballot": "'; DROP TABLE votes; --"}, "ballot"),
    "HTML": (lambda f: f | {"copy": "<script>alert(1)</script>"}, "copy"),
    "a line break": (lambda f: f | {"voter": "Ann\nBen"}, "voter"),
    "a further key": (lambda f: f | {"model": "x"}, "unknown key 'model'"),
    "a later version": (lambda f: f | {"version": 2}, "version"),
    "another format": (lambda f: f | {"format": "votes"}, "format"),
    "a list": (lambda f: [f], "expected the object that a ballot saves, got list"),
    "a text": (lambda _: "A, B, A", "not valid JSON"),
    "NaN": (lambda f: json.dumps(f).replace("2.5", "NaN"), "not valid JSON"),
    "a cut": (lambda f: json.dumps(f)[:300], "not valid JSON"),
    "depth": (lambda _: "[" * 100_000, "nested too deeply"),
    "size": (lambda _: " " * 5_000_001, "over 5,000,000 bytes"),
}  # fmt: skip


def test_what_was_changed_is_refused_with_a_sentence(live: LiveArena, tmp_path: Path) -> None:
    """Whatever was done to a file, one sentence names file and reason, and nothing is stored."""
    file = filled(made(live))
    for name, (edit, said) in TAMPERED.items():
        path = returned(tmp_path, edit(file))
        with pytest.raises(DataError) as refused:
            take_ballot(live, KEY, path)
        assert str(refused.value).startswith(str(path)), name
        assert said in str(refused.value), name
        assert "\n" not in str(refused.value), name
    assert not stored(live)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["format", "version", "ballot", "content", "copy", "voter", "votes", "seal"]
    ) | st.text(max_size=5), inner, max_size=8), max_leaves=12,
))  # fmt: skip
def test_any_json_is_refused_in_words(live: LiveArena, tmp_path: Path, value: object) -> None:
    """No file, whatever it holds, ends in anything but a sentence."""
    path = returned(tmp_path, json.dumps(value))
    with pytest.raises(DataError):
        take_ballot(live, KEY, path)


def test_a_page_that_was_changed_seals_nothing(live: LiveArena, tmp_path: Path) -> None:
    """Votes on a page whose texts were edited are refused, though its script sealed them."""
    html = made(live)
    edited = html.replace("Answer", "Better answer", 1)
    with pytest.raises(DataError, match="do not fit its seal"):
        take_ballot(live, KEY, returned(tmp_path, filled(edited)))


def test_ballots_of_another_store_are_refused(live: LiveArena, tmp_path: Path) -> None:
    """A ballot is known to its own store's key; with the key at hand, its tickets are not."""
    other = live_arena(tmp_path / "other.sqlite")
    path = returned(tmp_path, filled(made(other)))
    other.close()
    with pytest.raises(DataError, match="made with another store"):
        take_ballot(live, bytes(32), path)
    with pytest.raises(DataError, match="never handed out"):
        take_ballot(live, KEY, path)


def test_a_vote_on_texts_that_changed_is_refused(live: LiveArena, tmp_path: Path) -> None:
    """When responses were replaced after a ballot was made, its votes are about other texts."""
    path = returned(tmp_path, filled(made(live)))
    live.close()
    texts = arena_texts()
    texts = replace(texts, responses={key: f"{text} New." for key, text in texts.responses.items()})
    after = live_arena(tmp_path / "votes.sqlite", texts)
    with pytest.raises(DataError, match="not those that were handed out"):
        take_ballot(after, KEY, path)
    assert not stored(after)
    after.close()


def test_a_ballot_that_cannot_be_filled_says_why(live: LiveArena) -> None:
    """More pairs than there are (12 prompts, 6 pairs of models) are refused, and nothing stays
    handed out.
    """
    with pytest.raises(DataError, match=r"a ballot of 73 pairs cannot be filled: .* 72 times"):
        made(live, 73)
    assert live.board().waiting == 0


def test_the_key_is_its_owners(tmp_path: Path) -> None:
    """The key is made once, is random, and nobody else may read it; another text is no key."""
    path = tmp_path / "deep" / "votes.key"
    key = signing_key(path)
    assert signing_key(path) == key != signing_key(tmp_path / "other.key")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("not a key")
    with pytest.raises(DataError, match="is no key of a vote store"):
        signing_key(path)


def test_the_store_is_its_owners(live: LiveArena) -> None:
    """The file that says which model is which may be read by nobody else."""
    assert stat.S_IMODE(Path(live.store.address).stat().st_mode) == 0o600


def test_responses_that_name_a_model_are_found() -> None:
    """A response that says who wrote it is told, as a word of its own and in any case."""
    texts = arena_texts()
    said = dict(texts.responses)
    said[MODELS[0], "q1"] = "I am ZEPHYRINE-9, trained to help."
    said[MODELS[2], "q2"] = "Ask quillback.xl instead."
    said[MODELS[3], "q3"] = "obsidian_40Bx is a stone."
    found = {*self_naming(replace(texts, responses=said))}
    assert found == {(MODELS[0], "q1"), (MODELS[2], "q2")}


def test_names_are_one_voter_however_they_are_typed() -> None:
    """Case, spaces and what cannot be seen make no second voter."""
    assert (
        voter_id("  Ann  B. ") == voter_id("ann b.") == voter_id("Ann\u200d B.\u202e") == "ann b."
    )
    assert voter_id(" \u202e ") == ""


def test_votes_of_ballots_count_in_the_arena(live: LiveArena, tmp_path: Path) -> None:
    """What comes back moves the ratings and no longer waits; skips count for nobody."""
    take_ballot(live, KEY, returned(tmp_path, filled(made(live))))
    board = live.board()
    assert (len(board.votes), board.skips, board.waiting) == (5, 1, 0)
    assert Choice.SKIP not in {vote.choice for vote in board.votes}
