"""Judging a tournament: what is sent and where; every answer is asked once, none is lost."""

import gc
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import pytest

from arena_kit.files import DataError
from arena_kit.judging.asking.judge_pairs import OfflineError, judge_pairs
from arena_kit.judging.judges.base import Result, ServiceError
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.pairs.prompts import Response
from arena_kit.judging.verdicts.records import Answer, JudgeRequest, Settlement, Slot, Status
from arena_kit.runs.settings.files import AnthropicSettings, ChatSettings
from arena_kit.runs.settings.judges import Backend
from tests import samples
from tests.emulator import Emulator, Fault, Reply
from tests.judging.conftest import Bench
from tests.samples import KEY, MATERIAL, OPUS, PAIRS, ScriptedJudge, outcomes, statuses, verdict

VERDICT = {
    "type": "object",
    "properties": {
        "justification": {"type": "string"},
        "winner": {"type": "string", "enum": ["A", "B", "tie"]},
    },
    "required": ["justification", "winner"],
    "additionalProperties": False,
}
FIRST, SECOND = MATERIAL.requests(PAIRS[:1])
CUT = Reply(text=verdict("A") + " " * 20_000, thinking_tokens=0)
REFUSAL = Reply(text="I can't.", stop_reason="refusal", category="general_harms")
FIRST_ASKED = {
    f"tone|{prompt_id}|{first}|{second}#1"
    for prompt_id in samples.PROMPTS
    for first, second in permutations(samples.ENTRANTS, 2)
}
FAILED = [s for s in Status if s not in (Status.OK, Status.UNPARSABLE, Status.MISSING)]


@pytest.fixture
def bodies(bench: Bench) -> list[dict[str, Any]]:
    """The params of every message the service was asked for, in order."""
    seen: list[dict[str, Any]] = []

    def note(params: Any) -> str:
        seen.append(params)
        return verdict("A")

    bench.emulator.settings.behaviour = note
    return seen


def user(request: JudgeRequest) -> dict[str, str]:
    return {"role": "user", "content": request.user}


def claudes_body(request: JudgeRequest) -> dict[str, Any]:
    control = {"type": "ephemeral", "ttl": "1h"}
    shape = {"type": "json_schema", "schema": VERDICT}
    return {
        "model": "claude-opus-5-5", "max_tokens": 4096,
        "system": [{"type": "text", "text": request.system, "cache_control": control}],
        "messages": [user(request)], "output_config": {"effort": "low", "format": shape},
    }  # fmt: skip


def test_the_body_of_a_request(bench: Bench, bodies: list[dict[str, Any]]) -> None:
    """Written out; live and in a batch it is the same, so they share answers."""
    live = bench.judge("messages", effort="low", concurrency=1)
    Bench(bench.emulator, Ledger(bench.ledger.path.with_name("other"))).judged(1, judge=live)
    bench.judged(1, effort="low")
    assert bodies == 2 * [claudes_body(FIRST), claudes_body(SECOND)]
    bench.judged(1, judge=live)
    assert len(bodies) == 4
    schema = bodies[0]["output_config"]["format"]["schema"]
    assert list(schema["properties"]) == ["justification", "winner"], "reasons come first"
    request = FIRST._replace(system="")
    bench.judge(effort="", verdict=False, max_tokens=77).submit({"one": request})
    plain = {"model": "claude-opus-5-5", "max_tokens": 77, "messages": [user(request)]}
    assert bodies[4:] == [plain]


def test_the_body_of_a_chat(bench: Bench, bodies: list[dict[str, Any]]) -> None:
    """Two messages, the schema, temperature and length; a grammar goes in llama.cpp's own field."""
    bench.judged(1, "chat", concurrency=1, max_tokens=300)
    shape = {"name": "verdict", "strict": True, "schema": VERDICT}
    body = {
        "model": samples.HAIKU.model,
        "messages": [{"role": "system", "content": FIRST.system}, user(FIRST)], "max_tokens": 300,
        "temperature": 0.0, "response_format": {"type": "json_schema", "json_schema": shape},
    }  # fmt: skip
    assert bodies[0] == body
    for structured, extra in [("grammar", {"grammar"}), ("none", set())]:
        bench.judged(1, "chat", structured=structured, max_tokens=300)
        assert bodies[-1].keys() == (body.keys() - {"response_format"}) | extra


