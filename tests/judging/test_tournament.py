"""Judging a tournament: every answer asked once, none lost, none invented."""

from __future__ import annotations

import gc
from dataclasses import replace
from itertools import permutations

import pytest

from arena_kit.judging.asking.judge_pairs import OfflineError, judge_pairs
from arena_kit.judging.ledger.ledger import Ledger
from arena_kit.judging.pairs.prompts import Response
from arena_kit.judging.verdicts.records import JudgeRequest, Settlement, Status
from tests.samples import ENTRANTS, MATERIAL, PAIRS, PROMPTS, ScriptedJudge, outcomes, statuses

FIRST_ASKED = {
    f"tone|{prompt_id}|{first}|{second}#1"
    for prompt_id in PROMPTS
    for first, second in permutations(ENTRANTS, 2)
}


def by_name(request: JudgeRequest) -> str:
    """Names the entrant that comes first in the alphabet, in whichever slot it stands."""
    shown = request.presentation
    winner = "A" if shown.first < shown.second else "B"
    return f'{{"justification": "By name.", "winner": "{winner}"}}'


def test_both_orders_of_every_pair_are_asked_once(ledger: Ledger) -> None:
    """Six pairs make twelve requests, each once, and are settled in the order given."""
    judge = ScriptedJudge(by_name)
    judgments = judge_pairs(PAIRS, MATERIAL, judge, ledger)
    assert len(judge.asked) == 12
    assert set(judge.asked) == FIRST_ASKED
    assert outcomes(judgments) == [(p, Settlement.WINNER, p.entrant_a) for p in PAIRS]
    assert len(ledger) == 12
    assert {v.judge_model for j in judgments for v in (j.forward, j.backward)} == {"scripted/v1"}


def test_garbage_is_collected_as_before_afterwards(ledger: Ledger) -> None:
    """Judging collects garbage rarely, and leaves the collector as it was, after an error too."""
    before = gc.get_threshold()
    seen = []

    def watched(request: JudgeRequest) -> str:
        seen.append(gc.get_threshold())
        return by_name(request)

    judge_pairs(PAIRS, MATERIAL, ScriptedJudge(watched), ledger)
    assert seen[0] > before
    with pytest.raises(OfflineError):
        judge_pairs(PAIRS, MATERIAL, ScriptedJudge(by_name), ledger, repetition=1, offline=True)
    assert gc.get_threshold() == before


def test_a_second_run_asks_nothing(ledger: Ledger) -> None:
    """A run on a full cache asks nothing and settles the same, its verdicts marked cached."""
    first = judge_pairs(PAIRS, MATERIAL, ScriptedJudge(by_name), ledger)
    judge = ScriptedJudge(by_name)
    second = judge_pairs(PAIRS, MATERIAL, judge, ledger)
    assert judge.asked == []
    assert outcomes(second) == outcomes(first)
    assert [j.forward._replace(cached=False) for j in second] == [j.forward for j in first]
    assert not any(v.cached for j in first for v in (j.forward, j.backward))
    assert all(v.cached for j in second for v in (j.forward, j.backward))


def test_a_changed_response_is_asked_again_and_no_other(ledger: Ledger) -> None:
    """Rewriting one response asks again for its own two pairs in both orders."""
    judge_pairs(PAIRS, MATERIAL, ScriptedJudge(by_name), ledger)
    new = Response(entrant_id="ash", prompt_id="q1", response_text="Rewritten.")
    changed = replace(MATERIAL, responses={**MATERIAL.responses, ("ash", "q1"): new})
    judge = ScriptedJudge(by_name)
    judge_pairs(PAIRS, changed, judge, ledger)
    assert len(judge.asked) == 4
    assert set(judge.asked) == {i for i in FIRST_ASKED if "|q1|" in i and "ash" in i}


@pytest.mark.parametrize(
    "other",
    [
        ScriptedJudge(by_name, model="scripted/v2"),
        ScriptedJudge(by_name, settings={"effort": "low"}),
    ],
    ids=["model", "settings"],
)
def test_another_judge_is_asked_for_itself(ledger: Ledger, other: ScriptedJudge) -> None:
    """Answers of one judge do not serve a judge with another model or other settings."""
    judge_pairs(PAIRS, MATERIAL, ScriptedJudge(by_name), ledger)
    judge_pairs(PAIRS, MATERIAL, other, ledger)
    assert set(other.asked) == FIRST_ASKED


def test_offline_lists_only_what_is_missing(ledger: Ledger) -> None:
    """Offline on a cache of one prompt names the six requests of the other."""
    judge_pairs(PAIRS[:3], MATERIAL, ScriptedJudge(by_name), ledger)
    judge, missing = ScriptedJudge(by_name), {i for i in FIRST_ASKED if "|q2|" in i}
    with pytest.raises(OfflineError, match="6 verdicts are not in the cache") as caught:
        judge_pairs(PAIRS, MATERIAL, judge, ledger, offline=True)
    assert set(caught.value.missing) == missing
    assert "tone|q2|cherry|beech#1" in str(caught.value)
    assert judge.asked == []
    judge_pairs(PAIRS, MATERIAL, judge, ledger)
    assert (len(judge.asked), {*judge.asked}) == (6, missing)


