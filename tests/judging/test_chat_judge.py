"""Any chat-completions server as a judge, over real HTTP; `test_live` has what all live judges
share.
"""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from arena_kit.files import DataError
from arena_kit.judging.asking.cost import Budget, CostError, Estimator
from arena_kit.judging.judges.base import Price, ServiceError
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.verdicts.records import Judgment, Settlement, Slot, Status
from arena_kit.runs.settings.files import ChatSettings
from arena_kit.runs.settings.judges import Backend
from tests.emulator import Emulator, Reply
from tests.emulator.app import Answer, Request
from tests.samples import (
    HAIKU,
    MATERIAL,
    PAIRS,
    chat_judge,
    judged_by,
    outcomes,
    statuses,
    verdict,
)

MODEL = HAIKU.model
SECRET = "sk-local-0123456789abcdef"


@pytest.fixture
def heard(emulator: Emulator) -> list[tuple[str, dict[str, str], Any]]:
    """Path, headers and body of every request, as the server heard them."""
    found: list[tuple[str, dict[str, str], Any]] = []
    answer = emulator.app.answer

    def note(request: Request) -> Answer:
        found.append((request.path, request.headers, json.loads(request.body or b"null")))
        return answer(request)

    emulator.app.answer = note  # type: ignore[method-assign]
    return found


def judged(emulator: Emulator, ledger: Ledger, n: int = 6, **changes: Any) -> list[Judgment]:
    """The first n pairs put to the server in both orders."""
    return judged_by(chat_judge(emulator, **changes), ledger, n)


def posts(emulator: Emulator) -> list[int | None]:
    return [row.status for row in emulator.requests if row.path == "/v1/chat/completions"]


SCHEMA = {
    "type": "object",
    "properties": {
        "justification": {"type": "string"},
        "winner": {"type": "string", "enum": ["A", "B", "tie"]},
    },
    "required": ["justification", "winner"],
    "additionalProperties": False,
}


def test_the_body(emulator: Emulator, ledger: Ledger, heard: list[Any]) -> None:
    """System and user text are two messages; the verdict's schema, temperature and length go
    with them, and a seed only where there is one. A grammar goes in llama.cpp's own field, `none`
    sends no shape at all.
    """
    judged(emulator, ledger, 1, concurrency=1, max_tokens=300)
    request = MATERIAL.requests(PAIRS[:1])[0]
    body = next(body for path, _, body in heard if path.endswith("/completions"))
    shape = {"name": "verdict", "strict": True, "schema": SCHEMA}
    assert body == {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": request.system},
            {"role": "user", "content": request.user},
        ],
        "max_tokens": 300,
        "temperature": 0.0,
        "response_format": {"type": "json_schema", "json_schema": shape},
    }
    for structured, extra in [("grammar", {"grammar"}), ("none", set())]:
        judged(emulator, ledger, 1, structured=structured, max_tokens=300)
        assert heard[-1][2].keys() == (body.keys() - {"response_format"}) | extra


