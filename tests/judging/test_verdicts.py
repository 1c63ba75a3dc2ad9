"""From answers to verdicts, from two verdicts to a judgment, from judgments to battles."""

from __future__ import annotations

import pytest

from arena_kit.battles.battle import Outcome, Source
from arena_kit.judging.pairs.prompts import Pair
from arena_kit.judging.verdicts.records import (
    Answer,
    JudgeRequest,
    Judgment,
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

PAIR = Pair(dimension="tone", prompt_id="q1", entrant_a="ash", entrant_b="beech")
NOT_OK = [status for status in Status if status is not Status.OK]
A, B, TIE = Slot.A, Slot.B, Slot.TIE


def verdicts(
    forward: Slot | Status, backward: Slot | Status, pair: Pair = PAIR
) -> tuple[Verdict, Verdict]:
    """Verdicts of both orders; a status stands for a presentation without an answer."""
    first, second = (
        Verdict(
            presentation=shown,
            status=said if isinstance(said, Status) else Status.OK,
            winner=said if isinstance(said, Slot) else None,
            judge_model="judge/x",
        )
        for shown, said in zip(presentations(pair), (forward, backward), strict=True)
    )
    return first, second


def judgment(
    forward: Slot | Status, backward: Slot | Status, dimension: str = "tone", prompt_id: str = "q1"
) -> Judgment:
    pair = Pair(dimension=dimension, prompt_id=prompt_id, entrant_a="ash", entrant_b="beech")
    return settle(*verdicts(forward, backward, pair))


def request(attempt: int = 1) -> JudgeRequest:
    forward, _ = presentations(PAIR)
    return JudgeRequest(presentation=forward, system="s", user="u", boundary="b", attempt=attempt)


@pytest.mark.parametrize(
    ("forward", "backward", "settlement", "winner"),
    [
        (A, A, Settlement.INCONSISTENT, None),
        (A, B, Settlement.WINNER, "ash"),
        (A, TIE, Settlement.INCONSISTENT, None),
        (B, A, Settlement.WINNER, "beech"),
        (B, B, Settlement.INCONSISTENT, None),
        (B, TIE, Settlement.INCONSISTENT, None),
        (TIE, A, Settlement.INCONSISTENT, None),
        (TIE, B, Settlement.INCONSISTENT, None),
        (TIE, TIE, Settlement.TIE, None),
    ],
)
def test_two_answers_settle_a_pair(
    forward: Slot, backward: Slot, settlement: Settlement, winner: str | None
) -> None:
    """The same entrant twice wins, two ties are a tie, and anything else is inconsistent."""
    found = settle(*verdicts(forward, backward))
    assert (found.settlement, found.winner) == (settlement, winner)
    assert found.pair == PAIR


@pytest.mark.parametrize("status", NOT_OK)
@pytest.mark.parametrize("other", [A, B, TIE, Status.ERRORED])
def test_an_order_without_an_answer_leaves_the_pair_incomplete(
    status: Status, other: Slot | Status
) -> None:
    """Whatever the other order says, a missing answer is never a tie, a win or a loss."""
    for found in (settle(*verdicts(status, other)), settle(*verdicts(other, status))):
        assert (found.settlement, found.winner) == (Settlement.INCOMPLETE, None)


def test_an_order_that_was_never_asked_leaves_the_pair_incomplete() -> None:
    """A pair of which only one order has a verdict at all is incomplete."""
    forward, _ = verdicts(A, B)
    (found,) = settle_all([forward])
    assert (found.settlement, found.winner) == (Settlement.INCOMPLETE, None)


@pytest.mark.parametrize("status", NOT_OK)
def test_only_an_ok_answer_is_read(status: Status) -> None:
    """An answer that ended in another way has no winner, even when its text names one."""
    text = '{"justification": "Calm.", "winner": "A"}'
    answer = Answer(request_id="r", status=status, text=text, detail="why")
    found = verdict_of(request(), answer, judge_model="judge/x")
    assert (found.status, found.winner, found.winning_entrant) == (status, None, None)
    assert (found.raw_text, found.detail) == (text, "why")


def test_an_ok_answer_becomes_a_verdict_with_everything_it_carried() -> None:
    """Winner, justification, raw text, models, usage, cost and attempt are all kept."""
    answer = Answer(
        request_id="r",
        status=Status.OK,
        text='{"justification": "Calm.", "winner": "B"}',
        served_model="judge/x-2026",
        usage={"input_tokens": 7},
        cost_usd=0.25,
    )
    found = verdict_of(request(attempt=2), answer, judge_model="judge/x", cached=True)
    assert found == Verdict(
        presentation=request().presentation,
        status=Status.OK,
        winner=Slot.B,
        justification="Calm.",
        raw_text=answer.text,
        judge_model="judge/x",
        served_model="judge/x-2026",
        usage={"input_tokens": 7},
        cost_usd=0.25,
        cached=True,
        attempt=2,
    )
    assert found.winning_entrant == "beech"


def test_settle_all_joins_orders_by_pair_not_by_position() -> None:
    """Verdicts in any order are joined by pair; pairs keep the order of first appearance."""
    other = Pair(dimension="tone", prompt_id="q2", entrant_a="ash", entrant_b="beech")
    f1, b1 = verdicts(A, B)
    f2, b2 = verdicts(TIE, TIE, other)
    found = settle_all([b2, f1, b1, f2])
    assert [(j.pair.prompt_id, j.settlement) for j in found] == [
        ("q2", Settlement.TIE),
        ("q1", Settlement.WINNER),
    ]
    assert found[1].forward is f1
    assert found[1].backward is b1


def test_battles_name_the_winning_side() -> None:
    """The first entrant by name is model_a, and a battle carries where it came from."""
    both = [judgment(A, B, prompt_id="q1"), judgment(B, A, prompt_id="q2")]
    log = to_battles([*both, judgment(TIE, TIE, prompt_id="q3"), judgment(A, A, prompt_id="q4")])
    first, second, *others = log.to_battles()
    assert [(b.winner, b.inconsistent) for b in others] == [
        (Outcome.TIE, False),
        (Outcome.TIE, True),
    ]
    assert (first.model_a, first.model_b) == ("ash", "beech")
    assert (first.winner, second.winner) == (Outcome.MODEL_A, Outcome.MODEL_B)
    assert (first.question_id, second.question_id) == ("q1", "q2")
    assert (first.dimension, first.judge_model) == ("tone", "judge/x")
    assert first.source is Source.LLM_JUDGE
    assert not first.inconsistent
    assert first.battle_id != second.battle_id


@pytest.mark.parametrize("status", NOT_OK)
def test_an_incomplete_judgment_gives_no_battle(status: Status) -> None:
    """A pair with a missing answer never becomes a battle."""
    log = to_battles([judgment(A, status), judgment(status, TIE), judgment(A, B, prompt_id="q2")])
    assert [b.question_id for b in log.to_battles()] == ["q2"]
    assert len(to_battles([judgment(A, status)])) == 0


def test_statuses_are_counted_per_dimension() -> None:
    """Every verdict is counted once under its status, and absent statuses count zero."""
    judgments = [
        judgment(A, B),
        judgment(Status.REFUSED, A, prompt_id="q2"),
        judgment(Status.MISSING, Status.MISSING, dimension="facts"),
    ]
    none = dict.fromkeys(map(str, Status), 0)
    assert status_counts(judgments) == {
        "tone": {**none, "ok": 3, "refused": 1},
        "facts": {**none, "missing": 2},
    }


def test_settlements_are_counted_per_dimension() -> None:
    """Every pair is counted once under its settlement, and absent ones count zero."""
    judgments = [
        judgment(A, B),
        judgment(B, A, prompt_id="q2"),
        judgment(A, TIE, prompt_id="q3"),
        judgment(TIE, TIE, dimension="facts"),
        judgment(TIE, Status.EXPIRED, dimension="facts", prompt_id="q2"),
    ]
    assert settlement_counts(judgments) == {
        "tone": {"winner": 2, "tie": 0, "inconsistent": 1, "incomplete": 0},
        "facts": {"winner": 0, "tie": 1, "inconsistent": 0, "incomplete": 1},
    }


def test_a_verdict_row_tells_slot_and_entrant() -> None:
    """A verdict's row names the slot and the entrant that stood in it."""
    _, backward = verdicts(A, A)
    row = backward.as_row()
    assert (row["first"], row["second"]) == ("beech", "ash")
    assert (row["winner"], row["winning_entrant"]) == ("A", "beech")
    _, refused = verdicts(A, Status.REFUSED)
    assert (refused.as_row()["status"], refused.as_row()["winner"]) == ("refused", None)
