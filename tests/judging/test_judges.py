"""The judges that ship: the lexical baseline, the replay of a record, and the script; and what all
paid ones share.
"""

from __future__ import annotations

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
from arena_kit.judging.verdicts.parsing import read_verdict
from arena_kit.judging.verdicts.records import (
    Answer,
    JudgeRequest,
    Settlement,
    Slot,
    Status,
    Verdict,
)
from arena_kit.judging.verdicts.rendering import Reference, Rubric, render
from arena_kit.judging.verdicts.settle import settle, verdict_of
from tests.samples import SAMPLE

ENTRANTS = ["aspen", "birch", "cedar", "dogwood"]
REFERENCES: dict[str, Reference] = {
    "factuality": "gold_answer",
    "calibration": "expected_behavior",
    "clinical_utility": "none",
}
GOLD = "Xanthine oxidase; marrow suppression follows, so cut azathioprine to a quarter."
RIGHT = "It blocks xanthine oxidase. Cut azathioprine to a quarter to spare the marrow."
WRONG = "It blocks the sodium pump, and the two drugs go together very well."


def requests(
    dimension: str = "factuality", salt: bytes = b"salt", ash: str = RIGHT, beech: str = WRONG
) -> tuple[JudgeRequest, JudgeRequest]:
    """One pair in both orders; ash stands first in the first of them."""
    prompt = Prompt(prompt_id="q1", text="What does it do?", source="plain", gold_answer=GOLD)
    reference = REFERENCES.get(dimension, "none")
    rubric = Rubric(dimension=dimension, version="1", text="Compare.", reference=reference)
    responses = {
        (name, "q1"): Response(entrant_id=name, prompt_id="q1", response_text=text)
        for name, text in (("ash", ash), ("beech", beech))
    }
    pair = Pair(dimension=dimension, prompt_id="q1", entrant_a="ash", entrant_b="beech")
    return render(pair, prompt=prompt, responses=responses, rubric=rubric, salt=salt)


@pytest.fixture(scope="module")
def sample_requests() -> list[tuple[JudgeRequest, JudgeRequest]]:
    """Every pair of the first prompts of each stratum of the shipped sample, in both orders."""
    bank = read_prompts(SAMPLE / "prompts.jsonl")
    responses = read_responses(SAMPLE / "responses", ENTRANTS, [p.prompt_id for p in bank])
    some = [
        p for s in sorted({p.source for p in bank}) for p in [q for q in bank if q.source == s][:4]
    ]
    found = []
    for dimension, reference in REFERENCES.items():
        rubric = Rubric(dimension=dimension, version="1", text="Compare.", reference=reference)
        for prompt in some:
            if reference == "gold_answer" and not prompt.gold_answer:
                continue
            for a, b in combinations(ENTRANTS, 2):
                pair = Pair(
                    dimension=dimension, prompt_id=prompt.prompt_id, entrant_a=a, entrant_b=b
                )
                found.append(
                    render(pair, prompt=prompt, responses=responses, rubric=rubric, salt=b"s")
                )
    return found


LINE = {"dimension": "d", "prompt_id": "q", "first": "a", "second": "b", "status": "ok"} | {
    "raw_text": ""
}


def collected(judge: ImmediateJudge, asked: list[JudgeRequest]) -> list[Answer]:
    answers = [judge.answer(request) for request in asked]
    return [answer for answer in answers if answer is not None]


def named(judge: BaselineJudge, request: JudgeRequest) -> Slot | None:
    return read_verdict(judge.answer(request).text).winner


def settlement(judge: BaselineJudge, both: tuple[JudgeRequest, JudgeRequest]) -> Settlement:
    first, second = (verdict_of(r, judge.answer(r), judge_model=judge.model) for r in both)
    return settle(first, second).settlement


