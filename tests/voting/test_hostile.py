"""Hostile requests: whatever comes is refused with a code, and the store is as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena_kit.voting.live import LiveArena
from tests.voting.serving import Voter, leaks, live_arena, serving

SQL = ["' OR '1'='1", "'; DROP TABLE votes; --", '" UNION SELECT model_a FROM tickets', "%00", "\\"]
HTML = ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "javascript:x", "{{7*7}}"]
ODD = ["", " ", "\0", "\ud800", "\u202e", "A" * 129, "a/../b", "😀", "\r\nSet-Cookie: x=y"]
TYPES: list[Any] = [None, True, 0, -1, 1.5, [], {}, [[]], {"$gt": ""}, 10**400]
BODIES = ["", "null", "[]", "1", '"x"', "{", '{"a":}', "{'a': 1}", "NaN", "\ufeff{}", "[" * 3000,
          '{"model": "x"}', '{"__proto__": {}}', b"\xff\xfe{}", b"\x80"]  # fmt: skip
FIELDS = ("ticket", "digest", "choice", "seconds")


class Target:
    """A server with a voter who has a pair and one vote."""

    def __init__(self, address: str, live: LiveArena) -> None:
        self.live, self.voter = live, Voter(address)
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
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    live = live_arena(tmp_path_factory.mktemp("hostile") / "votes.sqlite")
    with serving(live) as address:
        yield Target(address, live)
    live.close()


@pytest.fixture(autouse=True)
def _untouched(target: Target) -> Iterator[None]:
    """No test of this file changes the store: one vote, one pair that waits."""
    yield
    assert len(target.live.store.votes()) == 1
    assert target.live.board().waiting == 1


@pytest.mark.parametrize("field", FIELDS)
def test_no_field_takes_what_it_is_not(target: Target, field: str) -> None:
    """SQL, HTML, control characters and wrong types in any field of a vote are refused as such,
    but for a time that is not told.
    """
    for value in [*SQL, *HTML, *ODD, *TYPES]:
        if field == "seconds" and str(value) in ("None", "0", "1.5"):
            continue
        status = target.send("/api/vote", json.dumps(target.vote | {field: value}))
        assert status == 422, (field, value)


@pytest.mark.parametrize("path", ["/api/vote", "/api/enter", "/api/matchup", "/api/board/enter"])
def test_no_body_but_the_right_one_is_taken(target: Target, path: str) -> None:
    """What is no JSON, no object, or has further keys is refused; of a key that comes twice the
    last value counts, and is checked.
    """
    for body in [*BODIES, json.dumps(target.vote)[:-1] + ', "choice": "MODEL_A"}']:
        assert target.send(path, body) == 422, body


def test_cookies_of_others_making_are_none(target: Target) -> None:
    """A cookie with another name, another signature or none at all is a stranger's."""
    name, admission, own = target.voter.client.cookies["arena_kit_voter"].split(".")
    other = ("B" if own[0] == "A" else "A") + own[1:]
    made_up = (
        "", name, f"{name}.", f"{name}.{own}", f"{name}.{admission}", f"{name}.{admission}.{other}",
        f"{name}.{own}.{own}", f"{name}.{own}.{admission}", f"x.{admission}.{own}",
        f".{admission}.{own}", f"..{own}", f"{name}.{admission}.{own}.", "a" * 4000, "%00.%00",
    )  # fmt: skip
    for cookie in made_up:
        headers = {"cookie": f"arena_kit_voter={cookie}"}
        for path, body in (("/api/vote", target.vote), ("/api/matchup", {})):
            answer = Voter(target.voter.address).ask(path, body, **headers)
            assert answer.status_code == 401, cookie


def test_replays_and_forged_tickets_are_refused(target: Target) -> None:
    """A ticket that was voted on takes no other vote, made-up ones are unknown, and nobody votes on
    another's.
    """
    (voted,) = target.live.store.votes()
    replay = {"ticket": voted.ticket.ticket, "digest": voted.ticket.digest, "choice": "B"}
    assert target.send("/api/vote", json.dumps(replay)) == 409
    for forged in ("0" * 32, voted.ticket.ticket[::-1], voted.ticket.ticket.upper() + "x", "1"):
        assert target.send("/api/vote", json.dumps(replay | {"ticket": forged})) == 404
    thief = Voter(target.voter.address)
    thief.enter()
    assert thief.vote(target.pair, "A").status_code == 403


def test_other_methods_are_refused(target: Target) -> None:
    """Each address answers one method."""
    for method, path in (("GET", "/api/vote"), ("PUT", "/api/vote"), ("DELETE", "/"), ("POST", "/"),
                         ("PATCH", "/api/matchup"), ("OPTIONS", "/api/vote")):  # fmt: skip
        assert target.voter.client.request(method, path).status_code == 405


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_nothing_ends_in_a_fault(target: Target, data: st.DataObject) -> None:
    """Whatever values a vote's fields have, and whatever bytes come under whatever content type,
    the answer is a refusal.
    """
    value = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
    drawn = data.draw(st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=4), value))
    body = target.vote | drawn
    if body["choice"] not in ("A", "B", "TIE", "BOTH_BAD", "SKIP") or body.keys() - {*FIELDS}:
        target.send("/api/vote", json.dumps(body))
    kind = data.draw(st.from_regex(r"[ -~]{0,30}", fullmatch=True)).strip() or "x"
    junk = data.draw(st.binary(max_size=200))
    assert target.send("/api/vote", junk, **{"content-type": kind}) in (415, 422)


def test_a_store_that_is_gone_is_said(tmp_path: Path) -> None:
    """When the database fails, a vote is answered with 503 and not with a receipt."""
    live = live_arena(tmp_path / "votes.sqlite")
    with serving(live) as address:
        voter = Voter(address)
        voter.enter()
        pair = voter.pair()
        with live.store.writing() as transaction:
            transaction._connection.exec_driver_sql("ALTER TABLE votes RENAME TO gone")
        answer = voter.vote(pair, "A")
        assert (answer.status_code, answer.json()["error"]) == (503, "no_store")
        assert not leaks(answer.text)
    live.close()
