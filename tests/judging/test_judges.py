"""The judges that ship, lexical baseline and replay, and what all paid ones share."""

import json
import ssl
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from arena_kit.files import DataError
from arena_kit.judging.judges.base import ImmediateJudge, tls_context
from arena_kit.judging.judges.baseline import BaselineJudge
from arena_kit.judging.judges.replay import ReplayJudge
from arena_kit.judging.pairs.prompts import Pair, Prompt, Response, read_prompts, read_responses
from arena_kit.judging.verdicts.records import (
    Answer,
    JudgeRequest,
    Settlement,
    Slot,
    Status,
    read_verdict,
    settle,
    verdict_of,
)
from arena_kit.judging.verdicts.rendering import Reference, Rubric, render
from tests.samples import SAMPLE

ENTRANTS = ["aspen", "birch", "cedar", "dogwood"]
REFERENCES: dict[str, Reference] = {
    "factuality": "gold_answer", "calibration": "expected_behavior", "clinical_utility": "none"
}  # fmt: skip
RUBRICS = {
    name: Rubric(dimension=name, version="1", text="Compare.", reference=reference)
    for name, reference in {**REFERENCES, "charm": REFERENCES["clinical_utility"]}.items()
}
LINE: dict[str, object] = {"dimension": "d", "prompt_id": "q", "first": "a", "second": "b"}
LINE |= {"status": "ok", "raw_text": ""}
GOLD = "Xanthine oxidase; marrow suppression follows, so cut azathioprine to a quarter."
RIGHT = "It blocks xanthine oxidase. Cut azathioprine to a quarter to spare the marrow."
WRONG = "It blocks the sodium pump, and the two drugs go together very well."
Both = tuple[JudgeRequest, JudgeRequest]


def requests(
    dimension: str = "factuality", salt: bytes = b"salt", ash: str = RIGHT, beech: str = WRONG
) -> Both:
    """One pair in both orders; ash stands first in the first of them."""
    prompt = Prompt(prompt_id="q1", text="What does it do?", source="plain", gold_answer=GOLD)
    responses = {
        (name, "q1"): Response(entrant_id=name, prompt_id="q1", response_text=text)
        for name, text in (("ash", ash), ("beech", beech))
    }
    pair = Pair(dimension=dimension, prompt_id="q1", entrant_a="ash", entrant_b="beech")
    return render(pair, prompt=prompt, responses=responses, rubric=RUBRICS[dimension], salt=salt)


@pytest.fixture(scope="module")
def sample_requests() -> list[Both]:
    """Every pair of four prompts of each stratum of the shipped sample, in both orders."""
    bank = read_prompts(SAMPLE / "prompts.jsonl")
    responses = read_responses(SAMPLE / "responses", ENTRANTS, [p.prompt_id for p in bank])
    sources = sorted({p.source for p in bank})
    some = [p for s in sources for p in [q for q in bank if q.source == s][:4]]
    return [
        render(
            Pair(dimension=dimension, prompt_id=prompt.prompt_id, entrant_a=a, entrant_b=b),
            prompt=prompt, responses=responses, rubric=RUBRICS[dimension], salt=b"s",
        )
        for dimension, reference in REFERENCES.items()
        for prompt in some
        if prompt.gold_answer or reference != "gold_answer"
        for a, b in combinations(ENTRANTS, 2)
    ]  # fmt: skip


def collected(judge: ImmediateJudge, asked: list[JudgeRequest]) -> list[Answer]:
    return [answer for request in asked if (answer := judge.answer(request)) is not None]


def named(judge: BaselineJudge, request: JudgeRequest) -> Slot | None:
    return read_verdict(judge.answer(request).text).winner


def test_the_baseline_answers_deterministically_under_its_name(sample_requests: list[Both]) -> None:
    """The baseline repeats itself for nothing; noise, seed and slot bias do what they say."""
    asked = [request for both in sample_requests for request in both]
    answers = collected(BaselineJudge(), asked)
    assert answers == collected(BaselineJudge(), asked)
    assert [a.request_id for a in answers] == [r.request_id for r in asked]
    kept = {(a.status, a.cost_usd, a.served_model) for a in answers}
    assert kept == {(Status.OK, 0.0, "baseline/lexical-v1")}
    assert [named(BaselineJudge(), each) for each in requests()] == [Slot.A, Slot.B]
    assert all(read_verdict(a.text).winner and read_verdict(a.text).justification for a in answers)

    def settled(**changes: Any) -> list[Settlement]:
        judge = BaselineJudge(**changes)
        return [
            settle(*(verdict_of(r, judge.answer(r), judge_model="x") for r in both)).settlement
            for both in sample_requests
        ]

    plain = settled(noise=0, slot_bias=0)
    assert {*plain} == {Settlement.WINNER, Settlement.TIE}
    assert settled(noise=0, slot_bias=0, seed=1) == plain
    noisy = settled(noise=0.3, slot_bias=0)
    assert Settlement.INCONSISTENT in noisy
    assert settled(noise=0.3, slot_bias=0, seed=1) != noisy
    assert {*settled(slot_bias=10)} == {Settlement.INCONSISTENT}
    changes: list[Any] = [{}, {"noise": 0.5}, {"slot_bias": 0.5}, {"tie_margin": 0.5}, {"seed": 5}]
    assert len({json.dumps(dict(BaselineJudge(**each).settings)) for each in changes}) == 5