def test_a_server_without_schemas_is_asked_plainly(emulator: Emulator, ledger: Ledger) -> None:
    """A refused schema is left out, once and for all, and the verdict read from plain text; where
    it was insisted on, it is an error, not another question.
    """
    emulator.settings.chat_schema = False
    emulator.settings.behaviour = lambda params: "I have thought about it. [[B]]"
    judgments = judged(emulator, ledger, 1, structured="json_schema")
    assert statuses(judgments) == [Status.ERRORED, Status.ERRORED]
    assert "json_schema" in judgments[0].forward.detail
    judgments = judged(emulator, ledger, concurrency=1)
    assert {v.winner for j in judgments for v in j.verdicts} == {Slot.B}
    assert posts(emulator) == [400] * 3 + [200] * 12, "the schema is tried a single time"


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (Reply(text="Both are", stop_reason="max_tokens"), Status.TRUNCATED),
        (Reply(text=verdict("A") + " " * 9000, thinking_tokens=0), Status.TRUNCATED),
        (Reply(text=None, stop_reason="refusal"), Status.REFUSED),
        (Reply(text="I will not compare them.", stop_reason="refusal"), Status.REFUSED),
        (Reply(text="Hard to say."), Status.UNPARSABLE),
        (Reply(text=None), Status.UNPARSABLE),
        (Reply(text=verdict("tie")), Status.OK),
    ],
    ids=["length", "whole verdict cut", "filter", "refusal", "unreadable", "empty", "tie"],
)
def test_every_ending_gets_its_status(
    emulator: Emulator, ledger: Ledger, reply: Reply, status: Status
) -> None:
    """`length` is truncated, `content_filter` and a refusal are refused, and all are final."""
    emulator.settings.behaviour = lambda params: reply
    judgments = judged(emulator, ledger, 1)
    assert statuses(judgments) == [status, status]
    asked = 4 if status is Status.UNPARSABLE else 2
    assert len(posts(emulator)) == asked
    if status is not Status.OK:
        assert outcomes(judgments) == [(PAIRS[0], Settlement.INCOMPLETE, None)]
    judged(emulator, ledger, 1)
    assert len(posts(emulator)) == asked, "paid answers are not asked again"


def test_a_seed_is_passed_on(emulator: Emulator, heard: list[Any]) -> None:
    """A question's seed is sent, an empty system text is not, and the server repeats itself."""
    asked: Any = SimpleNamespace(
        request_id="q", system="", user="Say something.", seed=4711, identity=b"{}"
    )
    judge = chat_judge(emulator, verdict=False, temperature=None)
    assert judge.ask(asked).answer.text == judge.ask(asked).answer.text
    assert heard[-1][2] == {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Say something."}],
        "max_tokens": 1024,
        "seed": 4711,
    }


# The key


@pytest.mark.parametrize("variable", ["LOCAL_KEY", ""])
def test_the_named_variables_key_is_sent(
    emulator: Emulator, ledger: Ledger, heard: list[Any], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, variable: str,
) -> None:  # fmt: skip
    """The key of the variable that key_variable names is a bearer token, and goes nowhere else; a
    server of one's own needs none, and gets none.
    """
    monkeypatch.setenv("LOCAL_KEY", SECRET)
    if variable:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-not-this-one-012345")
    where = {"base_url": f"{emulator.base_url}/v1", "key_variable": variable}
    backend = Backend(kind="openai_compatible", model=MODEL, **where)
    judge = backend.judge(ChatSettings(), {MODEL: HAIKU}, tmp_path)
    judged_by(judge, ledger, 1)
    sent = f"Bearer {SECRET}" if variable else None
    assert [headers.get("authorization") for _, headers, _ in heard] == [sent] * 3
    assert SECRET not in json.dumps([body for *_, body in heard])
    assert SECRET not in f"{judge!r} {judge.settings} {judge.service}"
    assert SECRET.encode() not in ledger.path.read_bytes()


# Servers that are not well