def test_nobody_is_named_and_no_key_is_shown(bench: Bench, bodies: list[dict[str, Any]]) -> None:
    """Neither bodies nor custom ids, which are legal, say whose responses they are."""
    judge = bench.judge()
    bench.judged(judge=judge)
    [batch] = bench.emulator.batches
    names: Any = batch["custom_ids"]
    assert len(bodies) == 12
    assert not re.search(rf"\b(ash|beech|cherry)\b|{KEY}", json.dumps([bodies, names]))
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)
    assert KEY not in f"{judge!r} {judge.settings} {judge.service}"
    assert judge.service.account != bench.judge(key="sk-ant-other").service.account


@pytest.mark.parametrize("by", ["batches", "chat"])
@pytest.mark.parametrize(
    ("behaviour", "status", "read"),
    [
        ("refuse_empty", Status.REFUSED, {}), (REFUSAL, Status.REFUSED, {"raw_text": "I can't."}),
        ("thinking_only", Status.TRUNCATED, {}), (CUT, Status.TRUNCATED, {}),
        ("empty", Status.UNPARSABLE, {}), ("garbage", Status.UNPARSABLE, {}),
        ("lowercase", Status.OK, {}), ("prose", Status.OK, {}),
        (Reply(text=verdict("b")), Status.OK, {"winner": Slot.B, "winning_entrant": "beech"}),
        (Reply(text=verdict("TIE")), Status.OK, {"winner": Slot.TIE, "winning_entrant": None}),
        (Reply(text=verdict("A"), thinking_tokens=50), Status.OK, {"raw_text": verdict("A")}),
    ],
)  # fmt: skip
def test_status_of_answer(bench: Bench, behaviour: Any, status: Status, read: Any, by: str) -> None:
    """Only unreadable ones are asked again, once; a second run pays for none of them anew."""
    said = behaviour if isinstance(behaviour, str) else lambda params: behaviour
    bench.emulator.settings.behaviour = said
    [found] = bench.judged(1, by)
    asked = 4 if status is Status.UNPARSABLE else 2
    assert found.forward.status is found.backward.status is status
    assert {name: getattr(found.forward, name) for name in read} == read
    if status is not Status.OK:
        assert (found.settlement, found.winner) == (Settlement.INCOMPLETE, None)
        assert found.forward.winner is None
    if behaviour is REFUSAL and by == "batches":
        assert found.forward.detail == "refusal: general_harms"
    assert bench.statuses(1, by) == [status, status]
    assert len(bench.bill) == len(bench.emulator.billing.accepted) == asked


def test_a_missing_or_wrong_key_is_told_as_such(bench: Bench) -> None:
    """Without a key the service hears nothing; a refused one is not repeated."""
    lacking = bench.judge(lacks="MY_KEY")
    with pytest.raises(DataError, match=r"set MY_KEY in the environment or in \.env"):
        bench.judged(judge=lacking)
    assert lacking.count_tokens(FIRST) is None
    assert bench.emulator.requests == []
    bench.emulator.settings.key = "sk-ant-the-right-one"
    with pytest.raises(ServiceError, match=r"refuses the key \(401\)") as caught:
        bench.judged()
    assert KEY not in str(caught.value)
    assert caught.value.__cause__ is None, "an SDK error holds the key"


@pytest.fixture
def elsewhere() -> Iterator[Emulator]:
    """A second service, which must hear nothing."""
    with Emulator() as other:
        yield other
        assert other.requests == []