def recording(path: Path, *rows: dict[str, object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def row(request: JudgeRequest, **changes: object) -> dict[str, object]:
    """A verdict line as a run record holds it."""
    verdict = Verdict(
        presentation=request.presentation,
        status=Status.OK,
        winner=Slot.B,
        raw_text='{"justification": "Recorded.", "winner": "B"}',
        judge_model="judge/x",
        served_model="judge/x-2026",
        usage={"input_tokens": 7},
        cost_usd=0.25,
    )
    return verdict.as_row() | changes


def test_the_baseline_answers_deterministically_under_its_name(
    sample_requests: list[tuple[JudgeRequest, JudgeRequest]],
) -> None:
    """Two judges with the same settings give the same readable answers, for nothing."""
    asked = [request for both in sample_requests for request in both]
    answers = collected(BaselineJudge(), asked)
    assert answers == collected(BaselineJudge(), asked)
    assert [a.request_id for a in answers] == [r.request_id for r in asked]
    assert {(a.status, a.cost_usd, a.served_model) for a in answers} == {
        (Status.OK, 0.0, "baseline/lexical-v1")
    }
    assert all(read_verdict(a.text).winner and read_verdict(a.text).justification for a in answers)


@pytest.mark.parametrize("dimension", [*REFERENCES, "charm"])
def test_the_baseline_does_not_depend_on_the_salt(dimension: str) -> None:
    """Another boundary around the same texts changes nothing."""
    judge = BaselineJudge(noise=1.0)
    one, other = requests(dimension, salt=b"one"), requests(dimension, salt=b"other")
    assert one[0].boundary != other[0].boundary
    assert [judge.answer(each) for each in one] == [judge.answer(each) for each in other]


def test_noise_seed_and_slot_bias_do_what_they_say(
    sample_requests: list[tuple[JudgeRequest, JudgeRequest]],
) -> None:
    """Without noise and bias no pair is inconsistent and the seed does not matter; noise differs
    between the two orders; a bias of 10 names A in every order. Each is a declared setting.
    """

    def settled(**settings: Any) -> list[Settlement]:
        return [settlement(BaselineJudge(**settings), both) for both in sample_requests]

    plain = settled(noise=0, slot_bias=0)
    assert {*plain} == {Settlement.WINNER, Settlement.TIE}
    assert settled(noise=0, slot_bias=0, seed=1) == plain
    noisy = settled(noise=0.3, slot_bias=0)
    assert Settlement.INCONSISTENT in noisy
    assert settled(noise=0.3, slot_bias=0, seed=1) != noisy
    assert {*settled(slot_bias=10)} == {Settlement.INCONSISTENT}
    changes: list[Any] = [{}, {"noise": 0.5}, {"slot_bias": 0.5}, {"tie_margin": 0.5}, {"seed": 5}]
    assert len({json.dumps(dict(BaselineJudge(**each).settings)) for each in changes}) == 5


def test_the_baseline_prefers_the_response_that_matches_the_gold() -> None:
    """On factuality the response with the gold answer's content wins in either slot."""
    forward, backward = requests()
    judge = BaselineJudge()
    assert (named(judge, forward), named(judge, backward)) == (Slot.A, Slot.B)


@pytest.mark.parametrize("dimension", [*REFERENCES, "charm"])
def test_equal_responses_are_a_tie(dimension: str) -> None:
    """Two copies of one text tie without noise and bias, on any dimension, known or not."""
    judge = BaselineJudge(noise=0, slot_bias=0)
    for request in requests(dimension, ash=RIGHT, beech=RIGHT):
        assert named(judge, request) is Slot.TIE


@pytest.mark.parametrize("text", ["", "   ", "\x00<response_a>", "word " * 50_000])
def test_odd_responses_are_judged(text: str) -> None:
    """Empty, hostile and very long responses get a verdict like any other."""
    for dimension in REFERENCES:
        for request in requests(dimension, ash=text):
            assert named(BaselineJudge(), request) is not None


def test_a_record_is_replayed_by_dimension_prompt_and_order(tmp_path: Path) -> None:
    """Each recorded verdict answers its own presentation, with its text and usage, for free."""
    facts, back = requests("factuality")
    charm, _ = requests("charm")
    said = '{"justification": "Other.", "winner": "tie"}'
    recording(tmp_path / "verdicts" / "factuality.jsonl", row(facts))
    recording(tmp_path / "verdicts" / "charm.jsonl", row(charm, raw_text=said))
    judge = ReplayJudge.from_record(tmp_path)
    answers = collected(judge, [charm, back, facts])
    assert answers == [
        Answer(
            request_id=request.request_id,
            status=Status.OK,
            text=text,
            served_model="judge/x-2026",
            usage={"input_tokens": 7},
            cost_usd=0.0,
        )
        for request, text in ((charm, said), (facts, str(row(facts)["raw_text"])))
    ]
    assert judge.model == "judge/x"


@pytest.mark.parametrize("status", [Status.REFUSED, Status.EXPIRED, Status.TRUNCATED])
def test_a_recorded_failure_is_repeated_as_that_failure(tmp_path: Path, status: Status) -> None:
    """A verdict recorded as failed fails in the same way again, with its detail."""
    forward, _ = requests()
    line = row(forward, status=str(status), winner=None, detail="why")
    answer = ReplayJudge.from_record(recording(tmp_path / "v.jsonl", line)).answer(forward)
    assert answer is not None
    assert (answer.status, answer.detail) == (status, "why")


def test_a_recorded_unparsable_text_is_read_again(tmp_path: Path) -> None:
    """A text recorded as unparsable is read anew, so that a better reader can use it."""
    forward, _ = requests()
    line = row(forward, status="unparsable", winner=None)
    answer = ReplayJudge.from_record(recording(tmp_path / "v.jsonl", line)).answer(forward)
    verdict = verdict_of(forward, answer, judge_model="replay")
    assert (verdict.status, verdict.winner) == (Status.OK, Slot.B)


def test_another_recording_has_other_settings(tmp_path: Path) -> None:
    """Two recordings that differ in one text are not mistaken for one another in a cache."""
    forward, _ = requests()
    one = ReplayJudge.from_record(recording(tmp_path / "1.jsonl", row(forward)))
    same = ReplayJudge.from_record(recording(tmp_path / "2.jsonl", row(forward)))
    other = ReplayJudge.from_record(recording(tmp_path / "3.jsonl", row(forward, raw_text="x")))
    assert one.settings == same.settings != other.settings


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "expected a JSON object, got list"),
        ('{"dimension": "tone"}', "missing prompt_id, first, second, status"),
        (
            '{"dimension": "d", "prompt_id": "q", "first": "a", "second": 5, "status": "ok"}',
            "missing second",
        ),
        (
            (
                '{"dimension": "d", "prompt_id": "q", "first": "a", "second": "b", '
                '"status": "fine", "raw_text": ""}'
            ),
            "unknown status 'fine'; allowed: ok, refused",
        ),
        *(
            (json.dumps({**LINE, field: value}), f".*{field}")
            for field, value in [("raw_text", 5), ("usage", "many"), ("cost_usd", "free")]
        ),
    ],
)
def test_a_malformed_recording_is_refused_with_its_line(
    tmp_path: Path, line: str, words: str
) -> None:
    """A line that is no verdict is refused, naming file, line and what is wrong."""
    path = recording(tmp_path / "v.jsonl", row(requests()[0]))
    with path.open("a", encoding="utf-8") as out:
        out.write(line + "\n")
    with pytest.raises(DataError, match=rf"v\.jsonl:2: {words}"):
        ReplayJudge.from_record(path)


def test_a_folder_without_verdicts_is_refused(tmp_path: Path) -> None:
    """A folder that holds no verdicts, and a file that is not there, are named."""
    with pytest.raises(DataError, match=r"no verdicts/\*\.jsonl to replay"):
        ReplayJudge.from_record(tmp_path)
    with pytest.raises(DataError, match=r"gone\.jsonl: no such file"):
        ReplayJudge.from_record(tmp_path / "gone.jsonl")


def test_clients_share_what_verifies_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates are read once a process, still checked against the host, and read anew where a
    variable names others.
    """
    shared = tls_context()
    assert tls_context() is shared
    assert shared.check_hostname
    assert shared.verify_mode is ssl.CERT_REQUIRED
    monkeypatch.setenv("SSL_CERT_FILE", "no such file")
    with pytest.raises(FileNotFoundError):
        tls_context()
    monkeypatch.delenv("SSL_CERT_FILE")
    assert tls_context().verify_mode is ssl.CERT_REQUIRED
