"""The server: blind until the vote is stored, closed to strangers, unmoved by hostile requests."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit.voting.access import network_of
from arena_kit.voting.live import LiveArena
from arena_kit.voting.records import Choice
from tests.voting.arenas import BOARD_TOKEN, Voter, arena_texts, leaks, live_arena, serving

SQL = ["' OR '1'='1", "'; DROP TABLE votes; --", '" UNION SELECT model_a FROM tickets', "%00", "\\"]
HTML = ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "javascript:x", "{{7*7}}"]
ODD = ["", " ", "\0", "\ud800", "\u202e", "A" * 129, "a/../b", "😀", "\r\nSet-Cookie: x=y"]
TYPES: list[Any] = [None, True, 0, -1, 1.5, [], {}, [[]], {"$gt": ""}, 10**400]
BODIES = ["", "null", "[]", "1", '"x"', "{", '{"a":}', "{'a': 1}", "NaN", "\ufeff{}", "[" * 3000,
          '{"model": "x"}', '{"__proto__": {}}', b"\xff\xfe{}", b"\x80"]  # fmt: skip
FIELDS = ("ticket", "digest", "choice", "seconds")
#: Headers of requests from elsewhere, and how they are turned away.
FOREIGN = [
    ({"host": "evil.example"}, 400, ""), ({"host": "127.0.0.1.evil.example"}, 400, ""),
    ({"host": "["}, 400, ""), ({"origin": "http://evil.example"}, 403, "foreign_origin"),
    ({"origin": "null"}, 403, "foreign_origin"), ({"origin": "http://["}, 403, "foreign_origin"),
    ({"origin": "http://127.0.0.1:1"}, 403, "foreign_origin"),
    ({"content-type": "text/plain"}, 415, "not_json"),
    ({"content-type": "application/x-www-form-urlencoded"}, 415, "not_json"),
]  # fmt: skip


class Target:
    """A server with a voter who has a pair and one vote."""

    def __init__(self, address: str, live: LiveArena) -> None:
        self.live, self.voter = live, Voter(address)
        self.port = int(address.rpartition(":")[2])
        self.voter.enter()
        self.voter.vote(self.voter.pair(), "A")
        self.pair = self.voter.pair()
        self.vote = {"ticket": self.pair["ticket"], "digest": self.pair["digest"], "choice": "B"}

    def send(self, path: str, body: bytes | str, **headers: str) -> int:
        """The status of a request; it must be a refusal in our own words that names no model."""
        content = body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")
        kind = {"content-type": "application/json"} | headers
        answer = self.voter.client.post(path, content=content, headers=kind)
        assert 400 <= answer.status_code < 500, (answer.status_code, body[:200])
        assert {*answer.json()} == {"error", "message"}, answer.text
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert not leaks(answer.text)
        return answer.status_code


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """One server for all tests that leave no trace in its store."""
    live = live_arena(tmp_path_factory.mktemp("hostile") / "votes.sqlite")
    with serving(live) as address:
        yield Target(address, live)
    live.close()


@pytest.fixture
def target(served: Target) -> Iterator[Target]:
    """The server, on which no test changes the store: one vote, one pair that waits."""
    yield served
    assert (len(served.live.store.votes()), served.live.board().waiting) == (1, 1)


def test_names_are_told_after_the_vote_only(live: LiveArena) -> None:
    """Names are told after the vote, where revealed; a failing database is 503, no receipt."""
    live.texts = arena_texts(more=" **So** `it` is.")
    with serving(live) as address:
        voter = Voter(address)
        voter.bodies.append(voter.client.get("/").text)
        voter.enter()
        pair = voter.pair()
        assert {*pair} == {"ticket", "digest", "prompt", "reference", "left", "right", "votes"}
        assert "<strong>So</strong> <code>it</code>" in pair["left"]
        assert voter.vote(pair, "A").json() == {"model_a": None, "model_b": None, "votes": 1}
        assert not leaks("".join(voter.bodies))
        live.reveal = True
        answer = voter.vote(voter.pair(), "A").json()
        vote = live.store.votes()[-1]
        assert (answer["model_a"], answer["model_b"]) == (vote.ticket.model_a, vote.ticket.model_b)
        assert (vote.choice, vote.seconds, vote.source) == (Choice.A, 1.5, "page")
        skipped = voter.vote(voter.pair(), "SKIP").json()
        assert skipped == {"model_a": None, "model_b": None, "votes": 2}
        before = len(voter.bodies)
        assert voter.ask("/api/board", {}).status_code == 401
        assert voter.ask("/api/board/enter", {"token": "wrong"}).status_code == 401
        assert not leaks("".join(voter.bodies[before:]) + voter.client.get("/board").text)
        assert voter.ask("/api/board/enter", {"token": BOARD_TOKEN}).status_code == 200
        board, pair = voter.ask("/api/board", {}).json(), voter.pair()
        with live.store.writing() as transaction:
            transaction._connection.exec_driver_sql("ALTER TABLE votes RENAME TO gone")
        answer = voter.vote(pair, "A")
        assert (answer.status_code, answer.json()["error"]) == (503, "no_store")
        assert not leaks(answer.text)
    assert board["state"].startswith("2 votes of 1 voter")
    table = board["tables"][0]
    place = table["columns"].index("model")
    assert {row[place] for row in table["rows"]} == {*live.texts.models}


def test_a_token_is_asked_for(live: LiveArena, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token admits, many tries wait, a new token keeps voters; cookies are strict."""
    proxy = "votes.example.org"
    monkeypatch.setattr("arena_kit.voting.access.ENTRIES_PER_MINUTE", 10)
    with serving(live, token="one", hosts=[proxy]) as address:
        assert Voter(address, token="two").enter().status_code == 401
        voter, secure = Voter(address, token="one"), {"host": proxy, "origin": f"https://{proxy}"}
        cookie = {*voter.enter().headers["set-cookie"].lower().split("; ")}
        assert {"httponly", "samesite=strict"} <= cookie
        assert "secure" not in cookie
        secured = Voter(address).ask("/api/enter", {"token": "one"}, **secure)
        assert "secure" in secured.headers["set-cookie"].lower()
        voter.vote(voter.pair(), "A")
        pair, kept = voter.pair(), dict(voter.client.cookies)
        wrong = Voter(address, token="three")
        tries = [wrong.enter() for _ in range(11)]
        assert {answer.status_code for answer in tries} == {401, 429}
        assert int(tries[-1].headers["retry-after"]) > 0
    with serving(live, token="two") as address:
        late = Voter(address, token="two")
        late.client.cookies.update(kept)
        assert late.ask("/api/matchup", {}).status_code == 401
        assert late.ask("/api/enter", {"token": "one"}).status_code == 401
        assert (late.enter().status_code, late.vote(pair, "B").json()["votes"]) == (200, 2)
    assert [vote.choice for vote in live.store.votes()] == [Choice.A, Choice.B]