@pytest.mark.parametrize("dimension", RUBRICS)
def test_the_baseline_depends_on_the_texts_alone(dimension: str) -> None:
    """Not on the boundary around them; two copies of one text tie without noise and bias."""
    judge = BaselineJudge(noise=1.0)
    one, other = requests(dimension, salt=b"one"), requests(dimension, salt=b"other")
    assert one[0].boundary != other[0].boundary
    assert [judge.answer(each) for each in one] == [judge.answer(each) for each in other]
    plain = BaselineJudge(noise=0, slot_bias=0)
    assert {named(plain, each) for each in requests(dimension, beech=RIGHT)} == {Slot.TIE}


def test_odd_responses_are_judged() -> None:
    """Empty, hostile and very long responses get a verdict like any other."""
    for text in ("", "   ", "\x00<response_a>", "word " * 50_000):
        for dimension in REFERENCES:
            assert all(named(BaselineJudge(), each) for each in requests(dimension, ash=text))


def row(request: JudgeRequest, **changes: object) -> dict[str, object]:
    text, usage = '{"justification": "Recorded.", "winner": "B"}', {"input_tokens": 7}
    answer = Answer("r", Status.OK, text, "judge/x-2026", usage, cost_usd=0.25)
    return verdict_of(request, answer, judge_model="judge/x").as_row() | changes


def replayed(path: Path, *rows: dict[str, object]) -> ReplayJudge:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return ReplayJudge.from_record(path)


def test_a_record_is_replayed_by_dimension_prompt_and_order(tmp_path: Path) -> None:
    """Each answers its own presentation for free; another text makes another judge of it."""
    facts, back = requests("factuality")
    charm, _ = requests("charm")
    said = '{"justification": "Other.", "winner": "tie"}'
    replayed(tmp_path / "verdicts" / "factuality.jsonl", row(facts))
    replayed(tmp_path / "verdicts" / "charm.jsonl", row(charm, raw_text=said))
    judge = ReplayJudge.from_record(tmp_path)
    shared: dict[str, Any] = {"status": Status.OK, "served_model": "judge/x-2026", "cost_usd": 0.0}
    assert collected(judge, [charm, back, facts]) == [
        Answer(request_id=r.request_id, text=text, usage={"input_tokens": 7}, **shared)
        for r, text in ((charm, said), (facts, str(row(facts)["raw_text"])))
    ]
    assert judge.model == "judge/x"
    lines = (row(facts), row(facts), row(facts, raw_text="x"))
    one, same, other = (replayed(tmp_path / f"{n}.jsonl", line) for n, line in enumerate(lines))
    assert one.settings == same.settings != other.settings


def test_a_recorded_failure_is_repeated_as_that_failure(tmp_path: Path) -> None:
    """A recorded failure is repeated with its detail; a malformed recording is named."""
    for status in (Status.REFUSED, Status.EXPIRED, Status.TRUNCATED):
        forward, _ = requests()
        line = row(forward, status=str(status), winner=None, detail="why")
        answer = replayed(tmp_path / "v.jsonl", line).answer(forward)
        assert (answer.status, answer.detail) == (status, "why")
        again = replayed(tmp_path / "v.jsonl", line | {"status": "unparsable"}).answer(forward)
        verdict = verdict_of(forward, again, judge_model="replay")
        assert (verdict.status, verdict.winner) == (Status.OK, Slot.B)
    for line, words in (
        ("{", "not valid JSON"), ("[]", "expected a JSON object, got list"),
        ('{"dimension": "tone"}', "missing prompt_id, first, second, status"),
        (LINE | {"second": 5}, "missing second"),
        (LINE | {"status": "fine"}, "unknown status 'fine'; allowed: ok, refused"),
        (LINE | {"raw_text": 5}, ".*raw_text"), (LINE | {"usage": "many"}, ".*usage"),
        (LINE | {"cost_usd": "free"}, ".*cost_usd"),
    ):  # fmt: skip
        path = tmp_path / "v.jsonl"
        text = line if isinstance(line, str) else json.dumps(line)
        path.write_text(f"{json.dumps(row(requests()[0]))}\n{text}\n", encoding="utf-8")
        with pytest.raises(DataError, match=rf"v\.jsonl:2: {words}"):
            ReplayJudge.from_record(path)
        with pytest.raises(DataError, match=r"no verdicts/\*\.jsonl to replay"):
            ReplayJudge.from_record(tmp_path)
        with pytest.raises(DataError, match=r"gone\.jsonl: no such file"):
            ReplayJudge.from_record(tmp_path / "gone.jsonl")


def test_clients_share_what_verifies_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates are read once, checked against the host, and anew if a variable says so."""
    shared = tls_context()
    assert tls_context() is shared
    assert shared.check_hostname
    assert shared.verify_mode is ssl.CERT_REQUIRED
    monkeypatch.setenv("SSL_CERT_FILE", "no such file")
    with pytest.raises(FileNotFoundError):
        tls_context()
    monkeypatch.delenv("SSL_CERT_FILE")
    assert tls_context().verify_mode is ssl.CERT_REQUIRED
