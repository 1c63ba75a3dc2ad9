"""A service that repeats the key in what it answers does not get it into the ledger."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from arena_kit.judging.asking.judge_pairs import judge_pairs
from arena_kit.judging.judges.anthropic import AnthropicMessages
from arena_kit.judging.judges.base import Price, Result
from arena_kit.judging.judges.openai_compatible import ChatJudge
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.verdicts.records import Answer, Status
from tests.emulator import Emulator, Fault, Reply
from tests.emulator.app import Answer as Served
from tests.emulator.app import Request
from tests.samples import CLAUDE, KEY, MATERIAL, OPUS, PAIRS, batch_judge, client_of, options


def echoing(emulator: Emulator) -> None:
    text = json.dumps({"justification": f"You sent {KEY}.", "winner": "A"})
    emulator.settings.behaviour = lambda params: Reply(text=text)


def holds_the_key(ledger: Ledger) -> bool:
    """Whether any file of the ledger has the key in it."""
    files = ledger.path.parent.glob(f"{ledger.path.name}*")
    return any(KEY.encode() in path.read_bytes() for path in files)


@pytest.mark.parametrize("transport", ["batches", "messages", "chat"])
def test_an_answer_that_repeats_the_key_is_kept_without_it(
    emulator: Emulator, ledger: Ledger, transport: str
) -> None:
    """The verdict counts, with `[key]` where the key stood, and no file of the ledger holds it."""
    echoing(emulator)
    if transport == "batches":
        judge: object = batch_judge(emulator)
    elif transport == "messages":
        judge = AnthropicMessages(
            client=client_of(emulator), model=OPUS.model, price=OPUS, concurrency=2,
            per_minute=60_000, **CLAUDE,
        )  # fmt: skip
    else:
        judge = ChatJudge(
            base_url=f"{emulator.base_url}/v1", model="local/judge", api_key=KEY, max_tokens=1024,
            price=Price(model="local/judge", input=1, output=2), temperature=0.0,
            structured="auto", concurrency=2, timeout=30.0,
        )  # fmt: skip
    judgments = judge_pairs(PAIRS[:2], MATERIAL, judge, ledger, options=options())  # type: ignore[arg-type]
    assert {v.status for j in judgments for v in j.verdicts} == {Status.OK}
    assert all("You sent [key]." in v.raw_text for j in judgments for v in j.verdicts)
    assert not holds_the_key(ledger)


def test_an_error_that_repeats_the_key_is_kept_without_it(
    emulator: Emulator, ledger: Ledger
) -> None:
    """The message of a failed item in a batch is kept, its key is not."""
    emulator.faults.add(Fault(on="item", kind="errored", times=None))
    whole = emulator.app.answer

    def echo(request: Request) -> Served:
        served = whole(request)
        if served.lines is None:
            return served
        plain, key = b"Internal server error", f"bad key {KEY}".encode()
        return replace(served, lines=(line.replace(plain, key) for line in served.lines))

    emulator.app.answer = echo  # type: ignore[method-assign]
    judgments = judge_pairs(PAIRS[:1], MATERIAL, batch_judge(emulator), ledger, options=options())
    details = {v.detail for j in judgments for v in j.verdicts}
    assert any("[key]" in detail for detail in details), details
    assert not holds_the_key(ledger)


def test_a_key_in_escapes_is_found() -> None:
    """A line that writes the key in JSON's escapes is not kept, as it would show it when read."""
    escaped = "".join(f"\\u{ord(c):04x}" for c in KEY)
    answer = Answer(request_id="q", status=Status.OK, text=f"key {KEY}")
    result = Result(answer=answer, line=f'{{"text": "key {escaped}"}}').without(KEY)
    assert (result.answer.text, result.line) == ("key [key]", "")