def as_a_run_makes_it(bench: Bench, transport: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    url, root = bench.emulator.base_url, bench.ledger.path.parent
    prices = {OPUS.model: OPUS}
    if transport == "chat":
        own = Backend(kind="openai_compatible", model=OPUS.model, base_url=f"{url}/v1")
        return own.judge(ChatSettings(), prices, root)
    own = Backend(kind="anthropic", model=OPUS.model, base_url=url, transport=transport)
    return own.judge(AnthropicSettings(per_minute=6000), prices, root)


@pytest.mark.parametrize(
    ("transport", "site", "status"),
    [
        *(("batches", site, 307) for site in ("create", "retrieve", "results", "models")),
        *(("batches", "count_tokens", 308), ("batches", "create", 308)),
        *(("messages", "messages", 307), ("chat", "chat", 307), ("chat", "models", 307)),
        *(("batches", "create", status) for status in (301, 302, 303)),
    ],
)
def test_a_redirected_call_goes_nowhere_else(
    bench: Bench, elsewhere: Emulator, monkeypatch: pytest.MonkeyPatch,
    transport: str, site: str, status: int,
) -> None:  # fmt: skip
    """Nothing is sent there, the address is named; in the end each question is paid once."""
    address = f"{elsewhere.base_url}/v1/messages/batches"
    unsure = status in (301, 302, 303)
    times = 1 if unsure else None
    bench.fail(Fault(on=site, kind="redirect", status=status, url=address, times=times))
    if not unsure:
        with pytest.raises(ServiceError) as stopped:
            bench.judged(judge=as_a_run_makes_it(bench, transport, monkeypatch))
        assert f"redirects to {address} ({status})" in str(stopped.value)
        assert "\n" not in str(stopped.value)
        bench.emulator.faults.clear()
    assert bench.all_ok(judge=as_a_run_makes_it(bench, transport, monkeypatch))


@pytest.mark.parametrize("by", ["batches", "messages", "chat"])
def test_what_repeats_the_key_is_kept_without_it(bench: Bench, by: str) -> None:
    """No file has it; a line that writes it in JSON's escapes would show it and is not kept."""
    text = f'{{"justification": "You sent {KEY}.", "winner": "A"}}'
    bench.emulator.settings.behaviour = lambda params: text
    key = {"api_key": KEY} if by == "chat" else {}
    found = [v for j in bench.judged(2, by, **key) for v in j.verdicts]
    assert {v.status for v in found} == {Status.OK}
    assert all("You sent [key]." in v.raw_text for v in found)
    if by == "batches":
        bench.fail(Fault(on="item", kind="errored", times=None))
        plain, bad = b"Internal server error", f"bad key {KEY}".encode()
        bench.emulator.app.tamper = lambda _, body: body.replace(plain, bad)
        assert "[key]" in bench.judged(3)[2].forward.detail
    files = bench.ledger.path.parent.glob(f"{bench.ledger.path.name}*")
    assert not any(KEY.encode() in path.read_bytes() for path in files)
    escaped = "".join(f"\\u{ord(c):04x}" for c in KEY)
    answer = Answer(request_id="q", status=Status.OK, text=f"key {KEY}")
    result = Result(answer=answer, line=f'{{"text": "key {escaped}"}}').without(KEY)
    assert (result.answer.text, result.line) == ("key [key]", "")


def by_name(request: JudgeRequest) -> str:
    """Names the entrant that comes first in the alphabet, in whichever slot it stands."""
    return verdict("A" if request.presentation.first < request.presentation.second else "B")


def asked_of(ledger: Ledger, script: Any = by_name, pairs: Any = PAIRS, **more: Any) -> Any:
    """What a new judge with this script was asked, and the judgments."""
    own = {name: more.pop(name) for name in ("model", "settings") if name in more}
    judge = ScriptedJudge(script, **own)
    judgments = judge_pairs(pairs, more.pop("material", MATERIAL), judge, ledger, **more)
    return judge.asked, judgments


def test_both_orders_of_every_pair_are_asked_once(ledger: Ledger) -> None:
    """A full cache asks nothing; another model or other settings are asked for themselves."""
    asked, first = asked_of(ledger)
    assert (len(asked), {*asked}) == (12, FIRST_ASKED)
    assert outcomes(first) == [(p, Settlement.WINNER, p.entrant_a) for p in PAIRS]
    assert len(ledger) == 12
    assert {v.judge_model for j in first for v in j.verdicts} == {"scripted/v1"}
    asked, second = asked_of(ledger)
    assert (asked, outcomes(second)) == ([], outcomes(first))
    assert [j.forward._replace(cached=False) for j in second] == [j.forward for j in first]
    cached = [{v.cached for j in run for v in j.verdicts} for run in (first, second)]
    assert cached == [{False}, {True}]
    for other in ({"model": "scripted/v2"}, {"settings": {"effort": "low"}}):
        assert {*asked_of(ledger, **other)[0]} == FIRST_ASKED


def test_garbage_is_collected_as_before_afterwards(ledger: Ledger) -> None:
    """Judging collects garbage rarely, and leaves the collector as it was, after an error too."""
    before = gc.get_threshold()
    seen = []

    def watched(request: JudgeRequest) -> str:
        seen.append(gc.get_threshold())
        return by_name(request)

    asked_of(ledger, watched)
    assert seen[0] > before
    with pytest.raises(OfflineError):
        asked_of(ledger, repetition=1, offline=True)
    assert gc.get_threshold() == before


def with_texts(text: str, *names: str) -> Any:
    new = {(n, "q1"): Response(entrant_id=n, prompt_id="q1", response_text=text) for n in names}
    return replace(MATERIAL, responses={**MATERIAL.responses, **new})


def test_the_texts_decide_what_is_asked(ledger: Ledger) -> None:
    """Rewriting one response asks again for its own pairs; equal texts share one answer."""
    asked_of(ledger)
    asked, _ = asked_of(ledger, material=with_texts("Rewritten.", "ash"))
    assert sorted(asked) == sorted(i for i in FIRST_ASKED if "|q1|" in i and "ash" in i)
    twins = with_texts("3 words on q1.", "beech", "cherry")
    asked, judgments = asked_of(ledger, lambda _: verdict("A"), PAIRS[:2], material=twins)
    assert (len(asked), [j.pair for j in judgments]) == (2, PAIRS[:2])
    assert statuses(judgments) == [Status.OK] * 4


def test_offline_lists_only_what_is_missing(ledger: Ledger) -> None:
    """The six requests of the prompt that is not cached; progress begins with what is."""
    asked_of(ledger, pairs=PAIRS[:3])
    missing = {i for i in FIRST_ASKED if "|q2|" in i}
    with pytest.raises(OfflineError, match="6 verdicts are not in the cache") as caught:
        asked_of(ledger, pytest.fail, offline=True)
    assert {*caught.value.missing} == missing
    assert "tone|q2|cherry|beech#1" in str(caught.value)
    seen: list[tuple[int, int]] = []
    asked, _ = asked_of(ledger, on_progress=lambda done, total: seen.append((done, total)))
    assert ((len(asked), {*asked}), seen) == ((6, missing), [(done, 12) for done in range(6, 13)])


@pytest.mark.parametrize("max_attempts", [1, 3])
def test_an_unreadable_answer_is_asked_again_so_often(ledger: Ledger, max_attempts: int) -> None:
    """It stays unparsable; offline, its answer is not missing."""
    more = {"pairs": PAIRS[:1], "max_attempts": max_attempts}
    asked, judgments = asked_of(ledger, lambda _: "Hard to say.", **more)
    attempts = product(("ash|beech", "beech|ash"), range(1, max_attempts + 1))
    assert sorted(asked) == sorted(f"tone|q1|{order}#{attempt}" for order, attempt in attempts)
    assert statuses(judgments) == [Status.UNPARSABLE, Status.UNPARSABLE]
    assert outcomes(judgments) == [(PAIRS[0], Settlement.INCOMPLETE, None)]
    assert judgments[0].forward.raw_text == "Hard to say."
    again = asked_of(ledger, pytest.fail, PAIRS[:1], offline=True, max_attempts=5)[1]
    assert statuses(again) == statuses(judgments)


def test_only_the_unreadable_order_is_asked_again(ledger: Ledger) -> None:
    """A re-ask that can be read replaces the unreadable answer and no other."""

    def script(request: JudgeRequest) -> str:
        first_try = request.request_id == "tone|q1|beech|ash#1"
        return "Hard to say." if first_try else by_name(request)

    asked, judgments = asked_of(ledger, script)
    assert {*asked} - FIRST_ASKED == {"tone|q1|beech|ash#2"}
    assert outcomes(judgments)[0] == (PAIRS[0], Settlement.WINNER, "ash")
    assert (judgments[0].forward.attempt, judgments[0].backward.attempt) == (1, 2)


@pytest.mark.parametrize("status", [*FAILED, None])
def test_only_unpaid_failures_are_asked_again(ledger: Ledger, status: Status | None) -> None:
    """What failed or is missing is counted, not settled, and asked for by the next run."""
    paid = status in (Status.REFUSED, Status.TRUNCATED)

    def script(request: JudgeRequest) -> str | Status | None:
        return status if request.presentation.first == "cherry" else by_name(request)

    asked, judgments = asked_of(ledger, script)
    assert (len(asked), statuses(judgments).count(status or Status.MISSING)) == (12, 4)
    assert [j.settlement for j in judgments].count(Settlement.INCOMPLETE) == 4
    assert len(ledger) == (12 if paid else 8)
    again, judgments = asked_of(ledger)
    failed = {i for i in FIRST_ASKED if i.split("|")[2] == "cherry"}
    assert {*again} == (set() if paid else failed)
    assert statuses(judgments).count(Status.OK) == (8 if paid else 12)


def test_a_judge_that_fails_midway_keeps_what_it_answered(ledger: Ledger) -> None:
    """Answers given before a crash are in the cache, and the next run asks for the rest."""
    seen: list[str] = []

    def script(request: JudgeRequest) -> str:
        if len(seen) == 5:
            raise ConnectionError("the line went dead")
        seen.append(request.request_id)
        return by_name(request)

    with pytest.raises(ConnectionError, match="the line went dead"):
        asked_of(ledger, script)
    assert len(ledger) == 5
    asked, judgments = asked_of(ledger)
    assert (len(asked), {*asked}) == (7, FIRST_ASKED - {*seen})
    assert {*statuses(judgments)} == {Status.OK}
