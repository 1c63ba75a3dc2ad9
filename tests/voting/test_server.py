"""The server: blind until the vote is stored, closed to strangers, and never at a loss."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest

from arena_kit.voting.live import LiveArena
from arena_kit.voting.records import Choice
from tests.voting.serving import BOARD_TOKEN, Voter, leaks, live_arena, serving


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all tests that leave no trace in its store."""
    arena = live_arena(tmp_path_factory.mktemp("shared") / "votes.sqlite")
    with serving(arena) as at:
        yield at
    arena.close()


def test_names_are_told_after_the_vote_only(live: LiveArena) -> None:
    """No body, header or cookie before the vote leads to a model, and a pair is ticket, digest,
    three texts as HTML and a count; the answer to the vote names both models, a skip names none.
    Only the board's token shows names to one who did not vote.
    """
    with serving(live) as address:
        voter = Voter(address)
        voter.bodies.append(voter.client.get("/").text)
        voter.enter()
        pair = voter.pair()
        assert {*pair} == {"ticket", "digest", "prompt", "left", "right", "votes"}
        assert "<strong>" in pair["prompt"]
        assert "<code>" in pair["left"]
        assert not leaks("".join(voter.bodies))
        answer = voter.vote(pair, "A").json()
        (vote,) = live.store.votes()
        assert (answer["model_a"], answer["model_b"]) == (vote.ticket.model_a, vote.ticket.model_b)
        assert (vote.choice, vote.seconds, vote.source) == (Choice.A, 1.5, "page")
        skipped = voter.vote(voter.pair(), "SKIP").json()
        assert skipped == {"model_a": None, "model_b": None, "votes": 1}
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


def test_a_token_is_needed_where_there_is_one(live: LiveArena) -> None:
    """A wrong token is turned away, the right one enters, and too many tries have to wait. After
    the token was changed an old cookie admits nobody, but with the new one its owner is the same
    voter as before.
    """
    with serving(live, token="one") as address:
        assert Voter(address, token="two").enter().status_code == 401
        voter = Voter(address, token="one")
        assert voter.enter().status_code == 200
        voter.vote(voter.pair(), "A")
        kept = dict(voter.client.cookies)
        answers = [Voter(address, token=str(n)).enter() for n in range(125)]
        assert {answer.status_code for answer in answers} == {401, 429}
        assert int(answers[-1].headers["retry-after"]) > 0
    with serving(live, token="two") as address:
        late = Voter(address, token="two")
        late.client.cookies.update(kept)
        assert late.ask("/api/matchup", {}).status_code == 401
        assert late.ask("/api/enter", {"token": "one"}).status_code == 401
        assert late.enter().status_code == 200
        assert late.pair()["votes"] == 1


def test_cookies_stay_in_the_browser_and_outlive_a_restart(live: LiveArena) -> None:
    """A cookie is HttpOnly and SameSite=Strict, Secure behind TLS; after a restart of the server
    the pair that waited can be voted on.
    """
    with serving(live, hosts=["votes.example.org"]) as address:
        voter = Voter(address)
        cookie = voter.enter().headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert "secure" not in cookie
        proxied = {"host": "votes.example.org", "origin": "https://votes.example.org"}
        secured = Voter(address).ask("/api/enter", {"token": ""}, **proxied)
        assert "secure" in secured.headers["set-cookie"].lower()
        pair, kept = voter.pair(), dict(voter.client.cookies)
    with serving(live) as address:
        again = Voter(address)
        again.client.cookies.update(kept)
        assert again.vote(pair, "B").status_code == 200
    assert [vote.choice for vote in live.store.votes()] == [Choice.B]


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
    json, parts = {"content-type": "application/json"}, (b" " * 1000 for _ in range(1000))
    for body in (b"x" * 1_000_000, parts):
        assert client.post("/api/enter", content=body, headers=json).status_code == 413


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
