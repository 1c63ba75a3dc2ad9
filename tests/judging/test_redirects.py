"""No redirect is followed: prompts, keys and answers stay with the service that was named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from arena_kit.judging.asking.judge_pairs import judge_pairs
from arena_kit.judging.judges.base import ServiceError
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.runs.settings.files import AnthropicSettings, ChatSettings
from arena_kit.runs.settings.judges import Backend
from tests.emulator import Emulator, Fault
from tests.samples import KEY, MATERIAL, OPUS, PAIRS, options


@pytest.fixture
def elsewhere() -> Iterator[Emulator]:
    """A second service, which must hear nothing."""
    with Emulator() as other:
        yield other


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def claude(emulator: Emulator, root: Path, transport: Literal["batches", "messages"]) -> Any:
    """A judge as a run makes it."""
    backend = Backend(
        kind="anthropic", model=OPUS.model, base_url=emulator.base_url, transport=transport
    )
    return backend.judge(AnthropicSettings(per_minute=6000), {OPUS.model: OPUS}, root)


def chat(emulator: Emulator, root: Path) -> Any:
    """A chat-completions server as a run asks it."""
    address = f"{emulator.base_url}/v1"
    backend = Backend(kind="openai_compatible", model=OPUS.model, base_url=address)
    return backend.judge(ChatSettings(), {OPUS.model: OPUS}, root)


def refused(judge: Any, ledger: Ledger) -> str:
    """What the user is told when the pairs are put to this judge."""
    with pytest.raises(ServiceError) as stopped:
        judge_pairs(PAIRS[:6], MATERIAL, judge, ledger, options=options())
    return str(stopped.value)


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("site", ["create", "retrieve", "results", "models", "count_tokens"])
def test_a_batch_goes_nowhere_else(
    site: str, status: int, emulator: Emulator, elsewhere: Emulator, ledger: Ledger, tmp_path: Path
) -> None:
    """Where any call of a batch is redirected to another address, nothing is sent there and
    nothing taken from it; the sentence names the address, and once the service answers again
    every question has been paid for once.
    """
    address = f"{elsewhere.base_url}/v1/messages/batches"
    emulator.faults.add(Fault(on=site, kind="redirect", status=status, url=address, times=None))
    told = refused(claude(emulator, tmp_path, "batches"), ledger)
    assert f"redirects to {address} ({status})" in told
    assert "\n" not in told
    assert elsewhere.requests == []
    emulator.faults.clear()
    judgments = judge_pairs(
        PAIRS[:6], MATERIAL, claude(emulator, tmp_path, "batches"), ledger, options=options()
    )
    assert len(judgments) == 6
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
    judge_pairs(
        PAIRS[:6], MATERIAL, claude(emulator, tmp_path, "batches"), ledger, options=options()
    )
    assert elsewhere.requests == []
    assert len(emulator.billing.rows) == 12


def test_a_live_call_goes_nowhere_else(
    emulator: Emulator, elsewhere: Emulator, ledger: Ledger, tmp_path: Path
) -> None:
    """A live question that is redirected is asked nowhere else, and again by the next run."""
    address = f"{elsewhere.base_url}/v1/messages"
    emulator.faults.add(Fault(on="messages", kind="redirect", status=307, url=address, times=None))
    told = refused(claude(emulator, tmp_path, "messages"), ledger)
    assert f"redirects to {address} (307)" in told
    assert elsewhere.requests == []
    emulator.faults.clear()
    judge = claude(emulator, tmp_path, "messages")
    judgments = judge_pairs(PAIRS[:6], MATERIAL, judge, ledger, options=options())
    assert len(judgments) == 6


@pytest.mark.parametrize("site", ["chat", "models"])
def test_a_chat_server_sends_nobody_elsewhere(
    site: str, emulator: Emulator, elsewhere: Emulator, ledger: Ledger, tmp_path: Path
) -> None:
    """A chat-completions server that redirects is refused with the address it names."""
    address = f"{elsewhere.base_url}/v1/chat/completions"
    emulator.faults.add(Fault(on=site, kind="redirect", status=307, url=address, times=None))
    told = refused(chat(emulator, tmp_path), ledger)
    assert f"redirects to {address} (307)" in told
    assert elsewhere.requests == []
