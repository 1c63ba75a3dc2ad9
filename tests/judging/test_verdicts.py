"""From answers to verdicts, from two verdicts to a judgment, from judgments to battles."""

from dataclasses import replace
from typing import Any

import pytest

from arena_kit.battles.battle import Outcome, Source
from arena_kit.judging.asking.judge_pairs import judge_pairs
from arena_kit.judging.judges.anthropic import AnthropicBatches, client_of
from arena_kit.judging.judges.base import Judge, Price, cache_keys
from arena_kit.judging.judges.baseline import BaselineJudge
from arena_kit.judging.judges.openai_compatible import ChatJudge
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.verdicts import records
from arena_kit.judging.verdicts.records import Answer, Judgment, Margin, Settlement, Slot, Status
from tests import samples
from tests.emulator import Emulator
from tests.samples import MATERIAL, PAIRS, ScriptedJudge, options, settled, verdict

A, B, TIE = Slot.A, Slot.B, Slot.TIE
NOT_OK = [status for status in Status if status is not Status.OK]
FLIPS = [(A, A), (B, B), (A, TIE), (B, TIE), (TIE, A), (TIE, B)]
GAPS = [
    answers
    for status in NOT_OK
    for other in (A, B, TIE, Status.ERRORED)
    for answers in ((status, other), (other, status))
]
GRADED = replace(MATERIAL, graded=True)
#: The keys of a pair under the demo judge, as they were before verdicts could be graded.
BEFORE = [
    "7569740d36a256cba9f2cb638a177b7aca923ca50ab152bc0132a033993e8554",
    "1a8d77bbb96c57e25d31bb647391e99e7e4b1acc45e8c9c81f7f5a630aa6e065",
]


def test_two_answers_settle_a_pair() -> None:
    """A missing answer is never a tie, win, loss or battle; one order alone is a battle."""
    for answers, settlement, winner in (
        ((A, B), Settlement.WINNER, "ash"),
        ((B, A), Settlement.WINNER, "beech"),
        ((TIE, TIE), Settlement.TIE, None),
        *((each, Settlement.INCONSISTENT, None) for each in FLIPS),
        *((each, Settlement.INCOMPLETE, None) for each in GAPS),
    ):
        [found] = settled(answers)
        assert (found.settlement, found.winner) == (settlement, winner)
        battles = records.to_battles([found, *settled((A, B))])
        assert len(battles) == (1 if settlement is Settlement.INCOMPLETE else 2)
    given = settled((A, B), (TIE, TIE), (A, B), (A, A), (Status.REFUSED, A))
    (f0, b0), (f1, b1), (f2, _), (_, b3), (f4, _) = (each.verdicts for each in given)
    found = records.settle_all([b1, f0, b0, f1, f2, b3, f4])
    assert [(j.pair.prompt_id, j.settlement, j.winner) for j in found] == [
        ("q1", Settlement.TIE, None), ("q0", Settlement.WINNER, "ash"),
        ("q2", Settlement.ONE_ORDER, "ash"), ("q3", Settlement.ONE_ORDER, "beech"),
        ("q4", Settlement.INCOMPLETE, None),
    ]  # fmt: skip
    assert [each.verdicts for each in found[1:]] == [(f0, b0), (f2,), (b3,), (f4,)]
    battles = records.to_battles(found)
    assert battles.outcome.tolist() == [2, 0, 0, 1]  # tie, ash, ash, beech
    assert not battles.flags().any()


def test_an_answer_becomes_a_verdict_with_everything_it_carried() -> None:
    """Only an ok answer is read, even when the text of another names a winner."""
    for status in Status:
        shown, _ = records.presentations(PAIRS[0])
        request = records.JudgeRequest(shown, system="s", user="u", boundary="b", attempt=2)
        ok, text = status is Status.OK, '{"justification": "Calm.", "winner": "B"}'
        kept: dict[str, Any] = {
            "served_model": "judge/x-2026", "usage": {"input_tokens": 7}, "cost_usd": 0.25,
            "detail": "why",
        }  # fmt: skip
        answer = Answer(request_id="r", status=status, text=text, **kept)
        found = records.verdict_of(request, answer, judge_model="judge/x", cached=True)
        assert found == records.Verdict(
            presentation=shown, status=status, winner=B if ok else None,
            justification="Calm." if ok else "", raw_text=text, judge_model="judge/x", cached=True,
            attempt=2, **kept,
        )  # fmt: skip
        assert found.winning_entrant == ("beech" if ok else None)