def test_limits_go_by_the_address_that_connects(
    live: LiveArena, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`X-Forwarded-For` lifts no limit, unless it comes from the proxy that was named."""
    monkeypatch.setattr("arena_kit.voting.access.ENTRIES_PER_MINUTE", 20)
    for proxy, allowed in (("", {401, 429}), ("127.0.0.1", {401})):
        with serving(live, proxy=proxy) as address:
            guesses = [
                Voter(address).ask("/api/board/enter", {"token": f"{n}"},
                                   **{"x-forwarded-for": f"192.0.2.{n}"}).status_code
                for n in range(30)
            ]  # fmt: skip
        assert {*guesses} == allowed
        assert guesses.count(401) == (30 if proxy else 20)
    six = {network_of(f"2001:db8::{n:x}") for n in range(9)}
    assert (six, network_of("192.0.2.7")) == ({"2001:db8::/64"}, "192.0.2.7")


def test_a_request_has_one_length(target: Target) -> None:
    """Content-Length and Transfer-Encoding together (request smuggling) are refused."""
    head = b"POST /api/enter HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    both = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\n"
    with socket.create_connection(("127.0.0.1", target.port), timeout=20) as client:
        client.sendall(head + both)
        answer = b"".join(iter(lambda: client.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(("limit", "value"), [("PER_ADDRESS", 50), ("MOST", 40)])
def test_idle_connections_shut_nobody_out(
    live: LiveArena, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    """200 connections that say nothing, or half a request, leave room to enter and to vote."""
    monkeypatch.setattr(f"arena_kit.voting.server.{limit}", value)
    half = b"POST /api/enter HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n"
    with serving(live) as address, ExitStack() as idle:
        voter, port = Voter(address), int(address.rpartition(":")[2])
        voter.enter()
        pair = voter.pair()
        for n in range(200):
            client = idle.enter_context(socket.create_connection(("127.0.0.1", port)))
            client.sendall((b"", half, half + b"Content-Type: application/json\r\n\r\n")[n % 3])
        assert voter.vote(pair, "A").status_code == 200
        assert Voter(address).enter().status_code == 200
        monkeypatch.setattr("arena_kit.voting.server.HEADER_SECONDS", 0.3)
        with socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
            with suppress(OSError):
                for byte in half:
                    slow.sendall(bytes([byte]))
                    time.sleep(0.05)
            with suppress(ConnectionResetError):
                assert slow.recv(1) == b""


def test_foreign_requests_are_turned_away(target: Target) -> None:
    """Foreign hosts, origins, forms and large bodies stay out; two pages admit one script."""
    for headers, status, code in FOREIGN:
        answer = Voter(target.voter.address).ask("/api/enter", {"token": ""}, **headers)
        assert answer.status_code == status, headers
        assert answer.json()["error"] == code if code else answer.text == "Invalid host header"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in answer.headers
    as_json, parts = {"content-type": "application/json"}, (b" " * 1000 for _ in range(1000))
    for body in (b"x" * 1_000_000, parts):
        large = target.voter.client.post("/api/enter", content=body, headers=as_json)
        assert large.status_code == 413
    ask = target.voter.client.request
    for path in ("/", "/board"):
        headers = ask("GET", path).headers
        policy = headers["content-security-policy"]
        assert "script-src 'sha256-" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["cache-control"] == "no-store"
    for path in ("/docs", "/redoc", "/openapi.json", "/api", "/board.json", "/%2e%2e/etc"):
        answer = httpx2.get(target.voter.address + path, trust_env=False)
        assert (answer.status_code, answer.json()["error"]) == (404, "no_such_page")
    for method, path in (("GET", "/api/vote"), ("PUT", "/api/vote"), ("DELETE", "/"), ("POST", "/"),
                         ("PATCH", "/api/matchup"), ("OPTIONS", "/api/vote")):  # fmt: skip
        assert ask(method, path).status_code == 405


def test_no_field_takes_what_it_is_not(target: Target) -> None:
    """SQL, HTML and wrong types are refused in any field, forged cookies and tickets, too."""
    cases = [(field, value) for field in ("ticket", "choice") for value in (*SQL, *HTML, *ODD)]
    cases += [(field, value) for field in FIELDS for value in TYPES]
    for field, value in cases:
        if field != "seconds" or str(value) not in ("None", "0", "1.5"):
            status = target.send("/api/vote", json.dumps(target.vote | {field: value}))
            assert status == 422, (field, value)
    for body in [*BODIES, json.dumps(target.vote)[:-1] + ', "choice": "MODEL_A"}']:
        assert target.send("/api/vote", body) == 422, body
    for path in ("/api/enter", "/api/matchup", "/api/board/enter"):
        assert target.send(path, '{"model": "x"}') == 422, path
    name, admission, own = target.voter.client.cookies["arena_kit_voter"].split(".")
    other = ("B" if own[0] == "A" else "A") + own[1:]
    thief = Voter(target.voter.address)
    for cookie in (
        "", name, f"{name}.", f"{name}.{own}", f"{name}.{admission}", f"{name}.{admission}.{other}",
        f"{name}.{own}.{own}", f"{name}.{own}.{admission}", f"x.{admission}.{own}",
        f".{admission}.{own}", f"..{own}", f"{name}.{admission}.{own}.", "a" * 4000, "%00.%00",
    ):  # fmt: skip
        for path, body in (("/api/vote", target.vote), ("/api/matchup", {})):
            answer = thief.ask(path, body, cookie=f"arena_kit_voter={cookie}")
            assert answer.status_code == 401, cookie
    (voted,) = target.live.store.votes()
    replay = {"ticket": voted.ticket.ticket, "digest": voted.ticket.digest, "choice": "B"}
    assert target.send("/api/vote", json.dumps(replay)) == 409
    for forged in ("0" * 32, voted.ticket.ticket[::-1], voted.ticket.ticket.upper() + "x", "1"):
        assert target.send("/api/vote", json.dumps(replay | {"ticket": forged})) == 404
    thief.enter()
    assert thief.vote(target.pair, "A").status_code == 403


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_nothing_ends_in_a_fault(served: Target, data: st.DataObject) -> None:
    """Whatever values or bytes come, the answer is a refusal and no vote is stored."""
    value = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
    drawn = data.draw(st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=4), value))
    body = served.vote | drawn
    if body["choice"] not in ("A", "B", "TIE", "BOTH_BAD", "SKIP") or body.keys() - {*FIELDS}:
        served.send("/api/vote", json.dumps(body))
    kind = data.draw(st.from_regex(r"[ -~]{0,30}", fullmatch=True)).strip() or "x"
    junk = data.draw(st.binary(max_size=200))
    assert served.send("/api/vote", junk, **{"content-type": kind}) in (415, 422)
    assert len(served.live.store.votes()) == 1
