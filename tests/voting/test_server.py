"""The server: blind until the vote is stored, closed to strangers, and never at a loss."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from arena_kit.voting.live import LiveArena
from arena_kit.voting.records import Choice
from tests.voting.serving import BOARD_TOKEN, Voter, leaks, live_arena, serving


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveArena]:
    arena = live_arena(tmp_path / "votes.sqlite")
    yield arena
    arena.close()


@pytest.fixture
def address(live: LiveArena) -> Iterator[str]:
    with serving(live) as at:
        yield at


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all tests that leave no trace in its store."""
    arena = live_arena(tmp_path_factory.mktemp("shared") / "votes.sqlite")
    with serving(arena) as at:
        yield at
    arena.close()


def test_names_are_told_after_the_vote_only(live: LiveArena, address: str) -> None:
    """No body, header or cookie before the vote leads to a model; the answer to the vote names
    both, as the store has them, and a skip names none.
    """
    voter = Voter(address)
    voter.bodies.append(voter.client.get("/").text)
    voter.enter()
    pair = voter.pair()
    assert not leaks("".join(voter.bodies))
    answer = voter.vote(pair, "A").json()
    (vote,) = live.store.votes()
    assert (answer["model_a"], answer["model_b"]) == (vote.ticket.model_a, vote.ticket.model_b)
    assert (vote.choice, vote.seconds, vote.source, answer["votes"]) == (Choice.A, 1.5, "page", 1)
    skipped = voter.vote(voter.pair(), "SKIP").json()
    assert skipped == {"model_a": None, "model_b": None, "votes": 1}


def test_texts_are_rendered_safely_and_no_more_is_sent(shared: str) -> None:
    """A pair is ticket, digest, three texts as HTML and a count, and nothing else."""
    voter = Voter(shared)
    voter.enter()
    pair = voter.pair()
    assert {*pair} == {"ticket", "digest", "prompt", "left", "right", "votes"}
    assert "<strong>" in pair["prompt"]
    assert "<code>" in pair["left"]


def test_a_pair_waits_until_it_is_voted_on(shared: str) -> None:
    """Asking again gives the same pair, so reloading the page is no way to look for another."""
    voter = Voter(shared)
    voter.enter()
    assert voter.pair() == voter.pair()


def test_the_same_vote_again_is_answered_alike(live: LiveArena, address: str) -> None:
    """A vote that is sent twice counts once; another one on the same pair is refused."""
    voter = Voter(address)
    voter.enter()
    pair = voter.pair()
    first = voter.vote(pair, "TIE")
    assert voter.vote(pair, "TIE").json() == first.json()
    other = voter.vote(pair, "B")
    assert (other.status_code, other.json()["error"]) == (409, "already_voted")
    assert len(live.store.votes()) == 1


def test_tickets_of_others_and_changed_texts_are_refused(live: LiveArena, address: str) -> None:
    """A ticket is good for its own session, on the texts that were shown, and must exist."""
    ann, ben = Voter(address), Voter(address)
    ann.enter()
    ben.enter()
    pair = ann.pair()
    for voter, changes, status, code in (
        (ben, {}, 403, "foreign_ticket"),
        (ann, {"digest": "0" * 64}, 409, "changed_content"),
        (ann, {"ticket": "0" * 32}, 404, "unknown_ticket"),
    ):
        answer = voter.vote(pair | changes, "A")
        assert (answer.status_code, answer.json()["error"]) == (status, code)
    assert not live.store.votes()
    assert not leaks("".join(ann.bodies + ben.bodies))


def test_without_a_session_nothing_is_handed_out(shared: str) -> None:
    """Who did not enter, or brings a cookie of their own making, gets no pair."""
    stranger = Voter(shared)
    assert stranger.ask("/api/matchup", {}).status_code == 401
    for made_up in ("somebody", "somebody." + "0" * 64, f"somebody.{'0' * 64}.{'0' * 64}"):
        stranger.client.cookies.set("arena_kit_voter", made_up)
        assert stranger.ask("/api/matchup", {}).status_code == 401


def test_a_token_is_needed_where_there_is_one(live: LiveArena) -> None:
    """A wrong token is turned away, too many tries have to wait, the right one enters."""
    with serving(live, token="open sesame") as address:
        assert Voter(address, token="open").enter().status_code == 401
        assert Voter(address, token="open sesame").enter().status_code == 200
        answers = [Voter(address, token=str(n)).enter() for n in range(125)]
        assert {answer.status_code for answer in answers} == {401, 429}
        assert int(answers[-1].headers["retry-after"]) > 0


def test_a_new_token_locks_out_until_it_is_brought(live: LiveArena) -> None:
    """After the token was changed an old cookie admits nobody, but with the new one its owner is
    the same voter as before.
    """
    with serving(live, token="one") as address:
        voter = Voter(address, token="one")
        voter.enter()
        voter.vote(voter.pair(), "A")
        kept = dict(voter.client.cookies)
    with serving(live, token="two") as address:
        late = Voter(address, token="two")
        late.client.cookies.update(kept)
        assert late.ask("/api/matchup", {}).status_code == 401
        assert late.ask("/api/enter", {"token": "one"}).status_code == 401
        assert late.enter().status_code == 200
        assert late.pair()["votes"] == 1