def test_battles_name_the_winning_side() -> None:
    """The first entrant by name is model_a; statuses and settlements count by dimension."""
    judgments = settled((A, B), (B, A), (TIE, TIE), (A, A))
    named = [records.settle(*(v._replace(judge_model="j") for v in j.verdicts)) for j in judgments]
    battles = [*records.to_battles(named).to_battles()]
    won = [(str(b.winner), b.inconsistent) for b in battles]
    assert won == [("model_a", False), ("model_b", False), ("tie", False), ("tie", True)]
    about = {(b.model_a, b.model_b, b.dimension, b.judge_model, b.source) for b in battles}
    assert about == {("ash", "beech", "tone", "j", Source.LLM_JUDGE)}
    assert [b.question_id for b in battles] == ["q0", "q1", "q2", "q3"]
    assert len({b.battle_id for b in battles}) == 4
    judgments = [
        *settled((A, B), (B, A), (A, TIE), (Status.REFUSED, A)),
        *settled((TIE, TIE), (Status.MISSING, Status.MISSING), dimension="facts"),
    ]
    none = dict.fromkeys(map(str, Status), 0)
    assert records.status_counts(judgments) == {
        "tone": {**none, "ok": 7, "refused": 1},
        "facts": {**none, "ok": 2, "missing": 2},
    }
    assert records.settlement_counts(judgments) == {
        "tone": {"winner": 2, "tie": 0, "one_order": 0, "inconsistent": 1, "incomplete": 1},
        "facts": {"winner": 0, "tie": 1, "one_order": 0, "inconsistent": 0, "incomplete": 1},
    }
    named, refused = (j.backward.as_row() for j in settled((A, A), (A, Status.REFUSED)))
    found = [named[name] for name in ("first", "second", "winner", "winning_entrant")]
    assert found == ["beech", "ash", "A", "beech"]
    assert (refused["status"], refused["winner"]) == ("refused", None)


def judged(judge: Judge, ledger: Ledger, n: int = 1) -> list[Judgment]:
    return judge_pairs(PAIRS[:n], GRADED, judge, ledger, options=options())


def test_ungraded_requests_keep_the_keys_that_they_had() -> None:
    """Answers that were paid for before are found again; a graded request has another key."""
    judge = BaselineJudge()
    assert cache_keys(judge, MATERIAL.requests(PAIRS[:1])) == BEFORE
    price = Price(model="m", input=1, output=1)
    claude = AnthropicBatches(
        client=client_of("k", "https://api.anthropic.com"), model="claude-opus-5-5", price=price,
        max_tokens=4096, effort="low",
    )  # fmt: skip
    chat = ChatJudge(
        base_url="http://127.0.0.1:8000/v1", model="m", price=price, max_tokens=1024,
        temperature=0.0, structured="auto", concurrency=4, timeout=300.0,
    )  # fmt: skip
    asked = MATERIAL.requests(PAIRS[:1])
    paid = [key[:16] for each in (claude, chat) for key in cache_keys(each, asked)]
    assert paid == "22369c750ada499f eb247bb5ed6adc47 fbeab75e71d3d41f 49161bfa82b64292".split()
    assert not {*cache_keys(judge, GRADED.requests(PAIRS[:1]))} & {*BEFORE}


@pytest.mark.parametrize(
    ("forward", "backward", "settlement", "outcome", "share"),
    [
        ("A>>B", "B>>A", Settlement.WINNER, Outcome.MODEL_A, None),  # a whole win
        ("A>>B", "B>A", Settlement.WINNER, Outcome.MODEL_A, 0.875),
        ("A>B", "B>A", Settlement.WINNER, Outcome.MODEL_A, 0.75),
        ("B>A", "A>>B", Settlement.WINNER, Outcome.MODEL_B, 0.125),
        ("A=B", "A=B", Settlement.TIE, Outcome.TIE, None),
        ("A>B", "A=B", Settlement.INCONSISTENT, Outcome.TIE, None),
        ("A>>B", "A>B", Settlement.INCONSISTENT, Outcome.TIE, None),
    ],
)
def test_two_orders_settle_as_ungraded_ones_and_their_mean_is_the_share(
    ledger: Ledger, forward: str, backward: str, settlement: Settlement, outcome: Outcome,
    share: float | None,
) -> None:  # fmt: skip
    """Much better counts 1, better 0.75; a share is given where it says more than the winner."""

    def script(request: Any) -> str:
        return verdict(forward if request.presentation.first == "ash" else backward)

    [judgment] = judged(ScriptedJudge(script), ledger)
    (battle,) = records.to_battles([judgment]).to_battles()
    assert (judgment.settlement, battle.winner, battle.share_a) == (settlement, outcome, share)


@pytest.mark.parametrize("structured", ["json_schema", "none"])
def test_a_chat_is_asked_for_grades(ledger: Ledger, emulator: Emulator, structured: str) -> None:
    """With a schema, and by the words of the system text alone."""
    judge = samples.chat_judge(emulator, structured=structured, graded=True)
    judgments = judged(judge, ledger, n=2)
    assert all(v.margin for j in judgments for v in j.verdicts)


def test_the_grammar_of_a_graded_verdict_lists_its_labels(ledger: Ledger) -> None:
    """llama.cpp's grammar has the five labels; the embedded judge grades the winner it names."""
    where: Any = {"address": "http://127.0.0.1:9", "structured": "grammar"}
    judges = (samples.chat_judge(**where, graded=each) for each in (False, True))
    plain, graded = (judge._shape()["grammar"] for judge in judges)
    assert r'winner ::= "\"A\"" | "\"B\"" | "\"tie\""' in plain.splitlines()
    assert r'"\"A>>B\"" | "\"A>B\"" | "\"A=B\"" | "\"B>A\"" | "\"B>>A\""' in graded
    plain = judge_pairs(PAIRS, MATERIAL, BaselineJudge(), ledger)
    graded = judge_pairs(PAIRS, GRADED, BaselineJudge(), ledger)
    assert [j.winner for j in plain] == [j.winner for j in graded]
    assert not any("margin" in v.as_row() for j in plain for v in j.verdicts)
    assert all(v.as_row()["margin"] in {*Margin} for j in graded for v in j.verdicts)