def test_no_server_is_one_clear_sentence(ledger: Ledger) -> None:
    """When nobody listens, the address is named and nothing is planned."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ServiceError, match=rf"no server answers at {address}/v1 \(ConnectError\)"):
        judged_by(chat_judge(address), ledger)
    assert ledger.outcomes("first") == {}


def test_an_unlisted_model_warns_and_is_asked(emulator: Emulator, ledger: Ledger) -> None:
    """A model that the server does not list is told, but may exist all the same."""
    said: list[str] = []
    judgments = judged_by(chat_judge(emulator, model="llama-9"), ledger, 1, say=said.append)
    assert said == [f"{emulator.base_url}/v1 does not list the model llama-9"]
    assert statuses(judgments) == [Status.OK, Status.OK]


@pytest.mark.parametrize(
    ("page", "price", "told"),
    [
        (b'{"error": {"message": "model is loading"}}', HAIKU, "model is loading"),
        (b"<html>Welcome</html>", Price(model=MODEL, input=0, output=0), ""),
    ],
    ids=["loading", "free"],
)
def test_what_costs_nothing_is_asked_again_in_the_same_run(
    emulator: Emulator, ledger: Ledger, page: bytes, price: Price, told: str
) -> None:
    """A 200 that carries an error is waited out, and said; where asking costs nothing, a page
    instead of an answer is asked again at once.
    """
    pages = iter([page] * 3)
    emulator.app.tamper = lambda request, body: (
        next(pages, body) if "completions" in request.path else body
    )
    said: list[str] = []
    judgments = judged_by(chat_judge(emulator, price=price), ledger, say=said.append)
    assert {*statuses(judgments)} == {Status.OK}
    assert told in "".join(said)


# Money and the ledger


NO_USAGE = [b'"x":', b'"usage": null, "x":', b'"usage": {"total_tokens": NaN}, "x":']


@pytest.mark.parametrize("usage", NO_USAGE, ids=["missing", "null", "odd"])
def test_missing_usage_is_booked_by_forecast(
    emulator: Emulator, ledger: Ledger, usage: bytes
) -> None:
    """A priced model whose server tells no usage has not cost nothing: each answer is booked with
    its forecast as unknown, and the cap is held against that.
    """
    emulator.app.tamper = lambda request, body: body.replace(b'"usage":', usage)
    judge = chat_judge(emulator, concurrency=1)
    budget = Budget(
        judge=judge, ledger=ledger, estimator=Estimator.local(), expected_tokens=100, cap_usd=1.0
    )
    requests = MATERIAL.requests(PAIRS)
    forecast = budget.forecast(requests).usd_no_hits
    assert {*statuses(judged_by(judge, ledger, budget=budget))} == {Status.OK}
    assert ledger.spent("first") == 0
    assert ledger.usd_unknown("first") == pytest.approx(forecast, rel=0.01)
    assert ledger.output_tokens(judge, "judge") == (0, 0), "an unknown length is not one of zero"
    with pytest.raises(CostError, match="are spent or under way"):
        replace(budget, cap_usd=1.5 * forecast).allow(requests, "first")


def test_cached_prompt_tokens_pay_the_read_price(emulator: Emulator) -> None:
    """Of 1,000 prompt tokens of which 600 were cached, 400 pay in full."""
    usage = {"prompt_tokens": 1000, "completion_tokens": 50}
    usage |= {"prompt_tokens_details": {"cached_tokens": 600}}  # type: ignore[dict-item]
    choice = {"message": {"content": verdict("A")}, "finish_reason": "stop"}
    completion = json.dumps({"model": "served", "choices": [choice], "usage": usage}).encode()
    emulator.app.tamper = lambda *_: completion
    found = chat_judge(emulator).ask(MATERIAL.requests(PAIRS[:1])[0]).answer
    counts = {"input_tokens": 400, "cache_read_input_tokens": 600, "output_tokens": 50}
    assert found.usage == counts
    assert found.cost_usd == pytest.approx((400 * 1 + 600 * 0.1 + 50 * 5) / 1e6, abs=1e-15)
    assert found.served_model == "served"


def test_a_model_from_this_machine_is_free(emulator: Emulator, tmp_path: Path) -> None:
    """An unlisted model needs no price on the loopback address without a key, and one anywhere
    else.
    """
    here = Backend(kind="openai_compatible", model="own", base_url=f"{emulator.base_url}/v1")
    assert here.price({}, keyless=True).free
    with pytest.raises(DataError, match="no price is known for the model 'own'"):
        here.price({})
    away = Backend(kind="openai_compatible", model="own", base_url="https://example.org/v1")
    with pytest.raises(DataError, match="no price is known for the model 'own'"):
        away.price({MODEL: HAIKU})
    none = Backend(kind="openai_compatible", model=MODEL)
    with pytest.raises(DataError, match="base_url"):
        none.judge(ChatSettings(), {MODEL: HAIKU}, tmp_path)