def test_cookies_stay_in_the_browser_and_outlive_a_restart(tmp_path: Path) -> None:
    """A cookie is HttpOnly and SameSite=Strict, Secure behind TLS; after a restart of the server
    the pair that waited can be voted on.
    """
    first = live_arena(tmp_path / "votes.sqlite")
    with serving(first, hosts=["votes.example.org"]) as address:
        voter = Voter(address)
        cookie = voter.enter().headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert "secure" not in cookie
        proxied = {"host": "votes.example.org", "origin": "https://votes.example.org"}
        secured = Voter(address).ask("/api/enter", {"token": ""}, **proxied)
        assert "secure" in secured.headers["set-cookie"].lower()
        pair, kept = voter.pair(), dict(voter.client.cookies)
    first.close()
    second = live_arena(tmp_path / "votes.sqlite")
    with serving(second) as address:
        again = Voter(address)
        again.client.cookies.update(kept)
        assert again.vote(pair, "B").status_code == 200
    assert [vote.choice for vote in second.store.votes()] == [Choice.B]
    second.close()


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"host": "evil.example"}, 400, ""),
        ({"host": "127.0.0.1.evil.example"}, 400, ""),
        ({"host": "["}, 400, ""),
        ({"origin": "http://evil.example"}, 403, "foreign_origin"),
        ({"origin": "null"}, 403, "foreign_origin"),
        ({"origin": "http://["}, 403, "foreign_origin"),
        ({"origin": "http://127.0.0.1:1"}, 403, "foreign_origin"),
        ({"content-type": "text/plain"}, 415, "not_json"),
        ({"content-type": "application/x-www-form-urlencoded"}, 415, "not_json"),
    ],
)
def test_foreign_requests_are_turned_away(
    shared: str, headers: dict[str, str], status: int, code: str
) -> None:
    """Another host name (DNS rebinding), another origin (CSRF) and forms do not come in."""
    answer = Voter(shared).ask("/api/enter", {"token": ""}, **headers)
    assert answer.status_code == status
    assert answer.json()["error"] == code if code else answer.text == "Invalid host header"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in answer.headers


def test_bodies_have_a_limit(shared: str) -> None:
    """A body that is too large is refused, whether it says its length or comes in parts."""
    client = httpx2.Client(base_url=shared, trust_env=False)
    large, json = b"x" * 1_000_000, {"content-type": "application/json"}
    assert client.post("/api/enter", content=large, headers=json).status_code == 413
    parts = (b" " * 1000 for _ in range(1000))
    assert client.post("/api/enter", content=parts, headers=json).status_code == 413


@pytest.mark.parametrize(
    "path", ["/docs", "/redoc", "/openapi.json", "/api", "/board.json", "/%2e%2e/etc"]
)
def test_there_are_no_other_pages(shared: str, path: str) -> None:
    """Nothing documents the server to strangers; what is not there is a 404 in one sentence."""
    answer = httpx2.get(shared + path, trust_env=False)
    assert (answer.status_code, answer.json()["error"]) == (404, "no_such_page")


def test_pages_let_no_other_script_run(shared: str) -> None:
    """Pages come with a policy that admits their own script by its hash, no inline one, and no
    frame; nothing is cached.
    """
    for path in ("/", "/board"):
        headers = httpx2.get(shared + path, trust_env=False).headers
        policy = headers["content-security-policy"]
        assert "script-src 'sha256-" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"


def test_a_voter_who_is_too_quick_waits(tmp_path: Path) -> None:
    """Above the limit of a minute the answer is 429 with the seconds to wait."""
    live = live_arena(tmp_path / "votes.sqlite", per_minute=2)
    with serving(live) as address:
        voter = Voter(address)
        voter.enter()
        for _ in range(2):
            voter.vote(voter.pair(), "A")
        answer = voter.ask("/api/matchup", {})
        assert (answer.status_code, answer.json()["error"]) == (429, "too_fast")
        assert 0 < int(answer.headers["retry-after"]) <= 60
    live.close()


def test_the_board_is_the_researchers(live: LiveArena, address: str) -> None:
    """Without the board's token neither a stranger nor a voter sees a name; with it the board
    has all models and counts the votes.
    """
    voter = Voter(address)
    voter.enter()
    voter.vote(voter.pair(), "A")
    before = len(voter.bodies)
    assert voter.ask("/api/board", {}).status_code == 401
    assert voter.ask("/api/board/enter", {"token": "wrong"}).status_code == 401
    assert not leaks("".join(voter.bodies[before:]) + voter.client.get("/board").text)
    assert voter.ask("/api/board/enter", {"token": BOARD_TOKEN}).status_code == 200
    board = voter.ask("/api/board", {}).json()
    assert board["state"].startswith("1 vote of 1 voter")
    table = board["tables"][0]
    place = table["columns"].index("model")
    assert {row[place] for row in table["rows"]} == {*live.texts.models}


def test_many_voters_at_once_lose_nothing(live: LiveArena, address: str) -> None:
    """Ten voters at the same time, some votes sent twice: each is stored once, with its choice."""
    told: dict[str, str] = {}

    def votes(n: int) -> None:
        voter = Voter(address)
        voter.enter()
        for turn in range(12):
            pair, choice = voter.pair(), ("A", "B", "TIE", "BOTH_BAD")[(n + turn) % 4]
            for _ in range(1 + turn % 2):
                assert voter.vote(pair, choice).status_code == 200
            told[pair["ticket"]] = choice

    threads = [threading.Thread(target=votes, args=(n,)) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 120
    assert {vote.ticket.ticket: str(vote.choice) for vote in live.store.votes()} == told
    assert len(live.store.votes()) == 120