@pytest.mark.parametrize("max_attempts", [1, 2, 3])
def test_an_unreadable_answer_is_asked_for_a_bounded_number_of_times(
    ledger: Ledger, max_attempts: int
) -> None:
    """A judge that never names a winner is asked max_attempts times and stays unparsable."""
    judge = ScriptedJudge(lambda request: "Hard to say.")
    judgments = judge_pairs(PAIRS[:1], MATERIAL, judge, ledger, max_attempts=max_attempts)
    assert sorted(judge.asked) == sorted(
        f"tone|q1|{order}#{attempt}"
        for order in ("ash|beech", "beech|ash")
        for attempt in range(1, max_attempts + 1)
    )
    assert statuses(judgments) == [Status.UNPARSABLE, Status.UNPARSABLE]
    assert outcomes(judgments) == [(PAIRS[0], Settlement.INCOMPLETE, None)]
    assert judgments[0].forward.raw_text == "Hard to say."


def test_only_the_unreadable_order_is_asked_again(ledger: Ledger) -> None:
    """A re-ask that can be read replaces the unreadable answer and no other."""

    def script(request: JudgeRequest) -> str:
        first_try = request.request_id == "tone|q1|beech|ash#1"
        return "Hard to say." if first_try else by_name(request)

    judge = ScriptedJudge(script)
    judgments = judge_pairs(PAIRS, MATERIAL, judge, ledger)
    assert set(judge.asked) - FIRST_ASKED == {"tone|q1|beech|ash#2"}
    assert outcomes(judgments)[0] == (PAIRS[0], Settlement.WINNER, "ash")
    assert (judgments[0].forward.attempt, judgments[0].backward.attempt) == (1, 2)


def test_offline_keeps_the_status_of_a_cached_unparsable_answer(ledger: Ledger) -> None:
    """Offline, a cached answer that cannot be read is not missing: it stays unparsable."""

    def script(request: JudgeRequest) -> str:
        return "Hard to say." if request.presentation.first == "ash" else by_name(request)

    judge_pairs(PAIRS, MATERIAL, ScriptedJudge(script), ledger, max_attempts=1)
    judge = ScriptedJudge(by_name)
    judgments = judge_pairs(PAIRS, MATERIAL, judge, ledger, offline=True, max_attempts=3)
    assert judge.asked == []
    assert statuses(judgments).count(Status.UNPARSABLE) == 4
    assert statuses(judgments).count(Status.OK) == 8


@pytest.mark.parametrize(
    ("status", "paid"),
    [
        (Status.ERRORED, False),
        (Status.EXPIRED, False),
        (Status.CANCELED, False),
        (None, False),
        (Status.REFUSED, True),
        (Status.TRUNCATED, True),
    ],
)
def test_only_unpaid_failures_are_asked_again(
    ledger: Ledger, status: Status | None, paid: bool
) -> None:
    """An answer that failed or is missing is counted, not settled; where it was not paid for, it
    is asked for on the next run.
    """

    def script(request: JudgeRequest) -> str | Status | None:
        return status if request.presentation.first == "cherry" else by_name(request)

    judge = ScriptedJudge(script)
    judgments = judge_pairs(PAIRS, MATERIAL, judge, ledger)
    assert len(judge.asked) == 12
    assert statuses(judgments).count(status or Status.MISSING) == 4
    assert [j.settlement for j in judgments].count(Settlement.INCOMPLETE) == 4
    assert len(ledger) == (12 if paid else 8)
    again = ScriptedJudge(by_name)
    judgments = judge_pairs(PAIRS, MATERIAL, again, ledger)
    failed = {i for i in FIRST_ASKED if i.split("|")[2] == "cherry"}
    assert set(again.asked) == (set() if paid else failed)
    assert statuses(judgments).count(Status.OK) == (8 if paid else 12)


def test_equal_texts_share_one_answer(ledger: Ledger) -> None:
    """Two entrants with the same words are asked about once, and both get the verdict."""
    same = Response(entrant_id="beech", prompt_id="q1", response_text="3 words on q1.")
    twin = Response(entrant_id="cherry", prompt_id="q1", response_text="3 words on q1.")
    shown = {**MATERIAL.responses, ("beech", "q1"): same, ("cherry", "q1"): twin}
    judge = ScriptedJudge(lambda request: '{"winner": "A"}')
    pairs = [PAIRS[0], PAIRS[1]]
    judgments = judge_pairs(pairs, replace(MATERIAL, responses=shown), judge, ledger)
    assert len(judge.asked) == 2
    assert [j.pair for j in judgments] == pairs
    assert statuses(judgments) == [Status.OK] * 4


def test_a_judge_that_fails_midway_keeps_what_it_answered(ledger: Ledger) -> None:
    """Answers given before a crash are in the cache, and the next run asks for the rest."""
    judge = ScriptedJudge(by_name)

    def script(request: JudgeRequest) -> str:
        if len(judge.asked) == 6:
            raise ConnectionError("the line went dead")
        return by_name(request)

    judge.script = script
    with pytest.raises(ConnectionError, match="the line went dead"):
        judge_pairs(PAIRS, MATERIAL, judge, ledger)
    assert len(ledger) == 5

    again = ScriptedJudge(by_name)
    judgments = judge_pairs(PAIRS, MATERIAL, again, ledger)
    assert len(again.asked) == 7
    assert set(again.asked) == FIRST_ASKED - set(judge.asked[:5])
    assert set(statuses(judgments)) == {Status.OK}


def test_progress_counts_cached_and_new_answers_to_the_end(ledger: Ledger) -> None:
    """Progress begins with what is cached, rises one by one and ends with all."""
    judge_pairs(PAIRS[:3], MATERIAL, ScriptedJudge(by_name), ledger)
    seen: list[tuple[int, int]] = []

    def note(done: int, total: int) -> None:
        seen.append((done, total))

    judge_pairs(PAIRS, MATERIAL, ScriptedJudge(by_name), ledger, on_progress=note)
    assert seen == [(done, 12) for done in range(6, 13)]
