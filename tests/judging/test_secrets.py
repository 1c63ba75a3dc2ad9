"""Keys, prompts and answers stay with the service that was named, and an echoed key is not kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from arena_kit.judging.judges.base import Result, ServiceError
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.verdicts.records import Answer, Status
from arena_kit.runs.settings.files import AnthropicSettings, ChatSettings
from arena_kit.runs.settings.judges import Backend
from tests.emulator import Emulator, Fault
from tests.samples import KEY, OPUS, batch_judge, chat_judge, judged_by, live_judge

# Redirects


@pytest.fixture
def elsewhere() -> Iterator[Emulator]:
    """A second service, which must hear nothing."""
    with Emulator() as other:
        yield other


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def made(emulator: Emulator, root: Path, transport: Any) -> Any:
    """A judge as a run makes it."""
    prices = {OPUS.model: OPUS}
    if transport == "chat":
        url = f"{emulator.base_url}/v1"
        backend = Backend(kind="openai_compatible", model=OPUS.model, base_url=url)
        return backend.judge(ChatSettings(), prices, root)
    backend = Backend(
        kind="anthropic", model=OPUS.model, base_url=emulator.base_url, transport=transport
    )
    return backend.judge(AnthropicSettings(per_minute=6000), prices, root)


@pytest.mark.parametrize(
    ("transport", "site", "status"),
    [
        *(("batches", site, 307) for site in ("create", "retrieve", "results", "models")),
        *(("batches", "count_tokens", 308), ("batches", "create", 308)),
        *(("messages", "messages", 307), ("chat", "chat", 307), ("chat", "models", 307)),
    ],
)
def test_a_redirected_call_goes_nowhere_else(
    emulator: Emulator, elsewhere: Emulator, ledger: Ledger, tmp_path: Path,
    transport: str, site: str, status: int,
) -> None:  # fmt: skip
    """Where any call is redirected to another address, nothing is sent there and nothing taken
    from it; the sentence names the address, and once the service answers again every question has
    been paid for once.
    """
    address = f"{elsewhere.base_url}/v1/messages/batches"
    emulator.faults.add(Fault(on=site, kind="redirect", status=status, url=address, times=None))
    with pytest.raises(ServiceError) as stopped:
        judged_by(made(emulator, tmp_path, transport), ledger)
    assert f"redirects to {address} ({status})" in str(stopped.value)
    assert "\n" not in str(stopped.value)
    emulator.faults.clear()
    assert len(judged_by(made(emulator, tmp_path, transport), ledger)) == 6
    assert elsewhere.requests == []
    assert len(emulator.billing.rows) == 12


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_may_follow_a_batch_is_looked_into(
    status: int, emulator: Emulator, elsewhere: Emulator, ledger: Ledger, tmp_path: Path
) -> None:
    """A redirect that a service may send after it took a batch is not followed either; whether
    the batch exists is looked up, and it is made once.
    """
    address = f"{elsewhere.base_url}/see"
    emulator.faults.add(Fault(on="create", kind="redirect", status=status, url=address))
    judged_by(made(emulator, tmp_path, "batches"), ledger)
    assert elsewhere.requests == []
    assert len(emulator.billing.rows) == 12


# Echoed keys


def holds_the_key(ledger: Ledger) -> bool:
    """Whether any file of the ledger has the key in it."""
    files = ledger.path.parent.glob(f"{ledger.path.name}*")
    return any(KEY.encode() in path.read_bytes() for path in files)


@pytest.mark.parametrize("transport", [batch_judge, live_judge, chat_judge])
def test_an_answer_that_repeats_the_key_is_kept_without_it(
    emulator: Emulator, ledger: Ledger, transport: Any
) -> None:
    """The verdict counts, with `[key]` where the key stood, and no file of the ledger holds it."""
    text = f'{{"justification": "You sent {KEY}.", "winner": "A"}}'
    emulator.settings.behaviour = lambda params: text
    key = {"api_key": KEY} if transport is chat_judge else {}
    found = [v for j in judged_by(transport(emulator, **key), ledger, 2) for v in j.verdicts]
    assert {v.status for v in found} == {Status.OK}
    assert all("You sent [key]." in v.raw_text for v in found)
    assert not holds_the_key(ledger)


def test_an_error_that_repeats_the_key_is_kept_without_it(
    emulator: Emulator, ledger: Ledger
) -> None:
    """The message of a failed item in a batch is kept, its key is not."""
    emulator.faults.add(Fault(on="item", kind="errored", times=None))
    plain, key = b"Internal server error", f"bad key {KEY}".encode()
    emulator.app.tamper = lambda _, body: body.replace(plain, key)
    [judgment] = judged_by(batch_judge(emulator), ledger, 1)
    assert "[key]" in judgment.forward.detail
    assert not holds_the_key(ledger)


def test_a_key_in_escapes_is_found() -> None:
    """A line that writes the key in JSON's escapes is not kept, as it would show it when read."""
    escaped = "".join(f"\\u{ord(c):04x}" for c in KEY)
    answer = Answer(request_id="q", status=Status.OK, text=f"key {KEY}")
    result = Result(answer=answer, line=f'{{"text": "key {escaped}"}}').without(KEY)
    assert (result.answer.text, result.line) == ("key [key]", "")
