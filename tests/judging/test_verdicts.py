"""From answers to verdicts, from two verdicts to a judgment, from judgments to battles."""

from __future__ import annotations

import pytest

from arena_kit.battles.battle import Outcome, Source
from arena_kit.judging.verdicts.records import (
    Answer,
    JudgeRequest,
    Settlement,
    Slot,
    Status,
    Verdict,
)
from arena_kit.judging.verdicts.settle import (
    presentations,
    settle,
    settle_all,
    settlement_counts,
    status_counts,
    to_battles,
    verdict_of,
)
from tests.samples import PAIRS, settled

NOT_OK = [status for status in Status if status is not Status.OK]
A, B, TIE = Slot.A, Slot.B, Slot.TIE


@pytest.mark.parametrize(
    ("said", "settlement", "winner"),
    [
        ((A, B), Settlement.WINNER, "ash"),
        ((B, A), Settlement.WINNER, "beech"),
        ((TIE, TIE), Settlement.TIE, None),
        *(
            (said, Settlement.INCONSISTENT, None)
            for said in ((A, A), (B, B), (A, TIE), (B, TIE), (TIE, A), (TIE, B))
        ),
        *(
            (said, Settlement.INCOMPLETE, None)
            for status in NOT_OK
            for other in (A, B, TIE, Status.ERRORED)
            for said in ((status, other), (other, status))
        ),
    ],
)
def test_two_answers_settle_a_pair(
    said: tuple[Slot | Status, Slot | Status], settlement: Settlement, winner: str | None
) -> None:
    """The same entrant twice wins, two ties are a tie, anything else is inconsistent; a missing
    answer is never a tie, a win or a loss, and never becomes a battle.
    """
    [found] = settled(said)
    assert (found.settlement, found.winner) == (settlement, winner)
    battles = to_battles([found, *settled((A, B))])
    assert len(battles) == (1 if settlement is Settlement.INCOMPLETE else 2)


def test_settle_all_joins_orders_by_pair_not_by_position() -> None:
    """Verdicts in any order are joined by pair; pairs keep the order of first appearance; one of
    which only one order has a verdict at all is incomplete.
    """
    (f0, b0), (f1, b1), (f2, _) = (j.verdicts for j in settled((A, B), (TIE, TIE), (A, B)))
    found = settle_all([b1, f0, b0, f1, f2])
    assert [(j.pair.prompt_id, j.settlement) for j in found] == [
        ("q1", Settlement.TIE),
        ("q0", Settlement.WINNER),
        ("q2", Settlement.INCOMPLETE),
    ]
    assert found[1].forward is f0
    assert found[1].backward is b0


@pytest.mark.parametrize("status", Status)
def test_an_answer_becomes_a_verdict_with_everything_it_carried(status: Status) -> None:
    """Winner, justification, raw text, models, usage, cost and attempt are all kept; only an ok
    answer is read, even when the text of another names a winner.
    """
    shown, _ = presentations(PAIRS[0])
    request = JudgeRequest(presentation=shown, system="s", user="u", boundary="b", attempt=2)
    answer = Answer(
        request_id="r",
        status=status,
        text='{"justification": "Calm.", "winner": "B"}',
        served_model="judge/x-2026",
        usage={"input_tokens": 7},
        cost_usd=0.25,
        detail="why",
    )
    ok = status is Status.OK
    found = verdict_of(request, answer, judge_model="judge/x", cached=True)
    assert found == Verdict(
        presentation=shown,
        status=status,
        winner=Slot.B if ok else None,
        justification="Calm." if ok else "",
        raw_text=answer.text,
        judge_model="judge/x",
        served_model="judge/x-2026",
        usage={"input_tokens": 7},
        cost_usd=0.25,
        detail="why",
        cached=True,
        attempt=2,
    )
    assert found.winning_entrant == ("beech" if ok else None)


def test_battles_name_the_winning_side() -> None:
    """The first entrant by name is model_a, and a battle carries where it came from."""
    judgments = settled((A, B), (B, A), (TIE, TIE), (A, A))
    named = [settle(*(v._replace(judge_model="j") for v in each.verdicts)) for each in judgments]
    battles = [*to_battles(named).to_battles()]
    assert [(b.winner, b.inconsistent) for b in battles] == [
        (Outcome.MODEL_A, False),
        (Outcome.MODEL_B, False),
        (Outcome.TIE, False),
        (Outcome.TIE, True),
    ]
    assert {(b.model_a, b.model_b, b.dimension, b.judge_model, b.source) for b in battles} == {
        ("ash", "beech", "tone", "j", Source.LLM_JUDGE)
    }
    assert [b.question_id for b in battles] == ["q0", "q1", "q2", "q3"]
    assert len({b.battle_id for b in battles}) == 4


def test_statuses_and_settlements_are_counted_per_dimension() -> None:
    """Every verdict and every pair is counted once, and what is absent counts zero."""
    judgments = [
        *settled((A, B), (B, A), (A, TIE), (Status.REFUSED, A)),
        *settled((TIE, TIE), (Status.MISSING, Status.MISSING), dimension="facts"),
    ]
    none = dict.fromkeys(map(str, Status), 0)
    assert status_counts(judgments) == {
        "tone": {**none, "ok": 7, "refused": 1},
        "facts": {**none, "ok": 2, "missing": 2},
    }
    assert settlement_counts(judgments) == {
        "tone": {"winner": 2, "tie": 0, "inconsistent": 1, "incomplete": 1},
        "facts": {"winner": 0, "tie": 1, "inconsistent": 0, "incomplete": 1},
    }


def test_a_verdict_row_tells_slot_and_entrant() -> None:
    """A verdict's row names the slot and the entrant that stood in it."""
    named, refused = (j.backward.as_row() for j in settled((A, A), (A, Status.REFUSED)))
    assert (named["first"], named["second"]) == ("beech", "ash")
    assert (named["winner"], named["winning_entrant"]) == ("A", "beech")
    assert (refused["status"], refused["winner"]) == ("refused", None)
